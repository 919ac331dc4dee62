//! Packs from records: headers, codecs, order, threads, failures.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, missing_docs)]
#![allow(clippy::cast_possible_truncation, clippy::arithmetic_side_effects)]

use std::error::Error;
use std::fs;
use std::io;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, UInt64Array};
use iac_codec::{
    ByteCodec, Codec, CodecError, CodecSpec, Limits, Parameters, Registry, compiled_codecs,
};
use iac_format::{ElementType, ErrorKind, FixedShape, Header};
use iac_writer::{
    FixedPackBuilder, Table, VariablePackBuilder, WriteError, WriteOptions, build_pack,
};
use serde_json::{Map, Value, json};

/// Adds its key to every byte; cannot do so with a record that starts with 255.
struct Shifted {
    parameters: Parameters,
}

impl Shifted {
    fn key(&self) -> Option<u8> {
        self.parameters.get("key")?.as_u64()?.try_into().ok()
    }
}

impl ByteCodec for Shifted {
    fn name(&self) -> &str {
        "test.shifted"
    }

    fn parameters(&self) -> Parameters {
        self.parameters.clone()
    }

    fn encode(&self, record: &[u8]) -> Result<Vec<u8>, CodecError> {
        self.check_encode()?;
        if record.first() == Some(&255) {
            return Err(CodecError::encode(self.name(), "starts with 255"));
        }
        let key = self.key().unwrap_or(0);
        Ok(record.iter().map(|byte| byte.wrapping_add(key)).collect())
    }

    fn decode(&self, payload: &[u8], _: &Limits) -> Result<Vec<u8>, CodecError> {
        let key = self.key().unwrap_or(0);
        Ok(payload.iter().map(|byte| byte.wrapping_sub(key)).collect())
    }

    fn check_encode(&self) -> Result<(), CodecError> {
        match self.key() {
            Some(_) => Ok(()),
            None => Err(CodecError::parameter(self.name(), "key", "missing")),
        }
    }

    fn required_extensions(&self) -> &[&str] {
        if self.key() == Some(7) { &["test.seven", "test.other"] } else { &[] }
    }
}

fn registry() -> Arc<Registry> {
    let registry = Registry::builtin();
    registry
        .register("test.shifted", |parameters| {
            Ok(Codec::from_byte_codec(Shifted { parameters: parameters.clone() }))
        })
        .unwrap();
    Arc::new(registry)
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(object) => object,
        other => panic!("{other}"),
    }
}

fn spec(key: u64) -> CodecSpec {
    CodecSpec::new("test.shifted", object(json!({ "key": key })))
}

fn index(rows: usize) -> Table {
    let ids = UInt64Array::from_iter_values(0..rows as u64);
    Table::from(RecordBatch::try_from_iter([("item_id", Arc::new(ids) as ArrayRef)]).unwrap())
}

fn options() -> WriteOptions {
    WriteOptions::new().sync(false)
}

fn builder(rows: usize, key: u64) -> VariablePackBuilder {
    VariablePackBuilder::new("test", index(rows))
        .codec_spec(spec(key))
        .registry(registry())
        .options(options())
}

fn records(count: usize) -> Vec<Vec<u8>> {
    (0..count).map(|row| vec![(row % 200) as u8; (row * 131) % 5000]).collect()
}

fn header(path: &Path) -> Header {
    let file = fs::read(path).unwrap();
    Header::parse(&file[..65_536], file.len() as u64).unwrap()
}

fn data(path: &Path) -> Vec<u8> {
    let file = fs::read(path).unwrap();
    let data = header(path).layout().data;
    file[data.offset as usize..][..data.length as usize].to_vec()
}

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).unwrap().next().is_none()
}

