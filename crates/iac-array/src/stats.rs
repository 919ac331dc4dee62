//! Statistics of chunks, and the chunks that a question can concern.

use half::{bf16, f16};

use crate::dtype::DType;
use crate::error::{ArrayError, Result};
use crate::grid::product;
use crate::index::{ChunkKind, ChunkRow};
use crate::meta::ArrayMeta;
use crate::nullable::value_of;
use crate::read::Found;
use crate::snapshot::Snapshot;

/// A number of any numeric type: integers and timestamps exactly, floats as `f64`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Number {
    /// An integer, a timestamp, or a truth value.
    Int(i128),
    /// A float.
    Float(f64),
}

macro_rules! numbers {
    ($($from:ty => $variant:ident),+) => {$(
        impl From<$from> for Number {
            fn from(number: $from) -> Self {
                Self::$variant(number.into())
            }
        }
    )+};
}

numbers!(i8 => Int, i16 => Int, i32 => Int, i64 => Int, u8 => Int, u16 => Int, u32 => Int,
    u64 => Int, f32 => Float, f64 => Float);

/// What the elements of a chunk, or of an array, are like.
#[derive(Debug, Clone, PartialEq)]
pub struct Stats {
    /// The least and the greatest element, fill values and NaN left out; none when there is no
    /// other element, or it is not known.
    pub range: Option<(Number, Number)>,
    /// Elements that are the fill value.
    pub fill_count: u64,
    /// Elements that are NaN (and not the fill value).
    pub nan_count: u64,
    /// Elements that are null.
    pub null_count: u64,
    /// All other elements.
    pub value_count: u64,
    /// Whether this is what reading every element would give. Otherwise the range is a bound, or
    /// not known at all, and the counts are of no use.
    pub exact: bool,
}

/// A chunk and its statistics.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ChunkStats {
    /// Where the chunk begins.
    pub start: Vec<u64>,
    /// How far it reaches.
    pub shape: Vec<u64>,
    /// What is in it.
    pub stats: Stats,
}

/// What an index row stores: bytes of the least and greatest element, and counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StoredStats {
    pub(crate) range: Option<(Element, Element)>,
    pub(crate) fill_count: u32,
    pub(crate) nan_count: u32,
    pub(crate) null_count: u32,
}

/// The bytes of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Element {
    bytes: [u8; 8],
    length: u8,
}

impl Element {
    /// None for more bytes than a number has.
    pub(crate) fn new(bytes: &[u8]) -> Option<Self> {
        let mut element = Self { bytes: [0; 8], length: u8::try_from(bytes.len()).ok()? };
        element.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(element)
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.length)).unwrap_or_default()
    }
}

/// Looks at every element of one type, compiled for that type: this is on the way of every write.
/// Nothing in the loop depends on what came before, so that several elements are looked at at once.
macro_rules! scan {
    ($type:ty, $bytes:expr, $fill:expr, $lowest:expr, $highest:expr, $is_nan:expr) => {{
        let (has_fill, fill, null_count) = $fill;
        let fill: [u8; size_of::<$type>()] = fill.try_into().ok()?;
        let elements = $bytes.as_chunks().0;
        let count = u32::try_from(elements.len()).ok()?;
        let (mut least, mut greatest): ($type, $type) = ($highest, $lowest);
        let (mut fill_count, mut nan_count) = (0_u32, 0_u32);
        for element in elements {
            let filled = has_fill & (*element == fill);
            let value = <$type>::from_le_bytes(*element);
            let low = if filled { $highest } else { value };
            let high = if filled { $lowest } else { value };
            least = if low < least { low } else { least };
            greatest = if greatest < high { high } else { greatest };
            fill_count = fill_count.wrapping_add(u32::from(filled));
            nan_count = nan_count.wrapping_add(u32::from(!filled & $is_nan(value)));
        }
        let others = count.saturating_sub(fill_count).saturating_sub(nan_count);
        let range = if others == 0 {
            None
        } else {
            Element::new(&least.to_le_bytes()).zip(Element::new(&greatest.to_le_bytes()))
        };
        StoredStats { range, fill_count, nan_count, null_count }
    }};
    ($type:ty, $bytes:expr, $fill:expr) => {
        scan!($type, $bytes, $fill, <$type>::MIN, <$type>::MAX, |_| false)
    };
}

