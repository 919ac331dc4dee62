//! The record index: where each row's payload lies, read straight from the table's bytes.

use arrow_schema::DataType;
use bytes::Bytes;

use crate::error::{FormatError, Result, TableKind};
use crate::table::{FixedColumn, TableStream};

/// Name of the column with the start of each record, relative to the data segment.
pub const OFFSET_COLUMN: &str = "offset";
/// Name of the column with the length of each record.
pub const LENGTH_COLUMN: &str = "length";
/// Name of the column with the CRC-32 of each record's stored bytes.
pub const CRC32_COLUMN: &str = "crc32";
/// The storage columns, in the order in which writers add them.
pub const STORAGE_COLUMNS: [&str; 3] = [OFFSET_COLUMN, LENGTH_COLUMN, CRC32_COLUMN];

/// Where one record lies, as the index states it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RowSpan {
    /// First byte, relative to the data segment.
    pub offset: u64,
    /// Number of bytes.
    pub length: u32,
    /// CRC-32 of the bytes, where the index has one.
    pub crc32: Option<u32>,
}

/// The storage columns of a variable pack, addressed by row without decoding the table.
///
/// Spans are checked against the data segment when a row is addressed, so that one bad row does
/// not keep anybody from the sound ones. Clones are cheap.
#[derive(Debug, Clone)]
pub struct RecordIndex {
    chunks: Vec<Chunk>,
    rows: u64,
    data_length: u64,
    signed_length: bool,
    crc32: Crc32State,
}

/// Whether the index holds usable checksums.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Crc32State {
    /// Every row has one.
    Present,
    /// There is no such column.
    Absent,
    /// There is one that cannot be used, for the reason given; rows are read unchecked.
    Unusable(String),
}

/// The rows of one record batch.
#[derive(Debug, Clone)]
struct Chunk {
    /// Row of the first one.
    start: u64,
    offsets: Bytes,
    lengths: Bytes,
    crc32s: Option<Bytes>,
}

impl RecordIndex {
    /// Finds the storage columns in an index table; `None` when there is no `offset` column.
    ///
    /// # Errors
    ///
    /// [`FormatError::Column`] when a column is missing, occurs twice, has another type than
    /// uint64 or int64 (`offset`) and uint32 or int32 (`length`), or holds nulls.
    pub fn new(table: &TableStream, data_length: u64) -> Result<Option<Self>> {
        let types = [DataType::UInt64, DataType::Int64];
        let Some(offsets) = table.fixed_column(OFFSET_COLUMN, &types)? else {
            return Ok(None);
        };
        let types = [DataType::UInt32, DataType::Int32];
        let lengths = table.fixed_column(LENGTH_COLUMN, &types)?.ok_or_else(|| {
            FormatError::column(TableKind::Index, LENGTH_COLUMN, "missing beside `offset`")
        })?;
        let (crc32s, crc32) = match table.fixed_column(CRC32_COLUMN, &types) {
            Ok(Some(column)) => (Some(column), Crc32State::Present),
            Ok(None) => (None, Crc32State::Absent),
            // A foreign writer's column of that name: not a reason to refuse the records.
            Err(FormatError::Column { reason, .. }) => (None, Crc32State::Unusable(reason)),
            Err(other) => return Err(other),
        };
        let signed_length = lengths.data_type == DataType::Int32;
        let mut chunks = Vec::new();
        let mut start = 0_u64;
        let mut crc_chunks = crc32s.map(|column| column.chunks.into_iter());
        for (offsets, lengths) in offsets.chunks.into_iter().zip(lengths.chunks) {
            let rows = u64::try_from(offsets.len() / 8).unwrap_or(0);
            let crc32s = crc_chunks.as_mut().and_then(Iterator::next);
            if rows > 0 {
                chunks.push(Chunk { start, offsets, lengths, crc32s });
                start = start.saturating_add(rows);
            }
        }
        Ok(Some(Self { chunks, rows: start, data_length, signed_length, crc32 }))
    }

