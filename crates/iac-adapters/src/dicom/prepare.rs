//! One source object, made ready for its pack.

use std::sync::Arc;

use bytes::Bytes;
use dicom_core::{Tag, VR};
use iac_codec::{Codec, DecodeOptions, Limits};
use iac_format::ErrorKind;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use super::charset::Charset;
use super::deid::{DeidReport, Deidentifier};
use super::encode::{self, Encoded};
use super::fault::{Fault, Result};
use super::geometry::Place;
use super::inputs::{DicomInput, MEDIA_DIRECTORY};
use super::kept;
use super::number;
use super::object::{DataSet, Element, PIXEL_DATA};
use super::parse::{self, DicomFile};
use super::patient;
use super::pixels::{
    self, BITS_ALLOCATED, BITS_STORED, COLUMNS, HIGH_BIT, PHOTOMETRIC, PIXEL_REPRESENTATION, ROWS,
    SAMPLES_PER_PIXEL,
};
use super::schema2::prepare::{FrameSet, Preparing2};
use super::schema2::{self, SchemaChoice};

/// The member of `iac` that says where bits lie which the payload does not hold.
pub(crate) const BITS_MEMBER: &str = "bits";

pub(crate) const STUDY_UID: Tag = Tag(0x0020, 0x000D);
pub(crate) const SERIES_UID: Tag = Tag(0x0020, 0x000E);
pub(crate) const SOP_UID: Tag = Tag(0x0008, 0x0018);
pub(crate) const INSTANCE_NUMBER: Tag = Tag(0x0020, 0x0013);
const SERIES_DESCRIPTION: Tag = Tag(0x0008, 0x103E);

/// An image, encoded.
#[derive(Debug)]
pub(crate) struct EncodedImage {
    pub(crate) payload: Bytes,
    pub(crate) aside: Option<Aside>,
}

/// What a pack keeps of an object behind its payloads.
#[derive(Debug)]
pub(crate) struct Aside {
    /// The member of `iac` that says where.
    pub(crate) member: &'static str,
    /// Compressed.
    pub(crate) bytes: Vec<u8>,
}

/// An object on its way into a pack.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) study_uid: String,
    pub(crate) series_uid: String,
    pub(crate) sop_uid: String,
    pub(crate) patient: Option<String>,
    pub(crate) row: Row,
    pub(crate) place: Place,
    pub(crate) series_description: String,
    pub(crate) encoded: Encoded,
    pub(crate) iac: Map<String, Value>,
    pub(crate) image: Option<EncodedImage>,
    /// What schema 2 has instead of an image.
    pub(crate) frames: Option<FrameSet>,
    /// Of data set, and of what is kept besides samples: equal for the same object in two files.
    pub(crate) digest: [u8; 32],
    /// Why its pixel data is stored as it is.
    pub(crate) kept: Option<Fault>,
    /// What was done for the patient's sake, where that was asked for.
    pub(crate) deid: Option<DeidReport>,
}

/// Values of the instance table.
#[derive(Debug, Clone, Default)]
pub(crate) struct Row {
    pub(crate) rows: u32,
    pub(crate) columns: u32,
    pub(crate) has_pixels: bool,
    pub(crate) samples_per_pixel: u8,
    pub(crate) dtype: &'static str,
    pub(crate) pixel_representation: u8,
    pub(crate) bits_allocated: u8,
    pub(crate) bits_stored: u8,
    pub(crate) high_bit: u8,
    pub(crate) photometric: String,
    pub(crate) transfer_syntax: String,
}

/// How objects are made ready.
pub(crate) struct Preparing {
    /// Encodes images.
    pub(crate) images: iac_codec::Result<Codec>,
    pub(crate) metadata: Codec,
    pub(crate) verify: bool,
    /// Whether pixel data that cannot be used is stored as it is.
    pub(crate) keep: bool,
    pub(crate) limits: Limits,
    pub(crate) max_input_bytes: u64,
    pub(crate) deidentifier: Option<Arc<Deidentifier>>,
    pub(crate) second: Preparing2,
}

