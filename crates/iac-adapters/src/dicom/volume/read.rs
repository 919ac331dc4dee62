//! Reading the slices of a stack into one array.

use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};

use bytemuck::Pod;
use iac_format::ErrorKind;
use iac_ops::{NoProgress, Progress, Task};
use ndarray::Array3;

use super::array::{Volume, VolumeSlice, Voxels};
use super::mapping::Mapping;
use super::slice::Slice;
use super::stack::{StackProblem, VolumeStack, places};
use super::words::{Scratch, VoxelType, WordsMut};
use crate::error::{AdapterError, Result};
use crate::task::check_cancelled;

/// Bytes above which the first slice is read before there is room for all.
const BELIEVED: u64 = 1 << 30;

/// Where the samples of slices come from.
pub(super) trait Frames: Sync {
    /// The name that messages use.
    fn path(&self) -> &str;

    /// Reads the samples of one slice.
    fn read(&self, slice: &Slice, out: WordsMut<'_>) -> Result<()>;

    /// Reads slices of one size and type, one behind the other.
    fn read_many(&self, slices: &[&Slice], out: WordsMut<'_>) -> Result<()> {
        let size = slices.first().map_or(0, |first| first.samples());
        for (slice, place) in slices.iter().zip(out.split(size)) {
            self.read(slice, place)?;
        }
        Ok(())
    }
}

/// What voxels are to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum VolumeValues {
    /// Real values as 32-bit floating point: rescaled slice by slice.
    #[default]
    Rescaled,
    /// Samples as they are stored, in their own type.
    Stored,
}

/// What becomes of slices that lie in one place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum OnDuplicate {
    /// The volume is refused.
    #[default]
    Refuse,
    /// The one with the lowest instance number is taken.
    First,
    /// The one with the highest instance number is taken.
    Last,
}

/// How volumes are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct VolumeOptions {
    /// What voxels are; default real values.
    pub values: VolumeValues,
    /// Whether Real World Value Mapping is applied instead of the modality's rescaling; default
    /// (`None`) for parametric maps only.
    pub real_world: Option<bool>,
    /// Whether slices with gaps, unlike distances, or a crooked line through them may be read. The
    /// array then holds the slices that there are, and the affine is right for some of them only.
    /// Default: no.
    pub uneven: bool,
    /// What becomes of slices that lie in one place; default: the volume is refused.
    pub duplicates: OnDuplicate,
    /// Most threads; default (`None`) all cores.
    pub workers: Option<NonZeroUsize>,
    /// Most bytes of voxels; default 16 GiB.
    pub max_bytes: u64,
}

impl Default for VolumeOptions {
    fn default() -> Self {
        Self {
            values: VolumeValues::Rescaled,
            real_world: None,
            uneven: false,
            duplicates: OnDuplicate::Refuse,
            workers: None,
            max_bytes: 16 << 30,
        }
    }
}

impl VolumeOptions {
    /// The same with other voxels.
    #[must_use]
    pub const fn with_values(mut self, values: VolumeValues) -> Self {
        self.values = values;
        self
    }

    /// The same with Real World Value Mapping applied, or not.
    #[must_use]
    pub const fn with_real_world(mut self, real_world: bool) -> Self {
        self.real_world = Some(real_world);
        self
    }

    /// The same with uneven stacks allowed, or not.
    #[must_use]
    pub const fn with_uneven(mut self, uneven: bool) -> Self {
        self.uneven = uneven;
        self
    }

    /// The same with another choice among slices of one place.
    #[must_use]
    pub const fn with_duplicates(mut self, duplicates: OnDuplicate) -> Self {
        self.duplicates = duplicates;
        self
    }

    /// The same with other threads.
    #[must_use]
    pub const fn with_workers(mut self, workers: Option<NonZeroUsize>) -> Self {
        self.workers = workers;
        self
    }

    /// The same with another bound on memory.
    #[must_use]
    pub const fn with_max_bytes(mut self, max_bytes: u64) -> Self {
        self.max_bytes = max_bytes;
        self
    }
}

/// An error that is about slices together.
pub(super) fn refused(path: &str, kind: ErrorKind, reason: impl Into<String>) -> AdapterError {
    AdapterError::Source { path: path.into(), row: None, kind, reason: reason.into() }
}

/// An error that is about one slice.
pub(super) fn refused_slice(
    path: &str,
    slice: &Slice,
    kind: ErrorKind,
    reason: impl std::fmt::Display,
) -> AdapterError {
    let frame = if slice.frame == 0 { String::new() } else { format!(", frame {}", slice.frame) };
    let reason = format!("row {}{frame}: {reason}", slice.row);
    AdapterError::Source { path: path.into(), row: Some(slice.row), kind, reason }
}

