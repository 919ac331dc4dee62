//! Carries out the commands of `docs/tutorial.md`, in their order, in an empty folder.
#![cfg(all(unix, feature = "jxl"))]
#![allow(clippy::unwrap_used, clippy::panic)]

use std::env;
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

#[test]
fn the_tutorial_works_as_it_stands() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/tutorial.md");
    let Ok(text) = std::fs::read_to_string(page) else {
        return; // a package without the rest of the repository
    };
    let folder = tempfile::tempdir().unwrap();
    let binaries = Path::new(env!("CARGO_BIN_EXE_iac")).parent().unwrap().to_owned();
    let mut path = OsString::from(binaries);
    path.push(":");
    path.push(env::var_os("PATH").unwrap_or_default());
    let mut is_shell = false;
    let mut count = 0;
    for line in text.lines() {
        if let Some(language) = line.strip_prefix("```") {
            is_shell = language == "sh";
            continue;
        }
        if !is_shell {
            continue;
        }
        let code = line.split_once("# exits with ").map_or(0, |(_, code)| code.parse().unwrap());
        let output = Command::new("sh")
            .args(["-c", line])
            .current_dir(folder.path())
            .env("PATH", &path)
            .output()
            .unwrap();
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{line}\n{complaint}");
        count += 1;
    }
    assert!(count > 10, "only {count} commands were found");
    for made in ["thumbnail.png", "region.png", "sheet.png", "chest.nii.gz"] {
        assert!(folder.path().join(made).exists(), "{made} is missing");
    }
}