impl Preparing {
    pub(crate) fn prepare(&self, input: DicomInput) -> Result<Prepared> {
        let name = input.name();
        let large = match &input {
            DicomInput::File(path) if self.second.schema != SchemaChoice::One => {
                schema2::prepare::prepare_large(self, path, &name)
            }
            _ => None,
        };
        if let Some(prepared) = large {
            return prepared;
        }
        let bytes = input.load(self.max_input_bytes)?;
        let mut object = parse::parse(&bytes, self.max_input_bytes)?;
        let class = object.data.ascii(Tag(0x0008, 0x0016)).or_else(|| object.meta.ascii(Tag(2, 2)));
        if class.as_deref() == Some(MEDIA_DIRECTORY) {
            return Err(Fault::unsupported(
                "it is a media directory, which describes objects and is none",
            ));
        }
        // Before anything else looks at it: what follows knows the new object only.
        let deidentifier = self.deidentifier.as_deref();
        let deid = deidentifier.map(|it| it.apply(&mut object, &name)).transpose()?;
        let second = match self.second.schema {
            SchemaChoice::One => false,
            SchemaChoice::WhenNeeded => schema2::prepare::is_needed(&object),
            SchemaChoice::Two => true,
        };
        let mut kept = None;
        if second {
            let spare = self.may_keep().then(|| object.clone());
            let made = schema2::prepare::prepare_whole(self, object, || self.made_up_uid(&bytes));
            match (made, spare) {
                (Ok(mut prepared), _) => {
                    prepared.deid = deid;
                    return Ok(prepared);
                }
                (Err(fault), Some(spare)) if self.is_kept_for(&fault) => {
                    kept = Some(fault);
                    object = spare;
                }
                (Err(fault), _) => return Err(fault),
            }
        }
        // Old and incomplete files are data too: what they do not name is not made up for them,
        // except the one identifier that tells rows apart.
        let uid = |tag: Tag| object.data.ascii(tag).unwrap_or_default();
        let (study_uid, series_uid) = (uid(STUDY_UID), uid(SERIES_UID));
        let sop_uid = [object.data.ascii(SOP_UID), object.meta.ascii(Tag(2, 3))]
            .into_iter()
            .flatten()
            .find(|uid| !uid.is_empty())
            .unwrap_or_else(|| self.made_up_uid(&bytes));
        let instance_number = instance_number(&object.data)?;
        let mut iac = Map::new();
        let mut pixels = if kept.is_none() && object.data.get(PIXEL_DATA).is_some() {
            match pixels::import(&object.data, &object.transfer_syntax, &self.limits) {
                Ok(pixels) => Some(pixels),
                Err(fault) if self.may_keep() => {
                    kept = Some(fault);
                    None
                }
                Err(fault) => return Err(fault),
            }
        } else {
            None
        };
        if let (Some(pixels), true) = (&mut pixels, deidentifier.is_some()) {
            Deidentifier::clear_pixels(pixels)?;
        }
        if let Some(label) = pixels.as_ref().and_then(|pixels| pixels.label) {
            iac.insert(
                "source_photometric".to_owned(),
                object.data.ascii(PHOTOMETRIC).unwrap_or_default().into(),
            );
            object.data.put(Element::new(PHOTOMETRIC, VR::CS, padded(label)));
        }
        let dtype = pixels.as_ref().map_or("", |pixels| pixels.form.dtype());
        let row = row(&object, dtype)?;
        let mut place = Place::of(&object.data);
        place.instance_number = instance_number;
        let encoded = encode::encode(&object);
        if !encoded.text.is_empty() {
            iac.insert("text".to_owned(), encoded.text.clone().into());
        }
        let mut hasher = Sha256::new();
        for (tag, json) in &encoded.dataset {
            hasher.update(tag);
            hasher.update(json);
        }
        for record in
            encoded.errors.iter().filter(|record| record.get("scope") == Some(&"dataset".into()))
        {
            hasher.update(record.to_string());
        }
        for kept in &encoded.text {
            hasher.update(kept.to_string());
        }
        let image = match pixels {
            None if kept.is_some() => self.keep(&object.data, &mut iac, &mut hasher)?,
            None => None,
            Some(pixels) => {
                hasher.update(pixels.form.dtype());
                hasher.update(pixels.aside.as_deref().unwrap_or_default());
                Some(self.encode(pixels)?)
            }
        };
        let description = description(&object.data);
        Ok(Prepared {
            patient: patient::patient_id(&object.data),
            study_uid,
            series_uid,
            sop_uid,
            row,
            place,
            series_description: description,
            encoded,
            iac,
            image,
            frames: None,
            digest: hasher.finalize().into(),
            kept,
            deid,
        })
    }

