//! Header: bytes of any kind and a claimed file size never do more than fail, and whatever is read
//! can be written again as text that reads as the same.
//!
//! An input is eight bytes of file size, one byte of mode, and the rest: JSON text, a raw block, or
//! members to write.
#![no_main]

use iac_format::{Checksums, Header, HeaderFacts, Layout, build_header_text, header_block};
use iac_fuzz::{Limited, seeds};
use libfuzzer_sys::fuzz_target;
use serde_json::{Map, Value};

#[global_allocator]
static ALLOCATOR: Limited = Limited;

/// The rest of the input is the text of a header.
const TEXT: u8 = 0;
/// It is the first bytes of a file, as they lie.
const BLOCK: u8 = 1;
/// It is a JSON object of members that a writer is given.
const MEMBERS: u8 = 2;

fuzz_target!(
    init: seeds::write(make_seeds),
    |input: &[u8]| {
        let Some((size, rest)) = input.split_first_chunk::<8>() else { return };
        let Some((mode, rest)) = rest.split_first() else { return };
        let size = u64::from_le_bytes(*size);
        match mode % 3 {
            TEXT => read_text(rest, size),
            BLOCK => {
                // A reader hands over the start of the file, but the parser must not rely on it.
                if let Ok(header) = Header::parse(rest, size) {
                    write_again(&header, size);
                }
            }
            _ => write_members(rest, size),
        }
    }
);

fn read_text(text: &[u8], size: u64) {
    let Ok(text) = std::str::from_utf8(text) else { return };
    let from_text = Header::from_text(text, size);
    // Through a block it must come to the same, where the text fits and the file is long enough.
    if let Ok(block) = header_block(text)
        && size >= 65_536
    {
        match (&from_text, Header::parse(&block, size)) {
            (Ok(a), Ok(b)) => {
                assert_eq!(
                    (a.members(), a.layout(), a.text()),
                    (b.members(), b.layout(), b.text())
                );
            }
            (Err(a), Err(b)) => assert_eq!(a.to_string(), b.to_string()),
            (a, b) => panic!("{a:?} from text, {b:?} from a block"),
        }
    }
    match (&from_text, Header::from_damaged_text(text, size)) {
        (Ok(header), Ok((damaged, damage))) => {
            assert!(damage.is_empty(), "{damage:?}");
            assert_eq!((damaged.members(), damaged.layout()), (header.members(), header.layout()));
        }
        (Ok(_), Err(error)) => panic!("sound, but not when damage is allowed: {error}"),
        (Err(_), Ok((damaged, damage))) => {
            assert!(!damage.is_empty());
            assert!(damaged.layout().end() <= size);
        }
        (Err(_), Err(_)) => {}
    }
    if let Ok(header) = from_text {
        write_again(&header, size);
    }
}

fn write_again(header: &Header, size: u64) {
    let layout = header.layout();
    assert!(layout.end() <= size);
    let fixed = header.fixed_shape();
    assert_eq!(header.claims_fixed_shape(), !matches!(fixed, Ok(None)));
    let _ = (header.extensions(), header.required_extensions(), header.payload_type());
    let (Ok(num_slides), Ok(num_records)) = (header.num_slides(), header.num_records()) else {
        return;
    };
    let checksums = header.checksums();
    let facts = HeaderFacts { layout, num_slides, num_records, checksums };
    // What is refused here: more text than fits, and what stands in the place of sums.
    let Ok(text) = build_header_text(header.members(), &facts) else { return };
    let again = Header::from_text(text.as_str(), size).unwrap();
    assert_eq!(again.layout(), layout);
    assert_eq!(again.num_slides().unwrap(), num_slides);
    assert_eq!(again.num_records().unwrap(), num_records);
    assert_eq!(again.fixed_shape().ok(), fixed.ok());
    let sums_of_parts =
        |sums: Checksums| (sums.slide_table, sums.index_table, sums.data, sums.rows);
    assert_eq!(again.checksums().map(sums_of_parts), checksums.map(sums_of_parts));
    let others = |members: &Map<String, Value>| {
        let mut members = members.clone();
        for name in ["format", "version", "num_slides", "num_records", "checksums", "extensions"] {
            members.remove(name);
        }
        members
    };
    assert_eq!(others(again.members()), others(header.members()));
    let facts = HeaderFacts { checksums: again.checksums(), ..facts };
    assert_eq!(build_header_text(again.members(), &facts).unwrap(), text);
}

fn write_members(json: &[u8], numbers: u64) {
    let Ok(members) = serde_json::from_slice::<Map<String, Value>>(json) else { return };
    let [a, b, c, d, e, f, g, h] = numbers.to_le_bytes().map(u64::from);
    let Ok(layout) = Layout::new(a << (b % 48), c << (d % 48), e << (f % 48)) else { return };
    let sums = Checksums::of_tables(g as u32 * 7, h as u32 * 11);
    let checksums = match g % 4 {
        0 => None,
        1 => Some(sums),
        2 => Some(sums.with_rows()),
        _ => Some(sums.with_data(5)),
    };
    let facts = HeaderFacts { layout, num_slides: a * b, num_records: c * d * e, checksums };
    let Ok(text) = build_header_text(&members, &facts) else { return };
    let header = Header::from_text(text.as_str(), layout.end()).unwrap();
    assert_eq!(header.layout(), layout);
    assert_eq!(header.checksums().is_some(), checksums.is_some());
    write_again(&header, layout.end());
    if layout.end() > 0 {
        assert!(Header::from_text(text.as_str(), layout.end() - 1).is_err());
    }
}

fn make_seeds() -> Vec<(String, Vec<u8>)> {
    let mut made = Vec::new();
    for pack in seeds::packs().into_iter().filter(|pack| pack.text.len() < 4096) {
        let size = pack.file_len.to_le_bytes();
        let block = header_block(&pack.text).unwrap();
        let modes = [
            (TEXT, "text", pack.text.as_bytes()),
            (BLOCK, "block", &block[..pack.text.len() + 16]),
            (MEMBERS, "members", pack.text.as_bytes()),
        ];
        for (mode, what, rest) in modes {
            made.push((format!("{}.{what}", pack.name), [&size, &[mode][..], rest].concat()));
        }
        if pack.name.starts_with("fixed") || pack.name.starts_with("header") {
            let facts = HeaderFacts {
                layout: Layout::new(pack.slides.len() as u64, 0, 0).unwrap(),
                num_slides: 1,
                num_records: 0,
                checksums: Some(Checksums::of_tables(1, 2).with_data(3)),
            };
            let text = build_header_text(&pack.members, &facts).unwrap();
            made.push((
                format!("{}.sums", pack.name),
                [&size, &[TEXT][..], text.as_bytes()].concat(),
            ));
        }
    }
    made
}
