//! File names (docs/format.md, "File names"): `IDENTITY.CODE.iac`.
//!
//! Names are a convention for people: what a file is stands in its header.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::error::{FormatError, Result};

/// Suffix of every finished pack.
pub const SUFFIX: &str = ".iac";

/// What stands between the identity and `.iac`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PackCode {
    /// `.rad.iac`: native radiology archive (payload type `dicom_patient`).
    Radiology,
    /// `.pat.iac`: native pathology archive (payload type `wsi_image`).
    Pathology,
    /// `.tiles.iac`: image tiles (payload type `image_tiles`).
    Tiles,
    /// `.features.iac`: feature vectors (payload type `teacher_features`).
    Features,
}

impl PackCode {
    /// The code without dots.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Radiology => "rad",
            Self::Pathology => "pat",
            Self::Tiles => "tiles",
            Self::Features => "features",
        }
    }
}

/// The name of the pack made from a source file: its suffix is replaced, not kept.
///
/// ```
/// use iac_format::names::{PackCode, pack_path};
/// use std::path::Path;
///
/// let path = pack_path(Path::new("slides/slide.svs"), PackCode::Pathology)?;
/// assert_eq!(path, Path::new("slides/slide.pat.iac"));
/// # Ok::<(), iac_format::FormatError>(())
/// ```
///
/// # Errors
///
/// [`FormatError::Argument`] when the path has no file name.
pub fn pack_path(source: &Path, code: PackCode) -> Result<PathBuf> {
    let stem = source.file_stem().ok_or_else(|| FormatError::Argument {
        reason: format!("path \"{}\" has no file name", source.display()),
    })?;
    let mut name = OsString::from(stem);
    name.push(".");
    name.push(code.as_str());
    name.push(SUFFIX);
    Ok(source.with_file_name(name))
}

/// Whether a path is named like a finished pack.
#[must_use]
pub fn is_pack_name(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().ends_with(SUFFIX.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_source_suffix_is_replaced() {
        for (source, expected) in
            [("a/b.ndpi", "a/b.pat.iac"), ("scan", "scan.pat.iac"), ("x.ome.tiff", "x.ome.pat.iac")]
        {
            assert_eq!(
                pack_path(Path::new(source), PackCode::Pathology).unwrap(),
                Path::new(expected)
            );
        }
        assert!(pack_path(Path::new("/"), PackCode::Tiles).is_err());
    }

    #[test]
    fn unfinished_files_do_not_look_finished() {
        assert!(is_pack_name(Path::new("a.rad.iac")));
        assert!(!is_pack_name(Path::new(".a.rad.iac.x7.part")));
        assert!(!is_pack_name(Path::new("a.iac.tmp")));
    }
}
