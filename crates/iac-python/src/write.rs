//! Builders of packs.

use std::path::PathBuf;

use iatrocache::codec::CodecKind;
use iatrocache::format::FixedShape;
use iatrocache::{
    ElementType, FixedPackBuilder, Image, Table, VariablePackBuilder, WriteError, WriteOptions,
    build_pack_data_segment as segment, build_pack_data_segment_from_file as segment_from_file,
    build_pack_streaming as stream,
};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyByteArray, PyBytes, PyIterator};
use serde_json::{Map, Value};

use crate::arrow::table;
use crate::buffer::Held;
use crate::codec::{NativeCodec, image_view, members};
use crate::errors::{Fault, Raise};
use crate::rows;

/// How a pack is written: whether an existing file is replaced, whether the disk is waited for,
/// the alignment of the data segment, and whether checksums are written.
#[derive(FromPyObject)]
pub(crate) struct Writing(bool, bool, u64, bool);

impl Writing {
    pub(crate) fn options(&self) -> WriteOptions {
        let Self(overwrite, sync, data_alignment, checksums) = *self;
        WriteOptions::new()
            .overwrite(overwrite)
            .sync(sync)
            .data_alignment(data_alignment)
            .checksums(checksums)
    }
}

/// What every builder is given.
struct Pack {
    path: PathBuf,
    header: Map<String, Value>,
    slides: Table,
    index: Table,
    options: WriteOptions,
}

impl Pack {
    fn new(
        path: PathBuf,
        header: &str,
        slides: &Bound<'_, PyAny>,
        index: &Bound<'_, PyAny>,
        writing: &Writing,
    ) -> PyResult<Self> {
        // Before the work of taking tables over; the builder looks again.
        if !writing.0 && path.exists() {
            return Err(WriteError::Exists { path }).raise();
        }
        Ok(Self {
            path,
            header: members(header, "the header")?,
            slides: table(slides, "slide_table")?,
            index: table(index, "index_table")?,
            options: writing.options(),
        })
    }
}

/// Payloads of an iterator of Python, taken one by one with the interpreter's lock.
struct Payloads {
    iterator: Py<PyIterator>,
    /// Bytes and calls since signals were looked for.
    since: usize,
}

/// Work between two looks for signals. Iterators that are written in Python are interrupted anyway;
/// those of lists never run code of Python.
const LOOK_BYTES: usize = 4 << 20;

impl Iterator for Payloads {
    type Item = Result<PyBackedBytes, PyErr>;

    fn next(&mut self) -> Option<Self::Item> {
        Python::attach(|py| {
            if self.since >= LOOK_BYTES {
                self.since = 0;
                if let Err(error) = py.check_signals() {
                    return Some(Err(error));
                }
            }
            let next = self.iterator.bind(py).clone().next()?;
            let payload = next.and_then(|payload| bytes_of(&payload));
            if let Ok(payload) = &payload {
                self.since = self.since.saturating_add(payload.len()).saturating_add(4096);
            }
            Some(payload)
        })
    }
}

/// A payload: `bytes`, or a copy of a `bytearray`.
fn bytes_of(payload: &Bound<'_, PyAny>) -> PyResult<PyBackedBytes> {
    if payload.is_instance_of::<PyBytes>() || payload.is_instance_of::<PyByteArray>() {
        return Ok(payload.extract::<PyBackedBytes>()?);
    }
    Err(PyTypeError::new_err(format!(
        "payloads must be bytes or bytearray, not {}",
        payload.get_type().name()?
    )))
}

/// Writes a variable pack from payloads that come one by one.
#[pyfunction]
pub(crate) fn build_pack_streaming(
    py: Python<'_>,
    path: PathBuf,
    header: &str,
    slides: &Bound<'_, PyAny>,
    index: &Bound<'_, PyAny>,
    payloads: &Bound<'_, PyAny>,
    writing: Writing,
) -> PyResult<()> {
    let Pack { path, header, slides, index, options } =
        Pack::new(path, header, slides, index, &writing)?;
    let payloads = Payloads { iterator: payloads.try_iter()?.unbind(), since: 0 };
    // On this thread: iterators may be bound to it.
    py.detach(|| stream(&path, &header, &slides, &index, payloads, &options)).raise()?;
    Ok(())
}

/// Writes a pack whose data segment is given as a whole: `bytes`, or any memory in one piece.
#[pyfunction]
pub(crate) fn build_pack_data_segment(
    py: Python<'_>,
    path: PathBuf,
    header: &str,
    slides: &Bound<'_, PyAny>,
    index: &Bound<'_, PyAny>,
    data: &Bound<'_, PyAny>,
    writing: Writing,
) -> PyResult<()> {
    let Pack { path, header, slides, index, options } =
        Pack::new(path, header, slides, index, &writing)?;
    let data = Held::readable(data)?;
    py.detach(|| segment(&path, &header, &slides, &index, data.bytes(), &options)).raise()?;
    Ok(())
}

