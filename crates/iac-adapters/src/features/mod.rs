//! Packs of teacher features: one vector of numbers for each tile.
//!
//! [`FeaturePackBuilder`] makes them, [`FeaturePackReader`] reads them, [`FeatureFile`] takes
//! vectors out of `.npy` and `.safetensors` files, and [`FeatureJoin`] puts the vectors of several
//! packs beside the tiles they belong to.

mod build;
mod cast;
mod file;
mod join;
mod read;

pub use build::{FeaturePackBuilder, FeatureRow, FeatureSummary, NonFinite};
pub(crate) use cast::count_not_finite;
pub use file::FeatureFile;
pub use iac_format::ElementType;
pub use join::{FeatureJoin, MissingFeature};
pub use read::FeaturePackReader;

/// The payload type of packs that every reader knows.
pub const TEACHER_FEATURES: &str = "teacher_features";

/// The payload type of packs that only this implementation knows: elements of type `bfloat16`.
pub const TEACHER_FEATURES_V2: &str = "teacher_features_v2";
