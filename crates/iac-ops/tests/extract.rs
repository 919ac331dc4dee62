//! Records as files: whatever a pack says, nothing leaves the folder.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
#![allow(clippy::arithmetic_side_effects)]

mod common;

use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringArray};
use common::{golden, listing, tree};
use iac_ops::extract::{ExtractOptions, ExtractSummary, Extracted, extract};
use iac_ops::rows::RowSelection;
use iac_ops::{ErrorKind, NoProgress, Result};
use iac_reader::PackReader;
use iac_writer::{Table, WriteOptions, build_pack};
use serde_json::{Map, Value};

fn pack_of(path: &Path, payload_type: &str, column: &str, names: &[Option<&str>]) -> PackReader {
    let names_column: ArrayRef = Arc::new(StringArray::from(names.to_vec()));
    let index = Table::from(RecordBatch::try_from_iter([(column, names_column)]).unwrap());
    let mut header = Map::new();
    header.insert("payload_type".to_owned(), Value::from(payload_type));
    let payloads: Vec<String> = (0..names.len()).map(|row| format!("record {row}")).collect();
    build_pack(path, &header, &Table::empty(), &index, &payloads, &WriteOptions::new()).unwrap();
    PackReader::open(path).unwrap()
}

fn all(
    pack: &PackReader,
    dir: &Path,
    options: &ExtractOptions,
) -> Result<(ExtractSummary, Vec<Extracted>)> {
    let mut files = Vec::new();
    let summary = extract(pack, None, dir, options, &NoProgress, &mut |file| {
        files.push(file);
        Ok(())
    })?;
    Ok((summary, files))
}

const HOSTILE: [Option<&str>; 14] = [
    Some("../../x"),
    Some("/etc/passwd"),
    Some("a\0b"),
    Some("con"),
    Some(".."),
    Some("."),
    Some(""),
    None,
    Some("C:\\windows\\x"),
    Some("日本/größe"),
    Some("dots..."),
    Some("same"),
    Some("same"),
    Some("same/below"),
];

#[test]
fn hostile_names_stay_inside_the_folder() {
    for (payload_type, column) in [("raw_files", "path"), ("x", "path"), ("x", "item_id")] {
        let folder = tempfile::tempdir().unwrap();
        let inside = folder.path().join("in/side");
        fs::create_dir_all(&inside).unwrap();
        let pack = pack_of(&inside.join("p.iac"), payload_type, column, &HOSTILE);
        let dir = inside.join("dir");
        let (summary, files) = all(&pack, &dir, &ExtractOptions::default()).unwrap();
        assert_eq!(summary.files, HOSTILE.len() as u64);
        assert_eq!(listing(folder.path()), ["in"]);
        assert_eq!(listing(&folder.path().join("in")), ["side"]);
        assert_eq!(listing(&inside), ["dir", "p.iac"]);
        let found = tree(&dir);
        assert_eq!(found.len(), HOSTILE.len());
        for (row, file) in files.iter().enumerate() {
            assert_eq!(file.row, row as u64);
            assert_eq!(found[&file.file], format!("record {row}").as_bytes());
            let original = HOSTILE[row].filter(|name| !name.is_empty() && *name != file.file);
            assert_eq!(file.original_name.as_deref(), original);
        }
        assert_eq!(files[6].file, "06");
        assert_eq!(files[7].file, "07");
        assert_eq!(files[12].file, "same_2");
    }
}

#[test]
fn very_long_names_are_shortened() {
    let folder = tempfile::tempdir().unwrap();
    let (a, b) = ("n".repeat(5000) + "a.txt", "n".repeat(5000) + "b.txt");
    let pack = pack_of(&folder.path().join("p.iac"), "x", "item_id", &[Some(&a), Some(&b)]);
    let (_, files) = all(&pack, &folder.path().join("dir"), &ExtractOptions::default()).unwrap();
    assert_ne!(files[0].file, files[1].file);
    assert!(files.iter().all(|file| file.file.len() < 250 && file.file.ends_with(".txt")));
}

#[cfg(unix)]
#[test]
fn links_below_the_folder_are_not_followed() {
    use std::os::unix::fs::symlink;
    let folder = tempfile::tempdir().unwrap();
    let (dir, outside) = (folder.path().join("dir"), folder.path().join("outside"));
    fs::create_dir(&dir).unwrap();
    fs::create_dir(&outside).unwrap();
    symlink(&outside, dir.join("link")).unwrap();
    let pack =
        pack_of(&folder.path().join("p.iac"), "raw_files", "path", &[Some("a"), Some("link/x")]);
    let mut options = ExtractOptions::default();
    for overwrite in [false, true] {
        options.overwrite = overwrite;
        let error = all(&pack, &dir, &options).unwrap_err();
        assert!(error.to_string().contains("symbolic link"), "{error}");
        assert!(listing(&outside).is_empty());
        assert_eq!(listing(&dir), ["link"]);
    }
    // A link in a file's own place is replaced, not written through.
    let target = outside.join("target");
    fs::write(&target, "precious").unwrap();
    symlink(&target, dir.join("a")).unwrap();
    let rows = RowSelection::parse("0").unwrap();
    options.overwrite = false;
    let error = extract(&pack, Some(&rows), &dir, &options, &NoProgress, &mut |_| Ok(()));
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Exists);
    options.overwrite = true;
    extract(&pack, Some(&rows), &dir, &options, &NoProgress, &mut |_| Ok(())).unwrap();
    assert_eq!(fs::read(&target).unwrap(), b"precious");
    assert_eq!(fs::read(dir.join("a")).unwrap(), b"record 0");
    assert!(!dir.join("a").is_symlink());
}

