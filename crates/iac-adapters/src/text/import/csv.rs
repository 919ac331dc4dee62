//! CSV: one row for each document.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::fault;
use super::mapping::{ColumnMapping, Places};
use super::rows::{At, DocRow, Grouped, row_of, wrong_width};
use crate::error::{AdapterError, Result};
use crate::manifest::csv::{CsvError, CsvReader, Place, Row};
use crate::text::model::{Patient, TextDocument};

/// Most characters of a cell.
const MAX_CELL: u64 = 1 << 29;

/// Patients out of comma-separated text with a line of names: each row is a document, and rows of
/// one patient become one patient.
///
/// Quotes are `"`, doubled inside a quoted cell; cells may hold line breaks, nothing is trimmed.
/// Columns that are not mapped are ignored. After an error there are no more patients.
#[derive(Debug)]
pub struct CsvPatients<D, R = File> {
    path: PathBuf,
    rows: CsvReader<R>,
    mapping: ColumnMapping,
    places: Places,
    width: usize,
    grouped: Grouped<D>,
    cells: Vec<(String, At)>,
}

impl<D: TextDocument> CsvPatients<D> {
    /// Opens a file.
    ///
    /// # Errors
    ///
    /// [`AdapterError::Io`] when it cannot be read; [`AdapterError::MissingColumns`] and
    /// [`AdapterError::Usage`] when its columns do not fit the mapping.
    pub fn open(path: impl AsRef<Path>, mapping: &ColumnMapping) -> Result<Self> {
        let path = path.as_ref();
        let file = File::open(path).map_err(AdapterError::io(path, "cannot open"))?;
        Self::new(path, file, mapping)
    }
}

impl<D: TextDocument, R: Read> CsvPatients<D, R> {
    /// Reads a source; `name` stands in messages.
    ///
    /// # Errors
    ///
    /// As [`open`](CsvPatients::open).
    pub fn new(name: impl Into<PathBuf>, source: R, mapping: &ColumnMapping) -> Result<Self> {
        let path = name.into();
        let mut rows = CsvReader::new(source).with_max_field(MAX_CELL);
        let mut names = Vec::new();
        let row = rows.next_row::<CsvError>(|_, _, name| {
            names.push(name.to_owned());
            Ok(())
        });
        row.map_err(|error| csv_error(&path, error))?;
        let places = mapping.places::<D>(&path, &names)?;
        Ok(Self {
            path,
            rows,
            places,
            width: names.len(),
            grouped: Grouped::new(mapping),
            mapping: mapping.clone(),
            cells: Vec::new(),
        })
    }
}

fn at(place: Place) -> At {
    At { line: place.line, column: place.column }
}

fn csv_error(path: &Path, error: CsvError) -> AdapterError {
    match error {
        CsvError::Io(source) => AdapterError::io(path, "cannot read")(source),
        CsvError::TooLong(place) => {
            let reason = format!("the cell that begins here has more than {MAX_CELL} characters");
            fault(path, place.line, place.column, None, reason)
        }
        CsvError::NotUtf8(place) => {
            let reason = "the cell that begins here is not UTF-8";
            fault(path, place.line, place.column, None, reason)
        }
    }
}

impl<D: TextDocument, R: Read> Iterator for CsvPatients<D, R> {
    type Item = Result<Patient<D>>;

