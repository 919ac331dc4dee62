//! `iac dicom volume`: series and multi-frame files as volumes.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use iatrocache::adapters::dicom::volume::{
    LabelVolume, OnDuplicate, PlaneOptions, SaveOptions, Volume, VolumeFile, VolumeOptions,
    VolumeReport, VolumeStack, VolumeValues,
};
use iatrocache::adapters::dicom::{DicomPackReader, Series, Window};
use iatrocache::ops::OpsError;
use iatrocache::ops::pictures::write_png;
use serde_json::{Value, json};

use super::select::shown;
use crate::cli::Common;
use crate::failure::{Failure, Result, human_safe};
use crate::human;
use crate::interrupt;
use crate::output::Out;
use crate::place::NewFile;
use crate::progress::{Shown, Unit};

/// List stacks of slices that make volumes, with what is wrong with them, or write one as a file
///
/// Slices are put in order by their positions; distances come from these, never from the slice
/// thickness. A stack with gaps, slices in one place or unlike distances is refused unless --uneven
/// or --duplicates says otherwise; nothing is ever filled in. The file is NIfTI (.nii, .nii.gz),
/// NumPy (.npy, [slice, row, column]) or a picture of three planes through the middle (.png), by its
/// name; a name that ends in .arrays is a store, which the volume is added to. Instead of a pack, one DICOM file with uncompressed frames can be named.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iac dicom volume patient.rad.iac                              what there is
  iac dicom volume patient.rad.iac --series 2 -o chest.nii.gz
  iac dicom volume patient.rad.iac --series 2 --window 40,400 -o chest.png
  iac dicom volume patient.rad.iac --structures 310 --region Liver -o liver.nii.gz
  iac dicom volume dose.dcm -o dose.nii

Without -o and with --json, one line for each series: {\"series_idx\",\"series_uid\",\"modality\",
\"stacks\":[{\"stack\",\"slices\",\"places\",\"size\",\"spacing\",\"tolerance\",\"deviation\",\"extent\",\"affine\",
\"placed\",\"told_by\",\"regular\",\"problems\":[{\"kind\",\"message\",\"positions\",\"rows\"}]}],
\"unplaced\":[{\"row\",\"frame\",\"reason\"}]}; a file has no series.
With -o, one object: {\"path\",\"shape\",\"type\",\"affine\",\"units\"} and, for labels,
\"labels\":[{\"value\",\"number\",\"name\",\"voxels\"}],\"overlaps\":[{\"values\",\"voxels\"}],
\"faults\":[{\"number\",\"part\",\"reason\"}]. Affines are those of DICOM (left, posterior, head).")]
pub(crate) struct VolumeArgs {
    /// The pack, or a DICOM file
    path: PathBuf,
    /// Number of the series [default: all for the list, the only one with slices for a file]
    #[arg(long, value_name = "N")]
    series: Option<u32>,
    /// Number of the stack in the series, counted from 0 [default: the only one]
    #[arg(long, value_name = "N")]
    stack: Option<usize>,
    /// The file: .nii, .nii.gz, .npy or .png
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Keep samples in their stored type instead of rescaling them to 32-bit floats
    #[arg(long)]
    stored: bool,
    /// Take slices with gaps or unlike distances as they are
    #[arg(long)]
    uneven: bool,
    /// Which of several slices in one place to take: first or last, by instance number
    #[arg(long, value_name = "WHICH", value_parser = which)]
    duplicates: Option<OnDuplicate>,
    /// Take images in the order of their rows and frames, whatever is known of their places; files
    /// then do not say where they lie
    #[arg(long)]
    in_order: bool,
    /// What becomes black and white in a picture: center,width [default: that of the slices]
    #[arg(long, value_name = "WINDOW", value_parser = window, allow_hyphen_values = true)]
    window: Option<Window>,
    /// Labels from the RT structure set in this row, on the series that it refers to
    #[arg(long, value_name = "ROW", conflicts_with = "segmentation")]
    structures: Option<u64>,
    /// Name or number of a region of the structure set; may be repeated, the last one on top
    /// [default: all]
    #[arg(long, value_name = "NAME", requires = "structures")]
    region: Vec<String>,
    /// Labels from the segmentation in this row, on the series that it refers to
    #[arg(long, value_name = "ROW")]
    segmentation: Option<u64>,
    /// Name of the array in a store (.arrays) [default: volume, or labels]
    #[cfg(feature = "volume-arrays")]
    #[arg(long, value_name = "NAME")]
    array: Option<String>,
    /// Replace an existing file
    #[arg(long)]
    overwrite: bool,
}

