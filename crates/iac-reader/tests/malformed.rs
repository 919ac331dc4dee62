//! Every malformed golden: what must fail fails with an error that names the place, what can still
//! be read is read.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, missing_docs)]
#![allow(clippy::cast_possible_truncation, clippy::arithmetic_side_effects)]

mod common;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use common::{all_sources, data_dir, golden_names, hex, json, sha256};
use iac_format::ErrorKind;
use iac_reader::{PackReader, ReadError, Result, VerifyOptions};
use serde_json::Value;

/// Where reading is expected to fail first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Open,
    Tables,
    Records,
    Nowhere,
}

struct Case {
    name: &'static str,
    step: Step,
    kind: ErrorKind,
    /// What the message must name.
    names: &'static str,
}

const fn case(name: &'static str, step: Step, kind: ErrorKind, names: &'static str) -> Case {
    Case { name, step, kind, names }
}

/// Cases that reading stored bytes meets; damaged payloads are the codecs' affair.
const CASES: &[Case] = &[
    case("arrow_bad_metadata_a", Step::Tables, ErrorKind::Damaged, "index table"),
    case("arrow_bad_slide_metadata_a", Step::Tables, ErrorKind::Damaged, "slide table"),
    case("arrow_empty_a", Step::Tables, ErrorKind::Damaged, "index table"),
    case("arrow_huge_metadata_a", Step::Tables, ErrorKind::Damaged, "index table"),
    case("arrow_cut_a", Step::Tables, ErrorKind::Damaged, "index table"),
    case("cut_after_header_a", Step::Open, ErrorKind::Damaged, "slide_table_length"),
    case("cut_in_slide_table_a", Step::Open, ErrorKind::Damaged, "slide_table_length"),
    case("cut_in_index_table_a", Step::Open, ErrorKind::Damaged, "index_table_length"),
    case("cut_in_data_a", Step::Open, ErrorKind::Damaged, "data_length"),
    case("data_length_1e20_a", Step::Open, ErrorKind::Damaged, "data_length"),
    case("data_length_float_a", Step::Open, ErrorKind::Damaged, "data_length"),
    case("data_length_missing_a", Step::Open, ErrorKind::Damaged, "data_length"),
    case("data_length_negative_a", Step::Open, ErrorKind::Damaged, "data_length"),
    case("data_length_plus_1_a", Step::Open, ErrorKind::Damaged, "data_length"),
    case("data_length_string_a", Step::Open, ErrorKind::Damaged, "data_length"),
    case("data_overlaps_index_a", Step::Open, ErrorKind::Damaged, "data_offset"),
    case("empty_file_a", Step::Open, ErrorKind::NotIac, "the file is empty"),
    case("fixed_dim_negative_a", Step::Records, ErrorKind::Damaged, "feature_record_bytes"),
    case("fixed_dim_zero_a", Step::Records, ErrorKind::Damaged, "data_length"),
    case("fixed_dtype_missing_a", Step::Records, ErrorKind::Damaged, "dtype"),
    case("fixed_dtype_unknown_a", Step::Records, ErrorKind::Damaged, "dtype"),
    case("fixed_not_divisible_a", Step::Records, ErrorKind::Damaged, "data_length"),
    case("fixed_record_bytes_wrong_a", Step::Records, ErrorKind::Damaged, "feature_record_bytes"),
    case("header_array_a", Step::Open, ErrorKind::Damaged, "an array"),
    case("header_bad_utf8_a", Step::Open, ErrorKind::Damaged, "utf-8"),
    case("header_bom_a", Step::Open, ErrorKind::Damaged, "header text"),
    case("header_bytes_wrong_a", Step::Open, ErrorKind::Damaged, "header_bytes"),
    case("header_deep_a", Step::Open, ErrorKind::Damaged, "header text"),
    case("header_len_0_a", Step::Open, ErrorKind::Damaged, "header text"),
    case("header_len_65521_a", Step::Open, ErrorKind::Damaged, "65521"),
    case("header_len_into_padding_a", Step::Open, ErrorKind::Damaged, "header text"),
    case("header_nan_a", Step::Open, ErrorKind::Damaged, "header text"),
    case("header_string_a", Step::Open, ErrorKind::Damaged, "a string"),
    case("index_gap_a", Step::Open, ErrorKind::Damaged, "index_table_offset"),
    case("index_overlaps_slide_a", Step::Open, ErrorKind::Damaged, "index_table_offset"),
    case("index_length_missing_a", Step::Open, ErrorKind::Damaged, "index_table_length"),
    case("length_float32_a", Step::Records, ErrorKind::Damaged, "`length`"),
    case("length_huge_a", Step::Records, ErrorKind::Damaged, "row 0"),
    case("length_missing_a", Step::Records, ErrorKind::Damaged, "`length`"),
    case("length_null_a", Step::Records, ErrorKind::Damaged, "`length`"),
    case("magic_first_byte_a", Step::Open, ErrorKind::NotIac, "starts with"),
    case("magic_last_byte_a", Step::Open, ErrorKind::NotIac, "starts with"),
    case("num_records_fraction_a", Step::Tables, ErrorKind::Damaged, "num_records"),
    case("num_records_missing_a", Step::Tables, ErrorKind::Damaged, "num_records"),
    case("num_records_null_a", Step::Tables, ErrorKind::Damaged, "num_records"),
    case("num_records_plus_1_a", Step::Tables, ErrorKind::Damaged, "num_records"),
    case("num_slides_wrong_a", Step::Tables, ErrorKind::Damaged, "num_slides"),
    case("offset_float64_a", Step::Records, ErrorKind::Damaged, "`offset`"),
    case("offset_float64_zero_a", Step::Records, ErrorKind::Damaged, "`offset`"),
    case("offset_int32_a", Step::Records, ErrorKind::Damaged, "`offset`"),
    case("offset_null_a", Step::Records, ErrorKind::Damaged, "`offset`"),
    case("offset_out_of_range_a", Step::Nowhere, ErrorKind::Damaged, "row 2"),
    case("offset_overflow_a", Step::Records, ErrorKind::Damaged, "row 0"),
    case("offset_string_a", Step::Records, ErrorKind::Damaged, "`offset`"),
    case("offset_twice_a", Step::Records, ErrorKind::Damaged, "`offset`"),
    case("short_65535_a", Step::Open, ErrorKind::Damaged, "65535"),
    case("slide_length_huge_a", Step::Open, ErrorKind::Damaged, "slide_table_length"),
    case("slide_offset_wrong_a", Step::Open, ErrorKind::Damaged, "slide_table_offset"),
    case("version_3_a", Step::Open, ErrorKind::UnsupportedVersion, "version 3"),
    case("crc_mismatch_a", Step::Nowhere, ErrorKind::Checksum, "row 2"),
];

