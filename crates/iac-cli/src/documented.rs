//! Whether the commands in the documentation can be written as they stand there.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Parser;

use crate::cli::Cli;

/// Commands of the shell blocks of a page.
fn shell_lines(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut is_shell = false;
    for line in text.lines() {
        if let Some(language) = line.trim_start().strip_prefix("```") {
            is_shell = !is_shell && matches!(language, "sh" | "console");
        } else if is_shell {
            lines.push(line.to_owned());
        }
    }
    lines
}

/// The commands of a line, each as its words. Knows as much of a shell as the documentation uses:
/// quotes, comments, pipes, redirections and lists of commands.
fn commands(line: &str) -> Vec<Vec<String>> {
    let mut found = vec![Vec::new()];
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut skip_word = false;
    let end = |word: &mut Option<String>, skip: &mut bool, found: &mut Vec<Vec<String>>| {
        if let (Some(word), Some(command)) = (word.take(), found.last_mut())
            && !std::mem::take(skip)
        {
            command.push(word);
        }
    };
    for next in line.chars() {
        match (quote, next) {
            (Some(open), next) if open == next => quote = None,
            (Some(_), next) => word.get_or_insert_default().push(next),
            (None, '"' | '\'') => {
                quote = Some(next);
                word.get_or_insert_default();
            }
            (None, ' ') => end(&mut word, &mut skip_word, &mut found),
            (None, '#') if word.is_none() => break,
            (None, '>' | '<') => {
                end(&mut word, &mut skip_word, &mut found);
                skip_word = true;
            }
            (None, '|' | ';' | '&') => {
                end(&mut word, &mut skip_word, &mut found);
                found.push(Vec::new());
            }
            (None, next) => word.get_or_insert_default().push(next),
        }
    }
    end(&mut word, &mut skip_word, &mut found);
    found
}

#[test]
fn lines_are_taken_apart_as_a_shell_does() {
    let found = commands(
        "iac ls x.iac --where \"a > 4 and b = 'c d'\" > o.txt && head -c 3 | iac cat  # why",
    );
    let expected: [&[&str]; 4] = [
        &["iac", "ls", "x.iac", "--where", "a > 4 and b = 'c d'"],
        &[],
        &["head", "-c", "3"],
        &["iac", "cat"],
    ];
    assert_eq!(found, expected);
}

#[test]
fn every_documented_command_can_be_written() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let Ok(pages) = fs::read_dir(root.join("docs")) else {
        return; // a package without the rest of the repository
    };
    let pages = pages.map(|entry| entry.unwrap().path());
    let pages: Vec<PathBuf> =
        pages.filter(|path| path.extension().is_some_and(|suffix| suffix == "md")).collect();
    let mut count = 0_usize;
    for page in pages.into_iter().chain([root.join("README.md")]) {
        for line in shell_lines(&fs::read_to_string(&page).unwrap()) {
            for command in commands(&line) {
                if command.first().is_some_and(|name| name == "iac") {
                    let place = page.display();
                    if let Err(error) = Cli::try_parse_from(&command) {
                        assert!(!error.use_stderr(), "{place}: {line}\n{error}");
                    }
                    count = count.saturating_add(1);
                }
            }
        }
    }
    assert!(count > 40, "only {count} commands were found");
}
