//! How fast a pack is read on this machine, beside the machine's own limit.
//!
//! Every measurement repeats one call with new rows until its time is up. The first call is not
//! counted, so that files of ordinary size are read from the page cache; what a disk can do shows
//! with files that are larger than memory.

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use iac_codec::{CodecKind, Limits};
use iac_format::ErrorKind;
use iac_reader::{
    ContiguousRecordBatch, FixedRecordPack, PackKind, PackReader, RecordOptions, VariableRecordPack,
};
use serde::{Serialize, Serializer};

use crate::decode::{Decoder, no_records};
use crate::error::{OpsError, Result};
use crate::no_record::NoRecord;
use crate::progress::{Progress, Task, check_cancelled};

/// Bytes of a piece of the data segment, where rows address no records.
const SPAN_BYTES: u64 = 64 << 10;
/// Bytes that are copied to see how fast memory is: more than caches hold.
const COPIED_BYTES: usize = 64 << 20;
/// Bytes of decoded images that are in memory at once, unless one image has more.
const IMAGE_BYTES: u64 = 64 << 20;
/// Measurements that share the time.
const MEASUREMENTS: u32 = 5;

/// What is measured.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct BenchOptions {
    /// Records of a batch; default 256.
    pub batch: NonZeroU32,
    /// Time for all measurements together; default 5 seconds. Each makes at least one call.
    pub time: Duration,
    /// Bounds on what one record may decode to.
    pub limits: Limits,
}

impl Default for BenchOptions {
    fn default() -> Self {
        Self {
            batch: NonZeroU32::MIN.saturating_add(255),
            time: Duration::from_secs(5),
            limits: Limits::default(),
        }
    }
}

/// The measured rates of a pack. Serialises to the document of `iac bench --json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct BenchReport {
    /// The pack.
    pub path: String,
    /// `variable`, `fixed` or `segment`.
    pub kind: &'static str,
    /// The name of the codec; absent where the header's is no text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub codec: Option<String>,
    /// Rows of the index table.
    pub records: u64,
    /// Bytes of the data segment.
    pub data_bytes: u64,
    /// Records of a batch.
    pub batch: u32,
    /// Bytes of the pieces that were read in place of records, where rows address none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub span_bytes: Option<u64>,
    /// One thread copying memory that no cache holds.
    pub memory_copy: Rate,
    /// Stored bytes of random batches, copied to one buffer that is used again, and compared with
    /// their checksums.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub random: Option<Rate>,
    /// The same with rows in their order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sequential: Option<Rate>,
    /// Random batches as views of the mapped file; their bytes are not touched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub view: Option<Rate>,
    /// Random batches decoded: bytes to one buffer that is used again, images, or rows of a matrix
    /// as `f32`. Bytes are decoded ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decode: Option<Rate>,
    /// Measurements that could not be made, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub absent: Vec<Absent>,
}

/// What one measurement gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Rate {
    /// Calls that were counted.
    pub calls: u64,
    /// Records of all calls.
    pub records: u64,
    /// Bytes of all calls.
    pub bytes: u64,
    /// Time of all calls.
    pub time: Duration,
}

impl Rate {
    /// Records per second.
    #[must_use]
    pub fn records_per_second(&self) -> f64 {
        per_second(self.records, self.time)
    }

    /// Bytes per second.
    #[must_use]
    pub fn bytes_per_second(&self) -> f64 {
        per_second(self.bytes, self.time)
    }
}

impl Serialize for Rate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Members {
            calls: u64,
            records: u64,
            bytes: u64,
            seconds: f64,
            records_per_second: f64,
            bytes_per_second: f64,
        }
        let members = Members {
            calls: self.calls,
            records: self.records,
            bytes: self.bytes,
            seconds: self.time.as_secs_f64(),
            records_per_second: self.records_per_second(),
            bytes_per_second: self.bytes_per_second(),
        };
        members.serialize(serializer)
    }
}

/// A measurement that could not be made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Absent {
    /// The measurement: `random`, `sequential`, `view` or `decode`.
    pub what: &'static str,
    /// Kind of the reason, as errors have it.
    #[serde(serialize_with = "kind_name")]
    pub kind: ErrorKind,
    /// The reason.
    pub message: String,
}

fn kind_name<S: Serializer>(kind: &ErrorKind, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(kind.as_str())
}

