//! Reading all records in the order of the index.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::error::Result;
use crate::pack::PackReader;

/// Most bytes that are read ahead, unless one record has more.
const AHEAD_BYTES: u64 = 4 << 20;
/// Most rows that are read ahead.
const AHEAD_ROWS: u64 = 4096;

/// All records in the order of the index's rows; made by [`PackReader::iter_payloads`].
///
/// Records are read in batches, so that small ones cost no call each. A record that cannot be read
/// is an error in its place, and the next ones follow.
#[derive(Debug)]
pub struct Payloads {
    pack: PackReader,
    ready: VecDeque<Result<Bytes>>,
    next: u64,
    rows: u64,
}

impl PackReader {
    /// Iterates over all records in the order of the index's rows.
    ///
    /// # Errors
    ///
    /// [`ReadError::Format`](crate::ReadError::Format) when the index table is damaged. Errors of
    /// single records are items of the iterator.
    pub fn iter_payloads(&self) -> Result<Payloads> {
        Ok(Payloads {
            pack: self.clone(),
            ready: VecDeque::new(),
            next: 0,
            rows: self.num_records()?,
        })
    }
}

impl Payloads {
    fn read_ahead(&mut self) {
        let first = self.next;
        self.next = self.pack.rows_within(first, AHEAD_ROWS, AHEAD_BYTES).min(self.rows);
        let rows: Vec<u64> = (first..self.next).collect();
        match self.pack.read_rows(&rows) {
            Ok(records) => self.ready.extend(records.into_iter().map(Ok)),
            // One of them is bad: find out which, and keep the others.
            Err(_) => self.ready.extend(rows.iter().map(|row| self.pack.read(*row))),
        }
    }
}

impl Iterator for Payloads {
    type Item = Result<Bytes>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ready.is_empty() && self.next < self.rows {
            self.read_ahead();
        }
        self.ready.pop_front()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = usize::try_from(self.rows.saturating_sub(self.next)).unwrap_or(usize::MAX);
        let left = left.saturating_add(self.ready.len());
        (left, Some(left))
    }
}
