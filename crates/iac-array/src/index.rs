//! The index table of a layer: one row for each chunk, and the directory of its batches.

use std::sync::{Arc, OnceLock};

use arrow_array::builder::{BinaryBuilder, UInt8Builder, UInt32Builder, UInt64Builder};
use arrow_array::cast::AsArray;
use arrow_array::types::{UInt8Type, UInt32Type, UInt64Type};
use arrow_array::{Array, ArrayRef, BinaryArray, RecordBatch, UInt32Array};
use arrow_buffer::ScalarBuffer;
use arrow_schema::{DataType, Field, Schema};
use bytes::Bytes;
use iac_format::TableKind;
use iac_format::table::TableStream;

use crate::error::{ArrayError, Result, u64_len};
use crate::stats::{Element, StoredStats};
use crate::stream::END;

/// Rows of a batch, unless that makes more batches than a header has room for.
const BATCH_ROWS: usize = 32_768;
/// Batches that a layer's index may have.
pub(crate) const MAX_BATCHES: usize = 512;
/// Rows that a layer's index may have.
const MAX_ROWS: u64 = 1 << 30;

/// What stands behind a chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ChunkKind {
    /// Bytes of a block.
    Data,
    /// Nothing: it reads as fill.
    Erased,
    /// One element that all of the chunk's elements are.
    Constant(Vec<u8>),
}

/// A piece of the data segment that is compressed, summed and read as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub(crate) struct Block {
    /// Relative to the data segment.
    pub(crate) offset: u64,
    pub(crate) length: u32,
    pub(crate) crc32: u32,
    /// Bytes after decoding.
    pub(crate) raw_length: u32,
    pub(crate) codec: u8,
}

/// One row of the index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ChunkRow {
    pub(crate) array_id: u64,
    /// Row-major in the grid of the layer's catalogue row.
    pub(crate) chunk: u64,
    pub(crate) block: Block,
    pub(crate) in_offset: u32,
    pub(crate) in_length: u32,
    pub(crate) kind: ChunkKind,
    /// What is known of the elements, for chunks with bytes.
    pub(crate) stats: Option<StoredStats>,
}

/// Where a batch of the index lies, and which chunks it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BatchPlace {
    /// Relative to the index table.
    pub(crate) offset: u64,
    pub(crate) length: u64,
    pub(crate) rows: u64,
    /// Array id and chunk number of the first and last row.
    pub(crate) first: (u64, u64),
    pub(crate) last: (u64, u64),
    pub(crate) crc32: u32,
}

/// The columns; layers with the feature `validity` have one more.
fn schema(validity: bool) -> Schema {
    let mut fields = vec![
        Field::new("array_id", DataType::UInt64, false),
        Field::new("chunk", DataType::UInt64, false),
        Field::new("offset", DataType::UInt64, false),
        Field::new("length", DataType::UInt32, false),
        Field::new("crc32", DataType::UInt32, false),
        Field::new("raw_length", DataType::UInt32, false),
        Field::new("in_offset", DataType::UInt32, false),
        Field::new("in_length", DataType::UInt32, false),
        Field::new("codec", DataType::UInt8, false),
        Field::new("kind", DataType::UInt8, false),
        Field::new("const", DataType::Binary, true),
        Field::new("min", DataType::Binary, true),
        Field::new("max", DataType::Binary, true),
        Field::new("fill_count", DataType::UInt32, true),
        Field::new("nan_count", DataType::UInt32, true),
    ];
    fields.extend(validity.then(|| Field::new("null_count", DataType::UInt32, true)));
    Schema::new(fields)
}

/// An encoded index.
pub(crate) struct EncodedIndex {
    pub(crate) bytes: Vec<u8>,
    pub(crate) schema_bytes: u64,
    pub(crate) batches: Vec<BatchPlace>,
}

/// Encodes rows that are sorted by array and chunk.
pub(crate) fn encode(rows: &[ChunkRow], validity: bool) -> Result<EncodedIndex> {
    let found = u64_len(rows.len());
    if found > MAX_ROWS {
        return Err(ArrayError::TooLarge {
            what: "number of chunks in a layer",
            found,
            allowed: MAX_ROWS,
        });
    }
    let mut size = BATCH_ROWS;
    while rows.len().div_ceil(size) > MAX_BATCHES {
        size = size.saturating_mul(2);
    }
    encode_in(rows, size, validity)
}

