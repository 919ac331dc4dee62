//! Building packs of features.

use std::borrow::Cow;
use std::path::Path;

use iac_format::{Element, ElementType, FixedShape, swap_if_big_endian};
use iac_ops::{NoProgress, Progress};
use iac_writer::{
    Table, WriteError, WriteOptions, WriteSummary, build_pack_data_segment_streaming,
};
use serde_json::{Map, Value, json};

use crate::error::{AdapterError, Result, short};
use crate::features::cast::{cast, count_not_finite};
use crate::features::{TEACHER_FEATURES, TEACHER_FEATURES_V2};
use crate::grid::Grid;
use crate::record::{CheckedRecords, RecordTable};
use crate::task::{Task, check_cancelled};

/// Bytes of rows that are handed to the writer together.
const STRETCH: usize = 1 << 18;

/// One vector on its way into a pack: little-endian elements.
#[derive(Debug, Clone)]
pub struct FeatureRow<'a> {
    element: ElementType,
    bytes: Cow<'a, [u8]>,
}

impl<'a> FeatureRow<'a> {
    /// Takes a vector of the caller's.
    #[must_use]
    pub fn new<T: Element>(elements: &'a [T]) -> Self {
        let bytes: &[u8] = bytemuck::cast_slice(elements);
        let mut row = Self { element: T::TYPE, bytes: Cow::Borrowed(bytes) };
        if cfg!(target_endian = "big") {
            swap_if_big_endian(row.bytes.to_mut(), T::PART_BYTES);
        }
        row
    }

    /// Takes a vector as little-endian bytes; the number of elements is what fits into them.
    #[must_use]
    pub fn from_bytes(element: ElementType, bytes: impl Into<Cow<'a, [u8]>>) -> Self {
        Self { element, bytes: bytes.into() }
    }

    /// Number of elements.
    #[must_use]
    pub fn dim(&self) -> u64 {
        let bytes = u64::try_from(self.bytes.len()).unwrap_or(u64::MAX);
        bytes.checked_div(self.element.item_bytes()).unwrap_or(0)
    }

    /// The type of the elements.
    #[must_use]
    pub const fn element(&self) -> ElementType {
        self.element
    }

    /// The elements as bytes, little-endian.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The same with memory of its own.
    #[must_use]
    pub fn into_owned(self) -> FeatureRow<'static> {
        FeatureRow { element: self.element, bytes: Cow::Owned(self.bytes.into_owned()) }
    }
}

/// What happens to vectors with elements that are infinite or no numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NonFinite {
    /// They are stored; the summary says how many such elements there are.
    #[default]
    Count,
    /// The build fails with the first one.
    Refuse,
}

/// Builds packs of teacher features: one vector for each record, all of one length and type.
///
/// Vectors are used as they come and never collected, so memory does not grow with them. Rows are
/// stored little-endian in a data segment that starts at a multiple of 64 bytes.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("cohort.features.iac");
/// use iac_adapters::features::{ElementType, FeaturePackBuilder, FeaturePackReader};
/// use iac_adapters::{RecordTable, TileRecord};
///
/// let mut records = RecordTable::new();
/// for (id, x) in [("t0", 0), ("t1", 512)] {
///     records.push(&TileRecord {
///         tile_id: id.into(),
///         patient_id: "p1".into(),
///         slide_id: "s1".into(),
///         x,
///         ..TileRecord::default()
///     })?;
/// }
/// let vectors = [[0.5_f32, 1.0], [1.5, 2.0]];
/// let summary = FeaturePackBuilder::new("teacher-v1")
///     .dtype(ElementType::Float16)
///     .build(&path, records, &vectors)?;
/// assert_eq!((summary.rows, summary.dim), (2, 2));
///
/// let pack = FeaturePackReader::open(&path)?;
/// assert_eq!(pack.read_f32_by_id("t1")?, [1.5, 2.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct FeaturePackBuilder {
    teacher: String,
    dtype: ElementType,
    dim: Option<u64>,
    tile_size: [Option<u64>; 2],
    stride: [Option<u64>; 2],
    keep_split: bool,
    non_finite: NonFinite,
    write: WriteOptions,
}

/// What was built.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FeatureSummary {
    /// Vectors.
    pub rows: u64,
    /// Elements of each.
    pub dim: u64,
    /// Their type.
    pub dtype: ElementType,
    /// Elements that are infinite or no numbers, those that became so by the conversion included.
    pub non_finite: u64,
    /// What was written.
    pub written: WriteSummary,
}

