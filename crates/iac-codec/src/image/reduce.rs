//! Area averaging, for scales that a backend has no cheaper way to.

use half::f16;

use super::{Image, ImageShape, ImageView, ImageViewMut, SamplesMut, SamplesRef, Scale};
use crate::{CodecError, Result};

/// A sample that can be averaged.
trait Averaged: Copy {
    /// Wide enough for the sum of a square of 32 x 32.
    type Sum: Copy + Default;
    fn add(sum: Self::Sum, sample: Self) -> Self::Sum;
    fn join(one: Self::Sum, other: Self::Sum) -> Self::Sum;
    fn mean(sum: Self::Sum, count: u32) -> Self;
}

macro_rules! averaged_unsigned {
    ($($type:ty),*) => {$(
        impl Averaged for $type {
            type Sum = u32;

            #[inline]
            fn add(sum: u32, sample: Self) -> u32 {
                sum.wrapping_add(u32::from(sample))
            }

            #[inline]
            fn join(one: u32, other: u32) -> u32 {
                one.wrapping_add(other)
            }

            #[inline]
            fn mean(sum: u32, count: u32) -> Self {
                let count = count.max(1);
                let rounded = sum.saturating_add(count >> 1).checked_div(count).unwrap_or(0);
                Self::try_from(rounded).unwrap_or(Self::MAX)
            }
        }
    )*};
}
averaged_unsigned!(u8, u16);

impl Averaged for i16 {
    type Sum = i64;

    #[inline]
    fn add(sum: i64, sample: Self) -> i64 {
        sum.wrapping_add(i64::from(sample))
    }

    #[inline]
    fn join(one: i64, other: i64) -> i64 {
        one.wrapping_add(other)
    }

    #[inline]
    fn mean(sum: i64, count: u32) -> Self {
        // Shifted to unsigned numbers, so that halves round the same way on both sides of 0.
        let count = i64::from(count.max(1));
        let shifted = sum.saturating_add(count.saturating_mul(32_768));
        let rounded = shifted.saturating_add(count >> 1).checked_div(count).unwrap_or(0);
        Self::try_from(rounded.saturating_sub(32_768)).unwrap_or(Self::MAX)
    }
}

impl Averaged for f32 {
    type Sum = f64;

    #[inline]
    fn add(sum: f64, sample: Self) -> f64 {
        sum + f64::from(sample)
    }

    #[inline]
    fn join(one: f64, other: f64) -> f64 {
        one + other
    }

    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "rounding to the sample's type")]
    fn mean(sum: f64, count: u32) -> Self {
        (sum / f64::from(count.max(1))) as Self
    }
}

impl Averaged for f16 {
    type Sum = f64;

    #[inline]
    fn add(sum: f64, sample: Self) -> f64 {
        sum + sample.to_f64()
    }

    #[inline]
    fn join(one: f64, other: f64) -> f64 {
        one + other
    }

    #[inline]
    fn mean(sum: f64, count: u32) -> Self {
        Self::from_f64(sum / f64::from(count.max(1)))
    }
}

/// The image at a smaller size: each pixel is the mean of a square of pixels, rounded to nearest.
/// Squares at the right and lower edge are cut there.
pub(crate) fn reduce(image: &ImageView<'_>, scale: Scale) -> Result<Image> {
    let shape = scale.apply(image.shape());
    let mut small = Image::zeroed(shape, image.sample_type(), &crate::Limits::unlimited())?;
    reduce_into("", image, scale, &mut small.as_view_mut())?;
    Ok(small)
}

/// The same into a place that has the small image's shape and type; `codec` is the name that the
/// error carries when it has not.
pub(crate) fn reduce_into(
    codec: &str,
    image: &ImageView<'_>,
    scale: Scale,
    out: &mut ImageViewMut<'_>,
) -> Result<()> {
    let wanted = scale.apply(image.shape());
    let (shape, sample_type) = (out.shape(), out.sample_type());
    if shape == wanted {
        let side = scale.denominator();
        let from = image.shape();
        match (image.samples(), out.samples_mut()) {
            (SamplesRef::U8(full), SamplesMut::U8(small)) => {
                return average(full, from, side, small);
            }
            (SamplesRef::U16(full), SamplesMut::U16(small)) => {
                return average(full, from, side, small);
            }
            (SamplesRef::I16(full), SamplesMut::I16(small)) => {
                return average(full, from, side, small);
            }
            (SamplesRef::F16(full), SamplesMut::F16(small)) => {
                return average(full, from, side, small);
            }
            (SamplesRef::F32(full), SamplesMut::F32(small)) => {
                return average(full, from, side, small);
            }
            _ => {}
        }
    }
    Err(super::view::misfit(codec, (wanted, image.sample_type()), (shape, sample_type)))
}

