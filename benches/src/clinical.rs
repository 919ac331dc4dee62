//! Packs of clinical text: patients by row, one document of a long patient, and building.

use std::hint::black_box;
use std::num::NonZeroUsize;
use std::path::Path;

use bytes::Bytes;
use iac_adapters::text::{
    ClinicalDoc, ClinicalTextReader, ClinicalTextWriter, PatientText, TextReadOptions,
    TextWriteOptions, decode_block,
};
use iac_codec::Limits;
use iac_codec::brotli::{BrotliBackend, BrotliOptions};
use iac_reader::ReadOptions;
use serde_json::json;

use crate::Result;
use crate::clock::{Sample, measure};
use crate::peer::{Program, number};
use crate::report::{Basis, Fact, Goal, Line, Section, Series};
use crate::sample::{self, BATCH_ROWS};
use crate::texts;

/// What is measured.
#[derive(Debug, Clone, Copy)]
pub struct Clinical {
    /// Patients, with `DOCS` documents of `DOC_BYTES` each.
    pub patients: usize,
    /// Batches of random patients per round.
    pub batches: usize,
    /// Patients that are built in each round.
    pub built: usize,
    /// Bytes of text that are built for the figure of memory.
    pub memory_bytes: u64,
    /// Repetitions.
    pub rounds: usize,
}

/// Documents of a patient.
const DOCS: usize = 20;
/// Bytes of a document.
const DOC_BYTES: u64 = 2048;
/// Documents of the long patient.
const LONG: usize = 200;
/// The quality of what is read; builders have it by default.
const READ_QUALITY: u8 = 11;
/// The quality that is built with, on both sides.
const BUILD_QUALITY: u8 = 5;
const TWO: Option<NonZeroUsize> = NonZeroUsize::new(2);

/// Made-up patients.
#[must_use]
pub fn patients(count: usize, docs: usize, seed: u64) -> Vec<PatientText> {
    let notes = texts::notes(count * docs, (DOC_BYTES, DOC_BYTES), seed);
    let patients = notes.chunks(docs).enumerate().map(|(number, notes)| {
        let mut patient = PatientText::new(format!("P{number:06}"));
        patient.institution = format!("site_{}", number % 7);
        for (position, note) in notes.iter().enumerate() {
            let text = String::from_utf8_lossy(note).into_owned();
            let mut doc = ClinicalDoc::new(format!("P{number:06}/{position:03}"), text);
            doc.doc_type = ["discharge", "progress_note", "pathology"][position % 3].to_owned();
            doc.encounter = format!("encounter-{}", position / 4);
            doc.doc_category = "clinical_note".to_owned();
            doc.source = "synthetic".to_owned();
            doc.doc_timestamp = format!("2024{:02}01000000", position % 12 + 1);
            patient.docs.push(doc);
        }
        patient
    });
    patients.collect()
}

/// Writes a pack.
///
/// # Errors
///
/// What the writer reports.
pub fn write(
    path: &Path,
    patients: &[PatientText],
    quality: u8,
    workers: Option<NonZeroUsize>,
) -> Result<()> {
    let options = TextWriteOptions::default()
        .codec(BrotliOptions::default().with_quality(quality).codec()?)
        .workers(workers)
        .write(sample::options());
    let mut writer = ClinicalTextWriter::create(path, &options)?;
    for patient in patients {
        writer.push(patient)?;
    }
    writer.finish()?;
    Ok(())
}

