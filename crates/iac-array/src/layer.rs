//! Layer files: built from rows and blocks, opened from their first bytes.

use bytes::Bytes;
use iac_codec::Registry;
use iac_format::{
    Checksums, EXTENSIONS_MEMBER, Header, HeaderFacts, Layout, MAX_HEADER_TEXT, build_header_text,
    header_block,
};
use serde_json::{Map, Value};

use crate::catalogue::{self, CatalogueRow, Rows};
use crate::codec::BlockCodec;
use crate::error::{ArrayError, Result, u64_len};
use crate::index::{self, BatchPlace, ChunkRow, MAX_BATCHES};
use crate::spool::Piece;

/// Bytes of a batch of the index: no writer makes one that takes more memory than this.
const MAX_BATCH_BYTES: u64 = iac_format::table::MAX_EXPANDED_BYTES;
/// `payload_type` of a layer.
pub(crate) const PAYLOAD_TYPE: &str = "nd_array";
/// Version of the layout that this crate reads and writes.
pub(crate) const LAYOUT_VERSION: u64 = 1;
/// The feature of layers with arrays whose elements can be null.
pub(crate) const VALIDITY: &str = "validity";
/// What a layer lists under `extensions`: other readers get its payloads as they are stored.
pub(crate) const EXTENSION: &str = "iac.nd_array";

/// Name of a layer: random, so never used twice.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct LayerId(pub(crate) [u8; 16]);

impl LayerId {
    pub(crate) fn random() -> Result<Self> {
        let mut bytes = [0; 16];
        random(&mut bytes)?;
        Ok(Self(bytes))
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        let sound =
            text.len() == 32 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let number = sound.then(|| u128::from_str_radix(text, 16).ok()).flatten()?;
        Some(Self(number.to_be_bytes()))
    }
}

impl std::fmt::Display for LayerId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl std::fmt::Debug for LayerId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self}")
    }
}

/// Random bytes of the operating system.
#[cfg(not(feature = "fixed-ids"))]
pub(crate) fn random(bytes: &mut [u8]) -> Result<()> {
    getrandom::fill(bytes)
        .map_err(|error| ArrayError::System { what: "random numbers", reason: error.to_string() })
}

/// Bytes that differ from call to call and are the same in each run, which is what fuzzing needs.
#[cfg(feature = "fixed-ids")]
#[allow(clippy::unnecessary_wraps)]
pub(crate) fn random(bytes: &mut [u8]) -> Result<()> {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(1);
    for part in bytes.chunks_mut(8) {
        let number = NEXT.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed);
        part.iter_mut().zip(number.to_le_bytes()).for_each(|(slot, byte)| *slot = byte);
    }
    Ok(())
}

/// What a layer is made of.
pub(crate) struct LayerParts<'a> {
    pub(crate) id: LayerId,
    /// Whether it needs nothing below it.
    pub(crate) base: bool,
    pub(crate) catalogue: &'a [CatalogueRow],
    /// Sorted by array and chunk.
    pub(crate) index: &'a [ChunkRow],
    pub(crate) codecs: &'a [BlockCodec],
    /// Blocks in the order of the data segment.
    pub(crate) data: Vec<Piece>,
}

/// The pieces of a layer file and what a manifest says of it.
pub(crate) struct BuiltLayer {
    pub(crate) pieces: Vec<Piece>,
    pub(crate) bytes: u64,
    /// Bytes of header and slide table, which are fetched together.
    pub(crate) head_bytes: u64,
    pub(crate) header_sum: u32,
}

