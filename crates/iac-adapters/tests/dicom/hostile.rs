//! Input that is cut, lies, or is nested without end.
//!
//! `IAC_FLIPS=full` gives altered bytes every value that is tried, and otherwise one of them.

use std::path::Path;

use bytes::Bytes;
use iac_adapters::dicom::{
    Attributes, DicomFile, DicomInput, DicomInputs, DicomPackBuilder, DicomPackReader, Element,
    ElementValue, OnBadInput, Tag,
};
use iac_format::ErrorKind;

use crate::support::{data, has_codec};

fn read(case: &str) -> Vec<u8> {
    std::fs::read(data().join(case).join("in/00.dcm")).unwrap()
}

fn parse(bytes: &[u8]) -> Result<DicomFile, iac_adapters::AdapterError> {
    DicomFile::parse(&Bytes::copy_from_slice(bytes), "hostile.dcm")
}

#[test]
fn every_cut_of_small_objects_is_an_error_or_a_shorter_object() {
    for case in ["ct_series", "private_and_all_vrs", "mr_two_series_implicit", "src_rle_u16"] {
        let whole = read(case);
        let elements = parse(&whole).unwrap().data.elements().len();
        for end in 0..whole.len() {
            if let Ok(cut) = parse(&whole[..end]) {
                assert!(cut.data.elements().len() <= elements, "{case} cut at {end}");
            }
        }
    }
}

#[test]
fn altered_bytes_never_end_the_process() {
    for case in ["private_and_all_vrs", "charset_iso2022_ir87", "src_rle_u16", "src_deflated"] {
        let whole = read(case);
        let all = std::env::var_os("IAC_FLIPS").is_some_and(|size| size == "full");
        let values = [0, 0x7F, 0x80, 0xFF];
        for position in 128..whole.len() {
            // Which one it is shifts along the file, against words of two, four and eight bytes.
            let one = (position + position / 8) % 4;
            for value in if all { &values[..] } else { &values[one..=one] } {
                let mut altered = whole.clone();
                altered[position] = *value;
                if let Ok(file) = parse(&altered) {
                    check_metadata(&file);
                }
            }
        }
    }
}

#[test]
fn a_character_set_that_claims_to_be_a_number_loses_no_text() {
    let mut file = read("charset_iso2022_ir87");
    let at = file.windows(6).position(|six| six == b"\x08\0\x05\0CS").unwrap();
    for vr in [b"IS", b"DS", b"US"] {
        file[at + 4..at + 6].copy_from_slice(vr);
        check_metadata(&parse(&file).unwrap());
    }
}

/// Whatever an object holds comes back from its metadata to the byte.
fn check_metadata(file: &DicomFile) {
    let json = file.metadata_json();
    let empty = br#"{"dataset":{},"file_meta":{}}"#;
    let found = Attributes::parse(empty, json.as_bytes()).unwrap().to_data_set().unwrap();
    let source = file.data.elements().iter().filter(|element| element.tag != Tag(0x7FE0, 0x0010));
    let source: Vec<_> = source.cloned().collect();
    assert!(same(&source, found.elements()), "{:?}\n{:?}\n{json}", source, found);
}

fn same(source: &[Element], found: &[Element]) -> bool {
    source.len() == found.len()
        && source.iter().zip(found).all(|(one, other)| {
            one.tag == other.tag
                && match (&one.value, &other.value) {
                    (ElementValue::Items(ones), ElementValue::Items(others)) => {
                        ones.len() == others.len()
                            && ones
                                .iter()
                                .zip(others)
                                .all(|(a, b)| same(a.elements(), b.elements()))
                    }
                    (ElementValue::Bytes(one), ElementValue::Bytes(other)) => {
                        // What makes a length even is left to the writer of files.
                        let [one, other] = [one, other].map(|bytes| &bytes[..]);
                        one == other
                            || (one.len() == other.len() + 1 && one.starts_with(other))
                            || (other.len() == one.len() + 1 && other.starts_with(one))
                    }
                    _ => false,
                }
        })
}

