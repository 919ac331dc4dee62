//! Many arrays in one store, and many chunks in one array.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use array_format::{ArrayFile, ArrayWriter, AttributeValue, Lz4Codec, ReadConfig, WriterConfig};
use iac_array::blocking::ArrayStore;
use iac_array::{ArrayCache, ArraySpec, DType, Location, Packing, StoreOptions};
use ndarray::Array1;
use object_store::ObjectStore;
use object_store::memory::InMemory;
use object_store_013::ObjectStore as ObjectStore13;
use object_store_013::local::LocalFileSystem;
use tokio::runtime::Runtime;

use crate::counting::Counting;
use crate::table::{Samples, Table};
use crate::{Arguments, Result};

fn options() -> StoreOptions {
    StoreOptions::default().packing(Packing::lz4()).cache(&ArrayCache::new(256 << 20))
}

fn local(folder: &Path) -> Result<Arc<dyn ObjectStore13>> {
    Ok(Arc::new(LocalFileSystem::new_with_prefix(folder)?))
}

fn resident() -> Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().split(' ').next()?.parse::<f64>().ok());
    Ok(kib.ok_or("no VmRSS")? / 1024.0)
}

/// Prints the MiB that opening takes, in a process of its own.
pub fn memory_of(side: &str, path: &str) -> Result<()> {
    let path = Path::new(path);
    let before;
    let after;
    if side == "ours" {
        before = resident()?;
        let store = ArrayStore::open(Location::folder(path)?, options())?;
        let snapshot = store.snapshot();
        let column = snapshot.as_async().attr_column("key7").count();
        after = resident()?;
        println!("{} {column}", after - before);
    } else if side == "chunk" {
        before = resident()?;
        let store = ArrayStore::open(Location::folder(path)?, options())?;
        let found = store.read("a", &[16 * 700], &[16])?;
        after = resident()?;
        println!("{} {}", after - before, found.shape().len());
    } else {
        let runtime = Runtime::new()?;
        before = resident()?;
        let open = ArrayFile::open(local(path)?, "many.af".into(), ReadConfig::default());
        let file = runtime.block_on(open)?;
        let column = file.attribute_column("key7").map_or(0, <[_]>::len);
        after = resident()?;
        println!("{} {column}", after - before);
    }
    Ok(())
}

fn child(side: &str, path: &Path) -> Result<f64> {
    let output =
        Command::new(std::env::current_exe()?).arg("--memory-of").arg(side).arg(path).output()?;
    let text = String::from_utf8(output.stdout)?;
    Ok(text.split(' ').next().unwrap_or_default().trim().parse()?)
}

/// A5 and A6.
pub fn arrays(arguments: &Arguments, folder: &Path, table: &mut Table) -> Result<()> {
    let count = if arguments.quick { 2_000_usize } else { 100_000 };
    let runtime = Runtime::new()?;
    let [ours_path, theirs_path] = ["many.arrays", "many"].map(|name| folder.join(name));
    std::fs::create_dir_all(&theirs_path)?;
    let mut store = ArrayStore::create(Location::folder(&ours_path)?, options())?;
    let mut writer = ArrayWriter::new(WriterConfig::new(Lz4Codec));
    for at in 0..count {
        let name = format!("array-{at:06}");
        let numbers: Array1<i32> = (0..256).map(|n| (n * 7 + at as i32) % 1000).collect();
        let mut spec = ArraySpec::new(DType::Int32, &[256]);
        writer.define_array::<i32>(&name, vec!["x".into()], vec![256], None, None)?;
        for key in 0..20 {
            let value = format!("value {}", (at + key) % 97);
            spec = spec.attr(&format!("key{key}"), value.as_str());
            writer.set_attribute(
                &name,
                &format!("key{key}"),
                AttributeValue::String(value.into()),
            )?;
        }
        store.define(&name, spec)?;
        store.write(&name, &[0], &numbers)?;
        writer.write_array(&name, vec![0], numbers.view().into_dyn())?;
    }
    store.flush()?;
    drop(store);
    runtime.block_on(writer.finish(local(&theirs_path)?, "many.af".into()))?;

    let [mut open_ours, mut open_theirs, mut read_ours, mut read_theirs] =
        [(); 4].map(|()| Samples::default());
    for _ in 0..arguments.rounds() {
        let store = open_ours.time(|| {
            let store = ArrayStore::open(Location::folder(&ours_path)?, options())?;
            let snapshot = store.snapshot();
            let found = snapshot.as_async().attr_column("key7").count();
            if found == count { Ok(store) } else { Err("not every array has the attribute".into()) }
        })?;
        let file = open_theirs.time(|| {
            let open =
                ArrayFile::open(local(&theirs_path)?, "many.af".into(), ReadConfig::default());
            let file = runtime.block_on(open)?;
            let found = file.attribute_column("key7").map_or(0, <[_]>::len);
            if found == count { Ok(file) } else { Err("not every array has the attribute".into()) }
        })?;
        let names: Vec<String> = (0..count).map(|at| format!("array-{at:06}")).collect();
        let mut sums = [0_i64; 2];
        read_ours.time(|| {
            for name in &names {
                let data = store.read_all(name)?;
                sums[0] += i64::from(data.as_bytes().map_or(0, |bytes| bytes[0]));
            }
            Ok(())
        })?;
        read_theirs.time(|| {
            for name in &names {
                let data = runtime.block_on(file.read_array::<i32>(name, vec![], vec![]))?;
                sums[1] += i64::from(data[[0]].to_le_bytes()[0]);
            }
            Ok(())
        })?;
        if sums[0] != sums[1] {
            return Err("the sides read different arrays".into());
        }
    }
    table.times(
        &format!("A5 open {count} arrays, one attribute of all"),
        &open_ours,
        Some((&open_theirs, 1.0)),
        None,
    );
    let (ours, theirs) = (child("ours", &ours_path)?, child("theirs", &theirs_path)?);
    table.fact("A5 memory after that", "MiB", ours, Some(theirs), theirs * 0.7);
    table.times(
        &format!("A6 read each of {count} arrays"),
        &read_ours,
        Some((&read_theirs, 0.7)),
        None,
    );
    std::fs::remove_dir_all(ours_path)?;
    std::fs::remove_dir_all(theirs_path)?;
    Ok(())
}

