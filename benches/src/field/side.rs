//! The Rust side of the comparison with the field: our packs, and the plain limits. One process
//! serves one format, with the commands of `field_bench.py`.

use std::convert::Infallible;
use std::fs::{self, File};
use std::hint::black_box;
use std::io::Write;
use std::num::NonZeroUsize;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use iac_codec::zstd::ZstdOptions;
use iac_reader::{
    ContiguousRecordBatch, FixedRecordPack, PackReader, ReadOptions, VariableRecordPack,
};
use iac_writer::{
    Table, VariablePackBuilder, WriteOptions, build_pack_data_segment, build_pack_streaming,
};
use serde_json::{Value, json};

use crate::clock::measure;
use crate::peer::{integer, text};
use crate::process::{forget_peak, own_bytes, peak_resident_bytes, resident_bytes};
use crate::{Result, sample};

/// Level of `zstd` on every side.
pub const ZSTD_LEVEL: i32 = 3;

/// What this process serves, and what it has loaded and opened.
#[derive(Debug, Default)]
pub struct Side {
    format: String,
    codec: String,
    dictionary: Vec<u8>,
    dim: u64,
    records: Vec<Vec<u8>>,
    batches: Vec<Vec<u64>>,
    own: u64,
    open: Option<Open>,
}

/// An open file and how its records are read.
#[derive(Debug)]
enum Open {
    Owned(PackReader),
    Contiguous(PackReader, ContiguousRecordBatch),
    Decoded(VariableRecordPack),
    DecodedContiguous(VariableRecordPack, ContiguousRecordBatch),
    Matrix(FixedRecordPack),
    MatrixInto(FixedRecordPack, Vec<u8>),
    Memory { bytes: Vec<u8>, ends: Vec<usize>, buffer: Vec<u8> },
    Positional { file: File, ends: Vec<usize>, buffer: Vec<u8> },
}

/// What a batch gave; it lives until the next one is there, as in a loop that uses it.
enum Kept {
    Nothing,
    Records(Vec<Bytes>),
    Matrix(iac_reader::Matrix),
}

impl Side {
    /// Answers one command whose name begins with `field_`.
    ///
    /// # Errors
    ///
    /// What a reader, the writer or the system reports, or when the command is not known.
    pub fn answer(&mut self, command: &Value) -> Result<Value> {
        match text(command, "op")? {
            "field_start" => {
                self.format = text(command, "format")?.to_owned();
                self.codec = text(command, "codec")?.to_owned();
                self.dim = command.get("dim").and_then(Value::as_u64).unwrap_or(0);
                if self.codec == "zstd-dictionary" {
                    self.dictionary = fs::read(text(command, "dictionary")?)?;
                }
                let version = env!("CARGO_PKG_VERSION");
                Ok(json!({"version": version, "sequential_only": false}))
            }
            "field_load" => self.load(command),
            "field_unload" => {
                self.records = Vec::new();
                Ok(json!({}))
            }
            "field_write" => self.write(command),
            "field_use" => self.use_file(command),
            "field_check" => self.check(command),
            "field_batch" => self.batch(command),
            "field_single" => self.single(command),
            "field_sequential" => self.sequential(),
            "field_memory" => Ok(json!({"bytes": own_bytes()?.saturating_sub(self.own)})),
            "field_open" => self.open_often(command),
            other => Err(format!("unknown command {other}").into()),
        }
    }

    fn load(&mut self, command: &Value) -> Result<Value> {
        let bytes = fs::read(text(command, "records")?)?;
        let mut rest = bytes.as_slice();
        for length in numbers(text(command, "lengths")?)? {
            let (record, after) = rest.split_at(usize::try_from(length)?);
            self.records.push(record.to_vec());
            rest = after;
        }
        Ok(json!({}))
    }

