//! Which frame shows which tile of a raster.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use iac_format::ErrorKind;

use super::instance::{FramePlace, Instance, Organization};
use crate::error::{AdapterError, Result, short};
use crate::wsi::import::source::Opening;
use crate::wsi::import::source_error;

/// Tiles along both sides that a raster may have.
const MAX_TILES: u64 = 1 << 28;

/// The frames of one optical path and focal plane.
pub(super) struct Places {
    frames: HashMap<(u64, u64), (usize, u64)>,
    across: u64,
    down: u64,
    path: String,
    plane: usize,
}

/// What chooses among frames.
struct Chooser<'a> {
    path: &'a Path,
    opening: &'a Opening,
    across: u64,
    down: u64,
}

impl Places {
    /// Finds the frames of the instances that make up a raster.
    pub(super) fn find(
        path: &Path,
        instances: &[Instance],
        which: &[usize],
        opening: &Opening,
    ) -> Result<Self> {
        let parts: Vec<(usize, &Instance)> =
            which.iter().filter_map(|at| instances.get(*at).map(|it| (*at, it))).collect();
        let Some((_, first)) = parts.first() else {
            return Err(source_error(path, ErrorKind::Decode, "an image has no file"));
        };
        let divided = |side: u64, tile: u64| side.div_ceil(tile.max(1));
        let across = divided(first.width, first.tile.0);
        let down = divided(first.height, first.tile.1);
        if across.saturating_mul(down) > MAX_TILES {
            return Err(source_error(
                path,
                ErrorKind::Limit,
                format!("{across} x {down} frames are more than the {MAX_TILES} that are read"),
            ));
        }
        check_form(&parts)?;
        check_concatenations(&parts)?;
        let chooser = Chooser { path, opening, across, down };
        let full =
            parts.iter().filter(|(_, it)| matches!(it.organization, Organization::Full { .. }));
        match full.count() {
            0 => chooser.sparse(&parts),
            count if count == parts.len() => chooser.full(&parts),
            _ => Err(source_error(
                path,
                ErrorKind::Unsupported,
                "some files of the raster have all tiles in order, and others some of them",
            )),
        }
    }

    /// The instance and frame of a tile.
    pub(super) fn get(&self, x: u64, y: u64) -> Option<(usize, u64)> {
        self.frames.get(&(x, y)).copied()
    }

    /// A frame that there is.
    pub(super) fn first(&self) -> Option<(usize, u64)> {
        self.frames.iter().min_by_key(|((x, y), _)| (*y, *x)).map(|(_, place)| *place)
    }

    /// Tiles without a frame.
    pub(super) fn missing(&self) -> u64 {
        let stored = u64::try_from(self.frames.len()).unwrap_or(u64::MAX);
        self.across.saturating_mul(self.down).saturating_sub(stored)
    }

    pub(super) fn optical_path(&self) -> &str {
        &self.path
    }

    /// The focal plane, counted from 1.
    pub(super) const fn plane(&self) -> usize {
        self.plane.saturating_add(1)
    }
}

/// All files must store their samples alike.
fn check_form(parts: &[(usize, &Instance)]) -> Result<()> {
    let Some((_, first)) = parts.first() else { return Ok(()) };
    for (_, other) in parts {
        if (&other.form, &other.syntax) != (&first.form, &first.syntax) {
            return Err(source_error(
                &other.path,
                ErrorKind::Unsupported,
                format!("stores its samples otherwise than {}", first.path.display()),
            ));
        }
    }
    Ok(())
}

