//! The calls into OpenJPEG.
//!
//! Sound because every handle lives within one call and is released once, every pointer that the
//! library gets comes from a value that outlives the call (source and messages stand on the stack
//! behind the handles that use them), callbacks touch nothing but their own user data and cannot
//! unwind, and samples are read only where the component's own size says that there are some.
//! The structure of a stream was checked before ([`super::codestream`]). The tests of altered and
//! cut streams, run under a memory checker too, would notice a hole.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_void};
use std::ptr;
use std::slice;

use openjpeg_sys as sys;

use super::codestream::Area;
use super::{NAME, damaged};
use crate::codec::u64_len;
use crate::{CodecError, Result};

unsafe extern "C" {
    // The library has this, its Rust declarations do not.
    fn opj_decoder_set_strict_mode(
        codec: *mut sys::opj_codec_t,
        strict: sys::OPJ_BOOL,
    ) -> sys::OPJ_BOOL;
}

/// The samples of one decoded component.
pub(super) struct Plane<'a> {
    pub(super) samples: &'a [i32],
    pub(super) width: u32,
    pub(super) height: u32,
}

/// What is to be decoded of a codestream.
pub(super) struct Request<'a> {
    pub(super) codestream: &'a [u8],
    /// A byte that is read as 0.
    pub(super) cleared: Option<usize>,
    /// Halvings of the resolution.
    pub(super) halvings: u32,
    /// The part wanted, in coordinates of the reference grid.
    pub(super) area: Option<Area>,
}

/// A codestream that is read.
struct Source<'a> {
    bytes: &'a [u8],
    position: usize,
    cleared: Option<usize>,
}

/// A codestream that is written.
struct Sink {
    bytes: Vec<u8>,
    position: usize,
}

/// The first error of the library and the first warning that means damage.
#[derive(Default)]
struct Messages {
    error: String,
    damage: String,
}

impl Messages {
    fn text(&self) -> String {
        let text = if self.error.is_empty() { &self.damage } else { &self.error };
        if text.is_empty() {
            "OpenJPEG gives up without a reason".to_owned()
        } else {
            format!("OpenJPEG says: {text}")
        }
    }
}

/// # Safety
///
/// `message` is null or ends in a zero byte.
unsafe fn copied(message: *const c_char) -> String {
    if message.is_null() {
        return String::new();
    }
    // SAFETY: it is not null, and the caller promises the rest.
    let text = unsafe { CStr::from_ptr(message) }.to_string_lossy();
    let line: String = text.chars().take(200).filter(|c| !c.is_control()).collect();
    line.trim().trim_end_matches('.').to_owned()
}

unsafe extern "C" fn on_error(message: *const c_char, data: *mut c_void) {
    // SAFETY: `data` is the `Messages` that was registered together with this function; it
    // outlives the codec, and the library calls from the calling thread only.
    let messages = unsafe { &mut *data.cast::<Messages>() };
    if messages.error.is_empty() {
        // SAFETY: the library formats its messages into a buffer that ends in a zero byte.
        messages.error = unsafe { copied(message) };
    }
}

unsafe extern "C" fn on_warning(message: *const c_char, data: *mut c_void) {
    // SAFETY: as in `on_error`.
    let messages = unsafe { &mut *data.cast::<Messages>() };
    if messages.damage.is_empty() {
        // SAFETY: as in `on_error`.
        let text = unsafe { copied(message) };
        let signs = ["odeblock", "segment too long", "inconsistent with stream", "bpno"];
        if signs.iter().any(|sign| text.contains(sign)) {
            messages.damage = text;
        }
    }
}

unsafe extern "C" fn on_info(_: *const c_char, _: *mut c_void) {}

/// What the library takes for the end of a stream.
const END: usize = usize::MAX;

