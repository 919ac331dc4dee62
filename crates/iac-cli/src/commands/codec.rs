//! Codecs on the command line.

use std::str::FromStr;

use iatrocache::CodecSpec;
use iatrocache::serde_json::Value;

/// Parameters that may stand without a value.
const SWITCHES: [&str; 4] = ["lossless", "progressive", "transcode", "usecontainer"];

/// What others call codecs, and what that is here.
const OTHER_NAMES: [(&str, &str); 8] = [
    ("htj2k", "jpeg2000:profile=ht"),
    ("j2k", "jpeg2000"),
    ("jp2", "jpeg2000:container=jp2"),
    ("jpg", "jpeg"),
    ("jls", "jpegls"),
    ("jpegxl", "jxl"),
    ("zst", "zstd"),
    ("br", "brotli"),
];

/// Levels that Zstandard has.
const ZSTD_LEVELS: std::ops::RangeInclusive<i64> = -131_072..=22;

/// A codec with its parameters.
#[derive(Debug, Clone)]
pub(super) struct CodecArg(pub(super) CodecSpec);

impl FromStr for CodecArg {
    type Err = String;

    /// Values that are JSON keep their type; all others are text. Of a parameter that
    /// switches something on, the name is enough.
    fn from_str(text: &str) -> Result<Self, String> {
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        if name.is_empty() {
            return Err("the name of the codec is missing".to_owned());
        }
        if let Some((_, here)) = OTHER_NAMES.iter().find(|(other, _)| *other == name) {
            return Err(format!("`{name}` is called `{here}` here"));
        }
        let mut parameters = iatrocache::codec::Parameters::new();
        for part in rest.split(',').filter(|part| !part.is_empty()) {
            let switch = SWITCHES.contains(&part).then_some((part, "true"));
            let (key, value) = part
                .split_once('=')
                .filter(|(key, _)| !key.is_empty())
                .or(switch)
                .ok_or_else(|| format!("`{part}` is not KEY=VALUE"))?;
            let value = serde_json::from_str(value).unwrap_or_else(|_| Value::from(value));
            if parameters.insert(key.to_owned(), value).is_some() {
                return Err(format!("`{key}` is given twice"));
            }
        }
        // The library takes any and uses the nearest that it has, as packs of others may state one.
        let level = parameters.get("level").and_then(Value::as_i64);
        if let Some(level) = level.filter(|level| name == "zstd" && !ZSTD_LEVELS.contains(level)) {
            let (low, high) = (ZSTD_LEVELS.start(), ZSTD_LEVELS.end());
            return Err(format!("`level` of zstd is {level}, but levels are {low} to {high}"));
        }
        Ok(Self(CodecSpec::new(name, parameters)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn codec_values_keep_their_types() {
        let CodecArg(spec) = "zstd:level=3,dict=abc,flag=true".parse().unwrap();
        let parameters = spec.parameters().unwrap();
        assert_eq!(spec.name(), "zstd");
        assert_eq!(parameters.get("level"), Some(&json!(3)));
        assert_eq!(parameters.get("dict"), Some(&json!("abc")));
        assert_eq!(parameters.get("flag"), Some(&json!(true)));
        for level in [23, 300, -131_073, i64::MAX] {
            let refused = format!("zstd:level={level}").parse::<CodecArg>().unwrap_err();
            assert_eq!(
                refused,
                format!("`level` of zstd is {level}, but levels are -131072 to 22")
            );
        }
        assert!("zstd:level=22".parse::<CodecArg>().is_ok());
        assert!("zstd:level=-131072".parse::<CodecArg>().is_ok());
        let CodecArg(spec) = "jxl:transcode,effort=4".parse().unwrap();
        let parameters = spec.parameters().unwrap();
        assert_eq!(parameters.get("transcode"), Some(&json!(true)));
        assert_eq!(parameters.get("effort"), Some(&json!(4)));
    }

    #[test]
    fn names_of_elsewhere_are_translated() {
        let told = "htj2k:levels=3".parse::<CodecArg>().unwrap_err();
        assert_eq!(told, "`htj2k` is called `jpeg2000:profile=ht` here");
        for (_, here) in OTHER_NAMES {
            assert!(here.parse::<CodecArg>().is_ok(), "{here}");
        }
    }

    #[test]
    fn odd_codec_texts_are_refused() {
        for text in ["", ":a=1", "zstd:level", "zstd:=3", "zstd:a=1,a=2"] {
            assert!(text.parse::<CodecArg>().is_err(), "{text}");
        }
    }
}
