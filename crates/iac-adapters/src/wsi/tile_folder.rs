//! The tiles of a grid as image files of a folder, with a list of where each lies.

use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use iac_codec::{Codec, CodecError, CodecSpec, ImageShape, ImageView, Parameters, Registry};
use iac_ops::Progress;
use iac_ops::ordered::Bounds;
use iac_ops::pictures::write_png;

use super::options::{Region, Resolution, WsiReadOptions};
use super::parallel::in_order;
use super::read::WsiPackReader;
use super::schema::Mpp;
use super::tissue::{GridOptions, GridSampler, TissueMask, TissueOptions};
use crate::error::{AdapterError, Result};
use crate::manifest::push_field;
use crate::task::Task;

/// The list of tiles.
const LIST: &str = "tiles.csv";
/// Tiles that a folder is given.
const MAX_TILES: usize = 1 << 24;

/// How a slide becomes a folder of tiles.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TileFolderOptions {
    /// Micrometres per pixel; default (`None`) those of the raster.
    pub mpp: Option<Mpp>,
    /// Pixels along both sides; default 512.
    pub tile: u32,
    /// Pixels from one tile to the next; default (`None`) the tile's side.
    pub stride: Option<u32>,
    /// The share of tissue that a tile must exceed; default (`None`) all tiles are written.
    pub min_tissue: Option<f64>,
    /// The quality of JPEG files, 1 to 100; default (`None`) PNG files, which lose nothing.
    pub quality: Option<u8>,
    /// How pixels are made; default [`Resolution::Exact`].
    pub resolution: Resolution,
    /// Threads; default (`None`) all cores.
    pub workers: Option<NonZeroUsize>,
}

impl Default for TileFolderOptions {
    fn default() -> Self {
        Self {
            mpp: None,
            tile: 512,
            stride: None,
            min_tissue: None,
            quality: None,
            resolution: Resolution::Exact,
            workers: None,
        }
    }
}

impl TileFolderOptions {
    /// The defaults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TileFolderSummary {
    /// The folder.
    pub path: PathBuf,
    /// Its list of tiles.
    pub list: PathBuf,
    /// Tiles.
    pub tiles: u64,
}

impl WsiPackReader {
    /// Writes tiles of a grid that begins at the slide's corner to a new folder, as `COLUMN_ROW.png` or
    /// `.jpeg`, and `tiles.csv`, which tells of each where it lies. The folder appears once it is
    /// complete; tiles at the right and lower edge are filled up with background.
    ///
    /// The list is a manifest that packs of tiles are made of: `tile_id` is slide, column and row, `x` and
    /// `y` are pixels of the tiles' own resolution. Behind these columns stand `column`, `row`, `x_um`,
    /// `y_um`, `width`, `height`, `mpp_x` and `mpp_y`, the region that a tile shows.
    ///
    /// # Errors
    ///
    /// [`AdapterError::Usage`] for options out of their range; [`AdapterError::Write`] when the folder
    /// exists; [`AdapterError::Io`] when it cannot be written; [`AdapterError::Read`] and
    /// [`AdapterError::Codec`] for damaged tiles; [`AdapterError::Ops`] when stopped through `progress`.
    pub fn export_tiles(
        &self,
        folder: impl AsRef<Path>,
        options: &TileFolderOptions,
        progress: &dyn Progress,
    ) -> Result<TileFolderSummary> {
        let folder = folder.as_ref();
        if folder.symlink_metadata().is_ok() {
            return Err(iac_writer::WriteError::Exists { path: folder.to_owned() }.into());
        }
        let codec_error = |source: CodecError| AdapterError::Codec {
            path: self.reader().path().to_owned(),
            row: None,
            source,
        };
        let encoder = FileEncoder::new(options.quality).map_err(codec_error)?;
        let places = self.grid(options)?;
        let parent = match folder.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let unfinished = tempfile::Builder::new()
            .prefix(".iac.")
            .suffix(".part")
            .tempdir_in(parent)
            .map_err(AdapterError::io(folder, "cannot make the folder"))?;
        let count = u64::try_from(places.len()).unwrap_or(u64::MAX);
        let task = Task::begin(progress, "writing tiles", Some(count));
        let reading = WsiReadOptions::new().resolution(options.resolution);
        let mut list = Vec::from(
            *b"tile_id,patient_id,slide_id,tile_path,x,y,split,\
              column,row,x_um,y_um,width,height,mpp_x,mpp_y\n",
        );
        let slide = &self.info().slide_id;
        let patient = self.info().patient_id.as_deref().unwrap_or_default();
        let stride = options.stride.unwrap_or(options.tile);
        let bounds = Bounds { workers: options.workers, cost: 96 << 20 };
        let cost = u64::from(options.tile).saturating_mul(options.tile.into()).saturating_mul(8);
        in_order(
            places.into_iter(),
            bounds,
            progress,
            cost,
            |(column, row, region): (u32, u32, Region)| {
                let image = self.read_region(&region, &reading)?;
                let name = format!("{column}_{row}.{}", encoder.suffix());
                let bytes = ImageShape::new(image.height, image.width, 3)
                    .and_then(|shape| ImageView::new(shape, &image.pixels[..]))
                    .and_then(|view| encoder.encode(&view))
                    .map_err(codec_error)?;
                let path = unfinished.path().join(&name);
                fs::write(&path, bytes)
                    .map_err(AdapterError::io(&path, "cannot write the tile"))?;
                let mut line = Vec::new();
                let tile = format!("{slide}_{column}_{row}");
                for field in [tile.as_str(), patient, slide] {
                    push_field(&mut line, field);
                    line.push(b',');
                }
                let [x, y] = [column, row].map(|at| u64::from(at).saturating_mul(stride.into()));
                let Region { x_um, y_um, width, height, mpp } = region;
                let Mpp { x: mpp_x, y: mpp_y } = mpp;
                let rest = format!(
                    "{name},{x},{y},,{column},{row},{x_um},{y_um},{width},{height},{mpp_x},{mpp_y}\n"
                );
                line.extend_from_slice(rest.as_bytes());
                Ok(line)
            },
            |line| {
                list.extend_from_slice(&line);
                task.advance(1);
                Ok(())
            },
        )?;
        let written = unfinished.path().join(LIST);
        fs::write(&written, list).map_err(AdapterError::io(&written, "cannot write the list"))?;
        give_name(unfinished, folder)?;
        Ok(TileFolderSummary { path: folder.to_owned(), list: folder.join(LIST), tiles: count })
    }

