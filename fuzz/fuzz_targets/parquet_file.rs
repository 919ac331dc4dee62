//! Texts out of Parquet files: any file is refused, or gives the same documents however its rows are
//! brought together to patients.
//!
//! An input is a file, but for its last bytes: the length of its end and the magic number are put
//! there.
#![no_main]

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use arrow_array::{ArrayRef, Int32Array, LargeStringArray, RecordBatch, StringArray};
use iac_adapters::text::ClinicalDoc;
use iac_adapters::text::import::{ColumnMapping, Grouping, ParquetPatients};
use iac_adapters::{AdapterError, text::Patient};
use iac_fuzz::{Limited, seeds};
use libfuzzer_sys::fuzz_target;
use parquet::arrow::ArrowWriter;
use parquet::basic::{BrotliLevel, Compression, Encoding, ZstdLevel};
use parquet::file::properties::WriterProperties;

#[global_allocator]
static ALLOCATOR: Limited = Limited;

/// Patients that are read of a file, so that a run does not spend its time on rows without bytes.
const PATIENTS: usize = 2000;

/// The file that inputs are written to, as files are what is read; in memory where that is possible.
static PLACE: LazyLock<PathBuf> = LazyLock::new(|| {
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    folder.join(format!("iac-fuzz-parquet-{}", std::process::id()))
});

fuzz_target!(
    init: {
        // The library may panic at damaged files, which is caught there: only a panic that gets
        // out of ours ends the process.
        std::panic::set_hook(Box::new(|panic| eprintln!("{panic}")));
        seeds::write(make_seeds);
    },
    |input: &[u8]| {
        let Some((end, rest)) = input.split_first_chunk::<2>() else { return };
        let length = u32::from(u16::from_le_bytes(*end));
        let file = [b"PAR1", rest, &length.to_le_bytes(), b"PAR1"].concat();
        std::fs::write(&*PLACE, file).unwrap();
        let one = read(Grouping::Consecutive);
        let other = read(Grouping::Anywhere);
        std::fs::remove_file(&*PLACE).unwrap();
        if let (Ok(one), Ok(other)) = (one, other) {
            let docs = |patients: &[Patient<ClinicalDoc>]| -> usize {
                patients.iter().map(|patient| patient.docs.len()).sum()
            };
            if one.len() < PATIENTS && other.len() < PATIENTS {
                assert_eq!(docs(&one), docs(&other));
            }
        }
    }
);

fn read(grouping: Grouping) -> Result<Vec<Patient<ClinicalDoc>>, AdapterError> {
    let mapping = ColumnMapping::default().grouping(grouping);
    let patients = ParquetPatients::<ClinicalDoc>::open(&*PLACE, &mapping).and_then(|patients| {
        patients.take(PATIENTS).collect::<Result<Vec<Patient<ClinicalDoc>>, _>>()
    });
    match &patients {
        Ok(patients) => assert!(patients.iter().all(|patient| !patient.docs.is_empty())),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    patients
}

fn make_seeds() -> Vec<(String, Vec<u8>)> {
    let text = |values: &[Option<&str>]| Arc::new(StringArray::from(values.to_vec())) as ArrayRef;
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("patient_id", text(&[Some("a"), Some("a"), Some("b"), Some("a")])),
        ("doc_id", Arc::new(Int32Array::from(vec![1, 2, 1, 3]))),
        ("text", Arc::new(LargeStringArray::from(vec!["x", "", "é\n", "x"]))),
        ("doc_type", text(&[None, Some("t"), None, Some("t")])),
        ("episode_index", Arc::new(Int32Array::from(vec![Some(4), None, Some(-2), Some(0)]))),
    ];
    let batch = RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, column)| (name, column, true)),
    )
    .unwrap();
    let properties = WriterProperties::builder;
    let plain = || properties().set_dictionary_enabled(false);
    let mut made = Vec::new();
    for (name, properties) in [
        ("dictionary", properties()),
        ("plain", plain()),
        ("delta", plain().set_encoding(Encoding::DELTA_BYTE_ARRAY)),
        ("lengths", plain().set_encoding(Encoding::DELTA_LENGTH_BYTE_ARRAY)),
        ("snappy", properties().set_compression(Compression::SNAPPY)),
        ("gzip", properties().set_compression(Compression::GZIP(Default::default()))),
        ("lz4", properties().set_compression(Compression::LZ4_RAW)),
        ("zstd", plain().set_compression(Compression::ZSTD(ZstdLevel::default()))),
        ("brotli", plain().set_compression(Compression::BROTLI(BrotliLevel::default()))),
        ("groups", properties().set_max_row_group_row_count(Some(2))),
        ("pages", properties().set_data_page_row_count_limit(1).set_write_batch_size(1)),
    ] {
        let properties = properties.set_created_by("iac".to_owned());
        let properties = match name {
            "delta" | "lengths" => properties.set_column_encoding("doc_id".into(), Encoding::PLAIN),
            _ => properties,
        };
        let properties = match name {
            "delta" | "lengths" => properties
                .set_column_encoding("episode_index".into(), Encoding::DELTA_BINARY_PACKED),
            _ => properties,
        };
        let mut file = Vec::new();
        let mut writer =
            ArrowWriter::try_new(&mut file, batch.schema(), Some(properties.build())).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        let tail = file.len() - 8;
        let length = u32::from_le_bytes(file[tail..tail + 4].try_into().unwrap());
        let length = u16::try_from(length).unwrap().to_le_bytes();
        made.push((name.to_owned(), [&length[..], &file[4..tail]].concat()));
    }
    made
}
