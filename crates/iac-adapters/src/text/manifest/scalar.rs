//! Members of a manifest that mean something only where they are small.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::error::short;

/// A number or a text. Of anything larger its kind alone is kept: a compressed list of a hundred
/// kilobytes can have more elements than memory has room for.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Scalar {
    Unsigned(u64),
    Signed(i64),
    Real(f64),
    Text(String),
    Other(&'static str),
}

impl Scalar {
    /// Integers, also as text, as other writers have them.
    pub(super) fn integer(&self) -> Option<i64> {
        match self {
            Self::Unsigned(number) => i64::try_from(*number).ok(),
            Self::Signed(number) => Some(*number),
            Self::Text(text) => text.trim().parse().ok(),
            Self::Real(_) | Self::Other(_) => None,
        }
    }

    /// Numbers that are no texts, and not below zero.
    pub(super) fn unsigned(&self) -> Option<u64> {
        match self {
            Self::Unsigned(number) => Some(*number),
            Self::Signed(number) => u64::try_from(*number).ok(),
            _ => None,
        }
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsigned(number) => number.fmt(f),
            Self::Signed(number) => number.fmt(f),
            Self::Real(number) => fmt::Debug::fmt(number, f),
            Self::Text(text) => write!(f, "{:?}", short(text)),
            Self::Other(kind) => f.write_str(kind),
        }
    }
}

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<X: Deserializer<'de>>(json: X) -> Result<Self, X::Error> {
        json.deserialize_any(ScalarVisitor)
    }
}

struct ScalarVisitor;

impl<'de> Visitor<'de> for ScalarVisitor {
    type Value = Scalar;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Scalar, E> {
        Ok(Scalar::Unsigned(number))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Scalar, E> {
        Ok(Scalar::Signed(number))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Scalar, E> {
        Ok(Scalar::Real(number))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Scalar, E> {
        Ok(Scalar::Text(text.to_owned()))
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Scalar, E> {
        Ok(Scalar::Other(if value { "true" } else { "false" }))
    }

    fn visit_unit<E: Error>(self) -> Result<Scalar, E> {
        Ok(Scalar::Other("null"))
    }

    fn visit_seq<S: SeqAccess<'de>>(self, mut items: S) -> Result<Scalar, S::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Scalar::Other("an array"))
    }

    fn visit_map<M: MapAccess<'de>>(self, mut members: M) -> Result<Scalar, M::Error> {
        while members.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Scalar::Other("an object"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Scalar {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn numbers_and_texts_are_kept_and_everything_else_is_passed_over() {
        for (text, integer, unsigned, shown) in [
            ("7", Some(7), Some(7), "7"),
            ("-1", Some(-1), None, "-1"),
            ("18446744073709551615", None, Some(u64::MAX), "18446744073709551615"),
            ("\" 5 \"", Some(5), None, "\" 5 \""),
            ("2.0", None, None, "2.0"),
            ("null", None, None, "null"),
            ("[1, [2, {\"a\": []}]]", None, None, "an array"),
            ("{\"a\": {\"b\": [1]}}", None, None, "an object"),
        ] {
            let value = read(text);
            assert_eq!(value.integer(), integer, "{text}");
            assert_eq!(value.unsigned(), unsigned, "{text}");
            assert_eq!(value.to_string(), shown);
        }
        assert!(read(&format!("\"{}\"", "x".repeat(5000))).to_string().len() < 200);
    }
}
