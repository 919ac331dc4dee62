//! From the image files of a manifest to payloads.

use std::path::{Path, PathBuf};

use iac_codec::{Codec, SampleType};
use iac_format::ErrorKind;
use iac_ops::ordered::{Bounds, for_each_ordered};
use iac_ops::{OpsError, Progress};

use crate::error::{AdapterError, Result};
use crate::manifest::ManifestReader;
use crate::record::{CheckedRecords, TileRecord};
use crate::task::Task;
use crate::tiles::build::{TilePackBuilder, TileSize};
use crate::tiles::options::{JpegSources, WideSamples};
use crate::tiles::plan::Plan;
use crate::tiles::source::{FileStamp, Format, SourceInfo, SourceReader, source_error};

impl TilePackBuilder {
    /// Looks at the beginning of every image before any is encoded.
    pub(super) fn look_at(
        &self,
        sources: &Sources<'_>,
        records: &CheckedRecords,
        progress: &dyn Progress,
    ) -> Result<Found> {
        let task = Task::begin(progress, "looking at images", Some(records.rows()));
        let mut found = Found::default();
        let mut failure = None;
        let bounds = Bounds { workers: self.workers, cost: 256 };
        let result = for_each_ordered(
            (0_u64..).zip(sources.paths()?),
            bounds,
            progress,
            |_| 1,
            |(row, item): (u64, Result<(TileRecord, PathBuf)>)| {
                Ok(item.and_then(|(record, path)| {
                    if record.tile_id != records.id(row) {
                        return Err(changed(sources.manifest));
                    }
                    let info = sources.reader.probe(&path, row)?;
                    Ok((path, info))
                }))
            },
            |looked| {
                let row = found.rows;
                let added = looked.and_then(|(path, info)| found.add(self, &path, info));
                task.advance(1);
                added.map_err(|error| {
                    failure = Some(listed(sources.manifest, row, error));
                    OpsError::Cancelled
                })
            },
        );
        match (failure, result) {
            (Some(error), _) => return Err(error),
            (None, result) => result?,
        }
        if found.rows != records.rows() {
            return Err(changed(sources.manifest));
        }
        Ok(found)
    }

    pub(super) fn encode(
        &self,
        records: &CheckedRecords,
        sources: &Sources<'_>,
        encoder: &Encoder,
        plan: &Plan,
        row: u64,
        item: Result<(TileRecord, PathBuf)>,
    ) -> Result<Encoded> {
        let (record, path) = item?;
        if record.tile_id != records.id(row) {
            return Err(changed(sources.manifest));
        }
        // Before the content: a change in between makes the journal's entry useless, not wrong.
        let stamp = FileStamp::of(&path)?;
        let codec = match encoder {
            Encoder::Jxl(codec) => codec,
            Encoder::KeptJpeg | Encoder::Stored => {
                let payload = sources.reader.bytes(&path, row)?;
                return Ok(Encoded { payload, stamp, kind: None });
            }
        };
        #[cfg(feature = "jxl")]
        if self.jpeg == JpegSources::Transcode
            && sources.reader.probe(&path, row)?.format == Format::Jpeg
        {
            let payload = self.transcode(&path, row, sources)?;
            let kind = codec
                .image_info(&payload)
                .ok()
                .map(|info| (info.shape.channels(), info.sample_type));
            return Ok(Encoded { payload, stamp, kind });
        }
        let image = sources.reader.load(&path, row)?;
        let shape = image.shape();
        let size = TileSize { width: shape.width(), height: shape.height() };
        let expected = plan.size_of(row);
        if expected.is_some_and(|expected| expected != size) {
            return Err(source_error(&path, row, ErrorKind::Io, "changed while it was packed"));
        }
        let payload = codec.encode_image(&image.as_view()).map_err(|source| {
            AdapterError::Codec { path: path.display().to_string(), row: Some(row), source }
        })?;
        let kind = Some((shape.channels(), image.sample_type()));
        Ok(Encoded { payload, stamp, kind })
    }

    #[cfg(feature = "jxl")]
    pub(super) fn transcode(
        &self,
        path: &Path,
        row: u64,
        sources: &Sources<'_>,
    ) -> Result<Vec<u8>> {
        let bytes = sources.reader.bytes(path, row)?;
        let effort = u8::try_from(self.effort.unwrap_or(7)).unwrap_or(u8::MAX);
        let options = iac_codec::jxl::TranscodeOptions::default()
            .with_effort(effort)
            .with_limits(self.limits);
        iac_codec::jxl::transcode_jpeg(&bytes, options).map_err(|source| AdapterError::Codec {
            path: path.display().to_string(),
            row: Some(row),
            source,
        })
    }
}

