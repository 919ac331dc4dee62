//! Exact regions of slides against the plain model of the format's specification: one loop over the
//! pixels that a pixel covers, in doubles. Whole regions, batches and native parts have the model's
//! bytes, whatever memory they may use.
//!
//! An input is what `arbitrary` makes a [`Request`] of; the slides are always the same few.
#![no_main]

use std::num::NonZeroUsize;
use std::sync::LazyLock;

use bytes::Bytes;
use iac_adapters::wsi::{
    EncodedTile, Mpp, NativeRegion, Region, WsiHeader, WsiOpenOptions, WsiPackReader,
    WsiPackWriter, WsiReadOptions,
};
use iac_codec::jxl::JxlOptions;
use iac_codec::{ImageShape, ImageView};
use iac_fuzz::{Limited, seeds, slides};
use iac_reader::PackReader;
use iac_writer::WriteOptions;
use libfuzzer_sys::arbitrary::{self, Arbitrary, Unstructured};
use libfuzzer_sys::fuzz_target;
use serde_json::Map;

#[global_allocator]
static ALLOCATOR: Limited = Limited;

/// Pixels of the raster that a region may cover, with what lies outside.
const MOST: f64 = 40_000.0;

const TWO: NonZeroUsize = NonZeroUsize::new(2).unwrap();

/// Rounding gives the last row of this region one row of the raster more, of a weight of 1e-15, which
/// decides a half level.
const TIE: [u8; 32] = [
    0xFE, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x02, 0x00, 0x02, 0x06, 0x34, 0x02, 0xF6, 0x00,
    0x02, 0xF6, 0xF6, 0x9E, 0x03, 0x06, 0x05, 0x01, 0x0D, 0x07, 0x07, 0xE3, 0x50, 0x9E, 0x05, 0x02,
];

/// A region of one of the slides.
#[derive(Debug, Arbitrary)]
struct Request {
    slide: u8,
    start: [Number; 2],
    step: [Number; 2],
    size: [u8; 2],
    memory: u8,
    workers: bool,
}

/// A number with few or many digits.
#[derive(Debug, Clone, Copy, Arbitrary)]
struct Number {
    whole: i16,
    part: u32,
    kind: u8,
}

impl Number {
    fn value(self) -> f64 {
        let whole = f64::from(self.whole) / 64.0;
        match self.kind % 6 {
            0 => whole.round(),
            1 => whole,
            2 => whole.round() + f64::from(self.part % 3) / 3.0,
            3 => whole.round() + f64::from(self.part) * f64::EPSILON,
            4 => whole + f64::from(self.part) / f64::from(u32::MAX),
            _ => whole.round() + 0.5,
        }
    }
}

/// A slide, and its pixels as they are known.
struct Slide {
    reader: WsiPackReader,
    width: i64,
    height: i64,
    /// Pixels along the sides of a tile.
    tile: [i64; 2],
    mpp: Mpp,
    background: [u8; 3],
    /// Row by row; nothing where no tile is stored.
    pixels: Vec<Option<[u8; 3]>>,
}

static SLIDES: LazyLock<Vec<Slide>> = LazyLock::new(|| {
    let mut made = Vec::new();
    for (number, (width, height, tile, missing)) in [
        (37_i64, 23_i64, [8_i64, 8_i64], 5_i64),
        (64, 64, [16, 16], 1 << 40),
        (100, 9, [32, 4], 3),
        (1, 1, [8, 8], 1 << 40),
        (33, 70, [33, 64], 1 << 40),
        (50, 50, [7, 11], 2),
    ]
    .into_iter()
    .enumerate()
    {
        let mpp = [0.25, 0.5, 0.2465, 1.0 / 3.0, 0.1, 0.24999][number];
        made.push(slide(
            width,
            height,
            tile,
            missing,
            Mpp { x: mpp, y: mpp * [1.0, 1.1][number % 2] },
        ));
    }
    made
});

