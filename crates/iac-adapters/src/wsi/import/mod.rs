//! Importing whole slides.
//!
//! ```no_run
//! use iac_adapters::wsi::{WsiImporter, WsiProfile};
//! use iac_ops::NoProgress;
//!
//! let importer = WsiImporter::new("slide-7").profile(WsiProfile::Auto);
//! let summary = importer.import("CMU-1.svs", "CMU-1.pat.iac", &NoProgress)?;
//! println!("{} tiles of {}", summary.stored_tiles, summary.codec);
//! # Ok::<(), iac_adapters::AdapterError>(())
//! ```

mod build;
#[cfg(feature = "dicom")]
mod dicom;
mod grid;
mod journal;
mod levels;
#[cfg(all(feature = "wsi-openslide", unix))]
mod openslide;
mod plain;
mod profile;
mod raster;
mod scan;
mod source;
mod tiff;
#[cfg(feature = "jxl")]
mod transcode;

use std::fs::File;
use std::io::Read;
use std::num::NonZeroUsize;
use std::path::Path;

use iac_codec::Limits;
use iac_format::ErrorKind;
use iac_ops::Progress;
use iac_ops::ordered::Bounds;
use iac_writer::{WriteError, WriteOptions, WriteSummary};

use crate::error::{AdapterError, Result, short};
use crate::wsi::parallel;
use crate::wsi::schema::Mpp;
use source::{Description, Opening, RasterSource};

/// Sides of tiles that are not passed through, unless told.
const DEFAULT_TILE: u32 = 512;
/// Endings of names of files that `libopenslide` alone can read.
const OPENSLIDE_ONLY: [&str; 6] = ["mrxs", "vms", "vmu", "svslide", "zvi", "czi"];
/// Micrometres per pixel that scanners have.
const PLAUSIBLE: std::ops::RangeInclusive<f64> = 0.05..=20.0;

/// How the tiles of a pack are made.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[non_exhaustive]
pub enum WsiProfile {
    /// What suits the source: tiles as they are where they are small, without loss where the source
    /// was, and otherwise the smallest loss that makes the pack smaller than the source.
    #[default]
    Auto,
    /// JPEG XL without loss.
    Lossless,
    /// JPEG XL at a distance.
    Distance(f64),
    /// Tiles as they are, to the byte.
    Passthrough,
    /// JPEG tiles in the form of JPEG XL, smaller, from which the same bytes come back. Readers
    /// that do not know this form show pixels that differ by some levels.
    Transcode,
}

/// Imports slides: TIFF and BigTIFF files in tiles or strips, among them those of Aperio, Hamamatsu,
/// Leica, Ventana (where tiles do not overlap), Philips, `PerkinElmer` and OME of bright fields; DICOM
/// files (feature `dicom`), and plain images.
///
/// What a source says of its orientation is undone, and micrometres per pixel are taken from it
/// unless given; they must be between 0.05 and 20 then, as a scanner's are.
#[derive(Debug, Clone)]
pub struct WsiImporter {
    slide_id: String,
    patient_id: String,
    specimen_id: String,
    profile: WsiProfile,
    effort: u8,
    tile: Option<(u32, u32)>,
    mpp: Option<Mpp>,
    mpp_is_stored: bool,
    drop: Vec<String>,
    scrub: bool,
    lossless_associated: bool,
    overview: bool,
    workers: Option<NonZeroUsize>,
    memory: u64,
    limits: Limits,
    write: WriteOptions,
    optical_path: Option<String>,
    focal_plane: Option<u32>,
    openslide: bool,
    resume: bool,
}

/// What was imported.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct WsiImportSummary {
    /// Pixels of a row of the raster.
    pub width: u64,
    /// Its rows.
    pub height: u64,
    /// Micrometres per pixel, as stored.
    pub mpp: Mpp,
    /// The codec of tiles: `jxl`, `jpeg` or `jpeg2000`.
    pub codec: &'static str,
    /// How it was chosen: `explicit`, `source_matched_v1`, `native_passthrough_v1` or `transcode`.
    pub strategy: String,
    /// Tiles with a record.
    pub stored_tiles: u64,
    /// Tiles without one, which are background.
    pub background_tiles: u64,
    /// Tiles for which the source has no data; they are white.
    pub missing_tiles: u64,
    /// JPEG tiles that could not be transcoded, and are kept both as pixels and as they are.
    pub kept_tiles: u64,
    /// Names of the associated images that were kept.
    pub associated: Vec<String>,
    /// What was written.
    pub written: WriteSummary,
}

