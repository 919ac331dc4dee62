//! What holds for every command: help, exit codes, JSON errors, pipes, interruption.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

mod common;

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{golden, malformed, names_in, patched, patched_case, small_pack};
use iatrocache::arrow_array::{ArrayRef, RecordBatch, StringArray};
use iatrocache::prelude::*;
use tempfile::tempdir;

const COMMANDS: [&[&str]; 12] = [
    &["info"],
    &["ls"],
    &["cat"],
    &["decode"],
    &["digest"],
    &["verify"],
    &["salvage"],
    &["pack"],
    &["pack", "raw"],
    &["extract"],
    &["demo"],
    &["completions"],
];

fn codec_is_compiled_in(name: &str) -> bool {
    iatrocache::compiled_codecs().contains(&name)
}

#[test]
fn version_names_format_and_codecs() {
    let run = iac!("--version").succeeded();
    let lines = run.lines();
    assert_eq!(lines[0], format!("iac {}", env!("CARGO_PKG_VERSION")));
    assert_eq!(lines[1], "format version 2");
    assert_eq!(lines[2], format!("codecs: {}", iatrocache::compiled_codecs().join(", ")));
    let names: Vec<&str> = lines[4].strip_prefix("features: ").unwrap().split(", ").collect();
    for (name, is_there) in [
        ("object-store", cfg!(feature = "object-store")),
        ("parquet", cfg!(feature = "parquet")),
        ("text-search", cfg!(feature = "text-search")),
        ("wsi-icc", cfg!(feature = "wsi-icc")),
    ] {
        assert_eq!(names.contains(&name), is_there, "{name}");
    }
    assert!(run.err.is_empty());
}

#[test]
fn every_command_has_help_with_an_example() {
    for names in COMMANDS {
        let run = common::iac(names.iter().chain(&["--help"])).succeeded();
        let text = run.text();
        assert!(text.contains("Example"), "{names:?}");
        assert!(text.contains(&format!("iac {}", names.join(" "))), "{names:?}");
        assert!(run.err.is_empty(), "{names:?}");
    }
}

#[test]
fn a_call_without_a_command_shows_help_as_an_error() {
    let run = common::iac::<&str>([]).ended_with(2);
    assert!(run.out.is_empty());
    assert!(run.err.contains("iac demo"));
}

#[test]
fn completions_are_scripts_that_their_shell_accepts() {
    let folder = tempdir().unwrap();
    for (shell, check) in [("bash", "-n"), ("zsh", "-n"), ("fish", "--no-execute")] {
        let run = iac!("completions", shell).succeeded();
        assert!(run.text().contains("iac") && run.out.len() > 1000, "{shell}");
        assert!(run.text().contains("salvage"), "{shell}");
        let path = folder.path().join(shell);
        fs::write(&path, &run.out).unwrap();
        match Command::new(shell).arg(check).arg(&path).output() {
            Ok(output) => assert!(
                output.status.success(),
                "{shell}: {}",
                String::from_utf8_lossy(&output.stderr)
            ),
            Err(_) => println!("{shell} is not installed, its script was not run"),
        }
    }
}

/// Kind and code of an error, also with `--json`.
#[track_caller]
fn fails(arguments: &[&dyn AsRef<std::ffi::OsStr>], kind: &str, code: i32) -> serde_json::Value {
    let plain = common::iac(arguments.iter().map(AsRef::as_ref)).ended_with(code);
    assert!(plain.err.starts_with("error: "), "{:?}", plain.err);
    let json = arguments.iter().map(AsRef::as_ref).chain([std::ffi::OsStr::new("--json")]);
    let run = common::iac(json).ended_with(code);
    let error = run.json_error();
    assert_eq!(error["kind"], kind, "{error}");
    assert!(error["message"].as_str().is_some_and(|message| !message.is_empty()));
    error
}