/// Measures how fast a pack is read: random batches, sequential ones, views, and decoding.
///
/// Threads and source are those that the pack was opened with. Rows are the same each time.
/// Progress counts measurements.
///
/// # Errors
///
/// [`OpsError::Read`] when a record is damaged, or the system fails. What the pack or the build
/// does not offer is no error: see [`BenchReport::absent`].
pub fn bench(
    pack: &PackReader,
    options: &BenchOptions,
    progress: &dyn Progress,
) -> Result<BenchReport> {
    let kind = pack.kind()?;
    let task = Task::begin(progress, "measuring", Some(u64::from(MEASUREMENTS)));
    let time = options.time.checked_div(MEASUREMENTS).unwrap_or_default();
    let clock = Clock { time, progress };
    let spec = iac_codec::CodecSpec::from_header(pack.header().members()).ok();
    let mut report = BenchReport {
        path: pack.path().to_owned(),
        kind: kind.as_str(),
        codec: spec.map(|spec| spec.name().to_owned()),
        records: pack.num_records()?,
        data_bytes: pack.layout().data.length,
        batch: options.batch.get(),
        span_bytes: (kind == PackKind::Segment).then_some(SPAN_BYTES),
        memory_copy: copy_memory(&clock)?,
        random: None,
        sequential: None,
        view: None,
        decode: None,
        absent: Vec::new(),
    };
    task.advance(1);
    let units = if kind == PackKind::Segment {
        report.data_bytes.div_ceil(SPAN_BYTES)
    } else {
        report.records
    };
    let bench = Bench { pack, kind, units, options, clock };
    let mut measure = |what, run: &dyn Fn() -> Result<Rate>| {
        let measured = if units == 0 { Err(nothing_to_read(pack)) } else { run() };
        task.advance(1);
        match measured {
            Ok(rate) => Ok(Some(rate)),
            Err(error) if is_about_the_pack(&error) => {
                report.absent.push(Absent { what, kind: error.kind(), message: error.to_string() });
                Ok(None)
            }
            Err(error) => Err(error),
        }
    };
    let random = measure("random", &|| bench.random())?;
    let sequential = measure("sequential", &|| bench.sequential())?;
    let view = measure("view", &|| bench.view())?;
    let decode = measure("decode", &|| bench.decode())?;
    Ok(BenchReport { random, sequential, view, decode, ..report })
}

/// Whether a pack cannot offer something at all, rather than that a record of it is bad.
fn is_about_the_pack(error: &OpsError) -> bool {
    error.row().is_none()
        && matches!(
            error.kind(),
            ErrorKind::NoRecordIndex
                | ErrorKind::MissingFeature
                | ErrorKind::UnknownCodec
                | ErrorKind::UnsupportedExtension
                | ErrorKind::Unsupported
                | ErrorKind::Decode
                | ErrorKind::Usage
        )
}

fn nothing_to_read(pack: &PackReader) -> OpsError {
    OpsError::Usage { reason: format!("{}: there is nothing to read", pack.path()) }
}

/// How long one measurement takes, and who may stop it.
struct Clock<'a> {
    time: Duration,
    progress: &'a dyn Progress,
}

impl Clock<'_> {
    /// Calls until the time is up. `prepare` is not counted, nor is the first call; a call tells
    /// its records and bytes.
    fn measure<T>(
        &self,
        mut prepare: impl FnMut() -> T,
        mut call: impl FnMut(T) -> Result<(u64, u64)>,
    ) -> Result<Rate> {
        call(prepare())?;
        let mut rate = Rate::default();
        while rate.calls == 0 || rate.time < self.time {
            check_cancelled(self.progress)?;
            let work = prepare();
            let begun = Instant::now();
            let (records, bytes) = call(work)?;
            rate.time = rate.time.saturating_add(begun.elapsed());
            rate.calls = rate.calls.saturating_add(1);
            rate.records = rate.records.saturating_add(records);
            rate.bytes = rate.bytes.saturating_add(bytes);
        }
        Ok(rate)
    }
}

/// What is measured of one pack.
struct Bench<'a> {
    pack: &'a PackReader,
    kind: PackKind,
    /// Rows, or pieces of the data segment.
    units: u64,
    options: &'a BenchOptions,
    clock: Clock<'a>,
}