/// Statistics of the bytes of a chunk; none for types without an order.
pub(crate) fn of_bytes(meta: &ArrayMeta, bytes: &[u8]) -> Option<StoredStats> {
    let zero = vec![0; meta.dtype.width()?];
    let (bytes, null_count) = meta.present(bytes)?;
    let bytes = &*bytes;
    // Without a fill value, what nobody wrote is zero, or null where elements can be.
    let has_fill = meta.fill.is_some() || !meta.nullable;
    let fill = (has_fill, meta.fill.as_deref().unwrap_or(&zero), null_count);
    Some(match &meta.dtype {
        DType::Bool | DType::UInt8 => scan!(u8, bytes, fill),
        DType::Int8 => scan!(i8, bytes, fill),
        DType::Int16 => scan!(i16, bytes, fill),
        DType::Int32 => scan!(i32, bytes, fill),
        DType::Int64 | DType::Timestamp(..) => scan!(i64, bytes, fill),
        DType::UInt16 => scan!(u16, bytes, fill),
        DType::UInt32 => scan!(u32, bytes, fill),
        DType::UInt64 => scan!(u64, bytes, fill),
        DType::Float16 => scan!(f16, bytes, fill, f16::NEG_INFINITY, f16::INFINITY, f16::is_nan),
        DType::BFloat16 => {
            scan!(bf16, bytes, fill, bf16::NEG_INFINITY, bf16::INFINITY, bf16::is_nan)
        }
        DType::Float32 => scan!(f32, bytes, fill, f32::NEG_INFINITY, f32::INFINITY, f32::is_nan),
        DType::Float64 => scan!(f64, bytes, fill, f64::NEG_INFINITY, f64::INFINITY, f64::is_nan),
        _ => return None,
    })
}

/// Compares numbers of one type.
fn less(a: Number, b: Number) -> bool {
    match (a, b) {
        (Number::Int(a), Number::Int(b)) => a < b,
        (Number::Float(a), Number::Float(b)) => a < b,
        _ => false,
    }
}

/// The number that the bytes of an element are; none for types without an order.
fn number(dtype: &DType, bytes: &[u8]) -> Option<Number> {
    macro_rules! read {
        ($type:ty) => {
            <$type>::from_le_bytes(bytes.try_into().ok()?)
        };
    }
    Some(match dtype {
        DType::Bool | DType::UInt8 => read!(u8).into(),
        DType::Int8 => read!(i8).into(),
        DType::Int16 => read!(i16).into(),
        DType::Int32 => read!(i32).into(),
        DType::Int64 | DType::Timestamp(..) => read!(i64).into(),
        DType::UInt16 => read!(u16).into(),
        DType::UInt32 => read!(u32).into(),
        DType::UInt64 => read!(u64).into(),
        DType::Float16 => read!(f16).to_f64().into(),
        DType::BFloat16 => read!(bf16).to_f64().into(),
        DType::Float32 => read!(f32).into(),
        DType::Float64 => read!(f64).into(),
        _ => return None,
    })
}

impl Stats {
    fn of(count: u64) -> Self {
        let range = None;
        Self { range, fill_count: 0, nan_count: 0, null_count: 0, value_count: count, exact: true }
    }

    fn unknown() -> Self {
        Self { exact: false, ..Self::of(0) }
    }

    /// Elements that nobody wrote.
    fn unwritten(meta: &ArrayMeta, elements: u64) -> Self {
        if meta.nullable && meta.fill.is_none() {
            return Self { null_count: elements, ..Self::of(0) };
        }
        Self { fill_count: elements, ..Self::of(0) }
    }

