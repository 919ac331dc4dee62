//! DICOM packs: building a CT series, reading its slices, opening a large pack.

use std::hint::black_box;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use iac_adapters::dicom::{
    DataSet, DicomFile, DicomInput, DicomInputs, DicomPackBuilder, DicomPackReader, Element, Tag,
    VR,
};
use iac_codec::{Image, ImageShape, SamplesMut};
use iac_reader::ReadOptions;
use serde_json::json;

use crate::clock::measure;
use crate::images;
use crate::peer::{Program, number};
use crate::random::Random;
use crate::report::{Basis, Fact, Goal, Line, Section, Series};
use crate::{Result, sample};

/// What is measured.
#[derive(Debug, Clone, Copy)]
pub struct Dicom {
    /// Slices of the series that is built.
    pub slices: u16,
    /// Instances of the pack that is opened.
    pub instances: u32,
    /// Batches of slices that are read in each round.
    pub batches: usize,
    /// Efforts whose time and size are told.
    pub efforts: u8,
    /// Repetitions; building at the default effort takes at most three.
    pub rounds: usize,
}

/// Pixels of each side of a slice.
const EDGE: u16 = 512;
/// Slices of a batch.
const BATCH: usize = 32;
/// The default of both sides.
const EFFORT: u8 = 7;
/// For those who cannot wait.
const FAST: u8 = 3;
/// Slices that efforts are compared on.
const COMPARED: u16 = 8;
/// Series of the pack that is opened.
const SERIES: u32 = 25;
/// Opens per round on our side.
const OPENS: u64 = 50;
const ONE: Option<NonZeroUsize> = NonZeroUsize::new(1);
const TWO: Option<NonZeroUsize> = NonZeroUsize::new(2);

fn text(tag: Tag, vr: VR, value: &str) -> Element {
    let mut bytes = value.as_bytes().to_vec();
    if bytes.len() % 2 == 1 {
        bytes.push(if vr == VR::UI { 0 } else { b' ' });
    }
    Element::new(tag, vr, bytes)
}

fn number_of(tag: Tag, value: u16) -> Element {
    Element::new(tag, VR::US, value.to_le_bytes().to_vec())
}

/// A made-up slice: a body with organs and bones, and the noise of a scanner, in Hounsfield units
/// with 1,024 added.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "values of 0 to 2,000 with noise below 64"
)]
#[must_use]
pub fn slice(place: u16) -> Vec<u16> {
    let mut random = Random::new(u64::from(place) + 77);
    let half = f64::from(EDGE) / 2.0;
    let drift = f64::from(place) / 300.0;
    let mut samples = Vec::with_capacity(usize::from(EDGE) * usize::from(EDGE));
    for y in 0..EDGE {
        for x in 0..EDGE {
            let (dx, dy) = ((f64::from(x) - half) / half, (f64::from(y) - half) / half);
            let body = dx * dx / 0.7 + dy * dy / 0.45;
            let value = if body > 1.0 {
                20.0
            } else if dx * dx + (dy - 0.35).powi(2) < 0.012 + drift / 50.0 {
                1700.0 + 120.0 * (dx * 40.0).sin()
            } else if body > 0.93 {
                920.0
            } else {
                let organ = (dx * 7.0 + drift).sin() * (dy * 6.0 - drift).cos();
                1060.0 + 45.0 * organ
            };
            // The sum of some draws is distributed as noise is.
            let noise: u64 = (0..4).map(|_| random.below(12)).sum();
            samples.push(value as u16 + noise as u16);
        }
    }
    samples
}

