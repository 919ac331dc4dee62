//! Documents with tables that are made here.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::manifest::root;

/// Where the tables are rewritten instead of compared, when it is set.
const REWRITE: &str = "IAC_REWRITE_TABLES";

/// Held while documents are read and written: several tests have tables in one of them.
static TURN: Mutex<()> = Mutex::new(());

/// Pages, and the first pages of crates.
fn documents() -> Vec<PathBuf> {
    let mut found = vec![root().join("README.md")];
    for entry in fs::read_dir(root().join("docs")).unwrap() {
        found.push(entry.unwrap().path());
    }
    for entry in fs::read_dir(root().join("crates")).unwrap() {
        let folder = entry.unwrap().path();
        found.extend([folder.join("src/lib.rs"), folder.join("README.md")]);
    }
    found.retain(|path| path.is_file());
    found.sort();
    found
}

/// Compares the tables whose opening comment starts with a word, or rewrites them: `table` makes one
/// from the rest of the comment. Gives the documents that have one, each with that rest.
pub fn hold(word: &str, table: impl Fn(&str) -> String) -> Vec<(PathBuf, String)> {
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let mut found = Vec::new();
    let mut outdated = Vec::new();
    for path in documents() {
        let text = fs::read_to_string(&path).unwrap();
        let wanted = with_tables(&path, &text, word, &table, &mut found);
        if wanted == text {
            continue;
        }
        if std::env::var_os(REWRITE).is_some() {
            fs::write(&path, wanted).unwrap();
        } else {
            outdated.push(path.strip_prefix(root()).unwrap().display().to_string());
        }
    }
    drop(turn);
    assert!(outdated.is_empty(), "out of date, `make tables` renews them: {}", outdated.join(", "));
    found
}

fn with_tables(
    path: &Path,
    text: &str,
    word: &str,
    table: &impl Fn(&str) -> String,
    found: &mut Vec<(PathBuf, String)>,
) -> String {
    let mut wanted = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        wanted.push_str(line);
        wanted.push('\n');
        let (prefix, rest) = match line.strip_prefix("//! ") {
            Some(rest) => ("//! ", rest),
            None => ("", line),
        };
        let comment = rest.strip_prefix("<!-- ").and_then(|rest| rest.strip_suffix(" -->"));
        let Some(about) = comment.and_then(|comment| comment.strip_prefix(word)) else {
            continue;
        };
        found.push((path.to_owned(), about.trim().to_owned()));
        let bare = prefix.trim_end();
        wanted.push_str(&format!("{bare}\n"));
        for line in table(about.trim()).lines() {
            wanted.push_str(&format!("{prefix}{line}\n"));
        }
        let end = format!("{prefix}<!-- end -->");
        wanted.push_str(&format!("{bare}\n{end}\n"));
        assert!(lines.any(|line| line == end), "{}: a table has no end", path.display());
    }
    wanted
}
