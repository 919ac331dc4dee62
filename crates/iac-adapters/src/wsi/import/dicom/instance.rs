//! One DICOM file of a slide.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use dicom_core::{Tag, VR};
use iac_format::ErrorKind;
use serde_json::{Map, Value};

use crate::dicom::fault::Fault;
use crate::dicom::number;
use crate::dicom::object::{DataSet, Element};
use crate::dicom::parse;
use crate::dicom::pixels::{Coded, of_codec};
use crate::dicom::schema2::form::{FrameForm, Kind};
use crate::dicom::schema2::scan;
use crate::dicom::schema2::source::{Frames, PixelSource};
use crate::dicom::syntax::{self, PixelEncoding};
use crate::error::{AdapterError, Result, short};
use crate::wsi::import::source_error;
use crate::wsi::schema::{Mpp, as_f64};

/// The class of slide images.
const SLIDE_CLASS: &str = "1.2.840.10008.5.1.4.1.1.77.1.6";
/// Bytes of a file that is read whole, as its pixel data cannot be left where it is.
const MAX_WHOLE: u64 = 2 << 30;
/// Bytes that a frame may have before it is decoded.
const MAX_FRAME: u64 = 1 << 30;
/// Bytes of a file of which only the frames that are asked for are read.
const MAX_BYTES: u64 = 1 << 44;

const SOP_CLASS: Tag = Tag(0x0008, 0x0016);
const IMAGE_TYPE: Tag = Tag(0x0008, 0x0008);
const SERIES: Tag = Tag(0x0020, 0x000E);
const ORGANIZATION: Tag = Tag(0x0020, 0x9311);
const CONCATENATION: Tag = Tag(0x0020, 0x9161);
const PARTS_TOTAL: Tag = Tag(0x0020, 0x9163);
const FRAME_OFFSET: Tag = Tag(0x0020, 0x9228);
const PIXEL_SPACING: Tag = Tag(0x0028, 0x0030);
const PIXEL_MEASURES: Tag = Tag(0x0028, 0x9110);
const LOSSY: Tag = Tag(0x0028, 0x2110);
const PROFILE: Tag = Tag(0x0028, 0x2000);
const VOLUME_WIDTH: Tag = Tag(0x0048, 0x0001);
const VOLUME_HEIGHT: Tag = Tag(0x0048, 0x0002);
const MATRIX_COLUMNS: Tag = Tag(0x0048, 0x0006);
const MATRIX_ROWS: Tag = Tag(0x0048, 0x0007);
const OPTICAL_PATHS: Tag = Tag(0x0048, 0x0105);
const PATH_IDENTIFIER: Tag = Tag(0x0048, 0x0106);
const PATH_IDENTIFICATION: Tag = Tag(0x0048, 0x0207);
const FOCAL_PLANES: Tag = Tag(0x0048, 0x0303);
const PLANE_POSITION: Tag = Tag(0x0048, 0x021A);
const COLUMN_POSITION: Tag = Tag(0x0048, 0x021E);
const ROW_POSITION: Tag = Tag(0x0048, 0x021F);
const Z_OFFSET: Tag = Tag(0x0040, 0x074A);
const SHARED: Tag = Tag(0x5200, 0x9229);
const PER_FRAME: Tag = Tag(0x5200, 0x9230);

/// What an image shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flavor {
    Volume,
    Label,
    Overview,
    Thumbnail,
    Other,
}

/// An optical path that an object names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OpticalPath {
    pub(super) identifier: String,
    profile: Option<Bytes>,
}

/// Where the frames of an object lie.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Organization {
    /// Tile by tile, focal plane by focal plane, optical path by optical path, from this one on.
    Full { first: u64, planes: u64 },
    /// As each frame says.
    Sparse(Vec<FramePlace>),
}

/// Where a frame says that it lies.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct FramePlace {
    /// Of its upper left pixel, counted from 1.
    pub(super) column: i64,
    pub(super) row: i64,
    pub(super) z: f64,
    pub(super) path: String,
}

