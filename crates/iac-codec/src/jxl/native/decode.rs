//! Decoding.

use std::ffi::{c_int, c_void};
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr::NonNull;

use gamut_jxl_sys::decode::{
    JxlDecoder, JxlDecoderCloseInput, JxlDecoderCreate, JxlDecoderDestroy, JxlDecoderGetBasicInfo,
    JxlDecoderProcessInput, JxlDecoderReleaseInput, JxlDecoderReleaseJPEGBuffer,
    JxlDecoderSetImageOutBuffer, JxlDecoderSetInput, JxlDecoderSetJPEGBuffer, JxlDecoderStatus,
    JxlDecoderSubscribeEvents,
};
use gamut_jxl_sys::types::{
    JxlBasicInfo, JxlBitDepth, JxlBitDepthType, JxlBool, JxlEndianness, JxlPixelFormat,
};

use super::super::header::{Header, Pixels};
use super::super::{damaged, with_signature};
use super::memory::Memory;
use super::{data_type, extra};
use crate::{CodecError, DepthHandling, ImageViewMut, Limits, Result, SamplesMut};

/// A stream on its way through the library.
pub(in crate::jxl) struct Decoder<'p> {
    handle: NonNull<JxlDecoder>,
    // After the handle: it is used while that is destroyed.
    memory: Memory,
    payload: PhantomData<&'p [u8]>,
    bytes: usize,
}

impl Drop for Decoder<'_> {
    fn drop(&mut self) {
        // SAFETY: the handle was made by `JxlDecoderCreate`, and nothing uses it after this.
        unsafe { JxlDecoderDestroy(self.handle.as_ptr()) };
    }
}

/// Where a decoder stopped.
enum Stop {
    Event(c_int),
    Done,
}

impl<'p> Decoder<'p> {
    /// Reads the header of a stream.
    pub(in crate::jxl) fn open(
        payload: &'p [u8],
        limits: &Limits,
        wanted: Pixels,
    ) -> Result<(Self, Header)> {
        let mut events = JxlDecoderStatus::BASIC_INFO.0 | JxlDecoderStatus::FULL_IMAGE.0;
        if wanted == Pixels::Eighth {
            events |= extra::FRAME_PROGRESSION;
        }
        Self::start(payload, limits, events)
    }

    fn start(payload: &'p [u8], limits: &Limits, events: c_int) -> Result<(Self, Header)> {
        with_signature(payload)?;
        let memory = Memory::new(limits);
        let manager = memory.manager();
        // SAFETY: the library copies the manager; what it points to lives in `memory`, which is
        // kept beside the handle.
        let handle = NonNull::new(unsafe { JxlDecoderCreate(&raw const manager) });
        let Some(handle) = handle else {
            memory.check()?;
            return Err(damaged("no memory for the library".to_owned()));
        };
        let bytes = payload.len();
        let mut decoder = Self { handle, memory, payload: PhantomData, bytes };
        // SAFETY: the handle is fresh, so all three are allowed; the payload is borrowed for
        // longer than the handle lives.
        unsafe {
            expect(JxlDecoderSubscribeEvents(handle.as_ptr(), events))?;
            expect(JxlDecoderSetInput(handle.as_ptr(), payload.as_ptr(), bytes))?;
            JxlDecoderCloseInput(handle.as_ptr());
        }
        match decoder.advance()? {
            Stop::Event(event) if event == JxlDecoderStatus::BASIC_INFO.0 => {}
            _ => return Err(damaged("it has no header".to_owned())),
        }
        let header = decoder.header()?;
        Ok((decoder, header))
    }

    fn header(&self) -> Result<Header> {
        let mut info = MaybeUninit::<JxlBasicInfo>::zeroed();
        // SAFETY: the library fills the structure when it returns success; all bytes being 0 is a
        // value of it in any case.
        let info = unsafe {
            expect(JxlDecoderGetBasicInfo(self.handle.as_ptr(), info.as_mut_ptr()))?;
            info.assume_init()
        };
        Ok(Header {
            height: info.ysize,
            width: info.xsize,
            color_channels: info.num_color_channels,
            alpha: info.alpha_bits > 0,
            bits: info.bits_per_sample,
            exponent_bits: info.exponent_bits_per_sample,
            animated: info.have_animation != JxlBool::FALSE,
        })
    }

    /// Runs to the next event.
    fn advance(&mut self) -> Result<Stop> {
        // SAFETY: the handle is alive; buffers that it was given are, as their owners are borrowed
        // by the callers of this function.
        let status = unsafe { JxlDecoderProcessInput(self.handle.as_ptr()) };
        match status {
            JxlDecoderStatus::SUCCESS => Ok(Stop::Done),
            JxlDecoderStatus::ERROR => {
                self.memory.check()?;
                // SAFETY: allowed at any time; the decoder is not used after an error.
                let rest = unsafe { JxlDecoderReleaseInput(self.handle.as_ptr()) };
                Err(damaged(format!(
                    "the library finds damage by byte {} of {}",
                    self.bytes.saturating_sub(rest),
                    self.bytes
                )))
            }
            JxlDecoderStatus::NEED_MORE_INPUT => {
                Err(damaged(format!("its {} bytes end before the image does", self.bytes)))
            }
            JxlDecoderStatus(event) => Ok(Stop::Event(event)),
        }
    }

