//! `iac arrays`.
#![cfg(feature = "arrays")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use iatrocache::arrays::{ArrayData, convert};
use serde_json::{Value, json};
use tempfile::tempdir;

/// A NumPy file of numbers that count up.
fn npy(folder: &Path, name: &str, shape: &[u64]) -> PathBuf {
    let count: u64 = shape.iter().product();
    let bytes: Vec<u8> =
        (0..count).flat_map(|it| u16::try_from(it).unwrap().to_le_bytes()).collect();
    let data = ArrayData::from_bytes("uint16".parse().unwrap(), shape, bytes).unwrap();
    let path = folder.join(name);
    fs::write(&path, convert::npy_bytes(&data).unwrap()).unwrap();
    path
}

#[test]
fn a_store_is_made_changed_and_taken_out_again() {
    let folder = tempdir().unwrap();
    let store = folder.path().join("s.arrays");
    let file = npy(folder.path(), "a.npy", &[4, 6]);
    let report =
        iac!("arrays", "import", file, "-o", store, "--chunks", "2,3", "--json").succeeded().json();
    assert_eq!((&report["arrays"], &report["version"]), (&json!(["a"]), &json!(1)));

    let patch = npy(folder.path(), "patch.npy", &[1, 2]);
    iac!("arrays", "write", store, "a", patch, "--start", "3,4").succeeded();
    let new = npy(folder.path(), "new.npy", &[3]);
    iac!("arrays", "write", store, "g/new", new).succeeded();
    let listed = iac!("arrays", "ls", store, "--json").succeeded().json_lines();
    assert_eq!(listed[0]["name"], "a");
    assert_eq!(listed[0]["chunks"], json!([2, 3]));
    assert_eq!(listed[1]["name"], "g/new");
    let read = iac!("arrays", "read", store, "a", "--start", "2,3", "--shape", "2,3").succeeded();
    assert_eq!(read.json(), json!([[15, 16, 17], [21, 0, 1]]));
    let old = iac!("arrays", "read", store, "a", "--at", "1", "--start", "3,4").succeeded();
    assert_eq!(old.json(), json!([[22, 23]]));
    let stepped = iac!("arrays", "read", store, "a", "--step", "3,5").succeeded();
    assert_eq!(stepped.json(), json!([[0, 5], [18, 1]]));

    let versions = iac!("arrays", "history", store, "--json").succeeded().json_lines();
    assert_eq!(versions.len(), 4);
    let compacted = iac!("arrays", "compact", store, "--all", "--json").succeeded().json();
    assert_eq!(compacted["version"], 4);
    let info = iac!("arrays", "info", store, "--json").succeeded().json();
    assert_eq!((&info["layers"], &info["arrays"]), (&json!(1), &json!(2)));
    let info = iac!("arrays", "info", store, "a", "--json").succeeded().json();
    assert_eq!(info["stats"]["max"], 21);
    let kept = iac!("arrays", "gc", store, "--keep", "1", "--grace", "0", "--json").succeeded();
    assert_eq!(kept.json()["versions"].as_array().unwrap().len(), 4);
    iac!("arrays", "verify", store).succeeded();

    let single = folder.path().join("s.iac");
    iac!("arrays", "export", store, "-o", single).succeeded();
    iac!("arrays", "export", store, "-o", single).ended_with(2);
    iac!("arrays", "export", store, "-o", single, "--overwrite").succeeded();
    iac!("arrays", "verify", single).succeeded();
    iac!("verify", single).succeeded();
    let again = folder.path().join("again.arrays");
    iac!("arrays", "import", single, "-o", again).succeeded();
    let read = iac!("arrays", "read", again, "a", "--start", "3,3", "--shape", "1,3").succeeded();
    assert_eq!(read.json(), json!([[21, 0, 1]]));
    let out = folder.path().join("out.npy");
    iac!("arrays", "export", again, "a", "-o", out).succeeded();
    let found = convert::parse_npy(&fs::read(&out).unwrap()).unwrap();
    assert_eq!(found.shape(), [4, 6]);
}

