//! Deep Zoom: a slide as folders of small images, one folder for each halving, which viewers in web pages
//! read.

use std::fs;
use std::io::Write as _;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use iac_codec::{ImageShape, ImageView};
use iac_ops::Progress;

use super::options::{Resolution, WsiReadOptions};
use super::parallel::in_parallel;
use super::read::{Placed, WsiPackReader, output};
use super::schema::as_f64;
use super::tile_folder::{FileEncoder, give_name};
use crate::error::{AdapterError, Result};
use crate::new_file::NewFile;
use crate::task::{Task, check_cancelled};

/// Tiles that the largest size may be cut into: the same number of files.
const MAX_TILES: u64 = 1 << 24;

/// How a slide becomes a Deep Zoom folder.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct DeepZoomOptions {
    /// Pixels of tiles without what they share; default 254.
    pub tile: u32,
    /// Pixels that tiles share with each neighbour; default 1.
    pub overlap: u32,
    /// The quality of JPEG tiles, 1 to 100; `None` makes PNG tiles, which lose nothing. Default 90.
    pub quality: Option<u8>,
    /// How the smaller images are made; default [`Resolution::Fast`].
    pub resolution: Resolution,
    /// Threads; default 1.
    pub workers: NonZeroUsize,
}

impl Default for DeepZoomOptions {
    fn default() -> Self {
        Self {
            tile: 254,
            overlap: 1,
            quality: Some(90),
            resolution: Resolution::Fast,
            workers: NonZeroUsize::MIN,
        }
    }
}

impl DeepZoomOptions {
    /// The defaults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeepZoomSummary {
    /// The description, which viewers open.
    pub path: PathBuf,
    /// The folder with the tiles.
    pub folder: PathBuf,
    /// How many sizes there are.
    pub levels: u32,
    /// Tiles of all of them.
    pub tiles: u64,
}

/// Removes a folder that is not complete.
struct Unfinished<'a>(Option<&'a Path>);

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if let Some(folder) = self.0 {
            // Whatever made the work fail is what is told.
            let _ = fs::remove_dir_all(folder);
        }
    }
}

