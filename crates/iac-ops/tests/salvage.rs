//! Getting what is sound out of packs that were cut or altered.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
#![allow(clippy::arithmetic_side_effects)]

mod common;

use std::fs;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int32Array, RecordBatch, StringArray};
use common::{golden, listing};
use iac_ops::salvage::{Action, SalvageOptions, SalvageReport, salvage};
use iac_ops::view::{TableQuery, TableView};
use iac_ops::{Cancel, ErrorKind, NoProgress, Result, TableKind};
use iac_reader::{PackReader, VerifyOptions};
use iac_writer::{Table, WriteOptions, build_pack, build_pack_data_segment};
use serde_json::{Map, Value, json};

/// The same pack in memory, where nothing happens to it.
fn sample_in_memory(path: &Path) -> PackReader {
    sample(path);
    PackReader::from_bytes(fs::read(path).unwrap()).unwrap()
}

fn run(path: &Path, out: &Path) -> Result<SalvageReport> {
    salvage(path, out, &SalvageOptions::default(), &NoProgress)
}

fn table(pack: &PackReader, kind: TableKind) -> Vec<Vec<Value>> {
    let mut query = TableQuery::default();
    query.table = kind;
    let mut rows = Vec::new();
    TableView::new(pack, &query)
        .unwrap()
        .for_each_row(&NoProgress, &mut |_, values| {
            rows.push(values[1..].to_vec());
            Ok(())
        })
        .unwrap();
    rows
}

fn batch(count: i32) -> RecordBatch {
    let ids: ArrayRef =
        Arc::new(StringArray::from_iter_values((0..count).map(|row| format!("id{row}"))));
    let numbers: ArrayRef = Arc::new(Int32Array::from_iter_values(0..count));
    RecordBatch::try_from_iter([("item_id", ids), ("number", numbers)]).unwrap()
}

/// A pack of ours with two batches and slides.
fn sample(path: &Path) -> PackReader {
    let index = Table::new(batch(1).schema(), vec![batch(20), batch(30)]).unwrap();
    let payloads: Vec<Vec<u8>> = (0..50_u8).map(|row| vec![row; usize::from(row) * 3]).collect();
    let mut header = Map::new();
    header.insert("payload_type".to_owned(), json!("x"));
    header.insert("note".to_owned(), json!({"a": [1, 2.5]}));
    let slides = Table::from(batch(2));
    build_pack(path, &header, &slides, &index, &payloads, &WriteOptions::new()).unwrap();
    PackReader::open(path).unwrap()
}

fn assert_sound(out: &Path) -> PackReader {
    let pack = PackReader::open(out).unwrap();
    let report = pack.verify(&VerifyOptions::default());
    assert!(report.is_sound(), "{:?}", report.faults);
    pack
}

/// Flips one byte.
fn damage(path: &Path, at: u64) {
    let mut bytes = fs::read(path).unwrap();
    bytes[usize::try_from(at).unwrap()] ^= 0x40;
    fs::write(path, bytes).unwrap();
}

#[test]
fn a_sound_pack_is_copied_whole() {
    let folder = tempfile::tempdir().unwrap();
    let (path, out) = (folder.path().join("a.iac"), folder.path().join("b.iac"));
    sample(&path);
    let report = run(&path, &out).unwrap();
    assert!(report.is_sound(), "{:?}", report.lines);
    assert_eq!((report.rows, report.kept, report.dropped), (50, 50, 0));
    assert!(report.notes.is_empty());
    assert_eq!(fs::read(&path).unwrap(), fs::read(&out).unwrap());
    assert_eq!(
        report.to_json_lines(),
        "{\"summary\":{\"dropped\":0,\"faults\":0,\"kept\":50,\"packs\":1,\"rows\":50}}\n"
    );
}

