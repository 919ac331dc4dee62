//! Packs of text that are written and read: order, memory, extra columns, damage, odd content.
#![cfg(feature = "text")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;

use iac_adapters::AdapterError;
use iac_adapters::text::import::FolderPatients;
use iac_adapters::text::{
    BlockError, ClinicalDoc, ClinicalTextReader, ClinicalTextWriter, FolderOptions, PatientText,
    TextColumns, TextFilter, TextReadOptions, TextWriteOptions, WrittenPatient, encode_block,
    write_folder,
};
use iac_adapters::text_pair::{
    ClinicalDocPair, ClinicalTextPairReader, ClinicalTextPairWriter, PatientTextPair,
};
use iac_codec::brotli::BrotliOptions;
use iac_codec::zstd::{ZstdOptions, train_dictionary};
use iac_codec::{Codec, Limits};
use iac_format::ErrorKind;
use iac_reader::{PackReader, ReadOptions};
use iac_writer::{Table, VariablePackBuilder, WriteOptions};
use serde_json::json;

fn quick() -> TextWriteOptions {
    let codec = BrotliOptions::default().with_quality(3).codec().unwrap();
    TextWriteOptions::default().codec(codec).write(WriteOptions::new().sync(false))
}

fn patient(number: usize, docs: usize) -> PatientText {
    let mut patient = PatientText::new(format!("P{number}"));
    patient.institution = format!("site_{}", number % 3);
    for position in 0..docs {
        let mut doc = ClinicalDoc::new(
            format!("P{number}/{position}"),
            format!("note {position} of patient {number}: specimen in formalin. ").repeat(20),
        );
        doc.doc_type = "progress_note".to_owned();
        doc.doc_timestamp = format!("2024010{}", position % 9);
        patient.docs.push(doc);
    }
    patient
}

fn write(path: &Path, options: &TextWriteOptions, patients: &[PatientText]) {
    let mut writer = ClinicalTextWriter::create(path, options).unwrap();
    for patient in patients {
        writer.push(patient).unwrap();
    }
    let summary = writer.finish().unwrap();
    assert_eq!(summary.patients, u64::try_from(patients.len()).unwrap());
}

#[test]
fn the_bytes_do_not_depend_on_threads_or_memory() {
    let folder = tempfile::tempdir().unwrap();
    let patients: Vec<PatientText> = (0..300).map(|number| patient(number, number % 7)).collect();
    let mut files = Vec::new();
    for (workers, memory) in [(1, 64 << 20), (2, 1), (3, 20_000), (8, 64 << 20)] {
        let path = folder.path().join(format!("{workers}.iac"));
        let options = quick().workers(NonZeroUsize::new(workers)).memory(memory);
        write(&path, &options, &patients);
        files.push(fs::read(&path).unwrap());
    }
    assert!(files.iter().all(|file| file == &files[0]));
    let reader = ClinicalTextReader::open(folder.path().join("1.iac")).unwrap();
    let read: Vec<PatientText> = reader.iter().map(Result::unwrap).collect();
    assert_eq!(read, patients);
    for workers in [1, 2, 5] {
        let options = ReadOptions::default().workers(NonZeroUsize::new(workers));
        let path = folder.path().join("1.iac");
        let reader =
            ClinicalTextReader::open_with(path, &options, TextReadOptions::default()).unwrap();
        let rows: Vec<u64> = (0..300).map(|row| row * 7 % 300).collect();
        let many = reader.read_many(&rows).unwrap();
        for (row, found) in rows.iter().zip(&many) {
            assert_eq!(found, &patients[usize::try_from(*row).unwrap()]);
        }
    }
}

