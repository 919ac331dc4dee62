//! The boxes of JP2 files around a codestream: read, and written.

use super::{damaged, unsupported};
use crate::codec::u64_len;
use crate::{ImageShape, Result};

/// The first bytes of every JP2 file.
pub(super) const SIGNATURE: [u8; 12] = *b"\0\0\0\x0CjP  \r\n\x87\n";
/// The first bytes of a codestream.
pub(super) const CODESTREAM: [u8; 4] = [0xFF, 0x4F, 0xFF, 0x51];

/// The colours that a file declares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Color {
    /// Nothing that decoding would have to act on.
    #[default]
    Unspecified,
    /// sRGB, grey, or a colour profile: samples are handed out as they are.
    AsStored,
    /// Luma and two colour differences (sYCC).
    Sycc,
}

/// Entries of `columns.len()` values each.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Palette {
    /// Bits and sign of the values of each column.
    pub(super) columns: Vec<(u8, bool)>,
    pub(super) values: Vec<i32>,
}

/// Where a channel comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mapped {
    Component(usize),
    Palette { component: usize, column: usize },
}

/// A codestream and what the boxes around it say.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct File<'a> {
    pub(super) codestream: &'a [u8],
    pub(super) color: Color,
    pub(super) palette: Option<Palette>,
    /// Empty when channels are components.
    pub(super) mapping: Vec<Mapped>,
    /// For each channel its place among the colours, or nothing when it is no colour.
    pub(super) places: Vec<(usize, Option<usize>)>,
}

/// Finds the codestream in a payload and reads what stands around it.
pub(super) fn read(payload: &[u8]) -> Result<File<'_>> {
    let mut file = File {
        codestream: payload,
        color: Color::Unspecified,
        palette: None,
        mapping: Vec::new(),
        places: Vec::new(),
    };
    if payload.starts_with(&CODESTREAM) {
        return Ok(file);
    }
    if !payload.starts_with(&SIGNATURE) {
        return Err(damaged("it starts neither as a JPEG 2000 codestream nor as a JP2 file"));
    }
    let mut boxes = Boxes { rest: payload };
    let mut has_header = false;
    while let Some((kind, contents)) = boxes.next()? {
        match &kind {
            b"jp2h" if !has_header => {
                has_header = true;
                header(contents, &mut file)?;
            }
            b"jp2c" => {
                if !has_header {
                    return Err(damaged("its codestream comes before the header box"));
                }
                file.codestream = contents;
                return Ok(file);
            }
            _ => {}
        }
    }
    Err(damaged("it is cut: there is no codestream box"))
}

struct Boxes<'a> {
    rest: &'a [u8],
}

impl<'a> Boxes<'a> {
    fn next(&mut self) -> Result<Option<([u8; 4], &'a [u8])>> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let cut = || damaged("it is cut inside a box");
        let (length, rest) = self.rest.split_first_chunk::<4>().ok_or_else(cut)?;
        let (kind, rest) = rest.split_first_chunk::<4>().ok_or_else(cut)?;
        let name = String::from_utf8_lossy(kind).into_owned();
        let wrong = |length: u64| {
            damaged(format!("its box `{}` claims {length} bytes", name.escape_default()))
        };
        let (length, rest) = match u32::from_be_bytes(*length) {
            0 => (rest.len(), rest),
            1 => {
                let (length, rest) = rest.split_first_chunk::<8>().ok_or_else(cut)?;
                let length = u64::from_be_bytes(*length);
                let inner = length.checked_sub(16).and_then(|inner| usize::try_from(inner).ok());
                (inner.ok_or_else(|| wrong(length))?, rest)
            }
            length => {
                let length = u64::from(length);
                let inner = length.checked_sub(8).and_then(|inner| usize::try_from(inner).ok());
                (inner.ok_or_else(|| wrong(length))?, rest)
            }
        };
        let (contents, rest) = rest.split_at_checked(length).ok_or_else(|| {
            damaged(format!(
                "it is cut: its box `{}` has {} of {length} bytes",
                name.escape_default(),
                rest.len()
            ))
        })?;
        self.rest = rest;
        Ok(Some((*kind, contents)))
    }
}

fn header(contents: &[u8], file: &mut File<'_>) -> Result<()> {
    let mut boxes = Boxes { rest: contents };
    let mut components = 0_usize;
    let mut has_color = false;
    let mut map: Option<&[u8]> = None;
    let mut channels: Option<&[u8]> = None;
    while let Some((kind, contents)) = boxes.next()? {
        match &kind {
            b"ihdr" => {
                let &[_, _, _, _, _, _, _, _, high, low, _, 7, _, _] = contents else {
                    return Err(damaged(format!(
                        "its image header box has {} bytes, or another compression than 7",
                        contents.len()
                    )));
                };
                components = usize::from(u16::from_be_bytes([high, low]));
            }
            // Only the first colour specification counts, unless it is of an unknown method.
            b"colr" if !has_color => match *contents {
                [1, _, _, a, b, c, d, ..] => {
                    has_color = true;
                    file.color = match u32::from_be_bytes([a, b, c, d]) {
                        18 => Color::Sycc,
                        _ => Color::AsStored,
                    };
                }
                [2, ..] => {
                    has_color = true;
                    file.color = Color::AsStored;
                }
                _ => {}
            },
            b"pclr" => file.palette = Some(palette(contents)?),
            b"cmap" => map = Some(contents),
            b"cdef" => channels = Some(contents),
            _ => {}
        }
    }
    if components == 0 {
        return Err(damaged("its header box has no image header, or one of 0 components"));
    }
    match (&file.palette, map) {
        (None, None) => {}
        (Some(palette), Some(map)) => {
            file.mapping = mapping(map, components, palette.columns.len())?;
        }
        _ => return Err(damaged("of a palette and the mapping to it, only one is there")),
    }
    let count = if file.mapping.is_empty() { components } else { file.mapping.len() };
    if let Some(channels) = channels {
        file.places = places(channels, count)?;
    }
    Ok(())
}

