//! One source object, made ready frame by frame.

use std::fs::File;
use std::io::Read as _;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use dicom_core::{Tag, VR};
use iac_format::ErrorKind;
use serde_json::Map;
use sha2::{Digest as _, Sha256};

use super::SchemaChoice;
use super::bulk::BulkWriter;
use super::facts::{FactsOf, FrameFacts};
use super::form::{DOUBLE_PIXELS, FLOAT_PIXELS, FrameForm, Kind};
use super::groups::{self, PER_FRAME, StoredGroups};
use super::payload::{self, FrameCodec, FrameEncoder, LossyOriginals};
use super::scan;
use super::source::{self, FrameCounts, Frames, PixelSource};
use super::spool::{Permits, Place, SharedSpool};
use crate::dicom::charset::Charset;
use crate::dicom::deid::Deidentifier;
use crate::dicom::encode;
use crate::dicom::fault::{Fault, Result};
use crate::dicom::geometry;
use crate::dicom::object::{DataSet, Element, PIXEL_DATA};
use crate::dicom::ordered::for_each_ordered;
use crate::dicom::parse::DicomFile;
use crate::dicom::patient;
use crate::dicom::pixels::{self, Coded, PHOTOMETRIC};
use crate::dicom::prepare::{
    Prepared, Preparing, SERIES_UID, SOP_UID, STUDY_UID, description, instance_number, padded, row,
    uid_of_digest,
};
use crate::dicom::syntax::{self, PixelEncoding};

/// Classes whose objects tell of each frame in functional groups.
const WITH_GROUPS: [&str; 13] = [
    "1.2.840.10008.5.1.4.1.1.2.1",
    "1.2.840.10008.5.1.4.1.1.2.2",
    "1.2.840.10008.5.1.4.1.1.4.1",
    "1.2.840.10008.5.1.4.1.1.4.3",
    "1.2.840.10008.5.1.4.1.1.4.4",
    "1.2.840.10008.5.1.4.1.1.12.1.1",
    "1.2.840.10008.5.1.4.1.1.12.2.1",
    "1.2.840.10008.5.1.4.1.1.13.1.1",
    "1.2.840.10008.5.1.4.1.1.13.1.3",
    "1.2.840.10008.5.1.4.1.1.30",
    "1.2.840.10008.5.1.4.1.1.66.4",
    "1.2.840.10008.5.1.4.1.1.128.1",
    "1.2.840.10008.5.1.4.1.1.130",
];
const DIMENSION_ORGANIZATION: Tag = Tag(0x0020, 0x9311);

/// One frame in the spool.
#[derive(Debug, Clone)]
pub(crate) struct StoredFrame {
    pub(crate) codec: FrameCodec,
    pub(crate) payload: Place,
    /// Bits that the payload does not hold: place and checksum.
    pub(crate) aside: Option<(Place, u32)>,
    pub(crate) facts: FrameFacts,
}

/// The frames of one object, and what else of it lies in the spool.
#[derive(Debug, Default)]
pub(crate) struct FrameSet {
    pub(crate) frames: Vec<StoredFrame>,
    pub(crate) groups: StoredGroups,
    /// Large values that its metadata names, in the order of use.
    pub(crate) bulk: Vec<[u8; 32]>,
    /// What is reported of its number of frames.
    pub(crate) counts: Option<FrameCounts>,
    /// Items of functional groups where there should be another number.
    pub(crate) group_items: Option<u64>,
    /// The photometric interpretation of streams that are kept.
    pub(crate) stream_photometric: String,
}

/// What schema 2 needs beside [`Preparing`].
pub(crate) struct Preparing2 {
    pub(crate) schema: SchemaChoice,
    pub(crate) encoder: FrameEncoder,
    pub(crate) originals: LossyOriginals,
    pub(crate) spool: SharedSpool,
    pub(crate) permits: Permits,
    pub(crate) workers: NonZeroUsize,
    /// Objects of many frames come one after the other: each keeps all threads busy.
    pub(crate) one_by_one: Mutex<()>,
}

/// Whether an object cannot be stored in schema 1. Objects that are wrong in either are left to
/// schema 1, which says what is wrong.
pub(crate) fn is_needed(object: &DicomFile) -> bool {
    let data = &object.data;
    if data.get(FLOAT_PIXELS).is_some() || data.get(DOUBLE_PIXELS).is_some() {
        return true;
    }
    if data.get(PIXEL_DATA).is_none() {
        return false;
    }
    if matches!(data.u16(pixels::BITS_ALLOCATED), Some(1 | 32)) {
        return true;
    }
    let mut copy = data.clone();
    let Ok(Some(source)) = PixelSource::take(&mut copy) else {
        return false;
    };
    let pieces = source.pieces();
    let counts = FrameForm::of(data, PIXEL_DATA)
        .and_then(|form| Frames::find(source, &form, data))
        .map(|frames| frames.counts);
    match counts {
        Ok(counts) => counts.found > 1 || counts.stated.is_some_and(|stated| stated != 1),
        Err(_) => {
            let frames = data.ascii(pixels::FRAMES).unwrap_or_default();
            let stated = crate::dicom::number::integer(&frames);
            !frames.is_empty() && (stated.is_none_or(|it| it != 1)) && pieces > 0
        }
    }
}

