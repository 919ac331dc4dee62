//! Encoded records and vectors in both directions: what the reference writes, we read; what we
//! write, the reference reads.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use std::convert::Infallible;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, UInt64Array};
use bytes::Bytes;
use iac_codec::brotli::{BrotliBackend, BrotliOptions};
use iac_codec::half::f16;
use iac_codec::zstd::{ZstdOptions, train_dictionary};
use iac_codec::{Codec, CodecSpec, Parameters, Registry, lz4};
use iac_format::{Element, ElementType};
use iac_interop::json::{header_value, shuffled, sums};
use iac_interop::reference;
use iac_reader::{
    FixedRecordPack, Matrix, ReadError, ReadOptions, RecordOptions, SourceKind, VariableRecordPack,
    VerifyOptions,
};
use iac_writer::{FixedPackBuilder, Table, VariablePackBuilder, WriteOptions};
use serde_json::{Value, json};

/// Has the reference write its packs of that kind; each comes with its description.
fn theirs(folder: &Path, kind: &str) -> Vec<(PathBuf, Value)> {
    let arguments = [folder.to_str().unwrap(), kind];
    let packs: Vec<(PathBuf, Value)> = reference::run_json("write_record_packs.py", &arguments, "")
        .into_iter()
        .map(|told| (folder.join(format!("{}.iac", told["name"].as_str().unwrap())), told))
        .collect();
    assert!(packs.len() > 20, "only {} packs were written", packs.len());
    packs
}

/// What the pack classes of the reference give for each file.
fn look<'a>(paths: impl IntoIterator<Item = &'a PathBuf>) -> Vec<Value> {
    let lines: String =
        paths.into_iter().map(|path| format!("{}\n", path.to_str().unwrap())).collect();
    reference::run_json::<&str>("read_record_packs.py", &[], &lines)
}

fn index_of(rows: usize) -> Table {
    let ids: Vec<u64> = (0..u64::try_from(rows).unwrap()).collect();
    let column: ArrayRef = Arc::new(UInt64Array::from(ids));
    Table::from(RecordBatch::try_from_iter([("item_id", column)]).unwrap())
}

fn options() -> WriteOptions {
    WriteOptions::new().sync(false)
}

fn rows_of(count: usize) -> Vec<u64> {
    (0..u64::try_from(count).unwrap()).collect()
}

/// The sums of the rows in the order in which batches ask for them.
fn in_order(sums: &Value) -> Value {
    let sums = sums.as_array().unwrap();
    let order = shuffled(u64::try_from(sums.len()).unwrap());
    order.iter().map(|row| sums[usize::try_from(*row).unwrap()].clone()).collect()
}

/// Each sum as a step of the reference that went well.
fn each_ok(sums: &Value) -> Value {
    sums.as_array().unwrap().iter().map(|sum| json!({ "ok": sum })).collect()
}

/// Reads a variable pack in every way and returns its records.
fn read_variable(context: &str, path: &Path, expected: &Value) -> Vec<Bytes> {
    let order = shuffled(u64::try_from(expected.as_array().unwrap().len()).unwrap());
    let batch = in_order(expected);
    let two = NonZeroUsize::new(2);
    let mut records = Vec::new();
    for options in [
        ReadOptions::default(),
        ReadOptions::default().source(SourceKind::Positional).workers(NonZeroUsize::MIN),
        ReadOptions::default().workers(two),
    ] {
        let pack = VariableRecordPack::open_with(path, &options, RecordOptions::default()).unwrap();
        let report = pack.reader().verify(&VerifyOptions::default());
        assert!(report.is_sound(), "{context}: {:?}", report.faults);
        let count = usize::try_from(pack.record_count().unwrap()).unwrap();
        records = rows_of(count).iter().map(|row| pack.read(*row).unwrap()).collect();
        assert_eq!(&sums(&records), expected, "{context}: one by one");
        assert_eq!(sums(pack.read_many(&order).unwrap()), batch, "{context}: many");
        let contiguous = pack.read_many_contiguous(&order).unwrap();
        assert_eq!(sums(contiguous.iter()), batch, "{context}: contiguous");
    }
    records
}