impl FeaturePackBuilder {
    /// A pack of vectors from a teacher of that name; of type `float32`.
    pub fn new(teacher: impl Into<String>) -> Self {
        Self {
            teacher: teacher.into(),
            dtype: ElementType::Float32,
            dim: None,
            tile_size: [None; 2],
            stride: [None; 2],
            keep_split: false,
            non_finite: NonFinite::Count,
            write: WriteOptions::new(),
        }
    }

    /// Sets the type that elements are stored with; vectors of another one are converted. With
    /// `bfloat16` the pack's payload type is `teacher_features_v2`, which the reference does not
    /// read.
    #[must_use]
    pub const fn dtype(mut self, dtype: ElementType) -> Self {
        self.dtype = dtype;
        self
    }

    /// Sets the number of elements of each vector. Default (`None`): that of the first one.
    #[must_use]
    pub fn dim(mut self, dim: impl Into<Option<u64>>) -> Self {
        self.dim = dim.into();
        self
    }

    /// Sets width and height of the tiles in pixels. Default (`None`): the stride.
    #[must_use]
    pub fn tile_size(
        mut self,
        width: impl Into<Option<u64>>,
        height: impl Into<Option<u64>>,
    ) -> Self {
        self.tile_size = [width.into(), height.into()];
        self
    }

    /// Sets the distances between columns and rows of tiles. Default (`None`): the greatest common
    /// divisor of all positions.
    #[must_use]
    pub fn stride(mut self, x: impl Into<Option<u64>>, y: impl Into<Option<u64>>) -> Self {
        self.stride = [x.into(), y.into()];
        self
    }

    /// Takes size and stride of the tiles from the pack that holds them; its records come from
    /// [`TilePackReader::record_table`](crate::tiles::TilePackReader::record_table).
    ///
    /// # Errors
    ///
    /// [`AdapterError::Schema`] when the pack's header states its strides wrongly.
    #[cfg(feature = "tiles")]
    pub fn for_tiles(mut self, tiles: &crate::tiles::TilePackReader) -> Result<Self> {
        let size = tiles.tile_size();
        self.tile_size = [size.map(|size| size.width.into()), size.map(|size| size.height.into())];
        self.stride =
            if tiles.table().is_grid() { tiles.table().scale()?.map(Some) } else { [None; 2] };
        Ok(self)
    }

    /// Sets whether the index table gets a column `split`. Default: no. Readers that do not know it
    /// ignore it.
    #[must_use]
    pub const fn keep_split(mut self, keep: bool) -> Self {
        self.keep_split = keep;
        self
    }

    /// Sets what happens to elements that are infinite or no numbers.
    #[must_use]
    pub const fn non_finite(mut self, what: NonFinite) -> Self {
        self.non_finite = what;
        self
    }

    /// Sets how the pack is written.
    #[must_use]
    pub const fn options(mut self, options: WriteOptions) -> Self {
        self.write = options;
        self
    }

    /// Builds a pack from vectors that are there.
    ///
    /// # Errors
    ///
    /// As [`build_streaming`](Self::build_streaming).
    pub fn build<T: Element, R: AsRef<[T]>>(
        &self,
        path: impl AsRef<Path>,
        records: RecordTable,
        vectors: &[R],
    ) -> Result<FeatureSummary> {
        let rows = vectors.iter().map(|vector| Ok(FeatureRow::new(vector.as_ref())));
        self.build_streaming(path, records, rows, &NoProgress)
    }

    /// Builds a pack from a function that gives the vector of each tile id, called once for each
    /// record in order.
    ///
    /// # Errors
    ///
    /// As [`build_streaming`](Self::build_streaming), and [`AdapterError::Records`] for an id
    /// without a vector.
    pub fn build_from_map<'a, T: Element, R: AsRef<[T]> + ?Sized + 'a>(
        &self,
        path: impl AsRef<Path>,
        records: RecordTable,
        mut vector_of: impl FnMut(&str) -> Option<&'a R>,
    ) -> Result<FeatureSummary> {
        let records = records.check()?;
        let ids = records.ids.clone();
        let rows = (0..records.rows()).map(|row| {
            let id = ids.get(row).unwrap_or_default();
            let vector = vector_of(id).ok_or_else(|| {
                AdapterError::records(
                    row,
                    "tile_id",
                    format!("no vector for tile \"{}\"", short(id)),
                )
            })?;
            Ok(FeatureRow::new(vector.as_ref()))
        });
        self.build_checked(path.as_ref(), &records, rows, &NoProgress)
    }