/// Valid containers: bases of the patches, damaged or unusual payloads, odd codec members.
const SOUND: &[&str] = &[
    "base_fixed_a",
    "base_variable_a",
    "codec_params_list_a",
    "codec_unknown_a",
    "ht_rgb_foreign_a",
    "jpeg2000_signed_a",
    "jpeg_geometry_a",
    "jpegls_planar_a",
    "payload_brotli_a",
    "payload_ht_a",
    "payload_jpeg2000_a",
    "payload_jpeg_a",
    "payload_jpegls_a",
    "payload_jxl_a",
    "payload_zstd_a",
];

/// All malformed files: those that are stored whole, and the patched ones, written to `folder`.
fn files(folder: &Path) -> Vec<(String, PathBuf)> {
    let data = data_dir("malformed");
    let mut files: Vec<(String, PathBuf)> = golden_names("malformed")
        .into_iter()
        .map(|name| (name.clone(), data.join(format!("{name}.iac"))))
        .collect();
    for patch in json(&data.join("PATCHED.json")).as_array().unwrap() {
        let name = patch["name"].as_str().unwrap().to_owned();
        let base =
            std::fs::read(data.join(format!("{}.iac", patch["base"].as_str().unwrap()))).unwrap();
        let (head, tail) = base.split_at(65_536);
        let bytes =
            [splice(head, &patch["patch"]["head"]), splice(tail, &patch["patch"]["tail"])].concat();
        assert_eq!(sha256(&bytes), patch["file_sha256"], "{name}");
        let path = folder.join(format!("{name}.iac"));
        std::fs::write(&path, bytes).unwrap();
        files.push((name, path));
    }
    files
}

