//! Bytes of the data segment that belong to no row.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringArray};
use iac_reader::PackReader;
use iac_writer::{PackWriter, Table, WriteOptions};

#[test]
fn bytes_that_belong_to_no_row_lie_where_the_writer_says() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.iac");
    let ids: ArrayRef = Arc::new(StringArray::from(vec!["a", "b"]));
    let index = Table::from(RecordBatch::try_from_iter([("item_id", ids)]).unwrap());
    let header = serde_json::Map::new();
    let options = WriteOptions::new();
    let mut writer =
        PackWriter::with_index(&path, header, &Table::empty(), &index, &options).unwrap();
    assert_eq!(writer.push_unindexed(b"shared").unwrap(), 0);
    assert_eq!(writer.push(b"one").unwrap().span.offset, 6);
    assert_eq!(writer.push(b"").unwrap().span.offset, 9);
    assert_eq!(writer.push_unindexed(b"tail").unwrap(), 9);
    writer.finish().unwrap();
    let pack = PackReader::open(&path).unwrap();
    assert_eq!(pack.read(0).unwrap(), "one");
    assert_eq!(pack.read(1).unwrap(), "");
    assert_eq!(pack.read_data_span(0, 6).unwrap(), "shared");
    assert_eq!(pack.read_data_span(9, 4).unwrap(), "tail");
    assert!(pack.read_data_span(9, 5).is_err());
}
