//! A made-up CT volume and a mask of its bones, which a second version corrects.

use std::path::Path;
use std::time::{Duration, Instant};

use iatrocache::arrays::blocking::ArrayStore;
use iatrocache::arrays::{ArrayData, ArraySpec, CompactPolicy, DType, Location, StoreOptions};
use iatrocache::ops::OpsError;
use iatrocache::ops::pictures::write_png;
use iatrocache::{CodecError, ErrorKind, ImageShape, ImageView};
use serde_json::{Value, json};

use super::cohort::Random;
use crate::cli::Common;
use crate::failure::{Failure, Report, Result};
use crate::human;
use crate::place::NewFile;

/// The store, and a picture of one slice with the mask in it.
pub(super) const NAMES: [&str; 2] = ["volume.arrays", "volume-slice.png"];
/// Slices, and voxels along each side of one.
const SLICES: u16 = 64;
const SIDE: u16 = 128;
const CHUNK: [u64; 3] = [16, 64, 64];
/// From here on, in Hounsfield units, a voxel is bone.
const BONE: i16 = 300;

/// What was done with the volume.
pub(super) struct Arrays {
    shape: [u16; 3],
    raw_bytes: u64,
    store_bytes: u64,
    pruned: usize,
    chunks: usize,
    time: Duration,
}

/// A body of soft tissue in air, with a bone in it and a wire that is no bone.
fn voxels() -> Vec<i16> {
    let mut random = Random(11);
    let middle = f64::from(SIDE) / 2.0;
    let mut voxels = Vec::new();
    for z in 0..SLICES {
        for y in 0..SIDE {
            for x in 0..SIDE {
                let (dx, dy) = ((f64::from(x) - middle) / middle, (f64::from(y) - middle) / middle);
                let body = dx * dx / 0.7 + dy * dy / 0.45 < 1.0;
                let bone = dx * dx + (dy - 0.35).powi(2) < 0.012 + f64::from(z) / 4000.0;
                let wire = (60..64).contains(&x) && (20..24).contains(&y);
                let value: i16 = match (wire || bone, body) {
                    (true, _) => 700,
                    (_, true) => 40,
                    _ => -1000,
                };
                let noise = i16::try_from(random.next() % 21).unwrap_or(0).saturating_sub(10);
                voxels.push(value.saturating_add(noise));
            }
        }
    }
    voxels
}

fn array<T: Copy>(values: &[T], bytes: impl Fn(T) -> Vec<u8>, dtype: DType) -> Result<ArrayData> {
    let shape = [SLICES, SIDE, SIDE].map(u64::from);
    let bytes = values.iter().flat_map(|value| bytes(*value)).collect();
    Ok(ArrayData::from_bytes(dtype, &shape, bytes)?)
}

