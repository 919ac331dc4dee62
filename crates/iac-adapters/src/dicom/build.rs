//! Packs from source objects.

use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use iac_codec::{Codec, CodecSpec, Limits, Parameters, Registry};
use iac_format::{EXTENSIONS_MEMBER, ErrorKind};
use iac_ops::{NoProgress, Progress};
use iac_writer::{PackWriter, WriteOptions, WriteSummary};
use serde_json::{Map, Value, json};

use super::document::{Factored, METADATA_LEVEL, metadata_codec};
use super::encode::{INVALID_ELEMENT, INVALID_LENGTH, INVALID_NUMBER, Malformed};
use super::fault::Fault;
use super::geometry::{Place, ShortAcquisition, SliceGap, examine_series, short_acquisitions};
use super::inputs::{DicomInput, DicomInputs};
use super::ordered::for_each_ordered;
use super::patient::Patients;
use super::prepare::{Aside, Prepared, Preparing, Row};
use super::spool::{Spool, Spooled};
use super::syntax::JXL_LOSSLESS;
use super::tables;
use super::{DICOM_PATIENT, SCHEMA_VERSION, SOURCE_EXTENSION};
use crate::error::{AdapterError, Result};
use crate::task::{Task, check_cancelled};

/// Series that a pack may have: their numbers have 16 bits.
const MAX_SERIES: usize = 65_535;

/// The beginning of a UID, for messages.
pub(crate) fn shown_uid(uid: &str) -> String {
    uid.chars().filter(|one| one.is_ascii_digit() || *one == '.').take(64).collect()
}

/// What happens to an input that cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum OnBadInput {
    /// The build fails.
    #[default]
    Stop,
    /// It is left out and reported; the pack holds the others.
    Skip,
    /// Where its metadata can be understood and only its pixel data cannot be used (several frames,
    /// an unknown transfer syntax, a damaged stream), the pixel data is stored as it is, for
    /// export alone. Everything else is left out and reported.
    Keep,
}

/// Builds packs of one patient's objects.
///
/// Objects are read, decoded and encoded on several threads, and written in an order that does not
/// depend on them: the same objects give the same bytes.
///
/// ```no_run
/// use iac_adapters::dicom::{DicomInputs, DicomPackBuilder};
///
/// let inputs = DicomInputs::find(&["study".into()])?;
/// let report = DicomPackBuilder::new().effort(3).build("patient.rad.iac", inputs)?;
/// println!("{} instances in {} series", report.instances, report.series);
/// # Ok::<(), iac_adapters::AdapterError>(())
/// ```
#[derive(Debug, Clone)]
pub struct DicomPackBuilder {
    effort: u8,
    workers: Option<NonZeroUsize>,
    verify: bool,
    on_bad_input: OnBadInput,
    options: WriteOptions,
    limits: Limits,
    max_input_bytes: u64,
}

impl Default for DicomPackBuilder {
    fn default() -> Self {
        Self {
            effort: 7,
            workers: None,
            verify: false,
            on_bad_input: OnBadInput::Stop,
            options: WriteOptions::new(),
            limits: Limits::default(),
            max_input_bytes: 4 << 30,
        }
    }
}

/// An input that is not in the pack.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SkippedInput {
    /// Its name.
    pub input: String,
    /// The kind of the fault.
    pub kind: ErrorKind,
    /// What is wrong with it; never a value of the patient's.
    pub reason: String,
}

/// Elements of one input that could not be interpreted.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MalformedInput {
    /// Its name.
    pub input: String,
    /// Its SOP instance UID.
    pub sop_instance_uid: String,
    /// The elements.
    pub elements: Vec<Malformed>,
}

/// What a build did, for the people who ran it: it names objects, which the pack's header does not.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct DicomBuildReport {
    /// What was written.
    pub written: WriteSummary,
    /// Rows of the instance table.
    pub instances: u64,
    /// Rows of the series table.
    pub series: u64,
    /// Instances with images.
    pub images: u64,
    /// The header's diagnostics: codes and counts.
    pub diagnostics: Vec<(&'static str, u64)>,
    /// Inputs that could not be used.
    pub skipped: Vec<SkippedInput>,
    /// Inputs whose pixel data is stored as it is, with the reason: it can be exported, but not
    /// read as an image.
    pub kept: Vec<SkippedInput>,
    /// Inputs that hold an object which was there already.
    pub duplicates: Vec<String>,
    /// Elements that could not be interpreted.
    pub malformed: Vec<MalformedInput>,
    /// Places where slices are missing.
    pub gaps: Vec<SliceGap>,
    /// Acquisitions with fewer images than declared.
    pub short_acquisitions: Vec<ShortAcquisition>,
}

