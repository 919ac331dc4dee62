//! Objects from bytes: preamble, file meta, data set.
//!
//! Elements are read one after the other with a stack of our own, so that nesting costs no stack of
//! the thread. Values are slices of the input.

use std::io::Read;

use bytes::Bytes;
use dicom_core::dictionary::{DataDictionary, DataDictionaryEntry, VirtualVr};
use dicom_core::{Length, Tag, VR};
use dicom_dictionary_std::StandardDataDictionary;
use dicom_encoding::decode::Decode;
use dicom_encoding::decode::explicit_be::ExplicitVRBigEndianDecoder;
use dicom_encoding::decode::explicit_le::ExplicitVRLittleEndianDecoder;
use dicom_encoding::decode::implicit_le::StandardImplicitVRLittleEndianDecoder;
use iac_format::ErrorKind;

use super::fault::{Fault, Result};
use super::object::{DataSet, Element, ElementValue, MAX_NESTING, PIXEL_DATA, tag_text};
use super::syntax::{self, Encoding};
use crate::error::AdapterError;

const ITEM: Tag = Tag(0xFFFE, 0xE000);
const ITEM_END: Tag = Tag(0xFFFE, 0xE00D);
const SEQUENCE_END: Tag = Tag(0xFFFE, 0xE0DD);
const PIXEL_REPRESENTATION: Tag = Tag(0x0028, 0x0103);
const LUT_DESCRIPTOR: Tag = Tag(0x0028, 0x3002);
pub(crate) const LUT_DATA: Tag = Tag(0x0028, 0x3006);

/// One DICOM file, understood: elements with their bytes.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DicomFile {
    /// The 128 bytes before the magic, where there are any.
    pub preamble: Option<Bytes>,
    /// Elements of group 0002.
    pub meta: DataSet,
    /// Everything else.
    pub data: DataSet,
    /// The transfer syntax that the meta states, or the one that was found.
    pub transfer_syntax: String,
}

impl DicomFile {
    /// Reads a file: with or without preamble and meta, of any transfer syntax. Values are slices
    /// of `bytes`. `name` stands in messages, which never hold a value; a deflated data set may
    /// become 4 GiB large.
    ///
    /// # Errors
    ///
    /// [`AdapterError::Source`] (kind `decode`, `schema` or `limit`) when it is cut, damaged, or
    /// nested more than [`MAX_NESTING`] levels deep.
    pub fn parse(bytes: &Bytes, name: &str) -> Result<Self, AdapterError> {
        parse(bytes, 4 << 30).map_err(|fault| super::build::source_error(name, &fault))
    }
}

impl DicomFile {
    /// The metadata as packs store it, in one JSON document with the members `dataset`,
    /// `file_meta`, `preamble`, and `errors` and `iac` where there is something to say there.
    /// [`Attributes::parse`](super::Attributes::parse) reads it.
    #[must_use]
    pub fn metadata_json(&self) -> String {
        let encoded = super::encode::encode(self);
        let mut iac = serde_json::Map::new();
        if !encoded.text.is_empty() {
            iac.insert("text".to_owned(), encoded.text.clone().into());
        }
        super::document::whole(&encoded, &iac)
    }
}

/// Shows no values: they belong to patients.
impl std::fmt::Debug for DicomFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DicomFile")
            .field("meta", &self.meta.elements().len())
            .field("data", &self.data.elements().len())
            .field("transfer_syntax", &self.transfer_syntax)
            .finish()
    }
}

/// Reads an object. `max_inflated` bounds what a deflated data set may become.
pub(crate) fn parse(bytes: &Bytes, max_inflated: u64) -> Result<DicomFile> {
    let (preamble, start) = match bytes.get(128..132) {
        Some(b"DICM") => (Some(bytes.slice(..128)), 132),
        _ => (None, 0),
    };
    let (meta, start) = read_meta(bytes, start)?;
    let stated = meta.ascii(Tag(0x0002, 0x0010)).filter(|uid| !uid.is_empty());
    let known = stated.is_some() || preamble.is_some();
    let rest = bytes.slice(start.min(bytes.len())..);
    let transfer_syntax = match stated {
        Some(uid) => uid,
        None => guess(&rest)
            .ok_or_else(|| {
                let why = if known {
                    "its file meta names no transfer syntax"
                } else {
                    "it has no preamble, and does not begin like a data set"
                };
                Fault::new(ErrorKind::Schema, format!("not a DICOM file: {why}"))
            })?
            .to_owned(),
    };
    let content =
        if transfer_syntax == syntax::DEFLATED { inflate(&rest, max_inflated)? } else { rest };
    let encoding = match syntax::encoding(&transfer_syntax) {
        // Some writers contradict their own meta: the first element shows what they did.
        Encoding::Implicit if looks_explicit(&content) => Encoding::Explicit,
        Encoding::Explicit if !looks_explicit(&content) && looks_implicit(&content) => {
            Encoding::Implicit
        }
        other => other,
    };
    let mut data = Parser::new(&content, encoding).run()?;
    resolve(&mut data, None);
    // Unknown values of big-endian files are in an order that only their representation tells.
    if encoding != Encoding::BigEndian {
        super::private::resolve(&mut data);
    }
    Ok(DicomFile { preamble, meta, data, transfer_syntax })
}

fn inflate(bytes: &[u8], most: u64) -> Result<Bytes> {
    let mut content = Vec::new();
    let mut reader = flate2::read::DeflateDecoder::new(bytes).take(most.saturating_add(1));
    reader
        .read_to_end(&mut content)
        .map_err(|_| Fault::decode("its deflated data set is damaged or cut"))?;
    if u64::try_from(content.len()).is_ok_and(|length| length > most) {
        return Err(Fault::new(
            ErrorKind::Limit,
            format!("its deflated data set has more than the allowed {most} bytes"),
        ));
    }
    Ok(content.into())
}

