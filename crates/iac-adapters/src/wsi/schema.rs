//! What a header says about its slide, checked.

use std::fmt;

use iac_format::Header;
use iac_reader::PackReader;
use serde_json::{Map, Value};

use super::codec_params::{
    Problem, RasterCodec, check_record_codecs, check_selection, integer, is_number, shown, tables,
};
use super::{SCHEMA_VERSION, TRANSCODE_EXTENSION, WSI_IMAGE};
use crate::error::{AdapterError, Result};

/// Pixels that a side of a raster may have.
const MAX_SIDE: u64 = 1 << 53;

/// Micrometres per pixel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mpp {
    /// From left to right.
    pub x: f64,
    /// From top to bottom.
    pub y: f64,
}

impl Mpp {
    /// The same in both directions.
    #[must_use]
    pub const fn both(mpp: f64) -> Self {
        Self { x: mpp, y: mpp }
    }

    pub(crate) fn is_valid(self) -> bool {
        [self.x, self.y].iter().all(|mpp| mpp.is_finite() && *mpp > 0.0)
    }
}

impl fmt::Display for Mpp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} x {}", self.x, self.y)
    }
}

/// A slide as its pack's header and slide table describe it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct WsiInfo {
    /// The slide's id.
    pub slide_id: String,
    /// The patient's id, which may be empty; nothing where the table has a null.
    pub patient_id: Option<String>,
    /// The specimen's id, which may be empty; nothing where the table has a null.
    pub specimen_id: Option<String>,
    /// Pixels of a row of the native raster.
    pub width: u64,
    /// Rows of the native raster.
    pub height: u64,
    /// Micrometres per native pixel, in the orientation in which the raster is stored.
    pub mpp: Mpp,
    /// Pixels of a row of a tile.
    pub tile_width: u32,
    /// Rows of a tile.
    pub tile_height: u32,
    /// Tiles in a row of the grid.
    pub grid_width: u64,
    /// Rows of the grid.
    pub grid_height: u64,
    /// Tiles that have a record.
    pub stored_tiles: u64,
    /// The colour of everything else, also outside of the raster.
    pub background: [u8; 3],
    /// How tiles are encoded.
    pub codec: RasterCodec,
    /// Shared tables and colours of JPEG tiles that are stored as JPEG XL (`iac.jpeg_transcode`).
    pub(crate) transcode: Option<Transcode>,
}

/// Where JPEG tiles came from that are stored as JPEG XL.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Transcode {
    pub(crate) tables: Option<Vec<u8>>,
    pub(crate) colors: String,
}

impl WsiInfo {
    /// Micrometres that the raster covers: width and height.
    #[must_use]
    pub fn physical_size(&self) -> (f64, f64) {
        (as_f64(self.width) * self.mpp.x, as_f64(self.height) * self.mpp.y)
    }

    /// Checks a header; the ids come from the slide table later.
    pub(crate) fn from_header(pack: &PackReader) -> Result<Self> {
        let header = pack.header();
        let found = header.payload_type();
        if found != Some(WSI_IMAGE) {
            return Err(AdapterError::PayloadType {
                path: pack.path().to_owned(),
                found: found.map(str::to_owned),
                expected: WSI_IMAGE,
            });
        }
        let version = header.get("wsi_schema_version");
        if !is_number(version, 1.0) {
            return Err(AdapterError::Unsupported {
                path: pack.path().to_owned(),
                reason: format!(
                    "its slide schema has the version {}, but this library reads {SCHEMA_VERSION}",
                    shown(version)
                ),
            });
        }
        parse(header).map_err(|Problem { field, reason }| {
            AdapterError::schema(pack.path(), field, format!("{field}: {reason}"))
        })
    }
}

fn parse(header: &Header) -> Result<WsiInfo, Problem> {
    let members = header.members();
    let equal = |field: &'static str, wanted: &str| match members.get(field) {
        Some(Value::String(found)) if found == wanted => Ok(()),
        other => Err(Problem::new(field, format!("{} instead of \"{wanted}\"", shown(other)))),
    };
    equal("archive_contract", "complete_raster")?;
    equal("completeness", "full_raster")?;
    equal("origin", "top_left")?;
    equal("orientation", "canonical")?;
    equal("pixel_dtype", "uint8")?;
    let samples = members.get("samples_per_pixel");
    if !is_number(samples, 3.0) {
        return Err(Problem::new("samples_per_pixel", format!("{} instead of 3", shown(samples))));
    }
    equal("color_space", "RGB")?;
    let codec = RasterCodec::from_header(members)?;
    check_selection(members, &codec)?;
    check_record_codecs(members, &codec)?;
    let width = positive(members, "width")?;
    let height = positive(members, "height")?;
    let tile_width = tile_side(members, "tile_width")?;
    let tile_height = tile_side(members, "tile_height")?;
    let grid_width = grid_side(members, "grid_width", width, tile_width)?;
    let grid_height = grid_side(members, "grid_height", height, tile_height)?;
    equal("raster_storage", "sparse_background")?;
    let stored = count(members, "stored_tile_count")?;
    let implicit = count(members, "implicit_background_tile_count")?;
    let cells = u128::from(grid_width).saturating_mul(grid_height.into());
    if u128::from(stored).saturating_add(implicit.into()) != cells {
        return Err(Problem::new(
            "implicit_background_tile_count",
            format!("{implicit} beside {stored} stored tiles, but the grid has {cells} places"),
        ));
    }
    let mpp = Mpp { x: mpp(members, "native_mpp_x")?, y: mpp(members, "native_mpp_y")? };
    let background = background(members)?;
    let provenance = members.get("background_provenance");
    if !matches!(provenance.and_then(Value::as_str), Some("default_white" | "uniform_tile_mode")) {
        return Err(Problem::new(
            "background_provenance",
            format!("{} instead of default_white or uniform_tile_mode", shown(provenance)),
        ));
    }
    let transcode = transcode(header)?;
    Ok(WsiInfo {
        slide_id: String::new(),
        patient_id: None,
        specimen_id: None,
        width,
        height,
        mpp,
        tile_width,
        tile_height,
        grid_width,
        grid_height,
        stored_tiles: stored,
        background,
        codec,
        transcode,
    })
}

