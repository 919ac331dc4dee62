//! Power that fails: what the system was asked to do, in order, and what may be left of it.
//!
//! A write that no `fsync` of its file followed may be lost, in whole or in part; a name that no
//! `fsync` of its folder followed may be the old one or the new one, whatever the order. So the old
//! file or the new one is there after a failure at any moment if (1) no file is written to while or
//! after it has a final name, (2) all that was written to a file is synced when it gets one, and
//! the new one is there once the command has ended if (3) its folder is synced then.

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;

use crate::writers::{Tree, WRITERS, Work, empty, is_temporary, old, put};

/// Calls that change files, or make that durable.
const CALLS: &str = "trace=open,openat,creat,write,writev,pwrite64,pwritev,pwritev2,sendfile,splice,\
                     copy_file_range,ftruncate,truncate,fallocate,ioctl,mmap,fsync,fdatasync,\
                     rename,renameat,renameat2,link,linkat,unlink,unlinkat,msync";

/// Everything between the n-th pair of `"`.
fn quoted(line: &str) -> Vec<&str> {
    line.split('"').skip(1).step_by(2).collect()
}

/// The path that strace shows behind a descriptor.
fn descriptor(line: &str, from: usize) -> Option<&str> {
    let text = line.get(from..)?;
    let start = text.find('<')? + 1;
    let end = text.get(start..)?.find(">")? + start;
    text.get(start..end)
}

/// What is wrong with the order of calls in a trace, for files of one folder.
pub fn faults(trace: &str, folder: &str) -> Vec<String> {
    let mut found = Vec::new();
    // Of each path: whether something was written that is not synced yet.
    let mut unsynced: HashMap<String, bool> = HashMap::new();
    let mut unsynced_folders: HashMap<String, String> = HashMap::new();
    // A call that another thread's interrupts is shown in two parts.
    let mut begun: HashMap<&str, String> = HashMap::new();
    let inside = |path: &str| path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'));
    let is_final = |path: &str| path.strip_prefix(folder).is_some_and(|rest| !is_temporary(rest));
    let parent = |path: &str| path.rsplit_once('/').map_or("", |(parent, _)| parent).to_owned();
    for line in trace.lines() {
        let Some((process, call)) = line.split_once(char::is_whitespace) else { continue };
        let call = call.trim_start();
        if let Some(first) = call.strip_suffix("<unfinished ...>") {
            begun.insert(process, first.to_owned());
            continue;
        }
        let whole = match call.strip_prefix("<... ") {
            Some(rest) => {
                let rest = rest.split_once("resumed>").map_or("", |(_, rest)| rest);
                begun.remove(process).unwrap_or_default() + rest
            }
            None => call.to_owned(),
        };
        let Some((name, arguments)) = whole.split_once('(') else { continue };
        let Some((arguments, result)) = arguments.rsplit_once(" = ") else { continue };
        if result.starts_with("-1") || result.starts_with('?') {
            continue;
        }
        let paths = quoted(arguments);
        match name {
            "open" | "openat" | "creat" => {
                let writes =
                    ["O_WRONLY", "O_RDWR", "O_TRUNC"].iter().any(|flag| arguments.contains(flag));
                let path = paths.first().copied().unwrap_or_default();
                if inside(path) && is_final(path) && (writes || name == "creat") {
                    found.push(format!("{path} is opened for writing under its final name"));
                }
                if inside(path) && arguments.contains("O_CREAT") {
                    unsynced.insert(path.to_owned(), true);
                }
            }
            "write" | "writev" | "pwrite64" | "pwritev" | "pwritev2" | "ftruncate"
            | "fallocate" | "sendfile" | "splice" | "copy_file_range" | "ioctl" | "mmap"
            | "msync" => {
                // The one that is written to is named first, but for copies.
                let at = match name {
                    "copy_file_range" => arguments
                        .find('>')
                        .and_then(|at| arguments.get(at..)?.find(", ").map(|it| it + at)),
                    _ => Some(0),
                };
                let Some(path) = at.and_then(|at| descriptor(arguments, at)) else { continue };
                let harmless = match name {
                    "mmap" => {
                        !(arguments.contains("MAP_SHARED") && arguments.contains("PROT_WRITE"))
                    }
                    "ioctl" => !arguments.contains("FICLONE"),
                    _ => false,
                };
                if harmless || !inside(path) {
                    continue;
                }
                if is_final(path) {
                    found.push(format!("{name} to {path}, which has its final name"));
                }
                unsynced.insert(path.to_owned(), true);
            }
            "truncate" => {
                if let Some(path) = paths.first().filter(|path| inside(path)) {
                    found.push(format!("{path} is truncated by its name"));
                }
            }
            "fsync" | "fdatasync" => {
                if let Some(path) = descriptor(arguments, 0) {
                    unsynced.insert(path.to_owned(), false);
                    unsynced_folders.remove(path);
                }
            }
            "rename" | "renameat" | "renameat2" | "link" | "linkat" => {
                let (Some(from), Some(to)) = (paths.first(), paths.last()) else { continue };
                if !inside(to) {
                    continue;
                }
                let dirty = unsynced.get(*from).copied().unwrap_or(false);
                if is_final(to) {
                    if dirty {
                        found.push(format!("{to} gets its name before its content is synced"));
                    }
                    unsynced_folders.insert(parent(to), (*to).to_owned());
                }
                unsynced.insert((*to).to_owned(), dirty);
            }
            "unlink" | "unlinkat" => {
                if let Some(path) = paths.last().filter(|path| inside(path) && is_final(path)) {
                    found.push(format!("{path} is removed"));
                }
            }
            _ => {}
        }
    }
    found.extend(
        unsynced_folders.values().map(|path| format!("the folder of {path} is not synced")),
    );
    found.sort();
    found.dedup();
    found
}

