//! Row predicates: which rows of a pack does a condition select?
//!
//! A condition is a small part of SQL: comparisons of columns with values, joined by `and`, `or`,
//! `not` and parentheses.
//!
//! | condition | holds for |
//! |---|---|
//! | `bytes > 1000`, `split = 'train'`, `mpp <= 0.5` | `=`, `!=` (or `<>`), `<`, `<=`, `>`, `>=` |
//! | `split in ('train', 'val')`, `tile_x not in (0, 1)` | values of a list |
//! | `path like 'a/%.png'`, `path not like '%\_%' escape '\'` | texts that fit a pattern: `%` any text, `_` any one character |
//! | `split is null`, `split is not null` | rows without, or with, a value |
//! | `slide.patient_id = 'P1'` | rows whose slide has the value |
//!
//! - Keywords take any case, names of columns their own. A name that holds other characters than
//!   letters, digits and `_`, or that is a keyword, stands in double quotes (`"tile id"`, a quote
//!   inside is doubled). Texts stand in single quotes (`'it''s'`).
//! - Null follows SQL: a comparison with a null is neither true nor false, `not` leaves it so, and
//!   only rows for which the whole condition is true are selected.
//! - Integers are compared exactly, with each other and with floating-point numbers. A number with
//!   a point or an exponent is rounded to the precision of the floating-point column that it is
//!   compared with. NaN differs from everything. Decimals are compared exactly.
//! - Dates and timestamps are compared with ISO 8601 texts (`'2024-05-31'`,
//!   `'2024-05-31T14:30:00.5Z'`). In a column with a time zone, a text without an offset is UTC; in
//!   one without, an offset is an error.
//! - Texts are compared by their bytes, `false` is less than `true`.
//! - `slide.NAME` is the column of the slide table, in the row whose `slide_idx` the index row
//!   names; where the slide table has no `slide_idx`, in the row of that number. A row whose slide
//!   is not there sees nulls.
//!
//! ```
//! use std::sync::Arc;
//! use arrow_array::{ArrayRef, RecordBatch, StringArray, UInt64Array};
//! use iac_ops::predicate::Predicate;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let paths: ArrayRef = Arc::new(StringArray::from(vec!["a.txt", "b.png", "c.png"]));
//! let bytes: ArrayRef = Arc::new(UInt64Array::from(vec![10, 200, 3000]));
//! let index = RecordBatch::try_from_iter([("path", paths), ("bytes", bytes)])?;
//!
//! let predicate = Predicate::parse("path like '%.png' and bytes < 1000")?;
//! assert_eq!(predicate.columns().index, ["path", "bytes"]);
//! assert_eq!(predicate.select(&[index], &[])?, [1]);
//! # Ok(())
//! # }
//! ```

mod bind;
mod error;
mod eval;
mod lexer;
mod like;
mod number;
mod parser;
mod slides;
mod time;

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;

use arrow_array::RecordBatch;
use arrow_buffer::BooleanBufferBuilder;
use arrow_schema::{DataType, Field, Schema};

use bind::Bound;
pub use error::PredicateError;
use error::Result;
use eval::Mask;
use parser::{Expr, Leaf, Test};
use slides::{SlideRows, Slides};

/// The column by which rows of the index table name their slide.
const SLIDE_IDX: &str = "slide_idx";

/// A condition that selects rows of a pack.
///
/// The usual way: [`parse`](Self::parse) the text, [`check`](Self::check) it against the schemas
/// of both tables, decode only its [`columns`](Self::columns), and [`select`](Self::select).
#[derive(Debug, Clone, PartialEq)]
pub struct Predicate {
    text: String,
    expr: Expr,
    leaves: Vec<Leaf>,
}

/// The columns that evaluating a [`Predicate`] needs, each once, in the order of their first use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PredicateColumns {
    /// Columns of the index table; with `slide_idx` when slide columns are used.
    pub index: Vec<String>,
    /// Columns of the slide table; when any are used, with `slide_idx`, which has to be handed to
    /// [`Predicate::select`] if the table has it.
    pub slide: Vec<String>,
}

impl Predicate {
    /// Reads a condition.
    ///
    /// # Errors
    ///
    /// [`PredicateError::Syntax`] with the byte at which the grammar is left, and
    /// [`PredicateError::TooLong`] above 1 MiB.
    pub fn parse(text: &str) -> Result<Self, PredicateError> {
        let (expr, leaves) = parser::parse(text)?;
        Ok(Self { text: text.to_owned(), expr, leaves })
    }

