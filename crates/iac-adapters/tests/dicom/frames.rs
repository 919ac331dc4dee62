//! Frames of packs of schema 2: what goes in comes out, and only what is asked for is read.

use std::io;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use iac_adapters::dicom::{
    DataSet, DicomFile, DicomInput, DicomPackBuilder, DicomPackReader, Element, ExportOptions,
    ExportSyntax, PayloadCodec, PixelSamples, PixelType, SchemaChoice, Tag, VR,
};
use iac_format::ErrorKind;
use iac_reader::{ByteSource, PackReader, ReadOptions};

use crate::made::{
    CT, Form, PER_FRAME, PIXELS, build, codecs, export, find_no_fault, groups, input, object,
    plain, samples, sequence, try_build, with,
};
use crate::support::has_codec;

#[test]
fn frames_of_every_kind_of_sample_come_back_from_every_codec() {
    let forms = [
        CT,
        Form { allocated: 16, stored: 16, signed: false, ..CT },
        Form { allocated: 16, stored: 10, signed: false, ..CT },
        Form { allocated: 8, stored: 8, signed: false, channels: 3, ..CT },
        Form { allocated: 8, stored: 8, signed: true, ..CT },
        Form { allocated: 32, stored: 32, signed: false, ..CT },
        Form { allocated: 32, stored: 32, signed: true, ..CT },
        Form { allocated: 32, stored: 32, signed: false, channels: 3, ..CT },
    ];
    for codec in codecs() {
        let builder =
            DicomPackBuilder::new().payload(codec).schema(SchemaChoice::Two).effort(1).verify(true);
        for form in forms {
            let pixels = samples(form, 3);
            let made = build(&builder, vec![input(object(1, form, Some("3"), pixels.clone()))]);
            let pack = &made.pack;
            assert_eq!((pack.schema_version(), pack.instance_count()), (2, 1));
            assert_eq!((pack.row_count(), pack.frame_count(0).unwrap()), (3, 3));
            let mut all = Vec::new();
            for frame in 0..3 {
                all.extend(pack.read_frame(0, frame).unwrap().samples.to_le_bytes());
            }
            assert!(all == pixels, "{} {}", codec.name(), form.allocated);
            let batch = pack.read_frames(&[(0, 2), (0, 0), (0, 2)]).unwrap();
            let size = pixels.len() / 3;
            let wanted = [&pixels[2 * size..], &pixels[..size], &pixels[2 * size..]].concat();
            assert!(batch.samples.to_le_bytes() == wanted);
            find_no_fault(&made.folder.path().join("a.rad.iac"));
        }
    }
}

#[test]
fn floating_point_samples_keep_every_bit() {
    for (element, vr, width, name) in
        [(8, VR::OF, 4, PixelType::F32), (9, VR::OD, 8, PixelType::F64)]
    {
        let form = Form { allocated: width * 8, stored: 8, signed: false, ..CT };
        let mut data = object(1, form, Some("2"), Vec::new());
        data.remove(PIXELS);
        data.remove(Tag(0x0028, 0x0101));
        data.remove(Tag(0x0028, 0x0102));
        data.remove(Tag(0x0028, 0x0103));
        let count = 2 * 8 * 10;
        let bytes: Vec<u8> = if width == 4 {
            (0..count)
                .flat_map(|n| if n == 5 { f32::NAN } else { n as f32 * -0.3 }.to_le_bytes())
                .collect()
        } else {
            (0..count).flat_map(|n| (f64::from(n) * 0.1).to_le_bytes()).collect()
        };
        data.put(Element::new(Tag(0x7FE0, element), vr, bytes.clone()));
        let made = build(&plain(), vec![input(data.clone())]);
        let pixels = made.pack.read_frame(0, 1).unwrap();
        assert_eq!(pixels.samples.pixel_type(), name);
        assert!(pixels.samples.to_le_bytes() == bytes[bytes.len() / 2..]);
        let back = export(&made.pack, 0, ExportSyntax::JpegXl);
        assert!(back.data.get(Tag(0x7FE0, element)) == data.get(Tag(0x7FE0, element)));
        // Nobody has to ask for this schema.
        if has_codec("jxl") {
            let made = build(&DicomPackBuilder::new().effort(1), vec![input(data)]);
            assert_eq!(made.report.schema_version, 2);
        }
    }
}

