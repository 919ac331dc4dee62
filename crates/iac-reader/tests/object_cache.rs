//! Blocks that are kept: few loads, bounded memory and disk, shared by threads and processes.
#![cfg(feature = "object-store")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, missing_docs)]
#![allow(clippy::cast_possible_truncation, clippy::arithmetic_side_effects)]

#[path = "common/packs.rs"]
mod packs;
#[path = "common/server.rs"]
#[allow(dead_code)]
mod server;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use iac_reader::object::{BlockCache, CachedSource, ObjectLocation, ObjectOptions, StoreOptions};
use iac_reader::{ByteSource, PackReader, ReadOptions};
use packs::{pack_of, payloads};
use server::{Object, Server};

/// Far away: counts what is read, and fails on request.
#[derive(Debug, Default)]
struct Far {
    bytes: Vec<u8>,
    reads: AtomicU64,
    read_bytes: AtomicU64,
    fails: AtomicBool,
}

impl ByteSource for Far {
    fn size(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read_into(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        std::thread::sleep(Duration::from_micros(200));
        if self.fails.load(Ordering::SeqCst) {
            return Err(io::Error::other("the cable is cut"));
        }
        self.reads.fetch_add(1, Ordering::SeqCst);
        self.read_bytes.fetch_add(buffer.len() as u64, Ordering::SeqCst);
        let end = (offset as usize).saturating_add(buffer.len());
        let found = self.bytes.get(offset as usize..end).ok_or(io::ErrorKind::UnexpectedEof)?;
        buffer.copy_from_slice(found);
        Ok(())
    }

    fn prefers_batches(&self) -> bool {
        true
    }
}

fn far(bytes: usize) -> Arc<Far> {
    let bytes = (0..bytes).map(|at| (at * 31 % 251) as u8).collect();
    Arc::new(Far { bytes, ..Far::default() })
}

fn cached(far: &Arc<Far>, name: &str, cache: &Arc<BlockCache>) -> CachedSource {
    CachedSource::new(Arc::clone(far) as _, Some(name.to_owned()), cache)
}

fn read(source: &CachedSource, offset: u64, length: usize) -> io::Result<Vec<u8>> {
    let mut buffer = vec![0; length];
    source.read_into(offset, &mut buffer).map(|()| buffer)
}

#[test]
fn what_was_read_is_not_loaded_again() {
    let far = far(100_000);
    let cache = Arc::new(BlockCache::new(1 << 20).block_bytes(4096));
    let source = cached(&far, "a", &cache);
    for (offset, length) in
        [(50_000, 10), (50_010, 100), (0, 1), (99_999, 1), (4090, 20), (0, 100_000), (100_000, 0)]
    {
        let expected = &far.bytes[offset as usize..offset as usize + length];
        assert_eq!(read(&source, offset, length).unwrap(), expected);
        let before = far.reads.load(Ordering::SeqCst);
        assert_eq!(read(&source, offset, length).unwrap(), expected);
        assert_eq!(far.reads.load(Ordering::SeqCst), before);
    }
    assert_eq!(far.read_bytes.load(Ordering::SeqCst), 100_000, "every byte once");
    assert!(read(&source, 99_999, 2).is_err());
    assert!(read(&source, u64::MAX, 2).is_err());
    // Another name is another content.
    let other = cached(&far, "b", &cache);
    let before = far.reads.load(Ordering::SeqCst);
    read(&other, 0, 1).unwrap();
    assert!(far.reads.load(Ordering::SeqCst) > before);
}

#[test]
fn memory_stays_within_its_budget() {
    let far = far(1_000_000);
    for budget in [0, 4095, 4096, 40_000] {
        let cache = Arc::new(BlockCache::new(budget).block_bytes(4096));
        let source = cached(&far, "a", &cache);
        for at in 0..300_u64 {
            let offset = at * 7919 * 31 % 990_000;
            let expected = &far.bytes[offset as usize..offset as usize + 5000];
            assert_eq!(read(&source, offset, 5000).unwrap(), expected);
            assert!(cache.usage().memory_bytes <= budget);
        }
    }
}

#[test]
fn threads_that_miss_together_load_once() {
    let far = far(40_960);
    let cache = Arc::new(BlockCache::new(1 << 20).block_bytes(4096));
    let source = cached(&far, "a", &cache);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for block in [3, 1, 7, 5] {
                    let found = read(&source, block * 4096, 4096).unwrap();
                    assert_eq!(found, far.bytes[block as usize * 4096..][..4096]);
                }
            });
        }
    });
    assert!(cache.usage().loaded <= 10, "{:?}", cache.usage());
    assert!(far.read_bytes.load(Ordering::SeqCst) <= 40_960, "each block at most once");
}

#[test]
fn a_failed_load_is_an_error_for_all_who_wait_and_is_tried_again() {
    let far = far(40_960);
    let cache = Arc::new(BlockCache::new(1 << 20).block_bytes(4096));
    let source = cached(&far, "a", &cache);
    far.fails.store(true, Ordering::SeqCst);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| assert!(read(&source, 5, 10).is_err()));
        }
    });
    far.fails.store(false, Ordering::SeqCst);
    assert_eq!(read(&source, 5, 10).unwrap(), far.bytes[5..15]);
}

