//! The beginnings of records.

use zstd_safe::{DCtx, DDict, InBuffer, OutBuffer};

use super::{backend_reason, damaged, no_memory};
use crate::codec::u64_len;
use crate::{Limits, Result};

/// Room that is made at once: one block, beyond which the library does not decode without need.
const STEP: usize = 128 << 10;

/// Decodes frames block by block until that is enough.
pub(super) fn prefix(
    payload: &[u8],
    dictionary: Option<&DDict<'static>>,
    wanted: &mut dyn FnMut(&[u8]) -> usize,
    limits: &Limits,
) -> Result<Vec<u8>> {
    let reason = |code| damaged(backend_reason(code));
    let mut context = DCtx::try_create().ok_or_else(|| no_memory(STEP))?;
    if let Some(dictionary) = dictionary {
        context.ref_ddict(dictionary).map_err(reason)?;
    }
    let most = usize::try_from(limits.max_decoded_bytes).unwrap_or(usize::MAX).saturating_add(1);
    let mut input = InBuffer::around(payload);
    let mut out = Vec::new();
    let mut ended = false;
    loop {
        let filled = out.len();
        if ended || wanted(&out) <= filled || filled >= most {
            limits.check_decoded_bytes(u64_len(filled))?;
            return Ok(out);
        }
        let room = STEP.min(most.saturating_sub(filled));
        out.try_reserve(room).map_err(|_| no_memory(room))?;
        out.resize(filled.saturating_add(room), 0);
        let before = input.pos();
        let mut target = OutBuffer::around(out.get_mut(filled..).unwrap_or_default());
        let hint = context.decompress_stream(&mut target, &mut input).map_err(reason)?;
        let written = target.pos();
        out.truncate(filled.saturating_add(written));
        let used_up = input.pos() >= payload.len();
        if used_up && hint == 0 {
            ended = true;
        } else if written == 0 && input.pos() == before {
            return Err(damaged("the payload is cut".to_owned()));
        }
    }
}