/// Writes volume and mask, corrects the mask, compacts, reads everything back, and makes a picture.
pub(super) fn store_volume(home: &Path, common: &Common) -> Result<Arrays> {
    let [place, picture] = NAMES.map(|name| home.join(name));
    let shape = [SLICES, SIDE, SIDE].map(u64::from);
    let voxels = voxels();
    let mask: Vec<u8> = voxels.iter().map(|value| u8::from(*value >= BONE)).collect();
    let volume = array(&voxels, |value| value.to_le_bytes().to_vec(), DType::Int16)?;
    let first = array(&mask, |value| vec![value], DType::UInt8)?;

    let begun = Instant::now();
    let mut options = StoreOptions::default();
    if let Some(workers) = common.workers {
        options = options.workers(workers)?;
    }
    let mut store = ArrayStore::create(Location::folder(&place)?, options)?;
    let spec = ArraySpec::new(DType::Int16, &shape).chunks(&CHUNK).dims(&["z", "y", "x"]);
    store.define("ct", spec.fill(-1000_i16).attr("unit", "HU"))?;
    let spec = ArraySpec::new(DType::UInt8, &shape).chunks(&CHUNK).dims(&["z", "y", "x"]);
    store.define("mask", spec.attr("label_names", vec!["bone".to_owned()]))?;
    store.write("ct", &[0, 0, 0], volume.clone())?;
    store.write("mask", &[0, 0, 0], first.clone())?;
    let first_version = store.flush()?.version;
    // A reader takes the wire out of the mask. The first version stays as it was.
    store.erase("mask", &[0, 16, 56], &[u64::from(SLICES), 16, 16])?;
    store.flush()?;
    store.compact(CompactPolicy::All)?;

    let snapshot = store.snapshot();
    let corrected = store.read_all("mask")?;
    let expected: Vec<u8> = mask
        .iter()
        .zip(places())
        .map(|(label, [_, y, x])| {
            let wire = (16..32).contains(&y) && (56..72).contains(&x);
            if wire { 0 } else { *label }
        })
        .collect();
    let sound = store.read_all("ct")? == volume
        && corrected.as_bytes() == Some(&expected)
        && store.open_at(first_version)?.read_all("mask")? == first
        && snapshot.verify()?.is_empty();
    if !sound {
        let message = format!("{}: an array differs from what was written", place.display());
        return Err(Report::new(ErrorKind::Damaged, message).path(&place).into());
    }
    let pruned = snapshot.select("ct", BONE, i16::MAX)?.len();
    let chunks = snapshot.chunk_stats("ct")?.len();
    let time = begun.elapsed();
    let slice = u64::from(SLICES) / 2;
    let plane = [1, u64::from(SIDE), u64::from(SIDE)];
    let grey = snapshot.read("ct", &[slice, 0, 0], &plane)?;
    let labels = snapshot.read("mask", &[slice, 0, 0], &plane)?;
    draw(&picture, &grey, &labels)?;
    Ok(Arrays {
        shape: [SLICES, SIDE, SIDE],
        raw_bytes: u64::try_from(voxels.len()).unwrap_or(u64::MAX).saturating_mul(3),
        store_bytes: snapshot.as_async().layer_bytes(),
        pruned,
        chunks,
        time,
    })
}

/// Slice, row and column of every voxel, in the order in which they lie.
fn places() -> impl Iterator<Item = [u16; 3]> {
    (0..SLICES).flat_map(|z| (0..SIDE).flat_map(move |y| (0..SIDE).map(move |x| [z, y, x])))
}

/// A slice in grey, what is labelled in red.
fn draw(picture: &Path, grey: &ArrayData, labels: &ArrayData) -> Result<()> {
    let samples = grey.as_bytes().unwrap_or_default().as_chunks::<2>().0;
    let labels = labels.as_bytes().unwrap_or_default();
    let mut pixels: Vec<u8> = Vec::new();
    for (sample, label) in samples.iter().zip(labels) {
        // A window of soft tissue: -160 is black, 240 is white.
        let value = i16::from_le_bytes(*sample).clamp(-160, 240).saturating_add(160);
        let grey = u8::try_from(i32::from(value).saturating_mul(255) / 400).unwrap_or(255);
        pixels.extend(if *label > 0 { [255, grey / 2, grey / 2] } else { [grey; 3] });
    }
    let odd = |error: CodecError| Report::new(ErrorKind::Usage, error.to_string());
    let shape = ImageShape::new(SIDE.into(), SIDE.into(), 3).map_err(odd)?;
    let view = ImageView::new(shape, pixels.as_slice()).map_err(odd)?;
    let png = write_png(&view).map_err(|source| {
        let path = picture.to_owned();
        Failure::from(OpsError::Picture { path, row: None, source: Box::new(source) })
    })?;
    let mut file = NewFile::create(picture, false)?;
    file.write(&png)?;
    file.publish()
}

impl Arrays {
    pub(super) fn line(&self) -> String {
        let [z, y, x] = self.shape;
        format!(
            "  arrays    a volume of {z} x {y} x {x} with a mask that a second version corrects, {} in {}, compared \
             in {:.2} s; bone is in {} of {} chunks; a slice in {}",
            human::bytes(self.raw_bytes),
            human::bytes(self.store_bytes),
            self.time.as_secs_f64(),
            self.pruned,
            self.chunks,
            NAMES.last().copied().unwrap_or_default()
        )
    }

    pub(super) fn document(&self) -> Value {
        json!({
            "shape": self.shape,
            "raw_bytes": self.raw_bytes,
            "store_bytes": self.store_bytes,
            "chunks": self.chunks,
            "chunks_with_bone": self.pruned,
        })
    }
}
