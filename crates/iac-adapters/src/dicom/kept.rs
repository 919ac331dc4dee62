//! Pixel data that is stored as the source has it, because no image can be made of it.

use bytes::Bytes;
use dicom_core::VR;
use iac_format::ErrorKind;
use serde_json::Value;

use super::fault::{Fault, Result};
use super::object::{Element, ElementValue, PIXEL_DATA};
use super::write::PixelElement;

/// The member of `iac` that says where it lies, and what it is.
pub(crate) const MEMBER: &str = "pixels";

/// The value of a Pixel Data element as bytes, and whether it is in pieces: each has its length in
/// front, as 32 bits in little endian.
pub(crate) fn pack(element: &Element) -> Result<(Bytes, bool)> {
    let pieces = match &element.value {
        ElementValue::Bytes(bytes) => return Ok((bytes.clone(), false)),
        ElementValue::Fragments(pieces) => pieces,
        ElementValue::Items(_) => {
            return Err(Fault::schema(PIXEL_DATA, "is a sequence, which pixel data never is"));
        }
    };
    let bytes = pieces.iter().map(|piece| piece.len().saturating_add(4)).sum();
    let mut packed = Vec::with_capacity(bytes);
    for piece in pieces {
        let length = u32::try_from(piece.len())
            .map_err(|_| Fault::new(ErrorKind::Limit, "a fragment has more than 4 GiB"))?;
        packed.extend_from_slice(&length.to_le_bytes());
        packed.extend_from_slice(piece);
    }
    Ok((packed.into(), true))
}

/// The element again; `member` is what `iac` says of it.
pub(crate) fn unpack(member: Option<&Value>, bytes: Bytes) -> Result<PixelElement> {
    let of = |name: &str| member.and_then(|member| member.get(name));
    if of("encapsulated").and_then(Value::as_bool) != Some(true) {
        let vr = of("vr").and_then(Value::as_str).and_then(|vr| vr.parse::<VR>().ok());
        let vr = vr.filter(|vr| matches!(vr, VR::OB | VR::OW | VR::UN));
        let vr = vr.ok_or_else(|| Fault::schema(PIXEL_DATA, "its kept form has no usable vr"))?;
        return Ok(PixelElement::Native(vr, bytes));
    }
    let cut = || Fault::decode("its kept pieces are cut").at(PIXEL_DATA);
    let mut pieces = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let length = rest.first_chunk::<4>().ok_or_else(cut)?;
        let length = usize::try_from(u32::from_le_bytes(*length)).map_err(|_| cut())?;
        let end = length.checked_add(4).filter(|end| *end <= rest.len()).ok_or_else(cut)?;
        let mut piece = rest.slice(4..end);
        rest = rest.slice(end..);
        // Lengths in files are even.
        if length % 2 == 1 {
            let mut padded = piece.to_vec();
            padded.push(0);
            piece = padded.into();
        }
        pieces.push(piece);
    }
    Ok(PixelElement::Pieces(pieces))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_survive_and_get_even() {
        let pieces = [&b""[..], b"ab", b"cde"].map(Bytes::from_static).to_vec();
        let value = ElementValue::Fragments(pieces);
        let (bytes, encapsulated) = pack(&Element { tag: PIXEL_DATA, vr: VR::OB, value }).unwrap();
        assert!(encapsulated);
        let member = serde_json::json!({"vr": "OB", "encapsulated": true});
        let Ok(PixelElement::Pieces(found)) = unpack(Some(&member), bytes.clone()) else {
            panic!("no pieces");
        };
        assert_eq!(found, [&b""[..], b"ab", b"cde\0"]);
        for end in [1, 3, 5, bytes.len() - 1] {
            assert!(unpack(Some(&member), bytes.slice(..end)).is_err(), "{end}");
        }
        let member = serde_json::json!({"vr": "XY", "encapsulated": false});
        assert!(unpack(Some(&member), bytes).is_err());
    }
}
