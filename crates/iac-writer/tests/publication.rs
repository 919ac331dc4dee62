//! A pack appears whole under its name, or not at all.
#![cfg(unix)]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::arithmetic_side_effects
)]

mod common;

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, Instant};

use common::{Pack, child, child_after, child_argument, header, items, names_in, run};
use iac_format::ErrorKind;
use iac_writer::{
    PackWriter, WriteError, WriteOptions, WriteSummary, build_pack, build_pack_streaming,
};

fn quick() -> WriteOptions {
    WriteOptions::new().sync(false)
}

fn write(path: &Path, payload: &str, options: &WriteOptions) -> Result<WriteSummary, WriteError> {
    build_pack(path, &header(), &items(1), &items(1), &[payload], options)
}

/// Streams one payload; `meanwhile` runs before it comes.
fn write_while(
    path: &Path,
    options: &WriteOptions,
    meanwhile: impl FnOnce(),
) -> Result<WriteSummary, WriteError> {
    let payloads = std::iter::once_with(|| {
        meanwhile();
        Ok::<_, io::Error>("new")
    });
    build_pack_streaming(path, &header(), &items(1), &items(1), payloads, options)
}

#[test]
fn an_existing_file_is_refused_before_any_work() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.iac");
    fs::write(&path, "old").unwrap();
    let link = folder.path().join("link.iac");
    symlink(&path, &link).unwrap();
    for path in [&path, &link, &folder.path().to_owned()] {
        let error = write_while(path, &quick(), || panic!("no payload is needed")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Exists);
        assert_eq!(error.path(), Some(path.as_path()));
    }
    assert_eq!(fs::read(&path).unwrap(), b"old");
    assert_eq!(names_in(folder.path()), ["a.iac", "link.iac"]);
}

#[test]
fn a_dangling_link_is_noticed_at_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let link = folder.path().join("link.iac");
    symlink("nowhere", &link).unwrap();
    let error = write(&link, "new", &quick()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exists);
    assert_eq!(names_in(folder.path()), ["link.iac"]);
}

#[test]
fn whoever_creates_the_file_meanwhile_wins() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.iac");
    let error = write_while(&path, &quick(), || fs::write(&path, "theirs").unwrap()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exists);
    assert_eq!(fs::read(&path).unwrap(), b"theirs");
    assert_eq!(names_in(folder.path()), ["a.iac"]);
}

#[test]
fn an_old_file_stays_whole_until_it_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.iac");
    write(&path, "old", &WriteOptions::new()).unwrap();
    let before = fs::read(&path).unwrap();
    let mut open = File::open(&path).unwrap();
    let options = WriteOptions::new().overwrite(true);
    write_while(&path, &options, || assert!(fs::read(&path).unwrap() == before)).unwrap();
    assert_eq!(Pack::read(&path).records(), ["new"]);
    let mut seen = Vec::new();
    open.read_to_end(&mut seen).unwrap();
    assert!(seen == before, "an open file keeps its content");

    let failing = std::iter::once(Err::<&str, _>(io::Error::other("stop")));
    build_pack_streaming(&path, &header(), &items(1), &items(1), failing, &options).unwrap_err();
    assert_eq!(Pack::read(&path).records(), ["new"]);
    assert_eq!(names_in(folder.path()), ["a.iac"]);
}

#[test]
fn overwriting_replaces_a_link_and_not_what_it_points_to() {
    let folder = tempfile::tempdir().unwrap();
    let (file, link) = (folder.path().join("file"), folder.path().join("a.iac"));
    fs::write(&file, "other").unwrap();
    symlink(&file, &link).unwrap();
    write(&link, "new", &quick().overwrite(true)).unwrap();
    assert!(fs::symlink_metadata(&link).unwrap().is_file());
    assert_eq!(fs::read(&file).unwrap(), b"other");
}

#[test]
fn pipes_devices_and_links_to_them_are_never_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let (to_pipe, to_device) = (folder.path().join("to-pipe"), folder.path().join("to-device"));
    symlink(&pipe, &to_pipe).unwrap();
    symlink("/dev/null", &to_device).unwrap();
    for path in [&pipe, &to_pipe, &to_device] {
        let error = write(path, "new", &quick().overwrite(true)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
        assert!(error.to_string().contains("no regular file"), "{error}");
        assert!(!fs::symlink_metadata(path).unwrap().is_file());
    }
    assert_eq!(names_in(folder.path()), ["pipe", "to-device", "to-pipe"]);
}

