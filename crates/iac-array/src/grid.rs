//! Boxes, chunk grids, and the runs of elements that two boxes share.

use crate::error::{ArrayError, Result, u64_len};

/// Axes that an array may have.
pub const MAX_RANK: usize = 32;

/// The product of extents, if it stays below 2^63.
pub(crate) fn product(extents: &[u64]) -> Option<u64> {
    // An axis without elements empties the box, whatever the others are.
    if extents.contains(&0) {
        return Some(0);
    }
    let all = extents.iter().try_fold(1_u64, |all, extent| all.checked_mul(*extent))?;
    (all < 1 << 63).then_some(all)
}

/// The elements `start + k * step` for `k` below `count`, along each axis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Selection {
    pub(crate) start: Vec<u64>,
    pub(crate) count: Vec<u64>,
    pub(crate) step: Vec<u64>,
}

impl Selection {
    /// A box within an array of this shape.
    pub(crate) fn new(
        name: &str,
        extents: &[u64],
        start: &[u64],
        count: &[u64],
        step: Option<&[u64]>,
    ) -> Result<Self> {
        let step = step.map_or_else(|| vec![1; start.len()], <[u64]>::to_vec);
        let rank = extents.len();
        if [start.len(), count.len(), step.len()].iter().any(|found| *found != rank) {
            return Err(ArrayError::argument(format!(
                "array `{name}` has {rank} axes, the box is given with {}, {} and {}",
                start.len(),
                count.len(),
                step.len()
            )));
        }
        if step.contains(&0) {
            return Err(ArrayError::argument(format!("array `{name}`: a step of 0")));
        }
        for (axis, (((start, count), step), extent)) in
            start.iter().zip(count).zip(&step).zip(extents).enumerate()
        {
            let end = match count.checked_sub(1) {
                None => Some(*start),
                Some(last) => {
                    last.checked_mul(*step).and_then(|last| start.checked_add(last)?.checked_add(1))
                }
            };
            // Also where the extent is the greatest number that there is.
            if end.is_none_or(|end| end > *extent) {
                return Err(ArrayError::OutOfBounds {
                    name: name.to_owned(),
                    axis,
                    end: end.unwrap_or(u64::MAX),
                    extent: *extent,
                });
            }
        }
        let selection = Self { start: start.to_vec(), count: count.to_vec(), step };
        selection.elements()?;
        Ok(selection)
    }

    /// All of an array of this shape.
    pub(crate) fn whole(shape: &[u64]) -> Self {
        Self { start: vec![0; shape.len()], count: shape.to_vec(), step: vec![1; shape.len()] }
    }

    /// Elements selected.
    pub(crate) fn elements(&self) -> Result<u64> {
        product(&self.count).ok_or(ArrayError::TooLarge {
            what: "box (elements)",
            found: u64::MAX,
            allowed: 1 << 63,
        })
    }

    /// The part of a box (without steps) that lies in another box.
    pub(crate) fn common(&self, origin: &[u64], extents: &[u64]) -> Self {
        let mut common = self.clone();
        let axes = common.start.iter_mut().zip(&mut common.count);
        for ((start, count), (origin, extent)) in axes.zip(origin.iter().zip(extents)) {
            let end = start.saturating_add(*count).min(origin.saturating_add(*extent));
            *start = (*start).max(*origin);
            *count = end.saturating_sub(*start);
        }
        common
    }

    /// For one axis, the first and the end of the `k` whose elements lie in `from..end`.
    pub(crate) fn within(&self, axis: usize, from: u64, end: u64) -> (u64, u64) {
        let at = |values: &[u64], other| values.get(axis).copied().unwrap_or(other);
        let (start, count, step) = (at(&self.start, 0), at(&self.count, 0), at(&self.step, 1));
        let first = from.saturating_sub(start).div_ceil(step.max(1)).min(count);
        let last = end.saturating_sub(start).div_ceil(step.max(1)).min(count);
        (first, last.max(first))
    }

    /// Elements of a box that are selected.
    pub(crate) fn selected(&self, origin: &[u64], extents: &[u64]) -> u64 {
        let axes = origin.iter().zip(extents).enumerate();
        axes.fold(1_u64, |all, (axis, (origin, extent))| {
            let (first, end) = self.within(axis, *origin, origin.saturating_add(*extent));
            all.saturating_mul(end.saturating_sub(first))
        })
    }

