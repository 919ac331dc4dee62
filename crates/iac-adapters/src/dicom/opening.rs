//! What is read when a pack is opened: its header and the table of series.

use arrow_array::RecordBatch;
use iac_reader::PackReader;
use serde_json::Value;

use super::read::Series;
use super::restore;
use super::{DICOM_PATIENT, SCHEMA_VERSION, SCHEMA_VERSION_2};
use crate::columns::{IntColumn, TextColumn, has_column};
use crate::error::{AdapterError, Result};

/// The version of the schema, and the number of instances where the header says it.
pub(super) fn check_header(pack: &PackReader) -> Result<(u32, Option<u64>)> {
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
    if version == Some(SCHEMA_VERSION_2.into()) {
        let instances = header.get("num_instances").and_then(Value::as_u64);
        let instances = instances.ok_or_else(|| {
            AdapterError::schema(pack.path(), "num_instances", "is no number of instances")
        })?;
        return Ok((SCHEMA_VERSION_2, Some(instances)));
    }
    if version != Some(SCHEMA_VERSION.into()) {
        let shown =
            version.map_or_else(|| "that is not stated".to_owned(), |version| version.to_string());
        return Err(AdapterError::Unsupported {
            path: pack.path().to_owned(),
            reason: format!(
                "its DICOM schema has a version {shown}, but this library reads {SCHEMA_VERSION} and {SCHEMA_VERSION_2}"
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
    Ok((SCHEMA_VERSION, None))
}

/// The columns of the series table that a list of series is made of: those that must be there
/// first.
const COLUMNS: [&str; 8] = [
    "series_idx",
    "template_offset",
    "template_length",
    "template_crc32",
    "instance_count",
    "study_uid",
    "series_uid",
    "modality",
];
/// How many of them must be there.
const REQUIRED: usize = 3;

pub(super) fn read_series(pack: &PackReader) -> Result<Vec<Series>> {
    let table = pack.slide_table()?;
    // Decoded together: each call goes through the whole stream.
    let mut names = Vec::with_capacity(COLUMNS.len());
    let mut places = [None; COLUMNS.len()];
    for (position, (name, place)) in COLUMNS.into_iter().zip(&mut places).enumerate() {
        if has_column(table, name) {
            *place = Some(names.len());
            names.push(name);
        } else if position < REQUIRED {
            return Err(AdapterError::schema(
                pack.path(),
                name,
                format!("the {} has no column `{name}`", table.kind()),
            ));
        }
    }
    let mut found = Vec::new();
    for batch in table.columns(&names)? {
        let columns = Columns::of(pack, &batch, &places)?;
        for row in 0..batch.num_rows() {
            found.push(columns.series(pack, row, found.len())?);
        }
    }
    Ok(found)
}

/// The columns of one record batch.
struct Columns {
    numbers: [Option<IntColumn>; 5],
    texts: [Option<TextColumn>; 3],
}

impl Columns {
    fn of(
        pack: &PackReader,
        batch: &RecordBatch,
        places: &[Option<usize>; COLUMNS.len()],
    ) -> Result<Self> {
        let mut columns = Self { numbers: [const { None }; 5], texts: [const { None }; 3] };
        let Self { numbers, texts } = &mut columns;
        let (of_numbers, of_texts) = (COLUMNS.iter().zip(places), COLUMNS.iter().zip(places));
        let wrong = |name: &str, wanted: &str| {
            AdapterError::schema(pack.path(), name, format!("the column holds no {wanted}"))
        };
        for (column, (name, place)) in numbers.iter_mut().zip(of_numbers) {
            if let Some(array) = place.and_then(|place| batch.columns().get(place)) {
                let mut found = IntColumn::default();
                found.push(array).ok_or_else(|| wrong(name, "integers"))?;
                *column = Some(found);
            }
        }
        for (column, (name, place)) in texts.iter_mut().zip(of_texts.skip(5)) {
            if let Some(array) = place.and_then(|place| batch.columns().get(place)) {
                let mut found = TextColumn::default();
                found.push(array).ok_or_else(|| wrong(name, "texts"))?;
                *column = Some(found);
            }
        }
        Ok(columns)
    }

    /// The series of a row of the batch; `position` is its row of the table.
    fn series(&self, pack: &PackReader, row: usize, position: usize) -> Result<Series> {
        let row = u64::try_from(row).unwrap_or(u64::MAX);
        let [idx, offset, length, crc32, count] = &self.numbers;
        let [study, series, modality] = &self.texts;
        let stated = |column: &Option<IntColumn>| {
            column.as_ref()?.get(row).and_then(|it| u64::try_from(it).ok())
        };
        let number = |column: &Option<IntColumn>, name: &str| {
            stated(column).ok_or_else(|| {
                AdapterError::schema(
                    pack.path(),
                    name,
                    format!("no usable number in row {position} of the series table"),
                )
            })
        };
        let word = |column: &Option<TextColumn>| {
            column.as_ref().and_then(|column| column.get(row)).unwrap_or_default().to_owned()
        };
        let series_idx = number(idx, "series_idx")?;
        let series_idx =
            u32::try_from(series_idx).ok().filter(|idx| *idx <= 0xFFFF).ok_or_else(|| {
                AdapterError::schema(
                    pack.path(),
                    "series_idx",
                    format!("{series_idx} is beyond 65535"),
                )
            })?;
        Ok(Series {
            series_idx,
            study_uid: word(study),
            series_uid: word(series),
            modality: word(modality),
            instance_count: stated(count),
            template: (
                number(offset, "template_offset")?,
                number(length, "template_length")?,
                stated(crc32).and_then(|it| u32::try_from(it).ok()),
            ),
        })
    }
}
