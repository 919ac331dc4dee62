//! One test for each bug that was found: the smallest input that shows it, and what must happen.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, missing_docs)]

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt8Array};
use arrow_schema::Schema;
use iac_format::table::encode_table;
use iac_format::{HeaderFacts, Layout, build_header_text, header_block};
use iac_reader::{PackReader, VerifyOptions};
use serde_json::json;

/// A pack without data, whose tables are these.
fn pack_of_tables(
    slides: &RecordBatch,
    index: &RecordBatch,
    members: &serde_json::Value,
) -> PackReader {
    let stream = |batch: &RecordBatch| {
        encode_table(batch.schema_ref(), std::slice::from_ref(batch)).unwrap()
    };
    let count = |number: usize| u64::try_from(number).unwrap();
    let (slide_bytes, index_bytes) = (stream(slides), stream(index));
    let facts = HeaderFacts {
        layout: Layout::new(count(slide_bytes.len()), count(index_bytes.len()), 0).unwrap(),
        num_slides: count(slides.num_rows()),
        num_records: count(index.num_rows()),
        checksums: None,
    };
    let text = build_header_text(members.as_object().unwrap(), &facts).unwrap();
    let file = [header_block(&text).unwrap(), slide_bytes, index_bytes].concat();
    PackReader::from_bytes(file).unwrap()
}

/// Rows of a table without columns.
fn bare_rows(rows: usize) -> RecordBatch {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &options).unwrap()
}

/// Verifying counted up to the number of rows that a table of 200 bytes claims.
#[test]
fn rows_of_no_bytes_are_verified_without_visiting_them() {
    let members = json!({"feature_record_bytes": 0, "feature_dim": 0, "dtype": "float32"});
    let pack_of = |rows: u64| {
        let index = bare_rows(usize::try_from(rows).unwrap());
        pack_of_tables(&bare_rows(1), &index, &members)
    };
    let rows = 1 << 24;
    let pack = pack_of(rows);
    let report = pack.verify(&VerifyOptions::default());
    assert!(report.is_sound(), "{:?}", report.faults);
    assert_eq!((report.rows, report.rows_compared), (rows, 0));
    pack.check_spans().unwrap();
    assert_eq!(pack.read(rows - 1).unwrap().len(), 0);
    assert_eq!(pack.iter_payloads().unwrap().take(10_000).count(), 10_000);

    let pack = pack_of(1 << 60);
    let report = pack.verify(&VerifyOptions::default());
    assert_eq!(report.total_faults, 1, "{:?}", report.faults);
    assert_eq!(pack.read(0).unwrap_err().field(), Some("feature_dim"));
}

/// Verifying decoded column by column, which took the square of their number: half a minute for
/// this table of 1.6 MB. Now the test is over in a moment; a relapse would be noticed.
#[test]
fn wide_tables_are_verified_in_a_moment() {
    let names = (0..16_000).map(|number| number.to_string());
    let value: ArrayRef = Arc::new(UInt8Array::from(vec![1]));
    let wide = RecordBatch::try_from_iter(names.map(|name| (name, Arc::clone(&value)))).unwrap();
    let pack = pack_of_tables(&bare_rows(1), &wide, &json!({}));
    let report = pack.verify(&VerifyOptions::default());
    assert!(report.is_sound(), "{:?}", report.faults);
}
