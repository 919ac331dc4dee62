//! Image files that become tiles.

mod bmp;
mod color;
mod jpeg;
mod orient;
mod png;
mod tiff;
mod tiff_jpeg;
mod webp;

use std::fs::{self, File};
use std::io::{BufReader, Read, Seek};
use std::path::Path;
use std::time::UNIX_EPOCH;

use iac_codec::{
    Codec, CodecError, CodecSpec, DecodeOptions, Image, Limits, Parameters, Registry, SampleType,
    Samples as Decoded,
};
use iac_format::ErrorKind;

pub(crate) use color::to_rgb;
pub(crate) use orient::oriented;

use crate::error::{AdapterError, Result};
use crate::tiles::options::{ImageRules, WideSamples};

/// What kind of file an image is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Png,
    Jpeg,
    Tiff,
    Bmp,
    WebP,
    Jxl,
}

/// What a file says of its image before pixels are decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SourceInfo {
    pub(crate) format: Format,
    pub(crate) width: u32,
    pub(crate) height: u32,
    /// Samples of more than 8 bits, or no integers.
    pub(crate) is_wide: bool,
    /// A JPEG file of four channels.
    pub(crate) is_cmyk: bool,
}

/// The state of a file, by which a change is noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileStamp {
    pub(crate) bytes: u64,
    pub(crate) seconds: u64,
    pub(crate) nanos: u32,
}

impl FileStamp {
    pub(crate) fn of(path: &Path) -> Result<Self> {
        let metadata =
            fs::metadata(path).map_err(AdapterError::io(path, "cannot find the file"))?;
        let modified = metadata.modified().ok();
        let since = modified.and_then(|modified| modified.duration_since(UNIX_EPOCH).ok());
        let since = since.unwrap_or_default();
        Ok(Self { bytes: metadata.len(), seconds: since.as_secs(), nanos: since.subsec_nanos() })
    }
}

/// Samples as a file has them.
#[derive(Debug)]
pub(crate) enum Samples {
    U8(Vec<u8>),
    U16(Vec<u16>),
    /// Integers of more bits, signed ones, and floating-point numbers.
    Wide(Vec<f64>),
}

/// What the channels of a file are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Channels {
    Gray,
    GrayAlpha,
    Rgb,
    RgbAlpha,
    Cmyk,
}

impl Channels {
    pub(crate) const fn count(self) -> usize {
        match self {
            Self::Gray => 1,
            Self::GrayAlpha => 2,
            Self::Rgb => 3,
            Self::RgbAlpha | Self::Cmyk => 4,
        }
    }
}

/// Pixels of a file before any rule was applied.
#[derive(Debug)]
pub(crate) struct Raster {
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) channels: Channels,
    pub(crate) samples: Samples,
    /// The orientation tag, 1 where there is none.
    pub(crate) orientation: u8,
}

/// Reads image files by rules.
#[derive(Debug, Clone)]
pub(crate) struct SourceReader {
    pub(crate) rules: ImageRules,
    pub(crate) limits: Limits,
    jpeg: std::result::Result<Codec, String>,
    jxl: std::result::Result<Codec, String>,
}

impl SourceReader {
    pub(crate) fn new(rules: ImageRules, limits: Limits) -> Self {
        let codec = |name: &str| {
            let made = Registry::global().create(&CodecSpec::new(name, Parameters::new()));
            made.map_err(|error| error.to_string())
        };
        Self { rules, limits, jpeg: codec("jpeg"), jxl: codec("jxl") }
    }

