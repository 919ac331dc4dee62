//! Rates, for `cargo test --release ... speed -- --ignored --nocapture` with IAC_DICOM naming a
//! folder of images of one size.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Instant;

use iac_adapters::dicom::{DicomInputs, DicomPackBuilder, DicomPackReader};
use iac_codec::{CodecSpec, ImageView, Registry, SamplesRef};
use iac_reader::ReadOptions;

#[test]
#[ignore = "measures"]
fn speed_of_building_and_reading() {
    let Some(folder) = std::env::var_os("IAC_DICOM").map(PathBuf::from) else {
        println!("not run: IAC_DICOM is not set");
        return;
    };
    let effort: u8 = std::env::var("IAC_EFFORT").map_or(3, |it| it.parse().unwrap());
    let workers = NonZeroUsize::new(2);
    let out = tempfile::tempdir().unwrap();
    let path = out.path().join("a.rad.iac");
    let inputs = DicomInputs::find(&[folder]).unwrap();
    let builder = DicomPackBuilder::new().effort(effort).workers(workers);
    let begun = Instant::now();
    builder.build(&path, inputs).unwrap();
    let built = begun.elapsed();
    let options = ReadOptions::default().workers(workers);
    let pack = DicomPackReader::open_with(&path, &options, true).unwrap();
    let rows: Vec<u64> = (0..pack.instance_count()).collect();
    let all = pack.read_pixel_batch(&rows).unwrap();
    let bytes = all.samples.to_le_bytes();
    let words: Vec<u16> =
        bytes.as_chunks::<2>().0.iter().map(|two| u16::from_le_bytes(*two)).collect();
    let spec = serde_json::json!({"lossless": true, "usecontainer": true, "effort": effort});
    let codec = Registry::global()
        .create_encoder(&CodecSpec::new("jxl", spec.as_object().unwrap().clone()))
        .unwrap();
    let size = all.shape.samples();
    let next = std::sync::atomic::AtomicUsize::new(0);
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let place = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    let Some(samples) = words.get(place * size..(place + 1) * size) else { break };
                    let view = ImageView::new(all.shape, SamplesRef::U16(samples)).unwrap();
                    codec.encode_image(&view).unwrap();
                }
            });
        }
    });
    let bare = begun.elapsed();
    println!(
        "effort {effort}: built in {:.2} s, the bare codec needs {:.2} s: {:+.1} %",
        built.as_secs_f64(),
        bare.as_secs_f64(),
        (built.as_secs_f64() / bare.as_secs_f64() - 1.0) * 100.0
    );
    let mut state = 1_u64;
    let batches: Vec<Vec<u64>> = (0..20)
        .map(|_| {
            (0..32)
                .map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    (state >> 33) % pack.instance_count()
                })
                .collect()
        })
        .collect();
    let begun = Instant::now();
    for batch in &batches {
        pack.read_pixel_batch(batch).unwrap();
    }
    println!("random batches of 32: {:.1} images/s", 640.0 / begun.elapsed().as_secs_f64());
    let begun = Instant::now();
    for row in &rows {
        pack.attributes(*row).unwrap();
    }
    println!("attributes: {:.0} instances/s", rows.len() as f64 / begun.elapsed().as_secs_f64());
    let begun = Instant::now();
    for row in &rows {
        pack.data_set(*row).unwrap();
    }
    println!("data sets: {:.0} instances/s", rows.len() as f64 / begun.elapsed().as_secs_f64());
    let begun = Instant::now();
    for _ in 0..100 {
        let _ = DicomPackReader::open(&path).unwrap().series().len();
    }
    println!("open to the series list: {:.3} ms", begun.elapsed().as_secs_f64() * 10.0);
}
