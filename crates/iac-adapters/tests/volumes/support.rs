//! Files made up for the tests.

use iac_adapters::dicom::volume::{VolumeFile, VolumeOptions, VolumeStack};
use iac_adapters::dicom::{DataSet, DicomFile, Element, ElementValue, Tag, VR};

pub(crate) const POSITION: Tag = Tag(0x0020, 0x0032);
pub(crate) const ORIENTATION: Tag = Tag(0x0020, 0x0037);
pub(crate) const SPACING: Tag = Tag(0x0028, 0x0030);
pub(crate) const FRAMES: Tag = Tag(0x0028, 0x0008);
pub(crate) const PIXELS: Tag = Tag(0x7FE0, 0x0010);
pub(crate) const AXIAL: [f64; 6] = [1.0, 0.0, 0.0, 0.0, 1.0, 0.0];

pub(crate) fn text(tag: Tag, vr: VR, value: &str) -> Element {
    let mut bytes = value.as_bytes().to_vec();
    if bytes.len() % 2 == 1 {
        bytes.push(if vr == VR::UI { 0 } else { b' ' });
    }
    Element::new(tag, vr, bytes)
}

pub(crate) fn word(tag: Tag, value: u16) -> Element {
    Element::new(tag, VR::US, value.to_le_bytes().to_vec())
}

pub(crate) fn double(tag: Tag, value: f64) -> Element {
    Element::new(tag, VR::FD, value.to_le_bytes().to_vec())
}

pub(crate) fn decimals(tag: Tag, numbers: &[f64]) -> Element {
    let shown: Vec<String> = numbers.iter().map(f64::to_string).collect();
    text(tag, VR::DS, &shown.join("\\"))
}

pub(crate) fn item(elements: Vec<Element>) -> DataSet {
    DataSet::from_elements(elements)
}

pub(crate) fn sequence(tag: Tag, items: Vec<DataSet>) -> Element {
    let mut element = Element::new(tag, VR::SQ, Vec::new());
    element.value = ElementValue::Items(items);
    element
}

/// Elements of an object with frames: bits allocated, size, number of frames and samples.
pub(crate) fn frames(bits: u16, [rows, columns]: [u16; 2], count: usize) -> Vec<Element> {
    vec![
        text(Tag(0x0008, 0x0018), VR::UI, "2.25.500"),
        text(Tag(0x0020, 0x0052), VR::UI, "2.25.501"),
        word(Tag(0x0028, 0x0002), 1),
        text(Tag(0x0028, 0x0004), VR::CS, "MONOCHROME2"),
        text(FRAMES, VR::IS, &count.to_string()),
        word(Tag(0x0028, 0x0010), rows),
        word(Tag(0x0028, 0x0011), columns),
        word(Tag(0x0028, 0x0100), bits),
        word(Tag(0x0028, 0x0101), bits),
        word(Tag(0x0028, 0x0102), bits - 1),
        word(Tag(0x0028, 0x0103), 0),
    ]
}

/// Shared groups: axial, with a spacing; further elements beside them.
pub(crate) fn shared(spacing: [f64; 2], between: Option<f64>, more: Vec<Element>) -> Element {
    let mut measures = vec![decimals(SPACING, &spacing)];
    measures.extend(between.map(|between| decimals(Tag(0x0018, 0x0088), &[between])));
    let mut elements = vec![
        sequence(Tag(0x0028, 0x9110), vec![item(measures)]),
        sequence(Tag(0x0020, 0x9116), vec![item(vec![decimals(ORIENTATION, &AXIAL)])]),
    ];
    elements.extend(more);
    sequence(Tag(0x5200, 0x9229), vec![item(elements)])
}

/// The groups of one frame.
pub(crate) fn frame(position: [f64; 3], segment: Option<u16>) -> DataSet {
    let position = item(vec![decimals(POSITION, &position)]);
    let mut elements = vec![sequence(Tag(0x0020, 0x9113), vec![position])];
    elements.extend(segment.map(|number| {
        sequence(Tag(0x0062, 0x000A), vec![item(vec![word(Tag(0x0062, 0x000B), number)])])
    }));
    item(elements)
}

pub(crate) fn per_frame(frames: Vec<DataSet>) -> Element {
    sequence(Tag(0x5200, 0x9230), frames)
}

pub(crate) fn parsed(elements: Vec<Element>) -> DicomFile {
    // Through bytes, so that files are what is read.
    let bytes = DicomFile::new(DataSet::from_elements(elements)).to_bytes().unwrap();
    DicomFile::parse(&bytes.into(), "made up").unwrap()
}

pub(crate) fn file(elements: Vec<Element>) -> VolumeFile {
    VolumeFile::new(parsed(elements), "made up").unwrap()
}

pub(crate) fn only_stack(file: &VolumeFile) -> VolumeStack {
    let mut found = file.volume_stacks();
    assert!(found.unplaced.is_empty(), "{:?}", found.unplaced);
    assert_eq!(found.stacks.len(), 1);
    found.stacks.remove(0)
}

pub(crate) fn words(samples: impl IntoIterator<Item = u16>) -> Element {
    let bytes: Vec<u8> = samples.into_iter().flat_map(u16::to_le_bytes).collect();
    Element::new(PIXELS, VR::OW, bytes)
}

/// An enhanced CT of 5 slices of 8 x 10 voxels of 2 x 1 x 2.5 mm, that begins at (-5, 10, 100).
pub(crate) fn ct() -> VolumeFile {
    let mut elements = frames(16, [8, 10], 5);
    elements.push(shared([2.0, 1.0], None, Vec::new()));
    // From the head downwards.
    elements.push(per_frame(
        (0..5).rev().map(|z| frame([-5.0, 10.0, 100.0 + 2.5 * f64::from(z)], None)).collect(),
    ));
    elements.push(words(0..400));
    file(elements)
}

pub(crate) fn options() -> VolumeOptions {
    VolumeOptions::default()
}