impl DicomPackBuilder {
    /// The defaults: effort 7, all cores, a bad input stops the build.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// How hard images are compressed, from 1 (fast) to 10 (small). Default 7.
    #[must_use]
    pub const fn effort(mut self, effort: u8) -> Self {
        self.effort = effort;
        self
    }

    /// Number of threads that decode and encode. Default (`None`): all cores.
    #[must_use]
    pub fn workers(mut self, workers: impl Into<Option<NonZeroUsize>>) -> Self {
        self.workers = workers.into();
        self
    }

    /// Whether every image is decoded again and compared. Default false.
    #[must_use]
    pub const fn verify(mut self, verify: bool) -> Self {
        self.verify = verify;
        self
    }

    /// What happens to inputs that cannot be used. Default: the build stops.
    #[must_use]
    pub const fn on_bad_input(mut self, policy: OnBadInput) -> Self {
        self.on_bad_input = policy;
        self
    }

    /// How the pack is written.
    #[must_use]
    pub const fn options(mut self, options: WriteOptions) -> Self {
        self.options = options;
        self
    }

    /// Bounds on decoded images.
    #[must_use]
    pub const fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// The largest input that is read, also after it was inflated. Default 4 GiB.
    #[must_use]
    pub const fn max_input_bytes(mut self, bytes: u64) -> Self {
        self.max_input_bytes = bytes;
        self
    }

    /// Builds a pack from what was found.
    ///
    /// # Errors
    ///
    /// As [`build_from`](Self::build_from).
    pub fn build(&self, path: impl AsRef<Path>, inputs: DicomInputs) -> Result<DicomBuildReport> {
        self.build_with(path, inputs, &NoProgress)
    }

    /// The same with progress, which counts inputs.
    ///
    /// # Errors
    ///
    /// As [`build_from`](Self::build_from).
    pub fn build_with(
        &self,
        path: impl AsRef<Path>,
        inputs: DicomInputs,
        progress: &dyn Progress,
    ) -> Result<DicomBuildReport> {
        let count = u64::try_from(inputs.len()).ok();
        self.run(path.as_ref(), inputs.into_iter_bounded(self.max_input_bytes), count, progress)
    }

    /// Builds a pack from inputs that come one by one.
    ///
    /// # Errors
    ///
    /// [`AdapterError::Source`] for the first input that cannot be used (unless those are skipped),
    /// for an object that differs from another one with its SOP instance UID, and for one of
    /// another patient; [`AdapterError::Usage`] when no object is left, or the effort is none;
    /// [`AdapterError::Write`] and [`AdapterError::Io`] when the pack cannot be written. Nothing is
    /// published then.
    pub fn build_from<I>(&self, path: impl AsRef<Path>, inputs: I) -> Result<DicomBuildReport>
    where
        I: IntoIterator<Item = DicomInput>,
        I::IntoIter: Send,
    {
        self.run(path.as_ref(), inputs.into_iter(), None, &NoProgress)
    }

    fn run(
        &self,
        path: &Path,
        inputs: impl Iterator<Item = DicomInput> + Send,
        count: Option<u64>,
        progress: &dyn Progress,
    ) -> Result<DicomBuildReport> {
        if !(1..=10).contains(&self.effort) {
            return Err(AdapterError::usage(format!("effort {} instead of 1 to 10", self.effort)));
        }
        if !self.options.overwrite && path.symlink_metadata().is_ok() {
            // Said before all the work, not behind it.
            return Err(iac_writer::WriteError::Exists { path: path.to_owned() }.into());
        }
        let metadata = metadata_codec().map_err(|source| codec_error(path, source))?;
        let preparing = Preparing {
            images: self.image_codec(),
            metadata: metadata.clone(),
            verify: self.verify,
            keep: self.on_bad_input == OnBadInput::Keep,
            limits: self.limits,
            max_input_bytes: self.max_input_bytes,
        };
        let all = || std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        let workers = self.workers.unwrap_or_else(all).get();
        let mut collected = Collected::new(path, self.on_bad_input)?;
        {
            let task = Task::begin(progress, "packing", count);
            let work = |input: DicomInput| {
                let name = input.name();
                (name, preparing.prepare(input))
            };
            for_each_ordered(inputs, workers, work, |(name, prepared)| {
                check_cancelled(progress)?;
                task.advance(1);
                collected.take(name, prepared, &preparing)
            })?;
        }
        collected.finish(self, &metadata)
    }

