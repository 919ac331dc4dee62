//! Signs that text may be burned into pixels. Pixels themselves are not looked at.

use dicom_core::Tag;

use crate::dicom::object::DataSet;

/// Why pixels may show who a patient is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum BurnedIn {
    /// The object says so (0028,0301).
    Stated,
    /// The object says that a face could be recognised (0028,0302).
    RecognizableFeatures,
    /// Its modality usually has text in its images, and it does not say that there is none.
    Modality,
    /// It is a secondary capture or a digitised film, and does not say that there is no text.
    SecondaryCapture,
    /// Its image type says that it is a screen shot or a rendered report.
    ImageType,
    /// There are parts of the image beside the regions that ultrasound fills.
    OutsideOfRegions,
}

impl BurnedIn {
    /// A word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stated => "stated",
            Self::RecognizableFeatures => "recognizable_features",
            Self::Modality => "modality",
            Self::SecondaryCapture => "secondary_capture",
            Self::ImageType => "image_type",
            Self::OutsideOfRegions => "outside_of_regions",
        }
    }
}

const MODALITIES: &[&str] = &[
    "US", "IVUS", "EC", "SC", "OT", "XC", "ES", "GM", "OP", "OPT", "SM", "RF", "DG", "HC", "BDUS",
    "TG", "LS",
];
const SECONDARY: &str = "1.2.840.10008.5.1.4.1.1.7";
const IMAGE_TYPES: &[&str] =
    &["SCREEN SAVE", "SCREENSAVE", "SCREEN", "REPORT", "DOSE_INFO", "CAPTURE", "PROTOCOL"];

/// The signs of one object. An object that says that there is no text is believed, unless it is a
/// screen shot.
pub(crate) fn signs(data: &DataSet) -> Vec<BurnedIn> {
    let text =
        |group, element| data.ascii(Tag(group, element)).unwrap_or_default().to_ascii_uppercase();
    let has_pixels = [0x0008, 0x0009, 0x0010].iter().any(|it| data.get(Tag(0x7FE0, *it)).is_some());
    if !has_pixels {
        return Vec::new();
    }
    let mut found = Vec::new();
    let stated = text(0x0028, 0x0301);
    if stated == "YES" {
        found.push(BurnedIn::Stated);
    }
    if text(0x0028, 0x0302) == "YES" {
        found.push(BurnedIn::RecognizableFeatures);
    }
    let image_type = text(0x0008, 0x0008);
    if image_type.split('\\').any(|part| IMAGE_TYPES.contains(&part.trim())) {
        found.push(BurnedIn::ImageType);
    }
    if stated == "NO" {
        return found;
    }
    if MODALITIES.contains(&text(0x0008, 0x0060).as_str()) {
        found.push(BurnedIn::Modality);
    }
    let class = text(0x0008, 0x0016);
    let secondary =
        class.strip_prefix(SECONDARY).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    if secondary || !text(0x0008, 0x0064).is_empty() {
        found.push(BurnedIn::SecondaryCapture);
    }
    if is_outside(data) == Some(true) {
        found.push(BurnedIn::OutsideOfRegions);
    }
    found
}

/// Whether ultrasound regions leave a part of the image uncovered: that is where devices write.
fn is_outside(data: &DataSet) -> Option<bool> {
    let regions = data.get(Tag(0x0018, 0x6011))?.items()?;
    let (rows, columns) = (data.u16(Tag(0x0028, 0x0010))?, data.u16(Tag(0x0028, 0x0011))?);
    let number = |region: &DataSet, element| {
        let bytes = region.bytes(Tag(0x0018, element))?;
        bytes.first_chunk::<4>().map(|four| u32::from_le_bytes(*four))
    };
    let (right, bottom) = (u32::from(columns).saturating_sub(1), u32::from(rows).saturating_sub(1));
    let covers = regions.iter().any(|region| {
        number(region, 0x6018) == Some(0)
            && number(region, 0x601A) == Some(0)
            && number(region, 0x601C).is_some_and(|x| x >= right)
            && number(region, 0x601E).is_some_and(|y| y >= bottom)
    });
    Some(!covers)
}

#[cfg(test)]
mod tests {
    use dicom_core::VR;

    use super::*;
    use crate::dicom::object::{Element, ElementValue};

    fn image(elements: &[(u16, u16, &str)]) -> DataSet {
        let mut all: Vec<Element> = elements
            .iter()
            .map(|(group, element, text)| {
                Element::new(Tag(*group, *element), VR::CS, text.as_bytes().to_vec())
            })
            .collect();
        all.push(Element::new(Tag(0x7FE0, 0x0010), VR::OB, vec![0, 0]));
        DataSet::from_elements(all)
    }

    #[test]
    fn signs_are_found_and_a_plain_ct_has_none() {
        assert!(signs(&image(&[(0x0008, 0x0060, "CT")])).is_empty());
        assert_eq!(signs(&image(&[(0x0008, 0x0060, "US")])), [BurnedIn::Modality]);
        assert!(signs(&image(&[(0x0008, 0x0060, "US"), (0x0028, 0x0301, "NO")])).is_empty());
        assert_eq!(
            signs(&image(&[(0x0008, 0x0060, "CT"), (0x0028, 0x0301, "YES")])),
            [BurnedIn::Stated]
        );
        assert_eq!(
            signs(&image(&[
                (0x0008, 0x0008, "DERIVED\\SECONDARY\\SCREEN SAVE"),
                (0x0028, 0x0301, "NO ")
            ])),
            [BurnedIn::ImageType]
        );
        assert_eq!(
            signs(&image(&[
                (0x0008, 0x0016, "1.2.840.10008.5.1.4.1.1.7"),
                (0x0028, 0x0302, "YES")
            ])),
            [BurnedIn::RecognizableFeatures, BurnedIn::SecondaryCapture]
        );
        assert!(signs(&DataSet::new()).is_empty());
    }

    #[test]
    fn ultrasound_beside_its_regions_is_told() {
        let region = |right: u32| {
            let number = |element, value: u32| {
                Element::new(Tag(0x0018, element), VR::UL, value.to_le_bytes().to_vec())
            };
            DataSet::from_elements(vec![
                number(0x6018, 0),
                number(0x601A, 0),
                number(0x601C, right),
                number(0x601E, 9),
            ])
        };
        let mut data = image(&[]);
        for element in [0x0010, 0x0011] {
            data.put(Element::new(Tag(0x0028, element), VR::US, 10_u16.to_le_bytes().to_vec()));
        }
        let put = |data: &mut DataSet, right| {
            let value = ElementValue::Items(vec![region(right)]);
            data.put(Element { tag: Tag(0x0018, 0x6011), vr: VR::SQ, value });
        };
        put(&mut data, 7);
        assert_eq!(signs(&data), [BurnedIn::OutsideOfRegions]);
        put(&mut data, 9);
        assert!(signs(&data).is_empty());
    }
}
