//! Several packs as one.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, RecordBatch, UInt8Array, UInt16Array, UInt32Array, UInt64Array,
};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use iac_format::{CONTAINER_MEMBERS, EXTENSIONS_MEMBER, REQUIRED_EXTENSIONS_MEMBER, TableKind};
use iac_reader::{PackKind, PackReader};
use iac_writer::{Table, WriteError, WriteOptions, WriteSummary};
use serde_json::{Map, Value};

use crate::carry::{
    Carried, SLIDE_IDX, carried_header, carried_table, check_carried, integers, texts,
};
use crate::error::{OpsError, Result};
use crate::extract::ID_COLUMNS;
use crate::progress::Progress;
use crate::rows::RowSelection;

/// Header members that may differ between the packs, beside those of the container.
const MAY_DIFFER: [&str; 7] = [
    "created_by",
    "slide_idx_dtype",
    "tile_xy_dtype",
    "max_slides_per_pack",
    EXTENSIONS_MEMBER,
    REQUIRED_EXTENSIONS_MEMBER,
    "iac_encode",
];

/// How packs are merged.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct MergeOptions {
    /// How the pack is written.
    pub write: WriteOptions,
}

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MergeSummary {
    /// Packs that were merged.
    pub packs: u64,
    /// Rows of the new pack.
    pub rows: u64,
    /// Rows of the new pack's slide table.
    pub slides: u64,
    /// What was written.
    pub written: WriteSummary,
}

/// Writes the rows of several packs into a new one, pack after pack.
///
/// Header members have to be the same in all, those aside that describe the layout; so have the
/// columns of the index, where narrow unsigned integers are widened and columns of nothing but
/// nulls take the others' type. Slides that are the same in several packs become one; slide
/// numbers count anew. Stored bytes are copied as they are, compared with their checksums. Progress
/// counts rows.
///
/// # Errors
///
/// [`OpsError::Source`] for packs that do not fit together, with the reason; [`OpsError::Write`],
/// also when the destination exists; [`OpsError::Read`] when a record is damaged;
/// [`OpsError::Cancelled`]. Nothing is left then.
pub fn merge(
    packs: &[PackReader],
    out: &Path,
    options: &MergeOptions,
    progress: &dyn Progress,
) -> Result<MergeSummary> {
    let Some(first) = packs.first() else {
        return Err(OpsError::usage("there are no packs to merge"));
    };
    if !options.write.overwrite && out.exists() {
        return Err(OpsError::Write(WriteError::Exists { path: out.to_owned() }));
    }
    let kind = check_carried(first)?;
    for pack in packs {
        if check_carried(pack)? != kind {
            return Err(unlike(pack, first, "its records are stored in another way"));
        }
    }
    let mut header = merged_header(packs, first)?;
    let read = |table| -> Result<Vec<Table>> {
        packs.iter().map(|pack| carried_table(pack, kind, table, None)).collect()
    };
    let (slide_tables, index_tables) = (read(TableKind::Slide)?, read(TableKind::Index)?);
    let (slides, numbers) = merge_slides(packs, &slide_tables)?;
    let index = merge_index(packs, &index_tables, numbers.as_ref(), slides.num_rows())?;
    check_ids(packs, &index)?;
    state_widths(&mut header, index.schema(), kind);
    let rows = index.num_rows();
    let mut carried = Carried { kind, header, slides, index, packs: Vec::new() };
    for pack in packs {
        carried.packs.push((pack, RowSelection::all(pack.num_records()?)));
    }
    let written = carried.write(out, &options.write, "merging", progress)?;
    Ok(MergeSummary {
        packs: u64::try_from(packs.len()).unwrap_or(u64::MAX),
        rows,
        slides: carried.slides.num_rows(),
        written,
    })
}

fn unlike(pack: &PackReader, first: &PackReader, reason: &str) -> OpsError {
    OpsError::source(
        Path::new(pack.path()),
        format!("cannot be merged with {}: {reason}", first.path()),
    )
}

