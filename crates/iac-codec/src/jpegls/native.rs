//! The calls into CharLS.
//!
//! Sound because every pointer handed over comes from a slice that outlives the call and goes
//! with that slice's length, a handle lives within one call, and no callback is installed. What
//! the library does not check itself is checked before: [`super::header`] refuses streams whose
//! scans would write past a plane, and sizes of source and destination are compared with the
//! frame here. The tests of altered streams (every byte of small streams, run under a memory
//! checker too) would notice a hole.
#![allow(unsafe_code)]

use std::ptr;

use charls_sys as sys;

use super::header::Interleave;
use super::{NAME, Preset};
use crate::{CodecError, Result};

/// What the library needs to know about an image to encode.
pub(super) struct Frame {
    pub(super) height: u32,
    pub(super) width: u32,
    pub(super) bits: u8,
    pub(super) channels: u8,
    pub(super) interleave: Interleave,
    pub(super) near_lossless: u8,
    pub(super) preset: Option<Preset>,
}

struct Decoder(*mut sys::charls_jpegls_decoder);

impl Decoder {
    fn new(payload: &[u8]) -> Result<Self> {
        // SAFETY: no preconditions; a null pointer is checked.
        let decoder = Self(unsafe { sys::charls_jpegls_decoder_create() });
        if decoder.0.is_null() {
            return Err(out_of_memory());
        }
        // SAFETY: the handle is live, and pointer and length are those of one slice, which the
        // caller holds until the decoder is gone.
        check_decode(unsafe {
            sys::charls_jpegls_decoder_set_source_buffer(
                decoder.0,
                payload.as_ptr().cast(),
                payload.len(),
            )
        })?;
        // SAFETY: the handle is live and has its source.
        check_decode(unsafe { sys::charls_jpegls_decoder_read_header(decoder.0) })?;
        Ok(decoder)
    }
}

impl Drop for Decoder {
    fn drop(&mut self) {
        // SAFETY: the handle came from `create`, and this is its only release; null is allowed.
        unsafe { sys::charls_jpegls_decoder_destroy(self.0) };
    }
}

/// Decodes a payload that ends in an end-of-image marker into `out`, which must have exactly the bytes of the frame: pixels, or planes when the
/// stream has a scan for each component.
pub(super) fn decode(payload: &[u8], out: &mut [u8]) -> Result<()> {
    let decoder = Decoder::new(payload)?;
    let mut wanted = 0_usize;
    // SAFETY: the handle is live and has read its header; `wanted` is written to.
    check_decode(unsafe {
        sys::charls_jpegls_decoder_get_destination_size(decoder.0, 0, &raw mut wanted)
    })?;
    if wanted != out.len() {
        return Err(CodecError::OutputSize {
            name: NAME.to_owned(),
            expected: crate::codec::u64_len(out.len()),
            found: crate::codec::u64_len(wanted),
        });
    }
    // SAFETY: the handle is live; pointer and length are those of one slice that nothing else
    // uses; rows without gaps (stride 0) fill exactly `wanted` bytes.
    check_decode(unsafe {
        sys::charls_jpegls_decoder_decode_to_buffer(
            decoder.0,
            out.as_mut_ptr().cast(),
            out.len(),
            0,
        )
    })
}

struct Encoder(*mut sys::charls_jpegls_encoder);

impl Drop for Encoder {
    fn drop(&mut self) {
        // SAFETY: the handle came from `create`, and this is its only release; null is allowed.
        unsafe { sys::charls_jpegls_encoder_destroy(self.0) };
    }
}

