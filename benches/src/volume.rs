//! A series of slices as one volume of real values.

use std::num::NonZeroUsize;
use std::path::Path;

use iac_adapters::dicom::volume::{Volume, VolumeOptions, VolumeValues};
use iac_adapters::dicom::{
    DataSet, DicomFile, DicomInput, DicomPackBuilder, DicomPackReader, Element, Tag, VR,
};
use iac_codec::SamplesRef;
use iac_reader::ReadOptions;
use serde_json::{Value, json};

use crate::Result;
use crate::clock::measure;
use crate::images;
use crate::peer::{Program, number};
use crate::report::{Basis, Goal, Line, Section, Series};
use crate::sample;

/// What is measured.
#[derive(Debug, Clone, Copy)]
pub struct Volumes {
    /// Slices of 512 x 512.
    pub slices: usize,
    /// Repetitions.
    pub rounds: usize,
}

const EDGE: u16 = 512;
/// The effort that slices are encoded at.
const EFFORT: u8 = 3;
const ONE: Option<NonZeroUsize> = NonZeroUsize::new(1);
const TWO: Option<NonZeroUsize> = NonZeroUsize::new(2);

/// An element of text, of even length.
pub(crate) fn text(tag: Tag, vr: VR, value: &str) -> Element {
    let mut bytes = value.as_bytes().to_vec();
    if bytes.len() % 2 == 1 {
        bytes.push(if vr == VR::UI { 0 } else { b' ' });
    }
    Element::new(tag, vr, bytes)
}

/// An element of one number of 16 bits.
pub(crate) fn word(tag: Tag, value: u16) -> Element {
    Element::new(tag, VR::US, value.to_le_bytes().to_vec())
}

/// The file of one slice: 12 bits of a made-up CT.
fn slice(number: usize, samples: Vec<u8>) -> Result<Vec<u8>> {
    let elements = vec![
        text(Tag(0x0008, 0x0016), VR::UI, "1.2.840.10008.5.1.4.1.1.2"),
        text(Tag(0x0008, 0x0018), VR::UI, &format!("2.25.88{number:04}")),
        text(Tag(0x0008, 0x0060), VR::CS, "CT"),
        text(Tag(0x0010, 0x0020), VR::LO, "P1"),
        text(Tag(0x0020, 0x000D), VR::UI, "2.25.8801"),
        text(Tag(0x0020, 0x000E), VR::UI, "2.25.8802"),
        text(Tag(0x0020, 0x0013), VR::IS, &(number + 1).to_string()),
        text(Tag(0x0020, 0x0032), VR::DS, &format!("-180\\-180\\{}", number as f64 * 1.25)),
        text(Tag(0x0020, 0x0037), VR::DS, "1\\0\\0\\0\\1\\0"),
        word(Tag(0x0028, 0x0002), 1),
        text(Tag(0x0028, 0x0004), VR::CS, "MONOCHROME2"),
        word(Tag(0x0028, 0x0010), EDGE),
        word(Tag(0x0028, 0x0011), EDGE),
        text(Tag(0x0028, 0x0030), VR::DS, "0.703125\\0.703125"),
        word(Tag(0x0028, 0x0100), 16),
        word(Tag(0x0028, 0x0101), 12),
        word(Tag(0x0028, 0x0102), 11),
        word(Tag(0x0028, 0x0103), 0),
        text(Tag(0x0028, 0x1052), VR::DS, "-1024"),
        text(Tag(0x0028, 0x1053), VR::DS, "1"),
        Element::new(Tag(0x7FE0, 0x0010), VR::OW, samples),
    ];
    Ok(DicomFile::new(DataSet::from_elements(elements)).to_bytes()?)
}

/// The files of a series of so many slices.
pub(crate) fn slices(count: usize) -> Result<Vec<Vec<u8>>> {
    let image = images::slice()?;
    let SamplesRef::U16(samples) = image.samples() else {
        return Err("the slice has other samples".into());
    };
    let mut samples = samples.to_vec();
    (0..count)
        .map(|number| {
            // Moved along, so that no two slices are equal.
            samples.rotate_left(1031);
            slice(number, samples.iter().flat_map(|sample| sample.to_le_bytes()).collect())
        })
        .collect()
}

