//! Every command that writes, killed, without room, without permission, overtaken by another:
//! what stands under a final name is the old file or the new one.
//!
//! `IAC_SOAK_KILLS` is the number of kills, 60 unless it is set; `make soak` takes more.
#![cfg(all(
    target_os = "linux",
    feature = "tiles",
    feature = "features",
    feature = "text",
    feature = "dicom",
    feature = "wsi-import",
    feature = "arrays",
    feature = "object-store",
    feature = "jxl"
))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    clippy::print_stdout,
    unreachable_pub
)]

#[path = "../common/mod.rs"]
mod common;
mod power;
mod writers;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use writers::{Tree, WRITERS, Work, Writer, empty, is_temporary, old, put, tree};

const SIGKILL: i32 = 9;

/// A number that looks random and is the same each time.
fn mixed(seed: u64) -> u64 {
    let mut state = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}

/// Whether a folder holds old or new files and temporary names, and no old one is missing.
#[track_caller]
fn old_or_new(folder: &Path, old: &Tree, new: &Tree, what: &str) -> bool {
    let found = tree(folder);
    for (name, content) in &found {
        assert!(
            is_temporary(name) || old.get(name) == Some(content) || new.get(name) == Some(content),
            "{what}: {name} is neither old nor new, {} bytes",
            content.len()
        );
    }
    for name in old.keys() {
        assert!(found.contains_key(name), "{what}: {name} is gone");
    }
    found.keys().any(|name| is_temporary(name))
}

fn wait_for_a_temporary_name(folder: &Path, child: &mut Child) {
    while child.try_wait().unwrap().is_none() {
        if fs::read_dir(folder).is_ok_and(|mut entries| entries.any(|entry| entry.is_ok())) {
            return;
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}

#[test]
fn writers_that_are_killed_leave_the_old_files_or_the_new_ones() {
    let wanted = std::env::var("IAC_SOAK_KILLS").ok().and_then(|kills| kills.parse().ok());
    let each = wanted.unwrap_or(60_usize).div_ceil(WRITERS.len());
    let work = Work::new();
    let (mut all, mut unfinished, mut finished) = (0, 0, 0);
    for (number, writer) in WRITERS.iter().enumerate() {
        let new = work.undisturbed(writer);
        let start = Instant::now();
        assert!(work.undisturbed(writer) == new, "{}: two runs differ", writer.name);
        let usual = start.elapsed().as_micros() as u64;
        let (mut killed, mut round) = (0, 0_u64);
        while killed < each && round < 6 * each as u64 + 6 {
            let random = mixed(number as u64 * 1_000_003 + round);
            let before = if writer.replaces() && random & 1 == 0 { old(&new) } else { Tree::new() };
            empty(&work.out());
            put(&work.out(), &before);
            let mut child = work.start(writer).stderr(Stdio::null()).spawn().unwrap();
            // One half at any moment, the other while there is a temporary file.
            let wait = if random & 2 == 0 || !before.is_empty() {
                (random >> 8) % (usual + usual / 8)
            } else {
                wait_for_a_temporary_name(&work.out(), &mut child);
                (random >> 8) % (usual / 3 + 1)
            };
            std::thread::sleep(Duration::from_micros(wait));
            child.kill().unwrap();
            let status = child.wait().unwrap();
            let what = format!("{} after {wait} us (round {round})", writer.name);
            let left = old_or_new(&work.out(), &before, &new, &what);
            round += 1;
            if status.signal() == Some(SIGKILL) {
                killed += 1;
                unfinished += usize::from(left);
                finished += usize::from(
                    tree(&work.out()).iter().any(|file| new.get(file.0) == Some(file.1)),
                );
            }
            // What is left does not disturb the next run, and packs take it away.
            if round % 5 == 0 && (writer.replaces() || tree(&work.out()).is_empty()) {
                common::iac(work.arguments_of(writer)).succeeded();
                let mut found = tree(&work.out());
                if !writer.makes_packs() {
                    found.retain(|name, _| !is_temporary(name));
                }
                assert!(found == new, "{what}: {:?}", found.keys());
            }
        }
        assert!(killed * 2 >= each, "{}: {killed} kills of {round}", writer.name);
        all += killed;
    }
    println!(
        "{all} kills over {} writers: {unfinished} left temporary files, {finished} came when new files were there",
        WRITERS.len()
    );
}

/// Runs a writer under a limit of the size of files, as on a disk that is full.
fn with_limit(work: &Work, writer: &Writer, blocks: u64) -> std::process::Output {
    let plain = work.start(writer);
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$@\""), "sh"]);
    shell.arg(plain.get_program()).args(plain.get_args());
    shell.stdin(Stdio::null()).output().unwrap()
}

/// After a failure the folder is as before, where the writer makes one file; else each file is.
#[track_caller]
fn failed_cleanly(
    work: &Work,
    before: &Tree,
    new: &Tree,
    output: &std::process::Output,
    what: &str,
) {
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{what}: {error}");
    let left = old_or_new(&work.out(), before, new, what);
    assert!(!left, "{what}: {:?}", tree(&work.out()).keys());
    if new.len() == 1 {
        assert!(tree(&work.out()) == *before, "{what}");
    }
}