fn encode_in(rows: &[ChunkRow], size: usize, validity: bool) -> Result<EncodedIndex> {
    let schema = Arc::new(schema(validity));
    let batches: Vec<RecordBatch> =
        rows.chunks(size.max(1)).map(|rows| batch(&schema, rows)).collect::<Result<_>>()?;
    let encoded = crate::stream::encode(&schema, &batches)?;
    let mut places = Vec::with_capacity(batches.len());
    for (rows, (start, end)) in rows.chunks(size.max(1)).zip(&encoded.batches) {
        let key = |row: Option<&ChunkRow>| row.map_or((0, 0), |row| (row.array_id, row.chunk));
        let span = usize::try_from(*start).ok().zip(usize::try_from(*end).ok());
        let bytes = span.and_then(|(start, end)| encoded.bytes.get(start..end));
        places.push(BatchPlace {
            offset: *start,
            length: end.saturating_sub(*start),
            rows: u64_len(rows.len()),
            first: key(rows.first()),
            last: key(rows.last()),
            crc32: crc32fast::hash(bytes.unwrap_or_default()),
        });
    }
    Ok(EncodedIndex { bytes: encoded.bytes, schema_bytes: encoded.schema_bytes, batches: places })
}

fn batch(schema: &Arc<Schema>, rows: &[ChunkRow]) -> Result<RecordBatch> {
    let mut long: [UInt64Builder; 3] = Default::default();
    let mut short: [UInt32Builder; 5] = Default::default();
    let mut tiny: [UInt8Builder; 2] = Default::default();
    let mut constants = BinaryBuilder::new();
    let (mut least, mut greatest) = (BinaryBuilder::new(), BinaryBuilder::new());
    let (mut fills, mut nans) = (UInt32Builder::new(), UInt32Builder::new());
    for row in rows {
        let block = &row.block;
        let kind = match &row.kind {
            ChunkKind::Data => 0,
            ChunkKind::Erased => 1,
            ChunkKind::Constant(_) => 2,
        };
        let longs = [row.array_id, row.chunk, block.offset];
        let shorts = [block.length, block.crc32, block.raw_length, row.in_offset, row.in_length];
        long.iter_mut().zip(longs).for_each(|(column, value)| column.append_value(value));
        short.iter_mut().zip(shorts).for_each(|(column, value)| column.append_value(value));
        tiny.iter_mut().zip([block.codec, kind]).for_each(|(column, v)| column.append_value(v));
        match &row.kind {
            ChunkKind::Constant(element) => constants.append_value(element),
            _ => constants.append_null(),
        }
        let stats = row.stats.as_ref();
        let range = stats.and_then(|stats| stats.range.as_ref());
        least.append_option(range.map(|range| range.0.as_bytes()));
        greatest.append_option(range.map(|range| range.1.as_bytes()));
        fills.append_option(stats.map(|stats| stats.fill_count));
        nans.append_option(stats.map(|stats| stats.nan_count));
    }
    let mut columns: Vec<ArrayRef> = Vec::new();
    columns.extend(long.iter_mut().map(|column| Arc::new(column.finish()) as ArrayRef));
    columns.extend(short.iter_mut().map(|column| Arc::new(column.finish()) as ArrayRef));
    columns.extend(tiny.iter_mut().map(|column| Arc::new(column.finish()) as ArrayRef));
    columns.push(Arc::new(constants.finish()));
    columns.push(Arc::new(least.finish()));
    columns.push(Arc::new(greatest.finish()));
    columns.push(Arc::new(fills.finish()));
    columns.push(Arc::new(nans.finish()));
    if schema.fields().len() > columns.len() {
        let nulls = rows.iter().map(|row| Some(row.stats.as_ref()?.null_count));
        columns.push(Arc::new(nulls.collect::<UInt32Array>()));
    }
    RecordBatch::try_new(Arc::clone(schema), columns)
        .map_err(|error| ArrayError::argument(format!("the index has no table: {error}")))
}

