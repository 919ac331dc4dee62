//! Very large packs and many of them, each measured in a process of its own.

use std::convert::Infallible;
use std::fs::{self, File, OpenOptions};
use std::hint::black_box;
use std::num::NonZeroUsize;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, UInt8Array};
use iac_reader::{FixedRecordPack, PackReader, ReadOptions};
use iac_writer::{Table, build_pack_data_segment, build_pack_streaming};
use serde_json::{Map, Value, json};

use crate::clock::measure;
use crate::process::{forget_peak, own_bytes, peak_resident_bytes, resident_bytes};
use crate::random::Random;
use crate::{Result, sample};

/// Rows of the fixed pack of one TiB, and bytes of each.
const SPARSE_ROWS: u64 = 1 << 20;
const SPARSE_ROW_BYTES: u64 = 1 << 20;
/// Random records that are read once a pack is open.
const READS: u64 = 200_000;

fn options() -> ReadOptions {
    ReadOptions::default().workers(NonZeroUsize::new(1)).use_header_cache(false)
}

/// An index of one byte for each row, so that what is measured is the format's own columns.
fn index(rows: u64) -> Result<Table> {
    let bytes = vec![0_u8; usize::try_from(rows)?];
    let column: ArrayRef = Arc::new(UInt8Array::from(bytes));
    Ok(Table::from(RecordBatch::try_from_iter([("kind", column)])?))
}

/// A variable pack of so many rows whose records have one byte each: written, opened, read.
///
/// # Errors
///
/// What the writer, the reader or the system reports.
pub fn rows(folder: &Path, rows: u64) -> Result<Value> {
    let path = folder.join("rows.iac");
    let index = index(rows)?;
    let before = resident_bytes()?;
    forget_peak()?;
    let ((), written) = measure(|| {
        let payloads = (0..rows).map(|row| Ok::<_, Infallible>([row.to_le_bytes()[0]]));
        let (header, slides) = (sample::header(), Table::empty());
        build_pack_streaming(&path, &header, &slides, &index, payloads, &sample::options())?;
        Ok(())
    })?;
    let write_peak = peak_resident_bytes()?.saturating_sub(before);
    drop(index);
    let own = own_bytes()?;
    let mut opens = Vec::new();
    for _ in 0..9 {
        let (_, time) = measure(|| {
            let pack = PackReader::open_with(&path, &options())?;
            Ok(black_box(pack.read(rows / 3)?))
        })?;
        opens.push(time.wall);
    }
    opens.sort_by(f64::total_cmp);
    let pack = PackReader::open_with(&path, &options())?;
    let opened = own_bytes()?.saturating_sub(own);
    let mut random = Random::new(1);
    let ((), single) = measure(|| {
        for _ in 0..READS {
            let row = random.below(rows);
            let record = pack.read(row)?;
            if record.first() != row.to_le_bytes().first() {
                return Err(format!("row {row} has other bytes than were written").into());
            }
        }
        Ok(())
    })?;
    let read = own_bytes()?.saturating_sub(own);
    let file = fs::metadata(&path)?.len();
    fs::remove_file(&path)?;
    Ok(json!({
        "rows": rows,
        "file_bytes": file,
        "write_seconds": written.wall,
        "write_cpu_seconds": written.cpu,
        "write_peak_bytes": write_peak,
        "open_and_first_record_seconds": opens.get(opens.len() / 2),
        "own_bytes_opened": opened,
        "own_bytes_after_reads": read,
        "single_read_cpu_seconds": single.per(READS).cpu,
    }))
}

/// A fixed pack of 1 TiB whose data is a hole but for a few rows.
///
/// # Errors
///
/// What the writer, the reader or the system reports.
pub fn sparse(folder: &Path) -> Result<Value> {
    let path = folder.join("sparse.iac");
    let index = index(SPARSE_ROWS)?;
    // Written with rows of one byte; then the header says how long they are.
    let data = vec![0; usize::try_from(SPARSE_ROWS)?];
    let header = sample::fixed_header(1);
    let options_ = sample::options().checksums(false);
    build_pack_data_segment(&path, &header, &Table::empty(), &index, &data, &options_)?;
    let data_offset = PackReader::open_with(&path, &options())?.layout().data.offset;
    let file = OpenOptions::new().read(true).write(true).open(&path)?;
    let bytes = SPARSE_ROWS * SPARSE_ROW_BYTES;
    rewrite_header(&file, |members| {
        members.insert("feature_dim".into(), SPARSE_ROW_BYTES.into());
        members.insert("feature_record_bytes".into(), SPARSE_ROW_BYTES.into());
        members.insert("data_length".into(), bytes.into());
    })?;
    file.set_len(data_offset)?;
    file.set_len(data_offset + bytes)?;
    let last = SPARSE_ROWS - 1;
    let wanted = vec![7; usize::try_from(SPARSE_ROW_BYTES)?];
    file.write_all_at(&wanted, data_offset + last * SPARSE_ROW_BYTES)?;
    let own = own_bytes()?;
    let (pack, open) = measure(|| Ok(FixedRecordPack::open_with(&path, &options())?))?;
    let ((), time) = measure(|| {
        let mut random = Random::new(2);
        for _ in 0..2000 {
            black_box(pack.read(random.below(last))?);
        }
        Ok(())
    })?;
    if pack.read(last)? != wanted {
        return Err("the last row of 1 TiB has other bytes than were written".into());
    }
    let kept = own_bytes()?.saturating_sub(own);
    let stored = std::os::unix::fs::MetadataExt::blocks(&fs::metadata(&path)?) * 512;
    fs::remove_file(&path)?;
    Ok(json!({
        "data_bytes": bytes,
        "stored_bytes": stored,
        "open_seconds": open.wall,
        "read_row_of_1_mib_cpu_seconds": time.per(2000).cpu,
        "own_bytes": kept,
    }))
}

