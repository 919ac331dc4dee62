//! Averaging areas, bit for bit as the format's specification says.
//!
//! Sums are formed in doubles in the order of rows and columns. Where every weight is 1 the sums
//! are integers, which no order changes: then whole columns are added first.

use super::plan::{Axis, ONE_BY_ONE, Span};

/// A sum of a pixel's colours.
pub(crate) type Sum = [f64; 3];

/// Adds a row of pixels, which begin at column `start` of the raster, to the sums of spans. No row
/// stands for one outside of the raster.
pub(crate) fn add_row(
    line: Option<&[u8]>,
    start: u64,
    spans: &[Span],
    weight: f64,
    background: &Sum,
    sums: &mut [Sum],
) {
    for (span, sum) in spans.iter().zip(sums) {
        match line {
            Some(line) => {
                let at = |column: u64| {
                    usize::try_from(column.saturating_sub(start)).unwrap_or(usize::MAX)
                };
                let from = at(span.first).saturating_mul(3);
                let to = at(span.end).saturating_mul(3);
                let pixels = line.get(from..to).unwrap_or_default();
                add_span(pixels.as_chunks::<3>().0, span, weight, background, sum);
            }
            None => {
                let all = span.count();
                add(sum, background, span.first_weight * weight);
                if all > 1 {
                    add_many(sum, background, weight, all.saturating_sub(2));
                    add(sum, background, span.last_weight * weight);
                }
            }
        }
    }
}

fn add_span(pixels: &[[u8; 3]], span: &Span, weight: f64, background: &Sum, sum: &mut Sum) {
    let mut own = *sum;
    if span.is_soft() {
        for (at, pixel) in (span.first..span.end).zip(pixels) {
            add(&mut own, &pixel.map(f64::from), span.weight(at) * weight);
        }
        *sum = own;
        return;
    }
    let mut pixels = pixels;
    if span.before > 0 {
        add(&mut own, background, span.first_weight * weight);
        add_many(&mut own, background, weight, span.before.saturating_sub(1));
    } else if let [first, rest @ ..] = pixels {
        add(&mut own, &first.map(f64::from), span.first_weight * weight);
        pixels = rest;
    }
    let last = match pixels {
        [rest @ .., last] if span.after == 0 => {
            pixels = rest;
            Some(last)
        }
        _ => None,
    };
    if weight == 1.0 {
        for pixel in pixels {
            for (sum, value) in own.iter_mut().zip(pixel) {
                *sum += f64::from(*value);
            }
        }
    } else {
        for pixel in pixels {
            for (sum, value) in own.iter_mut().zip(pixel) {
                *sum += f64::from(*value) * weight;
            }
        }
    }
    if let Some(last) = last {
        add(&mut own, &last.map(f64::from), span.last_weight * weight);
    }
    if span.after > 0 {
        add_many(&mut own, background, weight, span.after.saturating_sub(1));
        add(&mut own, background, span.last_weight * weight);
    }
    *sum = own;
}

fn add(sum: &mut Sum, color: &Sum, weight: f64) {
    for (sum, value) in sum.iter_mut().zip(color) {
        *sum += value * weight;
    }
}

/// Adds a colour many times.
fn add_many(sum: &mut Sum, color: &Sum, weight: f64, times: u64) {
    if times > ONE_BY_ONE {
        add(sum, color, weight * super::schema::as_f64(times));
        return;
    }
    for _ in 0..times {
        add(sum, color, weight);
    }
}

/// Adds rows outside of the raster, whose weight is 1.
pub(crate) fn add_outside_rows(spans: &[Span], times: u64, background: &Sum, sums: &mut [Sum]) {
    if times > ONE_BY_ONE {
        add_row(None, 0, spans, super::schema::as_f64(times), background, sums);
        return;
    }
    for _ in 0..times {
        add_row(None, 0, spans, 1.0, background, sums);
    }
}

/// The average from a sum: nominal area, clamped, halves to even.
#[inline]
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped before")]
pub(crate) fn average(sum: f64, area: f64) -> u8 {
    (sum / area).clamp(0.0, 255.0).round_ties_even() as u8
}

/// Adds a row of bytes to sums of columns.
pub(crate) fn add_columns(line: &[u8], sums: &mut [u32]) {
    for (sum, value) in sums.iter_mut().zip(line) {
        *sum = sum.wrapping_add(u32::from(*value));
    }
}

/// Whether sums of whole columns can be formed: all weights are 1, and no sum overflows.
pub(crate) fn is_whole(x: &Axis, y: &Axis) -> bool {
    x.integral && y.integral && x.step * y.step <= f64::from(1_u32 << 24)
}

/// Averages of spans from sums of columns that begin at column `start` of the raster. `rows` of the
/// step's rows lie inside of the raster.
pub(crate) fn average_columns(
    sums: &[u32],
    start: u64,
    spans: &[Span],
    (rows, all_rows): (u64, u64),
    area: f64,
    background: [u8; 3],
    out: &mut [u8],
) {
    for (span, out) in spans.iter().zip(out.as_chunks_mut::<3>().0) {
        let at = |column: u64| usize::try_from(column.saturating_sub(start)).unwrap_or(usize::MAX);
        let from = at(span.first).saturating_mul(3);
        let to = at(span.end).saturating_mul(3);
        let columns = sums.get(from..to).unwrap_or_default();
        let mut total = [0_u64; 3];
        for column in columns.as_chunks::<3>().0 {
            for (total, sum) in total.iter_mut().zip(column) {
                *total = total.wrapping_add(u64::from(*sum));
            }
        }
        let outside = all_rows
            .saturating_mul(span.count())
            .saturating_sub(rows.saturating_mul(span.inside()));
        for ((out, total), color) in out.iter_mut().zip(total).zip(background) {
            let sum = total.saturating_add(outside.saturating_mul(color.into()));
            *out = average(super::schema::as_f64(sum), area);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_go_to_the_even_number() {
        assert_eq!(
            [0.5, 1.5, 2.5, 254.5, 300.0, -3.0].map(|sum| average(sum, 1.0)),
            [0, 2, 2, 254, 255, 0]
        );
    }

    #[test]
    fn rows_outside_weigh_as_much_under_sloped_spans() {
        let axis = Axis::new(2.3, 3.7, 10, 50).softened(50);
        let mut sums = vec![[0.0; 3]; axis.spans.len()];
        add_row(None, 0, &axis.spans, 0.5, &[10.0; 3], &mut sums);
        assert!(sums.iter().all(|sum| (sum[0] - 10.0 * 3.7 * 0.5).abs() < 1e-9), "{sums:?}");
    }

    #[test]
    fn much_background_at_once_is_what_it_is_one_by_one() {
        let axis = Axis::new(-9000.0, 18_100.0, 1, 100);
        let span = axis.spans[0];
        let line = vec![200_u8; 300];
        let mut sums = [[0.0; 3]];
        add_row(Some(&line), 0, &axis.spans, 1.0, &[10.0; 3], &mut sums);
        assert_eq!(span.before, 9000);
        assert_eq!(sums[0], [200.0 * 100.0 + 10.0 * 18_000.0; 3]);
        let mut outside = [[0.0; 3]];
        add_row(None, 0, &axis.spans, 0.5, &[10.0; 3], &mut outside);
        assert_eq!(outside[0], [10.0 * 18_100.0 * 0.5; 3]);
    }
}
