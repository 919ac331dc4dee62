//! The rules of packs of schema 2 beyond those of every pack.

use iac_format::TableKind;
use iac_reader::PackReader;

use super::groups::GroupPlaces;
use super::tables::NEEDED;
use crate::columns::{has_column, missing_columns};
use crate::dicom::fault::Fault;
use crate::dicom::read::DicomPackReader;
use crate::error::{AdapterError, Result};

/// Whether the table has every column that a reader needs.
pub(crate) fn columns(pack: &PackReader) -> Result<()> {
    let index = pack.index_table()?;
    let missing = missing_columns(index, &NEEDED);
    if let Some(first) = missing.first() {
        return Err(AdapterError::schema(
            pack.path(),
            first,
            format!("{} lacks columns: {}", TableKind::Index, missing.join(", ")),
        ));
    }
    if has_column(index, "extra_offset") {
        let missing = missing_columns(index, &["extra_length", "extra_crc32"]);
        if let Some(first) = missing.first() {
            return Err(AdapterError::schema(
                pack.path(),
                first,
                format!("{} lacks columns: {}", TableKind::Index, missing.join(", ")),
            ));
        }
    }
    Ok(())
}

/// Whether instances, frames, functional groups and large values are where the pack says.
pub(crate) fn instances(
    pack: &PackReader,
    reader: &DicomPackReader,
    tell: &mut impl FnMut(&AdapterError),
) -> Result<()> {
    let starts = reader.instance_starts()?;
    let found = u64::try_from(starts.len()).unwrap_or(u64::MAX).saturating_sub(1);
    if found != reader.instance_count() {
        tell(&AdapterError::schema(
            pack.path(),
            "num_instances",
            format!("is {}, but the table has {found} instances", reader.instance_count()),
        ));
    }
    let data = pack.layout().data.length;
    let inside = |offset: u64, length: u64| offset.checked_add(length).is_some_and(|it| it <= data);
    match reader.bulk_table() {
        Err(fault) => tell(&bulk_error(pack, &fault)),
        Ok(table) => {
            let mut names: Vec<_> = table.iter().collect();
            names.sort_unstable();
            for (hash, (offset, length, _)) in names {
                let name = hash.iter().fold(String::from("sha256:"), |mut name, byte| {
                    name.push_str(&format!("{byte:02x}"));
                    name
                });
                if !inside(*offset, *length) {
                    let reason = "a large value lies outside of the data segment";
                    tell(&bulk_error(pack, &Fault::decode(reason)));
                } else if let Err(fault) = reader.bulk_value(&name, &reader.budget()) {
                    tell(&bulk_error(pack, &fault));
                }
            }
        }
    }
    for row in starts.iter().copied().filter(|row| *row < reader.row_count()) {
        if let Err(error) = instance(pack, reader, row, tell) {
            tell(&error);
        }
    }
    for row in 0..reader.row_count() {
        let checked = check_row(pack, reader, row, data);
        if let Err(error) = checked {
            tell(&error);
        }
    }
    Ok(())
}

fn bulk_error(pack: &PackReader, fault: &Fault) -> AdapterError {
    AdapterError::schema(pack.path(), "bulk", fault.reason.clone())
}

/// What must be the same in all rows of an instance, and its functional groups.
fn instance(
    pack: &PackReader,
    reader: &DicomPackReader,
    first: u64,
    tell: &mut impl FnMut(&AdapterError),
) -> Result<()> {
    let rows = reader.rows_beside(first)?;
    let has_pixels = reader.has_pixels(first)?;
    if !has_pixels && rows.end.saturating_sub(rows.start) > 1 {
        tell(&AdapterError::schema_row(
            pack.path(),
            first,
            "has_pixel_data",
            "an object without pixel data has several rows",
        ));
    }
    let form = has_pixels.then(|| reader.frame_form(first)).transpose()?;
    let delta = reader.delta_span(first)?;
    let series = reader.series_of(first)?.series_idx;
    for row in rows {
        let same = reader.has_pixels(row)? == has_pixels
            && reader.delta_span(row)? == delta
            && reader.series_of(row)?.series_idx == series
            && match &form {
                Some(form) => {
                    reader.frame_form(row)?.pixel.shape == form.pixel.shape
                        && reader.pixel_type(row)? == Some(form.pixel_type())
                }
                None => true,
            };
        if !same {
            tell(&AdapterError::schema_row(
                pack.path(),
                row,
                "instance_idx",
                "the frames of an object differ in what they share",
            ));
            break;
        }
    }
    let delta = reader.delta(first)?;
    let places =
        GroupPlaces::parse(delta.iac.get("groups")).map_err(|fault| reader.fault(first, fault))?;
    if let Some(places) = places {
        let data = pack.layout().data.length;
        for (offset, length, _) in &places.blocks {
            if offset.checked_add(*length).is_none_or(|end| end > data) {
                tell(&AdapterError::schema_row(
                    pack.path(),
                    first,
                    "groups",
                    "a block of functional groups lies outside of the data segment",
                ));
            }
        }
    }
    Ok(())
}

/// What must be true of each row.
fn check_row(pack: &PackReader, reader: &DicomPackReader, row: u64, data: u64) -> Result<()> {
    let wrong = |field: &str, reason: String| {
        Err(AdapterError::schema_row(pack.path(), row, field, reason))
    };
    let (offset, length) = reader.delta_span(row)?;
    if offset.checked_add(length).is_none_or(|end| end > data) {
        return wrong("delta_offset", "the delta lies outside of the data segment".to_owned());
    }
    if let Some((offset, length, _)) = reader.extra_span(row)?
        && offset.checked_add(length).is_none_or(|end| end > data)
    {
        return wrong("extra_offset", "bits lie outside of the data segment".to_owned());
    }
    if !reader.has_pixels(row)? {
        return Ok(());
    }
    reader.frame_codec(row)?;
    reader.frame_form(row).map(|_| ())
}
