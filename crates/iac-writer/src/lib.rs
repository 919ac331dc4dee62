//! Writes IatroCache (`.iac`) files in one pass, published whole or not at all.
//!
//! | you have | use |
//! |---|---|
//! | all payloads in memory | [`build_pack`] |
//! | an iterator of payloads, and the rows that describe them | [`build_pack_streaming`] |
//! | a matrix, or another data segment that is one piece | [`build_pack_data_segment`] |
//! | the same in a file | [`build_pack_data_segment_from_file`] |
//! | the same in stretches | [`build_pack_data_segment_streaming`] |
//! | payloads and rows that come bit by bit | [`PackWriter`] |
//! | records (bytes or images) that a codec is to encode, in memory or one by one | [`VariablePackBuilder`] |
//! | a matrix of numbers | [`FixedPackBuilder`] |
//!
//! Payload bytes are written once, to their final place; memory holds 16 bytes for each row, never
//! the payloads. A pack is made under a temporary name (`.NAME.RANDOM.part`) in the destination's
//! folder, synced and renamed: whatever happens, the destination holds the old file or the new
//! one, and nothing in between. A writer that was killed may leave its temporary file; the next
//! write of the same name removes it.
//!
//! The same input always gives the same bytes.
//!
//! This crate knows nothing of medicine: what records are stands in the header's `payload_type`.

mod builders;
mod columns;
mod data;
mod draft;
mod error;
mod fixed_builder;
mod image_writer;
mod options;
mod pack_writer;
mod pipeline;
mod platform;
mod publish;
mod segment;
mod table;
mod variable_builder;

pub use builders::{
    build_pack, build_pack_data_segment, build_pack_data_segment_from_file,
    build_pack_data_segment_streaming, build_pack_streaming,
};
pub use draft::WriteSummary;
pub use error::{Result, WriteError};
pub use fixed_builder::FixedPackBuilder;
pub use image_writer::ImagePackWriter;
pub use options::WriteOptions;
pub use pack_writer::{PackWriter, PushedRow};
pub use platform::sync_folder;
pub use table::Table;
pub use variable_builder::VariablePackBuilder;
