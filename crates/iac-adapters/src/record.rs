//! The records that tiles and features are described by.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::builder::StringBuilder;
use arrow_array::{ArrayRef, StringArray};

use crate::columns::TextColumn;
use crate::error::{AdapterError, Result, short};
use crate::ids::{IdFault, IdIndex};

/// One tile, as a manifest lists it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct TileRecord {
    /// Name of the tile, unique in a pack.
    pub tile_id: String,
    /// Owner of the slide.
    pub patient_id: String,
    /// Slide that the tile was cut from.
    pub slide_id: String,
    /// The image; records that come out of a pack have a made-up one.
    pub tile_path: PathBuf,
    /// Left edge of the tile in the slide, in pixels.
    pub x: i64,
    /// Upper edge of the tile in the slide, in pixels.
    pub y: i64,
    /// Free label (train, val, ...).
    pub split: Option<String>,
}

/// A slide with its owner.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Slide {
    /// The slide.
    pub slide_id: String,
    /// Its owner.
    pub patient_id: String,
}

/// Bytes of text that one record batch of an index table holds at most: far below the 2 GiB that
/// 32-bit offsets reach, whatever the last text is.
const BATCH_TEXT: usize = 1 << 30;

/// Many records in columns: about 30 bytes for each beside its id and split. Paths are not kept.
///
/// ```
/// use iac_adapters::{RecordTable, TileRecord};
///
/// let mut records = RecordTable::new();
/// records.push(&TileRecord {
///     tile_id: "t0".into(),
///     patient_id: "p1".into(),
///     slide_id: "s1".into(),
///     x: 0,
///     y: 512,
///     split: Some("train".into()),
///     ..TileRecord::default()
/// })?;
/// assert_eq!(records.len(), 1);
/// # Ok::<(), iac_adapters::AdapterError>(())
/// ```
#[derive(Debug, Default)]
pub struct RecordTable {
    texts: Vec<Texts>,
    pub(crate) slide: Vec<u32>,
    pub(crate) x: Vec<i64>,
    pub(crate) y: Vec<i64>,
    pub(crate) slides: Vec<Slide>,
    numbers: HashMap<String, u32>,
    has_split: bool,
    /// Said only once the ids were compared, as those matter more.
    inconsistent: Option<(u64, u32, String)>,
}

#[derive(Debug, Default)]
struct Texts {
    ids: StringBuilder,
    splits: StringBuilder,
    bytes: usize,
}

/// Texts of one record batch of an index table.
#[derive(Debug, Clone)]
pub(crate) struct TextBatch {
    pub(crate) ids: StringArray,
    pub(crate) splits: StringArray,
}

/// Records whose ids and slides were checked.
#[derive(Debug)]
pub(crate) struct CheckedRecords {
    pub(crate) texts: Vec<TextBatch>,
    pub(crate) ids: TextColumn,
    pub(crate) slide: Vec<u32>,
    pub(crate) x: Vec<i64>,
    pub(crate) y: Vec<i64>,
    pub(crate) slides: Vec<Slide>,
    pub(crate) has_split: bool,
}

