//! Packs of images: order, threads, batches in one buffer, damage, limits, signed samples.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, missing_docs)]
#![allow(clippy::cast_possible_truncation, clippy::arithmetic_side_effects)]

mod common;
#[path = "common/image_codec.rs"]
mod image_codec;

use std::convert::Infallible;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, UInt64Array};
use common::all_sources;
use iac_codec::{
    Codec, CodecSpec, DecodeOptions, Image, ImageShape, ImageView, Limits, Parameters,
    SampleMapping, SampleType, Samples, SamplesRef, Scale,
};
use iac_format::ErrorKind;
use iac_reader::{ReadError, ReadOptions, RecordOptions, VariableRecordPack};
use iac_writer::{Table, VariablePackBuilder, WriteOptions};
use image_codec::{Pixels, picture, registry, u8_samples};
use serde_json::{Map, json};

fn index(rows: usize) -> Table {
    let ids = UInt64Array::from_iter_values(0..rows as u64);
    Table::from(RecordBatch::try_from_iter([("item_id", Arc::new(ids) as ArrayRef)]).unwrap())
}

fn builder(rows: usize) -> VariablePackBuilder {
    VariablePackBuilder::new("test", index(rows))
        .codec_spec(CodecSpec::new("test.pixels", Parameters::new()))
        .registry(Arc::new(registry()))
        .options(WriteOptions::new().sync(false).overwrite(true))
}

fn record_options() -> RecordOptions {
    RecordOptions::default().registry(Arc::new(registry()))
}

fn open(path: &Path) -> VariableRecordPack {
    VariableRecordPack::open_with(path, &ReadOptions::default(), record_options()).unwrap()
}

fn shape(height: u32, width: u32, channels: u32) -> ImageShape {
    ImageShape::new(height, width, channels).unwrap()
}

fn pictures(count: u64, shape: ImageShape) -> Vec<Image> {
    (0..count).map(|row| picture(row, shape)).collect()
}

fn views(images: &[Image]) -> Vec<ImageView<'_>> {
    images.iter().map(Image::as_view).collect()
}

#[test]
fn images_come_in_the_order_asked_for_from_every_source_on_any_number_of_threads() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pack.iac");
    let shape = shape(31, 17, 3);
    let images = pictures(60, shape);
    builder(60).build_images(&path, &views(&images)).unwrap();
    let rows: Vec<u64> = (0..60).rev().chain([7, 7, 0]).collect();
    let expected: Vec<&Image> = rows.iter().map(|row| &images[*row as usize]).collect();
    for (source, pack) in all_sources(&path) {
        for workers in [1, 2, 5] {
            let options = ReadOptions::default().workers(NonZeroUsize::new(workers));
            let pack = pack.as_ref().unwrap().with_options(&options);
            let pack = VariableRecordPack::from_reader_with(pack, record_options());
            let context = format!("{source}, {workers} workers");
            assert!(pack.read_images(&rows).unwrap().iter().eq(expected.iter().copied()));
            let (lossy, skipped) = pack.read_images_lossy(&rows).unwrap();
            assert!(skipped.is_empty(), "{context}");
            assert!(lossy.iter().flatten().eq(expected.iter().copied()), "{context}");
            let batch = pack.read_image_batch(&rows).unwrap();
            assert_eq!((batch.shape(), batch.len()), (shape, 63), "{context}");
            assert!(batch.iter().eq(expected.iter().map(|image| image.as_view())), "{context}");
            assert_eq!(batch.image(63), None);
            let (lossy, skipped) = pack.read_image_batch_lossy(&rows).unwrap();
            assert!(skipped.is_empty(), "{context}");
            assert_eq!(lossy.unwrap(), batch, "{context}");
            let mut buffer = vec![1_u8; 63 * shape.samples()];
            pack.read_image_batch_into(&rows, shape, &mut buffer[..]).unwrap();
            assert_eq!(buffer, u8_samples(batch.samples()), "{context}");
            assert_eq!(pack.read_image(3).unwrap(), images[3], "{context}");
            let info = pack.image_info(3).unwrap();
            assert_eq!((info.shape, info.sample_type), (shape, SampleType::U8), "{context}");
        }
    }
}

