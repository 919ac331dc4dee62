//! Packs of one patient's DICOM objects, and volumes of their series.

use std::path::PathBuf;

use iatrocache::adapters::dicom::volume::{OnDuplicate, VolumeOptions, VolumeValues, Voxels};
use iatrocache::adapters::dicom::{
    DicomInput, DicomInputs, DicomPackBuilder, DicomPackReader, ExportOptions, ExportSyntax,
    PixelSamples,
};
use iatrocache::{Cancel, ErrorKind};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyDict, PyTuple};

use crate::buffer::{Buffer, Held};
use crate::errors::{Fault, Raise};
use crate::interrupt::{Watch, interruptible};
use crate::reader::Reader;
use crate::rows::{self, Negative};
use crate::write::Writing;

/// The objects of an open pack.
#[pyclass(frozen, module = "iatrocache._native")]
pub(crate) struct Dicom {
    pack: DicomPackReader,
    /// The same pack without the comparison of checksums.
    unchecked: DicomPackReader,
}

fn samples<'py>(
    py: Python<'py>,
    samples: PixelSamples,
) -> PyResult<(Bound<'py, Buffer>, &'static str)> {
    let name = samples.pixel_type().name();
    let buffer = match samples {
        PixelSamples::U8(samples) => Buffer::owned(samples),
        PixelSamples::I8(samples) => Buffer::owned(samples),
        PixelSamples::U16(samples) => Buffer::owned(samples),
        PixelSamples::I16(samples) => Buffer::owned(samples),
        PixelSamples::U32(samples) => Buffer::owned(samples),
        PixelSamples::I32(samples) => Buffer::owned(samples),
        PixelSamples::F32(samples) => Buffer::owned(samples),
        PixelSamples::F64(samples) => Buffer::owned(samples),
        _ => return Err(Fault::value("samples of a type that is not known")).raise(),
    };
    Ok((Bound::new(py, buffer)?, name))
}

impl Dicom {
    fn pack(&self, verify: bool) -> &DicomPackReader {
        if verify { &self.pack } else { &self.unchecked }
    }

    fn row(&self, row: &Bound<'_, PyAny>) -> PyResult<u64> {
        rows::row(row, || Ok(self.pack.instance_count()), Negative::Refused)
    }

    fn series(&self, series_idx: u32) -> PyResult<&iatrocache::adapters::dicom::Series> {
        self.pack
            .series()
            .iter()
            .find(|series| series.series_idx == series_idx)
            .ok_or_else(|| Fault::row(format!("series {series_idx} is not in the pack")))
            .raise()
    }
}

#[pymethods]
impl Dicom {
    #[new]
    fn new(py: Python<'_>, reader: &Reader) -> PyResult<Self> {
        let pack = reader.pack()?;
        let (pack, unchecked) = py
            .detach(|| {
                Ok((
                    DicomPackReader::from_reader(pack.clone(), true)?,
                    DicomPackReader::from_reader(pack, false)?,
                ))
            })
            .map_err(|error: iatrocache::adapters::AdapterError| error)
            .raise()?;
        Ok(Self { pack, unchecked })
    }

    #[getter]
    fn record_count(&self) -> u64 {
        self.pack.instance_count()
    }

