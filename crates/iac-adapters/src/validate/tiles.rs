//! The rules of image tiles.

use iac_format::TableKind;
use iac_ops::decode::Decoded;
use iac_ops::schema::{SchemaFault, SchemaReport};
use iac_reader::PackReader;
use serde_json::Value;

use super::first::check_sums;
use super::rules::{Columns, Findings, columns, listed, warn_of_header, warn_of_rows};
use super::{ValidateOptions, Validated, chosen, of_rows};
use crate::columns::{int_column, missing_columns};
use crate::error::Result;
use crate::table::header_integer;
use crate::tiles::{IMAGE_TILES, IMAGE_TILES_V2, TilePackReader, TileReadOptions};

/// Tiles that are decoded together.
const GROUP: u64 = 32;

/// Header members of tile packs that feature packs have not.
const KNOWN: [&str; 7] = [
    "codec",
    "codec_params",
    "offset_dtype",
    "length_dtype",
    "max_slides_per_pack",
    "tiles_schema_version",
    "iac_sample",
];

pub(super) fn handles(payload_type: &str) -> bool {
    [IMAGE_TILES, IMAGE_TILES_V2].contains(&payload_type)
}

pub(super) fn validate(pack: &PackReader, options: &ValidateOptions) -> Result<Validated> {
    let rows = pack.num_records()?;
    let mut findings = Findings::new(1);
    tables(pack, &mut findings)?;
    findings.first(pack)?;
    let crc_checked = of_rows(options.max_crc, rows);
    check_sums(pack, crc_checked)?;
    codec(pack, &mut findings);
    findings.first(pack)?;
    let decoded = of_rows(options.max_decode, rows);
    // Only those rows are compared with their checksums that were asked for.
    let unchecked = pack.with_crc(false);
    let reader = TilePackReader::from_reader(unchecked, &TileReadOptions::default())?;
    for group in chosen(decoded, rows, GROUP) {
        reader.read_rgb_many(&group)?;
    }
    Ok(Validated::Tiles {
        payload_type: pack.header().payload_type().unwrap_or_default().to_owned(),
        records: rows,
        codec: reader.codec_name().to_owned(),
        decoded,
        crc_checked,
    })
}

pub(super) fn check(pack: &PackReader, most: usize) -> Result<SchemaReport> {
    let mut findings = Findings::new(most);
    let columns = tables(pack, &mut findings)?;
    codec(pack, &mut findings);
    sizes(pack, &mut findings)?;
    if let Some(columns) = &columns {
        warn_of_rows(columns, &mut findings);
    }
    warn_of_header(pack, &KNOWN, &mut findings)?;
    warn_of_params(pack, &mut findings);
    warn_of_gaps(pack, &mut findings)?;
    Ok(findings.report)
}

/// Whether a decoded tile has the size that the pack states, and samples that every reader knows.
pub(super) fn check_record(pack: &PackReader, record: &Decoded) -> Option<SchemaFault> {
    let fault =
        |field: &str, message: String| Some(SchemaFault::new(message).row(record.row).field(field));
    let (height, width, channels) = match *record.shape.as_slice() {
        [height, width] => (height, width, 1),
        [height, width, channels] => (height, width, channels),
        _ => return fault("codec", "the record is no image".to_owned()),
    };
    if pack.header().payload_type() == Some(IMAGE_TILES) {
        if record.dtype != "uint8" || channels == 2 {
            return fault(
                "codec",
                format!("{channels} channels of type {} make no RGB tile", record.dtype),
            );
        }
        let stated = |name| header_integer(pack, name).ok().flatten();
        let (stated_width, stated_height) = (stated("tile_width"), stated("tile_height"));
        if (stated_width, stated_height) != (Some(width), Some(height)) {
            let shown =
                |side: Option<u64>| side.map_or_else(|| "none".to_owned(), |s| s.to_string());
            return fault(
                "tile_width",
                format!(
                    "the tile is {width} x {height}, but the header says {} x {}",
                    shown(stated_width),
                    shown(stated_height)
                ),
            );
        }
    }
    None
}

