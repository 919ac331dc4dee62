//! `iac dicom volume` on a file with frames, which no codec is needed for.
#![cfg(feature = "dicom")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::names_in;
use iatrocache::Limits;
use iatrocache::adapters::dicom::{DataSet, DicomFile, Element, Tag, VR};
use iatrocache::ops::pictures::read_picture;
use serde_json::json;
use tempfile::tempdir;

fn text(tag: Tag, vr: VR, value: &str) -> Element {
    let mut bytes = value.as_bytes().to_vec();
    if bytes.len() % 2 == 1 {
        bytes.push(b' ');
    }
    Element::new(tag, vr, bytes)
}

fn word(tag: Tag, value: u16) -> Element {
    Element::new(tag, VR::US, value.to_le_bytes().to_vec())
}

/// A dose of three planes of 4 x 5 voxels at these offsets.
fn dose(folder: &Path, offsets: &str) -> PathBuf {
    let samples: Vec<u8> = (0..60_u16).flat_map(|it| (it * 100).to_le_bytes()).collect();
    let elements = vec![
        text(Tag(0x0008, 0x0018), VR::UI, "2.25.1"),
        text(Tag(0x0020, 0x0032), VR::DS, "10\\20\\30"),
        text(Tag(0x0020, 0x0037), VR::DS, "1\\0\\0\\0\\1\\0"),
        word(Tag(0x0028, 0x0002), 1),
        text(Tag(0x0028, 0x0008), VR::IS, "3"),
        word(Tag(0x0028, 0x0010), 4),
        word(Tag(0x0028, 0x0011), 5),
        text(Tag(0x0028, 0x0030), VR::DS, "2\\1.5"),
        word(Tag(0x0028, 0x0100), 16),
        word(Tag(0x0028, 0x0101), 16),
        word(Tag(0x0028, 0x0102), 15),
        word(Tag(0x0028, 0x0103), 0),
        text(Tag(0x3004, 0x0002), VR::CS, "GY"),
        text(Tag(0x3004, 0x000C), VR::DS, offsets),
        text(Tag(0x3004, 0x000E), VR::DS, "0.01"),
        Element::new(Tag(0x7FE0, 0x0010), VR::OW, samples),
    ];
    let path = folder.join("dose.dcm");
    fs::write(&path, DicomFile::new(DataSet::from_elements(elements)).to_bytes().unwrap()).unwrap();
    path
}

#[test]
fn stacks_are_listed_and_written_in_every_form() {
    let folder = tempdir().unwrap();
    let path = dose(folder.path(), "0\\2.5\\5");
    let listed = iac!("dicom", "volume", path).succeeded();
    assert!(listed.text().contains("3 slices of 5 x 4 at 3 places"), "{}", listed.text());
    assert!(listed.text().contains("2.5000 mm apart"), "{}", listed.text());
    let listed = iac!("dicom", "volume", path, "--json").succeeded().json();
    let stack = &listed["stacks"][0];
    assert_eq!(stack["regular"], true);
    assert_eq!(stack["extent"], json!([30.0, 35.0]));
    assert_eq!(stack["affine"][2], json!([0.0, 0.0, 2.5, 30.0]));

    let nifti = folder.path().join("out/dose.nii");
    let written = iac!("dicom", "volume", path, "-o", nifti, "--json").succeeded().json();
    assert_eq!(
        (&written["shape"], &written["type"], &written["units"]),
        (&json!([3, 4, 5]), &json!("float32"), &json!("GY"))
    );
    let bytes = fs::read(&nifti).unwrap();
    assert_eq!(bytes.len(), 352 + 240);
    assert_eq!(bytes[bytes.len() - 4..], 59.0_f32.to_le_bytes());
    let numpy = folder.path().join("dose.npy");
    iac!("dicom", "volume", path, "-o", numpy, "--stored").succeeded();
    let bytes = fs::read(&numpy).unwrap();
    assert_eq!(bytes[bytes.len() - 2..], 5900_u16.to_le_bytes());
    iac!("dicom", "volume", path, "-o", folder.path().join("a.nii.gz")).succeeded();
    let picture = folder.path().join("dose.png");
    iac!("dicom", "volume", path, "-o", picture, "--window", "30,60").succeeded();
    let picture = read_picture(&fs::read(&picture).unwrap(), &Limits::default()).unwrap();
    // 7.5 x 8 x 7.5 mm: the longest axis gets 384 pixels.
    assert_eq!(picture.shape().dimensions()[..2], [384, 360 + 360 + 384 + 16]);

    let again = iac!("dicom", "volume", path, "-o", nifti, "--json").ended_with(2);
    assert_eq!(again.json_error()["kind"], "exists");
    iac!("dicom", "volume", path, "-o", nifti, "--overwrite").succeeded();
}

#[test]
fn uneven_stacks_are_refused_with_their_positions_unless_asked_for() {
    let folder = tempdir().unwrap();
    let path = dose(folder.path(), "0\\2.5\\10");
    let listed = iac!("dicom", "volume", path).succeeded();
    assert!(listed.text().contains("2 missing between 32.500 mm"), "{}", listed.text());
    let out = folder.path().join("dose.nii");
    let error = iac!("dicom", "volume", path, "-o", out, "--json").ended_with(4).json_error();
    assert_eq!(error["kind"], "unsupported");
    assert!(error["message"].as_str().unwrap().contains("2 missing between 32.500 mm"), "{error}");
    assert_eq!(names_in(folder.path()), ["dose.dcm"]);
    iac!("dicom", "volume", path, "-o", out, "--uneven").succeeded();
}

#[test]
fn names_windows_and_stacks_that_mean_nothing_are_refused() {
    let folder = tempdir().unwrap();
    let path = dose(folder.path(), "0\\2.5\\5");
    let out = folder.path().join("dose.jpg");
    iac!("dicom", "volume", path, "-o", out).ended_with(2);
    let out = folder.path().join("dose.png");
    for window in ["40", "40,0", "nan,3", "a,b"] {
        iac!("dicom", "volume", path, "-o", out, "--window", window).ended_with(2);
    }
    iac!("dicom", "volume", path, "-o", out, "--stack", "1").ended_with(2);
    iac!("dicom", "volume", path, "-o", out, "--structures", "1").ended_with(2);
    assert_eq!(names_in(folder.path()), ["dose.dcm"]);
}
