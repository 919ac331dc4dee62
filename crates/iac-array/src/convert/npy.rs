//! NumPy's `.npy` files.

use std::io::{BufReader, Read, Write};
use std::path::Path;

use super::literal::{self, Description};
use super::slabs::{Intake, NO_MASK, give, swap};
use super::{ExportOptions, place};
use crate::blocking::Snapshot;
use crate::data::{ArrayData, Values};
use crate::dtype::{DType, TimeUnit};
use crate::error::{ArrayError, Result, u64_len, usize_len, zeroed};
use crate::grid::{MAX_RANK, product};
use crate::meta::ArraySpec;

const MAGIC: &[u8; 6] = b"\x93NUMPY";
/// Bytes of memory that a text takes beside its own.
const TEXT_BYTES: u64 = 32;
/// Bytes that the description may have.
const MAX_DESCRIPTION: u64 = 1 << 20;

/// How the elements of a file are turned into those of an array.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Change {
    /// Numbers of so many bytes are turned round.
    Swap(usize),
    /// UCS-4, the other way round or not, behind which lie zeros.
    Text(bool),
    None,
}

/// An array in a `.npy` stream whose description has been read.
pub(super) struct Npy {
    dtype: DType,
    /// Bytes of an element in the file.
    width: u64,
    change: Change,
    fortran: bool,
    shape: Vec<u64>,
    /// Bytes in front of the elements.
    pub(super) start: u64,
}

/// Reads the description in front of the elements.
pub(super) fn describe(path: &Path, source: &mut dyn Read) -> Result<Npy> {
    let damaged = |reason: &str| ArrayError::damaged(path, reason);
    let failed = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::UnexpectedEof => damaged("it ends within its description"),
        _ => place::unread(path, error),
    };
    let mut head = [0; 8];
    source.read_exact(&mut head).map_err(failed)?;
    let (major, minor) = match head.split_first_chunk::<6>() {
        Some((MAGIC, [major, minor])) => (*major, *minor),
        _ => return Err(damaged("it does not begin as a .npy file")),
    };
    let (length, before) = if (major, minor) == (1, 0) {
        let mut length = [0; 2];
        source.read_exact(&mut length).map_err(failed)?;
        (u64::from(u16::from_le_bytes(length)), 10_u64)
    } else if matches!((major, minor), (2 | 3, 0)) {
        let mut length = [0; 4];
        source.read_exact(&mut length).map_err(failed)?;
        (u64::from(u32::from_le_bytes(length)), 12)
    } else {
        return Err(ArrayError::foreign(path, format!("version {major}.{minor} of .npy")));
    };
    if length > MAX_DESCRIPTION {
        return Err(damaged("its description has more than 1 MiB"));
    }
    let mut text = zeroed("description", length)?;
    source.read_exact(&mut text).map_err(failed)?;
    let text = std::str::from_utf8(&text).ok();
    let Description { descr, fortran, shape } = text.and_then(literal::parse).ok_or_else(|| {
        damaged("its description is no dictionary of descr, fortran_order, shape")
    })?;
    let descr = descr.ok_or_else(|| ArrayError::foreign(path, "structured elements"))?;
    let (dtype, width, change) =
        element(&descr).ok_or_else(|| ArrayError::foreign(path, format!("elements `{descr}`")))?;
    if shape.len() > MAX_RANK {
        return Err(ArrayError::foreign(path, format!("{} axes", shape.len())));
    }
    Ok(Npy { dtype, width, change, fortran, shape, start: before.saturating_add(length) })
}

