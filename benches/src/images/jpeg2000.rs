//! JPEG 2000 on OpenJPEG, and high-throughput streams.
//!
//! Encoding of high-throughput streams is the workspace's own code, so nothing stands beside it but
//! imagecodecs, which has OpenJPH.
#![allow(unsafe_code, reason = "the library alone is what ours is compared with")]

use std::ffi::{c_char, c_void};
use std::ptr;
use std::slice;

use iac_codec::jpeg2000::{Jpeg2000Options, Profile};
use iac_codec::{Codec, Image, SamplesMut, SamplesRef, Scale};
use openjpeg_sys as sys;
use serde_json::json;

use super::{Bare, Subject};
use crate::Result;

/// Bytes in memory, read or written from a place on.
struct Memory {
    bytes: Vec<u8>,
    position: usize,
}

unsafe extern "C" fn read(buffer: *mut c_void, count: usize, data: *mut c_void) -> usize {
    // SAFETY: the library hands back what was registered, and gives room for `count` bytes.
    unsafe {
        let memory = &mut *data.cast::<Memory>();
        let rest = &memory.bytes[memory.position..];
        let taken = rest.len().min(count);
        if taken == 0 {
            return usize::MAX;
        }
        ptr::copy_nonoverlapping(rest.as_ptr(), buffer.cast(), taken);
        memory.position += taken;
        taken
    }
}

unsafe extern "C" fn write(buffer: *mut c_void, count: usize, data: *mut c_void) -> usize {
    // SAFETY: the library hands back what was registered, and `count` bytes.
    unsafe {
        let memory = &mut *data.cast::<Memory>();
        memory.bytes.extend_from_slice(slice::from_raw_parts(buffer.cast::<u8>(), count));
        count
    }
}

unsafe extern "C" fn skip(count: i64, data: *mut c_void) -> i64 {
    // SAFETY: the library hands back what was registered.
    unsafe {
        let memory = &mut *data.cast::<Memory>();
        memory.position =
            (memory.position + usize::try_from(count).unwrap_or(0)).min(memory.bytes.len());
    }
    count
}

unsafe extern "C" fn seek(position: i64, data: *mut c_void) -> sys::OPJ_BOOL {
    // SAFETY: the library hands back what was registered.
    unsafe {
        let memory = &mut *data.cast::<Memory>();
        memory.position = usize::try_from(position).unwrap_or(0).min(memory.bytes.len());
    }
    1
}

unsafe extern "C" fn silent(_: *const c_char, _: *mut c_void) {}

/// An image, and how it is stored.
struct OpenJpeg {
    image: Image,
    lossy: Option<f32>,
    /// High-throughput streams, which the library cannot encode.
    ht: Option<Codec>,
}

fn stream(memory: *mut Memory, length: usize, input: bool) -> *mut sys::opj_stream_t {
    // SAFETY: the calls are in the order that the library's manual gives; `memory` outlives them.
    unsafe {
        let stream = sys::opj_stream_create(1 << 18, i32::from(input));
        sys::opj_stream_set_read_function(stream, Some(read));
        sys::opj_stream_set_write_function(stream, Some(write));
        sys::opj_stream_set_skip_function(stream, Some(skip));
        sys::opj_stream_set_seek_function(stream, Some(seek));
        sys::opj_stream_set_user_data(stream, memory.cast(), None);
        sys::opj_stream_set_user_data_length(stream, length as u64);
        stream
    }
}

impl Bare for OpenJpeg {
    fn encode(&mut self) -> Result<usize> {
        let view = self.image.as_view();
        if let Some(codec) = &self.ht {
            return Ok(codec.encode_image(&view)?.len());
        }
        let shape = self.image.shape();
        let channels = shape.channels() as usize;
        let prec = match view.samples() {
            SamplesRef::U8(_) => 8,
            _ => 16,
        };
        let component = sys::opj_image_cmptparm_t {
            dx: 1,
            dy: 1,
            w: shape.width(),
            h: shape.height(),
            x0: 0,
            y0: 0,
            prec,
            bpp: 0,
            sgnd: 0,
        };
        let mut components = vec![component; channels];
        let mut memory = Memory { bytes: Vec::new(), position: 0 };
        // SAFETY: the calls are in the order that the library's manual gives, with its own
        // handles; each component has room for width x height samples.
        let encoded = unsafe {
            let image = sys::opj_image_create(
                shape.channels(),
                components.as_mut_ptr(),
                sys::COLOR_SPACE::OPJ_CLRSPC_SRGB,
            );
            (*image).x1 = shape.width();
            (*image).y1 = shape.height();
            let pixels = shape.samples() / channels;
            for channel in 0..channels {
                let place = slice::from_raw_parts_mut((*(*image).comps.add(channel)).data, pixels);
                match view.samples() {
                    SamplesRef::U8(samples) => {
                        let from = samples[channel..].iter().step_by(channels);
                        place.iter_mut().zip(from).for_each(|(to, from)| *to = (*from).into());
                    }
                    SamplesRef::U16(samples) => {
                        let from = samples[channel..].iter().step_by(channels);
                        place.iter_mut().zip(from).for_each(|(to, from)| *to = (*from).into());
                    }
                    _ => {}
                }
            }
            let codec = sys::opj_create_compress(sys::CODEC_FORMAT::OPJ_CODEC_J2K);
            let mut parameters: Box<sys::opj_cparameters_t> = Box::new(std::mem::zeroed());
            sys::opj_set_default_encoder_parameters(&raw mut *parameters);
            parameters.tcp_numlayers = 1;
            parameters.numresolution = 6;
            parameters.tcp_mct = c_char::from(channels == 3);
            match self.lossy {
                None => parameters.cp_disto_alloc = 1,
                Some(psnr) => {
                    parameters.irreversible = 1;
                    parameters.cp_fixed_quality = 1;
                    parameters.tcp_distoratio[0] = psnr;
                }
            }
            let stream = stream(&raw mut memory, 0, false);
            let encoded = sys::opj_setup_encoder(codec, &raw mut *parameters, image) != 0
                && sys::opj_start_compress(codec, image, stream) != 0
                && sys::opj_encode(codec, stream) != 0
                && sys::opj_end_compress(codec, stream) != 0;
            sys::opj_destroy_codec(codec);
            sys::opj_stream_destroy(stream);
            sys::opj_image_destroy(image);
            encoded
        };
        if encoded { Ok(memory.bytes.len()) } else { Err("the library failed".into()) }
    }

