//! Slides in TIFF and BigTIFF files: those of several makers, and generic ones, in tiles or strips.
//!
//! The raster is a page, or several that lie side by side; pages that are smaller versions of it are
//! passed over, further ones become associated images. Files whose tiles overlap are refused.

mod aperio;
mod area;
mod chunk;
pub(crate) mod file;
mod joined;
#[cfg(test)]
mod large;
mod leica;
mod ndpi;
mod page;
pub(crate) mod tags;
mod vendor;
mod ventana;

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use iac_codec::Limits;
use iac_reader::{ByteSource, PositionalFile};
use serde_json::{Map, Value};

use super::grid::{ChunkGrid, copy, white};
use super::source::{
    AssociatedSource, Description, NativeKind, NativeTiles, Opening, RasterSource, Rect, StatedMpp,
    Storage,
};
use crate::error::{AdapterError, Result};
use crate::wsi::cache::Cache;
use crate::wsi::codec_params::TileColors;
use crate::wsi::schema::Mpp;
use crate::wsi::tile::own_colors;
use area::Area;
use chunk::{ChunkDecoder, failed, passed_on, place};
use file::TiffFile;
use page::{Outline, Page};
use tags::{Compression, Photometric};
use vendor::Vendor;

/// Pixels that an associated image may have.
const MAX_ASSOCIATED: u64 = 64 << 20;
/// How many associated images there may be, and pixels of all of them.
const MAX_ALL_ASSOCIATED: (usize, u64) = (256, 1 << 30);
/// Bytes that descriptions, profiles and lists of pages behind the first may have together: several
/// pages may name the same bytes of the file, so that its size does not bound them.
const MAX_DESCRIBED: u64 = 256 << 20;
/// Bytes that profiles and lists of the pages that make up a raster together may have.
const MAX_AREAS: u64 = 1 << 30;
/// Bytes of shared tables that a pack can hold.
const MAX_PACK_TABLES: usize = 16_384;

/// A slide in a TIFF file.
pub(crate) struct TiffSource {
    file: TiffFile,
    parts: Vec<Part>,
    cache: Cache<(usize, u64, u64)>,
    description: Description,
    native: Option<NativeTiles>,
    associated: Vec<AssociatedSource>,
    associated_pages: Vec<usize>,
    limits: Limits,
}

/// A page that is a part of the raster, or all of it.
struct Part {
    page: Page,
    decoder: ChunkDecoder,
    /// Where its upper left corner lies.
    x: u64,
    y: u64,
}

impl Part {
    const fn rect(&self) -> Rect {
        Rect { x: self.x, y: self.y, width: self.page.width, height: self.page.height }
    }
}

impl TiffSource {
    /// Opens a file.
    pub(crate) fn open(path: &Path, opening: &Opening) -> Result<Self> {
        let source =
            PositionalFile::open(path).map_err(AdapterError::io(path, "cannot open the slide"))?;
        Self::read_from(path, Box::new(source), opening)
    }

    pub(crate) fn read_from(
        path: &Path,
        source: Box<dyn ByteSource>,
        opening: &Opening,
    ) -> Result<Self> {
        let file = TiffFile::read(path, source)?;
        let suffix = path.extension().and_then(|it| it.to_str()).unwrap_or_default();
        let suffix = suffix.to_ascii_lowercase();
        let text = file.text(0, tags::IMAGE_DESCRIPTION)?.unwrap_or_default();
        let vendor = Vendor::of(&file, &suffix, &text, opening)?;
        let parts = read_parts(&file, &vendor.areas(), opening.limits)?;
        let Some(Part { page, .. }) = parts.first() else {
            return Err(file.decode("has no raster".to_owned()));
        };
        let is_known =
            matches!(suffix.as_str(), "svs" | "tif" | "tiff" | "ndpi" | "scn" | "bif" | "qptiff");
        let resolution = Resolution::read(&file, page.number)?;
        let storage = storage(&file, &parts, &vendor);
        let from_tags = || resolution.mpp().map(|mpp| (mpp, "XResolution and YResolution"));
        let mpp = vendor.mpp(&text).or_else(from_tags);
        let mpp = mpp.map(|(mpp, place)| StatedMpp { mpp, place });
        // Tiles of several pages do not lie on one grid.
        let native = if parts.len() == 1 { native_tiles(page)? } else { None };
        let end = |of: fn(&Part) -> u64| parts.iter().map(of).max().unwrap_or(0);
        let description = Description {
            width: end(|part| part.x.saturating_add(part.page.width)),
            height: end(|part| part.y.saturating_add(part.page.height)),
            orientation: page.orientation,
            mpp: mpp.clone(),
            backend: "TiffSlide",
            format: if is_known { suffix } else { "tiff".to_owned() },
            mode: mode(page),
            storage,
            info: info(page, &text, &vendor, &resolution, mpp.as_ref()),
            icc: page.icc.clone(),
            keeps_associated: true,
        };
        let mut opened = Self {
            file,
            parts,
            cache: Cache::new(opening.cache),
            description,
            native,
            associated: Vec::new(),
            associated_pages: Vec::new(),
            limits: opening.limits,
        };
        opened.find_associated(&vendor)?;
        Ok(opened)
    }

