//! Packs from source objects.

mod collect;

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use iac_codec::{Codec, CodecSpec, Limits, Parameters, Registry};
use iac_format::ErrorKind;
use iac_ops::{NoProgress, Progress};
use iac_writer::{WriteOptions, WriteSummary};

pub(crate) use self::collect::{Collected, Collecting, Instance, StoredAside};
use super::deid::{DeidReport, Deidentifier};
use super::document::metadata_codec;
use super::encode::Malformed;
use super::fault::Fault;
use super::geometry::{ShortAcquisition, SliceGap};
use super::inputs::{DicomInput, DicomInputs};
use super::ordered::for_each_ordered;
use super::prepare::Preparing;
use super::schema2::SchemaChoice;
use super::schema2::build::FrameCountReport;
use super::schema2::payload::{FrameEncoder, LossyOriginals, PayloadCodec};
use super::schema2::prepare::Preparing2;
use super::schema2::spool::{Permits, SharedSpool};
use crate::error::{AdapterError, Result};
use crate::task::{Task, check_cancelled};

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
    pub(crate) options: WriteOptions,
    limits: Limits,
    max_input_bytes: u64,
    pub(crate) deidentifier: Option<Arc<Deidentifier>>,
    schema: SchemaChoice,
    payload: PayloadCodec,
    originals: LossyOriginals,
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
            deidentifier: None,
            schema: SchemaChoice::WhenNeeded,
            payload: PayloadCodec::JpegXl,
            originals: LossyOriginals::Keep,
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
    /// What was done for the patient's sake; nothing where that was not asked for.
    pub deidentification: Option<DeidReport>,
    /// The schema that was written.
    pub schema_version: u32,
    /// Frames in all images.
    pub frames: u64,
    /// Objects whose number of frames, or of functional groups, is not what they say.
    pub frame_counts: Vec<FrameCountReport>,
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

    /// Takes from every object what identifies its patient, before anything of it is stored.
    /// Default (`None`): objects stay as they are.
    #[must_use]
    pub fn deidentify(mut self, deidentifier: impl Into<Option<Arc<Deidentifier>>>) -> Self {
        self.deidentifier = deidentifier.into();
        self
    }

    /// Which schema is written. Default: the first one, unless an object needs the second.
    #[must_use]
    pub const fn schema(mut self, schema: SchemaChoice) -> Self {
        self.schema = schema;
        self
    }

    /// What frames are compressed with; any other codec than JPEG XL asks for schema 2.
    #[must_use]
    pub const fn payload(mut self, payload: PayloadCodec) -> Self {
        self.payload = payload;
        self
    }

    /// What becomes of images that come compressed with loss, in objects that are written in schema
    /// 2. Default: they are kept as they are.
    #[must_use]
    pub const fn originals(mut self, originals: LossyOriginals) -> Self {
        self.originals = originals;
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
        let all = || std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        let workers = self.workers.unwrap_or_else(all);
        let second = self.second(path, workers)?;
        let preparing = Preparing {
            images: self.image_codec(),
            metadata: metadata.clone(),
            verify: self.verify,
            keep: self.on_bad_input == OnBadInput::Keep,
            limits: self.limits,
            max_input_bytes: self.max_input_bytes,
            deidentifier: self.deidentifier.clone(),
            second,
        };
        let mut collected = Collected::new(path, self.on_bad_input)?;
        {
            let task = Task::begin(progress, "packing", count);
            let work = |input: DicomInput| {
                let name = input.name();
                (name, preparing.prepare(input))
            };
            for_each_ordered(inputs, workers.get(), work, |(name, prepared)| {
                check_cancelled(progress)?;
                task.advance(1);
                collected.take(name, prepared, &preparing)
            })?;
        }
        collected.finish(self, &metadata, &preparing.second)
    }

    /// What schema 2 needs; it is asked for by what only it can do.
    fn second(&self, path: &Path, workers: NonZeroUsize) -> Result<Preparing2> {
        let schema = match (self.schema, self.payload) {
            (SchemaChoice::One, PayloadCodec::JpegXl) => SchemaChoice::One,
            (SchemaChoice::One, other) => {
                return Err(AdapterError::usage(format!(
                    "schema 1 holds JPEG XL payloads, not {}",
                    other.name()
                )));
            }
            (schema, PayloadCodec::JpegXl) => schema,
            _ => SchemaChoice::Two,
        };
        let encoder = FrameEncoder {
            codec: self.payload,
            effort: self.effort,
            verify: self.verify,
            limits: self.limits,
        };
        if schema == SchemaChoice::Two {
            encoder.check().map_err(|fault| source_error(&path.display().to_string(), &fault))?;
        }
        Ok(Preparing2 {
            schema,
            encoder,
            originals: self.originals,
            spool: SharedSpool::new(path),
            permits: Permits::new(workers.get()),
            workers,
            one_by_one: std::sync::Mutex::new(()),
        })
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

pub(crate) fn codec_error(path: &Path, source: iac_codec::CodecError) -> AdapterError {
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
