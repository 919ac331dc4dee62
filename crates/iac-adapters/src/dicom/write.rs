//! DICOM files from data sets.

use std::io::Write as _;

use bytes::Bytes;
use dicom_core::header::DataElementHeader;
use dicom_core::{Length, Tag, VR};
use dicom_encoding::encode::Encode;
use dicom_encoding::encode::explicit_be::ExplicitVRBigEndianEncoder;
use dicom_encoding::encode::explicit_le::ExplicitVRLittleEndianEncoder;
use dicom_encoding::encode::implicit_le::ImplicitVRLittleEndianEncoder;

use super::fault::{Fault, Result};
use super::object::{DataSet, Element, ElementValue, PIXEL_DATA};
use super::parse::{DicomFile, swapped};
use super::syntax::{self, Encoding};
use super::text::padding;
use crate::error::AdapterError;

/// Who writes these files, for the file meta.
const IMPLEMENTATION_UID: &str = "2.25.141059378687191180356220202185765528819";
const IMPLEMENTATION_NAME: &str = "IATROCACHE_0_1";

/// Pixel data on its way into a file.
#[derive(Debug, Clone)]
pub(crate) enum PixelElement {
    /// Samples as they are.
    Native(VR, Bytes),
    /// One stream.
    Encapsulated(Bytes),
    /// Pieces as they were, the offset table first.
    Pieces(Vec<Bytes>),
    /// A stream for each frame.
    Frames(Vec<Bytes>),
}

/// A whole file.
pub(crate) fn file(
    preamble: Option<&[u8]>,
    meta: &DataSet,
    data: &DataSet,
    transfer_syntax: &str,
    pixels: Option<&PixelElement>,
) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    match preamble {
        Some(preamble) if preamble.len() == 128 => out.extend_from_slice(preamble),
        _ => out.resize(128, 0),
    }
    out.extend_from_slice(b"DICM");
    write_meta(&mut out, meta, data, transfer_syntax)?;
    let encoding = syntax::encoding(transfer_syntax);
    if transfer_syntax == syntax::DEFLATED {
        let mut content = Vec::new();
        write_data(&mut content, data, encoding, pixels)?;
        let level = flate2::Compression::default();
        let mut encoder = flate2::write::DeflateEncoder::new(&mut out, level);
        let deflated = encoder.write_all(&content).and_then(|()| encoder.finish().map(|_| ()));
        deflated.map_err(|_| Fault::decode("the data set cannot be deflated"))?;
        // The length of a file is even.
        if out.len() % 2 == 1 {
            out.push(0);
        }
    } else {
        write_data(&mut out, data, encoding, pixels)?;
    }
    Ok(out)
}

impl DicomFile {
    /// A file with a data set, in explicit little endian.
    #[must_use]
    pub fn new(data: DataSet) -> Self {
        let transfer_syntax = syntax::EXPLICIT.to_owned();
        Self { preamble: None, meta: DataSet::new(), data, transfer_syntax }
    }

    /// The file in its transfer syntax, which must be one of those without compressed images.
    ///
    /// # Errors
    ///
    /// [`AdapterError::Source`] when an element is too long, or pixel data is encapsulated.
    pub fn to_bytes(&self) -> std::result::Result<Vec<u8>, AdapterError> {
        let pixels = match self.data.get(PIXEL_DATA) {
            None => None,
            Some(Element { vr, value: ElementValue::Bytes(bytes), .. }) => {
                Some(PixelElement::Native(*vr, bytes.clone()))
            }
            Some(_) => {
                let fault =
                    Fault::unsupported("encapsulated pixel data is not written").at(PIXEL_DATA);
                return Err(super::build::source_error("file", &fault));
            }
        };
        let preamble = self.preamble.as_deref();
        file(preamble, &self.meta, &self.data, &self.transfer_syntax, pixels.as_ref())
            .map_err(|fault| super::build::source_error("file", &fault))
    }
}

