//! Files of the reference, written again from their own parts.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

mod common;

use std::fs;
use std::path::PathBuf;

use common::{Pack, table, without_storage_columns};
use iac_writer::{
    WriteError, WriteOptions, build_pack, build_pack_data_segment,
    build_pack_data_segment_from_file, build_pack_streaming,
};
use serde_json::{Map, Value};

/// As the reference writes: nothing that it does not know.
fn plain() -> WriteOptions {
    WriteOptions::new().sync(false).data_alignment(1).checksums(false)
}

fn golden(name: &str) -> (PathBuf, Pack) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data/container")
        .join(format!("{name}.iac"));
    let pack = Pack::read(&path);
    (path, pack)
}

fn caller_members(pack: &Pack) -> Map<String, Value> {
    let mut members = pack.header.members().clone();
    members.retain(|name, _| !name.ends_with("_offset") && !name.ends_with("_length"));
    members
}

/// Compares everything but the lengths of the tables: those of Arrow's own metadata differ
/// between the two Arrow libraries.
fn assert_same(name: &str, ours: &Pack, golden: &Pack) {
    for (ours, golden) in [(&ours.slides, &golden.slides), (&ours.index, &golden.index)] {
        assert_eq!(ours.schema(), golden.schema(), "{name}");
        assert_eq!(ours.batch_rows(), golden.batch_rows(), "{name}");
        assert_eq!(ours.decode().unwrap(), golden.decode().unwrap(), "{name}");
    }
    assert_eq!(lines(ours), lines(golden), "{name}");
    assert!(ours.data() == golden.data(), "{name}");
}

/// The header text without the lines that depend on the lengths of the tables.
fn lines(pack: &Pack) -> Vec<&str> {
    let depends = [
        "  \"data_offset\":",
        "  \"index_table_length\":",
        "  \"index_table_offset\":",
        "  \"slide_table_length\":",
    ];
    let lines = pack.header.text().split('\n');
    lines.filter(|line| !depends.iter().any(|start| line.starts_with(start))).collect()
}

#[test]
fn variable_packs_come_out_as_the_reference_writes_them() {
    let folder = tempfile::tempdir().unwrap();
    for name in [
        "build_pack_a",
        "chunked_a",
        "column_types_a",
        "empty_a",
        "header_full_a",
        "header_values_a",
        "many_slides_a",
        "no_columns_a",
        "streaming_a",
        "zero_length_a",
    ] {
        let (_, golden) = golden(name);
        let members = caller_members(&golden);
        let slides = table(&golden.slides);
        let index = without_storage_columns(&golden.index);
        let records = golden.records();

        let path = folder.path().join(format!("{name}.iac"));
        build_pack(&path, &members, &slides, &index, &records, &plain()).unwrap();
        assert_same(name, &Pack::read(&path), &golden);

        let streamed = folder.path().join("streamed.iac");
        let payloads = records.iter().map(Ok::<_, std::io::Error>);
        let options = plain().overwrite(true);
        build_pack_streaming(&streamed, &members, &slides, &index, payloads, &options).unwrap();
        assert!(fs::read(&path).unwrap() == fs::read(&streamed).unwrap());
    }
}

#[test]
fn data_segments_come_out_as_the_reference_writes_them() {
    let folder = tempfile::tempdir().unwrap();
    for name in [
        "data_segment_a",
        "data_segment_file_a",
        "fixed_bool_3x7_a",
        "fixed_float16_5x8_a",
        "fixed_float32_0x4_a",
        "fixed_float32_3x0_a",
        "fixed_float32_4x3_a",
        "fixed_int64_2x3_a",
        "fixed_uint8_6x5_a",
    ] {
        let (_, golden) = golden(name);
        let members = caller_members(&golden);
        let (slides, index) = (table(&golden.slides), table(&golden.index));
        let data = golden.data();
        let path = folder.path().join(format!("{name}.iac"));
        build_pack_data_segment(&path, &members, &slides, &index, &data, &plain()).unwrap();
        assert_same(name, &Pack::read(&path), &golden);

        let source = folder.path().join("source");
        fs::write(&source, &data).unwrap();
        let copied = folder.path().join("copied.iac");
        build_pack_data_segment_from_file(
            &copied,
            &members,
            &slides,
            &index,
            &source,
            data.len() as u64,
            &plain().overwrite(true),
        )
        .unwrap();
        assert!(fs::read(&path).unwrap() == fs::read(&copied).unwrap());
    }
}

#[test]
fn a_full_header_has_room_for_nothing_more() {
    let folder = tempfile::tempdir().unwrap();
    let (_, golden) = golden("header_full_a");
    assert_eq!(golden.header.text().len(), 65_520);
    let mut members = caller_members(&golden);
    members.insert("x".to_owned(), Value::Null);
    let index = without_storage_columns(&golden.index);
    let path = folder.path().join("a.iac");
    let mut asked = false;
    let payloads = std::iter::from_fn(|| {
        asked = true;
        Some(Ok::<_, std::io::Error>(b"x"))
    });
    let slides = table(&golden.slides);
    let error =
        build_pack_streaming(&path, &members, &slides, &index, payloads, &plain()).unwrap_err();
    assert!(matches!(error, WriteError::Format { .. }), "{error}");
    assert!(error.to_string().contains("65520"), "{error}");
    assert!(!asked, "refused before any payload");
    assert!(common::names_in(folder.path()).is_empty());
}
