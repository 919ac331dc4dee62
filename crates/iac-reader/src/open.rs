//! Reading a pack's header: of a file, of any source, or from the process-wide cache.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use iac_format::{FormatError, HEADER_BYTES, Header};

use crate::PackReader;
use crate::error::{ReadError, Result};
use crate::header_cache::{self, FileKey};
use crate::source::open_regular;

/// Whether this build takes a path for the URL of an object: one of a known scheme, where the
/// feature `object-store` is compiled in.
#[must_use]
pub fn is_url(path: impl AsRef<Path>) -> bool {
    #[cfg(feature = "object-store")]
    return path.as_ref().to_str().is_some_and(crate::object::ObjectLocation::is_url);
    #[cfg(not(feature = "object-store"))]
    {
        let _ = path;
        false
    }
}

/// Reads only a pack's header, from the process-wide cache where that has it: one `stat`, no open.
///
/// # Errors
///
/// As [`PackReader::open`].
pub fn read_header(path: impl AsRef<Path>) -> Result<Header> {
    let path = path.as_ref();
    if is_url(path) {
        return Ok(PackReader::open(path)?.header().clone());
    }
    let name = display_name(path);
    let load = || {
        let (file, size) = open_regular(path).map_err(|source| io_error(&name, "open", source))?;
        load_header(&name, &file, size)
    };
    let key = std::fs::metadata(path).ok().as_ref().and_then(FileKey::of);
    let Some(key) = key else {
        return load();
    };
    let text = header_cache::text_of(path, key, || load().map(|header| header.shared_text()))?;
    Header::from_text(text, key.size).map_err(|source| ReadError::Format { path: name, source })
}

/// The header of an open file; its text may come from the cache.
pub(crate) fn open_header(
    path: &Path,
    name: &Arc<str>,
    file: &File,
    size: u64,
    use_cache: bool,
) -> Result<Header> {
    let key = if use_cache { file.metadata().ok().as_ref().and_then(FileKey::of) } else { None };
    let Some(key) = key.filter(|key| key.size == size) else {
        return load_header(name, file, size);
    };
    let text = header_cache::text_of(path, key, || {
        load_header(name, file, size).map(|header| header.shared_text())
    })?;
    Header::from_text(text, size)
        .map_err(|source| ReadError::Format { path: Arc::clone(name), source })
}

fn load_header(name: &Arc<str>, file: &File, size: u64) -> Result<Header> {
    let block =
        read_header_block(size, |offset, buffer| crate::source::read_file(file, offset, buffer))
            .map_err(|source| io_error(name, "read the header", source))?;
    Header::parse(&block, size)
        .map_err(|source| ReadError::Format { path: Arc::clone(name), source })
}

/// A header as far as it can be interpreted, and what is wrong with it.
pub(crate) fn load_damaged_header(
    name: &Arc<str>,
    size: u64,
    read: impl Fn(u64, &mut [u8]) -> io::Result<()>,
) -> Result<(Header, Vec<FormatError>)> {
    let block = read_header_block(size, read)
        .map_err(|source| io_error(name, "read the header", source))?;
    iac_format::header_text(&block, size)
        .and_then(|text| Header::from_damaged_text(text, size))
        .map_err(|source| ReadError::Format { path: Arc::clone(name), source })
}

/// Reads the part of the fixed header that holds something: most have a few hundred bytes.
pub(crate) fn read_header_block(
    size: u64,
    read: impl Fn(u64, &mut [u8]) -> io::Result<()>,
) -> io::Result<Vec<u8>> {
    const FIRST_READ: u64 = 4096;
    let whole = size.min(HEADER_BYTES);
    let first = whole.min(FIRST_READ);
    let mut block = vec![0; usize::try_from(first).unwrap_or(usize::MAX)];
    read(0, &mut block)?;
    // The rest is only needed when it holds text; what is wrong is said by the parser.
    let needs_rest = block
        .get(8..12)
        .and_then(|word| word.first_chunk::<4>())
        .is_some_and(|word| u64::from(u32::from_le_bytes(*word)).saturating_add(16) > first);
    if needs_rest && whole > first {
        block.resize(usize::try_from(whole).unwrap_or(usize::MAX), 0);
        let rest =
            block.get_mut(usize::try_from(first).unwrap_or(usize::MAX)..).unwrap_or_default();
        read(first, rest)?;
    }
    Ok(block)
}

pub(crate) fn display_name(path: &Path) -> Arc<str> {
    Arc::from(path.to_string_lossy().as_ref())
}

pub(crate) fn io_error(path: &Arc<str>, action: &'static str, source: io::Error) -> ReadError {
    ReadError::Io { path: Arc::clone(path), action, source }
}
