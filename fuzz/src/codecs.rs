//! What the targets for byte codecs share.

use iac_codec::{Codec, CodecError, CodecErrorKind, Limits};

use crate::seeds;

/// Bytes that records may decode to, so that a run does not spend its time on bombs.
pub const MOST: u64 = 4 << 20;

/// The limits that go with it.
pub fn limits() -> Limits {
    Limits::default().with_max_decoded_bytes(MOST)
}

/// Decodes a payload in every way; all ways must agree, and stay within the limit.
pub fn decode(codec: &Codec, payload: &[u8]) -> Result<Vec<u8>, CodecError> {
    let limits = limits();
    let decoded = codec.decode_bytes(payload, &limits);
    let mut joined = b"kept".to_vec();
    let appended = codec.decode_bytes_append(payload, &mut joined, &limits);
    assert_eq!(&joined[..4], b"kept");
    match &decoded {
        Ok(record) => {
            appended.unwrap();
            assert_eq!(&joined[4..], record);
            assert!(record.len() as u64 <= MOST);
            let mut out = vec![0xA5; record.len()];
            codec.decode_bytes_into(payload, &mut out, &limits).unwrap();
            assert_eq!(&out, record);
            if let Some(len) = codec.decoded_len(payload).unwrap() {
                assert_eq!(len, record.len() as u64);
            }
            out.push(0);
            if record.len() as u64 != MOST {
                let error = codec.decode_bytes_into(payload, &mut out, &limits).unwrap_err();
                assert!(matches!(error, CodecError::OutputSize { .. }), "{error}");
            }
            if record.len() > 1 {
                out.truncate(record.len() - 1);
                let error = codec.decode_bytes_into(payload, &mut out, &limits).unwrap_err();
                assert_eq!(error.kind(), CodecErrorKind::Decode);
            }
        }
        Err(error) => {
            // Which fault of several is named may differ: the Zstandard library looks in another
            // order when it has not used a dictionary for a while.
            for error in [error, &appended.unwrap_err()] {
                assert!(matches!(error.kind(), CodecErrorKind::Decode | CodecErrorKind::Limit));
            }
            assert_eq!(joined, b"kept");
            codec.decode_bytes_into(payload, &mut [0; 64], &limits).unwrap_err();
        }
    }
    decoded
}

/// Encodes and decodes a record.
pub fn round_trip(codec: &Codec, record: &[u8]) {
    let payload = codec.encode_bytes(record).unwrap();
    assert_eq!(codec.decode_bytes(&payload, &limits()).unwrap(), record);
}

/// Payloads of golden files and bad ones, and of some records.
pub fn seeds(codec: &Codec) -> Vec<(String, Vec<u8>)> {
    let mut made = payloads(codec.name());
    for (name, record) in [
        ("empty", Vec::new()),
        ("text", b"received in formalin, ".repeat(20)),
        ("zeros", vec![0; 100_000]),
        ("steps", (0u8..=255).cycle().take(3000).map(|byte| byte ^ (byte >> 3)).collect()),
    ] {
        made.push((name.to_owned(), codec.encode_bytes(&record).unwrap()));
    }
    made
}

/// Payloads of golden files and bad ones whose codec has that name.
pub fn payloads(codec: &str) -> Vec<(String, Vec<u8>)> {
    let mut made = Vec::new();
    for pack in seeds::packs() {
        if pack.members.get("codec").and_then(|name| name.as_str()) != Some(codec) {
            continue;
        }
        let mut rest = pack.data.as_slice();
        for (row, length) in lengths(&pack).into_iter().enumerate() {
            let Some(payload) = rest.split_off(..length) else { break };
            made.push((format!("{}.{row}", pack.name), payload.to_vec()));
        }
    }
    made
}

/// Sizes of the records, which lie one behind the other in these files.
fn lengths(pack: &seeds::Pack) -> Vec<usize> {
    use arrow_array::cast::AsArray as _;
    let stream = bytes::Bytes::copy_from_slice(&pack.index);
    let Ok(reader) = arrow_ipc::reader::StreamReader::try_new(std::io::Cursor::new(stream), None)
    else {
        return Vec::new();
    };
    let mut lengths = Vec::new();
    for batch in reader.map_while(Result::ok) {
        let Some(column) = batch.column_by_name("length") else { break };
        let Some(column) = column.as_primitive_opt::<arrow_array::types::UInt32Type>() else {
            break;
        };
        lengths.extend(column.values().iter().map(|length| *length as usize));
    }
    lengths
}
