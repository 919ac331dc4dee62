//! Blocks of text packs put together from parts: manifests with any members, spans that overlap, lie
//! outside or cut characters. The block is refused, or each text is what its span says.
//!
//! An input is what `arbitrary` makes a [`Block`] of.
#![no_main]

use iac_adapters::text::{ClinicalDoc, TextDocument, decode_block, decode_manifest, encode_block};
use iac_adapters::text_pair::ClinicalDocPair;
use iac_fuzz::{Limited, seeds};
use libfuzzer_sys::arbitrary::{self, Arbitrary, Unstructured};
use libfuzzer_sys::fuzz_target;
use serde_json::{Map, Value};

#[global_allocator]
static ALLOCATOR: Limited = Limited;

#[derive(Debug, Arbitrary)]
struct Block {
    pairs: bool,
    patient: Option<Thing>,
    institution: Option<Thing>,
    docs: Vec<Doc>,
    /// Whether documents come in front of the other members.
    docs_first: bool,
    spaces: bool,
    /// How much the stated length of the manifest is off.
    off: i8,
    body: String,
    behind: Vec<u8>,
}

#[derive(Debug, Arbitrary)]
struct Doc {
    id: Option<Thing>,
    spans: [Option<[Number; 2]>; 2],
    labels: Vec<(Label, Thing)>,
}

/// A value of JSON.
#[derive(Debug, Clone, Arbitrary)]
enum Thing {
    Null,
    Bool(bool),
    Integer(i64),
    Real(f64),
    Text(String),
    Digits(u8),
    List(u8),
    Member(String),
}

/// A number near the body's length, or any.
#[derive(Debug, Clone, Copy, Arbitrary)]
enum Number {
    Small(u8),
    Any(u64),
    Negative(i64),
    Real(f64),
    Text(u8),
}

#[derive(Debug, Clone, Copy, Arbitrary)]
enum Label {
    DocType,
    Episode,
    Encounter,
    Category,
    Source,
    Timestamp,
    Other(u8),
}

impl Thing {
    fn value(&self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Bool(is) => Value::Bool(*is),
            Self::Integer(number) => Value::from(*number),
            Self::Real(number) => Value::from(*number),
            Self::Text(text) => Value::from(text.as_str()),
            Self::Digits(number) => Value::from(number.to_string()),
            Self::List(depth) => {
                (0..*depth).fold(Value::Null, |inner, _| Value::Array(vec![inner]))
            }
            Self::Member(name) => Value::Object(Map::from_iter([(name.clone(), Value::from(1))])),
        }
    }
}

impl Number {
    fn value(self) -> Value {
        match self {
            Self::Small(number) => Value::from(number),
            Self::Any(number) => Value::from(number),
            Self::Negative(number) => Value::from(number),
            Self::Real(number) => Value::from(number),
            Self::Text(number) => Value::from(number.to_string()),
        }
    }

    const fn small(self) -> Option<usize> {
        match self {
            Self::Small(number) => Some(number as usize),
            _ => None,
        }
    }
}

impl Label {
    fn name(self) -> String {
        match self {
            Self::DocType => "doc_type".to_owned(),
            Self::Episode => "episode_index".to_owned(),
            Self::Encounter => "encounter".to_owned(),
            Self::Category => "doc_category".to_owned(),
            Self::Source => "source".to_owned(),
            Self::Timestamp => "doc_timestamp".to_owned(),
            Self::Other(number) => format!("m{number}"),
        }
    }
}

fuzz_target!(
    init: seeds::write(seeds::noise),
    |input: &[u8]| {
        let Ok(block) = Block::arbitrary_take_rest(Unstructured::new(input)) else { return };
        if block.pairs {
            let names = ["source_offset", "source_length", "compressed_offset", "compressed_length"];
            run::<ClinicalDocPair>(&block, names);
        } else {
            run::<ClinicalDoc>(&block, ["offset", "length", "offset_b", "length_b"]);
        }
    }
);

fn run<D: TextDocument>(parts: &Block, names: [&str; 4]) {
    let block = parts.encode(names);
    let manifest = decode_manifest::<D>(&block);
    let patient = match decode_block::<D>(&block) {
        Ok(patient) => patient,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let manifest = manifest.unwrap();
    assert_eq!(manifest.docs.len(), patient.docs.len());
    if parts.off == 0 {
        let body = [parts.body.as_bytes(), &parts.behind].concat();
        assert_eq!(patient.docs.len(), parts.docs.len());
        for (doc, told) in patient.docs.iter().zip(&parts.docs) {
            if let Some([start, length]) = told.spans[0]
                && let (Some(start), Some(length)) = (start.small(), length.small())
                && !parts.pairs
            {
                // An empty text may lie anywhere.
                let wanted = if length == 0 { &[][..] } else { &body[start..start + length] };
                assert_eq!(doc.text(0).as_bytes(), wanted);
            }
        }
    }
    let written = encode_block(&patient).unwrap();
    assert_eq!(decode_block::<D>(&written).unwrap(), patient);
}

impl Block {
    fn encode(&self, names: [&str; 4]) -> Vec<u8> {
        let docs: Vec<Value> = self.docs.iter().take(16).map(|doc| doc.value(names)).collect();
        let mut members: Vec<(&str, Value)> = vec![("docs", Value::Array(docs))];
        for (name, thing) in [("patient_id", &self.patient), ("institution", &self.institution)] {
            members.extend(thing.as_ref().map(|thing| (name, thing.value())));
        }
        if !self.docs_first {
            members.rotate_left(1);
        }
        let space = if self.spaces { " \n" } else { "" };
        let texts: Vec<String> =
            members.iter().map(|(name, value)| format!("\"{name}\":{space}{value}")).collect();
        let manifest = format!("{{{}}}", texts.join(&format!(",{space}")));
        let length = u32::try_from(manifest.len()).unwrap().saturating_add_signed(self.off.into());
        [&length.to_le_bytes(), manifest.as_bytes(), self.body.as_bytes(), &self.behind].concat()
    }
}

impl Doc {
    fn value(&self, names: [&str; 4]) -> Value {
        let mut members = Map::new();
        if let Some(id) = &self.id {
            members.insert("doc_id".to_owned(), id.value());
        }
        for (label, thing) in &self.labels {
            members.insert(label.name(), thing.value());
        }
        for (span, names) in self.spans.iter().zip([[names[0], names[1]], [names[2], names[3]]]) {
            for (number, name) in span.iter().flatten().zip(names) {
                members.insert(name.to_owned(), number.value());
            }
        }
        Value::Object(members)
    }
}
