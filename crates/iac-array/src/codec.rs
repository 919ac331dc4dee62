//! How blocks are packed: filters, then a codec of `iac-codec`.

use std::borrow::Cow;

use iac_codec::{
    Codec, CodecError, CodecErrorKind, CodecKind, CodecSpec, Limits, Registry, SampleType,
};
use serde_json::{Map, Value};

use crate::error::{ArrayError, Result, u64_len};
use crate::filter::Filter;
use crate::meta::ArrayMeta;
use crate::planes::{self, Planes};

/// How blocks are packed: a byte codec with the filters in front of it, and perhaps an image codec
/// for chunks that are images.
#[derive(Debug, Clone)]
pub struct Packing {
    codec: Codec,
    filters: Vec<Filter>,
    images: Option<Codec>,
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
        Ok(Self { codec, filters: Vec::new(), images: None })
    }

    /// Stores blocks as they are.
    #[must_use]
    pub fn none() -> Self {
        Self { codec: Codec::none(), filters: Vec::new(), images: None }
    }

    /// Packs with LZ4: fast.
    #[must_use]
    pub fn lz4() -> Self {
        Self { codec: iac_codec::lz4::codec(), filters: Vec::new(), images: None }
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
        self.filters = filters.iter().copied().take(MAX_FILTERS).collect();
        self
    }

    /// The same with an image codec for chunks that are planes of samples: `uint8`, `uint16`,
    /// `int16`, `float16` or `float32` elements, or `fixed_list<T,3>` of them as colours. The last
    /// two axes are rows and columns.
    ///
    /// Arrays stay exact: a chunk that the codec cannot hold, or does not give back bit by bit, is
    /// packed as bytes.
    ///
    /// # Errors
    ///
    /// [`ArrayError::Argument`] for a codec of bytes, [`ArrayError::Codec`] for one that only
    /// decodes.
    pub fn with_images(mut self, codec: Codec) -> Result<Self> {
        if codec.as_image_codec().is_none() {
            return Err(ArrayError::argument(format!(
                "`{}` packs bytes, not images",
                codec.name()
            )));
        }
        codec.check_encode()?;
        self.images = Some(codec);
        Ok(self)
    }

    /// The text that names this packing in a catalogue.
    pub(crate) fn to_text(&self) -> String {
        let entry = |codec: &Codec| {
            let spec = codec.spec();
            let mut entry = Map::new();
            entry.insert("name".to_owned(), Value::from(spec.name()));
            if let Some(params) = spec.params_member() {
                entry.insert("params".to_owned(), params);
            }
            entry
        };
        let mut members = entry(&self.codec);
        let filters = self.filters.iter().map(|filter| Value::from(filter.name()));
        members.insert("filters".to_owned(), filters.collect());
        if let Some(images) = &self.images {
            members.insert("images".to_owned(), Value::Object(entry(images)));
        }
        Value::Object(members).to_string()
    }

    /// The packing of a text; none when this build or registry cannot encode with it.
    pub(crate) fn from_text(text: &str, registry: &Registry) -> Option<Self> {
        let value: Value = serde_json::from_str(text).ok()?;
        let codec = |entry: &Value| {
            let spec = CodecSpec::from_members(entry.get("name"), entry.get("params")).ok()?;
            registry.create(&spec).ok()
        };
        let mut packing = Self::new(codec(&value)?).ok()?;
        for filter in value.get("filters")?.as_array()?.iter().take(MAX_FILTERS) {
            let name = filter.as_str()?;
            packing.filters.push(Filter::ALL.into_iter().find(|known| known.name() == name)?);
        }
        match value.get("images") {
            Some(entry) => packing.with_images(codec(entry)?).ok(),
            None => Some(packing),
        }
    }

    /// How a chunk is images, where this packing can encode them.
    pub(crate) fn planes(&self, meta: &ArrayMeta, extents: &[u64]) -> Option<Planes> {
        let able = self.images.as_ref()?.image_capabilities().ok()?;
        // Chunks with nulls have bits in front of the samples.
        let planes = Planes::of(meta, extents).filter(|_| !meta.nullable)?;
        // Signed samples go into the streams as unsigned ones.
        let sample = match planes.sample {
            SampleType::I16 => SampleType::U16,
            other => other,
        };
        able.encodes(sample, planes.channels).then_some(planes)
    }

    /// What a layer's header says of blocks of images.
    pub(crate) fn for_images(&self) -> Option<BlockCodec> {
        let codec = self.images.clone()?;
        Some(BlockCodec { spec: codec.spec(), codec: Some(codec), filters: Vec::new() })
    }

    /// What a layer's header says of blocks whose numbers have so many bytes.
    pub(crate) fn for_lane(&self, lane: usize) -> BlockCodec {
        let lane = u8::try_from(lane).unwrap_or(1).max(1);
        let filters = self.filters.iter().map(|filter| (*filter, lane)).collect();
        BlockCodec { spec: self.codec.spec(), codec: Some(self.codec.clone()), filters }
    }
}

