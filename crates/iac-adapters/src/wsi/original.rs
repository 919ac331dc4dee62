//! Tiles as they were in the file that a slide was imported from.

use bytes::Bytes;

use super::codec_params::RasterCodec;
use super::kind;
use super::read::WsiPackReader;
use crate::error::Result;

impl WsiPackReader {
    /// The bytes that a tile had in the slide's file: of packs whose tiles were passed through, or
    /// are JPEG tiles in the form of JPEG XL. Nothing where there is no tile, and for packs of
    /// encoded pixels.
    ///
    /// Shared tables are not part of it; see [`WsiInfo`](super::WsiInfo).
    ///
    /// # Errors
    ///
    /// [`AdapterError::Read`](crate::AdapterError::Read) and
    /// [`AdapterError::Codec`](crate::AdapterError::Codec) when the tile is damaged, or needs libjxl
    /// and this build lacks it.
    pub fn original_tile(&self, tile_x: u64, tile_y: u64) -> Result<Option<Bytes>> {
        let info = self.info();
        let Some(row) = self.tile_row(tile_x, tile_y) else { return Ok(None) };
        let Some(transcode) = &info.transcode else {
            return match info.codec {
                RasterCodec::Jxl { .. } => Ok(None),
                _ => Ok(Some(self.reader().read(row)?)),
            };
        };
        let name = format!("iac.jpeg/{tile_x}/{tile_y}");
        if let Some(kept) = self.auxiliary_row(kind::BINARY, &name) {
            return Ok(Some(self.reader().read(kept)?));
        }
        let payload = self.reader().read(row)?;
        let stream = rebuilt(&payload, &self.inner.limits)
            .map_err(|source| self.codec_error(row, source))?;
        let tile = tile_of_stream(&stream, transcode.tables.as_deref()).ok_or_else(|| {
            self.codec_error(
                row,
                iac_codec::CodecError::decode(
                    "jxl",
                    "the JPEG stream inside does not begin with the shared tables",
                ),
            )
        })?;
        Ok(Some(tile.into()))
    }
}

#[cfg(feature = "jxl")]
fn rebuilt(payload: &[u8], limits: &iac_codec::Limits) -> Result<Vec<u8>, iac_codec::CodecError> {
    iac_codec::jxl::reconstruct_jpeg(payload, limits)?
        .ok_or_else(|| iac_codec::CodecError::decode("jxl", "the stream holds no JPEG file"))
}

#[cfg(not(feature = "jxl"))]
fn rebuilt(_: &[u8], _: &iac_codec::Limits) -> Result<Vec<u8>, iac_codec::CodecError> {
    Err(iac_codec::CodecError::MissingFeature { name: "jxl", feature: "jxl" })
}

/// What was joined with shared tables to a stream: the reverse of
/// [`complete_stream`](iac_codec::jpeg::complete_stream). Nothing where the stream is not such.
pub(crate) fn tile_of_stream(stream: &[u8], tables: Option<&[u8]>) -> Option<Vec<u8>> {
    const START: &[u8] = &[0xFF, 0xD8];
    let tables = tables.unwrap_or_default();
    let tables = tables.strip_prefix(START).unwrap_or(tables);
    let tables = tables.strip_suffix(&[0xFF, 0xD9]).unwrap_or(tables);
    let body = stream.strip_prefix(START)?.strip_prefix(tables)?;
    // The marker of the colours stands right before the first scan.
    let mut at = 0_usize;
    let mut last = None;
    loop {
        match body.get(at..)? {
            [0xFF, 0xFF, ..] => at = at.checked_add(1)?,
            [0xFF, 0xDA, ..] => break,
            [0xFF, 0x01 | 0xD0..=0xD9, ..] => at = at.checked_add(2)?,
            [0xFF, marker, high, low, ..] => {
                let length = usize::from(u16::from_be_bytes([*high, *low])).checked_add(2)?;
                last = Some((at, *marker, length));
                at = at.checked_add(length)?;
            }
            _ => return None,
        }
    }
    let (start, 0xEE, 16) = last? else { return None };
    let mut tile = START.to_vec();
    tile.extend_from_slice(body.get(..start)?);
    tile.extend_from_slice(body.get(at..)?);
    Some(tile)
}

#[cfg(all(test, feature = "wsi-import"))]
mod tests {
    use super::*;
    use iac_codec::Parameters;
    use iac_codec::jpeg::complete_stream;

    #[test]
    fn joining_is_undone() {
        let tables = b"\xFF\xD8\xFF\xDB\x00\x03q\xFF\xD9";
        let payload = b"\xFF\xD8\xFF\xC4\x00\x04ab\xFF\xDA\x00\x02scan\xFF\xD9";
        let mut parameters = Parameters::new();
        parameters.insert("encoded_color_space".to_owned(), "RGB".into());
        let tables_text = {
            use base64::Engine as _;
            base64::engine::general_purpose::STANDARD.encode(tables)
        };
        parameters.insert("tables_base64".to_owned(), tables_text.into());
        let stream = complete_stream(&parameters, payload).unwrap();
        assert_eq!(tile_of_stream(&stream, Some(tables)).unwrap(), payload);
        for cut in 0..stream.len().saturating_sub(8) {
            let _ = tile_of_stream(&stream[..cut], Some(tables));
        }
        assert_eq!(tile_of_stream(payload, None), None);
    }
}
