//! One of the two tables of an open pack.

use std::sync::{Arc, OnceLock};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use iac_format::table::TableStream;
use iac_format::{FormatError, TableKind};

use crate::content::Content;
use crate::error::Result;
use crate::options::ReadOptions;

/// A table of an open pack: its schema is known, its columns are decoded when asked for.
///
/// Decoded columns share the pack's memory where their buffers are aligned.
#[derive(Debug)]
pub struct Table {
    content: Arc<Content>,
    stream: TableStream,
    damage: Vec<FormatError>,
    batches: OnceLock<Vec<RecordBatch>>,
}

impl Table {
    pub(crate) fn new(content: Arc<Content>, loaded: Loaded) -> Self {
        let Loaded { stream, damage } = loaded;
        Self { content, stream, damage, batches: OnceLock::new() }
    }

    /// What is wrong with the table in a pack that was opened for
    /// [`rescue`](crate::ReadOptions::rescue); nothing in any other, since it would be an error.
    #[must_use]
    pub fn damage(&self) -> &[FormatError] {
        &self.damage
    }

    /// The Arrow schema with its metadata.
    #[must_use]
    pub fn schema(&self) -> &SchemaRef {
        self.stream.schema()
    }

    /// Number of rows.
    #[must_use]
    pub fn num_rows(&self) -> u64 {
        self.stream.num_rows()
    }

    /// Rows of each record batch.
    #[must_use]
    pub fn batch_rows(&self) -> &[u64] {
        self.stream.batch_rows()
    }

    /// The checked stream that the table is decoded from.
    #[must_use]
    pub const fn stream(&self) -> &TableStream {
        &self.stream
    }

    /// Every column, decoded on first use and kept.
    ///
    /// # Errors
    ///
    /// [`ReadError::Format`](crate::ReadError::Format) when a column's content is damaged.
    pub fn batches(&self) -> Result<&[RecordBatch]> {
        if let Some(batches) = self.batches.get() {
            return Ok(batches);
        }
        let batches = self
            .content
            .guarded(|| self.stream.decode().map_err(|source| self.content.format_error(source)))?;
        Ok(self.batches.get_or_init(|| batches))
    }

    /// The named columns only, in the order given. Nothing else of the table is decoded.
    ///
    /// # Errors
    ///
    /// [`ReadError::Format`](crate::ReadError::Format) when a column does not exist, is ambiguous, or is damaged.
    pub fn columns(&self, names: &[&str]) -> Result<Vec<RecordBatch>> {
        let positions = self.positions(names)?;
        self.content.guarded(|| {
            let decoded = self.stream.decode_columns(&positions);
            decoded.map_err(|source| self.content.format_error(source))
        })
    }

    /// The same with texts as bytes, which are not checked for being text: see
    /// [`TableStream::decode_columns_as_bytes`].
    ///
    /// # Errors
    ///
    /// As [`columns`](Self::columns).
    pub fn columns_as_bytes(&self, names: &[&str]) -> Result<Vec<RecordBatch>> {
        let positions = self.positions(names)?;
        self.content.guarded(|| {
            let decoded = self.stream.decode_columns_as_bytes(&positions);
            decoded.map_err(|source| self.content.format_error(source))
        })
    }

    fn positions(&self, names: &[&str]) -> Result<Vec<usize>> {
        let wrap = |source| self.content.format_error(source);
        let mut positions = Vec::with_capacity(names.len());
        for name in names {
            let position = self.stream.column_index(name).map_err(wrap)?;
            positions.push(position.ok_or_else(|| wrap(self.no_column(name)))?);
        }
        Ok(positions)
    }

    fn no_column(&self, name: &str) -> FormatError {
        let known: Vec<&str> =
            self.schema().fields().iter().map(|field| field.name().as_str()).collect();
        FormatError::Argument {
            reason: format!(
                "{} has no column `{name}` (its columns are: {})",
                self.stream.table(),
                known.join(", ")
            ),
        }
    }

    /// Which of the two tables this is.
    #[must_use]
    pub fn kind(&self) -> TableKind {
        self.stream.table()
    }
}

/// A table's bytes, checked, and what is wrong with them all the same.
pub(crate) struct Loaded {
    stream: TableStream,
    damage: Vec<FormatError>,
}

/// Loads a table's bytes: shared with the source's memory, or copied within the allowed size.
pub(crate) fn load_stream(
    content: &Content,
    kind: TableKind,
    options: &ReadOptions,
) -> Result<Loaded> {
    let mut damage = Vec::new();
    let mut report = |error: FormatError| {
        if options.rescue {
            damage.push(error);
            return Ok(());
        }
        Err(content.format_error(error))
    };
    let layout = content.header.layout();
    let segment = match kind {
        TableKind::Slide => layout.slide_table,
        TableKind::Index => layout.index_table,
    };
    let bytes = content.segment_bytes(segment, options.max_table_bytes)?;
    if let Some(sums) = content.header.checksums()
        && (segment.length <= SUM_CHECKED_AT_ONCE || options.rescue)
    {
        let (what, stored) = match kind {
            TableKind::Slide => ("slide table", sums.slide_table),
            TableKind::Index => ("index table", sums.index_table),
        };
        let computed = crc32fast::hash(&bytes);
        if computed != stored {
            report(FormatError::Checksum { what, stored, computed })?;
        }
    }
    let stream = TableStream::parse(bytes, kind).map_err(|source| content.format_error(source))?;
    let (field, stated) = match kind {
        TableKind::Slide => ("num_slides", content.header.num_slides()),
        TableKind::Index => ("num_records", content.header.num_records()),
    };
    match stated {
        Err(error) => report(error)?,
        Ok(stated) if stated != stream.num_rows() => report(FormatError::HeaderField {
            field: field.to_owned(),
            reason: format!("found {stated}, but the {kind} has {} rows", stream.num_rows()),
        })?,
        Ok(_) => {}
    }
    Ok(Loaded { stream, damage })
}

/// Tables up to this size are compared with their checksum when they are loaded; larger ones only
/// by `verify`, since the comparison would touch every page of them.
const SUM_CHECKED_AT_ONCE: u64 = 1 << 20;
