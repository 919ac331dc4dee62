//! Which codec reads a pack: what its header says, or one of the caller's with other options.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringArray};
use iac_codec::zstd::{DEFAULT_LEVEL, ZstdOptions};
use iac_codec::{Codec, brotli::BrotliOptions};
use iac_format::ErrorKind;
use iac_reader::VariableRecordPack;
use iac_writer::{Table, VariablePackBuilder, WriteOptions};
use serde_json::{Value, json};

fn builder() -> VariablePackBuilder {
    let ids: ArrayRef = Arc::new(StringArray::from(vec!["a", "b"]));
    let index = RecordBatch::try_from_iter([("item_id", ids)]).unwrap();
    VariablePackBuilder::new("test", Table::from(index))
        .options(WriteOptions::new().sync(false).overwrite(true))
}

fn zstd() -> Codec {
    ZstdOptions::new(DEFAULT_LEVEL).codec().unwrap()
}

/// A pack whose payloads are sound, under a header that says what it likes.
fn write(path: &Path, codec: &Codec, params: &Value) {
    let payloads = [b"first", b"other"].map(|record| codec.encode_bytes(record).unwrap());
    let header = json!({"codec": codec.name(), "codec_params": params});
    let Value::Object(header) = header else { panic!() };
    builder().header(header).build_from_payloads(path, &payloads).unwrap();
}

#[test]
fn parameter_out_of_range_prevents_decoding_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pack.iac");
    let brotli = BrotliOptions::default().codec().unwrap();
    for (codec, params, parameter) in [
        (zstd(), json!({"level": 2_147_483_648_u32}), "`level`"),
        (zstd(), json!({"level": -2_147_483_649_i64}), "`level`"),
        (zstd(), json!({"dictionary": "AAAA"}), "`dictionary`"),
        (brotli.clone(), json!({"quality": 12}), "`quality`"),
        (brotli.clone(), json!({"quality": 5, "lgwin": 9}), "`lgwin`"),
        (brotli.clone(), json!({"lgwin": u64::MAX}), "`lgwin`"),
    ] {
        write(&path, &codec, &params);
        let pack = VariableRecordPack::open(&path).unwrap();
        assert_eq!(pack.record_count().unwrap(), 2);
        assert_eq!(pack.reader().index_table().unwrap().num_rows(), 2);
        assert_eq!(pack.read_bytes(0).unwrap(), codec.encode_bytes(b"first").unwrap());
        for result in [
            pack.codec().map(drop),
            pack.read(0).map(drop),
            pack.read_many(&[1]).map(drop),
            pack.read_many_lossy(&[1]).map(drop),
        ] {
            let error = result.unwrap_err();
            assert_eq!((error.kind(), error.row()), (ErrorKind::Decode, None), "{error}");
            assert_eq!(error.field(), Some("codec_params"), "{error}");
            assert!(error.to_string().contains(parameter), "{error}");
        }
    }
    // What the reference packages take for the default.
    for (codec, params) in [
        (zstd(), json!({"level": 1_u64 << 63, "other": 1})),
        (zstd(), json!({"level": 1e30})),
        (zstd(), json!({"level": null})),
        (brotli.clone(), json!({"quality": -1, "lgwin": i64::MIN})),
        (brotli, json!({"quality": 12.0, "lgwin": "9"})),
    ] {
        write(&path, &codec, &params);
        assert_eq!(VariableRecordPack::open(&path).unwrap().read(1).unwrap(), "other", "{params}");
    }
}

#[test]
fn codec_of_the_caller_reads_with_options_that_no_header_states() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pack.iac");
    let codec = zstd();
    let one = codec.encode_bytes(b"one").unwrap();
    let two = [&one[..], &one].concat();
    builder().codec(codec).build_from_payloads(&path, &[one, two]).unwrap();
    let pack = VariableRecordPack::open(&path).unwrap();
    assert_eq!(pack.read_many(&[0, 1]).unwrap(), ["one", "oneone"]);

    let options = ZstdOptions::from_spec(&pack.codec_spec().unwrap()).unwrap();
    let strict = pack.clone().with_codec(options.with_strict(true).codec().unwrap()).unwrap();
    assert_eq!(strict.read(0).unwrap(), "one");
    let error = strict.read(1).unwrap_err();
    assert_eq!((error.kind(), error.row()), (ErrorKind::Decode, Some(1)));
    assert!(error.to_string().contains("instead of exactly one frame"), "{error}");
    let (_, skipped) = strict.read_many_lossy(&[0, 1]).unwrap();
    assert_eq!(skipped.len(), 1);
    assert_eq!(pack.read(1).unwrap(), "oneone", "the first one reads as before");

    let error = pack.with_codec(Codec::none()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
    assert!(error.to_string().contains("of codec `zstd`, not of `none`"), "{error}");
}

#[test]
fn codec_of_the_caller_does_not_make_up_for_an_unknown_extension() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pack.iac");
    let members = json!({"codec": "zstd", "required_extensions": ["iac.future"]});
    let Value::Object(members) = members else { panic!() };
    let payload = zstd().encode_bytes(b"x").unwrap();
    builder().header(members).build_from_payloads(&path, &[&payload, &payload]).unwrap();
    let pack = VariableRecordPack::open(&path).unwrap();
    let error = pack.with_codec(zstd()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnsupportedExtension);
}
