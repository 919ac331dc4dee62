//! The data segment on its way to the file: buffering and sums.

use std::fs::File;
use std::io::{self, Write};

use crc32fast::Hasher;
use iac_crc::Crc32;

/// Writes cover whole blocks of this size, at multiples of it, because Linux caches files in
/// pieces of up to many pages. Measured with ext4 on Linux 6.18: payloads of 33,000 bytes written
/// one by one took 2.2 times the processor time, and writes of whole megabytes 5 times.
const BLOCK_BYTES: usize = 256 << 10;

/// Appends bytes to a file in whole blocks: small payloads are collected, the whole blocks of
/// large ones go out straight from the caller's memory.
#[derive(Debug)]
pub(crate) struct Appender {
    buffer: Vec<u8>,
    /// Bytes of the file that are still missing to the next block boundary, the buffered ones
    /// counted as there.
    room: usize,
    accepted: u64,
}

impl Appender {
    /// For a file that is positioned at `offset`.
    pub(crate) fn new(offset: u64) -> Self {
        let block = u64::try_from(BLOCK_BYTES).unwrap_or(u64::MAX);
        let begun = usize::try_from(offset.checked_rem(block).unwrap_or(0)).unwrap_or(0);
        Self { buffer: Vec::new(), room: BLOCK_BYTES.saturating_sub(begun), accepted: 0 }
    }

    /// Bytes accepted so far, buffered ones included.
    pub(crate) const fn accepted(&self) -> u64 {
        self.accepted
    }

    pub(crate) fn append(&mut self, file: &File, bytes: &[u8]) -> io::Result<()> {
        self.append_by(file, bytes, |part, buffer| {
            if let Some(buffer) = buffer {
                buffer.extend_from_slice(part);
            }
        })
    }

    /// The same, with the sum of the bytes.
    pub(crate) fn append_summed(&mut self, file: &File, bytes: &[u8]) -> io::Result<u32> {
        let mut sum = Crc32::new();
        self.append_by(file, bytes, |part, buffer| match buffer {
            Some(buffer) => sum.append(part, buffer),
            None => sum.update(part),
        })?;
        Ok(sum.value())
    }

    /// `take` gets every part of the bytes with the buffer that it goes behind, or without one.
    fn append_by(
        &mut self,
        mut file: &File,
        mut bytes: &[u8],
        mut take: impl FnMut(&[u8], Option<&mut Vec<u8>>),
    ) -> io::Result<()> {
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        let accepted = self.accepted.checked_add(length);
        let accepted = accepted.ok_or(io::ErrorKind::FileTooLarge)?;
        while bytes.len() >= self.room {
            let (head, rest) = bytes.split_at(self.room);
            if self.buffer.is_empty() {
                take(head, None);
                file.write_all(head)?;
            } else {
                take(head, Some(&mut self.buffer));
                self.flush(file)?;
            }
            self.room = BLOCK_BYTES;
            bytes = rest;
        }
        if self.buffer.capacity() == 0 {
            self.buffer.reserve_exact(BLOCK_BYTES);
        }
        take(bytes, Some(&mut self.buffer));
        self.room = self.room.saturating_sub(bytes.len());
        self.accepted = accepted;
        Ok(())
    }

    pub(crate) fn flush(&mut self, mut file: &File) -> io::Result<()> {
        file.write_all(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }
}

/// Sums of a data segment that arrives in stretches of any length.
#[derive(Debug)]
pub(crate) enum SegmentSums {
    /// No checksums are wanted.
    None,
    /// One sum of everything.
    Whole(Hasher),
    /// One sum of each row of a fixed pack.
    Rows(RowSummer),
}

impl SegmentSums {
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::None => {}
            Self::Whole(hasher) => hasher.update(bytes),
            Self::Rows(rows) => rows.update(bytes),
        }
    }
}

/// Sums rows of equal length, wherever the stretches that they arrive in begin and end.
#[derive(Debug)]
pub(crate) struct RowSummer {
    row_bytes: usize,
    row: Hasher,
    /// Bytes of the current row that are in its sum already.
    filled: usize,
    sums: Vec<u32>,
}

impl RowSummer {
    /// `rows` is the number of rows that will come; rows without bytes are summed here and now.
    /// Gives nothing when there is no memory for so many sums.
    pub(crate) fn new(row_bytes: usize, rows: usize) -> Option<Self> {
        let mut sums = Vec::new();
        sums.try_reserve_exact(rows).ok()?;
        if row_bytes == 0 {
            sums.resize(rows, 0);
        }
        Some(Self { row_bytes, row: Hasher::new(), filled: 0, sums })
    }

    fn update(&mut self, mut bytes: &[u8]) {
        if self.row_bytes == 0 {
            return;
        }
        if self.filled > 0 {
            let missing = self.row_bytes.saturating_sub(self.filled);
            let (head, rest) = bytes.split_at(missing.min(bytes.len()));
            self.row.update(head);
            self.filled = self.filled.saturating_add(head.len());
            if self.filled < self.row_bytes {
                return;
            }
            self.sums.push(std::mem::take(&mut self.row).finalize());
            self.filled = 0;
            bytes = rest;
        }
        let whole = bytes.chunks_exact(self.row_bytes);
        let rest = whole.remainder();
        self.sums.extend(whole.map(crc32fast::hash));
        self.row.update(rest);
        self.filled = rest.len();
    }

    pub(crate) fn into_sums(self) -> Vec<u32> {
        self.sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Seek, SeekFrom};

    #[test]
    fn every_mix_of_sizes_arrives_in_order() {
        let sizes = [0, 1, 100, BLOCK_BYTES - 1, 40_000, BLOCK_BYTES, 7, 3 * BLOCK_BYTES + 1, 3];
        for offset in [0, 64, 65_535, 262_143, 262_144, 300_000] {
            let mut file = tempfile::tempfile().unwrap();
            file.seek(SeekFrom::Start(offset)).unwrap();
            let mut appender = Appender::new(offset);
            let mut expected = vec![0; usize::try_from(offset).unwrap()];
            for round in 0..7_u8 {
                for (position, size) in (0_u8..).zip(sizes) {
                    let bytes = vec![round.wrapping_mul(17).wrapping_add(position); size];
                    appender.append(&file, &bytes).unwrap();
                    expected.extend_from_slice(&bytes);
                    let written = file.stream_position().unwrap();
                    assert!(written == offset || written.is_multiple_of(262_144), "{written}");
                }
                assert!(appender.buffer.capacity() <= BLOCK_BYTES);
            }
            appender.flush(&file).unwrap();
            assert_eq!(offset + appender.accepted(), expected.len() as u64);
            let mut found = Vec::new();
            file.rewind().unwrap();
            file.read_to_end(&mut found).unwrap();
            assert!(found == expected);
        }
    }

    #[test]
    fn row_sums_do_not_depend_on_the_stretches() {
        let bytes: Vec<u8> = (0..60_u8).collect();
        let expected: Vec<u32> = bytes.chunks(12).map(crc32fast::hash).collect();
        for stretch in 1..=60 {
            let mut rows = RowSummer::new(12, 5).unwrap();
            bytes.chunks(stretch).for_each(|bytes| rows.update(bytes));
            assert_eq!(rows.into_sums(), expected, "stretches of {stretch}");
        }
        assert_eq!(RowSummer::new(0, 3).unwrap().into_sums(), [0, 0, 0]);
    }
}
