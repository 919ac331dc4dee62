//! Packs of clinical text in both directions: what the reference writes, we read; what we write,
//! the reference reads.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use std::path::{Path, PathBuf};

use iac_adapters::text::check::{TextCheckOptions, check_text_pack};
use iac_adapters::text::{
    ClinicalDoc, DocLabels, Patient, TextColumns, TextDocument, TextReader, TextWriteOptions,
    TextWriter, encode_block,
};
use iac_adapters::text_pair::ClinicalDocPair;
use iac_codec::Codec;
use iac_codec::brotli::BrotliOptions;
use iac_codec::zstd::ZstdOptions;
use iac_interop::reference;
use iac_reader::PackReader;
use iac_writer::WriteOptions;
use serde_json::{Value, json};

/// Numbers that are always the same.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        usize::try_from(self.0 >> 33).unwrap() % bound
    }

    fn text(&mut self, most: usize) -> String {
        const PIECES: [&str; 16] = [
            "note ",
            "病理所见",
            "\n",
            "\r\n",
            "\0",
            "é",
            "e\u{301}",
            "ورم ",
            "\u{1f9ec}",
            "\"",
            "\\",
            "\u{2028}",
            "\u{7f}",
            "\u{1}",
            "</script>",
            "\u{feff}",
        ];
        (0..self.below(most)).map(|_| PIECES[self.below(PIECES.len())]).collect()
    }
}

fn patients<D: TextDocument>(seed: u64, count: usize) -> Vec<Patient<D>> {
    let mut chance = Chance(seed);
    (0..count)
        .map(|number| {
            let mut patient = Patient::new(format!("{}{number}", chance.text(4)));
            patient.institution = chance.text(3);
            for _ in 0..chance.below(6) {
                let mut labels = DocLabels::new(chance.text(4));
                labels.doc_type = chance.text(3);
                labels.encounter = chance.text(3);
                labels.doc_category = chance.text(3);
                labels.source = chance.text(3);
                labels.doc_timestamp = chance.text(3);
                labels.episode_index = [-1, 0, 7, 1 << 40, -(1 << 40)][chance.below(5)];
                let texts = [chance.text(200), chance.text(40)];
                patient.docs.push(D::from_parts(labels, texts));
            }
            patient
        })
        .collect()
}

fn name_of<D: TextDocument>() -> &'static str {
    if D::TEXTS.len() == 1 { "text" } else { "pair" }
}

/// What the reference's reader gives for each pack.
fn look<D: TextDocument>(paths: &[PathBuf]) -> Vec<Value> {
    let lines: String = paths.iter().map(|path| format!("{}\n", path.display())).collect();
    reference::run_json("text_packs.py", &["read", name_of::<D>()], &lines)
}

fn they_read_ours<D: TextDocument>() {
    let folder = tempfile::tempdir().unwrap();
    let brotli = |quality| BrotliOptions::default().with_quality(quality).codec().unwrap();
    let codecs: [(Codec, TextColumns); 5] = [
        (brotli(11), TextColumns::default()),
        (brotli(0), TextColumns::all()),
        (brotli(5), TextColumns::default()),
        (ZstdOptions::new(3).codec().unwrap(), TextColumns::all()),
        (Codec::none(), TextColumns::default()),
    ];
    let patients = patients::<D>(11, 40);
    let mut packs = Vec::new();
    for (number, (codec, columns)) in codecs.into_iter().enumerate() {
        let path = folder.path().join(format!("{number}.iac"));
        let options = TextWriteOptions::default()
            .codec(codec)
            .columns(columns)
            .duplicates(number == 2)
            .write(WriteOptions::new().sync(false));
        let mut writer = TextWriter::<D>::create(&path, &options).unwrap();
        for patient in &patients {
            writer.push(patient).unwrap();
        }
        if number == 2 {
            writer.push(&patients[3]).unwrap();
        }
        writer.finish().unwrap();
        packs.push(path);
    }
    let seen = look::<D>(&packs);
    assert_eq!(seen.len(), packs.len());
    for (number, seen) in seen.iter().enumerate() {
        let mut expected = patients.clone();
        if number == 2 {
            expected.push(patients[3].clone());
        }
        assert_eq!(seen["rows"], json!(expected), "pack {number}");
        let ids: Vec<&str> = patients.iter().map(|patient| patient.patient_id.as_str()).collect();
        assert_eq!(seen["ids"], json!(ids), "pack {number}");
        assert_eq!(seen["by_id"], json!(patients), "pack {number}");
    }
}

#[test]
fn the_reference_reads_our_packs_of_text() {
    they_read_ours::<ClinicalDoc>();
}

#[test]
fn the_reference_reads_our_packs_of_pairs() {
    they_read_ours::<ClinicalDocPair>();
}

fn we_read_theirs<D: TextDocument>() {
    let folder = tempfile::tempdir().unwrap();
    for (seed, count, quality) in [(1, 1, 11), (2, 30, 5), (3, 60, 0)] {
        let patients = patients::<D>(seed, count);
        let path = folder.path().join(format!("{seed}.iac"));
        let arguments = ["write", name_of::<D>(), path.to_str().unwrap(), &quality.to_string()]
            .map(str::to_owned);
        reference::run("text_packs.py", &arguments, &json!(patients).to_string());
        read_all::<D>(&path, &patients);
    }
}

fn read_all<D: TextDocument>(path: &Path, patients: &[Patient<D>]) {
    let reader = TextReader::<D>::open(path).unwrap();
    let read: Vec<Patient<D>> = reader.iter().map(Result::unwrap).collect();
    assert_eq!(read, patients);
    for (row, patient) in (0_u64..).zip(patients) {
        assert_eq!(&reader.read(&patient.patient_id).unwrap(), patient);
        assert_eq!(reader.block_at(row).unwrap(), encode_block(patient).unwrap());
        for (number, doc) in (0_u64..).zip(&patient.docs) {
            assert_eq!(&reader.read_doc(row, number).unwrap(), doc);
        }
    }
    let options = TextCheckOptions::default().decode(u64::MAX);
    let check = check_text_pack(&PackReader::open(path).unwrap(), &options).unwrap();
    assert!(check.is_sound() && check.warnings.is_empty(), "{check:?}");
}

#[test]
fn we_read_the_references_packs_of_text() {
    we_read_theirs::<ClinicalDoc>();
}

#[test]
fn we_read_the_references_packs_of_pairs() {
    we_read_theirs::<ClinicalDocPair>();
}
