//! Several records in one buffer.

use std::mem;

use arrow_array::LargeBinaryArray;
use arrow_buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use bytes::Bytes;
use iac_format::{FormatError, Result};

use crate::spare;

/// Records one after the other in one buffer, with the offsets between them.
///
/// Record *i* is `buffer[offsets[i]..offsets[i + 1]]`. A batch owns its memory, so it outlives the
/// reader; when it is dropped, later batches of the process use the memory again. It can also be filled again and again without allocating
/// ([`crate::PackReader::read_contiguous_into`],
/// [`crate::VariableRecordPack::read_many_contiguous_into`]).
///
/// ```
/// use iac_reader::ContiguousRecordBatch;
///
/// let batch = ContiguousRecordBatch::try_new(b"abcd".to_vec(), vec![0, 1, 1, 4])?;
/// assert_eq!(batch.len(), 3);
/// assert_eq!(batch.view(2)?, b"bcd");
/// assert_eq!(batch.lengths().collect::<Vec<_>>(), [1, 0, 3]);
/// let column = batch.into_arrow()?;
/// assert_eq!(column.value(2), b"bcd");
/// # Ok::<(), iac_format::FormatError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContiguousRecordBatch {
    pub(crate) buffer: Vec<u8>,
    pub(crate) offsets: Vec<u64>,
}

impl Default for ContiguousRecordBatch {
    fn default() -> Self {
        Self { buffer: Vec::new(), offsets: vec![0] }
    }
}

impl Drop for ContiguousRecordBatch {
    fn drop(&mut self) {
        spare::keep(mem::take(&mut self.buffer));
    }
}

impl ContiguousRecordBatch {
    /// An empty batch to read into.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Puts a batch together from a buffer and one offset more than there are records.
    ///
    /// # Errors
    ///
    /// [`FormatError::Argument`] when there is no offset, the first is not 0, one is smaller than
    /// the one before it, or the last is not the buffer's length.
    pub fn try_new(buffer: Vec<u8>, offsets: Vec<u64>) -> Result<Self> {
        let refuse = |reason: String| Err(FormatError::Argument { reason });
        let (Some(first), Some(last)) = (offsets.first(), offsets.last()) else {
            return refuse("a batch of records needs at least one offset, found none".to_owned());
        };
        if *first != 0 {
            return refuse(format!("the first offset of a batch must be 0, found {first}"));
        }
        let falls = offsets.iter().zip(offsets.iter().skip(1)).position(|(a, b)| b < a);
        if let Some(record) = falls {
            let at = |at: usize| offsets.get(at).copied().unwrap_or(0);
            return refuse(format!(
                "offsets of a batch must never decrease, but record {record} goes from {} to {}",
                at(record),
                at(record.saturating_add(1)),
            ));
        }
        if u64::try_from(buffer.len()) != Ok(*last) {
            return refuse(format!(
                "the last offset of a batch must be the buffer's length {}, found {last}",
                buffer.len()
            ));
        }
        Ok(Self { buffer, offsets })
    }

    /// Number of records.
    #[must_use]
    pub fn len(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// Whether there are no records.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All bytes.
    #[must_use]
    pub fn buffer(&self) -> &[u8] {
        &self.buffer
    }

    /// Where each record starts, and at the end where the last one ends: one more than records.
    #[must_use]
    pub fn offsets(&self) -> &[u64] {
        &self.offsets
    }

    /// The length of each record in bytes.
    pub fn lengths(&self) -> impl ExactSizeIterator<Item = u64> {
        let ends = self.offsets.iter().skip(1);
        self.offsets.iter().zip(ends).map(|(start, end)| end.saturating_sub(*start))
    }

    /// A record by its position in the batch; `None` behind the last one.
    #[must_use]
    pub fn get(&self, position: usize) -> Option<&[u8]> {
        let start = usize::try_from(*self.offsets.get(position)?).ok()?;
        let end = usize::try_from(*self.offsets.get(position.checked_add(1)?)?).ok()?;
        self.buffer.get(start..end)
    }

    /// A record by its position in the batch.
    ///
    /// # Errors
    ///
    /// [`FormatError::RowOutOfRange`] behind the last one.
    pub fn view(&self, position: usize) -> Result<&[u8]> {
        self.get(position).ok_or_else(|| FormatError::RowOutOfRange {
            row: u64::try_from(position).unwrap_or(u64::MAX),
            rows: u64::try_from(self.len()).unwrap_or(u64::MAX),
        })
    }

    /// The records in order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).map_while(|position| self.get(position))
    }

