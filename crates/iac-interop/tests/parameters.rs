//! Parameters in headers that no writer should write: what the reference takes for the default we do
//! too, and what it refuses to decode we refuse.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, UInt64Array};
use iac_codec::{CodecSpec, Parameters, Registry};
use iac_format::ErrorKind;
use iac_interop::json::sums;
use iac_interop::reference;
use iac_reader::VariableRecordPack;
use iac_writer::{Table, VariablePackBuilder, WriteOptions};
use serde_json::{Value, json};

fn odd_values() -> Vec<Value> {
    let mut values: Vec<Value> = [0, 9, 10, 11, 12, 24, 25, 255, 256, 4_294_967_306]
        .into_iter()
        .flat_map(|number: i64| [json!(number), json!(-number)])
        .collect();
    for edge in [i64::from(i32::MAX), i64::from(i32::MIN), i64::MAX - 1, i64::MIN + 1] {
        values.extend([json!(edge - 1), json!(edge), json!(edge + 1)]);
    }
    values.extend([json!(1_u64 << 63), json!(u64::MAX), json!(1e30), json!(12.0), json!(5.5)]);
    values.extend([json!(null), json!(true), json!("9"), json!([]), json!({})]);
    values
}

#[test]
fn parameters_of_a_header_are_refused_where_the_reference_refuses_them() {
    let folder = tempfile::tempdir().unwrap();
    let mut cases: Vec<(PathBuf, &str, Value)> = Vec::new();
    for (codec, name) in [("zstd", "level"), ("brotli", "quality"), ("brotli", "lgwin")] {
        let sound = CodecSpec::new(codec, Parameters::new());
        let payload = Registry::global().create(&sound).unwrap().encode_bytes(b"text").unwrap();
        for value in odd_values() {
            let params = json!({ name: value });
            let Value::Object(members) = json!({"codec": codec, "codec_params": params}) else {
                panic!()
            };
            let path = folder.path().join(format!("{}.iac", cases.len()));
            let ids: ArrayRef = Arc::new(UInt64Array::from(vec![0]));
            let index = RecordBatch::try_from_iter([("item_id", ids)]).unwrap();
            VariablePackBuilder::new("notes", Table::from(index))
                .header(members)
                .options(WriteOptions::new().sync(false))
                .build_from_payloads(&path, &[&payload])
                .unwrap();
            cases.push((path, codec, params));
        }
    }
    let paths: String =
        cases.iter().map(|(path, ..)| format!("{}\n", path.to_str().unwrap())).collect();
    let seen = reference::run_json::<&str>("read_record_packs.py", &[], &paths);
    let mut refused = 0;
    for ((path, codec, params), seen) in cases.iter().zip(seen) {
        let context = format!("{codec} {params}: {}", seen["read"][0]);
        let pack = VariableRecordPack::open(path).unwrap();
        let stored = pack.read_bytes(0).unwrap();
        assert_eq!(seen["stored"], json!({ "ok": sums([stored]) }), "{context}");
        match pack.read(0) {
            Ok(record) => {
                assert_eq!(record, "text", "{context}");
                assert_eq!(seen["read"][0], json!({ "ok": sums([record])[0] }), "{context}");
            }
            Err(error) => {
                refused += 1;
                assert_eq!(error.kind(), ErrorKind::Decode, "{context}");
                assert_eq!(seen["read"][0]["error"], "ValueError", "{context}, ours {error}");
            }
        }
    }
    assert!(refused > 20, "{refused}");
}
