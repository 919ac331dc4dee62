//! Reading packs of schema 2.

use std::cell::Cell;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bytes::Bytes;
use dicom_core::{Tag, VR};
use iac_format::ErrorKind;
use serde_json::Value;

use super::SCHEMA_VERSION_2;
use super::bulk::{self, BulkPlace};
use super::columns::{FactColumns, FrameColumns};
use super::facts::FrameFacts;
use super::form::FrameForm;
use super::groups::{self, Block, GroupPlaces, PER_FRAME};
use super::payload::{self, FrameCodec};
use crate::columns::IntColumn;
use crate::dicom::attributes::Attributes;
use crate::dicom::charset::Charset;
use crate::dicom::document::Document;
use crate::dicom::encode::CHARACTER_SET;
use crate::dicom::fault::{Fault, Result as Checked};
use crate::dicom::object::{DataSet, Element, ElementValue, tag_text};
use crate::dicom::read::DicomPackReader;
use crate::dicom::restore;
use crate::dicom::samples::{PixelSamples, PixelSamplesMut, Pixels};
use crate::error::Result;

/// What is loaded of a pack of schema 2, each part when it is first needed.
#[derive(Default)]
pub(crate) struct Loaded {
    columns: OnceLock<FrameColumns>,
    facts: OnceLock<FactColumns>,
    bulk: OnceLock<HashMap<[u8; 32], BulkPlace>>,
    recent: Mutex<Recent>,
}

/// What was read last: frames are mostly read one after the other.
#[derive(Default)]
struct Recent {
    delta: Option<(Span, Arc<Document>)>,
    /// The series belongs to it: it has a part of the elements.
    data: Option<((Span, u64), Arc<DataSet>)>,
    /// With the bytes of its document.
    block: Option<(Span, u64, Block)>,
}

/// Where something is stored: offset, length, and the checksum that is stated.
type Span = (u64, u64, Option<i128>);

/// Bytes that may still be put into one object. The documents of an object may name one large value
/// or one block of functional groups any number of times.
pub(crate) struct Budget {
    left: Cell<u64>,
    allowed: u64,
}

impl Budget {
    fn take(&self, bytes: u64) -> Checked<()> {
        let Some(left) = self.left.get().checked_sub(bytes) else {
            return Err(Fault::new(
                ErrorKind::Limit,
                format!(
                    "its large values and functional groups have more than the allowed {} bytes",
                    self.allowed
                ),
            ));
        };
        self.left.set(left);
        Ok(())
    }
}

impl DicomPackReader {
    pub(crate) fn is_second(&self) -> bool {
        self.schema_version() == SCHEMA_VERSION_2
    }

    fn frame_columns(&self) -> Result<&FrameColumns> {
        let loaded = self.second();
        if let Some(columns) = loaded.columns.get() {
            return Ok(columns);
        }
        let columns = FrameColumns::load(self.reader())?;
        Ok(loaded.columns.get_or_init(|| columns))
    }

    /// First rows of the instances, and the number of rows behind them.
    pub(crate) fn instance_starts(&self) -> Result<&[u64]> {
        Ok(&self.frame_columns()?.starts)
    }

    /// Rows of the instance that a row belongs to.
    pub(crate) fn rows_beside(&self, row: u64) -> Result<Range<u64>> {
        let starts = self.instance_starts()?;
        let behind = starts.partition_point(|start| *start <= row);
        let first = behind.checked_sub(1).and_then(|it| starts.get(it));
        match (first, starts.get(behind)) {
            (Some(first), Some(end)) => Ok(*first..*end),
            _ => Err(self.row_out_of_range(row)),
        }
    }

    pub(crate) fn frame_number(&self, row: u64) -> Result<u64> {
        let number = self.frame_columns()?.frame.get(row);
        number
            .and_then(|number| u64::try_from(number).ok())
            .ok_or_else(|| self.row_out_of_range(row))
    }

    pub(crate) fn facts_of_row(&self, row: u64) -> Result<FrameFacts> {
        let loaded = self.second();
        if let Some(columns) = loaded.facts.get() {
            return Ok(columns.facts(row));
        }
        let columns = FactColumns::load(self.reader())?;
        Ok(loaded.facts.get_or_init(|| columns).facts(row))
    }

    /// How a frame is stored.
    pub(crate) fn frame_codec(&self, row: u64) -> Result<FrameCodec> {
        let name = self.frame_columns()?.codec.get(row).unwrap_or_default();
        FrameCodec::from_name(name).ok_or_else(|| {
            self.schema_row(
                row,
                "codec",
                format!("\"{}\" is no known codec of frames", crate::error::short(name)),
            )
        })
    }

