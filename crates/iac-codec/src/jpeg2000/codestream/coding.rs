//! The segments that say how tiles and components are coded (COD, COC).

use super::super::{damaged, unsupported};
use super::{byte, half};
use crate::Result;

/// Code blocks of the high-throughput kind.
const HT: u8 = 0x40;

/// How the components of a tile are coded unless they say otherwise.
#[derive(Debug, Clone, Default)]
pub(super) struct Coding {
    pub(super) layers: u16,
    pub(super) components: ComponentCoding,
}

/// How one component is coded.
#[derive(Debug, Clone, Default)]
pub(super) struct ComponentCoding {
    /// How often resolution is halved.
    pub(super) levels: u32,
    /// Exponents of the width and height of code blocks.
    pub(super) block: (u8, u8),
    style: u8,
    /// Exponents of the sizes of precincts, two in a byte, from the lowest resolution on; empty
    /// for the largest.
    precincts: Vec<u8>,
}

impl Coding {
    pub(super) fn read(segment: &[u8]) -> Result<Self> {
        let layers = half(segment, 2);
        if segment.len() < 10 || layers == 0 || byte(segment, 1) > 4 || byte(segment, 4) > 1 {
            return Err(damaged(format!(
                "its coding style has {} bytes, {layers} layers, progression {} and transform {}",
                segment.len(),
                byte(segment, 1),
                byte(segment, 4)
            )));
        }
        let has_precincts = byte(segment, 0) & 1 != 0;
        let components =
            ComponentCoding::read(segment.get(5..).unwrap_or_default(), has_precincts)?;
        Ok(Self { layers, components })
    }
}

impl ComponentCoding {
    /// Reads the segment of one component, and which it is.
    pub(super) fn read_own(segment: &[u8], components: usize) -> Result<(u16, Self)> {
        let (component, rest) = if components < 257 {
            (u16::from(byte(segment, 0)), segment.get(1..))
        } else {
            (half(segment, 0), segment.get(2..))
        };
        if usize::from(component) >= components {
            return Err(damaged(format!(
                "a coding style is for component {component}, but there are {components}"
            )));
        }
        let rest = rest.unwrap_or_default();
        let coding = Self::read(rest.get(1..).unwrap_or_default(), byte(rest, 0) & 1 != 0)?;
        Ok((component, coding))
    }

    fn read(bytes: &[u8], has_precincts: bool) -> Result<Self> {
        let &[levels, width, height, style, transform, ref precincts @ ..] = bytes else {
            return Err(damaged("a coding style is cut"));
        };
        let wanted = if has_precincts { usize::from(levels).saturating_add(1) } else { 0 };
        if levels > 32 || precincts.len() < wanted {
            return Err(damaged(format!(
                "a coding style has {} precinct sizes for {levels} halvings",
                precincts.len()
            )));
        }
        if width > 8 || height > 8 || width.saturating_add(height) > 8 {
            return Err(damaged(format!(
                "code blocks have sides of 2^{} and 2^{}",
                u16::from(width).saturating_add(2),
                u16::from(height).saturating_add(2)
            )));
        }
        if transform > 1 {
            return Err(unsupported(format!("wavelet {transform} is not supported, only 0 and 1")));
        }
        let precincts = precincts.get(..wanted).unwrap_or_default().to_vec();
        // Above the lowest resolution a precinct of size 1 would have no place for code blocks.
        if precincts.iter().skip(1).any(|sizes| sizes & 0x0F == 0 || sizes >> 4 == 0) {
            return Err(damaged("a precinct has a side of 1 above the lowest resolution"));
        }
        Ok(Self {
            levels: levels.into(),
            block: (width.saturating_add(2), height.saturating_add(2)),
            style,
            precincts,
        })
    }

    pub(super) const fn is_ht(&self) -> bool {
        self.style & HT != 0
    }

    /// Exponents of the width and height of precincts at a resolution, 0 being the lowest.
    pub(super) fn precinct(&self, resolution: u32) -> (u8, u8) {
        let sizes = usize::try_from(resolution).ok().and_then(|at| self.precincts.get(at));
        sizes.map_or((15, 15), |sizes| (sizes & 0x0F, sizes >> 4))
    }
}
