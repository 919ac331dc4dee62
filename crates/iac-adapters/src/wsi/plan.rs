//! Which pixels of a raster each pixel of a region covers, and with what weight.
//!
//! The arithmetic is that of the reference, operation by operation: products and sums are rounded
//! where it rounds them.

use std::ops::Range;

/// Pixels in front of or behind the raster that are added up one by one, as the reference does.
/// Beyond, they are added at once: the sum then differs by rounding alone.
pub(crate) const ONE_BY_ONE: u64 = 4096;

/// Pixels of the raster for one of a region beyond which any raster vanishes in it.
const COARSEST: f64 = 4_611_686_018_427_387_904.0;

/// What one pixel of a region covers along one axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Span {
    /// Pixels of the raster, clipped to it; empty when the span lies outside.
    pub(crate) first: u64,
    pub(crate) end: u64,
    /// Pixels in front of the raster.
    pub(crate) before: u64,
    /// Pixels behind it.
    pub(crate) after: u64,
    /// The weight of the first pixel, wherever that is.
    pub(crate) first_weight: f64,
    /// The weight of the last one; that of the first where there is one alone. Those in between
    /// have 1.
    pub(crate) last_weight: f64,
    /// How the colour changes within the two pixels that are cut, as far as their neighbours tell:
    /// what these get. 0 in exact regions, whose pixels are of one colour each.
    pub(crate) slopes: (f64, f64),
}

impl Span {
    /// Whether any pixel of the raster is covered.
    pub(crate) const fn is_inside(&self) -> bool {
        self.first < self.end
    }

    /// Pixels inside of the raster.
    pub(crate) const fn inside(&self) -> u64 {
        self.end.saturating_sub(self.first)
    }

    /// All pixels that it covers, without neighbours that count because of slopes.
    pub(crate) fn count(&self) -> u64 {
        let neighbours =
            u64::from(self.slopes.0 != 0.0).saturating_add(u64::from(self.slopes.1 != 0.0));
        let inside = self.inside().saturating_sub(neighbours);
        self.before.saturating_add(inside).saturating_add(self.after)
    }

    /// Whether neighbours of the cut pixels count.
    pub(crate) const fn is_soft(&self) -> bool {
        self.slopes.0 != 0.0 || self.slopes.1 != 0.0
    }

    /// The weight of a pixel inside of the raster.
    pub(crate) fn weight(&self, at: u64) -> f64 {
        if !self.is_soft() {
            return self.plain_weight(at);
        }
        // The span reaches one pixel further on each side that has a slope.
        let (left, right) = self.slopes;
        let core = Self {
            first: self.first.saturating_add(u64::from(left != 0.0)),
            end: self.end.saturating_sub(u64::from(right != 0.0)),
            ..*self
        };
        let mut weight =
            if (core.first..core.end).contains(&at) { core.plain_weight(at) } else { 0.0 };
        if at.saturating_add(1) == core.first {
            weight -= left;
        }
        if at == core.first.saturating_add(1) {
            weight += left;
        }
        if at == core.end {
            weight -= right;
        }
        if at.saturating_add(2) == core.end {
            weight += right;
        }
        weight
    }

    /// The span with slopes, where it lies inside of the raster with its neighbours.
    fn softened(self, size: u64) -> Self {
        if self.before > 0 || self.after > 0 || self.inside() < 2 {
            return self;
        }
        let slope = |weight: f64| weight * (1.0 - weight) / 4.0;
        let left = if self.first > 0 { slope(self.first_weight) } else { 0.0 };
        let right = if self.end < size { slope(self.last_weight) } else { 0.0 };
        Self {
            first: self.first.saturating_sub(u64::from(left != 0.0)),
            end: self.end.saturating_add(u64::from(right != 0.0)),
            slopes: (left, right),
            ..self
        }
    }

    const fn plain_weight(&self, at: u64) -> f64 {
        if at == self.first && self.before == 0 {
            self.first_weight
        } else if at.saturating_add(1) == self.end && self.after == 0 {
            self.last_weight
        } else {
            1.0
        }
    }
}

/// One axis of a region.
#[derive(Debug, Clone)]
pub(crate) struct Axis {
    /// One for each pixel of the region.
    pub(crate) spans: Vec<Span>,
    /// Pixels of the raster for each pixel of the region.
    pub(crate) step: f64,
    /// Whether every edge lies between two pixels, so that all weights are 1.
    pub(crate) integral: bool,
    /// Pixels of the raster that the region covers, clipped to it. Rounding may give the last span
    /// one pixel more, which then counts as background.
    pub(crate) covered: Range<u64>,
    /// Spans that cover any pixel of the raster.
    pub(crate) inside: Range<usize>,
}

