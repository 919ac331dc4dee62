//! Fixed packs: golden files, every element type, typed views, conversion, damage.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, missing_docs)]
#![allow(clippy::cast_possible_truncation, clippy::arithmetic_side_effects)]

mod common;

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, UInt64Array};
use bytemuck::AnyBitPattern;
use bytes::Bytes;
use common::{all_sources, data_dir, golden_names, hex, json, sha256};
use half::f16;
use iac_format::{Element, ElementType, ErrorKind, FixedShape};
use iac_reader::{
    FixedRecordPack, Memory, PackReader, ReadError, ReadOptions, SourceKind, VerifyOptions,
};
use iac_writer::{FixedPackBuilder, Table, WriteOptions};
use proptest::prelude::*;
use serde_json::{Value, json};

fn index(rows: usize) -> Table {
    let ids = UInt64Array::from_iter_values(0..rows as u64);
    Table::from(RecordBatch::try_from_iter([("item_id", Arc::new(ids) as ArrayRef)]).unwrap())
}

fn builder(rows: usize) -> FixedPackBuilder {
    FixedPackBuilder::new("test", index(rows))
        .options(WriteOptions::new().sync(false).overwrite(true))
}

#[test]
fn every_golden_file_reads_as_the_reference_says() {
    let mut seen = 0;
    for name in golden_names("container").iter().filter(|name| name.starts_with("fixed_")) {
        let path = data_dir("container").join(format!("{name}.iac"));
        let expected = &json(&path.with_extension("json"))["fixed"];
        let rows = expected["rows"].as_array().unwrap();
        for (source, pack) in all_sources(&path) {
            let context = format!("{name} ({source})");
            let pack = FixedRecordPack::from_reader(pack.unwrap()).unwrap();
            assert_eq!(pack.record_count(), rows.len() as u64, "{context}");
            assert_eq!(pack.dim() as u64, expected["feature_dim"].as_u64().unwrap(), "{context}");
            assert_eq!(pack.element().name(), expected["dtype"], "{context}");
            assert_eq!(
                pack.row_bytes() as u64,
                expected["feature_record_bytes"].as_u64().unwrap(),
                "{context}"
            );
            for (row, expected) in rows.iter().enumerate() {
                let bytes = hex(expected["bytes_hex"].as_str().unwrap());
                assert_eq!(pack.read(row as u64).unwrap(), bytes, "{context} row {row}");
            }
            let all: Vec<u64> = (0..rows.len() as u64).collect();
            let matrix = pack.read_matrix(&all).unwrap();
            assert_eq!(matrix.shape(), [rows.len(), pack.dim()], "{context}");
            if let Some(hash) = expected.get("read_matrix_sha256").and_then(Value::as_str) {
                assert_eq!(sha256(matrix.bytes()), hash, "{context}");
            }
            if let Some(hash) = expected.get("read_many_float32_sha256").and_then(Value::as_str) {
                let floats = pack.read_many_f32(&all).unwrap();
                let bytes: Vec<u8> = floats.iter().flat_map(|value| value.to_le_bytes()).collect();
                assert_eq!(sha256(&bytes), hash, "{context}");
            }
            let backwards: Vec<u64> = all.iter().rev().flat_map(|row| [*row, *row]).collect();
            let matrix = pack.read_matrix(&backwards).unwrap();
            for (at, row) in backwards.iter().enumerate() {
                let bytes = hex(rows[*row as usize]["bytes_hex"].as_str().unwrap());
                assert_eq!(matrix.row(at).unwrap(), bytes, "{context}");
            }
            assert!(matrix.row(backwards.len()).is_none(), "{context}");
            let mut buffer = vec![0xff; matrix.bytes().len()];
            pack.read_matrix_into(&backwards, &mut buffer).unwrap();
            assert_eq!(buffer, matrix.bytes(), "{context}");
            let empty = pack.read_matrix(&[]).unwrap();
            assert_eq!((empty.shape(), empty.bytes().len()), ([0, pack.dim()], 0), "{context}");
            assert_eq!(
                pack.read_matrix(&[rows.len() as u64]).unwrap_err().kind(),
                ErrorKind::RowOutOfRange,
                "{context}"
            );
            seen += 1;
        }
    }
    assert_eq!(seen, 7 * common::SOURCES);
}

