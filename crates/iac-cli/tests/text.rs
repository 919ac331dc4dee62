//! Packs of clinical text at the command line.
#![cfg(feature = "text")]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

mod common;

use std::fs;
use std::path::Path;

use common::iac as run;
use serde_json::{Value, json};

fn patients() -> Vec<Value> {
    vec![
        json!({"patient_id": "P1", "institution": "a", "docs": [
            {"doc_id": "P1/1", "text": "No residual tumour.\n", "doc_type": "pathology",
             "encounter": "", "doc_category": "", "source": "", "doc_timestamp": "2024",
             "episode_index": 3},
            {"doc_id": "P1/2", "text": "\u{1b}[31m病理", "doc_type": "", "encounter": "",
             "doc_category": "", "source": "", "doc_timestamp": "", "episode_index": -1},
        ]}),
        json!({"patient_id": "P2", "institution": "b", "docs": []}),
    ]
}

fn lines(patients: &[Value]) -> String {
    patients.iter().map(|patient| format!("{patient}\n")).collect()
}

fn packed(folder: &Path) -> String {
    let source = folder.join("patients.jsonl");
    fs::write(&source, lines(&patients())).unwrap();
    let pack = folder.join("notes.iac").to_str().unwrap().to_owned();
    run(["pack", "text", source.to_str().unwrap(), "-o", &pack, "--quality", "5"]).succeeded();
    pack
}

#[test]
fn patients_are_packed_shown_and_exported_again() {
    let folder = tempfile::tempdir().unwrap();
    let pack = packed(folder.path());
    let shown = run(["text", "show", &pack, "P1", "--json"]).succeeded().json();
    assert_eq!(shown, patients()[0]);
    let shown = run(["text", "show", &pack, "--row", "1", "--json"]).succeeded().json();
    assert_eq!(shown, patients()[1]);
    let doc = run(["text", "show", &pack, "P1", "--doc", "P1/1"]).succeeded();
    assert_eq!(doc.text(), "No residual tumour.\n");
    let list = run(["text", "show", &pack, "P1", "--list", "--json"]).succeeded().json();
    assert_eq!(list["docs"][0]["bytes"], 20);
    assert_eq!(list["docs"][1]["doc_id"], "P1/2");
    let page = run(["text", "show", &pack, "P1"]).succeeded();
    assert!(page.text().contains("P1  a  2 documents"), "{}", page.text());
    assert!(page.text().contains("pathology  2024  episode 3"));
    let out = run(["text", "export", &pack]).succeeded();
    assert_eq!(out.json_lines(), patients());
    let out = run(["text", "export", &pack, "--institution", "b"]).succeeded();
    assert_eq!(out.json_lines(), patients()[1..]);
    let file = folder.path().join("again.jsonl");
    run(["text", "export", &pack, "-o", file.to_str().unwrap()]).succeeded();
    let again: Vec<Value> = fs::read_to_string(&file)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(again, patients());
    let dir = folder.path().join("out");
    let arguments = ["text", "export", &pack, "--dir", dir.to_str().unwrap(), "--json"];
    let told = run(arguments).succeeded().json_lines();
    assert_eq!(told.len(), 3);
    assert_eq!(told[2]["summary"]["files"], 2);
    assert_eq!(fs::read_to_string(dir.join("P1/P1_1.txt")).unwrap(), "No residual tumour.\n");
    run(arguments).ended_with(2);
    let dir = folder.path().join("extracted");
    run(["extract", &pack, "--dir", dir.to_str().unwrap(), "--rows", "1"]).succeeded();
    assert!(dir.join("P2/patient.json").exists() && !dir.join("P1").exists());
    let dir = folder.path().join("listed");
    let told =
        run(["extract", &pack, "--dir", dir.to_str().unwrap(), "--json"]).succeeded().json_lines();
    assert_eq!(told.len(), 3);
    for (row, (line, patient)) in told.iter().zip(patients()).enumerate() {
        assert_eq!(line["row"], json!(row));
        assert_eq!(line["patient_id"], patient["patient_id"]);
        assert_eq!(line["institution"], patient["institution"]);
        let docs = line["docs"].as_array().unwrap();
        assert_eq!(docs.len(), patient["docs"].as_array().unwrap().len());
        for (doc, mut whole) in docs.iter().zip(patient["docs"].as_array().unwrap().clone()) {
            let home = dir.join(line["dir"].as_str().unwrap());
            let text = fs::read_to_string(home.join(doc["files"]["text"].as_str().unwrap()));
            let text = text.unwrap();
            assert_eq!(doc["bytes"], json!(text.len()));
            // With the texts in place of the files it is what was packed.
            let mut again = doc.as_object().unwrap().clone();
            again.remove("files");
            again.remove("bytes");
            assert_eq!(whole.as_object_mut().unwrap().remove("text"), Some(json!(text)));
            assert_eq!(json!(again), whole);
        }
    }
    assert_eq!(told[2]["summary"]["patients"], 2);
    let counts = run(["text", "counts", &pack, "--json"]).succeeded().json();
    assert_eq!(counts["documents"], 2);
    assert_eq!(counts["institutions"]["b"], json!({"rows": 1, "documents": 0}));
    let rows = run(["ls", &pack, "--json"]).succeeded().json_lines();
    assert_eq!((&rows[0]["patient_id"], &rows[0]["num_docs"]), (&json!("P1"), &json!(2)));
}

