//! Attributes: named values of arrays, groups and stores.

use crate::error::u64_len;

/// Bytes that one attribute's value may have.
pub(crate) const MAX_VALUE_BYTES: u64 = 16 << 20;

/// The value of an attribute.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum Attr {
    Bool(bool),
    Int(i64),
    UInt(u64),
    Float(f64),
    Text(String),
    Bytes(Vec<u8>),
    Ints(Vec<i64>),
    Floats(Vec<f64>),
    Texts(Vec<String>),
}

impl Attr {
    /// A tag byte, then the value.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        match self {
            Self::Bool(value) => bytes.extend([1, u8::from(*value)]),
            Self::Int(value) => tagged(&mut bytes, 2, &value.to_le_bytes()),
            Self::UInt(value) => tagged(&mut bytes, 3, &value.to_le_bytes()),
            Self::Float(value) => tagged(&mut bytes, 4, &value.to_le_bytes()),
            Self::Text(value) => tagged(&mut bytes, 5, value.as_bytes()),
            Self::Bytes(value) => tagged(&mut bytes, 6, value),
            Self::Ints(values) => {
                bytes.push(7);
                values.iter().for_each(|value| bytes.extend_from_slice(&value.to_le_bytes()));
            }
            Self::Floats(values) => {
                bytes.push(8);
                values.iter().for_each(|value| bytes.extend_from_slice(&value.to_le_bytes()));
            }
            Self::Texts(values) => {
                bytes.push(9);
                for value in values {
                    bytes.extend_from_slice(&u64_len(value.len()).to_le_bytes());
                    bytes.extend_from_slice(value.as_bytes());
                }
            }
        }
        bytes
    }

    /// Whether [`Attr::decode`] makes a value of these bytes.
    pub(crate) fn is_sound(bytes: &[u8]) -> bool {
        let Some((tag, value)) = bytes.split_first() else {
            return false;
        };
        match tag {
            1 => matches!(value, [0 | 1]),
            2..=4 => value.len() == 8,
            5 => std::str::from_utf8(value).is_ok(),
            6 => true,
            7 | 8 => value.len().is_multiple_of(8),
            _ => Self::decode(bytes).is_some(),
        }
    }

    /// The other way round; none for bytes that no value has.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (tag, value) = bytes.split_first()?;
        Some(match tag {
            1 => match value {
                [0] => Self::Bool(false),
                [1] => Self::Bool(true),
                _ => return None,
            },
            2 => Self::Int(i64::from_le_bytes(value.try_into().ok()?)),
            3 => Self::UInt(u64::from_le_bytes(value.try_into().ok()?)),
            4 => Self::Float(f64::from_le_bytes(value.try_into().ok()?)),
            5 => Self::Text(text(value)?),
            6 => Self::Bytes(value.to_vec()),
            7 => Self::Ints(eights(value)?.map(i64::from_le_bytes).collect()),
            8 => Self::Floats(eights(value)?.map(f64::from_le_bytes).collect()),
            9 => {
                let mut texts = Vec::new();
                let mut rest = value;
                while !rest.is_empty() {
                    let (length, more) = rest.split_first_chunk::<8>()?;
                    let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
                    let (value, more) = more.split_at_checked(length)?;
                    texts.push(text(value)?);
                    rest = more;
                }
                Self::Texts(texts)
            }
            _ => return None,
        })
    }
}

fn tagged(bytes: &mut Vec<u8>, tag: u8, value: &[u8]) {
    bytes.push(tag);
    bytes.extend_from_slice(value);
}

fn text(bytes: &[u8]) -> Option<String> {
    String::from_utf8(bytes.to_vec()).ok()
}

fn eights(bytes: &[u8]) -> Option<impl Iterator<Item = [u8; 8]> + '_> {
    let (chunks, rest) = bytes.as_chunks::<8>();
    rest.is_empty().then(|| chunks.iter().copied())
}

macro_rules! from {
    ($($value:ty => $variant:ident),+) => {$(
        impl From<$value> for Attr {
            fn from(value: $value) -> Self {
                Self::$variant(value.into())
            }
        }
    )+};
}

from!(bool => Bool, i64 => Int, i32 => Int, u64 => UInt, f64 => Float, &str => Text,
    String => Text, Vec<u8> => Bytes, Vec<i64> => Ints, Vec<f64> => Floats, Vec<String> => Texts);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_read_back_and_cut_ones_do_not_pass_for_others() {
        let all = [
            Attr::Bool(true),
            Attr::Int(-3),
            Attr::UInt(u64::MAX),
            Attr::Float(f64::MIN_POSITIVE),
            Attr::Text("µm".to_owned()),
            Attr::Bytes(vec![0, 255]),
            Attr::Ints(vec![1, -1]),
            Attr::Floats(vec![0.5]),
            Attr::Texts(vec![String::new(), "b".to_owned()]),
        ];
        for value in all {
            let bytes = value.encode();
            assert_eq!(Attr::decode(&bytes), Some(value.clone()));
            for cut in 0..bytes.len() {
                let decoded = Attr::decode(&bytes[..cut]);
                assert_ne!(decoded, Some(value.clone()));
                assert_eq!(Attr::is_sound(&bytes[..cut]), decoded.is_some());
            }
            assert!(Attr::is_sound(&bytes));
        }
        assert_eq!(Attr::decode(&[99]), None);
        assert_eq!(Attr::decode(&[9, 255, 255, 255, 255, 255, 255, 255, 255]), None);
    }
}
