//! Small files that ask for endless work, memory or disk.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
#![allow(clippy::arithmetic_side_effects)]

mod common;

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::{
    Array, ArrayRef, DictionaryArray, Int8Array, Int32Array, Int64Array, LargeListArray,
    ListViewArray, NullArray, RecordBatch, RunArray, StringArray, UInt32Array, UInt64Array,
};
use arrow_buffer::{OffsetBuffer, ScalarBuffer};
use arrow_schema::{Field, Schema};
use common::{listing, tree};
use iac_format::table::write_table;
use iac_ops::digest::{DigestOptions, digest};
use iac_ops::extract::{ExtractOptions, Extracted, extract};
use iac_ops::rows::RowSelection;
use iac_ops::salvage::{Action, SalvageOptions, SalvageReport, salvage};
use iac_ops::view::{TableQuery, TableView};
use iac_ops::{ErrorKind, NoProgress, Result};
use iac_reader::{PackReader, VerifyOptions};
use serde_json::{Map, Value, json};

/// Writes a pack without any of a writer's checks.
fn raw_pack(path: &Path, members: Value, index: &RecordBatch, data: &[u8]) {
    let (mut slides, mut table) = (Vec::new(), Vec::new());
    write_table(&mut slides, &Arc::new(Schema::empty()), &[]).unwrap();
    write_table(&mut table, &index.schema(), std::slice::from_ref(index)).unwrap();
    let index_offset = 65_536 + slides.len();
    let mut header: Map<String, Value> = members.as_object().unwrap().clone();
    let layout = json!({
        "format": "IatroCache",
        "version": 2,
        "header_bytes": 65_536,
        "slide_table_offset": 65_536,
        "slide_table_length": slides.len(),
        "index_table_offset": index_offset,
        "index_table_length": table.len(),
        "data_offset": index_offset + table.len(),
        "data_length": data.len(),
        "num_slides": 0,
        "num_records": index.num_rows(),
    });
    header.extend(layout.as_object().unwrap().clone());
    let text = Value::Object(header).to_string();
    let mut bytes = b"IATROC\x00\x02".to_vec();
    bytes.extend(u32::try_from(text.len()).unwrap().to_le_bytes());
    bytes.extend(2_u32.to_le_bytes());
    bytes.extend(text.as_bytes());
    bytes.resize(65_536, 0);
    bytes.extend(slides);
    bytes.extend(table);
    bytes.extend(data);
    fs::write(path, bytes).unwrap();
}

/// A pack whose rows all are the whole data segment, with the sum of row 0 wrong if asked.
fn shared(path: &Path, members: Value, columns: &[(&str, ArrayRef)], data: &[u8], damaged: bool) {
    let rows = columns[0].1.len();
    let mut sums = vec![crc32fast::hash(data); rows];
    if damaged {
        sums[0] ^= 1;
    }
    let length = u32::try_from(data.len()).unwrap();
    let storage: [(&str, ArrayRef); 3] = [
        ("offset", Arc::new(UInt64Array::from(vec![0; rows]))),
        ("length", Arc::new(UInt32Array::from(vec![length; rows]))),
        ("crc32", Arc::new(UInt32Array::from(sums))),
    ];
    let columns = columns.iter().map(|(name, column)| (*name, Arc::clone(column)));
    let index = RecordBatch::try_from_iter(columns.chain(storage)).unwrap();
    raw_pack(path, members, &index, data);
}

fn field(array: &dyn Array) -> Arc<Field> {
    Arc::new(Field::new("item", array.data_type().clone(), true))
}

/// Two lists: an empty one, and one of billions of values in a single run.
fn endless_runs() -> ArrayRef {
    let length = (1_i64 << 33) - 8;
    let runs: ArrayRef = Arc::new(
        RunArray::try_new(&Int64Array::from(vec![length]), &StringArray::from(vec!["y"])).unwrap(),
    );
    let offsets = OffsetBuffer::new(ScalarBuffer::from(vec![0, 0, length]));
    Arc::new(LargeListArray::new(field(&runs), offsets, runs, None))
}

