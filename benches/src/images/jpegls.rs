//! JPEG-LS on CharLS.
#![allow(unsafe_code, reason = "the library alone is what ours is compared with")]

use charls_sys as sys;
use iac_codec::jpegls::JpeglsOptions;
use iac_codec::{Image, SamplesMut, SamplesRef};
use serde_json::json;

use super::{Bare, Subject};
use crate::Result;

/// An image, its depth, and room for a stream.
struct Charls {
    image: Image,
    bits: i32,
    near: i32,
    stream: Vec<u8>,
}

fn done(code: sys::charls_jpegls_errc) -> Result<()> {
    if code == sys::charls_jpegls_errc_success {
        Ok(())
    } else {
        Err(format!("the library failed with code {code}").into())
    }
}

impl Bare for Charls {
    fn encode(&mut self) -> Result<usize> {
        let shape = self.image.shape();
        let info = sys::charls_frame_info {
            width: shape.width(),
            height: shape.height(),
            bits_per_sample: self.bits,
            component_count: i32::try_from(shape.channels())?,
        };
        let mode = if shape.channels() == 1 {
            sys::charls_interleave_mode_none
        } else {
            sys::charls_interleave_mode_sample
        };
        let (source, bytes) = match self.image.samples() {
            SamplesRef::U8(samples) => (samples.as_ptr().cast(), samples.len()),
            SamplesRef::U16(samples) => (samples.as_ptr().cast(), samples.len() * 2),
            _ => return Err("no such type".into()),
        };
        let mut written = 0;
        // SAFETY: the calls are in the order that the library's manual gives, with its own handle;
        // all pointers are those of memory with the sizes given.
        unsafe {
            let encoder = sys::charls_jpegls_encoder_create();
            let result = done(sys::charls_jpegls_encoder_set_frame_info(encoder, &raw const info))
                .and_then(|()| done(sys::charls_jpegls_encoder_set_interleave_mode(encoder, mode)))
                .and_then(|()| {
                    done(sys::charls_jpegls_encoder_set_near_lossless(encoder, self.near))
                })
                .and_then(|()| {
                    done(sys::charls_jpegls_encoder_set_destination_buffer(
                        encoder,
                        self.stream.as_mut_ptr().cast(),
                        self.stream.len(),
                    ))
                })
                .and_then(|()| {
                    done(sys::charls_jpegls_encoder_encode_from_buffer(encoder, source, bytes, 0))
                })
                .and_then(|()| {
                    done(sys::charls_jpegls_encoder_get_bytes_written(encoder, &raw mut written))
                });
            sys::charls_jpegls_encoder_destroy(encoder);
            result?;
        }
        Ok(written)
    }

    fn decode(&mut self, payload: &[u8], out: SamplesMut<'_>) -> Result<()> {
        let (place, bytes) = match out {
            SamplesMut::U8(out) => (out.as_mut_ptr().cast(), out.len()),
            SamplesMut::U16(out) => (out.as_mut_ptr().cast(), out.len() * 2),
            _ => return Err("no such type".into()),
        };
        // SAFETY: as in `encode`.
        unsafe {
            let decoder = sys::charls_jpegls_decoder_create();
            let (start, length) = (payload.as_ptr().cast(), payload.len());
            let result = done(sys::charls_jpegls_decoder_set_source_buffer(decoder, start, length))
                .and_then(|()| done(sys::charls_jpegls_decoder_read_header(decoder)))
                .and_then(|()| {
                    done(sys::charls_jpegls_decoder_decode_to_buffer(decoder, place, bytes, 0))
                });
            sys::charls_jpegls_decoder_destroy(decoder);
            result
        }
    }
}

/// The images and the ways to store them.
///
/// # Errors
///
/// When an image cannot be read.
pub fn subjects() -> Result<Vec<Subject>> {
    let (tissue, slice) = (super::tissue()?, super::slice()?);
    let mut subjects = Vec::new();
    for (name, image, bits, near) in [
        ("RGB", &tissue, 8_u8, 0_u8),
        ("RGB, near 2", &tissue, 8, 2),
        ("u16 of 12 bits", &slice, 12, 0),
        ("u16", &slice, 16, 0),
    ] {
        let room = image.samples().to_le_bytes().len() + 4096;
        let options = JpeglsOptions::lossless().with_near_lossless(near);
        subjects.push(Subject {
            name: name.to_owned(),
            codec: options.with_bits_per_sample(bits).codec()?,
            image: image.clone(),
            bare: Box::new(Charls {
                image: image.clone(),
                bits: bits.into(),
                near: near.into(),
                stream: vec![1; room],
            }),
            // imagecodecs takes all bits of the type.
            peer: (bits != 12).then(|| {
                json!({
                    "encode": "jpegls_encode",
                    "decode": "jpegls_decode",
                    "arguments": {"level": near},
                })
            }),
            scales: Vec::new(),
        });
    }
    Ok(subjects)
}
