//! Arrays out of files of other kinds, and into them.
//!
//! | kind | read | written |
//! |---|---|---|
//! | NumPy `.npy`, `.npz` | yes | yes |
//! | NIfTI-1 and NIfTI-2, plain or with gzip, also pairs of `.hdr` and `.img` | yes | `.nii`, `.nii.gz` |
//! | ARRF files of the crate `array-format`, versions 5 (with layers) and 6 | yes | no |
//! | Zarr 2 and 3 (feature `zarr`) | yes | version 3 |
//! | a single `.iac` file | [`ArrayStore::import_file`] | [`Snapshot::export`](crate::Snapshot::export) |
//!
//! [`import`] adds changes to a store, which [`ArrayStore::flush`] publishes; a failed import adds
//! none. [`export`] makes a file that appears whole or not at all.
//!
//! Volumes carry the attribute [`AFFINE`], whatever they come from: sixteen numbers, row after row,
//! that map (x, y, z, 1) to millimetres, x being the index along the *last* axis of the array. Its
//! axes point to the patient's right, front and head.
//!
//! ```
//! use iac_array::blocking::ArrayStore;
//! use iac_array::convert::{self, ExportOptions, ImportOptions};
//! use iac_array::{ArraySpec, DType, Location, StoreOptions};
//! # let folder = tempfile::tempdir().unwrap();
//! # let path = folder.path().join("signal.npy");
//!
//! let mut store = ArrayStore::create(Location::memory(), StoreOptions::default())?;
//! store.define("signal", ArraySpec::new(DType::Float32, &[3]))?;
//! store.write("signal", &[0], ndarray::array![1.0_f32, 2.0, 3.0])?;
//! store.flush()?;
//! convert::export(&store.snapshot(), Some("signal"), &path, &ExportOptions::default())?;
//!
//! let mut other = ArrayStore::create(Location::memory(), StoreOptions::default())?;
//! let report = convert::import(&mut other, &path, &ImportOptions::default())?;
//! assert_eq!(report.arrays, ["signal"]);
//! assert_eq!(other.read_all("signal")?, store.read_all("signal")?);
//! # Ok::<(), iac_array::ArrayError>(())
//! ```

mod arrf;
mod arrf_file;
mod literal;
mod nifti;
mod nifti_header;
mod npy;
mod npz;
mod place;
mod slabs;
#[cfg(feature = "zarr")]
mod zarr;

use std::path::Path;

use crate::blocking::{ArrayStore, Snapshot};
use crate::codec::Packing;
use crate::data::ArrayData;
use crate::error::{ArrayError, Result};
use crate::meta::ArraySpec;

pub use npy::{npy_bytes, parse_npy};

/// The attribute that says where the voxels of a volume lie.
pub const AFFINE: &str = "affine";

/// How files are imported.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImportOptions {
    /// The name of the array; that of the file without its end unless set. Where a file holds many
    /// arrays, the group that they come into; none unless set.
    pub name: Option<String>,
    /// The shape of chunks; what the file has, or automatic, unless set.
    pub chunks: Option<Vec<u64>>,
    /// NIfTI: gives real values (slope and intercept applied) in place of stored ones; no unless
    /// set. 8- and 16-bit integers and `float32` become `float32`, other types `float64`.
    pub scaled: bool,
    /// The element that nobody wrote, as [`ArrayData::parse_element`] reads it; zero, or what the
    /// file says, unless set. Refused for ARRF and Zarr, whose files say it themselves.
    pub fill: Option<String>,
    /// Bytes that the elements of a file may have together; 16 GiB unless set.
    pub max_bytes: u64,
    /// How chunks are packed, as a catalogue has it.
    packing: Option<String>,
}

impl Default for ImportOptions {
    fn default() -> Self {
        Self {
            name: None,
            chunks: None,
            scaled: false,
            fill: None,
            max_bytes: 16 << 30,
            packing: None,
        }
    }
}

impl ImportOptions {
    /// The same with another name.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// The same with chunks of this shape.
    #[must_use]
    pub fn chunks(mut self, chunks: &[u64]) -> Self {
        self.chunks = Some(chunks.to_vec());
        self
    }

    /// The same with an element that nobody wrote.
    #[must_use]
    pub fn fill(mut self, fill: &str) -> Self {
        self.fill = Some(fill.to_owned());
        self
    }

