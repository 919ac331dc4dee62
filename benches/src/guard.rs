//! Hot paths whose instructions are counted, so that a change which makes one dearer is noticed on
//! any machine, busy or not.
//!
//! Each path is run under `valgrind --tool=callgrind` twice, once and three times in a row, and half
//! the difference is its count: starting, opening and what happens the first time fall out.

use std::convert::Infallible;
use std::hint::black_box;
use std::num::NonZeroUsize;
use std::path::Path;

use iac_codec::Codec;
use iac_codec::brotli::BrotliOptions;
use iac_codec::zstd::{ZstdOptions, train_dictionary};
use iac_reader::{
    ContiguousRecordBatch, FixedRecordPack, PackReader, ReadOptions, SourceKind, VariableRecordPack,
};
use iac_writer::{Table, VariablePackBuilder, build_pack_streaming};

use crate::random::Random;
use crate::{Result, sample, texts};

/// Names of the paths, in the order of the report.
pub const PATHS: [&str; 15] = [
    "open 20,000 rows, first record",
    "batches, owned, CRC",
    "batches, one buffer, CRC",
    "batches, one buffer, no CRC",
    "batches, one buffer, positional",
    "batches, views",
    "single records, CRC",
    "all in row order, CRC",
    "fixed rows, into memory",
    "fixed rows as f32, into memory",
    "texts, zstd 3",
    "texts, zstd 3, dictionary",
    "texts, brotli 5",
    "write records",
    "write texts, zstd 3",
];

const ROWS: u64 = 4000;
const OPEN_ROWS: u64 = 20_000;
const DIM: u64 = 512;
const TEXTS: usize = 2000;

/// Writes the files that the paths read.
///
/// # Errors
///
/// What the writer reports.
pub fn prepare(folder: &Path) -> Result<()> {
    let bytes = ROWS * 1000;
    sample::write_variable(&folder.join("records.iac"), bytes, sample::KILOBYTE, 1)?;
    sample::write_small_records(&folder.join("open.iac"), OPEN_ROWS)?;
    sample::write_halves(&folder.join("fixed.iac"), ROWS, DIM, 2)?;
    let records = records();
    let zstd = ZstdOptions::new(3);
    let dictionary = train_dictionary(&records, 16 << 10)?;
    let with_dictionary = zstd.clone().with_dictionary(dictionary).codec()?;
    let brotli = BrotliOptions::default().with_quality(5).codec()?;
    for (name, codec) in
        [("zstd", zstd.codec()?), ("dictionary", with_dictionary), ("brotli", brotli)]
    {
        write_texts(&folder.join(name).with_extension("iac"), codec, &records)?;
    }
    Ok(())
}

/// Runs one path so many times over the files that [`prepare`] wrote.
///
/// # Errors
///
/// What the reader or the writer reports.
pub fn run(name: &str, folder: &Path, times: u32) -> Result<()> {
    let one = ReadOptions::default().workers(NonZeroUsize::new(1)).use_header_cache(false);
    let open = |file: &str| PackReader::open_with(folder.join(file), &one);
    let repeat = |work: &mut dyn FnMut() -> Result<()>| (0..times).try_for_each(|_| work());
    let over = |pack: &PackReader, work: &mut dyn FnMut(&[u64]) -> Result<()>| {
        let batches = sample::random_batches(pack.num_records()?, 8, 3);
        repeat(&mut || batches.iter().try_for_each(|rows| work(rows)))
    };
    let contiguous = |pack: &PackReader| {
        let mut batch = ContiguousRecordBatch::new();
        over(pack, &mut |rows| {
            pack.read_contiguous_into(rows, &mut batch)?;
            black_box(batch.buffer());
            Ok(())
        })
    };
    let decoded = |file: &str| {
        let pack = open(file)?;
        let records = VariableRecordPack::from_reader(pack.clone());
        let mut batch = ContiguousRecordBatch::new();
        over(&pack, &mut |rows| {
            records.read_many_contiguous_into(rows, &mut batch)?;
            black_box(batch.buffer());
            Ok(())
        })
    };
    match name {
        "open 20,000 rows, first record" => repeat(&mut || {
            black_box(open("open.iac")?.read(OPEN_ROWS / 3)?);
            Ok(())
        }),
        "batches, owned, CRC" => {
            let pack = open("records.iac")?;
            over(&pack, &mut |rows| {
                black_box(pack.read_rows(rows)?);
                Ok(())
            })
        }
        "batches, one buffer, CRC" => contiguous(&open("records.iac")?),
        "batches, one buffer, no CRC" => contiguous(&open("records.iac")?.with_crc(false)),
        "batches, one buffer, positional" => {
            let options = one.clone().source(SourceKind::Positional);
            contiguous(&PackReader::open_with(folder.join("records.iac"), &options)?)
        }
        "batches, views" => {
            let (pack, mut views) = (open("records.iac")?, Vec::new());
            over(&pack, &mut |rows| {
                pack.views_into(rows, &mut views)?;
                black_box(&views);
                Ok(())
            })
        }
        "single records, CRC" => {
            let pack = open("records.iac")?;
            over(&pack, &mut |rows| {
                for row in rows {
                    black_box(pack.read(*row)?);
                }
                Ok(())
            })
        }
        "all in row order, CRC" => {
            let pack = open("records.iac")?;
            repeat(&mut || {
                for record in pack.iter_payloads()? {
                    black_box(record?);
                }
                Ok(())
            })
        }
        "fixed rows, into memory" => {
            let pack = FixedRecordPack::from_reader(open("fixed.iac")?)?;
            let mut buffer = vec![0; sample::BATCH_ROWS * pack.row_bytes()];
            over(pack.reader(), &mut |rows| {
                pack.read_matrix_into(rows, &mut buffer)?;
                black_box(&buffer);
                Ok(())
            })
        }
        "fixed rows as f32, into memory" => {
            let pack = FixedRecordPack::from_reader(open("fixed.iac")?)?;
            let mut elements = vec![0.0; sample::BATCH_ROWS * usize::try_from(DIM)?];
            over(pack.reader(), &mut |rows| {
                pack.read_many_f32_into(rows, &mut elements)?;
                black_box(&elements);
                Ok(())
            })
        }
        "texts, zstd 3" => decoded("zstd.iac"),
        "texts, zstd 3, dictionary" => decoded("dictionary.iac"),
        "texts, brotli 5" => decoded("brotli.iac"),
        "write records" => {
            let mut pool = vec![0; 1 << 20];
            Random::new(4).fill(&mut pool);
            let index = sample::index_table(1024)?;
            repeat(&mut || {
                let records = pool.chunks(1024).map(Ok::<_, Infallible>);
                let (header, slides) = (sample::header(), Table::empty());
                let path = folder.join("written.iac");
                build_pack_streaming(path, &header, &slides, &index, records, &sample::options())?;
                Ok(())
            })
        }
        "write texts, zstd 3" => {
            let (records, codec) = (records(), ZstdOptions::new(3).codec()?);
            let path = folder.join("written.iac");
            repeat(&mut || write_texts(&path, codec.clone(), &records[..256]))
        }
        other => Err(format!("no path is called {other}").into()),
    }
}

fn records() -> Vec<Vec<u8>> {
    texts::notes(TEXTS, sample::NOTES, 5)
}

fn write_texts(path: &Path, codec: Codec, records: &[Vec<u8>]) -> Result<()> {
    let index = sample::index_table(u64::try_from(records.len())?)?;
    VariablePackBuilder::new("benchmark", index)
        .codec(codec)
        .options(sample::options())
        .workers(NonZeroUsize::new(1))
        .build(path, records)?;
    Ok(())
}
