//! Stores of n-dimensional arrays.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use iac_array::blocking::{ArrayStore, Snapshot};
use iac_array::{
    ArrayData, ArraySpec, Attr, CompactPolicy, DType, Location, NodeKind, Packing, StoreOptions,
};
use iatrocache::reader::object::{ObjectLocation, StoreOptions as RemoteOptions};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};

use crate::buffer::{Buffer, Held};
use crate::errors::{Fault, Raise};

/// A store of arrays, or one version of it.
#[pyclass(frozen, module = "iatrocache._native")]
pub(crate) struct Store {
    kind: Mutex<Option<Kind>>,
    /// Where it was opened.
    process: u32,
}

impl Drop for Store {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            // After a fork: the threads that would be waited for are not there.
            std::mem::forget(self.lock().take());
        }
    }
}

enum Kind {
    Current(Box<ArrayStore>),
    Pinned(Box<Snapshot>),
}

fn location(path: &str) -> Result<Location, Fault> {
    if ObjectLocation::is_url(path) {
        let (store, root) = ObjectLocation::parse(path, &RemoteOptions::default())?.store()?;
        return Ok(Location::object_store(store, root.as_ref()));
    }
    Ok(Location::folder(PathBuf::from(path))?)
}

impl Store {
    fn new_of(kind: Kind) -> Self {
        Self { kind: Mutex::new(Some(kind)), process: std::process::id() }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Kind>> {
        self.kind.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something with the current version, or the pinned one.
    fn reading<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&Kind) -> Result<T, Fault> + Send,
    ) -> PyResult<T> {
        py.detach(|| match self.lock().as_ref() {
            Some(kind) => work(kind),
            None => Err(Fault::state("the store is closed")),
        })
        .raise()
    }

    /// Does something that changes the store.
    fn writing<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut ArrayStore) -> Result<T, iac_array::ArrayError> + Send,
    ) -> PyResult<T> {
        py.detach(|| match self.lock().as_mut() {
            Some(Kind::Current(store)) => Ok(work(store)?),
            Some(Kind::Pinned(_)) => {
                Err(Fault::state("a version of a store that was pinned cannot be changed"))
            }
            None => Err(Fault::state("the store is closed")),
        })
        .raise()
    }
}

/// Elements on their way to NumPy: memory or list, shape, type, and where they are there unless all are.
fn data_parts<'py>(py: Python<'py>, data: &ArrayData) -> PyResult<Bound<'py, PyTuple>> {
    let shape = PyTuple::new(py, data.shape())?;
    let dtype = data.dtype().to_string();
    let elements = if let Some(bytes) = data.masked_bytes() {
        Bound::new(py, Buffer::owned(bytes.to_vec()))?.into_any()
    } else if *data.dtype() == DType::Utf8 {
        PyList::new(py, data.text_options().raise()?)?.into_any()
    } else {
        let values = data.binary_options().raise()?;
        PyList::new(py, values.iter().map(|value| value.map(|value| PyBytes::new(py, value))))?
            .into_any()
    };
    let mask = data.mask().map(|mask| Bound::new(py, Buffer::owned(mask.to_vec()))).transpose()?;
    (elements, shape, dtype, mask).into_pyobject(py)
}

fn attribute(value: &Bound<'_, PyAny>) -> PyResult<Attr> {
    if value.is_instance_of::<PyBool>() {
        return Ok(Attr::Bool(value.extract()?));
    }
    if value.is_instance_of::<PyInt>() {
        return Ok(match value.extract::<i64>() {
            Ok(number) => Attr::Int(number),
            Err(_) => Attr::UInt(value.extract()?),
        });
    }
    if value.is_instance_of::<PyFloat>() {
        return Ok(Attr::Float(value.extract()?));
    }
    if value.is_instance_of::<PyString>() {
        return Ok(Attr::Text(value.extract()?));
    }
    if value.is_instance_of::<PyBytes>() {
        return Ok(Attr::Bytes(value.extract()?));
    }
    if let Ok(numbers) = value.extract::<Vec<i64>>() {
        return Ok(Attr::Ints(numbers));
    }
    if let Ok(numbers) = value.extract::<Vec<f64>>() {
        return Ok(Attr::Floats(numbers));
    }
    if let Ok(texts) = value.extract::<Vec<String>>() {
        return Ok(Attr::Texts(texts));
    }
    Err(PyTypeError::new_err(
        "an attribute must be a bool, a number, text, bytes, or a list of numbers or texts",
    ))
}

