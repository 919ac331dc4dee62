//! What a pack is, at a glance.

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::{UInt32Type, UInt64Type};
use iac_codec::CodecSpec;
use iac_format::Crc32State;
use iac_reader::{PackKind, PackReader, ReadError, Table};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::dicom::{DicomCounts, dicom_counts};
use crate::error::Result;
use crate::raw::{BYTES_COLUMN, RAW_FILES};
use crate::type_name::field_type_name;

/// What a pack is. Serialises to the document of `iac info --json`; [`Info::facts`] is for people.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Info {
    /// The pack.
    pub path: String,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// Every header member.
    pub header: Map<String, Value>,
    /// The slide table.
    pub slide_table: TableInfo,
    /// The index table.
    pub index_table: TableInfo,
    /// `variable`, `fixed` or `segment`.
    pub kind: &'static str,
    /// The largest power of two, at most 4096, that divides the start of the data segment.
    pub data_alignment: u64,
    /// Bytes behind the data segment.
    pub trailing_bytes: u64,
    /// What is not in the JSON.
    #[serde(skip)]
    pub facts: Facts,
}

/// A table of a pack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct TableInfo {
    /// Rows.
    pub rows: u64,
    /// Record batches.
    pub batches: u64,
    /// Columns in order.
    pub columns: Vec<ColumnInfo>,
}

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ColumnInfo {
    /// Its name.
    pub name: String,
    /// Its Arrow type, as [`crate::type_name`] names it.
    #[serde(rename = "type")]
    pub data_type: String,
    /// Whether it may hold nulls.
    pub nullable: bool,
}

/// What people want to know about a pack besides.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Facts {
    /// The header's `payload_type`.
    pub payload_type: Option<String>,
    /// The codec's name; absent when the header's is no text.
    pub codec: Option<String>,
    /// The codec's parameters as JSON text; empty when there are none.
    pub codec_params: String,
    /// Names under `extensions`.
    pub extensions: Vec<String>,
    /// Names under `required_extensions`.
    pub required_extensions: Vec<String>,
    /// Bytes of the data segment.
    pub data_bytes: u64,
    /// Sizes of the stored records; absent where rows address none.
    pub payloads: Option<SizeStats>,
    /// Bytes of the original records, where a pack of files states them.
    pub original_bytes: Option<u64>,
    /// Whether rows have checksums.
    pub rows_have_checksums: bool,
    /// Studies, series and instances, in packs of medical objects.
    pub objects: Option<DicomCounts>,
}

/// Sizes of records in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct SizeStats {
    /// Number of records.
    pub count: u64,
    /// Bytes of the smallest.
    pub min: u64,
    /// Bytes of the lower of the middle ones.
    pub median: u64,
    /// Bytes of the largest.
    pub max: u64,
    /// Bytes of all together.
    pub total: u64,
}

/// Describes a pack.
///
/// # Errors
///
/// [`OpsError::Read`](crate::OpsError::Read) when a table is damaged.
pub fn info(pack: &PackReader) -> Result<Info> {
    let header = pack.header();
    let kind = pack.kind()?;
    Ok(Info {
        path: pack.path().to_owned(),
        file_bytes: pack.file_bytes(),
        header: header.members().clone(),
        slide_table: table_info(pack.slide_table()?),
        index_table: table_info(pack.index_table()?),
        kind: kind.as_str(),
        data_alignment: pack.layout().data_alignment(),
        trailing_bytes: pack.trailing_bytes(),
        facts: facts(pack, kind)?,
    })
}

fn table_info(table: &Table) -> TableInfo {
    TableInfo {
        rows: table.num_rows(),
        batches: u64::try_from(table.batch_rows().len()).unwrap_or(u64::MAX),
        columns: table
            .schema()
            .fields()
            .iter()
            .map(|field| ColumnInfo {
                name: field.name().clone(),
                data_type: field_type_name(field),
                nullable: field.is_nullable(),
            })
            .collect(),
    }
}

