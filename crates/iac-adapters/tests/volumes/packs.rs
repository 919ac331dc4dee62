//! Volumes of packs: whole series, structure sets on them, references that lead nowhere.

use std::num::NonZeroUsize;

use iac_adapters::dicom::volume::{VolumeValues, Voxels};
use iac_adapters::dicom::{
    DataSet, DicomFile, DicomInput, DicomPackBuilder, DicomPackReader, Element, PayloadCodec, Tag,
    VR,
};
use iac_format::ErrorKind;

use crate::support::*;

/// Whether images can be encoded in this build.
fn encodes() -> bool {
    let spec = iac_codec::CodecSpec::new("jxl", iac_codec::Parameters::new());
    iac_codec::Registry::builtin().create(&spec).is_ok_and(|codec| {
        codec.image_capabilities().is_ok_and(|found| !found.sample_types.is_empty())
    })
}

/// A slice of 4 x 6 voxels in a series; values are 100 times the slice, plus the place.
fn slice(series: u16, number: u16, slope: f64) -> Vec<Element> {
    vec![
        text(Tag(0x0008, 0x0016), VR::UI, "1.2.840.10008.5.1.4.1.1.2"),
        text(Tag(0x0008, 0x0018), VR::UI, &format!("2.25.{series}.{number}")),
        text(Tag(0x0008, 0x0060), VR::CS, "CT"),
        text(Tag(0x0010, 0x0020), VR::LO, "P1"),
        text(Tag(0x0020, 0x000D), VR::UI, "2.25.1"),
        text(Tag(0x0020, 0x000E), VR::UI, &format!("2.25.{series}")),
        text(Tag(0x0020, 0x0013), VR::IS, &(50 - number).to_string()),
        decimals(POSITION, &[0.0, 0.0, f64::from(number) * 3.0]),
        decimals(ORIENTATION, &AXIAL),
        text(Tag(0x0020, 0x0052), VR::UI, "2.25.501"),
        word(Tag(0x0028, 0x0002), 1),
        text(Tag(0x0028, 0x0004), VR::CS, "MONOCHROME2"),
        word(Tag(0x0028, 0x0010), 4),
        word(Tag(0x0028, 0x0011), 6),
        decimals(SPACING, &[1.0, 1.0]),
        word(Tag(0x0028, 0x0100), 16),
        word(Tag(0x0028, 0x0101), 16),
        word(Tag(0x0028, 0x0102), 15),
        word(Tag(0x0028, 0x0103), 1),
        decimals(Tag(0x0028, 0x1052), &[-10.0]),
        decimals(Tag(0x0028, 0x1053), &[slope]),
        words((0..24).map(|place| number * 100 + place)),
    ]
}

/// A structure set with one square on the slice at 6 mm, that refers to a series and its images.
fn structures(own: u16, refers_to: &str, images: &[&str]) -> Vec<Element> {
    let uid = |tag, uid: &str| text(tag, VR::UI, uid);
    let named = images.iter().map(|it| item(vec![uid(Tag(0x0008, 0x1155), it)])).collect();
    let series =
        item(vec![uid(Tag(0x0020, 0x000E), refers_to), sequence(Tag(0x3006, 0x0016), named)]);
    let study = item(vec![sequence(Tag(0x3006, 0x0014), vec![series])]);
    let contour = item(vec![
        text(Tag(0x3006, 0x0042), VR::CS, "CLOSED_PLANAR"),
        decimals(
            Tag(0x3006, 0x0050),
            &[0.5, 0.5, 6.0, 2.5, 0.5, 6.0, 2.5, 2.5, 6.0, 0.5, 2.5, 6.0],
        ),
    ]);
    vec![
        text(Tag(0x0008, 0x0016), VR::UI, "1.2.840.10008.5.1.4.1.1.481.3"),
        text(Tag(0x0008, 0x0018), VR::UI, &format!("2.25.{own}.1")),
        text(Tag(0x0008, 0x0060), VR::CS, "RTSTRUCT"),
        text(Tag(0x0010, 0x0020), VR::LO, "P1"),
        text(Tag(0x0020, 0x000D), VR::UI, "2.25.1"),
        text(Tag(0x0020, 0x000E), VR::UI, &format!("2.25.{own}")),
        sequence(Tag(0x3006, 0x0010), vec![item(vec![sequence(Tag(0x3006, 0x0012), vec![study])])]),
        sequence(
            Tag(0x3006, 0x0020),
            vec![item(vec![
                text(Tag(0x3006, 0x0022), VR::IS, "5"),
                text(Tag(0x3006, 0x0026), VR::LO, "square"),
            ])],
        ),
        sequence(
            Tag(0x3006, 0x0039),
            vec![item(vec![
                text(Tag(0x3006, 0x0084), VR::IS, "5"),
                sequence(Tag(0x3006, 0x0040), vec![contour]),
            ])],
        ),
    ]
}

