//! The blocks of Rust in the book, as they stand there.
//!
//! A test compares the text: a block that is changed in the book has to be changed here, and then is
//! compiled and run.
#![allow(
    unused_variables,
    dead_code,
    unused_assignments,
    reason = "what the book shows need not be used here"
)]

use std::error::Error;
use std::path::Path;

type Result = std::result::Result<(), Box<dyn Error>>;

pub fn arrays(_: &Path) -> Result {
    use iatrocache::arrays::blocking::ArrayStore;
    use iatrocache::arrays::{ArraySpec, DType, Location, Packing, StoreOptions};
    use ndarray::array;

    let options = StoreOptions::default().packing(Packing::lz4());
    let mut store = ArrayStore::create(Location::memory(), options)?;
    store.define("signal", ArraySpec::new(DType::Float32, &[4]))?;
    store.write("signal", &[0], array![1.0_f32, 2.0, 3.0, 4.0])?;
    store.flush()?;
    let signal = store.read_all("signal")?.to_ndarray::<f32>()?;

    assert_eq!(signal.as_slice(), Some(&[1.0, 2.0, 3.0, 4.0][..]));

    let jxl = iatrocache::codec::jxl::JxlOptions::lossless().with_effort(2).codec()?;
    let options = StoreOptions::default().packing(Packing::zstd(3)?.with_images(jxl)?);

    use iatrocache::arrays::ArrayData;

    let spec = ArraySpec::new(DType::Float32, &[4]).nullable();
    store.define("dose", spec)?;
    let dose =
        ArrayData::from(array![1.5_f32, 0.0, 2.5]).with_validity(&array![true, false, true])?;
    store.write("dose", &[0], dose)?;
    let (values, known) = store.read_all("dose")?.to_masked::<f32>()?;

    assert_eq!(values.as_slice(), Some(&[1.5, 0.0, 2.5, 0.0][..]));
    assert_eq!(known.as_slice(), Some(&[true, false, true, false][..]));

    Ok(())
}

pub fn dicom(folder: &Path) -> Result {
    crate::common::dicom_series(folder, 12, 16);

    use iatrocache::adapters::dicom::{
        DicomInputs, DicomPackBuilder, DicomPackReader, ExportOptions, ExportSyntax, Tag,
    };

    let inputs = DicomInputs::find(&["study".into()])?;
    let report = DicomPackBuilder::new().effort(3).verify(true).build("patient.rad.iac", inputs)?;
    println!("{} instances, {} gaps between slices", report.instances, report.gaps.len());

    let pack = DicomPackReader::open("patient.rad.iac")?;
    let slice = pack.read_pixels(0)?;
    let batch = pack.read_pixel_batch(&[5, 1, 9])?;
    let (shape, values) = pack.read_values(0)?;
    let thickness = pack.attributes(0)?.number(Tag(0x0018, 0x0050));
    let options = ExportOptions::default().with_syntax(ExportSyntax::ExplicitLittleEndian);
    pack.export_to(0, "slice.dcm", &options)?;

    Ok(())
}

/// Compiled only: it takes an object of many frames.
fn dicom_frames(pack: &iatrocache::adapters::dicom::DicomPackReader) -> Result {
    let frames = pack.frame_count(0)?;
    let frame = pack.read_frame(0, frames / 2)?;
    let some = pack.read_frames(&[(0, 3), (0, 4), (2, 0)])?;
    let mut volume = vec![0_i16; 300 * pack.shape(0)?.samples()];
    let rows: Vec<u64> = (0..300).collect();
    pack.read_rows_into(&rows, &mut volume[..])?;
    let facts = pack.frame_facts(0, 7)?;
    let groups = pack.frame_groups(0, 7)?;
    let single = pack.frame_data_set(pack.frame_row(0, 7)?)?;

    Ok(())
}