    /// Finds the pages that are neither the raster nor a smaller version of it.
    fn find_associated(&mut self, vendor: &Vendor) -> Result<()> {
        let raster: Vec<usize> = self.parts.iter().map(|part| part.page.number).collect();
        let first = Outline::read(&self.file, raster.first().copied().unwrap_or(0))?;
        let mut names = HashSet::new();
        let (mut described, mut all_pixels) = (0_u64, 0_u64);
        let mut describe = |number: usize, bytes: usize| {
            described = described.saturating_add(u64::try_from(bytes).unwrap_or(u64::MAX));
            if described <= MAX_DESCRIBED {
                return Ok(());
            }
            Err(self.file.limit(format!(
                "pages 1 to {number} have {described} bytes of descriptions, profiles and lists of \
                 parts, but at most {MAX_DESCRIBED} are read"
            )))
        };
        for number in (0..self.file.pages()).filter(|number| !raster.contains(number)) {
            let outline = Outline::read(&self.file, number)?;
            let text = self.file.text(number, tags::IMAGE_DESCRIPTION)?.unwrap_or_default();
            describe(number, text.len())?;
            let lens = ndpi::lens(&self.file, number)?;
            if vendor.is_level(&first, (number, &outline), &text, lens) {
                continue;
            }
            let page = Page::read(&self.file, number)?;
            describe(number, page.layout.chunks().saturating_mul(16))?;
            describe(number, page.icc.as_ref().map_or(0, Vec::len))?;
            let pixels = page.width.saturating_mul(page.height);
            all_pixels = all_pixels.saturating_add(pixels);
            let sides = (u32::try_from(page.width), u32::try_from(page.height));
            let (true, (Ok(width), Ok(height))) = (pixels <= MAX_ASSOCIATED, sides) else {
                return Err(self.file.unsupported(format!(
                    "page {number} has {} x {} pixels: it is neither a smaller version of the \
                     raster nor an associated image",
                    page.width, page.height
                )));
            };
            let base = vendor.associated_name(number, page.subfile_type, &text, lens);
            let (most, most_pixels) = MAX_ALL_ASSOCIATED;
            if self.associated.len() >= most || all_pixels > most_pixels {
                return Err(self.file.limit(format!(
                    "pages 1 to {number} have {} associated images of {all_pixels} pixels, but at \
                     most {most} of {most_pixels} are read",
                    self.associated.len().saturating_add(1)
                )));
            }
            let mut name = base.clone();
            let mut count = 1_u32;
            while !names.insert(name.clone()) {
                count = count.saturating_add(1);
                name = format!("{base}_{count}");
            }
            self.associated.push(AssociatedSource {
                name,
                width,
                height,
                mode: mode(&page),
                has_alpha: page.layout.has_alpha,
                shows: vendor.shows(&text),
                icc: page.icc,
                info: Map::new(),
            });
            self.associated_pages.push(number);
        }
        Ok(())
    }

    /// A decoded chunk of a part; nothing where the file has none.
    fn chunk(
        &self,
        (number, part): (usize, &Part),
        x: u64,
        y: u64,
        keep: bool,
    ) -> Result<Option<Bytes>> {
        let pixels = self.cache.get_or_make((number, x, y), keep, || {
            let chunk = part.decoder.decode(&self.file, &part.page, x, y)?;
            Ok::<_, AdapterError>(chunk.map(|chunk| Bytes::from(chunk.pixels)).unwrap_or_default())
        })?;
        Ok(if pixels.is_empty() { None } else { Some(pixels) })
    }