fn which(text: &str) -> Result<OnDuplicate, String> {
    match text {
        "first" => Ok(OnDuplicate::First),
        "last" => Ok(OnDuplicate::Last),
        _ => Err(format!("`{text}` is neither first nor last")),
    }
}

fn window(text: &str) -> Result<Window, String> {
    let numbers = text.split_once(',').and_then(|(center, width)| {
        let (center, width) = (center.trim().parse().ok()?, width.trim().parse().ok()?);
        Some(Window { center, width })
    });
    numbers
        .filter(|it| it.center.is_finite() && it.width.is_finite() && it.width >= 1.0)
        .ok_or_else(|| format!("`{text}` is no center and width of at least 1, as 40,400"))
}

/// Where slices come from.
enum Source {
    Pack(DicomPackReader),
    File(VolumeFile),
}

impl Source {
    fn open(path: &Path, common: &Common) -> Result<Self> {
        let mut start = [0; 132];
        let is_file = File::open(path)
            .and_then(|mut file| file.read_exact(&mut start))
            .is_ok_and(|()| start.ends_with(b"DICM"));
        if is_file {
            return Ok(Self::File(VolumeFile::open(path)?));
        }
        let reader = super::open(path, common)?;
        Ok(Self::Pack(DicomPackReader::from_reader(reader, true)?))
    }

    fn read(
        &self,
        stack: &VolumeStack,
        options: &VolumeOptions,
        progress: &Shown,
    ) -> Result<Volume> {
        Ok(match self {
            Self::Pack(pack) => pack.read_volume_with(stack, options, progress)?,
            Self::File(file) => file.read_volume_with(stack, options, progress)?,
        })
    }
}

pub(crate) fn run(arguments: &VolumeArgs, common: &Common) -> Result<ExitCode> {
    let source = Source::open(&arguments.path, common)?;
    let mut out = Out::new();
    match &arguments.output {
        None => list(&source, arguments, common, &mut out)?,
        Some(path) => write(&source, path, arguments, common, &mut out)?,
    }
    out.finish()?;
    Ok(ExitCode::SUCCESS)
}

fn of_file(file: &VolumeFile, arguments: &VolumeArgs) -> VolumeReport {
    if arguments.in_order { file.stacks_in_order() } else { file.volume_stacks() }
}

fn of_series(
    pack: &DicomPackReader,
    series: &Series,
    arguments: &VolumeArgs,
) -> Result<VolumeReport> {
    Ok(if arguments.in_order { pack.stacks_in_order(series)? } else { pack.volume_stacks(series)? })
}

fn list(source: &Source, arguments: &VolumeArgs, common: &Common, out: &mut Out) -> Result<()> {
    let pack = match source {
        Source::File(file) => {
            let report = of_file(file, arguments);
            if common.json {
                return out.json(&to_json(&report));
            }
            return tell(&report, out);
        }
        Source::Pack(pack) => pack,
    };
    for series in pack.series() {
        interrupt::check()?;
        if arguments.series.is_some_and(|wanted| wanted != series.series_idx) {
            continue;
        }
        let report = of_series(pack, series, arguments)?;
        if common.json {
            let mut line = to_json(&report);
            if let Some(members) = line.as_object_mut() {
                members.insert("series_idx".to_owned(), series.series_idx.into());
                members.insert("series_uid".to_owned(), series.series_uid.clone().into());
                members.insert("modality".to_owned(), series.modality.clone().into());
            }
            out.json(&line)?;
            continue;
        }
        let modality = if series.modality.is_empty() { "?" } else { &series.modality };
        let title = out.bold(&format!("{:>3}  {:<4}", series.series_idx, human_safe(modality)));
        let stacks = u64::try_from(report.stacks.len()).unwrap_or(u64::MAX);
        out.line(&format!("{title} {}", human::counted(stacks, "stack")))?;
        tell(&report, out)?;
    }
    Ok(())
}

