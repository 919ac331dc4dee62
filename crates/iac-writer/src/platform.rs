//! What differs between systems: renaming without replacing, copying inside the kernel, and
//! telling whether a name still means an open file.
//!
//! Linux is what is tested. Elsewhere the portable part of each function does the work.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

/// Bytes that the portable copy moves at a time.
const COPY_BUFFER: usize = 1 << 20;

/// Gives a file its final name, unless that name is taken.
///
/// An error of kind `AlreadyExists` means that it is.
pub(crate) fn rename_without_replacing(from: &Path, to: &Path) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        use rustix::io::Errno;
        match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
            // The file system, or the kernel, cannot do that.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {}
            done => return done.map_err(io::Error::from),
        }
    }
    link_and_unlink(from, to)
}

/// A hard link fails when its name is taken, so the pair acts like a rename that does.
fn link_and_unlink(from: &Path, to: &Path) -> io::Result<()> {
    fs::hard_link(from, to)?;
    // The pack is published now. A second name that stays behind counts as a leftover.
    let _ = fs::remove_file(from);
    Ok(())
}

/// Copies `length` bytes between files at the given positions; gives the number of bytes copied,
/// which is less where the source ends early.
///
/// On Linux the bytes stay inside the kernel, and file systems with shared extents share them
/// where both positions are multiples of their block size.
pub(crate) fn copy_range(
    source: &File,
    source_offset: u64,
    target: &File,
    target_offset: u64,
    length: u64,
) -> io::Result<u64> {
    let copied = copy_inside_kernel(source, source_offset, target, target_offset, length)?;
    if copied == length {
        return Ok(copied);
    }
    let mut from = source;
    let mut to = target;
    from.seek(SeekFrom::Start(source_offset.saturating_add(copied)))?;
    to.seek(SeekFrom::Start(target_offset.saturating_add(copied)))?;
    let rest = copy_through_memory(&mut from.take(length.saturating_sub(copied)), &mut to)?;
    Ok(copied.saturating_add(rest))
}