    /// Looks at the beginning of a file.
    pub(crate) fn probe(&self, path: &Path, row: u64) -> Result<SourceInfo> {
        let fail = |kind, reason: String| source_error(path, row, kind, reason);
        let mut file = open(path, row)?;
        let format = format_of(path, row, &mut file)?;
        let bad = |error: String| fail(ErrorKind::Decode, error);
        let mut is_cmyk = false;
        let (width, height, is_wide) = match format {
            Format::Png => png::probe(file).map_err(bad)?,
            Format::Tiff => tiff::probe(file).map_err(bad)?,
            Format::Bmp => bmp::probe(file).map_err(bad)?,
            Format::WebP => webp::probe(file).map_err(bad)?,
            Format::Jpeg => {
                let (width, height, is_wide, channels) = jpeg::probe(file).map_err(bad)?;
                is_cmyk = channels == 4;
                (width, height, is_wide)
            }
            Format::Jxl => {
                let bytes = self.read_all(path, file)?;
                let info = self.codec(&self.jxl, path, row)?.image_info(&bytes);
                let info = info.map_err(|error| codec_error(path, row, &error))?;
                let shape = info.shape;
                (shape.width(), shape.height(), info.sample_type != SampleType::U8)
            }
        };
        if width == 0 || height == 0 {
            return Err(bad(format!("an image of {width} x {height} has no pixels")));
        }
        if is_wide && self.rules.wide == WideSamples::Refuse {
            return Err(fail(
                ErrorKind::Unsupported,
                "its samples have more than 8 bits: say how they are to be stored".to_owned(),
            ));
        }
        let (mut width, mut height) = (width, height);
        let pixels = u64::from(width).saturating_mul(u64::from(height));
        self.limits
            .check_samples(pixels.saturating_mul(3))
            .map_err(|error| codec_error(path, row, &error))?;
        if self.rules.apply_orientation && width != height {
            // Tags lie anywhere in a file, so this costs as much as decoding.
            let shape = self.load(path, row)?.shape();
            (width, height) = (shape.width(), shape.height());
        }
        Ok(SourceInfo { format, width, height, is_wide, is_cmyk })
    }

    /// The whole content of a file.
    pub(crate) fn bytes(&self, path: &Path, row: u64) -> Result<Vec<u8>> {
        self.read_all(path, open(path, row)?)
    }

    /// Reads an image and applies the rules.
    pub(crate) fn load(&self, path: &Path, row: u64) -> Result<Image> {
        let mut file = open(path, row)?;
        let format = format_of(path, row, &mut file)?;
        let bad = |error: String| source_error(path, row, ErrorKind::Decode, error);
        let limits = &self.limits;
        let mut raster = match format {
            Format::Png => png::load(file, limits).map_err(bad)?,
            Format::Tiff => {
                let jpeg = self.jpeg.as_ref().map_err(String::clone);
                tiff::load(self.read_all(path, file)?, limits, jpeg).map_err(bad)?
            }
            Format::Bmp => bmp::load(&self.read_all(path, file)?, limits).map_err(bad)?,
            Format::WebP => webp::load(file, limits).map_err(bad)?,
            Format::Jpeg | Format::Jxl => {
                let bytes = self.read_all(path, file)?;
                let (codec, orientation) = if format == Format::Jpeg {
                    (&self.jpeg, orient::of_jpeg(&bytes))
                } else {
                    (&self.jxl, 1)
                };
                let options = DecodeOptions::from(self.limits).with_frame(0);
                let image = self.codec(codec, path, row)?.decode_image(&bytes, &options);
                let image = image.map_err(|error| codec_error(path, row, &error))?;
                let raster = raster_of(image, orientation).map_err(bad)?;
                match format {
                    Format::Jpeg => jpeg::interpreted(raster).map_err(bad)?,
                    _ => raster,
                }
            }
        };
        if self.rules.apply_orientation {
            raster = oriented(raster);
        }
        color::apply(raster, &self.rules)
            .map_err(|(kind, reason)| source_error(path, row, kind, reason))
    }

    fn read_all(&self, path: &Path, mut file: BufReader<File>) -> Result<Vec<u8>> {
        let fail = AdapterError::io(path, "cannot read the image");
        let mut bytes = Vec::new();
        let most = self.limits.max_decoded_bytes;
        match file.by_ref().take(most.saturating_add(1)).read_to_end(&mut bytes) {
            Err(error) => return Err(fail(error)),
            Ok(read) if u64::try_from(read).unwrap_or(u64::MAX) > most => {
                return Err(source_error(
                    path,
                    None,
                    ErrorKind::Limit,
                    format!("has more than {most} bytes"),
                ));
            }
            Ok(_) => {}
        }
        Ok(bytes)
    }