#[test]
fn bytes_do_not_depend_on_threads_budget_or_way_of_building() {
    let folder = tempfile::tempdir().unwrap();
    let records = records(800);
    let payloads: Vec<Vec<u8>> =
        records.iter().map(|record| record.iter().map(|byte| byte + 3).collect()).collect();
    let path = folder.path().join("expected.iac");
    builder(800, 3).build_from_payloads(&path, &payloads).unwrap();
    let expected = fs::read(&path).unwrap();
    let check = |built: Result<_, WriteError>, path: &Path, context: &str| {
        built.unwrap();
        assert!(fs::read(path).unwrap() == expected, "{context}");
        fs::remove_file(path).unwrap();
    };
    let path = folder.path().join("pack.iac");
    for workers in [1, 2, 5] {
        for memory in [0, 10_000, 64 << 20] {
            let context = format!("{workers} workers, {memory} bytes");
            let builder = builder(800, 3).workers(NonZeroUsize::new(workers)).memory(memory);
            check(builder.build(&path, &records), &path, &context);
            let stream = records.iter().map(Ok::<_, io::Error>);
            check(builder.build_streaming(&path, stream), &path, &context);
            let owned = records.clone().into_iter().map(Ok::<_, io::Error>);
            check(builder.build_streaming(&path, owned), &path, &context);
        }
    }
    let stream = payloads.iter().map(Ok::<_, io::Error>);
    check(builder(800, 3).build_from_payloads_streaming(&path, stream), &path, "payloads");
    let mut writer = builder(800, 3).begin_from_payloads(&path).unwrap();
    for payload in &payloads {
        writer.push(payload).unwrap();
    }
    check(writer.finish(), &path, "pushed");
    let codec = registry().create(&spec(3)).unwrap();
    check(builder(800, 9).codec(codec).build(&path, &records), &path, "codec handle");
}

#[test]
fn header_names_what_is_needed_to_decode() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pack.iac");
    builder(1, 3).build(&path, &["a"]).unwrap();
    let found = header(&path);
    assert_eq!(found.payload_type(), Some("test"));
    assert_eq!(found.get("codec"), Some(&json!("test.shifted")));
    assert_eq!(found.get("codec_params"), Some(&json!({"key": 3})));
    assert_eq!(found.get("required_extensions"), None);
    assert_eq!(data(&path), b"d");

    let path = folder.path().join("none.iac");
    VariablePackBuilder::new("test", index(1)).options(options()).build(&path, &["a"]).unwrap();
    let found = header(&path);
    assert_eq!(found.get("codec"), Some(&json!("none")));
    assert_eq!(found.get("codec_params"), None);

    // Members of the caller's own come last.
    let path = folder.path().join("own.iac");
    let own = object(json!({"payload_type": "mine", "codec_params": {"key": 4}, "site": "north"}));
    builder(1, 3).header(own).build(&path, &["a"]).unwrap();
    let found = header(&path);
    assert_eq!(found.payload_type(), Some("mine"));
    assert_eq!(found.get("codec_params"), Some(&json!({"key": 4})));
    assert_eq!(found.get("site"), Some(&json!("north")));
}

#[test]
fn required_extensions_of_codec_and_caller_are_joined() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pack.iac");
    let own = object(json!({"required_extensions": ["mine", "test.other"]}));
    builder(1, 7).header(own.clone()).build(&path, &["a"]).unwrap();
    assert_eq!(header(&path).required_extensions(), ["mine", "test.other", "test.seven"]);
    let path = folder.path().join("payloads.iac");
    builder(1, 7).build_from_payloads(&path, &["a"]).unwrap();
    assert_eq!(header(&path).required_extensions(), ["test.seven", "test.other"]);
    let path = folder.path().join("odd.iac");
    let odd = object(json!({"required_extensions": "mine"}));
    let error = builder(1, 7).header(odd).build(&path, &["a"]).unwrap_err();
    assert_eq!(error.field(), Some("required_extensions"));
    assert!(!path.exists());
}

