//! Images of instances, one by one and in batches.

use iac_codec::{ImageShape, SampleType, Samples, SamplesMut};

use super::{DicomPackReader, codec_error};
use crate::columns::IntColumn;
use crate::dicom::samples::{PixelBatch, PixelSamples, PixelType, Pixels};
use crate::error::{AdapterError, Result};

impl DicomPackReader {
    /// The type of an instance's samples; nothing for an instance without an image.
    ///
    /// # Errors
    ///
    /// As [`read_pixels`](Self::read_pixels).
    pub fn pixel_type(&self, row: u64) -> Result<Option<PixelType>> {
        if !self.has_pixels(row)? {
            return Ok(None);
        }
        let name = self.instances()?.dtype.get(row).unwrap_or_default();
        PixelType::from_name(name).map(Some).ok_or_else(|| {
            self.schema_row(
                row,
                "pixel_dtype",
                format!("\"{}\" is no known type", crate::error::short(name)),
            )
        })
    }

    /// Height, width and channels of an instance's image, as the table says.
    ///
    /// # Errors
    ///
    /// As [`read_pixels`](Self::read_pixels).
    pub fn shape(&self, row: u64) -> Result<ImageShape> {
        self.check_row(row)?;
        let instances = self.instances()?;
        let number = |column: &IntColumn| column.get(row).and_then(|it| u32::try_from(it).ok());
        let channels = match &instances.channels {
            Some(column) => number(column).unwrap_or(1).max(1),
            None => 1,
        };
        let (Some(height), Some(width)) = (number(&instances.rows), number(&instances.columns))
        else {
            return Err(self.schema_row(row, "rows", "no usable size"));
        };
        ImageShape::new(height, width, channels).map_err(|_| {
            self.schema_row(
                row,
                "rows",
                format!("{height} x {width} x {channels} is no size of an image"),
            )
        })
    }

    pub(crate) fn image_form(&self, row: u64) -> Result<(ImageShape, PixelType)> {
        let Some(pixel_type) = self.pixel_type(row)? else {
            return Err(AdapterError::usage(format!(
                "row {row} of {} has no pixel data",
                self.reader().path()
            )));
        };
        Ok((self.shape(row)?, pixel_type))
    }

    /// Reads the image of one instance: samples as they are stored, in their own type.
    ///
    /// # Errors
    ///
    /// [`AdapterError::RowOutOfRange`]; [`AdapterError::Usage`] when the instance has no image;
    /// [`AdapterError::Read`] when its payload is damaged; [`AdapterError::Schema`] when it holds
    /// an image of another shape or type than the table says.
    pub fn read_pixels(&self, row: u64) -> Result<Pixels> {
        if self.is_second() {
            return self.read_frame_row(row);
        }
        let (shape, pixel_type) = self.image_form(row)?;
        let image = self.records.read_image(row)?;
        if image.shape() != shape {
            return Err(self.schema_row(
                row,
                "rows",
                format!(
                    "the payload holds an image of {}, but the table says {shape}",
                    image.shape()
                ),
            ));
        }
        let found = image.sample_type();
        let samples = PixelSamples::from_unsigned(pixel_type, image.into_samples());
        let samples = samples.ok_or_else(|| {
            let wanted = pixel_type.name();
            self.schema_row(
                row,
                "pixel_dtype",
                format!("the payload holds samples of type {found}, but the table says {wanted}"),
            )
        })?;
        Ok(Pixels { shape, samples })
    }

    /// Reads images of one shape and type into one buffer, in the order asked for, duplicates
    /// included. They are decoded on all workers of the reader's options.
    ///
    /// # Errors
    ///
    /// As [`read_pixels`](Self::read_pixels); [`AdapterError::Usage`] when there are no rows, or
    /// images differ in shape or type.
    pub fn read_pixel_batch(&self, rows: &[u64]) -> Result<PixelBatch> {
        let Some(first) = rows.first() else {
            return Err(AdapterError::usage("no rows were asked for"));
        };
        if self.is_second() {
            return self.read_batch_of_rows(rows);
        }
        let (shape, pixel_type) = self.common_form(*first, rows)?;
        let count = rows.len().checked_mul(shape.samples());
        let count =
            count.ok_or_else(|| AdapterError::usage("the images do not fit into memory"))?;
        let sample_type = if pixel_type.bytes() == 1 { SampleType::U8 } else { SampleType::U16 };
        let mut samples = Samples::zeroed(sample_type, count)
            .map_err(|source| codec_error(self.reader(), None, source))?;
        self.records.read_image_batch_into(rows, shape, samples.as_mut())?;
        let samples = PixelSamples::from_unsigned(pixel_type, samples)
            .ok_or_else(|| AdapterError::usage("the images cannot be read together"))?;
        Ok(PixelBatch { shape, count: rows.len(), samples })
    }

    /// Shape and type that the images of all rows have.
    pub(crate) fn common_form(&self, first: u64, rows: &[u64]) -> Result<(ImageShape, PixelType)> {
        let (shape, pixel_type) = self.image_form(first)?;
        for row in rows {
            let other = self.image_form(*row)?;
            if other != (shape, pixel_type) {
                return Err(AdapterError::usage(format!(
                    "row {row} of {} is an image of {} and type {}, row {first} one of {shape} and type {}",
                    self.reader().path(),
                    other.0,
                    other.1.name(),
                    pixel_type.name()
                )));
            }
        }
        Ok((shape, pixel_type))
    }

    /// Reads images of one shape into memory of the caller's: unsigned samples of the stored width,
    /// where signed ones are their two's complement.
    ///
    /// # Errors
    ///
    /// As [`read_pixel_batch`](Self::read_pixel_batch), but any number of rows is fine.
    pub fn read_pixel_batch_into<'a>(
        &self,
        rows: &[u64],
        out: impl Into<SamplesMut<'a>>,
    ) -> Result<()> {
        let out = out.into();
        let Some(first) = rows.first() else {
            return Ok(());
        };
        if self.is_second() {
            return self.read_unsigned_rows(rows, out);
        }
        let shape = self.shape(*first)?;
        for row in rows {
            self.image_form(*row)?;
        }
        Ok(self.records.read_image_batch_into(rows, shape, out)?)
    }
}
