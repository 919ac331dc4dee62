//! Import of ARRF files: version 6, and version 5 with its layers beside it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use iac_codec::{Codec, CodecSpec, Limits, Registry};

use super::arrf_file::{Array, Block, Chunk, Fill, Parsed, parse};
use super::slabs::Intake;
use crate::attr::Attr;
use crate::data::{ArrayData, Values, decode_variable};
use crate::dtype::DType;
use crate::error::{ArrayError, Result, u64_len, usize_len};
use crate::grid::{Grid, MAX_RANK, product};
use crate::meta::ArraySpec;

/// The array of this name stands for the file; its attributes are those of the store.
const FILE: &str = "__file__";
/// The attribute with the fill value of texts, which readers of these files do not apply.
const TEXT_FILL: &str = "arrf.fill";

/// A file of the set.
struct Layer {
    path: PathBuf,
    bytes: Vec<u8>,
    parsed: Parsed,
}

/// An array as all layers make it.
struct Merged<'a> {
    array: &'a Array,
    attrs: BTreeMap<String, Attr>,
    /// By coordinates: the newest chunk, and the layer that has it.
    chunks: BTreeMap<&'a [u64], (usize, &'a Chunk)>,
}

pub(super) fn import(intake: &mut Intake<'_>) -> Result<()> {
    let layers = layers(intake.path)?;
    let merged = merge(&layers)?;
    let mut store_attrs = BTreeMap::new();
    for (name, merged) in merged {
        if name == FILE {
            store_attrs = merged.attrs;
            continue;
        }
        let name = intake.member_name(name);
        take(intake, &name, &merged, &layers)?;
    }
    for (key, value) in store_attrs {
        intake.store.set_store_attr(&key, value)?;
    }
    Ok(())
}

fn read(path: &Path) -> Result<Layer> {
    let bytes = std::fs::read(path).map_err(ArrayError::file("read the file", path))?;
    let parsed = parse(path, &bytes)?;
    Ok(Layer { path: path.to_owned(), bytes, parsed })
}

/// The file, and for version 5 the layers `STEM.1.af`, `STEM.2.af`, ... beside it.
fn layers(path: &Path) -> Result<Vec<Layer>> {
    let base = read(path)?;
    if base.parsed.version == 6 {
        return Ok(vec![base]);
    }
    if base.parsed.layer != 0 {
        return Err(ArrayError::argument(format!(
            "{}: it is layer {} of a set: name the base file, whose name has no number",
            path.display(),
            base.parsed.layer
        )));
    }
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let folder = super::place::folder_of(path);
    let mut numbers = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(ArrayError::file("list the folder", folder))? {
        let name = entry.map_err(ArrayError::file("list the folder", folder))?.file_name();
        let number = name
            .to_str()
            .and_then(|name| name.strip_prefix(&format!("{stem}.")))
            .and_then(|rest| rest.strip_suffix(".af"))
            .and_then(|digits| digits.parse::<u64>().ok().filter(|n| n.to_string() == digits));
        numbers.extend(number);
    }
    numbers.sort_unstable();
    let mut layers = vec![base];
    for number in numbers {
        let layer = read(&folder.join(format!("{stem}.{number}.af")))?;
        if (layer.parsed.version, layer.parsed.layer) != (5, number) {
            return Err(ArrayError::damaged(
                &layer.path,
                format!(
                    "it says that it is layer {} of version {}",
                    layer.parsed.layer, layer.parsed.version
                ),
            ));
        }
        layers.push(layer);
    }
    Ok(layers)
}

