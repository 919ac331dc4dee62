//! What a block holds against the rules, for itself.

use iac_codec::Limits;

use crate::text::block::{check_texts, document, split};
use crate::text::fault::BlockError;
use crate::text::manifest::{self, Keep, Manifest, TextSpan};
use crate::text::model::TextDocument;

/// What is wrong with one row's block, found on another thread.
#[derive(Default)]
pub(super) struct BlockFaults {
    pub(super) manifest: Option<Manifest>,
    pub(super) fault: Option<BlockError>,
    pub(super) warnings: Vec<String>,
    pub(super) sums: [u64; 2],
}

/// Looks a block through.
pub(super) fn inspect<D: TextDocument>(block: &[u8], limits: &Limits) -> BlockFaults {
    let mut found = BlockFaults::default();
    match look::<D>(block, limits, &mut found) {
        Ok(manifest) => found.manifest = Some(manifest),
        Err(fault) => found.fault = Some(fault),
    }
    found
}

fn look<D: TextDocument>(
    block: &[u8],
    limits: &Limits,
    found: &mut BlockFaults,
) -> Result<Manifest, BlockError> {
    let (bytes, body) = split(block)?;
    let manifest = manifest::parse::<D>(bytes, Keep::All, limits.max_decoded_bytes)?.manifest;
    check_texts::<D>(&manifest, body, limits)?;
    let body_bytes = u64::try_from(body.len()).unwrap_or(u64::MAX);
    let mut spans: Vec<TextSpan> = Vec::new();
    for (number, doc) in (0_u64..).zip(&manifest.docs) {
        // Whatever is wrong with spans and texts shows here.
        document::<D>(number, doc.clone(), body)?;
        for ((sum, span), field) in found.sums.iter_mut().zip(doc.spans).zip(D::TEXTS) {
            *sum = sum.saturating_add(span.length);
            if span.length > 0 {
                spans.push(span);
            } else if span.offset > body_bytes {
                found.warnings.push(format!(
                    "document {number}: the empty {} lies at offset {}, behind the body of \
                     {body_bytes} bytes",
                    field.name, span.offset
                ));
            }
        }
    }
    spans.sort_unstable_by_key(|span| (span.offset, span.length));
    let (mut end, mut unused, mut shared) = (0_u64, 0_u64, 0_u64);
    for span in spans {
        let behind = span.offset.saturating_add(span.length);
        unused = unused.saturating_add(span.offset.saturating_sub(end));
        let again = end.min(behind).saturating_sub(span.offset);
        shared = shared.saturating_add(again);
        end = end.max(behind);
    }
    unused = unused.saturating_add(body_bytes.saturating_sub(end));
    if unused > 0 {
        found.warnings.push(format!("{unused} bytes of the body belong to no text"));
    }
    if shared > 0 {
        found.warnings.push(format!("{shared} bytes of the body belong to several texts"));
    }
    Ok(manifest)
}
