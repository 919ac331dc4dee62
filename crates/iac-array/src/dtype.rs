//! Types of elements and their names.

use std::fmt;
use std::str::FromStr;

use crate::error::{ArrayError, Result};

/// Unit of a [`DType::Timestamp`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TimeUnit {
    /// Seconds.
    Second,
    /// Milliseconds.
    Millisecond,
    /// Microseconds.
    Microsecond,
    /// Nanoseconds.
    Nanosecond,
}

/// Type of the elements of an array; its text form is what the catalogue stores.
///
/// ```
/// use iac_array::DType;
///
/// let dtype: DType = "fixed_list<float32,3>".parse()?;
/// assert_eq!(dtype.width(), Some(12));
/// assert_eq!(dtype.to_string(), "fixed_list<float32,3>");
/// # Ok::<(), iac_array::ArrayError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[allow(missing_docs)] // The numbers speak for themselves.
pub enum DType {
    Bool,
    Int8,
    Int16,
    Int32,
    Int64,
    UInt8,
    UInt16,
    UInt32,
    UInt64,
    Float16,
    BFloat16,
    Float32,
    Float64,
    Complex64,
    Complex128,
    /// Signed 64-bit count of units since 1970-01-01, with an optional time zone name.
    Timestamp(TimeUnit, Option<String>),
    /// Text of any length.
    Utf8,
    /// Bytes of any length.
    Binary,
    /// So many bytes.
    FixedBinary(u32),
    /// Any number of elements of a type with a fixed width.
    List(Box<DType>),
    /// So many elements of a type with a fixed width.
    FixedList(Box<DType>, u32),
}

/// Bytes that one element of a fixed width may have.
const MAX_WIDTH: u64 = 1 << 24;

impl DType {
    /// Bytes of one element; none for text, bytes and lists of any length.
    #[must_use]
    pub fn width(&self) -> Option<usize> {
        Some(match self {
            Self::Bool | Self::Int8 | Self::UInt8 => 1,
            Self::Int16 | Self::UInt16 | Self::Float16 | Self::BFloat16 => 2,
            Self::Int32 | Self::UInt32 | Self::Float32 => 4,
            Self::Int64 | Self::UInt64 | Self::Float64 | Self::Complex64 | Self::Timestamp(..) => 8,
            Self::Complex128 => 16,
            Self::FixedBinary(bytes) => usize::try_from(*bytes).ok()?,
            Self::FixedList(element, count) => {
                element.width()?.checked_mul(usize::try_from(*count).ok()?)?
            }
            Self::Utf8 | Self::Binary | Self::List(_) => return None,
        })
    }

    /// Bytes of the numbers that an element is made of, which is what `shuffle` sorts by.
    #[must_use]
    pub fn lane(&self) -> usize {
        match self {
            Self::Complex64 => 4,
            Self::Complex128 => 8,
            Self::FixedList(element, _) | Self::List(element) => element.lane(),
            Self::FixedBinary(_) | Self::Utf8 | Self::Binary => 1,
            other => other.width().unwrap_or(1),
        }
    }

    /// Refuses what cannot be stored: lists of lists, elements without bytes or with too many.
    pub(crate) fn check(&self) -> Result<()> {
        match self {
            Self::List(element) | Self::FixedList(element, _)
                if element.width().is_none()
                    || matches!(**element, Self::FixedList(..) | Self::FixedBinary(_)) =>
            {
                return Err(ArrayError::argument(format!(
                    "`{self}` has elements that are no plain numbers"
                )));
            }
            Self::Timestamp(_, Some(zone)) if zone.is_empty() || zone.contains(']') => {
                return Err(ArrayError::argument(format!("`{zone}` is no time zone name")));
            }
            _ => {}
        }
        let wide = match self {
            Self::FixedBinary(bytes) => u64::from(*bytes),
            Self::FixedList(element, count) => {
                u64::from(*count).saturating_mul(crate::error::u64_len(element.lane()))
            }
            _ => return Ok(()),
        };
        if wide == 0 || wide > MAX_WIDTH {
            return Err(ArrayError::argument(format!(
                "an element of `{self}` has {wide} bytes, and 1 to {MAX_WIDTH} are allowed"
            )));
        }
        Ok(())
    }
}

