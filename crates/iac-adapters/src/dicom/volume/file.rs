//! Volumes of single DICOM files whose frames are not compressed.

use std::path::Path;

use bytes::Bytes;
use dicom_core::Tag;
use iac_format::ErrorKind;
use iac_ops::Progress;

use super::array::Volume;
use super::groups::{first, text};
use super::mapping::Cache;
use super::read::{Frames, VolumeOptions, read_quietly, read_volume, refused, refused_slice};
use super::report::VolumeReport;
use super::segmentation::Segmentation;
use super::slice::{Form, Found, MOST_FRAMES, Slice, slices_of};
use super::stack::VolumeStack;
use super::words::{VoxelType, WordsMut};
use crate::dicom::number;
use crate::dicom::object::{DataSet, ElementValue, PIXEL_DATA};
use crate::dicom::parse::DicomFile;
use crate::error::{AdapterError, Result};

const FLOAT_PIXELS: Tag = Tag(0x7FE0, 0x0008);
const DOUBLE_PIXELS: Tag = Tag(0x7FE0, 0x0009);

/// A DICOM file as a source of slices: any number of frames of 1, 8, 16 or 32 bits, floats or
/// doubles, that are not compressed.
///
/// ```no_run
/// use iac_adapters::dicom::volume::{VolumeFile, VolumeOptions};
///
/// let dose = VolumeFile::open("dose.dcm")?;
/// let found = dose.volume_stacks();
/// let volume = dose.read_volume(&found.stacks[0], &VolumeOptions::default())?;
/// println!("{} voxels in {}", volume.voxels.shape().iter().product::<usize>(), volume.units);
/// # Ok::<(), iac_adapters::AdapterError>(())
/// ```
#[derive(Debug, Clone)]
pub struct VolumeFile {
    name: String,
    file: DicomFile,
    pixels: Bytes,
    form: Form,
    /// Samples are single bits, 8 to a byte.
    packed: bool,
    /// Bits of a sample that are not stored, above those that are.
    unused: u32,
}