fn merge(layers: &[Layer]) -> Result<BTreeMap<&str, Merged<'_>>> {
    let mut all: BTreeMap<&str, Merged<'_>> = BTreeMap::new();
    // Numbers of keys and values go on from layer to layer.
    let (mut keys, mut values) = (Vec::new(), Vec::new());
    for (number, layer) in layers.iter().enumerate() {
        keys.extend(layer.parsed.keys.iter().cloned());
        values.extend(layer.parsed.values.iter().cloned());
        for array in &layer.parsed.arrays {
            let name = array.name.as_str();
            if array.deleted {
                all.remove(name);
                continue;
            }
            let attrs = layer.parsed.attrs(&layer.path, array, &keys, &values)?;
            let merged = all.entry(name).or_insert_with(|| Merged {
                array,
                attrs: BTreeMap::new(),
                chunks: BTreeMap::new(),
            });
            let before = merged.array;
            if before.dtype != array.dtype
                || before.chunk != array.chunk
                || before.shape != array.shape
            {
                return Err(ArrayError::foreign(
                    &layer.path,
                    format!(
                        "an array that changes its shape or type from layer to layer (`{name}`)"
                    ),
                ));
            }
            (merged.array, merged.attrs) = (array, attrs);
            for chunk in &array.chunks {
                let before = merged.chunks.insert(&chunk.coord, (number, chunk));
                if before.is_some_and(|(layer, _)| layer == number) {
                    return Err(ArrayError::damaged(
                        &layer.path,
                        format!("array `{name}` has chunk {:?} twice", chunk.coord),
                    ));
                }
            }
        }
    }
    Ok(all)
}

/// The bytes of one element that is the fill value.
fn fill_bytes(path: &Path, array: &Array, fill: &Fill) -> Result<Vec<u8>> {
    let wrong = || {
        let reason =
            format!("array `{}` of `{}` has the fill value {fill:?}", array.name, array.dtype);
        ArrayError::damaged(path, reason)
    };
    let whole = match fill {
        Fill::Int(value) => Some(i128::from(*value)),
        Fill::UInt(value) => Some(i128::from(*value)),
        Fill::Float(_) | Fill::Text(_) => None,
    };
    macro_rules! int {
        ($type:ty) => {
            whole
                .and_then(|value| <$type>::try_from(value).ok())
                .map(|value| value.to_le_bytes().to_vec())
        };
    }
    let bytes = match (&array.dtype, fill) {
        (DType::Bool, _) => {
            whole.filter(|value| (0..=1).contains(value)).map(|value| vec![u8::from(value == 1)])
        }
        (DType::Int8, _) => int!(i8),
        (DType::Int16, _) => int!(i16),
        (DType::Int32, _) => int!(i32),
        (DType::Int64 | DType::Timestamp(..), _) => int!(i64),
        (DType::UInt8, _) => int!(u8),
        (DType::UInt16, _) => int!(u16),
        (DType::UInt32, _) => int!(u32),
        (DType::UInt64, _) => int!(u64),
        #[allow(clippy::cast_possible_truncation)] // Compared below.
        (DType::Float32, Fill::Float(value)) => {
            let near = *value as f32;
            let same = f64::from(near) == *value || value.is_nan();
            same.then(|| near.to_le_bytes().to_vec())
        }
        (DType::Float64, Fill::Float(value)) => Some(value.to_le_bytes().to_vec()),
        _ => None,
    };
    bytes.ok_or_else(wrong)
}

fn take(intake: &mut Intake<'_>, name: &str, merged: &Merged<'_>, layers: &[Layer]) -> Result<()> {
    let (array, path) = (merged.array, intake.path);
    let damaged =
        |reason: String| ArrayError::damaged(path, format!("array `{}`: {reason}", array.name));
    if array.shape.len() > MAX_RANK || array.dims.len() != array.shape.len() {
        return Err(damaged(format!("{} axes with {} names", array.shape.len(), array.dims.len())));
    }
    let grid = Grid::new(&array.shape, &array.chunk).map_err(|error| damaged(error.to_string()))?;
    let width = u64_len(array.dtype.width().unwrap_or(1));
    let dims: Vec<&str> = array.dims.iter().map(String::as_str).collect();
    let mut spec =
        ArraySpec::new(array.dtype.clone(), &array.shape).chunks(&array.chunk).dims(&dims);
    for (key, value) in &merged.attrs {
        spec = spec.attr(key, value.clone());
    }
    match &array.fill {
        Some(Fill::Text(text)) => spec = spec.attr(TEXT_FILL, text.as_str()),
        Some(fill) => {
            let fill = fill_bytes(path, array, fill)?;
            spec = spec.fill_data(ArrayData::from_bytes(array.dtype.clone(), &[], fill)?);
        }
        None => {}
    }
    intake.define_sparse(name, spec, 0)?;
    let mut blocks = Blocks { path, layers, registry: Registry::builtin(), held: None };
    for (coord, (layer, chunk)) in &merged.chunks {
        if coord.len() != array.shape.len() || grid.number(coord).is_none() {
            return Err(damaged(format!("there is no chunk {coord:?}")));
        }
        let (origin, extents) = (grid.origin(coord), grid.extents(coord));
        let elements = product(&extents).unwrap_or(u64::MAX);
        let stored = blocks.chunk(*layer, chunk).map_err(|error| match error {
            ArrayError::Corrupt { reason, .. } => damaged(format!("chunk {coord:?}: {reason}")),
            other => other,
        })?;
        intake.claim(u64_len(stored.len()))?;
        let values = match array.dtype.width() {
            Some(_) => {
                if elements.checked_mul(width) != Some(u64_len(stored.len())) {
                    return Err(damaged(format!(
                        "chunk {coord:?} has {} bytes for {elements} elements",
                        stored.len()
                    )));
                }
                Values::Fixed(stored.to_vec())
            }
            None => Values::Variable(
                decode_variable(&array.dtype, stored, elements)
                    .map_err(|reason| damaged(format!("chunk {coord:?}: {reason}")))?,
            ),
        };
        let data = ArrayData { dtype: array.dtype.clone(), shape: extents, values, validity: None };
        data.check().map_err(|error| damaged(format!("chunk {coord:?}: {error}")))?;
        intake.store.write(name, &origin, data)?;
    }
    Ok(())
}

