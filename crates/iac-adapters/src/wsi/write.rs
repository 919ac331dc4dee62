//! Writing packs of encoded tiles.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{
    ArrayRef, RecordBatch, StringArray, UInt8Array, UInt16Array, UInt32Array, UInt64Array,
};
use arrow_schema::{Field, Schema};
use iac_codec::{CodecSpec, Limits, Parameters, Registry};
use iac_writer::{PackWriter, Table, WriteOptions, WriteSummary};
use serde_json::{Map, Value, json};

use super::codec_params::RasterCodec;
use super::rows::valid_side;
use super::schema::Mpp;
use super::{ICC_NAME, METADATA_NAME, SCHEMA_VERSION, WSI_IMAGE, codec_id, kind};
use crate::error::{AdapterError, Result, short};

/// What the header of a new pack says.
#[derive(Debug, Clone, PartialEq)]
pub struct WsiHeader {
    /// The slide's id: not empty.
    pub slide_id: String,
    /// The patient's id; may be empty.
    pub patient_id: String,
    /// The specimen's id; may be empty.
    pub specimen_id: String,
    /// Pixels of a row of the raster.
    pub width: u64,
    /// Rows of the raster.
    pub height: u64,
    /// Micrometres per pixel of the raster as it is stored.
    pub mpp: Mpp,
    /// Where the micrometres per pixel come from: `source_metadata` or `user_override`.
    pub mpp_provenance: String,
    /// Pixels of a row of a tile.
    pub tile_width: u32,
    /// Rows of a tile.
    pub tile_height: u32,
    /// The colour of tiles that are not stored, and outside of the raster.
    pub background: [u8; 3],
    /// Whether that is the most frequent colour of uniform tiles, not white by default.
    pub background_is_counted: bool,
    /// How tiles are encoded.
    pub codec: RasterCodec,
    /// How the codec's parameters were chosen (`raster_profile_selection`); may be null.
    pub selection: Value,
    /// Orientation of the source that was undone, 1 to 8.
    pub original_orientation: u8,
    /// The kind of source: `svs`, `png`, ...
    pub source_format: String,
    /// What read the source.
    pub import_backend: String,
    /// Whether the source's associated images were kept.
    pub associated_images_preserved: bool,
    /// Further members, such as `extensions`.
    pub extra: Map<String, Value>,
}

/// A tile as it is stored.
#[derive(Debug, Clone, Copy)]
pub struct EncodedTile<'a> {
    /// Column of the grid.
    pub x: u32,
    /// Row of the grid.
    pub y: u32,
    /// A stream of the pack's codec that decodes to a whole tile.
    pub payload: &'a [u8],
}

/// An associated image as it is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct WsiAssociated {
    /// Its name: not empty.
    pub name: String,
    /// Pixels of a row.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// The image as JPEG XL, RGB with 8 bits.
    pub payload: Vec<u8>,
    /// Its profile.
    pub icc: Option<Vec<u8>>,
    /// The mode of the source: `RGB`, `RGBA`, `L`, ...
    pub source_mode: String,
    /// Whether transparency was put on white.
    pub composited_on_white: bool,
    /// What the source says about the image.
    pub source_info: Map<String, Value>,
}

