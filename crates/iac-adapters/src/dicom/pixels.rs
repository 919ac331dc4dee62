//! Samples of source objects, as packs store them.

use bytes::Bytes;
use dicom_core::Tag;
use iac_codec::{
    CodecError, CodecSpec, ColorHandling, DecodeOptions, DepthHandling, Image, ImageShape, Limits,
    Parameters, Registry, SamplesRef,
};
use iac_format::ErrorKind;

use super::fault::{Fault, Result};
use super::object::{DataSet, ElementValue, PIXEL_DATA};
use super::rle;
use super::syntax::{JXL_LOSSLESS, PixelEncoding, pixel_encoding};

pub(crate) const SAMPLES_PER_PIXEL: Tag = Tag(0x0028, 0x0002);
pub(crate) const PHOTOMETRIC: Tag = Tag(0x0028, 0x0004);
pub(crate) const PLANAR: Tag = Tag(0x0028, 0x0006);
pub(crate) const FRAMES: Tag = Tag(0x0028, 0x0008);
pub(crate) const ROWS: Tag = Tag(0x0028, 0x0010);
pub(crate) const COLUMNS: Tag = Tag(0x0028, 0x0011);
pub(crate) const BITS_ALLOCATED: Tag = Tag(0x0028, 0x0100);
pub(crate) const BITS_STORED: Tag = Tag(0x0028, 0x0101);
pub(crate) const HIGH_BIT: Tag = Tag(0x0028, 0x0102);
pub(crate) const PIXEL_REPRESENTATION: Tag = Tag(0x0028, 0x0103);

/// The first bytes of JPEG XL in a container.
pub(crate) const JXL_CONTAINER: &[u8] = b"\x00\x00\x00\x0CJXL \r\n\x87\n";

/// How an object describes its samples.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PixelForm {
    pub(crate) shape: ImageShape,
    pub(crate) allocated: u16,
    pub(crate) stored: u16,
    pub(crate) high_bit: u16,
    pub(crate) signed: bool,
    pub(crate) photometric: String,
    pub(crate) planar: bool,
}

impl PixelForm {
    /// Reads and checks the description.
    pub(crate) fn of(data: &DataSet) -> Result<Self> {
        if let Some(frames) = data.ascii(FRAMES).filter(|frames| !frames.is_empty()) {
            match super::number::integer(&frames) {
                Some(1) => {}
                Some(frames) => {
                    return Err(Fault::unsupported(format!(
                        "it has {frames} frames, and schema 1 holds single frames"
                    ))
                    .at(FRAMES));
                }
                None => return Err(Fault::schema(FRAMES, "is no number")),
            }
        }
        Self::of_frame(data)
    }

    /// The same, however many frames there are.
    pub(crate) fn of_frame(data: &DataSet) -> Result<Self> {
        let number = |tag: Tag| {
            data.u16(tag).ok_or_else(|| {
                Fault::schema(tag, "is missing or empty, but the object has pixel data")
            })
        };
        let (rows, columns) = (number(ROWS)?, number(COLUMNS)?);
        if rows == 0 || columns == 0 {
            return Err(Fault::schema(
                ROWS,
                format!("the image has {rows} rows and {columns} columns"),
            ));
        }
        let channels = number(SAMPLES_PER_PIXEL)?;
        let photometric =
            data.ascii(PHOTOMETRIC).filter(|label| !label.is_empty()).ok_or_else(|| {
                Fault::schema(PHOTOMETRIC, "is missing or empty, but the object has pixel data")
            })?;
        let known = match channels {
            1 => matches!(photometric.as_str(), "MONOCHROME1" | "MONOCHROME2" | "PALETTE COLOR"),
            3 => photometric == "RGB" || photometric == "XYB" || photometric.starts_with("YBR_"),
            _ => false,
        };
        if !known {
            return Err(Fault::unsupported(format!(
                "images of {channels} samples for each pixel and this photometric interpretation are not supported"
            ))
            .at(PHOTOMETRIC));
        }
        let allocated = number(BITS_ALLOCATED)?;
        if !matches!(allocated, 8 | 16) {
            return Err(Fault::unsupported(format!(
                "it has {allocated} bits allocated, and schema 1 holds 8 and 16"
            ))
            .at(BITS_ALLOCATED));
        }
        let stored = number(BITS_STORED)?;
        if stored == 0 || stored > allocated {
            return Err(Fault::schema(
                BITS_STORED,
                format!("is {stored}, but {allocated} bits are allocated"),
            ));
        }
        let signed = match number(PIXEL_REPRESENTATION)? {
            0 => false,
            1 => true,
            other => return Err(Fault::schema(PIXEL_REPRESENTATION, format!("is {other}"))),
        };
        let shape = ImageShape::new(rows.into(), columns.into(), channels.into())
            .map_err(|error| Fault::decode(error.to_string()))?;
        Ok(Self {
            shape,
            allocated,
            stored,
            high_bit: data.u16(HIGH_BIT).unwrap_or(stored.saturating_sub(1)),
            signed,
            photometric,
            planar: channels > 1 && data.u16(PLANAR) == Some(1),
        })
    }

