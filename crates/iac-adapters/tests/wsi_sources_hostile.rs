//! Slides of other makers that are made to mislead: refused, and never read otherwise than they are.
#![cfg(all(feature = "wsi-import", feature = "jxl"))]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    dead_code
)]

#[path = "common/slides.rs"]
mod slides;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, Ordering};

use iac_adapters::AdapterError;
use iac_adapters::wsi::{NativeRegion, WsiImporter, WsiPackReader, WsiProfile, WsiReadOptions};
use iac_ops::NoProgress;
use iac_writer::WriteOptions;
use slides::{TiffPage, tiff, tiff_of};

fn importer() -> WsiImporter {
    WsiImporter::new("s")
        .profile(WsiProfile::Lossless)
        .effort(1)
        .options(WriteOptions::new().sync(false).overwrite(true))
}

fn import(importer: &WsiImporter, source: &Path) -> Result<WsiPackReader, AdapterError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pat.iac");
    importer.import(source, &path, &NoProgress)?;
    WsiPackReader::open(&path)
}

fn message(importer: &WsiImporter, source: &Path) -> String {
    import(importer, source).unwrap_err().to_string()
}

fn pixels(reader: &WsiPackReader) -> Vec<u8> {
    let info = reader.info();
    let region = NativeRegion { x: 0, y: 0, width: info.width as u32, height: info.height as u32 };
    reader.read_native(&region, &WsiReadOptions::new()).unwrap().pixels
}

