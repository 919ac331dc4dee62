//! How images are encoded, and which parameters a header holds for it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::{Jpeg, NAME};
use crate::strict_params::StrictParameters;
use crate::{Codec, CodecError, Parameters, Result};

/// The quality of packs that name none.
pub const DEFAULT_QUALITY: u8 = 90;

const QUALITY: &str = "quality";
const LOSSLESS: &str = "lossless";
const PROGRESSIVE: &str = "progressive";
const SUBSAMPLING: &str = "subsampling";
const TABLES: &str = "tables_base64";
const COLOR_SPACE: &str = "encoded_color_space";
const BITS: &str = "bits";
const PREDICTOR: &str = "predictor";
const RESTART_ROWS: &str = "restart_rows";
const OPTIMIZE: &str = "optimize";
const NAMES: [&str; 10] = [
    QUALITY,
    LOSSLESS,
    PROGRESSIVE,
    SUBSAMPLING,
    TABLES,
    COLOR_SPACE,
    BITS,
    PREDICTOR,
    RESTART_ROWS,
    OPTIMIZE,
];

/// How much smaller the two colour planes of a lossy image are than the brightness.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Subsampling {
    /// As large: `444`.
    S444,
    /// Half as wide: `422`.
    S422,
    /// Half as wide and half as high: `420`.
    #[default]
    S420,
}

impl Subsampling {
    const fn name(self) -> &'static str {
        match self {
            Self::S444 => "444",
            Self::S422 => "422",
            Self::S420 => "420",
        }
    }
}

/// What the components of records are that were taken out of a TIFF file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum EncodedColorSpace {
    /// Red, green and blue.
    Rgb,
    /// Brightness and two colour differences.
    #[default]
    YCbCr,
}

impl EncodedColorSpace {
    const fn name(self) -> &'static str {
        match self {
            Self::Rgb => "RGB",
            Self::YCbCr => "YCbCr",
        }
    }
}

/// The library that does the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum JpegBackend {
    /// libjpeg-turbo.
    #[cfg(feature = "jpeg")]
    Turbo,
    /// The crate `jpeg-decoder`, and a decoder of this crate for lossless streams: decoding only.
    #[cfg(feature = "jpeg-decoder")]
    PureRust,
}

impl JpegBackend {
    /// The better one of those that are compiled in.
    #[must_use]
    pub const fn preferred() -> Self {
        #[cfg(feature = "jpeg")]
        return Self::Turbo;
        #[cfg(not(feature = "jpeg"))]
        return Self::PureRust;
    }
}

/// How images are encoded.
///
/// ```
/// # #[cfg(feature = "jpeg")] {
/// use iac_codec::jpeg::{JpegOptions, Subsampling};
/// use iac_codec::{DecodeOptions, ImageShape, ImageView};
///
/// let codec = JpegOptions::default().with_subsampling(Subsampling::S444).codec()?;
/// let pixels = [200_u8; 16 * 16 * 3];
/// let tile = ImageView::new(ImageShape::new(16, 16, 3)?, &pixels[..])?;
/// let payload = codec.encode_image(&tile)?;
/// let decoded = codec.decode_image(&payload, &DecodeOptions::default())?;
/// assert_eq!(decoded.shape(), tile.shape());
/// # }
/// # Ok::<(), iac_codec::CodecError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JpegOptions {
    pub(super) quality: u8,
    pub(super) lossless: bool,
    pub(super) progressive: bool,
    pub(super) subsampling: Subsampling,
    pub(super) tables: Option<Vec<u8>>,
    pub(super) color_space: Option<EncodedColorSpace>,
    pub(super) bits: Option<u8>,
    pub(super) predictor: u8,
    pub(super) restart_rows: Option<u16>,
    pub(super) optimize: bool,
    pub(super) backend: JpegBackend,
    /// Whether the object of a header named tables, be they null.
    tables_named: bool,
}

impl Default for JpegOptions {
    fn default() -> Self {
        Self {
            quality: DEFAULT_QUALITY,
            lossless: false,
            progressive: false,
            subsampling: Subsampling::default(),
            tables: None,
            color_space: None,
            bits: None,
            predictor: 1,
            restart_rows: None,
            optimize: false,
            backend: JpegBackend::preferred(),
            tables_named: false,
        }
    }
}