    fn write(&self, command: &Value) -> Result<Value> {
        let path = Path::new(text(command, "path")?);
        if path.exists() {
            fs::remove_file(path)?;
        }
        let (format, sync) = match self.format.strip_suffix("-synced") {
            Some(format) => (format, true),
            None => (self.format.as_str(), false),
        };
        // Made before the clock starts, as for the reference; other formats have no table of ids.
        let rows = u64::try_from(self.records.len())?;
        let index = sample::index_table(rows)?;
        let options = sample::options().sync(sync);
        let matrix = if format.starts_with("iac-rows") { self.records.concat() } else { vec![] };
        let before = resident_bytes()?;
        forget_peak()?;
        let ((), time) = measure(|| match format {
            "copy" => {
                fs::copy(text(command, "source")?, path)?;
                if sync { Ok(File::open(path)?.sync_all()?) } else { Ok(()) }
            }
            "plain" | "plain-rows" | "pread" => self.write_plain(path, sync),
            "iac-rows" | "iac-rows-out" => {
                let mut header = sample::fixed_header(self.dim * 2);
                header.insert("feature_dim".into(), self.dim.into());
                header.insert("dtype".into(), "float16".into());
                let slides = Table::empty();
                build_pack_data_segment(path, &header, &slides, &index, &matrix, &options)?;
                Ok(())
            }
            _ => self.write_pack(path, &index, &options),
        })?;
        let peak = peak_resident_bytes()?.saturating_sub(before);
        let file = fs::metadata(path)?.len();
        Ok(json!({"cpu": time.cpu, "wall": time.wall, "peak": peak, "file": file}))
    }

    fn write_plain(&self, path: &Path, sync: bool) -> Result<()> {
        let mut file = File::create_new(path)?;
        // Records smaller than a page would make a system call each, which no format does.
        let small = self.records.first().is_none_or(|record| record.len() < 4096);
        if small {
            let mut buffered = std::io::BufWriter::with_capacity(1 << 16, &mut file);
            for record in &self.records {
                buffered.write_all(record)?;
            }
            buffered.flush()?;
        } else {
            for record in &self.records {
                file.write_all(record)?;
            }
        }
        if sync { Ok(file.sync_all()?) } else { Ok(()) }
    }

    fn write_pack(&self, path: &Path, index: &Table, options: &WriteOptions) -> Result<()> {
        let records = self.records.iter().map(Ok::<_, Infallible>);
        let (header, slides) = (sample::header(), Table::empty());
        if self.codec == "none" {
            build_pack_streaming(path, &header, &slides, index, records, options)?;
            return Ok(());
        }
        let codec = ZstdOptions::new(ZSTD_LEVEL);
        let codec = match self.dictionary.is_empty() {
            true => codec,
            false => codec.with_dictionary(self.dictionary.clone()),
        };
        VariablePackBuilder::new("benchmark", index.clone())
            .codec(codec.codec()?)
            .options(*options)
            // Every side compresses on one thread, as the others have no other way.
            .workers(NonZeroUsize::new(1))
            .build_streaming(path, records)?;
        Ok(())
    }

    fn use_file(&mut self, command: &Value) -> Result<Value> {
        self.own = own_bytes()?;
        let path = text(command, "path")?;
        let ends = if self.format.starts_with("plain") || self.format == "pread" {
            ends(&numbers(text(command, "lengths")?)?)?
        } else {
            Vec::new()
        };
        let mut open = self.open_file(path, ends)?;
        open.every()?;
        let size = usize::try_from(integer(command, "batch")?)?;
        let rows = numbers(text(command, "rows")?)?;
        self.batches = rows.chunks(size).map(<[u64]>::to_vec).collect();
        open.warm_up(&self.batches)?;
        self.open = Some(open);
        Ok(json!({}))
    }

    fn open_file(&self, path: &str, ends: Vec<usize>) -> Result<Open> {
        let one = ReadOptions::default().workers(NonZeroUsize::new(1)).use_header_cache(false);
        let pack = || PackReader::open_with(path, &one);
        let raw = self.codec == "none";
        Ok(match self.format.as_str() {
            "iac" if raw => Open::Owned(pack()?),
            "iac-owned-unchecked" => Open::Owned(pack()?.with_crc(false)),
            "iac-contiguous" if raw => Open::Contiguous(pack()?, ContiguousRecordBatch::new()),
            "iac-unchecked" if raw => {
                Open::Contiguous(pack()?.with_crc(false), ContiguousRecordBatch::new())
            }
            "iac" => Open::Decoded(VariableRecordPack::from_reader(pack()?)),
            "iac-contiguous" => Open::DecodedContiguous(
                VariableRecordPack::from_reader(pack()?),
                ContiguousRecordBatch::new(),
            ),
            "iac-unchecked" => Open::DecodedContiguous(
                VariableRecordPack::from_reader(pack()?.with_crc(false)),
                ContiguousRecordBatch::new(),
            ),
            "iac-rows" => Open::Matrix(FixedRecordPack::from_reader(pack()?)?),
            "iac-rows-out" => Open::MatrixInto(FixedRecordPack::from_reader(pack()?)?, Vec::new()),
            "plain" | "plain-rows" => {
                Open::Memory { bytes: fs::read(path)?, ends, buffer: Vec::new() }
            }
            "pread" => Open::Positional { file: File::open(path)?, ends, buffer: Vec::new() },
            other => return Err(format!("unknown format {other}").into()),
        })
    }

