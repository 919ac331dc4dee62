//! Where images lie, and whether some of them are missing.

use std::collections::BTreeMap;

use dicom_core::Tag;

use super::number;
use super::object::DataSet;

/// Modalities whose images are slices.
const SLICED: [&str; 4] = ["CT", "MR", "NM", "PT"];

/// The place of one image, as far as its object tells.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Place {
    pub(crate) sop_uid: String,
    pub(crate) instance_number: i32,
    pub(crate) modality: String,
    pub(crate) position: Option<[f64; 3]>,
    pub(crate) orientation: Option<[f64; 6]>,
    pub(crate) pixel_spacing: Option<[f64; 2]>,
    pub(crate) spacing: Option<f64>,
    pub(crate) thickness: Option<f64>,
    /// Slope and intercept.
    pub(crate) rescale: Option<[f64; 2]>,
    pub(crate) acquisition_uid: String,
    pub(crate) frame_of_reference: String,
    pub(crate) stack_id: String,
    pub(crate) acquisition: String,
    pub(crate) temporal: String,
    pub(crate) echo: String,
    pub(crate) image_type: String,
    pub(crate) declared: Option<i64>,
}

impl Place {
    pub(crate) fn of(data: &DataSet) -> Self {
        let text = |tag: Tag| data.ascii(tag).unwrap_or_default();
        let positive = |tag: Tag| reals(data, tag).and_then(|numbers| numbers.first().copied());
        Self {
            sop_uid: text(Tag(0x0008, 0x0018)),
            instance_number: -1,
            modality: text(Tag(0x0008, 0x0060)),
            position: exactly(data, Tag(0x0020, 0x0032)),
            orientation: exactly(data, Tag(0x0020, 0x0037)),
            pixel_spacing: exactly(data, Tag(0x0028, 0x0030)),
            spacing: positive(Tag(0x0018, 0x0088))
                .map(f64::abs)
                .filter(|spacing| spacing.is_finite() && *spacing > 0.0),
            thickness: positive(Tag(0x0018, 0x0050)).filter(|thickness| thickness.is_finite()),
            rescale: exactly(data, Tag(0x0028, 0x1053))
                .zip(exactly(data, Tag(0x0028, 0x1052)))
                .map(|([slope], [intercept])| [slope, intercept]),
            acquisition_uid: text(Tag(0x0008, 0x0017)),
            frame_of_reference: text(Tag(0x0020, 0x0052)),
            stack_id: text(Tag(0x0020, 0x9056)),
            acquisition: text(Tag(0x0020, 0x0012)),
            temporal: text(Tag(0x0020, 0x0100)),
            echo: text(Tag(0x0018, 0x0086)),
            image_type: text(Tag(0x0008, 0x0008)),
            declared: text(Tag(0x0020, 0x1002)).split('\\').next().and_then(number::integer),
        }
    }

    fn stack_key(&self) -> Option<StackKey> {
        let orientation = self.orientation?.map(|one| (one * 100_000.0).round_ties_even());
        Some(StackKey {
            texts: [
                self.frame_of_reference.clone(),
                self.stack_id.clone(),
                self.acquisition.clone(),
                self.temporal.clone(),
                self.echo.clone(),
                self.image_type.clone(),
            ],
            // Zero has no sign here.
            orientation: orientation.map(|one| (one + 0.0).to_bits()),
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct StackKey {
    texts: [String; 6],
    orientation: [u64; 6],
}

fn reals(data: &DataSet, tag: Tag) -> Option<Vec<f64>> {
    let text = data.ascii(tag).filter(|text| !text.is_empty())?;
    text.split('\\').map(number::decimal).collect()
}

fn exactly<const N: usize>(data: &DataSet, tag: Tag) -> Option<[f64; N]> {
    let numbers: [f64; N] = reals(data, tag)?.try_into().ok()?;
    numbers.iter().all(|number| number.is_finite()).then_some(numbers)
}

/// A slice beside a gap.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct GapSide {
    /// SOP instance UID of the image.
    pub sop_instance_uid: String,
    /// Its instance number.
    pub instance_number: i32,
    /// Where it lies along the normal of the stack, in millimetres.
    pub position: f64,
}

/// A place in a stack where slices are missing.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct SliceGap {
    /// The study that the series belongs to.
    pub study_uid: String,
    /// The series.
    pub series_uid: String,
    /// Which of the stacks of the series, counted from 0.
    pub stack: usize,
    /// The distance between slices that the stack has otherwise.
    pub expected_spacing: f64,
    /// The slice before the gap.
    pub before: GapSide,
    /// The slice behind it.
    pub after: GapSide,
}

/// An acquisition with fewer images than its objects declare.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShortAcquisition {
    /// The study that it belongs to.
    pub study_uid: String,
    /// Images that are declared.
    pub declared: i64,
    /// Images that are there.
    pub found: u64,
}

/// A group of parallel slices of one series.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Stack {
    /// Images of the stack.
    pub images: usize,
    /// Distinct positions.
    pub positions: usize,
    /// First and last position along the normal, in millimetres.
    pub extent: Option<[f64; 2]>,
    /// The median distance of neighbouring positions, in millimetres.
    pub spacing: Option<f64>,
}

