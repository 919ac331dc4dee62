//! Memory that is handed to Python without a copy, and memory of Python's that is read or written.
#![allow(unsafe_code)] // the buffer protocol is made of pointers

use std::any::Any;
use std::ffi::c_int;
use std::ptr::NonNull;

use bytes::Bytes;
use iatrocache::{Samples, SamplesMut};
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyMemoryView;

use crate::errors::{Fault, Raise};

/// Memory of this module that Python reads, and writes where nobody else looks at it.
///
/// `memoryview(buffer)` and `numpy.frombuffer(buffer, dtype)` share it.
#[pyclass(frozen, module = "iatrocache._native")]
pub(crate) struct Buffer {
    start: NonNull<u8>,
    bytes: usize,
    writable: bool,
    /// Keeps the memory where it is.
    _owner: Box<dyn Any + Send + Sync>,
}

// SAFETY: the memory belongs to `_owner`, which may be sent and shared, and Rust code never looks
// at it through `start`. Threads of Python that write to it at the same time are Python's affair,
// as they are with a `bytearray`.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// Hands over numbers.
    pub(crate) fn owned<T: bytemuck::NoUninit + Send + Sync>(mut numbers: Vec<T>) -> Self {
        let bytes = size_of_val(numbers.as_slice());
        // A vector's pointer is never null, and the elements stay where they are when it moves.
        let start = NonNull::new(numbers.as_mut_ptr().cast()).unwrap_or(NonNull::dangling());
        Self { start, bytes, writable: true, _owner: Box::new(numbers) }
    }

    /// The same memory, never to be written.
    pub(crate) fn read_only(mut self) -> Self {
        self.writable = false;
        self
    }

    /// Shares bytes, which are never written.
    pub(crate) fn shared(bytes: Bytes) -> Self {
        let start = NonNull::new(bytes.as_ptr().cast_mut()).unwrap_or(NonNull::dangling());
        Self { start, bytes: bytes.len(), writable: false, _owner: Box::new(bytes) }
    }

    /// Samples of images, with the name of their type.
    pub(crate) fn of_samples(samples: Samples) -> PyResult<(Self, &'static str)> {
        let name = samples.as_ref().sample_type().name();
        Ok((
            match samples {
                Samples::U8(samples) => Self::owned(samples),
                Samples::U16(samples) => Self::owned(samples),
                Samples::I16(samples) => Self::owned(samples),
                Samples::F16(samples) => Self::owned(samples),
                Samples::F32(samples) => Self::owned(samples),
                _ => return Err(Fault::value("samples of a type that is not known")).raise(),
            },
            name,
        ))
    }

    /// A `memoryview` of it.
    pub(crate) fn into_view(self, py: Python<'_>) -> PyResult<Bound<'_, PyMemoryView>> {
        PyMemoryView::from(Bound::new(py, self)?.as_any())
    }
}

#[pymethods]
impl Buffer {
    fn __len__(&self) -> usize {
        self.bytes
    }

    /// # Safety
    ///
    /// Called by the interpreter with a view to be filled.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let this = slf.get();
        let length = isize::try_from(this.bytes)
            .map_err(|_| PyBufferError::new_err("the buffer is too large"))?;
        // SAFETY: `view` is what the interpreter gave; `start` and `length` describe memory that
        // lives as long as the object, of which the view holds a reference from here on.
        let filled = unsafe {
            ffi::PyBuffer_FillInfo(
                view,
                slf.as_ptr(),
                this.start.as_ptr().cast(),
                length,
                c_int::from(!this.writable),
                flags,
            )
        };
        if filled == 0 { Ok(()) } else { Err(PyErr::fetch(slf.py())) }
    }
}

/// Memory of a Python object, held for as long as this lives.
pub(crate) struct Held {
    view: Box<ffi::Py_buffer>,
}

// SAFETY: the view is a plain description of memory that the object keeps in place until the view
// is released, on whatever thread.
unsafe impl Send for Held {}
// SAFETY: as above; nothing here changes without `&mut`.
unsafe impl Sync for Held {}

impl Held {
    fn of(object: &Bound<'_, PyAny>, flags: c_int) -> PyResult<Self> {
        let mut view = Box::new(ffi::Py_buffer::new());
        // SAFETY: the object is alive, and the view is ours to be filled.
        if unsafe { ffi::PyObject_GetBuffer(object.as_ptr(), &raw mut *view, flags) } == 0 {
            Ok(Self { view })
        } else {
            Err(PyErr::fetch(object.py()))
        }
    }

    /// The bytes of an object that has them in one piece.
    pub(crate) fn readable(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        Self::of(object, ffi::PyBUF_SIMPLE)
    }

    /// The bytes of an object that has them in one piece, to be written.
    pub(crate) fn writable(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        Self::of(object, ffi::PyBUF_WRITABLE)
    }

    fn length(&self) -> usize {
        if self.view.buf.is_null() { 0 } else { usize::try_from(self.view.len).unwrap_or(0) }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        if self.length() == 0 {
            return &[];
        }
        // SAFETY: the exporter promises `len` bytes at `buf` until the view is released. A program
        // that writes to them from another thread meanwhile gets mixed bytes, as it does when it
        // does that to any other reader of a buffer.
        unsafe { std::slice::from_raw_parts(self.view.buf.cast(), self.length()) }
    }

    /// The bytes, to be written. Only for views that were asked for with
    /// [`writable`](Self::writable): others have none.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        if self.length() == 0 || self.view.readonly != 0 {
            return &mut [];
        }
        // SAFETY: as above; the exporter also promised that it may be written.
        unsafe { std::slice::from_raw_parts_mut(self.view.buf.cast(), self.length()) }
    }

    /// The bytes as samples of a type, to be written.
    pub(crate) fn samples_mut(&mut self, name: &str) -> Result<SamplesMut<'_>, Fault> {
        fn cast<'a, T: bytemuck::Pod>(
            bytes: &'a mut [u8],
            name: &str,
        ) -> Result<&'a mut [T], Fault> {
            numbers_mut(bytes).map_err(|error| {
                Fault::value(format!("the buffer cannot hold samples of type {name}: {error}"))
            })
        }
        let bytes = self.bytes_mut();
        Ok(match name {
            "uint8" => SamplesMut::U8(bytes),
            "uint16" => SamplesMut::U16(cast(bytes, name)?),
            "int16" => SamplesMut::I16(cast(bytes, name)?),
            "float16" => SamplesMut::F16(cast(bytes, name)?),
            "float32" => SamplesMut::F32(cast(bytes, name)?),
            _ => return Err(Fault::value(format!("samples cannot be of type {name}"))),
        })
    }
}

/// Bytes as numbers, to be written; none are numbers of any type.
pub(crate) fn numbers_mut<T: bytemuck::Pod>(
    bytes: &mut [u8],
) -> Result<&mut [T], bytemuck::PodCastError> {
    if bytes.is_empty() {
        // Where nothing is, nothing is aligned.
        return Ok(&mut []);
    }
    bytemuck::try_cast_slice_mut(bytes)
}

impl Drop for Held {
    fn drop(&mut self) {
        Python::attach(|_| {
            // SAFETY: the view was filled by the interpreter and is released once, attached to it.
            unsafe { ffi::PyBuffer_Release(&raw mut *self.view) }
        });
    }
}
