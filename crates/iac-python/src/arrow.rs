//! Tables, handed over through the C data interface of Arrow (PyCapsules), in both directions.
#![allow(unsafe_code)] // a stream that another library made is behind a pointer

use arrow_array::ffi::FFI_ArrowSchema;
use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use arrow_array::{RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow_schema::SchemaRef;
use iatrocache::Table;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::errors::Raise;

/// A table that any library that knows Arrow can take over without a copy.
#[pyclass(frozen, module = "iatrocache._native")]
pub(crate) struct ArrowTable {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

impl ArrowTable {
    pub(crate) fn new(schema: SchemaRef, batches: Vec<RecordBatch>) -> Self {
        Self { schema, batches }
    }
}

#[pymethods]
impl ArrowTable {
    /// Rows of all batches together.
    #[getter]
    fn num_rows(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).fold(0, usize::saturating_add)
    }

    /// Number of columns.
    #[getter]
    fn num_columns(&self) -> usize {
        self.schema.fields().len()
    }

    /// Names of the columns in order.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    fn __len__(&self) -> usize {
        self.num_rows()
    }

    fn __repr__(&self) -> String {
        let fields: Vec<String> = self
            .schema
            .fields()
            .iter()
            .map(|field| format!("{}: {}", field.name(), field.data_type()))
            .collect();
        format!("<ArrowTable of {} rows ({})>", self.num_rows(), fields.join(", "))
    }

    /// The schema, as the Arrow PyCapsule interface has it.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(self.schema.as_ref())
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    /// The rows, as the Arrow PyCapsule interface has it; they are given as they are, whatever
    /// schema is asked for.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let batches = self.batches.clone().into_iter().map(Ok);
        let reader = RecordBatchIterator::new(batches, SchemaRef::clone(&self.schema));
        let stream = FFI_ArrowArrayStream::new(Box::new(reader));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }
}

/// Takes over a table of another library: anything with `__arrow_c_stream__`.
pub(crate) fn table(object: &Bound<'_, PyAny>, what: &str) -> PyResult<Table> {
    if let Ok(own) = object.cast::<ArrowTable>() {
        let own = own.get();
        return Table::new(SchemaRef::clone(&own.schema), own.batches.clone()).raise();
    }
    if !object.hasattr("__arrow_c_stream__")? {
        return Err(PyTypeError::new_err(format!(
            "{what} must be a table with `__arrow_c_stream__`, such as pyarrow.Table, not {}",
            object.get_type().name()?
        )));
    }
    let capsule = object.call_method0("__arrow_c_stream__")?;
    let capsule = capsule.cast::<PyCapsule>()?;
    let pointer = capsule.pointer_checked(Some(c"arrow_array_stream"))?;
    // SAFETY: a capsule of this name holds a stream of the C data interface, which is taken out of
    // it, so that nobody else releases it.
    let reader = unsafe { RecordBatchStreamReader::from_raw(pointer.as_ptr().cast()) }
        .map_err(|error| PyValueError::new_err(format!("{what}: {error}")))?;
    let schema = reader.schema();
    let mut batches = Vec::new();
    for batch in reader {
        batches.push(batch.map_err(|error| PyValueError::new_err(format!("{what}: {error}")))?);
    }
    Table::new(schema, batches).raise()
}
