//! Reading records: owned, contiguous, as views; and spans of the data segment.

use std::sync::Arc;

use bytes::Bytes;

use crate::batch::ContiguousRecordBatch;
use crate::content::RowAddresses;
use crate::error::{ReadError, Result};
use crate::gather::{Piece, append, lost, no_memory, read_each, reserve, slice_of};
use crate::pack::PackReader;

impl PackReader {
    /// Reads one record's stored bytes.
    ///
    /// Calls within the same few milliseconds share one question for the size of a mapped file (see
    /// [`check_intact_lately`](Self::check_intact_lately)): one that was cut just now may be met as
    /// it would be during a read, with a checksum that does not fit, or by the
    /// [guard](crate::guard).
    ///
    /// # Errors
    ///
    /// [`ReadError::Format`] when the row does not exist or its span is damaged,
    /// [`ReadError::Checksum`] when its bytes are, [`ReadError::Io`] when the system fails or the
    /// file was cut.
    pub fn read(&self, row: u64) -> Result<Bytes> {
        let content = &self.inner.content;
        content.guarded_lately(|| Ok(Bytes::from(self.owned(&self.piece(row, 0)?)?)))
    }

    /// Reads many records' stored bytes, in the order asked for, duplicates included.
    ///
    /// The batch is one allocation (one for each thread that takes part), which its records share.
    /// One bad row fails the whole call.
    ///
    /// # Errors
    ///
    /// As [`PackReader::read`].
    pub fn read_rows(&self, rows: &[u64]) -> Result<Vec<Bytes>> {
        self.inner.content.guarded(|| self.gather_owned(rows))
    }

    /// Reads many records one after the other into one buffer.
    ///
    /// # Errors
    ///
    /// As [`PackReader::read`].
    pub fn read_contiguous(&self, rows: &[u64]) -> Result<ContiguousRecordBatch> {
        let mut batch = ContiguousRecordBatch::new();
        self.read_contiguous_into(rows, &mut batch)?;
        Ok(batch)
    }

    /// Reads many records into a batch whose memory is used again. After an error the batch is
    /// empty.
    ///
    /// # Errors
    ///
    /// As [`PackReader::read`].
    pub fn read_contiguous_into(
        &self,
        rows: &[u64],
        batch: &mut ContiguousRecordBatch,
    ) -> Result<()> {
        let result = self.inner.content.guarded(|| self.gather_contiguous(rows, batch));
        if result.is_err() {
            batch.clear();
        }
        result
    }

    /// One record as a view of the source's memory: nothing is copied, nothing compared with its
    /// checksum. The view stays valid when the reader is dropped.
    ///
    /// # Errors
    ///
    /// [`ReadError::NoViews`] when the source only copies, [`ReadError::Format`] when the row does
    /// not exist or its span is damaged, [`ReadError::Io`] when the file was cut.
    pub fn view(&self, row: u64) -> Result<Bytes> {
        let content = &self.inner.content;
        content.guarded(|| {
            let memory = self.memory()?;
            self.view_of(memory, self.piece(row, 0)?)
        })
    }

    /// Many records as views, in the order asked for.
    ///
    /// # Errors
    ///
    /// As [`PackReader::view`].
    pub fn views(&self, rows: &[u64]) -> Result<Vec<Bytes>> {
        let mut views = Vec::new();
        self.views_into(rows, &mut views)?;
        Ok(views)
    }

    /// Many records as views in a vector whose memory is used again. After an error it is empty.
    ///
    /// # Errors
    ///
    /// As [`PackReader::view`].
    pub fn views_into(&self, rows: &[u64], views: &mut Vec<Bytes>) -> Result<()> {
        views.clear();
        let content = &self.inner.content;
        let result = content.guarded(|| {
            let memory = self.memory()?;
            let RowAddresses::Variable(index) = self.row_addresses()? else {
                for row in rows {
                    views.push(self.view_of(memory, self.piece(*row, 0)?)?);
                }
                return Ok(());
            };
            let mut spans = Vec::new();
            index.gather(rows, false, &mut spans).map_err(|source| content.format_error(source))?;
            let data = self.layout().data.offset;
            views.reserve(rows.len());
            for span in spans {
                let start = data.saturating_add(span.offset);
                views.push(slice_of(memory, start, span.length).ok_or_else(|| lost(content))?);
            }
            Ok(())
        });
        if result.is_err() {
            views.clear();
        }
        result
    }

    fn memory(&self) -> Result<&Bytes> {
        let content = &self.inner.content;
        content
            .source
            .memory()
            .ok_or_else(|| ReadError::NoViews { path: Arc::clone(&content.path) })
    }

    fn view_of(&self, memory: &Bytes, piece: Piece) -> Result<Bytes> {
        slice_of(memory, piece.start, piece.length).ok_or_else(|| lost(&self.inner.content))
    }

    /// Reads a span of the data segment, unchecked against any checksum.
    ///
    /// # Errors
    ///
    /// [`ReadError::DataSpan`] when the span does not lie inside the data segment,
    /// [`ReadError::Io`] when the system fails or the file was cut.
    pub fn read_data_span(&self, offset: u64, length: u64) -> Result<Bytes> {
        self.read_data_spans(&[(offset, length)])
    }

    /// Reads spans (offset, length) of the data segment, joined in the order given.
    ///
    /// # Errors
    ///
    /// As [`PackReader::read_data_span`].
    pub fn read_data_spans(&self, spans: &[(u64, u64)]) -> Result<Bytes> {
        let content = &self.inner.content;
        content.guarded(|| {
            let mut total = 0_usize;
            let mut pieces = Vec::with_capacity(spans.len());
            for (offset, length) in spans {
                let start = self.data_start(*offset, *length)?;
                let length =
                    usize::try_from(*length).map_err(|_| no_memory(content, usize::MAX))?;
                total = total.checked_add(length).ok_or_else(|| no_memory(content, usize::MAX))?;
                pieces.push((start, length));
            }
            let mut buffer = reserve(content, total)?;
            if content.source.prefers_batches() {
                buffer.resize(total, 0);
                let pieces: Vec<Piece> = pieces
                    .into_iter()
                    .map(|(start, length)| Piece { start, length, row: 0, crc32: None, slot: 0 })
                    .collect();
                read_each(content, &pieces, &mut buffer)?;
                return Ok(Bytes::from(buffer));
            }
            for (start, length) in pieces {
                append(content, start, length, &mut buffer)?;
            }
            Ok(Bytes::from(buffer))
        })
    }

    /// A span of the data segment as a view of the source's memory.
    ///
    /// # Errors
    ///
    /// [`ReadError::NoViews`] when the source only copies, otherwise as
    /// [`PackReader::read_data_span`].
    pub fn data_view(&self, offset: u64, length: u64) -> Result<Bytes> {
        let content = &self.inner.content;
        content.guarded(|| {
            let start = self.data_start(offset, length)?;
            let length = usize::try_from(length).map_err(|_| lost(content))?;
            let piece = Piece { start, length, row: 0, crc32: None, slot: 0 };
            self.view_of(self.memory()?, piece)
        })
    }

    /// The place in the file of a span of the data segment.
    fn data_start(&self, offset: u64, length: u64) -> Result<u64> {
        let data = self.layout().data;
        match offset.checked_add(length) {
            Some(end) if end <= data.length => Ok(data.offset.saturating_add(offset)),
            _ => Err(ReadError::DataSpan {
                path: Arc::clone(&self.inner.content.path),
                offset,
                length,
                data_length: data.length,
            }),
        }
    }
}