    /// Whether pixel data may be stored as it is: bytes that nobody understands may hold whatever
    /// identifies a patient.
    pub(crate) fn may_keep(&self) -> bool {
        self.keep && self.deidentifier.is_none()
    }

    /// Whether that helps against a fault of schema 2, where frames are decoded, encoded and put aside
    /// in one go: not when the disk or the encoder fails.
    pub(crate) fn is_kept_for(&self, fault: &Fault) -> bool {
        let encodes =
            || fault.kind != ErrorKind::MissingFeature || self.second.encoder.check().is_ok();
        self.may_keep() && fault.kind != ErrorKind::Io && encodes()
    }

    /// A UID for an object without one, of the bytes of its file.
    fn made_up_uid(&self, bytes: &[u8]) -> String {
        self.named(derived_uid(bytes))
    }

    /// A UID that was made of a file's hash, as the pack has it.
    pub(crate) fn named(&self, made_up: String) -> String {
        match self.deidentifier.as_deref() {
            Some(deidentifier) => deidentifier.uid_of_nameless(&made_up),
            None => made_up,
        }
    }

    /// Whether two payloads hold the same samples. Equal ones do; streams that came from elsewhere
    /// are decoded.
    pub(crate) fn is_same_image(&self, one: &[u8], other: &[u8]) -> bool {
        if one == other || one.is_empty() || other.is_empty() {
            return one == other;
        }
        let Ok(codec) = &self.images else { return false };
        let options = DecodeOptions::from(self.limits);
        let decode = |payload: &[u8]| codec.decode_image(payload, &options);
        matches!((decode(one), decode(other)), (Ok(one), Ok(other)) if one == other)
    }

    /// Pixel data as the file has it.
    fn keep(
        &self,
        data: &DataSet,
        iac: &mut Map<String, Value>,
        hasher: &mut Sha256,
    ) -> Result<Option<EncodedImage>> {
        let Some(element) = data.get(PIXEL_DATA) else {
            return Ok(None);
        };
        let (bytes, encapsulated) = kept::pack(element)?;
        hasher.update(&bytes);
        let pixels = json!({"vr": element.vr.to_string(), "encapsulated": encapsulated});
        iac.insert(kept::MEMBER.to_owned(), pixels);
        let bytes = self.metadata.encode_bytes(&bytes).map_err(|error| pixels::of_codec(&error))?;
        let aside = Some(Aside { member: kept::MEMBER, bytes });
        Ok(Some(EncodedImage { payload: Bytes::new(), aside }))
    }

