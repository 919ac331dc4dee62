//! Codecs that are built in.

use std::num::NonZeroUsize;

use iatrocache::codec::{CodecKind, half::f16};
use iatrocache::{
    Codec, CodecSpec, DecodeOptions, ImageShape, ImageView, Limits, Registry, SamplesRef,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyList, PyTuple};

use crate::buffer::Held;
use crate::errors::{Fault, Raise};
use crate::reader::{image_parts, scale_of};
use crate::rows;

/// A codec of the format.
#[pyclass(frozen, module = "iatrocache._native")]
pub(crate) struct NativeCodec {
    pub(crate) codec: Codec,
}

/// The members of a JSON object.
pub(crate) fn members(
    text: &str,
    what: &str,
) -> PyResult<serde_json::Map<String, serde_json::Value>> {
    serde_json::from_str(text).map_err(|error| {
        PyValueError::new_err(format!("{what} cannot be written as JSON: {error}"))
    })
}

fn all_cores() -> NonZeroUsize {
    std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

/// An image of the caller's, as codecs take it.
pub(crate) fn image_view<'a>(
    bytes: &'a [u8],
    (height, width, channels): (u32, u32, u32),
    dtype: &str,
) -> Result<ImageView<'a>, Fault> {
    fn cast<'a, T: bytemuck::AnyBitPattern>(
        bytes: &'a [u8],
        dtype: &str,
    ) -> Result<&'a [T], Fault> {
        bytemuck::try_cast_slice(bytes)
            .map_err(|error| Fault::value(format!("the samples are not of type {dtype}: {error}")))
    }
    let samples: SamplesRef<'a> = match dtype {
        "uint8" => bytes.into(),
        "uint16" => cast::<u16>(bytes, dtype)?.into(),
        "int16" => cast::<i16>(bytes, dtype)?.into(),
        "float16" => cast::<f16>(bytes, dtype)?.into(),
        "float32" => cast::<f32>(bytes, dtype)?.into(),
        _ => {
            return Err(Fault::value(format!(
                "images must have samples of type uint8, uint16, int16, float16 or float32, not {dtype}"
            )));
        }
    };
    Ok(ImageView::new(ImageShape::new(height, width, channels)?, samples)?)
}

#[pymethods]
impl NativeCodec {
    #[new]
    fn new(name: &str, parameters: &str) -> PyResult<Self> {
        let spec = CodecSpec::new(name, members(parameters, "parameters")?);
        Ok(Self { codec: Registry::builtin().create(&spec).raise()? })
    }

    #[getter]
    fn name(&self) -> &str {
        self.codec.name()
    }

    /// The parameters as JSON text.
    #[getter]
    fn parameters_text(&self) -> String {
        serde_json::Value::Object(self.codec.parameters()).to_string()
    }

    /// Whether records are images.
    #[getter]
    fn is_image(&self) -> bool {
        self.codec.kind() == CodecKind::Image
    }

    /// Encodes a record of bytes: any object that has its bytes in one piece.
    fn encode<'py>(
        &self,
        py: Python<'py>,
        record: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let held = Held::readable(record)?;
        let payload = py.detach(|| self.codec.encode_bytes(held.bytes())).raise()?;
        Ok(PyBytes::new(py, &payload))
    }

    /// Encodes an image: memory in one piece, shape and type.
    fn encode_image<'py>(
        &self,
        py: Python<'py>,
        samples: &Bound<'py, PyAny>,
        shape: (u32, u32, u32),
        dtype: &str,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let held = Held::readable(samples)?;
        let payload = py
            .detach(|| -> Result<Vec<u8>, Fault> {
                let image = image_view(held.bytes(), shape, dtype)?;
                Ok(self.codec.encode_image(&image)?)
            })
            .raise()?;
        Ok(PyBytes::new(py, &payload))
    }

    /// Decodes a record of bytes.
    fn decode<'py>(
        &self,
        py: Python<'py>,
        payload: PyBackedBytes,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let record = py.detach(|| self.codec.decode_bytes(&payload, &Limits::default())).raise()?;
        Ok(PyBytes::new(py, &record))
    }

    /// Decodes an image: memory, shape and type.
    #[pyo3(signature = (payload, scale=1))]
    fn decode_image<'py>(
        &self,
        py: Python<'py>,
        payload: PyBackedBytes,
        scale: u32,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let options = DecodeOptions::default().with_scale(scale_of(scale)?);
        let image = py.detach(|| self.codec.decode_image(&payload, &options)).raise()?;
        image_parts(py, image)
    }

    /// Decodes many records of bytes on several threads, in order.
    #[pyo3(signature = (payloads, workers=None))]
    fn decode_many<'py>(
        &self,
        py: Python<'py>,
        payloads: Vec<PyBackedBytes>,
        workers: Option<usize>,
    ) -> PyResult<Bound<'py, PyList>> {
        let workers = rows::workers(workers)?.unwrap_or_else(all_cores);
        let records = py
            .detach(|| {
                parallel(&payloads, workers, |payload| {
                    self.codec.decode_bytes(payload, &Limits::default())
                })
            })
            .raise()?;
        PyList::new(py, records.iter().map(|record| PyBytes::new(py, record)))
    }

    /// Decodes many images on several threads, in order: memory, shape and type of each.
    #[pyo3(signature = (payloads, workers=None, scale=1))]
    fn decode_images<'py>(
        &self,
        py: Python<'py>,
        payloads: Vec<PyBackedBytes>,
        workers: Option<usize>,
        scale: u32,
    ) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        let workers = rows::workers(workers)?.unwrap_or_else(all_cores);
        let options = DecodeOptions::default().with_scale(scale_of(scale)?);
        let images =
            py.detach(|| self.codec.decode_images(&payloads, &options, workers)).raise()?;
        images.into_iter().map(|image| image_parts(py, image)).collect()
    }

    fn __repr__(&self) -> String {
        format!("<codec {} {}>", self.name(), self.parameters_text())
    }
}

/// Does the same to each item on a few threads; results keep the order, and the first error in it
/// is the one that counts.
fn parallel<T: Sync, R: Send, E: Send>(
    items: &[T],
    workers: NonZeroUsize,
    work: impl Fn(&T) -> Result<R, E> + Sync,
) -> Result<Vec<R>, E> {
    let workers = workers.get().min(items.len()).min(all_cores().get());
    if workers < 2 {
        return items.iter().map(work).collect();
    }
    let share = items.len().div_ceil(workers);
    let work = &work;
    let parts: Vec<Result<Vec<R>, E>> = std::thread::scope(|scope| {
        let threads: Vec<_> = items
            .chunks(share.max(1))
            .map(|part| scope.spawn(move || part.iter().map(work).collect::<Result<Vec<R>, E>>()))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    let mut all = Vec::with_capacity(items.len());
    for part in parts {
        all.extend(part?);
    }
    Ok(all)
}
