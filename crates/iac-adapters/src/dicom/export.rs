//! DICOM files from packs.

use std::collections::HashSet;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use dicom_core::VR;
use iac_codec::{Codec, CodecSpec, Image, Parameters, Registry};
use iac_format::TableKind;
use iac_ops::Progress;

use super::attributes::Attributes;
use super::fault::Fault;
use super::kept;
use super::object::{DataSet, Element};
use super::ordered::for_each_ordered;
use super::pixels::{BITS_STORED, HIGH_BIT, PHOTOMETRIC, PLANAR, of_codec};
use super::prepare::BITS_MEMBER;
use super::publish::publish_unsynced;
use super::read::DicomPackReader;
use super::rle;
use super::samples::{PixelSamples, Pixels};
use super::schema2;
use super::syntax;
use super::write::{self, PixelElement};
use crate::columns::text_column;
use crate::error::Result;
use crate::task::{Task, check_cancelled};

/// How the image of an exported file is encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum ExportSyntax {
    /// The payload as the pack holds it. Few programs read this yet.
    #[default]
    JpegXl,
    /// Samples as they are, which every program reads.
    ExplicitLittleEndian,
    /// The same, with the data set deflated.
    Deflated,
    /// JPEG-LS without loss.
    JpegLs,
    /// JPEG 2000 without loss.
    Jpeg2000,
    /// High-throughput JPEG 2000 without loss.
    Htj2k,
    /// Run lengths.
    Rle,
    /// The streams of the source, where the pack keeps them or can rebuild them; samples as they
    /// are elsewhere.
    Source,
}

impl ExportSyntax {
    /// Every syntax.
    pub const ALL: [Self; 8] = [
        Self::JpegXl,
        Self::ExplicitLittleEndian,
        Self::Deflated,
        Self::JpegLs,
        Self::Jpeg2000,
        Self::Htj2k,
        Self::Rle,
        Self::Source,
    ];

    /// The UID of the transfer syntax; for [`Source`](Self::Source) that of objects whose streams
    /// are not kept.
    #[must_use]
    pub const fn uid(self) -> &'static str {
        match self {
            Self::JpegXl => syntax::JXL_LOSSLESS,
            Self::ExplicitLittleEndian | Self::Source => syntax::EXPLICIT,
            Self::Deflated => syntax::DEFLATED,
            Self::JpegLs => syntax::JPEGLS_LOSSLESS,
            Self::Jpeg2000 => syntax::JPEG2000_LOSSLESS,
            Self::Htj2k => syntax::HTJ2K_LOSSLESS,
            Self::Rle => syntax::RLE,
        }
    }

    /// The name that the command line takes.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::JpegXl => "jxl",
            Self::ExplicitLittleEndian => "explicit",
            Self::Deflated => "deflated",
            Self::JpegLs => "jpegls",
            Self::Jpeg2000 => "j2k",
            Self::Htj2k => "htj2k",
            Self::Rle => "rle",
            Self::Source => "source",
        }
    }

    /// The syntax of a name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }
}

/// How objects are exported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ExportOptions {
    /// How images are encoded; default as the pack holds them.
    pub syntax: ExportSyntax,
    /// Decode what was encoded, and compare; default false.
    pub verify: bool,
    /// Replace files that exist; default false.
    pub overwrite: bool,
}

impl ExportOptions {
    /// The same with another syntax.
    #[must_use]
    pub const fn with_syntax(mut self, syntax: ExportSyntax) -> Self {
        self.syntax = syntax;
        self
    }

    /// The same with images verified, or not.
    #[must_use]
    pub const fn with_verify(mut self, verify: bool) -> Self {
        self.verify = verify;
        self
    }

    /// The same with existing files replaced, or not.
    #[must_use]
    pub const fn with_overwrite(mut self, overwrite: bool) -> Self {
        self.overwrite = overwrite;
        self
    }
}

