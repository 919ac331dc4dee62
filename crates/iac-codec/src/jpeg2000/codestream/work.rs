//! What decoding a codestream will cost, before anything of it is decoded.

use super::coding::ComponentCoding;
use super::{Area, Component};

/// What decoding will cost, summed over tiles.
#[derive(Default)]
pub(super) struct Work {
    pub(super) packets: u64,
    /// Bytes of the tile that needs most.
    pub(super) largest_tile: u64,
    /// Blocks of all tiles. One with data takes more memory, and at least a byte of the payload.
    pub(super) blocks: u64,
}

/// What decoding one tile will cost.
#[derive(Default)]
pub(super) struct TileWork {
    precincts: u64,
    blocks: u64,
    samples: u64,
    resolutions: u64,
    most_precincts: u64,
    components: u64,
    /// The finest grid on which precincts of any component start.
    step: Option<(u64, u64)>,
}

impl TileWork {
    pub(super) fn add(&mut self, coding: &ComponentCoding, area: Area, component: &Component) {
        self.components = self.components.saturating_add(1);
        self.samples = self.samples.saturating_add(area.samples());
        self.resolutions = self.resolutions.max(u64::from(coding.levels).saturating_add(1));
        if area.samples() == 0 {
            return;
        }
        for resolution in 0..=coding.levels {
            let halvings = coding.levels.saturating_sub(resolution);
            let level = area.halved(halvings);
            let (ppx, ppy) = coding.precinct(resolution);
            let dx = u64::from(component.dx) << (u32::from(ppx).saturating_add(halvings).min(40));
            let dy = u64::from(component.dy) << (u32::from(ppy).saturating_add(halvings).min(40));
            let (x, y) = self.step.unwrap_or((u64::MAX, u64::MAX));
            self.step = Some((x.min(dx), y.min(dy)));
            if level.samples() == 0 {
                continue;
            }
            let across = cells(level.x0, level.x1, ppx);
            let down = cells(level.y0, level.y1, ppy);
            let precincts = across.saturating_mul(down);
            self.precincts = self.precincts.saturating_add(precincts);
            self.most_precincts = self.most_precincts.max(precincts);
            // Above the lowest resolution a precinct spans half its size in each of three bands.
            let (bands, shrunk) = if resolution == 0 { (1, 0) } else { (3, 1) };
            let width = coding.block.0.min(ppx.saturating_sub(shrunk));
            let height = coding.block.1.min(ppy.saturating_sub(shrunk));
            let band = level.halved(shrunk.into());
            let blocks =
                cells(band.x0, band.x1, width).saturating_mul(cells(band.y0, band.y1, height));
            self.blocks = self.blocks.saturating_add(blocks.max(precincts).saturating_mul(bands));
        }
    }

    /// How often precinct positions are looked at.
    pub(super) fn steps(&self, tile: Area) -> u64 {
        let Some((dx, dy)) = self.step else { return 0 };
        let across = u64::from(tile.width()).div_ceil(dx.max(1)).saturating_add(1);
        let down = u64::from(tile.height()).div_ceil(dy.max(1)).saturating_add(1);
        let positions = across.saturating_mul(down);
        positions.saturating_mul(self.components).saturating_mul(self.resolutions)
    }
}

impl Work {
    pub(super) fn add(&mut self, tile: &TileWork, layers: u64) {
        self.packets = self.packets.saturating_add(tile.precincts.saturating_mul(layers));
        let included = tile
            .resolutions
            .saturating_mul(tile.components)
            .saturating_mul(tile.most_precincts)
            .saturating_mul(layers.saturating_add(1))
            .saturating_mul(2);
        let bytes = tile
            .samples
            .saturating_mul(4)
            .saturating_add(tile.precincts.saturating_mul(3 * 250))
            .saturating_add(tile.blocks.saturating_mul(250))
            .saturating_add(included);
        self.largest_tile = self.largest_tile.max(bytes);
        self.blocks = self.blocks.saturating_add(tile.blocks);
    }
}

/// Cells of size 2^`exponent`, counted from 0, that a side touches.
fn cells(start: u32, end: u32, exponent: u8) -> u64 {
    if end <= start {
        return 0;
    }
    let exponent = u32::from(exponent).min(31);
    let last = u64::from(end).saturating_add((1_u64 << exponent).saturating_sub(1)) >> exponent;
    last.saturating_sub(u64::from(start) >> exponent)
}