/// A decoded batch: columns as they come, of which rows are made when they are asked for.
#[derive(Debug)]
pub(crate) struct Batch {
    ids: ScalarBuffer<u64>,
    chunks: ScalarBuffer<u64>,
    offsets: ScalarBuffer<u64>,
    /// `length`, `crc32`, `raw_length`, `in_offset`, `in_length`.
    short: [ScalarBuffer<u32>; 5],
    codecs: ScalarBuffer<u8>,
    kinds: ScalarBuffer<u8>,
    constants: BinaryArray,
    least: BinaryArray,
    greatest: BinaryArray,
    fills: UInt32Array,
    nans: UInt32Array,
    nulls: Option<UInt32Array>,
}

/// The schema message that stands in front of all batches, made once for each of both forms.
fn head(validity: bool) -> Result<&'static [u8]> {
    static HEADS: [OnceLock<Vec<u8>>; 2] = [OnceLock::new(), OnceLock::new()];
    let [plain, nullable] = &HEADS;
    let head = if validity { nullable } else { plain };
    if let Some(head) = head.get() {
        return Ok(head);
    }
    let mut made = crate::stream::encode(&schema(validity), &[])?;
    made.bytes.truncate(usize::try_from(made.schema_bytes).unwrap_or(usize::MAX));
    Ok(head.get_or_init(|| made.bytes))
}

/// Decodes one batch from its bytes alone: the schema is that of the layout version.
pub(crate) fn decode_batch(
    object: &str,
    place: &BatchPlace,
    bytes: &[u8],
    data_length: u64,
    codecs: usize,
    validity: bool,
) -> Result<Batch> {
    let corrupt = |reason: String| ArrayError::corrupt(object, format!("index table: {reason}"));
    let found = crc32fast::hash(bytes);
    if found != place.crc32 {
        return Err(corrupt(format!(
            "checksum of the batch at byte {} is {found:08x} instead of {:08x}",
            place.offset, place.crc32
        )));
    }
    let head = head(validity)?;
    let room = head.len().saturating_add(bytes.len()).saturating_add(END.len());
    let mut stream = Vec::with_capacity(room);
    stream.extend_from_slice(head);
    stream.extend_from_slice(bytes);
    stream.extend_from_slice(&END);
    let table = TableStream::parse(Bytes::from(stream), TableKind::Index)
        .map_err(|error| corrupt(error.to_string()))?;
    if table.num_rows() != place.rows {
        return Err(corrupt(format!(
            "the batch at byte {} has {} rows instead of {}",
            place.offset,
            table.num_rows(),
            place.rows
        )));
    }
    let batches = table.decode().map_err(|error| corrupt(error.to_string()))?;
    let [batch] = batches.as_slice() else {
        return Err(corrupt(format!(
            "{} batches at byte {} instead of one",
            batches.len(),
            place.offset
        )));
    };
    let batch = Batch::of(batch).map_err(corrupt)?;
    batch.check(place, data_length, codecs).map_err(corrupt)?;
    Ok(batch)
}

