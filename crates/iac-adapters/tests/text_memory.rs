//! Memory while a pack of text is built: that of what is under way, however much text there is.
//!
//! `IAC_TEXT_SOAK_BYTES` makes it more text (`make soak`: 1 GB).
#![cfg(all(feature = "text", target_os = "linux"))]
#![allow(clippy::unwrap_used, clippy::arithmetic_side_effects, clippy::print_stderr, missing_docs)]

use std::fs;
use std::time::Instant;

use iac_adapters::text::{
    ClinicalDoc, ClinicalTextReader, ClinicalTextWriter, PatientText, TextWriteOptions,
};
use iac_codec::brotli::BrotliOptions;
use iac_writer::WriteOptions;

/// The most memory that this process ever had, in bytes.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let kibibytes: u64 = line.trim().trim_end_matches(" kB").parse().unwrap();
    kibibytes << 10
}

/// Patients one after the other, the same in each run: most have some notes, a few very long ones.
struct Patients {
    number: u64,
    state: u64,
}

const WORDS: [&str; 16] = [
    "tumour",
    "margin",
    "of",
    "the",
    "left",
    "breast",
    "no",
    "residual",
    "carcinoma",
    "with",
    "lymph",
    "node",
    "病理",
    "ورم",
    "stable",
    "since",
];

impl Patients {
    fn random(&mut self, below: u64) -> u64 {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.state >> 33) % below
    }

    fn text(&mut self, bytes: usize) -> String {
        let mut text = String::with_capacity(bytes + 16);
        while text.len() < bytes {
            let place = usize::try_from(self.random(16)).unwrap();
            text.push_str(WORDS.get(place).unwrap());
            text.push_str(if place == 0 { ".\n" } else { " " });
            if place == 3 {
                text.push_str(&self.state.to_string());
            }
        }
        text
    }

    fn next(&mut self) -> PatientText {
        let mut patient = PatientText::new(format!("P{:08}", self.number));
        patient.institution = format!("site_{}", self.number % 7);
        let (docs, bytes) = if self.number % 400 == 399 { (1, 10 << 20) } else { (20, 2048) };
        for position in 0..docs {
            let text = self.text(bytes);
            patient.docs.push(ClinicalDoc::new(format!("{}/{position}", self.number), text));
        }
        self.number += 1;
        patient
    }
}

/// Builds a pack of at least so much text, shows that all of it is there, and returns the peak of
/// memory up to now.
fn build(text_bytes: u64, budget: u64, quality: u8) -> u64 {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notes.iac");
    let options = TextWriteOptions::default()
        .codec(BrotliOptions::default().with_quality(quality).codec().unwrap())
        .memory(budget)
        .write(WriteOptions::new().sync(false));
    let start = Instant::now();
    let mut writer = ClinicalTextWriter::create(&path, &options).unwrap();
    let mut patients = Patients { number: 0, state: 1 };
    let mut pushed = 0;
    while pushed < text_bytes {
        let patient = patients.next();
        pushed +=
            patient.docs.iter().map(|doc| u64::try_from(doc.text.len()).unwrap()).sum::<u64>();
        writer.push(&patient).unwrap();
    }
    let summary = writer.finish().unwrap();
    let peak = peak();
    eprintln!(
        "{pushed} bytes of text of {} patients to {} bytes in {:.1} s: peak {} MiB",
        summary.patients,
        summary.written.file_bytes,
        start.elapsed().as_secs_f64(),
        peak >> 20
    );
    assert_eq!(summary.text_bytes, pushed);

    let reader = ClinicalTextReader::open(&path).unwrap();
    let mut again = Patients { number: 0, state: 1 };
    let step = usize::try_from(summary.patients / 40).unwrap().max(1);
    for row in 0..summary.patients.min(40) {
        assert_eq!(reader.read_at(row).unwrap(), again.next());
    }
    for row in (0..summary.patients).step_by(step) {
        assert_eq!(reader.read_manifest_at(row).unwrap().patient_id, format!("P{row:08}"));
    }
    peak
}

#[test]
fn memory_while_building_does_not_grow_with_the_text() {
    if let Ok(bytes) = std::env::var("IAC_TEXT_SOAK_BYTES") {
        let peak = build(bytes.parse().unwrap(), 64 << 20, 5);
        assert!(peak <= 256 << 20, "{} MiB", peak >> 20);
        return;
    }
    // What is under way at once depends on the number of threads, so the measure is a build that is
    // long enough to have everything under way.
    let some = build(64 << 20, 4 << 20, 1);
    let more = build(256 << 20, 4 << 20, 1);
    assert!(more <= some + (48 << 20), "{} MiB after {} MiB", more >> 20, some >> 20);
    assert!(more <= 192 << 20, "{} MiB", more >> 20);
}
