//! What a directory says about its image: size, samples, and where its tiles or strips are.

use std::sync::Arc;

use super::file::TiffFile;
use super::ndpi::Ndpi;
use super::tags::{self, Compression, Photometric};
use crate::error::Result;

/// Pixels that a side of an image may have.
const MAX_SIDE: u64 = 1 << 31;
/// Pixels that a side of a tile may have.
const MAX_TILE: u64 = 1 << 16;
/// Bytes of shared JPEG tables that are believed.
const MAX_TABLES: usize = 64 << 10;
/// Bytes of a colour profile that are believed.
const MAX_ICC: usize = 64 << 20;

/// How a page's samples are stored. Tiles and strips alike are called chunks here.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    pub(crate) samples: u16,
    pub(crate) compression: Compression,
    /// The number of the compression: several stand for JPEG 2000.
    pub(crate) compression_number: u64,
    pub(crate) photometric: Photometric,
    pub(crate) planar: bool,
    pub(crate) predictor: bool,
    pub(crate) tiled: bool,
    /// Pixels of a row of a chunk, and its rows.
    pub(crate) chunk: (u64, u64),
    /// Chunks across and down.
    pub(crate) grid: (u64, u64),
    pub(crate) tables: Option<Vec<u8>>,
    /// Red, green and blue of 256 entries.
    pub(crate) palette: Option<Vec<[u8; 3]>>,
    /// Whether the last sample is transparency.
    pub(crate) has_alpha: bool,
    offsets: Vec<u64>,
    counts: Vec<u64>,
    /// Tiles that are put together from the restart intervals of one strip.
    ndpi: Option<Arc<Ndpi>>,
}

/// An image of a file.
#[derive(Debug, Clone)]
pub(crate) struct Page {
    pub(crate) number: usize,
    pub(crate) width: u64,
    pub(crate) height: u64,
    pub(crate) orientation: u8,
    pub(crate) subfile_type: u64,
    pub(crate) description: Option<String>,
    pub(crate) icc: Option<Vec<u8>>,
    pub(crate) layout: Layout,
}

/// Width and height of a page, and how it is cut, without anything that could be unsupported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Outline {
    pub(crate) width: u64,
    pub(crate) height: u64,
    pub(crate) tiled: bool,
    pub(crate) subfile_type: u64,
}

impl Outline {
    pub(crate) fn read(file: &TiffFile, page: usize) -> Result<Self> {
        let side = |tag| -> Result<u64> {
            match file.integer(page, tag)? {
                Some(side) if (1..=MAX_SIDE).contains(&side) => Ok(side),
                Some(side) => Err(file.wrong(page, tag, format!("is {side}"))),
                None => Err(file.wrong(page, tag, "is missing")),
            }
        };
        Ok(Self {
            width: side(tags::IMAGE_WIDTH)?,
            height: side(tags::IMAGE_LENGTH)?,
            tiled: file.integer(page, tags::TILE_WIDTH)?.is_some(),
            subfile_type: file.integer(page, tags::NEW_SUBFILE_TYPE)?.unwrap_or(0),
        })
    }
}

impl Page {
    /// Reads what a directory says, and refuses what cannot become 8-bit RGB.
    pub(crate) fn read(file: &TiffFile, number: usize) -> Result<Self> {
        let outline = Outline::read(file, number)?;
        let Outline { width, height, subfile_type, .. } = outline;
        let orientation = file.integer(number, tags::ORIENTATION)?.unwrap_or(1);
        let orientation = u8::try_from(orientation).ok().filter(|it| (1..=8).contains(it));
        let icc = file.binary(number, tags::ICC_PROFILE)?;
        if let Some(icc) = &icc
            && icc.len() > MAX_ICC
        {
            return Err(file.wrong(
                number,
                tags::ICC_PROFILE,
                format!("has {} bytes, but at most {MAX_ICC} are read", icc.len()),
            ));
        }
        Ok(Self {
            number,
            width,
            height,
            orientation: orientation.unwrap_or(1),
            subfile_type,
            description: file.text(number, tags::IMAGE_DESCRIPTION)?,
            icc,
            layout: Layout::read(file, number, &outline)?,
        })
    }
}

