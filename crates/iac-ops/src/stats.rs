//! Sizes and counts of a pack.

use std::collections::HashMap;

use iac_reader::{PackKind, PackReader};
use serde::Serialize;

use crate::carry::{column, has_own_codecs, slide_numbers, texts};
use crate::dicom::DicomCounts;
use crate::error::Result;
use crate::info::{SizeStats, info, sum_of};

/// The extension of packs of text whose index may say how many bytes records had (`raw_bytes`).
const TEXT_COLUMNS: &str = "iac.text.columns";

/// Columns whose values rows are counted by.
const COUNTED: [&str; 5] = ["split", "patient_id", "institution", "modality", "level"];

/// Columns of the slide table whose values rows are counted by.
const COUNTED_SLIDES: [&str; 2] = ["patient_id", "slide_id"];

/// Sizes and counts of a pack.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Stats {
    /// The pack.
    pub path: String,
    /// The header's `payload_type`.
    pub payload_type: Option<String>,
    /// The codec's name; absent where each row has one of its own.
    pub codec: Option<String>,
    /// `variable`, `fixed` or `segment`.
    pub kind: &'static str,
    /// Rows of the index table.
    pub rows: u64,
    /// Rows of the slide table.
    pub slides: u64,
    /// Documents of all rows, where the index counts them (`num_docs`).
    pub documents: Option<u64>,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// Bytes of the data segment.
    pub data_bytes: u64,
    /// Bytes of both tables.
    pub table_bytes: u64,
    /// Bytes of the records before they were encoded, where header or tables tell.
    pub decoded_bytes: Option<u64>,
    /// Decoded bytes for each stored one.
    pub ratio: Option<f64>,
    /// Sizes of the stored records.
    pub sizes: Option<SizeStats>,
    /// Studies, series and instances, in packs of medical objects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub objects: Option<DicomCounts>,
    /// Rows by the values of columns, in the order of first appearance of the columns.
    pub groups: Vec<Group>,
}

/// Rows by the values of one column.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Group {
    /// The column; `slide.NAME` for one of the slide table.
    pub column: String,
    /// Different values.
    pub values: u64,
    /// The values with most rows, those aside that there is no room for.
    pub counts: Vec<Count>,
}

/// Rows with one value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Count {
    /// The value; absent for null.
    pub value: Option<String>,
    /// Rows.
    pub rows: u64,
    /// Their stored bytes, in variable packs.
    pub stored_bytes: u64,
}

/// Counts what is in a pack; of each column the `most` most frequent values are listed.
///
/// # Errors
///
/// [`OpsError::Read`](crate::OpsError::Read) when a table is damaged.
pub fn stats(pack: &PackReader, most: usize) -> Result<Stats> {
    let info = info(pack)?;
    let rows = pack.num_records()?;
    let layout = pack.layout();
    let kind = pack.kind()?;
    let data_bytes = layout.data.length;
    let objects = info.facts.objects;
    let of_objects = objects.as_ref().and_then(|objects| objects.decoded_bytes);
    let original = of_objects.or(info.facts.original_bytes);
    // A header without a codec says nothing where rows have codecs of their own.
    let has_own = has_own_codecs(pack)?;
    let decoded_bytes =
        if has_own { of_objects } else { decoded_bytes(pack, kind, rows, original) };
    Ok(Stats {
        path: info.path,
        payload_type: info.facts.payload_type,
        codec: info.facts.codec.filter(|_| !has_own),
        kind: kind.as_str(),
        rows,
        slides: pack.slide_table()?.num_rows(),
        documents: sum_of(pack, "num_docs")?,
        file_bytes: info.file_bytes,
        data_bytes,
        table_bytes: layout.slide_table.length.saturating_add(layout.index_table.length),
        decoded_bytes,
        ratio: decoded_bytes.and_then(|decoded| ratio(decoded, data_bytes)),
        sizes: info.facts.payloads,
        objects,
        groups: groups(pack, kind, most)?,
    })
}

#[allow(clippy::cast_precision_loss)] // a ratio is told to a few digits
fn ratio(decoded: u64, stored: u64) -> Option<f64> {
    (stored > 0).then(|| decoded as f64 / stored as f64)
}

