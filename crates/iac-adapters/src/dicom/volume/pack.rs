//! Volumes of patient packs.

use bytemuck::cast_slice_mut;
use iac_codec::SamplesMut;
use iac_format::ErrorKind;
use iac_ops::Progress;

use super::array::Volume;
use super::mapping::Cache;
use super::read::{Frames, VolumeOptions, read_quietly, read_volume, refused_slice};
use super::report::VolumeReport;
use super::slice::{Form, Found, Slice, slices_of};
use super::stack::VolumeStack;
use super::words::{VoxelType, WordsMut};
use crate::dicom::read::{DicomPackReader, Series};
use crate::dicom::samples::PixelSamplesMut;
use crate::error::{AdapterError, Result};

impl DicomPackReader {
    /// The stacks of slices that a series has, with everything that stands in the way of a volume.
    /// Reads the metadata of every instance, and no samples.
    ///
    /// ```no_run
    /// use iac_adapters::dicom::DicomPackReader;
    /// use iac_adapters::dicom::volume::VolumeOptions;
    ///
    /// let pack = DicomPackReader::open("patient.rad.iac")?;
    /// let found = pack.volume_stacks(&pack.series()[0])?;
    /// if let Some(stack) = found.stacks.first().filter(|stack| stack.is_regular()) {
    ///     let volume = pack.read_volume(stack, &VolumeOptions::default())?;
    ///     println!("{:?} of {:?} mm", volume.voxels.shape(), volume.affine.lengths());
    /// }
    /// # Ok::<(), iac_adapters::AdapterError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`attributes`](Self::attributes) and [`shape`](Self::shape).
    pub fn volume_stacks(&self, series: &Series) -> Result<VolumeReport> {
        Ok(VolumeReport::of(self.slices(&self.rows_of(series)?, false)?, true))
    }

    /// The images of a series in the order of their rows, whatever is known of their places: for
    /// those that have none. Distances are those that are stated, else 1; the volume and its files
    /// do not say where it lies.
    ///
    /// # Errors
    ///
    /// As [`volume_stacks`](Self::volume_stacks).
    pub fn stacks_in_order(&self, series: &Series) -> Result<VolumeReport> {
        Ok(VolumeReport::of(self.slices(&self.rows_of(series)?, true)?, false))
    }

    /// The slices of instances that have images.
    pub(super) fn slices(&self, rows: &[u64], in_order: bool) -> Result<Found> {
        let (mut found, mut cache) = (Found::default(), Cache::default());
        for row in rows.iter().copied() {
            let Some(pixel_type) = self.pixel_type(row)? else {
                continue;
            };
            // The first frame's row tells of all frames of its object.
            if self.frame_of(row)? != 0 {
                continue;
            }
            let shape = self.shape(row)?;
            let frames = self.frame_count(self.instance_of(row)?)?;
            let form = Form {
                row,
                frames: u32::try_from(frames).map_err(|_| {
                    self.schema_row(row, "frame_idx", format!("{frames} frames are too many"))
                })?,
                row_per_frame: true,
                size: [shape.height(), shape.width()],
                samples: shape.channels(),
                voxel_type: pixel_type,
                in_order,
            };
            slices_of(&self.data_set(row)?, form, &mut cache, &mut found);
        }
        Ok(found)
    }

    /// Reads the slices of a stack into one array, decoded on several threads.
    ///
    /// # Errors
    ///
    /// [`AdapterError::Source`]: kind `unsupported` when the stack is not regular and the options do
    /// not say what to do about that, or samples of several types are to be kept as they are; kind
    /// `schema` when slices cannot be rescaled; kind `limit` when the voxels take too much memory.
    /// Otherwise as [`read_pixels`](Self::read_pixels).
    pub fn read_volume(&self, stack: &VolumeStack, options: &VolumeOptions) -> Result<Volume> {
        read_quietly(self, stack, options)
    }

    /// The same, telling about the slices that are done, and stopping when asked to.
    ///
    /// # Errors
    ///
    /// As [`read_volume`](Self::read_volume), and [`AdapterError::Ops`] when it was stopped.
    pub fn read_volume_with(
        &self,
        stack: &VolumeStack,
        options: &VolumeOptions,
        progress: &dyn Progress,
    ) -> Result<Volume> {
        read_volume(self, stack, options, progress)
    }

    /// Rows of instances whose slices can be read together, in the order of the slices.
    fn rows_of_slices(&self, slices: &[&Slice]) -> Result<Vec<u64>> {
        let mut rows = Vec::with_capacity(slices.len());
        for slice in slices {
            let pixel_type = self.pixel_type(slice.row)?;
            let shape = self.shape(slice.row)?;
            let is_same = pixel_type == Some(slice.voxel_type)
                && [shape.height(), shape.width()] == slice.size
                && shape.channels() == 1;
            if !is_same {
                return Err(AdapterError::usage(format!(
                    "row {} of {} is not the slice that it is said to be",
                    slice.row,
                    Frames::path(self)
                )));
            }
            rows.push(slice.row);
        }
        Ok(rows)
    }
}

impl Frames for DicomPackReader {
    fn path(&self) -> &str {
        self.reader().path()
    }

    fn read(&self, slice: &Slice, out: WordsMut<'_>) -> Result<()> {
        self.read_many(&[slice], out)
    }

    fn read_many(&self, slices: &[&Slice], out: WordsMut<'_>) -> Result<()> {
        let Some(first) = slices.first() else {
            return Ok(());
        };
        let rows = self.rows_of_slices(slices)?;
        if !self.is_second() {
            let shape = self.shape(first.row)?;
            let samples = match out {
                WordsMut::W8(words) => SamplesMut::U8(words),
                WordsMut::W16(words) => SamplesMut::U16(words),
                WordsMut::W32(_) | WordsMut::W64(_) => {
                    return Err(refused_slice(
                        Frames::path(self),
                        first,
                        ErrorKind::Unsupported,
                        "images of schema 1 have 8 or 16 bits",
                    ));
                }
            };
            return Ok(self.records().read_image_batch_into(&rows, shape, samples)?);
        }
        // Words are bits: what the samples are is known to whom they are read for.
        let samples = match (out, first.voxel_type) {
            (WordsMut::W8(words), VoxelType::I8) => PixelSamplesMut::I8(cast_slice_mut(words)),
            (WordsMut::W8(words), _) => PixelSamplesMut::U8(words),
            (WordsMut::W16(words), VoxelType::I16) => PixelSamplesMut::I16(cast_slice_mut(words)),
            (WordsMut::W16(words), _) => PixelSamplesMut::U16(words),
            (WordsMut::W32(words), VoxelType::I32) => PixelSamplesMut::I32(cast_slice_mut(words)),
            (WordsMut::W32(words), VoxelType::F32) => PixelSamplesMut::F32(cast_slice_mut(words)),
            (WordsMut::W32(words), _) => PixelSamplesMut::U32(words),
            (WordsMut::W64(words), _) => PixelSamplesMut::F64(cast_slice_mut(words)),
        };
        self.read_rows_into(&rows, samples)
    }
}