    fn codec_params(&self) -> Parameters {
        let mut params = Parameters::new();
        params.insert("effort".to_owned(), self.effort.into());
        params.insert("lossless".to_owned(), true.into());
        params.insert("usecontainer".to_owned(), true.into());
        params
    }

    fn image_codec(&self) -> iac_codec::Result<Codec> {
        Registry::global().create_encoder(&CodecSpec::new("jxl", self.codec_params()))
    }
}

fn noted(input: String, fault: &Fault) -> SkippedInput {
    SkippedInput { input, kind: fault.kind, reason: fault.to_string() }
}

fn codec_error(path: &Path, source: iac_codec::CodecError) -> AdapterError {
    AdapterError::Codec { path: path.display().to_string(), row: None, source }
}

pub(crate) fn source_error(name: &str, fault: &Fault) -> AdapterError {
    AdapterError::Source {
        path: PathBuf::from(name),
        row: None,
        kind: fault.kind,
        reason: fault.to_string(),
    }
}

/// An instance that is in the pack.
pub(crate) struct Instance {
    pub(crate) sop_uid: String,
    pub(crate) row: Row,
    pub(crate) place: Place,
    /// Its number within its series, in the order of inputs.
    pub(crate) position: usize,
    /// Where its payload lies in the spool.
    payload: Spooled,
    aside: Option<StoredAside>,
}

/// What lies in the spool for an instance beside its payload.
struct StoredAside {
    member: &'static str,
    place: Spooled,
    crc32: u32,
}

/// A series while objects come.
#[derive(Default)]
pub(crate) struct Collecting {
    pub(crate) instances: Vec<Instance>,
    pub(crate) metadata: Factored,
    pub(crate) description: String,
}

/// An object that was taken, by its SOP instance UID.
struct Seen {
    digest: [u8; 32],
    name: String,
    payload: Spooled,
}

/// Everything that the objects so far gave.
struct Collected {
    path: PathBuf,
    policy: OnBadInput,
    spool: Spool,
    series: BTreeMap<(String, String), Collecting>,
    seen: HashMap<String, Seen>,
    patients: Patients,
    counts: BTreeMap<&'static str, u64>,
    skipped: Vec<SkippedInput>,
    kept: Vec<SkippedInput>,
    duplicates: Vec<String>,
    malformed: Vec<MalformedInput>,
}

impl Collected {
    fn new(path: &Path, policy: OnBadInput) -> Result<Self> {
        Ok(Self {
            path: path.to_owned(),
            policy,
            spool: Spool::beside(path)?,
            series: BTreeMap::new(),
            seen: HashMap::new(),
            patients: Patients::default(),
            counts: BTreeMap::new(),
            skipped: Vec::new(),
            kept: Vec::new(),
            duplicates: Vec::new(),
            malformed: Vec::new(),
        })
    }

    fn bad(&mut self, name: String, fault: &Fault) -> Result<()> {
        if self.policy == OnBadInput::Stop {
            return Err(source_error(&name, fault));
        }
        self.skipped.push(noted(name, fault));
        Ok(())
    }

    fn take(
        &mut self,
        name: String,
        prepared: std::result::Result<Prepared, Fault>,
        preparing: &Preparing,
    ) -> Result<()> {
        let prepared = match prepared {
            Ok(prepared) => prepared,
            // Without an encoder no image will ever come in: that is no fault of an input.
            Err(fault)
                if fault.kind == ErrorKind::MissingFeature
                    && self.policy != OnBadInput::Stop
                    && fault.reason.contains("jxl") =>
            {
                return Err(source_error(&name, &fault));
            }
            Err(fault) => return self.bad(name, &fault),
        };
        if let Some(first) = self.seen.get(&prepared.sop_uid) {
            let payload = prepared.image.as_ref().map(|image| &image.payload[..]);
            // Samples are compared here, so that nobody else has to sum them up.
            let is_same = first.digest == prepared.digest
                && preparing
                    .is_same_image(&self.spool.read(&first.payload)?, payload.unwrap_or_default());
            if is_same {
                self.duplicates.push(name);
                self.count("duplicate_sop_identical", 1);
                return Ok(());
            }
            let fault = Fault::new(
                ErrorKind::Schema,
                format!("its SOP instance UID is that of another object, in {}", first.name),
            );
            return self.bad(name, &fault);
        }
        if self.patients.is_other(prepared.patient.as_deref()) {
            let fault = Fault::new(
                ErrorKind::Schema,
                "its patient id is not that of the objects before it",
            );
            return self.bad(name, &fault);
        }
        self.patients.add(prepared.patient.as_deref());
        if let Some(fault) = &prepared.kept {
            self.kept.push(noted(name.clone(), fault));
        }
        self.add(name, prepared)
    }