/// Filters that a codec may have in front of it. Each goes over all bytes of a block, so that a header
/// full of them would take minutes for one.
const MAX_FILTERS: usize = 8;

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
        let listed = listed.map(Vec::as_slice).unwrap_or_default();
        if listed.len() > MAX_FILTERS {
            return Err(format!("{} filters, above the {MAX_FILTERS} allowed", listed.len()));
        }
        for filter in listed {
            let name = filter.get("name").and_then(Value::as_str).unwrap_or_default();
            let known = Filter::ALL.into_iter().find(|known| known.name() == name);
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
            filtered = Cow::Owned(filter.apply(usize::from(*lane), &filtered));
        }
        let stored = codec.encode_bytes(&filtered)?;
        Ok((stored.len() < raw.len()).then_some(stored))
    }

    /// The stored planes of a chunk that is images, if they are fewer bytes than the raw ones.
    pub(crate) fn encode_planes(&self, planes: Planes, raw: &[u8]) -> Result<Option<Vec<u8>>> {
        planes::encode(self.codec()?, planes, raw)
    }

    /// The raw bytes, which must be so many.
    pub(crate) fn decode(&self, object: &str, stored: &[u8], raw_length: u32) -> Result<Vec<u8>> {
        let codec = self.codec()?;
        let raw = u64::from(raw_length);
        let failed = |error: String| {
            ArrayError::corrupt(object, format!("a block cannot be decoded: {error}"))
        };
        let mut bytes = if codec.kind() == CodecKind::Image {
            planes::decode(codec, stored, raw).map_err(failed)?
        } else {
            let limits = Limits::default().with_max_decoded_bytes(raw);
            codec.decode_bytes(stored, &limits).map_err(|error| failed(error.to_string()))?
        };
        if u64_len(bytes.len()) != raw {
            return Err(ArrayError::corrupt(
                object,
                format!("a block decodes to {} bytes instead of {raw}", bytes.len()),
            ));
        }
        for (filter, lane) in self.filters.iter().rev() {
            bytes = filter.undo(usize::from(*lane), &bytes);
        }
        Ok(bytes)
    }

    /// The same into memory that is there, whatever is in it.
    pub(crate) fn decode_into(
        &self,
        object: &str,
        stored: &[u8],
        raw_length: u32,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let codec = self.codec()?;
        if codec.kind() == CodecKind::Image || !self.filters.is_empty() {
            *out = self.decode(object, stored, raw_length)?;
            return Ok(());
        }
        out.clear();
        let limits = Limits::default().with_max_decoded_bytes(u64::from(raw_length));
        let decoded = codec.decode_bytes_append(stored, out, &limits);
        decoded.map_err(|error| {
            ArrayError::corrupt(object, format!("a block cannot be decoded: {error}"))
        })?;
        if u64_len(out.len()) != u64::from(raw_length) {
            let found = out.len();
            return Err(ArrayError::corrupt(
                object,
                format!("a block decodes to {found} bytes instead of {raw_length}"),
            ));
        }
        Ok(())
    }

    fn codec(&self) -> Result<&Codec> {
        let name = || ArrayError::UnknownCodec { name: self.spec.name().to_owned() };
        self.codec.as_ref().ok_or_else(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
