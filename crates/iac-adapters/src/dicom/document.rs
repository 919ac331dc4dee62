//! Template and delta documents: their compressed form, and what belongs into which of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use iac_codec::zstd::ZstdOptions;
use iac_codec::{Codec, Limits};
use iac_format::ErrorKind;
use serde_json::{Map, Value};

use super::encode::Encoded;
use super::fault::{Fault, Result};
use super::object::MAX_NESTING;

/// The level that metadata is compressed with.
pub(crate) const METADATA_LEVEL: i32 = 3;

/// What a document may decompress to, unless something else is asked for.
pub(crate) const MAX_DOCUMENT_BYTES: u64 = 1 << 30;

/// JSON levels that a document may have: three for each level of sequences, and some around them.
const MAX_JSON_DEPTH: usize = MAX_NESTING.saturating_mul(3).saturating_add(16);

/// A codec for documents.
pub(crate) fn metadata_codec() -> iac_codec::Result<Codec> {
    ZstdOptions::new(METADATA_LEVEL).codec()
}

/// A template or a delta.
#[derive(Debug, Clone, Default)]
pub(crate) struct Document {
    pub(crate) dataset: Map<String, Value>,
    pub(crate) file_meta: Map<String, Value>,
    pub(crate) preamble: Option<String>,
    pub(crate) errors: Vec<Value>,
    /// What the reference does not know.
    pub(crate) iac: Map<String, Value>,
    /// Bytes of its text.
    pub(crate) bytes: u64,
}

impl Document {
    /// Reads a document from its compressed form.
    pub(crate) fn read(payload: &[u8], codec: &Codec, max_bytes: u64) -> Result<Self> {
        let limits = Limits::default().with_max_decoded_bytes(max_bytes);
        let text = codec.decode_bytes(payload, &limits).map_err(|error| {
            let kind = ErrorKind::from_name(error.kind().as_str()).unwrap_or(ErrorKind::Decode);
            Fault::new(kind, format!("its metadata cannot be decompressed: {error}"))
        })?;
        Self::parse_within(&text, max_bytes)
    }

    /// The document as JSON; a template has no records.
    pub(crate) fn to_json(&self, template: bool) -> Value {
        let mut members = Map::new();
        members.insert("dataset".to_owned(), self.dataset.clone().into());
        members.insert("file_meta".to_owned(), self.file_meta.clone().into());
        members.insert("preamble".to_owned(), self.preamble.clone().into());
        if !template && !self.errors.is_empty() {
            members.insert("errors".to_owned(), self.errors.clone().into());
        }
        if !self.iac.is_empty() {
            members.insert("iac".to_owned(), self.iac.clone().into());
        }
        Value::Object(members)
    }

    /// Reads a document from its text, within the default limit.
    pub(crate) fn parse(text: &[u8]) -> Result<Self> {
        Self::parse_within(text, MAX_DOCUMENT_BYTES)
    }

    fn parse_within(text: &[u8], max_bytes: u64) -> Result<Self> {
        check_extent(text, max_bytes)?;
        let mut reader = serde_json::Deserializer::from_slice(text);
        reader.disable_recursion_limit();
        let value: Value = serde::Deserialize::deserialize(&mut reader)
            .and_then(|value| reader.end().map(|()| value))
            // The message of the library may quote the text.
            .map_err(|error| {
                Fault::decode(format!(
                    "its metadata is no JSON (at byte {} of line {})",
                    error.column(),
                    error.line()
                ))
            })?;
        let Value::Object(mut members) = value else {
            return Err(Fault::decode("its metadata is no JSON object"));
        };
        let mut object = |name: &str| match members.remove(name) {
            Some(Value::Object(object)) => Ok(object),
            Some(_) => Err(Fault::new(
                ErrorKind::Schema,
                format!("the member {name} of its metadata is no object"),
            )),
            None => {
                Err(Fault::new(ErrorKind::Schema, format!("its metadata has no member {name}")))
            }
        };
        let dataset = object("dataset")?;
        let file_meta = object("file_meta")?;
        let preamble = match members.remove("preamble") {
            Some(Value::String(text)) if !text.is_empty() => Some(text),
            _ => None,
        };
        let errors = match members.remove("errors") {
            Some(Value::Array(errors)) => errors,
            None | Some(Value::Null) => Vec::new(),
            Some(_) => {
                return Err(Fault::new(
                    ErrorKind::Schema,
                    "the member errors of its metadata is no array",
                ));
            }
        };
        let iac = match members.remove("iac") {
            Some(Value::Object(iac)) => iac,
            _ => Map::new(),
        };
        let bytes = u64::try_from(text.len()).unwrap_or(u64::MAX);
        Ok(Self { dataset, file_meta, preamble, errors, iac, bytes })
    }
}

