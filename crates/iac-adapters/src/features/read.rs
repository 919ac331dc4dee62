//! Reading packs of features.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use iac_format::{Element, ElementType};
use iac_reader::{FixedRecordPack, Matrix, PackReader, ReadOptions};
use serde_json::Value;

use crate::error::{AdapterError, Result};
use crate::features::{TEACHER_FEATURES, TEACHER_FEATURES_V2};
use crate::record::{RecordTable, Slide, TileRecord};
use crate::table::{Positions, TileTable};

/// Reads a pack of teacher features.
///
/// Payload type, shape and tables are checked when it is opened; ids are indexed on first use (12
/// bytes for each row at most). Clones share everything and work from any number of threads at once.
#[derive(Clone)]
pub struct FeaturePackReader {
    rows: FixedRecordPack,
    table: Arc<TileTable>,
}

impl FeaturePackReader {
    /// Opens a pack with default options.
    ///
    /// # Errors
    ///
    /// As [`from_reader`](Self::from_reader), and those of [`PackReader::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::from_reader(PackReader::open(path)?)
    }

    /// Opens a pack.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn open_with(path: impl AsRef<Path>, options: &ReadOptions) -> Result<Self> {
        Self::from_reader(PackReader::open_with(path, options)?)
    }

    /// Reads a pack that is open already.
    ///
    /// # Errors
    ///
    /// [`AdapterError::PayloadType`] when it holds no features; [`AdapterError::Schema`] when
    /// header or tables break a rule of the schema; [`AdapterError::Read`] when they are damaged.
    pub fn from_reader(pack: PackReader) -> Result<Self> {
        let found = pack.header().payload_type();
        if !matches!(found, Some(TEACHER_FEATURES | TEACHER_FEATURES_V2)) {
            return Err(AdapterError::PayloadType {
                path: pack.path().to_owned(),
                found: found.map(str::to_owned),
                expected: TEACHER_FEATURES,
            });
        }
        let rows = FixedRecordPack::from_reader(pack.clone())?;
        let table =
            TileTable::open(&pack, Positions::Grid, ["tile_x", "tile_y"], ("features", "bin"))?;
        Ok(Self { rows, table: Arc::new(table) })
    }

    /// The pack: header, tables, stored bytes.
    #[must_use]
    pub const fn reader(&self) -> &PackReader {
        self.rows.reader()
    }

    /// Rows as numbers, for what this reader does not do itself.
    #[must_use]
    pub const fn fixed(&self) -> &FixedRecordPack {
        &self.rows
    }

    /// Name of the teacher, where the header has one.
    #[must_use]
    pub fn teacher(&self) -> Option<&str> {
        self.reader().header().get("teacher").and_then(Value::as_str)
    }

    /// Number of vectors.
    #[must_use]
    pub fn record_count(&self) -> u64 {
        self.table.rows()
    }

    /// Elements of each vector.
    #[must_use]
    pub const fn dim(&self) -> usize {
        self.rows.dim()
    }

    /// The type of the stored elements.
    #[must_use]
    pub const fn dtype(&self) -> ElementType {
        self.rows.element()
    }

    /// The slides that rows belong to.
    #[must_use]
    pub fn slides(&self) -> &[Slide] {
        self.table.slides()
    }

    /// The id of a row.
    ///
    /// # Errors
    ///
    /// [`AdapterError::RowOutOfRange`]; [`AdapterError::Schema`] when it has none.
    pub fn tile_id(&self, row: u64) -> Result<&str> {
        self.table.id(row)
    }

    /// The row of an id, where there is one.
    ///
    /// The first call looks through the ids; the second one indexes them.
    ///
    /// # Errors
    ///
    /// [`AdapterError::Schema`] when this id is repeated; from the second call on, when any is
    /// missing or repeated.
    pub fn find(&self, tile_id: &str) -> Result<Option<u64>> {
        self.table.find(tile_id)
    }

    /// The row of an id.
    ///
    /// # Errors
    ///
    /// [`AdapterError::UnknownId`] when there is none; otherwise as [`find`](Self::find).
    pub fn row_of(&self, tile_id: &str) -> Result<u64> {
        self.table.row_of(tile_id)
    }

    /// The record of a row; its path is made up, and it has a split only where the pack has.
    ///
    /// # Errors
    ///
    /// [`AdapterError::RowOutOfRange`]; [`AdapterError::Schema`] when the tables or the strides do
    /// not tell it.
    pub fn record(&self, row: u64) -> Result<TileRecord> {
        self.table.record(row, self.table.scale()?)
    }

    /// All records in order.
    ///
    /// # Errors
    ///
    /// [`AdapterError::Schema`] at once when strides are missing or ids repeated; then as
    /// [`record`](Self::record).
    pub fn records(&self) -> Result<impl Iterator<Item = Result<TileRecord>>> {
        let scale = self.table.scale()?;
        self.table.index()?;
        let table = Arc::clone(&self.table);
        Ok((0..table.rows()).map(move |row| table.record(row, scale)))
    }

    /// All records in columns, to build another pack for the same tiles.
    ///
    /// # Errors
    ///
    /// As [`records`](Self::records).
    pub fn record_table(&self) -> Result<RecordTable> {
        self.table.record_table()
    }

    /// One vector in its stored type, little-endian.
    ///
    /// # Errors
    ///
    /// [`AdapterError::RowOutOfRange`] and [`AdapterError::Read`].
    pub fn read(&self, row: u64) -> Result<Bytes> {
        self.table.check_row(row)?;
        Ok(self.rows.read(row)?)
    }

    /// One vector as `f32`, the nearest numbers that it can express.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    pub fn read_f32(&self, row: u64) -> Result<Vec<f32>> {
        self.read_many_f32(&[row])
    }

    /// The vector of an id as `f32`.
    ///
    /// # Errors
    ///
    /// As [`row_of`](Self::row_of) and [`read`](Self::read).
    pub fn read_f32_by_id(&self, tile_id: &str) -> Result<Vec<f32>> {
        self.read_f32(self.row_of(tile_id)?)
    }

    /// Many vectors as `f32`, row after row, in the order asked for, duplicates included.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    pub fn read_many_f32(&self, rows: &[u64]) -> Result<Vec<f32>> {
        self.check_rows(rows)?;
        Ok(self.rows.read_many_f32(rows)?)
    }

    /// The same into memory of the caller's.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read), also when there is room for another number of elements.
    pub fn read_many_f32_into(&self, rows: &[u64], elements: &mut [f32]) -> Result<()> {
        self.check_rows(rows)?;
        Ok(self.rows.read_many_f32_into(rows, elements)?)
    }

    /// Many vectors in their stored type.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    pub fn read_matrix(&self, rows: &[u64]) -> Result<Matrix> {
        self.check_rows(rows)?;
        Ok(self.rows.read_matrix(rows)?)
    }

    /// All vectors where they lie in the mapped file: nothing is copied or compared.
    ///
    /// # Errors
    ///
    /// [`AdapterError::Read`] when elements are of another type, not aligned for it, or stored most
    /// significant byte first.
    pub fn as_slice<T: Element + bytemuck::AnyBitPattern>(&self) -> Result<&[T]> {
        Ok(self.rows.as_slice()?)
    }

    pub(crate) fn table(&self) -> &TileTable {
        &self.table
    }

    fn check_rows(&self, rows: &[u64]) -> Result<()> {
        rows.iter().try_for_each(|row| self.table.check_row(*row))
    }
}

impl fmt::Debug for FeaturePackReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FeaturePackReader")
            .field("path", &self.reader().path())
            .field("rows", &self.record_count())
            .field("dim", &self.dim())
            .field("dtype", &self.dtype())
            .finish()
    }
}