#[test]
fn tags_name_versions_and_keep_them() {
    let folder = tempdir().unwrap();
    let store = folder.path().join("s.arrays");
    let file = npy(folder.path(), "a.npy", &[4]);
    iac!("arrays", "import", file, "-o", store).succeeded();
    let tagged = iac!("arrays", "tag", store, "first", "--json").succeeded().json();
    assert_eq!(tagged, json!({"name": "first", "version": 1}));
    for start in ["0", "1", "2"] {
        let patch = npy(folder.path(), "patch.npy", &[2]);
        iac!("arrays", "write", store, "a", patch, "--start", start).succeeded();
    }
    iac!("arrays", "tag", store, "second", "--of", "2").succeeded();
    iac!("arrays", "tag", store, "first", "--of", "3").ended_with(2);
    iac!("arrays", "tag", store, "third", "--of", "99").ended_with(2);
    iac!("arrays", "tag", store, "3").ended_with(2);
    iac!("arrays", "tag", store, "a/b").ended_with(2);
    iac!("arrays", "gc", store, "--keep", "1", "--grace", "0").succeeded();
    let listed = iac!("arrays", "tag", store, "--json").succeeded().json_lines();
    let versions: Vec<_> = listed.iter().map(|line| line["version"].clone()).collect();
    assert_eq!(versions, [json!(1), json!(2)]);
    let by_name = iac!("arrays", "read", store, "a", "--at", "first").succeeded();
    let by_number = iac!("arrays", "read", store, "a", "--at", "1").succeeded();
    assert_eq!(by_name.json(), by_number.json());
    iac!("arrays", "read", store, "a", "--at", "third").ended_with(2);
    iac!("arrays", "tag", store, "first", "--delete").succeeded();
    iac!("arrays", "tag", store, "first", "--delete").ended_with(2);
    iac!("arrays", "gc", store, "--keep", "1", "--grace", "0").succeeded();
    iac!("arrays", "read", store, "a", "--at", "1").ended_with(2);
    iac!("arrays", "read", store, "a", "--at", "second").succeeded();
}

#[test]
fn failures_have_the_codes_of_their_kinds_and_leave_nothing() {
    let folder = tempdir().unwrap();
    let store = folder.path().join("s.arrays");
    iac!("arrays", "ls", store).ended_with(3);
    assert!(!store.exists());
    let missing = folder.path().join("missing.npy");
    iac!("arrays", "import", missing, "-o", store).ended_with(3);
    assert!(!store.exists());
    let file = npy(folder.path(), "a.npy", &[4]);
    iac!("arrays", "import", file, "-o", store).succeeded();
    iac!("arrays", "import", file, "-o", store).ended_with(2);
    iac!("arrays", "read", store, "b").ended_with(2);
    iac!("arrays", "read", store, "a", "--start", "3", "--shape", "2").ended_with(2);
    let text = folder.path().join("a.txt");
    fs::write(&text, "x").unwrap();
    let error = iac!("arrays", "import", text, "-o", store, "--json").ended_with(4).json_error();
    assert_eq!(error["kind"], "unsupported");
    // No folder of somebody else's becomes a store.
    iac!("arrays", "import", file, "-o", folder.path()).ended_with(2);
    let layers = store.join("layers");
    let layer = fs::read_dir(&layers).unwrap().next().unwrap().unwrap().path();
    let mut bytes = fs::read(&layer).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(&layer, bytes).unwrap();
    let found = iac!("arrays", "verify", store, "--json").ended_with(1).json_lines();
    assert_eq!(found.last().unwrap()["faults"], 1);
}

