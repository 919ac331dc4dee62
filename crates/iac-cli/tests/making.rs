//! `pack raw`, `extract`, `verify`, `salvage`, `demo`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

mod common;

use std::fs;

use common::{golden, make_files, malformed, names_in, small_pack};
use serde_json::json;
use tempfile::tempdir;

#[test]
fn packed_files_come_out_as_they_were() {
    let folder = tempdir().unwrap();
    let pack = small_pack(folder.path());
    let dir = folder.path().join("out");
    let run = iac!("extract", pack, "--dir", dir, "--json").succeeded();
    for name in ["a.txt", "b/c.txt", "d.bin"] {
        let source = fs::read(folder.path().join("sources").join(name)).unwrap();
        assert_eq!(fs::read(dir.join(name)).unwrap(), source, "{name}");
    }
    let lines = run.json_lines();
    assert_eq!(lines.len(), 4);
    assert_eq!(lines[0], json!({"row": 0, "file": "a.txt", "bytes": 5}));
    let summary = &lines[3]["summary"];
    assert_eq!((&summary["files"], &summary["bytes"]), (&json!(3), &json!(305)));
}

#[test]
fn pack_raw_makes_the_tables_of_files() {
    let folder = tempdir().unwrap();
    let pack = small_pack(folder.path());
    let info = iac!("info", pack, "--json").succeeded().json();
    assert_eq!(info["header"]["payload_type"], "raw_files");
    assert_eq!(info["header"]["codec"], "none");
    assert_eq!(info["slide_table"]["columns"], json!([]));
    let columns: Vec<(&str, &str)> = info["index_table"]["columns"]
        .as_array()
        .unwrap()
        .iter()
        .map(|column| (column["name"].as_str().unwrap(), column["type"].as_str().unwrap()))
        .collect();
    assert_eq!(
        columns[..3],
        [("path", "string"), ("bytes", "uint64"), ("modified", "timestamp[us, tz=UTC]")]
    );
    let run = iac!("ls", pack, "--columns", "path,bytes", "--format", "csv").succeeded();
    assert_eq!(run.lines(), ["row,path,bytes", "0,a.txt,5", "1,b/c.txt,0", "2,d.bin,300"]);
}

#[test]
fn pack_raw_tells_what_it_did_and_left_out() {
    let folder = tempdir().unwrap();
    let sources = folder.path().join("sources");
    make_files(&sources, &[("a.txt", b"hello"), ("below/b.txt", b"there")]);
    let pack = folder.path().join("flat.iac");
    let run = iac!("pack", "raw", sources, "-o", pack, "--json").succeeded();
    let found = run.json();
    assert_eq!(found["path"], pack.to_str().unwrap());
    assert_eq!(found["files"], 1);
    assert_eq!(found["source_bytes"], 5);
    assert_eq!(found["file_bytes"], fs::metadata(&pack).unwrap().len());
    let run = iac!("pack", "raw", sources, "-o", pack, "--overwrite", "--quiet").succeeded();
    assert!(run.err.is_empty(), "{}", run.err);
    iac!("verify", pack).succeeded();
    make_files(&folder.path().join("deep"), &[("below/b.txt", b"there")]);
    let run = iac!("pack", "raw", folder.path().join("deep"), "-o", pack, "--overwrite");
    assert!(run.succeeded().err.contains("--recursive takes"));
}

#[test]
fn the_number_of_workers_does_not_change_the_pack() {
    let folder = tempdir().unwrap();
    let sources = folder.path().join("sources");
    for number in 0..200_u32 {
        let content = vec![number.to_le_bytes()[0]; usize::try_from(number * 37).unwrap()];
        make_files(&sources, &[(&format!("{number}.bin"), &content)]);
    }
    let (one, four) = (folder.path().join("1.iac"), folder.path().join("4.iac"));
    iac!("pack", "raw", sources, "-o", one, "--workers", "1").succeeded();
    iac!("pack", "raw", sources, "-o", four, "--workers", "4").succeeded();
    assert!(fs::read(one).unwrap() == fs::read(four).unwrap());
}