/// Writes a pack of one slide, tile by tile. Nothing appears under its name before
/// [`finish`](Self::finish) succeeds.
///
/// ```
/// # #[cfg(all(feature = "jxl", feature = "tiles"))] {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("slide.pat.iac");
/// use iac_adapters::wsi::{EncodedTile, Mpp, RasterCodec, WsiHeader, WsiPackWriter};
/// use iac_codec::jxl::JxlOptions;
/// use iac_codec::{ImageShape, ImageView};
/// use serde_json::{Map, Value};
///
/// let header = WsiHeader {
///     slide_id: "slide-1".into(),
///     patient_id: String::new(),
///     specimen_id: String::new(),
///     width: 100,
///     height: 60,
///     mpp: Mpp::both(0.5),
///     mpp_provenance: "user_override".into(),
///     tile_width: 64,
///     tile_height: 64,
///     background: [255; 3],
///     background_is_counted: false,
///     codec: RasterCodec::Jxl { lossless: true, distance: 0.0, effort: 3 },
///     selection: Value::Null,
///     original_orientation: 1,
///     source_format: "png".into(),
///     import_backend: "example".into(),
///     associated_images_preserved: false,
///     extra: Map::new(),
/// };
/// let mut writer = WsiPackWriter::create(&path, header, &iac_writer::WriteOptions::new())?;
/// let codec = JxlOptions::lossless().with_effort(3).codec()?;
/// let pixels = [120_u8; 64 * 64 * 3];
/// let tile = codec.encode_image(&ImageView::new(ImageShape::new(64, 64, 3)?, &pixels[..])?)?;
/// writer.push_tile(&EncodedTile { x: 0, y: 0, payload: &tile })?;
/// writer.finish(Map::new(), None, Vec::new())?;
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct WsiPackWriter {
    writer: PackWriter,
    header: WsiHeader,
    grid: (u64, u64),
    rows: Columns,
    places: HashSet<(u32, u32)>,
    names: HashSet<(u8, String)>,
}

/// The record table while it grows.
#[derive(Debug, Default)]
struct Columns {
    kinds: Vec<u8>,
    names: Vec<String>,
    tiles: Vec<Option<(u32, u32)>>,
    valid: Vec<Option<(u16, u16)>>,
    images: Vec<Option<(u32, u32)>>,
    codecs: Vec<u8>,
}

impl WsiPackWriter {
    /// Begins a pack.
    ///
    /// # Errors
    ///
    /// [`AdapterError::Records`] for a header that breaks a rule of the schema;
    /// [`AdapterError::Write`] when the file cannot be begun.
    pub fn create(
        path: impl AsRef<Path>,
        header: WsiHeader,
        options: &WriteOptions,
    ) -> Result<Self> {
        check(&header)?;
        let grid = (
            header.width.div_ceil(u64::from(header.tile_width).max(1)),
            header.height.div_ceil(u64::from(header.tile_height).max(1)),
        );
        let index = Columns::default().table()?;
        let slides = slide_table(&header)?;
        let members = members(&header, grid, 0);
        let schema = Arc::clone(index.schema());
        let writer = PackWriter::create(path, members, &slides, schema, options)?;
        Ok(Self {
            writer,
            header,
            grid,
            rows: Columns::default(),
            places: HashSet::new(),
            names: HashSet::new(),
        })
    }

    /// Appends a tile. The reference writes them row by row; any order can be read.
    ///
    /// # Errors
    ///
    /// [`AdapterError::Records`] for a place outside of the grid, or one that has a tile already;
    /// [`AdapterError::Write`].
    pub fn push_tile(&mut self, tile: &EncodedTile<'_>) -> Result<()> {
        let row = self.writer.rows();
        let (across, down) = self.grid;
        if u64::from(tile.x) >= across || u64::from(tile.y) >= down {
            return Err(AdapterError::records(
                row,
                "tile_x",
                format!(
                    "the tile lies at ({}, {}), outside of the grid of {across} x {down}",
                    tile.x, tile.y
                ),
            ));
        }
        if !self.places.insert((tile.x, tile.y)) {
            return Err(AdapterError::records(
                row,
                "tile_x",
                format!("there is a tile at ({}, {}) already", tile.x, tile.y),
            ));
        }
        let side =
            |raster, tile, at| u16::try_from(valid_side(raster, tile, at)).unwrap_or(u16::MAX);
        let valid = (
            side(self.header.width, self.header.tile_width, tile.x),
            side(self.header.height, self.header.tile_height, tile.y),
        );
        self.writer.push(tile.payload)?;
        self.rows.push(kind::TILE, "", self.header.codec.id());
        if let Some(last) = self.rows.tiles.last_mut() {
            *last = Some((tile.x, tile.y));
        }
        if let Some(last) = self.rows.valid.last_mut() {
            *last = Some(valid);
        }
        Ok(())
    }

