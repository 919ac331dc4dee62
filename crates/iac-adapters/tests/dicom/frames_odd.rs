//! Files whose frames are not as they should be, or are put together in odd ways.

use bytes::Bytes;
use iac_adapters::dicom::{
    DicomFile, DicomInput, DicomPackReader, Element, ElementValue, ExportOptions, ExportSyntax,
    LossyOriginals, PayloadCodec, PixelSamples, SchemaChoice, Tag, VR,
};
use iac_format::ErrorKind;

use crate::made::{
    CT, FRAMES, Form, Made, PER_FRAME, PIXELS, build, encapsulated, export, find_no_fault, groups,
    input, object, plain, samples, sequence, text, try_build, with,
};
use crate::support::has_codec;

#[test]
fn wrong_numbers_of_frames_are_reported_and_nothing_is_lost() {
    // (stated, frames that are there, further bytes, frames found, reported)
    let cases = [
        (Some("3"), 3, 0, 3, false),
        (Some("2"), 3, 0, 3, true),
        (Some("5"), 3, 0, 3, true),
        (Some("0"), 3, 0, 3, true),
        (Some("-4"), 3, 0, 3, true),
        (Some("1A"), 3, 0, 3, true),
        (Some(""), 3, 0, 3, true),
        (None, 3, 0, 3, true),
        (None, 1, 0, 1, false),
        (Some("3"), 3, 6, 3, false),
    ];
    for (stated, there, more, found, reported) in cases {
        let mut pixels = samples(CT, there);
        pixels.extend(vec![9; more]);
        let made = build(&plain(), vec![input(object(1, CT, stated, pixels.clone()))]);
        assert_eq!(made.pack.frame_count(0).unwrap(), found, "{stated:?}");
        assert_eq!(!made.report.frame_counts.is_empty(), reported, "{stated:?}");
        assert_eq!(made.report.diagnostics.contains(&("frame_count_mismatch", 1)), reported);
        let back = export(&made.pack, 0, ExportSyntax::ExplicitLittleEndian);
        assert!(back.data.bytes(PIXELS).unwrap()[..] == pixels, "{stated:?}");
        let before = stated.map(|stated| text(FRAMES, VR::IS, stated));
        assert!(back.data.get(FRAMES) == before.as_ref(), "{stated:?}");
    }
    // Pixel data that ends inside of a frame is cut, whatever is stated.
    let mut pixels = samples(CT, 3);
    pixels.truncate(pixels.len() - 10);
    let error = try_build(&plain(), vec![input(object(1, CT, Some("3"), pixels))]).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Schema);
    assert!(error.reason().contains("2 whole frames of the 3"), "{}", error.reason());
    let error = try_build(&plain(), vec![input(object(1, CT, Some("3"), vec![0; 10]))]);
    assert_eq!(error.err().unwrap().kind(), ErrorKind::Schema);
}

#[test]
fn missing_and_surplus_functional_groups_are_reported_and_kept() {
    let class = text(Tag(0x0008, 0x0016), VR::UI, "1.2.840.10008.5.1.4.1.1.2.1");
    for (items, stated) in [(0, Some(0)), (2, Some(2)), (3, None), (40, Some(40))] {
        let mut data = with(object(1, CT, Some("3"), samples(CT, 3)), vec![class.clone()]);
        if items > 0 {
            data = with(data, groups(items));
        }
        let made = build(&plain(), vec![input(data.clone())]);
        let groups = made.report.frame_counts.first().and_then(|report| report.groups);
        assert_eq!(groups, stated);
        assert!(made.pack.data_set(0).unwrap().get(PER_FRAME) == data.get(PER_FRAME));
        let last = made.pack.frame_groups(0, 2).unwrap();
        assert_eq!(last.elements().is_empty(), items < 3);
        let facts = made.pack.frame_facts(0, 2).unwrap();
        assert_eq!(facts.position.is_some(), items >= 3);
    }
}

#[test]
fn positions_that_are_no_numbers_are_absent() {
    for position in ["nan\\0\\0", "1\\2", "1\\inf\\2", "1\\x\\2", ""] {
        let own = vec![
            vec![sequence(
                Tag(0x0020, 0x9113),
                vec![vec![text(Tag(0x0020, 0x0032), VR::DS, position)]],
            )];
            2
        ];
        let data = with(object(1, CT, Some("2"), samples(CT, 2)), vec![sequence(PER_FRAME, own)]);
        let made = build(&plain(), vec![input(data.clone())]);
        assert_eq!(made.pack.frame_facts(0, 1).unwrap().position, None, "{position}");
        assert!(made.pack.data_set(0).unwrap().get(PER_FRAME) == data.get(PER_FRAME));
    }
}