#[test]
fn bits_are_packed_across_frames_in_files_and_not_in_packs() {
    let form = Form { size: [3, 7], channels: 1, allocated: 1, stored: 1, signed: false };
    let bits: Vec<u8> =
        (0..5 * 21).map(|n: usize| u8::from(n.is_multiple_of(3) || n % 7 == 1)).collect();
    let mut packed: Vec<u8> =
        bits.chunks(8).map(|it| it.iter().rev().fold(0, |byte, bit| byte << 1 | bit)).collect();
    if packed.len() % 2 == 1 {
        packed.push(0);
    }
    for codec in [PayloadCodec::Zstd, PayloadCodec::None] {
        let data = object(1, form, Some("5"), packed.clone());
        let made = build(&plain().payload(codec).schema(SchemaChoice::Two), vec![input(data)]);
        for frame in 0..5 {
            let pixels = made.pack.read_frame(0, frame).unwrap();
            let wanted = &bits[frame as usize * 21..][..21];
            assert_eq!(pixels.samples, PixelSamples::U8(wanted.to_vec()), "frame {frame}");
        }
        let back = export(&made.pack, 0, ExportSyntax::ExplicitLittleEndian);
        assert!(back.data.bytes(PIXELS).unwrap()[..] == packed);
    }
}

#[test]
fn functional_groups_come_back_and_describe_their_frames() {
    let frames = 70;
    let data = with(object(1, CT, Some("70"), samples(CT, frames)), groups(frames));
    let made = build(&plain(), vec![input(data.clone())]);
    let pack = &made.pack;
    assert!(made.report.frame_counts.is_empty());
    let back = pack.data_set(5).unwrap();
    for element in data.elements().iter().filter(|element| element.tag != PIXELS) {
        assert!(back.get(element.tag) == Some(element), "{:?}", element.tag);
    }
    for frame in [0, 31, 32, 69] {
        let facts = pack.frame_facts(0, frame).unwrap();
        assert_eq!(facts.position, Some([-1.5, 2.0, frame as f64]));
        assert_eq!(facts.orientation, Some([1.0, 0.0, 0.0, 0.0, 1.0, 0.0]));
        assert_eq!(facts.pixel_spacing, Some([0.5, 0.25]));
        assert_eq!(facts.slice_thickness, Some(2.5));
        assert_eq!(facts.rescale_slope, Some(frame as f64 + 1.5));
        assert_eq!(facts.rescale_intercept, Some(-1024.0));
        assert_eq!(facts.dimension_index, [1, frame as u32 + 1]);
        let own = pack.frame_groups(0, frame).unwrap();
        let wanted = &data.get(PER_FRAME).unwrap().items().unwrap()[frame as usize];
        assert!(own == *wanted);
        let single = pack.frame_data_set(frame).unwrap();
        let position = single.bytes(Tag(0x0020, 0x0032)).unwrap();
        assert!(position.starts_with(format!("-1.50\\2\\{frame}.0").as_bytes()));
        assert!(single.get(PER_FRAME).is_none());
        let (_, values) = pack.read_values(frame).unwrap();
        let stored: Vec<f64> = pack.read_frame(0, frame).unwrap().samples.iter().collect();
        let wanted = stored[7] * (frame as f64 + 1.5) - 1024.0;
        assert!((f64::from(values[7]) - wanted).abs() < 0.5);
    }
    assert!(pack.shared_groups(0).unwrap().get(Tag(0x0028, 0x9110)).is_some());
    let report = pack.series_report().unwrap();
    assert_eq!((report[0].instances, report[0].images), (1, 70));
    assert_eq!(report[0].stacks[0].positions, 70);
    find_no_fault(&made.folder.path().join("a.rad.iac"));
}

/// Remembers which bytes were read.
#[derive(Debug)]
struct Counting {
    bytes: Vec<u8>,
    read: Mutex<Vec<(u64, u64)>>,
}

