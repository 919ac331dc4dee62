//! `iac info`: what a pack is, at a glance.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use iatrocache::format::CONTAINER_MEMBERS;
use iatrocache::ops::info::{Info, TableInfo, info};
use iatrocache::serde_json::Value;

use crate::cli::Common;
use crate::failure::{Result, human_safe};
use crate::human;
use crate::output::Out;

/// Columns that are listed of a table.
const LISTED_COLUMNS: usize = 60;
/// Widest value of a header member, in characters.
const WIDEST: usize = 100;
/// Header members that the page says in another way, as those of the container.
const SAID_ELSEWHERE: [&str; 6] =
    ["payload_type", "codec", "codec_params", "checksums", "extensions", "required_extensions"];

fn is_said_elsewhere(member: &str) -> bool {
    CONTAINER_MEMBERS.contains(&member) || SAID_ELSEWHERE.contains(&member)
}

/// Show what a pack is, at a glance
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iac info notes.iac
  iac info notes.iac --json | jq .header

With --json, one object: {\"path\",\"file_bytes\",\"header\",\"slide_table\":{\"rows\",\"batches\",
\"columns\":[{\"name\",\"type\",\"nullable\"}]},\"index_table\",\"kind\",\"data_alignment\",
\"trailing_bytes\"}.")]
pub(crate) struct InfoArgs {
    /// The pack
    path: PathBuf,
}

pub(crate) fn run(arguments: &InfoArgs, common: &Common) -> Result<ExitCode> {
    let pack = super::open(&arguments.path, common)?;
    let info = info(&pack)?;
    let mut out = Out::new();
    if common.json {
        out.serialized(&info)?;
    } else {
        #[cfg(feature = "wsi")]
        let facts = super::wsi::facts(&pack);
        #[cfg(not(feature = "wsi"))]
        let facts: Vec<(&str, String)> = Vec::new();
        page(&info, &facts, &mut out)?;
    }
    out.finish()?;
    Ok(ExitCode::SUCCESS)
}

/// `special` is what people want to know of packs of this payload type.
fn page(info: &Info, special: &[(&str, String)], out: &mut Out) -> Result<()> {
    let facts = &info.facts;
    let title = out.bold(&human_safe(&info.path));
    out.line(&format!("{title}  {}", human::bytes(info.file_bytes)))?;
    out.line("")?;
    let payload_type = facts.payload_type.as_deref().unwrap_or("not stated");
    row(out, "payload type", payload_type)?;
    for (name, value) in special {
        row(out, name, value)?;
    }
    let kind = match info.kind {
        "variable" => "variable: each row addresses a record of its own length".to_owned(),
        "fixed" => format!("fixed: rows of one matrix{}", fixed_shape(info)),
        _ => "segment: rows address no records".to_owned(),
    };
    row(out, "kind", &kind)?;
    row(out, "records", &records(info))?;
    row(out, "codec", &codec(info))?;
    if let Some(original) = facts.original_bytes
        && facts.data_bytes > 0
        && facts.data_bytes != original
    {
        let ratio = human::as_f64(original) / human::as_f64(facts.data_bytes);
        row(
            out,
            "ratio",
            &format!(
                "{ratio:.2} ({} before, {} stored)",
                human::bytes(original),
                human::bytes(facts.data_bytes)
            ),
        )?;
    }
    if let Some(objects) = &facts.objects {
        for (name, text) in human::objects(objects) {
            row(out, name, &text)?;
        }
    }
    row(out, "checksums", checksums(info))?;
    if !facts.extensions.is_empty() {
        row(out, "extensions", &facts.extensions.join(", "))?;
    }
    if !facts.required_extensions.is_empty() {
        let names = facts.required_extensions.join(", ");
        row(out, "needs", &format!("extensions {names} to decode"))?;
    }
    let padding = format!("data starts on a multiple of {}", info.data_alignment);
    row(out, "alignment", &padding)?;
    if info.trailing_bytes > 0 {
        let bytes = human::counted(info.trailing_bytes, "byte");
        row(out, "trailing", &format!("{bytes} behind the data, which belong to nothing"))?;
    }
    table("slide table", &info.slide_table, out)?;
    table("index table", &info.index_table, out)?;
    header(info, out)
}

