//! What is known of slices before their samples are read.
//!
//! A slice is an instance with one frame, or one frame of an instance with several. Either kind is
//! described by [`slices_of`], from the elements of the object alone.

use std::fmt;
use std::sync::Arc;

use dicom_core::Tag;

use super::affine::count;
use super::geometry::{Misplaced, Numbers, Plane, check_place, dot, is_distance, plus, times};
use super::groups::{Groups, exactly, first, items, numbers, text};
use super::mapping::{Cache, Mapping, World, modality_units};
use super::marks::Marks;
use super::words::VoxelType;
use crate::dicom::object::DataSet;
use crate::dicom::values::Window;

const PLANE_POSITION: Tag = Tag(0x0020, 0x9113);
const PLANE_ORIENTATION: Tag = Tag(0x0020, 0x9116);
const PIXEL_MEASURES: Tag = Tag(0x0028, 0x9110);
const FRAME_CONTENT: Tag = Tag(0x0020, 0x9111);
const FRAME_VOI: Tag = Tag(0x0028, 0x9132);
const POSITION: Tag = Tag(0x0020, 0x0032);
const ORIENTATION: Tag = Tag(0x0020, 0x0037);
const PIXEL_SPACING: Tag = Tag(0x0028, 0x0030);
const SLICE_SPACING: Tag = Tag(0x0018, 0x0088);
const FRAME_OFFSETS: Tag = Tag(0x3004, 0x000C);
const DETECTORS: Tag = Tag(0x0054, 0x0022);

/// Frames of one object that volumes look at; more are refused.
pub(super) const MOST_FRAMES: u32 = 1 << 18;

/// A slice with its place.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub struct Slice {
    /// Its row in the pack; 0 for a file.
    pub row: u64,
    /// Which frame of the instance it is, counted from 0.
    pub frame: u32,
    /// SOP instance UID of the instance.
    pub sop_instance_uid: String,
    /// Instance number, where there is one.
    pub instance_number: Option<i64>,
    /// Where its voxels lie.
    pub plane: Plane,
    /// Rows and columns.
    pub size: [u32; 2],
    /// The type of its samples.
    pub voxel_type: VoxelType,
    /// Spacing Between Slices as the object states it: only where sparse frames leave it open which
    /// one holds does anything go by it.
    pub stated_spacing: Option<f64>,
    pub(super) frame_of_reference: String,
    pub(super) stack_id: String,
    pub(super) marks: Marks,
    pub(super) modality: Mapping,
    pub(super) units: String,
    pub(super) world: Option<Arc<World>>,
    pub(super) prefers_world: bool,
    pub(super) window: Option<Window>,
    pub(super) segment: Option<i64>,
}

/// Shows where it is, and no identifiers.
impl fmt::Debug for Slice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slice")
            .field("row", &self.row)
            .field("frame", &self.frame)
            .field("position", &self.plane.position)
            .field("size", &self.size)
            .finish_non_exhaustive()
    }
}

/// An image that has no place in a volume.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Unplaced {
    /// Its row in the pack; 0 for a file.
    pub row: u64,
    /// Which frame of the instance it is, counted from 0.
    pub frame: u32,
    /// SOP instance UID of the instance.
    pub sop_instance_uid: String,
    /// Why.
    pub reason: Misplaced,
}

/// What is to be known of an object's images beside its elements.
#[derive(Debug, Clone, Copy)]
pub(super) struct Form {
    /// Its row, or that of its first frame.
    pub(super) row: u64,
    pub(super) frames: u32,
    /// Whether each frame has a row, one behind the other.
    pub(super) row_per_frame: bool,
    /// Rows and columns.
    pub(super) size: [u32; 2],
    /// Samples of a pixel.
    pub(super) samples: u32,
    pub(super) voxel_type: VoxelType,
    /// Whether slices are taken one behind the other, whatever is known of their places.
    pub(super) in_order: bool,
}

/// Slices that have a place, and images that have none.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) slices: Vec<Slice>,
    pub(super) unplaced: Vec<Unplaced>,
}

