//! What operations share that carry stored records from packs into a new one.

use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{DataType, Schema, SchemaRef};
use iac_format::{
    CHECKSUMS_EXTENSION, CHECKSUMS_MEMBER, CRC32_COLUMN, EXTENSIONS_MEMBER, TableKind,
};
use iac_reader::{ContiguousRecordBatch, PackKind, PackReader, ReadError};
use iac_writer::{
    PackWriter, Table, WriteError, WriteOptions, WriteSummary, build_pack_data_segment_streaming,
};
use serde_json::{Map, Value};

use crate::decode::no_records;
use crate::error::{OpsError, Result};
use crate::progress::{Progress, Task, check_cancelled};
use crate::rows::RowSelection;
use crate::view::{TableQuery, TableView};

/// Name of the columns that connect the two tables.
pub(crate) const SLIDE_IDX: &str = "slide_idx";

/// Bytes of records that are read together.
const GROUP_BYTES: u64 = 4 << 20;
/// Records that are read together.
const GROUP_ROWS: usize = 1024;

/// Bytes of a table up to which its rows are written as one record batch.
const ONE_BATCH_BYTES: usize = 1 << 30;

/// Refuses packs whose records are not all that the data segment holds.
pub(crate) fn check_carried(pack: &PackReader) -> Result<PackKind> {
    let kind = pack.kind()?;
    if kind == PackKind::Segment {
        return Err(no_records(pack));
    }
    let header = pack.header();
    let payload_type = header.payload_type().unwrap_or_default();
    if header.get("metadata_length").is_some() || payload_type == "wsi_image" {
        return Err(OpsError::source(
            Path::new(pack.path()),
            format!(
                "a pack of type {payload_type} has more in it than its rows, so rows cannot be taken out of it"
            ),
        ));
    }
    Ok(kind)
}

/// Whether rows state the codec of their records each, instead of the header: only a reader of
/// their schema decodes them.
pub(crate) fn has_own_codecs(pack: &PackReader) -> Result<bool> {
    let stated = pack.header().get("codec").is_some();
    let fields = pack.index_table()?.schema().fields();
    Ok(!stated && fields.iter().any(|field| field.name() == "codec"))
}

/// Refuses packs whose rows state a codec each.
pub(crate) fn check_one_codec(pack: &PackReader) -> Result<()> {
    if !has_own_codecs(pack)? {
        return Ok(());
    }
    Err(OpsError::usage(format!(
        "{}: each row of a pack of type {} has a codec of its own, which only the tools for this type read",
        pack.path(),
        pack.header().payload_type().unwrap_or("without a name")
    )))
}

/// The header's members for a pack with other rows.
pub(crate) fn carried_header(pack: &PackReader) -> Map<String, Value> {
    let mut members = pack.header().members().clone();
    members.remove(CHECKSUMS_MEMBER);
    if let Some(Value::Array(names)) = members.get_mut(EXTENSIONS_MEMBER) {
        names.retain(|name| name.as_str() != Some(CHECKSUMS_EXTENSION));
        if names.is_empty() {
            members.remove(EXTENSIONS_MEMBER);
        }
    }
    members
}

/// Whether the index table's column `crc32` is the writer's business.
fn has_row_sums(pack: &PackReader, kind: PackKind) -> bool {
    kind == PackKind::Fixed && pack.header().checksums().is_some_and(|sums| sums.rows)
}

/// Rows of a table, without the columns that the writer adds.
pub(crate) fn carried_table(
    pack: &PackReader,
    kind: PackKind,
    table: TableKind,
    rows: Option<RowSelection>,
) -> Result<Table> {
    let source = match table {
        TableKind::Slide => pack.slide_table()?,
        TableKind::Index => pack.index_table()?,
    };
    let drops_sums = table == TableKind::Index && has_row_sums(pack, kind);
    let fields: Vec<usize> = source
        .schema()
        .fields()
        .iter()
        .enumerate()
        .filter(|(_, field)| !(drops_sums && field.name() == CRC32_COLUMN))
        .map(|(position, _)| position)
        .collect();
    let project = |schema: &Schema| -> Result<SchemaRef> {
        let projected = schema.project(&fields);
        Ok(projected.map_err(|error| OpsError::usage(error.to_string()))?.into())
    };
    let schema = project(source.schema())?;
    let batches = match rows {
        None => source.batches()?.to_vec(),
        Some(rows) => {
            let query = TableQuery { table, rows: Some(rows), ..TableQuery::default() };
            let mut batches = TableView::new(pack, &query)?.to_batches()?;
            for batch in &mut batches {
                batch.remove_column(0); // the row's number
            }
            one_batch(batches)
        }
    };
    let batches = batches
        .into_iter()
        .map(|batch| {
            let columns = fields.iter().filter_map(|field| batch.columns().get(*field).cloned());
            let rows =
                arrow_array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
            RecordBatch::try_new_with_options(schema.clone(), columns.collect(), &rows)
                .map_err(|error| OpsError::usage(error.to_string()))
        })
        .collect::<Result<_>>()?;
    Ok(Table::new(schema, batches)?)
}