#[test]
fn damaged_records_are_dropped_with_their_rows() {
    let folder = tempfile::tempdir().unwrap();
    let (path, out) = (folder.path().join("a.iac"), folder.path().join("b.iac"));
    let sound = sample_in_memory(&path);
    let rows = table(&sound, TableKind::Index);
    let slides = table(&sound, TableKind::Slide);
    for row in [3, 19, 20, 44] {
        damage(&path, sound.layout().data.offset + sound.span(row).unwrap().offset);
    }
    let report = run(&path, &out).unwrap();
    assert_eq!((report.rows, report.kept, report.dropped), (50, 46, 4));
    let lines: Vec<_> =
        report.lines.iter().map(|line| (line.check, line.row, line.action)).collect();
    let dropped = |row| ("checksum", Some(row), Action::Dropped);
    assert_eq!(lines, [dropped(3), dropped(19), dropped(20), dropped(44)]);
    let text = report.to_json_lines();
    let first: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert_eq!(first["row"], 3);
    assert_eq!(first["action"], "dropped");
    assert_eq!(first["field"], "crc32");
    assert_eq!(first["path"], path.to_str().unwrap());
    assert_eq!(first["check"], "checksum");
    assert_eq!(text.lines().count(), 5);

    let saved = assert_sound(&out);
    assert_eq!(table(&saved, TableKind::Slide), slides);
    assert_eq!(saved.header().get("note"), sound.header().get("note"));
    let kept: Vec<u64> = (0..50).filter(|row| ![3, 19, 20, 44].contains(row)).collect();
    for (new, old) in (0_u64..).zip(&kept) {
        assert_eq!(saved.read(new).unwrap(), sound.read(*old).unwrap());
    }
    let found = table(&saved, TableKind::Index);
    for (new, old) in kept.iter().enumerate() {
        let old = usize::try_from(*old).unwrap();
        assert_eq!(found[new][..2], rows[old][..2]);
    }
    assert_eq!(saved.index_table().unwrap().batch_rows(), [18, 28]);
}

#[test]
fn a_cut_file_keeps_what_lies_in_front_of_the_cut() {
    let folder = tempfile::tempdir().unwrap();
    let (path, out) = (folder.path().join("a.iac"), folder.path().join("b.iac"));
    let sound = sample_in_memory(&path);
    let whole = fs::read(&path).unwrap();
    let data = sound.layout().data;
    for left in [0, 1, 100, data.length / 2, data.length - 1] {
        let cut = usize::try_from(data.offset + left).unwrap();
        fs::write(&path, &whole[..cut]).unwrap();
        let mut options = SalvageOptions::default();
        options.write = options.write.overwrite(true);
        let report = salvage(&path, &out, &options, &NoProgress).unwrap();
        let fitting = (0..50)
            .filter(|row| {
                let span = sound.span(*row).unwrap();
                span.offset + span.length <= left
            })
            .count() as u64;
        assert_eq!(report.kept, fitting, "{left} bytes left");
        assert_eq!(report.lines[0].field.as_deref(), Some("data_length"));
        assert_eq!(report.lines[0].action, Action::Kept);
        assert_eq!(assert_sound(&out).num_records().unwrap(), fitting);
    }
    fs::write(&path, &whole[..usize::try_from(data.offset).unwrap() - 1]).unwrap();
    let error = run(&path, &folder.path().join("c.iac")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damaged);
    assert!(!folder.path().join("c.iac").exists());
}

#[test]
fn no_altered_byte_makes_wrong_records_and_most_lose_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (path, out) = (folder.path().join("a.iac"), folder.path().join("b.iac"));
    let sound = sample_in_memory(&path);
    let whole = fs::read(&path).unwrap();
    let layout = sound.layout();
    let text_end = 16 + sound.header().text().len() as u64;
    let mut options = SalvageOptions::default();
    options.write = options.write.overwrite(true).sync(false);
    let mut saved_packs = 0;
    let places = (0..text_end)
        .chain(layout.slide_table.offset..layout.data.offset)
        .step_by(7)
        .chain((layout.data.offset..layout.end()).step_by(211));
    let mut tried = 0;
    for at in places {
        tried += 1;
        let mut bytes = whole.clone();
        bytes[usize::try_from(at).unwrap()] ^= 0x04;
        fs::write(&path, bytes).unwrap();
        let Ok(report) = salvage(&path, &out, &options, &NoProgress) else {
            continue;
        };
        saved_packs += 1;
        assert!(!report.is_sound(), "byte {at}");
        let saved = assert_sound(&out);
        assert_eq!(saved.num_records().unwrap(), report.kept);
        // Row by row the same bytes as some record of the original, in order.
        let mut old = 0;
        for new in 0..report.kept {
            let record = saved.read(new).unwrap();
            while sound.read(old).unwrap() != record {
                old += 1;
            }
            old += 1;
        }
    }
    assert!(saved_packs * 3 > tried, "{saved_packs} of {tried}");
}