    fn check(&mut self, command: &Value) -> Result<Value> {
        let count = usize::try_from(integer(command, "count")?)?;
        let mut sum = crc32fast::Hasher::new();
        let open = self.open.as_mut().ok_or("nothing is open")?;
        for rows in self.batches.iter().take(count) {
            match open.batch(rows)? {
                Kept::Records(records) => records.iter().for_each(|record| sum.update(record)),
                Kept::Matrix(matrix) => sum.update(matrix.bytes()),
                Kept::Nothing => sum.update(open.buffer(rows)),
            }
        }
        Ok(json!({"sum": sum.finalize()}))
    }

    fn batch(&mut self, command: &Value) -> Result<Value> {
        let (batches, limit) = chosen(&self.batches, command)?;
        let open = self.open.as_mut().ok_or("nothing is open")?;
        let (done, time) = measure(|| {
            let (end, mut done) = (Instant::now() + limit, 0_u64);
            let mut kept = Kept::Nothing;
            for rows in batches {
                kept = black_box(open.batch(rows)?);
                done += 1;
                if Instant::now() > end {
                    break;
                }
            }
            drop(kept);
            Ok(done)
        })?;
        Ok(json!({"cpu": time.cpu, "wall": time.wall, "done": done}))
    }

    fn single(&mut self, command: &Value) -> Result<Value> {
        let (batches, limit) = chosen(&self.batches, command)?;
        let open = self.open.as_mut().ok_or("nothing is open")?;
        let (done, time) = measure(|| {
            let (end, mut done) = (Instant::now() + limit, 0_u64);
            for row in batches.iter().flatten() {
                open.one(*row)?;
                done += 1;
                if done % 64 == 0 && Instant::now() > end {
                    break;
                }
            }
            Ok(done)
        })?;
        Ok(json!({"cpu": time.cpu, "wall": time.wall, "done": done}))
    }

    fn sequential(&mut self) -> Result<Value> {
        let open = self.open.as_mut().ok_or("nothing is open")?;
        let (done, time) = measure(|| open.every())?;
        Ok(json!({"cpu": time.cpu, "wall": time.wall, "done": done}))
    }

    fn open_often(&self, command: &Value) -> Result<Value> {
        let (path, row) = (text(command, "path")?, integer(command, "row")?);
        let repeat = integer(command, "repeat")?;
        let ((), time) = measure(|| {
            for _ in 0..repeat {
                self.open_file(path, Vec::new())?.one(row)?;
            }
            Ok(())
        })?;
        Ok(json!({"cpu": time.cpu, "wall": time.wall, "done": repeat}))
    }
}

impl Open {
    fn batch(&mut self, rows: &[u64]) -> Result<Kept> {
        match self {
            Self::Owned(pack) => return Ok(Kept::Records(pack.read_rows(rows)?)),
            Self::Contiguous(pack, batch) => pack.read_contiguous_into(rows, batch)?,
            Self::Decoded(pack) => return Ok(Kept::Records(pack.read_many(rows)?)),
            Self::DecodedContiguous(pack, batch) => pack.read_many_contiguous_into(rows, batch)?,
            Self::Matrix(pack) => return Ok(Kept::Matrix(pack.read_matrix(rows)?)),
            Self::MatrixInto(pack, buffer) => {
                buffer.resize(rows.len() * pack.row_bytes(), 0);
                pack.read_matrix_into(rows, buffer)?;
            }
            Self::Memory { bytes, ends, buffer } => {
                let mut end = 0;
                for (first, last) in spans(ends, rows)? {
                    let length = last - first;
                    make_room(buffer, end + length);
                    buffer[end..end + length].copy_from_slice(&bytes[first..last]);
                    end += length;
                }
            }
            Self::Positional { file, ends, buffer } => {
                let mut end = 0;
                for (first, last) in spans(ends, rows)? {
                    let length = last - first;
                    make_room(buffer, end + length);
                    file.read_exact_at(&mut buffer[end..end + length], u64::try_from(first)?)?;
                    end += length;
                }
            }
        }
        Ok(Kept::Nothing)
    }

