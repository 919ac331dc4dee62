//! Whether a pack of text keeps the rules of its schema.

mod block;
mod report;

use std::collections::HashSet;

use iac_format::{ErrorKind, TableKind};
use iac_reader::{PackKind, PackReader, RecordOptions, VariableRecordPack};
use serde_json::Value;

use super::fault::BlockError;
use super::lookup::PatientRows;
use super::manifest::Manifest;
use super::model::{ClinicalDoc, SCHEMA_VERSION, TextDocument};
use super::reader::{
    INSTITUTION, NUM_DOCS, PATIENT_ID, RAW_BYTES, TextReadOptions, TextReader, check_version,
};
use super::writer::TEXT_COLUMNS_EXTENSION;
use crate::columns::{IntColumn, has_column, int_column, missing_columns, text_column};
use crate::error::AdapterError;
use crate::text_pair::ClinicalDocPair;
use block::{BlockFaults, inspect};
pub use report::{TextCheck, TextCheckOptions, TextFault};

/// Rows that are decoded together.
const ROWS_AT_ONCE: usize = 256;
/// Their stored bytes, unless one row has more.
const BYTES_AT_ONCE: u64 = 16 << 20;

/// Checks a pack of either kind of text; nothing when it is a pack of something else.
#[must_use]
pub fn check_text_pack(pack: &PackReader, options: &TextCheckOptions) -> Option<TextCheck> {
    match pack.header().members().get("payload_type").and_then(Value::as_str) {
        Some(ClinicalDoc::PAYLOAD_TYPE) => Some(check::<ClinicalDoc>(pack, options)),
        Some(ClinicalDocPair::PAYLOAD_TYPE) => Some(check::<ClinicalDocPair>(pack, options)),
        _ => None,
    }
}

/// Checks a pack of one kind of text: columns, ids, spans, checksums, and the blocks of chosen rows.
/// Everything that is wrong is listed; nothing stops at the first fault.
#[must_use]
pub fn check<D: TextDocument>(pack: &PackReader, options: &TextCheckOptions) -> TextCheck {
    let mut checker = Checker::<D>::new(pack, options);
    checker.run();
    checker.list
}

fn codec_name(pack: &PackReader) -> String {
    let codec = pack.header().members().get("codec").map(|codec| match codec {
        Value::String(name) => name.clone(),
        other => other.to_string(),
    });
    codec.unwrap_or_else(|| "none".to_owned())
}

/// Header, columns and ids alone.
pub(super) fn check_tables<D: TextDocument>(pack: &PackReader, most: usize) -> TextCheck {
    let options = TextCheckOptions { max_faults: most, ..TextCheckOptions::default() };
    let mut checker = Checker::<D>::new(pack, &options);
    checker.tables();
    checker.list
}

/// What is wrong with a decompressed block, compared with its row of the index.
pub(super) fn check_block<D: TextDocument>(
    reader: &TextReader<D>,
    row: u64,
    block: &[u8],
) -> Option<TextFault> {
    let options = TextCheckOptions { max_faults: 1, ..TextCheckOptions::default() };
    let mut checker = Checker::<D>::new(reader.pack(), &options);
    let sums = checker.sums();
    let raw = checker.raw_bytes().and_then(|raw| raw.get(row));
    checker.raw_size(row, raw, block.len());
    checker.block(row, inspect::<D>(block, &options.limits), reader, &sums);
    checker.list.faults.pop()
}

struct Checker<'o, D> {
    options: &'o TextCheckOptions,
    list: TextCheck,
    pack: PackReader,
    kind: std::marker::PhantomData<fn() -> D>,
}

impl<'o, D: TextDocument> Checker<'o, D> {
    fn new(pack: &PackReader, options: &'o TextCheckOptions) -> Self {
        let list = TextCheck {
            payload_type: D::PAYLOAD_TYPE,
            records: 0,
            codec: codec_name(pack),
            decoded: 0,
            crc_checked: 0,
            faults: Vec::new(),
            total_faults: 0,
            warnings: Vec::new(),
            total_warnings: 0,
        };
        Self { options, list, pack: pack.with_crc(true), kind: std::marker::PhantomData }
    }

    fn fault(&mut self, fault: TextFault) {
        self.list.total_faults = self.list.total_faults.saturating_add(1);
        if self.list.faults.len() < self.options.max_faults {
            self.list.faults.push(fault);
        }
    }

    fn warn(&mut self, fault: TextFault) {
        if self.options.strict {
            return self.fault(fault);
        }
        self.list.total_warnings = self.list.total_warnings.saturating_add(1);
        if self.list.warnings.len() < self.options.max_faults {
            self.list.warnings.push(fault);
        }
    }

    fn error(&mut self, check: &'static str, error: &AdapterError) {
        let fault = TextFault {
            check,
            row: error.row(),
            field: error.field().map(str::to_owned),
            message: error.reason(),
            kind: error.kind(),
        };
        self.fault(fault);
    }

    fn run(&mut self) {
        if !self.tables() {
            return;
        }
        let sound = self.spans(self.list.records);
        self.checksums(&sound);
        self.blocks(&sound);
    }