fn views(values: ArrayRef, count: usize) -> ArrayRef {
    let size = i32::try_from(values.len()).unwrap();
    let (offsets, sizes) = (vec![0; count].into(), vec![size; count].into());
    Arc::new(ListViewArray::new(field(&values), offsets, sizes, values, None))
}

fn run(path: &Path, out: &Path) -> Result<SalvageReport> {
    salvage(path, out, &SalvageOptions::default(), &NoProgress)
}

fn view(pack: &PackReader, rows: &str) -> TableView {
    let mut query = TableQuery::default();
    query.rows = Some(RowSelection::parse(rows).unwrap());
    TableView::new(pack, &query).unwrap()
}

#[test]
fn a_column_that_expands_without_end_is_dropped_by_salvage_and_refused_by_views() {
    let folder = tempfile::tempdir().unwrap();
    let (path, out) = (folder.path().join("a.iac"), folder.path().join("b.iac"));
    let numbers: ArrayRef = Arc::new(Int8Array::from(vec![7, 8]));
    shared(&path, json!({}), &[("x", endless_runs()), ("n", numbers)], b"hello", true);
    let report = run(&path, &out).unwrap();
    assert_eq!((report.kept, report.dropped, report.faults), (1, 1, 2));
    let line = report.lines.iter().find(|line| line.field.as_deref() == Some("x")).unwrap();
    assert_eq!((line.kind, line.action), (ErrorKind::Limit, Action::Dropped));
    assert!(line.message.contains("1073741824 bytes"), "{}", line.message);
    let saved = PackReader::open(&out).unwrap();
    assert!(saved.verify(&VerifyOptions::default()).is_sound());
    let names = view(&saved, "0").names().to_vec();
    assert!(names.contains(&"n".to_owned()) && !names.contains(&"x".to_owned()));

    let pack = PackReader::open(&path).unwrap();
    let error = view(&pack, "1,0").write_arrow(&mut std::io::sink()).unwrap_err();
    assert_eq!((error.kind(), error.field()), (ErrorKind::Limit, Some("x")), "{error}");
}

#[test]
fn a_cell_of_endless_copies_is_refused_with_its_row_and_column() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.iac");
    let mut values: ArrayRef = Arc::new(Int8Array::from(vec![1; 30]));
    for _ in 0..5 {
        values = views(values, 30);
    }
    shared(&path, json!({}), &[("x", values)], b"hello", false);
    let pack = PackReader::open(&path).unwrap();
    let sink = &mut std::io::sink();
    for error in [
        view(&pack, "3").write_json_lines(sink, &NoProgress).unwrap_err(),
        view(&pack, "3").write_csv(sink, &NoProgress).unwrap_err(),
    ] {
        assert_eq!(
            (error.kind(), error.row(), error.field()),
            (ErrorKind::Limit, Some(3), Some("x"))
        );
        assert!(error.to_string().contains("1000000 values"), "{error}");
    }
    // No column is too large, but all of them together are.
    let text: ArrayRef = Arc::new(StringArray::from(vec!["x".repeat(150_000)]));
    let columns: Vec<String> = (0..20).map(|number| format!("c{number}")).collect();
    let columns = columns.iter().map(|name| {
        let lists = ListViewArray::new(
            field(&text),
            vec![0].into(),
            vec![1].into(),
            Arc::clone(&text),
            None,
        );
        (name.as_str(), views(Arc::new(lists), 1))
    });
    let columns: Vec<(&str, ArrayRef)> =
        columns.map(|(name, lists)| (name, repeated(&lists, 100))).collect();
    let index = RecordBatch::try_from_iter(columns).unwrap();
    raw_pack(&path, json!({}), &index, b"");
    let pack = PackReader::open(&path).unwrap();
    let error = view(&pack, "0").write_csv(sink, &NoProgress).unwrap_err();
    assert_eq!(
        (error.kind(), error.row(), error.field()),
        (ErrorKind::Limit, Some(0), Some("c17"))
    );
}

