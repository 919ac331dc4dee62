//! Files of other kinds that are made to mislead, and names that lead out of a folder.
#![cfg(feature = "convert")]
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap
)]

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use iac_array::blocking::{ArrayStore, Snapshot};
use iac_array::convert::{self, ExportOptions, ImportOptions};
use iac_array::{ArrayError, ArraySpec, DType, GcOptions, Location, StoreOptions};
use iac_codec::{CodecSpec, Registry};
use iac_format::{Header, HeaderFacts, build_header_text, header_block};
use serde_json::{Map, Value, json};
use tempfile::tempdir;

fn memory() -> ArrayStore {
    ArrayStore::create(Location::memory(), StoreOptions::default()).unwrap()
}

fn import(path: &Path) -> Result<ArrayStore, ArrayError> {
    let mut store = memory();
    convert::import(&mut store, path, &ImportOptions::default().max_bytes(1 << 30))?;
    Ok(store)
}

/// The footer of an ARRF file of version 6 that is being built.
#[derive(Default)]
struct Footer(Vec<u8>);

impl Footer {
    fn put(&mut self, bytes: &[u8]) -> usize {
        let at = self.0.len();
        self.0.extend_from_slice(bytes);
        at
    }

    fn set(&mut self, at: usize, bytes: &[u8]) {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// Says at a place where a list lies, and how many entries it has.
    fn list(&mut self, at: usize, to: usize, count: usize) {
        self.set(at, &(to as i64 - at as i64).to_le_bytes());
        self.set(at + 8, &(count as u64).to_le_bytes());
    }

    fn numbers(&mut self, at: usize, numbers: &[u32]) {
        let bytes: Vec<u8> = numbers.iter().flat_map(|it| it.to_le_bytes()).collect();
        let to = self.put(&bytes);
        self.list(at, to, numbers.len());
    }
}

struct Block {
    id: u32,
    offset: usize,
    stored: usize,
    raw: usize,
    zstd: bool,
}

/// A file of `uint8` elements in chunks of one: block and offset of each.
fn arrf(data: &[u8], blocks: &[Block], chunks: &[(u32, u32)], values: Option<usize>) -> Vec<u8> {
    let mut footer = Footer::default();
    let blocks_at = footer.put(&vec![0; blocks.len() * 56]);
    for (number, block) in blocks.iter().enumerate() {
        let at = blocks_at + number * 56;
        footer.set(at, &block.id.to_le_bytes());
        for (by, value) in [(8, block.offset), (16, block.stored), (24, block.raw)] {
            footer.set(at + by, &(value as u64).to_le_bytes());
        }
        if block.zstd {
            footer.set(at + 32, &[1]);
            footer.set(at + 40, b"zstd\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF");
        }
    }
    let array = footer.put(&[0; 256]);
    footer.set(array, b"a\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF");
    footer.set(array + 16, &[5]);
    footer.numbers(array + 40, &[chunks.len() as u32]);
    let dim = footer.put(&[0xFF; 16]);
    footer.list(array + 56, dim, 1);
    footer.numbers(array + 72, &[1]);
    let chunks_at = footer.put(&vec![0; chunks.len() * 32]);
    for (number, (block, offset)) in chunks.iter().enumerate() {
        let at = chunks_at + number * 32;
        footer.numbers(at, &[number as u32]);
        for (by, value) in [(16, *block), (20, *offset), (24, 1)] {
            footer.set(at + by, &value.to_le_bytes());
        }
    }
    footer.list(array + 88, chunks_at, chunks.len());
    // Values of attributes that all are the same many bytes.
    let (shared, count) = (footer.put(&vec![7; values.map_or(0, |_| 50_000)]), values.unwrap_or(0));
    let values_at = footer.put(&vec![0; count * 24]);
    for number in 0..count {
        let at = values_at + number * 24;
        footer.set(at, &[12]);
        footer.list(at + 8, shared, 50_000);
    }
    let root = footer.put(&[0; 72]);
    footer.set(root, &6_u32.to_le_bytes());
    footer.list(root + 8, blocks_at, blocks.len());
    footer.list(root + 24, root, 0);
    footer.list(root + 40, values_at, count);
    footer.list(root + 56, array, 1);
    let length = footer.0.len() as u64;
    [data, &footer.0, &length.to_le_bytes(), b"ARRF"].concat()
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    let zstd = CodecSpec::new("zstd", Map::new());
    Registry::builtin().create_encoder(&zstd).unwrap().encode_bytes(bytes).unwrap()
}

#[test]
fn chunks_that_change_between_blocks_decode_each_block_once() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("a.af");
    let raw = 8 << 20;
    let (low, high) = (packed(&vec![1; raw]), packed(&vec![2; raw]));
    let data = [&low[..], &high].concat();
    let blocks = [
        Block { id: 7, offset: 0, stored: low.len(), raw, zstd: true },
        Block { id: 9, offset: low.len(), stored: high.len(), raw, zstd: true },
    ];
    // 8 MiB for each of 60,000 chunks would be half a terabyte to decode.
    let chunks: Vec<(u32, u32)> =
        (0..60_000).map(|at| (if at % 2 == 0 { 7 } else { 9 }, at)).collect();
    fs::write(&path, arrf(&data, &blocks, &chunks, None)).unwrap();
    let store = import(&path).unwrap();
    let found = store.read_all("a").unwrap();
    let expected: Vec<u8> = (0..60_000).map(|at| if at % 2 == 0 { 1 } else { 2 }).collect();
    assert!(found.as_bytes().unwrap() == expected);
}

