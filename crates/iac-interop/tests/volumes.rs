//! Volumes beside those of `dcm2niix`, an independent converter: series that are made here go
//! through both, both results are turned to right, front and head, and then affines and voxels must
//! be equal. Files of ours are read with the crate `nifti`, which did not write them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    clippy::print_stdout
)]

use std::path::{Path, PathBuf};
use std::process::Command;

use iac_adapters::dicom::volume::{
    SaveOptions, VolumeFile, VolumeOptions, VolumeStack, VolumeValues,
};
use iac_adapters::dicom::{
    DataSet, DicomFile, DicomInputs, DicomPackBuilder, DicomPackReader, Element, Tag, VR,
};
use nifti::{IntoNdArray, NiftiObject, ReaderOptions};

/// What a series is like.
#[derive(Clone)]
struct Series {
    modality: &'static str,
    /// Rows and columns.
    size: [u16; 2],
    /// Between rows, and between columns.
    spacing: [f64; 2],
    orientation: [f64; 6],
    /// First voxel of each slice.
    positions: Vec<[f64; 3]>,
    signed: bool,
    stored_bits: u16,
    /// Slope and intercept.
    rescale: Option<[f64; 2]>,
    more: Vec<Element>,
}

fn text(tag: Tag, vr: VR, value: &str) -> Element {
    let mut bytes = value.as_bytes().to_vec();
    if bytes.len() % 2 == 1 {
        bytes.push(if vr == VR::UI { 0 } else { b' ' });
    }
    Element::new(tag, vr, bytes)
}

fn number(tag: Tag, value: u16) -> Element {
    Element::new(tag, VR::US, value.to_le_bytes().to_vec())
}

fn decimals(tag: Tag, numbers: &[f64]) -> Element {
    // As scanners do: six digits behind the point.
    let shown: Vec<String> = numbers.iter().map(|number| format!("{number:.6}")).collect();
    text(tag, VR::DS, &shown.join("\\"))
}

impl Series {
    fn ct(positions: Vec<[f64; 3]>, orientation: [f64; 6]) -> Self {
        Self {
            modality: "CT",
            size: [20, 24],
            spacing: [0.7, 0.9],
            orientation,
            positions,
            signed: true,
            stored_bits: 16,
            rescale: Some([1.0, -1024.0]),
            more: Vec::new(),
        }
    }

    /// No two voxels of a row, a column or a slice are equal.
    fn samples(&self, slice: usize) -> Vec<u8> {
        let [rows, columns] = self.size.map(usize::from);
        let low = if self.signed { -700_i32 } else { 0 };
        let mut bytes = Vec::new();
        for row in 0..rows {
            for column in 0..columns {
                let sample = low + (slice * 131 + row * 37 + column * 5) as i32 % 2700;
                bytes.extend_from_slice(&(sample as u16).to_le_bytes());
            }
        }
        bytes
    }

    fn write(&self, folder: &Path) {
        std::fs::create_dir_all(folder).unwrap();
        let class = match self.modality {
            "CT" => "1.2.840.10008.5.1.4.1.1.2",
            _ => "1.2.840.10008.5.1.4.1.1.4",
        };
        // Files and numbers are in another order than slices.
        let count = self.positions.len();
        for (slice, position) in self.positions.iter().enumerate() {
            let instance = (slice * 11 + 3) % count + 1;
            let mut elements = vec![
                text(Tag(0x0008, 0x0008), VR::CS, "ORIGINAL\\PRIMARY\\AXIAL"),
                text(Tag(0x0008, 0x0016), VR::UI, class),
                text(Tag(0x0008, 0x0018), VR::UI, &format!("2.25.77{instance:03}")),
                text(Tag(0x0008, 0x0020), VR::DA, "20240102"),
                text(Tag(0x0008, 0x0030), VR::TM, "101112"),
                text(Tag(0x0008, 0x0031), VR::TM, "101113"),
                text(Tag(0x0008, 0x0032), VR::TM, "101114"),
                text(Tag(0x0008, 0x0060), VR::CS, self.modality),
                text(Tag(0x0008, 0x0070), VR::LO, "Nobody"),
                text(Tag(0x0008, 0x103E), VR::LO, "made up"),
                text(Tag(0x0010, 0x0020), VR::LO, "P1"),
                decimals(Tag(0x0018, 0x0050), &[9.0]),
                text(Tag(0x0020, 0x000D), VR::UI, "2.25.7701"),
                text(Tag(0x0020, 0x000E), VR::UI, "2.25.7702"),
                text(Tag(0x0020, 0x0011), VR::IS, "3"),
                text(Tag(0x0020, 0x0012), VR::IS, "1"),
                text(Tag(0x0020, 0x0013), VR::IS, &instance.to_string()),
                decimals(Tag(0x0020, 0x0032), position),
                decimals(Tag(0x0020, 0x0037), &self.orientation),
                text(Tag(0x0020, 0x0052), VR::UI, "2.25.7703"),
                number(Tag(0x0028, 0x0002), 1),
                text(Tag(0x0028, 0x0004), VR::CS, "MONOCHROME2"),
                number(Tag(0x0028, 0x0010), self.size[0]),
                number(Tag(0x0028, 0x0011), self.size[1]),
                decimals(Tag(0x0028, 0x0030), &self.spacing),
                number(Tag(0x0028, 0x0100), 16),
                number(Tag(0x0028, 0x0101), self.stored_bits),
                number(Tag(0x0028, 0x0102), self.stored_bits - 1),
                number(Tag(0x0028, 0x0103), u16::from(self.signed)),
                Element::new(Tag(0x7FE0, 0x0010), VR::OW, self.samples(slice)),
            ];
            if let Some([slope, intercept]) = self.rescale {
                elements.push(decimals(Tag(0x0028, 0x1052), &[intercept]));
                elements.push(decimals(Tag(0x0028, 0x1053), &[slope]));
            }
            elements.extend(self.more.iter().cloned());
            let file = DicomFile::new(DataSet::from_elements(elements)).to_bytes().unwrap();
            std::fs::write(folder.join(format!("{instance:03}.dcm")), file).unwrap();
        }
    }
}

