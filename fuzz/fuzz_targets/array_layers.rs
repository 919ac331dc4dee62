//! Layers of arrays put together from parts: any rows of catalogue and index, under checksums that are
//! right. They are refused, or give arrays that read back from the single file that is made of them.
//!
//! An input is what `arbitrary` makes a [`Layer`] of: changes to a sound layer.
#![no_main]

use std::sync::{Arc, LazyLock};

use arrow_array::builder::{
    BinaryBuilder, ListBuilder, StringBuilder, UInt8Builder, UInt32Builder, UInt64Builder,
};
use arrow_array::cast::AsArray;
use arrow_array::types::{UInt8Type, UInt32Type, UInt64Type};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, SchemaRef};
use iac_format::table::encode_table;
use iac_fuzz::pack_input::{FILL_IN, Parts, SUMS};
use iac_fuzz::{Limited, assemble, seeds, stores};
use libfuzzer_sys::arbitrary::{self, Arbitrary, Unstructured};
use libfuzzer_sys::fuzz_target;
use serde_json::{Map, Value, json};

#[global_allocator]
static ALLOCATOR: Limited = Limited;

/// Columns of the index with 64, 32 and 8 bits.
const LONG: [&str; 3] = ["array_id", "chunk", "offset"];
const SHORT: [&str; 7] =
    ["length", "crc32", "raw_length", "in_offset", "in_length", "fill_count", "nan_count"];
const TINY: [&str; 2] = ["codec", "kind"];
const BINARY: [&str; 3] = ["const", "min", "max"];

/// What is changed of a sound layer.
#[derive(Debug, Arbitrary)]
struct Layer {
    /// Whether it needs nothing below it.
    base: bool,
    sorted: bool,
    block_sums: bool,
    split: Option<u8>,
    codecs: Option<Vec<BlockCodec>>,
    changes: Vec<Change>,
}

#[derive(Debug, Clone, Arbitrary)]
enum BlockCodec {
    None,
    Lz4,
    Zstd,
    Shuffled(Filter, Option<u8>),
    Text(String),
}

#[derive(Debug, Clone, Copy, Arbitrary)]
enum Filter {
    Shuffle,
    Bitshuffle,
    Delta,
}

#[derive(Debug, Clone, Arbitrary)]
enum Change {
    Long(u8, u8, Number),
    Short(u8, u8, Number),
    Tiny(u8, u8, Number),
    Binary(u8, u8, Option<Vec<u8>>),
    Swap(u8, u8),
    Again(u8),
    Remove(u8),
    Data(u16, u8),
    Shape(u8, Vec<Number>),
    Side(u8, u8, Number),
    Chunk(u8, Vec<Number>),
    ChunkSide(u8, u8, Number),
    Clip(u8, Option<Vec<Number>>),
    Type(u8, Type),
    Fill(u8, Option<Vec<u8>>),
    Id(u8, Number),
    State(u8, u8),
    Written(u8, Number),
    Packing(u8, Option<String>),
}

#[derive(Debug, Clone, Copy, Arbitrary)]
enum Number {
    Small(u8),
    /// One more or less than it was.
    Near(i8),
    Any(u64),
}

#[derive(Debug, Clone, Arbitrary)]
enum Type {
    Known(u8),
    Text(String),
}

impl Number {
    fn of(self, old: u64) -> u64 {
        match self {
            Self::Small(number) => number.into(),
            Self::Near(by) => old.saturating_add_signed(by.into()),
            Self::Any(number) => number,
        }
    }
}

impl Type {
    fn text(&self) -> String {
        const KNOWN: [&str; 18] = [
            "bool",
            "int8",
            "int16",
            "int32",
            "int64",
            "uint8",
            "uint16",
            "float16",
            "float32",
            "float64",
            "utf8",
            "binary",
            "fixed_binary[3]",
            "timestamp[ms];tz=UTC",
            "list<int16>",
            "fixed_list<float32,2>",
            "group",
            "none",
        ];
        match self {
            Self::Known(at) => KNOWN[usize::from(*at) % KNOWN.len()].to_owned(),
            Self::Text(text) => text.clone(),
        }
    }
}

/// A row of the index.
#[derive(Debug, Clone)]
struct Row {
    long: [u64; 3],
    short: [Option<u32>; 7],
    tiny: [u8; 2],
    binary: [Option<Vec<u8>>; 3],
}

/// What is changed of a row of the catalogue; the rest stays as it is.
#[derive(Debug, Clone)]
struct Entry {
    id: u64,
    state: u8,
    kind: String,
    shape: Vec<u64>,
    chunk: Vec<u64>,
    fill: Option<Vec<u8>>,
    clip: Option<Vec<u64>>,
    written: u64,
    packing: Option<String>,
}

