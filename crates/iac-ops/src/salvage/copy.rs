//! Writing the new pack: sound records, or a whole data segment.

use std::fs;
use std::io::Write;
use std::path::Path;

use iac_format::{CHECKSUMS_EXTENSION, CHECKSUMS_MEMBER, CRC32_COLUMN, EXTENSIONS_MEMBER};
use iac_reader::PackKind;
use iac_writer::{
    PackWriter, Table, WriteError, WriteOptions, WriteSummary, build_pack_data_segment_from_file,
};
use serde_json::{Map, Value};
use tempfile::NamedTempFile;

use super::Salvage;
use crate::error::{OpsError, Result};
use crate::progress::{Task, check_cancelled};
use crate::shared::Shared;

/// Bytes of a data segment that are copied at once.
const STRETCH: u64 = 4 << 20;

/// The header's number of objects.
const OBJECTS_MEMBER: &str = "num_instances";

impl Salvage<'_> {
    /// The header's members for the new pack.
    fn header(&self) -> Map<String, Value> {
        let header = self.pack.header();
        let mut members = header.members().clone();
        if header.extensions().contains(&CHECKSUMS_EXTENSION) || header.checksums().is_some() {
            members.remove(CHECKSUMS_MEMBER);
        }
        if let (Some(objects), true) = (self.objects, members.contains_key(OBJECTS_MEMBER)) {
            members.insert(OBJECTS_MEMBER.to_owned(), objects.into());
        }
        members
    }

    /// Writes with checksums, or without them where something of the pack's own is in their way:
    /// salvaging must not fail for what a writer would only like to add.
    fn write<T>(
        &self,
        index: &Table,
        write: impl Fn(&WriteOptions) -> Result<T, WriteError>,
    ) -> Result<T> {
        let header = self.header();
        let names_taken = header.contains_key(CHECKSUMS_MEMBER)
            || header.get(EXTENSIONS_MEMBER).is_some_and(|names| !names.is_array());
        let column_taken = matches!(self.pack.kind(), Ok(PackKind::Fixed))
            && index.schema().fields().iter().any(|field| field.name() == CRC32_COLUMN);
        if names_taken || column_taken {
            return Ok(write(&self.options.write.checksums(false))?);
        }
        match write(&self.options.write) {
            // The header may be so full that the sums find no room.
            Err(WriteError::Format { .. }) if self.options.write.checksums => {
                Ok(write(&self.options.write.checksums(false))?)
            }
            written => Ok(written?),
        }
    }

    pub(super) fn copy_records(
        &self,
        slides: &Table,
        index: &Table,
        rows: &[u64],
    ) -> Result<WriteSummary> {
        let mut writer = self.write(index, |options| {
            PackWriter::with_index(self.out, self.header(), slides, index, options)
        })?;
        // Metadata that records share has no checksum here; its schema's reader compares its own.
        let shared = Shared::find(self.pack)?;
        if let Some(shared) = shared {
            shared.write(self.pack, &mut writer).map_err(|error| {
                self.beyond_reason(format!("its metadata cannot be read: {}", error.reason()))
            })?;
        }
        let task = Task::begin(self.progress, "copying", Some(index.num_rows()));
        let mut rest = rows;
        let mut written = 0_u64;
        while !rest.is_empty() {
            check_cancelled(self.progress)?;
            let (batch, behind) = rest.split_at(self.batch(rest));
            rest = behind;
            for record in self.pack.read_rows(batch)? {
                writer.push(&record)?;
                written = written.saturating_add(u64::try_from(record.len()).unwrap_or(u64::MAX));
                task.advance(1);
            }
        }
        if let Some(shared) = shared {
            shared.write_tail(self.pack, &mut writer, written)?;
        }
        Ok(writer.finish()?)
    }

    /// How many of the rows are read at once.
    fn batch(&self, rows: &[u64]) -> usize {
        let mut bytes = 0_u64;
        let count = rows
            .iter()
            .take_while(|row| {
                let fits = bytes < STRETCH;
                bytes = bytes.saturating_add(self.pack.span(**row).map_or(0, |span| span.length));
                fits
            })
            .count();
        count.min(4096)
    }

    pub(super) fn copy_fixed(
        &self,
        slides: &Table,
        index: &Table,
        rows: Option<&[u64]>,
    ) -> Result<WriteSummary> {
        let spool = self.spool()?;
        let task = Task::begin(self.progress, "copying", Some(index.num_rows()));
        let mut length = 0_u64;
        let mut rest = rows.unwrap_or_default();
        while !rest.is_empty() {
            check_cancelled(self.progress)?;
            let (batch, behind) = rest.split_at(self.batch(rest));
            rest = behind;
            let records = self.pack.read_contiguous(batch)?;
            length = length.saturating_add(self.append(&spool, records.buffer())?);
            task.advance(u64::try_from(batch.len()).unwrap_or(u64::MAX));
        }
        self.join(slides, index, &spool, length)
    }

    pub(super) fn copy_segment(&self, slides: &Table, index: &Table) -> Result<WriteSummary> {
        let cut = self.pack.damage().iter().find(|error| error.field() == Some("data_length"));
        if let Some(error) = cut {
            return Err(self.beyond_reason(format!(
                "{error}, and nothing tells the parts of the data segment apart"
            )));
        }
        let spool = self.spool()?;
        let length = self.pack.layout().data.length;
        let task = Task::begin(self.progress, "copying", Some(length));
        let mut sum = crc32fast::Hasher::new();
        let mut done = 0_u64;
        while done < length {
            check_cancelled(self.progress)?;
            let part = length.saturating_sub(done).min(STRETCH);
            let bytes = self.pack.read_data_span(done, part)?;
            sum.update(&bytes);
            self.append(&spool, &bytes)?;
            done = done.saturating_add(part);
            task.advance(part);
        }
        let computed = sum.finalize();
        if let Some(stored) = self.pack.header().checksums().and_then(|sums| sums.data)
            && stored != computed
        {
            return Err(self.beyond_reason(format!(
                "data segment: checksum mismatch (stored {stored:#010x}, computed {computed:#010x}), and nothing tells its parts apart"
            )));
        }
        self.join(slides, index, &spool, length)
    }

    /// A nameless place for a data segment, on the disk that the new pack goes to.
    fn spool(&self) -> Result<NamedTempFile> {
        let absolute = std::path::absolute(self.out)
            .map_err(OpsError::io(self.out, "cannot find the current folder"))?;
        let folder = absolute.parent().unwrap_or(Path::new(""));
        fs::create_dir_all(folder).map_err(OpsError::io(folder, "cannot make the folder"))?;
        tempfile::Builder::new()
            .prefix(".iac-salvage-")
            .suffix(".part")
            .tempfile_in(folder)
            .map_err(OpsError::io(folder, "cannot create a temporary file"))
    }

    fn append(&self, spool: &NamedTempFile, bytes: &[u8]) -> Result<u64> {
        let mut file = spool.as_file();
        file.write_all(bytes)
            .map_err(OpsError::io(spool.path(), "cannot write to the temporary file"))?;
        Ok(u64::try_from(bytes.len()).unwrap_or(u64::MAX))
    }

    fn join(
        &self,
        slides: &Table,
        index: &Table,
        spool: &NamedTempFile,
        length: u64,
    ) -> Result<WriteSummary> {
        self.write(index, |options| {
            build_pack_data_segment_from_file(
                self.out,
                &self.header(),
                slides,
                index,
                spool.path(),
                length,
                options,
            )
        })
    }
}