#[test]
fn an_unknown_codec_is_refused_before_anything_is_written() {
    let folder = tempdir().unwrap();
    let sources = folder.path().join("sources");
    make_files(&sources, &[("a.txt", b"hello")]);
    let pack = folder.path().join("x.iac");
    let run = iac!("pack", "raw", sources, "-o", pack, "--codec", "nosuch:level=3", "--json");
    assert_eq!(run.ended_with(4).json_error()["kind"], "unknown_codec");
    let run = iac!("pack", "raw", sources, "-o", pack, "--codec", "none:level", "--json");
    assert_eq!(run.ended_with(2).json_error()["kind"], "usage");
    assert_eq!(names_in(folder.path()), ["sources"]);
}

#[test]
#[cfg(all(feature = "zstd", feature = "brotli", feature = "lz4"))]
fn recoding_keeps_every_record() {
    let folder = tempdir().unwrap();
    let plain = small_pack(folder.path());
    let content = |pack: &std::path::Path| {
        let lines = iac!("digest", pack, "--json").succeeded().json_lines();
        lines.iter().map(|line| line["decoded"].clone()).collect::<Vec<_>>()
    };
    let expected = content(&plain);
    let mut from = plain;
    for (number, codec) in
        ["zstd:level=3", "brotli:quality=5", "lz4", "zstd", "none"].iter().enumerate()
    {
        let to = folder.path().join(format!("{number}.iac"));
        let run = iac!("recode", from, "--codec", codec, "-o", to, "--json").succeeded();
        assert_eq!(run.json()["decoded_bytes"], 305);
        assert_eq!(content(&to), expected, "{codec}");
        iac!("verify", to).succeeded();
        let name = codec.split(':').next().unwrap();
        let header = &iac!("info", to, "--json").succeeded().json()["header"];
        assert_eq!(header["codec"], name);
        assert_eq!(header.get("required_extensions").is_some(), name == "lz4", "{header}");
        iac!("recode", from, "--codec", codec, "-o", to).ended_with(2);
        from = to;
    }
    let bad = folder.path().join("bad.iac");
    for codec in ["zstd:level=abc", "brotli:quality=12", "nosuch"] {
        let run = iac!("recode", from, "--codec", codec, "-o", bad, "--json");
        run.ended_with(if codec == "nosuch" { 4 } else { 2 });
    }
    assert!(!bad.exists());
}

#[test]
fn extract_takes_rows_or_a_condition() {
    let folder = tempdir().unwrap();
    let pack = small_pack(folder.path());
    let dir = folder.path().join("out");
    iac!("extract", pack, "--dir", dir, "--where", "path like '%.txt' and bytes > 0").succeeded();
    assert_eq!(names_in(&dir), ["a.txt"]);
    iac!("extract", pack, "--dir", dir, "--rows", "2").succeeded();
    assert_eq!(names_in(&dir), ["a.txt", "d.bin"]);
    iac!("extract", pack, "--dir", dir).ended_with(2);
    iac!("extract", pack, "--dir", dir, "--overwrite").succeeded();
    assert_eq!(names_in(&dir), ["a.txt", "b", "d.bin"]);
    iac!("extract", pack, "--dir", dir, "--rows", "0", "--where", "bytes > 0").ended_with(2);
}

#[test]
fn extract_names_records_after_their_ids() {
    let folder = tempdir().unwrap();
    let dir = folder.path().join("out");
    iac!("extract", golden("none_a"), "--dir", dir).succeeded();
    let names = names_in(&dir);
    assert_eq!(names.len(), 6);
    assert!(names[3].starts_with("r3"), "{names:?}");
    assert_eq!(fs::metadata(dir.join(&names[3])).unwrap().len(), 1000);
}

