//! libjxl behind safe functions.
//!
//! Why this is sound: a handle is made, used and destroyed by one value on one thread; the payload
//! and the samples that the library gets are borrowed for as long as the handle lives or until the
//! call returns; buffers are passed with their true lengths, which the library tests before it
//! writes. `a_handle_gives_back_all_memory` and the stress test in `tests/jxl.rs` would notice
//! otherwise, and so does every test under a sanitizer.
#![allow(unsafe_code)]

mod decode;
mod encode;
mod memory;

pub(super) use decode::{Decoder, reconstruct};
pub(super) use encode::{Care, Plan, encode, transcode};

/// The library with its version.
pub(super) const BACKEND: &str = "libjxl 0.12.0";

/// Declarations that the crate of declarations leaves out, from the library's own headers.
mod extra {
    use std::ffi::c_int;

    use gamut_jxl_sys::decode::{JxlDecoder, JxlDecoderStatus};
    use gamut_jxl_sys::encode::{
        JxlEncoderFrameSettingId, JxlEncoderFrameSettings, JxlEncoderStatus,
    };
    use gamut_jxl_sys::types::JxlBitDepth;

    /// An event: pixels of less detail can be had.
    pub(super) const FRAME_PROGRESSION: c_int = 0x8000;
    /// Detail of [`FRAME_PROGRESSION`]: one value for a square of 8 x 8 pixels.
    pub(super) const DETAIL_DC: c_int = 1;

    /// From 0 to 4, above 0 without the weighted predictor.
    pub(super) const DECODING_SPEED: JxlEncoderFrameSettingId = JxlEncoderFrameSettingId(1);
    /// Colours under an alpha of 0 are kept.
    pub(super) const KEEP_INVISIBLE: JxlEncoderFrameSettingId = JxlEncoderFrameSettingId(12);
    /// How much smaller the image is coded: 1, 2, 4, 8.
    pub(super) const RESAMPLING: JxlEncoderFrameSettingId = JxlEncoderFrameSettingId(2);
    /// Repeated parts of the picture.
    pub(super) const PATCHES: JxlEncoderFrameSettingId = JxlEncoderFrameSettingId(8);
    /// Share of the values above which a channel gets no palette of its own, before transforms.
    pub(super) const CHANNEL_COLORS_GLOBAL_PERCENT: JxlEncoderFrameSettingId =
        JxlEncoderFrameSettingId(20);
    /// The same in each part of the image.
    pub(super) const CHANNEL_COLORS_GROUP_PERCENT: JxlEncoderFrameSettingId =
        JxlEncoderFrameSettingId(21);
    /// Colours that a palette may have.
    pub(super) const PALETTE_COLORS: JxlEncoderFrameSettingId = JxlEncoderFrameSettingId(22);
    /// The reversible colour transform.
    pub(super) const MODULAR_COLOR_SPACE: JxlEncoderFrameSettingId = JxlEncoderFrameSettingId(25);
    /// Channels before its own that what a sample is like is told from.
    pub(super) const MODULAR_NB_PREV_CHANNELS: JxlEncoderFrameSettingId =
        JxlEncoderFrameSettingId(29);
    /// What a sample is predicted from.
    pub(super) const MODULAR_PREDICTOR: JxlEncoderFrameSettingId = JxlEncoderFrameSettingId(27);

    unsafe extern "C" {
        pub(super) fn JxlDecoderSetProgressiveDetail(
            decoder: *mut JxlDecoder,
            detail: c_int,
        ) -> JxlDecoderStatus;

        pub(super) fn JxlDecoderGetIntendedDownsamplingRatio(decoder: *mut JxlDecoder) -> usize;

        pub(super) fn JxlDecoderFlushImage(decoder: *mut JxlDecoder) -> JxlDecoderStatus;

        pub(super) fn JxlDecoderSetImageOutBitDepth(
            decoder: *mut JxlDecoder,
            depth: *const JxlBitDepth,
        ) -> JxlDecoderStatus;

        pub(super) fn JxlDecoderSkipFrames(decoder: *mut JxlDecoder, amount: usize);

        pub(super) fn JxlEncoderSetExtraChannelDistance(
            settings: *mut JxlEncoderFrameSettings,
            index: usize,
            distance: f32,
        ) -> JxlEncoderStatus;

        pub(super) fn JxlEncoderFrameSettingsSetFloatOption(
            settings: *mut JxlEncoderFrameSettings,
            option: JxlEncoderFrameSettingId,
            value: f32,
        ) -> JxlEncoderStatus;
    }
}

/// How samples of a type are told to the library.
fn data_type(sample_type: crate::SampleType) -> Option<gamut_jxl_sys::types::JxlDataType> {
    use crate::SampleType;
    use gamut_jxl_sys::types::JxlDataType;
    match sample_type {
        SampleType::U8 => Some(JxlDataType::UINT8),
        SampleType::U16 => Some(JxlDataType::UINT16),
        SampleType::F16 => Some(JxlDataType::FLOAT16),
        SampleType::F32 => Some(JxlDataType::FLOAT),
        SampleType::I16 => None,
    }
}
