//! Records come back as they were, for every codec and from every thread.
#![allow(missing_docs, clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]
#![allow(clippy::arithmetic_side_effects, clippy::cast_possible_truncation)]

mod common;

use common::{codecs, noise, note};
use iac_codec::{Codec, Limits, Registry};
use proptest::prelude::*;

fn round_trip(name: &str, codec: &Codec, record: &[u8]) {
    let limits = Limits::default();
    let payload = codec.encode_bytes(record).unwrap();
    assert_eq!(codec.decode_bytes(&payload, &limits).unwrap(), record, "{name}");
    let mut out = vec![7; record.len()];
    codec.decode_bytes_into(&payload, &mut out, &limits).unwrap();
    assert_eq!(out, record, "{name}");
    if let Some(len) = codec.decoded_len(&payload).unwrap() {
        assert_eq!(len, record.len() as u64, "{name}");
    }
    // A codec made from the header reads it as well.
    let again = Registry::builtin().create_encoder(&codec.spec()).unwrap();
    assert_eq!(again.spec(), codec.spec());
    assert_eq!(again.required_extensions(), codec.required_extensions());
    assert_eq!(again.decode_bytes(&payload, &limits).unwrap(), record, "{name}");
}

/// Stretches of noise, of repetition and of text.
fn record() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..300),
        (any::<u8>(), 0usize..5000).prop_map(|(byte, count)| vec![byte; count]),
        any::<u32>().prop_map(|number| note(number).into_bytes()),
    ];
    prop::collection::vec(piece, 0..4).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..Default::default() })]

    #[test]
    fn any_record_comes_back(record in record()) {
        for (name, codec) in codecs() {
            round_trip(&name, &codec, &record);
        }
    }
}

#[test]
fn records_around_the_sizes_of_buffers_come_back() {
    let noise = noise(300_000);
    let text: Vec<u8> = (0..800).flat_map(|n| note(n).into_bytes()).collect();
    for (name, codec) in codecs() {
        for length in [0, 1, 2, 255, 256, 257, 65_535, 65_536, 131_071, 131_072, 131_073, 262_145] {
            round_trip(&name, &codec, &noise[..length]);
            round_trip(&name, &codec, &text[..length]);
        }
    }
}

#[test]
fn threads_share_a_codec() {
    let codecs = codecs();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let codecs = &codecs;
            scope.spawn(move || {
                for number in 0..60 {
                    // Each thread goes through the codecs in its own order.
                    for turn in 0..codecs.len() {
                        let (name, codec) = &codecs[(turn * 7 + thread * 3) % codecs.len()];
                        if name.contains("11") {
                            continue;
                        }
                        let record = note(number * 10 + thread as u32);
                        let payload = codec.encode_bytes(record.as_bytes()).unwrap();
                        let limits = Limits::default();
                        let broken = codec.decode_bytes(&payload[..payload.len() / 2], &limits);
                        assert!(broken.is_err() || codec.is_identity());
                        let decoded = codec.decode_bytes(&payload, &limits).unwrap();
                        assert_eq!(decoded, record.as_bytes(), "{name}");
                    }
                }
            });
        }
    });
}

#[test]
fn a_codec_still_works_while_its_thread_ends() {
    use std::cell::RefCell;
    struct AtEnd(Codec);
    impl Drop for AtEnd {
        fn drop(&mut self) {
            let payload = self.0.encode_bytes(b"late").unwrap();
            assert_eq!(self.0.decode_bytes(&payload, &Limits::default()).unwrap(), b"late");
        }
    }
    thread_local!(static AT_END: RefCell<Option<AtEnd>> = const { RefCell::new(None) });
    for (_, codec) in codecs() {
        std::thread::spawn(move || {
            AT_END.with(|cell| *cell.borrow_mut() = Some(AtEnd(codec.clone())));
            codec.encode_bytes(b"early").unwrap();
        })
        .join()
        .unwrap();
    }
}