    /// Takes the batch apart: buffer and offsets.
    #[must_use]
    pub fn into_parts(mut self) -> (Vec<u8>, Vec<u64>) {
        (mem::take(&mut self.buffer), mem::take(&mut self.offsets))
    }

    /// Takes the batch apart: a buffer that can be sliced and shared without copying, whose memory
    /// is used for later batches when the last slice is dropped, and offsets.
    #[must_use]
    pub fn into_shared(self) -> (Bytes, Vec<u64>) {
        let (buffer, offsets) = self.into_parts();
        (spare::share(buffer), offsets)
    }

    /// The batch as a column of an Arrow table. Nothing is copied: the array takes over the memory
    /// of the buffer and of the offsets.
    ///
    /// # Errors
    ///
    /// [`FormatError::Argument`] when the batch has more than 2^63 - 1 bytes.
    pub fn into_arrow(mut self) -> Result<LargeBinaryArray> {
        let refuse = |reason: String| FormatError::Argument { reason };
        // Offsets never decrease, so the last one tells for all of them.
        let last = self.offsets.last().copied().unwrap_or(0);
        i64::try_from(last)
            .map_err(|_| refuse(format!("a batch of {last} bytes is too large for an array")))?;
        let count = self.offsets.len();
        // The same bits: what fits into 63 bits has one form, signed or not.
        let offsets =
            ScalarBuffer::<i64>::new(Buffer::from_vec(mem::take(&mut self.offsets)), 0, count);
        let values = Buffer::from_vec(mem::take(&mut self.buffer));
        LargeBinaryArray::try_new(OffsetBuffer::new(offsets), values, None)
            .map_err(|error| refuse(format!("a batch of records is no array: {error}")))
    }

    /// Empties the batch and keeps its memory.
    pub fn clear(&mut self) {
        self.buffer.clear();
        self.offsets.clear();
        self.offsets.push(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iac_format::ErrorKind;

    #[test]
    fn offsets_that_describe_no_records_are_refused() {
        let buffer = b"abc".to_vec();
        for (offsets, reason) in [
            (vec![], "needs at least one offset"),
            (vec![1, 3], "must be 0, found 1"),
            (vec![0, 2, 1, 3], "record 1 goes from 2 to 1"),
            (vec![0, 2], "length 3, found 2"),
            (vec![0, 4], "length 3, found 4"),
            (vec![0, u64::MAX, 3], "never decrease"),
            (vec![0], "length 3, found 0"),
        ] {
            let error = ContiguousRecordBatch::try_new(buffer.clone(), offsets).unwrap_err();
            assert!(error.to_string().contains(reason), "{error}");
            assert_eq!(error.kind(), ErrorKind::Usage);
        }
        let batch = ContiguousRecordBatch::try_new(Vec::new(), vec![0]).unwrap();
        assert!(batch.is_empty());
        assert_eq!(batch.lengths().len(), 0);
        assert_eq!(batch, ContiguousRecordBatch::new());
    }

    #[test]
    fn records_are_found_by_position_and_not_behind_the_last() {
        let batch = ContiguousRecordBatch::try_new(b"abc".to_vec(), vec![0, 0, 2, 3]).unwrap();
        assert_eq!(batch.iter().collect::<Vec<_>>(), [b"".as_slice(), b"ab", b"c"]);
        assert_eq!(batch.view(1).unwrap(), b"ab");
        let error = batch.view(3).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::RowOutOfRange);
        assert!(batch.view(usize::MAX).is_err());
    }

    #[test]
    fn arrow_array_takes_over_the_memory() {
        let batch = ContiguousRecordBatch::try_new(b"abc".to_vec(), vec![0, 0, 2, 3]).unwrap();
        let (buffer, offsets) = (batch.buffer.as_ptr(), batch.offsets.as_ptr());
        let array = batch.into_arrow().unwrap();
        assert_eq!(array.values().as_ptr(), buffer);
        assert_eq!(array.value_offsets().as_ptr().cast::<u64>(), offsets);
        assert_eq!(array.iter().flatten().collect::<Vec<_>>(), [b"".as_slice(), b"ab", b"c"]);
        assert_eq!(ContiguousRecordBatch::new().into_arrow().unwrap().value_offsets(), [0]);
    }
}
