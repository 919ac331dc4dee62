//! A made-up CT series with a report, as a pack of DICOM objects.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use iatrocache::adapters::dicom::volume::{PlaneOptions, VolumeOptions};
use iatrocache::adapters::dicom::{
    DataSet, DicomFile, DicomInputs, DicomPackBuilder, DicomPackReader, Element, Tag, VR,
};
use iatrocache::ops::OpsError;
use iatrocache::ops::pictures::write_png;
use iatrocache::{ErrorKind, compiled_codecs};
use serde_json::{Value, json};

use super::cohort::Random;
use crate::cli::Common;
use crate::failure::{Failure, Report, Result};
use crate::human;
use crate::place::NewFile;
use crate::progress::{Shown, Unit};

/// Slices of the series, and pixels of each side.
const SLICES: u16 = 24;
const SIDE: u16 = 128;

/// Reads the series as a volume, and writes a picture of three planes of it.
fn show(pack: &DicomPackReader, picture: &Path, common: &Common) -> Result<[usize; 3]> {
    for series in pack.series() {
        let found = pack.volume_stacks(series)?;
        let Some(stack) = found.stacks.first() else { continue };
        let options = VolumeOptions::default().with_workers(common.workers);
        let volume = pack.read_volume(stack, &options)?;
        let planes = volume.planes(None, &PlaneOptions::default())?;
        let png = write_png(&planes.as_view()).map_err(|source| {
            let path = picture.to_owned();
            Failure::from(OpsError::Picture { path, row: None, source: Box::new(source) })
        })?;
        let mut file = NewFile::create(picture, false)?;
        file.write(&png)?;
        file.publish()?;
        return Ok(volume.voxels.shape());
    }
    let message = format!("{}: the series is no volume", pack.reader().path());
    Err(Report::new(ErrorKind::Damaged, message).into())
}

/// What was done with the series; nothing where this build cannot encode images.
pub(super) struct Scans(Option<Done>);

struct Done {
    shape: [usize; 3],
    instances: u64,
    source_bytes: u64,
    file_bytes: u64,
    time: Duration,
}

fn text(tag: Tag, vr: VR, value: &str) -> Element {
    let mut bytes = value.as_bytes().to_vec();
    if bytes.len() % 2 == 1 {
        bytes.push(if vr == VR::UI { 0 } else { b' ' });
    }
    Element::new(tag, vr, bytes)
}

fn number(tag: Tag, value: u16) -> Element {
    Element::new(tag, VR::US, value.to_le_bytes().to_vec())
}

/// What every object of the series has.
fn shared(class: &str, modality: &str, series: &str, object: &str, instance: &str) -> Vec<Element> {
    vec![
        text(Tag(0x0008, 0x0016), VR::UI, class),
        text(Tag(0x0008, 0x0018), VR::UI, object),
        text(Tag(0x0008, 0x0020), VR::DA, "20240101"),
        text(Tag(0x0008, 0x0060), VR::CS, modality),
        text(Tag(0x0010, 0x0010), VR::PN, "Made^Up"),
        text(Tag(0x0010, 0x0020), VR::LO, "DEMO-1"),
        text(Tag(0x0020, 0x000D), VR::UI, "2.25.7001"),
        text(Tag(0x0020, 0x000E), VR::UI, series),
        text(Tag(0x0020, 0x0013), VR::IS, instance),
    ]
}

/// A slice: a body of soft tissue with a bone in it, in Hounsfield units with 1024 added.
fn slice(random: &mut Random, place: u16) -> Vec<u8> {
    let mut samples = Vec::new();
    let middle = f64::from(SIDE) / 2.0;
    for y in 0..SIDE {
        for x in 0..SIDE {
            let (dx, dy) = ((f64::from(x) - middle) / middle, (f64::from(y) - middle) / middle);
            let body = dx * dx / 0.7 + dy * dy / 0.45 < 1.0;
            let bone = dx * dx + (dy - 0.35).powi(2) < 0.012 + f64::from(place) / 4000.0;
            let noise = i16::try_from(random.next() % 41).unwrap_or(0).saturating_sub(20);
            let value: i16 = match (body, bone) {
                (_, true) => 1700,
                (true, _) => 1064,
                _ => 24,
            };
            samples.extend(value.saturating_add(noise).to_le_bytes());
        }
    }
    samples
}

