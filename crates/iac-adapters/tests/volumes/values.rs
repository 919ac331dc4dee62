//! What makes values of samples.

use iac_adapters::dicom::volume::{OnDuplicate, StackProblem, VolumeValues, VoxelType, Voxels};
use iac_adapters::dicom::{Element, Tag, VR};

use crate::support::*;

#[test]
fn frames_are_read_in_the_order_of_their_places() {
    let (file, stack) = (ct(), only_stack(&ct()));
    let volume = file.read_volume(&stack, &options()).unwrap();
    let voxels = volume.voxels.as_f32().unwrap();
    assert_eq!(voxels.dim(), (5, 8, 10));
    // The last frame lies lowest.
    assert_eq!([voxels[[0, 0, 0]], voxels[[4, 7, 9]]], [320.0, 79.0]);
    assert_eq!(volume.slices.iter().map(|it| it.frame).collect::<Vec<_>>(), [4, 3, 2, 1, 0]);
    assert_eq!(volume.affine.apply([9.0, 7.0, 4.0]), [4.0, 24.0, 110.0]);
    let stored = file.read_volume(&stack, &options().with_values(VolumeValues::Stored)).unwrap();
    assert_eq!(stored.voxels.voxel_type(), VoxelType::U16);
    assert_eq!(stored.voxels.get([0, 0, 0]), Some(320.0));
}

#[test]
fn axes_can_be_put_in_the_order_of_the_patient() {
    let file = ct();
    let volume = file.read_volume(&only_stack(&file), &options()).unwrap();
    let ras = volume.to_ras_order();
    assert_eq!(ras.voxels.shape(), [5, 8, 10]);
    // Right and front count up, so both are turned.
    assert_eq!(ras.voxels.get([1, 2, 3]), volume.voxels.get([1, 5, 6]));
    assert_eq!(ras.affine.apply([3.0, 2.0, 1.0]), volume.affine.apply([6.0, 5.0, 1.0]));
    assert_eq!(volume.to_lps_order().voxels, volume.voxels);
}

fn dose(offsets: &[f64], scaling: &str) -> Vec<Element> {
    let mut elements = frames(32, [2, 3], 3);
    elements.extend([
        text(Tag(0x0008, 0x0060), VR::CS, "RTDOSE"),
        decimals(POSITION, &[1.0, 2.0, -30.0]),
        decimals(ORIENTATION, &AXIAL),
        decimals(SPACING, &[2.0, 2.0]),
        text(Tag(0x3004, 0x0002), VR::CS, "GY"),
        decimals(Tag(0x3004, 0x000C), offsets),
        text(Tag(0x3004, 0x000E), VR::DS, scaling),
        Element::new(
            PIXELS,
            VR::OW,
            (0..18_u64)
                .flat_map(|it| ((it * 1_000_000_000 / 17) as u32).to_le_bytes())
                .collect::<Vec<_>>(),
        ),
    ]);
    elements
}

#[test]
fn doses_are_scaled_and_lie_at_their_offsets() {
    let file = file(dose(&[0.0, 3.0, 6.0], "2.5e-8"));
    let stack = only_stack(&file);
    assert_eq!(stack.spacing, Some(3.0));
    let volume = file.read_volume(&stack, &options()).unwrap();
    assert_eq!(volume.units, "GY");
    assert_eq!(volume.voxels.get([2, 1, 2]), Some(25.0));
    assert_eq!(volume.affine.apply([0.0, 0.0, 2.0]), [1.0, 2.0, -24.0]);
    let stored = file.read_volume(&stack, &options().with_values(VolumeValues::Stored)).unwrap();
    assert_eq!(stored.voxels.get([2, 1, 2]), Some(1e9));
    assert_eq!(stored.scale, Some([2.5e-8, 0.0]));
}

#[test]
fn offsets_that_are_coordinates_count_from_the_first() {
    // Going down: the frames come in the other order.
    let file = file(dose(&[-30.0, -32.0, -34.0], "1"));
    let stack = only_stack(&file);
    assert_eq!(stack.positions, [-34.0, -32.0, -30.0]);
    assert_eq!(stack.slices.iter().map(|it| it.frame).collect::<Vec<_>>(), [2, 1, 0]);
}

#[test]
fn offsets_that_do_not_fit_the_frames_place_nothing() {
    let file = file(dose(&[0.0, 3.0], "1"));
    let found = file.volume_stacks();
    assert!(found.stacks.is_empty());
    assert_eq!(found.unplaced.len(), 3);
    assert_eq!(found.unplaced[0].reason.to_string(), "2 frame offsets for 3 frames");
}

#[test]
fn a_scaling_or_slope_of_nothing_is_an_error_that_names_the_slice() {
    for scaling in ["0", "nan", "-1"] {
        let file = file(dose(&[0.0, 3.0, 6.0], scaling));
        let error = file.read_volume(&only_stack(&file), &options()).unwrap_err();
        assert!(error.to_string().contains("dose grid scaling"), "{error}");
    }
    let mut elements = frames(16, [2, 2], 1);
    elements.extend([
        decimals(POSITION, &[0.0; 3]),
        decimals(ORIENTATION, &AXIAL),
        decimals(SPACING, &[1.0, 1.0]),
        decimals(Tag(0x0028, 0x1052), &[5.0]),
        decimals(Tag(0x0028, 0x1053), &[0.0]),
        words([1, 2, 3, 4]),
    ]);
    let file = file(elements);
    let stack = only_stack(&file);
    let error = file.read_volume(&stack, &options()).unwrap_err();
    assert!(error.to_string().ends_with("row 0: its rescale slope is 0"), "{error}");
    // The samples are there all the same.
    file.read_volume(&stack, &options().with_values(VolumeValues::Stored)).unwrap();
}