impl VolumeFile {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// [`AdapterError::Io`] when it cannot be read; otherwise as [`new`](Self::new) and
    /// [`DicomFile::parse`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let bytes = std::fs::read(path).map_err(AdapterError::io(path, "cannot be read"))?;
        let name = path.display().to_string();
        Self::new(DicomFile::parse(&bytes.into(), &name)?, &name)
    }

    /// Takes a file that was read; `name` stands in messages.
    ///
    /// # Errors
    ///
    /// [`AdapterError::Source`]: kind `unsupported` when its pixel data is compressed or of no known
    /// form; kind `schema` when it has none, or its description is not complete; kind `decode` when
    /// there is less of it than its frames take; kind `limit` for more than 262,144 frames.
    pub fn new(file: DicomFile, name: &str) -> Result<Self> {
        let data = &file.data;
        let wrong = |kind, reason: String| refused(name, kind, reason);
        let schema = |reason: &str| wrong(ErrorKind::Schema, reason.to_owned());
        let number = |tag: Tag| data.get(tag).and_then(first).map(super::slice::to_whole);
        let found =
            [PIXEL_DATA, FLOAT_PIXELS, DOUBLE_PIXELS].into_iter().find_map(|tag| data.get(tag));
        let pixels = match found.map(|element| (element.tag, &element.value)) {
            Some((_, ElementValue::Bytes(bytes))) => bytes.clone(),
            Some(_) => {
                let reason = "its frames are compressed, and files are read with others only";
                return Err(wrong(ErrorKind::Unsupported, reason.to_owned()));
            }
            None => return Err(schema("it has no pixel data")),
        };
        let side = |tag, what: &str| {
            let side = number(tag).and_then(|side| u32::try_from(side).ok());
            side.filter(|side| *side > 0)
                .ok_or_else(|| schema(&format!("it has no usable number of {what}")))
        };
        let size = [side(Tag(0x0028, 0x0010), "rows")?, side(Tag(0x0028, 0x0011), "columns")?];
        let samples = number(Tag(0x0028, 0x0002)).unwrap_or(1);
        let samples = u32::try_from(samples).ok().filter(|samples| (1..=4).contains(samples));
        let samples = samples.ok_or_else(|| schema("it has no usable number of samples"))?;
        let frames = match data.get(Tag(0x0028, 0x0008)).and_then(text) {
            None => 1,
            Some(text) => number::integer(&text)
                .and_then(|frames| u32::try_from(frames).ok())
                .filter(|frames| *frames > 0)
                .ok_or_else(|| schema("its number of frames is no number above 0"))?,
        };
        if frames > MOST_FRAMES {
            let reason = format!("it has {frames} frames, where {MOST_FRAMES} are allowed");
            return Err(wrong(ErrorKind::Limit, reason));
        }
        let allocated = number(Tag(0x0028, 0x0100));
        let signed = number(Tag(0x0028, 0x0103)) == Some(1);
        let (voxel_type, packed) = match (found.map(|it| it.tag), allocated, signed) {
            (Some(FLOAT_PIXELS), _, _) => (VoxelType::F32, false),
            (Some(DOUBLE_PIXELS), _, _) => (VoxelType::F64, false),
            (_, Some(1), _) => (VoxelType::U8, true),
            (_, Some(8), false) => (VoxelType::U8, false),
            (_, Some(8), true) => (VoxelType::I8, false),
            (_, Some(16), false) => (VoxelType::U16, false),
            (_, Some(16), true) => (VoxelType::I16, false),
            (_, Some(32), false) => (VoxelType::U32, false),
            (_, Some(32), true) => (VoxelType::I32, false),
            (_, allocated, _) => {
                let bits = allocated.map_or_else(|| "unknown".to_owned(), |bits| bits.to_string());
                let reason = format!("samples of {bits} bits allocated are not read");
                return Err(wrong(ErrorKind::Unsupported, reason));
            }
        };
        let unused = match (allocated, number(Tag(0x0028, 0x0101)), number(Tag(0x0028, 0x0102))) {
            (Some(allocated), Some(stored), Some(high))
                if stored > 0
                    && stored < allocated
                    && high == stored.saturating_sub(1)
                    && !matches!(voxel_type, VoxelType::F32 | VoxelType::F64) =>
            {
                u32::try_from(allocated.saturating_sub(stored)).unwrap_or(0)
            }
            _ => 0,
        };
        let form = Form {
            row: 0,
            frames,
            row_per_frame: false,
            size,
            samples,
            voxel_type,
            in_order: false,
        };
        let made = Self { name: name.to_owned(), pixels, form, packed, unused, file };
        let needed = made.bytes_of(u64::from(frames));
        if needed.is_none_or(|needed| u64::try_from(made.pixels.len()).is_ok_and(|it| it < needed))
        {
            let needed = needed.map_or_else(|| "too many".to_owned(), |needed| needed.to_string());
            let reason = format!(
                "its pixel data has {} bytes, where {frames} frames of {} x {} take {needed}",
                made.pixels.len(),
                size[0],
                size[1]
            );
            return Err(wrong(ErrorKind::Decode, reason));
        }
        Ok(made)
    }

    /// The elements of the object.
    #[must_use]
    pub const fn data_set(&self) -> &DataSet {
        &self.file.data
    }

    /// Frames of the object.
    #[must_use]
    pub const fn frames(&self) -> u32 {
        self.form.frames
    }

    /// Samples of so many frames.
    fn samples_of(&self, frames: u64) -> Option<u64> {
        let [rows, columns] = self.form.size.map(u64::from);
        let samples = rows.checked_mul(columns)?.checked_mul(u64::from(self.form.samples))?;
        samples.checked_mul(frames)
    }

    /// Bytes of so many frames.
    fn bytes_of(&self, frames: u64) -> Option<u64> {
        let samples = self.samples_of(frames)?;
        if self.packed {
            return Some(samples.div_ceil(8));
        }
        samples.checked_mul(u64::try_from(self.form.voxel_type.bytes()).ok()?)
    }

    fn slices(&self, in_order: bool) -> Found {
        let mut found = Found::default();
        let form = Form { in_order, ..self.form };
        slices_of(&self.file.data, form, &mut Cache::default(), &mut found);
        found
    }

    /// The stacks that the frames make, as [`DicomPackReader::volume_stacks`] finds them.
    ///
    /// [`DicomPackReader::volume_stacks`]: crate::dicom::DicomPackReader::volume_stacks
    #[must_use]
    pub fn volume_stacks(&self) -> VolumeReport {
        VolumeReport::of(self.slices(false), true)
    }

    /// The frames in their order, whatever is known of their places, as
    /// [`DicomPackReader::stacks_in_order`] takes instances.
    ///
    /// [`DicomPackReader::stacks_in_order`]: crate::dicom::DicomPackReader::stacks_in_order
    #[must_use]
    pub fn stacks_in_order(&self) -> VolumeReport {
        VolumeReport::of(self.slices(true), false)
    }

    /// Reads the frames of a stack into one array, as [`DicomPackReader::read_volume`] does.
    ///
    /// # Errors
    ///
    /// As [`DicomPackReader::read_volume`].
    ///
    /// [`DicomPackReader::read_volume`]: crate::dicom::DicomPackReader::read_volume
    pub fn read_volume(&self, stack: &VolumeStack, options: &VolumeOptions) -> Result<Volume> {
        read_quietly(self, stack, options)
    }

    /// The same, telling about the frames that are done, and stopping when asked to.
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

    /// The object as a segmentation.
    ///
    /// # Errors
    ///
    /// [`AdapterError::Source`] (kind `schema`) when it is none.
    pub fn segmentation(&self) -> Result<Segmentation<'_>> {
        Segmentation::new(self, &self.file.data, self.slices(false))
    }

    /// Single bits, the lowest of each byte first; frames follow each other without padding.
    fn unpack(&self, start: u64, out: &mut [u8]) -> Option<()> {
        for (number, place) in (start..).zip(out) {
            let byte = self.pixels.get(usize::try_from(number / 8).ok()?)?;
            *place = (byte >> (number % 8)) & 1;
        }
        Some(())
    }
}

