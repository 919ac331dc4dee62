//! Vectors in `.npy` and `.safetensors` files.

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use iac_format::{ElementType, ErrorKind};
use serde_json::Value;

use crate::error::{AdapterError, Result, short};
use crate::features::build::FeatureRow;

/// Bytes that the description at the beginning of a file may have.
const MAX_DESCRIPTION: u64 = 100 << 20;

const BUFFER_BYTES: usize = 1 << 18;

/// A matrix in a file, one vector to a row, read row by row.
///
/// ```no_run
/// use iac_adapters::features::{FeatureFile, FeaturePackBuilder};
/// use iac_ops::NoProgress;
/// # let records = iac_adapters::RecordTable::new();
///
/// let vectors = FeatureFile::open("features.npy")?;
/// println!("{} vectors of {} elements", vectors.rows(), vectors.dim());
/// let builder = FeaturePackBuilder::new("teacher-v1");
/// builder.build_streaming("out.features.iac", records, vectors, &NoProgress)?;
/// # Ok::<(), iac_adapters::AdapterError>(())
/// ```
#[derive(Debug)]
pub struct FeatureFile {
    path: PathBuf,
    source: BufReader<File>,
    element: ElementType,
    is_swapped: bool,
    rows: u64,
    dim: u64,
    row_bytes: usize,
    row: u64,
    failed: bool,
}

/// What the beginning of a file says of its matrix.
struct Description {
    element: ElementType,
    is_swapped: bool,
    rows: u64,
    dim: u64,
    start: u64,
    /// Bytes that the matrix must have, where the file states them.
    end: Option<u64>,
}

impl FeatureFile {
    /// Opens a file: `.npy` by its first bytes, `.safetensors` otherwise, which then must hold one
    /// matrix.
    ///
    /// # Errors
    ///
    /// [`AdapterError::Io`]; [`AdapterError::Source`] when the file is neither, is cut, or holds
    /// something else than a matrix of real numbers, row after row.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_tensor(path.as_ref(), None)
    }

    /// Opens a `.safetensors` file and takes the matrix of that name.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn open_named(path: impl AsRef<Path>, tensor: &str) -> Result<Self> {
        Self::open_tensor(path.as_ref(), Some(tensor))
    }

    fn open_tensor(path: &Path, tensor: Option<&str>) -> Result<Self> {
        let file = File::open(path).map_err(AdapterError::io(path, "cannot open it"))?;
        let metadata = file.metadata().map_err(AdapterError::io(path, "cannot examine it"))?;
        if !metadata.is_file() {
            return Err(refuse(path, "is not a regular file"));
        }
        let length = metadata.len();
        let mut source = BufReader::with_capacity(BUFFER_BYTES, file);
        let mut magic = [0; 8];
        read_exactly(path, &mut source, &mut magic)?;
        let described = if magic.starts_with(b"\x93NUMPY") && tensor.is_none() {
            npy(path, &mut source, magic, length)?
        } else {
            safetensors(path, &mut source, u64::from_le_bytes(magic), length, tensor)?
        };
        let Description { element, is_swapped, rows, dim, start, end } = described;
        let too_large = || refuse(path, format!("{rows} rows of {dim} elements are too large"));
        let row_bytes = dim.checked_mul(element.item_bytes()).ok_or_else(too_large)?;
        let bytes = row_bytes.checked_mul(rows).ok_or_else(too_large)?;
        let there = length.saturating_sub(start);
        if bytes > there || end.is_some_and(|end| end != bytes) {
            return Err(refuse(
                path,
                format!(
                    "{rows} rows of {dim} elements of type {element} take {bytes} bytes, but there are {}",
                    end.unwrap_or(there).min(there)
                ),
            ));
        }
        source.seek(SeekFrom::Start(start)).map_err(AdapterError::io(path, "cannot read it"))?;
        Ok(Self {
            path: path.to_owned(),
            source,
            element,
            is_swapped,
            rows,
            dim,
            row_bytes: usize::try_from(row_bytes).map_err(|_| too_large())?,
            row: 0,
            failed: false,
        })
    }

    /// Number of vectors.
    #[must_use]
    pub const fn rows(&self) -> u64 {
        self.rows
    }

    /// Elements of each vector.
    #[must_use]
    pub const fn dim(&self) -> u64 {
        self.dim
    }

    /// The type of the elements.
    #[must_use]
    pub const fn element(&self) -> ElementType {
        self.element
    }

    fn read_row(&mut self) -> Result<FeatureRow<'static>> {
        let mut bytes = Vec::new();
        bytes
            .try_reserve_exact(self.row_bytes)
            .map_err(|_| refuse(&self.path, "a row is larger than the memory"))?;
        bytes.resize(self.row_bytes, 0);
        read_exactly(&self.path, &mut self.source, &mut bytes)?;
        if self.is_swapped {
            let item = usize::try_from(self.element.item_bytes()).unwrap_or(1);
            for element in bytes.chunks_exact_mut(item) {
                element.reverse();
            }
        }
        Ok(FeatureRow::from_bytes(self.element, bytes))
    }
}

