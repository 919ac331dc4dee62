//! Studies, series and instances, in packs whose tables have such columns.

use std::collections::{BTreeMap, HashSet};

use iac_reader::{PackReader, Table};
use serde::Serialize;

use crate::carry::{column, integers, texts};
use crate::error::Result;

/// What a pack of medical objects holds. Counts only: what identifies a patient is no part of it.
///
/// As JSON: `{"studies","series","instances","images","frames","modalities":[{"value","count"}],
/// "transfer_syntaxes","bits_stored","sizes"}`, where the last three count instances, modalities
/// series, and sizes and bits those of images alone.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct DicomCounts {
    /// Studies.
    pub studies: u64,
    /// Series.
    pub series: u64,
    /// Instances.
    pub instances: u64,
    /// Instances with an image.
    pub images: u64,
    /// Frames of all images.
    pub frames: u64,
    /// Series by modality.
    pub modalities: Vec<Tally>,
    /// Instances by the transfer syntax of their sources.
    pub transfer_syntaxes: Vec<Tally>,
    /// Images by the bits of a sample that are used.
    pub bits_stored: Vec<Tally>,
    /// Images by rows and columns, as `512 x 512`.
    pub sizes: Vec<Tally>,
    /// Bytes of all images before they were encoded.
    #[serde(skip)]
    pub(crate) decoded_bytes: Option<u64>,
}

/// How often a value occurs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Tally {
    /// The value.
    pub value: String,
    /// How often.
    pub count: u64,
}

/// Counts objects; nothing in packs of another kind.
pub(crate) fn dicom_counts(pack: &PackReader) -> Result<Option<DicomCounts>> {
    let (slides, index) = (pack.slide_table()?, pack.index_table()?);
    let (Some(studies), Some(_)) = (text_of(slides, "study_uid")?, text_of(slides, "series_uid")?)
    else {
        return Ok(None);
    };
    let mut found = DicomCounts {
        studies: length(studies.iter().collect::<HashSet<_>>().len()),
        series: slides.num_rows(),
        modalities: tally(text_of(slides, "modality")?.unwrap_or_default()),
        ..DicomCounts::default()
    };
    let (rows, columns) = (numbers_of(index, "rows")?, numbers_of(index, "columns")?);
    let bits = numbers_of(index, "bits_stored")?;
    let channels = numbers_of(index, "samples_per_pixel")?;
    let types = text_of(index, "pixel_dtype")?;
    let (mut sizes, mut stored) = (Vec::new(), Vec::new());
    let mut decoded = Some(0_u64);
    let mut syntaxes = Vec::new();
    let sources = text_of(index, "source_transfer_syntax")?;
    // Where each frame has a row, its object is counted with the first one.
    let frames = numbers_of(index, "frame_idx")?;
    for row in 0..usize::try_from(index.num_rows()).unwrap_or(usize::MAX) {
        let number = |column: &Option<Vec<Option<i128>>>| {
            column.as_ref().and_then(|column| column.get(row).copied().flatten())
        };
        let is_first = number(&frames).is_none_or(|frame| frame == 0);
        if is_first {
            found.instances = found.instances.saturating_add(1);
            syntaxes.extend(sources.as_ref().and_then(|sources| sources.get(row)).cloned());
        }
        let name = types.as_ref().and_then(|types| types.get(row)).map_or("", String::as_str);
        // An instance without an image has no type of samples.
        if name.is_empty() {
            continue;
        }
        found.frames = found.frames.saturating_add(1);
        if is_first {
            found.images = found.images.saturating_add(1);
            stored.extend(number(&bits).map(|bits| bits.to_string()));
        }
        if let (Some(rows), Some(columns)) = (number(&rows), number(&columns)) {
            if is_first {
                sizes.push(format!("{columns} x {rows}"));
            }
            let bytes = bytes_of(name, rows, columns, number(&channels).unwrap_or(1));
            decoded = decoded.zip(bytes).and_then(|(sum, bytes)| sum.checked_add(bytes));
        }
    }
    found.transfer_syntaxes = tally(syntaxes);
    found.sizes = tally(sizes);
    found.bits_stored = tally(stored);
    found.decoded_bytes = decoded.filter(|bytes| *bytes > 0);
    pack.check_intact()?;
    Ok(Some(found))
}

fn bytes_of(dtype: &str, rows: i128, columns: i128, channels: i128) -> Option<u64> {
    let width = match dtype {
        "uint8" | "int8" => 1,
        "uint16" | "int16" => 2,
        "uint32" | "int32" | "float32" => 4,
        "float64" => 8,
        _ => return None,
    };
    let samples = rows.checked_mul(columns)?.checked_mul(channels)?;
    u64::try_from(samples.checked_mul(width)?).ok()
}

fn length(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

/// The texts of a column; nothing when it is not there, or holds something else.
fn text_of(table: &Table, name: &str) -> Result<Option<Vec<String>>> {
    let Some(arrays) = column(table, name)? else { return Ok(None) };
    let mut found = Vec::new();
    for array in &arrays {
        let Some(values) = texts(array) else { return Ok(None) };
        found.extend(values.into_iter().map(|value| value.unwrap_or_default().to_owned()));
    }
    Ok(Some(found))
}

fn numbers_of(table: &Table, name: &str) -> Result<Option<Vec<Option<i128>>>> {
    let Some(arrays) = column(table, name)? else { return Ok(None) };
    let parts: Option<Vec<_>> = arrays.iter().map(integers).collect();
    Ok(parts.map(|parts| parts.concat()))
}

/// The most frequent first; equal ones by value.
fn tally(values: Vec<String>) -> Vec<Tally> {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for value in values {
        let count = counts.entry(value).or_default();
        *count = count.saturating_add(1);
    }
    let mut found: Vec<Tally> =
        counts.into_iter().map(|(value, count)| Tally { value, count }).collect();
    found.sort_by_key(|tally| std::cmp::Reverse(tally.count));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_the_most_frequent_first() {
        let values = ["MR", "CT", "CT", "AX"].map(str::to_owned).to_vec();
        let found: Vec<(String, u64)> =
            tally(values).into_iter().map(|tally| (tally.value, tally.count)).collect();
        let wanted = [("CT", 2), ("AX", 1), ("MR", 1)];
        assert_eq!(found, wanted.map(|(value, count)| (value.to_owned(), count)));
    }

    #[test]
    fn sizes_that_overflow_are_not_known() {
        assert_eq!(bytes_of("int16", 512, 512, 1), Some(524_288));
        assert_eq!(bytes_of("float32", 1, 1, 1), Some(4));
        assert_eq!(bytes_of("complex64", 1, 1, 1), None);
        assert_eq!(bytes_of("uint8", i128::MAX, 2, 1), None);
        assert_eq!(bytes_of("uint8", -1, 2, 1), None);
    }
}
