//! Exports before the eyes of other programs, where these are installed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use iac_adapters::dicom::{
    DeidKey, DeidProfile, Deidentifier, DicomInput, DicomPackBuilder, DicomPackReader,
    ExportOptions, ExportSyntax,
};
use iac_format::ErrorKind;

use crate::support::{cases, has_codec, inputs};

fn is_installed(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok();
    if !found {
        println!("not run: {program} is not installed");
    }
    found
}

/// The errors that dciodvfy tells, without the numbers and identifiers in them.
fn errors(file: &Path) -> BTreeSet<String> {
    let output = Command::new("dciodvfy").arg(file).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    told.lines()
        .filter(|line| line.starts_with("Error"))
        .map(|line| line.chars().filter(|one| !one.is_ascii_digit() && *one != '.').collect())
        .collect()
}

/// Files whose objects other programs are asked about.
fn sources() -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = cases()
        .iter()
        .filter(|(name, ..)| {
            ["ct_series", "us_rgb_planar1", "rgb16", "cr_monochrome1", "mr_two_series_implicit"]
                .contains(&name.as_str())
        })
        .map(|(_, path, _)| inputs(path)[0].clone())
        .collect();
    if let Some(corpus) = std::env::var_os("IAC_CORPUS") {
        let folder = PathBuf::from(corpus).join("dicom");
        for name in [
            "pydicom_CT_small.dcm",
            "pydicom_MR_small_RLE.dcm",
            "pydicom_MR_small_bigendian.dcm",
            "pydicom_J2K_pixelrep_mismatch.dcm",
            "pydicom_examples_palette.dcm",
            "pydicom_SC_rgb_jpeg_dcmtk.dcm",
            "pydicomdata_color-pl.dcm",
            "pydicom_test-SR.dcm",
            "wg04_NM1_JLSL.dcm",
        ] {
            files.push(folder.join(name));
        }
    }
    files
}

#[test]
fn exports_are_read_by_dcmdump_and_have_no_new_errors_for_dciodvfy() {
    if !has_codec("jxl") || !is_installed("dcmdump") || !is_installed("dciodvfy") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut wrong = Vec::new();
    for source in sources() {
        let name = source.file_name().unwrap().to_str().unwrap().to_owned();
        let target = folder.path().join("a.rad.iac");
        match DicomPackBuilder::new()
            .effort(1)
            .build_from(&target, [DicomInput::File(source.clone())])
        {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::MissingFeature => continue,
            Err(error) => panic!("{}: {error}", source.display()),
        }
        let pack = DicomPackReader::open(&target).unwrap();
        // What the source itself has, as explicit little endian.
        let plain = folder.path().join("source.dcm");
        let converted = ["dcmdrle", "dcmdjpeg", "dcmdjpls", "dcmconv"].iter().any(|program| {
            let converted = Command::new(program)
                .args(["+te".as_ref(), source.as_os_str(), plain.as_os_str()])
                .output();
            converted.is_ok_and(|output| output.status.success())
        });
        let mut known = errors(&source);
        if converted {
            known.extend(errors(&plain));
        }
        for syntax in ExportSyntax::ALL {
            let file = folder.path().join(format!("{}.dcm", syntax.name()));
            let options = ExportOptions::default().with_syntax(syntax).with_overwrite(true);
            match pack.export_to(0, &file, &options) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::MissingFeature => continue,
                Err(error) => panic!("{name} as {}: {error}", syntax.name()),
            }
            let output = Command::new("dcmdump").arg("-q").arg(&file).output().unwrap();
            if !output.status.success() {
                wrong.push(format!(
                    "{name} as {}: dcmdump: {}",
                    syntax.name(),
                    String::from_utf8_lossy(&output.stderr)
                ));
            }
            // These it does not know, nor does it inflate.
            let unknown = [ExportSyntax::JpegXl, ExportSyntax::Htj2k, ExportSyntax::Deflated];
            if !unknown.contains(&syntax) {
                for error in errors(&file).difference(&known) {
                    wrong.push(format!("{name} as {}: {error}", syntax.name()));
                }
            }
        }
        drop(pack);
        std::fs::remove_file(&target).unwrap();
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn deidentified_objects_have_no_new_errors_for_dciodvfy() {
    if !has_codec("jxl") || !is_installed("dciodvfy") {
        return;
    }
    let mut sources = sources();
    if let Some(corpus) = std::env::var_os("IAC_CORPUS") {
        let folder = PathBuf::from(corpus).join("dicom");
        sources.push(folder.join("pydicom_waveform_ecg.dcm"));
        sources.push(folder.join("pydicomdata_parametric_map_float.dcm"));
        sources.push(folder.join("pydicom_rtplan.dcm"));
        sources.push(folder.join("highdicom_sm_annotations.dcm"));
    }
    let folder = tempfile::tempdir().unwrap();
    let key = DeidKey::new(b"0123456789abcdef".to_vec()).unwrap();
    let mut wrong = Vec::new();
    for source in sources {
        for options in ["", "\"retain-modified-dates\", \"clean-structured-content\""] {
            let target = folder.path().join("a.rad.iac");
            let text = format!("name = \"t\"\noptions = [{options}]");
            let profile = DeidProfile::parse(&text, "p").unwrap();
            let built = DicomPackBuilder::new()
                .effort(1)
                .deidentify(Arc::new(Deidentifier::new(profile, key.clone())))
                .build_from(&target, [DicomInput::File(source.clone())]);
            match built {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::MissingFeature => continue,
                Err(error) => panic!("{}: {error}", source.display()),
            }
            let file = folder.path().join("a.dcm");
            let syntax = ExportSyntax::ExplicitLittleEndian;
            let options = ExportOptions::default().with_syntax(syntax).with_overwrite(true);
            DicomPackReader::open(&target).unwrap().export_to(0, &file, &options).unwrap();
            std::fs::remove_file(&target).unwrap();
            for error in errors(&file).difference(&errors(&source)) {
                wrong.push(format!("{}: {error}", source.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
