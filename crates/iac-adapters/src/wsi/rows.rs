//! The tables of a pack, checked column by column: where tiles and other records are.

use std::collections::{HashMap, HashSet};

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use iac_format::TableKind;
use iac_reader::PackReader;

use super::schema::WsiInfo;
use super::{METADATA_NAME, codec_id, kind};
use crate::columns::{int_column, missing_columns, text_column};
use crate::error::{AdapterError, Result, short};

const SLIDE_COLUMNS: [&str; 4] = ["slide_idx", "slide_id", "patient_id", "specimen_id"];
const RECORD_COLUMNS: [&str; 13] = [
    "kind",
    "name",
    "tile_x",
    "tile_y",
    "valid_width",
    "valid_height",
    "image_width",
    "image_height",
    "codec_id",
    "offset",
    "length",
    "crc32",
    "flags",
];
const NUMBERS: [&str; 9] = [
    "kind",
    "tile_x",
    "tile_y",
    "valid_width",
    "valid_height",
    "image_width",
    "image_height",
    "codec_id",
    "flags",
];

/// A null in a column of numbers; no column holds this number where one is meant.
const NULL: i64 = i64::MIN;
/// Places of the grid for each stored tile up to which the grid is kept as an array.
const DENSE: u64 = 8;
/// Places up to which it always is.
const ALWAYS_DENSE: u64 = 1 << 16;
/// No tile, in that array.
const ABSENT: u32 = u32::MAX;

/// A record that is no tile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Auxiliary {
    pub(crate) row: u64,
    pub(crate) kind: u8,
    pub(crate) name: String,
    /// Width and height of an associated image.
    pub(crate) size: Option<(u32, u32)>,
}

/// Which row holds the tile of a place.
#[derive(Debug)]
enum Places {
    /// Rows by place, row after row of the grid.
    Dense(Vec<u32>),
    /// Places with their rows, sorted.
    Sparse(Vec<(u64, u32)>),
}

/// Where the records of a pack are.
#[derive(Debug)]
pub(crate) struct Rows {
    places: Places,
    grid_width: u64,
    grid_height: u64,
    /// In the order of the table.
    pub(crate) auxiliary: Vec<Auxiliary>,
    /// Their positions, sorted by kind and name.
    by_name: Vec<u32>,
    /// Rows of tiles, in the order of the table.
    pub(crate) tiles: Vec<TilePlace>,
}

/// A tile's place and row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TilePlace {
    pub(crate) x: u32,
    pub(crate) y: u32,
    pub(crate) row: u32,
}

impl Rows {
    /// The row of the tile at a place of the grid.
    pub(crate) fn tile(&self, x: u64, y: u64) -> Option<u64> {
        if x >= self.grid_width || y >= self.grid_height {
            return None;
        }
        let place = y.saturating_mul(self.grid_width).saturating_add(x);
        match &self.places {
            Places::Dense(rows) => rows
                .get(usize::try_from(place).ok()?)
                .copied()
                .filter(|row| *row != ABSENT)
                .map(u64::from),
            Places::Sparse(places) => {
                let at = places.binary_search_by_key(&place, |(place, _)| *place).ok()?;
                places.get(at).map(|(_, row)| u64::from(*row))
            }
        }
    }

    /// The tile that a row holds.
    pub(crate) fn tile_of(&self, row: u64) -> Option<TilePlace> {
        let at = self.tiles.binary_search_by_key(&row, |tile| tile.row.into()).ok()?;
        self.tiles.get(at).copied()
    }

    /// A record by kind and name.
    pub(crate) fn find(&self, kind: u8, name: &str) -> Option<&Auxiliary> {
        let at = self.by_name.binary_search_by(|at| {
            let one = self.auxiliary.get(to_usize(*at));
            one.map(|one| (one.kind, one.name.as_str())).cmp(&Some((kind, name)))
        });
        self.auxiliary.get(to_usize(*self.by_name.get(at.ok()?)?))
    }
}

/// Reads the slide table into the description.
pub(crate) fn read_slide(pack: &PackReader, info: &mut WsiInfo) -> Result<()> {
    let table = pack.slide_table()?;
    let missing = missing_columns(table, &SLIDE_COLUMNS);
    if let Some(first) = missing.first() {
        return Err(AdapterError::schema(
            pack.path(),
            &format!("slide.{first}"),
            format!("slide table missing columns: {}", missing.join(", ")),
        ));
    }
    let number = int_column(pack, TableKind::Slide, "slide_idx")?.get(0);
    if table.num_rows() != 1 || number != Some(0) {
        return Err(AdapterError::schema(
            pack.path(),
            "slide.slide_idx",
            format!(
                "the slide table must have one row with slide_idx 0, but has {} rows, the first of \
                 slide_idx {}",
                table.num_rows(),
                number.map_or_else(|| "null".to_owned(), |number| number.to_string())
            ),
        ));
    }
    let text = |name| -> Result<Option<String>> {
        Ok(text_column(pack, TableKind::Slide, name)?.get(0).map(str::to_owned))
    };
    info.slide_id = text("slide_id")?.filter(|id| !id.is_empty()).ok_or_else(|| {
        AdapterError::schema(pack.path(), "slide.slide_id", "slide_id is null or empty")
    })?;
    info.patient_id = text("patient_id")?;
    info.specimen_id = text("specimen_id")?;
    Ok(())
}

