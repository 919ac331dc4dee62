//! Pixels of slides as files.

use std::path::Path;
use std::process::ExitCode;

use iatrocache::adapters::AdapterError;
use iatrocache::adapters::wsi::{OnDamage, RegionImage, WsiPackReader, WsiReadOptions};
use iatrocache::ops::OpsError;
use iatrocache::ops::pictures::{PictureError, write_npy, write_png};
use iatrocache::{ImageShape, ImageView};
use serde_json::json;

use super::args::To;
use super::{open, workers};
use crate::cli::Common;
use crate::commands::select::shown;
use crate::failure::{Failure, Result, human_safe};
use crate::interrupt;
use crate::output::{self, Out};
use crate::place::NewFile;

/// Reads pixels and writes them to a file.
pub(super) fn pixels(
    path: &Path,
    to: &To,
    common: &Common,
    read: impl FnOnce(&WsiPackReader, WsiReadOptions) -> Result<RegionImage, AdapterError>,
) -> Result<ExitCode> {
    let format = Format::of(&to.output)?;
    let slide = open(path, common)?;
    let on_damage = if to.fill_damage { OnDamage::Fill } else { OnDamage::Fail };
    let options = WsiReadOptions::new()
        .workers(workers(common))
        .on_damage(on_damage)
        .raw_components(to.raw_components);
    let writing = interrupt::writing()?;
    let mut file = NewFile::create_from(path, &to.output, to.overwrite)?;
    #[cfg_attr(not(feature = "wsi-icc"), allow(unused_mut, reason = "colours are converted"))]
    let mut image = read(&slide, options)?;
    #[cfg(feature = "wsi-icc")]
    if to.srgb && !iatrocache::adapters::wsi::to_srgb(&slide, &mut image.pixels)? && !common.quiet {
        output::note("the slide has no profile, so that its colours stay as they are");
    }
    file.write(&format.content(&image, &to.output)?)?;
    file.publish()?;
    drop(writing);
    told(&image, &to.output, common)
}

/// How pixels are written.
#[derive(Debug, Clone, Copy)]
pub(super) enum Format {
    Png,
    Npy,
    Raw,
}

impl Format {
    /// The format that a file's name asks for.
    pub(super) fn of(path: &Path) -> Result<Self> {
        let suffix = path.extension().and_then(|suffix| suffix.to_str()).unwrap_or_default();
        match suffix.to_ascii_lowercase().as_str() {
            "png" => Ok(Self::Png),
            "npy" => Ok(Self::Npy),
            "raw" => Ok(Self::Raw),
            _ => Err(Failure::usage(format!(
                "{}: the file's name must end in .png, .npy or .raw",
                path.display()
            ))),
        }
    }

    pub(super) fn content(self, image: &RegionImage, path: &Path) -> Result<Vec<u8>> {
        if matches!(self, Self::Raw) {
            return Ok(image.pixels.clone());
        }
        let view = ImageShape::new(image.height, image.width, 3)
            .and_then(|shape| ImageView::new(shape, &image.pixels[..]));
        let written = view.map_err(PictureError::from).and_then(|view| match self {
            Self::Png => write_png(&view),
            _ => write_npy(&view),
        });
        written.map_err(|source| {
            Failure::from(OpsError::Picture {
                path: path.to_owned(),
                row: None,
                source: Box::new(source),
            })
        })
    }
}

/// Says what was written, and which tiles are damaged.
pub(super) fn told(image: &RegionImage, path: &Path, common: &Common) -> Result<ExitCode> {
    let mut out = Out::new();
    if common.json {
        let damaged: Vec<_> = image
            .damaged
            .iter()
            .map(|tile| {
                json!({
                    "tile_x": tile.tile_x,
                    "tile_y": tile.tile_y,
                    "row": tile.row,
                    "kind": tile.kind.as_str(),
                    "message": tile.reason,
                })
            })
            .collect();
        out.json(&json!({
            "path": shown(path),
            "width": image.width,
            "height": image.height,
            "damaged": damaged,
        }))?;
    } else {
        out.line(&format!(
            "{} x {} pixels in {}",
            image.width,
            image.height,
            human_safe(&shown(path))
        ))?;
    }
    out.finish()?;
    if !common.json {
        for tile in &image.damaged {
            output::note(&format!(
                "the tile at ({}, {}), row {}, is background: {}",
                tile.tile_x,
                tile.tile_y,
                tile.row,
                human_safe(&tile.reason)
            ));
        }
    }
    Ok(if image.damaged.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}
