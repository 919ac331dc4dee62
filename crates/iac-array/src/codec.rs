//! How blocks are packed: filters, then a codec of `iac-codec`.

use std::borrow::Cow;

use iac_codec::{Codec, CodecError, CodecErrorKind, CodecSpec, Limits, Registry};
use serde_json::{Map, Value};

use crate::error::{ArrayError, Result, u64_len};

/// A step before compression that makes numbers easier to compress.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Filter {
    /// All first bytes of the numbers, then all second bytes, and so on.
    Shuffle,
    /// Every byte less the byte of the number before it, number by number.
    Delta,
}

impl Filter {
    const fn name(self) -> &'static str {
        match self {
            Self::Shuffle => "shuffle",
            Self::Delta => "delta",
        }
    }
}

/// How a store packs its blocks: a byte codec and the filters in front of it.
#[derive(Debug, Clone)]
pub struct Packing {
    codec: Codec,
    filters: Vec<Filter>,
}

impl Packing {
    /// Packs with a byte codec, without filters.
    ///
    /// # Errors
    ///
    /// [`ArrayError::Argument`] for a codec of images, [`ArrayError::Codec`] for one that only
    /// decodes.
    pub fn new(codec: Codec) -> Result<Self> {
        if codec.as_byte_codec().is_none() {
            return Err(ArrayError::argument(format!(
                "`{}` packs images, not bytes",
                codec.name()
            )));
        }
        codec.check_encode()?;
        Ok(Self { codec, filters: Vec::new() })
    }

    /// Stores blocks as they are.
    #[must_use]
    pub fn none() -> Self {
        Self { codec: Codec::none(), filters: Vec::new() }
    }

    /// Packs with LZ4: fast.
    #[must_use]
    pub fn lz4() -> Self {
        Self { codec: iac_codec::lz4::codec(), filters: Vec::new() }
    }

    /// Packs with Zstandard of a level.
    ///
    /// # Errors
    ///
    /// [`ArrayError::Codec`] when the codec cannot be made; a level past the library's is clamped.
    pub fn zstd(level: i32) -> Result<Self> {
        Self::new(iac_codec::zstd::ZstdOptions::new(level).codec()?)
    }

    /// The same with filters, which run in this order.
    #[must_use]
    pub fn with_filters(mut self, filters: &[Filter]) -> Self {
        self.filters = filters.to_vec();
        self
    }

    /// What a layer's header says of blocks whose numbers have so many bytes.
    pub(crate) fn for_lane(&self, lane: usize) -> BlockCodec {
        let lane = u8::try_from(lane).unwrap_or(1).max(1);
        let filters = self.filters.iter().map(|filter| (*filter, lane)).collect();
        BlockCodec { spec: self.codec.spec(), codec: Some(self.codec.clone()), filters }
    }
}

/// One entry of a layer's list of codecs.
#[derive(Debug, Clone)]
pub(crate) struct BlockCodec {
    spec: CodecSpec,
    /// Absent when the reader's registry has none of this name.
    codec: Option<Codec>,
    filters: Vec<(Filter, u8)>,
}

impl PartialEq for BlockCodec {
    fn eq(&self, other: &Self) -> bool {
        self.filters == other.filters && self.spec == other.spec
    }
}

impl BlockCodec {
    /// Blocks as they are.
    pub(crate) fn none() -> Self {
        Packing::none().for_lane(1)
    }

    /// Whether stored and raw bytes are the same.
    pub(crate) fn is_none(&self) -> bool {
        self.filters.is_empty() && self.codec.as_ref().is_some_and(Codec::is_identity)
    }

    pub(crate) fn to_json(&self) -> Value {
        let mut entry = Map::new();
        entry.insert("name".to_owned(), Value::from(self.spec.name()));
        if let Some(params) = self.spec.params_member() {
            entry.insert("params".to_owned(), params);
        }
        let filters = self.filters.iter().map(|(filter, lane)| {
            let mut entry = Map::new();
            entry.insert("name".to_owned(), Value::from(filter.name()));
            entry.insert("size".to_owned(), Value::from(*lane));
            Value::Object(entry)
        });
        entry.insert("filters".to_owned(), filters.collect());
        Value::Object(entry)
    }

    /// Reads an entry; a filter that is not known cannot be undone, so it is refused.
    pub(crate) fn from_json(
        value: &Value,
        registry: &Registry,
    ) -> std::result::Result<Self, String> {
        let spec = CodecSpec::from_members(value.get("name"), value.get("params"))
            .map_err(|error| error.to_string())?;
        let mut filters = Vec::new();
        let listed = value.get("filters").and_then(Value::as_array);
        for filter in listed.map(Vec::as_slice).unwrap_or_default() {
            let name = filter.get("name").and_then(Value::as_str).unwrap_or_default();
            let known = [Filter::Shuffle, Filter::Delta].into_iter().find(|f| f.name() == name);
            let size = filter.get("size").and_then(Value::as_u64);
            let lane = size.and_then(|size| u8::try_from(size).ok()).filter(|lane| *lane > 0);
            let (Some(filter), Some(lane)) = (known, lane) else {
                return Err(format!("filter {filter} is not known"));
            };
            filters.push((filter, lane));
        }
        let codec = match registry.create(&spec) {
            Ok(codec) => Some(codec),
            Err(error)
                if matches!(error, CodecError::Unknown { .. })
                    || error.kind() == CodecErrorKind::MissingFeature =>
            {
                None
            }
            Err(error) => return Err(error.to_string()),
        };
        Ok(Self { spec, codec, filters })
    }

