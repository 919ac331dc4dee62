//! What one read may make of few stored bytes.
//!
//! A text can stand for every element of a chunk or of a box, and the rows of a hostile layer can
//! name the same bytes for many chunks. Elements of one width are no danger: their memory is that of
//! the box that was asked for. The others, and decoded masks, are counted before any is made.

use crate::error::{ArrayError, Result, u64_len};
use crate::index::{Block, ChunkKind};
use crate::meta::ArrayMeta;
use crate::read::{Found, Request};

/// Bytes that elements may have together, in one call, of which fewer are stored.
const MAX_REPEATED: u64 = 4 << 30;

/// Refuses more than that.
pub(crate) fn check_repeated(bytes: u64) -> Result<()> {
    if bytes > MAX_REPEATED {
        return Err(ArrayError::TooLarge {
            what: "repeated element (bytes)",
            found: bytes,
            allowed: MAX_REPEATED,
        });
    }
    Ok(())
}

/// Bytes of so many fill values, where these have any length.
pub(crate) fn fill_bytes(meta: &ArrayMeta, elements: u64) -> u64 {
    match (meta.dtype.width(), meta.fill_element()) {
        (None, Some(fill)) => u64_len(fill.len()).saturating_mul(elements),
        _ => 0,
    }
}

/// Refuses chunks that make more of what is stored than one call may. Those of a block come
/// together: the number of the request that wants a chunk, the chunk, and where it begins.
pub(crate) fn check<'a>(
    requests: &[Request<'_>],
    chunks: impl Iterator<Item = (usize, &'a Found, &'a [u64])>,
) -> Result<()> {
    let mut repeated = 0_u64;
    let (mut before, mut left): (Option<(usize, Block)>, u64) = (None, 0);
    for (request, found, origin) in chunks {
        let Some(request) = requests.get(request) else {
            continue;
        };
        let (meta, row) = (request.meta, &found.row);
        let any_length = meta.dtype.width().is_none();
        match &row.kind {
            ChunkKind::Constant(element) if any_length => {
                let elements = request.selection.selected(origin, &found.visible);
                let bytes = u64_len(element.len()).saturating_mul(elements);
                repeated = repeated.saturating_add(bytes);
            }
            ChunkKind::Data if any_length || meta.nullable => {
                let block = (found.layer, row.block);
                if before != Some(block) {
                    (before, left) = (Some(block), u64::from(row.block.raw_length));
                }
                // Chunks that lie beside each other have no more bytes than their block.
                let length = u64::from(row.in_length);
                repeated = repeated.saturating_add(length.saturating_sub(left));
                left = left.saturating_sub(length);
            }
            _ => {}
        }
        check_repeated(repeated)?;
    }
    Ok(())
}

/// Refuses an element that stands for so many.
pub(crate) fn check_element(element: &[u8], elements: u64) -> Result<()> {
    check_repeated(u64_len(element.len()).saturating_mul(elements))
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, LazyLock};

    use bytes::Bytes;
    use object_store::memory::InMemory;
    use object_store::path::Path;

    use super::*;
    use crate::blocking::Snapshot;
    use crate::catalogue::CatalogueRow;
    use crate::codec::BlockCodec;
    use crate::index::ChunkRow;
    use crate::layer::{self, LayerId, LayerParts};
    use crate::meta::ArraySpec;
    use crate::spool::Piece;
    use crate::{DType, Location, StoreOptions};

    /// A single file of one array of texts, whose chunks are what a row says.
    #[expect(clippy::arithmetic_side_effects, reason = "small numbers of a test")]
    fn file(chunks: u64, chunk: u64, block: &'static [u8], row: &ChunkRow) -> Snapshot {
        let spec = ArraySpec::new(DType::Utf8, &[chunks * chunk]).chunks(&[chunk]);
        let meta = ArrayMeta::define(7, "t", spec).unwrap();
        let catalogue = [CatalogueRow {
            meta: Arc::new(meta),
            deleted: false,
            clip: None,
            chunks_written: chunks,
            through: None,
        }];
        let index: Vec<ChunkRow> =
            (0..chunks).map(|chunk| ChunkRow { chunk, ..row.clone() }).collect();
        let built = layer::build(LayerParts {
            id: LayerId([1; 16]),
            base: true,
            catalogue: &catalogue,
            index: &index,
            codecs: &[BlockCodec::none()],
            data: vec![Piece::from(Bytes::from_static(block))],
        })
        .unwrap();
        let memory = Arc::new(InMemory::new());
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let path = Path::from("x.iac");
        runtime.block_on(crate::backend::put_pieces(&*memory, &path, &built, 1 << 30)).unwrap();
        let location = Location::object_store(memory, "");
        Snapshot::open_file(location, "x.iac", &StoreOptions::default()).unwrap()
    }

    fn row(kind: ChunkKind, block: Block) -> ChunkRow {
        let in_length = block.raw_length;
        ChunkRow { array_id: 7, chunk: 0, block, in_offset: 0, in_length, kind, stats: None }
    }

    #[test]
    fn texts_that_stand_for_many_are_counted_over_all_chunks_of_a_call() {
        // Each chunk stays below the bound, and all of them together have 32 GiB.
        let text = vec![b'x'; 1 << 20];
        let file = file(32, 1 << 10, b"", &row(ChunkKind::Constant(text), Block::default()));
        let error = file.read_all("t").unwrap_err();
        assert!(
            matches!(error, ArrayError::TooLarge { found, .. } if found > MAX_REPEATED),
            "{error}"
        );
        let boxes: Vec<(&str, &[u64], &[u64])> = vec![("t", &[0], &[1 << 10]); 5];
        assert!(matches!(file.read_many(&boxes), Err(ArrayError::TooLarge { .. })));
        // Steps and parts count what they take.
        assert_eq!(file.read_step("t", &[1], &[32], &[1 << 10]).unwrap().shape(), [32]);
        assert_eq!(file.read("t", &[1020], &[8]).unwrap().shape(), [8]);
        assert!(file.verify().unwrap().is_empty());
    }

    #[test]
    fn chunks_that_share_bytes_are_counted_as_often_as_they_are_named() {
        // One element of 1 MiB, once as all of a block: its offsets and its bytes.
        static BLOCK: LazyLock<Vec<u8>> = LazyLock::new(|| {
            let mut block = Vec::from([0, 0, 0, 0, 0, 0, 16, 0]);
            block.resize(8 + (1 << 20), b'x');
            block
        });
        let block = BLOCK.as_slice();
        let place = Block {
            offset: 0,
            length: u32::try_from(block.len()).unwrap(),
            crc32: crc32fast::hash(block),
            raw_length: u32::try_from(block.len()).unwrap(),
            codec: 0,
        };
        let file = file(5000, 1, block, &row(ChunkKind::Data, place));
        assert!(matches!(file.read_all("t"), Err(ArrayError::TooLarge { .. })));
        let some = file.read("t", &[100], &[3]).unwrap();
        assert!(some.texts().unwrap().iter().all(|text| text.len() == 1 << 20));
        assert_eq!(some.shape(), [3]);
    }
}
