//! Representations that other elements settle, and the byte order that they ask for.

use bytes::Bytes;
use dicom_core::dictionary::{DataDictionary, DataDictionaryEntry, VirtualVr};
use dicom_core::{Tag, VR};
use dicom_dictionary_std::StandardDataDictionary;

use crate::dicom::object::{DataSet, ElementValue};

const PIXEL_REPRESENTATION: Tag = Tag(0x0028, 0x0103);
const LUT_DESCRIPTOR: Tag = Tag(0x0028, 0x3002);
pub(crate) const LUT_DATA: Tag = Tag(0x0028, 0x3006);

pub(super) fn is_ambiguous(tag: Tag) -> bool {
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
pub(super) fn resolve(data: &mut DataSet, outer: Option<u16>) {
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
