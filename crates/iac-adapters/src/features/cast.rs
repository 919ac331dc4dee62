//! From one element type to another.

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use iac_format::ElementType;

/// A number that the type asked for cannot hold: its position in the row, and itself.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CastFault {
    pub(crate) position: usize,
    pub(crate) value: String,
}

/// A number on its way.
#[derive(Debug, Clone, Copy)]
enum Number {
    Float(f64),
    Int(i64),
    Uint(u64),
}

/// Appends little-endian elements as elements of another type.
///
/// Floating-point numbers are rounded to the nearest even one and become infinite when they are too
/// large; as integers they lose their fraction. Integers that do not fit are refused. `bool` is
/// whether a number is not 0.
pub(crate) fn cast(
    from: ElementType,
    row: &[u8],
    to: ElementType,
    out: &mut Vec<u8>,
) -> Result<(), CastFault> {
    match (from, to) {
        // Booleans are the only type of which not every byte is a value.
        (ElementType::Bool, ElementType::Bool) => {
            out.extend(row.iter().map(|byte| u8::from(*byte != 0)));
        }
        _ if from == to => out.extend_from_slice(row),
        (ElementType::Float32, ElementType::Float16) => f32_to_f16(row, out),
        (ElementType::Float32, ElementType::Bfloat16) => {
            each(row, |bytes| Ok(bf16::from_f32(f32::from_le_bytes(bytes)).to_le_bytes()), out)?;
        }
        (ElementType::Float16, ElementType::Float32) => {
            each(row, |bytes| Ok(f16::from_le_bytes(bytes).to_f32().to_le_bytes()), out)?;
        }
        (ElementType::Bfloat16, ElementType::Float32) => {
            each(row, |bytes| Ok(bf16::from_le_bytes(bytes).to_f32().to_le_bytes()), out)?;
        }
        (ElementType::Float64, ElementType::Float32) => {
            each(row, |bytes| Ok(nearest(f64::from_le_bytes(bytes)).to_le_bytes()), out)?;
        }
        _ => {
            let mut numbers = Vec::new();
            decode(from, row, &mut numbers);
            encode(&numbers, to, out)?;
        }
    }
    Ok(())
}

fn f32_to_f16(row: &[u8], out: &mut Vec<u8>) {
    let (elements, _) = row.as_chunks::<4>();
    let mut block = [f16::ZERO; 256];
    let mut floats = [0.0_f32; 256];
    for elements in elements.chunks(256) {
        for (float, element) in floats.iter_mut().zip(elements) {
            *float = f32::from_le_bytes(*element);
        }
        if let (Some(from), Some(to)) =
            (floats.get(..elements.len()), block.get_mut(..elements.len()))
        {
            to.convert_from_f32_slice(from);
            out.extend(to.iter().flat_map(|element| element.to_le_bytes()));
        }
    }
}

fn each<const FROM: usize, const TO: usize>(
    row: &[u8],
    convert: impl Fn([u8; FROM]) -> Result<[u8; TO], CastFault>,
    out: &mut Vec<u8>,
) -> Result<(), CastFault> {
    let (elements, _) = row.as_chunks::<FROM>();
    out.reserve(elements.len().saturating_mul(TO));
    for element in elements {
        out.extend_from_slice(&convert(*element)?);
    }
    Ok(())
}

