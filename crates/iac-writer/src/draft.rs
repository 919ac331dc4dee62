//! A pack in the making: tables laid out, data segment open, header still to come.
//!
//! Nothing is written twice. The slide table is written first, room for header and index table is
//! left, the data segment goes to its final place, and the two reserved parts are filled in last.

use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use arrow_schema::Schema;
use crc32fast::Hasher;
use iac_format::table::{encoded_table_len, write_table};
use iac_format::{
    Checksums, FormatError, HEADER_BYTES, HeaderFacts, Layout, build_header_text, header_block,
};
use serde_json::{Map, Value};

use crate::Table;
use crate::columns::{ComputedColumns, IndexPlan};
use crate::error::{Result, WriteError};
use crate::options::WriteOptions;
use crate::publish::{Target, Temporary};

/// Bytes of a table that are collected before they are written.
const TABLE_BUFFER: usize = 256 << 10;

/// What was written, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct WriteSummary {
    /// The pack, as its path was given.
    pub path: PathBuf,
    /// Bytes of the whole file.
    pub file_bytes: u64,
    /// Bytes of the data segment.
    pub data_bytes: u64,
    /// Rows of the index table.
    pub rows: u64,
    /// Rows of the slide table.
    pub slides: u64,
    /// Where the segments lie.
    pub layout: Layout,
}

/// How the payload bytes of a pack are covered by checksums, beside the tables and the header.
#[derive(Debug, Clone, Copy)]
pub(crate) enum DataSum {
    /// By the index of a variable pack.
    Records,
    /// By the index of a fixed pack.
    FixedRows,
    /// As a whole.
    Whole(u32),
}

/// A table that has been written.
#[derive(Debug, Clone, Copy)]
struct Written {
    bytes: u64,
    sum: u32,
}

#[derive(Debug)]
pub(crate) struct Draft {
    target: Target,
    temporary: Temporary,
    options: WriteOptions,
    num_slides: u64,
    slides_sum: u32,
    index: IndexPlan,
    /// Bytes of the index stream, without padding.
    stream_bytes: u64,
    padding: u64,
    layout: Layout,
}

impl Draft {
    /// Lays out the tables and leaves the file positioned at the start of the data segment.
    ///
    /// `data` is the least length that the data segment will have, and `sum` how it will be
    /// covered: what can be refused is refused here, before any payload.
    pub(crate) fn begin(
        target: Target,
        header: &Map<String, Value>,
        slides: &Table,
        index: IndexPlan,
        options: &WriteOptions,
        data: u64,
        sum: DataSum,
    ) -> Result<Self> {
        let path = target.shown();
        let temporary = target.create_temporary()?;
        let written = write_segment(
            path,
            temporary.file(),
            HEADER_BYTES,
            slides.schema(),
            slides.written_batches(),
            0,
        )?;
        let index_offset = HEADER_BYTES.saturating_add(written.bytes);
        let blank = index.fill_blank().map_err(WriteError::format(path))?;
        let stream_bytes =
            encoded_table_len(index.schema(), &blank).map_err(WriteError::format(path))?;
        drop(blank);
        let padding = Layout::padding(index_offset, stream_bytes, options.data_alignment)
            .map_err(WriteError::format(path))?;
        let index_bytes = stream_bytes.saturating_add(padding);
        let layout =
            Layout::new(written.bytes, index_bytes, data).map_err(WriteError::format(path))?;
        let draft = Self {
            options: *options,
            num_slides: slides.num_rows(),
            slides_sum: written.sum,
            index,
            stream_bytes,
            padding,
            layout,
            temporary,
            target,
        };
        // Sums and lengths that are not known yet count as zeros, the shortest of numbers: text
        // that does not fit now never will, and text that might is given its chance.
        draft.header_text(header, Checksums::of_tables(0, 0), sum)?;
        let mut file = draft.temporary.file();
        file.seek(SeekFrom::Start(draft.layout.data.offset))
            .map_err(WriteError::io(draft.path(), "cannot position the temporary file"))?;
        Ok(draft)
    }

    /// The destination as the caller gave it.
    pub(crate) fn path(&self) -> &Path {
        self.target.shown()
    }

    /// The file, positioned in its data segment.
    pub(crate) const fn file(&self) -> &File {
        self.temporary.file()
    }

    /// Whether this process began the pack.
    pub(crate) fn is_own(&self) -> bool {
        self.temporary.is_own()
    }

    pub(crate) const fn data_offset(&self) -> u64 {
        self.layout.data.offset
    }

    pub(crate) const fn rows(&self) -> u64 {
        self.index.rows()
    }

