//! Whether a pack still holds what identifies patients.

mod elements;
mod frames;
mod shapes;

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow_schema::DataType;
use dicom_core::{Tag, VR};
use iac_format::{CONTAINER_MEMBERS, TableKind};
use serde_json::{Map, Value};

use self::elements::is_hash;
use self::shapes::{
    add_named, has_boxes, has_preamble, has_strangers, holds_path, is_plain, looks_like_path,
    record_path, shown_member,
};
use super::family::Family;
use super::profile::{DeidOption, DeidProfile};
use super::rules::{self, Decision, Rules};
use super::{HEADER_MEMBER, key, provenance, values};
use crate::dicom::attributes::Attributes;
use crate::dicom::document::{Document, metadata_codec};
use crate::dicom::encode::LEXICAL_FORM;
use crate::dicom::read::DicomPackReader;
use crate::dicom::restore;
use crate::dicom::schema2::groups::GroupPlaces;
use crate::dicom::schema2::payload::FrameCodec;
use crate::error::Result;

/// Findings that are kept; the rest is counted.
const MOST: usize = 10_000;

/// Something in a pack that should not be there.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct DeidFinding {
    /// The row of the index table; nothing for header and tables as wholes.
    pub row: Option<u64>,
    /// Where: tags and item numbers (`00081032/0/00080100`), or the name of a member or column.
    pub place: String,
    /// What: `attribute` (should have gone or be empty), `person_name`, `date`, `uid`, `private`,
    /// `unsound` (not what its representation says), `record` (the spelling of an element beside
    /// the data set), `file_meta`, `preamble`, `unused_bits`, `payload_metadata`, `column`,
    /// `header`, `path` (looks like the path of a file), `mark` (does not say that it was
    /// de-identified), `document` (cannot be understood), `hidden` (bytes that nothing
    /// addresses).
    pub code: &'static str,
}

/// What a check found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeidCheck {
    /// Objects that were looked at.
    pub objects: u64,
    /// The first 10,000 findings, in order.
    pub findings: Vec<DeidFinding>,
    /// Number of all findings.
    pub total: u64,
}

impl DeidCheck {
    /// Whether nothing was found.
    #[must_use]
    pub const fn is_clean(&self) -> bool {
        self.total == 0
    }

    /// Looks at everything in a pack but the samples of its images. The rules are those of `profile`,
    /// else those that the header states, else the basic profile without options.
    ///
    /// # Errors
    ///
    /// Those of reading the pack. Documents that cannot be understood are findings.
    pub fn run(pack: &DicomPackReader, profile: Option<&DeidProfile>) -> Result<Self> {
        let header = pack.reader().header();
        let stated = header.get(HEADER_MEMBER).and_then(provenance::profile_of);
        let profile = profile.cloned().or_else(|| stated.clone()).unwrap_or_default();
        let mut check = Checking { profile, stated, found: Self::default(), row: None };
        check.header(pack);
        check.tables(pack)?;
        check.documents(pack)?;
        check.rest(pack)?;
        check.settle();
        Ok(check.found)
    }
}

struct Checking {
    profile: DeidProfile,
    /// What the header states, for the marks in objects.
    stated: Option<DeidProfile>,
    found: DeidCheck,
    row: Option<u64>,
}

/// Members of headers whose values are numbers, words of the format, or made up by a writer of packs,
/// beside those of the container.
const HEADER_MEMBERS: &[&str] = &[
    "payload_type",
    "dicom_schema_version",
    "codec",
    "codec_params",
    "jxl_stream_format",
    "dicom_transfer_syntax",
    "metadata_offset",
    "metadata_length",
    "metadata_codec",
    "metadata_codec_params",
    "checksum",
    "checksums",
    "record_unit",
    "created_by",
    "errors",
    "extensions",
    "required_extensions",
    HEADER_MEMBER,
    "num_instances",
    "bulk",
    "iac_encode",
    "iac_sample",
];