impl JpegOptions {
    /// Options for images that come back exactly.
    #[must_use]
    pub fn lossless() -> Self {
        Self { lossless: true, ..Self::default() }
    }

    /// From 1 (small) to 100 (good); default [`DEFAULT_QUALITY`]. Lossless images have none.
    #[must_use]
    pub const fn with_quality(mut self, quality: u8) -> Self {
        self.quality = quality;
        self
    }

    /// Whether images come back exactly; default no. Images of 16 bits can be encoded no other
    /// way, unless [`JpegOptions::with_bits`] is 12.
    #[must_use]
    pub const fn with_lossless(mut self, lossless: bool) -> Self {
        self.lossless = lossless;
        self
    }

    /// Whether lossy images are stored in several passes, which makes them smaller and slower;
    /// default no.
    #[must_use]
    pub const fn with_progressive(mut self, progressive: bool) -> Self {
        self.progressive = progressive;
        self
    }

    /// How lossy images store colours; default [`Subsampling::S420`].
    #[must_use]
    pub const fn with_subsampling(mut self, subsampling: Subsampling) -> Self {
        self.subsampling = subsampling;
        self
    }

    /// Tables that records taken out of a TIFF file share (its tag 347); default none.
    ///
    /// With tables or a colour space, records are read as parts of a TIFF file.
    #[must_use]
    pub fn with_tables(mut self, tables: Option<Vec<u8>>) -> Self {
        self.tables_named = true;
        self.tables = tables;
        self
    }

    /// What the components of records taken out of a TIFF file are (its tag 262), unless they
    /// carry a JFIF marker; default `YCbCr`.
    ///
    /// With tables or a colour space, records are read as parts of a TIFF file.
    #[must_use]
    pub const fn with_encoded_color_space(mut self, color_space: EncodedColorSpace) -> Self {
        self.color_space = Some(color_space);
        self
    }

    /// Significant bits of the samples: of lossless images 2 to 8 for samples of 8 bits, 9 to 16
    /// for those of 16, and 12 for lossy images of 16 bits; default all of their type's.
    ///
    /// Fewer bits make no smaller payloads, but tell the depth to whoever reads them.
    #[must_use]
    pub const fn with_bits(mut self, bits: u8) -> Self {
        self.bits = Some(bits);
        self
    }

    /// How samples of lossless images are predicted from their neighbours, 1 to 7; default 1.
    #[must_use]
    pub const fn with_predictor(mut self, predictor: u8) -> Self {
        self.predictor = predictor;
        self
    }

    /// A restart marker after each of so many rows of blocks, or of pixels in lossless images;
    /// default none.
    #[must_use]
    pub const fn with_restart_rows(mut self, rows: u16) -> Self {
        self.restart_rows = if rows == 0 { None } else { Some(rows) };
        self
    }

    /// Whether Huffman tables are made for each lossy image: a few percent smaller, and slower;
    /// default no.
    #[must_use]
    pub const fn with_optimize(mut self, optimize: bool) -> Self {
        self.optimize = optimize;
        self
    }

    /// The library to use; default [`JpegBackend::preferred`].
    #[must_use]
    pub const fn with_backend(mut self, backend: JpegBackend) -> Self {
        self.backend = backend;
        self
    }

    /// The codec.
    ///
    /// # Errors
    ///
    /// [`CodecError::Parameter`] when a parameter is out of its range.
    pub fn codec(self) -> Result<Codec> {
        self.check()?;
        Ok(Codec::from_image_codec(Jpeg::new(self)))
    }

    /// Whether records are read as parts of a TIFF file.
    pub(super) const fn is_tiff(&self) -> bool {
        self.tables_named || self.color_space.is_some()
    }

    fn check(&self) -> Result<()> {
        range(QUALITY, self.quality, 1, 100)?;
        range(PREDICTOR, self.predictor, 1, 7)?;
        if let Some(bits) = self.bits {
            range(BITS, bits, 2, 16)?;
            if !self.lossless && bits != 8 && bits != 12 {
                return Err(problem(BITS, format!("{bits}, but lossy images have 8 or 12")));
            }
        }
        Ok(())
    }

