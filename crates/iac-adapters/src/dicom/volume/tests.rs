//! Stacks, gaps, duplicates and what else series can be like, from elements alone.

use dicom_core::{Tag, VR};

use super::divide::stacks;
use super::mapping::Cache;
use super::slice::{Form, Found, Slice, slices_of};
use super::{Attribute, Misplaced, StackProblem, VolumeStack, VoxelType};
use crate::dicom::object::{DataSet, Element, ElementValue};

fn text(tag: Tag, vr: VR, value: &str) -> Element {
    let mut bytes = value.as_bytes().to_vec();
    if bytes.len() % 2 == 1 {
        bytes.push(b' ');
    }
    Element::new(tag, vr, bytes)
}

fn decimals(tag: Tag, numbers: &[f64]) -> Element {
    let shown: Vec<String> = numbers.iter().map(f64::to_string).collect();
    text(tag, VR::DS, &shown.join("\\"))
}

const AXIAL: [f64; 6] = [1.0, 0.0, 0.0, 0.0, 1.0, 0.0];

/// A slice at a position, with further elements.
fn object(position: [f64; 3], orientation: [f64; 6], more: &[Element]) -> DataSet {
    let mut elements = vec![
        text(Tag(0x0008, 0x0018), VR::UI, "2.25.1"),
        text(Tag(0x0008, 0x0060), VR::CS, "MR"),
        decimals(Tag(0x0020, 0x0032), &position),
        decimals(Tag(0x0020, 0x0037), &orientation),
        decimals(Tag(0x0028, 0x0030), &[0.5, 0.75]),
    ];
    elements.extend_from_slice(more);
    DataSet::from_elements(elements)
}

fn axial(z: f64) -> DataSet {
    object([-10.0, 20.0, z], AXIAL, &[])
}

fn found(objects: &[DataSet]) -> Found {
    let (mut found, mut cache) = (Found::default(), Cache::default());
    for (row, data) in (0..).zip(objects) {
        let (size, voxel_type) = ([6, 4], VoxelType::I16);
        let form = Form {
            row,
            frames: 1,
            row_per_frame: false,
            size,
            samples: 1,
            voxel_type,
            in_order: false,
        };
        slices_of(data, form, &mut cache, &mut found);
    }
    found
}

fn stacks_of(objects: &[DataSet]) -> Vec<VolumeStack> {
    let found = found(objects);
    assert!(found.unplaced.is_empty(), "{:?}", found.unplaced);
    stacks(found.slices, true)
}

fn only(objects: &[DataSet]) -> VolumeStack {
    let mut stacks = stacks_of(objects);
    assert_eq!(stacks.len(), 1);
    stacks.pop().unwrap()
}

fn rows(stack: &VolumeStack) -> Vec<u64> {
    stack.slices.iter().map(|slice| slice.row).collect()
}

fn number(tag: Tag, vr: VR, value: &str) -> Element {
    text(tag, vr, value)
}

#[test]
fn slices_are_put_in_order_by_position_and_not_by_number() {
    let stack = only(&[axial(7.0), axial(2.0), axial(4.5)]);
    assert_eq!(rows(&stack), [1, 2, 0]);
    assert!(stack.is_regular());
    assert_eq!(stack.spacing, Some(2.5));
    assert_eq!(stack.positions, [2.0, 4.5, 7.0]);
    let affine = stack.affine;
    assert_eq!(affine.apply([0.0, 0.0, 0.0]), [-10.0, 20.0, 2.0]);
    // Pixel Spacing gives the distance between rows first.
    assert_eq!(affine.apply([2.0, 4.0, 1.0]), [-8.5, 22.0, 4.5]);
    assert_eq!(affine.to_ras().apply([2.0, 4.0, 1.0]), [8.5, -22.0, 4.5]);
}

#[test]
fn the_thickness_of_slices_is_not_their_distance() {
    let thick = |z| object([0.0, 0.0, z], AXIAL, &[decimals(Tag(0x0018, 0x0050), &[9.0])]);
    assert_eq!(only(&[thick(0.0), thick(3.0), thick(6.0)]).spacing, Some(3.0));
}