    /// Fills in index table and header, and publishes the pack.
    pub(crate) fn finish(
        mut self,
        header: &Map<String, Value>,
        columns: ComputedColumns,
        data: u64,
        sum: DataSum,
    ) -> Result<WriteSummary> {
        let path = self.target.shown();
        let format = |error| WriteError::format(path)(error);
        let segments = (self.layout.slide_table.length, self.layout.index_table.length);
        self.layout = Layout::new(segments.0, segments.1, data).map_err(format)?;
        let batches = self.index.fill(columns).map_err(format)?;
        let index = write_segment(
            path,
            self.temporary.file(),
            self.layout.index_table.offset,
            self.index.schema(),
            &batches,
            self.padding,
        )?;
        if index.bytes != self.layout.index_table.length {
            return Err(format(FormatError::Argument {
                reason: format!(
                    "index table takes {} bytes where {} are reserved",
                    index.bytes, self.stream_bytes
                ),
            }));
        }
        let sums = Checksums::of_tables(self.slides_sum, index.sum);
        let text = self.header_text(header, sums, sum)?;
        let block = header_block(&text).map_err(format)?;
        let mut file = self.temporary.file();
        file.rewind()
            .and_then(|()| file.write_all(&block))
            .map_err(WriteError::io(path, "cannot write the header"))?;
        let found = file.metadata().map(|metadata| metadata.len());
        let found = found.map_err(WriteError::io(path, "cannot examine the temporary file"))?;
        if found != self.layout.end() {
            return Err(WriteError::Io {
                path: path.to_owned(),
                action: "the temporary file has another size than was written",
                source: io::ErrorKind::InvalidData.into(),
            });
        }
        let summary = WriteSummary {
            path: path.to_owned(),
            file_bytes: self.layout.end(),
            data_bytes: data,
            rows: self.index.rows(),
            slides: self.num_slides,
            layout: self.layout,
        };
        self.target.publish(self.temporary)?;
        Ok(summary)
    }

    fn header_text(
        &self,
        header: &Map<String, Value>,
        sums: Checksums,
        data: DataSum,
    ) -> Result<String> {
        let sums = match data {
            DataSum::Records => sums,
            DataSum::FixedRows => sums.with_rows(),
            DataSum::Whole(data) => sums.with_data(data),
        };
        let facts = HeaderFacts {
            layout: self.layout,
            num_slides: self.num_slides,
            num_records: self.index.rows(),
            checksums: self.options.checksums.then_some(sums),
        };
        build_header_text(header, &facts).map_err(WriteError::format(self.path()))
    }
}

/// The header text with zeros for all that is not known yet: what does not fit here never will.
pub(crate) fn shortest_header_text(
    header: &Map<String, Value>,
    checksums: bool,
) -> Result<String, FormatError> {
    let facts = HeaderFacts {
        layout: Layout::new(0, 0, 0)?,
        num_slides: 0,
        num_records: 0,
        checksums: checksums.then(|| Checksums::of_tables(0, 0)),
    };
    build_header_text(header, &facts)
}

/// Writes a table and `padding` zero bytes behind it; the result covers both.
fn write_segment(
    path: &Path,
    mut file: &File,
    offset: u64,
    schema: &Schema,
    batches: &[RecordBatch],
    padding: u64,
) -> Result<Written> {
    file.seek(SeekFrom::Start(offset))
        .map_err(WriteError::io(path, "cannot position the temporary file"))?;
    let mut sink =
        BufWriter::with_capacity(TABLE_BUFFER, SummingSink { file, bytes: 0, sum: Hasher::new() });
    write_table(&mut sink, schema, batches)
        .and_then(|_| io::copy(&mut io::Read::take(io::repeat(0), padding), &mut sink))
        .map_err(|error| table_error(path, error))?;
    let sink = sink.into_inner().map_err(|error| table_error(path, error.into_error()))?;
    Ok(Written { bytes: sink.bytes, sum: sink.sum.finalize() })
}

/// Takes the format's own complaint out of an I/O error.
fn table_error(path: &Path, error: io::Error) -> WriteError {
    let format = error.get_ref().and_then(|inner| inner.downcast_ref::<FormatError>()).cloned();
    match format {
        Some(format) => WriteError::format(path)(format),
        None => WriteError::io(path, "cannot write a table")(error),
    }
}

struct SummingSink<'a> {
    file: &'a File,
    bytes: u64,
    sum: Hasher,
}

impl Write for SummingSink<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.sum.update(bytes.get(..written).unwrap_or_default());
        self.bytes = self.bytes.saturating_add(u64::try_from(written).unwrap_or(0));
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