    /// The same with arrays that keep a packing of their own, whoever writes them; see
    /// [`ArraySpec::packing`].
    #[must_use]
    pub fn packing(mut self, packing: &Packing) -> Self {
        self.packing = Some(packing.to_text());
        self
    }

    /// The same with real values of NIfTI files, or not.
    #[must_use]
    pub const fn scaled(mut self, scaled: bool) -> Self {
        self.scaled = scaled;
        self
    }

    /// The same with another bound on bytes.
    #[must_use]
    pub const fn max_bytes(mut self, bytes: u64) -> Self {
        self.max_bytes = bytes;
        self
    }
}

/// What an import added.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Imported {
    /// Names of the arrays.
    pub arrays: Vec<String>,
    /// Bytes of their elements.
    pub bytes: u64,
}

/// How files are exported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ExportOptions {
    /// Replaces a file that is there; no unless set.
    pub overwrite: bool,
    /// NIfTI-2 also where NIfTI-1 could hold the array; no unless set.
    pub nifti2: bool,
}

impl ExportOptions {
    /// The same, replacing a file that is there, or not.
    #[must_use]
    pub const fn overwrite(mut self, overwrite: bool) -> Self {
        self.overwrite = overwrite;
        self
    }

    /// The same with NIfTI-2 in every case, or not.
    #[must_use]
    pub const fn nifti2(mut self, nifti2: bool) -> Self {
        self.nifti2 = nifti2;
        self
    }
}

/// A kind of file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FileKind {
    /// One array of NumPy.
    Npy,
    /// Several arrays of NumPy.
    Npz,
    /// NIfTI-1 or NIfTI-2.
    Nifti,
    /// A file of the crate `array-format`.
    Arrf,
    /// A folder of Zarr.
    Zarr,
    /// A snapshot as one file.
    Iac,
}

impl FileKind {
    /// The kind of a file by its name, or of a folder by what is in it.
    ///
    /// ```
    /// use iac_array::convert::FileKind;
    ///
    /// assert_eq!(FileKind::of("chest.nii.gz"), Some(FileKind::Nifti));
    /// assert_eq!(FileKind::of("notes.txt"), None);
    /// ```
    #[must_use]
    pub fn of(path: impl AsRef<Path>) -> Option<Self> {
        let path = path.as_ref();
        let name = path.file_name()?.to_string_lossy().to_lowercase();
        let ends = |ends: &[&str]| ends.iter().any(|end| name.ends_with(end));
        let has = |inner: &str| path.join(inner).is_file();
        Some(if ends(&[".npy"]) {
            Self::Npy
        } else if ends(&[".npz"]) {
            Self::Npz
        } else if ends(&[".nii", ".nii.gz", ".hdr", ".img"]) {
            Self::Nifti
        } else if ends(&[".af"]) {
            Self::Arrf
        } else if ends(&[".iac"]) {
            Self::Iac
        } else if ends(&[".zarr"]) || has("zarr.json") || has(".zgroup") || has(".zarray") {
            Self::Zarr
        } else {
            return None;
        })
    }
}

/// Adds the arrays of a file to the changes of a store; nothing is published.
///
/// # Errors
///
/// [`ArrayError::Exists`] for names that are taken, [`ArrayError::Unsupported`] for files of a kind
/// that is not known or with elements that arrays have not, [`ArrayError::Corrupt`] for damaged
/// ones, [`ArrayError::TooLarge`] above the bound, [`ArrayError::File`] when the system fails. The
/// store has no more changes than before then.
pub fn import(store: &mut ArrayStore, path: &Path, options: &ImportOptions) -> Result<Imported> {
    let mut intake = slabs::Intake::new(store, path, options);
    let done = match FileKind::of(path) {
        Some(FileKind::Npy) => npy::import(&mut intake),
        Some(FileKind::Npz) => npz::import(&mut intake),
        Some(FileKind::Nifti) => nifti::import(&mut intake),
        Some(FileKind::Arrf) => arrf::import(&mut intake),
        #[cfg(feature = "zarr")]
        Some(FileKind::Zarr) => zarr::import(&mut intake),
        #[cfg(not(feature = "zarr"))]
        Some(FileKind::Zarr) => Err(ArrayError::foreign(path, "the feature `zarr`")),
        Some(FileKind::Iac) => Err(ArrayError::argument(format!(
            "{}: a single file is imported as a version of its own (`import_file`)",
            path.display()
        ))),
        None => Err(unknown(path)),
    };
    intake.end(done)
}

