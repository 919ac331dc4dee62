//! Variable packs through their codecs: order, threads, damage, limits, codecs that are missing.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, missing_docs)]
#![allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::arithmetic_side_effects)]

#[path = "common/codecs.rs"]
mod codecs;
mod common;

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringArray};
use bytes::Bytes;
use common::{all_sources, data_dir, golden_names, json, sha256};
use iac_codec::{CodecError, CodecSpec, Limits, Parameters, compiled_codecs};
use iac_format::ErrorKind;
use iac_reader::{
    ContiguousRecordBatch, PackReader, ReadError, ReadOptions, RecordOptions, SourceKind,
    VariableRecordPack,
};
use iac_writer::{Table, VariablePackBuilder, WriteOptions};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

const CODECS: [&str; 4] = ["none", "test.reversed", "test.runs", "test.sized_runs"];

fn index(rows: usize) -> Table {
    let ids = StringArray::from_iter_values((0..rows).map(|row| format!("r{row}")));
    Table::from(RecordBatch::try_from_iter([("item_id", Arc::new(ids) as ArrayRef)]).unwrap())
}

fn builder(codec: &str, rows: usize) -> VariablePackBuilder {
    VariablePackBuilder::new("test", index(rows))
        .codec_spec(CodecSpec::new(codec, Parameters::new()))
        .registry(Arc::new(codecs::registry()))
        .options(WriteOptions::new().sync(false).overwrite(true))
}

fn record_options() -> RecordOptions {
    RecordOptions::default().registry(Arc::new(codecs::registry()))
}

fn open(path: &Path) -> VariableRecordPack {
    VariableRecordPack::open_with(path, &ReadOptions::default(), record_options()).unwrap()
}

/// Records of all kinds of sizes, some of them empty, some of long runs.
fn records(count: usize) -> Vec<Vec<u8>> {
    (0..count)
        .map(|row| {
            let mut record = vec![row as u8; (row * 37) % 900];
            record.extend(format!("row {row}").into_bytes());
            if row % 11 == 3 { Vec::new() } else { record }
        })
        .collect()
}

fn check_reads(pack: &VariableRecordPack, records: &[Vec<u8>], rows: &[u64], context: &str) {
    let expected: Vec<&[u8]> = rows.iter().map(|row| records[*row as usize].as_slice()).collect();
    assert_eq!(pack.read_many(rows).unwrap(), expected, "{context}");
    let batch = pack.read_many_contiguous(rows).unwrap();
    assert_eq!(batch.iter().collect::<Vec<_>>(), expected, "{context}");
    let (lossy, skipped) = pack.read_many_lossy(rows).unwrap();
    assert!(skipped.is_empty(), "{context}");
    assert!(lossy.iter().flatten().eq(expected.iter()), "{context}");
    let (lossy, skipped) = pack.read_many_contiguous_lossy(rows).unwrap();
    assert!(skipped.is_empty(), "{context}");
    assert_eq!(lossy, batch, "{context}");
    // Memory of another batch, larger or smaller, leaves no trace.
    let mut used = pack.read_many_contiguous(&[0, 1, 2, 3, 4, 5, 6, 7]).unwrap();
    pack.read_many_contiguous_into(rows, &mut used).unwrap();
    assert_eq!(used, batch, "{context}");
    pack.read_many_contiguous_into(&rows[..rows.len() / 2], &mut used).unwrap();
    assert_eq!(used.iter().collect::<Vec<_>>(), expected[..rows.len() / 2], "{context}");
    // A batch is what its constructor would accept.
    let (buffer, offsets) = batch.into_parts();
    ContiguousRecordBatch::try_new(buffer, offsets).unwrap();
}