impl WsiImporter {
    /// An importer with the defaults: automatic profile, effort 7, tiles of 512 x 512 where they are
    /// not those of the source, all cores.
    #[must_use]
    pub fn new(slide_id: impl Into<String>) -> Self {
        Self {
            slide_id: slide_id.into(),
            patient_id: String::new(),
            specimen_id: String::new(),
            profile: WsiProfile::Auto,
            effort: 7,
            tile: None,
            mpp: None,
            mpp_is_stored: false,
            drop: Vec::new(),
            scrub: false,
            lossless_associated: false,
            overview: true,
            workers: None,
            memory: 96 << 20,
            limits: Limits::default(),
            write: WriteOptions::new(),
            optical_path: None,
            focal_plane: None,
            openslide: false,
            resume: false,
        }
    }

    /// The patient's id; default empty.
    #[must_use]
    pub fn patient_id(mut self, id: impl Into<String>) -> Self {
        self.patient_id = id.into();
        self
    }

    /// The specimen's id; default empty.
    #[must_use]
    pub fn specimen_id(mut self, id: impl Into<String>) -> Self {
        self.specimen_id = id.into();
        self
    }

    /// How tiles are made; default [`WsiProfile::Auto`].
    #[must_use]
    pub const fn profile(mut self, profile: WsiProfile) -> Self {
        self.profile = profile;
        self
    }

    /// From 1 (fast) to 10 (small); default 7.
    #[must_use]
    pub const fn effort(mut self, effort: u8) -> Self {
        self.effort = effort;
        self
    }

    /// Width and height of tiles, 1 to 65535; default 512. Tiles that are passed through keep theirs.
    #[must_use]
    pub const fn tile_size(mut self, width: u32, height: u32) -> Self {
        self.tile = Some((width, height));
        self
    }

    /// Micrometres per pixel, in the orientation of the source: for orientations 5 to 8, x and y are
    /// exchanged with the image. Any that are finite and above 0 are believed.
    #[must_use]
    pub const fn native_mpp(mut self, mpp: Mpp) -> Self {
        self.mpp = Some(mpp);
        self.mpp_is_stored = false;
        self
    }

    /// Micrometres per pixel, in the orientation in which the raster is stored.
    #[must_use]
    pub const fn stored_mpp(mut self, mpp: Mpp) -> Self {
        self.mpp = Some(mpp);
        self.mpp_is_stored = true;
        self
    }