/// Compiled only: it takes an object store.
fn object_storage(shuffled_rows: &[u64], train: impl Fn(iatrocache::ImageBatch)) -> Result {
    {
        use iatrocache::reader::object::ObjectOptions;
        use iatrocache::{PackReader, ReadOptions};

        let pack = PackReader::open("s3://cohort/slide.tiles.iac")?;
        let options = ObjectOptions::default().join_gap(1 << 20);
        let pack =
            PackReader::open_url("s3://cohort/slide.tiles.iac", &ReadOptions::default(), &options)?;
        let batch = pack.read_rows(&[12, 7, 12])?;
    }
    {
        use iatrocache::reader::object::{BlockCache, ObjectLocation, ObjectOptions, StoreOptions};
        use iatrocache::{PackReader, ReadOptions};
        use std::sync::Arc;

        let place = ObjectLocation::parse("s3://cohort/slide.tiles.iac", &StoreOptions::default())?;
        let cache = Arc::new(BlockCache::new(256 << 20).with_disk("/var/cache/iac", 20 << 30)?);
        let pack = PackReader::open_cached(
            &place,
            &ReadOptions::default(),
            &ObjectOptions::default(),
            &cache,
        )?;
    }
    {
        use iatrocache::reader::ReadAheadOptions;

        let pack = iatrocache::VariableRecordPack::open("s3://cohort/slide.tiles.iac")?;
        let plan = shuffled_rows.chunks(64).map(<[u64]>::to_vec).collect::<Vec<_>>();
        for batch in pack.read_images_ahead(plan, ReadAheadOptions::default()) {
            train(batch?);
        }
    }
    Ok(())
}

pub fn text(_: &Path) -> Result {
    use iatrocache::adapters::text::{
        ClinicalDoc, ClinicalTextReader, ClinicalTextWriter, PatientText, TextWriteOptions,
    };

    let mut writer = ClinicalTextWriter::create("notes.iac", &TextWriteOptions::default())?;
    for number in 0..10 {
        let mut patient = PatientText::new(format!("P{number:03}"));
        patient.docs.push(ClinicalDoc::new(format!("P{number:03}/1"), "No residual tumour."));
        writer.push(&patient)?;
    }
    writer.finish()?;

    let reader = ClinicalTextReader::open("notes.iac")?;
    let patient = reader.read("P001")?;
    let many = reader.read_many(&[5, 1, 9])?;
    let what = reader.read_manifest_at(0)?;
    let note = reader.read_doc(0, 0)?;

    assert_eq!(many[2].patient_id, "P009");
    Ok(())
}

pub fn tiles(folder: &Path) -> Result {
    use iatrocache::adapters::RecordTable;
    use iatrocache::adapters::features::FeaturePackBuilder;
    use iatrocache::adapters::manifest::ManifestReader;

    let manifest = crate::common::tiles(folder, 12, 32);
    let mut table = RecordTable::new();
    for record in ManifestReader::open(manifest)? {
        table.push(&record?)?;
    }
    let vectors: Vec<[f32; 4]> = (0..12_u8).map(|number| [f32::from(number); 4]).collect();
    FeaturePackBuilder::new("made-up").tile_size(32, 32).build(
        "cohort.features.iac",
        table,
        &vectors,
    )?;

    use iatrocache::adapters::features::{FeatureJoin, FeaturePackReader};
    use iatrocache::adapters::tiles::{TilePackBuilder, TilePackReader};
    use iatrocache::ops::NoProgress;

    TilePackBuilder::new().distance(0.5).journal(true).build_from_manifest(
        "tiles.csv",
        "cohort.tiles.iac",
        &NoProgress,
    )?;

    let tiles = TilePackReader::open("cohort.tiles.iac")?;
    let tile = tiles.read_rgb_by_id("t0")?;
    let batch = tiles.read_rgb_batch(&[5, 1, 9])?;
    let features = FeaturePackReader::open("cohort.features.iac")?;
    let vectors = features.read_many_f32(&[5, 1, 9])?;

    let join = FeatureJoin::with_tiles(&tiles, [&features])?;
    let (vectors, missing) = join.read_f32_or(&[5, 1, 9], 0.0)?;

    assert_eq!((vectors.len(), missing.len()), (12, 0));
    Ok(())
}

pub fn volumes(folder: &Path) -> Result {
    dicom(folder)?;

    use iatrocache::adapters::dicom::DicomPackReader;
    use iatrocache::adapters::dicom::volume::{SaveOptions, VolumeOptions};

    let pack = DicomPackReader::open("patient.rad.iac")?;
    let found = pack.volume_stacks(&pack.series()[0])?;
    for stack in &found.stacks {
        println!("{} slices, {:?} mm apart", stack.slices.len(), stack.spacing);
        for problem in &stack.problems {
            println!("  {problem}");
        }
    }
    let volume = pack.read_volume(&found.stacks[0], &VolumeOptions::default())?;
    let voxels = volume.voxels.as_f32();
    let millimetres = volume.affine.apply([10.0, 20.0, 3.0]);
    volume.save_nifti("chest.nii.gz", &SaveOptions::default())?;

    assert!(voxels.is_some() && Path::new("chest.nii.gz").exists());
    Ok(())
}