#[test]
fn writers_without_room_leave_the_old_files_and_nothing_else() {
    let work = Work::new();
    for writer in WRITERS {
        let new = work.written(writer);
        let largest = new.values().map(Vec::len).max().unwrap() as u64;
        for percent in [0, 35, 95] {
            let before = if writer.replaces() { old(&new) } else { Tree::new() };
            empty(&work.out());
            put(&work.out(), &before);
            // In blocks of 512 bytes, and less than the largest file needs.
            let blocks = (largest - 1) / 512 * percent / 100;
            let output = with_limit(&work, writer, blocks);
            let what = format!("{} with files of {blocks} blocks", writer.name);
            failed_cleanly(&work, &before, &new, &output, &what);
        }
    }
}

/// For `make soak`: mounts small file systems, which root alone may.
#[test]
#[ignore = "mounts file systems"]
fn writers_on_a_full_file_system_leave_the_old_files_and_nothing_else() {
    let work = Work::new();
    let mounted = |size: u64| {
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={size}"), "none"]).arg(work.out());
        mount.status().is_ok_and(|status| status.success())
    };
    let unmount = || assert!(Command::new("umount").arg(work.out()).status().unwrap().success());
    let mut failures = 0;
    for writer in WRITERS {
        let new = work.written(writer);
        let before = if writer.replaces() { old(&new) } else { Tree::new() };
        let pages =
            |files: &Tree| files.values().map(|it| it.len().div_ceil(4096) as u64).sum::<u64>();
        for percent in [0, 20, 50, 80, 99] {
            empty(&work.out());
            let room = pages(&before) + pages(&new) * percent / 100;
            if !mounted(room.max(1) * 4096) {
                println!("no file system can be mounted here, this was not run");
                return;
            }
            put(&work.out(), &before);
            let output = work.start(writer).output().unwrap();
            let what = format!("{} with {room} pages", writer.name);
            if output.status.success() {
                // Files that replace others one by one give back room.
                assert!(tree(&work.out()) == new, "{what}");
            } else {
                failed_cleanly(&work, &before, &new, &output, &what);
                failures += 1;
            }
            unmount();
        }
    }
    println!("{failures} runs on a full file system");
}

#[test]
fn writers_without_permission_say_so_and_leave_everything() {
    let work = Work::new();
    let mode = |path: &Path, mode: u32| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    mode(work.folder.path(), 0o755);
    mode(work.inputs.path(), 0o755);
    // Root may write everywhere, so it becomes somebody else.
    let user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"];
    let probe = work.start(&WRITERS[0]);
    let can_change = Command::new(user[0])
        .args(&user[1..])
        .arg(probe.get_program())
        .arg("--version")
        .output()
        .is_ok_and(|output| output.status.success());
    let is_root = rustix::process::geteuid().is_root();
    if is_root && !can_change {
        println!("there is nobody else to be here, this was not run");
        return;
    }
    for writer in WRITERS {
        let new = work.written(writer);
        let before = if writer.replaces() { old(&new) } else { Tree::new() };
        empty(&work.out());
        put(&work.out(), &before);
        for folder in new.keys().filter_map(|name| Path::new(name).parent()) {
            let folder = work.out().join(folder);
            if folder.exists() {
                mode(&folder, 0o555);
            }
        }
        mode(&work.out(), 0o555);
        let plain = work.start(writer);
        let output = if is_root {
            let mut other = Command::new(user[0]);
            other.args(&user[1..]).arg(plain.get_program()).args(plain.get_args());
            other.current_dir("/").output().unwrap()
        } else {
            work.start(writer).output().unwrap()
        };
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{}: {error}", writer.name);
        assert!(tree(&work.out()) == before, "{}", writer.name);
        mode(&work.out(), 0o755);
        for folder in new.keys().filter_map(|name| Path::new(name).parent()) {
            let folder = work.out().join(folder);
            if folder.exists() {
                mode(&folder, 0o755);
            }
        }
    }
}

#[test]
fn whoever_makes_a_file_while_a_writer_works_keeps_it() {
    let work = Work::new();
    let (mut kept, mut late) = (0, 0);
    for writer in WRITERS {
        let new = work.written(writer);
        let name = new.keys().next().unwrap();
        let place = work.out().join(name);
        // Writers of folders make these at the end; a file inside would be their own business.
        if place.parent() != Some(&work.out()) {
            continue;
        }
        empty(&work.out());
        let mut command = common::command();
        command.args(work.arguments_of(writer).iter().filter(|word| *word != "--overwrite"));
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        wait_for_a_temporary_name(&work.out(), &mut child);
        let made = fs::File::create_new(&place)
            .and_then(|mut file| std::io::Write::write_all(&mut file, b"theirs"));
        let output = child.wait_with_output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        if made.is_ok() {
            assert_eq!(output.status.code(), Some(2), "{}: {error}", writer.name);
            assert_eq!(fs::read(&place).unwrap(), b"theirs", "{}", writer.name);
            kept += 1;
        } else {
            assert!(output.status.success(), "{}: {error}", writer.name);
            assert!(fs::read(&place).unwrap() == new[name], "{}", writer.name);
            late += 1;
        }
        assert!(!tree(&work.out()).keys().any(|name| is_temporary(name)), "{}", writer.name);
    }
    println!("{kept} files that came meanwhile were kept, {late} came too late");
    assert!(kept > 5, "{kept}");
}
