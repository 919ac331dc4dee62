//! Data segments that are one piece: from memory, or from a file.

use std::fs::File;
use std::path::Path;

use crc32fast::Hasher;
use iac_format::{FixedShape, FormatError, Header};
use serde_json::{Map, Value};

use crate::columns::{ComputedColumns, IndexPlan, refuse_span_columns};
use crate::data::{Appender, RowSummer, SegmentSums};
use crate::draft::{DataSum, Draft, WriteSummary, shortest_header_text};
use crate::error::{Result, WriteError};
use crate::options::WriteOptions;
use crate::platform::{self, FileState, read_some};
use crate::publish::Target;
use crate::table::Table;

/// Bytes that are read, or summed and written, at a time: they stay in the processor's cache.
pub(crate) const STRETCH: usize = 1 << 20;

const WRITE_FAILED: &str = "cannot write the data";

/// A data segment on its way into a pack.
pub(crate) struct SegmentWriter {
    draft: Draft,
    sums: SegmentSums,
    appender: Appender,
    /// Bytes that came past the appender.
    copied: u64,
}

impl SegmentWriter {
    pub(crate) fn begin(
        mut target: Target,
        header: &Map<String, Value>,
        slides: &Table,
        index: &Table,
        data: u64,
        options: &WriteOptions,
    ) -> Result<Self> {
        let path = target.shown();
        refuse_span_columns(path, index)?;
        let shape = fixed_shape(path, header, data, index.num_rows())?;
        let (plan, sums, sum) = match shape {
            _ if !options.checksums => {
                (IndexPlan::unchanged(path, index)?, SegmentSums::None, DataSum::Records)
            }
            Some(shape) => {
                let plan = IndexPlan::with_row_sums(path, index)?;
                let sums = row_summer(path, &shape, plan.rows())?;
                (plan, SegmentSums::Rows(sums), DataSum::FixedRows)
            }
            None => (
                IndexPlan::unchanged(path, index)?,
                SegmentSums::Whole(Hasher::new()),
                DataSum::Whole(0),
            ),
        };
        target.prepare()?;
        let draft = Draft::begin(target, header, slides, plan, options, data, sum)?;
        Ok(Self { appender: Appender::new(draft.data_offset()), draft, sums, copied: 0 })
    }

    /// Appends bytes.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.sums.update(bytes);
        self.appender
            .append(self.draft.file(), bytes)
            .map_err(WriteError::io(self.draft.path(), WRITE_FAILED))
    }

    /// Bytes that the segment has so far.
    fn length(&self) -> u64 {
        self.copied.saturating_add(self.appender.accepted())
    }

    /// Takes the segment's bytes from a file without looking at them.
    fn copy_inside_kernel(&mut self, source: &File, length: u64) -> Result<()> {
        let offset = self.draft.data_offset();
        self.copied = platform::copy_range(source, 0, self.draft.file(), offset, length)
            .map_err(WriteError::io(self.draft.path(), "cannot copy the source"))?;
        Ok(())
    }

    pub(crate) fn finish(mut self, header: &Map<String, Value>) -> Result<WriteSummary> {
        self.appender
            .flush(self.draft.file())
            .map_err(WriteError::io(self.draft.path(), WRITE_FAILED))?;
        let data = self.length();
        let mut columns = ComputedColumns::default();
        let sum = match self.sums {
            SegmentSums::None => DataSum::Records,
            SegmentSums::Whole(hasher) => DataSum::Whole(hasher.finalize()),
            SegmentSums::Rows(rows) => {
                columns.crc32s = rows.into_sums();
                DataSum::FixedRows
            }
        };
        self.draft.finish(header, columns, data, sum)
    }
}

/// The shape that the header gives to the rows of a fixed pack, checked against the data.
fn fixed_shape(
    path: &Path,
    header: &Map<String, Value>,
    data: u64,
    rows: u64,
) -> Result<Option<FixedShape>> {
    let shape = shortest_header_text(header, false)
        .and_then(|text| Header::from_text(text, u64::MAX))
        .and_then(|header| header.fixed_shape())
        .and_then(|shape| {
            if let Some(shape) = &shape {
                shape.check_data_length(data, rows)?;
            }
            Ok(shape)
        });
    shape.map_err(|error| match error {
        FormatError::HeaderField { field, reason } => {
            WriteError::HeaderField { path: path.to_owned(), field, reason }
        }
        other => WriteError::format(path)(other),
    })
}