impl Batch {
    fn of(batch: &RecordBatch) -> std::result::Result<Self, String> {
        let missing = |name: &str| format!("there is no column `{name}` of the right type");
        let column = |name: &str| batch.column_by_name(name).ok_or_else(|| missing(name));
        let long = |name: &str| {
            let column =
                column(name)?.as_primitive_opt::<UInt64Type>().ok_or_else(|| missing(name))?;
            (column.null_count() == 0).then(|| column.values().clone()).ok_or_else(|| missing(name))
        };
        let short = |name: &str| {
            let column =
                column(name)?.as_primitive_opt::<UInt32Type>().ok_or_else(|| missing(name))?;
            (column.null_count() == 0).then(|| column.values().clone()).ok_or_else(|| missing(name))
        };
        let tiny = |name: &str| {
            let column =
                column(name)?.as_primitive_opt::<UInt8Type>().ok_or_else(|| missing(name))?;
            (column.null_count() == 0).then(|| column.values().clone()).ok_or_else(|| missing(name))
        };
        let bytes =
            |name: &str| column(name)?.as_binary_opt::<i32>().cloned().ok_or_else(|| missing(name));
        let counts = |name: &str| {
            column(name)?.as_primitive_opt::<UInt32Type>().cloned().ok_or_else(|| missing(name))
        };
        Ok(Self {
            ids: long("array_id")?,
            chunks: long("chunk")?,
            offsets: long("offset")?,
            short: [
                short("length")?,
                short("crc32")?,
                short("raw_length")?,
                short("in_offset")?,
                short("in_length")?,
            ],
            codecs: tiny("codec")?,
            kinds: tiny("kind")?,
            constants: bytes("const")?,
            least: bytes("min")?,
            greatest: bytes("max")?,
            fills: counts("fill_count")?,
            nans: counts("nan_count")?,
            nulls: counts("null_count").ok(),
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.ids.len()
    }

    /// Bytes of memory, roughly.
    pub(crate) fn memory(&self) -> usize {
        let binary = [&self.constants, &self.least, &self.greatest];
        let binary = binary.map(|column| column.get_buffer_memory_size());
        let fixed = self.len().saturating_mul(54);
        binary.into_iter().fold(fixed, usize::saturating_add)
    }

    fn key(&self, row: usize) -> Option<(u64, u64)> {
        Some((*self.ids.get(row)?, *self.chunks.get(row)?))
    }

    fn block(&self, row: usize) -> Option<(Block, u32, u32)> {
        let short = |column: usize| Some(*self.short.get(column)?.get(row)?);
        let block = Block {
            offset: *self.offsets.get(row)?,
            length: short(0)?,
            crc32: short(1)?,
            raw_length: short(2)?,
            codec: *self.codecs.get(row)?,
        };
        Some((block, short(3)?, short(4)?))
    }

    /// A row by its number.
    pub(crate) fn row(&self, row: usize) -> Option<ChunkRow> {
        let (array_id, chunk) = self.key(row)?;
        let (block, in_offset, in_length) = self.block(row)?;
        let kind = match self.kinds.get(row)? {
            0 => ChunkKind::Data,
            1 => ChunkKind::Erased,
            _ => ChunkKind::Constant(self.constants.value(row).to_vec()),
        };
        let ranged = !self.least.is_null(row) && !self.greatest.is_null(row);
        let counted = !self.fills.is_null(row) && !self.nans.is_null(row);
        let element = |column: &BinaryArray| Element::new(column.value(row));
        let stats = counted.then(|| StoredStats {
            range: ranged.then(|| element(&self.least).zip(element(&self.greatest))).flatten(),
            fill_count: self.fills.value(row),
            nan_count: self.nans.value(row),
            null_count: self.nulls.as_ref().map_or(0, |nulls| nulls.value(row)),
        });
        Some(ChunkRow { array_id, chunk, block, in_offset, in_length, kind, stats })
    }

    /// The row of a chunk.
    pub(crate) fn find(&self, key: (u64, u64)) -> Option<ChunkRow> {
        self.row(self.position(key)?)
    }

    /// The number of the row of a chunk.
    pub(crate) fn position(&self, key: (u64, u64)) -> Option<usize> {
        let (mut from, mut end) = (0, self.len());
        while from < end {
            let middle = from.midpoint(end);
            match self.key(middle)?.cmp(&key) {
                std::cmp::Ordering::Less => from = middle.saturating_add(1),
                std::cmp::Ordering::Equal => return Some(middle),
                std::cmp::Ordering::Greater => end = middle,
            }
        }
        None
    }

    /// The block of a row and the place in it, if the row has bytes.
    pub(crate) fn data(&self, row: usize) -> Option<(Block, u32, u32)> {
        if *self.kinds.get(row)? == 0 { self.block(row) } else { None }
    }

    /// The numbers of the rows of an array.
    pub(crate) fn rows_of(&self, id: u64) -> std::ops::Range<usize> {
        let first = self.ids.partition_point(|found| *found < id);
        let end = self.ids.partition_point(|found| *found <= id);
        first..end
    }

    /// All rows.
    pub(crate) fn iter(&self) -> impl Iterator<Item = ChunkRow> {
        (0..self.len()).filter_map(|row| self.row(row))
    }

    fn check(
        &self,
        place: &BatchPlace,
        data_length: u64,
        codecs: usize,
    ) -> std::result::Result<(), String> {
        let last = self.len().checked_sub(1);
        if self.key(0) != Some(place.first)
            || last.and_then(|last| self.key(last)) != Some(place.last)
        {
            return Err(format!(
                "the batch at byte {} holds other chunks than it should",
                place.offset
            ));
        }
        let mut before = None;
        for row in 0..self.len() {
            let key = self.key(row);
            if before.is_some_and(|before| before >= key) {
                return Err(format!("the batch at byte {} is not sorted", place.offset));
            }
            before = Some(key);
            match self.kinds.get(row) {
                Some(0) => {}
                Some(1) => continue,
                Some(2) if !self.constants.is_null(row) => continue,
                _ => return Err(format!("row {row} has a kind that is not known")),
            }
            let (block, in_offset, in_length) = self.block(row).unwrap_or_default();
            let end = block.offset.checked_add(u64::from(block.length));
            let inner = in_offset.checked_add(in_length);
            if end.is_none_or(|end| end > data_length)
                || inner.is_none_or(|inner| inner > block.raw_length)
                || usize::from(block.codec) >= codecs
            {
                let (array_id, chunk) = key.unwrap_or_default();
                return Err(format!(
                    "array {array_id:016x}, chunk {chunk}: block at {} of {} bytes and codec {} is \
                     not in the layer",
                    block.offset, block.length, block.codec
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(count: u64) -> Vec<ChunkRow> {
        let row = |chunk: u64| ChunkRow {
            array_id: 7,
            chunk,
            block: Block {
                offset: chunk.saturating_mul(10),
                length: 10,
                crc32: 1,
                raw_length: 20,
                codec: 0,
            },
            in_offset: 4,
            in_length: 16,
            kind: match chunk % 3 {
                0 => ChunkKind::Data,
                1 => ChunkKind::Erased,
                _ => ChunkKind::Constant(vec![1, 2]),
            },
            stats: chunk.is_multiple_of(2).then(|| StoredStats {
                range: chunk
                    .is_multiple_of(4)
                    .then(|| Element::new(&[1]).zip(Element::new(&[2])))
                    .flatten(),
                fill_count: 3,
                nan_count: 4,
                null_count: 0,
            }),
        };
        (0..count).map(row).collect()
    }

    #[test]
    fn every_batch_is_decoded_alone() {
        let rows = rows(100);
        let index = encode_in(&rows, 16, false).unwrap();
        let mut back = Vec::new();
        for place in &index.batches {
            let start = usize::try_from(place.offset).unwrap();
            let end = start + usize::try_from(place.length).unwrap();
            let bytes = &index.bytes[start..end];
            back.extend(decode_batch("x", place, bytes, 1000, 1, false).unwrap().iter());
            assert!(decode_batch("x", place, bytes, 1000, 0, false).is_err());
            assert!(decode_batch("x", place, &bytes[1..], 1000, 1, false).is_err());
        }
        assert_eq!(back, rows);
        let place = index.batches.last().unwrap();
        let start = usize::try_from(place.offset).unwrap();
        let end = start + usize::try_from(place.length).unwrap();
        assert!(decode_batch("x", place, &index.bytes[start..end], 999, 1, false).is_err());
    }

    #[test]
    fn damage_behind_right_checksums_is_an_error_or_harmless() {
        let index = encode_in(&rows(40), 40, false).unwrap();
        let place = index.batches.first().unwrap();
        let start = usize::try_from(place.offset).unwrap();
        let end = start + usize::try_from(place.length).unwrap();
        let sound = &index.bytes[start..end];
        for at in 0..sound.len() {
            for change in [0x01, 0x80, 0xFF] {
                let mut bytes = sound.to_vec();
                bytes[at] ^= change;
                let place = BatchPlace { crc32: crc32fast::hash(&bytes), ..place.clone() };
                if let Ok(rows) = decode_batch("x", &place, &bytes, 1000, 1, false) {
                    assert_eq!(rows.len(), 40);
                }
            }
        }
    }
}
