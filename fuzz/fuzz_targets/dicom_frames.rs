//! DICOM files as packs of schema 2, and such packs: any file is refused, or comes back from its
//! pack; any pack is refused, or can be read.
//!
//! The first byte says what the rest is: a file, or a pack.
#![no_main]

use std::path::PathBuf;

use bytes::Bytes;
use iac_adapters::dicom::{
    DicomFile, DicomInput, DicomPackBuilder, DicomPackReader, Element, ElementValue, ExportOptions,
    ExportSyntax, PayloadCodec, SchemaChoice, Tag,
};
use iac_fuzz::{Limited, seeds};
use iac_reader::PackReader;
use iac_writer::WriteOptions;
use libfuzzer_sys::fuzz_target;

#[global_allocator]
static ALLOCATOR: Limited = Limited;

/// Rows that are read of a pack.
const ROWS: u64 = 64;

fuzz_target!(
    init: seeds::write(make_seeds),
    |input: &[u8]| {
        let Some((kind, rest)) = input.split_first() else { return };
        if kind % 2 == 0 { file(rest) } else { pack(rest) }
    }
);

/// A pack of a file, and the place where it lies.
fn packed(bytes: &[u8], payload: PayloadCodec) -> Option<PathBuf> {
    let path = std::env::temp_dir().join(format!("iac-fuzz-{}.rad.iac", std::process::id()));
    let input = DicomInput::Bytes("input".to_owned(), Bytes::copy_from_slice(bytes));
    let builder = DicomPackBuilder::new()
        .payload(payload)
        .schema(SchemaChoice::Two)
        .max_input_bytes(1 << 22)
        .workers(std::num::NonZeroUsize::MIN)
        .options(WriteOptions::new().overwrite(true).sync(false));
    builder.build_from(&path, [input]).ok().map(|_| path)
}

fn file(bytes: &[u8]) {
    let Ok(source) = DicomFile::parse(&Bytes::copy_from_slice(bytes), "input") else { return };
    let Some(path) = packed(bytes, PayloadCodec::None) else { return };
    let pack = DicomPackReader::open(&path).unwrap();
    let back = pack.data_set(0).unwrap();
    for element in source.data.elements() {
        // Pixel data lies elsewhere, and its description may change with it.
        if element.tag.0 == 0x7FE0 || element.tag == Tag(0x0028, 0x0004) {
            continue;
        }
        let found = back.get(element.tag).unwrap();
        assert!(same(element, found), "{element:?} {found:?}");
    }
    // What is too long for a file cannot be exported.
    let options = ExportOptions::default().with_syntax(ExportSyntax::ExplicitLittleEndian);
    let _ = pack.export(0, &options);
}

fn pack(bytes: &[u8]) {
    let Ok(pack) = PackReader::from_bytes(bytes.to_vec()) else { return };
    for check in [true, false] {
        let pack = pack.with_crc(check);
        let Ok(reader) = DicomPackReader::from_reader(pack.clone(), check) else { return };
        let reader = reader.with_max_document_bytes(1 << 22);
        for row in 0..reader.row_count().min(ROWS) {
            let _ = reader.read_pixels(row);
            let _ = reader.frame_data_set(row);
            let _ = reader.facts(row);
            let _ = reader.export(row, &ExportOptions::default());
        }
        for instance in 0..reader.instance_count().min(ROWS) {
            let _ = reader.shared_groups(instance);
            let _ = reader.frame_groups(instance, 0);
        }
    }
    for schema in iac_adapters::validate::Schemas::all() {
        if schema.handles("dicom_patient") {
            let _ = schema.check(&pack, 10);
        }
    }
}

/// Whether values are the same, apart from what makes lengths even.
fn same(one: &Element, other: &Element) -> bool {
    match (&one.value, &other.value) {
        (ElementValue::Items(ones), ElementValue::Items(others)) => {
            ones.len() == others.len()
                && ones.iter().zip(others).all(|(one, other)| {
                    one.elements().iter().all(|element| {
                        other.get(element.tag).is_some_and(|found| same(element, found))
                    })
                })
        }
        (ElementValue::Bytes(one), ElementValue::Bytes(other)) => {
            one == other
                || (one.len() == other.len() + 1 && one.starts_with(other))
                || (other.len() == one.len() + 1 && other.starts_with(one))
        }
        _ => false,
    }
}

fn make_seeds() -> Vec<(String, Vec<u8>)> {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/iac-adapters/tests/data/dicom");
    let mut made = Vec::new();
    for entry in std::fs::read_dir(root).unwrap() {
        let folder = entry.unwrap().path();
        let Ok(bytes) = std::fs::read(folder.join("in/00.dcm")) else { continue };
        if bytes.len() > 4096 {
            continue;
        }
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        if let Some(path) = packed(&bytes, PayloadCodec::Zstd) {
            let pack = std::fs::read(path).unwrap();
            made.push((format!("{name}.pack"), [&[1][..], &pack].concat()));
        }
        made.push((format!("{name}.file"), [&[0][..], &bytes].concat()));
    }
    made
}
