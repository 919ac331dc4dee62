//! Packs of rows of numbers.

use std::sync::{PoisonError, RwLock};

use iatrocache::FixedRecordPack;
use pyo3::prelude::*;

use crate::buffer::{Buffer, Held};
use crate::errors::{Fault, Raise};
use crate::reader::Reader;
use crate::rows::{self, Negative};

/// The rows of a fixed pack.
#[pyclass(frozen, module = "iatrocache._native")]
pub(crate) struct FixedRows {
    pack: RwLock<Option<FixedRecordPack>>,
}

impl FixedRows {
    fn pack(&self) -> PyResult<FixedRecordPack> {
        let pack = self.pack.read().unwrap_or_else(PoisonError::into_inner);
        pack.clone().ok_or_else(|| Fault::state("the pack is closed")).raise()
    }

    /// Row numbers; the specification makes one that does not exist a `ValueError` here.
    fn rows(pack: &FixedRecordPack, numbers: &Bound<'_, PyAny>) -> PyResult<Vec<u64>> {
        let py = numbers.py();
        rows::rows(numbers, || Ok(pack.record_count()), Negative::Refused)
            .map_err(|error| outside(py, error))
    }
}

/// Rows outside of a fixed pack are spans outside of its data.
fn outside(py: Python<'_>, error: PyErr) -> PyErr {
    let out_of_range = error.is_instance_of::<pyo3::exceptions::PyIndexError>(py);
    let too_large = error.is_instance_of::<pyo3::exceptions::PyOverflowError>(py);
    if out_of_range || too_large { Fault::value(error.value(py)).into() } else { error }
}

#[pymethods]
impl FixedRows {
    #[new]
    fn new(py: Python<'_>, reader: &Reader) -> PyResult<Self> {
        let pack = reader.pack()?;
        let pack = py.detach(|| FixedRecordPack::from_reader(pack)).raise()?;
        Ok(Self { pack: RwLock::new(Some(pack)) })
    }

    fn close(&self) {
        *self.pack.write().unwrap_or_else(PoisonError::into_inner) = None;
    }

    #[getter]
    fn record_count(&self) -> PyResult<u64> {
        Ok(self.pack()?.record_count())
    }

    /// Elements of a row.
    #[getter]
    fn dim(&self) -> PyResult<usize> {
        Ok(self.pack()?.dim())
    }

    /// Name of the elements' type, as NumPy has it.
    #[getter]
    fn dtype(&self) -> PyResult<&'static str> {
        Ok(self.pack()?.element().name())
    }

    /// Rows in the storage type, one after the other.
    fn read_matrix<'py>(
        &self,
        py: Python<'py>,
        rows: &Bound<'py, PyAny>,
    ) -> PyResult<(Bound<'py, Buffer>, usize)> {
        let pack = self.pack()?;
        if pack.row_bytes() == 0 {
            return Err(Fault::value("rows of a pack without elements make no matrix")).raise();
        }
        let rows = Self::rows(&pack, rows)?;
        let matrix = py.detach(|| pack.read_matrix(&rows)).raise()?;
        Ok((Bound::new(py, Buffer::owned(matrix.into_bytes()))?, rows.len()))
    }

    /// Rows in the storage type, into the caller's buffer.
    fn read_matrix_into(
        &self,
        py: Python<'_>,
        rows: &Bound<'_, PyAny>,
        out: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let pack = self.pack()?;
        let rows = Self::rows(&pack, rows)?;
        let mut held = Held::writable(out)?;
        py.detach(|| pack.read_matrix_into(&rows, held.bytes_mut())).raise()
    }

    /// One row in the storage type.
    fn read<'py>(&self, py: Python<'py>, row: &Bound<'py, PyAny>) -> PyResult<Bound<'py, Buffer>> {
        let pack = self.pack()?;
        let row = rows::row(row, || Ok(pack.record_count()), Negative::Refused)
            .map_err(|error| outside(py, error))?;
        let bytes = py.detach(|| pack.read(row)).raise()?;
        Bound::new(py, Buffer::shared(bytes))
    }

    /// Rows converted to 32-bit floats, one after the other.
    fn read_f32<'py>(
        &self,
        py: Python<'py>,
        rows: &Bound<'py, PyAny>,
    ) -> PyResult<(Bound<'py, Buffer>, usize)> {
        let pack = self.pack()?;
        let rows = Self::rows(&pack, rows)?;
        let numbers = py.detach(|| pack.read_many_f32(&rows)).raise()?;
        Ok((Bound::new(py, Buffer::owned(numbers))?, rows.len()))
    }

    /// All rows where they lie in the mapped file, never compared with checksums.
    fn view<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, Buffer>> {
        let pack = self.pack()?;
        if pack.shape().big_endian {
            return Err(Fault::state("rows of the other byte order cannot be viewed")).raise();
        }
        let length = pack.reader().layout().data.length;
        let bytes = py.detach(|| pack.reader().data_view(0, length)).raise()?;
        Bound::new(py, Buffer::shared(bytes))
    }
}
