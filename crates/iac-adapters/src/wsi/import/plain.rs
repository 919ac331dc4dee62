//! Slides that are plain images: PNG, JPEG, BMP, WebP and JPEG XL files, decoded as a whole.

use std::io::Read;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use iac_codec::{Image, Limits, SamplesRef};
use iac_reader::Memory;
use serde_json::{Map, Value, json};

use super::source::{Description, RasterSource, Rect, StatedMpp, Storage};
use super::tiff::file::TiffFile;
use super::tiff::tags;
use crate::error::{AdapterError, Result};
use crate::tiles::options::ImageRules;
use crate::tiles::source::{Format, SourceReader};
use crate::tiles::{Alpha, TileColor, WideSamples};
use crate::wsi::schema::{Mpp, as_f64};

/// Bytes that a profile may decompress to.
const MAX_ICC: u64 = 64 << 20;

/// A plain image, decoded.
pub(crate) struct PlainSource {
    path: PathBuf,
    description: Description,
    image: Image,
}

/// What a file says beside its pixels.
#[derive(Debug, Default)]
struct Notes {
    mode: Option<String>,
    /// Pixels per inch.
    dpi: Option<(f64, f64)>,
    icc: Option<Vec<u8>>,
    exif: Option<Vec<u8>>,
    info: Map<String, Value>,
}

impl PlainSource {
    /// Reads a file.
    pub(crate) fn open(path: &Path, limits: Limits) -> Result<Self> {
        let rules = ImageRules {
            color: TileColor::Rgb,
            alpha: Alpha::BlendWhite,
            wide: WideSamples::Refuse,
            apply_orientation: false,
        };
        let reader = SourceReader::new(rules, limits);
        let without_row = |error: AdapterError| match error {
            AdapterError::Source { path, kind, reason, .. } => {
                AdapterError::Source { path, row: None, kind, reason }
            }
            other => other,
        };
        let probed = reader.probe(path, 0).map_err(without_row)?;
        let bytes = reader.bytes(path, 0).map_err(without_row)?;
        let image = reader.load(path, 0).map_err(without_row)?;
        let notes = match probed.format {
            Format::Png => png(&bytes),
            Format::Jpeg => jpeg(&bytes),
            Format::Bmp => bmp(&bytes),
            Format::WebP => webp(&bytes),
            Format::Jxl | Format::Tiff => Notes::default(),
        };
        let (name, lossy) = match probed.format {
            Format::Png => ("png", Some(false)),
            Format::Jpeg => ("jpeg", Some(true)),
            Format::Bmp => ("bmp", Some(false)),
            Format::WebP => ("webp", None),
            Format::Jxl => ("jxl", None),
            Format::Tiff => ("tiff", None),
        };
        let exif = notes.exif.as_deref().and_then(Exif::read);
        let dpi = notes.dpi.or_else(|| exif.as_ref().and_then(|exif| exif.dpi));
        let mpp = dpi.map(|(x, y)| Mpp { x: 25_400.0 / x, y: 25_400.0 / y });
        let mut info = notes.info;
        if let Some((x, y)) = dpi {
            info.insert("dpi".to_owned(), json!([number(x), number(y)]));
        }
        if let Some(exif) = &notes.exif {
            let data = STANDARD.encode([b"Exif\0\0".as_slice(), exif].concat());
            info.insert("exif".to_owned(), json!({"encoding": "base64", "data": data}));
        }
        let bytes = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        let description = Description {
            width: image.shape().width().into(),
            height: image.shape().height().into(),
            orientation: exif.map_or(1, |exif| exif.orientation),
            mpp: mpp
                .filter(|mpp| mpp.is_valid())
                .map(|mpp| StatedMpp { mpp, place: "dots per inch" }),
            backend: "Pillow",
            format: name.to_owned(),
            mode: notes.mode.unwrap_or_else(|| "RGB".to_owned()),
            storage: Storage {
                codec: name.to_owned(),
                tiff_compression: None,
                lossy,
                quality: None,
                native_bytes: Some(bytes),
                source_bytes: bytes,
                tile: None,
            },
            info,
            icc: notes.icc,
            keeps_associated: false,
        };
        Ok(Self { path: path.to_owned(), description, image })
    }
}

