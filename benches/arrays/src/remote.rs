//! A store that is far away, and stores of many layers.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use iac_array::blocking::ArrayStore;
use iac_array::{ArrayCache, ArraySpec, CompactPolicy, DType, Location, Packing, StoreOptions};
use ndarray::{Array1, Array2};
use object_store::ObjectStore;
use object_store::memory::InMemory;

use crate::counting::Counting;
use crate::table::{Samples, Table};
use crate::{Arguments, Result};

const DELAY: Duration = Duration::from_millis(20);

fn options() -> StoreOptions {
    StoreOptions::default().packing(Packing::none()).cache(&ArrayCache::new(1 << 30))
}

/// Numbers that no codec makes smaller.
fn noise(count: usize, seed: u32) -> Array1<u32> {
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

/// A9 and A10.
pub fn far(arguments: &Arguments, table: &mut Table) -> Result<()> {
    let memory: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let near = Location::object_store(Arc::clone(&memory), "s");
    let mut store = ArrayStore::create(near, options())?;
    let length = 512 << 8;
    let spec = ArraySpec::new(DType::UInt32, &[64, length]).chunks(&[1, length]);
    store.define("a", spec)?;
    let numbers = noise(64 * length as usize, 5);
    store.write("a", &[0, 0], numbers.into_shape_with_order((64, length as usize))?)?;
    store.flush()?;
    let far = Counting::new(memory, DELAY);
    let place = || Location::object_store(Arc::clone(&far) as Arc<dyn ObjectStore>, "s");
    let [mut open, mut read] = [(); 2].map(|()| Samples::default());
    let (mut opened, mut asked) = (0, 0);
    for _ in 0..arguments.rounds() {
        far.take();
        let store = open.time(|| Ok(ArrayStore::open(place(), options())?))?;
        opened = far.take()[0];
        read.time(|| Ok(store.read_all("a")?))?;
        asked = far.take()[0];
    }
    table.fact("A9 requests of opening", "", opened as f64, Some(3.0), 3.0);
    table.fact("A9 opening at 20 ms", "ms", open.median() * 1e3, Some(60.0), 70.0);
    table.fact(
        "A10 requests for 64 chunks of 512 KiB",
        "",
        asked as f64,
        Some(64.0),
        f64::INFINITY,
    );
    table.fact("A10 round trips", "", read.median() / DELAY.as_secs_f64(), Some(64.0), 5.0);
    Ok(())
}

/// A11, A12 and A14.
pub fn layers(arguments: &Arguments, folder: &Path, table: &mut Table) -> Result<()> {
    let counts: &[u64] = if arguments.quick { &[1, 10, 50] } else { &[1, 10, 100, 500] };
    let most = counts.last().copied().unwrap_or(1);
    let mut warm_one = None;
    for count in counts {
        let path = folder.join("layers.arrays");
        let mut store = ArrayStore::create(Location::folder(&path)?, options())?;
        let spec = ArraySpec::new(DType::UInt32, &[most, 16_384]).chunks(&[1, 16_384]);
        store.define("a", spec)?;
        for layer in 0..*count {
            let rows = most / count;
            let numbers = noise(rows as usize * 16_384, layer as u32 + 1);
            let numbers = numbers.into_shape_with_order((rows as usize, 16_384))?;
            store.write("a", &[layer * rows, 0], numbers)?;
            store.flush()?;
        }
        let [mut open, mut first, mut warm] = [(); 3].map(|()| Samples::default());
        for _ in 0..arguments.rounds() {
            let store = open.time(|| Ok(ArrayStore::open(Location::folder(&path)?, options())?))?;
            first.time(|| Ok(store.read_all("a")?))?;
            for _ in 0..3 {
                warm.time(|| Ok(store.read_all("a")?))?;
            }
        }
        table.times(&format!("A11 open, {count} layers"), &open, None, None);
        table.times(&format!("A11 first full read, {count} layers"), &first, None, None);
        let one = warm_one.get_or_insert_with(|| warm.median());
        table.times(&format!("A11 warm full read, {count} layers"), &warm, None, None);
        let ratio = warm.median() / *one;
        table.fact(&format!("A11 warm, {count} layers, times 1 layer"), "x", ratio, None, 1.2);
        std::fs::remove_dir_all(path)?;
    }

    let path = folder.join("rows.arrays");
    let mut store = ArrayStore::create(Location::folder(&path)?, options())?;
    store.define("a", ArraySpec::new(DType::UInt32, &[64, 16_384]))?;
    for row in 0..64 {
        let numbers: Array2<u32> =
            noise(16_384, row as u32 + 1).into_shape_with_order((1, 16_384))?;
        store.write("a", &[row, 0], numbers)?;
    }
    let bytes = store.flush()?.layer_bytes as f64;
    let payload = (64 * 16_384 * 4) as f64;
    table.fact("A12 file of 64 row writes, times payload", "x", bytes / payload, Some(64.0), 1.05);
    std::fs::remove_dir_all(path)?;

    let (count, rows) = if arguments.quick { (10, 16) } else { (100, 80) };
    let path = folder.join("compact.arrays");
    let mut store = ArrayStore::create(Location::folder(&path)?, options())?;
    let spec = ArraySpec::new(DType::UInt32, &[count * rows, 16_384]).chunks(&[rows, 16_384]);
    store.define("a", spec)?;
    for layer in 0..count {
        let numbers = noise(rows as usize * 16_384, layer as u32 + 1);
        let numbers = numbers.into_shape_with_order((rows as usize, 16_384))?;
        store.write("a", &[layer * rows, 0], numbers)?;
        store.flush()?;
    }
    drop(store);
    let [mut compact, mut copy] = [(); 2].map(|()| Samples::default());
    for _ in 0..arguments.rounds() {
        let work = folder.join("work");
        copy.time(|| {
            for name in ["layers", "versions"] {
                std::fs::create_dir_all(work.join(name))?;
                for entry in std::fs::read_dir(path.join(name))? {
                    let entry = entry?;
                    std::fs::copy(entry.path(), work.join(name).join(entry.file_name()))?;
                }
            }
            // As a compaction does, too.
            for entry in std::fs::read_dir(work.join("layers"))? {
                std::fs::File::open(entry?.path())?.sync_all()?;
            }
            Ok(())
        })?;
        let mut store = ArrayStore::open(Location::folder(&work)?, options())?;
        compact.time(|| Ok(store.compact(CompactPolicy::All)?))?;
        std::fs::remove_dir_all(&work)?;
    }
    let ratio = compact.median() / copy.median();
    table.fact(&format!("A14 compaction of {count} layers, times copying"), "x", ratio, None, 1.25);
    std::fs::remove_dir_all(path)?;
    Ok(())
}
