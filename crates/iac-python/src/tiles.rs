//! Packs of image tiles, and manifests.

use std::path::PathBuf;

use iatrocache::adapters::manifest::{read_manifest, write_manifest};
use iatrocache::adapters::tiles::{TilePackBuilder, TilePackReader, TileReadOptions, TileSize};
use iatrocache::adapters::{AdapterError, TileRecord};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyTuple;

use crate::buffer::{Buffer, Held};
use crate::codec::members;
use crate::errors::{Fault, Raise};
use crate::interrupt::{Watch, interruptible};
use crate::reader::{Reader, image_parts, scale_of};
use crate::rows::{self, Negative};
use crate::write::Writing;

/// A record as Python has it: the fields of `TileRecord` in their order.
pub(crate) type RecordParts = (String, String, String, PathBuf, i64, i64, Option<String>);

pub(crate) fn record(
    (tile_id, patient_id, slide_id, tile_path, x, y, split): RecordParts,
) -> TileRecord {
    TileRecord { tile_id, patient_id, slide_id, tile_path, x, y, split }
}

pub(crate) fn parts(record: TileRecord) -> RecordParts {
    let TileRecord { tile_id, patient_id, slide_id, tile_path, x, y, split } = record;
    (tile_id, patient_id, slide_id, tile_path, x, y, split)
}

/// The tiles of an open pack.
#[pyclass(frozen, module = "iatrocache._native")]
pub(crate) struct Tiles {
    pack: TilePackReader,
}

impl Tiles {
    fn with(&self, workers: Option<usize>, scale: u32) -> PyResult<TilePackReader> {
        let mut pack = self.pack.clone();
        if scale != 1 {
            pack = pack.with_scale(scale_of(scale)?);
        }
        if let Some(workers) = rows::workers(workers)? {
            pack = pack.with_workers(workers);
        }
        Ok(pack)
    }

    fn row(&self, row: &Bound<'_, PyAny>) -> PyResult<u64> {
        rows::row(row, || Ok(self.pack.record_count()), Negative::Refused)
    }

    fn rows(&self, rows: &Bound<'_, PyAny>) -> PyResult<Vec<u64>> {
        rows::rows(rows, || Ok(self.pack.record_count()), Negative::Refused)
    }
}

#[pymethods]
impl Tiles {
    #[new]
    fn new(py: Python<'_>, reader: &Reader) -> PyResult<Self> {
        let pack = reader.pack()?;
        let pack =
            py.detach(|| TilePackReader::from_reader(pack, &TileReadOptions::default())).raise()?;
        Ok(Self { pack })
    }

    #[getter]
    fn record_count(&self) -> u64 {
        self.pack.record_count()
    }

    /// Width and height, where all tiles have the same.
    #[getter]
    fn tile_size(&self) -> Option<(u32, u32)> {
        self.pack.tile_size().map(|size| (size.width, size.height))
    }

    fn tile_id(&self, row: &Bound<'_, PyAny>) -> PyResult<String> {
        let row = self.row(row)?;
        Ok(self.pack.tile_id(row).raise()?.to_owned())
    }

    fn row_of(&self, py: Python<'_>, tile_id: &str) -> PyResult<u64> {
        py.detach(|| self.pack.row_of(tile_id)).raise()
    }

    fn record(&self, row: &Bound<'_, PyAny>) -> PyResult<RecordParts> {
        let row = self.row(row)?;
        Ok(parts(self.pack.record(row).raise()?))
    }

    fn records(&self, py: Python<'_>) -> PyResult<Vec<RecordParts>> {
        let records = py.detach(|| -> Result<Vec<_>, AdapterError> {
            self.pack.records()?.map(|record| record.map(parts)).collect()
        });
        records.raise()
    }

