//! Parameters of the format's own codecs: tolerant on read, strict on encode.

use crate::{CodecError, Parameters};

/// Takes parameters out of a header's object.
///
/// Whatever cannot be used becomes the default, since no stream depends on it; the first such
/// finding is kept, and encoding fails with it.
pub(crate) struct ParameterReader<'a> {
    codec: &'static str,
    parameters: &'a Parameters,
    problem: Option<CodecError>,
}

impl<'a> ParameterReader<'a> {
    pub(crate) fn new(codec: &'static str, parameters: &'a Parameters) -> Self {
        Self { codec, parameters, problem: None }
    }

    /// An integer, or the default.
    #[cfg(any(feature = "zstd", feature = "brotli"))]
    pub(crate) fn integer(
        &mut self,
        name: &'static str,
        default: i32,
        range: std::ops::RangeInclusive<i32>,
    ) -> i32 {
        let Some(value) = self.parameters.get(name) else { return default };
        let number = value.as_i64().and_then(|number| i32::try_from(number).ok());
        if let Some(number) = number.filter(|number| range.contains(number)) {
            return number;
        }
        let found = match value {
            serde_json::Value::Number(number) => number.to_string(),
            other => crate::spec::type_name(other).to_owned(),
        };
        let (low, high) = range.into_inner();
        self.complain(name, format!("{found} instead of an integer from {low} to {high}"));
        default
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
