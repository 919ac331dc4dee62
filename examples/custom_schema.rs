//! A schema of one's own: electrocardiograms with facts in the header and columns to search by.
//!
//! A schema is a `payload_type`, members of the header and columns of the tables; the container does
//! not change, and every tool that knows no more than the container works on such packs.
//!
//! ```console
//! cargo run -p iac-examples --bin custom_schema -- PACK.iac
//! ```

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use iatrocache::arrow_array::cast::AsArray;
use iatrocache::arrow_array::types::Float32Type;
use iatrocache::arrow_array::{Array, ArrayRef, Float32Array, RecordBatch, StringArray};
use iatrocache::codec::CodecSpec;
use iatrocache::prelude::*;
use iatrocache::serde_json::{Map, json};

const PAYLOAD_TYPE: &str = "example_ecg";

/// A recording of one lead in microvolts.
struct Recording {
    patient_id: String,
    heart_rate: f32,
    samples: Vec<i16>,
}

fn write(path: &Path, recordings: &[Recording], hertz: u32) -> Result<(), Box<dyn Error>> {
    let patients: ArrayRef =
        Arc::new(StringArray::from_iter_values(recordings.iter().map(|one| &one.patient_id)));
    let rates: ArrayRef =
        Arc::new(Float32Array::from_iter_values(recordings.iter().map(|one| one.heart_rate)));
    let index = RecordBatch::try_from_iter([("patient_id", patients), ("heart_rate", rates)])?;

    // What holds for the whole pack. A version lets later readers tell old packs from new ones.
    let mut header = Map::new();
    header.insert("ecg_schema_version".into(), json!(1));
    header.insert("sampling_hz".into(), json!(hertz));

    let records: Vec<Vec<u8>> = recordings
        .iter()
        .map(|one| one.samples.iter().flat_map(|sample| sample.to_le_bytes()).collect())
        .collect();
    VariablePackBuilder::new(PAYLOAD_TYPE, Table::from(index))
        .header(header)
        .codec_spec(CodecSpec::new("zstd", Map::new()))
        .build(path, &records)?;
    Ok(())
}

/// A reader of that schema alone: others are refused with a reason.
struct EcgReader {
    pack: VariableRecordPack,
    rates: Float32Array,
}

impl EcgReader {
    fn open(path: &Path) -> Result<Self, Box<dyn Error>> {
        let pack = VariableRecordPack::open(path)?;
        let header = pack.reader().header();
        if header.payload_type() != Some(PAYLOAD_TYPE) {
            let found = header.payload_type().unwrap_or("nothing");
            return Err(format!("payload_type: {found} is not {PAYLOAD_TYPE}").into());
        }
        if header.get("ecg_schema_version") != Some(&json!(1)) {
            return Err("ecg_schema_version: only version 1 is known".into());
        }
        // Only this column is decoded.
        let batches = pack.reader().index_table()?.columns(&["heart_rate"])?;
        let mut rates: Vec<f32> = Vec::new();
        for batch in &batches {
            let column = batch.column(0).as_primitive_opt::<Float32Type>();
            let column = column.ok_or("heart_rate: the column is no float32")?;
            if column.null_count() > 0 {
                return Err("heart_rate: a value is missing".into());
            }
            rates.extend(column.values());
        }
        Ok(Self { pack, rates: Float32Array::from(rates) })
    }

    fn samples(&self, row: u64) -> Result<Vec<i16>, ReadError> {
        let record = self.pack.read(row)?;
        Ok(record.as_chunks::<2>().0.iter().map(|pair| i16::from_le_bytes(*pair)).collect())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let Some(path) = std::env::args_os().nth(1) else {
        return Err("usage: custom_schema PACK.iac".into());
    };
    let recordings: Vec<Recording> = (0..20_i16)
        .map(|number| Recording {
            patient_id: format!("P{number:03}"),
            heart_rate: 55.0 + f32::from(number) * 3.0,
            samples: (0..500).map(|at| (at * (number + 1)) % 997 - 498).collect(),
        })
        .collect();
    write(path.as_ref(), &recordings, 500)?;

    let reader = EcgReader::open(path.as_ref())?;
    let equal = reader.samples(3)? == recordings[3].samples;
    println!("recording 3 has {} samples, equal: {equal}", reader.samples(3)?.len());
    let fast = reader.rates.iter().flatten().filter(|rate| *rate > 100.0).count();
    println!("{fast} hearts are fast");

    // Conditions work on the columns of any schema; `iac ls PACK.iac --where ...` does the same.
    let predicate = Predicate::parse("heart_rate > 100 and patient_id != 'P019'")?;
    let columns = reader.pack.reader().index_table()?.columns(&["heart_rate", "patient_id"])?;
    println!("rows {:?}", predicate.select(&columns, &[])?);
    Ok(())
}