/// What NumPy's name of a type means here.
fn element(descr: &str) -> Option<(DType, u64, Change)> {
    let mut characters = descr.chars();
    let order = characters.next()?;
    let kind = characters.next()?;
    let rest = characters.as_str();
    if !matches!(order, '<' | '>' | '|' | '=') {
        return None;
    }
    if kind == 'M' {
        let unit = rest.strip_prefix("8[")?.strip_suffix(']')?;
        let unit = match unit {
            "s" => TimeUnit::Second,
            "ms" => TimeUnit::Millisecond,
            "us" => TimeUnit::Microsecond,
            "ns" => TimeUnit::Nanosecond,
            _ => return None,
        };
        let change = if order == '>' { Change::Swap(8) } else { Change::None };
        return Some((DType::Timestamp(unit, None), 8, change));
    }
    let size: u32 = rest.parse().ok()?;
    let dtype = match (kind, size) {
        ('b', 1) => DType::Bool,
        ('i', 1) => DType::Int8,
        ('i', 2) => DType::Int16,
        ('i', 4) => DType::Int32,
        ('i', 8) => DType::Int64,
        ('u', 1) => DType::UInt8,
        ('u', 2) => DType::UInt16,
        ('u', 4) => DType::UInt32,
        ('u', 8) => DType::UInt64,
        ('f', 2) => DType::Float16,
        ('f', 4) => DType::Float32,
        ('f', 8) => DType::Float64,
        ('c', 8) => DType::Complex64,
        ('c', 16) => DType::Complex128,
        ('S' | 'V', bytes) => DType::FixedBinary(bytes),
        ('U', characters) if (1..1 << 20).contains(&characters) => {
            let width = u64::from(characters).saturating_mul(4);
            return Some((DType::Utf8, width, Change::Text(order == '>')));
        }
        _ => return None,
    };
    dtype.check().ok()?;
    let lane = dtype.lane();
    let change = if order == '>' && lane > 1 { Change::Swap(lane) } else { Change::None };
    Some((dtype.clone(), u64_len(dtype.width()?), change))
}

impl Npy {
    /// Bytes of the elements in the file.
    pub(super) fn bytes(&self, intake: &Intake<'_>) -> Result<u64> {
        intake.bytes_of(&self.shape, self.width)
    }

    /// Takes the elements, which follow the description, into a new array.
    pub(super) fn take(
        self,
        intake: &mut Intake<'_>,
        name: &str,
        source: &mut dyn Read,
    ) -> Result<()> {
        let spec = ArraySpec::new(self.dtype.clone(), &self.shape);
        if !self.fortran && !matches!(self.change, Change::Text(_)) {
            let lane = if let Change::Swap(lane) = self.change { lane } else { 1 };
            return intake.take(name, spec, self.width, source, &|mut bytes| {
                swap(&mut bytes, lane);
                Ok(bytes)
            });
        }
        let bytes = self.bytes(intake)?;
        intake.define(name, spec, bytes)?;
        if matches!(self.change, Change::Text(_)) {
            // A text costs more than the few bytes that a file may have for it.
            intake.claim(intake.bytes_of(&self.shape, TEXT_BYTES)?)?;
        }
        let mut stored = zeroed("elements", bytes)?;
        source.read_exact(&mut stored).map_err(|error| match error.kind() {
            std::io::ErrorKind::UnexpectedEof => ArrayError::damaged(
                intake.path,
                format!("it ends before the {bytes} bytes of its elements do"),
            ),
            _ => place::unread(intake.path, error),
        })?;
        let data = self.data(intake.path, stored)?;
        let start = vec![0; data.shape.len()];
        intake.store.write(name, &start, data)
    }

    /// The elements in memory.
    fn data(self, path: &Path, mut stored: Vec<u8>) -> Result<ArrayData> {
        if let Change::Swap(lane) = self.change {
            swap(&mut stored, lane);
        }
        if self.fortran {
            stored = row_major(&stored, &self.shape, usize_len("element", self.width)?)?;
        }
        let values = match self.change {
            Change::Text(swapped) => {
                let width = usize_len("element", self.width)?.max(1);
                let texts: Option<Vec<Vec<u8>>> =
                    stored.chunks_exact(width).map(|bytes| utf8(bytes, swapped)).collect();
                let texts = texts.ok_or_else(|| {
                    ArrayError::damaged(path, "a text has a number that is no character")
                })?;
                Values::Variable(texts)
            }
            _ => Values::Fixed(stored),
        };
        let data = ArrayData { dtype: self.dtype, shape: self.shape, values, validity: None };
        data.check().map_err(|error| ArrayError::damaged(path, error.to_string()))?;
        Ok(data)
    }
}