#[test]
fn golden_files_are_written_with_the_members_that_the_reference_writes() {
    let folder = tempfile::tempdir().unwrap();
    for name in golden_names("container").iter().filter(|name| name.starts_with("fixed_")) {
        let golden = PackReader::open(data_dir("container").join(format!("{name}.iac"))).unwrap();
        let old = FixedRecordPack::from_reader(golden.clone()).unwrap();
        let mut extra = golden.header().members().clone();
        let payload_type = golden.header().payload_type().unwrap();
        for member in ["payload_type", "codec", "feature_dim", "dtype", "feature_record_bytes"] {
            extra.remove(member).unwrap();
        }
        let table = |table: &iac_reader::Table| {
            Table::new(table.schema().clone(), table.batches().unwrap().to_vec()).unwrap()
        };
        let path = folder.path().join(format!("{name}.iac"));
        let options = WriteOptions::new().sync(false).checksums(false).data_alignment(1);
        let data = golden.read_data_span(0, golden.layout().data.length).unwrap();
        FixedPackBuilder::new(payload_type, table(golden.index_table().unwrap()))
            .slides(table(golden.slide_table().unwrap()))
            .header(extra)
            .options(options)
            .build_bytes(&path, old.shape(), &data)
            .unwrap();
        let new = PackReader::open(&path).unwrap();
        let members = |pack: &PackReader| {
            let mut members = pack.header().members().clone();
            // Arrow streams of the same table may differ in length.
            for member in
                ["slide_table_length", "index_table_offset", "index_table_length", "data_offset"]
            {
                members.remove(member).unwrap();
            }
            members
        };
        assert_eq!(members(&new), members(&golden), "{name}");
        let tables = |pack: &PackReader| {
            let slides = pack.slide_table().unwrap().batches().unwrap().to_vec();
            (slides, pack.index_table().unwrap().batches().unwrap().to_vec())
        };
        assert_eq!(tables(&new), tables(&golden), "{name}");
        assert_eq!(new.read_data_span(0, new.layout().data.length).unwrap(), data, "{name}");
    }
}

/// Writes a matrix in all ways and reads it in all ways.
fn round_trip<T>(values: &[T], dim: usize)
where
    T: Element + AnyBitPattern + PartialEq + std::fmt::Debug,
{
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pack.iac");
    let rows = values.len() / dim;
    builder(rows).build(&path, dim, values).unwrap();
    let whole = std::fs::read(&path).unwrap();
    let streamed = values.chunks(dim).map(Ok::<_, std::io::Error>);
    builder(rows).build_streaming(&path, dim, streamed).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), whole);
    let shape = FixedShape::new(dim as u64, T::TYPE).unwrap();
    builder(rows).build_bytes(&path, shape, bytemuck::cast_slice(values)).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), whole);

    let order: Vec<u64> = (0..rows as u64).rev().chain([0, 0]).collect();
    let expected: Vec<T> =
        order.iter().flat_map(|row| &values[*row as usize * dim..][..dim]).copied().collect();
    for (source, pack) in all_sources(&path) {
        let pack = FixedRecordPack::from_reader(pack.unwrap()).unwrap();
        let context = format!("{} {source}", T::TYPE);
        assert_eq!(pack.read_matrix_as::<T>(&order).unwrap(), expected, "{context}");
        let matrix = pack.read_matrix(&order).unwrap();
        assert_eq!(matrix.elements::<T>().unwrap(), expected, "{context}");
        if common::only_copies(source) {
            let error = pack.as_slice::<T>().unwrap_err();
            assert!(matches!(error, ReadError::NoViews { .. }), "{context}");
        } else if let Ok(view) = pack.as_slice::<T>() {
            assert_eq!(view, values, "{context}");
        } else {
            // Memory of unknown alignment may be anywhere.
            assert_eq!(source, "memory");
        }
        assert!(pack.reader().verify(&VerifyOptions::default()).is_sound());
    }
}

