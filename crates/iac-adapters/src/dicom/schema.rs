//! The rules of patient packs, as `iac_ops::check` and the validator ask for them.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

use iac_format::TableKind;
use iac_ops::decode::Decoded;
use iac_ops::schema::{SchemaCheck, SchemaFault, SchemaReport};
use iac_reader::{PackReader, ReadError};
use serde_json::Value;

use super::DICOM_PATIENT;
use super::SCHEMA_VERSION;
use super::opening::check_header;
use super::read::{DicomPackReader, Series};
use super::restore;
use super::schema2::{self, SCHEMA_VERSION_2};
use crate::columns::{missing_columns, text_column};
use crate::error::{AdapterError, Result};
use crate::validate::{ValidateOptions, Validated};

const SERIES_COLUMNS: [&str; 6] = [
    "series_idx",
    "study_uid",
    "series_uid",
    "template_offset",
    "template_length",
    "template_crc32",
];
const INSTANCE_COLUMNS: [&str; 10] = [
    "series_idx",
    "sop_instance_uid",
    "rows",
    "columns",
    "pixel_dtype",
    "dicom_delta",
    "dicom_delta_crc32",
    "offset",
    "length",
    "crc32",
];

/// Payloads that are compared with their sums together.
const GROUP: u64 = 256;

/// Whether these are the rules of packs of this type.
pub(crate) fn handles(payload_type: &str) -> bool {
    payload_type == DICOM_PATIENT
}

fn tables(pack: &PackReader) -> Result<()> {
    let version = pack.header().get("dicom_schema_version").and_then(restore::whole);
    let second = version == Some(SCHEMA_VERSION_2.into());
    let instances = if second { &[][..] } else { &INSTANCE_COLUMNS[..] };
    if second {
        schema2::check::columns(pack)?;
    } else if version.is_some_and(|version| version != SCHEMA_VERSION.into()) {
        check_header(pack)?;
    }
    for (kind, names) in [(TableKind::Slide, &SERIES_COLUMNS[..]), (TableKind::Index, instances)] {
        let table =
            if kind == TableKind::Slide { pack.slide_table()? } else { pack.index_table()? };
        let missing = missing_columns(table, names);
        if let Some(first) = missing.first() {
            let which = if kind == TableKind::Slide { "series" } else { "instance" };
            return Err(AdapterError::schema(
                pack.path(),
                first,
                format!("{which} table missing columns: {}", missing.join(", ")),
            ));
        }
    }
    Ok(())
}

/// The part of the data segment that holds templates.
fn metadata_length(pack: &PackReader) -> Result<u64> {
    let data = pack.layout().data.length;
    let stated = pack.header().get("metadata_length").and_then(Value::as_u64);
    stated.filter(|length| *length <= data).ok_or_else(|| {
        AdapterError::schema(
            pack.path(),
            "metadata_length",
            format!("is no number from 0 to {data}, the size of the data segment"),
        )
    })
}

fn template_inside(pack: &PackReader, series: &Series, metadata: u64) -> Result<()> {
    let (offset, length, _) = series.template;
    if offset.checked_add(length).is_none_or(|end| end > metadata) {
        return Err(AdapterError::schema(
            pack.path(),
            "template_offset",
            format!(
                "the template of series {} (offset {offset}, length {length}) lies outside of the {metadata} bytes of metadata",
                series.series_idx
            ),
        ));
    }
    Ok(())
}

/// The checks of the validator, ended by the first fault.
pub(crate) fn validate(pack: &PackReader, options: &ValidateOptions) -> Result<Validated> {
    tables(pack)?;
    let metadata = metadata_length(pack)?;
    let rows = pack.num_records()?;
    let of_rows = |most: u64| if most == 0 || most > rows { rows } else { most };
    let reader = DicomPackReader::from_reader(pack.with_crc(false), true)?;
    for series in reader.series() {
        template_inside(pack, series, metadata)?;
        reader.template_bytes(series)?;
    }
    for row in 0..rows {
        reader.series_of(row)?;
    }
    let crc_checked = of_rows(options.max_crc);
    let checking = pack.with_crc(true);
    let mut start = 0_u64;
    while start < crc_checked {
        let end = start.saturating_add(GROUP).min(crc_checked);
        let group: Vec<u64> = (start..end).collect();
        checking.read_rows(&group).map_err(|error| match error {
            ReadError::Checksum { row, stored, computed, .. } => AdapterError::schema_row(
                pack.path(),
                row,
                "crc32",
                format!("crc32 mismatch at row {row}: expected={stored} actual={computed}"),
            ),
            other => other.into(),
        })?;
        start = end;
    }
    for row in 0..crc_checked {
        if reader.frame_of(row)? == 0 {
            // With its template, as one alone may be no sound document.
            reader.attributes(row)?;
        }
    }
    let mut decoded = 0_u64;
    for row in 0..of_rows(options.max_decode) {
        if reader.has_pixels(row)? {
            reader.read_pixels(row)?;
            decoded = decoded.saturating_add(1);
        }
    }
    Ok(Validated::Dicom {
        payload_type: DICOM_PATIENT.to_owned(),
        records: rows,
        series: u64::try_from(reader.series().len()).unwrap_or(u64::MAX),
        codec: pack.header().get("codec").and_then(Value::as_str).unwrap_or_default().to_owned(),
        decoded,
        crc_checked,
    })
}

/// The rules of patient packs. The reader of the last pack is kept from one row to the next.
#[derive(Debug, Default)]
pub(crate) struct DicomSchema {
    last: Mutex<Option<(String, u64, DicomPackReader)>>,
}

