//! Reading packs of features.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use iac_format::{Element, ElementType};
use iac_reader::{FixedRecordPack, Matrix, PackReader, ReadOptions};
use serde_json::Value;

use crate::error::{AdapterError, Result};
use crate::features::cast::cast;
use crate::features::{TEACHER_FEATURES, TEACHER_FEATURES_V2};
use crate::record::{RecordTable, Slide, TileRecord};
use crate::table::{Positions, TileTable, header_integer};

/// Reads a pack of teacher features.
///
/// Payload type, shape and tables are checked when it is opened; ids are indexed on first use (9
/// bytes for each row). Clones share everything and work from any number of threads at once.
#[derive(Clone)]
pub struct FeaturePackReader {
    pack: PackReader,
    rows: Rows,
    table: Arc<TileTable>,
}

/// How rows are stored.
#[derive(Debug, Clone)]
enum Rows {
    Native(FixedRecordPack),
    /// Most significant byte first.
    Swapped(Swapped),
}

#[derive(Debug, Clone, Copy)]
struct Swapped {
    element: ElementType,
    dim: u64,
    row_bytes: u64,
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
        let rows = match swapped_shape(&pack)? {
            Some(swapped) => Rows::Swapped(swapped),
            None => Rows::Native(FixedRecordPack::from_reader(pack.clone())?),
        };
        let table =
            TileTable::open(&pack, Positions::Grid, ["tile_x", "tile_y"], ("features", "bin"))?;
        Ok(Self { pack, rows, table: Arc::new(table) })
    }

    /// The pack: header, tables, stored bytes.
    #[must_use]
    pub const fn reader(&self) -> &PackReader {
        &self.pack
    }

    /// Rows as numbers, for what this reader does not do itself. Absent in packs that store the
    /// most significant byte first.
    #[must_use]
    pub const fn fixed(&self) -> Option<&FixedRecordPack> {
        match &self.rows {
            Rows::Native(pack) => Some(pack),
            Rows::Swapped(_) => None,
        }
    }

    /// Name of the teacher, where the header has one.
    #[must_use]
    pub fn teacher(&self) -> Option<&str> {
        self.pack.header().get("teacher").and_then(Value::as_str)
    }

    /// Number of vectors.
    #[must_use]
    pub fn record_count(&self) -> u64 {
        self.table.rows()
    }

    /// Elements of each vector.
    #[must_use]
    pub fn dim(&self) -> usize {
        match &self.rows {
            Rows::Native(pack) => pack.dim(),
            Rows::Swapped(swapped) => usize::try_from(swapped.dim).unwrap_or(usize::MAX),
        }
    }

    /// The type of the stored elements.
    #[must_use]
    pub const fn dtype(&self) -> ElementType {
        match &self.rows {
            Rows::Native(pack) => pack.element(),
            Rows::Swapped(swapped) => swapped.element,
        }
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
    /// # Errors
    ///
    /// [`AdapterError::Schema`] when ids are missing or repeated.
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

    /// One vector as it is stored.
    ///
    /// # Errors
    ///
    /// [`AdapterError::RowOutOfRange`] and [`AdapterError::Read`].
    pub fn read(&self, row: u64) -> Result<Bytes> {
        self.table.check_row(row)?;
        match &self.rows {
            Rows::Native(pack) => Ok(pack.read(row)?),
            Rows::Swapped(swapped) => swapped.read(&self.pack, row).map(Bytes::from),
        }
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
        match &self.rows {
            Rows::Native(pack) => {
                self.check_rows(rows)?;
                Ok(pack.read_many_f32(rows)?)
            }
            Rows::Swapped(_) => {
                let mut elements = vec![0.0; rows.len().saturating_mul(self.dim())];
                self.read_many_f32_into(rows, &mut elements)?;
                Ok(elements)
            }
        }
    }

    /// The same into memory of the caller's.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read), and [`AdapterError::Usage`] or [`AdapterError::Read`] when there is
    /// room for another number of elements.
    pub fn read_many_f32_into(&self, rows: &[u64], elements: &mut [f32]) -> Result<()> {
        self.check_rows(rows)?;
        let swapped = match &self.rows {
            Rows::Native(pack) => return Ok(pack.read_many_f32_into(rows, elements)?),
            Rows::Swapped(swapped) => swapped,
        };
        if Some(elements.len()) != rows.len().checked_mul(self.dim()) {
            return Err(AdapterError::usage(format!(
                "room for {} elements where {} rows of {} are read",
                elements.len(),
                rows.len(),
                self.dim()
            )));
        }
        let mut rest = elements;
        for row in rows {
            let bytes = swapped.read(&self.pack, *row)?;
            let mut floats = Vec::new();
            cast(swapped.element, &bytes, ElementType::Float32, &mut floats)
                .map_err(|fault| AdapterError::usage(fault.value))?;
            let (target, others) = std::mem::take(&mut rest).split_at_mut(self.dim());
            let (floats, _) = floats.as_chunks::<4>();
            for (to, from) in target.iter_mut().zip(floats) {
                *to = f32::from_le_bytes(*from);
            }
            rest = others;
        }
        Ok(())
    }

    /// Many vectors in their stored type.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read); [`AdapterError::Unsupported`] in packs that store the most
    /// significant byte first.
    pub fn read_matrix(&self, rows: &[u64]) -> Result<Matrix> {
        self.check_rows(rows)?;
        Ok(self.native()?.read_matrix(rows)?)
    }

    /// All vectors where they lie in the mapped file: nothing is copied or compared.
    ///
    /// # Errors
    ///
    /// [`AdapterError::Read`] when elements are of another type, or not aligned for it;
    /// [`AdapterError::Unsupported`] in packs that store the most significant byte first.
    pub fn as_slice<T: Element + bytemuck::AnyBitPattern>(&self) -> Result<&[T]> {
        Ok(self.native()?.as_slice()?)
    }

    pub(crate) fn table(&self) -> &TileTable {
        &self.table
    }

    fn native(&self) -> Result<&FixedRecordPack> {
        self.fixed().ok_or_else(|| AdapterError::Unsupported {
            path: self.pack.path().to_owned(),
            reason: "its elements are stored most significant byte first, so they can only be read converted".to_owned(),
        })
    }

    fn check_rows(&self, rows: &[u64]) -> Result<()> {
        rows.iter().try_for_each(|row| self.table.check_row(*row))
    }
}

