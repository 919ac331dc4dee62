//! Objects from bytes: preamble, file meta, data set.
//!
//! Elements are read one after the other with a stack of our own, so that nesting costs no stack of
//! the thread. Values are slices of the input.

mod elements;
mod represent;

use std::io::Read;

use bytes::Bytes;
use dicom_core::{Tag, VR};
use iac_format::ErrorKind;

use self::elements::{Parser, cut, header, take};
use self::represent::resolve;
pub(crate) use self::represent::{LUT_DATA, swapped, unit_bytes};
use super::fault::{Fault, Result};
use super::object::{DataSet, Element};
use super::syntax::{self, Encoding};
use crate::error::AdapterError;

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
    /// nested more than [`MAX_NESTING`](crate::dicom::MAX_NESTING) levels deep.
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
