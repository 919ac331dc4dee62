//! Chunks as images: which chunks are, and how their planes lie in a block.
//!
//! A block of an image codec is a byte that says how samples are mapped (0 as they are, 1 signed
//! ones of 16 bits as unsigned), the number of planes (u32), the bytes of each (u32), and the
//! streams of the planes.

use half::f16;
use iac_codec::{
    Codec, ColorHandling, DecodeOptions, DepthHandling, ImageShape, ImageView, Limits, SampleType,
    SamplesRef,
};

use crate::dtype::DType;
use crate::error::{Result, u64_len};
use crate::meta::ArrayMeta;

/// Pixels of a plane below which the frame of a stream outweighs what it saves.
const LEAST_PIXELS: u64 = 256;
/// Rows and columns that every codec can count.
const MOST_SIDE: u64 = 65_535;

/// A chunk as images of one size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Planes {
    pub(crate) sample: SampleType,
    pub(crate) height: u32,
    pub(crate) width: u32,
    pub(crate) channels: u32,
}

impl Planes {
    /// How a chunk of these extents is images: its last two axes are rows and columns. Elements of
    /// three numbers, and a last axis of three that is called `c` or `channel`, are colours.
    pub(crate) fn of(meta: &ArrayMeta, extents: &[u64]) -> Option<Self> {
        let (dtype, mut channels) = match &meta.dtype {
            DType::FixedList(inner, 3) => (&**inner, 3),
            other => (other, 1),
        };
        let sample = match dtype {
            DType::UInt8 => SampleType::U8,
            DType::UInt16 => SampleType::U16,
            DType::Int16 => SampleType::I16,
            DType::Float16 => SampleType::F16,
            DType::Float32 => SampleType::F32,
            _ => return None,
        };
        let mut sides = extents;
        let last = meta.dims.last().map(String::as_str);
        if channels == 1
            && matches!(last, Some("c" | "channel"))
            && let Some((3, rest)) = extents.split_last()
        {
            (sides, channels) = (rest, 3);
        }
        let [.., height, width] = sides else {
            return None;
        };
        let fits = |side: u64| (1..=MOST_SIDE).contains(&side);
        if !fits(*height) || !fits(*width) || height.saturating_mul(*width) < LEAST_PIXELS {
            return None;
        }
        let (height, width) = (u32::try_from(*height).ok()?, u32::try_from(*width).ok()?);
        Some(Self { sample, height, width, channels })
    }

    fn bytes(self) -> usize {
        [self.height, self.width, self.channels]
            .iter()
            .filter_map(|side| usize::try_from(*side).ok())
            .fold(self.sample.bytes(), usize::saturating_mul)
    }
}

/// Samples of which an image codec knows the type.
enum Typed {
    U8(Vec<u8>),
    U16(Vec<u16>),
    I16(Vec<i16>),
    F16(Vec<f16>),
    F32(Vec<f32>),
}

impl Typed {
    fn of(sample: SampleType, bytes: &[u8]) -> Option<Self> {
        macro_rules! numbers {
            ($type:ty) => {
                bytes.as_chunks().0.iter().map(|bytes| <$type>::from_le_bytes(*bytes)).collect()
            };
        }
        Some(match sample {
            SampleType::U8 => Self::U8(bytes.to_vec()),
            SampleType::U16 => Self::U16(numbers!(u16)),
            SampleType::I16 => Self::I16(numbers!(i16)),
            SampleType::F16 => Self::F16(numbers!(f16)),
            SampleType::F32 => Self::F32(numbers!(f32)),
            _ => return None,
        })
    }

    fn samples(&self) -> SamplesRef<'_> {
        match self {
            Self::U8(samples) => samples.as_slice().into(),
            Self::U16(samples) => samples.as_slice().into(),
            Self::I16(samples) => samples.as_slice().into(),
            Self::F16(samples) => samples.as_slice().into(),
            Self::F32(samples) => samples.as_slice().into(),
        }
    }
}

/// The block of a chunk, if it is smaller than the chunk and decodes to the very same bytes.
pub(crate) fn encode(codec: &Codec, planes: Planes, raw: &[u8]) -> Result<Option<Vec<u8>>> {
    let mapped = planes.sample == SampleType::I16;
    let codec = if mapped { codec.with_int16_samples()? } else { codec.clone() };
    let shape = ImageShape::new(planes.height, planes.width, planes.channels)?;
    let mut streams = Vec::new();
    for plane in raw.chunks(planes.bytes().max(1)) {
        let Some(samples) = Typed::of(planes.sample, plane) else {
            return Ok(None);
        };
        let Ok(view) = ImageView::new(shape, samples.samples()) else {
            return Ok(None);
        };
        let stream = codec.encode_image(&view)?;
        // A lossy codec, or one that does not keep every NaN, must not change a chunk.
        match codec.decode_image(&stream, &options(u64_len(plane.len()))) {
            Ok(image) if *image.samples().to_le_bytes() == *plane => streams.push(stream),
            _ => return Ok(None),
        }
    }
    let mut block = vec![u8::from(mapped)];
    block.extend_from_slice(&word(streams.len()));
    for stream in &streams {
        block.extend_from_slice(&word(stream.len()));
    }
    streams.iter().for_each(|stream| block.extend_from_slice(stream));
    Ok((block.len() < raw.len()).then_some(block))
}

/// A length, which a chunk of at most 1 GiB keeps below 2^32.
fn word(length: usize) -> [u8; 4] {
    u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes()
}

fn options(bytes: u64) -> DecodeOptions {
    DecodeOptions::default()
        .with_limits(Limits::default().with_max_decoded_bytes(bytes).with_max_samples(bytes.max(1)))
        .with_color(ColorHandling::Interpreted)
        .with_depth(DepthHandling::Unscaled)
}

/// The bytes of a chunk, of which there must be so many.
pub(crate) fn decode(
    codec: &Codec,
    block: &[u8],
    raw: u64,
) -> std::result::Result<Vec<u8>, String> {
    let cut = || format!("a block of {} bytes ends within its list of planes", block.len());
    let (head, rest) = block.split_first_chunk::<5>().ok_or_else(cut)?;
    let [mapping, count @ ..] = *head;
    let codec = match mapping {
        0 => codec.clone(),
        1 => codec.with_int16_samples().map_err(|error| error.to_string())?,
        other => return Err(format!("mapping {other} of samples is not known")),
    };
    let table =
        usize::try_from(u32::from_le_bytes(count)).ok().and_then(|count| count.checked_mul(4));
    let (table, mut streams) =
        table.and_then(|table| rest.split_at_checked(table)).ok_or_else(cut)?;
    let mut bytes = Vec::new();
    for length in table.as_chunks::<4>().0 {
        let length = usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX);
        let (stream, rest) = streams
            .split_at_checked(length)
            .ok_or_else(|| format!("a plane of {length} bytes lies outside of its block"))?;
        streams = rest;
        let left = raw.saturating_sub(u64_len(bytes.len()));
        let image =
            codec.decode_image(stream, &options(left)).map_err(|error| error.to_string())?;
        bytes.extend_from_slice(&image.samples().to_le_bytes());
    }
    if !streams.is_empty() {
        return Err(format!("{} bytes follow the last plane", streams.len()));
    }
    Ok(bytes)
}
