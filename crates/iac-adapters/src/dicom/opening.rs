//! What is read when a pack is opened: its header and the table of series.

use iac_format::TableKind;
use iac_reader::PackReader;
use serde_json::Value;

use super::read::Series;
use super::restore;
use super::{DICOM_PATIENT, SCHEMA_VERSION};
use crate::columns::{IntColumn, TextColumn, has_column, int_column, text_column};
use crate::error::{AdapterError, Result};

pub(super) fn check_header(pack: &PackReader) -> Result<()> {
    let header = pack.header();
    let found = header.payload_type();
    if found != Some(DICOM_PATIENT) {
        return Err(AdapterError::PayloadType {
            path: pack.path().to_owned(),
            found: found.map(str::to_owned),
            expected: DICOM_PATIENT,
        });
    }
    let version = header.get("dicom_schema_version").and_then(restore::whole);
    if version != Some(SCHEMA_VERSION.into()) {
        let shown =
            version.map_or_else(|| "that is not stated".to_owned(), |version| version.to_string());
        return Err(AdapterError::Unsupported {
            path: pack.path().to_owned(),
            reason: format!(
                "its DICOM schema has a version {shown}, but this library reads {SCHEMA_VERSION}"
            ),
        });
    }
    if header.get("codec").and_then(Value::as_str) != Some("jxl") {
        return Err(AdapterError::schema(pack.path(), "codec", "is not jxl"));
    }
    let params = header.get("codec_params");
    let truthy = |value: &Value| match value {
        Value::Bool(value) => *value,
        Value::Number(number) => number.as_f64() != Some(0.0),
        _ => false,
    };
    if !params.and_then(|params| params.get("lossless")).is_some_and(truthy) {
        return Err(AdapterError::schema(pack.path(), "codec_params", "does not say lossless"));
    }
    Ok(())
}

pub(super) fn read_series(pack: &PackReader) -> Result<Vec<Series>> {
    let table = pack.slide_table()?;
    let int = |name| int_column(pack, TableKind::Slide, name);
    let text = |name: &str| {
        has_column(table, name).then(|| text_column(pack, TableKind::Slide, name)).transpose()
    };
    let (idx, offset, length) =
        (int("series_idx")?, int("template_offset")?, int("template_length")?);
    let crc32 = has_column(table, "template_crc32").then(|| int("template_crc32")).transpose()?;
    let count = has_column(table, "instance_count").then(|| int("instance_count")).transpose()?;
    let (study, series, modality) = (text("study_uid")?, text("series_uid")?, text("modality")?);
    let mut found = Vec::new();
    for row in 0..table.num_rows() {
        let number = |column: &IntColumn, name: &str| {
            column.get(row).and_then(|it| u64::try_from(it).ok()).ok_or_else(|| {
                AdapterError::schema(
                    pack.path(),
                    name,
                    format!("no usable number in row {row} of the series table"),
                )
            })
        };
        let word = |column: &Option<TextColumn>| {
            column.as_ref().and_then(|column| column.get(row)).unwrap_or_default().to_owned()
        };
        let series_idx = number(&idx, "series_idx")?;
        let series_idx =
            u32::try_from(series_idx).ok().filter(|idx| *idx <= 0xFFFF).ok_or_else(|| {
                AdapterError::schema(
                    pack.path(),
                    "series_idx",
                    format!("{series_idx} is beyond 65535"),
                )
            })?;
        found.push(Series {
            series_idx,
            study_uid: word(&study),
            series_uid: word(&series),
            modality: word(&modality),
            instance_count: count
                .as_ref()
                .and_then(|it| it.get(row))
                .and_then(|it| u64::try_from(it).ok()),
            template: (
                number(&offset, "template_offset")?,
                number(&length, "template_length")?,
                crc32.as_ref().and_then(|it| it.get(row)).and_then(|it| u32::try_from(it).ok()),
            ),
        });
    }
    Ok(found)
}