impl RasterSource for PlainSource {
    fn description(&self) -> &Description {
        &self.description
    }

    fn files(&self) -> Vec<PathBuf> {
        vec![self.path.clone()]
    }

    fn read(&self, rect: Rect) -> Result<Vec<u8>> {
        let outside = || AdapterError::Source {
            path: self.path.clone(),
            row: None,
            kind: iac_format::ErrorKind::Decode,
            reason: "the image has fewer pixels than its size says".to_owned(),
        };
        let SamplesRef::U8(samples) = self.image.samples() else { return Err(outside()) };
        let mut out = Vec::new();
        for row in rect.y..rect.y.saturating_add(rect.height) {
            let start = row.saturating_mul(self.description.width).saturating_add(rect.x);
            let start = usize::try_from(start.saturating_mul(3)).map_err(|_| outside())?;
            let length = usize::try_from(rect.width.saturating_mul(3)).map_err(|_| outside())?;
            let line = samples.get(start..start.saturating_add(length)).ok_or_else(outside)?;
            out.extend_from_slice(line);
        }
        Ok(out)
    }
}

/// A number as an integer where it is one.
fn number(value: f64) -> Value {
    #[allow(clippy::cast_possible_truncation, reason = "tested to be the same number")]
    let integer = value as i64;
    #[allow(clippy::cast_precision_loss, reason = "only compared")]
    let same = (integer as f64).to_bits() == value.to_bits();
    if same { integer.into() } else { value.into() }
}

/// What EXIF data say.
struct Exif {
    orientation: u8,
    dpi: Option<(f64, f64)>,
}

impl Exif {
    fn read(bytes: &[u8]) -> Option<Self> {
        let file = TiffFile::read(Path::new("EXIF"), Box::new(Memory::new(bytes.to_vec()))).ok()?;
        let orientation = file.integer(0, tags::ORIENTATION).ok().flatten();
        let orientation =
            orientation.and_then(|it| u8::try_from(it).ok()).filter(|it| (1..=8).contains(it));
        let of = |tag| {
            let number = file.number(0, tag).ok().flatten();
            number.filter(|number| number.is_finite() && *number > 0.0)
        };
        let unit = file.integer(0, tags::RESOLUTION_UNIT).ok().flatten().unwrap_or(2);
        let scale = match unit {
            2 => Some(1.0),
            3 => Some(2.54),
            _ => None,
        };
        let dpi = match (of(tags::X_RESOLUTION), of(tags::Y_RESOLUTION), scale) {
            (Some(x), Some(y), Some(scale)) => Some((x * scale, y * scale)),
            _ => None,
        };
        Some(Self { orientation: orientation.unwrap_or(1), dpi })
    }
}

fn be_u32(bytes: &[u8]) -> Option<u32> {
    bytes.first_chunk::<4>().map(|bytes| u32::from_be_bytes(*bytes))
}

fn png(bytes: &[u8]) -> Notes {
    let mut notes = Notes::default();
    let mut rest = bytes.get(8..).unwrap_or_default();
    while let Some(length) = be_u32(rest).and_then(|length| usize::try_from(length).ok()) {
        let name = rest.get(4..8).unwrap_or_default();
        let Some(data) = rest.get(8..length.saturating_add(8)) else { break };
        match name {
            b"IHDR" => {
                let mode = match data.get(8..10) {
                    Some([1, 0]) => "1",
                    Some([_, 0]) => "L",
                    Some([_, 3]) => "P",
                    Some([_, 4]) => "LA",
                    Some([_, 6]) => "RGBA",
                    _ => "RGB",
                };
                notes.mode = Some(mode.to_owned());
            }
            b"pHYs" => {
                let per_metre = |at: usize| {
                    let number = be_u32(data.get(at..)?)?;
                    (number > 0).then(|| f64::from(number) * 0.0254)
                };
                if let (Some(x), Some(y), Some(1)) = (per_metre(0), per_metre(4), data.get(8)) {
                    notes.dpi = Some((x, y));
                }
            }
            b"eXIf" => notes.exif = Some(data.to_vec()),
            b"iCCP" => {
                let packed = data.iter().position(|byte| *byte == 0);
                let packed = packed.and_then(|at| data.get(at.saturating_add(2)..));
                let mut icc = Vec::new();
                let reader = flate2::read::ZlibDecoder::new(packed.unwrap_or_default());
                if reader.take(MAX_ICC).read_to_end(&mut icc).is_ok() && !icc.is_empty() {
                    notes.icc = Some(icc);
                }
            }
            b"IDAT" | b"IEND" if notes.mode.is_none() => break,
            _ => {}
        }
        rest = rest.get(length.saturating_add(12)..).unwrap_or_default();
    }
    notes
}

