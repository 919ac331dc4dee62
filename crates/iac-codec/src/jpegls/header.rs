//! The marker segments of a JPEG-LS stream, read before the library sees it.
//!
//! The library trusts later scans to be of the first one's interleave mode and writes past the
//! end of a plane when they are not, so every scan header is checked here.

use super::{NAME, unsupported};
use crate::{CodecError, ImageShape, Result, SampleType};

const SOI: u8 = 0xD8;
const EOI: u8 = 0xD9;
const SOS: u8 = 0xDA;
const SOF_JPEG_LS: u8 = 0xF7;
const LSE: u8 = 0xF8;
const APP8: u8 = 0xE8;

/// How the samples of a pixel follow each other in a scan (ILV).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Interleave {
    /// A scan for each component.
    None,
    /// One scan; a line of each component in turn.
    Line,
    /// One scan; a sample of each component in turn.
    Sample,
}

/// What the headers of a stream say.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) shape: ImageShape,
    pub(super) bits: u8,
    pub(super) interleave: Interleave,
    /// For each scan of a stream without interleaving: the channel that it holds. Only
    /// [`Header::read_all`] fills this.
    pub(super) channels: Vec<usize>,
}

impl Header {
    /// Reads as far as the first scan.
    pub(super) fn read_first(payload: &[u8]) -> Result<Self> {
        Reader::new(payload).read(false)
    }

    /// Reads the headers of all scans; the scans of an interleaved stream are one.
    pub(super) fn read_all(payload: &[u8]) -> Result<Self> {
        Reader::new(payload).read(true)
    }

    pub(super) const fn sample_type(&self) -> SampleType {
        if self.bits <= 8 { SampleType::U8 } else { SampleType::U16 }
    }

    /// Whether the library's output is one plane for each channel.
    pub(super) fn is_planar(&self) -> bool {
        self.interleave == Interleave::None && self.shape.channels() > 1
    }
}

/// The payload up to its last end-of-image marker; what follows has no meaning.
///
/// Where a payload ends inside a scan, the library reads on without end unless a marker stops it,
/// so it only ever sees slices that end in one.
pub(super) fn up_to_end_marker(payload: &[u8]) -> Result<&[u8]> {
    let end = payload.windows(2).rposition(|two| two == [0xFF, EOI]);
    let end = end.and_then(|at| at.checked_add(2)).and_then(|end| payload.get(..end));
    end.ok_or_else(|| damaged("it is cut: there is no end-of-image marker"))
}

fn damaged(reason: impl Into<String>) -> CodecError {
    CodecError::decode(NAME, reason)
}

struct Reader<'a> {
    rest: &'a [u8],
    total: usize,
    /// Height and width, once a frame header or an oversize segment gave them.
    height: u32,
    width: u32,
    bits: u8,
    components: Vec<u8>,
    color_transform: u8,
    mapping_table: bool,
    /// MAXVAL of the last segment of preset parameters; 0 stands for the full range.
    maximum_sample_value: u16,
    /// RESET of the same; 0 stands for the standard's 64.
    reset_value: u16,
}

impl<'a> Reader<'a> {
    fn new(payload: &'a [u8]) -> Self {
        Self {
            rest: payload,
            total: payload.len(),
            height: 0,
            width: 0,
            bits: 0,
            components: Vec::new(),
            color_transform: 0,
            mapping_table: false,
            maximum_sample_value: 0,
            reset_value: 0,
        }
    }

    fn position(&self) -> usize {
        self.total.saturating_sub(self.rest.len())
    }

    fn read(mut self, all_scans: bool) -> Result<Header> {
        if self.marker()? != SOI {
            return Err(damaged("it does not start with the marker of a JPEG-LS stream"));
        }
        let (shape, interleave, first) = loop {
            let marker = self.marker()?;
            let segment = self.segment(marker)?;
            match marker {
                SOF_JPEG_LS => self.frame(segment)?,
                LSE => self.preset(segment)?,
                APP8 => {
                    if let &[b'm', b'r', b'f', b'x', transform] = segment {
                        self.color_transform = transform;
                    }
                }
                SOS => break self.first_scan(segment)?,
                0xC0..=0xCF if !matches!(marker, 0xC4 | 0xC8 | 0xCC) => {
                    return Err(damaged(format!(
                        "its frame is of JPEG process {}, not JPEG-LS",
                        marker & 0x0F
                    )));
                }
                _ => {}
            }
        };
        let mut header = Header { shape, bits: self.bits, interleave, channels: Vec::new() };
        if all_scans && header.is_planar() {
            header.channels = self.later_scans(first)?;
        }
        Ok(header)
    }

    /// The next marker; any number of 0xFF before it are fill bytes.
    fn marker(&mut self) -> Result<u8> {
        let position = self.position();
        if self.byte()? != 0xFF {
            return Err(damaged(format!("there is no marker at byte {position}")));
        }
        loop {
            match self.byte()? {
                0xFF => {}
                marker => return Ok(marker),
            }
        }
    }

