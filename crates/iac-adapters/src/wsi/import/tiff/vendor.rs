//! Whose file it is: where micrometres per pixel stand, which pages are smaller versions of the raster,
//! and what the others show.

use serde_json::{Map, Value};

use super::aperio::Aperio;
use super::area::Area;
use super::file::TiffFile;
use super::leica::Leica;
use super::page::Outline;
use super::tags;
use super::ventana::{self, Ventana};
use crate::error::Result;
use crate::wsi::import::source::Opening;
use crate::wsi::schema::Mpp;

/// Whose file it is.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Vendor {
    Aperio(Aperio),
    /// The magnification of the raster, and the page that shows it.
    Hamamatsu {
        lens: Option<f64>,
        page: usize,
    },
    Leica(Leica),
    Ventana(Ventana),
    /// XML with a DICOM-like list of attributes.
    Philips,
    /// `PerkinElmer` and Akoya.
    Qptiff,
    /// The names of its images, in the order of the file's pages.
    Ome {
        names: Vec<String>,
    },
    Generic,
}

impl Vendor {
    /// Tells whose file it is, and refuses those that hold more than one slide can be.
    pub(super) fn of(file: &TiffFile, suffix: &str, text: &str, opening: &Opening) -> Result<Self> {
        let is_leica = text.contains("www.leica-microsystems.com/scn");
        if suffix == "scn" || is_leica {
            if !is_leica {
                return Err(file.decode("has no description of a scan by Leica".to_owned()));
            }
            return Ok(Self::Leica(Leica::parse(file, text, opening)?));
        }
        if let Some(ventana) = Ventana::parse(file, suffix)? {
            return Ok(Self::Ventana(ventana));
        }
        let samples = file.integer(0, tags::SAMPLES_PER_PIXEL)?.unwrap_or(1);
        // Grey pages of these are channels of fluorescence, of which one is not the slide.
        let color = |name: &str| {
            if samples == 3 {
                return Ok(());
            }
            Err(file.unsupported(format!(
                "is {name} file whose first page has {samples} samples for each pixel instead of \
                 red, green and blue"
            )))
        };
        if suffix == "ndpi" || file.integer(0, tags::NDPI_VERSION)?.is_some() {
            color("an NDPI")?;
            return Self::hamamatsu(file, opening);
        }
        if let Some(aperio) = Aperio::parse(text) {
            return Ok(Self::Aperio(aperio));
        }
        if text.contains("DPUfsImport") {
            color("a Philips")?;
            return Ok(Self::Philips);
        }
        if suffix == "qptiff" || text.contains("PerkinElmer-QPI") {
            color("a QPTIFF")?;
            return Ok(Self::Qptiff);
        }
        if text.contains("<OME ") || text.contains("<OME>") {
            color("an OME-TIFF")?;
            let images = text.split("<Image ").skip(1);
            let names = images.map(|it| attribute(it, "Name").unwrap_or_default().to_lowercase());
            return Ok(Self::Ome { names: names.collect() });
        }
        Ok(Self::Generic)
    }

    /// Pages of the size and magnification of the first one are its focal planes.
    fn hamamatsu(file: &TiffFile, opening: &Opening) -> Result<Self> {
        let lens = super::ndpi::lens(file, 0)?;
        let first = Outline::read(file, 0)?;
        let mut planes = vec![0];
        for page in 1..file.pages() {
            let same = super::ndpi::lens(file, page)? == lens && lens.is_some();
            if same && {
                let outline = Outline::read(file, page)?;
                (outline.width, outline.height) == (first.width, first.height)
            } {
                planes.push(page);
            }
        }
        let plane = opening
            .plane_of(planes.len())
            .map_err(|reason| file.error(iac_format::ErrorKind::Usage, reason))?;
        Ok(Self::Hamamatsu { lens, page: planes.get(plane).copied().unwrap_or(0) })
    }

    /// The pages that make up the raster, at least one.
    pub(super) fn areas(&self) -> Vec<Area> {
        match self {
            Self::Leica(leica) => leica.areas.clone(),
            Self::Ventana(ventana) => vec![Area::all(ventana.page)],
            Self::Hamamatsu { page, .. } => vec![Area::all(*page)],
            _ => vec![Area::all(0)],
        }
    }