    /// The page of tiles that can be passed through: the only one.
    fn whole(&self) -> Result<&Part> {
        self.parts.first().ok_or_else(|| self.file.decode("has no raster".to_owned()))
    }
}

/// Reads the pages of a raster, which must fit together.
fn read_parts(file: &TiffFile, areas: &[Area], limits: Limits) -> Result<Vec<Part>> {
    let mut parts: Vec<Part> = Vec::new();
    let mut lists = 0_u64;
    for area in areas {
        let number = area.page;
        let page = Page::read(file, number)?;
        // Pages may name the same bytes of the file.
        let bytes = page.layout.chunks().saturating_mul(16);
        let bytes = bytes.saturating_add(page.icc.as_ref().map_or(0, Vec::len));
        lists = lists.saturating_add(u64::try_from(bytes).unwrap_or(u64::MAX));
        if areas.len() > 1 && lists > MAX_AREAS {
            return Err(file.limit(format!(
                "the scanned areas up to page {number} have {lists} bytes of profiles and lists of \
                 parts, but at most {MAX_AREAS} are read"
            )));
        }
        let (stated, found) = ((area.width, area.height), (page.width, page.height));
        if stated != (0, 0) && stated != found {
            return Err(file.decode(format!(
                "page {number} has {} x {} pixels, but the description says {} x {}",
                found.0, found.1, stated.0, stated.1
            )));
        }
        if areas.len() > 1 && page.orientation != 1 {
            return Err(file.unsupported(format!(
                "page {number} is a part of the slide and has the orientation {}",
                page.orientation
            )));
        }
        let decoder = ChunkDecoder::new(&page, limits);
        parts.push(Part { page, decoder, x: area.x, y: area.y });
    }
    Ok(parts)
}

impl RasterSource for TiffSource {
    fn description(&self) -> &Description {
        &self.description
    }

    fn files(&self) -> Vec<PathBuf> {
        vec![self.file.path().to_owned()]
    }

    fn read(&self, rect: Rect) -> Result<Vec<u8>> {
        let mut out = white(rect.width, rect.height)
            .ok_or_else(|| self.file.limit("a region is larger than the memory".to_owned()))?;
        for (number, part) in self.parts.iter().enumerate() {
            let Some(shared) = rect.shared(part.rect()) else { continue };
            let at = (shared.x.saturating_sub(rect.x), shared.y.saturating_sub(rect.y));
            let own = Rect {
                x: shared.x.saturating_sub(part.x),
                y: shared.y.saturating_sub(part.y),
                ..shared
            };
            let grid = ChunkGrid {
                chunk: part.page.layout.chunk,
                size: (part.page.width, part.page.height),
            };
            let get = |x, y, keep| self.chunk((number, part), x, y, keep);
            grid.copy(own, (&mut out, rect.width, at), get)?.map_err(|(x, y)| {
                self.file.decode(format!(
                    "{} has fewer pixels than its size says",
                    place(&part.page, x, y)
                ))
            })?;
        }
        Ok(out)
    }

    fn is_blank(&self, rect: Rect) -> bool {
        self.parts.iter().all(|part| {
            let Some(shared) = rect.shared(part.rect()) else { return true };
            let own = Rect {
                x: shared.x.saturating_sub(part.x),
                y: shared.y.saturating_sub(part.y),
                ..shared
            };
            let layout = &part.page.layout;
            let size = (part.page.width, part.page.height);
            let planes = layout.planes();
            ChunkGrid { chunk: layout.chunk, size }.is_blank(own, |x, y| {
                // A place with some of its planes is an error, which reading it tells.
                layout.has(x, y) || (1..planes).any(|plane| layout.span(x, y, plane).is_some())
            })
        })
    }

    fn native(&self) -> Option<&NativeTiles> {
        self.native.as_ref()
    }

    fn native_tile(&self, x: u32, y: u32) -> Result<Option<Vec<u8>>> {
        let Part { page, decoder, .. } = self.whole()?;
        let what = place(page, x.into(), y.into());
        let layout = &page.layout;
        let most = u64::from(u32::MAX);
        let Some(bytes) = layout.bytes(&self.file, &what, (x.into(), y.into(), 0), most)? else {
            return Ok(None);
        };
        let payload = passed_on(page, bytes);
        let fail = |source| failed(self.file.path(), &what, source);
        if let Some(codec) = decoder.codec().map_err(fail)? {
            let found = codec.image_info(&payload).map_err(fail)?;
            let shape = found.shape;
            let size = (u64::from(shape.width()), u64::from(shape.height()));
            if size != layout.chunk || shape.channels() != 3 {
                return Err(self.file.decode(format!(
                    "{what} is {shape} instead of {} x {} x 3",
                    layout.chunk.1, layout.chunk.0
                )));
            }
        }
        Ok(Some(payload))
    }