#[test]
fn a_patient_that_is_there_already_is_refused_unless_that_is_allowed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.iac");
    let mut writer = ClinicalTextWriter::create(&path, &quick()).unwrap();
    writer.push(&patient(1, 1)).unwrap();
    let error = writer.push(&patient(1, 2)).unwrap_err();
    assert_eq!(
        (error.kind(), error.row(), error.field()),
        (ErrorKind::Schema, Some(1), Some("patient_id"))
    );
    writer.push(&patient(2, 1)).unwrap();
    assert_eq!(writer.finish().unwrap().patients, 2);

    let path = folder.path().join("b.iac");
    write(&path, &quick().duplicates(true), &[patient(1, 1), patient(2, 1), patient(1, 3)]);
    let reader = ClinicalTextReader::open(&path).unwrap();
    assert_eq!(reader.patient_ids().unwrap(), ["P1", "P2"]);
    assert_eq!(reader.rows_of("P1").unwrap(), [0, 2]);
    assert_eq!(reader.read("P1").unwrap().docs.len(), 3);
}

#[test]
fn a_pack_without_patients_is_refused_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.iac");
    let writer = ClinicalTextWriter::create(&path, &quick()).unwrap();
    assert_eq!(writer.finish().unwrap_err().kind(), ErrorKind::Usage);
    let mut writer = ClinicalTextWriter::create(&path, &quick()).unwrap();
    writer.push(&patient(1, 1)).unwrap();
    drop(writer);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn an_existing_file_is_only_replaced_when_that_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.iac");
    write(&path, &quick(), &[patient(1, 1)]);
    let error = ClinicalTextWriter::create(&path, &quick()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exists);
    let replace = quick().write(WriteOptions::new().sync(false).overwrite(true));
    write(&path, &replace, &[patient(2, 1)]);
    assert_eq!(ClinicalTextReader::open(&path).unwrap().patient_ids().unwrap(), ["P2"]);
}

#[test]
fn header_members_of_the_schema_cannot_be_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.iac");
    for name in ["payload_type", "codec", "codec_params", "text_schema_version"] {
        let header = json!({ name: 1 }).as_object().unwrap().clone();
        let error = ClinicalTextWriter::create(&path, &quick().header(header)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage, "{name}");
    }
    let header = json!({ "study": "S1" }).as_object().unwrap().clone();
    write(&path, &quick().header(header), &[patient(1, 1)]);
    let pack = PackReader::open(&path).unwrap();
    assert_eq!(pack.header().members()["study"], "S1");
}

#[test]
fn optional_columns_are_written_and_announced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.iac");
    let patients = [patient(1, 2), patient(2, 0)];
    write(&path, &quick().columns(TextColumns::all()), &patients);
    let pack = PackReader::open(&path).unwrap();
    let extensions = pack.header().members()["extensions"].as_array().unwrap();
    assert!(extensions.contains(&json!("iac.text.columns")));
    let mut lines = Vec::new();
    iac_ops::view::TableView::new(&pack, &iac_ops::view::TableQuery::default())
        .unwrap()
        .write_json_lines(&mut lines, &iac_ops::NoProgress)
        .unwrap();
    let lines = String::from_utf8(lines).unwrap();
    let rows: Vec<serde_json::Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows[0]["doc_ids"], json!(["P1/0", "P1/1"]));
    assert_eq!(rows[0]["doc_types"], json!(["progress_note", "progress_note"]));
    assert_eq!(rows[0]["doc_timestamps"], json!(["20240100", "20240101"]));
    assert_eq!(rows[0]["raw_bytes"], json!(encode_block(&patients[0]).unwrap().len()));
    assert_eq!(rows[1]["doc_ids"], json!([]));
    let read: Vec<PatientText> =
        ClinicalTextReader::open(&path).unwrap().iter().map(Result::unwrap).collect();
    assert_eq!(read, patients);
}

#[test]
fn every_codec_gives_the_patients_back_and_a_dictionary_is_announced() {
    let folder = tempfile::tempdir().unwrap();
    let patients: Vec<PatientText> = (0..200).map(|number| patient(number, 3)).collect();
    let blocks = patients.iter().map(|patient| encode_block(patient).unwrap());
    let dictionary = train_dictionary(blocks, 4096).unwrap();
    let codecs = [
        Codec::none(),
        ZstdOptions::new(3).codec().unwrap(),
        ZstdOptions::new(3).with_dictionary(dictionary).codec().unwrap(),
    ];
    for (number, codec) in codecs.into_iter().enumerate() {
        let path = folder.path().join(format!("{number}.iac"));
        write(&path, &quick().codec(codec), &patients);
        let reader = ClinicalTextReader::open(&path).unwrap();
        assert_eq!(reader.read("P77").unwrap(), patients[77]);
        assert_eq!(reader.read_doc(77, 1).unwrap(), patients[77].docs[1]);
        let required = reader.pack().header().members().get("required_extensions").cloned();
        let expected = (number == 2).then(|| json!(["iac.zstd.dictionary"]));
        assert_eq!(required, expected);
    }
}

