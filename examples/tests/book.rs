//! Keeps the promises of the book: its blocks of Rust are those that are run here, every page is in
//! its summary, and every link leads somewhere.

#[path = "book/blocks.rs"]
mod blocks;
mod common;

use std::collections::BTreeSet;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn pages() -> Vec<PathBuf> {
    let mut pages: Vec<PathBuf> = fs::read_dir(root().join("docs"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|suffix| suffix == "md"))
        .collect();
    pages.sort();
    pages
}

/// The blocks of one language on a page.
fn blocks_of(text: &str, language: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut open: Option<(bool, String)> = None;
    for line in text.lines() {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(name)) => open = Some((name == language, String::new())),
            (Some(_), Some(_)) => {
                if let Some((true, block)) = open.take() {
                    found.push(block);
                }
                open = None;
            }
            (Some((_, block)), None) => {
                block.push_str(line);
                block.push('\n');
            }
            (None, None) => {}
        }
    }
    found
}

/// Without what formatting changes: white space, comments, commas before a bracket that closes. What
/// is imported is not compared either, since the order of that changes too.
fn bare(code: &str) -> String {
    let mut bare = String::new();
    let mut importing = false;
    for line in code.lines() {
        let line = line.split("//").next().unwrap_or_default();
        // A URL is no comment.
        let line = if line.ends_with(':') { code_line_with_url(code, line) } else { line };
        importing |= line.trim_start().starts_with("use ");
        if !importing {
            bare.extend(line.chars().filter(|c| !c.is_whitespace()));
        }
        importing &= !line.trim_end().ends_with(';');
    }
    for (with, without) in [(",)", ")"), (",}", "}"), (",]", "]")] {
        bare = bare.replace(with, without);
    }
    bare
}

fn code_line_with_url<'a>(code: &'a str, start: &'a str) -> &'a str {
    let line = code.lines().find(|line| line.starts_with(start)).unwrap_or(start);
    line.split(" //").next().unwrap_or(line)
}

#[test]
fn every_block_of_rust_is_one_that_is_run() {
    let program = bare(include_str!("book/blocks.rs"));
    let mut count = 0;
    for page in pages().into_iter().chain([root().join("README.md")]) {
        for block in blocks_of(&fs::read_to_string(&page).unwrap(), "rust") {
            let wanted = bare(&block);
            assert!(program.contains(&wanted), "{}: not in blocks.rs:\n{block}", page.display());
            count += 1;
        }
    }
    assert!(count >= 12, "only {count} blocks were found");
}

#[test]
fn the_blocks_run() {
    // They name files relative to the current folder, which is that of the whole process: so they
    // run one after the other.
    type Page = fn(&Path) -> Result<(), Box<dyn Error>>;
    let pages: [(&str, Page); 9] = [
        ("README", |_| blocks::readme::main()),
        ("arrays", blocks::arrays),
        ("dicom", blocks::dicom),
        ("text", blocks::text),
        ("tiles", blocks::tiles),
        ("volumes", blocks::volumes),
        ("wsi", blocks::wsi),
        ("deidentification", blocks::deidentification),
        ("tutorial", blocks::tutorial),
    ];
    for (name, run) in pages {
        let folder = tempfile::tempdir().unwrap();
        std::env::set_current_dir(folder.path()).unwrap();
        run(folder.path()).unwrap_or_else(|error| panic!("{name}: {error}"));
        std::env::set_current_dir(root()).unwrap();
    }
}

#[test]
fn every_page_is_in_the_summary() {
    let summary = fs::read_to_string(root().join("docs/SUMMARY.md")).unwrap();
    let listed: BTreeSet<&str> = links(&summary).into_iter().collect();
    for page in pages() {
        let name = page.file_name().unwrap().to_str().unwrap();
        assert!(name == "SUMMARY.md" || listed.contains(name), "{name} is not in the summary");
    }
}

/// Where links of a page lead.
fn links(text: &str) -> Vec<&str> {
    text.split("](").skip(1).filter_map(|rest| rest.split(')').next()).collect()
}

/// The name that a heading can be linked by.
fn anchor(heading: &str) -> String {
    heading
        .trim_start_matches('#')
        .trim()
        .to_lowercase()
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

#[test]
fn every_link_leads_somewhere() {
    let root = root();
    let top = ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"];
    let mut count = 0;
    for page in pages().into_iter().chain(top.map(|name| root.join(name))) {
        let text = fs::read_to_string(&page).unwrap();
        // Code may look like a link.
        let prose: String = text.split("```").step_by(2).collect();
        for link in links(&prose) {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            let (path, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = match path {
                "" => page.clone(),
                path => page.parent().unwrap().join(path),
            };
            assert!(target.exists(), "{}: {link} leads nowhere", page.display());
            // What lies outside of the folder is not in the book that is made of it.
            assert!(
                !page.starts_with(root.join("docs")) || !path.contains(".."),
                "{}: {link} leads out of the book",
                page.display()
            );
            if !heading.is_empty() {
                let text = fs::read_to_string(&target).unwrap();
                let known = text.lines().filter(|line| line.starts_with('#')).map(anchor);
                assert!(
                    known.into_iter().any(|known| known == heading),
                    "{}: {link}: there is no such heading",
                    page.display()
                );
            }
            count += 1;
        }
    }
    assert!(count > 30, "only {count} links were found");
}
