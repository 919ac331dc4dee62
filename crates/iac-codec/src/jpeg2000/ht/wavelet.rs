//! The forward wavelet transforms (ITU-T T.800, annex F), reversible 5/3 and irreversible 9/7.
//!
//! Bands are laid out as the transform halves the image: the low half before the high half in
//! each direction, the lowest resolution in the upper left corner.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    reason = "coefficients stay far below 2^31, and all sizes are those of the plane"
)]

/// One component's samples or coefficients, in rows without gaps.
pub(super) struct Plane<T> {
    pub(super) samples: Vec<T>,
    pub(super) width: usize,
    pub(super) height: usize,
}

/// A number that a transform works on.
pub(super) trait Lift: Copy + Default {
    /// Transforms the rows of a column-wise pass: `rows` has `height` rows of `width` numbers
    /// that lie `stride` apart; `out` receives the low rows, then the high rows, without gaps.
    fn columns(rows: &[Self], out: &mut [Self], width: usize, height: usize, stride: usize);
    /// Transforms one row; `out` receives the low half, then the high half.
    fn row(row: &[Self], out: &mut [Self]);
}

/// Halves the resolution so many times.
pub(super) fn forward<T: Lift>(plane: &mut Plane<T>, levels: u32) {
    let stride = plane.width;
    let (mut width, mut height) = (plane.width, plane.height);
    let mut halves = vec![T::default(); width * height];
    for _ in 0..levels {
        let halves = &mut halves[..width * height];
        T::columns(&plane.samples, halves, width, height, stride);
        for (from, to) in halves.chunks_exact(width).zip(plane.samples.chunks_mut(stride)) {
            T::row(from, &mut to[..width]);
        }
        width = width.div_ceil(2);
        height = height.div_ceil(2);
    }
}

/// The places before and after in a half, mirrored at the ends.
fn neighbours(at: usize, count: usize) -> (usize, usize) {
    (at.saturating_sub(1).min(count - 1), at.min(count - 1))
}

impl Lift for i32 {
    fn columns(rows: &[Self], out: &mut [Self], width: usize, height: usize, stride: usize) {
        let low = height.div_ceil(2);
        let high = height - low;
        let source = |y: usize| &rows[y * stride..y * stride + width];
        if high == 0 {
            out[..width].copy_from_slice(source(0));
            return;
        }
        let (lows, highs) = out.split_at_mut(low * width);
        for n in 0..high {
            let before = source(2 * n);
            let after = source(if 2 * n + 2 < height { 2 * n + 2 } else { 2 * n });
            let to = &mut highs[n * width..][..width];
            for (((to, here), a), b) in to.iter_mut().zip(source(2 * n + 1)).zip(before).zip(after)
            {
                *to = here - ((a + b) >> 1);
            }
        }
        for n in 0..low {
            let (before, after) = neighbours(n, high);
            let (a, b) = (&highs[before * width..][..width], &highs[after * width..][..width]);
            let to = &mut lows[n * width..][..width];
            for (((to, here), a), b) in to.iter_mut().zip(source(2 * n)).zip(a).zip(b) {
                *to = here + ((a + b + 2) >> 2);
            }
        }
    }

    fn row(row: &[Self], out: &mut [Self]) {
        let low = row.len().div_ceil(2);
        let (lows, highs) = out.split_at_mut(low);
        let Some(last) = highs.len().checked_sub(1) else {
            lows.copy_from_slice(row);
            return;
        };
        for (to, three) in highs.iter_mut().zip(row.windows(3).step_by(2)) {
            *to = three[1] - ((three[0] + three[2]) >> 1);
        }
        if row.len().is_multiple_of(2) {
            highs[last] = row[2 * last + 1] - row[2 * last];
        }
        lows[0] = row[0] + ((2 * highs[0] + 2) >> 2);
        for ((to, two), here) in
            lows[1..].iter_mut().zip(highs.windows(2)).zip(row[2..].iter().step_by(2))
        {
            *to = here + ((two[0] + two[1] + 2) >> 2);
        }
        if !row.len().is_multiple_of(2) {
            lows[low - 1] = row[row.len() - 1] + ((2 * highs[last] + 2) >> 2);
        }
    }
}