/// Columns of numbers.
const NUMBERS: &[&str] = &[
    "series_idx",
    "instance_count",
    "template_offset",
    "template_length",
    "template_crc32",
    "instance_number",
    "rows",
    "columns",
    "samples_per_pixel",
    "pixel_representation",
    "bits_allocated",
    "bits_stored",
    "high_bit",
    "dicom_delta_crc32",
    "offset",
    "length",
    "crc32",
    "position_x",
    "position_y",
    "position_z",
    "row_x",
    "row_y",
    "row_z",
    "column_x",
    "column_y",
    "column_z",
    "row_spacing",
    "column_spacing",
    "slice_thickness",
    "acquisition_number",
    "instance_idx",
    "frame_idx",
    "delta_offset",
    "delta_length",
    "delta_crc32",
    "extra_offset",
    "extra_length",
    "extra_crc32",
    "slice_spacing",
    "rescale_slope",
    "rescale_intercept",
];
/// Columns of texts.
const TEXTS: &[&str] = &[
    "study_uid",
    "series_uid",
    "sop_instance_uid",
    "modality",
    "series_description",
    "pixel_dtype",
    "photometric_interpretation",
    "source_transfer_syntax",
    "echo_numbers",
    "codec",
    "stream_photometric",
];
/// Columns that are looked at as documents, or hold nothing but yes and no.
const OTHERS: &[&str] = &["has_pixel_data", "dicom_delta"];
/// Columns of lists of numbers.
const LISTS: &[&str] = &["dimension_index"];

impl Checking {
    fn tell(&mut self, place: impl Into<String>, code: &'static str) {
        self.found.total = self.found.total.saturating_add(1);
        if self.found.findings.len() < MOST {
            self.found.findings.push(DeidFinding { row: self.row, place: place.into(), code });
        }
    }

    fn header(&mut self, pack: &DicomPackReader) {
        let members: &Map<String, Value> = pack.reader().header().members();
        for (name, value) in members {
            let name = name.as_str();
            if !CONTAINER_MEMBERS.contains(&name) && !HEADER_MEMBERS.contains(&name) {
                // The names of strangers' members may hold anything as well.
                self.tell("header", "header");
            }
            if holds_path(value) {
                self.tell(shown_member(name), "path");
            }
        }
    }

    /// Columns: of those that are known, the texts; others may hold anything.
    fn tables(&mut self, pack: &DicomPackReader) -> Result<()> {
        let reader = pack.reader();
        for kind in [TableKind::Slide, TableKind::Index] {
            let table = match kind {
                TableKind::Slide => reader.slide_table()?,
                TableKind::Index => reader.index_table()?,
            };
            let schema = table.schema();
            if !schema.metadata().is_empty() {
                self.tell(shown_member(&kind.to_string()), "column");
            }
            for field in schema.fields() {
                let name = field.name().as_str();
                let fits = match field.data_type() {
                    kind if NUMBERS.contains(&name) => kind.is_numeric(),
                    DataType::List(inner) if LISTS.contains(&name) => {
                        inner.data_type().is_numeric()
                    }
                    _ => TEXTS.contains(&name) || OTHERS.contains(&name),
                };
                if !fits {
                    self.tell(shown_member(name), "column");
                }
                if TEXTS.contains(&name) {
                    self.texts(&crate::columns::text_column(reader, kind, name)?, kind, name);
                }
            }
        }
        Ok(())
    }

    fn texts(&mut self, column: &crate::columns::TextColumn, kind: TableKind, name: &str) {
        for (row, value) in (0_u64..).zip(column.iter()) {
            let value = value.unwrap_or_default();
            self.row = (kind == TableKind::Index).then_some(row);
            if !self.fits_column(name, value) {
                self.tell(name, "column");
            }
            if looks_like_path(value) {
                self.tell(name, "path");
            }
        }
        self.row = None;
    }

    fn fits_column(&self, name: &str, value: &str) -> bool {
        if value.is_empty() {
            return true;
        }
        match name {
            "study_uid" | "series_uid" | "sop_instance_uid" => self.may_be_uid(value),
            "source_transfer_syntax" => values::is_uid(value),
            "codec" => FrameCodec::from_name(value).is_some(),
            // Only streams of sources have one, and none of those may be there.
            "stream_photometric" => false,
            "modality" | "photometric_interpretation" | "pixel_dtype" | "echo_numbers" => {
                values::sound(VR::CS, value.as_bytes()).is_some()
            }
            "series_description" => {
                let decision = Rules { profile: &self.profile, family: Family::Unknown }.decide(
                    Tag(0x0008, 0x103E),
                    VR::LO,
                    false,
                );
                match decision {
                    Decision::Retain | Decision::Replace(_) => true,
                    Decision::Vocabulary(_) => self.profile.knows(&[value.to_owned()]),
                    Decision::Hash => is_hash(value),
                    _ => values::is_dummy(value.as_bytes()),
                }
            }
            // Columns that nobody knows may hold anything.
            _ => false,
        }
    }