/// No file of a concatenation may be missing.
fn check_concatenations(parts: &[(usize, &Instance)]) -> Result<()> {
    // Where a file's frames end, the next one's begin, whether or not the number of files is stated.
    let mut ends: HashMap<&str, HashSet<u64>> = HashMap::new();
    for (_, part) in parts {
        let (Some(uid), Some(before)) = (&part.concatenation, part.frames_before) else { continue };
        ends.entry(uid)
            .or_insert_with(|| HashSet::from([0]))
            .insert(before.saturating_add(part.count()));
    }
    for (_, part) in parts {
        let (Some(uid), Some(before)) = (&part.concatenation, part.frames_before) else { continue };
        if !ends.get(uid.as_str()).is_some_and(|ends| ends.contains(&before)) {
            return Err(source_error(
                &part.path,
                ErrorKind::Decode,
                format!(
                    "follows on {before} frames of a concatenation, but the file with those before \
                     it is not here"
                ),
            ));
        }
    }
    for (_, part) in parts {
        let (Some(uid), Some(total)) = (&part.concatenation, part.parts) else { continue };
        let found = parts.iter().filter(|(_, it)| it.concatenation.as_ref() == Some(uid)).count();
        if u64::try_from(found).ok() != Some(total) {
            return Err(source_error(
                &part.path,
                ErrorKind::Decode,
                format!("is one of {total} files of a concatenation, of which {found} are here"),
            ));
        }
    }
    Ok(())
}

