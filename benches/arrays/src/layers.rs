//! Stores of many layers, beside version 0.14 of `array-format`, the last that has them.

use std::path::Path;
use std::sync::Arc;

use array_format_014::{ArrayFile, FileConfig, NoCompression};
use iac_array::blocking::ArrayStore;
use iac_array::{
    ArrayCache, ArrayData, ArraySpec, CompactPolicy, DType, Location, Packing, StoreOptions,
};
use ndarray::{Array1, Array2};
use object_store_013::ObjectStore as ObjectStore13;
use object_store_013::local::LocalFileSystem;
use tokio::runtime::Runtime;

use crate::table::{Samples, Table, settle};
use crate::{Arguments, Result};

/// Numbers in a row, 64 KiB of them.
const WIDTH: usize = 16_384;

pub fn options() -> StoreOptions {
    StoreOptions::default().packing(Packing::none()).cache(&ArrayCache::new(1 << 30))
}

/// Numbers that no codec makes smaller.
pub fn noise(count: usize, seed: u32) -> Array1<u32> {
    let mut state = seed;
    (0..count)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            state
        })
        .collect()
}

fn rows_of(rows: usize, seed: usize) -> Result<Array2<u32>> {
    Ok(noise(rows * WIDTH, seed as u32 + 1).into_shape_with_order((rows, WIDTH))?)
}

/// Writes rows in layers, as many to each, in chunks of some rows.
fn write_ours(path: &Path, layers: usize, rows: usize, chunk: usize) -> Result<()> {
    let mut store = ArrayStore::create(Location::folder(path)?, options())?;
    let spec = ArraySpec::new(DType::UInt32, &[(layers * rows) as u64, WIDTH as u64])
        .chunks(&[chunk as u64, WIDTH as u64]);
    store.define("a", spec)?;
    for layer in 0..layers {
        store.write("a", &[(layer * rows) as u64, 0], rows_of(rows, layer)?)?;
        store.flush()?;
    }
    Ok(())
}

fn local(folder: &Path) -> Result<Arc<dyn ObjectStore13>> {
    std::fs::create_dir_all(folder)?;
    Ok(Arc::new(LocalFileSystem::new_with_prefix(folder)?))
}

/// As ours, with as much memory for what it keeps.
fn config() -> FileConfig<NoCompression> {
    FileConfig { cache_capacity: 1 << 30, ..FileConfig::new(NoCompression) }
}

async fn create_theirs(folder: &Path, rows: usize, chunk: usize) -> Result<ArrayFile> {
    let mut file = ArrayFile::create(local(folder)?, "a.af".into(), config()).await?;
    let names = vec!["row".into(), "column".into()];
    file.define_array::<u32>("a", names, vec![rows, WIDTH], Some(vec![chunk, WIDTH]), None)?;
    Ok(file)
}

async fn write_theirs(folder: &Path, layers: usize, rows: usize, chunk: usize) -> Result<()> {
    let mut file = create_theirs(folder, layers * rows, chunk).await?;
    for layer in 0..layers {
        let numbers = rows_of(rows, layer)?;
        file.write_array("a", vec![layer * rows, 0], numbers.view().into_dyn()).await?;
        file.flush().await?;
    }
    Ok(())
}

async fn open_theirs(folder: &Path) -> Result<ArrayFile> {
    Ok(ArrayFile::open(local(folder)?, "a.af".into(), config()).await?)
}

/// Copies the files of a folder and of those in it.
fn copy(from: &Path, to: &Path, sync: bool) -> Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target, sync)?;
        } else {
            std::fs::copy(entry.path(), &target)?;
            if sync {
                std::fs::File::open(&target)?.sync_all()?;
            }
        }
    }
    Ok(())
}