fn is_old(pack: &PackReader) -> bool {
    pack.header().payload_type() == Some(IMAGE_TILES)
}

fn tables(pack: &PackReader, findings: &mut Findings) -> Result<Option<Columns>> {
    let positions = if is_old(pack) { ["tile_x", "tile_y"] } else { ["px_x", "px_y"] };
    let columns = columns(pack, positions, findings)?;
    let index = pack.index_table()?;
    let missing = missing_columns(index, &["offset", "length", "crc32"]);
    if let Some(first) = missing.first() {
        findings.field(first, format!("record table missing columns: {}", listed(&missing)));
    }
    if !is_old(pack) {
        let missing = missing_columns(index, &["tile_w", "tile_h"]);
        if let Some(first) = missing.first() {
            findings.field(first, format!("record table missing columns: {}", listed(&missing)));
        }
    }
    Ok(columns)
}

fn codec(pack: &PackReader, findings: &mut Findings) {
    let found = pack.header().get("codec").and_then(Value::as_str);
    if is_old(pack) && found != Some("jxl") {
        findings
            .field("codec", format!("unsupported image tile codec: {}", found.unwrap_or("None")));
    }
}

/// Whether the sizes of tiles and the strides are stated.
fn sizes(pack: &PackReader, findings: &mut Findings) -> Result<()> {
    if !is_old(pack) {
        for name in ["tile_w", "tile_h"] {
            let Ok(column) = int_column(pack, TableKind::Index, name) else { continue };
            for (row, size) in (0_u64..).zip(column.iter()) {
                if !size.is_some_and(|size| size > 0 && u32::try_from(size).is_ok()) {
                    findings.at(row, name, format!("{name} is missing or no size"));
                }
            }
        }
        return Ok(());
    }
    for name in ["tile_width", "tile_height"] {
        match header_integer(pack, name) {
            Ok(Some(size)) if size > 0 => {}
            Ok(_) => findings.field(name, format!("{name} is missing or 0")),
            Err(error) => findings.field(name, error.reason()),
        }
    }
    if pack.header().get("coordinate_mode").and_then(Value::as_str) == Some("tile_grid") {
        for name in ["stride_x", "stride_y"] {
            if !matches!(header_integer(pack, name), Ok(Some(stride)) if stride > 0) {
                findings.warn(format!("{name} is missing or 0, so the manifest cannot be read"));
            }
        }
    }
    Ok(())
}

/// Parameters of the codec that contradict each other.
fn warn_of_params(pack: &PackReader, findings: &mut Findings) {
    let Some(params) = pack.header().get("codec_params") else { return };
    let lossless = params.get("lossless").and_then(Value::as_bool);
    let mode = params.get("mode").and_then(Value::as_str);
    if let (Some(lossless), Some(mode)) = (lossless, mode)
        && (mode == "lossless") != lossless
    {
        findings.warn(format!("codec_params say mode {mode}, but lossless {lossless}"));
    }
}

/// Bytes of the data segment that belong to no tile, and bytes that belong to several.
fn warn_of_gaps(pack: &PackReader, findings: &mut Findings) -> Result<()> {
    let Ok(Some(index)) = pack.record_index() else { return Ok(()) };
    let mut spans: Vec<(u64, u64)> = (0..index.len())
        .filter_map(|row| index.span(row).ok())
        .filter(|span| span.length > 0)
        .map(|span| (span.offset, span.offset.saturating_add(u64::from(span.length))))
        .collect();
    pack.check_intact()?;
    spans.sort_unstable();
    let (mut end, mut unused, mut shared) = (0_u64, 0_u64, 0_u64);
    for (start, behind) in spans {
        unused = unused.saturating_add(start.saturating_sub(end));
        shared = shared.saturating_add(end.min(behind).saturating_sub(start));
        end = end.max(behind);
    }
    unused = unused.saturating_add(pack.layout().data.length.saturating_sub(end));
    if unused > 0 {
        findings.warn(format!("{unused} bytes of the data segment belong to no record"));
    }
    if shared > 0 {
        findings.warn(format!("{shared} bytes of the data segment belong to several records"));
    }
    Ok(())
}
