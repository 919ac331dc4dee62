//! Large values, which lie in the data segment instead of the metadata.
//!
//! A value is named by the SHA-256 of its bytes, so that equal ones are stored once, whatever
//! objects hold them.

use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use iac_codec::{Codec, Limits};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use super::spool::SharedSpool;
use crate::dicom::fault::{Fault, Result};
use crate::dicom::pixels;

/// Values of more bytes go to the data segment.
pub(crate) const BULK_BYTES: usize = 1024;
/// What stands before the hash in the metadata.
pub(crate) const SCHEME: &str = "sha256:";

/// The hash of a value, and its name.
pub(crate) fn name_of(bytes: &[u8]) -> ([u8; 32], String) {
    let hash: [u8; 32] = Sha256::digest(bytes).into();
    let mut name = SCHEME.to_owned();
    for byte in hash {
        name.push_str(&format!("{byte:02x}"));
    }
    (hash, name)
}

/// The hash that a name stands for.
pub(crate) fn hash_of(name: &str) -> Option<[u8; 32]> {
    let digits = name.strip_prefix(SCHEME).filter(|digits| digits.len() == 64)?;
    let mut hash = [0; 32];
    for (byte, pair) in hash.iter_mut().zip(digits.as_bytes().chunks(2)) {
        let pair = str::from_utf8(pair).ok()?;
        *byte = u8::from_str_radix(pair, 16).ok()?;
    }
    Some(hash)
}

/// Puts large values aside while metadata is made.
pub(crate) struct BulkWriter<'a> {
    pub(crate) spool: &'a SharedSpool,
    pub(crate) codec: &'a Codec,
    /// Hashes in the order of their first use.
    pub(crate) used: Vec<[u8; 32]>,
}

impl BulkWriter<'_> {
    /// Keeps a value, and gives its name.
    pub(crate) fn put(&mut self, bytes: &[u8]) -> Result<String> {
        let (hash, name) = name_of(bytes);
        if !self.spool.has_bulk(&hash) {
            let compressed =
                self.codec.encode_bytes(bytes).map_err(|error| pixels::of_codec(&error))?;
            let size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
            self.spool.add_bulk(hash, &compressed, size)?;
        }
        self.used.push(hash);
        Ok(name)
    }

    /// Takes the large values out of the JSON of an element.
    pub(crate) fn extract_text(&mut self, json: &mut String) -> Result<()> {
        if json.len() <= BULK_BYTES || !json.contains("InlineBinary") {
            return Ok(());
        }
        let Ok(mut value) = parse(json) else {
            return Ok(());
        };
        if self.extract(&mut value)? {
            *json = value.to_string();
        }
        Ok(())
    }

    /// The same for JSON that was parsed. Says whether there were any.
    pub(crate) fn extract(&mut self, value: &mut Value) -> Result<bool> {
        let mut found = false;
        match value {
            Value::Array(values) => {
                for value in values {
                    found |= self.extract(value)?;
                }
            }
            Value::Object(members) => {
                found |= self.extract_element(members)?;
                for value in members.values_mut() {
                    found |= self.extract(value)?;
                }
            }
            _ => {}
        }
        Ok(found)
    }

    fn extract_element(&mut self, members: &mut Map<String, Value>) -> Result<bool> {
        let Some(Value::String(text)) = members.get("InlineBinary") else {
            return Ok(false);
        };
        if (text.len() / 4).saturating_mul(3) <= BULK_BYTES {
            return Ok(false);
        }
        let Ok(bytes) = BASE64.decode(text) else {
            return Ok(false);
        };
        let name = self.put(&bytes)?;
        members.remove("InlineBinary");
        members.insert("BulkDataURI".to_owned(), name.into());
        Ok(true)
    }
}

fn parse(json: &str) -> serde_json::Result<Value> {
    let mut reader = serde_json::Deserializer::from_str(json);
    reader.disable_recursion_limit();
    serde::Deserialize::deserialize(&mut reader)
}

/// Where a value lies in the data segment: offset, length, and size before compression.
pub(crate) type BulkPlace = (u64, u64, u64);

/// The table of a pack's large values, as JSON.
pub(crate) fn table_json(places: &[([u8; 32], BulkPlace)]) -> String {
    let mut members = Map::new();
    for (hash, (offset, length, size)) in places {
        let mut name = String::new();
        for byte in hash {
            name.push_str(&format!("{byte:02x}"));
        }
        members.insert(name, serde_json::json!([offset, length, size]));
    }
    Value::Object(members).to_string()
}

/// Reads the table again.
pub(crate) fn parse_table(json: &[u8], max_bytes: u64) -> Result<HashMap<[u8; 32], BulkPlace>> {
    let bad = || Fault::decode("the table of large values is damaged");
    crate::dicom::document::check_extent(json, max_bytes)?;
    let value: Value = serde_json::from_slice(json).map_err(|_| bad())?;
    let members = value.as_object().ok_or_else(bad)?;
    let mut places = HashMap::with_capacity(members.len());
    for (name, place) in members {
        let hash = hash_of(&format!("{SCHEME}{name}")).ok_or_else(bad)?;
        let number = |position: usize| place.get(position).and_then(Value::as_u64).ok_or_else(bad);
        places.insert(hash, (number(0)?, number(1)?, number(2)?));
    }
    Ok(places)
}

/// Decompresses a value, and compares it with its name where that is wanted.
pub(crate) fn unpack(
    stored: &[u8],
    size: u64,
    hash: &[u8; 32],
    codec: &Codec,
    check: bool,
    most: u64,
) -> Result<Bytes> {
    let limits = Limits::default().with_max_decoded_bytes(most.min(size));
    let bytes = codec.decode_bytes(stored, &limits).map_err(|error| pixels::of_codec(&error))?;
    let found: [u8; 32] = if check { Sha256::digest(&bytes).into() } else { *hash };
    if found != *hash {
        return Err(Fault::decode("a large value has another hash than its name says"));
    }
    Ok(bytes.into())
}
