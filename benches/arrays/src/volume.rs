//! A volume of 16-bit numbers in cubes of 64.

use std::path::Path;
use std::sync::Arc;

use array_format::{
    ArrayFile, ArrayWriter, Lz4Codec, NoCompression, ReadConfig, WriterConfig, ZstdCodec,
};
use iac_array::blocking::ArrayStore;
use iac_array::{ArrayCache, ArrayData, ArraySpec, DType, Location, Packing, StoreOptions};
use ndarray::{Array3, ArrayView};
use object_store_013::ObjectStore as ObjectStore13;
use object_store_013::local::LocalFileSystem;
use tokio::runtime::Runtime;
use zarrs::array::codec::ZstdCodec as ZarrZstd;
use zarrs::array::{Array, ArrayBuilder, data_type};
use zarrs::filesystem::FilesystemStore;

use crate::table::{Samples, Table, settle};
use crate::{Arguments, Result};

const CHUNK: u64 = 64;
const BOX: u64 = 32;

/// A body in air, with noise.
pub fn ct(side: usize) -> Array3<i16> {
    let mut state = 7_u32;
    Array3::from_shape_fn((side, side, side), |(z, y, x)| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let noise = (state >> 26) as i16;
        let far = [z, y, x].iter().map(|at| at.abs_diff(side / 2).pow(2)).sum::<usize>();
        if far < (side * 2 / 5).pow(2) { 40 + noise } else { -1000 + noise / 4 }
    })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Codec {
    None,
    Lz4,
    Zstd,
}

fn options(codec: Codec) -> Result<StoreOptions> {
    let packing = match codec {
        Codec::None => Packing::none(),
        Codec::Lz4 => Packing::lz4(),
        Codec::Zstd => Packing::zstd(3)?,
    };
    Ok(StoreOptions::default().packing(packing).cache(&ArrayCache::new(256 << 20)))
}

fn write_ours(path: &Path, codec: Codec, volume: &Array3<i16>) -> Result<()> {
    let side = volume.dim().0 as u64;
    let mut store = ArrayStore::create(Location::folder(path)?, options(codec)?)?;
    let spec = ArraySpec::new(DType::Int16, &[side; 3]).chunks(&[CHUNK; 3]);
    store.define("ct", spec)?;
    store.write("ct", &[0, 0, 0], volume)?;
    store.flush()?;
    Ok(())
}

fn local(folder: &Path) -> Result<Arc<dyn ObjectStore13>> {
    Ok(Arc::new(LocalFileSystem::new_with_prefix(folder)?))
}

async fn write_theirs(folder: &Path, codec: Codec, volume: &Array3<i16>) -> Result<()> {
    let side = volume.dim().0;
    let mut writer = match codec {
        Codec::None => ArrayWriter::new(WriterConfig::new(NoCompression)),
        Codec::Lz4 => ArrayWriter::new(WriterConfig::new(Lz4Codec)),
        Codec::Zstd => ArrayWriter::new(WriterConfig::new(ZstdCodec::new(3))),
    };
    let dims = ["z", "y", "x"].map(|dim| dim.into()).to_vec();
    let chunk = vec![CHUNK as usize; 3];
    writer.define_array::<i16>("ct", dims, vec![side; 3], Some(chunk), None)?;
    writer.write_array("ct", vec![0, 0, 0], volume.view().into_dyn())?;
    writer.finish(local(folder)?, "ct.af".into()).await?;
    Ok(())
}

async fn open_theirs(folder: &Path) -> Result<ArrayFile> {
    Ok(ArrayFile::open(local(folder)?, "ct.af".into(), ReadConfig::default()).await?)
}

fn write_zarr(folder: &Path, codec: Codec, volume: &Array3<i16>) -> Result<()> {
    let side = volume.dim().0 as u64;
    let store = Arc::new(FilesystemStore::new(folder)?);
    let mut builder = ArrayBuilder::new(vec![side; 3], vec![CHUNK; 3], data_type::int16(), 0_i16);
    if codec == Codec::Zstd {
        builder.bytes_to_bytes_codecs(vec![Arc::new(ZarrZstd::new(3, false))]);
    } else {
        builder.bytes_to_bytes_codecs(vec![]);
    }
    let array = builder.build(store, "/")?;
    array.store_metadata()?;
    array.store_array_subset(&array.subset_all(), volume.as_slice().unwrap_or_default())?;
    Ok(())
}

fn open_zarr(folder: &Path) -> Result<Array<FilesystemStore>> {
    Ok(Array::open(Arc::new(FilesystemStore::new(folder)?), "/")?)
}

