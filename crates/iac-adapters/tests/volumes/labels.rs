//! Labels: segmentations and structure sets on the voxels of a stack.

use iac_adapters::dicom::volume::{
    LabelFaultReason, LabelVolume, PlaneOptions, SegmentationKind, StructureSet, VolumeFile,
};
use iac_adapters::dicom::{DataSet, Element, Tag, VR};

use crate::support::*;

fn labels(drawn: &LabelVolume) -> Vec<u16> {
    let iac_adapters::dicom::volume::Voxels::U16(voxels) = &drawn.volume.voxels else { panic!() };
    voxels.iter().copied().collect()
}

/// Bits of frames that follow each other without padding.
fn bits(samples: &[u8]) -> Element {
    let mut bytes = vec![0_u8; samples.len().div_ceil(8)];
    for (at, sample) in samples.iter().enumerate() {
        bytes[at / 8] |= sample << (at % 8);
    }
    if bytes.len() % 2 == 1 {
        bytes.push(0);
    }
    Element::new(PIXELS, VR::OB, bytes)
}

fn segments(kind: &str, numbers: &[u16]) -> Vec<Element> {
    let segment = |number: &u16| {
        item(vec![
            word(Tag(0x0062, 0x0004), *number),
            text(Tag(0x0062, 0x0005), VR::LO, &format!("part {number}")),
        ])
    };
    vec![
        text(Tag(0x0008, 0x0060), VR::CS, "SEG"),
        text(Tag(0x0062, 0x0001), VR::CS, kind),
        sequence(Tag(0x0062, 0x0002), numbers.iter().map(segment).collect()),
    ]
}

/// Frames of 3 x 5 voxels of the CT's spacing, so that no frame but the first begins at a byte.
fn binary(places: &[([f64; 3], u16)], samples: &[u8]) -> VolumeFile {
    let mut elements = frames(1, [3, 5], places.len());
    elements.extend(segments("BINARY", &[1, 2]));
    elements.push(shared([2.0, 1.0], Some(2.5), Vec::new()));
    elements.push(per_frame(places.iter().map(|(at, it)| frame(*at, Some(*it))).collect()));
    elements.push(bits(samples));
    file(elements)
}

#[test]
fn bits_of_a_segmentation_are_put_on_the_slices_of_its_series() {
    let (series, stack) = (ct(), only_stack(&ct()));
    drop(series);
    // One voxel right and one down of the CT's first, in the second slice.
    let mut samples = vec![0_u8; 30];
    (samples[0], samples[14], samples[15 + 1], samples[15 + 14]) = (1, 1, 1, 1);
    let seg = binary(&[([-4.0, 12.0, 102.5], 1), ([-4.0, 12.0, 102.5], 2)], &samples);
    let seg = seg.segmentation().unwrap();
    assert_eq!(seg.kind, SegmentationKind::Binary);
    let drawn = seg.labels_on(&stack, &options()).unwrap();
    assert!(drawn.faults.is_empty(), "{:?}", drawn.faults);
    let mut wanted = vec![0_u16; 400];
    let at = |row: usize, column: usize| 80 + (1 + row) * 10 + 1 + column;
    (wanted[at(0, 0)], wanted[at(0, 1)], wanted[at(2, 4)]) = (1, 2, 2);
    assert_eq!(labels(&drawn), wanted);
    // Both claim the last one: it shows the later, and nothing of that is lost.
    assert_eq!(drawn.labels.iter().map(|it| it.voxels).collect::<Vec<_>>(), [2, 2]);
    assert_eq!((drawn.overlaps[0].values, drawn.overlaps[0].voxels), ([1, 2], 1));
    assert_eq!(drawn.labels[1].name, "part 2");
    let (part, faults) = seg.fraction_on(1, &stack, &options()).unwrap();
    assert!(faults.is_empty());
    assert_eq!(part.voxels.get([1, 3, 5]), Some(1.0));
    assert_eq!(part.voxels.as_f32().unwrap().sum(), 2.0);
}

