//! Finding the pixel data of a large file without reading it.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use bytes::Bytes;
use dicom_core::{Tag, VR};

use super::form::PIXEL_ELEMENTS;
use super::source::PixelSource;
use crate::dicom::object::MAX_NESTING;
use crate::dicom::parse::{self, DicomFile};
use crate::dicom::syntax::{self, Encoding};
use crate::dicom::write::has_short_length;

/// Files up to this size are read whole.
pub(crate) const LARGE: u64 = 8 << 20;
/// Bytes behind the pixel data that are still read.
const MAX_TRAILING: u64 = 16 << 20;
/// Bytes in front of the pixel data that are read; no size of a file bounds what it claims there, as
/// most of it need not be stored.
const MAX_HEAD: u64 = 2 << 30;
/// Bytes that are read at a time.
const WINDOW: usize = 64 << 10;

/// A file as a window that moves forward.
struct Window {
    file: File,
    size: u64,
    start: u64,
    bytes: Vec<u8>,
}

impl Window {
    /// `length` bytes at a position; nothing behind the end.
    fn at(&mut self, position: u64, length: usize) -> Option<&[u8]> {
        let wanted = u64::try_from(length).ok()?;
        let end = position.checked_add(wanted).filter(|end| *end <= self.size)?;
        let have = self.start.saturating_add(u64::try_from(self.bytes.len()).ok()?);
        if position < self.start || end > have {
            let left = usize::try_from(self.size.saturating_sub(position)).unwrap_or(usize::MAX);
            self.bytes.resize(WINDOW.max(length).min(left), 0);
            self.start = position;
            self.file.seek(SeekFrom::Start(position)).ok()?;
            self.file.read_exact(&mut self.bytes).ok()?;
        }
        let from = usize::try_from(position.saturating_sub(self.start)).ok()?;
        self.bytes.get(from..from.checked_add(length)?)
    }

    /// Bytes of the file, not through the window.
    fn read(&mut self, start: u64, length: u64) -> Option<Vec<u8>> {
        let end = start.checked_add(length).filter(|end| *end <= self.size)?;
        let mut bytes = vec![0; usize::try_from(end.saturating_sub(start)).ok()?];
        self.file.seek(SeekFrom::Start(start)).ok()?;
        self.file.read_exact(&mut bytes).ok()?;
        self.bytes.clear();
        Some(bytes)
    }
}

#[derive(Clone, Copy)]
struct Header {
    tag: Tag,
    vr: Option<VR>,
    length: Option<u64>,
    value: u64,
}

fn header(window: &mut Window, position: u64, explicit: bool) -> Option<Header> {
    let head: [u8; 8] = window.at(position, 8)?.try_into().ok()?;
    let [a, b, c, d, e, f, g, h] = head;
    let tag = Tag(u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d]));
    let some = |length: u32| (length != u32::MAX).then_some(u64::from(length));
    if !explicit || tag.0 == 0xFFFE {
        let length = some(u32::from_le_bytes([e, f, g, h]));
        return Some(Header { tag, vr: None, length, value: position.checked_add(8)? });
    }
    let vr = VR::from_binary([e, f])?;
    if has_short_length(vr) {
        let length = u64::from(u16::from_le_bytes([g, h]));
        return Some(Header {
            tag,
            vr: Some(vr),
            length: Some(length),
            value: position.checked_add(8)?,
        });
    }
    let four: [u8; 4] = window.at(position.checked_add(8)?, 4)?.try_into().ok()?;
    let length = some(u32::from_le_bytes(four));
    Some(Header { tag, vr: Some(vr), length, value: position.checked_add(12)? })
}

/// The end of a sequence of undefined length whose items begin at a position.
fn end_of_sequence(window: &mut Window, mut position: u64, explicit: bool) -> Option<u64> {
    // Whether what is open is an item; sequences hold items, items hold elements.
    let mut open: Vec<(bool, bool)> = vec![(false, explicit)];
    let start = position;
    while let Some((in_item, explicit)) = open.last().copied() {
        if position.saturating_sub(start) > MAX_HEAD {
            return None;
        }
        if open.len() > MAX_NESTING.saturating_mul(2) {
            return None;
        }
        let found = header(window, position, explicit)?;
        position = found.value;
        match (found.tag, found.length) {
            (Tag(0xFFFE, 0xE00D), _) if in_item => {
                open.pop();
            }
            (Tag(0xFFFE, 0xE0DD), _) if !in_item => {
                open.pop();
            }
            (Tag(0xFFFE, 0xE000), Some(length)) if !in_item => {
                position = position.checked_add(length)?;
            }
            (Tag(0xFFFE, 0xE000), None) if !in_item => open.push((true, explicit)),
            (Tag(0xFFFE, _), _) => return None,
            (_, Some(length)) if in_item => position = position.checked_add(length)?,
            (_, None) if in_item => {
                // What is unknown and of undefined length is implicit inside.
                open.push((false, explicit && found.vr != Some(VR::UN)));
            }
            _ => return None,
        }
    }
    Some(position)
}

