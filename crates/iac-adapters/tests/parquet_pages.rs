//! Parquet files whose pages claim more than they have: the library takes memory for it, so such
//! claims are refused before.
#![cfg(feature = "parquet")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::arithmetic_side_effects)]
#![allow(missing_docs)]

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringArray};
use iac_adapters::text::ClinicalDoc;
use iac_adapters::text::import::{ColumnMapping, ParquetPatients};
use iac_format::ErrorKind;
use parquet::arrow::ArrowWriter;
use parquet::basic::Encoding;
use parquet::file::properties::{WriterProperties, WriterVersion};

fn texts(values: &[&str]) -> ArrayRef {
    Arc::new(StringArray::from(values.to_vec()))
}

/// A file of three texts in one page, written so, and the place behind the only occurrence of
/// these bytes.
fn altered(properties: WriterProperties, before: &[u8], byte: u8) -> tempfile::NamedTempFile {
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("patient_id", texts(&["a", "b", "c"])),
        ("doc_id", texts(&["1", "2", "3"])),
        ("text", texts(&["x", "y", "z"])),
    ];
    let batch = RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, column)| (name, column, true)),
    )
    .unwrap();
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    let at = bytes.windows(before.len()).position(|window| window == before).unwrap();
    bytes[at + before.len()] = byte;
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    file
}

fn reason(file: &tempfile::NamedTempFile) -> String {
    let patients = ParquetPatients::<ClinicalDoc>::open(file.path(), &ColumnMapping::default());
    let error = patients.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damaged);
    error.to_string()
}

#[test]
fn pages_in_delta_encodings_are_read_and_what_they_claim_beyond_their_values_is_refused() {
    for encoding in [Encoding::DELTA_LENGTH_BYTE_ARRAY, Encoding::DELTA_BYTE_ARRAY] {
        for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
            let properties = || {
                WriterProperties::builder()
                    .set_dictionary_enabled(false)
                    .set_writer_version(version)
                    .set_encoding(encoding)
                    .build()
            };
            // Differences of 3 lengths in blocks of 128, in 4 parts: what comes behind is the first.
            let before = [0x80, 1, 4];
            let file = altered(properties(), &before, 3);
            let mapping = ColumnMapping::default();
            let patients = ParquetPatients::<ClinicalDoc>::open(file.path(), &mapping).unwrap();
            let patients: Vec<_> = patients.map(Result::unwrap).collect();
            assert_eq!(patients.len(), 3);
            assert_eq!(patients[2].docs[0].text, "z");
            let reason = reason(&altered(properties(), &before, 0x7F));
            assert!(reason.contains("more lengths than it has values"), "{reason}");
        }
    }
}

#[test]
fn dictionaries_that_claim_more_entries_than_they_have_bytes_for_are_refused() {
    // The header of the first dictionary: its structure, and the kind of its first number.
    let file = altered(WriterProperties::default(), &[0x4C, 0x15], 0x7E);
    let reason = reason(&file);
    assert!(reason.contains("a dictionary of 63 entries has 15 bytes"), "{reason}");
}