/// Encodes `source`: the frame's samples of one or two bytes, as pixels or, without interleaving,
/// as planes. Gives nothing when the stream has no room in `out`'s capacity.
pub(super) fn encode(frame: &Frame, source: &[u8], out: &mut Vec<u8>) -> Result<Option<()>> {
    let expected = usize::try_from(frame.height).ok().and_then(|size| {
        size.checked_mul(usize::try_from(frame.width).ok()?)?
            .checked_mul(usize::from(frame.channels))?
            .checked_mul(if frame.bits > 8 { 2 } else { 1 })
    });
    if expected != Some(source.len()) {
        return Err(CodecError::encode(NAME, "the samples do not match the frame"));
    }
    // SAFETY: no preconditions; a null pointer is checked.
    let encoder = Encoder(unsafe { sys::charls_jpegls_encoder_create() });
    if encoder.0.is_null() {
        return Err(out_of_memory());
    }
    let info = sys::charls_frame_info {
        width: frame.width,
        height: frame.height,
        bits_per_sample: i32::from(frame.bits),
        component_count: i32::from(frame.channels),
    };
    let mode = match frame.interleave {
        Interleave::None => sys::charls_interleave_mode_none,
        Interleave::Line => sys::charls_interleave_mode_line,
        Interleave::Sample => sys::charls_interleave_mode_sample,
    };
    let preset = frame.preset.map(|preset| sys::charls_jpegls_pc_parameters {
        maximum_sample_value: 0,
        threshold1: i32::from(preset.threshold1),
        threshold2: i32::from(preset.threshold2),
        threshold3: i32::from(preset.threshold3),
        reset_value: i32::from(preset.reset_value),
    });
    out.clear();
    let room = out.capacity();
    // SAFETY: the handle is live; the structs are read during the call. `out` owns `room` bytes
    // behind its pointer and is not touched before the encoder is done with them.
    unsafe {
        check_encode(sys::charls_jpegls_encoder_set_frame_info(encoder.0, &raw const info))?;
        check_encode(sys::charls_jpegls_encoder_set_near_lossless(
            encoder.0,
            i32::from(frame.near_lossless),
        ))?;
        check_encode(sys::charls_jpegls_encoder_set_interleave_mode(encoder.0, mode))?;
        if let Some(preset) = &preset {
            check_encode(sys::charls_jpegls_encoder_set_preset_coding_parameters(
                encoder.0,
                ptr::from_ref(preset),
            ))?;
        }
        check_encode(sys::charls_jpegls_encoder_set_destination_buffer(
            encoder.0,
            out.as_mut_ptr().cast(),
            room,
        ))?;
    }
    // SAFETY: the handle is live; `source` has exactly the samples of the frame, whose rows have
    // no gaps (stride 0).
    let result = unsafe {
        sys::charls_jpegls_encoder_encode_from_buffer(
            encoder.0,
            source.as_ptr().cast(),
            source.len(),
            0,
        )
    };
    if result == sys::charls_jpegls_errc_destination_buffer_too_small {
        return Ok(None);
    }
    check_encode(result)?;
    let mut written = 0_usize;
    // SAFETY: the handle is live; `written` is written to.
    check_encode(unsafe {
        sys::charls_jpegls_encoder_get_bytes_written(encoder.0, &raw mut written)
    })?;
    if written > room {
        return Err(CodecError::encode(NAME, "the library wrote past the room it was given"));
    }
    // SAFETY: the library wrote the first `written` bytes, which lie within the capacity.
    unsafe { out.set_len(written) };
    Ok(Some(()))
}

fn out_of_memory() -> CodecError {
    CodecError::Limit { what: "bytes of native memory", found: 0, allowed: 0 }
}

fn reason(code: sys::charls_jpegls_errc) -> String {
    match code {
        sys::charls_jpegls_errc_source_buffer_too_small => "it is cut".to_owned(),
        sys::charls_jpegls_errc_invalid_encoded_data => "the bits of a scan are damaged".to_owned(),
        sys::charls_jpegls_errc_too_much_encoded_data => {
            "a scan has bits left behind its last sample".to_owned()
        }
        sys::charls_jpegls_errc_end_of_image_marker_not_found => {
            "no end-of-image marker follows its last scan".to_owned()
        }
        sys::charls_jpegls_errc_jpeg_marker_start_byte_not_found => {
            "a marker is missing behind a scan or segment".to_owned()
        }
        sys::charls_jpegls_errc_restart_marker_not_found => {
            "a restart marker is missing".to_owned()
        }
        sys::charls_jpegls_errc_invalid_parameter_jpegls_preset_parameters
        | sys::charls_jpegls_errc_invalid_argument_jpegls_pc_parameters => {
            "preset parameters are out of their ranges".to_owned()
        }
        sys::charls_jpegls_errc_invalid_parameter_near_lossless => {
            "its near-lossless bound is above half the highest sample value".to_owned()
        }
        other => format!("CharLS reports error {other}"),
    }
}

fn check_decode(code: sys::charls_jpegls_errc) -> Result<()> {
    match code {
        sys::charls_jpegls_errc_success => Ok(()),
        sys::charls_jpegls_errc_not_enough_memory => Err(out_of_memory()),
        sys::charls_jpegls_errc_parameter_value_not_supported
        | sys::charls_jpegls_errc_color_transform_not_supported
        | sys::charls_jpegls_errc_bit_depth_for_transform_not_supported
        | sys::charls_jpegls_errc_jpegls_preset_extended_parameter_type_not_supported => {
            Err(super::unsupported(format!("CharLS does not support it (code {code})")))
        }
        code => Err(CodecError::decode(NAME, reason(code))),
    }
}

fn check_encode(code: sys::charls_jpegls_errc) -> Result<()> {
    match code {
        sys::charls_jpegls_errc_success => Ok(()),
        sys::charls_jpegls_errc_not_enough_memory => Err(out_of_memory()),
        code => Err(CodecError::encode(NAME, reason(code))),
    }
}
