//! Packs of clinical text, alone and in pairs.

use std::path::PathBuf;

use iatrocache::adapters::text::{
    ClinicalDoc, DocLabels, Patient, TextDocument, TextReadOptions, TextReader, TextWriteOptions,
    TextWriter,
};
use iatrocache::adapters::text_pair::ClinicalDocPair;
use iatrocache::{CodecSpec, Registry};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use crate::codec::members;
use crate::errors::Raise;
use crate::reader::Reader;
use crate::rows::{self, Negative};
use crate::write::Writing;

enum Kind {
    Single(TextReader<ClinicalDoc>),
    Pair(TextReader<ClinicalDocPair>),
}

/// The patients of an open pack.
#[pyclass(frozen, module = "iatrocache._native")]
pub(crate) struct Texts {
    kind: Kind,
}

/// A patient as Python has it: id, institution, and the fields of each document in their order.
fn parts<'py, D: TextDocument>(
    py: Python<'py>,
    patient: &Patient<D>,
) -> PyResult<Bound<'py, PyTuple>> {
    let documents = PyList::empty(py);
    for document in &patient.docs {
        let labels = document.labels();
        let rest = (
            labels.doc_type,
            labels.encounter,
            labels.doc_category,
            labels.source,
            labels.doc_timestamp,
            labels.episode_index,
        );
        let fields = PyList::new(py, [labels.doc_id])?;
        for number in 0..D::TEXTS.len() {
            fields.append(document.text(number))?;
        }
        for field in rest.into_pyobject(py)?.iter() {
            fields.append(field)?;
        }
        documents.append(fields.to_tuple())?;
    }
    (&patient.patient_id, &patient.institution, documents).into_pyobject(py)
}

/// A patient from an object with the attributes of `PatientText` or `PatientTextPairs`.
fn patient<D: TextDocument>(object: &Bound<'_, PyAny>) -> PyResult<Patient<D>> {
    let text = |object: &Bound<'_, PyAny>, name: &str| object.getattr(name)?.extract::<String>();
    let mut patient = Patient::new(text(object, "patient_id")?);
    patient.institution = text(object, "institution")?;
    for document in object.getattr("docs")?.try_iter()? {
        let document = document?;
        let mut labels = DocLabels::new(text(&document, "doc_id")?);
        labels.doc_type = text(&document, "doc_type")?;
        labels.encounter = text(&document, "encounter")?;
        labels.doc_category = text(&document, "doc_category")?;
        labels.source = text(&document, "source")?;
        labels.doc_timestamp = text(&document, "doc_timestamp")?;
        labels.episode_index = document.getattr("episode_index")?.extract()?;
        let mut texts = [String::new(), String::new()];
        for (place, field) in texts.iter_mut().zip(D::TEXTS) {
            *place = text(&document, field.name)?;
        }
        patient.docs.push(D::from_parts(labels, texts));
    }
    Ok(patient)
}

impl Texts {
    fn count(&self) -> u64 {
        match &self.kind {
            Kind::Single(reader) => reader.len(),
            Kind::Pair(reader) => reader.len(),
        }
    }
}

#[pymethods]
impl Texts {
    #[new]
    fn new(py: Python<'_>, reader: &Reader, pairs: bool) -> PyResult<Self> {
        let pack = reader.pack()?;
        let options = TextReadOptions::default();
        let kind = py.detach(|| {
            Ok(if pairs {
                Kind::Pair(TextReader::from_reader(pack, options)?)
            } else {
                Kind::Single(TextReader::from_reader(pack, options)?)
            })
        });
        Ok(Self { kind: kind.map_err(|error: iatrocache::adapters::AdapterError| error).raise()? })
    }

    #[getter]
    fn record_count(&self) -> u64 {
        self.count()
    }

    /// Distinct ids in order of first appearance.
    fn patient_ids(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let ids = py.detach(|| match &self.kind {
            Kind::Single(reader) => reader.patient_ids(),
            Kind::Pair(reader) => reader.patient_ids(),
        });
        Ok(ids.raise()?.into_iter().map(str::to_owned).collect())
    }

    /// The rows of an id.
    fn rows_of(&self, py: Python<'_>, patient_id: &str) -> PyResult<Vec<u64>> {
        py.detach(|| match &self.kind {
            Kind::Single(reader) => reader.rows_of(patient_id),
            Kind::Pair(reader) => reader.rows_of(patient_id),
        })
        .raise()
    }

    /// The patient of an id; of rows with the same id, the last.
    fn read<'py>(&self, py: Python<'py>, patient_id: &str) -> PyResult<Bound<'py, PyTuple>> {
        match &self.kind {
            Kind::Single(reader) => parts(py, &py.detach(|| reader.read(patient_id)).raise()?),
            Kind::Pair(reader) => parts(py, &py.detach(|| reader.read(patient_id)).raise()?),
        }
    }

    /// The patient of a row; negative rows count from the end.
    fn read_at<'py>(
        &self,
        py: Python<'py>,
        row: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let row = rows::row(row, || Ok(self.count()), Negative::FromEnd)?;
        match &self.kind {
            Kind::Single(reader) => parts(py, &py.detach(|| reader.read_at(row)).raise()?),
            Kind::Pair(reader) => parts(py, &py.detach(|| reader.read_at(row)).raise()?),
        }
    }

    /// Patients of many rows, decoded on several threads.
    fn read_many<'py>(
        &self,
        py: Python<'py>,
        rows: &Bound<'py, PyAny>,
    ) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        let rows = rows::rows(rows, || Ok(self.count()), Negative::FromEnd)?;
        match &self.kind {
            Kind::Single(reader) => {
                let patients = py.detach(|| reader.read_many(&rows)).raise()?;
                patients.iter().map(|patient| parts(py, patient)).collect()
            }
            Kind::Pair(reader) => {
                let patients = py.detach(|| reader.read_many(&rows)).raise()?;
                patients.iter().map(|patient| parts(py, patient)).collect()
            }
        }
    }
}

/// Writes a pack of patients that come one by one.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "those of the specification")]
pub(crate) fn build_texts(
    py: Python<'_>,
    path: PathBuf,
    patients: &Bound<'_, PyAny>,
    pairs: bool,
    codec: &str,
    parameters: &str,
    header: &str,
    duplicates: bool,
    workers: Option<usize>,
    writing: Writing,
) -> PyResult<u64> {
    let spec = CodecSpec::new(codec, members(parameters, "parameters")?);
    let options = TextWriteOptions::default()
        .codec(Registry::global().create_encoder(&spec).raise()?)
        .header(members(header, "extra_header")?)
        .duplicates(duplicates)
        .workers(rows::workers(workers)?)
        .write(writing.options());
    if pairs {
        write::<ClinicalDocPair>(py, &path, patients, &options)
    } else {
        write::<ClinicalDoc>(py, &path, patients, &options)
    }
}

fn write<D: TextDocument>(
    py: Python<'_>,
    path: &std::path::Path,
    patients: &Bound<'_, PyAny>,
    options: &TextWriteOptions,
) -> PyResult<u64> {
    let mut writer = py.detach(|| TextWriter::<D>::create(path, options)).raise()?;
    for object in patients.try_iter()? {
        py.check_signals()?;
        let patient = patient::<D>(&object?)?;
        py.detach(|| writer.push(&patient)).raise()?;
    }
    Ok(py.detach(|| writer.finish()).raise()?.patients)
}