/// Refuses texts that are nested deeper than documents may be, and those that would take much more
/// memory than they have bytes: seven of them can make an object of hundreds.
pub(crate) fn check_extent(text: &[u8], max_bytes: u64) -> Result<()> {
    let (depth, memory) = json_extent(text);
    let limit = |reason: String| Err(Fault::new(ErrorKind::Limit, reason));
    if depth > MAX_JSON_DEPTH {
        return limit(format!("its metadata is nested more than {MAX_JSON_DEPTH} levels deep"));
    }
    let allowed = max_bytes.saturating_mul(2);
    if memory > allowed {
        return limit(format!(
            "its metadata would take {memory} bytes of memory, and {allowed} are allowed"
        ));
    }
    Ok(())
}

/// Bytes that an object takes whose members are few.
const OBJECT_BYTES: u64 = 640;
/// Bytes that any other value takes.
const VALUE_BYTES: u64 = 40;

/// How deep arrays and objects are nested in a JSON text, and about how many bytes of memory its
/// values take.
fn json_extent(text: &[u8]) -> (usize, u64) {
    let (mut depth, mut deepest) = (0_usize, 0_usize);
    let (mut objects, mut values) = (0_u64, 0_u64);
    let (mut quoted, mut escaped) = (false, false);
    for byte in text {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b',' if !quoted => values = values.saturating_add(1),
            b'{' | b'[' if !quoted => {
                if *byte == b'{' {
                    objects = objects.saturating_add(1);
                }
                values = values.saturating_add(1);
                depth = depth.saturating_add(1);
                deepest = deepest.max(depth);
            }
            b'}' | b']' if !quoted => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    let memory = objects.saturating_mul(OBJECT_BYTES);
    (deepest, memory.saturating_add(values.saturating_mul(VALUE_BYTES)))
}

/// What the instances of one series share, found while they come.
///
/// Members that every instance so far has with the same JSON are kept once; when an instance lacks
/// one or has another, it is remembered for how many instances it held.
#[derive(Debug, Default)]
pub(crate) struct Factored {
    instances: Vec<Own>,
    dataset: Common,
    file_meta: Common,
    preamble: Option<Option<Arc<str>>>,
    preambles_differ: bool,
}

/// What an instance has for itself.
#[derive(Debug, Default)]
struct Own {
    dataset: Vec<(String, String)>,
    file_meta: Vec<(String, String)>,
    preamble: Option<Arc<str>>,
    errors: Vec<Value>,
    iac: Map<String, Value>,
}

#[derive(Debug, Default)]
struct Common {
    shared: BTreeMap<String, String>,
    /// Members that were shared by the instances before a number.
    former: Vec<(String, String, usize)>,
}

impl Common {
    /// Takes the members of the next instance, the `position`-th; gives back those of its own.
    fn add(&mut self, members: Vec<(String, String)>, position: usize) -> Vec<(String, String)> {
        if position == 0 {
            self.shared = members.into_iter().collect();
            return Vec::new();
        }
        let mut own = Vec::new();
        let mut kept = BTreeMap::new();
        for (tag, json) in members {
            match self.shared.remove(&tag) {
                Some(shared) if shared == json => {
                    kept.insert(tag, shared);
                }
                Some(shared) => {
                    self.former.push((tag.clone(), shared, position));
                    own.push((tag, json));
                }
                None => own.push((tag, json)),
            }
        }
        let lost = std::mem::replace(&mut self.shared, kept);
        self.former.extend(lost.into_iter().map(|(tag, json)| (tag, json, position)));
        own
    }

    fn members_of(&self, own: &[(String, String)], position: usize) -> String {
        let former = self.former.iter().filter(|(_, _, before)| position < *before);
        let mut members: Vec<(&str, &str)> =
            former.map(|(tag, json, _)| (tag.as_str(), json.as_str())).collect();
        members.extend(own.iter().map(|(tag, json)| (tag.as_str(), json.as_str())));
        members.sort_unstable();
        object(members.into_iter())
    }
}

fn object<'a>(members: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let mut text = String::from("{");
    for (tag, json) in members {
        if text.len() > 1 {
            text.push(',');
        }
        text.push('"');
        text.push_str(tag);
        text.push_str("\":");
        text.push_str(json);
    }
    text.push('}');
    text
}

/// All that is known of one object, in one document.
pub(crate) fn whole(encoded: &Encoded, iac: &Map<String, Value>) -> String {
    let members = |members: &[(String, String)]| {
        object(members.iter().map(|(tag, json)| (tag.as_str(), json.as_str())))
    };
    document(
        &members(&encoded.dataset),
        &members(&encoded.file_meta),
        &encoded.errors,
        iac,
        encoded.preamble.as_deref(),
    )
}

