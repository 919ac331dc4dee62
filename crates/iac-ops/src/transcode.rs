//! JPEG files in JPEG XL streams, bit by bit, and out of them again.

use bytes::Bytes;
use iac_codec::{CodecError, CodecSpec, Limits, Parameters};
use iac_reader::PackReader;
use serde_json::{Map, Value, json};

use crate::decode::byte_count;
use crate::error::{OpsError, Result};
use crate::recode::{ENCODE_MEMBER, RecodeOptions, header_without};

/// Which way files go.
#[derive(Debug)]
enum Way {
    /// JPEG files, joined with tables that they share, into JPEG XL.
    IntoJxl { effort: Option<u8>, jpeg: Parameters },
    /// And out of it.
    OutOfJxl,
}

/// Moves JPEG files into JPEG XL streams, or out of them.
#[derive(Debug)]
pub(crate) struct Transcoder {
    way: Way,
    limits: Limits,
}

impl Transcoder {
    pub(crate) fn new(pack: &PackReader, options: &RecodeOptions) -> Result<Self> {
        let failed = |source| OpsError::codec(pack.path(), None, source);
        let old = CodecSpec::from_header(pack.header().members()).map_err(failed)?;
        let way = match (old.name(), options.codec.name()) {
            ("jpeg", "jxl") => {
                let parameters = options.codec.parameters().map_err(failed)?;
                if let Some(other) = parameters.keys().find(|key| *key != "effort") {
                    let reason = "has no meaning for JPEG files that are transcoded";
                    return Err(failed(CodecError::parameter("jxl", other, reason)));
                }
                let effort = parameters.get("effort").map(|effort| {
                    let number = effort.as_u64().and_then(|effort| u8::try_from(effort).ok());
                    number.filter(|effort| (1..=10).contains(effort)).ok_or_else(|| {
                        let reason = format!("{effort} instead of 1 to 10");
                        failed(CodecError::parameter("jxl", "effort", reason))
                    })
                });
                let jpeg = old.parameters().map_err(failed)?.clone();
                Way::IntoJxl { effort: effort.transpose()?, jpeg }
            }
            ("jxl", "jpeg") => Way::OutOfJxl,
            (old, new) => {
                return Err(OpsError::usage(format!(
                    "{}: only JPEG files can be transcoded, from codec `jpeg` to `jxl` and back, \
                     not from `{old}` to `{new}`",
                    pack.path()
                )));
            }
        };
        check_compiled_in().map_err(failed)?;
        Ok(Self { way, limits: options.limits })
    }

    /// The new pack's codec and header members.
    pub(crate) fn describe(&self, pack: &PackReader) -> (CodecSpec, Map<String, Value>) {
        let mut header = header_without(pack, None);
        let spec = match &self.way {
            Way::IntoJxl { effort, .. } => {
                header.insert(ENCODE_MEMBER.to_owned(), json!({ "transcoded": "jpeg" }));
                let mut parameters = Parameters::new();
                // What the codec stores for images that come back exactly.
                parameters.insert("distance".to_owned(), json!(1.0));
                parameters.insert("effort".to_owned(), json!(effort.unwrap_or(DEFAULT_EFFORT)));
                parameters.insert("lossless".to_owned(), json!(true));
                parameters.insert("usecontainer".to_owned(), json!(true));
                CodecSpec::new("jxl", parameters)
            }
            Way::OutOfJxl => CodecSpec::new("jpeg", Parameters::new()),
        };
        (spec, header)
    }

    /// Bytes of a row's JPEG file, and its new payload.
    pub(crate) fn record(&self, pack: &PackReader, row: u64) -> Result<(u64, Bytes)> {
        let stored = pack.read(row)?;
        let failed = |source| OpsError::codec(pack.path(), Some(row), source);
        match &self.way {
            Way::IntoJxl { effort, jpeg } => {
                let effort = effort.unwrap_or(DEFAULT_EFFORT);
                let (file, payload) =
                    into_jxl(&stored, jpeg, effort, &self.limits).map_err(failed)?;
                Ok((file, payload.into()))
            }
            Way::OutOfJxl => {
                let file = out_of_jxl(&stored, &self.limits).map_err(failed)?;
                Ok((byte_count(&file), file.into()))
            }
        }
    }
}

/// More makes streams hardly smaller.
const DEFAULT_EFFORT: u8 = 3;

#[cfg(feature = "jxl")]
mod backend {
    use super::{CodecError, Limits, Parameters, byte_count};
    use iac_codec::{jpeg, jxl};

    pub(super) const fn check_compiled_in() -> Result<(), CodecError> {
        Ok(())
    }

    pub(super) fn into_jxl(
        stored: &[u8],
        parameters: &Parameters,
        effort: u8,
        limits: &Limits,
    ) -> Result<(u64, Vec<u8>), CodecError> {
        let options = jxl::TranscodeOptions::default().with_effort(effort).with_limits(*limits);
        let file = jpeg::complete_stream(parameters, stored)?;
        Ok((byte_count(&file), jxl::transcode_jpeg(&file, options)?))
    }

    pub(super) fn out_of_jxl(stored: &[u8], limits: &Limits) -> Result<Vec<u8>, CodecError> {
        jxl::reconstruct_jpeg(stored, limits)?
            .ok_or_else(|| CodecError::decode("jxl", "the stream holds no JPEG file"))
    }
}

#[cfg(not(feature = "jxl"))]
mod backend {
    use super::{CodecError, Limits, Parameters};

    const MISSING: CodecError = CodecError::MissingFeature { name: "jxl", feature: "jxl" };

    pub(super) const fn check_compiled_in() -> Result<(), CodecError> {
        Err(MISSING)
    }

    pub(super) const fn into_jxl(
        _: &[u8],
        _: &Parameters,
        _: u8,
        _: &Limits,
    ) -> Result<(u64, Vec<u8>), CodecError> {
        Err(MISSING)
    }

    pub(super) const fn out_of_jxl(_: &[u8], _: &Limits) -> Result<Vec<u8>, CodecError> {
        Err(MISSING)
    }
}

use backend::{check_compiled_in, into_jxl, out_of_jxl};
