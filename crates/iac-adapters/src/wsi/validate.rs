//! The rules of slides, as `iac_ops::check` and the validator ask for them.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use iac_codec::Scale;
use iac_ops::decode::Decoded;
use iac_ops::schema::{SchemaCheck, SchemaFault, SchemaReport};
use iac_reader::PackReader;
use serde_json::{Map, Value};

use super::codec_params::{same, shown};
use super::options::WsiOpenOptions;
use super::read::WsiPackReader;
use super::{METADATA_NAME, WSI_IMAGE, kind};
use crate::error::{AdapterError, Result, short};
use crate::validate::{ValidateOptions, Validated};

/// Whether these are the rules of packs of this type.
pub(crate) fn handles(payload_type: &str) -> bool {
    payload_type == WSI_IMAGE
}

fn open(pack: &PackReader) -> Result<WsiPackReader> {
    let options = WsiOpenOptions::new().tile_cache(0).render_cache(0);
    WsiPackReader::from_reader(pack.clone(), &options)
}

/// The checks of the validator behind spans and checksums, ended by the first fault.
pub(crate) fn validate(
    pack: &PackReader,
    options: &ValidateOptions,
    crc_checked: u64,
) -> Result<Validated> {
    // Only those rows are compared with their checksums that were asked for.
    let reader = open(&pack.with_crc(false))?;
    let info = reader.info();
    let tiles = &reader.inner.rows.tiles;
    let count = u64::try_from(tiles.len()).unwrap_or(u64::MAX);
    let decoded = match options.max_decode {
        0 => count,
        most => most.min(count),
    };
    for tile in tiles.iter().take(usize::try_from(decoded).unwrap_or(usize::MAX)) {
        let at = (tile.x.into(), tile.y.into());
        reader.decoded(at, tile.row.into(), Scale::Full, false, false)?;
    }
    let mut fault = None;
    describe(&reader, &mut |error| {
        fault.get_or_insert(error);
    });
    if let Some(error) = fault {
        return Err(error);
    }
    for image in reader.associated_images() {
        reader.read_associated(&image.name)?;
    }
    Ok(Validated::Wsi {
        payload_type: WSI_IMAGE.to_owned(),
        records: pack.num_records()?,
        width: info.width,
        height: info.height,
        decoded,
        crc_checked,
    })
}

/// Checks scanner metadata, and that they describe the associated images.
fn describe(reader: &WsiPackReader, tell: &mut dyn FnMut(AdapterError)) {
    let metadata = match reader.scanner_metadata() {
        Ok(metadata) => metadata,
        Err(error) => return tell(error),
    };
    let row = reader.auxiliary_row(kind::METADATA, METADATA_NAME).unwrap_or(0);
    let wrong = |field: &str, reason: String| {
        AdapterError::schema_row(reader.reader().path(), row, field, reason)
    };
    let is_object = |name: &str| metadata.get(name).is_some_and(Value::is_object);
    if !is_object("source_info") {
        tell(wrong(
            "source_info",
            format!("source_info is {} instead of an object", shown(metadata.get("source_info"))),
        ));
    }
    if metadata.contains_key("source_storage") && !is_object("source_storage") {
        tell(wrong(
            "source_storage",
            format!(
                "source_storage is {} instead of an object",
                shown(metadata.get("source_storage"))
            ),
        ));
    }
    let Some(Value::Array(entries)) = metadata.get("associated_images") else {
        tell(wrong(
            "associated_images",
            format!(
                "associated_images is {} instead of an array",
                shown(metadata.get("associated_images"))
            ),
        ));
        return;
    };
    let mut named: BTreeSet<&str> = BTreeSet::new();
    let mut known: Vec<(&str, &Map<String, Value>)> = Vec::new();
    for entry in entries {
        let name = entry.get("name").and_then(Value::as_str).filter(|name| !name.is_empty());
        let Some((name, entry)) = name.zip(entry.as_object()) else {
            tell(wrong(
                "associated_images",
                format!("an entry is no object with a name: {}", shown(Some(entry))),
            ));
            continue;
        };
        if !named.insert(name) {
            tell(wrong(
                "associated_images",
                format!("the image \"{}\" is described twice", short(name)),
            ));
        }
        known.push((name, entry));
    }
    let images = reader.associated_images();
    for (name, entry) in &known {
        // They are sorted by name.
        let image = images.binary_search_by(|image| image.name.as_str().cmp(name));
        let Some(image) = image.ok().and_then(|at| images.get(at)) else {
            tell(wrong(
                "associated_images",
                format!("the image \"{}\" is described, but not there", short(name)),
            ));
            continue;
        };
        let expected = [
            ("width", Value::from(image.width)),
            ("height", image.height.into()),
            ("stored_mode", "RGB".into()),
            ("icc_profile_present", image.has_icc.into()),
        ];
        for (field, wanted) in expected {
            if !entry.get(field).is_some_and(|found| same(found, &wanted)) {
                tell(wrong(
                    field,
                    format!(
                        "{field} of the image \"{}\" is {} instead of {wanted}",
                        short(name),
                        shown(entry.get(field))
                    ),
                ));
            }
        }
        let alpha = entry.get("alpha_handling").and_then(Value::as_str);
        let problems = [
            ("alpha_handling", matches!(alpha, Some("none" | "composited_on_white"))),
            ("source_mode", entry.get("source_mode").is_some_and(Value::is_string)),
            ("source_info", entry.get("source_info").is_some_and(Value::is_object)),
        ];
        for (field, _) in problems.iter().filter(|(_, is_sound)| !is_sound) {
            tell(wrong(
                field,
                format!(
                    "{field} of the image \"{}\" cannot be {}",
                    short(name),
                    shown(entry.get(*field))
                ),
            ));
        }
    }
    for image in images.iter().filter(|image| !named.contains(image.name.as_str())) {
        tell(wrong(
            "associated_images",
            format!("the image \"{}\" is not described", short(&image.name)),
        ));
    }
}

