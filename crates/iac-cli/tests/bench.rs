//! `bench`: its members for every kind of pack, and what it says where something cannot be
//! measured. Never how fast anything is.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

mod common;

use std::path::Path;

use common::{Run, golden, golden_json, malformed, small_pack};
use serde_json::{Value, json};
use tempfile::tempdir;

fn bench(path: impl AsRef<Path>) -> Run {
    iac!("bench", path.as_ref(), "--seconds", "0.05", "--batch", "7", "--json")
}

#[track_caller]
fn check_rate(rate: &Value, records_of_a_call: u64) {
    let members: Vec<&str> = rate.as_object().unwrap().keys().map(String::as_str).collect();
    let mut wanted =
        ["calls", "records", "bytes", "seconds", "records_per_second", "bytes_per_second"];
    wanted.sort_unstable();
    assert_eq!(members, wanted);
    let calls = rate["calls"].as_u64().unwrap();
    assert!(calls > 0);
    assert_eq!(rate["records"], calls * records_of_a_call);
    assert!(rate["seconds"].as_f64().unwrap() > 0.0);
    let rate_of = |what: &str| {
        let expected = rate[what].as_f64().unwrap() / rate["seconds"].as_f64().unwrap();
        (rate[format!("{what}_per_second")].as_f64().unwrap() - expected).abs() <= expected * 1e-9
    };
    assert!(rate_of("records") && rate_of("bytes"), "{rate}");
}

/// Checks everything but `decode` and `absent`.
#[track_caller]
fn check_report(report: &Value, path: &Path, kind: &str, span_bytes: &Value) {
    assert_eq!(report["path"], path.to_str().unwrap());
    assert_eq!(report["kind"], kind);
    assert_eq!(report["batch"], 7);
    assert_eq!(report["span_bytes"], *span_bytes);
    check_rate(&report["memory_copy"], 1);
    for what in ["random", "sequential", "view"] {
        check_rate(&report[what], 7);
    }
}

#[test]
fn fixed_pack_and_pack_of_files_have_all_measurements() {
    let folder = tempdir().unwrap();
    for (path, kind) in
        [(small_pack(folder.path()), "variable"), (golden("fixed_float32_4x3_a"), "fixed")]
    {
        let report = bench(&path).succeeded().json();
        check_report(&report, &path, kind, &Value::Null);
        check_rate(&report["decode"], 7);
        assert_eq!(report.get("absent"), None);
        if kind == "fixed" {
            let row_bytes = 3 * 4;
            for what in ["random", "sequential", "view", "decode"] {
                let rate = &report[what];
                assert_eq!(rate["bytes"], rate["records"].as_u64().unwrap() * row_bytes);
            }
            assert_eq!((&report["records"], &report["data_bytes"]), (&json!(4), &json!(48)));
        }
    }
}

#[test]
fn decoding_is_measured_where_the_codec_is_compiled_in_and_named_where_not() {
    let version = iac!("--version").succeeded();
    let codecs = version.lines().into_iter().find_map(|line| line.strip_prefix("codecs: "));
    let codecs: Vec<String> = codecs.unwrap().split(", ").map(str::to_owned).collect();
    for name in ["zstd_a0", "brotli_a0", "jpeg_a0", "jxl_a0", "jpeg2000_a0", "jpegls_a0"] {
        let path = golden(name);
        let codec = golden_json(name)["header"]["codec"].clone();
        let report = bench(&path).succeeded().json();
        check_report(&report, &path, "variable", &Value::Null);
        assert_eq!(report["codec"], codec);
        if codecs.iter().any(|known| codec == **known) {
            check_rate(&report["decode"], 7);
            assert_eq!(report.get("absent"), None, "{name}");
        } else {
            assert_eq!(report.get("decode"), None, "{name}");
            let absent = report["absent"].as_array().unwrap();
            assert_eq!(absent.len(), 1);
            assert_eq!(absent[0]["what"], "decode");
            assert_eq!(absent[0]["kind"], "missing_feature");
            assert!(absent[0]["message"].as_str().unwrap().contains(codec.as_str().unwrap()));
        }
    }
    let report = bench(malformed("codec_unknown_a")).succeeded().json();
    assert_eq!(report["absent"][0]["kind"], "unknown_codec");
}

#[test]
fn segment_pack_is_read_in_pieces() {
    let path = golden("data_segment_a");
    let report = bench(&path).succeeded().json();
    check_report(&report, &path, "segment", &json!(65_536));
    assert_eq!(report.get("decode"), None);
    assert_eq!(report["absent"][0]["what"], "decode");
    assert_eq!(report["absent"][0]["kind"], "no_record_index");
}

#[test]
fn pack_without_rows_measures_nothing_but_memory() {
    for name in ["empty_a", "fixed_float32_0x4_a"] {
        let report = bench(golden(name)).succeeded().json();
        check_rate(&report["memory_copy"], 1);
        let absent = report["absent"].as_array().unwrap();
        let what: Vec<&str> = absent.iter().map(|one| one["what"].as_str().unwrap()).collect();
        assert_eq!(what, ["random", "sequential", "view", "decode"]);
        assert!(report.get("random").is_none() && report.get("decode").is_none());
    }
}

#[test]
fn page_names_every_measurement() {
    let folder = tempdir().unwrap();
    let run = iac!("bench", small_pack(folder.path()), "--seconds", "0.05").succeeded();
    for part in ["variable", "in batches of 256", "random", "sequential", "view", "decode", "copy"]
    {
        assert!(run.text().contains(part), "{part}: {}", run.text());
    }
    let run = iac!("bench", golden("data_segment_a"), "--seconds", "0.05").succeeded();
    for part in ["segment", "256 pieces of 64.0 KiB", "no decode:"] {
        assert!(run.text().contains(part), "{part}: {}", run.text());
    }
}

#[test]
fn damaged_record_ends_it() {
    let error = bench(malformed("crc_mismatch_a")).ended_with(1).json_error();
    assert_eq!(error["kind"], "checksum");
    assert!(error["row"].is_u64(), "{error}");
}

#[test]
fn numbers_that_make_no_sense_are_refused() {
    let path = golden("zstd_a0");
    for (option, value) in [
        ("--batch", "0"),
        ("--batch", "1048577"),
        ("--seconds", "0"),
        ("--seconds", "nan"),
        ("--seconds", "inf"),
        ("--seconds", "-1"),
        ("--seconds", "1e9"),
    ] {
        let error = iac!("bench", path, format!("{option}={value}"), "--json").ended_with(2);
        assert_eq!(error.json_error()["kind"], "usage", "{option} {value}");
    }
}
