//! Our side of what must be measured in a process of its own: memory, I/O counters, writing.

use std::convert::Infallible;
use std::fs::{self, File};
use std::hint::black_box;
use std::io::{BufRead, Write};
use std::num::NonZeroUsize;
use std::path::Path;

use iac_adapters::dicom::{DicomInputs, DicomPackBuilder, DicomPackReader};
use iac_adapters::text::{ClinicalTextWriter, TextWriteOptions};
use iac_adapters::tiles::TilePackReader;
use iac_ops::NoProgress;
use iac_reader::{PackReader, ReadOptions};
use iac_writer::{Table, build_pack_streaming};
use serde_json::{Value, json};

use crate::clock::measure;
use crate::field::Side;
use crate::peer::{integer, text};
use crate::process::{own_bytes, peak_resident_bytes, resident_bytes, written_bytes};
use crate::{Result, sample};

/// Answers commands until the input ends: `open_first`, `open_memory`, `write`,
/// `plain_write` and others, and those of the comparison with the field.
///
/// # Errors
///
/// When input or output fail; failures of a command are answers.
pub fn serve(input: impl BufRead, mut output: impl Write) -> Result<()> {
    let mut field = Side::default();
    for line in input.lines() {
        let command: Value = serde_json::from_str(&line?)?;
        let answer = match text(&command, "op") {
            Ok(name) if name.starts_with("field_") => field.answer(&command),
            _ => answer(&command),
        };
        let answer = answer.unwrap_or_else(|error| json!({"error": error.to_string()}));
        writeln!(output, "{answer}")?;
        output.flush()?;
    }
    Ok(())
}

fn answer(command: &Value) -> Result<Value> {
    match text(command, "op")? {
        "open_first" => open_first(command),
        "open_memory" => open_memory(command),
        "write" => write(command),
        "plain_write" => plain_write(command),
        "text_memory" => text_memory(command),
        "find_tile_memory" => find_tile_memory(command),
        "dicom_memory" => dicom_memory(command),
        "open_dicom" => open_dicom(command),
        "build_tiles" => build_tiles(command),
        "slide_memory" => slide_memory(command),
        other => Err(format!("unknown command {other}").into()),
    }
}

/// The first open of this process, when `repeat` is 1.
fn open_first(command: &Value) -> Result<Value> {
    let (path, row) = (text(command, "path")?, integer(command, "row")?);
    let options = ReadOptions::default().use_header_cache(false);
    let ((), time) = measure(|| {
        for _ in 0..integer(command, "repeat")? {
            black_box(PackReader::open_with(path, &options)?.read(row)?);
        }
        Ok(())
    })?;
    Ok(json!({"cpu": time.cpu, "wall": time.wall}))
}

fn open_memory(command: &Value) -> Result<Value> {
    let (path, row) = (text(command, "path")?, integer(command, "row")?);
    let before = resident_bytes()?;
    let pack = PackReader::open_with(path, &ReadOptions::default().use_header_cache(false))?;
    pack.kind()?;
    let opened = resident_bytes()?;
    pack.read(row)?;
    let first = resident_bytes()?;
    Ok(json!({
        "opened": opened.saturating_sub(before),
        "first": first.saturating_sub(before),
    }))
}

fn write(command: &Value) -> Result<Value> {
    let path = text(command, "path")?;
    let (pool, record, count) = payloads(command)?;
    let index = sample::index_table(count)?;
    let payloads = pool.chunks_exact(record).cycle();
    let payloads = payloads.take(usize::try_from(count)?).map(Ok::<_, Infallible>);
    let sync = command.get("sync").and_then(Value::as_bool) == Some(true);
    let options = sample::options().overwrite(false).sync(sync);
    counted(path, || {
        build_pack_streaming(path, &sample::header(), &Table::empty(), &index, payloads, &options)?;
        Ok(())
    })
}

