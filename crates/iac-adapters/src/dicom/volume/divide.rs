//! Which slices of a series belong together.

use std::collections::{BTreeMap, HashMap};

use super::affine::count;
use super::marks::{Attribute, Mark};
use super::slice::Slice;
use super::stack::{VolumeStack, places, tolerance};

/// By how much directions of one stack may differ in a coordinate.
const TURNED: f64 = 5e-4;
/// By how much its pixel spacings may, in millimetres.
const SPACED: f64 = 1e-4;

/// Stacks of slices, in the order of their first rows; `placed` is whether their places are known.
pub(super) fn stacks(slices: Vec<Slice>, placed: bool) -> Vec<VolumeStack> {
    let mut all: Vec<Option<Slice>> = slices.into_iter().map(Some).collect();
    let mut parts = Vec::new();
    for group in alike(&all) {
        let along = positions(&all, &group);
        divide(&all, &along, group, &Attribute::ALL, &[], &mut parts);
    }
    let mut stacks: Vec<VolumeStack> = parts
        .into_iter()
        .filter_map(|Part { members, told_by }| {
            let slices = members.into_iter().filter_map(|at| all.get_mut(at)?.take()).collect();
            VolumeStack::assemble(slices, told_by, placed)
        })
        .collect();
    let first = |stack: &VolumeStack| stack.slices.iter().map(|it| (it.row, it.frame)).min();
    stacks.sort_by_key(first);
    stacks
}

/// Slices of one size, frame of reference, orientation and pixel spacing.
fn alike(slices: &[Option<Slice>]) -> Vec<Vec<usize>> {
    let mut groups: BTreeMap<(&str, &str, [u32; 2]), Vec<usize>> = BTreeMap::new();
    for (at, slice) in slices.iter().enumerate() {
        if let Some(slice) = slice {
            let key = (slice.frame_of_reference.as_str(), slice.stack_id.as_str(), slice.size);
            groups.entry(key).or_default().push(at);
        }
    }
    let mut groups: Vec<Vec<usize>> = groups.into_values().collect();
    let coordinate = |slice: &Slice, which: usize| {
        let ([a, b, c], [x, y, z]) = (slice.plane.row, slice.plane.column);
        [a, b, c, x, y, z].get(which).copied().unwrap_or(0.0)
    };
    for which in 0..6 {
        groups = refined(slices, groups, TURNED, |slice| coordinate(slice, which));
    }
    groups = refined(slices, groups, SPACED, |slice| slice.plane.spacing[0]);
    refined(slices, groups, SPACED, |slice| slice.plane.spacing[1])
}

/// Groups whose members' numbers follow each other closely.
fn refined(
    slices: &[Option<Slice>],
    groups: Vec<Vec<usize>>,
    most: f64,
    number: impl Fn(&Slice) -> f64,
) -> Vec<Vec<usize>> {
    let mut finer = Vec::new();
    for group in groups {
        let mut members: Vec<(f64, usize)> = group
            .into_iter()
            .filter_map(|at| Some((number(slices.get(at)?.as_ref()?), at)))
            .collect();
        members.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let mut last = f64::NEG_INFINITY;
        let mut current = Vec::new();
        for (value, at) in members {
            if value - last > most && !current.is_empty() {
                finer.push(std::mem::take(&mut current));
            }
            last = value;
            current.push(at);
        }
        if !current.is_empty() {
            finer.push(current);
        }
    }
    for group in &mut finer {
        group.sort_unstable();
    }
    finer
}

/// Where the members of a group lie along the normal of its first one.
fn positions(slices: &[Option<Slice>], group: &[usize]) -> HashMap<usize, f64> {
    let get = |at: &usize| slices.get(*at).and_then(Option::as_ref);
    let Some(normal) = group.first().and_then(get).map(|first| first.plane.normal()) else {
        return HashMap::new();
    };
    group.iter().filter_map(|at| Some((*at, get(at)?.along(normal)))).collect()
}

/// Slices of one stack, and what tells it from others.
struct Part {
    members: Vec<usize>,
    told_by: Vec<(Attribute, String)>,
}

/// How well slices make a stack.
struct State {
    places: usize,
    /// Slices beyond the first one of each place.
    duplicates: usize,
    regular: bool,
    /// Members of each place.
    groups: Vec<Vec<usize>>,
}