struct Sound {
    members: Map<String, Value>,
    index: SchemaRef,
    rows: Vec<Row>,
    catalogue: RecordBatch,
    entries: Vec<Entry>,
    data: Vec<u8>,
}

static SOUND: LazyLock<Sound> = LazyLock::new(|| {
    let (_, layer) =
        stores::SOUND.iter().find(|(path, _)| path.as_ref().starts_with("layers")).unwrap();
    let pack = seeds::take_bytes_apart("layer".to_owned(), layer).unwrap();
    let (index, catalogue) = (batch(&pack.index), batch(&pack.slides));
    let members = serde_json::from_str(&seeds::own_members(&pack)).unwrap();
    let rows = (0..index.num_rows()).map(|row| Row::of(&index, row)).collect();
    let entries = (0..catalogue.num_rows()).map(|row| Entry::of(&catalogue, row)).collect();
    Sound { members, index: index.schema(), rows, catalogue, entries, data: pack.data }
});

fuzz_target!(
    init: seeds::write(seeds::noise),
    |input: &[u8]| {
        let Ok(layer) = Layer::arbitrary_take_rest(Unstructured::new(input)) else { return };
        let Some((text, file)) = layer.file(&SOUND) else { return };
        stores::layer(&text, file);
    }
);

fn batch(stream: &[u8]) -> RecordBatch {
    let stream = std::io::Cursor::new(stream);
    arrow_ipc::reader::StreamReader::try_new(stream, None).unwrap().next().unwrap().unwrap()
}

fn bytes_of(column: &ArrayRef, row: usize) -> Option<Vec<u8>> {
    let column = column.as_binary::<i32>();
    (!column.is_null(row)).then(|| column.value(row).to_vec())
}

fn list_of(column: &ArrayRef, row: usize) -> Vec<u64> {
    column.as_list::<i32>().value(row).as_primitive::<UInt64Type>().values().to_vec()
}

impl Row {
    fn of(batch: &RecordBatch, row: usize) -> Self {
        let column = |name: &str| batch.column_by_name(name).unwrap();
        Self {
            long: LONG.map(|name| column(name).as_primitive::<UInt64Type>().value(row)),
            short: SHORT.map(|name| {
                let column = column(name).as_primitive::<UInt32Type>();
                (!column.is_null(row)).then(|| column.value(row))
            }),
            tiny: TINY.map(|name| column(name).as_primitive::<UInt8Type>().value(row)),
            binary: BINARY.map(|name| bytes_of(column(name), row)),
        }
    }
}

impl Entry {
    fn of(batch: &RecordBatch, row: usize) -> Self {
        let column = |name: &str| batch.column_by_name(name).unwrap();
        let text = |name: &str| {
            let column = column(name).as_string::<i32>();
            (!column.is_null(row)).then(|| column.value(row).to_owned())
        };
        Self {
            id: column("array_id").as_primitive::<UInt64Type>().value(row),
            state: column("state").as_primitive::<UInt8Type>().value(row),
            kind: text("dtype").unwrap(),
            shape: list_of(column("shape"), row),
            chunk: list_of(column("chunk_shape"), row),
            fill: bytes_of(column("fill"), row),
            clip: (!column("clip").is_null(row)).then(|| list_of(column("clip"), row)),
            written: column("chunks_written").as_primitive::<UInt64Type>().value(row),
            packing: text("packing"),
        }
    }
}