const ORDERLY: &str = r#"7  openat(AT_FDCWD</>, "/o/.a.x.part", O_RDWR|O_CREAT|O_EXCL|O_CLOEXEC, 0666) = 3</o/.a.x.part>
7  write(3</o/.a.x.part>, "\"\0"..., 64) = 64
8  copy_file_range(4</in/b>, NULL, 3</o/.a.x.part>, NULL, 9, 0 <unfinished ...>
7  fsync(9</in>) = 0
8  <... copy_file_range resumed>) = 9
7  fsync(3</o/.a.x.part>) = 0
7  rename("/o/.a.x.part", "/o/a.iac") = 0
7  fsync(4</o>) = 0
"#;

#[test]
fn calls_in_a_wrong_order_are_noticed() {
    assert!(faults(ORDERLY, "/o").is_empty(), "{:?}", faults(ORDERLY, "/o"));
    let lines: Vec<&str> = ORDERLY.lines().collect();
    let order = |numbers: &[usize]| -> Vec<String> {
        let text: String = numbers.iter().map(|at| format!("{}\n", lines[*at])).collect();
        faults(&text, "/o")
    };
    assert!(order(&[0, 1, 2, 3, 4, 6, 7])[0].contains("before its content"));
    assert!(order(&[0, 1, 5, 2, 3, 4, 6, 7])[0].contains("before its content"));
    assert!(order(&[0, 1, 2, 3, 4, 5, 6])[0].contains("folder"));
    assert!(order(&[0, 1, 2, 3, 4, 5, 7, 6])[0].contains("folder"));
    let after = ORDERLY.to_owned() + "7  pwrite64(3</o/a.iac>, \"\", 1, 0) = 1\n";
    assert!(faults(&after, "/o")[0].contains("final name"));
    let opened = "7  openat(AT_FDCWD</>, \"/o/a.iac\", O_WRONLY|O_TRUNC) = 3</o/a.iac>\n";
    assert!(faults(opened, "/o")[0].contains("opened for writing"));
}

#[test]
fn files_are_synced_before_they_get_their_names_and_folders_afterwards() {
    let work = Work::new();
    let log = work.folder.path().join("trace");
    let traced = |program: &[String]| {
        let mut strace = Command::new("strace");
        strace.args(["-f", "-y", "-s", "4096", "-e", CALLS, "-o"]).arg(&log).args(program);
        strace.output().is_ok_and(|output| output.status.success())
    };
    if !traced(&["true".to_owned()]) {
        println!("strace cannot be used here, this was not run");
        return;
    }
    let out = work.out().canonicalize().unwrap();
    let mut calls = 0;
    for writer in WRITERS.iter().filter(|writer| writer.makes_one_file()) {
        let new = work.written(writer);
        for before in [Tree::new(), old(&new)] {
            empty(&work.out());
            put(&work.out(), &before);
            let mut program = vec![work.start(writer).get_program().to_str().unwrap().to_owned()];
            program.extend(work.arguments_of(writer));
            assert!(traced(&program), "{}", writer.name);
            let trace = std::fs::read_to_string(&log).unwrap();
            assert!(trace.contains("rename") || trace.contains("link"), "{}", writer.name);
            calls += trace.lines().count();
            let found = faults(&trace, as_text(&out));
            assert!(found.is_empty(), "{}: {found:#?}", writer.name);
        }
    }
    println!("{calls} calls were looked at");
}

fn as_text(path: &Path) -> &str {
    path.to_str().unwrap()
}