fn write_meta(
    out: &mut Vec<u8>,
    meta: &DataSet,
    data: &DataSet,
    transfer_syntax: &str,
) -> Result<()> {
    let mut meta = meta.clone();
    meta.remove(Tag(0x0002, 0x0000));
    let mut fill = |tag: Tag, vr: VR, value: Option<Bytes>| {
        if let (None, Some(value)) = (meta.get(tag), value) {
            meta.put(Element::new(tag, vr, value));
        }
    };
    fill(Tag(2, 0x0001), VR::OB, Some(Bytes::from_static(&[0, 1])));
    fill(Tag(2, 0x0002), VR::UI, data.bytes(Tag(0x0008, 0x0016)).cloned());
    fill(Tag(2, 0x0003), VR::UI, data.bytes(Tag(0x0008, 0x0018)).cloned());
    fill(Tag(2, 0x0012), VR::UI, Some(Bytes::from_static(IMPLEMENTATION_UID.as_bytes())));
    fill(Tag(2, 0x0013), VR::SH, Some(Bytes::from_static(IMPLEMENTATION_NAME.as_bytes())));
    let uid = transfer_syntax.as_bytes().to_vec();
    meta.put(Element::new(Tag(2, 0x0010), VR::UI, uid));
    let mut group = Vec::new();
    for element in meta.elements() {
        write_element(&mut group, element, Encoding::Explicit)?;
    }
    let length = u32::try_from(group.len()).map_err(|_| too_long(Tag(2, 0)))?;
    let length = Element::new(Tag(2, 0), VR::UL, length.to_le_bytes().to_vec());
    write_element(out, &length, Encoding::Explicit)?;
    out.extend_from_slice(&group);
    Ok(())
}

fn write_data(
    out: &mut Vec<u8>,
    data: &DataSet,
    encoding: Encoding,
    pixels: Option<&PixelElement>,
) -> Result<()> {
    let mut pixels = pixels;
    for element in data.elements() {
        if element.tag >= PIXEL_DATA
            && let Some(pixels) = pixels.take()
        {
            write_pixels(out, pixels, encoding)?;
        }
        if element.tag != PIXEL_DATA {
            write_element(out, element, encoding)?;
        }
    }
    match pixels {
        Some(pixels) => write_pixels(out, pixels, encoding),
        None => Ok(()),
    }
}

fn write_pixels(out: &mut Vec<u8>, pixels: &PixelElement, encoding: Encoding) -> Result<()> {
    match pixels {
        PixelElement::Native(vr, bytes) => {
            write_element(out, &Element::new(PIXEL_DATA, *vr, bytes.clone()), encoding)
        }
        PixelElement::Encapsulated(stream) => {
            header(out, PIXEL_DATA, VR::OB, Length::UNDEFINED, encoding)?;
            // The offset table is empty: there is one frame.
            delimiter(out, 0xE000, 0);
            write_fragment(out, stream)?;
            delimiter(out, 0xE0DD, 0);
            Ok(())
        }
        PixelElement::Frames(streams) => {
            header(out, PIXEL_DATA, VR::OB, Length::UNDEFINED, encoding)?;
            let table = offset_table(streams).unwrap_or_default();
            let length = table.len().checked_mul(4).and_then(|length| u32::try_from(length).ok());
            delimiter(out, 0xE000, length.ok_or_else(|| too_long(PIXEL_DATA))?);
            out.extend(table.iter().flat_map(|offset| offset.to_le_bytes()));
            for stream in streams {
                write_fragment(out, stream)?;
            }
            delimiter(out, 0xE0DD, 0);
            Ok(())
        }
        PixelElement::Pieces(pieces) => {
            header(out, PIXEL_DATA, VR::OB, Length::UNDEFINED, encoding)?;
            for piece in pieces {
                let length = u32::try_from(piece.len()).map_err(|_| too_long(PIXEL_DATA))?;
                delimiter(out, 0xE000, length);
                out.extend_from_slice(piece);
            }
            delimiter(out, 0xE0DD, 0);
            Ok(())
        }
    }
}

/// Where each frame begins; nothing where that needs more than 32 bits.
fn offset_table(streams: &[Bytes]) -> Option<Vec<u32>> {
    let mut position = 0_usize;
    let mut table = Vec::with_capacity(streams.len());
    for stream in streams {
        table.push(u32::try_from(position).ok()?);
        let padded = stream.len().checked_add(stream.len() % 2)?;
        position = position.checked_add(padded)?.checked_add(8)?;
    }
    Some(table)
}