    /// Statistics of one row, as it was written.
    fn of_row(meta: &ArrayMeta, row: &ChunkRow, elements: u64) -> Self {
        match &row.kind {
            ChunkKind::Erased => Self::unwritten(meta, elements),
            ChunkKind::Constant(element) => {
                let Some(value) = value_of(meta, element) else {
                    return Self { null_count: elements, ..Self::of(0) };
                };
                match number(&meta.dtype, value) {
                    Some(Number::Float(value)) if value.is_nan() => {
                        Self { nan_count: elements, ..Self::of(0) }
                    }
                    Some(value) => Self { range: Some((value, value)), ..Self::of(elements) },
                    None => Self::unknown(),
                }
            }
            ChunkKind::Data => Self::stored(meta, row, elements).unwrap_or_else(Self::unknown),
        }
    }

    /// What a row stores, if it can be true.
    fn stored(meta: &ArrayMeta, row: &ChunkRow, elements: u64) -> Option<Self> {
        let stored = row.stats.as_ref()?;
        let (fill_count, nan_count) = (u64::from(stored.fill_count), u64::from(stored.nan_count));
        let null_count = u64::from(stored.null_count);
        let others = fill_count.checked_add(nan_count)?.checked_add(null_count)?;
        let value_count = elements.checked_sub(others)?;
        let range = match &stored.range {
            None => None,
            Some((least, greatest)) => {
                let read = |element: &Element| number(&meta.dtype, element.as_bytes());
                Some((read(least)?, read(greatest)?))
            }
        };
        (range.is_some() == (value_count > 0)).then_some(())?;
        Some(Self { range, fill_count, nan_count, null_count, value_count, exact: true })
    }

    /// Adds what is known of other elements.
    fn join(&mut self, other: &Self) {
        let unknown = |stats: &Self| !stats.exact && stats.range.is_none();
        let known = !unknown(self) && !unknown(other);
        self.exact &= other.exact;
        self.fill_count = self.fill_count.saturating_add(other.fill_count);
        self.nan_count = self.nan_count.saturating_add(other.nan_count);
        self.null_count = self.null_count.saturating_add(other.null_count);
        self.value_count = self.value_count.saturating_add(other.value_count);
        self.range = match (self.range, other.range) {
            _ if !known => None,
            (None, range) | (range, None) => range,
            (Some((a, b)), Some((c, d))) => {
                Some((if less(c, a) { c } else { a }, if less(b, d) { d } else { b }))
            }
        };
    }

    /// Whether an element can lie within bounds.
    fn can_match(&self, least: Number, greatest: Number, fill_matches: bool) -> bool {
        if !self.exact && self.range.is_none() {
            return true;
        }
        let fill = fill_matches && (self.fill_count > 0 || !self.exact);
        fill || self.range.is_some_and(|(low, high)| !less(high, least) && !less(greatest, low))
    }
}

/// A bound of the class of numbers that an array has, without losing anything.
fn bound(meta: &ArrayMeta, bound: Number) -> Result<Number> {
    /// Integers up to here are floats too.
    const EXACT: i128 = 1 << 53;
    let sample = meta.dtype.width().and_then(|width| number(&meta.dtype, &vec![0; width]));
    let converted = match (sample, bound) {
        (Some(Number::Int(_)), Number::Int(_)) => Some(bound),
        (Some(Number::Float(_)), Number::Float(value)) if !value.is_nan() => Some(bound),
        (Some(Number::Float(_)), Number::Int(value)) if value.abs() <= EXACT => {
            // Through text: the one conversion that cannot lose anything unnoticed.
            value.to_string().parse().ok().map(Number::Float)
        }
        _ => None,
    };
    converted.ok_or_else(|| {
        ArrayError::argument(format!(
            "{bound:?} cannot be compared with the `{}` elements of array `{}`",
            meta.dtype, meta.name
        ))
    })
}