/// A NIfTI file in memory: real values along x, y and z, and the matrix of `sform`.
struct Nifti {
    name: String,
    values: ndarray::Array3<f64>,
    affine: [[f64; 4]; 3],
    header: nifti::NiftiHeader,
}

impl Nifti {
    fn read(path: &Path) -> Self {
        let object = ReaderOptions::new().read_file(path).unwrap();
        let header = object.header().clone();
        let rows = [header.srow_x, header.srow_y, header.srow_z];
        let values = object.into_volume().into_ndarray::<f64>().unwrap();
        Self {
            name: path.file_name().unwrap().to_str().unwrap().to_owned(),
            values: values.into_dimensionality().unwrap(),
            affine: rows.map(|row| row.map(f64::from)),
            header,
        }
    }

    fn column(&self, axis: usize) -> [f64; 3] {
        self.affine.map(|row| row[axis])
    }

    /// Axes exchanged and reversed until the matrix is as near to a diagonal as it gets.
    fn to_ras(&self) -> Self {
        let lengths =
            [0, 1, 2].map(|axis| self.column(axis).iter().map(|one| one * one).sum::<f64>().sqrt());
        let cosine = |axis: usize, space: usize| self.affine[space][axis] / lengths[axis];
        let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
        let fit = |order: &[usize; 3]| -> f64 {
            (0..3).map(|space| cosine(order[space], space).abs()).sum()
        };
        let best = orders.iter().max_by(|a, b| fit(a).total_cmp(&fit(b))).unwrap();
        let mut values = self.values.view().permuted_axes(*best).to_owned();
        let mut affine = [[0.0; 4]; 3];
        let mut origin = self.column(3);
        for space in 0..3 {
            let axis = best[space];
            let backwards = cosine(axis, space) < 0.0;
            if backwards {
                values.invert_axis(ndarray::Axis(space));
            }
            for row in 0..3 {
                let step = self.affine[row][axis];
                affine[row][space] = if backwards { -step } else { step };
                if backwards {
                    origin[row] += step * (values.shape()[space] - 1) as f64;
                }
            }
        }
        for row in 0..3 {
            affine[row][3] = origin[row];
        }
        Self { name: self.name.clone(), values, affine, header: self.header.clone() }
    }

    fn assert_same(&self, other: &Self, tolerance: f64) {
        let (ours, theirs) = (self.to_ras(), other.to_ras());
        assert!(ours.header.sform_code > 0 && theirs.header.sform_code > 0);
        for (one, another) in ours.affine.iter().flatten().zip(theirs.affine.iter().flatten()) {
            assert!(
                (one - another).abs() <= tolerance,
                "{}: {:?}\n{}: {:?}",
                self.name,
                ours.affine,
                other.name,
                theirs.affine
            );
        }
        assert_eq!(ours.values.shape(), theirs.values.shape(), "{}", other.name);
        let differing = ours.values.iter().zip(&theirs.values).filter(|(a, b)| a != b).count();
        assert_eq!(differing, 0, "{} of {} voxels", differing, ours.values.len());
    }
}

/// Versions before this date shear rows as well (their issue 697).
const SHEARS: u32 = 20_230_411;

