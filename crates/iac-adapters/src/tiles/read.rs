//! Reading packs of tiles.

use std::fmt;
use std::io;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use iac_codec::{DecodeOptions, Image, ImageShape, Limits, Scale};
use iac_format::TableKind;
use iac_reader::{PackReader, ReadOptions, RecordOptions, VariableRecordPack};
use serde_json::Value;

use crate::columns::{IntColumn, int_column};
use crate::error::{AdapterError, Result};
use crate::manifest::ManifestWriter;
use crate::record::{RecordTable, Slide, TileRecord};
use crate::table::{Positions, TileTable, header_integer};
use crate::tiles::build::TileSize;
use crate::tiles::{IMAGE_TILES, IMAGE_TILES_V2};

/// How tiles are read.
#[derive(Debug, Clone, Default)]
pub struct TileReadOptions {
    read: ReadOptions,
    limits: Limits,
    scale: Scale,
}

impl TileReadOptions {
    /// The defaults: full size, checksums compared.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets how bytes are read.
    #[must_use]
    pub fn reading(mut self, options: ReadOptions) -> Self {
        self.read = options;
        self
    }

    /// Sets bounds on what one tile may decode to.
    #[must_use]
    pub const fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the size that tiles are decoded at. Default: the full one.
    #[must_use]
    pub const fn scale(mut self, scale: Scale) -> Self {
        self.scale = scale;
        self
    }
}

/// Reads a pack of image tiles.
///
/// Payload type, codec and tables are checked when it is opened; ids are indexed on first use (12
/// bytes for each row at most), positions too (4 bytes). Tiles are compared with their checksums before
/// they are decoded, unless the options say otherwise. Clones share everything and work from any
/// number of threads at once.
///
/// ```no_run
/// use iac_adapters::tiles::TilePackReader;
///
/// let pack = TilePackReader::open("cohort.tiles.iac")?;
/// let tile = pack.read_rgb_by_id("tile-17")?;
/// println!("{} x {}", tile.width, tile.height);
///
/// // A batch of 64 tiles, decoded straight to their places.
/// let rows: Vec<u64> = (0..64).collect();
/// let batch = pack.read_rgb_batch(&rows)?;
/// # Ok::<(), iac_adapters::AdapterError>(())
/// ```
#[derive(Clone)]
pub struct TilePackReader {
    pub(super) records: VariableRecordPack,
    pub(super) table: Arc<TileTable>,
    pub(super) sizes: Sizes,
    pub(super) scale: Scale,
    codec: Arc<str>,
}

/// Where the sizes of tiles are stated.
#[derive(Debug, Clone)]
pub(super) enum Sizes {
    Header(TileSize),
    Columns(Arc<[IntColumn; 2]>),
}

