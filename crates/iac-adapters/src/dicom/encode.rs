//! Metadata documents from data sets: the JSON forms of elements, and records of what they lose.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use dicom_core::{Tag, VR};
use serde_json::{Map, Value, json};

use super::charset::Charset;
use super::number;
use super::object::{DataSet, Element, ElementValue, PIXEL_DATA, tag_text};
use super::parse::{DicomFile, LUT_DATA};
use super::text;

pub(crate) const CHARACTER_SET: Tag = Tag(0x0008, 0x0005);

/// What stands in the error records of elements that were left out.
pub(crate) const INVALID_NUMBER: &str = "invalid_numeric_value";
pub(crate) const INVALID_LENGTH: &str = "invalid_value_length";
pub(crate) const INVALID_ELEMENT: &str = "invalid_element_value";
/// What stands in the records of elements whose spelling JSON would lose.
pub(crate) const LEXICAL_FORM: &str = "lexical_form";

/// An element that could not be interpreted.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Malformed {
    /// Tags and item numbers that lead to it: `00081032/0/00080100`.
    pub path: String,
    /// What is wrong with it, as in the header.
    pub code: &'static str,
}

/// The metadata of one object, in the form that packs store.
#[derive(Debug, Clone, Default)]
pub(crate) struct Encoded {
    /// Tag and JSON of each element, ascending.
    pub(crate) dataset: Vec<(String, String)>,
    pub(crate) file_meta: Vec<(String, String)>,
    /// Base64.
    pub(crate) preamble: Option<String>,
    pub(crate) errors: Vec<Value>,
    /// Texts that have no place elsewhere.
    pub(crate) text: Vec<Value>,
    pub(crate) malformed: Vec<Malformed>,
}

/// Turns an object into its documents. The pixel data is left to others.
pub(crate) fn encode(object: &DicomFile) -> Encoded {
    let mut encoded = Encoded {
        preamble: object.preamble.as_ref().map(|bytes| BASE64.encode(bytes)),
        ..Encoded::default()
    };
    let mut encoder = Encoder { scope: "dataset", path: Vec::new(), encoded: &mut encoded };
    let dataset = encoder.members(&object.data, &Charset::default());
    encoder.scope = "file_meta";
    let file_meta = encoder.members(&object.meta, &Charset::default());
    encoded.dataset = dataset;
    encoded.file_meta = file_meta;
    encoded
}

/// Items of a sequence by themselves: their members, and what JSON would lose of them.
#[derive(Debug, Default)]
pub(crate) struct EncodedItems {
    pub(crate) items: Vec<Value>,
    pub(crate) errors: Vec<Value>,
    pub(crate) text: Vec<Value>,
    pub(crate) malformed: Vec<Malformed>,
}

/// Turns items of a sequence of the data set into JSON; `first` is the number of the first one.
pub(crate) fn encode_items(
    tag: Tag,
    first: usize,
    items: &[DataSet],
    charset: &Charset,
) -> EncodedItems {
    let mut encoded = Encoded::default();
    let mut encoder = Encoder { scope: "dataset", path: Vec::new(), encoded: &mut encoded };
    encoder.path.push(tag_text(tag).into());
    let mut values = Vec::with_capacity(items.len());
    for (position, item) in items.iter().enumerate() {
        encoder.path.push(first.saturating_add(position).into());
        values.push(encoder.item(item, charset));
        encoder.path.pop();
    }
    let Encoded { errors, text, malformed, .. } = encoded;
    EncodedItems { items: values, errors, text, malformed }
}

struct Encoder<'a> {
    scope: &'static str,
    path: Vec<Value>,
    encoded: &'a mut Encoded,
}

/// How an element's bytes fail to be a value.
enum Bad {
    Number,
    Length,
    Element,
}