fn document(
    dataset: &str,
    file_meta: &str,
    errors: &[Value],
    iac: &Map<String, Value>,
    preamble: Option<&str>,
) -> String {
    let mut text = format!(r#"{{"dataset":{dataset}"#);
    if !errors.is_empty() {
        text.push_str(r#","errors":"#);
        text.push_str(&Value::from(errors.to_vec()).to_string());
    }
    text.push_str(r#","file_meta":"#);
    text.push_str(file_meta);
    if !iac.is_empty() {
        text.push_str(r#","iac":"#);
        text.push_str(&Value::from(iac.clone()).to_string());
    }
    text.push_str(r#","preamble":"#);
    text.push_str(&quoted(preamble));
    text.push('}');
    text
}

fn quoted(text: Option<&str>) -> String {
    // Base64 needs no escapes.
    text.map_or_else(|| "null".to_owned(), |text| format!("\"{text}\""))
}

impl Factored {
    /// Number of instances.
    pub(crate) fn len(&self) -> usize {
        self.instances.len()
    }

    /// Adds an instance; `iac` is what the reference is not to see.
    pub(crate) fn add(&mut self, encoded: Encoded, iac: Map<String, Value>) {
        let position = self.instances.len();
        let preamble: Option<Arc<str>> = encoded.preamble.map(Arc::from);
        match &self.preamble {
            None => self.preamble = Some(preamble.clone()),
            Some(first) => self.preambles_differ |= *first != preamble,
        }
        // Equal ones are shared, so that a series costs one of them.
        let preamble = match &self.preamble {
            Some(first) if *first == preamble => first.clone(),
            _ => preamble,
        };
        let own = Own {
            dataset: self.dataset.add(encoded.dataset, position),
            file_meta: self.file_meta.add(encoded.file_meta, position),
            preamble,
            errors: encoded.errors,
            iac,
        };
        self.instances.push(own);
    }

    /// What an instance has aside; to be filled in when it is known.
    pub(crate) fn iac_mut(&mut self, position: usize) -> Option<&mut Map<String, Value>> {
        self.instances.get_mut(position).map(|own| &mut own.iac)
    }

    /// The JSON of every member of the data sets, to be changed in the same way wherever it is
    /// the same.
    pub(crate) fn members_mut(&mut self) -> impl Iterator<Item = &mut String> {
        let own = self.instances.iter_mut().flat_map(|own| &mut own.dataset);
        let own = own.map(|(_, json)| json);
        let former = self.dataset.former.iter_mut().map(|(_, json, _)| json);
        self.dataset.shared.values_mut().chain(former).chain(own)
    }

    /// The template's JSON.
    pub(crate) fn template(&self) -> String {
        let members = |common: &Common| {
            object(common.shared.iter().map(|(tag, json)| (tag.as_str(), json.as_str())))
        };
        let preamble = if self.preambles_differ { None } else { self.preamble.clone().flatten() };
        format!(
            r#"{{"dataset":{},"file_meta":{},"preamble":{}}}"#,
            members(&self.dataset),
            members(&self.file_meta),
            quoted(preamble.as_deref()),
        )
    }

    /// The JSON of an instance's delta.
    pub(crate) fn delta(&self, position: usize) -> Option<String> {
        let own = self.instances.get(position)?;
        let dataset = self.dataset.members_of(&own.dataset, position);
        let file_meta = self.file_meta.members_of(&own.file_meta, position);
        let preamble = own.preamble.as_deref().filter(|_| self.preambles_differ);
        let text = document(&dataset, &file_meta, &own.errors, &own.iac, preamble);
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(members: &[(&str, &str)]) -> Encoded {
        let members = members.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
        Encoded { dataset: members, ..Encoded::default() }
    }

    #[test]
    fn members_that_all_instances_share_go_to_the_template() {
        let mut series = Factored::default();
        for value in ["1", "1", "2"] {
            let mut members = vec![("00080060", "7"), ("00200013", value)];
            if value == "1" {
                members.push(("00280010", "5"));
            }
            series.add(encoded(&members), Map::new());
        }
        let template = Document::parse(series.template().as_bytes()).unwrap();
        assert_eq!(Value::from(template.dataset), serde_json::json!({"00080060": 7}));
        for (position, value) in [1, 1, 2].into_iter().enumerate() {
            let delta = Document::parse(series.delta(position).unwrap().as_bytes()).unwrap();
            assert_eq!(delta.dataset["00200013"], value);
            assert_eq!(delta.dataset.contains_key("00280010"), value == 1);
        }
        assert!(series.delta(3).is_none());
    }

    #[test]
    fn documents_that_would_take_much_more_memory_than_bytes_are_refused_before_they_are_parsed() {
        let many = vec![r#"{"":0}"#; 10_000].join(",");
        let text = format!(r#"{{"dataset":{{}},"errors":[{many}],"file_meta":{{}}}}"#);
        Document::parse(text.as_bytes()).unwrap();
        let most = u64::try_from(text.len()).unwrap();
        let error = Document::parse_within(text.as_bytes(), most).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Limit);
        // What stands in a text is no value.
        let text = format!(r#"{{"dataset":{{}},"file_meta":{{}},"x":"{}"}}"#, "{,[".repeat(10_000));
        Document::parse_within(text.as_bytes(), most).unwrap();
    }

    #[test]
    fn documents_that_are_nested_too_deep_are_refused_before_they_are_parsed() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(Document::parse(deep.as_bytes()).unwrap_err().kind, ErrorKind::Limit);
        let fine = br#"{"dataset":{},"file_meta":{},"x":"[[[\"[["}"#;
        Document::parse(fine).unwrap();
    }
}
