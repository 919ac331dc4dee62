//! Slides in what other commands show: `iac info` and `iac montage`.

use iatrocache::PackReader;
use iatrocache::adapters::wsi::{WSI_IMAGE, WsiOpenOptions, WsiPackReader};
use iatrocache::ops::montage::{MontageOptions, Renderer};
use iatrocache::ops::rows::RowSelection;

use crate::failure::Result;
use crate::human;

/// What a person wants to know of a slide at a glance; nothing for other packs.
pub(in crate::commands) fn facts(pack: &PackReader) -> Vec<(&'static str, String)> {
    if pack.header().payload_type() != Some(WSI_IMAGE) {
        return Vec::new();
    }
    let Ok(slide) = WsiPackReader::from_reader(pack.clone(), &WsiOpenOptions::default()) else {
        return Vec::new();
    };
    let info = slide.info();
    let (width, height) = info.physical_size();
    let images: Vec<String> = slide
        .associated_images()
        .into_iter()
        .map(|image| format!("{} ({} x {})", image.name, image.width, image.height))
        .collect();
    let levels = slide.overview_levels();
    let overview = if levels.is_empty() {
        "none; `iac wsi overview` makes one".to_owned()
    } else {
        let parts: Vec<String> =
            levels.iter().map(|level| format!("1/{}", 1_u64.wrapping_shl(*level))).collect();
        parts.join(", ")
    };
    vec![
        ("slide", info.slide_id.clone()),
        (
            "raster",
            format!(
                "{} x {} pixels, {:.2} x {:.2} mm",
                info.width,
                info.height,
                width / 1000.0,
                height / 1000.0
            ),
        ),
        ("resolution", format!("{} micrometres per pixel", info.mpp)),
        (
            "tiles",
            format!(
                "{} of {} stored, {} x {} pixels, {}",
                human::count(info.stored_tiles),
                human::count(info.grid_width.saturating_mul(info.grid_height)),
                info.tile_width,
                info.tile_height,
                info.codec.name()
            ),
        ),
        ("images", if images.is_empty() { "none".to_owned() } else { images.join(", ") }),
        ("overview", overview),
    ]
}

/// Has a sheet show the tiles of a slide. Gives the rows that are shown: where nobody named any, some
/// of those that are tiles.
pub(in crate::commands) fn render(
    pack: &PackReader,
    rows: Option<RowSelection>,
    options: &mut MontageOptions,
) -> Result<Option<RowSelection>> {
    const SPREAD: usize = 100;
    if pack.header().payload_type() != Some(WSI_IMAGE) {
        return Ok(rows);
    }
    let reader = WsiPackReader::from_reader(pack.clone(), &WsiOpenOptions::default())?;
    let rows = rows.unwrap_or_else(|| {
        let tiles = reader.tile_rows();
        let every = tiles.len().div_ceil(SPREAD).max(1);
        tiles.into_iter().step_by(every).collect()
    });
    options.render = Some(Renderer::new(move |row| Ok(reader.read_row_image(row)?)));
    Ok(Some(rows))
}
