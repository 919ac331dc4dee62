//! Import of ARRF files: version 6, and version 5 with its layers beside it.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use iac_codec::{Codec, CodecSpec, Limits, Registry};

use super::arrf_file::{
    Array, Block, Chunk, Fill, MAX_ATTRS, Parsed, TRAILER, footer_bytes, parse,
};
use super::place;
use super::slabs::Intake;
use crate::attr::Attr;
use crate::data::{ArrayData, Values};
use crate::dtype::DType;
use crate::error::{ArrayError, Result, u64_len, zeroed};
use crate::grid::{Grid, MAX_RANK, product};
use crate::meta::ArraySpec;
use crate::values::decode_variable;

/// The array of this name stands for the file; its attributes are those of the store.
const FILE: &str = "__file__";
/// The attribute with the fill value of texts, which readers of these files do not apply.
const TEXT_FILL: &str = "arrf.fill";

/// A file of the set.
struct Layer {
    path: PathBuf,
    file: RefCell<File>,
    parsed: Parsed,
    /// The number of a block in the list, by its id.
    by_id: HashMap<u32, usize>,
}

impl Layer {
    /// Bytes of the file, which must be there.
    fn bytes(&self, at: u64, length: u64) -> Result<Vec<u8>> {
        let mut bytes = zeroed("block", length)?;
        let mut file = self.file.borrow_mut();
        let read = file.seek(SeekFrom::Start(at)).and_then(|_| file.read_exact(&mut bytes));
        read.map_err(ArrayError::file("read the file", &self.path))?;
        Ok(bytes)
    }
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
    let (mut targets, mut jobs) = (Vec::new(), Vec::new());
    for (name, merged) in merged {
        if name == FILE {
            store_attrs = merged.attrs;
            continue;
        }
        let name = intake.member_name(name);
        let target = define(intake, name, &merged)?;
        for (coord, (layer, chunk)) in merged.chunks {
            let is_there =
                coord.len() == target.array.shape.len() && target.grid.number(coord).is_some();
            if !is_there {
                return Err(target.damaged(intake.path, &format!("there is no chunk {coord:?}")));
            }
            let block = layers.get(layer).and_then(|layer| layer.by_id.get(&chunk.block)).copied();
            let block = block.ok_or_else(|| {
                let reason = format!("chunk {coord:?}: there is no block {}", chunk.block);
                target.damaged(intake.path, &reason)
            })?;
            jobs.push(Job { layer, block, chunk, coord, array: targets.len() });
        }
        targets.push(target);
    }
    write(intake, &targets, jobs, &layers)?;
    for (key, value) in store_attrs {
        intake.store.set_store_attr(&key, value)?;
    }
    Ok(())
}

fn read(path: &Path) -> Result<Layer> {
    let (mut file, length) = place::open(path)?;
    let mut part = |back: u64, bytes: &mut [u8]| {
        let from = SeekFrom::Start(length.saturating_sub(back));
        let read = file.seek(from).and_then(|_| file.read_exact(bytes));
        read.map_err(ArrayError::file("read the file", path))
    };
    let behind = u64_len(TRAILER);
    if length < behind {
        return Err(ArrayError::damaged(path, "it does not end as an ARRF file"));
    }
    let mut trailer = [0; TRAILER];
    part(behind, &mut trailer)?;
    let footer_bytes = footer_bytes(path, &trailer, length)?;
    let mut footer = zeroed("footer", footer_bytes)?;
    let end = footer_bytes.saturating_add(behind);
    part(end, &mut footer)?;
    let parsed = parse(path, &footer, length.saturating_sub(end))?;
    check_apart(path, &parsed.blocks)?;
    let mut by_id = HashMap::new();
    for (number, block) in parsed.blocks.iter().enumerate() {
        by_id.entry(block.id).or_insert(number);
    }
    Ok(Layer { path: path.to_owned(), file: RefCell::new(file), parsed, by_id })
}

/// Refuses blocks that share bytes: few would stand for any number of decoded ones.
fn check_apart(path: &Path, blocks: &[Block]) -> Result<()> {
    let mut spans: Vec<(u64, u64)> =
        blocks.iter().map(|block| (block.offset, block.stored)).filter(|span| span.1 > 0).collect();
    spans.sort_unstable();
    for two in spans.windows(2) {
        if let &[(offset, stored), (next, _)] = two
            && offset.saturating_add(stored) > next
        {
            let reason = format!("two blocks share the byte at {next}");
            return Err(ArrayError::damaged(path, reason));
        }
    }
    Ok(())
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
    let folder = place::folder_of(path);
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
    let mut left = MAX_ATTRS;
    for (number, layer) in layers.iter().enumerate() {
        keys.extend(layer.parsed.keys.iter().cloned());
        values.extend(layer.parsed.values.iter().cloned());
        for array in &layer.parsed.arrays {
            let name = array.name.as_str();
            if array.deleted {
                all.remove(name);
                continue;
            }
            let attrs = layer.parsed.attrs(&layer.path, array, &keys, &values, &mut left)?;
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

/// A chunk that is to be written.
struct Job<'a> {
    layer: usize,
    /// The number of its block in the list of the layer.
    block: usize,
    chunk: &'a Chunk,
    coord: &'a [u64],
    /// The number of its array.
    array: usize,
}

/// An array that has been defined.
struct Target<'a> {
    name: String,
    array: &'a Array,
    grid: Grid,
}

impl Target<'_> {
    fn damaged(&self, path: &Path, reason: &str) -> ArrayError {
        ArrayError::damaged(path, format!("array `{}`: {reason}", self.array.name))
    }
}

