//! `info`, `ls`, `cat`, `decode`, `digest`: against what the golden files' JSON says.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

mod common;

use std::fs;

use common::{golden, golden_json, golden_names, hex, malformed, names_in, sha256, small_pack};
use serde_json::{Value, json};
use tempfile::tempdir;

#[test]
fn info_json_is_what_the_golden_files_say() {
    for name in golden_names() {
        let expected = golden_json(&name);
        let run = iac!("info", golden(&name), "--json").succeeded();
        assert_eq!(run.lines().len(), 1, "{name}");
        let info = run.json();
        let members: Vec<&str> = info.as_object().unwrap().keys().map(String::as_str).collect();
        let mut wanted = [
            "path",
            "file_bytes",
            "header",
            "slide_table",
            "index_table",
            "kind",
            "data_alignment",
            "trailing_bytes",
        ];
        wanted.sort_unstable();
        assert_eq!(members, wanted, "{name}");
        assert_eq!(info["path"], golden(&name).to_str().unwrap());
        assert_eq!(info["file_bytes"], expected["file_size"], "{name}");
        assert_eq!(info["header"], expected["header"], "{name}");
        assert_eq!(info["trailing_bytes"], expected["trailing_bytes"], "{name}");
        let kind = match expected["kind"].as_str().unwrap() {
            "data_segment" => "segment",
            other => other,
        };
        assert_eq!(info["kind"], kind, "{name}");
        let start = expected["header"]["data_offset"].as_u64().unwrap();
        let alignment = 1 << start.trailing_zeros().min(12);
        assert_eq!(info["data_alignment"], json!(alignment), "{name}");
        for table in ["slide_table", "index_table"] {
            let (info, expected) = (&info[table], &expected[table]);
            assert_eq!(info["rows"], expected["num_rows"], "{name}");
            let batches = expected["record_batch_rows"].as_array().unwrap().len();
            assert_eq!(info["batches"], json!(batches), "{name} {table}");
            let columns: Vec<Value> = expected["schema"]
                .as_array()
                .unwrap()
                .iter()
                .map(|column| {
                    json!({
                        "name": column["name"],
                        "type": column["type"],
                        "nullable": column["nullable"],
                    })
                })
                .collect();
            assert_eq!(info["columns"], Value::from(columns), "{name} {table}");
        }
    }
}

