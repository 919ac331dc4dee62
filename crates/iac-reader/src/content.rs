//! The bytes of a pack with its header, and where its rows lie in them.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use iac_format::{FixedShape, FormatError, Header, RecordIndex, RowSums, Segment};

use crate::error::{ReadError, Result};
use crate::source::ByteSource;

/// Tables up to this size do not make a file be mapped.
const READ_AT_ONCE: u64 = 64 << 10;

/// The bytes of a pack and its checked header.
#[derive(Debug)]
pub(crate) struct Content {
    pub(crate) path: Arc<str>,
    pub(crate) source: Arc<dyn ByteSource>,
    pub(crate) header: Header,
    /// What is wrong with the header, where that was asked for instead of an error.
    pub(crate) damage: Vec<FormatError>,
}

/// How rows are found in the data segment.
#[derive(Debug)]
pub(crate) enum RowAddresses {
    Variable(RecordIndex),
    Fixed { shape: FixedShape, rows: u64, sums: Option<RowSums>, data_length: u64 },
    None,
}

/// Where one record lies in the data segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordSpan {
    /// First byte, relative to the data segment.
    pub offset: u64,
    /// Number of bytes.
    pub length: u64,
    /// CRC-32 of the stored bytes, where the pack has one.
    pub crc32: Option<u32>,
}

impl Content {
    pub(crate) fn format_error(&self, source: FormatError) -> ReadError {
        ReadError::Format { path: Arc::clone(&self.path), source }
    }

    pub(crate) fn io_error(&self, action: &'static str, source: io::Error) -> ReadError {
        ReadError::Io { path: Arc::clone(&self.path), action, source }
    }

    /// Runs a call that touches the source's memory: checks before that the file still has its
    /// size, and after that nothing was lost meanwhile. A loss explains every other error.
    pub(crate) fn guarded<T>(&self, call: impl FnOnce() -> Result<T>) -> Result<T> {
        let wrap = |source| self.io_error("read", source);
        self.source.check_size(self.header.layout().end()).map_err(wrap)?;
        let result = call();
        self.source.check_lost().map_err(wrap)?;
        result
    }

    /// The same for calls that read one record, with a size that may be a few milliseconds old.
    #[inline]
    pub(crate) fn guarded_lately<T>(&self, call: impl FnOnce() -> Result<T>) -> Result<T> {
        let wrap = |source| self.io_error("read", source);
        self.source.check_size_lately(self.header.layout().end()).map_err(wrap)?;
        let result = call();
        self.source.check_lost().map_err(wrap)?;
        result
    }

    /// The bytes of a table: shared with the source's memory, or copied.
    pub(crate) fn segment_bytes(&self, segment: Segment, max_copied: u64) -> Result<Bytes> {
        let too_large = |allowed: String| ReadError::Memory {
            path: Arc::clone(&self.path),
            what: "a table",
            bytes: segment.length,
            allowed,
        };
        let length = usize::try_from(segment.length)
            .map_err(|_| too_large("this machine cannot address that".to_owned()))?;
        // Mapping a file costs more than reading a few pages of it.
        let memory = if segment.length <= READ_AT_ONCE.min(max_copied) {
            self.source.memory_at_hand()
        } else {
            self.source.memory()
        };
        if let Some(memory) = memory {
            let start = usize::try_from(segment.offset).ok();
            let end = start.and_then(|start| start.checked_add(length));
            return match (start, end) {
                (Some(start), Some(end)) if end <= memory.len() => Ok(memory.slice(start..end)),
                _ => Err(self.io_error("read a table", io::ErrorKind::UnexpectedEof.into())),
            };
        }
        if let Some(bytes) = self.source.shared(segment.offset, length) {
            return Ok(bytes);
        }
        if segment.length > max_copied {
            return Err(too_large(format!("the options allow {max_copied}")));
        }
        let mut buffer = Vec::new();
        buffer
            .try_reserve_exact(length)
            .map_err(|_| too_large("that much is not available".to_owned()))?;
        buffer.resize(length, 0);
        self.source
            .read_into(segment.offset, &mut buffer)
            .map_err(|source| self.io_error("read a table", source))?;
        Ok(Bytes::from(buffer))
    }
}

impl RowAddresses {
    #[inline]
    pub(crate) fn span(&self, row: u64) -> Result<RecordSpan, FormatError> {
        match self {
            Self::Variable(index) => {
                let span = index.span(row)?;
                Ok(RecordSpan {
                    offset: span.offset,
                    length: u64::from(span.length),
                    crc32: span.crc32,
                })
            }
            Self::Fixed { shape, rows, sums, data_length } => {
                if row >= *rows {
                    return Err(FormatError::RowOutOfRange { row, rows: *rows });
                }
                let offset = row.saturating_mul(shape.record_bytes);
                let length = shape.record_bytes;
                // Only a pack that is rescued can have rows behind its data segment.
                if offset.checked_add(length).is_none_or(|end| end > *data_length) {
                    let data_length = *data_length;
                    return Err(FormatError::Span { row, offset, length, data_length });
                }
                Ok(RecordSpan {
                    offset,
                    length,
                    crc32: sums.as_ref().and_then(|sums| sums.get(row)),
                })
            }
            Self::None => Err(FormatError::NoRecordIndex),
        }
    }
}