    fn small_tile(&self, (x, y): (u32, u32), payload: &[u8]) -> Result<Option<Vec<u8>>> {
        let Part { page, decoder, .. } = self.whole()?;
        let fail = |source| failed(self.file.path(), &place(page, x.into(), y.into()), source);
        decoder.eighth(page, payload).map_err(fail)
    }

    fn associated(&self) -> &[AssociatedSource] {
        &self.associated
    }

    fn read_associated(&self, position: usize) -> Result<Vec<u8>> {
        let number = self.associated_pages.get(position).copied().unwrap_or_default();
        let page = Page::read(&self.file, number)?;
        let whole = Rect { x: 0, y: 0, width: page.width, height: page.height };
        let decoder = ChunkDecoder::new(&page, self.limits);
        let mut out = white(page.width, page.height)
            .ok_or_else(|| self.file.limit(format!("page {number} is larger than the memory")))?;
        let (across, down) = page.layout.grid;
        for row in 0..down {
            for column in 0..across {
                let Some(chunk) = decoder.decode(&self.file, &page, column, row)? else { continue };
                let to = (
                    column.saturating_mul(page.layout.chunk.0),
                    row.saturating_mul(page.layout.chunk.1),
                );
                let size = (
                    chunk.width.min(whole.width.saturating_sub(to.0)),
                    chunk.rows.min(whole.height.saturating_sub(to.1)),
                );
                copy(&chunk.pixels, chunk.width, (0, 0), &mut out, whole.width, to, size)
                    .ok_or_else(|| {
                        self.file.decode(format!("page {number} has fewer pixels than it says"))
                    })?;
            }
        }
        Ok(out)
    }

    fn associated_jpeg(&self, position: usize) -> Result<Option<Vec<u8>>> {
        let number = self.associated_pages.get(position).copied().unwrap_or_default();
        let page = Page::read(&self.file, number)?;
        let Some(stream) = joined::joined(&self.file, &page)? else { return Ok(None) };
        Ok(joined::complete(&page, &stream))
    }

    fn missing(&self) -> u64 {
        let mut missing = 0_u64;
        for part in &self.parts {
            let layout = &part.page.layout;
            for y in 0..layout.grid.1 {
                for x in 0..layout.grid.0 {
                    missing = missing.saturating_add(u64::from(!layout.has(x, y)));
                }
            }
        }
        missing
    }
}

/// Resolution tags.
struct Resolution {
    x: Option<f64>,
    y: Option<f64>,
    unit: Option<u64>,
}

impl Resolution {
    fn read(file: &TiffFile, page: usize) -> Result<Self> {
        Ok(Self {
            x: file.number(page, tags::X_RESOLUTION)?.filter(|it| it.is_finite()),
            y: file.number(page, tags::Y_RESOLUTION)?.filter(|it| it.is_finite()),
            unit: file.integer(page, tags::RESOLUTION_UNIT)?,
        })
    }

    fn mpp(&self) -> Option<Mpp> {
        let unit = match self.unit {
            Some(2) => 25_400.0,
            Some(3) => 10_000.0,
            Some(4) => 1_000.0,
            Some(5) => 1.0,
            _ => return None,
        };
        let mpp = Mpp { x: unit / self.x?, y: unit / self.y? };
        mpp.is_valid().then_some(mpp)
    }

    fn unit_name(&self) -> Option<&'static str> {
        Some(match self.unit? {
            1 => "NONE",
            2 => "INCH",
            3 => "CENTIMETER",
            4 => "MILLIMETER",
            5 => "MICROMETER",
            _ => return None,
        })
    }
}

fn mode(page: &Page) -> String {
    let layout = &page.layout;
    match (layout.photometric, layout.samples) {
        (Photometric::Palette, _) => "P",
        (_, 1) => "L",
        (_, 2) => "LA",
        (_, 4) => "RGBA",
        _ => "RGB",
    }
    .to_owned()
}

