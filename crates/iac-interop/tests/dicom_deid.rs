//! De-identified patient packs: the reference reads them, and pydicom reads what they export.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use std::path::Path;
use std::sync::Arc;

use iac_adapters::dicom::{
    DeidCheck, DeidKey, DeidProfile, Deidentifier, DicomInput, DicomPackBuilder, DicomPackReader,
    ExportOptions, ExportSyntax, SchemaChoice, Tag,
};
use iac_interop::reference;
use sha2::{Digest, Sha256};

fn sum(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn the_reference_reads_deidentified_packs_and_pydicom_their_exports() {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("../iac-adapters/tests/data/dicom");
    let folder = tempfile::tempdir().unwrap();
    let text = "name = \"t\"\noptions = [\"retain-modified-dates\"]";
    let profile = DeidProfile::parse(text, "p").unwrap();
    let key = DeidKey::new(b"0123456789abcdef".to_vec()).unwrap();
    let deidentifier = Arc::new(Deidentifier::new(profile, key));
    let mut packs = Vec::new();
    let mut names: Vec<_> =
        std::fs::read_dir(&cases).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    for case in names.iter().filter(|path| path.is_dir()) {
        let mut files: Vec<_> =
            std::fs::read_dir(case.join("in")).unwrap().map(|it| it.unwrap().path()).collect();
        files.sort();
        let target = folder.path().join(format!("{}.rad.iac", case.file_name().unwrap().display()));
        let builder = DicomPackBuilder::new()
            .effort(1)
            .schema(SchemaChoice::One)
            .deidentify(Arc::clone(&deidentifier));
        if builder.build_from(&target, files.into_iter().map(DicomInput::File)).is_ok() {
            packs.push(target);
        }
    }
    assert!(packs.len() > 50, "only {} packs were built", packs.len());
    let exports = tempfile::tempdir().unwrap();
    let lines: String = packs.iter().map(|path| format!("{}\n", path.display())).collect();
    let told = reference::run_json("read_dicom_packs.py", &[exports.path()], &lines);
    let mut files = Vec::new();
    for (path, told) in packs.iter().zip(&told) {
        let pack = DicomPackReader::open(path).unwrap();
        assert!(DeidCheck::run(&pack, None).unwrap().is_clean());
        for (row, seen) in (0_u64..).zip(told["rows"].as_array().unwrap()) {
            assert!(seen["error"].is_null(), "{}: {}", path.display(), seen["error"]);
            let samples = pack
                .has_pixels(row)
                .unwrap()
                .then(|| sum(&pack.read_pixels(row).unwrap().samples.to_le_bytes()));
            assert_eq!(seen["pixels"]["sha256"].as_str(), samples.as_deref());
            let export =
                exports.path().join(format!("{}-{row}.dcm", path.file_stem().unwrap().display()));
            let options = ExportOptions::default().with_syntax(ExportSyntax::ExplicitLittleEndian);
            pack.export_to(row, &export, &options).unwrap();
            let attributes = pack.attributes(row).unwrap();
            let text = |group, element| {
                attributes.text(Tag(group, element)).unwrap_or_default().to_owned()
            };
            files.push((export, samples, text(0x0010, 0x0020), text(0x0008, 0x0018)));
        }
    }
    let lines: String = files.iter().map(|(path, ..)| format!("{}\n", path.display())).collect();
    let seen = reference::run_json::<&str>("read_deidentified_files.py", &[], &lines);
    assert_eq!(seen.len(), files.len());
    let mut compared = 0;
    for ((path, samples, patient, sop), seen) in files.iter().zip(&seen) {
        let at = path.display();
        assert_eq!(seen["PatientIdentityRemoved"], "YES", "{at}");
        assert_eq!(seen["LongitudinalTemporalInformationModified"], "MODIFIED", "{at}");
        assert_eq!(seen["codes"], serde_json::json!(["113100", "113107"]), "{at}");
        assert_eq!(seen["PatientID"].as_str().unwrap_or_default(), patient, "{at}");
        assert_eq!(seen["SOPInstanceUID"].as_str().unwrap_or_default(), sop, "{at}");
        assert_eq!(seen["private"], 0, "{at}");
        // pydicom takes the low bits of samples for the stored ones, whatever HighBit says.
        let is_left = path.to_string_lossy().contains("high_bit_left_justified");
        if let Some(found) = seen["samples"].as_str().filter(|_| !is_left) {
            assert_eq!(Some(found), samples.as_deref(), "{at}");
            compared += 1;
        }
    }
    assert!(compared > 30, "the samples of only {compared} images were compared");
}
