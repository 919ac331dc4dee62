//! Making blocks out of chunks: packing small ones together and compressing on several threads.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use iac_codec::Registry;
use rayon::prelude::*;

use crate::codec::{BlockCodec, Packing};
use crate::data::Values;
use crate::error::{ArrayError, Result, u64_len};
use crate::index::{Block, ChunkKind, ChunkRow};
use crate::meta::ArrayMeta;
use crate::planes::Planes;
use crate::spool::{Piece, Spool, SpooledBytes};
use crate::stats::StoredStats;

/// The bytes of a chunk.
pub(crate) enum Raw<'a> {
    /// Of elements of one width that a writer holds.
    Held(&'a Arc<Values>),
    /// Made for the layer.
    Made(Vec<u8>),
}

/// Held elements as bytes that a layer shares.
struct Shared(Arc<Values>);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        self.0.fixed()
    }
}

impl std::ops::Deref for Raw<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Held(values) => values.fixed(),
            Self::Made(bytes) => bytes,
        }
    }
}

impl Raw<'_> {
    /// The same bytes for a layer to keep, which takes no copy of those that are held.
    fn stored(&self) -> Bytes {
        match self {
            Self::Held(values) => Bytes::from_owner(Shared(Arc::clone(values))),
            Self::Made(bytes) => Bytes::copy_from_slice(bytes),
        }
    }
}

/// A chunk that is to be stored.
pub(crate) struct Item<'a> {
    pub(crate) array_id: u64,
    pub(crate) chunk: u64,
    /// Bytes of the numbers in it.
    pub(crate) lane: usize,
    pub(crate) raw: Raw<'a>,
    /// How it is packed, by its number in the list of packings.
    pub(crate) packing: usize,
    /// How it is images, if it is to be packed as such.
    pub(crate) planes: Option<Planes>,
    pub(crate) stats: Option<StoredStats>,
}

/// The packings of a layer in the making: that of the options first, then those of arrays that
/// have their own.
pub(crate) struct Packings<'a> {
    list: Vec<Packing>,
    by_text: HashMap<String, usize>,
    registry: &'a Registry,
}

impl<'a> Packings<'a> {
    pub(crate) fn new(own: &Packing, registry: &'a Registry) -> Self {
        Self { list: vec![own.clone()], by_text: HashMap::new(), registry }
    }

    /// Takes up the packing of an array; one that cannot encode here is that of the options.
    pub(crate) fn add(&mut self, meta: &ArrayMeta) {
        let Some(text) = meta.packing.as_ref().filter(|text| !self.by_text.contains_key(*text))
        else {
            return;
        };
        let number = match Packing::from_text(text, self.registry) {
            Some(packing) => {
                self.list.push(packing);
                self.list.len().saturating_sub(1)
            }
            None => 0,
        };
        self.by_text.insert(text.clone(), number);
    }

    /// The number of an array's packing, and how a chunk of it is images.
    pub(crate) fn of(&self, meta: &ArrayMeta, extents: &[u64]) -> (usize, Option<Planes>) {
        let text = meta.packing.as_ref();
        let number = text.and_then(|text| self.by_text.get(text)).copied().unwrap_or(0);
        (number, self.list.get(number).and_then(|packing| packing.planes(meta, extents)))
    }

    pub(crate) fn list(&self) -> &[Packing] {
        &self.list
    }
}

/// What blocks in the making may take of memory, and where the rest goes.
#[derive(Debug, Clone)]
pub(crate) struct Scratch {
    /// Bytes that wait in memory.
    pub(crate) memory: u64,
    /// The folder of temporary files, where it is not that of the system.
    pub(crate) folder: Option<PathBuf>,
}

impl Scratch {
    /// Bytes of chunks that are made and packed at once when not all of them may wait in memory.
    pub(crate) const fn window(&self) -> u64 {
        self.memory / 4
    }
}

/// Blocks and codecs of a layer in the making.
pub(crate) struct Blocks {
    pub(crate) codecs: Vec<BlockCodec>,
    pub(crate) pieces: Vec<Piece>,
    pub(crate) length: u64,
    /// Bytes of pieces in memory.
    held: u64,
    scratch: Scratch,
    spool: Option<Arc<Spool>>,
}

