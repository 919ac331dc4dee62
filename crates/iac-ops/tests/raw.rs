//! Packing files, and getting them back.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
#![allow(clippy::arithmetic_side_effects)]

mod common;

use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use common::{listing, tree, write_tree};
use iac_codec::CodecSpec;
use iac_ops::extract::{ExtractOptions, extract};
use iac_ops::raw::{RawPackOptions, RawPackSummary, pack_raw};
use iac_ops::view::{TableQuery, TableView};
use iac_ops::{Cancel, ErrorKind, NoProgress, Result};
use iac_reader::PackReader;

fn recursive() -> RawPackOptions {
    let mut options = RawPackOptions::default();
    options.recursive = true;
    options
}

fn pack(sources: &[&Path], out: &Path, options: &RawPackOptions) -> Result<RawPackSummary> {
    let sources: Vec<PathBuf> = sources.iter().map(|&source| source.to_owned()).collect();
    pack_raw(&sources, out, options, &NoProgress)
}

fn paths(pack: &PackReader) -> Vec<String> {
    let mut paths = Vec::new();
    TableView::new(pack, &TableQuery::default())
        .unwrap()
        .for_each_row(&NoProgress, &mut |_, values| {
            paths.push(values[1].as_str().unwrap().to_owned());
            Ok(())
        })
        .unwrap();
    paths
}

fn source_tree(folder: &Path) {
    let large = vec![7_u8; 300_000];
    write_tree(
        folder,
        &[
            ("b.txt", b"bee"),
            ("a/x.bin", &large),
            ("a/größe 日本.txt", b"\x00\xff"),
            ("a-b", b""),
            ("deep/er/and/deeper", b"deep"),
            (".hidden", b"h"),
        ],
    );
}

#[test]
fn a_tree_comes_back_as_it_was_with_its_times() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("source");
    source_tree(&source);
    let old = SystemTime::UNIX_EPOCH + Duration::from_micros(1_000_000_123_456);
    let before_1970 = SystemTime::UNIX_EPOCH - Duration::from_micros(1_500_000);
    for (name, time) in [("b.txt", old), ("a/x.bin", before_1970)] {
        let file = fs::File::options().write(true).open(source.join(name)).unwrap();
        file.set_modified(time).unwrap();
    }
    let out = folder.path().join("out.iac");
    let summary = pack(&[&source], &out, &recursive()).unwrap();
    assert_eq!((summary.files, summary.source_bytes), (6, 300_010));
    assert!(summary.skipped.is_empty());

    let reader = PackReader::open(&out).unwrap();
    assert_eq!(reader.header().payload_type(), Some("raw_files"));
    assert_eq!(reader.header().get("codec").unwrap(), "none");
    assert_eq!(
        paths(&reader),
        [".hidden", "a-b", "a/größe 日本.txt", "a/x.bin", "b.txt", "deep/er/and/deeper"]
    );
    let target = folder.path().join("target");
    let options = ExtractOptions::default();
    let mut seen = Vec::new();
    let summary = extract(&reader, None, &target, &options, &NoProgress, &mut |file| {
        seen.push((file.row, file.file, file.original_name));
        Ok(())
    })
    .unwrap();
    assert_eq!((summary.files, summary.bytes, summary.renamed), (6, 300_010, 0));
    assert_eq!(seen[4], (4, "b.txt".to_owned(), None));
    assert_eq!(tree(&target), tree(&source));
    for (name, time) in [("b.txt", old), ("a/x.bin", before_1970)] {
        let found = fs::metadata(target.join(name)).unwrap().modified().unwrap();
        assert_eq!(found, time, "{name}");
    }
}