    /// Appends a private record (kind 2), which readers that do not know its name pass over.
    ///
    /// # Errors
    ///
    /// [`AdapterError::Records`] for a name that is empty or taken; [`AdapterError::Write`].
    pub fn push_private(&mut self, name: &str, payload: &[u8]) -> Result<()> {
        self.push(kind::BINARY, name, codec_id::NONE, payload, None)
    }

    /// The header's further members, which may be changed until the pack is finished.
    pub const fn extra_mut(&mut self) -> &mut Map<String, Value> {
        &mut self.header.extra
    }

    /// The header as it will be written.
    #[cfg(feature = "wsi-import")]
    pub(super) const fn header(&self) -> &WsiHeader {
        &self.header
    }

    /// Tiles that were written.
    #[cfg(feature = "wsi-import")]
    pub(super) fn tiles(&self) -> u64 {
        u64::try_from(self.places.len()).unwrap_or(u64::MAX)
    }

    /// Places of the grid.
    #[cfg(feature = "wsi-import")]
    pub(super) const fn cells(&self) -> u64 {
        self.grid.0.saturating_mul(self.grid.1)
    }

    /// Appends scanner metadata, profile and associated images, and publishes the pack.
    ///
    /// `metadata` gets the members that describe the associated images, and an empty
    /// `source_info` where it has none.
    ///
    /// # Errors
    ///
    /// [`AdapterError::Records`] for associated images without name or size, and names that stand
    /// twice; [`AdapterError::Write`] and [`AdapterError::Codec`] when the rest cannot be written.
    pub fn finish(
        mut self,
        mut metadata: Map<String, Value>,
        icc: Option<&[u8]>,
        mut associated: Vec<WsiAssociated>,
    ) -> Result<WriteSummary> {
        associated.sort_by(|one, other| one.name.cmp(&other.name));
        let entries: Vec<Value> = associated.iter().map(entry).collect();
        metadata.insert("associated_images".to_owned(), entries.into());
        metadata.entry("source_info").or_insert_with(|| Value::Object(Map::new()));
        let text = compressed(&metadata, self.writer.path())?;
        self.push(kind::METADATA, METADATA_NAME, codec_id::ZSTD, &text, None)?;
        if let Some(icc) = icc {
            self.push(kind::BINARY, ICC_NAME, codec_id::NONE, icc, None)?;
        }
        for image in &associated {
            if image.width == 0 || image.height == 0 {
                return Err(AdapterError::records(
                    self.writer.rows(),
                    "image_width",
                    format!("the image \"{}\" has no pixels", short(&image.name)),
                ));
            }
            let size = Some((image.width, image.height));
            self.push(kind::IMAGE, &image.name, codec_id::IMAGE, &image.payload, size)?;
            if let Some(icc) = &image.icc {
                self.push(kind::IMAGE_ICC, &image.name, codec_id::NONE, icc, None)?;
            }
        }
        let stored = u64::try_from(self.places.len()).unwrap_or(u64::MAX);
        *self.writer.header_mut() = members(&self.header, self.grid, stored);
        Ok(self.writer.finish_with_index(&self.rows.table()?)?)
    }

    fn push(
        &mut self,
        kind: u8,
        name: &str,
        codec: u8,
        payload: &[u8],
        size: Option<(u32, u32)>,
    ) -> Result<()> {
        let row = self.writer.rows();
        if name.is_empty() {
            return Err(AdapterError::records(row, "name", "the record has no name"));
        }
        if !self.names.insert((kind, name.to_owned())) {
            return Err(AdapterError::records(
                row,
                "name",
                format!("there is a record of kind {kind} named \"{}\" already", short(name)),
            ));
        }
        self.writer.push(payload)?;
        self.rows.push(kind, name, codec);
        if let Some(last) = self.rows.images.last_mut() {
            *last = size;
        }
        Ok(())
    }
}