#[test]
fn every_codec_source_and_number_of_threads_gives_the_same_records() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pack.iac");
    let records = records(1500);
    let rows: Vec<u64> = (0..1500).rev().step_by(2).chain([7, 7, 1499, 0, 3]).collect();
    for codec in CODECS {
        builder(codec, records.len()).build(&path, &records).unwrap();
        for (source, pack) in all_sources(&path) {
            for workers in [1, 2, 5] {
                let options = ReadOptions::default().workers(NonZeroUsize::new(workers));
                let pack = pack.as_ref().unwrap().with_options(&options);
                let pack = VariableRecordPack::from_reader_with(pack, record_options());
                let context = format!("{codec}, {source}, {workers} workers");
                check_reads(&pack, &records, &rows, &context);
                assert_eq!(pack.record_count().unwrap(), 1500);
            }
        }
        let pack = open(&path);
        for (row, record) in records.iter().enumerate() {
            assert_eq!(pack.read(row as u64).unwrap(), *record, "{codec} row {row}");
        }
        assert!(pack.read_many(&[]).unwrap().is_empty());
        assert_eq!(pack.read_many_contiguous(&[]).unwrap().offsets(), [0]);
    }
}

#[test]
fn decoding_works_inside_the_callers_pool() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pack.iac");
    let records = records(600);
    builder("test.runs", records.len()).build(&path, &records).unwrap();
    let pack = open(&path);
    let rows: Vec<u64> = (0..600).collect();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    pool.install(|| check_reads(&pack, &records, &rows, "inside"));
    let options = ReadOptions::default().pool(Arc::new(pool));
    let pack = VariableRecordPack::open_with(&path, &options, record_options()).unwrap();
    check_reads(&pack, &records, &rows, "with a pool");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn any_records_come_back(
        records in prop::collection::vec(prop::collection::vec(0..4_u8, 0..70), 1..40),
        rows in prop::collection::vec(any::<prop::sample::Index>(), 0..80),
        codec in 0..CODECS.len(),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pack.iac");
        builder(CODECS[codec], records.len()).build(&path, &records).unwrap();
        let rows: Vec<u64> = rows.iter().map(|row| row.index(records.len()) as u64).collect();
        let pack = open(&path);
        let expected: Vec<&[u8]> =
            rows.iter().map(|row| records[*row as usize].as_slice()).collect();
        prop_assert_eq!(pack.read_many(&rows).unwrap(), expected.clone());
        let batch = pack.read_many_contiguous(&rows).unwrap();
        prop_assert_eq!(batch.iter().collect::<Vec<_>>(), expected.clone());
        let array = batch.into_arrow().unwrap();
        prop_assert_eq!(array.iter().flatten().collect::<Vec<_>>(), expected);
    }
}

#[test]
fn codecs_of_the_format_give_the_same_records_on_any_number_of_threads() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pack.iac");
    let records = records(700);
    let rows: Vec<u64> = (0..700).rev().chain([5, 5]).collect();
    let mut seen = 0;
    for (name, parameters) in [
        ("zstd", json!({"level": 1})),
        ("brotli", json!({"quality": 1, "lgwin": 18})),
        ("lz4", json!({})),
    ] {
        if !compiled_codecs().contains(&name) {
            continue;
        }
        let Value::Object(parameters) = parameters else { panic!() };
        builder("none", 700)
            .codec_spec(CodecSpec::new(name, parameters))
            .build_streaming(&path, records.iter().map(Ok::<_, std::io::Error>))
            .unwrap();
        for (source, pack) in all_sources(&path) {
            for workers in [1, 3] {
                let options = ReadOptions::default().workers(NonZeroUsize::new(workers));
                let pack = pack.as_ref().unwrap().with_options(&options);
                let pack = VariableRecordPack::from_reader(pack);
                check_reads(&pack, &records, &rows, &format!("{name} {source} {workers}"));
            }
        }
        // Without its checksum, a damaged payload is the codec's to notice.
        let mut payloads: Vec<Vec<u8>> = (0..700)
            .map(|row| PackReader::open(&path).unwrap().read(row).unwrap().to_vec())
            .collect();
        payloads[33].pop();
        payloads[600].clear();
        builder("none", 700)
            .codec_spec(CodecSpec::new(name, Parameters::new()))
            .build_from_payloads(&path, &payloads)
            .unwrap();
        let pack = VariableRecordPack::open(&path).unwrap();
        let error = pack.read_many_contiguous(&rows).unwrap_err();
        assert_eq!((error.kind(), error.row()), (ErrorKind::Decode, Some(600)), "{error}");
        let (found, skipped) = pack.read_many_lossy(&rows).unwrap();
        let left_out: Vec<u64> = skipped.rows.iter().map(|row| row.row).collect();
        assert_eq!(left_out, [600, 33], "{name}");
        for (record, row) in found.iter().zip(&rows) {
            if let Some(record) = record {
                assert_eq!(record, &records[*row as usize], "{name} row {row}");
            }
        }
        seen += 1;
    }
    assert_eq!(seen, 3, "the dependencies of the tests bring these codecs");
}

