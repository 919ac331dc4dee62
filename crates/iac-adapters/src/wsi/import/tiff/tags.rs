//! Numbers of tags, types, compressions and colours, and their names in messages.

/// Types of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Type {
    Byte,
    Ascii,
    Short,
    Long,
    Rational,
    SignedByte,
    Undefined,
    SignedShort,
    SignedLong,
    SignedRational,
    Float,
    Double,
    Ifd,
    Long8,
    SignedLong8,
    Ifd8,
}

impl Type {
    pub(crate) const fn from_number(number: u16) -> Option<Self> {
        Some(match number {
            1 => Self::Byte,
            2 => Self::Ascii,
            3 => Self::Short,
            4 => Self::Long,
            5 => Self::Rational,
            6 => Self::SignedByte,
            7 => Self::Undefined,
            8 => Self::SignedShort,
            9 => Self::SignedLong,
            10 => Self::SignedRational,
            11 => Self::Float,
            12 => Self::Double,
            13 => Self::Ifd,
            16 => Self::Long8,
            17 => Self::SignedLong8,
            18 => Self::Ifd8,
            _ => return None,
        })
    }

    pub(crate) const fn bytes(self) -> u64 {
        match self {
            Self::Byte | Self::Ascii | Self::SignedByte | Self::Undefined => 1,
            Self::Short | Self::SignedShort => 2,
            Self::Long | Self::SignedLong | Self::Float | Self::Ifd => 4,
            Self::Rational
            | Self::SignedRational
            | Self::Double
            | Self::Long8
            | Self::SignedLong8
            | Self::Ifd8 => 8,
        }
    }
}

pub(crate) const NEW_SUBFILE_TYPE: u16 = 254;
pub(crate) const IMAGE_WIDTH: u16 = 256;
pub(crate) const IMAGE_LENGTH: u16 = 257;
pub(crate) const BITS_PER_SAMPLE: u16 = 258;
pub(crate) const COMPRESSION: u16 = 259;
pub(crate) const PHOTOMETRIC: u16 = 262;
pub(crate) const IMAGE_DESCRIPTION: u16 = 270;
pub(crate) const STRIP_OFFSETS: u16 = 273;
pub(crate) const ORIENTATION: u16 = 274;
pub(crate) const SAMPLES_PER_PIXEL: u16 = 277;
pub(crate) const ROWS_PER_STRIP: u16 = 278;
pub(crate) const STRIP_BYTE_COUNTS: u16 = 279;
pub(crate) const X_RESOLUTION: u16 = 282;
pub(crate) const Y_RESOLUTION: u16 = 283;
pub(crate) const PLANAR_CONFIGURATION: u16 = 284;
pub(crate) const RESOLUTION_UNIT: u16 = 296;
pub(crate) const PREDICTOR: u16 = 317;
pub(crate) const COLOR_MAP: u16 = 320;
pub(crate) const TILE_WIDTH: u16 = 322;
pub(crate) const TILE_LENGTH: u16 = 323;
pub(crate) const TILE_OFFSETS: u16 = 324;
pub(crate) const TILE_BYTE_COUNTS: u16 = 325;
pub(crate) const EXTRA_SAMPLES: u16 = 338;
pub(crate) const SAMPLE_FORMAT: u16 = 339;
pub(crate) const JPEG_TABLES: u16 = 347;
pub(crate) const ICC_PROFILE: u16 = 34675;
/// A tag that Hamamatsu's scanners alone write.
pub(crate) const NDPI_VERSION: u16 = 65420;

/// Magnification of a page of such.
pub(crate) const NDPI_LENS: u16 = 65421;

/// A tag's name.
pub(crate) fn name(tag: u16) -> String {
    let name = match tag {
        NEW_SUBFILE_TYPE => "NewSubfileType",
        IMAGE_WIDTH => "ImageWidth",
        IMAGE_LENGTH => "ImageLength",
        BITS_PER_SAMPLE => "BitsPerSample",
        COMPRESSION => "Compression",
        PHOTOMETRIC => "PhotometricInterpretation",
        IMAGE_DESCRIPTION => "ImageDescription",
        STRIP_OFFSETS => "StripOffsets",
        ORIENTATION => "Orientation",
        SAMPLES_PER_PIXEL => "SamplesPerPixel",
        ROWS_PER_STRIP => "RowsPerStrip",
        STRIP_BYTE_COUNTS => "StripByteCounts",
        X_RESOLUTION => "XResolution",
        Y_RESOLUTION => "YResolution",
        PLANAR_CONFIGURATION => "PlanarConfiguration",
        RESOLUTION_UNIT => "ResolutionUnit",
        PREDICTOR => "Predictor",
        COLOR_MAP => "ColorMap",
        TILE_WIDTH => "TileWidth",
        TILE_LENGTH => "TileLength",
        TILE_OFFSETS => "TileOffsets",
        TILE_BYTE_COUNTS => "TileByteCounts",
        EXTRA_SAMPLES => "ExtraSamples",
        SAMPLE_FORMAT => "SampleFormat",
        JPEG_TABLES => "JPEGTables",
        ICC_PROFILE => "ICCProfile",
        other => return format!("tag {other}"),
    };
    name.to_owned()
}

/// How a page is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compression {
    None,
    Lzw,
    Deflate,
    PackBits,
    Zstd,
    Jpeg,
    Jpeg2000,
    WebP,
    Jxl,
}

impl Compression {
    /// What a number stands for, where it can be read.
    pub(crate) const fn from_number(number: u64) -> Option<Self> {
        Some(match number {
            1 => Self::None,
            5 => Self::Lzw,
            7 | 33007 => Self::Jpeg,
            8 | 32946 => Self::Deflate,
            32773 => Self::PackBits,
            33003 | 33004 | 33005 | 34712 => Self::Jpeg2000,
            50000 => Self::Zstd,
            50001 => Self::WebP,
            50002 => Self::Jxl,
            _ => return None,
        })
    }
}

/// Aperio's JPEG 2000 whose components are YCbCr.
pub(crate) const APERIO_YCBCR: u64 = 33003;

/// The name that scanner metadata have for a compression.
pub(crate) fn compression_name(number: u64) -> String {
    let name = match number {
        1 => "NONE",
        5 => "LZW",
        6 => "OJPEG",
        7 => "JPEG",
        8 => "ADOBE_DEFLATE",
        32773 => "PACKBITS",
        32946 => "DEFLATE",
        APERIO_YCBCR => "APERIO_JP2000_YCBC",
        33004 => "JPEG_2000_LOSSY",
        33005 => "APERIO_JP2000_RGB",
        33007 => "ALT_JPEG",
        34712 => "JPEG2000",
        34892 => "JPEG_LOSSY",
        34925 => "LZMA",
        50000 => "ZSTD",
        50001 => "WEBP",
        50002 => "JPEGXL",
        other => return other.to_string(),
    };
    name.to_owned()
}

/// What samples are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Photometric {
    WhiteIsZero,
    BlackIsZero,
    Rgb,
    Palette,
    YCbCr,
}

impl Photometric {
    pub(crate) const fn from_number(number: u64) -> Option<Self> {
        Some(match number {
            0 => Self::WhiteIsZero,
            1 => Self::BlackIsZero,
            2 => Self::Rgb,
            3 => Self::Palette,
            6 => Self::YCbCr,
            _ => return None,
        })
    }
}
