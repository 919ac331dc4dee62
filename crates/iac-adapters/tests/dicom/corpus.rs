//! Public files, where they are at hand.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use iac_adapters::dicom::{
    DicomFile, DicomInput, DicomPackBuilder, DicomPackReader, ExportOptions, ExportSyntax, Pixels,
};
use iac_format::ErrorKind;
use serde_json::Value;

use crate::support::{has_codec, sha256};

/// What became of a public file.
#[derive(Debug)]
enum Outcome {
    Equal,
    /// Lossy: by how much the block means differ at most, in levels.
    Near(f64),
    NoPixels,
    /// Nobody else told what the pixels are.
    Alone,
    Differs(String),
    Refused(ErrorKind, String),
}

fn pack(path: &Path, target: &Path) -> iac_adapters::Result<DicomPackReader> {
    let input = if path.extension().is_some_and(|suffix| suffix == "zst") {
        let codec = iac_codec::zstd::ZstdOptions::new(3).codec().unwrap();
        let bytes =
            codec.decode_bytes(&std::fs::read(path).unwrap(), &iac_codec::Limits::default());
        DicomInput::Bytes("test".to_owned(), bytes.unwrap().into())
    } else {
        DicomInput::File(path.to_owned())
    };
    DicomPackBuilder::new().effort(1).build_from(target, [input])?;
    DicomPackReader::open(target)
}

/// Means of an 8 x 8 grid of blocks, for each channel.
fn grid(pixels: &Pixels) -> Vec<f64> {
    let [height, width] = [pixels.shape.height(), pixels.shape.width()].map(|n| n as usize);
    let channels = pixels.shape.channels() as usize;
    let samples: Vec<f64> = pixels.samples.iter().collect();
    let mut means = Vec::new();
    for block in 0..64 {
        let rows = (block / 8 * height / 8)..((block / 8 + 1) * height / 8);
        for channel in 0..channels {
            let (mut sum, mut count) = (0.0, 0.0);
            for y in rows.clone() {
                for x in (block % 8 * width / 8)..((block % 8 + 1) * width / 8) {
                    sum += samples[(y * width + x) * channels + channel];
                    count += 1.0;
                }
            }
            means.push(sum / count);
        }
    }
    means
}

/// All frames of the first instance.
fn frames(pack: &DicomPackReader) -> Vec<Pixels> {
    (0..pack.frame_count(0).unwrap()).map(|frame| pack.read_frame(0, frame).unwrap()).collect()
}

fn hash_of(frames: &[Pixels]) -> String {
    let bytes: Vec<u8> = frames.iter().flat_map(|frame| frame.samples.to_le_bytes()).collect();
    sha256(&bytes)
}

fn flat(value: &Value, numbers: &mut Vec<f64>) {
    match value {
        Value::Array(values) => values.iter().for_each(|value| flat(value, numbers)),
        Value::Number(number) => numbers.extend(number.as_f64()),
        _ => {}
    }
}

fn outcome(path: &Path, wanted: Option<&Value>) -> Outcome {
    let folder = tempfile::tempdir().unwrap();
    let pack = match pack(path, &folder.path().join("a.rad.iac")) {
        Ok(pack) => pack,
        Err(error) => {
            let reason = error.reason();
            return Outcome::Refused(
                error.kind(),
                reason.replace(&format!("{}: ", path.display()), ""),
            );
        }
    };
    // Whatever goes in comes out, and goes in again.
    let syntaxes = [
        ("jxl", ExportSyntax::JpegXl),
        ("none", ExportSyntax::ExplicitLittleEndian),
        ("none", ExportSyntax::Rle),
        ("jpegls", ExportSyntax::JpegLs),
        ("jpeg2000", ExportSyntax::Jpeg2000),
        ("jpeg2000", ExportSyntax::Htj2k),
    ];
    let mut hashes = Vec::new();
    for (codec, syntax) in syntaxes {
        if !has_codec(codec) {
            continue;
        }
        let options = ExportOptions::default().with_syntax(syntax).with_verify(true);
        let bytes = match pack.export(0, &options) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::MissingFeature => continue,
            Err(error) => panic!("{} as {}: {error}", path.display(), syntax.name()),
        };
        assert!(DicomFile::parse(&bytes.clone().into(), "export").is_ok(), "{}", path.display());
        let again = folder.path().join(format!("{}.rad.iac", syntax.name()));
        let input = DicomInput::Bytes("export".to_owned(), bytes.into());
        DicomPackBuilder::new().effort(1).build_from(&again, [input]).unwrap();
        let again = DicomPackReader::open(&again).unwrap();
        if pack.has_pixels(0).unwrap() {
            hashes.push(hash_of(&frames(&again)));
        }
    }
    if !pack.has_pixels(0).unwrap() {
        return Outcome::NoPixels;
    }
    let all = frames(&pack);
    let pixels = &all[0];
    let hash = hash_of(&all);
    assert!(hashes.iter().all(|other| *other == hash), "{}: exports differ", path.display());
    let Some(wanted) = wanted.filter(|wanted| wanted.is_object()) else {
        return Outcome::Alone;
    };
    let sum = wanted.get("sha256").or_else(|| wanted.get("sha256_little_endian_c_order"));
    if sum.and_then(Value::as_str) == Some(&hash) {
        return Outcome::Equal;
    }
    let mut shape = pixels.shape.dimensions();
    if all.len() > 1 {
        shape.insert(0, all.len() as u64);
    }
    let shape: Value = shape.into();
    if shape != wanted["shape"] || pixels.samples.pixel_type().name() != wanted["dtype"] {
        return Outcome::Differs(format!(
            "{shape} {} instead of {} {}",
            pixels.samples.pixel_type().name(),
            wanted["shape"],
            wanted["dtype"]
        ));
    }
    let mut means = Vec::new();
    if let Some(grid) = wanted.get("grid8") {
        flat(grid, &mut means);
    }
    let found = grid(pixels);
    if means.is_empty()
        && let (Some(least), Some(most)) = (wanted["min"].as_f64(), wanted["max"].as_f64())
    {
        let samples = || all.iter().flat_map(|frame| frame.samples.iter());
        let by = (samples().fold(f64::MAX, f64::min) - least).abs();
        return Outcome::Near(by.max((samples().fold(f64::MIN, f64::max) - most).abs()) / 4.0);
    }
    if means.len() != found.len() {
        return Outcome::Differs("other samples".to_owned());
    }
    let most = means.iter().zip(&found).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    Outcome::Near(most)
}

