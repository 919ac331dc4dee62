//! Packs of whole slides.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use iatrocache::adapters::wsi::{
    Mpp, NativeRegion, Region, RegionImage, Resolution, WsiImporter, WsiOpenOptions, WsiPackReader,
    WsiProfile, WsiReadOptions,
};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::buffer::{Buffer, Held};
use crate::errors::{Fault, Raise};
use crate::interrupt::{Watch, interruptible};
use crate::reader::Reader;
use crate::write::Writing;

/// The raster of an open pack.
#[pyclass(frozen, module = "iatrocache._native")]
pub(crate) struct Slide {
    pack: WsiPackReader,
}

/// A region on its way to NumPy: memory, height and width.
type RegionParts<'py> = (Bound<'py, Buffer>, u32, u32);

fn parts(py: Python<'_>, image: RegionImage) -> PyResult<RegionParts<'_>> {
    Ok((Bound::new(py, Buffer::owned(image.pixels))?, image.height, image.width))
}

fn options(workers: usize, fast: bool, upsample: f64) -> PyResult<WsiReadOptions> {
    let workers = NonZeroUsize::new(workers)
        .ok_or_else(|| Fault::value("workers must be a positive integer or None"))
        .raise()?;
    let resolution = if fast { Resolution::Fast } else { Resolution::Exact };
    Ok(WsiReadOptions::new().workers(workers).resolution(resolution).allow_upsample(upsample))
}

#[pymethods]
impl Slide {
    #[new]
    fn new(py: Python<'_>, reader: &Reader) -> PyResult<Self> {
        let pack = reader.pack()?;
        let pack =
            py.detach(|| WsiPackReader::from_reader(pack, &WsiOpenOptions::new())).raise()?;
        Ok(Self { pack })
    }

    /// Ids, sizes, resolution, tiles and background.
    fn info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let info = self.pack.info();
        let found = PyDict::new(py);
        found.set_item("slide_id", &info.slide_id)?;
        found.set_item("patient_id", info.patient_id.as_deref())?;
        found.set_item("specimen_id", info.specimen_id.as_deref())?;
        found.set_item("dimensions", (info.width, info.height))?;
        found.set_item("native_mpp", (info.mpp.x, info.mpp.y))?;
        found.set_item("physical_dimensions", info.physical_size())?;
        found.set_item("tile_size", (info.tile_width, info.tile_height))?;
        found.set_item("grid", (info.grid_width, info.grid_height))?;
        found.set_item("stored_tiles", info.stored_tiles)?;
        let [red, green, blue] = info.background;
        found.set_item("background", (red, green, blue))?;
        Ok(found)
    }

    /// The scanner's metadata as JSON text.
    fn scanner_metadata(&self, py: Python<'_>) -> PyResult<String> {
        let metadata = py.detach(|| self.pack.scanner_metadata()).raise()?;
        Ok(serde_json::Value::Object(metadata).to_string())
    }

    fn icc_profile<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let profile = py.detach(|| self.pack.icc_profile()).raise()?;
        Ok(profile.map(|profile| PyBytes::new(py, &profile)))
    }

    fn associated_names(&self) -> Vec<String> {
        self.pack.associated_images().into_iter().map(|image| image.name).collect()
    }

    fn associated_icc<'py>(
        &self,
        py: Python<'py>,
        name: &str,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let profile = py.detach(|| self.pack.associated_icc(name)).raise()?;
        Ok(profile.map(|profile| PyBytes::new(py, &profile)))
    }

    fn read_associated<'py>(&self, py: Python<'py>, name: &str) -> PyResult<RegionParts<'py>> {
        parts(py, py.detach(|| self.pack.read_associated(name)).raise()?)
    }

    /// Native pixels from a place that may lie outside.
    fn read_native<'py>(
        &self,
        py: Python<'py>,
        place: (i64, i64, u32, u32),
        workers: usize,
    ) -> PyResult<RegionParts<'py>> {
        let (x, y, width, height) = place;
        let region = NativeRegion { x, y, width, height };
        let options = options(workers, false, 1.0)?;
        parts(py, py.detach(|| self.pack.read_native(&region, &options)).raise()?)
    }

    /// A region by micrometres: left, top, width and height in pixels, and their size.
    fn read_region<'py>(
        &self,
        py: Python<'py>,
        place: (f64, f64, u32, u32),
        mpp: (f64, f64),
        workers: usize,
        fast: bool,
        upsample: f64,
    ) -> PyResult<RegionParts<'py>> {
        let region = region(place, mpp);
        let options = options(workers, fast, upsample)?;
        parts(py, py.detach(|| self.pack.read_region(&region, &options)).raise()?)
    }

    /// Regions of one size in pixels into the caller's buffer, N x height x width x 3.
    #[expect(clippy::too_many_arguments, reason = "those of the specification")]
    fn read_regions_into(
        &self,
        py: Python<'_>,
        places: Vec<(f64, f64)>,
        size: (u32, u32),
        mpp: (f64, f64),
        out: &Bound<'_, PyAny>,
        workers: usize,
        fast: bool,
    ) -> PyResult<()> {
        let regions: Vec<Region> =
            places.into_iter().map(|(x, y)| region((x, y, size.0, size.1), mpp)).collect();
        let options = options(workers, fast, 1.0)?;
        let mut held = Held::writable(out)?;
        py.detach(|| self.pack.read_regions_into(&regions, held.bytes_mut(), &options)).raise()?;
        Ok(())
    }

    /// The whole slide, no side longer than so many pixels.
    fn read_thumbnail<'py>(
        &self,
        py: Python<'py>,
        size: u32,
        workers: usize,
    ) -> PyResult<RegionParts<'py>> {
        let options = options(workers, true, 1.0)?;
        parts(py, py.detach(|| self.pack.read_thumbnail(size, &options)).raise()?)
    }
}