impl Axis {
    /// The axis from `start` on, in pixels of a raster of `size`, with `count` steps of `step`.
    pub(crate) fn new(start: f64, step: f64, count: u32, size: u64) -> Self {
        let length = super::schema::as_f64(size);
        let end = start + f64::from(count) * step;
        let nothing = Span {
            first: 0,
            end: 0,
            before: 1,
            after: 0,
            first_weight: 1.0,
            last_weight: 1.0,
            slopes: (0.0, 0.0),
        };
        // Not a number, or out of reach: background alone.
        let reaches = start < length && end > 0.0 && step < COARSEST && start > f64::MIN;
        let covered = if reaches { floor(start.max(0.0))..ceil(end.min(length)) } else { 0..0 };
        let spans: Vec<Span> = (0..count)
            .map(|at| {
                if !reaches {
                    return nothing;
                }
                let left = start + f64::from(at) * step;
                let right = left + step;
                span(left, right, length).unwrap_or(nothing)
            })
            .collect();
        let first = spans.iter().position(Span::is_inside).unwrap_or(0);
        let last = spans.iter().rposition(Span::is_inside).map_or(0, |last| last.saturating_add(1));
        let limit = super::schema::as_f64(1 << 52);
        let integral =
            start.fract() == 0.0 && step.fract() == 0.0 && start.abs() < limit && end.abs() < limit;
        Self { spans, step, integral, covered, inside: first..last.max(first) }
    }
}

impl Axis {
    /// The same with pixels that are cut taken as sloped, for rasters that are averages themselves.
    pub(crate) fn softened(mut self, size: u64) -> Self {
        if !self.integral {
            for span in &mut self.spans {
                *span = span.softened(size);
            }
            let covered = |at: u64| at.saturating_add(1).min(size);
            self.covered = self.covered.start.saturating_sub(1)..covered(self.covered.end);
        }
        self
    }
}

/// The span between two edges; nothing when it lies outside of the raster.
fn span(left: f64, right: f64, length: f64) -> Option<Span> {
    let (low, high) = (left.floor(), right.ceil());
    let (first, end) = (low.max(0.0), high.min(length));
    if first >= end || left.is_nan() || right.is_nan() {
        return None;
    }
    let weight = |at: f64| (right.min(at + 1.0) - left.max(at)).max(0.0);
    Some(Span {
        first: floor(first),
        end: floor(end),
        before: floor(first - low),
        after: floor(high - end),
        first_weight: weight(low),
        last_weight: weight(high - 1.0),
        slopes: (0.0, 0.0),
    })
}

/// A number that is not negative as an integer; numbers out of range become the nearest one.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturating is meant")]
fn floor(number: f64) -> u64 {
    number as u64
}

fn ceil(number: f64) -> u64 {
    floor(number.ceil())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_of_a_span_add_up_to_the_step() {
        let axis = Axis::new(-2.3, 3.7, 20, 50);
        for span in
            axis.spans.iter().filter(|span| span.is_inside() && span.before + span.after == 0)
        {
            let sum: f64 = (span.first..span.end).map(|at| span.weight(at)).sum();
            assert!((sum - 3.7).abs() < 1e-9, "{span:?}");
        }
        assert_eq!(axis.inside, 0..15);
        assert_eq!(axis.spans[0].before, 3);
        assert!(!axis.integral);
    }

    #[test]
    fn sloped_weights_keep_their_sum_and_follow_a_ramp() {
        let axis = Axis::new(2.3, 3.7, 10, 50).softened(50);
        for (at, span) in axis.spans.iter().enumerate() {
            let weights = (span.first..span.end).map(|pixel| (pixel as f64, span.weight(pixel)));
            let (sum, ramp) = weights
                .fold((0.0, 0.0), |(sum, ramp), (pixel, w)| (sum + w, ramp + w * (pixel + 0.5)));
            assert!((sum - 3.7).abs() < 1e-9, "{span:?}");
            let middle = 2.3 + 3.7 * (at as f64 + 0.5);
            assert!((ramp / sum - middle).abs() < 1e-9, "{span:?} {}", ramp / sum);
        }
    }

    #[test]
    fn places_out_of_reach_are_outside() {
        for (start, step) in [
            (1e300, 1.0),
            (-1e300, 1.0),
            (f64::INFINITY, 1.0),
            (f64::NEG_INFINITY, 1.0),
            (f64::NAN, 1.0),
            (0.0, f64::INFINITY),
            (1e17, 8.0),
            (-1e17, 8.0),
        ] {
            let axis = Axis::new(start, step, 5, 1000);
            assert!(axis.inside.is_empty(), "{start} {step}");
            assert!(axis.covered.is_empty());
        }
    }

    #[test]
    fn a_step_larger_than_the_raster_counts_what_lies_outside() {
        let axis = Axis::new(-1e9, 3e9, 1, 100);
        let span = axis.spans[0];
        assert_eq!((span.first, span.end), (0, 100));
        assert_eq!((span.before, span.after), (1_000_000_000, 1_999_999_900));
    }

    #[test]
    fn whole_steps_from_a_whole_place_are_integral() {
        assert!(Axis::new(-8.0, 4.0, 10, 100).integral);
        assert!(!Axis::new(-8.5, 4.0, 10, 100).integral);
        assert!(!Axis::new(-8.0, 4.25, 10, 100).integral);
    }
}
