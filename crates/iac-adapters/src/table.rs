//! The tables of an open pack of tiles or features.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use iac_format::TableKind;
use iac_reader::PackReader;
use serde_json::Value;

use crate::columns::{
    IntColumn, TextColumn, check_text_column, has_column, id_column, int_column, missing_columns,
    text_column,
};
use crate::error::{AdapterError, Result, short};
use crate::ids::{IdFault, IdIndex, IdRepeats};
use crate::record::{RecordTable, Slide, TileRecord, fault_text};

/// How positions are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Positions {
    /// In multiples of the strides.
    Grid,
    /// In pixels.
    Pixels,
}

/// The tables of an open pack, checked once.
#[derive(Debug)]
pub(crate) struct TileTable {
    pack: PackReader,
    rows: u64,
    pub(crate) ids: TextColumn,
    slide_idx: IntColumn,
    x: IntColumn,
    y: IntColumn,
    has_split: bool,
    /// Decoded on first use, as few readers ask for it.
    split: OnceLock<TextColumn>,
    slides: SlideTable,
    positions: Positions,
    /// What records that come out of the pack have in place of a path.
    made_up: (&'static str, &'static str),
    index: OnceLock<IdIndex>,
    /// Whether an id was looked for already.
    was_searched: AtomicBool,
    places: OnceLock<Vec<u32>>,
}

/// The slide table, and how rows find their slide in it.
#[derive(Debug)]
pub(crate) struct SlideTable {
    pub(crate) slides: Vec<Slide>,
    numbers: HashMap<i128, u32>,
    /// Slide numbers count from 0, as builders number them.
    is_plain: bool,
}

impl SlideTable {
    pub(crate) fn open(pack: &PackReader) -> Result<Self> {
        let missing =
            missing_columns(pack.slide_table()?, &["slide_idx", "slide_id", "patient_id"]);
        if let Some(name) = missing.first() {
            return Err(missing_error(pack, TableKind::Slide, name, &missing));
        }
        let numbers = int_column(pack, TableKind::Slide, "slide_idx")?;
        let ids = text_column(pack, TableKind::Slide, "slide_id")?;
        let patients = text_column(pack, TableKind::Slide, "patient_id")?;
        let mut table = Self { slides: Vec::new(), numbers: HashMap::new(), is_plain: true };
        let rows = numbers.iter().zip(ids.iter()).zip(patients.iter());
        for (row, ((number, slide_id), patient_id)) in (0_u32..).zip(rows) {
            let null = |column: &str| {
                AdapterError::schema(
                    pack.path(),
                    column,
                    format!("{column} is null in row {row} of the slide table"),
                )
            };
            let number = number.ok_or_else(|| null("slide_idx"))?;
            let slide_id = slide_id.ok_or_else(|| null("slide_id"))?;
            let patient_id = patient_id.ok_or_else(|| null("patient_id"))?;
            table.is_plain &= number == i128::from(row);
            if table.numbers.insert(number, row).is_some() {
                return Err(AdapterError::schema(
                    pack.path(),
                    "slide_idx",
                    format!("slide_idx {number} stands twice in the slide table"),
                ));
            }
            table
                .slides
                .push(Slide { slide_id: slide_id.to_owned(), patient_id: patient_id.to_owned() });
        }
        Ok(table)
    }

    /// Row of the slide table for a slide number.
    pub(crate) fn row_of(&self, number: i128) -> Option<u32> {
        if self.is_plain {
            let row = u32::try_from(number).ok()?;
            return usize::try_from(row).is_ok_and(|at| at < self.slides.len()).then_some(row);
        }
        self.numbers.get(&number).copied()
    }
}

