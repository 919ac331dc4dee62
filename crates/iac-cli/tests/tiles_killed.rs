//! Builds of tile packs that are killed, at many moments, and continued; large manifests.
#![cfg(all(feature = "tiles", feature = "jxl", target_os = "linux"))]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    clippy::print_stdout
)]

mod common;

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use common::{command, iac, names_in};
use serde_json::Value;

const TILES: usize = 40;
const EDGE: u32 = 96;
const SIGKILL: i32 = 9;

/// A picture that takes a while to encode.
fn write_bmp(path: &Path, seed: u32) {
    let bytes = EDGE * EDGE * 3;
    let mut file = b"BM".to_vec();
    for word in [54 + bytes, 0, 54, 40, EDGE, EDGE, 24 << 16 | 1, 0, bytes, 0, 0, 0, 0] {
        file.extend(word.to_le_bytes());
    }
    let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(1);
    for at in 0..bytes {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        file.push((at / 7 + (state >> 27)) as u8);
    }
    fs::write(path, file).unwrap();
}

struct Work {
    folder: tempfile::TempDir,
}

impl Work {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut manifest = "tile_id,patient_id,slide_id,tile_path,x,y,split\n".to_owned();
        for tile in 0..TILES {
            write_bmp(&folder.path().join(format!("{tile}.bmp")), tile as u32);
            manifest += &format!("t{tile},p,s,{tile}.bmp,{},0,train\n", tile as u32 * EDGE);
        }
        fs::write(folder.path().join("tiles.csv"), manifest).unwrap();
        fs::create_dir(folder.path().join("out")).unwrap();
        Self { folder }
    }

    fn arguments(&self, output: &Path) -> Vec<String> {
        let manifest = self.folder.path().join("tiles.csv");
        ["pack", "tiles", manifest.to_str().unwrap(), "-o", output.to_str().unwrap()]
            .into_iter()
            .chain(["--beside-manifest", "--resume", "--json", "--workers", "2"])
            .map(str::to_owned)
            .collect()
    }

    /// A build that nothing disturbs: its bytes.
    fn undisturbed(&self) -> Vec<u8> {
        let path = self.folder.path().join("undisturbed.iac");
        iac(self.arguments(&path)).succeeded();
        fs::read(path).unwrap()
    }

    fn output(&self) -> PathBuf {
        self.folder.path().join("out/built.iac")
    }

    fn start(&self) -> Child {
        let mut command = command();
        command.args(self.arguments(&self.output()));
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    fn journal_bytes(&self) -> u64 {
        let journal = self.folder.path().join("out/.built.iac.journal.part");
        fs::metadata(journal).map_or(0, |metadata| metadata.len())
    }

    /// Kills the build; whether it had not ended before.
    fn kill(mut child: Child) -> bool {
        child.kill().unwrap();
        child.wait().unwrap().signal() == Some(SIGKILL)
    }

    /// Lets a build come to its end; how many tiles it took from the one before.
    fn finish(&self, expected: &[u8]) -> u64 {
        let built: Value = iac(self.arguments(&self.output())).succeeded().json();
        assert!(fs::read(self.output()).unwrap() == expected, "another pack");
        assert_eq!(names_in(&self.folder.path().join("out")), ["built.iac"]);
        built["resumed"].as_u64().unwrap()
    }
}

#[test]
fn a_build_that_is_killed_again_and_again_ends_in_the_undisturbed_pack() {
    let work = Work::new();
    let expected = work.undisturbed();
    // What the journal of a whole build would have, about.
    let whole = expected.len() as u64 - 65_536;
    let mut killed = 0_u64;
    let mut reached = 0;
    for percent in [1, 12, 40, 41, 75, 96] {
        let mut child = work.start();
        let wanted = whole * percent / 100;
        while work.journal_bytes() < wanted && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        // At most one entry can be half written, and that was there before is kept.
        if Work::kill(child) {
            killed += 1;
            assert!(!work.output().exists(), "{percent}%");
            assert!(work.journal_bytes() >= reached, "{percent}%");
            reached = work.journal_bytes().min(wanted);
        } else {
            // It was quicker than the kill, so there is nothing to go on with.
            fs::remove_file(work.output()).unwrap();
            reached = 0;
        }
    }
    assert!(killed >= 3, "{killed}");
    let resumed = work.finish(&expected);
    assert!(reached == 0 || resumed > 0, "{resumed}");
}

