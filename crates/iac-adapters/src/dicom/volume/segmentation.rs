//! Segmentations as labels.

use std::collections::{BTreeMap, BTreeSet};

use dicom_core::Tag;
use iac_format::ErrorKind;

use super::affine::{Affine, count};
use super::array::{Volume, VolumeSlice, Voxels};
use super::geometry::{Plane, dot, length, minus, plus, times};
use super::groups::{first, items, text};
use super::label::{Canvas, Grid, Label, LabelFault, LabelFaultReason, LabelVolume};
use super::read::{Frames, VolumeOptions, array, refused, voxel_count, zeros};
use super::rtstruct::{charset, words};
use super::slice::{Found, Slice, to_whole};
use super::stack::{VolumeStack, tolerance};
use super::words::Scratch;
use crate::dicom::object::DataSet;
use crate::error::{AdapterError, Result};

/// Directions and spacings of two grids of the same voxels differ by no more.
const SAME: f64 = 5e-4;
/// Slices that a grid of its own may have.
const MOST_SLICES: f64 = 65_535.0;
/// Numbers of segments that samples name and nothing describes, that are listed.
const MOST_STRANGERS: usize = 1000;

/// What the samples of a segmentation mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SegmentationKind {
    /// 1 where a voxel belongs to the frame's segment.
    Binary,
    /// To which part of this maximum a voxel belongs to the frame's segment.
    Fractional {
        /// The sample that means wholly.
        maximum: u32,
    },
    /// The number of the voxel's segment.
    LabelMap,
}

/// A segment as a segmentation describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Segment {
    /// Segment Number.
    pub number: i64,
    /// Segment Label; empty where there is none.
    pub label: String,
}

/// A segmentation: segments, and frames that show where they are.
pub struct Segmentation<'a> {
    frames: &'a dyn Frames,
    found: Found,
    frame_of_reference: String,
    /// What the samples mean.
    pub kind: SegmentationKind,
    /// The segments, in the order of the object.
    pub segments: Vec<Segment>,
    /// The series that was segmented.
    pub series_uids: Vec<String>,
    /// SOP instance UIDs of its images, as far as they are named.
    pub image_uids: Vec<String>,
}

impl std::fmt::Debug for Segmentation<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Segmentation")
            .field("kind", &self.kind)
            .field("segments", &self.segments.len())
            .field("frames", &self.found.slices.len())
            .finish_non_exhaustive()
    }
}

impl<'a> Segmentation<'a> {
    pub(super) fn new(frames: &'a dyn Frames, data: &DataSet, found: Found) -> Result<Self> {
        let schema = |reason: &str| refused(frames.path(), ErrorKind::Schema, reason);
        let kind = data.get(Tag(0x0062, 0x0001)).and_then(text).unwrap_or_default();
        let kind = match kind.as_str() {
            "BINARY" => SegmentationKind::Binary,
            "FRACTIONAL" => {
                let maximum = data.get(Tag(0x0062, 0x000E)).and_then(first).map(to_whole);
                let maximum = maximum.and_then(|it| u32::try_from(it).ok()).filter(|it| *it > 0);
                let maximum =
                    maximum.ok_or_else(|| schema("its maximum fractional value is not above 0"))?;
                SegmentationKind::Fractional { maximum }
            }
            "LABELMAP" => SegmentationKind::LabelMap,
            _ => return Err(schema("it is no segmentation of a known type")),
        };
        let charset = charset(data);
        let segments = items(data, Tag(0x0062, 0x0002))
            .iter()
            .filter_map(|segment| {
                Some(Segment {
                    number: to_whole(segment.get(Tag(0x0062, 0x0004)).and_then(first)?),
                    label: words(segment, Tag(0x0062, 0x0005), &charset),
                })
            })
            .collect();
        let series_uids = items(data, Tag(0x0008, 0x1115))
            .iter()
            .filter_map(|series| series.get(Tag(0x0020, 0x000E)).and_then(text))
            .collect();
        let image_uids = items(data, Tag(0x0008, 0x1115))
            .iter()
            .flat_map(|series| items(series, Tag(0x0008, 0x114A)))
            .filter_map(|image| image.get(Tag(0x0008, 0x1155)).and_then(text))
            .collect();
        let frame_of_reference = data.get(Tag(0x0020, 0x0052)).and_then(text).unwrap_or_default();
        Ok(Self { frames, found, frame_of_reference, kind, segments, series_uids, image_uids })
    }