    /// Calls `run(in the box, in the selection, elements)` for every run of elements of a box that
    /// are selected; positions are row-major. `visible` is the part of the box that counts.
    pub(crate) fn runs(
        &self,
        origin: &[u64],
        extents: &[u64],
        visible: &[u64],
        mut run: impl FnMut(u64, u64, u64) -> Result<()>,
    ) -> Result<()> {
        let rank = self.start.len();
        let (mut source, mut target) = (0_u64, 0_u64);
        let (mut source_stride, mut target_stride) = (1_u64, 1_u64);
        // Elements that follow each other on both sides, and the axes around them, innermost first.
        let mut length = 1_u64;
        let mut around: Vec<Axis> = Vec::with_capacity(rank);
        for axis in (0..rank).rev() {
            let at = |values: &[u64]| values.get(axis).copied().unwrap_or(0);
            let (from, step) = (at(origin), at(&self.step));
            let (first, last) = self.within(axis, from, from.saturating_add(at(visible)));
            if first == last {
                return Ok(());
            }
            let position =
                at(&self.start).saturating_add(first.saturating_mul(step)).saturating_sub(from);
            source = source.saturating_add(position.saturating_mul(source_stride));
            target = target.saturating_add(first.saturating_mul(target_stride));
            let here = Axis {
                count: last.saturating_sub(first),
                source: source_stride.saturating_mul(step),
                target: target_stride,
                at: 0,
            };
            if here.count > 1 {
                if around.is_empty() && here.source == length && here.target == length {
                    length = length.saturating_mul(here.count);
                } else {
                    around.push(here);
                }
            }
            source_stride = source_stride.saturating_mul(at(extents));
            target_stride = target_stride.saturating_mul(at(&self.count));
        }
        loop {
            run(source, target, length)?;
            let mut inner = around.iter_mut();
            loop {
                let Some(axis) = inner.next() else {
                    return Ok(());
                };
                axis.at = axis.at.saturating_add(1);
                if axis.at < axis.count {
                    source = source.saturating_add(axis.source);
                    target = target.saturating_add(axis.target);
                    break;
                }
                let back = axis.count.saturating_sub(1);
                source = source.saturating_sub(back.saturating_mul(axis.source));
                target = target.saturating_sub(back.saturating_mul(axis.target));
                axis.at = 0;
            }
        }
    }
}

/// An axis along which runs repeat: how often, how far apart on either side, and where they are.
struct Axis {
    count: u64,
    source: u64,
    target: u64,
    at: u64,
}

/// The grid of chunks that covers an array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Grid {
    shape: Vec<u64>,
    chunk: Vec<u64>,
    counts: Vec<u64>,
}

impl Grid {
    pub(crate) fn new(shape: &[u64], chunk: &[u64]) -> Result<Self> {
        if shape.len() > MAX_RANK {
            return Err(ArrayError::TooLarge {
                what: "rank",
                found: u64_len(shape.len()),
                allowed: u64_len(MAX_RANK),
            });
        }
        if shape.len() != chunk.len() {
            return Err(ArrayError::argument(format!(
                "a shape of {} axes and chunks of {}",
                shape.len(),
                chunk.len()
            )));
        }
        if chunk.contains(&0) {
            return Err(ArrayError::argument(format!("chunks of {chunk:?} have no elements")));
        }
        let counts: Vec<u64> =
            shape.iter().zip(chunk).map(|(extent, chunk)| extent.div_ceil(*chunk)).collect();
        if product(&counts).is_none() {
            return Err(ArrayError::argument(format!(
                "shape {shape:?} in chunks of {chunk:?} makes 2^63 chunks or more"
            )));
        }
        Ok(Self { shape: shape.to_vec(), chunk: chunk.to_vec(), counts })
    }

    /// Chunks in all.
    pub(crate) fn total(&self) -> u64 {
        product(&self.counts).unwrap_or(0)
    }

    /// The row-major number of the chunk at these coordinates, if the grid has it.
    pub(crate) fn number(&self, coordinates: &[u64]) -> Option<u64> {
        let mut number = 0_u64;
        for (coordinate, count) in coordinates.iter().zip(&self.counts) {
            if coordinate >= count {
                return None;
            }
            number = number.checked_mul(*count)?.checked_add(*coordinate)?;
        }
        Some(number)
    }