impl Layout {
    fn read(file: &TiffFile, page: usize, outline: &Outline) -> Result<Self> {
        let samples = file.integer(page, tags::SAMPLES_PER_PIXEL)?.unwrap_or(1);
        let samples =
            u16::try_from(samples).ok().filter(|it| (1..=4).contains(it)).ok_or_else(|| {
                file.unsupported(format!("page {page} has {samples} samples for each pixel"))
            })?;
        let bits = file.integers(page, tags::BITS_PER_SAMPLE)?.unwrap_or_else(|| vec![1]);
        if let Some(bits) = bits.iter().find(|bits| **bits != 8) {
            return Err(file.unsupported(format!(
                "page {page} has samples of {bits} bits, but slides are stored with 8"
            )));
        }
        let formats = file.integers(page, tags::SAMPLE_FORMAT)?.unwrap_or_default();
        if let Some(format) = formats.iter().find(|format| !matches!(format, 1 | 4)) {
            return Err(file.unsupported(format!(
                "page {page} has samples of format {format}, but slides are stored as unsigned \
                 integers"
            )));
        }
        let compression_number = file.integer(page, tags::COMPRESSION)?.unwrap_or(1);
        let compression = Compression::from_number(compression_number).ok_or_else(|| {
            file.unsupported(format!(
                "page {page} is compressed by {}, which is not supported",
                tags::compression_name(compression_number)
            ))
        })?;
        let photometric = Self::photometric(file, page, samples, compression)?;
        let planar = match file.integer(page, tags::PLANAR_CONFIGURATION)?.unwrap_or(1) {
            1 => false,
            2 => samples > 1,
            other => {
                return Err(file.wrong(page, tags::PLANAR_CONFIGURATION, format!("is {other}")));
            }
        };
        let is_bytes = matches!(
            compression,
            Compression::None
                | Compression::Lzw
                | Compression::Deflate
                | Compression::PackBits
                | Compression::Zstd
        );
        if planar && !is_bytes {
            return Err(file.unsupported(format!(
                "page {page} keeps planes compressed by {} apart",
                tags::compression_name(compression_number)
            )));
        }
        let predictor = match file.integer(page, tags::PREDICTOR)?.unwrap_or(1) {
            2 if is_bytes => true,
            3 if is_bytes => {
                return Err(file.unsupported(format!("page {page} has the predictor 3")));
            }
            _ => false,
        };
        let extra = file.integers(page, tags::EXTRA_SAMPLES)?.unwrap_or_default();
        // Associated (1) and unassociated (2) alike, as the reference has it; a fourth sample that
        // nothing describes is taken for transparency there too.
        let has_alpha = matches!(samples, 2 | 4)
            && extra.first().is_none_or(|extra| matches!(extra, 1 | 2) || samples == 4);
        let palette = if photometric == Photometric::Palette {
            Some(Self::palette(file, page)?)
        } else {
            None
        };
        let tables = match compression {
            Compression::Jpeg => file.binary(page, tags::JPEG_TABLES)?,
            _ => None,
        };
        if let Some(tables) = &tables
            && tables.len() > MAX_TABLES
        {
            return Err(file.wrong(
                page,
                tags::JPEG_TABLES,
                format!("has {} bytes, but at most {MAX_TABLES} are believed", tables.len()),
            ));
        }
        let mut layout = Self {
            samples,
            compression,
            compression_number,
            photometric,
            planar,
            predictor,
            tiled: outline.tiled,
            chunk: (0, 0),
            grid: (0, 0),
            tables,
            palette,
            has_alpha,
            offsets: Vec::new(),
            counts: Vec::new(),
            ndpi: None,
        };
        layout.read_chunks(file, page, outline)?;
        Ok(layout)
    }

    fn photometric(
        file: &TiffFile,
        page: usize,
        samples: u16,
        compression: Compression,
    ) -> Result<Photometric> {
        let number = file.integer(page, tags::PHOTOMETRIC)?;
        let number = number.unwrap_or(if samples >= 3 { 2 } else { 1 });
        let photometric = Photometric::from_number(number).ok_or_else(|| {
            file.unsupported(format!(
                "page {page} has the photometric interpretation {number}, which is not supported"
            ))
        })?;
        let is_coded = matches!(
            compression,
            Compression::Jpeg | Compression::Jpeg2000 | Compression::WebP | Compression::Jxl
        );
        let fits = match photometric {
            Photometric::WhiteIsZero | Photometric::BlackIsZero => samples <= 2,
            Photometric::Palette => samples == 1,
            Photometric::Rgb => samples >= 3,
            Photometric::YCbCr => samples == 3 && is_coded,
        };
        if !fits {
            return Err(file.unsupported(format!(
                "page {page} has {samples} samples of photometric interpretation {number} \
                 compressed by {compression:?}, which is not supported"
            )));
        }
        Ok(photometric)
    }

    fn palette(file: &TiffFile, page: usize) -> Result<Vec<[u8; 3]>> {
        let map = file.integers(page, tags::COLOR_MAP)?.unwrap_or_default();
        if map.len() != 768 {
            return Err(file.wrong(
                page,
                tags::COLOR_MAP,
                format!("has {} values instead of 768", map.len()),
            ));
        }
        let upper = |value: &u64| u8::try_from(value.wrapping_shr(8)).unwrap_or(u8::MAX);
        let (red, rest) = map.split_at(256);
        let (green, blue) = rest.split_at(256);
        let colors = red.iter().zip(green).zip(blue);
        Ok(colors.map(|((red, green), blue)| [upper(red), upper(green), upper(blue)]).collect())
    }