    /// Checks header, columns and ids, and says whether there are records to look at.
    fn tables(&mut self) -> bool {
        if let Err(error) = check_version(&self.pack, D::VERSION_FIELD) {
            self.error("header", &error);
        }
        self.list.records = match self.pack.num_records() {
            Ok(rows) => rows,
            Err(error) => {
                self.error("table", &error.into());
                return false;
            }
        };
        match self.pack.kind() {
            Ok(PackKind::Variable) => {}
            Ok(_) => {
                let message = "the index has no column `offset`";
                self.fault(schema("table", None, Some("offset"), message));
                return false;
            }
            Err(error) => {
                self.error("table", &error.into());
                return false;
            }
        }
        if let Err(error) = self.columns() {
            self.error("table", &error);
        }
        if let Err(error) = self.ids() {
            self.error("patient_id", &error);
        }
        true
    }

    /// Whether the columns are there.
    fn columns(&mut self) -> Result<(), AdapterError> {
        let pack = self.pack.clone();
        let index = pack.index_table()?;
        for name in missing_columns(index, &[PATIENT_ID, "length", "crc32"]) {
            let message = format!("the index has no column `{name}`");
            self.fault(schema("table", None, Some(name), message));
        }
        let sums = D::TEXTS.iter().filter_map(|text| text.sum_column);
        let wanted: Vec<&str> = [INSTITUTION, NUM_DOCS].into_iter().chain(sums).collect();
        for name in missing_columns(index, &wanted) {
            let message = format!("the index has no column `{name}`");
            self.warn(schema("table", None, Some(name), message));
        }
        Ok(())
    }

    /// Whether ids are there and differ.
    fn ids(&mut self) -> Result<(), AdapterError> {
        if !has_column(self.pack.index_table()?, PATIENT_ID) {
            return Ok(()); // told already
        }
        let ids = text_column(&self.pack, TableKind::Index, PATIENT_ID)?;
        for (row, id) in (0_u64..).zip(ids.iter()) {
            if id.is_none() {
                self.fault(schema("patient_id", Some(row), Some(PATIENT_ID), "patient_id is null"));
            }
        }
        let first: HashSet<u64> = PatientRows::new(&ids).first_rows(&ids).into_iter().collect();
        for (row, id) in (0_u64..).zip(ids.iter()) {
            if let Some(id) = id
                && !first.contains(&row)
            {
                let message =
                    format!("patient_id \"{}\" is that of an earlier row", crate::error::short(id));
                self.warn(schema("patient_id", Some(row), Some(PATIENT_ID), message));
            }
        }
        self.pack.check_intact()?;
        Ok(())
    }

    /// The rows whose spans are sound.
    fn spans(&mut self, rows: u64) -> Vec<u64> {
        let mut sound = Vec::new();
        for row in 0..rows {
            match self.pack.span(row) {
                Ok(_) => sound.push(row),
                Err(error) if error.row().is_some() => self.error("span", &error.into()),
                Err(error) => {
                    self.error("table", &error.into());
                    return Vec::new();
                }
            }
        }
        sound
    }

    /// So many rows, by the options.
    fn chosen(&self, rows: &[u64], wanted: u64) -> Vec<u64> {
        let count = u64::try_from(rows.len()).unwrap_or(u64::MAX);
        if wanted >= count {
            return rows.to_vec();
        }
        let at = |number: u64| rows.get(usize::try_from(number).ok()?).copied();
        if !self.options.spread {
            return (0..wanted).filter_map(at).collect();
        }
        let last = u128::from(count.saturating_sub(1));
        let steps = u128::from(wanted.saturating_sub(1)).max(1);
        let spread = (0..wanted).map(|number| {
            let place = u128::from(number).saturating_mul(last).checked_div(steps).unwrap_or(0);
            u64::try_from(place).unwrap_or(u64::MAX)
        });
        spread.filter_map(at).collect()
    }

    fn checksums(&mut self, sound: &[u64]) {
        for row in self.chosen(sound, self.options.crc) {
            if self.pack.span(row).is_ok_and(|span| span.crc32.is_none()) {
                return; // that the column is missing was told already
            }
            self.list.crc_checked = self.list.crc_checked.saturating_add(1);
            if let Err(error) = self.pack.read(row) {
                self.error("checksum", &error.into());
            }
        }
    }

