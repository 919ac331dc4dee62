//! Blocks: the records of text packs, a manifest and the texts behind it.

use iac_codec::Limits;

use super::fault::BlockError;
use super::manifest::{self, Keep, Manifest, ManifestDoc, TextSpan};
use super::model::{Patient, TextDocument};

/// Bytes of the manifest's length.
const PREFIX: usize = 4;

/// A patient as a block, byte for byte as the reference makes it.
///
/// ```
/// use iac_adapters::text::{PatientText, decode_block, encode_block};
///
/// let patient = PatientText::new("P1");
/// let block = encode_block(&patient)?;
/// assert_eq!(&block[..4], 77_u32.to_le_bytes());
/// assert_eq!(decode_block::<iac_adapters::text::ClinicalDoc>(&block)?, patient);
/// # Ok::<(), iac_adapters::text::BlockError>(())
/// ```
///
/// # Errors
///
/// [`BlockError::ManifestTooLarge`] when the labels of all documents have 4 GiB.
pub fn encode_block<D: TextDocument>(patient: &Patient<D>) -> Result<Vec<u8>, BlockError> {
    let body = body_bytes(patient);
    // Names, numbers and separators of a document have about 180 bytes, labels come on top.
    let guess = patient.docs.len().saturating_mul(320).saturating_add(128).saturating_add(body);
    let mut block = Vec::with_capacity(guess);
    block.extend_from_slice(&[0; PREFIX]);
    manifest::write(patient, &mut block);
    let length = block.len().saturating_sub(PREFIX);
    let stated = u32::try_from(length).map_err(|_| BlockError::ManifestTooLarge {
        bytes: u64::try_from(length).unwrap_or(u64::MAX),
    })?;
    if let Some(prefix) = block.first_chunk_mut::<PREFIX>() {
        *prefix = stated.to_le_bytes();
    }
    for doc in &patient.docs {
        for number in 0..D::TEXTS.len() {
            block.extend_from_slice(doc.text(number).as_bytes());
        }
    }
    Ok(block)
}

fn body_bytes<D: TextDocument>(patient: &Patient<D>) -> usize {
    let texts = patient.docs.iter().map(|doc| {
        (0..D::TEXTS.len()).fold(0_usize, |sum, number| sum.saturating_add(doc.text(number).len()))
    });
    texts.fold(0_usize, usize::saturating_add)
}

/// A patient out of a block.
///
/// Everything is checked: the manifest's length, its shape, and that every text lies inside the
/// body and is UTF-8. Texts may overlap and come in any order, bytes may belong to no text, and
/// members of the manifest that are not known are ignored. Documents together take no more memory
/// than [`Limits::max_decoded_bytes`] of the default limits.
///
/// # Errors
///
/// What is wrong with the block.
pub fn decode_block<D: TextDocument>(block: &[u8]) -> Result<Patient<D>, BlockError> {
    decode_within(block, &Limits::default())
}

/// The same within other limits.
pub(crate) fn decode_within<D: TextDocument>(
    block: &[u8],
    limits: &Limits,
) -> Result<Patient<D>, BlockError> {
    let (manifest, body) = split(block)?;
    let manifest = manifest::parse::<D>(manifest, Keep::All, limits.max_decoded_bytes)?.manifest;
    check_texts::<D>(&manifest, body, limits)?;
    let mut docs = Vec::with_capacity(manifest.docs.len());
    for (number, doc) in (0_u64..).zip(manifest.docs) {
        docs.push(document::<D>(number, doc, body)?);
    }
    Ok(Patient { patient_id: manifest.patient_id, institution: manifest.institution, docs })
}

/// Whether texts lie inside the body, and how many bytes they have together: they may lie one over
/// the other, so that can be any number.
pub(crate) fn check_texts<D: TextDocument>(
    manifest: &Manifest,
    body: &[u8],
    limits: &Limits,
) -> Result<(), BlockError> {
    let mut bytes = 0_u64;
    for (number, doc) in (0_u64..).zip(&manifest.docs) {
        for text in texts::<D>(number, doc, body)? {
            bytes = bytes.saturating_add(u64::try_from(text.len()).unwrap_or(u64::MAX));
        }
    }
    if bytes > limits.max_decoded_bytes {
        return Err(BlockError::TooLarge { allowed: limits.max_decoded_bytes });
    }
    Ok(())
}

