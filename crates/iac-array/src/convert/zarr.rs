//! Folders of Zarr, by the crate `zarrs`: versions 2 and 3 are read, version 3 is written.

use std::num::NonZeroU64;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value};
use zarrs::array::codec::ZstdCodec;
use zarrs::array::{
    Array, ArrayBuilder, ArrayBytes, ArrayMetadataOptions, ArrayShardedExt, DataType, data_type,
};
use zarrs::filesystem::FilesystemStore;
use zarrs::group::GroupBuilder;
use zarrs::metadata::NodeMetadata;
use zarrs::node::Node;
use zarrs::plugin::{ExtensionName, ZarrVersion};

use super::slabs::{Intake, give};
use super::{ExportOptions, arrays, place};
use crate::attr::Attr;
use crate::blocking::Snapshot;
use crate::data::{ArrayData, Values};
use crate::dtype::{DType, TimeUnit};
use crate::error::{ArrayError, Result, u64_len};
use crate::grid::{Grid, MAX_RANK, product};
use crate::meta::{ArrayMeta, ArraySpec};

/// Behind the name of an attribute whose value no attribute here can hold: the value is its JSON.
const JSON: &str = ".json";
/// Chunks that an imported array may have.
const MAX_CHUNKS: u64 = 1 << 24;

type Store = Arc<FilesystemStore>;

fn open(path: &Path) -> Result<Store> {
    let store = FilesystemStore::new(path);
    store.map(Arc::new).map_err(|error| broken(path, &error))
}

/// What `zarrs` says of a folder.
fn broken(path: &Path, error: &dyn std::fmt::Display) -> ArrayError {
    ArrayError::damaged(path, error.to_string())
}

pub(super) fn import(intake: &mut Intake<'_>) -> Result<()> {
    let path = intake.path;
    if !path.is_dir() {
        return Err(ArrayError::NotFound { what: "folder", name: path.display().to_string() });
    }
    let store = open(path)?;
    let root = Node::open(&store, "/").map_err(|error| broken(path, &error))?;
    let mut nodes = Vec::new();
    collect(&root, &mut nodes);
    nodes.sort();
    for node in nodes {
        let array = Array::open(Arc::clone(&store), &node).map_err(|error| broken(path, &error))?;
        let inner = node.trim_start_matches('/');
        let name = if inner.is_empty() { intake.single_name() } else { intake.member_name(inner) };
        take(intake, &name, &array)?;
    }
    Ok(())
}

/// Paths of all arrays below a node.
fn collect(node: &Node, found: &mut Vec<String>) {
    if is_array(node.metadata()) {
        found.push(node.path().to_string());
    }
    node.children().iter().for_each(|child| collect(child, found));
}

const fn is_array(metadata: &NodeMetadata) -> bool {
    matches!(metadata, NodeMetadata::Array(_))
}

/// The type of elements; none for those that arrays have not.
fn element(found: &DataType) -> Option<DType> {
    let name = found.name(ZarrVersion::V3)?;
    Some(match &*name {
        "bool" => DType::Bool,
        "int8" => DType::Int8,
        "int16" => DType::Int16,
        "int32" => DType::Int32,
        "int64" => DType::Int64,
        "uint8" => DType::UInt8,
        "uint16" => DType::UInt16,
        "uint32" => DType::UInt32,
        "uint64" => DType::UInt64,
        "float16" => DType::Float16,
        "bfloat16" => DType::BFloat16,
        "float32" => DType::Float32,
        "float64" => DType::Float64,
        "complex64" | "complex_float32" => DType::Complex64,
        "complex128" | "complex_float64" => DType::Complex128,
        "string" => DType::Utf8,
        "bytes" => DType::Binary,
        _ => return None,
    })
}

