//! What we write, the reference reads: every builder, every shape of table.
//!
//! The tables and records come out of packs that the reference wrote, so what has to be found in
//! ours is known from their descriptions. On the way they are cut, doubled and stripped of the
//! storage columns, and written with each builder and set of options in turn.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use std::convert::Infallible;
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use bytes::Bytes;
use iac_format::{CRC32_COLUMN, ErrorKind, STORAGE_COLUMNS};
use iac_interop::json::{header_members, header_value, sha256, shuffled, sum, sums};
use iac_interop::reference::{self, ReferencePack};
use iac_reader::{PackReader, VerifyOptions};
use iac_writer::{
    PackWriter, Table, WriteOptions, build_pack, build_pack_data_segment,
    build_pack_data_segment_from_file, build_pack_streaming,
};
use serde_json::{Map, Value, json};

/// Header members that belong to the container and not to the caller.
const LAYOUT: &[&str] = &[
    "format",
    "version",
    "header_bytes",
    "slide_table_offset",
    "slide_table_length",
    "index_table_offset",
    "index_table_length",
    "data_offset",
    "data_length",
    "num_slides",
    "num_records",
];

/// What a pack of the reference holds, taken apart.
struct Content {
    name: String,
    members: Map<String, Value>,
    slides: Table,
    index: Table,
    records: Vec<Bytes>,
    data: Bytes,
    expected: Value,
}

impl Content {
    fn of(pack: ReferencePack) -> Self {
        let reader = PackReader::open(&pack.path).unwrap();
        let table = |table: &iac_reader::Table| {
            Table::new(table.schema().clone(), table.batches().unwrap().to_vec()).unwrap()
        };
        let mut members = reader.header().members().clone();
        members.retain(|name, _| !LAYOUT.contains(&name.as_str()));
        let records = match pack.expected["kind"].as_str().unwrap() {
            "variable" => reader.iter_payloads().unwrap().map(Result::unwrap).collect(),
            _ => Vec::new(),
        };
        Self {
            name: pack.name,
            members,
            slides: table(reader.slide_table().unwrap()),
            index: table(reader.index_table().unwrap()),
            records,
            data: reader.read_data_span(0, reader.layout().data.length).unwrap(),
            expected: pack.expected,
        }
    }
}

/// All packs of one kind that fit into a header with what we add to it.
fn contents(folder: &Path, kind: &str) -> Vec<Content> {
    let contents: Vec<Content> = reference::write_packs(folder)
        .into_iter()
        .filter(|pack| pack.expected["kind"] == kind && pack.name != "header_full")
        .map(Content::of)
        .collect();
    assert!(contents.len() > 10, "only {} packs", contents.len());
    contents
}

/// Which rows of a table are written, and how they are cut into batches.
#[derive(Debug, Clone, Copy)]
enum Cut {
    /// As they were.
    Same,
    /// Without the first and the last row of each batch, so that buffers start inside bytes.
    Inner,
    /// Each batch twice, one after the other.
    Twice,
}

fn cut(table: &Table, cut: Cut) -> (Table, Vec<usize>) {
    let mut batches = Vec::new();
    let mut rows = Vec::new();
    let mut start = 0;
    for batch in table.batches() {
        let count = batch.num_rows();
        let all = start..start + count;
        match cut {
            Cut::Inner if count >= 3 => {
                batches.push(batch.slice(1, count - 2));
                rows.extend(all.start + 1..all.end - 1);
            }
            Cut::Twice => {
                batches.extend([batch.clone(), batch.clone()]);
                rows.extend(all.clone().chain(all));
            }
            _ => {
                batches.push(batch.clone());
                rows.extend(all);
            }
        }
        start += count;
    }
    (Table::new(table.schema().clone(), batches).unwrap(), rows)
}

/// The rows of a described table.
fn select(table: &Value, rows: &[usize]) -> Value {
    let column =
        |column: &Value| -> Value { rows.iter().map(|row| column[*row].clone()).collect() };
    let columns: Value = table["columns"].as_array().unwrap().iter().map(column).collect();
    let mut selected = table.clone();
    selected["columns"] = columns;
    selected["rows"] = json!(rows.len());
    selected
}

fn is_storage(name: &str) -> bool {
    STORAGE_COLUMNS.contains(&name)
}