    /// Leaves out associated images that have one of these names, or show that by what the source says,
    /// and records that it did. Labels often show who the patient is.
    #[must_use]
    pub fn drop_associated<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.drop = names.into_iter().map(Into::into).collect();
        self
    }

    /// Leaves out what the scanner wrote, and records that it did; default no.
    #[must_use]
    pub const fn scrub_metadata(mut self, scrub: bool) -> Self {
        self.scrub = scrub;
        self
    }

    /// Whether associated images that are JPEG in the source are stored by their exact pixels, as the
    /// reference has it, and not as the same JPEG in the form of JPEG XL, which takes a fraction of
    /// the bytes and differs by some levels; default no.
    #[must_use]
    pub const fn lossless_associated(mut self, lossless: bool) -> Self {
        self.lossless_associated = lossless;
        self
    }

    /// Whether averages at 1/8 and 1/64 are made and kept in the pack, which let coarse regions be
    /// read fast; default yes. Slides get none whose averages would have less than 512 pixels along
    /// both sides, or whose tiles have sides that are no multiples of 8.
    #[must_use]
    pub const fn overview(mut self, overview: bool) -> Self {
        self.overview = overview;
        self
    }

    /// Threads; default (`None`) all cores. The pack does not depend on it.
    #[must_use]
    pub fn workers(mut self, workers: impl Into<Option<NonZeroUsize>>) -> Self {
        self.workers = workers.into();
        self
    }

    /// Bytes that tiles in work may take, and as much again for decoded tiles of the source that are
    /// needed more than once; default 96 MiB.
    #[must_use]
    pub const fn memory(mut self, bytes: u64) -> Self {
        self.memory = bytes;
        self
    }

    /// Bounds on what one tile, strip or plain image of a source may decode to.
    #[must_use]
    pub const fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Which optical path of a DICOM slide is imported, by its identifier. Without it, a slide of
    /// several is refused.
    #[must_use]
    pub fn optical_path(mut self, identifier: impl Into<Option<String>>) -> Self {
        self.optical_path = identifier.into();
        self
    }

    /// Which focal plane is imported, counted from 1 in the order in which the source has them (DICOM:
    /// from the lowest one up). Without it, a slide of several is refused.
    #[must_use]
    pub fn focal_plane(mut self, number: impl Into<Option<u32>>) -> Self {
        self.focal_plane = number.into();
        self
    }

    /// Whether the slide is read by `libopenslide`, whatever it is (feature `wsi-openslide`). Files of
    /// kinds that nothing else here reads, such as MRXS, are so without being asked for. Tiles cannot be
    /// passed through then. Default no.
    #[must_use]
    pub const fn openslide(mut self, openslide: bool) -> Self {
        self.openslide = openslide;
        self
    }

    /// Whether tiles that are encoded go into a journal beside the pack as well (`PACK.journal`), from
    /// which another import of the same source with the same options goes on after this one was
    /// stopped, whatever stopped it. The pack is the same. It takes as many bytes again on the disk
    /// until the pack is complete; default no.
    #[must_use]
    pub const fn resume(mut self, resume: bool) -> Self {
        self.resume = resume;
        self
    }

    /// How the pack is written.
    #[must_use]
    pub const fn options(mut self, options: WriteOptions) -> Self {
        self.write = options;
        self
    }

    /// Imports a slide. The pack appears under its name once it is complete.
    ///
    /// A slide of DICOM files is named by its folder, or by any of its files: all that are of its series
    /// and lie in the same folder are taken together.
    ///
    /// # Errors
    ///
    /// [`AdapterError::Usage`] for arguments out of their range, [`AdapterError::Source`] when the
    /// source is damaged (the message names page and tile), states no plausible micrometres per
    /// pixel or is of a kind that is not read, [`AdapterError::Unsupported`] when the profile does not
    /// suit it, [`AdapterError::Write`], [`AdapterError::Codec`], and [`AdapterError::Ops`] when
    /// stopped through `progress`.
    pub fn import(
        &self,
        source: impl AsRef<Path>,
        pack: impl AsRef<Path>,
        progress: &dyn Progress,
    ) -> Result<WsiImportSummary> {
        let (path, pack) = (source.as_ref(), pack.as_ref());
        let file = path.metadata().map_err(AdapterError::io(path, "cannot open the slide"))?;
        if !file.is_file() && !file.is_dir() {
            return Err(source_error(path, ErrorKind::Usage, "is no file and no folder"));
        }
        if pack.exists() {
            let same = |path: &Path| path.canonicalize().ok();
            if same(path) == same(pack) {
                return Err(AdapterError::usage(format!(
                    "{}: slide and pack are the same file",
                    path.display()
                )));
            }
            if !self.write.overwrite {
                return Err(WriteError::Exists { path: pack.to_owned() }.into());
            }
        }
        self.check()?;
        let source = self.open(path)?;
        // A slide may have further files than the one that is named.
        if let Ok(place) = pack.canonicalize()
            && source.files().iter().any(|file| file.canonicalize().is_ok_and(|it| it == place))
        {
            return Err(AdapterError::usage(format!(
                "{}: the pack would replace a file of the slide",
                pack.display()
            )));
        }
        self.import_source(path, source.as_ref(), pack, progress)
    }

    fn check(&self) -> Result<()> {
        if self.slide_id.is_empty() {
            return Err(AdapterError::usage("the slide has no id"));
        }
        if let Some((width, height)) = self.tile {
            for side in [width, height] {
                if !(1..=65_535).contains(&side) {
                    return Err(AdapterError::usage(format!(
                        "a tile has a side of {side} instead of 1 to 65535"
                    )));
                }
            }
        }
        if !(1..=10).contains(&self.effort) {
            return Err(AdapterError::usage(format!(
                "the effort is {} instead of 1 to 10",
                self.effort
            )));
        }
        if let WsiProfile::Distance(distance) = self.profile
            && !(distance > 0.0 && distance <= 25.0)
        {
            return Err(AdapterError::usage(format!(
                "the distance is {distance} instead of a number above 0 and up to 25"
            )));
        }
        if let Some(mpp) = self.mpp
            && !mpp.is_valid()
        {
            return Err(AdapterError::usage(format!(
                "micrometres per pixel must be finite and above 0, found {mpp}"
            )));
        }
        Ok(())
    }

    /// Opens a source by what its content is.
    fn open(&self, path: &Path) -> Result<Box<dyn RasterSource>> {
        let opening = Opening {
            limits: self.limits,
            cache: usize::try_from(self.memory).unwrap_or(usize::MAX),
            optical_path: self.optical_path.clone(),
            focal_plane: self.focal_plane,
        };
        if path.is_dir() {
            return open_dicom(path, &opening);
        }
        let fail = || AdapterError::io(path, "cannot read the slide");
        let mut start = Vec::new();
        let file = File::open(path).map_err(AdapterError::io(path, "cannot open the slide"))?;
        file.take(132).read_to_end(&mut start).map_err(fail())?;
        let suffix = path.extension().and_then(|it| it.to_str()).unwrap_or_default();
        let is_one_of = |known: &[&str]| known.iter().any(|it| suffix.eq_ignore_ascii_case(it));
        let is_slide = is_one_of(&["svs", "ndpi", "scn", "bif", "qptiff", "tif", "tiff"]);
        let is_tiff =
            [&b"II*\0"[..], b"II+\0", b"MM\0*", b"MM\0+"].iter().any(|it| start.starts_with(it));
        if self.openslide || (is_one_of(&OPENSLIDE_ONLY) && !is_tiff) {
            return open_openslide(path, &opening);
        }
        if start.get(128..132) == Some(b"DICM") || (is_one_of(&["dcm", "dicom"]) && !is_tiff) {
            return open_dicom(path, &opening);
        }
        if is_tiff || is_slide {
            return Ok(Box::new(tiff::TiffSource::open(path, &opening)?));
        }
        Ok(Box::new(plain::PlainSource::open(path, self.limits)?))
    }

    /// Micrometres per pixel in the stored orientation, and where they come from.
    fn resolution(&self, path: &Path, description: &Description) -> Result<(Mpp, &'static str)> {
        let turned = |mpp: Mpp| {
            if description.orientation >= 5 { Mpp { x: mpp.y, y: mpp.x } } else { mpp }
        };
        if let Some(mpp) = self.mpp {
            let mpp = if self.mpp_is_stored { mpp } else { turned(mpp) };
            return Ok((mpp, "user_override"));
        }
        let Some(stated) = &description.mpp else {
            return Err(source_error(
                path,
                ErrorKind::Usage,
                "does not state its micrometres per pixel: give them",
            ));
        };
        let mpp = stated.mpp;
        if ![mpp.x, mpp.y].iter().all(|mpp| PLAUSIBLE.contains(mpp)) {
            return Err(source_error(
                path,
                ErrorKind::Usage,
                format!(
                    "states {mpp} micrometres per pixel ({}), but scanners have {} to {}: give them",
                    stated.place,
                    PLAUSIBLE.start(),
                    PLAUSIBLE.end()
                ),
            ));
        }
        Ok((turned(mpp), "source_metadata"))
    }
}

