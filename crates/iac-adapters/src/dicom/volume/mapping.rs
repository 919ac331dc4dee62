//! From stored samples to real values.

use std::sync::Arc;

use dicom_core::Tag;

use super::geometry::Numbers;
use super::groups::{Groups, exactly, first, items, numbers, text};
use super::words::{Scratch, VoxelType};
use crate::dicom::object::DataSet;
use crate::dicom::values::{Lut, modality_lut};

const TRANSFORMATION: Tag = Tag(0x0028, 0x9145);
const INTERCEPT: Tag = Tag(0x0028, 0x1052);
const SLOPE: Tag = Tag(0x0028, 0x1053);
const RESCALE_TYPE: Tag = Tag(0x0028, 0x1054);
const REAL_WORLD: Tag = Tag(0x0040, 0x9096);
const DOSE_SCALING: Tag = Tag(0x3004, 0x000E);

/// What makes a real value of a stored sample.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Mapping {
    /// A sample is its value.
    Identity,
    /// Rescale slope and intercept.
    Linear { slope: f64, intercept: f64 },
    /// The modality LUT.
    Table(Arc<Lut>),
    /// Real World Value Mapping; what lies outside of all spans has no value.
    World(Arc<Vec<Span>>),
    /// What the object says cannot be used.
    Faulty(&'static str),
}

/// A range of samples with their values.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Span {
    first: f64,
    last: f64,
    values: SpanValues,
}

#[derive(Debug, Clone, PartialEq)]
enum SpanValues {
    Linear {
        slope: f64,
        intercept: f64,
    },
    /// The value of each sample from the first on.
    Table(Vec<f64>),
}

impl Span {
    fn get(&self, sample: f64) -> Option<f64> {
        if !(sample >= self.first && sample <= self.last) {
            return None;
        }
        match &self.values {
            SpanValues::Linear { slope, intercept } => Some(sample * slope + intercept),
            SpanValues::Table(values) => {
                #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
                // Between 0 and the span of 16 bits.
                let place = (sample - self.first) as usize;
                values.get(place).copied()
            }
        }
    }
}

impl Mapping {
    /// The mapping of the object's modality: its LUT, its rescale slope and intercept, or the
    /// scaling of a dose.
    pub(super) fn of_modality(groups: &Groups<'_>, cache: &mut Cache) -> Self {
        if groups.object.get(DOSE_SCALING).is_some() {
            return match exactly(groups.object.get(DOSE_SCALING)) {
                Numbers::Are([slope]) if slope > 0.0 => Self::Linear { slope, intercept: 0.0 },
                _ => Self::Faulty("its dose grid scaling is no finite number above 0"),
            };
        }
        if let Some(lut) = modality_lut(groups.object) {
            return Self::Table(cache.lut(lut));
        }
        let number = |tag| exactly::<1>(groups.get(TRANSFORMATION, tag));
        match (number(SLOPE), number(INTERCEPT)) {
            (Numbers::Absent, Numbers::Absent) => Self::Identity,
            (Numbers::Unusable, _) => Self::Faulty("its rescale slope is no finite number"),
            (_, Numbers::Unusable) => Self::Faulty("its rescale intercept is no finite number"),
            (slope, intercept) => {
                let or = |number, absent| match number {
                    Numbers::Are([number]) => number,
                    _ => absent,
                };
                let (slope, intercept) = (or(slope, 1.0), or(intercept, 0.0));
                if slope == 0.0 {
                    Self::Faulty("its rescale slope is 0")
                } else if slope == 1.0 && intercept == 0.0 {
                    Self::Identity
                } else {
                    Self::Linear { slope, intercept }
                }
            }
        }
    }

    /// Slope and intercept, where that is all there is to it.
    pub(super) const fn linear(&self) -> Option<[f64; 2]> {
        match self {
            Self::Identity => Some([1.0, 0.0]),
            Self::Linear { slope, intercept } => Some([*slope, *intercept]),
            _ => None,
        }
    }

    /// Puts the values of a frame's samples to their places.
    #[allow(clippy::cast_possible_truncation)] // The nearest value that the type has is meant.
    pub(super) fn apply(&self, samples: &Scratch, voxel_type: VoxelType, out: &mut [f32]) {
        match self {
            Self::Identity | Self::Faulty(_) => {
                samples.map_into(voxel_type, out, |sample| sample as f32);
            }
            Self::Linear { slope, intercept } => {
                samples.map_into(voxel_type, out, |sample| (sample * slope + intercept) as f32);
            }
            Self::Table(lut) => {
                samples.map_into(voxel_type, out, |sample| f32::from(lut.get(sample as i32)));
            }
            Self::World(spans) => samples.map_into(voxel_type, out, |sample| {
                let value = spans.iter().find_map(|span| span.get(sample));
                value.map_or(f32::NAN, |value| value as f32)
            }),
        }
    }
}

