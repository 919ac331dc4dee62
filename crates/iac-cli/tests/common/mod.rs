//! What the test files share: running the command, golden files, small packs.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    clippy::expect_used
)]

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use sha2::{Digest, Sha256};

/// What a run of the command gave.
pub struct Run {
    pub code: i32,
    pub out: Vec<u8>,
    pub err: String,
}

impl Run {
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.out).unwrap()
    }

    pub fn lines(&self) -> Vec<&str> {
        self.text().lines().collect()
    }

    /// Standard output as one JSON document.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.out).unwrap_or_else(|error| {
            panic!("{error}: {:?} / {:?}", String::from_utf8_lossy(&self.out), self.err)
        })
    }

    /// Standard output as JSON lines.
    pub fn json_lines(&self) -> Vec<Value> {
        self.lines().iter().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The JSON object of an error, which must be all that is on standard error.
    pub fn json_error(&self) -> Value {
        let value: Value = serde_json::from_str(self.err.trim_end())
            .unwrap_or_else(|error| panic!("{error}: {:?}", self.err));
        value["error"].clone()
    }

    #[track_caller]
    pub fn succeeded(self) -> Self {
        assert_eq!(self.code, 0, "{}", self.err);
        self
    }

    #[track_caller]
    pub fn ended_with(self, code: i32) -> Self {
        assert_eq!(
            self.code,
            code,
            "stdout {:?}, stderr {:?}",
            String::from_utf8_lossy(&self.out),
            self.err
        );
        self
    }
}

pub fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_iac"));
    command.stdin(Stdio::null());
    command
}

pub fn iac<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Run {
    let output = command().args(arguments).output().unwrap();
    Run {
        code: output.status.code().expect("killed by a signal"),
        out: output.stdout,
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Runs the command with arguments of different types.
#[macro_export]
macro_rules! iac {
    ($($argument:expr),* $(,)?) => {
        $crate::common::iac([$(std::ffi::OsString::from(&$argument)),*])
    };
}

/// A folder of golden files: `container` or `malformed`.
pub fn data_dir(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../iac-reader/tests/data").join(folder)
}

pub fn golden(name: &str) -> PathBuf {
    data_dir("container").join(format!("{name}.iac"))
}

pub fn malformed(name: &str) -> PathBuf {
    data_dir("malformed").join(format!("{name}.iac"))
}

pub fn golden_json(name: &str) -> Value {
    read_json(&data_dir("container").join(format!("{name}.json")))
}

pub fn golden_names() -> Vec<String> {
    let names = read_json(&data_dir("container").join("INDEX.json"));
    let names: Vec<String> =
        names.as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned()).collect();
    assert!(names.len() > 20);
    names
}

pub fn read_json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// Every case of `PATCHED.json`, made in a folder: its name and path.
pub fn patched(folder: &Path) -> Vec<(String, PathBuf)> {
    let cases = read_json(&data_dir("malformed").join("PATCHED.json"));
    let splice = |part: &[u8], patch: &Value| {
        let number = |name: &str| usize::try_from(patch[name].as_u64().unwrap()).unwrap();
        let mut bytes = part[..number("keep_prefix")].to_vec();
        bytes.extend(hex(patch["insert_hex"].as_str().unwrap()));
        bytes.extend(&part[part.len() - number("keep_suffix")..]);
        bytes
    };
    let cases = cases.as_array().unwrap().iter().map(|case| {
        let name = case["name"].as_str().unwrap();
        let base = fs::read(malformed(case["base"].as_str().unwrap())).unwrap();
        let (head, tail) = base.split_at(65_536);
        let mut bytes = splice(head, &case["patch"]["head"]);
        bytes.extend(splice(tail, &case["patch"]["tail"]));
        assert_eq!(sha256(&bytes), case["file_sha256"].as_str().unwrap(), "{name}");
        let path = folder.join(format!("{name}.iac"));
        fs::write(&path, bytes).unwrap();
        (name.to_owned(), path)
    });
    cases.collect()
}

pub fn patched_case(folder: &Path, wanted: &str) -> PathBuf {
    patched(folder).into_iter().find(|(name, _)| name == wanted).unwrap().1
}

pub fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        text.chars().map(|digit| u8::try_from(digit.to_digit(16).unwrap()).unwrap()).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Folders and files, as (path, content).
pub fn make_files(folder: &Path, files: &[(&str, &[u8])]) {
    for (name, content) in files {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
}

/// A pack of three small files: `a.txt` (5 bytes), `b/c.txt` (0 bytes), `d.bin` (300 bytes).
pub fn small_pack(folder: &Path) -> PathBuf {
    let sources = folder.join("sources");
    let long: Vec<u8> = (0..300_u32).map(|i| (i % 251) as u8).collect();
    make_files(&sources, &[("a.txt", b"hello"), ("b/c.txt", b""), ("d.bin", &long)]);
    let pack = folder.join("small.iac");
    iac!("pack", "raw", sources, "-o", pack, "--recursive").succeeded();
    pack
}

/// Everything in a folder, hidden names too.
pub fn names_in(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}
