//! The two header members that say how a pack's records are coded.

use serde_json::{Map, Value};

use crate::{CodecError, Parameters, Result, none};

/// Name and parameters of a codec, as the header members `codec` and `codec_params` hold them.
///
/// A spec can be taken from any header that is JSON: parameters that are no object are kept as
/// they are and only become an error when a codec is made from them, so that such a pack still
/// opens and its stored bytes can be read and copied.
///
/// ```
/// use iac_codec::CodecSpec;
/// use serde_json::json;
///
/// # fn main() -> Result<(), iac_codec::CodecError> {
/// let spec = CodecSpec::from_members(Some(&json!("zstd")), Some(&json!({"level": 3})))?;
/// assert_eq!(spec.name(), "zstd");
/// assert_eq!(spec.parameters()?["level"], 3);
/// assert_eq!(CodecSpec::from_members(None, None)?, CodecSpec::none());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct CodecSpec {
    name: String,
    params: Params,
}

#[derive(Debug, Clone, PartialEq)]
enum Params {
    Object(Parameters),
    /// Anything that a header may hold there although no codec can be made from it.
    Other(Value),
}

impl CodecSpec {
    /// Names a codec with its parameters.
    pub fn new(name: impl Into<String>, parameters: Parameters) -> Self {
        Self { name: name.into(), params: Params::Object(parameters) }
    }

    /// The codec `none`, without parameters.
    #[must_use]
    pub fn none() -> Self {
        Self::new(none::NAME, Parameters::new())
    }

    /// Takes the values of the header members `codec` and `codec_params`.
    ///
    /// An absent codec is `none`; absent or null parameters are empty.
    ///
    /// # Errors
    ///
    /// [`CodecError::HeaderMember`] when `codec` is there and no text (null included).
    pub fn from_members(codec: Option<&Value>, params: Option<&Value>) -> Result<Self> {
        let name = match codec {
            None => none::NAME,
            Some(Value::String(name)) => name,
            Some(other) => {
                return Err(CodecError::HeaderMember {
                    member: "codec",
                    reason: format!("{} instead of a text", type_name(other)),
                });
            }
        };
        let params = match params {
            None | Some(Value::Null) => Params::Object(Parameters::new()),
            Some(Value::Object(object)) => Params::Object(object.clone()),
            Some(other) => Params::Other(other.clone()),
        };
        Ok(Self { name: name.to_owned(), params })
    }

    /// Takes the two members out of a whole header.
    ///
    /// # Errors
    ///
    /// Those of [`CodecSpec::from_members`].
    pub fn from_header(header: &Map<String, Value>) -> Result<Self> {
        Self::from_members(header.get("codec"), header.get("codec_params"))
    }

    /// Sets the two members of a header; parameters that are empty are left out.
    pub fn write_to_header(&self, header: &mut Map<String, Value>) {
        header.insert("codec".to_owned(), Value::String(self.name.clone()));
        match self.params_member() {
            Some(params) => header.insert("codec_params".to_owned(), params),
            None => header.remove("codec_params"),
        };
    }

    /// The name of the codec.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The parameters.
    ///
    /// # Errors
    ///
    /// [`CodecError::HeaderMember`] when the header holds something other than an object.
    pub fn parameters(&self) -> Result<&Parameters> {
        match &self.params {
            Params::Object(object) => Ok(object),
            Params::Other(other) => Err(CodecError::HeaderMember {
                member: "codec_params",
                reason: format!("{} instead of an object", type_name(other)),
            }),
        }
    }

    /// The value of the header member `codec_params`; absent when there are no parameters.
    #[must_use]
    pub fn params_member(&self) -> Option<Value> {
        match &self.params {
            Params::Object(object) if object.is_empty() => None,
            Params::Object(object) => Some(Value::Object(object.clone())),
            Params::Other(other) => Some(other.clone()),
        }
    }
}

impl Default for CodecSpec {
    fn default() -> Self {
        Self::none()
    }
}

pub(crate) const fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CodecErrorKind, Registry};
    use serde_json::json;

    fn header(value: Value) -> Map<String, Value> {
        match value {
            Value::Object(object) => object,
            other => panic!("{other}"),
        }
    }

    #[test]
    fn members_round_trip() {
        for members in [
            json!({"codec": "zstd", "codec_params": {"level": 19}}),
            json!({"codec": "jxl", "codec_params":
                {"distance": 1.0, "effort": 7, "lossless": false, "usecontainer": null}}),
            json!({"codec": "none"}),
            json!({"codec": "somebody's", "codec_params": {"": [1, {"x": null}], "big": u64::MAX}}),
        ] {
            let members = header(members);
            let spec = CodecSpec::from_header(&members).unwrap();
            let mut written = header(json!({"codec": "old", "codec_params": {"old": 1}}));
            spec.write_to_header(&mut written);
            assert_eq!(written, members);
        }
    }

    #[test]
    fn absent_codec_is_none() {
        let spec = CodecSpec::from_header(&Map::new()).unwrap();
        assert_eq!(spec, CodecSpec::none());
        assert_eq!(spec.name(), "none");
    }

    #[test]
    fn codec_that_is_no_text_is_refused() {
        for (value, found) in
            [(json!(null), "null"), (json!(1), "a number"), (json!({}), "an object")]
        {
            let error = CodecSpec::from_members(Some(&value), None).unwrap_err();
            assert_eq!(error.kind(), CodecErrorKind::Decode);
            assert_eq!(error.field(), Some("codec"));
            assert_eq!(
                error.to_string(),
                format!("header field `codec`: {found} instead of a text")
            );
        }
    }

    #[test]
    fn absent_null_and_empty_parameters_are_the_same_and_not_persisted() {
        for params in [None, Some(json!(null)), Some(json!({}))] {
            let spec = CodecSpec::from_members(Some(&json!("x")), params.as_ref()).unwrap();
            assert!(spec.parameters().unwrap().is_empty());
            assert_eq!(spec.params_member(), None);
        }
    }

    #[test]
    fn parameters_that_are_no_object_fail_when_a_codec_is_made_not_before() {
        for params in [json!([]), json!("level=3"), json!(0), json!(false)] {
            let spec = CodecSpec::from_members(None, Some(&params)).unwrap();
            assert_eq!(spec.params_member(), Some(params));
            let error = Registry::builtin().create(&spec).unwrap_err();
            assert_eq!(error.kind(), CodecErrorKind::Decode);
            assert_eq!(error.field(), Some("codec_params"));
        }
    }
}
