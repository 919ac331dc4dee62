//! Images: rows of pixels with interleaved channels, and the contract of codecs for them.

mod codec;
mod samples;
mod shape;
mod view;

pub use codec::{ImageCodec, ImageInfo};
pub use samples::{SampleType, Samples, SamplesMut, SamplesRef};
pub use shape::ImageShape;
pub use view::{Image, ImageView, ImageViewMut};