impl RecordTable {
    /// No records.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of records.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.x.len()
    }

    /// Whether there are no records.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.x.is_empty()
    }

    /// The slides in the order of their first record.
    #[must_use]
    pub fn slides(&self) -> &[Slide] {
        &self.slides
    }

    /// Adds a record.
    ///
    /// # Errors
    ///
    /// [`AdapterError::Records`] when a text has more than 1 GiB, or there are more than
    /// 4,294,967,294 records. What one record alone cannot tell is checked when a pack is built.
    pub fn push(&mut self, record: &TileRecord) -> Result<()> {
        let row = u64::try_from(self.len()).unwrap_or(u64::MAX);
        if row >= u64::from(u32::MAX.saturating_sub(1)) {
            return Err(AdapterError::records(
                row,
                None,
                "a pack holds at most 4294967294 records",
            ));
        }
        let split = record.split.as_deref();
        let bytes = record.tile_id.len().saturating_add(split.map_or(0, str::len));
        if bytes > BATCH_TEXT {
            return Err(AdapterError::records(
                row,
                "tile_id",
                format!("{bytes} bytes of text are more than the {BATCH_TEXT} of a record"),
            ));
        }
        let slide = self.slide_number(row, record)?;
        let is_full = |texts: &Texts| texts.bytes.saturating_add(bytes) > BATCH_TEXT;
        if self.texts.last().is_none_or(is_full) {
            self.texts.push(Texts::default());
        }
        if let Some(texts) = self.texts.last_mut() {
            texts.ids.append_value(&record.tile_id);
            texts.splits.append_option(split);
            texts.bytes = texts.bytes.saturating_add(bytes);
        }
        self.has_split |= split.is_some();
        self.slide.push(slide);
        self.x.push(record.x);
        self.y.push(record.y);
        Ok(())
    }

    fn slide_number(&mut self, row: u64, record: &TileRecord) -> Result<u32> {
        // Records of one slide mostly stand together.
        let last = self.slide.last().copied();
        let known = last
            .filter(|last| self.slide_of(*last).is_some_and(|s| s.slide_id == record.slide_id))
            .or_else(|| self.numbers.get(&record.slide_id).copied());
        if let Some(number) = known {
            let owner = self.slide_of(number).map(|slide| slide.patient_id.as_str());
            if owner != Some(&record.patient_id) && self.inconsistent.is_none() {
                self.inconsistent = Some((row, number, record.patient_id.clone()));
            }
            return Ok(number);
        }
        let number = u32::try_from(self.slides.len())
            .map_err(|_| AdapterError::records(row, "slide_id", "too many slides"))?;
        self.numbers.insert(record.slide_id.clone(), number);
        self.slides.push(Slide {
            slide_id: record.slide_id.clone(),
            patient_id: record.patient_id.clone(),
        });
        Ok(number)
    }

    fn slide_of(&self, number: u32) -> Option<&Slide> {
        self.slides.get(usize::try_from(number).ok()?)
    }

    /// Checks what concerns all records together.
    pub(crate) fn check(self) -> Result<CheckedRecords> {
        if self.is_empty() {
            return Err(AdapterError::records(None, None, "there are no records"));
        }
        let mut ids = TextColumn::default();
        let mut batches = Vec::with_capacity(self.texts.len());
        for mut texts in self.texts {
            let batch = TextBatch { ids: texts.ids.finish(), splits: texts.splits.finish() };
            let array: ArrayRef = Arc::new(batch.ids.clone());
            ids.push(&array)
                .ok_or_else(|| AdapterError::records(None, "tile_id", "too many records"))?;
            batches.push(batch);
        }
        IdIndex::new(&ids).map_err(|fault| records_fault(&ids, &fault))?;
        if let Some((row, number, patient)) = &self.inconsistent {
            let slide = usize::try_from(*number).ok().and_then(|number| self.slides.get(number));
            let (slide, owner) = slide
                .map_or(("", ""), |slide| (slide.slide_id.as_str(), slide.patient_id.as_str()));
            return Err(AdapterError::records(
                *row,
                "patient_id",
                format!(
                    "slide \"{}\" belongs to patient \"{}\" here, and to \"{}\" before",
                    short(slide),
                    short(patient),
                    short(owner)
                ),
            ));
        }
        Ok(CheckedRecords {
            texts: batches,
            ids,
            slide: self.slide,
            x: self.x,
            y: self.y,
            slides: self.slides,
            has_split: self.has_split,
        })
    }
}

impl CheckedRecords {
    pub(crate) fn rows(&self) -> u64 {
        self.ids.rows()
    }

    pub(crate) fn id(&self, row: u64) -> &str {
        self.ids.get(row).unwrap_or_default()
    }
}

fn records_fault(ids: &TextColumn, fault: &IdFault) -> AdapterError {
    let row = match fault {
        IdFault::Null { row } => Some(*row),
        IdFault::Repeated { rows, .. } => rows.first().copied(),
        IdFault::TooMany { .. } => None,
    };
    AdapterError::records(row, "tile_id", fault_text(ids, fault, "tile_id"))
}

/// What is wrong with a column of ids, in words.
pub(crate) fn fault_text(ids: &TextColumn, fault: &IdFault, column: &str) -> String {
    match fault {
        IdFault::Null { row } => format!("{column} is null in row {row}"),
        IdFault::Repeated { count, rows } => {
            let sample: Vec<String> =
                rows.iter().map(|row| short(ids.get(*row).unwrap_or_default())).collect();
            format!("duplicate {column} values: count={count} sample={}", sample.join(", "))
        }
        IdFault::TooMany { rows } => format!("{rows} rows are more than can be indexed"),
    }
}
