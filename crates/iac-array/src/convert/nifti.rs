//! NIfTI files.

use std::io::{BufReader, Read, Seek, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;

use super::nifti_header::{BYTES_1, BYTES_2, Header};
use super::slabs::{Intake, give, swap};
use super::{AFFINE, ExportOptions, place};
use crate::attr::Attr;
use crate::blocking::Snapshot;
use crate::dtype::DType;
use crate::error::{ArrayError, Result, u64_len};
use crate::meta::{ArrayMeta, ArraySpec};

/// The attribute with the header of the file that an array came from, as NIfTI-2 has it, so that
/// exporting gives back what is in no other attribute.
const HEADER: &str = "nifti.header";
/// Names of axes, the fastest one first.
const AXES: [&str; 7] = ["x", "y", "z", "t", "u", "v", "w"];

/// A type of elements by its number.
fn element(datatype: i16) -> Option<DType> {
    let list = |count| DType::FixedList(Box::new(DType::UInt8), count);
    Some(match datatype {
        2 => DType::UInt8,
        4 => DType::Int16,
        8 => DType::Int32,
        16 => DType::Float32,
        32 => DType::Complex64,
        64 => DType::Float64,
        128 => list(3),
        256 => DType::Int8,
        512 => DType::UInt16,
        768 => DType::UInt32,
        1024 => DType::Int64,
        1280 => DType::UInt64,
        1792 => DType::Complex128,
        2304 => list(4),
        _ => return None,
    })
}

/// The number of a type.
fn datatype(dtype: &DType) -> Option<i16> {
    let all = [2, 4, 8, 16, 32, 64, 128, 256, 512, 768, 1024, 1280, 1792, 2304];
    // Truth values are labels.
    let dtype = if *dtype == DType::Bool { &DType::UInt8 } else { dtype };
    all.into_iter().find(|number| element(*number).as_ref() == Some(dtype))
}

/// Bytes behind the elements of a packed file that are read for its checksum.
const MAX_REST: u64 = 64 << 20;

/// A stream of bytes, decompressed when it is packed, and the bytes of the file.
struct Stream {
    source: Box<dyn Read>,
    stored: u64,
    packed: bool,
}

fn stream(path: &Path) -> Result<Stream> {
    let (mut file, stored) = place::open(path)?;
    let mut start = [0; 2];
    let packed = file.read_exact(&mut start).is_ok() && start == [0x1F, 0x8B];
    file.rewind().map_err(ArrayError::file("read the file", path))?;
    let buffered = BufReader::with_capacity(1 << 18, file);
    let source: Box<dyn Read> =
        if packed { Box::new(MultiGzDecoder::new(buffered)) } else { Box::new(buffered) };
    Ok(Stream { source, stored, packed })
}

fn read_header(path: &Path, source: &mut dyn Read) -> Result<Header> {
    let mut read = |bytes: &mut [u8]| {
        source.read_exact(bytes).map_err(|error| match error.kind() {
            std::io::ErrorKind::UnexpectedEof => {
                ArrayError::damaged(path, "it ends within its header")
            }
            _ => place::unread(path, error),
        })
    };
    let mut start = [0; 4];
    read(&mut start)?;
    let (version, _) = Header::announced(start)
        .ok_or_else(|| ArrayError::damaged(path, "it does not begin as a NIfTI file"))?;
    let mut bytes = vec![0; if version == 1 { BYTES_1 } else { BYTES_2 }];
    if let Some((head, rest)) = bytes.split_first_chunk_mut::<4>() {
        *head = start;
        read(rest)?;
    }
    Header::parse(path, &bytes)
}

/// The file with the elements that belongs to one with a header, or the other way round.
fn partner(path: &Path, end: &str) -> PathBuf {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let packed = name.to_lowercase().ends_with(".gz");
    let stem = if packed { path.with_extension("") } else { path.to_owned() };
    let plain = stem.with_extension(end);
    if packed { plain.with_extension(format!("{end}.gz")) } else { plain }
}

pub(super) fn import(intake: &mut Intake<'_>) -> Result<()> {
    let path = intake.path;
    let is_image = path.extension().is_some_and(|end| end.eq_ignore_ascii_case("img"));
    let header_path = if is_image { partner(path, "hdr") } else { path.to_owned() };
    let Stream { mut source, mut stored, mut packed } = stream(&header_path)?;
    let header = read_header(&header_path, &mut source)?;
    let read = if header.version == 1 { BYTES_1 } else { BYTES_2 };
    let mut skip = u64::try_from(header.vox_offset).ok();
    if header.pair {
        let image = partner(&header_path, "img");
        Stream { source, stored, packed } = stream(&image)?;
    } else {
        // The four bytes behind the header belong to it.
        skip = skip.and_then(|offset| offset.checked_sub(u64_len(read)));
    }
    let skip = skip.ok_or_else(|| {
        ArrayError::damaged(path, format!("its elements begin at {}", header.vox_offset))
    })?;
    let (shape, dims) = shape(path, &header)?;
    let stored_type = element(header.datatype).ok_or_else(|| {
        ArrayError::foreign(path, format!("elements of datatype {}", header.datatype))
    })?;
    let width = u64_len(stored_type.width().unwrap_or(1));
    if u64::try_from(header.bitpix).ok() != width.checked_mul(8) {
        return Err(ArrayError::damaged(
            path,
            format!("datatype {} of {} bits", header.datatype, header.bitpix),
        ));
    }
    let bytes = intake.bytes_of(&shape, width)?;
    intake.check_room(bytes.saturating_add(skip), stored, packed)?;
    let skipped = std::io::copy(&mut (&mut source).take(skip), &mut std::io::sink());
    if skipped.map_err(|error| place::unread(path, error))? != skip {
        return Err(ArrayError::damaged(path, "it ends before its elements begin"));
    }

    let scale = scale(&header).filter(|_| intake.options.scaled);
    let dtype = match (&scale, &stored_type) {
        (None, stored) => stored.clone(),
        (Some(_), DType::Complex64 | DType::Complex128 | DType::FixedList(..)) => {
            return Err(ArrayError::foreign(path, format!("scaling of `{stored_type}`")));
        }
        (Some(_), DType::Int8 | DType::UInt8 | DType::Int16 | DType::UInt16 | DType::Float32) => {
            DType::Float32
        }
        (Some(_), _) => DType::Float64,
    };
    let dims: Vec<&str> = dims.iter().map(String::as_str).collect();
    let mut spec = ArraySpec::new(dtype.clone(), &shape).dims(&dims);
    let affine: Vec<f64> = header.affine().into_iter().flatten().collect();
    spec = spec.attr(AFFINE, affine);
    let mut kept = Header { version: 2, swapped: false, pair: false, ..header.clone() };
    if scale.is_some() {
        (kept.slope, kept.intercept) = (0.0, 0.0);
    } else if let Some([slope, intercept]) = self::scale(&header) {
        spec = spec.attr("scale", vec![slope, intercept]);
    }
    spec = spec.attr(HEADER, kept.encode().unwrap_or_default());
    let text = String::from_utf8_lossy(&header.descrip);
    let text = text.trim_end_matches('\0').trim();
    if !text.is_empty() {
        spec = spec.attr("description", text);
    }
    let lane = if header.swapped { stored_type.lane() } else { 1 };
    let name = intake.single_name();
    intake.take(&name, spec, width, &mut source, &|mut bytes| {
        swap(&mut bytes, lane);
        match scale {
            Some(scale) => scaled(&bytes, &stored_type, &dtype, scale),
            None => Ok(bytes),
        }
    })?;
    if packed {
        // The checksum of what is packed stands behind it, and is compared when it is read.
        let rest = std::io::copy(&mut source.take(MAX_REST), &mut std::io::sink());
        let rest = rest.map_err(|error| place::unread(path, error))?;
        if rest == MAX_REST {
            let reason = format!("{MAX_REST} bytes or more lie behind its elements");
            return Err(ArrayError::damaged(path, reason));
        }
    }
    Ok(())
}

/// Slope and intercept, where they change anything.
fn scale(header: &Header) -> Option<[f64; 2]> {
    let (slope, intercept) = (header.slope, header.intercept);
    let useful = slope != 0.0 && slope.is_finite() && intercept.is_finite();
    (useful && (slope, intercept) != (1.0, 0.0)).then_some([slope, intercept])
}

/// The extents, slowest first, and names of the axes.
fn shape(path: &Path, header: &Header) -> Result<(Vec<u64>, Vec<String>)> {
    let damaged = || ArrayError::damaged(path, format!("`dim` is {:?}", header.dim));
    let [rank, extents @ ..] = header.dim;
    let rank = usize::try_from(rank).ok().filter(|rank| (1..=7).contains(rank));
    let extents = rank.and_then(|rank| extents.get(..rank)).ok_or_else(damaged)?;
    let shape: Option<Vec<u64>> =
        extents.iter().map(|extent| u64::try_from(*extent).ok()).collect();
    let mut shape = shape.filter(|shape| !shape.contains(&0)).ok_or_else(damaged)?;
    let mut dims: Vec<String> =
        AXES.iter().take(shape.len()).map(|axis| (*axis).to_owned()).collect();
    shape.reverse();
    dims.reverse();
    Ok((shape, dims))
}

#[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss)] // To floats, as asked.
fn scaled(bytes: &[u8], from: &DType, to: &DType, [slope, intercept]: [f64; 2]) -> Result<Vec<u8>> {
    macro_rules! numbers {
        ($type:ty) => {
            bytes
                .as_chunks::<{ size_of::<$type>() }>()
                .0
                .iter()
                .map(|bytes| <$type>::from_le_bytes(*bytes) as f64 * slope + intercept)
                .collect::<Vec<f64>>()
        };
    }
    let values = match from {
        DType::UInt8 => numbers!(u8),
        DType::Int8 => numbers!(i8),
        DType::UInt16 => numbers!(u16),
        DType::Int16 => numbers!(i16),
        DType::UInt32 => numbers!(u32),
        DType::Int32 => numbers!(i32),
        DType::UInt64 => numbers!(u64),
        DType::Int64 => numbers!(i64),
        DType::Float32 => numbers!(f32),
        DType::Float64 => numbers!(f64),
        other => return Err(ArrayError::argument(format!("`{other}` cannot be scaled"))),
    };
    Ok(if *to == DType::Float32 {
        values.iter().flat_map(|value| (*value as f32).to_le_bytes()).collect()
    } else {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    })
}

/// The header of a file with an array.
fn header_for(meta: &ArrayMeta, path: &Path, options: &ExportOptions) -> Result<Header> {
    let unsupported = |reason: String| ArrayError::foreign(path, reason);
    let number = datatype(meta.dtype())
        .ok_or_else(|| unsupported(format!("elements of `{}`", meta.dtype())))?;
    let rank = meta.shape().len();
    if !(1..=7).contains(&rank) || meta.shape().contains(&0) {
        return Err(unsupported(format!("shape {:?} (1 to 7 axes, none empty)", meta.shape())));
    }
    let known = match meta.attrs().get(HEADER) {
        Some(Attr::Bytes(bytes)) => Header::parse(path, bytes).ok(),
        _ => None,
    };
    let mut header = known.unwrap_or_default();
    header.dim = [1; 8];
    header.dim[0] = i64::try_from(rank).unwrap_or(7);
    for (slot, extent) in header.dim.iter_mut().skip(1).zip(meta.shape().iter().rev()) {
        *slot = i64::try_from(*extent).map_err(|_| unsupported(format!("an axis of {extent}")))?;
    }
    header.datatype = number;
    let width = u64_len(meta.dtype().width().unwrap_or(1)).saturating_mul(8);
    header.bitpix = i16::try_from(width).unwrap_or(0);
    header.pair = false;
    header.swapped = false;
    if let Some(Attr::Floats(scale)) = meta.attrs().get("scale")
        && let [slope, intercept] = scale.as_slice()
    {
        (header.slope, header.intercept) = (*slope, *intercept);
    }
    if let Some(Attr::Floats(affine)) = meta.attrs().get(AFFINE)
        && affine.len() == 16
    {
        let known: Vec<f64> = header.affine().into_iter().flatten().collect();
        if known != *affine {
            place_by(&mut header, affine);
        }
    }
    let small = header.dim.iter().all(|extent| *extent <= 32_767);
    header.version = if small && !options.nifti2 { 1 } else { 2 };
    header.vox_offset = if header.version == 1 { 352 } else { 544 };
    Ok(header)
}

/// Says with the general matrix where the voxels lie; the rotation no longer counts.
fn place_by(header: &mut Header, affine: &[f64]) {
    header.qform_code = 0;
    header.sform_code = header.sform_code.max(1);
    for (row, numbers) in header.srow.iter_mut().zip(affine.chunks_exact(4)) {
        for (slot, number) in row.iter_mut().zip(numbers) {
            *slot = *number;
        }
    }
    for axis in 0..3_usize {
        let step = header.srow.iter().filter_map(|row| row.get(axis));
        let length = step.map(|part| part * part).sum::<f64>().sqrt();
        if let Some(slot) = header.pixdim.get_mut(axis.saturating_add(1)) {
            *slot = length;
        }
    }
    header.pixdim[0] = 1.0;
}

pub(super) fn export(
    snapshot: &Snapshot,
    name: &str,
    path: &Path,
    options: &ExportOptions,
) -> Result<()> {
    let header = header_for(snapshot.meta(name)?, path, options)?;
    let mut start = header.encode().ok_or_else(|| {
        ArrayError::argument(format!("{}: a number is too large for NIfTI-1", path.display()))
    })?;
    start.extend_from_slice(&[0; 4]);
    let packed = path.extension().is_some_and(|end| end.eq_ignore_ascii_case("gz"));
    place::publish(path, options.overwrite, |out| {
        if !packed {
            return elements(snapshot, name, path, &start, out);
        }
        let mut packed = GzEncoder::new(out, Compression::new(3));
        elements(snapshot, name, path, &start, &mut packed)?;
        packed.finish().map_err(ArrayError::file("write the file", path))?;
        Ok(())
    })
}

fn elements(
    snapshot: &Snapshot,
    name: &str,
    path: &Path,
    start: &[u8],
    out: &mut dyn Write,
) -> Result<()> {
    let mut put =
        |bytes: &[u8]| out.write_all(bytes).map_err(ArrayError::file("write the file", path));
    put(start)?;
    give(snapshot, name, |slab| put(slab.as_bytes().unwrap_or_default()))
}