#[test]
fn the_bytes_do_not_depend_on_threads_order_or_memory() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("source");
    source_tree(&source);
    let mut packs = Vec::new();
    for (workers, memory) in [(1, 1 << 20), (2, 1), (8, 64 << 20)] {
        let out = folder.path().join(format!("{workers}.iac"));
        let mut options = recursive();
        options.workers = NonZeroUsize::new(workers);
        options.memory = memory;
        pack(&[&source], &out, &options).unwrap();
        packs.push(fs::read(out).unwrap());
    }
    let named: Vec<PathBuf> =
        vec![source.join("b.txt"), source.join("a-b"), source.join("a/x.bin")];
    let forwards: Vec<&Path> = named.iter().map(PathBuf::as_path).collect();
    let backwards: Vec<&Path> = forwards.iter().rev().copied().collect();
    let (one, two) = (folder.path().join("f.iac"), folder.path().join("b.iac"));
    pack(&forwards, &one, &RawPackOptions::default()).unwrap();
    pack(&backwards, &two, &RawPackOptions::default()).unwrap();
    assert!(packs.windows(2).all(|pair| pair[0] == pair[1]));
    assert_eq!(fs::read(one).unwrap(), fs::read(&two).unwrap());
    assert_eq!(paths(&PackReader::open(two).unwrap()), ["a-b", "b.txt", "x.bin"]);
}

#[test]
fn deeper_folders_need_the_option_and_are_told_otherwise() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("source");
    source_tree(&source);
    let out = folder.path().join("out.iac");
    let summary = pack(&[&source], &out, &RawPackOptions::default()).unwrap();
    assert_eq!(summary.files, 3);
    let skipped: Vec<_> = summary.skipped.iter().map(|s| s.path.clone()).collect();
    assert_eq!(skipped, [source.join("a"), source.join("deep")]);
    assert_eq!(summary.total_skipped, 2);
}

#[test]
fn an_empty_folder_gives_an_empty_pack() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("source");
    fs::create_dir(&source).unwrap();
    let out = folder.path().join("out.iac");
    assert_eq!(pack(&[&source], &out, &recursive()).unwrap().files, 0);
    assert_eq!(PackReader::open(out).unwrap().num_records().unwrap(), 0);
}

