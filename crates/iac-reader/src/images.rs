//! Variable packs whose records are images.
//!
//! Decoding an image costs far more than handing it to another thread, so each is a job of its own.
//! A batch is decoded straight to its place in one buffer.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use iac_codec::{
    Codec, CodecError, ColorHandling, DecodeOptions, Image, ImageInfo, ImageShape, ImageViewMut,
    SampleType, Samples, SamplesMut,
};
use iac_format::FormatError;

use crate::decode::{Decoding, SkippedRow, SkippedRows, concerns_one_record, in_order};
use crate::error::{ReadError, Result};
use crate::gather::{Piece, length_of, no_memory};
use crate::image_batch::ImageBatch;
use crate::pack::PackReader;
use crate::variable::{RecordOptions, VariableRecordPack};

/// Stored bytes that are worth a thread: image codecs take more than 50 microseconds for these.
const SPLIT_BYTES: usize = 2 << 10;
/// Samples that are worth a thread, for images that take hardly any bytes.
const SPLIT_SAMPLES: usize = 32 << 10;
/// Memory that a batch may take on the mere word of its first image.
const BELIEVED_BYTES: usize = 1 << 30;
/// The same in relation to the bytes of all payloads.
const BELIEVED_RATIO: usize = 64;

impl VariableRecordPack {
    /// The same pack with other options for decoding images, limits included; file and codec are
    /// shared.
    #[must_use]
    pub fn with_images(&self, options: DecodeOptions) -> Self {
        let mut pack = self.clone();
        pack.options = Arc::new(RecordOptions::clone(&self.options).images(options));
        pack
    }

    /// What a record says about its image, without pixels being decoded: shape and type at full
    /// size. The claim is not checked against the pixels.
    ///
    /// # Errors
    ///
    /// As [`read_image`](Self::read_image).
    pub fn image_info(&self, row: u64) -> Result<ImageInfo> {
        let decoding = self.image_decoding()?;
        self.guarded(|| decoding.info(&self.pack.piece(row, 0)?))
    }

    /// Reads and decodes one image.
    ///
    /// Stored bytes are compared with their checksum before, unless the reader's options say
    /// otherwise. Scale, colours and limits are those of [`RecordOptions::images`].
    ///
    /// ```no_run
    /// use iac_codec::{DecodeOptions, Scale};
    /// use iac_reader::VariableRecordPack;
    ///
    /// let pack = VariableRecordPack::open("slide.tiles.iac")?;
    /// let tile = pack.read_image(5)?;
    /// let quarter = pack.with_images(DecodeOptions::default().with_scale(Scale::Quarter));
    /// let small = quarter.read_image(5)?;
    /// assert_eq!(small.shape().height(), tile.shape().height().div_ceil(4));
    /// # Ok::<(), iac_reader::ReadError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`codec`](Self::codec) and [`PackReader::read`]; [`ReadError::Codec`] (kind
    /// `unsupported`) when the pack's records are no images, and, with the row, when the record
    /// cannot be decoded or exceeds a limit.
    pub fn read_image(&self, row: u64) -> Result<Image> {
        let decoding = self.image_decoding()?;
        self.guarded(|| decoding.image(&self.pack.piece(row, 0)?))
    }

    /// Reads and decodes many images, in the order asked for, duplicates included. They may differ
    /// in shape and type.
    ///
    /// The work is split over the reader's workers. One bad row fails the whole call: the first one
    /// in the order asked for, where rows that do not exist come before records that cannot be
    /// decoded.
    ///
    /// # Errors
    ///
    /// As [`read_image`](Self::read_image).
    pub fn read_images(&self, rows: &[u64]) -> Result<Vec<Image>> {
        let decoding = self.image_decoding()?;
        self.guarded(|| {
            decoding.loaded(self.pack.pieces(rows)?, |decoding, pieces| {
                let jobs = pieces.iter().collect();
                decoding.each(decoding.count(pieces, 0), jobs, |piece| decoding.image(piece))
            })
        })
    }

    /// Reads and decodes many images, and leaves out those that are damaged: their places are
    /// `None`, and the report says what is wrong with each.
    ///
    /// # Errors
    ///
    /// As [`read_many_lossy`](Self::read_many_lossy).
    pub fn read_images_lossy(&self, rows: &[u64]) -> Result<(Vec<Option<Image>>, SkippedRows)> {
        let decoding = self.image_decoding()?;
        self.guarded(|| {
            let (pieces, mut skipped) = decoding.bytes.sound_pieces(rows)?;
            let mut images = Vec::new();
            images.resize_with(rows.len(), || None);
            let found = decoding.loaded(pieces, |decoding, pieces| {
                let jobs = pieces.iter().collect();
                decoding.each(decoding.count(pieces, 0), jobs, |piece| {
                    Ok((piece.slot, lossy(piece, decoding.image(piece))?))
                })
            })?;
            for (slot, image) in found {
                match (image, images.get_mut(slot)) {
                    (Ok(image), Some(place)) => *place = Some(image),
                    (Ok(_), None) => {}
                    (Err(row), _) => skipped.push(row),
                }
            }
            Ok((images, in_order(skipped)))
        })
    }