/// A column of numbers as one slice.
fn numbers(pack: &PackReader, name: &str, rows: usize) -> Result<Vec<i64>> {
    let mut values = Vec::with_capacity(rows);
    for batch in pack.index_table()?.columns(&[name])? {
        let Some(array) = batch.columns().first() else { continue };
        push_numbers(array, &mut values).ok_or_else(|| {
            AdapterError::schema(
                pack.path(),
                name,
                format!(
                    "column `{name}` of the index table is of type {} instead of integers",
                    array.data_type()
                ),
            )
        })?;
    }
    Ok(values)
}

fn push_numbers(array: &ArrayRef, values: &mut Vec<i64>) -> Option<()> {
    let start = values.len();
    macro_rules! widen {
        ($type:ty) => {
            values.extend(array.as_primitive::<$type>().values().iter().map(|n| i64::from(*n)))
        };
    }
    match array.data_type() {
        DataType::UInt8 => widen!(UInt8Type),
        DataType::UInt16 => widen!(UInt16Type),
        DataType::UInt32 => widen!(UInt32Type),
        DataType::Int8 => widen!(Int8Type),
        DataType::Int16 => widen!(Int16Type),
        DataType::Int32 => widen!(Int32Type),
        DataType::Int64 => widen!(Int64Type),
        DataType::UInt64 => values.extend(
            array
                .as_primitive::<UInt64Type>()
                .values()
                .iter()
                .map(|number| i64::try_from(*number).unwrap_or(i64::MAX)),
        ),
        // A column of nulls alone may have no other type.
        DataType::Null => values.resize(start.saturating_add(array.len()), NULL),
        _ => return None,
    }
    if let Some(nulls) = array.nulls().filter(|nulls| nulls.null_count() > 0) {
        let added = values.get_mut(start..).unwrap_or_default();
        for (value, is_valid) in added.iter_mut().zip(nulls.iter()) {
            if !is_valid {
                *value = NULL;
            }
        }
    }
    Some(())
}

/// One row of the record table, without its text.
struct Row {
    kind: i64,
    tile: (i64, i64),
    valid: (i64, i64),
    image: (i64, i64),
    codec_id: i64,
    flags: i64,
}

/// Reads and checks the record table.
pub(crate) fn read_records(pack: &PackReader, info: &WsiInfo) -> Result<Rows> {
    let table = pack.index_table()?;
    let missing = missing_columns(table, &RECORD_COLUMNS);
    if let Some(first) = missing.first() {
        return Err(AdapterError::schema(
            pack.path(),
            first,
            format!("record table missing columns: {}", missing.join(", ")),
        ));
    }
    let count = u32::try_from(table.num_rows()).map_err(|_| AdapterError::Unsupported {
        path: pack.path().to_owned(),
        reason: format!("it has {} rows, more than 4294967295", table.num_rows()),
    })?;
    let rows = usize::try_from(count).unwrap_or(usize::MAX);
    // One column after the other is decoded; together they are walked through once.
    let mut columns = Vec::with_capacity(NUMBERS.len());
    for name in NUMBERS {
        columns.push(numbers(pack, name, rows)?);
    }
    let [kinds, tile_x, tile_y, valid_w, valid_h, image_w, image_h, codecs, flags] =
        <[Vec<i64>; NUMBERS.len()]>::try_from(columns)
            .map_err(|_| AdapterError::schema(pack.path(), "kind", "columns are missing"))?;
    let names = text_column(pack, TableKind::Index, "name")?;
    let mut reading = Reading::new(pack, info, rows);
    let mut numbers = kinds
        .iter()
        .zip(tile_x.iter().zip(&tile_y))
        .zip(valid_w.iter().zip(&valid_h))
        .zip(image_w.iter().zip(&image_h))
        .zip(codecs.iter().zip(&flags));
    names.try_for_each(|row, name| {
        let Some(((((kind, tile), valid), image), (codec, flags))) = numbers.next() else {
            return Err(AdapterError::schema_row(
                pack.path(),
                row,
                "name",
                "the row has no numbers",
            ));
        };
        let pair = |(one, other): (&i64, &i64)| (*one, *other);
        reading.row(
            row,
            name,
            &Row {
                kind: *kind,
                tile: pair(tile),
                valid: pair(valid),
                image: pair(image),
                codec_id: *codec,
                flags: *flags,
            },
        )
    })?;
    reading.finish()
}