impl Layer {
    /// The header's own members, and the file.
    fn file(&self, sound: &Sound) -> Option<(Vec<u8>, Vec<u8>)> {
        let (mut rows, mut entries) = (sound.rows.clone(), sound.entries.clone());
        let mut data = sound.data.clone();
        for change in self.changes.iter().take(32) {
            change.make(&mut rows, &mut entries, &mut data);
        }
        if self.block_sums {
            rows.iter_mut().for_each(|row| sum(row, &data));
        }
        if self.sorted {
            rows.sort_by_key(|row| (row.long[0], row.long[1]));
        }
        let slides = catalogue(&sound.catalogue, &entries)?;
        let split = self.split.map_or(rows.len(), |at| usize::from(at) % (rows.len() + 1));
        let head = encode_table(&sound.index, &[]).ok()?;
        let head = &head[..head.len() - END.len()];
        let (mut index, mut places, mut sums) = (head.to_vec(), Vec::new(), Vec::new());
        let (first, second) = rows.split_at(split);
        for rows in [first, second].into_iter().filter(|rows| !rows.is_empty()) {
            let stream = encode_table(&sound.index, &[table(&sound.index, rows)?]).ok()?;
            let part = &stream[head.len()..stream.len() - END.len()];
            let key = |row: &Row| (row.long[0], row.long[1]);
            let (first, last) = (key(&rows[0]), key(&rows[rows.len() - 1]));
            let place = (index.len(), part.len(), rows.len());
            places.push(json!([place.0, place.1, place.2, first.0, first.1, last.0, last.1]));
            sums.push(Value::from(crc32fast::hash(part)));
            index.extend_from_slice(part);
        }
        index.extend(END);
        let mut members = sound.members.clone();
        let own = members.get_mut("nd_array")?.as_object_mut()?;
        own.insert("layer_id".to_owned(), "00112233445566778899aabbccddeeff".into());
        own.insert("kind".to_owned(), if self.base { "base" } else { "delta" }.into());
        own.insert("schema_bytes".to_owned(), head.len().into());
        own.insert("batches".to_owned(), places.into());
        own.insert("batches_crc32".to_owned(), sums.into());
        if let Some(codecs) = &self.codecs {
            let codecs = codecs.iter().take(8).map(BlockCodec::to_json).collect();
            own.insert("codecs".to_owned(), codecs);
        }
        let text = Value::Object(members).to_string().into_bytes();
        let parts = Parts {
            flags: FILL_IN | SUMS,
            text: &text,
            slides: &slides,
            index: &index,
            data: &data,
        };
        let file = assemble(&parts.to_input()?)?;
        Some((text, file))
    }
}

/// What ends a stream.
const END: [u8; 8] = [0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0];

/// Makes the checksum of a row's block right.
fn sum(row: &mut Row, data: &[u8]) {
    let start = usize::try_from(row.long[2]).ok();
    let length = row.short[0].and_then(|length| usize::try_from(length).ok());
    let block =
        start.zip(length).and_then(|(start, length)| data.get(start..start.checked_add(length)?));
    if let Some(block) = block {
        row.short[1] = Some(crc32fast::hash(block));
    }
}

impl BlockCodec {
    fn to_json(&self) -> Value {
        match self {
            Self::None => json!({"name": "none"}),
            Self::Lz4 => json!({"name": "lz4"}),
            Self::Zstd => json!({"name": "zstd"}),
            Self::Shuffled(filter, width) => {
                let name = match filter {
                    Filter::Shuffle => "shuffle",
                    Filter::Bitshuffle => "bitshuffle",
                    Filter::Delta => "delta",
                };
                json!({"name": "lz4", "filters": [{"name": name, "size": width}]})
            }
            Self::Text(text) => serde_json::from_str(text).unwrap_or(Value::Null),
        }
    }
}

impl Change {
    fn make(&self, rows: &mut Vec<Row>, entries: &mut [Entry], data: &mut [u8]) {
        let row = |at: u8| usize::from(at) % rows.len().max(1);
        let entry = |at: u8| usize::from(at) % entries.len();
        let list = |numbers: &[Number]| -> Vec<u64> {
            numbers.iter().take(8).map(|number| number.of(1)).collect()
        };
        match self {
            Self::Shape(at, shape) => entries[entry(*at)].shape = list(shape),
            Self::Chunk(at, chunk) => entries[entry(*at)].chunk = list(chunk),
            Self::Side(at, axis, number) | Self::ChunkSide(at, axis, number) => {
                let entry = &mut entries[entry(*at)];
                let of_chunk = matches!(self, Self::ChunkSide(..));
                let sides = if of_chunk { &mut entry.chunk } else { &mut entry.shape };
                let axis = usize::from(*axis) % sides.len().max(1);
                sides.iter_mut().skip(axis).take(1).for_each(|side| *side = number.of(*side));
            }
            Self::Clip(at, clip) => entries[entry(*at)].clip = clip.as_deref().map(list),
            Self::Type(at, kind) => entries[entry(*at)].kind = kind.text(),
            Self::Fill(at, fill) => entries[entry(*at)].fill.clone_from(fill),
            Self::Id(at, number) => {
                let at = entry(*at);
                entries[at].id = number.of(entries[at].id);
            }
            Self::State(at, state) => entries[entry(*at)].state = *state,
            Self::Written(at, number) => {
                let at = entry(*at);
                entries[at].written = number.of(entries[at].written);
            }
            Self::Packing(at, packing) => entries[entry(*at)].packing.clone_from(packing),
            Self::Data(at, byte) => {
                let at = usize::from(*at) % data.len().max(1);
                data.iter_mut().skip(at).take(1).for_each(|found| *found = *byte);
            }
            _ if rows.is_empty() => {}
            Self::Long(at, column, number) => {
                let at = row(*at);
                let slot = &mut rows[at].long[usize::from(*column) % LONG.len()];
                *slot = number.of(*slot);
            }
            Self::Short(at, column, number) => {
                let at = row(*at);
                let slot = &mut rows[at].short[usize::from(*column) % SHORT.len()];
                *slot = Some(number.of(slot.unwrap_or(0).into()) as u32);
            }
            Self::Tiny(at, column, number) => {
                let at = row(*at);
                let slot = &mut rows[at].tiny[usize::from(*column) % TINY.len()];
                *slot = number.of((*slot).into()) as u8;
            }
            Self::Binary(at, column, value) => {
                let at = row(*at);
                rows[at].binary[usize::from(*column) % BINARY.len()].clone_from(value);
            }
            Self::Swap(one, other) => {
                let (one, other) = (row(*one), row(*other));
                rows.swap(one, other);
            }
            Self::Again(at) => {
                if rows.len() < 64 {
                    let again = rows[row(*at)].clone();
                    rows.push(again);
                }
            }
            Self::Remove(at) => {
                let at = row(*at);
                rows.remove(at);
            }
        }
    }
}