/// Finds out whether a large file is one for this schema, and makes it ready then.
pub(crate) fn prepare_large(
    preparing: &Preparing,
    path: &Path,
    name: &str,
) -> Option<Result<Prepared>> {
    let (mut object, source) = scan::split(path, preparing.max_input_bytes)?;
    let element = source.element;
    let mut deid = None;
    if let Some(deidentifier) = preparing.deidentifier.as_deref() {
        // An empty element stands for the one that stays in the file: rules ask whether there is one.
        object.data.put(Element::new(element, VR::OW, Vec::new()));
        match deidentifier.apply(&mut object, name) {
            Ok(report) => deid = Some(report),
            Err(fault) => return Some(Err(fault)),
        }
        object.data.remove(element);
    }
    let form = FrameForm::of(&object.data, element).ok()?;
    let frames = Frames::find(source, &form, &object.data).ok()?;
    let counts = frames.counts;
    let wanted = preparing.second.schema == SchemaChoice::Two
        || form.kind != Kind::Words
        || counts.found > 1
        || counts.stated.is_some_and(|stated| stated != 1);
    if !wanted {
        return None;
    }
    let uid = match object.data.ascii(SOP_UID).filter(|uid| !uid.is_empty()) {
        Some(uid) => uid,
        None => match object.meta.ascii(Tag(2, 3)).filter(|uid| !uid.is_empty()) {
            Some(uid) => uid,
            None => preparing.named(hashed_uid(path)?),
        },
    };
    match prepare(preparing, object, Some(frames.source), || uid) {
        // Read whole, it is kept as it is.
        Err(fault) if preparing.is_kept_for(&fault) => None,
        prepared => Some(prepared.map(|prepared| Prepared { deid, ..prepared })),
    }
}

/// Makes an object ready that was read whole.
pub(crate) fn prepare_whole(
    preparing: &Preparing,
    mut object: DicomFile,
    fallback_uid: impl FnOnce() -> String,
) -> Result<Prepared> {
    let source = PixelSource::take(&mut object.data)?;
    prepare(preparing, object, source, fallback_uid)
}

/// A UID made of the hash of a whole file.
fn hashed_uid(path: &Path) -> Option<String> {
    let mut file = File::open(path).ok()?;
    let mut hasher = Sha256::new();
    let mut chunk = vec![0; 1 << 20];
    loop {
        let read = file.read(&mut chunk).ok()?;
        if read == 0 {
            break;
        }
        hasher.update(chunk.get(..read)?);
    }
    Some(uid_of_digest(hasher.finalize().into()))
}