#[test]
fn every_builder_writes_the_same_pack() {
    let folder = tempfile::tempdir().unwrap();
    let images = pictures(40, shape(20, 20, 3));
    let name = |name: &str| folder.path().join(name);
    builder(40).workers(NonZeroUsize::MIN).build_images(name("a"), &views(&images)).unwrap();
    let expected = std::fs::read(name("a")).unwrap();
    for (workers, memory) in [(1, 1), (2, 3000), (3, 1 << 20)] {
        let builder = builder(40).workers(NonZeroUsize::new(workers)).memory(memory);
        builder.build_images(name("b"), &views(&images)).unwrap();
        assert_eq!(std::fs::read(name("b")).unwrap(), expected);
        let stream = images.iter().cloned().map(Ok::<_, Infallible>);
        builder.build_images_streaming(name("b"), stream).unwrap();
        assert_eq!(std::fs::read(name("b")).unwrap(), expected);
        let mut writer = builder.begin_images(name("b")).unwrap();
        for (row, image) in (0..).zip(&images) {
            assert_eq!(writer.rows(), row);
            writer.push_image(&image.as_view()).unwrap();
        }
        writer.finish().unwrap();
        assert_eq!(std::fs::read(name("b")).unwrap(), expected);
    }
}

#[test]
fn an_image_that_cannot_be_encoded_fails_the_build_with_its_row() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pack.iac");
    let mut images = pictures(9, shape(4, 4, 3));
    images[6] = Image::new(shape(4, 4, 2), vec![0_u8; 32]).unwrap();
    for workers in [1, 3] {
        let builder = builder(9).workers(NonZeroUsize::new(workers)).memory(100);
        let error = builder.build_images(&path, &views(&images)).unwrap_err();
        assert_eq!(error.row(), Some(6), "{error}");
        let stream = images.iter().cloned().map(Ok::<_, Infallible>);
        let error = builder.build_images_streaming(&path, stream).unwrap_err();
        assert_eq!(error.row(), Some(6), "{error}");
        let mut writer = builder.begin_images(&path).unwrap();
        let error = images.iter().find_map(|image| writer.push_image(&image.as_view()).err());
        assert_eq!(error.unwrap().row(), Some(6));
    }
    let few = builder(9).build_images(&path, &views(&images[..5])).unwrap_err();
    assert_eq!(few.kind(), ErrorKind::Usage, "{few}");
    assert!(!path.exists());
}