/// Bytes before encoding, as far as header and tables tell.
fn decoded_bytes(
    pack: &PackReader,
    kind: PackKind,
    rows: u64,
    original: Option<u64>,
) -> Option<u64> {
    let header = pack.header();
    if kind == PackKind::Fixed || header.get("codec").is_none_or(|codec| codec == "none") {
        return (kind != PackKind::Segment).then_some(pack.layout().data.length);
    }
    if header.payload_type() == Some("image_tiles") {
        let side = |name| header.get(name).and_then(serde_json::Value::as_u64);
        let pixels = side("tile_width")?.checked_mul(side("tile_height")?)?;
        return pixels.checked_mul(3)?.checked_mul(rows);
    }
    if header.extensions().contains(&TEXT_COLUMNS) {
        return sum_of(pack, "raw_bytes").ok()?;
    }
    original
}

fn groups(pack: &PackReader, kind: PackKind, most: usize) -> Result<Vec<Group>> {
    let bytes: Vec<u64> = if kind == PackKind::Variable {
        let rows = pack.num_records()?;
        (0..rows).map(|row| crate::decode::stored_bytes(pack, row)).collect()
    } else {
        Vec::new()
    };
    let bytes_of = |row: usize| bytes.get(row).copied().unwrap_or(0);
    let mut groups = Vec::new();
    for name in COUNTED {
        let Some(arrays) = column(pack.index_table()?, name)? else { continue };
        let mut counter = Counter::default();
        let mut row = 0_usize;
        for array in &arrays {
            let Some(values) = texts(array) else { break };
            for value in values {
                counter.add(value, bytes_of(row));
                row = row.saturating_add(1);
            }
        }
        groups.extend(counter.group(name.to_owned(), most));
    }
    let Some(numbers) = slide_numbers(pack)? else { return Ok(groups) };
    let mut of_number: HashMap<i128, usize> = HashMap::new();
    for (row, number) in numbers.slides.iter().enumerate() {
        if let Some(number) = number {
            of_number.insert(*number, row);
        }
    }
    for name in COUNTED_SLIDES {
        let Some(arrays) = column(pack.slide_table()?, name)? else { continue };
        let values: Option<Vec<Vec<Option<&str>>>> = arrays.iter().map(texts).collect();
        let Some(values) = values else { continue };
        let values: Vec<Option<&str>> = values.into_iter().flatten().collect();
        let mut counter = Counter::default();
        for (row, number) in numbers.index.iter().enumerate() {
            let slide = number.and_then(|number| of_number.get(&number));
            let value = slide.and_then(|slide| values.get(*slide).copied().flatten());
            counter.add(value, bytes_of(row));
        }
        groups.extend(counter.group(format!("slide.{name}"), most));
    }
    pack.check_intact()?;
    Ok(groups)
}

/// Counts values.
#[derive(Default)]
struct Counter<'a> {
    counts: HashMap<Option<&'a str>, (u64, u64)>,
}

impl<'a> Counter<'a> {
    fn add(&mut self, value: Option<&'a str>, bytes: u64) {
        let (rows, sum) = self.counts.entry(value).or_default();
        *rows = rows.saturating_add(1);
        *sum = sum.saturating_add(bytes);
    }

    fn group(self, column: String, most: usize) -> Option<Group> {
        if self.counts.is_empty() {
            return None;
        }
        let values = u64::try_from(self.counts.len()).unwrap_or(u64::MAX);
        let mut counts: Vec<(Option<&str>, (u64, u64))> = self.counts.into_iter().collect();
        // Most rows first; equal ones by their value, so that the order is always the same.
        counts.sort_unstable_by(|(a, (a_rows, _)), (b, (b_rows, _))| {
            b_rows.cmp(a_rows).then(a.cmp(b))
        });
        counts.truncate(most);
        let counts = counts.into_iter().map(|(value, (rows, stored_bytes))| Count {
            value: value.map(str::to_owned),
            rows,
            stored_bytes,
        });
        Some(Group { column, values, counts: counts.collect() })
    }
}
