//! Data sets from metadata documents.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use bytes::Bytes;
use dicom_core::VR;
use serde_json::{Map, Value};

use super::charset::Charset;
use super::encode::CHARACTER_SET;
use super::fault::{Fault, Result};
use super::number;
use super::object::{DataSet, Element, ElementValue, MAX_NESTING, PIXEL_DATA, parse_tag, tag_text};
use super::text;

const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

pub(crate) fn base64(text: &str) -> Option<Vec<u8>> {
    LENIENT.decode(text).ok()
}

/// Fetches a value that lies elsewhere, by its name.
pub(crate) type BulkOf<'a> = dyn Fn(&str) -> Result<Bytes> + 'a;

/// What is asked for large values where there are none.
pub(crate) fn no_bulk(_: &str) -> Result<Bytes> {
    Err(Fault::decode("its value lies in a pack, which is not at hand"))
}

/// A data set from the members of a document, those of `over` before those of `under`.
pub(crate) fn data_set(
    under: &Map<String, Value>,
    over: &Map<String, Value>,
    bulk: &BulkOf<'_>,
) -> Result<DataSet> {
    let charset = over.get("00080005").or_else(|| under.get("00080005"));
    let charset = charset_of(charset)?.unwrap_or_default();
    let mut elements = Vec::with_capacity(under.len().saturating_add(over.len()));
    let inherited = under.iter().filter(|(tag, _)| !over.contains_key(tag.as_str()));
    for (tag, value) in inherited.chain(over) {
        elements.push(element(tag, value, &charset, 0, bulk)?);
    }
    Ok(DataSet::from_elements(elements))
}

pub(crate) fn charset_of(value: Option<&Value>) -> Result<Option<Charset>> {
    let Some(value) = value else {
        return Ok(None);
    };
    let element = element("00080005", value, &Charset::default(), MAX_NESTING, &no_bulk)?;
    debug_assert_eq!(element.tag, CHARACTER_SET);
    Ok(Charset::of_element(&element))
}

/// An item of a sequence, so many levels deep.
pub(crate) fn item(
    members: &Map<String, Value>,
    outer: &Charset,
    depth: usize,
    bulk: &BulkOf<'_>,
) -> Result<DataSet> {
    if depth > MAX_NESTING {
        return Err(Fault::new(
            iac_format::ErrorKind::Limit,
            format!("sequences are nested more than {MAX_NESTING} levels deep"),
        ));
    }
    let charset = charset_of(members.get("00080005"))?.unwrap_or_else(|| outer.clone());
    let elements: Result<Vec<Element>> =
        members.iter().map(|(tag, value)| element(tag, value, &charset, depth, bulk)).collect();
    Ok(DataSet::from_elements(elements?))
}

