//! Fixed packs from matrices.

use std::borrow::Cow;
use std::error::Error;
use std::path::Path;

use iac_format::{Element, FixedShape, swap_if_big_endian};
use serde_json::{Map, Value};

use crate::builders::build_pack_data_segment;
use crate::draft::WriteSummary;
use crate::error::{Result, WriteError};
use crate::options::WriteOptions;
use crate::publish::Target;
use crate::segment::SegmentWriter;
use crate::table::Table;

/// Builds fixed packs: a matrix with one row for each row of the index table.
///
/// Elements are stored little-endian, row after row. Their type comes from the Rust type of the
/// matrix, so a matrix of texts or objects cannot be expressed.
///
/// The header gets `payload_type`, `codec` (`none`), `feature_dim`, `dtype` and
/// `feature_record_bytes`; members of the caller's own go in last and may replace these.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("cohort.features.iac");
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, RecordBatch, StringArray};
/// use iac_writer::{FixedPackBuilder, Table};
///
/// let ids: ArrayRef = Arc::new(StringArray::from(vec!["a", "b"]));
/// let index = Table::from(RecordBatch::try_from_iter([("item_id", ids)])?);
/// let matrix = [0.0_f32, 0.25, 0.5, 1.0, 1.25, 1.5]; // two rows of three
/// let summary = FixedPackBuilder::new("teacher_features", index).build(&path, 3, &matrix)?;
/// assert_eq!((summary.rows, summary.data_bytes), (2, 24));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct FixedPackBuilder {
    payload_type: String,
    index: Table,
    slides: Table,
    header: Map<String, Value>,
    options: WriteOptions,
}

impl FixedPackBuilder {
    /// A pack of vectors of that type, with one row of `index` for each.
    pub fn new(payload_type: impl Into<String>, index: Table) -> Self {
        Self {
            payload_type: payload_type.into(),
            index,
            slides: Table::empty(),
            header: Map::new(),
            options: WriteOptions::new(),
        }
    }

    /// Sets the slide table. Default: without columns and rows.
    #[must_use]
    pub fn slides(mut self, slides: Table) -> Self {
        self.slides = slides;
        self
    }

    /// Sets further header members, which replace the builder's own members of their names.
    #[must_use]
    pub fn header(mut self, members: Map<String, Value>) -> Self {
        self.header = members;
        self
    }

    /// Sets how the pack is written.
    #[must_use]
    pub fn options(mut self, options: WriteOptions) -> Self {
        self.options = options;
        self
    }

    /// Writes a matrix that is in memory: rows of `dim` elements, one after the other.
    ///
    /// # Errors
    ///
    /// [`WriteError::Argument`] when the elements do not make the rows of the index table;
    /// otherwise as [`build_pack_data_segment`].
    pub fn build<T: Element>(
        &self,
        path: impl AsRef<Path>,
        dim: usize,
        elements: &[T],
    ) -> Result<WriteSummary> {
        let path = path.as_ref();
        let shape = self.shape::<T>(path, dim)?;
        let found = u64::try_from(elements.len()).unwrap_or(u64::MAX);
        let rows = self.index.num_rows();
        if shape.dim.checked_mul(rows) != Some(found) {
            return Err(WriteError::argument(
                path,
                format!(
                    "the matrix has {found} elements, but the index table has {rows} rows of {dim}"
                ),
            ));
        }
        self.build_bytes(path, shape, &little_endian(elements))
    }

    /// Writes a matrix that is there as bytes: little-endian elements, row after row.
    ///
    /// # Errors
    ///
    /// [`WriteError::HeaderField`] when the bytes do not make the rows of the index table;
    /// otherwise as [`build_pack_data_segment`].
    pub fn build_bytes(
        &self,
        path: impl AsRef<Path>,
        shape: FixedShape,
        bytes: &[u8],
    ) -> Result<WriteSummary> {
        let Self { slides, index, options, .. } = self;
        build_pack_data_segment(path, &self.header_of(shape), slides, index, bytes, options)
    }

    /// Writes rows that come one by one, each of `dim` elements.
    ///
    /// # Errors
    ///
    /// [`WriteError::Argument`] for a row of another length; [`WriteError::RowCount`] when there
    /// are more or fewer rows than in the index table; [`WriteError::Payload`] with what the
    /// iterator reported; otherwise as [`build_pack_data_segment`].
    pub fn build_streaming<T, I, R, E>(
        &self,
        path: impl AsRef<Path>,
        dim: usize,
        rows: I,
    ) -> Result<WriteSummary>
    where
        T: Element,
        I: IntoIterator<Item = Result<R, E>>,
        R: AsRef<[T]>,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let path = path.as_ref();
        let shape = self.shape::<T>(path, dim)?;
        let header = self.header_of(shape);
        let expected = self.index.num_rows();
        let total = shape.record_bytes.checked_mul(expected).ok_or_else(|| {
            WriteError::argument(path, format!("{expected} rows of {dim} elements are too large"))
        })?;
        let target = Target::new(path, &self.options)?;
        let mut segment =
            SegmentWriter::begin(target, &header, &self.slides, &self.index, total, &self.options)?;
        let wrong_count = |found: u64, more| WriteError::RowCount {
            path: path.to_owned(),
            rows: expected,
            payloads: found,
            more,
        };
        let mut found = 0_u64;
        for row in rows {
            let row = row.map_err(|error| WriteError::Payload {
                path: path.to_owned(),
                row: found,
                source: error.into(),
            })?;
            let row = row.as_ref();
            if found >= expected {
                return Err(wrong_count(found.saturating_add(1), true));
            }
            if row.len() != dim {
                return Err(WriteError::argument(
                    path,
                    format!("row {found} has {} elements where {dim} are expected", row.len()),
                ));
            }
            segment.write(&little_endian(row))?;
            found = found.saturating_add(1);
        }
        if found < expected {
            return Err(wrong_count(found, false));
        }
        segment.finish(&header)
    }

    fn shape<T: Element>(&self, path: &Path, dim: usize) -> Result<FixedShape> {
        FixedShape::new(u64::try_from(dim).unwrap_or(u64::MAX), T::TYPE)
            .map_err(WriteError::format(path))
    }

    fn header_of(&self, shape: FixedShape) -> Map<String, Value> {
        let mut members = Map::new();
        members.insert("payload_type".to_owned(), Value::from(self.payload_type.as_str()));
        members.insert("codec".to_owned(), Value::from("none"));
        members.insert("feature_dim".to_owned(), Value::from(shape.dim));
        members.insert("dtype".to_owned(), Value::from(shape.element.name()));
        members.insert("feature_record_bytes".to_owned(), Value::from(shape.record_bytes));
        members.extend(self.header.clone());
        members
    }
}

/// Elements as the file has them: where they lie, on little-endian machines.
fn little_endian<T: Element>(elements: &[T]) -> Cow<'_, [u8]> {
    let bytes: &[u8] = bytemuck::cast_slice(elements);
    if cfg!(target_endian = "little") || T::PART_BYTES == 1 {
        return Cow::Borrowed(bytes);
    }
    let mut bytes = bytes.to_vec();
    swap_if_big_endian(&mut bytes, T::PART_BYTES);
    Cow::Owned(bytes)
}