fn take(intake: &mut Intake<'_>, name: &str, array: &Array<FilesystemStore>) -> Result<()> {
    let path = intake.path;
    let foreign = |what: String| ArrayError::foreign(path, format!("{what} (array `{name}`)"));
    let dtype = element(array.data_type())
        .ok_or_else(|| foreign(format!("elements `{}`", array.data_type())))?;
    let shape = array.shape().to_vec();
    if shape.len() > MAX_RANK {
        return Err(foreign(format!("{} axes", shape.len())));
    }
    let origin = vec![0; shape.len()];
    let outer: Vec<u64> = array
        .chunk_shape(&origin)
        .map_err(|error| broken(path, &error))?
        .iter()
        .map(|side| side.get())
        .collect();
    let chunk = match array.subchunk_shape() {
        Some(inner) => inner.iter().map(|side| side.get()).collect(),
        None => outer.clone(),
    };
    let width = u64_len(dtype.width().unwrap_or(1));
    let bytes = intake.bytes_of(&shape, width)?;
    let mut spec = ArraySpec::new(dtype.clone(), &shape).chunks(&chunk);
    if let Some(dims) = array.dimension_names() {
        let dims: Vec<&str> = dims.iter().map(|dim| dim.as_deref().unwrap_or("")).collect();
        spec = spec.dims(&dims);
    }
    for (key, value) in array.attributes() {
        spec = match Attr::from_json(value) {
            Some(value) => spec.attr(key, value),
            None => spec.attr(&format!("{key}{JSON}"), value.to_string()),
        };
    }
    let fill = array.fill_value().as_ne_bytes();
    let fill = match dtype.width() {
        Some(width) if fill.len() == width => Values::Fixed(fill.to_vec()),
        Some(_) => return Err(foreign("a fill value of another size".to_owned())),
        None => Values::Variable(vec![fill.to_vec()]),
    };
    spec = spec.fill_data(ArrayData {
        dtype: dtype.clone(),
        shape: Vec::new(),
        values: fill,
        validity: None,
    });
    intake.define_sparse(name, spec, bytes)?;
    // One stored chunk, or shard, after the other; those that are not there are fill already.
    let grid = Grid::new(&shape, &outer)?;
    if grid.total() > MAX_CHUNKS {
        return Err(foreign(format!("{} chunks", grid.total())));
    }
    for number in 0..grid.total() {
        let Some(at) = grid.coordinates(number) else {
            continue;
        };
        let is_there = array.retrieve_encoded_chunk(&at).map_err(|error| broken(path, &error))?;
        if is_there.is_none() {
            continue;
        }
        drop(is_there);
        let (start, extents) = (grid.origin(&at), grid.extents(&at));
        let ranges: Vec<Range<u64>> = start
            .iter()
            .zip(&extents)
            .map(|(start, extent)| *start..start.saturating_add(*extent))
            .collect();
        let found: ArrayBytes<'static> =
            array.retrieve_array_subset(&ranges).map_err(|error| broken(path, &error))?;
        let values = values(path, &dtype, &extents, found)?;
        let data = ArrayData { dtype: dtype.clone(), shape: extents, values, validity: None };
        data.check().map_err(|error| broken(path, &error))?;
        intake.store.write(name, &start, data)?;
    }
    Ok(())
}

fn values(path: &Path, dtype: &DType, extents: &[u64], found: ArrayBytes<'_>) -> Result<Values> {
    let elements = product(extents).unwrap_or(u64::MAX);
    let wrong = || broken(path, &format!("a chunk has not {elements} elements of `{dtype}`"));
    Ok(match found {
        ArrayBytes::Fixed(bytes) => {
            crate::data::check_fixed(dtype, &bytes, elements)
                .map_err(|reason| broken(path, &reason))?;
            Values::Fixed(bytes.into_owned())
        }
        ArrayBytes::Variable(found) => {
            let offsets: &[usize] = found.offsets();
            let spans = offsets.iter().zip(offsets.iter().skip(1));
            let texts: Option<Vec<Vec<u8>>> = spans
                .map(|(start, end)| found.bytes().get(*start..*end).map(<[u8]>::to_vec))
                .collect();
            Values::Variable(
                texts.filter(|texts| u64_len(texts.len()) == elements).ok_or_else(wrong)?,
            )
        }
        ArrayBytes::Optional(_) => {
            return Err(ArrayError::foreign(path, "elements that may be missing"));
        }
    })
}

fn data_type_of(dtype: &DType) -> Option<DataType> {
    Some(match dtype {
        DType::Bool => data_type::bool(),
        DType::Int8 => data_type::int8(),
        DType::Int16 => data_type::int16(),
        DType::Int32 => data_type::int32(),
        DType::Int64 | DType::Timestamp(..) => data_type::int64(),
        DType::UInt8 => data_type::uint8(),
        DType::UInt16 => data_type::uint16(),
        DType::UInt32 => data_type::uint32(),
        DType::UInt64 => data_type::uint64(),
        DType::Float16 => data_type::float16(),
        DType::BFloat16 => data_type::bfloat16(),
        DType::Float32 => data_type::float32(),
        DType::Float64 => data_type::float64(),
        DType::Complex64 => data_type::complex64(),
        DType::Complex128 => data_type::complex128(),
        DType::FixedList(inner, _) => return data_type_of(inner),
        DType::Utf8 | DType::Binary | DType::FixedBinary(_) | DType::List(_) => return None,
    })
}