/// Clears or sign-extends so many bits above those that are stored.
fn settle(out: WordsMut<'_>, unused: u32, signed: bool) {
    macro_rules! settle {
        ($words:expr) => {
            for word in $words {
                let up = word.wrapping_shl(unused);
                *word = if signed {
                    up.cast_signed().wrapping_shr(unused).cast_unsigned()
                } else {
                    up.wrapping_shr(unused)
                };
            }
        };
    }
    match out {
        WordsMut::W8(words) => settle!(words),
        WordsMut::W16(words) => settle!(words),
        WordsMut::W32(words) => settle!(words),
        WordsMut::W64(words) => settle!(words),
    }
}

impl Frames for VolumeFile {
    fn path(&self) -> &str {
        &self.name
    }

    fn read(&self, slice: &Slice, mut out: WordsMut<'_>) -> Result<()> {
        let wrong = |reason: &str| refused_slice(&self.name, slice, ErrorKind::Usage, reason);
        let is_one = slice.row == 0
            && slice.frame < self.form.frames
            && slice.size == self.form.size
            && out.len() == slice.samples()
            && out.bytes_of_word() == self.form.voxel_type.bytes()
            && self.form.samples == 1;
        if !is_one {
            return Err(wrong("no frame of this file"));
        }
        let frame = u64::from(slice.frame);
        let missing = || refused_slice(&self.name, slice, ErrorKind::Decode, "its samples are cut");
        if self.packed {
            let start = self.samples_of(frame).ok_or_else(missing)?;
            let WordsMut::W8(out) = out else {
                return Err(wrong("no frame of this file"));
            };
            return self.unpack(start, out).ok_or_else(missing);
        }
        let start = self.bytes_of(frame).and_then(|start| usize::try_from(start).ok());
        let bytes = start.and_then(|start| self.pixels.get(start..)).ok_or_else(missing)?;
        if !out.fill_from_le_bytes(bytes) {
            return Err(missing());
        }
        if self.unused > 0 {
            let signed =
                matches!(self.form.voxel_type, VoxelType::I8 | VoxelType::I16 | VoxelType::I32);
            settle(out, self.unused, signed);
        }
        Ok(())
    }
}