#[test]
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
fn a_forked_child_cannot_write_into_its_parents_pack() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.iac");
    let mut writer =
        PackWriter::with_index(&path, header(), &items(1), &items(2), &quick()).unwrap();
    writer.push("one").unwrap();
    // SAFETY: the child tries what it must not, and leaves with `_exit`.
    let status = unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::alarm(60);
            let refused = writer.push("child").is_err() && writer.finish().is_err();
            libc::_exit(i32::from(!refused));
        }
        let mut status = 0;
        assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
        status
    };
    assert_eq!(status, 0, "the child could write");
    writer.push("two").unwrap();
    writer.finish().unwrap();
    assert_eq!(Pack::read(&path).records(), ["one", "two"]);
}

#[test]
fn folders_are_created_but_never_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x/y/a.iac");
    write(&path, "new", &WriteOptions::new()).unwrap();
    assert_eq!(Pack::read(&path).records(), ["new"]);

    let error = write(&folder.path().join("x"), "new", &quick().overwrite(true)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    let error = write(&path.join("below.iac"), "new", &quick()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert_eq!(names_in(folder.path()), ["x"]);
    assert_eq!(names_in(&folder.path().join("x/y")), ["a.iac"]);
}

#[test]
fn any_name_that_the_system_takes_can_be_written() {
    let folder = tempfile::tempdir().unwrap();
    let long = "n".repeat(251) + ".iac";
    let wide = "名".repeat(83) + ".iac";
    let names = [
        OsStr::new(&long),
        OsStr::new(&wide),
        OsStr::from_bytes(b"not \xff utf-8.iac"),
        OsStr::new("line\nbreak"),
    ];
    for name in names {
        let path = folder.path().join(name);
        write(&path, "new", &quick()).unwrap();
        assert_eq!(Pack::read(&path).records(), ["new"]);
        let mut writer =
            PackWriter::with_index(&path, header(), &items(1), &items(1), &quick().overwrite(true))
                .unwrap();
        writer.push("newer").unwrap();
        writer.finish().unwrap();
        assert_eq!(Pack::read(&path).records(), ["newer"]);
    }
    assert_eq!(names_in(folder.path()).len(), names.len());
    let too_long = folder.path().join("n".repeat(256));
    assert_eq!(write(&too_long, "new", &quick()).unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(names_in(folder.path()).len(), names.len());
}

#[test]
fn leftovers_of_this_name_go_and_everything_else_stays() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.iac");
    let dead = folder.path().join(".a.iac.0123456789abcdef.part");
    fs::write(&dead, "dead").unwrap();
    let kept = [".a.iac.link.part", ".a.iac.pipe.part", ".b.iac.0123456789abcdef.part", "x.part"];
    symlink("x.part", folder.path().join(kept[0])).unwrap();
    let pipe = folder.path().join(kept[1]);
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    fs::write(folder.path().join(kept[2]), "other").unwrap();
    fs::write(folder.path().join(kept[3]), "other").unwrap();
    write(&path, "new", &quick()).unwrap();
    let mut expected: Vec<&str> = kept.to_vec();
    expected.push("a.iac");
    expected.sort_unstable();
    assert_eq!(names_in(folder.path()), expected);
}

#[test]
fn the_mode_follows_the_umask() {
    if let Some(path) = child_argument() {
        write(&path, "new", &quick()).unwrap();
        let index = items(1);
        let path = path.with_extension("spooled");
        let schema = index.schema().clone();
        let mut writer = PackWriter::create(path, header(), &items(1), schema, &quick()).unwrap();
        writer.push("new").unwrap();
        writer.finish_with_index(&index).unwrap();
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for (umask, mode) in [("022", 0o644), ("027", 0o640), ("077", 0o600), ("000", 0o666)] {
        let path = folder.path().join(format!("{umask}.iac"));
        run(child_after(&format!("umask {umask}"), "the_mode_follows_the_umask", &path));
        for path in [path.with_extension("spooled"), path] {
            let found = fs::metadata(path).unwrap().permissions().mode() & 0o7777;
            assert_eq!(found, mode, "umask {umask}: {found:o}");
        }
    }
}

#[test]
fn a_full_disk_leaves_nothing_and_harms_no_old_file() {
    if let Some(path) = child_argument() {
        let options = WriteOptions::new().overwrite(true);
        let index = items(20_000);
        let payload = [1; 50];
        let payloads = vec![payload; 20_000];
        let mut errors = vec![
            build_pack(&path, &header(), &items(9000), &index, &payloads, &options).unwrap_err(),
        ];
        let schema = index.schema().clone();
        let mut writer =
            PackWriter::create(&path, header(), &items(9000), schema, &options).unwrap();
        let pushed = payloads.iter().try_for_each(|payload| writer.push(payload).map(|_| ()));
        if let Err(error) = pushed {
            errors.push(error);
            assert!(writer.push(payload).is_err(), "a failed writer takes no more");
        }
        errors.push(writer.finish_with_index(&index).unwrap_err());
        // The last error of a writer that had failed before says just that.
        errors.truncate(2);
        for error in errors {
            assert_eq!(error.kind(), ErrorKind::Io, "{error}");
        }
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.iac");
    write(&path, "old", &quick()).unwrap();
    let before = fs::read(&path).unwrap();
    // In blocks of 512 bytes: the limit lies in slide table, index table, or data.
    for blocks in [10, 200, 600, 1600, 3400] {
        // The system's answer to a file that grows too large is that of a full disk, once the
        // signal that comes with it is ignored.
        let shell = format!("trap '' XFSZ; ulimit -f {blocks}");
        run(child_after(&shell, "a_full_disk_leaves_nothing_and_harms_no_old_file", &path));
        assert!(fs::read(&path).unwrap() == before, "{blocks}");
        assert_eq!(names_in(folder.path()), ["a.iac"], "{blocks}");
    }
}

#[test]
fn a_killed_writer_leaves_a_temporary_file_that_the_next_one_removes() {
    if let Some(path) = child_argument() {
        let endless = std::iter::repeat_with(|| Ok::<_, io::Error>([7; 100_000]));
        let paced = endless.inspect(|_| std::thread::sleep(Duration::from_millis(1)));
        let _ = build_pack_streaming(&path, &header(), &items(1), &items(60_000), paced, &quick());
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.iac");
    let test = "a_killed_writer_leaves_a_temporary_file_that_the_next_one_removes";
    let mut writer = child(test, &path).stdout(std::process::Stdio::null()).spawn().unwrap();
    let is_large = || {
        let mut entries = fs::read_dir(folder.path()).unwrap();
        entries.any(|entry| entry.unwrap().metadata().is_ok_and(|found| found.len() > 1_000_000))
    };
    let start = Instant::now();
    while !is_large() && start.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(2));
    }
    // As long as it lives, its file is its own.
    let other = folder.path().join("other.iac");
    write(&other, "x", &quick()).unwrap();
    write(&path, "new", &quick()).unwrap();
    fs::remove_file(&path).unwrap();
    assert!(is_large());
    writer.kill().unwrap();
    writer.wait().unwrap();
    let names = names_in(folder.path());
    assert_eq!(names.len(), 2, "{names:?}");
    assert!(names[0].starts_with(".a.iac.") && names[0].ends_with(".part"), "{names:?}");
    write(&other, "x", &quick().overwrite(true)).unwrap();
    assert_eq!(names_in(folder.path()), names, "another name's leftovers stay");
    write(&path, "new", &quick()).unwrap();
    assert_eq!(names_in(folder.path()), ["a.iac", "other.iac"]);
}

#[test]
fn a_writer_killed_at_any_moment_leaves_the_old_pack_or_the_new_one() {
    if let Some(path) = child_argument() {
        let options = quick().overwrite(true);
        for round in 0_u64.. {
            let payloads = vec![round.to_le_bytes().repeat(500); 50];
            build_pack(&path, &header(), &items(1), &items(50), &payloads, &options).unwrap();
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.iac");
    let test = "a_writer_killed_at_any_moment_leaves_the_old_pack_or_the_new_one";
    for round in 0..8 {
        let mut writer = child(test, &path).stdout(std::process::Stdio::null()).spawn().unwrap();
        let start = Instant::now();
        while !path.exists() && start.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_micros(700 * round + 300));
        writer.kill().unwrap();
        writer.wait().unwrap();
        let records = Pack::read(&path).records();
        assert_eq!(records.len(), 50);
        assert!(records.iter().all(|record| record == &records[0]));
        let names = names_in(folder.path());
        assert!(names.iter().all(|name| name == "a.iac" || name.ends_with(".part")), "{names:?}");
        assert!(names.len() <= 2, "{names:?}");
    }
}
