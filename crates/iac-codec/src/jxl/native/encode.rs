//! Encoding.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};

use gamut_jxl_sys::encode::{
    JxlColorEncodingSetToLinearSRGB, JxlColorEncodingSetToSRGB, JxlEncoder,
    JxlEncoderAddImageFrame, JxlEncoderAddJPEGFrame, JxlEncoderCloseInput, JxlEncoderCreate,
    JxlEncoderDestroy, JxlEncoderError, JxlEncoderFrameSettingId, JxlEncoderFrameSettings,
    JxlEncoderFrameSettingsCreate, JxlEncoderFrameSettingsSetOption, JxlEncoderGetError,
    JxlEncoderInitBasicInfo, JxlEncoderProcessOutput, JxlEncoderSetBasicInfo,
    JxlEncoderSetColorEncoding, JxlEncoderSetFrameBitDepth, JxlEncoderSetFrameDistance,
    JxlEncoderSetFrameLossless, JxlEncoderStatus, JxlEncoderStoreJPEGMetadata,
    JxlEncoderUseContainer,
};
use gamut_jxl_sys::types::{
    JxlBasicInfo, JxlBitDepth, JxlBitDepthType, JxlBool, JxlColorEncoding, JxlEndianness,
    JxlPixelFormat,
};

use super::memory::Memory;
use super::{data_type, extra};
use crate::{ImageView, SampleType};

/// How an image is encoded.
#[derive(Debug, Clone, Copy)]
pub(in crate::jxl) struct Plan {
    /// No distance: without loss.
    pub(in crate::jxl) distance: Option<f32>,
    pub(in crate::jxl) effort: u8,
    pub(in crate::jxl) container: bool,
    /// Bits of integer samples that are used, where it is fewer than their type has.
    pub(in crate::jxl) bits: Option<u8>,
    pub(in crate::jxl) care: Care,
}

/// How far the library is held off from tools that need more than the 32 bits that decoders
/// calculate with. They may differ in what is left of a larger number, or give up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::jxl) enum Care {
    /// Not at all: samples have up to 16 bits, or something may be lost.
    None,
    /// Samples have 32 bits, and the difference of two has not more.
    Differences,
    /// Samples have 32 bits, and the difference of two may have more.
    Unpredicted,
}

/// Below this effort the library takes a predictor of its own choice.
const EFFORT_OF_CARE: u8 = 4;

/// At this effort it takes the weighted one.
const EFFORT_OF_WEIGHTS: u8 = 3;

struct Encoder {
    handle: NonNull<JxlEncoder>,
    // After the handle: it is used while that is destroyed.
    _memory: Memory,
}

impl Drop for Encoder {
    fn drop(&mut self) {
        // SAFETY: the handle was made by `JxlEncoderCreate`, and nothing uses it after this.
        unsafe { JxlEncoderDestroy(self.handle.as_ptr()) };
    }
}

type Outcome<T> = Result<T, String>;

impl Encoder {
    fn new() -> Outcome<Self> {
        let memory = Memory::unbounded();
        let manager = memory.manager();
        // SAFETY: the library copies the manager; what it points to lives in `memory`, which is
        // kept beside the handle.
        let handle = NonNull::new(unsafe { JxlEncoderCreate(&raw const manager) });
        Ok(Self { handle: handle.ok_or("no memory for the library")?, _memory: memory })
    }

    fn check(&self, status: JxlEncoderStatus, step: &str) -> Outcome<()> {
        if status == JxlEncoderStatus::SUCCESS {
            return Ok(());
        }
        // SAFETY: the handle is alive.
        let reason = match unsafe { JxlEncoderGetError(self.handle.as_ptr()) } {
            JxlEncoderError::OOM => "has no memory".to_owned(),
            JxlEncoderError::JBRD => "cannot store what rebuilds the file".to_owned(),
            JxlEncoderError::BAD_INPUT => "finds the input unfit".to_owned(),
            JxlEncoderError::NOT_SUPPORTED => "does not support it".to_owned(),
            JxlEncoderError(code) => format!("gives code {code}"),
        };
        Err(format!("the library {reason} at {step}"))
    }

    fn settings(&self) -> Outcome<NonNull<JxlEncoderFrameSettings>> {
        // SAFETY: the handle is alive; the settings belong to it and go with it.
        let settings = unsafe { JxlEncoderFrameSettingsCreate(self.handle.as_ptr(), ptr::null()) };
        NonNull::new(settings).ok_or_else(|| "no memory for the library".to_owned())
    }

    fn set(
        &self,
        settings: NonNull<JxlEncoderFrameSettings>,
        option: JxlEncoderFrameSettingId,
        value: i64,
    ) -> Outcome<()> {
        // SAFETY: the settings belong to this handle, which is alive.
        let status = unsafe { JxlEncoderFrameSettingsSetOption(settings.as_ptr(), option, value) };
        self.check(status, &format!("option {}", option.0))
    }

