//! Values of a frame: in its own functional groups, in the shared ones, or in the object.

use dicom_core::{Tag, VR};

use super::geometry::Numbers;
use crate::dicom::number;
use crate::dicom::object::{DataSet, Element, trim_padding};

const SHARED: Tag = Tag(0x5200, 0x9229);
const PER_FRAME: Tag = Tag(0x5200, 0x9230);

/// Where values of one frame are looked for.
#[derive(Clone, Copy)]
pub(super) struct Groups<'a> {
    pub(super) object: &'a DataSet,
    shared: Option<&'a DataSet>,
    frame: Option<&'a DataSet>,
}

impl<'a> Groups<'a> {
    pub(super) fn new(object: &'a DataSet, frame: usize) -> Self {
        let shared = items(object, SHARED).first();
        let frame = items(object, PER_FRAME).get(frame);
        Self { object, shared, frame }
    }

    /// Whether the object describes its frames in functional groups.
    pub(super) fn are_there(&self) -> bool {
        self.object.get(SHARED).is_some() || self.object.get(PER_FRAME).is_some()
    }

    /// The items of a functional group: those of the frame before shared ones.
    pub(super) fn group(&self, sequence: Tag) -> &'a [DataSet] {
        let own = self.frame.map_or(&[][..], |frame| items(frame, sequence));
        if own.is_empty() {
            self.shared.map_or(&[][..], |shared| items(shared, sequence))
        } else {
            own
        }
    }

    /// An element of a functional group, or, in an object without any, its own.
    pub(super) fn get(&self, sequence: Tag, tag: Tag) -> Option<&'a Element> {
        for place in [self.frame, self.shared] {
            let found = place
                .and_then(|place| items(place, sequence).first())
                .and_then(|item| item.get(tag))
                .filter(|element| !is_empty(element));
            if found.is_some() {
                return found;
            }
        }
        self.object.get(tag).filter(|element| !is_empty(element))
    }

    pub(super) fn exactly<const N: usize>(&self, sequence: Tag, tag: Tag) -> Numbers<N> {
        exactly(self.get(sequence, tag))
    }

    pub(super) fn text(&self, sequence: Tag, tag: Tag) -> Option<String> {
        self.get(sequence, tag).and_then(text)
    }

    /// The first of an element's numbers, if it is a finite one.
    pub(super) fn number(&self, sequence: Tag, tag: Tag) -> Option<f64> {
        self.get(sequence, tag).and_then(first)
    }
}

fn is_empty(element: &Element) -> bool {
    match (element.bytes(), element.items()) {
        (Some(bytes), _) => {
            bytes.iter().all(|byte| matches!(byte, b' ' | 0)) && is_text(element.vr)
        }
        (None, Some(items)) => items.is_empty(),
        (None, None) => false,
    }
}

fn is_text(vr: VR) -> bool {
    !matches!(
        vr,
        VR::FD | VR::FL | VR::US | VR::SS | VR::UL | VR::SL | VR::OB | VR::OW | VR::OF | VR::OD
    )
}

/// The items of a sequence; none where there is no such sequence.
pub(super) fn items(data: &DataSet, tag: Tag) -> &[DataSet] {
    data.get(tag).and_then(Element::items).unwrap_or_default()
}

/// The text of an element, without padding; nothing when it is empty.
pub(super) fn text(element: &Element) -> Option<String> {
    let text: String = element.bytes()?.iter().map(|byte| char::from(*byte)).collect();
    Some(trim_padding(&text).to_owned()).filter(|text| !text.is_empty())
}

/// The numbers of an element, whatever its representation; nothing when one is none.
pub(super) fn numbers(element: &Element) -> Option<Vec<f64>> {
    let bytes = element.bytes()?;
    Some(match element.vr {
        VR::FD | VR::OD => each(bytes, f64::from_le_bytes)?,
        VR::FL | VR::OF => each(bytes, |four| f64::from(f32::from_le_bytes(four)))?,
        VR::US => each(bytes, |two| f64::from(u16::from_le_bytes(two)))?,
        VR::SS => each(bytes, |two| f64::from(i16::from_le_bytes(two)))?,
        VR::UL => each(bytes, |four| f64::from(u32::from_le_bytes(four)))?,
        VR::SL => each(bytes, |four| f64::from(i32::from_le_bytes(four)))?,
        VR::DS | VR::IS | VR::UN => {
            let text = text(element)?;
            text.split('\\').map(number::decimal).collect::<Option<Vec<f64>>>()?
        }
        _ => return None,
    })
}

fn each<const N: usize>(bytes: &[u8], number: impl Fn([u8; N]) -> f64) -> Option<Vec<f64>> {
    let (chunks, rest) = bytes.as_chunks::<N>();
    rest.is_empty().then(|| chunks.iter().map(|chunk| number(*chunk)).collect())
}

/// So many finite numbers.
pub(super) fn exactly<const N: usize>(element: Option<&Element>) -> Numbers<N> {
    let Some(element) = element else {
        return Numbers::Absent;
    };
    let found = numbers(element).and_then(|numbers| <[f64; N]>::try_from(numbers).ok());
    match found {
        Some(numbers) if numbers.iter().all(|number| number.is_finite()) => Numbers::Are(numbers),
        _ => Numbers::Unusable,
    }
}

/// The first number of an element, if it is finite.
pub(super) fn first(element: &Element) -> Option<f64> {
    numbers(element)?.first().copied().filter(|number| number.is_finite())
}