impl Iterator for FeatureFile {
    type Item = Result<FeatureRow<'static>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed || self.row >= self.rows {
            return None;
        }
        self.row = self.row.saturating_add(1);
        let row = self.read_row();
        self.failed = row.is_err();
        Some(row)
    }
}

fn npy(path: &Path, source: &mut impl Read, magic: [u8; 8], length: u64) -> Result<Description> {
    let [.., major, minor] = magic;
    let (text_bytes, prefix) = match (major, minor) {
        (1, 0) => {
            let mut bytes = [0; 2];
            read_exactly(path, source, &mut bytes)?;
            (u64::from(u16::from_le_bytes(bytes)), 10_u64)
        }
        (2 | 3, 0) => {
            let mut bytes = [0; 4];
            read_exactly(path, source, &mut bytes)?;
            (u64::from(u32::from_le_bytes(bytes)), 12)
        }
        _ => return Err(refuse(path, format!("version {major}.{minor} of .npy is not known"))),
    };
    let text = description(path, source, text_bytes, length)?;
    let fields = NpyFields::parse(&text)
        .ok_or_else(|| refuse(path, format!("its description is damaged: {}", short(&text))))?;
    let (element, is_swapped) = element_of(&fields.descr).ok_or_else(|| {
        refuse(path, format!("elements of type {} cannot be features", short(&fields.descr)))
    })?;
    let (rows, dim) = match *fields.shape.as_slice() {
        [rows, dim] => (rows, dim),
        _ => {
            return Err(refuse(
                path,
                format!("has shape {:?} where (rows, elements) is expected", fields.shape),
            ));
        }
    };
    // Of a single row or column both orders are the same.
    if fields.fortran_order && rows > 1 && dim > 1 {
        return Err(refuse(path, "is stored column by column; store it row by row"));
    }
    let start = prefix.saturating_add(text_bytes);
    Ok(Description { element, is_swapped, rows, dim, start, end: None })
}

/// The dictionary at the beginning of a `.npy` file.
#[derive(Debug, PartialEq, Eq)]
struct NpyFields {
    descr: String,
    fortran_order: bool,
    shape: Vec<u64>,
}

impl NpyFields {
    /// Reads the three members in any order; nothing when there is anything else.
    fn parse(text: &str) -> Option<Self> {
        let mut rest = text.trim().strip_prefix('{')?.strip_suffix('}')?.trim();
        let (mut descr, mut fortran_order, mut shape) = (None, None, None);
        while !rest.is_empty() {
            let (name, behind) = quoted(rest)?;
            rest = behind.trim_start().strip_prefix(':')?.trim_start();
            match name {
                "descr" => {
                    let (value, behind) = quoted(rest)?;
                    descr = Some(value.to_owned());
                    rest = behind;
                }
                "fortran_order" => {
                    let (value, behind) = match rest.strip_prefix("True") {
                        Some(behind) => (true, behind),
                        None => (false, rest.strip_prefix("False")?),
                    };
                    fortran_order = Some(value);
                    rest = behind;
                }
                "shape" => {
                    let (inner, behind) = rest.strip_prefix('(')?.split_once(')')?;
                    let sizes = inner.split(',').map(str::trim).filter(|size| !size.is_empty());
                    let sizes = sizes.map(|size| size.trim_end_matches('L').parse().ok());
                    shape = Some(sizes.collect::<Option<Vec<u64>>>()?);
                    rest = behind;
                }
                _ => return None,
            }
            rest = rest.trim_start();
            rest = rest.strip_prefix(',').map_or(rest, str::trim_start);
        }
        Some(Self { descr: descr?, fortran_order: fortran_order?, shape: shape? })
    }
}

fn quoted(text: &str) -> Option<(&str, &str)> {
    let quote = text.chars().next().filter(|quote| matches!(quote, '\'' | '"'))?;
    text.strip_prefix(quote)?.split_once(quote)
}

/// The type that a `.npy` file names, and whether its bytes are reversed.
fn element_of(descr: &str) -> Option<(ElementType, bool)> {
    let is_real = |element: &ElementType| {
        !matches!(element, ElementType::Complex64 | ElementType::Complex128)
    };
    if let Some(element) = ElementType::from_big_endian_name(descr).filter(is_real) {
        return Some((element, element.item_bytes() > 1));
    }
    ElementType::from_name(descr).filter(is_real).map(|element| (element, false))
}