    fn next(&mut self) -> Option<Self::Item> {
        let Self { path, rows, mapping, places, width, grouped, cells } = self;
        grouped.next(path, || {
            loop {
                let begin = at(rows.place());
                cells.clear();
                let row = rows.next_row::<CsvError>(|_, place, text| {
                    cells.push((text.to_owned(), at(place)));
                    Ok(())
                });
                match row.map_err(|error| csv_error(path, error))? {
                    Row::End => return Ok(None::<DocRow<D>>),
                    Row::Fields(0) => {}
                    Row::Fields(found) if cells.len() != *width => {
                        return Err(wrong_width(path, begin, found, *width));
                    }
                    Row::Fields(_) => {
                        let cell =
                            |place| cells.get_mut(place).map(std::mem::take).unwrap_or_default();
                        return row_of(path, mapping, places, begin, cell).map(Some);
                    }
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::Grouping;
    use super::*;
    use crate::text::ClinicalDoc;
    use crate::text_pair::ClinicalDocPair;

    fn read(text: &str, mapping: &ColumnMapping) -> Result<Vec<Patient<ClinicalDoc>>> {
        CsvPatients::new("x.csv", text.as_bytes(), mapping)?.collect()
    }

    const TABLE: &str = "MRN,doc_id,Note,site,episode_index\n\
        a,1,\"one, \"\"two\"\"\nthree\",s1,4\n\
        a,2,,s1,\n\
        b,1,x,s2,-7\n";

    fn mapping() -> ColumnMapping {
        ColumnMapping::default()
            .column("patient_id", "MRN")
            .column("text", "Note")
            .column("institution", "site")
    }

    #[test]
    fn rows_of_one_patient_become_one_patient() {
        let patients = read(TABLE, &mapping()).unwrap();
        assert_eq!(patients.len(), 2);
        assert_eq!((patients[0].patient_id.as_str(), patients[0].docs.len()), ("a", 2));
        assert_eq!(patients[0].docs[0].text, "one, \"two\"\nthree");
        assert_eq!(patients[0].docs[0].episode_index, 4);
        assert_eq!(patients[0].docs[1].episode_index, -1);
        assert_eq!(
            (patients[1].institution.as_str(), patients[1].docs[0].episode_index),
            ("s2", -7)
        );
        let fixed = ColumnMapping::default()
            .column("patient_id", "MRN")
            .column("text", "Note")
            .institution("here");
        assert_eq!(read(TABLE, &fixed).unwrap()[1].institution, "here");
    }

    #[test]
    fn rows_that_stand_apart_need_to_be_asked_for() {
        let table = "patient_id,doc_id,text\na,1,x\nb,1,y\na,2,z\n";
        let apart = read(table, &ColumnMapping::default()).unwrap();
        assert_eq!(apart.len(), 3);
        let together = read(table, &ColumnMapping::default().grouping(Grouping::Anywhere)).unwrap();
        assert_eq!(together.len(), 2);
        assert_eq!(together[0].docs[1].text, "z");
        assert_eq!(together[1].patient_id, "b");
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        let plain = ColumnMapping::default();
        for (table, message) in [
            ("a,b\n", "x.csv: there is no column doc_id, patient_id, text"),
            ("patient_id,doc_id,text,text\n", "x.csv: there are several columns `text`"),
            ("patient_id,doc_id,text\na,1\n", "x.csv:2:1: 2 fields instead of 3"),
            (
                "patient_id,doc_id,text,episode_index\na,1,x,1.5\n",
                "x.csv:2:7: episode_index: \"1.5\" is no integer",
            ),
            (
                "patient_id,doc_id,text,institution\na,1,x,s\na,2,x,t\n",
                "x.csv:3:1: institution: patient \"a\" belongs to \"t\" here, but to \"s\" before",
            ),
        ] {
            assert_eq!(read(table, &plain).unwrap_err().to_string(), message);
        }
        let wrong = plain.column("txt", "Note");
        let error = read("patient_id,doc_id,text\n", &wrong).unwrap_err();
        assert!(error.to_string().starts_with("`txt` is no member of a document"), "{error}");
    }

    #[test]
    fn pairs_have_two_texts() {
        let table = "patient_id,doc_id,source_text,compressed_text\np,1,long,short\n";
        let patients: Vec<Patient<ClinicalDocPair>> =
            CsvPatients::new("x.csv", table.as_bytes(), &ColumnMapping::default())
                .unwrap()
                .collect::<Result<_>>()
                .unwrap();
        assert_eq!(patients[0].docs[0].compressed_text, "short");
    }
}