/// Writes a pack whose data segment is the content of a file.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "those of the specification")]
pub(crate) fn build_pack_data_segment_from_file(
    py: Python<'_>,
    path: PathBuf,
    header: &str,
    slides: &Bound<'_, PyAny>,
    index: &Bound<'_, PyAny>,
    source: PathBuf,
    data_length: u64,
    writing: Writing,
) -> PyResult<()> {
    let Pack { path, header, slides, index, options } =
        Pack::new(path, header, slides, index, &writing)?;
    py.detach(|| {
        segment_from_file(&path, &header, &slides, &index, &source, data_length, &options)
    })
    .raise()?;
    Ok(())
}

/// Writes a fixed pack from a matrix in little-endian order.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "those of the specification")]
pub(crate) fn build_fixed(
    py: Python<'_>,
    path: PathBuf,
    payload_type: &str,
    header: &str,
    slides: &Bound<'_, PyAny>,
    index: &Bound<'_, PyAny>,
    matrix: &Bound<'_, PyAny>,
    dim: u64,
    dtype: &str,
    writing: Writing,
) -> PyResult<()> {
    let Pack { path, header, slides, index, options } =
        Pack::new(path, header, slides, index, &writing)?;
    let shape = FixedShape::new(dim, element(dtype)?).raise()?;
    let matrix = Held::readable(matrix)?;
    let builder =
        FixedPackBuilder::new(payload_type, index).slides(slides).header(header).options(options);
    py.detach(|| builder.build_bytes(&path, shape, matrix.bytes())).raise()?;
    Ok(())
}

/// The type of elements by its name.
pub(crate) fn element(name: &str) -> PyResult<ElementType> {
    ElementType::from_name(name)
        .ok_or_else(|| Fault::argument_type(format!("unknown element type \"{name}\"")))
        .raise()
}

/// A record of bytes that is to be encoded.
enum Record {
    Backed(PyBackedBytes),
    Held(Held),
}

impl AsRef<[u8]> for Record {
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Backed(bytes) => bytes,
            Self::Held(held) => held.bytes(),
        }
    }
}

/// Objects of an iterator of Python, made into records one by one with the interpreter's lock.
struct Objects<F> {
    iterator: Py<PyIterator>,
    convert: F,
}

impl<T, F: Fn(&Bound<'_, PyAny>) -> PyResult<T>> Iterator for Objects<F> {
    type Item = Result<T, PyErr>;

    fn next(&mut self) -> Option<Self::Item> {
        Python::attach(|py| {
            if let Err(error) = py.check_signals() {
                return Some(Err(error));
            }
            let next = self.iterator.bind(py).clone().next()?;
            Some(next.and_then(|object| (self.convert)(&object)))
        })
    }
}

/// Writes a variable pack of records that a built-in codec encodes, on several threads.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "those of the specification")]
pub(crate) fn build_encoded(
    py: Python<'_>,
    path: PathBuf,
    payload_type: &str,
    header: &str,
    slides: &Bound<'_, PyAny>,
    index: &Bound<'_, PyAny>,
    codec: &NativeCodec,
    objects: &Bound<'_, PyAny>,
    workers: Option<usize>,
    writing: Writing,
) -> PyResult<()> {
    let Pack { path, header, slides, index, options } =
        Pack::new(path, header, slides, index, &writing)?;
    let builder = VariablePackBuilder::new(payload_type, index)
        .slides(slides)
        .header(header)
        .options(options)
        .workers(rows::workers(workers)?)
        .codec(codec.codec.clone());
    let iterator = objects.try_iter()?.unbind();
    if codec.codec.kind() == CodecKind::Image {
        let images = Objects { iterator, convert: image_of };
        py.detach(|| builder.build_images_streaming(&path, images)).raise()?;
    } else {
        let records = Objects { iterator, convert: record_of };
        py.detach(|| builder.build_streaming(&path, records)).raise()?;
    }
    Ok(())
}

fn record_of(object: &Bound<'_, PyAny>) -> PyResult<Record> {
    if object.is_instance_of::<PyBytes>() || object.is_instance_of::<PyByteArray>() {
        return Ok(Record::Backed(object.extract::<PyBackedBytes>()?));
    }
    Held::readable(object).map(Record::Held)
}

/// An image: memory in one piece, shape and type.
fn image_of(object: &Bound<'_, PyAny>) -> PyResult<Image> {
    let (samples, shape, dtype): (Bound<'_, PyAny>, (u32, u32, u32), String) = object.extract()?;
    let held = Held::readable(&samples)?;
    Ok(image_view(held.bytes(), shape, &dtype).raise()?.to_image())
}

/// The header of a file as JSON text.
#[pyfunction]
pub(crate) fn read_header_text(py: Python<'_>, path: PathBuf) -> PyResult<String> {
    let header = py.detach(|| iatrocache::read_header(&path)).raise()?;
    Ok(header.text().to_owned())
}

/// Configures the process-wide cache of headers.
#[pyfunction]
pub(crate) fn configure_cache(enabled: bool, max_entries: u64, max_bytes: u64) {
    let bound = |bound: u64| usize::try_from(bound).unwrap_or(usize::MAX);
    iatrocache::reader::configure_cache(iatrocache::reader::CacheConfig {
        enabled,
        max_entries: bound(max_entries),
        max_bytes: bound(max_bytes),
    });
}

/// Empties the process-wide cache of headers.
#[pyfunction]
pub(crate) fn clear_caches() {
    iatrocache::reader::clear_caches();
}
