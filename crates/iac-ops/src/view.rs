//! Rows of a table for people and for other programs: JSON, CSV, Arrow.

use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, UInt64Array};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Schema, SchemaRef};
use iac_format::table::write_table;
use iac_format::{ErrorKind, TableKind};
use iac_reader::{PackReader, Table};
use serde_json::Value;

use crate::cell::{Budget, CellError, to_json_within, to_text_within};
use crate::error::{OpsError, Result};
use crate::gather::{self, Allowance, GatherError};
use crate::predicate::Predicate;
use crate::progress::{Progress, check_cancelled};
use crate::rows::RowSelection;

/// Rows between two looks at whether the work should stop.
const ROWS_AT_ONCE: usize = 1024;
/// Bytes that the cells of one row may become together: many columns may share one large value.
const MAX_ROW_BYTES: u64 = 256 << 20;
/// Rows of a gathered record batch.
const GATHERED_ROWS: usize = 8192;

/// Name of the first column of every view: the row's number in its table.
pub const ROW_COLUMN: &str = "row";

/// Which rows and columns of a table are wanted.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TableQuery {
    /// Which table; default the index.
    pub table: TableKind,
    /// Columns in the order wanted; default (`None`) all.
    pub columns: Option<Vec<String>>,
    /// Rows in the order wanted; default (`None`) all.
    pub rows: Option<RowSelection>,
    /// Only rows for which this is true. On the slide table, columns are those of that table.
    pub predicate: Option<Predicate>,
    /// At most so many rows; default (`None`) all.
    pub limit: Option<u64>,
}

impl Default for TableQuery {
    fn default() -> Self {
        Self { table: TableKind::Index, columns: None, rows: None, predicate: None, limit: None }
    }
}

/// Selected rows and columns of a table.
#[derive(Debug, Clone)]
pub struct TableView {
    pack: PackReader,
    path: String,
    table: TableKind,
    schema: SchemaRef,
    names: Vec<String>,
    /// The selected columns of the whole table.
    batches: Vec<RecordBatch>,
    /// First row of each batch.
    starts: Vec<u64>,
    rows: RowSelection,
}

impl TableView {
    /// Selects rows and columns.
    ///
    /// # Errors
    ///
    /// [`OpsError::Column`] for a column that the table does not have or has twice,
    /// [`OpsError::RowOutOfRange`], [`OpsError::Predicate`], and [`OpsError::Read`] when the table
    /// is damaged.
    pub fn new(pack: &PackReader, query: &TableQuery) -> Result<Self> {
        let table = match query.table {
            TableKind::Slide => pack.slide_table()?,
            TableKind::Index => pack.index_table()?,
        };
        let (fields, batches) = match &query.columns {
            None => (table.schema().fields().iter().cloned().collect(), table.batches()?.to_vec()),
            Some(columns) => {
                let wanted = wanted_columns(pack, table, columns)?;
                let names: Vec<&str> = wanted.iter().map(|field| field.name().as_str()).collect();
                let batches = table.columns(&names)?;
                (wanted, batches)
            }
        };
        let mut starts = Vec::with_capacity(batches.len());
        let mut start = 0_u64;
        for batch in &batches {
            starts.push(start);
            start = start.saturating_add(row_count(batch));
        }
        let names = shown_names(&fields);
        let mut all = vec![Arc::new(Field::new(ROW_COLUMN, DataType::UInt64, false))];
        all.extend(fields);
        let metadata = table.schema().metadata().clone();
        Ok(Self {
            pack: pack.clone(),
            path: pack.path().to_owned(),
            table: query.table,
            schema: Arc::new(Schema::new_with_metadata(all, metadata)),
            names,
            batches,
            starts,
            rows: selected(pack, table, query)?,
        })
    }

    /// The schema: `row` (uint64) and the selected columns, under their own names.
    #[must_use]
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Names of the columns, `row` first. Names that occur again get `#2`, `#3`, ... appended, so
    /// that JSON objects have each member once.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Number of rows.
    #[must_use]
    pub fn num_rows(&self) -> u64 {
        self.rows.len()
    }

