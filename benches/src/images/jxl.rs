//! JPEG XL on libjxl.
#![allow(unsafe_code, reason = "the library alone is what ours is compared with")]

use std::ptr;
use std::sync::Mutex;

use gamut_jxl_sys::decode as dec;
use gamut_jxl_sys::encode as enc;
use gamut_jxl_sys::types as sys;
use iac_codec::jxl::JxlOptions;
use iac_codec::{Image, SampleType, SamplesMut, SamplesRef, Scale};
use serde_json::json;

use super::{Bare, Subject};
use crate::Result;

/// Two handles, as a program would keep them.
struct Jxl {
    image: Image,
    distance: Option<f32>,
    effort: i64,
    encoder: *mut enc::JxlEncoder,
    decoder: *mut dec::JxlDecoder,
    buffer: Vec<u8>,
}

impl Jxl {
    fn new(image: Image, distance: Option<f32>, effort: i64) -> Result<Self> {
        // SAFETY: without a memory manager the library uses the C allocator.
        let (encoder, decoder) =
            unsafe { (enc::JxlEncoderCreate(ptr::null()), dec::JxlDecoderCreate(ptr::null())) };
        if encoder.is_null() || decoder.is_null() {
            return Err("no handle".into());
        }
        let buffer = vec![0; image.samples().to_le_bytes().len() * 2 + 4096];
        Ok(Self { image, distance, effort, encoder, decoder, buffer })
    }

    fn format(&self) -> sys::JxlPixelFormat {
        sys::JxlPixelFormat {
            num_channels: self.image.shape().channels(),
            data_type: if self.image.sample_type() == SampleType::U8 {
                sys::JxlDataType::UINT8
            } else {
                sys::JxlDataType::UINT16
            },
            endianness: sys::JxlEndianness::NATIVE,
            align: 0,
        }
    }
}

impl Drop for Jxl {
    fn drop(&mut self) {
        // SAFETY: the handles are the library's own, and nobody else has them.
        unsafe {
            enc::JxlEncoderDestroy(self.encoder);
            dec::JxlDecoderDestroy(self.decoder);
        }
    }
}

fn done(result: bool) -> Result<()> {
    if result { Ok(()) } else { Err("the library failed".into()) }
}

impl Bare for Jxl {
    fn encode(&mut self) -> Result<usize> {
        let shape = self.image.shape();
        let bytes = self.image.samples().to_le_bytes();
        let gray = sys::JxlBool(i32::from(shape.channels() == 1));
        let lossless = sys::JxlBool(i32::from(self.distance.is_none()));
        let format = self.format();
        let bits = if self.image.sample_type() == SampleType::U8 { 8 } else { 16 };
        let ok = enc::JxlEncoderStatus::SUCCESS;
        // SAFETY: the functions are called as the library's manual says, with live handles, and
        // buffers of the sizes that are told.
        unsafe {
            enc::JxlEncoderReset(self.encoder);
            let mut info = std::mem::MaybeUninit::<sys::JxlBasicInfo>::zeroed().assume_init();
            enc::JxlEncoderInitBasicInfo(&raw mut info);
            info.xsize = shape.width();
            info.ysize = shape.height();
            info.bits_per_sample = bits;
            info.num_color_channels = shape.channels();
            info.uses_original_profile = lossless;
            done(enc::JxlEncoderSetBasicInfo(self.encoder, &raw const info) == ok)?;
            let mut color = std::mem::MaybeUninit::<sys::JxlColorEncoding>::zeroed();
            enc::JxlColorEncodingSetToSRGB(color.as_mut_ptr(), gray);
            done(enc::JxlEncoderSetColorEncoding(self.encoder, color.as_ptr()) == ok)?;
            let settings = enc::JxlEncoderFrameSettingsCreate(self.encoder, ptr::null());
            done(
                enc::JxlEncoderFrameSettingsSetOption(
                    settings,
                    enc::JxlEncoderFrameSettingId::EFFORT,
                    self.effort,
                ) == ok,
            )?;
            done(match self.distance {
                None => enc::JxlEncoderSetFrameLossless(settings, lossless) == ok,
                Some(distance) => enc::JxlEncoderSetFrameDistance(settings, distance) == ok,
            })?;
            done(
                enc::JxlEncoderAddImageFrame(
                    settings,
                    &raw const format,
                    bytes.as_ptr().cast(),
                    bytes.len(),
                ) == ok,
            )?;
            enc::JxlEncoderCloseInput(self.encoder);
            let mut next = self.buffer.as_mut_ptr();
            let mut rest = self.buffer.len();
            done(enc::JxlEncoderProcessOutput(self.encoder, &raw mut next, &raw mut rest) == ok)?;
            Ok(self.buffer.len() - rest)
        }
    }