fn region((x_um, y_um, width, height): (f64, f64, u32, u32), mpp: (f64, f64)) -> Region {
    Region { x_um, y_um, width, height, mpp: Mpp { x: mpp.0, y: mpp.1 } }
}

/// Imports a slide.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "those of the specification")]
pub(crate) fn build_wsi(
    py: Python<'_>,
    source: PathBuf,
    output: PathBuf,
    ids: (String, String, String),
    mpp: Option<(f64, f64)>,
    lossless: bool,
    distance: Option<f64>,
    effort: u8,
    tile_size: (u32, u32),
    workers: Option<usize>,
    overview: bool,
    tell: Option<Py<PyAny>>,
    writing: Writing,
) -> PyResult<String> {
    let (slide_id, patient_id, specimen_id) = ids;
    let profile = match (lossless, distance) {
        (true, _) => WsiProfile::Lossless,
        (false, Some(distance)) => WsiProfile::Distance(distance),
        (false, None) => WsiProfile::Auto,
    };
    let mut importer = WsiImporter::new(slide_id)
        .patient_id(patient_id)
        .specimen_id(specimen_id)
        .profile(profile)
        .effort(effort)
        .tile_size(tile_size.0, tile_size.1)
        .overview(overview)
        .workers(crate::rows::workers(workers)?)
        .options(writing.options());
    if let Some((x, y)) = mpp {
        importer = importer.native_mpp(Mpp { x, y });
    }
    let summary = interruptible(py, |cancel| {
        importer.import(&source, &output, &Watch::new(cancel, tell.as_ref()))
    })?
    .raise()?;
    Ok(serde_json::json!({
        "width": summary.width,
        "height": summary.height,
        "codec": summary.codec,
        "strategy": summary.strategy,
        "stored_tiles": summary.stored_tiles,
        "background_tiles": summary.background_tiles,
        "missing_tiles": summary.missing_tiles,
        "associated": summary.associated,
    })
    .to_string())
}
