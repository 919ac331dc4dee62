//! Made-up inputs, and running a program on them.
#![allow(dead_code, reason = "each test uses a part of this")]

use std::path::{Path, PathBuf};
use std::process::Command;

use iatrocache::adapters::TileRecord;
use iatrocache::adapters::dicom::{DataSet, DicomFile, Element, Tag, VR};
use iatrocache::adapters::manifest::write_manifest;
use iatrocache::ops::pictures::write_png;
use iatrocache::{ImageShape, ImageView};

/// What a program prints; it has to succeed.
pub fn run(program: &str, arguments: &[&Path]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program}: {complaint}\n{said}");
    said
}

fn png(path: &Path, width: u32, height: u32, pixel: impl Fn(u32, u32) -> [u8; 3]) {
    let pixels: Vec<u8> = (0..height)
        .flat_map(|y| (0..width).map(move |x| (x, y)))
        .flat_map(|(x, y)| pixel(x, y))
        .collect();
    let shape = ImageShape::new(height, width, 3).unwrap();
    let view = ImageView::new(shape, pixels.as_slice()).unwrap();
    std::fs::write(path, write_png(&view).unwrap()).unwrap();
}

/// Square tiles on two slides, three quarters of them for training, and their manifest.
pub fn tiles(folder: &Path, count: i64, side: u32) -> PathBuf {
    let mut records = Vec::new();
    for number in 0..count {
        let tile_path = PathBuf::from(format!("{number}.png"));
        let shade = u8::try_from(number).unwrap();
        png(&folder.join(&tile_path), side, side, |x, y| [shade, (x * 8) as u8, (y * 8) as u8]);
        records.push(TileRecord {
            tile_id: format!("t{number}"),
            patient_id: format!("P{}", number % 2),
            slide_id: format!("S{}", number % 2),
            tile_path,
            x: number * i64::from(side),
            y: 0,
            split: Some(if number % 4 == 3 { "val" } else { "train" }.to_owned()),
        });
    }
    let manifest = folder.join("tiles.csv");
    write_manifest(&manifest, &records).unwrap();
    manifest
}

/// A slide with a dark spot on a bright ground.
pub fn slide(folder: &Path, width: u32, height: u32) -> PathBuf {
    let path = folder.join("slide.png");
    png(&path, width, height, |x, y| {
        let is_inside = x.abs_diff(200).pow(2) + y.abs_diff(150).pow(2) < 90 * 90;
        if is_inside { [120, 60, (x + y) as u8] } else { [240, 240, 240] }
    });
    path
}

fn text(tag: Tag, vr: VR, value: &str) -> Element {
    let mut bytes = value.as_bytes().to_vec();
    if bytes.len() % 2 == 1 {
        bytes.push(if vr == VR::UI { 0 } else { b' ' });
    }
    Element::new(tag, vr, bytes)
}

/// A CT series of square slices, 2.5 mm apart, without a bone in it.
pub fn dicom_series(folder: &Path, slices: u16, side: u16) -> PathBuf {
    let study = folder.join("study");
    std::fs::create_dir(&study).unwrap();
    for place in 0..slices {
        let number = |tag, value: u16| Element::new(tag, VR::US, value.to_le_bytes().to_vec());
        let samples: Vec<u8> = (0..side * side)
            .flat_map(|at| (at.wrapping_mul(place + 1) % 900).to_le_bytes())
            .collect();
        let position = format!("-100.0\\-100.0\\{:.1}", f64::from(place) * 2.5);
        let elements = vec![
            text(Tag(0x0008, 0x0016), VR::UI, "1.2.840.10008.5.1.4.1.1.2"),
            text(Tag(0x0008, 0x0018), VR::UI, &format!("2.25.{}", 100 + place)),
            text(Tag(0x0008, 0x0060), VR::CS, "CT"),
            text(Tag(0x0010, 0x0020), VR::LO, "MADE-UP"),
            text(Tag(0x0020, 0x000D), VR::UI, "2.25.1"),
            text(Tag(0x0020, 0x000E), VR::UI, "2.25.2"),
            text(Tag(0x0020, 0x0013), VR::IS, &(place + 1).to_string()),
            text(Tag(0x0020, 0x0032), VR::DS, &position),
            text(Tag(0x0020, 0x0037), VR::DS, "1\\0\\0\\0\\1\\0"),
            text(Tag(0x0020, 0x0052), VR::UI, "2.25.3"),
            number(Tag(0x0028, 0x0002), 1),
            text(Tag(0x0028, 0x0004), VR::CS, "MONOCHROME2"),
            number(Tag(0x0028, 0x0010), side),
            number(Tag(0x0028, 0x0011), side),
            text(Tag(0x0028, 0x0030), VR::DS, "1.5\\1.5"),
            number(Tag(0x0028, 0x0100), 16),
            number(Tag(0x0028, 0x0101), 16),
            number(Tag(0x0028, 0x0102), 15),
            number(Tag(0x0028, 0x0103), 0),
            text(Tag(0x0028, 0x1052), VR::DS, "-1024"),
            text(Tag(0x0028, 0x1053), VR::DS, "1"),
            Element::new(Tag(0x7FE0, 0x0010), VR::OW, samples),
        ];
        let bytes = DicomFile::new(DataSet::from_elements(elements)).to_bytes().unwrap();
        std::fs::write(study.join(format!("{place}.dcm")), bytes).unwrap();
    }
    study
}
