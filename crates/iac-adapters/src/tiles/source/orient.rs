//! Orientation tags, and turning pixels as they say.

use super::{Raster, Samples};

/// Turns pixels the way the orientation tag says.
pub(crate) fn oriented(raster: Raster) -> Raster {
    let Raster { width, height, channels, samples, orientation } = raster;
    if !(2..=8).contains(&orientation) {
        return Raster { width, height, channels, samples, orientation };
    }
    let swaps = orientation >= 5;
    let (new_width, new_height) = if swaps { (height, width) } else { (width, height) };
    let size = [width, height, new_width, new_height].map(|n| usize::try_from(n).unwrap_or(0));
    let samples = match samples {
        Samples::U8(samples) => Samples::U8(turn(&samples, channels.count(), size, orientation)),
        Samples::U16(samples) => Samples::U16(turn(&samples, channels.count(), size, orientation)),
        Samples::Wide(samples) => {
            Samples::Wide(turn(&samples, channels.count(), size, orientation))
        }
    };
    Raster { width: new_width, height: new_height, channels, samples, orientation: 1 }
}

fn turn<T: Copy>(
    samples: &[T],
    channels: usize,
    [width, height, new_width, new_height]: [usize; 4],
    orientation: u8,
) -> Vec<T> {
    let mut turned = Vec::with_capacity(samples.len());
    let (right, bottom) = (width.saturating_sub(1), height.saturating_sub(1));
    for y in 0..new_height {
        for x in 0..new_width {
            let (from_x, from_y) = match orientation {
                2 => (right.saturating_sub(x), y),
                3 => (right.saturating_sub(x), bottom.saturating_sub(y)),
                4 => (x, bottom.saturating_sub(y)),
                5 => (y, x),
                6 => (y, bottom.saturating_sub(x)),
                7 => (right.saturating_sub(y), bottom.saturating_sub(x)),
                _ => (right.saturating_sub(y), x),
            };
            let start =
                from_y.saturating_mul(width).saturating_add(from_x).saturating_mul(channels);
            let pixel = samples.get(start..start.saturating_add(channels));
            turned.extend_from_slice(pixel.unwrap_or_default());
        }
    }
    turned
}

/// The orientation that a JPEG file states.
pub(super) fn of_jpeg(bytes: &[u8]) -> u8 {
    let mut rest = bytes.get(2..).unwrap_or_default();
    while let [0xff, marker, high, low, ..] = *rest {
        if marker == 0xda {
            break;
        }
        let length = usize::from(u16::from_be_bytes([high, low]));
        let segment = rest.get(4..length.saturating_add(2)).unwrap_or_default();
        if marker == 0xe1
            && let Some(tiff) = segment.strip_prefix(b"Exif\0\0")
        {
            return of_exif(tiff);
        }
        rest = rest.get(length.saturating_add(2)..).unwrap_or_default();
    }
    1
}

/// The orientation that EXIF data states; 1 where they don't, or are damaged.
pub(super) fn of_exif(tiff: &[u8]) -> u8 {
    fn read(tiff: &[u8]) -> Option<u8> {
        let little = match tiff.get(..4)? {
            b"II*\0" => true,
            b"MM\0*" => false,
            _ => return None,
        };
        let short = |at: usize| -> Option<u16> {
            let bytes = tiff.get(at..at.checked_add(2)?)?.try_into().ok()?;
            Some(if little { u16::from_le_bytes(bytes) } else { u16::from_be_bytes(bytes) })
        };
        let bytes = tiff.get(4..8)?.try_into().ok()?;
        let offset = if little { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) };
        let offset = usize::try_from(offset).ok()?;
        let entries = usize::from(short(offset)?);
        for entry in 0..entries {
            let at = offset.checked_add(2)?.checked_add(entry.checked_mul(12)?)?;
            if short(at)? == 0x0112 {
                let value = u8::try_from(short(at.checked_add(8)?)?).ok()?;
                return (1..=8).contains(&value).then_some(value);
            }
        }
        None
    }
    read(tiff).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::super::Channels;
    use super::*;

    #[test]
    fn every_orientation_moves_pixels_to_their_place() {
        // 1 2 3
        // 4 5 6
        for (orientation, size, expected) in [
            (1, (3, 2), [1, 2, 3, 4, 5, 6]),
            (2, (3, 2), [3, 2, 1, 6, 5, 4]),
            (3, (3, 2), [6, 5, 4, 3, 2, 1]),
            (4, (3, 2), [4, 5, 6, 1, 2, 3]),
            (5, (2, 3), [1, 4, 2, 5, 3, 6]),
            (6, (2, 3), [4, 1, 5, 2, 6, 3]),
            (7, (2, 3), [6, 3, 5, 2, 4, 1]),
            (8, (2, 3), [3, 6, 2, 5, 1, 4]),
        ] {
            let raster = Raster {
                width: 3,
                height: 2,
                channels: Channels::Gray,
                samples: Samples::U8(vec![1, 2, 3, 4, 5, 6]),
                orientation,
            };
            let turned = oriented(raster);
            assert_eq!((turned.width, turned.height), size);
            let Samples::U8(samples) = turned.samples else { panic!() };
            assert_eq!(samples, expected, "{orientation}");
        }
    }
}
