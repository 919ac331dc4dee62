//! Tiles by where they lie.

use crate::columns::IntColumn;
use crate::error::Result;
use crate::tiles::build::TileSize;
use crate::tiles::read::{Sizes, TilePackReader};

/// A rectangle in a slide, in pixels; its right and lower edges are not part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TileRect {
    /// Left edge.
    pub x: i64,
    /// Upper edge.
    pub y: i64,
    /// Pixels in a row.
    pub width: u64,
    /// Rows.
    pub height: u64,
}

impl TilePackReader {
    /// Tiles of a slide whose upper left corner lies in a rectangle, from top to bottom and left to
    /// right.
    ///
    /// # Errors
    ///
    /// [`AdapterError::UnknownId`](crate::AdapterError::UnknownId) when there is no such slide; [`AdapterError::Schema`](crate::AdapterError::Schema) when the
    /// tables do not tell where tiles lie.
    pub fn rows_starting_in(&self, slide_id: &str, rect: TileRect) -> Result<Vec<u64>> {
        let slide = self.table.slide_named(slide_id)?;
        let [scale_x, scale_y] = self.table.scale()?;
        let stored = |start: i64, length: u64, scale: u64| {
            let start = i128::from(start);
            let end = start.saturating_add(i128::from(length));
            let scale = i128::from(scale);
            // The first multiple that is not before the edge.
            let up = |edge: i128| {
                let down = edge.checked_div_euclid(scale).unwrap_or(edge);
                let is_multiple = edge.checked_rem_euclid(scale) == Some(0);
                if is_multiple { down } else { down.saturating_add(1) }
            };
            [up(start), up(end)]
        };
        self.table.rows_between(
            slide,
            stored(rect.x, rect.width, scale_x),
            stored(rect.y, rect.height, scale_y),
        )
    }

    /// Tiles of a slide that share at least one pixel with a rectangle, from top to bottom and left
    /// to right.
    ///
    /// # Errors
    ///
    /// As [`rows_starting_in`](Self::rows_starting_in).
    pub fn rows_touching(&self, slide_id: &str, rect: TileRect) -> Result<Vec<u64>> {
        let largest = self.largest_size()?;
        let before =
            |start: i64, size: u32| start.saturating_sub(i64::from(size)).saturating_add(1);
        let longer = |length: u64, size: u32| match length {
            0 => 0,
            length => length.saturating_add(u64::from(size)).saturating_sub(1),
        };
        let wider = TileRect {
            x: before(rect.x, largest.width),
            y: before(rect.y, largest.height),
            width: longer(rect.width, largest.width),
            height: longer(rect.height, largest.height),
        };
        let rows = self.rows_starting_in(slide_id, wider)?;
        if self.tile_size().is_some() {
            return Ok(rows);
        }
        let scale = self.table.scale()?;
        let mut touching = Vec::new();
        for row in rows {
            let [x, y] = self.table.position(row, scale)?;
            let size = self.tile_size_at(row)?;
            let reaches =
                |start: i64, size: u32, edge: i64| start.saturating_add(i64::from(size)) > edge;
            if reaches(x, size.width, rect.x) && reaches(y, size.height, rect.y) {
                touching.push(row);
            }
        }
        Ok(touching)
    }

    /// Tiles of the same slide that lie beside a tile, or overlap it: at most one column and one
    /// row of the grid away, or, where positions are pixels, touching its edges. The tile itself is
    /// not among them.
    ///
    /// # Errors
    ///
    /// [`AdapterError::RowOutOfRange`](crate::AdapterError::RowOutOfRange); otherwise as [`rows_starting_in`](Self::rows_starting_in).
    pub fn neighbours(&self, row: u64) -> Result<Vec<u64>> {
        let slide = self.table.slide_row(row)?;
        let [x, y] = self.table.stored_position(row)?;
        let rows = if self.table.is_grid() {
            let around = |place: i128| [place.saturating_sub(1), place.saturating_add(2)];
            self.table.rows_between(slide, around(x), around(y))?
        } else {
            let own = self.tile_size_at(row)?;
            let largest = self.largest_size()?;
            let around = |place: i128, own: u32, largest: u32| {
                [
                    place.saturating_sub(i128::from(largest)),
                    place.saturating_add(i128::from(own)).saturating_add(1),
                ]
            };
            let candidates = self.table.rows_between(
                slide,
                around(x, own.width, largest.width),
                around(y, own.height, largest.height),
            )?;
            let mut touching = Vec::new();
            for other in candidates {
                let [other_x, other_y] = self.table.stored_position(other)?;
                let size = self.tile_size_at(other)?;
                let reaches = |start: i128, size: u32, edge: i128| {
                    start.saturating_add(i128::from(size)) >= edge
                };
                if reaches(other_x, size.width, x) && reaches(other_y, size.height, y) {
                    touching.push(other);
                }
            }
            touching
        };
        Ok(rows.into_iter().filter(|other| *other != row).collect())
    }

    fn largest_size(&self) -> Result<TileSize> {
        let columns = match &self.sizes {
            Sizes::Header(size) => return Ok(*size),
            Sizes::Columns(columns) => columns,
        };
        let [width, height] = columns.as_ref();
        let largest = |column: &IntColumn| {
            let values = column.iter().flatten().filter_map(|value| u32::try_from(value).ok());
            values.max().unwrap_or(0)
        };
        Ok(TileSize { width: largest(width), height: largest(height) })
    }
}