/// Defines an array.
fn define<'a>(intake: &mut Intake<'_>, name: String, merged: &Merged<'a>) -> Result<Target<'a>> {
    let (array, path) = (merged.array, intake.path);
    let damaged =
        |reason: String| ArrayError::damaged(path, format!("array `{}`: {reason}", array.name));
    if array.shape.len() > MAX_RANK || array.dims.len() != array.shape.len() {
        return Err(damaged(format!("{} axes with {} names", array.shape.len(), array.dims.len())));
    }
    let grid = Grid::new(&array.shape, &array.chunk).map_err(|error| damaged(error.to_string()))?;
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
    intake.define_sparse(&name, spec, 0)?;
    Ok(Target { name, array, grid })
}

/// Writes all chunks, block by block: each block is decoded once, however its chunks are spread.
fn write(
    intake: &mut Intake<'_>,
    targets: &[Target<'_>],
    mut jobs: Vec<Job<'_>>,
    layers: &[Layer],
) -> Result<()> {
    let path = intake.path;
    jobs.sort_by_key(|job| (job.layer, job.block, job.chunk.offset));
    let registry = Registry::builtin();
    let mut held: Option<(usize, usize, Vec<u8>)> = None;
    let mut decoded = 0_u64;
    for job in jobs {
        let (Some(target), Some(layer)) = (targets.get(job.array), layers.get(job.layer)) else {
            continue;
        };
        let coord = job.coord;
        let wrong = |reason: String| target.damaged(path, &format!("chunk {coord:?}: {reason}"));
        if held.as_ref().is_none_or(|held| (held.0, held.1) != (job.layer, job.block)) {
            // Two at once would be twice the memory.
            drop(held.take());
            let block = layer.parsed.blocks.get(job.block);
            let block = block.ok_or_else(|| wrong("its block is missing".to_owned()))?;
            decoded = decoded.saturating_add(block.raw);
            let allowed = intake.options.max_bytes;
            if decoded > allowed {
                return Err(ArrayError::TooLarge {
                    what: "file's blocks (decoded bytes)",
                    found: decoded,
                    allowed,
                });
            }
            let bytes = decode(&registry, layer, block).map_err(|error| match error {
                ArrayError::Corrupt { reason, .. } => wrong(reason),
                other => other,
            })?;
            held = Some((job.layer, job.block, bytes));
        }
        let bytes = held.as_ref().map(|held| held.2.as_slice()).unwrap_or_default();
        let start = usize::try_from(job.chunk.offset).ok();
        let size = usize::try_from(job.chunk.size).ok();
        let end = start.zip(size).and_then(|(start, size)| start.checked_add(size));
        let stored = start.zip(end).and_then(|(start, end)| bytes.get(start..end));
        let stored =
            stored.ok_or_else(|| wrong(format!("it lies outside of block {}", job.chunk.block)))?;
        intake.claim(u64_len(stored.len()))?;
        let data = elements(target, coord, stored).map_err(wrong)?;
        intake.store.write(&target.name, &target.grid.origin(coord), data)?;
    }
    Ok(())
}

/// The elements of a chunk.
fn elements(
    target: &Target<'_>,
    coord: &[u64],
    stored: &[u8],
) -> std::result::Result<ArrayData, String> {
    let array = target.array;
    let extents = target.grid.extents(coord);
    let elements = product(&extents).unwrap_or(u64::MAX);
    let values = match array.dtype.width() {
        Some(width) => {
            if elements.checked_mul(u64_len(width)) != Some(u64_len(stored.len())) {
                return Err(format!("{} bytes for {elements} elements", stored.len()));
            }
            Values::Fixed(stored.to_vec())
        }
        None => Values::Variable(decode_variable(&array.dtype, stored, elements)?),
    };
    let data = ArrayData { dtype: array.dtype.clone(), shape: extents, values, validity: None };
    data.check().map_err(|error| error.to_string())?;
    Ok(data)
}

fn decode(registry: &Registry, layer: &Layer, block: &Block) -> Result<Vec<u8>> {
    let damaged = |reason: String| ArrayError::damaged(&layer.path, reason);
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
    // No codec needs more bytes than it stands for, but for a frame's own.
    if block.stored > limits.max_decoded_bytes.saturating_mul(2).saturating_add(1 << 16) {
        return Err(damaged(format!(
            "block {} has {} bytes for {}",
            block.id, block.stored, block.raw
        )));
    }
    let stored = layer.bytes(block.offset, block.stored)?;
    let bytes = codec
        .decode_bytes(&stored, &limits)
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
