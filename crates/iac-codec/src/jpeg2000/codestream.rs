//! The structure of a JPEG 2000 codestream, read and checked before the library sees it.
//!
//! The library allocates and iterates by what headers claim. Here every claim is held against
//! the payload: each packet takes at least one byte, each tile-part fourteen, so a short payload
//! cannot ask for long work. The lengths of tile-parts and the end marker are checked as well,
//! since a cut HTJ2K stream otherwise decodes to damaged pixels without a word.

mod coding;
mod work;

use std::collections::BTreeMap;

use super::{damaged, unsupported};
use crate::codec::u64_len;
use crate::{Limits, Result};
use coding::{Coding, ComponentCoding};
use work::{TileWork, Work};

const SOC: u16 = 0xFF4F;
const CAP: u16 = 0xFF50;
const SIZ: u16 = 0xFF51;
const COD: u16 = 0xFF52;
const COC: u16 = 0xFF53;
const QCD: u16 = 0xFF5C;
const PPM: u16 = 0xFF60;
const PPT: u16 = 0xFF61;
const SOT: u16 = 0xFF90;
const SOD: u16 = 0xFF93;
const EOC: u16 = 0xFFD9;

/// Rsiz bit of streams that announce HTJ2K capabilities.
const HT_CAPABILITY: u16 = 0x4000;
/// Steps over precinct positions for each packet that no sensible stream exceeds.
const STEPS_PER_PACKET: u64 = 64;
const STEPS_ALWAYS: u64 = 1 << 20;

/// One component as the SIZ segment describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Component {
    pub(super) bits: u8,
    pub(super) signed: bool,
    /// Distance of samples on the reference grid.
    pub(super) dx: u32,
    pub(super) dy: u32,
}

/// A rectangle; right and lower edge are outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Area {
    pub(super) x0: u32,
    pub(super) y0: u32,
    pub(super) x1: u32,
    pub(super) y1: u32,
}

impl Area {
    pub(super) const fn width(&self) -> u32 {
        self.x1.saturating_sub(self.x0)
    }

    pub(super) const fn height(&self) -> u32 {
        self.y1.saturating_sub(self.y0)
    }

    fn samples(&self) -> u64 {
        u64::from(self.width()).saturating_mul(self.height().into())
    }

    /// The same area where only one in `dx` columns and `dy` rows counts.
    pub(super) const fn sampled(&self, dx: u32, dy: u32) -> Self {
        let (dx, dy) = (if dx == 0 { 1 } else { dx }, if dy == 0 { 1 } else { dy });
        Self {
            x0: self.x0.div_ceil(dx),
            y0: self.y0.div_ceil(dy),
            x1: self.x1.div_ceil(dx),
            y1: self.y1.div_ceil(dy),
        }
    }

    /// The same area after so many halvings.
    pub(super) fn halved(&self, times: u32) -> Self {
        let half = |side: u32| {
            let side = u64::from(side);
            let rounding = (1_u64 << times.min(32)).saturating_sub(1);
            u32::try_from(side.saturating_add(rounding) >> times.min(32)).unwrap_or(u32::MAX)
        };
        Self { x0: half(self.x0), y0: half(self.y0), x1: half(self.x1), y1: half(self.y1) }
    }
}

/// A codestream whose structure holds.
#[derive(Debug)]
pub(super) struct Codestream {
    /// The image on the reference grid.
    pub(super) image: Area,
    pub(super) components: Vec<Component>,
    /// Where the flag of the colour transform stands, when it is set by the defective encoder
    /// that does not apply the transform.
    pub(super) false_transform: Option<usize>,
    /// The halvings that every tile and component has.
    pub(super) levels: u32,
    /// Whether a part of it has high-throughput code blocks.
    pub(super) is_ht: bool,
}

/// What the main header alone says.
#[derive(Debug)]
pub(super) struct Header {
    pub(super) image: Area,
    pub(super) components: Vec<Component>,
    tile: (u32, u32),
    tile_offset: (u32, u32),
    capabilities: u16,
    default: Coding,
    own: BTreeMap<u16, ComponentCoding>,
    packed_headers: bool,
    /// The markers of the main header in their order.
    markers: Vec<u16>,
    /// Where the colour transform's flag stands in the payload.
    transform_at: usize,
    /// Where the first tile-part starts.
    end: usize,
}

/// Walks over a payload; positions count from its start.
struct Cursor<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl<'a> Cursor<'a> {
    fn marker(&mut self) -> Result<u16> {
        let found = self.take(2)?;
        Ok(u16::from_be_bytes([byte(found, 0), byte(found, 1)]))
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let end = self.position.checked_add(count);
        let taken = end.and_then(|end| self.bytes.get(self.position..end));
        let (Some(taken), Some(end)) = (taken, end) else {
            return Err(damaged(format!(
                "it is cut: {count} bytes are wanted at byte {} of {}",
                self.position,
                self.bytes.len()
            )));
        };
        self.position = end;
        Ok(taken)
    }