impl DicomPackReader {
    /// One object as the bytes of a DICOM file.
    ///
    /// Objects without images, and those whose pixel data is stored as it was, are written in the
    /// transfer syntax of their source.
    ///
    /// # Errors
    ///
    /// As [`attributes`](Self::attributes) and [`read_pixels`](Self::read_pixels);
    /// [`AdapterError::Codec`](crate::AdapterError::Codec) or [`AdapterError::Source`](crate::AdapterError::Source) when the image cannot be encoded.
    pub fn export(&self, row: u64, options: &ExportOptions) -> Result<Vec<u8>> {
        if self.is_second() {
            return schema2::export::export(self, row, options);
        }
        let attributes = self.attributes(row)?;
        let (mut data, meta) = attributes.restore().map_err(|fault| self.fault(row, fault))?;
        let preamble = attributes.preamble();
        let preamble = preamble.as_deref();
        if !self.has_pixels(row)? {
            let uids = text_column(self.reader(), TableKind::Index, "source_transfer_syntax")?;
            let uid = uids.get(row).filter(|uid| !uid.is_empty()).unwrap_or(syntax::EXPLICIT);
            let pixels = self.kept_pixels(row, &attributes)?;
            let file = write::file(preamble, &meta, &data, uid, pixels.as_ref());
            return file.map_err(|fault| self.fault(row, fault));
        }
        // Streams are interleaved, whatever the source was.
        if data.get(PLANAR).is_some() {
            data.put(Element::new(PLANAR, VR::US, vec![0, 0]));
        }
        let pixels = match options.syntax {
            ExportSyntax::JpegXl => {
                if options.verify {
                    self.read_pixels(row)?;
                }
                PixelElement::Encapsulated(self.records().read_bytes(row)?)
            }
            other => self.encoded(row, other, &attributes, &mut data, options.verify)?,
        };
        write::file(preamble, &meta, &data, options.syntax.uid(), Some(&pixels))
            .map_err(|fault| self.fault(row, fault))
    }

    /// Writes one object to a file, which appears as a whole or not at all; folders on the way are
    /// made.
    ///
    /// # Errors
    ///
    /// As [`export`](Self::export); [`AdapterError::Write`](crate::AdapterError::Write) when the file exists already and is not
    /// to be replaced; [`AdapterError::Io`](crate::AdapterError::Io) when it cannot be written.
    pub fn export_to(
        &self,
        row: u64,
        path: impl AsRef<Path>,
        options: &ExportOptions,
    ) -> Result<()> {
        let path = path.as_ref();
        let file = self.export(row, options)?;
        publish_unsynced(path, options.overwrite, |out| out.write_all(&file))
    }

    /// Pixel data that is stored as it was.
    pub(crate) fn kept_pixels(
        &self,
        row: u64,
        attributes: &Attributes,
    ) -> Result<Option<PixelElement>> {
        let Some(bytes) = self.aside(row, attributes, kept::MEMBER)? else {
            return Ok(None);
        };
        let member = attributes.delta.iac.get(kept::MEMBER);
        kept::unpack(member, bytes.into()).map(Some).map_err(|fault| self.fault(row, fault))
    }

    /// The stored words of an image: its samples, with the bits that the payload does not hold.
    pub(crate) fn stored_words(
        &self,
        row: u64,
        pixels: &Pixels,
        attributes: &Attributes,
    ) -> Result<(Vec<u8>, bool)> {
        let mut words = pixels.samples.to_le_bytes();
        let Some(aside) = self.aside(row, attributes, BITS_MEMBER)? else {
            return Ok((words, false));
        };
        if aside.len() != words.len() {
            return Err(
                self.fault(row, Fault::decode("the bits beside its payload are of another size"))
            );
        }
        let width = pixels.samples.pixel_type().bytes();
        let stored = attributes.number(BITS_STORED).unwrap_or(0.0);
        // Sign fill is not part of the source where other bits are.
        let mask = (1..=16_u32)
            .find(|bits| f64::from(*bits) == stored)
            .map_or(0xFFFF, |bits| 1_u32.checked_shl(bits).unwrap_or(0).wrapping_sub(1) & 0xFFFF);
        let mask = mask.to_le_bytes();
        for (position, (word, more)) in words.iter_mut().zip(&aside).enumerate() {
            let byte = position.checked_rem(width).unwrap_or(0);
            *word = (*word & mask.get(byte).copied().unwrap_or(0xFF)) | more;
        }
        Ok((words, true))
    }

