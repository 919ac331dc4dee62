//! The structure of a BigTIFF file: values and directories, which follow all tiles.

use std::io::{self, BufWriter, Seek, SeekFrom, Write};

/// The bytes before anything else: byte order, version 43, sizes, the offset of the first directory.
const HEADER: [u8; 16] = [b'I', b'I', 43, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
/// Where the offset of the first directory stands.
const FIRST: u64 = 8;
/// The tag of directories below another.
const SUB_IFDS: u16 = 330;

/// A directory: values by tag, and directories of smaller versions.
#[derive(Debug, Clone, Default)]
pub(super) struct Directory {
    entries: Vec<Entry>,
    below: Vec<Self>,
}

#[derive(Debug, Clone)]
struct Entry {
    tag: u16,
    kind: u16,
    count: u64,
    /// Little-endian.
    bytes: Vec<u8>,
}

impl Directory {
    fn put(&mut self, tag: u16, kind: u16, count: usize, bytes: Vec<u8>) {
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        self.entries.push(Entry { tag, kind, count, bytes });
    }

    pub(super) fn shorts(&mut self, tag: u16, values: &[u16]) {
        self.put(tag, 3, values.len(), values.iter().flat_map(|it| it.to_le_bytes()).collect());
    }

    pub(super) fn long(&mut self, tag: u16, value: u32) {
        self.put(tag, 4, 1, value.to_le_bytes().to_vec());
    }

    /// Offsets and counts of 64 bits.
    pub(super) fn longs8(&mut self, tag: u16, values: &[u64]) {
        self.put(tag, 16, values.len(), values.iter().flat_map(|it| it.to_le_bytes()).collect());
    }

    pub(super) fn text(&mut self, tag: u16, text: &str) {
        let bytes = [text.as_bytes(), &[0]].concat();
        self.put(tag, 2, bytes.len(), bytes);
    }

    /// Bytes of no known type.
    pub(super) fn bytes(&mut self, tag: u16, bytes: &[u8]) {
        self.put(tag, 7, bytes.len(), bytes.to_vec());
    }

    pub(super) fn rational(&mut self, tag: u16, (top, bottom): (u32, u32)) {
        self.put(tag, 5, 1, [top.to_le_bytes(), bottom.to_le_bytes()].concat());
    }

    /// Puts a directory below this one.
    pub(super) fn add_below(&mut self, directory: Self) {
        self.below.push(directory);
    }
}

/// A file that is written from its start to its end.
pub(super) struct TiffWriter<W: Write + Seek> {
    file: BufWriter<W>,
    at: u64,
}

impl<W: Write + Seek> TiffWriter<W> {
    pub(super) fn new(file: W) -> io::Result<Self> {
        let mut made = Self { file: BufWriter::with_capacity(1 << 20, file), at: 0 };
        made.push(&HEADER)?;
        Ok(made)
    }

    /// Appends bytes, and tells where they are.
    pub(super) fn push(&mut self, bytes: &[u8]) -> io::Result<u64> {
        let at = self.at;
        self.file.write_all(bytes)?;
        self.at = at.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        Ok(at)
    }

    /// The same, at a multiple of 8.
    fn push_aligned(&mut self, bytes: &[u8]) -> io::Result<u64> {
        let over = usize::try_from(self.at % 8).unwrap_or(0);
        if over > 0 {
            self.push([0; 8].get(over..).unwrap_or_default())?;
        }
        self.push(bytes)
    }

    /// Writes all directories, and tells how many bytes there are.
    pub(super) fn finish(mut self, directories: Vec<Directory>) -> io::Result<u64> {
        let mut tables = Vec::new();
        for directory in directories {
            tables.push(self.place(directory)?);
        }
        // One behind the other, so that each knows where the next one is.
        self.push_aligned(&[])?;
        let first = self.at;
        let mut next = first;
        for (number, table) in tables.iter().enumerate() {
            let length = u64::try_from(table.len()).unwrap_or(u64::MAX);
            next = next.saturating_add(length).saturating_add(8);
            let is_last = number.saturating_add(1) == tables.len();
            self.push(table)?;
            self.push(&if is_last { 0 } else { next }.to_le_bytes())?;
        }
        self.file.flush()?;
        let file = self.file.get_mut();
        file.seek(SeekFrom::Start(FIRST))?;
        file.write_all(&first.to_le_bytes())?;
        file.flush()?;
        Ok(self.at)
    }

    /// Writes the values that do not stand in a directory, and gives its table without the offset of
    /// the next one. Directories below it are written as a whole.
    fn place(&mut self, directory: Directory) -> io::Result<Vec<u8>> {
        let Directory { mut entries, below } = directory;
        let mut offsets = Vec::new();
        for directory in below {
            let mut table = self.place(directory)?;
            table.extend(0_u64.to_le_bytes());
            offsets.push(self.push_aligned(&table)?);
        }
        if !offsets.is_empty() {
            let bytes = offsets.iter().flat_map(|it| it.to_le_bytes()).collect();
            let count = u64::try_from(offsets.len()).unwrap_or(u64::MAX);
            entries.push(Entry { tag: SUB_IFDS, kind: 18, count, bytes });
        }
        entries.sort_by_key(|entry| entry.tag);
        let mut table = u64::try_from(entries.len()).unwrap_or(u64::MAX).to_le_bytes().to_vec();
        for Entry { tag, kind, count, mut bytes } in entries {
            table.extend(tag.to_le_bytes());
            table.extend(kind.to_le_bytes());
            table.extend(count.to_le_bytes());
            if bytes.len() > 8 {
                bytes = self.push_aligned(&bytes)?.to_le_bytes().to_vec();
            }
            bytes.resize(8, 0);
            table.extend(bytes);
        }
        Ok(table)
    }
}