    /// The coordinates of a chunk, if the grid has it.
    pub(crate) fn coordinates(&self, number: u64) -> Option<Vec<u64>> {
        if number >= self.total() {
            return None;
        }
        let mut rest = number;
        let mut coordinates = vec![0; self.counts.len()];
        for (slot, count) in coordinates.iter_mut().zip(&self.counts).rev() {
            *slot = rest.checked_rem(*count)?;
            rest = rest.checked_div(*count)?;
        }
        Some(coordinates)
    }

    /// Where a chunk begins.
    pub(crate) fn origin(&self, coordinates: &[u64]) -> Vec<u64> {
        let pairs = coordinates.iter().zip(&self.chunk);
        pairs.map(|(coordinate, chunk)| coordinate.saturating_mul(*chunk)).collect()
    }

    /// How far a chunk reaches: chunks at the edge are cut.
    pub(crate) fn extents(&self, coordinates: &[u64]) -> Vec<u64> {
        let origin = self.origin(coordinates);
        let axes = origin.iter().zip(&self.chunk).zip(&self.shape);
        axes.map(|((origin, chunk), extent)| extent.saturating_sub(*origin).min(*chunk)).collect()
    }

    /// The coordinates of the chunks that hold selected elements, row-major.
    pub(crate) fn touched(&self, selection: &Selection) -> Result<Vec<Vec<u64>>> {
        // Whatever the other axes have: of an array without elements no chunk is wanted.
        if selection.count.contains(&0) {
            return Ok(Vec::new());
        }
        let mut ranges = Vec::with_capacity(self.shape.len());
        for (axis, chunk) in self.chunk.iter().enumerate() {
            let at = |values: &[u64]| values.get(axis).copied().unwrap_or(0);
            let (start, count, step) =
                (at(&selection.start), at(&selection.count), at(&selection.step));
            let Some(last) = count.checked_sub(1) else {
                return Ok(Vec::new());
            };
            let end = start.saturating_add(last.saturating_mul(step));
            let (first, last) = (start.checked_div(*chunk), end.checked_div(*chunk));
            let (first, last) = (first.unwrap_or(0), last.unwrap_or(0));
            // Steps wider than a chunk leave whole chunks out.
            let mut along: Vec<u64> = Vec::new();
            if step > *chunk {
                if count > MAX_TOUCHED {
                    return Err(too_many(count));
                }
                along.extend((0..count).filter_map(|k| {
                    start.saturating_add(k.saturating_mul(step)).checked_div(*chunk)
                }));
                along.dedup();
            } else {
                let count = last.saturating_sub(first).saturating_add(1);
                if count > MAX_TOUCHED {
                    return Err(too_many(count));
                }
                along.extend(first..=last);
            }
            ranges.push(along);
        }
        let counts: Vec<u64> = ranges.iter().map(|along| u64_len(along.len())).collect();
        let total = product(&counts).unwrap_or(u64::MAX);
        if total > MAX_TOUCHED {
            return Err(too_many(total));
        }
        let mut all = vec![Vec::with_capacity(self.shape.len())];
        for along in &ranges {
            let mut wider = Vec::with_capacity(all.len().saturating_mul(along.len()));
            for prefix in &all {
                for coordinate in along {
                    let mut next: Vec<u64> = prefix.clone();
                    next.push(*coordinate);
                    wider.push(next);
                }
            }
            all = wider;
        }
        Ok(all)
    }
}

/// Chunks that one call may touch; a call on more is to be split.
const MAX_TOUCHED: u64 = 1 << 24;