fuzz_target!(
    init: seeds::write(|| {
        let mut made = seeds::noise();
        made.push(("tie".into(), TIE.to_vec()));
        made
    }),
    |input: &[u8]| {
        if let Ok(request) = Request::arbitrary_take_rest(Unstructured::new(input)) {
            run(&request);
        }
    }
);

fn run(request: &Request) {
    let slides = &*SLIDES;
    let slide = &slides[usize::from(request.slide) % slides.len()];
    let [width, height] = request.size.map(|side| u32::from(side % 24) + 1);
    let [x, y] = request.start.map(Number::value);
    // From finer than the slide, which is refused, to coarser than it is long.
    let [step_x, step_y] = request.step.map(|step| step.value().abs() / 4.0);
    let region = Region {
        x_um: x * slide.mpp.x,
        y_um: y * slide.mpp.y,
        width,
        height,
        mpp: Mpp { x: step_x * slide.mpp.x, y: step_y * slide.mpp.y },
    };
    let options = WsiReadOptions::new().memory(1 << (u32::from(request.memory % 16) + 8));
    let options = if request.workers { options.workers(TWO) } else { options };
    if f64::from(width) * step_x.max(1.0) * f64::from(height) * step_y.max(1.0) > MOST {
        return;
    }
    let is_finer = |target: f64, native: f64| target + 1e-12 < native;
    let is_size = |size: f64| size.is_finite() && size > 0.0;
    let refused = !(is_size(region.mpp.x) && is_size(region.mpp.y))
        || is_finer(region.mpp.x, slide.mpp.x)
        || is_finer(region.mpp.y, slide.mpp.y);
    let found = slide.reader.read_region(&region, &options);
    assert_eq!(found.is_err(), refused, "{region:?}: {:?}", found.err());
    if let Ok(found) = found {
        let expected = slide.model(&region);
        assert!(found.damaged.is_empty());
        same(&found.pixels, &expected, &region);
        let moved = Region { x_um: -region.x_um, ..region };
        let batch = slide.reader.read_regions(&[moved, region], &options).unwrap();
        let both = [slide.model(&moved), expected].concat();
        same(&batch.pixels, &both, &region);
    }
    let native = NativeRegion { x: x as i64, y: y as i64, width, height };
    let found = slide.reader.read_native(&native, &options).unwrap();
    let mut expected = Vec::new();
    for row in 0..i64::from(height) {
        for column in 0..i64::from(width) {
            expected.extend(slide.pixel(native.x + column, native.y + row));
        }
    }
    assert!(found.pixels == expected, "{native:?}: other pixels");
}

fn same(found: &[u8], expected: &[u8], region: &Region) {
    assert_eq!(found.len(), expected.len());
    if let Some(at) = (0..found.len()).find(|at| found[*at] != expected[*at]) {
        panic!("{region:?}: {} instead of {} at {at}", found[at], expected[at]);
    }
}

impl Slide {
    fn pixel(&self, x: i64, y: i64) -> [u8; 3] {
        let inside = (0..self.width).contains(&x) && (0..self.height).contains(&y);
        let stored = inside.then(|| self.pixels[(y * self.width + x) as usize]).flatten();
        stored.unwrap_or(self.background)
    }

