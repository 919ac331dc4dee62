//! What packs of schema 2 hold beside documents: functional groups, frames, large values.

use std::collections::BTreeSet;

use dicom_core::{Tag, VR};
use iac_codec::{Codec, Limits};
use serde_json::{Map, Value};

use super::Checking;
use super::shapes::{add_named, has_boxes, has_comments, is_plain, plain_members};
use crate::dicom::attributes::Attributes;
use crate::dicom::object::{DataSet, Element, ElementValue};
use crate::dicom::read::DicomPackReader;
use crate::dicom::restore;
use crate::dicom::schema2::bulk::{SCHEME, hash_of};
use crate::dicom::schema2::groups::PER_FRAME;
use crate::dicom::schema2::payload::FrameCodec;
use crate::dicom::schema2::read::charset_of;
use crate::error::Result;

impl Checking {
    /// The functional groups of an object's frames, as their JSON has them. With what is kept beside
    /// that they are looked at as a part of the object.
    pub(super) fn groups(
        &mut self,
        pack: &DicomPackReader,
        row: u64,
        attributes: &Attributes,
        codec: &Codec,
        used: &mut BTreeSet<String>,
    ) -> Result<()> {
        let Ok(Some(places)) = pack.group_places(row) else {
            // Places that cannot be understood were told already.
            return Ok(());
        };
        for (offset, length, _) in places.blocks {
            let stored = pack.reader().read_data_span(offset, length)?;
            let text = codec.decode_bytes(&stored, &Limits::default());
            let known = ["errors", "first", "items", "text"];
            let members = text.ok().and_then(|text| plain_members(&text, Some(&known)));
            let Some(members) = members else {
                self.tell("groups", "document");
                continue;
            };
            self.block(pack, attributes, &members, used);
        }
        Ok(())
    }

    fn block(
        &mut self,
        pack: &DicomPackReader,
        attributes: &Attributes,
        members: &Map<String, Value>,
        used: &mut BTreeSet<String>,
    ) {
        let list = |name: &str| members.get(name).and_then(Value::as_array).map(Vec::as_slice);
        if !members.get("first").is_some_and(Value::is_u64) {
            self.tell("groups", "document");
        }
        if let Some(texts) = members.get("text") {
            self.texts_beside(texts);
        }
        self.records(list("errors").unwrap_or_default());
        let Ok(charset) = charset_of(attributes) else {
            self.tell("groups", "document");
            return;
        };
        let mut sets = Vec::new();
        let budget = pack.budget();
        let bulk = |name: &str| pack.bulk_value(name, &budget);
        for item in list("items").unwrap_or_default() {
            add_named(item, used);
            let item = item.as_object().filter(|item| is_plain(item));
            let set = item.map(|item| restore::item(item, &charset, 1, &bulk));
            match set {
                Some(Ok(set)) => sets.push(set),
                _ => self.tell("groups", "document"),
            }
        }
        // The rules ask of which class an object is, and how its texts are written.
        let Ok((shared, meta)) = attributes.restore_shared() else {
            self.tell("groups", "document");
            return;
        };
        let context = [Tag(0x0008, 0x0005), Tag(0x0008, 0x0016)];
        let mut elements: Vec<Element> =
            context.iter().filter_map(|tag| shared.get(*tag).cloned()).collect();
        elements.push(Element { tag: PER_FRAME, vr: VR::SQ, value: ElementValue::Items(sets) });
        self.object(&DataSet::from_elements(elements), &meta);
    }

    /// The payloads of an object's frames, and what lies beside them.
    pub(super) fn frames(&mut self, pack: &DicomPackReader, first: u64) -> Result<()> {
        for row in pack.rows_beside(first)? {
            self.row = Some(row);
            if pack.extra_span(row)?.is_some() {
                self.tell("extra", "unused_bits");
            }
            if !pack.has_pixels(row)? {
                continue;
            }
            let stored = || pack.reader().read(row);
            // What is no codec was told with its column.
            let Ok(codec) = pack.frame_codec(row) else {
                continue;
            };
            let carries = match codec {
                // Streams of the source, with whatever it put into them.
                FrameCodec::Source | FrameCodec::JxlJpeg => true,
                FrameCodec::Jxl | FrameCodec::JxlOffset => has_boxes(&stored()?),
                FrameCodec::JpegLs
                | FrameCodec::JpegLsOffset
                | FrameCodec::Jpeg2000
                | FrameCodec::Jpeg2000Offset => has_comments(&stored()?),
                FrameCodec::None | FrameCodec::Zstd | FrameCodec::ZstdDelta => false,
            };
            if carries {
                self.tell("payload", "payload_metadata");
            }
        }
        self.row = Some(first);
        Ok(())
    }

    /// The table of large values: numbers alone, and none that no object names.
    pub(super) fn bulk(
        &mut self,
        pack: &DicomPackReader,
        codec: &Codec,
        used: &BTreeSet<String>,
    ) -> Result<()> {
        let Some(member) = pack.reader().header().get("bulk") else {
            return Ok(());
        };
        let known = ["count", "crc32", "length", "offset"];
        let is_plain = member.as_object().is_some_and(|members| {
            members.iter().all(|(name, value)| known.contains(&name.as_str()) && value.is_u64())
        });
        let number = |name: &str| member.get(name).and_then(Value::as_u64);
        let (true, Some(offset), Some(length)) = (is_plain, number("offset"), number("length"))
        else {
            self.tell("bulk", "header");
            return Ok(());
        };
        let stored = pack.reader().read_data_span(offset, length)?;
        let text = codec.decode_bytes(&stored, &Limits::default());
        let Some(members) = text.ok().and_then(|text| plain_members(&text, None)) else {
            self.tell("bulk", "document");
            return Ok(());
        };
        for (name, place) in &members {
            let name = format!("{SCHEME}{name}");
            let numbers = place
                .as_array()
                .is_some_and(|place| place.len() == 3 && place.iter().all(Value::is_u64));
            if !numbers || hash_of(&name).is_none() {
                self.tell("bulk", "document");
            } else if !used.contains(&name) {
                self.tell("bulk", "hidden");
            } else if pack.bulk_value(&name, &pack.budget()).is_err() {
                self.tell("bulk", "document");
            }
        }
        Ok(())
    }

    /// Adds what else is addressed in the data segment.
    pub(super) fn add_spans(pack: &DicomPackReader, spans: &mut Vec<(u64, u64)>) -> Result<()> {
        for row in 0..pack.row_count() {
            spans.push(pack.delta_span(row)?);
            spans.extend(pack.extra_span(row)?.map(|(offset, length, _)| (offset, length)));
        }
        for row in pack.first_rows()? {
            if let Ok(Some(places)) = pack.group_places(row) {
                spans.extend(places.blocks.iter().map(|(offset, length, _)| (*offset, *length)));
            }
        }
        if let Some(member) = pack.reader().header().get("bulk") {
            let number = |name: &str| member.get(name).and_then(Value::as_u64);
            spans.extend(number("offset").zip(number("length")));
        }
        if let Ok(table) = pack.bulk_table() {
            spans.extend(table.values().map(|(offset, length, _)| (*offset, *length)));
        }
        Ok(())
    }
}