    /// The transfer syntax of a frame's source.
    pub(crate) fn frame_syntax(&self, row: u64) -> Result<&str> {
        Ok(self.frame_columns()?.syntax.get(row).unwrap_or_default())
    }

    pub(crate) fn frame_form(&self, row: u64) -> Result<FrameForm> {
        let (shape, pixel_type) = self.image_form(row)?;
        let columns = self.frame_columns()?;
        let number = |column: &IntColumn, name: &str| {
            column
                .get(row)
                .and_then(|number| u16::try_from(number).ok())
                .ok_or_else(|| self.schema_row(row, name, "no usable number"))
        };
        let stream = columns.stream.as_ref().and_then(|column| column.get(row));
        let photometric = stream
            .filter(|label| !label.is_empty())
            .or_else(|| columns.photometric.as_ref()?.get(row))
            .unwrap_or_default();
        let bits = [
            number(&columns.allocated, "bits_allocated")?,
            number(&columns.stored, "bits_stored")?,
            number(&columns.high_bit, "high_bit")?,
        ];
        Ok(FrameForm::of_row(pixel_type, shape, bits, photometric.to_owned()))
    }

    /// Decodes one frame. Its payload is all that is read of the data segment.
    pub(crate) fn decode_frame(&self, row: u64, form: &FrameForm) -> Result<PixelSamples> {
        let codec = self.frame_codec(row)?;
        let syntax = self.frame_syntax(row)?;
        self.reader().with_record(row, |payload| {
            payload::decode(codec, payload, form, self.images(), syntax)
                .map_err(|fault| self.fault(row, fault))
        })
    }

    /// The same to its place in a batch.
    pub(crate) fn decode_frame_into(
        &self,
        row: u64,
        form: &FrameForm,
        out: PixelSamplesMut<'_>,
    ) -> Result<()> {
        let codec = self.frame_codec(row)?;
        let syntax = self.frame_syntax(row)?;
        self.reader().with_record(row, |payload| {
            payload::decode_into(codec, payload, form, self.images(), syntax, out)
                .map_err(|fault| self.fault(row, fault))
        })
    }

    pub(crate) fn read_frame_row(&self, row: u64) -> Result<Pixels> {
        let form = self.frame_form(row)?;
        Ok(Pixels { shape: form.pixel.shape, samples: self.decode_frame(row, &form)? })
    }

    /// A delta as it is stored.
    pub(crate) fn second_delta_bytes(&self, row: u64) -> Result<Vec<u8>> {
        let (offset, length) = self.delta_span(row)?;
        let stored = self.reader().read_data_span(offset, length)?;
        let sums = self.frame_columns()?.delta_crc32.as_ref();
        if let Some(expected) = sums.and_then(|sums| sums.get(row)).filter(|_| self.checks()) {
            let found = crc32fast::hash(&stored);
            if i128::from(found) != expected {
                return Err(self.schema_row(
                    row,
                    "delta_crc32",
                    format!("checksum mismatch (stored {expected:#010x}, computed {found:#010x})"),
                ));
            }
        }
        Ok(stored.to_vec())
    }

    pub(crate) fn delta_span(&self, row: u64) -> Result<(u64, u64)> {
        let [offset, length] = &self.frame_columns()?.delta;
        let number = |column: &IntColumn| column.get(row).and_then(|it| u64::try_from(it).ok());
        match (number(offset), number(length)) {
            (Some(offset), Some(length)) => Ok((offset, length)),
            _ => Err(self.schema_row(row, "delta_offset", "no usable number")),
        }
    }

    fn delta_place(&self, row: u64) -> Result<Span> {
        let (offset, length) = self.delta_span(row)?;
        let sums = self.frame_columns()?.delta_crc32.as_ref();
        Ok((offset, length, sums.and_then(|sums| sums.get(row))))
    }

    /// What an object may hold of large values and functional groups.
    pub(crate) fn budget(&self) -> Budget {
        let allowed = self.max_document().saturating_mul(2);
        Budget { left: Cell::new(allowed), allowed }
    }

    fn recent(&self) -> std::sync::MutexGuard<'_, Recent> {
        self.second().recent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The delta of a row's instance; the one that was asked for last is kept.
    pub(crate) fn second_delta(&self, row: u64) -> Result<Arc<Document>> {
        let span = self.delta_place(row)?;
        if let Some((place, delta)) = &self.recent().delta
            && *place == span
        {
            return Ok(Arc::clone(delta));
        }
        let delta = Arc::new(self.parse_delta(row)?);
        self.recent().delta = Some((span, Arc::clone(&delta)));
        Ok(delta)
    }

