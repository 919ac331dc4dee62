//! Fixed packs: row *n* is the n-th stretch of equal length in the data segment.

use std::fmt;

use serde_json::{Map, Value};

use crate::error::{FormatError, Result};
use crate::json::kind_name;
use crate::layout::integer;

/// Most rows of a fixed pack whose rows have no bytes.
const MAX_EMPTY_ROWS: u64 = 1 << 24;

/// Type of the elements of a fixed pack, stored little-endian.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names say it all
pub enum ElementType {
    Bool,
    Int8,
    Int16,
    Int32,
    Int64,
    Uint8,
    Uint16,
    Uint32,
    Uint64,
    Float16,
    Bfloat16,
    Float32,
    Float64,
    Complex64,
    Complex128,
}

impl ElementType {
    /// Every type, in the order of the documentation.
    pub const ALL: [Self; 15] = [
        Self::Bool,
        Self::Int8,
        Self::Int16,
        Self::Int32,
        Self::Int64,
        Self::Uint8,
        Self::Uint16,
        Self::Uint32,
        Self::Uint64,
        Self::Float16,
        Self::Bfloat16,
        Self::Float32,
        Self::Float64,
        Self::Complex64,
        Self::Complex128,
    ];

    /// The name in the header, which is NumPy's: `float16`, `uint8`, ...
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.facts().0
    }

    /// Bytes of one element.
    #[must_use]
    pub const fn item_bytes(self) -> u64 {
        self.facts().2
    }

    /// Name, NumPy's short code without byte order, bytes.
    const fn facts(self) -> (&'static str, &'static str, u64) {
        match self {
            Self::Bool => ("bool", "b1", 1),
            Self::Int8 => ("int8", "i1", 1),
            Self::Int16 => ("int16", "i2", 2),
            Self::Int32 => ("int32", "i4", 4),
            Self::Int64 => ("int64", "i8", 8),
            Self::Uint8 => ("uint8", "u1", 1),
            Self::Uint16 => ("uint16", "u2", 2),
            Self::Uint32 => ("uint32", "u4", 4),
            Self::Uint64 => ("uint64", "u8", 8),
            Self::Float16 => ("float16", "f2", 2),
            // No other format has a short code for it.
            Self::Bfloat16 => ("bfloat16", "bf16", 2),
            Self::Float32 => ("float32", "f4", 4),
            Self::Float64 => ("float64", "f8", 8),
            Self::Complex64 => ("complex64", "c8", 8),
            Self::Complex128 => ("complex128", "c16", 16),
        }
    }

    /// Reads a name (`float32`) or a short code, with or without the mark for little-endian
    /// (`f4`, `<f4`; `|u1` for single bytes).
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let code = name.strip_prefix('<').unwrap_or(name);
        Self::ALL.into_iter().find(|element| {
            let (full, short, bytes) = element.facts();
            name == full
                || code == short
                || (bytes == 1 && name.strip_prefix('|').is_some_and(|code| code == short))
        })
    }

    /// Reads a short code with the mark for the other byte order (`>f4`), which only other programs
    /// write.
    #[must_use]
    pub fn from_big_endian_name(name: &str) -> Option<Self> {
        let code = name.strip_prefix('>')?;
        Self::ALL.into_iter().find(|element| element.facts().1 == code)
    }

    /// Bytes that are reversed together where the byte order differs: a complex number has two such
    /// parts.
    #[must_use]
    pub const fn part_bytes(self) -> u64 {
        match self {
            Self::Complex64 => 4,
            Self::Complex128 => 8,
            other => other.item_bytes(),
        }
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Shape of the rows of a fixed pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FixedShape {
    /// Elements of a row.
    pub dim: u64,
    /// Type of an element.
    pub element: ElementType,
    /// Bytes of a row: `dim` times the bytes of an element.
    pub record_bytes: u64,
    /// Whether the most significant byte of an element comes first, as in `>f4`. This workspace
    /// writes no such rows of its own.
    pub big_endian: bool,
}

impl FixedShape {
    /// Describes rows of `dim` elements.
    ///
    /// # Errors
    ///
    /// [`FormatError::Argument`] when a row would exceed 2^64 - 1 bytes.
    pub fn new(dim: u64, element: ElementType) -> Result<Self> {
        let record_bytes =
            dim.checked_mul(element.item_bytes()).ok_or_else(|| FormatError::Argument {
                reason: format!("a row of {dim} elements of type {element} is too large"),
            })?;
        Ok(Self { dim, element, record_bytes, big_endian: false })
    }

    /// Turns stored elements into little-endian ones, or back; nothing where they are that already.
    pub fn to_little_endian(&self, elements: &mut [u8]) {
        let part = usize::try_from(self.element.part_bytes()).unwrap_or(1);
        if self.big_endian && part > 1 {
            for part in elements.chunks_exact_mut(part) {
                part.reverse();
            }
        }
    }

    /// Reads the shape from header members; `None` when the pack is not a fixed one (it has no
    /// `feature_record_bytes`).
    pub(crate) fn from_members(members: &Map<String, Value>) -> Result<Option<Self>> {
        if !members.contains_key("feature_record_bytes") {
            return Ok(None);
        }
        let record_bytes = integer(members, "feature_record_bytes")?;
        let dim = integer(members, "feature_dim")?;
        let element = match members.get("dtype") {
            None => return Err(FormatError::field_error("dtype", "missing")),
            Some(Value::String(name)) => ElementType::from_name(name)
                .or_else(|| ElementType::from_big_endian_name(name))
                .ok_or_else(|| {
                    FormatError::field_error("dtype", format!("unknown element type \"{name}\""))
                })?,
            Some(other) => {
                return Err(FormatError::field_error(
                    "dtype",
                    format!("{} where a name is expected", kind_name(other)),
                ));
            }
        };
        match dim.checked_mul(element.item_bytes()) {
            Some(bytes) if bytes == record_bytes => {
                // One byte has no order.
                let is_marked = matches!(members.get("dtype"), Some(Value::String(name)) if name.starts_with('>'));
                let big_endian = is_marked && element.part_bytes() > 1;
                Ok(Some(Self { dim, element, record_bytes, big_endian }))
            }
            _ => Err(FormatError::field_error(
                "feature_record_bytes",
                format!(
                    "found {record_bytes}, but {dim} elements of type {element} need another size"
                ),
            )),
        }
    }

    /// Checks that the data segment holds exactly `rows` rows.
    ///
    /// # Errors
    ///
    /// [`FormatError::HeaderField`] when it holds more, fewer, or a part of one, and when there are
    /// more than 2^24 rows without bytes: no file size bounds these, and nobody could visit them.
    pub fn check_data_length(&self, data_length: u64, rows: u64) -> Result<()> {
        if self.record_bytes == 0 && rows > MAX_EMPTY_ROWS {
            return Err(FormatError::field_error(
                "feature_dim",
                format!("found 0 in a pack of {rows} rows (at most {MAX_EMPTY_ROWS} can be empty)"),
            ));
        }
        if self.record_bytes.checked_mul(rows) == Some(data_length) {
            return Ok(());
        }
        Err(FormatError::field_error(
            "data_length",
            format!(
                "found {data_length}, but {rows} rows of {} bytes need another size",
                self.record_bytes
            ),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_codes_are_understood() {
        for element in ElementType::ALL {
            assert_eq!(ElementType::from_name(element.name()), Some(element));
            let code = element.facts().1;
            assert_eq!(ElementType::from_name(code), Some(element));
            assert_eq!(ElementType::from_name(&format!("<{code}")), Some(element));
        }
        assert_eq!(ElementType::from_name("|u1"), Some(ElementType::Uint8));
        for unknown in ["", "<", ">f4", "|f4", "float", "<float32", "object", "S4"] {
            assert_eq!(ElementType::from_name(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn codes_of_the_other_byte_order_are_understood() {
        for element in ElementType::ALL {
            let code = element.facts().1;
            assert_eq!(ElementType::from_big_endian_name(&format!(">{code}")), Some(element));
        }
        for unknown in ["", ">", "f4", "<f4", ">float32", ">S4"] {
            assert_eq!(ElementType::from_big_endian_name(unknown), None, "{unknown}");
        }
        let shape = |dtype: &str, bytes: u64| {
            let members = serde_json::json!(
                {"dtype": dtype, "feature_dim": 2, "feature_record_bytes": bytes}
            );
            FixedShape::from_members(members.as_object().unwrap()).unwrap().unwrap()
        };
        let turned = |shape: FixedShape, mut bytes: Vec<u8>| {
            shape.to_little_endian(&mut bytes);
            bytes
        };
        assert!(!shape(">u1", 2).big_endian);
        assert_eq!(turned(shape("<i2", 4), vec![1, 2, 3, 4]), [1, 2, 3, 4]);
        assert_eq!(turned(shape(">i2", 4), vec![1, 2, 3, 4]), [2, 1, 4, 3]);
        let complex = (0..16).collect::<Vec<u8>>();
        let expected = [3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12];
        assert_eq!(turned(shape(">c8", 16), complex), expected);
    }

    #[test]
    fn sizes_that_overflow_are_refused() {
        assert!(FixedShape::new(u64::MAX, ElementType::Float16).is_err());
        let shape = FixedShape::new(1 << 40, ElementType::Float64).unwrap();
        assert!(shape.check_data_length(0, 1 << 40).is_err());
        assert!(shape.check_data_length(1 << 43, 1).is_ok());
        let empty = FixedShape::new(0, ElementType::Float32).unwrap();
        assert!(empty.check_data_length(0, 3).is_ok());
        assert!(empty.check_data_length(0, 1 << 60).is_err());
    }
}
