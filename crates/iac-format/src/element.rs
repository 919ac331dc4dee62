//! Rust types whose values are the elements of fixed packs.

use half::{bf16, f16};

use crate::fixed::ElementType;

/// A Rust type whose values in memory are, on a little-endian machine, the elements of a fixed
/// pack.
///
/// It is implemented for the types that the format knows: `bool`, the integers up to 64 bits,
/// [`half::f16`], [`half::bf16`], `f32`, `f64`, and complex numbers as `[f32; 2]` and `[f64; 2]` (real part
/// first). Text, references and other things that are no numbers have no implementation, so they
/// cannot be written by accident.
///
/// ```
/// use iac_format::{Element, ElementType};
///
/// assert_eq!(<f32 as Element>::TYPE, ElementType::Float32);
/// assert_eq!(<[f64; 2] as Element>::TYPE, ElementType::Complex128);
/// ```
pub trait Element: bytemuck::NoUninit + Send + Sync + sealed::Sealed {
    /// The type as headers name it.
    const TYPE: ElementType;
    /// Bytes that are reversed together where the byte order differs: a complex number has two
    /// such parts.
    const PART_BYTES: usize;
}

mod sealed {
    /// The format has the element types that it has; others could not be named in a header.
    pub trait Sealed {}
}

macro_rules! elements {
    ($($rust:ty => $element:ident, $part:expr;)*) => {
        $(
            impl sealed::Sealed for $rust {}

            impl Element for $rust {
                const TYPE: ElementType = ElementType::$element;
                const PART_BYTES: usize = $part;
            }
        )*
    };
}

elements! {
    bool => Bool, 1;
    i8 => Int8, 1;
    i16 => Int16, 2;
    i32 => Int32, 4;
    i64 => Int64, 8;
    u8 => Uint8, 1;
    u16 => Uint16, 2;
    u32 => Uint32, 4;
    u64 => Uint64, 8;
    f16 => Float16, 2;
    bf16 => Bfloat16, 2;
    f32 => Float32, 4;
    f64 => Float64, 8;
    [f32; 2] => Complex64, 4;
    [f64; 2] => Complex128, 8;
}

/// Turns elements from little-endian to this machine's byte order, or back.
///
/// `part_bytes` is [`Element::PART_BYTES`]. On little-endian machines there is nothing to do.
pub fn swap_if_big_endian(bytes: &mut [u8], part_bytes: usize) {
    if cfg!(target_endian = "big") && part_bytes > 1 {
        for part in bytes.chunks_exact_mut(part_bytes) {
            part.reverse();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_type_has_a_rust_type_of_its_size() {
        fn fits<T: Element>(seen: &mut Vec<ElementType>) {
            assert_eq!(T::TYPE.item_bytes(), size_of::<T>() as u64);
            assert_eq!(size_of::<T>() % T::PART_BYTES, 0);
            seen.push(T::TYPE);
        }
        let mut seen = Vec::new();
        fits::<bool>(&mut seen);
        fits::<i8>(&mut seen);
        fits::<i16>(&mut seen);
        fits::<i32>(&mut seen);
        fits::<i64>(&mut seen);
        fits::<u8>(&mut seen);
        fits::<u16>(&mut seen);
        fits::<u32>(&mut seen);
        fits::<u64>(&mut seen);
        fits::<f16>(&mut seen);
        fits::<bf16>(&mut seen);
        fits::<f32>(&mut seen);
        fits::<f64>(&mut seen);
        fits::<[f32; 2]>(&mut seen);
        fits::<[f64; 2]>(&mut seen);
        assert_eq!(seen, ElementType::ALL);
    }
}
