//! Open packs.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use bytes::Bytes;
use iatrocache::codec::CodecKind;
use iatrocache::reader::ContiguousRecordBatch;
use iatrocache::{
    DecodeOptions, Image, ImageShape, Limits, PackReader, ReadError, ReadOptions, RecordOptions,
    Scale, SourceKind, VariableRecordPack, VerifyOptions,
};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyMemoryView, PyTuple};

use crate::arrow::ArrowTable;
use crate::buffer::{Buffer, Held};
use crate::errors::{Fault, Raise};
use crate::fresh;
use crate::rows::{self, Negative};

/// An open pack. Closing it releases the file, unless views of it are still in use.
#[pyclass(subclass, frozen, module = "iatrocache._native")]
pub(crate) struct Reader {
    open: RwLock<Option<Arc<Open>>>,
    /// Memory of batches that were turned into objects, to be filled again.
    spare: Mutex<Option<ContiguousRecordBatch>>,
    limits: Limits,
    check_crc: bool,
    /// Rows of the index table, once they are known.
    count: OnceLock<u64>,
}

struct Open {
    pack: PackReader,
    records: VariableRecordPack,
    /// The data segment, where the file is mapped; kept once it was asked for.
    mapped: OnceLock<Option<Bytes>>,
}

impl Open {
    /// The data segment, where the file is mapped.
    fn mapped(&self) -> Result<Option<&Bytes>, ReadError> {
        if let Some(mapped) = self.mapped.get() {
            return Ok(mapped.as_ref());
        }
        let mapped = match self.pack.data_view(0, self.pack.layout().data.length) {
            Ok(data) => Some(data),
            Err(ReadError::NoViews { .. }) => None,
            Err(error) => return Err(error),
        };
        Ok(self.mapped.get_or_init(|| mapped).as_ref())
    }
}

/// Memory that is kept for the next batch.
const SPARE_BYTES: usize = 8 << 20;

/// An image on its way to NumPy: memory, shape, name of the type.
pub(crate) fn image_parts<'py>(py: Python<'py>, image: Image) -> PyResult<Bound<'py, PyTuple>> {
    let shape = image.shape();
    let dimensions = shape.dimensions();
    let (buffer, name) = Buffer::of_samples(image.into_samples())?;
    (Bound::new(py, buffer)?, PyTuple::new(py, dimensions)?, name).into_pyobject(py)
}

pub(crate) fn scale_of(denominator: u32) -> PyResult<Scale> {
    Scale::from_denominator(denominator)
        .ok_or_else(|| {
            Fault::value(format!("scale must be 1, 2, 4, 8, 16 or 32, found {denominator}"))
        })
        .raise()
}

impl Reader {
    fn open(&self) -> PyResult<Arc<Open>> {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        open.clone().ok_or_else(|| Fault::state("the pack is closed")).raise()
    }

    pub(crate) fn pack(&self) -> PyResult<PackReader> {
        Ok(self.open()?.pack.clone())
    }

    fn records(&self, workers: Option<usize>) -> PyResult<VariableRecordPack> {
        let open = self.open()?;
        Ok(match rows::workers(workers)? {
            None => open.records.clone(),
            workers => open.records.with_workers(workers),
        })
    }