/// Lays a layer out.
pub(crate) fn build(parts: LayerParts<'_>) -> Result<BuiltLayer> {
    let slides = catalogue::encode(parts.catalogue)?;
    let validity = catalogue::has_nullable(parts.catalogue);
    let index = index::encode(parts.index, validity)?;
    let data_length = parts.data.iter().fold(0_u64, |all, piece| all.saturating_add(piece.len()));
    let slide_bytes = u64_len(slides.len());
    let index_offset = iac_format::HEADER_BYTES.saturating_add(slide_bytes);
    let padding = Layout::padding(index_offset, u64_len(index.bytes.len()), 64)?;
    let mut index_bytes = index.bytes;
    index_bytes.resize(index_bytes.len().saturating_add(usize::try_from(padding).unwrap_or(0)), 0);
    let layout = Layout::new(slide_bytes, u64_len(index_bytes.len()), data_length)?;
    let mut own = Map::new();
    own.insert("version".to_owned(), Value::from(LAYOUT_VERSION));
    own.insert("min_reader".to_owned(), Value::from(LAYOUT_VERSION));
    let features = validity.then(|| Value::from(VALIDITY)).into_iter().collect();
    own.insert("features".to_owned(), features);
    own.insert("layer_id".to_owned(), Value::from(parts.id.to_string()));
    own.insert("kind".to_owned(), Value::from(if parts.base { "base" } else { "delta" }));
    own.insert("codecs".to_owned(), parts.codecs.iter().map(BlockCodec::to_json).collect());
    own.insert("schema_bytes".to_owned(), Value::from(index.schema_bytes));
    own.insert(
        "batches".to_owned(),
        index
            .batches
            .iter()
            .map(|place| {
                let (first, last) = (place.first, place.last);
                Value::from(vec![
                    place.offset,
                    place.length,
                    place.rows,
                    first.0,
                    first.1,
                    last.0,
                    last.1,
                ])
            })
            .collect(),
    );
    own.insert(
        "batches_crc32".to_owned(),
        index.batches.iter().map(|place| Value::from(place.crc32)).collect(),
    );
    own.insert("writer".to_owned(), Value::from(concat!("iac-array ", env!("CARGO_PKG_VERSION"))));
    let mut members = Map::new();
    members.insert("payload_type".to_owned(), Value::from(PAYLOAD_TYPE));
    members.insert("codec".to_owned(), Value::from("none"));
    members.insert("nd_array".to_owned(), Value::Object(own));
    let extension = Value::Array(vec![Value::from(EXTENSION)]);
    members.insert(EXTENSIONS_MEMBER.to_owned(), extension);
    let sums = Checksums::of_tables(crc32fast::hash(&slides), crc32fast::hash(&index_bytes));
    let facts = HeaderFacts {
        layout,
        num_slides: u64_len(parts.catalogue.len()),
        num_records: u64_len(parts.index.len()),
        checksums: Some(sums),
    };
    let text = build_header_text(&members, &facts)?;
    let header = header_block(&text)?;
    let header_sum = crc32fast::hash(&header);
    let front = [header, slides, index_bytes];
    let front = front.into_iter().map(|bytes| Piece::from(Bytes::from(bytes)));
    let pieces = front.chain(parts.data).collect();
    Ok(BuiltLayer {
        pieces,
        bytes: layout.end(),
        head_bytes: layout.index_table.offset,
        header_sum,
    })
}

/// An open layer: its catalogue and the directory of its index.
#[derive(Debug)]
pub(crate) struct Layer {
    pub(crate) id: LayerId,
    /// How the object is called in errors.
    pub(crate) object: String,
    pub(crate) layout: Layout,
    pub(crate) checksums: Checksums,
    pub(crate) codecs: Vec<BlockCodec>,
    pub(crate) batches: Vec<BatchPlace>,
    pub(crate) rows: Rows,
    /// Whether it has the feature `validity`.
    pub(crate) validity: bool,
}

/// Opens a layer from its header and slide table.
pub(crate) fn open(
    object: &str,
    head: &Bytes,
    file_bytes: u64,
    registry: &Registry,
) -> Result<Layer> {
    let corrupt = |reason: String| ArrayError::corrupt(object, reason);
    let header_bytes = usize::try_from(iac_format::HEADER_BYTES).unwrap_or(usize::MAX);
    let block = head.get(..header_bytes).unwrap_or(head);
    let header = Header::parse(block, file_bytes).map_err(|error| corrupt(error.to_string()))?;
    let tail = usize::try_from(MAX_HEADER_TEXT)
        .ok()
        .and_then(|_| block.get(header.text().len().saturating_add(16)..));
    if tail.is_some_and(|tail| tail.iter().any(|byte| *byte != 0)) {
        return Err(corrupt("bytes behind the header's text are not zero".to_owned()));
    }
    if header.payload_type() != Some(PAYLOAD_TYPE) {
        return Err(corrupt(format!("`payload_type` is not `{PAYLOAD_TYPE}`")));
    }
    let checksums =
        header.checksums().ok_or_else(|| corrupt("there are no checksums".to_owned()))?;
    let own = header.get("nd_array").ok_or_else(|| corrupt("there is no `nd_array`".to_owned()))?;
    let number = |name: &str| own.get(name).and_then(Value::as_u64);
    let least =
        number("min_reader").ok_or_else(|| corrupt("there is no `min_reader`".to_owned()))?;
    if least > LAYOUT_VERSION {
        return Err(ArrayError::Unsupported {
            object: object.to_owned(),
            reason: format!("layout version {least}"),
        });
    }
    let validity = check_features(object, own.get("features"))?;
    let id = own.get("layer_id").and_then(Value::as_str).and_then(LayerId::parse);
    let id = id.ok_or_else(|| corrupt("`layer_id` is not 32 hexadecimal digits".to_owned()))?;
    let mut codecs = Vec::new();
    for entry in list(own, "codecs").map_err(corrupt)? {
        codecs.push(BlockCodec::from_json(entry, registry).map_err(corrupt)?);
    }
    let layout = header.layout();
    let batches = batches(own, layout).map_err(corrupt)?;
    let found = batches.iter().fold(0_u64, |all, place| all.saturating_add(place.rows));
    let records = header.num_records().map_err(|error| corrupt(error.to_string()))?;
    if found != records {
        return Err(corrupt(format!("batches of {found} rows for an index of {records}")));
    }
    let span = usize::try_from(layout.slide_table.length)
        .ok()
        .and_then(|length| header_bytes.checked_add(length));
    let slides = span.filter(|end| *end <= head.len()).map(|end| head.slice(header_bytes..end));
    let slides = slides.ok_or_else(|| {
        corrupt(format!("the slide table is cut: {} bytes of header and table", head.len()))
    })?;
    let sum = crc32fast::hash(&slides);
    if sum != checksums.slide_table {
        return Err(corrupt(format!(
            "checksum of the slide table is {sum:08x} instead of {:08x}",
            checksums.slide_table
        )));
    }
    let rows = catalogue::decode(object, slides)?;
    if !validity && catalogue::has_nullable(&rows) {
        return Err(corrupt(format!("there is a nullable array without the feature `{VALIDITY}`")));
    }
    if header.num_slides().ok() != Some(u64_len(rows.len())) {
        return Err(corrupt(format!(
            "the slide table has {} rows, the header says another number",
            rows.len()
        )));
    }
    let rows = Rows::new(rows).map_err(|id| corrupt(format!("array {id:016x} has two rows")))?;
    let object = object.to_owned();
    Ok(Layer { id, object, layout, checksums, codecs, batches, rows, validity })
}