fn merged_header(packs: &[PackReader], first: &PackReader) -> Result<Map<String, Value>> {
    let mut merged = carried_header(first);
    for pack in packs {
        let members = carried_header(pack);
        let names = merged.keys().chain(members.keys());
        let differing = names
            .filter(|name| {
                let name = name.as_str();
                !CONTAINER_MEMBERS.contains(&name) && !MAY_DIFFER.contains(&name)
            })
            .find(|name| merged.get(*name) != members.get(*name));
        if let Some(name) = differing {
            let shown = |members: &Map<String, Value>| {
                members.get(name).map_or_else(|| "not there".to_owned(), Value::to_string)
            };
            let reason = format!(
                "the header's `{name}` is {}, but {} there",
                shown(&members),
                shown(&merged)
            );
            return Err(unlike(pack, first, &reason));
        }
        for list in [EXTENSIONS_MEMBER, REQUIRED_EXTENSIONS_MEMBER] {
            let Some(Value::Array(names)) = members.get(list) else { continue };
            let known = merged.entry(list).or_insert_with(|| Value::Array(Vec::new()));
            if let Value::Array(known) = known {
                let new = names.iter().filter(|name| !known.contains(name)).cloned();
                let new: Vec<Value> = new.collect();
                known.extend(new);
            }
        }
    }
    Ok(merged)
}

/// New slide numbers: for each pack, from its own numbers.
type Numbers = Vec<HashMap<i128, u32>>;

/// Joins slide tables; rows that differ in nothing but their number become one.
fn merge_slides(packs: &[PackReader], tables: &[Table]) -> Result<(Table, Option<Numbers>)> {
    let (Some(pack), Some(first)) = (packs.first(), tables.first()) else {
        return Ok((Table::empty(), None));
    };
    let schema = first.schema();
    let Some(at) = schema.fields().iter().position(|field| field.name() == SLIDE_IDX) else {
        // Without numbers nothing refers to the rows.
        let mut batches = Vec::new();
        for (other, table) in packs.iter().zip(tables) {
            same_columns(other, pack, TableKind::Slide, table.schema(), schema)?;
            batches.extend(table.batches().iter().cloned());
        }
        return Ok((Table::new(schema.clone(), batches)?, None));
    };
    let mut seen: HashMap<Vec<Option<String>>, u32> = HashMap::new();
    let mut by_id: HashMap<String, u32> = HashMap::new();
    let mut rows: Vec<Vec<Option<String>>> = Vec::new();
    let mut numbers = Vec::new();
    for (other, table) in packs.iter().zip(tables) {
        same_names(other, pack, TableKind::Slide, table.schema(), schema)?;
        let mut of_pack = HashMap::new();
        for batch in table.batches() {
            let bad = |reason: &str| OpsError::source(Path::new(other.path()), reason);
            let own = batch.columns().get(at).and_then(integers);
            let own = own.ok_or_else(|| bad("its slide numbers are no integers"))?;
            let columns: Vec<Vec<Option<&str>>> = batch
                .columns()
                .iter()
                .enumerate()
                .filter(|(position, _)| *position != at)
                .map(|(_, column)| texts(column))
                .collect::<Option<_>>()
                .ok_or_else(|| bad("its slide table has columns that are no texts"))?;
            for (row, number) in own.into_iter().enumerate() {
                let number = number.ok_or_else(|| bad("a slide has no number"))?;
                let key: Vec<Option<String>> = columns
                    .iter()
                    .map(|column| column.get(row).copied().flatten().map(str::to_owned))
                    .collect();
                let next = u32::try_from(rows.len()).map_err(|_| bad("too many slides"))?;
                let new = *seen.entry(key.clone()).or_insert(next);
                if new == next {
                    // The first column names the slide.
                    if let Some(Some(id)) = key.first()
                        && by_id.insert(id.clone(), next).is_some()
                    {
                        return Err(unlike(
                            other,
                            pack,
                            &format!("slide \"{id}\" has other values in another pack"),
                        ));
                    }
                    rows.push(key);
                }
                if of_pack.insert(number, new).is_some() {
                    return Err(bad("a slide number stands twice in its slide table"));
                }
            }
        }
        numbers.push(of_pack);
    }
    let count = rows.len();
    let width = width_of(count);
    let mut fields = Vec::new();
    let mut columns: Vec<ArrayRef> = Vec::new();
    let mut text = 0_usize;
    for (position, field) in schema.fields().iter().enumerate() {
        if position == at {
            fields.push(Field::new(SLIDE_IDX, width.clone(), field.is_nullable()));
            let numbers = (0_u64..).take(count).map(Some);
            columns.push(unsigned(&width, numbers));
            continue;
        }
        let values = rows.iter().map(|row| row.get(text).and_then(Option::as_deref));
        columns.push(Arc::new(values.collect::<arrow_array::StringArray>()));
        fields.push(Field::new(field.name(), DataType::Utf8, field.is_nullable()));
        text = text.saturating_add(1);
    }
    let schema = Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()));
    let batch = RecordBatch::try_new(schema, columns)
        .map_err(|error| OpsError::usage(error.to_string()))?;
    Ok((Table::from(batch), Some(numbers)))
}