#[test]
fn a_record_that_cannot_be_encoded_is_named_and_nothing_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pack.iac");
    let mut records = records(900);
    records[700] = vec![255];
    records[650] = vec![255, 1];
    for workers in [1, 2, 4] {
        let builder = builder(900, 3).workers(NonZeroUsize::new(workers));
        for result in [
            builder.build(&path, &records),
            builder.build_streaming(&path, records.iter().map(Ok::<_, io::Error>)),
        ] {
            let error = result.unwrap_err();
            assert_eq!((error.row(), error.kind()), (Some(650), ErrorKind::Usage), "{error}");
            assert!(matches!(error, WriteError::Codec { .. }));
            let message = error.to_string();
            assert!(message.contains("row 650: ") && message.contains("pack.iac"), "{message}");
        }
        assert!(is_empty(folder.path()));
    }
}

#[test]
fn a_source_that_fails_is_named_with_its_row_and_nothing_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pack.iac");
    let records = records(300);
    for workers in [1, 3] {
        let failing =
            records[..123].iter().map(Ok).chain([Err(io::Error::other("the scanner is off"))]);
        let builder = builder(300, 3).workers(NonZeroUsize::new(workers));
        let error = builder.build_streaming(&path, failing).unwrap_err();
        assert!(matches!(&error, WriteError::Payload { row: 123, .. }), "{error}");
        assert!(error.source().unwrap().to_string().contains("scanner"));
        assert!(is_empty(folder.path()));
    }
}

#[test]
fn records_and_rows_must_agree_in_number() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pack.iac");
    let records = records(40);
    for workers in [1, 3] {
        for rows in [0, 39, 41] {
            let builder = builder(rows, 3).workers(NonZeroUsize::new(workers));
            for result in [
                builder.build(&path, &records),
                builder.build_streaming(&path, records.iter().map(Ok::<_, io::Error>)),
                builder.build_from_payloads(&path, &records),
            ] {
                let error = result.unwrap_err();
                assert!(matches!(error, WriteError::RowCount { .. }), "{error}");
            }
            assert!(is_empty(folder.path()));
        }
    }
}

#[test]
fn an_existing_file_stays_when_the_build_fails() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pack.iac");
    fs::write(&path, "old").unwrap();
    let error = builder(1, 3).build(&path, &["a"]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exists);
    let replacing = builder(1, 3).options(options().overwrite(true));
    replacing.build(&path, &[[255_u8]]).unwrap_err();
    assert_eq!(fs::read(&path).unwrap(), b"old");
    replacing.build(&path, &["a"]).unwrap();
    assert_eq!(data(&path), b"d");
}

#[test]
fn codecs_that_cannot_encode_are_refused_before_any_work() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pack.iac");
    let mut cases = vec![
        (CodecSpec::new("nope", Parameters::new()), ErrorKind::UnknownCodec),
        (CodecSpec::new("test.shifted", Parameters::new()), ErrorKind::Usage),
    ];
    if !compiled_codecs().contains(&"jxl") {
        cases.push((CodecSpec::new("jxl", Parameters::new()), ErrorKind::MissingFeature));
    }
    for (spec, kind) in cases {
        let builder = builder(1, 0).codec_spec(spec.clone());
        let untouched = std::iter::from_fn(|| -> Option<io::Result<Vec<u8>>> {
            panic!("the source must not be asked")
        });
        for result in [builder.build(&path, &["a"]), builder.build_streaming(&path, untouched)] {
            let error = result.unwrap_err();
            assert_eq!((error.kind(), error.row()), (kind, None), "{error}");
        }
        // Records that are encoded already need no codec at hand.
        builder.build_from_payloads(&path, &["a"]).unwrap();
        assert_eq!(header(&path).get("codec"), Some(&json!(spec.name())));
        assert_eq!(header(&path).get("codec_params"), None);
        fs::remove_file(&path).unwrap();
    }
    let unfit = Codec::from_byte_codec(Shifted { parameters: Parameters::new() });
    let error = builder(1, 0).codec(unfit).build(&path, &["a"]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
    assert!(is_empty(folder.path()));
}