#[test]
fn frames_that_fit_no_slice_are_reported_and_not_moved() {
    let stack = only_stack(&ct());
    let samples = vec![1_u8; 75];
    let seg = binary(
        &[
            ([-4.0, 12.0, 103.0], 1),
            ([-4.5, 12.0, 102.5], 1),
            ([-7.0, 12.0, 102.5], 1),
            ([-4.0, 12.0, 102.5], 9),
            ([-4.0, 12.0, 999.0], 2),
        ],
        &samples,
    );
    let drawn = seg.segmentation().unwrap().labels_on(&stack, &options()).unwrap();
    let found: Vec<_> = drawn.faults.iter().map(|it| (it.part, it.reason.clone())).collect();
    assert!(
        matches!(&found[0], (Some(0), LabelFaultReason::OffPlane { distance, .. }) if (*distance - 0.5).abs() < 1e-9)
    );
    assert_eq!(found[1], (Some(1), LabelFaultReason::OtherGrid));
    assert_eq!(found[2], (Some(2), LabelFaultReason::Outside { voxels: 6 }));
    assert!(matches!(found[3], (Some(4), LabelFaultReason::OffPlane { .. })));
    assert_eq!(found[4], (Some(3), LabelFaultReason::UnknownSegment));
    // What of the third frame lies on the slice is there.
    assert_eq!(labels(&drawn).iter().filter(|it| **it == 1).count(), 9);
}

#[test]
fn planes_that_a_sparse_segmentation_leaves_out_are_empty_on_its_own_grid() {
    let samples: Vec<u8> = vec![1; 30];
    let seg = binary(&[([0.0, 0.0, 0.0], 1), ([0.0, 0.0, 7.5], 2)], &samples);
    let drawn = seg.segmentation().unwrap().labels(&options()).unwrap();
    assert_eq!(drawn.volume.voxels.shape(), [4, 3, 5]);
    let found = labels(&drawn);
    assert!(found[..15].iter().all(|it| *it == 1) && found[45..].iter().all(|it| *it == 2));
    assert!(found[15..45].iter().all(|it| *it == 0));
    assert_eq!(drawn.volume.affine.apply([1.0, 1.0, 3.0]), [1.0, 2.0, 7.5]);
}

#[test]
fn fractions_count_from_half_of_the_maximum() {
    let mut elements = frames(8, [1, 4], 1);
    elements.extend(segments("FRACTIONAL", &[3]));
    elements.extend([
        word(Tag(0x0062, 0x000E), 200),
        shared([2.0, 1.0], None, Vec::new()),
        per_frame(vec![frame([-5.0, 10.0, 100.0], Some(3))]),
        Element::new(PIXELS, VR::OB, vec![99, 100, 200, 0]),
    ]);
    let file = file(elements);
    let seg = file.segmentation().unwrap();
    let stack = only_stack(&ct());
    let drawn = seg.labels_on(&stack, &options()).unwrap();
    assert_eq!(labels(&drawn)[..4], [0, 3, 3, 0]);
    let (part, _) = seg.fraction_on(3, &stack, &options()).unwrap();
    assert_eq!(part.voxels.get([0, 0, 0]), Some(f64::from(0.495_f32)));
    assert!(seg.fraction_on(4, &stack, &options()).is_err());
}

#[test]
fn samples_of_a_label_map_are_numbers_of_segments() {
    let mut elements = frames(16, [1, 4], 1);
    elements.extend(segments("LABELMAP", &[7, 300]));
    elements.extend([
        shared([2.0, 1.0], None, Vec::new()),
        per_frame(vec![frame([-5.0, 10.0, 100.0], None)]),
        words([0, 300, 7, 5]),
    ]);
    let file = file(elements);
    let drawn = file.segmentation().unwrap().labels_on(&only_stack(&ct()), &options()).unwrap();
    assert_eq!(labels(&drawn)[..4], [0, 300, 7, 0]);
    // A sample that names no segment is told, not dropped silently.
    assert!(
        drawn
            .faults
            .iter()
            .any(|it| it.number == Some(5) && it.reason == LabelFaultReason::UnknownSegment)
    );
}