#[cfg(target_os = "linux")]
fn copy_inside_kernel(
    source: &File,
    source_offset: u64,
    target: &File,
    target_offset: u64,
    length: u64,
) -> io::Result<u64> {
    use rustix::fs::copy_file_range;
    use rustix::io::Errno;

    /// Bytes of one call, so that a signal need not wait for the whole copy.
    const STEP: u64 = 1 << 28;

    let mut from = source_offset;
    let mut to = target_offset;
    let mut copied = 0_u64;
    while copied < length {
        let step = length.saturating_sub(copied).min(STEP);
        let step = usize::try_from(step).unwrap_or(usize::MAX);
        match copy_file_range(source, Some(&mut from), target, Some(&mut to), step) {
            // The end of the source, or a file system that says so falsely: reading tells.
            Ok(0) => break,
            Ok(bytes) => copied = copied.saturating_add(u64::try_from(bytes).unwrap_or(0)),
            Err(Errno::INTR) => {}
            // Not between these two files, or not in this sandbox: the ordinary way decides.
            Err(
                Errno::INVAL
                | Errno::NOSYS
                | Errno::OPNOTSUPP
                | Errno::XDEV
                | Errno::PERM
                | Errno::ACCESS
                | Errno::TXTBSY
                | Errno::BADF,
            ) => break,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(copied)
}

#[cfg(not(target_os = "linux"))]
fn copy_inside_kernel(_: &File, _: u64, _: &File, _: u64, _: u64) -> io::Result<u64> {
    Ok(0)
}

fn copy_through_memory(source: &mut impl Read, target: &mut impl Write) -> io::Result<u64> {
    let mut buffer = vec![0; COPY_BUFFER];
    let mut copied = 0_u64;
    loop {
        let bytes = read_some(source, &mut buffer)?;
        if bytes.is_empty() {
            return Ok(copied);
        }
        target.write_all(bytes)?;
        copied = copied.saturating_add(u64::try_from(bytes.len()).unwrap_or(0));
    }
}

/// Reads once, as many bytes as come; none at the end.
pub(crate) fn read_some<'a>(source: &mut impl Read, buffer: &'a mut [u8]) -> io::Result<&'a [u8]> {
    loop {
        match source.read(buffer) {
            Ok(bytes) => return Ok(buffer.get(..bytes).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Whether a name still means this open file. Where the system cannot tell, it is believed.
pub(crate) fn names_this_file(path: &Path, file: &File) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        match (fs::symlink_metadata(path), file.metadata()) {
            (Ok(named), Ok(open)) => named.dev() == open.dev() && named.ino() == open.ino(),
            _ => false,
        }
    }
    #[cfg(not(unix))]
    {
        let _ = file;
        path.exists()
    }
}

/// What changes when somebody writes to a regular file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FileState {
    length: u64,
    modified: Option<std::time::SystemTime>,
    #[cfg(unix)]
    changed: (i64, i64),
}

impl FileState {
    pub(crate) fn of(metadata: &fs::Metadata) -> Self {
        #[cfg(unix)]
        use std::os::unix::fs::MetadataExt;
        Self {
            length: metadata.len(),
            modified: metadata.modified().ok(),
            #[cfg(unix)]
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

/// Opens a leftover for locking: never through a link, never waiting for a pipe's other end.
pub(crate) fn open_leftover(path: &Path) -> io::Result<File> {
    if !fs::symlink_metadata(path)?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::OFlags;
        use std::os::unix::fs::OpenOptionsExt;
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits();
        options.custom_flags(i32::try_from(flags).unwrap_or(0));
    }
    options.open(path)
}

/// Whether an open file may lose its name and be used all the same.
pub(crate) const UNNAMED_FILES: bool = cfg!(unix);

/// Waits until a folder's entries are on the disk, where the system can do that.
///
/// # Errors
///
/// What the system answers, unless it is that folders cannot be synced, or not by this user.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    if !cfg!(unix) {
        return Ok(());
    }
    let opened = match File::open(folder) {
        // A folder that may be written to but not listed cannot be opened for syncing.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(()),
        opened => opened?,
    };
    match opened.sync_all() {
        // Some network file systems do not know this for folders.
        Err(error)
            if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) =>
        {
            Ok(())
        }
        done => done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_and_unlink_refuses_a_taken_name() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        fs::write(&from, "new").unwrap();
        fs::write(&to, "old").unwrap();
        let error = link_and_unlink(&from, &to).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&to).unwrap(), b"old");
        fs::remove_file(&to).unwrap();
        link_and_unlink(&from, &to).unwrap();
        assert_eq!(fs::read(&to).unwrap(), b"new");
        assert!(!from.exists());
    }

    #[test]
    fn both_ways_of_copying_give_the_same_bytes() {
        let bytes: Vec<u8> = (0..=250).cycle().take(3_000_000).collect();
        let mut source = tempfile::tempfile().unwrap();
        source.write_all(&bytes).unwrap();
        for (start, to, length) in [(0, 0, 3_000_000), (1, 4097, 2_500_000), (2_999_999, 5, 100)] {
            let from = u64::try_from(start).unwrap();
            let size = u64::try_from(length).unwrap();
            let target = tempfile::tempfile().unwrap();
            let copied = copy_range(&source, from, &target, to, size).unwrap();
            let expected = &bytes[start..bytes.len().min(start + length)];
            assert_eq!(copied, expected.len() as u64);
            let mut found = Vec::new();
            (&target).seek(SeekFrom::Start(to)).unwrap();
            (&target).read_to_end(&mut found).unwrap();
            assert_eq!(found, expected);

            (&source).seek(SeekFrom::Start(from)).unwrap();
            let mut through_memory = Vec::new();
            copy_through_memory(&mut (&source).take(size), &mut through_memory).unwrap();
            assert_eq!(through_memory, expected);
        }
    }
}