#[test]
fn foreign_files_are_not_iac() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("x.zip");
    for (content, shown) in [
        (b"PK\x03\x04....".as_slice(), "PK\\x03\\x04"),
        (b"", "empty"),
        (b"just a text, not long", "just a t"),
    ] {
        fs::write(&path, content).unwrap();
        let error = fails(&[&"info", &path], "not_iac", 1);
        assert!(error["message"].as_str().unwrap().contains(shown), "{error}");
        assert_eq!(error["path"], path.to_str().unwrap());
    }
}

#[test]
fn damaged_files_end_with_1() {
    let error = fails(&[&"info", &malformed("cut_in_data_a")], "damaged", 1);
    assert_eq!(error["field"], "data_length");
    let error = fails(&[&"cat", &malformed("crc_mismatch_a"), &"--rows", &"2"], "checksum", 1);
    assert_eq!(error["row"], 2);
    assert_eq!(error["field"], "crc32");
    fails(&[&"ls", &malformed("arrow_cut_a")], "damaged", 1);
}

#[test]
fn wrong_usage_ends_with_2() {
    let folder = tempdir().unwrap();
    let pack = small_pack(folder.path());
    fails(&[&"info"], "usage", 2);
    fails(&[&"no-such-command"], "usage", 2);
    fails(&[&"info", &pack, &"--no-such-option"], "usage", 2);
    fails(&[&"ls", &pack, &"--columns", &"no_such"], "usage", 2);
    fails(&[&"ls", &pack, &"--where", &"no_such = 1"], "usage", 2);
    fails(&[&"ls", &pack, &"--where", &"bytes >"], "usage", 2);
    fails(&[&"info", &pack, &"--workers", &"0"], "usage", 2);
    let error = fails(&[&"cat", &pack, &"--rows", &"3"], "row_out_of_range", 2);
    assert_eq!(error["row"], 3);
    fails(&[&"digest", &pack, &"--rows", &"1..9"], "row_out_of_range", 2);
    fails(&[&"cat", &golden("data_segment_a"), &"--rows", &"0"], "no_record_index", 2);
    fails(&[&"digest", &golden("data_segment_a")], "no_record_index", 2);
}

#[test]
fn negative_rows_are_refused_with_a_hint() {
    let path = golden("none_a");
    for command in ["cat", "decode", "digest", "ls"] {
        for rows in ["-1", "-3..2", "0,-1"] {
            let error = fails(&[&command, &path, &"--rows", &rows], "usage", 2);
            assert!(error["message"].as_str().unwrap().contains("counted from 0"), "{error}");
        }
    }
}

#[test]
fn existing_destinations_stay_and_end_with_2() {
    let folder = tempdir().unwrap();
    let pack = small_pack(folder.path());
    let there = folder.path().join("there");
    fs::write(&there, "old").unwrap();
    let sources = folder.path().join("sources");
    fails(&[&"cat", &pack, &"--rows", &"0", &"-o", &there], "exists", 2);
    fails(&[&"decode", &pack, &"--rows", &"0", &"-o", &there], "exists", 2);
    fails(&[&"pack", &"raw", &sources, &"-o", &there], "exists", 2);
    fails(&[&"salvage", &pack, &"-o", &there], "exists", 2);
    let new = folder.path().join("new.iac");
    fails(&[&"salvage", &pack, &"-o", &new, &"--report", &there], "exists", 2);
    assert_eq!(fs::read(&there).unwrap(), b"old");
    assert_eq!(names_in(folder.path()), ["small.iac", "sources", "there"]);
    iac!("cat", pack, "--rows", "0", "-o", there, "--overwrite").succeeded();
    assert_eq!(fs::read(&there).unwrap(), b"hello");
    assert_eq!(names_in(folder.path()), ["small.iac", "sources", "there"]);
}

#[test]
fn failures_of_the_system_end_with_3() {
    let folder = tempdir().unwrap();
    let missing = folder.path().join("missing.iac");
    for command in ["info", "ls", "digest"] {
        let error = fails(&[&command, &missing], "io", 3);
        assert_eq!(error["path"], missing.to_str().unwrap());
    }
    // What cannot be opened is one fault among others.
    let run = iac!("verify", missing, "--json").ended_with(3);
    assert_eq!(run.json_lines()[0]["check"], "open");
    assert_eq!(run.json_lines()[1]["summary"]["faults"], 1);
    fails(&[&"info", &folder.path()], "io", 3);
    let pack = small_pack(folder.path());
    // A file where a folder would have to be.
    let below = pack.join("out");
    fails(&[&"cat", &pack, &"--rows", &"0", &"-o", &below], "io", 3);
}