#[test]
fn oblique_slices_have_the_distance_of_their_planes() {
    let (row, column) = ([0.8, 0.6, 0.0], [0.0, 0.0, -1.0]);
    let normal = super::geometry::cross(row, column);
    let at = |distance: f64| {
        let [x, y, z] = super::geometry::times(normal, distance);
        let [a, b, c] = row;
        let [d, e, f] = column;
        object([x + 5.0, y - 3.0, z + 1.0], [a, b, c, d, e, f], &[])
    };
    let stack = only(&[at(0.0), at(-2.25), at(2.25)]);
    assert_eq!(rows(&stack), [1, 0, 2]);
    assert!((stack.spacing.unwrap() - 2.25).abs() < 1e-9);
    assert!(stack.is_regular() && stack.problems.is_empty());
    assert!(stack.affine.shear() < 1e-9);
}

#[test]
fn distances_are_alike_within_a_hundredth_or_a_hundredth_of_a_millimetre() {
    // 1 % of 5 mm.
    assert!(only(&[axial(0.0), axial(5.0), axial(10.04)]).is_regular());
    assert!(!only(&[axial(0.0), axial(5.0), axial(10.06)]).is_regular());
    // 0.01 mm where that is more.
    assert!(only(&[axial(0.0), axial(0.5), axial(1.009)]).is_regular());
    assert!(!only(&[axial(0.0), axial(0.5), axial(1.011)]).is_regular());
}

#[test]
fn missing_slices_are_counted_with_the_places_beside_them() {
    let stack = only(&[axial(0.0), axial(2.0), axial(4.0), axial(10.0), axial(12.0)]);
    assert_eq!(
        stack.problems,
        [StackProblem::Gap { positions: [4.0, 10.0], rows: [2, 3], missing: 2 }]
    );
    assert_eq!(
        (stack.problems[0].positions(), stack.problems[0].rows()),
        (vec![4.0, 10.0], vec![2, 3])
    );
    assert_eq!(stack.spacing, Some(2.0));
    assert!((stack.deviation - 4.0).abs() < 1e-9);
}

#[test]
fn distances_that_fit_no_grid_are_uneven() {
    let stack = only(&[axial(0.0), axial(2.0), axial(4.0), axial(7.0), axial(9.0)]);
    let problem = StackProblem::Uneven { distances: [2.0, 3.0], pairs: vec![[4.0, 7.0]] };
    assert_eq!(stack.problems, [problem]);
}

#[test]
fn slices_in_one_place_that_nothing_tells_apart_are_duplicates() {
    let stack = only(&[axial(0.0), axial(2.0), axial(2.0), axial(4.0)]);
    let slices = vec![(1, 0), (2, 0)];
    assert_eq!(stack.problems, [StackProblem::Duplicate { position: 2.0, slices }]);
    assert_eq!(stack.places, 3);
    assert_eq!(stack.spacing, Some(2.0));
}

#[test]
fn thousands_of_slices_in_one_place_are_one_report() {
    let stack = only(&vec![axial(3.0); 3000]);
    assert_eq!((stack.slices.len(), stack.places, stack.spacing), (3000, 1, None));
    assert!(matches!(
        stack.problems.as_slice(),
        [StackProblem::Duplicate { slices, .. }] if slices.len() == 3000
    ));
    assert!(stack.problems[0].to_string().len() < 200);
}

#[test]
fn a_single_slice_has_no_distance_and_a_step_of_one_millimetre() {
    let stack = only(&[axial(3.0)]);
    assert_eq!((stack.spacing, stack.is_regular()), (None, true));
    assert_eq!(stack.affine.steps()[2], [0.0, 0.0, 1.0]);
}

