//! Parameters of the format's own codecs: tolerant on read, strict on encode.

use crate::{CodecError, Parameters};

/// Takes parameters out of a header's object.
///
/// What has a wrong type becomes the default, since no stream depends on it; the first such finding
/// is kept, and encoding fails with it. A number out of its range is an error at once, as it is for
/// other readers of the format.
pub(crate) struct ParameterReader<'a> {
    codec: &'static str,
    parameters: &'a Parameters,
    problem: Option<CodecError>,
}

impl<'a> ParameterReader<'a> {
    pub(crate) fn new(codec: &'static str, parameters: &'a Parameters) -> Self {
        Self { codec, parameters, problem: None }
    }

    /// An integer, or the default. Where the range has no negative numbers, these count as numbers
    /// of another type.
    #[cfg(any(feature = "zstd", feature = "brotli"))]
    pub(crate) fn integer(
        &mut self,
        name: &'static str,
        default: i32,
        range: std::ops::RangeInclusive<i32>,
    ) -> crate::Result<i32> {
        let Some(value) = self.parameters.get(name) else { return Ok(default) };
        let number = value.as_i64().and_then(|number| i32::try_from(number).ok());
        if let Some(number) = number.filter(|number| range.contains(number)) {
            return Ok(number);
        }
        let is_of_type = if *range.start() < 0 { value.is_i64() } else { value.is_u64() };
        let found = match value {
            serde_json::Value::Number(number) => number.to_string(),
            other => crate::spec::type_name(other).to_owned(),
        };
        let (low, high) = range.into_inner();
        let reason = format!("{found} instead of an integer from {low} to {high}");
        if is_of_type {
            return Err(CodecError::parameter(self.codec, name, reason));
        }
        self.complain(name, reason);
        Ok(default)
    }

    /// Remembers what is wrong with a parameter.
    pub(crate) fn complain(&mut self, name: &str, reason: String) {
        if self.problem.is_none() {
            self.problem = Some(CodecError::parameter(self.codec, name, reason));
        }
    }

    /// What encoding fails with, once all parameters that exist were named.
    pub(crate) fn finish(mut self, known: &[&str]) -> Option<CodecError> {
        let unknown = self.parameters.keys().find(|name| !known.contains(&name.as_str()));
        if let Some(name) = unknown {
            let reason = if known.is_empty() {
                "is not known, this codec has none".to_owned()
            } else {
                format!("is not known, there are {}", known.join(", "))
            };
            self.complain(name, reason);
        }
        self.problem
    }
}