struct Packed {
    pack: DicomPackReader,
    _folder: tempfile::TempDir,
}

fn packed(objects: Vec<Vec<Element>>) -> Packed {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.rad.iac");
    let inputs = objects.into_iter().enumerate().map(|(number, elements)| {
        let bytes = DicomFile::new(DataSet::from_elements(elements)).to_bytes().unwrap();
        DicomInput::Bytes(format!("object {number}"), bytes.into())
    });
    DicomPackBuilder::new().effort(1).build_from(&path, inputs).unwrap();
    Packed { pack: DicomPackReader::open(&path).unwrap(), _folder: folder }
}

/// The row of the only structure set.
fn structure_row(pack: &DicomPackReader) -> u64 {
    (0..pack.instance_count()).find(|row| !pack.has_pixels(*row).unwrap()).unwrap()
}

#[test]
fn a_series_is_read_in_the_order_of_its_places_with_the_rescale_of_each_slice() {
    if !encodes() {
        return;
    }
    let made = packed((0..5).map(|n| slice(7, n, f64::from(n) + 1.0)).collect());
    let pack = &made.pack;
    let found = pack.volume_stacks(&pack.series()[0]).unwrap();
    let stack = &found.stacks[0];
    assert!(stack.is_regular());
    // Numbers count against places.
    assert_eq!(stack.slices.iter().map(|it| it.row).collect::<Vec<_>>(), [4, 3, 2, 1, 0]);
    let volume = pack.read_volume(stack, &options()).unwrap();
    let voxels = volume.voxels.as_f32().unwrap();
    assert_eq!([voxels[[0, 0, 5]], voxels[[3, 2, 1]]], [-5.0, 4.0 * 313.0 - 10.0]);
    assert_eq!(volume.units, "HU");
    for workers in [1, 3] {
        let options = options().with_workers(NonZeroUsize::new(workers));
        assert_eq!(pack.read_volume(stack, &options).unwrap(), volume);
    }
    let stored = pack.read_volume(stack, &options().with_values(VolumeValues::Stored)).unwrap();
    let Voxels::I16(samples) = &stored.voxels else { panic!("{stored:?}") };
    assert_eq!(samples[[3, 2, 1]], 313);
    // Slices have different slopes, which one header cannot say.
    assert_eq!(stored.scale, None);
    assert_eq!(stored.nifti_header().unwrap_err().kind(), ErrorKind::Usage);
    for row in 0..5 {
        let (_, values) = pack.read_values(row).unwrap();
        let slice: Vec<f32> =
            voxels.index_axis(ndarray::Axis(0), 4 - row as usize).iter().copied().collect();
        assert_eq!(values, slice);
    }
}

#[test]
fn structures_are_drawn_on_the_series_that_they_refer_to() {
    if !encodes() {
        return;
    }
    let mut objects: Vec<_> = (0..4).map(|n| slice(7, n, 1.0)).collect();
    objects.push(structures(8, "2.25.7", &["2.25.7.2"]));
    let made = packed(objects);
    let pack = &made.pack;
    let row = structure_row(pack);
    let set = pack.structure_set(row).unwrap();
    assert_eq!(set.series_uids, ["2.25.7"]);
    let stack = pack.referenced_stack(row, &set.series_uids, &set.image_uids).unwrap();
    let drawn = set.labels(&[0], &stack, &options()).unwrap();
    assert!(drawn.faults.is_empty(), "{:?}", drawn.faults);
    assert_eq!((drawn.labels[0].voxels, drawn.labels[0].name.as_str()), (4, "square"));
    assert_eq!(drawn.volume.voxels.get([2, 1, 1]), Some(1.0));
    assert_eq!(drawn.volume.voxels.get([1, 1, 1]), Some(0.0));
}

