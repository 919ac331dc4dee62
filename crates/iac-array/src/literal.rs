//! One element from its text.

use half::{bf16, f16};
use serde_json::Value;

use crate::data::{ArrayData, Scalar, Values};
use crate::dtype::DType;
use crate::error::{ArrayError, Result};

impl ArrayData {
    /// One element without axes from its text, as [`ArrayData::to_json`] writes elements: a number,
    /// `true` or `false`, `NaN`, `Infinity` or `-Infinity` (also `nan`, `inf`, `-inf`), pairs for
    /// complex numbers, hexadecimal digits for byte strings, lists for lists. A `utf8` element is
    /// the text itself.
    ///
    /// Fractions become the nearest number of the type.
    ///
    /// ```
    /// use iac_array::{ArrayData, DType};
    ///
    /// let fill = ArrayData::parse_element(&DType::Int16, "-1024")?;
    /// assert_eq!(fill.to_json()?, -1024);
    /// assert!(ArrayData::parse_element(&DType::UInt8, "256").is_err());
    /// # Ok::<(), iac_array::ArrayError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ArrayError::Argument`] for what no element of the type is: another kind of value, a number
    /// outside of its range, a whole number that a float of this width does not have.
    pub fn parse_element(dtype: &DType, text: &str) -> Result<Self> {
        dtype.check()?;
        let bytes = match dtype {
            DType::Utf8 => Some(text.as_bytes().to_vec()),
            _ => {
                let text = text.trim();
                let value = serde_json::from_str(text).unwrap_or_else(|_| Value::from(text));
                element(dtype, &value)
            }
        };
        let bytes = bytes.ok_or_else(|| {
            let shown: String = text.chars().take(64).collect();
            ArrayError::argument(format!("`{shown}` is no element of `{dtype}`"))
        })?;
        let values = match dtype.width() {
            Some(_) => Values::Fixed(bytes),
            None => Values::Variable(vec![bytes]),
        };
        let data = Self { dtype: dtype.clone(), shape: Vec::new(), values, validity: None };
        data.check()?;
        Ok(data)
    }
}

/// The bytes of an element; none for a value that is no such element.
fn element(dtype: &DType, value: &Value) -> Option<Vec<u8>> {
    macro_rules! int {
        ($type:ty) => {
            <$type>::try_from(whole(value)?).ok()?.to_le_bytes().to_vec()
        };
    }
    macro_rules! float {
        ($value:expr) => {{
            let mut bytes = Vec::new();
            $value.write_le(&mut bytes);
            bytes
        }};
    }
    Some(match dtype {
        DType::Bool => vec![match value {
            Value::Bool(value) => u8::from(*value),
            value => u8::try_from(whole(value)?).ok().filter(|it| *it < 2)?,
        }],
        DType::Int8 => int!(i8),
        DType::Int16 => int!(i16),
        DType::Int32 => int!(i32),
        DType::Int64 | DType::Timestamp(..) => int!(i64),
        DType::UInt8 => int!(u8),
        DType::UInt16 => int!(u16),
        DType::UInt32 => int!(u32),
        DType::UInt64 => int!(u64),
        DType::Float16 => float!(narrow(value, f16::from_f64, f16::to_f64)?),
        DType::BFloat16 => float!(narrow(value, bf16::from_f64, bf16::to_f64)?),
        DType::Float32 => float!(single(value)?),
        DType::Float64 => float!(narrow(value, |value| value, |value| value)?),
        DType::Complex64 => pair(value, |part| element(&DType::Float32, part))?,
        DType::Complex128 => pair(value, |part| element(&DType::Float64, part))?,
        DType::Utf8 => value.as_str()?.as_bytes().to_vec(),
        DType::Binary => digits(value)?,
        DType::FixedBinary(length) => {
            digits(value).filter(|bytes| u32::try_from(bytes.len()) == Ok(*length))?
        }
        DType::List(inner) => elements(value, inner)?,
        DType::FixedList(inner, count) => {
            let right = value.as_array().is_some_and(|all| u32::try_from(all.len()) == Ok(*count));
            elements(value, inner).filter(|_| right)?
        }
    })
}

fn elements(value: &Value, inner: &DType) -> Option<Vec<u8>> {
    let parts: Option<Vec<Vec<u8>>> =
        value.as_array()?.iter().map(|value| element(inner, value)).collect();
    parts.map(|parts| parts.concat())
}