/// An array of so many chunks of 16 numbers.
fn numbers(chunks: usize) -> Array1<i32> {
    (0..chunks as i32 * 16).map(|at| at.wrapping_mul(2_654_435)).collect()
}

/// A7, A8 and A13.
pub fn chunks(arguments: &Arguments, folder: &Path, table: &mut Table) -> Result<()> {
    let many = if arguments.quick { 20_000_usize } else { 1_000_000 };
    let few = 1000;
    let runtime = Runtime::new()?;
    let [ours_path, theirs_path] = ["chunks.arrays", "chunks"].map(|name| folder.join(name));
    std::fs::create_dir_all(&theirs_path)?;
    let make = |location: Location, chunks: usize| -> Result<()> {
        let mut store = ArrayStore::create(location, options())?;
        store.define("a", ArraySpec::new(DType::Int32, &[chunks as u64 * 16]).chunks(&[16]))?;
        store.write("a", &[0], numbers(chunks))?;
        store.flush()?;
        Ok(())
    };
    make(Location::folder(&ours_path)?, many)?;
    let mut writer = ArrayWriter::new(WriterConfig::new(Lz4Codec));
    let shape = vec![many * 16];
    writer.define_array::<i32>("a", vec!["x".into()], shape, Some(vec![16]), None)?;
    writer.write_array("a", vec![0], numbers(many).view().into_dyn())?;
    runtime.block_on(writer.finish(local(&theirs_path)?, "a.af".into()))?;

    let [mut ours, mut theirs] = [(); 2].map(|()| Samples::default());
    let at = 16 * (many as u64 / 3);
    for _ in 0..arguments.rounds() {
        let first = ours.time(|| {
            let store = ArrayStore::open(Location::folder(&ours_path)?, options())?;
            Ok(store.read("a", &[at], &[16])?.to_ndarray::<i32>()?[[0]])
        })?;
        let second = theirs.time(|| {
            let open = ArrayFile::open(local(&theirs_path)?, "a.af".into(), ReadConfig::default());
            let file = runtime.block_on(open)?;
            let read = file.read_array::<i32>("a", vec![at as usize], vec![16]);
            Ok(runtime.block_on(read)?[[0]])
        })?;
        if first != second {
            return Err("the sides read different chunks".into());
        }
    }
    table.times(&format!("A7 open {many} chunks, read one"), &ours, Some((&theirs, 0.2)), None);
    table.fact("A7 memory after that", "MiB", child("chunk", &ours_path)?, None, 20.0);

    // The same in memory, where requests can be counted.
    let memory = Counting::new(Arc::new(InMemory::new()), Duration::ZERO);
    let place = || Location::object_store(Arc::clone(&memory) as Arc<dyn ObjectStore>, "many");
    make(place(), many)?;
    let small = || Location::object_store(Arc::clone(&memory) as Arc<dyn ObjectStore>, "few");
    make(small(), few)?;
    memory.take();
    let mut store = ArrayStore::open(place(), options())?;
    store.read("a", &[at], &[16])?;
    let [_, read, _] = memory.take();
    table.fact("A7 bytes read", "MB", read as f64 / 1e6, None, 2.0);

    // Decoded blocks are not kept, index batches are; so a chunk costs one request and one block.
    let [mut of_many, mut of_few] = [(); 2].map(|()| Samples::default());
    let other = ArrayStore::open(small(), options())?;
    for (store, chunks, samples) in [(&store, many, &mut of_many), (&other, few, &mut of_few)] {
        for step in 0..2000_u64 {
            let at = step % 60 * 16 + 16 * (chunks as u64 / 3);
            samples.time(|| Ok(store.read("a", &[at], &[16])?))?;
        }
    }
    let ratio = of_many.median() / of_few.median();
    table.fact(&format!("A8 read a chunk of {many}, times one of {few}"), "x", ratio, None, 1.2);
    memory.take();
    store.write("a", &[at + 3], Array1::from_vec(vec![5_i32; 4]))?;
    store.flush()?;
    let [requests, _, written] = memory.take();
    table.fact("A13 requests of a flush of one of these chunks", "", requests as f64, None, 3.0);
    table.fact("A13 bytes written", "MiB", written as f64 / 1048576.0, None, 1.1);
    std::fs::remove_dir_all(ours_path)?;
    std::fs::remove_dir_all(theirs_path)?;
    Ok(())
}