/// The object of a slice; `samples` are those of its side.
fn object(series: u32, place: u32, edge: u16, samples: &[u16]) -> Result<Vec<u8>> {
    let pixels: Vec<u8> = samples.iter().flat_map(|sample| sample.to_le_bytes()).collect();
    let z = f64::from(place) * 1.25;
    let elements = vec![
        text(Tag(0x0008, 0x0005), VR::CS, "ISO_IR 100"),
        text(Tag(0x0008, 0x0008), VR::CS, "ORIGINAL\\PRIMARY\\AXIAL"),
        text(Tag(0x0008, 0x0016), VR::UI, "1.2.840.10008.5.1.4.1.1.2"),
        text(Tag(0x0008, 0x0018), VR::UI, &format!("2.25.{series}000{place}")),
        text(Tag(0x0008, 0x0020), VR::DA, "20240101"),
        text(Tag(0x0008, 0x0030), VR::TM, "101112.250000"),
        text(Tag(0x0008, 0x0060), VR::CS, "CT"),
        text(Tag(0x0008, 0x0070), VR::LO, "Maker of Scanners"),
        text(Tag(0x0008, 0x103E), VR::LO, &format!("Series {series}")),
        text(Tag(0x0010, 0x0010), VR::PN, "Made^Up"),
        text(Tag(0x0010, 0x0020), VR::LO, "BENCH-1"),
        text(Tag(0x0018, 0x0050), VR::DS, "1.25"),
        text(Tag(0x0018, 0x0060), VR::DS, "120"),
        text(Tag(0x0018, 0x1150), VR::IS, "500"),
        text(Tag(0x0018, 0x1151), VR::IS, &format!("{}", 200 + place % 90)),
        text(Tag(0x0018, 0x1210), VR::SH, "STANDARD"),
        text(Tag(0x0020, 0x000D), VR::UI, "2.25.9001"),
        text(Tag(0x0020, 0x000E), VR::UI, &format!("2.25.77{series:04}")),
        text(Tag(0x0020, 0x0012), VR::IS, "1"),
        text(Tag(0x0020, 0x0013), VR::IS, &format!("{}", place + 1)),
        text(Tag(0x0020, 0x0032), VR::DS, &format!("-249.500000\\-249.500000\\{z:.6}")),
        text(Tag(0x0020, 0x0037), VR::DS, "1.000000\\0.0\\0.0\\0.0\\1.000000\\0.0"),
        text(Tag(0x0020, 0x0052), VR::UI, "2.25.9002"),
        text(Tag(0x0020, 0x1041), VR::DS, &format!("{z:.3}")),
        number_of(Tag(0x0028, 0x0002), 1),
        text(Tag(0x0028, 0x0004), VR::CS, "MONOCHROME2"),
        number_of(Tag(0x0028, 0x0010), edge),
        number_of(Tag(0x0028, 0x0011), edge),
        text(Tag(0x0028, 0x0030), VR::DS, "0.976562\\0.976562"),
        number_of(Tag(0x0028, 0x0100), 16),
        number_of(Tag(0x0028, 0x0101), 16),
        number_of(Tag(0x0028, 0x0102), 15),
        number_of(Tag(0x0028, 0x0103), 1),
        text(Tag(0x0028, 0x1050), VR::DS, "40\\-600"),
        text(Tag(0x0028, 0x1051), VR::DS, "400\\1500"),
        text(Tag(0x0028, 0x1052), VR::DS, "-1024"),
        text(Tag(0x0028, 0x1053), VR::DS, "1"),
        Element::new(Tag(0x7FE0, 0x0010), VR::OW, pixels),
    ];
    Ok(DicomFile::new(DataSet::from_elements(elements)).to_bytes()?)
}

fn builder(effort: u8) -> DicomPackBuilder {
    DicomPackBuilder::new().effort(effort).workers(TWO).options(sample::options())
}

/// Files of the series, and its images.
fn series(folder: &Path, slices: u16) -> Result<(Vec<PathBuf>, Vec<Image>)> {
    std::fs::create_dir_all(folder)?;
    let shape = ImageShape::new(EDGE.into(), EDGE.into(), 1)?;
    let (mut files, mut images) = (Vec::new(), Vec::new());
    for place in 0..slices {
        let samples = slice(place);
        let path = folder.join(format!("slice{place:04}.dcm"));
        std::fs::write(&path, object(1, place.into(), EDGE, &samples)?)?;
        files.push(path);
        images.push(Image::new(shape, samples)?);
    }
    Ok((files, images))
}

impl Dicom {
    /// Makes files and packs in `folder`, measures, and removes them.
    ///
    /// # Errors
    ///
    /// What a codec, a reader, the writer, the system or the reference reports, or when the sides
    /// read different slices.
    pub fn run(&self, folder: &Path, reference: Option<&Program>) -> Result<Vec<Section>> {
        let source = folder.join("ct");
        let (files, images) = series(&source, self.slices)?;
        let path = folder.join("ct.rad.iac");
        let sections = vec![
            self.build(&source, &files, &images, &path, reference)?,
            self.efforts(&source, &files, reference)?,
            self.reads(&path, folder, reference)?,
            self.open(folder, reference)?,
        ];
        std::fs::remove_file(&path)?;
        std::fs::remove_dir_all(&source)?;
        Ok(sections)
    }