impl Columns {
    fn push(&mut self, kind: u8, name: &str, codec: u8) {
        self.kinds.push(kind);
        self.names.push(name.to_owned());
        self.tiles.push(None);
        self.valid.push(None);
        self.images.push(None);
        self.codecs.push(codec);
    }

    /// The record table; offsets, lengths and sums are filled in by the writer.
    fn table(&self) -> Result<Table> {
        fn halves<T: Copy>(pairs: &[Option<(T, T)>]) -> (Vec<Option<T>>, Vec<Option<T>>) {
            pairs.iter().map(|pair| (pair.map(|it| it.0), pair.map(|it| it.1))).unzip()
        }
        let zeros = self.kinds.len();
        let (tile_x, tile_y) = halves(&self.tiles);
        let (valid_width, valid_height) = halves(&self.valid);
        let (image_width, image_height) = halves(&self.images);
        let columns: [(&str, ArrayRef); 13] = [
            ("kind", Arc::new(UInt8Array::from(self.kinds.clone()))),
            ("name", Arc::new(StringArray::from_iter_values(&self.names))),
            ("tile_x", Arc::new(UInt32Array::from(tile_x))),
            ("tile_y", Arc::new(UInt32Array::from(tile_y))),
            ("valid_width", Arc::new(UInt16Array::from(valid_width))),
            ("valid_height", Arc::new(UInt16Array::from(valid_height))),
            ("image_width", Arc::new(UInt32Array::from(image_width))),
            ("image_height", Arc::new(UInt32Array::from(image_height))),
            ("codec_id", Arc::new(UInt8Array::from(self.codecs.clone()))),
            ("offset", Arc::new(UInt64Array::from(vec![0; zeros]))),
            ("length", Arc::new(UInt32Array::from(vec![0; zeros]))),
            ("crc32", Arc::new(UInt32Array::from(vec![0; zeros]))),
            ("flags", Arc::new(UInt8Array::from(vec![0; zeros]))),
        ];
        table(&columns)
    }
}

/// A table of nullable columns.
pub(super) fn table(columns: &[(&str, ArrayRef)]) -> Result<Table> {
    let fields: Vec<Field> = columns
        .iter()
        .map(|(name, array)| Field::new(*name, array.data_type().clone(), true))
        .collect();
    let arrays = columns.iter().map(|(_, array)| Arc::clone(array)).collect();
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)
        .map_err(|error| AdapterError::records(None, None, error.to_string()))?;
    Ok(Table::from(batch))
}

fn slide_table(header: &WsiHeader) -> Result<Table> {
    let text = |text: &str| -> ArrayRef { Arc::new(StringArray::from(vec![text])) };
    table(&[
        ("slide_idx", Arc::new(UInt8Array::from(vec![0]))),
        ("slide_id", text(&header.slide_id)),
        ("patient_id", text(&header.patient_id)),
        ("specimen_id", text(&header.specimen_id)),
    ])
}

fn check(header: &WsiHeader) -> Result<()> {
    let wrong = |field, reason: String| Err(AdapterError::records(None, field, reason));
    if header.slide_id.is_empty() {
        return wrong("slide_id", "the slide has no id".to_owned());
    }
    if header.width == 0 || header.height == 0 {
        return wrong("width", format!("{} x {} pixels", header.width, header.height));
    }
    for side in [header.tile_width, header.tile_height] {
        if side == 0 || side > 65_535 {
            return wrong(
                "tile_width",
                format!("a tile has a side of {side} instead of 1 to 65535"),
            );
        }
    }
    if !header.mpp.is_valid() {
        return wrong(
            "native_mpp_x",
            format!("micrometres per pixel must be finite and above 0, found {}", header.mpp),
        );
    }
    let across = header.width.div_ceil(u64::from(header.tile_width).max(1));
    let down = header.height.div_ceil(u64::from(header.tile_height).max(1));
    if across > u64::from(u32::MAX) || down > u64::from(u32::MAX) {
        return wrong("width", format!("a grid of {across} x {down} tiles is too large"));
    }
    Ok(())
}

