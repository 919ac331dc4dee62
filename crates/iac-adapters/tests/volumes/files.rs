//! Files with volumes.

use std::io::Read as _;

use iac_adapters::dicom::volume::{SaveOptions, VolumeValues};
use iac_format::ErrorKind;

use crate::support::*;

fn f32_at(bytes: &[u8], at: usize) -> f32 {
    f32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn i16_at(bytes: &[u8], at: usize) -> i16 {
    i16::from_le_bytes(bytes[at..at + 2].try_into().unwrap())
}

#[test]
fn a_nifti_file_has_its_fields_where_the_format_has_them() {
    let file = ct();
    let stored = options().with_values(VolumeValues::Stored);
    let volume = file.read_volume(&only_stack(&file), &stored).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new/a.b.nii");
    volume.save_nifti(&path, &SaveOptions::default()).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!(bytes.len(), 352 + 800);
    assert_eq!(bytes[..4], 348_i32.to_le_bytes());
    assert_eq!(&bytes[344..348], b"n+1\0");
    let dim: Vec<i16> = (0..8).map(|n| i16_at(&bytes, 40 + 2 * n)).collect();
    assert_eq!(dim, [3, 10, 8, 5, 1, 1, 1, 1]);
    // uint16
    assert_eq!([i16_at(&bytes, 70), i16_at(&bytes, 72)], [512, 16]);
    let pixdim: Vec<f32> = (0..4).map(|n| f32_at(&bytes, 76 + 4 * n)).collect();
    assert_eq!(pixdim, [1.0, 1.0, 2.0, 2.5]);
    assert_eq!([f32_at(&bytes, 108), f32_at(&bytes, 112), f32_at(&bytes, 116)], [352.0, 1.0, 0.0]);
    assert_eq!([i16_at(&bytes, 252), i16_at(&bytes, 254)], [1, 1]);
    // Half a turn about the axis towards the head.
    let quaternion: Vec<f32> = (0..6).map(|n| f32_at(&bytes, 256 + 4 * n)).collect();
    assert_eq!(quaternion, [0.0, 0.0, 1.0, 5.0, -10.0, 100.0]);
    let rows: Vec<f32> = (0..12).map(|n| f32_at(&bytes, 280 + 4 * n)).collect();
    assert_eq!(rows[..4], [-1.0, 0.0, 0.0, 5.0]);
    assert_eq!(rows[4..8], [0.0, -2.0, 0.0, -10.0]);
    assert_eq!(rows[8..], [0.0, 0.0, 2.5, 100.0]);
    // The lowest slice is the last frame.
    assert_eq!(bytes[352..354], 320_u16.to_le_bytes());

    let packed = folder.path().join("a.nii.gz");
    volume.save_nifti(&packed, &SaveOptions::default()).unwrap();
    let mut unpacked = Vec::new();
    let packed = std::fs::File::open(&packed).unwrap();
    flate2::read::GzDecoder::new(packed).read_to_end(&mut unpacked).unwrap();
    assert_eq!(unpacked, bytes);
}

#[test]
fn a_numpy_file_has_the_shape_of_the_array() {
    let file = ct();
    let volume = file.read_volume(&only_stack(&file), &options()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.npy");
    volume.save_npy(&path, &SaveOptions::default()).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let header = usize::from(u16::from_le_bytes([bytes[8], bytes[9]])) + 10;
    assert_eq!(header % 64, 0);
    let text = std::str::from_utf8(&bytes[10..header]).unwrap();
    assert!(text.starts_with("{'descr': '<f4', 'fortran_order': False, 'shape': (5, 8, 10), }"));
    assert!(text.ends_with('\n'));
    assert_eq!(bytes.len(), header + 1600);
    assert_eq!(f32_at(&bytes, header), 320.0);
}

#[test]
fn files_that_exist_are_replaced_only_when_asked_to_and_nothing_else_is_left() {
    let file = ct();
    let volume = file.read_volume(&only_stack(&file), &options()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.npy");
    std::fs::write(&path, "mine").unwrap();
    let error = volume.save_npy(&path, &SaveOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exists);
    assert_eq!(std::fs::read(&path).unwrap(), b"mine");
    volume.save_npy(&path, &SaveOptions::default().with_overwrite(true)).unwrap();
    assert!(std::fs::read(&path).unwrap().len() > 1600);
    // A folder cannot be replaced by a file.
    let error =
        volume.save_nifti(folder.path(), &SaveOptions::default().with_overwrite(true)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}
