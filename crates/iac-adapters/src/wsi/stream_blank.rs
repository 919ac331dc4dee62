//! Rows of tiles that are not stored are passed over: against a raster that stores them as background.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    clippy::indexing_slicing,
    reason = "numbers that the test makes itself"
)]

use std::num::NonZeroUsize;

use bytes::Bytes;

use super::plan::Axis;
use super::raster::{Grid, TileSource};
use super::stream::{StreamOptions, render};
use crate::error::Result;

/// Numbers that are the same in each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// A raster of random tiles, of which some are not stored.
struct Made {
    grid: Grid,
    /// One in so many is stored, as far as its row is.
    rarity: u64,
    seed: u64,
    /// Whether what is not stored is given as background.
    filled: bool,
}

impl TileSource for Made {
    fn grid(&self) -> Grid {
        self.grid
    }

    fn tile(&self, x: u64, y: u64) -> Result<Option<Bytes>> {
        let row = Numbers(self.seed ^ (y * 77)).below(3);
        let mut numbers = Numbers(self.seed ^ (x << 32) ^ (y << 8));
        numbers.below(2);
        let is_stored = row == 0 && numbers.below(self.rarity) == 0;
        let pixels = self.grid.tile_width * self.grid.tile_height;
        if is_stored {
            return Ok(Some((0..pixels * 3).map(|_| numbers.below(256) as u8).collect()));
        }
        let blank = || (0..pixels).flat_map(|_| self.grid.background).collect();
        Ok(self.filled.then(blank))
    }
}

#[test]
fn rows_that_are_not_stored_have_the_bytes_of_stored_background() {
    let mut numbers = Numbers(7);
    let all = std::env::var_os("IAC_FLIPS").is_some_and(|size| size == "full");
    let cases = if all { CASES } else { CASES / 4 };
    for case in 0..cases {
        let mut side = |most: u64| 1 + numbers.below(most);
        let tile = (side(24), side(24));
        let grid = Grid {
            width: side(160),
            height: side(260),
            tile_width: tile.0,
            tile_height: tile.1,
            background: [side(255) as u8, side(255) as u8, side(256).wrapping_sub(1) as u8],
        };
        let (rarity, seed) = (side(5), side(1 << 30));
        let sparse = Made { grid, rarity, seed, filled: false };
        let dense = Made { filled: true, ..sparse };
        let step = match side(6) {
            1 => 1.0,
            2 => side(40) as f64,
            3 => 1.0 + side(1000) as f64 / 997.0,
            4 => 1.0 + side(100_000) as f64 / 3001.0,
            5 => side(300) as f64 + 0.5,
            _ => f64::from(1_u32 << (side(8) - 1)),
        };
        let whole = side(2) == 1;
        let mut start = |size: u64| {
            let at = side(size * 3) as f64 - size as f64;
            if whole { at } else { at + side(1000) as f64 / 999.0 }
        };
        let at = (start(grid.width), start(grid.height));
        let most = |size: u64| (3.0 * size as f64 / step).ceil() as u64 + 2;
        let size =
            (side(most(grid.width).min(300)) as u32, side(most(grid.height).min(300)) as u32);
        let soft = side(4) == 1;
        let axis = |at, count, size| {
            let axis = Axis::new(at, step, count, size);
            if soft { axis.softened(size) } else { axis }
        };
        let x = axis(at.0, size.0, grid.width);
        let y = axis(at.1, size.1, grid.height);
        let mut made = |source: &Made| {
            let workers = NonZeroUsize::new(side(4) as usize).unwrap();
            let memory = [1, 3000, 20_000, 200_000, 1 << 26][side(5) as usize - 1];
            let mut out = vec![99; size.0 as usize * size.1 as usize * 3];
            render(source, &x, &y, &mut out, StreamOptions { workers, memory }).unwrap();
            out
        };
        let (one, other) = (made(&sparse), made(&dense));
        let apart = one.iter().zip(&other).position(|(a, b)| a != b);
        assert_eq!(apart, None, "{case}: {grid:?} {at:?} {step} {size:?} {soft}");
    }
}

/// Rasters and regions that are tried with `IAC_FLIPS=full`.
const CASES: u32 = 3000;