    /// The specification's loops.
    fn model(&self, region: &Region) -> Vec<u8> {
        let start = [region.x_um / self.mpp.x, region.y_um / self.mpp.y];
        let step = [(region.mpp.x / self.mpp.x).max(1.0), (region.mpp.y / self.mpp.y).max(1.0)];
        // Rounding may let the last pixel cover one behind those that the region covers. It counts
        // where its tile is one of those that the region needs, and is background elsewhere.
        let end = [
            (start[0] + f64::from(region.width) * step[0]).ceil() as i64,
            (start[1] + f64::from(region.height) * step[1]).ceil() as i64,
        ];
        let needs =
            |at: i64, axis: usize| at.div_euclid(self.tile[axis]) * self.tile[axis] < end[axis];
        let area = step[0] * step[1];
        let mut out = Vec::new();
        for row in 0..region.height {
            let top = start[1] + f64::from(row) * step[1];
            let bottom = top + step[1];
            for column in 0..region.width {
                let left = start[0] + f64::from(column) * step[0];
                let right = left + step[0];
                let mut sums = [0.0_f64; 3];
                for y in top.floor() as i64..bottom.ceil() as i64 {
                    let down = (bottom.min(y as f64 + 1.0) - top.max(y as f64)).max(0.0);
                    for x in left.floor() as i64..right.ceil() as i64 {
                        let across = (right.min(x as f64 + 1.0) - left.max(x as f64)).max(0.0);
                        let is_needed = needs(x, 0) && needs(y, 1);
                        let pixel = if is_needed { self.pixel(x, y) } else { self.background };
                        for (sum, value) in sums.iter_mut().zip(pixel) {
                            *sum += f64::from(value) * (across * down);
                        }
                    }
                }
                out.extend(sums.map(|sum| (sum / area).clamp(0.0, 255.0).round_ties_even() as u8));
            }
        }
        out
    }
}

/// A slide of which every so many-th tile is not stored.
fn slide(width: i64, height: i64, tile: [i64; 2], missing: i64, mpp: Mpp) -> Slide {
    let mut noise = seeds::Noise::new(width as u64);
    let background = [noise.next(), noise.next(), noise.next()];
    let tiles = [(width + tile[0] - 1) / tile[0], (height + tile[1] - 1) / tile[1]];
    let is_stored = |x: i64, y: i64| (y * tiles[0] + x) % missing != missing - 1;
    let mut pixels = Vec::new();
    for y in 0..height {
        for x in 0..width {
            // Black and white beside noise, so that ties of averages are many.
            let pixel = [noise.next(), noise.next() & 1, 255 * (noise.next() & 1)];
            pixels.push(is_stored(x / tile[0], y / tile[1]).then_some(pixel));
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("slide.pat.iac");
    let side = |side: i64| u32::try_from(side).unwrap();
    let header = WsiHeader {
        background_is_counted: true,
        ..slides::header([width as u64, height as u64], tile.map(side), mpp, background)
    };
    let options = WriteOptions::new().sync(false);
    let mut writer = WsiPackWriter::create(&path, header, &options).unwrap();
    let codec = JxlOptions::lossless().with_effort(1).codec().unwrap();
    let shape = ImageShape::new(side(tile[1]), side(tile[0]), 3).unwrap();
    for tile_y in 0..tiles[1] {
        for tile_x in (0..tiles[0]).filter(|x| is_stored(*x, tile_y)) {
            let mut samples = Vec::new();
            for y in tile_y * tile[1]..(tile_y + 1) * tile[1] {
                for x in tile_x * tile[0]..(tile_x + 1) * tile[0] {
                    let inside = x < width && y < height;
                    let pixel = inside.then(|| pixels[(y * width + x) as usize]).flatten();
                    // What lies outside must not be seen.
                    samples.extend(pixel.unwrap_or([noise.next(); 3]));
                }
            }
            let view = ImageView::new(shape, &samples[..]).unwrap();
            let payload = codec.encode_image(&view).unwrap();
            let tile = EncodedTile { x: side(tile_x), y: side(tile_y), payload: &payload };
            writer.push_tile(&tile).unwrap();
        }
    }
    writer.finish(Map::new(), None, Vec::new()).unwrap();
    let pack = PackReader::from_bytes(Bytes::from(std::fs::read(&path).unwrap())).unwrap();
    let reader = WsiPackReader::from_reader(pack, &WsiOpenOptions::new()).unwrap();
    Slide { reader, width, height, tile, mpp, background, pixels }
}