/// The text of UCS-4 numbers; zeros at the end are padding.
fn utf8(bytes: &[u8], swapped: bool) -> Option<Vec<u8>> {
    let (numbers, _) = bytes.as_chunks::<4>();
    let number = |bytes: &[u8; 4]| {
        if swapped { u32::from_be_bytes(*bytes) } else { u32::from_le_bytes(*bytes) }
    };
    let end =
        numbers.iter().rposition(|bytes| number(bytes) != 0).map_or(0, |at| at.saturating_add(1));
    let text: Option<String> =
        numbers.get(..end)?.iter().map(|bytes| char::from_u32(number(bytes))).collect();
    text.map(String::into_bytes)
}

/// Elements whose first axis changes fastest, in the order in which the last one does.
fn row_major(bytes: &[u8], shape: &[u64], width: usize) -> Result<Vec<u8>> {
    let mut out = zeroed("elements", u64_len(bytes.len()))?;
    // Runs along the last axis are single elements in the file, `column` apart.
    let Some((last, outer)) = shape.split_last() else {
        return Ok(bytes.to_vec());
    };
    let column = usize_len("elements", product(outer).unwrap_or(u64::MAX))?.saturating_mul(width);
    let last = usize_len("axis", *last)?;
    let mut at = vec![0_u64; outer.len()];
    for row in out.chunks_exact_mut(last.saturating_mul(width).max(1)) {
        let (mut from, mut stride) = (0_u64, 1_u64);
        for (position, extent) in at.iter().zip(outer) {
            from = from.saturating_add(position.saturating_mul(stride));
            stride = stride.saturating_mul(*extent);
        }
        let mut from = usize_len("elements", from)?.saturating_mul(width);
        for slot in row.chunks_exact_mut(width.max(1)) {
            let source = bytes.get(from..from.saturating_add(width));
            slot.copy_from_slice(
                source.ok_or_else(|| ArrayError::argument("elements are missing"))?,
            );
            from = from.saturating_add(column);
        }
        for (position, extent) in at.iter_mut().zip(outer).rev() {
            *position = position.saturating_add(1);
            if *position < *extent {
                break;
            }
            *position = 0;
        }
    }
    Ok(out)
}

pub(super) fn import(intake: &mut Intake<'_>) -> Result<()> {
    let (file, length) = place::open(intake.path)?;
    let mut source = BufReader::with_capacity(1 << 18, file);
    let npy = describe(intake.path, &mut source)?;
    let bytes = npy.bytes(intake)?;
    let found = length.saturating_sub(npy.start);
    if found != bytes {
        return Err(ArrayError::damaged(
            intake.path,
            format!("{found} bytes follow the description, and the elements have {bytes}"),
        ));
    }
    let name = intake.single_name();
    npy.take(intake, &name, &mut source)
}

/// Reads the bytes of a `.npy` file.
///
/// # Errors
///
/// [`ArrayError::Corrupt`], and [`ArrayError::Unsupported`] for elements that arrays have not.
pub fn parse_npy(bytes: &[u8]) -> Result<ArrayData> {
    let path = Path::new(".npy");
    let mut rest = bytes;
    let npy = describe(path, &mut rest)?;
    let expected = product(&npy.shape).and_then(|elements| elements.checked_mul(npy.width));
    if expected != Some(u64_len(rest.len())) {
        return Err(ArrayError::damaged(
            path,
            format!("{} bytes of elements for shape {:?}", rest.len(), npy.shape),
        ));
    }
    npy.data(path, rest.to_vec())
}