#[test]
fn what_this_build_cannot_do_ends_with_4() {
    let folder = tempdir().unwrap();
    let version_3 = patched_case(folder.path(), "version_3_a");
    for command in ["info", "ls", "digest"] {
        fails(&[&command, &version_3], "unsupported_version", 4);
    }
    iac!("verify", version_3).ended_with(4);
    let out = folder.path().join("out");
    let decode =
        |pack: &Path, kind: &str| fails(&[&"decode", &pack, &"--rows", &"0", &"-o", &out], kind, 4);
    decode(&malformed("codec_unknown_a"), "unknown_codec");
    for codec in ["zstd", "brotli", "jxl", "jpeg2000", "jpegls"] {
        if !codec_is_compiled_in(codec) {
            let names: Vec<String> = common::golden_names();
            let name = names.iter().find(|name| name.starts_with(&format!("{codec}_"))).unwrap();
            let error = decode(&golden(name), "missing_feature");
            assert!(error["message"].as_str().unwrap().contains(codec), "{error}");
        }
    }
    // The stored bytes are there all the same.
    iac!("cat", malformed("codec_unknown_a"), "--rows", "0").succeeded();
}

#[test]
fn errors_say_what_can_be_done() {
    let folder = tempdir().unwrap();
    let pack = small_pack(folder.path());
    let out = folder.path().join("out.iac");
    let run = iac!("recode", pack, "--codec", "snappy", "-o", out).ended_with(4);
    assert!(run.err.contains("this build has none"), "{}", run.err);
    let run = iac!("subset", pack, "-o", out).ended_with(2);
    assert!(run.err.contains("--where <EXPR>|--rows <ROWS>"), "{}", run.err);
    iac!("subset", pack, "-o", out, "--rows", "0", "--where", "bytes > 1").ended_with(2);
    for codec in ["jpeg2000", "jpegls"] {
        if !codec_is_compiled_in(codec) {
            let run = iac!("recode", pack, "--codec", codec, "-o", out).ended_with(4);
            assert!(run.err.contains("--features FEATURE"), "{}", run.err);
        }
    }
}

#[cfg(not(feature = "object-store"))]
#[test]
fn commands_of_other_builds_are_not_supported() {
    let error = fails(&[&"cp", &"a.iac", &"b.iac"], "missing_feature", 4);
    assert!(error["message"].as_str().unwrap().contains("object-store"), "{error}");
}

#[test]
fn a_full_disk_is_no_success() {
    if !Path::new("/dev/full").exists() {
        println!("there is no /dev/full here, this was not run");
        return;
    }
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = common::command().arg("ls").arg(golden("none_a")).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&output.stderr).contains("space"));
}

/// A pack of many rows without content.
fn long_pack(path: &Path, rows: usize) {
    let names: ArrayRef = Arc::new(StringArray::from_iter_values(
        (0..rows).map(|row| format!("a-rather-long-name-of-record-{row:08}")),
    ));
    let index = Table::from(RecordBatch::try_from_iter([("item_id", names)]).unwrap());
    let header = serde_json::Map::new();
    let payloads = vec![[]; rows];
    build_pack(path, &header, &Table::empty(), &index, &payloads, &WriteOptions::new().sync(false))
        .unwrap();
}

#[test]
fn a_closed_pipe_is_no_error() {
    let folder = tempdir().unwrap();
    let pack = folder.path().join("long.iac");
    long_pack(&pack, 20_000);
    for arguments in [
        &["ls"][..],
        &["ls", "--json"],
        &["ls", "--format", "csv"],
        &["ls", "--format", "arrow"],
        &["digest"],
        &["digest", "--json"],
    ] {
        let mut child = common::command()
            .args(arguments)
            .arg(&pack)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = child.stdout.take().unwrap();
        let mut first = [0; 10];
        out.read_exact(&mut first).unwrap();
        drop(out);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{arguments:?}");
    }
}

