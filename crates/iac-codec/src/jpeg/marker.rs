//! Marker segments: what a stream says about its image before the first scan, and streams put
//! together from parts.

use std::ops::Range;

use super::damaged;
use crate::image::ImageShape;
use crate::{CodecError, Result};

pub(super) const SOI: u8 = 0xD8;
pub(super) const EOI: u8 = 0xD9;
pub(super) const SOS: u8 = 0xDA;
pub(super) const DHT: u8 = 0xC4;
#[cfg(feature = "jpeg-decoder")]
pub(super) const DRI: u8 = 0xDD;
const DAC: u8 = 0xCC;
const JPG: u8 = 0xC8;
const DNL: u8 = 0xDC;
const TEM: u8 = 0x01;
pub(super) const APP0: u8 = 0xE0;
const APP14: u8 = 0xEE;

/// The largest height and width that libjpeg, and so every reader of the format, takes.
pub(super) const MAX_SIDE: u16 = 65_500;

/// How the samples of a frame are coded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Process {
    Sequential,
    Progressive,
    Lossless,
}

/// What the components of a frame are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Color {
    Grey,
    Rgb,
    YCbCr,
    Cmyk,
    Ycck,
}

/// One component of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Component {
    pub(super) id: u8,
    /// Horizontal and vertical sampling factor, 1 to 4 each.
    pub(super) horizontal: u8,
    pub(super) vertical: u8,
}

/// A frame header and the application markers that decide about its colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) process: Process,
    pub(super) arithmetic: bool,
    pub(super) precision: u8,
    pub(super) height: u16,
    pub(super) width: u16,
    /// Those beyond `count` are unused.
    pub(super) components: [Component; 4],
    pub(super) count: u8,
    jfif: bool,
    adobe: Option<u8>,
    /// Whether some components are not in the first scan, so that further ones must follow.
    pub(super) several_scans: bool,
    /// Where the marker of the first scan begins.
    pub(super) scan_at: usize,
}

/// One marker with the contents of its segment.
#[derive(Debug, Clone)]
pub(super) struct Segment {
    pub(super) marker: u8,
    /// Where the byte FF before it is.
    pub(super) at: usize,
    /// What follows the length; empty for markers that stand alone.
    pub(super) body: Range<usize>,
}

/// Walks over the segments of a stream, without its scans.
pub(super) struct Walk<'a> {
    stream: &'a [u8],
    at: usize,
    /// Whether bytes that belong to no segment are passed over.
    lenient: bool,
}

impl<'a> Walk<'a> {
    pub(super) const fn new(stream: &'a [u8], at: usize, lenient: bool) -> Self {
        Self { stream, at, lenient }
    }

    /// Goes on at another place, behind a scan.
    #[cfg(feature = "jpeg-decoder")]
    pub(super) fn seek(&mut self, at: usize) {
        self.at = at;
    }

    pub(super) const fn position(&self) -> usize {
        self.at
    }

    /// The next marker with its segment.
    pub(super) fn next_segment(&mut self) -> Result<Segment> {
        let start = self.at;
        let byte = |at: usize| self.stream.get(at).copied().ok_or_else(|| cut(self.stream));
        let mut at = start;
        let marker = loop {
            while byte(at)? != 0xFF {
                if !self.lenient {
                    return Err(damaged(format!(
                        "byte {at} is {:#04x} where a marker should be",
                        byte(at)?
                    )));
                }
                at = at.saturating_add(1);
            }
            let ff = at;
            while byte(at)? == 0xFF {
                at = at.saturating_add(1);
            }
            match byte(at)? {
                0 if self.lenient => at = at.saturating_add(1),
                0 => return Err(damaged(format!("byte {at} is 0 where a marker should be"))),
                marker => {
                    self.at = at.saturating_add(1);
                    break (marker, ff);
                }
            }
        };
        let (marker, ff) = marker;
        if matches!(marker, TEM | 0xD0..=EOI) {
            return Ok(Segment { marker, at: ff, body: self.at..self.at });
        }
        let length = u16::from_be_bytes([byte(self.at)?, byte(self.at.saturating_add(1))?]);
        let end = self.at.saturating_add(usize::from(length));
        if length < 2 || end > self.stream.len() {
            return Err(damaged(format!(
                "segment {marker:#04x} at byte {ff} has length {length}, and {} bytes follow",
                self.stream.len().saturating_sub(self.at)
            )));
        }
        let body = self.at.saturating_add(2)..end;
        self.at = end;
        Ok(Segment { marker, at: ff, body })
    }
}