#[test]
fn packs_without_a_codec_are_what_the_plain_builder_makes() {
    let folder = tempfile::tempdir().unwrap();
    let (path, plain) = (folder.path().join("a.iac"), folder.path().join("b.iac"));
    let records = records(50);
    let members = object(json!({"payload_type": "test", "codec": "none"}));
    build_pack(&plain, &members, &index(3), &index(50), &records, &options()).unwrap();
    let builder = VariablePackBuilder::new("test", index(50)).slides(index(3)).options(options());
    builder.build(&path, &records).unwrap();
    assert_eq!(fs::read(&path).unwrap(), fs::read(&plain).unwrap());
    fs::remove_file(&path).unwrap();
    builder.build_streaming(&path, records.iter().map(Ok::<_, io::Error>)).unwrap();
    assert_eq!(fs::read(&path).unwrap(), fs::read(&plain).unwrap());
}

fn fixed(rows: usize) -> FixedPackBuilder {
    FixedPackBuilder::new("teacher_features", index(rows)).options(options())
}

#[test]
fn matrices_are_stored_little_endian_with_their_shape() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pack.iac");
    let own = object(json!({"teacher": "t", "codec": "none"}));
    fixed(2).header(own).slides(index(1)).build(&path, 3, &[1_u16, 2, 3, 0x0405, 5, 6]).unwrap();
    let found = header(&path);
    for (name, value) in [
        ("payload_type", json!("teacher_features")),
        ("codec", json!("none")),
        ("feature_dim", json!(3)),
        ("dtype", json!("uint16")),
        ("feature_record_bytes", json!(6)),
        ("teacher", json!("t")),
        ("num_slides", json!(1)),
        ("num_records", json!(2)),
    ] {
        assert_eq!(found.get(name), Some(&value), "{name}");
    }
    assert_eq!(data(&path), [1, 0, 2, 0, 3, 0, 5, 4, 5, 0, 6, 0]);
}

#[test]
fn matrices_that_do_not_make_the_rows_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pack.iac");
    for (dim, elements) in [(3, 5), (3, 7), (0, 1), (6, 0), (usize::MAX, 6), (2, 6)] {
        let error = fixed(2).build(&path, dim, &vec![0.5_f32; elements]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage, "{error}");
        assert!(is_empty(folder.path()));
    }
    let shape = FixedShape::new(3, ElementType::Float32).unwrap();
    let error = fixed(2).build_bytes(&path, shape, &[0; 23]).unwrap_err();
    assert_eq!(error.field(), Some("data_length"));
    // Members of the caller's own that contradict the matrix.
    let own = object(json!({"dtype": "float64"}));
    let error = fixed(1).header(own).build(&path, 1, &[1.0_f32]).unwrap_err();
    assert!(matches!(error, WriteError::HeaderField { .. }), "{error}");
    assert!(is_empty(folder.path()));
}

#[test]
fn streamed_rows_must_agree_in_length_and_number() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pack.iac");
    let stream = |rows: &[&[i32]]| {
        let rows: Vec<_> = rows.iter().map(|row| Ok::<_, io::Error>(row.to_vec())).collect();
        fixed(2).build_streaming(&path, 2, rows)
    };
    let error = stream(&[&[1, 2], &[3]]).unwrap_err();
    assert!(error.to_string().contains("row 1 has 1 elements where 2"), "{error}");
    for rows in [&[&[1, 2] as &[i32]] as &[&[i32]], &[&[1, 2], &[3, 4], &[5, 6]], &[]] {
        let error = stream(rows).unwrap_err();
        assert!(matches!(error, WriteError::RowCount { rows: 2, .. }), "{error}");
    }
    let failing = [Ok(vec![1_i32, 2]), Err(io::Error::other("gone"))];
    let error = fixed(2).build_streaming(&path, 2, failing).unwrap_err();
    assert!(matches!(error, WriteError::Payload { row: 1, .. }), "{error}");
    assert!(is_empty(folder.path()));
    stream(&[&[1, 2], &[3, 4]]).unwrap();
    assert_eq!(data(&path).len(), 16);
}
