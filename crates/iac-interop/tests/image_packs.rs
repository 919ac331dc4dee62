//! Packs of images in both directions, for every image codec: what the reference writes, we read;
//! what we write, the reference reads.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use std::convert::Infallible;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, UInt64Array};
use iac_codec::half::f16;
use iac_codec::{
    Codec, CodecSpec, Image, ImageShape, ImageView, Parameters, Registry, SampleType, Samples,
    SamplesRef,
};
use iac_interop::json::header_value;
use iac_interop::reference;
use iac_reader::{ReadOptions, RecordOptions, SourceKind, VariableRecordPack, VerifyOptions};
use iac_writer::{Table, VariablePackBuilder, WriteOptions};
use serde_json::{Value, json};

/// What a script told of images, with the samples that it wrote beside them.
fn images_of(told: &Value, samples: &Path) -> Vec<Image> {
    let bytes = std::fs::read(samples).unwrap();
    let mut rest = bytes.as_slice();
    let mut images = Vec::new();
    for told in told.as_array().unwrap() {
        let side = |at: usize| told["shape"].get(at).map_or(1, |side| side.as_u64().unwrap());
        let [height, width, channels] = [0, 1, 2].map(|at| u32::try_from(side(at)).unwrap());
        let shape = ImageShape::new(height, width, channels).unwrap();
        let mut take = |size: usize| {
            let (samples, behind) = rest.split_at(shape.samples() * size);
            rest = behind;
            samples
        };
        let samples: Samples = match told["dtype"].as_str().unwrap() {
            "uint8" => take(1).to_vec().into(),
            "uint16" => pairs(take(2)).map(u16::from_le_bytes).collect::<Vec<_>>().into(),
            "float16" => pairs(take(2)).map(f16::from_le_bytes).collect::<Vec<_>>().into(),
            "float32" => {
                let quads = take(4).chunks(4).map(|quad| quad.try_into().unwrap());
                quads.map(f32::from_le_bytes).collect::<Vec<_>>().into()
            }
            other => panic!("{other}"),
        };
        images.push(Image::new(shape, samples).unwrap());
    }
    assert!(rest.is_empty());
    images
}

fn pairs(bytes: &[u8]) -> impl Iterator<Item = [u8; 2]> + '_ {
    bytes.chunks(2).map(|pair| [pair[0], pair[1]])
}

fn views(images: &[Image]) -> Vec<ImageView<'_>> {
    images.iter().map(Image::as_view).collect()
}

fn builder(rows: usize) -> VariablePackBuilder {
    let ids: ArrayRef = Arc::new(UInt64Array::from_iter_values(0..u64::try_from(rows).unwrap()));
    let index = Table::from(RecordBatch::try_from_iter([("item_id", ids)]).unwrap());
    VariablePackBuilder::new("pictures", index).options(WriteOptions::new().sync(false))
}

/// What the reference gives for each file: header and images.
fn look(paths: &[PathBuf]) -> Vec<(Value, Vec<Image>)> {
    let lines: String = paths.iter().map(|path| format!("{}\n", path.to_str().unwrap())).collect();
    let seen = reference::run_json::<&str>("read_image_packs.py", &[], &lines);
    assert_eq!(seen.len(), paths.len());
    let images = |path: &PathBuf, seen: &Value| {
        assert_eq!(seen["many"], true, "{}", path.display());
        let mut samples = path.clone().into_os_string();
        samples.push(".seen");
        images_of(&seen["images"], Path::new(&samples))
    };
    seen.into_iter()
        .zip(paths)
        .map(|(seen, path)| {
            let images = images(path, &seen);
            (seen["header"].clone(), images)
        })
        .collect()
}

fn values(samples: SamplesRef<'_>) -> Vec<f64> {
    match samples {
        SamplesRef::U8(samples) => samples.iter().map(|sample| f64::from(*sample)).collect(),
        SamplesRef::U16(samples) => samples.iter().map(|sample| f64::from(*sample)).collect(),
        SamplesRef::F16(samples) => samples.iter().map(|sample| sample.to_f64()).collect(),
        SamplesRef::F32(samples) => samples.iter().map(|sample| f64::from(*sample)).collect(),
        other => panic!("{other:?}"),
    }
}

