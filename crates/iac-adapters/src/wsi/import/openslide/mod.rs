//! Slides that libopenslide reads: what no other source here does, and others on request.

mod library;

use std::path::{Path, PathBuf};

use iac_format::ErrorKind;
use serde_json::Map;

use self::library::Handle;
use super::source::{
    AssociatedSource, Description, Opening, RasterSource, Rect, StatedMpp, Storage,
};
use super::source_error;
use crate::error::{AdapterError, Result};
use crate::wsi::schema::Mpp;

/// Pixels that an associated image may have.
const MAX_ASSOCIATED: u64 = 64 << 20;
/// Bytes of a colour profile that are believed.
const MAX_ICC: usize = 64 << 20;

/// A slide that OpenSlide has open.
pub(crate) struct OpenSlideSource {
    path: PathBuf,
    handle: Handle,
    description: Description,
    associated: Vec<AssociatedSource>,
}

impl OpenSlideSource {
    pub(crate) fn open(path: &Path, opening: &Opening) -> Result<Self> {
        let wrong = |reason: String| source_error(path, ErrorKind::Unsupported, reason);
        opening.plane_of(1).map_err(|reason| source_error(path, ErrorKind::Usage, reason))?;
        let handle = Handle::open(path).map_err(wrong)?;
        let (width, height) = handle.size().map_err(wrong)?;
        let mut info = Map::new();
        let properties = handle.properties();
        for (name, value) in &properties {
            info.insert(name.clone(), value.clone().into());
        }
        let number = |name: &str| {
            let (_, value) = properties.iter().find(|(known, _)| known == name)?;
            value.parse::<f64>().ok()
        };
        let own = number("openslide.mpp-x").zip(number("openslide.mpp-y"));
        let own = own.map(|(x, y)| StatedMpp {
            mpp: Mpp { x, y },
            place: "openslide.mpp-x and openslide.mpp-y",
        });
        // Older versions do not read the tags of TIFF files that are no scanner's.
        let unit = properties.iter().find(|(known, _)| known == "tiff.ResolutionUnit");
        let unit = unit.and_then(|(_, unit)| match unit.as_str() {
            "inch" => Some(25_400.0),
            "centimeter" => Some(10_000.0),
            _ => None,
        });
        let tags = number("tiff.XResolution").zip(number("tiff.YResolution")).zip(unit);
        let tags = tags.map(|((x, y), unit)| StatedMpp {
            mpp: Mpp { x: unit / x, y: unit / y },
            place: "tiff.XResolution and tiff.YResolution",
        });
        let mpp = [own, tags].into_iter().flatten().find(|stated| stated.mpp.is_valid());
        let suffix = path.extension().and_then(|it| it.to_str()).unwrap_or("openslide");
        let source_bytes = path.metadata().map_or(0, |it| it.len());
        let description = Description {
            width,
            height,
            orientation: 1,
            mpp,
            backend: "OpenSlide",
            format: suffix.to_ascii_lowercase(),
            mode: "RGBA".to_owned(),
            storage: Storage { codec: "unknown".to_owned(), ..Storage::unknown(source_bytes) },
            info,
            icc: handle.profile(MAX_ICC),
            keeps_associated: true,
        };
        let mut associated = Vec::new();
        for name in handle.images() {
            let (width, height) = handle.image_size(&name).map_err(wrong)?;
            let fits = width.saturating_mul(height) <= MAX_ASSOCIATED;
            let (true, Ok(width), Ok(height)) = (fits, u32::try_from(width), u32::try_from(height))
            else {
                return Err(source_error(
                    path,
                    ErrorKind::Limit,
                    format!("an associated image has {width} x {height} pixels"),
                ));
            };
            let shows = matches!(name.as_str(), "label" | "macro").then_some("label");
            associated.push(AssociatedSource {
                name,
                width,
                height,
                mode: "RGBA".to_owned(),
                has_alpha: true,
                shows,
                icc: None,
                info: Map::new(),
            });
        }
        Ok(Self { path: path.to_owned(), handle, description, associated })
    }

    fn wrong(&self, reason: String) -> AdapterError {
        source_error(&self.path, ErrorKind::Decode, reason)
    }
}

/// Pixels over white.
fn on_white(pixels: &[u32]) -> Vec<u8> {
    let over = |pixel: &u32| {
        let [alpha, red, green, blue] = pixel.to_be_bytes();
        let rest = 255_u8.saturating_sub(alpha);
        [red, green, blue].map(|value| value.saturating_add(rest))
    };
    pixels.iter().flat_map(over).collect()
}

impl RasterSource for OpenSlideSource {
    fn description(&self) -> &Description {
        &self.description
    }

    fn files(&self) -> Vec<PathBuf> {
        vec![self.path.clone()]
    }

    fn read(&self, rect: Rect) -> Result<Vec<u8>> {
        let pixels = self.handle.read((rect.x, rect.y), (rect.width, rect.height));
        pixels.map(|pixels| on_white(&pixels)).map_err(|reason| self.wrong(reason))
    }

    fn associated(&self) -> &[AssociatedSource] {
        &self.associated
    }

    fn read_associated(&self, position: usize) -> Result<Vec<u8>> {
        let image = self.associated.get(position);
        let image = image.ok_or_else(|| self.wrong("there is no such image".to_owned()))?;
        let pixels = self.handle.image(&image.name);
        pixels.map(|pixels| on_white(&pixels)).map_err(|reason| self.wrong(reason))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transparency_is_put_on_white() {
        assert_eq!(
            on_white(&[0, 0xFF01_0203, 0x8040_2000]),
            [255, 255, 255, 1, 2, 3, 191, 159, 127]
        );
    }
}