fn splice(part: &[u8], patch: &Value) -> Vec<u8> {
    let prefix = patch["keep_prefix"].as_u64().unwrap() as usize;
    let suffix = patch["keep_suffix"].as_u64().unwrap() as usize;
    [&part[..prefix], &hex(patch["insert_hex"].as_str().unwrap()), &part[part.len() - suffix..]]
        .concat()
}

fn load_tables(pack: &PackReader) -> Result<()> {
    pack.slide_table()?.batches()?;
    pack.index_table()?.batches()?;
    Ok(())
}

fn read_first(pack: &PackReader) -> Result<()> {
    let single = pack.read(0);
    let batch = pack.read_rows(&[0]);
    assert_eq!(single.is_ok(), batch.is_ok(), "{}", pack.path());
    single.map(|_| ())
}

#[test]
fn every_malformed_file_fails_where_and_how_it_should() {
    let folder = tempfile::tempdir().unwrap();
    let mut seen = BTreeSet::new();
    for (name, path) in files(folder.path()) {
        seen.insert(name.clone());
        if SOUND.contains(&name.as_str()) {
            for (source, pack) in all_sources(&path) {
                let report = pack.unwrap().verify(&VerifyOptions::default());
                assert!(report.is_sound(), "{name} ({source}): {:?}", report.faults);
            }
            continue;
        }
        let case = CASES
            .iter()
            .find(|case| case.name == name)
            .unwrap_or_else(|| panic!("no expectation for {name}"));
        for (source, pack) in all_sources(&path) {
            let context = format!("{name} ({source})");
            let (step, error) = first_failure(pack);
            assert_eq!(step, case.step, "{context}: {error:?}");
            if let Some(error) = error {
                check_error(&error, case, &path, &context);
            }
        }
    }
    let known: BTreeSet<String> = CASES
        .iter()
        .map(|case| case.name.to_owned())
        .chain(SOUND.iter().map(|name| (*name).to_owned()))
        .collect();
    assert_eq!(seen, known);
}

fn first_failure(pack: Result<PackReader>) -> (Step, Option<ReadError>) {
    let pack = match pack {
        Ok(pack) => pack,
        Err(error) => return (Step::Open, Some(error)),
    };
    if let Err(error) = load_tables(&pack) {
        let report = pack.verify(&VerifyOptions::default());
        assert!(!report.is_sound(), "{}", pack.path());
        return (Step::Tables, Some(error));
    }
    if let Err(error) = read_first(&pack) {
        let report = pack.verify(&VerifyOptions::default());
        assert!(!report.is_sound(), "{}", pack.path());
        return (Step::Records, Some(error));
    }
    (Step::Nowhere, None)
}

fn check_error(error: &ReadError, case: &Case, path: &Path, context: &str) {
    let message = error.to_string();
    assert_eq!(error.kind(), case.kind, "{context}: {message}");
    assert!(message.contains(case.names), "{context}: {message}");
    assert!(message.contains(&*path.to_string_lossy()), "{context}: {message}");
    assert!(!message.ends_with('.'), "{context}: {message}");
}

