//! Helpers for the tests that run the Python reference packages against this workspace.
//!
//! The reference is run as a black box through the scripts in `python/`; what both sides see is
//! brought into one JSON form and compared. Nothing here is published or used by another crate.
//!
//! The tests need the virtual environment that `scripts/reference-env.sh` makes. They make it
//! themselves where it is missing, which needs network once, and fail where that is not possible.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::string_slice,
    reason = "only tests use this crate, and a test that cannot go on has failed"
)]

pub mod arrow_json;
pub mod json;
pub mod malformed;
pub mod reference;