fn decode(from: ElementType, row: &[u8], numbers: &mut Vec<Number>) {
    fn all<const N: usize>(row: &[u8], to: &mut Vec<Number>, number: fn([u8; N]) -> Number) {
        let (elements, _) = row.as_chunks::<N>();
        to.extend(elements.iter().map(|element| number(*element)));
    }
    use Number::{Float, Int, Uint};
    match from {
        ElementType::Bool => all(row, numbers, |[byte]: [u8; 1]| Uint(u64::from(byte != 0))),
        ElementType::Int8 => all(row, numbers, |bytes| Int(i8::from_le_bytes(bytes).into())),
        ElementType::Int16 => all(row, numbers, |bytes| Int(i16::from_le_bytes(bytes).into())),
        ElementType::Int32 => all(row, numbers, |bytes| Int(i32::from_le_bytes(bytes).into())),
        ElementType::Int64 => all(row, numbers, |bytes| Int(i64::from_le_bytes(bytes))),
        ElementType::Uint8 => all(row, numbers, |bytes| Uint(u8::from_le_bytes(bytes).into())),
        ElementType::Uint16 => all(row, numbers, |bytes| Uint(u16::from_le_bytes(bytes).into())),
        ElementType::Uint32 => all(row, numbers, |bytes| Uint(u32::from_le_bytes(bytes).into())),
        ElementType::Uint64 => all(row, numbers, |bytes| Uint(u64::from_le_bytes(bytes))),
        ElementType::Float16 => {
            all(row, numbers, |bytes| Float(f16::from_le_bytes(bytes).to_f64()));
        }
        ElementType::Bfloat16 => {
            all(row, numbers, |bytes| Float(bf16::from_le_bytes(bytes).to_f64()));
        }
        ElementType::Float32 => all(row, numbers, |bytes| Float(f32::from_le_bytes(bytes).into())),
        ElementType::Float64 => all(row, numbers, |bytes| Float(f64::from_le_bytes(bytes))),
        ElementType::Complex64 | ElementType::Complex128 => {}
    }
}

fn encode(numbers: &[Number], to: ElementType, out: &mut Vec<u8>) -> Result<(), CastFault> {
    fn all<const N: usize>(
        numbers: &[Number],
        out: &mut Vec<u8>,
        bytes: impl Fn(Number) -> Option<[u8; N]>,
    ) -> Result<(), CastFault> {
        for (position, number) in numbers.iter().enumerate() {
            let bytes =
                bytes(*number).ok_or_else(|| CastFault { position, value: number.to_string() })?;
            out.extend_from_slice(&bytes);
        }
        Ok(())
    }
    macro_rules! integer {
        ($type:ty) => {
            all(numbers, out, |number| {
                <$type>::try_from(number.whole()?).ok().map(<$type>::to_le_bytes)
            })
        };
    }
    match to {
        ElementType::Bool => all(numbers, out, |number| Some([u8::from(!number.is_zero())])),
        ElementType::Int8 => integer!(i8),
        ElementType::Int16 => integer!(i16),
        ElementType::Int32 => integer!(i32),
        ElementType::Int64 => integer!(i64),
        ElementType::Uint8 => integer!(u8),
        ElementType::Uint16 => integer!(u16),
        ElementType::Uint32 => integer!(u32),
        ElementType::Uint64 => integer!(u64),
        ElementType::Float16 => {
            all(numbers, out, |number| Some(f16::from_f64(number.double()).to_le_bytes()))
        }
        ElementType::Bfloat16 => {
            all(numbers, out, |number| Some(bf16::from_f64(number.double()).to_le_bytes()))
        }
        ElementType::Float32 => all(numbers, out, |number| Some(number.single().to_le_bytes())),
        ElementType::Float64 => all(numbers, out, |number| Some(number.double().to_le_bytes())),
        ElementType::Complex64 | ElementType::Complex128 => Ok(()),
    }
}

#[allow(clippy::cast_precision_loss, reason = "the nearest number is what is wanted")]
impl Number {
    fn is_zero(self) -> bool {
        match self {
            Self::Float(value) => value == 0.0,
            Self::Int(value) => value == 0,
            Self::Uint(value) => value == 0,
        }
    }

    /// Without its fraction; nothing for what is no number, or beyond 64 bits.
    fn whole(self) -> Option<i128> {
        match self {
            Self::Float(value) => {
                // Both bounds are doubles: 2^64 and the one before -2^63.
                if !(value < 18_446_744_073_709_551_616.0 && value > -9_223_372_036_854_777_856.0) {
                    return None;
                }
                Some(truncate(value))
            }
            Self::Int(value) => Some(value.into()),
            Self::Uint(value) => Some(value.into()),
        }
    }

    const fn double(self) -> f64 {
        match self {
            Self::Float(value) => value,
            Self::Int(value) => value as f64,
            Self::Uint(value) => value as f64,
        }
    }