fn jpeg(bytes: &[u8]) -> Notes {
    let mut notes = Notes::default();
    let mut icc: Vec<(u8, &[u8])> = Vec::new();
    let mut rest = bytes.get(2..).unwrap_or_default();
    while let [0xFF, marker, high, low, ..] = *rest {
        let length = usize::from(u16::from_be_bytes([high, low]));
        let data = rest.get(4..length.saturating_add(2)).unwrap_or_default();
        match marker {
            0xDA => break,
            0xE0 if notes.info.is_empty() && data.starts_with(b"JFIF\0") => jfif(data, &mut notes),
            0xE1 if notes.exif.is_none() => {
                notes.exif = data.strip_prefix(b"Exif\0\0").map(<[u8]>::to_vec);
            }
            0xE2 => {
                if let Some([number, _, part @ ..]) = data.strip_prefix(b"ICC_PROFILE\0") {
                    icc.push((*number, part));
                }
            }
            0xC0..=0xCF if !matches!(marker, 0xC4 | 0xC8 | 0xCC) => {
                notes.mode = data.get(5).map(|channels| {
                    match channels {
                        1 => "L",
                        4 => "CMYK",
                        _ => "RGB",
                    }
                    .to_owned()
                });
            }
            _ => {}
        }
        rest = rest.get(length.saturating_add(2)..).unwrap_or_default();
    }
    icc.sort_by_key(|(number, _)| *number);
    let profile: Vec<u8> = icc.into_iter().flat_map(|(_, part)| part.iter().copied()).collect();
    notes.icc = Some(profile).filter(|profile| !profile.is_empty());
    notes
}

fn jfif(data: &[u8], notes: &mut Notes) {
    let Some(&[_, _, _, _, _, major, minor, unit, x_high, x_low, y_high, y_low]) =
        data.first_chunk::<12>()
    else {
        return;
    };
    let (x, y) = (u16::from_be_bytes([x_high, x_low]), u16::from_be_bytes([y_high, y_low]));
    notes.info.insert("jfif".to_owned(), u16::from_be_bytes([major, minor]).into());
    notes.info.insert("jfif_version".to_owned(), json!([major, minor]));
    notes.info.insert("jfif_unit".to_owned(), unit.into());
    notes.info.insert("jfif_density".to_owned(), json!([x, y]));
    let scale = match unit {
        1 => 1.0,
        2 => 2.54,
        _ => return,
    };
    if x > 0 && y > 0 {
        notes.dpi = Some((f64::from(x) * scale, f64::from(y) * scale));
    }
}

fn bmp(bytes: &[u8]) -> Notes {
    let mut notes = Notes::default();
    let number = |at: usize| {
        let bytes = bytes.get(at..)?.first_chunk::<4>()?;
        let number = u32::from_le_bytes(*bytes);
        (number > 0 && number < 1 << 31).then(|| as_f64(number.into()) / 39.370_1)
    };
    notes.dpi = number(38).zip(number(42));
    notes
}

fn webp(bytes: &[u8]) -> Notes {
    let mut notes = Notes::default();
    let mut rest = bytes.get(12..).unwrap_or_default();
    while let Some(length) = rest.get(4..).and_then(|it| it.first_chunk::<4>()) {
        let length = usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX);
        let Some(data) = rest.get(8..length.saturating_add(8)) else { break };
        match rest.get(..4) {
            Some(b"ICCP") => notes.icc = Some(data.to_vec()),
            Some(b"EXIF") => {
                notes.exif = Some(data.strip_prefix(b"Exif\0\0").unwrap_or(data).to_vec());
            }
            _ => {}
        }
        let padded = length.saturating_add(length & 1);
        rest = rest.get(padded.saturating_add(8)..).unwrap_or_default();
    }
    notes
}