#[test]
fn odd_texts_pass_unharmed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.iac");
    let texts = [
        String::new(),
        "\0".to_owned(),
        "\u{feff}病理所见\r\n\u{2028}\r".to_owned(),
        "ورم حميد \u{200f}".to_owned(),
        "e\u{301}\u{1f9ec}\u{10ffff}".to_owned(),
        "x\0é".repeat(2_500_000),
    ];
    let mut patient = PatientText::new("合成\0\"\\\u{1}");
    for (number, text) in texts.iter().enumerate() {
        patient.docs.push(ClinicalDoc::new(format!("{number}\n\u{7f}"), text));
    }
    patient.docs[0].episode_index = i64::MIN;
    patient.docs[1].episode_index = i64::MAX;
    write(&path, &quick(), std::slice::from_ref(&patient));
    let reader = ClinicalTextReader::open(&path).unwrap();
    assert_eq!(reader.read("合成\0\"\\\u{1}").unwrap(), patient);
    assert_eq!(reader.read_doc(0, 5).unwrap(), patient.docs[5]);
}

#[test]
fn institutions_and_counts_need_no_decompression() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.iac");
    let patients: Vec<PatientText> = (0..10).map(|number| patient(number, number)).collect();
    write(&path, &quick(), &patients);
    // Records that cannot be read must not matter.
    let mut bytes = fs::read(&path).unwrap();
    let data = usize::try_from(PackReader::open(&path).unwrap().layout().data.offset).unwrap();
    bytes[data..].fill(0xff);
    let reader = ClinicalTextReader::from_reader(
        PackReader::from_bytes(bytes).unwrap(),
        TextReadOptions::default(),
    )
    .unwrap();
    let filter = TextFilter::default().institution("site_1").institution("site_2").min_docs(4);
    assert_eq!(reader.select(&filter).unwrap(), [4, 5, 7, 8]);
    assert_eq!(reader.select(&filter.max_docs(5)).unwrap(), [4, 5]);
    assert_eq!(reader.select(&TextFilter::default()).unwrap().len(), 10);
    let counts = reader.counts().unwrap();
    assert_eq!(counts.len(), 3);
    assert_eq!((counts["site_0"].rows, counts["site_0"].documents), (4, 18));
    assert_eq!(reader.institution(4).unwrap(), Some("site_1"));
    assert_eq!(reader.num_docs_at(4).unwrap(), Some(4));
    assert_eq!(reader.read_at(4).unwrap_err().kind(), ErrorKind::Checksum);
    assert_eq!(reader.verify_crc(4).unwrap_err().kind(), ErrorKind::Checksum);
}

/// A pack with these blocks as they are.
fn pack_of(path: &Path, blocks: &[Vec<u8>], ids: &[&str]) -> PackReader {
    let column: arrow_array::ArrayRef =
        std::sync::Arc::new(arrow_array::StringArray::from(ids.to_vec()));
    let batch = arrow_array::RecordBatch::try_from_iter([("patient_id", column)]).unwrap();
    VariablePackBuilder::new("clinical_text", Table::from(batch))
        .codec(BrotliOptions::default().with_quality(2).codec().unwrap())
        .options(WriteOptions::new().sync(false))
        .build(path, blocks)
        .unwrap();
    PackReader::open(path).unwrap()
}