    /// The data set of an instance without the functional groups of its frames.
    pub(crate) fn shared_data(&self, row: u64) -> Result<Arc<DataSet>> {
        let place = (self.delta_place(row)?, self.series_number(row)?);
        if let Some((last, data)) = &self.recent().data
            && *last == place
        {
            return Ok(Arc::clone(data));
        }
        let restored = self.attributes(row)?.restore_shared();
        let (data, _) = restored.map_err(|fault| self.fault(row, fault))?;
        let data = Arc::new(data);
        self.recent().data = Some((place, Arc::clone(&data)));
        Ok(data)
    }

    /// A large value by its name.
    pub(crate) fn bulk_value(&self, name: &str, budget: &Budget) -> Checked<Bytes> {
        let hash = bulk::hash_of(name)
            .ok_or_else(|| Fault::decode("the name of a large value is no SHA-256"))?;
        let table = self.bulk_table()?;
        let (offset, length, size) = *table
            .get(&hash)
            .ok_or_else(|| Fault::decode("a large value is not in the pack's table of them"))?;
        budget.take(size)?;
        let stored = self.span(offset, length)?;
        bulk::unpack(&stored, size, &hash, self.metadata(), self.checks(), self.max_document())
    }

    pub(crate) fn bulk_table(&self) -> Checked<&HashMap<[u8; 32], BulkPlace>> {
        let loaded = self.second();
        if let Some(table) = loaded.bulk.get() {
            return Ok(table);
        }
        let Some(member) = self.reader().header().get("bulk") else {
            return Ok(loaded.bulk.get_or_init(HashMap::new));
        };
        let number = |name: &str| {
            member.get(name).and_then(Value::as_u64).ok_or_else(|| {
                Fault::decode(format!("the header's member bulk has no usable {name}"))
            })
        };
        let stored = self.span(number("offset")?, number("length")?)?;
        if self.checks() && u64::from(crc32fast::hash(&stored)) != number("crc32")? {
            return Err(Fault::decode("checksum mismatch in the table of large values"));
        }
        let json = self.decompress(&stored)?;
        let table = bulk::parse_table(&json, self.max_document())?;
        Ok(loaded.bulk.get_or_init(|| table))
    }

    fn span(&self, offset: u64, length: u64) -> Checked<Bytes> {
        self.reader()
            .read_data_span(offset, length)
            .map_err(|error| Fault::new(error.kind(), error.to_string()))
    }

    fn decompress(&self, stored: &[u8]) -> Checked<Vec<u8>> {
        let limits = iac_codec::Limits::default().with_max_decoded_bytes(self.max_document());
        self.metadata()
            .decode_bytes(stored, &limits)
            .map_err(|error| crate::dicom::pixels::of_codec(&error))
    }

    /// Where the functional groups of a row's instance lie.
    pub(crate) fn group_places(&self, row: u64) -> Result<Option<GroupPlaces>> {
        let delta = self.second_delta(row)?;
        GroupPlaces::parse(delta.iac.get("groups")).map_err(|fault| self.fault(row, fault))
    }

    /// The block with some functional groups.
    pub(crate) fn group_block(
        &self,
        places: &GroupPlaces,
        number: usize,
        charset: &Charset,
        budget: &Budget,
    ) -> Checked<Block> {
        let gone = || Fault::decode("a block of functional groups is missing");
        let (offset, length, crc32) = *places.blocks.get(number).ok_or_else(gone)?;
        let span = (offset, length, Some(i128::from(crc32)));
        if let Some((place, bytes, block)) = &self.recent().block
            && *place == span
            && u64::try_from(block.len()).ok() == Some(places.items_of(number))
        {
            budget.take(*bytes)?;
            return Ok(Arc::clone(block));
        }
        let stored = groups::check_sum(self.span(offset, length)?, crc32, self.checks())?;
        let json = self.decompress(&stored)?;
        let mut bytes = u64::try_from(json.len()).unwrap_or(u64::MAX);
        budget.take(bytes)?;
        let large = Cell::new(0_u64);
        let bulk = |name: &str| {
            let value = self.bulk_value(name, budget)?;
            let length = u64::try_from(value.len()).unwrap_or(u64::MAX);
            large.set(large.get().saturating_add(length));
            Ok(value)
        };
        let items = groups::parse_block(&json, charset, &bulk, self.max_document())?;
        bytes = bytes.saturating_add(large.get());
        let expected = places.items_of(number);
        if u64::try_from(items.len()).ok() != Some(expected) {
            return Err(Fault::decode(format!(
                "a block of functional groups has {} items where {expected} are expected",
                items.len()
            )));
        }
        let block = Arc::new(items);
        self.recent().block = Some((span, bytes, Arc::clone(&block)));
        Ok(block)
    }