    /// The name of the type that packs give these samples.
    pub(crate) const fn dtype(&self) -> &'static str {
        match (self.allocated, self.signed) {
            (8, false) => "uint8",
            (8, true) => "int8",
            (_, false) => "uint16",
            (_, true) => "int16",
        }
    }

    const fn sample_bytes(&self) -> usize {
        if self.allocated == 8 { 1 } else { 2 }
    }

    fn pixels(&self) -> usize {
        self.shape.samples().checked_div(channels(self)).unwrap_or(0)
    }
}

/// The bytes of one image in its file.
#[derive(Debug, Clone)]
pub(crate) enum Coded {
    /// Samples as they are.
    Native(Bytes),
    /// A stream of a codec, or run lengths.
    Stream(Bytes),
}

/// Samples that become a payload, and what they leave out.
#[derive(Debug)]
pub(crate) struct Imported {
    pub(crate) form: PixelForm,
    /// Unsigned, as the payload holds them.
    pub(crate) image: Image,
    /// Each stored word with the payload's bits cleared, little-endian, where one holds anything.
    pub(crate) aside: Option<Vec<u8>>,
    /// The photometric interpretation of the samples, where it is not the source's.
    pub(crate) label: Option<&'static str>,
    /// A stream that can be stored as it is.
    pub(crate) payload: Option<Bytes>,
}

/// Decodes the pixel data of an object.
pub(crate) fn import(data: &DataSet, transfer_syntax: &str, limits: &Limits) -> Result<Imported> {
    let form = PixelForm::of(data)?;
    let encoding = pixel_encoding(transfer_syntax).ok_or_else(|| {
        Fault::unsupported(format!(
            "pixel data of the transfer syntax {} is not supported",
            super::build::shown_uid(transfer_syntax)
        ))
    })?;
    let coded = match (encoding, data.get(PIXEL_DATA).map(|element| &element.value)) {
        (PixelEncoding::Native, Some(ElementValue::Bytes(bytes))) => Coded::Native(bytes.clone()),
        (PixelEncoding::Native, Some(ElementValue::Fragments(_))) => {
            return Err(Fault::schema(
                PIXEL_DATA,
                "is encapsulated, but its transfer syntax is a native one",
            ));
        }
        (_, Some(ElementValue::Fragments(fragments))) => Coded::Stream(joined(fragments)?),
        (_, Some(ElementValue::Bytes(_))) => {
            return Err(Fault::schema(
                PIXEL_DATA,
                "is not encapsulated, but its transfer syntax is",
            ));
        }
        _ => return Err(Fault::schema(PIXEL_DATA, "is missing")),
    };
    let mut imported = import_image(form, encoding, coded, limits)?;
    // What is not said to be without loss is not stored as if it were.
    imported.payload = imported.payload.filter(|_| transfer_syntax == JXL_LOSSLESS);
    Ok(imported)
}