#[test]
fn verify_is_silent_about_nothing() {
    let folder = tempdir().unwrap();
    let pack = small_pack(folder.path());
    let run = iac!("verify", pack, "--json").succeeded();
    assert_eq!(run.json(), json!({"summary": {"packs": 1, "rows": 3, "faults": 0}}));
    let run = iac!("verify", pack, "--full").succeeded();
    assert!(run.text().contains("sound") && run.text().contains("3 rows"), "{}", run.text());
    for options in
        [["--sample", "1"], ["--decode", "all"], ["--decode", "0"], ["--max-errors", "1"]]
    {
        iac!("verify", pack, options[0], options[1]).succeeded();
    }
    iac!("verify", pack, "--decode", "some").ended_with(2);
    iac!("verify", pack, "--full", "--sample", "3").ended_with(2);
}

#[test]
fn verify_lists_each_fault_with_its_place() {
    let run = iac!("verify", malformed("crc_mismatch_a"), "--json").ended_with(1);
    let lines = run.json_lines();
    assert_eq!(lines.len(), 2);
    let fault = &lines[0];
    let members: Vec<&str> = fault.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(members, ["check", "field", "message", "path", "row"]);
    assert_eq!(fault["path"], malformed("crc_mismatch_a").to_str().unwrap());
    assert_eq!((&fault["check"], &fault["row"]), (&json!("checksum"), &json!(2)));
    assert_eq!(lines[1]["summary"]["faults"], 1);
    let run = iac!("verify", malformed("crc_mismatch_a")).ended_with(1);
    assert!(run.text().contains("checksum: row 2: checksum mismatch"), "{}", run.text());
    let run = iac!("verify", malformed("offset_out_of_range_a")).ended_with(1);
    assert!(run.text().contains("span: row 2: span of 40 bytes"), "{}", run.text());
}

#[test]
fn verify_searches_folders_and_goes_on_after_a_bad_pack() {
    let folder = tempdir().unwrap();
    let pack = small_pack(folder.path());
    let deep = folder.path().join("deep/er");
    fs::create_dir_all(&deep).unwrap();
    fs::copy(malformed("crc_mismatch_a"), deep.join("bad.iac")).unwrap();
    fs::write(deep.join("no-pack.iac"), "text").unwrap();
    fs::write(deep.join("other.txt"), "text").unwrap();
    let run = iac!("verify", folder.path(), "--json").ended_with(1);
    let lines = run.json_lines();
    assert_eq!(lines.last().unwrap()["summary"]["packs"], 3);
    assert_eq!(lines.last().unwrap()["summary"]["faults"], 2);
    iac!("verify", pack, deep.join("bad.iac")).ended_with(1);
}

#[test]
fn a_flipped_byte_is_found_and_the_rest_salvaged() {
    let folder = tempdir().unwrap();
    let pack = small_pack(folder.path());
    let info = iac!("info", pack, "--json").succeeded().json();
    let data = usize::try_from(info["header"]["data_offset"].as_u64().unwrap()).unwrap();
    let mut bytes = fs::read(&pack).unwrap();
    bytes[data + 100] ^= 1;
    fs::write(&pack, &bytes).unwrap();
    iac!("verify", pack).ended_with(1);
    iac!("cat", pack, "--rows", "2").ended_with(1);

    let saved = folder.path().join("saved.iac");
    let report = folder.path().join("report.jsonl");
    iac!("salvage", pack, "-o", saved, "--report", report).ended_with(1);
    let report = fs::read_to_string(report).unwrap();
    let first: serde_json::Value = serde_json::from_str(report.lines().next().unwrap()).unwrap();
    assert_eq!((&first["row"], &first["action"]), (&json!(2), &json!("dropped")));
    assert_eq!(first["check"], "checksum");
    iac!("verify", saved, "--strict").succeeded();
    let run = iac!("ls", saved, "--columns", "path", "--format", "csv").succeeded();
    assert_eq!(run.lines(), ["row,path", "0,a.txt", "1,b/c.txt"]);
    assert_eq!(iac!("cat", saved, "--rows", "0").succeeded().out, b"hello");
}

