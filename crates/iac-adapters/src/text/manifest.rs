//! The manifest of a block: JSON, written to the byte and read with suspicion.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::fault::BlockError;
use super::model::{DocLabels, NO_EPISODE, Patient, SCHEMA_VERSION, TextDocument};

/// Where a text lies in a block's body.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TextSpan {
    /// First byte, counted from the first byte of the body.
    pub offset: u64,
    /// Number of bytes.
    pub length: u64,
}

/// What a manifest says about one document.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ManifestDoc {
    /// The labels.
    pub labels: DocLabels,
    /// Where its texts lie; the second is only there for pairs. Not checked against the body by
    /// those who have the manifest alone.
    pub spans: [TextSpan; 2],
}

/// What a block says about its patient, without the texts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Manifest {
    /// The patient's id.
    pub patient_id: String,
    /// Where the documents come from.
    pub institution: String,
    /// The schema's version, where the block states one that is a number.
    pub version: Option<u64>,
    /// The documents, in order.
    pub docs: Vec<ManifestDoc>,
}

/// Writes a patient's manifest behind what `out` holds.
pub(crate) fn write<D: TextDocument>(patient: &Patient<D>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"docs\": [");
    let mut offset = 0_u64;
    for (position, doc) in patient.docs.iter().enumerate() {
        if position > 0 {
            out.extend_from_slice(b", ");
        }
        write_doc(doc, &mut offset, out);
    }
    out.extend_from_slice(b"], \"institution\": ");
    write_text(&patient.institution, out);
    // `patient_id` stands before or behind the version, whose name begins with `t` or `p`.
    let version = |out: &mut Vec<u8>| {
        write_text(D::VERSION_FIELD, out);
        out.extend_from_slice(b": ");
        write_number(SCHEMA_VERSION, out);
    };
    out.extend_from_slice(b", ");
    if D::VERSION_FIELD < "patient_id" {
        version(out);
        out.extend_from_slice(b", ");
    }
    out.extend_from_slice(b"\"patient_id\": ");
    write_text(&patient.patient_id, out);
    if D::VERSION_FIELD > "patient_id" {
        out.extend_from_slice(b", ");
        version(out);
    }
    out.push(b'}');
}

fn write_doc<D: TextDocument>(doc: &D, offset: &mut u64, out: &mut Vec<u8>) {
    let labels = doc.labels();
    let texts = [
        ("doc_category", labels.doc_category),
        ("doc_id", labels.doc_id),
        ("doc_timestamp", labels.doc_timestamp),
        ("doc_type", labels.doc_type),
        ("encounter", labels.encounter),
        ("source", labels.source),
    ];
    let mut numbers = [("", 0); 4];
    let mut places = numbers.iter_mut();
    for (number, field) in D::TEXTS.iter().enumerate() {
        let length = u64::try_from(doc.text(number).len()).unwrap_or(u64::MAX);
        let pair = [(field.offset, *offset), (field.length, length)];
        for (member, place) in pair.into_iter().zip(places.by_ref()) {
            *place = member;
        }
        *offset = offset.saturating_add(length);
    }
    // The order of code points, over texts and numbers together.
    let mut members: [(&str, Option<&str>, u64); 11] = [("", None, 0); 11];
    let all = texts.iter().map(|(name, text)| (*name, Some(*text), 0));
    let all = all.chain(numbers.iter().map(|(name, number)| (*name, None, *number)));
    for (place, member) in members.iter_mut().zip(all) {
        *place = member;
    }
    if let Some(last) = members.last_mut() {
        *last = ("episode_index", None, 0);
    }
    members.sort_unstable_by_key(|(name, ..)| *name);
    out.push(b'{');
    let mut is_first = true;
    for (name, text, number) in members.iter().filter(|(name, ..)| !name.is_empty()) {
        if !is_first {
            out.extend_from_slice(b", ");
        }
        is_first = false;
        write_text(name, out);
        out.extend_from_slice(b": ");
        match text {
            Some(text) => write_text(text, out),
            None if *name == "episode_index" => {
                if labels.episode_index < 0 {
                    out.push(b'-');
                }
                write_number(labels.episode_index.unsigned_abs(), out);
            }
            None => write_number(*number, out),
        }
    }
    out.push(b'}');
}

