//! What the fuzz targets share: a limit on allocations, seeds, and packs put together from parts.

pub mod allocation;
pub mod codecs;
pub mod pack_input;
pub mod seeds;

pub use allocation::Limited;
pub use pack_input::{Parts, assemble};