#[test]
fn every_element_type_round_trips() {
    let bytes: Vec<u8> = (0..96).map(|at: u8| at.wrapping_mul(37)).collect();
    fn cast<T: AnyBitPattern>(bytes: &[u8]) -> Vec<T> {
        bytemuck::pod_collect_to_vec_checked(bytes)
    }
    mod bytemuck {
        pub(super) use ::bytemuck::*;
        pub(super) fn pod_collect_to_vec_checked<T: AnyBitPattern>(bytes: &[u8]) -> Vec<T> {
            bytes.chunks_exact(size_of::<T>()).map(pod_read_unaligned).collect()
        }
    }
    round_trip::<i8>(&cast(&bytes), 3);
    round_trip::<i16>(&cast(&bytes), 3);
    round_trip::<i32>(&cast(&bytes), 3);
    round_trip::<i64>(&cast(&bytes), 3);
    round_trip::<u8>(&cast(&bytes), 3);
    round_trip::<u16>(&cast(&bytes), 3);
    round_trip::<u32>(&cast(&bytes), 3);
    round_trip::<u64>(&cast(&bytes), 3);
    let floats: Vec<f32> = (0..24).map(|at| at as f32 * 0.37 - 3.0).collect();
    round_trip::<f32>(&floats, 4);
    round_trip::<f16>(&floats.iter().map(|v| f16::from_f32(*v)).collect::<Vec<_>>(), 4);
    round_trip::<f64>(&floats.iter().map(|v| f64::from(*v)).collect::<Vec<_>>(), 4);
    round_trip::<[f32; 2]>(&floats.iter().map(|v| [*v, -*v]).collect::<Vec<_>>(), 4);
    round_trip::<[f64; 2]>(&floats.iter().map(|v| [f64::from(*v), 1.0]).collect::<Vec<_>>(), 4);
}

#[test]
fn booleans_are_written_as_such_and_read_as_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pack.iac");
    builder(2).build(&path, 3, &[true, false, true, true, true, false]).unwrap();
    let pack = FixedRecordPack::open(&path).unwrap();
    assert_eq!(pack.element(), ElementType::Bool);
    assert_eq!(pack.as_slice::<u8>().unwrap(), [1, 0, 1, 1, 1, 0]);
    assert_eq!(pack.read_matrix_as::<u8>(&[1]).unwrap(), [1, 1, 0]);
    assert_eq!(pack.read_many_f32(&[0]).unwrap(), [1.0, 0.0, 1.0]);
}

fn float_pack(rows: usize, dim: usize) -> (tempfile::TempDir, PathBuf, Vec<f32>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pack.iac");
    let values: Vec<f32> = (0..rows * dim).map(|at| at as f32).collect();
    builder(rows).build(&path, dim, &values).unwrap();
    (folder, path, values)
}

#[test]
fn typed_view_is_the_mapping_itself() {
    let (_folder, path, values) = float_pack(5, 7);
    let pack = FixedRecordPack::open(&path).unwrap();
    let view = pack.as_slice::<f32>().unwrap();
    assert_eq!(view, values);
    let data = pack.reader().layout().data;
    let mapped = pack.reader().data_view(0, data.length).unwrap();
    assert_eq!(view.as_ptr().cast::<u8>(), mapped.as_ptr());
    assert_eq!(pack.as_slice::<f32>().unwrap().as_ptr(), view.as_ptr());
}

#[test]
fn rows_that_are_not_aligned_are_read_but_not_viewed() {
    let (_folder, path, values) = float_pack(5, 7);
    let file = std::fs::read(&path).unwrap();
    let mut results = Vec::new();
    for shift in 0..4 {
        let mut shifted = vec![0; shift];
        shifted.extend_from_slice(&file);
        let bytes = Bytes::from(shifted).slice(shift..);
        let source = Arc::new(Memory::new(bytes));
        let pack = PackReader::from_source(source, "shifted", &ReadOptions::default()).unwrap();
        let pack = FixedRecordPack::from_reader(pack).unwrap();
        results.push(match pack.as_slice::<f32>() {
            Ok(view) => {
                assert_eq!(view, values);
                true
            }
            Err(error) => {
                assert!(matches!(error, ReadError::NoTypedView { .. }), "{error}");
                assert_eq!(error.kind(), ErrorKind::Unsupported);
                false
            }
        });
        assert_eq!(pack.read_matrix_as::<f32>(&[0, 1, 2, 3, 4]).unwrap(), values);
        assert_eq!(pack.read_many_f32(&[0, 1, 2, 3, 4]).unwrap(), values);
        let matrix = pack.read_matrix(&[0, 1, 2, 3, 4]).unwrap();
        assert_eq!(matrix.elements::<f32>().unwrap(), values);
    }
    assert_eq!(results.iter().filter(|viewed| **viewed).count(), 1);
}

