//! Frames of instances, of packs of either schema.
//!
//! Instances are counted from 0 in the order of the table. In packs of schema 1 each has one row and
//! at most one frame; in those of schema 2 an instance has a row for each of its frames, one after
//! the other, and one row when it has no image. Rows are what
//! [`read_pixels`](DicomPackReader::read_pixels), [`data_set`](DicomPackReader::data_set) and the
//! other calls take.

use std::ops::Range;
use std::sync::Arc;

use iac_codec::SamplesMut;

use super::geometry::Place;
use super::number;
use super::object::DataSet;
use super::prepare::INSTANCE_NUMBER;
use super::read::DicomPackReader;
use super::samples::{PixelBatch, PixelSamples, PixelSamplesMut, PixelType, Pixels};
use super::schema2::FrameFacts;
use super::schema2::facts::FactsOf;
use super::schema2::groups;
use super::schema2::payload::FrameCodec;
use crate::error::{AdapterError, Result};

/// Memory that a batch takes on the mere word of the table.
const BELIEVED_BYTES: usize = 1 << 30;

impl DicomPackReader {
    /// Number of rows of the index table: one for each frame, and one for each instance without
    /// any.
    #[must_use]
    pub fn row_count(&self) -> u64 {
        self.rows()
    }

    fn check_instance(&self, instance: u64) -> Result<()> {
        if instance < self.instance_count() {
            return Ok(());
        }
        Err(AdapterError::usage(format!(
            "instance {instance} is out of range ({} has {} instances)",
            self.reader().path(),
            self.instance_count()
        )))
    }

    /// The rows of an instance.
    ///
    /// # Errors
    ///
    /// [`AdapterError::Usage`] for an instance that does not exist; [`AdapterError::Schema`] and
    /// [`AdapterError::Read`] when the table is damaged.
    pub fn instance_rows(&self, instance: u64) -> Result<Range<u64>> {
        self.check_instance(instance)?;
        if !self.is_second() {
            return Ok(instance..instance.saturating_add(1));
        }
        let starts = self.instance_starts()?;
        let place = usize::try_from(instance).unwrap_or(usize::MAX);
        match (starts.get(place), starts.get(place.saturating_add(1))) {
            (Some(start), Some(end)) => Ok(*start..*end),
            _ => Err(AdapterError::schema(
                self.reader().path(),
                "instance_idx",
                format!("the table has no rows of instance {instance}"),
            )),
        }
    }

    /// The first row of each instance, in order.
    ///
    /// # Errors
    ///
    /// [`AdapterError::Schema`] and [`AdapterError::Read`] when the table is damaged.
    pub fn first_rows(&self) -> Result<Vec<u64>> {
        if !self.is_second() {
            return Ok((0..self.row_count()).collect());
        }
        let starts = self.instance_starts()?;
        Ok(starts.split_last().map_or_else(Vec::new, |(_, starts)| starts.to_vec()))
    }

    /// The instance that a row belongs to.
    ///
    /// # Errors
    ///
    /// [`AdapterError::RowOutOfRange`]; those of damaged columns.
    pub fn instance_of(&self, row: u64) -> Result<u64> {
        self.check_row(row)?;
        if !self.is_second() {
            return Ok(row);
        }
        let behind = self.instance_starts()?.partition_point(|start| *start <= row);
        Ok(u64::try_from(behind).unwrap_or(u64::MAX).saturating_sub(1))
    }

    /// The number of a row's frame within its instance, counted from 0.
    ///
    /// # Errors
    ///
    /// As [`instance_of`](Self::instance_of).
    pub fn frame_of(&self, row: u64) -> Result<u64> {
        self.check_row(row)?;
        if self.is_second() { self.frame_number(row) } else { Ok(0) }
    }

    /// Number of frames of an instance; 0 without an image.
    ///
    /// # Errors
    ///
    /// As [`instance_rows`](Self::instance_rows).
    pub fn frame_count(&self, instance: u64) -> Result<u64> {
        let rows = self.instance_rows(instance)?;
        if !self.has_pixels(rows.start)? {
            return Ok(0);
        }
        Ok(rows.end.saturating_sub(rows.start))
    }

    /// The row of a frame.
    ///
    /// # Errors
    ///
    /// As [`instance_rows`](Self::instance_rows); [`AdapterError::Usage`] for a frame that does not
    /// exist.
    pub fn frame_row(&self, instance: u64, frame: u64) -> Result<u64> {
        let frames = self.frame_count(instance)?;
        if frame >= frames {
            return Err(AdapterError::usage(format!(
                "frame {frame} is out of range (instance {instance} of {} has {frames} frames)",
                self.reader().path()
            )));
        }
        Ok(self.instance_rows(instance)?.start.saturating_add(frame))
    }

