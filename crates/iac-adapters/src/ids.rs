//! Finding rows by a text column, without a copy of the texts.

use std::hash::{BuildHasher, RandomState};

use hashbrown::{HashTable, hash_table};

use crate::columns::TextColumn;

/// Rows of a text column, found by a hash of their texts.
///
/// It holds 5 bytes for each of its places, and between 1.15 and 2.3 places for each row; the texts
/// stay where they are. While it is built there are about 9 bytes more for each row. Hashes are
/// seeded at random, so nobody can prepare a file whose texts all have the same one.
#[derive(Debug, Clone, Default)]
pub(crate) struct IdIndex {
    /// Tables of rows whose hashes share some bits: each is small enough for a near cache while it
    /// is filled.
    tables: Vec<HashTable<u32>>,
    spread: Spread,
}

/// Rows of one table at most, if there are not very many.
const TABLE_ROWS: u64 = 1 << 14;
/// Bits of the places of a table with so many rows.
const TABLE_BITS: u32 = 15;
/// Most tables.
const TABLES: u64 = 1 << 12;

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

/// Rows that repeat an id.
#[derive(Debug, Default)]
pub(crate) struct IdRepeats {
    count: u64,
    rows: Vec<u64>,
}

impl IdRepeats {
    pub(crate) fn add(&mut self, row: u64) {
        self.count = self.count.saturating_add(1);
        self.rows.push(row);
        if self.rows.len() > SAMPLE {
            self.rows.sort_unstable();
            self.rows.truncate(SAMPLE);
        }
    }

    pub(crate) fn fault(mut self) -> Option<IdFault> {
        self.rows.sort_unstable();
        (self.count > 0).then_some(IdFault::Repeated { count: self.count, rows: self.rows })
    }
}

impl IdIndex {
    /// Indexes a column whose texts must all be there and differ.
    pub(crate) fn new(column: &TextColumn) -> Result<Self, IdFault> {
        let spread = Spread::random();
        let count = column.rows();
        let too_many = || IdFault::TooMany { rows: count };
        if u32::try_from(count).is_err() {
            return Err(too_many());
        }
        let tables = count.div_ceil(TABLE_ROWS).clamp(1, TABLES).next_power_of_two();
        let tables = usize::try_from(tables).map_err(|_| too_many())?;
        let room = usize::try_from(count).map_err(|_| too_many())?.div_ceil(tables);
        let mut entries: Vec<Vec<Entry>> = Vec::new();
        for _ in 0..tables {
            let mut part = Vec::new();
            part.try_reserve(room.saturating_add(room >> 4)).map_err(|_| too_many())?;
            entries.push(part);
        }
        column.try_for_each_bytes(|row, id| {
            let id = id.ok_or(IdFault::Null { row })?;
            let hash = spread.hash(id);
            if let Some(part) = entries.get_mut(table_of(hash, tables)) {
                part.push(Entry { hash, row: u32::try_from(row).unwrap_or(u32::MAX) });
            }
            Ok(())
        })?;
        let mut repeated = IdRepeats::default();
        let mut index = Self { tables: Vec::with_capacity(tables), spread };
        for part in entries {
            index.tables.push(table(column, &part, &mut repeated).ok_or_else(too_many)?);
        }
        match repeated.fault() {
            None => Ok(index),
            Some(fault) => Err(fault),
        }
    }

    /// The row of an id in the column that was indexed.
    pub(crate) fn find(&self, column: &TextColumn, id: &str) -> Option<u64> {
        let id = id.as_bytes();
        let hash = self.spread.hash(id);
        let is_same = |row: &u32| column.bytes(u64::from(*row)) == Some(id);
        let table = self.tables.get(table_of(hash, self.tables.len()))?;
        table.find(full(hash), is_same).map(|row| u64::from(*row))
    }

    /// Bytes of memory that the index holds.
    #[cfg(test)]
    pub(crate) fn memory_bytes(&self) -> usize {
        self.tables.iter().map(HashTable::allocation_size).fold(0, usize::saturating_add)
    }
}

/// A row on its way into a table.
#[derive(Debug, Clone, Copy)]
struct Entry {
    hash: u32,
    row: u32,
}

/// The table that a hash belongs to, of a number that is a power of two. The bits that tell lie
/// between those that tables themselves go by: these would be all alike otherwise.
fn table_of(hash: u32, tables: usize) -> usize {
    let bits = usize::try_from(hash >> TABLE_BITS).unwrap_or(0);
    bits & tables.saturating_sub(1)
}

/// A hash as tables want it: they look at both ends.
fn full(hash: u32) -> u64 {
    u64::from(hash) << 32 | u64::from(hash)
}