    /// Draws the segments on the voxels that [`read_volume`] gives for a stack with the same
    /// options. Values are Segment Numbers; later segments cover earlier ones. A fractional voxel is
    /// drawn from half of the maximum on. Nothing is interpolated: frames whose voxels are not those
    /// of the stack are among the faults.
    ///
    /// # Errors
    ///
    /// As [`read_volume`] for stacks that are not regular and frames that cannot be read.
    ///
    /// [`read_volume`]: crate::dicom::DicomPackReader::read_volume
    pub fn labels_on(&self, stack: &VolumeStack, options: &VolumeOptions) -> Result<LabelVolume> {
        self.drawn(&Grid::of(self.frames.path(), stack, options)?)
    }

    /// Draws the segments on a grid of their own: the planes of the frames, and those in between
    /// that were left out because they are empty.
    ///
    /// # Errors
    ///
    /// [`AdapterError::Source`]: kind `unsupported` when the frames lie on no even grid; kind
    /// `limit` when it is too large.
    pub fn labels(&self, options: &VolumeOptions) -> Result<LabelVolume> {
        self.drawn(&self.own_grid(options)?)
    }

    /// To which part each voxel of a stack belongs to a segment, from 0 to 1.
    ///
    /// # Errors
    ///
    /// As [`labels_on`](Self::labels_on); [`AdapterError::Usage`] when there is no such segment.
    pub fn fraction_on(
        &self,
        number: i64,
        stack: &VolumeStack,
        options: &VolumeOptions,
    ) -> Result<(Volume, Vec<LabelFault>)> {
        let path = self.frames.path();
        if !self.segments.iter().any(|segment| segment.number == number) {
            return Err(AdapterError::usage(format!("{path} has no segment {number}")));
        }
        let grid = Grid::of(path, stack, options)?;
        let shape = grid.shape();
        let count = voxel_count(path, shape, size_of::<f32>(), options.max_bytes)?;
        let mut values: Vec<f32> = zeros(path, count)?;
        let mut faults = Vec::new();
        let [_, rows, columns] = shape;
        let per_slice = rows.saturating_mul(columns);
        let is_map = self.kind == SegmentationKind::LabelMap;
        let slices = self.found.slices.iter();
        let slices = slices.filter(|slice| is_map || slice.segment == Some(number));
        self.place(&grid, slices, &mut faults, |voxel| {
            let at = voxel.slice.saturating_mul(per_slice).saturating_add(voxel.index);
            if voxel.segment == number
                && let Some(place) = values.get_mut(at)
            {
                // Several frames may show one segment in one slice.
                *place = place.max(voxel.fraction);
            }
        })?;
        let volume = Volume {
            voxels: Voxels::F32(array(path, shape, values)?),
            affine: grid.affine,
            placed: grid.placed,
            scale: Some([1.0, 0.0]),
            units: "1".to_owned(),
            window: None,
            slices: grid.slices,
        };
        Ok((volume, faults))
    }

    fn drawn(&self, grid: &Grid) -> Result<LabelVolume> {
        let mut canvas = Canvas::new(self.frames.path(), grid)?;
        let mut faults = Vec::new();
        let mut labels: BTreeMap<i64, Label> = BTreeMap::new();
        for segment in &self.segments {
            match u16::try_from(segment.number).ok().filter(|value| *value > 0) {
                Some(value) => {
                    labels.entry(segment.number).or_insert_with(|| Label {
                        value,
                        number: segment.number,
                        name: segment.label.clone(),
                        voxels: 0,
                    });
                }
                None => faults.push(LabelFault {
                    number: Some(segment.number),
                    part: None,
                    reason: LabelFaultReason::UnknownSegment,
                }),
            }
        }
        // Segment by segment, so that later ones cover earlier ones.
        let mut order: Vec<&Slice> = self.found.slices.iter().collect();
        if self.kind != SegmentationKind::LabelMap {
            order.retain(|it| it.segment.is_some_and(|number| labels.contains_key(&number)));
            order.sort_by_key(|slice| slice.segment);
        }
        let mut strangers = BTreeSet::new();
        self.place(grid, order.into_iter(), &mut faults, |voxel| {
            let Some(label) = labels.get_mut(&voxel.segment) else {
                if strangers.len() < MOST_STRANGERS {
                    strangers.insert(voxel.segment);
                }
                return;
            };
            if voxel.fraction >= 0.5 && canvas.put(voxel.slice, voxel.index, label.value) {
                label.voxels = label.voxels.saturating_add(1);
            }
        })?;
        faults.extend(strangers.into_iter().map(|number| LabelFault {
            number: Some(number),
            part: None,
            reason: LabelFaultReason::UnknownSegment,
        }));
        self.tell_strangers(&labels, &mut faults);
        canvas.finish(labels.into_values().collect(), faults)
    }