fn facts(pack: &PackReader, kind: PackKind) -> Result<Facts> {
    let header = pack.header();
    let spec = CodecSpec::from_header(header.members()).ok();
    let params = spec.as_ref().and_then(CodecSpec::params_member);
    let owned = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect();
    let mut facts = Facts {
        payload_type: header.payload_type().map(str::to_owned),
        codec: spec.map(|spec| spec.name().to_owned()),
        codec_params: params.map(|params| params.to_string()).unwrap_or_default(),
        extensions: owned(header.extensions()),
        required_extensions: owned(header.required_extensions()),
        data_bytes: pack.layout().data.length,
        ..Facts::default()
    };
    match kind {
        PackKind::Variable => {
            if let Some(index) = pack.record_index()? {
                facts.rows_have_checksums = *index.crc32_state() == Crc32State::Present;
                let lengths: Vec<u32> = (0..index.len())
                    .map_while(|row| index.stated_span(row).ok())
                    .map(|span| span.length)
                    .collect();
                facts.payloads = SizeStats::of(lengths);
                check_still_there(pack)?;
            }
        }
        PackKind::Fixed => {
            // A damaged shape is what reading rows complains about, not looking at the pack.
            if let Ok(Some(shape)) = header.fixed_shape() {
                let count = pack.num_records()?;
                facts.payloads = (count > 0).then_some(SizeStats {
                    count,
                    min: shape.record_bytes,
                    median: shape.record_bytes,
                    max: shape.record_bytes,
                    total: shape.record_bytes.saturating_mul(count),
                });
            }
            facts.rows_have_checksums = header.checksums().is_some_and(|sums| sums.rows);
        }
        PackKind::Segment => {}
    }
    if facts.payload_type.as_deref() == Some(RAW_FILES) {
        facts.original_bytes = sum_of(pack, BYTES_COLUMN)?;
    }
    facts.objects = dicom_counts(pack)?;
    Ok(facts)
}

/// Lengths were read straight from the file's mapping: says whether it was cut meanwhile.
fn check_still_there(pack: &PackReader) -> Result<()> {
    match pack.span(0) {
        Err(error @ ReadError::Io { .. }) => Err(error.into()),
        _ => Ok(()),
    }
}

/// The sum of a column of unsigned numbers; nothing where there is none, or where it has nulls.
pub(crate) fn sum_of(pack: &PackReader, name: &str) -> Result<Option<u64>> {
    let table = pack.index_table()?;
    if !matches!(table.stream().column_index(name), Ok(Some(_))) {
        return Ok(None);
    }
    let mut sum = 0_u64;
    for batch in table.columns(&[name])? {
        let column = batch.column(0);
        if column.null_count() > 0 {
            return Ok(None);
        }
        if let Some(column) = column.as_primitive_opt::<UInt64Type>() {
            sum = column.values().iter().fold(sum, |sum, n| sum.saturating_add(*n));
        } else if let Some(column) = column.as_primitive_opt::<UInt32Type>() {
            sum = column.values().iter().fold(sum, |sum, n| sum.saturating_add(u64::from(*n)));
        } else {
            return Ok(None);
        }
    }
    Ok(Some(sum))
}

impl SizeStats {
    /// Statistics of sizes; nothing for none.
    fn of(mut sizes: Vec<u32>) -> Option<Self> {
        let total = sizes.iter().fold(0_u64, |sum, size| sum.saturating_add(u64::from(*size)));
        let (min, max) = (*sizes.iter().min()?, *sizes.iter().max()?);
        let middle = sizes.len().saturating_sub(1) / 2;
        let (_, median, _) = sizes.select_nth_unstable(middle);
        let median = u64::from(*median);
        Some(Self {
            count: u64::try_from(sizes.len()).unwrap_or(u64::MAX),
            min: u64::from(min),
            median,
            max: u64::from(max),
            total,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_of_sizes() {
        assert_eq!(SizeStats::of(Vec::new()), None);
        let stats = SizeStats::of(vec![9, 1, 5, 3]).unwrap();
        assert_eq!(
            (stats.count, stats.min, stats.median, stats.max, stats.total),
            (4, 1, 3, 9, 18)
        );
    }
}