#[test]
fn large_batches_are_the_same_on_any_number_of_threads() {
    let (_folder, path, values) = float_pack(4000, 300);
    let rows: Vec<u64> = (0..4000).rev().chain(0..4000).collect();
    let expected: Vec<f32> =
        rows.iter().flat_map(|row| &values[*row as usize * 300..][..300]).copied().collect();
    for source in [SourceKind::Mapped, SourceKind::Positional] {
        for workers in [1, 2, 7] {
            let options = ReadOptions::default().source(source).workers(NonZeroUsize::new(workers));
            let pack = FixedRecordPack::open_with(&path, &options).unwrap();
            assert!(pack.read_matrix_as::<f32>(&rows).unwrap() == expected);
            assert!(pack.read_many_f32(&rows).unwrap() == expected);
            assert!(
                pack.read_matrix(&rows).unwrap().bytes()
                    == bytemuck::cast_slice::<_, u8>(&expected)
            );
        }
    }
}

#[test]
fn what_the_caller_gets_wrong_is_said_before_anything_is_read() {
    let (_folder, path, _) = float_pack(3, 2);
    let pack = FixedRecordPack::open(&path).unwrap();
    for result in [
        pack.as_slice::<f64>().map(drop),
        pack.read_matrix_as::<u8>(&[0]).map(drop),
        pack.read_matrix_as_into::<f16>(&[0], &mut [f16::ZERO; 2]),
    ] {
        let error = result.unwrap_err();
        assert!(matches!(&error, ReadError::ElementType { found: ElementType::Float32, .. }));
        assert!(error.to_string().contains("float32"), "{error}");
    }
    for result in [
        pack.read_matrix_into(&[0, 1], &mut [0; 15]),
        pack.read_matrix_as_into(&[0, 1], &mut [0.0_f32; 5]),
        pack.read_many_f32_into(&[0, 1], &mut [0.0; 6]),
    ] {
        let error = result.unwrap_err();
        assert!(matches!(error, ReadError::BufferSize { .. }), "{error}");
        assert_eq!(error.kind(), ErrorKind::Usage);
    }
    for result in [
        pack.read(3).map(drop),
        pack.read_matrix(&[0, u64::MAX]).map(drop),
        pack.read_many_f32(&[3]).map(drop),
        pack.read_matrix_into(&[3], &mut [0; 1]),
    ] {
        assert_eq!(result.unwrap_err().kind(), ErrorKind::RowOutOfRange);
    }
    assert!(pack.read_matrix(&[0]).unwrap().elements::<i32>().is_none());

    let complex = builder(1);
    complex.build(&path, 1, &[[1.0_f32, 2.0]]).unwrap();
    let pack = FixedRecordPack::open(&path).unwrap();
    assert!(matches!(pack.read_many_f32(&[0]), Err(ReadError::ElementType { .. })));
}

#[test]
fn damaged_rows_are_met_by_their_checksums() {
    let (_folder, path, values) = float_pack(6, 4);
    let mut bytes = std::fs::read(&path).unwrap();
    let at = bytes.len() - 16 - 3;
    bytes[at] ^= 4;
    std::fs::write(&path, bytes).unwrap();
    for (source, pack) in all_sources(&path) {
        let pack = pack.unwrap();
        let checked = FixedRecordPack::from_reader(pack.clone()).unwrap();
        for result in [
            checked.read(4).map(drop),
            checked.read_matrix(&[5, 4]).map(drop),
            checked.read_matrix_as::<f32>(&[4, 5]).map(drop),
            checked.read_many_f32(&[3, 4]).map(drop),
        ] {
            let error = result.unwrap_err();
            assert!(matches!(error, ReadError::Checksum { row: 4, .. }), "{source}: {error}");
        }
        assert_eq!(checked.read_many_f32(&[3]).unwrap(), values[12..16]);
        let unchecked = FixedRecordPack::from_reader(pack.with_crc(false)).unwrap();
        assert_eq!(unchecked.read_many_f32(&[4, 3]).unwrap()[4..], values[12..16]);
    }
}