fn storage(file: &TiffFile, parts: &[Part], vendor: &Vendor) -> Storage {
    let bytes = parts.iter().map(|part| part.page.layout.stored_bytes());
    let bytes = bytes.fold(0_u64, u64::saturating_add);
    let Some(Part { page: Page { layout, .. }, .. }) = parts.first() else {
        return Storage::unknown(file.size());
    };
    let name = tags::compression_name(layout.compression_number);
    let stated = vendor.codec();
    let lossy = match layout.compression {
        Compression::Jpeg | Compression::Jpeg2000 => Some(true),
        Compression::WebP | Compression::Jxl => None,
        _ => Some(false),
    };
    Storage {
        codec: stated.map_or_else(|| name.clone(), |(codec, _)| codec.to_owned()),
        tiff_compression: Some(name),
        lossy: if stated.is_some() { Some(true) } else { lossy },
        quality: stated.and_then(|(_, quality)| quality),
        native_bytes: Some(bytes),
        source_bytes: file.size(),
        tile: layout.tiled.then_some(layout.chunk),
    }
}

fn info(
    page: &Page,
    text: &str,
    vendor: &Vendor,
    resolution: &Resolution,
    mpp: Option<&StatedMpp>,
) -> Map<String, Value> {
    let mut info = Map::new();
    let mut put = |key: &str, value: Value| info.insert(key.to_owned(), value);
    for key in
        ["background-color", "quickhash-1", "bounds-x", "bounds-y", "bounds-width", "bounds-height"]
    {
        put(&format!("tiffslide.{key}"), Value::Null);
    }
    put("tiffslide.comment", page.description.clone().map_or(Value::Null, Value::from));
    put("tiffslide.vendor", vendor.name().map_or(Value::Null, Value::from));
    put("tiffslide.objective-power", vendor.power());
    put("tiffslide.mpp-x", mpp.map_or(Value::Null, |it| it.mpp.x.into()));
    put("tiffslide.mpp-y", mpp.map_or(Value::Null, |it| it.mpp.y.into()));
    put("tiffslide.series-index", 0.into());
    let axes = match (page.layout.samples, page.layout.planar) {
        (1, _) => "YX",
        (_, true) => "CYX",
        _ => "YXS",
    };
    put("tiffslide.series-axes", axes.into());
    put("tiff.ImageDescription", text.into());
    // As in the reference, a source of Aperio's that states no unit is left without these.
    if let Some(unit) = resolution.unit_name().filter(|_| resolution.mpp().is_some()) {
        put("tiff.ResolutionUnit", unit.into());
        put("tiff.XResolution", resolution.x.map_or(Value::Null, Value::from));
        put("tiff.YResolution", resolution.y.map_or(Value::Null, Value::from));
    }
    vendor.members(&mut info);
    info
}

/// Whether a page's tiles can become records as they are.
fn native_tiles(page: &Page) -> Result<Option<NativeTiles>> {
    let layout = &page.layout;
    let sides = (u16::try_from(layout.chunk.0), u16::try_from(layout.chunk.1));
    let (true, (Ok(width), Ok(height))) = (layout.tiled, sides) else { return Ok(None) };
    if layout.samples != 3 || layout.planar || page.orientation != 1 {
        return Ok(None);
    }
    let (kind, hazard) = match layout.compression {
        // The other number of JPEG is not known to readers by name.
        Compression::Jpeg if layout.compression_number == 7 => {
            let colors = match layout.photometric {
                Photometric::Rgb => TileColors::Rgb,
                Photometric::YCbCr => TileColors::YCbCr,
                _ => return Ok(None),
            };
            let tables = layout
                .tables
                .as_ref()
                .map(|tables| own_colors(tables, colors == TileColors::Rgb).into_owned());
            if tables.as_ref().is_some_and(|tables| tables.len() > MAX_PACK_TABLES) {
                return Ok(None);
            }
            (NativeKind::Jpeg { colors, tables }, None)
        }
        Compression::Jpeg2000 => {
            let compression = tags::compression_name(layout.compression_number);
            let hazard = (layout.compression_number == tags::APERIO_YCBCR)
                .then_some("their components are YCbCr, which the reference shows as RGB");
            (NativeKind::Jpeg2000 { compression }, hazard)
        }
        _ => return Ok(None),
    };
    Ok(Some(NativeTiles { tile: (width.into(), height.into()), kind, hazard }))
}
