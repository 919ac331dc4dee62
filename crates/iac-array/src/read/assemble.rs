//! Putting the elements of chunks where requests want them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

use bytes::Bytes;

use super::fetch::LayerBlock;
use super::locate::Found;
use super::sink::Sink;
use crate::data::{Place, Source, Target, Values, copy_out};
use crate::error::{ArrayError, Result, u64_len};
use crate::grid::{Selection, product};
use crate::index::ChunkKind;
use crate::meta::ArrayMeta;
use crate::pending::{PendingArray, PendingChunk};
use crate::snapshot::Inner;

/// A box of one array, and where its elements go.
pub(crate) struct Request<'a> {
    pub(crate) meta: &'a ArrayMeta,
    pub(crate) pending: Option<&'a PendingArray>,
    pub(crate) selection: Selection,
    pub(crate) target: Target<'a>,
}

/// A chunk whose elements a request needs.
struct Piece {
    request: usize,
    origin: Vec<u64>,
    found: Found,
}

impl Piece {
    /// The block that its elements are in.
    fn block(&self) -> Option<LayerBlock> {
        (self.found.row.kind == ChunkKind::Data).then_some((self.found.layer, self.found.row.block))
    }

    fn place(&self) -> Place<'_> {
        Place { origin: &self.origin, extents: &self.found.extents, visible: &self.found.visible }
    }
}

impl Inner {
    /// Reads boxes; their targets hold fill values already.
    pub(crate) async fn read(&self, mut requests: Vec<Request<'_>>) -> Result<()> {
        let mut pieces = Vec::new();
        for (number, request) in requests.iter_mut().enumerate() {
            let grid = request.meta.grid()?;
            let mut chunks = grid.touched(&request.selection)?;
            if let Some(pending) = request.pending {
                let (chunks_left, target) = (&mut chunks, &mut request.target);
                let (meta, selection) = (request.meta, &request.selection);
                let mut failed = None;
                chunks_left.retain(|chunk| {
                    let Some(held) = pending.chunks.get(chunk) else {
                        return true;
                    };
                    let done = paste_pending(held, &grid.origin(chunk), meta, selection, target);
                    failed = failed.take().or(done.err());
                    false
                });
                if let Some(error) = failed {
                    return Err(error);
                }
                if pending.is_new {
                    continue;
                }
            }
            let clip = request.pending.and_then(|pending| pending.clip.as_deref());
            let every = 0..self.layers.len();
            let located = self.locate(every, request.meta, &chunks, clip).await?;
            for (chunk, found) in chunks.iter().zip(located) {
                if let Some(found) = found.filter(|found| found.row.kind != ChunkKind::Erased) {
                    pieces.push(Piece { request: number, origin: grid.origin(chunk), found });
                }
            }
        }
        // Pieces of one block come together, and blocks in the order of their places; those that
        // are in no block come first.
        pieces.sort_by_key(Piece::block);
        let wanted = pieces.iter().map(|piece| (piece.request, &piece.found, &*piece.origin));
        crate::expand::check(&requests, wanted)?;
        let mut metas = Vec::with_capacity(requests.len());
        let mut sinks = Vec::with_capacity(requests.len());
        for request in requests {
            sinks.push(Sink::new(&request.selection, request.target, request.meta.width())?);
            metas.push(request.meta);
        }
        let paste = |piece: &Piece, block: &[u8]| match (
            metas.get(piece.request),
            sinks.get(piece.request),
        ) {
            (Some(meta), Some(sink)) => self.paste(meta, piece, block, sink),
            _ => Ok(()),
        };
        let (constant, data) =
            pieces.split_at(pieces.partition_point(|piece| piece.block().is_none()));
        constant.iter().try_for_each(|piece| paste(piece, &[]))?;
        let (blocks, parts) = by_block(data);
        // One large read would drive out all that others have in the cache, itself included.
        let raw = blocks
            .iter()
            .fold(0_u64, |all, (_, block)| all.saturating_add(u64::from(block.raw_length)));
        let keep = raw <= self.backend.cache.budget() / 2;
        let copied = sinks.iter().fold(0_u64, |all, sink| all.saturating_add(sink.bytes()));
        self.each_block(&blocks, keep, copied, |at, decoded| {
            let part = parts.get(at).and_then(|part| data.get(part.clone()));
            part.unwrap_or_default().iter().try_for_each(|piece| paste(piece, decoded.as_slice()))
        })
        .await
    }

    /// Copies a chunk to where its request wants its elements.
    fn paste(&self, meta: &ArrayMeta, piece: &Piece, block: &[u8], sink: &Sink<'_>) -> Result<()> {
        let found = &piece.found;
        let bytes = self.chunk_part(meta, found, Some(block))?;
        let place = piece.place();
        if matches!(found.row.kind, ChunkKind::Constant(_)) {
            return sink.paste(Source::Every(&bytes), place);
        }
        if meta.dtype.width().is_some() {
            return sink.paste(Source::Fixed(&bytes), place);
        }
        sink.paste(Source::Variable(&self.decode_values(meta, found, &bytes)?), place)
    }