fn members(header: &WsiHeader, grid: (u64, u64), stored: u64) -> Map<String, Value> {
    let cells = u128::from(grid.0).saturating_mul(grid.1.into());
    let implicit = u64::try_from(cells.saturating_sub(stored.into())).unwrap_or(u64::MAX);
    let provenance =
        if header.background_is_counted { "uniform_tile_mode" } else { "default_white" };
    let value = json!({
        "payload_type": WSI_IMAGE,
        "wsi_schema_version": SCHEMA_VERSION,
        "archive_contract": "complete_raster",
        "completeness": "full_raster",
        "width": header.width,
        "height": header.height,
        "native_mpp_x": header.mpp.x,
        "native_mpp_y": header.mpp.y,
        "mpp_provenance": header.mpp_provenance,
        "tile_width": header.tile_width,
        "tile_height": header.tile_height,
        "grid_width": grid.0,
        "grid_height": grid.1,
        "raster_storage": "sparse_background",
        "stored_tile_count": stored,
        "implicit_background_tile_count": implicit,
        "origin": "top_left",
        "orientation": "canonical",
        "original_orientation": header.original_orientation,
        "background_rgb": header.background,
        "background_provenance": provenance,
        "pixel_dtype": "uint8",
        "samples_per_pixel": 3,
        "color_space": "RGB",
        "raster_codec": header.codec.name(),
        "raster_codec_params": header.codec.params(),
        "raster_profile_selection": header.selection,
        "record_codecs": header.codec.record_codecs(),
        "source_format": header.source_format,
        "import_backend": header.import_backend,
        "associated_images_preserved": header.associated_images_preserved,
        "created_by": concat!("iatrocache ", env!("CARGO_PKG_VERSION")),
    });
    let mut members = header.extra.clone();
    if let Value::Object(value) = value {
        members.extend(value);
    }
    members
}

fn entry(image: &WsiAssociated) -> Value {
    json!({
        "name": image.name,
        "width": image.width,
        "height": image.height,
        "source_mode": image.source_mode,
        "stored_mode": "RGB",
        "alpha_handling": if image.composited_on_white { "composited_on_white" } else { "none" },
        "source_info": image.source_info,
        "icc_profile_present": image.icc.is_some(),
    })
}

/// Scanner metadata as it is stored: keys sorted, ASCII alone, one Zstandard frame of level 3.
fn compressed(metadata: &Map<String, Value>, path: &Path) -> Result<Vec<u8>> {
    let codec_error =
        |source| AdapterError::Codec { path: path.display().to_string(), row: None, source };
    let text = ascii(&sorted(&Value::Object(metadata.clone())).to_string());
    let mut parameters = Parameters::new();
    parameters.insert("level".to_owned(), 3.into());
    let codec =
        Registry::global().create(&CodecSpec::new("zstd", parameters)).map_err(codec_error)?;
    let frame = codec.encode_bytes(text.as_bytes()).map_err(codec_error)?;
    debug_assert!(codec.decode_bytes(&frame, &Limits::default()).is_ok());
    Ok(frame)
}

/// A value with the keys of its objects in order, whatever order they came in.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(sorted).collect(),
        Value::Object(members) => {
            let mut names: Vec<&String> = members.keys().collect();
            names.sort_unstable();
            let pairs = names
                .into_iter()
                .filter_map(|name| Some((name.clone(), sorted(members.get(name)?))));
            Value::Object(pairs.collect())
        }
        other => other.clone(),
    }
}

/// JSON text with other characters than ASCII escaped.
fn ascii(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_ascii() {
            escaped.push(character);
            continue;
        }
        for unit in character.encode_utf16(&mut [0; 2]) {
            escaped.push_str(&format!("\\u{unit:04x}"));
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_beyond_ascii_is_escaped_in_pairs() {
        assert_eq!(ascii("\"\u{e9}\u{1f52c}\""), "\"\\u00e9\\ud83d\\udd2c\"");
    }
}
