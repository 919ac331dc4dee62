//! A volume and a mask in a store of arrays: the mask is corrected, and its first version stays.
//!
//! ```console
//! cargo run -p iac-examples --bin arrays_with_layers -- STORE/
//! ```

use std::error::Error;

use iatrocache::arrays::blocking::ArrayStore;
use iatrocache::arrays::{ArraySpec, CompactPolicy, DType, Location, StoreOptions};
use ndarray::Array3;

const SHAPE: [usize; 3] = [32, 64, 64];

fn main() -> Result<(), Box<dyn Error>> {
    let Some(folder) = std::env::args_os().nth(1) else {
        return Err("usage: arrays_with_layers STORE/".into());
    };
    let shape = SHAPE.map(|count| count as u64);
    let volume = Array3::from_shape_fn(SHAPE, |(z, y, x)| ((z * 7 + y * 3 + x) % 400) as i16);
    let mask = volume.mapv(|value| u8::from(value > 300));

    let mut store = ArrayStore::create(Location::folder(&folder)?, StoreOptions::default())?;
    let spec = ArraySpec::new(DType::Int16, &shape).chunks(&[16, 32, 32]).dims(&["z", "y", "x"]);
    store.define("ct", spec.fill(-1000_i16).attr("unit", "HU"))?;
    store.define("mask", ArraySpec::new(DType::UInt8, &shape).chunks(&[16, 32, 32]))?;
    store.write("ct", &[0, 0, 0], volume.clone())?;
    store.write("mask", &[0, 0, 0], mask)?;
    // Nothing of this can be seen by others before it is flushed, and then all of it.
    let first = store.flush()?.version;

    // A correction is a new layer: the file of the first one is never touched again.
    store.erase("mask", &[0, 0, 0], &[8, 64, 64])?;
    let second = store.flush()?.version;
    println!("versions {first} and {second}");

    let part = store.snapshot().read("ct", &[4, 10, 20], &[1, 2, 3])?.to_ndarray::<i16>()?;
    println!("a part of the volume: {:?}", part.as_slice().unwrap_or_default());
    let labelled = |mask: &ndarray::ArrayD<u8>| mask.iter().filter(|label| **label > 0).count();
    let now = store.read_all("mask")?.to_ndarray::<u8>()?;
    let before = store.open_at(first)?.read_all("mask")?.to_ndarray::<u8>()?;
    println!("{} voxels are labelled, {} were before", labelled(&now), labelled(&before));

    // Chunks whose statistics say that no such value is inside are not read.
    let chunks = store.snapshot().select("ct", 390_i16, i16::MAX)?;
    println!("{} chunks may hold values of 390 and more", chunks.len());

    // One file again, with every block that is still in use.
    store.compact(CompactPolicy::All)?;
    println!("sound: {}", store.snapshot().verify()?.is_empty());
    Ok(())
}