#[test]
fn one_altered_byte_of_the_header_is_put_right() {
    let folder = tempfile::tempdir().unwrap();
    let (path, out) = (folder.path().join("a.iac"), folder.path().join("b.iac"));
    let sound = sample_in_memory(&path);
    let whole = fs::read(&path).unwrap();
    let text = sound.header().text();
    let mut options = SalvageOptions::default();
    options.write = options.write.overwrite(true);
    let cut = whole.len() - 10;
    for (place, length) in [("\"data_offset\": ", whole.len()), ("payload_", cut), ("IatroCa", cut)]
    {
        let at = 16 + text.find(place).unwrap() + place.len();
        let mut bytes = whole.clone();
        bytes[at] ^= 0x05;
        fs::write(&path, &bytes[..length]).unwrap();
        let report = salvage(&path, &out, &options, &NoProgress).unwrap();
        assert!(report.lines[0].message.contains("checksum fits"), "{:?}", report.lines);
        assert_eq!(report.dropped, u64::from(length == cut));
        assert_eq!(assert_sound(&out).header().get("payload_type"), Some(&json!("x")));
    }
}

#[test]
fn an_unreadable_column_is_dropped_and_the_records_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let (path, out) = (folder.path().join("a.iac"), folder.path().join("b.iac"));
    let sound = sample(&path);
    let index = sound.layout().index_table;
    let bytes = fs::read(&path).unwrap();
    let at = bytes.windows(6).rposition(|window| window == b"id0id1").unwrap();
    assert!((index.offset..index.end().unwrap()).contains(&(at as u64)));
    let mut bytes = bytes;
    bytes[at] = 0xff; // no UTF-8
    fs::write(&path, bytes).unwrap();
    let report = run(&path, &out).unwrap();
    let lines: Vec<_> =
        report.lines.iter().map(|line| (line.check, line.field.as_deref(), line.action)).collect();
    assert_eq!(
        lines,
        [("checksum", None, Action::Kept), ("table", Some("item_id"), Action::Dropped)]
    );
    assert_eq!(report.kept, 50);
    let saved = assert_sound(&out);
    assert!(saved.index_table().unwrap().schema().column_with_name("item_id").is_none());
    assert_eq!(table(&saved, TableKind::Index)[7][0], json!(7));
}

#[test]
fn goldens_of_the_reference_are_salvaged_record_by_record() {
    let folder = tempfile::tempdir().unwrap();
    for name in [
        "none_a",
        "tol_signed_no_crc_a",
        "column_types_a",
        "chunked_a",
        "zero_length_a",
        "tol_shared_spans_a",
        "no_columns_a",
        "zstd_a0",
        "header_full_a",
        "many_slides_a",
        "codec_unknown_a",
        "fixed_float16_5x8_a",
        "fixed_float32_3x0_a",
        "data_segment_a",
    ] {
        let out = folder.path().join(format!("{name}.iac"));
        let report = run(&golden(name), &out).unwrap();
        assert!(report.is_sound(), "{name}: {:?}", report.lines);
        assert_eq!(report.dropped, 0);
        let (old, new) = (PackReader::open(golden(name)).unwrap(), assert_sound(&out));
        assert_eq!(new.num_records().unwrap(), old.num_records().unwrap());
        assert_eq!(new.kind().unwrap(), old.kind().unwrap(), "{name}");
        assert_eq!(table(&new, TableKind::Slide), table(&old, TableKind::Slide));
        if old.read(0).is_ok() {
            for row in 0..old.num_records().unwrap() {
                assert_eq!(new.read(row).unwrap(), old.read(row).unwrap(), "{name}");
            }
        } else {
            let length = old.layout().data.length;
            let whole = |pack: &PackReader| pack.read_data_span(0, length).unwrap();
            assert_eq!(whole(&new), whole(&old), "{name}");
        }
        for (member, value) in old.header().members() {
            let layout = member.ends_with("_length") || member.ends_with("_offset");
            if !layout && member != "extensions" && member != "checksums" {
                assert_eq!(new.header().get(member), Some(value), "{name}: {member}");
            }
        }
    }
    let report = run(&golden("crc_mismatch_a"), &folder.path().join("crc.iac")).unwrap();
    assert_eq!((report.kept, report.lines.len(), report.lines[0].row), (2, 1, Some(2)));
    let report = run(&golden("cut_in_data_a"), &folder.path().join("cut.iac")).unwrap();
    assert!(report.dropped > 0);
    let report = run(&golden("tol_signed_no_crc_a"), &folder.path().join("nocrc.iac")).unwrap();
    assert!(report.notes[0].contains("unchecked"));
}