fn contour(kind: &str, points: &[[f64; 3]]) -> DataSet {
    let numbers: Vec<f64> = points.iter().flatten().copied().collect();
    item(vec![text(Tag(0x3006, 0x0042), VR::CS, kind), decimals(Tag(0x3006, 0x0050), &numbers)])
}

/// A rectangle in millimetres at a height.
fn rectangle([left, top, right, bottom]: [f64; 4], z: f64) -> DataSet {
    contour(
        "CLOSED_PLANAR",
        &[[left, top, z], [right, top, z], [right, bottom, z], [left, bottom, z]],
    )
}

fn structures(regions: Vec<(i64, &str, Vec<DataSet>)>) -> StructureSet {
    let rois = regions
        .iter()
        .map(|(number, name, _)| {
            item(vec![
                text(Tag(0x3006, 0x0022), VR::IS, &number.to_string()),
                text(Tag(0x3006, 0x0024), VR::UI, "2.25.501"),
                text(Tag(0x3006, 0x0026), VR::LO, name),
            ])
        })
        .collect();
    let contours = regions
        .into_iter()
        .map(|(number, _, contours)| {
            item(vec![
                text(Tag(0x3006, 0x0084), VR::IS, &number.to_string()),
                text(Tag(0x3006, 0x002A), VR::IS, "255\\0\\64"),
                sequence(Tag(0x3006, 0x0040), contours),
            ])
        })
        .collect();
    let file =
        parsed(vec![sequence(Tag(0x3006, 0x0020), rois), sequence(Tag(0x3006, 0x0039), contours)]);
    StructureSet::of(&file.data, "made up").unwrap()
}

#[test]
fn voxels_whose_centres_contours_enclose_are_held_and_holes_are_left_out() {
    let stack = only_stack(&ct());
    // Columns 1 to 6 and rows 1 to 5, with a hole of columns 3 and 4 and row 3.
    let outer = rectangle([-4.5, 11.0, 1.5, 21.0], 102.5);
    let hole = rectangle([-2.5, 15.0, -0.5, 17.0], 102.5);
    let set = structures(vec![(12, "Liver", vec![outer, hole])]);
    assert_eq!(set.regions[0].color, Some([255, 0, 64]));
    assert_eq!((set.region("Liver"), set.region("12"), set.region("x")), (Some(0), Some(0), None));
    let drawn = set.labels(&[0], &stack, &options()).unwrap();
    assert!(drawn.faults.is_empty(), "{:?}", drawn.faults);
    let mut wanted = vec![0_u16; 400];
    for row in 1..=5 {
        for column in 1..=6 {
            let hole = row == 3 && (column == 3 || column == 4);
            wanted[80 + row * 10 + column] = u16::from(!hole);
        }
    }
    assert_eq!(labels(&drawn), wanted);
    assert_eq!(drawn.labels[0].voxels, 28);
}