fn pair(value: &Value, part: impl Fn(&Value) -> Option<Vec<u8>>) -> Option<Vec<u8>> {
    let [real, imaginary] = value.as_array()?.as_slice() else {
        return None;
    };
    let mut bytes = part(real)?;
    bytes.extend(part(imaginary)?);
    Some(bytes)
}

/// A whole number.
fn whole(value: &Value) -> Option<i128> {
    value.as_i64().map(i128::from).or_else(|| value.as_u64().map(i128::from))
}

/// A number, or one of those that JSON has no number for.
fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => match text.to_ascii_lowercase().as_str() {
            "nan" => Some(f64::NAN),
            "inf" | "infinity" | "+inf" => Some(f64::INFINITY),
            "-inf" | "-infinity" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        _ => None,
    }
}

/// Whole numbers up to here are floats of 64 bits too.
const EXACT: i128 = 1 << 53;

/// A float of a narrower type, with which number comes back of it.
fn narrow<T: Copy>(value: &Value, to: impl Fn(f64) -> T, from: impl Fn(T) -> f64) -> Option<T> {
    let wide = number(value)?;
    let narrow = to(wide);
    let whole = whole(value);
    let exact = whole.is_none_or(|whole| whole.abs() <= EXACT && from(narrow) == wide);
    (exact && (from(narrow).is_finite() || !wide.is_finite())).then_some(narrow)
}

/// Through text, as there is no other conversion that says what it does.
fn single(value: &Value) -> Option<f32> {
    narrow(value, |wide| wide.to_string().parse::<f32>().unwrap_or(f32::NAN), f64::from)
}

fn digits(value: &Value) -> Option<Vec<u8>> {
    let text = value.as_str()?;
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let byte = |pair: &[u8; 2]| {
        let digit = |digit: u8| char::from(digit).to_digit(16).and_then(|it| u8::try_from(it).ok());
        let [high, low] = pair.map(digit);
        Some((high? << 4) | low?)
    };
    if rest.is_empty() { pairs.iter().map(byte).collect() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_what_their_texts_say() {
        let all = [
            ("bool", "true", "true"),
            ("bool", "0", "false"),
            ("int8", "-128", "-128"),
            ("uint64", "18446744073709551615", "18446744073709551615"),
            ("timestamp[ms]", "-5", "-5"),
            ("float16", "65504", "65504.0"),
            ("bfloat16", "0.5", "0.5"),
            ("float32", "0.1", "0.1"),
            ("float32", "-1e-50", "-0.0"),
            ("float64", "nan", "\"NaN\""),
            ("float64", "-inf", "\"-Infinity\""),
            ("complex64", "[1, \"NaN\"]", "[1.0,\"NaN\"]"),
            ("utf8", "12 mm ", "\"12 mm \""),
            ("binary", "00fF", "\"00ff\""),
            ("fixed_binary[2]", "a0b1", "\"a0b1\""),
            ("list<int16>", "[1,-2]", "[1,-2]"),
            ("fixed_list<uint8,3>", "[1,2,3]", "[1,2,3]"),
        ];
        for (dtype, text, shown) in all {
            let dtype: DType = dtype.parse().unwrap();
            let found = ArrayData::parse_element(&dtype, text).unwrap();
            assert_eq!(found.to_json().unwrap().to_string(), shown, "{dtype} {text}");
        }
    }

    #[test]
    fn what_no_element_is_is_refused() {
        let all = [
            ("bool", "2"),
            ("int8", "128"),
            ("int8", "1.5"),
            ("int8", "nan"),
            ("uint8", "-1"),
            ("uint64", "18446744073709551616"),
            ("float16", "65536"),
            ("float16", "2049"),
            ("float32", "1e39"),
            ("float32", "16777217"),
            ("float64", "9007199254740993"),
            ("float64", "wide"),
            ("complex64", "1"),
            ("complex64", "[1,2,3]"),
            ("binary", "abc"),
            ("binary", "zz"),
            ("fixed_binary[2]", "ab"),
            ("fixed_list<uint8,3>", "[1,2]"),
            ("list<int16>", "[40000]"),
            ("int16", ""),
        ];
        for (dtype, text) in all {
            let dtype: DType = dtype.parse().unwrap();
            let error = ArrayData::parse_element(&dtype, text).unwrap_err();
            assert!(matches!(error, ArrayError::Argument { .. }), "{dtype} {text}");
        }
    }
}