impl ByteSource for Counting {
    fn size(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read_into(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.read.lock().unwrap().push((offset, offset + buffer.len() as u64));
        let start = usize::try_from(offset).unwrap();
        let end = start + buffer.len();
        buffer.copy_from_slice(self.bytes.get(start..end).ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

#[test]
fn one_frame_of_a_thousand_is_read_without_a_byte_of_the_others() {
    let frames = 1000;
    let data = with(object(1, CT, Some("1000"), samples(CT, frames)), groups(frames));
    let made = build(&plain(), vec![input(data)]);
    let bytes = std::fs::read(made.folder.path().join("a.rad.iac")).unwrap();
    let source = Arc::new(Counting { bytes, read: Mutex::default() });
    let shared: Arc<dyn ByteSource> = source.clone();
    let pack = PackReader::from_source(shared, "counted", &ReadOptions::default()).unwrap();
    let reader = DicomPackReader::from_reader(pack.clone(), true).unwrap();
    let pixels = reader.read_frame(0, 617).unwrap();
    assert_eq!(pixels.samples, made.pack.read_frame(0, 617).unwrap().samples);
    assert_eq!(reader.frame_facts(0, 617).unwrap().position, Some([-1.5, 2.0, 617.0]));
    let data = pack.layout().data;
    let span = |row: u64| {
        let span = pack.span(row).unwrap();
        (data.offset + span.offset, data.offset + span.offset + span.length)
    };
    let read = source.read.lock().unwrap().clone();
    let inside: Vec<_> = read.iter().filter(|(_, end)| *end > data.offset).copied().collect();
    assert_eq!(inside, [span(617)], "of the data segment only the frame is read");
    // Its functional groups are one block, and no payload.
    source.read.lock().unwrap().clear();
    reader.frame_groups(0, 617).unwrap();
    let (first, last) = (span(0).0, span(999).1);
    for (start, end) in source.read.lock().unwrap().iter() {
        assert!(*end <= first || *start >= last, "payloads are read for metadata");
    }
}

#[test]
fn frames_of_several_objects_go_into_one_buffer() {
    let inputs = (1..=3)
        .map(|n| input(object(n, CT, Some("4"), samples(CT, 4).into_iter().rev().collect())))
        .collect();
    // Reversed bytes do not fit 12 bits, so bits are kept aside.
    let made = build(&plain(), inputs);
    let pack = &made.pack;
    assert_eq!((pack.instance_count(), pack.row_count()), (3, 12));
    let wanted = [(2, 3), (0, 0), (1, 2), (2, 3)];
    let size = pack.shape(0).unwrap().samples();
    let mut buffer = vec![0_i16; wanted.len() * size];
    pack.read_frames_into(&wanted, &mut buffer[..]).unwrap();
    for (place, (instance, frame)) in buffer.chunks(size).zip(wanted) {
        let alone = pack.read_frame(instance, frame).unwrap();
        assert_eq!(alone.samples, PixelSamples::I16(place.to_vec()));
        assert_eq!(pack.instance_of(pack.frame_row(instance, frame).unwrap()).unwrap(), instance);
    }
    let mut small = vec![0_i16; size];
    let error = pack.read_frames_into(&wanted, &mut small[..]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
    let mut other = vec![0_u16; wanted.len() * size];
    let error = pack.read_frames_into(&wanted, &mut other[..]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
    for (instance, frame) in [(3, 0), (0, 4)] {
        assert_eq!(pack.read_frame(instance, frame).unwrap_err().kind(), ErrorKind::Usage);
    }
    // What was kept aside comes back.
    let source: Vec<u8> = samples(CT, 4).into_iter().rev().collect();
    let back = export(pack, 0, ExportSyntax::ExplicitLittleEndian);
    assert!(back.data.bytes(PIXELS).unwrap()[..] == source);
    find_no_fault(&made.folder.path().join("a.rad.iac"));
}

#[test]
fn exports_in_every_syntax_hold_the_same_frames_and_elements() {
    let forms = [CT, Form { allocated: 8, stored: 8, signed: false, channels: 3, ..CT }];
    for form in forms {
        let pixels = samples(form, 3);
        let data = with(object(1, form, Some("3"), pixels.clone()), groups(3));
        let made = build(&plain(), vec![input(data.clone())]);
        for syntax in ExportSyntax::ALL {
            let codec = match syntax {
                ExportSyntax::JpegXl => "jxl",
                ExportSyntax::JpegLs => "jpegls",
                ExportSyntax::Jpeg2000 | ExportSyntax::Htj2k => "jpeg2000",
                _ => "zstd",
            };
            if codec != "zstd" && !has_codec(codec) {
                continue;
            }
            let options = ExportOptions::default().with_syntax(syntax).with_verify(true);
            let bytes = made.pack.export(0, &options).unwrap();
            let file = DicomFile::parse(&Bytes::from(bytes.clone()), "export").unwrap();
            assert_eq!(file.transfer_syntax, syntax.uid());
            for element in data.elements().iter().filter(|element| element.tag != PIXELS) {
                let same = file.data.get(element.tag) == Some(element);
                let relabelled = element.tag == Tag(0x0028, 0x0004);
                assert!(same || relabelled, "{} {:?}", syntax.name(), element.tag);
            }
            let again = DicomInput::Bytes("again".to_owned(), bytes.into());
            let again = build(&plain(), vec![again]);
            let mut all = Vec::new();
            for frame in 0..3 {
                all.extend(again.pack.read_frame(0, frame).unwrap().samples.to_le_bytes());
            }
            assert!(all == pixels, "{}", syntax.name());
        }
    }
}

#[test]
fn large_values_are_stored_once_and_come_back() {
    let profile: Vec<u8> = (0..5000_u32).flat_map(|n| (n * n).to_le_bytes()).collect();
    let overlay: Vec<u8> = (0..2048_u32).map(|n| (n % 251) as u8).collect();
    let objects: Vec<DataSet> = (1..=3)
        .map(|n| {
            let mut pixels = samples(CT, 1);
            pixels[0] = n as u8;
            with(
                object(n, CT, None, pixels),
                vec![
                    Element::new(Tag(0x0028, 0x2000), VR::OB, profile.clone()),
                    Element::new(Tag(0x6000, 0x3000), VR::OW, overlay.clone()),
                    sequence(
                        Tag(0x0054, 0x0100),
                        vec![vec![Element::new(Tag(0x0009, 0x1001), VR::UN, profile.clone())]],
                    ),
                ],
            )
        })
        .collect();
    let made = build(&plain(), objects.iter().cloned().map(input).collect());
    for (row, object) in (0..).zip(&objects) {
        let back = made.pack.data_set(row).unwrap();
        for element in object.elements().iter().filter(|element| element.tag != PIXELS) {
            assert!(back.get(element.tag) == Some(element), "{:?}", element.tag);
        }
        let delta = made.pack.delta_json(row).unwrap().to_string();
        assert!(delta.len() < 4000, "{}", delta.len());
    }
    let header = made.pack.reader().header().get("bulk").unwrap().clone();
    assert_eq!(header["count"], 2, "equal values are stored once");
    find_no_fault(&made.folder.path().join("a.rad.iac"));
}

#[test]
fn objects_that_fit_schema_1_stay_there_and_are_taken_along_where_others_do_not() {
    if !has_codec("jxl") {
        println!("not run: no encoder of JPEG XL");
        return;
    }
    let builder = DicomPackBuilder::new().effort(1);
    let single = object(1, CT, Some("1"), samples(CT, 1));
    let large = Element::new(Tag(0x6000, 0x3000), VR::OW, vec![7; 4000]);
    let single = with(single, vec![large]);
    let made = build(&builder, vec![input(single.clone())]);
    assert_eq!((made.report.schema_version, made.pack.schema_version()), (1, 1));
    assert_eq!(made.pack.frame_count(0).unwrap(), 1);
    assert_eq!(made.pack.read_frame(0, 0).unwrap().samples.to_le_bytes(), samples(CT, 1));
    let several = object(2, CT, Some("2"), samples(CT, 2));
    let made = build(&builder, vec![input(single.clone()), input(several.clone())]);
    assert_eq!((made.report.schema_version, made.report.frames), (2, 3));
    assert_eq!(made.pack.read_frame(0, 0).unwrap().samples.to_le_bytes(), samples(CT, 1));
    assert_eq!(
        made.pack.data_set(0).unwrap().get(Tag(0x6000, 0x3000)).unwrap().bytes().unwrap()[..],
        [7; 4000]
    );
    assert_eq!(made.pack.reader().header().get("bulk").unwrap()["count"], 1);
    find_no_fault(&made.folder.path().join("a.rad.iac"));
    let error = try_build(&builder.clone().schema(SchemaChoice::One), vec![input(several)]);
    assert_eq!(error.err().unwrap().kind(), ErrorKind::Unsupported);
    // The order of threads does not show.
    let bytes = |workers: usize| {
        let inputs =
            (1..=4).map(|n| input(with(object(n, CT, Some("5"), samples(CT, 5)), groups(5))));
        let workers = std::num::NonZeroUsize::new(workers);
        let made = build(&builder.clone().workers(workers), inputs.collect());
        std::fs::read(made.folder.path().join("a.rad.iac")).unwrap()
    };
    assert!(bytes(1) == bytes(3));
}
