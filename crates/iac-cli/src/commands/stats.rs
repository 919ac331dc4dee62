//! `iac stats`: sizes and counts of a pack.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use iatrocache::ops::stats::{Stats, stats};

use crate::cli::Common;
use crate::failure::{Result, human_safe};
use crate::human;
use crate::output::Out;

/// Sizes, and rows by split, slide and patient
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iac stats cohort.tiles.iac
  iac stats cohort.tiles.iac --most 5 --json

With --json, one object: {\"path\",\"payload_type\",\"codec\",\"kind\",\"rows\",\"slides\",\"documents\",
\"file_bytes\",\"data_bytes\",\"table_bytes\",\"decoded_bytes\",\"ratio\",\"sizes\":{\"count\",\"min\",
\"median\",\"max\",\"total\"},\"groups\":[{\"column\",\"values\",\"counts\":[{\"value\",\"rows\",
\"stored_bytes\"}]}]}; packs of medical objects also have \"objects\":{\"studies\",\"series\",\"instances\",
\"images\",\"frames\",\"modalities\":[{\"value\",\"count\"}],\"transfer_syntaxes\",\"bits_stored\",\"sizes\"}.")]
pub(crate) struct StatsArgs {
    /// The pack
    path: PathBuf,
    /// List the N most frequent values of each column
    #[arg(long, value_name = "N", default_value_t = 20)]
    most: usize,
}

pub(crate) fn run(arguments: &StatsArgs, common: &Common) -> Result<ExitCode> {
    let pack = super::open(&arguments.path, common)?;
    let found = stats(&pack, arguments.most)?;
    let mut out = Out::new();
    if common.json {
        out.serialized(&found)?;
    } else {
        tell(&mut out, &found)?;
    }
    out.finish()?;
    Ok(ExitCode::SUCCESS)
}

fn tell(out: &mut Out, stats: &Stats) -> Result<()> {
    let title = out.bold(&human_safe(&stats.path));
    let what = stats.payload_type.as_deref().unwrap_or("no payload type");
    out.line(&format!("{title}  {}, {}", human_safe(what), stats.kind))?;
    out.line(&format!(
        "  {} of {} in {}: {} of records, {} of tables",
        human::counted(stats.rows, "row"),
        human::counted(stats.slides, "slide"),
        human::bytes(stats.file_bytes),
        human::bytes(stats.data_bytes),
        human::bytes(stats.table_bytes),
    ))?;
    if let Some(documents) = stats.documents {
        out.line(&format!("  {}", human::counted(documents, "document")))?;
    }
    if let (Some(decoded), Some(ratio)) = (stats.decoded_bytes, stats.ratio) {
        let codec = stats.codec.as_deref().unwrap_or("none");
        out.line(&format!(
            "  {} decoded, {ratio:.2} times as much as stored (codec {})",
            human::bytes(decoded),
            human_safe(codec)
        ))?;
    }
    if let Some(sizes) = &stats.sizes {
        out.line(&format!(
            "  records have {} to {}, the median {}",
            human::bytes(sizes.min),
            human::bytes(sizes.max),
            human::bytes(sizes.median)
        ))?;
    }
    if let Some(objects) = &stats.objects {
        out.line("")?;
        for (name, text) in human::objects(objects) {
            let name = out.dim(&format!("{name:<18}"));
            out.line(&format!("  {name}{}", human_safe(&text)))?;
        }
    }
    for group in &stats.groups {
        let values = human::counted(group.values, "value");
        let title = out.bold(&group.column);
        out.line(&format!("\n{title}  {values}"))?;
        for count in &group.counts {
            let value = count.value.as_deref().map_or_else(|| "(none)".to_owned(), human_safe);
            let bytes = match stats.kind {
                "variable" => format!("  {}", human::bytes(count.stored_bytes)),
                _ => String::new(),
            };
            out.line(&format!("  {value}  {}{bytes}", human::counted(count.rows, "row")))?;
        }
        let listed = u64::try_from(group.counts.len()).unwrap_or(u64::MAX);
        let hidden = group.values.saturating_sub(listed);
        if hidden > 0 {
            let line = out.dim(&format!("  and {} more (--most lists more)", human::count(hidden)));
            out.line(&line)?;
        }
    }
    Ok(())
}
