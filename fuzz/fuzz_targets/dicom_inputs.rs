//! What DICOM objects are found in: zip archives and media directories. Any is refused, or its
//! entries are read one by one within the limits; a directory names nothing outside of its folder.
//!
//! The first byte says what the rest is: an archive, or a media directory, which is put together
//! from the ids of files that the rest names (parted by zero bytes) or is the rest itself.
#![no_main]

use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use bytes::Bytes;
use iac_adapters::dicom::{
    DicomFile, DicomInputs, DicomPackBuilder, DicomPackReader, ElementValue, OnBadInput,
    PayloadCodec, Tag,
};
use iac_codec::Limits;
use iac_fuzz::{Limited, seeds};
use iac_writer::WriteOptions;
use libfuzzer_sys::fuzz_target;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

#[global_allocator]
static ALLOCATOR: Limited = Limited;

const SOP_INSTANCE: Tag = Tag(0x0008, 0x0018);
/// Bytes that one input may have, inflated.
const MOST: u64 = 1 << 20;

/// A folder for the files, in memory where that is possible, and one beside it with what must not
/// be read.
static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    let folder = folder.join(format!("iac-fuzz-inputs-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("media/A")).unwrap();
    std::fs::write(folder.join("media/A/B"), object("ct_series")).unwrap();
    std::fs::write(folder.join("secret"), object("rgb16")).unwrap();
    folder
});

/// What tells the object that must not be read.
static SECRET: LazyLock<Option<ElementValue>> = LazyLock::new(|| {
    let file = DicomFile::parse(&Bytes::from(object("rgb16")), "secret").unwrap();
    let element = file.data.get(SOP_INSTANCE).unwrap();
    Some(element.value.clone())
});

fuzz_target!(
    init: seeds::write(make_seeds),
    |input: &[u8]| {
        let Some((kind, rest)) = input.split_first() else { return };
        let path = match kind % 3 {
            0 => FOLDER.join("media/x.zip"),
            _ => FOLDER.join("media/DICOMDIR"),
        };
        let file = if kind % 3 == 1 { directory(rest) } else { rest.to_vec() };
        std::fs::write(&path, file).unwrap();
        run(&path, kind % 3 != 0);
        std::fs::remove_file(&path).unwrap();
    }
);

fn run(path: &Path, is_directory: bool) {
    let inputs = match DicomInputs::find(&[path.to_owned()]) {
        Ok(inputs) => inputs,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    // Each of very many would be read, and refused.
    if inputs.len() > 64 {
        return;
    }
    let count = inputs.len();
    let pack = FOLDER.join("out.rad.iac");
    let builder = DicomPackBuilder::new()
        .payload(PayloadCodec::None)
        .on_bad_input(OnBadInput::Skip)
        .max_input_bytes(MOST)
        .limits(Limits::default().with_max_samples(MOST).with_max_decoded_bytes(MOST))
        .workers(std::num::NonZeroUsize::MIN)
        .options(WriteOptions::new().overwrite(true).sync(false));
    match builder.build(&pack, inputs) {
        Ok(report) => {
            let used = report.instances as usize + report.skipped.len() + report.duplicates.len();
            assert_eq!(used, count);
            let reader = DicomPackReader::open(&pack).unwrap();
            for row in 0..report.instances {
                let found = reader.data_set(row).unwrap();
                let uid = found.get(SOP_INSTANCE).map(|element| element.value.clone());
                assert!(!is_directory || uid != *SECRET, "an object outside of the folder");
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// A media directory whose records name files by these ids.
fn directory(ids: &[u8]) -> Vec<u8> {
    let mut items = Vec::new();
    for id in ids.split(|byte| *byte == 0).take(32) {
        let mut id = id[..id.len().min(64)].to_vec();
        if id.len() % 2 == 1 {
            id.push(b' ');
        }
        let mut record = Vec::new();
        element(&mut record, (0x0004, 0x1430), b"CS", b"IMAGE ");
        element(&mut record, (0x0004, 0x1500), b"CS", &id);
        items.extend([0xFE, 0xFF, 0x00, 0xE0]);
        items.extend(u32::try_from(record.len()).unwrap().to_le_bytes());
        items.extend(record);
    }
    let mut meta = Vec::new();
    element(&mut meta, (0x0002, 0x0002), b"UI", b"1.2.840.10008.1.3.10");
    element(&mut meta, (0x0002, 0x0003), b"UI", b"1.2.3\0");
    element(&mut meta, (0x0002, 0x0010), b"UI", b"1.2.840.10008.1.2.1\0");
    let mut file = vec![0; 128];
    file.extend(b"DICM");
    let length = u32::try_from(meta.len()).unwrap().to_le_bytes();
    element(&mut file, (0x0002, 0x0000), b"UL", &length);
    file.extend(meta);
    file.extend([0x04, 0x00, 0x20, 0x12]);
    file.extend(b"SQ\0\0");
    file.extend(u32::try_from(items.len()).unwrap().to_le_bytes());
    file.extend(items);
    file
}

fn element(out: &mut Vec<u8>, (group, number): (u16, u16), kind: &[u8; 2], value: &[u8]) {
    out.extend(group.to_le_bytes());
    out.extend(number.to_le_bytes());
    out.extend(kind);
    out.extend(u16::try_from(value.len()).unwrap().to_le_bytes());
    out.extend(value);
}

/// A small object of the golden files.
fn object(name: &str) -> Vec<u8> {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/iac-adapters/tests/data/dicom");
    std::fs::read(format!("{root}/{name}/in/00.dcm")).unwrap()
}

fn make_seeds() -> Vec<(String, Vec<u8>)> {
    let mut made = Vec::new();
    for (name, method) in
        [("stored", CompressionMethod::Stored), ("deflated", CompressionMethod::Deflated)]
    {
        for entries in [
            &[("a.dcm", "rgb16")][..],
            &[("IM1", "rgb16"), ("b/IM2", "missing_optional"), ("b/", ""), ("c.txt", "rgb16")],
            &[("../a.dcm", "rgb16"), ("DICOMDIR", "rgb16")],
        ] {
            let mut writer = ZipWriter::new(Cursor::new(vec![0_u8]));
            writer.set_raw_comment(b"of a disc".to_vec().into_boxed_slice()).unwrap();
            let options = SimpleFileOptions::default().compression_method(method);
            for (entry, source) in entries {
                if source.is_empty() {
                    writer.add_directory(*entry, options).unwrap();
                    continue;
                }
                writer.start_file(*entry, options).unwrap();
                writer.write_all(&object(source)).unwrap();
            }
            let archive = writer.finish().unwrap().into_inner();
            if archive.len() < 8192 {
                made.push((format!("{name}.{}", entries.len()), [&[0][..], &archive].concat()));
            }
        }
    }
    for (number, ids) in
        ["A\\B", "A\\B\0A\\B\0A\\C", "..\\secret", "A\\..\\..\\secret", "/etc/passwd", ""]
            .into_iter()
            .enumerate()
    {
        made.push((format!("ids.{number}"), [&[1][..], ids.as_bytes()].concat()));
        made.push((format!("directory.{number}"), [&[2][..], &directory(ids.as_bytes())].concat()));
    }
    made
}