    /// The series: dicts of index, UIDs, modality and number of instances.
    fn series_list<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let one = |series: &iatrocache::adapters::dicom::Series| {
            let dict = PyDict::new(py);
            dict.set_item("series_idx", series.series_idx)?;
            dict.set_item("study_uid", &series.study_uid)?;
            dict.set_item("series_uid", &series.series_uid)?;
            dict.set_item("modality", &series.modality)?;
            dict.set_item("instance_count", series.instance_count)?;
            Ok(dict)
        };
        self.pack.series().iter().map(one).collect()
    }

    /// The rows of a series.
    fn rows_of(&self, py: Python<'_>, series_idx: u32) -> PyResult<Vec<u64>> {
        let series = self.series(series_idx)?;
        py.detach(|| self.pack.rows_of(series)).raise()
    }

    /// The pixels of an object: memory, shape and type.
    fn read_pixels<'py>(
        &self,
        py: Python<'py>,
        row: &Bound<'py, PyAny>,
        verify: bool,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let row = self.row(row)?;
        let pixels = py.detach(|| self.pack(verify).read_pixels(row)).raise()?;
        let shape = PyTuple::new(py, pixels.shape.dimensions())?;
        let (buffer, name) = samples(py, pixels.samples)?;
        (buffer, shape, name).into_pyobject(py)
    }

    /// The pixels of objects of one shape and type: memory, shape and type.
    fn read_pixel_batch<'py>(
        &self,
        py: Python<'py>,
        rows: &Bound<'py, PyAny>,
        verify: bool,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let rows = rows::rows(rows, || Ok(self.pack.instance_count()), Negative::Refused)?;
        let batch = py.detach(|| self.pack(verify).read_pixel_batch(&rows)).raise()?;
        let mut shape = vec![u64::try_from(batch.count).unwrap_or(u64::MAX)];
        shape.extend(batch.shape.dimensions());
        let shape = PyTuple::new(py, shape)?;
        let (buffer, name) = samples(py, batch.samples)?;
        (buffer, shape, name).into_pyobject(py)
    }

    /// The elements of an object as the DICOM JSON model has them, as text.
    fn metadata(&self, py: Python<'_>, row: &Bound<'_, PyAny>) -> PyResult<String> {
        let row = self.row(row)?;
        let attributes = py.detach(|| self.pack.attributes(row)).raise()?;
        Ok(serde_json::Value::Object(attributes.to_json()).to_string())
    }

    /// An object as a DICOM file in memory.
    fn export<'py>(
        &self,
        py: Python<'py>,
        row: &Bound<'py, PyAny>,
        syntax: &str,
        verify: bool,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let row = self.row(row)?;
        let options = ExportOptions::default().with_syntax(syntax_of(syntax)?).with_verify(verify);
        let file = py.detach(|| self.pack(verify).export(row, &options)).raise()?;
        Ok(PyBytes::new(py, &file))
    }

    /// Writes an object as a DICOM file.
    fn export_to(
        &self,
        py: Python<'_>,
        row: &Bound<'_, PyAny>,
        path: PathBuf,
        syntax: &str,
        verify: bool,
        overwrite: bool,
    ) -> PyResult<()> {
        let row = self.row(row)?;
        let options = ExportOptions::default()
            .with_syntax(syntax_of(syntax)?)
            .with_verify(verify)
            .with_overwrite(overwrite);
        py.detach(|| self.pack(verify).export_to(row, &path, &options)).raise()
    }

    /// A volume of a series: memory, shape (slices, rows, columns), type, 4 x 4 affine (rows of it),
    /// units, and rows of the pack in the order of the slices.
    #[pyo3(signature = (series_idx, stack=None, stored=false, in_order=false, uneven=false, duplicates="refuse", workers=None))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    fn read_volume<'py>(
        &self,
        py: Python<'py>,
        series_idx: u32,
        stack: Option<usize>,
        stored: bool,
        in_order: bool,
        uneven: bool,
        duplicates: &str,
        workers: Option<usize>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let series = self.series(series_idx)?;
        let duplicates = match duplicates {
            "refuse" => OnDuplicate::Refuse,
            "first" => OnDuplicate::First,
            "last" => OnDuplicate::Last,
            _ => {
                return Err(Fault::value("duplicates must be refuse, first or last")).raise();
            }
        };
        let values = if stored { VolumeValues::Stored } else { VolumeValues::Rescaled };
        let options = VolumeOptions::default()
            .with_values(values)
            .with_uneven(uneven)
            .with_duplicates(duplicates)
            .with_workers(rows::workers(workers)?);
        let volume = interruptible(py, |cancel| -> Result<_, Fault> {
            let report = if in_order {
                self.pack.stacks_in_order(series)?
            } else {
                self.pack.volume_stacks(series)?
            };
            let count = report.stacks.len();
            let chosen = match (stack, count) {
                (Some(stack), _) => report.stacks.get(stack),
                (None, 1) => report.stacks.first(),
                (None, _) => None,
            };
            let chosen = chosen.ok_or_else(|| {
                Fault::value(format!(
                    "series {series_idx} has {count} stacks of slices, of which {} was asked for",
                    stack.map_or_else(|| "none".to_owned(), |stack| format!("number {stack}")),
                ))
            })?;
            Ok(self.pack.read_volume_with(chosen, &options, cancel)?)
        })?
        .raise()?;
        let found = PyDict::new(py);
        found.set_item("shape", PyTuple::new(py, volume.voxels.shape())?)?;
        found.set_item("dtype", volume.voxels.voxel_type().name())?;
        found.set_item("affine", volume.affine.matrix().map(|row| row.to_vec()).to_vec())?;
        found.set_item("placed", volume.placed)?;
        found.set_item("units", &volume.units)?;
        found.set_item("rows", volume.slices.iter().map(|slice| slice.row).collect::<Vec<_>>())?;
        found.set_item(
            "positions",
            volume.slices.iter().map(|slice| slice.position).collect::<Vec<_>>(),
        )?;
        found.set_item("voxels", Bound::new(py, voxels(volume.voxels)?)?)?;
        Ok(found)
    }
}