/// The reference sees the codec that was asked for, and reads the records in every way.
fn check_seen_records(context: &str, seen: &Value, codec: &Value, params: &Value, records: &Value) {
    assert_eq!(&seen["header"]["codec"], codec, "{context}");
    assert_eq!(&seen["header"]["codec_params"], params, "{context}");
    assert_eq!(seen["header"]["required_extensions"], Value::Null, "{context}");
    let count = records.as_array().unwrap().len();
    assert_eq!(seen["rows"], json!([0, count, count]), "{context}");
    assert_eq!(seen["read"], each_ok(records), "{context}");
    let batch = json!({ "ok": in_order(records) });
    for way in ["many", "many_serial", "contiguous", "contiguous_serial"] {
        assert_eq!(seen[way], batch, "{way} of {context}");
    }
}

/// The codecs of ours that answer to one name and one set of parameters.
fn our_codecs(name: &str, params: &Parameters) -> Vec<(String, Codec)> {
    let spec = CodecSpec::new(name, params.clone());
    let mut codecs = vec![("registry".to_owned(), Registry::global().create(&spec).unwrap())];
    if name == "brotli" {
        let number = |name: &str| params.get(name).map(|v| u8::try_from(v.as_u64().unwrap()));
        for backend in [BrotliBackend::PureRust, BrotliBackend::C] {
            let mut options = BrotliOptions::default().with_backend(backend);
            if let Some(quality) = number("quality") {
                options = options.with_quality(quality.unwrap());
            }
            if let Some(lgwin) = number("lgwin") {
                options = options.with_lgwin(lgwin.unwrap());
            }
            codecs.push((format!("{backend:?}"), options.codec().unwrap()));
        }
    }
    codecs
}

/// Writes the records with every builder and backend; returns the paths.
fn write_variable(folder: &Path, name: &str, told: &Value, records: &[Bytes]) -> Vec<PathBuf> {
    let codec_name = told["codec"].as_str().unwrap();
    let params = told["params"].as_object().unwrap();
    let mut paths = Vec::new();
    let mut next = |way: &str| {
        let path = folder.join(format!("{name}_ours_{way}.iac"));
        paths.push(path.clone());
        path
    };
    let builder = VariablePackBuilder::new("notes", index_of(records.len())).options(options());

    let by_name = builder.clone().codec_spec(CodecSpec::new(codec_name, params.clone()));
    by_name.build(next("by_name"), records).unwrap();
    let stream = records.iter().map(Ok::<_, Infallible>);
    let narrow = by_name.workers(NonZeroUsize::new(2)).memory(100_000);
    narrow.build_streaming(next("streaming"), stream).unwrap();

    for (label, codec) in our_codecs(codec_name, params) {
        let encoded: Vec<Vec<u8>> =
            records.iter().map(|record| codec.encode_bytes(record).unwrap()).collect();
        let ready = builder.clone().codec(codec);
        ready.build_from_payloads(next(&format!("{label}_payloads")), &encoded).unwrap();
        // The other builders do not differ by what encoded the records.
        if label != "registry" {
            continue;
        }
        ready.build(next(&format!("{label}_codec")), records).unwrap();
        let stream = encoded.iter().map(Ok::<_, Infallible>);
        let path = next(&format!("{label}_payload_stream"));
        ready.build_from_payloads_streaming(path, stream).unwrap();
    }
    paths
}

#[test]
fn records_of_every_codec_and_parameter_set_are_read_on_both_sides() {
    let folder = tempfile::tempdir().unwrap();
    let mut ours = Vec::new();
    for (path, told) in theirs(folder.path(), "variable") {
        let context = told["name"].as_str().unwrap();
        let pack = VariableRecordPack::open(&path).unwrap();
        let members = pack.reader().header().members();
        assert_eq!(members["codec"], told["codec"], "{context}");
        let params = members.get("codec_params").cloned().unwrap_or(Value::Null);
        let persisted =
            if told["persisted"] == json!({}) { &Value::Null } else { &told["persisted"] };
        assert_eq!(&params, persisted, "{context}");
        assert_eq!(json!(pack.codec().unwrap().parameters()), told["persisted"], "{context}");

        let records = read_variable(context, &path, &told["records"]);
        for ours_path in write_variable(folder.path(), context, &told, &records) {
            let context = ours_path.file_name().unwrap().to_str().unwrap().to_owned();
            read_variable(&context, &ours_path, &told["records"]);
            ours.push((context, ours_path, header_value(&params), told.clone()));
        }
    }
    let seen = look(ours.iter().map(|(_, path, ..)| path));
    assert_eq!(seen.len(), ours.len());
    for ((context, _, params, told), seen) in ours.iter().zip(&seen) {
        check_seen_records(context, seen, &told["codec"], params, &told["records"]);
    }
}