fn without_storage_columns(table: &Table) -> Table {
    let fields = table.schema().fields().iter().enumerate();
    let keep: Vec<usize> = fields
        .filter(|(_, field)| !is_storage(field.name()))
        .map(|(position, _)| position)
        .collect();
    let schema = table.schema().project(&keep).unwrap().into();
    let batches = table.batches().iter().map(|batch| batch.project(&keep));
    let batches: Vec<RecordBatch> = batches.collect::<Result<_, _>>().unwrap();
    Table::new(schema, batches).unwrap()
}

fn described_without_storage_columns(table: &Value) -> Value {
    let fields = table["fields"].as_array().unwrap();
    let columns = table["columns"].as_array().unwrap();
    let (fields, columns): (Vec<Value>, Vec<Value>) = fields
        .iter()
        .cloned()
        .zip(columns.iter().cloned())
        .filter(|(field, _)| !is_storage(field["name"].as_str().unwrap()))
        .unzip();
    let mut stripped = table.clone();
    stripped["fields"] = fields.into();
    stripped["columns"] = columns.into();
    stripped
}

/// Puts a computed column where the format wants it: in place of the caller's, or at the end.
fn put_column(table: &mut Value, name: &str, kind: &str, values: Value) {
    let field = json!({ "name": name, "type": kind, "nullable": true, "metadata": {} });
    let fields = table["fields"].as_array_mut().unwrap();
    let place = fields.iter().position(|field| field["name"] == name);
    match place {
        Some(place) => fields[place] = field,
        None => fields.push(field),
    }
    let columns = table["columns"].as_array_mut().unwrap();
    match place {
        Some(place) => columns[place] = values,
        None => columns.push(values),
    }
}

fn put_storage_columns(table: &mut Value, records: &[Bytes]) {
    let mut end = 0;
    let offsets: Vec<usize> = records
        .iter()
        .map(|record| {
            end += record.len();
            end - record.len()
        })
        .collect();
    let lengths: Vec<usize> = records.iter().map(Bytes::len).collect();
    put_column(table, "offset", "uint64", json!(offsets));
    put_column(table, "length", "uint32", json!(lengths));
    put_column(table, "crc32", "uint32", json!(crc32s(records)));
}

fn crc32s<R: AsRef<[u8]>>(records: &[R]) -> Vec<u32> {
    let sum = |record: &R| crc32fast::hash(record.as_ref());
    records.iter().map(sum).collect()
}

/// A pack that we wrote, and what the reference has to see in it.
struct Written {
    path: PathBuf,
    members: Map<String, Value>,
    checksums: bool,
    slides: Value,
    index: Value,
    data: Bytes,
    records: Vec<Bytes>,
}

impl Written {
    fn check(&self, seen: &Value) {
        let context = self.path.file_name().unwrap().to_str().unwrap();
        let ours = PackReader::open(&self.path).unwrap();
        let report = ours.verify(&VerifyOptions::default());
        assert!(report.is_sound(), "{context}: {:?}", report.faults);
        let header = &seen["header"]["ok"];
        assert_eq!(header, &header_members(ours.header().members()), "{context}");
        for (name, value) in &self.members {
            assert_eq!(header[name], header_value(value), "{name} of {context}");
        }
        let added: Vec<&str> = (header.as_object().unwrap().keys())
            .map(String::as_str)
            .filter(|name| !self.members.contains_key(*name) && !LAYOUT.contains(name))
            .collect();
        let allowed: &[&str] = if self.checksums { &["checksums", "extensions"] } else { &[] };
        assert_eq!(added.len(), allowed.len(), "{context}: {added:?}");
        assert!(added.iter().all(|name| allowed.contains(name)), "{context}: {added:?}");

        assert_eq!(seen["slide_table"], json!({ "ok": self.slides }), "{context}");
        assert_eq!(seen["index_table"], json!({ "ok": self.index }), "{context}");
        for span in seen["spans"]["ok"].as_array().unwrap() {
            let number = |name: &str| usize::try_from(span[name].as_u64().unwrap()).unwrap();
            let start = number("offset");
            let bytes = &self.data[start..start + number("length")];
            assert_eq!(json!(sha256(bytes)), span["sha256"], "{context}");
        }
    }