#[test]
fn references_in_circles_and_into_nothing_are_errors() {
    if !encodes() {
        return;
    }
    for (refers_to, reason) in [
        ("2.25.8", "it refers to its own series"),
        ("2.25.99", "none of the 1 series that it refers to is in the pack"),
    ] {
        let made = packed(vec![slice(7, 0, 1.0), structures(8, refers_to, &[])]);
        let row = structure_row(&made.pack);
        let set = made.pack.structure_set(row).unwrap();
        let error = made.pack.referenced_stack(row, &set.series_uids, &set.image_uids).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().ends_with(reason), "{error}");
    }
    // Two that refer to each other are two structure sets without slices.
    let made = packed(vec![structures(8, "2.25.9", &[]), structures(9, "2.25.8", &[])]);
    let set = made.pack.structure_set(0).unwrap();
    let error = made.pack.referenced_stack(0, &set.series_uids, &set.image_uids).unwrap_err();
    assert!(error.to_string().ends_with("has no slices"), "{error}");
}

#[test]
fn which_of_several_stacks_is_meant_is_told_by_the_images_or_not_at_all() {
    if !encodes() {
        return;
    }
    let turned = |number: u16| {
        let mut data = DataSet::from_elements(slice(7, number, 1.0));
        data.put(decimals(ORIENTATION, &[0.0, 1.0, 0.0, 0.0, 0.0, -1.0]));
        data.elements().to_vec()
    };
    let stack_for = |images: &[&str]| {
        let mut objects: Vec<_> = (0..3).map(|n| slice(7, n, 1.0)).collect();
        objects.push(turned(5));
        objects.push(structures(8, "2.25.7", images));
        let made = packed(objects);
        let row = structure_row(&made.pack);
        let set = made.pack.structure_set(row).unwrap();
        made.pack.referenced_stack(row, &set.series_uids, &set.image_uids)
    };
    assert_eq!(stack_for(&["2.25.7.5"]).unwrap().slices.len(), 1);
    assert_eq!(stack_for(&["2.25.7.0", "2.25.7.5", "2.25.7.1"]).unwrap().slices.len(), 3);
    let error = stack_for(&[]).unwrap_err().to_string();
    assert!(error.contains("has 2 stacks"), "{error}");
}

/// The volume of the only stack of the only series.
fn only_volume(
    objects: Vec<Vec<Element>>,
    values: VolumeValues,
) -> iac_adapters::dicom::volume::Volume {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.rad.iac");
    let inputs = objects.into_iter().enumerate().map(|(number, elements)| {
        let bytes = DicomFile::new(DataSet::from_elements(elements)).to_bytes().unwrap();
        DicomInput::Bytes(format!("object {number}"), bytes.into())
    });
    DicomPackBuilder::new().payload(PayloadCodec::Zstd).build_from(&path, inputs).unwrap();
    let pack = DicomPackReader::open(&path).unwrap();
    assert_eq!(pack.schema_version(), 2);
    let found = pack.volume_stacks(&pack.series()[0]).unwrap();
    assert!(found.unplaced.is_empty(), "{:?}", found.unplaced);
    assert_eq!(found.stacks.len(), 1);
    pack.read_volume(&found.stacks[0], &options().with_values(values)).unwrap()
}

/// An object of several frames with what packs ask for.
fn several(class: &str, bits: u16, signed: bool, more: Vec<Element>) -> Vec<Element> {
    let mut elements = frames(bits, [4, 6], 5);
    elements.extend([
        text(Tag(0x0008, 0x0016), VR::UI, class),
        text(Tag(0x0010, 0x0020), VR::LO, "P1"),
        text(Tag(0x0020, 0x000D), VR::UI, "2.25.1"),
        text(Tag(0x0020, 0x000E), VR::UI, "2.25.7"),
        text(Tag(0x0020, 0x0013), VR::IS, "1"),
    ]);
    elements.extend(more);
    elements.retain(|element| element.tag != Tag(0x0028, 0x0103));
    elements.push(word(Tag(0x0028, 0x0103), signed.into()));
    elements
}