#[test]
fn info_page_says_the_main_things() {
    let folder = tempdir().unwrap();
    let pack = small_pack(folder.path());
    let run = iac!("info", pack).succeeded();
    let text = run.text();
    for part in [
        "raw_files",
        "variable",
        "3 of 0 B to 300 B, median 5 B, 305 B together",
        "none",
        "header, tables and every record",
        "index table",
        "3 rows, 6 columns",
        "path",
        "timestamp[us, tz=UTC]",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    let run = iac!("info", golden("fixed_float16_5x8_a")).succeeded();
    assert!(run.text().contains("8 x float16"), "{}", run.text());
    let run = iac!("info", golden("data_segment_a")).succeeded();
    assert!(run.text().contains("segment"), "{}", run.text());
    let run = iac!("info", golden("tol_compact_json_a")).succeeded();
    assert!(run.text().contains("24 bytes behind the data"), "{}", run.text());
    let run = iac!("info", malformed("codec_unknown_a")).succeeded();
    assert!(run.text().contains("cannot be decoded here"), "{}", run.text());
}

#[test]
fn ls_lists_every_row_of_every_golden_file() {
    for name in golden_names() {
        let expected = golden_json(&name);
        for table in ["index", "slide"] {
            let expected = &expected[format!("{table}_table")];
            let rows = expected["num_rows"].as_u64().unwrap();
            let path = golden(&name);
            let run = iac!("ls", path, "--table", table, "--json").succeeded();
            let found: Vec<Value> =
                run.json_lines().iter().map(|line| line["row"].clone()).collect();
            let wanted: Vec<Value> = (0..rows).map(Value::from).collect();
            assert_eq!(found, wanted, "{name} {table}");
            for line in run.lines() {
                assert!(line.starts_with("{\"row\":"), "{line}");
            }
            for format in ["table", "csv"] {
                let run = iac!("ls", path, "--table", table, "--format", format).succeeded();
                let first = run.text().split(['\n', ',', ' ']).next();
                assert_eq!(first, Some("row"), "{name} {table} {format}");
            }
        }
    }
}

#[test]
fn ls_values_are_those_of_the_table() {
    let expected = golden_json("none_a");
    let run = iac!("ls", golden("none_a"), "--json").succeeded();
    for column in expected["index_table"]["columns"].as_array().unwrap() {
        let name = column["name"].as_str().unwrap();
        let found: Vec<Value> = run.json_lines().iter().map(|line| line[name].clone()).collect();
        assert_eq!(Value::from(found), column["values"], "{name}");
    }
}

#[test]
fn ls_selects_columns_rows_and_conditions() {
    let path = golden("none_a");
    let run = iac!("ls", path, "--columns", "length,item_id", "--format", "csv").succeeded();
    assert_eq!(
        run.lines(),
        ["row,length,item_id", "0,0,r0", "1,1,r1", "2,64,r2", "3,1000,r3", "4,3000,r4", "5,200,r5"]
    );
    let run = iac!("ls", path, "--columns", "item_id", "--rows", "4,0..2,4", "--format", "csv");
    assert_eq!(run.succeeded().lines(), ["row,item_id", "4,r4", "0,r0", "1,r1", "4,r4"]);
    let run = iac!("ls", path, "--columns", "item_id", "--limit", "1", "--json").succeeded();
    assert_eq!(run.text(), "{\"row\":0,\"item_id\":\"r0\"}\n");
    let condition = "length >= 64 and not item_id in ('r3', 'r4')";
    let run = iac!("ls", path, "--columns", "item_id", "--where", condition, "--json").succeeded();
    assert_eq!(run.lines(), ["{\"row\":2,\"item_id\":\"r2\"}", "{\"row\":5,\"item_id\":\"r5\"}"]);
}

#[test]
fn a_wrong_condition_is_shown_with_its_place() {
    let run = iac!("ls", golden("none_a"), "--where", "length > and 3").ended_with(2);
    assert!(run.err.contains("length > and 3\n           ^"), "{}", run.err);
    let run = iac!("ls", golden("none_a"), "--where", "no_such > 3").ended_with(2);
    assert!(run.err.contains("item_id"), "{}", run.err);
}

#[test]
fn ls_table_has_aligned_columns() {
    let run = iac!("ls", golden("none_a"), "--columns", "item_id,length", "--rows", "0,3");
    assert_eq!(
        run.succeeded().lines(),
        ["row  item_id  length", "  0  r0            0", "  3  r3         1000"]
    );
}

#[test]
fn ls_arrow_is_a_stream_that_arrow_reads() {
    let run = iac!("ls", golden("none_a"), "--format", "arrow", "--limit", "3").succeeded();
    let reader = arrow_ipc::reader::StreamReader::try_new(run.out.as_slice(), None).unwrap();
    let names: Vec<String> =
        reader.schema().fields().iter().map(|field| field.name().clone()).collect();
    assert_eq!(names, ["row", "item_id", "offset", "length", "crc32"]);
    let rows: usize = reader.map(|batch| batch.unwrap().num_rows()).sum();
    assert_eq!(rows, 3);
}

#[test]
fn cat_gives_the_stored_bytes() {
    for name in ["none_a", "zstd_a0", "jpeg_a0", "zero_length_a", "tol_signed_no_crc_a"] {
        let expected = golden_json(name);
        let mut all = Vec::new();
        for record in expected["records"].as_array().unwrap() {
            let row = record["row"].to_string();
            let run = iac!("cat", golden(name), "--rows", row).succeeded();
            assert_eq!(sha256(&run.out), record["sha256"].as_str().unwrap(), "{name} {row}");
            assert!(run.err.is_empty());
            all.extend(run.out);
        }
        let count = expected["records"].as_array().unwrap().len();
        let run = iac!("cat", golden(name), "--rows", format!("0..{count}")).succeeded();
        assert_eq!(run.out, all, "{name}");
    }
    let run = iac!("cat", golden("fixed_float16_5x8_a"), "--rows", "1").succeeded();
    assert_eq!(run.out, hex("cd3c683d8f4433bdbb3c9c4501c08331"));
}

#[test]
fn cat_writes_a_file_or_one_for_each_record() {
    let folder = tempdir().unwrap();
    let pack = small_pack(folder.path());
    let file = folder.path().join("out.bin");
    iac!("cat", pack, "--rows", "2,0", "-o", file).succeeded();
    let bytes = fs::read(&file).unwrap();
    assert_eq!((bytes.len(), &bytes[300..]), (305, b"hello".as_slice()));
    let dir = folder.path().join("new").join("dir");
    iac!("cat", pack, "--rows", "0,1", "--dir", dir).succeeded();
    assert_eq!(names_in(&dir), ["0.bin", "1.bin"]);
    assert_eq!(fs::read(dir.join("0.bin")).unwrap(), b"hello");
    // Nothing is written when a later file is in the way, and asking twice makes one file.
    iac!("cat", pack, "--rows", "2,0", "--dir", dir).ended_with(2);
    assert_eq!(names_in(&dir), ["0.bin", "1.bin"]);
    iac!("cat", pack, "--rows", "2,2", "--dir", dir).succeeded();
    assert_eq!(names_in(&dir), ["0.bin", "1.bin", "2.bin"]);
    iac!("cat", pack, "--rows", "0..2", "--dir", dir, "--overwrite").succeeded();
    iac!("cat", pack, "--rows", "0", "--dir", dir, "-o", file).ended_with(2);
}

#[cfg(unix)]
#[test]
fn files_get_the_mode_of_ordinary_ones() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempdir().unwrap();
    let pack = small_pack(folder.path());
    let ordinary = folder.path().join("ordinary");
    fs::write(&ordinary, "").unwrap();
    let file = folder.path().join("out.bin");
    iac!("cat", pack, "--rows", "0", "-o", file).succeeded();
    let mode = |path| fs::metadata(path).unwrap().permissions().mode();
    assert_eq!(mode(&file), mode(&ordinary));
    assert_eq!(mode(&pack), mode(&ordinary));
}