#[test]
fn contours_that_hold_no_voxels_of_a_slice_are_reported_one_by_one() {
    let stack = only_stack(&ct());
    let square = [-4.5, 11.0, 1.5, 21.0];
    let mut far = rectangle(square, 100.0);
    far.put(decimals(Tag(0x3006, 0x0050), &[1e300, 0.0, 0.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0]));
    let mut strange = rectangle(square, 100.0);
    strange.put(text(Tag(0x3006, 0x0050), VR::DS, "1\\2\\nan\\4\\5\\6\\7\\8\\9"));
    let set = structures(vec![(
        1,
        "r",
        vec![
            rectangle(square, 101.0),
            contour("CLOSED_PLANAR", &[[0.0, 12.0, 102.4], [1.0, 12.0, 102.6], [1.0, 14.0, 102.5]]),
            contour("CLOSED_PLANAR", &[[0.0, 12.0, 102.5], [1.0, 12.0, 102.5]]),
            contour("POINT", &[[0.0, 12.0, 102.5]]),
            far,
            strange,
            rectangle(square, 102.52),
        ],
    )]);
    let drawn = set.labels(&[0], &stack, &options()).unwrap();
    let found: Vec<_> = drawn.faults.iter().map(|it| (it.part.unwrap(), &it.reason)).collect();
    let [off, bent, few, point, far, strange] = found.as_slice() else { panic!("{found:?}") };
    assert!(matches!(off, (0, LabelFaultReason::OffPlane { distance, tolerance })
        if (*distance - 1.0).abs() < 1e-9 && (*tolerance - 0.025).abs() < 1e-9));
    assert!(matches!(bent, (1, LabelFaultReason::NotPlanar { .. })));
    assert_eq!(*few, (2, &LabelFaultReason::TooFewPoints { points: 2 }));
    assert_eq!(*point, (3, &LabelFaultReason::NotClosed { kind: "POINT".to_owned() }));
    assert_eq!(*far, (4, &LabelFaultReason::NotNumbers));
    assert_eq!(*strange, (5, &LabelFaultReason::NotNumbers));
    // The last one lies within the tolerance.
    assert_eq!(drawn.labels[0].voxels, 30);
}

#[test]
fn regions_cover_each_other_in_the_order_that_is_asked_for() {
    let stack = only_stack(&ct());
    let set = structures(vec![
        (1, "small", vec![rectangle([-3.5, 13.0, -1.5, 17.0], 100.0)]),
        (2, "body", vec![rectangle([-4.5, 11.0, 1.5, 21.0], 100.0)]),
    ]);
    let drawn = set.labels(&[1, 0], &stack, &options()).unwrap();
    let found = labels(&drawn);
    assert_eq!(found.iter().filter(|it| **it == 2).count(), 4);
    assert_eq!(found.iter().filter(|it| **it == 1).count(), 26);
    assert_eq!(drawn.labels[0].voxels, 30);
    assert_eq!((drawn.overlaps[0].values, drawn.overlaps[0].voxels), ([1, 2], 4));
    assert!(set.labels(&[2], &stack, &options()).is_err());
}

#[test]
fn regions_of_another_frame_of_reference_are_not_drawn() {
    let stack = only_stack(&ct());
    let mut set = structures(vec![(1, "r", vec![rectangle([-4.5, 11.0, 1.5, 21.0], 100.0)])]);
    set.regions[0].frame_of_reference = "2.25.999".to_owned();
    let drawn = set.labels(&[0], &stack, &options()).unwrap();
    assert_eq!(drawn.labels[0].voxels, 0);
    assert_eq!(drawn.faults[0].reason, LabelFaultReason::OtherFrameOfReference);
}

#[test]
fn planes_show_three_views_in_true_proportions_and_labels_in_colour() {
    let file = ct();
    let stack = only_stack(&file);
    let volume = file.read_volume(&stack, &options()).unwrap();
    let planes = volume.planes(None, &PlaneOptions::default().with_side(160)).unwrap();
    // 10 x 16 x 12.5 mm: 100 x 160 x 125 pixels.
    let shape = planes.shape();
    assert_eq!([shape.height(), shape.width(), shape.channels()], [160, 100 + 100 + 160 + 16, 1]);
    let set = structures(vec![(1, "r", vec![rectangle([-4.5, 11.0, 1.5, 21.0], 105.0)])]);
    let drawn = set.labels(&[0], &stack, &options()).unwrap();
    let tinted = volume.planes(Some(&drawn), &PlaneOptions::default()).unwrap();
    assert_eq!(tinted.shape().channels(), 3);
    let bytes = tinted.samples().to_le_bytes().into_owned();
    let (pixels, _) = bytes.as_chunks::<3>();
    assert!(pixels.iter().any(|[red, green, _]| red > green));
}
