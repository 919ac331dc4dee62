//! Holds documents against the workspace: tables of features, who uses whom, what a registry wants to
//! know of a crate, figures that stand twice, the format byte by byte.
//!
//! What stands between `<!-- features of CRATE -->`, `<!-- crates -->`, `<!-- field -->` or
//! `<!-- bytes -->` and `<!-- end -->` is made here. `make tables` writes it; without it the tests tell
//! what is out of date.

#[path = "manifests/bytes.rs"]
mod bytes;
#[path = "manifests/documents.rs"]
mod documents;
#[path = "manifests/features.rs"]
mod features;
#[path = "manifests/field.rs"]
mod field;
#[path = "manifests/layers.rs"]
mod layers;
#[path = "manifests/manifest.rs"]
mod manifest;
#[path = "manifests/packages.rs"]
mod packages;
#[path = "manifests/register.rs"]
mod register;