fn tell(report: &VolumeReport, out: &mut Out) -> Result<()> {
    for (number, stack) in report.stacks.iter().enumerate() {
        let [rows, columns] = stack.size();
        let mut text = format!(
            "     stack {number}: {} of {columns} x {rows} at {}",
            human::counted(u64::try_from(stack.slices.len()).unwrap_or(u64::MAX), "slice"),
            human::counted(u64::try_from(stack.places).unwrap_or(u64::MAX), "place"),
        );
        if let (Some(spacing), Some(first), Some(last)) =
            (stack.spacing, stack.positions.first(), stack.positions.last())
        {
            text.push_str(&format!(
                ", {first:.2} to {last:.2} mm, {spacing:.4} mm apart (within {:.3})",
                stack.tolerance
            ));
        }
        for (attribute, value) in &stack.told_by {
            text.push_str(&format!(", {attribute} {}", human_safe(value)));
        }
        out.line(&text)?;
        for problem in &stack.problems {
            let text = human_safe(&problem.to_string());
            let text = if problem.is_fatal() { out.bad(&text) } else { text };
            out.line(&format!("       {text}"))?;
        }
    }
    // Images of a series mostly lack the same.
    let mut reasons: Vec<(String, u64, u64)> = Vec::new();
    for image in &report.unplaced {
        let reason = image.reason.to_string();
        match reasons.iter_mut().find(|(known, _, _)| *known == reason) {
            Some((_, count, _)) => *count = count.saturating_add(1),
            None => reasons.push((reason, 1, image.row)),
        }
    }
    for (reason, count, row) in reasons {
        let images = human::counted(count, "image");
        out.line(&format!("     {images} without a place (row {row} first): {reason}"))?;
    }
    Ok(())
}

fn to_json(report: &VolumeReport) -> Value {
    let stacks: Vec<Value> = report
        .stacks
        .iter()
        .enumerate()
        .map(|(number, stack)| {
            let problems: Vec<Value> = stack
                .problems
                .iter()
                .map(|problem| {
                    json!({
                        "kind": problem.name(),
                        "message": problem.to_string(),
                        "positions": problem.positions(),
                        "rows": problem.rows(),
                    })
                })
                .collect();
            let told_by: serde_json::Map<String, Value> = stack
                .told_by
                .iter()
                .map(|(attribute, value)| (attribute.name().to_owned(), value.clone().into()))
                .collect();
            json!({
                "stack": number,
                "slices": stack.slices.len(),
                "places": stack.places,
                "size": stack.size(),
                "spacing": stack.spacing,
                "tolerance": stack.tolerance,
                "deviation": stack.deviation,
                "extent": [stack.positions.first(), stack.positions.last()],
                "affine": stack.affine.matrix(),
                "placed": stack.placed,
                "told_by": told_by,
                "regular": stack.is_regular(),
                "problems": problems,
            })
        })
        .collect();
    let unplaced: Vec<Value> = report
        .unplaced
        .iter()
        .map(|it| json!({"row": it.row, "frame": it.frame, "reason": it.reason.to_string()}))
        .collect();
    json!({"stacks": stacks, "unplaced": unplaced})
}

/// The stack that is meant.
fn chosen(source: &Source, arguments: &VolumeArgs) -> Result<VolumeStack> {
    let mut stacks: Vec<(String, VolumeStack)> = Vec::new();
    match source {
        Source::File(file) => {
            let found = of_file(file, arguments).stacks;
            stacks.extend(found.into_iter().map(|stack| (String::new(), stack)));
        }
        Source::Pack(pack) => {
            for series in pack.series() {
                if arguments.series.is_some_and(|wanted| wanted != series.series_idx) {
                    continue;
                }
                let name = format!("series {}, ", series.series_idx);
                let found = of_series(pack, series, arguments)?.stacks;
                let wanted = found
                    .into_iter()
                    .enumerate()
                    .filter(|(number, _)| arguments.stack.is_none_or(|it| it == *number))
                    .map(|(_, stack)| (name.clone(), stack));
                stacks.extend(wanted);
            }
        }
    }
    if matches!(source, Source::File(_))
        && let Some(wanted) = arguments.stack
    {
        stacks = stacks.into_iter().skip(wanted).take(1).collect();
    }
    let path = arguments.path.display();
    let count = stacks.len();
    match stacks.pop() {
        Some((_, stack)) if count == 1 => Ok(stack),
        Some(_) => Err(Failure::usage(format!(
            "{path}: {count} stacks could be meant; name one with --series and --stack (iac dicom volume lists them)"
        ))),
        None => Err(Failure::usage(format!("{path}: there is no such stack of slices"))
            .with_hint(format!("`iac dicom volume {path}` lists what there is"))),
    }
}