    /// The functional groups of one frame; nothing when it has none.
    pub(crate) fn groups_of_row(&self, row: u64) -> Result<Option<DataSet>> {
        let frame = self.frame_number(row)?;
        let Some(places) = self.group_places(row)?.filter(|places| frame < places.items) else {
            return Ok(None);
        };
        let charset = charset_of(&self.attributes(row)?).map_err(|fault| self.fault(row, fault))?;
        let number = frame.checked_div(places.block).and_then(|it| usize::try_from(it).ok());
        let place = frame.checked_rem(places.block).and_then(|it| usize::try_from(it).ok());
        let block = self
            .group_block(&places, number.unwrap_or(usize::MAX), &charset, &self.budget())
            .map_err(|fault| self.fault(row, fault))?;
        Ok(place.and_then(|place| block.get(place)).cloned())
    }

    /// Bits of a frame that its payload does not hold, as they are stored.
    pub(crate) fn extra_span(&self, row: u64) -> Result<Option<(u64, u64, u32)>> {
        let Some([offset, length, crc32]) = &self.frame_columns()?.extra else {
            return Ok(None);
        };
        let number = |column: &IntColumn| column.get(row).and_then(|it| u64::try_from(it).ok());
        let (Some(offset), Some(length)) = (number(offset), number(length)) else {
            return Ok(None);
        };
        let crc32 = number(crc32).and_then(|sum| u32::try_from(sum).ok());
        let crc32 = crc32.ok_or_else(|| self.schema_row(row, "extra_crc32", "no usable number"))?;
        Ok(Some((offset, length, crc32)))
    }
}

/// The character set that the texts of an object have.
pub(crate) fn charset_of(attributes: &Attributes) -> Checked<Charset> {
    Ok(restore::charset_of(attributes.get(CHARACTER_SET))?.unwrap_or_default())
}

/// What an object's metadata leaves to other parts of its pack.
#[derive(Clone)]
pub(crate) struct Rest {
    pub(crate) reader: DicomPackReader,
}

impl Rest {
    pub(crate) fn budget(&self) -> Budget {
        self.reader.budget()
    }

    pub(crate) fn bulk(&self, name: &str, budget: &Budget) -> Checked<Bytes> {
        self.reader.bulk_value(name, budget)
    }

    /// Puts the functional groups of all frames in.
    pub(crate) fn add_groups(
        &self,
        attributes: &Attributes,
        data: &mut DataSet,
        budget: &Budget,
    ) -> Checked<()> {
        let Some(places) = GroupPlaces::parse(attributes.delta.iac.get("groups"))? else {
            return Ok(());
        };
        places.check_apart()?;
        let charset = charset_of(attributes)?;
        let mut items = Vec::new();
        for number in 0..places.blocks.len() {
            items.extend(
                self.reader.group_block(&places, number, &charset, budget)?.iter().cloned(),
            );
        }
        if data.get(PER_FRAME).is_some() {
            return Err(Fault::decode(format!("{} is there twice", tag_text(PER_FRAME))));
        }
        data.put(Element { tag: PER_FRAME, vr: VR::SQ, value: ElementValue::Items(items) });
        Ok(())
    }

    /// What belongs to no frame of the pixel data.
    pub(crate) fn tail(&self, attributes: &Attributes) -> Checked<Option<Bytes>> {
        match attributes.delta.iac.get("tail") {
            None => Ok(None),
            Some(name) => {
                let name = name.as_str();
                let name = name.ok_or_else(|| Fault::decode("its tail has no name"))?;
                self.bulk(name, &self.reader.budget()).map(Some)
            }
        }
    }
}

/// The element of an object's pixel data.
pub(crate) fn pixel_element(form: &FrameForm) -> Tag {
    match form.pixel_type() {
        crate::dicom::samples::PixelType::F32 => super::form::FLOAT_PIXELS,
        crate::dicom::samples::PixelType::F64 => super::form::DOUBLE_PIXELS,
        _ => crate::dicom::object::PIXEL_DATA,
    }
}