    /// A tile as it is stored, one to four channels: memory, shape and type.
    #[pyo3(signature = (row, scale=1))]
    fn read<'py>(
        &self,
        py: Python<'py>,
        row: &Bound<'py, PyAny>,
        scale: u32,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let (row, pack) = (self.row(row)?, self.with(None, scale)?);
        image_parts(py, py.detach(|| pack.read(row)).raise()?)
    }

    /// Tiles as they are stored: memory, shape and type of each.
    #[pyo3(signature = (rows, workers=None, scale=1))]
    fn read_many<'py>(
        &self,
        py: Python<'py>,
        rows: &Bound<'py, PyAny>,
        workers: Option<usize>,
        scale: u32,
    ) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        let (rows, pack) = (self.rows(rows)?, self.with(workers, scale)?);
        let tiles = py.detach(|| pack.read_many(&rows)).raise()?;
        tiles.into_iter().map(|tile| image_parts(py, tile)).collect()
    }

    /// A tile as RGB: memory, height and width.
    #[pyo3(signature = (row, scale=1))]
    fn read_rgb<'py>(
        &self,
        py: Python<'py>,
        row: &Bound<'py, PyAny>,
        scale: u32,
    ) -> PyResult<(Bound<'py, Buffer>, u32, u32)> {
        let (row, pack) = (self.row(row)?, self.with(None, scale)?);
        let tile = py.detach(|| pack.read_rgb(row)).raise()?;
        Ok((Bound::new(py, Buffer::owned(tile.pixels))?, tile.height, tile.width))
    }

    /// Tiles of one size as RGB into one buffer: memory and number.
    #[pyo3(signature = (rows, workers=None, scale=1))]
    fn read_rgb_batch<'py>(
        &self,
        py: Python<'py>,
        rows: &Bound<'py, PyAny>,
        workers: Option<usize>,
        scale: u32,
    ) -> PyResult<(Bound<'py, Buffer>, usize)> {
        let (rows, pack) = (self.rows(rows)?, self.with(workers, scale)?);
        let pixels = py.detach(|| pack.read_rgb_batch(&rows)).raise()?;
        Ok((Bound::new(py, Buffer::owned(pixels))?, rows.len()))
    }

    /// Tiles of one size as RGB into the caller's buffer.
    #[pyo3(signature = (rows, out, workers=None, scale=1))]
    fn read_rgb_batch_into(
        &self,
        py: Python<'_>,
        rows: &Bound<'_, PyAny>,
        out: &Bound<'_, PyAny>,
        workers: Option<usize>,
        scale: u32,
    ) -> PyResult<()> {
        let (rows, pack) = (self.rows(rows)?, self.with(workers, scale)?);
        let mut held = Held::writable(out)?;
        py.detach(|| pack.read_rgb_batch_into(&rows, held.bytes_mut())).raise()
    }
}

/// How tiles are encoded and laid out: lossless, distance, effort, strides.
#[derive(FromPyObject)]
pub(crate) struct Tiling(bool, Option<f64>, Option<u64>, Option<u64>, Option<u64>);

impl Tiling {
    fn builder(self, writing: &Writing) -> TilePackBuilder {
        let Self(lossless, distance, effort, stride_x, stride_y) = self;
        TilePackBuilder::new()
            .lossless(lossless)
            .distance(distance)
            .effort(effort)
            .stride(stride_x, stride_y)
            .options(writing.options())
    }
}

/// Writes a pack of the tiles of a manifest.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "those of the specification")]
pub(crate) fn build_tiles(
    py: Python<'_>,
    manifest: PathBuf,
    output: PathBuf,
    tile_root: Option<PathBuf>,
    tiling: Tiling,
    workers: Option<usize>,
    tell: Option<Py<PyAny>>,
    writing: Writing,
) -> PyResult<Vec<String>> {
    let mut builder = tiling.builder(&writing).workers(rows::workers(workers)?);
    if let Some(tile_root) = tile_root {
        builder = builder.tile_root(tile_root);
    }
    let summary = interruptible(py, |cancel| {
        builder.build_from_manifest(&manifest, &output, &Watch::new(cancel, tell.as_ref()))
    })?
    .raise()?;
    Ok(summary.warnings.iter().map(ToString::to_string).collect())
}

/// Writes a pack of tiles that are encoded already.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "those of the specification")]
pub(crate) fn build_tiles_from_records(
    py: Python<'_>,
    records: Vec<RecordParts>,
    payloads: Vec<PyBackedBytes>,
    output: PathBuf,
    tile_size: (u32, u32),
    tiling: Tiling,
    header: &str,
    check: bool,
    writing: Writing,
) -> PyResult<()> {
    let records: Vec<TileRecord> = records.into_iter().map(record).collect();
    let size = TileSize { width: tile_size.0, height: tile_size.1 };
    let builder =
        tiling.builder(&writing).header(members(header, "extra_header")?).check_payloads(check);
    interruptible(py, |cancel| {
        let watch = Watch::new(cancel, None);
        builder.build_from_records_with(&records, &payloads, size, &output, &watch)
    })?
    .raise()?;
    Ok(())
}

/// The records of a manifest.
#[pyfunction]
pub(crate) fn read_tile_manifest(py: Python<'_>, path: PathBuf) -> PyResult<Vec<RecordParts>> {
    let records = py.detach(|| read_manifest(&path)).raise()?;
    Ok(records.into_iter().map(parts).collect())
}

/// Writes a manifest.
#[pyfunction]
pub(crate) fn write_tile_manifest(
    py: Python<'_>,
    path: PathBuf,
    records: Vec<RecordParts>,
) -> PyResult<()> {
    let records: Vec<TileRecord> = records.into_iter().map(record).collect();
    py.detach(|| write_manifest(&path, &records)).map_err(Fault::from).raise()
}