    fn decode(&mut self, payload: &[u8], out: SamplesMut<'_>) -> Result<()> {
        let mut memory = Memory { bytes: payload.to_vec(), position: 0 };
        // SAFETY: as in `encode`; payloads are those of `self.image`.
        let decoded = unsafe {
            let codec = sys::opj_create_decompress(sys::CODEC_FORMAT::OPJ_CODEC_J2K);
            sys::opj_set_warning_handler(codec, Some(silent), ptr::null_mut());
            let mut parameters: Box<sys::opj_dparameters_t> = Box::new(std::mem::zeroed());
            sys::opj_set_default_decoder_parameters(&raw mut *parameters);
            let stream = stream(&raw mut memory, payload.len(), true);
            let mut image = ptr::null_mut();
            let decoded = sys::opj_setup_decoder(codec, &raw mut *parameters) != 0
                && sys::opj_read_header(stream, codec, &raw mut image) != 0
                && sys::opj_decode(codec, stream, image) != 0;
            if decoded {
                self.take(image, out);
            }
            sys::opj_destroy_codec(codec);
            sys::opj_stream_destroy(stream);
            sys::opj_image_destroy(image);
            decoded
        };
        if decoded { Ok(()) } else { Err("the library failed".into()) }
    }
}

impl OpenJpeg {
    /// # Safety
    ///
    /// `image` was decoded from a payload of `self.image`, and `out` has its shape.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the library keeps samples in their range"
    )]
    unsafe fn take(&self, image: *mut sys::opj_image_t, out: SamplesMut<'_>) {
        let channels = self.image.shape().channels() as usize;
        let pixels = self.image.shape().samples() / channels;
        // SAFETY: each component has that many samples.
        let plane = |channel: usize| unsafe {
            slice::from_raw_parts((*(*image).comps.add(channel)).data, pixels)
        };
        match out {
            SamplesMut::U8(out) if channels == 3 => {
                let three = plane(0).iter().zip(plane(1)).zip(plane(2));
                for (to, ((a, b), c)) in out.chunks_exact_mut(3).zip(three) {
                    to[0] = *a as u8;
                    to[1] = *b as u8;
                    to[2] = *c as u8;
                }
            }
            SamplesMut::U16(out) => {
                for (to, from) in out.iter_mut().zip(plane(0)) {
                    *to = *from as u16;
                }
            }
            _ => {}
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
    let lossless = Jpeg2000Options::lossless();
    let lossy = Jpeg2000Options::with_quality(40.0);
    let classic = |level: f32| {
        json!({"encode": "jpeg2k_encode", "decode": "jpeg2k_decode",
               "arguments": {"level": level, "reversible": level == 0.0, "codecformat": "j2k",
                             "numthreads": 1}})
    };
    let ht = |transform: bool| {
        json!({"encode": "htj2k_encode", "decode": "htj2k_decode",
               "arguments": {"rgb": transform}})
    };
    let mut subjects = Vec::new();
    for (name, image, options, peer) in [
        ("RGB lossless", &tissue, lossless, classic(0.0)),
        ("RGB, 40 dB", &tissue, lossy, classic(40.0)),
        ("u16 lossless", &slice, lossless, classic(0.0)),
        ("HT RGB lossless", &tissue, lossless.with_profile(Profile::Ht), ht(false)),
        (
            "HT RGB lossless, transformed",
            &tissue,
            lossless.with_profile(Profile::Ht).with_color_transform(true),
            ht(true),
        ),
        ("HT u16 lossless", &slice, lossless.with_profile(Profile::Ht), ht(false)),
    ] {
        let codec = options.codec()?;
        let is_ht = codec.parameters()["profile"] == "ht";
        let is_lossy = codec.parameters()["lossless"] == false;
        subjects.push(Subject {
            name: name.to_owned(),
            image: image.clone(),
            bare: Box::new(OpenJpeg {
                image: image.clone(),
                lossy: is_lossy.then_some(40.0),
                ht: is_ht.then(|| codec.clone()),
            }),
            codec,
            peer: Some(peer),
            scales: vec![Scale::Half, Scale::Quarter, Scale::Eighth],
        });
    }
    Ok(subjects)
}