    /// Leaves the pack at the default effort behind.
    fn build(
        &self,
        source: &Path,
        files: &[PathBuf],
        images: &[Image],
        path: &Path,
        reference: Option<&Program>,
    ) -> Result<Section> {
        let mut peer = reference.map(Program::start).transpose()?;
        let theirs = path.with_extension("theirs");
        let count = u64::from(self.slices);
        let mut series = Series::default();
        for (effort, rounds, names) in [
            (EFFORT, self.rounds.min(3), ["bare 7", "ours 7", "reference 7"]),
            (FAST, self.rounds, ["bare 3", "ours 3", "reference 3"]),
        ] {
            let [bare, ours, reference] = names;
            for _ in 0..rounds {
                let copies = images.to_vec();
                let (_, alone) = measure(|| images::jxl::encode_on_two(copies, effort))?;
                series.add(bare, alone.per(count));
                let target = if effort == EFFORT { path } else { &path.with_extension("fast") };
                let (_, built) = measure(|| {
                    let inputs = DicomInputs::find(&[source.to_owned()])?;
                    Ok(builder(effort).build(target, inputs)?)
                })?;
                series.add(ours, built.per(count));
                if let Some(peer) = &mut peer {
                    let command = json!({"op": "build_dicom", "path": theirs, "files": files,
                                         "effort": effort, "workers": 2});
                    series.add(reference, peer.sample(&command)?.per(count));
                }
            }
        }
        std::fs::remove_file(path.with_extension("fast"))?;
        let mut facts = Vec::new();
        if peer.is_some() {
            std::fs::remove_file(&theirs)?;
        }
        let command = json!({"op": "dicom_memory", "folder": source, "effort": FAST,
                             "path": path.with_extension("memory")});
        let answer = Program::Ours.once(&command)?;
        std::fs::remove_file(path.with_extension("memory"))?;
        facts.push(Fact {
            what: "peak memory of a build with 2 workers, effort 3",
            unit: "MiB",
            ours: number(&answer, "peak")? / 1_048_576.0,
            reference: None,
            // Eight frames for each worker, and 128 MiB.
            at_most: Some(128.0 + 2.0 * 8.0 * 0.5),
        });
        let line = |what, ours, reference, plain, goal| Line {
            what,
            ours,
            reference: Some(reference),
            plain: Some(plain),
            basis: Basis::Wall,
            goal: Some(goal),
        };
        let bare = Goal::TimesPlain(1.05);
        Ok(Section {
            title: format!("DICOM, building {count} CT slices of {EDGE} x {EDGE}, 2 workers"),
            unit: ("ms/slice", 1e-3),
            series,
            lines: vec![
                line("effort 7 beside the bare codec", "ours 7", "reference 7", "bare 7", bare),
                line("  beside the reference", "ours 7", "reference 7", "bare 7", {
                    Goal::TimesReference(1.0)
                }),
                line("effort 3 beside the bare codec", "ours 3", "reference 3", "bare 3", bare),
                line("  beside the reference's default", "ours 3", "reference 7", "bare 3", {
                    Goal::TimesReference(5.0)
                }),
                Line {
                    basis: Basis::Cpu,
                    ..line("  all cores' time", "ours 3", "reference 3", "bare 3", bare)
                },
            ],
            facts,
        })
    }

