//! Fixed packs: one dense matrix, row by row, in batches, or as a whole where it lies.

use std::path::Path;
use std::sync::Arc;

use bytemuck::AnyBitPattern;
use bytes::Bytes;
use iac_format::{Element, ElementType, FixedShape, FormatError, swap_if_big_endian};

use crate::content::RowAddresses;
use crate::convert::to_f32;
use crate::error::{ReadError, Result};
use crate::gather::{AHEAD, Piece, length_of, lost, no_memory, reserve, share_of};
use crate::matrix::{Matrix, bytes_of_mut, is_of_type, memory_shape};
use crate::options::ReadOptions;
use crate::pack::PackReader;
use crate::prefetch::load_ahead;
use crate::variable::check_extensions;

/// Reads a fixed pack: a matrix with one row for each row of the index table.
///
/// Shape and element type are checked when it is opened: a data segment with more, fewer or half
/// rows is refused. Rows that are read are compared with their checksums where the pack has some,
/// unless the reader's options say otherwise; views never are. Clones are cheap and work from any
/// number of threads at once.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("cohort.features.iac");
/// use iac_reader::FixedRecordPack;
/// # use arrow_array::{ArrayRef, RecordBatch, StringArray};
/// # let ids: ArrayRef = std::sync::Arc::new(StringArray::from(vec!["a", "b", "c"]));
/// # let index = iac_writer::Table::from(RecordBatch::try_from_iter([("item_id", ids)])?);
/// # iac_writer::FixedPackBuilder::new("features", index)
/// #     .build(&path, 2, &[0.0_f32, 0.5, 1.0, 1.5, 2.0, 2.5])?;
///
/// let pack = FixedRecordPack::open(&path)?;
/// assert_eq!((pack.record_count(), pack.dim()), (3, 2));
/// // A batch in the element type of the caller's program.
/// let batch: Vec<f32> = pack.read_matrix_as(&[2, 0])?;
/// assert_eq!(batch, [2.0, 2.5, 0.0, 0.5]);
/// // All rows where they lie in the mapped file: nothing is copied.
/// let all: &[f32] = pack.as_slice()?;
/// assert_eq!(all[3], 1.5);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct FixedRecordPack {
    pack: PackReader,
    shape: FixedShape,
    rows: u64,
    dim: usize,
    row_bytes: usize,
}

