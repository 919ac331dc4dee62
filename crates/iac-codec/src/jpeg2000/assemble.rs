//! From the planes of components to pixels: subsampling, palettes, channel order, luma and colour
//! differences.

use super::codestream::{Area, Component};
use super::jp2::{self, Color, File, Mapped, Palette};
use super::native::Plane;
use super::{damaged, unsupported};
use crate::{ColorHandling, ImageInfo, ImageShape, Result, SampleType, SamplesMut};

/// How planes become an image.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) info: ImageInfo,
    channels: Vec<Mapped>,
    /// Bits of the luma channel when the first three channels are luma and colour differences.
    differences: Option<u8>,
}

impl Plan {
    /// Plans the image of an area of the reference grid.
    pub(super) fn new(
        file: &File<'_>,
        components: &[Component],
        area: Area,
        color: ColorHandling,
    ) -> Result<Self> {
        let stored: Vec<Mapped> = (0..components.len()).map(Mapped::Component).collect();
        let mut differences = None;
        let channels = match color {
            ColorHandling::Stored => stored,
            ColorHandling::Interpreted => {
                let mapped = if file.mapping.is_empty() { stored } else { file.mapping.clone() };
                let order = jp2::order(&file.places, mapped.len());
                let channels: Vec<Mapped> =
                    order.iter().filter_map(|at| mapped.get(*at).copied()).collect();
                if is_sycc(file.color, components) {
                    differences = luma_bits(&channels, components)?;
                }
                channels
            }
        };
        let mut depths = Vec::new();
        for channel in &channels {
            let depth = match *channel {
                Mapped::Component(at) => components.get(at).map(|found| (found.bits, found.signed)),
                Mapped::Palette { column, .. } => {
                    file.palette.as_ref().and_then(|palette| palette.columns.get(column).copied())
                }
            };
            depths.push(depth.ok_or_else(|| {
                damaged(format!(
                    "its boxes name a channel that {} components do not have",
                    components.len()
                ))
            })?);
        }
        let sample_type = sample_type(&depths)?;
        let count = u32::try_from(channels.len()).unwrap_or(u32::MAX);
        let shape = ImageShape::new(area.height(), area.width(), count)
            .map_err(|error| damaged(error.to_string()))?;
        let mut info = ImageInfo::new(shape, sample_type);
        info.bits = depths.iter().map(|(bits, _)| *bits).max();
        Ok(Self { info, channels, differences })
    }

    /// Fills an image of `area`, which the planes were decoded for after so many halvings.
    pub(super) fn fill(
        &self,
        planes: &[Plane<'_>],
        components: &[Component],
        palette: Option<&Palette>,
        area: Area,
        halvings: u32,
        out: SamplesMut<'_>,
    ) -> Result<()> {
        let channels = self
            .channels
            .iter()
            .map(|channel| Channel::new(*channel, planes, components, palette, area, halvings))
            .collect::<Result<Vec<_>>>()?;
        let grid = area.halved(halvings);
        let width = usize::try_from(grid.width()).unwrap_or(usize::MAX);
        match out {
            SamplesMut::U8(out) => {
                fill(out, &channels, width)?;
                if let Some(bits) = self.differences {
                    to_rgb(out, channels.len(), bits);
                }
            }
            SamplesMut::U16(out) => {
                fill(out, &channels, width)?;
                if let Some(bits) = self.differences {
                    to_rgb(out, channels.len(), bits);
                }
            }
            SamplesMut::I16(out) => fill(out, &channels, width)?,
            _ => return Err(unsupported("it decodes to integers only")),
        }
        Ok(())
    }
}

/// Whether the first three channels are luma and colour differences. A bare codestream cannot say
/// so, and some files call them red, green and blue; where the second and third of three
/// components alone are subsampled, they are colour differences.
fn is_sycc(color: Color, components: &[Component]) -> bool {
    match (color, components) {
        (Color::Sycc, _) => true,
        (_, [luma, blue, red]) => {
            let distance = |component: &Component| (component.dx, component.dy);
            distance(luma) == (1, 1) && distance(blue) != (1, 1) && distance(blue) == distance(red)
        }
        _ => false,
    }
}

fn luma_bits(channels: &[Mapped], components: &[Component]) -> Result<Option<u8>> {
    let mut first = channels.iter().take(3).map(|channel| match channel {
        Mapped::Component(at) => components.get(*at),
        Mapped::Palette { .. } => None,
    });
    let (Some(Some(luma)), Some(Some(blue)), Some(Some(red))) =
        (first.next(), first.next(), first.next())
    else {
        return Ok(None);
    };
    let same = |other: &Component| (other.bits, other.signed) == (luma.bits, false);
    if !same(luma) || !same(blue) || !same(red) || luma.bits > 16 {
        return Err(unsupported(
            "luma and colour differences of different depths or with signs are not supported",
        ));
    }
    Ok(Some(luma.bits))
}

fn sample_type(depths: &[(u8, bool)]) -> Result<SampleType> {
    let signed = depths.iter().any(|(_, signed)| *signed);
    // What a signed type has to hold of unsigned samples takes one bit more.
    let needed =
        |(bits, is_signed): &(u8, bool)| bits.saturating_add(u8::from(signed && !is_signed));
    match (depths.iter().map(needed).max().unwrap_or(0), signed) {
        (0..=8, false) => Ok(SampleType::U8),
        (0..=16, false) => Ok(SampleType::U16),
        (0..=16, true) => Ok(SampleType::I16),
        (bits, _) => Err(unsupported(format!("samples of {bits} bits are not supported"))),
    }
}

/// The samples of one channel and where pixels find them.
struct Channel<'a> {
    samples: &'a [i32],
    width: usize,
    /// For each column and row of the image that of the plane; empty where they are the same.
    columns: Vec<usize>,
    rows: Vec<usize>,
    lookup: Option<Lookup<'a>>,
}

