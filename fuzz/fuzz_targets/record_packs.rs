//! Record packs: one record, many, contiguous, without the damaged ones, and as a matrix. All ways
//! of reading say the same about the same record, from memory and by copying.
//!
//! An input holds the parts of a pack (see `pack_input`).
#![no_main]

use std::num::NonZeroUsize;
use std::sync::Arc;

use bytes::Bytes;
use iac_codec::Limits;
use iac_fuzz::{Copied, Limited, assemble, seeds};
use iac_reader::{
    FixedRecordPack, Memory, PackKind, PackReader, ReadError, ReadOptions, RecordOptions,
    SkippedRows, VariableRecordPack,
};
use libfuzzer_sys::fuzz_target;

#[global_allocator]
static ALLOCATOR: Limited = Limited;

/// Rows that are read.
const ROWS: u64 = 16;
/// Bytes that a record may decode to, so that a run does not spend its time on bombs.
const MOST: u64 = 1 << 20;

fuzz_target!(
    init: seeds::write(seeds::pack_inputs),
    |input: &[u8]| {
        let Some(file) = assemble(input) else { return };
        let file = Bytes::from(file);
        // One thread: results must not depend on their number, and starting some takes longer than
        // the rest.
        let options = ReadOptions::default().workers(NonZeroUsize::MIN);
        let source = Arc::new(Memory::new(file.clone()));
        let Ok(shared) = PackReader::from_source(source, "memory", &options) else { return };
        let source = Arc::new(Copied(file));
        let copied = PackReader::from_source(source, "memory", &options).unwrap();
        let Ok(rows) = shared.num_records() else { return };
        // Backwards, with duplicates.
        let mut wanted: Vec<u64> = (0..rows.min(ROWS)).rev().collect();
        wanted.extend(wanted.clone());
        variable(&wanted, &shared, &copied);
        fixed(&wanted, &shared, &copied);
    }
);

fn variable(wanted: &[u64], shared: &PackReader, copied: &PackReader) {
    let limits = Limits::default().with_max_decoded_bytes(MOST);
    let open = |pack: &PackReader| {
        VariableRecordPack::from_reader_with(pack.clone(), RecordOptions::default().limits(limits))
    };
    let (shared, copied) = (open(shared), open(copied));
    let shared_says = read_records(wanted, &shared);
    let copied_says = read_records(wanted, &copied);
    assert!(shared_says == copied_says, "{shared_says:?}, by copying {copied_says:?}");
    let rows = shared.record_count().unwrap();
    for row in [rows, u64::MAX] {
        shared.read(row).unwrap_err();
        copied.read_many(&[row]).unwrap_err();
    }
}

/// The records, `None` where they cannot be read.
fn read_records(wanted: &[u64], pack: &VariableRecordPack) -> Vec<Option<Bytes>> {
    let one: Vec<_> = wanted.iter().map(|row| pack.read(*row)).collect();
    for (row, record) in wanted.iter().zip(&one) {
        let stored = pack.read_bytes(*row);
        assert!(record.is_err() || stored.is_ok());
    }
    let sound: Vec<Option<Bytes>> = one.iter().map(|one| one.as_ref().ok().cloned()).collect();
    if wanted.is_empty() {
        return sound;
    }
    match (pack.read_many(wanted), pack.read_many_contiguous(wanted)) {
        (Ok(many), Ok(contiguous)) => {
            assert!(many.iter().map(|record| &record[..]).eq(contiguous.iter()));
            assert!(many.into_iter().map(Some).eq(sound.iter().cloned()));
        }
        (Err(a), Err(b)) => {
            for error in [a, b] {
                assert!(
                    one.iter().any(|one| one.as_ref().is_err_and(|e| e.kind() == error.kind()))
                );
            }
        }
        (a, b) => panic!("{a:?} as records, {b:?} in one buffer"),
    }
    match (pack.read_many_lossy(wanted), pack.read_many_contiguous_lossy(wanted)) {
        (Ok((many, skipped)), Ok((contiguous, also_skipped))) => {
            assert_eq!(many, sound);
            assert!(many.iter().flatten().map(|record| &record[..]).eq(contiguous.iter()));
            check_skipped(wanted, &one, &skipped);
            check_skipped(wanted, &one, &also_skipped);
        }
        // What concerns all records, such as a codec that is not known.
        (Err(a), Err(b)) => {
            assert!(one.iter().all(Result::is_err));
            assert_eq!(a.kind(), b.kind());
        }
        (a, b) => panic!("{a:?} as records, {b:?} in one buffer"),
    }
    sound
}

fn check_skipped(wanted: &[u64], one: &[Result<Bytes, ReadError>], skipped: &SkippedRows) {
    let damaged = (0..one.len()).filter(|position| one[*position].is_err());
    assert!(skipped.rows.iter().map(|row| row.position).eq(damaged));
    for row in &skipped.rows {
        assert_eq!(row.row, wanted[row.position]);
        assert!(row.error.row().is_some());
    }
}

fn fixed(wanted: &[u64], shared: &PackReader, copied: &PackReader) {
    let kind = shared.kind();
    let shared = FixedRecordPack::from_reader(shared.clone());
    let copied = FixedRecordPack::from_reader(copied.clone());
    let (shared, copied) = match (shared, copied) {
        (Ok(shared), Ok(copied)) => (shared, copied),
        (Err(a), Err(b)) => return assert_eq!(a.to_string(), b.to_string()),
        (a, b) => panic!("{a:?} from memory, {b:?} by copying"),
    };
    assert!(matches!(kind, Ok(PackKind::Fixed)));
    let matrices = [&shared, &copied].map(|pack| read_matrix(wanted, pack));
    assert_eq!(matrices[0], matrices[1]);
    let rows = usize::try_from(shared.record_count()).unwrap();
    if let Ok(all) = shared.as_slice::<f32>() {
        assert_eq!(all.len(), rows * shared.dim());
    }
    assert!(copied.as_slice::<f32>().is_err());
    shared.read_matrix(&[shared.record_count()]).unwrap_err();
}

fn read_matrix(wanted: &[u64], pack: &FixedRecordPack) -> Option<Vec<u8>> {
    let one: Result<Vec<Bytes>, _> = wanted.iter().map(|row| pack.read(*row)).collect();
    let matrix = pack.read_matrix(wanted);
    let mut buffer = vec![0xA5; wanted.len() * pack.row_bytes()];
    let filled = pack.read_matrix_into(wanted, &mut buffer);
    let floats = pack.read_many_f32(wanted);
    let typed = pack.read_matrix_as::<f32>(wanted);
    let Ok(one) = one else {
        assert!(matrix.is_err() && filled.is_err() && floats.is_err() && typed.is_err());
        return None;
    };
    filled.unwrap();
    let matrix = matrix.unwrap();
    assert_eq!(matrix.shape(), [wanted.len(), pack.dim()]);
    assert_eq!(matrix.bytes(), buffer);
    assert_eq!(one.concat(), buffer);
    for (position, row) in one.iter().enumerate() {
        assert_eq!(matrix.row(position).unwrap(), row);
    }
    // Complex numbers have no nearest one.
    if let Ok(floats) = floats {
        assert_eq!(floats.len(), wanted.len() * pack.dim());
        if let Ok(typed) = typed {
            assert!(floats.iter().zip(&typed).all(|(a, b)| a.to_bits() == b.to_bits()));
        }
    }
    Some(buffer)
}