impl State {
    fn of(members: &[usize], along: &HashMap<usize, f64>) -> Self {
        let mut sorted: Vec<(f64, usize)> =
            members.iter().filter_map(|at| Some((*along.get(at)?, *at))).collect();
        sorted.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let line: Vec<f64> = sorted.iter().map(|(position, _)| *position).collect();
        let groups = places(&line);
        let firsts: Vec<f64> =
            groups.iter().filter_map(|group| line.get(*group.first()?).copied()).collect();
        let regular = match (firsts.first(), firsts.last()) {
            (Some(first), Some(last)) if firsts.len() > 2 => {
                let spacing = (last - first) / count(firsts.len().saturating_sub(1));
                firsts.windows(2).all(|pair| match pair {
                    [one, other] => (other - one - spacing).abs() <= tolerance(spacing),
                    _ => true,
                })
            }
            _ => true,
        };
        let member = |at: &usize| sorted.get(*at).map(|(_, member)| *member);
        Self {
            places: groups.len(),
            duplicates: members.len().saturating_sub(groups.len()),
            regular,
            groups: groups.iter().map(|group| group.iter().filter_map(member).collect()).collect(),
        }
    }
}

/// Splits slices by attributes as far as it makes better stacks of them.
fn divide(
    slices: &[Option<Slice>],
    along: &HashMap<usize, f64>,
    members: Vec<usize>,
    attributes: &[Attribute],
    told: &[(Attribute, String)],
    out: &mut Vec<Part>,
) {
    let state = State::of(&members, along);
    if state.duplicates > 0 || !state.regular {
        for attribute in attributes {
            let values = by_value(slices, &members, *attribute);
            if values.len() < 2 {
                continue;
            }
            let states: Vec<State> =
                values.iter().map(|(_, members)| State::of(members, along)).collect();
            let better = if state.duplicates > 0 {
                let left: usize = states.iter().map(|one| one.duplicates).sum();
                let single = states.iter().filter(|one| one.places < 2).count();
                // A value for each slice tells nothing about stacks.
                left < state.duplicates
                    && (state.places < 2 || single.saturating_mul(2) <= states.len())
            } else {
                !attribute.is_time() && states.iter().all(|one| one.regular && one.places > 2)
            };
            if !better {
                continue;
            }
            let rest: Vec<Attribute> =
                attributes.iter().copied().filter(|one| one != attribute).collect();
            for (value, members) in values {
                let told = [told, &[(*attribute, value)]].concat();
                divide(slices, along, members, &rest, &told, out);
            }
            return;
        }
    }
    if state.duplicates > 0
        && let Some((attribute, series)) = by_order(slices, &state, attributes)
    {
        let many = series.len();
        for (number, members) in series.into_iter().enumerate() {
            let value = format!("{} of {many}", number.saturating_add(1));
            out.push(Part { members, told_by: [told, &[(attribute, value)]].concat() });
        }
        return;
    }
    out.push(Part { members, told_by: told.to_vec() });
}

/// Members by their values of an attribute, in the order of the values.
fn by_value(
    slices: &[Option<Slice>],
    members: &[usize],
    attribute: Attribute,
) -> Vec<(String, Vec<usize>)> {
    let mut groups: HashMap<&str, (Option<&Mark>, Vec<usize>)> = HashMap::new();
    for at in members {
        let mark = slices.get(*at).and_then(Option::as_ref).and_then(|it| it.marks.get(attribute));
        let text = mark.map_or("", |mark| mark.text.as_str());
        groups.entry(text).or_insert_with(|| (mark, Vec::new())).1.push(*at);
    }
    let mut groups: Vec<(Option<&Mark>, Vec<usize>)> = groups.into_values().collect();
    groups.sort_by(|(one, _), (other, _)| match (one, other) {
        (Some(one), Some(other)) => one.order(other),
        (one, other) => one.is_some().cmp(&other.is_some()),
    });
    let text = |mark: Option<&Mark>| mark.map_or_else(|| "none".to_owned(), |it| it.text.clone());
    groups.into_iter().map(|(mark, members)| (text(mark), members)).collect()
}

/// Series in time whose times differ from place to place: the first of each place, the second, and
/// so on. Every place must have equally many, with different times.
fn by_order(
    slices: &[Option<Slice>],
    state: &State,
    attributes: &[Attribute],
) -> Option<(Attribute, Vec<Vec<usize>>)> {
    let many = state.groups.first()?.len();
    if many < 2 || state.groups.iter().any(|group| group.len() != many) {
        return None;
    }
    let mark = |at: usize, attribute| slices.get(at)?.as_ref()?.marks.get(attribute);
    'attributes: for attribute in attributes.iter().copied().filter(|one| one.is_time()) {
        let mut series = vec![Vec::with_capacity(state.groups.len()); many];
        for group in &state.groups {
            let times: Option<Vec<(&Mark, usize)>> =
                group.iter().map(|at| Some((mark(*at, attribute)?, *at))).collect();
            let Some(mut times) = times else {
                continue 'attributes;
            };
            times.sort_by(|a, b| a.0.order(b.0));
            if times.windows(2).any(|pair| matches!(pair, [one, other] if one.0 == other.0)) {
                continue 'attributes;
            }
            for ((_, at), members) in times.into_iter().zip(&mut series) {
                members.push(at);
            }
        }
        return Some((attribute, series));
    }
    None
}
