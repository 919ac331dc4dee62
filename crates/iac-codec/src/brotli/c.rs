//! Encoding by the C library.

use brotlic::{CompressionMode, Quality, WindowSize};

use super::NAME;
use crate::{CodecError, Result};

pub(super) fn encode(record: &[u8], quality: i32, lgwin: i32) -> Result<Vec<u8>> {
    let range = |_| CodecError::encode(NAME, "its parameters are out of range");
    let quality = Quality::new(u8::try_from(quality).unwrap_or(u8::MAX)).map_err(range)?;
    let window = WindowSize::new(u8::try_from(lgwin).unwrap_or(u8::MAX)).map_err(range)?;
    // The library stores a record as it is when nothing shorter fits, so the bound holds for
    // every quality; the crate gives it only for those from 2 upwards.
    let bound = Quality::new(2)
        .ok()
        .and_then(|quality| brotlic::compress_bound(record.len(), quality))
        .filter(|bound| *bound != 0);
    let bound =
        bound.ok_or_else(|| CodecError::encode(NAME, format!("it has {} bytes", record.len())))?;
    let mut payload = vec![0; bound];
    let mode = CompressionMode::Generic;
    let written = brotlic::compress(record, &mut payload, quality, window, mode)
        .map_err(|_| CodecError::encode(NAME, "the library refused it"))?;
    payload.truncate(written);
    payload.shrink_to_fit();
    Ok(payload)
}