/// The codecs that the headers of a store's layers list.
fn codecs(store: &Path) -> Vec<Value> {
    let layers = fs::read_dir(store.join("layers")).unwrap();
    let lists = layers.flat_map(|layer| {
        let bytes = fs::read(layer.unwrap().path()).unwrap();
        let text = String::from_utf8_lossy(&bytes[16..65_536]);
        let header: Value = serde_json::from_str(text.trim_end_matches('\0')).unwrap();
        header["nd_array"]["codecs"].as_array().unwrap().clone()
    });
    lists.collect()
}

#[test]
fn new_arrays_have_the_packing_and_the_fill_that_are_asked_for() {
    let folder = tempdir().unwrap();
    let file = npy(folder.path(), "a.npy", &[64, 64]);
    let store = folder.path().join("s.arrays");
    let packed = ["--codec", "zstd:level=5", "--filters", "delta,bitshuffle"];
    iac!(
        "arrays", "import", file, "-o", store, packed[0], packed[1], packed[2], packed[3],
        "--fill", "7"
    )
    .succeeded();
    let filters = json!([{"name": "delta", "size": 2}, {"name": "bitshuffle", "size": 2}]);
    let zstd = json!({"name": "zstd", "filters": filters, "params": {"level": 5}});
    assert!(codecs(&store).contains(&zstd), "{:?}", codecs(&store));
    let info = iac!("arrays", "info", store, "a", "--json").succeeded().json();
    assert_eq!(info["fill"], 7);
    iac!("arrays", "write", store, "b", file, "--codec", "lz4", "--fill", "9").succeeded();
    let lz4 = json!({"name": "lz4", "filters": [{"name": "shuffle", "size": 2}]});
    assert!(codecs(&store).contains(&lz4), "{:?}", codecs(&store));
    let info = iac!("arrays", "info", store, "b", "--json").succeeded().json();
    assert_eq!(info["fill"], 9);
    for name in ["a", "b"] {
        let read = iac!("arrays", "read", store, name, "--start", "63,62").succeeded();
        assert_eq!(read.json(), json!([[4094, 4095]]));
    }
    iac!("arrays", "verify", store).succeeded();
}

#[test]
fn packing_and_fill_that_cannot_be_are_refused_and_leave_nothing() {
    let folder = tempdir().unwrap();
    let file = npy(folder.path(), "a.npy", &[64, 64]);
    let store = folder.path().join("s.arrays");
    iac!("arrays", "import", file, "-o", store).succeeded();
    let before = codecs(&store);
    for fill in ["70000", "-1", "1.5", "wide"] {
        let write = iac!("arrays", "write", store, "b", file, "--fill", fill, "--json");
        assert_eq!(write.ended_with(2).json_error()["kind"], "usage", "{fill}");
        let import = iac!("arrays", "import", file, "-o", store, "--name", "b", "--fill", fill);
        import.ended_with(2);
    }
    for codec in ["zstd:level=99", "zstd:level", "wide", "zstd:wide=1"] {
        let write = iac!("arrays", "write", store, "b", file, "--codec", codec, "--json");
        assert_ne!(write.code, 0, "{codec}");
        assert!(!write.json_error()["message"].as_str().unwrap().is_empty());
    }
    let alone: [&[&str]; 4] = [
        &["--filters", "wide"],
        &["--codec", "none", "--filters", "shuffle"],
        &["--filters", "none,delta"],
        &["--fill", "1", "--start", "0,0"],
    ];
    for more in alone {
        let mut line =
            vec!["arrays", "write", store.to_str().unwrap(), "b", file.to_str().unwrap()];
        line.extend(more);
        common::iac(&line).ended_with(2);
    }
    // An array that is there keeps what it has.
    iac!("arrays", "write", store, "a", file, "--codec", "lz4").ended_with(2);
    iac!("arrays", "write", store, "a", file, "--fill", "1").ended_with(2);
    assert_eq!(codecs(&store), before);
}