/// Decodes one image.
pub(crate) fn import_image(
    form: PixelForm,
    encoding: PixelEncoding,
    coded: Coded,
    limits: &Limits,
) -> Result<Imported> {
    form.shape.check(limits).map_err(|error| of_codec(&error))?;
    let mut label = relabelled(&form, encoding);
    let (words, stream) = match (coded, encoding) {
        (Coded::Native(bytes), _) => {
            if form.photometric == "YBR_FULL_422"
                && bytes.len() >= form.shape.samples()
                && form.sample_bytes() == 1
            {
                label = Some("YBR_FULL");
            }
            (native(&form, &bytes)?, None)
        }
        (Coded::Stream(stream), PixelEncoding::Codec(name)) => {
            (decode(&form, name, &stream, limits)?, Some((name, stream)))
        }
        (Coded::Stream(stream), _) => {
            let bytes = rle::decode(&stream, form.pixels(), channels(&form), form.sample_bytes())?;
            (words(&form, &bytes), None)
        }
    };
    let (words, aside, changed) = settle(&form, words);
    let payload = stream.filter(|(name, stream)| {
        *name == "jxl"
            && !changed
            && stream.starts_with(JXL_CONTAINER)
            && depth_matches(&form, stream)
    });
    let image = match words {
        Words::Bytes(bytes) => Image::new(form.shape, bytes),
        Words::Shorts(shorts) => Image::new(form.shape, shorts),
    };
    let image = image.map_err(|error| Fault::decode(error.to_string()))?;
    Ok(Imported { form, image, aside, label, payload: payload.map(|(_, stream)| stream) })
}

fn channels(form: &PixelForm) -> usize {
    if form.shape.channels() == 3 { 3 } else { 1 }
}

/// What decoded samples are to be called.
fn relabelled(form: &PixelForm, encoding: PixelEncoding) -> Option<&'static str> {
    match form.photometric.as_str() {
        "YBR_RCT" | "YBR_ICT" | "XYB" if matches!(encoding, PixelEncoding::Codec(_)) => Some("RGB"),
        "YBR_FULL_422" => Some("YBR_FULL"),
        _ => None,
    }
}

/// Samples as unsigned words of the allocated width.
enum Words {
    Bytes(Vec<u8>),
    Shorts(Vec<u16>),
}

fn words(form: &PixelForm, bytes: &[u8]) -> Words {
    if form.sample_bytes() == 1 {
        return Words::Bytes(bytes.to_vec());
    }
    let (pairs, _) = bytes.as_chunks::<2>();
    Words::Shorts(pairs.iter().map(|two| u16::from_le_bytes(*two)).collect())
}

fn native(form: &PixelForm, bytes: &[u8]) -> Result<Words> {
    let samples = form.shape.samples();
    let short = |expected: usize| {
        Fault::schema(
            PIXEL_DATA,
            format!("has {} bytes where {expected} are expected", bytes.len()),
        )
    };
    let whole = samples.checked_mul(form.sample_bytes()).ok_or_else(|| short(usize::MAX))?;
    if matches!(form.photometric.as_str(), "YBR_FULL_422") && bytes.len() < whole {
        return halved_colours(form, bytes).ok_or_else(|| short(form.pixels().saturating_mul(2)));
    }
    if matches!(form.photometric.as_str(), "YBR_PARTIAL_422" | "YBR_PARTIAL_420") {
        return Err(Fault::unsupported(
            "subsampled samples of this photometric interpretation are not supported",
        )
        .at(PHOTOMETRIC));
    }
    let found = bytes.get(..whole).ok_or_else(|| short(whole))?;
    if !form.planar {
        return Ok(words(form, found));
    }
    let unit = form.sample_bytes();
    let plane = form.pixels().saturating_mul(unit);
    let mut mixed = Vec::with_capacity(whole);
    let planes: Vec<&[u8]> = found.chunks_exact(plane.max(1)).collect();
    for position in (0..plane).step_by(unit) {
        for plane in &planes {
            mixed.extend_from_slice(
                plane.get(position..position.saturating_add(unit)).unwrap_or_default(),
            );
        }
    }
    Ok(words(form, &mixed))
}