    /// Reads one frame in its own type. Of the data segment only the bytes of this frame are read.
    ///
    /// ```no_run
    /// use iac_adapters::dicom::DicomPackReader;
    ///
    /// let pack = DicomPackReader::open("loops.rad.iac")?;
    /// for frame in 0..pack.frame_count(0)? {
    ///     let pixels = pack.read_frame(0, frame)?;
    ///     println!("{frame}: {} {}", pixels.shape, pixels.samples.pixel_type().name());
    /// }
    /// # Ok::<(), iac_adapters::AdapterError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`frame_row`](Self::frame_row) and [`read_pixels`](Self::read_pixels).
    pub fn read_frame(&self, instance: u64, frame: u64) -> Result<Pixels> {
        self.read_pixels(self.frame_row(instance, frame)?)
    }

    /// Reads frames, given as (instance, frame), of one shape and type into one buffer: N x H x W,
    /// or N x H x W x C; in the order asked for, duplicates included. They are decoded on all
    /// workers of the reader's options.
    ///
    /// # Errors
    ///
    /// As [`read_frame`](Self::read_frame); [`AdapterError::Usage`] when there are no frames, or
    /// they differ in shape or type.
    pub fn read_frames(&self, frames: &[(u64, u64)]) -> Result<PixelBatch> {
        self.read_pixel_batch(&self.frame_rows(frames)?)
    }