    fn codec<'a>(
        &self,
        codec: &'a std::result::Result<Codec, String>,
        path: &Path,
        row: u64,
    ) -> Result<&'a Codec> {
        codec
            .as_ref()
            .map_err(|reason| source_error(path, row, ErrorKind::MissingFeature, reason.clone()))
    }
}

fn open(path: &Path, row: u64) -> Result<BufReader<File>> {
    let file = File::open(path).map_err(|error| {
        source_error(path, row, ErrorKind::Io, format!("cannot open the image: {error}"))
    })?;
    Ok(BufReader::new(file))
}

fn format_of(path: &Path, row: u64, file: &mut BufReader<File>) -> Result<Format> {
    let mut start = [0_u8; 12];
    let mut read = 0_usize;
    while let Some(rest) = start.get_mut(read..).filter(|rest| !rest.is_empty()) {
        match file.read(rest) {
            Ok(0) => break,
            Ok(count) => read = read.saturating_add(count),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(AdapterError::io(path, "cannot read the image")(error)),
        }
    }
    file.rewind().map_err(AdapterError::io(path, "cannot read the image"))?;
    let found = start.get(..read).unwrap_or_default();
    let known: [(&[u8], Format); 9] = [
        (b"\x89PNG\r\n\x1a\n", Format::Png),
        (b"\xff\xd8\xff", Format::Jpeg),
        (b"II*\0", Format::Tiff),
        (b"MM\0*", Format::Tiff),
        (b"II+\0", Format::Tiff),
        (b"MM\0+", Format::Tiff),
        (b"BM", Format::Bmp),
        (b"\xff\x0a", Format::Jxl),
        (b"\0\0\0\x0cJXL \r\n\x87\n", Format::Jxl),
    ];
    if found.starts_with(b"RIFF") && found.ends_with(b"WEBP") {
        return Ok(Format::WebP);
    }
    let format = known.iter().find(|(magic, _)| found.starts_with(magic));
    format.map(|(_, format)| *format).ok_or_else(|| {
        let reason = if found.is_empty() {
            "is empty".to_owned()
        } else {
            format!("is no image of a known kind (it starts with \"{}\")", found.escape_ascii())
        };
        source_error(path, row, ErrorKind::Unsupported, reason)
    })
}

/// An image that a codec decoded, as a file's pixels.
fn raster_of(image: Image, orientation: u8) -> std::result::Result<Raster, String> {
    let shape = image.shape();
    let channels = match shape.channels() {
        1 => Channels::Gray,
        2 => Channels::GrayAlpha,
        3 => Channels::Rgb,
        4 => Channels::RgbAlpha,
        other => return Err(format!("has {other} channels")),
    };
    let samples = match image.into_samples() {
        Decoded::U8(samples) => Samples::U8(samples),
        Decoded::U16(samples) => Samples::U16(samples),
        Decoded::I16(samples) => Samples::Wide(samples.into_iter().map(f64::from).collect()),
        Decoded::F16(samples) => Samples::Wide(samples.into_iter().map(|s| s.to_f64()).collect()),
        Decoded::F32(samples) => Samples::Wide(samples.into_iter().map(f64::from).collect()),
        _ => return Err("has samples of an unknown type".to_owned()),
    };
    Ok(Raster { width: shape.width(), height: shape.height(), channels, samples, orientation })
}

/// Bytes of an image, checked against the limits before memory is taken.
fn check_size(
    width: u32,
    height: u32,
    channels: u32,
    limits: &Limits,
) -> std::result::Result<usize, String> {
    let samples =
        u64::from(width).saturating_mul(u64::from(height)).saturating_mul(u64::from(channels));
    limits.check_samples(samples).map_err(|error| error.to_string())?;
    usize::try_from(samples).map_err(|_| "is larger than the memory".to_owned())
}

pub(crate) fn source_error(
    path: &Path,
    row: impl Into<Option<u64>>,
    kind: ErrorKind,
    reason: impl Into<String>,
) -> AdapterError {
    AdapterError::Source { path: path.to_owned(), row: row.into(), kind, reason: reason.into() }
}

fn codec_error(path: &Path, row: u64, error: &CodecError) -> AdapterError {
    let kind = ErrorKind::from_name(error.kind().as_str()).unwrap_or(ErrorKind::Decode);
    source_error(path, row, kind, error.to_string())
}