    fn count(&mut self, code: &'static str, number: u64) {
        let count = self.counts.entry(code).or_default();
        *count = count.saturating_add(number);
    }

    fn add(&mut self, name: String, prepared: Prepared) -> Result<()> {
        let Prepared {
            study_uid,
            series_uid,
            sop_uid,
            row,
            place,
            encoded,
            iac,
            image,
            series_description,
            digest,
            ..
        } = prepared;
        for code in [INVALID_NUMBER, INVALID_LENGTH, INVALID_ELEMENT] {
            let found = encoded.malformed.iter().filter(|element| element.code == code).count();
            if found > 0 {
                self.count(code, u64::try_from(found).unwrap_or(u64::MAX));
            }
        }
        if !encoded.malformed.is_empty() {
            self.malformed.push(MalformedInput {
                input: name.clone(),
                sop_instance_uid: sop_uid.clone(),
                elements: encoded.malformed.clone(),
            });
        }
        let (payload, aside) = match image {
            None => (Spooled::nothing(), None),
            Some(image) => {
                let payload = self.spool.append(image.payload)?;
                let aside = match image.aside {
                    None => None,
                    Some(Aside { member, bytes }) => {
                        let crc32 = crc32fast::hash(&bytes);
                        let place = self.spool.append(bytes.into())?;
                        Some(StoredAside { member, place, crc32 })
                    }
                };
                (payload, aside)
            }
        };
        let seen = Seen { digest, name, payload: payload.clone() };
        self.seen.insert(sop_uid.clone(), seen);
        let series = self.series.entry((study_uid, series_uid)).or_default();
        if series.instances.is_empty() {
            series.description = series_description;
        }
        let position = series.metadata.len();
        series.metadata.add(encoded, iac);
        series.instances.push(Instance { sop_uid, row, place, position, payload, aside });
        Ok(())
    }

    fn diagnose(&mut self) -> (Vec<SliceGap>, Vec<ShortAcquisition>) {
        if self.patients.are_spelled_differently() {
            self.count("patient_id_normalized", 1);
        }
        let mut gaps = Vec::new();
        let mut stacks_with_gaps = 0_u64;
        for ((study, uid), series) in &self.series {
            let places: Vec<&Place> = series
                .instances
                .iter()
                .filter(|one| one.row.has_pixels)
                .map(|one| &one.place)
                .collect();
            let (_, found) = examine_series(study, uid, &places);
            stacks_with_gaps =
                stacks_with_gaps.saturating_add(u64::try_from(found.len()).unwrap_or(u64::MAX));
            gaps.extend(found.into_iter().flatten());
        }
        if stacks_with_gaps > 0 {
            self.count("geometric_slice_gap", stacks_with_gaps);
        }
        let images = self.series.iter().flat_map(|((study, _), series)| {
            let images = series.instances.iter().filter(|one| one.row.has_pixels);
            images.map(move |one| (study.as_str(), &one.place))
        });
        let short = short_acquisitions(images);
        if !short.is_empty() {
            self.count(
                "acquisition_image_count_mismatch",
                u64::try_from(short.len()).unwrap_or(u64::MAX),
            );
        }
        (gaps, short)
    }