impl Blocks {
    /// No blocks; those that memory has no room for go into a temporary file.
    pub(crate) fn new(scratch: &Scratch) -> Self {
        Self {
            codecs: vec![BlockCodec::none()],
            pieces: Vec::new(),
            length: 0,
            held: 0,
            scratch: scratch.clone(),
            spool: None,
        }
    }

    /// The same where all blocks stay in memory.
    pub(crate) fn in_memory() -> Self {
        Self::new(&Scratch { memory: u64::MAX, folder: None })
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

    /// Takes stored bytes of a checksum; where they begin.
    pub(crate) fn push(&mut self, bytes: Bytes, crc32: u32) -> Result<u64> {
        let length = u64_len(bytes.len());
        let held = self.held.saturating_add(length);
        if held <= self.scratch.memory {
            self.held = held;
            return Ok(self.take(Piece::Held(bytes)));
        }
        let spool = match &self.spool {
            Some(spool) => Arc::clone(spool),
            None => Spool::new(self.scratch.folder.as_deref())?,
        };
        let offset = spool.append(&[bytes])?;
        self.spool = Some(Arc::clone(&spool));
        Ok(self.take(Piece::Spooled(SpooledBytes { spool, offset, length, crc32 })))
    }

    /// Takes a piece, wherever it is; where it begins in the layer.
    pub(crate) fn take(&mut self, piece: Piece) -> u64 {
        let offset = self.length;
        self.length = offset.saturating_add(piece.len());
        self.pieces.push(piece);
        offset
    }

    /// Packs chunks, which come in the order of their rows. Runs on the threads of the caller's
    /// pool; the bytes do not depend on how many there are.
    pub(crate) fn pack(
        &mut self,
        items: &[Item<'_>],
        packings: &[Packing],
        block_bytes: u64,
        rows: &mut Vec<ChunkRow>,
    ) -> Result<()> {
        let groups = groups(items, block_bytes);
        let mut codecs = Vec::with_capacity(groups.len());
        for group in &groups {
            let first = group.first();
            let packing = first.and_then(|item| packings.get(item.packing));
            let packing = packing.ok_or_else(|| ArrayError::argument("a chunk has no packing"))?;
            let codec = packing.for_lane(first.map_or(1, |item| item.lane));
            let number = self.codec(&codec).ok_or_else(too_many)?;
            let images = first.and_then(|item| item.planes).zip(packing.for_images());
            let images = match images {
                Some((planes, codec)) => {
                    let number = self.codec(&codec).ok_or_else(too_many)?;
                    Some((planes, codec, number))
                }
                None => None,
            };
            codecs.push((codec, number, images));
        }
        let jobs: Vec<_> = groups.into_iter().zip(codecs).collect();
        let packed: Vec<Result<(Vec<ChunkRow>, Bytes)>> = jobs
            .into_par_iter()
            .map(|(group, (codec, number, images))| block(group, &codec, number, images.as_ref()))
            .collect();
        for result in packed {
            let (mut chunks, bytes) = result?;
            let crc32 = chunks.first().map_or(0, |row| row.block.crc32);
            let offset = self.push(bytes, crc32)?;
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
        let alike = |first: &Item<'_>| first.lane == item.lane && first.packing == item.packing;
        let other = items.get(from).is_some_and(|first| !alike(first));
        let large = raw >= block_bytes / 2 || item.planes.is_some();
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

pub(crate) fn too_many() -> ArrayError {
    ArrayError::TooLarge { what: "number of codecs in a layer", found: 256, allowed: 255 }
}

fn block(
    group: &[Item<'_>],
    codec: &BlockCodec,
    number: u8,
    images: Option<&(Planes, BlockCodec, u8)>,
) -> Result<(Vec<ChunkRow>, Bytes)> {
    let raw: Cow<'_, [u8]> = match group {
        [only] => Cow::Borrowed(&only.raw),
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
    let image = match images {
        Some((planes, codec, number)) => {
            codec.encode_planes(*planes, &raw)?.map(|stored| (stored, *number))
        }
        None => None,
    };
    let (stored, codec) = match image {
        Some((stored, number)) => (Bytes::from(stored), number),
        None => match (codec.encode(&raw)?, group) {
            (Some(stored), _) => (Bytes::from(stored), number),
            (None, [only]) => (only.raw.stored(), 0),
            (None, _) => (Bytes::from(raw.into_owned()), 0),
        },
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
            stats: item.stats,
        });
        in_offset = in_offset.saturating_add(in_length);
    }
    Ok((rows, stored))
}