fn safetensors(
    path: &Path,
    source: &mut impl Read,
    text_bytes: u64,
    length: u64,
    wanted: Option<&str>,
) -> Result<Description> {
    if text_bytes > length.saturating_sub(8) || text_bytes > MAX_DESCRIPTION {
        return Err(refuse(path, "is neither a .npy nor a .safetensors file"));
    }
    let text = description(path, source, text_bytes, length)?;
    let Ok(Value::Object(members)) = serde_json::from_str::<Value>(&text) else {
        return Err(refuse(path, "is neither a .npy nor a .safetensors file"));
    };
    let mut tensors = members.iter().filter(|(name, _)| name.as_str() != "__metadata__");
    let (name, tensor) = match wanted {
        Some(wanted) => tensors
            .find(|(name, _)| name.as_str() == wanted)
            .ok_or_else(|| refuse(path, format!("has no tensor \"{}\"", short(wanted))))?,
        None => {
            let first = tensors.next().ok_or_else(|| refuse(path, "holds no tensor"))?;
            if tensors.next().is_some() {
                let count = members.keys().filter(|name| name.as_str() != "__metadata__").count();
                return Err(refuse(
                    path,
                    format!("holds {count} tensors: say which one has the features"),
                ));
            }
            first
        }
    };
    let damaged = || refuse(path, format!("tensor \"{}\" is described wrongly", short(name)));
    let dtype = tensor.get("dtype").and_then(Value::as_str).ok_or_else(damaged)?;
    let element = safetensors_element(dtype).ok_or_else(|| {
        refuse(path, format!("elements of type {} cannot be features", short(dtype)))
    })?;
    let numbers = |member: &str| -> Option<Vec<u64>> {
        tensor.get(member)?.as_array()?.iter().map(Value::as_u64).collect()
    };
    let shape = numbers("shape").ok_or_else(damaged)?;
    let offsets = numbers("data_offsets").ok_or_else(damaged)?;
    let (&[rows, dim], &[start, end]) = (shape.as_slice(), offsets.as_slice()) else {
        return Err(refuse(
            path,
            format!(
                "tensor \"{}\" has shape {shape:?} where [rows, elements] is expected",
                short(name)
            ),
        ));
    };
    let bytes = end.checked_sub(start).ok_or_else(damaged)?;
    let start =
        text_bytes.checked_add(8).and_then(|data| data.checked_add(start)).ok_or_else(damaged)?;
    Ok(Description { element, is_swapped: false, rows, dim, start, end: Some(bytes) })
}

fn safetensors_element(name: &str) -> Option<ElementType> {
    Some(match name {
        "BOOL" => ElementType::Bool,
        "I8" => ElementType::Int8,
        "I16" => ElementType::Int16,
        "I32" => ElementType::Int32,
        "I64" => ElementType::Int64,
        "U8" => ElementType::Uint8,
        "U16" => ElementType::Uint16,
        "U32" => ElementType::Uint32,
        "U64" => ElementType::Uint64,
        "F16" => ElementType::Float16,
        "BF16" => ElementType::Bfloat16,
        "F32" => ElementType::Float32,
        "F64" => ElementType::Float64,
        _ => return None,
    })
}

fn description(path: &Path, source: &mut impl Read, bytes: u64, length: u64) -> Result<String> {
    if bytes > length || bytes > MAX_DESCRIPTION {
        return Err(refuse(path, "is cut inside its description"));
    }
    let mut text = vec![0; usize::try_from(bytes).unwrap_or(0)];
    read_exactly(path, source, &mut text)?;
    String::from_utf8(text).map_err(|_| refuse(path, "its description is no text"))
}

fn read_exactly(path: &Path, source: &mut impl Read, buffer: &mut [u8]) -> Result<()> {
    source.read_exact(buffer).map_err(|error| {
        if error.kind() == std::io::ErrorKind::UnexpectedEof {
            return refuse(path, "ends too early");
        }
        AdapterError::io(path, "cannot read it")(error)
    })
}

