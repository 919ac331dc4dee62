//! Our exports in every transfer syntax, decoded by others: pydicom with the decoders that it
//! finds, and imagecodecs. More of pydicom's decoders take part where `PYTHONPATH` names a folder
//! with them.
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
    DicomInput, DicomPackBuilder, DicomPackReader, ExportOptions, ExportSyntax, SchemaChoice,
};
use iac_interop::reference;
use sha2::{Digest, Sha256};

fn sorted(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

/// One object of each golden case, and public files where they are at hand.
fn sources() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../iac-adapters/tests/data/dicom");
    let cases = sorted(&folder).into_iter().filter(|path| path.is_dir());
    // With bits above the stored ones, decoders do not agree on what a sample is.
    let mut files: Vec<PathBuf> = cases
        .filter(|path| !path.file_name().unwrap().to_string_lossy().starts_with("high_bit"))
        .filter_map(|path| sorted(&path.join("in")).first().cloned())
        .collect();
    match std::env::var_os("IAC_CORPUS") {
        Some(corpus) => files.extend(sorted(&PathBuf::from(corpus).join("dicom"))),
        None => println!("without public files: IAC_CORPUS is not set"),
    }
    files
}

#[test]
fn exports_of_every_syntax_are_decoded_by_others_to_the_same_samples() {
    let folder = tempfile::tempdir().unwrap();
    let mut exports = Vec::new();
    let mut lines = String::new();
    for (number, source) in sources().into_iter().enumerate() {
        let target = folder.path().join("a.rad.iac");
        let input = DicomInput::File(source.clone());
        // What schema 1 has no place for is compared in the tests of frames.
        let builder = DicomPackBuilder::new().effort(1).schema(SchemaChoice::One);
        if builder.build_from(&target, [input]).is_err() {
            continue;
        }
        let pack = DicomPackReader::open(&target).unwrap();
        if pack.has_pixels(0).unwrap() {
            let pixels = pack.read_pixels(0).unwrap();
            let sum: String = Sha256::digest(pixels.samples.to_le_bytes())
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect();
            for syntax in ExportSyntax::ALL {
                let file = folder.path().join(format!("{number}.{}.dcm", syntax.name()));
                let options = ExportOptions::default().with_syntax(syntax);
                pack.export_to(0, &file, &options).unwrap();
                lines.push_str(&format!("{}\n", file.display()));
                let dtype = pixels.samples.pixel_type().name();
                exports.push((source.clone(), syntax, dtype, sum.clone()));
            }
        }
        drop(pack);
        std::fs::remove_file(&target).unwrap();
    }
    let told = reference::run_json::<&str>("read_dicom_files.py", &[], &lines);
    assert_eq!(told.len(), exports.len());
    let mut wrong = Vec::new();
    let mut counts: BTreeMap<(&str, String), usize> = BTreeMap::new();
    for ((source, syntax, dtype, sum), told) in exports.iter().zip(&told) {
        let at = format!("{} as {}", source.display(), syntax.name());
        if told["syntax"] != syntax.uid() {
            wrong.push(format!("{at}: {told}"));
            continue;
        }
        let images = told["images"].as_object().unwrap();
        if images.is_empty() {
            wrong.push(format!("{at}: nobody decodes it"));
        }
        for (decoder, image) in images {
            if image["sha256"] != sum.as_str() || image["dtype"] != *dtype {
                wrong.push(format!("{at}: {decoder} finds {image}"));
            }
            *counts.entry((syntax.name(), decoder.clone())).or_default() += 1;
        }
    }
    for ((syntax, decoder), count) in &counts {
        println!("{syntax}: {count} images equal by {decoder}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for syntax in ExportSyntax::ALL {
        let of_syntax = counts.iter().filter(|((name, _), _)| *name == syntax.name());
        let count: usize = of_syntax.map(|(_, count)| count).sum();
        assert!(count > 30, "{}: only {count} images", syntax.name());
    }
}
