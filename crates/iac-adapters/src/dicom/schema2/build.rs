//! Packs of schema 2 from objects that were made ready.
//!
//! The data segment holds templates, large values and their table, blocks of functional groups,
//! pixel data that is kept as it was, deltas, payloads, and bits beside them, in this order. Everything but the templates lies in
//! spools until then.

use std::collections::HashSet;

use iac_codec::Codec;
use iac_writer::PackWriter;
use serde_json::{Map, Value, json};

use super::SCHEMA_VERSION_2;
use super::bulk::{self, BulkPlace, BulkWriter};
use super::groups::{self, GroupPlaces};
use super::prepare::{FrameSet, Preparing2};
use super::spool::Place;
use super::tables::{self, DeltaPlace};
use crate::dicom::DICOM_PATIENT;
use crate::dicom::build::{
    Collected, DicomBuildReport, DicomPackBuilder, Instance, StoredAside, codec_error, source_error,
};
use crate::dicom::document::METADATA_LEVEL;
use crate::dicom::fault::Fault;
use crate::dicom::geometry::{ShortAcquisition, SliceGap};
use crate::dicom::kept;
use crate::dicom::prepare::BITS_MEMBER;
use crate::dicom::tables::series_table;
use crate::error::{AdapterError, Result};

/// Code of objects whose number of frames is missing, or another than they say.
pub(crate) const FRAME_COUNT: &str = "frame_count_mismatch";
/// Code of objects whose functional groups are missing, or as many as there are no frames.
pub(crate) const FUNCTIONAL_GROUPS: &str = "functional_groups_mismatch";

/// An object whose frames are not as many as it says.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FrameCountReport {
    /// Name of the input.
    pub input: String,
    /// What Number of Frames says; nothing where it is missing or no number.
    pub stated: Option<u64>,
    /// Frames that are there, where that is another number.
    pub found: Option<u64>,
    /// Items of functional groups, where there is not one for each frame.
    pub groups: Option<u64>,
}

impl FrameCountReport {
    pub(crate) fn of(input: &str, set: &FrameSet) -> Option<Self> {
        if set.counts.is_none() && set.group_items.is_none() {
            return None;
        }
        Some(Self {
            input: input.to_owned(),
            stated: set.counts.and_then(|counts| counts.stated),
            found: set.counts.map(|counts| counts.found),
            groups: set.group_items,
        })
    }

    pub(crate) fn codes(&self) -> impl Iterator<Item = &'static str> {
        let frames = self.found.map(|_| FRAME_COUNT);
        frames.into_iter().chain(self.groups.map(|_| FUNCTIONAL_GROUPS))
    }
}

/// Where the next thing goes.
struct Cursor(u64);

impl Cursor {
    fn take(&mut self, length: u64) -> u64 {
        let place = self.0;
        self.0 = self.0.saturating_add(length);
        place
    }
}

