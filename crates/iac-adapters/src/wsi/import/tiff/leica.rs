//! Leica's SCN: the areas of a slide that were scanned, each a page with smaller versions, described by
//! XML that places them on the slide by nanometres.

use super::area::Area;
use super::file::TiffFile;
use super::vendor::{attribute, element};
use crate::error::{Result, short};
use crate::wsi::import::source::{Opening, Rect};
use crate::wsi::schema::{Mpp, as_f64};

/// What the description says of the slide.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Leica {
    pub(super) areas: Vec<Area>,
    /// The page that shows the whole slide.
    pub(super) macro_page: Option<usize>,
    pub(super) mpp: Mpp,
    pub(super) device: Option<String>,
    pub(super) objective: Option<f64>,
}

/// An image of the description.
struct Image<'a> {
    text: &'a str,
    /// Left, upper edge, width, height.
    view: [f64; 4],
    dimensions: Vec<Dimension>,
}

/// One size of an image.
struct Dimension {
    width: u64,
    height: u64,
    page: usize,
    /// 0 is the largest.
    level: u64,
    plane: u64,
    channel: u64,
}

impl Leica {
    pub(super) fn parse(file: &TiffFile, text: &str, opening: &Opening) -> Result<Self> {
        let bad = |what: &str| file.decode(format!("its description {what}"));
        let collection = text.split("<collection ").nth(1).unwrap_or_default();
        let number = |text: &str, name: &str| {
            attribute(text, name)
                .and_then(|number| number.trim().parse::<f64>().ok())
                .filter(|number| number.is_finite() && number.abs() < 1e15)
        };
        let whole = number(collection, "sizeX").zip(number(collection, "sizeY"));
        let whole = whole.ok_or_else(|| bad("states no size of the slide"))?;
        let mut scans = Vec::new();
        let mut macro_page = None;
        for text in collection.split("<image ").skip(1) {
            let image = Image::parse(text).ok_or_else(|| bad("has an image without a place"))?;
            let [left, top, width, height] = image.view;
            let is_whole = left == 0.0 && top == 0.0 && (width, height) == whole;
            if is_whole && macro_page.is_none() {
                macro_page = image.largest(0, 0).map(|it| it.page);
            } else {
                scans.push(image);
            }
        }
        if scans.is_empty() {
            return Err(bad("names no scanned area"));
        }
        // Each is a page of its own; more would be no slide's, and are compared with each other.
        if scans.len() > file.pages() {
            return Err(bad(&format!(
                "names {} scanned areas, but the file has {} pages",
                scans.len(),
                file.pages()
            )));
        }
        let channels = scans.iter().flat_map(|scan| &scan.dimensions).any(|it| it.channel > 0);
        let lights = scans.iter().filter_map(|scan| element(scan.text, "illuminationSource"));
        let other = lights.into_iter().find(|light| !light.eq_ignore_ascii_case("brightfield"));
        if channels || other.is_some() {
            return Err(file.unsupported(format!(
                "was scanned by {}, of which one image is not the slide",
                other.map_or_else(|| "several channels".to_owned(), short)
            )));
        }
        let mut planes: Vec<u64> =
            scans.iter().flat_map(|scan| &scan.dimensions).map(|it| it.plane).collect();
        planes.sort_unstable();
        planes.dedup();
        let plane = opening
            .plane_of(planes.len())
            .map_err(|reason| file.error(iac_format::ErrorKind::Usage, reason))?;
        let plane = planes.get(plane).copied().unwrap_or(0);
        let mut step: Option<(f64, f64)> = None;
        let mut placed = Vec::new();
        for scan in &scans {
            let size = scan
                .largest(plane, 0)
                .ok_or_else(|| bad(&format!("has an area without the focal plane {plane}")))?;
            let [left, top, width, height] = scan.view;
            let own = (width / as_f64(size.width), height / as_f64(size.height));
            let first = *step.get_or_insert(own);
            // Sizes in nanometres are rounded to pixels.
            let near = |a: f64, b: f64| a > 0.0 && b > 0.0 && (a / b - 1.0).abs() < 0.01;
            if !near(own.0, first.0) || !near(own.1, first.1) {
                return Err(file.unsupported(format!(
                    "has areas of {} and {} nanometres per pixel",
                    first.0, own.0
                )));
            }
            placed.push((left, top, size));
        }
        let (x, y) = step.ok_or_else(|| bad("names no scanned area"))?;
        let edge = |of: fn(&(f64, f64, &Dimension)) -> f64| {
            placed.iter().map(of).fold(f64::INFINITY, f64::min)
        };
        let (left, top) = (edge(|it| it.0), edge(|it| it.1));
        let areas: Vec<Area> = placed
            .iter()
            .map(|(area_left, area_top, size)| Area {
                page: size.page,
                x: pixels((area_left - left) / x),
                y: pixels((area_top - top) / y),
                width: size.width,
                height: size.height,
            })
            .collect();
        for (number, area) in areas.iter().enumerate() {
            let others = areas.get(number.saturating_add(1)..).unwrap_or_default();
            if others.iter().any(|other| rect(area).shared(rect(other)).is_some()) {
                return Err(file.unsupported(
                    "has scanned areas that lie over each other, of which none is the slide's"
                        .to_owned(),
                ));
            }
        }
        let first = scans.first().map_or("", |scan| scan.text);
        let device = first.split("<device ").nth(1).and_then(|it| attribute(it, "model"));
        Ok(Self {
            areas,
            macro_page,
            mpp: Mpp { x: x / 1000.0, y: y / 1000.0 },
            device: device.map(str::to_owned),
            objective: element(first, "objective").and_then(|it| it.parse().ok()),
        })
    }
}

fn rect(area: &Area) -> Rect {
    Rect { x: area.x, y: area.y, width: area.width, height: area.height }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturating is meant")]
fn pixels(number: f64) -> u64 {
    number.round().max(0.0) as u64
}

impl<'a> Image<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let text = text.split("</image>").next()?;
        let view = text.split("<view ").nth(1)?;
        let length = |name: &str| {
            let number = attribute(view, name)?.trim().parse::<f64>().ok()?;
            (number.is_finite() && (0.0..1e15).contains(&number)).then_some(number)
        };
        let view = [length("offsetX")?, length("offsetY")?, length("sizeX")?, length("sizeY")?];
        let dimensions = text.split("<dimension ").skip(1).map(|text| {
            let number = |name: &str| attribute(text, name)?.trim().parse::<u64>().ok();
            Some(Dimension {
                width: number("sizeX").filter(|side| *side > 0)?,
                height: number("sizeY").filter(|side| *side > 0)?,
                page: usize::try_from(number("ifd")?).ok()?,
                level: number("r").unwrap_or(0),
                plane: number("z").unwrap_or(0),
                channel: number("c").unwrap_or(0),
            })
        });
        let dimensions: Option<Vec<_>> = dimensions.collect();
        Some(Self { text, view, dimensions: dimensions.filter(|it| !it.is_empty())? })
    }

    fn largest(&self, plane: u64, channel: u64) -> Option<&Dimension> {
        self.dimensions
            .iter()
            .filter(|it| it.plane == plane && it.channel == channel)
            .min_by_key(|it| it.level)
    }
}