/// The rules of slides. The reader of the last pack is kept from one row to the next.
#[derive(Debug, Default)]
pub(crate) struct WsiSchema {
    last: Mutex<Option<(String, u64, WsiPackReader)>>,
}

impl WsiSchema {
    fn open(&self, pack: &PackReader) -> Option<WsiPackReader> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((path, bytes, reader)) = last.as_ref()
            && path == pack.path()
            && *bytes == pack.file_bytes()
        {
            return Some(reader.clone());
        }
        let reader = open(pack).ok()?;
        *last = Some((pack.path().to_owned(), pack.file_bytes(), reader.clone()));
        Some(reader)
    }
}

fn fault_of(error: &AdapterError) -> SchemaFault {
    let fault = SchemaFault::new(error.reason()).row(error.row()).kind(error.kind());
    match error.field() {
        Some(field) => fault.field(field),
        None => fault,
    }
}

impl SchemaCheck for WsiSchema {
    fn handles(&self, payload_type: &str) -> bool {
        handles(payload_type)
    }

    fn check(&self, pack: &PackReader, most: usize) -> iac_ops::Result<SchemaReport> {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = None;
        let mut report = SchemaReport::default();
        let reader = match open(pack) {
            Ok(reader) => reader,
            Err(error) => {
                report.push(most, fault_of(&error));
                return Ok(report);
            }
        };
        describe(&reader, &mut |error| report.push(most, fault_of(&error)));
        for image in reader.associated_images() {
            if let Err(error) = reader.read_associated(&image.name) {
                report.push(most, fault_of(&error));
            }
        }
        warn(&reader, &mut report);
        Ok(report)
    }

    fn check_record(&self, pack: &PackReader, record: &Decoded) -> Option<SchemaFault> {
        let reader = self.open(pack)?;
        let rows = &reader.inner.rows;
        // Others are looked at as a whole above.
        rows.tile_of(record.row)?;
        let decoded = reader.inner.decoder.decode(&record.bytes, Scale::Full, false);
        let error = decoded.err()?;
        Some(
            SchemaFault::new(error.to_string())
                .row(record.row)
                .kind(reader.codec_error(record.row, error).kind()),
        )
    }
}

/// What is allowed, but seldom meant.
fn warn(reader: &WsiPackReader, report: &mut SchemaReport) {
    const PLAUSIBLE: std::ops::RangeInclusive<f64> = 0.05..=20.0;
    let info = reader.info();
    if ![info.mpp.x, info.mpp.y].iter().all(|mpp| PLAUSIBLE.contains(mpp)) {
        report
            .warnings
            .push(format!("{} micrometres per pixel are no usual resolution of a slide", info.mpp));
    }
    if info.background.iter().all(|value| *value < 128) {
        let [red, green, blue] = info.background;
        report.warnings.push(format!(
            "the background, which also surrounds the slide, is dark: ({red}, {green}, {blue})"
        ));
    }
    if reader.reader().header().get("created_by").is_none() {
        report
            .warnings
            .push("the header does not say who created the pack (created_by)".to_owned());
    }
}
