//! `iac pack features`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use iatrocache::WriteOptions;
use iatrocache::adapters::RecordTable;
use iatrocache::adapters::features::{ElementType, FeatureFile, FeaturePackBuilder, NonFinite};
use iatrocache::adapters::manifest::ManifestReader;
use serde_json::json;

use super::select::shown;
use crate::cli::Common;
use crate::failure::{Failure, Result, human_safe};
use crate::human;
use crate::interrupt;
use crate::output::{self, Out};
use crate::progress::{Shown, Unit};

/// Pack features of tiles, one vector for each
///
/// Vectors come from a .npy or .safetensors file, one to a row, in the order of the manifest's rows
/// or of the tiles of a pack.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iac pack features tiles.csv features.npy -o cohort.features.iac --teacher uni-v2
  iac pack features features.npy --tiles cohort.tiles.iac -o cohort.features.iac --teacher uni-v2
  iac pack features tiles.csv out.safetensors -o f.features.iac --teacher x --dtype float16

Packs with --dtype bfloat16 are of type teacher_features_v2, which the reference packages do not
read.

With --json, one object: {\"path\",\"rows\",\"dim\",\"dtype\",\"non_finite\",\"file_bytes\"}.")]
pub(super) struct FeaturesArgs {
    /// The manifest (unless --tiles is given), and the file with the vectors
    #[arg(required = true, num_args = 1..=2, value_names = ["MANIFEST", "FEATURES"])]
    files: Vec<PathBuf>,
    /// The pack
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// Take records, tile size and stride from this pack of tiles
    #[arg(long, value_name = "PACK")]
    tiles: Option<PathBuf>,
    /// Name of the model that made the vectors
    #[arg(long, value_name = "NAME")]
    teacher: String,
    /// Type of the stored elements
    #[arg(long, value_name = "TYPE", default_value = "float32")]
    dtype: String,
    /// Name of the matrix in a .safetensors file that holds several
    #[arg(long, value_name = "NAME")]
    tensor: Option<String>,
    /// Width of the tiles in pixels [default: the stride]
    #[arg(long, value_name = "N")]
    tile_width: Option<u64>,
    /// Height of the tiles in pixels [default: the stride]
    #[arg(long, value_name = "N")]
    tile_height: Option<u64>,
    /// Pixels between columns of tiles [default: the greatest common divisor of all x]
    #[arg(long, value_name = "N")]
    stride_x: Option<u64>,
    /// Pixels between rows of tiles [default: the greatest common divisor of all y]
    #[arg(long, value_name = "N")]
    stride_y: Option<u64>,
    /// Also store the split of each tile
    #[arg(long)]
    keep_split: bool,
    /// Refuse vectors with elements that are infinite or no numbers
    #[arg(long)]
    finite: bool,
    /// Replace an existing pack
    #[arg(long)]
    overwrite: bool,
}

pub(super) fn features(arguments: &FeaturesArgs, common: &Common) -> Result<ExitCode> {
    let dtype = ElementType::from_name(&arguments.dtype)
        .ok_or_else(|| Failure::usage(format!("unknown element type {}", arguments.dtype)))?;
    let mut builder = FeaturePackBuilder::new(&arguments.teacher)
        .dtype(dtype)
        .keep_split(arguments.keep_split)
        .non_finite(if arguments.finite { NonFinite::Refuse } else { NonFinite::Count })
        .options(WriteOptions::new().overwrite(arguments.overwrite));
    let (records, vectors) = match (&arguments.tiles, arguments.files.as_slice()) {
        (None, [manifest, vectors]) => (read_manifest(manifest)?, vectors),
        #[cfg(feature = "tiles")]
        (Some(tiles), [vectors]) => {
            let tiles = iatrocache::adapters::tiles::TilePackReader::open(tiles)?;
            builder = builder.for_tiles(&tiles)?;
            (tiles.record_table()?, vectors)
        }
        #[cfg(not(feature = "tiles"))]
        (Some(_), [_]) => {
            return Err(Failure::usage("--tiles needs a build with the feature `tiles`"));
        }
        (None, _) => return Err(Failure::usage("a manifest and a file with vectors are needed")),
        (Some(_), _) => {
            return Err(Failure::usage("with --tiles, name the file with the vectors only"));
        }
    };
    let set = |value: Option<u64>| value.is_some();
    if set(arguments.tile_width) || set(arguments.tile_height) {
        builder = builder.tile_size(arguments.tile_width, arguments.tile_height);
    }
    if set(arguments.stride_x) || set(arguments.stride_y) {
        builder = builder.stride(arguments.stride_x, arguments.stride_y);
    }
    let vectors = match &arguments.tensor {
        Some(tensor) => FeatureFile::open_named(vectors, tensor)?,
        None => FeatureFile::open(vectors)?,
    };
    let progress = Shown::new(common, Unit::Rows);
    let writing = interrupt::writing()?;
    let summary = builder.build_streaming(&arguments.output, records, vectors, &progress)?;
    drop(writing);
    let mut out = Out::new();
    if common.json {
        out.json(&json!({
            "path": shown(&summary.written.path),
            "rows": summary.rows,
            "dim": summary.dim,
            "dtype": summary.dtype.name(),
            "non_finite": summary.non_finite,
            "file_bytes": summary.written.file_bytes,
        }))?;
    } else {
        out.line(&format!(
            "{} of {} {} packed into {} ({})",
            human::counted(summary.rows, "vector"),
            human::count(summary.dim),
            summary.dtype,
            human_safe(&shown(&summary.written.path)),
            human::bytes(summary.written.file_bytes)
        ))?;
    }
    out.finish()?;
    if !common.quiet && summary.non_finite > 0 {
        let odd = human::counted(summary.non_finite, "element");
        output::note(&format!("{odd} are infinite or no numbers (--finite refuses them)"));
    }
    Ok(ExitCode::SUCCESS)
}

fn read_manifest(path: &Path) -> Result<RecordTable> {
    let mut records = RecordTable::new();
    for record in ManifestReader::open(path)? {
        records.push(&record?)?;
    }
    Ok(records)
}