#[test]
fn a_tilted_gantry_shears_the_affine_and_is_reported_with_its_angle() {
    let tilted = |number: f64| object([0.0, 0.5 * number, 2.0 * number], AXIAL, &[]);
    let stack = only(&[tilted(0.0), tilted(1.0), tilted(2.0), tilted(3.0)]);
    assert!(stack.is_regular());
    assert_eq!(stack.spacing, Some(2.0));
    assert_eq!(stack.affine.steps()[2], [0.0, 0.5, 2.0]);
    let [StackProblem::Tilt { degrees, shift }] = stack.problems.as_slice() else {
        panic!("{:?}", stack.problems);
    };
    assert!((degrees - 0.25_f64.atan().to_degrees()).abs() < 1e-9);
    assert_eq!(*shift, [0.0, 0.5]);
}

#[test]
fn slices_that_lie_on_no_line_are_reported() {
    let at = |x: f64, z: f64| object([x, 0.0, z], AXIAL, &[]);
    let stack = only(&[at(0.0, 0.0), at(0.3, 1.0), at(0.0, 2.0)]);
    assert!(matches!(
        stack.problems.as_slice(),
        [StackProblem::Unaligned { row: 1, deviation, .. }] if (deviation - 0.3).abs() < 1e-9
    ));
}

#[test]
fn two_orientations_and_two_sizes_are_stacks_of_their_own() {
    let sagittal = [0.0, 1.0, 0.0, 0.0, 0.0, -1.0];
    let mut found = found(&[
        axial(0.0),
        axial(1.0),
        object([0.0; 3], sagittal, &[]),
        object([1.0, 0.0, 0.0], sagittal, &[]),
        axial(2.0),
    ]);
    found.slices[4].size = [7, 4];
    let stacks = stacks(found.slices, true);
    assert_eq!(stacks.iter().map(rows).collect::<Vec<_>>(), [vec![0, 1], vec![3, 2], vec![4]]);
    assert!(stacks.iter().all(VolumeStack::is_regular));
}

fn with(z: f64, tag: Tag, vr: VR, value: &str) -> DataSet {
    object([0.0, 0.0, z], AXIAL, &[number(tag, vr, value)])
}

#[test]
fn echoes_acquisitions_and_b_values_tell_stacks_apart() {
    for (tag, vr, attribute) in [
        (Tag(0x0018, 0x0081), VR::DS, Attribute::EchoTime),
        (Tag(0x0018, 0x0086), VR::IS, Attribute::EchoNumber),
        (Tag(0x0020, 0x0012), VR::IS, Attribute::Acquisition),
        (Tag(0x0020, 0x0100), VR::IS, Attribute::TemporalPosition),
        (Tag(0x0018, 0x1060), VR::DS, Attribute::TriggerTime),
    ] {
        let mut objects = Vec::new();
        for z in [0.0, 2.0, 4.0] {
            // In the order of the numbers, not of their texts.
            objects.push(with(z, tag, vr, "10"));
            objects.push(with(z, tag, vr, "9"));
        }
        let stacks = stacks_of(&objects);
        let told: Vec<_> = stacks.iter().map(|it| (rows(it), it.told_by.clone())).collect();
        assert_eq!(
            told,
            [
                (vec![0, 2, 4], vec![(attribute, "10".to_owned())]),
                (vec![1, 3, 5], vec![(attribute, "9".to_owned())]),
            ]
        );
        assert!(stacks.iter().all(VolumeStack::is_regular));
    }
    let b = |z, b: f64| {
        let b_value = Element::new(Tag(0x0018, 0x9087), VR::FD, b.to_le_bytes().to_vec());
        object([0.0, 0.0, z], AXIAL, &[b_value])
    };
    let stacks = stacks_of(&[b(0.0, 0.0), b(0.0, 1000.0), b(3.0, 1000.0), b(3.0, 0.0)]);
    assert_eq!(stacks.iter().map(rows).collect::<Vec<_>>(), [vec![0, 3], vec![1, 2]]);
    assert_eq!(stacks[1].told_by, [(Attribute::BValue, "1000".to_owned())]);
}

