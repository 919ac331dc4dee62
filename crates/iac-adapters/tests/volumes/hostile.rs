//! Files that lie, and volumes that are too large.

use std::num::NonZeroUsize;

use iac_adapters::dicom::volume::{
    OnDuplicate, PlaneOptions, StructureSet, VolumeFile, VolumeValues,
};
use iac_adapters::dicom::{DataSet, DicomFile, Element, Tag, VR};
use iac_format::ErrorKind;

use crate::support::*;

fn refused(elements: Vec<Element>) -> (ErrorKind, String) {
    let error = VolumeFile::new(parsed(elements), "made up").unwrap_err();
    (error.kind(), error.to_string())
}

fn ct_elements() -> Vec<Element> {
    ct().data_set().elements().to_vec()
}

fn with(element: Element) -> Vec<Element> {
    let mut data = DataSet::from_elements(ct_elements());
    data.put(element);
    data.elements().to_vec()
}

#[test]
fn numbers_of_frames_that_lie_are_refused_with_both_numbers() {
    let (kind, reason) = refused(with(text(FRAMES, VR::IS, "6")));
    assert_eq!(kind, ErrorKind::Decode);
    assert!(reason.contains("800 bytes, where 6 frames of 8 x 10 take 960"), "{reason}");
    for lie in ["0", "-3", "many", "4294967296"] {
        let (kind, reason) = refused(with(text(FRAMES, VR::IS, lie)));
        assert_eq!(kind, ErrorKind::Schema, "{reason}");
    }
    assert_eq!(refused(with(text(FRAMES, VR::IS, "262145"))).0, ErrorKind::Limit);
    // Fewer frames than groups and samples: what is said to be there is read.
    let file = file(with(text(FRAMES, VR::IS, "4")));
    assert_eq!(only_stack(&file).slices.len(), 4);
}

#[test]
fn sizes_that_overflow_are_refused_before_memory_is_taken() {
    let mut elements = frames(32, [65_535, 65_535], 262_144);
    elements.extend([
        shared([1.0, 1.0], None, Vec::new()),
        per_frame(vec![frame([0.0; 3], None)]),
        words([0; 8]),
    ]);
    assert_eq!(refused(elements).0, ErrorKind::Decode);
    assert_eq!(refused(with(word(Tag(0x0028, 0x0010), 0))).0, ErrorKind::Schema);
    assert_eq!(refused(with(word(Tag(0x0028, 0x0100), 12))).0, ErrorKind::Unsupported);
    let file = ct();
    let stack = only_stack(&file);
    let error = file.read_volume(&stack, &options().with_max_bytes(1599)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit);
    assert!(error.to_string().contains("5 slices of 8 x 10 voxels"), "{error}");
    file.read_volume(&stack, &options().with_max_bytes(1600)).unwrap();
}

#[test]
fn objects_without_pixels_or_with_compressed_ones_are_told_apart() {
    let mut data = DataSet::from_elements(ct_elements());
    data.remove(PIXELS);
    assert_eq!(refused(data.elements().to_vec()).0, ErrorKind::Schema);
}

#[test]
fn a_stack_of_another_file_is_refused() {
    let stack = only_stack(&ct());
    let mut elements = frames(16, [8, 10], 2);
    elements.extend([
        shared([2.0, 1.0], None, Vec::new()),
        per_frame(vec![frame([0.0; 3], None), frame([0.0, 0.0, 1.0], None)]),
        words(0..160),
    ]);
    let error = file(elements).read_volume(&stack, &options()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
}

#[test]
fn an_object_without_regions_is_no_structure_set() {
    let data = ct();
    let error = StructureSet::of(data.data_set(), "made up").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Schema);
    assert!(ct().segmentation().is_err());
}

#[test]
fn segmentations_whose_planes_are_not_even_or_endless_have_no_grid_of_their_own() {
    let seg = |places: &[f64], between: Option<f64>| {
        let mut elements = frames(8, [1, 1], places.len());
        let segment = item(vec![word(Tag(0x0062, 0x0004), 1)]);
        elements.extend([
            text(Tag(0x0062, 0x0001), VR::CS, "BINARY"),
            sequence(Tag(0x0062, 0x0002), vec![segment]),
            shared([1.0, 1.0], between, Vec::new()),
            per_frame(places.iter().map(|z| frame([0.0, 0.0, *z], Some(1))).collect()),
            Element::new(PIXELS, VR::OB, vec![1; places.len().next_multiple_of(2)]),
        ]);
        let file = file(elements);
        let drawn = file.segmentation().unwrap().labels(&options());
        drawn.map(|it| it.volume.voxels.shape()).map_err(|error| error.kind())
    };
    assert_eq!(seg(&[0.0, 2.0, 5.0], None), Err(ErrorKind::Unsupported));
    assert_eq!(seg(&[0.0, 2.0, 6.0], None), Ok([4, 1, 1]));
    // What is stated must fit the frames; 1 mm does, 3 does not.
    assert_eq!(seg(&[0.0, 2.0, 6.0], Some(1.0)), Ok([7, 1, 1]));
    assert_eq!(seg(&[0.0, 2.0, 6.0], Some(3.0)), Ok([4, 1, 1]));
    assert_eq!(seg(&[0.0, 0.02, 1e9], None), Err(ErrorKind::Limit));
}