/// The record table while it is walked through.
struct Reading<'a> {
    pack: &'a PackReader,
    info: &'a WsiInfo,
    tiles: Vec<TilePlace>,
    auxiliary: Vec<Auxiliary>,
    names: HashSet<(u8, String)>,
    dense: Option<Vec<u32>>,
    sparse: HashMap<u64, u32>,
}

impl<'a> Reading<'a> {
    fn new(pack: &'a PackReader, info: &'a WsiInfo, rows: usize) -> Self {
        let cells = info.grid_width.saturating_mul(info.grid_height);
        let few = u64::try_from(rows).unwrap_or(u64::MAX).saturating_mul(DENSE);
        let dense = (cells <= few.max(ALWAYS_DENSE))
            .then(|| usize::try_from(cells).ok())
            .flatten()
            .map(|cells| vec![ABSENT; cells]);
        Self {
            pack,
            info,
            tiles: Vec::with_capacity(rows),
            auxiliary: Vec::new(),
            names: HashSet::new(),
            dense,
            sparse: HashMap::new(),
        }
    }

    fn wrong(&self, row: u64, field: &str, reason: impl Into<String>) -> AdapterError {
        AdapterError::schema_row(self.pack.path(), row, field, reason)
    }

    fn row(&mut self, number: u64, name: Option<&str>, row: &Row) -> Result<()> {
        if row.flags != 0 {
            let found = shown(row.flags);
            return Err(self.wrong(number, "flags", format!("flags are {found} instead of 0")));
        }
        match u8::try_from(row.kind) {
            Ok(kind::TILE) => self.tile(number, name, row),
            Ok(kind @ kind::METADATA..=kind::IMAGE_ICC) => {
                self.auxiliary(number, kind, name.unwrap_or_default(), row)
            }
            _ => {
                let found = shown(row.kind);
                Err(self.wrong(number, "kind", format!("the kind {found} is not known")))
            }
        }
    }

    fn tile(&mut self, number: u64, name: Option<&str>, row: &Row) -> Result<()> {
        let info = self.info;
        if name != Some("") {
            let found =
                name.map_or_else(|| "null".to_owned(), |name| format!("\"{}\"", short(name)));
            return Err(self.wrong(number, "name", format!("a tile has no name, found {found}")));
        }
        if row.codec_id != i64::from(info.codec.id()) {
            return Err(self.wrong(
                number,
                "codec_id",
                format!(
                    "the tile has the codec id {} instead of {} ({})",
                    shown(row.codec_id),
                    info.codec.id(),
                    info.codec.name()
                ),
            ));
        }
        let inside = |at: i64, end: u64| u32::try_from(at).ok().filter(|at| u64::from(*at) < end);
        let place = inside(row.tile.0, info.grid_width).zip(inside(row.tile.1, info.grid_height));
        let Some((x, y)) = place else {
            return Err(self.wrong(
                number,
                "tile_x",
                format!(
                    "the tile lies at ({}, {}), outside of the grid of {} x {}",
                    shown(row.tile.0),
                    shown(row.tile.1),
                    info.grid_width,
                    info.grid_height
                ),
            ));
        };
        let valid = (
            valid_side(info.width, info.tile_width, x),
            valid_side(info.height, info.tile_height, y),
        );
        if row.valid != valid {
            return Err(self.wrong(
                number,
                "valid_width",
                format!(
                    "the tile at ({x}, {y}) covers {} x {} pixels of the raster, but {} x {} are \
                     stated",
                    valid.0,
                    valid.1,
                    shown(row.valid.0),
                    shown(row.valid.1)
                ),
            ));
        }
        if row.image != (NULL, NULL) {
            return Err(self.wrong(
                number,
                "image_width",
                format!(
                    "a tile has no size of an image, found {} x {}",
                    shown(row.image.0),
                    shown(row.image.1)
                ),
            ));
        }
        let row = u32::try_from(number).unwrap_or(ABSENT);
        let place = u64::from(y).saturating_mul(info.grid_width).saturating_add(x.into());
        let before = match &mut self.dense {
            Some(rows) => usize::try_from(place)
                .ok()
                .and_then(|place| rows.get_mut(place))
                .map(|entry| std::mem::replace(entry, row))
                .filter(|before| *before != ABSENT),
            None => self.sparse.insert(place, row),
        };
        if let Some(before) = before {
            return Err(self.wrong(
                number,
                "tile_x",
                format!("the tile at ({x}, {y}) stands in row {before} already"),
            ));
        }
        self.tiles.push(TilePlace { x, y, row });
        Ok(())
    }