fn width_of(slides: usize) -> DataType {
    match slides {
        0..=0xff => DataType::UInt8,
        0x100..=0xffff => DataType::UInt16,
        _ => DataType::UInt32,
    }
}

/// Unsigned numbers as an array; what does not fit becomes null.
fn unsigned(width: &DataType, numbers: impl Iterator<Item = Option<u64>>) -> ArrayRef {
    macro_rules! array {
        ($array:ty, $type:ty) => {
            Arc::new(
                numbers
                    .map(|number| number.and_then(|number| <$type>::try_from(number).ok()))
                    .collect::<$array>(),
            )
        };
    }
    match width {
        DataType::UInt8 => array!(UInt8Array, u8),
        DataType::UInt16 => array!(UInt16Array, u16),
        DataType::UInt32 => array!(UInt32Array, u32),
        _ => array!(UInt64Array, u64),
    }
}

/// Joins index tables, with the new slide numbers.
fn merge_index(
    packs: &[PackReader],
    tables: &[Table],
    numbers: Option<&Numbers>,
    slides: u64,
) -> Result<Table> {
    let (Some(pack), Some(first)) = (packs.first(), tables.first()) else {
        return Ok(Table::empty());
    };
    for (other, table) in packs.iter().zip(tables) {
        same_names(other, pack, TableKind::Index, table.schema(), first.schema())?;
    }
    let mut fields = Vec::new();
    for (position, field) in first.schema().fields().iter().enumerate() {
        let mut common = field.data_type().clone();
        for (other, table) in packs.iter().zip(tables) {
            let found = table.schema().fields().get(position).map(|field| field.data_type());
            let found = found.unwrap_or(&DataType::Null);
            common = common_type(&common, found).ok_or_else(|| {
                let reason =
                    format!("column `{}` is of type {found}, but {common} there", field.name());
                unlike(other, pack, &reason)
            })?;
        }
        if field.name() == SLIDE_IDX && numbers.is_some() {
            common = width_of(usize::try_from(slides).unwrap_or(usize::MAX));
        }
        let is_nullable = tables.iter().any(|table| {
            let found = table.schema().fields().get(position);
            found.is_some_and(|field| field.is_nullable() || *field.data_type() == DataType::Null)
        });
        fields.push(Field::new(field.name(), common, is_nullable));
    }
    let metadata = first.schema().metadata().clone();
    let schema: SchemaRef = Arc::new(Schema::new_with_metadata(fields, metadata));
    let mut batches = Vec::new();
    for (position, (other, table)) in packs.iter().zip(tables).enumerate() {
        let of_pack = numbers.and_then(|numbers| numbers.get(position));
        for batch in table.batches() {
            let columns = schema
                .fields()
                .iter()
                .zip(batch.columns())
                .map(|(field, column)| match of_pack {
                    Some(numbers) if field.name() == SLIDE_IDX => {
                        renumber(other, column, numbers, field.data_type())
                    }
                    _ => Ok(widen(column, field.data_type())),
                })
                .collect::<Result<Vec<_>>>()?;
            let batch = RecordBatch::try_new(schema.clone(), columns)
                .map_err(|error| OpsError::usage(error.to_string()))?;
            batches.push(batch);
        }
    }
    Ok(Table::new(schema, batches)?)
}

fn renumber(
    pack: &PackReader,
    column: &ArrayRef,
    numbers: &HashMap<i128, u32>,
    width: &DataType,
) -> Result<ArrayRef> {
    let bad = |reason: String| OpsError::source(Path::new(pack.path()), reason);
    let own =
        integers(column).ok_or_else(|| bad("its slide numbers are no integers".to_owned()))?;
    let mut new = Vec::with_capacity(own.len());
    for number in own {
        let found = number.and_then(|number| numbers.get(&number).copied());
        let found = found.ok_or_else(|| {
            let shown = number.map_or_else(|| "null".to_owned(), |number| number.to_string());
            bad(format!("slide number {shown} is not in its slide table"))
        })?;
        new.push(Some(u64::from(found)));
    }
    Ok(unsigned(width, new.into_iter()))
}

/// The type that holds values of both.
fn common_type(first: &DataType, second: &DataType) -> Option<DataType> {
    let bits = |data_type: &DataType| match data_type {
        DataType::UInt8 => Some(8),
        DataType::UInt16 => Some(16),
        DataType::UInt32 => Some(32),
        DataType::UInt64 => Some(64),
        _ => None,
    };
    match (first, second) {
        _ if first == second => Some(first.clone()),
        (DataType::Null, other) | (other, DataType::Null) => Some(other.clone()),
        _ => {
            let (first_bits, second_bits) = (bits(first)?, bits(second)?);
            Some(if first_bits > second_bits { first.clone() } else { second.clone() })
        }
    }
}