/// What the images of a series show: stacks, and the gaps in them. Only images take part, in the
/// order of their rows.
pub(crate) fn examine_series(
    study_uid: &str,
    series_uid: &str,
    places: &[&Place],
) -> (Vec<Stack>, Vec<Vec<SliceGap>>) {
    let sliced = places
        .first()
        .is_some_and(|first| SLICED.contains(&first.modality.to_uppercase().as_str()));
    let located =
        places.iter().all(|place| place.position.is_some() && place.orientation.is_some());
    let mut groups: BTreeMap<StackKey, Vec<&Place>> = BTreeMap::new();
    let mut order: Vec<StackKey> = Vec::new();
    for place in places {
        let Some(key) = place.stack_key().filter(|_| place.position.is_some()) else {
            continue;
        };
        let group = groups.entry(key.clone()).or_default();
        if group.is_empty() {
            order.push(key);
        }
        group.push(place);
    }
    let mut stacks = Vec::new();
    let mut gaps = Vec::new();
    for (number, key) in order.iter().enumerate() {
        let Some(group) = groups.get(key) else {
            continue;
        };
        let line = line(group);
        let distances = distances(&line);
        stacks.push(Stack {
            images: group.len(),
            positions: line.len(),
            extent: line.first().zip(line.last()).map(|(first, last)| [first.at, last.at]),
            spacing: median(&distances),
        });
        if sliced && located && places.len() >= 2 {
            let found = gaps_of(&line, &declared_spacing(group, &distances));
            if !found.is_empty() {
                gaps.push(
                    found
                        .into_iter()
                        .map(|(expected, before, after)| SliceGap {
                            study_uid: study_uid.to_owned(),
                            series_uid: series_uid.to_owned(),
                            stack: number,
                            expected_spacing: expected,
                            before,
                            after,
                        })
                        .collect(),
                );
            }
        }
    }
    (stacks, gaps)
}

/// A distinct position of a stack.
#[derive(Debug, Clone)]
struct Point<'a> {
    at: f64,
    /// Nothing once images of different numbers lie there, or one without a number.
    number: Option<i32>,
    place: &'a Place,
}

fn line<'a>(group: &[&'a Place]) -> Vec<Point<'a>> {
    let mut images: Vec<(f64, &Place)> = Vec::with_capacity(group.len());
    for place in group {
        let (Some([x, y, z]), Some([a, b, c, d, e, f])) = (place.position, place.orientation)
        else {
            continue;
        };
        let normal = [b * f - c * e, c * d - a * f, a * e - b * d];
        let [nx, ny, nz] = normal;
        let length = (nx * nx + ny * ny + nz * nz).sqrt();
        if length >= 1e-8 {
            images.push((x * (nx / length) + y * (ny / length) + z * (nz / length), place));
        }
    }
    images.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.instance_number.cmp(&b.1.instance_number)));
    let mut points: Vec<Point<'_>> = Vec::new();
    for (at, place) in images {
        let number = Some(place.instance_number).filter(|number| *number >= 0);
        match points.last_mut() {
            Some(last) if at - last.at <= 1e-3 => {
                if last.number != number {
                    last.number = None;
                }
            }
            _ => points.push(Point { at, number, place }),
        }
    }
    points
}