/// A pack of payloads that are not what the codec makes.
fn pack_of_payloads(path: &Path, codec: &str, payloads: &[Vec<u8>]) {
    builder(codec, payloads.len()).build_from_payloads(path, payloads).unwrap();
}

#[test]
fn the_first_damaged_record_in_the_order_asked_for_fails_the_whole_call() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pack.iac");
    let mut payloads: Vec<Vec<u8>> = (0..3000).map(|row| vec![100, row as u8, 7, 9]).collect();
    payloads.iter_mut().for_each(|payload| payload.extend([1, 2].repeat(20)));
    for bad in [500, 1400, 2600] {
        payloads[bad].push(1);
    }
    pack_of_payloads(&path, "test.runs", &payloads);
    for workers in [1, 3] {
        let options = ReadOptions::default().workers(NonZeroUsize::new(workers));
        let pack = VariableRecordPack::open_with(&path, &options, record_options()).unwrap();
        let forwards: Vec<u64> = (0..3000).collect();
        let backwards: Vec<u64> = (0..3000).rev().collect();
        for (rows, first) in [(forwards, 500), (backwards, 2600)] {
            let error = pack.read_many(&rows).unwrap_err();
            assert_eq!(error.row(), Some(first), "{error}");
            assert_eq!(error.kind(), ErrorKind::Decode);
            assert!(error.to_string().contains(&format!("row {first} of ")), "{error}");
            assert!(error.to_string().contains("half a run"), "{error}");
            let mut batch = pack.read_many_contiguous(&[1, 2]).unwrap();
            let error = pack.read_many_contiguous_into(&rows, &mut batch).unwrap_err();
            assert_eq!(error.row(), Some(first));
            assert!(batch.is_empty() && batch.buffer().is_empty());
            // A row that does not exist is said before anything is decoded.
            let with_missing: Vec<u64> = rows.iter().copied().chain([3000]).collect();
            let error = pack.read_many(&with_missing).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::RowOutOfRange);
            assert_eq!(error.row(), Some(3000));
        }
        let rows: Vec<u64> = (0..3000).rev().collect();
        let (records, skipped) = pack.read_many_lossy(&rows).unwrap();
        let left_out: Vec<(usize, u64)> =
            skipped.rows.iter().map(|row| (row.position, row.row)).collect();
        assert_eq!(left_out, [(399, 2600), (1599, 1400), (2499, 500)]);
        assert!(skipped.rows.iter().all(|row| row.error.kind() == ErrorKind::Decode));
        assert_eq!(records.iter().filter(|record| record.is_none()).count(), 3);
        assert!(records[399].is_none() && records[398].is_some());
        let (batch, skipped) = pack.read_many_contiguous_lossy(&rows).unwrap();
        assert_eq!((batch.len(), skipped.len()), (2997, 3));
        assert!(batch.iter().eq(records.iter().flatten()));
    }
}

