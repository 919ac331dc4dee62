//! The backend on libjpeg-turbo, through its TurboJPEG interface.
//!
//! Why the layer is sound: a handle lives within one call and on one thread, and is destroyed by
//! its owner's `Drop`; the library leaves by `longjmp` only within its own frames, as it is given
//! no callbacks; and what it writes is bounded by buffers whose sizes are tested here against the
//! size that the library itself read from the same bytes. In `tests/jpeg.rs`,
//! `decoding_into_a_place_of_another_shape_is_refused` would notice a place that is too small and
//! `many_threads_get_what_one_gets` a handle that is shared; in `tests/jpeg_hostile.rs`,
//! `altered_bytes_never_stop_the_process` would notice headers that are read in two ways.
//!
//! A handle would carry tables of one stream over to the next one that lacks them, and Huffman
//! tables of one image to the next; so each call makes its own, which takes a tenth of a
//! microsecond.
#![allow(unsafe_code)]

use std::borrow::Cow;
use std::ffi::{CStr, c_int};
use std::ptr::{self, NonNull};

use turbojpeg_sys as sys;

use super::marker::{APP0, Header, Process, Walk, unsupported};
use super::options::{JpegOptions, Subsampling};
use super::{NAME, damaged, max_scans, too_many_scans};
use crate::codec::u64_len;
use crate::image::{ImageView, SamplesMut, SamplesRef, Scale};
use crate::{CodecError, Limits, Result};

pub(super) const VERSION: &str = "libjpeg-turbo 3.1.0";

/// Bytes of a thread's buffer for encoded images that are kept from one to the next.
const MAX_KEPT_BYTES: usize = 8 << 20;

/// A handle of the library.
struct Handle(NonNull<std::ffi::c_void>);

impl Handle {
    fn new(kind: sys::TJINIT) -> Option<Self> {
        // SAFETY: the function takes any number and gives null where it cannot make a handle.
        NonNull::new(unsafe { sys::tj3Init(kind.cast_signed()) }).map(Self)
    }

    fn set(&self, parameter: sys::TJPARAM, value: c_int) -> Result<(), Failure> {
        // SAFETY: the handle is alive; unknown parameters and values are refused by the library.
        let result = unsafe { sys::tj3Set(self.0.as_ptr(), parameter.cast_signed(), value) };
        if result == 0 { Ok(()) } else { Err(self.failure()) }
    }

    fn get(&self, parameter: sys::TJPARAM) -> c_int {
        // SAFETY: the handle is alive; the library gives -1 for what it does not know.
        unsafe { sys::tj3Get(self.0.as_ptr(), parameter.cast_signed()) }
    }

    /// What the last call that failed says.
    fn failure(&self) -> Failure {
        // SAFETY: the handle is alive, and the library gives a string that ends with a zero: one
        // of the handle, or one of this thread, that the next call on it would overwrite. It is
        // copied before.
        let (words, code) = unsafe {
            let words = sys::tj3GetErrorStr(self.0.as_ptr());
            let words = if words.is_null() { c"no reason given" } else { CStr::from_ptr(words) };
            (words.to_string_lossy().into_owned(), sys::tj3GetErrorCode(self.0.as_ptr()))
        };
        Failure { warning: code == sys::TJERR_TJERR_WARNING.cast_signed(), words: tidy(&words) }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: the handle is alive, and nobody else has it.
        unsafe { sys::tj3Destroy(self.0.as_ptr()) };
    }
}

/// Why a call failed.
struct Failure {
    /// Whether the library went on.
    warning: bool,
    words: String,
}

/// The library's own words, as part of a sentence.
fn tidy(words: &str) -> String {
    let words = words.trim().trim_end_matches('.').replace('\n', " ");
    let mut letters = words.chars();
    match letters.next() {
        // Names such as "JPEG" keep their letters.
        Some(first) if letters.clone().next().is_some_and(char::is_lowercase) => {
            first.to_lowercase().chain(letters).collect()
        }
        _ => words,
    }
}