    /// Reads and decodes images of one shape and type into one buffer: N x H x W x C, row-major.
    ///
    /// Shape and type are those of the first image.
    ///
    /// ```no_run
    /// use iac_codec::SamplesRef;
    /// use iac_reader::VariableRecordPack;
    ///
    /// let pack = VariableRecordPack::open("slide.tiles.iac")?;
    /// let batch = pack.read_image_batch(&[5, 1, 9])?;
    /// if let SamplesRef::U8(samples) = batch.samples() {
    ///     println!("{} images of {}, {} bytes", batch.len(), batch.shape(), samples.len());
    /// }
    /// # Ok::<(), iac_reader::ReadError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`read_images`](Self::read_images), also (kind `decode`) for an image of another shape or
    /// type than the first one; kind `usage` when there are no rows.
    pub fn read_image_batch(&self, rows: &[u64]) -> Result<ImageBatch> {
        let decoding = self.image_decoding()?;
        self.guarded(|| {
            decoding.loaded(self.pack.pieces(rows)?, |decoding, pieces| {
                let Some(first) = pieces.first() else {
                    return Err(self.no_shape());
                };
                let (shape, sample_type) = decoding.batch_form(first, pieces)?;
                let mut batch = decoding.batch(pieces, shape, sample_type)?;
                decoding.fill(pieces, shape, batch.samples.as_mut())?;
                Ok(batch)
            })
        })
    }

    /// Reads and decodes images of one shape and type into the caller's buffer: N x H x W x C,
    /// row-major.
    ///
    /// `shape` is that of the images as they are decoded, so a smaller one where the options ask
    /// for a scale. The buffer's contents are unspecified after an error.
    ///
    /// ```no_run
    /// use iac_codec::ImageShape;
    /// use iac_reader::VariableRecordPack;
    ///
    /// let pack = VariableRecordPack::open("slide.tiles.iac")?;
    /// let shape = ImageShape::new(512, 512, 3).expect("a small shape");
    /// let mut buffer = vec![0_u8; 2 * shape.samples()];
    /// pack.read_image_batch_into(&[5, 1], shape, &mut buffer[..])?;
    /// # Ok::<(), iac_reader::ReadError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ReadError::BufferSize`] when the buffer has not room for exactly these images, otherwise
    /// as [`read_image_batch`](Self::read_image_batch), but any number of rows is fine.
    pub fn read_image_batch_into<'a>(
        &self,
        rows: &[u64],
        shape: ImageShape,
        out: impl Into<SamplesMut<'a>>,
    ) -> Result<()> {
        let out = out.into();
        let decoding = self.image_decoding()?;
        self.guarded(|| {
            let found = out.as_ref().len();
            let expected = rows.len().saturating_mul(shape.samples());
            if found != expected {
                return Err(ReadError::BufferSize {
                    path: Arc::clone(&self.pack.inner.content.path),
                    unit: "samples",
                    expected: u64::try_from(expected).unwrap_or(u64::MAX),
                    found: u64::try_from(found).unwrap_or(u64::MAX),
                });
            }
            decoding.loaded(self.pack.pieces(rows)?, |decoding, pieces| {
                decoding.fill(pieces, shape, out)
            })
        })
    }

    /// Reads and decodes images of one shape and type into one buffer, and leaves out those that
    /// are damaged or differ from the first sound one in shape or type: the batch holds the others
    /// only, and the report says which are missing and why. No batch is given where no image is
    /// left.
    ///
    /// # Errors
    ///
    /// As [`read_many_lossy`](Self::read_many_lossy).
    pub fn read_image_batch_lossy(
        &self,
        rows: &[u64],
    ) -> Result<(Option<ImageBatch>, SkippedRows)> {
        let decoding = self.image_decoding()?;
        self.guarded(|| {
            let (pieces, skipped) = decoding.bytes.sound_pieces(rows)?;
            decoding.loaded(pieces, |decoding, pieces| self.sound_batch(decoding, pieces, skipped))
        })
    }

    /// The sound images among pieces whose spans are sound.
    fn sound_batch(
        &self,
        decoding: ImageDecoding<'_>,
        pieces: &[Piece],
        mut skipped: Vec<SkippedRow>,
    ) -> Result<(Option<ImageBatch>, SkippedRows)> {
        // The first sound image gives the form: one that only claims it would spoil the batch.
        let mut first = None;
        let mut behind = 0_usize;
        for piece in pieces {
            behind = behind.saturating_add(1);
            match lossy(piece, decoding.image(piece))? {
                Ok(image) => {
                    first = Some(image);
                    break;
                }
                Err(row) => skipped.push(row),
            }
        }
        let Some(first) = first else {
            return Ok((None, in_order(skipped)));
        };
        let shape = first.shape();
        // The place of the first image, and those of the others.
        let pieces = pieces.get(behind.saturating_sub(1)..).unwrap_or_default();
        let mut batch = decoding.batch(pieces, shape, first.sample_type())?;
        let mut places = batch.samples.as_mut().split(shape.samples()).into_iter();
        if let Some(place) = places.next() {
            ImageViewMut::new(shape, place)
                .and_then(|mut place| {
                    place.copy_from(decoding.bytes.codec.name(), &first.as_view())
                })
                .map_err(|source| self.codec_error(source))?;
        }
        drop(first);
        let others = pieces.get(1..).unwrap_or_default();
        let mut results = vec![Ok(())];
        results.append(&mut decoding.fill_lossy(others, shape, places)?);
        let mut kept = 0_usize;
        for (position, result) in results.into_iter().enumerate() {
            match result {
                Ok(()) => {
                    if kept != position {
                        batch.move_image(position, kept);
                    }
                    kept = kept.saturating_add(1);
                }
                Err(row) => skipped.push(row),
            }
        }
        batch.truncate(kept);
        Ok(((kept > 0).then_some(batch), in_order(skipped)))
    }

    /// What decodes the images.
    fn image_decoding(&self) -> Result<ImageDecoding<'_>> {
        self.index()?;
        let codec = self.codec()?;
        if codec.as_image_codec().is_none() {
            return Err(self.codec_error(CodecError::Unsupported {
                name: codec.name().to_owned(),
                reason: "its records are bytes, not images".to_owned(),
            }));
        }
        let options = &self.options.decode;
        let (limits, sizes) = (&options.limits, None);
        let bytes = Decoding { pack: &self.pack, codec, limits, sizes, loaded: None };
        Ok(ImageDecoding { bytes, options })
    }

    fn no_shape(&self) -> ReadError {
        self.pack.inner.content.format_error(FormatError::Argument {
            reason: "a batch of images has the shape of the first one, but no rows were asked for"
                .to_owned(),
        })
    }
}

