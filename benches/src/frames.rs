//! One frame out of an object of many, and a series of slices in the codecs that decode fast.

use std::fs;
use std::hint::black_box;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use iac_adapters::dicom::volume::VolumeOptions;
use iac_adapters::dicom::{
    DataSet, DicomFile, DicomInput, DicomPackBuilder, DicomPackReader, PayloadCodec, SchemaChoice,
    Tag, VR,
};
use iac_codec::{Codec, CodecSpec, DecodeOptions, Limits, Parameters, Registry, SamplesRef};
use iac_reader::ReadOptions;
use serde_json::json;

use crate::clock::measure;
use crate::peer::Program;
use crate::random::Random;
use crate::report::{Basis, Fact, Goal, Line, Section, Series};
use crate::volume::{self, text, word};
use crate::{Result, images, sample};

/// What is measured.
#[derive(Debug, Clone, Copy)]
pub struct Frames {
    /// Frames of the object.
    pub frames: u32,
    /// Frames that are read in a round.
    pub reads: u64,
    /// Slices of the series.
    pub slices: usize,
    /// Repetitions.
    pub rounds: usize,
}

const EDGE: u16 = 512;
/// Where JPEG XL has efforts, as fast as it gets.
const EFFORT: u8 = 1;

/// A codec of payloads with its names: in packs, of the lines, and of the series: a frame, the first
/// one behind opening, decoding alone.
struct Kind {
    payload: PayloadCodec,
    codec: &'static str,
    lines: [&'static str; 2],
    series: [&'static str; 3],
}

const KINDS: [Kind; 4] = [
    Kind {
        payload: PayloadCodec::Zstd,
        codec: "zstd",
        lines: ["zstd, one frame", "  opening and the first frame"],
        series: ["zstd", "zstd first", "zstd alone"],
    },
    Kind {
        payload: PayloadCodec::Htj2k,
        codec: "jpeg2000",
        lines: ["HTJ2K, one frame", "  opening and the first frame "],
        series: ["htj2k", "htj2k first", "htj2k alone"],
    },
    Kind {
        payload: PayloadCodec::JpegLs,
        codec: "jpegls",
        lines: ["JPEG-LS, one frame", "  opening and the first frame  "],
        series: ["jpegls", "jpegls first", "jpegls alone"],
    },
    Kind {
        payload: PayloadCodec::JpegXl,
        codec: "jxl",
        lines: ["JPEG XL, one frame", "  opening and the first frame   "],
        series: ["jxl", "jxl first", "jxl alone"],
    },
];

/// An object of many frames: 12 bits of a made-up CT, moved along from frame to frame.
fn object(frames: u32) -> Result<Vec<u8>> {
    let image = images::slice()?;
    let SamplesRef::U16(samples) = image.samples() else {
        return Err("the slice has other samples".into());
    };
    let mut samples = samples.to_vec();
    let mut pixels = Vec::with_capacity(samples.len() * 2 * frames as usize);
    for _ in 0..frames {
        samples.rotate_left(1031);
        pixels.extend(samples.iter().flat_map(|sample| sample.to_le_bytes()));
    }
    let elements = vec![
        text(Tag(0x0008, 0x0016), VR::UI, "1.2.840.10008.5.1.4.1.1.7.3"),
        text(Tag(0x0008, 0x0018), VR::UI, "2.25.8900"),
        text(Tag(0x0008, 0x0060), VR::CS, "OT"),
        text(Tag(0x0010, 0x0020), VR::LO, "P1"),
        text(Tag(0x0020, 0x000D), VR::UI, "2.25.8901"),
        text(Tag(0x0020, 0x000E), VR::UI, "2.25.8902"),
        word(Tag(0x0028, 0x0002), 1),
        text(Tag(0x0028, 0x0004), VR::CS, "MONOCHROME2"),
        text(Tag(0x0028, 0x0008), VR::IS, &frames.to_string()),
        word(Tag(0x0028, 0x0010), EDGE),
        word(Tag(0x0028, 0x0011), EDGE),
        word(Tag(0x0028, 0x0100), 16),
        word(Tag(0x0028, 0x0101), 12),
        word(Tag(0x0028, 0x0102), 11),
        word(Tag(0x0028, 0x0103), 0),
        iac_adapters::dicom::Element::new(Tag(0x7FE0, 0x0010), VR::OW, pixels),
    ];
    Ok(DicomFile::new(DataSet::from_elements(elements)).to_bytes()?)
}

fn open(path: &Path, workers: usize) -> Result<DicomPackReader> {
    let read = ReadOptions::default().workers(NonZeroUsize::new(workers)).use_header_cache(false);
    Ok(DicomPackReader::open_with(path, &read, true)?)
}

/// Decodes a payload as nobody can avoid, without anything around it.
fn decode(codec: &Codec, stored: &[u8], place: &mut [u8], zstd: bool) -> Result<()> {
    if zstd {
        codec.decode_bytes_into(stored, place, &Limits::default())?;
    } else {
        black_box(codec.decode_image(stored, &DecodeOptions::default())?);
    }
    Ok(())
}

impl Frames {
    /// Makes objects and packs in `folder`, measures, and removes them.
    ///
    /// # Errors
    ///
    /// What a codec, a reader, the writer, the system or the reference reports, or when the sides
    /// read different volumes.
    pub fn run(&self, folder: &Path, reference: Option<&Program>) -> Result<Vec<Section>> {
        Ok(vec![self.among_many(folder)?, self.series(folder, reference)?])
    }

    fn among_many(&self, folder: &Path) -> Result<Section> {
        let source = folder.join("many.dcm");
        fs::write(&source, object(self.frames)?)?;
        let mut series = Series::default();
        let mut lines = Vec::new();
        for kind in &KINDS {
            let path = folder.join("many.rad.iac");
            DicomPackBuilder::new()
                .payload(kind.payload)
                .effort(EFFORT)
                .schema(SchemaChoice::Two)
                .build_from(&path, [DicomInput::File(source.clone())])?;
            sample::warm(&path)?;
            let codec =
                Registry::global().create(&CodecSpec::new(kind.codec, Parameters::new()))?;
            let zstd = matches!(kind.payload, PayloadCodec::Zstd);
            let pack = open(&path, 1)?;
            let mut place = vec![0; usize::from(EDGE) * usize::from(EDGE) * 2];
            let mut random = Random::new(9);
            for round in 0..self.rounds + 1 {
                let frames: Vec<u64> =
                    (0..self.reads).map(|_| random.below(u64::from(self.frames))).collect();
                let ((), ours) = measure(|| {
                    for frame in &frames {
                        black_box(pack.read_frame(0, *frame)?);
                    }
                    Ok(())
                })?;
                let stored: Vec<_> = frames
                    .iter()
                    .map(|frame| pack.reader().read(*frame))
                    .collect::<std::result::Result<_, _>>()?;
                let ((), alone) = measure(|| {
                    stored.iter().try_for_each(|stored| decode(&codec, stored, &mut place, zstd))
                })?;
                let ((), first) = measure(|| {
                    for frame in &frames {
                        black_box(open(&path, 1)?.read_frame(0, *frame)?);
                    }
                    Ok(())
                })?;
                // The first round is for warming up.
                if round > 0 {
                    let [ours_name, first_name, alone_name] = kind.series;
                    series.add(ours_name, ours.per(self.reads));
                    series.add(alone_name, alone.per(self.reads));
                    series.add(first_name, first.per(self.reads));
                }
            }
            for (what, ours) in kind.lines.into_iter().zip(kind.series) {
                let [.., alone] = kind.series;
                lines.push(Line {
                    what,
                    ours,
                    reference: None,
                    plain: Some(alone),
                    basis: Basis::Cpu,
                    goal: Some(Goal::TimesPlain(3.0)),
                });
            }
            fs::remove_file(&path)?;
        }
        fs::remove_file(&source)?;
        Ok(Section {
            title: format!(
                "one frame of an object of {} of {EDGE} x {EDGE} of 16 bits, beside decoding alone",
                self.frames
            ),
            unit: ("ms/frame", 1e-3),
            series,
            lines,
            facts: Vec::new(),
        })
    }

    fn series(&self, folder: &Path, reference: Option<&Program>) -> Result<Section> {
        let originals = volume::slices(self.slices)?;
        let mut files: Vec<PathBuf> = Vec::new();
        let mut original_bytes = 0;
        for (number, bytes) in originals.iter().enumerate() {
            let file = folder.join(format!("slice-{number:04}.dcm"));
            fs::write(&file, bytes)?;
            original_bytes += bytes.len() as u64;
            files.push(file);
        }
        let mut peer = reference.map(Program::start).transpose()?;
        let mut series = Series::default();
        let mut facts = Vec::new();
        let mut packs = Vec::new();
        for (name, payload, fact) in [
            ("zstd", PayloadCodec::Zstd, "zstd, bytes of the originals"),
            ("htj2k", PayloadCodec::Htj2k, "HTJ2K, bytes of the originals"),
        ] {
            let path = folder.join(format!("{name}.rad.iac"));
            let inputs: Vec<_> = files.iter().cloned().map(DicomInput::File).collect();
            DicomPackBuilder::new()
                .payload(payload)
                .schema(SchemaChoice::Two)
                .build_from(&path, inputs)?;
            let bytes = sample::warm(&path)?;
            facts.push(Fact {
                what: fact,
                unit: "part",
                ours: bytes as f64 / original_bytes as f64,
                reference: None,
                at_most: Some(0.5),
            });
            packs.push(path);
        }
        let [zstd, htj2k] = &packs[..] else { return Err("two packs are wanted".into()) };
        let options = VolumeOptions::default();
        let read = |path: &Path, workers: usize| {
            let pack = open(path, workers)?;
            let found = pack.volume_stacks(&pack.series()[0])?;
            Ok(pack
                .read_volume(&found.stacks[0], &options.with_workers(NonZeroUsize::new(workers)))?)
        };
        for round in 0..self.rounds + 1 {
            for (name, path, workers) in [
                ("zstd 2", zstd, 2),
                ("zstd 1", zstd, 1),
                ("htj2k 2", htj2k, 2),
                ("htj2k 1", htj2k, 1),
            ] {
                let (found, ours) = measure(|| read(path, workers))?;
                if round > 0 {
                    series.add(name, ours);
                }
                if round == 0
                    && let Some(peer) = &mut peer
                {
                    peer.sample(&json!({"op": "stack_files", "paths": files}))?;
                    let theirs = peer.call(&json!({"op": "check_volume"}))?;
                    volume::check_sum(&found, &theirs)?;
                }
            }
            if let Some(peer) = &mut peer {
                let theirs = peer.sample(&json!({"op": "stack_files", "paths": files}))?;
                if round > 0 {
                    series.add("pydicom", theirs);
                }
            }
        }
        for path in files.iter().chain(&packs) {
            fs::remove_file(path)?;
        }
        let line = |what, ours, basis, goal| Line {
            what,
            ours,
            reference: Some("pydicom"),
            plain: None,
            basis,
            goal,
        };
        let goal = Some(Goal::TimesReference(1.0));
        Ok(Section {
            title: format!(
                "volume of {} slices as floats, beside pydicom stacking the uncompressed originals",
                self.slices
            ),
            unit: ("ms", 1e-3),
            series,
            lines: vec![
                line("zstd, 2 workers (wall)", "zstd 2", Basis::Wall, goal),
                line("zstd, 1 worker", "zstd 1", Basis::Cpu, goal),
                line("HTJ2K, 2 workers (wall)", "htj2k 2", Basis::Wall, None),
                line("HTJ2K, 1 worker", "htj2k 1", Basis::Cpu, None),
            ],
            facts,
        })
    }
}
