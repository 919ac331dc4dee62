//! Tile manifests: any bytes are refused with a place that lies in them, or are records that come
//! back from the manifest that they are written as.
//!
//! An input is the text of a manifest.
#![no_main]

use std::path::Path;

use iac_adapters::manifest::{ManifestReader, ManifestWriter};
use iac_adapters::{AdapterError, RecordTable, TileRecord};
use iac_fuzz::{Limited, seeds};
use libfuzzer_sys::fuzz_target;

#[global_allocator]
static ALLOCATOR: Limited = Limited;

fuzz_target!(
    init: seeds::write(make_seeds),
    |input: &[u8]| {
        let records = match read(input) {
            Ok(records) => records,
            Err(error) => return judge(&error, input),
        };
        let mut table = RecordTable::new();
        for record in &records {
            table.push(record).unwrap();
        }
        assert_eq!(table.len(), records.len());
        assert!(table.slides().len() <= records.len());

        let mut writer = ManifestWriter::new(Vec::new()).unwrap();
        for record in &records {
            writer.write(record).unwrap();
        }
        let again = read(&writer.finish().unwrap()).unwrap();
        // A split that a short row lacks is written as an empty one.
        let whole = records.into_iter().map(|mut record| {
            record.split.get_or_insert_default();
            record
        });
        assert_eq!(again, whole.collect::<Vec<_>>());
    }
);

fn read(input: &[u8]) -> Result<Vec<TileRecord>, AdapterError> {
    let mut reader = ManifestReader::from_source(input, "tiles.csv")?;
    let records: Result<Vec<TileRecord>, AdapterError> = reader.by_ref().collect();
    // Nothing comes behind the end or an error.
    assert!(reader.next().is_none());
    assert_eq!(reader.path(), Path::new("tiles.csv"));
    records
}

fn judge(error: &AdapterError, input: &[u8]) {
    assert!(!error.to_string().is_empty());
    let _ = error.kind();
    match error {
        AdapterError::MissingColumns { columns, .. } => assert!(!columns.is_empty()),
        AdapterError::Manifest { line, column, .. } => {
            let ends = input.iter().filter(|byte| matches!(byte, b'\n' | b'\r')).count() as u64;
            assert!(*line >= 1 && *line <= ends + 1, "line {line} of {}", ends + 1);
            assert!(*column >= 1 && *column <= input.len() as u64 + 1, "column {column}");
        }
        other => panic!("{other} where only text was read"),
    }
}

fn make_seeds() -> Vec<(String, Vec<u8>)> {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/iac-adapters/tests/data");
    let mut made = Vec::new();
    for kind in ["tiles", "features", "manifest"] {
        let Ok(folders) = std::fs::read_dir(format!("{root}/{kind}")) else { continue };
        for entry in folders {
            let path = entry.unwrap().path();
            for file in [path.join("manifest.csv"), path.join("records.csv"), path.clone()] {
                if file.extension().is_none_or(|extension| extension != "csv") {
                    continue;
                }
                if let Some(text) = std::fs::read(&file).ok().filter(|text| text.len() < 4096) {
                    let folder = path.file_stem().unwrap().to_string_lossy();
                    made.push((format!("{kind}.{folder}"), text));
                }
            }
        }
    }
    let head = "tile_id,patient_id,slide_id,tile_path,x,y,split";
    let texts = [
        format!("\u{feff}{head}\na,p,s,a.png,0,1_0,train\n"),
        format!(
            "{head}\r\n\"a,\"\"b\"\"\",p,s,\"x\ny.png\",-3, +4 \r\n\r\nb,p,s,./b//c.png,٣,9223372036854775807,\r\n"
        ),
        format!("split,y,x,{head},more\rval,1,2,a,p,s,..,3,4,test,rest\r"),
        format!("{head}\na,p,s,a.png,9223372036854775808,0,\n"),
        format!("{head}\na,p,s\n"),
        "tile_id,x,y\na,1,2\n".to_owned(),
    ];
    made.extend(
        (0..).zip(texts).map(|(at, text): (u8, _)| (format!("{at:02}"), text.into_bytes())),
    );
    made
}