    /// The stored bytes of a row.
    fn stored<'py>(&self, py: Python<'py>, open: &Open, row: u64) -> PyResult<Bound<'py, PyBytes>> {
        if let Some(data) = open.mapped().raise()? {
            return fresh::record(py, &open.pack, data, row, self.check_crc);
        }
        let record = py.detach(|| open.pack.read(row)).raise()?;
        Ok(PyBytes::new(py, &record))
    }

    fn scaled(&self, workers: Option<usize>, scale: u32) -> PyResult<VariableRecordPack> {
        let records = self.records(workers)?;
        if scale == 1 {
            return Ok(records);
        }
        let images = DecodeOptions::default().with_limits(self.limits);
        Ok(records.with_images(images.with_scale(scale_of(scale)?)))
    }

    /// Rows of the index table.
    fn count(&self, py: Python<'_>, pack: &PackReader) -> PyResult<u64> {
        if let Some(count) = self.count.get() {
            return Ok(*count);
        }
        let count = py.detach(|| pack.num_records()).raise()?;
        Ok(*self.count.get_or_init(|| count))
    }

    /// Row numbers that count from the end where they are negative.
    fn rows(&self, numbers: &Bound<'_, PyAny>, pack: &PackReader) -> PyResult<Vec<u64>> {
        let py = numbers.py();
        rows::rows(numbers, || self.count(py, pack), Negative::FromEnd)
    }

    fn row(&self, number: &Bound<'_, PyAny>, pack: &PackReader) -> PyResult<u64> {
        let py = number.py();
        rows::row(number, || self.count(py, pack), Negative::FromEnd)
    }

    fn spare(&self) -> ContiguousRecordBatch {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or_default()
    }

    /// The records of a batch as objects; its memory is kept.
    fn objects<'py>(
        &self,
        py: Python<'py>,
        batch: ContiguousRecordBatch,
    ) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::new(
            py,
            Records { batch: &batch, next: 0 }.map(|record| PyBytes::new(py, record)),
        )?;
        if batch.buffer().len() <= SPARE_BYTES {
            *self.spare.lock().unwrap_or_else(PoisonError::into_inner) = Some(batch);
        }
        Ok(list)
    }
}

/// The records of a batch, with their number known.
struct Records<'a> {
    batch: &'a ContiguousRecordBatch,
    next: usize,
}

impl<'a> Iterator for Records<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let record = self.batch.get(self.next)?;
        self.next = self.next.saturating_add(1);
        Some(record)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.batch.len().saturating_sub(self.next);
        (left, Some(left))
    }
}

impl ExactSizeIterator for Records<'_> {}

fn parts_of_batch<'py>(
    py: Python<'py>,
    batch: ContiguousRecordBatch,
) -> PyResult<(Bound<'py, Buffer>, Bound<'py, Buffer>)> {
    let (bytes, offsets) = batch.into_shared();
    Ok((
        Bound::new(py, Buffer::shared(bytes))?,
        Bound::new(py, Buffer::owned(offsets).read_only())?,
    ))
}

