//! Finding rows by a text column, without a copy of the texts.

use crate::columns::TextColumn;

/// Rows of a text column, sorted by a hash of their texts.
///
/// It holds 8 bytes for each row, and half a byte on average for a directory of hashes; the texts
/// stay where they are. While it is built there are 16 bytes for each row. Many texts of one hash,
/// chance or not, cost a binary search among them.
#[derive(Debug, Clone, Default)]
pub(crate) struct IdIndex {
    /// Hash in the upper half, row in the lower one; sorted by hash, and by text where hashes are
    /// equal.
    entries: Vec<u64>,
    /// Where the hashes begin that start with the bits of each number.
    directory: Vec<u32>,
    shift: u32,
}

/// Why rows cannot be told apart by a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum IdFault {
    /// A row has no id.
    Null { row: u64 },
    /// Rows repeat the id of an earlier row.
    Repeated { count: u64, rows: Vec<u64> },
    /// There are more rows than the index can number.
    TooMany { rows: u64 },
}

/// Repeated rows that are named.
pub(crate) const SAMPLE: usize = 3;

impl IdIndex {
    /// Indexes a column whose texts must all be there and differ.
    pub(crate) fn new(column: &TextColumn) -> Result<Self, IdFault> {
        let rows = column.rows();
        let count = u32::try_from(rows).ok().filter(|count| *count < u32::MAX);
        let count = count.and_then(|count| usize::try_from(count).ok());
        let count = count.ok_or(IdFault::TooMany { rows })?;
        let mut unsorted: Vec<u64> = Vec::new();
        let reserved = unsorted.try_reserve_exact(count);
        reserved.map_err(|_| IdFault::TooMany { rows })?;
        column.try_for_each(|row, id| {
            let id = id.ok_or(IdFault::Null { row })?;
            unsorted.push(u64::from(hash(id.as_bytes())) << 32 | row);
            Ok(())
        })?;
        let mut index = Self::sorted(unsorted);
        let mut repeated = index.settle_equal_hashes(column);
        if repeated.is_empty() {
            return Ok(index);
        }
        repeated.sort_unstable();
        let count = u64::try_from(repeated.len()).unwrap_or(u64::MAX);
        repeated.truncate(SAMPLE);
        Err(IdFault::Repeated { count, rows: repeated })
    }

    /// The row of an id in the column that was indexed.
    pub(crate) fn find(&self, column: &TextColumn, id: &str) -> Option<u64> {
        let hash = hash(id.as_bytes());
        let bucket = usize::try_from(hash.checked_shr(self.shift).unwrap_or(0)).ok()?;
        let at =
            |bucket: usize| self.directory.get(bucket).and_then(|at| usize::try_from(*at).ok());
        let entries = self.entries.get(at(bucket)?..at(bucket.checked_add(1)?)?)?;
        let start = entries.partition_point(|entry| entry >> 32 < u64::from(hash));
        let run = entries.get(start..)?;
        let run = run.get(..run.partition_point(|entry| entry >> 32 == u64::from(hash)))?;
        let found = match run {
            [] => return None,
            [only] => *only,
            several => {
                let place = several.partition_point(|entry| column.get(row_of(*entry)) < Some(id));
                *several.get(place)?
            }
        };
        let row = row_of(found);
        (column.get(row) == Some(id)).then_some(row)
    }

    /// Bytes of memory that the index holds.
    #[cfg_attr(not(test), allow(dead_code))]
    pub(crate) fn memory_bytes(&self) -> usize {
        let entries = self.entries.capacity().saturating_mul(size_of::<u64>());
        entries.saturating_add(self.directory.capacity().saturating_mul(size_of::<u32>()))
    }

    /// Sorts entries by hash: into buckets by its first bits, then inside of each.
    fn sorted(unsorted: Vec<u64>) -> Self {
        let bits = unsorted.len().checked_ilog2().unwrap_or(0).saturating_sub(3).clamp(1, 28);
        let shift = 32_u32.saturating_sub(bits);
        let bucket_of = |entry: u64| {
            usize::try_from(entry.checked_shr(shift.saturating_add(32)).unwrap_or(0)).unwrap_or(0)
        };
        let buckets = 1_usize.checked_shl(bits).unwrap_or(1);
        let mut directory = vec![0_u32; buckets.saturating_add(1)];
        for entry in &unsorted {
            if let Some(count) = directory.get_mut(bucket_of(*entry).saturating_add(1)) {
                *count = count.saturating_add(1);
            }
        }
        let mut sum = 0_u32;
        for place in &mut directory {
            sum = sum.saturating_add(*place);
            *place = sum;
        }
        let mut entries = vec![0_u64; unsorted.len()];
        let mut next = directory.clone();
        for entry in unsorted {
            if let Some(place) = next.get_mut(bucket_of(entry)) {
                if let Some(target) =
                    usize::try_from(*place).ok().and_then(|at| entries.get_mut(at))
                {
                    *target = entry;
                }
                *place = place.saturating_add(1);
            }
        }
        let mut start = 0_usize;
        for end in directory.iter().skip(1) {
            let end = usize::try_from(*end).unwrap_or(usize::MAX);
            if let Some(bucket) = entries.get_mut(start..end) {
                bucket.sort_unstable();
            }
            start = end;
        }
        Self { entries, directory, shift }
    }