/// How payloads come about.
#[derive(Debug)]
pub(super) enum Encoder {
    Jxl(Codec),
    KeptJpeg,
    /// Somebody else has encoded them.
    Stored,
}

/// One tile, encoded.
pub(super) struct Encoded {
    pub(super) payload: Vec<u8>,
    pub(super) stamp: FileStamp,
    /// Channels and samples, where pixels were encoded.
    pub(super) kind: Option<(u32, SampleType)>,
}

/// What the images say of themselves.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) rows: u64,
    /// The size of all, as long as they have one.
    pub(super) size: Option<TileSize>,
    /// The size of each, where there are several.
    pub(super) sizes: Vec<TileSize>,
    pub(super) largest: u64,
    pub(super) is_wide: bool,
}

impl Found {
    pub(super) fn add(
        &mut self,
        builder: &TilePackBuilder,
        path: &Path,
        info: SourceInfo,
    ) -> Result<()> {
        let row = self.rows;
        if builder.jpeg == JpegSources::Keep && info.format != Format::Jpeg {
            return Err(source_error(
                path,
                row,
                ErrorKind::Unsupported,
                "is no JPEG file, so its bytes cannot be kept",
            ));
        }
        if builder.jpeg == JpegSources::Keep && info.is_cmyk {
            return Err(source_error(
                path,
                row,
                ErrorKind::Unsupported,
                "is CMYK, so its bytes cannot be kept: readers would not know its colours",
            ));
        }
        // What a turned image is like shows when it is decoded.
        let size = TileSize { width: info.width, height: info.height };
        if self.rows == 0 {
            self.size = Some(size);
        } else if self.size != Some(size) {
            if !builder.several_sizes {
                let first = self.size.unwrap_or(size);
                return Err(source_error(
                    path,
                    row,
                    ErrorKind::Schema,
                    format!(
                        "is {} x {}, but the tiles before it are {} x {}: all tiles must share one size unless `several_sizes` is set",
                        size.width, size.height, first.width, first.height
                    ),
                ));
            }
            if let Some(same) = self.size.take() {
                let rows = usize::try_from(self.rows).unwrap_or(usize::MAX);
                self.sizes = vec![same; rows];
            }
            self.sizes.push(size);
        }
        self.largest =
            self.largest.max(u64::from(size.width).saturating_mul(u64::from(size.height)));
        self.is_wide |= info.is_wide && builder.rules.wide == WideSamples::Keep;
        self.rows = self.rows.saturating_add(1);
        Ok(())
    }

    pub(super) fn size_of(&self, row: usize) -> Option<TileSize> {
        self.size.or_else(|| self.sizes.get(row).copied())
    }

    /// Memory that one tile takes while it is encoded, roughly.
    pub(super) fn cost(&self) -> u64 {
        let per_pixel = if self.is_wide { 48 } else { 24 };
        self.largest.saturating_mul(per_pixel).saturating_add(1 << 16)
    }
}

/// The images of a manifest.
pub(super) struct Sources<'a> {
    pub(super) manifest: &'a Path,
    pub(super) root: PathBuf,
    pub(super) reader: SourceReader,
}

impl Sources<'_> {
    /// The records with the paths of their images, read from the manifest anew.
    pub(super) fn paths(
        &self,
    ) -> Result<impl Iterator<Item = Result<(TileRecord, PathBuf)>> + Send> {
        let root = self.root.clone();
        Ok(ManifestReader::open(self.manifest)?.map(move |record| {
            let record = record?;
            // An absolute path takes the place of the root.
            let path = root.join(&record.tile_path);
            Ok((record, path))
        }))
    }
}

/// Says at which line of the manifest the record stands that an error is about. One about the
/// manifest itself stays as it is.
///
/// This reads the manifest again up to that line, so it is for the one error that ends a build.
pub(super) fn listed(manifest: &Path, row: u64, source: AdapterError) -> AdapterError {
    if source.path() == Some(manifest) {
        return source;
    }
    let line = ManifestReader::open(manifest).ok().and_then(|mut records| {
        records.nth(usize::try_from(row).ok()?)?.ok()?;
        Some(records.line())
    });
    match line {
        Some(line) => {
            AdapterError::Listed { path: manifest.to_owned(), line, source: Box::new(source) }
        }
        None => source,
    }
}

pub(super) fn changed(manifest: &Path) -> AdapterError {
    source_error(manifest, None, ErrorKind::Io, "the manifest changed while it was packed")
}