#[test]
fn blocks_that_share_their_bytes_are_refused() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("a.af");
    let stored = packed(&vec![1; 1 << 20]);
    let block = |id, offset| Block { id, offset, stored: stored.len(), raw: 1 << 20, zstd: true };
    fs::write(&path, arrf(&stored, &[block(0, 0)], &[(0, 5)], None)).unwrap();
    import(&path).unwrap();
    fs::write(&path, arrf(&stored, &[block(0, 0), block(1, 0)], &[(0, 5)], None)).unwrap();
    let error = import(&path).err().unwrap();
    assert!(error.to_string().contains("two blocks share the byte at 0"), "{error}");
}

#[test]
fn decoded_blocks_count_against_the_limit_however_little_of_them_is_wanted() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("a.af");
    let raw = 4 << 20;
    let stored = packed(&vec![0; raw]);
    let count = 20;
    let data: Vec<u8> = stored.repeat(count);
    let blocks: Vec<Block> = (0..count)
        .map(|id| Block {
            id: id as u32,
            offset: id * stored.len(),
            stored: stored.len(),
            raw,
            zstd: true,
        })
        .collect();
    let chunks: Vec<(u32, u32)> = (0..count).map(|id| (id as u32, 3)).collect();
    fs::write(&path, arrf(&data, &blocks, &chunks, None)).unwrap();
    let options = ImportOptions::default().max_bytes(64 << 20);
    let error = convert::import(&mut memory(), &path, &options).unwrap_err();
    assert!(matches!(error, ArrayError::TooLarge { .. }), "{error}");
    assert!(error.to_string().contains("decoded"), "{error}");
}

#[test]
fn lists_that_share_their_bytes_do_not_multiply_them() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("a.af");
    let one = [Block { id: 0, offset: 0, stored: 1, raw: 1, zstd: false }];
    fs::write(&path, arrf(b"x", &one, &[(0, 0)], Some(1))).unwrap();
    import(&path).unwrap();
    // 3 MB that stand for 5 GB.
    fs::write(&path, arrf(b"x", &one, &[(0, 0)], Some(100_000))).unwrap();
    let error = import(&path).err().unwrap();
    assert!(error.to_string().contains("share their bytes"), "{error}");
}

#[test]
fn footers_and_files_that_only_claim_their_size_are_refused_at_once() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("a.af");
    let mut file = fs::File::create(&path).unwrap();
    // A terabyte of which nothing is stored but the end.
    let end = 1_u64 << 40;
    file.set_len(end).unwrap();
    std::io::Seek::seek(&mut file, std::io::SeekFrom::Start(end)).unwrap();
    file.write_all(&(end - 5).to_le_bytes()).unwrap();
    file.write_all(b"ARRF").unwrap();
    let error = import(&path).err().unwrap();
    assert!(matches!(error, ArrayError::TooLarge { .. }), "{error}");
    for bytes in [&b""[..], b"ARRF", b"\0\0\0\0\0\0\0ARRF"] {
        fs::write(&path, bytes).unwrap();
        let error = import(&path).err().unwrap();
        assert!(matches!(error, ArrayError::Corrupt { .. }), "{error}");
    }
}

#[cfg(unix)]
#[test]
fn pipes_in_the_place_of_files_are_refused_and_not_waited_for() {
    let folder = tempdir().unwrap();
    let pipe = |path: &Path| {
        let made = std::process::Command::new("mkfifo").arg(path).status().unwrap();
        assert!(made.success());
    };
    for end in ["npy", "npz", "nii", "nii.gz", "hdr", "img", "af"] {
        let path = folder.path().join(format!("a.{end}"));
        pipe(&path);
        let error = import(&path).err().unwrap();
        let cause = std::error::Error::source(&error).map(ToString::to_string);
        assert_eq!(cause.as_deref(), Some("it is no regular file"), "{end}: {error}");
    }
    // In a store, in the place of a layer and of a version.
    let root = folder.path().join("s.arrays");
    let fresh = || {
        drop(fs::remove_dir_all(&root));
        let location = Location::folder(&root).unwrap();
        let mut store = ArrayStore::create(location, StoreOptions::default()).unwrap();
        store.define("a", ArraySpec::new(DType::UInt8, &[4])).unwrap();
        store.write("a", &[0], ndarray::array![1_u8, 2, 3, 4]).unwrap();
        store.flush().unwrap();
    };
    for inner in ["layers", "versions"] {
        fresh();
        for entry in fs::read_dir(root.join(inner)).unwrap() {
            let path = entry.unwrap().path();
            fs::remove_file(&path).unwrap();
            pipe(&path);
        }
        let opened = Snapshot::open_path(&root, &StoreOptions::default());
        // Whatever is a pipe is no version and no layer.
        assert!(opened.is_err() || opened.unwrap().as_async().names().next().is_none(), "{inner}");
    }
}