const ALPHA: f32 = -1.586_134_3;
const BETA: f32 = -0.052_980_12;
const GAMMA: f32 = 0.882_911_1;
const DELTA: f32 = 0.443_506_85;
const K: f32 = 1.230_174_1;

impl Lift for f32 {
    fn columns(rows: &[Self], out: &mut [Self], width: usize, height: usize, stride: usize) {
        let low = height.div_ceil(2);
        let high = height - low;
        let (lows, highs) = out.split_at_mut(low * width);
        for (y, row) in rows.chunks(stride).take(height).enumerate() {
            let half = if y % 2 == 0 { &mut *lows } else { &mut *highs };
            half[y / 2 * width..][..width].copy_from_slice(&row[..width]);
        }
        if high == 0 {
            return;
        }
        for (odd, factor) in [(true, ALPHA), (false, BETA), (true, GAMMA), (false, DELTA)] {
            let (to, from, count) =
                if odd { (&mut *highs, &*lows, high) } else { (&mut *lows, &*highs, low) };
            for n in 0..count {
                let (before, after) =
                    if odd { (n, (n + 1).min(low - 1)) } else { neighbours(n, high) };
                let (a, b) = (&from[before * width..][..width], &from[after * width..][..width]);
                for ((to, a), b) in to[n * width..][..width].iter_mut().zip(a).zip(b) {
                    *to += factor * (a + b);
                }
            }
        }
        lows.iter_mut().for_each(|low| *low *= 1.0 / K);
        highs.iter_mut().for_each(|high| *high *= K);
    }

    fn row(row: &[Self], out: &mut [Self]) {
        let low = row.len().div_ceil(2);
        let (lows, highs) = out.split_at_mut(low);
        for (to, from) in lows.iter_mut().zip(row.iter().step_by(2)) {
            *to = *from;
        }
        for (to, from) in highs.iter_mut().zip(row.iter().skip(1).step_by(2)) {
            *to = *from;
        }
        if highs.is_empty() {
            return;
        }
        odd_step(highs, lows, ALPHA);
        even_step(lows, highs, BETA);
        odd_step(highs, lows, GAMMA);
        even_step(lows, highs, DELTA);
        lows.iter_mut().for_each(|low| *low *= 1.0 / K);
        highs.iter_mut().for_each(|high| *high *= K);
    }
}

fn odd_step(highs: &mut [f32], lows: &[f32], factor: f32) {
    for (high, two) in highs.iter_mut().zip(lows.windows(2)) {
        *high += factor * (two[0] + two[1]);
    }
    if highs.len() == lows.len() {
        let last = highs.len() - 1;
        highs[last] += factor * 2.0 * lows[last];
    }
}

fn even_step(lows: &mut [f32], highs: &[f32], factor: f32) {
    lows[0] += factor * 2.0 * highs[0];
    for (low, two) in lows[1..].iter_mut().zip(highs.windows(2)) {
        *low += factor * (two[0] + two[1]);
    }
    if lows.len() > highs.len() && lows.len() > 1 {
        let last = lows.len() - 1;
        lows[last] += factor * 2.0 * highs[last - 1];
    }
}

/// Norms of the 9/7 synthesis filters in one direction, low and high, after 1, 2, ... levels.
const NORMS: [(f64, f64); 8] = [
    (1.402_108, 0.721_261),
    (2.030_372, 0.983_471),
    (2.901_163, 1.441_962),
    (4.115_285, 2.073_760),
    (5.824_511, 2.947_325),
    (8.238_760, 4.173_589),
    (11.651_955, 5.904_302),
    (16.478_561, 8.350_639),
];

/// The norm of a band's synthesis function after so many levels (from 1 on), for each direction
/// low or high.
pub(super) fn norm(level: u32, high_across: bool, high_down: bool) -> f64 {
    if level == 0 {
        return 1.0;
    }
    let at = usize::try_from(level).unwrap_or(usize::MAX);
    let last = NORMS.len();
    // From there on each level multiplies the norm by the square root of 2.
    let beyond = i32::try_from(at.saturating_sub(last)).unwrap_or(i32::MAX);
    let (low, high) = NORMS[at.min(last) - 1];
    let side = |is_high: bool| if is_high { high } else { low };
    side(high_across) * side(high_down) * 2_f64.powi(beyond)
}