    /// The numbers of the rows, in order.
    #[must_use]
    pub const fn rows(&self) -> &RowSelection {
        &self.rows
    }

    /// Hands the rows on as JSON values, in the order of [`names`](Self::names).
    ///
    /// # Errors
    ///
    /// [`OpsError::Value`] when a value contradicts its type, [`OpsError::ValueTooLarge`] when one
    /// is too large to be shown, [`OpsError::Cancelled`], and
    /// whatever `on_row` returns.
    pub fn for_each_row(
        &self,
        progress: &dyn Progress,
        on_row: &mut dyn FnMut(u64, Vec<Value>) -> Result<()>,
    ) -> Result<()> {
        self.visit(progress, &mut |row, batch, local| {
            let mut values = vec![Value::from(row)];
            let mut used = 0;
            for (position, column) in batch.columns().iter().enumerate() {
                let mut budget = Budget::of_cell();
                let value = to_json_within(column, local, &mut budget);
                values.push(value.map_err(|error| self.bad_value(position, row, &error))?);
                self.add_to_row(&mut used, &budget, position, row)?;
            }
            on_row(row, values)
        })
    }

    /// Hands the rows on as text cells, in the order of [`names`](Self::names): for tables that
    /// people read. Nulls are empty.
    ///
    /// # Errors
    ///
    /// As [`for_each_row`](Self::for_each_row).
    pub fn for_each_row_text(
        &self,
        progress: &dyn Progress,
        on_row: &mut dyn FnMut(Vec<String>) -> Result<()>,
    ) -> Result<()> {
        self.for_each_cells(progress, &mut |cells| {
            on_row(cells.into_iter().map(Option::unwrap_or_default).collect())
        })
    }

    fn for_each_cells(
        &self,
        progress: &dyn Progress,
        on_row: &mut dyn FnMut(Vec<Option<String>>) -> Result<()>,
    ) -> Result<()> {
        self.visit(progress, &mut |row, batch, local| {
            let mut cells = vec![Some(row.to_string())];
            let mut used = 0;
            for (position, column) in batch.columns().iter().enumerate() {
                let mut budget = Budget::of_cell();
                let cell = to_text_within(column, local, &mut budget);
                cells.push(cell.map_err(|error| self.bad_value(position, row, &error))?);
                self.add_to_row(&mut used, &budget, position, row)?;
            }
            on_row(cells)
        })
    }

    /// Hands on the first column as text, with nothing in the place of values of more than `most`
    /// bytes.
    pub(crate) fn for_each_short_text(
        &self,
        most: u64,
        progress: &dyn Progress,
        on_row: &mut dyn FnMut(u64, Option<ShortText>) -> Result<()>,
    ) -> Result<()> {
        self.visit(progress, &mut |row, batch, local| {
            let Some(column) = batch.columns().first() else {
                return on_row(row, None);
            };
            match to_text_within(column, local, &mut Budget::of_bytes(most)) {
                Ok(text) => on_row(row, text.map(ShortText::Whole)),
                Err(error) if error.kind == ErrorKind::Limit => {
                    on_row(row, Some(ShortText::TooLong))
                }
                Err(error) => Err(self.bad_value(0, row, &error)),
            }
        })
    }

    /// Writes the rows as JSON objects, one in a line, members in the order of the columns.
    ///
    /// # Errors
    ///
    /// As [`for_each_row`](Self::for_each_row), and [`OpsError::Output`].
    pub fn write_json_lines(&self, out: &mut dyn Write, progress: &dyn Progress) -> Result<()> {
        // Written member by member, since a JSON object in memory may sort its members.
        let keys: Vec<String> =
            self.names.iter().map(|name| format!("{}:", Value::from(name.as_str()))).collect();
        let mut line = String::new();
        self.for_each_row(progress, &mut |_, values| {
            line.clear();
            for (key, value) in keys.iter().zip(&values) {
                line.push(if line.is_empty() { '{' } else { ',' });
                line.push_str(key);
                line.push_str(&value.to_string());
            }
            line.push_str("}\n");
            out.write_all(line.as_bytes()).map_err(OpsError::output)
        })
    }