#[cfg(unix)]
#[test]
fn garbage_collection_deletes_layers_alone_and_nothing_behind_links() {
    let folder = tempdir().unwrap();
    let make = |name: &str| -> PathBuf {
        let root = folder.path().join(name);
        let location = Location::folder(&root).unwrap();
        let mut store = ArrayStore::create(location, StoreOptions::default()).unwrap();
        store.define("a", ArraySpec::new(DType::UInt8, &[4])).unwrap();
        store.flush().unwrap();
        root
    };
    let names = |folder: &Path| -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    let all = GcOptions { grace: std::time::Duration::ZERO, keep_versions: 1 };
    let gc = |root: &Path| {
        let store = ArrayStore::open_path(root, StoreOptions::default()).unwrap();
        store.gc(all)
    };
    // Files that are no layers, and links to a folder with such.
    let (mine, other) = (make("mine"), make("other"));
    let layer = names(&other.join("layers")).pop().unwrap();
    let stray = "0123456789abcdef0123456789abcdef.iac";
    fs::write(mine.join("layers").join(stray), "x").unwrap();
    fs::write(mine.join("layers/notes.txt"), "mine").unwrap();
    fs::create_dir(mine.join("layers/deeper")).unwrap();
    fs::write(mine.join("layers/deeper").join(stray), "mine").unwrap();
    std::os::unix::fs::symlink(other.join("layers"), mine.join("layers/link")).unwrap();
    let report = gc(&mine).unwrap();
    assert_eq!(report.layers.len(), 1, "{report:?}");
    assert!(!mine.join("layers").join(stray).exists());
    assert_eq!(fs::read(mine.join("layers/notes.txt")).unwrap(), b"mine");
    assert!(mine.join("layers/deeper").join(stray).exists());
    assert!(other.join("layers").join(&layer).exists());
    // The folder of layers is another store's.
    fs::remove_dir_all(mine.join("layers")).unwrap();
    let version = ArrayStore::open_path(&other, StoreOptions::default()).unwrap();
    drop(version);
    let third = make("third");
    fs::rename(third.join("layers"), third.join("kept")).unwrap();
    for file in names(&third.join("kept")) {
        fs::copy(third.join("kept").join(&file), other.join("layers").join(&file)).unwrap();
    }
    std::os::unix::fs::symlink(other.join("layers"), third.join("layers")).unwrap();
    let before = names(&other.join("layers"));
    let error = gc(&third).unwrap_err();
    assert!(error.to_string().contains("symbolic link"), "{error}");
    assert_eq!(names(&other.join("layers")), before);
    // Tags of another store are not taken away either.
    ArrayStore::open_path(&other, StoreOptions::default()).unwrap().tag("kept", 1).unwrap();
    let fourth = make("fourth");
    std::os::unix::fs::symlink(other.join("tags"), fourth.join("tags")).unwrap();
    let store = ArrayStore::open_path(&fourth, StoreOptions::default()).unwrap();
    let error = store.untag("kept").unwrap_err();
    assert!(error.to_string().contains("symbolic link"), "{error}");
    assert_eq!(names(&other.join("tags")), ["kept.json"]);
}

/// A single file of one array with other members in its header.
fn altered(folder: &Path, change: impl Fn(&mut Value)) -> PathBuf {
    let mut store = memory();
    store.define("a", ArraySpec::new(DType::UInt8, &[3000])).unwrap();
    store.write("a", &[0], ndarray::Array1::from_shape_fn(3000, |at| (at % 7) as u8)).unwrap();
    store.flush().unwrap();
    let path = folder.join("a.iac");
    let options = ExportOptions::default().overwrite(true);
    convert::export(&store.snapshot(), None, &path, &options).unwrap();
    let mut file = fs::read(&path).unwrap();
    let length = file.len() as u64;
    let header = Header::parse(&file[..65_536], length).unwrap();
    let mut members = header.members().clone();
    change(members.get_mut("nd_array").unwrap());
    let facts = HeaderFacts {
        layout: header.layout(),
        num_slides: header.num_slides().unwrap(),
        num_records: header.num_records().unwrap(),
        checksums: header.checksums(),
    };
    let own = ["nd_array", "payload_type", "codec", "extensions"];
    members.retain(|name, _| own.contains(&name.as_str()));
    let block = header_block(&build_header_text(&members, &facts).unwrap()).unwrap();
    file[..65_536].copy_from_slice(&block);
    fs::write(&path, file).unwrap();
    path
}