    fn encode(&self, pixels: pixels::Imported) -> Result<EncodedImage> {
        let _permit = self.second.permits.take();
        let codec = self.images.as_ref().map_err(pixels::of_codec)?;
        let payload = match pixels.payload {
            Some(payload) => payload,
            None => {
                let payload = codec.encode_image(&pixels.image.as_view());
                let mut payload = payload.map_err(|error| pixels::of_codec(&error))?;
                // It may wait in memory until the end.
                payload.shrink_to_fit();
                if !payload.starts_with(pixels::JXL_CONTAINER) {
                    return Err(
                        Fault::decode("the encoder made no JPEG XL container").at(PIXEL_DATA)
                    );
                }
                if self.verify {
                    let options = DecodeOptions::from(self.limits);
                    let back = codec.decode_image(&payload, &options);
                    if back.map_err(|error| pixels::of_codec(&error))? != pixels.image {
                        return Err(Fault::decode("the encoded image differs from its source")
                            .at(PIXEL_DATA));
                    }
                }
                payload.into()
            }
        };
        if u32::try_from(payload.len()).is_err() {
            return Err(
                Fault::new(ErrorKind::Limit, "its payload has more than 4 GiB").at(PIXEL_DATA)
            );
        }
        let aside = pixels.aside.map(|bits| self.metadata.encode_bytes(&bits)).transpose();
        let aside = aside.map_err(|error| pixels::of_codec(&error))?;
        let aside = aside.map(|bytes| Aside { member: BITS_MEMBER, bytes });
        Ok(EncodedImage { payload, aside })
    }
}

/// A UID made from content, for objects that have none (PS3.5 annex B.2).
pub(crate) fn derived_uid(bytes: &[u8]) -> String {
    uid_of_digest(Sha256::digest(bytes).into())
}

pub(crate) fn uid_of_digest(digest: [u8; 32]) -> String {
    let half = digest.first_chunk::<16>().copied().unwrap_or_default();
    format!("2.25.{}", u128::from_be_bytes(half))
}

pub(crate) fn padded(label: &str) -> Vec<u8> {
    let mut bytes = label.as_bytes().to_vec();
    if bytes.len() % 2 == 1 {
        bytes.push(b' ');
    }
    bytes
}

pub(crate) fn instance_number(data: &DataSet) -> Result<i32> {
    let text = data.ascii(INSTANCE_NUMBER).unwrap_or_default();
    match number::integer(text.split('\\').next().unwrap_or_default()) {
        None => Ok(-1),
        Some(number) => i32::try_from(number)
            .map_err(|_| Fault::schema(INSTANCE_NUMBER, "does not fit into 32 bits")),
    }
}

pub(crate) fn description(data: &DataSet) -> String {
    let charset = Charset::of(data).unwrap_or_default();
    let bytes = data.bytes(SERIES_DESCRIPTION);
    bytes.map_or_else(String::new, |bytes| super::text::parts(VR::LO, bytes, &charset).join("\\"))
}

pub(crate) fn row(object: &DicomFile, dtype: &'static str) -> Result<Row> {
    let data = &object.data;
    let small = |tag: Tag, absent: u8| match data.u16(tag) {
        None => Ok(absent),
        Some(number) => u8::try_from(number)
            .map_err(|_| Fault::schema(tag, format!("is {number} and does not fit into 8 bits"))),
    };
    // What a file calls its own syntax goes into a table: only what can be a UID.
    if !object.transfer_syntax.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return Err(Fault::schema(Tag(2, 0x10), "is no UID"));
    }
    Ok(Row {
        rows: data.u16(ROWS).unwrap_or(0).into(),
        columns: data.u16(COLUMNS).unwrap_or(0).into(),
        has_pixels: !dtype.is_empty(),
        samples_per_pixel: small(SAMPLES_PER_PIXEL, 1)?,
        dtype,
        pixel_representation: small(PIXEL_REPRESENTATION, 0)?,
        bits_allocated: small(BITS_ALLOCATED, 0)?,
        bits_stored: small(BITS_STORED, 0)?,
        high_bit: small(HIGH_BIT, 0)?,
        photometric: data.ascii(PHOTOMETRIC).unwrap_or_default(),
        transfer_syntax: object.transfer_syntax.clone(),
    })
}