/// A column of a palette.
struct Lookup<'a> {
    palette: &'a Palette,
    column: usize,
}

impl Lookup<'_> {
    fn value(&self, index: i32) -> Result<i32> {
        let columns = self.palette.columns.len();
        let value = usize::try_from(index)
            .ok()
            .and_then(|index| index.checked_mul(columns)?.checked_add(self.column))
            .and_then(|at| self.palette.values.get(at));
        value.copied().ok_or_else(|| {
            damaged(format!(
                "a sample is {index}, but the palette has {} entries",
                self.palette.values.len().checked_div(columns).unwrap_or(0)
            ))
        })
    }
}

impl<'a> Channel<'a> {
    fn new(
        mapped: Mapped,
        planes: &[Plane<'a>],
        components: &[Component],
        palette: Option<&'a Palette>,
        area: Area,
        halvings: u32,
    ) -> Result<Self> {
        let (at, column) = match mapped {
            Mapped::Component(at) => (at, None),
            Mapped::Palette { component, column } => (component, Some(column)),
        };
        let (Some(plane), Some(component)) = (planes.get(at), components.get(at)) else {
            return Err(damaged(format!("component {at} was not decoded")));
        };
        let grid = area.halved(halvings);
        let own = area.sampled(component.dx, component.dy).halved(halvings);
        if (plane.width, plane.height) != (own.width(), own.height()) || own.width() == 0 {
            return Err(damaged(format!(
                "component {at} came as {} x {} samples instead of {} x {}",
                plane.height,
                plane.width,
                own.height(),
                own.width()
            )));
        }
        let lookup = match (column, palette) {
            (Some(column), Some(palette)) => Some(Lookup { palette, column }),
            (Some(_), None) => return Err(damaged("a channel is mapped to a missing palette")),
            (None, _) => None,
        };
        Ok(Self {
            samples: plane.samples,
            width: usize::try_from(plane.width).unwrap_or(usize::MAX),
            columns: places((grid.x0, grid.x1), (own.x0, own.x1), component.dx),
            rows: places((grid.y0, grid.y1), (own.y0, own.y1), component.dy),
            lookup,
        })
    }

    fn is_direct(&self) -> bool {
        self.columns.is_empty() && self.lookup.is_none()
    }

    fn row(&self, y: usize) -> &'a [i32] {
        let row = if self.rows.is_empty() { y } else { self.rows.get(y).copied().unwrap_or(0) };
        let start = row.saturating_mul(self.width);
        self.samples.get(start..start.saturating_add(self.width)).unwrap_or_default()
    }
}

/// For each place of the grid the nearest sample at or before it.
fn places(grid: (u32, u32), own: (u32, u32), distance: u32) -> Vec<usize> {
    if distance <= 1 {
        return Vec::new();
    }
    let last = own.1.saturating_sub(1);
    (grid.0..grid.1)
        .map(|place| {
            let at = place.checked_div(distance).unwrap_or(0).clamp(own.0.min(last), last);
            usize::try_from(at.saturating_sub(own.0)).unwrap_or(0)
        })
        .collect()
}

/// A sample of an image.
trait Sample: Copy {
    fn from_i32(value: i32) -> Self;
    fn to_i32(self) -> i32;
}

