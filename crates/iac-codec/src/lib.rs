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
//! # Names
//!
//! `none`, `brotli`, `zstd`, `lz4`, `jxl`, `jpeg`, `jpeg2000` and `jpegls` belong to the format
//! and cannot be registered by anybody else. A name that this build has no backend for gives
//! [`CodecError::MissingFeature`], any other unregistered name [`CodecError::Unknown`].
//! [`compiled_codecs`] lists what this build has.

mod codec;
mod error;
mod limits;
mod none;
mod registry;
mod spec;

pub use codec::{ByteCodec, Codec, CodecKind, Parameters};
pub use error::{CodecError, CodecErrorKind, Result};
pub use limits::Limits;
pub use registry::{Registry, compiled_codecs};
pub use spec::CodecSpec;
