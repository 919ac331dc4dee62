//! The reference and we write the same header text for the same members, byte for byte.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use iac_format::{Header, HeaderFacts, Layout, build_header_text, header_block};
use iac_interop::json::{header_members, plain_value};
use iac_interop::reference;
use serde_json::{Map, Value};

/// What the container adds to the members, as it stands in a text of the reference.
fn facts(text: &str) -> HeaderFacts {
    let stored: Map<String, Value> = serde_json::from_str(text).unwrap();
    let number = |name: &str| stored[name].as_u64().unwrap();
    HeaderFacts {
        layout: Layout::new(
            number("slide_table_length"),
            number("index_table_length"),
            number("data_length"),
        )
        .unwrap(),
        num_slides: number("num_slides"),
        num_records: number("num_records"),
        checksums: None,
    }
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        other => panic!("{other} is no object"),
    }
}

#[test]
fn random_headers_have_the_text_that_the_reference_writes() {
    for seed in ["1", "20260101"] {
        let lines = reference::run_json("header_texts.py", &[seed, "200"], "");
        assert!(lines.len() > 150, "only {} headers fitted", lines.len());
        for line in lines {
            let theirs = line["text"].as_str().unwrap();
            let members = object(plain_value(&line["members"]));
            let facts = facts(theirs);
            assert_eq!(build_header_text(&members, &facts).unwrap(), theirs);

            let block = header_block(theirs).unwrap();
            let header = Header::parse(&block, facts.layout.end()).unwrap();
            let mut read = object(header_members(header.members()));
            read.retain(|name, _| line["members"].get(name).is_some());
            assert_eq!(Value::Object(read), line["members"]);
        }
    }
}

#[test]
fn headers_of_packs_are_the_same_text_when_made_from_their_members() {
    let folder = tempfile::tempdir().unwrap();
    for pack in reference::write_packs(folder.path()) {
        let theirs = pack.expected["header_text"].as_str().unwrap();
        let members = object(plain_value(&pack.expected["header"]));
        let ours = build_header_text(&members, &facts(theirs)).unwrap();
        assert_eq!(ours, theirs, "{}", pack.name);
    }
}