/// The labels that are asked for, with the stack that they are on.
fn labels(
    source: &Source,
    arguments: &VolumeArgs,
    options: &VolumeOptions,
) -> Result<Option<(VolumeStack, LabelVolume)>> {
    let pack = match source {
        Source::Pack(pack) => pack,
        Source::File(_) if arguments.structures.or(arguments.segmentation).is_some() => {
            return Err(Failure::usage("labels need a pack that holds the series as well"));
        }
        Source::File(_) => return Ok(None),
    };
    let stack_of = |row: u64, series: &[String], images: &[String]| match arguments.series {
        Some(_) => chosen(source, arguments),
        None => Ok(pack.referenced_stack(row, series, images)?),
    };
    if let Some(row) = arguments.structures {
        let set = pack.structure_set(row)?;
        let stack = stack_of(row, &set.series_uids, &set.image_uids)?;
        let mut regions = Vec::new();
        for name in &arguments.region {
            regions.push(set.region(name).ok_or_else(|| {
                let name = human_safe(name);
                Failure::usage(format!("the structure set in row {row} has no region `{name}`"))
            })?);
        }
        if arguments.region.is_empty() {
            regions = (0..set.regions.len()).collect();
        }
        let drawn = set.labels(&regions, &stack, options)?;
        return Ok(Some((stack, drawn)));
    }
    if let Some(row) = arguments.segmentation {
        let segmentation = pack.segmentation(row)?;
        let stack = stack_of(row, &segmentation.series_uids, &segmentation.image_uids)?;
        let drawn = segmentation.labels_on(&stack, options)?;
        return Ok(Some((stack, drawn)));
    }
    Ok(None)
}

/// What a file's name asks for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Nifti,
    Npy,
    Png,
    #[cfg(feature = "volume-arrays")]
    Arrays,
}

fn kind(path: &Path) -> Result<Kind> {
    let name = path.file_name().map(|name| name.to_string_lossy().to_lowercase());
    let name = name.unwrap_or_default();
    for (ending, kind) in [
        (".nii", Kind::Nifti),
        (".nii.gz", Kind::Nifti),
        (".npy", Kind::Npy),
        (".png", Kind::Png),
        #[cfg(feature = "volume-arrays")]
        (".arrays", Kind::Arrays),
    ] {
        if name.ends_with(ending) {
            return Ok(kind);
        }
    }
    Err(Failure::usage(format!(
        "{}: the name ends in none of .nii, .nii.gz, .npy and .png",
        path.display()
    )))
}

fn write(
    source: &Source,
    path: &Path,
    arguments: &VolumeArgs,
    common: &Common,
    out: &mut Out,
) -> Result<()> {
    let kind = kind(path)?;
    let mut options = VolumeOptions::default()
        .with_workers(common.workers)
        .with_uneven(arguments.uneven)
        .with_duplicates(arguments.duplicates.unwrap_or_default());
    if arguments.stored {
        options = options.with_values(VolumeValues::Stored);
    }
    let save = SaveOptions::default().with_overwrite(arguments.overwrite);
    let progress = Shown::new(common, Unit::Rows);
    let writing = interrupt::writing()?;
    let labelled = labels(source, arguments, &options)?;
    let read = |stack: &VolumeStack| source.read(stack, &options, &progress);
    let picture = match (&labelled, kind) {
        (Some((stack, _)), Kind::Png) => Some(read(stack)?),
        (Some(_), _) => None,
        (None, _) => Some(read(&chosen(source, arguments)?)?),
    };
    let drawn = labelled.as_ref().map(|(_, labels)| labels);
    let volume = drawn.map(|labels| &labels.volume).or(picture.as_ref());
    let Some(volume) = volume else {
        return Err(Failure::usage("there is nothing to write"));
    };
    let save = if drawn.is_some() { save.with_labels() } else { save };
    match (kind, &picture) {
        (Kind::Nifti, _) => volume.save_nifti(path, &save)?,
        (Kind::Npy, _) => volume.save_npy(path, &save)?,
        #[cfg(feature = "volume-arrays")]
        (Kind::Arrays, _) => {
            let (spec, data) = drawn.map_or_else(|| volume.to_array(), LabelVolume::to_array);
            let name = if drawn.is_some() { "labels" } else { "volume" };
            let name = arguments.array.as_deref().unwrap_or(name);
            super::arrays::add(path, name, spec, data, common)?;
        }
        (Kind::Png, Some(picture)) => {
            let options = PlaneOptions::default().with_window(arguments.window);
            save_planes(picture, drawn, &options, path, arguments)?;
        }
        (Kind::Png, None) => return Err(Failure::usage("there is nothing to show")),
    }
    drop(writing);
    drop(progress);
    tell_written(path, volume, drawn, common, out)
}

