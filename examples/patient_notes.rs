//! Packs the notes of patients with labels, and reads a patient, one note, and what is in them.
//!
//! ```console
//! cargo run -p iac-examples --bin patient_notes -- PACK.iac
//! ```

use std::error::Error;

use iatrocache::adapters::text::{
    ClinicalDoc, ClinicalTextReader, ClinicalTextWriter, PatientText, TextFilter, TextWriteOptions,
};

fn main() -> Result<(), Box<dyn Error>> {
    let Some(path) = std::env::args_os().nth(1) else {
        return Err("usage: patient_notes PACK.iac".into());
    };

    // Patients are compressed one by one as they come; memory does not grow with their number.
    let mut writer = ClinicalTextWriter::create(&path, &TextWriteOptions::default())?;
    for number in 1..=3 {
        let mut patient = PatientText::new(format!("P{number:03}"));
        patient.institution = if number < 3 { "north" } else { "south" }.to_owned();
        for (day, text) in ["No residual tumour.", "Follow-up in six months."].iter().enumerate() {
            patient.docs.push(ClinicalDoc::new(format!("P{number:03}/{day}"), *text));
        }
        writer.push(&patient)?;
    }
    let made = writer.finish()?;
    println!("{} documents of {} patients packed", made.documents, made.patients);

    let reader = ClinicalTextReader::open(&path)?;
    let patient = reader.read("P002")?;
    println!("{} has {} documents", patient.patient_id, patient.docs.len());

    // One document: decompression stops at its end.
    let note = reader.read_doc(reader.row_of("P003")?, 1)?;
    println!("{}: {}", note.doc_id, note.text);

    // Rows by what the index knows; several patients are read on several threads.
    let rows = reader.select(&TextFilter::default().institution("north"))?;
    for patient in reader.read_many(&rows)? {
        println!("{} is from the north", patient.patient_id);
    }
    Ok(())
}