    /// Frames that no segment asks for, and frames without a place.
    fn tell_strangers(&self, labels: &BTreeMap<i64, Label>, faults: &mut Vec<LabelFault>) {
        if self.kind != SegmentationKind::LabelMap {
            let unknown =
                self.found.slices.iter().filter(|slice| {
                    slice.segment.is_none_or(|segment| !labels.contains_key(&segment))
                });
            faults.extend(unknown.map(|slice| LabelFault {
                number: slice.segment,
                part: usize::try_from(slice.frame).ok(),
                reason: LabelFaultReason::UnknownSegment,
            }));
        }
        faults.extend(self.found.unplaced.iter().map(|frame| LabelFault {
            number: None,
            part: usize::try_from(frame.frame).ok(),
            reason: LabelFaultReason::Unplaced { reason: frame.reason },
        }));
    }

    /// Hands on every voxel of these frames that belongs to a segment at all.
    fn place<'s>(
        &self,
        grid: &Grid,
        slices: impl Iterator<Item = &'s Slice>,
        faults: &mut Vec<LabelFault>,
        mut each: impl FnMut(Part),
    ) -> Result<()> {
        let path = self.frames.path();
        let [rows, columns] = grid.size;
        let mut scratch = Scratch::default();
        for slice in slices {
            let mut fault = |reason| {
                let part = usize::try_from(slice.frame).ok();
                faults.push(LabelFault { number: slice.segment, part, reason });
            };
            let (at, [left, top]) = match self.fit(grid, slice) {
                Ok(fit) => fit,
                Err(reason) => {
                    fault(reason);
                    continue;
                }
            };
            let samples = slice.samples();
            let bytes = slice.voxel_type.bytes();
            voxel_count(path, [1, samples, 1], bytes, grid.max_bytes)?;
            self.frames.read(slice, scratch.room(slice.voxel_type, samples))?;
            let right = left.saturating_add(i64::from(slice.size[1]));
            let (mut row, mut column) = (top, left);
            let mut outside = 0_u64;
            scratch.for_each(slice.voxel_type, |sample| {
                let place = (row, column);
                column = column.saturating_add(1);
                if column == right {
                    (row, column) = (row.saturating_add(1), left);
                }
                if sample == 0.0 {
                    return;
                }
                let number = slice.segment.unwrap_or(0);
                let (segment, fraction) = match self.kind {
                    SegmentationKind::Binary => (number, 1.0),
                    SegmentationKind::Fractional { maximum } => {
                        (number, to_fraction(sample / f64::from(maximum)))
                    }
                    SegmentationKind::LabelMap => (to_whole(sample), 1.0),
                };
                let row = usize::try_from(place.0).ok().filter(|row| *row < rows);
                let column = usize::try_from(place.1).ok().filter(|column| *column < columns);
                if let (Some(row), Some(column)) = (row, column) {
                    let index = row.saturating_mul(columns).saturating_add(column);
                    each(Part { segment, slice: at, index, fraction });
                } else {
                    outside = outside.saturating_add(1);
                }
            });
            if outside > 0 {
                fault(LabelFaultReason::Outside { voxels: outside });
            }
        }
        Ok(())
    }

    /// The slice of a grid that a frame lies in, and the column and row of its first voxel there.
    fn fit(&self, grid: &Grid, slice: &Slice) -> Result<(usize, [i64; 2]), LabelFaultReason> {
        let stated = [&self.frame_of_reference, &grid.frame_of_reference];
        if stated.iter().all(|uid| !uid.is_empty()) && stated[0] != stated[1] {
            return Err(LabelFaultReason::OtherFrameOfReference);
        }
        let tolerance = grid.tolerance;
        let off = LabelFaultReason::OffPlane { distance: f64::INFINITY, tolerance };
        let (at, distance) = grid.nearest(slice.along(grid.normal)).ok_or(off)?;
        let plane = grid.planes.get(at).ok_or(LabelFaultReason::OtherGrid)?;
        if length(minus(plane.row, slice.plane.row)) > SAME
            || length(minus(plane.column, slice.plane.column)) > SAME
            || plane.spacing.iter().zip(slice.plane.spacing).any(|(a, b)| (a - b).abs() > SAME)
        {
            return Err(LabelFaultReason::OtherGrid);
        }
        if distance > tolerance {
            return Err(LabelFaultReason::OffPlane { distance, tolerance });
        }
        let [column, row, _] = plane.locate(slice.plane.position);
        // A tenth of a voxel is more than rounding, and less than anybody would notice.
        if [column, row].iter().any(|one| (one - one.round()).abs() > 0.1) {
            return Err(LabelFaultReason::OtherGrid);
        }
        Ok((at, [to_whole(column), to_whole(row)]))
    }

    /// The planes of all frames, evenly spaced.
    fn own_grid(&self, options: &VolumeOptions) -> Result<Grid> {
        let path = self.frames.path();
        let wrong = |kind, reason: String| refused(path, kind, reason);
        let Some(first) = self.found.slices.first() else {
            let reason = "none of its frames has a place".to_owned();
            return Err(wrong(ErrorKind::Unsupported, reason));
        };
        let normal = first.plane.normal();
        let mut positions: Vec<(f64, &Slice)> =
            self.found.slices.iter().map(|slice| (slice.along(normal), slice)).collect();
        positions.sort_by(|a, b| a.0.total_cmp(&b.0));
        let line: Vec<f64> = positions.iter().map(|(position, _)| *position).collect();
        let places: Vec<(f64, &Slice)> = super::stack::places(&line)
            .iter()
            .filter_map(|group| positions.get(*group.first()?).copied())
            .collect();
        let (Some((start, lowest)), Some((end, _))) = (places.first(), places.last()) else {
            return Err(wrong(ErrorKind::Unsupported, "it has no frames".to_owned()));
        };
        let least = places
            .windows(2)
            .filter_map(|pair| match pair {
                [(one, _), (other, _)] => Some(other - one),
                _ => None,
            })
            .fold(f64::INFINITY, f64::min);
        // What is stated counts if the frames agree with it; otherwise the least distance does.
        let candidates = [first.stated_spacing, Some(least)];
        let is_even = |spacing: f64| {
            places.iter().all(|(position, _)| {
                let steps = (position - start) / spacing;
                (steps - steps.round()).abs() * spacing <= tolerance(spacing)
            })
        };
        let spacing = if places.len() == 1 {
            first.stated_spacing.unwrap_or(1.0)
        } else {
            let found = candidates
                .into_iter()
                .flatten()
                .find(|spacing| spacing.is_finite() && *spacing > 0.0 && is_even(*spacing));
            found.ok_or_else(|| {
                let reason = "its frames do not lie on evenly spaced planes".to_owned();
                wrong(ErrorKind::Unsupported, reason)
            })?
        };
        let steps = ((end - start) / spacing).round();
        if !(0.0..MOST_SLICES).contains(&steps) {
            let reason = format!("its frames span {steps} planes, where {MOST_SLICES} are allowed");
            return Err(wrong(ErrorKind::Limit, reason));
        }
        let planes = usize::try_from(to_whole(steps)).unwrap_or(0).saturating_add(1);
        let step = times(normal, spacing);
        let plane_at = |number: usize| Plane {
            position: plus(lowest.plane.position, times(step, count(number))),
            ..lowest.plane
        };
        let [between_rows, between_columns] = lowest.plane.spacing;
        let steps = [
            times(lowest.plane.row, between_columns),
            times(lowest.plane.column, between_rows),
            step,
        ];
        let planes: Vec<Plane> = (0..planes).map(plane_at).collect();
        Ok(Grid {
            positions: planes.iter().map(|plane| dot(plane.position, normal)).collect(),
            slices: planes
                .iter()
                .map(|plane| VolumeSlice {
                    row: lowest.row,
                    frame: 0,
                    position: dot(plane.position, normal),
                })
                .collect(),
            planes,
            size: lowest.size.map(|side| usize::try_from(side).unwrap_or(usize::MAX)),
            affine: Affine::new(steps, lowest.plane.position),
            placed: true,
            normal,
            tolerance: tolerance(spacing),
            frame_of_reference: self.frame_of_reference.clone(),
            max_bytes: options.max_bytes,
        })
    }
}

/// What a frame says of a voxel of the grid.
struct Part {
    segment: i64,
    slice: usize,
    /// Place in the slice, row after row.
    index: usize,
    fraction: f32,
}

#[allow(clippy::cast_possible_truncation)] // The nearest float is meant.
fn to_fraction(number: f64) -> f32 {
    number.clamp(0.0, 1.0) as f32
}