/// What a block says about its patient and documents; texts are not looked at, but must lie inside
/// the body.
///
/// # Errors
///
/// What is wrong with the manifest or its spans.
pub fn decode_manifest<D: TextDocument>(block: &[u8]) -> Result<Manifest, BlockError> {
    let (manifest, body) = split(block)?;
    let most = Limits::default().max_decoded_bytes;
    let manifest = manifest::parse::<D>(manifest, Keep::All, most)?.manifest;
    for (number, doc) in (0_u64..).zip(&manifest.docs) {
        texts::<D>(number, doc, body)?;
    }
    Ok(manifest)
}

/// Manifest and body.
pub(crate) fn split(block: &[u8]) -> Result<(&[u8], &[u8]), BlockError> {
    let length = u64::try_from(block.len()).unwrap_or(u64::MAX);
    let Some((prefix, rest)) = block.split_first_chunk::<PREFIX>() else {
        return Err(BlockError::TooShort { bytes: length });
    };
    let manifest = u32::from_le_bytes(*prefix);
    let split = usize::try_from(manifest).ok().and_then(|manifest| rest.split_at_checked(manifest));
    split.ok_or(BlockError::ManifestOverrun { manifest: u64::from(manifest), bytes: length })
}

/// Bytes that a block must have for its manifest, as far as they are known.
pub(crate) fn manifest_end(start: &[u8]) -> usize {
    start.first_chunk::<PREFIX>().map_or(PREFIX, |prefix| {
        usize::try_from(u32::from_le_bytes(*prefix)).unwrap_or(usize::MAX).saturating_add(PREFIX)
    })
}

/// The end of a document's last text in the body.
pub(crate) fn doc_end<D: TextDocument>(doc: &ManifestDoc) -> u64 {
    let spans = doc.spans.iter().take(D::TEXTS.len());
    let ends = spans.filter(|span| span.length > 0);
    ends.map(|span| span.offset.saturating_add(span.length)).max().unwrap_or(0)
}

/// The bytes of a text. A text without bytes lies everywhere.
fn slice(body: &[u8], span: TextSpan) -> Option<&[u8]> {
    if span.length == 0 {
        return Some(&[]);
    }
    let start = usize::try_from(span.offset).ok()?;
    let end = start.checked_add(usize::try_from(span.length).ok()?)?;
    body.get(start..end)
}

fn texts<'b, D: TextDocument>(
    number: u64,
    doc: &ManifestDoc,
    body: &'b [u8],
) -> Result<[&'b [u8]; 2], BlockError> {
    let mut texts: [&[u8]; 2] = [&[], &[]];
    for ((text, span), field) in texts.iter_mut().zip(&doc.spans).zip(D::TEXTS) {
        *text = slice(body, *span).ok_or_else(|| BlockError::Span {
            document: number,
            doc_id: doc.labels.doc_id.clone(),
            field: field.name,
            offset: span.offset,
            length: span.length,
            body: u64::try_from(body.len()).unwrap_or(u64::MAX),
        })?;
    }
    Ok(texts)
}

/// A document with its texts.
pub(crate) fn document<D: TextDocument>(
    number: u64,
    doc: ManifestDoc,
    body: &[u8],
) -> Result<D, BlockError> {
    let found = texts::<D>(number, &doc, body)?;
    let mut owned = [String::new(), String::new()];
    for ((text, bytes), field) in owned.iter_mut().zip(found).zip(D::TEXTS) {
        let checked = std::str::from_utf8(bytes).map_err(|error| BlockError::TextNotUtf8 {
            document: number,
            doc_id: doc.labels.doc_id.clone(),
            field: field.name,
            at: u64::try_from(error.valid_up_to()).unwrap_or(u64::MAX),
        })?;
        checked.clone_into(text);
    }
    Ok(D::from_parts(doc.labels, owned))
}