    /// Several, where an object has several, are exchanged one by one.
    fn may_be_uid(&self, uids: &str) -> bool {
        uids.split('\\').all(|uid| {
            uid.is_empty()
                || key::is_new_uid(uid)
                || rules::is_well_known(uid) && values::is_uid(uid)
                || self.profile.has(DeidOption::RetainUids) && values::is_uid(uid)
        })
    }

    fn documents(&mut self, pack: &DicomPackReader) -> Result<()> {
        let codec = metadata_codec().map_err(|source| crate::AdapterError::Codec {
            path: pack.reader().path().to_owned(),
            row: None,
            source,
        })?;
        let nothing = Map::new();
        let mut used = BTreeSet::new();
        for series in pack.series() {
            let place = format!("template of series {}", series.series_idx);
            let stored = pack.template_bytes(series)?;
            let known = ["dataset", "file_meta", "preamble"];
            let template = pack.read_template(series);
            // A delta hides what its template says, but it is there.
            let budget = pack.budget();
            let bulk = |name: &str| pack.bulk_value(name, &budget);
            let Ok((template, data, meta)) = template.map(|template| {
                let data = restore::data_set(&template.dataset, &nothing, &bulk);
                let meta = restore::data_set(&template.file_meta, &nothing, &bulk);
                (template, data, meta)
            }) else {
                self.tell(place, "document");
                continue;
            };
            if has_strangers(&stored, &codec, &known)
                || !is_plain(&template.dataset)
                || !is_plain(&template.file_meta)
            {
                self.tell(&place, "document");
            }
            for (_, element) in &template.dataset {
                add_named(element, &mut used);
            }
            if has_preamble(template.preamble.as_deref()) {
                self.tell(&place, "preamble");
            }
            match (data, meta) {
                (Ok(data), Ok(meta)) => {
                    self.meta(&meta);
                    self.object(&data, &meta);
                }
                _ => self.tell(place, "document"),
            }
        }
        for row in pack.first_rows()? {
            self.row = Some(row);
            self.found.objects = self.found.objects.saturating_add(1);
            let stored = pack.delta_bytes(row)?;
            let known = ["dataset", "file_meta", "preamble", "errors", "iac"];
            if has_strangers(&stored, &codec, &known) {
                self.tell("dicom_delta", "document");
            }
            let Ok(attributes) = pack.attributes(row) else {
                self.tell("dicom_delta", "document");
                continue;
            };
            let delta = &attributes.delta;
            if !is_plain(&delta.dataset) || !is_plain(&delta.file_meta) {
                self.tell("dicom_delta", "document");
            }
            if has_preamble(delta.preamble.as_deref()) {
                self.tell("preamble", "preamble");
            }
            for (_, element) in &delta.dataset {
                add_named(element, &mut used);
            }
            self.beside(&delta.iac, attributes.records(), pack.is_second());
            self.restored(&attributes);
            if pack.is_second() {
                self.groups(pack, row, &attributes, &codec, &mut used)?;
                self.frames(pack, row)?;
            } else if pack.has_pixels(row)? && has_boxes(&pack.reader().read(row)?) {
                self.tell("payload", "payload_metadata");
            }
        }
        self.row = None;
        if pack.is_second() {
            self.bulk(pack, &codec, &used)?;
        }
        Ok(())
    }

    /// Bytes of the data segment, and behind it, that no row and no series addresses.
    fn rest(&mut self, pack: &DicomPackReader) -> Result<()> {
        let mut spans: Vec<(u64, u64)> =
            pack.series().iter().map(|series| (series.template.0, series.template.1)).collect();
        for row in 0..pack.row_count() {
            let span = pack.reader().span(row)?;
            spans.push((span.offset, span.length));
        }
        if pack.is_second() {
            Self::add_spans(pack, &mut spans)?;
        }
        spans.sort_unstable();
        let mut end = 0_u64;
        let mut hidden = false;
        for (offset, length) in spans {
            hidden |= offset > end;
            end = end.max(offset.saturating_add(length));
        }
        if hidden || end < pack.reader().layout().data.length {
            self.tell("data", "hidden");
        }
        if pack.reader().trailing_bytes() > 0 {
            self.tell("trailing", "hidden");
        }
        Ok(())
    }