    fn set_float(
        &self,
        settings: NonNull<JxlEncoderFrameSettings>,
        option: JxlEncoderFrameSettingId,
        value: f32,
    ) -> Outcome<()> {
        // SAFETY: as above.
        let status = unsafe {
            extra::JxlEncoderFrameSettingsSetFloatOption(settings.as_ptr(), option, value)
        };
        self.check(status, &format!("option {}", option.0))
    }

    /// Takes the stream out, once everything was put in.
    fn finish(self, guess: usize) -> Outcome<Vec<u8>> {
        // SAFETY: the handle is alive.
        unsafe { JxlEncoderCloseInput(self.handle.as_ptr()) };
        let mut stream: Vec<u8> = Vec::new();
        let mut wanted = guess.max(64);
        loop {
            stream.try_reserve(wanted).map_err(|_| "no memory for the stream")?;
            let room = stream.spare_capacity_mut();
            let given = room.len();
            let mut next = room.as_mut_ptr().cast::<u8>();
            let mut available = given;
            // SAFETY: the pointer and the number describe room that is borrowed here and only
            // written to.
            let status = unsafe {
                JxlEncoderProcessOutput(self.handle.as_ptr(), &raw mut next, &raw mut available)
            };
            let written = given.saturating_sub(available);
            // SAFETY: the library has written that many bytes from the end of what was there on,
            // and it never says that more room is left than it was given.
            unsafe { stream.set_len(stream.len().saturating_add(written)) };
            if status != JxlEncoderStatus::NEED_MORE_OUTPUT {
                self.check(status, "the output")?;
                stream.shrink_to_fit();
                return Ok(stream);
            }
            wanted = stream.len().max(64);
        }
    }
}

/// Encodes an image; the error says what failed.
pub(in crate::jxl) fn encode(image: &ImageView<'_>, plan: &Plan) -> Outcome<Vec<u8>> {
    let shape = image.shape();
    let sample_type = image.sample_type();
    let data_type =
        data_type(sample_type).ok_or_else(|| format!("its samples are of type {sample_type}"))?;
    let gray = shape.channels() < 3;
    let alpha = matches!(shape.channels(), 2 | 4);
    let (full_bits, exponent_bits) = match sample_type {
        SampleType::U8 => (8, 0),
        SampleType::F16 => (16, 5),
        SampleType::F32 => (32, 8),
        SampleType::U16 | SampleType::I16 => (16, 0),
    };
    let float = exponent_bits > 0;
    let bits = plan.bits.map_or(full_bits, u32::from);
    let encoder = Encoder::new()?;

    let mut info = MaybeUninit::<JxlBasicInfo>::zeroed();
    // SAFETY: the library fills the structure; all bytes being 0 is a value of it in any case.
    let mut info = unsafe {
        JxlEncoderInitBasicInfo(info.as_mut_ptr());
        info.assume_init()
    };
    info.xsize = shape.width();
    info.ysize = shape.height();
    info.bits_per_sample = bits;
    info.exponent_bits_per_sample = exponent_bits;
    info.num_color_channels = if gray { 1 } else { 3 };
    if alpha {
        info.num_extra_channels = 1;
        info.alpha_bits = bits;
        info.alpha_exponent_bits = exponent_bits;
    }
    info.uses_original_profile = flag(plan.distance.is_none());

    let mut color = MaybeUninit::<JxlColorEncoding>::zeroed();
    // SAFETY: as above for both structures; the handle is alive and fresh.
    unsafe {
        encoder.check(
            JxlEncoderUseContainer(encoder.handle.as_ptr(), flag(plan.container)),
            "the container",
        )?;
        encoder.check(
            JxlEncoderSetBasicInfo(encoder.handle.as_ptr(), &raw const info),
            "the shape and type",
        )?;
        if float {
            JxlColorEncodingSetToLinearSRGB(color.as_mut_ptr(), flag(gray));
        } else {
            JxlColorEncodingSetToSRGB(color.as_mut_ptr(), flag(gray));
        }
        encoder.check(
            JxlEncoderSetColorEncoding(encoder.handle.as_ptr(), color.as_ptr()),
            "the colours",
        )?;
    }

    let settings = encoder.settings()?;
    configure(&encoder, settings, plan, &info)?;
    let format = JxlPixelFormat {
        num_channels: shape.channels(),
        data_type,
        endianness: JxlEndianness::NATIVE,
        align: 0,
    };
    let samples = image.samples();
    let bytes = native_bytes(&samples);
    // SAFETY: the samples are borrowed for the whole call; the library copies them.
    let status = unsafe {
        JxlEncoderAddImageFrame(
            settings.as_ptr(),
            &raw const format,
            bytes.as_ptr().cast::<c_void>(),
            bytes.len(),
        )
    };
    encoder.check(status, "the samples")?;
    encoder.finish((bytes.len() >> 1).saturating_add(1 << 10))
}