    /// The same into memory of the caller's, which must have the type of the frames and room for
    /// exactly these; any number of frames is fine. Its contents are unspecified after an error.
    ///
    /// ```no_run
    /// use iac_adapters::dicom::DicomPackReader;
    ///
    /// let pack = DicomPackReader::open("ct.rad.iac")?;
    /// let shape = pack.shape(0)?;
    /// let mut volume = vec![0_i16; 2 * shape.samples()];
    /// pack.read_frames_into(&[(0, 5), (0, 6)], &mut volume[..])?;
    /// # Ok::<(), iac_adapters::AdapterError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`read_frames`](Self::read_frames); [`AdapterError::Usage`] when the memory has another
    /// type or size.
    pub fn read_frames_into<'a>(
        &self,
        frames: &[(u64, u64)],
        out: impl Into<PixelSamplesMut<'a>>,
    ) -> Result<()> {
        self.read_rows_into(&self.frame_rows(frames)?, out)
    }

    /// The same for rows.
    ///
    /// # Errors
    ///
    /// As [`read_frames_into`](Self::read_frames_into).
    pub fn read_rows_into<'a>(
        &self,
        rows: &[u64],
        out: impl Into<PixelSamplesMut<'a>>,
    ) -> Result<()> {
        let out = out.into();
        let Some(first) = rows.first() else {
            return self.check_room(0, out.len());
        };
        let (shape, pixel_type) = self.common_form(*first, rows)?;
        if out.pixel_type() != pixel_type {
            return Err(AdapterError::usage(format!(
                "the memory holds samples of type {}, but those of {} are {}",
                out.pixel_type().name(),
                self.reader().path(),
                pixel_type.name()
            )));
        }
        self.check_room(rows.len().saturating_mul(shape.samples()), out.len())?;
        let jobs: Vec<(u64, PixelSamplesMut<'_>)> =
            rows.iter().copied().zip(out.split(shape.samples())).collect();
        self.reader().run_jobs(jobs, |(row, mut place)| {
            if self.is_second() {
                return self.decode_frame_into(row, &self.frame_form(row)?, place);
            }
            let pixels = self.read_pixels(row)?;
            if place.copy_from(&pixels.samples) {
                return Ok(());
            }
            Err(self.schema_row(row, "rows", "its image has another size than the table says"))
        })?;
        Ok(())
    }

    fn check_room(&self, expected: usize, found: usize) -> Result<()> {
        if expected == found {
            return Ok(());
        }
        Err(AdapterError::usage(format!(
            "the memory has room for {found} samples, but the frames of {} have {expected}",
            self.reader().path()
        )))
    }

    fn frame_rows(&self, frames: &[(u64, u64)]) -> Result<Vec<u64>> {
        frames.iter().map(|(instance, frame)| self.frame_row(*instance, *frame)).collect()
    }

    pub(crate) fn read_batch_of_rows(&self, rows: &[u64]) -> Result<PixelBatch> {
        let Some(first) = rows.first() else {
            return Err(AdapterError::usage("no rows were asked for"));
        };
        let (shape, pixel_type) = self.common_form(*first, rows)?;
        let count = rows.len().checked_mul(shape.samples());
        // A table that asks for a lot of memory has to prove its claim.
        if count.is_none_or(|it| it.saturating_mul(pixel_type.bytes()) > BELIEVED_BYTES) {
            drop(self.read_pixels(*first)?);
        }
        let mut samples = count
            .and_then(|count| PixelSamples::zeroed(pixel_type, count))
            .ok_or_else(|| AdapterError::usage("the images do not fit into memory"))?;
        self.read_rows_into(rows, samples.as_mut())?;
        Ok(PixelBatch { shape, count: rows.len(), samples })
    }

    /// How the frame of a row is stored, in the words of the format: `jxl` in packs of schema 1; in
    /// those of schema 2 what the column `codec` says, empty for an instance without an image.
    ///
    /// # Errors
    ///
    /// As [`instance_of`](Self::instance_of).
    pub fn stored_as(&self, row: u64) -> Result<&'static str> {
        if !self.has_pixels(row)? {
            return Ok("");
        }
        if self.is_second() { self.frame_codec(row).map(FrameCodec::name) } else { Ok("jxl") }
    }

    /// Where a frame lies and what its samples mean: its own functional groups before those that
    /// all frames share, and these before the data set.
    ///
    /// In packs of schema 2 this comes from the table, without an object being opened.
    ///
    /// # Errors
    ///
    /// As [`frame_row`](Self::frame_row) and [`data_set`](Self::data_set).
    pub fn frame_facts(&self, instance: u64, frame: u64) -> Result<FrameFacts> {
        self.facts(self.frame_row(instance, frame)?)
    }

    /// The same for a row.
    ///
    /// # Errors
    ///
    /// As [`frame_facts`](Self::frame_facts).
    pub fn facts(&self, row: u64) -> Result<FrameFacts> {
        self.check_row(row)?;
        if self.is_second() {
            return self.facts_of_row(row);
        }
        Ok(FactsOf::new(&self.data_set(row)?).of(0, None))
    }

    /// The functional groups of one frame alone (its item of 5200,9230); empty when it has none.
    ///
    /// # Errors
    ///
    /// As [`frame_row`](Self::frame_row); [`AdapterError::Source`] when they are damaged.
    pub fn frame_groups(&self, instance: u64, frame: u64) -> Result<DataSet> {
        let row = self.frame_row(instance, frame)?;
        if self.is_second() {
            return Ok(self.groups_of_row(row)?.unwrap_or_default());
        }
        let data = self.data_set(row)?;
        let items = data.get(groups::PER_FRAME).and_then(super::Element::items);
        Ok(items.and_then(<[DataSet]>::first).cloned().unwrap_or_default())
    }

    /// The functional groups that all frames of an instance share (5200,9229); empty when there are
    /// none.
    ///
    /// # Errors
    ///
    /// As [`data_set`](Self::data_set).
    pub fn shared_groups(&self, instance: u64) -> Result<DataSet> {
        let row = self.instance_rows(instance)?.start;
        let data = self.base_data_set(row)?;
        Ok(groups::shared_of(&data).cloned().unwrap_or_default())
    }

    /// The data set of a row's instance without the functional groups of frames.
    fn base_data_set(&self, row: u64) -> Result<Arc<DataSet>> {
        if self.is_second() { self.shared_data(row) } else { self.data_set(row).map(Arc::new) }
    }

    /// The data set of one frame, as if it were an object of its own: what its functional groups
    /// say of it stands beside the other elements, and the groups are gone. Of the metadata of other
    /// frames only what lies in the same block is read.
    ///
    /// # Errors
    ///
    /// As [`data_set`](Self::data_set).
    pub fn frame_data_set(&self, row: u64) -> Result<DataSet> {
        self.check_row(row)?;
        let data = self.base_data_set(row)?;
        if self.is_second() {
            let own = self.groups_of_row(row)?;
            return Ok(groups::flatten(DataSet::clone(&data), own.as_ref()));
        }
        let own = data.get(groups::PER_FRAME).and_then(super::Element::items);
        let own = own.and_then(<[DataSet]>::first).cloned();
        Ok(groups::flatten(Arc::unwrap_or_clone(data), own.as_ref()))
    }

    /// Frames of 8 and 16 bits as unsigned words.
    pub(crate) fn read_unsigned_rows(&self, rows: &[u64], out: SamplesMut<'_>) -> Result<()> {
        let Some(first) = rows.first() else {
            return Ok(());
        };
        let (shape, pixel_type) = self.common_form(*first, rows)?;
        self.check_room(rows.len().saturating_mul(shape.samples()), out.as_ref().len())?;
        match (out, pixel_type) {
            (SamplesMut::U8(out), PixelType::U8) => self.read_rows_into(rows, out),
            (SamplesMut::U16(out), PixelType::U16) => self.read_rows_into(rows, out),
            (SamplesMut::U8(out), PixelType::I8) => {
                self.read_rows_into(rows, bytemuck::cast_slice_mut::<u8, i8>(out))
            }
            (SamplesMut::U16(out), PixelType::I16) => {
                self.read_rows_into(rows, bytemuck::cast_slice_mut::<u16, i16>(out))
            }
            (out, pixel_type) => Err(AdapterError::usage(format!(
                "samples of type {} do not go into memory of type {}",
                pixel_type.name(),
                out.as_ref().sample_type()
            ))),
        }
    }

    /// Where a row's image lies, with what its frame says.
    pub(crate) fn place_of_row(&self, row: u64) -> Result<Place> {
        let data = self.frame_data_set(row)?;
        let mut place = Place::of(&data);
        place.instance_number = data
            .ascii(INSTANCE_NUMBER)
            .and_then(|text| number::integer(&text))
            .and_then(|it| i32::try_from(it).ok())
            .unwrap_or(-1);
        if self.is_second() {
            // Planes of a dose have no position of their own among the elements.
            place.position = self.facts_of_row(row)?.position.or(place.position);
        }
        Ok(place)
    }
}