/// How far two decoders may differ on one stream.
fn tolerance(codec: &str, lossless: bool, sample_type: SampleType) -> f64 {
    match (codec, sample_type) {
        _ if lossless => 0.0,
        ("jxl", SampleType::U8) => 1.0,
        ("jxl", SampleType::U16) => 257.0,
        ("jxl", SampleType::F16) => 1e-3,
        ("jxl", _) => 1e-4,
        ("jpeg2000", SampleType::U8) => 1.0,
        // The wavelet's own rounding, which two libraries do differently.
        ("jpeg2000", _) => 4.0,
        _ => 0.0,
    }
}

fn compare(context: &str, codec: &str, lossless: bool, ours: &[Image], theirs: &[Image]) {
    assert_eq!(ours.len(), theirs.len(), "{context}");
    for (row, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
        let context = format!("row {row} of {context}: {} {}", ours.shape(), ours.sample_type());
        assert_eq!(ours.shape(), theirs.shape(), "{context}");
        assert_eq!(ours.sample_type(), theirs.sample_type(), "{context}");
        let worst = values(ours.samples())
            .iter()
            .zip(values(theirs.samples()))
            .map(|(a, b)| (a - b).abs())
            .fold(0.0, f64::max);
        let allowed = tolerance(codec, lossless, ours.sample_type());
        assert!(worst <= allowed, "{context}: {worst} off");
    }
}

/// Reads a pack in every way and returns its images.
fn read(context: &str, path: &Path) -> Vec<Image> {
    let mut images = Vec::new();
    for options in [
        ReadOptions::default().workers(NonZeroUsize::MIN),
        ReadOptions::default().source(SourceKind::Positional).workers(NonZeroUsize::new(2)),
    ] {
        let pack = VariableRecordPack::open_with(path, &options, RecordOptions::default()).unwrap();
        assert!(pack.reader().verify(&VerifyOptions::default()).is_sound(), "{context}");
        let rows: Vec<u64> = (0..pack.record_count().unwrap()).collect();
        images = pack.read_images(&rows).unwrap_or_else(|error| panic!("{context}: {error}"));
        for (row, image) in rows.iter().zip(&images) {
            let batch = pack.read_image_batch(&[*row]).unwrap();
            assert_eq!(batch.image(0).unwrap(), image.as_view(), "{context} row {row}");
        }
    }
    images
}

fn is_lossless(codec: &str, params: &Value) -> bool {
    match codec {
        "jpegls" => true, // near-lossless decoding is defined exactly, too
        _ => params["lossless"] == true,
    }
}

#[test]
fn images_of_every_codec_and_parameter_set_are_read_on_both_sides() {
    let folder = tempfile::tempdir().unwrap();
    let told = reference::run_json("write_image_packs.py", &[folder.path().to_str().unwrap()], "");
    assert!(told.len() > 20, "only {} packs were written", told.len());
    let mut ours = Vec::new();
    for told in &told {
        let context = told["name"].as_str().unwrap();
        let codec = told["codec"].as_str().unwrap();
        let file = |suffix: &str| folder.path().join(format!("{context}.{suffix}"));
        let sources = images_of(&told["images"], &file("source"));
        let decoded = images_of(&told["decoded"], &file("decoded"));
        let lossless = is_lossless(codec, &told["persisted"]);

        // Theirs, read by us.
        let pack = VariableRecordPack::open(file("iac")).unwrap();
        let params = pack.reader().header().members()["codec_params"].clone();
        assert_eq!(params, told["persisted"], "{context}");
        assert_eq!(json!(pack.codec().unwrap().parameters()), params, "{context}");
        let found = read(context, &file("iac"));
        compare(context, codec, lossless, &found, &decoded);
        if lossless && told["params"].get("near_lossless").is_none() {
            assert_eq!(found, sources, "{context}");
        }

        // The same images with the same parameters, written by us in two ways.
        let asked: Parameters = told["params"].as_object().unwrap().clone();
        let builder = builder(sources.len()).codec_spec(CodecSpec::new(codec, asked));
        let path = file("ours.iac");
        builder.build_images(&path, &views(&sources)).unwrap_or_else(|error| panic!("{error}"));
        let streamed = file("stream.iac");
        let stream = sources.iter().cloned().map(Ok::<_, Infallible>);
        builder.workers(NonZeroUsize::new(2)).build_images_streaming(&streamed, stream).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), std::fs::read(&streamed).unwrap(), "{context}");
        let again = read(context, &path);
        if lossless && told["params"].get("near_lossless").is_none() {
            assert_eq!(again, sources, "{context}");
        }
        ours.push((context.to_owned(), codec, lossless, params, path, again));
    }
    let paths: Vec<PathBuf> = ours.iter().map(|(.., path, _)| path.clone()).collect();
    for ((context, codec, lossless, params, _, again), (header, seen)) in
        ours.iter().zip(look(&paths))
    {
        assert_eq!(header["codec"], json!(codec), "{context}");
        assert_eq!(header["codec_params"], header_value(params), "{context}");
        assert_eq!(header["required_extensions"], Value::Null, "{context}");
        assert_eq!(header["iac_encode"], Value::Null, "{context}");
        compare(&format!("{context}, ours"), codec, *lossless, again, &seen);
    }
}