/// One element from its JSON.
pub(crate) fn element(
    key: &str,
    value: &Value,
    charset: &Charset,
    depth: usize,
    bulk: &BulkOf<'_>,
) -> Result<Element> {
    let Some(tag) = parse_tag(key) else {
        return Err(Fault::decode("a member of the data set is no tag of eight digits"));
    };
    let bad = |reason: &str| Fault::schema(tag, reason);
    let members = value.as_object().ok_or_else(|| bad("is no JSON object"))?;
    let vr = members.get("vr").and_then(Value::as_str).ok_or_else(|| bad("has no vr"))?;
    let vr: VR = vr.parse().map_err(|_| bad("has an unknown vr"))?;
    if let Some(binary) = members.get("InlineBinary") {
        let bytes =
            binary.as_str().and_then(base64).ok_or_else(|| bad("its InlineBinary is no base64"))?;
        return Ok(Element::new(tag, vr, bytes));
    }
    if let Some(name) = members.get("BulkDataURI") {
        let name = name.as_str().ok_or_else(|| bad("its BulkDataURI is no text"))?;
        let bytes = bulk(name).map_err(|fault| fault.at(tag))?;
        return Ok(Element::new(tag, vr, bytes));
    }
    let values = match members.get("Value") {
        None | Some(Value::Null) => &[] as &[Value],
        Some(Value::Array(values)) => values.as_slice(),
        Some(_) => return Err(bad("its Value is no array")),
    };
    if vr == VR::SQ {
        let depth = depth.saturating_add(1);
        let items: Result<Vec<DataSet>> = values
            .iter()
            .map(|value| match value {
                Value::Object(members) => item(members, charset, depth, bulk),
                Value::Null => Ok(DataSet::new()),
                _ => Err(bad("an item is no JSON object")),
            })
            .collect();
        return Ok(Element { tag, vr, value: ElementValue::Items(items?) });
    }
    let mut bytes = Vec::new();
    match vr {
        VR::US => {
            fill(&mut bytes, values, |it| u16::try_from(whole(it)?).ok().map(u16::to_le_bytes))
        }
        VR::SS => {
            fill(&mut bytes, values, |it| i16::try_from(whole(it)?).ok().map(i16::to_le_bytes))
        }
        VR::UL => {
            fill(&mut bytes, values, |it| u32::try_from(whole(it)?).ok().map(u32::to_le_bytes))
        }
        VR::SL => {
            fill(&mut bytes, values, |it| i32::try_from(whole(it)?).ok().map(i32::to_le_bytes))
        }
        VR::UV => {
            fill(&mut bytes, values, |it| u64::try_from(whole(it)?).ok().map(u64::to_le_bytes))
        }
        VR::SV => {
            fill(&mut bytes, values, |it| i64::try_from(whole(it)?).ok().map(i64::to_le_bytes))
        }
        VR::FL => fill(&mut bytes, values, |it| Some(narrowed(real(it)?).to_le_bytes())),
        VR::FD => fill(&mut bytes, values, |it| Some(real(it)?.to_le_bytes())),
        VR::AT => fill(&mut bytes, values, |it| {
            let tag = parse_tag(it.as_str()?)?;
            let ([a, b], [c, d]) = (tag.0.to_le_bytes(), tag.1.to_le_bytes());
            Some([a, b, c, d])
        }),
        VR::OB | VR::OD | VR::OF | VR::OL | VR::OV | VR::OW | VR::UN if values.is_empty() => {
            Some(())
        }
        VR::OB | VR::OD | VR::OF | VR::OL | VR::OV | VR::OW | VR::UN => None,
        _ => {
            let parts: Option<Vec<String>> = values.iter().map(|value| part(vr, value)).collect();
            let parts = parts.ok_or_else(|| bad("a value has the wrong JSON type"))?;
            bytes = text::join_lossy(vr, parts, charset);
            if bytes.len() % 2 == 1 {
                bytes.push(text::padding(vr));
            }
            Some(())
        }
    }
    .ok_or_else(|| bad("a value has the wrong JSON type, or does not fit"))?;
    Ok(Element::new(tag, vr, bytes))
}

fn fill<const N: usize>(
    bytes: &mut Vec<u8>,
    values: &[Value],
    convert: impl Fn(&Value) -> Option<[u8; N]>,
) -> Option<()> {
    for value in values {
        // What is null has no bytes.
        if !value.is_null() {
            bytes.extend(convert(value)?);
        }
    }
    Some(())
}

/// A whole number, also one that is written as a text or with a fraction of zero.
pub(crate) fn whole(value: &Value) -> Option<i128> {
    match value {
        Value::Number(number) => number
            .as_i64()
            .map(i128::from)
            .or_else(|| number.as_u64().map(i128::from))
            .or_else(|| number::integer(&number.to_string()).map(i128::from)),
        Value::String(text) => number::integer(text).map(i128::from),
        _ => None,
    }
}

/// A real number, also one that is written as a text.
pub(crate) fn real(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => number::decimal(text),
        _ => None,
    }
}

#[allow(clippy::cast_possible_truncation)] // The value was a float when the document was written.
fn narrowed(number: f64) -> f32 {
    number as f32
}