/// Two pixels share their colours: Y Y Cb Cr.
fn halved_colours(form: &PixelForm, bytes: &[u8]) -> Option<Words> {
    if form.sample_bytes() != 1 || form.shape.width() % 2 == 1 {
        return None;
    }
    let pairs = form.pixels().checked_div(2)?;
    let (groups, _) = bytes.as_chunks::<4>();
    let groups = groups.get(..pairs)?;
    let mut samples = Vec::with_capacity(form.shape.samples());
    for [first, second, blue, red] in groups {
        samples.extend_from_slice(&[*first, *blue, *red, *second, *blue, *red]);
    }
    Some(Words::Bytes(samples))
}

/// The one stream of a single frame.
fn joined(fragments: &[Bytes]) -> Result<Bytes> {
    match fragments {
        [] => Err(Fault::schema(PIXEL_DATA, "has no fragments")),
        // Some writers leave the offset table out.
        [only] if !only.is_empty() => Ok(only.clone()),
        [_] => Err(Fault::schema(PIXEL_DATA, "has no fragments")),
        [_, only] => Ok(only.clone()),
        [_, several @ ..] => Ok(several.concat().into()),
    }
}

pub(crate) fn of_codec(error: &CodecError) -> Fault {
    let kind = ErrorKind::from_name(error.kind().as_str()).unwrap_or(ErrorKind::Decode);
    Fault { kind, tag: Some(PIXEL_DATA), reason: error.to_string() }
}

fn decode(form: &PixelForm, name: &str, stream: &[u8], limits: &Limits) -> Result<Words> {
    let mut parameters = Parameters::new();
    if name == "jpeg2000" {
        // Streams of other programs mean what they say.
        parameters.insert("trust_transform_flag".to_owned(), true.into());
    }
    let codec = Registry::global()
        .create(&CodecSpec::new(name, parameters))
        .map_err(|error| of_codec(&error))?;
    let stored = form.photometric.starts_with("YBR_FULL")
        || form.photometric.starts_with("YBR_PARTIAL")
        // Without a word in the stream the object's own is believed, not a codec's guess.
        || (name == "jpeg" && form.photometric == "RGB" && !says_ybr(stream));
    let color = if stored { ColorHandling::Stored } else { ColorHandling::Interpreted };
    let options = DecodeOptions::default()
        .with_limits(*limits)
        .with_color(color)
        .with_depth(DepthHandling::Unscaled);
    let image = codec.decode_image(stream, &options).map_err(|error| of_codec(&error))?;
    if image.shape() != form.shape {
        return Err(Fault::schema(
            PIXEL_DATA,
            format!(
                "its stream holds an image of {}, but the object says {}",
                image.shape(),
                form.shape
            ),
        ));
    }
    let misfit = || {
        Fault::schema(
            PIXEL_DATA,
            format!(
                "its stream holds samples of type {} that do not fit {} bits",
                image.sample_type(),
                form.allocated
            ),
        )
    };
    Ok(match (image.samples(), form.sample_bytes()) {
        (SamplesRef::U8(samples), 1) => Words::Bytes(samples.to_vec()),
        (SamplesRef::U8(samples), _) => {
            Words::Shorts(samples.iter().map(|sample| u16::from(*sample)).collect())
        }
        (SamplesRef::U16(samples), 2) => Words::Shorts(samples.to_vec()),
        (SamplesRef::I16(samples), 2) => {
            Words::Shorts(samples.iter().map(|sample| sample.cast_unsigned()).collect())
        }
        (SamplesRef::U16(samples), _) => {
            let bytes: Option<Vec<u8>> =
                samples.iter().map(|sample| u8::try_from(*sample).ok()).collect();
            Words::Bytes(bytes.ok_or_else(misfit)?)
        }
        (SamplesRef::I16(samples), _) => {
            let bytes: Option<Vec<u8>> = samples
                .iter()
                .map(|sample| {
                    u8::try_from(*sample)
                        .ok()
                        .or_else(|| i8::try_from(*sample).ok().map(i8::cast_unsigned))
                })
                .collect();
            Words::Bytes(bytes.ok_or_else(misfit)?)
        }
        _ => return Err(misfit()),
    })
}