/// The slices of a stack that a volume is made of, one of each place.
pub(super) fn chosen<'a>(
    path: &str,
    stack: &'a VolumeStack,
    options: &VolumeOptions,
) -> Result<Vec<(&'a Slice, f64)>> {
    let stands_in_the_way = |problem: &&StackProblem| match problem {
        StackProblem::Tilt { .. } => false,
        StackProblem::Duplicate { .. } => options.duplicates == OnDuplicate::Refuse,
        StackProblem::Units { .. } => options.values == VolumeValues::Rescaled,
        _ => !options.uneven,
    };
    let mut problems = stack.problems.iter().filter(stands_in_the_way);
    if let Some(first) = problems.next() {
        let more = match problems.count() {
            0 => String::new(),
            more => format!(" ({more} more problems)"),
        };
        return Err(refused(
            path,
            ErrorKind::Unsupported,
            format!(
                "{} slices are no regular volume: {first}{more}; distances may differ by {:.3} mm",
                stack.slices.len(),
                stack.tolerance
            ),
        ));
    }
    let chosen: Vec<(&Slice, f64)> = places(&stack.positions)
        .iter()
        .filter_map(|group| {
            let at = match options.duplicates {
                OnDuplicate::Last => group.last(),
                _ => group.first(),
            };
            let at = *at?;
            Some((stack.slices.get(at)?, *stack.positions.get(at)?))
        })
        .collect();
    if chosen.is_empty() {
        return Err(AdapterError::usage(format!("{path}: a volume needs a slice")));
    }
    Ok(chosen)
}

/// Reads the volume of a stack.
pub(super) fn read_volume(
    frames: &dyn Frames,
    stack: &VolumeStack,
    options: &VolumeOptions,
    progress: &dyn Progress,
) -> Result<Volume> {
    let path = frames.path();
    let slices = chosen(path, stack, options)?;
    let size = stack.size();
    let [rows, columns] = size.map(|side| usize::try_from(side).unwrap_or(usize::MAX));
    let shape = [slices.len(), rows, columns];
    if let Some((odd, _)) = slices.iter().find(|(slice, _)| slice.size != size) {
        return Err(refused_slice(path, odd, ErrorKind::Schema, "another size than the others"));
    }
    let Some((first, _)) = slices.first() else {
        return Err(AdapterError::usage(format!("{path}: a volume needs a slice")));
    };
    let (mapping, units) = first.mapping(options.real_world);
    let task = Task::begin(progress, path, u64::try_from(slices.len()).ok());
    let only: Vec<&Slice> = slices.iter().map(|(slice, _)| *slice).collect();
    let (voxels, scale, units) = match options.values {
        VolumeValues::Rescaled => {
            let mut values = room::<f32>(frames, &only, shape, options)?;
            rescaled(frames, &only, &mut values, options, &task, progress)?;
            (Voxels::F32(array(path, shape, values)?), Some([1.0, 0.0]), units.to_owned())
        }
        VolumeValues::Stored => {
            let scale = mapping.linear().filter(|_| {
                only.iter().all(|slice| slice.mapping(options.real_world).0 == mapping)
            });
            let voxels = stored(frames, &only, shape, options)?;
            task.advance(u64::try_from(only.len()).unwrap_or(u64::MAX));
            (voxels, scale, units.to_owned())
        }
    };
    Ok(Volume {
        voxels,
        affine: stack.affine,
        placed: stack.placed,
        scale,
        units,
        window: first.window,
        slices: slices
            .iter()
            .map(|(slice, position)| VolumeSlice {
                row: slice.row,
                frame: slice.frame,
                position: *position,
            })
            .collect(),
    })
}

/// The same without telling anybody.
pub(super) fn read_quietly(
    frames: &dyn Frames,
    stack: &VolumeStack,
    options: &VolumeOptions,
) -> Result<Volume> {
    read_volume(frames, stack, options, &NoProgress)
}

pub(super) fn array<T>(
    path: &str,
    [slices, rows, columns]: [usize; 3],
    voxels: Vec<T>,
) -> Result<Array3<T>> {
    Array3::from_shape_vec((slices, rows, columns), voxels)
        .map_err(|_| refused(path, ErrorKind::Limit, "the voxels do not fit into an array"))
}

/// Voxels of an array; an error where they are too many.
pub(super) fn voxel_count(path: &str, shape: [usize; 3], bytes: usize, most: u64) -> Result<usize> {
    let [slices, rows, columns] = shape;
    let count = slices.checked_mul(rows).and_then(|it| it.checked_mul(columns));
    let fits = count
        .and_then(|count| count.checked_mul(bytes))
        .and_then(|bytes| u64::try_from(bytes).ok())
        .is_some_and(|bytes| bytes <= most);
    count.filter(|_| fits).ok_or_else(|| {
        let reason = format!(
            "{slices} slices of {rows} x {columns} voxels of {bytes} bytes take more than the allowed {most} bytes"
        );
        refused(path, ErrorKind::Limit, reason)
    })
}

/// So many zeros, or an error. Memory is taken when it is written to, by the thread that does.
pub(super) fn zeros<T: Pod>(path: &str, count: usize) -> Result<Vec<T>> {
    // Asked for in the way that can fail, and then in the way that gives untouched pages.
    Vec::<T>::new().try_reserve_exact(count).map_err(|_| {
        let bytes = count.saturating_mul(size_of::<T>());
        refused(path, ErrorKind::Limit, format!("there is no memory for {bytes} bytes of voxels"))
    })?;
    Ok(vec![T::zeroed(); count])
}

