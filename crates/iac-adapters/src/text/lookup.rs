//! Rows by patient, where ids may repeat.

use std::hash::{BuildHasher, RandomState};

use crate::columns::TextColumn;

/// Rows of a column sorted by a hash of their texts: 16 bytes for each row, the texts stay where
/// they are. Rows without a text are not in it.
#[derive(Debug)]
pub(crate) struct PatientRows {
    hasher: RandomState,
    entries: Vec<(u64, u64)>,
}

impl PatientRows {
    pub(crate) fn new(ids: &TextColumn) -> Self {
        let hasher = RandomState::new();
        let mut entries: Vec<(u64, u64)> = (0_u64..)
            .zip(ids.iter())
            .filter_map(|(row, id)| Some((hasher.hash_one(id?), row)))
            .collect();
        entries.sort_unstable();
        Self { hasher, entries }
    }

    /// The rows of an id, in order.
    pub(crate) fn rows<'a>(
        &'a self,
        ids: &'a TextColumn,
        id: &'a str,
    ) -> impl DoubleEndedIterator<Item = u64> + 'a {
        let hash = self.hasher.hash_one(id);
        let start = self.entries.partition_point(|(other, _)| *other < hash);
        let run = self.entries.get(start..).unwrap_or_default();
        let run = run.get(..run.partition_point(|(other, _)| *other == hash)).unwrap_or_default();
        run.iter().map(|(_, row)| *row).filter(move |row| ids.get(*row) == Some(id))
    }

    /// The first row of each id, in order.
    pub(crate) fn first_rows(&self, ids: &TextColumn) -> Vec<u64> {
        let mut rows = Vec::with_capacity(self.entries.len());
        for run in self.entries.chunk_by(|(first, _), (second, _)| first == second) {
            if let [(_, row)] = run {
                rows.push(*row);
                continue;
            }
            // Rows of one hash are one patient's, apart from rare coincidences.
            let mut seen: Vec<Option<&str>> = Vec::new();
            for (_, row) in run {
                let id = ids.get(*row);
                if !seen.contains(&id) {
                    seen.push(id);
                    rows.push(*row);
                }
            }
        }
        rows.sort_unstable();
        rows
    }
}