fn palette(contents: &[u8]) -> Result<Palette> {
    let cut = || damaged(format!("its palette is cut at {} bytes", contents.len()));
    let (&[high, low, count], rest) = contents.split_first_chunk::<3>().ok_or_else(cut)?;
    let entries = usize::from(u16::from_be_bytes([high, low]));
    if !(1..=1024).contains(&entries) || count == 0 {
        return Err(damaged(format!("its palette has {entries} entries of {count} values")));
    }
    let (depths, mut rest) = rest.split_at_checked(count.into()).ok_or_else(cut)?;
    let mut columns = Vec::new();
    for depth in depths {
        let bits = (depth & 0x7F).saturating_add(1);
        if bits > 16 {
            return Err(unsupported(format!("a palette of {bits} bits is not supported")));
        }
        columns.push((bits, depth & 0x80 != 0));
    }
    let mut values = Vec::new();
    for _ in 0..entries {
        for (bits, signed) in &columns {
            let (value, after) = if *bits <= 8 {
                let (&[value], after) = rest.split_first_chunk::<1>().ok_or_else(cut)?;
                (u16::from(value), after)
            } else {
                let (value, after) = rest.split_first_chunk::<2>().ok_or_else(cut)?;
                (u16::from_be_bytes(*value), after)
            };
            rest = after;
            let unused = 16_u32.saturating_sub(u32::from(*bits));
            let value = value.wrapping_shl(unused);
            values.push(if *signed {
                i32::from(value.cast_signed()).wrapping_shr(unused)
            } else {
                i32::from(value.wrapping_shr(unused))
            });
        }
    }
    Ok(Palette { columns, values })
}

fn mapping(contents: &[u8], components: usize, columns: usize) -> Result<Vec<Mapped>> {
    let mut mapping = Vec::new();
    for four in contents.chunks(4) {
        let &[high, low, kind, column] = four else {
            return Err(damaged(format!("its palette mapping has {} bytes", contents.len())));
        };
        let component = usize::from(u16::from_be_bytes([high, low]));
        let column = usize::from(column);
        if component >= components || (kind == 1 && column >= columns) || kind > 1 {
            return Err(damaged(format!(
                "its palette mapping takes component {component} of {components} through column \
                 {column} of {columns} in way {kind}"
            )));
        }
        mapping.push(if kind == 1 {
            Mapped::Palette { component, column }
        } else {
            Mapped::Component(component)
        });
    }
    if mapping.is_empty() {
        return Err(damaged("its palette mapping is empty"));
    }
    Ok(mapping)
}

fn places(contents: &[u8], channels: usize) -> Result<Vec<(usize, Option<usize>)>> {
    let (count, rest) = contents
        .split_first_chunk::<2>()
        .ok_or_else(|| damaged("its channel definitions are cut"))?;
    if usize::from(u16::from_be_bytes(*count)).saturating_mul(6) != rest.len() {
        return Err(damaged(format!("its channel definitions have {} bytes", contents.len())));
    }
    let mut places: Vec<(usize, Option<usize>)> = Vec::new();
    for six in rest.chunks_exact(6) {
        let &[c1, c0, t1, t0, a1, a0] = six else { continue };
        let channel = usize::from(u16::from_be_bytes([c1, c0]));
        let kind = u16::from_be_bytes([t1, t0]);
        let association = usize::from(u16::from_be_bytes([a1, a0]));
        if channel >= channels || places.iter().any(|(known, _)| *known == channel) {
            return Err(damaged(format!(
                "its channel definitions name channel {channel} of {channels} wrongly or twice"
            )));
        }
        let place = (kind == 0).then(|| association.checked_sub(1)).flatten();
        let place = place.filter(|place| *place != usize::from(u16::MAX).saturating_sub(1));
        let taken = |place| places.iter().any(|(_, known)| *known == Some(place));
        if place.is_some_and(|place| place >= channels || taken(place)) {
            return Err(damaged(format!(
                "its channel definitions put channel {channel} at colour {association}, which \
                 does not exist or is taken"
            )));
        }
        places.push((channel, place));
    }
    Ok(places)
}

