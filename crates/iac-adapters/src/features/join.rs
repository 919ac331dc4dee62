//! Packs of features side by side with the tiles that they belong to.

use crate::error::{AdapterError, Result, short};
use crate::features::FeaturePackReader;
use crate::table::TileTable;

/// Stands for "this pack has no vector for the tile".
const MISSING: u32 = u32::MAX;

/// Vectors of several packs, found by the ids of a list of tiles.
///
/// Tiles that a pack has no vector for are listed, and reading them is an error: nothing is left
/// out or filled in silently. It holds 4 bytes for each tile and pack.
#[derive(Debug)]
pub struct FeatureJoin<'a> {
    packs: Vec<Joined<'a>>,
    tiles: u64,
}

#[derive(Debug)]
struct Joined<'a> {
    pack: &'a FeaturePackReader,
    rows: Vec<u32>,
    missing: Vec<u64>,
}

/// A vector that was asked for and is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct MissingFeature {
    /// Position in the rows that were asked for.
    pub position: usize,
    /// Row of the tile.
    pub tile_row: u64,
    /// Number of the pack in the join.
    pub pack: usize,
}

impl<'a> FeatureJoin<'a> {
    /// Looks up the vectors of tiles, whose ids come in the order of their rows.
    ///
    /// # Errors
    ///
    /// [`AdapterError::Schema`] when a pack's ids are missing or repeated.
    pub fn new<'t>(
        tile_ids: impl IntoIterator<Item = &'t str>,
        packs: impl IntoIterator<Item = &'a FeaturePackReader>,
    ) -> Result<Self> {
        Self::of_ids(tile_ids.into_iter().map(Ok), packs)
    }

    fn of_ids<'t>(
        tile_ids: impl Iterator<Item = Result<&'t str>>,
        packs: impl IntoIterator<Item = &'a FeaturePackReader>,
    ) -> Result<Self> {
        let mut packs: Vec<Joined<'a>> = packs
            .into_iter()
            .map(|pack| {
                pack.table().index()?;
                Ok(Joined { pack, rows: Vec::new(), missing: Vec::new() })
            })
            .collect::<Result<_>>()?;
        let mut tiles = 0_u64;
        for id in tile_ids {
            let id = id?;
            for joined in &mut packs {
                let row = joined.pack.find(id)?.and_then(|row| u32::try_from(row).ok());
                if row.is_none() {
                    joined.missing.push(tiles);
                }
                joined.rows.push(row.unwrap_or(MISSING));
            }
            tiles = tiles.saturating_add(1);
        }
        Ok(Self { packs, tiles })
    }

    /// Joins with the rows of another pack of features.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn with_features(
        base: &FeaturePackReader,
        packs: impl IntoIterator<Item = &'a FeaturePackReader>,
    ) -> Result<Self> {
        Self::of_table(base.table(), packs)
    }

    /// Joins with the tiles of a pack.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    #[cfg(feature = "tiles")]
    pub fn with_tiles(
        tiles: &crate::tiles::TilePackReader,
        packs: impl IntoIterator<Item = &'a FeaturePackReader>,
    ) -> Result<Self> {
        Self::of_table(tiles.table(), packs)
    }

    fn of_table(
        table: &TileTable,
        packs: impl IntoIterator<Item = &'a FeaturePackReader>,
    ) -> Result<Self> {
        Self::of_ids((0..table.rows()).map(|row| table.id(row)), packs)
    }

    /// Number of tiles.
    #[must_use]
    pub const fn tile_count(&self) -> u64 {
        self.tiles
    }

    /// Elements of a tile's vectors, one pack after the other.
    #[must_use]
    pub fn dim(&self) -> usize {
        self.packs.iter().map(|joined| joined.pack.dim()).fold(0, usize::saturating_add)
    }

    /// Tiles that a pack has no vector for; nothing where there is no such pack.
    #[must_use]
    pub fn missing(&self, pack: usize) -> &[u64] {
        self.packs.get(pack).map_or(&[], |joined| &joined.missing)
    }

    /// Tiles that every pack has a vector for.
    #[must_use]
    pub fn complete_rows(&self) -> Vec<u64> {
        (0..self.tiles)
            .filter(|tile| self.packs.iter().all(|joined| joined.row(*tile).is_some()))
            .collect()
    }

    /// The row of a pack that belongs to a tile.
    #[must_use]
    pub fn row(&self, pack: usize, tile: u64) -> Option<u64> {
        self.packs.get(pack)?.row(tile)
    }

    /// The vectors of tiles as `f32`: for each tile those of all packs, one after the other.
    ///
    /// # Errors
    ///
    /// [`AdapterError::RowOutOfRange`] for a tile that does not exist, [`AdapterError::UnknownId`]
    /// for one that a pack has no vector for, and those of reading.
    pub fn read_f32(&self, tiles: &[u64]) -> Result<Vec<f32>> {
        let (elements, missing) = self.read_f32_or(tiles, 0.0)?;
        let Some(first) = missing.first() else {
            return Ok(elements);
        };
        let path = self.packs.get(first.pack).map_or("", |joined| joined.pack.reader().path());
        Err(AdapterError::UnknownId {
            path: path.to_owned(),
            field: "tile_id",
            id: short(&format!("of tile row {}", first.tile_row)),
        })
    }

    /// The same with a value in place of the vectors that are not there, and a list of them.
    ///
    /// # Errors
    ///
    /// As [`read_f32`](Self::read_f32), apart from missing vectors.
    pub fn read_f32_or(&self, tiles: &[u64], fill: f32) -> Result<(Vec<f32>, Vec<MissingFeature>)> {
        if let Some(row) = tiles.iter().find(|row| **row >= self.tiles) {
            return Err(AdapterError::RowOutOfRange {
                path: "joined tiles".to_owned(),
                row: *row,
                rows: self.tiles,
            });
        }
        let width = self.dim();
        let total = tiles.len().checked_mul(width);
        let total = total.ok_or_else(|| AdapterError::usage("the batch is too large"))?;
        let mut elements = vec![fill; total];
        let mut missing = Vec::new();
        let mut start = 0_usize;
        for (number, joined) in self.packs.iter().enumerate() {
            let dim = joined.pack.dim();
            let mut rows = Vec::with_capacity(tiles.len());
            let mut positions = Vec::with_capacity(tiles.len());
            for (position, tile) in tiles.iter().enumerate() {
                match joined.row(*tile) {
                    Some(row) => {
                        rows.push(row);
                        positions.push(position);
                    }
                    None => {
                        missing.push(MissingFeature { position, tile_row: *tile, pack: number });
                    }
                }
            }
            let vectors = joined.pack.read_many_f32(&rows)?;
            for (position, vector) in positions.iter().zip(vectors.chunks(dim.max(1))) {
                let from = position.saturating_mul(width).saturating_add(start);
                let target = elements.get_mut(from..from.saturating_add(dim));
                if let Some(target) = target.filter(|target| target.len() == vector.len()) {
                    target.copy_from_slice(vector);
                }
            }
            start = start.saturating_add(dim);
        }
        missing.sort_unstable_by_key(|missing| (missing.position, missing.pack));
        Ok((elements, missing))
    }
}

impl Joined<'_> {
    fn row(&self, tile: u64) -> Option<u64> {
        let row = *self.rows.get(usize::try_from(tile).ok()?)?;
        (row != MISSING).then_some(u64::from(row))
    }
}