    fn decode(&mut self, payload: &[u8], out: SamplesMut<'_>) -> Result<()> {
        let format = self.format();
        let (data, bytes): (*mut u8, usize) = match out {
            SamplesMut::U8(samples) => (samples.as_mut_ptr(), samples.len()),
            SamplesMut::U16(samples) => (samples.as_mut_ptr().cast(), samples.len() * 2),
            _ => return Err("no samples of this type".into()),
        };
        let ok = dec::JxlDecoderStatus::SUCCESS;
        // SAFETY: as above; the place is borrowed until the handle is reset.
        unsafe {
            dec::JxlDecoderReset(self.decoder);
            done(
                dec::JxlDecoderSubscribeEvents(self.decoder, dec::JxlDecoderStatus::FULL_IMAGE.0)
                    == ok,
            )?;
            done(dec::JxlDecoderSetInput(self.decoder, payload.as_ptr(), payload.len()) == ok)?;
            dec::JxlDecoderCloseInput(self.decoder);
            loop {
                match dec::JxlDecoderProcessInput(self.decoder) {
                    dec::JxlDecoderStatus::NEED_IMAGE_OUT_BUFFER => done(
                        dec::JxlDecoderSetImageOutBuffer(
                            self.decoder,
                            &raw const format,
                            data.cast(),
                            bytes,
                        ) == ok,
                    )?,
                    dec::JxlDecoderStatus::FULL_IMAGE => {
                        dec::JxlDecoderReset(self.decoder);
                        return Ok(());
                    }
                    _ => return done(false),
                }
            }
        }
    }
}

/// The library's decoder for images of this shape and type.
///
/// # Errors
///
/// When the library gives no handle.
pub fn decoder(image: &Image) -> Result<Box<dyn Bare>> {
    Ok(Box::new(Jxl::new(image.clone(), Some(1.0), 3)?))
}

/// Encodes images without loss on two threads, with a handle for each.
///
/// # Errors
///
/// What the library reports.
pub fn encode_on_two(images: Vec<Image>, effort: u8) -> Result<()> {
    let Some(first) = images.first().cloned() else { return Ok(()) };
    let images = Mutex::new(images.into_iter());
    let work = || -> Result<()> {
        let mut handle = Jxl::new(first.clone(), None, effort.into())?;
        loop {
            let next = images.lock().map_err(|_| "the other thread failed")?.next();
            let Some(next) = next else { return Ok(()) };
            handle.image = next;
            std::hint::black_box(handle.encode()?);
        }
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(work);
        work()?;
        other.join().map_err(|_| "the other thread failed")?
    })
}

/// The library with one way to encode this image: a distance, or none for no loss.
///
/// # Errors
///
/// When the library gives no handle.
pub fn bare(image: &Image, distance: Option<f32>, effort: u8) -> Result<Box<dyn Bare>> {
    Ok(Box::new(Jxl::new(image.clone(), distance, effort.into())?))
}

/// The images and the ways to store them.
///
/// # Errors
///
/// When an image cannot be read.
pub fn subjects() -> Result<Vec<Subject>> {
    let (tissue, slice) = (super::tissue()?, super::slice()?);
    let mut subjects = Vec::new();
    for (name, image, distance, effort) in [
        ("RGB lossy, effort 3", &tissue, Some(1.0), 3_u8),
        ("RGB lossy, effort 7", &tissue, Some(1.0), 7),
        ("RGB lossless, effort 1", &tissue, None, 1),
        ("RGB lossless, effort 3", &tissue, None, 3),
        ("u16 lossless, effort 1", &slice, None, 1),
        ("u16 lossless, effort 3", &slice, None, 3),
        ("u16 lossy, effort 3", &slice, Some(1.0), 3),
    ] {
        let options = distance
            .map_or_else(JxlOptions::lossless, |distance: f32| JxlOptions::lossy(distance.into()));
        debug_assert!(matches!(image.samples(), SamplesRef::U8(_) | SamplesRef::U16(_)));
        subjects.push(Subject {
            name: name.to_owned(),
            codec: options.with_effort(effort).codec()?,
            image: image.clone(),
            bare: Box::new(Jxl::new(image.clone(), distance, effort.into())?),
            peer: Some(json!({
                "encode": "jpegxl_encode",
                "decode": "jpegxl_decode",
                "arguments": {
                    "lossless": distance.is_none(),
                    "distance": distance,
                    "effort": effort,
                    "numthreads": 1,
                },
            })),
            // Only streams with loss hold a preview.
            scales: distance.map(|_| Scale::Eighth).into_iter().collect(),
        });
    }
    Ok(subjects)
}
