//! What the objects of a build gave, until the pack is written.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use iac_codec::Codec;
use iac_format::{EXTENSIONS_MEMBER, ErrorKind};
use iac_writer::PackWriter;
use serde_json::{Map, Value, json};

use super::{
    DicomBuildReport, DicomPackBuilder, MalformedInput, OnBadInput, SkippedInput, codec_error,
    noted, source_error,
};
use crate::dicom::deid::{DEID_EXTENSION, DeidReport, HEADER_MEMBER};
use crate::dicom::document::{Factored, METADATA_LEVEL};
use crate::dicom::encode::{INVALID_ELEMENT, INVALID_LENGTH, INVALID_NUMBER};
use crate::dicom::fault::Fault;
use crate::dicom::geometry::{
    Place, ShortAcquisition, SliceGap, examine_series, short_acquisitions,
};
use crate::dicom::patient::Patients;
use crate::dicom::prepare::{Aside, Prepared, Preparing, Row};
use crate::dicom::schema2::build::FrameCountReport;
use crate::dicom::schema2::prepare::{FrameSet, Preparing2};
use crate::dicom::schema2::{self, SchemaChoice};
use crate::dicom::spool::{Spool, Spooled};
use crate::dicom::syntax::JXL_LOSSLESS;
use crate::dicom::{DICOM_PATIENT, SCHEMA_VERSION, SOURCE_EXTENSION, tables};
use crate::error::{AdapterError, Result};

/// Series that a pack may have: their numbers have 16 bits.
const MAX_SERIES: usize = 65_535;

/// An instance that is in the pack.
pub(crate) struct Instance {
    pub(crate) sop_uid: String,
    pub(crate) row: Row,
    pub(crate) place: Place,
    /// Its number within its series, in the order of inputs.
    pub(crate) position: usize,
    /// Where its payload lies in the spool.
    pub(crate) payload: Spooled,
    pub(crate) aside: Option<StoredAside>,
    /// What schema 2 has instead of a payload.
    pub(crate) frames: Option<FrameSet>,
}

/// What lies in the spool for an instance beside its payload.
pub(crate) struct StoredAside {
    pub(crate) member: &'static str,
    pub(crate) place: Spooled,
    pub(crate) crc32: u32,
}

impl StoredAside {
    /// Says in its member where it lies.
    pub(crate) fn say_where(&self, member: &mut Value, offset: u64) {
        if let Value::Object(place) = member {
            place.insert("offset".to_owned(), offset.into());
            place.insert("length".to_owned(), self.place.len().into());
            place.insert("crc32".to_owned(), self.crc32.into());
        }
    }
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
pub(crate) struct Collected {
    pub(crate) path: PathBuf,
    policy: OnBadInput,
    pub(crate) spool: Spool,
    pub(crate) series: BTreeMap<(String, String), Collecting>,
    seen: HashMap<String, Seen>,
    patients: Patients,
    pub(crate) counts: BTreeMap<&'static str, u64>,
    pub(crate) skipped: Vec<SkippedInput>,
    pub(crate) kept: Vec<SkippedInput>,
    pub(crate) duplicates: Vec<String>,
    pub(crate) malformed: Vec<MalformedInput>,
    pub(crate) frame_counts: Vec<FrameCountReport>,
    pub(crate) deid: DeidReport,
}

impl Collected {
    pub(super) fn new(path: &Path, policy: OnBadInput) -> Result<Self> {
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
            frame_counts: Vec::new(),
            deid: DeidReport::default(),
        })
    }

    fn bad(&mut self, name: String, fault: &Fault) -> Result<()> {
        if self.policy == OnBadInput::Stop {
            return Err(source_error(&name, fault));
        }
        self.skipped.push(noted(name, fault));
        Ok(())
    }

    pub(super) fn take(
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
                "its patient id is not that of the objects before it, and a pack holds one patient",
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
            frames,
            series_description,
            digest,
            deid,
            ..
        } = prepared;
        self.deid.merge(deid.unwrap_or_default());
        if let Some(report) = frames.as_ref().and_then(|set| FrameCountReport::of(&name, set)) {
            report.codes().for_each(|code| self.count(code, 1));
            self.frame_counts.push(report);
        }
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
        let instance = Instance { sop_uid, row, place, position, payload, aside, frames };
        series.instances.push(instance);
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

    pub(super) fn finish(
        mut self,
        builder: &DicomPackBuilder,
        metadata: &Codec,
        second: &Preparing2,
    ) -> Result<DicomBuildReport> {
        if self.series.is_empty() {
            return Err(AdapterError::usage(match self.skipped.first() {
                None => "there are no DICOM objects to pack".to_owned(),
                // There is no report to look the reasons up in.
                Some(first) => format!(
                    "none of the {} inputs can be used, and the first is not because of this: {}: {}",
                    self.skipped.len(),
                    first.input,
                    first.reason
                ),
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
        let mut instances = self.series.values().flat_map(|series| &series.instances);
        if second.schema == SchemaChoice::Two || instances.any(|one| one.frames.is_some()) {
            return schema2::build::finish(self, builder, metadata, second, (gaps, short));
        }
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
            schema_version: SCHEMA_VERSION,
            frames: images,
            frame_counts: self.frame_counts,
            deidentification: builder.deidentifier.is_some().then_some(self.deid),
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
        self.put_common(builder, extended, &mut header);
        header
    }

    /// What headers of both schemas say of the build.
    pub(crate) fn put_common(
        &self,
        builder: &DicomPackBuilder,
        extended: bool,
        header: &mut Map<String, Value>,
    ) {
        let mut put = |name: &str, value: Value| header.insert(name.to_owned(), value);
        if !self.counts.is_empty() {
            let errors: Vec<Value> = self
                .counts
                .iter()
                .map(|(code, count)| json!({"code": code, "count": count}))
                .collect();
            put("errors", errors.into());
        }
        let mut extensions: Vec<&str> = extended.then_some(SOURCE_EXTENSION).into_iter().collect();
        if let Some(deidentifier) = &builder.deidentifier {
            put(HEADER_MEMBER, deidentifier.provenance(&self.deid));
            extensions.push(DEID_EXTENSION);
        }
        if !extensions.is_empty() {
            put(EXTENSIONS_MEMBER, json!(extensions));
        }
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
                aside.say_where(place, offset);
                offset = offset.saturating_add(length);
            }
            extended |= !iac.is_empty();
        }
    }
    extended
}
