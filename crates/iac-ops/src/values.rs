//! Decoded records as JSON text.

use std::fmt::Write;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use iac_codec::half::f16;
use serde_json::json;

use crate::decode::{Decoded, DecodedKind};

impl Decoded {
    /// The record as one line of JSON.
    ///
    /// `{"row","kind","shape","dtype"}` and `data`, the elements in one list, row-major; complex
    /// ones are pairs, and what is no finite number is null. Records of bytes have `text` in place
    /// of `data` where they are UTF-8, and `base64` where they are not.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut line = json!({
            "row": self.row,
            "kind": self.kind,
            "shape": self.shape,
            "dtype": self.dtype,
        })
        .to_string();
        // The members so far, without the brace behind them.
        line.pop();
        if self.kind == DecodedKind::Bytes {
            let member = match std::str::from_utf8(&self.bytes) {
                Ok(text) => format!(",\"text\":{}}}", json!(text)),
                Err(_) => format!(",\"base64\":\"{}\"}}", BASE64_STANDARD.encode(&self.bytes)),
            };
            line.push_str(&member);
            return line;
        }
        line.push_str(",\"data\":[");
        self.write_elements(&mut line);
        line.push_str("]}");
        line
    }

    fn write_elements(&self, line: &mut String) {
        match self.dtype {
            "bool" => list(line, &self.bytes, |[byte]: [u8; 1]| (byte != 0).to_string()),
            "int8" => list(line, &self.bytes, |bytes| i8::from_le_bytes(bytes).to_string()),
            "int16" => list(line, &self.bytes, |bytes| i16::from_le_bytes(bytes).to_string()),
            "int32" => list(line, &self.bytes, |bytes| i32::from_le_bytes(bytes).to_string()),
            "int64" => list(line, &self.bytes, |bytes| i64::from_le_bytes(bytes).to_string()),
            "uint16" => list(line, &self.bytes, |bytes| u16::from_le_bytes(bytes).to_string()),
            "uint32" => list(line, &self.bytes, |bytes| u32::from_le_bytes(bytes).to_string()),
            "uint64" => list(line, &self.bytes, |bytes| u64::from_le_bytes(bytes).to_string()),
            "float16" => list(line, &self.bytes, |bytes| single(f16::from_le_bytes(bytes).into())),
            "float32" => list(line, &self.bytes, |bytes| single(f32::from_le_bytes(bytes))),
            "float64" => list(line, &self.bytes, |bytes| double(f64::from_le_bytes(bytes))),
            "complex64" => list(line, &self.bytes, |bytes: [u8; 8]| {
                let [real, imaginary] = halves(bytes).map(|part| single(f32::from_le_bytes(part)));
                format!("[{real},{imaginary}]")
            }),
            "complex128" => list(line, &self.bytes, |bytes: [u8; 16]| {
                let [real, imaginary] = halves(bytes).map(|part| double(f64::from_le_bytes(part)));
                format!("[{real},{imaginary}]")
            }),
            _ => list(line, &self.bytes, |[byte]: [u8; 1]| byte.to_string()),
        }
    }
}

fn list<const N: usize>(line: &mut String, bytes: &[u8], text: impl Fn([u8; N]) -> String) {
    let (elements, _) = bytes.as_chunks::<N>();
    let mut separator = "";
    for element in elements {
        // Writing to a text cannot fail.
        let _ = write!(line, "{separator}{}", text(*element));
        separator = ",";
    }
}

fn halves<const N: usize, const M: usize>(bytes: [u8; N]) -> [[u8; M]; 2] {
    let (parts, _) = bytes.as_chunks::<M>();
    match parts {
        [first, second, ..] => [*first, *second],
        _ => [[0; M]; 2],
    }
}

/// The shortest digits that read back equal.
fn single(value: f32) -> String {
    if value.is_finite() { format!("{value:?}") } else { "null".to_owned() }
}

fn double(value: f64) -> String {
    if value.is_finite() { format!("{value:?}") } else { "null".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use serde_json::Value;

    fn record(kind: DecodedKind, dtype: &'static str, bytes: &[u8]) -> Decoded {
        Decoded { row: 3, kind, shape: vec![2], dtype, bytes: Bytes::copy_from_slice(bytes) }
    }

    fn data(dtype: &'static str, bytes: &[u8]) -> Value {
        let line = record(DecodedKind::Vector, dtype, bytes).to_json();
        let value: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(value["row"], 3);
        value["data"].clone()
    }

    #[test]
    fn elements_of_every_type_are_numbers() {
        assert_eq!(data("uint8", &[0, 255]), json!([0, 255]));
        assert_eq!(data("int8", &[0, 255]), json!([0, -1]));
        assert_eq!(data("bool", &[0, 1]), json!([false, true]));
        assert_eq!(data("int16", &[0, 0x80, 1, 0]), json!([-32_768, 1]));
        assert_eq!(data("uint64", &[255; 8]), json!([u64::MAX]));
        assert_eq!(data("float16", &[0, 0x3C, 0, 0x7C]), json!([1.0, null]));
        let line = record(DecodedKind::Vector, "float32", &0.1_f32.to_le_bytes()).to_json();
        assert!(line.ends_with(",\"data\":[0.1]}"), "{line}");
        let large = [1e30_f64.to_le_bytes(), f64::NAN.to_le_bytes()].concat();
        assert_eq!(data("float64", &large), json!([1e30, null]));
        assert_eq!(data("complex128", &large), json!([[1e30, null]]));
    }

    #[test]
    fn bytes_are_text_where_they_can_be() {
        let line = record(DecodedKind::Bytes, "uint8", "a \"b\"\n".as_bytes()).to_json();
        let value: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(value["text"], "a \"b\"\n");
        let line = record(DecodedKind::Bytes, "uint8", &[0xFF, 0]).to_json();
        let value: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(value["base64"], "/wA=");
    }
}