fn too_many(found: u64) -> ArrayError {
    ArrayError::TooLarge { what: "number of chunks in one call", found, allowed: MAX_TOUCHED }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pairs of positions, element by element.
    #[expect(clippy::arithmetic_side_effects, reason = "small numbers of a test")]
    fn pairs(
        selection: &Selection,
        origin: &[u64],
        extents: &[u64],
        visible: &[u64],
    ) -> Vec<(u64, u64)> {
        let mut pairs = Vec::new();
        for number in 0..selection.elements().unwrap() {
            let mut rest = number;
            let (mut source, mut stride, mut inside) = (0_u64, 1_u64, true);
            for axis in (0..extents.len()).rev() {
                let k = rest % selection.count[axis];
                rest /= selection.count[axis];
                let at = selection.start[axis] + k * selection.step[axis];
                inside &= at >= origin[axis] && at < origin[axis] + visible[axis];
                // Of a place before the box this is no number, and is not looked at.
                let step = at.wrapping_sub(origin[axis]).wrapping_mul(stride);
                source = source.wrapping_add(step);
                stride *= extents[axis];
            }
            if inside {
                pairs.push((source, number));
            }
        }
        pairs
    }

    #[test]
    fn runs_are_what_going_element_by_element_gives_and_as_long_as_they_can_be() {
        let mut state = 5_u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        for _ in 0..2000 {
            let rank = usize::try_from(random(4)).unwrap();
            let mut values = |least: u64, below: u64| -> Vec<u64> {
                (0..rank).map(|_| least + random(below)).collect()
            };
            let (origin, extents) = (values(0, 4), values(1, 4));
            let cut = values(0, 3);
            let visible: Vec<u64> = extents
                .iter()
                .zip(cut)
                .map(|(extent, cut)| extent.saturating_sub(cut / 2))
                .collect();
            let selection =
                Selection { start: values(0, 5), count: values(1, 5), step: values(1, 2) };
            let expected = pairs(&selection, &origin, &extents, &visible);
            let mut found = Vec::new();
            let run = |source: u64, target: u64, length: u64| {
                found.extend((0..length).map(|at| (source + at, target + at)));
                Ok(())
            };
            selection.runs(&origin, &extents, &visible, run).unwrap();
            assert_eq!(found, expected, "{selection:?} {origin:?} {extents:?} {visible:?}");
        }
        let mut runs = 0;
        let all = Selection::whole(&[6, 4, 5]);
        let count = |_: u64, _: u64, length: u64| {
            runs += length;
            assert_eq!(length, 40);
            Ok(())
        };
        all.runs(&[2, 0, 0], &[2, 4, 5], &[2, 4, 5], count).unwrap();
        assert_eq!(runs, 40);
    }

    #[test]
    fn numbers_and_coordinates_are_inverse_and_end_with_the_grid() {
        let grid = Grid::new(&[5, 7, 3], &[2, 3, 3]).unwrap();
        assert_eq!(grid.total(), 9);
        for number in 0..9 {
            let coordinates = grid.coordinates(number).unwrap();
            assert_eq!(grid.number(&coordinates), Some(number));
        }
        assert_eq!(grid.coordinates(9), None);
        assert_eq!(grid.number(&[3, 0, 0]), None);
        assert_eq!(grid.extents(&[2, 2, 0]), [1, 1, 3]);
    }

    #[test]
    fn a_scalar_is_one_chunk_and_an_empty_axis_none() {
        assert_eq!(Grid::new(&[], &[]).unwrap().total(), 1);
        assert_eq!(Grid::new(&[u64::MAX, 0], &[1, 1]).unwrap().total(), 0);
        assert!(Grid::new(&[1 << 32, 1 << 31], &[1, 1]).is_err());
        assert!(Grid::new(&[u64::MAX], &[u64::MAX]).is_ok());
    }

    #[test]
    fn boxes_past_the_end_are_refused_without_wrapping() {
        let error = Selection::new("a", &[10], &[u64::MAX], &[2], None).unwrap_err();
        assert!(matches!(error, ArrayError::OutOfBounds { axis: 0, .. }));
        assert!(Selection::new("a", &[10], &[10], &[0], None).is_ok());
        assert!(Selection::new("a", &[10], &[9], &[2], None).is_err());
        assert!(Selection::new("a", &[10], &[0], &[4], Some(&[3])).is_ok());
        assert!(Selection::new("a", &[10], &[0], &[5], Some(&[3])).is_err());
        assert!(Selection::new("a", &[10], &[0], &[2], Some(&[0])).is_err());
    }

    #[test]
    fn of_no_elements_no_chunk_is_wanted_whatever_the_other_axes_have() {
        for shape in [[1 << 40, 0], [0, 1 << 40]] {
            let grid = Grid::new(&shape, &[1, 1]).unwrap();
            let all = Selection::new("a", &shape, &[0, 0], &shape, None).unwrap();
            assert!(grid.touched(&all).unwrap().is_empty());
        }
    }

    #[test]
    fn wide_steps_over_endless_axes_are_refused_before_they_are_listed() {
        let grid = Grid::new(&[1 << 60], &[1]).unwrap();
        let many = Selection::new("a", &[1 << 60], &[0], &[1 << 58], Some(&[4])).unwrap();
        assert!(matches!(grid.touched(&many).unwrap_err(), ArrayError::TooLarge { .. }));
    }
}