    /// The contents of a segment behind its marker.
    fn segment(&mut self, marker: u16) -> Result<&'a [u8]> {
        if marker < 0xFF30 {
            return Err(damaged(format!(
                "there is no marker but 0x{marker:04X} at byte {}",
                self.position.saturating_sub(2)
            )));
        }
        if matches!(marker, SOC | SOD | EOC) {
            return Err(damaged(format!(
                "marker 0x{marker:04X} stands at byte {} inside a header",
                self.position.saturating_sub(2)
            )));
        }
        if (0xFF30..=0xFF3F).contains(&marker) {
            return Ok(&[]);
        }
        let length = usize::from(self.marker()?);
        let data = length.checked_sub(2).ok_or_else(|| {
            damaged(format!("marker 0x{marker:04X} has a segment of {length} bytes"))
        })?;
        self.take(data)
    }
}

fn byte(bytes: &[u8], at: usize) -> u8 {
    bytes.get(at).copied().unwrap_or(0)
}

fn half(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([byte(bytes, at), byte(bytes, at.saturating_add(1))])
}

fn word(bytes: &[u8], at: usize) -> u32 {
    (u32::from(half(bytes, at)) << 16) | u32::from(half(bytes, at.saturating_add(2)))
}

impl Header {
    /// Reads the main header of the codestream that starts the payload.
    pub(super) fn read(payload: &[u8]) -> Result<Self> {
        let mut cursor = Cursor { bytes: payload, position: 0 };
        if cursor.marker()? != SOC {
            return Err(damaged("its codestream does not start with the marker of one"));
        }
        if cursor.marker()? != SIZ {
            return Err(damaged("its codestream does not start with image and tile sizes"));
        }
        let mut header = Self::sizes(cursor.segment(SIZ)?)?;
        header.markers.push(SIZ);
        loop {
            let marker = cursor.marker()?;
            if marker == SOT {
                header.end = cursor.position.saturating_sub(2);
                break;
            }
            let start = cursor.position;
            let segment = cursor.segment(marker)?;
            header.markers.push(marker);
            match marker {
                SIZ => return Err(damaged("it has two segments of image and tile sizes")),
                COD => {
                    header.default = Coding::read(segment)?;
                    // Marker length, Scod, progression and layers come before it.
                    header.transform_at = start.saturating_add(6);
                }
                COC => {
                    let (component, coding) =
                        ComponentCoding::read_own(segment, header.components.len())?;
                    header.own.insert(component, coding);
                }
                PPM => header.packed_headers = true,
                0xFF70..=0xFF73 | 0xFF76 | 0xFF79 => {
                    return Err(unsupported(format!(
                        "marker 0x{marker:04X} of JPEG 2000 part 2 is not supported"
                    )));
                }
                _ => {}
            }
        }
        if !header.markers.contains(&COD) {
            return Err(damaged("its main header does not say how it is coded"));
        }
        if !header.markers.contains(&QCD) {
            return Err(damaged("its main header does not say how it is quantised"));
        }
        Ok(header)
    }

    fn sizes(segment: &[u8]) -> Result<Self> {
        let count = usize::from(half(segment, 34));
        let wanted = count.saturating_mul(3).saturating_add(36);
        if segment.len() != wanted || count == 0 || count > 16_384 {
            return Err(damaged(format!(
                "its image and tile sizes have {} bytes for {count} components",
                segment.len()
            )));
        }
        let image = Area {
            x0: word(segment, 10),
            y0: word(segment, 14),
            x1: word(segment, 2),
            y1: word(segment, 6),
        };
        let tile = (word(segment, 18), word(segment, 22));
        let tile_offset = (word(segment, 26), word(segment, 30));
        if image.width() == 0 || image.height() == 0 {
            return Err(damaged(format!(
                "it claims an image from {}, {} to {}, {}",
                image.x0, image.y0, image.x1, image.y1
            )));
        }
        let reaches = |offset: u32, tile: u32, image: u32| {
            tile > 0
                && offset <= image
                && u64::from(offset).saturating_add(tile.into()) > image.into()
        };
        if !reaches(tile_offset.0, tile.0, image.x0) || !reaches(tile_offset.1, tile.1, image.y0) {
            return Err(damaged(format!(
                "its first tile of {} x {} at {}, {} does not reach the image at {}, {}",
                tile.0, tile.1, tile_offset.0, tile_offset.1, image.x0, image.y0
            )));
        }
        let mut components = Vec::new();
        for (index, three) in segment.get(36..).unwrap_or_default().chunks_exact(3).enumerate() {
            let (depth, dx, dy) = (byte(three, 0), byte(three, 1), byte(three, 2));
            let component = Component {
                bits: (depth & 0x7F).saturating_add(1),
                signed: depth & 0x80 != 0,
                dx: dx.into(),
                dy: dy.into(),
            };
            if component.bits > 38 {
                return Err(damaged(format!(
                    "component {index} claims {} bits instead of 1 to 38",
                    component.bits
                )));
            }
            if dx == 0 || dy == 0 || image.sampled(dx.into(), dy.into()).samples() == 0 {
                return Err(damaged(format!(
                    "component {index} has no samples at distances of {dx} x {dy}"
                )));
            }
            components.push(component);
        }
        Ok(Self {
            image,
            components,
            tile,
            tile_offset,
            capabilities: half(segment, 0),
            default: Coding::default(),
            own: BTreeMap::new(),
            packed_headers: false,
            markers: Vec::new(),
            transform_at: 0,
            end: 0,
        })
    }

