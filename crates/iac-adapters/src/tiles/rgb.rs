//! Tiles as RGB: one, many, batches in one buffer.

use iac_codec::{Image, ImageShape, SampleType, Samples};
use iac_reader::ReadError;

use super::read::TilePackReader;
use super::source::to_rgb;
use crate::error::{AdapterError, Result};
use crate::record::TileRecord;

/// Tiles that an iterator decodes together.
const ITERATED_TILES: u64 = 32;

/// A tile as RGB: rows of pixels of three bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RgbTile {
    /// Pixels in a row.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// Red, green and blue of each pixel, row after row.
    pub pixels: Vec<u8>,
}

impl TilePackReader {
    /// A tile as RGB: one channel is repeated, a fourth dropped.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read), and [`AdapterError::Unsupported`] for a tile of two channels, or
    /// whose samples are no bytes.
    pub fn read_rgb(&self, row: u64) -> Result<RgbTile> {
        self.rgb(row, self.read(row)?)
    }

    /// The tile of an id as RGB.
    ///
    /// # Errors
    ///
    /// As [`row_of`](Self::row_of) and [`read_rgb`](Self::read_rgb).
    pub fn read_rgb_by_id(&self, tile_id: &str) -> Result<RgbTile> {
        self.read_rgb(self.row_of(tile_id)?)
    }

    /// Many tiles as RGB.
    ///
    /// # Errors
    ///
    /// As [`read_rgb`](Self::read_rgb).
    pub fn read_rgb_many(&self, rows: &[u64]) -> Result<Vec<RgbTile>> {
        let images = self.read_many(rows)?;
        rows.iter().zip(images).map(|(row, image)| self.rgb(*row, image)).collect()
    }

    /// Tiles of one size as RGB in one buffer: tile after tile, rows of pixels of three bytes
    /// (NHWC).
    ///
    /// # Errors
    ///
    /// As [`read_rgb`](Self::read_rgb), and [`AdapterError::Unsupported`] when the tiles are of
    /// several sizes.
    pub fn read_rgb_batch(&self, rows: &[u64]) -> Result<Vec<u8>> {
        let Some(shape) = self.batch_shape(rows)? else { return Ok(Vec::new()) };
        let bytes = rows.len().checked_mul(shape.samples());
        let too_large = || {
            AdapterError::usage(format!("a batch of {} tiles of {shape} is too large", rows.len()))
        };
        let bytes = bytes.ok_or_else(too_large)?;
        let mut buffer = Vec::new();
        buffer.try_reserve_exact(bytes).map_err(|_| too_large())?;
        buffer.resize(bytes, 0);
        self.fill_batch(rows, shape, &mut buffer)?;
        Ok(buffer)
    }

    /// The same into a buffer of the caller's, which must have the size of the batch.
    ///
    /// # Errors
    ///
    /// As [`read_rgb_batch`](Self::read_rgb_batch), and [`AdapterError::Usage`] when the buffer has
    /// another size. What is in the buffer after an error is not specified.
    pub fn read_rgb_batch_into(&self, rows: &[u64], buffer: &mut [u8]) -> Result<()> {
        let shape = self.batch_shape(rows)?;
        let expected = shape.map_or(Some(0), |shape| rows.len().checked_mul(shape.samples()));
        if expected != Some(buffer.len()) {
            return Err(AdapterError::usage(format!(
                "the buffer has {} bytes, but the batch needs {}",
                buffer.len(),
                expected.map_or_else(|| "more than there can be".to_owned(), |n| n.to_string())
            )));
        }
        match shape {
            Some(shape) => self.fill_batch(rows, shape, buffer),
            None => Ok(()),
        }
    }

