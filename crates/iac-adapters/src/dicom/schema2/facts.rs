//! Where a frame lies, and what its samples mean.

use dicom_core::{Tag, VR};

use super::groups;
use crate::dicom::number;
use crate::dicom::object::{DataSet, Element};

const POSITION: Tag = Tag(0x0020, 0x0032);
const ORIENTATION: Tag = Tag(0x0020, 0x0037);
const PIXEL_SPACING: Tag = Tag(0x0028, 0x0030);
const THICKNESS: Tag = Tag(0x0018, 0x0050);
const SLICE_SPACING: Tag = Tag(0x0018, 0x0088);
const SLOPE: Tag = Tag(0x0028, 0x1053);
const INTERCEPT: Tag = Tag(0x0028, 0x1052);
const DIMENSION_INDEX: Tag = Tag(0x0020, 0x9157);
const GRID_OFFSETS: Tag = Tag(0x3004, 0x000C);

/// What an object says about one of its frames: its own functional groups count before those that
/// all frames share, and these before the data set itself.
///
/// Numbers that are missing or not finite are absent.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct FrameFacts {
    /// Image Position (Patient): the centre of the first pixel, in millimetres. For planes of a
    /// dose, the position of the object moved by the frame's grid offset.
    pub position: Option<[f64; 3]>,
    /// Image Orientation (Patient): directions of a row and of a column.
    pub orientation: Option<[f64; 6]>,
    /// Pixel Spacing: distances of rows and of columns, in millimetres.
    pub pixel_spacing: Option<[f64; 2]>,
    /// Slice Thickness, in millimetres.
    pub slice_thickness: Option<f64>,
    /// Spacing Between Slices, in millimetres.
    pub slice_spacing: Option<f64>,
    /// Rescale Slope: stored samples times this.
    pub rescale_slope: Option<f64>,
    /// Rescale Intercept: what is added to that.
    pub rescale_intercept: Option<f64>,
    /// Dimension Index Values; empty when there are none.
    pub dimension_index: Vec<u32>,
}

/// Facts of the frames of one object.
pub(crate) struct FactsOf<'a> {
    data: &'a DataSet,
    shared: DataSet,
    offsets: Vec<f64>,
}

impl<'a> FactsOf<'a> {
    pub(crate) fn new(data: &'a DataSet) -> Self {
        let shared = groups::shared_of(data).map(groups::leaves).unwrap_or_default();
        let offsets = reals(data.get(GRID_OFFSETS)).unwrap_or_default();
        Self { data, shared: DataSet::from_elements(shared), offsets }
    }

    /// The facts of a frame with its own functional groups.
    pub(crate) fn of(&self, frame: usize, own: Option<&DataSet>) -> FrameFacts {
        let own = DataSet::from_elements(own.map(groups::leaves).unwrap_or_default());
        let find = |tag: Tag| own.get(tag).or_else(|| self.shared.get(tag)).or(self.data.get(tag));
        let one = |tag: Tag| {
            reals(find(tag)).and_then(|it| it.first().copied()).filter(|it| it.is_finite())
        };
        let orientation = exactly(find(ORIENTATION));
        let position = exactly(find(POSITION));
        FrameFacts {
            position: self.moved(frame, position, orientation),
            orientation,
            pixel_spacing: exactly(find(PIXEL_SPACING)),
            slice_thickness: one(THICKNESS),
            slice_spacing: one(SLICE_SPACING),
            rescale_slope: one(SLOPE),
            rescale_intercept: one(INTERCEPT),
            dimension_index: find(DIMENSION_INDEX).map(words).unwrap_or_default(),
        }
    }

    /// Planes of a dose lie apart from the first one along the normal (PS3.3 C.8.8.3.2).
    fn moved(
        &self,
        frame: usize,
        position: Option<[f64; 3]>,
        orientation: Option<[f64; 6]>,
    ) -> Option<[f64; 3]> {
        let position = position?;
        let (Some(offset), Some(first)) = (self.offsets.get(frame), self.offsets.first()) else {
            return Some(position);
        };
        if !self.offsets.iter().all(|offset| offset.is_finite()) {
            return None;
        }
        let [x, y, z] = position;
        // Offsets that do not begin with zero are coordinates of their planes, which are axial.
        if *first != 0.0 {
            return Some([x, y, *offset]);
        }
        let [a, b, c, d, e, f] = orientation?;
        let [i, j, k] = [b * f - c * e, c * d - a * f, a * e - b * d];
        Some([x + offset * i, y + offset * j, z + offset * k])
    }
}

fn reals(element: Option<&Element>) -> Option<Vec<f64>> {
    let element = element?;
    let bytes = element.bytes()?;
    match element.vr {
        VR::FD => {
            let (numbers, _) = bytes.as_chunks::<8>();
            Some(numbers.iter().map(|it| f64::from_le_bytes(*it)).collect())
        }
        VR::FL => {
            let (numbers, _) = bytes.as_chunks::<4>();
            Some(numbers.iter().map(|it| f32::from_le_bytes(*it).into()).collect())
        }
        _ => {
            let text: String = bytes.iter().map(|byte| char::from(*byte)).collect();
            let text = crate::dicom::object::trim_padding(&text);
            if text.is_empty() {
                return None;
            }
            text.split('\\').map(number::decimal).collect()
        }
    }
}

fn exactly<const N: usize>(element: Option<&Element>) -> Option<[f64; N]> {
    let numbers: [f64; N] = reals(element)?.try_into().ok()?;
    numbers.iter().all(|number| number.is_finite()).then_some(numbers)
}

fn words(element: &Element) -> Vec<u32> {
    let (words, _) = element.bytes().map_or(&[] as &[u8], |bytes| bytes).as_chunks::<4>();
    words.iter().map(|it| u32::from_le_bytes(*it)).collect()
}
