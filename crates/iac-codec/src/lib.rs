//! Record codecs of IatroCache (`.iac`) files.
//!
//! A codec turns exactly one record into bytes and back. It knows nothing of files, tables or
//! headers. This crate holds the contract ([`ByteCodec`]), the handle that readers and writers
//! pass around ([`Codec`]), the pair of header members that names a codec in a file
//! ([`CodecSpec`]), the bounds that decoding keeps ([`Limits`]), and the [`Registry`] that makes
//! a codec from such a pair.
//!
//! ```
//! use iac_codec::{CodecSpec, Limits, Registry};
//!
//! # fn main() -> Result<(), iac_codec::CodecError> {
//! let codec = Registry::global().create(&CodecSpec::none())?;
//! let payload = codec.encode_bytes(b"one record")?;
//! let record = codec.decode_bytes(&payload, &Limits::default())?;
//! assert_eq!(record, b"one record");
//! # Ok(())
//! # }
//! ```
//!
//! # Features
//!
//! <!-- features of iac-codec -->
//!
//! | feature | what it adds | `default` | `full` |
//! |---|---|---|---|
//! | `zstd` | The codec `zstd`, dictionaries included (C library, built from source) | yes | yes |
//! | `brotli` | The codec `brotli` in pure Rust | yes | yes |
//! | `brotli-c` | Encoding of the codec `brotli` through the C library: faster, and smaller records | | yes |
//! | `lz4` | The codec `lz4` in pure Rust, which only this implementation of the format knows | yes | yes |
//! | `jpeg-decoder` | The codec `jpeg` for decoding only, in pure Rust | yes | |
//! | `jpeg` | The codec `jpeg` through libjpeg-turbo (built from source; needs cmake and nasm) | | yes |
//! | `jxl-decoder` | The codec `jxl` for decoding only, in pure Rust | | |
//! | `jxl` | The codec `jxl` through libjxl (built from source; needs cmake and a C++ compiler) | | yes |
//! | `jpeg2000` | The codec `jpeg2000` through OpenJPEG (built from source); HTJ2K streams are decoded only | | yes |
//! | `htj2k` | Encoding of HTJ2K streams for the codec `jpeg2000`, which is our own code | | yes |
//! | `jpegls` | The codec `jpegls` through CharLS (built from source; needs cmake and a C++ compiler) | | yes |
//!
//! <!-- end -->
//!
//! # Names
//!
//! `none`, `brotli`, `zstd`, `lz4`, `jxl`, `jpeg`, `jpeg2000` and `jpegls` belong to the format
//! and cannot be registered by anybody else. A name that this build has no backend for gives
//! [`CodecError::MissingFeature`], any other unregistered name [`CodecError::Unknown`].
//! [`compiled_codecs`] lists what this build has.

#[cfg(feature = "brotli")]
pub mod brotli;
mod byte;
mod codec;
mod error;
mod image;
#[cfg(any(feature = "jpeg", feature = "jpeg-decoder"))]
pub mod jpeg;
#[cfg(feature = "jpeg2000")]
pub mod jpeg2000;
#[cfg(feature = "jpegls")]
pub mod jpegls;
#[cfg(any(feature = "jxl", feature = "jxl-decoder"))]
pub mod jxl;
mod limits;
#[cfg(feature = "lz4")]
pub mod lz4;
mod none;
#[cfg(any(feature = "zstd", feature = "brotli", feature = "lz4"))]
mod params;
mod registry;
#[cfg(any(feature = "zstd", feature = "brotli"))]
mod scratch;
mod spec;
#[cfg(any(feature = "jpeg", feature = "jpeg-decoder", feature = "jpeg2000", feature = "jpegls"))]
mod strict_params;
#[cfg(feature = "zstd")]
pub mod zstd;

pub use byte::{ByteCodec, Parameters};
pub use codec::{Codec, CodecKind};
pub use error::{CodecError, CodecErrorKind, Result};
pub use half;
pub use image::{
    ColorHandling, DamageHandling, DecodeOptions, DepthHandling, Image, ImageCapabilities,
    ImageCodec, ImageInfo, ImageShape, ImageView, ImageViewMut, SampleMapping, SampleType, Samples,
    SamplesMut, SamplesRef, Scale,
};
pub use limits::Limits;
pub use registry::{Registry, compiled_codecs};
pub use spec::CodecSpec;
