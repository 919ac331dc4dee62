//! Packs to and between object stores.
//!
//! A store shows an object whole or not at all, but only if it is asked in the right way. A pack is
//! made in a local file first and then uploaded:
//!
//! - up to 5 GiB in one conditional request, which creates the object or fails;
//! - beyond, in parts to the name `NAME.uploading-RANDOM`, from where the store copies it to its
//!   place if nothing is there, and which is removed whatever happens;
//! - where a store offers neither, only when overwriting was asked for.
//!
//! A process that is killed while it uploads leaves nothing under the name of the pack. What it may
//! leave (parts that were not put together, an object `NAME.uploading-RANDOM`) is for a rule of the
//! bucket to remove.

mod copy;
mod publish;

pub use copy::{CopyOptions, CopySummary, copy};
pub use publish::{PublishOptions, Published, build, publish};