    /// The number of tiles across and down.
    fn tiles(&self) -> (u64, u64) {
        let across = |end: u32, offset: u32, size: u32| {
            u64::from(end.saturating_sub(offset)).div_ceil(u64::from(size.max(1)))
        };
        (
            across(self.image.x1, self.tile_offset.0, self.tile.0),
            across(self.image.y1, self.tile_offset.1, self.tile.1),
        )
    }

    /// The part of the image in a tile.
    fn tile_area(&self, index: u64) -> Area {
        let across = self.tiles().0.max(1);
        let (p, q) =
            (index.checked_rem(across).unwrap_or(0), index.checked_div(across).unwrap_or(0));
        let edge = |offset: u32, size: u32, at: u64| {
            let place = u64::from(offset).saturating_add(at.saturating_mul(size.into()));
            u32::try_from(place).unwrap_or(u32::MAX)
        };
        Area {
            x0: edge(self.tile_offset.0, self.tile.0, p).max(self.image.x0),
            y0: edge(self.tile_offset.1, self.tile.1, q).max(self.image.y0),
            x1: edge(self.tile_offset.0, self.tile.0, p.saturating_add(1)).min(self.image.x1),
            y1: edge(self.tile_offset.1, self.tile.1, q.saturating_add(1)).min(self.image.y1),
        }
    }

    /// Whether the encoder of the reference packages wrote this: its colour images carry the
    /// flag of a transform that was not applied. Other encoders put a comment into the header.
    fn is_falsely_transformed(&self, payload: &[u8]) -> bool {
        let start = self.transform_at.saturating_sub(4);
        let coding = payload.get(start..start.saturating_add(10)).unwrap_or_default();
        let &[0, 2, 0, 1, 1, _, 4, 4, style, transform] = coding else { return false };
        self.markers == [SIZ, CAP, COD, QCD]
            && self.capabilities == HT_CAPABILITY
            && style & 0x40 != 0
            && transform <= 1
            && self.components.len() == 3
            && (self.image.x0, self.image.y0) == (0, 0)
            && self.tile == (self.image.x1, self.image.y1)
    }
}

/// What the headers of one tile's parts say.
#[derive(Default)]
struct Tile {
    bytes: u64,
    packed_headers: bool,
    default: Option<Coding>,
    own: BTreeMap<u16, ComponentCoding>,
}

