//! Packs of slides, read in all ways, which never do more than fail, and agree.

use std::num::NonZeroUsize;
use std::sync::Arc;

use bytes::Bytes;
use iac_adapters::AdapterError;
use iac_adapters::validate::{Schemas, ValidateOptions, validate_reader};
use iac_adapters::wsi::{
    Mpp, NativeRegion, OnDamage, OverviewUse, RasterCodec, Region, RegionImage, Resolution,
    TissueMask, TissueOptions, WsiHeader, WsiOpenOptions, WsiPackReader, WsiReadOptions,
};
use iac_codec::Limits;
use iac_reader::{Memory, PackReader, ReadOptions};
use serde_json::{Map, Value};

use crate::Copied;

/// Samples that a tile or associated image may have, so that a run does not spend its time on bombs.
const MOST: u64 = 1 << 18;
/// Pixels along a side of the regions that are read.
const SIDE: u32 = 24;
/// Tiles that are looked at one by one.
const TILES: u64 = 16;

/// What a slide that a target makes says of itself.
pub fn header(size: [u64; 2], tile: [u32; 2], mpp: Mpp, background: [u8; 3]) -> WsiHeader {
    WsiHeader {
        slide_id: "slide".into(),
        patient_id: "patient".into(),
        specimen_id: String::new(),
        width: size[0],
        height: size[1],
        mpp,
        mpp_provenance: "user_override".into(),
        tile_width: tile[0],
        tile_height: tile[1],
        background,
        background_is_counted: false,
        codec: RasterCodec::Jxl { lossless: true, distance: 0.0, effort: 1 },
        selection: Value::Null,
        original_orientation: 1,
        source_format: "made".into(),
        import_backend: "made".into(),
        associated_images_preserved: true,
        extra: Map::new(),
    }
}

/// Whether importing may end in this error, whatever the file holds.
pub fn is_of_the_source(error: &AdapterError) -> bool {
    !error.to_string().is_empty()
        && match error {
            AdapterError::Listed { source, .. } => is_of_the_source(source),
            AdapterError::Source { .. }
            | AdapterError::Unsupported { .. }
            | AdapterError::Usage { .. }
            | AdapterError::Codec { .. } => true,
            _ => false,
        }
}

/// Reads a file, if it is a pack of a slide: from shared memory and by copying, one by one and in
/// batches, natively and by micrometres. Four bytes choose the region.
pub fn exercise(choice: [u8; 4], file: Vec<u8>) {
    let file = Bytes::from(file);
    let options = ReadOptions::default().workers(NonZeroUsize::MIN);
    let source = Arc::new(Memory::new(file.clone()));
    let Ok(shared) = PackReader::from_source(source, "memory", &options) else { return };
    let source = Arc::new(Copied(file));
    let copied = PackReader::from_source(source, "memory", &options).unwrap();
    let limits = Limits::default().with_max_samples(MOST).with_max_decoded_bytes(MOST);
    let open = WsiOpenOptions::new().limits(limits);
    // The other reader keeps nothing, and has the pixels of tiles alone.
    let bare = open.clone().tile_cache(0).render_cache(0).overview(OverviewUse::Never);
    for crc in [true, false] {
        let one = WsiPackReader::from_reader(shared.with_crc(crc), &open);
        let other = WsiPackReader::from_reader(copied.with_crc(crc), &bare);
        match (one, other) {
            (Ok(one), Ok(other)) => read(choice, &one, &other),
            (Err(a), Err(b)) => {
                assert_eq!(a.to_string(), b.to_string());
                let sound = validate_reader(&shared, &ValidateOptions::default());
                assert!(sound.is_err(), "valid, but {a}");
                return;
            }
            (a, b) => panic!("{a:?} from memory, {b:?} by copying"),
        }
    }
    for schema in Schemas::all() {
        if schema.handles("wsi_image") {
            let _ = schema.check(&shared, 10);
        }
    }
    if validate_reader(&shared, &ValidateOptions::default().max_decode(0)).is_ok() {
        sound(&WsiPackReader::from_reader(shared, &WsiOpenOptions::new()).unwrap());
    }
}

fn options() -> WsiReadOptions {
    // Small, so that bands and stripes are many.
    WsiReadOptions::new().memory(1 << 16)
}

