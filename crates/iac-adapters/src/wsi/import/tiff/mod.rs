//! Slides in TIFF and BigTIFF files: those of several makers, and generic ones, in tiles or strips.
//!
//! The raster is the first page; pages that are smaller versions of it are passed over, further ones
//! become associated images. Formats whose first page is not the raster, or whose tiles overlap, are
//! refused by name.

mod aperio;
mod chunk;
pub(crate) mod file;
mod joined;
mod ndpi;
mod page;
pub(crate) mod tags;
mod vendor;

use std::path::Path;

use bytes::Bytes;
use iac_codec::Limits;
use iac_reader::{ByteSource, PositionalFile};
use serde_json::{Map, Value};

use super::source::{
    AssociatedSource, Description, NativeKind, NativeTiles, RasterSource, Rect, StatedMpp, Storage,
};
use crate::error::{AdapterError, Result};
use crate::wsi::cache::Cache;
use crate::wsi::codec_params::TileColors;
use crate::wsi::schema::Mpp;
use crate::wsi::tile::own_colors;
use chunk::{ChunkDecoder, failed, passed_on, place};
use file::TiffFile;
use page::{Outline, Page};
use tags::{Compression, Photometric};
use vendor::Vendor;

/// Pixels that an associated image may have.
const MAX_ASSOCIATED: u64 = 64 << 20;
/// Bytes of shared tables that a pack can hold.
const MAX_PACK_TABLES: usize = 16_384;

/// A slide in a TIFF file.
pub(crate) struct TiffSource {
    file: TiffFile,
    page: Page,
    decoder: ChunkDecoder,
    cache: Cache<(u64, u64)>,
    description: Description,
    native: Option<NativeTiles>,
    associated: Vec<AssociatedSource>,
    associated_pages: Vec<usize>,
    limits: Limits,
}

impl TiffSource {
    /// Opens a file. Decoded tiles that several reads need are kept within `cache` bytes.
    pub(crate) fn open(path: &Path, limits: Limits, cache: usize) -> Result<Self> {
        let source =
            PositionalFile::open(path).map_err(AdapterError::io(path, "cannot open the slide"))?;
        Self::read_from(path, Box::new(source), limits, cache)
    }

    pub(crate) fn read_from(
        path: &Path,
        source: Box<dyn ByteSource>,
        limits: Limits,
        cache: usize,
    ) -> Result<Self> {
        let file = TiffFile::read(path, source)?;
        let suffix = path.extension().and_then(|it| it.to_str()).unwrap_or_default();
        let suffix = suffix.to_ascii_lowercase();
        let text = file.text(0, tags::IMAGE_DESCRIPTION)?.unwrap_or_default();
        let vendor = Vendor::of(&file, &suffix, &text)?;
        let page = Page::read(&file, 0)?;
        let is_known = matches!(suffix.as_str(), "svs" | "tif" | "tiff" | "ndpi");
        let resolution = Resolution::read(&file)?;
        let storage = storage(&file, &page, &vendor);
        let from_tags = || resolution.mpp().map(|mpp| (mpp, "XResolution and YResolution"));
        let mpp = vendor.mpp(&text).or_else(from_tags);
        let mpp = mpp.map(|(mpp, place)| StatedMpp { mpp, place });
        let native = native_tiles(&page)?;
        let description = Description {
            width: page.width,
            height: page.height,
            orientation: page.orientation,
            mpp: mpp.clone(),
            backend: "TiffSlide",
            format: if is_known { suffix } else { "tiff".to_owned() },
            mode: mode(&page),
            storage,
            info: info(&page, &text, &vendor, &resolution, mpp.as_ref()),
            icc: page.icc.clone(),
            keeps_associated: true,
        };
        let mut opened = Self {
            decoder: ChunkDecoder::new(&page, limits),
            file,
            page,
            cache: Cache::new(cache),
            description,
            native,
            associated: Vec::new(),
            associated_pages: Vec::new(),
            limits,
        };
        opened.find_associated(&vendor)?;
        Ok(opened)
    }