fn voxels(voxels: Voxels) -> PyResult<Buffer> {
    // Volumes are made row by row, so the vector behind each array is in the order of its shape.
    macro_rules! hand_over {
        ($($variant:ident),*) => {
            match voxels {
                $(Voxels::$variant(array) => {
                    let array = array.as_standard_layout().into_owned();
                    Buffer::owned(array.into_raw_vec_and_offset().0)
                })*
                _ => return Err(Fault::value("voxels of a type that is not known")).raise(),
            }
        };
    }
    Ok(hand_over!(U8, I8, U16, I16, U32, I32, F32, F64))
}

fn syntax_of(name: &str) -> PyResult<ExportSyntax> {
    ExportSyntax::from_name(name)
        .ok_or_else(|| Fault::value(format!("no transfer syntax is called \"{name}\"")))
        .raise()
}

/// An input: a path, bytes, or a file-like object.
fn input(object: &Bound<'_, PyAny>, number: usize) -> PyResult<DicomInput> {
    let name = || format!("input {number}");
    if let Ok(bytes) = object.extract::<PyBackedBytes>() {
        return Ok(DicomInput::Bytes(name(), bytes::Bytes::from_owner(bytes)));
    }
    if let Ok(path) = object.extract::<PathBuf>() {
        return Ok(DicomInput::File(path));
    }
    if object.hasattr("read")? {
        let content = object.call_method0("read")?;
        let bytes = content
            .extract::<PyBackedBytes>()
            .map_err(|_| PyTypeError::new_err(format!("input {number}: read() must give bytes")))?;
        return Ok(DicomInput::Bytes(name(), bytes::Bytes::from_owner(bytes)));
    }
    let held = Held::readable(object).map_err(|_| {
        PyTypeError::new_err(format!(
            "input {number} must be a path, bytes or a binary file, not {}",
            object.get_type()
        ))
    })?;
    Ok(DicomInput::Bytes(name(), bytes::Bytes::copy_from_slice(held.bytes())))
}

/// Inputs that fail as soon as the work is to be stopped.
struct Stoppable<'a> {
    inputs: std::vec::IntoIter<DicomInput>,
    cancel: &'a Cancel,
}

impl Iterator for Stoppable<'_> {
    type Item = DicomInput;

    fn next(&mut self) -> Option<DicomInput> {
        let input = self.inputs.next()?;
        if self.cancel.is_set() {
            return Some(DicomInput::Failed(
                input.name(),
                ErrorKind::Io,
                "the work was stopped".to_owned(),
            ));
        }
        Some(input)
    }
}

/// Writes a pack of a patient's objects. Inputs are given one by one, or found under a folder.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "those of the specification")]
pub(crate) fn build_dicom(
    py: Python<'_>,
    folder: Option<PathBuf>,
    files: Option<&Bound<'_, PyAny>>,
    output: PathBuf,
    effort: u8,
    workers: Option<usize>,
    verify: bool,
    tell: Option<Py<PyAny>>,
    writing: Writing,
) -> PyResult<String> {
    let builder = DicomPackBuilder::new()
        .effort(effort)
        .workers(rows::workers(workers)?)
        .verify(verify)
        .options(writing.options());
    let mut inputs = Vec::new();
    if let Some(files) = files {
        for (number, object) in files.try_iter()?.enumerate() {
            inputs.push(input(&object?, number)?);
        }
    }
    let report = interruptible(py, |cancel| -> Result<_, Fault> {
        Ok(match folder {
            Some(folder) => {
                let inputs = DicomInputs::find(&[folder])?;
                builder.build_with(&output, inputs, &Watch::new(cancel, tell.as_ref()))?
            }
            None => {
                builder.build_from(&output, Stoppable { inputs: inputs.into_iter(), cancel })?
            }
        })
    })?
    .raise()?;
    let diagnostics: serde_json::Map<_, _> = report
        .diagnostics
        .iter()
        .map(|(code, count)| ((*code).to_owned(), (*count).into()))
        .collect();
    Ok(serde_json::json!({
        "instances": report.instances,
        "series": report.series,
        "images": report.images,
        "schema_version": report.schema_version,
        "diagnostics": diagnostics,
        "duplicates": report.duplicates,
    })
    .to_string())
}