    /// What the last batch left in memory that is used again.
    fn buffer(&self, rows: &[u64]) -> &[u8] {
        match self {
            Self::Contiguous(_, batch) | Self::DecodedContiguous(_, batch) => batch.buffer(),
            Self::MatrixInto(_, buffer) => buffer,
            Self::Memory { buffer, ends, .. } | Self::Positional { buffer, ends, .. } => {
                let spans = spans(ends, rows).unwrap_or_default();
                &buffer[..spans.iter().map(|(first, last)| last - first).sum()]
            }
            Self::Owned(_) | Self::Decoded(_) | Self::Matrix(_) => &[],
        }
    }

    fn one(&mut self, row: u64) -> Result<()> {
        match self {
            Self::Owned(pack) | Self::Contiguous(pack, _) => {
                black_box(pack.read(row)?);
            }
            Self::Decoded(pack) | Self::DecodedContiguous(pack, _) => {
                black_box(pack.read(row)?);
            }
            Self::Matrix(pack) | Self::MatrixInto(pack, _) => {
                black_box(pack.read(row)?);
            }
            Self::Memory { .. } | Self::Positional { .. } => {
                self.batch(&[row])?;
                black_box(&*self);
            }
        }
        Ok(())
    }

    /// Every record in the order of the rows.
    fn every(&mut self) -> Result<u64> {
        let count = match self {
            Self::Owned(pack) | Self::Contiguous(pack, _) => {
                for record in pack.iter_payloads()? {
                    black_box(record?);
                }
                return Ok(pack.num_records()?);
            }
            Self::Decoded(pack) | Self::DecodedContiguous(pack, _) => pack.record_count()?,
            Self::Matrix(pack) | Self::MatrixInto(pack, _) => pack.record_count(),
            Self::Memory { ends, .. } | Self::Positional { ends, .. } => {
                u64::try_from(ends.len().saturating_sub(1))?
            }
        };
        let all: Vec<u64> = (0..count).collect();
        for rows in all.chunks(sample::BATCH_ROWS) {
            black_box(self.batch(rows)?);
        }
        Ok(count)
    }

    /// The memory that is used again is there before the clock starts.
    fn warm_up(&mut self, batches: &[Vec<u64>]) -> Result<()> {
        for rows in batches.iter().take(8) {
            self.batch(rows)?;
        }
        Ok(())
    }
}

fn make_room(buffer: &mut Vec<u8>, bytes: usize) {
    if buffer.len() < bytes {
        buffer.resize(bytes, 1);
    }
}

fn spans(ends: &[usize], rows: &[u64]) -> Result<Vec<(usize, usize)>> {
    let of = |row: &u64| {
        let row = usize::try_from(*row)?;
        Ok((ends[row], ends[row + 1]))
    };
    rows.iter().map(of).collect()
}

fn ends(lengths: &[u64]) -> Result<Vec<usize>> {
    let mut ends = vec![0];
    for length in lengths {
        ends.push(ends[ends.len() - 1] + usize::try_from(*length)?);
    }
    Ok(ends)
}

/// The batches of a round, and the time after which it stops.
fn chosen<'a>(batches: &'a [Vec<u64>], command: &Value) -> Result<(&'a [Vec<u64>], Duration)> {
    let first = usize::try_from(integer(command, "first")?)?;
    let count = usize::try_from(integer(command, "count")?)?;
    let limit = Duration::from_secs_f64(crate::peer::number(command, "limit")?);
    Ok((&batches[first..first + count], limit))
}

/// A file of little-endian 64-bit numbers.
fn numbers(path: &str) -> Result<Vec<u64>> {
    let bytes = fs::read(path)?;
    let words = bytes.chunks_exact(8).map(|word| Ok(u64::from_le_bytes(word.try_into()?)));
    words.collect()
}
