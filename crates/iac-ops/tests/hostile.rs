//! Every operation on every file that may come along: errors, never a panic.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
#![allow(clippy::arithmetic_side_effects)]

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::golden;
use iac_ops::check::{CheckOptions, check};
use iac_ops::decode::{DecodeOptions, decode};
use iac_ops::digest::digest;
use iac_ops::extract::{ExtractOptions, extract};
use iac_ops::info::info;
use iac_ops::salvage::{SalvageOptions, salvage};
use iac_ops::view::{TableQuery, TableView};
use iac_ops::{NoProgress, TableKind};
use iac_reader::{PackReader, VerifyOptions};

/// Does everything that can be done with a file.
fn exercise(path: &Path, folder: &Path) {
    let mut options = CheckOptions::default();
    options.decode = u64::MAX;
    let summary =
        check(&[path.to_owned()], &options, &NoProgress, &mut |_| Ok(())).expect("no error");
    let mut write = SalvageOptions::default();
    write.write = write.write.overwrite(true).sync(false);
    let out = folder.join("salvaged.iac");
    if let Ok(report) = salvage(path, &out, &write, &NoProgress) {
        let saved = PackReader::open(&out).unwrap();
        let again = saved.verify(&VerifyOptions::default());
        assert!(again.is_sound(), "{}: {:?}", path.display(), again.faults);
        assert_eq!(saved.num_records().unwrap(), report.kept);
        if summary.faults == 0 {
            assert_eq!(report.dropped, 0, "{}", path.display());
        }
    } else {
        assert!(summary.faults > 0, "{}", path.display());
    }
    let Ok(pack) = PackReader::open(path) else { return };
    let _ = info(&pack).map(|info| serde_json::to_string(&info).unwrap());
    for table in [TableKind::Slide, TableKind::Index] {
        let mut query = TableQuery::default();
        query.table = table;
        query.limit = Some(50);
        if let Ok(view) = TableView::new(&pack, &query) {
            view.write_json_lines(&mut std::io::sink(), &NoProgress).unwrap();
            view.write_csv(&mut std::io::sink(), &NoProgress).unwrap();
            view.write_arrow(&mut std::io::sink()).unwrap();
        }
    }
    let decoding = DecodeOptions::default();
    let _ = digest(&pack, None, &decoding, &NoProgress, &mut |_| Ok(()));
    let _ = decode(&pack, None, &decoding, &NoProgress, &mut |_| Ok(()));
    let dir = folder.join("extracted");
    let _ = extract(&pack, None, &dir, &ExtractOptions::default(), &NoProgress, &mut |_| Ok(()));
    let _ = fs::remove_dir_all(dir);
}

#[test]
fn altered_and_cut_goldens_give_errors_or_sound_results() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("altered.iac");
    for name in ["none_a", "column_types_a", "fixed_float16_5x8_a", "data_segment_a"] {
        let whole = fs::read(golden(name)).unwrap();
        let text = usize::try_from(u32::from_le_bytes(whole[8..12].try_into().unwrap())).unwrap();
        let places = (0..16 + text).step_by(29).chain((65_536..whole.len()).step_by(97));
        for at in places {
            for flip in [0x01, 0x80, 0xff] {
                let mut altered = whole.clone();
                altered[at] ^= flip;
                fs::write(&path, &altered).unwrap();
                exercise(&path, folder.path());
            }
            if at % 5 == 0 {
                fs::write(&path, &whole[..at]).unwrap();
                exercise(&path, folder.path());
            }
        }
    }
}

#[test]
fn every_fixture_can_be_looked_at() {
    let Some(fixtures) = std::env::var_os("IAC_FIXTURES").map(PathBuf::from) else {
        println!("not run: IAC_FIXTURES is not set");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let mut open = vec![fixtures];
    let mut seen = 0;
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "iac") {
                seen += 1;
                exercise(&path, folder.path());
            }
        }
    }
    assert!(seen > 0);
}
