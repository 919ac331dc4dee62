//! Image files that become tiles, and journals of such builds: any file is refused, or is a tile that
//! comes back from its pack without loss; any journal leads to the pack that is made without one.
//!
//! An input is one byte that chooses how a file becomes a tile, and the file; or, where that byte is
//! odd, what is done to the journal of a build that was stopped: places (two bytes) and new bytes, the
//! first of which cuts it.
#![no_main]

use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use iac_adapters::AdapterError;
use iac_adapters::tiles::{
    Alpha, JpegSources, TileColor, TilePackBuilder, TilePackReader, TileReadOptions, WideSamples,
};
use iac_codec::Limits;
use iac_format::ErrorKind;
use iac_fuzz::{Limited, seeds, slides};
use iac_ops::{NoProgress, Progress};
use iac_reader::{PackReader, ReadOptions};
use iac_writer::WriteOptions;
use libfuzzer_sys::fuzz_target;

#[global_allocator]
static ALLOCATOR: Limited = Limited;

/// Samples that an image may have.
const MOST: u64 = 1 << 16;
const HEAD: &str = "tile_id,patient_id,slide_id,tile_path,x,y,split\n";
const JOURNAL: &str = ".pack.tiles.iac.journal.part";

/// A folder for the files, in memory where that is possible.
static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    let folder = folder.join(format!("iac-fuzz-tiles-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("one.csv"), format!("{HEAD}t,p,s,tile,0,0,train\n")).unwrap();
    folder
});

fuzz_target!(
    init: seeds::write(make_seeds),
    |input: &[u8]| {
        let Some((how, rest)) = input.split_first() else { return };
        if how % 2 == 0 { file(how / 2, rest) } else { journal(rest) }
    }
);

fn builder() -> TilePackBuilder {
    TilePackBuilder::new()
        .lossless(true)
        .effort(1)
        .beside_manifest(true)
        .workers(std::num::NonZeroUsize::MIN)
        .limits(Limits::default().with_max_samples(MOST).with_max_decoded_bytes(MOST * 4))
        .options(WriteOptions::new().overwrite(true).sync(false))
}

fn file(how: u8, bytes: &[u8]) {
    std::fs::write(FOLDER.join("tile"), bytes).unwrap();
    let wide = [WideSamples::Refuse, WideSamples::Clip, WideSamples::Scale, WideSamples::Keep];
    let wide = wide[usize::from(how / 32)];
    let mut builder = builder().wide_samples(wide).apply_orientation(how & 2 != 0);
    if how & 4 != 0 {
        builder = builder.color(TileColor::Native);
    }
    if how & 8 != 0 {
        builder = builder.alpha(Alpha::BlendWhite);
    }
    match how & 17 {
        16 => builder = builder.jpeg_sources(JpegSources::Transcode),
        17 => builder = builder.jpeg_sources(JpegSources::Keep),
        _ => {}
    }
    let pack = FOLDER.join("pack.tiles.iac");
    match builder.build_from_manifest(FOLDER.join("one.csv"), &pack, &NoProgress) {
        Ok(summary) => {
            assert_eq!(summary.rows, 1);
            let options = TileReadOptions::new().reading(ReadOptions::default());
            let reader = TilePackReader::open_with(&pack, &options).unwrap();
            let image = match reader.read(0) {
                Ok(image) => image,
                // Streams that are kept as they are get decoded when they are read, and not before.
                Err(error) => {
                    assert_eq!(how & 17, 17, "{error}");
                    let kinds = [ErrorKind::Decode, ErrorKind::Unsupported, ErrorKind::Limit];
                    assert!(kinds.contains(&error.kind()), "{error}");
                    return;
                }
            };
            let size = reader.tile_size_at(0).unwrap();
            let shape = image.shape();
            assert_eq!((shape.height(), shape.width()), (size.height, size.width));
        }
        Err(error) => judge(&error),
    }
}

fn judge(error: &AdapterError) {
    let expected = slides::is_of_the_source(error) || matches!(error, AdapterError::Records { .. });
    assert!(expected, "{error:?}");
}

/// Three small tiles, the pack of them, and the journal of a build that was stopped before its end.
struct Stopped {
    pack: Vec<u8>,
    journal: Vec<u8>,
}

/// Stops a build once two tiles are encoded.
#[derive(Debug, Default)]
struct StopAfterTwo {
    encoded: AtomicU64,
    is_encoding: AtomicBool,
}

impl Progress for StopAfterTwo {
    fn begin(&self, what: &str, _: Option<u64>) {
        self.is_encoding.store(what == "encoding", Ordering::Relaxed);
    }

    fn advance(&self, units: u64) {
        if self.is_encoding.load(Ordering::Relaxed) {
            self.encoded.fetch_add(units, Ordering::Relaxed);
        }
    }

    fn is_cancelled(&self) -> bool {
        self.encoded.load(Ordering::Relaxed) >= 2
    }
}