impl Clinical {
    /// Makes the packs in `folder`, measures, and removes them.
    ///
    /// # Errors
    ///
    /// What a reader, the writer, the system or the reference reports.
    pub fn run(&self, folder: &Path, reference: Option<&Program>) -> Result<Section> {
        let path = folder.join("clinical.iac");
        let long_path = folder.join("long.iac");
        let rows_path = folder.join("clinical.rows");
        let source_path = folder.join("clinical.jsonl");
        let built_path = folder.join("built.iac");
        let made = patients(self.patients, DOCS, 21);
        write(&path, &made, READ_QUALITY, None)?;
        write(&long_path, &patients(1, LONG, 22), READ_QUALITY, None)?;
        sample::warm(&path)?;
        let to_build = &made[..self.built.min(made.len())];
        let mut lines = String::new();
        for patient in to_build {
            lines.push_str(&serde_json::to_string(patient)?);
            lines.push('\n');
        }
        std::fs::write(&source_path, lines)?;
        let rows = u64::try_from(self.patients)?;
        let batches = sample::random_batches(rows, self.batches * self.rounds, 23);
        sample::save_batches(&rows_path, &batches)?;
        let mut peer = reference.map(Program::start).transpose()?;
        if let Some(peer) = &mut peer {
            peer.call(&json!({"op": "use_text", "path": path, "rows": rows_path,
                              "batch": BATCH_ROWS}))?;
        }

        let open = |path: &Path, workers| {
            let read = ReadOptions::default().workers(workers);
            ClinicalTextReader::open_with(path, &read, TextReadOptions::default())
        };
        let one = open(&path, Some(NonZeroUsize::MIN))?;
        let two = open(&path, TWO)?;
        let long = open(&long_path, Some(NonZeroUsize::MIN))?;
        for (row, patient) in (0_u64..).zip(&made) {
            if &one.read_at(row)? != patient {
                return Err(format!("row {row} does not give its patient back").into());
            }
        }
        let mut stored = Vec::with_capacity(self.patients);
        for row in 0..rows {
            stored.push(one.pack().read(row)?);
        }
        let whole = long.read_at(0)?;
        let tenth = u64::try_from(LONG / 10)?;

        let mut series = Series::default();
        for (round, some) in batches.chunks(self.batches).enumerate() {
            let count = u64::try_from(some.len() * BATCH_ROWS)?;
            let ours = over(some, |rows| {
                for row in rows {
                    black_box(one.read_at(*row)?);
                }
                Ok(())
            })?;
            series.add("one by one", ours.per(count));
            let many = over(some, |rows| {
                black_box(one.read_many(rows)?);
                Ok(())
            })?;
            series.add("many", many.per(count));
            if let Some(peer) = &mut peer {
                let command = json!({"op": "read_text", "first": round * self.batches,
                                     "count": some.len()});
                series.add("reference", peer.sample(&command)?.per(count));
            }
            let both = over(some, |rows| {
                black_box(two.read_many(rows)?);
                Ok(())
            })?;
            series.add("many on two", both.per(count));
            series.add("pure", pure(&one, some)?.per(count));
            series.add("bare codec", bare(&stored, some)?.per(count));
            series.add("bare pure codec", bare_pure(&stored, some)?.per(count));

            let ((), all) = measure(|| {
                for _ in 0..tenth {
                    black_box(long.read_at(0)?);
                }
                Ok(())
            })?;
            series.add("whole patient", all.per(tenth));
            let ((), docs) = measure(|| {
                for number in 0..tenth {
                    let doc = black_box(long.read_doc(0, number)?);
                    debug_assert_eq!(Some(&doc), whole.docs.get(usize::try_from(number)?));
                }
                Ok(())
            })?;
            series.add("one document", docs.per(tenth));
            let ((), manifests) = measure(|| {
                for _ in 0..tenth {
                    black_box(long.read_manifest_at(0)?);
                }
                Ok(())
            })?;
            series.add("manifest", manifests.per(tenth));

            let count = u64::try_from(to_build.len())?;
            for (name, workers) in [("build", Some(NonZeroUsize::MIN)), ("build on two", TWO)] {
                let ((), time) = measure(|| write(&built_path, to_build, BUILD_QUALITY, workers))?;
                series.add(name, time.per(count));
            }
            if let Some(peer) = &mut peer {
                let command = json!({"op": "write_text", "patients": source_path,
                                     "path": built_path, "quality": BUILD_QUALITY});
                series.add("reference build", peer.sample(&command)?.per(count));
            }
        }
        drop(peer);
        let memory = json!({"op": "text_memory", "path": built_path, "bytes": self.memory_bytes});
        let memory = number(&Program::Ours.once(&memory)?, "peak")?;
        for path in [&path, &long_path, &rows_path, &source_path, &built_path] {
            std::fs::remove_file(path)?;
        }
        Ok(Section {
            title: format!(
                "clinical text, {} patients of {DOCS} documents of {DOC_BYTES} bytes",
                self.patients
            ),
            unit: ("us/patient", 1e-6),
            series,
            lines: lines_of(),
            facts: vec![Fact {
                what: "peak memory while building",
                unit: "MiB",
                ours: memory / f64::from(1 << 20),
                reference: None,
                at_most: Some(256.0),
            }],
        })
    }
}