/// The tables of tiles that are JPEG files in the form of JPEG XL.
fn transcode(header: &Header) -> Result<Option<Transcode>, Problem> {
    const FIELD: &str = "jpeg_transcode";
    if !header.extensions().contains(&TRANSCODE_EXTENSION) {
        return Ok(None);
    }
    let Some(Value::Object(object)) = header.get(FIELD) else {
        return Err(Problem::new(
            FIELD,
            format!("an object is expected, found {}", shown(header.get(FIELD))),
        ));
    };
    let colors = object.get("encoded_color_space").and_then(Value::as_str);
    let colors = colors.filter(|name| matches!(*name, "RGB" | "YCbCr")).ok_or_else(|| {
        Problem::new(FIELD, "`encoded_color_space` is neither RGB nor YCbCr".to_owned())
    })?;
    let tables = tables(object.get("tables_base64"))
        .map_err(|reason| Problem::new(FIELD, format!("`tables_base64` {reason}")))?;
    Ok(Some(Transcode { tables, colors: colors.to_owned() }))
}

/// A JSON integer above 0.
fn positive(members: &Map<String, Value>, field: &'static str) -> Result<u64, Problem> {
    let value = members.get(field);
    let number = value
        .and_then(integer)
        .and_then(|number| u64::try_from(number).ok())
        .filter(|number| *number > 0)
        .ok_or_else(|| Problem::new(field, format!("{} is no integer above 0", shown(value))))?;
    // Coordinates are doubles, which tell pixels apart up to there.
    if number > MAX_SIDE {
        return Err(Problem::new(field, format!("{number} is beyond {MAX_SIDE}")));
    }
    Ok(number)
}

fn tile_side(members: &Map<String, Value>, field: &'static str) -> Result<u32, Problem> {
    let side = positive(members, field)?;
    u32::try_from(side).ok().filter(|side| *side <= 65_535).ok_or_else(|| {
        Problem::new(field, format!("{side} is beyond the largest side of a tile, 65535"))
    })
}

fn grid_side(
    members: &Map<String, Value>,
    field: &'static str,
    pixels: u64,
    tile: u32,
) -> Result<u64, Problem> {
    let side = positive(members, field)?;
    let wanted = pixels.div_ceil(u64::from(tile).max(1));
    if side != wanted {
        return Err(Problem::new(
            field,
            format!("{side}, but {pixels} pixels in tiles of {tile} make {wanted}"),
        ));
    }
    Ok(side)
}

/// A JSON integer that is not negative.
fn count(members: &Map<String, Value>, field: &'static str) -> Result<u64, Problem> {
    let value = members.get(field);
    value
        .and_then(integer)
        .and_then(|number| u64::try_from(number).ok())
        .ok_or_else(|| Problem::new(field, format!("{} is no count", shown(value))))
}

fn mpp(members: &Map<String, Value>, field: &'static str) -> Result<f64, Problem> {
    let value = members.get(field);
    value
        .and_then(Value::as_f64)
        .filter(|mpp| mpp.is_finite() && *mpp > 0.0)
        .ok_or_else(|| Problem::new(field, format!("{} is no finite number above 0", shown(value))))
}

fn background(members: &Map<String, Value>) -> Result<[u8; 3], Problem> {
    const FIELD: &str = "background_rgb";
    let value = members.get(FIELD);
    let color: Option<Vec<u8>> = value.and_then(Value::as_array).and_then(|values| {
        values.iter().map(|value| integer(value).and_then(|it| u8::try_from(it).ok())).collect()
    });
    color.and_then(|color| <[u8; 3]>::try_from(color).ok()).ok_or_else(|| {
        Problem::new(FIELD, format!("{} instead of three integers from 0 to 255", shown(value)))
    })
}

/// A count as a double: exact up to 2^53, which no raster reaches that can be stored.
#[allow(clippy::cast_precision_loss, reason = "sizes of rasters are far below 2^53")]
pub(crate) const fn as_f64(number: u64) -> f64 {
    number as f64
}