/// One list view of so many views of the first row.
fn repeated(values: &ArrayRef, times: usize) -> ArrayRef {
    views(views(Arc::clone(values), times), 1)
}

fn extracted(pack: &PackReader, dir: &Path) -> Vec<Extracted> {
    let mut files = Vec::new();
    extract(pack, None, dir, &ExtractOptions::default(), &NoProgress, &mut |file| {
        files.push(file);
        Ok(())
    })
    .unwrap();
    files
}

#[test]
fn endless_names_become_short_ones() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.iac");
    let begun = Instant::now();
    // A path of 300,000 folders, and one of 2 MB that many rows share.
    let deep = "a/".repeat(300_000) + "last.txt";
    let names = StringArray::from(vec![deep, "n".repeat(2 << 20), "plain.txt".to_owned()]);
    let keys = Int32Array::from_iter_values([0, 2].into_iter().chain([1; 60]));
    let column: ArrayRef = Arc::new(DictionaryArray::new(keys, Arc::new(names)));
    let members = json!({"payload_type": "raw_files", "codec": "none"});
    shared(&path, members, &[("path", column)], b"hello", false);
    let dir = folder.path().join("dir");
    let files = extracted(&PackReader::open(&path).unwrap(), &dir);
    assert!(files[0].file.starts_with("last~") && files[0].file.ends_with(".txt"));
    assert_eq!(files[0].original_name.as_ref().unwrap().chars().count(), 201);
    assert_eq!((files[1].file.as_str(), &files[1].original_name), ("plain.txt", &None));
    assert_eq!(files[2].file, "02");
    assert_eq!(files[2].original_name.as_deref(), Some("…"));
    assert_eq!(tree(&dir).len(), 62);
    assert!(begun.elapsed() < Duration::from_secs(60));
}

#[test]
fn a_report_lists_so_many_faults_and_counts_all() {
    let folder = tempfile::tempdir().unwrap();
    let (path, out) = (folder.path().join("a.iac"), folder.path().join("b.iac"));
    let offsets: ArrayRef = Arc::new(UInt64Array::from(vec![100; 60]));
    let lengths: ArrayRef = Arc::new(UInt32Array::from(vec![5; 60]));
    let index = RecordBatch::try_from_iter([("offset", offsets), ("length", lengths)]).unwrap();
    raw_pack(&path, json!({}), &index, b"hello");
    let mut options = SalvageOptions::default();
    options.max_lines = 10;
    let report = salvage(&path, &out, &options, &NoProgress).unwrap();
    assert_eq!((report.lines.len(), report.faults, report.dropped), (10, 60, 60));
    assert_eq!(report.notes.last().unwrap(), "50 more faults are not listed");
    let text = report.to_json_lines();
    assert_eq!(text.lines().count(), 11);
    let summary: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert_eq!(summary["summary"]["faults"], 60);
    assert!(!report.is_sound());
}

#[test]
fn of_many_columns_only_the_damaged_ones_are_lost() {
    let folder = tempfile::tempdir().unwrap();
    let (path, out) = (folder.path().join("a.iac"), folder.path().join("b.iac"));
    let columns: Vec<(String, ArrayRef)> = (0..400)
        .map(|number| {
            let column: ArrayRef = Arc::new(StringArray::from(vec![format!("text{number:04}")]));
            (format!("c{number}"), column)
        })
        .collect();
    let columns: Vec<(&str, ArrayRef)> =
        columns.iter().map(|(name, column)| (name.as_str(), Arc::clone(column))).collect();
    shared(&path, json!({}), &columns, b"hello", false);
    let mut bytes = fs::read(&path).unwrap();
    for number in [0, 6, 7, 250, 399] {
        let text = format!("text{number:04}");
        let at = bytes.windows(8).position(|window| window == text.as_bytes()).unwrap();
        bytes[at] = 0xff; // no UTF-8
    }
    fs::write(&path, bytes).unwrap();
    let report = run(&path, &out).unwrap();
    let lost: Vec<&str> = report.lines.iter().map(|line| line.field.as_deref().unwrap()).collect();
    assert_eq!(lost, ["c0", "c6", "c7", "c250", "c399"]);
    let saved = PackReader::open(&out).unwrap();
    let names: Vec<String> = view(&saved, "0").names()[1..].to_vec();
    let expected: Vec<String> = (0..400)
        .map(|number| format!("c{number}"))
        .filter(|name| !lost.contains(&name.as_str()))
        .chain(["offset", "length", "crc32"].map(str::to_owned))
        .collect();
    assert_eq!(names, expected);
    assert_eq!(saved.read(0).unwrap().as_ref(), b"hello");
}

