//! Functional groups of frames, kept in blocks of their own beside the other metadata.

use std::sync::Arc;

use bytes::Bytes;
use dicom_core::{Tag, VR};
use iac_codec::Codec;
use serde_json::{Value, json};

use super::bulk::BulkWriter;
use super::spool::{Place, SharedSpool};
use crate::dicom::charset::Charset;
use crate::dicom::encode::{EncodedItems, Malformed, encode_items};
use crate::dicom::fault::{Fault, Result};
use crate::dicom::object::{DataSet, Element, ElementValue, tag_text};
use crate::dicom::pixels;
use crate::dicom::restore::{self, BulkOf};

/// Functional groups that all frames share.
pub(crate) const SHARED: Tag = Tag(0x5200, 0x9229);
/// Functional groups of each frame.
pub(crate) const PER_FRAME: Tag = Tag(0x5200, 0x9230);

/// Items of one block.
pub(crate) const BLOCK: usize = 32;

/// Blocks of an object on their way into a pack.
#[derive(Debug, Default)]
pub(crate) struct StoredGroups {
    pub(crate) items: usize,
    /// Where they lie in the spool, and their checksums.
    pub(crate) blocks: Vec<(Place, u32)>,
}

/// Encodes the items of an object, block by block.
pub(crate) fn store(
    items: &[DataSet],
    charset: &Charset,
    codec: &Codec,
    spool: &SharedSpool,
    bulk: &mut BulkWriter<'_>,
    malformed: &mut Vec<Malformed>,
) -> Result<StoredGroups> {
    let mut stored = StoredGroups { items: items.len(), blocks: Vec::new() };
    for (number, block) in items.chunks(BLOCK).enumerate() {
        let first = number.saturating_mul(BLOCK);
        let EncodedItems { items, errors, text, malformed: bad } =
            encode_items(PER_FRAME, first, block, charset);
        malformed.extend(bad);
        let mut document = json!({"errors": errors, "first": first, "items": items, "text": text});
        bulk.extract(&mut document)?;
        let compressed = codec
            .encode_bytes(document.to_string().as_bytes())
            .map_err(|error| pixels::of_codec(&error))?;
        stored.blocks.push((spool.append(&compressed)?, crc32fast::hash(&compressed)));
    }
    Ok(stored)
}

/// Where the blocks of an object lie in the data segment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct GroupPlaces {
    pub(crate) items: u64,
    pub(crate) block: u64,
    /// Offset, length and checksum.
    pub(crate) blocks: Vec<(u64, u64, u32)>,
}

impl GroupPlaces {
    /// Refuses blocks that lie one over the other: a list of a few kilobytes could name one of them
    /// millions of times.
    pub(crate) fn check_apart(&self) -> Result<()> {
        let mut spans: Vec<(u64, u64)> =
            self.blocks.iter().map(|(offset, length, _)| (*offset, *length)).collect();
        spans.sort_unstable();
        let overlap = spans.windows(2).any(|pair| match pair {
            [(offset, length), (next, _)] => offset.saturating_add(*length) > *next,
            _ => false,
        });
        if overlap {
            return Err(Fault::decode("blocks of its functional groups overlap"));
        }
        Ok(())
    }

    /// Items that a block must have.
    pub(crate) fn items_of(&self, number: usize) -> u64 {
        let before = u64::try_from(number).unwrap_or(u64::MAX).saturating_mul(self.block);
        self.items.saturating_sub(before).min(self.block)
    }

    /// The member `groups` of a delta.
    pub(crate) fn to_json(&self) -> Value {
        json!({"items": self.items, "block": self.block, "blocks": self.blocks})
    }

    /// Reads the member; nothing when it is not there.
    pub(crate) fn parse(value: Option<&Value>) -> Result<Option<Self>> {
        let Some(value) = value else {
            return Ok(None);
        };
        let bad = || Fault::decode("the places of its functional groups are damaged");
        let number = |name: &str| value.get(name).and_then(Value::as_u64).ok_or_else(bad);
        let (items, block) = (number("items")?, number("block")?);
        let listed = value.get("blocks").and_then(Value::as_array).ok_or_else(bad)?;
        let mut blocks = Vec::with_capacity(listed.len());
        for place in listed {
            let number = |position: usize| place.get(position).and_then(Value::as_u64);
            let crc32 = number(2).and_then(|sum| u32::try_from(sum).ok());
            let (Some(offset), Some(length), Some(crc32)) = (number(0), number(1), crc32) else {
                return Err(bad());
            };
            blocks.push((offset, length, crc32));
        }
        let needed = items.checked_div(block).ok_or_else(bad)?;
        let needed = needed.saturating_add(u64::from(!items.is_multiple_of(block)));
        if u64::try_from(blocks.len()).ok() != Some(needed) {
            return Err(bad());
        }
        Ok(Some(Self { items, block, blocks }))
    }
}