#[test]
fn salvage_of_a_sound_pack_keeps_everything() {
    let folder = tempdir().unwrap();
    let pack = small_pack(folder.path());
    let saved = folder.path().join("saved.iac");
    let run = iac!("salvage", pack, "-o", saved, "--json").succeeded();
    assert_eq!(run.json_lines().len(), 1);
    let (a, b) = (iac!("digest", pack).succeeded(), iac!("digest", saved).succeeded());
    assert_eq!(a.out, b.out);
}

#[test]
fn the_demo_removes_what_it_made_or_keeps_a_folder_and_its_hints_work() {
    let folder = tempdir().unwrap();
    let output =
        common::command().args(["demo", "--json"]).env("TMPDIR", folder.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&found["files"], &found["compared"]), (&json!(2000), &json!(2000)));
    assert!(found["rates"]["batches"]["records_per_second"].as_f64().unwrap() > 0.0);
    assert!(found.get("pack").is_none());
    assert!(names_in(folder.path()).is_empty());

    let dir = folder.path().join("my demo");
    let run = iac!("demo", "--dir", dir).succeeded();
    let mut names = vec!["cohort", "cohort.iac"];
    if cfg!(feature = "text") {
        names.push("notes.iac");
    }
    if cfg!(all(feature = "dicom", feature = "jxl")) {
        names.extend(["scans", "scans.png", "scans.rad.iac"]);
    }
    if cfg!(all(feature = "wsi-import", feature = "jxl")) {
        names.extend(["slide-region.png", "slide-thumbnail.png", "slide.pat.iac", "slide.png"]);
    }
    if cfg!(feature = "arrays") {
        names.extend(["volume-slice.png", "volume.arrays"]);
    }
    if cfg!(all(feature = "tiles", feature = "features")) {
        names.push("cohort.features.iac");
        if cfg!(feature = "jxl") {
            names.extend(["cohort.tiles.iac", "tiles", "tiles.csv", "tiles.png"]);
        }
    }
    names.sort_unstable();
    assert_eq!(names_in(&dir), names);
    let text = run.text();
    assert!(
        text.contains("2,000 files") && text.contains("plain copy of them in memory"),
        "{text}"
    );
    let pack = dir.join("cohort.iac");
    assert!(text.contains(&format!("iac info '{}'", pack.display())), "{text}");
    iac!("verify", pack).succeeded();
    let condition = "path like 'P001/%' and bytes > 4096";
    let run = iac!("ls", pack, "--where", condition, "--json").succeeded();
    assert!(!run.out.is_empty());
    let run = iac!("cat", pack, "--rows", "10").succeeded();
    assert!(run.text().starts_with("Patient P000"), "{}", run.text());
    iac!("demo", "--dir", dir).ended_with(2);
    #[cfg(all(feature = "tiles", feature = "features"))]
    the_demo_packs_tiles_and_features_or_says_why_not(&dir, &found);
}