#[cfg(unix)]
#[test]
fn a_file_that_is_cut_while_it_is_listed_is_an_error() {
    let folder = tempdir().unwrap();
    let pack = folder.path().join("long.iac");
    for arguments in [&["ls"][..], &["ls", "--json"], &["ls", "--format", "csv"], &["digest"]] {
        if pack.exists() {
            fs::remove_file(&pack).unwrap();
        }
        long_pack(&pack, 20_000);
        let mut child = common::command()
            .args(arguments)
            .arg(&pack)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // Once something has come, the rest waits for the pipe.
        let mut first = [0; 10];
        child.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
        fs::OpenOptions::new().write(true).open(&pack).unwrap().set_len(66_000).unwrap();
        let output = child.wait_with_output().unwrap();
        // A record that cannot be read is one line of a digest, which goes on.
        let code = if arguments[0] == "digest" { 1 } else { 3 };
        assert_eq!(output.status.code(), Some(code), "{arguments:?}");
    }
}

#[test]
fn progress_and_notes_never_reach_standard_output() {
    let folder = tempdir().unwrap();
    let pack = small_pack(folder.path());
    let run = iac!("digest", pack, "--json", "--progress", "always").succeeded();
    assert_eq!(run.json_lines().len(), 3);
    assert!(!run.err.is_empty());
    let plain = iac!("digest", pack, "--json").succeeded();
    assert_eq!(plain.out, run.out);
    assert!(plain.err.is_empty());
    let never = iac!("digest", pack, "--json", "--progress", "never").succeeded();
    assert!(never.err.is_empty());
}

#[test]
fn output_to_a_file_has_no_colour() {
    for arguments in [&["info"][..], &["ls"], &["verify"]] {
        let output = common::command()
            .args(arguments)
            .arg(golden("none_a"))
            .env_remove("NO_COLOR")
            .output()
            .unwrap();
        assert!(!output.stdout.contains(&0x1b), "{arguments:?}");
    }
}

#[test]
fn hostile_files_are_errors_with_a_place_and_never_a_crash() {
    let folder = tempdir().unwrap();
    let mut files = patched(folder.path());
    for name in ["arrow_cut_a", "cut_in_data_a", "index_overlaps_slide_a", "offset_out_of_range_a"]
    {
        files.push((name.to_owned(), malformed(name)));
    }
    for (name, path) in files {
        for command in ["info", "ls", "digest", "verify"] {
            // `iac` panics if a signal ended it.
            let run = iac!(command, path, "--json");
            assert!(run.code <= 4, "{command} {name}: {}", run.code);
            assert!(!run.err.contains("panicked"), "{command} {name}: {}", run.err);
            run.json_lines();
            if run.code != 0 && command != "verify" && run.out.is_empty() {
                assert_eq!(run.json_error()["path"], path.to_str().unwrap(), "{command} {name}");
            }
        }
    }
}

#[test]
fn names_with_control_characters_do_not_reach_the_terminal() {
    let folder = tempdir().unwrap();
    let pack = folder.path().join("odd.iac");
    let names: ArrayRef = Arc::new(StringArray::from(vec!["\u{1b}[31mred\u{7}"]));
    let index = RecordBatch::try_from_iter([("item\u{1b}_id", names)]).unwrap();
    let mut header = serde_json::Map::new();
    header.insert("payload_type".into(), "\u{1b}[2J".into());
    header.insert("\u{1b}[1m".into(), "\u{9b}2J".into());
    let options = WriteOptions::new().sync(false);
    build_pack(&pack, &header, &Table::empty(), &Table::from(index), &["x"], &options).unwrap();
    for command in ["info", "ls", "verify"] {
        let run = iac!(command, pack).succeeded();
        assert!(!run.text().chars().any(|c| c.is_control() && c != '\n'), "{command}");
    }
}