fn attribute_object<'py>(py: Python<'py>, value: &Attr) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Attr::Bool(value) => PyBool::new(py, *value).to_owned().into_any(),
        Attr::Int(value) => value.into_pyobject(py)?.into_any(),
        Attr::UInt(value) => value.into_pyobject(py)?.into_any(),
        Attr::Float(value) => value.into_pyobject(py)?.into_any(),
        Attr::Text(value) => value.into_pyobject(py)?.into_any(),
        Attr::Bytes(value) => PyBytes::new(py, value).into_any(),
        Attr::Ints(values) => values.into_pyobject(py)?.into_any(),
        Attr::Floats(values) => values.into_pyobject(py)?.into_any(),
        Attr::Texts(values) => values.into_pyobject(py)?.into_any(),
        _ => return Err(Fault::value("an attribute of a type that is not known")).raise(),
    })
}

/// What is written: memory in one piece, or a list of texts or bytes; and where elements are there,
/// a byte of 0 or 1 for each, unless all are.
fn data(
    dtype: &str,
    shape: &[u64],
    elements: &Bound<'_, PyAny>,
    mask: Option<&Bound<'_, PyAny>>,
) -> PyResult<ArrayData> {
    let dtype: DType = dtype.parse().raise()?;
    let data = match dtype {
        DType::Utf8 => ArrayData::from_texts(shape, elements.extract::<Vec<String>>()?),
        DType::Binary => ArrayData::from_binary(shape, elements.extract::<Vec<Vec<u8>>>()?),
        dtype => {
            let held = Held::readable(elements)?;
            ArrayData::from_bytes(dtype, shape, held.bytes().to_vec())
        }
    }
    .raise()?;
    let Some(mask) = mask else { return Ok(data) };
    let mask = Held::readable(mask)?.bytes().iter().map(|there| *there != 0).collect();
    data.with_mask(mask).raise()
}

fn packing(codec: &str, level: i32) -> PyResult<Packing> {
    match codec {
        "none" => Ok(Packing::none()),
        "lz4" => Ok(Packing::lz4()),
        "zstd" => Packing::zstd(level).raise(),
        _ => Err(Fault::value("codec must be none, lz4 or zstd")).raise(),
    }
}

#[pymethods]
impl Store {
    /// Opens a store, or makes one.
    #[new]
    #[pyo3(signature = (path, create=false, codec="zstd", level=3))]
    fn new(py: Python<'_>, path: &str, create: bool, codec: &str, level: i32) -> PyResult<Self> {
        let options = StoreOptions::default().packing(packing(codec, level)?);
        let store = py
            .detach(|| -> Result<ArrayStore, Fault> {
                let location = location(path)?;
                Ok(if create {
                    ArrayStore::create(location, options)?
                } else {
                    ArrayStore::open(location, options)?
                })
            })
            .raise()?;
        Ok(Self::new_of(Kind::Current(Box::new(store))))
    }

    fn close(&self) {
        let kind = self.lock().take();
        if self.process != std::process::id() {
            std::mem::forget(kind);
        }
    }

