//! Whole pack: opening, tables, spans, all ways of reading and verifying never do more than fail,
//! say the same about the same record, and a pack that is called sound can be read whole.
//!
//! An input holds the parts of a pack (see `pack_input`).
#![no_main]

use std::num::NonZeroUsize;
use std::sync::Arc;

use bytes::Bytes;
use iac_format::{FormatError, TableKind};
use iac_fuzz::{Copied, Limited, assemble, seeds};
use iac_reader::{
    Advice, Memory, PackKind, PackReader, ReadError, ReadOptions, Table, VerifyOptions,
    VerifyReport,
};
use libfuzzer_sys::fuzz_target;

#[global_allocator]
static ALLOCATOR: Limited = Limited;

/// Rows that are read one by one.
const ROWS: u64 = 64;

fuzz_target!(
    init: seeds::write(seeds::pack_inputs),
    |input: &[u8]| {
        let Some(file) = assemble(input) else { return };
        let file = Bytes::from(file);
        let shared = Arc::new(Memory::new(file.clone()));
        let copied = Arc::new(Copied(file.clone()));
        // One thread: results must not depend on their number, and starting some takes longer than
        // the rest.
        let options = ReadOptions::default().workers(NonZeroUsize::MIN);
        let shared = PackReader::from_source(shared, "memory", &options);
        let copied = PackReader::from_source(copied, "memory", &options);
        let source = Arc::new(Memory::new(file.clone()));
        let rescued = PackReader::from_source(source, "memory", &options.clone().rescue(true));
        match &rescued {
            Ok(pack) => rescue(&file, pack, shared.is_ok()),
            Err(error) => assert!(shared.is_err(), "not even damaged: {error}"),
        }
        match (shared, copied) {
            (Ok(shared), Ok(copied)) => read(&file, &shared, &copied),
            (Err(a), Err(b)) => assert_eq!(a.to_string(), b.to_string()),
            (a, b) => panic!("{a:?} from memory, {b:?} by copying"),
        }
    }
);

fn read(file: &Bytes, shared: &PackReader, copied: &PackReader) {
    assert!(shared.layout().end() + shared.trailing_bytes() == file.len() as u64);
    for pack in [shared, copied] {
        for table in [pack.slide_table(), pack.index_table()] {
            if let Err(error) = table.and_then(read_table) {
                let _ = (error.to_string(), error.kind(), error.row(), error.field());
            }
        }
        let _ = pack.advise(Advice::Random);
        let _ = pack.check_spans();
    }
    assert_eq!(shared.kind().ok(), copied.kind().ok());
    if let (Ok(rows), Ok(kind)) = (shared.num_records(), shared.kind()) {
        for row in (0..rows.min(ROWS)).chain([rows.saturating_sub(1), rows, u64::MAX]) {
            read_row(file, row, rows, kind, shared, copied);
        }
        batches(rows, shared, copied);
    }
    let length = shared.layout().data.length;
    assert_eq!(shared.read_data_span(0, length).unwrap().len() as u64, length);
    assert!(shared.read_data_span(1, length).is_err());
    assert!(shared.data_view(u64::MAX, u64::MAX).is_err());

    let report = shared.verify(&VerifyOptions::default());
    let other = copied.verify(&VerifyOptions::default());
    assert_eq!(report.is_sound(), other.is_sound(), "{report:?}, by copying {other:?}");
    assert_eq!(report.rows, other.rows);
    if report.is_sound() {
        sound(&report, shared);
    }
}

/// A pack that may be damaged: what can be read of it lies in the file, and nothing is called sound
/// that is not.
fn rescue(file: &Bytes, pack: &PackReader, opens: bool) {
    assert_eq!(pack.damage().is_empty(), opens);
    let data = pack.layout().data;
    assert!(pack.layout().end() <= file.len() as u64);
    for table in [pack.slide_table(), pack.index_table()].into_iter().flatten() {
        let _ = (table.damage(), read_table(table));
    }
    if let Ok(rows) = pack.num_records() {
        for row in (0..rows.min(ROWS)).chain([rows.saturating_sub(1), rows, u64::MAX]) {
            match (pack.span(row), pack.view(row)) {
                (Ok(span), Ok(view)) => {
                    assert!(span.offset + span.length <= data.length);
                    let right = span.crc32.is_none_or(|crc32| crc32fast::hash(&view) == crc32);
                    assert_eq!(pack.read(row).is_ok(), right);
                }
                (Err(_), Err(_)) => {}
                (span, view) => panic!("{span:?}, {view:?}"),
            }
        }
        if pack.check_spans().is_ok() && pack.kind().unwrap() != PackKind::Segment {
            for row in 0..rows.min(ROWS) {
                pack.span(row).unwrap();
            }
        }
    }
    let _ = pack.verify(&VerifyOptions::default());
}