#[test]
fn jpeg_originals_stay_as_they_are_or_come_back_byte_for_byte() {
    if !has_codec("jpeg") {
        println!("not run: no encoder of JPEG");
        return;
    }
    let shape = iac_codec::ImageShape::new(24, 32, 3).unwrap();
    let spec = iac_codec::CodecSpec::new("jpeg", iac_codec::Parameters::new());
    let codec = iac_codec::Registry::builtin().create_encoder(&spec).unwrap();
    let streams: Vec<Bytes> = (0..3)
        .map(|frame| {
            let samples: Vec<u8> =
                (0..shape.samples()).map(|n| (n * 3 + frame * 40) as u8 / 2).collect();
            let image = iac_codec::Image::new(shape, samples).unwrap();
            codec.encode_image(&image.as_view()).unwrap().into()
        })
        .collect();
    let form = Form { size: [24, 32], channels: 3, allocated: 8, stored: 8, signed: false };
    let mut data = object(1, form, Some("3"), Vec::new());
    data.put(text(Tag(0x0028, 0x0004), VR::CS, "YBR_FULL_422"));
    let file = encapsulated(data, "1.2.840.10008.1.2.4.50", &streams);
    let mut decoded: Option<Vec<u8>> = None;
    for originals in LossyOriginals::ALL {
        if originals == LossyOriginals::Transcode && !(has_codec("jxl") && cfg!(feature = "jxl")) {
            continue;
        }
        let builder = plain().originals(originals);
        let made = build(&builder, vec![DicomInput::Bytes("jpeg".to_owned(), file.clone().into())]);
        let mut all = Vec::new();
        for frame in 0..3 {
            all.extend(made.pack.read_frame(0, frame).unwrap().samples.to_le_bytes());
        }
        // The same samples whatever is stored.
        assert!(*decoded.get_or_insert_with(|| all.clone()) == all, "{}", originals.name());
        find_no_fault(&made.folder.path().join("a.rad.iac"));
        if originals == LossyOriginals::Decode {
            continue;
        }
        let back = export_of(&made.pack, ExportSyntax::Source);
        assert_eq!(back.transfer_syntax, "1.2.840.10008.1.2.4.50");
        assert_eq!(back.data.bytes(Tag(0x0028, 0x0004)).unwrap()[..], *b"YBR_FULL_422");
        let Some(ElementValue::Fragments(found)) = back.data.get(PIXELS).map(|it| &it.value) else {
            panic!("no fragments");
        };
        for (found, stream) in found[1..].iter().zip(&streams) {
            assert!(found.starts_with(stream) && found.len() <= stream.len() + 1);
        }
        if originals == LossyOriginals::Transcode {
            let back = export_of(&made.pack, ExportSyntax::JpegXl);
            assert_eq!(back.transfer_syntax, "1.2.840.10008.1.2.4.111");
        }
    }
}

fn export_of(pack: &DicomPackReader, syntax: ExportSyntax) -> DicomFile {
    let bytes = pack.export(0, &ExportOptions::default().with_syntax(syntax)).unwrap();
    DicomFile::parse(&Bytes::from(bytes), "export").unwrap()
}

#[test]
fn large_files_are_read_frame_by_frame_with_the_same_result() {
    let form = Form { size: [512, 512], channels: 1, allocated: 16, stored: 12, signed: true };
    let mut data = with(object(1, form, Some("20"), samples(form, 20)), groups(20));
    // What lies behind the pixel data is kept as well.
    data.put(Element::new(Tag(0xFFFC, 0xFFFC), VR::OB, vec![0; 10]));
    let bytes = DicomFile::new(data).to_bytes().unwrap();
    assert!(bytes.len() > 10 << 20);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("large.dcm");
    std::fs::write(&path, &bytes).unwrap();
    let of_file = build(&plain(), vec![DicomInput::File(path.clone())]);
    let of_bytes =
        build(&plain(), vec![DicomInput::Bytes("large".to_owned(), bytes.clone().into())]);
    let read = |made: &Made| std::fs::read(made.folder.path().join("a.rad.iac")).unwrap();
    assert!(read(&of_file) == read(&of_bytes));
    let back = of_file
        .pack
        .export(0, &ExportOptions::default().with_syntax(ExportSyntax::ExplicitLittleEndian));
    assert!(back.unwrap().ends_with(&bytes[bytes.len() - 512 * 512 * 2..]));
    // One that ends too early is refused, not shortened.
    std::fs::write(&path, &bytes[..bytes.len() - 1000]).unwrap();
    let error = try_build(&plain(), vec![DicomInput::File(path)]).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Schema);
}

