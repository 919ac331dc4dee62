//! Packs of image tiles, cut out of slides.
//!
//! [`TilePackBuilder`] makes them from a manifest and image files, or from images that are encoded
//! already; [`TilePackReader`] reads them.

mod build;
mod images;
mod journal;
pub(crate) mod options;
mod places;
mod plan;
mod read;
mod rgb;
pub(crate) mod source;
mod warnings;

pub use build::{TilePackBuilder, TileSize, TileSummary};
pub use options::{Alpha, JpegSources, TileColor, WideSamples};
pub use places::TileRect;
pub use read::{TilePackReader, TileReadOptions};
pub use rgb::RgbTile;
pub use warnings::TileWarning;

/// The payload type of packs that every reader knows.
pub const IMAGE_TILES: &str = "image_tiles";

/// The payload type of packs that only this implementation knows: tiles of several sizes, samples
/// of more than 8 bits, or another codec than `jxl`. Positions and sizes of tiles are columns of
/// the index table (`px_x`, `px_y`, `tile_w`, `tile_h`).
pub const IMAGE_TILES_V2: &str = "image_tiles_v2";
