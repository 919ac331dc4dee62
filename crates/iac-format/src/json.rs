//! The header's JSON text: one canonical form, whatever cargo features of `serde_json` are on.
//!
//! `serde_json` keeps the order of keys and the spelling of numbers when another crate of the
//! build switches its features `preserve_order` or `arbitrary_precision` on. The text of a header
//! must not depend on that, so keys are sorted and numbers are formatted here.

use serde_json::{Map, Number, Value};

use crate::error::{FormatError, Result};

/// Levels of objects and arrays that a header may have, the outermost object included.
const MAX_DEPTH: usize = 127;

/// Parses the text of a header: one JSON object, numbers brought to their canonical form.
///
/// Members of any other top-level value are reported as missing, as for an empty object.
pub(crate) fn parse_object(text: &str) -> Result<Map<String, Value>> {
    let value: Value = serde_json::from_str(text)
        .map_err(|error| FormatError::HeaderText { reason: error.to_string() })?;
    let Value::Object(mut members) = value else {
        return Err(FormatError::HeaderText {
            reason: format!("top level is {}, not an object", kind_name(&value)),
        });
    };
    for (name, value) in &mut members {
        normalize(value).map_err(|reason| FormatError::field_error(name, reason))?;
    }
    Ok(members)
}

/// Writes `members` as the text of a header: keys sorted by their UTF-8 bytes, two blanks of
/// indent, numbers in their shortest form (docs/format.md, "Header").
pub(crate) fn to_text(members: &Map<String, Value>) -> Result<String> {
    let mut out = String::new();
    write_object(&mut out, members, 1)?;
    Ok(out)
}

/// Brings numbers to what `serde_json` without extra features would hold.
fn normalize(value: &mut Value) -> Result<(), String> {
    match value {
        Value::Number(number) => *number = canonical_number(number)?,
        Value::Array(items) => {
            for item in items {
                normalize(item)?;
            }
        }
        Value::Object(members) => {
            for (_, member) in members.iter_mut() {
                normalize(member)?;
            }
        }
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
    Ok(())
}

fn canonical_number(number: &Number) -> Result<Number, String> {
    let double = number.as_f64().filter(|double| double.is_finite());
    let negative_zero = double.is_some_and(|double| double == 0.0 && double.is_sign_negative());
    if !negative_zero {
        if let Some(integer) = number.as_u64() {
            return Ok(Number::from(integer));
        }
        if let Some(integer) = number.as_i64() {
            return Ok(Number::from(integer));
        }
    }
    double.and_then(Number::from_f64).ok_or_else(|| format!("number {number} is out of range"))
}

fn write_value(out: &mut String, value: &Value, depth: usize) -> Result<()> {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Number(number) => write_number(out, number)?,
        Value::String(text) => write_string(out, text),
        Value::Array(items) => write_array(out, items, deeper(depth)?)?,
        Value::Object(members) => write_object(out, members, deeper(depth)?)?,
    }
    Ok(())
}

fn deeper(depth: usize) -> Result<usize> {
    if depth >= MAX_DEPTH {
        return Err(FormatError::Argument {
            reason: format!("header is nested deeper than {MAX_DEPTH} levels"),
        });
    }
    Ok(depth.saturating_add(1))
}

fn write_object(out: &mut String, members: &Map<String, Value>, depth: usize) -> Result<()> {
    if members.is_empty() {
        out.push_str("{}");
        return Ok(());
    }
    let mut sorted: Vec<(&String, &Value)> = members.iter().collect();
    sorted.sort_unstable_by(|a, b| a.0.as_bytes().cmp(b.0.as_bytes()));
    out.push('{');
    for (position, (name, value)) in sorted.into_iter().enumerate() {
        separate(out, position, depth);
        write_string(out, name);
        out.push_str(": ");
        write_value(out, value, depth)?;
    }
    end_line(out, depth.saturating_sub(1));
    out.push('}');
    Ok(())
}

fn write_array(out: &mut String, items: &[Value], depth: usize) -> Result<()> {
    if items.is_empty() {
        out.push_str("[]");
        return Ok(());
    }
    out.push('[');
    for (position, item) in items.iter().enumerate() {
        separate(out, position, depth);
        write_value(out, item, depth)?;
    }
    end_line(out, depth.saturating_sub(1));
    out.push(']');
    Ok(())
}

fn separate(out: &mut String, position: usize, depth: usize) {
    if position > 0 {
        out.push(',');
    }
    end_line(out, depth);
}

fn end_line(out: &mut String, indent: usize) {
    out.push('\n');
    for _ in 0..indent {
        out.push_str("  ");
    }
}