#[test]
fn a_damaged_record_leaves_no_partial_file() {
    let folder = tempdir().unwrap();
    let file = folder.path().join("out.bin");
    for command in ["cat", "decode"] {
        let run = iac!(command, malformed("crc_mismatch_a"), "--rows", "0..3", "-o", file);
        run.ended_with(1);
        assert!(names_in(folder.path()).is_empty());
    }
}

#[test]
fn decode_gives_raw_bytes_and_describes_them() {
    let folder = tempdir().unwrap();
    let pack = small_pack(folder.path());
    let run = iac!("decode", pack, "--rows", "0").succeeded();
    assert_eq!(run.out, b"hello");
    let dir = folder.path().join("out");
    let run = iac!("decode", pack, "--rows", "0,1", "--dir", dir, "--json").succeeded();
    assert_eq!(names_in(&dir), ["0.raw", "1.raw"]);
    assert_eq!(
        run.json_lines()[0],
        json!({
            "row": 0,
            "kind": "bytes",
            "shape": [5],
            "dtype": "uint8",
            "bytes": 5,
            "sha256": sha256(b"hello"),
        })
    );
    let run = iac!("decode", pack, "--rows", "0", "--json").ended_with(2);
    assert_eq!(run.json_error()["kind"], "usage");
}

#[test]
fn decode_gives_rows_of_fixed_packs() {
    let folder = tempdir().unwrap();
    let file = folder.path().join("rows.raw");
    let path = golden("fixed_float16_5x8_a");
    let run = iac!("decode", path, "--rows", "0..5", "-o", file, "--json").succeeded();
    let expected = &golden_json("fixed_float16_5x8_a")["fixed"];
    let bytes = fs::read(&file).unwrap();
    assert_eq!(sha256(&bytes), expected["read_matrix_sha256"].as_str().unwrap());
    let lines = run.json_lines();
    assert_eq!(lines.len(), 5);
    for (line, row) in lines.iter().zip(expected["rows"].as_array().unwrap()) {
        assert_eq!(line["sha256"], row["sha256"]);
        assert_eq!(line["shape"], json!([8]));
        assert_eq!(line["dtype"], "float16");
    }
}

