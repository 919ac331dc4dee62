//! Patients one after the other.

use super::TextReader;
use crate::error::Result;
use crate::text::model::{Patient, TextDocument};

/// Most rows that [`TextReader::iter`] reads together.
const ITER_ROWS: usize = 64;
/// Most stored bytes of these, unless a single row has more.
const ITER_BYTES: u64 = 4 << 20;

/// Patients one by one, from [`TextReader::iter`]. After an error there are no more.
#[derive(Debug)]
pub struct Patients<'r, D> {
    reader: &'r TextReader<D>,
    rows: std::ops::Range<u64>,
    ready: std::vec::IntoIter<Patient<D>>,
}

impl<'r, D: TextDocument> Patients<'r, D> {
    pub(super) fn new(reader: &'r TextReader<D>) -> Self {
        Self { reader, rows: 0..reader.len(), ready: Vec::new().into_iter() }
    }

    /// The next rows that are read together.
    fn batch(&self) -> Vec<u64> {
        let mut rows = Vec::new();
        let mut bytes = 0_u64;
        for row in self.rows.clone() {
            // What is wrong with a span is said when the row is read.
            let length = self.reader.pack().span(row).map_or(0, |span| span.length);
            bytes = bytes.saturating_add(length);
            if !rows.is_empty() && (rows.len() >= ITER_ROWS || bytes > ITER_BYTES) {
                break;
            }
            rows.push(row);
        }
        rows
    }
}

impl<D: TextDocument> Iterator for Patients<'_, D> {
    type Item = Result<Patient<D>>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(patient) = self.ready.next() {
            return Some(Ok(patient));
        }
        let rows = self.batch();
        let first = *rows.first()?;
        if let Ok(patients) = self.reader.read_many(&rows) {
            self.rows.start = rows.last().map_or(self.rows.end, |row| row.saturating_add(1));
            self.ready = patients.into_iter();
            return self.ready.next().map(Ok);
        }
        // One of them is damaged; those before it are handed out first.
        let read = self.reader.read_at(first);
        self.rows.start = if read.is_ok() { first.saturating_add(1) } else { self.rows.end };
        Some(read)
    }
}

impl<'r, D: TextDocument> IntoIterator for &'r TextReader<D> {
    type Item = Result<Patient<D>>;
    type IntoIter = Patients<'r, D>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