    /// The stored bytes, if they are fewer than the raw ones.
    pub(crate) fn encode(&self, raw: &[u8]) -> Result<Option<Vec<u8>>> {
        let codec = self.codec()?;
        if codec.is_identity() || raw.is_empty() {
            return Ok(None);
        }
        let mut filtered = Cow::Borrowed(raw);
        for (filter, lane) in &self.filters {
            filtered = Cow::Owned(apply(*filter, usize::from(*lane), &filtered));
        }
        let stored = codec.encode_bytes(&filtered)?;
        Ok((stored.len() < raw.len()).then_some(stored))
    }

    /// The raw bytes, which must be so many.
    pub(crate) fn decode(&self, object: &str, stored: &[u8], raw_length: u32) -> Result<Vec<u8>> {
        let codec = self.codec()?;
        let raw = u64::from(raw_length);
        let limits = Limits::default().with_max_decoded_bytes(raw);
        let mut bytes = codec.decode_bytes(stored, &limits).map_err(|error| {
            ArrayError::corrupt(object, format!("a block cannot be decoded: {error}"))
        })?;
        if u64_len(bytes.len()) != raw {
            return Err(ArrayError::corrupt(
                object,
                format!("a block decodes to {} bytes instead of {raw}", bytes.len()),
            ));
        }
        for (filter, lane) in self.filters.iter().rev() {
            bytes = undo(*filter, usize::from(*lane), &bytes);
        }
        Ok(bytes)
    }

    fn codec(&self) -> Result<&Codec> {
        let name = || ArrayError::UnknownCodec { name: self.spec.name().to_owned() };
        self.codec.as_ref().ok_or_else(name)
    }
}

fn apply(filter: Filter, lane: usize, bytes: &[u8]) -> Vec<u8> {
    match filter {
        Filter::Shuffle => {
            let whole = bytes.chunks_exact(lane);
            let rest = whole.remainder();
            let mut out = Vec::with_capacity(bytes.len());
            for place in 0..lane {
                out.extend(whole.clone().filter_map(|number| number.get(place)));
            }
            out.extend_from_slice(rest);
            out
        }
        Filter::Delta => {
            let before = std::iter::repeat_n(&0, lane).chain(bytes);
            bytes.iter().zip(before).map(|(byte, before)| byte.wrapping_sub(*before)).collect()
        }
    }
}

fn undo(filter: Filter, lane: usize, bytes: &[u8]) -> Vec<u8> {
    match filter {
        Filter::Shuffle => {
            let numbers = bytes.len().checked_div(lane).unwrap_or(0);
            let mut out = vec![0; bytes.len()];
            for (place, plane) in bytes.chunks_exact(numbers.max(1)).take(lane).enumerate() {
                let slots = out.iter_mut().skip(place).step_by(lane.max(1));
                slots.zip(plane).for_each(|(slot, byte)| *slot = *byte);
            }
            let tail = numbers.saturating_mul(lane);
            if let (Some(slot), Some(rest)) = (out.get_mut(tail..), bytes.get(tail..)) {
                slot.copy_from_slice(rest);
            }
            out
        }
        Filter::Delta => {
            let mut out: Vec<u8> = Vec::with_capacity(bytes.len());
            for (at, byte) in bytes.iter().enumerate() {
                let before = at.checked_sub(lane).and_then(|at| out.get(at)).copied().unwrap_or(0);
                out.push(byte.wrapping_add(before));
            }
            out
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_undone_whatever_the_length() {
        for lane in [1, 2, 4, 8, 16] {
            for length in 0..70_u8 {
                let bytes: Vec<u8> = (0..length).map(|i| i.wrapping_mul(37)).collect();
                for filter in [Filter::Shuffle, Filter::Delta] {
                    let there = apply(filter, lane, &bytes);
                    assert_eq!(undo(filter, lane, &there), bytes, "{filter:?} {lane} {length}");
                }
            }
        }
    }

    #[test]
    fn blocks_that_do_not_shrink_are_left_alone() {
        let codec = Packing::lz4().for_lane(1);
        assert_eq!(codec.encode(&[1, 2, 3]).unwrap(), None);
        let stored = codec.encode(&[7; 1000]).unwrap().unwrap();
        assert_eq!(codec.decode("x", &stored, 1000).unwrap(), [7; 1000]);
        assert!(codec.decode("x", &stored, 999).is_err());
        assert!(codec.decode("x", &stored, 1001).is_err());
    }
}