    /// Time and size of each effort, of the made-up series and of public slices where they are.
    fn efforts(
        &self,
        source: &Path,
        files: &[PathBuf],
        reference: Option<&Program>,
    ) -> Result<Section> {
        let target = source.join("effort.rad.iac");
        let compared = files.len().min(COMPARED.into());
        let mut subjects = vec![("made up", files[..compared].to_vec())];
        let corpus = std::env::var_os("IAC_CORPUS").map(PathBuf::from).unwrap_or_default();
        for (name, file) in [
            ("CT of 13 bits", "dicom/pydicom_J2K_pixelrep_mismatch.dcm"),
            ("CT of 16 bits", "dicom/pylibjpeg_JPEGLossless_1s_1f_i_16_16_bad.dcm"),
        ] {
            let path = corpus.join(file);
            if path.is_file() {
                subjects.push((name, vec![path]));
            }
        }
        let mut peer = reference.map(Program::start).transpose()?;
        let mut facts = Vec::new();
        for (name, files) in subjects {
            let count = files.len() as f64;
            let mut theirs = None;
            if let Some(peer) = &mut peer {
                let command = json!({"op": "build_dicom", "path": target, "files": files,
                                     "effort": EFFORT, "workers": 1});
                // Not every source is one that the reference takes.
                if let Ok(sample) = peer.sample(&command) {
                    theirs = Some((sample.cpu / count, payload_bytes(&target)? / count));
                    std::fs::remove_file(&target)?;
                }
            }
            for effort in 1..=self.efforts {
                let (_, built) = measure(|| {
                    let inputs = files.iter().cloned().map(DicomInput::File);
                    Ok(builder(effort).workers(ONE).build_from(&target, inputs)?)
                })?;
                let bytes = payload_bytes(&target)? / count;
                std::fs::remove_file(&target)?;
                for (what, unit, ours, reference) in [
                    ("time", "ms/slice", built.cpu / count * 1e3, theirs.map(|it| it.0 * 1e3)),
                    ("size", "bytes/slice", bytes, theirs.map(|it| it.1)),
                ] {
                    let what = format!("{name}, effort {effort}, {what}");
                    let what = Box::leak(what.into_boxed_str());
                    facts.push(Fact { what, unit, ours, reference, at_most: None });
                }
            }
        }
        Ok(Section {
            title: format!(
                "DICOM, time and size by effort on one thread, beside the reference's {EFFORT}"
            ),
            unit: ("ms/slice", 1e-3),
            series: Series::default(),
            lines: Vec::new(),
            facts,
        })
    }

    fn reads(&self, path: &Path, folder: &Path, reference: Option<&Program>) -> Result<Section> {
        let rows_path = folder.join("ct.rows");
        let mut random = Random::new(41);
        let batches: Vec<Vec<u64>> = (0..self.batches)
            .map(|_| (0..BATCH).map(|_| random.below(self.slices.into())).collect())
            .collect();
        sample::save_batches(&rows_path, &batches)?;
        sample::warm(path)?;
        let open = |workers| {
            let options = ReadOptions::default().workers(workers);
            DicomPackReader::open_with(path, &options, true)
        };
        let (one, two) = (open(ONE)?, open(TWO)?);
        let mut peer = reference.map(Program::start).transpose()?;
        if let Some(peer) = &mut peer {
            peer.call(&json!({"op": "use_dicom", "path": path, "rows": rows_path,
                              "batch": BATCH}))?;
            let answer = peer.call(&json!({"op": "check_dicom", "row": batches[0][0]}))?;
            let ours: f64 = one.read_pixels(batches[0][0])?.samples.iter().sum();
            if number(&answer, "sum")? != ours {
                return Err("the reference's slices are not ours".into());
            }
        }
        let shape = one.shape(0)?;
        let payloads = (0..one.instance_count())
            .map(|row| Ok(one.reader().read(row)?))
            .collect::<Result<Vec<Bytes>>>()?;
        let like = Image::new(shape, vec![0_u16; shape.samples()])?;
        let mut bare = images::jxl::decoder(&like)?;
        let mut place = vec![1_u16; shape.samples()];
        let mut buffer = vec![1_u16; shape.samples() * BATCH];
        let count = u64::try_from(self.batches * BATCH)?;
        let mut series = Series::default();
        for _ in 0..self.rounds {
            let (_, alone) = measure(|| {
                for row in batches.iter().flatten() {
                    bare.decode(&payloads[usize::try_from(*row)?], SamplesMut::U16(&mut place))?;
                }
                Ok(())
            })?;
            series.add("bare", alone.per(count));
            for (name, pack) in [("one", &one), ("two", &two)] {
                let (_, ours) = measure(|| {
                    for rows in &batches {
                        black_box(pack.read_pixel_batch(rows)?);
                    }
                    Ok(())
                })?;
                series.add(name, ours.per(count));
            }
            let (_, ours) = measure(|| {
                for rows in &batches {
                    two.read_pixel_batch_into(rows, &mut buffer[..])?;
                }
                Ok(())
            })?;
            series.add("into", ours.per(count));
            if let Some(peer) = &mut peer {
                series.add("reference", peer.sample(&json!({"op": "read_dicom"}))?.per(count));
            }
        }
        std::fs::remove_file(&rows_path)?;
        let line = |what, ours, basis, goal| Line {
            what,
            ours,
            reference: Some("reference"),
            plain: Some("bare"),
            basis,
            goal: Some(goal),
        };
        Ok(Section {
            title: format!("DICOM, random batches of {BATCH} slices of {EDGE} x {EDGE}"),
            unit: ("ms/slice", 1e-3),
            series,
            lines: vec![
                line("one buffer, 1 worker", "one", Basis::Cpu, Goal::TimesPlain(1.05)),
                line("one buffer, 2 workers (wall)", "two", Basis::Wall, {
                    Goal::TimesReference(2.0)
                }),
                line("  the same (all cores' time)", "two", Basis::Cpu, Goal::TimesPlain(1.05)),
                line("into memory that is there, 2 workers (wall)", "into", Basis::Wall, {
                    Goal::TimesReference(2.0)
                }),
                // Two cores: nobody can be twice as fast as the bare codec on one.
                line("  beside the bare codec on one core", "into", Basis::Wall, {
                    Goal::PartOfPlain(1.9)
                }),
            ],
            facts: Vec::new(),
        })
    }