fn write(folder: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

#[cfg(feature = "dicom")]
mod dicom {
    use super::*;
    use slides::DicomSlide;

    #[test]
    fn heights_of_0_and_minus_0_are_one_focal_plane() {
        let folder = tempfile::tempdir().unwrap();
        let places = vec![(1, 1, "0", "1"), (9, 1, "-0.0", "1"), (17, 1, "0", "1")];
        let slide =
            DicomSlide { frames: 3, height: 6, places: Some(places), ..DicomSlide::default() };
        let path = write(folder.path(), "a.dcm", &slide.native(&[10, 20, 30]));
        let found = pixels(&import(&importer(), &path).unwrap());
        assert_eq!([found[0], found[8 * 3], found[16 * 3]], [10, 20, 30]);
    }

    #[test]
    fn a_missing_file_of_a_concatenation_of_unknown_length_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let places = [(1, 1, "0", "1"), (9, 1, "0", "1"), (17, 1, "0", "1")];
        for (number, place) in (0_u32..).zip(places) {
            let slide = DicomSlide {
                frames: 1,
                height: 6,
                // No number of files: 0 stands for none here.
                concatenation: Some(("1.9", 0, number)),
                places: Some(vec![place]),
                ..DicomSlide::default()
            };
            let file = slide.native(&[10]);
            // The number of files as an element of another name.
            let at = file.windows(4).position(|it| it == b"\x20\0\x63\x91").unwrap();
            let mut file = file;
            file[at + 2] = 0x64;
            write(folder.path(), &format!("{number}.dcm"), &file);
        }
        let path = folder.path().join("0.dcm");
        import(&importer(), &path).unwrap();
        std::fs::remove_file(folder.path().join("1.dcm")).unwrap();
        let text = message(&importer(), &path);
        assert!(text.contains("follows on 2 frames of a concatenation"), "{text}");
    }

    #[test]
    fn frames_of_planes_and_paths_that_are_not_named_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let slide = DicomSlide { frames: 12, ..DicomSlide::default() };
        let values: Vec<u8> = (0..12).collect();
        let path = write(folder.path(), "a.dcm", &slide.native(&values));
        let text = message(&importer(), &path);
        assert!(
            text.contains("has 12 frames from number 0 on, but 6 tiles, 1 focal planes"),
            "{text}"
        );
    }

    #[test]
    fn many_identifiers_of_optical_paths_take_no_time() {
        let folder = tempfile::tempdir().unwrap();
        let names: Vec<String> = (0..200_000).map(|it| it.to_string()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let slide = DicomSlide { optical_paths: &names, ..DicomSlide::default() };
        let path = write(folder.path(), "a.dcm", &slide.native(&[1, 2, 3, 4, 5, 6]));
        let start = std::time::Instant::now();
        let text = message(&importer(), &path);
        assert!(text.contains("200000 optical paths"), "{text}");
        assert!(start.elapsed().as_secs() < 10);
    }

    #[test]
    fn labels_that_nobody_stored_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let slide = DicomSlide::default();
        let path = write(folder.path(), "a.dcm", &slide.native(&[1, 2, 3, 4, 5, 6]));
        let label = DicomSlide {
            flavor: "LABEL",
            width: 8192,
            height: 8192,
            frames: 1,
            places: Some(vec![(1, 1, "0", "1")]),
            ..slide
        };
        for number in 0..17 {
            write(folder.path(), &format!("l{number}.dcm"), &label.native(&[9]));
        }
        let text = message(&importer(), &path);
        assert!(text.contains("has 17 or more associated images"), "{text}");
    }

    #[test]
    fn a_pack_in_the_place_of_another_file_of_the_slide_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let slide = DicomSlide { frames: 3, ..DicomSlide::default() };
        let [one, two] = [0, 3]
            .map(|first| DicomSlide { concatenation: Some(("1.9", 2, first)), ..slide.clone() });
        let path = write(folder.path(), "one.dcm", &one.native(&[1, 2, 3]));
        let second = write(folder.path(), "two.dcm", &two.native(&[4, 5, 6]));
        let before = std::fs::read(&second).unwrap();
        let error = importer().import(&path, &second, &NoProgress).unwrap_err().to_string();
        assert!(error.contains("would replace a file of the slide"), "{error}");
        assert_eq!(std::fs::read(&second).unwrap(), before);
    }

    #[test]
    fn slides_of_which_nearly_all_is_only_claimed_take_no_time() {
        let folder = tempfile::tempdir().unwrap();
        let slide = DicomSlide {
            width: 1 << 20,
            height: 1 << 20,
            tile: (512, 512),
            frames: 1,
            places: Some(vec![(1025, 513, "0", "1")]),
            ..DicomSlide::default()
        };
        let path = write(folder.path(), "a.dcm", &slide.native(&[9]));
        let start = std::time::Instant::now();
        let reader = import(&importer().overview(false), &path).unwrap();
        assert_eq!(reader.info().stored_tiles, 1);
        assert!(start.elapsed().as_secs() < 60, "{:?}", start.elapsed());
    }

    #[cfg(unix)]
    #[test]
    fn files_that_claim_terabytes_and_store_nothing_are_refused_at_once() {
        use std::os::unix::fs::FileExt;
        let folder = tempfile::tempdir().unwrap();
        let meta = b"\x02\0\x10\0UI\x12\x001.2.840.10008.1.2\0";
        let start = [vec![0; 128], b"DICM".to_vec(), meta.to_vec()].concat();
        // Elements without a value, one behind the other.
        let path = write(folder.path(), "zeros.dcm", &start);
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        if file.set_len(1 << 42).is_err() {
            return;
        }
        let text = message(&importer(), &path);
        assert!(
            text.contains("has 4398046511104 bytes in a form that is read as a whole"),
            "{text}"
        );
        // Long values in front of the pixel data.
        let path = write(folder.path(), "long.dcm", &start);
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        let mut at = start.len() as u64;
        for number in 0..64_u16 {
            let tag = [0x0009_u16.to_le_bytes(), (0x1000 + number).to_le_bytes()].concat();
            file.write_all_at(&[&tag[..], &0xFFFF_FFF0_u32.to_le_bytes()].concat(), at).unwrap();
            at += 8 + 0xFFFF_FFF0;
        }
        file.write_all_at(b"\xE0\x7F\x10\0\x04\0\0\0abcd", at).unwrap();
        let text = message(&importer(), &path);
        assert!(text.contains("bytes in a form that is read as a whole"), "{text}");
    }

    #[cfg(unix)]
    #[test]
    fn pipes_beside_the_files_of_a_slide_are_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        let made = std::process::Command::new("mkfifo").arg(folder.path().join("p")).status();
        if !made.is_ok_and(|status| status.success()) {
            return;
        }
        let path =
            write(folder.path(), "a.dcm", &DicomSlide::default().native(&[10, 20, 30, 40, 50, 60]));
        let (done, told) = std::sync::mpsc::channel();
        std::thread::spawn(move || done.send(import(&importer(), &path).is_ok()));
        assert_eq!(told.recv_timeout(std::time::Duration::from_secs(60)), Ok(true));
    }
}

