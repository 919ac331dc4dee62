//! Rates of frames, for `cargo test --release ... frame_speed -- --ignored --nocapture` with
//! IAC_DICOM_LOOP naming an object of many frames, and IAC_DICOM a folder of slices of one size.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use iac_adapters::dicom::{
    DicomInput, DicomInputs, DicomPackBuilder, DicomPackReader, PayloadCodec, SchemaChoice,
};
use iac_codec::{Codec, CodecSpec, DecodeOptions, Parameters, Registry};
use iac_reader::ReadOptions;

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64() * 1e3
}

/// Processor time of this process in milliseconds, where the system tells: a measure that other
/// work on the machine changes less.
fn processor_ms() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = text.rsplit(')').next().unwrap_or_default().split(' ').collect();
    let ticks = |place: usize| fields.get(place).and_then(|it| it.parse::<f64>().ok());
    (ticks(12).unwrap_or(0.0) + ticks(13).unwrap_or(0.0)) * 10.0
}

fn codec(name: &str) -> Codec {
    Registry::global().create(&CodecSpec::new(name, Parameters::new())).unwrap()
}

fn payloads() -> [(PayloadCodec, &'static str); 4] {
    [
        (PayloadCodec::Zstd, "zstd"),
        (PayloadCodec::Htj2k, "jpeg2000"),
        (PayloadCodec::JpegLs, "jpegls"),
        (PayloadCodec::JpegXl, "jxl"),
    ]
}

#[test]
#[ignore = "measures"]
fn frame_speed_of_one_among_many() {
    let Some(source) = std::env::var_os("IAC_DICOM_LOOP").map(PathBuf::from) else {
        println!("not run: IAC_DICOM_LOOP is not set");
        return;
    };
    let out = tempfile::tempdir().unwrap();
    for (payload, name) in payloads() {
        let path = out.path().join(format!("{name}.rad.iac"));
        let builder = DicomPackBuilder::new().payload(payload).effort(1).schema(SchemaChoice::Two);
        let begun = Instant::now();
        builder.build_from(&path, [DicomInput::File(source.clone())]).unwrap();
        let built = begun.elapsed().as_secs_f64();
        let pack = DicomPackReader::open(&path).unwrap();
        let frames = pack.frame_count(0).unwrap();
        let begun = Instant::now();
        drop(DicomPackReader::open(&path).unwrap().read_frame(0, frames / 2).unwrap());
        let first = begun.elapsed().as_secs_f64() * 1e3;
        let (mut ours, mut alone) = (Vec::new(), Vec::new());
        let codec = codec(name);
        let size = pack.shape(0).unwrap().samples() * pack.pixel_type(0).unwrap().unwrap().bytes();
        for n in 0..60 {
            let frame = n * 7919 % frames;
            let begun = Instant::now();
            drop(pack.read_frame(0, frame).unwrap());
            ours.push(begun.elapsed());
            let stored = pack.reader().read(frame).unwrap();
            let begun = Instant::now();
            if name == "zstd" {
                let mut place = vec![0; size];
                codec
                    .decode_bytes_into(&stored, &mut place, &iac_codec::Limits::default())
                    .unwrap();
            } else {
                drop(codec.decode_image(&stored, &DecodeOptions::default()).unwrap());
            }
            alone.push(begun.elapsed());
        }
        let (ours, alone) = (median(ours), median(alone));
        println!(
            "{name}: {frames} frames built in {built:.1} s; one frame {ours:.3} ms, decoding alone {alone:.3} ms: {:.2}x; the first one behind opening {first:.3} ms: {:.2}x",
            ours / alone,
            first / alone
        );
    }
}

#[test]
#[ignore = "measures"]
fn frame_speed_of_a_series() {
    let Some(folder) = std::env::var_os("IAC_DICOM").map(PathBuf::from) else {
        println!("not run: IAC_DICOM is not set");
        return;
    };
    let out = tempfile::tempdir().unwrap();
    for (payload, name) in payloads() {
        let path = out.path().join(format!("{name}.rad.iac"));
        let inputs = DicomInputs::find(std::slice::from_ref(&folder)).unwrap();
        let builder = DicomPackBuilder::new().payload(payload).effort(1).schema(SchemaChoice::Two);
        builder.build(&path, inputs).unwrap();
        let mut times = Vec::new();
        let options = ReadOptions::default().workers(NonZeroUsize::new(2));
        let before = processor_ms();
        for _ in 0..5 {
            let begun = Instant::now();
            let pack = DicomPackReader::open_with(&path, &options, true).unwrap();
            let rows: Vec<u64> = (0..pack.row_count()).collect();
            let batch = pack.read_pixel_batch(&rows).unwrap();
            times.push(begun.elapsed());
            drop(batch);
        }
        let bytes = std::fs::metadata(&path).unwrap().len();
        let processor = (processor_ms() - before) / 5.0;
        println!(
            "{name}: all slices in {:.1} ms, {processor:.0} ms of processor time; {bytes} bytes",
            median(times)
        );
    }
}
