//! What the tests of the byte codecs share.
#![allow(dead_code, unreachable_pub, unused_mut, clippy::arithmetic_side_effects)]

use std::path::Path;

use iac_codec::{Codec, CodecSpec, Registry};
use serde_json::{Value, json};

/// Every codec of bytes that is compiled in, with every backend and some parameters.
pub fn codecs() -> Vec<(String, Codec)> {
    let mut codecs = vec![("none".to_owned(), Codec::none())];
    #[cfg(feature = "zstd")]
    {
        for level in [-5, 1, 3, 19] {
            let codec = iac_codec::zstd::ZstdOptions::new(level).codec().unwrap();
            codecs.push((format!("zstd {level}"), codec));
        }
        let codec = iac_codec::zstd::ZstdOptions::new(3).with_dictionary(dictionary().to_vec());
        codecs.push(("zstd with a dictionary".to_owned(), codec.codec().unwrap()));
    }
    #[cfg(feature = "brotli")]
    for backend in brotli_backends() {
        for (quality, lgwin) in [(0, 10), (1, 16), (5, 18), (9, 22), (11, 24)] {
            let options = iac_codec::brotli::BrotliOptions::default();
            let options = options.with_quality(quality).with_lgwin(lgwin).with_backend(backend);
            codecs
                .push((format!("brotli {quality} {lgwin} {backend:?}"), options.codec().unwrap()));
        }
    }
    #[cfg(feature = "lz4")]
    codecs.push(("lz4".to_owned(), iac_codec::lz4::codec()));
    codecs
}

#[cfg(feature = "brotli")]
pub fn brotli_backends() -> Vec<iac_codec::brotli::BrotliBackend> {
    use iac_codec::brotli::BrotliBackend;
    vec![
        BrotliBackend::PureRust,
        #[cfg(feature = "brotli-c")]
        BrotliBackend::C,
    ]
}

#[cfg(feature = "zstd")]
pub fn dictionary() -> &'static [u8] {
    use std::sync::OnceLock;
    static DICTIONARY: OnceLock<Vec<u8>> = OnceLock::new();
    DICTIONARY.get_or_init(|| iac_codec::zstd::train_dictionary((0..2000).map(note), 4096).unwrap())
}

/// A short text like others of its kind; the same number gives the same text.
pub fn note(number: u32) -> String {
    const WORDS: [&str; 24] = [
        "biopsy",
        "of",
        "the",
        "left",
        "breast",
        "shows",
        "invasive",
        "ductal",
        "carcinoma",
        "grade",
        "margins",
        "clear",
        "no",
        "evidence",
        "lymph",
        "nodes",
        "were",
        "examined",
        "specimen",
        "received",
        "in",
        "formalin",
        "oestrogen",
        "receptor",
    ];
    let mut state = u64::from(number).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut text = format!("Case {number}: ");
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state >> 40).unwrap()
    };
    for _ in 0..30 + next() % 200 {
        text.push_str(WORDS[next() % WORDS.len()]);
        text.push(' ');
        if next() % 11 == 0 {
            text.push_str(&(next() % 1000).to_string());
            text.push_str(" mm. ");
        }
    }
    text
}

/// Bytes that no codec makes shorter.
pub fn noise(count: usize) -> Vec<u8> {
    let mut state = 0x2545_F491_4F6C_DD1D_u64;
    let step = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[5]
    };
    std::iter::repeat_with(step).take(count).collect()
}

pub fn make(name: &str, parameters: &Value) -> Codec {
    let spec = CodecSpec::from_members(Some(&json!(name)), Some(parameters)).unwrap();
    Registry::builtin().create(&spec).unwrap()
}

/// A golden file: its description, its codec and its payloads.
pub struct Golden {
    pub json: Value,
    pub spec: CodecSpec,
    pub payloads: Vec<Vec<u8>>,
}

/// Reads a golden file of the crate that reads packs. Its records lie one behind the other.
pub fn golden(folder: &str, name: &str) -> Golden {
    let folder =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../iac-reader/tests/data").join(folder);
    let json = std::fs::read_to_string(folder.join(name).with_extension("json")).unwrap();
    let json: Value = serde_json::from_str(&json).unwrap();
    let file = std::fs::read(folder.join(name).with_extension("iac")).unwrap();
    let header = iac_format::header_text(&file, file.len() as u64).unwrap();
    let header: Value = serde_json::from_str(header).unwrap();
    let lengths: Vec<usize> = if let Some(records) = json["records"].as_array() {
        records.iter().map(|record| number(&record["length"])).collect()
    } else {
        let records = json["reference_steps"]["read_each_record"].as_array().unwrap();
        records.iter().map(|record| number(&record["value"])).collect()
    };
    let mut rest = &file[number(&header["data_offset"])..];
    let payloads = lengths.iter().map(|length| rest.split_off(..*length).unwrap().to_vec());
    let payloads = payloads.collect();
    assert!(rest.is_empty());
    Golden { spec: CodecSpec::from_header(header.as_object().unwrap()).unwrap(), json, payloads }
}

fn number(value: &Value) -> usize {
    usize::try_from(value.as_u64().unwrap()).unwrap()
}