/// Joins batches where that is cheap and safe.
fn one_batch(batches: Vec<RecordBatch>) -> Vec<RecordBatch> {
    let Some(first) = batches.first().filter(|_| batches.len() > 1) else { return batches };
    let is_flat = !first.columns().iter().any(|column| column.data_type().is_nested());
    let bytes = batches
        .iter()
        .flat_map(RecordBatch::columns)
        .map(|column| column.to_data().get_slice_memory_size().unwrap_or(usize::MAX))
        .fold(0, usize::saturating_add);
    if !is_flat || bytes > ONE_BATCH_BYTES {
        return batches;
    }
    match arrow_select::concat::concat_batches(&first.schema(), &batches) {
        Ok(joined) => vec![joined],
        Err(_) => batches,
    }
}

/// Records of several packs, one after the other.
pub(crate) struct Carried<'a> {
    pub(crate) packs: Vec<(&'a PackReader, RowSelection)>,
    pub(crate) kind: PackKind,
    pub(crate) header: Map<String, Value>,
    pub(crate) slides: Table,
    pub(crate) index: Table,
}

impl Carried<'_> {
    /// Writes the new pack; checksums are compared on the way.
    pub(crate) fn write(
        &self,
        out: &Path,
        options: &WriteOptions,
        what: &str,
        progress: &dyn Progress,
    ) -> Result<WriteSummary> {
        let rows = self.packs.iter().map(|(_, rows)| rows.len()).fold(0, u64::saturating_add);
        let task = Task::begin(progress, what, Some(rows));
        if self.kind == PackKind::Fixed {
            return self.write_fixed(out, options, rows, &task, progress);
        }
        let mut writer =
            PackWriter::with_index(out, self.header.clone(), &self.slides, &self.index, options)
                .map_err(|error| self.of_source(error))?;
        for (pack, rows) in &self.packs {
            let mut coming = rows.iter().peekable();
            while coming.peek().is_some() {
                check_cancelled(progress)?;
                let group = next_group(pack, &mut coming);
                for record in pack.read_rows(&group)? {
                    writer.push(&record).map_err(|error| self.of_source(error))?;
                }
                task.advance(u64::try_from(group.len()).unwrap_or(0));
            }
        }
        Ok(writer.finish()?)
    }

    fn write_fixed(
        &self,
        out: &Path,
        options: &WriteOptions,
        rows: u64,
        task: &Task<'_>,
        progress: &dyn Progress,
    ) -> Result<WriteSummary> {
        let shape = match self.packs.first() {
            Some((pack, _)) => pack
                .header()
                .fixed_shape()
                .map_err(|source| OpsError::format(pack.path(), source))?,
            None => None,
        };
        let record_bytes = shape.map_or(0, |shape| shape.record_bytes);
        let total = record_bytes.saturating_mul(rows);
        let groups = self.packs.iter().flat_map(|(pack, rows)| {
            let mut coming = rows.iter().peekable();
            std::iter::from_fn(move || {
                coming.peek()?;
                if progress.is_cancelled() {
                    return Some(Err(OpsError::Cancelled));
                }
                let group = next_group(pack, &mut coming);
                let mut batch = ContiguousRecordBatch::new();
                let read = pack.read_contiguous_into(&group, &mut batch);
                task.advance(u64::try_from(group.len()).unwrap_or(0));
                Some(read.map(|()| batch.into_parts().0).map_err(OpsError::from))
            })
        });
        let written = build_pack_data_segment_streaming(
            out,
            &self.header,
            &self.slides,
            &self.index,
            total,
            groups,
            options,
        );
        written.map_err(|error| match error {
            WriteError::Payload { path, row, source } => match source.downcast::<OpsError>() {
                Ok(error) => *error,
                Err(source) => WriteError::Payload { path, row, source }.into(),
            },
            other => self.of_source(other),
        })
    }

    /// What the writer says of header and tables is the fault of the pack that they come from, not
    /// of the file that is written.
    fn of_source(&self, error: WriteError) -> OpsError {
        let is_of_source = matches!(
            error,
            WriteError::Format { .. }
                | WriteError::Batch { .. }
                | WriteError::Column { .. }
                | WriteError::HeaderField { .. }
        );
        let Some((pack, _)) = self.packs.first().filter(|_| is_of_source) else {
            return error.into();
        };
        let message = error.to_string();
        let reason = error
            .path()
            .and_then(|path| message.strip_prefix(&format!("{}: ", path.display())))
            .unwrap_or(&message);
        OpsError::source(Path::new(pack.path()), reason)
    }
}