#[test]
fn two_files_of_one_name_are_refused_and_both_named() {
    let folder = tempfile::tempdir().unwrap();
    write_tree(folder.path(), &[("1/same.txt", b"1"), ("2/same.txt", b"2")]);
    let (one, two) = (folder.path().join("1/same.txt"), folder.path().join("2/same.txt"));
    let out = folder.path().join("out.iac");
    let error = pack(&[&one, &two], &out, &RawPackOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
    let message = error.to_string();
    assert!(message.contains(one.to_str().unwrap()), "{message}");
    assert!(message.contains(two.to_str().unwrap()), "{message}");
    assert!(!out.exists());
}

#[test]
fn the_output_is_never_packed() {
    let folder = tempfile::tempdir().unwrap();
    write_tree(folder.path(), &[("a", b"1"), ("out.iac", b"old"), (".out.iac.1f.part", b"left")]);
    let out = folder.path().join("out.iac");
    let mut options = recursive();
    let error = pack(&[folder.path()], &out, &options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exists);
    options.write = options.write.overwrite(true);
    let summary = pack(&[folder.path()], &out, &options).unwrap();
    assert_eq!(summary.files, 1);
    assert_eq!(summary.total_skipped, 2);
    assert_eq!(listing(folder.path()), ["a", "out.iac"]);
    let error = pack(&[&out], &out, &options).unwrap_err();
    assert!(error.to_string().contains("is to be written"), "{error}");
    assert_eq!(paths(&PackReader::open(out).unwrap()), ["a"]);
}

#[test]
fn what_is_missing_is_an_io_error() {
    let folder = tempfile::tempdir().unwrap();
    let (missing, out) = (folder.path().join("missing"), folder.path().join("out.iac"));
    let error = pack(&[&missing], &out, &recursive()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert_eq!(error.path(), Some(missing.as_path()));
    assert_eq!(pack(&[], &out, &recursive()).unwrap_err().kind(), ErrorKind::Usage);
    assert!(listing(folder.path()).is_empty());
}

#[test]
fn a_codec_that_is_not_there_is_named_before_anything_is_written() {
    let folder = tempfile::tempdir().unwrap();
    write_tree(folder.path(), &[("a", b"1")]);
    let out = folder.path().join("out.iac");
    let mut options = recursive();
    options.codec = CodecSpec::new("nope", serde_json::Map::new());
    let error = pack(&[folder.path()], &out, &options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnknownCodec);
    assert_eq!(listing(folder.path()), ["a"]);
}

#[test]
fn cancelled_packing_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("source");
    source_tree(&source);
    let out = folder.path().join("out.iac");
    let cancel = Cancel::new();
    cancel.cancel();
    let error = pack_raw(&[source], &out, &recursive(), &cancel).unwrap_err();
    assert!(error.is_cancelled());
    assert_eq!(listing(folder.path()), ["source"]);
}

#[test]
fn a_registered_codec_is_used_both_ways() {
    use iac_codec::{ByteCodec, Codec, CodecError, Limits, Parameters, Registry};

    struct Inverted;
    impl ByteCodec for Inverted {
        fn name(&self) -> &str {
            "test.ops.inverted"
        }
        fn parameters(&self) -> Parameters {
            Parameters::new()
        }
        fn encode(&self, record: &[u8]) -> std::result::Result<Vec<u8>, CodecError> {
            Ok(record.iter().map(|byte| !byte).collect())
        }
        fn decode(&self, payload: &[u8], _: &Limits) -> std::result::Result<Vec<u8>, CodecError> {
            self.encode(payload)
        }
    }
    Registry::global()
        .register("test.ops.inverted", |_: &Parameters| Ok(Codec::from_byte_codec(Inverted)))
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("source");
    source_tree(&source);
    let out = folder.path().join("out.iac");
    let mut options = recursive();
    options.codec = CodecSpec::new("test.ops.inverted", Parameters::new());
    pack(&[&source], &out, &options).unwrap();
    let reader = PackReader::open(&out).unwrap();
    assert_eq!(reader.read(4).unwrap().as_ref(), [!b'b', !b'e', !b'e']);
    let target = folder.path().join("target");
    let options = ExtractOptions::default();
    extract(&reader, None, &target, &options, &NoProgress, &mut |_| Ok(())).unwrap();
    assert_eq!(tree(&target), tree(&source));
}

#[cfg(unix)]
mod unix {
    use super::*;
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_and_pipes_are_skipped_in_folders_and_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("source");
        write_tree(&source, &[("a", b"1"), ("sub/b", b"2")]);
        symlink(source.join("a"), source.join("link")).unwrap();
        symlink("/", source.join("root")).unwrap();
        symlink("nowhere", source.join("dangling")).unwrap();
        let socket = std::os::unix::net::UnixListener::bind(source.join("socket"));
        let out = folder.path().join("out.iac");
        let summary = pack(&[&source], &out, &recursive()).unwrap();
        assert_eq!(summary.files, 2);
        assert_eq!(summary.total_skipped, 3 + u64::from(socket.is_ok()));
        let mut options = recursive();
        options.write = options.write.overwrite(true);
        for name in ["link", "root", "dangling"] {
            let error = pack(&[&source.join(name)], &out, &options).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Usage, "{error}");
        }
        if socket.is_ok() {
            assert!(pack(&[&source.join("socket")], &out, &options).is_err());
        }
    }

    #[test]
    fn names_that_are_not_utf8_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("source");
        fs::create_dir(&source).unwrap();
        let name = source.join(OsStr::from_bytes(b"a\xff"));
        if fs::write(&name, "x").is_err() {
            return; // a file system that has none either
        }
        let error = pack(&[&source], &folder.path().join("out.iac"), &recursive()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage);
        assert!(error.to_string().contains("UTF-8"), "{error}");
    }

    #[test]
    fn odd_names_of_files_survive() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("source");
        write_tree(
            &source,
            &[
                ("con", b"1"),
                ("a: b?*", b"2"),
                ("trailing.", b"3"),
                ("back\\slash", b"4"),
                ("A", b"5"),
                ("a", b"6"),
            ],
        );
        let out = folder.path().join("out.iac");
        pack(&[&source], &out, &recursive()).unwrap();
        let target = folder.path().join("target");
        let reader = PackReader::open(&out).unwrap();
        extract(&reader, None, &target, &ExtractOptions::default(), &NoProgress, &mut |_| Ok(()))
            .unwrap();
        assert_eq!(tree(&target), tree(&source));
    }
}