/// A11, A12 and A14.
pub fn measure(arguments: &Arguments, folder: &Path, table: &mut Table) -> Result<()> {
    let runtime = Runtime::new()?;
    let (ours, theirs) = (folder.join("layers.arrays"), folder.join("layers.af"));
    let counts: &[usize] = if arguments.quick { &[1, 10, 50] } else { &[1, 10, 100, 500] };
    let most = counts.last().copied().unwrap_or(1);
    let mut warm_one = None;
    for count in counts {
        write_ours(&ours, *count, most / count, 1)?;
        runtime.block_on(write_theirs(&theirs, *count, most / count, 1))?;
        let [mut open, mut first, mut warm] = [(); 3].map(|()| Samples::default());
        let [mut open_a, mut first_a, mut warm_a] = [(); 3].map(|()| Samples::default());
        settle()?;
        for _ in 0..arguments.rounds() {
            let store = open.time(|| Ok(ArrayStore::open(Location::folder(&ours)?, options())?))?;
            let all = first.time(|| Ok(store.read_all("a")?))?;
            for _ in 0..3 {
                warm.time(|| Ok(store.read_all("a")?))?;
            }
            drop(store);
            let file = open_a.time(|| runtime.block_on(open_theirs(&theirs)))?;
            let read = || Ok(runtime.block_on(file.read_array::<u32>("a", vec![], vec![]))?);
            let found = first_a.time(read)?;
            for _ in 0..3 {
                warm_a.time(read)?;
            }
            if all != ArrayData::from(&found.to_owned()) {
                return Err("the sides read different rows".into());
            }
        }
        let line = |what: &str| format!("A11 {what}, {count} layers");
        let any = f64::INFINITY;
        table.times(&line("open"), &open, Some((&open_a, any)), None);
        table.times(&line("first full read"), &first, Some((&first_a, any)), None);
        table.times(&line("warm full read"), &warm, Some((&warm_a, any)), None);
        let (one, one_a) = *warm_one.get_or_insert_with(|| (warm.median(), warm_a.median()));
        table.fact(
            &format!("A11 warm, {count} layers, times 1 layer"),
            "x",
            warm.median() / one,
            Some(warm_a.median() / one_a),
            1.2,
        );
        std::fs::remove_dir_all(&ours)?;
        std::fs::remove_dir_all(&theirs)?;
    }

    let payload = (64 * WIDTH * 4) as f64;
    let mut store = ArrayStore::create(Location::folder(&ours)?, options())?;
    store.define("a", ArraySpec::new(DType::UInt32, &[64, WIDTH as u64]))?;
    for row in 0..64 {
        store.write("a", &[row, 0], rows_of(1, row as usize)?)?;
    }
    let bytes = store.flush()?.layer_bytes as f64;
    let bytes_a = runtime.block_on(async {
        let mut file = create_theirs(&theirs, 64, 64).await?;
        for row in 0..64 {
            let numbers = rows_of(1, row)?;
            file.write_array("a", vec![row, 0], numbers.view().into_dyn()).await?;
        }
        file.flush().await?;
        Result::Ok(std::fs::metadata(theirs.join("a.1.af"))?.len() as f64)
    })?;
    table.fact(
        "A12 file of 64 row writes, times payload",
        "x",
        bytes / payload,
        Some(bytes_a / payload),
        1.05,
    );
    std::fs::remove_dir_all(&ours)?;
    std::fs::remove_dir_all(&theirs)?;

    let (count, rows) = if arguments.quick { (10, 16) } else { (100, 80) };
    write_ours(&ours, count, rows, rows)?;
    runtime.block_on(write_theirs(&theirs, count, rows, rows))?;
    let work = folder.join("work");
    let [mut compact, mut copied] = [(); 2].map(|()| Samples::default());
    let [mut compact_a, mut copied_a] = [(); 2].map(|()| Samples::default());
    for _ in 0..arguments.rounds() {
        settle()?;
        // Synced, as a compaction of ours is.
        copied.time(|| copy(&ours, &work, true))?;
        let mut store = ArrayStore::open(Location::folder(&work)?, options())?;
        settle()?;
        compact.time(|| Ok(store.compact(CompactPolicy::All)?))?;
        drop(store);
        std::fs::remove_dir_all(&work)?;
        settle()?;
        copied_a.time(|| copy(&theirs, &work, false))?;
        let mut file = runtime.block_on(open_theirs(&work))?;
        settle()?;
        compact_a.time(|| Ok(runtime.block_on(file.compact())?))?;
        drop(file);
        std::fs::remove_dir_all(&work)?;
    }
    table.fact(
        &format!("A14 compaction of {count} layers, times copying"),
        "x",
        compact.median() / copied.median(),
        Some(compact_a.median() / copied_a.median()),
        1.25,
    );
    std::fs::remove_dir_all(&ours)?;
    std::fs::remove_dir_all(&theirs)?;
    Ok(())
}
