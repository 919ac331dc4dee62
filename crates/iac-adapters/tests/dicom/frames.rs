//! Frames of packs of schema 2: what goes in comes out, and only what is asked for is read.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use iac_adapters::dicom::{
    DataSet, DicomBuildReport, DicomFile, DicomInput, DicomPackBuilder, DicomPackReader, Element,
    ElementValue, ExportOptions, ExportSyntax, LossyOriginals, PayloadCodec, PixelSamples,
    PixelType, SchemaChoice, Tag, VR,
};
use iac_format::ErrorKind;
use iac_reader::{ByteSource, PackReader, ReadOptions};
use tempfile::TempDir;

use crate::support::has_codec;

const PIXELS: Tag = Tag(0x7FE0, 0x0010);
const FRAMES: Tag = Tag(0x0028, 0x0008);
const PER_FRAME: Tag = Tag(0x5200, 0x9230);

pub(crate) fn text(tag: Tag, vr: VR, text: &str) -> Element {
    let mut bytes = text.as_bytes().to_vec();
    if bytes.len() % 2 == 1 {
        bytes.push(if vr == VR::UI { 0 } else { b' ' });
    }
    Element::new(tag, vr, bytes)
}

fn word(tag: Tag, number: u16) -> Element {
    Element::new(tag, VR::US, number.to_le_bytes().to_vec())
}

fn sequence(tag: Tag, items: Vec<Vec<Element>>) -> Element {
    let mut element = Element::new(tag, VR::SQ, Vec::new());
    element.value = ElementValue::Items(items.into_iter().map(DataSet::from_elements).collect());
    element
}

/// How the samples of a test object are described.
#[derive(Clone, Copy)]
struct Form {
    size: [u16; 2],
    channels: u16,
    allocated: u16,
    stored: u16,
    signed: bool,
}

const CT: Form = Form { size: [8, 10], channels: 1, allocated: 16, stored: 12, signed: true };

fn object(number: u32, form: Form, frames: Option<&str>, pixels: Vec<u8>) -> DataSet {
    let mut elements = vec![
        text(Tag(0x0008, 0x0016), VR::UI, "1.2.840.10008.5.1.4.1.1.7"),
        text(Tag(0x0008, 0x0018), VR::UI, &format!("1.2.3.{number}")),
        text(Tag(0x0008, 0x0060), VR::CS, "OT"),
        text(Tag(0x0020, 0x000D), VR::UI, "1.2.3"),
        text(Tag(0x0020, 0x000E), VR::UI, "1.2.3.4"),
        text(Tag(0x0020, 0x0013), VR::IS, &number.to_string()),
        word(Tag(0x0028, 0x0002), form.channels),
        text(Tag(0x0028, 0x0004), VR::CS, if form.channels == 3 { "RGB" } else { "MONOCHROME2" }),
        word(Tag(0x0028, 0x0010), form.size[0]),
        word(Tag(0x0028, 0x0011), form.size[1]),
        word(Tag(0x0028, 0x0100), form.allocated),
        word(Tag(0x0028, 0x0101), form.stored),
        word(Tag(0x0028, 0x0102), form.stored - 1),
        word(Tag(0x0028, 0x0103), form.signed.into()),
        Element::new(PIXELS, if form.allocated > 8 { VR::OW } else { VR::OB }, pixels),
    ];
    if let Some(frames) = frames {
        elements.push(text(FRAMES, VR::IS, frames));
    }
    if form.channels == 3 {
        elements.push(word(Tag(0x0028, 0x0006), 0));
    }
    DataSet::from_elements(elements)
}

/// Samples that compress, are never all the same, and fit so many bits.
fn samples(form: Form, frames: usize) -> Vec<u8> {
    let per_frame =
        usize::from(form.size[0]) * usize::from(form.size[1]) * usize::from(form.channels);
    let count = per_frame * frames;
    let value = |n: usize| (n * 7 + n / per_frame * 131) as u32 % (1 << form.stored.min(31));
    match form.allocated {
        8 => (0..count).map(|n| value(n).to_le_bytes()[0]).collect(),
        16 => (0..count)
            .flat_map(|n| {
                let mut word = value(n) as u16;
                if form.signed && word >> (form.stored - 1) & 1 == 1 {
                    word |= !((1_u32 << form.stored) - 1) as u16;
                }
                word.to_le_bytes()
            })
            .collect(),
        32 => (0..count).flat_map(|n| (value(n) << 1 | 0x8000_0000).to_le_bytes()).collect(),
        other => panic!("{other} bits"),
    }
}

fn with(mut data: DataSet, elements: Vec<Element>) -> DataSet {
    elements.into_iter().for_each(|element| data.put(element));
    data
}

