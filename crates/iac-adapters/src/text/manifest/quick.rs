//! Reading manifests that look exactly as the reference writes them.
//!
//! Nothing is refused here: whatever looks otherwise, damaged or not, is left to the reader of any
//! JSON text, which gives the same for what is read here.

use super::{Keep, Manifest, ManifestDoc, Parsed, TextSpan};
use crate::text::model::{DocLabels, TextDocument};

/// Fewest bytes of a document.
const DOC_BYTES: usize = 140;

/// What follows a name.
#[derive(Clone, Copy)]
enum Slot {
    /// A text, and its place among the labels.
    Label(usize),
    Episode,
    /// A number, and its place among offsets and lengths.
    Number(usize),
}

/// Members of a document in their order, each with what stands in front of its value.
type Members = [(&'static str, Slot)];

const DOC_ID: usize = 0;
const DOC_TYPE: usize = 1;
const ENCOUNTER: usize = 2;
const DOC_CATEGORY: usize = 3;
const SOURCE: usize = 4;
const DOC_TIMESTAMP: usize = 5;

const TEXT: &Members = &[
    ("{\"doc_category\": ", Slot::Label(DOC_CATEGORY)),
    (", \"doc_id\": ", Slot::Label(DOC_ID)),
    (", \"doc_timestamp\": ", Slot::Label(DOC_TIMESTAMP)),
    (", \"doc_type\": ", Slot::Label(DOC_TYPE)),
    (", \"encounter\": ", Slot::Label(ENCOUNTER)),
    (", \"episode_index\": ", Slot::Episode),
    (", \"length\": ", Slot::Number(1)),
    (", \"offset\": ", Slot::Number(0)),
    (", \"source\": ", Slot::Label(SOURCE)),
];

const PAIR: &Members = &[
    ("{\"compressed_length\": ", Slot::Number(3)),
    (", \"compressed_offset\": ", Slot::Number(2)),
    (", \"doc_category\": ", Slot::Label(DOC_CATEGORY)),
    (", \"doc_id\": ", Slot::Label(DOC_ID)),
    (", \"doc_timestamp\": ", Slot::Label(DOC_TIMESTAMP)),
    (", \"doc_type\": ", Slot::Label(DOC_TYPE)),
    (", \"encounter\": ", Slot::Label(ENCOUNTER)),
    (", \"episode_index\": ", Slot::Episode),
    (", \"source\": ", Slot::Label(SOURCE)),
    (", \"source_length\": ", Slot::Number(1)),
    (", \"source_offset\": ", Slot::Number(0)),
];

/// Reads a manifest, of which `most` documents may be kept; nothing when it is not of the usual
/// form.
pub(super) fn parse<D: TextDocument>(text: &str, keep: Keep<'_>, most: u64) -> Option<Parsed> {
    let mut cursor = Cursor { text, at: 0 };
    let mut parsed = Parsed { manifest: Manifest::default(), documents: 0, position: 0 };
    cursor.expect("{\"docs\": [")?;
    let members = if D::TEXTS.len() == 1 { TEXT } else { PAIR };
    if keep == Keep::All {
        let room = usize::try_from(most).unwrap_or(usize::MAX).min(text.len() / DOC_BYTES);
        parsed.manifest.docs.reserve_exact(room);
    }
    if cursor.expect("]").is_none() {
        loop {
            let doc = cursor.doc(members)?;
            let wanted = match keep {
                Keep::All => true,
                Keep::Position(position) => position == parsed.documents,
                Keep::Id(id) => parsed.manifest.docs.is_empty() && doc.labels.first() == Some(&id),
            };
            if wanted {
                if u64::try_from(parsed.manifest.docs.len()).ok()? >= most {
                    return None;
                }
                parsed.position = parsed.documents;
                parsed.manifest.docs.push(doc.owned());
            }
            parsed.documents = parsed.documents.saturating_add(1);
            if cursor.expect(", ").is_none() {
                break;
            }
        }
        cursor.expect("]")?;
    }
    cursor.expect(", \"institution\": ")?;
    parsed.manifest.institution = cursor.string()?.to_owned();
    if D::TEXTS.len() == 1 {
        cursor.expect(", \"patient_id\": ")?;
        parsed.manifest.patient_id = cursor.string()?.to_owned();
        cursor.expect(", \"text_schema_version\": ")?;
        parsed.manifest.version = Some(cursor.number()?);
    } else {
        cursor.expect(", \"pair_schema_version\": ")?;
        parsed.manifest.version = Some(cursor.number()?);
        cursor.expect(", \"patient_id\": ")?;
        parsed.manifest.patient_id = cursor.string()?.to_owned();
    }
    cursor.expect("}")?;
    (cursor.at == text.len()).then_some(parsed)
}

/// A document that nothing was copied of yet.
struct Doc<'t> {
    labels: [&'t str; 6],
    numbers: [u64; 4],
    episode: i64,
}

impl Doc<'_> {
    fn owned(&self) -> ManifestDoc {
        let [doc_id, doc_type, encounter, doc_category, source, doc_timestamp] =
            self.labels.map(str::to_owned);
        let episode_index = self.episode;
        let [offset, length, second_offset, second_length] = self.numbers;
        ManifestDoc {
            labels: DocLabels {
                doc_id,
                doc_type,
                encounter,
                doc_category,
                source,
                doc_timestamp,
                episode_index,
            },
            spans: [
                TextSpan { offset, length },
                TextSpan { offset: second_offset, length: second_length },
            ],
        }
    }
}

struct Cursor<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Cursor<'t> {
    fn rest(&self) -> &'t [u8] {
        self.text.as_bytes().get(self.at..).unwrap_or_default()
    }

    fn expect(&mut self, literal: &str) -> Option<()> {
        self.rest().starts_with(literal.as_bytes()).then(|| {
            self.at = self.at.saturating_add(literal.len());
        })
    }

    fn doc(&mut self, members: &Members) -> Option<Doc<'t>> {
        let mut doc = Doc { labels: [""; 6], numbers: [0; 4], episode: 0 };
        for (name, slot) in members {
            self.expect(name)?;
            match slot {
                Slot::Label(place) => *doc.labels.get_mut(*place)? = self.string()?,
                Slot::Episode => doc.episode = self.integer()?,
                Slot::Number(place) => *doc.numbers.get_mut(*place)? = self.number()?,
            }
        }
        self.expect("}")?;
        Some(doc)
    }

    /// A text without escapes.
    fn string(&mut self) -> Option<&'t str> {
        self.expect("\"")?;
        let special = |byte: &u8| *byte < 0x20 || matches!(byte, b'"' | b'\\');
        let end = self.at.checked_add(self.rest().iter().position(special)?)?;
        let text = self.text.get(self.at..end)?;
        self.at = end;
        self.expect("\"")?;
        Some(text)
    }

    /// A number without a sign, a fraction or an exponent.
    fn number(&mut self) -> Option<u64> {
        let rest = self.rest();
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let mut number = 0_u64;
        for digit in rest.get(..digits)? {
            let digit = u64::from(digit.wrapping_sub(b'0'));
            number = number.checked_mul(10)?.checked_add(digit)?;
        }
        // Zeros in front are no JSON, and a fraction or an exponent is not what follows here.
        if digits == 0 || (digits > 1 && rest.first() == Some(&b'0')) {
            return None;
        }
        self.at = self.at.saturating_add(digits);
        Some(number)
    }

    fn integer(&mut self) -> Option<i64> {
        if self.expect("-").is_none() {
            return i64::try_from(self.number()?).ok();
        }
        match self.number()? {
            0 => None,
            number => 0_i64.checked_sub_unsigned(number),
        }
    }
}
