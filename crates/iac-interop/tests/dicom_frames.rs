//! Frames against pydicom: every image of its own test set that it reads has the same samples in a
//! pack, and what packs export is read by it with the same samples.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::print_stdout
)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use iac_adapters::dicom::{
    DicomInput, DicomPackBuilder, DicomPackReader, ExportOptions, ExportSyntax, PayloadCodec,
    SchemaChoice,
};
use iac_interop::reference;
use serde_json::Value;
use sha2::{Digest, Sha256};

fn told(paths: &[PathBuf]) -> Vec<Value> {
    let lines: String = paths.iter().map(|path| format!("{}\n", path.to_str().unwrap())).collect();
    reference::run_json::<&str>("dicom_frames.py", &[], &lines)
}

/// Shape, type and hash of all samples, as the script tells them.
fn described(pack: &DicomPackReader) -> (Vec<u64>, String, String, f64) {
    let frames = pack.frame_count(0).unwrap();
    let mut hash = Sha256::new();
    let mut sum = 0.0;
    for frame in 0..frames {
        let samples = pack.read_frame(0, frame).unwrap().samples;
        hash.update(samples.to_le_bytes());
        sum += samples.iter().filter(|sample| !sample.is_nan()).sum::<f64>();
    }
    let mut shape = pack.shape(0).unwrap().dimensions();
    if frames > 1 {
        shape.insert(0, frames);
    }
    let dtype = pack.pixel_type(0).unwrap().unwrap().name().to_owned();
    let hash: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    (shape, dtype, hash, sum)
}

/// Whether pydicom tells the same; lossy images may differ by rounding.
fn compare(name: &str, pack: &DicomPackReader, told: &Value, tolerance: f64) -> Option<String> {
    let (shape, dtype, hash, sum) = described(pack);
    if told["shape"] != Value::from(shape.clone()) || told["dtype"] != dtype.as_str() {
        return Some(format!("{name}: {shape:?} {dtype}, but {} {}", told["shape"], told["dtype"]));
    }
    if told["sha256"] == hash.as_str() {
        return None;
    }
    let samples: u64 = shape.iter().product();
    #[allow(clippy::cast_precision_loss)]
    let by = (told["sum"].as_f64().unwrap() - sum).abs() / samples as f64;
    (by > tolerance).then(|| format!("{name}: other samples, by {by} on average"))
}

#[test]
fn images_of_pydicoms_own_test_set_have_the_same_samples() {
    let told = told(&[PathBuf::from("test files")]);
    let folder = tempfile::tempdir().unwrap();
    let builder = DicomPackBuilder::new().payload(PayloadCodec::Zstd);
    let mut wrong = Vec::new();
    let mut compared: BTreeMap<&str, u32> = BTreeMap::new();
    for (number, told) in told.iter().enumerate().filter(|(_, told)| told["sha256"].is_string()) {
        let source = Path::new(told["path"].as_str().unwrap());
        let name = source.file_name().unwrap().to_str().unwrap();
        let target = folder.path().join(format!("{number}.rad.iac"));
        let built = builder.build_from(&target, [DicomInput::File(source.to_owned())]);
        if let Err(error) = built {
            wrong.push(format!("{name}: {error}"));
            continue;
        }
        let pack = DicomPackReader::open(&target).unwrap();
        wrong.extend(compare(name, &pack, told, 0.5));
        for kind in kinds(told) {
            *compared.entry(kind).or_default() += 1;
        }
    }
    println!("{compared:?}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(compared["several frames"] >= 7 && compared["1 bit"] >= 2 && compared["32 bits"] >= 8);
}

fn kinds(told: &Value) -> Vec<&'static str> {
    let mut kinds = vec!["all"];
    if told["shape"].as_array().unwrap().len() > 2
        && !matches!(told["frames"].as_str(), Some("" | "1"))
    {
        kinds.push("several frames");
    }
    match told["allocated"].as_u64() {
        Some(1) => kinds.push("1 bit"),
        Some(32) => kinds.push("32 bits"),
        _ => {}
    }
    kinds
}

#[test]
fn exports_of_frames_are_read_by_pydicom_with_the_same_samples() {
    let told = told(&[PathBuf::from("test files")]);
    let folder = tempfile::tempdir().unwrap();
    let mut exports = Vec::new();
    let mut sources = Vec::new();
    for (number, told) in told.iter().enumerate().filter(|(_, told)| told["sha256"].is_string()) {
        if kinds(told).len() < 2 {
            continue;
        }
        let source = PathBuf::from(told["path"].as_str().unwrap());
        let target = folder.path().join(format!("{number}.rad.iac"));
        let builder = DicomPackBuilder::new().schema(SchemaChoice::Two).payload(PayloadCodec::None);
        builder.build_from(&target, [DicomInput::File(source.clone())]).unwrap();
        let pack = DicomPackReader::open(&target).unwrap();
        for syntax in
            [ExportSyntax::ExplicitLittleEndian, ExportSyntax::Rle, ExportSyntax::Jpeg2000]
        {
            let path = folder.path().join(format!("{number}.{}.dcm", syntax.name()));
            let options = ExportOptions::default().with_syntax(syntax).with_verify(true);
            pack.export_to(0, &path, &options).unwrap();
            exports.push(path);
            let name = source.file_name().unwrap().to_str().unwrap().to_owned();
            sources.push((format!("{name} as {}", syntax.name()), target.clone()));
        }
    }
    let read = self::told(&exports);
    assert_eq!(read.len(), sources.len());
    let mut wrong = Vec::new();
    for ((name, target), told) in sources.iter().zip(&read) {
        let error = told["error"].as_str().unwrap_or_default();
        if error.contains("Pillow cannot decode") {
            continue;
        }
        if !told["sha256"].is_string() {
            wrong.push(format!("{name}: {}", told["error"]));
            continue;
        }
        let pack = DicomPackReader::open(target).unwrap();
        // Without loss there is nothing to tolerate.
        wrong.extend(compare(name, &pack, told, 0.0));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(sources.len() > 30, "only {} exports", sources.len());
}