/// What images are decoded with.
#[derive(Clone, Copy)]
struct ImageDecoding<'a> {
    /// Where stored bytes come from.
    bytes: Decoding<'a>,
    options: &'a DecodeOptions,
}

impl ImageDecoding<'_> {
    /// Decodes pieces after their bytes were brought into memory, where the source is far away.
    fn loaded<R>(
        &self,
        pieces: Vec<Piece>,
        work: impl FnOnce(ImageDecoding<'_>, &[Piece]) -> Result<R>,
    ) -> Result<R> {
        let options = self.options;
        self.bytes.loaded_from_afar(pieces, |bytes, pieces| {
            work(ImageDecoding { bytes, options }, pieces)
        })
    }

    /// Hands a record's stored bytes to `decode`, compared with their checksum.
    fn with_stored<T>(
        &self,
        piece: &Piece,
        decode: impl FnOnce(&Codec, &[u8]) -> Result<T, CodecError>,
    ) -> Result<T> {
        let mut scratch = Vec::new();
        let stored = self.bytes.stored(piece, self.bytes.memory(), &mut scratch)?;
        self.pack().check(piece, stored)?;
        decode(self.bytes.codec, stored).map_err(|source| self.bytes.codec_error(piece, source))
    }

    fn info(&self, piece: &Piece) -> Result<ImageInfo> {
        self.with_stored(piece, |codec, stored| codec.image_info(stored))
    }

    fn image(&self, piece: &Piece) -> Result<Image> {
        self.with_stored(piece, |codec, stored| codec.decode_image(stored, self.options))
    }

    /// Shape and type that an image decodes to with these options, which do not allow more than
    /// the limits.
    fn decoded_form(&self, piece: &Piece) -> Result<(ImageShape, SampleType)> {
        if self.options.color != ColorHandling::Interpreted {
            // What is stored may have other channels than what it stands for.
            let image = self.image(piece)?;
            return Ok((image.shape(), image.sample_type()));
        }
        let info = self.info(piece)?;
        let limits = &self.options.limits;
        let shape = self.options.scale.apply(info.shape);
        let bytes = shape.samples().saturating_mul(info.sample_type.bytes());
        info.shape
            .check(limits)
            .and_then(|()| limits.check_decoded_bytes(u64::try_from(bytes).unwrap_or(u64::MAX)))
            .map_err(|source| self.bytes.codec_error(piece, source))?;
        Ok((shape, info.sample_type))
    }

    /// The form of a batch's images, taken from the first. Where they need a lot of memory, it has
    /// to prove its claim.
    fn batch_form(&self, first: &Piece, pieces: &[Piece]) -> Result<(ImageShape, SampleType)> {
        let (shape, sample_type) = self.decoded_form(first)?;
        let samples = pieces.len().saturating_mul(shape.samples());
        let bytes = samples.saturating_mul(sample_type.bytes());
        let believed = length_of(pieces).saturating_mul(BELIEVED_RATIO).max(BELIEVED_BYTES);
        if bytes > believed {
            drop(self.image(first)?);
        }
        Ok((shape, sample_type))
    }

    /// Room for the images of a batch.
    fn batch(
        &self,
        pieces: &[Piece],
        shape: ImageShape,
        sample_type: SampleType,
    ) -> Result<ImageBatch> {
        let content = self.bytes.content();
        let samples = pieces.len().checked_mul(shape.samples());
        let bytes = samples.and_then(|samples| samples.checked_mul(sample_type.bytes()));
        let (Some(samples), Some(bytes)) = (samples, bytes) else {
            return Err(no_memory(content, usize::MAX));
        };
        let samples =
            Samples::zeroed(sample_type, samples).map_err(|_| no_memory(content, bytes))?;
        Ok(ImageBatch { shape, count: pieces.len(), samples })
    }

    /// Decodes each image to its place.
    fn fill(&self, pieces: &[Piece], shape: ImageShape, out: SamplesMut<'_>) -> Result<()> {
        let jobs = pieces.iter().zip(out.split(shape.samples())).collect();
        let threads = self.count(pieces, shape.samples());
        self.each(threads, jobs, |(piece, place)| self.decode_into_place(piece, shape, place))?;
        Ok(())
    }

    /// The same without the damaged ones.
    fn fill_lossy<'b>(
        &self,
        pieces: &[Piece],
        shape: ImageShape,
        places: impl Iterator<Item = SamplesMut<'b>>,
    ) -> Result<Vec<Result<(), SkippedRow>>> {
        let jobs = pieces.iter().zip(places).collect();
        let threads = self.count(pieces, shape.samples());
        self.each(threads, jobs, |(piece, place)| {
            lossy(piece, self.decode_into_place(piece, shape, place))
        })
    }

    fn decode_into_place(
        &self,
        piece: &Piece,
        shape: ImageShape,
        place: SamplesMut<'_>,
    ) -> Result<()> {
        self.with_stored(piece, |codec, stored| {
            let mut place = ImageViewMut::new(shape, place)?;
            codec.decode_image_into(stored, &mut place, self.options)
        })
    }

    /// Does jobs on several threads, and gives the results in their order, or the first error in
    /// that order.
    fn each<J: Send, R: Send>(
        &self,
        threads: usize,
        jobs: Vec<J>,
        work: impl Fn(J) -> Result<R> + Sync,
    ) -> Result<Vec<R>> {
        // Jobs behind one that failed need not be done, those before it must be.
        let failed = AtomicUsize::new(usize::MAX);
        let jobs = jobs.into_iter().enumerate().collect();
        let results = self.pack().options.workers.run(threads, jobs, |(position, job)| {
            if position > failed.load(Ordering::Relaxed) {
                return None;
            }
            let result = work(job);
            if result.is_err() {
                failed.fetch_min(position, Ordering::Relaxed);
            }
            Some(result)
        });
        results.into_iter().flatten().collect()
    }

    /// Threads that a batch is worth; `samples` are those of one image, as far as they are known.
    fn count(&self, pieces: &[Piece], samples: usize) -> usize {
        let worth = (length_of(pieces) / SPLIT_BYTES)
            .max(pieces.len().saturating_mul(samples) / SPLIT_SAMPLES)
            .min(pieces.len());
        if worth <= 1 { 1 } else { worth.min(self.pack().options.workers.count()) }
    }

    fn pack(&self) -> &PackReader {
        self.bytes.pack
    }
}

/// What is wrong with one record is no failure of the call.
fn lossy<T>(piece: &Piece, result: Result<T>) -> Result<Result<T, SkippedRow>> {
    match result {
        Ok(found) => Ok(Ok(found)),
        Err(error) if concerns_one_record(&error) => {
            Ok(Err(SkippedRow { position: piece.slot, row: piece.row, error }))
        }
        Err(error) => Err(error),
    }
}