/// Patients until they have so many bytes of text; they are always the same ones, as making others
/// would take longer than packing them.
fn text_memory(command: &Value) -> Result<Value> {
    let patients = crate::clinical::patients(64, 20, 5);
    let mut bytes = integer(command, "bytes")?;
    let codec = iac_codec::brotli::BrotliOptions::default().with_quality(1).codec()?;
    let options = TextWriteOptions::default().codec(codec).write(sample::options());
    let mut writer = ClinicalTextWriter::create(text(command, "path")?, &options)?;
    for number in 0_u64.. {
        let at = usize::try_from(number)? % patients.len();
        let mut patient = patients[at].clone();
        patient.patient_id = format!("P{number}");
        writer.push(&patient)?;
        let length: usize = patient.docs.iter().map(|doc| doc.text.len()).sum();
        bytes = bytes.saturating_sub(u64::try_from(length)?);
        if bytes == 0 {
            break;
        }
    }
    writer.finish()?;
    Ok(json!({"peak": peak_resident_bytes()?}))
}

/// The most memory that a region of a whole slide takes.
fn slide_memory(command: &Value) -> Result<Value> {
    let size = u32::try_from(integer(command, "size")?)?;
    let mpp = crate::peer::number(command, "mpp")?;
    crate::slides::read_whole(&text(command, "path")?.into(), size, mpp)?;
    Ok(json!({"peak": peak_resident_bytes()?}))
}

/// Memory of this process's own that a reader takes once its ids are indexed.
fn find_tile_memory(command: &Value) -> Result<Value> {
    let (path, id) = (text(command, "path")?, text(command, "id")?);
    let before = own_bytes()?;
    let tiles = TilePackReader::open(path)?;
    // The second lookup makes the index.
    black_box((tiles.read_rgb_by_id(id)?, tiles.read_rgb_by_id(id)?));
    Ok(json!({"bytes": own_bytes()?.saturating_sub(before)}))
}

/// The most memory that building a pack of a folder of objects takes.
fn dicom_memory(command: &Value) -> Result<Value> {
    let inputs = DicomInputs::find(&[text(command, "folder")?.into()])?;
    DicomPackBuilder::new()
        .effort(u8::try_from(integer(command, "effort")?)?)
        .workers(NonZeroUsize::new(2))
        .options(sample::options())
        .build(text(command, "path")?, inputs)?;
    Ok(json!({"peak": peak_resident_bytes()?}))
}

/// The first open of this process to the list of series, when `repeat` is 1.
fn open_dicom(command: &Value) -> Result<Value> {
    let path = text(command, "path")?;
    let options = ReadOptions::default().use_header_cache(false);
    let ((), time) = measure(|| {
        for _ in 0..integer(command, "repeat")? {
            black_box(DicomPackReader::open_with(path, &options, true)?.series());
        }
        Ok(())
    })?;
    Ok(json!({"cpu": time.cpu, "wall": time.wall}))
}

/// The most memory that building a pack of tiles from files takes.
fn build_tiles(command: &Value) -> Result<Value> {
    let effort = u8::try_from(integer(command, "effort")?)?;
    crate::tiles_build::builder(effort, NonZeroUsize::new(2)).build_from_manifest(
        text(command, "manifest")?,
        text(command, "path")?,
        &NoProgress,
    )?;
    Ok(json!({"peak": peak_resident_bytes()?}))
}

/// The payloads alone, in one file, with nothing but `write`.
fn plain_write(command: &Value) -> Result<Value> {
    let path = text(command, "path")?;
    let (pool, record, count) = payloads(command)?;
    let sync = command.get("sync").and_then(Value::as_bool) == Some(true);
    counted(path, || {
        let mut file = File::create_new(path)?;
        let payloads = pool.chunks_exact(record).cycle();
        for payload in payloads.take(usize::try_from(count)?) {
            file.write_all(payload)?;
        }
        if sync {
            file.sync_all()?;
        }
        Ok(())
    })
}

fn payloads(command: &Value) -> Result<(Vec<u8>, usize, u64)> {
    let pool = fs::read(text(command, "pool")?)?;
    let record = usize::try_from(integer(command, "record")?)?;
    Ok((pool, record, integer(command, "count")?))
}

fn counted(path: &str, work: impl FnOnce() -> Result<()>) -> Result<Value> {
    let before = written_bytes()?;
    let ((), time) = measure(work)?;
    let after = written_bytes()?;
    Ok(json!({
        "cpu": time.cpu,
        "wall": time.wall,
        "wchar": after.0.saturating_sub(before.0),
        "write_bytes": after.1.saturating_sub(before.1),
        "file": fs::metadata(Path::new(path))?.len(),
        "peak": peak_resident_bytes()?,
    }))
}