/// Blocks, of which the last one is kept decoded, since chunks follow each other in it.
struct Blocks<'a> {
    path: &'a Path,
    layers: &'a [Layer],
    registry: Registry,
    held: Option<(usize, Block, Vec<u8>)>,
}

impl Blocks<'_> {
    fn chunk(&mut self, layer: usize, chunk: &Chunk) -> Result<&[u8]> {
        let damaged = |reason: String| ArrayError::damaged(self.path, reason);
        let file =
            self.layers.get(layer).ok_or_else(|| damaged("its layer is missing".to_owned()))?;
        let block = file.parsed.blocks.iter().find(|block| block.id == chunk.block);
        let block = block.ok_or_else(|| damaged(format!("there is no block {}", chunk.block)))?;
        let known = self.held.as_ref().is_some_and(|(of, held, _)| *of == layer && held == block);
        if !known {
            let bytes = decode(&self.registry, file, block)?;
            self.held = Some((layer, block.clone(), bytes));
        }
        let start = usize::try_from(chunk.offset).ok();
        let end = start.zip(usize::try_from(chunk.size).ok()).and_then(|(a, b)| a.checked_add(b));
        let held = self.held.as_ref().zip(start.zip(end));
        let span = held.and_then(|((_, _, bytes), (start, end))| bytes.get(start..end));
        span.ok_or_else(|| {
            ArrayError::damaged(self.path, format!("it lies outside of block {}", chunk.block))
        })
    }
}

fn decode(registry: &Registry, file: &Layer, block: &Block) -> Result<Vec<u8>> {
    let damaged = |reason: String| ArrayError::damaged(&file.path, reason);
    let start = usize_len("block", block.offset)?;
    let end = start.checked_add(usize_len("block", block.stored)?);
    let stored = end.and_then(|end| file.bytes.get(start..end));
    let stored = stored.ok_or_else(|| damaged(format!("block {} lies outside", block.id)))?;
    let codec = match block.codec.as_deref() {
        None => Codec::none(),
        Some(name @ ("lz4" | "zstd")) => {
            registry.create(&CodecSpec::new(name, serde_json::Map::new()))?
        }
        Some(other) => {
            return Err(ArrayError::UnknownCodec { name: other.to_owned() });
        }
    };
    let limits = Limits::default();
    let limits = limits.with_max_decoded_bytes(block.raw.min(limits.max_decoded_bytes));
    let bytes = codec
        .decode_bytes(stored, &limits)
        .map_err(|error| damaged(format!("block {} cannot be decoded: {error}", block.id)))?;
    if u64_len(bytes.len()) != block.raw {
        return Err(damaged(format!(
            "block {} has {} bytes instead of {}",
            block.id,
            bytes.len(),
            block.raw
        )));
    }
    Ok(bytes)
}
