//! Elements one after the other, with a stack of our own for sequences.

use bytes::Bytes;
use dicom_core::dictionary::{DataDictionary, DataDictionaryEntry};
use dicom_core::{Length, Tag, VR};
use dicom_dictionary_std::StandardDataDictionary;
use dicom_encoding::decode::Decode;
use dicom_encoding::decode::explicit_be::ExplicitVRBigEndianDecoder;
use dicom_encoding::decode::explicit_le::ExplicitVRLittleEndianDecoder;
use dicom_encoding::decode::implicit_le::StandardImplicitVRLittleEndianDecoder;
use iac_format::ErrorKind;

use super::represent::{is_ambiguous, swapped};
use crate::dicom::fault::{Fault, Result};
use crate::dicom::object::{DataSet, Element, ElementValue, MAX_NESTING, PIXEL_DATA, tag_text};
use crate::dicom::syntax::Encoding;

const ITEM: Tag = Tag(0xFFFE, 0xE000);
const ITEM_END: Tag = Tag(0xFFFE, 0xE00D);
const SEQUENCE_END: Tag = Tag(0xFFFE, 0xE0DD);

/// A header, and where its value begins.
pub(super) struct Header {
    pub(super) tag: Tag,
    pub(super) vr: VR,
    pub(super) length: Length,
    pub(super) value: usize,
    /// The representation came from a dictionary.
    looked_up: bool,
}

pub(super) fn header(encoding: Encoding, bytes: &[u8], position: usize) -> Result<Header> {
    let mut rest = bytes.get(position..).unwrap_or_default();
    let source = &mut rest;
    let decoded = match encoding {
        Encoding::Implicit => {
            StandardImplicitVRLittleEndianDecoder::default().decode_header(source)
        }
        Encoding::Explicit => ExplicitVRLittleEndianDecoder::default().decode_header(source),
        Encoding::BigEndian => ExplicitVRBigEndianDecoder::default().decode_header(source),
    };
    let (header, read) = decoded.map_err(|_| {
        Fault::decode(format!("the data set is cut inside of an element at byte {position}"))
    })?;
    let value = position.saturating_add(read);
    let (tag, mut vr) = (header.tag, header.vr);
    let mut looked_up = encoding == Encoding::Implicit;
    let creator = tag.0 % 2 == 1 && (0x10..=0xFF).contains(&tag.1);
    if vr == VR::UN && creator {
        vr = VR::LO;
    } else if vr == VR::UN
        && tag.0 % 2 == 0
        && header.len.get().is_none_or(|length| length < 0xFFFF)
    {
        // What is in the dictionary is not unknown, whatever the writer knew.
        if let Some(entry) = StandardDataDictionary.by_tag(tag) {
            vr = entry.vr().relaxed();
            looked_up = true;
        }
    }
    Ok(Header { tag, vr, length: header.len, value, looked_up })
}

pub(super) fn take(bytes: &Bytes, start: usize, length: u32) -> Option<Bytes> {
    let end = start.checked_add(usize::try_from(length).ok()?)?;
    (end <= bytes.len()).then(|| bytes.slice(start..end))
}

pub(super) fn cut(tag: Tag, length: u32, end: usize, start: usize) -> Fault {
    let left = end.saturating_sub(start);
    Fault::decode(format!("its value has {length} bytes, but only {left} are left")).at(tag)
}

/// What is open while elements are read.
enum Frame {
    /// A data set or item; it ends at a byte, or at its delimiter.
    Set { elements: Vec<Element>, end: Option<usize> },
    /// A sequence. Its items may be encoded otherwise than what is around it.
    Sequence {
        tag: Tag,
        vr: VR,
        start: usize,
        items: Vec<DataSet>,
        end: Option<usize>,
        outer: Encoding,
    },
}

pub(super) struct Parser<'a> {
    bytes: &'a Bytes,
    encoding: Encoding,
    position: usize,
    stack: Vec<Frame>,
    depth: usize,
}

impl<'a> Parser<'a> {
    pub(super) fn new(bytes: &'a Bytes, encoding: Encoding) -> Self {
        Self { bytes, encoding, position: 0, stack: Vec::new(), depth: 0 }
    }

    pub(super) fn run(mut self) -> Result<DataSet> {
        self.stack.push(Frame::Set { elements: Vec::new(), end: Some(self.bytes.len()) });
        loop {
            match self.step() {
                Ok(None) => {}
                Ok(Some(data)) => return Ok(data),
                Err(fault) if fault.kind == ErrorKind::Limit => return Err(fault),
                // A sequence of known length that holds garbage can be kept as bytes.
                Err(fault) => {
                    if !self.give_up_sequence() {
                        return Err(fault);
                    }
                }
            }
        }
    }