fn read(choice: [u8; 4], one: &WsiPackReader, other: &WsiPackReader) {
    let info = one.info();
    assert_eq!(info, other.info());
    let [x, y, step, shape] = choice;
    // Two widths to the left to two to the right.
    let place = |size: u64, at: u8| size as f64 * f64::from(at.cast_signed()) / 63.0;
    let step =
        if step < 128 { 1.0 + f64::from(step) / 8.0 } else { 2_f64.powi(i32::from(step) - 128) };
    let side = |bits: u8| u32::from(bits & 15) + SIDE - 15;
    let (width, height) = (side(shape), side(shape >> 4));
    let region = Region {
        x_um: place(info.width, x) * info.mpp.x,
        y_um: place(info.height, y) * info.mpp.y,
        width,
        height,
        mpp: Mpp { x: info.mpp.x * step, y: info.mpp.y * step },
    };
    let exact = one.read_region(&region, &options());
    let again = other.read_region(&region, &options().memory(1 << 24));
    same(&exact, &again);
    let filled = one.read_region(&region, &options().on_damage(OnDamage::Fill));
    if let (Ok(exact), Ok(filled)) = (&exact, &filled) {
        assert!(exact == filled && exact.damaged.is_empty());
    }
    if exact.is_err()
        && let Ok(filled) = &filled
    {
        assert!(!filled.damaged.is_empty());
    }
    let fast = options().resolution(Resolution::Fast);
    let quick = one.read_region(&region, &fast);
    same(&quick, &one.read_region(&region, &fast));
    let _ = other.read_region(&region, &fast.on_damage(OnDamage::Fill));

    let moved = Region { x_um: 0.0, y_um: 0.0, ..region };
    for reading in [options(), fast] {
        let alone = [one.read_region(&region, &reading), one.read_region(&moved, &reading)];
        match (one.read_regions(&[region, moved, region], &reading), alone) {
            (Ok(batch), [Ok(a), Ok(b)]) => {
                assert_eq!(batch.pixels, [&a.pixels[..], &b.pixels, &a.pixels].concat());
            }
            (Err(error), [a, b]) => assert!(a.is_err() || b.is_err(), "only together: {error}"),
            (Ok(_), [a, b]) => panic!("alone: {:?}, {:?}", a.err(), b.err()),
        }
    }

    let native = NativeRegion {
        x: place(info.width, x) as i64,
        y: place(info.height, y) as i64,
        width,
        height,
    };
    same(&one.read_native(&native, &options()), &other.read_native(&native, &options()));
    if info.mpp.x.is_normal() && info.mpp.y.is_normal() {
        let corner = NativeRegion { x: 0, y: 0, ..native };
        let corner = one.read_native(&corner, &options());
        same(&corner, &one.read_region(&Region { mpp: info.mpp, ..moved }, &options()));
    }
    let _ = one.read_region(
        &Region { mpp: Mpp::both(info.mpp.x / 1.1), ..region },
        &options().allow_upsample(1.2),
    );
    same(&one.read_thumbnail(SIDE, &options()), &other.read_thumbnail(SIDE, &options()));
    let _ = one.read_thumbnail(SIDE, &fast);
    let few = info.width.saturating_mul(info.height) <= 1 << 16;
    if few {
        let _ = TissueMask::compute(one, &TissueOptions::new(), &options());
    }

    let _ = one.scanner_metadata();
    let _ = one.icc_profile();
    for image in one.associated_images() {
        same(&one.read_associated(&image.name), &other.read_associated(&image.name));
        let _ = one.associated_icc(&image.name);
    }
    let _ = one.overview_levels();
    for y in 0..info.grid_height.min(TILES) {
        for x in 0..info.grid_width.min(TILES) {
            let payload = one.tile_payload(x, y);
            let original = one.original_tile(x, y);
            if payload.is_err() {
                assert!(original.is_err() || info.codec.name() == "jxl");
            }
        }
    }
    for row in one.tile_rows().into_iter().take(TILES as usize) {
        let _ = one.read_row_image(row);
    }
}

/// Two ways to the same pixels.
fn same(one: &Result<RegionImage, AdapterError>, other: &Result<RegionImage, AdapterError>) {
    match (one, other) {
        (Ok(one), Ok(other)) => assert!(one == other, "other pixels"),
        // Which of several damaged tiles is met first may differ.
        (Err(a), Err(b)) => assert!(!a.to_string().is_empty() && !b.to_string().is_empty()),
        (a, b) => panic!("{:?}, but {:?}", a.as_ref().err(), b.as_ref().err()),
    }
}

/// What validating has called sound can be read whole.
fn sound(reader: &WsiPackReader) {
    let info = reader.info();
    reader.scanner_metadata().unwrap();
    for image in reader.associated_images() {
        reader.read_associated(&image.name).unwrap();
    }
    if info.width <= 4096 && info.height <= 4096 {
        let width = u32::try_from(info.width).unwrap();
        let height = u32::try_from(info.height).unwrap();
        reader.read_native(&NativeRegion { x: 0, y: 0, width, height }, &options()).unwrap();
    }
}