impl TilePackReader {
    /// Opens a pack with default options.
    ///
    /// # Errors
    ///
    /// As [`from_reader`](Self::from_reader), and those of [`PackReader::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(path, &TileReadOptions::default())
    }

    /// Opens a pack.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn open_with(path: impl AsRef<Path>, options: &TileReadOptions) -> Result<Self> {
        Self::from_reader(PackReader::open_with(path, &options.read)?, options)
    }

    /// Reads a pack that is open already.
    ///
    /// # Errors
    ///
    /// [`AdapterError::PayloadType`] when it holds no tiles; [`AdapterError::Schema`] when header
    /// or tables break a rule of the schema; [`AdapterError::Read`] when they are damaged.
    pub fn from_reader(pack: PackReader, options: &TileReadOptions) -> Result<Self> {
        let found = pack.header().payload_type();
        let is_old = match found {
            Some(IMAGE_TILES) => true,
            Some(IMAGE_TILES_V2) => false,
            other => {
                return Err(AdapterError::PayloadType {
                    path: pack.path().to_owned(),
                    found: other.map(str::to_owned),
                    expected: IMAGE_TILES,
                });
            }
        };
        let codec = pack.header().get("codec").and_then(Value::as_str).unwrap_or("none");
        if is_old && codec != "jxl" {
            return Err(AdapterError::schema(
                pack.path(),
                "codec",
                format!("unsupported image tile codec: {codec}"),
            ));
        }
        let codec = Arc::from(codec);
        // Other modes of coordinates are pixels, as is none.
        let mode = pack.header().get("coordinate_mode").and_then(Value::as_str);
        let (positions, names) = if !is_old {
            (Positions::Pixels, ["px_x", "px_y"])
        } else if mode == Some("tile_grid") {
            (Positions::Grid, ["tile_x", "tile_y"])
        } else {
            (Positions::Pixels, ["tile_x", "tile_y"])
        };
        let table = TileTable::open(&pack, positions, names, ("tiles", "jxl"))?;
        let sizes = if is_old {
            Sizes::Header(TileSize {
                width: side(&pack, "tile_width")?,
                height: side(&pack, "tile_height")?,
            })
        } else {
            Sizes::Columns(Arc::new([
                int_column(&pack, TableKind::Index, "tile_w")?,
                int_column(&pack, TableKind::Index, "tile_h")?,
            ]))
        };
        let images = DecodeOptions::from(options.limits).with_scale(options.scale);
        let record_options = RecordOptions::default().images(images);
        let records = VariableRecordPack::from_reader_with(pack, record_options);
        Ok(Self { records, table: Arc::new(table), sizes, scale: options.scale, codec })
    }

    /// The same pack decoded at another size.
    #[must_use]
    pub fn with_scale(&self, scale: Scale) -> Self {
        let images = DecodeOptions::default().with_scale(scale);
        Self { records: self.records.with_images(images), scale, ..self.clone() }
    }

    /// The same pack with calls that use at most so many threads; `None`: all cores.
    #[must_use]
    pub fn with_workers(&self, workers: impl Into<Option<NonZeroUsize>>) -> Self {
        Self { records: self.records.with_workers(workers), ..self.clone() }
    }

    /// The pack: header, tables, stored bytes.
    #[must_use]
    pub const fn reader(&self) -> &PackReader {
        self.records.reader()
    }

    /// The tiles as records of their codec, for what this reader does not do itself.
    #[must_use]
    pub const fn records_pack(&self) -> &VariableRecordPack {
        &self.records
    }

    /// Name of the codec.
    #[must_use]
    pub fn codec_name(&self) -> &str {
        &self.codec
    }

    /// Number of tiles.
    #[must_use]
    pub fn record_count(&self) -> u64 {
        self.table.rows()
    }

    /// The slides that tiles were cut from.
    #[must_use]
    pub fn slides(&self) -> &[Slide] {
        self.table.slides()
    }

    /// The size of all tiles at full size, where the pack states one.
    #[must_use]
    pub const fn tile_size(&self) -> Option<TileSize> {
        match &self.sizes {
            Sizes::Header(size) => Some(*size),
            Sizes::Columns(_) => None,
        }
    }

    /// The size that the pack states for a tile, at full size.
    ///
    /// # Errors
    ///
    /// [`AdapterError::RowOutOfRange`]; [`AdapterError::Schema`] when it states none.
    pub fn tile_size_at(&self, row: u64) -> Result<TileSize> {
        self.table.check_row(row)?;
        let columns = match &self.sizes {
            Sizes::Header(size) => return Ok(*size),
            Sizes::Columns(columns) => columns,
        };
        let [width, height] = columns.as_ref();
        let side = |column: &IntColumn, name: &str| {
            let value = column.get(row).and_then(|value| u32::try_from(value).ok());
            value.filter(|value| *value > 0).ok_or_else(|| {
                AdapterError::schema_row(
                    self.reader().path(),
                    row,
                    name,
                    format!("{name} is missing or no size"),
                )
            })
        };
        Ok(TileSize { width: side(width, "tile_w")?, height: side(height, "tile_h")? })
    }

    /// The id of a tile.
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

    /// The record of a tile; its path is made up.
    ///
    /// # Errors
    ///
    /// [`AdapterError::RowOutOfRange`]; [`AdapterError::Schema`] when the tables or the strides do
    /// not tell it.
    pub fn record(&self, row: u64) -> Result<TileRecord> {
        self.table.record(row, self.table.scale()?)
    }

    /// All records in order: the manifest of the pack.
    ///
    /// # Errors
    ///
    /// [`AdapterError::Schema`] at once when strides or the column `split` are missing, or ids
    /// repeated; then as [`record`](Self::record).
    pub fn records(&self) -> Result<impl Iterator<Item = Result<TileRecord>>> {
        let scale = self.table.scale()?;
        self.check_split()?;
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

    /// Writes all records as a manifest, with made-up paths.
    ///
    /// # Errors
    ///
    /// As [`records`](Self::records), and what the target reports, with `name` in the message.
    pub fn write_manifest(&self, target: impl io::Write, name: &Path) -> Result<()> {
        let fail = |source| AdapterError::io(name, "cannot write the manifest")(source);
        let mut writer = ManifestWriter::new(target).map_err(fail)?;
        for record in self.records()? {
            writer.write(&record?).map_err(fail)?;
        }
        writer.finish().map_err(fail).map(|_| ())
    }

    /// The stored bytes of a tile.
    ///
    /// # Errors
    ///
    /// [`AdapterError::RowOutOfRange`] and [`AdapterError::Read`].
    pub fn payload(&self, row: u64) -> Result<Bytes> {
        self.table.check_row(row)?;
        Ok(self.records.read_bytes(row)?)
    }

    /// A tile as it is stored: with its own channels and type of samples.
    ///
    /// # Errors
    ///
    /// [`AdapterError::RowOutOfRange`]; [`AdapterError::Read`] when it cannot be read or decoded;
    /// [`AdapterError::Schema`] when it has another size than the pack states.
    pub fn read(&self, row: u64) -> Result<Image> {
        self.table.check_row(row)?;
        let image = self.records.read_image(row)?;
        self.check_size(row, image.shape())?;
        Ok(image)
    }

    /// Many tiles as they are stored, in the order asked for, duplicates included. They are decoded
    /// on several threads; one bad tile fails the whole call.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    pub fn read_many(&self, rows: &[u64]) -> Result<Vec<Image>> {
        self.check_rows(rows)?;
        let images = self.records.read_images(rows)?;
        for (row, image) in rows.iter().zip(&images) {
            self.check_size(*row, image.shape())?;
        }
        Ok(images)
    }

    pub(crate) fn table(&self) -> &TileTable {
        &self.table
    }

    pub(super) fn check_rows(&self, rows: &[u64]) -> Result<()> {
        rows.iter().try_for_each(|row| self.table.check_row(*row))
    }

    fn check_size(&self, row: u64, shape: ImageShape) -> Result<()> {
        let stated = self.tile_size_at(row)?;
        let found = (shape.width(), shape.height());
        let expected = ImageShape::new(stated.height, stated.width, 1)
            .map(|full| self.scale.apply(full))
            .map(|reduced| (reduced.width(), reduced.height()));
        if expected.as_ref().ok() == Some(&found) {
            return Ok(());
        }
        Err(AdapterError::schema_row(
            self.reader().path(),
            row,
            "tile_width",
            format!(
                "the tile is {} x {} instead of the stated {} x {}",
                found.0, found.1, stated.width, stated.height
            ),
        ))
    }

    fn check_split(&self) -> Result<()> {
        if self.table.has_split() {
            return Ok(());
        }
        Err(AdapterError::schema(
            self.reader().path(),
            "split",
            "the index table has no column `split`",
        ))
    }
}

impl fmt::Debug for TilePackReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TilePackReader")
            .field("path", &self.reader().path())
            .field("rows", &self.record_count())
            .field("codec", &self.codec)
            .field("tile_size", &self.tile_size())
            .finish()
    }
}

/// A side of a tile as the header states it.
fn side(pack: &PackReader, name: &str) -> Result<u32> {
    let value = header_integer(pack, name)?.and_then(|value| u32::try_from(value).ok());
    value
        .filter(|value| *value > 0)
        .ok_or_else(|| AdapterError::schema(pack.path(), name, "missing or no size of a tile"))
}
