//! NumPy's `.npy` files.

use iac_codec::half::f16;
use iac_codec::{Image, ImageShape, Limits, SampleType, Samples};

use super::PictureError;

pub(super) const MAGIC: &[u8] = b"\x93NUMPY";
const KIND: &str = ".npy";
/// Headers are padded so that the data begins at a multiple of this.
const ALIGNMENT: usize = 64;

pub(super) fn write(dtype: &str, shape: &[u64], bytes: &[u8]) -> Vec<u8> {
    let descr = match dtype {
        "bool" => "|b1",
        "int8" => "|i1",
        "uint8" => "|u1",
        "int16" => "<i2",
        "uint16" => "<u2",
        "int32" => "<i4",
        "uint32" => "<u4",
        "int64" => "<i8",
        "uint64" => "<u8",
        "float16" => "<f2",
        "float32" => "<f4",
        "float64" => "<f8",
        "complex64" => "<c8",
        "complex128" => "<c16",
        _ => "|u1",
    };
    let mut sides: String = shape.iter().map(|side| format!("{side}, ")).collect();
    if shape.len() > 1 {
        sides.truncate(sides.trim_end_matches(", ").len());
    } else {
        sides.truncate(sides.trim_end().len());
    }
    let mut header =
        format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({sides}), }}");
    let unpadded = MAGIC.len().saturating_add(5).saturating_add(header.len());
    let padding = unpadded.next_multiple_of(ALIGNMENT).saturating_sub(unpadded);
    header.extend(std::iter::repeat_n(' ', padding));
    header.push('\n');
    let mut file = MAGIC.to_vec();
    file.extend_from_slice(&[1, 0]);
    // A few dimensions never take 65,535 bytes.
    file.extend_from_slice(&u16::try_from(header.len()).unwrap_or(u16::MAX).to_le_bytes());
    file.extend_from_slice(header.as_bytes());
    file.extend_from_slice(bytes);
    file
}

pub(super) fn read(file: &[u8], limits: &Limits) -> Result<Image, PictureError> {
    let (text, data) =
        split(file).ok_or_else(|| PictureError::damaged(KIND, "its header is cut"))?;
    let header = Header::parse(text)
        .ok_or_else(|| PictureError::damaged(KIND, "its header cannot be understood"))?;
    let (sample_type, big_endian) = match header.descr.as_str() {
        "|u1" | "<u1" | ">u1" => (SampleType::U8, false),
        "<u2" => (SampleType::U16, false),
        ">u2" => (SampleType::U16, true),
        "<i2" => (SampleType::I16, false),
        ">i2" => (SampleType::I16, true),
        "<f2" => (SampleType::F16, false),
        ">f2" => (SampleType::F16, true),
        "<f4" => (SampleType::F32, false),
        ">f4" => (SampleType::F32, true),
        other => {
            let reason = format!(
                "elements of type `{other}` are no samples (these are uint8, uint16, int16, float16 and float32)"
            );
            return Err(PictureError::unsupported(KIND, reason));
        }
    };
    let side = |side: u64| u32::try_from(side).unwrap_or(u32::MAX);
    let shape = match header.shape.as_slice() {
        [height, width] => ImageShape::new(side(*height), side(*width), 1)?,
        [height, width, channels] => ImageShape::new(side(*height), side(*width), side(*channels))?,
        other => {
            let reason = format!(
                "an array of {} dimensions is no image, which has (H, W) or (H, W, C)",
                other.len()
            );
            return Err(PictureError::unsupported(KIND, reason));
        }
    };
    let wanted = shape.samples().saturating_mul(sample_type.bytes());
    if data.len() != wanted {
        let reason = format!("it has {} bytes of data instead of {wanted}", data.len());
        return Err(PictureError::damaged(KIND, reason));
    }
    shape.check(limits)?;
    limits.check_decoded_bytes(u64::try_from(wanted).unwrap_or(u64::MAX))?;
    let order = header.fortran_order.then_some(&header.shape[..]);
    let samples = match sample_type {
        SampleType::U8 => Samples::U8(elements(data, big_endian, order, |[byte]| byte)),
        SampleType::U16 => Samples::U16(elements(data, big_endian, order, u16::from_le_bytes)),
        SampleType::I16 => Samples::I16(elements(data, big_endian, order, i16::from_le_bytes)),
        SampleType::F16 => Samples::F16(elements(data, big_endian, order, f16::from_le_bytes)),
        _ => Samples::F32(elements(data, big_endian, order, f32::from_le_bytes)),
    };
    Ok(Image::new(shape, samples)?)
}

/// Header text and data.
fn split(file: &[u8]) -> Option<(&str, &[u8])> {
    let rest = file.strip_prefix(MAGIC)?;
    let (version, rest) = rest.split_first_chunk::<2>()?;
    let (length, rest) = match version {
        [1, _] => {
            let (length, rest) = rest.split_first_chunk::<2>()?;
            (usize::from(u16::from_le_bytes(*length)), rest)
        }
        [2 | 3, _] => {
            let (length, rest) = rest.split_first_chunk::<4>()?;
            (usize::try_from(u32::from_le_bytes(*length)).ok()?, rest)
        }
        _ => return None,
    };
    let (text, data) = rest.split_at_checked(length)?;
    Some((std::str::from_utf8(text).ok()?, data))
}