fn next_group(
    pack: &PackReader,
    coming: &mut std::iter::Peekable<impl Iterator<Item = u64>>,
) -> Vec<u64> {
    let mut group = Vec::new();
    let mut bytes = 0_u64;
    while group.len() < GROUP_ROWS && (group.is_empty() || bytes < GROUP_BYTES) {
        let Some(row) = coming.next() else { break };
        bytes = bytes.saturating_add(crate::decode::stored_bytes(pack, row));
        group.push(row);
    }
    group
}

/// The integers of a column; nothing when it holds something else.
pub(crate) fn integers(array: &ArrayRef) -> Option<Vec<Option<i128>>> {
    macro_rules! all {
        ($type:ty) => {
            array.as_primitive_opt::<$type>()?.iter().map(|value| value.map(i128::from)).collect()
        };
    }
    Some(match array.data_type() {
        DataType::UInt8 => all!(UInt8Type),
        DataType::UInt16 => all!(UInt16Type),
        DataType::UInt32 => all!(UInt32Type),
        DataType::UInt64 => all!(UInt64Type),
        DataType::Int8 => all!(Int8Type),
        DataType::Int16 => all!(Int16Type),
        DataType::Int32 => all!(Int32Type),
        DataType::Int64 => all!(Int64Type),
        _ => return None,
    })
}

/// The texts of a column; nothing when it holds something else.
pub(crate) fn texts(array: &ArrayRef) -> Option<Vec<Option<&str>>> {
    Some(match array.data_type() {
        DataType::Utf8 => array.as_string_opt::<i32>()?.iter().collect(),
        DataType::LargeUtf8 => array.as_string_opt::<i64>()?.iter().collect(),
        DataType::Utf8View => array.as_string_view_opt()?.iter().collect(),
        DataType::Null => vec![None; array.len()],
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary_opt()?;
            let words = dictionary.values();
            if matches!(words.data_type(), DataType::Dictionary(..)) {
                return None;
            }
            let words = texts(words)?;
            if words.is_empty() {
                return Some(vec![None; array.len()]);
            }
            let keys = dictionary.normalized_keys();
            keys.into_iter()
                .enumerate()
                .map(|(row, key)| {
                    if dictionary.keys().is_null(row) {
                        None
                    } else {
                        words.get(key).copied().flatten()
                    }
                })
                .collect()
        }
        _ => return None,
    })
}

/// One column of all rows of a table, where it is there once.
pub(crate) fn column(
    table: &iac_reader::Table,
    name: &str,
) -> Result<Option<Vec<ArrayRef>>, ReadError> {
    if !matches!(table.stream().column_index(name), Ok(Some(_))) {
        return Ok(None);
    }
    let batches = table.columns(&[name])?;
    Ok(Some(batches.iter().filter_map(|batch| batch.columns().first().cloned()).collect()))
}

/// The slide numbers of both tables, where both have them.
pub(crate) fn slide_numbers(pack: &PackReader) -> Result<Option<SlideNumbers>> {
    let read = |table: &iac_reader::Table| -> Result<Option<Vec<Option<i128>>>> {
        let Some(arrays) = column(table, SLIDE_IDX)? else { return Ok(None) };
        let mut numbers = Vec::new();
        for array in &arrays {
            let Some(found) = integers(array) else { return Ok(None) };
            numbers.extend(found);
        }
        Ok(Some(numbers))
    };
    let (slides, index) = (read(pack.slide_table()?)?, read(pack.index_table()?)?);
    pack.check_intact()?;
    Ok(slides.zip(index).map(|(slides, index)| SlideNumbers { slides, index }))
}

/// Slide numbers of the rows of both tables.
pub(crate) struct SlideNumbers {
    pub(crate) slides: Vec<Option<i128>>,
    pub(crate) index: Vec<Option<i128>>,
}
