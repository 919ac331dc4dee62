//! The byte picture in the page on the format: a small pack, written here and now.

use std::fs;
use std::sync::Arc;

use iatrocache::arrow_array::{ArrayRef, RecordBatch, StringArray};
use iatrocache::prelude::*;
use iatrocache::serde_json::{Map, Value};

use super::documents;

/// A pack of two notes.
fn pack() -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notes.iac");
    let patients: ArrayRef = Arc::new(StringArray::from(vec!["P1", "P2"]));
    let index = Table::from(RecordBatch::try_from_iter([("patient_id", patients)]).unwrap());
    let mut header = Map::new();
    header.insert("payload_type".to_owned(), Value::from("notes"));
    build_pack(
        &path,
        &header,
        &Table::empty(),
        &index,
        &["no findings", "seen in May"],
        &WriteOptions::new().sync(false),
    )
    .unwrap();
    fs::read(path).unwrap()
}

/// A line of the picture: at most 16 bytes in hex and as text, and what they are.
fn line(pack: &[u8], start: usize, length: usize, what: &str) -> String {
    let bytes = &pack[start..start + length];
    let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let text: String =
        bytes.iter().map(|b| if (32..127).contains(b) { char::from(*b) } else { '.' }).collect();
    format!("{start:08x}  {:<47}  {text:<16}  {what}\n", hex.join(" "))
}

fn picture(_: &str) -> String {
    let pack = pack();
    let layout = PackReader::from_bytes(pack.clone()).unwrap().layout();
    let place = |segment: iatrocache::format::Segment| {
        (usize::try_from(segment.offset).unwrap(), usize::try_from(segment.length).unwrap())
    };
    let (slides, index, data) =
        (place(layout.slide_table), place(layout.index_table), place(layout.data));
    let text = u32::from_le_bytes(pack[8..12].try_into().unwrap()) as usize;
    let mut lines = vec![
        line(&pack, 0, 8, "magic"),
        line(&pack, 8, 4, &format!("the JSON text has {text} bytes")),
        line(&pack, 12, 4, "format version 2"),
        line(&pack, 16, 16, "the JSON text, below"),
        "...\n".to_owned(),
        line(&pack, 16 + text - 2, 16, "its end; zeros from there on"),
        "...\n".to_owned(),
    ];
    for (name, (start, length)) in [("slide table", slides), ("index table", index)] {
        let message = u32::from_le_bytes(pack[start + 4..start + 8].try_into().unwrap());
        let end = end_marker(&pack[start..start + length]);
        lines.push(line(&pack, start, 4, &format!("{name}: an Arrow message begins")));
        lines.push(line(
            &pack,
            start + 4,
            4,
            &format!("its metadata has {message} bytes: the schema"),
        ));
        lines.push("...\n".to_owned());
        lines.push(line(&pack, start + end, 8, &format!("end marker of the {name}")));
        let padding = length - end - 8;
        if padding > 0 {
            let what = format!("padding, {padding} bytes: the data segment is aligned");
            lines.push(line(&pack, start + end + 8, padding.min(16), &what));
        }
    }
    let (start, length) = data;
    lines.push(line(&pack, start, 11, "data segment: record 0"));
    lines.push(line(&pack, start + 11, 11, "record 1"));
    assert_eq!((length, start + length), (22, pack.len()));
    let header = std::str::from_utf8(&pack[16..16 + text]).unwrap();
    format!("```text\n{}```\n\n```json\n{header}\n```", lines.concat())
}

/// Where the last end marker of a stream lies: zeros may follow it.
fn end_marker(stream: &[u8]) -> usize {
    stream.windows(8).rposition(|it| it == [255, 255, 255, 255, 0, 0, 0, 0]).unwrap()
}

#[test]
fn the_byte_picture_is_what_the_writer_makes() {
    assert_eq!(documents::hold("bytes", picture).len(), 1, "no byte picture");
}