fn refuse(path: &Path, reason: impl Into<String>) -> AdapterError {
    AdapterError::Source {
        path: path.to_owned(),
        row: None,
        kind: ErrorKind::Damaged,
        reason: reason.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn npy_file(text: &str, data: &[u8]) -> Vec<u8> {
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend_from_slice(&u16::try_from(text.len()).unwrap().to_le_bytes());
        bytes.extend_from_slice(text.as_bytes());
        bytes.extend_from_slice(data);
        bytes
    }

    fn safetensors_file(text: &str, data: &[u8]) -> Vec<u8> {
        let mut bytes = (text.len() as u64).to_le_bytes().to_vec();
        bytes.extend_from_slice(text.as_bytes());
        bytes.extend_from_slice(data);
        bytes
    }

    fn open(bytes: &[u8], tensor: Option<&str>) -> Result<Vec<(ElementType, Vec<u8>)>> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("features");
        fs::write(&path, bytes).unwrap();
        let file = match tensor {
            Some(tensor) => FeatureFile::open_named(&path, tensor)?,
            None => FeatureFile::open(&path)?,
        };
        let dim = usize::try_from(file.dim()).unwrap();
        assert!(file.row_bytes >= dim);
        file.map(|row| row.map(|row| (row.element(), row.bytes().to_vec()))).collect()
    }

    #[test]
    fn matrices_of_both_formats_are_read_row_by_row() {
        let text = "{'descr': '<u2', 'fortran_order': False, 'shape': (2, 1), }   \n";
        let rows = open(&npy_file(text, &[1, 0, 2, 0]), None).unwrap();
        assert_eq!(rows, [(ElementType::Uint16, vec![1, 0]), (ElementType::Uint16, vec![2, 0])]);
        let text = "{'shape': (1, 2), 'descr': '>u2', 'fortran_order': True}\n";
        let rows = open(&npy_file(text, &[0, 1, 0, 2]), None).unwrap();
        assert_eq!(rows, [(ElementType::Uint16, vec![1, 0, 2, 0])]);
        let text = r#"{"__metadata__":{"a":"b"},"a":{"dtype":"BF16","shape":[1,1],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2,2],"data_offsets":[2,6]}}"#;
        let bytes = safetensors_file(text, &[1, 2, 3, 4, 5, 6]);
        let rows = open(&bytes, Some("b")).unwrap();
        assert_eq!(rows, [(ElementType::Uint8, vec![3, 4]), (ElementType::Uint8, vec![5, 6])]);
        assert_eq!(open(&bytes, Some("a")).unwrap(), [(ElementType::Bfloat16, vec![1, 2])]);
        let error = open(&bytes, None).unwrap_err();
        assert!(error.to_string().contains("holds 2 tensors"), "{error}");
    }

    #[test]
    fn files_that_hold_no_matrix_are_refused_with_the_reason() {
        let npy = |text: &str| npy_file(text, &[0; 8]);
        for (bytes, reason) in [
            (b"short".to_vec(), "ends too early"),
            (b"PK\x03\x04 no matrix".to_vec(), "neither"),
            (npy("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 1)}"), "take 12 bytes"),
            (npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}"), "shape [2]"),
            (npy("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2)}"), "column by column"),
            (npy("{'descr': '|O', 'fortran_order': False, 'shape': (2, 1)}"), "type |O"),
            (npy("{'descr': '<c8', 'fortran_order': False, 'shape': (1, 1)}"), "type <c8"),
            (npy("{'descr': [('a', '<f4')], 'shape': (2, 1)}"), "description is damaged"),
            (
                npy("{'descr': '<f8', 'fortran_order': False, 'shape': (18446744073709551615, 4)}"),
                "too large",
            ),
            (b"\x93NUMPY\x09\x00\x00\x00".to_vec(), "version 9"),
            (b"\x93NUMPY\x02\x00\xff\xff\xff\xff".to_vec(), "cut inside"),
            (safetensors_file("[]", &[]), "neither"),
            (safetensors_file("{}", &[]), "holds no tensor"),
            (
                safetensors_file(
                    r#"{"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,8]}}"#,
                    &[0; 16],
                ),
                "take 16 bytes, but there are 8",
            ),
            (
                safetensors_file(
                    r#"{"a":{"dtype":"F32","shape":[2,2],"data_offsets":[8,0]}}"#,
                    &[0; 16],
                ),
                "described wrongly",
            ),
            (
                safetensors_file(
                    r#"{"a":{"dtype":"F32","shape":[2,2],"data_offsets":[18446744073709551600,18446744073709551616]}}"#,
                    &[],
                ),
                "described wrongly",
            ),
            (
                safetensors_file(
                    r#"{"a":{"dtype":"F8_E4M3","shape":[1,1],"data_offsets":[0,1]}}"#,
                    &[0],
                ),
                "type F8_E4M3",
            ),
        ] {
            let error = open(&bytes, None).unwrap_err();
            assert!(error.to_string().contains(reason), "{reason}: {error}");
        }
    }
}