#[test]
fn damaged_and_cut_rows_of_fixed_packs_are_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let (path, out) = (folder.path().join("a.iac"), folder.path().join("b.iac"));
    let mut header = Map::new();
    for (name, value) in [
        ("payload_type", json!("f")),
        ("feature_dim", json!(4)),
        ("dtype", json!("uint8")),
        ("feature_record_bytes", json!(4)),
    ] {
        header.insert(name.to_owned(), value);
    }
    let data: Vec<u8> = (0..40).collect();
    let index = Table::from(batch(10));
    let options = WriteOptions::new();
    build_pack_data_segment(&path, &header, &Table::empty(), &index, &data, &options).unwrap();
    let start = PackReader::open(&path).unwrap().layout().data.offset;
    damage(&path, start + 9);
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() - 5]).unwrap();
    let report = run(&path, &out).unwrap();
    assert_eq!((report.kept, report.dropped), (7, 3));
    let saved = assert_sound(&out);
    assert_eq!(saved.read(2).unwrap().as_ref(), [12, 13, 14, 15]);
    let rows = table(&saved, TableKind::Index);
    assert_eq!(rows[2][..2], [json!("id3"), json!(3)]);
    assert_eq!(listing(folder.path()), ["a.iac", "b.iac"]);
}

#[test]
fn a_damaged_segment_without_records_is_beyond_salvage() {
    let folder = tempfile::tempdir().unwrap();
    let (path, out) = (folder.path().join("a.iac"), folder.path().join("b.iac"));
    let index = Table::from(batch(3));
    build_pack_data_segment(
        &path,
        &Map::new(),
        &Table::empty(),
        &index,
        b"some data",
        &WriteOptions::new(),
    )
    .unwrap();
    let whole = fs::read(&path).unwrap();
    assert!(run(&path, &folder.path().join("sound.iac")).unwrap().is_sound());
    for bytes in [whole[..whole.len() - 1].to_vec(), {
        let mut altered = whole.clone();
        *altered.last_mut().unwrap() ^= 1;
        altered
    }] {
        fs::write(&path, bytes).unwrap();
        let error = run(&path, &out).unwrap_err();
        assert!(error.to_string().contains("nothing can be salvaged"), "{error}");
        assert!(!out.exists());
    }
}

#[test]
fn what_is_no_pack_is_told_and_destinations_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let (path, out) = (folder.path().join("a.iac"), folder.path().join("b.iac"));
    fs::write(&path, "PK\x03\x04").unwrap();
    assert_eq!(run(&path, &out).unwrap_err().kind(), ErrorKind::NotIac);
    let missing = run(&folder.path().join("no"), &out).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::Io);
    fs::write(&out, "old").unwrap();
    assert_eq!(run(&golden("none_a"), &out).unwrap_err().kind(), ErrorKind::Exists);
    assert_eq!(fs::read(&out).unwrap(), b"old");
    let cancel = Cancel::new();
    cancel.cancel();
    let other = folder.path().join("c.iac");
    let error = salvage(&golden("none_a"), &other, &SalvageOptions::default(), &cancel);
    assert!(error.unwrap_err().is_cancelled());
    assert_eq!(listing(folder.path()), ["a.iac", "b.iac"]);
}