#[cfg(all(feature = "wsi-openslide", unix))]
fn open_openslide(path: &Path, opening: &Opening) -> Result<Box<dyn RasterSource>> {
    Ok(Box::new(openslide::OpenSlideSource::open(path, opening)?))
}

#[cfg(not(all(feature = "wsi-openslide", unix)))]
fn open_openslide(path: &Path, _: &Opening) -> Result<Box<dyn RasterSource>> {
    Err(source_error(
        path,
        ErrorKind::Unsupported,
        "is to be read by OpenSlide, which needs the feature `wsi-openslide`",
    ))
}

#[cfg(feature = "dicom")]
fn open_dicom(path: &Path, opening: &Opening) -> Result<Box<dyn RasterSource>> {
    Ok(Box::new(dicom::DicomSource::open(path, opening)?))
}

#[cfg(not(feature = "dicom"))]
fn open_dicom(path: &Path, _: &Opening) -> Result<Box<dyn RasterSource>> {
    Err(source_error(
        path,
        ErrorKind::Unsupported,
        "is a folder or a DICOM file, which needs the feature `dicom`",
    ))
}

fn source_error(path: &Path, kind: ErrorKind, reason: impl Into<String>) -> AdapterError {
    AdapterError::Source { path: path.to_owned(), row: None, kind, reason: short(&reason.into()) }
}

/// Does work for items on several threads and hands the results on in order.
fn in_order<T: Send, R: Send>(
    items: impl Iterator<Item = T> + Send,
    options: &WsiImporter,
    progress: &dyn Progress,
    cost: u64,
    work: impl Fn(T) -> Result<R> + Sync,
    emit: impl FnMut(R) -> Result<()>,
) -> Result<()> {
    let bounds = Bounds { workers: options.workers, cost: options.memory };
    parallel::in_order(items, bounds, progress, cost, work, emit)
}
