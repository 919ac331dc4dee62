//! Joins the vectors that two models made of the same tiles, and says which tiles lack one.
//!
//! ```console
//! cargo run -p iac-examples --bin join_features -- FOLDER
//! ```

use std::error::Error;
use std::path::PathBuf;

use iatrocache::adapters::features::{
    ElementType, FeatureJoin, FeaturePackBuilder, FeaturePackReader,
};
use iatrocache::adapters::{RecordTable, TileRecord};

/// Tiles of the made-up slide.
const TILES: i64 = 100;

fn main() -> Result<(), Box<dyn Error>> {
    let Some(folder) = std::env::args_os().nth(1).map(PathBuf::from) else {
        return Err("usage: join_features FOLDER".into());
    };
    let (small, large) = (folder.join("small.features.iac"), folder.join("large.features.iac"));

    // One model saw every tile, the other one left out every tenth.
    let (mut all, mut some) = (RecordTable::new(), RecordTable::new());
    let (mut vectors, mut others) = (Vec::new(), Vec::new());
    for number in 0..TILES {
        let record = tile(number);
        all.push(&record)?;
        vectors.push(vec![number as f32; 8]);
        if number % 10 != 0 {
            some.push(&record)?;
            others.push(vec![-(number as f32); 16]);
        }
    }
    FeaturePackBuilder::new("small-model").tile_size(256, 256).build(&small, all, &vectors)?;
    // Half the bytes, converted as they are written, and back as they are read.
    FeaturePackBuilder::new("large-model")
        .tile_size(256, 256)
        .dtype(ElementType::Float16)
        .build(&large, some, &others)?;

    let small = FeaturePackReader::open(small)?;
    let large = FeaturePackReader::open(large)?;
    println!("row 42 of the first pack is {}", small.tile_id(42)?);

    // Rows are those of the first pack; vectors of both stand side by side.
    let join = FeatureJoin::with_features(&small, [&small, &large])?;
    println!(
        "{} numbers for a tile, {} tiles have them all",
        join.dim(),
        join.complete_rows().len()
    );
    let vectors = join.read_f32(&[42, 7])?;
    println!("tile 42: {} .. {}", vectors[0], vectors[join.dim() - 1]);

    // Where a vector is missing there is a number of your choice, and you are told.
    let (_, missing) = join.read_f32_or(&[10, 11], f32::NAN)?;
    for lack in missing {
        println!("tile {} has no vector in pack {}", lack.tile_row, lack.pack);
    }
    Ok(())
}

fn tile(number: i64) -> TileRecord {
    TileRecord {
        tile_id: format!("S1-{number}"),
        patient_id: "P001".to_owned(),
        slide_id: "S1".to_owned(),
        tile_path: PathBuf::from(format!("S1/{number}.png")),
        x: number % 10 * 256,
        y: number / 10 * 256,
        split: None,
    }
}
