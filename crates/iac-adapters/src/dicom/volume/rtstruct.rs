//! Regions of RT structure sets as labels.

use std::collections::BTreeMap;
use std::fmt;

use dicom_core::{Tag, VR};

use super::geometry::Numbers;
use super::geometry::dot;
use super::groups::{exactly, first, items, numbers, text};
use super::label::{Canvas, Grid, Label, LabelFault, LabelFaultReason, LabelVolume};
use super::polygon::Raster;
use super::read::{VolumeOptions, refused};
use super::slice::to_whole;
use super::stack::VolumeStack;
use crate::dicom::charset::Charset;
use crate::dicom::object::DataSet;
use crate::error::{AdapterError, Result};

/// Coordinates farther away, in millimetres, are taken for damage.
const FAR: f64 = 1e7;

/// Rows that edges may cross in one drawing: seconds of work, and a thousand times what is drawn.
const MOST_STEPS: u64 = 1 << 32;

/// A structure set: regions that contours draw.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct StructureSet {
    /// The series that contours were drawn on.
    pub series_uids: Vec<String>,
    /// SOP instance UIDs of the images that contours name.
    pub image_uids: Vec<String>,
    /// The regions, in the order of the structure set.
    pub regions: Vec<Region>,
}

/// A region of interest.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub struct Region {
    /// ROI Number.
    pub number: i64,
    /// ROI Name; empty where there is none.
    pub name: String,
    /// ROI Display Color: red, green, blue.
    pub color: Option<[u8; 3]>,
    /// The frame of reference of its coordinates; empty where none is stated.
    pub frame_of_reference: String,
    /// Its contours, in the order of the structure set.
    pub contours: Vec<Contour>,
}

/// Shows no name: somebody wrote it.
impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Region")
            .field("number", &self.number)
            .field("contours", &self.contours.len())
            .finish_non_exhaustive()
    }
}

/// A contour.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Contour {
    /// Contour Geometric Type, as `CLOSED_PLANAR`.
    pub kind: String,
    /// Its points in millimetres (LPS); nothing where the coordinates cannot be used.
    pub points: Option<Vec<[f64; 3]>>,
}

impl StructureSet {
    /// Reads the regions of an RT structure set.
    ///
    /// # Errors
    ///
    /// [`AdapterError::Source`] (kind `schema`) when the object holds no structure set.
    pub fn of(data: &DataSet, name: &str) -> Result<Self> {
        let rois = items(data, Tag(0x3006, 0x0020));
        if rois.is_empty() && data.get(Tag(0x3006, 0x0039)).is_none() {
            let reason = "it is no RT structure set: it has no regions of interest";
            return Err(refused(name, iac_format::ErrorKind::Schema, reason));
        }
        let charset = charset(data);
        let mut contours: BTreeMap<i64, &DataSet> = BTreeMap::new();
        for item in items(data, Tag(0x3006, 0x0039)) {
            if let Some(number) = item.get(Tag(0x3006, 0x0084)).and_then(first) {
                contours.entry(to_whole(number)).or_insert(item);
            }
        }
        let regions = rois
            .iter()
            .filter_map(|roi| {
                let number = to_whole(roi.get(Tag(0x3006, 0x0022)).and_then(first)?);
                let drawn = contours.get(&number).copied();
                Some(Region {
                    number,
                    name: words(roi, Tag(0x3006, 0x0026), &charset),
                    color: drawn.and_then(color),
                    frame_of_reference: roi
                        .get(Tag(0x3006, 0x0024))
                        .and_then(text)
                        .unwrap_or_default(),
                    contours: drawn.map_or_else(Vec::new, |item| {
                        items(item, Tag(0x3006, 0x0040)).iter().map(contour).collect()
                    }),
                })
            })
            .collect();
        let mut made = Self { series_uids: Vec::new(), image_uids: Vec::new(), regions };
        made.find_references(data);
        Ok(made)
    }