    fn byte(&mut self) -> Result<u8> {
        let (first, rest) = self.rest.split_first().ok_or_else(|| self.cut())?;
        self.rest = rest;
        Ok(*first)
    }

    fn cut(&self) -> CodecError {
        damaged(format!("it ends after {} bytes, inside its headers", self.total))
    }

    fn segment(&mut self, marker: u8) -> Result<&'a [u8]> {
        if marker == EOI || (0xD0..=0xD7).contains(&marker) || marker == SOI || marker == 0 {
            return Err(damaged(format!(
                "marker 0x{marker:02X} at byte {} stands where a header should",
                self.position().saturating_sub(2)
            )));
        }
        let (length, rest) = self.rest.split_first_chunk().ok_or_else(|| self.cut())?;
        let length = usize::from(u16::from_be_bytes(*length));
        let data = length.checked_sub(2).ok_or_else(|| {
            damaged(format!("a segment at byte {} claims {length} bytes", self.position()))
        })?;
        let (segment, rest) = rest.split_at_checked(data).ok_or_else(|| self.cut())?;
        self.rest = rest;
        Ok(segment)
    }

    fn frame(&mut self, segment: &[u8]) -> Result<()> {
        if !self.components.is_empty() {
            return Err(damaged("it has two frame headers"));
        }
        let &[bits, h1, h0, w1, w0, count, ref components @ ..] = segment else {
            return Err(damaged(format!("its frame header has {} bytes", segment.len())));
        };
        if !(2..=16).contains(&bits) {
            return Err(damaged(format!("its samples have {bits} bits instead of 2 to 16")));
        }
        if usize::from(count).checked_mul(3) != Some(components.len()) || count == 0 {
            return Err(damaged(format!(
                "its frame header has {} bytes for {count} components",
                segment.len()
            )));
        }
        self.bits = bits;
        let height = u32::from(u16::from_be_bytes([h1, h0]));
        let width = u32::from(u16::from_be_bytes([w1, w0]));
        self.sides(height, width)?;
        for component in components.chunks_exact(3) {
            let &[id, sampling, _] = component else { continue };
            if sampling != 0x11 {
                return Err(unsupported(format!(
                    "component {id} is sampled {} x {} times, only 1 x 1 is supported",
                    sampling >> 4,
                    sampling & 0x0F
                )));
            }
            if self.components.contains(&id) {
                return Err(damaged(format!("its frame header names component {id} twice")));
            }
            self.components.push(id);
        }
        Ok(())
    }

    /// Takes height and width; sides of 0 stand for sides that another segment gives.
    fn sides(&mut self, height: u32, width: u32) -> Result<()> {
        for (known, found, name) in
            [(&mut self.height, height, "height"), (&mut self.width, width, "width")]
        {
            if found == 0 {
                continue;
            }
            if *known != 0 && *known != found {
                return Err(damaged(format!("it claims a {name} of {known} and of {found}")));
            }
            *known = found;
        }
        Ok(())
    }

    fn preset(&mut self, segment: &[u8]) -> Result<()> {
        match segment {
            [2 | 3, ..] => self.mapping_table = true,
            &[4, 2, h1, h0, w1, w0] => self.sides(
                u32::from(u16::from_be_bytes([h1, h0])),
                u32::from(u16::from_be_bytes([w1, w0])),
            )?,
            &[4, 3, h2, h1, h0, w2, w1, w0] => self
                .sides(u32::from_be_bytes([0, h2, h1, h0]), u32::from_be_bytes([0, w2, w1, w0]))?,
            &[4, 4, h3, h2, h1, h0, w3, w2, w1, w0] => self.sides(
                u32::from_be_bytes([h3, h2, h1, h0]),
                u32::from_be_bytes([w3, w2, w1, w0]),
            )?,
            &[id @ 5..=13, ..] => {
                return Err(unsupported(format!(
                    "its preset segment of type {id} is an extension"
                )));
            }
            // The thresholds in between are checked by the library.
            &[1, m1, m0, _, _, _, _, _, _, r1, r0] => {
                self.maximum_sample_value = u16::from_be_bytes([m1, m0]);
                self.reset_value = u16::from_be_bytes([r1, r0]);
            }
            _ => {}
        }
        Ok(())
    }

    fn first_scan(&mut self, segment: &[u8]) -> Result<(ImageShape, Interleave, usize)> {
        if self.components.is_empty() {
            return Err(damaged("a scan comes before the frame header"));
        }
        if self.mapping_table {
            return Err(unsupported("its samples go through a mapping table"));
        }
        let (height, width) = (self.height, self.width);
        let count = self.components.len();
        let channels = u32::try_from(count).unwrap_or(u32::MAX);
        if height == 0 || width == 0 {
            return Err(damaged(format!("its frame header claims {height} x {width} pixels")));
        }
        let shape =
            ImageShape::new(height, width, channels).map_err(|error| damaged(error.to_string()))?;
        let (interleave, channel) = self.scan(segment)?;
        self.check_preset(interleave)?;
        if interleave != Interleave::None {
            if !matches!(count, 3 | 4) {
                return Err(unsupported(format!(
                    "{count} interleaved components are not supported, only 3 or 4"
                )));
            }
        } else if count > 1 && self.color_transform != 0 {
            return Err(unsupported(format!(
                "colour transform {} over separate scans is not supported",
                self.color_transform
            )));
        }
        Ok((shape, interleave, channel))
    }

    /// Refuses preset parameters that the library takes for others: it has the highest value of the
    /// depth, one byte for the reset value, and no code for pixels of other reset values than 64
    /// (it would decode them as single samples, and read past its own lines).
    fn check_preset(&self, interleave: Interleave) -> Result<()> {
        let full = u16::MAX >> 16_u32.saturating_sub(u32::from(self.bits));
        if self.maximum_sample_value != 0 && self.maximum_sample_value != full {
            return Err(unsupported(format!(
                "its highest sample value is {}, only the {full} of {} bits is supported",
                self.maximum_sample_value, self.bits
            )));
        }
        match self.reset_value {
            0 | 64 => Ok(()),
            3..=255 if interleave != Interleave::Sample => Ok(()),
            found => Err(unsupported(format!(
                "a reset value of {found} in a scan of interleave mode {interleave:?} is not supported"
            ))),
        }
    }

    /// The interleave mode of a scan and its first component's position in the frame.
    fn scan(&self, segment: &[u8]) -> Result<(Interleave, usize)> {
        let wrong_size = || damaged(format!("a scan header has {} bytes", segment.len()));
        let (count, rest) = segment.split_first().ok_or_else(wrong_size)?;
        let selectors = usize::from(*count).checked_mul(2).ok_or_else(wrong_size)?;
        let (selectors, rest) = rest.split_at_checked(selectors).ok_or_else(wrong_size)?;
        let &[_near, interleave, _transform] = rest else { return Err(wrong_size()) };
        let interleave = match interleave {
            0 => Interleave::None,
            1 => Interleave::Line,
            2 => Interleave::Sample,
            other => return Err(damaged(format!("a scan has interleave mode {other}"))),
        };
        let wanted = if interleave == Interleave::None { 1 } else { self.components.len() };
        if usize::from(*count) != wanted {
            return Err(damaged(format!(
                "a scan of interleave mode {interleave:?} has {count} components instead of {wanted}"
            )));
        }
        let mut first = None;
        for (at, selector) in selectors.chunks_exact(2).enumerate() {
            let &[id, table] = selector else { continue };
            if table != 0 {
                return Err(unsupported(format!(
                    "the samples of component {id} go through mapping table {table}"
                )));
            }
            // Some writers number the components of scans otherwise than the frame; where order
            // is the only meaning left, it counts.
            let channel = self.components.iter().position(|component| *component == id);
            if interleave != Interleave::None && channel.is_some_and(|channel| channel != at) {
                return Err(unsupported("the components of its scan are not in the frame's order"));
            }
            first = first.or(channel);
        }
        match first {
            Some(channel) => Ok((interleave, channel)),
            None if interleave != Interleave::None || self.components.len() == 1 => {
                Ok((interleave, 0))
            }
            None => Err(damaged("a scan is for a component that the frame does not have")),
        }
    }

    fn later_scans(&mut self, first: usize) -> Result<Vec<usize>> {
        let mut channels = vec![first];
        while channels.len() < self.components.len() {
            self.skip_scan()?;
            loop {
                let marker = self.marker()?;
                if marker == EOI {
                    return Err(damaged(format!(
                        "it ends after {} of {} scans",
                        channels.len(),
                        self.components.len()
                    )));
                }
                let segment = self.segment(marker)?;
                match marker {
                    SOS => {
                        let (interleave, channel) = self.scan(segment)?;
                        self.check_preset(interleave)?;
                        if interleave != Interleave::None {
                            return Err(damaged("its scans differ in their interleave mode"));
                        }
                        if channels.contains(&channel) {
                            return Err(damaged(format!("it has two scans of channel {channel}")));
                        }
                        channels.push(channel);
                        break;
                    }
                    LSE => {
                        self.preset(segment)?;
                        if self.mapping_table {
                            return Err(unsupported("its samples go through a mapping table"));
                        }
                    }
                    SOF_JPEG_LS => return Err(damaged("it has two frame headers")),
                    _ => {}
                }
            }
        }
        Ok(channels)
    }

    /// Goes to the marker behind a scan's bits, in which 0xFF is followed by a byte below 0x80.
    fn skip_scan(&mut self) -> Result<()> {
        loop {
            let at = self.rest.iter().position(|byte| *byte == 0xFF).ok_or_else(|| self.cut())?;
            let rest = self.rest.get(at..).unwrap_or_default();
            match rest.get(1) {
                None => return Err(self.cut()),
                Some(0xD0..=0xD7) => self.rest = rest.get(2..).unwrap_or_default(),
                Some(0x80..) => {
                    self.rest = rest;
                    return Ok(());
                }
                Some(_) => self.rest = rest.get(2..).unwrap_or_default(),
            }
        }
    }
}