    /// Column, row and region of each tile that is wanted.
    fn grid(&self, options: &TileFolderOptions) -> Result<Vec<(u32, u32, Region)>> {
        let mpp = options.mpp.unwrap_or(self.info().mpp);
        let stride = options.stride.unwrap_or(options.tile);
        let reading = WsiReadOptions::new();
        let mask = match options.min_tissue {
            Some(_) => TissueMask::compute(self, &TissueOptions::default(), &reading)?,
            None => TissueMask::none(),
        };
        let mut grid = GridOptions::new(options.tile, options.tile, mpp);
        grid.stride = (stride, stride);
        grid.min_tissue = options.min_tissue.unwrap_or(-1.0);
        grid.partial = true;
        let sampler = GridSampler::new(self, &mask, grid)?;
        if sampler.cells() > u64::try_from(MAX_TILES).unwrap_or(u64::MAX) {
            return Err(AdapterError::usage(format!(
                "a grid of {} tiles is larger than the {MAX_TILES} that are written",
                sampler.cells()
            )));
        }
        let at = |um: f64, mpp: f64| number(um / (mpp * f64::from(stride)));
        Ok(sampler.map(|region| (at(region.x_um, mpp.x), at(region.y_um, mpp.y), region)).collect())
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place of a grid")]
fn number(at: f64) -> u32 {
    at.round() as u32
}

/// Renames a finished folder to what it is called, with the rights of an ordinary one.
pub(super) fn give_name(folder: tempfile::TempDir, name: &Path) -> Result<()> {
    let failed = || AdapterError::io(name, "cannot make the folder");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let rights = fs::Permissions::from_mode(0o755);
        fs::set_permissions(folder.path(), rights).map_err(failed())?;
    }
    fs::rename(folder.path(), name).map_err(failed())?;
    // What was renamed is not there to be removed any more.
    let _ = folder.keep();
    Ok(())
}

/// What makes files of tiles.
pub(super) enum FileEncoder {
    Jpeg(Codec),
    Png,
}

impl FileEncoder {
    pub(super) fn new(quality: Option<u8>) -> Result<Self, CodecError> {
        let Some(quality) = quality else { return Ok(Self::Png) };
        let mut parameters = Parameters::new();
        parameters.insert("quality".to_owned(), quality.into());
        Registry::global().create_encoder(&CodecSpec::new("jpeg", parameters)).map(Self::Jpeg)
    }

    pub(super) const fn suffix(&self) -> &'static str {
        match self {
            Self::Jpeg(_) => "jpeg",
            Self::Png => "png",
        }
    }

    pub(super) fn encode(&self, view: &ImageView<'_>) -> Result<Vec<u8>, CodecError> {
        match self {
            Self::Jpeg(codec) => codec.encode_image(view),
            Self::Png => {
                write_png(view).map_err(|error| CodecError::encode("png", error.to_string()))
            }
        }
    }
}