fn configure(
    encoder: &Encoder,
    settings: NonNull<JxlEncoderFrameSettings>,
    plan: &Plan,
    info: &JxlBasicInfo,
) -> Outcome<()> {
    let alpha = info.num_extra_channels > 0;
    let float = info.exponent_bits_per_sample > 0;
    let effort = match plan.care {
        Care::Differences if plan.effort == EFFORT_OF_WEIGHTS => EFFORT_OF_CARE,
        Care::None | Care::Differences => plan.effort,
        Care::Unpredicted => plan.effort.max(EFFORT_OF_CARE),
    };
    encoder.set(settings, JxlEncoderFrameSettingId::EFFORT, effort.into())?;
    // The fourth channel of a data set need not be an alpha for the eye.
    encoder.set(settings, extra::KEEP_INVISIBLE, 1)?;
    if plan.bits.is_some() {
        let depth = JxlBitDepth {
            r#type: JxlBitDepthType::FROM_CODESTREAM,
            bits_per_sample: 0,
            exponent_bits_per_sample: 0,
        };
        // SAFETY: the settings belong to the handle, which is alive; so below.
        let status = unsafe { JxlEncoderSetFrameBitDepth(settings.as_ptr(), &raw const depth) };
        encoder.check(status, "the depth")?;
    }
    if plan.care != Care::None {
        encoder.set(settings, extra::MODULAR_COLOR_SPACE, 0)?;
        encoder.set(settings, extra::MODULAR_NB_PREV_CHANNELS, 0)?;
        encoder.set(settings, extra::DECODING_SPEED, 1)?;
    }
    if plan.care == Care::Unpredicted {
        encoder.set(settings, extra::MODULAR_PREDICTOR, 0)?;
        encoder.set(settings, extra::PALETTE_COLORS, 0)?;
        encoder.set_float(settings, extra::CHANNEL_COLORS_GLOBAL_PERCENT, 0.0)?;
        encoder.set_float(settings, extra::CHANNEL_COLORS_GROUP_PERCENT, 0.0)?;
    }
    let Some(distance) = plan.distance else {
        // SAFETY: as above.
        let status = unsafe { JxlEncoderSetFrameLossless(settings.as_ptr(), JxlBool::TRUE) };
        encoder.check(status, "lossless coding")?;
        if float {
            // Patches are subtracted as floats, which rounds.
            encoder.set(settings, extra::PATCHES, 0)?;
        }
        return Ok(());
    };
    // SAFETY: as above.
    unsafe {
        encoder.check(JxlEncoderSetFrameDistance(settings.as_ptr(), distance), "the distance")?;
        if alpha {
            if info.exponent_bits_per_sample == 5 {
                // From a distance of 10 on the library halves the image with its alpha, which gives
                // values that half floats do not hold.
                encoder.set(settings, extra::RESAMPLING, 1)?;
            }
            encoder.check(
                extra::JxlEncoderSetExtraChannelDistance(settings.as_ptr(), 0, distance),
                "the distance",
            )?;
        }
    }
    Ok(())
}

/// Encodes the coefficients of a JPEG file; the error says what failed.
pub(in crate::jxl) fn transcode(jpeg: &[u8], effort: u8) -> Outcome<Vec<u8>> {
    let encoder = Encoder::new()?;
    // SAFETY: the handle is alive and fresh.
    unsafe {
        encoder.check(
            JxlEncoderStoreJPEGMetadata(encoder.handle.as_ptr(), JxlBool::TRUE),
            "what rebuilds the file",
        )?;
        encoder.check(
            JxlEncoderUseContainer(encoder.handle.as_ptr(), JxlBool::TRUE),
            "the container",
        )?;
    }
    let settings = encoder.settings()?;
    encoder.set(settings, JxlEncoderFrameSettingId::EFFORT, effort.into())?;
    // SAFETY: the file is borrowed for the whole call; the library copies what it needs.
    let status = unsafe { JxlEncoderAddJPEGFrame(settings.as_ptr(), jpeg.as_ptr(), jpeg.len()) };
    encoder.check(status, "the JPEG file")?;
    encoder.finish(jpeg.len().saturating_add(1 << 10))
}

fn native_bytes<'a>(samples: &crate::SamplesRef<'a>) -> &'a [u8] {
    use crate::SamplesRef;
    match *samples {
        SamplesRef::U8(samples) => samples,
        SamplesRef::U16(samples) => bytemuck::cast_slice(samples),
        SamplesRef::I16(samples) => bytemuck::cast_slice(samples),
        SamplesRef::F16(samples) => bytemuck::cast_slice(samples),
        SamplesRef::F32(samples) => bytemuck::cast_slice(samples),
    }
}

const fn flag(on: bool) -> JxlBool {
    if on { JxlBool::TRUE } else { JxlBool::FALSE }
}