fn write_number(number: u64, out: &mut Vec<u8>) {
    let mut digits = [0_u8; 20];
    let mut rest = number;
    let mut used = 0_usize;
    for place in digits.iter_mut().rev() {
        *place = b'0'.saturating_add(u8::try_from(rest % 10).unwrap_or(0));
        rest /= 10;
        used = used.saturating_add(1);
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(digits.get(digits.len().saturating_sub(used)..).unwrap_or_default());
}

/// Writes a JSON string: escapes only what has to be escaped.
pub(crate) fn write_text(text: &str, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.push(b'"');
    let mut rest = text.as_bytes();
    while let Some(at) = rest.iter().position(|byte| *byte < 0x20 || matches!(byte, b'"' | b'\\')) {
        let (plain, behind) = rest.split_at(at);
        out.extend_from_slice(plain);
        let Some((byte, behind)) = behind.split_first() else { break };
        rest = behind;
        let letter = match byte {
            b'"' | b'\\' => *byte,
            0x08 => b'b',
            0x0c => b'f',
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            other => {
                let digit = |nibble: u8| HEX.get(usize::from(nibble)).copied().unwrap_or(b'0');
                out.extend_from_slice(b"\\u00");
                out.extend_from_slice(&[digit(other >> 4), digit(other & 15)]);
                continue;
            }
        };
        out.extend_from_slice(&[b'\\', letter]);
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

/// Which documents of a manifest are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keep<'a> {
    All,
    /// One by its position; the others are only skipped over.
    Position(u64),
    /// The first one with an id.
    Id(&'a str),
}

/// A manifest of which perhaps not every document is kept.
pub(crate) struct Parsed {
    pub(crate) manifest: Manifest,
    /// Documents that the manifest has.
    pub(crate) documents: u64,
    /// Position of the document that was asked for.
    pub(crate) position: u64,
}

/// Reads a manifest.
pub(crate) fn parse<D: TextDocument>(bytes: &[u8], keep: Keep<'_>) -> Result<Parsed, BlockError> {
    let text = std::str::from_utf8(bytes).map_err(|error| BlockError::ManifestNotUtf8 {
        at: u64::try_from(error.valid_up_to()).unwrap_or(u64::MAX),
    })?;
    let mut json = serde_json::Deserializer::from_str(text);
    let seed = ManifestSeed::<D> { keep, kind: PhantomData };
    let parsed = seed.deserialize(&mut json).and_then(|parsed| json.end().map(|()| parsed));
    parsed.map_err(|error| {
        let reason = error.to_string();
        if error.is_data() {
            BlockError::ManifestShape { reason }
        } else {
            BlockError::ManifestNotJson { reason }
        }
    })
}

struct ManifestSeed<'k, D> {
    keep: Keep<'k>,
    kind: PhantomData<D>,
}

impl<'de, D: TextDocument> DeserializeSeed<'de> for ManifestSeed<'_, D> {
    type Value = Parsed;

    fn deserialize<X: Deserializer<'de>>(self, json: X) -> Result<Parsed, X::Error> {
        json.deserialize_map(self)
    }
}

/// Sets a member that must come once.
fn once<T, E: Error>(place: &mut Option<T>, name: &str, value: T) -> Result<(), E> {
    if place.is_some() {
        return Err(E::custom(format_args!("`{name}` stands twice")));
    }
    *place = Some(value);
    Ok(())
}

impl<'de, D: TextDocument> Visitor<'de> for ManifestSeed<'_, D> {
    type Value = Parsed;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Parsed, M::Error> {
        let (mut patient_id, mut institution, mut version) = (None, None, None);
        let mut docs = None;
        while let Some(name) = map.next_key_seed(Name)? {
            match name.0 {
                Member::PatientId => once(&mut patient_id, "patient_id", map.next_value()?)?,
                Member::Institution => once(&mut institution, "institution", map.next_value()?)?,
                Member::Docs => {
                    let seed = DocsSeed::<D> { keep: self.keep, kind: PhantomData };
                    once(&mut docs, "docs", map.next_value_seed(seed)?)?;
                }
                Member::TextVersion if D::VERSION_FIELD == "text_schema_version" => {
                    once(&mut version, D::VERSION_FIELD, map.next_value::<Value>()?)?;
                }
                Member::PairVersion if D::VERSION_FIELD == "pair_schema_version" => {
                    once(&mut version, D::VERSION_FIELD, map.next_value::<Value>()?)?;
                }
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        let docs = docs.unwrap_or_default();
        Ok(Parsed {
            manifest: Manifest {
                patient_id: patient_id.unwrap_or_default(),
                institution: institution.unwrap_or_default(),
                version: version.and_then(|version| version.as_u64()),
                docs: docs.kept,
            },
            documents: docs.documents,
            position: docs.position,
        })
    }
}

#[derive(Default)]
struct Docs {
    kept: Vec<ManifestDoc>,
    documents: u64,
    position: u64,
}

struct DocsSeed<'k, D> {
    keep: Keep<'k>,
    kind: PhantomData<D>,
}

impl<'de, D: TextDocument> DeserializeSeed<'de> for DocsSeed<'_, D> {
    type Value = Docs;

    fn deserialize<X: Deserializer<'de>>(self, json: X) -> Result<Docs, X::Error> {
        json.deserialize_seq(self)
    }
}