/// A file of a slide.
pub(super) struct Instance {
    pub(super) path: PathBuf,
    pub(super) series: String,
    pub(super) flavor: Flavor,
    pub(super) width: u64,
    pub(super) height: u64,
    /// Width and height of frames.
    pub(super) tile: (u64, u64),
    pub(super) syntax: String,
    pub(super) encoding: PixelEncoding,
    pub(super) form: FrameForm,
    pub(super) lossy: bool,
    pub(super) paths: Vec<OpticalPath>,
    pub(super) organization: Organization,
    pub(super) concatenation: Option<String>,
    /// How many files the concatenation has, where it says so.
    pub(super) parts: Option<u64>,
    /// How many frames of the concatenation lie in the files before, where it says so.
    pub(super) frames_before: Option<u64>,
    pub(super) mpp: Option<(Mpp, &'static str)>,
    pub(super) info: Map<String, Value>,
    pub(super) file_bytes: u64,
    profile: Option<Bytes>,
    frames: Frames,
}

impl Instance {
    /// Reads a file; nothing where it holds no image of a slide.
    pub(super) fn load(path: &Path) -> Result<Option<Self>> {
        let failed = || AdapterError::io(path, "cannot read the slide");
        let file_bytes = path.metadata().map_err(failed())?.len();
        let of_fault = |fault: Fault| source_error(path, fault.kind, fault.to_string());
        let (data, syntax, source) = match scan::split(path, MAX_BYTES) {
            Some((object, source)) => (object.data, object.transfer_syntax, Some(source)),
            None => {
                if file_bytes > MAX_WHOLE {
                    return Err(source_error(
                        path,
                        ErrorKind::Limit,
                        format!(
                            "has {file_bytes} bytes in a form that is read as a whole, for which at \
                             most {MAX_WHOLE} are allowed"
                        ),
                    ));
                }
                let bytes = Bytes::from(std::fs::read(path).map_err(failed())?);
                let object = parse::parse(&bytes, MAX_WHOLE).map_err(of_fault)?;
                let mut data = object.data;
                if !is_slide(&data) {
                    return Ok(None);
                }
                let source = PixelSource::take(&mut data).map_err(of_fault)?;
                (data, object.transfer_syntax, source)
            }
        };
        if !is_slide(&data) {
            return Ok(None);
        }
        let made = source
            .ok_or_else(|| Fault::decode("it has no pixel data"))
            .and_then(|source| Self::of(path, &data, syntax, source, file_bytes));
        made.map(Some).map_err(of_fault)
    }

    fn of(
        path: &Path,
        data: &DataSet,
        syntax: String,
        source: PixelSource,
        file_bytes: u64,
    ) -> Result<Self, Fault> {
        let form = FrameForm::of(data, source.element)?;
        if form.kind != Kind::Words || form.pixel.allocated != 8 || form.pixel.stored != 8 {
            return Err(Fault::unsupported(format!(
                "its samples have {} bits in {}, but slides are stored with 8",
                form.pixel.stored, form.pixel.allocated
            )));
        }
        let encoding = syntax::pixel_encoding(&syntax).ok_or_else(|| {
            Fault::unsupported(format!(
                "pixel data of the transfer syntax {} is not supported",
                short(&syntax)
            ))
        })?;
        let shape = form.pixel.shape;
        let tile = (u64::from(shape.width()), u64::from(shape.height()));
        let flavor = flavor(data);
        let side = |tag, of_frame: u64| match long(data, tag) {
            Some(0) => Err(Fault::schema(tag, "is 0")),
            Some(side) => Ok(side),
            // Labels need not say.
            None if flavor == Flavor::Volume => {
                Err(Fault::schema(tag, "is missing, but the object is a part of a slide"))
            }
            None => Ok(of_frame),
        };
        let (width, height) = (side(MATRIX_COLUMNS, tile.0)?, side(MATRIX_ROWS, tile.1)?);
        let frames = Frames::find(source, &form, data)?;
        let paths = optical_paths(data);
        let organization = organization(data, &frames, &paths)?;
        let concatenation = data.ascii(CONCATENATION).filter(|uid| !uid.is_empty());
        Ok(Self {
            path: path.to_owned(),
            series: data.ascii(SERIES).unwrap_or_default(),
            flavor,
            width,
            height,
            tile,
            lossy: syntax::is_lossy(&syntax) || data.ascii(LOSSY).as_deref() == Some("01"),
            syntax,
            encoding,
            form,
            paths,
            organization,
            frames_before: concatenation.as_ref().and_then(|_| long(data, FRAME_OFFSET)),
            parts: concatenation.as_ref().and_then(|_| data.u16(PARTS_TOTAL)).map(u64::from),
            concatenation,
            mpp: mpp(data, (width, height)),
            info: info(data),
            file_bytes,
            profile: data.bytes(PROFILE).cloned(),
            frames,
        })
    }

