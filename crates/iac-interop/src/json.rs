//! The JSON form in which headers and records are compared (see `python/wire.py`).

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

/// A header value with every number that is no 64-bit integer as `{"$f64": bits in hex}`.
///
/// # Panics
///
/// When a number is no double either.
#[must_use]
pub fn header_value(value: &Value) -> Value {
    match value {
        Value::Number(number) if number.is_u64() || number.is_i64() => value.clone(),
        Value::Number(number) => {
            let double = number.as_f64().expect("a number is an integer or a double");
            json!({ "$f64": format!("{:016x}", double.to_bits()) })
        }
        Value::Array(items) => Value::Array(items.iter().map(header_value).collect()),
        Value::Object(members) => header_members(members),
        Value::Null | Value::Bool(_) | Value::String(_) => value.clone(),
    }
}

/// The same for the members of an object.
#[must_use]
pub fn header_members(members: &Map<String, Value>) -> Value {
    let pairs = members.iter().map(|(name, member)| (name.clone(), header_value(member)));
    Value::Object(pairs.collect())
}

/// The reverse of [`header_value`].
///
/// # Panics
///
/// When the bits are no finite double.
#[must_use]
pub fn plain_value(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            if let (1, Some(Value::String(bits))) = (members.len(), members.get("$f64")) {
                let bits = u64::from_str_radix(bits, 16).expect("16 hex digits");
                return json!(f64::from_bits(bits));
            }
            let pairs = members.iter().map(|(k, v)| (k.clone(), plain_value(v)));
            Value::Object(pairs.collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(plain_value).collect()),
        other => other.clone(),
    }
}

/// SHA-256 in hex.
#[must_use]
pub fn sha256(data: &[u8]) -> String {
    hex(&Sha256::digest(data))
}

/// Lower-case hex digits of some bytes.
#[must_use]
pub fn hex(data: &[u8]) -> String {
    data.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What one record is compared by: `{"bytes", "sha256"}`.
#[must_use]
pub fn sum(record: &[u8]) -> Value {
    json!({ "bytes": record.len(), "sha256": sha256(record) })
}

/// The same for several records.
pub fn sums<R: AsRef<[u8]>>(records: impl IntoIterator<Item = R>) -> Value {
    records.into_iter().map(|record| sum(record.as_ref())).collect()
}

/// Rows in an order that is not the stored one, some of them twice: what `read_pack.py` asks for.
#[must_use]
pub fn shuffled(count: u64) -> Vec<u64> {
    let mut rows: Vec<u64> = (0..count).map(|i| (i * 7 + 3) % count).collect();
    let again: Vec<u64> = rows.iter().copied().take(5).collect();
    rows.extend(again);
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_are_no_64_bit_integers_become_bits_and_back() {
        let value = json!({"a": [1, -1, u64::MAX, 1.5, {"b": -0.0}], "c": null});
        let bits = header_value(&value);
        let expected = json!({"a": [1, -1, u64::MAX, {"$f64": "3ff8000000000000"},
            {"b": {"$f64": "8000000000000000"}}], "c": null});
        assert_eq!(bits, expected);
        assert_eq!(header_value(&plain_value(&bits)), bits);
    }

    #[test]
    fn sums_name_length_and_digest() {
        let digest = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(sum(b""), json!({ "bytes": 0, "sha256": digest }));
    }
}