/// The elements of group 0002, and where they end. Their stated length is not believed.
fn read_meta(bytes: &Bytes, start: usize) -> Result<(DataSet, usize)> {
    let mut elements = Vec::new();
    let mut position = start;
    loop {
        let rest = bytes.get(position..).unwrap_or_default();
        let (Some(&[2, 0]), true) = (rest.first_chunk::<2>(), rest.len() >= 8) else {
            return Ok((DataSet::from_elements(elements), position));
        };
        let encoding = if looks_explicit(rest) { Encoding::Explicit } else { Encoding::Implicit };
        let header = header(encoding, bytes, position)?;
        let Some(length) = header.length.get() else {
            return Err(Fault::decode("its length is undefined").at(header.tag));
        };
        let value = take(bytes, header.value, length)
            .ok_or_else(|| cut(header.tag, length, bytes.len(), header.value))?;
        position = header.value.saturating_add(value.len());
        elements.push(Element::new(header.tag, header.vr, value));
    }
}

/// Which encoding a data set without meta has.
fn guess(bytes: &[u8]) -> Option<&'static str> {
    if looks_explicit(bytes) && matches!(bytes.first_chunk(), Some([1..=0x2F, 0])) {
        return Some(syntax::EXPLICIT);
    }
    if looks_explicit(bytes) && matches!(bytes.first_chunk(), Some([0, 1..=0x2F])) {
        return Some(syntax::BIG_ENDIAN);
    }
    looks_implicit(bytes).then_some(syntax::IMPLICIT)
}

/// Whether the first element states a representation.
fn looks_explicit(bytes: &[u8]) -> bool {
    bytes
        .get(4..6)
        .and_then(|two| two.first_chunk::<2>())
        .is_some_and(|two| VR::from_binary(*two).is_some())
}

/// Whether the first element is a low one whose value lies inside.
fn looks_implicit(bytes: &[u8]) -> bool {
    let Some(head) = bytes.first_chunk::<8>() else {
        return false;
    };
    let [g0, g1, _, _, l0, l1, l2, l3] = *head;
    let length = u32::from_le_bytes([l0, l1, l2, l3]);
    let fits = usize::try_from(length).is_ok_and(|length| length <= bytes.len().saturating_sub(8));
    g1 == 0 && (2..=0x2F).contains(&g0) && (fits || length == u32::MAX)
}

/// A header, and where its value begins.
struct Header {
    tag: Tag,
    vr: VR,
    length: Length,
    value: usize,
    /// The representation came from a dictionary.
    looked_up: bool,
}

fn header(encoding: Encoding, bytes: &[u8], position: usize) -> Result<Header> {
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

fn take(bytes: &Bytes, start: usize, length: u32) -> Option<Bytes> {
    let end = start.checked_add(usize::try_from(length).ok()?)?;
    (end <= bytes.len()).then(|| bytes.slice(start..end))
}

fn cut(tag: Tag, length: u32, end: usize, start: usize) -> Fault {
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

struct Parser<'a> {
    bytes: &'a Bytes,
    encoding: Encoding,
    position: usize,
    stack: Vec<Frame>,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn new(bytes: &'a Bytes, encoding: Encoding) -> Self {
        Self { bytes, encoding, position: 0, stack: Vec::new(), depth: 0 }
    }

    fn run(mut self) -> Result<DataSet> {
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

fn is_ambiguous(tag: Tag) -> bool {
    virtual_vr(tag).is_some()
}

/// The choice that the dictionary leaves for a tag, if it leaves one.
fn virtual_vr(tag: Tag) -> Option<VirtualVr> {
    let entry = StandardDataDictionary.by_tag(tag)?;
    match entry.vr() {
        VirtualVr::Exact(_) => None,
        choice => Some(choice),
    }
}

/// Settles representations that depend on other elements. Those that cannot be settled stay `UN`.
fn resolve(data: &mut DataSet, outer: Option<u16>) {
    let signed = data.u16(PIXEL_REPRESENTATION).or(outer);
    let entries = data.u16(LUT_DESCRIPTOR);
    for element in data.elements_mut() {
        if let ElementValue::Items(items) = &mut element.value {
            for item in items {
                resolve(item, signed);
            }
            continue;
        }
        if element.vr != VR::UN {
            continue;
        }
        let Some(choice) = virtual_vr(element.tag) else {
            continue;
        };
        let settled = match choice {
            VirtualVr::Xs => Some(if signed == Some(1) { VR::SS } else { VR::US }),
            VirtualVr::Lt if element.tag == LUT_DATA => {
                entries.map(|entries| if entries == 1 { VR::US } else { VR::OW })
            }
            VirtualVr::Lt | VirtualVr::Ox | VirtualVr::Px => Some(VR::OW),
            _ => Some(choice.relaxed()),
        };
        element.vr = settled.unwrap_or(VR::UN);
    }
}

/// Bytes of one number, for representations whose byte order matters.
pub(crate) fn unit_bytes(vr: VR) -> usize {
    match vr {
        VR::US | VR::SS | VR::OW | VR::AT => 2,
        VR::UL | VR::SL | VR::FL | VR::OF | VR::OL => 4,
        VR::FD | VR::OD | VR::OV | VR::SV | VR::UV => 8,
        _ => 1,
    }
}

/// Turns numbers round between big and little endian.
pub(crate) fn swapped(vr: VR, value: Bytes) -> Bytes {
    let unit = unit_bytes(vr);
    if unit == 1 {
        return value;
    }
    let mut turned = value.to_vec();
    for number in turned.chunks_exact_mut(unit) {
        number.reverse();
    }
    turned.into()
}