fn no_handle() -> CodecError {
    damaged("no memory for the library".to_owned())
}

fn decode_error(failure: &Failure, header: &Header, limits: &Limits) -> CodecError {
    let words = &failure.words;
    if words.contains("emory limit exceeded") {
        let allowed = limits.max_native_memory;
        let found = allowed.saturating_add(1);
        return CodecError::Limit { what: "bytes of native memory", found, allowed };
    }
    if words.contains("more than") && words.contains("scans") {
        return too_many_scans(header);
    }
    let known = ["nsupported", "not implemented", "omitted at compile time", "not supported"];
    if known.iter().any(|part| words.contains(part)) {
        return unsupported(words.clone());
    }
    damaged(words.clone())
}

/// The stream with JFIF markers of a revision that the library knows.
///
/// It warns of others, which would stop a decoder that takes warnings for damage, although no pixel
/// depends on the revision.
fn of_known_revision(stream: &[u8], scan_at: usize) -> Cow<'_, [u8]> {
    let mut stream = Cow::Borrowed(stream);
    let mut at = 2;
    while at < scan_at {
        let mut walk = Walk::new(&stream, at, true);
        let Ok(segment) = walk.next_segment() else { break };
        at = walk.position();
        let body = stream.get(segment.body.clone()).unwrap_or_default();
        let is_jfif = body.starts_with(b"JFIF\0") && body.len() >= 14;
        if segment.marker == APP0
            && is_jfif
            && body.get(5) != Some(&1)
            && let Some(major) = stream.to_mut().get_mut(segment.body.start.saturating_add(5))
        {
            *major = 1;
        }
    }
    stream
}