#[test]
fn checksums_are_compared_before_anything_is_decoded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pack.iac");
    let records = records(50);
    for codec in CODECS {
        builder(codec, 50).build(&path, &records).unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        let pack = PackReader::open(&path).unwrap();
        let span = pack.span(20).unwrap();
        // The run's byte, or a byte of the text: decodes, but to something else.
        let at = (pack.layout().data.offset + span.offset + span.length - 1) as usize;
        bytes[at] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        for (source, pack) in all_sources(&path) {
            let pack = pack.unwrap();
            let checked = VariableRecordPack::from_reader_with(pack.clone(), record_options());
            let context = format!("{codec} {source}");
            for result in [
                checked.read(20).map(drop),
                checked.read_bytes(20).map(drop),
                checked.read_many(&[19, 20]).map(drop),
                checked.read_many_contiguous(&[20, 21]).map(drop),
            ] {
                let error = result.unwrap_err();
                assert!(matches!(error, ReadError::Checksum { row: 20, .. }), "{context}: {error}");
            }
            assert_eq!(checked.read(21).unwrap(), records[21], "{context}");
            let (found, skipped) = checked.read_many_lossy(&[20, 21]).unwrap();
            assert_eq!(skipped.rows[0].error.kind(), ErrorKind::Checksum, "{context}");
            assert_eq!(found[1].as_ref().unwrap(), &records[21], "{context}");
            let unchecked =
                VariableRecordPack::from_reader_with(pack.with_crc(false), record_options());
            let found = unchecked.read_many(&[20]).unwrap();
            assert_ne!(found[0], records[20], "{context}");
            assert_eq!(unchecked.read(20).unwrap(), found[0], "{context}");
        }
    }
}

#[test]
fn sizes_that_payloads_claim_are_not_believed_beyond_reason() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pack.iac");
    let claim = |size: u64| {
        let mut payload = size.to_le_bytes().to_vec();
        payload.extend([3, b'a']);
        payload
    };
    // Right, a little more, a lot more, more than the limit, more than can be expressed.
    let payloads = [claim(3), claim(1000), claim(1 << 29), claim(1 << 40), claim(u64::MAX)];
    pack_of_payloads(&path, "test.sized_runs", &payloads);
    for source in [SourceKind::Mapped, SourceKind::Positional] {
        let options = ReadOptions::default().source(source);
        let pack = VariableRecordPack::open_with(&path, &options, record_options()).unwrap();
        assert_eq!(pack.read(0).unwrap(), "aaa");
        let kinds = [ErrorKind::Decode, ErrorKind::Decode, ErrorKind::Limit, ErrorKind::Limit];
        for (row, kind) in (1..).zip(kinds) {
            let error = pack.read(row).unwrap_err();
            assert_eq!((error.kind(), error.row()), (kind, Some(row)), "{error}");
            let error = pack.read_many(&[0, row]).unwrap_err();
            assert_eq!((error.kind(), error.row()), (kind, Some(row)), "{error}");
            let error = pack.read_many_contiguous(&[0, row]).unwrap_err();
            assert_eq!((error.kind(), error.row()), (kind, Some(row)), "{error}");
        }
        let unlimited = VariableRecordPack::from_reader_with(
            pack.reader().clone(),
            record_options().limits(Limits::unlimited()),
        );
        for row in 1..5 {
            assert_eq!(unlimited.read(row).unwrap_err().kind(), ErrorKind::Decode);
        }
        let (found, skipped) = pack.read_many_lossy(&[0, 1, 2, 3, 4]).unwrap();
        assert_eq!(found.iter().flatten().count(), 1);
        assert_eq!(skipped.len(), 4);
    }
}

#[test]
fn limits_hold_for_every_way_of_reading() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pack.iac");
    let records = [vec![1_u8; 1000], vec![2; 1001]];
    for codec in &CODECS[1..] {
        builder(codec, 2).build(&path, &records).unwrap();
        let limits = Limits::default().with_max_decoded_bytes(1000);
        let options = record_options().limits(limits);
        let pack = VariableRecordPack::open_with(&path, &ReadOptions::default(), options).unwrap();
        assert_eq!(pack.read_many(&[0, 0]).unwrap(), [&records[0], &records[0]]);
        for result in [
            pack.read(1).map(drop),
            pack.read_many(&[0, 1]).map(drop),
            pack.read_many_contiguous(&[0, 1]).map(drop),
        ] {
            let error = result.unwrap_err();
            assert_eq!((error.kind(), error.row()), (ErrorKind::Limit, Some(1)), "{codec}");
            assert!(error.to_string().contains("1000"), "{error}");
        }
    }
}