    /// Sorts rows of equal hashes by their texts; gives the rows that repeat an earlier one.
    fn settle_equal_hashes(&mut self, column: &TextColumn) -> Vec<u64> {
        let mut repeated = Vec::new();
        for run in self.entries.chunk_by_mut(|first, second| first >> 32 == second >> 32) {
            if run.len() < 2 {
                continue;
            }
            run.sort_unstable_by(|first, second| {
                let (first, second) = (row_of(*first), row_of(*second));
                column.get(first).cmp(&column.get(second)).then(first.cmp(&second))
            });
            for (first, second) in run.iter().zip(run.iter().skip(1)) {
                if column.get(row_of(*first)) == column.get(row_of(*second)) {
                    repeated.push(row_of(*second));
                }
            }
        }
        repeated
    }
}

const fn row_of(entry: u64) -> u64 {
    entry & 0xffff_ffff
}

/// Spreads texts over 32 bits. Nothing depends on it being hard to foresee.
fn hash(bytes: &[u8]) -> u32 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |state: u64, word: u64| (state ^ word).wrapping_mul(FACTOR).rotate_left(29);
    let (words, rest) = bytes.as_chunks::<8>();
    let mut state = u64::try_from(bytes.len()).unwrap_or(0).wrapping_mul(FACTOR);
    for word in words {
        state = mix(state, u64::from_le_bytes(*word));
    }
    let mut last = [0_u8; 8];
    for (to, from) in last.iter_mut().zip(rest) {
        *to = *from;
    }
    state = mix(state, u64::from_le_bytes(last));
    state ^= state >> 32;
    state = state.wrapping_mul(0xd6e8_feb8_6659_fd93);
    u32::try_from(state >> 32).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use arrow_array::{ArrayRef, StringArray};

    fn column(parts: &[Vec<Option<String>>]) -> TextColumn {
        let mut column = TextColumn::default();
        for part in parts {
            let array: ArrayRef = Arc::new(StringArray::from(part.clone()));
            column.push(&array).unwrap();
        }
        column
    }

    #[test]
    fn every_id_is_found_and_no_other() {
        for rows in [0_usize, 1, 2, 7, 8, 1000, 70_000] {
            let ids: Vec<Option<String>> =
                (0..rows).map(|row| Some(format!("tile-{row}"))).collect();
            let column = column(&[ids[..rows / 3].to_vec(), ids[rows / 3..].to_vec()]);
            let index = IdIndex::new(&column).unwrap();
            for row in 0..rows {
                assert_eq!(index.find(&column, &format!("tile-{row}")), Some(row as u64));
            }
            assert_eq!(index.find(&column, &format!("tile-{rows}")), None);
            assert_eq!(index.find(&column, ""), None);
            if rows >= 1000 {
                assert!(index.memory_bytes() <= rows * 40, "{}", index.memory_bytes());
                assert!(index.memory_bytes() <= rows * 10, "{}", index.memory_bytes());
            }
        }
    }

    #[test]
    fn repeated_and_missing_ids_are_told() {
        let some = |text: &str| Some(text.to_owned());
        let ids = vec![some("a"), some("b"), some("a"), some("c"), some("a"), some("b"), some("b")];
        let fault = IdIndex::new(&column(&[ids])).unwrap_err();
        assert_eq!(fault, IdFault::Repeated { count: 4, rows: vec![2, 4, 5] });
        let fault = IdIndex::new(&column(&[vec![some("a"), None]])).unwrap_err();
        assert_eq!(fault, IdFault::Null { row: 1 });
    }

    #[test]
    fn ids_of_one_hash_are_told_apart() {
        // The lower half of the state never reaches the hash's last step unmixed, so collisions are
        // looked for by brute force.
        let mut seen = std::collections::HashMap::new();
        let mut pairs = Vec::new();
        for number in 0..300_000_u32 {
            let text = format!("{number:x}");
            if let Some(other) = seen.insert(hash(text.as_bytes()), text.clone()) {
                pairs.push((other, text));
            }
        }
        assert!(!pairs.is_empty());
        let ids: Vec<Option<String>> =
            pairs.into_iter().flat_map(|(first, second)| [Some(second), Some(first)]).collect();
        let column = column(std::slice::from_ref(&ids));
        let index = IdIndex::new(&column).unwrap();
        for (row, id) in ids.iter().enumerate() {
            assert_eq!(index.find(&column, id.as_ref().unwrap()), Some(row as u64));
        }
    }
}