/// On the folder of one demo, and on what another one told.
#[cfg(all(feature = "tiles", feature = "features"))]
fn the_demo_packs_tiles_and_features_or_says_why_not(
    dir: &std::path::Path,
    found: &serde_json::Value,
) {
    let features = dir.join("cohort.features.iac");
    assert_eq!((&found["features"]["rows"], &found["features"]["dim"]), (&json!(120), &json!(256)));
    iac!("validate", "--input", features).succeeded();
    iac!("verify", features, "--full").succeeded();
    if !cfg!(feature = "jxl") {
        assert!(found["tiles"]["skipped"].as_str().unwrap().contains("jxl"), "{found}");
        return;
    }
    assert_eq!((&found["tiles"]["tiles"], &found["tiles"]["slides"]), (&json!(120), &json!(5)));
    let tiles = dir.join("cohort.tiles.iac");
    iac!("verify", tiles, "--full").succeeded();
    let sheet = fs::metadata(dir.join("tiles.png")).unwrap();
    assert_eq!(found["tiles"]["sheet_bytes"], sheet.len());
    // Images and manifest make the same pack again.
    let again = dir.join("again.iac");
    let options = ["--beside-manifest", "--lossless", "--effort", "1"];
    let mut command = common::command();
    command.args(["pack", "tiles"]).arg(dir.join("tiles.csv")).arg("-o").arg(&again).args(options);
    assert!(command.output().unwrap().status.success());
    assert_eq!(fs::read(&again).unwrap(), fs::read(&tiles).unwrap());
    // The hint of the page.
    let val = dir.join("val.tiles.iac");
    let subset = iac!("subset", tiles, "--where", "split = 'val'", "-o", val, "--json");
    assert_eq!(subset.succeeded().json()["rows"], 24);
}

#[test]
fn the_report_of_salvage_never_goes_where_a_pack_is() {
    let folder = tempdir().unwrap();
    let pack = small_pack(folder.path());
    let whole = fs::read(&pack).unwrap();
    let out = folder.path().join("new.iac");
    let other = folder.path().join("sources").join("..").join("new.iac");
    for report in [&pack, &out, &other] {
        let run = iac!("salvage", pack, "-o", out, "--report", report, "--overwrite").ended_with(2);
        assert!(run.err.contains("the report cannot go where"), "{}", run.err);
    }
    assert_eq!(fs::read(&pack).unwrap(), whole);
    assert_eq!(names_in(folder.path()), ["small.iac", "sources"]);
}

#[test]
fn expansion_is_allowed_by_an_option_of_extract_and_salvage() {
    let folder = tempdir().unwrap();
    let pack = small_pack(folder.path());
    let (dir, out) = (folder.path().join("dir"), folder.path().join("new.iac"));
    iac!("extract", pack, "--dir", dir, "--allow-expansion").succeeded();
    iac!("salvage", pack, "-o", out, "--allow-expansion").succeeded();
}

#[cfg(unix)]
#[test]
fn only_files_are_replaced() {
    use std::os::unix::fs::symlink;
    let folder = tempdir().unwrap();
    let pack = small_pack(folder.path());
    let at = |name: &str| folder.path().join(name);
    let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
    symlink(at("socket"), at("to_socket")).unwrap();
    fs::create_dir(at("folder")).unwrap();
    for name in ["socket", "to_socket", "folder"] {
        let run = iac!("cat", pack, "--rows", "0", "-o", at(name), "--overwrite").ended_with(2);
        assert!(run.err.contains("is not a regular file"), "{}", run.err);
    }
    fs::write(at("file"), "old").unwrap();
    symlink(at("file"), at("to_file")).unwrap();
    symlink(at("nothing"), at("dangling")).unwrap();
    for name in ["to_file", "dangling"] {
        iac!("cat", pack, "--rows", "0", "-o", at(name), "--overwrite").succeeded();
        assert_eq!(fs::read(at(name)).unwrap(), b"hello");
    }
    assert_eq!(fs::read(at("file")).unwrap(), b"old");
    let names = names_in(folder.path());
    assert!(names.iter().all(|name| !name.ends_with(".part")), "{names:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_limit_on_file_sizes_is_a_failure_of_the_system_and_leaves_nothing() {
    let folder = tempdir().unwrap();
    let pack = small_pack(folder.path());
    let out = folder.path().join("new.iac");
    let program = common::command().get_program().to_owned();
    let output = std::process::Command::new("sh")
        .args(["-c", "ulimit -f 16 && exec \"$0\" salvage \"$1\" -o \"$2\""])
        .args([program.as_os_str(), pack.as_os_str(), out.as_os_str()])
        .output()
        .unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{message}");
    assert!(message.contains("too large"), "{message}");
    assert_eq!(names_in(folder.path()), ["small.iac", "sources"]);
}