impl TileTable {
    /// Reads the tables; `required` columns of the index besides those for identity and position.
    pub(crate) fn open(
        pack: &PackReader,
        positions: Positions,
        names: [&'static str; 2],
        made_up: (&'static str, &'static str),
    ) -> Result<Self> {
        let index = pack.index_table()?;
        let [x, y] = names;
        let missing = missing_columns(index, &["slide_idx", x, y, "tile_id"]);
        if let Some(name) = missing.first() {
            return Err(missing_error(pack, TableKind::Index, name, &missing));
        }
        let has_split = has_column(index, "split");
        check_text_column(pack, TableKind::Index, "split")?;
        Ok(Self {
            rows: index.num_rows(),
            ids: id_column(pack, TableKind::Index, "tile_id")?,
            slide_idx: int_column(pack, TableKind::Index, "slide_idx")?,
            x: int_column(pack, TableKind::Index, x)?,
            y: int_column(pack, TableKind::Index, y)?,
            has_split,
            split: OnceLock::new(),
            slides: SlideTable::open(pack)?,
            positions,
            made_up,
            index: OnceLock::new(),
            was_searched: AtomicBool::new(false),
            places: OnceLock::new(),
            pack: pack.clone(),
        })
    }

    pub(crate) const fn rows(&self) -> u64 {
        self.rows
    }

    pub(crate) fn slides(&self) -> &[Slide] {
        &self.slides.slides
    }

    pub(crate) fn check_row(&self, row: u64) -> Result<()> {
        if row < self.rows {
            return Ok(());
        }
        Err(AdapterError::RowOutOfRange { path: self.pack.path().to_owned(), row, rows: self.rows })
    }

    pub(crate) fn id(&self, row: u64) -> Result<&str> {
        self.check_row(row)?;
        self.ids.get(row).ok_or_else(|| {
            let reason = match self.ids.bytes(row) {
                Some(_) => "tile_id is no UTF-8 text",
                None => "tile_id is null",
            };
            AdapterError::schema_row(self.pack.path(), row, "tile_id", reason)
        })
    }

    /// The index of ids, made on first use, when ids are found to be all there and different.
    pub(crate) fn index(&self) -> Result<&IdIndex> {
        if let Some(index) = self.index.get() {
            return Ok(index);
        }
        let index = IdIndex::new(&self.ids).map_err(|fault| self.id_error(&fault))?;
        // Texts lie in the file's mapping, which reads as zeros where the file was cut.
        self.pack.check_intact()?;
        Ok(self.index.get_or_init(|| index))
    }

    /// The row of an id. The first time the ids are looked through, which takes a fraction of the
    /// time of indexing them; of what is wrong with ids, only what concerns this one is noticed then.
    pub(crate) fn find(&self, id: &str) -> Result<Option<u64>> {
        if self.index.get().is_some() || self.was_searched.swap(true, Ordering::Relaxed) {
            return Ok(self.index()?.find(&self.ids, id));
        }
        let mut found = None;
        let mut repeated = IdRepeats::default();
        self.ids.rows_with(id.as_bytes(), |row| match found {
            None => found = Some(row),
            Some(_) => repeated.add(row),
        });
        self.pack.check_intact()?;
        match repeated.fault() {
            None => Ok(found),
            Some(fault) => Err(self.id_error(&fault)),
        }
    }

    fn id_error(&self, fault: &IdFault) -> AdapterError {
        let text = fault_text(&self.ids, fault, "tile_id");
        AdapterError::schema(self.pack.path(), "tile_id", text)
    }

    pub(crate) fn row_of(&self, id: &str) -> Result<u64> {
        self.find(id)?.ok_or_else(|| AdapterError::UnknownId {
            path: self.pack.path().to_owned(),
            field: "tile_id",
            id: short(id),
        })
    }

    /// Row of the slide table that a row belongs to.
    pub(crate) fn slide_row(&self, row: u64) -> Result<u32> {
        self.check_row(row)?;
        let number = self.slide_idx.get(row);
        number.and_then(|number| self.slides.row_of(number)).ok_or_else(|| {
            let shown = number.map_or_else(|| "null".to_owned(), |number| number.to_string());
            AdapterError::schema_row(
                self.pack.path(),
                row,
                "slide_idx",
                format!("slide_idx {shown} is not in the slide table"),
            )
        })
    }

    /// Position of a row as it is stored.
    pub(crate) fn stored_position(&self, row: u64) -> Result<[i128; 2]> {
        self.check_row(row)?;
        let null = |column: &str| {
            AdapterError::schema_row(self.pack.path(), row, column, format!("{column} is null"))
        };
        Ok([
            self.x.get(row).ok_or_else(|| null("tile_x"))?,
            self.y.get(row).ok_or_else(|| null("tile_y"))?,
        ])
    }

    /// From stored positions to pixels.
    pub(crate) fn scale(&self) -> Result<[u64; 2]> {
        match self.positions {
            Positions::Pixels => Ok([1, 1]),
            Positions::Grid => {
                let read = |name| {
                    let value = header_integer(&self.pack, name)?;
                    value.filter(|stride| *stride > 0).ok_or_else(|| {
                        AdapterError::schema(
                            self.pack.path(),
                            name,
                            "missing or not positive, so positions have no meaning",
                        )
                    })
                };
                Ok([read("stride_x")?, read("stride_y")?])
            }
        }
    }

    /// Position of a row in pixels.
    pub(crate) fn position(&self, row: u64, [scale_x, scale_y]: [u64; 2]) -> Result<[i64; 2]> {
        let [x, y] = self.stored_position(row)?;
        let pixels = |place: i128, scale: u64, column: &str| {
            place
                .checked_mul(i128::from(scale))
                .and_then(|pixels| i64::try_from(pixels).ok())
                .ok_or_else(|| {
                    AdapterError::schema_row(
                        self.pack.path(),
                        row,
                        column,
                        format!("position {place} times {scale} is beyond 64 bits"),
                    )
                })
        };
        Ok([pixels(x, scale_x, "tile_x")?, pixels(y, scale_y, "tile_y")?])
    }

    pub(crate) fn split(&self, row: u64) -> Result<Option<&str>> {
        if !self.has_split {
            return Ok(None);
        }
        if let Some(split) = self.split.get() {
            return Ok(split.get(row));
        }
        let split = text_column(&self.pack, TableKind::Index, "split")?;
        Ok(self.split.get_or_init(|| split).get(row))
    }

    pub(crate) fn is_grid(&self) -> bool {
        self.positions == Positions::Grid
    }

    pub(crate) const fn has_split(&self) -> bool {
        self.has_split
    }

    pub(crate) fn record(&self, row: u64, scale: [u64; 2]) -> Result<TileRecord> {
        let id = self.id(row)?;
        let slide = usize::try_from(self.slide_row(row)?).ok();
        let slide = slide.and_then(|slide| self.slides.slides.get(slide));
        let [x, y] = self.position(row, scale)?;
        let (folder, suffix) = self.made_up;
        Ok(TileRecord {
            tile_id: id.to_owned(),
            patient_id: slide.map(|slide| slide.patient_id.clone()).unwrap_or_default(),
            slide_id: slide.map(|slide| slide.slide_id.clone()).unwrap_or_default(),
            tile_path: PathBuf::from(format!("{folder}/{id}.{suffix}")),
            x,
            y,
            split: self.split(row)?.map(str::to_owned),
        })
    }

    /// Every record, in columns.
    pub(crate) fn record_table(&self) -> Result<RecordTable> {
        let scale = self.scale()?;
        let mut records = RecordTable::new();
        for row in 0..self.rows {
            records.push(&self.record(row, scale)?)?;
        }
        self.pack.check_intact()?;
        Ok(records)
    }

    /// Rows sorted by slide, then by position from top to bottom and left to right.
    fn places(&self) -> Result<&[u32]> {
        if let Some(places) = self.places.get() {
            return Ok(places);
        }
        let mut keys = Vec::new();
        for row in 0..self.rows {
            let [x, y] = self.stored_position(row)?;
            let short_row = u32::try_from(row).map_err(|_| AdapterError::Unsupported {
                path: self.pack.path().to_owned(),
                reason: format!("{} rows are more than can be looked up by position", self.rows),
            })?;
            keys.push((self.slide_row(row)?, y, x, short_row));
        }
        keys.sort_unstable();
        let places = keys.into_iter().map(|(_, _, _, row)| row).collect();
        self.pack.check_intact()?;
        Ok(self.places.get_or_init(|| places))
    }

    /// Rows of a slide whose stored positions lie in `x` and `y` (both half open), from top to
    /// bottom and left to right.
    pub(crate) fn rows_between(&self, slide: u32, x: [i128; 2], y: [i128; 2]) -> Result<Vec<u64>> {
        let places = self.places()?;
        let key = |row: &u32| -> Option<(u32, i128)> {
            let row = u64::from(*row);
            Some((self.slide_row(row).ok()?, self.y.get(row)?))
        };
        let [y_start, y_end] = y;
        let [x_start, x_end] = x;
        let start = places.partition_point(|row| key(row) < Some((slide, y_start)));
        let end = places.partition_point(|row| key(row) < Some((slide, y_end)));
        let rows = places.get(start..end).unwrap_or_default();
        Ok(rows
            .iter()
            .map(|row| u64::from(*row))
            .filter(|row| self.x.get(*row).is_some_and(|x| x >= x_start && x < x_end))
            .collect())
    }

    pub(crate) fn slide_named(&self, slide_id: &str) -> Result<u32> {
        let found = self.slides().iter().position(|slide| slide.slide_id == slide_id);
        found.and_then(|row| u32::try_from(row).ok()).ok_or_else(|| AdapterError::UnknownId {
            path: self.pack.path().to_owned(),
            field: "slide_id",
            id: short(slide_id),
        })
    }
}

fn missing_error(
    pack: &PackReader,
    table: TableKind,
    first: &str,
    missing: &[&str],
) -> AdapterError {
    let columns = missing.join(", ");
    AdapterError::schema(pack.path(), first, format!("the {table} lacks columns: {columns}"))
}

/// A header member that is an integer; other programs also write it as text or with `.0`.
pub(crate) fn header_integer(pack: &PackReader, name: &str) -> Result<Option<u64>> {
    let Some(value) = pack.header().get(name) else {
        return Ok(None);
    };
    integer_of(value).map(Some).ok_or_else(|| {
        AdapterError::schema(pack.path(), name, format!("found {value} where a count is expected"))
    })
}

fn integer_of(value: &Value) -> Option<u64> {
    match value {
        Value::Number(number) => number.as_u64().or_else(|| {
            let float = number.as_f64()?;
            let text = format!("{float:.0}");
            // Whole numbers only, and only those that a double tells apart.
            (float.fract() == 0.0 && float.abs() < 9e15).then(|| text.parse().ok())?
        }),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}