macro_rules! sample {
    ($($type:ty),*) => {$(
        impl Sample for $type {
            #[inline]
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
            fn from_i32(value: i32) -> Self {
                value.clamp(Self::MIN.into(), Self::MAX.into()) as Self
            }

            #[inline]
            fn to_i32(self) -> i32 {
                self.into()
            }
        }
    )*};
}
sample!(u8, u16, i16);

fn fill<T: Sample>(out: &mut [T], channels: &[Channel<'_>], width: usize) -> Result<()> {
    let count = channels.len().max(1);
    let direct = channels.iter().all(Channel::is_direct);
    for (y, row) in out.chunks_exact_mut(width.saturating_mul(count).max(1)).enumerate() {
        match channels {
            [grey] if direct => {
                for (to, from) in row.iter_mut().zip(grey.row(y)) {
                    *to = T::from_i32(*from);
                }
            }
            [a, b, c] if direct => {
                let from = a.row(y).iter().zip(b.row(y)).zip(c.row(y));
                let (pixels, _) = row.as_chunks_mut::<3>();
                for (to, ((a, b), c)) in pixels.iter_mut().zip(from) {
                    *to = [T::from_i32(*a), T::from_i32(*b), T::from_i32(*c)];
                }
            }
            _ => {
                for (at, channel) in channels.iter().enumerate() {
                    fill_channel(row, at, count, channel, y)?;
                }
            }
        }
    }
    Ok(())
}

fn fill_channel<T: Sample>(
    row: &mut [T],
    at: usize,
    count: usize,
    channel: &Channel<'_>,
    y: usize,
) -> Result<()> {
    let places = row.iter_mut().skip(at).step_by(count);
    let from = channel.row(y);
    if channel.is_direct() {
        for (to, from) in places.zip(from) {
            *to = T::from_i32(*from);
        }
        return Ok(());
    }
    for (x, to) in places.enumerate() {
        let x = if channel.columns.is_empty() { x } else { *channel.columns.get(x).unwrap_or(&0) };
        let sample = from.get(x).copied().unwrap_or(0);
        let sample = match &channel.lookup {
            Some(lookup) => lookup.value(sample)?,
            None => sample,
        };
        *to = T::from_i32(sample);
    }
    Ok(())
}

/// Turns luma and colour differences into red, green and blue (the matrix of JFIF and sYCC).
#[allow(clippy::cast_possible_truncation, reason = "the products are far below 2^31")]
fn to_rgb<T: Sample>(out: &mut [T], channels: usize, bits: u8) {
    let highest = i32::from(u16::MAX >> 16_u32.saturating_sub(u32::from(bits)));
    let middle = highest.wrapping_add(1) >> 1;
    for pixel in out.chunks_exact_mut(channels.max(3)) {
        let [luma, blue, red, ..] = pixel else { continue };
        let y = luma.to_i32();
        let cb = f64::from(blue.to_i32().wrapping_sub(middle));
        let cr = f64::from(red.to_i32().wrapping_sub(middle));
        // Products are cut, not rounded, as the usual decoders of these files do.
        let r = y.wrapping_add((1.402 * cr) as i32);
        let g = y.wrapping_sub((0.344 * cb + 0.714 * cr) as i32);
        let b = y.wrapping_add((1.772 * cb) as i32);
        *luma = T::from_i32(r.clamp(0, highest));
        *blue = T::from_i32(g.clamp(0, highest));
        *red = T::from_i32(b.clamp(0, highest));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_repeated_over_the_grid_from_where_they_lie() {
        assert_eq!(places((0, 5), (0, 3), 2), [0, 0, 1, 1, 2]);
        // Samples at 2 and 4; what lies before the first takes the first.
        assert_eq!(places((1, 6), (1, 3), 2), [0, 0, 0, 1, 1]);
        assert!(places((0, 9), (0, 9), 1).is_empty());
    }

    #[test]
    fn types_hold_every_depth_that_is_there() {
        assert_eq!(sample_type(&[(8, false), (1, false)]).unwrap(), SampleType::U8);
        assert_eq!(sample_type(&[(8, false), (9, false)]).unwrap(), SampleType::U16);
        assert_eq!(sample_type(&[(4, true)]).unwrap(), SampleType::I16);
        assert_eq!(sample_type(&[(16, true), (15, false)]).unwrap(), SampleType::I16);
        assert!(sample_type(&[(8, true), (16, false)]).is_err());
        assert!(sample_type(&[(17, false)]).is_err());
    }

    #[test]
    fn grey_has_no_colour_differences() {
        let mut pixels = [7_u8, 128, 128, 255, 128, 128];
        to_rgb(&mut pixels, 3, 8);
        assert_eq!(pixels, [7, 7, 7, 255, 255, 255]);
    }
}