    pub(crate) fn encoded(
        &self,
        row: u64,
        syntax: ExportSyntax,
        attributes: &Attributes,
        data: &mut DataSet,
        verify: bool,
    ) -> Result<PixelElement> {
        let pixels = self.read_pixels(row)?;
        let (words, whole) = self.stored_words(row, &pixels, attributes)?;
        let width = pixels.samples.pixel_type().bytes();
        let shape = pixels.shape;
        let fault = |fault: Fault| self.fault(row, fault);
        let channels = if shape.channels() == 3 { 3 } else { 1 };
        if matches!(
            syntax,
            ExportSyntax::ExplicitLittleEndian | ExportSyntax::Deflated | ExportSyntax::Source
        ) {
            let vr = if width == 1 { VR::OB } else { VR::OW };
            return Ok(PixelElement::Native(vr, words.into()));
        }
        if syntax == ExportSyntax::Rle {
            let columns = usize::try_from(shape.width()).unwrap_or(0);
            let stream = rle::encode(&words, columns, channels, width).map_err(fault)?;
            if verify {
                let count = shape.samples().checked_div(channels).unwrap_or(0);
                if rle::decode(&stream, count, channels, width).map_err(fault)? != words {
                    return Err(self.fault(row, Fault::decode("the encoded image differs")));
                }
            }
            return Ok(PixelElement::Encapsulated(stream.into()));
        }
        let (stored, high_bit) = (data.u16(BITS_STORED), data.u16(HIGH_BIT));
        let allocated = if width == 1 { 8 } else { 16 };
        // Unused bits are left out of a stream unless they hold something.
        let bits = match (stored, high_bit) {
            _ if syntax == ExportSyntax::JpegXl => allocated,
            (Some(stored), Some(high)) if !whole && high == stored.saturating_sub(1) => {
                stored.clamp(2, allocated)
            }
            _ => allocated,
        };
        let signed = matches!(pixels.samples, PixelSamples::I8(_) | PixelSamples::I16(_));
        let (codec, image) = encoder(syntax, &pixels, &words, bits, signed).map_err(fault)?;
        let stream =
            codec.encode_image(&image.as_view()).map_err(|error| fault(of_codec(&error)))?;
        if verify {
            let options = iac_codec::DecodeOptions::default();
            let back =
                codec.decode_image(&stream, &options).map_err(|error| fault(of_codec(&error)))?;
            if back != image {
                return Err(self.fault(row, Fault::decode("the encoded image differs")));
            }
        }
        if matches!(syntax, ExportSyntax::Jpeg2000 | ExportSyntax::Htj2k)
            && channels == 3
            && data.ascii(PHOTOMETRIC).as_deref() == Some("RGB")
            && colours_are_transformed(&stream)
        {
            data.put(Element::new(PHOTOMETRIC, VR::CS, Bytes::from_static(b"YBR_RCT ")));
        }
        Ok(PixelElement::Encapsulated(stream.into()))
    }
}

/// An encoder, and the image in the form that it takes.
pub(crate) fn encoder(
    syntax: ExportSyntax,
    pixels: &Pixels,
    words: &[u8],
    bits: u16,
    signed: bool,
) -> super::fault::Result<(Codec, Image)> {
    let mut parameters = Parameters::new();
    let mut put = |name: &str, value: serde_json::Value| parameters.insert(name.to_owned(), value);
    let name = match syntax {
        ExportSyntax::JpegXl => {
            put("lossless", true.into());
            put("usecontainer", true.into());
            "jxl"
        }
        ExportSyntax::JpegLs => {
            put("bits_per_sample", bits.into());
            "jpegls"
        }
        other => {
            put("profile", if other == ExportSyntax::Htj2k { "ht" } else { "classic" }.into());
            put("lossless", true.into());
            put("trust_transform_flag", true.into());
            put("extended", signed.into());
            let least = if pixels.samples.pixel_type().bytes() == 2 { 9 } else { 1 };
            put("bits_per_sample", bits.max(least).into());
            "jpeg2000"
        }
    };
    let codec = Registry::global()
        .create_encoder(&CodecSpec::new(name, parameters))
        .map_err(|error| of_codec(&error))?;
    // JPEG-LS knows no signs: what is stored are the lower bits.
    let mask = 1_u32.checked_shl(bits.into()).unwrap_or(0).wrapping_sub(1);
    let mask = u16::try_from(mask & 0xFFFF).unwrap_or(u16::MAX);
    let takes_signed = codec
        .image_capabilities()
        .is_ok_and(|it| it.encodes(iac_codec::SampleType::I16, pixels.shape.channels()));
    let image = if pixels.samples.pixel_type().bytes() == 1 {
        let mask = u8::try_from(mask & 0xFF).unwrap_or(u8::MAX);
        Image::new(pixels.shape, words.iter().map(|word| word & mask).collect::<Vec<u8>>())
    } else {
        let (pairs, _) = words.as_chunks::<2>();
        let words = pairs.iter().map(|two| u16::from_le_bytes(*two));
        if signed && takes_signed && name == "jpeg2000" {
            Image::new(pixels.shape, words.map(u16::cast_signed).collect::<Vec<i16>>())
        } else {
            Image::new(pixels.shape, words.map(|word| word & mask).collect::<Vec<u16>>())
        }
    };
    Ok((codec, image.map_err(|error| of_codec(&error))?))
}