#[test]
fn bytes_and_images_do_not_mix() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pack.iac");
    let images = pictures(2, shape(4, 4, 3));
    let error = builder(2).build(&path, &["a", "b"]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    let bytes = builder(2).codec(Codec::none());
    let error = bytes.build_images(&path, &views(&images)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains("its records are bytes, not images"), "{error}");
    assert!(bytes.begin_images(&path).is_err());

    bytes.build(&path, &["a", "b"]).unwrap();
    let error = open(&path).read_image(0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    builder(2).build_images(&path, &views(&images)).unwrap();
    let error = open(&path).read(0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert_eq!(open(&path).read_bytes(0).unwrap().len(), 4 + 48);
}

#[test]
fn an_image_of_another_shape_or_type_is_named_and_left_out_of_a_lossy_batch() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pack.iac");
    let mut images = pictures(12, shape(6, 5, 3));
    images[4] = picture(4, shape(5, 6, 3));
    images[9] = Image::new(shape(6, 5, 3), vec![7_u16; 90]).unwrap();
    builder(12).build_images(&path, &views(&images)).unwrap();
    let pack = open(&path);
    let rows: Vec<u64> = (0..12).collect();
    assert_eq!(pack.read_images(&rows).unwrap(), images);
    let error = pack.read_image_batch(&rows).unwrap_err();
    assert_eq!((error.kind(), error.row()), (ErrorKind::Decode, Some(4)), "{error}");
    let text = "it is 5 x 6 x 3 of type uint8, but the place for it is 6 x 5 x 3 of type uint8";
    assert!(error.to_string().contains(text), "{error}");
    assert_eq!(pack.read_image_batch(&rows[8..]).unwrap_err().row(), Some(9));

    let (batch, skipped) = pack.read_image_batch_lossy(&rows).unwrap();
    let left_out: Vec<u64> = skipped.rows.iter().map(|row| row.row).collect();
    assert_eq!(left_out, [4, 9]);
    let kept = (0..12_usize).filter(|row| ![4, 9].contains(row)).map(|row| images[row].as_view());
    assert!(batch.unwrap().iter().eq(kept));

    let mut small = [0_u8; 89];
    let error = pack.read_image_batch_into(&[0], shape(6, 5, 3), &mut small[..]).unwrap_err();
    assert!(matches!(error, ReadError::BufferSize { expected: 90, found: 89, .. }), "{error}");
    let mut other = [0_u16; 90];
    assert!(pack.read_image_batch_into(&[0], shape(6, 5, 3), &mut other[..]).is_err());
    pack.read_image_batch_into(&[9], shape(6, 5, 3), &mut other[..]).unwrap();
    pack.read_image_batch_into(&[], shape(6, 5, 3), &mut other[..0]).unwrap();
    assert_eq!(pack.read_image_batch(&[]).unwrap_err().kind(), ErrorKind::Usage);
    assert!(pack.read_image_batch_lossy(&[]).unwrap().0.is_none());
    assert!(pack.read_images(&[]).unwrap().is_empty());
}

/// A pack of payloads as they are.
fn of_payloads(path: &Path, payloads: &[Vec<u8>]) {
    builder(payloads.len()).build_from_payloads(path, payloads).unwrap();
}

#[test]
fn the_first_damaged_image_in_the_order_asked_for_fails_the_whole_call() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pack.iac");
    let codec = Codec::from_image_codec(Pixels);
    let mut payloads: Vec<Vec<u8>> = pictures(40, shape(40, 40, 1))
        .iter()
        .map(|image| codec.encode_image(&image.as_view()).unwrap())
        .collect();
    payloads[11].pop();
    payloads[30].clear();
    of_payloads(&path, &payloads);
    let rows: Vec<u64> = (0..40).collect();
    let backwards: Vec<u64> = (0..40).rev().collect();
    for workers in [1, 2, 4] {
        let options = ReadOptions::default().workers(NonZeroUsize::new(workers));
        let pack = VariableRecordPack::open_with(&path, &options, record_options()).unwrap();
        assert_eq!(pack.read_images(&rows).unwrap_err().row(), Some(11));
        assert_eq!(pack.read_images(&backwards).unwrap_err().row(), Some(30));
        assert_eq!(pack.read_image_batch(&backwards).unwrap_err().row(), Some(30));
        let error = pack.read_images(&[0, 11, 40]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::RowOutOfRange, "{error}");
        let (images, skipped) = pack.read_images_lossy(&backwards).unwrap();
        assert!(images[9].is_none() && images[28].is_none());
        assert_eq!(images.iter().flatten().count(), 38);
        assert_eq!(skipped.rows.iter().map(|row| row.row).collect::<Vec<_>>(), [30, 11]);
        // The first two that are asked for are damaged.
        let (batch, skipped) = pack.read_image_batch_lossy(&[30, 11, 5]).unwrap();
        assert_eq!((batch.unwrap().len(), skipped.len()), (1, 2));
        let (batch, skipped) = pack.read_image_batch_lossy(&[30, 11]).unwrap();
        assert!(batch.is_none());
        assert_eq!(skipped.len(), 2);
    }
}

#[test]
fn stored_bytes_are_compared_before_they_are_decoded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pack.iac");
    builder(3).build_images(&path, &views(&pictures(3, shape(8, 8, 1)))).unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let pack = open(&path);
    for error in [
        pack.read_image(2).unwrap_err(),
        pack.image_info(2).unwrap_err(),
        pack.read_images(&[0, 2]).unwrap_err(),
        pack.read_image_batch(&[0, 2]).unwrap_err(),
    ] {
        assert_eq!((error.kind(), error.row()), (ErrorKind::Checksum, Some(2)), "{error}");
    }
    let (images, skipped) = pack.read_images_lossy(&[2, 1]).unwrap();
    assert_eq!((images[0].is_none(), skipped.rows[0].row), (true, 2));
    let options = ReadOptions::default().check_crc(false);
    let pack = VariableRecordPack::open_with(&path, &options, record_options()).unwrap();
    pack.read_image_batch(&[0, 2]).unwrap();
}