impl Chooser<'_> {
    fn wrong(&self, kind: ErrorKind, reason: String) -> AdapterError {
        source_error(self.path, kind, reason)
    }

    /// The optical path that is asked for, or the only one.
    fn path_of(&self, found: &[String]) -> Result<String> {
        let listed = || {
            let names: Vec<String> = found.iter().take(16).map(|it| short(it)).collect();
            names.join(", ")
        };
        match (&self.opening.optical_path, found) {
            (Some(wanted), _) => {
                if found.contains(wanted) {
                    return Ok(wanted.clone());
                }
                Err(self.wrong(
                    ErrorKind::Usage,
                    format!(
                        "the optical path {} was chosen, but there are: {}",
                        short(wanted),
                        listed()
                    ),
                ))
            }
            (None, [only]) => Ok(only.clone()),
            (None, []) => Ok(String::new()),
            (None, several) => Err(self.wrong(
                ErrorKind::Usage,
                format!("has {} optical paths: choose one of {}", several.len(), listed()),
            )),
        }
    }

    fn plane_of(&self, planes: usize) -> Result<usize> {
        self.opening.plane_of(planes).map_err(|reason| self.wrong(ErrorKind::Usage, reason))
    }

    fn add(
        &self,
        frames: &mut HashMap<(u64, u64), (usize, u64)>,
        tile: (u64, u64),
        place: (usize, u64),
    ) -> Result<()> {
        if frames.insert(tile, place).is_some() {
            return Err(self.wrong(
                ErrorKind::Decode,
                format!("several frames show the tile at ({}, {})", tile.0, tile.1),
            ));
        }
        Ok(())
    }

    fn full(&self, parts: &[(usize, &Instance)]) -> Result<Places> {
        // Objects of other optical paths are files of their own, unless one object names several.
        let paths = parts.iter().flat_map(|(_, part)| identifiers(part));
        let path = self.path_of(&once(paths))?;
        let planes = parts.iter().map(|(_, it)| match it.organization {
            Organization::Full { planes, .. } => planes,
            Organization::Sparse(_) => 1,
        });
        let planes = planes.max().unwrap_or(1);
        let plane = self.plane_of(usize::try_from(planes).unwrap_or(usize::MAX))?;
        let tiles = self.across.saturating_mul(self.down);
        let mut frames = HashMap::new();
        for (at, part) in parts {
            let Organization::Full { first, planes } = part.organization else { continue };
            let own = identifiers(part);
            let Some(position) = own.iter().position(|it| *it == path) else { continue };
            let position = u64::try_from(position).unwrap_or(u64::MAX);
            let plane_number = u64::try_from(plane).unwrap_or(u64::MAX);
            let start = position
                .checked_mul(planes)
                .and_then(|number| number.checked_add(plane_number))
                .and_then(|number| number.checked_mul(tiles))
                .ok_or_else(|| self.wrong(ErrorKind::Limit, "has too many frames".to_owned()))?;
            let all = u64::try_from(own.len())
                .ok()
                .and_then(|paths| paths.checked_mul(planes)?.checked_mul(tiles))
                .unwrap_or(u64::MAX);
            // More would be of paths or planes that nothing names: which frame is which is not known.
            if first.saturating_add(part.count()) > all {
                return Err(source_error(
                    &part.path,
                    ErrorKind::Decode,
                    format!(
                        "has {} frames from number {first} on, but {tiles} tiles, {planes} focal \
                         planes and {} optical paths make {all}",
                        part.count(),
                        own.len()
                    ),
                ));
            }
            for frame in 0..part.count() {
                let number = first.saturating_add(frame);
                let Some(tile) = number.checked_sub(start).filter(|tile| *tile < tiles) else {
                    continue;
                };
                let x = tile.checked_rem(self.across).unwrap_or(0);
                let y = tile.checked_div(self.across).unwrap_or(0);
                self.add(&mut frames, (x, y), (*at, frame))?;
            }
        }
        let found = u64::try_from(frames.len()).unwrap_or(u64::MAX);
        if found != tiles {
            return Err(self.wrong(
                ErrorKind::Decode,
                format!("has {found} frames of a raster of {tiles} tiles"),
            ));
        }
        Ok(Places { frames, across: self.across, down: self.down, path, plane })
    }

    fn sparse(&self, parts: &[(usize, &Instance)]) -> Result<Places> {
        let mut depths: Vec<f64> = Vec::new();
        let paths = parts.iter().flat_map(|(_, part)| places(part)).map(|it| it.path.clone());
        let path = self.path_of(&once(paths))?;
        for (_, part) in parts {
            depths.extend(places(part).iter().filter(|it| it.path == path).map(|it| it.z));
        }
        depths.sort_by(f64::total_cmp);
        depths.dedup();
        let plane = self.plane_of(depths.len())?;
        let depth = depths.get(plane).copied().unwrap_or(0.0);
        let mut frames = HashMap::new();
        for (at, part) in parts {
            for (frame, place) in (0_u64..).zip(places(part)) {
                if place.path != path || place.z != depth {
                    continue;
                }
                let tile = self.tile_of(part, frame, place)?;
                self.add(&mut frames, tile, (*at, frame))?;
            }
        }
        Ok(Places { frames, across: self.across, down: self.down, path, plane })
    }

    /// The tile that a frame shows; frames must lie on one grid.
    fn tile_of(&self, part: &Instance, frame: u64, place: &FramePlace) -> Result<(u64, u64)> {
        let on_grid = |at: i64, side: u64, count: u64| {
            let at = u64::try_from(at.checked_sub(1)?).ok()?;
            let tile = at.checked_div(side)?;
            (at.checked_rem(side)? == 0 && tile < count).then_some(tile)
        };
        let x = on_grid(place.column, part.tile.0, self.across);
        let y = on_grid(place.row, part.tile.1, self.down);
        x.zip(y).ok_or_else(|| {
            source_error(
                &part.path,
                ErrorKind::Unsupported,
                format!(
                    "frame {} of {} x {} pixels lies at column {} and row {}, which is not on a \
                     grid of frames inside of {} x {}",
                    frame.saturating_add(1),
                    part.tile.0,
                    part.tile.1,
                    place.column,
                    place.row,
                    part.width,
                    part.height
                ),
            )
        })
    }
}

/// Each text once, in the order in which they come.
fn once(texts: impl Iterator<Item = String>) -> Vec<String> {
    let mut seen = HashSet::new();
    texts.filter(|text| seen.insert(text.clone())).collect()
}

/// The places that an object states for its frames.
fn places(part: &Instance) -> &[FramePlace] {
    match &part.organization {
        Organization::Sparse(places) => places,
        Organization::Full { .. } => &[],
    }
}

/// The identifiers of an object's optical paths; one without a name where it names none.
fn identifiers(part: &Instance) -> Vec<String> {
    if part.paths.is_empty() {
        return vec![String::new()];
    }
    part.paths.iter().map(|it| it.identifier.clone()).collect()
}
