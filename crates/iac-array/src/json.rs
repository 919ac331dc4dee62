//! Attributes and elements as JSON.

use serde_json::{Map, Number as JsonNumber, Value};

use crate::attr::Attr;
use crate::data::{ArrayData, Scalar, Values};
use crate::dtype::DType;
use crate::error::{ArrayError, Result};
use crate::stats::Number;

impl Attr {
    /// The value as JSON: bytes as text of hexadecimal digits, floats that JSON has no number for
    /// as the texts `NaN`, `Infinity` and `-Infinity`.
    ///
    /// ```
    /// use iac_array::Attr;
    ///
    /// assert_eq!(Attr::Floats(vec![0.5, f64::NAN]).to_json().to_string(), r#"[0.5,"NaN"]"#);
    /// ```
    #[must_use]
    pub fn to_json(&self) -> Value {
        match self {
            Self::Bool(value) => Value::from(*value),
            Self::Int(value) => Value::from(*value),
            Self::UInt(value) => Value::from(*value),
            Self::Float(value) => float(*value),
            Self::Text(value) => Value::from(value.as_str()),
            Self::Bytes(value) => hexadecimal(value),
            Self::Ints(values) => values.iter().map(|value| Value::from(*value)).collect(),
            Self::Floats(values) => values.iter().map(|value| float(*value)).collect(),
            Self::Texts(values) => values.iter().map(|value| Value::from(value.as_str())).collect(),
        }
    }

    /// The attribute that a JSON value is: a truth value, number or text, or a list of numbers or
    /// texts. None for what no attribute is: null, objects, lists of several kinds of values.
    #[must_use]
    pub fn from_json(value: &Value) -> Option<Self> {
        Some(match value {
            Value::Bool(value) => Self::Bool(*value),
            Value::Number(number) => match (number.as_i64(), number.as_u64()) {
                (Some(value), _) => Self::Int(value),
                (_, Some(value)) => Self::UInt(value),
                _ => Self::Float(number.as_f64()?),
            },
            Value::String(text) => Self::Text(text.clone()),
            Value::Array(values) if values.iter().all(Value::is_i64) => {
                Self::Ints(values.iter().filter_map(Value::as_i64).collect())
            }
            Value::Array(values) if values.iter().all(Value::is_number) => {
                Self::Floats(values.iter().filter_map(Value::as_f64).collect())
            }
            Value::Array(values) if values.iter().all(Value::is_string) => {
                let texts = values.iter().filter_map(Value::as_str);
                Self::Texts(texts.map(str::to_owned).collect())
            }
            Value::Null | Value::Array(_) | Value::Object(_) => return None,
        })
    }
}

impl Number {
    /// The number as JSON, as those of [`Attr::to_json`]; integers beyond 64 bits as texts.
    #[must_use]
    pub fn to_json(self) -> Value {
        match self {
            Self::Int(value) => match (i64::try_from(value), u64::try_from(value)) {
                (Ok(value), _) => Value::from(value),
                (_, Ok(value)) => Value::from(value),
                _ => Value::from(value.to_string()),
            },
            Self::Float(value) => float(value),
        }
    }
}

fn float(value: f64) -> Value {
    JsonNumber::from_f64(value).map_or_else(
        || {
            Value::from(match value {
                value if value.is_nan() => "NaN",
                value if value > 0.0 => "Infinity",
                _ => "-Infinity",
            })
        },
        Value::Number,
    )
}

