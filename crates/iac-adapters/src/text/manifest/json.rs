//! Reading manifests of any JSON text, with suspicion.

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::scalar::Scalar;
use super::{Keep, Manifest, ManifestDoc, Parsed, TextSpan};
use crate::error::short_middle;
use crate::text::fault::BlockError;
use crate::text::model::{DocLabels, NO_EPISODE, TextDocument};

/// Reads a manifest, of which `most` documents may be kept; nothing when there are more.
pub(super) fn parse<D: TextDocument>(
    text: &str,
    keep: Keep<'_>,
    most: u64,
) -> Option<Result<Parsed, BlockError>> {
    let mut json = serde_json::Deserializer::from_str(text);
    let beyond = Cell::new(false);
    let seed = ManifestSeed::<D> { keep, most, beyond: &beyond, kind: PhantomData };
    let parsed = seed.deserialize(&mut json).and_then(|parsed| json.end().map(|()| parsed));
    if beyond.get() {
        return None;
    }
    Some(parsed.map_err(|error| {
        let reason = short_middle(&error.to_string());
        if error.is_data() {
            BlockError::ManifestShape { reason }
        } else {
            BlockError::ManifestNotJson { reason }
        }
    }))
}

struct ManifestSeed<'k, D> {
    keep: Keep<'k>,
    /// Documents that may be kept.
    most: u64,
    /// Set when there are more.
    beyond: &'k Cell<bool>,
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
                    let Self { keep, most, beyond, kind } = self;
                    let seed = DocsSeed { keep, most, beyond, kind };
                    once(&mut docs, "docs", map.next_value_seed(seed)?)?;
                }
                Member::TextVersion if D::VERSION_FIELD == "text_schema_version" => {
                    once(&mut version, D::VERSION_FIELD, map.next_value::<Scalar>()?)?;
                }
                Member::PairVersion if D::VERSION_FIELD == "pair_schema_version" => {
                    once(&mut version, D::VERSION_FIELD, map.next_value::<Scalar>()?)?;
                }
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        let docs = docs.unwrap_or_default();
        Ok(Parsed {
            manifest: Manifest {
                patient_id: patient_id.unwrap_or_default(),
                institution: institution.unwrap_or_default(),
                version: version.and_then(|version: Scalar| version.unsigned()),
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
    most: u64,
    beyond: &'k Cell<bool>,
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
                    if u64::try_from(docs.kept.len()).unwrap_or(u64::MAX) >= self.most {
                        self.beyond.set(true);
                        return Err(S::Error::custom("there are too many documents"));
                    }
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
                once(&mut episode, "episode_index", map.next_value::<Scalar>()?)?;
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
            Some(value) => value.integer().ok_or_else(|| {
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