#[test]
fn rows_count_from_the_end_only_when_told_to() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pack.iac");
    builder("test.runs", 3).build(&path, &["a", "b", "c"]).unwrap();
    let pack = open(&path);
    assert_eq!(pack.row_from_end(1).unwrap(), 2);
    assert_eq!(pack.row_from_end(3).unwrap(), 0);
    for n in [0, 4, u64::MAX] {
        assert_eq!(pack.row_from_end(n).unwrap_err().kind(), ErrorKind::RowOutOfRange);
    }
    for row in [3, u64::MAX, u64::MAX - 1] {
        assert_eq!(pack.read(row).unwrap_err().kind(), ErrorKind::RowOutOfRange);
    }
}

fn build_with_header(path: &Path, members: Value) {
    let Value::Object(members) = members else { panic!() };
    VariablePackBuilder::new("test", index(1))
        .header(members)
        .options(WriteOptions::new().sync(false).overwrite(true))
        .build(path, &["abc"])
        .unwrap();
}

#[test]
fn a_codec_that_cannot_be_made_is_an_error_of_decoding_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pack.iac");
    let mut cases = vec![
        (json!({"codec": "nope"}), ErrorKind::UnknownCodec, "`nope`"),
        (json!({"codec": null}), ErrorKind::Decode, "`codec`"),
        (json!({"codec": 7}), ErrorKind::Decode, "`codec`"),
        (json!({"codec": "none", "codec_params": [1]}), ErrorKind::Decode, "`codec_params`"),
        (
            json!({"required_extensions": ["iac.checksums", "iac.future"]}),
            ErrorKind::UnsupportedExtension,
            "`iac.future`",
        ),
    ];
    for missing in ["brotli", "zstd", "jxl"] {
        if !compiled_codecs().contains(&missing) {
            cases.push((json!({"codec": missing}), ErrorKind::MissingFeature, missing));
        }
    }
    for (members, kind, names) in cases {
        build_with_header(&path, members);
        let pack = open(&path);
        assert_eq!(pack.read_bytes(0).unwrap(), "abc");
        assert_eq!(pack.reader().view(0).unwrap(), "abc");
        assert_eq!(pack.record_count().unwrap(), 1);
        for result in [
            pack.read(0).map(drop),
            pack.read_many(&[0]).map(drop),
            pack.read_many_contiguous(&[]).map(drop),
            pack.read_many_lossy(&[0]).map(drop),
            pack.codec().map(drop),
        ] {
            let error = result.unwrap_err();
            assert_eq!((error.kind(), error.row()), (kind, None), "{error}");
            assert!(error.to_string().contains(names), "{error}");
            assert!(error.to_string().contains("pack.iac"), "{error}");
        }
    }
    // Nothing of that is wrong.
    for members in [
        json!({"codec_params": null}),
        json!({"codec_params": {"level": 3}}),
        json!({"required_extensions": ["iac.checksums"]}),
    ] {
        build_with_header(&path, members);
        assert_eq!(open(&path).read(0).unwrap(), "abc");
    }
    build_with_header(&path, json!({"required_extensions": ["iac.future"]}));
    let options = record_options().extensions(["iac.future"]);
    let pack = VariableRecordPack::open_with(&path, &ReadOptions::default(), options).unwrap();
    assert_eq!(pack.read(0).unwrap(), "abc");
}

#[test]
fn extensions_that_a_codec_needs_are_written_and_understood() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pack.iac");
    let mut parameters = Parameters::new();
    parameters.insert("extended".into(), true.into());
    let mut extra = Map::new();
    extra.insert("required_extensions".into(), json!(["iac.checksums"]));
    builder("x", 1)
        .codec_spec(CodecSpec::new("test.sized_runs", parameters))
        .header(extra)
        .build(&path, &["abc"])
        .unwrap();
    let pack = open(&path);
    assert_eq!(pack.reader().header().required_extensions(), ["iac.checksums", "test.extended"]);
    assert_eq!(pack.read(0).unwrap(), "abc");
    assert_eq!(pack.codec_spec().unwrap().name(), "test.sized_runs");
}