    /// The name under which the reference knows the vendor.
    pub(super) const fn name(&self) -> Option<&'static str> {
        match self {
            Self::Aperio(_) => Some("aperio"),
            Self::Hamamatsu { .. } => Some("hamamatsu"),
            Self::Leica(_) => Some("leica"),
            Self::Ventana(_) => Some("ventana"),
            Self::Philips => Some("philips"),
            Self::Qptiff => Some("perkinelmer"),
            Self::Ome { .. } | Self::Generic => None,
        }
    }

    /// Micrometres per pixel that the description states, and how messages call the place.
    pub(super) fn mpp(&self, text: &str) -> Option<(Mpp, &'static str)> {
        match self {
            Self::Aperio(aperio) => Some((Mpp::both(aperio.mpp()?), "aperio.MPP")),
            Self::Leica(leica) => Some((leica.mpp, "the size of the scanned area")),
            Self::Ventana(ventana) => Some((Mpp::both(ventana.mpp?), "ScanRes")),
            Self::Philips => {
                // Rows first, in millimetres.
                let value = text.split("DICOM_PIXEL_SPACING").nth(1)?.split('>').nth(1)?;
                let value = value.split('<').next()?.replace("&quot;", "\"");
                let mut numbers = value
                    .split(|it: char| it == '"' || it.is_whitespace())
                    .filter_map(|number| number.parse::<f64>().ok());
                let (y, x) = (numbers.next()?, numbers.next()?);
                Some((Mpp { x: x * 1000.0, y: y * 1000.0 }, "DICOM_PIXEL_SPACING"))
            }
            Self::Ome { .. } => {
                let pixels = text.split("<Pixels ").nth(1)?.split('>').next()?;
                let size = |name: &str, unit: &str| {
                    let number: f64 = attribute(pixels, name)?.parse().ok()?;
                    let scale = match attribute(pixels, unit) {
                        None | Some("\u{b5}m" | "\u{3bc}m" | "&#181;m" | "um") => 1.0,
                        Some("nm") => 0.001,
                        Some("mm") => 1000.0,
                        Some("cm") => 10_000.0,
                        Some(_) => return None,
                    };
                    Some(number * scale)
                };
                let x = size("PhysicalSizeX", "PhysicalSizeXUnit")?;
                let y = size("PhysicalSizeY", "PhysicalSizeYUnit")?;
                Some((Mpp { x, y }, "PhysicalSizeX and PhysicalSizeY"))
            }
            Self::Hamamatsu { .. } | Self::Qptiff | Self::Generic => None,
        }
        .filter(|(mpp, _)| mpp.is_valid())
    }

    /// Whether a page is a smaller version of the raster, or another focal plane of it.
    pub(super) fn is_level(
        &self,
        first: &Outline,
        (number, page): (usize, &Outline),
        text: &str,
        lens: Option<f64>,
    ) -> bool {
        match self {
            Self::Hamamatsu { .. } => lens.is_some_and(|lens| lens > 0.0),
            Self::Leica(leica) => leica.macro_page != Some(number),
            Self::Ventana(_) => ventana::level(text).is_some(),
            // Their associated images are in strips, and their levels in tiles.
            Self::Aperio(_) | Self::Philips => page.tiled,
            Self::Qptiff => {
                matches!(element(text, "ImageType"), Some("ReducedResolution" | "FullResolution"))
            }
            Self::Ome { .. } | Self::Generic => {
                let reduced = page.subfile_type & 1 == 1;
                let scale = first.width.checked_div(page.width).unwrap_or(0);
                let smaller = page.width < first.width && page.height < first.height;
                // The sides of levels are rounded, one after the other.
                let expected = page.width.saturating_mul(first.height).checked_div(first.width);
                let apart = expected.unwrap_or(0).abs_diff(page.height);
                let same_form = apart <= 1 && scale >= 2 && page.tiled == first.tiled;
                smaller && (reduced || same_form)
            }
        }
    }

    /// What a page shows by what it says.
    pub(super) fn shows(&self, text: &str) -> Option<&'static str> {
        match self {
            Self::Aperio(_) => Aperio::associated(text),
            Self::Philips => match text.trim().to_ascii_lowercase() {
                text if text.starts_with("label") => Some("label"),
                text if text.starts_with("macro") => Some("macro"),
                _ => None,
            },
            Self::Qptiff => match element(text, "ImageType")? {
                "Label" => Some("label"),
                "Overview" => Some("macro"),
                "Thumbnail" => Some("thumbnail"),
                _ => None,
            },
            // The overview shows the label too.
            Self::Ventana(_) if is_ventana_overview(text) => Some("label"),
            _ => None,
        }
    }

    /// The name of an associated image.
    pub(super) fn associated_name(
        &self,
        number: usize,
        subfile_type: u64,
        text: &str,
        lens: Option<f64>,
    ) -> String {
        let known = match self {
            Self::Hamamatsu { .. } => match lens {
                Some(-1.0) => Some("macro"),
                Some(-2.0) => Some("map"),
                _ => None,
            },
            // The second page of an SVS file is called a thumbnail by every reader, whatever it says.
            Self::Aperio(_) if number == 1 => Some("thumbnail"),
            Self::Aperio(_) => self.shows(text).or(match subfile_type {
                1 => Some("label"),
                9 => Some("macro"),
                _ => None,
            }),
            Self::Leica(_) => Some("macro"),
            Self::Ventana(_) if is_ventana_overview(text) => Some("macro"),
            Self::Ventana(_) => match text.trim() {
                "Thumbnail" => Some("thumbnail"),
                "Probability_Image" => Some("probability_image"),
                _ => None,
            },
            Self::Ome { names } => {
                names.get(number).map(String::as_str).filter(|it| !it.is_empty())
            }
            _ => self.shows(text),
        };
        known.map_or_else(|| format!("page_{}", number.saturating_add(1)), str::to_owned)
    }

    /// What is known of the objective's magnification.
    pub(super) fn power(&self) -> Value {
        match self {
            Self::Aperio(aperio) => aperio.power(),
            Self::Hamamatsu { lens: Some(lens), .. } => (*lens).into(),
            Self::Leica(Leica { objective: Some(power), .. })
            | Self::Ventana(Ventana { magnification: Some(power), .. }) => (*power).into(),
            _ => Value::Null,
        }
    }

    /// What the description says, item by item.
    pub(super) fn members(&self, into: &mut Map<String, Value>) {
        match self {
            Self::Aperio(aperio) => aperio.members(into),
            Self::Leica(leica) => {
                let device = leica.device.clone().map_or(Value::Null, Value::from);
                into.insert("leica.device-model".to_owned(), device);
                into.insert("leica.scanned-areas".to_owned(), leica.areas.len().into());
            }
            _ => {}
        }
    }

    /// The codec and quality that the description names.
    pub(super) fn codec(&self) -> Option<(&'static str, Option<i64>)> {
        match self {
            Self::Aperio(aperio) => aperio.codec(),
            _ => None,
        }
    }
}