fn save_planes(
    volume: &Volume,
    labels: Option<&LabelVolume>,
    options: &PlaneOptions,
    path: &Path,
    arguments: &VolumeArgs,
) -> Result<()> {
    let mut file = NewFile::create_from(&arguments.path, path, arguments.overwrite)?;
    let planes = volume.planes(labels, options)?;
    let png = write_png(&planes.as_view()).map_err(|source| {
        let path = path.to_owned();
        Failure::from(OpsError::Picture { path, row: None, source: Box::new(source) })
    })?;
    file.write(&png)?;
    file.publish()
}

fn tell_written(
    path: &Path,
    volume: &Volume,
    drawn: Option<&LabelVolume>,
    common: &Common,
    out: &mut Out,
) -> Result<()> {
    let [slices, rows, columns] = volume.voxels.shape();
    if common.json {
        let mut line = json!({
            "path": shown(path),
            "shape": [slices, rows, columns],
            "type": volume.voxels.voxel_type().name(),
            "affine": volume.affine.matrix(),
            "units": volume.units,
        });
        if let (Some(drawn), Some(members)) = (drawn, line.as_object_mut()) {
            let labels: Vec<Value> = drawn
                .labels
                .iter()
                .map(|it| {
                    json!({"value": it.value, "number": it.number, "name": it.name, "voxels": it.voxels})
                })
                .collect();
            let overlaps = drawn.overlaps.iter();
            let overlaps: Vec<Value> =
                overlaps.map(|it| json!({"values": it.values, "voxels": it.voxels})).collect();
            let faults: Vec<Value> = drawn
                .faults
                .iter()
                .map(|it| {
                    json!({"number": it.number, "part": it.part, "reason": it.reason.to_string()})
                })
                .collect();
            members.insert("labels".to_owned(), labels.into());
            members.insert("overlaps".to_owned(), overlaps.into());
            members.insert("faults".to_owned(), faults.into());
        }
        return out.json(&line);
    }
    let [x, y, z] = volume.affine.lengths();
    let name = human_safe(&shown(path));
    let kind = volume.voxels.voxel_type();
    out.line(&format!(
        "{columns} x {rows} x {slices} voxels of {x:.4} x {y:.4} x {z:.4} mm, {kind}, in {name}"
    ))?;
    let Some(drawn) = drawn else {
        return Ok(());
    };
    for label in &drawn.labels {
        let voxels = human::counted(label.voxels, "voxel");
        out.line(&format!("  {:>5}  {voxels}  {}", label.value, human_safe(&label.name)))?;
    }
    for overlap in &drawn.overlaps {
        let ([below, above], voxels) = (overlap.values, human::counted(overlap.voxels, "voxel"));
        out.line(&format!("  {voxels} of {below} are covered by {above}"))?;
    }
    for fault in drawn.faults.iter().take(FAULTS) {
        let number = fault.number.map_or_else(String::new, |number| format!(" {number}"));
        let part = fault.part.map_or_else(String::new, |part| format!(", part {part}"));
        let text = out.bad(&format!("region{number}{part} is left out: {}", fault.reason));
        out.line(&format!("  {}", human_safe(&text)))?;
    }
    if let Some(more) = drawn.faults.len().checked_sub(FAULTS).filter(|more| *more > 0) {
        out.line(&format!("  {more} more are left out (--json lists them)"))?;
    }
    Ok(())
}

/// Faults that are listed for people.
const FAULTS: usize = 20;