fn bif(folder: &Path, name: &str, xml: &[u8]) -> PathBuf {
    let scan =
        "<Metadata><iScan ScanRes=\"0.2500\" Magnification=\"40\" Z-layers=\"1\"/></Metadata>";
    let page = |text, width, height, tile, tags| TiffPage { text, width, height, tile, tags };
    let pages = [
        page("Label Image", 12, 30, 0, vec![(700, scan.as_bytes().to_vec())]),
        page("level=0 mag=40 quality=95", 50, 40, 16, vec![(700, xml.to_vec())]),
    ];
    write(folder, name, &tiff_of(&pages))
}

#[test]
fn overlaps_that_are_not_stated_plainly_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for joint in [
        "<TileJointInfo FlagJoined=\"1\" Tile1=\"1\" Tile2=\"2\" OverlapX='24' OverlapY='0'/>",
        "<TileJointInfo FlagJoined=\"1\" Tile1=\"1\" Tile2=\"2\" OverlapX = \"24\" OverlapY=\"0\"/>",
        "<TileJointInfo FlagJoined=\"1\" Tile1=\"1\" Tile2=\"2\"/>",
        "<TileJointInfo OverlapX=\"24\" OverlapY=\"0\"/><!-- FlagJoined -->",
    ] {
        let xml = format!("<EncodeInfo Ver=\"2\">{joint}</EncodeInfo>");
        for name in ["a.bif", "a.tif"] {
            let text = message(&importer(), &bif(folder.path(), name, xml.as_bytes()));
            assert!(text.contains("overlap by"), "{text}");
        }
    }
}

#[test]
fn descriptions_of_overlaps_that_are_too_large_are_not_taken_for_none() {
    let folder = tempfile::tempdir().unwrap();
    let joint = "<TileJointInfo FlagJoined=\"1\" OverlapX=\"24\" OverlapY=\"0\"/>";
    let mut xml = format!("<EncodeInfo Ver=\"2\">{joint}</EncodeInfo>").into_bytes();
    xml.resize((16 << 20) + 1, b' ');
    let text = message(&importer(), &bif(folder.path(), "a.tif", &xml));
    assert!(text.contains("its XML has 16777217 bytes"), "{text}");
}

#[test]
fn more_scanned_areas_than_pages_are_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut text = String::from(
        "<scn xmlns=\"http://www.leica-microsystems.com/scn/2010/10/01\"><collection sizeX=\"1\" \
         sizeY=\"1\">",
    );
    for number in 0..150_000 {
        text.push_str(&format!(
            "<image ><view offsetX=\"{}\" offsetY=\"0\" sizeX=\"9\" sizeY=\"9\"/><dimension sizeX=\"9\" \
             sizeY=\"9\" ifd=\"0\"/>",
            number * 9
        ));
    }
    let path = write(folder.path(), "a.scn", &tiff(&[(&text, 9, 9, 16)]));
    let start = std::time::Instant::now();
    let text = message(&importer(), &path);
    assert!(text.contains("names 150000 scanned areas, but the file has 1 pages"), "{text}");
    assert!(start.elapsed().as_secs() < 10);
}