    /// A version of the store that never changes; the current one unless another is named.
    #[pyo3(signature = (version=None))]
    fn at(&self, py: Python<'_>, version: Option<u64>) -> PyResult<Self> {
        let snapshot = self.reading(py, |kind| match (kind, version) {
            (Kind::Current(store), Some(version)) => Ok(store.open_at(version)?),
            (Kind::Current(store), None) => Ok(store.snapshot()),
            (Kind::Pinned(snapshot), None) => Ok(Snapshot::clone(snapshot)),
            (Kind::Pinned(_), Some(_)) => {
                Err(Fault::state("other versions are opened from the store itself"))
            }
        })?;
        Ok(Self::new_of(Kind::Pinned(Box::new(snapshot))))
    }

    #[getter]
    fn version(&self, py: Python<'_>) -> PyResult<u64> {
        self.reading(py, |kind| {
            Ok(match kind {
                Kind::Current(store) => store.snapshot().version(),
                Kind::Pinned(snapshot) => snapshot.version(),
            })
        })
    }

    fn history(&self, py: Python<'_>) -> PyResult<Vec<u64>> {
        self.reading(py, |kind| match kind {
            Kind::Current(store) => Ok(store.history()?),
            Kind::Pinned(snapshot) => Ok(vec![snapshot.version()]),
        })
    }

    fn refresh(&self, py: Python<'_>) -> PyResult<u64> {
        self.writing(py, ArrayStore::refresh)
    }

    fn discard(&self, py: Python<'_>) -> PyResult<()> {
        self.writing(py, |store| {
            store.discard();
            Ok(())
        })
    }

    /// Bytes of changes that were not published yet.
    #[getter]
    fn pending_bytes(&self, py: Python<'_>) -> PyResult<u64> {
        self.reading(py, |kind| {
            Ok(match kind {
                Kind::Current(store) => store.as_async().pending_bytes(),
                Kind::Pinned(_) => 0,
            })
        })
    }

    fn names(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        self.reading(py, |kind| {
            Ok(match kind {
                Kind::Current(store) => store.names(),
                Kind::Pinned(snapshot) => snapshot.as_async().names().map(str::to_owned).collect(),
            })
        })
    }

    /// Type, shape, chunks, names of dimensions and attributes of an array.
    fn meta<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyDict>> {
        let found = self.reading(py, |kind| {
            let meta = match kind {
                Kind::Current(store) => store.meta(name)?,
                Kind::Pinned(snapshot) => snapshot.meta(name)?,
            };
            Ok((
                meta.kind(),
                meta.dtype().to_string(),
                meta.shape().to_vec(),
                meta.chunks().to_vec(),
                meta.dims().to_vec(),
                meta.fill().map(<[u8]>::to_vec),
                meta.is_nullable(),
                meta.attrs().clone(),
            ))
        })?;
        let (kind, dtype, shape, chunks, dims, fill, nullable, attributes) = found;
        let dict = PyDict::new(py);
        let kind = match kind {
            NodeKind::Array => "array",
            NodeKind::Group => "group",
            _ => "store",
        };
        dict.set_item("kind", kind)?;
        dict.set_item("dtype", dtype)?;
        dict.set_item("shape", PyTuple::new(py, shape)?)?;
        dict.set_item("chunks", PyTuple::new(py, chunks)?)?;
        dict.set_item("dims", PyTuple::new(py, dims)?)?;
        dict.set_item("fill", fill.map(|fill| PyBytes::new(py, &fill)))?;
        dict.set_item("nullable", nullable)?;
        let attrs = PyDict::new(py);
        for (key, value) in &attributes {
            attrs.set_item(key, attribute_object(py, value)?)?;
        }
        dict.set_item("attrs", attrs)?;
        Ok(dict)
    }