impl fmt::Debug for FeaturePackReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FeaturePackReader")
            .field("path", &self.pack.path())
            .field("rows", &self.record_count())
            .field("dim", &self.dim())
            .field("dtype", &self.dtype())
            .finish()
    }
}

/// The shape of a pack whose type begins with `>`; nothing for any other pack.
fn swapped_shape(pack: &PackReader) -> Result<Option<Swapped>> {
    let Some(name) = pack.header().get("dtype").and_then(Value::as_str) else {
        return Ok(None);
    };
    let Some(element) = swapped_element(name) else {
        return Ok(None);
    };
    let member = |name| {
        header_integer(pack, name)?
            .ok_or_else(|| AdapterError::schema(pack.path(), name, "missing"))
    };
    let (dim, row_bytes) = (member("feature_dim")?, member("feature_record_bytes")?);
    if dim.checked_mul(element.item_bytes()) != Some(row_bytes) {
        return Err(AdapterError::schema(
            pack.path(),
            "feature_record_bytes",
            format!("found {row_bytes}, but {dim} elements of type {name} need another size"),
        ));
    }
    let (rows, data) = (pack.num_records()?, pack.layout().data.length);
    if row_bytes.checked_mul(rows) != Some(data) {
        return Err(AdapterError::schema(
            pack.path(),
            "data_length",
            format!("found {data}, but {rows} rows of {row_bytes} bytes need another size"),
        ));
    }
    // One byte has no order.
    Ok((element.item_bytes() > 1).then_some(Swapped { element, dim, row_bytes }))
}

/// The element type of a name that says `most significant byte first`.
pub(crate) fn swapped_element(name: &str) -> Option<ElementType> {
    let element = ElementType::from_name(&format!("<{}", name.strip_prefix('>')?))?;
    let is_real = !matches!(element, ElementType::Complex64 | ElementType::Complex128);
    is_real.then_some(element)
}

impl Swapped {
    fn read(&self, pack: &PackReader, row: u64) -> Result<Vec<u8>> {
        let offset = row.saturating_mul(self.row_bytes);
        let mut bytes = pack.read_data_span(offset, self.row_bytes)?.to_vec();
        let item = usize::try_from(self.element.item_bytes()).unwrap_or(1);
        for element in bytes.chunks_exact_mut(item) {
            element.reverse();
        }
        Ok(bytes)
    }
}
