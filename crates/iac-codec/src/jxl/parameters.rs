//! Parameters as headers and command lines give them.

use serde_json::Value;

use super::{DEFAULT_DISTANCE, DEFAULT_EFFORT, Jxl, JxlOptions, wrong};
use crate::spec::type_name;
use crate::{Codec, CodecError, Parameters, Result};

pub(super) const LOSSLESS: &str = "lossless";
pub(super) const DISTANCE: &str = "distance";
pub(super) const EFFORT: &str = "effort";
pub(super) const USE_CONTAINER: &str = "usecontainer";
pub(super) const BITS: &str = "bits";
pub(super) const VERIFY: &str = "verify";

const KNOWN: [&str; 6] = [LOSSLESS, DISTANCE, EFFORT, USE_CONTAINER, BITS, VERIFY];

/// A wrong type of a parameter of the format is an error at once; whatever else would be wrong
/// matters for encoding only.
pub(crate) fn from_parameters(parameters: &Parameters) -> Result<Codec> {
    let mut options = JxlOptions::default();
    let mut problem = None;
    if let Some(value) = parameters.get(LOSSLESS) {
        options.lossless = boolean(LOSSLESS, value)?;
    }
    options.distance = match parameters.get(DISTANCE) {
        None | Some(Value::Null) => DEFAULT_DISTANCE,
        Some(value) => value.as_f64().ok_or_else(|| mistyped(DISTANCE, value, "a number"))?,
    };
    options.effort = match parameters.get(EFFORT) {
        None | Some(Value::Null) => DEFAULT_EFFORT,
        Some(value) => small(EFFORT, value)?,
    };
    options.container = match parameters.get(USE_CONTAINER) {
        None | Some(Value::Null) => None,
        Some(value) => Some(boolean(USE_CONTAINER, value)?),
    };
    match parameters.get(BITS).map(|value| small(BITS, value)).transpose() {
        Ok(bits) => options.bits = bits,
        Err(error) => problem = Some(error),
    }
    match parameters.get(VERIFY).map(|value| boolean(VERIFY, value)).transpose() {
        Ok(verify) => options.verify = verify.unwrap_or(false),
        Err(error) => problem = Some(error),
    }
    if let Some(name) = parameters.keys().find(|name| !KNOWN.contains(&name.as_str())) {
        let reason = format!("is not known, there are {}", KNOWN.join(", "));
        problem = problem.or_else(|| Some(wrong(name, reason)));
    }
    Ok(Codec::from_image_codec(Jxl { options, problem }))
}

fn boolean(name: &str, value: &Value) -> Result<bool> {
    value.as_bool().ok_or_else(|| mistyped(name, value, "true or false"))
}

fn small(name: &str, value: &Value) -> Result<u8> {
    let number = value.as_u64().and_then(|number| u8::try_from(number).ok());
    number.ok_or_else(|| mistyped(name, value, "an integer from 0 to 255"))
}

fn mistyped(name: &str, value: &Value, wanted: &str) -> CodecError {
    let found = match value {
        Value::Number(number) => number.to_string(),
        other => type_name(other).to_owned(),
    };
    wrong(name, format!("{found} instead of {wanted}"))
}