/// Refuses what a newer writer declares as needed for reading; whether `validity` is.
fn check_features(object: &str, features: Option<&Value>) -> Result<bool> {
    let unknown = |feature: &&Value| feature.as_str() != Some(VALIDITY);
    let unknown = match features {
        None => return Ok(false),
        Some(Value::Array(features)) => match features.iter().find(unknown) {
            None => return Ok(!features.is_empty()),
            Some(unknown) => unknown,
        },
        Some(other) => other,
    };
    Err(ArrayError::Unsupported { object: object.to_owned(), reason: format!("feature {unknown}") })
}

fn list<'a>(own: &'a Value, name: &str) -> std::result::Result<&'a [Value], String> {
    let list = own.get(name).and_then(Value::as_array).map(Vec::as_slice);
    list.ok_or_else(|| format!("`{name}` is no list"))
}

fn batches(own: &Value, layout: Layout) -> std::result::Result<Vec<BatchPlace>, String> {
    let (entries, sums) = (list(own, "batches")?, list(own, "batches_crc32")?);
    if entries.len() != sums.len() || entries.len() > MAX_BATCHES {
        return Err(format!("{} batches and {} checksums", entries.len(), sums.len()));
    }
    let mut batches: Vec<BatchPlace> = Vec::with_capacity(entries.len());
    for (number, (entry, sum)) in entries.iter().zip(sums).enumerate() {
        let wrong = || format!("entry {number} of `batches` is {entry}");
        let numbers: Option<Vec<u64>> =
            entry.as_array().and_then(|entry| entry.iter().map(Value::as_u64).collect());
        let numbers: [u64; 7] =
            numbers.and_then(|numbers| numbers.try_into().ok()).ok_or_else(wrong)?;
        let [offset, length, rows, first_id, first_chunk, last_id, last_chunk] = numbers;
        let end = offset.checked_add(length).ok_or_else(wrong)?;
        let (first, last) = ((first_id, first_chunk), (last_id, last_chunk));
        let follows = batches.last().is_none_or(|before| before.last < first);
        // A row takes 45 bytes; compression that packs a thousand of them into a byte is a lie.
        let plausible =
            rows > 0 && rows <= length.saturating_mul(4096) && length <= MAX_BATCH_BYTES;
        if end > layout.index_table.length || first > last || !follows || !plausible {
            return Err(wrong());
        }
        let crc32 = sum.as_u64().and_then(|sum| u32::try_from(sum).ok()).ok_or_else(wrong)?;
        batches.push(BatchPlace { offset, length, rows, first, last, crc32 });
    }
    Ok(batches)
}

impl Layer {
    /// The number of the batch that may hold a chunk.
    pub(crate) fn batch_of(&self, key: (u64, u64)) -> Option<usize> {
        let at = self.batches.partition_point(|place| place.last < key);
        self.batches.get(at).filter(|place| place.first <= key).map(|_| at)
    }

    /// The batches that may hold chunks of an array.
    pub(crate) fn batches_of(&self, id: u64) -> std::ops::Range<usize> {
        let first = self.batches.partition_point(|place| place.last.0 < id);
        let end = self.batches.partition_point(|place| place.first.0 <= id);
        first..end.max(first)
    }
}