#[test]
fn codecs_with_hundreds_of_filters_are_refused() {
    let folder = tempdir().unwrap();
    let path = altered(folder.path(), |_| {});
    Snapshot::open_path(&path, &StoreOptions::default()).unwrap();
    let path = altered(folder.path(), |own| {
        let filter = json!({"name": "delta", "size": 1});
        own["codecs"][0]["filters"] = Value::from(vec![filter; 500]);
    });
    let error = Snapshot::open_path(&path, &StoreOptions::default()).unwrap_err();
    assert!(error.to_string().contains("500 filters"), "{error}");
}

#[test]
fn members_of_archives_never_lead_out_of_the_folder_they_are_unpacked_in() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("a.npz");
    for name in ["../x", "a/../../x", "..", "a/./b", "..\\x", "C:\\x"] {
        let mut store = memory();
        store.define(name, ArraySpec::new(DType::UInt8, &[1])).unwrap();
        store.flush().unwrap();
        let error = convert::export(&store.snapshot(), None, &path, &ExportOptions::default());
        assert!(matches!(error, Err(ArrayError::Unsupported { .. })), "{name}: {error:?}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "{name}");
        // Files of one array have no name in them.
        let one = folder.path().join("a.npy");
        convert::export(&store.snapshot(), Some(name), &one, &ExportOptions::default()).unwrap();
        fs::remove_file(one).unwrap();
    }
}

#[test]
fn texts_count_as_what_they_take_in_memory() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("a.npy");
    // A text of one character: 4 bytes in the file.
    let count = 100_000;
    let mut text = format!("{{'descr': '<U1', 'fortran_order': False, 'shape': ({count},), }}");
    text.push_str(&" ".repeat(117 - text.len()));
    text.push('\n');
    let mut file = b"\x93NUMPY\x01\0v\0".to_vec();
    file.extend_from_slice(text.as_bytes());
    file.extend(std::iter::repeat_n(b"x\0\0\0", count).flatten());
    fs::write(&path, file).unwrap();
    let limit =
        |bytes| convert::import(&mut memory(), &path, &ImportOptions::default().max_bytes(bytes));
    assert!(matches!(limit(1 << 20), Err(ArrayError::TooLarge { .. })));
    limit(8 << 20).unwrap();
}

#[test]
fn packed_files_are_compared_with_their_checksum() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("a.nii.gz");
    let mut store = memory();
    store.define("a", ArraySpec::new(DType::UInt8, &[40, 50])).unwrap();
    store.write("a", &[0, 0], ndarray::Array2::from_elem((40, 50), 7_u8)).unwrap();
    store.flush().unwrap();
    convert::export(&store.snapshot(), None, &path, &ExportOptions::default()).unwrap();
    let sound = fs::read(&path).unwrap();
    import(&path).unwrap();
    // The last eight bytes are the checksum and the length.
    for at in 1..=8 {
        let mut wrong = sound.clone();
        wrong[sound.len() - at] ^= 1;
        for bytes in [&wrong[..], &sound[..sound.len() - at]] {
            fs::write(&path, bytes).unwrap();
            let error = import(&path).unwrap_err();
            assert!(matches!(error, ArrayError::Corrupt { .. }), "{at}: {error}");
        }
    }
}

#[test]
fn damaged_members_of_archives_are_damage() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("a.npz");
    let mut store = memory();
    for name in ["a", "b"] {
        store.define(name, ArraySpec::new(DType::UInt16, &[300])).unwrap();
        let numbers = ndarray::Array1::from_shape_fn(300, |at| (at * at % 1009) as u16);
        store.write(name, &[0], numbers).unwrap();
    }
    store.flush().unwrap();
    convert::export(&store.snapshot(), None, &path, &ExportOptions::default()).unwrap();
    let sound = fs::read(&path).unwrap();
    let expected = import(&path).unwrap().read_all("b").unwrap();
    for at in 0..sound.len() {
        let mut wrong = sound.clone();
        wrong[at] ^= 0x41;
        fs::write(&path, wrong).unwrap();
        match import(&path) {
            // Not all of an archive's fields are read.
            Ok(back) => {
                for name in back.names() {
                    assert_eq!(back.read_all(&name).unwrap().shape(), expected.shape(), "{at}");
                }
            }
            Err(error) => {
                assert!(!matches!(error, ArrayError::File { .. }), "{at}: {error}");
            }
        }
    }
}
