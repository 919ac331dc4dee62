//! Packs of frames that were altered.

use iac_adapters::dicom::{
    DataSet, DicomPackReader, Element, ExportOptions, ExportSyntax, PixelSamples, Tag, VR,
};
use iac_reader::PackReader;

use crate::made::{CT, Form, Made, build, groups, input, object, plain, samples, with};

/// A pack with several objects, groups, large values and bits aside.
fn rich() -> Made {
    let large = Element::new(Tag(0x0028, 0x2000), VR::OB, vec![3; 3000]);
    let reversed: Vec<u8> = samples(CT, 3).into_iter().rev().collect();
    let inputs = vec![
        input(with(object(1, CT, Some("3"), reversed), groups(3))),
        input(with(object(2, CT, Some("2"), samples(CT, 2)), vec![large])),
        input(object(
            3,
            Form { allocated: 1, stored: 1, signed: false, ..CT },
            Some("2"),
            vec![5; 20],
        )),
    ];
    build(&plain(), inputs)
}

/// What a row of a pack says: the data set of its frame, its samples, the file of its object.
type Said = (DataSet, PixelSamples, Vec<u8>);

/// Everything that a pack says.
fn everything(pack: &DicomPackReader) -> iac_adapters::Result<Vec<Said>> {
    let mut all = Vec::new();
    for row in 0..pack.row_count().min(50) {
        let options = ExportOptions::default().with_syntax(ExportSyntax::ExplicitLittleEndian);
        let file = pack.export(row, &options)?;
        all.push((pack.frame_data_set(row)?, pack.read_pixels(row)?.samples, file));
    }
    Ok(all)
}

#[test]
fn altered_packs_give_errors_and_never_other_frames() {
    let made = rich();
    let wanted = everything(&made.pack).unwrap();
    let whole = std::fs::read(made.folder.path().join("a.rad.iac")).unwrap();
    let data = made.pack.reader().layout().data.offset as usize;
    let open = |bytes: Vec<u8>| {
        let pack = PackReader::from_bytes(bytes).map_err(iac_adapters::AdapterError::from)?;
        DicomPackReader::from_reader(pack, true)
    };
    // Each byte of the data segment is under some checksum.
    for position in (data..whole.len()).step_by(3) {
        let mut altered = whole.clone();
        altered[position] ^= 0x55;
        let Ok(pack) = open(altered) else { continue };
        if let Ok(found) = everything(&pack) {
            assert!(found == wanted, "byte {position} was altered unseen");
        }
    }
    // Whatever the tables say, nothing ends the process.
    for position in (65_536..data).step_by(13) {
        for value in [0, 0xFF] {
            let mut altered = whole.clone();
            altered[position] = value;
            let Ok(pack) = open(altered) else { continue };
            let _ = everything(&pack);
            for schema in iac_adapters::validate::Schemas::all() {
                if schema.handles("dicom_patient") {
                    let _ = schema.check(pack.reader(), 10);
                }
            }
        }
    }
    for cut in (0..whole.len()).step_by(97) {
        if let Ok(pack) = open(whole[..cut].to_vec()) {
            assert!(everything(&pack).is_err());
        }
    }
}

#[test]
fn headers_that_lie_are_found_by_validation() {
    let made = rich();
    let whole = std::fs::read(made.folder.path().join("a.rad.iac")).unwrap();
    let text = made.pack.reader().header().text().to_owned();
    let faults = |from: &str, to: &str| -> Vec<String> {
        assert!(text.contains(from), "{text}");
        let altered = text.replace(from, to).replace("\"iac.checksums\"", "\"iac.x\"");
        let altered = altered.replace("\"checksums\"", "\"nothing\"");
        let mut bytes = whole.clone();
        bytes[8..12].copy_from_slice(&u32::try_from(altered.len()).unwrap().to_le_bytes());
        bytes[16..16 + altered.len()].copy_from_slice(altered.as_bytes());
        let pack = PackReader::from_bytes(bytes).unwrap();
        let schemas = iac_adapters::validate::Schemas::all();
        let schema = schemas.iter().find(|schema| schema.handles("dicom_patient")).unwrap();
        let report = schema.check(&pack, 10).unwrap();
        report.faults.iter().map(|fault| fault.message.clone()).collect()
    };
    assert_eq!(faults("\"num_instances\": 3", "\"num_instances\": 3"), [""; 0]);
    let told = faults("\"num_instances\": 3", "\"num_instances\": 9");
    assert_eq!(told, ["is 9, but the table has 3 instances"]);
    let told = faults("\"dicom_schema_version\": 2", "\"dicom_schema_version\": 3");
    assert!(told[0].contains("version 3"), "{told:?}");
    let told = faults("\"num_instances\": 3", "\"num_instances\": \"3\"");
    assert!(told[0].contains("no number of instances"), "{told:?}");
    let told = faults("\"crc32\": ", "\"crc32\": 1");
    assert!(told.iter().any(|it| it.contains("large values")), "{told:?}");
}
