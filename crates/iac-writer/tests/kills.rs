//! Every way of writing a pack, killed at random moments: the old pack or the new one stands there.
#![cfg(unix)]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::arithmetic_side_effects,
    clippy::print_stdout
)]

mod common;

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use common::{Pack, child, child_argument, header, items, names_in};
use iac_writer::{
    PackWriter, VariablePackBuilder, WriteError, WriteOptions, build_pack, build_pack_data_segment,
    build_pack_data_segment_from_file, build_pack_data_segment_streaming, build_pack_streaming,
};

/// Each way of writing; the pack's name is the way's.
const WAYS: [&str; 7] =
    ["memory", "streaming", "spooled", "encoded", "segment", "segment-streaming", "segment-file"];
const ROWS: usize = 60;
const TEST: &str = "writers_of_every_kind_that_are_killed_leave_the_old_pack_or_the_new_one";

/// Writes a pack whose data is one number, over and over.
fn write(way: &str, path: &Path, round: u64, sync: bool) -> Result<(), WriteError> {
    let options = WriteOptions::new().overwrite(true).sync(sync);
    let payload = round.to_le_bytes().repeat(300);
    let (header, slides, index) = (header(), items(2), items(ROWS));
    let payloads = || (0..ROWS).map(|_| Ok::<_, io::Error>(&payload));
    let data = payload.repeat(ROWS);
    let length = data.len() as u64;
    match way {
        "memory" => {
            let payloads = vec![&payload; ROWS];
            build_pack(path, &header, &slides, &index, &payloads, &options)?;
        }
        "streaming" => {
            build_pack_streaming(path, &header, &slides, &index, payloads(), &options)?;
        }
        "spooled" => {
            let schema = index.schema().clone();
            let mut writer = PackWriter::create(path, header, &slides, schema, &options)?;
            for _ in 0..ROWS {
                writer.push(&payload)?;
            }
            writer.finish_with_index(&index)?;
        }
        "encoded" => {
            let records = vec![payload; ROWS];
            VariablePackBuilder::new("raw_bytes", index).options(options).build(path, &records)?;
        }
        "segment" => {
            build_pack_data_segment(path, &header, &slides, &index, &data, &options)?;
        }
        "segment-streaming" => {
            let stretches = payloads();
            build_pack_data_segment_streaming(
                path, &header, &slides, &index, length, stretches, &options,
            )?;
        }
        "segment-file" => {
            let source = path.with_extension("source");
            std::fs::write(&source, &data).unwrap();
            build_pack_data_segment_from_file(
                path, &header, &slides, &index, &source, length, &options,
            )?;
        }
        other => panic!("{other} is no way of writing"),
    }
    Ok(())
}

#[test]
fn writers_of_every_kind_that_are_killed_leave_the_old_pack_or_the_new_one() {
    if let Some(path) = child_argument() {
        let way = path.file_stem().unwrap().to_str().unwrap();
        for round in 1.. {
            write(way, &path, round, round % 4 == 0).unwrap();
        }
    }
    let wanted = std::env::var("IAC_SOAK_KILLS").ok().and_then(|kills| kills.parse().ok());
    let each = wanted.unwrap_or(28_u64).div_ceil(WAYS.len() as u64);
    let mut reached = 0;
    for (number, way) in WAYS.into_iter().enumerate() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(format!("{way}.iac"));
        write(way, &path, 0, true).unwrap();
        for kill in 0..each {
            let mut writer =
                child(TEST, &path).stdout(std::process::Stdio::null()).spawn().unwrap();
            let start = Instant::now();
            // Not before it has begun: the time of a program's start tells nothing.
            while names_in(folder.path()).len() < 2 && start.elapsed() < Duration::from_secs(60) {
                std::thread::sleep(Duration::from_micros(300));
            }
            let random = (kill * 7 + number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 44;
            std::thread::sleep(Duration::from_micros(random % 30_000));
            writer.kill().unwrap();
            writer.wait().unwrap();
            let data = Pack::read(&path).data();
            assert_eq!(data.len(), ROWS * 2400, "{way}");
            assert!(data.chunks(8).all(|number| number == &data[..8]), "{way}: two versions mixed");
            reached = reached.max(u64::from_le_bytes(data[..8].try_into().unwrap()));
            for name in names_in(folder.path()) {
                let ours = name.starts_with('.') && name.ends_with(".part");
                let known = name == format!("{way}.iac") || name == format!("{way}.source");
                assert!(ours || known, "{way}: {name}");
            }
        }
        write(way, &path, 0, false).unwrap();
        let _ = std::fs::remove_file(path.with_extension("source"));
        assert_eq!(names_in(folder.path()), [format!("{way}.iac")], "left-overs go");
    }
    println!("{} kills in {} ways of writing, up to version {reached}", each * 7, WAYS.len());
    assert!(reached > 0);
}
