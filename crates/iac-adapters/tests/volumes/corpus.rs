//! Public files beside what pydicom reads of them. Not run when `IAC_CORPUS` is not set.

use std::path::PathBuf;

use iac_adapters::dicom::volume::{VolumeFile, VolumeStack, VolumeValues, Voxels};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::support::*;

/// A file of the corpus, and what is expected of its pixels.
fn open(name: &str) -> Option<(VolumeFile, Value)> {
    let Some(folder) = std::env::var_os("IAC_CORPUS").map(PathBuf::from) else {
        println!("not run: IAC_CORPUS is not set");
        return None;
    };
    let folder = folder.join("dicom");
    let expected: Value =
        serde_json::from_slice(&std::fs::read(folder.join("expected.json")).unwrap()).unwrap();
    Some((VolumeFile::open(folder.join(name)).unwrap(), expected[name]["pixels_raw"].clone()))
}

/// Stored samples are those of pydicom, bit by bit.
fn assert_stored(file: &VolumeFile, stack: &VolumeStack, expected: &Value) {
    let stored = options().with_values(VolumeValues::Stored);
    let volume = file.read_volume(stack, &stored).unwrap();
    let mut bytes = Vec::new();
    volume.write_voxels(&mut bytes).unwrap();
    let found: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(expected["sha256"], found.as_str());
    assert_eq!(expected["dtype"], volume.voxels.voxel_type().name());
}

#[test]
fn a_dose_of_a_planning_system_is_scaled() {
    let Some((file, expected)) = open("pydicom_rtdose.dcm") else { return };
    let stack = only_stack(&file);
    assert_eq!((stack.spacing, stack.is_regular()), (Some(5.0), true));
    assert_stored(&file, &stack, &expected);
    let volume = file.read_volume(&stack, &options()).unwrap();
    let voxels = volume.voxels.as_f32().unwrap();
    let most = voxels.iter().copied().fold(0.0, f32::max);
    assert!((most - 1.254).abs() < 1e-6 && volume.units == "RELATIVE", "{most} {}", volume.units);
    let [x, y, z] = volume.affine.apply([0.0, 0.0, 14.0]);
    assert!((x - 189.43125).abs() + (y - 199.43125).abs() + (z + 691.87).abs() < 1e-9);
}

#[test]
fn a_segmentation_of_another_library_has_its_voxels() {
    let Some((file, expected)) = open("highdicom_seg_image_ct_binary.dcm") else { return };
    let stack = only_stack(&file);
    assert_eq!(stack.slices.len(), 3);
    assert_stored(&file, &stack, &expected);
    let drawn = file.segmentation().unwrap().labels(&options()).unwrap();
    assert!(drawn.faults.is_empty(), "{:?}", drawn.faults);
    let Voxels::U16(labels) = &drawn.volume.voxels else { panic!() };
    let counts: Vec<usize> =
        labels.outer_iter().map(|slice| slice.iter().filter(|it| **it == 1).count()).collect();
    assert_eq!(counts, [127, 256, 255]);
    assert!((drawn.volume.affine.lengths()[2] - 1.25).abs() < 1e-6);
}

#[test]
fn a_parametric_map_of_floats_has_its_values() {
    let Some((file, expected)) = open("pydicomdata_parametric_map_float.dcm") else { return };
    let stack = only_stack(&file);
    assert_stored(&file, &stack, &expected);
    let values = file.read_volume(&stack, &options()).unwrap();
    let stored = file.read_volume(&stack, &options().with_values(VolumeValues::Stored)).unwrap();
    assert_eq!((values.voxels, values.units.as_str()), (stored.voxels, "1"));
}

#[test]
fn frames_of_an_object_without_groups_come_in_their_order() {
    let Some((file, expected)) = open("pydicomdata_emri_small.dcm") else { return };
    assert_eq!(file.volume_stacks().unplaced.len(), 10);
    let found = file.stacks_in_order();
    assert!(!found.stacks[0].placed);
    assert_stored(&file, &found.stacks[0], &expected);
}
