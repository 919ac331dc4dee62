//! Slides in DICOM files (VL Whole Slide Microscopy, PS3.3 A.32.8): the raster is the largest volume
//! image of a series, in one file or in several; label and overview lie beside it.

mod frame;
mod instance;
mod places;

use std::path::{Path, PathBuf};

use bytes::Bytes;
use iac_format::ErrorKind;
use serde_json::Map;

use self::frame::FrameDecoder;
use self::instance::{Flavor, Instance};
use self::places::Places;
use super::grid::{ChunkGrid, white};
use super::source::{
    AssociatedSource, Description, NativeKind, NativeTiles, Opening, RasterSource, Rect, StatedMpp,
    Storage,
};
use super::source_error;
use crate::error::{AdapterError, Result, short};
use crate::wsi::cache::Cache;

/// Files that a folder may have.
const MAX_FILES: usize = 4096;
/// Pixels that an associated image may have.
const MAX_ASSOCIATED: u64 = 64 << 20;
/// How many associated images there may be, and pixels of all of them: none of these need be stored.
const MAX_ALL_ASSOCIATED: (usize, u64) = (256, 1 << 30);

/// A slide in DICOM files.
pub(crate) struct DicomSource {
    path: PathBuf,
    instances: Vec<Instance>,
    raster: Image,
    cache: Cache<(u64, u64)>,
    description: Description,
    native: Option<NativeTiles>,
    associated: Vec<AssociatedSource>,
    associated_images: Vec<Image>,
}

/// An image that is put together from the frames of one or several instances.
struct Image {
    width: u64,
    height: u64,
    /// Width and height of frames.
    tile: (u64, u64),
    places: Places,
    decoder: FrameDecoder,
}

impl DicomSource {
    /// Opens the series that a file belongs to, or that lies in a folder.
    pub(crate) fn open(path: &Path, opening: &Opening) -> Result<Self> {
        let instances = instances(path)?;
        let wrong = |kind, reason: String| source_error(path, kind, reason);
        let volumes = of_flavor(&instances, Flavor::Volume);
        let area = |at: &usize| instances.get(*at).map(|it| it.width.saturating_mul(it.height));
        let largest = volumes.iter().copied().max_by_key(|at| area(at));
        let main = largest.and_then(|at| instances.get(at)).ok_or_else(|| {
            wrong(ErrorKind::Unsupported, "holds no volume image of a slide".to_owned())
        })?;
        // All files of that size: parts of a concatenation, optical paths, focal planes.
        let same: Vec<usize> = volumes
            .iter()
            .copied()
            .filter(|at| instances.get(*at).is_some_and(|it| it.same_raster(main)))
            .collect();
        let raster = Image::of(path, &instances, &same, opening, true)?;
        let mut opened = Self {
            path: path.to_owned(),
            cache: Cache::new(opening.cache),
            description: describe(&instances, &same, &raster),
            native: None,
            raster,
            instances: Vec::new(),
            associated: Vec::new(),
            associated_images: Vec::new(),
        };
        for (flavor, name) in [
            (Flavor::Thumbnail, "thumbnail"),
            (Flavor::Label, "label"),
            (Flavor::Overview, "macro"),
        ] {
            for (number, at) in (1_usize..).zip(of_flavor(&instances, flavor)) {
                let image = Image::of(path, &instances, &[at], opening, false)?;
                opened.add_associated(name, number, image, instances.get(at))?;
            }
        }
        opened.instances = instances;
        opened.native = opened.native_tiles()?;
        Ok(opened)
    }

