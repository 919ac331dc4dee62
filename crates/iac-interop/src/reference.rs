//! Runs the reference packages.

use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use serde_json::Value;

/// The root of the repository.
#[must_use]
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .expect("the crate lies two folders below the root")
}

/// The Python of the environment with the reference packages, made on first use.
///
/// # Panics
///
/// When the environment cannot be made.
pub fn python() -> &'static Path {
    static PYTHON: OnceLock<PathBuf> = OnceLock::new();
    PYTHON.get_or_init(|| {
        let output = Command::new(repository().join("scripts/reference-env.sh"))
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .output()
            .expect("scripts/reference-env.sh runs");
        assert!(
            output.status.success(),
            "the environment with the reference packages could not be made"
        );
        let path = String::from_utf8(output.stdout).expect("its path is text");
        PathBuf::from(path.trim_end())
    })
}

/// Runs one of the scripts in `python/` and returns its standard output.
///
/// # Panics
///
/// When the script fails.
pub fn run<A: AsRef<OsStr>>(script: &str, arguments: &[A], input: &str) -> String {
    let mut child = Command::new(python())
        // Bytecode files would lie in the source tree.
        .arg("-B")
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("python").join(script))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .expect("python starts");
    // The scripts read their input line by line while they print, so write it from aside.
    let mut stdin = child.stdin.take().expect("standard input is piped");
    let input = input.to_owned();
    let feeder = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output().expect("python ends");
    let fed = feeder.join().expect("the feeder does not panic");
    assert!(output.status.success(), "{script}: {}", output.status);
    fed.expect("the script reads all of its input");
    String::from_utf8(output.stdout).expect("the script prints text")
}

/// Runs a script that prints one JSON value per line.
///
/// # Panics
///
/// When the script fails or prints something else.
pub fn run_json<A: AsRef<OsStr>>(script: &str, arguments: &[A], input: &str) -> Vec<Value> {
    run(script, arguments, input)
        .lines()
        .map(|line| serde_json::from_str(line).expect("the script prints JSON"))
        .collect()
}

/// What the reference sees in each of these files (`python/read_pack.py`), in the same order.
///
/// # Panics
///
/// When the reference cannot be run. That it cannot read a file is part of what it sees.
pub fn look<P: AsRef<Path>>(paths: &[P]) -> Vec<Value> {
    let mut input = String::new();
    for path in paths {
        input.push_str(path.as_ref().to_str().expect("test paths are text"));
        input.push('\n');
    }
    let seen = run_json::<&str>("read_pack.py", &[], &input);
    assert_eq!(seen.len(), paths.len(), "one line for each file");
    seen
}

/// A pack that the reference wrote, and what has to be found in it (`python/write_packs.py`).
#[derive(Debug)]
pub struct ReferencePack {
    /// The name of its case.
    pub name: String,
    /// Where it lies.
    pub path: PathBuf,
    /// What it holds.
    pub expected: Value,
}

/// Has the reference write all its packs into `folder`.
///
/// # Panics
///
/// When the reference cannot be run.
#[must_use]
pub fn write_packs(folder: &Path) -> Vec<ReferencePack> {
    let names = run("write_packs.py", &[folder], "");
    let packs: Vec<ReferencePack> = names
        .lines()
        .map(|name| {
            let text = std::fs::read_to_string(folder.join(format!("{name}.json")))
                .expect("each pack has its description");
            ReferencePack {
                name: name.to_owned(),
                path: folder.join(format!("{name}.iac")),
                expected: serde_json::from_str(&text).expect("the description is JSON"),
            }
        })
        .collect();
    assert!(packs.len() > 100, "only {} packs were written", packs.len());
    packs
}