/// Writes one array, or all of a snapshot, as a file of the kind that its name says.
///
/// `.npy` and NIfTI files hold one array, which is named or is the only one; `.npz` and Zarr hold
/// all unless one is named.
///
/// # Errors
///
/// [`ArrayError::NotFound`], [`ArrayError::Argument`] when a file holds one array and there are
/// more, [`ArrayError::Unsupported`] for elements that such a file cannot hold,
/// [`ArrayError::Exists`] for a file that is there, and what reading and writing find.
pub fn export(
    snapshot: &Snapshot,
    name: Option<&str>,
    path: &Path,
    options: &ExportOptions,
) -> Result<()> {
    let one = || match name {
        Some(name) => Ok(name.to_owned()),
        None => only(snapshot),
    };
    match FileKind::of(path) {
        Some(FileKind::Npy) => npy::export(snapshot, &one()?, path, options),
        Some(FileKind::Npz) => npz::export(snapshot, name, path, options),
        Some(FileKind::Nifti) => nifti::export(snapshot, &one()?, path, options),
        #[cfg(feature = "zarr")]
        Some(FileKind::Zarr) => zarr::export(snapshot, name, path, options),
        #[cfg(not(feature = "zarr"))]
        Some(FileKind::Zarr) => Err(ArrayError::foreign(path, "the feature `zarr`")),
        Some(FileKind::Iac) if name.is_none() => place::export_iac(snapshot, path, options),
        Some(FileKind::Iac) => Err(ArrayError::argument(format!(
            "{}: a single file holds all arrays of a version",
            path.display()
        ))),
        Some(FileKind::Arrf) | None => Err(unknown(path)),
    }
}

fn unknown(path: &Path) -> ArrayError {
    ArrayError::foreign(
        path,
        "a name that says what it is (.npy, .npz, .nii, .nii.gz, .zarr, .iac)",
    )
}

/// The name of the only array.
fn only(snapshot: &Snapshot) -> Result<String> {
    let mut names = arrays(snapshot).into_iter();
    match (names.next(), names.next()) {
        (Some(name), None) => Ok(name),
        (None, _) => Err(ArrayError::NotFound { what: "array", name: "*".to_owned() }),
        (Some(first), Some(second)) => Err(ArrayError::argument(format!(
            "the file holds one array and there are several (`{first}`, `{second}`): name one"
        ))),
    }
}

/// Names of all arrays, without groups.
fn arrays(snapshot: &Snapshot) -> Vec<String> {
    let names = snapshot.as_async().names();
    let is_array =
        |name: &&str| snapshot.meta(name).is_ok_and(|meta| meta.kind() == crate::NodeKind::Array);
    names.filter(is_array).map(str::to_owned).collect()
}

/// The name that a file gives its array: without its end.
fn name_of(path: &Path) -> String {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let lower = name.to_lowercase();
    for end in [".nii.gz", ".nii", ".hdr", ".img", ".npy", ".npz", ".af", ".zarr"] {
        if lower.ends_with(end) {
            return name.get(..name.len().saturating_sub(end.len())).unwrap_or(&name).to_owned();
        }
    }
    name
}

/// The spec of an array with what is wished in place of what its file says.
///
/// `sparse` says that the file may lack elements, which are fill then.
fn wished(
    name: &str,
    mut spec: ArraySpec,
    options: &ImportOptions,
    sparse: bool,
) -> Result<ArraySpec> {
    if let Some(chunks) = &options.chunks {
        spec = spec.chunks(chunks);
    }
    if let Some(fill) = &options.fill {
        if sparse {
            return Err(ArrayError::argument(format!(
                "array `{name}` cannot have another fill value than its file says: parts that nobody \
                 wrote would have other elements"
            )));
        }
        let element = ArrayData::parse_element(&spec.dtype, fill);
        spec = spec.fill_data(element.map_err(|error| match error {
            ArrayError::Argument { reason } => {
                ArrayError::argument(format!("the fill value of array `{name}`: {reason}"))
            }
            other => other,
        })?);
    }
    if options.packing.is_some() {
        spec.packing.clone_from(&options.packing);
    }
    Ok(spec)
}
