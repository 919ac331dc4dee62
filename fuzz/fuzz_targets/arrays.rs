//! Stores of arrays: whatever a layer or a manifest holds behind right checksums is refused, or
//! gives arrays that read back from the single file that is made of them.
//!
//! An input is a pack as `pack_input` has it. Its flags also say: 64 the sums of the index's batches
//! are made right, 128 the text is a manifest and nothing else counts.
#![no_main]

use iac_fuzz::pack_input::{FILL_IN, Parts, SUMS};
use iac_fuzz::stores::SOUND;
use iac_fuzz::{Limited, assemble, seeds, stores};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

#[global_allocator]
static ALLOCATOR: Limited = Limited;

const BATCH_SUMS: u8 = 64;
const MANIFEST: u8 = 128;

fuzz_target!(
    init: seeds::write(make_seeds),
    |input: &[u8]| {
        let Some(parts) = Parts::new(input) else { return };
        if parts.flags & MANIFEST != 0 {
            return stores::manifest(parts.text);
        }
        let text = match fixed(parts) {
            Some(text) => text,
            None => parts.text.to_vec(),
        };
        let whole = Parts { text: &text, ..parts }.to_input();
        let Some(file) = whole.as_deref().and_then(assemble) else { return };
        stores::layer(&text, file);
    }
);

/// The text with sums of batches that are right, if that is wished and possible.
fn fixed(parts: Parts<'_>) -> Option<Vec<u8>> {
    if parts.flags & BATCH_SUMS == 0 {
        return None;
    }
    let mut text: Value = serde_json::from_slice(parts.text).ok()?;
    let own = text.get_mut("nd_array")?;
    let sums: Option<Vec<Value>> = own
        .get("batches")?
        .as_array()?
        .iter()
        .map(|batch| {
            let number = |at: usize| usize::try_from(batch.get(at)?.as_u64()?).ok();
            let (start, length) = (number(0)?, number(1)?);
            let bytes = parts.index.get(start..start.checked_add(length)?)?;
            Some(Value::from(crc32fast::hash(bytes)))
        })
        .collect();
    own.as_object_mut()?.insert("batches_crc32".to_owned(), Value::Array(sums?));
    Some(text.to_string().into_bytes())
}

fn make_seeds() -> Vec<(String, Vec<u8>)> {
    let mut made = Vec::new();
    for (path, bytes) in SOUND.iter() {
        if path.as_ref().starts_with("versions") {
            let parts = Parts { flags: MANIFEST, text: bytes, slides: b"", index: b"", data: b"" };
            made.push(("manifest".to_owned(), parts.to_input().unwrap()));
            continue;
        }
        let header = iac_format::Header::parse(&bytes[..65_536], bytes.len() as u64).unwrap();
        let layout = header.layout();
        let part = |segment: iac_format::Segment| {
            let start = segment.offset as usize;
            &bytes[start..start + segment.length as usize]
        };
        let own: serde_json::Map<String, Value> = (header.members().clone().into_iter())
            .filter(|(name, _)| ["payload_type", "codec", "nd_array"].contains(&name.as_str()))
            .collect();
        let text = Value::Object(own).to_string();
        for (name, flags) in [("sums", FILL_IN | SUMS), ("batches", FILL_IN | SUMS | BATCH_SUMS)] {
            let parts = Parts {
                flags,
                text: text.as_bytes(),
                slides: part(layout.slide_table),
                index: part(layout.index_table),
                data: part(layout.data),
            };
            made.extend(parts.to_input().map(|input| (format!("layer.{name}"), input)));
        }
    }
    made
}
