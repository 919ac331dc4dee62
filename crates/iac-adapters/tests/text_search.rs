//! Searching packs of text.
#![cfg(feature = "text-search")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use std::fs;
use std::path::{Path, PathBuf};

use iac_adapters::text::search::{SearchHit, SearchIndex, build_index, index_folder};
use iac_adapters::text::{
    ClinicalDoc, ClinicalTextReader, ClinicalTextWriter, PatientText, TextWriteOptions,
};
use iac_adapters::text_pair::{
    ClinicalDocPair, ClinicalTextPairReader, ClinicalTextPairWriter, PatientTextPair,
};
use iac_codec::zstd::ZstdOptions;
use iac_format::ErrorKind;
use iac_ops::NoProgress;
use iac_writer::WriteOptions;

fn options() -> TextWriteOptions {
    TextWriteOptions::default()
        .codec(ZstdOptions::new(1).codec().unwrap())
        .write(WriteOptions::new().sync(false).overwrite(true))
}

const TEXTS: [&str; 5] = [
    "Specimen in formalin. No residual tumour in the margins.",
    "Residual disease cannot be excluded; tumour markers are rising.",
    "病理所见：未见癌细胞。",
    "ورم حميد في الرئة",
    "Cafe\u{301} au lait spots, pT2N0, 3.5 mm.",
];

fn pack(folder: &Path, texts: &[&str]) -> PathBuf {
    let path = folder.join("notes.iac");
    let mut writer = ClinicalTextWriter::create(&path, &options()).unwrap();
    for (number, text) in texts.iter().enumerate() {
        let mut patient = PatientText::new(format!("P{number}"));
        patient.institution = "site".to_owned();
        patient.docs.push(ClinicalDoc::new("empty", ""));
        patient.docs.push(ClinicalDoc::new(format!("P{number}/1"), *text));
        patient.docs[1].doc_type = if number == 0 { "pathology" } else { "other" }.to_owned();
        writer.push(&patient).unwrap();
    }
    writer.finish().unwrap();
    path
}

fn rows(hits: &[SearchHit]) -> Vec<u64> {
    let mut rows: Vec<u64> = hits.iter().map(|hit| hit.row).collect();
    rows.sort_unstable();
    rows
}

#[test]
fn words_phrases_and_labels_find_documents_of_any_script() {
    let folder = tempfile::tempdir().unwrap();
    let reader = ClinicalTextReader::open(pack(folder.path(), &TEXTS)).unwrap();
    assert_eq!(build_index(&reader, &NoProgress).unwrap(), 10);
    let index = SearchIndex::open(&reader).unwrap();
    assert_eq!(index.documents(), 10);
    for (query, expected) in [
        ("residual TUMOUR", &[0, 1][..]),
        ("\"residual tumour\"", &[0]),
        ("residual -markers", &[0]),
        ("formalin OR rising", &[0, 1]),
        ("癌细胞", &[2]),
        ("细癌", &[]),
        ("病理", &[2]),
        ("حميد", &[3]),
        ("CAFÉ", &[4]),
        ("pt2n0", &[4]),
        ("tumour doc_type:pathology", &[0]),
        ("patient_id:P3", &[3, 3]),
        ("nothing", &[]),
    ] {
        let hits = index.search(query, 10).unwrap();
        assert_eq!(rows(&hits), expected, "{query}");
        for hit in &hits {
            assert_eq!(hit.patient_id, format!("P{}", hit.row));
            for (start, end) in &hit.highlights {
                assert!(hit.snippet.get(*start..*end).is_some_and(|part| !part.is_empty()));
            }
        }
    }
    let hits = index.search("\"residual tumour\"", 10).unwrap();
    assert_eq!((hits[0].doc_id.as_str(), hits[0].document, hits[0].field), ("P0/1", 1, "text"));
    assert!(hits[0].snippet.contains("No residual tumour"), "{hits:?}");
    assert_eq!(index.search("residual", 1).unwrap().len(), 1);
    assert!(index.search("residual", 0).unwrap().is_empty());
    assert_eq!(index.search("residual", usize::MAX).unwrap().len(), 2);
    let error = index.search("\"open", 10).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
}

#[test]
fn an_index_of_another_content_is_refused_and_a_new_one_replaces_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = pack(folder.path(), &TEXTS);
    let reader = ClinicalTextReader::open(&path).unwrap();
    let message = SearchIndex::open(&reader).unwrap_err().to_string();
    assert!(message.contains("no index yet"), "{message}");
    build_index(&reader, &NoProgress).unwrap();
    SearchIndex::open(&reader).unwrap();

    pack(folder.path(), &["tumour", "x"]);
    let reader = ClinicalTextReader::open(&path).unwrap();
    let error = SearchIndex::open(&reader).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
    assert!(error.to_string().contains("another content"), "{error}");
    build_index(&reader, &NoProgress).unwrap();
    assert_eq!(rows(&SearchIndex::open(&reader).unwrap().search("tumour", 5).unwrap()), [0]);
    let mut names: Vec<String> = fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["notes.iac", "notes.iac.index"]);
}

#[test]
fn only_an_index_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = pack(folder.path(), &["x"]);
    let reader = ClinicalTextReader::open(&path).unwrap();
    let target = index_folder(&path);
    fs::create_dir(&target).unwrap();
    fs::write(target.join("precious"), "x").unwrap();
    assert_eq!(build_index(&reader, &NoProgress).unwrap_err().kind(), ErrorKind::Usage);
    assert!(target.join("precious").exists());
}

#[cfg(unix)]
#[test]
fn an_index_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = pack(folder.path(), &["x"]);
    build_index(&ClinicalTextReader::open(&path).unwrap(), &NoProgress).unwrap();
    let mode = fs::metadata(index_folder(&path)).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}