#[test]
fn a_manifest_and_an_early_document_are_read_without_what_lies_behind() {
    let folder = tempfile::tempdir().unwrap();
    let mut patient = PatientText::new("P");
    let mut state = 1_u64;
    for number in 0..200 {
        let mut text = String::new();
        while text.len() < 2000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            text.push_str(&format!("{state:x} "));
        }
        patient.docs.push(ClinicalDoc::new(format!("{number}"), text));
    }
    let block = encode_block(&patient).unwrap();
    let path = folder.path().join("a.iac");
    let pack = pack_of(&path, &[block], &["P"]);
    let span = pack.span(0).unwrap();
    let data = pack.layout().data.offset;
    let mut bytes = fs::read(&path).unwrap();
    // The second half of the record is lost; nobody compares it with its checksum.
    let middle = usize::try_from(data + span.offset + span.length / 2).unwrap();
    bytes[middle..].fill(0);
    let open = |check: bool| {
        let pack = PackReader::from_bytes(bytes.clone()).unwrap().with_crc(check);
        ClinicalTextReader::from_reader(pack, TextReadOptions::default()).unwrap()
    };
    let reader = open(false);
    assert_eq!(reader.read_manifest_at(0).unwrap().docs.len(), 200);
    assert_eq!(reader.read_doc(0, 19).unwrap(), patient.docs[19]);
    assert_eq!(reader.read_doc_by_id(0, "7").unwrap().unwrap(), (7, patient.docs[7].clone()));
    reader.read_doc(0, 199).unwrap_err();
    reader.read_at(0).unwrap_err();
    assert_eq!(open(true).read_manifest_at(0).unwrap_err().kind(), ErrorKind::Checksum);
}

#[test]
fn bombs_and_lying_manifests_stay_within_the_limits() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.iac");
    let mut bomb = encode_block(&PatientText::new("P")).unwrap();
    bomb.resize(40_000_000, b'x');
    let mut lying = u32::MAX.to_le_bytes().to_vec();
    lying.extend_from_slice(b"{}");
    let pack = pack_of(&path, &[bomb, lying, u32::MAX.to_le_bytes().to_vec()], &["a", "b", "c"]);
    let options =
        TextReadOptions::default().limits(Limits::default().with_max_decoded_bytes(1 << 20));
    let reader = ClinicalTextReader::from_reader(pack, options).unwrap();
    assert_eq!(reader.read_at(0).unwrap_err().kind(), ErrorKind::Limit);
    // The manifest lies before the bomb.
    assert_eq!(reader.read_manifest_at(0).unwrap().patient_id, "P");
    for row in [1, 2] {
        for error in [
            reader.read_at(row).unwrap_err(),
            reader.read_manifest_at(row).unwrap_err(),
            reader.read_doc(row, 0).unwrap_err(),
        ] {
            let AdapterError::Block { source, .. } = error else { panic!("{error}") };
            let overrun =
                matches!(*source, BlockError::ManifestOverrun { manifest: 0xffff_ffff, .. });
            assert!(overrun, "{source}");
        }
    }
}

#[test]
fn block_and_index_that_differ_are_an_error_in_strict_reading_only() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.iac");
    let pack = pack_of(&path, &[encode_block(&patient(1, 1)).unwrap()], &["other"]);
    let reader = ClinicalTextReader::from_reader(pack.clone(), TextReadOptions::default()).unwrap();
    assert_eq!(reader.read("other").unwrap().patient_id, "P1");
    let strict = TextReadOptions::default().strict(true);
    let reader = ClinicalTextReader::from_reader(pack, strict).unwrap();
    let error = reader.read("other").unwrap_err();
    assert!(error.to_string().contains("\"P1\" in the block, but \"other\""), "{error}");
}

#[test]
fn a_damaged_patient_ends_iteration_behind_those_before_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.iac");
    let sound = |number| encode_block(&patient(number, 1)).unwrap();
    let pack =
        pack_of(&path, &[sound(0), sound(1), b"abc".to_vec(), sound(3)], &["a", "b", "c", "d"]);
    let reader = ClinicalTextReader::from_reader(pack, TextReadOptions::default()).unwrap();
    let read: Vec<Result<PatientText, AdapterError>> = reader.iter().collect();
    assert_eq!(read.len(), 3);
    assert!(read[0].is_ok() && read[1].is_ok());
    assert_eq!(read[2].as_ref().unwrap_err().row(), Some(2));
}