fn write_fragment(out: &mut Vec<u8>, stream: &[u8]) -> Result<()> {
    let padded = stream.len().saturating_add(stream.len() % 2);
    let length = u32::try_from(padded).ok().filter(|length| *length < u32::MAX);
    delimiter(out, 0xE000, length.ok_or_else(|| too_long(PIXEL_DATA))?);
    out.extend_from_slice(stream);
    if stream.len() % 2 == 1 {
        out.push(0);
    }
    Ok(())
}

fn delimiter(out: &mut Vec<u8>, element: u16, length: u32) {
    out.extend_from_slice(&0xFFFE_u16.to_le_bytes());
    out.extend_from_slice(&element.to_le_bytes());
    out.extend_from_slice(&length.to_le_bytes());
}

fn too_long(tag: Tag) -> Fault {
    Fault::schema(tag, "is too long for a DICOM file")
}

fn write_element(out: &mut Vec<u8>, element: &Element, encoding: Encoding) -> Result<()> {
    let tag = element.tag;
    // Lengths of groups are retired, and would be wrong.
    if tag.1 == 0 && tag.0 > 6 {
        return Ok(());
    }
    let (vr, value) = match &element.value {
        ElementValue::Bytes(bytes) => (element.vr, bytes.clone()),
        ElementValue::Items(items) => {
            let mut content = Vec::new();
            for item in items {
                let mut inner = Vec::new();
                for element in item.elements() {
                    write_element(&mut inner, element, encoding)?;
                }
                let length = u32::try_from(inner.len()).map_err(|_| too_long(tag))?;
                item_header(&mut content, length, encoding);
                content.extend_from_slice(&inner);
            }
            (VR::SQ, content.into())
        }
        ElementValue::Fragments(_) => {
            return Err(Fault::schema(tag, "is encapsulated where it cannot be"));
        }
    };
    let value = if encoding == Encoding::BigEndian { swapped(vr, value) } else { value };
    let odd = value.len() % 2 == 1;
    let length = u32::try_from(value.len()).ok().and_then(|length| length.checked_add(odd.into()));
    let length = length.filter(|length| *length < u32::MAX).ok_or_else(|| too_long(tag))?;
    // A value that is too long for the short form is still one that nobody knows.
    let shown = if has_short_length(vr) && length > 0xFFFE { VR::UN } else { vr };
    header(out, tag, shown, Length(length), encoding)?;
    out.extend_from_slice(&value);
    if odd {
        out.push(padding(vr));
    }
    Ok(())
}

fn item_header(out: &mut Vec<u8>, length: u32, encoding: Encoding) {
    if encoding == Encoding::BigEndian {
        out.extend_from_slice(&0xFFFE_u16.to_be_bytes());
        out.extend_from_slice(&0xE000_u16.to_be_bytes());
        out.extend_from_slice(&length.to_be_bytes());
    } else {
        delimiter(out, 0xE000, length);
    }
}

/// Whether explicit headers of this representation have a length of two bytes, in place of four behind
/// two reserved ones (PS3.5, 7.1.2).
pub(crate) const fn has_short_length(vr: VR) -> bool {
    !matches!(
        vr,
        VR::OB
            | VR::OD
            | VR::OF
            | VR::OL
            | VR::OV
            | VR::OW
            | VR::SQ
            | VR::SV
            | VR::UC
            | VR::UN
            | VR::UR
            | VR::UT
            | VR::UV
    )
}

fn header(out: &mut Vec<u8>, tag: Tag, vr: VR, length: Length, encoding: Encoding) -> Result<()> {
    let header = DataElementHeader::new(tag, vr, length);
    let written = match encoding {
        Encoding::Implicit => {
            ImplicitVRLittleEndianEncoder::default().encode_element_header(&mut *out, header)
        }
        Encoding::Explicit => {
            ExplicitVRLittleEndianEncoder::default().encode_element_header(&mut *out, header)
        }
        Encoding::BigEndian => {
            ExplicitVRBigEndianEncoder::default().encode_element_header(&mut *out, header)
        }
    };
    written.map(|_| ()).map_err(|_| too_long(tag))
}