    /// The columns that evaluating the condition needs.
    #[must_use]
    pub fn columns(&self) -> PredicateColumns {
        let mut columns = PredicateColumns::default();
        let mut seen = HashSet::new();
        let mut add = |slide: bool, name: &str| {
            if seen.insert((slide, name.to_owned())) {
                let table = if slide { &mut columns.slide } else { &mut columns.index };
                table.push(name.to_owned());
            }
        };
        for leaf in &self.leaves {
            add(leaf.column.slide, &leaf.column.name);
            if leaf.column.slide {
                add(true, SLIDE_IDX);
                add(false, SLIDE_IDX);
            }
        }
        columns
    }

    /// Tests the condition against the schemas of both tables, without any rows.
    ///
    /// [`select`](Self::select) makes the same tests, but on what it is given: checking the whole
    /// schemas first lets the error for an unknown column list every column that there is.
    ///
    /// # Errors
    ///
    /// [`PredicateError::UnknownColumn`], [`PredicateError::AmbiguousColumn`],
    /// [`PredicateError::Type`], and [`PredicateError::NoSlideIndex`].
    pub fn check(&self, index: &Schema, slides: &Schema) -> Result<(), PredicateError> {
        self.bind(index, false)?;
        self.bind(slides, true)?;
        if let Some(at) = self.slide_use() {
            slides::check(index, slides, at)?;
        }
        Ok(())
    }

    /// The rows of the index table for which the condition is true, in ascending order.
    ///
    /// `index` and `slides` are all batches of the two tables, with at least the
    /// [`columns`](Self::columns) that are needed; `slides` may be empty when no slide columns
    /// are.
    ///
    /// # Errors
    ///
    /// Those of [`check`](Self::check), [`PredicateError::RepeatedSlide`] when slide columns are
    /// used and two slides have the same number, and [`PredicateError::Damaged`] when a column's
    /// contents contradict its type.
    pub fn select(
        &self,
        index: &[RecordBatch],
        slides: &[RecordBatch],
    ) -> Result<Vec<u64>, PredicateError> {
        let slides = match self.slide_use() {
            Some(at) => Some((at, Slides::new(slides, at)?, self.slide_masks(slides)?)),
            None => None,
        };
        let mut rows = Vec::new();
        let mut first_row = 0_u64;
        let mut bound: Option<(&RecordBatch, Vec<Option<BoundLeaf>>)> = None;
        for batch in index {
            // Batches of one table share a schema as a rule; then the work is done once.
            let leaves = match bound.take() {
                Some((other, leaves)) if other.schema_ref() == batch.schema_ref() => leaves,
                _ => self.bind(batch.schema_ref(), false)?,
            };
            let places = match &slides {
                Some((at, slides, _)) => Some(slides.of_rows(batch, *at)?),
                None => None,
            };
            let evaluation = Evaluation {
                predicate: self,
                batch,
                leaves: &leaves,
                slides: match (&slides, &places) {
                    (Some((_, _, masks)), Some(places)) => Some((masks.as_slice(), places)),
                    _ => None,
                },
            };
            let mask = evaluation.expr(&self.expr)?;
            for row in mask.yes.set_indices() {
                let row = u64::try_from(row).unwrap_or(u64::MAX);
                rows.push(first_row.saturating_add(row));
            }
            let count = u64::try_from(batch.num_rows()).unwrap_or(u64::MAX);
            first_row = first_row.saturating_add(count);
            bound = Some((batch, leaves));
        }
        Ok(rows)
    }

    /// Where the expression uses a slide column first.
    fn slide_use(&self) -> Option<usize> {
        let mut leaves = self.leaves.iter();
        leaves.find(|leaf| leaf.column.slide).map(|leaf| leaf.at)
    }

    /// Fits the conditions on one of the tables to its columns; the others stay empty.
    fn bind(&self, schema: &Schema, slide: bool) -> Result<Vec<Option<BoundLeaf>>> {
        self.leaves
            .iter()
            .map(|leaf| {
                if leaf.column.slide != slide {
                    return Ok(None);
                }
                let (position, field) = find_column(schema, &leaf.column.name, slide, leaf.at)?;
                let bound = bind::bind(&leaf.test, field.data_type()).map_err(|reason| {
                    PredicateError::Type {
                        at: leaf.at,
                        column: shown(slide, &leaf.column.name),
                        data_type: field.data_type().clone(),
                        reason,
                    }
                })?;
                Ok(Some(BoundLeaf { position, data_type: field.data_type().clone(), bound }))
            })
            .collect()
    }

