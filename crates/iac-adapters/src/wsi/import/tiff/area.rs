//! Where the pages of a file lie on its raster.

/// A page that is a part of the raster, or all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Area {
    pub(super) page: usize,
    /// Where its upper left corner lies.
    pub(super) x: u64,
    pub(super) y: u64,
    /// As the description states them; 0 where it does not.
    pub(super) width: u64,
    pub(super) height: u64,
}

impl Area {
    /// A page that is all of the raster.
    pub(super) const fn all(page: usize) -> Self {
        Self { page, x: 0, y: 0, width: 0, height: 0 }
    }
}
