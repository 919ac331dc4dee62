//! Packs the DICOM objects of one patient, and reads a series as a volume in Hounsfield units.
//!
//! ```console
//! cargo run -p iac-examples --bin dicom_to_volume -- STUDY/ PATIENT.rad.iac VOLUME.nii.gz
//! ```

use std::error::Error;
use std::path::PathBuf;

use iatrocache::adapters::dicom::volume::{SaveOptions, VolumeOptions};
use iatrocache::adapters::dicom::{DicomInputs, DicomPackBuilder, DicomPackReader};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [study, path, nifti] = arguments.as_slice() else {
        return Err("usage: dicom_to_volume STUDY/ PATIENT.rad.iac VOLUME.nii.gz".into());
    };

    // Folders, files, zip archives and DICOMDIR; images are stored without loss. With `verify`, what
    // was written is read back and compared before the pack appears.
    let inputs = DicomInputs::find(std::slice::from_ref(study))?;
    let report = DicomPackBuilder::new().effort(3).verify(true).build(path, inputs)?;
    println!("{} objects packed, {} gaps between slices", report.instances, report.gaps.len());

    let pack = DicomPackReader::open(path)?;
    for series in pack.series() {
        // What can be told from the headers: no sample is read.
        let found = pack.volume_stacks(series)?;
        let Some(stack) = found.stacks.first() else {
            continue;
        };
        for problem in &stack.problems {
            println!("problem: {problem}");
        }
        if !stack.is_regular() {
            continue;
        }
        println!("{} slices, {:?} mm apart", stack.slices.len(), stack.spacing);

        // [slice, row, column] as f32, rescaled by each slice's own slope and intercept.
        let volume = pack.read_volume(stack, &VolumeOptions::default())?;
        let Some(voxels) = volume.voxels.as_f32() else {
            continue;
        };
        let lowest = voxels.iter().copied().fold(f32::INFINITY, f32::min);
        println!("shape {:?}, lowest value {lowest} {}", voxels.shape(), volume.units);
        // Column, row and slice to the patient's coordinates in millimetres.
        println!("the first voxel is at {:?} mm", volume.affine.apply([0.0, 0.0, 0.0]));
        volume.save_nifti(nifti, &SaveOptions::default())?;
        return Ok(());
    }
    Err("no series of these objects is a volume".into())
}