    /// Decodes the pixels into a place that has the header's shape and type.
    pub(in crate::jxl) fn pixels(
        mut self,
        header: &Header,
        frame: Option<u32>,
        depth: DepthHandling,
        out: &mut ImageViewMut<'_>,
    ) -> Result<()> {
        self.run(header, frame, depth, out)
    }

    /// The same; the decoder keeps the place and may only be dropped afterwards.
    fn run(
        &mut self,
        header: &Header,
        frame: Option<u32>,
        depth: DepthHandling,
        out: &mut ImageViewMut<'_>,
    ) -> Result<()> {
        let sample_type = out.sample_type();
        let channels = out.shape().channels();
        let format = data_type(sample_type).map(|data_type| JxlPixelFormat {
            num_channels: channels,
            data_type,
            endianness: JxlEndianness::NATIVE,
            align: 0,
        });
        let Some(format) = format else {
            return Err(damaged(format!("it has no samples of type {sample_type}")));
        };
        // SAFETY: allowed before the first frame.
        unsafe {
            if let Some(skipped @ 1..) = frame {
                let skipped = usize::try_from(skipped).unwrap_or(usize::MAX);
                extra::JxlDecoderSkipFrames(self.handle.as_ptr(), skipped);
            }
            expect(extra::JxlDecoderSetProgressiveDetail(self.handle.as_ptr(), extra::DETAIL_DC))?;
        }
        let room = bytes_of(out.samples_mut());
        loop {
            match self.advance()? {
                Stop::Event(event) if event == JxlDecoderStatus::NEED_IMAGE_OUT_BUFFER.0 => {
                    // SAFETY: the buffer is borrowed until this function returns, after which
                    // the handle is only destroyed; its length is passed along and
                    // tested by the library.
                    unsafe {
                        expect(JxlDecoderSetImageOutBuffer(
                            self.handle.as_ptr(),
                            &raw const format,
                            room.as_mut_ptr().cast::<c_void>(),
                            room.len(),
                        ))?;
                    }
                    if depth == DepthHandling::Unscaled && header.exponent_bits == 0 {
                        let depth = JxlBitDepth {
                            r#type: JxlBitDepthType::FROM_CODESTREAM,
                            bits_per_sample: 0,
                            exponent_bits_per_sample: 0,
                        };
                        // SAFETY: allowed once there is a buffer.
                        unsafe {
                            expect(extra::JxlDecoderSetImageOutBitDepth(
                                self.handle.as_ptr(),
                                &raw const depth,
                            ))?;
                        }
                    }
                }
                Stop::Event(extra::FRAME_PROGRESSION) => {
                    // SAFETY: allowed at this event; the buffer is still borrowed. A flush that
                    // gives nothing leaves the decoder as it was.
                    let flushed = unsafe {
                        extra::JxlDecoderGetIntendedDownsamplingRatio(self.handle.as_ptr()) == 8
                            && extra::JxlDecoderFlushImage(self.handle.as_ptr())
                                == JxlDecoderStatus::SUCCESS
                    };
                    if flushed {
                        return Ok(());
                    }
                }
                Stop::Event(event) if event == JxlDecoderStatus::FULL_IMAGE.0 => {
                    return Ok(());
                }
                Stop::Event(event) => {
                    return Err(damaged(format!("the library asks for {event}")));
                }
                Stop::Done => {
                    return Err(damaged(match frame {
                        Some(frame) => format!("it has no frame {frame}"),
                        None => "it has no frame".to_owned(),
                    }));
                }
            }
        }
    }

    #[cfg(test)]
    fn memory_after_the_end(self) -> u64 {
        let decoder = std::mem::ManuallyDrop::new(self);
        // SAFETY: as in `drop`, which does not run; the memory is read once and then dropped.
        let memory = unsafe {
            JxlDecoderDestroy(decoder.handle.as_ptr());
            std::ptr::read(&raw const decoder.memory)
        };
        memory.used()
    }
}

/// For calls that fail only when they are made at the wrong time.
fn expect(status: JxlDecoderStatus) -> Result<()> {
    if status == JxlDecoderStatus::SUCCESS {
        return Ok(());
    }
    Err(damaged(format!("the library refuses a call with status {}", status.0)))
}

fn bytes_of(samples: SamplesMut<'_>) -> &mut [u8] {
    match samples {
        SamplesMut::U8(samples) => samples,
        SamplesMut::U16(samples) => bytemuck::cast_slice_mut(samples),
        SamplesMut::I16(samples) => bytemuck::cast_slice_mut(samples),
        SamplesMut::F16(samples) => bytemuck::cast_slice_mut(samples),
        SamplesMut::F32(samples) => bytemuck::cast_slice_mut(samples),
    }
}