fn row_summer(path: &Path, shape: &FixedShape, rows: u64) -> Result<RowSummer> {
    let sizes = usize::try_from(shape.record_bytes).ok().zip(usize::try_from(rows).ok());
    let summer = sizes.and_then(|(row_bytes, rows)| RowSummer::new(row_bytes, rows));
    summer.ok_or_else(|| WriteError::TooManyRows { path: path.to_owned(), rows })
}

/// A file that becomes a data segment.
pub(crate) struct SourceFile<'a> {
    path: &'a Path,
    file: File,
    length: u64,
    /// State of a regular file when it was opened; of pipes and devices there is none.
    state: Option<FileState>,
}

impl<'a> SourceFile<'a> {
    pub(crate) fn open(target: &Path, path: &'a Path, length: u64) -> Result<Self> {
        let file = File::open(path).map_err(WriteError::io(path, "cannot open the source"))?;
        let metadata =
            file.metadata().map_err(WriteError::io(path, "cannot examine the source"))?;
        let opened = Self {
            path,
            file,
            length,
            state: metadata.is_file().then(|| FileState::of(&metadata)),
        };
        if metadata.is_file() && metadata.len() != length {
            return Err(opened.wrong_length(target, metadata.len(), false));
        }
        Ok(opened)
    }

    /// Copies the whole file into a segment.
    pub(crate) fn copy_to(&self, segment: &mut SegmentWriter) -> Result<()> {
        let target = segment.draft.path().to_owned();
        if self.state.is_some() && matches!(segment.sums, SegmentSums::None) {
            segment.copy_inside_kernel(&self.file, self.length)?;
        } else {
            self.read_into(segment, &target)?;
        }
        self.check_state(&target)?;
        if segment.length() != self.length {
            return Err(self.wrong_length(&target, segment.length(), false));
        }
        Ok(())
    }

    fn read_into(&self, segment: &mut SegmentWriter, target: &Path) -> Result<()> {
        let mut reader = &self.file;
        let mut buffer = vec![0; STRETCH];
        loop {
            let bytes = read_some(&mut reader, &mut buffer)
                .map_err(WriteError::io(self.path, "cannot read the source"))?;
            if bytes.is_empty() {
                return Ok(());
            }
            let found = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
            let found = segment.length().saturating_add(found);
            if found > self.length {
                self.check_state(target)?;
                return Err(self.wrong_length(target, found, true));
            }
            segment.write(bytes)?;
        }
    }

    /// Notices that somebody wrote to the source since it was opened.
    fn check_state(&self, target: &Path) -> Result<()> {
        let Some(state) = &self.state else {
            return Ok(());
        };
        let metadata = self.file.metadata();
        let metadata = metadata.map_err(WriteError::io(self.path, "cannot examine the source"))?;
        if FileState::of(&metadata) == *state {
            return Ok(());
        }
        Err(WriteError::SourceChanged {
            path: target.to_owned(),
            source_path: self.path.to_owned(),
        })
    }

    fn wrong_length(&self, target: &Path, found: u64, more: bool) -> WriteError {
        WriteError::DataLength {
            path: target.to_owned(),
            source_path: self.path.to_owned(),
            expected: self.length,
            found,
            more,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iac_format::ErrorKind;
    use std::fs;
    use std::io::Write;

    #[test]
    fn a_source_that_changes_while_it_is_copied_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("a.iac");
        let path = folder.path().join("source");
        for checksums in [true, false] {
            let options = WriteOptions::new().checksums(checksums).sync(false);
            for change in ["longer", "shorter", "other"] {
                fs::write(&path, vec![1; 100_000]).unwrap();
                let source = SourceFile::open(&target, &path, 100_000).unwrap();
                let none = (Map::new(), Table::empty());
                let mut segment = SegmentWriter::begin(
                    Target::new(&target, &options).unwrap(),
                    &none.0,
                    &none.1,
                    &none.1,
                    100_000,
                    &options,
                )
                .unwrap();
                // Clocks of file systems are coarse.
                std::thread::sleep(std::time::Duration::from_millis(20));
                let mut file = fs::OpenOptions::new().write(true).open(&path).unwrap();
                match change {
                    "longer" => file.set_len(100_001).unwrap(),
                    "shorter" => file.set_len(99_999).unwrap(),
                    _ => file.write_all(b"x").unwrap(),
                }
                let error = source.copy_to(&mut segment).unwrap_err();
                assert!(matches!(error, WriteError::SourceChanged { .. }), "{change}: {error}");
                assert_eq!(error.kind(), ErrorKind::Io);
            }
        }
    }
}