    /// Builds a pack from vectors that come one by one, in the order of the records.
    ///
    /// Whatever the records and the destination make impossible is said before the first vector is
    /// taken. Progress counts rows.
    ///
    /// # Errors
    ///
    /// [`AdapterError::Records`] for records and vectors that do not make a pack, with the row;
    /// [`AdapterError::Usage`] for arguments that cannot be used; [`AdapterError::Write`], also
    /// when the destination exists; whatever the iterator reports. Nothing is left then.
    pub fn build_streaming<'a, I>(
        &self,
        path: impl AsRef<Path>,
        records: RecordTable,
        vectors: I,
        progress: &dyn Progress,
    ) -> Result<FeatureSummary>
    where
        I: IntoIterator<Item = Result<FeatureRow<'a>>>,
    {
        let records = records.check()?;
        self.build_checked(path.as_ref(), &records, vectors.into_iter(), progress)
    }

    fn build_checked<'a>(
        &self,
        path: &Path,
        records: &CheckedRecords,
        mut vectors: impl Iterator<Item = Result<FeatureRow<'a>>>,
        progress: &dyn Progress,
    ) -> Result<FeatureSummary> {
        if self.teacher.is_empty() {
            return Err(AdapterError::usage("the name of the teacher is empty"));
        }
        if matches!(self.dtype, ElementType::Complex64 | ElementType::Complex128) {
            return Err(AdapterError::usage(format!(
                "features cannot be of type {}: only real numbers can",
                self.dtype
            )));
        }
        let grid = Grid::new(records, self.stride, [1, 1])?;
        let [stride_x, stride_y] = grid.stride;
        let [width, height] = self.tile_size;
        let tile_size = [width.unwrap_or(stride_x), height.unwrap_or(stride_y)];
        if tile_size.contains(&0) {
            let [width, height] = tile_size;
            return Err(AdapterError::usage(format!(
                "tile size must be positive, but it is ({width}, {height})"
            )));
        }
        let index = grid.index_table(records, self.keep_split, false)?;
        let slides = grid.slide_table(&records.slides)?;
        // The writer says so too, but only after the first vector was taken.
        if !self.write.overwrite && path.symlink_metadata().is_ok() {
            return Err(WriteError::Exists { path: path.to_owned() }.into());
        }
        let first = match vectors.next() {
            Some(first) => first?,
            None => return Err(count_error(0, records.rows())),
        };
        let dim = self.dim.unwrap_or_else(|| first.dim());
        let shape = FixedShape::new(dim, self.dtype)
            .map_err(|error| AdapterError::usage(error.to_string()))?;
        let total = shape.record_bytes.checked_mul(records.rows()).ok_or_else(|| {
            AdapterError::usage(format!("{} rows of {dim} elements are too large", records.rows()))
        })?;
        let header = self.header(&grid, tile_size, shape);
        let task = Task::begin(progress, "packing", Some(records.rows()));
        let mut rows = Stretches {
            records,
            vectors: std::iter::once(Ok(first)).chain(vectors),
            shape,
            refuse: self.non_finite == NonFinite::Refuse,
            row: 0,
            non_finite: 0,
            task: &task,
            progress,
            ended: false,
        };
        let written = self.write_rows(path, &header, &slides, &index, total, &mut rows)?;
        Ok(FeatureSummary {
            rows: records.rows(),
            dim,
            dtype: self.dtype,
            non_finite: rows.non_finite,
            written,
        })
    }

    fn write_rows<'a, I: Iterator<Item = Result<FeatureRow<'a>>>>(
        &self,
        path: &Path,
        header: &Map<String, Value>,
        slides: &Table,
        index: &Table,
        total: u64,
        rows: &mut Stretches<'_, I>,
    ) -> Result<WriteSummary> {
        let written = build_pack_data_segment_streaming(
            path,
            header,
            slides,
            index,
            total,
            rows.by_ref(),
            &self.write,
        );
        match written {
            Ok(written) => Ok(written),
            Err(WriteError::Payload { path, row, source }) => {
                match source.downcast::<AdapterError>() {
                    Ok(error) => Err(*error),
                    Err(source) => Err(WriteError::Payload { path, row, source }.into()),
                }
            }
            Err(error) => Err(error.into()),
        }
    }

    fn header(&self, grid: &Grid, tile_size: [u64; 2], shape: FixedShape) -> Map<String, Value> {
        let mut members = Map::new();
        let is_old = self.dtype != ElementType::Bfloat16;
        let [width, height] = tile_size;
        for (name, value) in [
            ("payload_type", json!(if is_old { TEACHER_FEATURES } else { TEACHER_FEATURES_V2 })),
            ("teacher", json!(self.teacher)),
            ("feature_dim", json!(shape.dim)),
            ("dtype", json!(self.dtype.name())),
            ("feature_record_bytes", json!(shape.record_bytes)),
            ("tile_width", json!(width)),
            ("tile_height", json!(height)),
        ] {
            members.insert(name.to_owned(), value);
        }
        if !is_old {
            members.insert("features_schema_version".to_owned(), json!(2));
        }
        grid.write_to_header(&mut members);
        members
    }
}