fn row(out: &mut Out, name: &str, value: &str) -> Result<()> {
    let name = out.dim(&format!("{name:<14}"));
    out.line(&format!("  {name}{}", human_safe(value)))
}

fn fixed_shape(info: &Info) -> String {
    let member = |name| info.header.get(name);
    match (member("feature_dim"), member("dtype").and_then(Value::as_str)) {
        (Some(dim), Some(dtype)) => format!(" of {dim} x {dtype}"),
        _ => String::new(),
    }
}

fn records(info: &Info) -> String {
    let Some(sizes) = info.facts.payloads else {
        return format!(
            "{}, {} of data",
            human::counted(info.index_table.rows, "row"),
            human::bytes(info.facts.data_bytes)
        );
    };
    let count = human::count(sizes.count);
    if sizes.count == 0 {
        return count;
    }
    if sizes.min == sizes.max {
        return format!("{count} of {} each", human::bytes(sizes.min));
    }
    format!(
        "{count} of {} to {}, median {}, {} together",
        human::bytes(sizes.min),
        human::bytes(sizes.max),
        human::bytes(sizes.median),
        human::bytes(sizes.total)
    )
}

fn codec(info: &Info) -> String {
    let Some(name) = &info.facts.codec else {
        return "not a name".to_owned();
    };
    let mut text = name.clone();
    if !info.facts.codec_params.is_empty() {
        text = format!("{text} {}", info.facts.codec_params);
    }
    let known = iatrocache::Registry::global();
    match iatrocache::CodecSpec::from_header(&info.header).and_then(|spec| known.create(&spec)) {
        Ok(_) => text,
        Err(error) => format!("{text} (cannot be decoded here: {error})"),
    }
}

fn checksums(info: &Info) -> &'static str {
    let tables = info.header.contains_key("checksums");
    match (tables, info.facts.rows_have_checksums) {
        (true, true) => "header, tables and every record",
        (true, false) => "header, tables and data",
        (false, true) => "every record; none of header and tables",
        (false, false) => "none",
    }
}

fn table(name: &str, table: &TableInfo, out: &mut Out) -> Result<()> {
    out.line("")?;
    let columns = u64::try_from(table.columns.len()).unwrap_or(u64::MAX);
    let title = out.bold(name);
    let batches = if table.batches > 1 {
        format!(" in {} batches", human::count(table.batches))
    } else {
        String::new()
    };
    out.line(&format!(
        "{title}  {}{batches}, {}",
        human::counted(table.rows, "row"),
        human::counted(columns, "column")
    ))?;
    let listed = table.columns.iter().take(LISTED_COLUMNS);
    let width =
        listed.clone().map(|column| human_safe(&column.name).chars().count()).max().unwrap_or(0);
    for column in listed {
        let name = human_safe(&column.name);
        let padding = " ".repeat(width.saturating_sub(name.chars().count()));
        let data_type = out.dim(&human_safe(&column.data_type));
        out.line(&format!("  {name}{padding}  {data_type}"))?;
    }
    let hidden = table.columns.len().saturating_sub(LISTED_COLUMNS);
    if hidden > 0 {
        out.line(&format!("  and {hidden} more"))?;
    }
    Ok(())
}

/// The members that the writer added for purposes of its own.
fn header(info: &Info, out: &mut Out) -> Result<()> {
    let members: Vec<(&String, &Value)> =
        info.header.iter().filter(|(name, _)| !is_said_elsewhere(name)).collect();
    if members.is_empty() {
        return Ok(());
    }
    out.line("")?;
    let title = out.bold("header");
    out.line(&title)?;
    let width = members.iter().map(|(name, _)| human_safe(name).chars().count()).max().unwrap_or(0);
    for (name, value) in members {
        let name = human_safe(name);
        let padding = " ".repeat(width.saturating_sub(name.chars().count()));
        let text = human_safe(&value.to_string());
        let cut: String = text.chars().take(WIDEST).collect();
        let more = if cut.len() < text.len() { "..." } else { "" };
        out.line(&format!("  {name}{padding}  {cut}{more}"))?;
    }
    Ok(())
}
