//! Volumes of DICOM files: any file is refused, or gives stacks that hold each of its frames once,
//! and volumes, labels and files of them.
#![no_main]

use std::num::NonZeroUsize;

use bytes::Bytes;
use iac_adapters::dicom::DicomFile;
use iac_adapters::dicom::volume::{
    OnDuplicate, PlaneOptions, StructureSet, VolumeFile, VolumeOptions, VolumeValues,
};
use iac_fuzz::{Limited, seeds};
use libfuzzer_sys::fuzz_target;

#[global_allocator]
static ALLOCATOR: Limited = Limited;

/// Bytes of voxels that are worth the time.
const MOST: u64 = 1 << 20;

fuzz_target!(
    init: seeds::write(make_seeds),
    |input: &[u8]| {
        let Ok(file) = DicomFile::parse(&Bytes::copy_from_slice(input), "input") else { return };
        let options = VolumeOptions::default().with_max_bytes(MOST).with_workers(NonZeroUsize::new(1));
        let structures = StructureSet::of(&file.data, "input");
        let Ok(file) = VolumeFile::new(file, "input") else { return };
        // More frames take longer than they are worth.
        if file.frames() > 256 {
            return;
        }
        let loose = options.with_uneven(true).with_duplicates(OnDuplicate::First);
        for report in [file.volume_stacks(), file.stacks_in_order()] {
            let slices: usize = report.stacks.iter().map(|stack| stack.slices.len()).sum();
            assert_eq!(slices + report.unplaced.len(), file.frames() as usize);
            for stack in &report.stacks {
                let strict = file.read_volume(stack, &options);
                assert!(strict.is_err() || stack.is_regular());
                let _ = file.read_volume(stack, &loose.with_values(VolumeValues::Stored));
                if let Ok(set) = &structures {
                    let all: Vec<usize> = (0..set.regions.len().min(8)).collect();
                    let _ = set.labels(&all, stack, &loose);
                }
                if let Ok(segmentation) = file.segmentation() {
                    let _ = segmentation.labels_on(stack, &loose);
                }
                if let Ok(volume) = file.read_volume(stack, &loose) {
                    let _ = volume.nifti_header();
                    let _ = volume.planes(None, &PlaneOptions::default().with_side(16));
                }
            }
        }
        if let Ok(segmentation) = file.segmentation() {
            let _ = segmentation.labels(&options);
        }
    }
);

fn make_seeds() -> Vec<(String, Vec<u8>)> {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/iac-adapters/tests/data/dicom");
    let mut made = Vec::new();
    for entry in std::fs::read_dir(root).unwrap() {
        let folder = entry.unwrap().path();
        let Ok(bytes) = std::fs::read(folder.join("in/00.dcm")) else { continue };
        if bytes.len() <= 4096 {
            let name = folder.file_name().unwrap().to_string_lossy().into_owned();
            made.push((name, bytes));
        }
    }
    made
}
