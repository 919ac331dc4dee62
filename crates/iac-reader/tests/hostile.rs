//! Damaged packs: every cut and every altered byte of a small one.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, missing_docs)]
#![allow(clippy::arithmetic_side_effects, clippy::cast_possible_truncation)]

mod common;

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringArray, UInt32Array};
use bytes::Bytes;
use iac_reader::{PackReader, Result, VerifyOptions};
use iac_writer::{Table, WriteOptions, build_pack, build_pack_data_segment};
use serde_json::{Map, json};

/// Everything that a reader can say about a pack.
#[derive(Debug, PartialEq)]
struct Content {
    header: serde_json::Value,
    slides: Vec<RecordBatch>,
    index: Vec<RecordBatch>,
    records: Vec<Bytes>,
}

fn read_all(bytes: Bytes) -> Result<Content> {
    let pack = PackReader::from_bytes(bytes)?;
    let slides = pack.slide_table()?.batches()?.to_vec();
    let index = pack.index_table()?.batches()?.to_vec();
    let rows: Vec<u64> = (0..pack.num_records()?).collect();
    let records = match pack.kind()? {
        iac_reader::PackKind::Segment => vec![pack.read_data_span(0, pack.layout().data.length)?],
        _ => pack.read_rows(&rows)?,
    };
    Ok(Content { header: pack.header().members().clone().into(), slides, index, records })
}

fn slides() -> Table {
    let ids = StringArray::from(vec!["s-1", "s-2"]);
    Table::from(RecordBatch::try_from_iter([("slide_id", Arc::new(ids) as ArrayRef)]).unwrap())
}

fn index() -> Table {
    let ids = StringArray::from(vec![Some("a"), None, Some("c")]);
    let numbers = UInt32Array::from(vec![7, 8, 9]);
    Table::from(
        RecordBatch::try_from_iter([
            ("item_id", Arc::new(ids) as ArrayRef),
            ("level", Arc::new(numbers) as ArrayRef),
        ])
        .unwrap(),
    )
}

/// One pack of each kind.
fn small_packs() -> Vec<(&'static str, Vec<u8>)> {
    let folder = tempfile::tempdir().unwrap();
    let options = WriteOptions::default().sync(false);
    let header: Map<String, serde_json::Value> =
        json!({"payload_type": "test", "note": "é", "list": [1, 2.5]}).as_object().unwrap().clone();
    let variable = folder.path().join("variable.iac");
    build_pack(&variable, &header, &slides(), &index(), &["alpha", "", "gamma ray"], &options)
        .unwrap();
    let fixed = folder.path().join("fixed.iac");
    let mut members = header.clone();
    members.insert("feature_record_bytes".to_owned(), json!(8));
    members.insert("feature_dim".to_owned(), json!(2));
    members.insert("dtype".to_owned(), json!("float32"));
    build_pack_data_segment(&fixed, &members, &slides(), &index(), &[3; 24], &options).unwrap();
    let segment = folder.path().join("segment.iac");
    build_pack_data_segment(&segment, &header, &slides(), &index(), b"some data", &options)
        .unwrap();
    [("variable", variable), ("fixed", fixed), ("segment", segment)]
        .map(|(name, path)| (name, std::fs::read(path).unwrap()))
        .to_vec()
}

#[test]
fn every_cut_of_a_pack_is_an_error() {
    for (name, bytes) in small_packs() {
        let whole = Bytes::from(bytes);
        assert!(read_all(whole.clone()).is_ok());
        let cuts = (0..200).chain(65_400..whole.len());
        for length in cuts {
            assert!(read_all(whole.slice(..length)).is_err(), "{name}: {length} bytes");
        }
    }
}

#[test]
fn no_altered_byte_gives_wrong_data() {
    for (name, bytes) in small_packs() {
        let good = read_all(Bytes::from(bytes.clone())).unwrap();
        let text_end = 16 + u32::from_le_bytes(*bytes[8..].first_chunk().unwrap()) as usize;
        let covered = (0..text_end + 64).chain(65_536..bytes.len());
        for position in covered {
            for flip in [0x01, 0x80, 0xff] {
                let mut altered = bytes.clone();
                altered[position] ^= flip;
                let altered = Bytes::from(altered);
                let found = read_all(altered.clone());
                let is_segment_data = name == "segment" && position >= bytes.len() - 9;
                let is_padding = (text_end..65_536).contains(&position);
                if is_segment_data {
                    // Spans of a segment are not compared on reading; `verify` does that.
                    let report =
                        PackReader::from_bytes(altered).unwrap().verify(&VerifyOptions::default());
                    assert_eq!(report.total_faults, 1, "{name}: byte {position} ^ {flip}");
                } else if is_padding {
                    assert_eq!(found.unwrap(), good, "{name}: byte {position} ^ {flip}");
                } else {
                    assert!(found.is_err(), "{name}: byte {position} ^ {flip}");
                }
            }
        }
    }
}

#[test]
fn no_altered_byte_of_a_foreign_pack_stops_the_process() {
    // Without checksums over the tables wrong values can pass; nothing may panic or hang.
    for name in ["build_pack_a", "fixed_float16_5x8_a", "tol_ipc_compressed_a", "chunked_a"] {
        let bytes =
            std::fs::read(common::data_dir("container").join(format!("{name}.iac"))).unwrap();
        let text_end = 16 + u32::from_le_bytes(*bytes[8..].first_chunk().unwrap()) as usize;
        for position in (0..text_end).chain(65_536..bytes.len()) {
            for flip in [0x01, 0x80, 0xff] {
                let mut altered = bytes.clone();
                altered[position] ^= flip;
                let altered = Bytes::from(altered);
                let _ = read_all(altered.clone());
                if let Ok(pack) = PackReader::from_bytes(altered) {
                    let _ = pack.verify(&VerifyOptions::default());
                }
            }
        }
    }
}

#[test]
fn rows_beyond_the_table_are_named() {
    for (name, bytes) in small_packs() {
        let pack = PackReader::from_bytes(bytes).unwrap();
        for row in [3, u64::MAX] {
            let error = pack.read_rows(&[0, row]).unwrap_err();
            if name == "segment" {
                assert_eq!(error.kind(), iac_format::ErrorKind::NoRecordIndex);
            } else {
                assert_eq!(error.kind(), iac_format::ErrorKind::RowOutOfRange);
                assert_eq!(error.row(), Some(row));
            }
        }
    }
}