fn rewrite_header(file: &File, change: impl FnOnce(&mut Map<String, Value>)) -> Result<()> {
    let mut fixed = [0; 16];
    file.read_exact_at(&mut fixed, 0)?;
    let length = u32::from_le_bytes(fixed[8..12].try_into()?);
    let mut text = vec![0; usize::try_from(length)?];
    file.read_exact_at(&mut text, 16)?;
    let mut members: Map<String, Value> = serde_json::from_slice(&text)?;
    change(&mut members);
    let mut text = serde_json::to_vec_pretty(&members)?;
    let length = u32::try_from(text.len())?;
    text.resize(65_520, 0);
    file.write_all_at(&text, 16)?;
    file.write_all_at(&length.to_le_bytes(), 8)?;
    Ok(())
}

/// So many packs, all open at once.
///
/// # Errors
///
/// What the writer, the reader or the system reports, as when too few files may be open.
pub fn packs(folder: &Path, count: u64) -> Result<Value> {
    let folder = folder.join("packs");
    fs::create_dir_all(&folder)?;
    let first = folder.join("0.iac");
    sample::write_small_records(&first, 64)?;
    for number in 1..count {
        fs::copy(&first, folder.join(format!("{number}.iac")))?;
    }
    let own = own_bytes()?;
    let resident = resident_bytes()?;
    let (packs, open) = measure(|| {
        let one = |number| {
            let pack = PackReader::open_with(folder.join(format!("{number}.iac")), &options())?;
            black_box(pack.read(number % 64)?);
            Ok(pack)
        };
        (0..count).map(one).collect::<Result<Vec<_>>>()
    })?;
    let (kept, seen) =
        (own_bytes()?.saturating_sub(own), resident_bytes()?.saturating_sub(resident));
    let (records, read) = measure(|| {
        let mut records = 0_u64;
        for pack in &packs {
            black_box(pack.read(records % 64)?);
            records += 1;
        }
        Ok(records)
    })?;
    drop(packs);
    fs::remove_dir_all(&folder)?;
    Ok(json!({
        "packs": count,
        "open_and_first_record_seconds_each": open.per(count).wall,
        "own_bytes_each": kept as f64 / count as f64,
        "resident_bytes_each": seen as f64 / count as f64,
        "read_from_each_cpu_seconds": read.per(records).cpu,
    }))
}

/// Threads that read one pack at once: batches each of its own, and one batch on all of them.
///
/// # Errors
///
/// What the writer, the reader or the system reports, or when a thread reads other bytes.
pub fn threads(folder: &Path, threads: usize) -> Result<Value> {
    let path = folder.join("threads.iac");
    let rows = sample::write_variable(&path, 64 << 20, sample::KILOBYTE, 3)?;
    let pack = PackReader::open_with(&path, &options())?;
    let batches = sample::random_batches(rows, 2048, 4);
    let sums: Vec<u32> = batches.iter().map(|rows| sum(&pack, rows)).collect::<Result<_>>()?;
    let own = own_bytes()?;
    forget_peak()?;
    let before = resident_bytes()?;
    let ((), time) = measure(|| {
        std::thread::scope(|scope| {
            let share = batches.len().div_ceil(threads);
            let running: Vec<_> = batches
                .chunks(share)
                .zip(sums.chunks(share))
                .map(|(some, sums)| {
                    let pack = &pack;
                    scope.spawn(move || -> Result<()> {
                        for (rows, expected) in some.iter().zip(sums) {
                            if sum(pack, rows)? != *expected {
                                return Err("a thread read other bytes".into());
                            }
                        }
                        Ok(())
                    })
                })
                .collect();
            running
                .into_iter()
                .try_for_each(|thread| thread.join().map_err(|_| "a thread ended early")?)
        })
    })?;
    let peak = peak_resident_bytes()?.saturating_sub(before);
    let many = pack.with_options(&options().workers(NonZeroUsize::new(threads)));
    let ((), one_batch) = measure(|| {
        for (rows, expected) in batches.iter().zip(&sums) {
            if sum(&many, rows)? != *expected {
                return Err("a batch on many threads has other bytes".into());
            }
        }
        Ok(())
    })?;
    let kept = own_bytes()?.saturating_sub(own);
    fs::remove_file(&path)?;
    let records = u64::try_from(batches.len() * sample::BATCH_ROWS)?;
    Ok(json!({
        "threads": threads,
        "records_a_second": records as f64 / time.wall,
        "cpu_seconds_per_record": time.per(records).cpu,
        "records_a_second_of_one_batch_on_all": records as f64 / one_batch.wall,
        "peak_bytes": peak,
        "own_bytes": kept,
    }))
}