fn objects() -> Result<Vec<(String, Vec<u8>)>> {
    let mut random = Random(8);
    let mut files = Vec::new();
    for place in 0..SLICES {
        let object = format!("2.25.{}", 8000_u32.saturating_add(place.into()));
        let instance = place.saturating_add(1).to_string();
        let mut elements =
            shared("1.2.840.10008.5.1.4.1.1.2", "CT", "2.25.7002", &object, &instance);
        elements.extend([
            text(Tag(0x0018, 0x0050), VR::DS, "2.50"),
            text(
                Tag(0x0020, 0x0032),
                VR::DS,
                &format!("-100.0\\-100.0\\{:.2}", f64::from(place) * 2.5),
            ),
            text(Tag(0x0020, 0x0037), VR::DS, "1.0\\0.0\\0.0\\0.0\\1.0\\0.0"),
            text(Tag(0x0020, 0x0052), VR::UI, "2.25.7003"),
            number(Tag(0x0028, 0x0002), 1),
            text(Tag(0x0028, 0x0004), VR::CS, "MONOCHROME2"),
            number(Tag(0x0028, 0x0010), SIDE),
            number(Tag(0x0028, 0x0011), SIDE),
            text(Tag(0x0028, 0x0030), VR::DS, "1.5625\\1.5625"),
            number(Tag(0x0028, 0x0100), 16),
            number(Tag(0x0028, 0x0101), 16),
            number(Tag(0x0028, 0x0102), 15),
            number(Tag(0x0028, 0x0103), 1),
            text(Tag(0x0028, 0x1050), VR::DS, "40"),
            text(Tag(0x0028, 0x1051), VR::DS, "400"),
            text(Tag(0x0028, 0x1052), VR::DS, "-1024"),
            text(Tag(0x0028, 0x1053), VR::DS, "1"),
            Element::new(Tag(0x7FE0, 0x0010), VR::OW, slice(&mut random, place)),
        ]);
        files.push((format!("slice-{place:02}.dcm"), file(elements)?));
    }
    let mut report = shared("1.2.840.10008.5.1.4.1.1.88.11", "SR", "2.25.7004", "2.25.9000", "1");
    report.push(text(Tag(0x0040, 0xA160), VR::UT, "Made-up series without findings."));
    files.push(("report.dcm".to_owned(), file(report)?));
    Ok(files)
}

fn file(elements: Vec<Element>) -> Result<Vec<u8>> {
    Ok(DicomFile::new(DataSet::from_elements(elements)).to_bytes()?)
}

/// Makes the series, packs it, reads every object and compares it with its file.
pub(super) fn pack_scans(places: [PathBuf; 3], common: &Common) -> Result<Scans> {
    let [folder, path, picture] = &places;
    if !cfg!(feature = "jxl") || !compiled_codecs().contains(&"jxl") {
        return Ok(Scans(None));
    }
    let io = |path: &Path, action: &'static str| {
        let path: PathBuf = path.to_owned();
        move |error: std::io::Error| Failure::io(&path, action, &error)
    };
    std::fs::create_dir_all(folder).map_err(io(folder, "cannot make the folder"))?;
    let files = objects()?;
    let mut source_bytes = 0_u64;
    for (name, bytes) in &files {
        let file = folder.join(name);
        std::fs::write(&file, bytes).map_err(io(&file, "cannot be written"))?;
        source_bytes = source_bytes.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
    }
    let inputs = DicomInputs::find(&[folder.to_owned()])?;
    let builder = DicomPackBuilder::new().effort(3).verify(true).workers(common.workers);
    let report = builder.build_with(path, inputs, &Shown::new(common, Unit::Rows))?;
    let pack = DicomPackReader::open(path)?;
    let begun = Instant::now();
    let mut equal = true;
    for row in 0..pack.instance_count() {
        let found = pack.data_set(row)?;
        let same = |bytes: &Vec<u8>| {
            let file = DicomFile::parse(&bytes.clone().into(), "demo");
            file.is_ok_and(|file| {
                let mut data = file.data;
                data.remove(Tag(0x7FE0, 0x0010));
                data == found
            })
        };
        equal &= files.iter().any(|(_, bytes)| same(bytes));
        if pack.has_pixels(row)? {
            pack.read_values(row)?;
        }
    }
    let time = begun.elapsed();
    if !equal {
        let message = format!("{}: an object differs from its file", path.display());
        return Err(Report::new(ErrorKind::Damaged, message).path(path).into());
    }
    let shape = show(&pack, picture, common)?;
    Ok(Scans(Some(Done {
        shape,
        instances: report.instances,
        source_bytes,
        file_bytes: report.written.file_bytes,
        time,
    })))
}

impl Scans {
    pub(super) fn line(&self) -> String {
        match &self.0 {
            None => {
                "  scans     skipped: this build cannot encode JPEG XL (feature jxl)".to_owned()
            }
            Some(done) => format!(
                "  scans     {} of {} in a DICOM pack of {}, read back and compared at {}; three planes in scans.png",
                human::counted(done.instances, "object"),
                human::bytes(done.source_bytes),
                human::bytes(done.file_bytes),
                human::record_rate(done.instances, done.time)
            ),
        }
    }

    pub(super) fn document(&self) -> Value {
        self.0.as_ref().map_or(Value::Null, |done| {
            json!({
                "instances": done.instances,
                "source_bytes": done.source_bytes,
                "file_bytes": done.file_bytes,
                "volume": done.shape,
            })
        })
    }
}