#[test]
fn an_enhanced_object_gives_the_volume_of_its_single_slices() {
    let transformation = |slope: f64| {
        let rescale = vec![
            decimals(Tag(0x0028, 0x1052), &[-10.0]),
            decimals(Tag(0x0028, 0x1053), &[slope]),
            text(Tag(0x0028, 0x1054), VR::LO, "HU"),
        ];
        sequence(Tag(0x0028, 0x9145), vec![item(rescale)])
    };
    let groups = (0..5_u16).map(|n| {
        let mut elements = frame([0.0, 0.0, f64::from(n) * 3.0], None);
        elements.put(transformation(f64::from(n) + 1.0));
        elements
    });
    let enhanced = several(
        "1.2.840.10008.5.1.4.1.1.2.1",
        16,
        true,
        vec![
            text(Tag(0x0008, 0x0060), VR::CS, "CT"),
            shared([1.0, 1.0], None, Vec::new()),
            per_frame(groups.collect()),
            words((0..5).flat_map(|n| (0..24).map(move |place| n * 100 + place))),
        ],
    );
    for values in [VolumeValues::Rescaled, VolumeValues::Stored] {
        let one = only_volume(vec![enhanced.clone()], values);
        let many = only_volume((0..5).map(|n| slice(7, n, f64::from(n) + 1.0)).collect(), values);
        assert_eq!(one.voxels, many.voxels);
        assert_eq!(one.affine, many.affine);
        assert_eq!(one.voxels.shape(), [5, 4, 6]);
    }
}

#[test]
fn frames_of_doses_and_of_every_width_are_read_as_from_their_file() {
    let samples = |bytes: usize| -> Vec<u8> {
        (0..120_u64).flat_map(|it| (it * 40_503).to_le_bytes()[..bytes].to_vec()).collect()
    };
    let dose = |bits: u16| {
        let scaled = vec![
            text(Tag(0x0008, 0x0060), VR::CS, "RTDOSE"),
            decimals(POSITION, &[1.0, 2.0, 3.0]),
            decimals(ORIENTATION, &AXIAL),
            decimals(SPACING, &[1.5, 2.5]),
            text(Tag(0x3004, 0x0002), VR::CS, "GY"),
            decimals(Tag(0x3004, 0x000C), &[0.0, 3.0, 6.0, 9.0, 12.0]),
            text(Tag(0x3004, 0x000E), VR::DS, "2.5e-4"),
            Element::new(PIXELS, VR::OW, samples(usize::from(bits) / 8)),
        ];
        several("1.2.840.10008.5.1.4.1.1.481.2", bits, false, scaled)
    };
    let placed = |bits: u16, signed: bool, element: Tag, vr: VR, bytes: Vec<u8>| {
        let groups = (0..5_u16).map(|n| frame([0.0, 0.0, f64::from(n) * 2.0], None));
        let more = vec![
            text(Tag(0x0008, 0x0060), VR::CS, "MR"),
            shared([1.0, 1.0], None, Vec::new()),
            per_frame(groups.collect()),
            Element::new(element, vr, bytes),
        ];
        several("1.2.840.10008.5.1.4.1.1.4.1", bits, signed, more)
    };
    let floats = (0..120).flat_map(|it| (it as f32 * 0.5 - 9.0).to_le_bytes()).collect();
    let doubles = (0..120).flat_map(|it| (f64::from(it) * 0.25 - 9.0).to_le_bytes()).collect();
    for object in [
        dose(16),
        dose(32),
        placed(8, true, PIXELS, VR::OB, samples(1)),
        placed(8, false, PIXELS, VR::OB, samples(1)),
        placed(16, true, PIXELS, VR::OW, samples(2)),
        placed(32, true, PIXELS, VR::OW, samples(4)),
        placed(32, false, Tag(0x7FE0, 0x0008), VR::OF, floats),
        placed(64, false, Tag(0x7FE0, 0x0009), VR::OD, doubles),
    ] {
        let file = file(object.clone());
        let stack = only_stack(&file);
        for values in [VolumeValues::Rescaled, VolumeValues::Stored] {
            let wanted = file.read_volume(&stack, &options().with_values(values)).unwrap();
            let found = only_volume(vec![object.clone()], values);
            assert_eq!(found.voxels, wanted.voxels);
            assert_eq!(found.affine, wanted.affine);
            assert_eq!(found.units, wanted.units);
        }
    }
}
