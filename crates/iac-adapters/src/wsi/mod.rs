//! Whole slides (`wsi_image`): one native raster of tiles, read by micrometres per pixel.
//!
//! A pack holds one slide: 8-bit RGB, one focal plane, cut into independent tiles, with scanner
//! metadata, an optional ICC profile and associated images. There are no pyramid levels in the
//! interface: callers name a place in micrometres and the micrometres per pixel that they want.
//!
//! ```no_run
//! use iac_adapters::wsi::{Mpp, Region, WsiPackReader, WsiReadOptions};
//!
//! let slide = WsiPackReader::open("case-7.pat.iac")?;
//! let region = Region { x_um: 1000.0, y_um: 2000.0, width: 512, height: 512, mpp: Mpp::both(1.0) };
//! let image = slide.read_region(&region, &WsiReadOptions::default())?;
//! assert_eq!(image.pixels.len(), 512 * 512 * 3);
//! # Ok::<(), iac_adapters::AdapterError>(())
//! ```
//!
//! | module-level item | what it is for |
//! |---|---|
//! | [`WsiPackReader`] | opening, regions, associated images, profiles, metadata |
//! | [`build_overview`] | derived area averages at 1/8 and 1/64, which make [`Resolution::Fast`] fast |
//! | [`TissueMask`], [`GridSampler`] | which regions of a slide show tissue |
//! | [`WsiPackWriter`] | writing packs of encoded tiles |
//! | [`DeepZoomOptions`] | writing a slide as a Deep Zoom folder |
//! | [`TiffExportOptions`] | writing a slide as a BigTIFF or OME-TIFF file with smaller versions |
//! | [`TileFolderOptions`] | writing the tiles of a grid as files of a folder |
//! | `WsiImporter` | importing slides (feature `wsi-import`) |
//! | `to_srgb` | colours by the slide's own profile (feature `wsi-icc`) |

mod batch;
mod cache;
mod codec_params;
#[cfg(feature = "wsi-icc")]
mod color;
mod deepzoom;
mod fast;
#[cfg(feature = "wsi-import")]
mod import;
mod level_tile;
mod metadata;
mod native;
mod options;
mod original;
mod overview;
mod parallel;
mod plan;
mod raster;
mod read;
mod resample;
mod rows;
mod schema;
mod stream;
#[cfg(test)]
mod stream_blank;
mod tiff_out;
mod tile;
mod tile_folder;
mod tissue;
mod upsample;
pub(crate) mod validate;
mod write;

pub use batch::RegionBatch;
pub use codec_params::{RasterCodec, TileColors};
#[cfg(feature = "wsi-icc")]
pub use color::{SrgbTransform, to_srgb};
pub use deepzoom::{DeepZoomOptions, DeepZoomSummary};
#[cfg(feature = "wsi-import")]
pub use import::{WsiImportSummary, WsiImporter, WsiProfile};
pub use metadata::AssociatedImage;
pub use options::{
    DamagedTile, NativeRegion, OnDamage, OverviewUse, Region, RegionImage, Resolution,
    WsiOpenOptions, WsiReadOptions,
};
pub use overview::{OverviewOptions, OverviewSummary, build_overview, overview_path};
pub use read::WsiPackReader;
pub use schema::{Mpp, WsiInfo};
pub use tiff_out::{TiffExportOptions, TiffExportSummary, TiffFlavor, TiffTiles};
pub use tile_folder::{TileFolderOptions, TileFolderSummary};
pub use tissue::{GridOptions, GridSampler, TissueMask, TissueOptions};
pub use write::{EncodedTile, WsiAssociated, WsiHeader, WsiPackWriter};

/// The payload type of whole slides.
pub const WSI_IMAGE: &str = "wsi_image";
/// The payload type of overviews that lie beside slides.
pub const WSI_OVERVIEW: &str = "wsi_overview";
/// The version of the schema that is read and written.
pub const SCHEMA_VERSION: u64 = 1;

/// Kinds of records.
pub(crate) mod kind {
    pub(crate) const TILE: u8 = 0;
    pub(crate) const METADATA: u8 = 1;
    pub(crate) const BINARY: u8 = 2;
    pub(crate) const IMAGE: u8 = 3;
    pub(crate) const IMAGE_ICC: u8 = 4;
}

/// Codec ids of records other than tiles.
pub(crate) mod codec_id {
    pub(crate) const ZSTD: u8 = 1;
    pub(crate) const NONE: u8 = 2;
    pub(crate) const IMAGE: u8 = 3;
}

/// Name of the record of scanner metadata.
pub(crate) const METADATA_NAME: &str = "scanner_metadata";
/// Name of the record of the slide's profile.
pub(crate) const ICC_NAME: &str = "icc_profile";
/// Extension: area averages of the raster inside of the pack.
pub(crate) const OVERVIEW_EXTENSION: &str = "iac.overview";
/// Extension: tiles are JPEG files, stored as JPEG XL from which they come back bit by bit.
pub(crate) const TRANSCODE_EXTENSION: &str = "iac.jpeg_transcode";