impl Snapshot {
    /// Statistics of every chunk, row-major, without reading any element.
    ///
    /// Types without an order (text, byte strings, lists, complex numbers) have none.
    ///
    /// # Errors
    ///
    /// [`ArrayError::NotFound`], [`ArrayError::TooLarge`] for more than 2^24 chunks, and what
    /// reading the index finds.
    pub async fn chunk_stats(&self, name: &str) -> Result<Vec<ChunkStats>> {
        let inner = &self.inner;
        let meta = inner.catalogue.array(name)?;
        let grid = meta.grid()?;
        if grid.total() > MAX_CHUNKS {
            return Err(ArrayError::TooLarge {
                what: "number of chunks with statistics in one call",
                found: grid.total(),
                allowed: MAX_CHUNKS,
            });
        }
        let chunks: Vec<Vec<u64>> =
            (0..grid.total()).filter_map(|number| grid.coordinates(number)).collect();
        let located = inner.locate(0..inner.layers.len(), meta, &chunks, None).await?;
        let all = chunks.iter().zip(located).map(|(chunk, found)| {
            let (start, shape) = (grid.origin(chunk), grid.extents(chunk));
            let elements = product(&shape).unwrap_or(u64::MAX);
            let stats = found.map_or_else(
                || Stats::unwritten(meta, elements),
                |found| visible(meta, &found, &shape),
            );
            ChunkStats { start, shape, stats }
        });
        Ok(all.collect())
    }

    /// Statistics of an array, without reading any element.
    ///
    /// # Errors
    ///
    /// As [`Snapshot::chunk_stats`].
    pub async fn stats(&self, name: &str) -> Result<Stats> {
        let mut all = Stats::of(0);
        self.chunk_stats(name).await?.iter().for_each(|chunk| all.join(&chunk.stats));
        Ok(all)
    }

    /// Boxes outside of which no element lies between two bounds, both included: the chunks that
    /// are worth reading. NaN and null lie between no bounds.
    ///
    /// # Errors
    ///
    /// As [`Snapshot::chunk_stats`]; [`ArrayError::Argument`] for bounds that cannot be compared
    /// with the elements.
    pub async fn select(
        &self,
        name: &str,
        least: impl Into<Number>,
        greatest: impl Into<Number>,
    ) -> Result<Vec<(Vec<u64>, Vec<u64>)>> {
        let (least, greatest) = (least.into(), greatest.into());
        let meta = self.inner.catalogue.array(name)?;
        let (least, greatest) = (bound(meta, least)?, bound(meta, greatest)?);
        let zero = vec![0; meta.dtype.width().unwrap_or(1)];
        let fill = number(&meta.dtype, meta.fill.as_deref().unwrap_or(&zero));
        let is_nan = matches!(fill, Some(Number::Float(fill)) if fill.is_nan());
        // Null lies between no bounds either.
        let null = meta.nullable && meta.fill.is_none();
        let fill_matches = !is_nan
            && !null
            && fill.is_some_and(|fill| !less(fill, least) && !less(greatest, fill));
        let chunks = self.chunk_stats(name).await?;
        let matching =
            chunks.into_iter().filter(|chunk| chunk.stats.can_match(least, greatest, fill_matches));
        Ok(matching.map(|chunk| (chunk.start, chunk.shape)).collect())
    }
}

/// Chunks whose statistics are given at once.
const MAX_CHUNKS: u64 = 1 << 24;

/// Statistics of what is left of a chunk, the rest of its place being fill.
fn visible(meta: &ArrayMeta, found: &Found, shape: &[u64]) -> Stats {
    let written = product(&found.extents).unwrap_or(u64::MAX);
    let mut stats = Stats::of_row(meta, &found.row, written);
    if found.visible != found.extents {
        // Of what is all alike, what is left is too.
        let kinds = [stats.value_count, stats.nan_count, stats.fill_count, stats.null_count];
        let alike = kinds.iter().filter(|count| **count > 0).count() <= 1;
        stats.exact = stats.exact && stats.value_count == 0 && stats.nan_count == 0 && alike;
        let left = product(&found.visible).unwrap_or(0);
        stats.fill_count = stats.fill_count.min(left);
        stats.null_count = stats.null_count.min(left);
    }
    let here = product(&found.visible).unwrap_or(0);
    let place = product(shape).unwrap_or(u64::MAX);
    stats.join(&Stats::unwritten(meta, place.saturating_sub(here)));
    stats
}