fn cut(stream: &[u8]) -> CodecError {
    damaged(format!("it ends after {} bytes, within its headers", stream.len()))
}

pub(super) fn unsupported(reason: impl Into<String>) -> CodecError {
    CodecError::Unsupported { name: super::NAME.to_owned(), reason: reason.into() }
}

impl Header {
    /// Reads up to the first scan.
    pub(super) fn read(stream: &[u8], lenient: bool) -> Result<Self> {
        if !stream.starts_with(&[0xFF, SOI]) {
            return Err(damaged(match stream {
                [] => "it is empty".to_owned(),
                [first, ..] => {
                    let second = stream.get(1).copied().unwrap_or(0);
                    format!("it starts with {first:#04x} {second:#04x} instead of 0xff 0xd8")
                }
            }));
        }
        let mut walk = Walk::new(stream, 2, lenient);
        let mut frame: Option<Self> = None;
        let (mut jfif, mut adobe) = (false, None);
        loop {
            let segment = walk.next_segment()?;
            let body = stream.get(segment.body.clone()).unwrap_or_default();
            match segment.marker {
                SOS => {
                    let Some(frame) = frame else {
                        return Err(damaged("a scan comes before any frame header".to_owned()));
                    };
                    let in_scan = body.first().copied().unwrap_or(0);
                    return Ok(Self {
                        jfif,
                        adobe,
                        several_scans: in_scan < frame.count,
                        scan_at: segment.at,
                        ..frame
                    });
                }
                EOI => return Err(damaged("it ends without a scan".to_owned())),
                SOI => return Err(damaged("it starts twice".to_owned())),
                APP0 => jfif |= body.starts_with(b"JFIF\0") && body.len() >= 14,
                APP14 if body.starts_with(b"Adobe") => adobe = body.get(11).copied().or(adobe),
                DHT | DAC | DNL => {}
                JPG => return Err(unsupported("it has a reserved marker 0xc8")),
                marker @ 0xC0..=0xCF => {
                    if frame.is_some() {
                        return Err(damaged("it has two frame headers".to_owned()));
                    }
                    frame = Some(Self::frame(marker, body)?);
                }
                _ => {}
            }
        }
    }