#[test]
fn one_bad_span_leaves_the_sound_rows_readable() {
    let folder = tempfile::tempdir().unwrap();
    for (name, path) in files(folder.path()) {
        if !["length_huge_a", "offset_out_of_range_a", "offset_overflow_a"].contains(&name.as_str())
        {
            continue;
        }
        for (source, pack) in all_sources(&path) {
            let pack = pack.unwrap();
            let context = format!("{name} ({source})");
            load_tables(&pack).unwrap();
            let good: Vec<u64> =
                (0..pack.num_records().unwrap()).filter(|row| pack.read(*row).is_ok()).collect();
            let report = pack.verify(&VerifyOptions::default());
            assert_eq!(report.total_faults, 1, "{context}: {:?}", report.faults);
            let bad = report.faults[0].row.unwrap();
            assert_eq!(report.faults[0].check, "span", "{context}");
            assert_eq!(good.len() as u64 + 1, pack.num_records().unwrap(), "{context}");
            assert!(!good.contains(&bad), "{context}");
            assert!(pack.check_spans().is_err(), "{context}");
            assert!(pack.read_rows(&good).is_ok(), "{context}");
            let error = pack.read_rows(&[good[0], bad]).unwrap_err();
            assert_eq!(error.row(), Some(bad), "{context}: {error}");
        }
    }
}

#[test]
fn a_wrong_checksum_stops_owned_reads_and_nothing_else() {
    let path = data_dir("malformed").join("crc_mismatch_a.iac");
    for (source, pack) in all_sources(&path) {
        let pack = pack.unwrap();
        for result in [
            pack.read(2).map(|_| ()),
            pack.read_rows(&[0, 2]).map(|_| ()),
            pack.read_contiguous(&[2, 1]).map(|_| ()),
        ] {
            let error = result.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Checksum, "{source}: {error}");
            assert_eq!(error.row(), Some(2), "{source}: {error}");
        }
        assert!(pack.read_rows(&[0, 1]).is_ok(), "{source}");
        assert!(pack.with_crc(false).read(2).is_ok(), "{source}");
        if !common::only_copies(source) {
            assert!(pack.view(2).is_ok(), "{source}");
        }
        let span = pack.span(2).unwrap();
        assert!(pack.read_data_span(span.offset, span.length).is_ok(), "{source}");
        let payloads: Vec<bool> = pack.iter_payloads().unwrap().map(|item| item.is_ok()).collect();
        assert_eq!(payloads, [true, true, false], "{source}");
        let report = pack.verify(&VerifyOptions::default());
        assert_eq!(report.total_faults, 1, "{source}");
        assert_eq!(report.faults[0].row, Some(2), "{source}");
        assert_eq!(report.rows_compared, 3, "{source}");
    }
}

#[test]
fn foreign_files_are_named_by_their_first_bytes() {
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes, message) in [
        (
            "a.png",
            &b"\x89PNG\r\n\x1a\n0000"[..],
            r#"not an IAC file: starts with "\x89PNG\r\n\x1a\n""#,
        ),
        ("a.zip", b"PK\x03\x04", r#"not an IAC file: starts with "PK\x03\x04""#),
        ("empty", b"", "not an IAC file: the file is empty"),
        ("text", b"hello, world", r#"not an IAC file: starts with "hello, w""#),
    ] {
        let path = folder.path().join(name);
        for padding in [0, 70_000] {
            let mut content = bytes.to_vec();
            if !content.is_empty() {
                content.resize(content.len() + padding, b'x');
            }
            std::fs::write(&path, content).unwrap();
            for (source, pack) in all_sources(&path) {
                let error = pack.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::NotIac, "{name} ({source})");
                let expected = format!("{}: {message}", path.display());
                let padded = padding > 0 && bytes.len() < 8;
                assert!(error.to_string() == expected || padded, "{source}: {error}");
            }
        }
    }
}

#[test]
fn what_is_no_regular_file_is_an_io_error_and_never_blocks() {
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status();
    let mut paths = vec![folder.path().to_path_buf(), folder.path().join("missing.iac")];
    if made.is_ok_and(|status| status.success()) {
        paths.push(fifo);
    }
    for path in paths {
        assert_eq!(PackReader::open(&path).unwrap_err().kind(), ErrorKind::Io);
        assert_eq!(iac_reader::read_header(&path).unwrap_err().kind(), ErrorKind::Io);
    }
}
