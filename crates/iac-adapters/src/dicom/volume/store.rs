//! Volumes as arrays of a store.

use iac_array::convert::AFFINE;
use iac_array::{ArrayData, ArraySpec};

use super::array::{Volume, with_voxels};
use super::label::LabelVolume;

impl Volume {
    /// The volume as an array that a store can define and write: axes `z`, `y`, `x`, and
    /// attributes.
    ///
    /// | attribute | meaning |
    /// |---|---|
    /// | `affine` | sixteen numbers, row after row: (column, row, slice, 1) to millimetres towards right, front and head; absent where the volume is not placed |
    /// | `voxel_size` | millimetres of a column, a row and a slice |
    /// | `scale` | slope and intercept that make values of stored voxels, where they change anything |
    /// | `units` | the unit of the values, where it is stated |
    /// | `window` | centre and width, where they are stated |
    ///
    /// ```no_run
    /// use iac_adapters::dicom::DicomPackReader;
    /// use iac_adapters::dicom::volume::VolumeOptions;
    /// use iac_array::blocking::ArrayStore;
    /// use iac_array::{Location, StoreOptions};
    ///
    /// let pack = DicomPackReader::open("patient.rad.iac")?;
    /// let found = pack.volume_stacks(&pack.series()[0])?;
    /// let volume = pack.read_volume(&found.stacks[0], &VolumeOptions::default())?;
    /// let mut store = ArrayStore::create(Location::folder("study.arrays")?, StoreOptions::default())?;
    /// let (spec, data) = volume.to_array();
    /// store.define("ct", spec.chunks(&[32, 128, 128]))?;
    /// store.write("ct", &[0, 0, 0], data)?;
    /// store.flush()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn to_array(&self) -> (ArraySpec, ArrayData) {
        let data: ArrayData = with_voxels!(&self.voxels, array => array.into());
        let mut spec = ArraySpec::new(data.dtype().clone(), data.shape()).dims(&["z", "y", "x"]);
        if self.placed {
            let affine: Vec<f64> = self.affine.to_ras().matrix().into_iter().flatten().collect();
            spec = spec.attr(AFFINE, affine);
        }
        spec = spec.attr("voxel_size", self.affine.lengths().to_vec());
        if let Some([slope, intercept]) = self.scale
            && (slope, intercept) != (1.0, 0.0)
        {
            spec = spec.attr("scale", vec![slope, intercept]);
        }
        if !self.units.is_empty() {
            spec = spec.attr("units", self.units.as_str());
        }
        if let Some(window) = self.window {
            spec = spec.attr("window", vec![window.center, window.width]);
        }
        (spec, data)
    }
}

impl LabelVolume {
    /// The labels as an array that a store can define and write, as [`Volume::to_array`], with the
    /// attributes `label_values` and `label_names`.
    #[must_use]
    pub fn to_array(&self) -> (ArraySpec, ArrayData) {
        let (spec, data) = self.volume.to_array();
        let values: Vec<i64> = self.labels.iter().map(|label| label.value.into()).collect();
        let names: Vec<String> = self.labels.iter().map(|label| label.name.clone()).collect();
        (spec.attr("label_values", values).attr("label_names", names), data)
    }
}