    fn auxiliary(&mut self, number: u64, kind: u8, name: &str, row: &Row) -> Result<()> {
        if name.is_empty() {
            return Err(self.wrong(
                number,
                "name",
                format!("a record of kind {kind} needs a name"),
            ));
        }
        let codec = match kind {
            kind::METADATA => codec_id::ZSTD,
            kind::IMAGE => codec_id::IMAGE,
            _ => codec_id::NONE,
        };
        if row.codec_id != i64::from(codec) {
            return Err(self.wrong(
                number,
                "codec_id",
                format!(
                    "a record of kind {kind} has the codec id {codec}, found {}",
                    shown(row.codec_id)
                ),
            ));
        }
        for (field, pair) in [("tile_x", row.tile), ("valid_width", row.valid)] {
            if pair != (NULL, NULL) {
                return Err(self.wrong(
                    number,
                    field,
                    format!(
                        "a record of kind {kind} has no place in the grid, found ({}, {})",
                        shown(pair.0),
                        shown(pair.1)
                    ),
                ));
            }
        }
        let side = |side: i64| u32::try_from(side).ok().filter(|side| *side > 0);
        let size = side(row.image.0).zip(side(row.image.1));
        if kind == kind::IMAGE && size.is_none() {
            return Err(self.wrong(
                number,
                "image_width",
                format!(
                    "the image \"{}\" has the size {} x {}",
                    short(name),
                    shown(row.image.0),
                    shown(row.image.1)
                ),
            ));
        }
        if kind != kind::IMAGE && row.image != (NULL, NULL) {
            return Err(self.wrong(
                number,
                "image_width",
                format!(
                    "a record of kind {kind} has no size, found {} x {}",
                    shown(row.image.0),
                    shown(row.image.1)
                ),
            ));
        }
        if !self.names.insert((kind, name.to_owned())) {
            return Err(self.wrong(
                number,
                "name",
                format!("a record of kind {kind} named \"{}\" stands twice", short(name)),
            ));
        }
        self.auxiliary.push(Auxiliary { row: number, kind, name: name.to_owned(), size });
        Ok(())
    }

    fn finish(self) -> Result<Rows> {
        let path = self.pack.path();
        let found = u64::try_from(self.tiles.len()).unwrap_or(u64::MAX);
        if found != self.info.stored_tiles {
            return Err(AdapterError::schema(
                path,
                "stored_tile_count",
                format!("{} tiles are stated, but {found} have rows", self.info.stored_tiles),
            ));
        }
        if !self.names.contains(&(kind::METADATA, METADATA_NAME.to_owned())) {
            return Err(AdapterError::schema(
                path,
                "kind",
                format!("there is no record \"{METADATA_NAME}\""),
            ));
        }
        let orphan = self.auxiliary.iter().find(|one| {
            one.kind == kind::IMAGE_ICC && !self.names.contains(&(kind::IMAGE, one.name.clone()))
        });
        if let Some(orphan) = orphan {
            return Err(AdapterError::schema_row(
                path,
                orphan.row,
                "name",
                format!("there is no image \"{}\" for its profile", short(&orphan.name)),
            ));
        }
        let places = match self.dense {
            Some(rows) => Places::Dense(rows),
            None => {
                let mut places: Vec<(u64, u32)> = self.sparse.into_iter().collect();
                places.sort_unstable();
                Places::Sparse(places)
            }
        };
        // There are no more of them than rows, whose number fits.
        let count = u32::try_from(self.auxiliary.len()).unwrap_or(u32::MAX);
        let mut by_name: Vec<u32> = (0..count).collect();
        by_name.sort_unstable_by_key(|at| {
            self.auxiliary.get(to_usize(*at)).map(|one| (one.kind, one.name.as_str()))
        });
        Ok(Rows {
            places,
            grid_width: self.info.grid_width,
            grid_height: self.info.grid_height,
            by_name,
            auxiliary: self.auxiliary,
            tiles: self.tiles,
        })
    }
}

/// Pixels of a tile that lie in the raster.
pub(crate) fn valid_side(raster: u64, tile: u32, at: u32) -> i64 {
    let start = u64::from(at).saturating_mul(tile.into());
    let left = raster.saturating_sub(start).min(tile.into());
    i64::try_from(left).unwrap_or(i64::MAX)
}

fn to_usize(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

fn shown(number: i64) -> String {
    if number == NULL { "null".to_owned() } else { number.to_string() }
}
