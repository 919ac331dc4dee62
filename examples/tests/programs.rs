//! Runs every program of this folder as a user would, and looks at what it prints.

mod common;

use std::path::Path;

use common::{dicom_series, run, slide, tiles};
use tempfile::tempdir;

#[test]
fn a_folder_is_packed_and_read() {
    let folder = tempdir().unwrap();
    let files = folder.path().join("files");
    std::fs::create_dir_all(files.join("deep")).unwrap();
    std::fs::write(files.join("a.txt"), "no acute findings").unwrap();
    std::fs::write(files.join("deep/b.bin"), [7; 5000]).unwrap();
    let path = folder.path().join("files.iac");
    let said = run(env!("CARGO_BIN_EXE_pack_a_folder"), &[&files, &path]);
    assert!(said.contains("2 files of 5017 bytes packed"), "{said}");
    assert!(said.contains("the first has 17 bytes"), "{said}");
    assert!(said.contains("a batch of 3 records has 10017 bytes"), "{said}");
    assert!(said.contains("1 small text files"), "{said}");
}

#[test]
fn tiles_come_in_shuffled_batches() {
    let folder = tempdir().unwrap();
    let manifest = tiles(folder.path(), 40, 32);
    let path = folder.path().join("cohort.tiles.iac");
    let said = run(env!("CARGO_BIN_EXE_tiles_to_batches"), &[&manifest, &path]);
    assert!(said.contains("40 tiles of 2 slides packed"), "{said}");
    assert!(said.contains(&format!("a batch of 16 tiles: {} samples", 16 * 32 * 32 * 3)), "{said}");
    assert!(said.contains("30 tiles of the training split were read"), "{said}");
}

#[test]
fn features_of_two_models_are_joined() {
    let folder = tempdir().unwrap();
    let said = run(env!("CARGO_BIN_EXE_join_features"), &[folder.path()]);
    assert!(said.contains("24 numbers for a tile, 90 tiles have them all"), "{said}");
    assert!(said.contains("tile 42: 42 .. -42"), "{said}");
    assert!(said.contains("tile 10 has no vector in pack 1"), "{said}");
    assert!(!said.contains("tile 11 has no vector"), "{said}");
}

#[test]
fn notes_are_read_by_patient_and_by_document() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("notes.iac");
    let said = run(env!("CARGO_BIN_EXE_patient_notes"), &[&path]);
    assert!(said.contains("6 documents of 3 patients packed"), "{said}");
    assert!(said.contains("P003/1: Follow-up in six months."), "{said}");
    assert!(said.contains("P001 is from the north\nP002 is from the north"), "{said}");
    assert!(!said.contains("P003 is from the north"), "{said}");
}

#[test]
fn a_series_becomes_a_volume() {
    let folder = tempdir().unwrap();
    let study = dicom_series(folder.path(), 8, 16);
    let (path, nifti) = (folder.path().join("p.rad.iac"), folder.path().join("v.nii.gz"));
    let said = run(env!("CARGO_BIN_EXE_dicom_to_volume"), &[&study, &path, &nifti]);
    assert!(said.contains("8 objects packed, 0 gaps"), "{said}");
    assert!(said.contains("8 slices, Some(2.5) mm apart"), "{said}");
    assert!(said.contains("shape [8, 16, 16], lowest value -1024 HU"), "{said}");
    assert!(said.contains("the first voxel is at [-100.0, -100.0, 0.0] mm"), "{said}");
    assert_eq!(std::fs::read(nifti).unwrap()[..2], [0x1F, 0x8B]);
}

#[test]
fn a_slide_is_read_at_three_resolutions() {
    let folder = tempdir().unwrap();
    let source = slide(folder.path(), 600, 400);
    let path = folder.path().join("s.pat.iac");
    let said = run(env!("CARGO_BIN_EXE_slide_regions"), &[&source, &path]);
    assert!(said.contains("128 x 96 pixels as scanned"), "{said}");
    assert!(said.contains("100 x 100 pixels of 1 µm, 30000 bytes"), "{said}");
    assert!(said.contains("all of it in 64 x 43"), "{said}");
}

#[test]
fn a_codec_of_ones_own_writes_and_reads() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("signals.iac");
    let said = run(env!("CARGO_BIN_EXE_custom_codec"), &[&path]);
    assert!(said.contains("100000 bytes of signals"), "{said}");
    assert!(said.contains("codec example.delta16, equal: true"), "{said}");
}

#[test]
fn a_schema_of_ones_own_is_searched() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("ecg.iac");
    let said = run(env!("CARGO_BIN_EXE_custom_schema"), &[&path]);
    assert!(said.contains("recording 3 has 500 samples, equal: true"), "{said}");
    assert!(said.contains("4 hearts are fast"), "{said}");
    assert!(said.contains("rows [16, 17, 18]"), "{said}");
}

#[test]
fn an_object_is_read_by_its_url() {
    let folder = tempdir().unwrap();
    let files = folder.path().join("files");
    std::fs::create_dir(&files).unwrap();
    for number in 0..5 {
        std::fs::write(files.join(format!("{number}.txt")), vec![number; 100]).unwrap();
    }
    let path = folder.path().join("cohort.iac");
    run(env!("CARGO_BIN_EXE_pack_a_folder"), &[&files, &path]);
    let url = format!("file://{}", path.display());
    let cache = folder.path().join("cache");
    let said = run(env!("CARGO_BIN_EXE_object_storage"), &[Path::new(&url), &cache]);
    assert!(said.contains("5 records"), "{said}");
    assert!(said.contains("a batch of 3 records"), "{said}");
    assert!(said.contains("1000 bytes read ahead"), "{said}");
}

#[test]
fn a_mask_is_corrected_and_its_first_version_stays() {
    let folder = tempdir().unwrap();
    let said = run(env!("CARGO_BIN_EXE_arrays_with_layers"), &[&folder.path().join("store")]);
    assert!(said.contains("a part of the volume: [78, 79, 80, 81, 82, 83]"), "{said}");
    assert!(said.contains("sound: true"), "{said}");
    let line = said.lines().find(|line| line.contains("voxels are labelled")).unwrap();
    let counts: Vec<u32> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
    assert!(counts[0] > 0 && counts[0] < counts[1], "{line}");
}
