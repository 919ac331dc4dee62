//! Packs that are opened although they are damaged.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
#![allow(clippy::arithmetic_side_effects)]

mod common;

use std::sync::Arc;

use bytes::Bytes;
use common::data_dir;
use iac_format::ErrorKind;
use iac_reader::{Memory, PackReader, ReadOptions, Result, SourceKind};

fn open(bytes: Vec<u8>, rescue: bool) -> Result<PackReader> {
    let source = Arc::new(Memory::new(Bytes::from(bytes)));
    PackReader::from_source(source, "memory", &ReadOptions::default().rescue(rescue))
}

fn golden(name: &str) -> Vec<u8> {
    std::fs::read(data_dir("container").join(name)).unwrap()
}

#[test]
fn records_in_front_of_the_cut_stay_readable() {
    let whole = golden("none_a.iac");
    let sound = open(whole.clone(), false).unwrap();
    let rows = sound.num_records().unwrap();
    let data = sound.layout().data;
    for left in 0..data.length {
        let cut = whole[..usize::try_from(data.offset + left).unwrap()].to_vec();
        assert!(open(cut.clone(), false).is_err());
        if left % 97 != 0 && left + 97 < data.length {
            continue;
        }
        let pack = open(cut, true).unwrap();
        assert_eq!(pack.damage().len(), 1);
        assert_eq!(pack.damage()[0].field(), Some("data_length"));
        for row in 0..rows {
            let span = sound.span(row).unwrap();
            match pack.read(row) {
                Ok(record) => assert_eq!(record, sound.read(row).unwrap()),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Damaged);
                    assert!(span.offset + span.length > left);
                }
            }
        }
    }
}

#[test]
fn fixed_rows_in_front_of_the_cut_stay_readable() {
    let whole = golden("fixed_float16_5x8_a.iac");
    let sound = open(whole.clone(), false).unwrap();
    let cut = whole[..whole.len() - 17].to_vec();
    let pack = open(cut, true).unwrap();
    for row in 0..3 {
        assert_eq!(pack.read(row).unwrap(), sound.read(row).unwrap());
    }
    for row in 3..5 {
        assert_eq!(pack.read(row).unwrap_err().kind(), ErrorKind::Damaged);
    }
    assert_eq!(pack.read(5).unwrap_err().kind(), ErrorKind::RowOutOfRange);
}

#[test]
fn a_wrong_row_count_is_told_and_not_refused() {
    let mut bytes = golden("none_a.iac");
    let text = b"\"num_records\": 6";
    let at = bytes.windows(text.len()).position(|window| window == text).unwrap();
    bytes[at + text.len() - 1] = b'7';
    assert!(open(bytes.clone(), false).unwrap().num_records().is_err());
    let pack = open(bytes, true).unwrap();
    assert_eq!(pack.num_records().unwrap(), 6);
    assert_eq!(pack.index_table().unwrap().damage()[0].field(), Some("num_records"));
    assert!(pack.slide_table().unwrap().damage().is_empty());
}

#[test]
fn files_are_rescued_as_memory_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cut.iac");
    let whole = golden("none_a.iac");
    std::fs::write(&path, &whole[..whole.len() - 1]).unwrap();
    for source in [SourceKind::Mapped, SourceKind::Positional] {
        let options = ReadOptions::default().source(source);
        assert!(PackReader::open_with(&path, &options).is_err());
        let pack = PackReader::open_with(&path, &options.rescue(true)).unwrap();
        assert!(pack.read(4).is_ok());
        assert!(pack.read(5).is_err());
    }
}