fn input(data: DataSet) -> DicomInput {
    let bytes = DicomFile::new(data).to_bytes().unwrap();
    DicomInput::Bytes("test".to_owned(), bytes.into())
}

struct Made {
    pack: DicomPackReader,
    report: DicomBuildReport,
    folder: TempDir,
}

fn try_build(builder: &DicomPackBuilder, inputs: Vec<DicomInput>) -> iac_adapters::Result<Made> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.rad.iac");
    let report = builder.build_from(&path, inputs)?;
    let pack = DicomPackReader::open(&path)?;
    Ok(Made { pack, report, folder })
}

fn build(builder: &DicomPackBuilder, inputs: Vec<DicomInput>) -> Made {
    try_build(builder, inputs).unwrap()
}

/// A builder that needs no native library.
fn plain() -> DicomPackBuilder {
    DicomPackBuilder::new().payload(PayloadCodec::Zstd)
}

/// The codecs of this build that encode.
fn codecs() -> Vec<PayloadCodec> {
    PayloadCodec::ALL
        .into_iter()
        .filter(|codec| match codec {
            PayloadCodec::JpegXl => has_codec("jxl"),
            PayloadCodec::Htj2k => has_codec("jpeg2000"),
            PayloadCodec::JpegLs => has_codec("jpegls"),
            _ => true,
        })
        .collect()
}

fn find_no_fault(path: &Path) {
    let pack = PackReader::open(path).unwrap();
    for schema in iac_adapters::validate::Schemas::all() {
        if schema.handles("dicom_patient") {
            let report = schema.check(&pack, 10).unwrap();
            assert!(report.faults.is_empty(), "{:?}", report.faults);
        }
    }
    let options = iac_adapters::validate::ValidateOptions::default();
    iac_adapters::validate::validate_reader(&pack, &options).unwrap();
}

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

fn export(pack: &DicomPackReader, row: u64, syntax: ExportSyntax) -> DicomFile {
    let options = ExportOptions::default().with_syntax(syntax).with_verify(true);
    let bytes = pack.export(row, &options).unwrap();
    DicomFile::parse(&Bytes::from(bytes), "export").unwrap()
}

