//! Files of vectors (.npy, .safetensors): any bytes are refused, or are a matrix whose rows come in
//! the number and size that were stated, and which comes back from the .npy file that is made of it.
//!
//! An input is the file; its first byte chooses whether a tensor is asked for by name.
#![no_main]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use iac_adapters::AdapterError;
use iac_adapters::features::{ElementType, FeatureFile};
use iac_fuzz::{Limited, seeds};
use libfuzzer_sys::fuzz_target;

#[global_allocator]
static ALLOCATOR: Limited = Limited;

/// The file that inputs are written to, as the parser takes files; in memory where that is possible.
static PLACE: LazyLock<PathBuf> = LazyLock::new(|| {
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    folder.join(format!("iac-fuzz-features-{}", std::process::id()))
});

fuzz_target!(
    init: seeds::write(make_seeds),
    |input: &[u8]| {
        let Some((kind, file)) = input.split_first() else { return };
        let tensor = (kind % 2 == 1).then_some("t");
        let Some(matrix) = read(file, tensor) else { return };
        // What is there twice, or is more than the file, cannot have come out of it.
        assert!(matrix.bytes.len() <= file.len());
        let again = read(&npy(&matrix), None).unwrap();
        assert!(again == matrix, "the matrix differs from what it was written as");
    }
);

#[derive(PartialEq)]
struct Matrix {
    element: ElementType,
    rows: u64,
    dim: u64,
    bytes: Vec<u8>,
}

fn read(file: &[u8], tensor: Option<&str>) -> Option<Matrix> {
    std::fs::File::create(&*PLACE).unwrap().write_all(file).unwrap();
    let opened = match tensor {
        Some(tensor) => FeatureFile::open_named(&*PLACE, tensor),
        None => FeatureFile::open(&*PLACE),
    };
    // An open file stays readable, and nothing is left when the process ends.
    std::fs::remove_file(&*PLACE).unwrap();
    let vectors = match opened {
        Ok(vectors) => vectors,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            assert!(
                matches!(error, AdapterError::Source { .. } | AdapterError::Io { .. }),
                "{error}"
            );
            return None;
        }
    };
    let (element, rows, dim) = (vectors.element(), vectors.rows(), vectors.dim());
    let mut matrix = Matrix { element, rows, dim, bytes: Vec::new() };
    // Rows without elements can be any number; they have nothing to compare.
    if dim == 0 && rows > 1000 {
        return None;
    }
    let mut count = 0;
    for row in vectors {
        let row = row.unwrap();
        assert_eq!(row.dim(), dim);
        matrix.bytes.extend_from_slice(row.bytes());
        count += 1;
    }
    assert_eq!(count, rows);
    Some(matrix)
}

/// The matrix as a .npy file of version 2; elements without a type there as their bits.
fn npy(matrix: &Matrix) -> Vec<u8> {
    let descr = match matrix.element {
        ElementType::Float16 => "<f2",
        ElementType::Float32 => "<f4",
        ElementType::Float64 => "<f8",
        ElementType::Int8 => "|i1",
        ElementType::Int16 => "<i2",
        ElementType::Int32 => "<i4",
        ElementType::Int64 => "<i8",
        ElementType::Uint8 => "|u1",
        ElementType::Uint16 => "<u2",
        ElementType::Uint32 => "<u4",
        ElementType::Uint64 => "<u8",
        ElementType::Bool => "|b1",
        _ => "bfloat16",
    };
    let text = format!(
        "{{'descr': '{descr}', 'fortran_order': False, 'shape': ({}, {}), }}\n",
        matrix.rows, matrix.dim
    );
    let length = u32::try_from(text.len()).unwrap().to_le_bytes();
    [b"\x93NUMPY\x02\x00", &length[..], text.as_bytes(), &matrix.bytes].concat()
}

fn make_seeds() -> Vec<(String, Vec<u8>)> {
    let with = |kind: u8, rest: &[u8]| [&[kind][..], rest].concat();
    let numpy = |descr: &str, order: &str, shape: &str, data: usize| {
        let text = format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}");
        let length = u16::try_from(text.len()).unwrap().to_le_bytes();
        [b"\x93NUMPY\x01\x00", &length[..], text.as_bytes(), &vec![0x3c; data]].concat()
    };
    let safe = |text: &str, data: usize| {
        [&(text.len() as u64).to_le_bytes()[..], text.as_bytes(), &vec![0x3c; data]].concat()
    };
    let one = r#"{"t":{"dtype":"F16","shape":[2,3],"data_offsets":[0,12]}}"#;
    let two = r#"{"__metadata__":{"a":"b"},"t":{"dtype":"BF16","shape":[2,2],"data_offsets":[0,8]},"u":{"dtype":"F32","shape":[1,1],"data_offsets":[8,12]}}"#;
    vec![
        ("npy-f4".to_owned(), with(0, &numpy("<f4", "False", "(2, 3)", 24))),
        ("npy-big".to_owned(), with(0, &numpy(">f8", "False", "(1, 2)", 16))),
        ("npy-fortran".to_owned(), with(0, &numpy("<f2", "True", "(3, 1)", 6))),
        ("npy-one-axis".to_owned(), with(0, &numpy("|u1", "False", "(6,)", 6))),
        ("npy-cut".to_owned(), with(0, &numpy("<i8", "False", "(4, 4)", 100))),
        ("npy-empty".to_owned(), with(0, &numpy("<f4", "False", "(0, 3)", 0))),
        ("safe-one".to_owned(), with(0, &safe(one, 12))),
        ("safe-named".to_owned(), with(1, &safe(two, 12))),
        ("safe-several".to_owned(), with(0, &safe(two, 12))),
        ("safe-cut".to_owned(), with(1, &safe(one, 11))),
    ]
}
