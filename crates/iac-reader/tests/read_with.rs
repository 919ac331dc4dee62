//! Work on decoded records on the threads that decode them.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use std::num::NonZeroUsize;
use std::path::Path;

use iac_format::ErrorKind;
use iac_reader::{ReadOptions, RecordOptions, SourceKind, VariableRecordPack};

/// A golden pack of byte records, and what reading it record by record gives.
fn golden() -> (std::path::PathBuf, Vec<Vec<u8>>) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/container");
    let mut packs: Vec<std::path::PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "iac"))
        .collect();
    packs.sort();
    for path in packs {
        let Ok(pack) = VariableRecordPack::open(&path) else { continue };
        let rows = pack.record_count().unwrap_or(0);
        let records: Result<Vec<Vec<u8>>, _> =
            (0..rows).map(|row| pack.read(row).map(|record| record.to_vec())).collect();
        if let Ok(records) = records
            && records.len() > 3
            && pack.codec_spec().unwrap().name() != "none"
        {
            return (path, records);
        }
    }
    panic!("no golden pack of encoded bytes");
}

#[test]
fn results_come_in_the_order_asked_for_whatever_the_source() {
    let (path, records) = golden();
    let count = u64::try_from(records.len()).unwrap();
    let rows: Vec<u64> = (0..count).rev().chain(0..count).chain([1, 1]).collect();
    for source in [SourceKind::Mapped, SourceKind::Positional] {
        for workers in [1, 2, 4] {
            let options = ReadOptions::default().source(source).workers(NonZeroUsize::new(workers));
            let pack =
                VariableRecordPack::open_with(&path, &options, RecordOptions::default()).unwrap();
            let seen = pack.read_many_with(&rows, |row, record| (row, record.to_vec())).unwrap();
            assert_eq!(seen.len(), rows.len());
            for (row, (said, record)) in rows.iter().zip(&seen) {
                assert_eq!((said, record), (row, &records[usize::try_from(*row).unwrap()]));
            }
            assert!(pack.read_many_with(&[], |_, _| ()).unwrap().is_empty());
        }
    }
}

#[test]
fn one_bad_row_fails_the_whole_call() {
    let (path, records) = golden();
    let pack = VariableRecordPack::open(&path).unwrap();
    let behind = u64::try_from(records.len()).unwrap();
    let error = pack.read_many_with(&[0, behind], |_, _| ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::RowOutOfRange);
}