/// Describes every frame of an object.
pub(super) fn slices_of(data: &DataSet, form: Form, cache: &mut Cache, found: &mut Found) {
    cache.next_object();
    let plain = |tag| data.get(tag).and_then(text).unwrap_or_default();
    let uid = plain(Tag(0x0008, 0x0018));
    let modality = plain(Tag(0x0008, 0x0060));
    let number = data.get(Tag(0x0020, 0x0013)).and_then(first).map(to_whole);
    let prefers_world = plain(Tag(0x0008, 0x0016)) == "1.2.840.10008.5.1.4.1.1.30";
    let frame_of_reference = plain(Tag(0x0020, 0x0052));
    let offsets = if form.in_order { Offsets::None } else { Offsets::of(data, form.frames) };
    for frame in 0..form.frames {
        let groups = Groups::new(data, usize::try_from(frame).unwrap_or(usize::MAX));
        let behind_first = if form.row_per_frame { u64::from(frame) } else { 0 };
        let row = form.row.saturating_add(behind_first);
        let plane = if form.in_order {
            Ok(behind(&groups, found.slices.len()))
        } else {
            plane_of(&groups, &offsets, frame)
        };
        let plane = plane.and_then(|plane| {
            if form.samples == 1 {
                Ok(plane)
            } else {
                Err(Misplaced::Coloured { samples: form.samples })
            }
        });
        let plane = match plane {
            Ok(plane) => plane,
            Err(reason) => {
                let sop_instance_uid = uid.clone();
                found.unplaced.push(Unplaced { row, frame, sop_instance_uid, reason });
                continue;
            }
        };
        let segment = groups.number(Tag(0x0062, 0x000A), Tag(0x0062, 0x000B)).map(to_whole);
        found.slices.push(Slice {
            row,
            frame,
            sop_instance_uid: uid.clone(),
            instance_number: number,
            plane,
            size: form.size,
            voxel_type: form.voxel_type,
            stated_spacing: groups
                .number(PIXEL_MEASURES, SLICE_SPACING)
                .map(f64::abs)
                .filter(|spacing| is_distance(*spacing)),
            frame_of_reference: frame_of_reference.clone(),
            stack_id: groups.text(FRAME_CONTENT, Tag(0x0020, 0x9056)).unwrap_or_default(),
            marks: Marks::of(&groups),
            modality: Mapping::of_modality(&groups, cache),
            units: modality_units(&groups, &modality),
            world: cache.world(&groups),
            prefers_world,
            window: window(&groups),
            segment,
        });
    }
}

/// The plane of the n-th image where nothing but the order counts: millimetres where they are
/// stated, else 1 for a voxel.
fn behind(groups: &Groups<'_>, number: usize) -> Plane {
    let spacing = match groups.exactly(PIXEL_MEASURES, PIXEL_SPACING) {
        Numbers::Are(spacing) if spacing.iter().all(|one| is_distance(*one)) => spacing,
        _ => [1.0, 1.0],
    };
    let stated = groups.number(PIXEL_MEASURES, SLICE_SPACING).map(f64::abs);
    let between = stated.filter(|spacing| is_distance(*spacing)).unwrap_or(1.0);
    Plane {
        position: [0.0, 0.0, between * count(number)],
        row: [1.0, 0.0, 0.0],
        column: [0.0, 1.0, 0.0],
        spacing,
    }
}

/// The nearest whole number.
#[allow(clippy::cast_possible_truncation)] // Out of range it is the nearest that there is.
pub(super) fn to_whole(number: f64) -> i64 {
    number.round() as i64
}

fn window(groups: &Groups<'_>) -> Option<Window> {
    let number = |tag| groups.number(FRAME_VOI, tag);
    let (center, width) = (number(Tag(0x0028, 0x1050))?, number(Tag(0x0028, 0x1051))?);
    (width >= 1.0).then_some(Window { center, width })
}

/// How frames without a place of their own lie behind the first one.
enum Offsets {
    /// They have places of their own, or there is one frame.
    None,
    /// Millimetres along the normal.
    Along(Vec<f64>),
    /// There ought to be one for each frame, but there are only so many.
    Missing { found: usize, frames: u32 },
}

