//! What the tests of this crate share: reading packs back, tables, children, small disks.
#![allow(dead_code, unreachable_pub)] // no test file needs all of it
#![allow(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used
)]

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringArray};
use arrow_schema::{Field, Schema};
use bytes::Bytes;
use iac_format::table::TableStream;
use iac_format::{Header, RecordIndex, RowSums, Segment, TableKind};
use iac_writer::Table;
use serde_json::{Map, Value, json};

/// A pack, read back with `iac-format` alone.
pub struct Pack {
    pub bytes: Bytes,
    pub header: Header,
    pub slides: TableStream,
    pub index: TableStream,
}

impl Pack {
    pub fn read(path: &Path) -> Self {
        let bytes = Bytes::from(fs::read(path).unwrap());
        let size = bytes.len() as u64;
        let header = Header::parse(&bytes[..65_536], size).unwrap();
        let layout = header.layout();
        assert_eq!(layout.end(), size, "no trailing bytes");
        let pack = Self {
            slides: TableStream::parse(part(&bytes, layout.slide_table), TableKind::Slide).unwrap(),
            index: TableStream::parse(part(&bytes, layout.index_table), TableKind::Index).unwrap(),
            bytes,
            header,
        };
        assert_eq!(pack.header.num_slides().unwrap(), pack.slides.num_rows());
        assert_eq!(pack.header.num_records().unwrap(), pack.index.num_rows());
        assert_eq!(pack.slides.stream_bytes(), layout.slide_table.length);
        let stream = usize::try_from(pack.index.stream_bytes()).unwrap();
        let padding = &pack.index_segment()[stream..];
        assert!(padding.iter().all(|byte| *byte == 0));
        if let Some(sums) = pack.header.checksums() {
            assert_eq!(sums.slide_table, crc32fast::hash(&pack.slide_segment()));
            assert_eq!(sums.index_table, crc32fast::hash(&pack.index_segment()));
            assert!(sums.data.is_none_or(|sum| sum == crc32fast::hash(&pack.data())));
        }
        pack
    }

    pub fn slide_segment(&self) -> Bytes {
        part(&self.bytes, self.header.layout().slide_table)
    }

    pub fn index_segment(&self) -> Bytes {
        part(&self.bytes, self.header.layout().index_table)
    }

    pub fn data(&self) -> Bytes {
        part(&self.bytes, self.header.layout().data)
    }

    pub fn index_columns(&self) -> Vec<String> {
        let fields = self.index.schema().fields();
        fields.iter().map(|field| field.name().clone()).collect()
    }

    /// Every record, checked against its checksum; records lie back to back.
    pub fn records(&self) -> Vec<Bytes> {
        let data = self.data();
        let spans = RecordIndex::new(&self.index, data.len() as u64).unwrap().unwrap();
        let mut end = 0;
        let mut records = Vec::new();
        for row in 0..spans.len() {
            let span = spans.span(row).unwrap();
            assert_eq!(span.offset, end, "row {row}");
            let segment = Segment { offset: span.offset, length: u64::from(span.length) };
            let record = part(&data, segment);
            assert_eq!(span.crc32, Some(crc32fast::hash(&record)), "row {row}");
            records.push(record);
            end += u64::from(span.length);
        }
        assert_eq!(end, data.len() as u64);
        records
    }

    pub fn row_sums(&self) -> Option<Vec<u32>> {
        let sums = RowSums::new(&self.index).unwrap()?;
        Some((0..self.index.num_rows()).map(|row| sums.get(row).unwrap()).collect())
    }
}

fn part(bytes: &Bytes, segment: Segment) -> Bytes {
    let start = usize::try_from(segment.offset).unwrap();
    let length = usize::try_from(segment.length).unwrap();
    bytes.slice(start..start + length)
}

pub fn members(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        other => panic!("{other} is no object"),
    }
}

pub fn header() -> Map<String, Value> {
    members(json!({"payload_type": "raw_bytes", "codec": "none"}))
}

/// A table with one text column `item_id` of so many rows.
pub fn items(rows: usize) -> Table {
    let names: Vec<String> = (0..rows).map(|row| format!("item-{row}")).collect();
    Table::from(batch([("item_id", Arc::new(StringArray::from(names)) as ArrayRef)]))
}

/// A batch of nullable columns.
pub fn batch<const N: usize>(columns: [(&str, ArrayRef); N]) -> RecordBatch {
    let fields: Vec<Field> = columns
        .iter()
        .map(|(name, array)| Field::new(*name, array.data_type().clone(), true))
        .collect();
    let arrays = columns.into_iter().map(|(_, array)| array).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap()
}

/// The caller's part of an index table: everything but the storage columns.
pub fn without_storage_columns(index: &TableStream) -> Table {
    let kept: Vec<usize> = (index.schema().fields().iter().enumerate())
        .filter(|(_, field)| !iac_format::STORAGE_COLUMNS.contains(&field.name().as_str()))
        .map(|(position, _)| position)
        .collect();
    let schema = Arc::new(index.schema().project(&kept).unwrap());
    let batches = index.decode().unwrap();
    let batches = batches.iter().map(|batch| batch.project(&kept).unwrap()).collect();
    Table::new(schema, batches).unwrap()
}

pub fn table(stream: &TableStream) -> Table {
    Table::new(stream.schema().clone(), stream.decode().unwrap()).unwrap()
}

/// Everything in a folder, hidden files included, in order.
pub fn names_in(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// What a test tells its child process.
pub const CHILD: &str = "IAC_WRITER_TEST_CHILD";

/// Runs one test of the running test program again, in a process of its own that finds the
/// argument in [`CHILD`].
pub fn child(test: &str, argument: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]).env(CHILD, argument);
    command
}

/// The same under a shell that first sets limits and the like, which the child inherits.
pub fn child_after(shell: &str, test: &str, argument: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("sh");
    command
        .args(["-c", &format!("{shell}; exec \"$0\" \"$@\"")])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(CHILD, argument);
    command
}

/// Waits for a child and shows what it printed if it failed.
pub fn run(mut command: Command) {
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "child: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// The argument, in a child.
pub fn child_argument() -> Option<PathBuf> {
    std::env::var_os(CHILD).map(PathBuf::from)
}
