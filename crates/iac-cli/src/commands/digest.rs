//! `iac digest`: sums that compare packs by content.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use iatrocache::ops::digest::{DigestOptions, RowDigest, digest};
use iatrocache::ops::rows::RowSelection;

use crate::cli::Common;
use crate::failure::{Relay, Result, exit_code, human_safe};
use crate::output::Out;
use crate::progress::{Shown, Unit};

/// SHA-256 of every record, stored and decoded
///
/// Two packs with the same decoded sums hold the same records, however they are encoded and laid
/// out. A record that cannot be read or decoded is listed with the reason, the others follow, and
/// the exit code is 1.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iac digest notes.iac                 one line for each record
  iac digest notes.iac --rows 0..5     of some records
  diff <(iac digest a.iac) <(iac digest b.iac)

Columns: row, stored bytes, SHA-256 of the stored bytes, SHA-256 of the decoded record (`=` when
it is the same). With --json, one line for each record:
  {\"row\",\"bytes\",\"crc32\",\"crc_ok\",\"stored_sha256\",
   \"decoded\":{\"kind\",\"shape\",\"dtype\",\"bytes\",\"sha256\"}}
with \"error\":{\"kind\",\"message\"} in place of \"decoded\" where decoding fails.")]
pub(crate) struct DigestArgs {
    /// The pack
    path: PathBuf,
    /// Rows: 3, or 3,9,4, or 10..20 (without 20); counted from 0 [default: all]
    #[arg(long, value_name = "ROWS", allow_hyphen_values = true)]
    rows: Option<RowSelection>,
}

pub(crate) fn run(arguments: &DigestArgs, common: &Common) -> Result<ExitCode> {
    let pack = super::open(&arguments.path, common)?;
    let mut options = DigestOptions::default();
    options.workers = common.workers;
    let progress = Shown::beside_list(common, Unit::Rows);
    let mut out = Out::new();
    let mut relay = Relay::default();
    let mut sound = true;
    let rows = arguments.rows.as_ref();
    let result = digest(&pack, rows, &options, &progress, &mut |row| {
        sound &= row.error.is_none() && row.crc_ok != Some(false);
        let told = if common.json { out.serialized(&row) } else { out.line(&line(&row)) };
        relay.pass(told)
    });
    relay.settle(result)?;
    out.finish()?;
    Ok(if sound {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(exit_code(iatrocache::ErrorKind::Decode))
    })
}

fn line(row: &RowDigest) -> String {
    let stored = row.stored_sha256.as_deref().unwrap_or("-");
    let bytes = row.bytes.map_or_else(|| "-".to_owned(), |bytes| bytes.to_string());
    let mut text = format!("{}  {bytes}  {stored}", row.row);
    match (&row.decoded, &row.error) {
        (Some(decoded), _) if decoded.sha256 == stored => text.push_str("  ="),
        (Some(decoded), _) => {
            text.push_str("  ");
            text.push_str(&decoded.sha256);
        }
        (None, Some(error)) => {
            text.push_str("  error: ");
            text.push_str(&human_safe(&error.message));
        }
        (None, None) => text.push_str("  -"),
    }
    if row.crc_ok == Some(false) {
        text.push_str("  (differs from its CRC-32)");
    }
    text
}