fn write_string(out: &mut String, text: &str) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            control if control < ' ' => {
                out.push_str(&format!("\\u{:04x}", u32::from(control)));
            }
            other => out.push(other),
        }
    }
    out.push('"');
}

fn write_number(out: &mut String, number: &Number) -> Result<()> {
    let canonical = canonical_number(number).map_err(|reason| FormatError::Argument { reason })?;
    if let Some(integer) = canonical.as_u64() {
        out.push_str(&integer.to_string());
    } else if let Some(integer) = canonical.as_i64() {
        out.push_str(&integer.to_string());
    } else if let Some(double) = canonical.as_f64() {
        // A bare double is written in its shortest form whatever features are on.
        let digits = serde_json::to_string(&double)
            .map_err(|error| FormatError::Argument { reason: error.to_string() })?;
        out.push_str(&digits);
    }
    Ok(())
}

/// What a JSON value is, for messages.
pub(crate) fn kind_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_of(json: &str) -> String {
        to_text(&parse_object(json).unwrap()).unwrap()
    }

    #[test]
    fn keys_are_sorted_by_bytes_at_every_level() {
        let text = text_of(r#"{"é":1,"aa":{"z":1,"b":2},"Zz":2,"0":[],"":{}}"#);
        assert_eq!(
            text,
            "{\n  \"\": {},\n  \"0\": [],\n  \"Zz\": 2,\n  \"aa\": {\n    \"b\": 2,\n    \"z\": 1\n  },\n  \"é\": 1\n}"
        );
    }

    #[test]
    fn numbers_have_one_spelling() {
        for (input, output) in [
            ("1", "1"),
            ("-0", "-0.0"),
            ("0", "0"),
            ("1.0", "1.0"),
            ("1e0", "1.0"),
            ("0.1", "0.1"),
            ("1e22", "1e+22"),
            ("1e-7", "1e-7"),
            ("18446744073709551615", "18446744073709551615"),
            ("-9223372036854775808", "-9223372036854775808"),
            ("1180591620717411303424", "1.1805916207174113e+21"),
            ("123456789.125", "123456789.125"),
        ] {
            assert_eq!(
                text_of(&format!("{{\"a\":{input}}}")),
                format!("{{\n  \"a\": {output}\n}}")
            );
        }
    }

    #[test]
    fn text_agrees_with_serde_json_where_it_is_canonical() {
        // With the extreme features on, serde_json keeps spelling and order: nothing to compare.
        if cfg!(feature = "serde-json-extremes") {
            return;
        }
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        for round in 0..20_000_u32 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let double = if round % 2 == 0 {
                f64::from_bits(state)
            } else {
                let exponent = i32::try_from(state % 50).unwrap() - 25;
                (state >> 40) as f64 * 10f64.powi(exponent)
            };
            if let Some(number) = Number::from_f64(double) {
                let mut members = Map::new();
                members.insert("x".to_owned(), Value::Number(number));
                assert_eq!(
                    to_text(&members).unwrap(),
                    serde_json::to_string_pretty(&members).unwrap()
                );
            }
        }
    }

    #[test]
    fn control_characters_are_escaped_and_nothing_else() {
        let mut members = Map::new();
        members.insert(
            "a".to_owned(),
            Value::from("\u{1}\u{1f}\u{7f}\u{2028}/\"\\\u{8}\u{c}\n\r\té😀"),
        );
        assert_eq!(
            to_text(&members).unwrap(),
            "{\n  \"a\": \"\\u0001\\u001f\u{7f}\u{2028}/\\\"\\\\\\b\\f\\n\\r\\té😀\"\n}"
        );
    }

    #[test]
    fn nesting_that_no_reader_takes_is_refused_on_both_sides() {
        let nested = |levels: usize| {
            let mut value = Value::from(1);
            for _ in 1..levels {
                value = Value::Array(vec![value]);
            }
            let mut members = Map::new();
            members.insert("a".to_owned(), value);
            members
        };
        let text = to_text(&nested(MAX_DEPTH)).unwrap();
        assert!(parse_object(&text).is_ok());
        assert!(to_text(&nested(MAX_DEPTH + 1)).is_err());
    }

    #[test]
    fn a_top_level_that_is_no_object_is_named() {
        for (text, kind) in [("[]", "an array"), ("\"x\"", "a string"), ("null", "null")] {
            let error = parse_object(text).unwrap_err().to_string();
            assert!(error.contains(kind), "{error}");
        }
        assert!(parse_object("{\"a\": NaN}").is_err());
        assert!(parse_object("{} x").is_err());
        assert!(parse_object("").is_err());
        assert!(parse_object("{\"a\": 1e999}").is_err());
    }
}