/// The beginning of a `.npy` file: all but the elements.
pub(super) fn header(dtype: &DType, shape: &[u64]) -> Result<Vec<u8>> {
    let mut shape = shape.to_vec();
    let descr = descr(dtype, &mut shape).ok_or_else(|| ArrayError::Unsupported {
        object: ".npy".to_owned(),
        reason: format!("elements of `{dtype}`"),
    })?;
    Ok(text_of(&descr, &shape))
}

fn text_of(descr: &str, shape: &[u64]) -> Vec<u8> {
    let extents = match shape {
        [only] => format!("{only},"),
        many => many.iter().map(u64::to_string).collect::<Vec<_>>().join(", "),
    };
    let mut text =
        format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({extents}), }}");
    // Magic, version, length, text and a line's end fill whole blocks of 64 bytes.
    while text.len().saturating_add(11) % 64 != 0 {
        text.push(' ');
    }
    text.push('\n');
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&[1, 0]);
    // 32 axes have at most 22 characters each.
    bytes.extend_from_slice(&u16::try_from(text.len()).unwrap_or(u16::MAX).to_le_bytes());
    bytes.extend_from_slice(text.as_bytes());
    bytes
}

/// NumPy's name of a type; lists of one length become an axis.
fn descr(dtype: &DType, shape: &mut Vec<u64>) -> Option<String> {
    Some(match dtype {
        DType::Bool => "|b1".to_owned(),
        DType::Int8 => "|i1".to_owned(),
        DType::UInt8 => "|u1".to_owned(),
        DType::Int16 => "<i2".to_owned(),
        DType::Int32 => "<i4".to_owned(),
        DType::Int64 => "<i8".to_owned(),
        DType::UInt16 => "<u2".to_owned(),
        DType::UInt32 => "<u4".to_owned(),
        DType::UInt64 => "<u8".to_owned(),
        DType::Float16 => "<f2".to_owned(),
        DType::Float32 => "<f4".to_owned(),
        DType::Float64 => "<f8".to_owned(),
        DType::Complex64 => "<c8".to_owned(),
        DType::Complex128 => "<c16".to_owned(),
        DType::FixedBinary(bytes) => format!("|V{bytes}"),
        DType::Timestamp(unit, _) => {
            let unit = match unit {
                TimeUnit::Second => "s",
                TimeUnit::Millisecond => "ms",
                TimeUnit::Microsecond => "us",
                TimeUnit::Nanosecond => "ns",
            };
            format!("<M8[{unit}]")
        }
        DType::FixedList(element, count) => {
            shape.push(u64::from(*count));
            return descr(element, shape);
        }
        DType::BFloat16 | DType::Utf8 | DType::Binary | DType::List(_) => return None,
    })
}

/// Elements as the bytes of a `.npy` file.
///
/// # Errors
///
/// [`ArrayError::Unsupported`] for elements that NumPy has not: `bfloat16`, byte strings and lists
/// of any length; [`ArrayError::Argument`] when some are null.
pub fn npy_bytes(data: &ArrayData) -> Result<Vec<u8>> {
    data.refuse_nulls(NO_MASK)?;
    if let (DType::Utf8, Values::Variable(values)) = (&data.dtype, &data.values) {
        return texts(&data.shape, values);
    }
    let mut bytes = header(&data.dtype, &data.shape)?;
    bytes.extend_from_slice(data.as_bytes().unwrap_or_default());
    Ok(bytes)
}

/// Texts in UCS-4, all as long as the longest.
fn texts(shape: &[u64], values: &[Vec<u8>]) -> Result<Vec<u8>> {
    let text = |value: &Vec<u8>| std::str::from_utf8(value).unwrap_or_default().to_owned();
    let longest = values.iter().map(|value| text(value).chars().count()).max().unwrap_or(0).max(1);
    let mut bytes = text_of(&format!("<U{longest}"), shape);
    let width = longest.saturating_mul(4);
    let all = values.len().saturating_mul(width);
    bytes.try_reserve(all).map_err(|error| ArrayError::System {
        what: "memory",
        reason: format!("{all} bytes for texts: {error}"),
    })?;
    for value in values {
        let end = bytes.len().saturating_add(width);
        for character in text(value).chars() {
            bytes.extend_from_slice(&u32::from(character).to_le_bytes());
        }
        bytes.resize(end, 0);
    }
    Ok(bytes)
}