    /// Where the innermost frame with a known length ends.
    fn bound(&self) -> usize {
        let ends = self.stack.iter().rev().find_map(|frame| match frame {
            Frame::Set { end, .. } | Frame::Sequence { end, .. } => *end,
        });
        ends.unwrap_or(self.bytes.len())
    }

    fn step(&mut self) -> Result<Option<DataSet>> {
        let bound = self.bound();
        match self.stack.last() {
            Some(Frame::Set { end, .. }) => {
                if end.is_some_and(|end| self.position >= end) {
                    return Ok(self.close_set());
                }
                self.element(bound)?;
            }
            Some(Frame::Sequence { end, tag, .. }) => {
                if end.is_some_and(|end| self.position >= end) {
                    self.close_sequence();
                    return Ok(None);
                }
                let tag = *tag;
                self.item(tag, bound)?;
            }
            None => return Ok(Some(DataSet::new())),
        }
        Ok(None)
    }

    fn element(&mut self, bound: usize) -> Result<()> {
        if bound.saturating_sub(self.position) < 8 {
            let at_root = self.stack.len() == 1;
            let rest = self.bytes.get(self.position..bound).unwrap_or_default();
            if at_root && rest.iter().all(|byte| *byte == 0) {
                // Files are padded by some archives.
                self.position = bound;
                return Ok(());
            }
            return Err(Fault::decode(format!(
                "the data set is cut inside of an element at byte {}",
                self.position
            )));
        }
        let header = header(self.encoding, self.bytes, self.position)?;
        if header.tag == ITEM_END {
            return match self.stack.last_mut() {
                Some(Frame::Set { end, .. }) if self.depth > 0 => {
                    *end = Some(0);
                    self.position = header.value;
                    Ok(())
                }
                _ => {
                    Err(Fault::decode("the end of an item stands where there is none").at(ITEM_END))
                }
            };
        }
        if header.tag.0 == 0xFFFE {
            return Err(Fault::decode("stands between elements").at(header.tag));
        }
        if header.value > bound {
            return Err(Fault::decode(format!(
                "the data set is cut inside of an element at byte {}",
                self.position
            )));
        }
        match header.length.get() {
            None => self.undefined(&header),
            Some(length) => self.defined(&header, length, bound),
        }
    }

    fn defined(&mut self, header: &Header, length: u32, bound: usize) -> Result<()> {
        let end = usize::try_from(length).ok().and_then(|length| header.value.checked_add(length));
        let Some(end) = end.filter(|end| *end <= bound) else {
            // Pixels that are cut are reported when they are decoded; the rest is sound.
            if header.tag == PIXEL_DATA && self.stack.len() == 1 {
                let value = self.bytes.slice(header.value..bound);
                self.position = bound;
                self.push(header, value);
                return Ok(());
            }
            return Err(cut(header.tag, length, bound, header.value));
        };
        if header.vr == VR::SQ {
            return self.open(header, Some(end), self.encoding);
        }
        let value = self.bytes.slice(header.value..end);
        self.position = end;
        self.push(header, value);
        Ok(())
    }

    fn push(&mut self, header: &Header, value: Bytes) {
        let value =
            if self.encoding == Encoding::BigEndian { swapped(header.vr, value) } else { value };
        // The representation is settled when the whole data set is known.
        let vr = if header.looked_up && is_ambiguous(header.tag) { VR::UN } else { header.vr };
        if let Some(Frame::Set { elements, .. }) = self.stack.last_mut() {
            elements.push(Element::new(header.tag, vr, value));
        }
    }

    fn undefined(&mut self, header: &Header) -> Result<()> {
        match header.vr {
            VR::OB | VR::OW if header.tag == PIXEL_DATA => self.fragments(header),
            VR::SQ => self.open(header, None, self.encoding),
            // Unknown elements of undefined length are sequences with implicit VR.
            VR::UN => self.open(
                header,
                None,
                if self.encoding == Encoding::BigEndian {
                    self.encoding
                } else {
                    Encoding::Implicit
                },
            ),
            _ => {
                Err(Fault::decode("its length is undefined, but it is no sequence").at(header.tag))
            }
        }
    }

    fn open(&mut self, header: &Header, end: Option<usize>, inner: Encoding) -> Result<()> {
        self.depth = self.depth.saturating_add(1);
        if self.depth > MAX_NESTING {
            return Err(Fault::new(
                ErrorKind::Limit,
                format!("sequences are nested more than {MAX_NESTING} levels deep"),
            )
            .at(header.tag));
        }
        self.position = header.value;
        self.stack.push(Frame::Sequence {
            tag: header.tag,
            vr: VR::SQ,
            start: header.value,
            items: Vec::new(),
            end,
            outer: self.encoding,
        });
        self.encoding = inner;
        Ok(())
    }