/// Decodes a stream into a place that its header was read for.
///
/// The place has the size that `scale` gives; lossless streams have no other than the full one.
pub(super) fn decode(
    stream: &[u8],
    header: &Header,
    scale: Scale,
    lenient: bool,
    limits: &Limits,
    out: SamplesMut<'_>,
) -> Result<()> {
    let stream = &*of_known_revision(stream, header.scan_at);
    let handle = Handle::new(sys::TJINIT_TJINIT_DECOMPRESS).ok_or_else(no_handle)?;
    let fail = |failure: Failure| decode_error(&failure, header, limits);
    let passed = |result: c_int| -> Result<()> {
        if result == 0 {
            return Ok(());
        }
        let failure = handle.failure();
        if lenient && failure.warning {
            Ok(())
        } else {
            Err(decode_error(&failure, header, limits))
        }
    };
    let pixels = u64::from(header.width).saturating_mul(header.height.into());
    // Whole MiB, and 0 would be no limit.
    let memory = (limits.max_native_memory >> 20).clamp(1, u64::from(u16::MAX) << 4);
    for (parameter, value) in [
        (sys::TJPARAM_TJPARAM_STOPONWARNING, c_int::from(!lenient)),
        (sys::TJPARAM_TJPARAM_SCANLIMIT, c_int::from(max_scans(header))),
        (sys::TJPARAM_TJPARAM_MAXPIXELS, c_int::try_from(pixels).unwrap_or(c_int::MAX)),
        (sys::TJPARAM_TJPARAM_MAXMEMORY, c_int::try_from(memory).unwrap_or(c_int::MAX)),
        (sys::TJPARAM_TJPARAM_SAVEMARKERS, 0),
    ] {
        handle.set(parameter, value).map_err(fail)?;
    }
    let size = sys::size_t::try_from(stream.len()).map_err(|_| no_handle())?;
    // SAFETY: the handle is alive, and the stream has `size` bytes, which the library only reads.
    let result = unsafe { sys::tj3DecompressHeader(handle.0.as_ptr(), stream.as_ptr(), size) };
    passed(result)?;

    // The library's own view decides about what it writes; ours must be the same.
    let color = handle.get(sys::TJPARAM_TJPARAM_COLORSPACE).cast_unsigned();
    let found = (
        handle.get(sys::TJPARAM_TJPARAM_JPEGHEIGHT),
        handle.get(sys::TJPARAM_TJPARAM_JPEGWIDTH),
        handle.get(sys::TJPARAM_TJPARAM_PRECISION),
    );
    let wanted =
        (c_int::from(header.height), c_int::from(header.width), c_int::from(header.precision));
    let (format, channels) = match color {
        sys::TJCS_TJCS_GRAY => (sys::TJPF_TJPF_GRAY, 1),
        sys::TJCS_TJCS_RGB | sys::TJCS_TJCS_YCbCr => (sys::TJPF_TJPF_RGB, 3),
        sys::TJCS_TJCS_CMYK | sys::TJCS_TJCS_YCCK => (sys::TJPF_TJPF_CMYK, 4),
        other => return Err(damaged(format!("the library gives its colours the number {other}"))),
    };
    if found != wanted || channels != usize::from(header.count) {
        return Err(damaged(format!(
            "its headers read as {wanted:?} or as {found:?} with {channels} components"
        )));
    }
    let lossless = header.process == Process::Lossless;
    if lossless && scale != Scale::Full {
        return Err(damaged(format!("a lossless stream has no scale {scale}")));
    }
    let denominator = scale.denominator();
    let factor = sys::tjscalingfactor { num: 1, denom: c_int::try_from(denominator).unwrap_or(1) };
    // SAFETY: the handle is alive; factors that the library does not have are refused.
    passed(unsafe { sys::tj3SetScalingFactor(handle.0.as_ptr(), factor) })?;
    let side = |pixels: u16| usize::try_from(u32::from(pixels).div_ceil(denominator));
    let needed = match (side(header.height), side(header.width)) {
        (Ok(height), Ok(width)) => {
            height.checked_mul(width).and_then(|pixels| pixels.checked_mul(channels))
        }
        _ => None,
    };
    let misfit = |found: usize| damaged(format!("a place of {found} samples is not its size"));

    // In each arm below: the handle is alive and the stream has `size` bytes. `tj3DecompressX`
    // writes ceil(height * factor) rows of ceil(width * factor) pixels of the format's channels,
    // one behind the other as the pitch is 0, so `needed` samples of the type of its pointer. The
    // sides are those that the library itself read from the same bytes just before; it reads them
    // again, and they cannot change while the stream is borrowed.
    let result = match (out, header.precision) {
        (SamplesMut::U8(out), 2..=8) if Some(out.len()) == needed => {
            // SAFETY: see above; the place has `needed` bytes.
            unsafe {
                sys::tj3Decompress8(
                    handle.0.as_ptr(),
                    stream.as_ptr(),
                    size,
                    out.as_mut_ptr(),
                    0,
                    format,
                )
            }
        }
        (SamplesMut::U16(out), 9..=12) if Some(out.len()) == needed => {
            // SAFETY: see above; the place has `needed` numbers of 16 bits. They are written as
            // signed ones, of which every bit pattern is an unsigned one.
            unsafe {
                sys::tj3Decompress12(
                    handle.0.as_ptr(),
                    stream.as_ptr(),
                    size,
                    out.as_mut_ptr().cast::<i16>(),
                    0,
                    format,
                )
            }
        }
        (SamplesMut::U16(out), 13..=16) if Some(out.len()) == needed => {
            // SAFETY: see above; the place has `needed` numbers of 16 bits.
            unsafe {
                sys::tj3Decompress16(
                    handle.0.as_ptr(),
                    stream.as_ptr(),
                    size,
                    out.as_mut_ptr(),
                    0,
                    format,
                )
            }
        }
        (other, _) => return Err(misfit(other.as_ref().len())),
    };
    passed(result)
}