    fn add_associated(
        &mut self,
        name: &'static str,
        number: usize,
        image: Image,
        instance: Option<&Instance>,
    ) -> Result<()> {
        let sides = (u32::try_from(image.width), u32::try_from(image.height));
        let pixels = image.width.saturating_mul(image.height);
        let (true, (Ok(width), Ok(height))) = (pixels <= MAX_ASSOCIATED, sides) else {
            return Err(source_error(
                &self.path,
                ErrorKind::Limit,
                format!(
                    "the {name} has {} x {} pixels, more than an associated image may have",
                    image.width, image.height
                ),
            ));
        };
        let before = self.associated_images.iter().map(|it| it.width.saturating_mul(it.height));
        let all = before.fold(pixels, u64::saturating_add);
        let count = self.associated_images.len().saturating_add(1);
        if count > MAX_ALL_ASSOCIATED.0 || all > MAX_ALL_ASSOCIATED.1 {
            return Err(source_error(
                &self.path,
                ErrorKind::Limit,
                format!(
                    "has {count} or more associated images of {all} pixels, but at most {} of {} are \
                     read",
                    MAX_ALL_ASSOCIATED.0, MAX_ALL_ASSOCIATED.1
                ),
            ));
        }
        // Whatever shows the whole slide shows its label too.
        let shows = (name != "thumbnail").then_some("label");
        self.associated.push(AssociatedSource {
            name: if number == 1 { name.to_owned() } else { format!("{name}_{number}") },
            width,
            height,
            mode: image.decoder.mode().to_owned(),
            has_alpha: false,
            shows,
            icc: instance.and_then(|it| it.profile_of(None)),
            info: Map::new(),
        });
        self.associated_images.push(image);
        Ok(())
    }

    /// A frame as it is stored; nothing where there is none.
    fn stream(&self, image: &Image, x: u64, y: u64) -> Result<Option<Bytes>> {
        let Some((at, frame)) = image.places.get(x, y) else { return Ok(None) };
        let instance = self.instance(at)?;
        instance.stream(frame).map(Some)
    }

    fn instance(&self, at: usize) -> Result<&Instance> {
        self.instances
            .get(at)
            .ok_or_else(|| source_error(&self.path, ErrorKind::Decode, "a frame lies in no file"))
    }

    fn decoded(&self, image: &Image, x: u64, y: u64) -> Result<Option<Bytes>> {
        let Some((at, frame)) = image.places.get(x, y) else { return Ok(None) };
        let instance = self.instance(at)?;
        image.decoder.decode(instance, frame).map(|pixels| Some(pixels.into()))
    }

    fn compose(
        &self,
        image: &Image,
        rect: Rect,
        get: impl FnMut(u64, u64, bool) -> Result<Option<Bytes>>,
    ) -> Result<Vec<u8>> {
        let mut out = white(rect.width, rect.height).ok_or_else(|| {
            source_error(&self.path, ErrorKind::Limit, "a region is larger than the memory")
        })?;
        let grid = ChunkGrid { chunk: image.tile, size: (image.width, image.height) };
        grid.copy(rect, (&mut out, rect.width, (0, 0)), get)?.map_err(|(x, y)| {
            source_error(
                &self.path,
                ErrorKind::Decode,
                format!("the frame at ({x}, {y}) has fewer pixels than its size says"),
            )
        })?;
        Ok(out)
    }

    /// Frames that can become records as they are.
    fn native_tiles(&self) -> Result<Option<NativeTiles>> {
        let tile = (u32::try_from(self.raster.tile.0), u32::try_from(self.raster.tile.1));
        let (Ok(width), Ok(height)) = tile else { return Ok(None) };
        let Some(((at, frame), decoder)) =
            self.raster.places.first().zip(Some(&self.raster.decoder))
        else {
            return Ok(None);
        };
        let kind = if let Some(colors) = decoder.jpeg_colors() {
            NativeKind::Jpeg { colors, tables: None }
        } else if decoder.is_jpeg2000_rgb() {
            NativeKind::Jpeg2000 { compression: "JPEG2000".to_owned() }
        } else {
            return Ok(None);
        };
        // Frames that have other components than their description says are decoded and encoded.
        let stream = self.instance(at)?.stream(frame)?;
        let fits = decoder.fits(&stream);
        Ok(fits.then_some(NativeTiles { tile: (width, height), kind, hazard: None }))
    }
}