#[pymethods]
impl Reader {
    #[new]
    #[pyo3(signature = (path, *, check_crc=true, mapped=true, workers=None, header_cache=true, object_cache=0, unlimited=false))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        check_crc: bool,
        mapped: bool,
        workers: Option<usize>,
        header_cache: bool,
        object_cache: u64,
        unlimited: bool,
    ) -> PyResult<Self> {
        let source = if mapped { SourceKind::Mapped } else { SourceKind::Positional };
        let options = ReadOptions::default()
            .check_crc(check_crc)
            .source(source)
            .use_header_cache(header_cache)
            .object_cache(object_cache)
            .workers(rows::workers(workers)?);
        let pack = py.detach(|| PackReader::open_with(&path, &options)).raise()?;
        let limits = if unlimited { Limits::unlimited() } else { Limits::default() };
        let records = VariableRecordPack::from_reader_with(
            pack.clone(),
            RecordOptions::default().limits(limits),
        );
        Ok(Self {
            open: RwLock::new(Some(Arc::new(Open { pack, records, mapped: OnceLock::new() }))),
            spare: Mutex::default(),
            limits,
            check_crc,
            count: OnceLock::new(),
        })
    }

    /// Releases the file. Closing twice is harmless; reading afterwards is a `RuntimeError`.
    fn close(&self) {
        *self.open.write().unwrap_or_else(PoisonError::into_inner) = None;
        *self.spare.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Whether the pack was closed.
    #[getter]
    fn closed(&self) -> bool {
        self.open.read().unwrap_or_else(PoisonError::into_inner).is_none()
    }

    /// The header as JSON text.
    #[getter]
    fn header_text(&self) -> PyResult<String> {
        Ok(self.pack()?.header().text().to_owned())
    }

    /// `variable`, `fixed` or `segment`.
    #[getter]
    fn kind(&self, py: Python<'_>) -> PyResult<&'static str> {
        let pack = self.pack()?;
        Ok(py.detach(|| pack.kind()).raise()?.as_str())
    }

    /// Rows of the index table.
    #[getter]
    fn num_records(&self, py: Python<'_>) -> PyResult<u64> {
        let pack = self.pack()?;
        py.detach(|| pack.num_records()).raise()
    }

    /// Bytes of the file, with what may have been appended to the pack.
    #[getter]
    fn file_bytes(&self) -> PyResult<u64> {
        Ok(self.pack()?.file_bytes())
    }

    /// Whether records can be viewed where they lie in memory.
    #[getter]
    fn mmap_enabled(&self, py: Python<'_>) -> PyResult<bool> {
        let pack = self.pack()?;
        Ok(py.detach(|| pack.data_view(0, 0)).is_ok())
    }

    /// The slide table, for any library that knows the Arrow PyCapsule interface.
    #[getter]
    fn slide_arrow(&self, py: Python<'_>) -> PyResult<ArrowTable> {
        let pack = self.pack()?;
        py.detach(|| {
            let table = pack.slide_table()?;
            Ok(ArrowTable::new(table.schema().clone(), table.batches()?.to_vec()))
        })
        .map_err(|error: ReadError| error)
        .raise()
    }

    /// The index table, for any library that knows the Arrow PyCapsule interface.
    #[getter]
    fn index_arrow(&self, py: Python<'_>) -> PyResult<ArrowTable> {
        let pack = self.pack()?;
        py.detach(|| {
            let table = pack.index_table()?;
            Ok(ArrowTable::new(table.schema().clone(), table.batches()?.to_vec()))
        })
        .map_err(|error: ReadError| error)
        .raise()
    }

    /// Some columns of the index table; nothing else of it is decoded.
    fn index_columns(&self, py: Python<'_>, names: Vec<String>) -> PyResult<ArrowTable> {
        let pack = self.pack()?;
        py.detach(|| {
            let table = pack.index_table()?;
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let batches = table.columns(&names)?;
            let fields: Vec<_> = names
                .iter()
                .filter_map(|name| table.schema().field_with_name(name).ok().cloned())
                .collect();
            let schema = match batches.first() {
                Some(batch) => batch.schema(),
                None => Arc::new(arrow_schema::Schema::new(fields)),
            };
            Ok(ArrowTable::new(schema, batches))
        })
        .map_err(|error: ReadError| error)
        .raise()
    }

    /// One record's stored bytes, compared with their checksum.
    fn read_payload<'py>(
        &self,
        py: Python<'py>,
        row: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let open = self.open()?;
        let row = self.row(row, &open.pack)?;
        self.stored(py, &open, row)
    }

    /// Many records' stored bytes, in the order asked for.
    fn read_payloads<'py>(
        &self,
        py: Python<'py>,
        rows: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyList>> {
        let open = self.open()?;
        let rows = self.rows(rows, &open.pack)?;
        if let Some(data) = py.detach(|| open.mapped()).raise()? {
            return fresh::records(py, &open.pack, data, &rows, self.check_crc);
        }
        let mut batch = self.spare();
        py.detach(|| open.pack.read_contiguous_into(&rows, &mut batch)).raise()?;
        self.objects(py, batch)
    }

    /// Many records' stored bytes in one buffer, and where each begins.
    fn read_payloads_contiguous<'py>(
        &self,
        py: Python<'py>,
        rows: &Bound<'py, PyAny>,
    ) -> PyResult<(Bound<'py, Buffer>, Bound<'py, Buffer>)> {
        let pack = self.pack()?;
        let rows = self.rows(rows, &pack)?;
        parts_of_batch(py, py.detach(|| pack.read_contiguous(&rows)).raise()?)
    }

    /// Views of the mapped file, never compared with checksums. They stay valid when the pack is
    /// closed.
    fn read_payload_views<'py>(
        &self,
        py: Python<'py>,
        rows: &Bound<'py, PyAny>,
    ) -> PyResult<Vec<Bound<'py, PyMemoryView>>> {
        let pack = self.pack()?;
        if py.detach(|| pack.record_index()).raise()?.is_none() {
            return Err(Fault::from(iatrocache::FormatError::NoRecordIndex)).raise();
        }
        let rows = self.rows(rows, &pack)?;
        let views = py.detach(|| pack.views(&rows)).raise()?;
        views.into_iter().map(|view| Buffer::shared(view).into_view(py)).collect()
    }

    /// A span of the data segment.
    fn read_data_span<'py>(
        &self,
        py: Python<'py>,
        offset: &Bound<'py, PyAny>,
        length: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let pack = self.pack()?;
        let (offset, length) = rows::span(offset, length)?;
        let bytes = py.detach(|| pack.read_data_span(offset, length)).raise()?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Spans of the data segment, joined in the order given.
    fn read_data_spans<'py>(
        &self,
        py: Python<'py>,
        spans: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let pack = self.pack()?;
        let mut pairs = Vec::new();
        for pair in spans.try_iter()? {
            let (offset, length): (Bound<'_, PyAny>, Bound<'_, PyAny>) = pair?.extract()?;
            pairs.push(rows::span(&offset, &length)?);
        }
        let bytes = py.detach(|| pack.read_data_spans(&pairs)).raise()?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Tells the system which rows will be read soon.
    fn prefetch(&self, py: Python<'_>, rows: &Bound<'_, PyAny>) -> PyResult<()> {
        let pack = self.pack()?;
        let rows = self.rows(rows, &pack)?;
        py.detach(|| pack.prefetch(&rows)).raise()
    }

    /// Compares everything with its checksum and rule; a dict of what was found.
    #[pyo3(signature = (*, sample=None, max_faults=100, workers=None))]
    fn verify<'py>(
        &self,
        py: Python<'py>,
        sample: Option<u64>,
        max_faults: usize,
        workers: Option<usize>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let pack = self.pack()?;
        let options = VerifyOptions::default()
            .sample(sample)
            .max_faults(max_faults)
            .workers(rows::workers(workers)?);
        let report = py.detach(|| pack.verify(&options));
        let found = PyDict::new(py);
        found.set_item("sound", report.is_sound())?;
        found.set_item("rows", report.rows)?;
        found.set_item("rows_compared", report.rows_compared)?;
        found.set_item("total_faults", report.total_faults)?;
        found.set_item("notes", &report.notes)?;
        let faults = PyList::empty(py);
        for fault in &report.faults {
            let one = PyDict::new(py);
            one.set_item("check", fault.check)?;
            one.set_item("kind", fault.kind.as_str())?;
            one.set_item("row", fault.row)?;
            one.set_item("field", fault.field.as_deref())?;
            one.set_item("message", &fault.message)?;
            faults.append(one)?;
        }
        found.set_item("faults", faults)?;
        Ok(found)
    }

    /// Whether records are `bytes` or `image`, as the header's codec has it. A codec that is not
    /// built in gives its name back as an error.
    fn record_kind(&self) -> PyResult<&'static str> {
        let open = self.open()?;
        Ok(match open.records.codec().raise()?.kind() {
            CodecKind::Image => "image",
            _ => "bytes",
        })
    }

    /// Reads and decodes a record of bytes.
    fn read_record<'py>(
        &self,
        py: Python<'py>,
        row: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let open = self.open()?;
        let row = self.row(row, &open.pack)?;
        if open.records.codec().raise()?.is_identity() {
            return self.stored(py, &open, row);
        }
        let record = py.detach(|| open.records.read(row)).raise()?;
        Ok(PyBytes::new(py, &record))
    }

    /// Reads and decodes many records of bytes, in the order asked for.
    #[pyo3(signature = (rows, workers=None))]
    fn read_records<'py>(
        &self,
        py: Python<'py>,
        rows: &Bound<'py, PyAny>,
        workers: Option<usize>,
    ) -> PyResult<Bound<'py, PyList>> {
        let open = self.open()?;
        let workers = rows::workers(workers)?;
        let rows = self.rows(rows, &open.pack)?;
        if open.records.codec().raise()?.is_identity()
            && let Some(data) = py.detach(|| open.mapped()).raise()?
        {
            return fresh::records(py, &open.pack, data, &rows, self.check_crc);
        }
        let records = match workers {
            None => open.records.clone(),
            workers => open.records.with_workers(workers),
        };
        let mut batch = self.spare();
        py.detach(|| records.read_many_contiguous_into(&rows, &mut batch)).raise()?;
        self.objects(py, batch)
    }

    /// Reads and decodes many records of bytes into one buffer.
    #[pyo3(signature = (rows, workers=None))]
    fn read_records_contiguous<'py>(
        &self,
        py: Python<'py>,
        rows: &Bound<'py, PyAny>,
        workers: Option<usize>,
    ) -> PyResult<(Bound<'py, Buffer>, Bound<'py, Buffer>)> {
        let records = self.records(workers)?;
        if records.codec().raise()?.kind() == CodecKind::Image {
            return Err(PyTypeError::new_err(
                "the records are images, and only records of bytes make a contiguous batch",
            ));
        }
        let rows = self.rows(rows, records.reader())?;
        parts_of_batch(py, py.detach(|| records.read_many_contiguous(&rows)).raise()?)
    }

    /// What a record says about its image: shape and type.
    fn image_info<'py>(
        &self,
        py: Python<'py>,
        row: &Bound<'py, PyAny>,
    ) -> PyResult<(Bound<'py, PyTuple>, &'static str)> {
        let open = self.open()?;
        let row = self.row(row, &open.pack)?;
        let info = py.detach(|| open.records.image_info(row)).raise()?;
        Ok((PyTuple::new(py, info.shape.dimensions())?, info.sample_type.name()))
    }

    /// Reads and decodes an image: memory, shape and type.
    #[pyo3(signature = (row, scale=1))]
    fn read_image<'py>(
        &self,
        py: Python<'py>,
        row: &Bound<'py, PyAny>,
        scale: u32,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let records = self.scaled(None, scale)?;
        let row = self.row(row, records.reader())?;
        let image = py.detach(|| records.read_image(row)).raise()?;
        image_parts(py, image)
    }

    /// Reads and decodes many images: memory, shape and type of each.
    #[pyo3(signature = (rows, workers=None, scale=1))]
    fn read_images<'py>(
        &self,
        py: Python<'py>,
        rows: &Bound<'py, PyAny>,
        workers: Option<usize>,
        scale: u32,
    ) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        let records = self.scaled(workers, scale)?;
        let rows = self.rows(rows, records.reader())?;
        let images = py.detach(|| records.read_images(&rows)).raise()?;
        images.into_iter().map(|image| image_parts(py, image)).collect()
    }

    /// Reads and decodes images of one shape and type into one buffer: memory, shape, type.
    #[pyo3(signature = (rows, workers=None, scale=1))]
    fn read_image_batch<'py>(
        &self,
        py: Python<'py>,
        rows: &Bound<'py, PyAny>,
        workers: Option<usize>,
        scale: u32,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let records = self.scaled(workers, scale)?;
        let rows = self.rows(rows, records.reader())?;
        let batch = py.detach(|| records.read_image_batch(&rows)).raise()?;
        let mut dimensions = vec![u64::try_from(batch.len()).unwrap_or(u64::MAX)];
        dimensions.extend(batch.shape().dimensions());
        let (buffer, name) = Buffer::of_samples(batch.into_samples())?;
        (Bound::new(py, buffer)?, PyTuple::new(py, dimensions)?, name).into_pyobject(py)
    }

    /// Reads and decodes images of one shape and type into the caller's buffer.
    #[pyo3(signature = (rows, out, shape, dtype, workers=None, scale=1))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    fn read_image_batch_into(
        &self,
        py: Python<'_>,
        rows: &Bound<'_, PyAny>,
        out: &Bound<'_, PyAny>,
        shape: (u32, u32, u32),
        dtype: &str,
        workers: Option<usize>,
        scale: u32,
    ) -> PyResult<()> {
        let records = self.scaled(workers, scale)?;
        let rows = self.rows(rows, records.reader())?;
        let shape = ImageShape::new(shape.0, shape.1, shape.2).raise()?;
        let mut held = Held::writable(out)?;
        py.detach(|| -> Result<(), Fault> {
            let samples = held.samples_mut(dtype)?;
            Ok(records.read_image_batch_into(&rows, shape, samples)?)
        })
        .raise()
    }
}