#[test]
fn what_is_no_journal_is_not_replaced_by_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), "a.tif", &tiff(&[("", 50, 40, 16)]));
    let resuming = importer().resume(true).native_mpp(iac_adapters::wsi::Mpp::both(0.25));
    let pack = folder.path().join("a.pat.iac");
    let journal = write(folder.path(), "a.pat.iac.journal", b"the diary of somebody");
    let error = resuming.import(&path, &pack, &NoProgress).unwrap_err().to_string();
    assert!(error.contains("is no journal of an import"), "{error}");
    assert_eq!(std::fs::read(&journal).unwrap(), b"the diary of somebody");
    #[cfg(unix)]
    {
        let diary = write(folder.path(), "diary", b"IACTILE1");
        std::fs::remove_file(&journal).unwrap();
        std::os::unix::fs::symlink(&diary, &journal).unwrap();
        let error = resuming.import(&path, &pack, &NoProgress).unwrap_err().to_string();
        assert!(error.contains("is no file, as a journal would be"), "{error}");
        assert_eq!(std::fs::read(&diary).unwrap(), b"IACTILE1");
        std::fs::remove_file(&journal).unwrap();
    }
    // Of one that was cut off while its name was written nothing is lost.
    let _ = std::fs::remove_file(&journal);
    write(folder.path(), "a.pat.iac.journal", b"IACT");
    resuming.import(&path, &pack, &NoProgress).unwrap();
    assert!(!journal.exists());
}

#[test]
fn an_import_that_goes_on_with_more_memory_has_its_whole_overview() {
    /// Stops when a tile was encoded: 1 while tiles are, 2 then.
    struct Stopped(AtomicU8);
    impl iac_ops::Progress for Stopped {
        fn begin(&self, what: &str, _: Option<u64>) {
            self.0.store(u8::from(what == "encoding tiles"), Ordering::Relaxed);
        }
        fn advance(&self, _: u64) {
            let _ = self.0.compare_exchange(1, 2, Ordering::Relaxed, Ordering::Relaxed);
        }
        fn is_cancelled(&self) -> bool {
            self.0.load(Ordering::Relaxed) == 2
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), "a.tif", &tiff(&[("", 4200, 48, 48)]));
    let plain = importer()
        .tile_size(64, 48)
        .workers(std::num::NonZeroUsize::new(1))
        .native_mpp(iac_adapters::wsi::Mpp::both(0.25));
    let pack = folder.path().join("a.pat.iac");
    plain.import(&path, &pack, &NoProgress).unwrap();
    let whole = std::fs::read(&pack).unwrap();
    std::fs::remove_file(&pack).unwrap();
    // Too little for a row of the overview's tiles.
    let resuming = plain.resume(true);
    let stop = Stopped(Default::default());
    let few = resuming.clone().memory(50_000);
    assert!(few.import(&path, &pack, &stop).unwrap_err().is_cancelled());
    let journal = folder.path().join("a.pat.iac.journal");
    assert!(std::fs::metadata(&journal).unwrap().len() > 40);
    resuming.import(&path, &pack, &NoProgress).unwrap();
    assert!(std::fs::read(&pack).unwrap() == whole);
}

#[test]
fn tiles_that_lack_their_first_plane_alone_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let inputs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/wsi/inputs");
    let mut bytes = std::fs::read(inputs.join("tiff_planar.tif")).unwrap();
    // The list of offsets of tiles or strips; its first one belongs to the first plane.
    let four = |bytes: &[u8], at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let two = |bytes: &[u8], at: usize| u16::from_le_bytes(bytes[at..at + 2].try_into().unwrap());
    assert_eq!(&bytes[..4], b"II*\0");
    let start = four(&bytes, 4) as usize;
    let entry = (0..usize::from(two(&bytes, start)))
        .map(|number| start + 2 + number * 12)
        .find(|at| matches!(two(&bytes, *at), 273 | 324))
        .unwrap();
    assert_eq!(two(&bytes, entry + 2), 4);
    let list = four(&bytes, entry + 8) as usize;
    bytes[list..list + 4].fill(0);
    let path = write(folder.path(), "a.tif", &bytes);
    let text = message(&importer().native_mpp(iac_adapters::wsi::Mpp::both(0.25)), &path);
    assert!(text.contains("lacks its plane 0"), "{text}");
}