/// A1 to A4.
pub fn measure(arguments: &Arguments, folder: &Path, table: &mut Table) -> Result<()> {
    let side = if arguments.quick { 128 } else { 512 };
    let volume = ct(side);
    let runtime = Runtime::new()?;
    let at = |name: &str| -> Result<std::path::PathBuf> {
        let path = folder.join(name);
        if path.exists() {
            std::fs::remove_dir_all(&path)?;
        }
        std::fs::create_dir_all(&path)?;
        Ok(path)
    };
    for (name, codec) in [("none", Codec::None), ("lz4", Codec::Lz4), ("zstd-3", Codec::Zstd)] {
        let zarr = codec != Codec::Lz4;
        let [mut ours, mut a, mut z] = [(); 3].map(|()| Samples::default());
        for _ in 0..arguments.rounds() {
            let path = at("ours")?;
            settle()?;
            ours.time(|| write_ours(&path, codec, &volume))?;
            let path = at("theirs")?;
            settle()?;
            a.time(|| runtime.block_on(write_theirs(&path, codec, &volume)))?;
            if zarr {
                let path = at("zarr")?;
                settle()?;
                z.time(|| write_zarr(&path, codec, &volume))?;
            }
        }
        let z = |most| zarr.then_some((&z, most));
        table.times(
            &format!("A1 write {side}^3 int16, {name}"),
            &ours,
            Some((&a, 1.0 / 1.5)),
            z(1.0),
        );

        fn side_z_of(zarr: bool, samples: &Samples, most: f64) -> Option<(&Samples, f64)> {
            zarr.then_some((samples, most))
        }
        let [mut ours, mut a, mut z] = [(); 3].map(|()| Samples::default());
        let [mut box_ours, mut box_a, mut box_z] = [(); 3].map(|()| Samples::default());
        let [mut warm_ours, mut warm_a] = [(); 2].map(|()| Samples::default());
        let paths = ["ours", "theirs", "zarr"].map(|name| folder.join(name));
        let start = [(side / 3) as u64; 3];
        let inner = vec![side / 3; 3];
        let ranges = start.map(|start| start..start + BOX);
        for _ in 0..arguments.rounds() {
            let open = || -> Result<ArrayStore> {
                Ok(ArrayStore::open(Location::folder(&paths[0])?, options(codec)?)?)
            };
            let store = open()?;
            let all = ours.time(|| Ok(store.read_all("ct")?))?;
            let file = runtime.block_on(open_theirs(&paths[1]))?;
            let found =
                a.time(|| Ok(runtime.block_on(file.read_array::<i16>("ct", vec![], vec![]))?))?;
            if found.as_slice() != volume.as_slice() || all != ArrayData::from(&volume) {
                return Err("the sides read different volumes".into());
            }
            drop((all, found, file, store));
            if zarr {
                let array = open_zarr(&paths[2])?;
                let found: Vec<i16> =
                    z.time(|| Ok(array.retrieve_array_subset(&array.subset_all())?))?;
                if ArrayView::from(&found).len() != volume.len() {
                    return Err("zarrs reads another volume".into());
                }
                let array = open_zarr(&paths[2])?;
                let _: Vec<i16> = box_z.time(|| Ok(array.retrieve_array_subset(&ranges)?))?;
            }
            let store = open()?;
            let read = || Ok(store.read("ct", &start, &[BOX; 3])?);
            box_ours.time(read)?;
            for _ in 0..20 {
                warm_ours.time(read)?;
            }
            let file = runtime.block_on(open_theirs(&paths[1]))?;
            let read = || {
                let shape = vec![BOX as usize; 3];
                Ok(runtime.block_on(file.read_array::<i16>("ct", inner.clone(), shape))?)
            };
            box_a.time(read)?;
            for _ in 0..20 {
                warm_a.time(read)?;
            }
        }
        table.times(
            &format!("A2 read all, {name}"),
            &ours,
            Some((&a, 0.5)),
            side_z_of(zarr, &z, 1.0),
        );
        table.times(
            &format!("A3 box of 32^3, cold, {name}"),
            &box_ours,
            Some((&box_a, 0.25)),
            side_z_of(zarr, &box_z, 1.1),
        );
        table.times(
            &format!("A4 box of 32^3, warm, {name}"),
            &warm_ours,
            Some((&warm_a, 1.0)),
            None,
        );
    }
    for name in ["ours", "theirs", "zarr"] {
        std::fs::remove_dir_all(folder.join(name))?;
    }
    Ok(())
}