/// Writes a matrix from memory and row by row.
fn write_vectors<T: Element>(
    folder: &Path,
    name: &str,
    dim: usize,
    elements: &[T],
) -> Vec<PathBuf> {
    let rows = elements.len() / dim;
    let builder = FixedPackBuilder::new("vectors", index_of(rows)).options(options());
    let paths: Vec<PathBuf> = ["matrix", "stream"]
        .iter()
        .map(|way| folder.join(format!("{name}_ours_{way}.iac")))
        .collect();
    builder.build(&paths[0], dim, elements).unwrap();
    let stream = elements.chunks(dim).map(Ok::<_, Infallible>);
    builder.build_streaming::<T, _, _, _>(&paths[1], dim, stream).unwrap();
    paths
}

/// Writes what another pack holds as elements of its own type, and as bytes.
fn write_fixed(folder: &Path, name: &str, pack: &FixedRecordPack, all: &Matrix) -> Vec<PathBuf> {
    let dim = pack.dim();
    macro_rules! elements {
        ($rust:ty) => {
            write_vectors::<$rust>(folder, name, dim, &all.elements::<$rust>().unwrap())
        };
    }
    let mut paths = match pack.element() {
        ElementType::Bool => {
            let elements: Vec<bool> = all.bytes().iter().map(|byte| *byte == 1).collect();
            write_vectors(folder, name, dim, &elements)
        }
        ElementType::Int8 => elements!(i8),
        ElementType::Int16 => elements!(i16),
        ElementType::Int32 => elements!(i32),
        ElementType::Int64 => elements!(i64),
        ElementType::Uint8 => elements!(u8),
        ElementType::Uint16 => elements!(u16),
        ElementType::Uint32 => elements!(u32),
        ElementType::Uint64 => elements!(u64),
        ElementType::Float16 => elements!(f16),
        ElementType::Bfloat16 => panic!("the reference does not know it"),
        ElementType::Float32 => elements!(f32),
        ElementType::Float64 => elements!(f64),
        ElementType::Complex64 => elements!([f32; 2]),
        ElementType::Complex128 => elements!([f64; 2]),
    };
    let path = folder.join(format!("{name}_ours_bytes.iac"));
    let rows = usize::try_from(pack.record_count()).unwrap();
    let builder = FixedPackBuilder::new("vectors", index_of(rows)).options(options());
    builder.build_bytes(&path, pack.shape(), all.bytes()).unwrap();
    paths.push(path);
    paths
}

/// Reads a fixed pack in every way; returns it with all of its rows.
fn read_fixed(context: &str, path: &Path, told: &Value) -> (FixedRecordPack, Matrix) {
    let pack = FixedRecordPack::open(path).unwrap();
    let rows = rows_of(told["records"].as_array().unwrap().len());
    let order = shuffled(pack.record_count());
    assert_eq!(json!(pack.record_count()), json!(rows.len()), "{context}");
    assert_eq!(json!([pack.element().name(), pack.dim()]), json!([told["dtype"], told["dim"]]));
    let single = rows.iter().map(|row| pack.read(*row).unwrap());
    assert_eq!(sums(single), told["records"], "{context}: one by one");
    let batch = pack.read_matrix(&order).unwrap();
    assert_eq!(batch.shape(), [order.len(), pack.dim()], "{context}");
    let found = sums(batch.bytes().chunks(pack.row_bytes()));
    assert_eq!(found, in_order(&told["records"]), "{context}: matrix");

    let converted = pack.read_many_f32(&order);
    if told["dtype"].as_str().unwrap().starts_with("complex") {
        // The reference drops the imaginary part there.
        let error = converted.unwrap_err();
        assert!(matches!(error, ReadError::ElementType { .. }), "{context}: {error}");
    } else {
        let converted = converted.unwrap();
        let rows = converted.chunks(pack.dim()).map(|row| -> Vec<u8> {
            row.iter().flat_map(|element| element.to_le_bytes()).collect()
        });
        assert_eq!(sums(rows), in_order(&told["float32"]), "{context}: converted");
    }
    let all = pack.read_matrix(&rows).unwrap();
    (pack, all)
}