/// Bytes that the buffer for a JPEG starts with.
const FIRST_JPEG_BYTES: usize = 64 << 10;

/// Rebuilds the JPEG file that a stream was made from, if it was.
pub(in crate::jxl) fn reconstruct(payload: &[u8], limits: &Limits) -> Result<Option<Vec<u8>>> {
    let events = JxlDecoderStatus::BASIC_INFO.0
        | JxlDecoderStatus::JPEG_RECONSTRUCTION.0
        | JxlDecoderStatus::FULL_IMAGE.0;
    let most = usize::try_from(limits.max_decoded_bytes).unwrap_or(usize::MAX);
    // Before the decoder, so that it outlives it.
    let mut jpeg = Vec::new();
    let (mut decoder, header) = Decoder::start(payload, limits, events)?;
    header.shape()?.check(limits)?;
    let mut rebuilding = false;
    loop {
        match decoder.advance()? {
            Stop::Event(event) if event == JxlDecoderStatus::JPEG_RECONSTRUCTION.0 => {
                rebuilding = true;
                let first = payload.len().saturating_mul(2).max(FIRST_JPEG_BYTES).min(most);
                grow(&mut jpeg, first)?;
                decoder.give(&mut jpeg, 0)?;
            }
            Stop::Event(event) if event == JxlDecoderStatus::JPEG_NEED_MORE_OUTPUT.0 => {
                // SAFETY: allowed at any time; the buffer is given anew below.
                let rest = unsafe { JxlDecoderReleaseJPEGBuffer(decoder.handle.as_ptr()) };
                let written = jpeg.len().saturating_sub(rest);
                if jpeg.len() >= most {
                    limits.check_decoded_bytes(limits.max_decoded_bytes.saturating_add(1))?;
                }
                let larger = jpeg.len().saturating_mul(2).min(most);
                grow(&mut jpeg, larger)?;
                decoder.give(&mut jpeg, written)?;
            }
            Stop::Event(event) if event == JxlDecoderStatus::FULL_IMAGE.0 && rebuilding => {
                // SAFETY: allowed at any time.
                let rest = unsafe { JxlDecoderReleaseJPEGBuffer(decoder.handle.as_ptr()) };
                jpeg.truncate(jpeg.len().saturating_sub(rest));
                return Ok(Some(jpeg));
            }
            // Pixels are what such a stream has, and nothing else.
            _ => return Ok(None),
        }
    }
}

impl Decoder<'_> {
    /// Gives the buffer for a JPEG from a position on. The caller keeps it as it is until it is
    /// released or the handle is destroyed.
    fn give(&mut self, jpeg: &mut [u8], from: usize) -> Result<()> {
        let room = jpeg.get_mut(from..).unwrap_or_default();
        // SAFETY: the only caller touches the vector again only after it has released the buffer,
        // and drops the decoder before the vector.
        unsafe {
            expect(JxlDecoderSetJPEGBuffer(self.handle.as_ptr(), room.as_mut_ptr(), room.len()))
        }
    }
}

fn grow(jpeg: &mut Vec<u8>, to: usize) -> Result<()> {
    let more = to.saturating_sub(jpeg.len());
    jpeg.try_reserve_exact(more).map_err(|_| CodecError::Limit {
        what: "decoded bytes",
        found: crate::codec::u64_len(to),
        allowed: 0,
    })?;
    jpeg.resize(to, 0);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::{Care, Plan, encode};
    use super::*;
    use crate::{Image, ImageShape, SampleType};

    #[test]
    fn a_handle_gives_back_all_memory() {
        let shape = ImageShape::new(300, 280, 3).unwrap();
        let limits = Limits::default();
        let image = Image::zeroed(shape, SampleType::U8, &limits).unwrap();
        let plan =
            Plan { distance: Some(1.0), effort: 3, container: false, bits: None, care: Care::None };
        let payload = encode(&image.as_view(), &plan).unwrap();
        let mut out = image;
        // Wherever it stops: at the header, at a bound on memory, at the end of a cut stream.
        let (decoder, _) = Decoder::open(&payload, &limits, Pixels::All).unwrap();
        assert!(decoder.memory.used() > 0);
        assert_eq!(decoder.memory_after_the_end(), 0);
        for bytes in (10..24).map(|power| 1_u64 << power) {
            for end in [payload.len() / 2, payload.len()] {
                let limits = limits.with_max_native_memory(bytes);
                let opened = Decoder::open(&payload[..end], &limits, Pixels::All);
                let Ok((mut decoder, header)) = opened else { continue };
                let _ =
                    decoder.run(&header, None, DepthHandling::Compatible, &mut out.as_view_mut());
                assert_eq!(decoder.memory_after_the_end(), 0, "{bytes} {end}");
            }
        }
    }
}