    /// Tiles with their records in the order of the rows; tiles are decoded some at a time, on
    /// several threads.
    ///
    /// # Errors
    ///
    /// As [`records`](Self::records); then each item as [`record`](Self::record) and
    /// [`read_rgb`](Self::read_rgb).
    pub fn iter_rgb(&self) -> Result<impl Iterator<Item = Result<(TileRecord, RgbTile)>> + '_> {
        let mut records = self.records()?;
        let rows = self.record_count();
        let mut next = 0_u64;
        let mut ready: std::vec::IntoIter<Result<RgbTile>> = Vec::new().into_iter();
        Ok(std::iter::from_fn(move || {
            let record = records.next()?;
            let tile = ready.next().or_else(|| {
                let end = next.saturating_add(ITERATED_TILES).min(rows);
                let group: Vec<u64> = (next..end).collect();
                ready = self.group(&group).into_iter();
                next = end;
                ready.next()
            })?;
            Some(record.and_then(|record| Ok((record, tile?))))
        }))
    }

    /// Decodes tiles; where one cannot be, each is tried for itself.
    fn group(&self, rows: &[u64]) -> Vec<Result<RgbTile>> {
        match self.read_rgb_many(rows) {
            Ok(tiles) => tiles.into_iter().map(Ok).collect(),
            Err(_) => rows.iter().map(|row| self.read_rgb(*row)).collect(),
        }
    }

    fn fill_batch(&self, rows: &[u64], shape: ImageShape, buffer: &mut [u8]) -> Result<()> {
        match self.records.read_image_batch_into(rows, shape, &mut *buffer) {
            Ok(()) => return Ok(()),
            // Perhaps some tiles have other channels; what else is wrong shows again.
            Err(ReadError::Codec { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        let mut places = buffer.chunks_mut(shape.samples());
        for group in rows.chunks(usize::try_from(ITERATED_TILES).unwrap_or(1)) {
            for (row, image) in group.iter().zip(self.read_many(group)?) {
                if let Some(place) = places.next() {
                    to_rgb(&image, place).ok_or_else(|| self.no_rgb(*row, &image))?;
                }
            }
        }
        Ok(())
    }

    /// The shape of all tiles of a batch as RGB; nothing for no tiles.
    fn batch_shape(&self, rows: &[u64]) -> Result<Option<ImageShape>> {
        self.check_rows(rows)?;
        let Some(first) = rows.first() else { return Ok(None) };
        let size = self.tile_size_at(*first)?;
        for row in rows {
            let other = self.tile_size_at(*row)?;
            if other != size {
                return Err(AdapterError::Unsupported {
                    path: self.reader().path().to_owned(),
                    reason: format!(
                        "row {row} is {} x {} and row {first} is {} x {}, which make no batch",
                        other.width, other.height, size.width, size.height
                    ),
                });
            }
        }
        let shape = ImageShape::new(size.height, size.width, 3).map_err(|error| {
            AdapterError::schema(self.reader().path(), "tile_width", error.to_string())
        })?;
        Ok(Some(self.scale.apply(shape)))
    }

    fn rgb(&self, row: u64, image: Image) -> Result<RgbTile> {
        let shape = image.shape();
        let pixels = match (shape.channels(), image.into_samples()) {
            // Nothing is copied of what nearly every tile is.
            (3, Samples::U8(pixels)) => pixels,
            (channels, samples) => {
                let image = Image::new(shape, samples)
                    .map_err(|error| AdapterError::usage(error.to_string()))?;
                let pixels = usize::try_from(channels)
                    .ok()
                    .and_then(|channels| shape.samples().checked_div(channels))
                    .and_then(|pixels| pixels.checked_mul(3));
                let mut bytes = vec![0; pixels.unwrap_or(0)];
                to_rgb(&image, &mut bytes).ok_or_else(|| self.no_rgb(row, &image))?;
                bytes
            }
        };
        Ok(RgbTile { width: shape.width(), height: shape.height(), pixels })
    }

    fn no_rgb(&self, row: u64, image: &Image) -> AdapterError {
        let what = if image.sample_type() == SampleType::U8 {
            format!("{} channels", image.shape().channels())
        } else {
            format!("samples of type {}", image.sample_type())
        };
        AdapterError::Unsupported {
            path: self.reader().path().to_owned(),
            reason: format!("row {row} has {what}, which make no RGB tile"),
        }
    }
}