impl Offsets {
    fn of(data: &DataSet, frames: u32) -> Self {
        if let Some(element) = data.get(FRAME_OFFSETS) {
            let offsets = numbers(element).unwrap_or_default();
            let fits = u32::try_from(offsets.len()) == Ok(frames)
                && offsets.iter().all(|offset| offset.is_finite());
            let Some(start) = offsets.first().copied().filter(|_| fits) else {
                return Self::Missing { found: offsets.len(), frames };
            };
            // Beginning with 0 they are offsets along the normal, otherwise coordinates towards the
            // head, which planes across the body's axis may have.
            let turned = start != 0.0 && across(data).is_some_and(|[_, _, z]| z < 0.0);
            let sign = if turned { -1.0 } else { 1.0 };
            return Self::Along(offsets.iter().map(|offset| (offset - start) * sign).collect());
        }
        if let Some(spacing) = reconstructed_spacing(data) {
            let slices = data.get(Tag(0x0054, 0x0080)).and_then(numbers).unwrap_or_default();
            let offset = |frame: u32| {
                let place = usize::try_from(frame).ok().and_then(|frame| slices.get(frame));
                place.map_or_else(|| f64::from(frame), |slice| slice - 1.0) * spacing
            };
            return Self::Along((0..frames).map(offset).collect());
        }
        let groups = Groups::new(data, 0);
        if frames > 1 && !groups.are_there() {
            Self::Missing { found: 0, frames }
        } else {
            Self::None
        }
    }
}

/// The distance of reconstructed nuclear-medicine slices, which lie behind the first one.
fn reconstructed_spacing(data: &DataSet) -> Option<f64> {
    let kind = data.get(Tag(0x0008, 0x0008)).and_then(text)?;
    let kind = kind.split('\\').nth(2)?.trim();
    if !matches!(kind, "RECON TOMO" | "RECON GATED TOMO") {
        return None;
    }
    data.get(SLICE_SPACING).and_then(first).filter(|spacing| *spacing != 0.0)
}

fn across(data: &DataSet) -> Option<[f64; 3]> {
    match exactly(data.get(ORIENTATION)) {
        Numbers::Are([a, b, c, x, y, z]) => Some([b * z - c * y, c * x - a * z, a * y - b * x]),
        _ => None,
    }
}

fn plane_of(groups: &Groups<'_>, offsets: &Offsets, frame: u32) -> Result<Plane, Misplaced> {
    let detector = items(groups.object, DETECTORS).first();
    let of_detector = |tag| detector.and_then(|detector| detector.get(tag));
    let position = groups.get(PLANE_POSITION, POSITION).or_else(|| of_detector(POSITION));
    let orientation =
        groups.get(PLANE_ORIENTATION, ORIENTATION).or_else(|| of_detector(ORIENTATION));
    let spacing = groups.exactly(PIXEL_MEASURES, PIXEL_SPACING);
    let plane = Plane::new(exactly(position), exactly(orientation), spacing)?;
    match offsets {
        Offsets::None => Ok(plane),
        Offsets::Missing { found, frames } => {
            Err(Misplaced::NoOffset { found: *found, frames: *frames })
        }
        Offsets::Along(offsets) => {
            let offset = usize::try_from(frame).ok().and_then(|frame| offsets.get(frame));
            let offset = offset.copied().unwrap_or(0.0);
            let position = plus(plane.position, times(plane.normal(), offset));
            check_place(position)?;
            Ok(Plane { position, ..plane })
        }
    }
}

impl Slice {
    /// Samples of the slice.
    pub(super) fn samples(&self) -> usize {
        let [rows, columns] = self.size.map(|side| usize::try_from(side).unwrap_or(usize::MAX));
        rows.saturating_mul(columns)
    }

    /// Where it lies along a direction.
    pub(super) fn along(&self, direction: [f64; 3]) -> f64 {
        dot(self.plane.position, direction)
    }

    /// The mapping that gives real values, and their unit.
    pub(super) fn mapping(&self, real_world: Option<bool>) -> (&Mapping, &str) {
        let wanted = real_world.unwrap_or(self.prefers_world);
        match &self.world {
            Some(world) if wanted => (&world.mapping, &world.units),
            _ => (&self.modality, &self.units),
        }
    }
}