fn hexadecimal(bytes: &[u8]) -> Value {
    Value::from(bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
}

/// One element as JSON; none for bytes that are no such element.
pub(crate) fn element(dtype: &DType, bytes: &[u8]) -> Option<Value> {
    macro_rules! int {
        ($type:ty) => {
            Value::from(<$type>::read_le(bytes)?)
        };
    }
    Some(match dtype {
        DType::Bool => Value::from(bool::read_le(bytes)?),
        DType::Int8 => int!(i8),
        DType::Int16 => int!(i16),
        DType::Int32 => int!(i32),
        DType::Int64 | DType::Timestamp(..) => int!(i64),
        DType::UInt8 => int!(u8),
        DType::UInt16 => int!(u16),
        DType::UInt32 => int!(u32),
        DType::UInt64 => int!(u64),
        DType::Float16 => float(half::f16::read_le(bytes)?.to_f64()),
        DType::BFloat16 => float(half::bf16::read_le(bytes)?.to_f64()),
        // Through text, so that 0.1 stays 0.1.
        DType::Float32 => {
            let value = f32::read_le(bytes)?;
            float(value.to_string().parse().unwrap_or_else(|_| f64::from(value)))
        }
        DType::Float64 => float(f64::read_le(bytes)?),
        DType::Complex64 => {
            <[f32; 2]>::read_le(bytes)?.map(|part| float(part.into())).to_vec().into()
        }
        DType::Complex128 => <[f64; 2]>::read_le(bytes)?.map(float).to_vec().into(),
        DType::Utf8 => Value::from(std::str::from_utf8(bytes).ok()?),
        DType::Binary | DType::FixedBinary(_) => hexadecimal(bytes),
        DType::List(inner) | DType::FixedList(inner, _) => {
            let elements = bytes.chunks_exact(inner.width()?.max(1));
            elements.map(|bytes| element(inner, bytes)).collect::<Option<Vec<Value>>>()?.into()
        }
    })
}

impl ArrayData {
    /// The elements as lists within lists, one level for each axis; an array without axes is its
    /// element. Timestamps are whole numbers, complex numbers pairs, byte strings hexadecimal
    /// digits, and floats as in [`Attr::to_json`]. What is null is `null`.
    ///
    /// # Errors
    ///
    /// [`ArrayError::Argument`] for bytes that are no element of the type.
    pub fn to_json(&self) -> Result<Value> {
        let wrong = || ArrayError::argument(format!("an element is no `{}`", self.dtype));
        let flat: Option<Vec<Value>> = match &self.values {
            Values::Fixed(bytes) => {
                let width = self.dtype.width().unwrap_or(1).max(1);
                bytes.chunks_exact(width).map(|bytes| element(&self.dtype, bytes)).collect()
            }
            Values::Variable(values) => {
                values.iter().map(|bytes| element(&self.dtype, bytes)).collect()
            }
        };
        let mut flat = flat.ok_or_else(wrong)?;
        let mask = self.validity.as_deref().unwrap_or_default();
        let nulls = flat.iter_mut().zip(mask).filter(|(_, there)| !**there);
        nulls.for_each(|(value, _)| *value = Value::Null);
        let mut flat = flat.into_iter();
        Ok(nested(&self.shape, &mut flat))
    }
}

fn nested(shape: &[u64], flat: &mut impl Iterator<Item = Value>) -> Value {
    match shape.split_first() {
        None => flat.next().unwrap_or(Value::Null),
        Some((extent, rest)) => {
            // A box without elements may have any extents; its lists end where elements would be.
            let empty = rest.contains(&0);
            let count = if empty { (*extent).min(1 << 10) } else { *extent };
            Value::Array((0..count).map(|_| nested(rest, flat)).collect())
        }
    }
}

/// Attributes as a JSON object.
pub(crate) fn object<'a>(
    attrs: impl IntoIterator<Item = (&'a String, &'a Attr)>,
) -> Map<String, Value> {
    attrs.into_iter().map(|(key, value)| (key.clone(), value.to_json())).collect()
}

impl crate::ArrayMeta {
    /// Everything about an array or group as a JSON object: `name`, `kind`, `dtype`, `shape`,
    /// `chunks`, `dims`, `fill`, `attrs`, and `nullable` (true) where elements can be null.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut members = Map::new();
        members.insert("name".to_owned(), Value::from(self.name.as_str()));
        let kind = match self.kind {
            crate::NodeKind::Array => "array",
            crate::NodeKind::Group => "group",
            crate::NodeKind::Store => "store",
        };
        members.insert("kind".to_owned(), Value::from(kind));
        if self.kind == crate::NodeKind::Array {
            members.insert("dtype".to_owned(), Value::from(self.dtype.to_string()));
            members.insert("shape".to_owned(), Value::from(self.shape.clone()));
            members.insert("chunks".to_owned(), Value::from(self.chunk.clone()));
            members.insert("dims".to_owned(), Value::from(self.dims.clone()));
            let fill = self.fill.as_ref().and_then(|fill| element(&self.dtype, fill));
            members.insert("fill".to_owned(), fill.unwrap_or(Value::Null));
            if self.nullable {
                members.insert("nullable".to_owned(), Value::from(true));
            }
        }
        members.insert("attrs".to_owned(), Value::Object(object(self.attrs())));
        Value::Object(members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::array;
    use serde_json::json;

    #[test]
    fn elements_become_nested_lists() {
        let data = ArrayData::from(array![[1_i16, -2], [3, 4]]);
        assert_eq!(data.to_json().unwrap(), json!([[1, -2], [3, 4]]));
        let data = ArrayData::from(ndarray::arr0(0.1_f32));
        assert_eq!(data.to_json().unwrap(), json!(0.1));
        let data = ArrayData::from_texts(&[2], ["a", "ü"]).unwrap();
        assert_eq!(data.to_json().unwrap(), json!(["a", "ü"]));
        let data = ArrayData::from(array![f64::NAN, f64::NEG_INFINITY]);
        assert_eq!(data.to_json().unwrap(), json!(["NaN", "-Infinity"]));
        let empty = ArrayData::from(ndarray::Array2::<u8>::zeros((2, 0)));
        assert_eq!(empty.to_json().unwrap(), json!([[], []]));
    }

    #[test]
    fn attributes_come_back_from_json() {
        let values = [
            json!(true),
            json!(-3),
            json!(u64::MAX),
            json!(0.5),
            json!("mm"),
            json!([1, 2]),
            json!([0.5, 2.0]),
            json!(["a"]),
        ];
        for value in values {
            assert_eq!(Attr::from_json(&value).unwrap().to_json(), value);
        }
        for value in [json!(null), json!({}), json!([1, "a"]), json!([[1]])] {
            assert_eq!(Attr::from_json(&value), None);
        }
    }
}
