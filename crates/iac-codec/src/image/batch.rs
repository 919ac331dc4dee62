//! Many images at once, in order, on several threads.

use std::num::NonZeroUsize;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{DecodeOptions, Image, ImageShape, ImageView, ImageViewMut, SamplesMut};
use crate::{Codec, CodecError, Result};

impl Codec {
    /// Encodes images on up to `workers` threads; payloads come in the order of the images.
    ///
    /// The first failure by position ends the call; nothing partial is given.
    ///
    /// # Errors
    ///
    /// [`CodecError::Item`] with the position of the image and what [`Codec::encode_image`] says.
    pub fn encode_images(
        &self,
        images: &[ImageView<'_>],
        workers: NonZeroUsize,
    ) -> Result<Vec<Vec<u8>>> {
        in_order(images.iter().collect(), workers, |image| self.encode_image(image))
    }

    /// Decodes images on up to `workers` threads; they come in the order of the payloads.
    ///
    /// ```
    /// # #[cfg(feature = "jxl")] {
    /// use std::num::NonZeroUsize;
    ///
    /// use iac_codec::jxl::JxlOptions;
    /// use iac_codec::{DecodeOptions, ImageShape, ImageView};
    ///
    /// let codec = JxlOptions::lossless().codec()?;
    /// let pixels = [7_u8; 8 * 8 * 3];
    /// let tile = ImageView::new(ImageShape::new(8, 8, 3)?, &pixels[..])?;
    /// let payloads = codec.encode_images(&[tile, tile], NonZeroUsize::MIN)?;
    /// let tiles = codec.decode_images(&payloads, &DecodeOptions::default(), NonZeroUsize::MIN)?;
    /// assert_eq!(tiles.len(), 2);
    /// # }
    /// # Ok::<(), iac_codec::CodecError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`CodecError::Item`] with the position of the payload and what [`Codec::decode_image`] says.
    pub fn decode_images<P: AsRef<[u8]> + Sync>(
        &self,
        payloads: &[P],
        options: &DecodeOptions,
        workers: NonZeroUsize,
    ) -> Result<Vec<Image>> {
        in_order(payloads.iter().collect(), workers, |payload| {
            self.decode_image(payload.as_ref(), options)
        })
    }

    /// Decodes images of one shape into one buffer: N x H x W x C, row-major.
    ///
    /// `shape` is that of each decoded image, so a smaller one where `options` ask for a scale.
    /// The buffer's contents are unspecified after an error.
    ///
    /// # Errors
    ///
    /// [`CodecError::Image`] when the buffer has not room for exactly that many images,
    /// [`CodecError::Item`] with the position of the payload and what
    /// [`Codec::decode_image_into`] says: also when an image has another shape or type.
    pub fn decode_images_into<'a, P: AsRef<[u8]> + Sync>(
        &self,
        payloads: &[P],
        shape: ImageShape,
        out: impl Into<SamplesMut<'a>>,
        options: &DecodeOptions,
        workers: NonZeroUsize,
    ) -> Result<()> {
        let out = out.into();
        let found = out.as_ref().len();
        if payloads.len().checked_mul(shape.samples()) != Some(found) {
            return Err(CodecError::Image {
                reason: format!(
                    "a buffer of {found} samples is not one of {} images of {shape}",
                    payloads.len()
                ),
            });
        }
        let places = out.split(shape.samples());
        let jobs: Vec<_> = payloads.iter().zip(places).collect();
        in_order(jobs, workers, |(payload, place)| {
            let mut place = ImageViewMut::new(shape, place)?;
            self.decode_image_into(payload.as_ref(), &mut place, options)
        })?;
        Ok(())
    }
}

/// Runs jobs on up to `workers` threads and gives the results in the order of the jobs.
fn in_order<J: Send, T: Send>(
    jobs: Vec<J>,
    workers: NonZeroUsize,
    run: impl Fn(J) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let count = jobs.len();
    let named = |position: usize, error| CodecError::Item { position, source: Box::new(error) };
    let threads = workers.get().min(count);
    if threads <= 1 {
        let jobs = jobs.into_iter().enumerate();
        return jobs.map(|(at, job)| run(job).map_err(|error| named(at, error))).collect();
    }
    let queue = Mutex::new(jobs.into_iter().enumerate());
    let failed = AtomicBool::new(false);
    let work = || {
        let mut done = Vec::new();
        // Jobs are taken in order, so whatever comes before the first failure has been started.
        while !failed.load(Ordering::Relaxed) {
            let next = queue.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some((position, job)) = next else { break };
            let result = run(job);
            if result.is_err() {
                failed.store(true, Ordering::Relaxed);
            }
            done.push((position, result));
        }
        done
    };
    let mut results = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads)
            .filter_map(|_| std::thread::Builder::new().spawn_scoped(scope, work).ok())
            .collect();
        let mut results = work();
        for other in others {
            match other.join() {
                Ok(done) => results.extend(done),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        results
    });
    results.sort_unstable_by_key(|(position, _)| *position);
    let results = results.into_iter();
    results.map(|(position, result)| result.map_err(|error| named(position, error))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CodecErrorKind;

    #[test]
    fn results_keep_the_order_of_the_jobs_on_any_number_of_threads() {
        for workers in [1, 2, 3, 64] {
            let workers = NonZeroUsize::new(workers).unwrap();
            let squares = in_order((0..50_u64).collect(), workers, |n| Ok(n * n)).unwrap();
            assert_eq!(squares, (0..50).map(|n| n * n).collect::<Vec<u64>>());
            assert!(in_order(Vec::<u8>::new(), workers, Ok).unwrap().is_empty());
        }
    }

    #[test]
    fn first_failure_by_position_is_the_one_that_is_named() {
        for workers in [1, 2, 8] {
            let workers = NonZeroUsize::new(workers).unwrap();
            for _ in 0..20 {
                let error = in_order((0..40).collect(), workers, |n| {
                    if n >= 7 {
                        Err(CodecError::decode("test", format!("item {n}")))
                    } else {
                        Ok(n)
                    }
                })
                .unwrap_err();
                assert!(matches!(error, CodecError::Item { position: 7, .. }), "{error}");
                assert_eq!(error.kind(), CodecErrorKind::Decode);
            }
        }
    }
}