    /// The outcome of each condition on slide columns, for every row of the slide table.
    fn slide_masks(&self, slides: &[RecordBatch]) -> Result<Vec<SlideMask>> {
        let Some(first) = slides.first() else {
            return Ok(vec![None; self.leaves.len()]);
        };
        let leaves = self.bind(first.schema_ref(), true)?;
        let conditions = self.leaves.iter().zip(leaves);
        conditions
            .map(|(leaf, bound)| {
                let Some(BoundLeaf { data_type, bound, .. }) = bound else {
                    return Ok(None);
                };
                let mut yes = BooleanBufferBuilder::new(0);
                let mut no = BooleanBufferBuilder::new(0);
                for batch in slides {
                    let (position, field) =
                        find_column(batch.schema_ref(), &leaf.column.name, true, leaf.at)?;
                    if *field.data_type() != data_type {
                        return Err(damaged(leaf, "its type changes between batches".to_owned()));
                    }
                    let mask = eval::apply(batch.column(position), &bound.test)
                        .map_err(|reason| damaged(leaf, reason))?;
                    yes.append_buffer(&mask.yes);
                    no.append_buffer(&mask.no);
                }
                let mask = Mask { yes: yes.finish(), no: no.finish() };
                Ok(Some((mask, bound)))
            })
            .collect()
    }
}

impl FromStr for Predicate {
    type Err = PredicateError;

    fn from_str(text: &str) -> Result<Self, PredicateError> {
        Self::parse(text)
    }
}

impl fmt::Display for Predicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A condition that fits its column.
struct BoundLeaf {
    /// The column's place in the schema.
    position: usize,
    data_type: DataType,
    bound: Bound,
}

/// The outcome of a condition for every row of the slide table; absent for conditions on the index
/// table, and when there is no slide.
type SlideMask = Option<(Mask, Bound)>;

/// One batch of the index table, with all that the conditions need.
struct Evaluation<'a> {
    predicate: &'a Predicate,
    batch: &'a RecordBatch,
    leaves: &'a [Option<BoundLeaf>],
    slides: Option<(&'a [SlideMask], &'a SlideRows)>,
}

impl Evaluation<'_> {
    fn expr(&self, expr: &Expr) -> Result<Mask> {
        match expr {
            Expr::Leaf(number) => self.leaf(*number),
            Expr::Not(inner) => Ok(self.expr(inner)?.not()),
            Expr::And(parts) => self.join(parts, Mask::and),
            Expr::Or(parts) => self.join(parts, Mask::or),
        }
    }

    fn join(&self, parts: &[Expr], join: fn(&mut Mask, &Mask)) -> Result<Mask> {
        let mut joined: Option<Mask> = None;
        for part in parts {
            let mask = self.expr(part)?;
            match &mut joined {
                Some(joined) => join(joined, &mask),
                None => joined = Some(mask),
            }
        }
        Ok(joined.unwrap_or_else(|| Mask::unknown(self.batch.num_rows())))
    }

    fn leaf(&self, number: usize) -> Result<Mask> {
        let rows = self.batch.num_rows();
        let Some(leaf) = self.predicate.leaves.get(number) else {
            return Ok(Mask::unknown(rows));
        };
        if let Some(Some(bound)) = self.leaves.get(number) {
            let mask = eval::apply(self.batch.column(bound.position), &bound.bound.test)
                .map_err(|reason| damaged(leaf, reason))?;
            return Ok(mask.finish(&bound.bound));
        }
        if let Some((masks, places)) = self.slides
            && let Some(Some((mask, bound))) = masks.get(number)
        {
            let mask = mask.gather(rows, &bound.test, |row| places.get(row));
            return Ok(mask.finish(bound));
        }
        // A slide table without batches: every slide column is null in every row.
        Ok(match leaf.test {
            Test::Null { negated } => Mask::all(rows, !negated),
            _ => Mask::unknown(rows),
        })
    }
}

/// Finds a column and its place in a schema.
fn find_column<'a>(
    schema: &'a Schema,
    name: &str,
    slide: bool,
    at: usize,
) -> Result<(usize, &'a Field)> {
    let fields = schema.fields().iter().enumerate();
    let mut found = fields.filter(|(_, field)| field.name() == name);
    let Some((position, field)) = found.next() else {
        return Err(PredicateError::UnknownColumn {
            at,
            column: shown(slide, name),
            known: schema.fields().iter().map(|field| shown(slide, field.name())).collect(),
        });
    };
    if found.next().is_some() {
        return Err(PredicateError::AmbiguousColumn { at, column: shown(slide, name) });
    }
    Ok((position, field))
}

/// The name of a column as a message gives it.
fn shown(slide: bool, name: &str) -> String {
    format!("{}{name}", if slide { "slide." } else { "" })
}

fn damaged(leaf: &Leaf, reason: String) -> PredicateError {
    PredicateError::Damaged { column: shown(leaf.column.slide, &leaf.column.name), reason }
}