/// Encodes an image whose type, shape and samples were tested against the options.
pub(super) fn encode(image: &ImageView<'_>, options: &JpegOptions, bits: u8) -> Result<Vec<u8>> {
    let handle = Handle::new(sys::TJINIT_TJINIT_COMPRESS)
        .ok_or_else(|| CodecError::encode(NAME, "no memory for the library"))?;
    let fail = |failure: Failure| CodecError::encode(NAME, failure.words);
    let grey = image.shape().channels() == 1;
    let format = if grey { sys::TJPF_TJPF_GRAY } else { sys::TJPF_TJPF_RGB };
    let subsampling = match options.subsampling {
        _ if grey => sys::TJSAMP_TJSAMP_GRAY,
        Subsampling::S444 => sys::TJSAMP_TJSAMP_444,
        Subsampling::S422 => sys::TJSAMP_TJSAMP_422,
        Subsampling::S420 => sys::TJSAMP_TJSAMP_420,
    };
    let rows = options.restart_rows.unwrap_or(0);
    if options.lossless {
        for (parameter, value) in [
            (sys::TJPARAM_TJPARAM_LOSSLESS, 1),
            (sys::TJPARAM_TJPARAM_PRECISION, c_int::from(bits)),
            (sys::TJPARAM_TJPARAM_LOSSLESSPSV, c_int::from(options.predictor)),
            (sys::TJPARAM_TJPARAM_LOSSLESSPT, 0),
        ] {
            handle.set(parameter, value).map_err(fail)?;
        }
    } else {
        for (parameter, value) in [
            (sys::TJPARAM_TJPARAM_QUALITY, c_int::from(options.quality)),
            (sys::TJPARAM_TJPARAM_SUBSAMP, subsampling),
            (sys::TJPARAM_TJPARAM_PROGRESSIVE, c_int::from(options.progressive)),
            (sys::TJPARAM_TJPARAM_OPTIMIZE, c_int::from(options.optimize)),
        ] {
            handle.set(parameter, value).map_err(fail)?;
        }
    }
    handle.set(sys::TJPARAM_TJPARAM_RESTARTROWS, c_int::from(rows)).map_err(fail)?;

    let too_large = || CodecError::encode(NAME, format!("{} is too large", image.shape()));
    let width = c_int::try_from(image.shape().width()).map_err(|_| too_large())?;
    let height = c_int::try_from(image.shape().height()).map_err(|_| too_large())?;
    if options.lossless || bits > 8 {
        // How large these become is known to nobody before; the library grows its own buffer.
        let mut grown = Grown { data: ptr::null_mut(), size: 0 };
        let result = compress(&handle, image, width, height, format, bits, &mut grown)?;
        return if result == 0 { Ok(grown.bytes().to_vec()) } else { Err(fail(handle.failure())) };
    }
    handle.set(sys::TJPARAM_TJPARAM_NOREALLOC, 1).map_err(fail)?;
    // SAFETY: the function only computes.
    let bound = unsafe { sys::tj3JPEGBufSize(width, height, subsampling) };
    let bound = usize::try_from(bound).ok().filter(|bound| *bound > 0).ok_or_else(too_large)?;
    with_buffer(bound, |buffer| {
        let mut fixed = Fixed {
            data: buffer.as_mut_ptr(),
            size: sys::size_t::try_from(buffer.len()).unwrap_or(0),
        };
        let SamplesRef::U8(samples) = image.samples() else { return Err(too_large()) };
        // SAFETY: the handle is alive. The image has `height` rows of `width` pixels of the
        // format's channels, one behind the other as the pitch is 0: a view has exactly as many
        // samples as its shape, and its channels are 1 or 3. The library writes at most `size`
        // bytes to `data` and, as it was told not to reallocate, never frees or replaces it.
        let result = unsafe {
            sys::tj3Compress8(
                handle.0.as_ptr(),
                samples.as_ptr(),
                width,
                0,
                height,
                format,
                &raw mut fixed.data,
                &raw mut fixed.size,
            )
        };
        if result != 0 {
            return Err(fail(handle.failure()));
        }
        let written = usize::try_from(fixed.size).unwrap_or(0);
        Ok(buffer.get(..written).unwrap_or_default().to_vec())
    })
}