/// Numbers that look like noise, the same each time.
fn noise(count: usize) -> impl Iterator<Item = u32> {
    let mut state = 1_u32;
    std::iter::repeat_with(move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state >> 8
    })
    .take(count)
}

#[test]
fn lossless_float_images_that_the_reference_cannot_write_are_exact_there_too() {
    let folder = tempfile::tempdir().unwrap();
    let mut images = Vec::new();
    for channels in 1..=4 {
        for (height, width) in [(16, 16), (23, 19), (1, 1), (3, 70)] {
            let shape = ImageShape::new(height, width, channels).unwrap();
            let floats: Vec<f32> =
                noise(shape.samples()).map(|number| number as f32 / 8e6 - 1.0).collect();
            let halves: Vec<f16> = floats.iter().map(|sample| f16::from_f32(*sample)).collect();
            images.push(Image::new(shape, floats).unwrap());
            images.push(Image::new(shape, halves).unwrap());
        }
    }
    let mut paths = Vec::new();
    for effort in [1, 3, 7] {
        let mut parameters = Parameters::new();
        parameters.insert("lossless".into(), json!(true));
        parameters.insert("effort".into(), json!(effort));
        let path = folder.path().join(format!("{effort}.iac"));
        let builder = builder(images.len()).codec_spec(CodecSpec::new("jxl", parameters));
        builder.build_images(&path, &views(&images)).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(read(&format!("effort {effort}"), &path), images);
        paths.push(path);
    }
    for (path, (_, seen)) in paths.iter().zip(look(&paths)) {
        assert!(seen == images, "{}", path.display());
    }
}

#[test]
fn signed_images_are_the_shifted_unsigned_ones_to_the_reference() {
    let folder = tempfile::tempdir().unwrap();
    let shape = ImageShape::new(33, 20, 1).unwrap();
    let signed: Vec<i16> = noise(shape.samples())
        .map(|number| i16::try_from(i64::from(number % 65_536) - 32_768).unwrap())
        .collect();
    let image = Image::new(shape, signed.clone()).unwrap();
    let shifted: Vec<u16> =
        signed.iter().map(|sample| u16::try_from(i32::from(*sample) + 32_768).unwrap()).collect();
    let shifted = Image::new(shape, shifted).unwrap();
    let mut paths = Vec::new();
    for name in ["jxl", "jpeg", "jpeg2000", "jpegls"] {
        let mut parameters = Parameters::new();
        if name != "jpegls" {
            parameters.insert("lossless".into(), json!(true));
        }
        let codec: Codec = Registry::global()
            .create_encoder(&CodecSpec::new(name, parameters))
            .unwrap()
            .with_int16_samples()
            .unwrap();
        let path = folder.path().join(format!("{name}.iac"));
        builder(1).codec(codec).build_images(&path, &[image.as_view()]).unwrap();
        assert_eq!(read(name, &path), std::slice::from_ref(&image));
        paths.push(path);
    }
    for (path, (header, seen)) in paths.iter().zip(look(&paths)) {
        assert!(seen == [shifted.clone()], "{}", path.display());
        assert_eq!(header["iac_sample"], json!({"type": "int16", "offset": 32768}));
        assert!(header["extensions"].as_array().unwrap().contains(&json!("iac.sample")));
        assert_eq!(header["required_extensions"], Value::Null);
    }
}