    /// The reference reads the records in each of its ways.
    fn check_records(&self, seen: &Value) {
        let context = self.path.file_name().unwrap().to_str().unwrap();
        let each: Value = self.records.iter().map(|record| json!({ "ok": sum(record) })).collect();
        assert_eq!(seen["read_payload"], each, "{context}");
        assert_eq!(seen["past_the_end"]["error"], "IndexError", "{context}");
        assert_eq!(seen["iter_payloads"], json!({ "ok": sums(&self.records) }), "{context}");
        let order = shuffled(u64::try_from(self.records.len()).unwrap());
        let rows = order.iter().map(|row| &self.records[usize::try_from(*row).unwrap()]);
        let batch = json!({ "ok": sums(rows) });
        assert_eq!(seen["read_payloads"], batch, "{context}");
        assert_eq!(seen["views"], batch, "{context}");
        if self.members.get("codec").is_none_or(|codec| codec == "none") {
            assert_eq!(seen["contiguous"]["ok"]["sums"], batch["ok"], "{context}");
            let decoded: Value = each.as_array().unwrap().iter().take(50).cloned().collect();
            assert_eq!(seen["decoded"], decoded, "{context}");
        }
    }
}

/// One of several choices, mixed so that any two choices meet.
fn pick<T: Copy>(number: usize, what: &str, choices: &[T]) -> T {
    let mixed = crc32fast::hash(format!("{what} {number}").as_bytes());
    choices[usize::try_from(mixed).unwrap() % choices.len()]
}

fn options(number: usize) -> WriteOptions {
    WriteOptions::new()
        .sync(false)
        .checksums(pick(number, "checksums", &[true, true, false]))
        .data_alignment(pick(number, "alignment", &[64, 1, 4096, 8, 512]))
}

/// Writes a variable pack with one of the ways that there are.
fn write_variable(number: usize, content: &Content, folder: &Path) -> Written {
    let cuts = [Cut::Same, Cut::Inner, Cut::Twice];
    let (mut index, rows) = cut(&content.index, pick(number, "cut", &cuts));
    let records: Vec<Bytes> = rows.iter().map(|row| content.records[*row].clone()).collect();
    let mut expected = select(&content.expected["index_table"], &rows);
    if pick(number, "strip", &[true, false]) {
        index = without_storage_columns(&index);
        expected = described_without_storage_columns(&expected);
    }
    put_storage_columns(&mut expected, &records);

    let path = folder.join(format!("{}_{number}.iac", content.name));
    let options = options(number);
    let (members, slides) = (&content.members, &content.slides);
    match pick(number, "way", &[0, 1, 2, 3]) {
        0 => build_pack(&path, members, slides, &index, &records, &options).unwrap(),
        1 => {
            let stream = records.iter().map(Ok::<_, Infallible>);
            build_pack_streaming(&path, members, slides, &index, stream, &options).unwrap()
        }
        2 => {
            let schema = index.schema().clone();
            let mut writer =
                PackWriter::create(&path, members.clone(), &Table::empty(), schema, &options)
                    .unwrap();
            writer.set_slides(slides).unwrap();
            for batch in index.batches() {
                writer.push_rows(batch).unwrap();
            }
            for record in &records {
                writer.push(record).unwrap();
            }
            writer.finish().unwrap()
        }
        _ => {
            let schema = arrow_schema::Schema::empty().into();
            let mut writer =
                PackWriter::create(&path, members.clone(), slides, schema, &options).unwrap();
            for record in &records {
                writer.push(record).unwrap();
            }
            writer.finish_with_index(&index).unwrap()
        }
    };
    Written {
        path,
        members: members.clone(),
        checksums: options.checksums,
        slides: content.expected["slide_table"].clone(),
        index: expected,
        data: records.concat().into(),
        records,
    }
}

#[test]
fn variable_packs_of_every_builder_are_read_by_the_reference() {
    let folder = tempfile::tempdir().unwrap();
    let mut written = Vec::new();
    for (position, content) in contents(folder.path(), "variable").iter().enumerate() {
        for round in 0..6 {
            written.push(write_variable(position * 10 + round, content, folder.path()));
        }
    }
    let paths: Vec<&PathBuf> = written.iter().map(|pack| &pack.path).collect();
    for (pack, seen) in written.iter().zip(reference::look(&paths)) {
        pack.check(&seen);
        pack.check_records(&seen);
    }
}