#[test]
fn a_number_for_each_slice_splits_no_stack() {
    let at = |z: f64, number: &str| with(z, Tag(0x0020, 0x0012), VR::IS, number);
    let stack = only(&[at(0.0, "1"), at(2.0, "2"), at(4.0, "3"), at(4.0, "4")]);
    assert_eq!(stack.slices.len(), 4);
    assert!(matches!(stack.problems.as_slice(), [StackProblem::Duplicate { .. }]));
}

#[test]
fn times_that_differ_from_place_to_place_are_put_in_order() {
    let at = |z: f64, time: &str| with(z, Tag(0x0018, 0x1060), VR::DS, time);
    let mut objects = Vec::new();
    for (z, times) in
        [(0.0, ["30", "10", "20"]), (2.0, ["11", "31", "21"]), (4.0, ["22", "32", "12"])]
    {
        objects.extend(times.map(|time| at(z, time)));
    }
    let stacks = stacks_of(&objects);
    let mut found: Vec<_> = stacks.iter().map(|it| (it.told_by[0].1.clone(), rows(it))).collect();
    found.sort();
    assert_eq!(
        found,
        [
            ("1 of 3".to_owned(), vec![1, 3, 8]),
            ("2 of 3".to_owned(), vec![2, 5, 6]),
            ("3 of 3".to_owned(), vec![0, 4, 7]),
        ]
    );
}

#[test]
fn two_regular_acquisitions_beside_each_other_are_two_stacks() {
    let at = |z: f64, number: &str| with(z, Tag(0x0020, 0x0012), VR::IS, number);
    let objects: Vec<DataSet> = [0.0, 1.0, 2.0, 3.0]
        .map(|z| at(z, "1"))
        .into_iter()
        .chain([40.0, 45.0, 50.0].map(|z| at(z, "2")))
        .collect();
    let stacks = stacks_of(&objects);
    assert_eq!(stacks.iter().map(|it| it.spacing).collect::<Vec<_>>(), [Some(1.0), Some(5.0)]);
}

#[test]
fn slices_without_a_place_are_listed_and_the_others_stay() {
    let strange = |tag: Tag, value: &str| {
        let mut data = axial(1.0);
        data.put(text(tag, VR::DS, value));
        data
    };
    let position = Tag(0x0020, 0x0032);
    let orientation = Tag(0x0020, 0x0037);
    let spacing = Tag(0x0028, 0x0030);
    let mut bare = axial(1.0);
    bare.remove(orientation);
    let found = found(&[
        axial(0.0),
        strange(position, "0\\0\\nan"),
        strange(position, "0\\0\\inf"),
        strange(position, "0\\0"),
        bare,
        strange(orientation, "1\\0\\0\\0.7\\0.7\\0"),
        strange(orientation, "0\\0\\0\\0\\0\\0"),
        strange(spacing, "0\\0.5"),
        strange(spacing, "-1\\0.5"),
        strange(spacing, ""),
        axial(2.0),
        // Finite, but differences of such numbers are not.
        strange(position, "0\\0\\-1e308"),
        strange(position, "0\\0\\1e308"),
        strange(spacing, "1e-320\\1"),
    ]);
    let reasons: Vec<_> = found.unplaced.iter().map(|it| (it.row, it.reason)).collect();
    assert_eq!(
        reasons[..4],
        [
            (1, Misplaced::BadPosition),
            (2, Misplaced::BadPosition),
            (3, Misplaced::BadPosition),
            (4, Misplaced::NoOrientation),
        ]
    );
    assert!(matches!(reasons[4].1, Misplaced::NotOrthonormal { .. }));
    assert!(matches!(reasons[5].1, Misplaced::NotOrthonormal { .. }));
    assert_eq!(reasons[6].1, Misplaced::BadSpacing { spacing: Some([0.0, 0.5]) });
    assert_eq!(reasons[7].1, Misplaced::BadSpacing { spacing: Some([-1.0, 0.5]) });
    assert_eq!(reasons[8].1, Misplaced::NoSpacing);
    assert_eq!(reasons[9].1, Misplaced::TooFar { coordinate: -1e308 });
    assert_eq!(reasons[10].1, Misplaced::TooFar { coordinate: 1e308 });
    assert_eq!(reasons[11].1, Misplaced::BadSpacing { spacing: Some([1e-320, 1.0]) });
    assert_eq!(found.slices.iter().map(|it| it.row).collect::<Vec<_>>(), [0, 10]);
}

