//! The rules of teacher features.

use iac_format::ElementType;
use iac_ops::schema::SchemaReport;
use iac_reader::PackReader;
use serde_json::Value;

use super::rules::{Columns, Findings, columns, warn_of_header, warn_of_rows};
use super::{ValidateOptions, Validated, chosen, of_rows};
use crate::error::{Result, short};
use crate::features::{FeaturePackReader, TEACHER_FEATURES, TEACHER_FEATURES_V2, count_not_finite};
use crate::table::header_integer;

/// Vectors that are read together.
const GROUP: u64 = 4096;

/// Header members of feature packs that tile packs have not.
const KNOWN: [&str; 7] = [
    "teacher",
    "feature_dim",
    "dtype",
    "feature_record_bytes",
    "features_schema_version",
    "codec",
    "codec_params",
];

pub(super) fn handles(payload_type: &str) -> bool {
    [TEACHER_FEATURES, TEACHER_FEATURES_V2].contains(&payload_type)
}

/// What the header says of the vectors.
#[derive(Debug, Default)]
struct Facts {
    teacher: String,
    dim: u64,
    dtype: String,
}

pub(super) fn validate(pack: &PackReader, options: &ValidateOptions) -> Result<Validated> {
    let rows = pack.num_records()?;
    let mut findings = Findings::new(1);
    rules(pack, &mut findings)?;
    let facts = header(pack, rows, &mut findings);
    findings.first(pack)?;
    let reader = FeaturePackReader::from_reader(pack.with_crc(false))?;
    let rows_checked = of_rows(options.max_decode, rows);
    for group in chosen(rows_checked, rows, GROUP) {
        reader.read_many_f32(&group)?;
    }
    Ok(Validated::Features {
        payload_type: pack.header().payload_type().unwrap_or_default().to_owned(),
        records: rows,
        teacher: facts.teacher,
        dim: facts.dim,
        dtype: facts.dtype,
        rows_checked,
    })
}

pub(super) fn check(pack: &PackReader, most: usize) -> Result<SchemaReport> {
    let mut findings = Findings::new(most);
    let columns = rules(pack, &mut findings)?;
    header(pack, pack.num_records()?, &mut findings);
    if let Some(columns) = &columns {
        warn_of_rows(columns, &mut findings);
    }
    for name in ["stride_x", "stride_y"] {
        if !matches!(header_integer(pack, name), Ok(Some(stride)) if stride > 0) {
            findings.warn(format!("{name} is missing or 0, so records cannot be read"));
        }
    }
    warn_of_header(pack, &KNOWN, &mut findings)?;
    if findings.report.total == 0 {
        warn_of_numbers(pack, &mut findings)?;
    }
    Ok(findings.report)
}

fn rules(pack: &PackReader, findings: &mut Findings) -> Result<Option<Columns>> {
    columns(pack, ["tile_x", "tile_y"], findings)
}

/// The header members that describe the vectors, and whether the data has their size.
fn header(pack: &PackReader, rows: u64, findings: &mut Findings) -> Facts {
    let header = pack.header();
    let mut facts = Facts::default();
    match header.get("teacher").and_then(Value::as_str).filter(|teacher| !teacher.is_empty()) {
        Some(teacher) => facts.teacher = teacher.to_owned(),
        None => findings.field("teacher", "teacher_features header requires non-empty teacher"),
    }
    match header_integer(pack, "feature_dim") {
        Ok(Some(dim)) if dim > 0 => facts.dim = dim,
        Ok(dim) => {
            findings.field("feature_dim", format!("invalid feature_dim: {}", dim.unwrap_or(0)))
        }
        Err(error) => findings.field("feature_dim", error.reason()),
    }
    let dtype = header.get("dtype").and_then(Value::as_str);
    let element = dtype.and_then(|name| {
        ElementType::from_name(name)
            .or_else(|| ElementType::from_big_endian_name(name))
            .filter(is_real)
    });
    let Some(element) = element else {
        findings
            .field("dtype", format!("invalid feature dtype: {}", short(dtype.unwrap_or("None"))));
        return facts;
    };
    if element == ElementType::Bfloat16 && header.payload_type() == Some(TEACHER_FEATURES) {
        findings.field("dtype", "invalid feature dtype: bfloat16");
    }
    facts.dtype = dtype.unwrap_or_default().to_owned();
    if facts.dim == 0 {
        return facts;
    }
    let expected = facts.dim.checked_mul(element.item_bytes());
    let found = header_integer(pack, "feature_record_bytes").ok().flatten();
    let shown = |number: Option<u64>| number.map_or_else(|| "none".to_owned(), |n| n.to_string());
    if found != expected || found.is_none() {
        findings.field(
            "feature_record_bytes",
            format!(
                "invalid feature_record_bytes: expected={} got={}",
                shown(expected),
                found.unwrap_or(0)
            ),
        );
        return facts;
    }
    let total = found.and_then(|bytes| bytes.checked_mul(rows));
    let data = pack.layout().data.length;
    if total != Some(data) {
        findings.field(
            "data_length",
            format!("invalid feature data length: expected={} got={data}", shown(total)),
        );
    }
    facts
}

const fn is_real(element: &ElementType) -> bool {
    !matches!(element, ElementType::Complex64 | ElementType::Complex128)
}

/// Elements that are infinite or no numbers.
fn warn_of_numbers(pack: &PackReader, findings: &mut Findings) -> Result<()> {
    let reader = FeaturePackReader::from_reader(pack.clone())?;
    let fixed = reader.fixed();
    let row_bytes = u64::try_from(fixed.row_bytes()).unwrap_or(u64::MAX).max(1);
    let per_read = (1_u64 << 22).checked_div(row_bytes).unwrap_or(1).max(1);
    let (mut start, rows) = (0_u64, fixed.record_count());
    let mut odd = 0_u64;
    while start < rows {
        let count = per_read.min(rows.saturating_sub(start));
        let offset = start.saturating_mul(row_bytes);
        let mut bytes = Vec::from(pack.read_data_span(offset, count.saturating_mul(row_bytes))?);
        fixed.shape().to_little_endian(&mut bytes);
        odd = odd.saturating_add(count_not_finite(fixed.element(), &bytes));
        start = start.saturating_add(count);
    }
    if odd > 0 {
        findings.warn(format!("{odd} elements are infinite or no numbers"));
    }
    Ok(())
}