#[test]
fn pairs_are_listed_counted_and_extracted_too() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("pairs.jsonl");
    let pair = json!({"patient_id": "P1", "institution": "a", "docs": [
        {"doc_id": "1", "source_text": "A long report.", "compressed_text": "Short."}]});
    fs::write(&source, format!("{pair}\n")).unwrap();
    let pack = folder.path().join("pairs.iac").to_str().unwrap().to_owned();
    let arguments = ["pack", "text-pair", source.to_str().unwrap(), "-o", &pack];
    run(arguments.into_iter().chain(["--index-columns"])).succeeded();
    let rows = run(["ls", &pack, "--json"]).succeeded().json_lines();
    assert_eq!(rows[0]["source_raw_bytes"], 14);
    assert_eq!(rows[0]["compressed_raw_bytes"], 6);
    let stats = run(["stats", &pack, "--json"]).succeeded().json();
    assert_eq!(stats["documents"], 1);
    assert_eq!(stats["decoded_bytes"], rows[0]["raw_bytes"]);
    assert_eq!(stats["groups"][1]["column"], "institution");
    let dir = folder.path().join("out");
    let told = run(["extract", &pack, "--dir", dir.to_str().unwrap(), "--json"]).succeeded();
    let line = &told.json_lines()[0];
    let files = &line["docs"][0]["files"];
    assert_eq!(files["source_text"], "1.source_text.txt");
    let file = dir.join("P1").join(files["compressed_text"].as_str().unwrap());
    assert_eq!(fs::read_to_string(file).unwrap(), "Short.");
}

#[test]
fn what_cannot_be_shown_is_a_usage_error() {
    let folder = tempfile::tempdir().unwrap();
    let pack = packed(folder.path());
    run(["text", "show", &pack, "P9"]).ended_with(2);
    run(["text", "show", &pack, "P1", "--doc", "nothing"]).ended_with(2);
    run(["text", "show", &pack, "--row", "2"]).ended_with(2);
    run(["text", "show", &pack]).ended_with(2);
    let dir = folder.path().join("out");
    run(["extract", &pack, "--dir", dir.to_str().unwrap(), "--rows", "7"]).ended_with(2);
    let raw = folder.path().join("raw.iac");
    let source = folder.path().join("patients.jsonl");
    run(["pack", "raw", source.to_str().unwrap(), "-o", raw.to_str().unwrap()]).succeeded();
    run(["text", "show", raw.to_str().unwrap(), "P1"]).ended_with(1);
}

#[test]
fn bad_sources_are_told_with_their_place_and_leave_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("patients.jsonl");
    let pack = folder.path().join("notes.iac");
    let (source_text, pack_text) = (source.to_str().unwrap(), pack.to_str().unwrap());
    for (text, code, message) in [
        (format!("{}{}", patients()[0], patients()[0]), 1, "is there already"),
        ("{\"patient_id\": 1}".to_owned(), 1, "patients.jsonl:1:"),
        (String::new(), 2, "no patient"),
    ] {
        fs::write(&source, text).unwrap();
        let run = run(["pack", "text", source_text, "-o", pack_text]).ended_with(code);
        assert!(run.err.contains(message), "{}", run.err);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
    fs::write(&source, lines(&patients())).unwrap();
    run(["pack", "text", source_text, "-o", pack_text, "--quality", "12"]).ended_with(2);
    run(["pack", "text-pair", source_text, "-o", pack_text]).ended_with(1);
    run(["pack", "text", source_text, "-o", pack_text, "--quality", "1"]).succeeded();
    run(["pack", "text", source_text, "-o", pack_text, "--quality", "1"]).ended_with(2);
}