/// The positions of instances of a flavor.
fn of_flavor(instances: &[Instance], flavor: Flavor) -> Vec<usize> {
    let found = instances.iter().enumerate().filter(|(_, it)| it.flavor == flavor);
    found.map(|(at, _)| at).collect()
}

impl Image {
    /// The image that instances of one raster make up. Of the raster itself an optical path and a focal
    /// plane are chosen; associated images must have one of each.
    fn of(
        path: &Path,
        instances: &[Instance],
        which: &[usize],
        opening: &Opening,
        chosen: bool,
    ) -> Result<Self> {
        let first = which
            .first()
            .and_then(|at| instances.get(*at))
            .ok_or_else(|| source_error(path, ErrorKind::Decode, "an image has no file"))?;
        let none = Opening::default();
        let opening_of = if chosen { opening } else { &none };
        let places = Places::find(path, instances, which, opening_of)?;
        Ok(Self {
            width: first.width,
            height: first.height,
            tile: first.tile,
            places,
            decoder: FrameDecoder::new(first, opening.limits)?,
        })
    }
}

/// The slide images that a path names, in the order of their files.
fn instances(path: &Path) -> Result<Vec<Instance>> {
    let folder_of = |path: &Path| match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    let (named, folder) = if path.is_dir() {
        (None, path.to_owned())
    } else {
        let named = Instance::load(path)?.ok_or_else(|| {
            source_error(
                path,
                ErrorKind::Unsupported,
                "is no image of the class VL Whole Slide Microscopy",
            )
        })?;
        (Some(named), folder_of(path))
    };
    let failed = || AdapterError::io(&folder, "cannot list the folder");
    let mut files = Vec::new();
    for entry in std::fs::read_dir(&folder).map_err(failed())? {
        let file = entry.map_err(failed())?.path();
        if named.as_ref().is_some_and(|named| same_file(&named.path, &file)) {
            continue;
        }
        if begins_like_dicom(&file) {
            files.push(file);
        }
        if files.len() > MAX_FILES {
            return Err(source_error(
                &folder,
                ErrorKind::Limit,
                format!("holds more than {MAX_FILES} DICOM files"),
            ));
        }
    }
    files.sort();
    let mut found: Vec<Instance> = named.into_iter().collect();
    for file in files {
        // What cannot be read might be a part of the slide.
        let Some(instance) = Instance::load(&file)? else { continue };
        match found.first() {
            Some(first) if first.series != instance.series => {
                if path.is_dir() {
                    return Err(source_error(
                        path,
                        ErrorKind::Usage,
                        format!(
                            "holds slides of several series: name a file of one ({} or {})",
                            first.path.display(),
                            file.display()
                        ),
                    ));
                }
            }
            _ => found.push(instance),
        }
    }
    found.sort_by(|one, other| one.path.cmp(&other.path));
    if found.is_empty() {
        return Err(source_error(
            path,
            ErrorKind::Unsupported,
            "holds no image of the class VL Whole Slide Microscopy",
        ));
    }
    Ok(found)
}

fn same_file(one: &Path, other: &Path) -> bool {
    one.file_name() == other.file_name()
}

fn begins_like_dicom(path: &Path) -> bool {
    use std::io::Read;
    // Opening a pipe would wait for somebody who writes to it.
    if !path.metadata().is_ok_and(|it| it.is_file()) {
        return false;
    }
    let Ok(file) = std::fs::File::open(path) else { return false };
    let mut start = Vec::new();
    file.take(132).read_to_end(&mut start).is_ok() && start.get(128..132) == Some(b"DICM")
}