impl Codestream {
    /// Reads and checks the structure of the codestream that starts the payload.
    pub(super) fn read(payload: &[u8], limits: &Limits) -> Result<Self> {
        let header = Header::read(payload)?;
        let (across, down) = header.tiles();
        let count = across.saturating_mul(down);
        if count > 65_535 || count.saturating_mul(14) > u64_len(payload.len()) {
            return Err(damaged(format!(
                "it claims {across} x {down} tiles in {} bytes",
                payload.len()
            )));
        }
        let parts = u64_len(header.components.len());
        if count.saturating_mul(parts) > 1 << 24 {
            return Err(unsupported(format!("{count} tiles of {parts} components are too many")));
        }
        let per_tile = parts.saturating_mul(1_200).saturating_add(6_000);
        let settings = count.saturating_mul(per_tile);
        limits.check_native_memory(settings)?;
        let tiles = tile_parts(&header, payload, count)?;
        let mut levels = u32::MAX;
        let mut work = Work::default();
        let mut is_ht = false;
        for index in 0..count {
            let tile = u16::try_from(index).ok().and_then(|index| tiles.get(&index));
            let Some(tile) = tile else {
                return Err(damaged(format!("tile {index} of {count} is missing")));
            };
            let before = work.packets;
            let area = header.tile_area(index);
            let mut here = TileWork::default();
            for (at, component) in header.components.iter().enumerate() {
                let at = u16::try_from(at).unwrap_or(u16::MAX);
                let coding = (tile.own.get(&at))
                    .or(tile.default.as_ref().map(|coding| &coding.components))
                    .or(header.own.get(&at))
                    .unwrap_or(&header.default.components);
                levels = levels.min(coding.levels);
                is_ht |= coding.is_ht();
                let area = area.sampled(component.dx, component.dy);
                here.add(coding, area, component);
            }
            let layers = tile.default.as_ref().unwrap_or(&header.default).layers;
            work.add(&here, layers.into());
            let packets = work.packets.saturating_sub(before);
            let room = if tile.packed_headers || header.packed_headers {
                u64_len(payload.len())
            } else {
                tile.bytes
            };
            if packets > room {
                return Err(damaged(format!(
                    "tile {index} is to have {packets} packets in {room} bytes"
                )));
            }
            if here.steps(area)
                > STEPS_PER_PACKET.saturating_mul(packets).saturating_add(STEPS_ALWAYS)
            {
                return Err(unsupported(format!(
                    "the precincts of tile {index} lie on too fine a grid for {packets} packets"
                )));
            }
        }
        let samples = header.components.iter().fold(0_u64, |sum, component| {
            sum.saturating_add(header.image.sampled(component.dx, component.dy).samples())
        });
        limits.check_samples(samples)?;
        // Of a single tile the library hands out the very samples that it decoded.
        let copies = if count == 1 { 0 } else { 4 };
        let native_memory = samples
            .saturating_mul(copies)
            .saturating_add(work.largest_tile)
            .saturating_add(settings)
            .saturating_add(u64_len(payload.len()).saturating_mul(2))
            .saturating_add(work.blocks.min(u64_len(payload.len())).saturating_mul(450));
        limits.check_native_memory(native_memory)?;
        let false_transform =
            (is_ht && header.is_falsely_transformed(payload)).then_some(header.transform_at);
        Ok(Self {
            image: header.image,
            components: header.components,
            false_transform,
            levels,
            is_ht,
        })
    }
}

/// Walks over the tile-parts to the end marker.
fn tile_parts(header: &Header, payload: &[u8], count: u64) -> Result<BTreeMap<u16, Tile>> {
    let mut cursor = Cursor { bytes: payload, position: header.end };
    let mut tiles: BTreeMap<u16, Tile> = BTreeMap::new();
    loop {
        let start = cursor.position;
        match cursor.marker() {
            Ok(EOC) => return Ok(tiles),
            Ok(SOT) => {}
            Ok(other) => {
                return Err(damaged(format!(
                    "0x{other:04X} stands at byte {start} in place of a tile-part or the end marker"
                )));
            }
            Err(_) => return Err(damaged("it is cut: there is no end marker")),
        }
        let segment = cursor.segment(SOT)?;
        if segment.len() != 8 {
            return Err(damaged(format!("a tile-part header has {} bytes", segment.len())));
        }
        let (index, length) = (half(segment, 0), word(segment, 2));
        if u64::from(index) >= count {
            return Err(damaged(format!("a tile-part is of tile {index}, but there are {count}")));
        }
        let end = if length == 0 {
            // The last tile-part may leave its length open.
            let rest = payload.get(cursor.position..).unwrap_or_default();
            let marker = rest.windows(2).position(|two| two == EOC.to_be_bytes());
            marker
                .and_then(|at| cursor.position.checked_add(at))
                .ok_or_else(|| damaged("it is cut: there is no end marker"))?
        } else {
            let length = usize::try_from(length).unwrap_or(usize::MAX);
            start.saturating_add(length)
        };
        if end > payload.len() {
            return Err(damaged(format!(
                "it is cut: the part of tile {index} at byte {start} is to end at {end} of {}",
                payload.len()
            )));
        }
        let tile = tiles.entry(index).or_default();
        loop {
            let marker = cursor.marker()?;
            if marker == SOD {
                break;
            }
            let segment = cursor.segment(marker)?;
            match marker {
                COD => tile.default = Some(Coding::read(segment)?),
                COC => {
                    let (component, coding) =
                        ComponentCoding::read_own(segment, header.components.len())?;
                    tile.own.insert(component, coding);
                }
                PPT => tile.packed_headers = true,
                SIZ | CAP => {
                    return Err(damaged(format!(
                        "marker 0x{marker:04X} stands in the header of tile {index}"
                    )));
                }
                _ => {}
            }
        }
        let data = end.checked_sub(cursor.position).ok_or_else(|| {
            damaged(format!("the part of tile {index} at byte {start} ends inside its header"))
        })?;
        tile.bytes = tile.bytes.saturating_add(u64_len(data));
        cursor.position = end;
    }
}
