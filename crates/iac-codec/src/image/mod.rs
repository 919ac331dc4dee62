//! Images: rows of pixels with interleaved channels, and the contract of codecs for them.

mod batch;
mod codec;
mod options;
mod reduce;
mod samples;
mod shape;
mod signed;
mod view;

pub use codec::{ImageCapabilities, ImageCodec, ImageInfo};
pub use options::{ColorHandling, DamageHandling, DecodeOptions, DepthHandling, Scale};
pub(crate) use reduce::{reduce, reduce_into};
pub use samples::{SampleType, Samples, SamplesMut, SamplesRef};
pub use shape::ImageShape;
pub use signed::SampleMapping;
pub(crate) use signed::Signed;
#[cfg(any(
    feature = "jxl",
    feature = "jxl-decoder",
    feature = "jpeg2000",
    feature = "jpegls",
    feature = "jpeg",
    feature = "jpeg-decoder"
))]
pub(crate) use view::misfit;
pub use view::{Image, ImageView, ImageViewMut};

/// What a header must require when its streams hold images that other readers refuse.
#[cfg(any(feature = "jpeg2000", feature = "jpegls"))]
pub(crate) const EXTENDED: &str = "iac.image.extended";