#[test]
fn claims_beyond_the_limits_or_beyond_reason_take_no_memory() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pack.iac");
    // 2^40 samples, and 2^20 x 200 of them, which the limits allow.
    of_payloads(&path, &[vec![255, 255, 1, 1], vec![255, 200, 1, 1], vec![1, 1, 1, 1, 9]]);
    let pack = open(&path);
    assert_eq!(pack.image_info(0).unwrap().shape.height(), 1 << 20);
    for error in [pack.read_image(0).unwrap_err(), pack.read_image_batch(&[0; 4]).unwrap_err()] {
        assert_eq!((error.kind(), error.row()), (ErrorKind::Limit, Some(0)), "{error}");
    }
    // 256 of them would need 50 GiB.
    let error = pack.read_image_batch(&[1; 256]).unwrap_err();
    assert_eq!((error.kind(), error.row()), (ErrorKind::Decode, Some(1)), "{error}");
    let (batch, skipped) = pack.read_image_batch_lossy(&[1, 1, 2]).unwrap();
    assert_eq!(u8_samples(batch.unwrap().samples()), [9]);
    assert_eq!(skipped.len(), 2);
    let limits = Limits::default().with_max_samples(8);
    let small = pack.with_images(DecodeOptions::default().with_limits(limits));
    small.read_image(2).unwrap();
    assert_eq!(small.read_image(1).unwrap_err().kind(), ErrorKind::Limit);
}

#[test]
fn smaller_images_have_the_shape_of_their_scale_in_every_way_of_reading() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pack.iac");
    let images = pictures(5, shape(33, 18, 3));
    builder(5).build_images(&path, &views(&images)).unwrap();
    let pack = open(&path);
    for scale in Scale::ALL {
        let small = pack.with_images(DecodeOptions::default().with_scale(scale));
        let expected = scale.apply(shape(33, 18, 3));
        let one = small.read_image(4).unwrap();
        assert_eq!(one.shape(), expected);
        assert_eq!(small.image_info(4).unwrap().shape, shape(33, 18, 3));
        let batch = small.read_image_batch(&[1, 4]).unwrap();
        assert_eq!(batch.image(1).unwrap(), one.as_view());
        let mut buffer = vec![0_u8; expected.samples()];
        small.read_image_batch_into(&[4], expected, &mut buffer[..]).unwrap();
        assert_eq!(buffer, u8_samples(one.samples()));
    }
}

#[test]
fn signed_samples_come_back_signed_and_the_header_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pack.iac");
    let samples: Vec<i16> = vec![i16::MIN, -1024, -1, 0, 40, i16::MAX];
    let image = Image::new(shape(2, 3, 1), samples.clone()).unwrap();
    let signed = Codec::from_image_codec(Pixels).with_int16_samples().unwrap();
    let mut members = Map::new();
    members.insert("extensions".into(), json!(["mine"]));
    members.insert("iac_sample".into(), json!("a mistake"));
    let build = builder(2).codec(signed).header(members);
    build.build_images(&path, &[image.as_view(), image.as_view()]).unwrap();
    let pack = open(&path);
    let header = pack.reader().header();
    assert_eq!(header.members()[SampleMapping::MEMBER], json!({"type": "int16", "offset": 32768}));
    let listed: Vec<&str> = header.extensions();
    assert!(listed.contains(&"iac.sample") && listed.contains(&"mine"), "{listed:?}");
    assert_eq!(header.members().get("required_extensions"), None);
    assert_eq!(pack.read_image(1).unwrap(), image);
    assert_eq!(pack.image_info(0).unwrap().sample_type, SampleType::I16);
    let batch = pack.read_image_batch(&[0, 1]).unwrap();
    assert_eq!(batch.samples(), SamplesRef::I16(&[samples.clone(), samples.clone()].concat()));
    let mut buffer = vec![0_i16; 6];
    pack.read_image_batch_into(&[1], shape(2, 3, 1), &mut buffer[..]).unwrap();
    assert_eq!(batch.into_samples(), Samples::I16([samples.clone(), buffer].concat()));

    // Stored as unsigned samples, which is what others see.
    let stored = pack.read_bytes(0).unwrap();
    assert_eq!(stored[4..8], [0, 0, 0x00, 0x7C]);

    let mut members = Map::new();
    members.insert("iac_sample".into(), json!({"type": "int8"}));
    builder(1).header(members).build_from_payloads(&path, &[stored]).unwrap();
    let error = open(&path).read_image(0).unwrap_err();
    assert_eq!((error.kind(), error.field()), (ErrorKind::Decode, Some("iac_sample")), "{error}");
}