/// Rows of the stored type, many at a time.
struct Stretches<'s, I> {
    records: &'s CheckedRecords,
    vectors: I,
    shape: FixedShape,
    refuse: bool,
    row: u64,
    non_finite: u64,
    task: &'s Task<'s>,
    progress: &'s dyn Progress,
    ended: bool,
}

impl<'a, I: Iterator<Item = Result<FeatureRow<'a>>>> Stretches<'_, I> {
    fn fill(&mut self, bytes: &mut Vec<u8>) -> Result<()> {
        let row_bytes = usize::try_from(self.shape.record_bytes).unwrap_or(usize::MAX);
        while bytes.is_empty() || bytes.len().saturating_add(row_bytes) <= STRETCH {
            let Some(vector) = self.vectors.next() else {
                self.ended = true;
                if self.row < self.records.rows() {
                    return Err(count_error(self.row, self.records.rows()));
                }
                return Ok(());
            };
            let vector = vector?;
            if self.row >= self.records.rows() {
                return Err(AdapterError::records(
                    self.row,
                    None,
                    format!("there are more vectors than the {} records", self.records.rows()),
                ));
            }
            self.append(&vector, bytes)?;
            self.row = self.row.saturating_add(1);
            self.task.advance(1);
            if row_bytes == 0 && self.row.is_multiple_of(1 << 16) {
                return Ok(());
            }
        }
        Ok(())
    }

    fn append(&mut self, vector: &FeatureRow<'_>, bytes: &mut Vec<u8>) -> Result<()> {
        let at = |reason: String| {
            let id = short(self.records.id(self.row));
            AdapterError::records(self.row, None, format!("the vector of tile \"{id}\" {reason}"))
        };
        let partial = u64::try_from(vector.bytes.len())
            .ok()
            .and_then(|length| length.checked_rem(vector.element.item_bytes()));
        if vector.dim() != self.shape.dim || partial != Some(0) {
            return Err(at(format!(
                "has {} elements where {} are expected",
                vector.dim(),
                self.shape.dim
            )));
        }
        if matches!(vector.element, ElementType::Complex64 | ElementType::Complex128) {
            return Err(at(format!("is of type {}, which is not real", vector.element)));
        }
        let start = bytes.len();
        cast(vector.element, &vector.bytes, self.shape.element, bytes).map_err(|fault| {
            at(format!(
                "has {} at position {}, which {} cannot hold",
                fault.value, fault.position, self.shape.element
            ))
        })?;
        let odd = count_not_finite(self.shape.element, bytes.get(start..).unwrap_or_default());
        if odd > 0 && self.refuse {
            return Err(at(format!("has {odd} elements that are infinite or no numbers")));
        }
        self.non_finite = self.non_finite.saturating_add(odd);
        Ok(())
    }
}

impl<'a, I: Iterator<Item = Result<FeatureRow<'a>>>> Iterator for Stretches<'_, I> {
    type Item = Result<Vec<u8>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let mut bytes = Vec::new();
        let filled = check_cancelled(self.progress).and_then(|()| self.fill(&mut bytes));
        self.ended |= filled.is_err();
        Some(filled.map(|()| bytes))
    }
}

fn count_error(found: u64, expected: u64) -> AdapterError {
    AdapterError::records(None, None, format!("there are {found} vectors for {expected} records"))
}