    const fn single(self) -> f32 {
        match self {
            Self::Float(value) => nearest(value),
            // Not by way of a double, which would round twice.
            Self::Int(value) => value as f32,
            Self::Uint(value) => value as f32,
        }
    }
}

impl std::fmt::Display for Number {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Float(value) => value.fmt(f),
            Self::Int(value) => value.fmt(f),
            Self::Uint(value) => value.fmt(f),
        }
    }
}

#[allow(clippy::cast_possible_truncation)] // the nearest f32, or infinity, is what is wanted
const fn nearest(value: f64) -> f32 {
    value as f32
}

#[allow(clippy::cast_possible_truncation)] // it was checked to fit
const fn truncate(value: f64) -> i128 {
    value as i128
}

/// Elements that are infinite or no numbers, and how many of them there are.
pub(crate) fn count_not_finite(element: ElementType, bytes: &[u8]) -> u64 {
    fn count<const N: usize>(bytes: &[u8], is_odd: impl Fn([u8; N]) -> bool) -> u64 {
        let (elements, _) = bytes.as_chunks::<N>();
        let odd = elements.iter().filter(|element| is_odd(**element)).count();
        u64::try_from(odd).unwrap_or(u64::MAX)
    }
    match element {
        ElementType::Float16 => count(bytes, |bytes| u16::from_le_bytes(bytes) & 0x7c00 == 0x7c00),
        ElementType::Bfloat16 => count(bytes, |bytes| u16::from_le_bytes(bytes) & 0x7f80 == 0x7f80),
        ElementType::Float32 => count(bytes, |bytes| !f32::from_le_bytes(bytes).is_finite()),
        ElementType::Float64 => count(bytes, |bytes| !f64::from_le_bytes(bytes).is_finite()),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn f32s(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    #[test]
    fn halves_are_rounded_to_the_nearest_even() {
        let values =
            [1.0_f32, 65519.9, 65520.0, -65520.0, 5.960_464_5e-8, 2.980_232_2e-8, 2049.0, f32::NAN];
        let mut out = Vec::new();
        cast(ElementType::Float32, &f32s(&values), ElementType::Float16, &mut out).unwrap();
        let bits: Vec<u16> =
            out.chunks(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect();
        assert_eq!(bits[..7], [0x3c00, 0x7bff, 0x7c00, 0xfc00, 1, 0, 0x6800]);
        assert_eq!(count_not_finite(ElementType::Float16, &out), 3);
    }

    #[test]
    fn fractions_are_cut_off_and_what_does_not_fit_is_refused() {
        let mut out = Vec::new();
        cast(ElementType::Float32, &f32s(&[-1.9, 1.9, 127.0]), ElementType::Int8, &mut out)
            .unwrap();
        assert_eq!(out, [255, 1, 127]);
        for (value, to) in [
            (128.0, ElementType::Int8),
            (-1.0, ElementType::Uint64),
            (f32::NAN, ElementType::Int64),
            (f32::INFINITY, ElementType::Uint8),
            (1e30, ElementType::Uint64),
        ] {
            let fault = cast(ElementType::Float32, &f32s(&[0.0, value]), to, &mut out).unwrap_err();
            assert_eq!(fault.position, 1);
        }
        out.clear();
        cast(ElementType::Float32, &f32s(&[0.0, -0.0, 0.1, f32::NAN]), ElementType::Bool, &mut out)
            .unwrap();
        assert_eq!(out, [0, 0, 1, 1]);
    }

    #[test]
    fn large_integers_keep_every_bit_they_can() {
        let mut out = Vec::new();
        let row = u64::MAX.to_le_bytes();
        cast(ElementType::Uint64, &row, ElementType::Uint64, &mut out).unwrap();
        assert_eq!(out, row);
        let fault = cast(ElementType::Uint64, &row, ElementType::Int64, &mut out).unwrap_err();
        assert_eq!(fault.value, u64::MAX.to_string());
        out.clear();
        cast(ElementType::Int64, &(-7_i64).to_le_bytes(), ElementType::Float32, &mut out).unwrap();
        assert_eq!(out, (-7.0_f32).to_le_bytes());
    }
}
