//! Scanner metadata, profiles and associated images.

use bytes::Bytes;
use iac_codec::{CodecError, CodecSpec, DecodeOptions, Image, Parameters, Registry, SampleType};
use serde_json::{Map, Value};

use super::options::RegionImage;
use super::read::WsiPackReader;
use super::tile::{rgb_samples, samples_of};
use super::{ICC_NAME, METADATA_NAME, kind};
use crate::error::{AdapterError, Result};

/// Bytes that scanner metadata may decompress to.
const MAX_METADATA: u64 = 256 << 20;

/// An associated image: label, macro, thumbnail.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AssociatedImage {
    /// Its name.
    pub name: String,
    /// Pixels of a row.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// Whether it has a profile of its own.
    pub has_icc: bool,
    /// Row of the index table.
    pub row: u64,
}

impl WsiPackReader {
    /// What the scanner said about the slide: a JSON object, parsed anew at each call.
    ///
    /// # Errors
    ///
    /// [`AdapterError::Read`] and [`AdapterError::Codec`] when the record is damaged,
    /// [`AdapterError::Schema`] when it holds no JSON object.
    pub fn scanner_metadata(&self) -> Result<Map<String, Value>> {
        let row = self.auxiliary_row(kind::METADATA, METADATA_NAME).ok_or_else(|| {
            AdapterError::schema(
                self.reader().path(),
                "kind",
                format!("there is no record \"{METADATA_NAME}\""),
            )
        })?;
        let payload = self.reader().read(row)?;
        let codec = self.codec("zstd", row)?;
        let limits = self.inner.limits.with_max_decoded_bytes(MAX_METADATA);
        let text =
            codec.decode_bytes(&payload, &limits).map_err(|error| self.codec_error(row, error))?;
        let wrong = |reason: String| {
            AdapterError::schema_row(self.reader().path(), row, METADATA_NAME, reason)
        };
        match serde_json::from_slice(&text) {
            Ok(Value::Object(object)) => Ok(object),
            Ok(_) => Err(wrong("the scanner metadata is no JSON object".to_owned())),
            Err(error) => Err(wrong(format!("the scanner metadata is no JSON: {error}"))),
        }
    }

    /// The slide's colour profile, where it has one.
    ///
    /// # Errors
    ///
    /// [`AdapterError::Read`] when it is damaged.
    pub fn icc_profile(&self) -> Result<Option<Bytes>> {
        self.binary(kind::BINARY, ICC_NAME)
    }

    /// The associated images, sorted by name.
    #[must_use]
    pub fn associated_images(&self) -> Vec<AssociatedImage> {
        let mut images: Vec<AssociatedImage> = self
            .inner
            .rows
            .auxiliary
            .iter()
            .filter(|one| one.kind == kind::IMAGE)
            .map(|one| {
                let (width, height) = one.size.unwrap_or_default();
                AssociatedImage {
                    name: one.name.clone(),
                    width,
                    height,
                    has_icc: self.auxiliary_row(kind::IMAGE_ICC, &one.name).is_some(),
                    row: one.row,
                }
            })
            .collect();
        images.sort_by(|one, other| one.name.cmp(&other.name));
        images
    }

    /// An associated image.
    ///
    /// # Errors
    ///
    /// [`AdapterError::UnknownId`] when there is none of that name; [`AdapterError::Read`] and
    /// [`AdapterError::Codec`] when it is damaged or of another size than stated.
    pub fn read_associated(&self, name: &str) -> Result<RegionImage> {
        let row = self.known_image(name)?;
        let (width, height) =
            self.inner.rows.find(kind::IMAGE, name).and_then(|one| one.size).unwrap_or_default();
        let payload = self.reader().read(row)?;
        let codec = self.codec("jxl", row)?;
        let limits = self.inner.limits;
        let most = limits.max_samples.min(samples_of((height, width)));
        let options = DecodeOptions::from(limits.with_max_samples(most));
        let image = codec
            .decode_image(&payload, &options)
            .and_then(|image| checked(image, width, height))
            .map_err(|error| self.codec_error(row, error))?;
        Ok(RegionImage { width, height, pixels: rgb_samples(image), damaged: Vec::new() })
    }

    /// The profile of an associated image, where it has one.
    ///
    /// # Errors
    ///
    /// [`AdapterError::UnknownId`] when there is no image of that name; [`AdapterError::Read`] when
    /// the profile is damaged.
    pub fn associated_icc(&self, name: &str) -> Result<Option<Bytes>> {
        self.known_image(name)?;
        self.binary(kind::IMAGE_ICC, name)
    }

    /// The row of a record that is no tile.
    pub(super) fn auxiliary_row(&self, kind: u8, name: &str) -> Option<u64> {
        self.inner.rows.find(kind, name).map(|one| one.row)
    }

    fn binary(&self, kind: u8, name: &str) -> Result<Option<Bytes>> {
        self.auxiliary_row(kind, name).map(|row| Ok(self.reader().read(row)?)).transpose()
    }

    fn known_image(&self, name: &str) -> Result<u64> {
        self.auxiliary_row(kind::IMAGE, name).ok_or_else(|| AdapterError::UnknownId {
            path: self.reader().path().to_owned(),
            field: "name",
            id: name.to_owned(),
        })
    }

    pub(super) fn codec(&self, name: &str, row: u64) -> Result<iac_codec::Codec> {
        Registry::global()
            .create(&CodecSpec::new(name, Parameters::new()))
            .map_err(|error| self.codec_error(row, error))
    }
}

/// An image that has the stated size, and samples of bytes.
fn checked(image: Image, width: u32, height: u32) -> Result<Image, CodecError> {
    let shape = image.shape();
    let fits = shape.width() == width
        && shape.height() == height
        && image.sample_type() == SampleType::U8
        && shape.channels() != 2;
    if fits {
        return Ok(image);
    }
    Err(CodecError::decode(
        "jxl",
        format!(
            "the image is {shape} of type {} instead of {height} x {width} x 3 of type uint8",
            image.sample_type()
        ),
    ))
}