pub(super) fn export(
    snapshot: &Snapshot,
    name: Option<&str>,
    path: &Path,
    options: &ExportOptions,
) -> Result<()> {
    // A folder is never replaced: what is in it may be more than what is written now.
    let _ = options;
    place::check_free(path)?;
    let folder = place::folder_of(path);
    std::fs::create_dir_all(folder).map_err(ArrayError::file("make the folder", folder))?;
    let unfinished = tempfile::Builder::new()
        .prefix(".iac.")
        .suffix(".part")
        .tempdir_in(folder)
        .map_err(ArrayError::file("make the folder", path))?;
    let inner = unfinished.path().join("zarr");
    std::fs::create_dir(&inner).map_err(ArrayError::file("make the folder", path))?;
    let store = open(&inner)?;
    let names = name.map_or_else(|| arrays(snapshot), |name| vec![name.to_owned()]);
    names.iter().try_for_each(|name| place::check_inside(path, name))?;
    let attrs = snapshot.as_async().store_attrs();
    let mut groups = vec![String::new()];
    for name in &names {
        for (at, _) in name.match_indices('/') {
            groups.extend(name.get(..at).map(str::to_owned));
        }
    }
    groups.sort();
    groups.dedup();
    for group in groups {
        let node = snapshot.meta(&group).ok();
        let attrs = if group.is_empty() { Some(&attrs) } else { node.map(ArrayMeta::attrs) };
        let mut builder = GroupBuilder::new();
        builder.attributes(attrs.map(members).unwrap_or_default());
        builder
            .build(Arc::clone(&store), &format!("/{group}"))
            .map_err(|error| broken(path, &error))?
            .store_metadata()
            .map_err(|error| broken(path, &error))?;
    }
    for name in &names {
        put(snapshot, name, path, &store)?;
    }
    std::fs::rename(&inner, path).map_err(ArrayError::file("give its name to the folder", path))
}

fn members(attrs: &std::collections::BTreeMap<String, Attr>) -> Map<String, Value> {
    let mut members = Map::new();
    for (key, value) in attrs {
        let json = match (key.strip_suffix(JSON), value) {
            (Some(key), Attr::Text(text)) => {
                serde_json::from_str(text).ok().map(|value| (key.to_owned(), value))
            }
            _ => None,
        };
        let (key, value) = json.unwrap_or_else(|| (key.clone(), value.to_json()));
        members.insert(key, value);
    }
    members
}

fn put(snapshot: &Snapshot, name: &str, path: &Path, store: &Store) -> Result<()> {
    let meta = snapshot.meta(name)?;
    let unsupported =
        || ArrayError::foreign(path, format!("elements of `{}` (array `{name}`)", meta.dtype()));
    let kind = data_type_of(meta.dtype()).ok_or_else(unsupported)?;
    let (mut shape, mut chunk) = (meta.shape().to_vec(), meta.chunks().to_vec());
    let mut dims: Vec<Option<String>> =
        meta.dims().iter().map(|dim| (!dim.is_empty()).then(|| dim.clone())).collect();
    let mut width = meta.dtype().width().unwrap_or(1);
    // Elements of several numbers are an axis more.
    if let DType::FixedList(inner, count) = meta.dtype() {
        shape.push(u64::from(*count));
        chunk.push(u64::from(*count));
        dims.push(None);
        width = inner.width().unwrap_or(1);
    }
    let fill = meta.fill().map(|fill| fill.get(..width).unwrap_or(fill).to_vec());
    let fill = zarrs::array::FillValue::new(fill.unwrap_or_else(|| vec![0; width]));
    let chunk: Vec<NonZeroU64> = chunk.into_iter().filter_map(NonZeroU64::new).collect();
    let mut attrs = members(meta.attrs());
    if let DType::Timestamp(unit, _) = meta.dtype() {
        let unit = match unit {
            TimeUnit::Second => "s",
            TimeUnit::Millisecond => "ms",
            TimeUnit::Microsecond => "us",
            TimeUnit::Nanosecond => "ns",
        };
        attrs.insert("timestamp_unit".to_owned(), Value::from(unit));
    }
    let array = ArrayBuilder::new(shape.clone(), chunk, kind, fill)
        .attributes(attrs)
        .dimension_names(dims.iter().any(Option::is_some).then_some(dims))
        .bytes_to_bytes_codecs(vec![Arc::new(ZstdCodec::new(3, false))])
        .build(Arc::clone(store), &format!("/{name}"))
        .map_err(|error| broken(path, &error))?;
    let options = ArrayMetadataOptions::default().with_include_zarrs_metadata(false);
    array.store_metadata_opt(&options).map_err(|error| broken(path, &error))?;
    let mut row = 0_u64;
    give(snapshot, name, |slab| {
        let mut ranges: Vec<Range<u64>> = shape.iter().map(|extent| 0..*extent).collect();
        if let (Some(range), Some(count)) = (ranges.first_mut(), slab.shape().first()) {
            *range = row..row.saturating_add(*count);
            row = range.end;
        }
        let bytes = slab.as_bytes().ok_or_else(unsupported)?;
        array
            .store_array_subset(&ranges, ArrayBytes::new_flen(bytes))
            .map_err(|error| broken(path, &error))
    })
}