pub fn wsi(folder: &Path) -> Result {
    use iatrocache::adapters::wsi::{WsiImporter, WsiProfile};
    use iatrocache::ops::NoProgress;

    let source = crate::common::slide(folder, 1600, 2600);
    WsiImporter::new("S1")
        .profile(WsiProfile::Lossless)
        .effort(1)
        .native_mpp(Mpp::both(1.0))
        .import(&source, "case-7.pat.iac", &NoProgress)?;

    use iatrocache::adapters::wsi::{Mpp, Region, WsiPackReader, WsiReadOptions};

    let slide = WsiPackReader::open("case-7.pat.iac")?;
    let region =
        Region { x_um: 1000.0, y_um: 2000.0, width: 512, height: 512, mpp: Mpp::both(1.0) };
    let image = slide.read_region(&region, &WsiReadOptions::default())?;

    Ok(())
}

pub fn deidentification(folder: &Path) -> Result {
    crate::common::dicom_series(folder, 3, 16);
    std::fs::write("trial.toml", "name = \"trial 7\"\n")?;
    std::fs::write("key.bin", [7; 32])?;

    use iatrocache::adapters::dicom::{
        DeidCheck, DeidKey, DeidProfile, Deidentifier, DicomInputs, DicomPackBuilder,
        DicomPackReader,
    };
    use std::sync::Arc;

    let deidentifier = Arc::new(Deidentifier::new(
        DeidProfile::from_file("trial.toml")?,
        DeidKey::from_file("key.bin")?,
    ));
    let inputs = DicomInputs::find(&["study".into()])?;
    let report =
        DicomPackBuilder::new().deidentify(deidentifier).build("patient.rad.iac", inputs)?;
    let check = DeidCheck::run(&DicomPackReader::open("patient.rad.iac")?, None)?;
    assert!(check.is_clean());

    Ok(())
}

pub fn tutorial(folder: &Path) -> Result {
    use iatrocache::adapters::dicom::{DicomInputs, DicomPackBuilder};
    use iatrocache::adapters::tiles::TilePackBuilder;
    use iatrocache::ops::NoProgress;

    let manifest = crate::common::tiles(folder, 5, 256);
    TilePackBuilder::new().effort(1).build_from_manifest(
        manifest,
        "case.tiles.iac",
        &NoProgress,
    )?;
    crate::common::dicom_series(folder, 24, 128);
    DicomPackBuilder::new()
        .effort(1)
        .build("patient.rad.iac", DicomInputs::find(&["study".into()])?)?;

    use iatrocache::adapters::dicom::DicomPackReader;
    use iatrocache::adapters::dicom::volume::VolumeOptions;
    use iatrocache::adapters::tiles::TilePackReader;

    let tiles = TilePackReader::open("case.tiles.iac")?;
    let batch = tiles.read_rgb_batch(&[4, 0, 2])?;
    assert_eq!(batch.len(), 3 * 256 * 256 * 3);

    let patient = DicomPackReader::open("patient.rad.iac")?;
    let stacks = patient.volume_stacks(&patient.series()[0])?.stacks;
    let volume = patient.read_volume(&stacks[0], &VolumeOptions::default())?;
    assert_eq!(volume.voxels.shape(), [24, 128, 128]);

    Ok(())
}

pub mod readme {
    use std::sync::Arc;

    use iatrocache::arrow_array::{ArrayRef, RecordBatch, StringArray};
    use iatrocache::prelude::*;
    use iatrocache::serde_json::Map;

    pub fn main() -> Result<(), Box<dyn std::error::Error>> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("notes.iac");
        let patients: ArrayRef = Arc::new(StringArray::from(vec!["P001", "P002"]));
        let index = Table::from(RecordBatch::try_from_iter([("patient_id", patients)])?);
        let notes = ["no acute findings", "follow-up in six months"];
        build_pack(&path, &Map::new(), &Table::empty(), &index, &notes, &WriteOptions::new())?;

        let pack = PackReader::open(&path)?;
        let batch = pack.read_rows(&[1, 0, 1])?; // owned, compared with their checksums
        let view = pack.view(0)?; // a slice of the mapped file
        assert_eq!(batch[1], view);
        println!("{} records, the first says: {}", batch.len(), String::from_utf8_lossy(&batch[0]));
        Ok(())
    }
}