#[test]
fn fragments_are_put_together_whatever_tells_which_belong_together() {
    // Run lengths of one byte plane: a header and literal runs of 10 bytes.
    let form = Form { size: [2, 5], channels: 1, allocated: 8, stored: 8, signed: false };
    let stream = |frame: u8| -> Bytes {
        let mut bytes = vec![1, 0, 0, 0, 64, 0, 0, 0];
        bytes.resize(64, 0);
        bytes.push(9);
        bytes.extend((0..10).map(|n| frame * 20 + n));
        bytes.push(0);
        bytes.into()
    };
    let streams: Vec<Bytes> = (0..4).map(stream).collect();
    let halves: Vec<Bytes> =
        streams.iter().flat_map(|stream| [stream.slice(..70), stream.slice(70..)]).collect();
    // (stated, fragments, offset table, frames found, reported)
    let table: Vec<u32> = (0..4).map(|n| n * (70 + 6 + 16)).collect();
    type Case<'a> = (Option<&'a str>, &'a [Bytes], &'a [u32], u64, bool);
    let cases: [Case<'_>; 10] = [
        (Some("4"), &streams, &[], 4, false),
        (Some("2"), &streams, &[], 4, true),
        (Some("9"), &streams, &[], 4, true),
        (None, &streams, &[], 4, true),
        (Some("1"), &streams, &[], 4, true),
        (Some("4"), &halves, &table, 4, false),
        (Some("4"), &halves, &[], 4, false),
        // Tables that name the first frame only.
        (Some("4"), &streams, &[0], 4, false),
        (Some("4"), &halves, &[0], 4, false),
        (Some("1"), &halves[..2], &[0], 1, false),
    ];
    for (stated, fragments, table, found, reported) in cases {
        let file =
            encapsulated(object(1, form, stated, Vec::new()), "1.2.840.10008.1.2.5", fragments);
        let file = with_table(file, table);
        let made = build(&plain(), vec![DicomInput::Bytes("rle".to_owned(), file.into())]);
        assert_eq!(made.pack.frame_count(0).unwrap(), found, "{stated:?}");
        assert_eq!(!made.report.frame_counts.is_empty(), reported, "{stated:?}");
        for frame in 0..found {
            let wanted: Vec<u8> = (0..10).map(|n| frame as u8 * 20 + n).collect();
            assert_eq!(made.pack.read_frame(0, frame).unwrap().samples, PixelSamples::U8(wanted));
        }
    }
    // Nothing tells where frames begin.
    let pieces: Vec<Bytes> = (0..3).map(|n| Bytes::from(vec![n; 20])).collect();
    let file = encapsulated(object(1, form, Some("2"), Vec::new()), "1.2.840.10008.1.2.5", &pieces);
    let error =
        try_build(&plain(), vec![DicomInput::Bytes("x".to_owned(), file.into())]).err().unwrap();
    assert!(error.reason().contains("3 fragments for 2 frames"), "{}", error.reason());
}

/// Fills the empty offset table of a file that [`encapsulated`] made.
fn with_table(mut file: Vec<u8>, table: &[u32]) -> Vec<u8> {
    let empty = [0xFE, 0xFF, 0x00, 0xE0, 0, 0, 0, 0];
    let start = file.windows(8).position(|window| window == empty).unwrap();
    let length = u32::try_from(table.len() * 4).unwrap();
    file[start + 4..start + 8].copy_from_slice(&length.to_le_bytes());
    let bytes = table.iter().flat_map(|offset| offset.to_le_bytes());
    file.splice(start + 8..start + 8, bytes);
    file
}