fn distances(line: &[Point<'_>]) -> Vec<f64> {
    line.windows(2)
        .filter_map(|pair| match pair {
            [a, b] => Some(b.at - a.at),
            _ => None,
        })
        .collect()
}

/// How many of the distances lie near a spacing.
fn near(distances: &[f64], spacing: f64) -> usize {
    let tolerance = (0.1 * spacing).max(1e-3);
    distances.iter().filter(|distance| (*distance - spacing).abs() <= tolerance).count()
}

fn half(count: usize) -> usize {
    count.div_ceil(2).max(1)
}

fn declared_spacing(group: &[&Place], distances: &[f64]) -> Option<f64> {
    let declared: Vec<f64> = group.iter().filter_map(|place| place.spacing).collect();
    let middle = median(&declared)?;
    (near(&declared, middle) == declared.len() && near(distances, middle) >= half(distances.len()))
        .then_some(middle)
}

fn gaps_of(line: &[Point<'_>], declared: &Option<f64>) -> Vec<(f64, GapSide, GapSide)> {
    if line.len() < 3 || line.iter().any(|point| point.number.is_none()) {
        return Vec::new();
    }
    let distances = distances(line);
    let expected = match declared {
        Some(declared) => *declared,
        None => {
            let mut sorted = distances.clone();
            sorted.sort_by(f64::total_cmp);
            let smallest = distances.len().saturating_add(1) / 2;
            let Some(expected) = median(sorted.get(..smallest.max(1)).unwrap_or_default()) else {
                return Vec::new();
            };
            if near(&distances, expected) < half(distances.len()) {
                return Vec::new();
            }
            expected
        }
    };
    let steps: Vec<f64> = line
        .windows(2)
        .map(|pair| match pair {
            [a, b] => f64::from(a.number.unwrap_or(0)) - f64::from(b.number.unwrap_or(0)),
            _ => 0.0,
        })
        .map(f64::abs)
        .collect();
    let regular: Vec<f64> = distances
        .iter()
        .zip(&steps)
        .filter(|(distance, step)| **distance <= 1.1 * expected + 1e-3 && **step > 0.0)
        .map(|(_, step)| *step)
        .collect();
    let Some(usual) = median(&regular) else {
        return Vec::new();
    };
    let side = |point: &Point<'_>| GapSide {
        sop_instance_uid: point.place.sop_uid.clone(),
        instance_number: point.place.instance_number,
        position: point.at,
    };
    line.windows(2)
        .zip(distances.iter().zip(&steps))
        .filter(|(_, (distance, step))| **distance > 1.5 * expected + 1e-3 && **step > 1.5 * usual)
        .filter_map(|(pair, _)| match pair {
            [before, after] => Some((expected, side(before), side(after))),
            _ => None,
        })
        .collect()
}

/// The middle of numbers; between the two middle ones where their count is even.
fn median(numbers: &[f64]) -> Option<f64> {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle)?;
    if sorted.len() % 2 == 1 {
        return Some(upper);
    }
    let lower = *sorted.get(middle.checked_sub(1)?)?;
    Some((lower + upper) / 2.0)
}

/// Acquisitions with fewer images than declared, among images with the study of each.
pub(crate) fn short_acquisitions<'a>(
    images: impl Iterator<Item = (&'a str, &'a Place)>,
) -> Vec<ShortAcquisition> {
    let mut groups: BTreeMap<[&str; 5], (u64, Vec<i64>)> = BTreeMap::new();
    for (study, place) in images {
        let key = if place.acquisition_uid.is_empty() {
            [study, "", &place.frame_of_reference, &place.acquisition, &place.temporal]
        } else {
            [study, &place.acquisition_uid, "", "", ""]
        };
        let (count, declared) = groups.entry(key).or_default();
        *count = count.saturating_add(1);
        if let Some(number) = place.declared.filter(|number| *number > 0)
            && !declared.contains(&number)
        {
            declared.push(number);
        }
    }
    groups
        .into_iter()
        .filter_map(|([study, ..], (found, declared))| match declared.as_slice() {
            [declared] if u64::try_from(*declared).is_ok_and(|declared| found < declared) => {
                Some(ShortAcquisition { study_uid: study.to_owned(), declared: *declared, found })
            }
            _ => None,
        })
        .collect()
}