/// Compares a volume with what the reference's side has read last.
pub(crate) fn check_sum(ours: &Volume, theirs: &Value) -> Result<()> {
    let Some(voxels) = ours.voxels.as_f32() else {
        return Err("the volume is not of floats".into());
    };
    let (ours, theirs) =
        (voxels.iter().map(|voxel| f64::from(*voxel)).sum::<f64>(), number(theirs, "sum")?);
    if (theirs - ours).abs() > 1e-6 * ours.abs() {
        return Err("the reference's volume is not ours".into());
    }
    Ok(())
}

fn open(path: &Path, workers: Option<NonZeroUsize>) -> Result<DicomPackReader> {
    let read = ReadOptions::default().workers(workers).use_header_cache(false);
    Ok(DicomPackReader::open_with(path, &read, true)?)
}

impl Volumes {
    /// Makes the pack in `folder`, measures, and removes it.
    ///
    /// # Errors
    ///
    /// What a codec, a reader, the writer, the system or the reference reports, or when the sides
    /// read different volumes.
    pub fn run(&self, folder: &Path, reference: Option<&Program>) -> Result<Section> {
        let path = folder.join("volume.rad.iac");
        let inputs = slices(self.slices)?.into_iter().enumerate();
        let inputs =
            inputs.map(|(number, file)| DicomInput::Bytes(format!("slice {number}"), file.into()));
        DicomPackBuilder::new().effort(EFFORT).build_from(&path, inputs)?;
        sample::warm(&path)?;

        let mut peer = reference.map(Program::start).transpose()?;
        if let Some(peer) = &mut peer {
            peer.call(&json!({"op": "use_volume", "path": path}))?;
        }
        let options = VolumeOptions::default();
        let volume = |workers, options: VolumeOptions| -> Result<_> {
            // Everything that a program has to do that has the name of a pack.
            let pack = open(&path, workers)?;
            let found = pack.volume_stacks(&pack.series()[0])?;
            Ok(pack.read_volume(&found.stacks[0], &options.with_workers(workers))?)
        };
        let mut series = Series::default();
        for round in 0..self.rounds + 1 {
            let (ours, two) = measure(|| volume(TWO, options))?;
            let (_, one) = measure(|| volume(ONE, options))?;
            let (_, stored) = measure(|| volume(TWO, options.with_values(VolumeValues::Stored)))?;
            // The first round of each side is for warming up.
            if round > 0 {
                series.add("two", two);
                series.add("one", one);
                series.add("stored", stored);
            }
            if let Some(peer) = &mut peer {
                let theirs = peer.sample(&json!({"op": "read_volume", "sorted": false}))?;
                let sorted = peer.sample(&json!({"op": "read_volume", "sorted": true}))?;
                if round > 0 {
                    series.add("reference", theirs);
                    series.add("sorted", sorted);
                }
                check_sum(&ours, &peer.call(&json!({"op": "check_volume"}))?)?;
            }
        }
        drop(peer);
        std::fs::remove_file(&path)?;
        let line = |what, ours, reference, goal| Line {
            what,
            ours,
            reference: Some(reference),
            plain: None,
            basis: Basis::Wall,
            goal,
        };
        Ok(Section {
            title: format!(
                "volume, {} slices of {EDGE} x {EDGE} in JPEG XL, rescaled to floats, order known",
                self.slices
            ),
            unit: ("ms", 1e-3),
            series,
            lines: vec![
                line("2 workers", "two", "reference", Some(Goal::TimesReference(1.8))),
                line("1 worker", "one", "reference", None),
                line("2 workers, the reference puts slices in order", "two", "sorted", None),
                line("2 workers, stored samples", "stored", "reference", None),
            ],
            facts: Vec::new(),
        })
    }
}