fn mapping(
    range: [f64; 2],
    slope: f64,
    intercept: f64,
    unit: &str,
) -> iac_adapters::dicom::DataSet {
    let code = item(vec![text(Tag(0x0008, 0x0100), VR::SH, unit)]);
    item(vec![
        sequence(Tag(0x0040, 0x08EA), vec![code]),
        double(Tag(0x0040, 0x9213), range[1]),
        double(Tag(0x0040, 0x9214), range[0]),
        double(Tag(0x0040, 0x9224), intercept),
        double(Tag(0x0040, 0x9225), slope),
    ])
}

fn parametric(mappings: Vec<iac_adapters::dicom::DataSet>) -> Vec<Element> {
    let mut elements = frames(16, [1, 4], 2);
    elements.extend([
        text(Tag(0x0008, 0x0016), VR::UI, "1.2.840.10008.5.1.4.1.1.30"),
        shared([1.0, 1.0], None, vec![sequence(Tag(0x0040, 0x9096), mappings)]),
        per_frame(vec![frame([0.0; 3], None), frame([0.0, 0.0, 4.0], None)]),
        words([0, 10, 20, 30, 100, 110, 120, 130]),
    ]);
    elements
}

#[test]
fn parametric_maps_have_real_world_values_inside_of_their_ranges() {
    let file = file(parametric(vec![
        mapping([0.0, 20.0], 0.5, 1.0, "mm2/s"),
        mapping([100.0, 120.0], 2.0, 0.0, "mm2/s"),
        mapping([0.0, 1000.0], 7.0, 7.0, "1"),
    ]));
    let stack = only_stack(&file);
    let volume = file.read_volume(&stack, &options()).unwrap();
    assert_eq!(volume.units, "mm2/s");
    let Voxels::F32(voxels) = &volume.voxels else { panic!() };
    let found: Vec<f32> = voxels.iter().copied().collect();
    assert_eq!(found[..3], [1.0, 6.0, 11.0]);
    assert_eq!(found[4..7], [200.0, 220.0, 240.0]);
    // 30 and 130 are in no range of this unit: they have no value.
    assert!(found[3].is_nan() && found[7].is_nan());
    let plain = file.read_volume(&stack, &options().with_real_world(false)).unwrap();
    assert_eq!(plain.voxels.get([1, 0, 3]), Some(130.0));
}

#[test]
fn float_maps_are_read_as_they_are() {
    let mut elements = frames(32, [1, 2], 2);
    elements.retain(|element| !matches!(element.tag, Tag(0x0028, 0x0101..=0x0103)));
    let values = [1.5_f32, -2.25, 3.0e20, 0.0];
    elements.extend([
        text(Tag(0x0008, 0x0016), VR::UI, "1.2.840.10008.5.1.4.1.1.30"),
        shared([1.0, 1.0], None, Vec::new()),
        per_frame(vec![frame([0.0; 3], None), frame([0.0, 0.0, 4.0], None)]),
        Element::new(
            Tag(0x7FE0, 0x0008),
            VR::OF,
            values.iter().flat_map(|it| it.to_le_bytes()).collect::<Vec<u8>>(),
        ),
    ]);
    let file = file(elements);
    let volume = file.read_volume(&only_stack(&file), &options()).unwrap();
    let found: Vec<f32> = volume.voxels.as_f32().unwrap().iter().copied().collect();
    assert_eq!(found, values);
}

#[test]
fn bits_above_those_that_are_stored_are_signs_or_nothing() {
    let mut elements = frames(16, [1, 3], 1);
    elements.retain(|element| !matches!(element.tag, Tag(0x0028, 0x0101..=0x0103)));
    elements.extend([
        word(Tag(0x0028, 0x0101), 12),
        word(Tag(0x0028, 0x0102), 11),
        word(Tag(0x0028, 0x0103), 1),
        decimals(POSITION, &[0.0; 3]),
        decimals(ORIENTATION, &AXIAL),
        decimals(SPACING, &[1.0, 1.0]),
        words([0xF001, 0x0FFF, 0x0800]),
    ]);
    let file = file(elements);
    let volume = file.read_volume(&only_stack(&file), &options()).unwrap();
    let found: Vec<f32> = volume.voxels.as_f32().unwrap().iter().copied().collect();
    assert_eq!(found, [1.0, -1.0, -2048.0]);
}

#[test]
fn uneven_and_duplicate_frames_are_refused_unless_asked_for() {
    let places = [0.0, 2.0, 2.0, 4.0, 8.0];
    let mut elements = frames(16, [1, 2], 5);
    elements.extend([
        shared([1.0, 1.0], None, Vec::new()),
        per_frame(places.iter().map(|z| frame([0.0, 0.0, *z], None)).collect()),
        words((0..10).map(|it| it * 10)),
    ]);
    let file = file(elements);
    let stack = only_stack(&file);
    let names: Vec<_> = stack.problems.iter().map(StackProblem::name).collect();
    assert_eq!(names, ["duplicate", "gap"]);
    let error = file.read_volume(&stack, &options()).unwrap_err().to_string();
    assert!(error.contains("2 slices at 2.000 mm"), "{error}");
    let last = options().with_duplicates(OnDuplicate::Last);
    let error = file.read_volume(&stack, &last).unwrap_err().to_string();
    assert!(error.contains("1 missing between 4.000 mm"), "{error}");
    let volume = file.read_volume(&stack, &last.with_uneven(true)).unwrap();
    let found: Vec<f32> = volume.voxels.as_f32().unwrap().iter().copied().collect();
    assert_eq!(found, [0.0, 10.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0]);
    assert_eq!(
        volume.slices.iter().map(|it| it.position).collect::<Vec<_>>(),
        [0.0, 2.0, 4.0, 8.0]
    );
}