    /// The bytes of a chunk within its block, as elements and checked against its shape where these
    /// have one width; of a constant chunk those of one element.
    fn chunk_part<'b>(
        &self,
        meta: &ArrayMeta,
        found: &'b Found,
        block: Option<&'b [u8]>,
    ) -> Result<Cow<'b, [u8]>> {
        let row = &found.row;
        let corrupt = |reason: String| self.chunk_error(meta, found, &reason);
        let elements = product(&found.extents).unwrap_or(u64::MAX);
        // What no writer makes is not given memory either.
        let least = u64_len(meta.dtype.width().unwrap_or(4));
        if elements.checked_mul(least).is_none_or(|bytes| bytes > crate::meta::MAX_CHUNK_BYTES) {
            return Err(corrupt(format!("it has {elements} elements, more than a chunk may have")));
        }
        let bytes = match &row.kind {
            ChunkKind::Data => {
                let block = block.ok_or_else(|| corrupt("its block is missing".to_owned()))?;
                let from = usize::try_from(row.in_offset).unwrap_or(usize::MAX);
                let end = from.saturating_add(usize::try_from(row.in_length).unwrap_or(usize::MAX));
                let bytes = block.get(from..end);
                bytes
                    .ok_or_else(|| corrupt(format!("it ends at {end} of {} bytes", block.len())))?
            }
            ChunkKind::Constant(element) => {
                meta.check_element(element).map_err(corrupt)?;
                return Ok(Cow::Borrowed(element));
            }
            ChunkKind::Erased => return Ok(Cow::default()),
        };
        match meta.dtype.width() {
            Some(_) => meta.decode_fixed(bytes, elements).map_err(corrupt),
            None => Ok(Cow::Borrowed(bytes)),
        }
    }

    /// The elements of a chunk whose elements differ in length.
    fn decode_values(&self, meta: &ArrayMeta, found: &Found, bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
        let elements = product(&found.extents).unwrap_or(u64::MAX);
        meta.decode_variable(bytes, elements)
            .map_err(|reason| self.chunk_error(meta, found, &reason))
    }

    /// Finds out whether a chunk can be read, without taking memory for chunks of one value.
    pub(crate) fn check_chunk(
        &self,
        meta: &ArrayMeta,
        found: &Found,
        blocks: &BTreeMap<LayerBlock, Bytes>,
    ) -> Result<()> {
        let bytes = self.chunk_part(meta, found, block_of(found, blocks))?;
        if meta.dtype.width().is_none() && found.row.kind == ChunkKind::Data {
            self.decode_values(meta, found, &bytes)?;
        }
        Ok(())
    }

    /// The elements of a found chunk.
    pub(crate) fn chunk_values(
        &self,
        meta: &ArrayMeta,
        found: &Found,
        blocks: &BTreeMap<LayerBlock, Bytes>,
    ) -> Result<Values> {
        let bytes = self.chunk_part(meta, found, block_of(found, blocks))?;
        if matches!(found.row.kind, ChunkKind::Constant(_)) {
            let elements = product(&found.extents).unwrap_or(u64::MAX);
            return Values::filled(meta.element_width(), Some(&bytes), elements);
        }
        match meta.dtype.width() {
            Some(_) => Ok(Values::Fixed(bytes.into_owned())),
            None => self.decode_values(meta, found, &bytes).map(Values::Variable),
        }
    }

    fn chunk_error(&self, meta: &ArrayMeta, found: &Found, reason: &str) -> ArrayError {
        let object = self.layers.get(found.layer).map_or("layer", |layer| layer.object.as_str());
        let reason = format!("array `{}`, chunk {}: {reason}", meta.name, found.row.chunk);
        ArrayError::corrupt(object, reason)
    }
}

fn block_of<'b>(found: &Found, blocks: &'b BTreeMap<LayerBlock, Bytes>) -> Option<&'b [u8]> {
    blocks.get(&(found.layer, found.row.block)).map(|bytes| &**bytes)
}

/// The blocks of sorted pieces, and which pieces lie in each.
fn by_block(pieces: &[Piece]) -> (Vec<LayerBlock>, Vec<Range<usize>>) {
    let mut blocks: Vec<LayerBlock> = Vec::new();
    let mut parts: Vec<Range<usize>> = Vec::new();
    for (at, piece) in pieces.iter().enumerate() {
        let Some(block) = piece.block() else {
            continue;
        };
        let end = at.saturating_add(1);
        match parts.last_mut().filter(|_| blocks.last() == Some(&block)) {
            Some(part) => part.end = end,
            None => {
                blocks.push(block);
                parts.push(at..end);
            }
        }
    }
    (blocks, parts)
}

fn paste_pending(
    chunk: &PendingChunk,
    origin: &[u64],
    meta: &ArrayMeta,
    selection: &Selection,
    target: &mut Target<'_>,
) -> Result<()> {
    if let PendingChunk::Constant { element, extents } = chunk {
        let place = Place { origin, extents, visible: extents };
        return copy_out(Source::Every(element), place, target, selection, meta.width());
    }
    let Some((values, extents)) = chunk.values(meta)? else {
        return Ok(());
    };
    let place = Place { origin, extents, visible: extents };
    copy_out(values.as_source(), place, target, selection, meta.width())
}
