//! Memory that records, manifests and columns which lie make a reader take. One test, as others
//! would be counted too.
#![cfg(feature = "text")]
#![allow(unsafe_code)] // an allocator that remembers
#![allow(clippy::unwrap_used, clippy::panic, clippy::arithmetic_side_effects, missing_docs)]

#[path = "../../iac-codec/tests/common/watched.rs"]
mod watched;

use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringArray, UInt64Array};
use iac_adapters::text::{
    ClinicalTextReader, PatientText, TEXT_COLUMNS_EXTENSION, TextReadOptions, encode_block,
};
use iac_codec::brotli::BrotliOptions;
use iac_codec::zstd::ZstdOptions;
use iac_codec::{Codec, Limits};
use iac_format::ErrorKind;
use iac_reader::PackReader;
use iac_writer::{Table, VariablePackBuilder, WriteOptions};
use serde_json::json;
use watched::largest_in;

/// A pack with these blocks, and what its index says of their sizes.
fn pack(path: &Path, codec: Codec, blocks: &[Vec<u8>], sizes: &[Option<u64>]) -> PackReader {
    let ids = (0..blocks.len()).map(|row| format!("P{row}"));
    let ids: ArrayRef = Arc::new(StringArray::from_iter_values(ids));
    let sizes: ArrayRef = Arc::new(UInt64Array::from(sizes.to_vec()));
    let index = RecordBatch::try_from_iter([("patient_id", ids), ("raw_bytes", sizes)]).unwrap();
    let header = json!({ "extensions": [TEXT_COLUMNS_EXTENSION] });
    VariablePackBuilder::new("clinical_text", Table::from(index))
        .header(header.as_object().unwrap().clone())
        .codec(codec)
        .options(WriteOptions::new().sync(false).overwrite(true))
        .build(path, blocks)
        .unwrap();
    PackReader::open(path).unwrap()
}