#[test]
fn a_column_beyond_the_limits_of_memory_ends_salvage_and_nothing_is_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let (path, out) = (folder.path().join("a.iac"), folder.path().join("b.iac"));
    let endless: ArrayRef = Arc::new(NullArray::new(usize::MAX >> 4));
    let index = RecordBatch::try_from_iter([("x", endless)]).unwrap();
    raw_pack(&path, json!({}), &index, b"");
    let error = run(&path, &out).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Limit | ErrorKind::Unsupported), "{error}");
    assert_eq!(listing(folder.path()), ["a.iac"]);
}

#[test]
fn a_fixed_pack_whose_shape_is_wrong_has_one_error_not_one_for_each_row() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.iac");
    let rows: ArrayRef = Arc::new(NullArray::new(1 << 40));
    let index = RecordBatch::try_from_iter([("x", rows)]).unwrap();
    for (dim, record) in [(1, 4), (3, 4), (0, 4)] {
        let members =
            json!({"feature_dim": dim, "dtype": "float32", "feature_record_bytes": record});
        raw_pack(&path, members, &index, b"hello");
        let pack = PackReader::open(&path).unwrap();
        let options = DigestOptions::default();
        let error =
            digest(&pack, None, &options, &NoProgress, &mut |_| panic!("no row")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
    }
}

#[test]
fn records_that_overlap_are_not_written_out_without_permission() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.iac");
    let data = vec![7; 100_000];
    let ids: ArrayRef = Arc::new(Int32Array::from_iter_values(0..740));
    shared(&path, json!({"codec": "none"}), &[("n", ids)], &data, false);
    let pack = PackReader::open(&path).unwrap();
    let (dir, out) = (folder.path().join("dir"), folder.path().join("b.iac"));
    let options = ExtractOptions::default();
    let refused = [
        extract(&pack, None, &dir, &options, &NoProgress, &mut |_| Ok(())).unwrap_err(),
        run(&path, &out).unwrap_err(),
    ];
    for error in refused {
        assert_eq!(error.kind(), ErrorKind::Limit);
        let message = error.to_string();
        assert!(
            message.contains("74000000 bytes") && message.contains("100000 bytes"),
            "{message}"
        );
    }
    assert_eq!(listing(folder.path()), ["a.iac"]);
    // A few of them are what anybody may want.
    let few = RowSelection::parse("0..5").unwrap();
    extract(&pack, Some(&few), &dir, &options, &NoProgress, &mut |_| Ok(())).unwrap();
    assert_eq!(tree(&dir).len(), 5);
    let mut options = SalvageOptions::default().allow_expansion(true);
    options.write = options.write.sync(false);
    assert_eq!(salvage(&path, &out, &options, &NoProgress).unwrap().kept, 740);
}

#[cfg(unix)]
#[test]
fn a_pipe_in_the_place_of_a_file_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.iac");
    let names: ArrayRef = Arc::new(StringArray::from(vec!["one"]));
    shared(&path, json!({"codec": "none"}), &[("path", names)], b"hello", false);
    let dir = folder.path().join("dir");
    fs::create_dir(&dir).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(dir.join("one")).unwrap();
    let mut options = ExtractOptions::default();
    options.overwrite = true;
    let pack = PackReader::open(&path).unwrap();
    let error = extract(&pack, None, &dir, &options, &NoProgress, &mut |_| Ok(())).unwrap_err();
    assert!(error.to_string().ends_with("is not a regular file"), "{error}");
    assert_eq!(listing(&dir), ["one"]);
}