/// The items of a block.
pub(crate) fn parse_block(
    text: &[u8],
    charset: &Charset,
    bulk: &BulkOf<'_>,
    max_bytes: u64,
) -> Result<Vec<DataSet>> {
    let bad = || Fault::decode("a block of functional groups is damaged");
    let document = super::document_value(text, max_bytes)?;
    let first = document.get("first").and_then(Value::as_u64).ok_or_else(bad)?;
    let items = document.get("items").and_then(Value::as_array).ok_or_else(bad)?;
    let mut sets = Vec::with_capacity(items.len());
    for item in items {
        sets.push(restore::item(item.as_object().ok_or_else(bad)?, charset, 1, bulk)?);
    }
    let element = Element { tag: PER_FRAME, vr: VR::SQ, value: ElementValue::Items(sets) };
    let mut data = DataSet::from_elements(vec![element]);
    let mut none = DataSet::new();
    let records = |name: &str| -> Result<Vec<Value>> {
        match document.get(name) {
            None => Ok(Vec::new()),
            Some(records) => {
                records.as_array().ok_or_else(bad)?.iter().map(|it| counted(it, first)).collect()
            }
        }
    };
    restore::apply_records(&records("errors")?, &mut data, &mut none)?;
    restore::apply_kept(&records("text")?, &mut data, &mut none)?;
    match data.remove(PER_FRAME).map(|element| element.value) {
        Some(ElementValue::Items(sets)) => Ok(sets),
        _ => Err(bad()),
    }
}

/// A record whose path counts items from the beginning of its block.
fn counted(record: &Value, first: u64) -> Result<Value> {
    let bad = || Fault::decode("a record of functional groups has a damaged path");
    let mut record = record.clone();
    let path = record.get_mut("path").and_then(Value::as_array_mut).ok_or_else(bad)?;
    if path.first().and_then(Value::as_str) != Some(&tag_text(PER_FRAME)) {
        return Err(bad());
    }
    let item = path.get_mut(1).ok_or_else(bad)?;
    let number = item.as_u64().and_then(|item| item.checked_sub(first)).ok_or_else(bad)?;
    *item = number.into();
    Ok(record)
}

/// What a functional group says, without the sequences that macros are wrapped in.
pub(crate) fn leaves(item: &DataSet) -> Vec<Element> {
    let mut found = Vec::new();
    for element in item.elements() {
        match element.items() {
            Some([first, ..]) => found.extend(first.elements().iter().cloned()),
            Some([]) => {}
            None => found.push(element.clone()),
        }
    }
    found
}

/// The shared functional groups of an object.
pub(crate) fn shared_of(data: &DataSet) -> Option<&DataSet> {
    data.get(SHARED)?.items()?.first()
}

/// Makes the data set of an object one of a single frame: what the functional groups say stands
/// beside the other elements, that of the frame before that of all frames.
pub(crate) fn flatten(mut data: DataSet, own: Option<&DataSet>) -> DataSet {
    let shared = data.remove(SHARED);
    data.remove(PER_FRAME);
    let shared = shared.as_ref().and_then(|element| element.items()?.first());
    for item in [shared, own].into_iter().flatten() {
        for element in leaves(item) {
            // What names and describes the object is not a frame's affair.
            if element.tag.0 > 0x0008 || element.tag.1 >= 0x9000 || data.get(element.tag).is_none()
            {
                data.put(element);
            }
        }
    }
    data
}

/// A block that was read, with the number of its first item.
pub(crate) type Block = Arc<Vec<DataSet>>;

/// Stored bytes with a checksum.
pub(crate) fn check_sum(bytes: Bytes, crc32: u32, check: bool) -> Result<Bytes> {
    if check && crc32fast::hash(&bytes) != crc32 {
        return Err(Fault::decode("checksum mismatch in a block of functional groups"));
    }
    Ok(bytes)
}