    fn find_references(&mut self, data: &DataSet) {
        let uid = |item: &DataSet, tag| item.get(tag).and_then(text);
        for frame in items(data, Tag(0x3006, 0x0010)) {
            for study in items(frame, Tag(0x3006, 0x0012)) {
                for series in items(study, Tag(0x3006, 0x0014)) {
                    self.series_uids.extend(uid(series, Tag(0x0020, 0x000E)));
                    for image in items(series, Tag(0x3006, 0x0016)) {
                        self.image_uids.extend(uid(image, Tag(0x0008, 0x1155)));
                    }
                }
            }
        }
        for region in items(data, Tag(0x3006, 0x0039)) {
            for contour in items(region, Tag(0x3006, 0x0040)) {
                for image in items(contour, Tag(0x3006, 0x0016)) {
                    self.image_uids.extend(uid(image, Tag(0x0008, 0x1155)));
                }
            }
        }
        for list in [&mut self.series_uids, &mut self.image_uids] {
            list.sort_unstable();
            list.dedup();
        }
    }

    /// The region of a name, or, where none has it, of a number.
    #[must_use]
    pub fn region(&self, name: &str) -> Option<usize> {
        let named = self.regions.iter().position(|region| region.name == name);
        named.or_else(|| {
            let number: i64 = name.parse().ok()?;
            self.regions.iter().position(|region| region.number == number)
        })
    }

    /// Draws regions on the voxels that [`read_volume`] gives for a stack with the same options.
    ///
    /// `regions` are positions in [`regions`](Self::regions); the n-th of them gets the value n + 1,
    /// and covers those before it. A voxel is held when its centre is inside: even-odd for one
    /// contour, and contours of one slice are combined by exclusive or. Contours that lie in no
    /// slice's plane (within the tolerance of the stack), that are not closed or cannot be
    /// understood are among the faults.
    ///
    /// # Errors
    ///
    /// [`AdapterError::Usage`] for regions that do not exist or more than 65,535 of them; as
    /// [`read_volume`] for stacks that are not regular.
    ///
    /// [`read_volume`]: crate::dicom::DicomPackReader::read_volume
    pub fn labels(
        &self,
        regions: &[usize],
        stack: &VolumeStack,
        options: &VolumeOptions,
    ) -> Result<LabelVolume> {
        const NAME: &str = "structure set";
        let grid = Grid::of(NAME, stack, options)?;
        let mut canvas = Canvas::new(NAME, &grid)?;
        let (mut labels, mut faults) = (Vec::new(), Vec::new());
        let mut steps_left = MOST_STEPS;
        for (number, at) in regions.iter().enumerate() {
            let value = u16::try_from(number).ok().and_then(|number| number.checked_add(1));
            let (Some(region), Some(value)) = (self.regions.get(*at), value) else {
                return Err(AdapterError::usage(format!(
                    "region {at} as label {} is not possible: there are {} regions, and labels end at 65535",
                    number.saturating_add(1),
                    self.regions.len()
                )));
            };
            let mut voxels = 0_u64;
            for (slice, held) in region.drawn(&grid, &mut steps_left, &mut faults) {
                voxels = voxels.saturating_add(canvas.draw(slice, value, &held));
            }
            let (number, name) = (region.number, region.name.clone());
            labels.push(Label { value, number, name, voxels });
        }
        canvas.finish(labels, faults)
    }
}

