//! Variable packs from images that are pushed one by one.

use std::num::NonZeroUsize;

use iac_codec::{Codec, CodecError, Image, ImageView};

use crate::draft::WriteSummary;
use crate::error::{Result, WriteError};
use crate::pack_writer::PackWriter;
use crate::variable_builder::bytes_of;

/// Takes images one by one and encodes many at a time, on several threads; made by
/// [`VariablePackBuilder::begin_images`](crate::VariablePackBuilder::begin_images).
///
/// The pack is the same, whatever the number of threads. Dropped before
/// [`finish`](Self::finish), the writer leaves nothing behind.
#[derive(Debug)]
pub struct ImagePackWriter {
    writer: PackWriter,
    codec: Codec,
    workers: NonZeroUsize,
    /// Bytes of images that may wait.
    memory: u64,
    waiting: Vec<Image>,
    waiting_bytes: u64,
}

impl ImagePackWriter {
    pub(crate) fn new(
        writer: PackWriter,
        codec: Codec,
        workers: NonZeroUsize,
        memory: u64,
    ) -> Self {
        Self { writer, codec, workers, memory, waiting: Vec::new(), waiting_bytes: 0 }
    }

    /// Number of images pushed so far.
    #[must_use]
    pub fn rows(&self) -> u64 {
        let waiting = u64::try_from(self.waiting.len()).unwrap_or(u64::MAX);
        self.writer.rows().saturating_add(waiting)
    }

    /// Adds a copy of an image as the next record.
    ///
    /// # Errors
    ///
    /// As [`push`](Self::push).
    pub fn push_image(&mut self, image: &ImageView<'_>) -> Result<()> {
        self.push(image.to_image())
    }

    /// Adds an image as the next record.
    ///
    /// # Errors
    ///
    /// [`WriteError::Codec`] with its row when an image cannot be encoded, which may be one that
    /// was pushed before this one; otherwise as [`PackWriter::push`].
    pub fn push(&mut self, image: Image) -> Result<()> {
        let bytes = u64::try_from(bytes_of(&image.as_view())).unwrap_or(u64::MAX);
        self.waiting_bytes = self.waiting_bytes.saturating_add(bytes);
        self.waiting.push(image);
        // Payloads of a batch are in memory beside its images.
        if self.waiting_bytes > self.memory / 2 {
            self.encode()?;
        }
        Ok(())
    }

    /// Encodes what waits, completes the pack and publishes it.
    ///
    /// # Errors
    ///
    /// As [`push`](Self::push) and [`PackWriter::finish`]. Nothing is published then.
    pub fn finish(mut self) -> Result<WriteSummary> {
        self.encode()?;
        self.writer.finish()
    }

    fn encode(&mut self) -> Result<()> {
        let images = std::mem::take(&mut self.waiting);
        self.waiting_bytes = 0;
        let views: Vec<ImageView<'_>> = images.iter().map(Image::as_view).collect();
        let payloads = self.codec.encode_images(&views, self.workers).map_err(|error| {
            let first = self.writer.rows();
            let (row, source) = match error {
                CodecError::Item { position, source } => {
                    let position = u64::try_from(position).unwrap_or(u64::MAX);
                    (Some(first.saturating_add(position)), source)
                }
                other => (None, Box::new(other)),
            };
            WriteError::Codec { path: self.writer.path().to_owned(), row, source }
        })?;
        for payload in payloads {
            self.writer.push(payload)?;
        }
        Ok(())
    }
}