static STOPPED: LazyLock<Stopped> = LazyLock::new(|| {
    let mut manifest = HEAD.to_owned();
    for number in 0..4_u8 {
        let name = format!("j{number}.png");
        std::fs::write(FOLDER.join(&name), png(5, 4, number)).unwrap();
        manifest += &format!("t{number},p,s,{name},{},0,train\n", u32::from(number) * 5);
    }
    std::fs::write(FOLDER.join("four.csv"), manifest).unwrap();
    let pack = FOLDER.join("pack.tiles.iac");
    let source = FOLDER.join("four.csv");
    builder().build_from_manifest(&source, &pack, &NoProgress).unwrap();
    let whole = std::fs::read(&pack).unwrap();
    let stop = StopAfterTwo::default();
    builder().journal(true).build_from_manifest(&source, &pack, &stop).unwrap_err();
    let journal = std::fs::read(FOLDER.join(JOURNAL)).unwrap();
    assert!(journal.len() > 100, "a journal of {} bytes", journal.len());
    Stopped { pack: whole, journal }
});

fn journal(changes: &[u8]) {
    let stopped = &*STOPPED;
    let mut journal = stopped.journal.clone();
    let mut changes = changes.as_chunks::<3>().0.iter();
    let place = |low: u8, high: u8| usize::from(u16::from_le_bytes([low, high]));
    if let Some([low, high, ..]) = changes.next() {
        journal.truncate(place(*low, *high));
    }
    for [low, high, byte] in changes {
        let at = place(*low, *high) % journal.len().max(1);
        if let Some(found) = journal.get_mut(at) {
            *found = *byte;
        }
    }
    std::fs::write(FOLDER.join(JOURNAL), &journal).unwrap();
    let pack = FOLDER.join("pack.tiles.iac");
    let summary = builder()
        .journal(true)
        .build_from_manifest(FOLDER.join("four.csv"), &pack, &NoProgress)
        .unwrap();
    assert!(summary.resumed <= 4);
    assert!(!FOLDER.join(JOURNAL).exists());
    assert!(std::fs::read(&pack).unwrap() == stopped.pack, "another pack");
    PackReader::open(&pack).unwrap();
}

/// An RGB image.
fn png(width: u32, height: u32, seed: u8) -> Vec<u8> {
    let mut noise = seeds::Noise::new(u64::from(seed) + 1);
    let pixels: Vec<u8> = (0..width * height * 3).map(|_| noise.next()).collect();
    encoded(width, height, png::ColorType::Rgb, png::BitDepth::Eight, &pixels)
}

fn encoded(
    width: u32,
    height: u32,
    color: png::ColorType,
    depth: png::BitDepth,
    pixels: &[u8],
) -> Vec<u8> {
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(Cursor::new(&mut file), width, height);
    encoder.set_color(color);
    encoder.set_depth(depth);
    if color == png::ColorType::Indexed {
        encoder.set_palette(vec![1, 2, 3, 200, 100, 50]);
        encoder.set_trns(vec![255, 7]);
    }
    let mut writer = encoder.write_header().unwrap();
    writer.write_image_data(pixels).unwrap();
    writer.finish().unwrap();
    file
}

fn make_seeds() -> Vec<(String, Vec<u8>)> {
    let mut made = Vec::new();
    let mut add = |name: &str, how: u8, file: &[u8]| {
        made.push((format!("{name}.{how}"), [&[how * 2][..], file].concat()));
    };
    for (name, color, depth, bytes) in [
        ("grey", png::ColorType::Grayscale, png::BitDepth::Eight, 12),
        ("grey-alpha", png::ColorType::GrayscaleAlpha, png::BitDepth::Eight, 24),
        ("rgba", png::ColorType::Rgba, png::BitDepth::Eight, 48),
        ("wide", png::ColorType::Rgb, png::BitDepth::Sixteen, 72),
        ("bits", png::ColorType::Grayscale, png::BitDepth::One, 3),
        ("palette", png::ColorType::Indexed, png::BitDepth::One, 3),
    ] {
        let pixels: Vec<u8> = (0..bytes as u8).map(|at| at.wrapping_mul(37)).collect();
        let file = encoded(4, 3, color, depth, &pixels);
        for how in [0, 32 + 4, 64 + 12, 96 + 14] {
            add(name, how, &file);
        }
    }
    // Files of every kind that the tests have.
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/iac-adapters/tests/data");
    let mut open = vec![Path::new(root).join("tile_sources")];
    let mut paths = Vec::new();
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { open.push(path) } else { paths.push(path) }
        }
    }
    paths.sort();
    for path in paths {
        let bytes = std::fs::read(&path).unwrap();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if bytes.len() < 8000 && !name.ends_with(".json") && !name.ends_with(".py") {
            for how in [0, 96 + 6, 16, 17] {
                add(&name, how, &bytes);
            }
        }
    }
    for (number, changes) in
        [&[255, 255, 0][..], &[255, 255, 0, 45, 0, 1], &[100, 0, 0], &[0, 0, 0, 1, 1, 1]]
            .into_iter()
            .enumerate()
    {
        made.push((format!("journal.{number}"), [&[1][..], changes].concat()));
    }
    made
}