fn sum(pack: &PackReader, rows: &[u64]) -> Result<u32> {
    let mut sum = crc32fast::Hasher::new();
    pack.read_rows(rows)?.iter().for_each(|record| sum.update(record));
    Ok(sum.finalize())
}

/// A picture of curves over a logarithmic axis: the points of each, below a heading.
#[must_use]
pub fn svg(heading: &str, below: &str, curves: &[(&str, Vec<(f64, f64)>)]) -> String {
    const COLOURS: [&str; 4] = ["#1b6ca8", "#c8553d", "#3d8361", "#7d5ba6"];
    let (width, height, left, top, right, bottom) = (640.0, 360.0, 70.0, 40.0, 620.0, 300.0);
    let points = || curves.iter().flat_map(|(_, points)| points).filter(|(_, y)| *y > 0.0);
    let range = |values: Vec<f64>| {
        let least = values.iter().copied().fold(f64::INFINITY, f64::min).log10().floor();
        let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max).log10().ceil();
        (least, most.max(least + 1.0))
    };
    let (x_least, x_most) = range(points().map(|(x, _)| *x).collect());
    let (y_least, y_most) = range(points().map(|(_, y)| *y).collect());
    let x = |value: f64| left + (value.log10() - x_least) / (x_most - x_least) * (right - left);
    let y = |value: f64| bottom - (value.log10() - y_least) / (y_most - y_least) * (bottom - top);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"white\"/>\n\
         <text x=\"{left}\" y=\"22\" font-size=\"14\">{heading}</text>\n\
         <text x=\"{}\" y=\"336\" text-anchor=\"middle\">{below}</text>\n",
        f64::midpoint(left, right)
    );
    let mut power = x_least;
    while power <= x_most {
        let at = x(10_f64.powf(power));
        text.push_str(&format!(
            "<line x1=\"{at:.1}\" y1=\"{top}\" x2=\"{at:.1}\" y2=\"{bottom}\" stroke=\"#ddd\"/>\n\
             <text x=\"{at:.1}\" y=\"316\" text-anchor=\"middle\">{}</text>\n",
            short(power)
        ));
        power += 1.0;
    }
    let mut power = y_least;
    while power <= y_most {
        let at = y(10_f64.powf(power));
        text.push_str(&format!(
            "<line x1=\"{left}\" y1=\"{at:.1}\" x2=\"{right}\" y2=\"{at:.1}\" stroke=\"#ddd\"/>\n\
             <text x=\"64\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\n",
            at + 4.0,
            short(power)
        ));
        power += 1.0;
    }
    for (number, ((name, points), colour)) in curves.iter().zip(COLOURS).enumerate() {
        let places: Vec<String> = points
            .iter()
            .filter(|(_, value)| *value > 0.0)
            .map(|(at, value)| format!("{:.1},{:.1}", x(*at), y(*value)))
            .collect();
        text.push_str(&format!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>\n",
            places.join(" ")
        ));
        for place in &places {
            let (at, value) = place.split_once(',').unwrap_or_default();
            text.push_str(&format!(
                "<circle cx=\"{at}\" cy=\"{value}\" r=\"3\" fill=\"{colour}\"/>\n"
            ));
        }
        let line = top + 16.0 * (number as f64 + 1.0);
        text.push_str(&format!("<text x=\"80\" y=\"{line}\" fill=\"{colour}\">{name}</text>\n"));
    }
    text.push_str("</svg>\n");
    text
}

/// A power of ten, as people read it.
fn short(power: f64) -> String {
    if (-3.0..=3.0).contains(&power) {
        return format!("{}", 10_f64.powf(power));
    }
    format!("1e{power}")
}