#[test]
fn nothing_is_taken_on_the_word_of_a_record_a_manifest_or_a_column() {
    const MIB: usize = 1 << 20;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.iac");
    let sound = encode_block(&PatientText::new("P")).unwrap();
    let size = u64::try_from(sound.len()).unwrap();
    let mut bomb = sound.clone();
    bomb.resize(40 * MIB, b'x');
    let mut lying = sound.clone();
    lying.splice(..4, 0xF000_0000_u32.to_le_bytes());
    let blocks = [
        sound.clone(),
        sound.clone(),
        sound.clone(),
        sound.clone(),
        sound.clone(),
        sound.clone(),
        bomb.clone(),
        bomb,
        lying,
    ];
    let mib = |count: usize| u64::try_from(count * MIB).unwrap();
    let sizes = [
        Some(size),
        None,
        Some(size - 1),
        Some(size + 1),
        Some(900 << 20),
        Some(u64::MAX),
        Some(size),
        None,
        Some(size),
    ];
    for codec in [
        BrotliOptions::default().with_quality(2).codec().unwrap(),
        ZstdOptions::new(1).codec().unwrap(),
    ] {
        // A stream of Brotli asks for a window of 16 MiB and a little at most.
        let window = if codec.name() == "brotli" { 17 * MIB } else { 9 * MIB };
        let pack = pack(&path, codec.clone(), &blocks, &sizes);
        let limits = Limits::default().with_max_decoded_bytes(mib(8));
        let open = |limits| {
            let options = TextReadOptions::default().limits(limits);
            ClinicalTextReader::from_reader(pack.clone(), options).unwrap()
        };
        let (reader, wide) = (open(limits), open(Limits::default()));
        for row in [0, 1] {
            assert_eq!(reader.read_at(row).unwrap().patient_id, "P");
            assert_eq!(reader.read_manifest_at(row).unwrap().patient_id, "P");
        }
        for (row, kinds) in [
            (2, [ErrorKind::Decode; 2]),
            (3, [ErrorKind::Decode; 2]),
            (4, [ErrorKind::Limit, ErrorKind::Decode]),
            (5, [ErrorKind::Limit; 2]),
            (6, [ErrorKind::Decode; 2]),
        ] {
            for (reader, kind) in [&reader, &wide].into_iter().zip(kinds) {
                let (result, largest) = largest_in(|| reader.read_at(row));
                let error = result.unwrap_err();
                let name = codec.name();
                // Zstandard's own claim comes first.
                let by_codec = name == "zstd" && row >= 4;
                assert!(error.kind() == kind || by_codec, "{name}, row {row}: {error}");
                assert!(largest <= window, "{name}, row {row}: {largest}");
            }
        }
        // What has no size in the index has the limits.
        let (result, largest) = largest_in(|| reader.read_at(7));
        assert_eq!(result.unwrap_err().kind(), ErrorKind::Limit);
        assert!(largest <= window, "{largest}");
        for reader in [&reader, &wide] {
            let (result, largest) = largest_in(|| reader.read_manifest_at(8));
            assert_eq!(result.unwrap_err().kind(), ErrorKind::Schema);
            assert!(largest <= window, "{largest}");
            let (result, largest) = largest_in(|| reader.read_doc(8, 0));
            assert_eq!(result.unwrap_err().kind(), ErrorKind::Schema);
            assert!(largest <= window, "{largest}");
        }
    }

    // Texts that lie one over the other: 8 GiB of them in a block of a megabyte.
    let doc = r#"{"doc_id": "x", "offset": 0, "length": 1000000}"#;
    let manifest = format!("{{\"docs\": [{}]}}", vec![doc; 8600].join(", "));
    let mut block = u32::try_from(manifest.len()).unwrap().to_le_bytes().to_vec();
    block.extend_from_slice(manifest.as_bytes());
    block.extend_from_slice(&vec![b'x'; 1_000_000]);
    // And documents that have next to nothing but their number.
    let doc = r#"{"doc_id":"","offset":0,"length":0}"#;
    let manifest = format!("{{\"docs\": [{}]}}", vec![doc; 60_000].join(","));
    let mut many = u32::try_from(manifest.len()).unwrap().to_le_bytes().to_vec();
    many.extend_from_slice(manifest.as_bytes());
    let codec = BrotliOptions::default().with_quality(2).codec().unwrap();
    let pack = pack(&path, codec, &[block, many], &[None, None]);
    let limits = Limits::default().with_max_decoded_bytes(mib(4));
    for (row, limits) in [(0, Limits::default()), (0, limits), (1, limits)] {
        let options = TextReadOptions::default().limits(limits);
        let reader = ClinicalTextReader::from_reader(pack.clone(), options).unwrap();
        let (result, largest) = largest_in(|| reader.read_at(row));
        let error = result.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Limit, "row {row}: {error}");
        assert!(largest <= 17 * MIB, "row {row}: {largest}");
    }
    // Members whose values are not what they should be are not kept: this one has 4 MiB, and would
    // take 128 MiB.
    let long = format!("[{}0]", "0,".repeat(2 * MIB));
    let manifest = format!("{{\"docs\": [], \"text_schema_version\": {long}}}");
    let mut block = u32::try_from(manifest.len()).unwrap().to_le_bytes().to_vec();
    block.extend_from_slice(manifest.as_bytes());
    let other = folder.path().join("b.iac");
    let codec = BrotliOptions::default().with_quality(2).codec().unwrap();
    let lengthy = self::pack(&other, codec, &[block], &[None]);
    let reader = ClinicalTextReader::from_reader(lengthy, TextReadOptions::default()).unwrap();
    let (result, largest) = largest_in(|| reader.read_manifest_at(0));
    assert_eq!(result.unwrap().version, None);
    assert!(largest <= 17 * MIB, "{largest}");

    let reader = ClinicalTextReader::from_reader(pack, TextReadOptions::default()).unwrap();
    assert_eq!(reader.read_doc(0, 8599).unwrap().text.len(), 1_000_000);
    assert_eq!(reader.read_at(1).unwrap().docs.len(), 60_000);
}
