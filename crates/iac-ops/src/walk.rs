//! Finding files: sources of raw packs, and packs in folders.

use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};

use crate::error::{OpsError, Result};
use crate::progress::{Progress, check_cancelled};

/// What stands in a folder, one entry after the other, deeper folders first when they are entered.
///
/// `visit` hears of every entry with its own metadata (that of a link, not of its target) and says
/// whether a folder is to be entered.
pub(crate) fn walk(
    folder: &Path,
    progress: &dyn Progress,
    visit: &mut dyn FnMut(&Path, &Metadata) -> Result<bool>,
) -> Result<()> {
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        let failed = "cannot list the folder";
        let entries = fs::read_dir(&folder).map_err(OpsError::io(&folder, failed))?;
        let mut paths: Vec<PathBuf> = Vec::new();
        for entry in entries {
            paths.push(entry.map_err(OpsError::io(&folder, failed))?.path());
        }
        // The order of a folder's listing is an accident; messages should not depend on it.
        paths.sort_unstable();
        for path in paths {
            check_cancelled(progress)?;
            let metadata =
                fs::symlink_metadata(&path).map_err(OpsError::io(&path, "cannot examine"))?;
            if visit(&path, &metadata)? && metadata.is_dir() {
                open.push(path);
            }
        }
    }
    Ok(())
}