impl WsiPackReader {
    /// Writes the slide as `NAME.dzi` and the folder `NAME_files` beside it. The folder appears whole and the
    /// description last; when anything fails, neither is left.
    ///
    /// PNG tiles of the largest size have the native pixels.
    ///
    /// # Errors
    ///
    /// [`AdapterError::Usage`] for options out of their range or a name that does not end in `.dzi`;
    /// [`AdapterError::Write`] when description or folder exist; [`AdapterError::Io`] when they cannot be written;
    /// [`AdapterError::Read`] and [`AdapterError::Codec`] for damaged tiles; [`AdapterError::Ops`] when
    /// stopped through `progress`.
    pub fn export_deep_zoom(
        &self,
        path: impl AsRef<Path>,
        options: &DeepZoomOptions,
        progress: &dyn Progress,
    ) -> Result<DeepZoomSummary> {
        let path = path.as_ref();
        let is_named = path.extension().is_some_and(|suffix| suffix == "dzi");
        let stem = path.file_stem().filter(|_| is_named).ok_or_else(|| {
            AdapterError::usage(format!("{}: the file's name must end in .dzi", path.display()))
        })?;
        if options.tile == 0 || options.tile > 8192 || options.overlap > options.tile {
            return Err(AdapterError::usage(format!(
                "tiles of {} pixels that share {} are not possible: sides are 1 to 8192, and no \
                 tile shares more than it has",
                options.tile, options.overlap
            )));
        }
        let mut name = stem.to_owned();
        name.push("_files");
        let folder = path.with_file_name(name);
        for place in [path, folder.as_path()] {
            if place.symlink_metadata().is_ok() {
                return Err(iac_writer::WriteError::Exists { path: place.to_owned() }.into());
            }
        }
        let encoder =
            FileEncoder::new(options.quality).map_err(|source| self.export_error(source))?;
        let info = self.info();
        let count = |side: u64| side.div_ceil(u64::from(options.tile));
        let (across, down) = (count(info.width), count(info.height));
        if across.saturating_mul(down) > MAX_TILES {
            return Err(AdapterError::usage(format!(
                "{}: {} x {} pixels make {across} x {down} tiles of {}, but at most {MAX_TILES} are \
                 written",
                self.reader().path(),
                info.width,
                info.height,
                options.tile
            )));
        }
        let levels =
            u64::BITS.saturating_sub(info.width.max(info.height).saturating_sub(1).leading_zeros());
        let parent = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let made = tempfile::Builder::new()
            .prefix(".iac.")
            .suffix(".part")
            .tempdir_in(parent)
            .map_err(AdapterError::io(&folder, "cannot make the folder"))?;
        let task = Task::begin(progress, "writing tiles", None);
        let mut tiles = 0_u64;
        for level in (0..=levels).rev() {
            let scale = levels.saturating_sub(level);
            let part = made.path().join(level.to_string());
            fs::create_dir(&part).map_err(AdapterError::io(&part, "cannot make the folder"))?;
            let side = |side: u64| side.div_ceil(1_u64.wrapping_shl(scale));
            let size = (side(info.width), side(info.height));
            let step = u64::from(options.tile);
            let (across, down) = (size.0.div_ceil(step), size.1.div_ceil(step));
            for row in 0..down {
                check_cancelled(progress)?;
                let made = in_parallel(options.workers, (0..across).collect(), |column| {
                    let file = part.join(format!("{column}_{row}.{}", encoder.suffix()));
                    let bytes = self.zoom_tile((column, row), size, scale, options, &encoder)?;
                    fs::write(&file, bytes)
                        .map_err(AdapterError::io(&file, "cannot write the tile"))
                });
                made.into_iter().collect::<Result<()>>()?;
                tiles = tiles.saturating_add(across);
                task.advance(across);
            }
        }
        let description = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Image \
             xmlns=\"http://schemas.microsoft.com/deepzoom/2008\" Format=\"{}\" Overlap=\"{}\" \
             TileSize=\"{}\"><Size Width=\"{}\" Height=\"{}\"/></Image>\n",
            encoder.suffix(),
            options.overlap,
            options.tile,
            info.width,
            info.height
        );
        let mut file = NewFile::create(path, false)?;
        let fail = AdapterError::io(path, "cannot write the description");
        file.file().write_all(description.as_bytes()).map_err(fail)?;
        give_name(made, &folder)?;
        let mut unfinished = Unfinished(Some(&folder));
        file.publish()?;
        unfinished.0 = None;
        drop(unfinished);
        let levels = levels.saturating_add(1);
        Ok(DeepZoomSummary { path: path.to_owned(), folder, levels, tiles })
    }

    /// A tile of a size, encoded.
    fn zoom_tile(
        &self,
        place: (u64, u64),
        size: (u64, u64),
        scale: u32,
        options: &DeepZoomOptions,
        encoder: &FileEncoder,
    ) -> Result<Vec<u8>> {
        let (tile, overlap) = (u64::from(options.tile), u64::from(options.overlap));
        let span = |at: u64, size: u64| {
            let start = at.saturating_mul(tile);
            let end = start.saturating_add(tile).saturating_add(overlap).min(size);
            let start = start.saturating_sub(overlap);
            (start, u32::try_from(end.saturating_sub(start)).unwrap_or(u32::MAX))
        };
        let ((x, width), (y, height)) = (span(place.0, size.0), span(place.1, size.1));
        let step = as_f64(1_u64.wrapping_shl(scale));
        let placed = Placed {
            start: [as_f64(x) * step, as_f64(y) * step],
            step: [step, step],
            size: [width, height],
            upsample: false,
        };
        let mut pixels = output(1, width, height)?;
        let resolution = if scale == 0 { Resolution::Exact } else { options.resolution };
        let read = WsiReadOptions::new().resolution(resolution);
        self.render_placed(&placed, &mut pixels, &read)?;
        let encoded = ImageShape::new(height, width, 3)
            .and_then(|shape| ImageView::new(shape, &pixels[..]))
            .map_err(|source| self.export_error(source))?;
        encoder.encode(&encoded).map_err(|source| self.export_error(source))
    }

    fn export_error(&self, source: iac_codec::CodecError) -> AdapterError {
        AdapterError::Codec { path: self.reader().path().to_owned(), row: None, source }
    }
}