#[test]
fn a_pack_that_addresses_no_records_has_none_to_decode() {
    for name in ["data_segment_a", "fixed_float32_4x3_a"] {
        let path = data_dir("container").join(format!("{name}.iac"));
        let pack = VariableRecordPack::open(path).unwrap();
        for result in [
            pack.read(0).map(drop),
            pack.read_bytes(0).map(drop),
            pack.read_many(&[]).map(drop),
            pack.read_many_contiguous(&[0]).map(drop),
        ] {
            assert_eq!(result.unwrap_err().kind(), ErrorKind::NoRecordIndex, "{name}");
        }
    }
}

#[test]
fn every_golden_file_decodes_as_the_reference_says_or_names_what_is_missing() {
    let mut decoded = 0;
    for name in golden_names("container") {
        let path = data_dir("container").join(format!("{name}.iac"));
        let expected = json(&path.with_extension("json"));
        let Some(records) = expected.get("records").and_then(Value::as_array) else {
            continue;
        };
        for (source, pack) in all_sources(&path) {
            let pack = VariableRecordPack::from_reader(pack.unwrap());
            let context = format!("{name} ({source})");
            let rows: Vec<u64> = (0..records.len() as u64).rev().collect();
            let is_bytes = records.iter().all(|record| record["decoded"]["kind"] == "bytes");
            let codec = pack.codec_spec().unwrap();
            if !is_bytes || !compiled_codecs().contains(&codec.name()) {
                let error = pack.read_many(&rows).unwrap_err();
                assert!(
                    matches!(
                        error.kind(),
                        ErrorKind::MissingFeature
                            | ErrorKind::Unsupported
                            | ErrorKind::UnknownCodec
                    ),
                    "{context}: {error}"
                );
                continue;
            }
            let found = pack.read_many(&rows).unwrap_or_else(|error| panic!("{context}: {error}"));
            let batch = pack.read_many_contiguous(&rows).unwrap();
            for (at, row) in rows.iter().enumerate() {
                let hash = &records[*row as usize]["decoded"]["sha256"];
                assert_eq!(sha256(&found[at]), *hash, "{context} row {row}");
                assert_eq!(sha256(batch.view(at).unwrap()), *hash, "{context} row {row}");
                assert_eq!(sha256(&pack.read(*row).unwrap()), *hash, "{context} row {row}");
                decoded += 1;
            }
        }
    }
    assert!(decoded > 50, "{decoded}");
}

#[test]
fn malformed_golden_files_fail_in_decoding_and_keep_their_sound_rows() {
    let open = |name: &str| {
        VariableRecordPack::open(data_dir("malformed").join(format!("{name}.iac"))).unwrap()
    };
    let params = open("codec_params_list_a");
    let error = params.read(0).unwrap_err();
    if compiled_codecs().contains(&params.codec_spec().unwrap().name()) {
        assert_eq!((error.kind(), error.field()), (ErrorKind::Decode, Some("codec_params")));
    } else {
        assert_eq!(error.kind(), ErrorKind::MissingFeature);
    }
    let error = open("codec_unknown_a").read(0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnknownCodec);
    let ReadError::Codec { source, .. } = error else { panic!() };
    assert!(matches!(*source, CodecError::Unknown { .. }));
    let crc = open("crc_mismatch_a");
    assert_eq!(crc.read_many(&[0, 1, 2]).unwrap_err().kind(), ErrorKind::Checksum);
    let (found, skipped) = crc.read_many_lossy(&[2, 0, 1]).unwrap();
    assert_eq!((skipped.rows[0].position, skipped.rows[0].row), (0, 2));
    assert_eq!(found.iter().flatten().map(Bytes::len).collect::<Vec<_>>(), [12, 0]);
    let span = open("offset_out_of_range_a");
    let (_, skipped) = span.read_many_contiguous_lossy(&[0, 1, 2]).unwrap();
    assert_eq!((skipped.len(), skipped.rows[0].row), (1, 2));
    assert_eq!(skipped.rows[0].error.kind(), ErrorKind::Damaged);
    assert_eq!(span.read_many_lossy(&[0, 99]).unwrap_err().kind(), ErrorKind::RowOutOfRange);
}