/// The order in which channels are handed out: colours at their places, then all others.
pub(super) fn order(places: &[(usize, Option<usize>)], channels: usize) -> Vec<usize> {
    let mut colors: Vec<(usize, usize)> =
        places.iter().filter_map(|(channel, place)| place.map(|place| (place, *channel))).collect();
    if colors.is_empty() {
        return (0..channels).collect();
    }
    // Channels without a definition are colours in their own order.
    for channel in 0..channels {
        if !places.iter().any(|(known, _)| *known == channel) {
            colors.push((channel, channel));
        }
    }
    colors.sort_unstable();
    let mut order: Vec<usize> = colors.into_iter().map(|(_, channel)| channel).collect();
    let others = places.iter().filter(|(_, place)| place.is_none()).map(|(channel, _)| *channel);
    order.extend(others);
    order
}

/// Puts boxes around a codestream.
pub(super) fn write(codestream: &[u8], shape: ImageShape, bits: u8, signed: bool) -> Vec<u8> {
    let mut file = SIGNATURE.to_vec();
    push_box(&mut file, *b"ftyp", &[b"jp2 ", &[0; 4][..], b"jp2 "].concat());
    let channels = u16::try_from(shape.channels()).unwrap_or(u16::MAX);
    let depth = bits.saturating_sub(1) | if signed { 0x80 } else { 0 };
    let mut header = Vec::new();
    let mut image = Vec::new();
    image.extend(shape.height().to_be_bytes());
    image.extend(shape.width().to_be_bytes());
    image.extend(channels.to_be_bytes());
    image.extend([depth, 7, 0, 0]);
    push_box(&mut header, *b"ihdr", &image);
    // sRGB from three channels on, grey below.
    let color: u32 = if channels >= 3 { 16 } else { 17 };
    push_box(&mut header, *b"colr", &[&[1, 0, 0][..], &color.to_be_bytes()].concat());
    if matches!(channels, 2 | 4) {
        let mut definitions = channels.to_be_bytes().to_vec();
        for channel in 0..channels {
            let is_alpha = channel.saturating_add(1) == channels;
            let (kind, place) = if is_alpha { (1_u16, 0) } else { (0, channel.saturating_add(1)) };
            for number in [channel, kind, place] {
                definitions.extend(number.to_be_bytes());
            }
        }
        push_box(&mut header, *b"cdef", &definitions);
    }
    push_box(&mut file, *b"jp2h", &header);
    push_box(&mut file, *b"jp2c", codestream);
    file
}

fn push_box(file: &mut Vec<u8>, kind: [u8; 4], contents: &[u8]) {
    let length = u64_len(contents.len()).saturating_add(8);
    match u32::try_from(length) {
        Ok(length) => {
            file.extend(length.to_be_bytes());
            file.extend(kind);
        }
        Err(_) => {
            file.extend(1_u32.to_be_bytes());
            file.extend(kind);
            file.extend(length.saturating_add(8).to_be_bytes());
        }
    }
    file.extend(contents);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(channels: u32) -> ImageShape {
        ImageShape::new(3, 5, channels).unwrap()
    }

    #[test]
    fn written_boxes_are_read_again() {
        let codestream = [&CODESTREAM[..], b"rest"].concat();
        for channels in 1..=5 {
            let file = write(&codestream, shape(channels), 8, false);
            let read = read(&file).unwrap();
            assert_eq!(read.codestream, codestream);
            assert_eq!(read.color, Color::AsStored);
            let count = usize::try_from(channels).unwrap();
            assert_eq!(order(&read.places, count), (0..count).collect::<Vec<_>>());
        }
    }

    #[test]
    fn every_cut_of_the_boxes_is_an_error() {
        let file = write(&CODESTREAM, shape(4), 8, false);
        for end in 0..file.len() {
            assert!(read(&file[..end]).is_err(), "{end}");
        }
    }

    #[test]
    fn colours_go_to_their_places_and_opacity_behind_them() {
        let definitions = [
            (0_u16, 1_u16, 0_u16), // opacity
            (1, 0, 3),
            (2, 0, 2),
            (3, 0, 1),
        ];
        let mut contents = vec![0, 4];
        for (channel, kind, place) in definitions {
            for number in [channel, kind, place] {
                contents.extend(number.to_be_bytes());
            }
        }
        let found = places(&contents, 4).unwrap();
        assert_eq!(order(&found, 4), [3, 2, 1, 0]);
        assert!(places(&contents, 3).is_err());
        assert!(places(&contents[..7], 4).is_err());
    }

    #[test]
    fn palettes_have_values_of_their_own_depths() {
        let read = palette(&[0, 2, 2, 7, 0x8B, 200, 0x0F, 0xFF, 1, 0, 5]).unwrap();
        assert_eq!(read.columns, [(8, false), (12, true)]);
        assert_eq!(read.values, [200, -1, 1, 5]);
        assert!(palette(&[0, 2, 2, 7, 0x8B, 200, 0x0F, 0xFF, 1, 0]).is_err());
        assert!(palette(&[0, 0, 1, 7]).is_err());
        assert!(palette(&[0, 1, 1, 16, 0, 0, 0]).is_err());
    }
}