    /// What a template and a row say was found twice.
    fn settle(&mut self) {
        self.found.findings.sort();
        self.found.findings.dedup();
        let kept = self.found.findings.len();
        if kept < MOST {
            self.found.total = u64::try_from(kept).unwrap_or(u64::MAX);
        }
    }

    /// An object as its JSON has it, and as it is with what is kept beside that.
    fn restored(&mut self, attributes: &Attributes) {
        let plain = Attributes {
            template: attributes.template.clone(),
            rest: attributes.rest.clone(),
            delta: Arc::new(Document {
                errors: Vec::new(),
                iac: Map::new(),
                ..Document::clone(&attributes.delta)
            }),
        };
        let whole = !attributes.delta.errors.is_empty()
            || ["text", "groups"].iter().any(|it| attributes.delta.iac.contains_key(*it));
        for form in std::iter::once(&plain).chain(whole.then_some(attributes)) {
            match form.restore() {
                Ok((data, meta)) => {
                    self.meta(&meta);
                    self.object(&data, &meta);
                    if data.ascii(Tag(0x0012, 0x0062)).is_none_or(|mark| mark != "YES") {
                        self.tell("00120062", "mark");
                    }
                }
                Err(_) => self.tell("dicom_delta", "document"),
            }
        }
    }

    /// What is kept beside a data set. Spellings are compared through the restored elements; here
    /// is told what restores to nothing, and what none of our writers leaves.
    fn beside(&mut self, iac: &Map<String, Value>, records: &[Value], is_second: bool) {
        for (name, value) in iac {
            match name.as_str() {
                "bits" => self.tell("iac.bits", "unused_bits"),
                "tail" if is_second => self.tell("iac.tail", "unused_bits"),
                "groups" if is_second => {
                    let places = GroupPlaces::parse(Some(value)).ok().flatten();
                    if places.is_none_or(|places| places.to_json() != *value) {
                        self.tell("iac.groups", "record");
                    }
                }
                "source_photometric" => {
                    let fits = value.as_str().is_some_and(|text| {
                        text.is_empty() || values::sound(VR::CS, text.as_bytes()).is_some()
                    });
                    if !fits {
                        self.tell("iac.source_photometric", "record");
                    }
                }
                "text" => {
                    self.texts_beside(value);
                }
                _ => self.tell("iac", "record"),
            }
        }
        self.records(records);
    }

    /// Texts that could not be decoded.
    fn texts_beside(&mut self, value: &Value) {
        for kept in value.as_array().map(Vec::as_slice).unwrap_or_default() {
            self.record(kept, &["path", "raw_base64", "scope"]);
        }
    }

    /// Spellings that JSON cannot hold.
    fn records(&mut self, records: &[Value]) {
        for record in records {
            let members = [
                "code",
                "exception",
                "path",
                "raw_base64",
                "scope",
                "source_vr",
                "stored_vr",
                "value",
            ];
            self.record(record, &members);
            let code = record.get("code").and_then(Value::as_str).unwrap_or_default();
            // Elements that could not be interpreted are taken out, so that there can be none.
            let word = record.get("exception").and_then(Value::as_str);
            if code != LEXICAL_FORM || word.is_some_and(|word| word != "LexicalForm") {
                self.tell(record_path(record), "record");
            }
        }
    }

    /// A record may hold another value than the element that it restores: only what says the same
    /// may stand there.
    fn record(&mut self, record: &Value, known: &[&str]) {
        let Some(members) = record.as_object() else {
            self.tell("errors", "record");
            return;
        };
        if members.keys().any(|name| !known.contains(&name.as_str())) {
            self.tell(record_path(record), "record");
        }
        let raw = members.get("raw_base64").and_then(Value::as_str);
        let raw = raw.and_then(restore::base64);
        let value = members.get("value").and_then(Value::as_str);
        if let (Some(raw), Some(value)) = (&raw, value)
            && raw.as_slice() != value.as_bytes()
        {
            self.tell(record_path(record), "record");
        }
        if raw.is_none() && members.contains_key("raw_base64") {
            self.tell(record_path(record), "record");
        }
    }
}