fn over(batches: &[Vec<u64>], mut work: impl FnMut(&[u64]) -> Result<()>) -> Result<Sample> {
    let ((), sample) = measure(|| batches.iter().try_for_each(|rows| work(rows)))?;
    Ok(sample)
}

/// As the default build, without a batch's share of work.
fn pure(reader: &ClinicalTextReader, batches: &[Vec<u64>]) -> Result<Sample> {
    let codec = BrotliOptions::default().with_backend(BrotliBackend::PureRust).codec()?;
    let limits = Limits::default();
    let mut block = Vec::new();
    over(batches, |rows| {
        for row in rows {
            block.clear();
            codec.decode_bytes_append(&reader.pack().read(*row)?, &mut block, &limits)?;
            black_box(decode_block::<ClinicalDoc>(&block)?);
        }
        Ok(())
    })
}

/// The C library alone, over the same records.
fn bare(stored: &[Bytes], batches: &[Vec<u64>]) -> Result<Sample> {
    let mut block = vec![0; 1 << 20];
    over(batches, |rows| {
        for row in rows {
            black_box(brotlic::decompress(&stored[usize::try_from(*row)?], &mut block)?);
        }
        Ok(())
    })
}

/// The crate in pure Rust alone.
fn bare_pure(stored: &[Bytes], batches: &[Vec<u64>]) -> Result<Sample> {
    let codec = BrotliOptions::default().with_backend(BrotliBackend::PureRust).codec()?;
    let limits = Limits::default();
    let mut block = Vec::new();
    over(batches, |rows| {
        for row in rows {
            block.clear();
            codec.decode_bytes_append(&stored[usize::try_from(*row)?], &mut block, &limits)?;
            black_box(&block);
        }
        Ok(())
    })
}

fn lines_of() -> Vec<Line> {
    let line = |what, ours, reference, plain, basis, goal| Line {
        what,
        ours,
        reference,
        plain,
        basis,
        goal,
    };
    let twice = Some(Goal::TimesReference(2.0));
    let reference = Some("reference");
    let bare = Some("bare codec");
    vec![
        line("patients one by one", "one by one", reference, bare, Basis::Cpu, twice),
        line("many patients", "many", reference, bare, Basis::Cpu, twice),
        line(
            "  one behind the other, in one buffer",
            "pure",
            reference,
            Some("bare pure codec"),
            Basis::Cpu,
            Some(Goal::TimesReference(1.2)),
        ),
        line(
            "  2 workers beside 1 (wall)",
            "many on two",
            None,
            Some("many"),
            Basis::Wall,
            Some(Goal::PartOfPlain(1.8)),
        ),
        line(
            "a document in the first tenth of 200",
            "one document",
            None,
            Some("whole patient"),
            Basis::Cpu,
            Some(Goal::PartOfPlain(5.0)),
        ),
        line("a manifest of 200", "manifest", None, Some("whole patient"), Basis::Cpu, None),
        line(
            "building, 2 workers (wall)",
            "build on two",
            Some("reference build"),
            Some("build"),
            Basis::Wall,
            Some(Goal::TimesReference(1.7)),
        ),
    ]
}
