//! Every command that writes, on 1, 2 and 8 threads: the same bytes.
#![cfg(all(
    target_os = "linux",
    feature = "tiles",
    feature = "features",
    feature = "text",
    feature = "dicom",
    feature = "wsi-import",
    feature = "arrays",
    feature = "object-store",
    feature = "jxl"
))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    dead_code,
    unreachable_pub
)]

mod common;
#[path = "crash/writers.rs"]
mod writers;

use std::path::Path;

use common::iac;
use writers::{WRITERS, Work, empty, tree};

#[test]
fn every_command_writes_the_same_bytes_on_1_2_and_8_threads() {
    let work = Work::new();
    for writer in WRITERS {
        let mut first = None;
        for workers in ["1", "2", "8"] {
            empty(&work.out());
            let mut arguments = work.arguments_of(writer);
            arguments.extend(["--workers".to_owned(), workers.to_owned()]);
            iac(arguments).succeeded();
            let found = tree(&work.out());
            let first = first.get_or_insert_with(|| found.clone());
            assert!(found == *first, "{} on {workers} threads", writer.name);
        }
    }
}

/// The blocks of every layer, and what an export of all arrays makes of them. Ids are random, and
/// stand in header and tables.
fn content(store: &Path) -> (Vec<Vec<u8>>, Vec<u8>) {
    let mut blocks: Vec<Vec<u8>> = tree(&store.join("layers"))
        .into_values()
        .map(|layer| {
            let bytes = layer.len() as u64;
            let header = iatrocache::Header::parse(&layer[..65_536], bytes).unwrap();
            layer[header.layout().data.offset as usize..].to_vec()
        })
        .collect();
    blocks.sort();
    let npz = store.with_extension("npz");
    iac!("arrays", "export", store, "-o", npz).succeeded();
    (blocks, std::fs::read(npz).unwrap())
}

#[test]
fn stores_of_arrays_have_the_same_blocks_on_1_2_and_8_threads() {
    let work = Work::new();
    let numbers = work.inputs.path().join("in/numbers.npy");
    let mut first = None;
    for workers in ["1", "2", "8"] {
        let store = work.folder.path().join(format!("{workers}.arrays"));
        for (name, chunks) in [("a", "16,100"), ("b", "1,500"), ("c", "64,500")] {
            iac!(
                "arrays",
                "import",
                numbers,
                "-o",
                store,
                "--name",
                name,
                "--chunks",
                chunks,
                "--workers",
                workers
            )
            .succeeded();
        }
        let layered = content(&store);
        assert!(layered.0.len() >= 3, "{} layers", layered.0.len());
        iac!("arrays", "compact", store, "--all", "--workers", workers).succeeded();
        iac!("arrays", "gc", store, "--keep", "1", "--grace", "0", "--workers", workers)
            .succeeded();
        std::fs::remove_file(store.with_extension("npz")).unwrap();
        let joined = content(&store);
        assert_eq!(joined.0.len(), 1);
        let found = (layered, joined);
        assert!(*first.get_or_insert_with(|| found.clone()) == found, "{workers} threads");
    }
}