impl Encoder<'_> {
    fn members(&mut self, data: &DataSet, outer: &Charset) -> Vec<(String, String)> {
        let charset = self.charset(data, outer);
        let mut members = Vec::with_capacity(data.elements().len());
        for element in data.elements() {
            if element.tag == PIXEL_DATA && self.path.is_empty() {
                continue;
            }
            let tag = tag_text(element.tag);
            self.path.push(tag.clone().into());
            if let Some(value) = self.element(element, &charset) {
                members.push((tag, value.to_string()));
            }
            self.path.pop();
        }
        members
    }

    fn charset(&self, data: &DataSet, outer: &Charset) -> Charset {
        // Texts of the file meta are always in the default repertoire.
        if self.scope == "file_meta" {
            return Charset::default();
        }
        Charset::of(data).unwrap_or_else(|| outer.clone())
    }

    fn item(&mut self, data: &DataSet, outer: &Charset) -> Value {
        let charset = self.charset(data, outer);
        let mut members = Map::new();
        for element in data.elements() {
            let tag = tag_text(element.tag);
            self.path.push(tag.clone().into());
            if let Some(value) = self.element(element, &charset) {
                members.insert(tag, value);
            }
            self.path.pop();
        }
        Value::Object(members)
    }

    fn element(&mut self, element: &Element, charset: &Charset) -> Option<Value> {
        let vr = element.vr.to_string();
        match &element.value {
            ElementValue::Items(items) if items.is_empty() => Some(json!({"vr": vr})),
            ElementValue::Items(items) => {
                let mut values = Vec::with_capacity(items.len());
                for (position, item) in items.iter().enumerate() {
                    self.path.push(position.into());
                    values.push(self.item(item, charset));
                    self.path.pop();
                }
                Some(json!({"Value": values, "vr": vr}))
            }
            ElementValue::Bytes(bytes) if bytes.is_empty() => Some(json!({"vr": vr})),
            ElementValue::Bytes(bytes) => match self.value(element, bytes, charset) {
                Ok(value) => Some(value),
                Err(bad) => {
                    self.malformed(element, bytes, &bad);
                    None
                }
            },
            ElementValue::Fragments(_) => None,
        }
    }

    fn value(&mut self, element: &Element, bytes: &[u8], charset: &Charset) -> Result<Value, Bad> {
        let vr = element.vr;
        let name = vr.to_string();
        let values = match vr {
            VR::OB | VR::OD | VR::OF | VR::OL | VR::OV | VR::OW | VR::UN => {
                if element.tag == LUT_DATA && vr == VR::UN {
                    return Err(Bad::Element);
                }
                return Ok(json!({"InlineBinary": BASE64.encode(bytes), "vr": name}));
            }
            VR::SQ => return Err(Bad::Element),
            VR::DS | VR::IS => return self.numbers(vr, bytes),
            VR::US => numbers(bytes, |two| u16::from_le_bytes(two).into())?,
            VR::SS => numbers(bytes, |two| i16::from_le_bytes(two).into())?,
            VR::UL => numbers(bytes, |four| u32::from_le_bytes(four).into())?,
            VR::SL => numbers(bytes, |four| i32::from_le_bytes(four).into())?,
            VR::UV => numbers(bytes, |eight| u64::from_le_bytes(eight).into())?,
            VR::SV => numbers(bytes, |eight| i64::from_le_bytes(eight).into())?,
            VR::FL => {
                if odd_nan::<4>(
                    bytes,
                    |four| f32::from_le_bytes(four).is_nan(),
                    f32::NAN.to_le_bytes(),
                ) {
                    self.keep_aside(bytes);
                }
                numbers(bytes, |four| float(f32::from_le_bytes(four).into()))?
            }
            VR::FD => {
                if odd_nan::<8>(
                    bytes,
                    |eight| f64::from_le_bytes(eight).is_nan(),
                    f64::NAN.to_le_bytes(),
                ) {
                    self.keep_aside(bytes);
                }
                numbers(bytes, |eight| float(f64::from_le_bytes(eight)))?
            }
            VR::AT => numbers(bytes, |[a, b, c, d]: [u8; 4]| {
                let tag = Tag(u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d]));
                tag_text(tag).into()
            })?,
            _ => return Ok(self.text(vr, bytes, charset)),
        };
        Ok(json!({"Value": values, "vr": name}))
    }

    fn text(&mut self, vr: VR, bytes: &[u8], charset: &Charset) -> Value {
        let mut parts = text::parts(vr, bytes, charset);
        let mut values: Vec<Value> = Vec::with_capacity(parts.len());
        for part in &mut parts {
            if vr == VR::PN {
                let (value, spelled) = name(part);
                values.push(value);
                *part = spelled;
            } else {
                values.push(part.as_str().into());
            }
        }
        let canonical = text::join(vr, &parts, charset);
        if !canonical.is_some_and(|canonical| text::same_but_padding(vr, bytes, &canonical)) {
            if matches!(vr, VR::PN | VR::DA | VR::DT | VR::TM | VR::UI) {
                self.keep_aside(bytes);
            } else {
                self.record(LEXICAL_FORM, "LexicalForm", vr, vr, bytes, None);
            }
        }
        if values.is_empty() {
            return json!({"vr": vr.to_string()});
        }
        json!({"Value": values, "vr": vr.to_string()})
    }

    fn numbers(&mut self, vr: VR, bytes: &[u8]) -> Result<Value, Bad> {
        if !bytes.is_ascii() {
            return Err(Bad::Number);
        }
        let whole = str::from_utf8(bytes).map_err(|_| Bad::Number)?;
        let trimmed = whole.trim_matches([' ', '\0']);
        let mut values: Vec<Value> = Vec::new();
        let mut spelled = String::new();
        if !trimmed.is_empty() {
            for (position, part) in trimmed.split('\\').enumerate() {
                if position > 0 {
                    spelled.push('\\');
                }
                if vr == VR::IS {
                    let number = number::integer(part).ok_or(Bad::Number)?;
                    spelled.push_str(&number.to_string());
                    values.push(number.into());
                } else {
                    let number = number::decimal(part).ok_or(Bad::Number)?;
                    spelled.push_str(&number::spell(number));
                    values.push(float(number));
                }
            }
        }
        if !text::same_but_padding(vr, bytes, spelled.as_bytes()) {
            self.record(LEXICAL_FORM, "LexicalForm", vr, vr, bytes, Some(whole));
        }
        if values.is_empty() {
            return Ok(json!({"vr": vr.to_string()}));
        }
        Ok(json!({"Value": values, "vr": vr.to_string()}))
    }

    fn malformed(&mut self, element: &Element, bytes: &[u8], bad: &Bad) {
        let (code, exception) = match bad {
            Bad::Number => (INVALID_NUMBER, "ValueError"),
            Bad::Length => (INVALID_LENGTH, "BytesLengthException"),
            Bad::Element if element.tag == LUT_DATA => (INVALID_ELEMENT, "AttributeError"),
            Bad::Element => (INVALID_ELEMENT, "OSError"),
        };
        let vr = element.vr;
        let text = if bytes.is_ascii() { str::from_utf8(bytes).ok() } else { None };
        let number = matches!(bad, Bad::Number);
        let stored = if number && text.is_some() { vr } else { VR::UN };
        self.record(code, exception, vr, stored, bytes, text.filter(|_| number));
        let path: Vec<String> = self
            .path
            .iter()
            .map(|step| step.as_str().map_or_else(|| step.to_string(), str::to_owned))
            .collect();
        self.encoded.malformed.push(Malformed { path: path.join("/"), code });
    }

    fn record(
        &mut self,
        code: &str,
        exception: &str,
        source: VR,
        stored: VR,
        bytes: &[u8],
        value: Option<&str>,
    ) {
        let mut record = json!({
            "code": code,
            "exception": exception,
            "path": self.path,
            "raw_base64": BASE64.encode(bytes),
            "scope": self.scope,
            "source_vr": source.to_string(),
            "stored_vr": stored.to_string(),
        });
        if let (Some(value), Some(members)) = (value, record.as_object_mut()) {
            members.insert("value".to_owned(), value.into());
        }
        self.encoded.errors.push(record);
    }

    /// Keeps bytes where the reference does not look.
    fn keep_aside(&mut self, bytes: &[u8]) {
        let mut kept = json!({"path": self.path, "raw_base64": BASE64.encode(bytes)});
        if let (true, Some(members)) = (self.scope == "file_meta", kept.as_object_mut()) {
            members.insert("scope".to_owned(), self.scope.into());
        }
        self.encoded.text.push(kept);
    }
}