#[test]
fn tables_and_folders_are_packed() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("notes.csv");
    fs::write(&table, "MRN,doc_id,source_text,compressed_text\nP,1,\"long, one\",short\n").unwrap();
    let pack = folder.path().join("pairs.iac");
    let pack = pack.to_str().unwrap();
    let table = table.to_str().unwrap();
    let column = ["--column", "patient_id=MRN", "--institution", "here"];
    let arguments = ["pack", "text-pair", table, "-o", pack, "--quality", "1", "--json"];
    let summary = run(arguments.into_iter().chain(column)).succeeded().json();
    assert_eq!((&summary["patients"], &summary["text_bytes"]), (&json!(1), &json!(14)));
    let patient = run(["text", "show", pack, "P", "--json"]).succeeded().json();
    assert_eq!(patient["docs"][0]["compressed_text"], "short");
    assert_eq!(patient["institution"], "here");

    let notes = folder.path().join("notes");
    fs::create_dir_all(notes.join("P7")).unwrap();
    fs::write(notes.join("P7/a.txt"), "one").unwrap();
    let pack = folder.path().join("folder.iac");
    let pack = pack.to_str().unwrap();
    let codec = ["--codec", "zstd:level=3", "--index-columns"];
    let arguments = ["pack", "text", notes.to_str().unwrap(), "-o", pack];
    run(arguments.into_iter().chain(codec)).succeeded();
    let rows = run(["ls", pack, "--json"]).succeeded().json_lines();
    assert_eq!(rows[0]["doc_ids"], json!(["a"]));
}

#[test]
fn these_packs_are_verified_and_validated() {
    let folder = tempfile::tempdir().unwrap();
    let pack = packed(folder.path());
    run(["verify", &pack]).succeeded();
    let check = run(["validate", "--input", &pack]).succeeded();
    assert_eq!(
        check.text().trim_end(),
        "package_valid type=clinical_text records=2 codec=brotli decoded=2 crc_checked=2"
    );
}

#[cfg(feature = "text-search")]
#[test]
fn texts_are_found_once_they_are_indexed() {
    let folder = tempfile::tempdir().unwrap();
    let pack = packed(folder.path());
    let run_before = run(["text", "search", &pack, "tumour"]).ended_with(2);
    assert!(run_before.err.contains("iac text index"), "{}", run_before.err);
    run(["text", "index", &pack]).succeeded();
    let hits = run(["text", "search", &pack, "residual tumour", "--json"]).succeeded().json_lines();
    assert_eq!((hits.len(), &hits[0]["doc_id"]), (1, &json!("P1/1")));
    let page = run(["text", "search", &pack, "病理"]).succeeded();
    assert!(page.text().contains("P1  P1/2  (row 0)"), "{}", page.text());
    run(["text", "search", &pack, "(", "--build"]).ended_with(2);
}

#[test]
fn other_names_of_columns_and_codecs_that_are_not_there_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("notes.csv");
    fs::write(&source, "MRN,doc_id,text\nP1,d1,hello\n").unwrap();
    let source = source.to_str().unwrap();
    let pack = folder.path().join("notes.iac").to_str().unwrap().to_owned();
    let refused = run(["pack", "text", source, "-o", &pack]).ended_with(1);
    assert!(refused.err.contains("there is no column patient_id"), "{}", refused.err);
    assert!(refused.err.contains("--column MEMBER=COLUMN"), "{}", refused.err);
    let named = ["pack", "text", source, "-o", &pack, "--column", "patient_id=MRN"];
    let refused = run(named.into_iter().chain(["--codec", "snappy", "--json"])).ended_with(4);
    assert_eq!(refused.json_error()["kind"], "unknown_codec");
    run(named).succeeded();
}

#[cfg(not(feature = "parquet"))]
#[test]
fn parquet_files_need_a_feature() {
    let refused = run(["pack", "text", "notes.parquet", "-o", "x.iac", "--json"]).ended_with(4);
    assert_eq!(refused.json_error()["kind"], "missing_feature");
}