/// Makes an object ready whose pixel data is at hand, or has none.
fn prepare(
    preparing: &Preparing,
    mut object: DicomFile,
    source: Option<PixelSource>,
    fallback_uid: impl FnOnce() -> String,
) -> Result<Prepared> {
    let more = &preparing.second;
    let uid = |object: &DicomFile, tag: Tag| object.data.ascii(tag).unwrap_or_default();
    let (study_uid, series_uid) = (uid(&object, STUDY_UID), uid(&object, SERIES_UID));
    let sop_uid = [object.data.ascii(SOP_UID), object.meta.ascii(Tag(2, 3))]
        .into_iter()
        .flatten()
        .find(|uid| !uid.is_empty())
        .unwrap_or_else(fallback_uid);
    let instance_number = instance_number(&object.data)?;
    let mut iac = Map::new();
    let mut bulk = BulkWriter { spool: &more.spool, codec: &preparing.metadata, used: Vec::new() };
    let mut set = FrameSet::default();
    let mut hasher = Sha256::new();
    let mut dtype = "";
    let has_pixels = source.is_some();
    if let Some(mut source) = source {
        let element = source.element;
        let form = FrameForm::of(&object.data, element)?;
        let big_endian = object.transfer_syntax == syntax::BIG_ENDIAN;
        if big_endian && form.kind == Kind::Longs && source.native && source.of_words {
            source::turn_halves(&mut source);
        }
        let native = source.native;
        let encoding = encoding_of(&object.transfer_syntax, native, element)?;
        let frames = Frames::find(source, &form, &object.data)?;
        dtype = form.pixel_type().name();
        hasher.update(dtype);
        let job = FrameJob { preparing, form: &form, encoding, frames: &frames, object: &object };
        let label = job.run(&mut set, &mut hasher)?;
        set.stream_photometric = form.pixel.photometric.clone();
        if let Some(label) = label {
            iac.insert("source_photometric".to_owned(), form.pixel.photometric.clone().into());
            object.data.put(Element::new(PHOTOMETRIC, VR::CS, padded(label)));
        }
        set.counts = frames.counts.odd.then_some(frames.counts);
        set.group_items = group_items(&object.data, frames.counts.found);
        // Bytes that are no samples may identify a patient.
        let tail = if preparing.deidentifier.is_none() { frames.tail()? } else { None };
        if let Some(tail) = tail {
            iac.insert("tail".to_owned(), bulk.put(&tail)?.into());
        }
        source::drop_offset_tables(&mut object.data);
    }
    let mut row = row(&object, dtype)?;
    row.has_pixels = has_pixels;
    let mut place = geometry::Place::of(&object.data);
    place.instance_number = instance_number;
    let patient = patient::patient_id(&object.data);
    let series_description = description(&object.data);
    let charset = Charset::of(&object.data).unwrap_or_default();
    // One that is empty or damaged is an element like any other.
    let has_groups = object.data.get(PER_FRAME).and_then(Element::items);
    let has_groups = has_groups.is_some_and(|items| !items.is_empty());
    let groups = if has_groups { object.data.remove(PER_FRAME) } else { None };
    let mut encoded = encode::encode(&object);
    if let Some(items) = groups.as_ref().and_then(Element::items) {
        set.groups = groups::store(
            items,
            &charset,
            &preparing.metadata,
            &more.spool,
            &mut bulk,
            &mut encoded.malformed,
        )?;
        for (_, sum) in &set.groups.blocks {
            hasher.update(sum.to_le_bytes());
        }
    }
    for (_, json) in &mut encoded.dataset {
        bulk.extract_text(json)?;
    }
    if !encoded.text.is_empty() {
        iac.insert("text".to_owned(), encoded.text.clone().into());
    }
    for (tag, json) in &encoded.dataset {
        hasher.update(tag);
        hasher.update(json);
    }
    for record in encoded.errors.iter().chain(&encoded.text) {
        if record.get("scope").is_none_or(|scope| scope == "dataset") {
            hasher.update(record.to_string());
        }
    }
    set.bulk = bulk.used;
    Ok(Prepared {
        patient,
        study_uid,
        series_uid,
        sop_uid,
        row,
        place,
        series_description,
        encoded,
        iac,
        image: None,
        frames: Some(set),
        digest: hasher.finalize().into(),
        kept: None,
        deid: None,
    })
}

/// How the samples of an object are encoded.
fn encoding_of(uid: &str, native: bool, element: Tag) -> Result<PixelEncoding> {
    let encoding = syntax::pixel_encoding(uid).ok_or_else(|| {
        Fault::unsupported(format!(
            "pixel data of the transfer syntax {} is not supported",
            crate::dicom::build::shown_uid(uid)
        ))
    })?;
    match (encoding, native) {
        (PixelEncoding::Native, true) => Ok(encoding),
        (PixelEncoding::Native, false) => {
            Err(Fault::schema(element, "is encapsulated, but its transfer syntax is a native one"))
        }
        // Floating-point samples are native whatever the syntax says of others.
        (_, true) if source::is_float(element) => Ok(PixelEncoding::Native),
        (_, true) => Err(Fault::schema(element, "is not encapsulated, but its transfer syntax is")),
        (_, false) => Ok(encoding),
    }
}

/// The number of functional groups, where it is not that of the frames.
fn group_items(data: &DataSet, frames: u64) -> Option<u64> {
    let items = data.get(PER_FRAME).and_then(Element::items).map_or(0, <[DataSet]>::len);
    let items = u64::try_from(items).unwrap_or(u64::MAX);
    if items == 0 {
        let class = data.ascii(Tag(0x0008, 0x0016)).unwrap_or_default();
        let implied = data.ascii(DIMENSION_ORGANIZATION).as_deref() == Some("TILED_FULL");
        return (WITH_GROUPS.contains(&class.as_str()) && !implied).then_some(0);
    }
    (items != frames).then_some(items)
}

/// The frames of one object on their way into the spool.
struct FrameJob<'a> {
    preparing: &'a Preparing,
    form: &'a FrameForm,
    encoding: PixelEncoding,
    frames: &'a Frames,
    object: &'a DicomFile,
}

/// A frame that is done.
struct Done {
    frame: StoredFrame,
    label: Option<&'static str>,
    hash: [u8; 32],
}

