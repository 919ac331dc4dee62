//! The native half of the Python package `iatrocache`.
//!
//! Classes and functions here take and give plain objects: texts, numbers, tuples, and memory
//! through the buffer protocol. What makes them pleasant (NumPy arrays, data classes, defaults) is
//! Python code beside it, in `python/iatrocache`. No work on files, and no encoding or decoding, is
//! done with the interpreter's lock.
//!
//! `unsafe` is in `buffer` (the buffer protocol), `fresh` (objects that are filled without the lock) and
//! `arrow` (streams of other libraries).

mod arrays;
mod arrow;
mod buffer;
mod codec;
mod dicom;
mod errors;
mod features;
mod fixed;
mod fresh;
mod interrupt;
mod reader;
mod rows;
mod text;
mod tiles;
mod whole;
mod write;
mod wsi;

use pyo3::prelude::*;

/// The module `iatrocache._native`.
#[pymodule(gil_used = false)]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<arrays::Store>()?;
    module.add_class::<arrow::ArrowTable>()?;
    module.add_class::<buffer::Buffer>()?;
    module.add_class::<codec::NativeCodec>()?;
    module.add_class::<dicom::Dicom>()?;
    module.add_class::<features::Features>()?;
    module.add_class::<fixed::FixedRows>()?;
    module.add_class::<reader::Reader>()?;
    module.add_class::<text::Texts>()?;
    module.add_class::<tiles::Tiles>()?;
    module.add_class::<wsi::Slide>()?;
    module.add_function(wrap_pyfunction!(dicom::build_dicom, module)?)?;
    module.add_function(wrap_pyfunction!(features::build_features, module)?)?;
    module.add_function(wrap_pyfunction!(text::build_texts, module)?)?;
    module.add_function(wrap_pyfunction!(tiles::build_tiles, module)?)?;
    module.add_function(wrap_pyfunction!(tiles::build_tiles_from_records, module)?)?;
    module.add_function(wrap_pyfunction!(tiles::read_tile_manifest, module)?)?;
    module.add_function(wrap_pyfunction!(tiles::write_tile_manifest, module)?)?;
    module.add_function(wrap_pyfunction!(whole::compiled_codecs, module)?)?;
    module.add_function(wrap_pyfunction!(whole::find_packs, module)?)?;
    module.add_function(wrap_pyfunction!(whole::install_guard, module)?)?;
    module.add_function(wrap_pyfunction!(whole::run_command, module)?)?;
    module.add_function(wrap_pyfunction!(whole::validate, module)?)?;
    module.add_function(wrap_pyfunction!(write::build_encoded, module)?)?;
    module.add_function(wrap_pyfunction!(write::build_fixed, module)?)?;
    module.add_function(wrap_pyfunction!(write::build_pack_data_segment, module)?)?;
    module.add_function(wrap_pyfunction!(write::build_pack_data_segment_from_file, module)?)?;
    module.add_function(wrap_pyfunction!(write::build_pack_streaming, module)?)?;
    module.add_function(wrap_pyfunction!(write::clear_caches, module)?)?;
    module.add_function(wrap_pyfunction!(write::configure_cache, module)?)?;
    module.add_function(wrap_pyfunction!(write::read_header_text, module)?)?;
    module.add_function(wrap_pyfunction!(wsi::build_wsi, module)?)?;
    Ok(())
}
