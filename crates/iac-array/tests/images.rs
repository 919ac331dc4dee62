//! Chunks that are packed with image codecs.
#![cfg(any(feature = "jxl", feature = "jpegls", feature = "htj2k"))]
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss
)]

use iac_array::blocking::ArrayStore;
use iac_array::{ArrayData, ArraySpec, CompactPolicy, DType, Location, Packing, StoreOptions};
use iac_codec::Codec;
use ndarray::{Array2, Array3};

/// The lossless image codecs of this build.
fn codecs() -> Vec<Codec> {
    vec![
        #[cfg(feature = "jxl")]
        iac_codec::jxl::JxlOptions::lossless().with_effort(2).codec().unwrap(),
        #[cfg(feature = "jpegls")]
        iac_codec::jpegls::JpeglsOptions::lossless().codec().unwrap(),
        #[cfg(feature = "htj2k")]
        iac_codec::jpeg2000::Jpeg2000Options::lossless()
            .with_profile(iac_codec::jpeg2000::Profile::Ht)
            .codec()
            .unwrap(),
    ]
}

/// A ball in air, with noise.
fn ct(z: usize, y: usize, x: usize) -> i16 {
    let far = [z * 6, y, x].iter().map(|at| at.abs_diff(60).pow(2)).sum::<usize>();
    let noise = (z * 131 + y * 71 + x * 37) % 23;
    if far < 2500 { 40 + noise as i16 } else { -1000 + noise as i16 }
}

#[test]
fn volumes_of_every_sample_come_back_exactly_and_smaller() {
    let volume = Array3::from_shape_fn((20, 120, 130), |(z, y, x)| ct(z, y, x));
    let data: Vec<ArrayData> = vec![
        (&volume).into(),
        volume.mapv(|value| (value + 1000) as u16).into(),
        volume.mapv(|value| (value + 1000) as u8).into(),
    ];
    for codec in codecs() {
        for data in &data {
            let images = Packing::lz4().with_images(codec.clone()).unwrap();
            let options = StoreOptions::default().packing(images);
            let mut store = ArrayStore::create(Location::memory(), options).unwrap();
            let spec = ArraySpec::new(data.dtype().clone(), data.shape()).chunks(&[8, 64, 64]);
            store.define("ct", spec).unwrap();
            store.write("ct", &[0, 0, 0], data.clone()).unwrap();
            let bytes = store.flush().unwrap().layer_bytes;
            let raw = data.as_bytes().unwrap().len() as u64;
            // Header and tables included.
            assert!(bytes < raw * 95 / 100, "{}: {bytes} of {raw}", codec.name());
            assert_eq!(store.read_all("ct").unwrap(), *data, "{}", codec.name());
            store.set_attr("ct", "k", 1_i64).unwrap();
            store.flush().unwrap();
            store.compact(CompactPolicy::All).unwrap();
            assert_eq!(store.read_all("ct").unwrap(), *data);
            assert!(store.snapshot().verify().unwrap().is_empty());
        }
    }
}

#[test]
fn floats_with_every_odd_value_and_labels_are_kept_exactly() {
    let mut floats = Array2::from_shape_fn((64, 64), |(y, x)| (y * x) as f32 / 7.0);
    floats[[0, 0]] = f32::from_bits(0x7FC1_2345);
    floats[[0, 1]] = -0.0;
    floats[[0, 2]] = f32::INFINITY;
    floats[[0, 3]] = f32::from_bits(1);
    let labels = Array2::from_shape_fn((64, 64), |(y, x)| (y / 9 + x / 11) as i64);
    let colours: Vec<u8> = (0..64 * 64 * 3).map(|at| (at % 251) as u8).collect();
    let rgb = DType::FixedList(Box::new(DType::UInt8), 3);
    let data = [
        ArrayData::from(&floats),
        ArrayData::from(&labels),
        ArrayData::from_bytes(rgb, &[64, 64], colours).unwrap(),
    ];
    for codec in codecs() {
        for data in &data {
            let images = Packing::zstd(3).unwrap().with_images(codec.clone()).unwrap();
            let options = StoreOptions::default().packing(images);
            let mut store = ArrayStore::create(Location::memory(), options).unwrap();
            store.define("a", ArraySpec::new(data.dtype().clone(), data.shape())).unwrap();
            store.write("a", &[0, 0], data.clone()).unwrap();
            store.flush().unwrap();
            assert_eq!(store.read_all("a").unwrap().as_bytes(), data.as_bytes());
        }
    }
}

#[test]
fn codecs_of_bytes_pack_no_images_and_the_other_way_round() {
    assert!(Packing::lz4().with_images(iac_codec::lz4::codec()).is_err());
    for codec in codecs() {
        assert!(Packing::new(codec).is_err());
    }
}
