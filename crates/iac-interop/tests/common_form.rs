//! The two sides of the comparison agree on how tables are written down, without any of our crates
//! in between: a difference here is one of the test's own tools.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use std::fs::File;
use std::io::{Cursor, Read, Seek, SeekFrom};

use arrow_ipc::reader::StreamReader;
use iac_interop::{arrow_json, reference};
use serde_json::Value;

#[test]
fn tables_have_the_same_form_on_both_sides() {
    let folder = tempfile::tempdir().unwrap();
    for pack in reference::write_packs(folder.path()) {
        let header: Value =
            serde_json::from_str(pack.expected["header_text"].as_str().unwrap()).unwrap();
        for table in ["slide_table", "index_table"] {
            let mut file = File::open(&pack.path).unwrap();
            let offset = header[format!("{table}_offset")].as_u64().unwrap();
            let length = header[format!("{table}_length")].as_u64().unwrap();
            file.seek(SeekFrom::Start(offset)).unwrap();
            let mut bytes = Vec::new();
            file.take(length).read_to_end(&mut bytes).unwrap();
            let reader = StreamReader::try_new(Cursor::new(bytes), None).unwrap();
            let schema = reader.schema();
            let batches: Vec<_> = reader.collect::<Result<_, _>>().unwrap();
            let ours = arrow_json::table(&schema, &batches);
            assert_eq!(ours, pack.expected[table], "{table} of {}", pack.name);
        }
    }
}
