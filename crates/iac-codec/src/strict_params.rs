//! Parameters of codecs that refuse what they do not know.

use std::ops::RangeInclusive;

use serde_json::Value;

use crate::spec::type_name;
use crate::{CodecError, Parameters, Result};

/// Takes parameters out of a header's object; an unknown name, a wrong type or a value out of
/// range is an error.
pub(crate) struct StrictParameters<'a> {
    codec: &'static str,
    parameters: &'a Parameters,
}

impl<'a> StrictParameters<'a> {
    /// Refuses names other than the known ones.
    pub(crate) fn new(
        codec: &'static str,
        parameters: &'a Parameters,
        known: &[&str],
    ) -> Result<Self> {
        match parameters.keys().find(|name| !known.contains(&name.as_str())) {
            None => Ok(Self { codec, parameters }),
            Some(name) => Err(CodecError::parameter(
                codec,
                name,
                format!("is not known, there are {}", known.join(", ")),
            )),
        }
    }

    /// What is wrong with a parameter.
    pub(crate) fn wrong(&self, name: &str, wanted: &str) -> CodecError {
        let found = match self.parameters.get(name) {
            Some(Value::Number(number)) => number.to_string(),
            Some(Value::String(text)) if text.len() <= 40 => format!("`{text}`"),
            Some(other) => type_name(other).to_owned(),
            None => "nothing".to_owned(),
        };
        CodecError::parameter(self.codec, name, format!("{found} instead of {wanted}"))
    }

    pub(crate) fn value(&self, name: &str) -> Option<&'a Value> {
        self.parameters.get(name)
    }

    /// `true` or `false`, if the parameter is there.
    pub(crate) fn boolean(&self, name: &str) -> Result<Option<bool>> {
        let Some(value) = self.value(name) else { return Ok(None) };
        value.as_bool().map(Some).ok_or_else(|| self.wrong(name, "true or false"))
    }

    /// An integer in a range, if the parameter is there.
    pub(crate) fn integer(&self, name: &str, range: RangeInclusive<u32>) -> Result<Option<u32>> {
        let Some(value) = self.value(name) else { return Ok(None) };
        let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
        number.filter(|number| range.contains(number)).map(Some).ok_or_else(|| {
            self.wrong(name, &format!("an integer from {} to {}", range.start(), range.end()))
        })
    }

    /// A finite number in a range, if the parameter is there.
    #[cfg(feature = "jpeg2000")]
    pub(crate) fn number(&self, name: &str, range: RangeInclusive<f64>) -> Result<Option<f64>> {
        let Some(value) = self.value(name) else { return Ok(None) };
        value.as_f64().filter(|number| range.contains(number)).map(Some).ok_or_else(|| {
            self.wrong(name, &format!("a number from {} to {}", range.start(), range.end()))
        })
    }

    /// One of some words, if the parameter is there.
    pub(crate) fn choice<T: Copy>(
        &self,
        name: &str,
        choices: &[(&'static str, T)],
    ) -> Result<Option<T>> {
        let Some(value) = self.value(name) else { return Ok(None) };
        let found = choices.iter().find(|(word, _)| value.as_str() == Some(word));
        found.map(|(_, choice)| Some(*choice)).ok_or_else(|| {
            let words: Vec<String> = choices.iter().map(|(word, _)| format!("`{word}`")).collect();
            self.wrong(name, &words.join(" or "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_cannot_be_used_is_named_with_what_could() {
        let parameters = json!({"flag": 1, "count": 7.5, "word": "c"});
        let parameters = parameters.as_object().unwrap();
        let error = StrictParameters::new("test", parameters, &["flag", "word"]).err().unwrap();
        assert_eq!(
            error.to_string(),
            "codec `test`: parameter `count`: is not known, there are flag, word"
        );
        let strict =
            StrictParameters::new("test", parameters, &["flag", "count", "word", "more"]).unwrap();
        assert!(
            strict.boolean("flag").unwrap_err().to_string().ends_with("1 instead of true or false")
        );
        assert!(
            strict
                .integer("count", 1..=9)
                .unwrap_err()
                .to_string()
                .ends_with("7.5 instead of an integer from 1 to 9")
        );
        assert!(
            strict
                .choice("word", &[("a", 1), ("b", 2)])
                .unwrap_err()
                .to_string()
                .ends_with("`c` instead of `a` or `b`")
        );
        assert_eq!(strict.boolean("more").unwrap(), None);
        assert_eq!(strict.integer("flag", 0..=1).unwrap(), Some(1));
    }
}