impl<'de, D: TextDocument> Visitor<'de> for DocsSeed<'_, D> {
    type Value = Docs;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of documents")
    }

    fn visit_seq<S: SeqAccess<'de>>(self, mut items: S) -> Result<Docs, S::Error> {
        let mut docs = Docs::default();
        loop {
            let number = docs.documents;
            let skipped = match self.keep {
                Keep::All => false,
                Keep::Position(position) => position != number,
                Keep::Id(_) => !docs.kept.is_empty(),
            };
            if skipped {
                if items.next_element::<IgnoredAny>()?.is_none() {
                    return Ok(docs);
                }
            } else {
                let seed = DocSeed::<D> { number, kind: PhantomData };
                let Some(doc) = items.next_element_seed(seed)? else { return Ok(docs) };
                let wanted = match self.keep {
                    Keep::Id(id) => doc.labels.doc_id == id,
                    Keep::All | Keep::Position(_) => true,
                };
                if wanted {
                    docs.position = number;
                    docs.kept.push(doc);
                }
            }
            docs.documents = number.saturating_add(1);
        }
    }
}

struct DocSeed<D> {
    number: u64,
    kind: PhantomData<D>,
}

impl<'de, D: TextDocument> DeserializeSeed<'de> for DocSeed<D> {
    type Value = ManifestDoc;

    fn deserialize<X: Deserializer<'de>>(self, json: X) -> Result<ManifestDoc, X::Error> {
        json.deserialize_map(self)
    }
}

impl<'de, D: TextDocument> Visitor<'de> for DocSeed<D> {
    type Value = ManifestDoc;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an object for document {}", self.number)
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<ManifestDoc, M::Error> {
        let mut texts: [Option<String>; 6] = Default::default();
        let mut numbers: [Option<u64>; 4] = [None; 4];
        let mut episode = None;
        while let Some(name) = map.next_key_seed(Name)? {
            if let Some((place, name)) = name
                .0
                .text()
                .and_then(|(place, name)| texts.get_mut(place).map(|place| (place, name)))
            {
                once(place, name, map.next_value()?)?;
                continue;
            }
            if name.0 == Member::EpisodeIndex {
                once(&mut episode, "episode_index", map.next_value::<Value>()?)?;
                continue;
            }
            let span = name.0.span().filter(|span| is_member::<D>(span.1));
            if let Some((place, name)) =
                span.and_then(|(place, name)| numbers.get_mut(place).map(|place| (place, name)))
            {
                once(place, name, map.next_value()?)?;
                continue;
            }
            map.next_value::<IgnoredAny>()?;
        }
        let missing =
            |name: &str| M::Error::custom(format_args!("document {} has no `{name}`", self.number));
        let [doc_id, doc_type, encounter, doc_category, source, doc_timestamp] = texts;
        let episode_index = match &episode {
            None => NO_EPISODE,
            Some(value) => integer(value).ok_or_else(|| {
                M::Error::custom(format_args!(
                    "`episode_index` of document {} is {value} instead of an integer",
                    self.number
                ))
            })?,
        };
        let mut spans = [TextSpan::default(); 2];
        for ((span, pair), field) in spans.iter_mut().zip(numbers.chunks(2)).zip(D::TEXTS) {
            let &[offset, length] = pair else { continue };
            *span = TextSpan {
                offset: offset.ok_or_else(|| missing(field.offset))?,
                length: length.ok_or_else(|| missing(field.length))?,
            };
        }
        Ok(ManifestDoc {
            labels: DocLabels {
                doc_id: doc_id.ok_or_else(|| missing("doc_id"))?,
                doc_type: doc_type.unwrap_or_default(),
                encounter: encounter.unwrap_or_default(),
                doc_category: doc_category.unwrap_or_default(),
                source: source.unwrap_or_default(),
                doc_timestamp: doc_timestamp.unwrap_or_default(),
                episode_index,
            },
            spans,
        })
    }
}

fn is_member<D: TextDocument>(name: &str) -> bool {
    D::TEXTS.iter().any(|field| field.offset == name || field.length == name)
}

/// Integers, also as text, as other writers have them.
fn integer(value: &Value) -> Option<i64> {
    match value {
        Value::String(text) => text.trim().parse().ok(),
        other => other.as_i64(),
    }
}

/// The members that mean something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Member {
    PatientId,
    Institution,
    Docs,
    TextVersion,
    PairVersion,
    DocId,
    DocType,
    Encounter,
    DocCategory,
    Source,
    DocTimestamp,
    EpisodeIndex,
    Offset,
    Length,
    SourceOffset,
    SourceLength,
    CompressedOffset,
    CompressedLength,
    Unknown,
}