impl Region {
    /// The voxels that it holds, slice by slice.
    fn drawn<'a>(
        &'a self,
        grid: &'a Grid,
        steps_left: &mut u64,
        faults: &mut Vec<LabelFault>,
    ) -> impl Iterator<Item = (usize, Vec<bool>)> + use<'a> {
        let mut fault = |part, reason| {
            faults.push(LabelFault { number: Some(self.number), part, reason });
        };
        let mut slices: BTreeMap<usize, Vec<Vec<[f64; 2]>>> = BTreeMap::new();
        let stated = [&self.frame_of_reference, &grid.frame_of_reference];
        if stated.iter().all(|uid| !uid.is_empty()) && stated[0] != stated[1] {
            fault(None, LabelFaultReason::OtherFrameOfReference);
        } else {
            for (number, contour) in self.contours.iter().enumerate() {
                let (slice, polygon) = match contour.on(grid) {
                    Ok(placed) => placed,
                    Err(reason) => {
                        fault(Some(number), reason);
                        continue;
                    }
                };
                let steps = Raster::steps(&polygon, grid.size);
                match steps_left.checked_sub(steps) {
                    Some(left) => {
                        *steps_left = left;
                        slices.entry(slice).or_default().push(polygon);
                    }
                    None => fault(Some(number), LabelFaultReason::TooComplex { steps }),
                }
            }
        }
        slices.into_iter().map(|(slice, polygons)| {
            let mut raster = Raster::new(grid.size);
            for polygon in &polygons {
                raster.add(polygon);
            }
            (slice, raster.finish())
        })
    }
}

impl Contour {
    /// The slice that it lies in, and its points there as columns and rows.
    fn on(&self, grid: &Grid) -> Result<(usize, Vec<[f64; 2]>), LabelFaultReason> {
        if !matches!(self.kind.as_str(), "CLOSED_PLANAR" | "CLOSEDPLANAR_XOR") {
            return Err(LabelFaultReason::NotClosed { kind: self.kind.clone() });
        }
        let Some(points) = &self.points else {
            return Err(LabelFaultReason::NotNumbers);
        };
        if points.len() < 3 {
            return Err(LabelFaultReason::TooFewPoints { points: points.len() });
        }
        let along = points.iter().map(|point| dot(*point, grid.normal));
        let mean = along.sum::<f64>() / super::affine::count(points.len());
        let tolerance = grid.tolerance;
        let Some((slice, distance)) = grid.nearest(mean) else {
            return Err(LabelFaultReason::OffPlane { distance: f64::INFINITY, tolerance });
        };
        if distance > tolerance {
            return Err(LabelFaultReason::OffPlane { distance, tolerance });
        }
        let Some(plane) = grid.planes.get(slice) else {
            return Err(LabelFaultReason::OffPlane { distance, tolerance });
        };
        let mut farthest = 0.0_f64;
        let mut polygon = Vec::with_capacity(points.len());
        for point in points {
            let [column, row, off] = plane.locate(*point);
            farthest = farthest.max(off.abs());
            polygon.push([column, row]);
        }
        if farthest > tolerance {
            return Err(LabelFaultReason::NotPlanar { distance: farthest, tolerance });
        }
        Ok((slice, polygon))
    }
}

fn contour(item: &DataSet) -> Contour {
    let kind = item.get(Tag(0x3006, 0x0042)).and_then(text).unwrap_or_default();
    let points = item.get(Tag(0x3006, 0x0050)).and_then(numbers).and_then(|numbers| {
        let (points, rest) = numbers.as_chunks::<3>();
        // NaN is near nothing.
        let usable = rest.is_empty() && numbers.iter().all(|one| one.abs() <= FAR);
        usable.then(|| points.to_vec())
    });
    Contour { kind, points }
}

fn color(item: &DataSet) -> Option<[u8; 3]> {
    let Numbers::Are(color) = exactly::<3>(item.get(Tag(0x3006, 0x002A))) else {
        return None;
    };
    let byte = |one: f64| u8::try_from(to_whole(one)).ok();
    let [red, green, blue] = color;
    Some([byte(red)?, byte(green)?, byte(blue)?])
}

pub(super) fn charset(data: &DataSet) -> Charset {
    Charset::of(data).unwrap_or_default()
}

/// A text in the character set of its object.
pub(super) fn words(item: &DataSet, tag: Tag, charset: &Charset) -> String {
    let bytes = item.bytes(tag);
    bytes.map_or_else(String::new, |bytes| {
        crate::dicom::text::parts(VR::LO, bytes, charset).join("\\")
    })
}
