//! What is done with whole packs: validation, and the command.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use iatrocache::adapters::validate::{
    ValidateOptions, Validated, find_packs as find, validate_pack,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::Raise;

/// Validates a pack by the rules of its payload type.
#[pyfunction]
pub(crate) fn validate<'py>(
    py: Python<'py>,
    path: PathBuf,
    max_decode: u64,
    max_crc: u64,
) -> PyResult<Bound<'py, PyDict>> {
    let options = ValidateOptions::default().max_decode(max_decode).max_crc(max_crc);
    let validated = py.detach(|| validate_pack(&path, &options)).raise()?;
    let found = PyDict::new(py);
    macro_rules! fill {
        ($payload_type:ident, $($name:ident),*) => {{
            found.set_item("type", $payload_type)?;
            $(found.set_item(stringify!($name), $name)?;)*
        }};
    }
    match validated {
        Validated::Tiles { payload_type, records, codec, decoded, crc_checked }
        | Validated::Text { payload_type, records, codec, decoded, crc_checked } => {
            fill!(payload_type, records, codec, decoded, crc_checked);
        }
        Validated::Dicom { payload_type, records, series, codec, decoded, crc_checked } => {
            fill!(payload_type, records, series, codec, decoded, crc_checked);
        }
        Validated::Wsi { payload_type, records, width, height, decoded, crc_checked } => {
            fill!(payload_type, records, width, height, decoded, crc_checked);
        }
        Validated::WsiOverview { payload_type, records, crc_checked } => {
            fill!(payload_type, records, crc_checked);
        }
        Validated::Features { payload_type, records, teacher, dim, dtype, rows_checked } => {
            fill!(payload_type, records, teacher, dim, dtype, rows_checked);
        }
        other => found.set_item("summary", other.to_string())?,
    }
    Ok(found)
}

/// The packs under a path, sorted.
#[pyfunction]
pub(crate) fn find_packs(py: Python<'_>, path: PathBuf) -> PyResult<Vec<PathBuf>> {
    py.detach(|| find(&path)).raise()
}

/// Runs the command `iac` with these arguments, the program's name first, and gives its exit code.
/// Made for processes that end with it: its handling of Ctrl-C replaces that of Python.
#[pyfunction]
pub(crate) fn run_command(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    let code = py.detach(|| iac_cli::run(arguments));
    // An exit code does not tell its number, but it can be compared.
    (0..=u8::MAX).find(|number| ExitCode::from(*number) == code).unwrap_or(1)
}

/// The codecs that this build can encode or decode.
#[pyfunction]
pub(crate) fn compiled_codecs() -> Vec<&'static str> {
    iatrocache::compiled_codecs()
}

/// Survives files that others cut while they are mapped: reading them is an `OSError` from now on,
/// in place of the end of the process.
#[pyfunction]
pub(crate) fn install_guard() -> PyResult<()> {
    iatrocache::reader::guard::install().raise()
}