    /// Reads a frame header.
    fn frame(marker: u8, body: &[u8]) -> Result<Self> {
        let process = match marker {
            0xC0 | 0xC1 | 0xC9 => Process::Sequential,
            0xC2 | 0xCA => Process::Progressive,
            0xC3 => Process::Lossless,
            other => {
                return Err(unsupported(format!(
                    "process {other:#04x} (hierarchical, or lossless with arithmetic coding)"
                )));
            }
        };
        let &[precision, h1, h0, w1, w0, count, ref rest @ ..] = body else {
            return Err(damaged(format!("its frame header has {} bytes", body.len())));
        };
        let (height, width) = (u16::from_be_bytes([h1, h0]), u16::from_be_bytes([w1, w0]));
        if usize::from(count).checked_mul(3) != Some(rest.len()) {
            return Err(damaged(format!(
                "its frame header has {} bytes for {count} components",
                rest.len()
            )));
        }
        if height == 0 || width == 0 {
            return Err(damaged(format!("it has {height} rows of {width} pixels")));
        }
        if height > MAX_SIDE || width > MAX_SIDE {
            return Err(unsupported(format!(
                "{height} rows of {width} pixels, of at most {MAX_SIDE} each"
            )));
        }
        let allowed = match process {
            Process::Lossless => (2..=16).contains(&precision),
            _ => precision == 8 || precision == 12,
        };
        if !allowed {
            return Err(unsupported(format!(
                "{precision} bits per sample; lossy streams have 8 or 12, lossless ones 2 to 16"
            )));
        }
        if !matches!(count, 1 | 3 | 4) {
            return Err(unsupported(format!("{count} components instead of 1, 3 or 4")));
        }
        let mut components = [Component::default(); 4];
        for (component, bytes) in components.iter_mut().zip(rest.chunks_exact(3)) {
            let &[id, sampling, _] = bytes else { continue };
            *component = Component { id, horizontal: sampling >> 4, vertical: sampling & 15 };
            if !(1..=4).contains(&component.horizontal) || !(1..=4).contains(&component.vertical) {
                return Err(damaged(format!(
                    "component {id} has sampling factors {} x {}",
                    component.horizontal, component.vertical
                )));
            }
        }
        Ok(Self {
            process,
            arithmetic: marker >= 0xC9,
            precision,
            height,
            width,
            components,
            count,
            jfif: false,
            adobe: None,
            several_scans: false,
            scan_at: 0,
        })
    }

    /// The components that there are.
    pub(super) fn components(&self) -> &[Component] {
        self.components.get(..usize::from(self.count)).unwrap_or_default()
    }

    /// Height, width and components.
    pub(super) fn shape(&self) -> Result<ImageShape> {
        ImageShape::new(self.height.into(), self.width.into(), self.count.into())
    }

    /// The largest sampling factors of all components.
    pub(super) fn sampling(&self) -> (u8, u8) {
        let horizontal = self.components().iter().map(|component| component.horizontal).max();
        let vertical = self.components().iter().map(|component| component.vertical).max();
        (horizontal.unwrap_or(1), vertical.unwrap_or(1))
    }

    /// What the components are, by the rules of libjpeg: a JFIF marker wins over one of Adobe,
    /// and that over the identifiers of the components.
    pub(super) fn color(&self) -> Color {
        let lossless = self.process == Process::Lossless;
        match (self.count, self.adobe) {
            (1 | 2, _) => Color::Grey,
            (3, _) if self.jfif => Color::YCbCr,
            (3, Some(0)) => Color::Rgb,
            (3, Some(_)) => Color::YCbCr,
            (3, None) => {
                let [first, second, third, _] = self.components.map(|component| component.id);
                match [first, second, third] {
                    [1, 2, 3] if !lossless => Color::YCbCr,
                    [b'R', b'G', b'B'] => Color::Rgb,
                    _ if lossless => Color::Rgb,
                    _ => Color::YCbCr,
                }
            }
            (_, Some(0) | None) => Color::Cmyk,
            (_, Some(_)) => Color::Ycck,
        }
    }

    /// Whether the marker of Adobe names a transform that its components cannot have; what they
    /// are is then a guess.
    pub(super) fn odd_transform(&self) -> Option<u8> {
        match (self.count, self.adobe) {
            (3, Some(transform)) if !self.jfif && transform > 1 => Some(transform),
            (4, Some(transform)) if !matches!(transform, 0 | 2) => Some(transform),
            _ => None,
        }
    }

    /// Bytes of all coefficients, which decoding holds at once when they come in several scans.
    pub(super) fn coefficient_bytes(&self) -> u64 {
        let (horizontal, vertical) = self.sampling();
        let side = |pixels: u16, most: u8| -> u64 {
            let unit = u64::from(most).saturating_mul(8);
            u64::from(pixels).div_ceil(unit.max(1))
        };
        let units = side(self.width, horizontal).saturating_mul(side(self.height, vertical));
        let blocks: u64 = self
            .components()
            .iter()
            .map(|component| {
                u64::from(component.horizontal).saturating_mul(component.vertical.into())
            })
            .sum();
        units.saturating_mul(blocks).saturating_mul(128)
    }
}