    /// Writes the rows as CSV (RFC 4180, lines ended by a line feed) with a line of names first.
    ///
    /// Nulls are empty; an empty text is `""`.
    ///
    /// # Errors
    ///
    /// As [`for_each_row`](Self::for_each_row), and [`OpsError::Output`].
    pub fn write_csv(&self, out: &mut dyn Write, progress: &dyn Progress) -> Result<()> {
        let mut line = String::new();
        for name in &self.names {
            push_csv(&mut line, Some(name));
        }
        end_line(&mut line, out)?;
        self.for_each_cells(progress, &mut |cells| {
            for cell in &cells {
                push_csv(&mut line, cell.as_deref());
            }
            end_line(&mut line, out)
        })
    }

    /// The rows as Arrow record batches of the schema.
    ///
    /// # Errors
    ///
    /// [`OpsError::Value`] when rows cannot be gathered, [`OpsError::ValueTooLarge`] when copies of
    /// them would be far larger than the table.
    pub fn to_batches(&self) -> Result<Vec<RecordBatch>> {
        unless_cut(&self.pack, self.gather_all())
    }

    fn gather_all(&self) -> Result<Vec<RecordBatch>> {
        let mut gathered = Vec::new();
        let mut rows: Vec<u64> = Vec::new();
        let mut batch = 0_usize;
        // One for all, since everything is in memory at the end.
        let mut allowance = Allowance::of(self.batches.iter().flat_map(RecordBatch::columns));
        for row in self.rows.iter() {
            let (found, _) = self.place(row)?;
            if found != batch || rows.len() >= GATHERED_ROWS {
                self.gather(batch, &mut rows, &mut gathered, &mut allowance)?;
                batch = found;
            }
            rows.push(row);
        }
        self.gather(batch, &mut rows, &mut gathered, &mut allowance)?;
        Ok(gathered)
    }

    /// Writes the rows as an Arrow IPC stream.
    ///
    /// # Errors
    ///
    /// As [`to_batches`](Self::to_batches), and [`OpsError::Output`].
    pub fn write_arrow(&self, out: &mut dyn Write) -> Result<()> {
        let batches = self.to_batches()?;
        write_table(out, &self.schema, &batches).map_err(OpsError::output)?;
        Ok(self.pack.check_intact()?)
    }