/// Room for the voxels of slices. Where it is a lot, the first slice has to prove that it is there.
fn room<T: Pod>(
    frames: &dyn Frames,
    slices: &[&Slice],
    shape: [usize; 3],
    options: &VolumeOptions,
) -> Result<Vec<T>> {
    let path = frames.path();
    let count = voxel_count(path, shape, size_of::<T>(), options.max_bytes)?;
    let bytes = u64::try_from(count.saturating_mul(size_of::<T>())).unwrap_or(u64::MAX);
    if bytes > BELIEVED
        && let Some(first) = slices.first()
    {
        let one = voxel_count(path, [1, first.samples(), 1], size_of::<T>(), options.max_bytes)?;
        let mut scratch = Scratch::default();
        frames.read(first, scratch.room(first.voxel_type, one))?;
    }
    zeros(path, count)
}

/// Samples in their own type, read straight to their places.
fn stored(
    frames: &dyn Frames,
    slices: &[&Slice],
    shape: [usize; 3],
    options: &VolumeOptions,
) -> Result<Voxels> {
    let path = frames.path();
    let voxel_type = slices.first().map_or(VoxelType::U8, |first| first.voxel_type);
    if let Some(other) = slices.iter().find(|slice| slice.voxel_type != voxel_type) {
        let reason = format!(
            "samples of type {}, where others are {voxel_type}: only their values can be put together",
            other.voxel_type
        );
        return Err(refused_slice(path, other, ErrorKind::Unsupported, reason));
    }
    macro_rules! read {
        ($type:ty, $word:ty, $words:ident, $voxels:ident) => {{
            let mut voxels = room::<$type>(frames, slices, shape, options)?;
            let words: &mut [$word] = bytemuck::cast_slice_mut(&mut voxels);
            frames.read_many(slices, WordsMut::$words(words))?;
            Voxels::$voxels(array(path, shape, voxels)?)
        }};
    }
    Ok(match voxel_type {
        VoxelType::U8 => read!(u8, u8, W8, U8),
        VoxelType::I8 => read!(i8, u8, W8, I8),
        VoxelType::U16 => read!(u16, u16, W16, U16),
        VoxelType::I16 => read!(i16, u16, W16, I16),
        VoxelType::U32 => read!(u32, u32, W32, U32),
        VoxelType::I32 => read!(i32, u32, W32, I32),
        VoxelType::F32 => read!(f32, u32, W32, F32),
        VoxelType::F64 => read!(f64, u64, W64, F64),
    })
}

/// Real values. Each thread decodes into memory for one slice, and puts its values to their place
/// while they are in the cache.
fn rescaled(
    frames: &dyn Frames,
    slices: &[&Slice],
    values: &mut [f32],
    options: &VolumeOptions,
    task: &Task<'_>,
    progress: &dyn Progress,
) -> Result<()> {
    let path = frames.path();
    for slice in slices {
        if let (Mapping::Faulty(reason), _) = slice.mapping(options.real_world) {
            return Err(refused_slice(path, slice, ErrorKind::Schema, reason));
        }
    }
    let size = slices.first().map_or(1, |first| first.samples()).max(1);
    let jobs = slices.iter().copied().zip(values.chunks_exact_mut(size));
    in_parallel(jobs, options.workers, |scratch: &mut Scratch, (slice, place)| {
        check_cancelled(progress)?;
        frames.read(slice, scratch.room(slice.voxel_type, size))?;
        slice.mapping(options.real_world).0.apply(scratch, slice.voxel_type, place);
        task.advance(1);
        Ok(())
    })
}

/// Does jobs on several threads, each with memory of its own. The first error in the order of the
/// jobs counts.
pub(super) fn in_parallel<J: Send, S: Default>(
    jobs: impl ExactSizeIterator<Item = J> + Send,
    workers: Option<NonZeroUsize>,
    work: impl Fn(&mut S, J) -> Result<()> + Sync,
) -> Result<()> {
    let cores = || std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let threads = workers.map_or_else(cores, NonZeroUsize::get).min(jobs.len()).max(1);
    let queue = Mutex::new(jobs.enumerate());
    let failed: Mutex<Option<(usize, AdapterError)>> = Mutex::new(None);
    let take = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    let work_off = || {
        let mut scratch = S::default();
        while let Some((number, job)) = take() {
            let mut lock = failed.lock().unwrap_or_else(PoisonError::into_inner);
            // Jobs are taken in order: none before the failed one is left.
            if lock.is_some() {
                return;
            }
            drop(lock);
            if let Err(error) = work(&mut scratch, job) {
                lock = failed.lock().unwrap_or_else(PoisonError::into_inner);
                if lock.as_ref().is_none_or(|(other, _)| number < *other) {
                    *lock = Some((number, error));
                }
                return;
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(work_off);
        }
        work_off();
    });
    match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some((_, error)) => Err(error),
        None => Ok(()),
    }
}