#[test]
fn a_build_that_is_killed_after_any_time_ends_in_the_undisturbed_pack() {
    let work = Work::new();
    let expected = work.undisturbed();
    for milliseconds in [0, 2, 5, 10, 20, 40, 80] {
        let child = work.start();
        std::thread::sleep(Duration::from_millis(milliseconds));
        if !Work::kill(child) {
            fs::remove_file(work.output()).unwrap();
        }
        // In half of the cases the next build goes on, in the others it is killed too.
        if milliseconds % 4 == 0 {
            work.finish(&expected);
            fs::remove_file(work.output()).unwrap();
        }
    }
    work.finish(&expected);
}

/// A grey JPEG image of 8 x 8.
const JPEG: &[u8] = include_bytes!("data/gray_8x8.jpg");

/// Packs a manifest of many rows; the most memory that it took, in bytes for each row.
fn memory_per_row(rows: u64) -> u64 {
    let folder = tempfile::tempdir_in(
        std::env::var_os("IAC_SOAK_DIR").map_or_else(std::env::temp_dir, PathBuf::from),
    )
    .unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("tile.jpg"), JPEG).unwrap();
    let mut manifest = BufWriter::new(File::create(at("tiles.csv")).unwrap());
    writeln!(manifest, "tile_id,patient_id,slide_id,tile_path,x,y,split").unwrap();
    for row in 0..rows {
        let (slide, place) = (row / 20_000, row % 20_000);
        let (x, y) = (place % 200 * 8, place / 200 * 8);
        writeln!(manifest, "slide-{slide:04}_{place:06},p{slide},s{slide},tile.jpg,{x},{y},train")
            .unwrap();
    }
    manifest.into_inner().unwrap().sync_all().unwrap();
    let mut command = command();
    command
        .current_dir(folder.path())
        .args(["pack", "tiles", "tiles.csv", "-o", "tiles.iac", "--jpeg", "keep", "--quiet"])
        .stdout(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut peak = 0_u64;
    let status = loop {
        let text = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let kilobytes = text
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix("kB"))
            .and_then(|number| number.trim().parse::<u64>().ok());
        peak = peak.max(kilobytes.unwrap_or(0) * 1024);
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    assert!(status.success());
    let pack = at("tiles.iac").to_str().unwrap().to_owned();
    let info = iac(["info", &pack, "--json"]).succeeded().json();
    assert_eq!(info["index_table"]["rows"], rows);
    println!("{rows} rows, peak {peak} bytes");
    peak.saturating_sub(BASE) / rows
}

/// What the command takes whatever it packs: its own code, and tiles that are being encoded.
const BASE: u64 = 80 << 20;

#[test]
fn a_manifest_of_many_rows_takes_little_memory_for_each() {
    let found = memory_per_row(100_000);
    assert!(found <= 200, "{found} bytes for each row");
}

#[test]
#[ignore = "packs 10 million records (or `IAC_SOAK_ROWS`); part of `make soak`"]
fn a_manifest_of_ten_million_rows_takes_little_memory_for_each() {
    let rows = std::env::var("IAC_SOAK_ROWS").ok().and_then(|rows| rows.parse().ok());
    let rows = rows.unwrap_or(10_000_000);
    let found = memory_per_row(rows);
    println!("{found} bytes for each of {rows} rows");
    assert!(found <= 200, "{found} bytes for each row");
}
