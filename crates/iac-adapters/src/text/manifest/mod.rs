//! The manifest of a block: JSON, written to the byte and read with suspicion.
//!
//! What the reference writes is read by [`quick`] in one pass; any other text, and all that is wrong,
//! goes to [`json`].

mod json;
mod quick;
mod scalar;
mod write;

use super::fault::BlockError;
use super::model::{DocLabels, TextDocument};

pub(crate) use write::write;

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

/// Reads a manifest, whose documents may take so much memory.
pub(crate) fn parse<D: TextDocument>(
    bytes: &[u8],
    keep: Keep<'_>,
    memory: u64,
) -> Result<Parsed, BlockError> {
    let text = std::str::from_utf8(bytes).map_err(|error| BlockError::ManifestNotUtf8 {
        at: u64::try_from(error.valid_up_to()).unwrap_or(u64::MAX),
    })?;
    let each = u64::try_from(size_of::<ManifestDoc>()).unwrap_or(u64::MAX);
    let most = memory.checked_div(each).unwrap_or(0);
    if let Some(parsed) = quick::parse::<D>(text, keep, most) {
        return Ok(parsed);
    }
    json::parse::<D>(text, keep, most).unwrap_or(Err(BlockError::TooLarge { allowed: memory }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::ClinicalDoc;
    use crate::text_pair::ClinicalDocPair;

    #[test]
    fn a_member_that_comes_twice_is_refused() {
        for text in [
            r#"{"patient_id": "a", "patient_id": "b"}"#,
            r#"{"docs": [{"doc_id": "a", "offset": 0, "length": 0, "offset": 1}]}"#,
            r#"{"docs": [], "docs": []}"#,
        ] {
            let fault = parse::<ClinicalDoc>(text.as_bytes(), Keep::All, u64::MAX).err().unwrap();
            assert!(
                matches!(&fault, BlockError::ManifestShape { reason } if reason.contains("twice"))
            );
        }
        // What is not known may repeat.
        parse::<ClinicalDoc>(br#"{"x": 1, "x": 2}"#, Keep::All, u64::MAX).ok().unwrap();
    }

    #[test]
    fn a_deeply_nested_manifest_is_refused_without_exhausting_the_stack() {
        let text = format!("{{\"x\": {}", "[".repeat(1_000_000));
        assert!(parse::<ClinicalDoc>(text.as_bytes(), Keep::All, u64::MAX).is_err());
    }

    #[test]
    fn other_documents_than_the_one_asked_for_are_skipped() {
        let text = br#"{"docs": [{"doc_id": "a", "offset": 0, "length": 1}, {"doc_id": "b",
            "offset": 1, "length": 2}, {}]}"#;
        let parsed = parse::<ClinicalDoc>(text, Keep::Position(1), u64::MAX).ok().unwrap();
        assert_eq!((parsed.documents, parsed.position), (3, 1));
        assert_eq!(parsed.manifest.docs[0].labels.doc_id, "b");
        let parsed = parse::<ClinicalDoc>(text, Keep::Id("b"), u64::MAX).ok().unwrap();
        assert_eq!(parsed.position, 1);
        assert!(parse::<ClinicalDoc>(text, Keep::All, u64::MAX).is_err());
    }

    /// What both readers make of a text, compared where the quick one takes it.
    fn both<D: TextDocument>(text: &str) -> bool {
        let mut taken = false;
        for keep in [Keep::All, Keep::Position(1), Keep::Id("b"), Keep::Position(9)] {
            for most in [0, 1, 2, 100] {
                let Some(quick) = quick::parse::<D>(text, keep, most) else { continue };
                taken = true;
                let slow = json::parse::<D>(text, keep, most).unwrap().ok().unwrap();
                assert_eq!(quick.manifest, slow.manifest, "{text}");
                assert_eq!(
                    (quick.documents, quick.position),
                    (slow.documents, slow.position),
                    "{text}"
                );
            }
        }
        taken
    }

    fn sample<D: TextDocument>(ids: &[&str], text: &str, episode: i64) -> String {
        let docs = ids.iter().map(|id| {
            let mut labels = DocLabels::new(*id);
            (labels.doc_type, labels.source) = (text.to_owned(), "s".to_owned());
            labels.episode_index = episode;
            D::from_parts(labels, ["a text".to_owned(), "é".to_owned()])
        });
        let mut patient = crate::text::Patient::new("P\u{e9}");
        patient.docs = docs.collect();
        let mut out = Vec::new();
        write(&patient, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn what_is_written_is_read_quickly_and_as_any_json_is() {
        for ids in [&[][..], &["a"], &["a", "b"], &["a", "b", "b"]] {
            for episode in [-1, 0, 1, i64::MAX, i64::MIN] {
                let text = sample::<ClinicalDoc>(ids, "x y", episode);
                assert!(
                    both::<ClinicalDoc>(&text) && !both::<ClinicalDocPair>(&text) || ids.is_empty()
                );
                let text = sample::<ClinicalDocPair>(ids, "病理/\u{7f}", episode);
                assert!(both::<ClinicalDocPair>(&text));
            }
        }
        // Escapes are for the other reader.
        assert!(!both::<ClinicalDoc>(&sample::<ClinicalDoc>(&["a"], "\"", 1)));
    }

    #[test]
    fn manifests_that_are_altered_anywhere_mean_the_same_to_both_readers() {
        for text in [
            sample::<ClinicalDoc>(&["a", "b"], "x", -12),
            sample::<ClinicalDocPair>(&["a", "b"], "x", 30),
        ] {
            for at in 0..text.len() {
                for byte in *b"\0 \"\\{}[],:.-019eEa\x7f" {
                    let mut altered = text.clone().into_bytes();
                    altered[at] = byte;
                    if let Ok(altered) = String::from_utf8(altered) {
                        both::<ClinicalDoc>(&altered);
                        both::<ClinicalDocPair>(&altered);
                    }
                    let mut longer = text.clone().into_bytes();
                    longer.insert(at, byte);
                    if let Ok(longer) = String::from_utf8(longer) {
                        both::<ClinicalDoc>(&longer);
                        both::<ClinicalDocPair>(&longer);
                    }
                }
                let cut: String = text.chars().take(at).collect();
                both::<ClinicalDoc>(&cut);
            }
        }
    }
}
