//! Imports a slide, and reads parts of it at the resolution that a model wants.
//!
//! ```console
//! cargo run -p iac-examples --bin slide_regions -- SLIDE.png SLIDE.pat.iac
//! ```
//!
//! TIFF, SVS, OME-TIFF, NDPI, SCN, BIF and DICOM slides are imported in the same way, and know their
//! pixel size themselves.

use std::error::Error;
use std::path::PathBuf;

use iatrocache::adapters::wsi::{
    Mpp, NativeRegion, Region, WsiImporter, WsiPackReader, WsiProfile, WsiReadOptions,
};
use iatrocache::ops::NoProgress;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let (Some(source), Some(path)) = (arguments.next(), arguments.next()) else {
        return Err("usage: slide_regions SLIDE.png SLIDE.pat.iac".into());
    };

    let made = WsiImporter::new("S1")
        .patient_id("P001")
        .profile(WsiProfile::Lossless)
        .effort(2)
        .native_mpp(Mpp::both(0.5)) // what a PNG file cannot say
        .import(&source, &path, &NoProgress)?;
    println!("{} tiles stored, {} are background", made.stored_tiles, made.background_tiles);

    let slide = WsiPackReader::open(&path)?;
    let options = WsiReadOptions::new();

    // Pixels as they were scanned.
    let native = NativeRegion { x: 64, y: 64, width: 128, height: 96 };
    let image = slide.read_native(&native, &options)?;
    println!("{} x {} pixels as scanned", image.width, image.height);

    // 100 micrometres of tissue at 1 micrometre per pixel, wherever they begin.
    let region = Region { x_um: 12.5, y_um: 20.0, width: 100, height: 100, mpp: Mpp::both(1.0) };
    let image = slide.read_region(&region, &options)?;
    println!("{} x {} pixels of 1 µm, {} bytes", image.width, image.height, image.pixels.len());

    // The whole slide within 64 pixels.
    let thumbnail = slide.read_thumbnail(64, &options)?;
    println!("all of it in {} x {}", thumbnail.width, thumbnail.height);
    Ok(())
}