/// A table of rows; nothing when there is no memory for it.
fn table(
    column: &TextColumn,
    entries: &[Entry],
    repeated: &mut IdRepeats,
) -> Option<HashTable<u32>> {
    let mut table: HashTable<u32> = HashTable::new();
    // There is room for all, so nothing is ever hashed again.
    let again = |_: &u32| 0;
    table.try_reserve(entries.len(), again).ok()?;
    for entry in entries {
        let id = column.bytes(entry.row.into());
        let is_same = |other: &u32| column.bytes(u64::from(*other)) == id;
        match table.entry(full(entry.hash), is_same, again) {
            hash_table::Entry::Vacant(place) => {
                place.insert(entry.row);
            }
            hash_table::Entry::Occupied(_) => repeated.add(entry.row.into()),
        }
    }
    Some(table)
}

/// Spreads texts over 32 bits, each time in another way.
#[derive(Debug, Clone, Copy, Default)]
struct Spread {
    seed: u64,
}

impl Spread {
    fn random() -> Self {
        Self { seed: RandomState::new().hash_one(0_u8) }
    }

    #[inline]
    fn hash(self, bytes: &[u8]) -> u32 {
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        let mut state = self.seed ^ length.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let end = match bytes.last_chunk::<16>() {
            Some(end) => {
                let (chunks, _) = bytes.as_chunks::<16>();
                for chunk in chunks {
                    state = mix(state, *chunk);
                }
                // Perhaps some bytes for the second time, which does no harm.
                *end
            }
            None => {
                let mut end = [0; 16];
                for (to, from) in end.iter_mut().zip(bytes) {
                    *to = *from;
                }
                end
            }
        };
        let state = mix(state, end);
        let state = fold(state, 0xd6e8_feb8_6659_fd93 ^ self.seed.rotate_left(32));
        u32::try_from(state >> 32).unwrap_or(0)
    }
}

#[inline]
fn mix(state: u64, chunk: [u8; 16]) -> u64 {
    let [low, high] = halves(u128::from_le_bytes(chunk));
    fold(low ^ state, high ^ state.rotate_left(32) ^ 0xa076_1d64_78bd_642f)
}

/// A product of which no half is lost.
#[inline]
fn fold(first: u64, second: u64) -> u64 {
    let [low, high] = halves(u128::from(first).wrapping_mul(u128::from(second)));
    low ^ high
}

#[inline]
fn halves(value: u128) -> [u64; 2] {
    let low = u64::try_from(value & u128::from(u64::MAX)).unwrap_or(0);
    [low, u64::try_from(value >> 64).unwrap_or(0)]
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
                assert!(index.memory_bytes() <= rows * 12, "{}", index.memory_bytes());
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
    fn texts_are_spread_evenly_whatever_they_share() {
        let spread = Spread { seed: 0x1234_5678_9abc_def0 };
        let kinds: [fn(u64) -> String; 4] = [
            |number| number.to_string(),
            |number| format!("slide-0001_tile_{number:08}"),
            |number| format!("{number:08}_tile_of_slide-0001"),
            |number| "x".repeat(usize::try_from(number % 5000).unwrap()) + &number.to_string(),
        ];
        for (kind, text) in kinds.into_iter().enumerate() {
            let hashes: Vec<u32> =
                (0..1 << 14).map(|number| spread.hash(text(number).as_bytes())).collect();
            // Of 16,384 values about 63% of 16,384 places are hit, whichever bits choose them.
            for shift in [0, 7, 13, 18] {
                let places: std::collections::HashSet<u32> =
                    hashes.iter().map(|hash| hash >> shift & 0x3fff).collect();
                assert!(
                    (10_000..10_700).contains(&places.len()),
                    "{kind} {shift} {}",
                    places.len()
                );
            }
        }
        // Zeros at the end count, as do all positions.
        let texts = ["", "\0", "\0\0", "a", "a\0", "\0a"];
        let hashes: std::collections::HashSet<u32> =
            texts.iter().map(|text| spread.hash(text.as_bytes())).collect();
        assert_eq!(hashes.len(), texts.len());
    }

    #[test]
    fn ids_of_one_hash_are_told_apart() {
        // Nobody can make such ids on purpose, so they are filed under one hash by hand.
        let ids: Vec<Option<String>> = (0..200).map(|row| Some(format!("tile-{row}"))).collect();
        let column = column(std::slice::from_ref(&ids));
        let mut index = IdIndex { tables: vec![HashTable::new()], spread: Spread::default() };
        let hash = full(index.spread.hash(b"tile-7"));
        for row in 0..200 {
            index.tables[0].insert_unique(hash, row, |_| hash);
        }
        assert_eq!(index.find(&column, "tile-7"), Some(7));
    }
}