#[test]
fn a_newer_schema_is_refused_with_its_version() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.iac");
    let column: arrow_array::ArrayRef =
        std::sync::Arc::new(arrow_array::StringArray::from(vec!["a"]));
    let index =
        Table::from(arrow_array::RecordBatch::try_from_iter([("patient_id", column)]).unwrap());
    for (version, kind) in [
        (json!(2), Some(ErrorKind::Unsupported)),
        (json!("1"), Some(ErrorKind::Schema)),
        (json!(0), Some(ErrorKind::Schema)),
        (json!(1), None),
    ] {
        let header = json!({ "text_schema_version": version }).as_object().unwrap().clone();
        VariablePackBuilder::new("clinical_text", index.clone())
            .header(header)
            .options(WriteOptions::new().sync(false).overwrite(true))
            .build(&path, &[b"\x02\0\0\0{}"])
            .unwrap();
        let opened = ClinicalTextReader::open(&path);
        assert_eq!(opened.err().map(|error| error.kind()), kind, "{version}");
    }
}

#[test]
fn pairs_keep_both_texts_and_their_sums() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.iac");
    let mut patient = PatientTextPair::new("P");
    patient.docs.push(ClinicalDocPair::new("1", "a long one, é", "short"));
    patient.docs.push(ClinicalDocPair::new("2", "", "x"));
    let mut writer = ClinicalTextPairWriter::create(&path, &quick()).unwrap();
    writer.push(&patient).unwrap();
    let summary = writer.finish().unwrap();
    assert_eq!((summary.documents, summary.text_bytes), (2, 20));
    let reader = ClinicalTextPairReader::open(&path).unwrap();
    assert_eq!(reader.read("P").unwrap(), patient);
    assert_eq!(reader.read_doc(0, 1).unwrap(), patient.docs[1]);
    let manifest = reader.read_manifest_at(0).unwrap();
    assert_eq!(manifest.docs[0].spans.map(|span| (span.offset, span.length)), [(0, 14), (14, 5)]);
}

#[test]
fn patients_become_folders_that_can_be_packed_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.iac");
    let mut patients = vec![patient(1, 2), patient(2, 1)];
    patients[0].docs[0].doc_id = "../x".to_owned();
    patients[0].docs[1].doc_id = "b".to_owned();
    patients[1].docs[0].doc_id = "patient".to_owned();
    write(&path, &quick(), &patients);
    let reader = ClinicalTextReader::open(&path).unwrap();
    let out = folder.path().join("out");
    let options = FolderOptions::default();
    let mut told = Vec::new();
    let mut tell = |patient: WrittenPatient| {
        told.push(serde_json::to_value(patient).unwrap());
        Ok(())
    };
    let summary = write_folder(&reader, &out, &options, &iac_ops::NoProgress, &mut tell).unwrap();
    assert_eq!((summary.patients, summary.files, summary.renamed), (2, 3, 2));
    assert_eq!(fs::read_to_string(out.join("P1/_.._x.txt")).unwrap(), patients[0].docs[0].text);
    assert_eq!(fs::read_to_string(out.join("P2/patient~2.txt")).unwrap(), patients[1].docs[0].text);
    let about: serde_json::Value =
        serde_json::from_slice(&fs::read(out.join("P1/patient.json")).unwrap()).unwrap();
    assert_eq!(about["docs"][0]["doc_id"], "../x");
    assert_eq!(about["docs"][0]["files"]["text"], "_.._x.txt");
    assert_eq!(told.len(), 2);
    assert_eq!((&told[1]["row"], &told[1]["dir"]), (&json!(1), &json!("P2")));
    for name in ["patient_id", "institution", "docs"] {
        assert_eq!(told[0][name], about[name]);
    }
    let bytes = patients[0].docs[0].text.len();
    assert_eq!(told[0]["docs"][0]["bytes"], json!(bytes));
    let mut quiet = |_| Ok(());
    let error =
        write_folder(&reader, &out, &options, &iac_ops::NoProgress, &mut quiet).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exists);
    let some = FolderOptions::default().rows(vec![1]).overwrite(true);
    let summary = write_folder(&reader, &out, &some, &iac_ops::NoProgress, &mut quiet).unwrap();
    assert_eq!(summary.patients, 1);
    let again: Vec<PatientText> = FolderPatients::open(&out).unwrap().map(Result::unwrap).collect();
    assert_eq!(again.len(), 2);
    assert_eq!(again[0].docs.len(), 2);
}

