//! Transfer syntaxes: how the bytes of a data set and of its pixels are to be understood.

/// Implicit VR, little-endian.
pub(crate) const IMPLICIT: &str = "1.2.840.10008.1.2";
/// Explicit VR, little-endian.
pub(crate) const EXPLICIT: &str = "1.2.840.10008.1.2.1";
/// Explicit VR, little-endian, the data set deflated.
pub(crate) const DEFLATED: &str = "1.2.840.10008.1.2.1.99";
/// Explicit VR, big-endian.
pub(crate) const BIG_ENDIAN: &str = "1.2.840.10008.1.2.2";
/// RLE lossless.
pub(crate) const RLE: &str = "1.2.840.10008.1.2.5";
/// JPEG XL without loss: what payloads are.
pub(crate) const JXL_LOSSLESS: &str = "1.2.840.10008.1.2.4.110";
/// JPEG-LS without loss.
pub(crate) const JPEGLS_LOSSLESS: &str = "1.2.840.10008.1.2.4.80";
/// JPEG 2000 without loss.
pub(crate) const JPEG2000_LOSSLESS: &str = "1.2.840.10008.1.2.4.90";
/// High-throughput JPEG 2000 without loss.
pub(crate) const HTJ2K_LOSSLESS: &str = "1.2.840.10008.1.2.4.201";

/// JPEG, 8 bits, with loss.
pub(crate) const JPEG_BASELINE: &str = "1.2.840.10008.1.2.4.50";
/// JPEG, 8 or 12 bits, with loss.
pub(crate) const JPEG_EXTENDED: &str = "1.2.840.10008.1.2.4.51";
/// JPEG files inside JPEG XL.
pub(crate) const JXL_JPEG: &str = "1.2.840.10008.1.2.4.111";

/// Whether streams under a transfer syntax may have lost something.
pub(crate) fn is_lossy(uid: &str) -> bool {
    matches!(
        uid,
        JPEG_BASELINE
            | JPEG_EXTENDED
            | "1.2.840.10008.1.2.4.81"
            | "1.2.840.10008.1.2.4.91"
            | "1.2.840.10008.1.2.4.203"
            | JXL_JPEG
            | "1.2.840.10008.1.2.4.112"
    )
}

/// How elements are encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    Implicit,
    Explicit,
    BigEndian,
}

/// How the samples of an image are encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PixelEncoding {
    Native,
    Rle,
    /// A codec of `iac-codec`.
    Codec(&'static str),
}

/// How samples are encoded under a transfer syntax; nothing for those that are not known.
pub(crate) fn pixel_encoding(uid: &str) -> Option<PixelEncoding> {
    Some(match uid {
        IMPLICIT | EXPLICIT | DEFLATED | BIG_ENDIAN => PixelEncoding::Native,
        RLE => PixelEncoding::Rle,
        "1.2.840.10008.1.2.4.50"
        | "1.2.840.10008.1.2.4.51"
        | "1.2.840.10008.1.2.4.57"
        | "1.2.840.10008.1.2.4.70" => PixelEncoding::Codec("jpeg"),
        JPEGLS_LOSSLESS | "1.2.840.10008.1.2.4.81" => PixelEncoding::Codec("jpegls"),
        JPEG2000_LOSSLESS
        | "1.2.840.10008.1.2.4.91"
        | HTJ2K_LOSSLESS
        | "1.2.840.10008.1.2.4.202"
        | "1.2.840.10008.1.2.4.203" => PixelEncoding::Codec("jpeg2000"),
        JXL_LOSSLESS | "1.2.840.10008.1.2.4.111" | "1.2.840.10008.1.2.4.112" => {
            PixelEncoding::Codec("jxl")
        }
        _ => return None,
    })
}

/// How elements are encoded under a transfer syntax; every encapsulated one is explicit.
pub(crate) fn encoding(uid: &str) -> Encoding {
    match uid {
        IMPLICIT => Encoding::Implicit,
        BIG_ENDIAN => Encoding::BigEndian,
        _ => Encoding::Explicit,
    }
}