impl Bench<'_> {
    fn random(&self) -> Result<Rate> {
        self.stored(self.random_units())
    }

    fn sequential(&self) -> Result<Rate> {
        let mut next = 0_u64;
        let units = self.units;
        self.stored(self.batches(move || {
            let unit = next;
            next = next.saturating_add(1).checked_rem(units).unwrap_or(0);
            unit
        }))
    }

    /// Reads stored bytes of batches.
    fn stored(&self, units: impl FnMut() -> Vec<u64>) -> Result<Rate> {
        if self.kind == PackKind::Segment {
            return self.clock.measure(self.spans(units), |spans| {
                let bytes = self.pack.read_data_spans(&spans)?;
                Ok((count(spans.len()), count(bytes.len())))
            });
        }
        let mut batch = ContiguousRecordBatch::new();
        self.clock.measure(units, |rows| {
            self.pack.read_contiguous_into(&rows, &mut batch)?;
            Ok((count(rows.len()), count(batch.buffer().len())))
        })
    }

    fn view(&self) -> Result<Rate> {
        let units = self.random_units();
        let mut views = Vec::new();
        if self.kind == PackKind::Segment {
            return self.clock.measure(self.spans(units), |spans| {
                views.clear();
                for (offset, length) in spans {
                    views.push(self.pack.data_view(offset, length)?);
                }
                Ok(sizes(views.iter().map(|view| view.len())))
            });
        }
        self.clock.measure(units, |rows| {
            self.pack.views_into(&rows, &mut views)?;
            Ok(sizes(views.iter().map(|view| view.len())))
        })
    }

    fn decode(&self) -> Result<Rate> {
        let units = self.random_units();
        match self.kind {
            PackKind::Segment => Err(no_records(self.pack)),
            PackKind::Fixed => {
                let pack = FixedRecordPack::from_reader(self.pack.clone())?;
                self.clock.measure(units, |rows| {
                    let numbers = pack.read_many_f32(&rows)?;
                    Ok((count(rows.len()), count(size_of_val(&numbers[..]))))
                })
            }
            PackKind::Variable => {
                let options = RecordOptions::default().limits(self.options.limits);
                let pack = VariableRecordPack::from_reader_with(self.pack.clone(), options);
                if pack.codec()?.kind() == CodecKind::Image {
                    return self.images(units);
                }
                let mut batch = ContiguousRecordBatch::new();
                self.clock.measure(units, |rows| {
                    pack.read_many_contiguous_into(&rows, &mut batch)?;
                    Ok((count(rows.len()), count(batch.buffer().len())))
                })
            }
        }
    }

    /// Decodes batches of images, in parts that fit memory.
    fn images(&self, units: impl FnMut() -> Vec<u64>) -> Result<Rate> {
        let decoder = Decoder::new(self.pack, self.options.limits)?;
        let images = decoder.images().ok_or_else(|| no_records(self.pack))?;
        let absent = NoRecord::of(self.pack)?;
        self.clock.measure(units, |rows| {
            let (mut bytes, mut part, mut cost) = (0_u64, Vec::new(), 0_u64);
            let mut decode = |part: &mut Vec<u64>| -> Result<()> {
                for image in images.read_images(part)? {
                    let samples = image.shape().samples();
                    let size = samples.saturating_mul(image.sample_type().bytes());
                    bytes = bytes.saturating_add(count(size));
                }
                part.clear();
                Ok(())
            };
            for row in rows.iter().filter(|row| !absent.contains(self.pack, **row)) {
                let stored = self.pack.span(*row)?.length;
                cost = cost.saturating_add(decoder.cost(*row, stored));
                if cost > IMAGE_BYTES && !part.is_empty() {
                    decode(&mut part)?;
                    cost = decoder.cost(*row, stored);
                }
                part.push(*row);
            }
            decode(&mut part)?;
            Ok((count(rows.len()), bytes))
        })
    }

    /// Batches of units that `next` chooses.
    fn batches(&self, mut next: impl FnMut() -> u64) -> impl FnMut() -> Vec<u64> {
        let batch = self.options.batch.get();
        move || (0..batch).map(|_| next()).collect()
    }

    fn random_units(&self) -> impl FnMut() -> Vec<u64> + use<'_> {
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        let units = u128::from(self.units);
        self.batches(move || {
            // Numbers need to be spread, not secret: an xorshift generator.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let scaled = u128::from(state).saturating_mul(units) >> 64;
            u64::try_from(scaled).unwrap_or(0)
        })
    }

    /// Spans of the data segment for units.
    fn spans(&self, mut units: impl FnMut() -> Vec<u64>) -> impl FnMut() -> Vec<(u64, u64)> {
        let total = self.pack.layout().data.length;
        move || {
            let span = |unit: u64| {
                let offset = unit.saturating_mul(SPAN_BYTES).min(total);
                (offset, total.saturating_sub(offset).min(SPAN_BYTES))
            };
            units().into_iter().map(span).collect()
        }
    }
}

/// Copies memory to memory.
fn copy_memory(clock: &Clock<'_>) -> Result<Rate> {
    let source = vec![0x5A_u8; COPIED_BYTES];
    let mut target = vec![0_u8; COPIED_BYTES];
    clock.measure(
        || (),
        |()| {
            target.copy_from_slice(std::hint::black_box(&source));
            std::hint::black_box(&target);
            Ok((1, count(COPIED_BYTES)))
        },
    )
}

fn sizes(lengths: impl ExactSizeIterator<Item = usize>) -> (u64, u64) {
    let records = count(lengths.len());
    (records, lengths.fold(0, |sum, length| sum.saturating_add(count(length))))
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

#[expect(clippy::cast_precision_loss, reason = "a rate, not a count")]
fn per_second(amount: u64, time: Duration) -> f64 {
    let seconds = time.as_secs_f64();
    if seconds > 0.0 { amount as f64 / seconds } else { 0.0 }
}