#[test]
fn whatever_is_packed_comes_back_or_is_refused() {
    let data = with(object(1, CT, Some("3"), samples(CT, 3)), groups(3));
    let whole = DicomFile::new(data).to_bytes().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.rad.iac");
    let options = iac_writer::WriteOptions::new().overwrite(true).sync(false);
    let builder = plain().payload(PayloadCodec::None).schema(SchemaChoice::Two).options(options);
    let (mut kept, mut refused) = (0, 0);
    for position in (128..whole.len()).step_by(5) {
        let mut altered = whole.clone();
        altered[position] = altered[position].wrapping_add(1 + position as u8 % 7);
        let Ok(source) = DicomFile::parse(&Bytes::from(altered.clone()), "source") else {
            continue;
        };
        let input = DicomInput::Bytes("altered".to_owned(), altered.into());
        if builder.build_from(&path, [input]).is_err() {
            refused += 1;
            continue;
        }
        kept += 1;
        let pack = DicomPackReader::open(&path).unwrap();
        let back = export_of(&pack, ExportSyntax::ExplicitLittleEndian);
        // What should be in the file meta is read as that again.
        for element in source.data.elements().iter().filter(|element| element.tag.0 >= 8) {
            // Exports are interleaved, and say so.
            let planar = element.tag == Tag(0x0028, 0x0006);
            let found = back.data.get(element.tag);
            let kept = element.tag.1 == 0 || planar || found.is_some_and(|it| same(element, it));
            assert!(kept, "byte {position}: {element:?} {found:?}");
        }
    }
    assert!(kept > 200, "{kept} kept, {refused} refused");
}

/// Whether values are the same, apart from what makes lengths even, and lengths of groups. What
/// cannot be interpreted comes back as unknown.
fn same(one: &Element, other: &Element) -> bool {
    match (&one.value, &other.value) {
        (ElementValue::Items(ones), ElementValue::Items(others)) => {
            ones.len() == others.len()
                && ones.iter().zip(others).all(|(one, other)| {
                    one.elements().iter().filter(|it| it.tag.1 != 0).all(|element| {
                        other.get(element.tag).is_some_and(|found| same(element, found))
                    })
                })
        }
        (ElementValue::Bytes(one), ElementValue::Bytes(other)) => {
            other.starts_with(one) && other.len() <= one.len() + 1
        }
        _ => false,
    }
}

/// Streams of run lengths of one byte plane, of 75 bytes each: an odd number.
fn odd_streams(count: u8) -> Vec<Bytes> {
    (0..count)
        .map(|frame| {
            let mut bytes = vec![1, 0, 0, 0, 64, 0, 0, 0];
            bytes.resize(64, 0);
            bytes.push(9);
            bytes.extend((0..10).map(|n| frame * 20 + n));
            bytes.into()
        })
        .collect()
}

#[test]
fn offset_tables_that_do_not_fit_their_frames_lose_none_and_frames_of_odd_lengths_are_whole() {
    let form = Form { size: [2, 5], channels: 1, allocated: 8, stored: 8, signed: false };
    let streams = odd_streams(3);
    assert_eq!(streams[0].len() % 2, 1);
    // Items of 8 bytes in front of streams that are padded to 76.
    let item = 8 + 76;
    let cases: [(&str, Vec<u32>); 8] = [
        ("right", vec![0, item, 2 * item]),
        ("none", vec![]),
        ("one entry too many: where a fourth would begin", vec![0, item, 2 * item, 3 * item]),
        ("one entry too many: beyond the end", vec![0, item, 2 * item, 9 * item]),
        ("one entry too many: the first twice", vec![0, 0, item, 2 * item]),
        ("one entry too few", vec![0, item]),
        ("entries that count no padding", vec![0, item - 1, 2 * item - 2]),
        ("all zero", vec![0, 0, 0]),
    ];
    for (what, table) in cases {
        for builder in [plain(), plain().schema(SchemaChoice::Two)] {
            let file = encapsulated(
                object(1, form, Some("3"), Vec::new()),
                "1.2.840.10008.1.2.5",
                &streams,
            );
            let file = with_table(file, &table);
            let made = build(&builder, vec![DicomInput::Bytes(what.to_owned(), file.into())]);
            assert_eq!(made.pack.frame_count(0).unwrap(), 3, "{what}");
            for frame in 0..3 {
                let wanted: Vec<u8> = (0..10).map(|n| frame as u8 * 20 + n).collect();
                let found = made.pack.read_frame(0, frame).unwrap();
                assert_eq!(found.samples, PixelSamples::U8(wanted), "{what}: frame {frame}");
            }
            // What is exported has the same frames.
            let file =
                made.pack.export(0, &ExportOptions::default().with_syntax(ExportSyntax::Rle));
            let again = DicomInput::Bytes("again".to_owned(), file.unwrap().into());
            let again = build(&builder, vec![again]);
            assert_eq!(again.pack.frame_count(0).unwrap(), 3, "{what}");
            assert_eq!(
                again.pack.read_frame(0, 2).unwrap().samples,
                made.pack.read_frame(0, 2).unwrap().samples,
                "{what}"
            );
        }
    }
}