fn read_table(table: &Table) -> Result<(), ReadError> {
    let whole = table.batches()?;
    let rows: usize = whole.iter().map(|batch| batch.num_rows()).sum();
    assert_eq!(rows as u64, table.num_rows());
    let names: Vec<&str> = table.schema().fields().iter().map(|f| f.name().as_str()).collect();
    for name in names {
        // A name that occurs twice cannot be asked for.
        let _ = table.columns(&[name]);
    }
    Ok(())
}

fn read_row(
    file: &Bytes,
    row: u64,
    rows: u64,
    kind: PackKind,
    shared: &PackReader,
    copied: &PackReader,
) {
    let span = match shared.span(row) {
        Ok(span) => span,
        Err(error) => {
            assert!(shared.read(row).is_err());
            assert!(shared.view(row).is_err());
            assert!(copied.read(row).is_err());
            assert_eq!(error.to_string(), copied.span(row).unwrap_err().to_string());
            return;
        }
    };
    assert!(row < rows);
    assert!(kind != PackKind::Segment);
    let data = shared.layout().data;
    assert!(span.offset + span.length <= data.length);
    let start = usize::try_from(data.offset + span.offset).unwrap();
    let stored = &file[start..start + usize::try_from(span.length).unwrap()];
    assert_eq!(shared.view(row).unwrap(), stored);
    assert_eq!(shared.with_crc(false).read(row).unwrap(), stored);
    assert_eq!(copied.with_crc(false).read(row).unwrap(), stored);
    let right = span.crc32.is_none_or(|crc32| crc32fast::hash(stored) == crc32);
    for pack in [shared, copied] {
        match pack.read(row) {
            Ok(record) => assert!(right && record == stored),
            Err(ReadError::Checksum { row: named, .. }) => assert!(!right && named == row),
            Err(other) => panic!("{other:?}"),
        }
    }
    let _ = shared.prefetch(&[row]);
}

/// Many rows at once: backwards, with duplicates.
fn batches(rows: u64, shared: &PackReader, copied: &PackReader) {
    // Whether asking for nothing fails in a pack with a damaged index is nobody's concern.
    if rows == 0 {
        return;
    }
    let mut wanted: Vec<u64> = (0..rows.min(ROWS)).rev().collect();
    wanted.extend(wanted.clone());
    for pack in [shared, copied] {
        let alone: Result<Vec<Bytes>, _> = wanted.iter().map(|row| pack.read(*row)).collect();
        match (pack.read_rows(&wanted), pack.read_contiguous(&wanted)) {
            (Ok(many), Ok(contiguous)) => {
                assert!(many.iter().map(|record| &record[..]).eq(contiguous.iter()));
                assert_eq!(alone.unwrap(), many);
            }
            (Err(a), Err(b)) => {
                assert!(alone.is_err());
                assert_eq!(a.kind(), b.kind());
            }
            (a, b) => panic!("{a:?} as rows, {b:?} in one buffer"),
        }
    }
    assert_eq!(shared.views(&wanted).is_ok(), wanted.iter().all(|row| shared.span(*row).is_ok()));
    for payload in shared.iter_payloads().unwrap().take(ROWS as usize) {
        let _ = payload;
    }
}

/// What verifying has called sound can be read.
fn sound(report: &VerifyReport, pack: &PackReader) {
    for table in [pack.slide_table(), pack.index_table()] {
        let table = table.unwrap();
        for column in 0..table.schema().fields().len() {
            table.stream().decode_columns(&[column]).unwrap();
        }
    }
    assert_eq!(report.rows, pack.num_records().unwrap());
    assert_eq!(pack.header().num_records().unwrap(), report.rows);
    assert_eq!(pack.header().num_slides().unwrap(), pack.slide_table().unwrap().num_rows());
    if pack.kind().unwrap() != PackKind::Segment {
        let rows: Vec<u64> = (0..report.rows.min(ROWS)).collect();
        pack.read_rows(&rows).unwrap();
    } else {
        let error = pack.span(0).unwrap_err();
        assert!(matches!(error, ReadError::Format { source: FormatError::NoRecordIndex, .. }));
    }
    assert_eq!(pack.index_table().unwrap().kind(), TableKind::Index);
}