    /// From the path of a pack to its list of series.
    fn open(&self, folder: &Path, reference: Option<&Program>) -> Result<Section> {
        let path = folder.join("many.rad.iac");
        let inputs = (0..self.instances).map(|place| {
            let bytes = object(place % SERIES, place / SERIES, 8, &[0; 64]).unwrap_or_default();
            DicomInput::Bytes(format!("{place}"), bytes.into())
        });
        builder(1).build_from(&path, inputs)?;
        sample::warm(&path)?;
        let read = ReadOptions::default().use_header_cache(false);
        let command = |repeat: u64| json!({"op": "open_dicom", "path": path, "repeat": repeat});
        let mut peer = reference.map(Program::start).transpose()?;
        let mut series = Series::default();
        for round in 0..=self.rounds {
            let ((), ours) = measure(|| {
                for _ in 0..OPENS {
                    let pack = DicomPackReader::open_with(&path, &read, true)?;
                    if u32::try_from(black_box(pack.series()).len()).ok() != Some(SERIES) {
                        return Err("the pack has other series".into());
                    }
                }
                Ok(())
            })?;
            let theirs = peer.as_mut().map(|peer| peer.sample(&command(5))).transpose()?;
            let first = Program::Ours.once(&command(1))?;
            let their_first = reference.map(|program| program.start()?.sample(&command(1)));
            let their_first = their_first.transpose()?;
            // The first round of each side is for warming up.
            if round == 0 {
                continue;
            }
            series.add("ours", ours.per(OPENS));
            series.add(
                "first",
                crate::clock::Sample { cpu: number(&first, "cpu")?, wall: number(&first, "wall")? },
            );
            if let (Some(theirs), Some(first)) = (theirs, their_first) {
                series.add("reference", theirs.per(5));
                series.add("reference, first", first);
            }
        }
        drop(peer);
        std::fs::remove_file(&path)?;
        let line = |what, ours, reference| Line {
            what,
            ours,
            reference: Some(reference),
            plain: None,
            basis: Basis::Cpu,
            goal: Some(Goal::TimesReference(10.0)),
        };
        Ok(Section {
            title: format!(
                "DICOM, opening a pack of {} instances to its list of {SERIES} series",
                self.instances
            ),
            unit: ("us", 1e-6),
            series,
            lines: vec![
                line("again and again", "ours", "reference"),
                line("first of a process", "first", "reference, first"),
            ],
            facts: Vec::new(),
        })
    }
}

/// Bytes of a pack's data segment.
fn payload_bytes(path: &Path) -> Result<f64> {
    Ok(iac_reader::PackReader::open(path)?.layout().data.length as f64)
}
