//! What an OME-TIFF file says of its images.

use crate::wsi::schema::WsiInfo;

/// An associated image by its name and size.
pub(super) struct Named {
    pub(super) name: String,
    pub(super) width: u32,
    pub(super) height: u32,
}

/// The XML of a file whose first page is the raster, and whose further ones are associated images.
pub(super) fn description<'a>(
    info: &WsiInfo,
    associated: impl Iterator<Item = &'a Named>,
) -> String {
    let mut text = String::from(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?><OME \
         xmlns=\"http://www.openmicroscopy.org/Schemas/OME/2016-06\" \
         xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" \
         xsi:schemaLocation=\"http://www.openmicroscopy.org/Schemas/OME/2016-06 \
         http://www.openmicroscopy.org/Schemas/OME/2016-06/ome.xsd\">",
    );
    let sizes = format!(
        " PhysicalSizeX=\"{}\" PhysicalSizeXUnit=\"\u{b5}m\" PhysicalSizeY=\"{}\" \
         PhysicalSizeYUnit=\"\u{b5}m\"",
        info.mpp.x, info.mpp.y
    );
    text.push_str(&image_element(0, &info.slide_id, (info.width, info.height), &sizes));
    for (number, image) in (1_usize..).zip(associated) {
        let size = (image.width.into(), image.height.into());
        text.push_str(&image_element(number, &image.name, size, ""));
    }
    text.push_str("</OME>");
    text
}

fn image_element(number: usize, name: &str, size: (u64, u64), sizes: &str) -> String {
    format!(
        "<Image ID=\"Image:{number}\" Name=\"{}\"><Pixels ID=\"Pixels:{number}\" \
         DimensionOrder=\"XYCZT\" Type=\"uint8\" SizeX=\"{}\" SizeY=\"{}\" SizeC=\"3\" SizeZ=\"1\" \
         SizeT=\"1\" Interleaved=\"true\"{sizes}><Channel ID=\"Channel:{number}:0\" \
         SamplesPerPixel=\"3\"/><TiffData IFD=\"{number}\" PlaneCount=\"1\"/></Pixels></Image>",
        escaped(name),
        size.0,
        size.1
    )
}

/// A text as the value of an attribute of XML.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            // XML has no way to say these.
            other if other.is_control() => out.push(' '),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_leave_their_attribute() {
        assert_eq!(escaped("a\"<&>\u{1}b"), "a&quot;&lt;&amp;&gt; b");
    }
}
