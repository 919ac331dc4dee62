//! What slides are imported from.

use std::path::PathBuf;

use iac_codec::Limits;
use serde_json::{Map, Value, json};

use crate::error::Result;
use crate::wsi::codec_params::TileColors;
use crate::wsi::schema::Mpp;

/// A rectangle of pixels inside of a raster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rect {
    pub(crate) x: u64,
    pub(crate) y: u64,
    pub(crate) width: u64,
    pub(crate) height: u64,
}

impl Rect {
    /// What two rectangles share.
    pub(crate) fn shared(self, other: Self) -> Option<Self> {
        let (x, y) = (self.x.max(other.x), self.y.max(other.y));
        let end = |start: u64, length: u64| start.saturating_add(length);
        let right = end(self.x, self.width).min(end(other.x, other.width));
        let bottom = end(self.y, self.height).min(end(other.y, other.height));
        let (width, height) = (right.checked_sub(x)?, bottom.checked_sub(y)?);
        (width > 0 && height > 0).then_some(Self { x, y, width, height })
    }
}

/// How sources are opened.
#[derive(Debug, Clone, Default)]
pub(crate) struct Opening {
    pub(crate) limits: Limits,
    /// Bytes of decoded tiles that are kept because several reads need them.
    pub(crate) cache: usize,
    /// Which optical path, where there are several.
    pub(crate) optical_path: Option<String>,
    /// Which focal plane, where there are several; they count from 1.
    pub(crate) focal_plane: Option<u32>,
}

impl Opening {
    /// The plane that was chosen of so many, counted from 0; what is wrong otherwise.
    pub(crate) fn plane_of(&self, planes: usize) -> std::result::Result<usize, String> {
        let chosen = self.focal_plane.and_then(|number| usize::try_from(number).ok());
        match chosen {
            None if planes <= 1 => Ok(0),
            None => Err(format!("has {planes} focal planes: choose one")),
            Some(number) if (1..=planes.max(1)).contains(&number) => Ok(number.saturating_sub(1)),
            Some(number) => Err(format!(
                "the focal plane {number} was chosen, but those from 1 to {} are there",
                planes.max(1)
            )),
        }
    }
}

/// Micrometres per pixel that a source states.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StatedMpp {
    pub(crate) mpp: Mpp,
    /// Where the source states them.
    pub(crate) place: &'static str,
}

/// How a source stores its pixels.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Storage {
    pub(crate) codec: String,
    pub(crate) tiff_compression: Option<String>,
    /// Nothing where it cannot be told.
    pub(crate) lossy: Option<bool>,
    pub(crate) quality: Option<i64>,
    pub(crate) native_bytes: Option<u64>,
    pub(crate) source_bytes: u64,
    pub(crate) tile: Option<(u64, u64)>,
}

impl Storage {
    /// Where nothing is known but the size of the source.
    pub(crate) const fn unknown(source_bytes: u64) -> Self {
        Self {
            codec: String::new(),
            tiff_compression: None,
            lossy: None,
            quality: None,
            native_bytes: None,
            source_bytes,
            tile: None,
        }
    }

    pub(crate) fn to_json(&self) -> Value {
        json!({
            "codec": self.codec,
            "tiff_compression": self.tiff_compression,
            "lossy": self.lossy,
            "nominal_quality": self.quality,
            "native_compressed_bytes": self.native_bytes,
            "source_bytes": self.source_bytes,
            "native_tile_width": self.tile.map(|tile| tile.0),
            "native_tile_height": self.tile.map(|tile| tile.1),
        })
    }
}

/// What a source says about itself.
#[derive(Debug, Clone)]
pub(crate) struct Description {
    /// Before the orientation is undone.
    pub(crate) width: u64,
    pub(crate) height: u64,
    pub(crate) orientation: u8,
    pub(crate) mpp: Option<StatedMpp>,
    /// The route, by the name that the reference has for it.
    pub(crate) backend: &'static str,
    pub(crate) format: String,
    pub(crate) mode: String,
    pub(crate) storage: Storage,
    pub(crate) info: Map<String, Value>,
    pub(crate) icc: Option<Vec<u8>>,
    /// Whether associated images are looked for.
    pub(crate) keeps_associated: bool,
}

impl Description {
    /// Width and height once the orientation is undone.
    pub(crate) const fn stored_size(&self) -> (u64, u64) {
        if self.orientation >= 5 { (self.height, self.width) } else { (self.width, self.height) }
    }
}

/// Tiles that can become records of a pack as they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NativeTiles {
    /// Width and height.
    pub(crate) tile: (u32, u32),
    pub(crate) kind: NativeKind,
    /// Why the reference would show them wrong, where it would.
    pub(crate) hazard: Option<&'static str>,
}

/// What such tiles are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NativeKind {
    Jpeg { colors: TileColors, tables: Option<Vec<u8>> },
    Jpeg2000 { compression: String },
}

/// An image that lies beside the raster.
#[derive(Debug, Clone)]
pub(crate) struct AssociatedSource {
    pub(crate) name: String,
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) mode: String,
    pub(crate) has_alpha: bool,
    /// What the source says that it shows, which need not be its name: `label`, `macro`.
    pub(crate) shows: Option<&'static str>,
    pub(crate) icc: Option<Vec<u8>>,
    pub(crate) info: Map<String, Value>,
}

/// A slide that can be imported. Pixels are in the source's own orientation.
pub(crate) trait RasterSource: Sync {
    fn description(&self) -> &Description;

    /// The files that it is read from, as far as they are known.
    fn files(&self) -> Vec<PathBuf>;

    /// Rows of RGB of a rectangle that lies inside of the raster.
    fn read(&self, rect: Rect) -> Result<Vec<u8>>;

    /// Whether a rectangle is known to be white, because the source has no data there. Saying no is
    /// always right, and costs time on slides of which nearly all is only claimed.
    fn is_blank(&self, rect: Rect) -> bool {
        let _ = rect;
        false
    }

    /// Tiles that can be passed through, where there are such.
    fn native(&self) -> Option<&NativeTiles> {
        None
    }

    /// The bytes of such a tile, tested against its header; nothing where the source has none.
    fn native_tile(&self, x: u32, y: u32) -> Result<Option<Vec<u8>>> {
        let _ = (x, y);
        Ok(None)
    }

    /// Rows of RGB of such a tile at 1/8, each pixel the average of a square, where that can be had
    /// cheaper than from all pixels.
    fn small_tile(&self, place: (u32, u32), payload: &[u8]) -> Result<Option<Vec<u8>>> {
        let _ = (place, payload);
        Ok(None)
    }

    /// The associated images.
    fn associated(&self) -> &[AssociatedSource] {
        &[]
    }

    /// Rows of RGB of an associated image.
    fn read_associated(&self, position: usize) -> Result<Vec<u8>> {
        let _ = position;
        Ok(Vec::new())
    }

    /// An associated image as a whole JPEG file, where it is one in the source but for how it is cut.
    fn associated_jpeg(&self, position: usize) -> Result<Option<Vec<u8>>> {
        let _ = position;
        Ok(None)
    }

    /// Places of the raster for which the source has no data.
    fn missing(&self) -> u64 {
        0
    }
}
