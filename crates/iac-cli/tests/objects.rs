//! Commands on packs that lie on a web server.
#![cfg(feature = "object-store")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, missing_docs)]
#![allow(clippy::cast_possible_truncation, clippy::arithmetic_side_effects)]

mod common;
#[path = "../../iac-reader/tests/common/server.rs"]
#[allow(dead_code)]
mod server;

use common::iac;
use server::{Answer, Object, Server};

/// A pack of files, here and on a server.
fn serving(folder: &std::path::Path) -> (Server, String, std::path::PathBuf) {
    let files = folder.join("files");
    std::fs::create_dir(&files).unwrap();
    for n in 0..50 {
        std::fs::write(files.join(format!("{n:02}.txt")), format!("note {n} ").repeat(50)).unwrap();
    }
    let pack = folder.join("notes.iac");
    iac!["pack", "raw", &files, "-o", &pack].succeeded();
    let server = Server::start();
    server.put("a/notes.iac", Object::new(&std::fs::read(&pack).unwrap(), "one"));
    let url = server.url("a/notes.iac");
    (server, url, pack)
}

#[test]
fn reading_commands_take_urls() {
    let folder = tempfile::tempdir().unwrap();
    let (server, url, pack) = serving(folder.path());
    let local = format!("file://{}", pack.display());
    for arguments in [
        &["info", "PACK", "--json"][..],
        &["ls", "PACK", "--json"],
        &["cat", "PACK", "--rows", "3,7"],
        &["decode", "PACK", "--rows", "0..5", "--format", "raw"],
        &["digest", "PACK", "--json"],
        &["stats", "PACK", "--json"],
        &["verify", "PACK", "--json"],
    ] {
        let run = |place: &str| {
            let arguments = arguments.iter().map(|word| if *word == "PACK" { place } else { word });
            let text = String::from_utf8(iac(arguments).succeeded().out).unwrap();
            text.replace(place, "PACK").replace(&*pack.to_string_lossy(), "PACK")
        };
        server.log();
        let there = run(&url);
        assert!(server.log().len() < 8, "{arguments:?}");
        assert_eq!(run(&pack.to_string_lossy()), there, "{arguments:?}");
        assert_eq!(run(&local), there, "{arguments:?}");
    }
    let out = folder.path().join("subset.iac");
    iac!["subset", &url, "--rows", "1,2", "-o", &out].succeeded();
    let dir = folder.path().join("out");
    iac!["extract", &url, "--dir", &dir, "--rows", "5"].succeeded();
    let saved = folder.path().join("saved.iac");
    iac!["salvage", &url, "-o", &saved].succeeded();
}

#[test]
fn a_server_that_fails_is_a_failure_of_the_system() {
    let folder = tempfile::tempdir().unwrap();
    let (server, url, _) = serving(folder.path());
    let missing = iac!["info", server.url("nothing.iac"), "--json"].ended_with(3);
    let error = missing.json_error();
    assert_eq!((error["kind"].as_str(), error["path"].as_str().is_some()), (Some("io"), true));
    server.always(Answer::Status(403, "no"));
    let refused = iac!["cat", &url, "--rows", "1"].ended_with(3);
    assert!(refused.err.contains("refuses access"), "{}", refused.err);
    iac!["info", "s3://bucket"].ended_with(3);
}

#[test]
fn packs_are_copied_and_compared() {
    let folder = tempfile::tempdir().unwrap();
    let (server, url, pack) = serving(folder.path());
    let to = folder.path().join("copies");
    let target = format!("{}/", to.display());
    let copied = iac!["cp", &url, &target, "--json"].succeeded().json();
    let copy = to.join("notes.iac");
    assert_eq!(std::fs::read(&copy).unwrap(), std::fs::read(&pack).unwrap());
    assert_eq!((copied["rows"].as_u64(), copied["to"].as_str()), (Some(50), copy.to_str()));
    assert_eq!(copied["sha256"], common::sha256(&std::fs::read(&pack).unwrap()));
    iac!["cp", &url, &target].ended_with(2);
    iac!["cp", &url, &target, "--overwrite"].succeeded();
    // This server only reads.
    iac!["cp", &pack, server.url("b.iac")].ended_with(3);
    iac!["cp", &pack, "ftp://host/b.iac"].ended_with(2);
    // What arrives damaged does not arrive.
    let mut bytes = std::fs::read(&pack).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    server.put("a/notes.iac", Object::new(&bytes, "two"));
    let other = folder.path().join("damaged.iac");
    iac!["cp", &url, &other].ended_with(1);
    assert!(!other.exists());
    iac!["cp", &url, &other, "--unchecked"].succeeded();
    assert_eq!(std::fs::read(&other).unwrap(), bytes);
    let left = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(left, 4, "files, pack, copies, damaged copy");
}
