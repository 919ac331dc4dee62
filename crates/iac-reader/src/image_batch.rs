//! Several images in one buffer.

use iac_codec::{ImageShape, ImageView, SampleType, Samples, SamplesRef};

/// Images of one shape and type, one after the other in one buffer: N x H x W x C, row-major.
///
/// Made by [`VariableRecordPack::read_image_batch`](crate::VariableRecordPack::read_image_batch).
#[derive(Debug, Clone, PartialEq)]
pub struct ImageBatch {
    pub(crate) shape: ImageShape,
    pub(crate) count: usize,
    pub(crate) samples: Samples,
}

impl ImageBatch {
    /// Height, width and channels of each image.
    #[must_use]
    pub const fn shape(&self) -> ImageShape {
        self.shape
    }

    /// The type of the samples.
    #[must_use]
    pub fn sample_type(&self) -> SampleType {
        self.samples().sample_type()
    }

    /// Number of images.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.count
    }

    /// Whether there are no images.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// All samples.
    #[must_use]
    pub fn samples(&self) -> SamplesRef<'_> {
        self.samples.as_ref()
    }

    /// All samples, handed over.
    #[must_use]
    pub fn into_samples(self) -> Samples {
        self.samples
    }

    /// An image by its position in the batch; `None` behind the last one.
    #[must_use]
    pub fn image(&self, position: usize) -> Option<ImageView<'_>> {
        let count = self.shape.samples();
        let start = position.checked_mul(count)?;
        let range = start..start.checked_add(count)?;
        let samples: SamplesRef<'_> = match self.samples() {
            SamplesRef::U8(samples) => samples.get(range)?.into(),
            SamplesRef::U16(samples) => samples.get(range)?.into(),
            SamplesRef::I16(samples) => samples.get(range)?.into(),
            SamplesRef::F16(samples) => samples.get(range)?.into(),
            SamplesRef::F32(samples) => samples.get(range)?.into(),
            _ => return None,
        };
        ImageView::new(self.shape, samples).ok()
    }

    /// The images in order.
    pub fn iter(&self) -> impl Iterator<Item = ImageView<'_>> {
        (0..self.count).map_while(|position| self.image(position))
    }

    /// Moves an image to another place, and leaves its own as it is.
    pub(crate) fn move_image(&mut self, from: usize, to: usize) {
        let count = self.shape.samples();
        let (from, to) = (from.saturating_mul(count), to.saturating_mul(count));
        let range = from..from.saturating_add(count);
        match &mut self.samples {
            Samples::U8(samples) => samples.copy_within(range, to),
            Samples::U16(samples) => samples.copy_within(range, to),
            Samples::I16(samples) => samples.copy_within(range, to),
            Samples::F16(samples) => samples.copy_within(range, to),
            Samples::F32(samples) => samples.copy_within(range, to),
            _ => {}
        }
    }

    /// Leaves the first images only.
    pub(crate) fn truncate(&mut self, count: usize) {
        self.count = count;
        let samples = count.saturating_mul(self.shape.samples());
        match &mut self.samples {
            Samples::U8(all) => all.truncate(samples),
            Samples::U16(all) => all.truncate(samples),
            Samples::I16(all) => all.truncate(samples),
            Samples::F16(all) => all.truncate(samples),
            Samples::F32(all) => all.truncate(samples),
            _ => {}
        }
    }
}