fn widen(column: &ArrayRef, wanted: &DataType) -> ArrayRef {
    if column.data_type() == wanted {
        return column.clone();
    }
    if *column.data_type() == DataType::Null {
        return arrow_array::new_null_array(wanted, column.len());
    }
    let numbers = integers(column).unwrap_or_default();
    unsigned(wanted, numbers.into_iter().map(|n| n.and_then(|n| u64::try_from(n).ok())))
}

fn same_names(
    pack: &PackReader,
    first: &PackReader,
    table: TableKind,
    found: &Schema,
    expected: &Schema,
) -> Result<()> {
    let names = |schema: &Schema| -> Vec<String> {
        schema.fields().iter().map(|field| field.name().clone()).collect()
    };
    let (found, expected) = (names(found), names(expected));
    if found == expected {
        return Ok(());
    }
    let reason = format!(
        "the {table} has the columns {}, but {} there",
        found.join(", "),
        expected.join(", ")
    );
    Err(unlike(pack, first, &reason))
}

fn same_columns(
    pack: &PackReader,
    first: &PackReader,
    table: TableKind,
    found: &Schema,
    expected: &Schema,
) -> Result<()> {
    if found.fields() == expected.fields() {
        return Ok(());
    }
    Err(unlike(pack, first, &format!("the {table} has other columns")))
}

/// Refuses packs that share a record, by the column that names records.
fn check_ids(packs: &[PackReader], index: &Table) -> Result<()> {
    let position = ID_COLUMNS
        .iter()
        .find_map(|name| index.schema().fields().iter().position(|field| field.name() == name));
    let Some(position) = position else { return Ok(()) };
    let mut hashes: Vec<(u64, u32, u32)> = Vec::new();
    for (number, batch) in (0_u32..).zip(index.batches()) {
        let Some(ids) = batch.columns().get(position).and_then(texts) else { return Ok(()) };
        for (row, id) in (0_u32..).zip(ids) {
            if let Some(id) = id {
                let mut hasher = DefaultHasher::new();
                id.hash(&mut hasher);
                hashes.push((hasher.finish(), number, row));
            }
        }
    }
    hashes.sort_unstable();
    let id_at = |batch: u32, row: u32| -> Option<String> {
        let batch = index.batches().get(usize::try_from(batch).ok()?)?;
        let column = batch.columns().get(position)?.slice(usize::try_from(row).ok()?, 1);
        texts(&column)?.first().copied().flatten().map(str::to_owned)
    };
    for run in hashes.chunk_by(|first, second| first.0 == second.0) {
        let [(_, first_batch, first_row), rest @ ..] = run else { continue };
        let Some(first) = rest.first().and_then(|_| id_at(*first_batch, *first_row)) else {
            continue;
        };
        if rest.iter().any(|(_, batch, row)| id_at(*batch, *row).as_ref() == Some(&first)) {
            let field = index.schema().fields().get(position).map(|field| field.name().as_str());
            let path = packs.first().map_or("", |pack| pack.path());
            let shown: String = first.chars().take(100).collect();
            return Err(OpsError::source(
                Path::new(path),
                format!(
                    "cannot be merged with the others: {} \"{shown}\" stands in several rows",
                    field.unwrap_or("record")
                ),
            ));
        }
    }
    Ok(())
}

/// Header members that name the types of columns follow them.
fn state_widths(header: &mut Map<String, Value>, index: &Schema, kind: PackKind) {
    let name_of = |column: &str| {
        let field = index.fields().iter().find(|field| field.name() == column)?;
        match field.data_type() {
            DataType::UInt8 => Some("uint8"),
            DataType::UInt16 => Some("uint16"),
            DataType::UInt32 => Some("uint32"),
            DataType::UInt64 => Some("uint64"),
            _ => None,
        }
    };
    for (member, column) in [("slide_idx_dtype", SLIDE_IDX), ("tile_xy_dtype", "tile_x")] {
        if let (true, Some(name)) = (header.contains_key(member), name_of(column)) {
            header.insert(member.to_owned(), Value::from(name));
        }
    }
    if kind == PackKind::Variable && header.contains_key("max_slides_per_pack") {
        let most = match name_of(SLIDE_IDX) {
            Some("uint8") => 0xff_u32,
            Some("uint16") => 0xffff,
            _ => u32::MAX,
        };
        header.insert("max_slides_per_pack".to_owned(), Value::from(most));
    }
}