    #[pyo3(signature = (name, dtype, shape, chunks=None, dims=None, fill=None, nullable=false))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    fn define(
        &self,
        py: Python<'_>,
        name: &str,
        dtype: &str,
        shape: Vec<u64>,
        chunks: Option<Vec<u64>>,
        dims: Option<Vec<String>>,
        fill: Option<&Bound<'_, PyAny>>,
        nullable: bool,
    ) -> PyResult<()> {
        let mut spec = ArraySpec::new(dtype.parse().raise()?, &shape);
        if let Some(chunks) = chunks {
            spec = spec.chunks(&chunks);
        }
        if let Some(dims) = &dims {
            let dims: Vec<&str> = dims.iter().map(String::as_str).collect();
            spec = spec.dims(&dims);
        }
        if let Some(fill) = fill {
            spec = spec.fill_data(data(dtype, &[], fill, None)?);
        }
        if nullable {
            spec = spec.nullable();
        }
        self.writing(py, |store| store.define(name, spec))
    }

    fn define_group(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        self.writing(py, |store| store.define_group(name))
    }

    #[pyo3(signature = (name, start, dtype, shape, elements, mask=None))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    fn write(
        &self,
        py: Python<'_>,
        name: &str,
        start: Vec<u64>,
        dtype: &str,
        shape: Vec<u64>,
        elements: &Bound<'_, PyAny>,
        mask: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let data = data(dtype, &shape, elements, mask)?;
        self.writing(py, |store| store.write(name, &start, data))
    }

    #[pyo3(signature = (name, axis, dtype, shape, elements, mask=None))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    fn append(
        &self,
        py: Python<'_>,
        name: &str,
        axis: usize,
        dtype: &str,
        shape: Vec<u64>,
        elements: &Bound<'_, PyAny>,
        mask: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let data = data(dtype, &shape, elements, mask)?;
        self.writing(py, |store| store.append(name, axis, data))
    }

    fn erase(&self, py: Python<'_>, name: &str, start: Vec<u64>, shape: Vec<u64>) -> PyResult<()> {
        self.writing(py, |store| store.erase(name, &start, &shape))
    }

    fn resize(&self, py: Python<'_>, name: &str, shape: Vec<u64>) -> PyResult<()> {
        self.writing(py, |store| store.resize(name, &shape))
    }

    fn delete(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        self.writing(py, |store| store.delete(name))
    }

    fn set_attr(
        &self,
        py: Python<'_>,
        name: &str,
        key: &str,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let value = attribute(value)?;
        self.writing(py, |store| store.set_attr(name, key, value))
    }

    fn remove_attr(&self, py: Python<'_>, name: &str, key: &str) -> PyResult<()> {
        self.writing(py, |store| store.remove_attr(name, key))
    }

    /// Publishes the changes and gives the version.
    fn flush(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.writing(py, ArrayStore::flush)?.version)
    }

    /// Joins layers.
    #[pyo3(signature = (everything=false))]
    fn compact(&self, py: Python<'_>, everything: bool) -> PyResult<u64> {
        let policy = if everything { CompactPolicy::All } else { CompactPolicy::Tiers };
        Ok(self.writing(py, |store| store.compact(policy))?.version)
    }

    /// A box of elements: where it begins, its counts, and the step along each axis.
    fn read<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        start: Vec<u64>,
        count: Vec<u64>,
        step: Option<Vec<u64>>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let data = self.reading(py, |kind| {
            Ok(match (kind, &step) {
                (Kind::Current(store), None) => store.read(name, &start, &count)?,
                (Kind::Current(store), Some(step)) => {
                    store.read_step(name, &start, &count, step)?
                }
                (Kind::Pinned(snapshot), None) => snapshot.read(name, &start, &count)?,
                (Kind::Pinned(snapshot), Some(step)) => {
                    snapshot.read_step(name, &start, &count, step)?
                }
            })
        })?;
        data_parts(py, &data)
    }

    /// A box of numbers into the caller's buffer.
    fn read_into(
        &self,
        py: Python<'_>,
        name: &str,
        start: Vec<u64>,
        count: Vec<u64>,
        out: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let mut held = Held::writable(out)?;
        self.reading(py, |kind| {
            let out = held.bytes_mut();
            match kind {
                Kind::Current(store) => store.read_into(name, &start, &count, out)?,
                Kind::Pinned(snapshot) => snapshot.read_into(name, &start, &count, out)?,
            }
            Ok(())
        })
    }
}