impl FixedRecordPack {
    /// Opens a pack with default options.
    ///
    /// # Errors
    ///
    /// As [`PackReader::open`] and [`from_reader`](Self::from_reader).
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::from_reader(PackReader::open(path)?)
    }

    /// Opens a pack.
    ///
    /// # Errors
    ///
    /// As [`FixedRecordPack::open`].
    pub fn open_with(path: impl AsRef<Path>, options: &ReadOptions) -> Result<Self> {
        Self::from_reader(PackReader::open_with(path, options)?)
    }

    /// Reads the rows of a pack that is open already.
    ///
    /// # Errors
    ///
    /// [`ReadError::NotFixed`] when the header describes no matrix or the index addresses records;
    /// [`ReadError::Format`] when shape, element type and data do not fit each other, or the index
    /// table is damaged; [`ReadError::RequiredExtension`] when the pack needs an extension that is
    /// not known.
    pub fn from_reader(pack: PackReader) -> Result<Self> {
        check_extensions(&pack, |_| false)?;
        let content = &pack.inner.content;
        let RowAddresses::Fixed { shape, rows, data_length, .. } = pack.row_addresses()? else {
            return Err(ReadError::NotFixed { path: Arc::clone(&content.path) });
        };
        let (shape, rows) = (*shape, *rows);
        // A pack that is rescued is opened without this.
        shape
            .check_data_length(*data_length, rows)
            .map_err(|source| content.format_error(source))?;
        let (dim, row_bytes) =
            memory_shape(&shape).ok_or_else(|| no_memory(content, usize::MAX))?;
        Ok(Self { shape, rows, dim, row_bytes, pack })
    }

    /// The pack: header, tables, stored bytes.
    #[must_use]
    pub const fn reader(&self) -> &PackReader {
        &self.pack
    }

    /// Number of rows.
    #[must_use]
    pub const fn record_count(&self) -> u64 {
        self.rows
    }

    /// Elements of a row.
    #[must_use]
    pub const fn dim(&self) -> usize {
        self.dim
    }

    /// Bytes of a row.
    #[must_use]
    pub const fn row_bytes(&self) -> usize {
        self.row_bytes
    }

    /// Type of the elements.
    #[must_use]
    pub const fn element(&self) -> ElementType {
        self.shape.element
    }

    /// Shape of the rows, as the header states it.
    #[must_use]
    pub const fn shape(&self) -> FixedShape {
        self.shape
    }

    /// Reads one row: its elements in little-endian order.
    ///
    /// # Errors
    ///
    /// [`ReadError::Format`] when the row does not exist, [`ReadError::Checksum`] when its bytes
    /// are damaged, [`ReadError::Io`] when the system fails or the file was cut.
    pub fn read(&self, row: u64) -> Result<Bytes> {
        let stored = self.pack.read(row)?;
        if !self.shape.big_endian {
            return Ok(stored);
        }
        let mut elements = stored.to_vec();
        self.shape.to_little_endian(&mut elements);
        Ok(Bytes::from(elements))
    }

    /// Reads rows, in the order asked for, duplicates included, in their storage type.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read); one bad row fails the whole call.
    pub fn read_matrix(&self, rows: &[u64]) -> Result<Matrix> {
        let content = &self.pack.inner.content;
        let total = self.total(rows, self.row_bytes)?;
        let mut batch = crate::batch::ContiguousRecordBatch {
            buffer: reserve(content, total)?,
            offsets: Vec::new(),
        };
        self.pack.read_contiguous_into(rows, &mut batch)?;
        let (mut bytes, _) = batch.into_parts();
        self.shape.to_little_endian(&mut bytes);
        Ok(Matrix::new(bytes, rows.len(), self.dim, self.row_bytes, self.shape.element))
    }

    /// Reads rows into a buffer of just their size. Its contents are unspecified after an error.
    ///
    /// # Errors
    ///
    /// As [`read_matrix`](Self::read_matrix), and [`ReadError::BufferSize`].
    pub fn read_matrix_into(&self, rows: &[u64], buffer: &mut [u8]) -> Result<()> {
        self.check_buffer("bytes", self.total(rows, self.row_bytes)?, buffer.len())?;
        self.pack.inner.content.guarded(|| self.pack.gather_fixed(rows, buffer))?;
        self.shape.to_little_endian(buffer);
        Ok(())
    }

    /// Reads rows as values of a Rust type, which must be the pack's (bytes may stand for
    /// booleans).
    ///
    /// # Errors
    ///
    /// As [`read_matrix`](Self::read_matrix), and [`ReadError::ElementType`].
    pub fn read_matrix_as<T: Element + AnyBitPattern>(&self, rows: &[u64]) -> Result<Vec<T>> {
        self.check_type::<T>()?;
        let mut elements = self.zeros(self.total(rows, self.dim)?, T::zeroed())?;
        self.read_matrix_as_into(rows, &mut elements)?;
        Ok(elements)
    }

    /// Reads rows as values of a Rust type into a slice of just their number. Its contents are
    /// unspecified after an error.
    ///
    /// # Errors
    ///
    /// As [`read_matrix_as`](Self::read_matrix_as), and [`ReadError::BufferSize`].
    pub fn read_matrix_as_into<T: Element + AnyBitPattern>(
        &self,
        rows: &[u64],
        elements: &mut [T],
    ) -> Result<()> {
        self.check_type::<T>()?;
        self.check_buffer("elements", self.total(rows, self.dim)?, elements.len())?;
        let bytes = bytes_of_mut(elements);
        self.pack.inner.content.guarded(|| self.pack.gather_fixed(rows, bytes))?;
        self.shape.to_little_endian(bytes);
        swap_if_big_endian(bytes, T::PART_BYTES);
        Ok(())
    }

    /// Reads rows converted to `f32`: the nearest number, 0 and 1 for booleans. Each element is
    /// touched once, on its way from the file's memory to the result.
    ///
    /// # Errors
    ///
    /// As [`read_matrix`](Self::read_matrix), and [`ReadError::ElementType`] for complex numbers.
    pub fn read_many_f32(&self, rows: &[u64]) -> Result<Vec<f32>> {
        self.check_real()?;
        let mut elements = self.zeros(self.total(rows, self.dim)?, 0.0)?;
        self.read_many_f32_into(rows, &mut elements)?;
        Ok(elements)
    }

    /// Reads rows converted to `f32` into a slice of just their number. Its contents are
    /// unspecified after an error.
    ///
    /// # Errors
    ///
    /// As [`read_many_f32`](Self::read_many_f32), and [`ReadError::BufferSize`].
    pub fn read_many_f32_into(&self, rows: &[u64], elements: &mut [f32]) -> Result<()> {
        self.check_real()?;
        self.check_buffer("elements", self.total(rows, self.dim)?, elements.len())?;
        self.pack.inner.content.guarded(|| {
            let pieces = self.pack.pieces(rows)?;
            let count = self.pack.parts(length_of(&pieces), pieces.len());
            let mut jobs = Vec::with_capacity(count);
            let (mut rest, mut target) = (pieces.as_slice(), elements);
            for left in (1..=count).rev() {
                let (part, behind) = rest.split_at(share_of(rest, left));
                let elements = part.len().saturating_mul(self.dim).min(target.len());
                let (first, others) = std::mem::take(&mut target).split_at_mut(elements);
                jobs.push((part, first));
                (rest, target) = (behind, others);
            }
            let results = self
                .pack
                .options
                .workers
                .run(count, jobs, |(part, elements)| self.convert(part, elements));
            results.into_iter().collect()
        })
    }

    /// All rows as values of a Rust type, where they lie in the source's memory: nothing is copied
    /// and nothing compared with checksums.
    ///
    /// Files of this library are aligned for it; those of others need not be. When another process
    /// cuts the file meanwhile, touching what is gone ends this process, unless
    /// [`guard`](crate::guard) is installed; [`PackReader::check_intact`] tells afterwards.
    ///
    /// # Errors
    ///
    /// [`ReadError::ElementType`]; [`ReadError::NoViews`] when the source only copies;
    /// [`ReadError::NoTypedView`] when the rows are not aligned, or the file's byte order is not the
    /// machine's;
    /// [`ReadError::Io`] when the file was cut.
    pub fn as_slice<T: Element + AnyBitPattern>(&self) -> Result<&[T]> {
        self.check_type::<T>()?;
        let content = &self.pack.inner.content;
        let no_view = |reason| ReadError::NoTypedView { path: Arc::clone(&content.path), reason };
        content.guarded(|| {
            let memory = content
                .source
                .memory()
                .ok_or_else(|| ReadError::NoViews { path: Arc::clone(&content.path) })?;
            if T::PART_BYTES > 1 && cfg!(target_endian = "big") != self.shape.big_endian {
                return Err(no_view("this machine's byte order is not the file's"));
            }
            let data = self.pack.layout().data;
            let bytes = usize::try_from(data.offset)
                .ok()
                .zip(usize::try_from(data.length).ok())
                .and_then(|(start, length)| memory.get(start..)?.get(..length))
                .ok_or_else(|| lost(content))?;
            if bytes.is_empty() {
                return Ok(&[] as &[T]);
            }
            bytemuck::try_cast_slice(bytes)
                .map_err(|_| no_view("the data segment is not aligned for its element type"))
        })
    }

    /// All rows as a two-dimensional array, where they lie in the source's memory.
    ///
    /// # Errors
    ///
    /// As [`as_slice`](Self::as_slice).
    #[cfg(feature = "ndarray")]
    pub fn view<T: Element + AnyBitPattern>(&self) -> Result<ndarray::ArrayView2<'_, T>> {
        let content = &self.pack.inner.content;
        let rows = usize::try_from(self.rows).map_err(|_| no_memory(content, usize::MAX))?;
        ndarray::ArrayView2::from_shape((rows, self.dim), self.as_slice()?)
            .map_err(|_| lost(content))
    }

    /// Reads rows as a two-dimensional array.
    ///
    /// # Errors
    ///
    /// As [`read_matrix_as`](Self::read_matrix_as).
    #[cfg(feature = "ndarray")]
    pub fn read_array<T: Element + AnyBitPattern>(
        &self,
        rows: &[u64],
    ) -> Result<ndarray::Array2<T>> {
        let elements = self.read_matrix_as(rows)?;
        ndarray::Array2::from_shape_vec((rows.len(), self.dim), elements)
            .map_err(|_| lost(&self.pack.inner.content))
    }

    /// Reads rows converted to `f32` as a two-dimensional array.
    ///
    /// # Errors
    ///
    /// As [`read_many_f32`](Self::read_many_f32).
    #[cfg(feature = "ndarray")]
    pub fn read_array_f32(&self, rows: &[u64]) -> Result<ndarray::Array2<f32>> {
        let elements = self.read_many_f32(rows)?;
        ndarray::Array2::from_shape_vec((rows.len(), self.dim), elements)
            .map_err(|_| lost(&self.pack.inner.content))
    }

    /// Converts rows one after the other, each checked before.
    fn convert(&self, pieces: &[Piece], elements: &mut [f32]) -> Result<()> {
        let content = &self.pack.inner.content;
        let memory = content.source.memory();
        let mut scratch = if memory.is_none() { vec![0; self.row_bytes] } else { Vec::new() };
        let mut turned = Vec::new();
        let mut coming = pieces.iter().skip(AHEAD);
        let mut rest = elements;
        for piece in pieces {
            let row = if let Some(memory) = memory {
                if let Some(next) = coming.next().and_then(|piece| piece.find_in(memory)) {
                    load_ahead(next);
                }
                piece.find_in(memory).ok_or_else(|| lost(content))?
            } else {
                content
                    .source
                    .read_into(piece.start, &mut scratch)
                    .map_err(|source| content.io_error("read", source))?;
                &scratch
            };
            self.pack.check(piece, row)?;
            let (target, others) = std::mem::take(&mut rest)
                .split_at_mut_checked(self.dim)
                .ok_or_else(|| lost(content))?;
            if self.shape.big_endian {
                turned.clear();
                turned.extend_from_slice(row);
                self.shape.to_little_endian(&mut turned);
                to_f32(self.shape.element, &turned, target);
            } else {
                to_f32(self.shape.element, row, target);
            }
            rest = others;
        }
        Ok(())
    }

    /// What so many rows of `each` make in all.
    fn total(&self, rows: &[u64], each: usize) -> Result<usize> {
        // Rows are checked before memory is taken for them: a bad one is the better message.
        if let Some(row) = rows.iter().find(|row| **row >= self.rows) {
            let error = FormatError::RowOutOfRange { row: *row, rows: self.rows };
            return Err(self.pack.inner.content.format_error(error));
        }
        rows.len().checked_mul(each).ok_or_else(|| no_memory(&self.pack.inner.content, usize::MAX))
    }

    fn zeros<T: Copy>(&self, count: usize, zero: T) -> Result<Vec<T>> {
        let mut elements = Vec::new();
        elements.try_reserve_exact(count).map_err(|_| {
            no_memory(&self.pack.inner.content, count.saturating_mul(size_of::<T>()))
        })?;
        elements.resize(count, zero);
        Ok(elements)
    }

    fn check_buffer(&self, unit: &'static str, expected: usize, found: usize) -> Result<()> {
        if expected == found {
            return Ok(());
        }
        let count = |size: usize| u64::try_from(size).unwrap_or(u64::MAX);
        Err(ReadError::BufferSize {
            path: Arc::clone(&self.pack.inner.content.path),
            unit,
            expected: count(expected),
            found: count(found),
        })
    }

    fn check_type<T: Element>(&self) -> Result<()> {
        if is_of_type::<T>(self.shape.element) { Ok(()) } else { Err(self.wrong_type(T::TYPE)) }
    }

    fn check_real(&self) -> Result<()> {
        match self.shape.element {
            ElementType::Complex64 | ElementType::Complex128 => {
                Err(self.wrong_type(ElementType::Float32))
            }
            _ => Ok(()),
        }
    }

    fn wrong_type(&self, asked: ElementType) -> ReadError {
        ReadError::ElementType {
            path: Arc::clone(&self.pack.inner.content.path),
            asked,
            found: self.shape.element,
        }
    }
}