    fn read_chunks(&mut self, file: &TiffFile, page: usize, outline: &Outline) -> Result<()> {
        let Outline { width, height, tiled, .. } = *outline;
        let (offsets_tag, counts_tag) = if tiled {
            let side = |tag| -> Result<u64> {
                match file.integer(page, tag)? {
                    Some(side) if (1..=MAX_TILE).contains(&side) => Ok(side),
                    Some(side) => Err(file.wrong(
                        page,
                        tag,
                        format!("is {side}, but tiles have sides of 1 to {MAX_TILE}"),
                    )),
                    None => Err(file.wrong(page, tag, "is missing")),
                }
            };
            self.chunk = (side(tags::TILE_WIDTH)?, side(tags::TILE_LENGTH)?);
            (tags::TILE_OFFSETS, tags::TILE_BYTE_COUNTS)
        } else {
            let rows = file.integer(page, tags::ROWS_PER_STRIP)?.unwrap_or(u64::MAX);
            if rows == 0 {
                return Err(file.wrong(page, tags::ROWS_PER_STRIP, "is 0"));
            }
            self.chunk = (width, rows.min(height));
            (tags::STRIP_OFFSETS, tags::STRIP_BYTE_COUNTS)
        };
        self.grid = (width.div_ceil(self.chunk.0.max(1)), height.div_ceil(self.chunk.1.max(1)));
        let places = self.grid.0.saturating_mul(self.grid.1);
        let wanted = places.saturating_mul(self.planes());
        let list = |tag| -> Result<Vec<u64>> {
            let found = file.integers(page, tag)?;
            let found = found.ok_or_else(|| file.wrong(page, tag, "is missing"))?;
            if u64::try_from(found.len()).ok() != Some(wanted) {
                return Err(file.wrong(
                    page,
                    tag,
                    format!(
                        "has {} values, but an image of {width} x {height} has {wanted} parts of \
                         {} x {}",
                        found.len(),
                        self.chunk.0,
                        self.chunk.1
                    ),
                ));
            }
            Ok(found)
        };
        let offsets = list(offsets_tag)?;
        // A single strip may leave its length to be guessed.
        let counts = match file.integers(page, counts_tag)? {
            None if wanted == 1 && self.compression == Compression::None => {
                vec![width.saturating_mul(height).saturating_mul(self.samples.into())]
            }
            _ => list(counts_tag)?,
        };
        (self.offsets, self.counts) = (offsets, counts);
        if !tiled && wanted == 1 && self.compression == Compression::Jpeg {
            self.read_intervals(file, page, (width, height))?;
        }
        Ok(())
    }

    /// Makes tiles of a strip whose restart intervals are listed.
    fn read_intervals(&mut self, file: &TiffFile, page: usize, size: (u64, u64)) -> Result<()> {
        let Some(strip) = self.span(0, 0, 0) else { return Ok(()) };
        let Some(ndpi) = Ndpi::read(file, page, size, strip)? else { return Ok(()) };
        self.tiled = true;
        self.chunk = (ndpi.piece.0, ndpi.piece.1.saturating_mul(ndpi.rows));
        self.grid = (ndpi.pieces.0, ndpi.pieces.1.div_ceil(ndpi.rows.max(1)));
        self.ndpi = Some(Arc::new(ndpi));
        Ok(())
    }

    /// The bytes of a chunk; nothing where there is none.
    pub(crate) fn bytes(
        &self,
        file: &TiffFile,
        what: &str,
        (x, y, plane): (u64, u64, u64),
        most: u64,
    ) -> Result<Option<Vec<u8>>> {
        if let Some(ndpi) = &self.ndpi {
            return ndpi.tile(file, what, x, y).map(Some);
        }
        let Some((at, count)) = self.span(x, y, plane) else { return Ok(None) };
        if count > most {
            return Err(
                file.limit(format!("{what} has {count} bytes, but at most {most} are read"))
            );
        }
        file.bytes(at, count, what).map(Some)
    }

    /// Whether a place has data.
    pub(crate) fn has(&self, x: u64, y: u64) -> bool {
        self.ndpi.is_some() || self.span(x, y, 0).is_some()
    }

    /// Planes that are kept apart.
    pub(crate) fn planes(&self) -> u64 {
        if self.planar { self.samples.into() } else { 1 }
    }

    /// Where a chunk's bytes are; nothing where there is none.
    pub(crate) fn span(&self, x: u64, y: u64, plane: u64) -> Option<(u64, u64)> {
        let place = y.checked_mul(self.grid.0)?.checked_add(x)?;
        let before = plane.checked_mul(self.grid.0.checked_mul(self.grid.1)?)?;
        let at = usize::try_from(place.checked_add(before)?).ok()?;
        let (offset, count) = (*self.offsets.get(at)?, *self.counts.get(at)?);
        (offset != 0 && count != 0).then_some((offset, count))
    }

    /// Chunks, planes counted by themselves.
    pub(crate) const fn chunks(&self) -> usize {
        self.offsets.len()
    }

    /// Bytes of all chunks.
    pub(crate) fn stored_bytes(&self) -> u64 {
        self.counts.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }
}