const PLAIN: [(&str, DType); 17] = [
    ("bool", DType::Bool),
    ("int8", DType::Int8),
    ("int16", DType::Int16),
    ("int32", DType::Int32),
    ("int64", DType::Int64),
    ("uint8", DType::UInt8),
    ("uint16", DType::UInt16),
    ("uint32", DType::UInt32),
    ("uint64", DType::UInt64),
    ("float16", DType::Float16),
    ("bfloat16", DType::BFloat16),
    ("float32", DType::Float32),
    ("float64", DType::Float64),
    ("complex64", DType::Complex64),
    ("complex128", DType::Complex128),
    ("utf8", DType::Utf8),
    ("binary", DType::Binary),
];

const UNITS: [(&str, TimeUnit); 4] = [
    ("s", TimeUnit::Second),
    ("ms", TimeUnit::Millisecond),
    ("us", TimeUnit::Microsecond),
    ("ns", TimeUnit::Nanosecond),
];

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Timestamp(unit, zone) => {
                let name = UNITS.iter().find(|(_, known)| known == unit).map_or("s", |pair| pair.0);
                write!(f, "timestamp[{name}]")?;
                zone.as_ref().map_or(Ok(()), |zone| write!(f, ";tz={zone}"))
            }
            Self::FixedBinary(bytes) => write!(f, "fixed_binary[{bytes}]"),
            Self::List(element) => write!(f, "list<{element}>"),
            Self::FixedList(element, count) => write!(f, "fixed_list<{element},{count}>"),
            plain => {
                let name = PLAIN.iter().find(|(_, known)| known == plain).map_or("", |pair| pair.0);
                f.write_str(name)
            }
        }
    }
}

impl FromStr for DType {
    type Err = ArrayError;

    fn from_str(text: &str) -> Result<Self> {
        let dtype = parse(text, 0)
            .ok_or_else(|| ArrayError::argument(format!("`{text}` is no type of elements")))?;
        dtype.check()?;
        Ok(dtype)
    }
}

fn parse(text: &str, depth: u8) -> Option<DType> {
    if let Some((_, dtype)) = PLAIN.iter().find(|(name, _)| *name == text) {
        return Some(dtype.clone());
    }
    if let Some(rest) = text.strip_prefix("timestamp[") {
        let (unit, zone) = rest.split_once(']')?;
        let unit = UNITS.iter().find(|(name, _)| *name == unit)?.1;
        let zone = match zone {
            "" => None,
            zone => Some(zone.strip_prefix(";tz=")?.to_owned()),
        };
        return Some(DType::Timestamp(unit, zone));
    }
    if let Some(bytes) = text.strip_prefix("fixed_binary[").and_then(|rest| rest.strip_suffix(']'))
    {
        return number(bytes).map(DType::FixedBinary);
    }
    // One level of nesting is all there is, so a long text cannot use up the stack.
    if depth > 0 {
        return None;
    }
    if let Some(element) = text.strip_prefix("list<").and_then(|rest| rest.strip_suffix('>')) {
        return Some(DType::List(Box::new(parse(element, 1)?)));
    }
    let inner = text.strip_prefix("fixed_list<")?.strip_suffix('>')?;
    let (element, count) = inner.rsplit_once(',')?;
    Some(DType::FixedList(Box::new(parse(element, 1)?), number(count)?))
}

/// A number in the one form that is written: digits, no sign, no zero in front.
fn number(text: &str) -> Option<u32> {
    let number: u32 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_reads_back_from_its_name() {
        let mut all: Vec<DType> = PLAIN.iter().map(|pair| pair.1.clone()).collect();
        all.push(DType::Timestamp(TimeUnit::Nanosecond, None));
        all.push(DType::Timestamp(TimeUnit::Second, Some("Europe/Berlin".to_owned())));
        all.push(DType::FixedBinary(16));
        all.push(DType::List(Box::new(DType::Float32)));
        all.push(DType::FixedList(Box::new(DType::Complex64), 3));
        for dtype in all {
            assert_eq!(dtype.to_string().parse::<DType>().unwrap(), dtype, "{dtype}");
        }
    }

    #[test]
    fn names_that_are_no_type_are_refused() {
        let wrong = [
            "",
            "float",
            "int128",
            "list<",
            "list<utf8>",
            "list<list<int8>>",
            "fixed_binary[0]",
            "fixed_binary[+1]",
            "fixed_list<int8,0>",
            "fixed_list<int8,99999999999>",
            "timestamp[h]",
            "timestamp[s]tz=x",
            "timestamp[s];tz=",
            "fixed_binary[4294967295]",
        ];
        for name in wrong {
            assert!(name.parse::<DType>().is_err(), "{name}");
        }
    }
}