#[test]
fn many_threads_read_by_row_id_and_document_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.iac");
    let mut patients: Vec<PatientText> =
        (0..60).map(|number| patient(number, number % 5)).collect();
    // Twice the same id: the last one counts.
    patients[59].patient_id = "P7".to_owned();
    write(&path, &quick().duplicates(true).columns(TextColumns::all()), &patients);
    let reader = ClinicalTextReader::open(&path).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..8_u64 {
            let (reader, patients) = (reader.clone(), &patients);
            scope.spawn(move || {
                for step in 0..200_u64 {
                    let row = (step * 7 + thread * 11) % 60;
                    let expected = &patients[usize::try_from(row).unwrap()];
                    match step % 4 {
                        0 => assert_eq!(&reader.read_at(row).unwrap(), expected),
                        1 => {
                            let read = reader.read_many(&[row, 7, row]).unwrap();
                            assert_eq!((&read[0], &read[1]), (expected, &patients[7]));
                            assert_eq!(read[0], read[2]);
                        }
                        2 => {
                            let id = &expected.patient_id;
                            let expected = if id == "P7" { &patients[59] } else { expected };
                            assert_eq!(&reader.read(id).unwrap(), expected);
                        }
                        _ => {
                            let docs = reader.read_manifest_at(row).unwrap().docs;
                            assert_eq!(docs.len(), expected.docs.len());
                            for (number, doc) in (0..).zip(&expected.docs) {
                                assert_eq!(&reader.read_doc(row, number).unwrap(), doc);
                            }
                        }
                    }
                }
            });
        }
    });
    assert_eq!(reader.rows_of("P7").unwrap(), [7, 59]);
    assert_eq!(reader.patient_ids().unwrap().len(), 59);
}

#[test]
fn texts_that_overlap_come_in_any_order_or_leave_bytes_out_are_legal() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.iac");
    let body = "abcé病def".as_bytes();
    let block = |docs: &[(u64, u64)]| {
        let docs: Vec<String> = docs
            .iter()
            .map(|(at, bytes)| {
                format!("{{\"doc_id\": \"d\", \"offset\": {at}, \"length\": {bytes}}}")
            })
            .collect();
        let manifest = format!("{{\"docs\": [{}], \"other\": [1, {{}}]}}", docs.join(", "));
        let mut block = u32::try_from(manifest.len()).unwrap().to_le_bytes().to_vec();
        block.extend_from_slice(manifest.as_bytes());
        block.extend_from_slice(body);
        block
    };
    let end = u64::try_from(body.len()).unwrap();
    let blocks = [
        block(&[(5, 3), (0, 8), (3, 2), (end, 0), (u64::MAX, 0)]),
        block(&[(0, end + 1)]),
        block(&[(u64::MAX, 2)]),
        block(&[(1, u64::MAX)]),
        block(&[(0, 4)]),
        block(&[(4, 4)]),
    ];
    let pack = pack_of(&path, &blocks, &["a", "b", "c", "d", "e", "f"]);
    let reader = ClinicalTextReader::from_reader(pack, TextReadOptions::default()).unwrap();
    let read = reader.read_at(0).unwrap();
    let texts: Vec<&str> = read.docs.iter().map(|doc| doc.text.as_str()).collect();
    assert_eq!(texts, ["病", "abcé病", "é", "", ""]);
    for row in 1..6 {
        for error in [reader.read_at(row).unwrap_err(), reader.read_doc(row, 0).unwrap_err()] {
            let AdapterError::Block { source, .. } = error else { panic!("{error}") };
            let name = if row < 4 { "span" } else { "text_not_utf8" };
            assert_eq!(source.name(), name, "row {row}: {source}");
        }
    }
}