/// Whether a JPEG 2000 codestream says that its colours are transformed: the byte behind the number
/// of layers in the default coding style (T.800, A.6.1).
fn colours_are_transformed(stream: &[u8]) -> bool {
    let marker = stream.windows(10).find(|window| window.starts_with(&[0xFF, 0x52]));
    marker.and_then(|marker| marker.get(8)).is_some_and(|transform| *transform == 1)
}

/// Whether a name stands for a device on some systems, whatever its extension.
fn is_device(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or_default().to_ascii_lowercase();
    match stem.as_str() {
        "con" | "prn" | "aux" | "nul" => true,
        other => {
            let port = other.strip_prefix("com").or_else(|| other.strip_prefix("lpt"));
            port.is_some_and(|port| port.len() == 1 && port.bytes().all(|it| it.is_ascii_digit()))
        }
    }
}

/// A file that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExportedFile {
    /// Row of the instance table.
    pub row: u64,
    /// Where it is.
    pub path: PathBuf,
    /// Its size.
    pub bytes: u64,
}

impl DicomPackReader {
    /// Writes many objects into a folder, on several threads, named after their SOP instance UIDs;
    /// `told` hears of each file, in the order of the rows.
    ///
    /// # Errors
    ///
    /// As [`export_to`](Self::export_to), for the first row that fails; what was written before
    /// stays.
    pub fn export_many(
        &self,
        rows: &[u64],
        folder: &Path,
        options: &ExportOptions,
        workers: Option<NonZeroUsize>,
        progress: &dyn Progress,
        told: &mut dyn FnMut(ExportedFile) -> Result<()>,
    ) -> Result<()> {
        let uids = text_column(self.reader(), TableKind::Index, "sop_instance_uid")?;
        let mut taken: HashSet<String> = HashSet::new();
        let jobs: Vec<(u64, PathBuf)> = rows
            .iter()
            .map(|row| {
                let uid = uids.get(*row).unwrap_or_default();
                // A name is never a path, and never hidden.
                let safe = |one: &char| one.is_ascii_alphanumeric() || matches!(one, '.' | '-');
                let mut name: String = uid.chars().filter(safe).take(100).collect();
                if name.is_empty() || name.starts_with('.') || is_device(&name) {
                    name = format!("row{name}-{row}");
                }
                // Some systems do not tell capitals from other letters.
                let mut unique = name.clone();
                let mut tried = 0_u64;
                while !taken.insert(unique.to_ascii_lowercase()) {
                    unique = match tried {
                        0 => format!("{name}-{row}"),
                        tried => format!("{name}-{row}-{tried}"),
                    };
                    tried = tried.saturating_add(1);
                }
                (*row, folder.join(format!("{unique}.dcm")))
            })
            .collect();
        let task = Task::begin(progress, "exporting", u64::try_from(rows.len()).ok());
        let all = || std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        let write = |(row, path): (u64, PathBuf)| {
            self.export_to(row, &path, options)?;
            let bytes = std::fs::metadata(&path).map_or(0, |metadata| metadata.len());
            Ok(ExportedFile { row, path, bytes })
        };
        let workers = workers.unwrap_or_else(all).get().min(jobs.len().max(1));
        for_each_ordered(jobs.into_iter(), workers, write, |written: Result<ExportedFile>| {
            check_cancelled(progress)?;
            task.advance(1);
            told(written?)
        })
    }
}