impl Member {
    fn of(name: &str) -> Self {
        match name {
            "patient_id" => Self::PatientId,
            "institution" => Self::Institution,
            "docs" => Self::Docs,
            "text_schema_version" => Self::TextVersion,
            "pair_schema_version" => Self::PairVersion,
            "doc_id" => Self::DocId,
            "doc_type" => Self::DocType,
            "encounter" => Self::Encounter,
            "doc_category" => Self::DocCategory,
            "source" => Self::Source,
            "doc_timestamp" => Self::DocTimestamp,
            "episode_index" => Self::EpisodeIndex,
            "offset" => Self::Offset,
            "length" => Self::Length,
            "source_offset" => Self::SourceOffset,
            "source_length" => Self::SourceLength,
            "compressed_offset" => Self::CompressedOffset,
            "compressed_length" => Self::CompressedLength,
            _ => Self::Unknown,
        }
    }

    /// Place among a document's texts.
    const fn text(self) -> Option<(usize, &'static str)> {
        Some(match self {
            Self::DocId => (0, "doc_id"),
            Self::DocType => (1, "doc_type"),
            Self::Encounter => (2, "encounter"),
            Self::DocCategory => (3, "doc_category"),
            Self::Source => (4, "source"),
            Self::DocTimestamp => (5, "doc_timestamp"),
            _ => return None,
        })
    }

    /// Place among a document's offsets and lengths.
    const fn span(self) -> Option<(usize, &'static str)> {
        Some(match self {
            Self::Offset => (0, "offset"),
            Self::Length => (1, "length"),
            Self::SourceOffset => (0, "source_offset"),
            Self::SourceLength => (1, "source_length"),
            Self::CompressedOffset => (2, "compressed_offset"),
            Self::CompressedLength => (3, "compressed_length"),
            _ => return None,
        })
    }
}

/// Reads a member's name without keeping it.
struct Name;

struct Named(Member);

impl<'de> DeserializeSeed<'de> for Name {
    type Value = Named;

    fn deserialize<X: Deserializer<'de>>(self, json: X) -> Result<Named, X::Error> {
        json.deserialize_str(self)
    }
}

impl Visitor<'_> for Name {
    type Value = Named;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Named, E> {
        Ok(Named(Member::of(name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::ClinicalDoc;

    fn written(text: &str) -> String {
        let mut out = Vec::new();
        write_text(text, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn only_what_must_be_escaped_is() {
        assert_eq!(written(""), "\"\"");
        assert_eq!(written("a/<é\u{7f}\u{2028}🙂"), "\"a/<é\u{7f}\u{2028}🙂\"");
        assert_eq!(
            written("\"\\\u{8}\u{c}\n\r\t\0\u{1f}z"),
            "\"\\\"\\\\\\b\\f\\n\\r\\t\\u0000\\u001fz\""
        );
    }

    #[test]
    fn numbers_are_plain_decimals() {
        for number in [0, 9, 10, 12345, u64::MAX] {
            let mut out = Vec::new();
            write_number(number, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), number.to_string());
        }
    }

    #[test]
    fn a_member_that_comes_twice_is_refused() {
        for text in [
            r#"{"patient_id": "a", "patient_id": "b"}"#,
            r#"{"docs": [{"doc_id": "a", "offset": 0, "length": 0, "offset": 1}]}"#,
            r#"{"docs": [], "docs": []}"#,
        ] {
            let fault = parse::<ClinicalDoc>(text.as_bytes(), Keep::All).err().unwrap();
            assert!(
                matches!(&fault, BlockError::ManifestShape { reason } if reason.contains("twice"))
            );
        }
        // What is not known may repeat.
        parse::<ClinicalDoc>(br#"{"x": 1, "x": 2}"#, Keep::All).ok().unwrap();
    }

    #[test]
    fn a_deeply_nested_manifest_is_refused_without_exhausting_the_stack() {
        let text = format!("{{\"x\": {}", "[".repeat(1_000_000));
        assert!(parse::<ClinicalDoc>(text.as_bytes(), Keep::All).is_err());
    }

    #[test]
    fn other_documents_than_the_one_asked_for_are_skipped() {
        let text = br#"{"docs": [{"doc_id": "a", "offset": 0, "length": 1}, {"doc_id": "b",
            "offset": 1, "length": 2}, {}]}"#;
        let parsed = parse::<ClinicalDoc>(text, Keep::Position(1)).ok().unwrap();
        assert_eq!((parsed.documents, parsed.position), (3, 1));
        assert_eq!(parsed.manifest.docs[0].labels.doc_id, "b");
        let parsed = parse::<ClinicalDoc>(text, Keep::Id("b")).ok().unwrap();
        assert_eq!(parsed.position, 1);
        assert!(parse::<ClinicalDoc>(text, Keep::All).is_err());
    }
}