/// What `dcm2niix` makes of a folder: files by name, and the date of its version. `IAC_DCM2NIIX`
/// may name another one than that of the system.
fn dcm2niix(folder: &Path, out: &Path) -> (Vec<Nifti>, u32) {
    std::fs::create_dir_all(out).unwrap();
    let program = std::env::var_os("IAC_DCM2NIIX").unwrap_or_else(|| "dcm2niix".into());
    let output = Command::new(program)
        .args(["-z", "n", "-b", "n", "-f", "theirs", "-o"])
        .arg(out)
        .arg(folder)
        .output()
        .expect("dcm2niix is installed (scripts/setup.sh does that)");
    let said = String::from_utf8_lossy(&output.stdout);
    let mut paths: Vec<PathBuf> = std::fs::read_dir(out)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "nii"))
        .collect();
    paths.sort();
    assert!(!paths.is_empty(), "{said}");
    println!("{said}");
    let version = said.split_once("v1.0.").and_then(|(_, rest)| rest.get(..8)?.parse().ok());
    (paths.iter().map(|path| Nifti::read(path)).collect(), version.unwrap())
}

fn stack_of(pack: &DicomPackReader) -> VolumeStack {
    let found = pack.volume_stacks(&pack.series()[0]).unwrap();
    assert!(found.unplaced.is_empty(), "{:?}", found.unplaced);
    assert_eq!(found.stacks.len(), 1);
    found.stacks.into_iter().next().unwrap()
}

/// Both sides of a series: ours rescaled, ours stored, and theirs.
fn both(series: &Series) -> (Nifti, Nifti, Vec<Nifti>, u32) {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("in");
    series.write(&folder);
    let path = home.path().join("a.rad.iac");
    let inputs = DicomInputs::find(std::slice::from_ref(&folder)).unwrap();
    DicomPackBuilder::new().effort(1).build(&path, inputs).unwrap();
    let pack = DicomPackReader::open(&path).unwrap();
    let stack = stack_of(&pack);
    let options = VolumeOptions::default().with_uneven(true);
    let ours = home.path().join("ours.nii.gz");
    pack.read_volume(&stack, &options).unwrap().save_nifti(&ours, &SaveOptions::default()).unwrap();
    let options = options.with_values(VolumeValues::Stored);
    let stored = home.path().join("stored.nii");
    pack.read_volume(&stack, &options)
        .unwrap()
        .save_nifti(&stored, &SaveOptions::default())
        .unwrap();
    let (theirs, version) = dcm2niix(&folder, &home.path().join("theirs"));
    (Nifti::read(&ours), Nifti::read(&stored), theirs, version)
}

fn along(start: [f64; 3], step: [f64; 3], count: usize) -> Vec<[f64; 3]> {
    (0..count).map(|n| [0, 1, 2].map(|axis| start[axis] + step[axis] * n as f64)).collect()
}

fn assert_equal(series: &Series) {
    let (ours, stored, theirs, _) = both(series);
    assert_eq!(theirs.len(), 1, "{:?}", theirs.iter().map(|it| &it.name).collect::<Vec<_>>());
    ours.assert_same(&theirs[0], 1e-4);
    stored.assert_same(&theirs[0], 1e-4);
    // Where there is no shear, a rotation says the same.
    assert!(ours.header.qform_code > 0);
    assert!(stored.header.scl_slope != 0.0);
}

#[test]
fn axial_slices_are_where_dcm2niix_has_them() {
    let positions = along([-101.25, -88.5, 40.125], [0.0, 0.0, 2.5], 9);
    assert_equal(&Series::ct(positions, [1.0, 0.0, 0.0, 0.0, 1.0, 0.0]));
}

#[test]
fn sagittal_slices_are_where_dcm2niix_has_them() {
    let positions = along([55.5, -120.25, 130.75], [-3.3, 0.0, 0.0], 7);
    let mut series = Series::ct(positions, [0.0, 1.0, 0.0, 0.0, 0.0, -1.0]);
    series.modality = "MR";
    series.rescale = None;
    series.signed = false;
    series.stored_bits = 12;
    assert_equal(&series);
}

#[test]
fn oblique_slices_are_where_dcm2niix_has_them() {
    // Turned about all three axes.
    let (row, column) = ([0.936117, 0.289629, -0.199368], [-0.275096, 0.956425, 0.097843]);
    let normal = [
        row[1] * column[2] - row[2] * column[1],
        row[2] * column[0] - row[0] * column[2],
        row[0] * column[1] - row[1] * column[0],
    ];
    let positions = along([-70.5, -90.125, 12.0], normal.map(|one| one * 3.75), 8);
    let [a, b, c] = row;
    let [d, e, f] = column;
    let mut series = Series::ct(positions, [a, b, c, d, e, f]);
    series.modality = "MR";
    assert_equal(&series);
}

