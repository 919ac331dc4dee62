//! Data sets as they are kept in memory: elements with their bytes.

use bytes::Bytes;
use dicom_core::{Tag, VR};

/// Levels of sequences that an object may have; deeper ones are refused.
pub const MAX_NESTING: usize = 256;

/// The element that holds an image's samples.
pub(crate) const PIXEL_DATA: Tag = Tag(0x7FE0, 0x0010);

/// The value of an element.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ElementValue {
    /// Bytes as in the source, padding included; numbers are little-endian.
    Bytes(Bytes),
    /// The items of a sequence.
    Items(Vec<DataSet>),
    /// Pieces of encapsulated pixel data, the offset table first.
    Fragments(Vec<Bytes>),
}

/// Shows sizes only: values belong to patients.
impl std::fmt::Debug for ElementValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Bytes(bytes) => write!(f, "{} bytes", bytes.len()),
            Self::Items(items) => f.debug_list().entries(items).finish(),
            Self::Fragments(fragments) => write!(f, "{} fragments", fragments.len()),
        }
    }
}

/// A tag, the representation of its value, and the value.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Element {
    /// Group and element.
    pub tag: Tag,
    /// The representation that a file states, or a dictionary.
    pub vr: VR,
    /// The value.
    pub value: ElementValue,
}

impl Element {
    /// An element with bytes; they are taken as they are.
    #[must_use]
    pub fn new(tag: Tag, vr: VR, bytes: impl Into<Bytes>) -> Self {
        Self { tag, vr, value: ElementValue::Bytes(bytes.into()) }
    }

    /// The bytes; nothing for sequences and encapsulated pixel data.
    #[must_use]
    pub fn bytes(&self) -> Option<&Bytes> {
        match &self.value {
            ElementValue::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// The items of a sequence; nothing for anything else.
    #[must_use]
    pub fn items(&self) -> Option<&[DataSet]> {
        match &self.value {
            ElementValue::Items(items) => Some(items),
            _ => None,
        }
    }
}

/// Elements in ascending order of their tags, each tag once.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DataSet {
    elements: Vec<Element>,
}

impl DataSet {
    /// A data set without elements.
    #[must_use]
    pub const fn new() -> Self {
        Self { elements: Vec::new() }
    }

    /// Takes elements in any order; the last one of a tag counts.
    #[must_use]
    pub fn from_elements(mut elements: Vec<Element>) -> Self {
        if !elements.is_sorted_by(|a, b| a.tag < b.tag) {
            elements.reverse();
            elements.sort_by_key(|element| element.tag);
            elements.dedup_by_key(|element| element.tag);
        }
        Self { elements }
    }

    /// The elements.
    #[must_use]
    pub fn elements(&self) -> &[Element] {
        &self.elements
    }

    pub(crate) fn into_elements(self) -> Vec<Element> {
        self.elements
    }

    pub(crate) fn elements_mut(&mut self) -> &mut [Element] {
        &mut self.elements
    }

    /// The element with a tag.
    #[must_use]
    pub fn get(&self, tag: Tag) -> Option<&Element> {
        let position = self.elements.binary_search_by_key(&tag, |element| element.tag).ok()?;
        self.elements.get(position)
    }

    /// The bytes of the element with a tag.
    #[must_use]
    pub fn bytes(&self, tag: Tag) -> Option<&Bytes> {
        self.get(tag)?.bytes()
    }

    /// Puts an element in, in the place of one with the same tag.
    pub fn put(&mut self, element: Element) {
        match self.elements.binary_search_by_key(&element.tag, |other| other.tag) {
            Ok(position) => {
                if let Some(place) = self.elements.get_mut(position) {
                    *place = element;
                }
            }
            Err(position) => self.elements.insert(position, element),
        }
    }

    /// Takes the element with a tag out.
    pub fn remove(&mut self, tag: Tag) -> Option<Element> {
        let position = self.elements.binary_search_by_key(&tag, |element| element.tag).ok()?;
        Some(self.elements.remove(position))
    }

    pub(crate) fn item_mut(&mut self, tag: Tag, item: usize) -> Option<&mut Self> {
        let position = self.elements.binary_search_by_key(&tag, |element| element.tag).ok()?;
        match &mut self.elements.get_mut(position)?.value {
            ElementValue::Items(items) => items.get_mut(item),
            _ => None,
        }
    }

    /// An unsigned number of 16 bits, the first of the element with a tag.
    pub(crate) fn u16(&self, tag: Tag) -> Option<u16> {
        self.bytes(tag)?.first_chunk::<2>().map(|two| u16::from_le_bytes(*two))
    }

    /// The text of an element whose characters are of the default repertoire, without padding.
    pub(crate) fn ascii(&self, tag: Tag) -> Option<String> {
        let text: String = self.bytes(tag)?.iter().map(|byte| char::from(*byte)).collect();
        Some(trim_padding(&text).to_owned())
    }
}

/// Leaves out spaces and NULs at both ends.
pub(crate) fn trim_padding(text: &str) -> &str {
    text.trim_matches([' ', '\0'])
}

/// Eight upper-case hexadecimal digits.
pub(crate) fn tag_text(tag: Tag) -> String {
    format!("{:04X}{:04X}", tag.0, tag.1)
}

/// The tag that eight hexadecimal digits name.
pub(crate) fn parse_tag(text: &str) -> Option<Tag> {
    if text.len() != 8 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let number = u32::from_str_radix(text, 16).ok()?;
    Some(Tag(u16::try_from(number >> 16).ok()?, u16::try_from(number & 0xFFFF).ok()?))
}