/// Whether a page of Ventana's shows the whole slide.
fn is_ventana_overview(text: &str) -> bool {
    matches!(text.trim(), "Label Image" | "Label_Image")
}

/// The value of an attribute of an element whose text begins here.
pub(super) fn attribute<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let element = text.split('>').next()?;
    let marked = format!("{name}=\"");
    let (before, after) = element.split_once(&marked)?;
    // Another attribute may end in the same letters.
    if before.ends_with(|it: char| it.is_alphanumeric()) {
        let (_, after) = after.split_once(&marked)?;
        return after.split('"').next();
    }
    after.split('"').next()
}

/// The text of an element.
pub(super) fn element<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let after = text.split(&format!("<{name}>")).nth(1)?;
    after.split("</").next().map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn micrometres_per_pixel_are_found_in_descriptions() {
        let ome = Vendor::Ome { names: Vec::new() };
        let text = "<OME xmlns=\"x\"><Image ID=\"0\" Name=\"a\"><Pixels ID=\"P\" PhysicalSizeX=\"250\" \
                    PhysicalSizeXUnit=\"nm\" PhysicalSizeY=\"0.5\" SizeC=\"3\"></Pixels></Image></OME>";
        assert_eq!(ome.mpp(text).unwrap().0, Mpp { x: 0.25, y: 0.5 });
        assert_eq!(ome.mpp("<OME >"), None);
        let text = "<Attribute Name=\"DICOM_PIXEL_SPACING\" PMSVR=\"IDoubleArray\">&quot;0.0005&quot; \
                    &quot;0.00025&quot;</Attribute>";
        assert_eq!(Vendor::Philips.mpp(text).unwrap().0, Mpp { x: 0.25, y: 0.5 });
        let text = "<a Name=\"DICOM_PIXEL_SPACING\">\"0.0005\" \"0\"</a>";
        assert_eq!(Vendor::Philips.mpp(text), None);
    }

    #[test]
    fn pages_are_told_apart_by_what_they_say() {
        let first = Outline { width: 1000, height: 800, tiled: true, subfile_type: 0 };
        let page = Outline { width: 500, height: 400, tiled: true, subfile_type: 0 };
        let strips = Outline { tiled: false, ..page };
        assert!(Vendor::Generic.is_level(&first, (1, &page), "", None));
        assert!(!Vendor::Generic.is_level(&first, (1, &strips), "", None));
        let text = "<ImageType>Label</ImageType>";
        assert!(!Vendor::Qptiff.is_level(&first, (1, &page), text, None));
        assert_eq!(Vendor::Qptiff.associated_name(5, 0, text, None), "label");
        let text = "<ImageType>ReducedResolution</ImageType>";
        assert!(Vendor::Qptiff.is_level(&first, (1, &page), text, None));
        assert_eq!(Vendor::Philips.associated_name(8, 0, "Macro -offset", None), "macro");
        let ome = Vendor::Ome { names: vec!["slide".into(), "label".into()] };
        assert_eq!(ome.associated_name(1, 0, "", None), "label");
        assert_eq!(ome.associated_name(2, 0, "", None), "page_3");
    }
}