#[test]
fn reads_that_follow_each_other_are_loaded_ahead() {
    let far = far(4 << 20);
    let cache = Arc::new(BlockCache::new(8 << 20).block_bytes(4096));
    let source = cached(&far, "a", &cache);
    let mut calls = 0_u64;
    let mut before = 0;
    for at in 0..4096_u64 {
        assert_eq!(
            read(&source, at * 1000, 1000).unwrap(),
            far.bytes[at as usize * 1000..][..1000]
        );
        let now = far.reads.load(Ordering::SeqCst);
        calls += u64::from(now > before);
        before = now;
    }
    assert!(calls < 60, "{calls} waits for {before} blocks");
}

#[test]
fn a_folder_serves_several_caches_and_may_be_damaged_or_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let far = far(100_000);
    let cache = |budget| {
        let cache = BlockCache::new(0).block_bytes(4096).with_disk(folder.path(), budget);
        Arc::new(cache.unwrap())
    };
    let first = cache(1 << 20);
    assert_eq!(read(&cached(&far, "a", &first), 0, 100_000).unwrap(), far.bytes);
    let loaded = far.reads.load(Ordering::SeqCst);
    // Another process would see the same.
    let second = cache(1 << 20);
    assert_eq!(read(&cached(&far, "a", &second), 0, 100_000).unwrap(), far.bytes);
    assert_eq!(far.reads.load(Ordering::SeqCst), loaded);
    assert_eq!(second.usage().from_disk, 25);
    // Another state of the object shares nothing.
    read(&cached(&far, "a, changed", &second), 0, 10).unwrap();
    assert!(far.reads.load(Ordering::SeqCst) > loaded);
    // Everything damaged.
    for sub in std::fs::read_dir(folder.path()).unwrap() {
        let sub = sub.unwrap().path();
        for file in std::fs::read_dir(&sub).into_iter().flatten() {
            let path = file.unwrap().path();
            let mut bytes = std::fs::read(&path).unwrap();
            let last = bytes.len() - 1;
            bytes[last] ^= 1;
            std::fs::write(&path, bytes).unwrap();
        }
    }
    assert_eq!(read(&cached(&far, "a", &second), 0, 100_000).unwrap(), far.bytes);
    std::fs::remove_dir_all(folder.path()).unwrap();
    assert_eq!(read(&cached(&far, "a", &second), 0, 100_000).unwrap(), far.bytes);
}

#[test]
fn processes_that_share_a_folder_stay_within_its_budget_and_get_the_right_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let far = far(400_000);
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let (folder, far) = (&folder, &far);
            scope.spawn(move || {
                let cache = BlockCache::new(0).block_bytes(4096).with_disk(folder.path(), 60_000);
                let cache = Arc::new(cache.unwrap());
                let source = cached(far, "a", &cache);
                for at in 0..80 {
                    let offset = (at * 7919 + thread * 13) * 31 % 390_000;
                    let expected = &far.bytes[offset as usize..offset as usize + 5000];
                    assert_eq!(read(&source, offset, 5000).unwrap(), expected);
                }
            });
        }
    });
    drop(BlockCache::new(0).with_disk(folder.path(), 60_000).unwrap());
    let mut bytes = 0;
    for sub in std::fs::read_dir(folder.path()).unwrap().flatten() {
        for file in std::fs::read_dir(sub.path()).into_iter().flatten().flatten() {
            bytes += file.metadata().unwrap().len();
        }
    }
    assert!(bytes <= 60_000, "{bytes}");
}

#[test]
fn a_pack_on_a_server_is_read_through_the_cache() {
    let payloads = payloads(300, 3000);
    let server = Server::start();
    server.put("pack.iac", Object::new(&pack_of(&payloads), "one"));
    let folder = tempfile::tempdir().unwrap();
    let open = || {
        let cache = BlockCache::new(1 << 20).with_disk(folder.path(), 100 << 20).unwrap();
        let place =
            ObjectLocation::parse(&server.url("pack.iac"), &StoreOptions::default()).unwrap();
        let (read, options) = (ReadOptions::default(), ObjectOptions::default());
        PackReader::open_cached(&place, &read, &options, &Arc::new(cache)).unwrap()
    };
    let pack = open();
    for row in 0..300 {
        assert_eq!(pack.read(row).unwrap(), payloads[row as usize]);
    }
    let requests = server.log().len();
    assert!(requests < 12, "{requests}");
    let again = open();
    server.log();
    assert_eq!(again.iter_payloads().unwrap().count(), 300);
    assert_eq!(server.log().len(), 0, "from disk");
    // A replaced object is another one.
    let other: Vec<Vec<u8>> = payloads.iter().map(|payload| vec![1; payload.len()]).collect();
    server.put("pack.iac", Object::new(&pack_of(&other), "two"));
    assert_eq!(open().read(7).unwrap(), other[7]);
}