/// Unit and mapping of Real World Value Mapping.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct World {
    pub(super) units: String,
    pub(super) mapping: Mapping,
    /// Units of mappings that the object has beside this one.
    pub(super) others: Vec<String>,
}

/// What frames of one object share, so that many frames cost as much as one.
#[derive(Debug, Default)]
pub(super) struct Cache {
    lut: Option<Arc<Lut>>,
    /// Where the items were that the last frame had, and what they say.
    world: Option<(usize, Option<Arc<World>>)>,
}

impl Cache {
    fn lut(&mut self, lut: Lut) -> Arc<Lut> {
        if let Some(known) = self.lut.as_ref().filter(|known| ***known == lut) {
            return Arc::clone(known);
        }
        let lut = Arc::new(lut);
        self.lut = Some(Arc::clone(&lut));
        lut
    }

    /// Before another object: addresses of the last one mean nothing any more.
    pub(super) fn next_object(&mut self) {
        self.world = None;
    }

    pub(super) fn world(&mut self, groups: &Groups<'_>) -> Option<Arc<World>> {
        let mut mappings = groups.group(REAL_WORLD);
        if mappings.is_empty() {
            mappings = items(groups.object, REAL_WORLD);
        }
        let address = mappings.as_ptr().addr();
        if let Some((known, world)) = &self.world
            && *known == address
        {
            return world.clone();
        }
        let world = world(mappings).map(Arc::new);
        self.world = Some((address, world.clone()));
        world
    }
}

/// The mapping into the unit of the first item; items of the same unit are further ranges of it.
fn world(mappings: &[DataSet]) -> Option<World> {
    let units = units_of(mappings.first()?);
    let mut others: Vec<String> =
        mappings.iter().map(units_of).filter(|other| *other != units).collect();
    others.dedup();
    let spans: Option<Vec<Span>> =
        mappings.iter().filter(|item| units_of(item) == units).map(span).collect();
    let mapping = spans.map_or(
        Mapping::Faulty("its real world value mapping is incomplete or holds unusable numbers"),
        |spans| Mapping::World(Arc::new(spans)),
    );
    Some(World { units, mapping, others })
}

fn span(item: &DataSet) -> Option<Span> {
    let number = |tag| item.get(tag).and_then(first);
    let bound = |double: Tag, whole: Tag| number(double).or_else(|| number(whole));
    // Float pixel data may have a mapping without bounds.
    let low = bound(Tag(0x0040, 0x9214), Tag(0x0040, 0x9216)).unwrap_or(f64::NEG_INFINITY);
    let high = bound(Tag(0x0040, 0x9213), Tag(0x0040, 0x9211)).unwrap_or(f64::INFINITY);
    if let Some(table) = item.get(Tag(0x0040, 0x9212)) {
        let values = numbers(table)?;
        let fits = low.is_finite()
            && high.is_finite()
            && low.fract() == 0.0
            && high - low + 1.0 == super::affine::count(values.len());
        return fits.then_some(Span { first: low, last: high, values: SpanValues::Table(values) });
    }
    let (slope, intercept) = (number(Tag(0x0040, 0x9225))?, number(Tag(0x0040, 0x9224))?);
    (slope != 0.0).then_some(Span {
        first: low,
        last: high,
        values: SpanValues::Linear { slope, intercept },
    })
}

/// The code of a mapping's unit.
fn units_of(item: &DataSet) -> String {
    let code = items(item, Tag(0x0040, 0x08EA)).first();
    let code = code.and_then(|code| code.get(Tag(0x0008, 0x0100)));
    code.and_then(text).unwrap_or_default()
}

/// The unit that values have after the modality's mapping; empty where nobody says.
pub(super) fn modality_units(groups: &Groups<'_>, modality: &str) -> String {
    let plain = |tag| groups.object.get(tag).and_then(text);
    plain(Tag(0x3004, 0x0002))
        .or_else(|| groups.text(TRANSFORMATION, RESCALE_TYPE))
        .or_else(|| plain(Tag(0x0054, 0x1001)))
        .unwrap_or_else(|| if modality == "CT" { "HU".to_owned() } else { String::new() })
}
