//! Packs the files of a folder, and reads them back: by row, as a batch, and those that match.
//!
//! ```console
//! cargo run -p iac-examples --bin pack_a_folder -- FOLDER PACK.iac
//! ```

use std::error::Error;
use std::path::PathBuf;

use iatrocache::codec::CodecSpec;
use iatrocache::ops::NoProgress;
use iatrocache::ops::raw::{RawPackOptions, pack_raw};
use iatrocache::prelude::*;
use iatrocache::serde_json::Map;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let (Some(folder), Some(path)) = (arguments.next(), arguments.next()) else {
        return Err("usage: pack_a_folder FOLDER PACK.iac".into());
    };

    // Each file becomes a record; here they are compressed one by one.
    let mut options = RawPackOptions::default();
    options.recursive = true;
    options.codec = CodecSpec::new("zstd", Map::new());
    let made = pack_raw(&[folder], &path, &options, &NoProgress)?;
    println!("{} files of {} bytes packed", made.files, made.source_bytes);

    // Records are decoded as they are read, and compared with their checksums.
    let pack = VariableRecordPack::open(&path)?;
    let count = pack.record_count()?;
    if count == 0 {
        return Ok(());
    }
    println!("the first has {} bytes", pack.read(0)?.len());

    // A batch in any order, with repetitions: one buffer, and where each record begins in it.
    let rows = [count - 1, 0, count - 1];
    let batch = pack.read_many_contiguous(&rows)?;
    println!("a batch of {} records has {} bytes", rows.len(), batch.buffer().len());

    // Rows are chosen by the columns of the index table.
    let predicate = Predicate::parse("path like '%.txt' and bytes < 4096")?;
    let index = pack.reader().index_table()?;
    let small = predicate.select(&index.columns(&["path", "bytes"])?, &[])?;
    println!("{} small text files", small.len());
    Ok(())
}