unsafe extern "C" fn read(buffer: *mut c_void, count: usize, data: *mut c_void) -> usize {
    // SAFETY: `data` is the `Source` that was registered together with this function and
    // outlives the stream; the library calls from the calling thread only.
    let source = unsafe { &mut *data.cast::<Source<'_>>() };
    let rest = source.bytes.get(source.position..).unwrap_or_default();
    let taken = rest.len().min(count);
    if taken == 0 || buffer.is_null() {
        return END;
    }
    // SAFETY: the library gives room for `count` bytes, and `rest` has at least `taken` of them;
    // its buffer is not the payload.
    unsafe { ptr::copy_nonoverlapping(rest.as_ptr(), buffer.cast::<u8>(), taken) };
    let cleared = source.cleared.and_then(|at| at.checked_sub(source.position));
    if let Some(at) = cleared.filter(|at| *at < taken) {
        // SAFETY: `at` is below `taken`, so within what was just copied.
        unsafe { *buffer.cast::<u8>().add(at) = 0 };
    }
    source.position = source.position.saturating_add(taken);
    taken
}

unsafe extern "C" fn skip_read(count: i64, data: *mut c_void) -> i64 {
    // SAFETY: as in `read`.
    let source = unsafe { &mut *data.cast::<Source<'_>>() };
    let Ok(wanted) = usize::try_from(count) else { return -1 };
    let left = source.bytes.len().saturating_sub(source.position);
    if wanted > left {
        source.position = source.bytes.len();
        return if left == 0 { -1 } else { i64::try_from(left).unwrap_or(-1) };
    }
    source.position = source.position.saturating_add(wanted);
    count
}

unsafe extern "C" fn seek_read(position: i64, data: *mut c_void) -> sys::OPJ_BOOL {
    // SAFETY: as in `read`.
    let source = unsafe { &mut *data.cast::<Source<'_>>() };
    match usize::try_from(position) {
        Ok(position) if position <= source.bytes.len() => {
            source.position = position;
            1
        }
        _ => 0,
    }
}

unsafe extern "C" fn write(buffer: *mut c_void, count: usize, data: *mut c_void) -> usize {
    // SAFETY: `data` is the `Sink` that was registered together with this function and outlives
    // the stream; the library calls from the calling thread only.
    let sink = unsafe { &mut *data.cast::<Sink>() };
    if buffer.is_null() || count == 0 {
        return count;
    }
    // SAFETY: the library hands over `count` bytes that it does not change during the call.
    let bytes = unsafe { slice::from_raw_parts(buffer.cast::<u8>(), count) };
    let Some(end) = sink.position.checked_add(count) else { return END };
    if end > sink.bytes.len() {
        let more = end.saturating_sub(sink.bytes.len());
        if sink.bytes.try_reserve(more).is_err() {
            return END;
        }
        sink.bytes.resize(end, 0);
    }
    if let Some(place) = sink.bytes.get_mut(sink.position..end) {
        place.copy_from_slice(bytes);
    }
    sink.position = end;
    count
}

unsafe extern "C" fn skip_write(count: i64, data: *mut c_void) -> i64 {
    // SAFETY: as in `write`.
    let sink = unsafe { &mut *data.cast::<Sink>() };
    let moved = usize::try_from(count).ok().and_then(|count| sink.position.checked_add(count));
    match moved {
        Some(position) => {
            sink.position = position;
            count
        }
        None => -1,
    }
}

unsafe extern "C" fn seek_write(position: i64, data: *mut c_void) -> sys::OPJ_BOOL {
    // SAFETY: as in `write`.
    let sink = unsafe { &mut *data.cast::<Sink>() };
    match usize::try_from(position) {
        Ok(position) => {
            sink.position = position;
            1
        }
        Err(_) => 0,
    }
}

struct Stream(*mut sys::opj_stream_t);

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: the handle came from `opj_stream_create`, and this is its only release.
        unsafe { sys::opj_stream_destroy(self.0) };
    }
}

struct Codec(*mut sys::opj_codec_t);

impl Drop for Codec {
    fn drop(&mut self) {
        // SAFETY: the handle came from one of the library's `create` functions, and this is its
        // only release.
        unsafe { sys::opj_destroy_codec(self.0) };
    }
}

struct Image(*mut sys::opj_image_t);

impl Drop for Image {
    fn drop(&mut self) {
        if !self.0.is_null() {
            // SAFETY: the image came from the library, and this is its only release.
            unsafe { sys::opj_image_destroy(self.0) };
        }
    }
}

fn out_of_memory() -> CodecError {
    CodecError::Limit { what: "bytes of native memory", found: 0, allowed: 0 }
}

/// # Safety
///
/// `codec` is live, and `messages` outlives it.
unsafe fn listen(codec: &Codec, messages: *mut Messages) {
    // SAFETY: the caller promises it; without handlers of ours the library would be silent, too,
    // but the reason would be lost.
    unsafe {
        sys::opj_set_info_handler(codec.0, Some(on_info), ptr::null_mut());
        sys::opj_set_warning_handler(codec.0, Some(on_warning), messages.cast());
        sys::opj_set_error_handler(codec.0, Some(on_error), messages.cast());
    }
}

/// Decodes and hands the planes to `take`, while the library holds them.
pub(super) fn decode<T>(
    request: &Request<'_>,
    take: impl FnOnce(&[Plane<'_>]) -> Result<T>,
) -> Result<T> {
    let mut messages = Messages::default();
    let mut source = Source { bytes: request.codestream, position: 0, cleared: request.cleared };
    let messages_at = &raw mut messages;
    let source_at = &raw mut source;
    // Large enough that short payloads are read at once, not larger than they are.
    let buffer = request.codestream.len().clamp(1024, 1 << 18);
    // SAFETY: no preconditions; null is checked.
    let stream = Stream(unsafe { sys::opj_stream_create(buffer, 1) });
    if stream.0.is_null() {
        return Err(out_of_memory());
    }
    // SAFETY: no preconditions; null is checked.
    let codec = Codec(unsafe { sys::opj_create_decompress(sys::CODEC_FORMAT::OPJ_CODEC_J2K) });
    if codec.0.is_null() {
        return Err(out_of_memory());
    }
    let mut image = Image(ptr::null_mut());
    // SAFETY: both handles are live; `source` and `messages` were made before them and are not
    // used by Rust until the handles are done with them. `parameters` is filled by the library
    // before it is read, and all of its fields may be zero.
    let decoded = unsafe {
        sys::opj_stream_set_read_function(stream.0, Some(read));
        sys::opj_stream_set_skip_function(stream.0, Some(skip_read));
        sys::opj_stream_set_seek_function(stream.0, Some(seek_read));
        sys::opj_stream_set_user_data(stream.0, source_at.cast(), None);
        sys::opj_stream_set_user_data_length(stream.0, u64_len(request.codestream.len()));
        listen(&codec, messages_at);
        let mut parameters: Box<sys::opj_dparameters_t> = Box::new(std::mem::zeroed());
        sys::opj_set_default_decoder_parameters(&raw mut *parameters);
        parameters.cp_reduce = request.halvings;
        sys::opj_setup_decoder(codec.0, &raw mut *parameters) != 0
            && opj_decoder_set_strict_mode(codec.0, 1) != 0
            && sys::opj_read_header(stream.0, codec.0, &raw mut image.0) != 0
            && !image.0.is_null()
            && area_is_set(&codec, &image, request.area)
            && sys::opj_decode(codec.0, stream.0, image.0) != 0
    };
    drop(codec);
    drop(stream);
    if !decoded || !messages.damage.is_empty() {
        return Err(damaged(messages.text()));
    }
    // SAFETY: the image is live and not null; nothing changes it while it is borrowed here.
    let header = unsafe { &*image.0 };
    let count = usize::try_from(header.numcomps).unwrap_or(0);
    if header.comps.is_null() || count == 0 {
        return Err(damaged("OpenJPEG gives no components"));
    }
    // SAFETY: the library keeps `numcomps` components behind the pointer.
    let components = unsafe { slice::from_raw_parts(header.comps, count) };
    let mut planes = Vec::with_capacity(count);
    for component in components {
        let samples = u64::from(component.w).saturating_mul(component.h.into());
        let samples = usize::try_from(samples).unwrap_or(usize::MAX);
        if component.data.is_null() || samples == 0 {
            return Err(damaged("OpenJPEG gives a component without samples"));
        }
        // SAFETY: after a successful `opj_decode` each component holds w x h samples.
        let samples = unsafe { slice::from_raw_parts(component.data, samples) };
        planes.push(Plane { samples, width: component.w, height: component.h });
    }
    take(&planes)
}

/// # Safety
///
/// Codec and image are live and belong together; the header was just read.
unsafe fn area_is_set(codec: &Codec, image: &Image, area: Option<Area>) -> bool {
    let Some(area) = area else { return true };
    let side = |side: u32| i32::try_from(side).unwrap_or(i32::MAX);
    let (x0, y0, x1, y1) = (side(area.x0), side(area.y0), side(area.x1), side(area.y1));
    // SAFETY: the caller promises it.
    unsafe { sys::opj_set_decode_area(codec.0, image.0, x0, y0, x1, y1) != 0 }
}

/// What is to be encoded, and how.
pub(super) struct Order {
    pub(super) height: u32,
    pub(super) width: u32,
    pub(super) channels: u32,
    pub(super) bits: u8,
    pub(super) signed: bool,
    /// Halvings of the resolution.
    pub(super) levels: u8,
    /// Whether the first three channels go through the colour transform.
    pub(super) transform: bool,
    pub(super) quality: Quality,
}

/// How much may be lost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Quality {
    Lossless,
    /// Peak signal to noise ratio in dB.
    Psnr(f32),
    /// Size of the samples through that of the stream.
    Ratio(f32),
}

/// Encodes; `fill` is given each channel's place in turn.
pub(super) fn encode(order: &Order, mut fill: impl FnMut(usize, &mut [i32])) -> Result<Vec<u8>> {
    let mut messages = Messages::default();
    let mut sink = Sink { bytes: Vec::new(), position: 0 };
    let messages_at = &raw mut messages;
    let sink_at = &raw mut sink;
    let image = new_image(order, &mut fill)?;
    // SAFETY: no preconditions; null is checked.
    let stream = Stream(unsafe { sys::opj_stream_create(1 << 16, 0) });
    if stream.0.is_null() {
        return Err(out_of_memory());
    }
    // SAFETY: no preconditions; null is checked.
    let codec = Codec(unsafe { sys::opj_create_compress(sys::CODEC_FORMAT::OPJ_CODEC_J2K) });
    if codec.0.is_null() {
        return Err(out_of_memory());
    }
    // SAFETY: all handles are live; `sink` and `messages` were made before them and are not used
    // by Rust until the handles are done with them. All fields of the parameters may be zero, and
    // the library fills them before they are read.
    let encoded = unsafe {
        sys::opj_stream_set_write_function(stream.0, Some(write));
        sys::opj_stream_set_skip_function(stream.0, Some(skip_write));
        sys::opj_stream_set_seek_function(stream.0, Some(seek_write));
        sys::opj_stream_set_user_data(stream.0, sink_at.cast(), None);
        listen(&codec, messages_at);
        let mut parameters = default_encoder_parameters();
        parameters.tcp_numlayers = 1;
        parameters.numresolution = i32::from(order.levels).saturating_add(1);
        parameters.tcp_mct = c_char::from(order.transform);
        match order.quality {
            Quality::Lossless => parameters.cp_disto_alloc = 1,
            Quality::Psnr(quality) => {
                parameters.irreversible = 1;
                parameters.cp_fixed_quality = 1;
                parameters.tcp_distoratio[0] = quality;
            }
            Quality::Ratio(ratio) => {
                parameters.irreversible = 1;
                parameters.cp_disto_alloc = 1;
                parameters.tcp_rates[0] = ratio;
            }
        }
        sys::opj_setup_encoder(codec.0, &raw mut *parameters, image.0) != 0
            && sys::opj_start_compress(codec.0, image.0, stream.0) != 0
            && sys::opj_encode(codec.0, stream.0) != 0
            && sys::opj_end_compress(codec.0, stream.0) != 0
    };
    drop(codec);
    drop(stream);
    if !encoded {
        return Err(CodecError::encode(NAME, messages.text()));
    }
    sink.bytes.shrink_to_fit();
    Ok(sink.bytes)
}

fn default_encoder_parameters() -> Box<sys::opj_cparameters_t> {
    let mut parameters = Box::<sys::opj_cparameters_t>::new_uninit();
    // SAFETY: zero bytes are first written everywhere, then the library writes its defaults. Zero
    // is a value of each field (numbers, pointers, and enums that have a member 0), so the struct
    // is initialised.
    unsafe {
        ptr::write_bytes(parameters.as_mut_ptr(), 0, 1);
        sys::opj_set_default_encoder_parameters(parameters.as_mut_ptr());
        parameters.assume_init()
    }
}

fn new_image(order: &Order, fill: &mut impl FnMut(usize, &mut [i32])) -> Result<Image> {
    let component = sys::opj_image_cmptparm_t {
        dx: 1,
        dy: 1,
        w: order.width,
        h: order.height,
        x0: 0,
        y0: 0,
        prec: order.bits.into(),
        bpp: 0,
        sgnd: order.signed.into(),
    };
    let count = usize::try_from(order.channels).unwrap_or(0);
    let mut components = vec![component; count];
    let color = if order.channels >= 3 {
        sys::COLOR_SPACE::OPJ_CLRSPC_SRGB
    } else {
        sys::COLOR_SPACE::OPJ_CLRSPC_GRAY
    };
    // SAFETY: the library reads `channels` components behind the pointer during the call.
    let image =
        Image(unsafe { sys::opj_image_create(order.channels, components.as_mut_ptr(), color) });
    if image.0.is_null() {
        return Err(out_of_memory());
    }
    // SAFETY: the image is live, and nothing else refers to it.
    let header = unsafe { &mut *image.0 };
    header.x1 = order.width;
    header.y1 = order.height;
    let samples = u64::from(order.width).saturating_mul(order.height.into());
    let samples = usize::try_from(samples).map_err(|_| out_of_memory())?;
    for channel in 0..count {
        // SAFETY: the library made `count` components, each with room for w x h samples, which it
        // has set to 0.
        let place = unsafe {
            let component = &*header.comps.add(channel);
            if component.data.is_null() {
                return Err(out_of_memory());
            }
            slice::from_raw_parts_mut(component.data, samples)
        };
        fill(channel, place);
    }
    Ok(image)
}