#[test]
fn vectors_of_every_element_type_are_read_on_both_sides() {
    let folder = tempfile::tempdir().unwrap();
    let mut ours = Vec::new();
    for (path, told) in theirs(folder.path(), "fixed") {
        let context = told["name"].as_str().unwrap();
        let (pack, all) = read_fixed(context, &path, &told);
        for ours_path in write_fixed(folder.path(), context, &pack, &all) {
            let context = ours_path.file_name().unwrap().to_str().unwrap().to_owned();
            read_fixed(&context, &ours_path, &told);
            let theirs = pack.reader().header().members().clone();
            ours.push((context, ours_path, theirs, told.clone()));
        }
    }
    let seen = look(ours.iter().map(|(_, path, ..)| path));
    assert_eq!(seen.len(), ours.len());
    for ((context, _, theirs, told), seen) in ours.iter().zip(&seen) {
        for name in ["payload_type", "codec", "feature_dim", "dtype", "feature_record_bytes"] {
            assert_eq!(seen["header"][name], theirs[name], "{name} of {context}");
        }
        let records = &told["records"];
        assert_eq!(seen["read"], each_ok(records), "{context}");
        let batch = in_order(records);
        let shape = json!([batch.as_array().unwrap().len(), told["dim"]]);
        let matrix = json!({ "dtype": told["dtype"], "shape": shape, "rows": batch });
        assert_eq!(seen["matrix"], json!({ "ok": matrix }), "{context}");
        let many = json!({ "dtypes": ["float32"], "rows": in_order(&told["float32"]) });
        assert_eq!(seen["many"], json!({ "ok": many }), "{context}");
    }
}

#[test]
fn codecs_beyond_the_reference_leave_it_the_stored_bytes_and_nothing_wrongly_decoded() {
    let folder = tempfile::tempdir().unwrap();
    let note = |n: usize| format!("Case {n}: specimen in formalin, {} mm, benign.", n * 7 % 41);
    let mut records: Vec<Vec<u8>> = (0..400).map(|n| note(n).into_bytes()).collect();
    let dictionary = train_dictionary(&records, 4096).unwrap();
    records.truncate(20);
    records.extend([Vec::new(), vec![7], vec![0; 70_000]]);

    let cases = [
        ("lz4", lz4::codec(), "iac.codec.lz4", "ValueError"),
        (
            "zstd",
            ZstdOptions::new(3).with_dictionary(dictionary).codec().unwrap(),
            "iac.zstd.dictionary",
            "OSError",
        ),
    ];
    let mut paths = Vec::new();
    for (name, codec, ..) in &cases {
        let path = folder.path().join(format!("{name}.iac"));
        VariablePackBuilder::new("notes", index_of(records.len()))
            .codec(codec.clone())
            .options(options())
            .build(&path, &records)
            .unwrap();
        read_variable(name, &path, &sums(&records));
        paths.push(path);
    }
    for (((name, codec, extension, error), path), seen) in
        cases.iter().zip(&paths).zip(look(&paths))
    {
        assert_eq!(seen["header"]["codec"], json!(name));
        assert_eq!(seen["header"]["required_extensions"], json!([extension]), "{name}");
        let params = seen["header"].get("codec_params").cloned().unwrap_or_else(|| json!({}));
        assert_eq!(params, json!(codec.parameters()), "{name}");
        assert_eq!(seen["rows"], json!([0, records.len(), records.len()]), "{name}");

        let pack = VariableRecordPack::open(path).unwrap();
        let stored = rows_of(records.len()).into_iter().map(|row| pack.read_bytes(row).unwrap());
        assert_eq!(seen["stored"], json!({ "ok": sums(stored) }), "{name}");
        for (row, step) in seen["read"].as_array().unwrap().iter().enumerate() {
            assert_eq!(step["error"], json!(error), "row {row} of {name}: {step}");
        }
        for way in ["many", "many_serial", "contiguous", "contiguous_serial"] {
            assert_eq!(seen[way]["error"], json!(error), "{way} of {name}: {}", seen[way]);
        }
    }
}
