//! The rules of text packs, as `iac_ops::check` and the validator ask for them.

use std::sync::{Arc, Mutex, PoisonError};

use iac_ops::decode::Decoded;
use iac_ops::schema::{SchemaCheck, SchemaFault, SchemaReport};
use iac_reader::PackReader;

use super::check::{
    TextCheck, TextCheckOptions, TextFault, check_block, check_tables, check_text_pack,
};
use super::model::{ClinicalDoc, TextDocument};
use super::reader::{TextReadOptions, TextReader};
use crate::error::{AdapterError, Result};
use crate::text_pair::ClinicalDocPair;
use crate::validate::{ValidateOptions, Validated};

/// The rules of text packs.
///
/// Records are compared with their rows of the index, whose columns are kept from one record of a
/// pack to the next.
#[derive(Debug, Default)]
pub(crate) struct TextSchema {
    last: Mutex<Option<Arc<Opened>>>,
}

/// A pack whose records are being looked at.
#[derive(Debug)]
struct Opened {
    path: String,
    file_bytes: u64,
    reader: Kind,
}

#[derive(Debug)]
enum Kind {
    Text(TextReader<ClinicalDoc>),
    Pair(TextReader<ClinicalDocPair>),
}

/// Whether these are the rules of packs of this type.
pub(crate) fn handles(payload_type: &str) -> bool {
    [ClinicalDoc::PAYLOAD_TYPE, ClinicalDocPair::PAYLOAD_TYPE].contains(&payload_type)
}

impl TextSchema {
    fn open(&self, pack: &PackReader) -> Arc<Opened> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(opened) = last.as_ref()
            && opened.path == pack.path()
            && opened.file_bytes == pack.file_bytes()
        {
            return Arc::clone(opened);
        }
        let options = TextReadOptions::default();
        let reader = if pack.header().payload_type() == Some(ClinicalDoc::PAYLOAD_TYPE) {
            Kind::Text(TextReader::for_index(pack.clone(), options))
        } else {
            Kind::Pair(TextReader::for_index(pack.clone(), options))
        };
        let opened = Arc::new(Opened {
            path: pack.path().to_owned(),
            file_bytes: pack.file_bytes(),
            reader,
        });
        *last = Some(Arc::clone(&opened));
        opened
    }
}

impl SchemaCheck for TextSchema {
    fn handles(&self, payload_type: &str) -> bool {
        handles(payload_type)
    }

    fn check(&self, pack: &PackReader, most: usize) -> iac_ops::Result<SchemaReport> {
        // The pack's records have been looked at; its file need not stay open.
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = None;
        let found = if pack.header().payload_type() == Some(ClinicalDoc::PAYLOAD_TYPE) {
            check_tables::<ClinicalDoc>(pack, most)
        } else {
            check_tables::<ClinicalDocPair>(pack, most)
        };
        let mut report = SchemaReport::default();
        report.total = found.total_faults;
        report.faults = found.faults.into_iter().map(schema_fault).collect();
        report.warnings = warnings(found.warnings, found.total_warnings);
        Ok(report)
    }

    fn check_record(&self, pack: &PackReader, record: &Decoded) -> Option<SchemaFault> {
        let fault = match &self.open(pack).reader {
            Kind::Text(reader) => check_block(reader, record.row, &record.bytes),
            Kind::Pair(reader) => check_block(reader, record.row, &record.bytes),
        };
        fault.map(schema_fault)
    }
}

fn schema_fault(fault: TextFault) -> SchemaFault {
    let mut told = SchemaFault::new(fault.message).row(fault.row).kind(fault.kind);
    told.field = fault.field;
    told
}

fn warnings(listed: Vec<TextFault>, total: u64) -> Vec<String> {
    let told = u64::try_from(listed.len()).unwrap_or(u64::MAX);
    let mut lines: Vec<String> = listed
        .into_iter()
        .map(|fault| match fault.row {
            Some(row) => format!("row {row}: {}", fault.message),
            None => fault.message,
        })
        .collect();
    let rest = total.saturating_sub(told);
    if rest > 0 {
        lines.push(format!("{rest} more like these"));
    }
    lines
}

/// The checks of the validator, ended by the first fault.
pub(crate) fn validate(pack: &PackReader, options: &ValidateOptions) -> Result<Validated> {
    let most = |rows: u64| if rows == 0 { u64::MAX } else { rows };
    let check = TextCheckOptions::default()
        .decode(most(options.max_decode))
        .crc(most(options.max_crc))
        .spread(false)
        .max_faults(1);
    let not_text = || AdapterError::Unsupported {
        path: pack.path().to_owned(),
        reason: "the pack is none of texts".to_owned(),
    };
    let found: TextCheck = check_text_pack(pack, &check).ok_or_else(not_text)?;
    if let Some(fault) = found.faults.into_iter().next() {
        return Err(AdapterError::Schema {
            path: pack.path().to_owned(),
            row: fault.row,
            field: fault.field,
            reason: fault.message,
        });
    }
    Ok(Validated::Text {
        payload_type: found.payload_type.to_owned(),
        records: found.records,
        codec: found.codec,
        decoded: found.decoded,
        crc_checked: found.crc_checked,
    })
}