    fn blocks(&mut self, sound: &[u64]) {
        let rows = self.chosen(sound, self.options.decode);
        if rows.is_empty() {
            return;
        }
        let records = RecordOptions::default().limits(self.options.limits);
        // Damage of stored bytes is the affair of the checksums.
        let pack = self.pack.with_crc(false);
        let records = VariableRecordPack::from_reader_with(pack, records);
        if let Err(error) = records.codec() {
            return self.error("decode", &error.into());
        }
        // Only the index is asked, so the header's version must not stand in the way.
        let of_index = TextReader::<D>::for_index(self.pack.clone(), TextReadOptions::default());
        let sums = self.sums();
        let raw = self.raw_bytes();
        let mut rest = rows.as_slice();
        while !rest.is_empty() {
            let mut bytes = 0_u64;
            let together = rest.iter().take(ROWS_AT_ONCE).take_while(|row| {
                let fits = bytes < BYTES_AT_ONCE;
                let length = self.pack.span(**row).map_or(0, |span| span.length);
                bytes = bytes.saturating_add(length);
                fits
            });
            let (part, behind) = rest.split_at(together.count().max(1));
            rest = behind;
            let limits = self.options.limits;
            let look = move |_, block: &[u8]| (inspect::<D>(block, &limits), block.len());
            let read = records.read_many_with(part, look);
            let read = match read {
                Ok(read) => read.into_iter().map(Ok).collect(),
                // One of them is damaged: which one shows when they are read one by one.
                Err(_) => part
                    .iter()
                    .map(|row| {
                        let one = records.read_many_with(&[*row], look);
                        one.map(|mut one| one.pop().unwrap_or_default())
                    })
                    .collect::<Vec<_>>(),
            };
            for (row, found) in part.iter().zip(read) {
                self.list.decoded = self.list.decoded.saturating_add(1);
                match found {
                    Err(error) => self.error("decode", &error.into()),
                    Ok((found, bytes)) => {
                        let raw = raw.as_ref().and_then(|raw| raw.get(*row));
                        self.raw_size(*row, raw, bytes);
                        self.block(*row, found, &of_index, &sums);
                    }
                }
            }
        }
    }

    /// The columns of sums, where they are there.
    fn sums(&self) -> Vec<Option<IntColumn>> {
        let column = |name| int_column(&self.pack, TableKind::Index, name).ok();
        D::TEXTS.iter().map(|text| text.sum_column.and_then(column)).collect()
    }

    /// The column of block sizes, where it is one that this library writes.
    fn raw_bytes(&self) -> Option<IntColumn> {
        if !self.pack.header().extensions().contains(&TEXT_COLUMNS_EXTENSION) {
            return None;
        }
        int_column(&self.pack, TableKind::Index, RAW_BYTES).ok()
    }

    fn raw_size(&mut self, row: u64, stated: Option<i128>, found: usize) {
        let found = i128::try_from(found).unwrap_or(i128::MAX);
        if let Some(stated) = stated
            && stated != found
        {
            let message = format!("raw_bytes is {stated}, but the block has {found} bytes");
            self.fault(schema("index", Some(row), Some(RAW_BYTES), message));
        }
    }

    fn block(
        &mut self,
        row: u64,
        found: BlockFaults,
        of_index: &TextReader<D>,
        sums: &[Option<IntColumn>],
    ) {
        if let Some(fault) = found.fault {
            let kind = fault.kind();
            let told = schema("block", Some(row), None, fault.to_string());
            return self.fault(TextFault { kind, ..told });
        }
        for message in found.warnings {
            self.warn(schema("body", Some(row), None, message));
        }
        let Some(manifest) = found.manifest else { return };
        self.version(row, &manifest);
        let docs = u64::try_from(manifest.docs.len()).unwrap_or(u64::MAX);
        match of_index.check_index(row, &manifest.patient_id, &manifest.institution, docs) {
            Ok(None) => {}
            Ok(Some(fault)) => {
                let field = match &fault {
                    BlockError::IndexDiffers { field, .. } => Some(*field),
                    _ => None,
                };
                self.fault(schema("index", Some(row), field, fault.to_string()));
            }
            // A column that is missing or of a wrong type was told of, or is told of once a row.
            Err(error) => self.error("index", &error),
        }
        for ((text, column), sum) in D::TEXTS.iter().zip(sums).zip(found.sums) {
            let (Some(name), Some(column)) = (text.sum_column, column) else { continue };
            if column.get(row) != Some(i128::from(sum)) {
                let stated = column.get(row).map_or_else(|| "null".to_owned(), |n| n.to_string());
                let message = format!("{name} is {stated}, but the texts have {sum} bytes");
                self.fault(schema("index", Some(row), Some(name), message));
            }
        }
    }

    fn version(&mut self, row: u64, manifest: &Manifest) {
        let Some(version) = manifest.version else { return };
        let of_header = self.pack.header().members().get(D::VERSION_FIELD).and_then(Value::as_u64);
        match of_header {
            Some(of_header) if of_header != version => {
                let message = format!(
                    "{} is {version} in the block, but {of_header} in the header",
                    D::VERSION_FIELD
                );
                self.fault(schema("block", Some(row), Some(D::VERSION_FIELD), message));
            }
            None if version != SCHEMA_VERSION => {
                let message =
                    format!("{} is {version} instead of {SCHEMA_VERSION}", D::VERSION_FIELD);
                self.warn(schema("block", Some(row), Some(D::VERSION_FIELD), message));
            }
            _ => {}
        }
    }
}

fn schema(
    check: &'static str,
    row: Option<u64>,
    field: Option<&str>,
    message: impl Into<String>,
) -> TextFault {
    let field = field.map(str::to_owned);
    TextFault { check, row, field, message: message.into(), kind: ErrorKind::Schema }
}