/// Whether a JPEG stream says itself that its colours are YCbCr: in a JFIF segment, or in one of
/// Adobe's.
pub(crate) fn says_ybr(stream: &[u8]) -> bool {
    let mut jfif = false;
    let mut rest = stream.get(2..).unwrap_or_default();
    while let [0xFF, marker, high, low, behind @ ..] = rest {
        let length = usize::from(u16::from_be_bytes([*high, *low])).saturating_sub(2);
        let segment = behind.get(..length).unwrap_or(behind);
        match marker {
            0xDA => break,
            0xE0 => jfif |= segment.starts_with(b"JFIF\0"),
            0xEE if segment.starts_with(b"Adobe") => {
                if let Some(transform) = segment.get(11) {
                    return *transform != 0;
                }
            }
            _ => {}
        }
        rest = behind.get(length..).unwrap_or_default();
    }
    jfif
}

/// Whether a JPEG XL stream has the depth that packs store.
fn depth_matches(form: &PixelForm, stream: &[u8]) -> bool {
    let codec = Registry::global().create(&CodecSpec::new("jxl", Parameters::new()));
    let info = codec.and_then(|codec| codec.image_info(stream));
    info.is_ok_and(|info| info.bits.is_some_and(|bits| u16::from(bits) == form.allocated))
}

/// Clears or sign-extends the bits above those that are stored. Says which were there, and whether
/// anything was changed.
fn settle(form: &PixelForm, words: Words) -> (Words, Option<Vec<u8>>, bool) {
    let unused = form.stored < form.allocated && form.high_bit == form.stored.saturating_sub(1);
    if !unused {
        return (words, None, false);
    }
    let mask = 1_u16.checked_shl(u32::from(form.stored)).unwrap_or(0).wrapping_sub(1);
    let sign = 1_u16.checked_shl(u32::from(form.stored.saturating_sub(1))).unwrap_or(0);
    let whole: u16 = if form.allocated == 8 { 0xFF } else { 0xFFFF };
    let settled = |word: u16| {
        let low = word & mask;
        if form.signed && low & sign != 0 { low | (whole & !mask) } else { low }
    };
    let holds_more = |word: u16| {
        let above = word & !mask;
        above != 0 && word != settled(word)
    };
    match words {
        Words::Bytes(mut bytes) => {
            let more = bytes.iter().any(|byte| holds_more(u16::from(*byte)));
            let aside = more.then(|| {
                bytes
                    .iter()
                    .map(|byte| u8::try_from(u16::from(*byte) & !mask & 0xFF).unwrap_or(0))
                    .collect()
            });
            let mut changed = false;
            for byte in &mut bytes {
                let new = u8::try_from(settled(u16::from(*byte)) & 0xFF).unwrap_or(0);
                changed |= new != *byte;
                *byte = new;
            }
            (Words::Bytes(bytes), aside, changed)
        }
        Words::Shorts(mut shorts) => {
            let more = shorts.iter().any(|word| holds_more(*word));
            let aside =
                more.then(|| shorts.iter().flat_map(|word| (word & !mask).to_le_bytes()).collect());
            let mut changed = false;
            for word in &mut shorts {
                let new = settled(*word);
                changed |= new != *word;
                *word = new;
            }
            (Words::Shorts(shorts), aside, changed)
        }
    }
}