fn sequence(tag: Tag, items: Vec<DataSet>) -> Element {
    Element { tag, vr: VR::SQ, value: ElementValue::Items(items) }
}

fn item(elements: Vec<Element>) -> DataSet {
    DataSet::from_elements(elements)
}

#[test]
fn frames_take_their_own_groups_before_shared_ones() {
    let spacing = decimals(Tag(0x0028, 0x0030), &[2.0, 3.0]);
    let shared = item(vec![
        sequence(Tag(0x0028, 0x9110), vec![item(vec![spacing])]),
        sequence(Tag(0x0020, 0x9116), vec![item(vec![decimals(Tag(0x0020, 0x0037), &AXIAL)])]),
        sequence(
            Tag(0x0028, 0x9145),
            vec![item(vec![
                decimals(Tag(0x0028, 0x1052), &[-5.0]),
                decimals(Tag(0x0028, 0x1053), &[2.0]),
            ])],
        ),
    ]);
    let frame = |z: f64, intercept: Option<f64>| {
        let position = decimals(Tag(0x0020, 0x0032), &[1.0, 2.0, z]);
        let mut elements = vec![sequence(Tag(0x0020, 0x9113), vec![item(vec![position])])];
        if let Some(intercept) = intercept {
            elements.push(sequence(
                Tag(0x0028, 0x9145),
                vec![item(vec![decimals(Tag(0x0028, 0x1052), &[intercept])])],
            ));
        }
        item(elements)
    };
    let data = item(vec![
        text(Tag(0x0008, 0x0018), VR::UI, "2.25.1"),
        sequence(Tag(0x5200, 0x9229), vec![shared]),
        sequence(
            Tag(0x5200, 0x9230),
            vec![frame(4.0, None), frame(1.0, Some(7.0)), item(Vec::new())],
        ),
    ]);
    let (mut found, mut cache) = (Found::default(), Cache::default());
    let (size, voxel_type) = ([6, 4], VoxelType::U16);
    // A fourth frame has no groups at all.
    let form = Form {
        row: 0,
        frames: 4,
        row_per_frame: false,
        size,
        samples: 1,
        voxel_type,
        in_order: false,
    };
    slices_of(&data, form, &mut cache, &mut found);
    let unplaced: Vec<_> = found.unplaced.iter().map(|it| (it.frame, it.reason)).collect();
    assert_eq!(unplaced, [(2, Misplaced::NoPosition), (3, Misplaced::NoPosition)]);
    let mappings: Vec<_> = found.slices.iter().map(|it| it.modality.linear()).collect();
    assert_eq!(mappings, [Some([2.0, -5.0]), Some([2.0, 7.0])]);
    let stacks = stacks(found.slices, true);
    let frames: Vec<u32> = stacks[0].slices.iter().map(|slice: &Slice| slice.frame).collect();
    assert_eq!(frames, [1, 0]);
    assert_eq!(stacks[0].affine.steps(), [[3.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 3.0]]);
}

#[test]
fn frames_without_groups_or_offsets_have_no_place() {
    let (mut found, mut cache) = (Found::default(), Cache::default());
    let (size, voxel_type) = ([6, 4], VoxelType::U16);
    let form = Form {
        row: 0,
        frames: 3,
        row_per_frame: false,
        size,
        samples: 1,
        voxel_type,
        in_order: false,
    };
    slices_of(&axial(1.0), form, &mut cache, &mut found);
    assert!(found.slices.is_empty());
    let reason = Misplaced::NoOffset { found: 0, frames: 3 };
    assert!(found.unplaced.iter().all(|it| it.reason == reason));
}