    /// Makes one record batch of rows of one batch.
    fn gather(
        &self,
        batch: usize,
        rows: &mut Vec<u64>,
        gathered: &mut Vec<RecordBatch>,
        allowance: &mut Allowance,
    ) -> Result<()> {
        let Some(first) = rows.first().copied() else {
            return Ok(());
        };
        let (Some(source), Some(start)) = (self.batches.get(batch), self.starts.get(batch)) else {
            return Err(self.lost(first));
        };
        let places: Vec<u64> = rows.iter().map(|row| row.saturating_sub(*start)).collect();
        let follow =
            places.windows(2).all(|pair| matches!(pair, [a, b] if a.checked_add(1) == Some(*b)));
        let failed = |error: ArrowError| self.cannot_gather(&error);
        let mut columns: Vec<ArrayRef> = vec![Arc::new(UInt64Array::from(std::mem::take(rows)))];
        let offset = places.first().and_then(|place| usize::try_from(*place).ok());
        if let (true, Some(offset)) = (follow, offset) {
            let part = source.slice(offset, places.len());
            columns.extend(part.columns().iter().cloned());
        } else {
            let places = UInt64Array::from(places);
            for (position, column) in source.columns().iter().enumerate() {
                let taken = gather::take(column, &places, allowance);
                columns.push(taken.map_err(|error| self.cannot_take(position, &error))?);
            }
        }
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), columns);
        gathered.push(batch.map_err(failed)?);
        Ok(())
    }

    fn visit(
        &self,
        progress: &dyn Progress,
        visit: &mut dyn FnMut(u64, &RecordBatch, usize) -> Result<()>,
    ) -> Result<()> {
        let mut visit_all = || {
            for (count, row) in self.rows.iter().enumerate() {
                if count.is_multiple_of(ROWS_AT_ONCE) {
                    check_cancelled(progress)?;
                }
                let (batch, local) = self.place(row)?;
                let batch = self.batches.get(batch).ok_or_else(|| self.lost(row))?;
                visit(row, batch, local)?;
            }
            Ok(())
        };
        unless_cut(&self.pack, visit_all())
    }

    /// The batch that holds a row, and the row's place in it.
    fn place(&self, row: u64) -> Result<(usize, usize)> {
        let behind = self.starts.partition_point(|start| *start <= row);
        // Among batches that start at the same row, all but the last are empty.
        behind
            .checked_sub(1)
            .and_then(|batch| {
                let start = self.starts.get(batch)?;
                let local = usize::try_from(row.checked_sub(*start)?).ok()?;
                (local < self.batches.get(batch)?.num_rows()).then_some((batch, local))
            })
            .ok_or_else(|| self.lost(row))
    }

    fn lost(&self, row: u64) -> OpsError {
        let ends = self.starts.iter().zip(&self.batches);
        OpsError::RowOutOfRange {
            path: self.path.clone(),
            table: self.table,
            row,
            rows: ends
                .map(|(start, batch)| start.saturating_add(row_count(batch)))
                .max()
                .unwrap_or(0),
        }
    }

    fn bad_value(&self, position: usize, row: u64, error: &CellError) -> OpsError {
        if error.kind == ErrorKind::Limit {
            return self.too_large(position, Some(row), error.reason);
        }
        OpsError::Value {
            path: self.path.clone(),
            table: self.table,
            column: self.name(position),
            reason: format!("row {row}: {}", error.reason),
        }
    }

    fn too_large(&self, position: usize, row: Option<u64>, reason: &str) -> OpsError {
        OpsError::ValueTooLarge {
            path: self.path.clone(),
            table: self.table,
            column: self.name(position),
            row,
            reason: reason.to_owned(),
        }
    }

    /// Name of a column beside `row`.
    fn name(&self, position: usize) -> String {
        self.names.get(position.saturating_add(1)).cloned().unwrap_or_default()
    }

    fn add_to_row(&self, used: &mut u64, cell: &Budget, position: usize, row: u64) -> Result<()> {
        *used = used.saturating_add(cell.used());
        if *used > MAX_ROW_BYTES {
            let reason =
                format!("the row's values are larger than is shown ({MAX_ROW_BYTES} bytes)");
            return Err(self.too_large(position, Some(row), &reason));
        }
        Ok(())
    }

    fn cannot_take(&self, position: usize, error: &GatherError) -> OpsError {
        match error {
            GatherError::TooLarge => self.too_large(position, None, &error.reason()),
            GatherError::Failed(_) => OpsError::Value {
                path: self.path.clone(),
                table: self.table,
                column: self.name(position),
                reason: error.reason(),
            },
        }
    }

    fn cannot_gather(&self, error: &ArrowError) -> OpsError {
        OpsError::Value {
            path: self.path.clone(),
            table: self.table,
            column: String::new(),
            reason: format!("rows cannot be gathered: {error}"),
        }
    }
}

/// A text, unless it is too long to be one.
#[derive(Debug)]
pub(crate) enum ShortText {
    Whole(String),
    TooLong,
}

fn row_count(batch: &RecordBatch) -> u64 {
    u64::try_from(batch.num_rows()).unwrap_or(u64::MAX)
}

/// The columns that were asked for; `row` is there in any case.
fn wanted_columns(pack: &PackReader, table: &Table, names: &[String]) -> Result<Vec<FieldRef>> {
    let fields = table.schema().fields();
    let mut wanted = Vec::with_capacity(names.len());
    for name in names {
        let mut found = fields.iter().filter(|field| field.name() == name);
        match (found.next(), found.next()) {
            (Some(field), None) => wanted.push(Arc::clone(field)),
            (None, _) if name == ROW_COLUMN => {}
            (first, _) => {
                return Err(OpsError::Column {
                    path: pack.path().to_owned(),
                    table: table.kind(),
                    column: name.clone(),
                    several: first.is_some(),
                    known: fields.iter().map(|field| field.name().clone()).collect(),
                });
            }
        }
    }
    Ok(wanted)
}