impl DicomSchema {
    fn open(&self, pack: &PackReader) -> Option<DicomPackReader> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((path, bytes, reader)) = last.as_ref()
            && path == pack.path()
            && *bytes == pack.file_bytes()
        {
            return Some(reader.clone());
        }
        let reader = DicomPackReader::from_reader(pack.clone(), true).ok()?;
        *last = Some((pack.path().to_owned(), pack.file_bytes(), reader.clone()));
        Some(reader)
    }
}

fn fault_of(error: &AdapterError) -> SchemaFault {
    let mut fault = SchemaFault::new(error.reason()).row(error.row()).kind(error.kind());
    fault.field = error.field().map(str::to_owned);
    fault
}

impl SchemaCheck for DicomSchema {
    fn handles(&self, payload_type: &str) -> bool {
        handles(payload_type)
    }

    fn check(&self, pack: &PackReader, most: usize) -> iac_ops::Result<SchemaReport> {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = None;
        let mut report = SchemaReport::default();
        let mut tell = |error: &AdapterError| report.push(most, fault_of(error));
        let metadata = match tables(pack).and_then(|()| metadata_length(pack)) {
            Ok(metadata) => metadata,
            Err(error) => {
                tell(&error);
                return Ok(report);
            }
        };
        let reader = match DicomPackReader::from_reader(pack.clone(), true) {
            Ok(reader) => reader,
            Err(error) => {
                tell(&error);
                return Ok(report);
            }
        };
        for series in reader.series() {
            if let Err(error) = template_inside(pack, series, metadata)
                .and_then(|()| reader.read_template(series).map(|_| ()))
            {
                tell(&error);
            }
        }
        if reader.is_second()
            && let Err(error) = schema2::check::instances(pack, &reader, &mut tell)
        {
            tell(&error);
            return Ok(report);
        }
        if let Err(error) = check_rows(pack, &reader, &mut tell) {
            tell(&error);
        }
        Ok(report)
    }

    fn has_record(&self, pack: &PackReader, row: u64) -> bool {
        self.open(pack).is_none_or(|reader| reader.has_pixels(row).unwrap_or(true))
    }

    fn check_record(&self, pack: &PackReader, record: &Decoded) -> Option<SchemaFault> {
        let reader = self.open(pack)?;
        if reader.is_second() {
            // Its records are not decoded by the header's codec.
            return match reader.has_pixels(record.row).and_then(|has| {
                if has { reader.read_pixels(record.row).map(|_| ()) } else { Ok(()) }
            }) {
                Ok(()) => None,
                Err(error) => Some(fault_of(&error)),
            };
        }
        let fault = |field: &str, message: String| {
            Some(SchemaFault::new(message).row(record.row).field(field))
        };
        let shape = reader.shape(record.row).ok()?;
        if record.shape != shape.dimensions() {
            return fault(
                "rows",
                format!(
                    "the payload holds an image of {:?}, but the table says {shape}",
                    record.shape
                ),
            );
        }
        let wanted = reader.pixel_type(record.row).ok()??.bytes();
        let found = match record.dtype {
            "uint8" => 1,
            "uint16" => 2,
            _ => 0,
        };
        if found != wanted {
            let dtype = record.dtype;
            return fault(
                "pixel_dtype",
                format!(
                    "the payload holds samples of type {dtype} where {wanted} bytes are stated"
                ),
            );
        }
        None
    }
}

/// Whether rows belong to series, identifiers are unique, and every object can be restored.
fn check_rows(
    pack: &PackReader,
    reader: &DicomPackReader,
    tell: &mut impl FnMut(&AdapterError),
) -> Result<()> {
    let uids = text_column(pack, TableKind::Index, "sop_instance_uid")?;
    let mut seen: HashSet<&str> = HashSet::new();
    let mut counts: HashMap<u32, u64> = HashMap::new();
    for row in reader.first_rows()? {
        let uid = uids.get(row).unwrap_or_default();
        if uid.is_empty() {
            tell(&AdapterError::schema_row(pack.path(), row, "sop_instance_uid", "is empty"));
        } else if !seen.insert(uid) {
            tell(&AdapterError::schema_row(
                pack.path(),
                row,
                "sop_instance_uid",
                "stands in another row as well",
            ));
        }
        let series = match reader.series_of(row) {
            Ok(series) => series,
            Err(error) => {
                tell(&error);
                continue;
            }
        };
        let count = counts.entry(series.series_idx).or_default();
        *count = count.saturating_add(1);
        let data = match reader.data_set(row) {
            Ok(data) => data,
            Err(error) => {
                tell(&error);
                continue;
            }
        };
        for (tag, stated, field) in [
            (dicom_core::Tag(0x0008, 0x0018), uid, "sop_instance_uid"),
            (dicom_core::Tag(0x0020, 0x000D), series.study_uid.as_str(), "study_uid"),
            (dicom_core::Tag(0x0020, 0x000E), series.series_uid.as_str(), "series_uid"),
        ] {
            // What an object lacks may have been made up for the table.
            let own = data.ascii(tag).filter(|own| !own.is_empty());
            if own.is_some_and(|own| own != stated) {
                tell(&AdapterError::schema_row(
                    pack.path(),
                    row,
                    field,
                    "the table and the metadata of the object differ",
                ));
            }
        }
    }
    for series in reader.series() {
        let found = counts.get(&series.series_idx).copied().unwrap_or(0);
        if series.instance_count.is_some_and(|stated| stated != found) {
            tell(&AdapterError::schema(
                pack.path(),
                "instance_count",
                format!(
                    "series {} has {found} rows, but {} are stated",
                    series.series_idx,
                    series.instance_count.unwrap_or(0)
                ),
            ));
        }
    }
    Ok(())
}