fn table(
    folder: &Path,
    expected: &BTreeMap<String, Value>,
    pixels: fn(&Value) -> Option<&Value>,
) -> Vec<(String, Outcome)> {
    let mut names: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|it| it.unwrap().path()).collect();
    names.sort();
    names
        .iter()
        .filter_map(|path| {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            let row = expected.get(&name)?;
            Some((name, outcome(path, pixels(row))))
        })
        .collect()
}

fn show(rows: &[(String, Outcome)]) {
    for (name, outcome) in rows {
        match outcome {
            Outcome::Equal => println!("| `{name}` | yes | yes | |"),
            Outcome::Near(by) => {
                println!("| `{name}` | yes | block means within {by:.3} | lossy |")
            }
            Outcome::Alone => {
                println!("| `{name}` | yes | not compared | the reference refuses it |")
            }
            Outcome::NoPixels => println!("| `{name}` | yes | no pixels | |"),
            Outcome::Differs(why) => println!("| `{name}` | yes | no | {why} |"),
            Outcome::Refused(kind, why) => {
                println!("| `{name}` | no | | {}: {why} |", kind.as_str())
            }
        }
    }
}

fn folder(variable: &str, inner: &str) -> Option<PathBuf> {
    let found = std::env::var_os(variable).map(|root| PathBuf::from(root).join(inner));
    if found.is_none() {
        println!("not run: {variable} is not set");
    }
    found.filter(|_| has_codec("jxl"))
}

/// What is refused: several frames, 1 and 32 bits allocated, directories of media, pixels that are
/// cut or damaged (no other decoder reads these), one file that is no DICOM, one whose
/// pixel data has no description.
const REFUSED: &[&str] = &[
    "pydicom_JPEG-lossy.dcm",
    "pydicom_JPEG2000-embedded-sequence-delimiter.dcm",
    "pydicom_MR_truncated.dcm",
    "pydicom_badVR.dcm",
    "pydicom_no_meta.dcm",
    "test_files__MR_truncated.dcm",
    "test_files__dicomdirtests__DICOMDIR-empty.dcm",
    "test_files__dicomdirtests__DICOMDIR-nopatient",
    "test_files__nested_priv_SQ.dcm",
];

fn check(rows: &[(String, Outcome)], refused: &[&str]) {
    show(rows);
    for (name, outcome) in rows {
        let name = name.as_str();
        match outcome {
            Outcome::Differs(_) => panic!("{name}: {outcome:?}"),
            Outcome::Near(by) => assert!(*by <= 1.0, "{name}: {outcome:?}"),
            Outcome::Refused(ErrorKind::MissingFeature, _) => {}
            // A backend that decodes less than the one of the full build.
            Outcome::Refused(ErrorKind::Unsupported, why) if why.contains("the feature `") => {}
            Outcome::Refused(..) => assert!(refused.contains(&name), "{name}: {outcome:?}"),
            Outcome::Equal | Outcome::NoPixels | Outcome::Alone => {}
        }
    }
}

#[test]
fn corpus_files_are_accepted_with_the_pixels_of_other_decoders() {
    let Some(folder) = folder("IAC_CORPUS", "dicom") else { return };
    let expected = std::fs::read(folder.join("expected.json")).unwrap();
    let expected = serde_json::from_slice(&expected).unwrap();
    let rows = table(&folder, &expected, |row| row.get("pixels_raw"));
    check(&rows, REFUSED);
}

#[test]
fn small_public_files_are_accepted_with_the_pixels_of_the_reference() {
    let Some(folder) = folder("IAC_FIXTURES", "dicom-files") else { return };
    let expected = std::fs::read(folder.join("results.json")).unwrap();
    let expected = serde_json::from_slice(&expected).unwrap();
    let rows = table(&folder, &expected, |row| {
        row.pointer("/plain/pixels").or_else(|| row.pointer("/with_optional_decoders/pixels"))
    });
    check(&rows, REFUSED);
}