/// A buffer of this thread, as the library wants it.
struct Fixed {
    data: *mut u8,
    size: sys::size_t,
}

/// A buffer that the library made and grew.
struct Grown {
    data: *mut u8,
    size: sys::size_t,
}

impl Grown {
    fn bytes(&self) -> &[u8] {
        match usize::try_from(self.size) {
            // SAFETY: after a call that succeeded, the library's buffer holds `size` bytes, all of
            // them written, and it stays until this value is dropped.
            Ok(size) if !self.data.is_null() => unsafe {
                std::slice::from_raw_parts(self.data, size)
            },
            _ => &[],
        }
    }
}

impl Drop for Grown {
    fn drop(&mut self) {
        // SAFETY: the pointer is null or one that the library allocated and handed over.
        unsafe { sys::tj3Free(self.data.cast()) };
    }
}

/// Encodes with the function for the depth into a buffer that the library makes.
fn compress(
    handle: &Handle,
    image: &ImageView<'_>,
    width: c_int,
    height: c_int,
    format: sys::TJPF,
    bits: u8,
    out: &mut Grown,
) -> Result<c_int> {
    let (data, size) = (&raw mut out.data, &raw mut out.size);
    let handle = handle.0.as_ptr();
    // In each arm below: the handle is alive; the image has `height` rows of `width` pixels of the
    // format's channels, one behind the other as the pitch is 0: a view has exactly as many
    // samples as its shape, and its channels are 1 or 3. `data` is null, so that the library
    // allocates, and it keeps `data` and `size` current also when it fails.
    Ok(match (image.samples(), bits) {
        (SamplesRef::U8(samples), 2..=8) => {
            // SAFETY: see above.
            unsafe {
                sys::tj3Compress8(handle, samples.as_ptr(), width, 0, height, format, data, size)
            }
        }
        (SamplesRef::U16(samples), 9..=12) => {
            let samples = samples.as_ptr().cast::<i16>();
            // SAFETY: see above; the samples were tested to be below 2^12, so they are the same
            // numbers when they are read as signed ones.
            unsafe { sys::tj3Compress12(handle, samples, width, 0, height, format, data, size) }
        }
        (SamplesRef::U16(samples), 13..=16) => {
            // SAFETY: see above.
            unsafe {
                sys::tj3Compress16(handle, samples.as_ptr(), width, 0, height, format, data, size)
            }
        }
        (other, _) => {
            return Err(CodecError::encode(
                NAME,
                format!(
                    "{} samples of type {} with {bits} bits",
                    u64_len(other.len()),
                    other.sample_type()
                ),
            ));
        }
    })
}

thread_local! {
    static BUFFER: std::cell::Cell<Vec<u8>> = const { std::cell::Cell::new(Vec::new()) };
}

/// Runs with this thread's buffer of at least that many bytes; its contents are arbitrary.
fn with_buffer<T>(bytes: usize, run: impl FnOnce(&mut [u8]) -> Result<T>) -> Result<T> {
    let mut buffer = BUFFER.try_with(std::cell::Cell::take).unwrap_or_default();
    if buffer.len() < bytes {
        buffer = Vec::new();
        buffer
            .try_reserve_exact(bytes)
            .map_err(|_| CodecError::encode(NAME, format!("no memory for {bytes} bytes")))?;
        buffer.resize(bytes, 0);
    }
    let result = run(&mut buffer);
    if buffer.len() <= MAX_KEPT_BYTES {
        let _ = BUFFER.try_with(|cell| cell.set(buffer));
    }
    result
}