/// Functional groups as enhanced objects have them; spellings that JSON would lose among them.
fn groups(frames: usize) -> Vec<Element> {
    let shared = vec![
        sequence(
            Tag(0x0028, 0x9110),
            vec![vec![
                text(Tag(0x0018, 0x0050), VR::DS, "2.50"),
                text(Tag(0x0028, 0x0030), VR::DS, "0.50\\0.250"),
            ]],
        ),
        sequence(
            Tag(0x0020, 0x9116),
            vec![vec![text(Tag(0x0020, 0x0037), VR::DS, "1\\0\\0\\0\\1\\0")]],
        ),
    ];
    let own = (0..frames)
        .map(|frame| {
            let n = u32::try_from(frame).unwrap();
            vec![
                sequence(
                    Tag(0x0020, 0x9111),
                    vec![vec![Element::new(
                        Tag(0x0020, 0x9157),
                        VR::UL,
                        [1, n + 1]
                            .iter()
                            .flat_map(|it: &u32| it.to_le_bytes())
                            .collect::<Vec<u8>>(),
                    )]],
                ),
                sequence(
                    Tag(0x0020, 0x9113),
                    vec![vec![text(Tag(0x0020, 0x0032), VR::DS, &format!("-1.50\\2\\{frame}.0"))]],
                ),
                sequence(
                    Tag(0x0028, 0x9145),
                    vec![vec![
                        text(Tag(0x0028, 0x1052), VR::DS, "-1024"),
                        text(Tag(0x0028, 0x1053), VR::DS, &format!("{}.5", frame + 1)),
                    ]],
                ),
            ]
        })
        .collect();
    vec![sequence(Tag(0x5200, 0x9229), vec![shared]), sequence(PER_FRAME, own)]
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

/// A file with streams as fragments, without an offset table.
pub(crate) fn encapsulated(mut data: DataSet, uid: &str, streams: &[Bytes]) -> Vec<u8> {
    data.remove(PIXELS);
    let mut file = DicomFile::new(data);
    file.transfer_syntax = uid.to_owned();
    let mut bytes = file.to_bytes().unwrap();
    bytes.extend([0xE0, 0x7F, 0x10, 0, b'O', b'B', 0, 0, 0xFF, 0xFF, 0xFF, 0xFF]);
    bytes.extend([0xFE, 0xFF, 0x00, 0xE0, 0, 0, 0, 0]);
    for stream in streams {
        bytes.extend([0xFE, 0xFF, 0x00, 0xE0]);
        let length = stream.len() + stream.len() % 2;
        bytes.extend(u32::try_from(length).unwrap().to_le_bytes());
        bytes.extend_from_slice(stream);
        bytes.extend(vec![0; stream.len() % 2]);
    }
    bytes.extend([0xFE, 0xFF, 0xDD, 0xE0, 0, 0, 0, 0]);
    bytes
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

/// A pack with several objects, groups, large values and bits aside.
fn rich() -> Made {
    let large = Element::new(Tag(0x0028, 0x2000), VR::OB, vec![3; 3000]);
    let reversed: Vec<u8> = samples(CT, 3).into_iter().rev().collect();
    let inputs = vec![
        input(with(object(1, CT, Some("3"), reversed), groups(3))),
        input(with(object(2, CT, Some("2"), samples(CT, 2)), vec![large])),
        input(object(
            3,
            Form { allocated: 1, stored: 1, signed: false, ..CT },
            Some("2"),
            vec![5; 20],
        )),
    ];
    build(&plain(), inputs)
}

/// What a row of a pack says: the data set of its frame, its samples, the file of its object.
type Said = (DataSet, PixelSamples, Vec<u8>);

/// Everything that a pack says.
fn everything(pack: &DicomPackReader) -> iac_adapters::Result<Vec<Said>> {
    let mut all = Vec::new();
    for row in 0..pack.row_count().min(50) {
        let options = ExportOptions::default().with_syntax(ExportSyntax::ExplicitLittleEndian);
        let file = pack.export(row, &options)?;
        all.push((pack.frame_data_set(row)?, pack.read_pixels(row)?.samples, file));
    }
    Ok(all)
}

#[test]
fn altered_packs_give_errors_and_never_other_frames() {
    let made = rich();
    let wanted = everything(&made.pack).unwrap();
    let whole = std::fs::read(made.folder.path().join("a.rad.iac")).unwrap();
    let data = made.pack.reader().layout().data.offset as usize;
    let open = |bytes: Vec<u8>| {
        let pack = PackReader::from_bytes(bytes).map_err(iac_adapters::AdapterError::from)?;
        DicomPackReader::from_reader(pack, true)
    };
    // Each byte of the data segment is under some checksum.
    for position in (data..whole.len()).step_by(3) {
        let mut altered = whole.clone();
        altered[position] ^= 0x55;
        let Ok(pack) = open(altered) else { continue };
        if let Ok(found) = everything(&pack) {
            assert!(found == wanted, "byte {position} was altered unseen");
        }
    }
    // Whatever the tables say, nothing ends the process.
    for position in (65_536..data).step_by(13) {
        for value in [0, 0xFF] {
            let mut altered = whole.clone();
            altered[position] = value;
            let Ok(pack) = open(altered) else { continue };
            let _ = everything(&pack);
            for schema in iac_adapters::validate::Schemas::all() {
                if schema.handles("dicom_patient") {
                    let _ = schema.check(pack.reader(), 10);
                }
            }
        }
    }
    for cut in (0..whole.len()).step_by(97) {
        if let Ok(pack) = open(whole[..cut].to_vec()) {
            assert!(everything(&pack).is_err());
        }
    }
}

#[test]
fn headers_that_lie_are_found_by_validation() {
    let made = rich();
    let whole = std::fs::read(made.folder.path().join("a.rad.iac")).unwrap();
    let text = made.pack.reader().header().text().to_owned();
    let faults = |from: &str, to: &str| -> Vec<String> {
        assert!(text.contains(from), "{text}");
        let altered = text.replace(from, to).replace("\"iac.checksums\"", "\"iac.x\"");
        let altered = altered.replace("\"checksums\"", "\"nothing\"");
        let mut bytes = whole.clone();
        bytes[8..12].copy_from_slice(&u32::try_from(altered.len()).unwrap().to_le_bytes());
        bytes[16..16 + altered.len()].copy_from_slice(altered.as_bytes());
        let pack = PackReader::from_bytes(bytes).unwrap();
        let schemas = iac_adapters::validate::Schemas::all();
        let schema = schemas.iter().find(|schema| schema.handles("dicom_patient")).unwrap();
        let report = schema.check(&pack, 10).unwrap();
        report.faults.iter().map(|fault| fault.message.clone()).collect()
    };
    assert_eq!(faults("\"num_instances\": 3", "\"num_instances\": 3"), [""; 0]);
    let told = faults("\"num_instances\": 3", "\"num_instances\": 9");
    assert_eq!(told, ["is 9, but the table has 3 instances"]);
    let told = faults("\"dicom_schema_version\": 2", "\"dicom_schema_version\": 3");
    assert!(told[0].contains("version 3"), "{told:?}");
    let told = faults("\"num_instances\": 3", "\"num_instances\": \"3\"");
    assert!(told[0].contains("no number of instances"), "{told:?}");
    let told = faults("\"crc32\": ", "\"crc32\": 1");
    assert!(told.iter().any(|it| it.contains("large values")), "{told:?}");
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