    fn item(&mut self, sequence: Tag, bound: usize) -> Result<()> {
        let (tag, length, value) = self.item_header(bound, sequence)?;
        self.position = value;
        match tag {
            SEQUENCE_END => {
                self.close_sequence();
                Ok(())
            }
            ITEM => {
                let end = match length.get() {
                    None => None,
                    Some(length) => {
                        let end = usize::try_from(length).ok().and_then(|it| value.checked_add(it));
                        Some(end.filter(|end| *end <= bound).ok_or_else(|| {
                            Fault::decode(format!(
                                "an item has {length} bytes, but only {} are left",
                                bound.saturating_sub(value)
                            ))
                            .at(sequence)
                        })?)
                    }
                };
                self.stack.push(Frame::Set { elements: Vec::new(), end });
                Ok(())
            }
            _ => Err(Fault::decode(format!("{} stands where an item is expected", tag_text(tag)))
                .at(sequence)),
        }
    }

    fn item_header(&self, bound: usize, within: Tag) -> Result<(Tag, Length, usize)> {
        let value = self.position.saturating_add(8);
        let head = self
            .bytes
            .get(self.position..value.min(bound))
            .and_then(|head| head.first_chunk::<8>());
        let Some([a, b, c, d, e, f, g, h]) = head.copied() else {
            return Err(Fault::decode("it ends before its last item does").at(within));
        };
        Ok(if self.encoding == Encoding::BigEndian {
            let tag = Tag(u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
            (tag, Length(u32::from_be_bytes([e, f, g, h])), value)
        } else {
            let tag = Tag(u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d]));
            (tag, Length(u32::from_le_bytes([e, f, g, h])), value)
        })
    }

    fn fragments(&mut self, header: &Header) -> Result<()> {
        let bound = self.bound();
        let start = header.value;
        self.position = start;
        let mut fragments = Vec::new();
        let mut end = start;
        loop {
            if self.position >= bound && !fragments.is_empty() {
                // The delimiter is missing; every piece is there.
                break;
            }
            end = self.position;
            let (tag, length, value) = self.item_header(bound, header.tag)?;
            match (tag, length.get()) {
                (SEQUENCE_END, _) => {
                    self.position = value;
                    break;
                }
                (ITEM, Some(length)) => {
                    let left = bound.saturating_sub(value);
                    let piece = take(self.bytes, value, length)
                        .filter(|piece| piece.len() <= left)
                        .ok_or_else(|| {
                            Fault::decode(format!(
                                "a fragment has {length} bytes, but only {left} are left"
                            ))
                            .at(header.tag)
                        })?;
                    self.position = value.saturating_add(piece.len());
                    end = self.position;
                    fragments.push(piece);
                }
                _ => {
                    return Err(Fault::decode(format!(
                        "{} stands where a fragment is expected",
                        tag_text(tag)
                    ))
                    .at(header.tag));
                }
            }
        }
        let nested = self.stack.len() > 1;
        let value = if nested {
            ElementValue::Bytes(self.bytes.slice(start..end.max(start)))
        } else {
            ElementValue::Fragments(fragments)
        };
        if let Some(Frame::Set { elements, .. }) = self.stack.last_mut() {
            elements.push(Element { tag: header.tag, vr: VR::OB, value });
        }
        Ok(())
    }

    fn close_set(&mut self) -> Option<DataSet> {
        let Some(Frame::Set { elements, .. }) = self.stack.pop() else {
            return None;
        };
        let set = DataSet::from_elements(elements);
        match self.stack.last_mut() {
            Some(Frame::Sequence { items, .. }) => {
                items.push(set);
                None
            }
            _ => Some(set),
        }
    }

    fn close_sequence(&mut self) {
        if let Some(Frame::Sequence { tag, vr, items, outer, .. }) = self.stack.pop() {
            self.depth = self.depth.saturating_sub(1);
            self.encoding = outer;
            if let Some(Frame::Set { elements, .. }) = self.stack.last_mut() {
                elements.push(Element { tag, vr, value: ElementValue::Items(items) });
            }
        }
    }

    /// Turns the innermost sequence whose end is known into bytes. Says whether there was one.
    fn give_up_sequence(&mut self) -> bool {
        let known = |frame: &Frame| matches!(frame, Frame::Sequence { end: Some(_), .. });
        let Some(position) = self.stack.iter().rposition(known) else {
            return false;
        };
        let dropped = self
            .stack
            .drain(position.saturating_add(1)..)
            .filter(|frame| matches!(frame, Frame::Sequence { .. }))
            .count();
        self.depth = self.depth.saturating_sub(dropped).saturating_sub(1);
        let Some(Frame::Sequence { tag, vr, start, end: Some(end), outer, .. }) = self.stack.pop()
        else {
            return false;
        };
        self.encoding = outer;
        self.position = end;
        if let Some(Frame::Set { elements, .. }) = self.stack.last_mut() {
            elements.push(Element::new(tag, vr, self.bytes.slice(start..end)));
        }
        true
    }
}
