//! Tiles and features on the command line: packing, validating, subsets, merging, statistics.
#![cfg(all(feature = "tiles", feature = "features", feature = "jxl"))]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Run, command, iac};
use serde_json::Value;

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../iac-adapters/tests/data")
}

fn run_in(folder: &Path, arguments: &[&str]) -> Run {
    let mut command: Command = command();
    command.current_dir(folder).args(arguments);
    let output = command.output().unwrap();
    Run {
        code: output.status.code().unwrap(),
        out: output.stdout,
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

#[test]
fn validate_prints_the_lines_of_the_reference() {
    let runs: Value =
        serde_json::from_slice(&std::fs::read(data().join("validate/runs.json")).unwrap()).unwrap();
    let mut seen = 0;
    for told in runs.as_array().unwrap() {
        let arguments: Vec<&str> =
            told["args"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
        // The text packs are another crate's, and negative numbers are refused here.
        if arguments.iter().any(|word| word.starts_with("text")) || arguments.contains(&"-1") {
            continue;
        }
        let found = run_in(&data(), &[&["validate"], &arguments[..]].concat());
        assert_eq!(i64::from(found.code), told["exit_code"].as_i64().unwrap(), "{arguments:?}");
        let lines: Vec<&str> =
            told["stdout"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
        assert_eq!(found.lines(), lines, "{arguments:?}");
        if lines.len() > 1 {
            let last = found.err.lines().last().unwrap_or_default();
            assert_eq!(last, told["stderr_last_line"].as_str().unwrap(), "{arguments:?}");
        }
        seen += 1;
    }
    assert!(seen >= 14, "{seen}");
    run_in(&data(), &["validate", "--input", "tiles/origin_only/pack.iac", "--max-crc", "-1"])
        .ended_with(2);
}

#[test]
fn tiles_are_packed_cut_joined_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let tiles = data().join("tiles/multi_slide_lossless");
    let manifest = tiles.join("manifest.csv").to_str().unwrap().to_owned();
    let root = tiles.join("images").to_str().unwrap().to_owned();
    let all = at("all.tiles.iac");
    let packed = iac([
        "pack",
        "tiles",
        &manifest,
        "-o",
        &all,
        "--tile-root",
        &root,
        "--lossless",
        "--effort",
        "2",
        "--stride-x",
        "16",
        "--stride-y",
        "12",
        "--resume",
        "--json",
    ])
    .succeeded()
    .json();
    assert_eq!(
        (&packed["tiles"], &packed["slides"], &packed["tile_width"]),
        (&7.into(), &3.into(), &32.into())
    );
    iac(["verify", &all, "--full"]).succeeded();
    iac(["pack", "tiles", &manifest, "-o", &all, "--tile-root", &root]).ended_with(2);
    let error = iac(["pack", "tiles", &manifest, "-o", &at("x.iac"), "--json"]).ended_with(3);
    assert_eq!(error.json_error()["row"], 0);
    // Paths that begin at the manifest, and nobody said so.
    let copy = at("copy.csv");
    std::fs::copy(Path::new(&root).join("s1/0.png"), at("0.png")).unwrap();
    let columns = "tile_id,patient_id,slide_id,tile_path,x,y,split";
    std::fs::write(&copy, format!("{columns}\nt,p,s,0.png,0,0,\n")).unwrap();
    let error = iac(["pack", "tiles", &copy, "-o", &at("x.iac")]).ended_with(3);
    assert!(error.err.contains("(listed in ") && error.err.contains(", line 2)"), "{}", error.err);
    assert!(error.err.contains("it is there with --beside-manifest"), "{}", error.err);

    // A subset keeps what it needs, and the rest is merged back.
    let (train, rest, both) = (at("train.iac"), at("rest.iac"), at("both.iac"));
    let subset = iac(["subset", &all, "--where", "split = 'train'", "-o", &train, "--json"]);
    let subset = subset.succeeded().json();
    let rows = subset["rows"].as_u64().unwrap();
    assert!(rows > 0 && rows < 7 && subset["slides"].as_u64().unwrap() < 3);
    iac(["subset", &all, "--where", "not split = 'train'", "-o", &rest]).succeeded();
    let none = at("none.iac");
    let nothing = iac(["subset", &all, "--where", "split = 'Train'", "-o", &none]).succeeded();
    assert_eq!(nothing.err, "note: the condition holds for no row\n");
    for part in [&train, &rest] {
        iac(["verify", part, "--full"]).succeeded();
        iac(["validate", "--input", part]).succeeded();
    }
    let merged = iac(["merge", &train, &rest, "-o", &both, "--json"]).succeeded().json();
    assert_eq!((&merged["rows"], &merged["slides"]), (&7.into(), &3.into()));
    iac(["verify", &both, "--full"]).succeeded();
    let ids = |pack: &str| {
        let listed = iac(["ls", pack, "--columns", "tile_id,split", "--format", "jsonl"]);
        let mut ids: Vec<String> = listed
            .succeeded()
            .json_lines()
            .iter()
            .map(|row| format!("{} {}", row["tile_id"], row["split"]))
            .collect();
        ids.sort();
        ids
    };
    assert_eq!(ids(&both), ids(&all));
    let twice = iac(["merge", &train, &train, "-o", &at("twice.iac")]).ended_with(2);
    assert!(twice.err.contains("stands in several rows"), "{}", twice.err);

    let stats = iac(["stats", &both, "--json"]).succeeded().json();
    assert_eq!((&stats["rows"], &stats["decoded_bytes"]), (&7.into(), &(7 * 32 * 24 * 3).into()));
    let group = |name: &str| {
        let groups = stats["groups"].as_array().unwrap();
        groups.iter().find(|group| group["column"] == name).unwrap().clone()
    };
    assert_eq!(group("split")["counts"][0]["value"], "train");
    assert_eq!(group("slide.patient_id")["values"], 2);
    assert!(iac(["stats", &both]).succeeded().text().contains("slide.slide_id"));
}

#[test]
fn features_are_packed_from_a_manifest_and_from_tiles() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let golden = |name: &str| data().join(name).to_str().unwrap().to_owned();
    let out = at("a.features.iac");
    let packed = iac([
        "pack",
        "features",
        &golden("features/float32_multi_slide/records.csv"),
        &golden("features/float32_multi_slide/features.npy"),
        "-o",
        &out,
        "--teacher",
        "synthetic-teacher-v1",
        "--json",
    ]);
    let packed = packed.succeeded().json();
    assert_eq!((&packed["rows"], &packed["dim"]), (&7.into(), &24.into()));
    iac(["verify", &out, "--full"]).succeeded();
    let line = iac(["validate", "--input", &out]).succeeded();
    assert_eq!(
        line.lines(),
        [
            "package_valid type=teacher_features records=7 teacher=synthetic-teacher-v1 dim=24 dtype=float32 rows_checked=7"
        ]
    );
    let subset = at("two.iac");
    iac(["subset", &out, "--rows", "6,0", "-o", &subset]).succeeded();
    iac(["verify", &subset, "--full"]).succeeded();
    let both = at("both.iac");
    iac(["subset", &out, "--rows", "1..6", "-o", &at("five.iac")]).succeeded();
    iac(["merge", &subset, &at("five.iac"), "-o", &both]).succeeded();
    iac(["verify", &both, "--full"]).succeeded();
    let packed = iac([
        "pack",
        "features",
        &golden("features/from_tile_package/features.npy"),
        "--tiles",
        &golden("tiles/multi_slide_lossless/pack.iac"),
        "-o",
        &at("b.iac"),
        "--teacher",
        "encoder-v1",
        "--dtype",
        "float16",
        "--json",
    ]);
    assert_eq!(packed.succeeded().json()["dtype"], "float16");
    iac([
        "pack",
        "features",
        &golden("features/float32_multi_slide/features.npy"),
        "-o",
        &at("c.iac"),
        "--teacher",
        "x",
    ])
    .ended_with(2);
    iac(["pack", "features", "a", "b", "-o", &at("c.iac"), "--teacher", "x", "--dtype", "float17"])
        .ended_with(2);
}