/// What the header says.
struct Header {
    descr: String,
    fortran_order: bool,
    shape: Vec<u64>,
}

impl Header {
    /// Understands the dictionary as NumPy writes it: three keys, in any order.
    fn parse(text: &str) -> Option<Self> {
        let text = text.trim().strip_prefix('{')?.strip_suffix('}')?;
        let after = |key: &str| {
            [format!("'{key}'"), format!("\"{key}\"")].iter().find_map(|key| {
                let (_, rest) = text.split_once(key.as_str())?;
                rest.trim_start().strip_prefix(':').map(str::trim_start)
            })
        };
        let descr = after("descr")?;
        let quote = descr.chars().next().filter(|quote| matches!(quote, '\'' | '"'))?;
        let (descr, _) = descr.strip_prefix(quote)?.split_once(quote)?;
        let order = after("fortran_order")?;
        let fortran_order = order.starts_with("True");
        if !fortran_order && !order.starts_with("False") {
            return None;
        }
        let (sides, _) = after("shape")?.strip_prefix('(')?.split_once(')')?;
        let shape = sides
            .split(',')
            .map(str::trim)
            .filter(|side| !side.is_empty())
            .map(|side| side.trim_end_matches('L').parse().ok())
            .collect::<Option<Vec<u64>>>()?;
        Some(Self { descr: descr.to_owned(), fortran_order, shape })
    }
}

/// The elements in row-major order; `order` is the shape of an array that is stored column by
/// column.
fn elements<const N: usize, T: Copy>(
    data: &[u8],
    big_endian: bool,
    order: Option<&[u64]>,
    convert: impl Fn([u8; N]) -> T,
) -> Vec<T> {
    let (stored, _) = data.as_chunks::<N>();
    let one = |bytes: &[u8; N]| {
        let mut bytes = *bytes;
        if big_endian {
            bytes.reverse();
        }
        convert(bytes)
    };
    let Some(order) = order else { return stored.iter().map(one).collect() };
    let side = |at: usize| order.get(at).map_or(1, |side| usize::try_from(*side).unwrap_or(0));
    let (height, width, channels) = (side(0), side(1), side(2));
    let plane = height.saturating_mul(width);
    let mut elements = Vec::with_capacity(stored.len());
    for row in 0..height {
        for column in 0..width {
            for channel in 0..channels {
                let at = channel
                    .saturating_mul(plane)
                    .saturating_add(column.saturating_mul(height))
                    .saturating_add(row);
                elements.extend(stored.get(at).map(one));
            }
        }
    }
    elements
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_as_numpy_writes_them() {
        let file = write("uint16", &[3, 4], &[0; 24]);
        assert_eq!(file.len(), 128 + 24);
        assert_eq!(&file[..10], b"\x93NUMPY\x01\x00\x76\x00");
        let text = "{'descr': '<u2', 'fortran_order': False, 'shape': (3, 4), }";
        assert!(file[10..].starts_with(text.as_bytes()));
        assert_eq!(file[127], b'\n');
        let one = write("float32", &[7], &[0; 28]);
        assert!(
            one[10..].starts_with(b"{'descr': '<f4', 'fortran_order': False, 'shape': (7,), }")
        );
    }

    #[test]
    fn images_come_back_from_any_byte_order_and_layout() {
        let shape = ImageShape::new(2, 3, 1).unwrap();
        let image = Image::new(shape, vec![-1_i16, 2, 300, -400, 5, 6]).unwrap();
        let bytes = image.samples().to_le_bytes();
        let file = write("int16", &[2, 3], &bytes);
        assert_eq!(read(&file, &Limits::default()).unwrap(), image);
        let text = String::from_utf8_lossy(&file[10..128]).into_owned();
        let again = |text: &str, data: &[i16], swap: bool| {
            let mut other = file[..10].to_vec();
            other.extend_from_slice(&text.as_bytes()[..118]);
            for sample in data {
                let bytes = if swap { sample.to_be_bytes() } else { sample.to_le_bytes() };
                other.extend_from_slice(&bytes);
            }
            read(&other, &Limits::default())
        };
        let swapped = text.replace("<i2", ">i2");
        assert_eq!(again(&swapped, &[-1, 2, 300, -400, 5, 6], true).unwrap(), image);
        let columns = text.replace("False", "True ");
        assert_eq!(again(&columns, &[-1, -400, 2, 5, 300, 6], false).unwrap(), image);
        let flat = text.replace("(2, 3)", "(6,)  ");
        assert!(matches!(again(&flat, &[0; 6], false), Err(PictureError::Unsupported { .. })));
        let wide = text.replace("<i2", "<i4");
        assert!(matches!(again(&wide, &[0; 6], false), Err(PictureError::Unsupported { .. })));
        assert!(matches!(again(&text, &[0; 5], false), Err(PictureError::Damaged { .. })));
        let huge = text.replace("(2, 3), }   ", "(2, 99999), }");
        assert!(again(&huge, &[0; 6], false).is_err());
    }

    #[test]
    fn cut_files_are_errors() {
        let file = write("uint8", &[2, 2, 3], &[1; 12]);
        assert!(read(&file, &Limits::default()).is_ok());
        for length in 0..file.len() {
            assert!(read(&file[..length], &Limits::default()).is_err());
        }
    }
}
