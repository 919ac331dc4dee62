//! Representations of private elements, where their creator is a known one.
//!
//! Implicit files do not state them, and some explicit ones say only that they are unknown.

use std::collections::HashMap;
use std::sync::OnceLock;

use dicom_core::{Tag, VR};

use super::object::{DataSet, ElementValue, trim_padding};

/// Made by `scripts/private-dictionary.py`, which says what stands there.
const KNOWN: &str = include_str!("private.txt");

/// Values from here on are left alone, as explicit files can only call them unknown.
const LONG: usize = 0xFFFF;

/// Representations by creator, and by group and the last byte of the element.
type Known = HashMap<&'static str, HashMap<(u16, u8), VR>>;

fn known() -> &'static Known {
    static TABLE: OnceLock<Known> = OnceLock::new();
    TABLE.get_or_init(|| {
        let line = |line: &'static str| {
            let mut parts = line.split('\t');
            let creator = parts.next()?;
            let mut elements = HashMap::new();
            for part in parts {
                let (vr, tags) = part.split_at_checked(2)?;
                let vr: VR = vr.parse().ok()?;
                for tag in tags.as_bytes().chunks_exact(6) {
                    let number = u32::from_str_radix(std::str::from_utf8(tag).ok()?, 16).ok()?;
                    let group = u16::try_from(number >> 8).ok()?;
                    elements.insert((group, u8::try_from(number & 0xFF).ok()?), vr);
                }
            }
            Some((creator, elements))
        };
        KNOWN.lines().filter_map(line).collect()
    })
}

/// Gives unknown private elements the representation that their creator's elements have.
pub(crate) fn resolve(data: &mut DataSet) {
    let mut found = Vec::new();
    for (position, element) in data.elements().iter().enumerate() {
        let Tag(group, number) = element.tag;
        let is_private = group % 2 == 1 && number >= 0x1000;
        let ElementValue::Bytes(bytes) = &element.value else { continue };
        if element.vr != VR::UN || !is_private || bytes.len() >= LONG {
            continue;
        }
        // The first byte of the element says which creator's block it lies in.
        let creator = data.ascii(Tag(group, number >> 8));
        let elements = creator.as_deref().and_then(|name| known().get(trim_padding(name)));
        let low = u8::try_from(number & 0xFF).unwrap_or(0);
        if let Some(vr) = elements.and_then(|elements| elements.get(&(group, low))) {
            found.push((position, *vr));
        }
    }
    for (position, vr) in found {
        if let Some(element) = data.elements_mut().get_mut(position) {
            element.vr = vr;
        }
    }
    for element in data.elements_mut() {
        if let ElementValue::Items(items) = &mut element.value {
            items.iter_mut().for_each(resolve);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dicom::object::Element;

    #[test]
    fn every_line_of_the_table_is_understood() {
        assert_eq!(known().len(), KNOWN.lines().count());
        let elements: usize = known().values().map(HashMap::len).sum();
        let digits = |line: &str| -> usize {
            line.split('\t').skip(1).map(|part| (part.len() - 2) / 6).sum()
        };
        assert_eq!(elements, KNOWN.lines().map(digits).sum::<usize>());
        assert_eq!(known()["SIEMENS CSA HEADER"][&(0x0029, 0x10)], VR::OB);
    }

    #[test]
    fn elements_take_the_representation_of_their_own_block() {
        let element = |number, vr, text: &'static [u8]| Element::new(Tag(0x0029, number), vr, text);
        let mut data = DataSet::from_elements(vec![
            element(0x0010, VR::LO, b"SIEMENS CSA HEADER"),
            element(0x0012, VR::LO, b"NOBODY KNOWS "),
            element(0x1008, VR::UN, b"IMAGE NUM 4 "),
            element(0x1108, VR::UN, b"no creator"),
            element(0x1208, VR::UN, b"other"),
            element(0x1009, VR::SH, b"stated"),
        ]);
        resolve(&mut data);
        let vrs: Vec<VR> = data.elements()[2..].iter().map(|element| element.vr).collect();
        assert_eq!(vrs, [VR::CS, VR::SH, VR::UN, VR::UN]);
    }
}
