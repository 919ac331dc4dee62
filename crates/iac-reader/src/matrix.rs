//! Rows of a fixed pack in memory.

use std::borrow::Cow;

use bytemuck::AnyBitPattern;
use iac_format::{Element, ElementType, FixedShape, swap_if_big_endian};

/// Rows of a fixed pack in their storage type: little-endian elements, row after row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Matrix {
    bytes: Vec<u8>,
    rows: usize,
    dim: usize,
    row_bytes: usize,
    element: ElementType,
}

impl Matrix {
    pub(crate) const fn new(
        bytes: Vec<u8>,
        rows: usize,
        dim: usize,
        row_bytes: usize,
        element: ElementType,
    ) -> Self {
        Self { bytes, rows, dim, row_bytes, element }
    }

    /// Rows and elements of a row.
    #[must_use]
    pub const fn shape(&self) -> [usize; 2] {
        [self.rows, self.dim]
    }

    /// Type of the elements.
    #[must_use]
    pub const fn element(&self) -> ElementType {
        self.element
    }

    /// All bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The bytes of a row by its position; `None` behind the last one.
    #[must_use]
    pub fn row(&self, position: usize) -> Option<&[u8]> {
        if position >= self.rows {
            return None;
        }
        let start = position.checked_mul(self.row_bytes)?;
        self.bytes.get(start..)?.get(..self.row_bytes)
    }

    /// Takes the bytes.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// The elements, in place where their alignment and this machine's byte order allow it, else
    /// copied; `None` when they are of another type (bytes may stand for booleans).
    #[must_use]
    pub fn elements<T: Element + AnyBitPattern>(&self) -> Option<Cow<'_, [T]>> {
        if !is_of_type::<T>(self.element) {
            return None;
        }
        if cfg!(target_endian = "little")
            && let Ok(elements) = bytemuck::try_cast_slice(&self.bytes)
        {
            return Some(Cow::Borrowed(elements));
        }
        let mut elements = vec![T::zeroed(); self.rows.checked_mul(self.dim)?];
        let target = bytes_of_mut(&mut elements);
        if target.len() != self.bytes.len() {
            return None;
        }
        target.copy_from_slice(&self.bytes);
        swap_if_big_endian(target, T::PART_BYTES);
        Some(Cow::Owned(elements))
    }
}

/// Whether elements in a file are values of a Rust type: bytes stand for booleans too.
pub(crate) fn is_of_type<T: Element>(found: ElementType) -> bool {
    found == T::TYPE || (found == ElementType::Bool && T::TYPE == ElementType::Uint8)
}

pub(crate) fn bytes_of_mut<T: Element + AnyBitPattern>(elements: &mut [T]) -> &mut [u8] {
    bytemuck::cast_slice_mut(elements)
}

/// Elements of a row and bytes of a row as sizes in memory.
pub(crate) fn memory_shape(shape: &FixedShape) -> Option<(usize, usize)> {
    Some((usize::try_from(shape.dim).ok()?, usize::try_from(shape.record_bytes).ok()?))
}