/// Writes the data segment as it is, from memory or from a file.
fn write_segment(number: usize, content: &Content, folder: &Path) -> Written {
    let path = folder.join(format!("{}_{number}.iac", content.name));
    let options = options(number);
    let (members, slides) = (&content.members, &content.slides);
    let (index, data) = (&content.index, &content.data);
    if pick(number, "from memory", &[true, false]) {
        build_pack_data_segment(&path, members, slides, index, data, &options).unwrap();
    } else {
        let source = folder.join("source");
        std::fs::write(&source, data).unwrap();
        let length = u64::try_from(data.len()).unwrap();
        build_pack_data_segment_from_file(&path, members, slides, index, source, length, &options)
            .unwrap();
    }
    Written {
        path,
        members: members.clone(),
        checksums: options.checksums,
        slides: content.expected["slide_table"].clone(),
        index: content.expected["index_table"].clone(),
        data: data.clone(),
        records: Vec::new(),
    }
}

#[test]
fn data_segments_are_read_by_the_reference() {
    let folder = tempfile::tempdir().unwrap();
    let mut written = Vec::new();
    for (position, content) in contents(folder.path(), "segment").iter().enumerate() {
        for round in 0..3 {
            written.push(write_segment(position * 10 + round, content, folder.path()));
        }
    }
    let paths: Vec<&PathBuf> = written.iter().map(|pack| &pack.path).collect();
    for (pack, seen) in written.iter().zip(reference::look(&paths)) {
        pack.check(&seen);
    }
}

#[test]
fn fixed_packs_are_read_by_the_reference() {
    let folder = tempfile::tempdir().unwrap();
    let contents = contents(folder.path(), "fixed");
    let mut written = Vec::new();
    for (position, content) in contents.iter().enumerate() {
        for round in 0..4 {
            let mut pack = write_segment(position * 10 + round, content, folder.path());
            let count = content.expected["rows"].as_array().unwrap().len();
            let size = content.data.len().checked_div(count).unwrap_or(0);
            let rows = (0..count).map(|row| content.data.slice(row * size..(row + 1) * size));
            pack.records = rows.collect();
            if pack.checksums {
                let sums = json!(crc32s(&pack.records));
                put_column(&mut pack.index, CRC32_COLUMN, "uint32", sums);
            }
            written.push((content, pack));
        }
    }
    let paths: Vec<&PathBuf> = written.iter().map(|(_, pack)| &pack.path).collect();
    for ((content, pack), seen) in written.iter().zip(reference::look(&paths)) {
        pack.check(&seen);
        let each: Value = pack.records.iter().map(|row| json!({ "ok": sum(row) })).collect();
        assert_eq!(seen["fixed_read"], each, "{}", content.name);
        if content.expected["dim"] == 0 {
            continue; // a matrix without columns is more than the reference reads
        }
        let matrix = &seen["fixed_matrix"]["ok"];
        assert_eq!(matrix["rows"], sums(&pack.records), "{}", content.name);
        assert_eq!(matrix["dtype"], content.expected["dtype"], "{}", content.name);
        let shape = json!([pack.records.len(), content.expected["dim"]]);
        assert_eq!(matrix["shape"], shape, "{}", content.name);
    }
}

#[test]
fn what_the_reference_would_publish_unreadable_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let options = WriteOptions::new().sync(false);
    let path = folder.path().join("out.iac");
    let ours = contents(folder.path(), "variable");
    let content = ours.iter().find(|content| content.name == "shape_plain").unwrap();
    let (members, slides, index) = (&content.members, &content.slides, &content.index);

    // An index of a data segment with columns that readers take for a record index.
    let error = build_pack_data_segment(&path, members, slides, index, b"", &options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage, "{error}");

    // Two columns of a storage name.
    let twice: Vec<usize> = (0..index.schema().fields().len()).chain([0]).collect();
    let mut fields = index.schema().project(&twice).unwrap().fields().to_vec();
    let last = fields.len() - 1;
    fields[last] = std::sync::Arc::new(fields[last].as_ref().clone().with_name("offset"));
    let schema = std::sync::Arc::new(arrow_schema::Schema::new(fields));
    let batch = index.batches()[0].project(&twice).unwrap();
    let batch = RecordBatch::try_new(schema.clone(), batch.columns().to_vec()).unwrap();
    let table = Table::new(schema, vec![batch]).unwrap();
    let error = build_pack(&path, members, slides, &table, &content.records, &options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage, "{error}");

    // One record too few.
    let fewer = &content.records[1..];
    let error = build_pack(&path, members, slides, index, fewer, &options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage, "{error}");
    assert!(!path.exists());
}