    fn finish(mut self, builder: &DicomPackBuilder, metadata: &Codec) -> Result<DicomBuildReport> {
        if self.series.is_empty() {
            return Err(AdapterError::usage(if self.skipped.is_empty() {
                "there are no DICOM objects to pack".to_owned()
            } else {
                format!("none of the {} inputs can be used", self.skipped.len())
            }));
        }
        if self.series.len() > MAX_SERIES {
            return Err(AdapterError::usage(format!(
                "the objects belong to {} series, and a pack holds at most {MAX_SERIES}",
                self.series.len()
            )));
        }
        for series in self.series.values_mut() {
            series.instances.sort_by(|a, b| {
                (a.place.instance_number, &a.sop_uid).cmp(&(b.place.instance_number, &b.sop_uid))
            });
        }
        let (gaps, short) = self.diagnose();
        let codec_error = |source| codec_error(&self.path, source);
        let mut templates = Vec::with_capacity(self.series.len());
        let mut metadata_length = 0_u64;
        for series in self.series.values() {
            let template = metadata
                .encode_bytes(series.metadata.template().as_bytes())
                .map_err(codec_error)?;
            metadata_length =
                metadata_length.saturating_add(u64::try_from(template.len()).unwrap_or(u64::MAX));
            templates.push(template);
        }
        let images = self.series.values().flat_map(|series| &series.instances);
        let payload_bytes =
            images.map(|one| one.payload.len()).fold(metadata_length, u64::saturating_add);
        let extended = place_asides(&mut self.series, payload_bytes);
        let mut deltas = Vec::new();
        for series in self.series.values() {
            for instance in &series.instances {
                let delta = series.metadata.delta(instance.position).unwrap_or_default();
                deltas.push(metadata.encode_bytes(delta.as_bytes()).map_err(codec_error)?);
            }
        }
        let slides = tables::series_table(&self.series, &templates)?;
        let index = tables::instance_table(&self.series, &deltas)?;
        drop(deltas);
        let header = self.header(builder, metadata_length, extended);
        let mut writer =
            PackWriter::with_index(&self.path, header, &slides, &index, &builder.options)?;
        for template in &templates {
            writer.push_unindexed(template)?;
        }
        let (mut instances, mut images) = (0_u64, 0_u64);
        for instance in self.series.values().flat_map(|series| &series.instances) {
            instances = instances.saturating_add(1);
            images = images.saturating_add(instance.row.has_pixels.into());
            writer.push(self.spool.read(&instance.payload)?)?;
        }
        for instance in self.series.values().flat_map(|series| &series.instances) {
            if let Some(aside) = &instance.aside {
                writer.push_unindexed(self.spool.read(&aside.place)?)?;
            }
        }
        let series = u64::try_from(self.series.len()).unwrap_or(u64::MAX);
        Ok(DicomBuildReport {
            written: writer.finish()?,
            instances,
            series,
            images,
            diagnostics: self.counts.into_iter().collect(),
            skipped: self.skipped,
            kept: self.kept,
            duplicates: self.duplicates,
            malformed: self.malformed,
            gaps,
            short_acquisitions: short,
        })
    }

    fn header(
        &self,
        builder: &DicomPackBuilder,
        metadata_length: u64,
        extended: bool,
    ) -> Map<String, Value> {
        let mut header = Map::new();
        let mut put = |name: &str, value: Value| header.insert(name.to_owned(), value);
        put("payload_type", DICOM_PATIENT.into());
        put("dicom_schema_version", SCHEMA_VERSION.into());
        put("codec", "jxl".into());
        put("codec_params", Value::Object(builder.codec_params()));
        put("jxl_stream_format", "container".into());
        put("dicom_transfer_syntax", JXL_LOSSLESS.into());
        put("metadata_offset", 0.into());
        put("metadata_length", metadata_length.into());
        put("metadata_codec", "zstd".into());
        put("metadata_codec_params", json!({"level": METADATA_LEVEL}));
        put("checksum", "crc32".into());
        put("record_unit", "dicom_instance".into());
        put("created_by", concat!("iatrocache ", env!("CARGO_PKG_VERSION")).into());
        if !self.counts.is_empty() {
            let errors: Vec<Value> = self
                .counts
                .iter()
                .map(|(code, count)| json!({"code": code, "count": count}))
                .collect();
            put("errors", errors.into());
        }
        if extended {
            put(EXTENSIONS_MEMBER, json!([SOURCE_EXTENSION]));
        }
        header
    }
}

/// Tells each instance with something beside its payload where that will lie. Says whether any instance
/// has something that the reference does not know.
fn place_asides(series: &mut BTreeMap<(String, String), Collecting>, start: u64) -> bool {
    let mut offset = start;
    let mut extended = false;
    for one in series.values_mut() {
        for instance in &one.instances {
            let Some(iac) = one.metadata.iac_mut(instance.position) else {
                continue;
            };
            if let Some(aside) = &instance.aside {
                let length = aside.place.len();
                let place = iac.entry(aside.member).or_insert_with(|| json!({}));
                if let Value::Object(place) = place {
                    place.insert("offset".to_owned(), offset.into());
                    place.insert("length".to_owned(), length.into());
                    place.insert("crc32".to_owned(), aside.crc32.into());
                }
                offset = offset.saturating_add(length);
            }
            extended |= !iac.is_empty();
        }
    }
    extended
}