#[test]
fn paths_with_control_characters_are_escaped_in_messages() {
    let folder = tempdir().unwrap();
    let odd = folder.path().join("no\u{1b}]0;X\u{7}such\u{202e}\u{9b}.iac");
    let pack = small_pack(folder.path());
    let is_plain =
        |text: &str| !text.chars().any(|c| (c.is_control() && c != '\n') || c == '\u{202e}');
    let missing = iac!("info", odd).ended_with(3);
    let unknown = iac!("info", pack, odd).ended_with(2);
    fs::write(&odd, "x").unwrap();
    let foreign = iac!("info", odd).ended_with(1);
    let there = iac!("cat", pack, "--rows", "0", "-o", odd).ended_with(2);
    let report = iac!("salvage", odd, "-o", pack, "--report", odd).ended_with(2);
    assert!(is_plain(&unknown.err), "{:?}", unknown.err);
    for run in [missing, foreign, there, report] {
        assert!(is_plain(&run.err), "{:?}", run.err);
        assert!(run.err.contains("no\\u{1b}]0;X\\u{7}such\\u{202e}\\u{9b}.iac"), "{:?}", run.err);
    }
}

#[test]
fn a_long_cell_neither_waits_nor_fills_the_other_rows() {
    let folder = tempdir().unwrap();
    let pack = folder.path().join("long.iac");
    let mut texts = vec!["short".to_owned(); 900];
    texts[1] = "x".repeat(2 << 20);
    let rows = texts.len();
    let texts: ArrayRef = Arc::new(StringArray::from(texts));
    let last: ArrayRef = Arc::new(StringArray::from(vec!["end"; rows]));
    let index = RecordBatch::try_from_iter([("text", texts), ("last", last)]).unwrap();
    let options = WriteOptions::new().sync(false);
    let header = serde_json::Map::new();
    build_pack(&pack, &header, &Table::empty(), &Table::from(index), &vec!["x"; rows], &options)
        .unwrap();
    let run = iac!("ls", pack, "--columns", "text,last").succeeded();
    assert_eq!(run.lines().len(), rows + 1);
    assert!(run.out.len() < (2 << 20) + rows * 300, "{} bytes", run.out.len());
    assert!(run.lines()[2].len() > 2 << 20);
}

#[cfg(unix)]
fn interrupt(child: &std::process::Child) {
    let pid = i32::try_from(child.id()).unwrap();
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(pid).unwrap(),
        rustix::process::Signal::INT,
    )
    .unwrap();
}

#[cfg(unix)]
#[test]
fn an_interrupted_pack_ends_with_130_and_leaves_nothing() {
    let folder = tempdir().unwrap();
    let sources = folder.path().join("sources");
    let home = folder.path().join("home");
    fs::create_dir_all(&sources).unwrap();
    fs::create_dir_all(&home).unwrap();
    // Holes, which cost no disk to have but seconds to pack.
    for number in 0..200 {
        let file = fs::File::create(sources.join(format!("{number:03}"))).unwrap();
        file.set_len(16 << 20).unwrap();
    }
    let mut child = common::command()
        .args(["pack", "raw", "--progress", "always", "-o"])
        .arg(home.join("out.iac"))
        .arg(&sources)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.starts_with("packing") {
        line.clear();
        assert!(errors.read_line(&mut line).unwrap() > 0, "it ended before it packed");
    }
    let start = Instant::now();
    interrupt(&child);
    let mut rest = String::new();
    errors.read_to_string(&mut rest).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{rest}");
    assert!(output.stdout.is_empty());
    assert!(start.elapsed() < Duration::from_secs(20));
    assert!(names_in(&home).is_empty(), "{:?}", names_in(&home));
}

#[cfg(unix)]
#[test]
fn an_interrupted_listing_ends_with_130() {
    let folder = tempdir().unwrap();
    let pack = folder.path().join("long.iac");
    long_pack(&pack, 20_000);
    let mut child =
        common::command().args(["ls", "--json"]).arg(&pack).stdout(Stdio::piped()).spawn().unwrap();
    // Once something has come, the rest waits for the pipe.
    let mut first = [0; 10];
    child.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
    interrupt(&child);
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(130));
}
