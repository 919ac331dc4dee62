//! What the fuzz targets share: a limit on allocations, seeds, and packs put together from parts.

pub mod allocation;
pub mod codecs;
pub mod copied;
pub mod pack_input;
pub mod random;
pub mod seeds;
pub mod slides;
pub mod stores;

pub use allocation::Limited;
pub use copied::Copied;
pub use pack_input::{Parts, assemble};
