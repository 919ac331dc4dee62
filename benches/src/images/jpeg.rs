//! JPEG on libjpeg-turbo.
#![allow(unsafe_code, reason = "the library alone is what ours is compared with")]

use std::ffi::c_int;
use std::ptr;

use iac_codec::jpeg::{JpegOptions, Subsampling};
use iac_codec::{Image, SamplesMut, SamplesRef, Scale};
use serde_json::json;
use turbojpeg_sys as sys;

use super::{Bare, Subject};
use crate::Result;

/// Two handles, as a program would keep them.
struct Turbo {
    image: Image,
    lossless: bool,
    compress: sys::tjhandle,
    decompress: sys::tjhandle,
    buffer: *mut u8,
    size: sys::size_t,
}

impl Turbo {
    fn new(image: Image, settings: &[(sys::TJPARAM, c_int)]) -> Result<Self> {
        let lossless = settings.iter().any(|(name, _)| *name == sys::TJPARAM_TJPARAM_LOSSLESS);
        // SAFETY: the functions are called as the library's manual says, with live handles.
        unsafe {
            let compress = sys::tj3Init(sys::TJINIT_TJINIT_COMPRESS.cast_signed());
            let decompress = sys::tj3Init(sys::TJINIT_TJINIT_DECOMPRESS.cast_signed());
            if compress.is_null() || decompress.is_null() {
                return Err("no handle".into());
            }
            for (name, value) in settings {
                sys::tj3Set(compress, name.cast_signed(), *value);
            }
            Ok(Self { image, lossless, compress, decompress, buffer: ptr::null_mut(), size: 0 })
        }
    }
}

impl Drop for Turbo {
    fn drop(&mut self) {
        // SAFETY: the handles and the buffer are the library's own, and nobody else has them.
        unsafe {
            sys::tj3Destroy(self.compress);
            sys::tj3Destroy(self.decompress);
            sys::tj3Free(self.buffer.cast());
        }
    }
}

const fn format(channels: u32) -> c_int {
    if channels == 1 { sys::TJPF_TJPF_GRAY } else { sys::TJPF_TJPF_RGB }
}

fn done(result: c_int) -> Result<()> {
    if result == 0 { Ok(()) } else { Err("the library failed".into()) }
}

impl Bare for Turbo {
    fn encode(&mut self) -> Result<usize> {
        let shape = self.image.shape();
        let (width, height) = (c_int::try_from(shape.width())?, c_int::try_from(shape.height())?);
        let format = format(shape.channels());
        // The buffer of the last image is used again, and grown by the library if need be.
        let (data, size) = (&raw mut self.buffer, &raw mut self.size);
        // SAFETY: the image has as many samples as its shape says, and `data` is the library's.
        done(unsafe {
            match self.image.samples() {
                SamplesRef::U8(samples) => sys::tj3Compress8(
                    self.compress,
                    samples.as_ptr(),
                    width,
                    0,
                    height,
                    format,
                    data,
                    size,
                ),
                SamplesRef::U16(samples) => sys::tj3Compress16(
                    self.compress,
                    samples.as_ptr(),
                    width,
                    0,
                    height,
                    format,
                    data,
                    size,
                ),
                _ => -1,
            }
        })?;
        Ok(usize::try_from(self.size)?)
    }

    fn decode(&mut self, payload: &[u8], out: SamplesMut<'_>) -> Result<()> {
        let (data, size) = (payload.as_ptr(), sys::size_t::try_from(payload.len())?);
        let format = format(self.image.shape().channels());
        // SAFETY: payloads are those of `self.image`, and places have its shape and type.
        done(unsafe {
            match out {
                SamplesMut::U8(out) => {
                    sys::tj3Decompress8(self.decompress, data, size, out.as_mut_ptr(), 0, format)
                }
                SamplesMut::U16(out) if self.lossless => {
                    sys::tj3Decompress16(self.decompress, data, size, out.as_mut_ptr(), 0, format)
                }
                _ => -1,
            }
        })
    }
}

/// The images and the ways to store them.
///
/// # Errors
///
/// When an image cannot be read.
pub fn subjects() -> Result<Vec<Subject>> {
    let (tissue, slice) = (super::tissue()?, super::slice()?);
    let scales = vec![Scale::Half, Scale::Quarter, Scale::Eighth];
    let mut subjects = Vec::new();
    for (name, subsampling, tag, progressive) in [
        ("RGB 420", Subsampling::S420, sys::TJSAMP_TJSAMP_420, false),
        ("RGB 444", Subsampling::S444, sys::TJSAMP_TJSAMP_444, false),
        ("RGB 420 progressive", Subsampling::S420, sys::TJSAMP_TJSAMP_420, true),
    ] {
        let options =
            JpegOptions::default().with_subsampling(subsampling).with_progressive(progressive);
        let settings = [
            (sys::TJPARAM_TJPARAM_QUALITY, 90),
            (sys::TJPARAM_TJPARAM_SUBSAMP, tag),
            (sys::TJPARAM_TJPARAM_PROGRESSIVE, c_int::from(progressive)),
        ];
        let sampling = if subsampling == Subsampling::S444 { "444" } else { "420" };
        subjects.push(Subject {
            name: name.to_owned(),
            codec: options.codec()?,
            image: tissue.clone(),
            bare: Box::new(Turbo::new(tissue.clone(), &settings)?),
            // imagecodecs encodes no progressive streams.
            peer: (!progressive).then(|| {
                json!({"encode": "jpeg8_encode", "decode": "jpeg8_decode",
                       "arguments": {"level": 90, "subsampling": sampling}})
            }),
            scales: scales.clone(),
        });
    }
    for (name, image, bits) in [("RGB lossless", tissue, 8), ("u16 lossless", slice, 16)] {
        let settings = [
            (sys::TJPARAM_TJPARAM_LOSSLESS, 1),
            (sys::TJPARAM_TJPARAM_LOSSLESSPSV, 1),
            (sys::TJPARAM_TJPARAM_PRECISION, bits),
        ];
        subjects.push(Subject {
            name: name.to_owned(),
            codec: JpegOptions::lossless().codec()?,
            image: image.clone(),
            bare: Box::new(Turbo::new(image, &settings)?),
            peer: Some(json!({"encode": "jpeg8_encode", "decode": "jpeg8_decode",
                              "arguments": {"lossless": true, "predictor": 1}})),
            scales: Vec::new(),
        });
    }
    Ok(subjects)
}