    /// Whether two objects hold frames of the same raster.
    pub(super) fn same_raster(&self, other: &Self) -> bool {
        (self.width, self.height, self.tile) == (other.width, other.height, other.tile)
    }

    /// Frames that there are.
    pub(super) const fn count(&self) -> u64 {
        self.frames.counts.found
    }

    /// Bytes of its pixel data, about.
    pub(super) fn stored_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// The profile of an optical path, or of the only one.
    pub(super) fn profile_of(&self, path: Option<&str>) -> Option<Vec<u8>> {
        let named = |it: &&OpticalPath| path.is_none_or(|path| it.identifier == path);
        let of_path = self.paths.iter().find(named).and_then(|it| it.profile.clone());
        of_path.or_else(|| self.profile.clone()).filter(|it| !it.is_empty()).map(|it| it.to_vec())
    }

    /// A frame as it lies in the file.
    pub(super) fn coded(&self, frame: u64) -> Result<Coded> {
        let bytes = self.frames.length(frame);
        if bytes > MAX_FRAME {
            let reason = format!("has {bytes} bytes, but at most {MAX_FRAME} are read");
            return Err(self.fault(frame, &Fault::new(ErrorKind::Limit, reason)));
        }
        self.frames.read(frame).map_err(|fault| self.fault(frame, &fault))
    }

    /// A frame's stream; bare samples stand for themselves.
    pub(super) fn stream(&self, frame: u64) -> Result<Bytes> {
        Ok(match self.coded(frame)? {
            Coded::Native(bytes) | Coded::Stream(bytes) => bytes,
        })
    }

    pub(super) fn fault(&self, frame: u64, fault: &Fault) -> AdapterError {
        source_error(&self.path, fault.kind, format!("frame {}: {fault}", frame.saturating_add(1)))
    }