#[cfg(unix)]
#[test]
fn files_that_only_claim_their_size_and_pipes_are_refused_at_once() {
    let folder = tempdir().unwrap();
    let store = folder.path().join("s.arrays");
    let file = npy(folder.path(), "a.npy", &[4, 6]);
    iac!("arrays", "import", file, "-o", store).succeeded();
    // A terabyte of which nothing is stored.
    let huge = folder.path().join("huge.npy");
    fs::File::create(&huge).unwrap().set_len(1 << 40).unwrap();
    let pipe = folder.path().join("pipe.npy");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let run = iac!("arrays", "write", store, "a", huge).ended_with(1);
    assert!(run.err.contains("file of elements"), "{}", run.err);
    iac!("arrays", "import", huge, "-o", store, "--name", "b").ended_with(1);
    let run = iac!("arrays", "write", store, "a", pipe).ended_with(2);
    assert!(run.err.contains("no regular file"), "{}", run.err);
    let run = iac!("arrays", "import", pipe, "-o", store, "--name", "b").ended_with(3);
    assert!(run.err.contains("no regular file"), "{}", run.err);
    let listed = iac!("arrays", "ls", store, "--json").succeeded().json_lines();
    assert_eq!(listed.len(), 1);
}

#[test]
fn an_import_that_fails_leaves_nothing_and_one_that_succeeds_a_whole_store() {
    let folder = tempdir().unwrap();
    let store = folder.path().join("deep/s.arrays");
    let good = npy(folder.path(), "a.npy", &[4, 6]);
    let bad = folder.path().join("b.npy");
    fs::write(&bad, b"no numbers").unwrap();
    iac!("arrays", "import", good, bad, "-o", store).ended_with(1);
    assert_eq!(fs::read_dir(folder.path().join("deep")).unwrap().count(), 0);
    // An empty folder is as good as none; one with something in it is not touched.
    let elsewhere = folder.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink(&elsewhere, &store).unwrap();
    #[cfg(not(unix))]
    fs::create_dir(&store).unwrap();
    iac!("arrays", "import", good, bad, "-o", store).ended_with(1);
    assert_eq!(fs::read_dir(&store).unwrap().count(), 0);
    iac!("arrays", "import", good, "-o", store).succeeded();
    #[cfg(unix)]
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 2);
    iac!("arrays", "verify", store).succeeded();
    iac!("arrays", "import", good, "-o", store, "--name", "again").succeeded();
    assert_eq!(iac!("arrays", "ls", store, "--json").succeeded().json_lines().len(), 2);
    let names: Vec<_> = fs::read_dir(folder.path().join("deep")).unwrap().collect();
    assert_eq!(names.len(), 1, "{names:?}");
    let other = folder.path().join("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("notes.txt"), "mine").unwrap();
    iac!("arrays", "import", good, "-o", other).ended_with(2);
    assert_eq!(fs::read_dir(&other).unwrap().count(), 1);
}

#[test]
fn infinite_extremes_are_told_and_threads_are_bounded() {
    let folder = tempdir().unwrap();
    let numbers = [f32::NEG_INFINITY, 1.0, f32::INFINITY, f32::NAN];
    let bytes = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    let data = ArrayData::from_bytes("float32".parse().unwrap(), &[4], bytes).unwrap();
    let file = folder.path().join("i.npy");
    fs::write(&file, convert::npy_bytes(&data).unwrap()).unwrap();
    let store = folder.path().join("s.arrays");
    iac!("arrays", "import", file, "-o", store).succeeded();
    let stats = iac!("arrays", "info", store, "i", "--json").succeeded().json();
    assert_eq!(stats["stats"]["min"], "-Infinity", "{stats}");
    assert_eq!(stats["stats"]["max"], "Infinity");
    iac!("arrays", "ls", store, "--workers", "3").succeeded();
    for workers in ["0", "1025", "18446744073709551615", "many"] {
        let run = iac!("arrays", "ls", store, "--workers", workers).ended_with(2);
        assert!(run.err.contains("1 to 1024"), "{}", run.err);
    }
}