#[test]
fn matrices_without_columns_have_empty_rows() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pack.iac");
    builder(3).build::<f32>(&path, 0, &[]).unwrap();
    for (_, pack) in all_sources(&path) {
        let pack = FixedRecordPack::from_reader(pack.unwrap()).unwrap();
        assert_eq!((pack.record_count(), pack.dim()), (3, 0));
        assert!(pack.read(2).unwrap().is_empty());
        assert_eq!(pack.read_matrix(&[2, 0]).unwrap().shape(), [2, 0]);
        assert_eq!(pack.read_matrix(&[2, 0]).unwrap().row(1).unwrap(), b"");
        assert!(pack.read_many_f32(&[1, 1]).unwrap().is_empty());
        assert!(pack.read_matrix_as::<f32>(&[1]).unwrap().is_empty());
        assert!(pack.read(3).is_err());
    }
    assert!(FixedRecordPack::open(&path).unwrap().as_slice::<f32>().unwrap().is_empty());
    builder(0).build::<f32>(&path, 5, &[]).unwrap();
    let pack = FixedRecordPack::open(&path).unwrap();
    assert_eq!((pack.record_count(), pack.dim()), (0, 5));
    assert!(pack.as_slice::<f32>().unwrap().is_empty());
    assert!(pack.read_many_f32(&[]).unwrap().is_empty());
}

fn with_header(path: &Path, members: Value) -> Result<FixedRecordPack, ReadError> {
    let Value::Object(members) = members else { panic!() };
    // No shape that this writer knows: as a foreign one might write it.
    iac_writer::build_pack_data_segment(
        path,
        &members,
        &Table::empty(),
        &index(2),
        &[0; 16],
        &WriteOptions::new().sync(false).overwrite(true).checksums(false),
    )
    .map(|_| FixedRecordPack::open(path))
    .unwrap_or_else(|_| {
        // Refused by the writer: patch a pack that it accepts.
        let sound = json!({"dtype": "f4", "feature_dim": 2, "feature_record_bytes": 8});
        let text = serde_json::to_string(&members["dtype"]).unwrap();
        with_header(path, sound).unwrap();
        let file = std::fs::read(path).unwrap();
        let at = file.windows(4).position(|found| found == b"\"f4\"").unwrap();
        let mut patched = file[..at].to_vec();
        patched.extend_from_slice(text.as_bytes());
        patched.extend_from_slice(&file[at + 4..]);
        let length = u32::from_le_bytes(*file[8..].first_chunk::<4>().unwrap());
        let length = length + text.len() as u32 - 4;
        patched[8..12].copy_from_slice(&length.to_le_bytes());
        patched.drain(65_536 - 8..65_536 - 8 + (text.len() - 4));
        std::fs::write(path, patched).unwrap();
        FixedRecordPack::open(path)
    })
}

#[test]
fn element_types_of_other_kinds_are_refused_with_their_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pack.iac");
    for name in [">float32", "object", "<U4", "float128", "V8"] {
        let members = json!({"dtype": name, "feature_dim": 2, "feature_record_bytes": 8});
        let error = with_header(&path, members).unwrap_err();
        assert_eq!((error.kind(), error.field()), (ErrorKind::Damaged, Some("dtype")), "{error}");
        assert!(error.to_string().contains(name), "{error}");
    }
    for name in ["f4", "<f4", "float32"] {
        let members = json!({"dtype": name, "feature_dim": 2, "feature_record_bytes": 8});
        assert_eq!(with_header(&path, members).unwrap().element(), ElementType::Float32);
    }
    let error = with_header(&path, json!({})).unwrap_err();
    assert!(matches!(error, ReadError::NotFixed { .. }), "{error}");
    let members = json!({"dtype": "f4", "feature_dim": 2, "feature_record_bytes": 8,
        "required_extensions": ["iac.future"]});
    let error = with_header(&path, members).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnsupportedExtension);
}