fn describe(instances: &[Instance], which: &[usize], raster: &Image) -> Description {
    let parts: Vec<&Instance> = which.iter().filter_map(|at| instances.get(*at)).collect();
    let first = parts.first();
    let path_id = raster.places.optical_path();
    let mut info = first.map(|it| it.info.clone()).unwrap_or_default();
    info.insert("dicom.OpticalPathIdentifier".to_owned(), short(path_id).into());
    info.insert("dicom.FocalPlane".to_owned(), raster.places.plane().into());
    let mpp = first.and_then(|it| it.mpp);
    let file_bytes = parts.iter().map(|it| it.file_bytes).fold(0, u64::saturating_add);
    let stored = parts.iter().map(|it| it.stored_bytes()).fold(0, u64::saturating_add);
    let lossy = first.is_some_and(|it| it.lossy);
    Description {
        width: raster.width,
        height: raster.height,
        orientation: 1,
        mpp: mpp.map(|(mpp, place)| StatedMpp { mpp, place }),
        backend: "DICOM",
        format: "dicom".to_owned(),
        mode: raster.decoder.mode().to_owned(),
        storage: Storage {
            codec: first.map_or_else(String::new, |it| short(&it.syntax)),
            tiff_compression: None,
            lossy: Some(lossy),
            quality: None,
            native_bytes: Some(stored),
            source_bytes: file_bytes,
            tile: Some(raster.tile),
        },
        info,
        icc: first.and_then(|it| it.profile_of(Some(path_id))),
        keeps_associated: true,
    }
}

impl RasterSource for DicomSource {
    fn description(&self) -> &Description {
        &self.description
    }

    fn files(&self) -> Vec<PathBuf> {
        self.instances.iter().map(|it| it.path.clone()).collect()
    }

    fn read(&self, rect: Rect) -> Result<Vec<u8>> {
        self.compose(&self.raster, rect, |x, y, keep| {
            let pixels = self.cache.get_or_make((x, y), keep, || {
                Ok::<_, AdapterError>(self.decoded(&self.raster, x, y)?.unwrap_or_default())
            })?;
            Ok(if pixels.is_empty() { None } else { Some(pixels) })
        })
    }

    fn is_blank(&self, rect: Rect) -> bool {
        let image = &self.raster;
        let grid = ChunkGrid { chunk: image.tile, size: (image.width, image.height) };
        grid.is_blank(rect, |x, y| image.places.get(x, y).is_some())
    }

    fn native(&self) -> Option<&NativeTiles> {
        self.native.as_ref()
    }

    fn native_tile(&self, x: u32, y: u32) -> Result<Option<Vec<u8>>> {
        let Some(stream) = self.stream(&self.raster, x.into(), y.into())? else { return Ok(None) };
        let place = self.raster.places.get(x.into(), y.into());
        let (at, frame) = place.unwrap_or_default();
        let instance = self.instance(at)?;
        self.raster.decoder.check(instance, frame, &stream)?;
        Ok(Some(self.raster.decoder.passed_on(&stream)))
    }

    fn small_tile(&self, (x, y): (u32, u32), payload: &[u8]) -> Result<Option<Vec<u8>>> {
        let Some((at, frame)) = self.raster.places.get(x.into(), y.into()) else { return Ok(None) };
        self.raster.decoder.eighth(self.instance(at)?, frame, payload)
    }

    fn associated(&self) -> &[AssociatedSource] {
        &self.associated
    }

    fn read_associated(&self, position: usize) -> Result<Vec<u8>> {
        let image = self.associated_images.get(position).ok_or_else(|| {
            source_error(&self.path, ErrorKind::Usage, "there is no such associated image")
        })?;
        let whole = Rect { x: 0, y: 0, width: image.width, height: image.height };
        self.compose(image, whole, |x, y, _| self.decoded(image, x, y))
    }

    fn associated_jpeg(&self, position: usize) -> Result<Option<Vec<u8>>> {
        let Some(image) = self.associated_images.get(position) else { return Ok(None) };
        if image.tile != (image.width, image.height) {
            return Ok(None);
        }
        let Some(stream) = self.stream(image, 0, 0)? else { return Ok(None) };
        Ok(image.decoder.complete(&stream))
    }

    fn missing(&self) -> u64 {
        self.raster.places.missing()
    }
}
