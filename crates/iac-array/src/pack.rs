//! Making blocks out of chunks: packing small ones together and compressing on several threads.

use std::borrow::Cow;

use bytes::Bytes;
use rayon::prelude::*;

use crate::codec::{BlockCodec, Packing};
use crate::error::{ArrayError, Result, u64_len};
use crate::index::{Block, ChunkKind, ChunkRow};
use crate::stats::StoredStats;

/// A chunk that is to be stored.
pub(crate) struct Item<'a> {
    pub(crate) array_id: u64,
    pub(crate) chunk: u64,
    /// Bytes of the numbers in it.
    pub(crate) lane: usize,
    pub(crate) raw: Cow<'a, [u8]>,
    pub(crate) stats: Option<Box<StoredStats>>,
}

/// Blocks and codecs of a layer in the making.
pub(crate) struct Blocks {
    pub(crate) codecs: Vec<BlockCodec>,
    pub(crate) data: Vec<Bytes>,
    pub(crate) length: u64,
}

impl Blocks {
    pub(crate) fn new() -> Self {
        Self { codecs: vec![BlockCodec::none()], data: Vec::new(), length: 0 }
    }

    /// The number of a codec, listed when it is not yet; none when there are too many.
    pub(crate) fn codec(&mut self, codec: &BlockCodec) -> Option<u8> {
        let known = self.codecs.iter().position(|known| known == codec);
        let at = known.unwrap_or(self.codecs.len());
        let number = u8::try_from(at).ok()?;
        if known.is_none() {
            self.codecs.push(codec.clone());
        }
        Some(number)
    }

    /// Takes stored bytes; where they begin.
    pub(crate) fn push(&mut self, bytes: Bytes) -> u64 {
        let offset = self.length;
        self.length = offset.saturating_add(u64_len(bytes.len()));
        self.data.push(bytes);
        offset
    }

    /// Packs chunks, which come in the order of their rows. Runs on the threads of the caller's
    /// pool; the bytes do not depend on how many there are.
    pub(crate) fn pack(
        &mut self,
        items: &[Item<'_>],
        packing: &Packing,
        block_bytes: u64,
        rows: &mut Vec<ChunkRow>,
    ) -> Result<()> {
        let groups = groups(items, block_bytes);
        let mut codecs = Vec::with_capacity(groups.len());
        for group in &groups {
            let codec = packing.for_lane(group.first().map_or(1, |item| item.lane));
            let number = self.codec(&codec).ok_or(ArrayError::TooLarge {
                what: "number of codecs in a layer",
                found: 256,
                allowed: 255,
            })?;
            codecs.push((codec, number));
        }
        let jobs: Vec<_> = groups.into_iter().zip(codecs).collect();
        let packed: Vec<Result<(Vec<ChunkRow>, Vec<u8>)>> = jobs
            .into_par_iter()
            .map(|(group, (codec, number))| block(group, &codec, number))
            .collect();
        for result in packed {
            let (mut chunks, bytes) = result?;
            let offset = self.push(Bytes::from(bytes));
            chunks.iter_mut().for_each(|row| row.block.offset = offset);
            rows.append(&mut chunks);
        }
        Ok(())
    }
}

/// Chunks that share a block: small ones that follow each other and have numbers of one size.
fn groups<'a, 'b>(items: &'b [Item<'a>], block_bytes: u64) -> Vec<&'b [Item<'a>]> {
    let mut groups = Vec::new();
    let (mut from, mut bytes) = (0_usize, 0_u64);
    let close = |from: usize, end: usize, groups: &mut Vec<&'b [Item<'a>]>| {
        groups.extend(items.get(from..end).filter(|group| !group.is_empty()));
    };
    for (at, item) in items.iter().enumerate() {
        let raw = u64_len(item.raw.len());
        let other = items.get(from).is_some_and(|first| first.lane != item.lane);
        let large = raw >= block_bytes / 2;
        if large || other || bytes.saturating_add(raw) > block_bytes {
            close(from, at, &mut groups);
            (from, bytes) = (at, 0);
        }
        bytes = bytes.saturating_add(raw);
        if large {
            let next = at.saturating_add(1);
            close(from, next, &mut groups);
            (from, bytes) = (next, 0);
        }
    }
    close(from, items.len(), &mut groups);
    groups
}

fn block(group: &[Item<'_>], codec: &BlockCodec, number: u8) -> Result<(Vec<ChunkRow>, Vec<u8>)> {
    let raw: Cow<'_, [u8]> = match group {
        [only] => Cow::Borrowed(&*only.raw),
        many => {
            let mut raw = Vec::new();
            many.iter().for_each(|item| raw.extend_from_slice(&item.raw));
            Cow::Owned(raw)
        }
    };
    let too_large =
        |found| ArrayError::TooLarge { what: "block (bytes)", found, allowed: u64::from(u32::MAX) };
    let length = |bytes: usize| u32::try_from(bytes).map_err(|_| too_large(u64_len(bytes)));
    let raw_length = length(raw.len())?;
    let encoded = codec.encode(&raw)?;
    let (stored, codec) = match encoded {
        Some(stored) => (stored, number),
        None => (raw.into_owned(), 0),
    };
    let block = Block {
        offset: 0,
        length: length(stored.len())?,
        crc32: crc32fast::hash(&stored),
        raw_length,
        codec,
    };
    let mut in_offset = 0_u32;
    let mut rows = Vec::with_capacity(group.len());
    for item in group {
        let in_length = length(item.raw.len())?;
        rows.push(ChunkRow {
            array_id: item.array_id,
            chunk: item.chunk,
            block,
            in_offset,
            in_length,
            kind: ChunkKind::Data,
            stats: item.stats.clone(),
        });
        in_offset = in_offset.saturating_add(in_length);
    }
    Ok((rows, stored))
}