#[test]
fn rows_of_the_other_byte_order_are_turned_wherever_they_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pack.iac");
    let values = [1.5_f32, -2.0, 3.25, 1e-3];
    let stored: Vec<u8> = values.iter().flat_map(|value| value.to_be_bytes()).collect();
    let members = json!({"dtype": ">f4", "feature_dim": 2, "feature_record_bytes": 8});
    let Value::Object(members) = members else { panic!() };
    iac_writer::build_pack_data_segment(
        &path,
        &members,
        &Table::empty(),
        &index(2),
        &stored,
        &WriteOptions::new().sync(false),
    )
    .unwrap();
    let turned: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    for (source, pack) in all_sources(&path) {
        let pack = FixedRecordPack::from_reader(pack.unwrap()).unwrap();
        assert_eq!(pack.element(), ElementType::Float32, "{source}");
        assert!(pack.shape().big_endian, "{source}");
        assert_eq!(pack.read(1).unwrap(), turned[8..], "{source}");
        let both = [turned[8..].to_vec(), turned[..8].to_vec()].concat();
        assert_eq!(pack.read_matrix(&[1, 0]).unwrap().bytes(), both, "{source}");
        let mut buffer = vec![0; 16];
        pack.read_matrix_into(&[1, 0], &mut buffer).unwrap();
        assert_eq!(buffer, both, "{source}");
        let expected = [3.25, 1e-3, 1.5, -2.0];
        assert_eq!(pack.read_matrix_as::<f32>(&[1, 0]).unwrap(), expected, "{source}");
        assert_eq!(pack.read_many_f32(&[1, 0]).unwrap(), expected, "{source}");
        assert!(pack.as_slice::<f32>().is_err(), "{source}");
        assert!(pack.reader().verify(&VerifyOptions::default()).is_sound(), "{source}");
    }
}

#[test]
fn packs_whose_index_addresses_records_are_no_matrices() {
    let path = data_dir("container").join("none_a.iac");
    assert!(matches!(FixedRecordPack::open(path), Err(ReadError::NotFixed { .. })));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn conversion_of_any_matrix_is_that_of_each_element(
        values in prop::collection::vec(any::<f64>(), 1..60),
        dim in 1..6_usize,
        rows in prop::collection::vec(any::<prop::sample::Index>(), 0..40),
    ) {
        let count = values.len() / dim;
        prop_assume!(count > 0);
        let values = &values[..count * dim];
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pack.iac");
        let rows: Vec<u64> = rows.iter().map(|row| row.index(count) as u64).collect();
        let picked = || rows.iter().flat_map(|row| &values[*row as usize * dim..][..dim]);
        builder(count).build(&path, dim, values).unwrap();
        let found = FixedRecordPack::open(&path).unwrap().read_many_f32(&rows).unwrap();
        prop_assert!(found.iter().map(|v| v.to_bits()).eq(picked().map(|v| (*v as f32).to_bits())));
        let halves: Vec<f16> = values.iter().map(|v| f16::from_f64(*v)).collect();
        builder(count).build(&path, dim, &halves).unwrap();
        let found = FixedRecordPack::open(&path).unwrap().read_many_f32(&rows).unwrap();
        let expected = rows.iter().flat_map(|row| &halves[*row as usize * dim..][..dim]);
        let same = |found: f32, expected: f16| {
            found.to_bits() == expected.to_f32().to_bits() || (found.is_nan() && expected.is_nan())
        };
        prop_assert!(found.iter().zip(expected).all(|(found, expected)| same(*found, *expected)));
        let integers: Vec<i64> = values.iter().map(|v| v.to_bits().cast_signed()).collect();
        builder(count).build(&path, dim, &integers).unwrap();
        let found = FixedRecordPack::open(&path).unwrap().read_many_f32(&rows).unwrap();
        let expected = rows.iter().flat_map(|row| &integers[*row as usize * dim..][..dim]);
        prop_assert!(found.iter().zip(expected).all(|(found, v)| *found == *v as f32));
    }
}

#[cfg(feature = "ndarray")]
#[test]
fn arrays_have_the_shape_and_the_memory_of_the_rows() {
    let (_folder, path, values) = float_pack(3, 4);
    let pack = FixedRecordPack::open(&path).unwrap();
    let view = pack.view::<f32>().unwrap();
    assert_eq!(view.dim(), (3, 4));
    assert_eq!(view[[2, 1]], values[9]);
    assert_eq!(view.as_ptr(), pack.as_slice::<f32>().unwrap().as_ptr());
    let picked = pack.read_array::<f32>(&[2, 0]).unwrap();
    assert_eq!(picked.row(0), view.row(2));
    assert_eq!(pack.read_array_f32(&[2, 0]).unwrap(), picked);
    assert_eq!(pack.read_array::<f32>(&[]).unwrap().dim(), (0, 4));
}