/// One part of a text, as it is spelled in a file.
fn part(vr: VR, value: &Value) -> Option<String> {
    Some(match (vr, value) {
        (_, Value::Null) => String::new(),
        (VR::PN, Value::Object(members)) => {
            let mut groups = Vec::with_capacity(3);
            for key in ["Alphabetic", "Ideographic", "Phonetic"] {
                match members.get(key) {
                    None | Some(Value::Null) => groups.push(""),
                    Some(group) => groups.push(group.as_str()?),
                }
            }
            while groups.last().is_some_and(|group| group.is_empty()) {
                groups.pop();
            }
            groups.join("=")
        }
        (VR::DS, Value::Number(number)) => number::spell(number.as_f64()?),
        (VR::DS, Value::String(text)) => match text.as_str() {
            "NaN" => "nan".to_owned(),
            "Infinity" => "inf".to_owned(),
            "-Infinity" => "-inf".to_owned(),
            other => other.to_owned(),
        },
        (VR::IS, Value::Number(_)) => whole(value)?.to_string(),
        (_, Value::String(text)) => text.clone(),
        _ => return None,
    })
}

/// Applies the records of elements that JSON could not hold.
pub(crate) fn apply_records(
    errors: &[Value],
    data: &mut DataSet,
    file_meta: &mut DataSet,
) -> Result<()> {
    for record in errors {
        let in_meta = record.get("scope").and_then(Value::as_str) == Some("file_meta");
        let path = record.get("path").and_then(Value::as_array);
        let path = path.filter(|path| !path.is_empty());
        let path = path.ok_or_else(|| Fault::decode("an error record has no path"))?;
        let stored = record.get("stored_vr").and_then(Value::as_str).and_then(|vr| vr.parse().ok());
        let Some(vr) = stored else {
            return Err(Fault::decode("an error record has no stored_vr"));
        };
        let value = record.get("value").and_then(Value::as_str);
        let raw = record.get("raw_base64").and_then(Value::as_str);
        let bytes = match (vr, value) {
            (VR::DS | VR::IS, Some(value)) => value
                .chars()
                .map(|character| u8::try_from(character).ok())
                .collect::<Option<Vec<u8>>>(),
            _ => raw.and_then(base64),
        };
        let bytes = bytes.ok_or_else(|| Fault::decode("an error record has no usable bytes"))?;
        place(path, Some(vr), bytes, if in_meta { file_meta } else { data })?;
    }
    Ok(())
}

/// Puts kept bytes in the place of what JSON makes of them.
pub(crate) fn apply_kept(
    kept: &[Value],
    data: &mut DataSet,
    file_meta: &mut DataSet,
) -> Result<()> {
    for record in kept {
        let in_meta = record.get("scope").and_then(Value::as_str) == Some("file_meta");
        let path = record.get("path").and_then(Value::as_array);
        let bytes = record.get("raw_base64").and_then(Value::as_str).and_then(base64);
        let (Some(path), Some(bytes)) = (path.filter(|path| !path.is_empty()), bytes) else {
            return Err(Fault::decode("a kept text has no path or no bytes"));
        };
        place(path, None, bytes, if in_meta { file_meta } else { data })?;
    }
    Ok(())
}

fn place(path: &[Value], vr: Option<VR>, bytes: Vec<u8>, root: &mut DataSet) -> Result<()> {
    let tag_of = |step: &Value| {
        step.as_str()
            .and_then(parse_tag)
            .ok_or_else(|| Fault::decode("a step of a record's path is no tag"))
    };
    let mut set = root;
    let mut steps = path;
    while let [tag, item, rest @ ..] = steps {
        let tag = tag_of(tag)?;
        let found = item
            .as_u64()
            .and_then(|item| usize::try_from(item).ok())
            .and_then(|item| set.item_mut(tag, item));
        set = found.ok_or_else(|| {
            Fault::decode(format!(
                "a record's path leads to an item of {} that is not there",
                tag_text(tag)
            ))
        })?;
        steps = rest;
    }
    let [tag] = steps else {
        return Err(Fault::decode("a record's path does not end in a tag"));
    };
    let tag = tag_of(tag)?;
    if tag == PIXEL_DATA && path.len() == 1 {
        return Err(Fault::decode("a record's path leads to the pixel data"));
    }
    let vr = match vr {
        Some(vr) => vr,
        None => set.get(tag).map(|element| element.vr).ok_or_else(|| {
            Fault::decode(format!("a kept text belongs to {}, which is not there", tag_text(tag)))
        })?,
    };
    set.put(Element::new(tag, vr, bytes));
    Ok(())
}