/// Writes an array as a `.npy` stream.
pub(super) fn write(
    snapshot: &Snapshot,
    name: &str,
    path: &Path,
    out: &mut dyn Write,
) -> Result<()> {
    let meta = snapshot.meta(name)?;
    let mut put = |bytes: &[u8]| out.write_all(bytes).map_err(ArrayError::file("write", path));
    if *meta.dtype() == DType::Utf8 {
        return put(&npy_bytes(&snapshot.read_all(name)?)?);
    }
    put(&header(meta.dtype(), meta.shape())?)?;
    give(snapshot, name, |slab| put(slab.as_bytes().unwrap_or_default()))
}

pub(super) fn export(
    snapshot: &Snapshot,
    name: &str,
    path: &Path,
    options: &ExportOptions,
) -> Result<()> {
    place::publish(path, options.overwrite, |out| write(snapshot, name, path, out))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::{Array3, array};

    #[test]
    fn bytes_of_every_type_come_back() {
        let all = [
            ArrayData::from(array![[1_i16, -2, 3], [4, 5, 6]]),
            ArrayData::from(array![true, false]),
            ArrayData::from(ndarray::arr0(2.5_f64)),
            ArrayData::from(array![[1.0_f32, -0.5]]),
            ArrayData::from(Array3::<u8>::zeros((0, 2, 3))),
            ArrayData::from_texts(&[3], ["a", "", "größe 🙂"]).unwrap(),
            ArrayData::from_bytes(DType::FixedBinary(3), &[2], b"abcdef".to_vec()).unwrap(),
            ArrayData::from_bytes(
                DType::Timestamp(TimeUnit::Nanosecond, None),
                &[1],
                7_i64.to_le_bytes().to_vec(),
            )
            .unwrap(),
        ];
        for data in all {
            let bytes = npy_bytes(&data).unwrap();
            // Elements begin at whole blocks of 64 bytes.
            let text = u16::from_le_bytes([bytes[8], bytes[9]]);
            assert_eq!(text.wrapping_add(10) % 64, 0);
            assert_eq!(parse_npy(&bytes).unwrap(), data);
            for cut in 0..bytes.len() {
                assert!(parse_npy(&bytes[..cut]).is_err(), "{cut}");
            }
        }
    }

    #[test]
    fn other_orders_of_bytes_and_axes_are_turned() {
        let mut bytes = text_of(">i2", &[2, 3]);
        for number in [1_i16, 4, 2, 5, 3, 6] {
            bytes.extend_from_slice(&number.to_be_bytes());
        }
        let text = String::from_utf8_lossy(&bytes[10..]).replace("False", "True ");
        let at = text.find("True").unwrap() + 10;
        bytes[at..at + 5].copy_from_slice(b"True ");
        let found = parse_npy(&bytes).unwrap().to_ndarray::<i16>().unwrap();
        assert_eq!(found, array![[1, 2, 3], [4, 5, 6]].into_dyn());
    }

    #[test]
    fn versions_that_numpy_does_not_know_are_refused() {
        let sound = npy_bytes(&ArrayData::from(array![1_u8, 2])).unwrap();
        for (at, number) in [(6, 0), (6, 4), (7, 2)] {
            let mut bytes = sound.clone();
            bytes[at] = number;
            let error = parse_npy(&bytes).unwrap_err();
            assert!(
                error.to_string().contains(&format!("version {}.{}", bytes[6], bytes[7])),
                "{error}"
            );
        }
    }

    #[test]
    fn structured_elements_and_objects_are_refused() {
        for descr in ["|O", "<f16", "<i3", "<m8[s]", "<M8[D]", "f4", ""] {
            assert!(matches!(
                parse_npy(&text_of(descr, &[0])),
                Err(ArrayError::Unsupported { .. })
            ));
        }
    }
}