/// A double; what JSON has no number for is a text.
pub(crate) fn float(number: f64) -> Value {
    if number.is_nan() {
        return "NaN".into();
    }
    if number.is_infinite() {
        return if number > 0.0 { "Infinity" } else { "-Infinity" }.into();
    }
    number.into()
}

fn numbers<const N: usize>(
    bytes: &[u8],
    number: impl Fn([u8; N]) -> Value,
) -> Result<Vec<Value>, Bad> {
    let (whole, rest) = bytes.as_chunks::<N>();
    if !rest.is_empty() {
        return Err(Bad::Length);
    }
    Ok(whole.iter().map(|bytes| number(*bytes)).collect())
}

/// Whether there is a NaN with other bits than the usual one.
fn odd_nan<const N: usize>(bytes: &[u8], is_nan: impl Fn([u8; N]) -> bool, usual: [u8; N]) -> bool {
    let (whole, _) = bytes.as_chunks::<N>();
    whole.iter().any(|number| is_nan(*number) && *number != usual)
}

/// The JSON of a name, and the spelling that it stands for.
fn name(text: &str) -> (Value, String) {
    let mut groups: Vec<&str> = text.split('=').collect();
    while groups.len() > 1 && groups.last().is_some_and(|group| group.is_empty()) {
        groups.pop();
    }
    let mut members = Map::new();
    for (key, group) in ["Alphabetic", "Ideographic", "Phonetic"].iter().zip(&groups) {
        members.insert((*key).to_owned(), (*group).into());
    }
    let shown = groups.get(..3).unwrap_or(&groups);
    (Value::Object(members), shown.join("="))
}
