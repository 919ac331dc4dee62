//! Ventana's BIF: an overview, a thumbnail, then the raster and its smaller versions. XML beside the raster
//! says by how much its tiles overlap.

use super::file::TiffFile;
use super::tags;
use super::vendor::attribute;
use crate::error::{Result, short};

/// The tag of XMP data.
const XMP: u16 = 700;

/// What the XML says of the slide.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Ventana {
    /// The page with the raster.
    pub(super) page: usize,
    /// Micrometres per pixel.
    pub(super) mpp: Option<f64>,
    pub(super) magnification: Option<f64>,
}

/// Pages that are searched for XML, and bytes that one may have.
const MAX_PAGES: usize = 64;
const MAX_XML: usize = 16 << 20;

/// The XML of a page. One that cannot be read is an error: it may be what says that tiles overlap.
fn xml(file: &TiffFile, page: usize) -> Result<Option<String>> {
    let Some(bytes) = file.binary(page, XMP)? else { return Ok(None) };
    if bytes.len() > MAX_XML {
        return Err(file.limit(format!(
            "page {page}: its XML has {} bytes, but at most {MAX_XML} are read",
            bytes.len()
        )));
    }
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}

impl Ventana {
    /// Reads what a file's XML says; nothing where the file is none of Ventana's.
    pub(super) fn parse(file: &TiffFile, suffix: &str) -> Result<Option<Self>> {
        let pages = 0..file.pages().min(MAX_PAGES);
        let scan =
            pages.clone().find_map(|page| xml(file, page).ok()?.filter(|it| it.contains("<iScan")));
        let Some(scan) = scan else {
            if suffix == "bif" {
                return Err(file.decode("has no description of a scan by Ventana".to_owned()));
            }
            return Ok(None);
        };
        let scan = scan.split("<iScan").nth(1).unwrap_or_default();
        let number = |name: &str| attribute(scan, name)?.trim().parse::<f64>().ok();
        if let Some(layers) = number("Z-layers").filter(|layers| *layers > 1.0) {
            return Err(file.unsupported(format!(
                "has {layers} focal planes, and nothing tells which page shows which"
            )));
        }
        let mut found = None;
        for page in pages {
            let text = file.text(page, tags::IMAGE_DESCRIPTION)?.unwrap_or_default();
            if level(&text) == Some(0) {
                found = Some(page);
                break;
            }
        }
        let page =
            found.ok_or_else(|| file.decode("has no page that is called level 0".to_owned()))?;
        match xml(file, page)?.filter(|it| it.contains("<EncodeInfo")) {
            Some(text) => check_joints(file, page, &text)?,
            // Files that other programs write from these have tiles that are joined already.
            None if suffix == "bif" => {
                return Err(file.unsupported(format!(
                    "page {page} does not say whether its tiles overlap (EncodeInfo is missing)"
                )));
            }
            None => {}
        }
        let positive = |number: &f64| number.is_finite() && *number > 0.0;
        Ok(Some(Self {
            page,
            mpp: number("ScanRes").filter(positive),
            magnification: number("Magnification").filter(positive),
        }))
    }
}

/// The level that a description names.
pub(super) fn level(text: &str) -> Option<u32> {
    let number = text.split_whitespace().find_map(|word| word.strip_prefix("level="))?;
    number.parse().ok()
}

/// Refuses a raster whose tiles show a part of their neighbours.
fn check_joints(file: &TiffFile, page: usize, text: &str) -> Result<()> {
    for joint in text.split("<TileJointInfo").skip(1) {
        let number = |name: &str| attribute(joint, name).map(str::trim).unwrap_or_default();
        if number("FlagJoined") == "0" {
            continue;
        }
        // What is not stated is not 0.
        let (x, y) = (number("OverlapX"), number("OverlapY"));
        let is_zero = |text: &str| text.parse::<f64>().is_ok_and(|number| number == 0.0);
        if !is_zero(x) || !is_zero(y) {
            return Err(file.unsupported(format!(
                "page {page}: the tiles {} and {} overlap by {} x {} pixels, and only files whose \
                 tiles do not overlap are read",
                short(number("Tile1")),
                short(number("Tile2")),
                short(x),
                short(y)
            )));
        }
    }
    Ok(())
}