#[test]
fn cut_images_stop_a_build_with_the_place() {
    if !has_codec("jxl") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("a.rad.iac");
    let whole = read("ct_series");
    for end in (200..whole.len()).step_by(97) {
        let input = DicomInput::Bytes("cut.dcm".to_owned(), Bytes::copy_from_slice(&whole[..end]));
        match DicomPackBuilder::new().effort(1).build_from(&target, [input]) {
            Ok(report) => {
                assert_eq!(report.images, 0);
                std::fs::remove_file(&target).unwrap();
            }
            Err(error) => assert!(error.to_string().starts_with("cut.dcm: "), "{error}"),
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}

/// A data set of explicit little-endian syntax without preamble and meta.
fn explicit(elements: &[u8]) -> Vec<u8> {
    let mut file = vec![8, 0, 0x16, 0];
    file.extend(b"UI\x04\x001.2\0");
    file.extend(elements);
    file
}

#[test]
fn sequences_that_are_nested_too_deep_are_refused() {
    for depth in [255_usize, 256, 257, 10_000, 100_000] {
        let mut undefined = Vec::new();
        for _ in 0..depth {
            undefined
                .extend(b"\x08\x00\x15\x11SQ\0\0\xFF\xFF\xFF\xFF\xFE\xFF\x00\xE0\xFF\xFF\xFF\xFF");
        }
        for _ in 0..depth {
            undefined.extend(b"\xFE\xFF\x0D\xE0\0\0\0\0\xFE\xFF\xDD\xE0\0\0\0\0");
        }
        let found = parse(&explicit(&undefined));
        match found {
            Ok(_) => assert!(depth <= 256),
            Err(error) => {
                assert!(depth > 256, "{depth}: {error}");
                assert_eq!(error.kind(), ErrorKind::Limit);
            }
        }
        // With lengths that are known, from the inside out.
        let mut inner = Vec::new();
        for _ in 0..depth.min(3_000) {
            let item = u32::try_from(inner.len()).unwrap();
            let mut outer = b"\x08\x00\x15\x11SQ\0\0".to_vec();
            outer.extend((item + 8).to_le_bytes());
            outer.extend(b"\xFE\xFF\x00\xE0");
            outer.extend(item.to_le_bytes());
            outer.extend(&inner);
            inner = outer;
        }
        assert_eq!(parse(&explicit(&inner)).is_ok(), depth <= 256, "{depth}");
    }
}

#[test]
fn objects_of_the_greatest_nesting_go_through_a_pack() {
    let mut inner = b"\x08\x00\x04\x01LO\x02\x00ab".to_vec();
    for _ in 0..256 {
        let mut outer =
            b"\x08\x00\x15\x11SQ\0\0\xFF\xFF\xFF\xFF\xFE\xFF\x00\xE0\xFF\xFF\xFF\xFF".to_vec();
        outer.extend(&inner);
        outer.extend(b"\xFE\xFF\x0D\xE0\0\0\0\0\xFE\xFF\xDD\xE0\0\0\0\0");
        inner = outer;
    }
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("deep.rad.iac");
    let input = DicomInput::Bytes("deep.dcm".to_owned(), explicit(&inner).into());
    DicomPackBuilder::new().effort(1).build_from(&target, [input]).unwrap();
    let pack = DicomPackReader::open(&target).unwrap();
    let mut set = pack.data_set(0).unwrap();
    let mut depth = 0;
    while let Some(items) = set.elements().last().and_then(|element| element.items()) {
        depth += 1;
        set = items[0].clone();
    }
    assert_eq!(depth, 256);
    assert_eq!(
        pack.export(0, &iac_adapters::dicom::ExportOptions::default()).unwrap().len() % 2,
        0
    );
}

#[test]
fn lengths_that_lie_are_errors() {
    let cases: [&[u8]; 9] = [
        // A value near 4 GiB.
        b"\x10\x00\x10\x00UT\0\0\xFE\xFF\xFF\xFFabc",
        b"\x10\x00\x10\x00PN\xFF\xFFabc",
        // Undefined lengths without an end.
        b"\x08\x00\x15\x11SQ\0\0\xFF\xFF\xFF\xFF",
        b"\x08\x00\x15\x11SQ\0\0\xFF\xFF\xFF\xFF\xFE\xFF\x00\xE0\xFF\xFF\xFF\xFF",
        b"\x10\x00\x10\x00UT\0\0\xFF\xFF\xFF\xFFabc",
        // Unknown, of undefined length.
        b"\x11\x00\x10\x10UN\0\0\xFF\xFF\xFF\xFF\xFE\xFF\x00\xE0\x10\x00\x00\x00abcd",
        // An item larger than what is left.
        b"\x08\x00\x15\x11SQ\0\0\xFF\xFF\xFF\xFF\xFE\xFF\x00\xE0\xF0\xFF\xFF\xFFabcd",
        // Delimiters where none belong.
        b"\xFE\xFF\x0D\xE0\0\0\0\0",
        b"\xFE\xFF\xDD\xE0\0\0\0\0",
    ];
    for case in cases {
        let error = parse(&explicit(case)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Decode, "{case:02X?}: {error}");
        assert!(!error.to_string().contains("abc"), "{error}");
    }
    // The length of group 0002 is not believed, whatever it says.
    let mut whole = read("ct_series");
    for length in [0, 1, 4000, u32::MAX] {
        whole[140..144].copy_from_slice(&length.to_le_bytes());
        parse(&whole).unwrap();
    }
    // Unknown elements of undefined length hold implicit items.
    let unknown = b"\x11\x00\x10\x10UN\0\0\xFF\xFF\xFF\xFF\xFE\xFF\x00\xE0\x0A\x00\x00\x00\x08\x00\x60\x00\x02\x00\x00\x00CT\xFE\xFF\xDD\xE0\0\0\0\0";
    let found = parse(&explicit(unknown)).unwrap();
    let items = found.data.elements().last().unwrap().items().unwrap();
    assert_eq!(items[0].elements()[0].vr.to_string(), "CS");
}

/// A data set of implicit syntax without preamble and meta.
fn implicit(elements: &[u8]) -> Vec<u8> {
    let mut file = b"\x08\x00\x16\x00\x04\x00\x00\x001.2\0".to_vec();
    file.extend(elements);
    file
}

#[test]
fn lengths_near_the_greatest_are_errors_in_every_encoding() {
    for length in [0xFFFF_FFFE_u32, 0xFFFF_FFFD, 0x8000_0000, 0x7FFF_FFFF] {
        let little = length.to_le_bytes();
        let mut cases = Vec::new();
        for head in [
            &b"\x10\x00\x10\x00"[..],
            // A sequence, pixel data, an unknown private element.
            b"\x08\x00\x15\x11",
            b"\x11\x00\x10\x10",
        ] {
            cases.push(implicit(&[head, &little, b"abc"].concat()));
        }
        for head in [
            &b"\x08\x00\x15\x11SQ\0\0"[..],
            b"\x10\x00\x10\x00UN\0\0",
            // A fragment, and an item.
            b"\xE0\x7F\x10\x00OB\0\0\xFF\xFF\xFF\xFF\xFE\xFF\x00\xE0",
            b"\x08\x00\x15\x11SQ\0\0\xFF\xFF\xFF\xFF\xFE\xFF\x00\xE0",
        ] {
            cases.push(explicit(&[head, &little, b"abc"].concat()));
        }
        let big = [&b"\0\x08\0\x16UI\0\x041.2\0\0\x10\0\x10UT\0\0"[..], &length.to_be_bytes()];
        cases.push([&big.concat()[..], b"abc"].concat());
        for case in cases {
            let error = parse(&case).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Decode, "{case:02X?}: {error}");
        }
    }
    // Pixels that end early are a matter of the image; what comes before them is sound.
    let pixels = implicit(b"\xE0\x7F\x10\x00\xFE\xFF\xFF\xFFabcd");
    assert_eq!(parse(&pixels).unwrap().data.elements().len(), 2);
}

#[test]
fn lengths_of_groups_are_not_believed() {
    for length in [0_u32, 1, 5, 0x7FFF_FFFF, u32::MAX] {
        // Of the data set: retired, and kept as it is.
        let mut elements = b"\x10\x00\x00\x00UL\x04\x00".to_vec();
        elements.extend(length.to_le_bytes());
        elements.extend(b"\x10\x00\x10\x00PN\x04\x00A^B ");
        let file = parse(&explicit(&elements)).unwrap();
        assert_eq!(file.data.elements().len(), 3, "{length}");
        check_metadata(&file);
        let written = DicomFile::new(file.data).to_bytes().unwrap();
        let again = parse(&written).unwrap();
        assert!(again.data.get(Tag(0x0010, 0)).is_none());
        assert_eq!(again.data.elements().len(), 2);
        let stated = again.meta.bytes(Tag(2, 0)).unwrap();
        let meta = u32::from_le_bytes(stated[..].try_into().unwrap());
        let rest = &written[144 + usize::try_from(meta).unwrap()..];
        assert!(rest.starts_with(b"\x08\x00\x16\x00"), "the length of group 2 is right");
    }
}

#[test]
fn unknown_elements_nested_without_end_are_refused() {
    for depth in [256_usize, 257, 10_000] {
        // Items of unknown sequences are implicit, and so are those within them.
        let mut nested =
            b"\x11\x00\x10\x10UN\0\0\xFF\xFF\xFF\xFF\xFE\xFF\x00\xE0\xFF\xFF\xFF\xFF".to_vec();
        for _ in 1..depth {
            nested.extend(b"\x08\x00\x15\x11\xFF\xFF\xFF\xFF\xFE\xFF\x00\xE0\xFF\xFF\xFF\xFF");
        }
        for _ in 0..depth {
            nested.extend(b"\xFE\xFF\x0D\xE0\0\0\0\0\xFE\xFF\xDD\xE0\0\0\0\0");
        }
        let found = parse(&explicit(&nested));
        assert_eq!(found.is_ok(), depth <= 256, "{depth}");
        let cut = parse(&explicit(&nested[..nested.len() - 8])).unwrap_err();
        let kind = if depth <= 256 { ErrorKind::Decode } else { ErrorKind::Limit };
        assert_eq!(cut.kind(), kind, "{depth}");
    }
}

#[test]
fn deflated_data_that_explodes_is_a_limit() {
    if !has_codec("jxl") {
        return;
    }
    let mut bomb = vec![0; 128];
    bomb.extend(b"DICM\x02\x00\x10\x00UI\x16\x001.2.840.10008.1.2.1.99");
    let mut content = explicit(b"\x10\x00\x10\x00UT\0\0\x00\x00\x00\x04");
    content.resize(content.len() + (64 << 20), b' ');
    let mut encoder = flate2::write::DeflateEncoder::new(&mut bomb, flate2::Compression::fast());
    std::io::Write::write_all(&mut encoder, &content).unwrap();
    encoder.finish().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let input = DicomInput::Bytes("bomb.dcm".to_owned(), bomb.into());
    let builder = DicomPackBuilder::new().max_input_bytes(1 << 20);
    let error = builder.build_from(folder.path().join("a.iac"), [input]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit);
}

fn damaged_copies(folder: &Path, count: usize, every: usize) -> usize {
    let whole = read("sr_metadata_only");
    let mut damaged = 0;
    for position in 0..count {
        let mut file = whole.clone();
        // Each object has a UID of its own.
        let parsed = parse(&whole).unwrap();
        let own = parsed.data.bytes(Tag(8, 0x18)).unwrap().clone();
        let trimmed: Vec<u8> = own.iter().copied().filter(|byte| *byte > 32).collect();
        let digits = format!("{position:08}");
        for start in 0..file.len().saturating_sub(trimmed.len()) {
            if file[start..].starts_with(&trimmed) {
                let end = start + trimmed.len();
                file[end - 8..end].copy_from_slice(digits.as_bytes());
            }
        }
        if position % every == every / 2 {
            file.truncate(file.len() - 7);
            damaged += 1;
        }
        std::fs::write(folder.join(format!("{position:06}.dcm")), file).unwrap();
    }
    damaged
}

#[test]
fn damaged_files_of_a_folder_are_listed_and_the_others_packed() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("in");
    std::fs::create_dir(&source).unwrap();
    let count = std::env::var("IAC_MANY").ok().and_then(|n| n.parse().ok()).unwrap_or(600);
    let damaged = damaged_copies(&source, count, 100);
    let target = folder.path().join("a.rad.iac");
    let inputs = DicomInputs::find(std::slice::from_ref(&source)).unwrap();
    assert_eq!(inputs.len(), count);
    assert!(DicomPackBuilder::new().build(&target, inputs.clone()).is_err());
    assert!(!target.exists());
    let builder = DicomPackBuilder::new().on_bad_input(OnBadInput::Skip);
    let report = builder.build(&target, inputs.clone()).unwrap();
    assert_eq!(report.skipped.len(), damaged);
    assert_eq!(report.instances, u64::try_from(count - damaged).unwrap());
    for skipped in &report.skipped {
        assert_eq!(skipped.kind, ErrorKind::Decode);
        assert!(skipped.input.ends_with(".dcm"));
        assert!(!skipped.reason.contains("PAT-1") && !skipped.reason.contains("Doe"));
    }
    let pack = DicomPackReader::open(&target).unwrap();
    assert_eq!(pack.instance_count(), report.instances);
    pack.attributes(report.instances - 1).unwrap();
    // The same bytes, whatever the number of threads.
    let other = folder.path().join("b.rad.iac");
    let one = std::num::NonZeroUsize::MIN;
    builder.clone().workers(one).build(&other, inputs).unwrap();
    assert_eq!(std::fs::read(&target).unwrap(), std::fs::read(&other).unwrap());
}