fn average<T: Averaged>(full: &[T], shape: ImageShape, side: u32, small: &mut [T]) -> Result<()> {
    let small_shape = shape.reduced(side);
    let channels = to_usize(shape.channels());
    let row_samples = to_usize(shape.width()).saturating_mul(channels);
    let small_row = to_usize(small_shape.width()).saturating_mul(channels);
    let side_pixels = to_usize(side);
    let square_row = side_pixels.saturating_mul(channels);
    let mut sums = Vec::new();
    sums.try_reserve_exact(row_samples).map_err(|_| CodecError::Limit {
        what: "samples",
        found: crate::codec::u64_len(row_samples),
        allowed: 0,
    })?;
    let bands = full.chunks(row_samples.saturating_mul(side_pixels).max(1));
    for (band, out) in bands.zip(small.chunks_exact_mut(small_row.max(1))) {
        // Rows are added up as a whole, which a processor does for many samples at once.
        sums.clear();
        sums.resize(row_samples, T::Sum::default());
        let mut rows = 0_u32;
        for row in band.chunks_exact(row_samples.max(1)) {
            rows = rows.saturating_add(1);
            for (sum, sample) in sums.iter_mut().zip(row) {
                *sum = T::add(*sum, *sample);
            }
        }
        let squares = sums.chunks(square_row.max(1));
        for (square, pixel) in squares.zip(out.chunks_exact_mut(channels)) {
            let width = square.len().checked_div(channels).and_then(|n| u32::try_from(n).ok());
            let count = rows.saturating_mul(width.unwrap_or(side));
            for (channel, sample) in pixel.iter_mut().enumerate() {
                let column = square.iter().skip(channel).step_by(channels.max(1));
                let sum = column.fold(T::Sum::default(), |sum, more| T::join(sum, *more));
                *sample = T::mean(sum, count);
            }
        }
    }
    Ok(())
}

/// Sides of images that are in memory fit.
fn to_usize(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Samples;

    #[test]
    fn squares_at_the_edges_are_means_of_the_pixels_that_are_there() {
        let shape = ImageShape::new(3, 5, 1).unwrap();
        let samples: Vec<u8> = (0..15).map(|n| n * 10).collect();
        let image = Image::new(shape, samples).unwrap();
        let small = reduce(&image.as_view(), Scale::Half).unwrap();
        assert_eq!(small.shape(), ImageShape::new(2, 3, 1).unwrap());
        // Rows: 0 10 20 30 40 / 50 60 70 80 90 / 100 110 120 130 140.
        assert_eq!(small.into_samples(), Samples::U8(vec![30, 50, 65, 105, 125, 140]));
    }

    #[test]
    fn channels_are_kept_apart_in_every_type() {
        let shape = ImageShape::new(2, 2, 2).unwrap();
        let small = ImageShape::new(1, 1, 2).unwrap();
        let cases = [
            (Samples::U8(vec![0, 255, 1, 255, 1, 255, 1, 255]), Samples::U8(vec![1, 255])),
            (
                Samples::U16(vec![0, 65535, 0, 65535, 0, 65535, 1, 65535]),
                Samples::U16(vec![0, 65535]),
            ),
            (
                Samples::I16(vec![-32768, 1, -32768, -1, -32768, 1, -32768, -1]),
                Samples::I16(vec![-32768, 0]),
            ),
            (
                Samples::F32(vec![0.5, 4.0, 0.5, 0.0, 0.5, 0.0, 0.5, 0.0]),
                Samples::F32(vec![0.5, 1.0]),
            ),
        ];
        for (samples, expected) in cases {
            let image = Image::new(shape, samples).unwrap();
            let reduced = reduce(&image.as_view(), Scale::Half).unwrap();
            assert_eq!(reduced, Image::new(small, expected).unwrap());
        }
        let half: Vec<f16> = [1.0, 2.0, 3.0, 2.0, 1.0, 2.0, 3.0, 2.0].map(f16::from_f32).to_vec();
        let image = Image::new(shape, half).unwrap();
        let expected: Vec<f16> = [2.0, 2.0].map(f16::from_f32).to_vec();
        assert_eq!(
            reduce(&image.as_view(), Scale::Half).unwrap(),
            Image::new(small, expected).unwrap()
        );
    }

    #[test]
    fn every_scale_has_the_shape_that_it_names_and_keeps_a_constant() {
        for (height, width) in [(1, 1), (33, 31), (64, 100), (7, 257)] {
            let shape = ImageShape::new(height, width, 3).unwrap();
            let image = Image::new(shape, vec![77_u8; shape.samples()]).unwrap();
            for scale in Scale::ALL {
                let small = reduce(&image.as_view(), scale).unwrap();
                assert_eq!(small.shape(), scale.apply(shape));
                assert_eq!(small.shape().height(), height.div_ceil(scale.denominator()));
                assert_eq!(
                    small.into_samples(),
                    Samples::U8(vec![77; scale.apply(shape).samples()])
                );
            }
        }
    }
}