    /// Takes the parameters of a header, or of the command line.
    ///
    /// # Errors
    ///
    /// [`CodecError::Parameter`] for a name that is not known, and a wrong type or value.
    pub fn from_parameters(parameters: &Parameters) -> Result<Self> {
        let strict = StrictParameters::new(NAME, parameters, &NAMES)?;
        let byte = |name, range| -> Result<Option<u8>> {
            Ok(strict.integer(name, range)?.and_then(|number| u8::try_from(number).ok()))
        };
        let subsamplings = [Subsampling::S444, Subsampling::S422, Subsampling::S420]
            .map(|subsampling| (subsampling.name(), subsampling));
        let spaces =
            [EncodedColorSpace::Rgb, EncodedColorSpace::YCbCr].map(|space| (space.name(), space));
        let default = Self::default();
        let options = Self {
            quality: byte(QUALITY, 1..=100)?.unwrap_or(default.quality),
            lossless: strict.boolean(LOSSLESS)?.unwrap_or(default.lossless),
            progressive: strict.boolean(PROGRESSIVE)?.unwrap_or(default.progressive),
            subsampling: strict.choice(SUBSAMPLING, &subsamplings)?.unwrap_or_default(),
            tables: match strict.value(TABLES) {
                None | Some(Value::Null) => None,
                Some(Value::String(text)) => Some(STANDARD.decode(text).map_err(|error| {
                    problem(TABLES, format!("is no base64 with padding: {error}"))
                })?),
                Some(_) => return Err(strict.wrong(TABLES, "a text or null")),
            },
            tables_named: strict.value(TABLES).is_some(),
            color_space: strict.choice(COLOR_SPACE, &spaces)?,
            bits: byte(BITS, 2..=16)?,
            predictor: byte(PREDICTOR, 1..=7)?.unwrap_or(default.predictor),
            restart_rows: strict
                .integer(RESTART_ROWS, 0..=u16::MAX.into())?
                .and_then(|rows| u16::try_from(rows).ok())
                .filter(|rows| *rows > 0),
            optimize: strict.boolean(OPTIMIZE)?.unwrap_or(default.optimize),
            backend: default.backend,
        };
        options.check()?;
        Ok(options)
    }

    /// The parameters as the reference packages persist them.
    pub(super) fn parameters(&self) -> Parameters {
        let mut parameters = Parameters::new();
        if self.is_tiff() {
            let space = self.color_space.unwrap_or_default().name();
            parameters.insert(COLOR_SPACE.to_owned(), space.into());
        }
        parameters.insert(LOSSLESS.to_owned(), self.lossless.into());
        parameters.insert(PROGRESSIVE.to_owned(), self.progressive.into());
        parameters.insert(QUALITY.to_owned(), self.quality.into());
        parameters.insert(SUBSAMPLING.to_owned(), self.subsampling.name().into());
        if self.is_tiff() {
            let tables = self.tables.as_ref().map(|tables| STANDARD.encode(tables));
            parameters.insert(TABLES.to_owned(), tables.into());
        }
        parameters
    }

    /// The parameters that the reference packages do not know, where they are not the default.
    pub(super) fn encode_members(&self) -> Parameters {
        let mut members = Parameters::new();
        if let Some(bits) = self.bits {
            members.insert(BITS.to_owned(), bits.into());
        }
        if self.predictor != 1 {
            members.insert(PREDICTOR.to_owned(), self.predictor.into());
        }
        if let Some(rows) = self.restart_rows {
            members.insert(RESTART_ROWS.to_owned(), rows.into());
        }
        if self.optimize {
            members.insert(OPTIMIZE.to_owned(), true.into());
        }
        members
    }
}

fn problem(parameter: &str, reason: String) -> CodecError {
    CodecError::parameter(NAME, parameter, reason)
}

fn range(parameter: &str, found: u8, least: u8, most: u8) -> Result<()> {
    if (least..=most).contains(&found) {
        return Ok(());
    }
    Err(problem(parameter, format!("{found} instead of an integer from {least} to {most}")))
}