    /// Finds the pages that are neither the raster nor a smaller version of it.
    fn find_associated(&mut self, vendor: &Vendor) -> Result<()> {
        let first = Outline::read(&self.file, 0)?;
        for number in 1..self.file.pages() {
            let outline = Outline::read(&self.file, number)?;
            let text = self.file.text(number, tags::IMAGE_DESCRIPTION)?.unwrap_or_default();
            let lens = ndpi::lens(&self.file, number)?;
            if vendor.is_level(&first, &outline, &text, lens) {
                continue;
            }
            let page = Page::read(&self.file, number)?;
            let pixels = page.width.saturating_mul(page.height);
            let sides = (u32::try_from(page.width), u32::try_from(page.height));
            let (true, (Ok(width), Ok(height))) = (pixels <= MAX_ASSOCIATED, sides) else {
                return Err(self.file.unsupported(format!(
                    "page {number} has {} x {} pixels: it is neither a smaller version of page 0 \
                     nor an associated image",
                    page.width, page.height
                )));
            };
            let base = vendor.associated_name(number, page.subfile_type, &text, lens);
            let mut name = base.clone();
            let mut count = 1_u32;
            while self.associated.iter().any(|image| image.name == name) {
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

    /// A decoded chunk; nothing where the file has none.
    fn chunk(&self, x: u64, y: u64, keep: bool) -> Result<Option<Bytes>> {
        let pixels = self.cache.get_or_make((x, y), keep, || {
            let chunk = self.decoder.decode(&self.file, &self.page, x, y)?;
            Ok::<_, AdapterError>(chunk.map(|chunk| Bytes::from(chunk.pixels)).unwrap_or_default())
        })?;
        Ok(if pixels.is_empty() { None } else { Some(pixels) })
    }
}

impl RasterSource for TiffSource {
    fn description(&self) -> &Description {
        &self.description
    }

    fn read(&self, rect: Rect) -> Result<Vec<u8>> {
        let (chunk_width, chunk_height) = self.page.layout.chunk;
        let mut out = white(rect.width, rect.height)
            .ok_or_else(|| self.file.limit("a region is larger than the memory".to_owned()))?;
        let (right, bottom) =
            (rect.x.saturating_add(rect.width), rect.y.saturating_add(rect.height));
        let last = |end: u64, side: u64| end.div_ceil(side.max(1));
        let first = |start: u64, side: u64| start.checked_div(side).unwrap_or(0);
        for row in first(rect.y, chunk_height)..last(bottom, chunk_height) {
            for column in first(rect.x, chunk_width)..last(right, chunk_width) {
                let (left, top) =
                    (column.saturating_mul(chunk_width), row.saturating_mul(chunk_height));
                let (end_x, end_y) =
                    (left.saturating_add(chunk_width), top.saturating_add(chunk_height));
                let inside = left >= rect.x
                    && top >= rect.y
                    && end_x.min(self.page.width) <= right
                    && end_y.min(self.page.height) <= bottom;
                let Some(pixels) = self.chunk(column, row, !inside)? else { continue };
                let part = Rect {
                    x: left.max(rect.x),
                    y: top.max(rect.y),
                    width: end_x.min(right).saturating_sub(left.max(rect.x)),
                    height: end_y.min(bottom).saturating_sub(top.max(rect.y)),
                };
                let from = (part.x.saturating_sub(left), part.y.saturating_sub(top));
                let to = (part.x.saturating_sub(rect.x), part.y.saturating_sub(rect.y));
                copy(
                    &pixels,
                    chunk_width,
                    from,
                    &mut out,
                    rect.width,
                    to,
                    (part.width, part.height),
                )
                .ok_or_else(|| {
                    self.file.decode(format!(
                        "{} has fewer pixels than its size says",
                        place(&self.page, column, row)
                    ))
                })?;
            }
        }
        Ok(out)
    }

    fn native(&self) -> Option<&NativeTiles> {
        self.native.as_ref()
    }

    fn native_tile(&self, x: u32, y: u32) -> Result<Option<Vec<u8>>> {
        let what = place(&self.page, x.into(), y.into());
        let layout = &self.page.layout;
        let most = u64::from(u32::MAX);
        let Some(bytes) = layout.bytes(&self.file, &what, (x.into(), y.into(), 0), most)? else {
            return Ok(None);
        };
        let payload = passed_on(&self.page, bytes);
        let fail = |source| failed(self.file.path(), &what, source);
        if let Some(codec) = self.decoder.codec().map_err(fail)? {
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
        let fail =
            |source| failed(self.file.path(), &place(&self.page, x.into(), y.into()), source);
        self.decoder.eighth(&self.page, payload).map_err(fail)
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
        let layout = &self.page.layout;
        let mut missing = 0_u64;
        for y in 0..layout.grid.1 {
            for x in 0..layout.grid.0 {
                missing = missing.saturating_add(u64::from(!layout.has(x, y)));
            }
        }
        missing
    }
}

/// A white image.
fn white(width: u64, height: u64) -> Option<Vec<u8>> {
    let bytes = usize::try_from(width.checked_mul(height)?.checked_mul(3)?).ok()?;
    let mut pixels = Vec::new();
    pixels.try_reserve_exact(bytes).ok()?;
    pixels.resize(bytes, 255);
    Some(pixels)
}

/// Copies a rectangle of RGB pixels between images of given row lengths; nothing where it does not
/// lie in both.
fn copy(
    from: &[u8],
    from_width: u64,
    from_at: (u64, u64),
    to: &mut [u8],
    to_width: u64,
    to_at: (u64, u64),
    size: (u64, u64),
) -> Option<()> {
    let start = |width: u64, (x, y): (u64, u64), row: u64| -> Option<usize> {
        let pixel = y.checked_add(row)?.checked_mul(width)?.checked_add(x)?;
        usize::try_from(pixel.checked_mul(3)?).ok()
    };
    let length = usize::try_from(size.0.checked_mul(3)?).ok()?;
    for row in 0..size.1 {
        let (source, target) = (start(from_width, from_at, row)?, start(to_width, to_at, row)?);
        let source = from.get(source..source.checked_add(length)?)?;
        to.get_mut(target..target.checked_add(length)?)?.copy_from_slice(source);
    }
    Some(())
}

/// Resolution tags.
struct Resolution {
    x: Option<f64>,
    y: Option<f64>,
    unit: Option<u64>,
}

impl Resolution {
    fn read(file: &TiffFile) -> Result<Self> {
        Ok(Self {
            x: file.number(0, tags::X_RESOLUTION)?.filter(|it| it.is_finite()),
            y: file.number(0, tags::Y_RESOLUTION)?.filter(|it| it.is_finite()),
            unit: file.integer(0, tags::RESOLUTION_UNIT)?,
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

fn storage(file: &TiffFile, page: &Page, vendor: &Vendor) -> Storage {
    let layout = &page.layout;
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
        native_bytes: Some(layout.stored_bytes()),
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