#[test]
fn existing_files_are_refused_before_anything_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("dir");
    fs::create_dir(&dir).unwrap();
    fs::write(dir.join("b"), "old").unwrap();
    let pack = pack_of(&folder.path().join("p.iac"), "x", "item_id", &[Some("a"), Some("b")]);
    let mut options = ExtractOptions::default();
    let error = all(&pack, &dir, &options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exists);
    assert_eq!(error.path(), Some(dir.join("b").as_path()));
    assert_eq!(listing(&dir), ["b"]);
    options.overwrite = true;
    all(&pack, &dir, &options).unwrap();
    assert_eq!(fs::read(dir.join("b")).unwrap(), b"record 1");

    fs::remove_file(dir.join("a")).unwrap();
    fs::create_dir(dir.join("a")).unwrap();
    let error = all(&pack, &dir, &options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
    let error = all(&pack, &dir.join("b"), &options).unwrap_err();
    assert!(error.to_string().contains("not a folder"), "{error}");
}

#[test]
fn selected_rows_come_in_their_order_and_duplicates_get_a_number() {
    let folder = tempfile::tempdir().unwrap();
    let pack = PackReader::open(golden("none_a")).unwrap();
    let rows = RowSelection::parse("3,1,3").unwrap();
    let mut files = Vec::new();
    let options = ExtractOptions::default();
    extract(&pack, Some(&rows), folder.path(), &options, &NoProgress, &mut |file| {
        files.push((file.row, file.file));
        Ok(())
    })
    .unwrap();
    assert_eq!(files, [(3, "r3".to_owned()), (1, "r1".to_owned()), (3, "r3_2".to_owned())]);
    let rows = RowSelection::parse("6").unwrap();
    let error = extract(&pack, Some(&rows), folder.path(), &options, &NoProgress, &mut |_| Ok(()));
    assert_eq!(error.unwrap_err().kind(), ErrorKind::RowOutOfRange);
}

#[test]
fn packs_without_names_use_row_numbers_and_any_column_can_name() {
    let folder = tempfile::tempdir().unwrap();
    let pack = PackReader::open(golden("no_columns_a")).unwrap();
    let (summary, files) =
        all(&pack, &folder.path().join("a"), &ExtractOptions::default()).unwrap();
    assert_eq!(summary.files, pack.num_records().unwrap());
    assert!(files.iter().all(|file| file.file == file.row.to_string()));

    let pack = PackReader::open(golden("column_types_a")).unwrap();
    let mut options = ExtractOptions::default();
    options.name_column = Some("date".to_owned());
    let (_, files) = all(&pack, &folder.path().join("b"), &options).unwrap();
    assert_eq!(files[0].file, "2022-01-08");
    options.name_column = Some("nope".to_owned());
    let error = all(&pack, &folder.path().join("c"), &options).unwrap_err();
    assert_eq!((error.kind(), error.field()), (ErrorKind::Usage, Some("nope")));
    assert!(!folder.path().join("c").exists());
}

#[test]
fn fixed_rows_are_files_of_their_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let pack = PackReader::open(golden("fixed_float16_5x8_a")).unwrap();
    let (summary, _) = all(&pack, folder.path(), &ExtractOptions::default()).unwrap();
    assert_eq!((summary.files, summary.bytes), (5, 80));
    assert_eq!(fs::read(folder.path().join("r2")).unwrap(), pack.read(2).unwrap());
}

#[test]
fn no_file_behind_a_damaged_record_appears_on_any_number_of_threads() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("many.iac");
    let ids = StringArray::from_iter_values((0..60).map(|row| format!("r{row:02}")));
    let index = RecordBatch::try_from_iter([("id", Arc::new(ids) as ArrayRef)]).unwrap();
    let records = vec![vec![1_u8; 500]; 60];
    let options = WriteOptions::new().sync(false);
    let none = Table::empty();
    build_pack(&path, &Map::new(), &none, &index.into(), &records, &options).unwrap();
    let mut bytes = fs::read(&path).unwrap();
    let pack = PackReader::open(&path).unwrap();
    let bad = pack.layout().data.offset + pack.span(9).unwrap().offset;
    bytes[usize::try_from(bad).unwrap()] ^= 1;
    fs::write(&path, bytes).unwrap();
    let pack = PackReader::open(&path).unwrap();
    for workers in [1, 2, 3, 8] {
        let dir = folder.path().join(workers.to_string());
        let mut options = ExtractOptions::default();
        options.workers = NonZeroUsize::new(workers);
        assert_eq!(all(&pack, &dir, &options).unwrap_err().row(), Some(9));
        assert_eq!(listing(&dir).len(), 9, "{workers} workers");
    }
}

#[test]
fn a_damaged_record_ends_the_call_and_no_partial_file_appears() {
    let folder = tempfile::tempdir().unwrap();
    let pack = PackReader::open(golden("crc_mismatch_a")).unwrap();
    let error = all(&pack, folder.path(), &ExtractOptions::default()).unwrap_err();
    assert_eq!((error.kind(), error.row()), (ErrorKind::Checksum, Some(2)));
    assert!(listing(folder.path()).iter().all(|name| !name.ends_with(".part")));
    assert_eq!(listing(folder.path()).len(), 2, "those before the bad one");
    let segment = PackReader::open(golden("data_segment_a")).unwrap();
    let error = all(&segment, folder.path(), &ExtractOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoRecordIndex);
}