#[test]
fn signed_samples_with_a_fractional_rescale_have_the_values_of_dcm2niix() {
    let positions = along([-101.25, -88.5, 40.125], [0.0, 0.0, 2.5], 5);
    let mut series = Series::ct(positions, [1.0, 0.0, 0.0, 0.0, 1.0, 0.0]);
    // Debian's version loses the signs of 12 stored bits.
    series.rescale = Some([0.25, -1000.0]);
    assert_equal(&series);
}

#[test]
fn tilted_slices_are_sheared_as_dcm2niix_has_them() {
    let angle = 15.0_f64.to_radians();
    // The gantry turns the slices, the table moves along the body.
    let orientation = [1.0, 0.0, 0.0, 0.0, angle.cos(), angle.sin()];
    let positions = along([-101.25, -88.5, 40.125], [0.0, 0.0, 5.0], 9);
    let mut series = Series::ct(positions, orientation);
    series.more = vec![decimals(Tag(0x0018, 0x1120), &[15.0])];
    let (ours, stored, theirs, version) = both(&series);
    let plain = theirs.iter().find(|it| it.name == "theirs.nii").unwrap();
    assert_eq!(ours.to_ras().values, plain.to_ras().values);
    assert_eq!(stored.to_ras().values, plain.to_ras().values);
    let (one, other) = (ours.to_ras(), plain.to_ras());
    for (axis, compared) in [(0, true), (1, version >= SHEARS), (3, true)] {
        for (one, other) in one.column(axis).iter().zip(other.column(axis)) {
            assert!(
                !compared || (one - other).abs() <= 1e-4,
                "{:?} {:?}",
                ours.affine,
                plain.affine
            );
        }
    }
    // Theirs has the direction of the table with the distance of the planes, which is shorter.
    if version >= SHEARS {
        let cosine = angle.cos();
        for (one, other) in one.column(2).iter().zip(other.column(2)) {
            assert!((one * cosine - other).abs() <= 1e-4, "{:?} {:?}", ours.affine, plain.affine);
        }
    }
    // What the objects say (PS3.3 C.7.6.2.1.1), towards right and front.
    for (slice, [x, y, z]) in series.positions.iter().enumerate() {
        let found = ours.affine.map(|[_, _, step, start]| start + step * slice as f64);
        for (one, other) in found.iter().zip([-x, -y, *z]) {
            assert!((one - other).abs() < 1e-4, "{found:?}");
        }
    }
    assert_eq!(ours.header.qform_code, 0);
}

#[test]
fn unequal_distances_keep_the_slices_of_dcm2niix() {
    let mut positions = along([-101.25, -88.5, 40.125], [0.0, 0.0, 2.5], 9);
    for position in &mut positions[5..] {
        position[2] += 4.0;
    }
    let series = Series::ct(positions, [1.0, 0.0, 0.0, 0.0, 1.0, 0.0]);
    let (ours, stored, theirs, _) = both(&series);
    let plain = theirs.iter().find(|it| it.name == "theirs.nii").unwrap();
    ours.assert_same(plain, 1e-4);
    stored.assert_same(plain, 1e-4);
}

#[test]
fn frames_without_places_come_in_the_order_of_dcm2niix() {
    let Some(corpus) = std::env::var_os("IAC_CORPUS").map(PathBuf::from) else {
        println!("not run: IAC_CORPUS is not set");
        return;
    };
    let source = corpus.join("dicom/pydicomdata_emri_small.dcm");
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("in");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::copy(&source, folder.join("emri_small.dcm")).unwrap();
    let file = VolumeFile::open(&source).unwrap();
    // The file lacks its functional groups, so nothing says where frames lie.
    let found = file.volume_stacks();
    assert_eq!((found.stacks.len(), found.unplaced.len()), (0, 10));
    let found = file.stacks_in_order();
    assert_eq!(found.stacks.len(), 1);
    let ours = home.path().join("ours.nii");
    let volume = file.read_volume(&found.stacks[0], &VolumeOptions::default()).unwrap();
    volume.save_nifti(&ours, &SaveOptions::default()).unwrap();
    let (theirs, _) = dcm2niix(&folder, &home.path().join("theirs"));
    let (ours, theirs) = (Nifti::read(&ours), &theirs[0]);
    for header in [&ours.header, &theirs.header] {
        assert_eq!((header.sform_code, header.qform_code), (0, 0));
        assert_eq!(header.pixdim[1..4], [1.0, 1.0, 1.2]);
    }
    assert_eq!(ours.values, theirs.values);
}