#[test]
fn digests_are_those_of_the_golden_files() {
    for name in golden_names() {
        let expected = golden_json(&name);
        if expected["kind"] == "data_segment" || name == "fixed_float32_3x0_a" {
            continue;
        }
        let run = iac!("digest", golden(&name), "--json");
        let lines = run.json_lines();
        let mut decodable = true;
        if let Some(rows) = expected["fixed"]["rows"].as_array() {
            assert_eq!(lines.len(), rows.len(), "{name}");
            for (line, row) in lines.iter().zip(rows) {
                assert_eq!(line["stored_sha256"], row["sha256"], "{name}");
                assert_eq!(line["decoded"]["kind"], "vector", "{name}");
                assert_eq!(line["decoded"]["dtype"], expected["fixed"]["dtype"], "{name}");
                assert_eq!(line["decoded"]["shape"], json!([expected["fixed"]["feature_dim"]]));
            }
        } else {
            let records = expected["records"].as_array().unwrap();
            assert_eq!(lines.len(), records.len(), "{name}");
            for (line, record) in lines.iter().zip(records) {
                assert_eq!(line["row"], record["row"], "{name}");
                assert_eq!(line["bytes"], record["length"], "{name}");
                assert_eq!(line["stored_sha256"], record["sha256"], "{name}");
                let crc_ok = record.get("crc32_matches").unwrap_or(&Value::Null);
                assert_eq!(&line["crc_ok"], crc_ok, "{name}");
                assert_eq!(&line["crc32"], record.get("crc32").unwrap_or(&Value::Null), "{name}");
                if line.get("error").is_some() {
                    // Codecs that this build lacks, or kinds of streams that its backend does.
                    let kind = line["error"]["kind"].as_str().unwrap();
                    assert!(["missing_feature", "unsupported"].contains(&kind), "{name}: {kind}");
                    decodable = false;
                    continue;
                }
                let decoded = &record["decoded"];
                assert_eq!(line["decoded"]["kind"], decoded["kind"], "{name}");
                if decoded["kind"] == "bytes" {
                    assert_eq!(line["decoded"]["sha256"], decoded["sha256"], "{name}");
                    assert_eq!(line["decoded"]["shape"], json!([decoded["length"]]), "{name}");
                }
            }
        }
        assert_eq!(run.code, i32::from(!decodable), "{name}");
    }
}

#[test]
fn digest_reports_a_damaged_record_and_goes_on() {
    let run = iac!("digest", malformed("crc_mismatch_a"), "--json").ended_with(1);
    let lines = run.json_lines();
    assert_eq!(lines.len(), 3);
    assert_eq!(lines[1]["crc_ok"], true);
    assert_eq!(lines[2]["crc_ok"], false);
    let run = iac!("digest", malformed("offset_out_of_range_a"), "--json").ended_with(1);
    assert!(run.json_lines().iter().any(|line| line["error"]["kind"] == "damaged"));
    assert!(run.json_lines().iter().any(|line| line.get("decoded").is_some()));
}

#[test]
fn digest_lines_for_people_hold_the_same_sums() {
    let run = iac!("digest", golden("none_a"), "--rows", "1").succeeded();
    let record = &golden_json("none_a")["records"][1];
    assert_eq!(run.text(), format!("1  1  {}  =\n", record["sha256"].as_str().unwrap()));
}

#[test]
fn a_result_never_replaces_the_pack_that_it_is_made_of() {
    let folder = tempdir().unwrap();
    let pack = small_pack(folder.path());
    let before = fs::read(&pack).unwrap();
    let detour = folder.path().join(".").join(pack.file_name().unwrap());
    // A record's own file in a folder may have the pack's name.
    let numbered = folder.path().join("0.bin");
    fs::copy(&pack, &numbered).unwrap();
    for place in [&pack, &detour] {
        iac!("cat", &pack, "--rows", "0", "-o", place, "--overwrite").ended_with(2);
        iac!("decode", &pack, "--rows", "0", "-o", place, "--overwrite").ended_with(2);
        iac!("montage", &pack, "-o", place, "--overwrite").ended_with(2);
    }
    iac!("cat", &numbered, "--rows", "0", "--dir", folder.path(), "--overwrite").ended_with(2);
    assert_eq!(fs::read(&pack).unwrap(), before);
    assert_eq!(fs::read(&numbered).unwrap(), before);
}