impl Header {
    /// Bytes that the scans have at least: every sample or block takes a code of one bit, and
    /// blocks of sequential streams another one that ends them.
    pub(super) fn least_bytes(&self) -> u64 {
        let bits = match self.process {
            _ if self.arithmetic => return 0,
            Process::Lossless | Process::Progressive => 1,
            Process::Sequential => 2,
        };
        let unit = if self.process == Process::Lossless { 1 } else { 8 };
        let (horizontal, vertical) = self.sampling();
        let side = |pixels: u16, factor: u8, of: u8| -> u64 {
            let pixels = u64::from(pixels).saturating_mul(factor.into());
            pixels.div_ceil(u64::from(of).saturating_mul(unit).max(1))
        };
        let units: u64 = self
            .components()
            .iter()
            .map(|component| {
                side(self.width, component.horizontal, horizontal).saturating_mul(side(
                    self.height,
                    component.vertical,
                    vertical,
                ))
            })
            .sum();
        units.saturating_mul(bits) >> 3
    }
}

/// How the components of a stream are to be taken, whatever its own markers say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Transform {
    /// They are the colours themselves.
    None,
    /// The first three are `YCbCr`.
    YCbCr,
}

impl Transform {
    const fn adobe_segment(self) -> [u8; 16] {
        let transform = match self {
            Self::None => 0,
            Self::YCbCr => 1,
        };
        [0xFF, APP14, 0, 14, b'A', b'd', b'o', b'b', b'e', 0, 100, 0, 0, 0, 0, transform]
    }
}

/// Joins the tables and the image of a TIFF file into one stream, and says what its components
/// are.
///
/// # Errors
///
/// When a byte before the first scan is no marker, a length leads past the end, or there is no
/// scan.
pub(super) fn join_tiff(
    tables: &[u8],
    payload: &[u8],
    transform: Transform,
    out: &mut Vec<u8>,
) -> Result<()> {
    let inner = |bytes: &'_ [u8]| -> Range<usize> {
        let start = if bytes.starts_with(&[0xFF, SOI]) { 2 } else { 0 };
        let end =
            if bytes.ends_with(&[0xFF, EOI]) { bytes.len().saturating_sub(2) } else { bytes.len() };
        start..end.max(start)
    };
    let tables = tables.get(inner(tables)).unwrap_or_default();
    let payload = payload.get(inner(payload)).unwrap_or_default();
    out.clear();
    out.extend_from_slice(&[0xFF, SOI]);
    out.extend_from_slice(tables);
    out.extend_from_slice(payload);
    out.extend_from_slice(&[0xFF, EOI]);
    let mut walk = Walk::new(out, 2, false);
    let at = loop {
        let segment = walk.next_segment()?;
        if segment.marker == SOS {
            break segment.at;
        }
    };
    let segment = transform.adobe_segment();
    out.splice(at..at, segment);
    Ok(())
}

/// Copies a stream so that its components come out as they are stored.
pub(super) fn without_transform(stream: &[u8], lenient: bool, out: &mut Vec<u8>) -> Result<()> {
    out.clear();
    out.extend_from_slice(&[0xFF, SOI]);
    let mut walk = Walk::new(stream, 2, lenient);
    loop {
        let segment = walk.next_segment()?;
        match segment.marker {
            SOS => {
                out.extend_from_slice(&Transform::None.adobe_segment());
                out.extend_from_slice(stream.get(segment.at..).unwrap_or_default());
                return Ok(());
            }
            APP0..=0xEF => {}
            _ => {
                let bytes = stream.get(segment.at..walk.position());
                out.extend_from_slice(bytes.unwrap_or_default());
            }
        }
    }
}