fn length_of(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

/// Everything that lies before the payloads.
struct Laid {
    templates: Vec<Vec<u8>>,
    bulk: Vec<Place>,
    table: Vec<u8>,
    table_member: Option<Value>,
    groups: Vec<Place>,
    deltas: Vec<DeltaPlace>,
    /// The same in the spool.
    spooled_deltas: Vec<Place>,
    end: u64,
}

pub(crate) fn finish(
    mut collected: Collected,
    builder: &DicomPackBuilder,
    metadata: &Codec,
    second: &Preparing2,
    (gaps, short): (Vec<SliceGap>, Vec<ShortAcquisition>),
) -> Result<DicomBuildReport> {
    let path = collected.path.clone();
    let fault = |fault: Fault| source_error(&path.display().to_string(), &fault);
    let laid = lay_out(&mut collected, metadata, second)?;
    let slides = series_table(&collected.series, &laid.templates)?;
    let mut cursor = Cursor(laid.end);
    for instance in collected.series.values().flat_map(|one| &one.instances) {
        let length = match &instance.frames {
            Some(set) => set.frames.iter().map(|it| it.payload.1).fold(0, u64::saturating_add),
            None => instance.payload.len(),
        };
        cursor.take(length);
    }
    let index = tables::frame_table(&collected.series, &laid.deltas, cursor.0)?;
    let header = header(&collected, builder, &laid);
    let mut writer = PackWriter::with_index(&path, header, &slides, &index, &builder.options)?;
    for template in &laid.templates {
        writer.push_unindexed(template)?;
    }
    for place in &laid.bulk {
        writer.push_unindexed(second.spool.read(*place).map_err(fault)?)?;
    }
    writer.push_unindexed(&laid.table)?;
    for place in &laid.groups {
        writer.push_unindexed(second.spool.read(*place).map_err(fault)?)?;
    }
    for kept in collected.series.values().flat_map(|one| &one.instances).filter_map(kept_of) {
        writer.push_unindexed(collected.spool.read(&kept.place)?)?;
    }
    for place in &laid.spooled_deltas {
        writer.push_unindexed(second.spool.read(*place).map_err(fault)?)?;
    }
    let (mut instances, mut images, mut frames) = (0_u64, 0_u64, 0_u64);
    let Collected { series, spool, .. } = &mut collected;
    for instance in series.values().flat_map(|one| &one.instances) {
        instances = instances.saturating_add(1);
        images = images.saturating_add(instance.row.has_pixels.into());
        match &instance.frames {
            Some(set) if !set.frames.is_empty() => {
                for frame in &set.frames {
                    frames = frames.saturating_add(1);
                    writer.push(second.spool.read(frame.payload).map_err(fault)?)?;
                }
            }
            _ => {
                frames = frames.saturating_add(instance.row.has_pixels.into());
                writer.push(spool.read(&instance.payload)?)?;
            }
        }
    }
    for instance in series.values().flat_map(|one| &one.instances) {
        match &instance.frames {
            Some(set) => {
                for (place, _) in set.frames.iter().filter_map(|frame| frame.aside) {
                    writer.push_unindexed(second.spool.read(place).map_err(fault)?)?;
                }
            }
            None => {
                if let Some(aside) = instance.aside.as_ref().filter(|it| it.member == BITS_MEMBER) {
                    writer.push_unindexed(spool.read(&aside.place)?)?;
                }
            }
        }
    }
    Ok(DicomBuildReport {
        written: writer.finish()?,
        instances,
        series: u64::try_from(collected.series.len()).unwrap_or(u64::MAX),
        images,
        diagnostics: collected.counts.into_iter().collect(),
        skipped: collected.skipped,
        kept: collected.kept,
        duplicates: collected.duplicates,
        malformed: collected.malformed,
        gaps,
        short_acquisitions: short,
        schema_version: SCHEMA_VERSION_2,
        frames,
        frame_counts: collected.frame_counts,
        deidentification: builder.deidentifier.is_some().then_some(collected.deid),
    })
}

fn lay_out(collected: &mut Collected, metadata: &Codec, second: &Preparing2) -> Result<Laid> {
    let path = collected.path.clone();
    let fault = |fault: Fault| source_error(&path.display().to_string(), &fault);
    let codec = |source| codec_error(&path, source);
    // Objects that fit schema 1 have their large values inline until now.
    let mut order: Vec<[u8; 32]> = Vec::new();
    for one in collected.series.values_mut() {
        let mut writer = BulkWriter { spool: &second.spool, codec: metadata, used: Vec::new() };
        for json in one.metadata.members_mut() {
            writer.extract_text(json).map_err(fault)?;
        }
        order.append(&mut writer.used);
        for set in one.instances.iter().filter_map(|instance| instance.frames.as_ref()) {
            order.extend(&set.bulk);
        }
    }
    let mut cursor = Cursor(0);
    let mut templates = Vec::with_capacity(collected.series.len());
    for one in collected.series.values() {
        let template = metadata.encode_bytes(one.metadata.template().as_bytes()).map_err(codec)?;
        cursor.take(length_of(&template));
        templates.push(template);
    }
    let mut seen = HashSet::new();
    let mut places: Vec<([u8; 32], BulkPlace)> = Vec::new();
    let mut spooled_bulk = Vec::new();
    for hash in order {
        if !seen.insert(hash) {
            continue;
        }
        let (place, size) = second
            .spool
            .bulk(&hash)
            .ok_or_else(|| fault(Fault::decode("a large value was lost on its way")))?;
        places.push((hash, (cursor.take(place.1), place.1, size)));
        spooled_bulk.push(place);
    }
    let mut table = Vec::new();
    let mut table_member = None;
    if !places.is_empty() {
        table = metadata.encode_bytes(bulk::table_json(&places).as_bytes()).map_err(codec)?;
        let length = length_of(&table);
        table_member = Some(json!({
            "count": places.len(),
            "crc32": crc32fast::hash(&table),
            "length": length,
            "offset": cursor.take(length),
        }));
    }
    let mut groups = Vec::new();
    for one in collected.series.values_mut() {
        for instance in &one.instances {
            let Some(set) = instance.frames.as_ref().filter(|set| set.groups.items > 0) else {
                continue;
            };
            let mut listed = GroupPlaces {
                items: u64::try_from(set.groups.items).unwrap_or(u64::MAX),
                block: u64::try_from(groups::BLOCK).unwrap_or(1),
                blocks: Vec::with_capacity(set.groups.blocks.len()),
            };
            for (place, sum) in &set.groups.blocks {
                listed.blocks.push((cursor.take(place.1), place.1, *sum));
                groups.push(*place);
            }
            if let Some(iac) = one.metadata.iac_mut(instance.position) {
                iac.insert("groups".to_owned(), listed.to_json());
            }
        }
    }
    // What is kept of pixel data that cannot be used: the metadata says where, so it comes first.
    for one in collected.series.values_mut() {
        for instance in &one.instances {
            if let (Some(kept), Some(iac)) =
                (kept_of(instance), one.metadata.iac_mut(instance.position))
            {
                let member = iac.entry(kept.member).or_insert_with(|| json!({}));
                kept.say_where(member, cursor.take(kept.place.len()));
            }
        }
    }
    let mut deltas = Vec::new();
    let mut spooled_deltas = Vec::new();
    for one in collected.series.values() {
        for instance in &one.instances {
            let delta = one.metadata.delta(instance.position).unwrap_or_default();
            let delta = metadata.encode_bytes(delta.as_bytes()).map_err(codec)?;
            let length = u32::try_from(delta.len()).map_err(|_| {
                AdapterError::usage("the metadata of an object has more than 4 GiB")
            })?;
            let offset = cursor.take(length.into());
            deltas.push(DeltaPlace { offset, length, crc32: crc32fast::hash(&delta) });
            spooled_deltas.push(second.spool.append(&delta).map_err(fault)?);
        }
    }
    Ok(Laid {
        templates,
        bulk: spooled_bulk,
        table,
        table_member,
        groups,
        deltas,
        spooled_deltas,
        end: cursor.0,
    })
}

/// Pixel data that an instance keeps as its source has it.
fn kept_of(instance: &Instance) -> Option<&StoredAside> {
    instance.aside.as_ref().filter(|aside| aside.member == kept::MEMBER)
}

fn header(collected: &Collected, builder: &DicomPackBuilder, laid: &Laid) -> Map<String, Value> {
    let mut header = Map::new();
    let mut put = |name: &str, value: Value| header.insert(name.to_owned(), value);
    let metadata: u64 = laid.templates.iter().map(|it| length_of(it)).fold(0, u64::saturating_add);
    put("payload_type", DICOM_PATIENT.into());
    put("dicom_schema_version", SCHEMA_VERSION_2.into());
    put("metadata_offset", 0.into());
    put("metadata_length", metadata.into());
    put("metadata_codec", "zstd".into());
    put("metadata_codec_params", json!({"level": METADATA_LEVEL}));
    put("checksum", "crc32".into());
    put("record_unit", "dicom_frame".into());
    put("num_instances", laid.deltas.len().into());
    put("created_by", concat!("iatrocache ", env!("CARGO_PKG_VERSION")).into());
    if let Some(member) = &laid.table_member {
        put("bulk", member.clone());
    }
    collected.put_common(builder, false, &mut header);
    header
}
