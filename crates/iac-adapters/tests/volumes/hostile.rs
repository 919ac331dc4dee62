//! Files that lie, and volumes that are too large.

use iac_adapters::dicom::volume::{StructureSet, VolumeFile};
use iac_adapters::dicom::{DataSet, Element, Tag, VR};
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
    assert_eq!(refused(with(text(FRAMES, VR::IS, "1048577"))).0, ErrorKind::Limit);
    // Fewer frames than groups and samples: what is said to be there is read.
    let file = file(with(text(FRAMES, VR::IS, "4")));
    assert_eq!(only_stack(&file).slices.len(), 4);
}

#[test]
fn sizes_that_overflow_are_refused_before_memory_is_taken() {
    let mut elements = frames(32, [65_535, 65_535], 1_048_576);
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