#[test]
fn both_texts_of_a_pair_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pairs.iac");
    let mut writer = ClinicalTextPairWriter::create(&path, &options()).unwrap();
    let mut patient = PatientTextPair::new("P");
    patient.docs.push(ClinicalDocPair::new("1", "a long report", "in short"));
    writer.push(&patient).unwrap();
    writer.finish().unwrap();
    let reader = ClinicalTextPairReader::open(&path).unwrap();
    build_index(&reader, &NoProgress).unwrap();
    let index = SearchIndex::open(&reader).unwrap();
    assert_eq!(index.search("report", 5).unwrap()[0].field, "source_text");
    assert_eq!(index.search("short", 5).unwrap()[0].field, "compressed_text");
}

fn copied(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

#[test]
fn an_index_of_another_pack_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let other = tempfile::tempdir().unwrap();
    let path = pack(folder.path(), &["tumour"]);
    let foreign = pack(other.path(), &["another tumour"]);
    build_index(&ClinicalTextReader::open(&foreign).unwrap(), &NoProgress).unwrap();
    copied(&index_folder(&foreign), &index_folder(&path));
    let reader = ClinicalTextReader::open(&path).unwrap();
    let message = SearchIndex::open(&reader).unwrap_err().to_string();
    assert!(message.contains("another content"), "{message}");
}

#[test]
fn an_index_with_any_altered_shortened_or_added_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = pack(folder.path(), &TEXTS);
    let reader = ClinicalTextReader::open(&path).unwrap();
    build_index(&reader, &NoProgress).unwrap();
    let target = index_folder(&path);
    let names: Vec<_> = fs::read_dir(&target)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|file| file.extension().is_none_or(|ending| ending != "lock"))
        .collect();
    assert!(names.len() > 5, "{names:?}");
    let refused = |what: &str, file: &Path| {
        let error = SearchIndex::open(&reader).err().unwrap_or_else(|| panic!("{what} {file:?}"));
        assert_eq!(error.kind(), ErrorKind::Usage, "{what} {file:?}: {error}");
        assert!(error.to_string().contains("make it anew"), "{what} {file:?}: {error}");
    };
    for file in &names {
        let sound = fs::read(file).unwrap();
        if file.file_name().unwrap() != "iac-index.json" && !sound.is_empty() {
            for at in [0, sound.len() / 2, sound.len() - 1] {
                let mut bytes = sound.clone();
                bytes[at] ^= 0x20;
                fs::write(file, &bytes).unwrap();
                refused("altered", file);
            }
        }
        fs::write(file, &sound[..sound.len() / 2]).unwrap();
        refused("shortened", file);
        fs::remove_file(file).unwrap();
        refused("removed", file);
        fs::write(file, &sound).unwrap();
        SearchIndex::open(&reader).unwrap();
    }
    let added = target.join("0123456789abcdef0123456789abcdef.store");
    fs::write(&added, "x").unwrap();
    refused("added", &added);
    // A new one helps in any case.
    build_index(&reader, &NoProgress).unwrap();
    SearchIndex::open(&reader).unwrap();
}

#[cfg(unix)]
#[test]
fn links_in_the_place_of_an_index_or_its_files_are_not_followed() {
    use std::os::unix::fs::symlink;
    let folder = tempfile::tempdir().unwrap();
    let path = pack(folder.path(), &TEXTS);
    let reader = ClinicalTextReader::open(&path).unwrap();
    build_index(&reader, &NoProgress).unwrap();
    let target = index_folder(&path);
    let elsewhere = folder.path().join("elsewhere");
    fs::rename(&target, &elsewhere).unwrap();
    symlink(&elsewhere, &target).unwrap();
    assert_eq!(SearchIndex::open(&reader).unwrap_err().kind(), ErrorKind::Usage);
    assert_eq!(build_index(&reader, &NoProgress).unwrap_err().kind(), ErrorKind::Usage);
    assert!(elsewhere.join("meta.json").exists());

    fs::remove_file(&target).unwrap();
    copied(&elsewhere, &target);
    SearchIndex::open(&reader).unwrap();
    for name in ["meta.json", "iac-index.json"] {
        fs::remove_file(target.join(name)).unwrap();
        symlink(elsewhere.join(name), target.join(name)).unwrap();
        assert_eq!(SearchIndex::open(&reader).unwrap_err().kind(), ErrorKind::Usage, "{name}");
        fs::remove_file(target.join(name)).unwrap();
        fs::copy(elsewhere.join(name), target.join(name)).unwrap();
    }
    SearchIndex::open(&reader).unwrap();
}

#[test]
fn queries_that_nobody_types_are_answered_or_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = pack(folder.path(), &TEXTS);
    let reader = ClinicalTextReader::open(&path).unwrap();
    build_index(&reader, &NoProgress).unwrap();
    let index = SearchIndex::open(&reader).unwrap();
    for query in [
        "(".repeat(100_000),
        format!("{}tumour{}", "(".repeat(8), ")".repeat(8)),
        format!("{}tumour{}", "(".repeat(9), ")".repeat(9)),
        "tumour ".repeat(1000),
        "-".repeat(8000),
        "\"".repeat(8000),
        "a:".repeat(4000),
        "text:/(a{1000}){1000}/".to_owned(),
        "text:[* TO *]".to_owned(),
        "*".to_owned(),
        "tumour^1e400".to_owned(),
        "\u{202e}\u{0}".to_owned(),
        String::new(),
        "x".repeat(100_000),
    ] {
        let start = std::time::Instant::now();
        match index.search(&query, 5) {
            Ok(hits) => assert!(hits.len() <= 5),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Usage, "{error}"),
        }
        let shown: String = query.chars().take(40).collect();
        assert!(start.elapsed().as_secs() < 5, "{shown}");
    }
}