fn table(schema: &SchemaRef, rows: &[Row]) -> Option<RecordBatch> {
    let mut columns: Vec<ArrayRef> = Vec::new();
    for field in schema.fields() {
        let name = field.name().as_str();
        let place = |names: &[&str]| names.iter().position(|known| *known == name);
        let column: ArrayRef = if let Some(at) = place(&LONG) {
            let mut builder = UInt64Builder::new();
            rows.iter().for_each(|row| builder.append_value(row.long[at]));
            Arc::new(builder.finish())
        } else if let Some(at) = place(&SHORT) {
            let mut builder = UInt32Builder::new();
            rows.iter().for_each(|row| builder.append_option(row.short[at]));
            Arc::new(builder.finish())
        } else if let Some(at) = place(&TINY) {
            let mut builder = UInt8Builder::new();
            rows.iter().for_each(|row| builder.append_value(row.tiny[at]));
            Arc::new(builder.finish())
        } else {
            let at = place(&BINARY).unwrap();
            let mut builder = BinaryBuilder::new();
            rows.iter().for_each(|row| builder.append_option(row.binary[at].as_deref()));
            Arc::new(builder.finish())
        };
        columns.push(column);
    }
    RecordBatch::try_new(Arc::clone(schema), columns).ok()
}

fn catalogue(sound: &RecordBatch, entries: &[Entry]) -> Option<Vec<u8>> {
    let lists = |of: &dyn Fn(&Entry) -> Option<Vec<u64>>| -> ArrayRef {
        let item = Field::new("item", DataType::UInt64, false);
        let mut builder = ListBuilder::new(UInt64Builder::new()).with_field(item);
        for entry in entries {
            let list = of(entry);
            builder.values().append_slice(list.as_deref().unwrap_or_default());
            builder.append(list.is_some());
        }
        Arc::new(builder.finish())
    };
    let longs = |of: &dyn Fn(&Entry) -> u64| -> ArrayRef {
        let mut builder = UInt64Builder::new();
        entries.iter().for_each(|entry| builder.append_value(of(entry)));
        Arc::new(builder.finish())
    };
    let texts = |of: &dyn Fn(&Entry) -> Option<String>| -> ArrayRef {
        let mut builder = StringBuilder::new();
        entries.iter().for_each(|entry| builder.append_option(of(entry)));
        Arc::new(builder.finish())
    };
    let schema = sound.schema();
    let columns = schema.fields().iter().zip(sound.columns()).map(|(field, column)| {
        match field.name().as_str() {
            "array_id" => longs(&|entry| entry.id),
            "chunks_written" => longs(&|entry| entry.written),
            "shape" => lists(&|entry| Some(entry.shape.clone())),
            "chunk_shape" => lists(&|entry| Some(entry.chunk.clone())),
            "clip" => lists(&|entry| entry.clip.clone()),
            "dtype" => texts(&|entry| Some(entry.kind.clone())),
            "packing" => texts(&|entry| entry.packing.clone()),
            "state" => {
                let mut builder = UInt8Builder::new();
                entries.iter().for_each(|entry| builder.append_value(entry.state));
                Arc::new(builder.finish())
            }
            "fill" => {
                let mut builder = BinaryBuilder::new();
                entries.iter().for_each(|entry| builder.append_option(entry.fill.as_deref()));
                Arc::new(builder.finish())
            }
            _ => Arc::clone(column),
        }
    });
    let table = RecordBatch::try_new(Arc::clone(&schema), columns.collect()).ok()?;
    encode_table(&schema, &[table]).ok()
}