#[test]
fn headers_and_messages_hold_no_value_of_a_patient() {
    if !has_codec("jxl") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("a.rad.iac");
    for (name, path, _) in crate::support::cases() {
        let inputs = crate::support::inputs(&path)
            .into_iter()
            .map(|path| DicomInput::Bytes("input".to_owned(), std::fs::read(path).unwrap().into()));
        let told = match DicomPackBuilder::new().effort(1).build_from(&target, inputs) {
            Ok(_) => {
                let pack = DicomPackReader::open(&target).unwrap();
                let told = pack.reader().header().text().to_owned();
                drop(pack);
                std::fs::remove_file(&target).unwrap();
                told
            }
            Err(error) => format!("{error} {error:?}"),
        };
        for value in ["Doe", "Jane", "PAT-1", "2.25.", "FIXTURE"] {
            assert!(!told.contains(value), "{name}: {told}");
        }
    }
}

#[test]
fn altered_packs_give_errors_and_never_other_data() {
    let path = data().join("mr_two_series_implicit/package.rad.iac");
    let whole = std::fs::read(&path).unwrap();
    let sound = DicomPackReader::open(&path).unwrap();
    let wanted: Vec<_> =
        (0..sound.instance_count()).map(|row| sound.data_set(row).unwrap()).collect();
    for position in (65_536..whole.len()).step_by(7) {
        let mut altered = whole.clone();
        altered[position] ^= 0x55;
        let Ok(pack) = iac_reader::PackReader::from_bytes(altered)
            .map_err(iac_adapters::AdapterError::from)
            .and_then(|pack| DicomPackReader::from_reader(pack, true))
        else {
            continue;
        };
        for row in 0..pack.instance_count().min(20) {
            // What is wrong in a table may belong to another row; bytes are checked by their sums.
            if let Ok(found) = pack.data_set(row) {
                assert!(wanted.contains(&found), "byte {position}, row {row}");
            }
            if has_codec("jxl") && position % 11 == 0 {
                let _ = pack.read_pixels(row);
            }
        }
    }
}

#[test]
fn documents_that_are_too_large_are_a_limit() {
    let path = data().join("ct_series/package.rad.iac");
    let pack = DicomPackReader::open(path).unwrap();
    let narrow = pack.with_max_document_bytes(100);
    assert_eq!(narrow.attributes(0).unwrap_err().kind(), ErrorKind::Limit);
    pack.attributes(0).unwrap();
    narrow.attributes(0).unwrap_err();
}