/// `row` and the columns' names, each made to occur once.
fn shown_names(fields: &[FieldRef]) -> Vec<String> {
    let mut seen: HashMap<String, u32> = HashMap::new();
    std::iter::once(ROW_COLUMN)
        .chain(fields.iter().map(|field| field.name().as_str()))
        .map(|name| {
            let count = seen.entry(name.to_owned()).or_insert(0);
            *count = count.saturating_add(1);
            if *count == 1 { name.to_owned() } else { format!("{name}#{count}") }
        })
        .collect()
}

fn selected(pack: &PackReader, table: &Table, query: &TableQuery) -> Result<RowSelection> {
    let available = table.num_rows();
    let asked = match &query.rows {
        None => None,
        Some(rows) => {
            rows.check(pack.path(), query.table, available)?;
            Some(rows)
        }
    };
    let rows = match (&query.predicate, asked) {
        (None, None) => RowSelection::all(available),
        (None, Some(rows)) => rows.clone(),
        (Some(predicate), asked) => {
            let fitting = match query.table {
                TableKind::Index => fitting_rows(pack, predicate)?,
                TableKind::Slide => fitting_slides(table, predicate)?,
            };
            match asked {
                None => fitting.into_iter().collect(),
                Some(rows) => {
                    rows.iter().filter(|row| fitting.binary_search(row).is_ok()).collect()
                }
            }
        }
    };
    Ok(match query.limit {
        None => rows,
        Some(limit) => rows.first(limit),
    })
}

/// The rows of the index table for which a condition is true.
///
/// Only the columns that the condition needs are decoded.
///
/// # Errors
///
/// [`OpsError::Predicate`] when it does not fit the tables, [`OpsError::Read`] when they are
/// damaged.
pub fn select_rows(pack: &PackReader, predicate: &Predicate) -> Result<RowSelection> {
    Ok(fitting_rows(pack, predicate)?.into_iter().collect())
}

fn fitting_rows(pack: &PackReader, predicate: &Predicate) -> Result<Vec<u64>> {
    let (index, slides) = (pack.index_table()?, pack.slide_table()?);
    predicate.check(index.schema(), slides.schema())?;
    let columns = predicate.columns();
    let slides =
        if columns.slide.is_empty() { Vec::new() } else { needed(slides, &columns.slide)? };
    let index = needed(index, &columns.index)?;
    unless_cut(pack, predicate.select(&index, &slides).map_err(OpsError::from))
}

/// What was made of columns that lie in the mapped file. A file that was cut meanwhile makes it
/// void, and explains every other error.
fn unless_cut<T>(pack: &PackReader, result: Result<T>) -> Result<T> {
    pack.check_intact()?;
    result
}

fn fitting_slides(table: &Table, predicate: &Predicate) -> Result<Vec<u64>> {
    predicate.check(table.schema(), &Schema::empty())?;
    let columns = predicate.columns();
    Ok(predicate.select(&needed(table, &columns.index)?, &[])?)
}

/// Those of the named columns that the table has; `slide_idx` may be missing.
fn needed(table: &Table, names: &[String]) -> Result<Vec<RecordBatch>> {
    let there: Vec<&str> = names
        .iter()
        .map(String::as_str)
        .filter(|name| table.schema().column_with_name(name).is_some())
        .collect();
    Ok(table.columns(&there)?)
}

fn push_csv(line: &mut String, cell: Option<&str>) {
    if !line.is_empty() {
        line.push(',');
    }
    let Some(cell) = cell else {
        return;
    };
    let plain = !cell.is_empty() && !cell.contains([',', '"', '\n', '\r']);
    if plain {
        line.push_str(cell);
    } else {
        line.push('"');
        line.push_str(&cell.replace('"', "\"\""));
        line.push('"');
    }
}

fn end_line(line: &mut String, out: &mut dyn Write) -> Result<()> {
    line.push('\n');
    out.write_all(line.as_bytes()).map_err(OpsError::output)?;
    line.clear();
    Ok(())
}