/// Where the data set begins, and how it is encoded.
fn beginning(window: &mut Window) -> Option<(u64, bool)> {
    if window.at(128, 4)? != b"DICM" {
        return None;
    }
    let mut position = 132;
    let mut uid = None;
    loop {
        if window.at(position, 2)? != [2, 0] {
            break;
        }
        let found = header(window, position, true)?;
        let length = found.length?;
        if found.tag == Tag(2, 0x10) {
            let value = window.at(found.value, usize::try_from(length.min(64)).ok()?)?;
            let text: String = value.iter().map(|byte| char::from(*byte)).collect();
            uid = Some(text.trim_matches([' ', '\0']).to_owned());
        }
        position = found.value.checked_add(length)?;
    }
    let uid = uid?;
    // What is deflated or big endian has to be turned first, as a whole.
    if uid == syntax::DEFLATED || uid == syntax::BIG_ENDIAN {
        return None;
    }
    let explicit = syntax::encoding(&uid) == Encoding::Explicit;
    let first = window.at(position, 6)?;
    let looks_explicit = first
        .get(4..6)
        .and_then(|two| two.first_chunk::<2>())
        .is_some_and(|two| VR::from_binary(*two).is_some());
    (explicit == looks_explicit).then_some((position, explicit))
}

/// Reads a file up to its pixel data, which stays where it is. Gives nothing for a small file, one
/// without pixel data, and one that is unusual enough to be read whole.
pub(crate) fn split(path: &Path, max_bytes: u64) -> Option<(DicomFile, PixelSource)> {
    let file = File::open(path).ok()?;
    let meta = file.metadata().ok()?;
    let size = meta.len();
    if !meta.is_file() || size <= LARGE || size > max_bytes {
        return None;
    }
    let mut window = Window { file, size, start: 0, bytes: Vec::new() };
    let (mut position, explicit) = beginning(&mut window)?;
    let mut before = None;
    let pixels = loop {
        let found = header(&mut window, position, explicit)?;
        // Elements ascend; zeros would be elements without end.
        if before.replace(found.tag).is_some_and(|before| before >= found.tag) {
            return None;
        }
        if PIXEL_ELEMENTS.contains(&found.tag) {
            break found;
        }
        if found.tag.0 >= 0x7FE1 || found.tag.0 == 0xFFFE {
            return None;
        }
        position = match found.length {
            Some(length) => found.value.checked_add(length)?,
            None => {
                let explicit = explicit && found.vr != Some(VR::UN);
                end_of_sequence(&mut window, found.value, explicit)?
            }
        };
    };
    let (spans, end) = match pixels.length {
        Some(length) => {
            let end = pixels.value.checked_add(length).filter(|end| *end <= size)?;
            (vec![(pixels.value, length)], end)
        }
        None => fragments(&mut window, pixels.value)?,
    };
    let trailing = size.saturating_sub(end);
    if trailing > MAX_TRAILING || position > max_bytes.min(MAX_HEAD) {
        return None;
    }
    let mut head = window.read(0, position)?;
    head.extend(window.read(end, trailing)?);
    let object = parse::parse(&Bytes::from(head), max_bytes).ok()?;
    // Nothing more of it may stand behind the pixel data.
    if PIXEL_ELEMENTS.iter().any(|tag| object.data.get(*tag).is_some()) {
        return None;
    }
    let native = pixels.length.is_some();
    let source = PixelSource::of_file(window.file, spans, native, pixels.tag).ok()?;
    Some((object, source))
}

/// Spans of fragments, the offset table among them, and where they end.
fn fragments(window: &mut Window, mut position: u64) -> Option<(Vec<(u64, u64)>, u64)> {
    let mut spans = Vec::new();
    loop {
        let mut head = [0; 8];
        window.file.seek(SeekFrom::Start(position)).ok()?;
        window.file.read_exact(&mut head).ok()?;
        let [a, b, c, d, e, f, g, h] = head;
        let value = position.checked_add(8)?;
        let length = u64::from(u32::from_le_bytes([e, f, g, h]));
        match Tag(u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d])) {
            Tag(0xFFFE, 0xE000) => {
                position = value.checked_add(length).filter(|end| *end <= window.size)?;
                spans.push((value, length));
            }
            Tag(0xFFFE, 0xE0DD) => {
                window.bytes.clear();
                return Some((spans, value));
            }
            _ => return None,
        }
    }
}