    /// Number of rows.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.rows
    }

    /// Whether there are no rows.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Whether rows have checksums.
    #[must_use]
    pub const fn crc32_state(&self) -> &Crc32State {
        &self.crc32
    }

    /// The span of a row, checked against the data segment.
    ///
    /// # Errors
    ///
    /// [`FormatError::RowOutOfRange`] for a row that the table does not have,
    /// [`FormatError::Span`] for a span that reaches past the data segment.
    #[inline]
    pub fn span(&self, row: u64) -> Result<RowSpan> {
        let span = self.stated_span(row)?;
        if self.fits(&span) {
            return Ok(span);
        }
        Err(self.span_error(row, &span))
    }

    /// The spans of many rows, added to `spans` in the order asked for; with their checksums only
    /// when asked for.
    ///
    /// The columns are visited one after the other: independent loads in a short loop overlap in
    /// the processor, and the rows of a large index lie far apart.
    ///
    /// # Errors
    ///
    /// As [`RecordIndex::span`], for the first row in the order asked for.
    pub fn gather(&self, rows: &[u64], crc32: bool, spans: &mut Vec<RowSpan>) -> Result<()> {
        spans.reserve(rows.len());
        let [chunk] = self.chunks.as_slice() else {
            for row in rows {
                spans.push(self.span(*row)?);
            }
            return Ok(());
        };
        let first = spans.len();
        for row in rows {
            let offset = usize::try_from(*row).ok().and_then(|at| word(&chunk.offsets, at));
            let offset = offset.ok_or_else(|| self.first_error(rows, *row))?;
            spans.push(RowSpan { offset: u64::from_le_bytes(*offset), length: 0, crc32: None });
        }
        let added = spans.get_mut(first..).unwrap_or_default();
        let mut fit = true;
        for (span, row) in added.iter_mut().zip(rows) {
            let length = usize::try_from(*row).ok().and_then(|at| word(&chunk.lengths, at));
            span.length = length.map_or(0, |length| u32::from_le_bytes(*length));
            fit &= self.fits(span);
        }
        if !fit {
            return Err(self.first_error(rows, self.rows));
        }
        if let (true, Some(crc32s)) = (crc32, &chunk.crc32s) {
            for (span, row) in added.iter_mut().zip(rows) {
                let crc32 = usize::try_from(*row).ok().and_then(|at| word(crc32s, at));
                span.crc32 = crc32.map(|crc32| u32::from_le_bytes(*crc32));
            }
        }
        Ok(())
    }

    /// What is wrong with the first bad row of a selection, in which `row` is known to be bad.
    #[cold]
    fn first_error(&self, rows: &[u64], row: u64) -> FormatError {
        let first = rows.iter().find_map(|row| self.span(*row).err());
        first.unwrap_or(FormatError::RowOutOfRange { row, rows: self.rows })
    }

    #[inline]
    fn fits(&self, span: &RowSpan) -> bool {
        let end = span.offset.checked_add(u64::from(span.length));
        let negative = self.signed_length && span.length > i32::MAX.unsigned_abs();
        !negative && end.is_some_and(|end| end <= self.data_length)
    }

    #[cold]
    fn span_error(&self, row: u64, span: &RowSpan) -> FormatError {
        FormatError::Span {
            row,
            offset: span.offset,
            length: u64::from(span.length),
            data_length: self.data_length,
        }
    }

    /// The span of a row as the table states it, whether or not it lies inside the data segment.
    ///
    /// # Errors
    ///
    /// [`FormatError::RowOutOfRange`] for a row that the table does not have.
    #[inline]
    pub fn stated_span(&self, row: u64) -> Result<RowSpan> {
        self.lookup(row).ok_or(FormatError::RowOutOfRange { row, rows: self.rows })
    }

    #[inline]
    fn lookup(&self, row: u64) -> Option<RowSpan> {
        let chunk = match self.chunks.as_slice() {
            [only] => only,
            chunks => {
                let behind = chunks.partition_point(|chunk| chunk.start <= row);
                chunks.get(behind.checked_sub(1)?)?
            }
        };
        let at = usize::try_from(row.checked_sub(chunk.start)?).ok()?;
        Some(RowSpan {
            offset: u64::from_le_bytes(*word(&chunk.offsets, at)?),
            length: u32::from_le_bytes(*word(&chunk.lengths, at)?),
            crc32: match &chunk.crc32s {
                Some(crc32s) => Some(u32::from_le_bytes(*word(crc32s, at)?)),
                None => None,
            },
        })
    }
}

/// The sums of the rows of a fixed pack, from the index column `crc32`.
#[derive(Debug, Clone)]
pub struct RowSums {
    chunks: Vec<(u64, Bytes)>,
}

impl RowSums {
    /// Finds the column; `None` when there is none.
    ///
    /// # Errors
    ///
    /// [`FormatError::Column`] when it is of another type than uint32 or int32, or holds nulls.
    pub fn new(table: &TableStream) -> Result<Option<Self>> {
        let types = [DataType::UInt32, DataType::Int32];
        let Some(FixedColumn { chunks, .. }) = table.fixed_column(CRC32_COLUMN, &types)? else {
            return Ok(None);
        };
        let mut start = 0_u64;
        let mut starts = Vec::new();
        for chunk in chunks {
            let rows = u64::try_from(chunk.len() / 4).unwrap_or(0);
            starts.push((start, chunk));
            start = start.saturating_add(rows);
        }
        Ok(Some(Self { chunks: starts }))
    }

    /// The sum of a row; `None` for a row that the table does not have.
    #[must_use]
    pub fn get(&self, row: u64) -> Option<u32> {
        let behind = self.chunks.partition_point(|(start, _)| *start <= row);
        let (start, chunk) = self.chunks.get(behind.checked_sub(1)?)?;
        let at = usize::try_from(row.checked_sub(*start)?).ok()?;
        Some(u32::from_le_bytes(*word(chunk, at)?))
    }
}

/// The n-th little-endian word of a column, wherever it is aligned.
#[inline]
fn word<const N: usize>(column: &[u8], at: usize) -> Option<&[u8; N]> {
    column.get(at.checked_mul(N)?..)?.first_chunk::<N>()
}