/// Does with a file whatever can be done with it.
fn try_everything(bytes: Vec<u8>) -> Option<()> {
    let file = DicomFile::parse(&bytes.into(), "damaged").ok()?;
    if let Ok(set) = StructureSet::of(&file.data, "damaged") {
        let all: Vec<usize> = (0..set.regions.len()).collect();
        set.labels(&all, &only_stack(&ct()), &options()).unwrap();
    }
    let file = VolumeFile::new(file, "damaged").ok()?;
    let options = options().with_max_bytes(1 << 20).with_workers(NonZeroUsize::new(1));
    let loose = options.with_uneven(true).with_duplicates(OnDuplicate::First);
    for report in [file.volume_stacks(), file.stacks_in_order()] {
        let slices: usize = report.stacks.iter().map(|stack| stack.slices.len()).sum();
        // Nothing is lost and nothing invented.
        assert_eq!(slices + report.unplaced.len(), file.frames() as usize);
        for stack in &report.stacks {
            assert!(stack.slices.len() >= stack.places && stack.places > 0);
            for problem in &stack.problems {
                assert!(!problem.to_string().is_empty());
            }
            let strict = file.read_volume(stack, &options);
            assert!(strict.is_err() || stack.is_regular());
            let _ = file.read_volume(stack, &loose.with_values(VolumeValues::Stored));
            let Ok(volume) = file.read_volume(stack, &loose) else { continue };
            let _ = volume.nifti_header();
            let _ = volume.planes(None, &PlaneOptions::default().with_side(24));
            assert_eq!(volume.to_ras_order().voxels.shape().iter().product::<usize>(), {
                volume.voxels.shape().iter().product::<usize>()
            });
        }
    }
    if let Ok(segmentation) = file.segmentation() {
        let _ = segmentation.labels(&options);
        let _ = segmentation.labels_on(&only_stack(&ct()), &options);
        let _ = segmentation.fraction_on(1, &only_stack(&ct()), &options);
    }
    Some(())
}

#[test]
fn damaged_files_are_refused_or_read_but_end_nothing() {
    let mut segmentation = frames(1, [3, 5], 3);
    let segment = |number| item(vec![word(Tag(0x0062, 0x0004), number)]);
    segmentation.extend([
        text(Tag(0x0062, 0x0001), VR::CS, "BINARY"),
        sequence(Tag(0x0062, 0x0002), vec![segment(1), segment(2)]),
        shared([2.0, 1.0], Some(2.5), Vec::new()),
        per_frame(
            [0.0, 2.5, 5.0].map(|z| frame([-5.0, 10.0, 100.0 + z], Some(1))).into_iter().collect(),
        ),
        Element::new(PIXELS, VR::OB, vec![0xA5; 6]),
    ]);
    let mut dose = frames(16, [2, 3], 3);
    dose.extend([
        decimals(POSITION, &[1.0, 2.0, -30.0]),
        decimals(ORIENTATION, &AXIAL),
        decimals(SPACING, &[2.0, 2.0]),
        decimals(Tag(0x3004, 0x000C), &[0.0, 3.0, 6.0]),
        text(Tag(0x3004, 0x000E), VR::DS, "2.5e-3"),
        words(0..18),
    ]);
    let points: Vec<f64> = [0.0, 12.0, 100.0, 4.0, 12.0, 100.0, 2.0, 20.0, 100.0].into();
    let contour = item(vec![
        text(Tag(0x3006, 0x0042), VR::CS, "CLOSED_PLANAR"),
        decimals(Tag(0x3006, 0x0050), &points),
    ]);
    let number = |tag| text(tag, VR::IS, "1");
    let structures = vec![
        sequence(Tag(0x3006, 0x0020), vec![item(vec![number(Tag(0x3006, 0x0022))])]),
        sequence(
            Tag(0x3006, 0x0039),
            vec![item(vec![
                number(Tag(0x3006, 0x0084)),
                sequence(Tag(0x3006, 0x0040), vec![contour]),
            ])],
        ),
    ];
    let mut state = 0x2545_F491_4F6C_DD1D_u64;
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 20) as usize % below
    };
    let mut read = 0;
    for elements in [ct_elements(), segmentation, dose, structures] {
        let sound = DicomFile::new(DataSet::from_elements(elements)).to_bytes().unwrap();
        for _ in 0..1500 {
            let mut bytes = sound.clone();
            for _ in 0..=random(5) {
                // Digits become others, mostly: those are what numbers are made of.
                let at = 132 + random(bytes.len() - 132);
                let digits = b"0123456789.-e\\ ";
                bytes[at] = match random(3) {
                    0 => random(256) as u8,
                    1 => bytes[at] ^ (1 << random(8)),
                    _ => digits[random(digits.len())],
                };
            }
            read += usize::from(try_everything(bytes).is_some());
        }
    }
    assert!(read > 1000, "only {read} were read at all");
}
