//! The same records with another codec.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
#![allow(clippy::arithmetic_side_effects)]

mod common;

use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;

use iac_codec::{ByteCodec, Codec, CodecError, CodecSpec, Limits, Parameters, Registry};
use iac_ops::recode::{RecodeOptions, recode};
use iac_ops::{Cancel, ErrorKind, NoProgress};
use iac_reader::{PackReader, VariableRecordPack};
use serde_json::{Value, json};

/// Every byte twice; nothing that starts with `!`.
struct Doubled;

impl ByteCodec for Doubled {
    fn name(&self) -> &str {
        "test.recode.doubled"
    }

    fn parameters(&self) -> Parameters {
        let mut parameters = Parameters::new();
        parameters.insert("times".into(), 2.into());
        parameters
    }

    fn encode(&self, record: &[u8]) -> Result<Vec<u8>, CodecError> {
        if record.starts_with(b"!") {
            return Err(CodecError::encode(self.name(), "starts with !"));
        }
        Ok(record.iter().flat_map(|byte| [*byte, *byte]).collect())
    }

    fn decode(&self, payload: &[u8], _: &Limits) -> Result<Vec<u8>, CodecError> {
        Ok(payload.iter().step_by(2).copied().collect())
    }

    fn required_extensions(&self) -> &[&str] {
        &["test.doubled"]
    }
}

fn doubled() -> RecodeOptions {
    // Registered once for all tests of this file; the second time it is taken.
    let _ = Registry::global()
        .register("test.recode.doubled", |_: &Parameters| Ok(Codec::from_byte_codec(Doubled)));
    let mut options = RecodeOptions::default();
    options.codec = CodecSpec::new("test.recode.doubled", Parameters::new());
    options.write = options.write.sync(false);
    options
}

fn golden(name: &str) -> PackReader {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/container");
    PackReader::open(path.join(format!("{name}.iac"))).unwrap()
}

fn members(pack: &PackReader) -> Value {
    let mut members = pack.header().members().clone();
    let layout = [
        "slide_table_length",
        "index_table_offset",
        "index_table_length",
        "data_offset",
        "data_length",
        "checksums",
        "extensions",
    ];
    for member in layout {
        members.remove(member);
    }
    Value::Object(members)
}

#[test]
fn records_tables_and_members_survive_the_way_there_and_back() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["none_a", "chunked_a", "many_slides_a", "tol_shared_spans_a", "zero_length_a"] {
        let old = golden(name);
        let (there, back) = (folder.path().join("there.iac"), folder.path().join("back.iac"));
        let mut options = doubled();
        options.write = options.write.overwrite(true);
        let summary = recode(&old, &there, &options, &NoProgress).unwrap();
        let rows = old.num_records().unwrap();
        assert_eq!(summary.rows, rows, "{name}");
        assert_eq!(summary.written.data_bytes, 2 * summary.decoded_bytes, "{name}");
        let new = PackReader::open(&there).unwrap();
        assert_eq!(new.header().get("codec"), Some(&json!("test.recode.doubled")), "{name}");
        assert_eq!(new.header().get("codec_params"), Some(&json!({"times": 2})), "{name}");
        assert_eq!(new.header().required_extensions(), ["test.doubled"], "{name}");
        let records = VariableRecordPack::from_reader(new.clone());
        let all: Vec<u64> = (0..rows).collect();
        assert_eq!(records.read_many(&all).unwrap(), old.read_rows(&all).unwrap(), "{name}");
        let (slides, expected) = (new.slide_table().unwrap(), old.slide_table().unwrap());
        assert_eq!(slides.batches().unwrap(), expected.batches().unwrap(), "{name}");
        for field in old.index_table().unwrap().schema().fields() {
            let column = [field.name().as_str()];
            if !["offset", "length", "crc32"].contains(&column[0]) {
                let expected = old.index_table().unwrap().columns(&column).unwrap();
                assert_eq!(new.index_table().unwrap().columns(&column).unwrap(), expected);
            }
        }
        let mut options = RecodeOptions::default();
        options.write = options.write.sync(false).overwrite(true);
        recode(&new, &back, &options, &NoProgress).unwrap();
        let back = PackReader::open(&back).unwrap();
        assert_eq!(back.read_rows(&all).unwrap(), old.read_rows(&all).unwrap(), "{name}");
        let mut expected = members(&old);
        expected["codec"] = json!("none");
        expected.as_object_mut().unwrap().remove("codec_params");
        assert_eq!(members(&back), expected, "{name}");
        // Over itself, while it is open.
        let path = there.clone();
        let mut options = doubled();
        options.write = options.write.overwrite(true);
        recode(&new, &path, &options, &NoProgress).unwrap();
        let again = VariableRecordPack::open(&path).unwrap();
        assert_eq!(again.read_many(&all).unwrap(), records.read_many(&all).unwrap());
    }
}

fn sources(folder: &Path, count: usize) -> PackReader {
    let sources = folder.join("sources");
    fs::create_dir(&sources).unwrap();
    for at in 0..count {
        let text = if at == 60 { "!".to_owned() } else { format!("{at} ").repeat(at) };
        fs::write(sources.join(format!("{at:03}")), text).unwrap();
    }
    let mut options = iac_ops::raw::RawPackOptions::default();
    options.write = options.write.sync(false);
    let path = folder.join("source.iac");
    iac_ops::raw::pack_raw(&[sources], &path, &options, &NoProgress).unwrap();
    PackReader::open(path).unwrap()
}

#[test]
fn bytes_do_not_depend_on_threads() {
    let folder = tempfile::tempdir().unwrap();
    let pack = sources(folder.path(), 50);
    let mut found = Vec::new();
    for workers in [1, 4] {
        let mut options = doubled();
        options.workers = NonZeroUsize::new(workers);
        let path = folder.path().join(format!("{workers}.iac"));
        recode(&pack, &path, &options, &NoProgress).unwrap();
        found.push(fs::read(path).unwrap());
    }
    assert!(found[0] == found[1]);
}

#[test]
fn what_fails_names_its_row_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let pack = sources(folder.path(), 70);
    let path = folder.path().join("out.iac");
    let error = recode(&pack, &path, &doubled(), &NoProgress).unwrap_err();
    assert_eq!((error.row(), error.kind()), (Some(60), ErrorKind::Usage), "{error}");
    let cancel = Cancel::new();
    cancel.cancel();
    assert!(recode(&pack, &path, &doubled(), &cancel).unwrap_err().is_cancelled());
    let mut options = doubled();
    options.codec = CodecSpec::new("nope", Parameters::new());
    let error = recode(&pack, &path, &options, &NoProgress).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnknownCodec);
    for name in ["fixed_float16_5x8_a", "data_segment_a"] {
        let error = recode(&golden(name), &path, &doubled(), &NoProgress).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoRecordIndex, "{name}: {error}");
    }
    assert!(!path.exists());
    fs::write(&path, "old").unwrap();
    let error = recode(&pack, &path, &doubled(), &NoProgress).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exists);
    assert_eq!(fs::read(&path).unwrap(), b"old");
}