impl FrameJob<'_> {
    /// Does all frames; gives the new photometric interpretation, where it changes.
    fn run(&self, set: &mut FrameSet, hasher: &mut Sha256) -> Result<Option<&'static str>> {
        let count = self.frames.counts.found;
        let more = &self.preparing.second;
        let several = count > 1;
        let _turn = several.then(|| more.one_by_one.lock().unwrap_or_else(PoisonError::into_inner));
        let facts = FactsOf::new(&self.object.data);
        let items = self.object.data.get(PER_FRAME).and_then(Element::items).unwrap_or_default();
        let work = |frame: u64| -> Result<Done> {
            let _permit = more.permits.take();
            let position = usize::try_from(frame).unwrap_or(usize::MAX);
            let facts = facts.of(position, items.get(position));
            self.one(frame, facts)
        };
        let mut label = None;
        let mut take = |done: Result<Done>| -> Result<()> {
            let done = done?;
            hasher.update(done.hash);
            label = label.or(done.label);
            set.frames.push(done.frame);
            Ok(())
        };
        if several {
            let threads = more.workers.get().min(usize::try_from(count).unwrap_or(usize::MAX));
            for_each_ordered(0..count, threads, work, take)?;
        } else {
            for frame in 0..count {
                take(work(frame))?;
            }
        }
        Ok(label)
    }

    fn one(&self, frame: u64, facts: FrameFacts) -> Result<Done> {
        let more = &self.preparing.second;
        let numbered = |mut fault: Fault| {
            if self.frames.counts.found > 1 {
                fault.reason = format!("frame {frame}: {}", fault.reason);
            }
            fault
        };
        let coded = self.frames.read(frame).map_err(numbered)?;
        let stream = match &coded {
            Coded::Stream(stream) => Some(stream.clone()),
            Coded::Native(_) => None,
        };
        let limits = &self.preparing.limits;
        let mut imported = self.form.import(self.encoding, coded, limits).map_err(numbered)?;
        if self.preparing.deidentifier.is_some() {
            Deidentifier::clear_frame(self.form, &mut imported).map_err(numbered)?;
        }
        let mut hash = Sha256::new();
        hash.update(imported.samples.to_le_bytes());
        hash.update(imported.aside.as_deref().unwrap_or_default());
        let kept = stream.as_deref().and_then(|stream| self.kept(stream));
        let (codec, payload) = match kept {
            // Bits that do not belong to samples are in the stream as well.
            Some(kept) => kept,
            None => more.encoder.encode(self.form, &imported.samples).map_err(numbered)?,
        };
        if u32::try_from(payload.len()).is_err() {
            return Err(numbered(
                Fault::new(ErrorKind::Limit, "its payload has more than 4 GiB").at(PIXEL_DATA),
            ));
        }
        let payload = more.spool.append(&payload)?;
        let aside = match imported.aside {
            Some(bits) if codec != FrameCodec::Source && codec != FrameCodec::JxlJpeg => {
                let bits = self.preparing.metadata.encode_bytes(&bits);
                let bits = bits.map_err(|error| pixels::of_codec(&error))?;
                Some((more.spool.append(&bits)?, crc32fast::hash(&bits)))
            }
            _ => None,
        };
        Ok(Done {
            frame: StoredFrame { codec, payload, aside, facts },
            label: imported.label,
            hash: hash.finalize().into(),
        })
    }

    /// The stream of a frame that stays as it is, or a JPEG file inside JPEG XL.
    fn kept(&self, stream: &[u8]) -> Option<(FrameCodec, Vec<u8>)> {
        // Streams of a source may carry metadata of their own.
        if self.preparing.deidentifier.is_some() {
            return None;
        }
        let more = &self.preparing.second;
        let uid = self.object.transfer_syntax.as_str();
        let lossy = syntax::is_lossy(uid);
        if uid == syntax::JXL_LOSSLESS && more.encoder.codec == payload::PayloadCodec::JpegXl {
            return Some((FrameCodec::Source, stream.to_vec()));
        }
        match more.originals {
            LossyOriginals::Decode => None,
            _ if !lossy || !self.form.fits_image_codecs() => None,
            LossyOriginals::Transcode
                if matches!(uid, syntax::JPEG_BASELINE | syntax::JPEG_EXTENDED) =>
            {
                let limits = self.preparing.limits;
                // Fragments of odd length are padded, which is no part of the file.
                let file = payload::transcoded(stream, limits)
                    .or_else(|| payload::transcoded(stream.strip_suffix(&[0])?, limits));
                Some(match file {
                    Some(stream) => (FrameCodec::JxlJpeg, stream),
                    None => (FrameCodec::Source, stream.to_vec()),
                })
            }
            _ => Some((FrameCodec::Source, stream.to_vec())),
        }
    }
}
