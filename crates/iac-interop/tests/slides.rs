//! Whole slides: what we write, the reference reads with the same pixels, and its validator accepts.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation
)]

use std::path::Path;

use iac_adapters::wsi::{
    EncodedTile, Mpp, NativeRegion, RasterCodec, Region, TileColors, WsiAssociated, WsiHeader,
    WsiPackReader, WsiPackWriter, WsiReadOptions,
};
use iac_codec::{Codec, CodecSpec, ImageShape, ImageView, Registry};
use iac_interop::json::sha256;
use iac_interop::reference::run_json;
use iac_writer::WriteOptions;
use serde_json::{Map, Value, json};

const SIDE: u32 = 48;

fn encoder(name: &str, parameters: Value) -> Codec {
    let Value::Object(parameters) = parameters else { panic!() };
    Registry::global().create_encoder(&CodecSpec::new(name, parameters)).unwrap()
}

fn write(path: &Path, codec: RasterCodec, encoder: &Codec) {
    let header = WsiHeader {
        slide_id: "slide-1".into(),
        patient_id: "patient-\u{e9}".into(),
        specimen_id: "s".into(),
        width: 133,
        height: 97,
        mpp: Mpp { x: 0.25, y: 0.4 },
        mpp_provenance: "user_override".into(),
        tile_width: SIDE,
        tile_height: SIDE,
        background: [240, 241, 242],
        background_is_counted: true,
        codec,
        selection: Value::Null,
        original_orientation: 1,
        source_format: "png".into(),
        import_backend: "test".into(),
        associated_images_preserved: true,
        extra: Map::new(),
    };
    let options = WriteOptions::new().sync(false);
    let mut writer = WsiPackWriter::create(path, header, &options).unwrap();
    let shape = ImageShape::new(SIDE, SIDE, 3).unwrap();
    for (number, (x, y)) in [(0, 0), (2, 0), (1, 1), (2, 2)].into_iter().enumerate() {
        let pixels: Vec<u8> =
            (0..SIDE * SIDE * 3).map(|at| ((at * (number as u32 + 3)) / 7 % 251) as u8).collect();
        let payload = encoder.encode_image(&ImageView::new(shape, &pixels[..]).unwrap()).unwrap();
        writer.push_tile(&EncodedTile { x, y, payload: &payload }).unwrap();
    }
    writer.push_private("iac.test/private", b"passed over").unwrap();
    let shape = ImageShape::new(5, 9, 3).unwrap();
    let lossless = self::encoder("jxl", json!({"lossless": true, "effort": 3}));
    let payload =
        lossless.encode_image(&ImageView::new(shape, &[77_u8; 135][..]).unwrap()).unwrap();
    let label = WsiAssociated {
        name: "label".into(),
        width: 9,
        height: 5,
        payload,
        icc: None,
        source_mode: "RGB".into(),
        composited_on_white: false,
        source_info: Map::new(),
    };
    writer.finish(Map::new(), Some(b"no real profile"), vec![label]).unwrap();
}

#[test]
fn slides_of_ours_are_read_and_accepted_by_the_reference() {
    let folder = tempfile::tempdir().unwrap();
    let jpeg = RasterCodec::Jpeg { colors: TileColors::YCbCr, tables: None, associated_effort: 3 };
    let jpeg2000 =
        RasterCodec::Jpeg2000 { source_compression: "JPEG2000".into(), associated_effort: 3 };
    let cases = [
        (
            "jxl",
            RasterCodec::Jxl { lossless: true, distance: 0.0, effort: 3 },
            encoder("jxl", json!({"lossless": true, "effort": 3})),
        ),
        ("jpeg", jpeg, encoder("jpeg", json!({"quality": 90}))),
        ("jpeg2000", jpeg2000, encoder("jpeg2000", json!({"lossless": true}))),
    ];
    for (name, codec, encoder) in cases {
        let path = folder.path().join(format!("{name}.pat.iac"));
        write(&path, codec, &encoder);
        let native = [(0, 0, 133, 97), (-5, -7, 40, 30), (100, 60, 60, 50)];
        let regions = [
            (0.0, 0.0, 30, 20, [1.0, 1.6]),
            (3.3, -2.1, 25, 17, [0.81, 0.9]),
            (-8.0, -8.0, 4, 4, [20.0, 20.0]),
        ];
        let command = json!({"path": path, "native": native, "regions": regions});
        let theirs = run_json::<&str>("read_slides.py", &[], &format!("{command}\n"));
        let reader = WsiPackReader::open(&path).unwrap();
        let options = WsiReadOptions::new();
        let mut sums = Vec::new();
        for (x, y, width, height) in native {
            let region = NativeRegion { x, y, width, height };
            sums.push(sha256(&reader.read_native(&region, &options).unwrap().pixels));
        }
        for (x_um, y_um, width, height, [x, y]) in regions {
            let region = Region { x_um, y_um, width, height, mpp: Mpp { x, y } };
            sums.push(sha256(&reader.read_region(&region, &options).unwrap().pixels));
        }
        assert_eq!(theirs[0]["regions"], json!(sums), "{name}");
        assert_eq!(theirs[0]["images"], json!({"label": sha256(&[77; 135])}));
        assert_eq!(theirs[0]["valid"]["type"], "wsi_image");
        assert_eq!(theirs[0]["valid"]["crc_checked"], 8);
    }
}
