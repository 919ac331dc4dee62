//! Elements of any type as `f32`.

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use iac_format::ElementType;

/// Converts a row: as many elements as `target` has. Numbers that `f32` cannot express become the
/// nearest that it can; booleans become 0 and 1.
///
/// Complex numbers are none of its business: nothing is converted then.
pub(crate) fn to_f32(element: ElementType, row: &[u8], target: &mut [f32]) {
    match element {
        ElementType::Bool => each(row, target, |[byte]: [u8; 1]| f32::from(u8::from(byte != 0))),
        ElementType::Int8 => each(row, target, |bytes| f32::from(i8::from_le_bytes(bytes))),
        ElementType::Int16 => each(row, target, |bytes| f32::from(i16::from_le_bytes(bytes))),
        ElementType::Int32 => each(row, target, |bytes| i32::from_le_bytes(bytes) as f32),
        ElementType::Int64 => each(row, target, |bytes| i64::from_le_bytes(bytes) as f32),
        ElementType::Uint8 => each(row, target, |[byte]: [u8; 1]| f32::from(byte)),
        ElementType::Uint16 => each(row, target, |bytes| f32::from(u16::from_le_bytes(bytes))),
        ElementType::Uint32 => each(row, target, |bytes| u32::from_le_bytes(bytes) as f32),
        ElementType::Uint64 => each(row, target, |bytes| u64::from_le_bytes(bytes) as f32),
        ElementType::Float16 => f16_to_f32(row, target),
        ElementType::Bfloat16 => {
            each(row, target, |bytes| bf16::from_le_bytes(bytes).to_f32());
        }
        ElementType::Float32 => each(row, target, f32::from_le_bytes),
        ElementType::Float64 => each(row, target, |bytes| nearest(f64::from_le_bytes(bytes))),
        ElementType::Complex64 | ElementType::Complex128 => {}
    }
}

#[inline]
fn each<const N: usize>(row: &[u8], target: &mut [f32], convert: impl Fn([u8; N]) -> f32) {
    let (elements, _) = row.as_chunks::<N>();
    for (element, value) in elements.iter().zip(target) {
        *value = convert(*element);
    }
}

fn f16_to_f32(row: &[u8], target: &mut [f32]) {
    // Whole slices are converted by one instruction for eight elements, where the processor has
    // it; rows of files whose data segment is not aligned take the long way.
    if cfg!(target_endian = "little")
        && let Ok(elements) = bytemuck::try_cast_slice::<u8, f16>(row)
        && elements.len() == target.len()
    {
        elements.convert_to_f32_slice(target);
        return;
    }
    each(row, target, |bytes| f16::from_le_bytes(bytes).to_f32());
}

#[allow(clippy::cast_possible_truncation)] // the nearest f32, or infinity, is what is wanted
const fn nearest(value: f64) -> f32 {
    value as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn convert(element: ElementType, row: &[u8]) -> Vec<f32> {
        let count = row.chunks(usize::try_from(element.item_bytes()).unwrap()).len();
        let mut target = vec![f32::NAN; count];
        to_f32(element, row, &mut target);
        target
    }

    #[test]
    fn every_type_becomes_the_nearest_number() {
        assert_eq!(convert(ElementType::Bool, &[0, 1, 7]), [0.0, 1.0, 1.0]);
        assert_eq!(convert(ElementType::Int8, &[0x80, 1]), [-128.0, 1.0]);
        assert_eq!(convert(ElementType::Uint8, &[0x80, 1]), [128.0, 1.0]);
        assert_eq!(convert(ElementType::Int16, &(-2_i16).to_le_bytes()), [-2.0]);
        assert_eq!(convert(ElementType::Uint16, &u16::MAX.to_le_bytes()), [65_535.0]);
        assert_eq!(convert(ElementType::Int32, &i32::MIN.to_le_bytes()), [-2_147_483_648.0]);
        assert_eq!(convert(ElementType::Uint32, &16_777_217_u32.to_le_bytes()), [16_777_216.0]);
        assert_eq!(convert(ElementType::Int64, &i64::MIN.to_le_bytes()), [-9.223_372e18]);
        assert_eq!(convert(ElementType::Uint64, &u64::MAX.to_le_bytes()), [1.844_674_4e19]);
        assert_eq!(convert(ElementType::Bfloat16, &[0xc0, 0x3f, 0x80, 0xff])[0], 1.5);
        assert_eq!(convert(ElementType::Float32, &1.5_f32.to_le_bytes()), [1.5]);
        assert_eq!(convert(ElementType::Float64, &0.1_f64.to_le_bytes()), [0.1]);
        assert_eq!(convert(ElementType::Float64, &1e300_f64.to_le_bytes()), [f32::INFINITY]);
        assert!(convert(ElementType::Float64, &f64::NAN.to_le_bytes())[0].is_nan());
    }

    #[test]
    fn half_precision_is_converted_alike_wherever_it_lies() {
        let values = [0.0_f32, -0.0, 1.0, -2.5, 65_504.0, 5.960_464_5e-8, f32::INFINITY];
        let mut bytes = vec![0; 16];
        for (place, value) in bytes.chunks_exact_mut(2).zip(values) {
            place.copy_from_slice(&f16::from_f32(value).to_le_bytes());
        }
        let mut shifted = vec![0; 1];
        shifted.extend_from_slice(&bytes);
        let expected = convert(ElementType::Float16, &bytes[..14]);
        assert_eq!(expected, values);
        assert_eq!(convert(ElementType::Float16, &shifted[1..15]), values);
    }
}