    pub(super) fn codec_error(&self, frame: u64, error: &iac_codec::CodecError) -> AdapterError {
        self.fault(frame, &of_codec(error))
    }
}

fn is_slide(data: &DataSet) -> bool {
    data.ascii(SOP_CLASS).as_deref() == Some(SLIDE_CLASS)
}

fn flavor(data: &DataSet) -> Flavor {
    let text = data.ascii(IMAGE_TYPE).unwrap_or_default();
    match text.split('\\').nth(2).map(str::trim) {
        Some("VOLUME") => Flavor::Volume,
        Some("LABEL") => Flavor::Label,
        Some("OVERVIEW") => Flavor::Overview,
        Some("THUMBNAIL") => Flavor::Thumbnail,
        _ => Flavor::Other,
    }
}

/// An unsigned number of 32 bits.
fn long(data: &DataSet, tag: Tag) -> Option<u64> {
    let four = data.bytes(tag)?.first_chunk::<4>()?;
    Some(u32::from_le_bytes(*four).into())
}

fn item(data: &DataSet, tag: Tag) -> Option<&DataSet> {
    data.get(tag).and_then(Element::items)?.first()
}

/// A number of whatever representation.
fn real(data: &DataSet, tag: Tag, position: usize) -> Option<f64> {
    let element = data.get(tag)?;
    let bytes = element.bytes()?;
    let number = match element.vr {
        VR::FL => {
            let (words, _) = bytes.as_chunks::<4>();
            words.get(position).map(|it| f64::from(f32::from_le_bytes(*it)))
        }
        VR::FD => {
            let (words, _) = bytes.as_chunks::<8>();
            words.get(position).map(|it| f64::from_le_bytes(*it))
        }
        _ => data.ascii(tag)?.split('\\').nth(position).and_then(number::decimal),
    };
    number.filter(|number| number.is_finite())
}

fn optical_paths(data: &DataSet) -> Vec<OpticalPath> {
    let items = data.get(OPTICAL_PATHS).and_then(Element::items).unwrap_or_default();
    items
        .iter()
        .map(|item| OpticalPath {
            identifier: item.ascii(PATH_IDENTIFIER).unwrap_or_default(),
            profile: item.bytes(PROFILE).cloned(),
        })
        .collect()
}

/// Micrometres per pixel: what the frames share, or what the imaged volume covers.
fn mpp(data: &DataSet, (width, height): (u64, u64)) -> Option<(Mpp, &'static str)> {
    let per_frame = data.get(PER_FRAME).and_then(Element::items).and_then(<[DataSet]>::first);
    let groups = [item(data, SHARED), per_frame];
    let measures = groups.into_iter().flatten().find_map(|group| item(group, PIXEL_MEASURES));
    if let Some(measures) = measures {
        // Distances of rows come first.
        let spacing = real(measures, PIXEL_SPACING, 0).zip(real(measures, PIXEL_SPACING, 1));
        if let Some((y, x)) = spacing {
            let mpp = Mpp { x: x * 1000.0, y: y * 1000.0 };
            if mpp.is_valid() {
                return Some((mpp, "Pixel Spacing"));
            }
        }
    }
    let (x, y) = (real(data, VOLUME_WIDTH, 0)?, real(data, VOLUME_HEIGHT, 0)?);
    let mpp = Mpp { x: x * 1000.0 / as_f64(width), y: y * 1000.0 / as_f64(height) };
    mpp.is_valid().then_some((mpp, "Imaged Volume Width and Height"))
}

fn organization(
    data: &DataSet,
    frames: &Frames,
    paths: &[OpticalPath],
) -> Result<Organization, Fault> {
    if data.ascii(ORGANIZATION).as_deref() == Some("TILED_FULL") {
        let first = long(data, FRAME_OFFSET).unwrap_or(0);
        let planes = long(data, FOCAL_PLANES).unwrap_or(1).max(1);
        return Ok(Organization::Full { first, planes });
    }
    let shared = item(data, SHARED);
    let items = data.get(PER_FRAME).and_then(Element::items).unwrap_or_default();
    let count = frames.counts.found;
    if items.is_empty() && count == 1 {
        // One frame that says nothing lies in the corner.
        let path = paths.first().map(|it| it.identifier.clone()).unwrap_or_default();
        return Ok(Organization::Sparse(vec![FramePlace { column: 1, row: 1, z: 0.0, path }]));
    }
    if u64::try_from(items.len()).ok() != Some(count) {
        return Err(Fault::schema(
            PER_FRAME,
            format!("has {} items, but there are {count} frames", items.len()),
        ));
    }
    let only = paths.first().map(|it| it.identifier.clone()).unwrap_or_default();
    let places = items.iter().map(|own| {
        let group = |tag| item(own, tag).or_else(|| shared.and_then(|it| item(it, tag)));
        let position = group(PLANE_POSITION)
            .ok_or_else(|| Fault::schema(PLANE_POSITION, "is missing, and frames lie anywhere"))?;
        let place = |tag| {
            let four = position.bytes(tag).and_then(|it| it.first_chunk::<4>().copied());
            four.map(|four| i64::from(i32::from_le_bytes(four)))
                .ok_or_else(|| Fault::schema(tag, "is missing, and frames lie anywhere"))
        };
        let path = group(PATH_IDENTIFICATION).and_then(|it| it.ascii(PATH_IDENTIFIER));
        Ok(FramePlace {
            column: place(COLUMN_POSITION)?,
            row: place(ROW_POSITION)?,
            z: real(position, Z_OFFSET, 0).unwrap_or(0.0),
            path: path.unwrap_or_else(|| only.clone()),
        })
    });
    Ok(Organization::Sparse(places.collect::<Result<_, Fault>>()?))
}

/// What a scanner says of itself and of how it scanned; nothing that names a patient.
fn info(data: &DataSet) -> Map<String, Value> {
    let mut info = Map::new();
    for (name, tag) in [
        ("ImageType", IMAGE_TYPE),
        ("SeriesInstanceUID", SERIES),
        ("AcquisitionDateTime", Tag(0x0008, 0x002A)),
        ("Manufacturer", Tag(0x0008, 0x0070)),
        ("ManufacturerModelName", Tag(0x0008, 0x1090)),
        ("DeviceSerialNumber", Tag(0x0018, 0x1000)),
        ("SoftwareVersions", Tag(0x0018, 0x1020)),
        ("DimensionOrganizationType", ORGANIZATION),
        ("LossyImageCompressionRatio", Tag(0x0028, 0x2112)),
        ("ImageOrientationSlide", Tag(0x0048, 0x0102)),
    ] {
        if let Some(text) = data.ascii(tag).filter(|text| !text.is_empty()) {
            info.insert(format!("dicom.{name}"), text.into());
        }
    }
    let path = item(data, OPTICAL_PATHS);
    if let Some(power) = path.and_then(|it| real(it, Tag(0x0048, 0x0112), 0)) {
        info.insert("dicom.ObjectiveLensPower".to_owned(), power.into());
    }
    info
}
