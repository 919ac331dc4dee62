//! A volume and a label mask that a second layer updates, compacted and kept as one file.
//!
//! `cargo run -p iac-array --example volume -- FOLDER` leaves `FOLDER/study.arrays` and
//! `FOLDER/study.iac`.
#![allow(
    clippy::print_stdout,
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap
)]

use std::error::Error;
use std::path::PathBuf;

use iac_array::blocking::ArrayStore;
use iac_array::{ArraySpec, CompactPolicy, DType, Location, StoreOptions};
use ndarray::{Array3, s};
use object_store::local::LocalFileSystem;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = PathBuf::from(std::env::args().nth(1).ok_or("which folder?")?);
    let options = StoreOptions::default();
    let location = Location::folder(folder.join("study.arrays"))?;
    let mut store = ArrayStore::create(location, options.clone())?;

    let size = 96;
    let volume = Array3::from_shape_fn((size, size, size), |(z, y, x)| {
        let far = [z, y, x].iter().map(|at| at.abs_diff(size / 2).pow(2)).sum::<usize>();
        if far < 900 { 40 + (x % 7) as i16 } else { -1000 }
    });
    let spec = ArraySpec::new(DType::Int16, &[96, 96, 96]).chunks(&[32, 32, 32]).fill(-1000_i16);
    store.define("ct", spec.dims(&["z", "y", "x"]).attr("unit", "HU"))?;
    store.define("mask", ArraySpec::new(DType::UInt8, &[96, 96, 96]).chunks(&[32, 32, 32]))?;
    store.write("ct", &[0, 0, 0], &volume)?;
    store.write("mask", &[0, 0, 0], volume.mapv(|value| u8::from(value > 0)))?;
    println!("{:?}", store.flush()?);

    // A reader corrects part of the mask; the first version stays as it was.
    store.write("mask", &[40, 40, 40], Array3::from_elem((8, 8, 8), 2_u8))?;
    println!("{:?}", store.flush()?);
    println!("{:?}", store.compact(CompactPolicy::All)?);
    println!("tissue lies within {} chunks", store.snapshot().select("ct", 0, 100)?.len());

    let slice = store.read("mask", &[44, 0, 0], &[1, 96, 96])?.to_ndarray::<u8>()?;
    for row in slice.into_dimensionality::<ndarray::Ix3>()?.slice(s![0, ..;6, ..;3]).rows() {
        println!(
            "{}",
            row.iter()
                .map(|label| if *label > 1 {
                    '#'
                } else if *label > 0 {
                    '.'
                } else {
                    ' '
                })
                .collect::<String>()
        );
    }
    let files = LocalFileSystem::new_with_prefix(&folder)?;
    store.snapshot().export(&files, &"study.iac".into(), &options)?;
    Ok(())
}
