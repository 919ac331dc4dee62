//! Decoding batches of random rows, and encoding a stream, beside the libraries alone.

use std::convert::Infallible;
use std::hint::black_box;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use iac_codec::brotli::{BrotliBackend, BrotliOptions};
use iac_codec::zstd::{ZstdOptions, train_dictionary};
use iac_codec::{Codec, Limits};
use iac_reader::{ContiguousRecordBatch, PackReader, ReadOptions, VariableRecordPack};
use iac_writer::VariablePackBuilder;
use serde_json::json;
use zstd_safe::{CCtx, DCtx, DDict};

use crate::Result;
use crate::clock::{Sample, measure};
use crate::peer::{Peer, Program};
use crate::report::{Basis, Fact, Goal, Line, Section, Series};
use crate::sample::{self, BATCH_ROWS, Lengths};
use crate::texts;

/// What is measured, and what should be reached.
#[derive(Debug, Clone, Copy)]
pub struct Codecs {
    /// Heading.
    pub title: &'static str,
    /// Number of records.
    pub records: usize,
    /// Lengths of the records.
    pub lengths: Lengths,
    /// Seed of texts and rows.
    pub seed: u64,
    /// Batches per round.
    pub batches: usize,
    /// Repetitions.
    pub rounds: usize,
    /// Whether a dictionary is trained and measured too.
    pub dictionary: bool,
    /// `zstd`: the reference's processor time over ours.
    pub zstd: f64,
    /// `brotli`: the same.
    pub brotli: f64,
}

const LEVEL: i32 = 3;
const QUALITY: u8 = 5;
const DICTIONARY_BYTES: usize = 16 << 10;
/// The first records are what the dictionary is trained on.
const TRAINED_ON: usize = 8192;
const TWO: Option<NonZeroUsize> = NonZeroUsize::new(2);

/// Names of the series that belong to one codec.
#[derive(Clone, Copy)]
struct Names {
    ours: &'static str,
    unchecked: &'static str,
    on_two: &'static str,
    reference: Option<&'static str>,
    bare: &'static str,
}

const ZSTD: Names = Names {
    ours: "zstd",
    unchecked: "zstd unchecked",
    on_two: "zstd on two",
    reference: Some("reference zstd"),
    bare: "bare zstd",
};
/// The reference cannot read packs with dictionaries.
const DICTIONARY: Names = Names {
    ours: "dictionary",
    unchecked: "dictionary unchecked",
    on_two: "dictionary on two",
    reference: None,
    bare: "bare dictionary",
};
const BROTLI: Names = Names {
    ours: "brotli",
    unchecked: "brotli unchecked",
    on_two: "brotli on two",
    reference: Some("reference brotli"),
    bare: "bare brotli",
};

/// The library alone.
enum Bare {
    Zstd(DCtx<'static>),
    Dictionary(DCtx<'static>, DDict<'static>),
    Brotli,
}

/// The records as one codec stores them, and all ways to decode them.
struct Pack {
    names: Names,
    path: PathBuf,
    checked: VariableRecordPack,
    unchecked: VariableRecordPack,
    on_two: VariableRecordPack,
    payloads: Vec<Bytes>,
    bare: Bare,
}

impl Codecs {
    /// Makes the packs in `folder`, measures, and removes them.
    ///
    /// # Errors
    ///
    /// What a codec, a reader, the writer or the system reports, or when the sides decode
    /// different bytes.
    pub fn run(&self, folder: &Path, reference: Option<&Program>) -> Result<Section> {
        let records = texts::notes(self.records, self.lengths, self.seed);
        let mut packs = self.packs(folder, &records)?;
        let rows_path = folder.join("codecs.rows");
        let rows = u64::try_from(records.len())?;
        let batches = sample::random_batches(rows, self.batches * self.rounds, self.seed ^ 1);
        sample::save_batches(&rows_path, &batches)?;
        let mut peer = reference.map(Program::start).transpose()?;
        let mut batch = ContiguousRecordBatch::new();
        let most = batches.iter().map(|rows| length(&records, rows)).max().unwrap_or(0);
        let mut buffer = vec![1; most];
        for pack in &mut packs {
            pack.check(&batches, &records, &mut batch, &mut buffer)?;
            if let (Some(peer), Some(name)) = (&mut peer, pack.names.reference) {
                let open = json!({"op": "use_records", "name": name, "path": pack.path,
                                  "rows": rows_path, "batch": BATCH_ROWS});
                peer.call(&open)?;
                compare(peer, name, &batches, &records)?;
            }
        }
        let mut series = Series::default();
        for (round, some) in batches.chunks(self.batches).enumerate() {
            let count = u64::try_from(some.len() * BATCH_ROWS)?;
            for pack in &mut packs {
                let first = round * self.batches;
                pack.round(&mut series, (first, some), peer.as_mut(), &mut batch, &mut buffer)?;
                if matches!(pack.bare, Bare::Brotli) {
                    let sample = pure_brotli(&pack.payloads, some, &mut buffer)?;
                    series.add("pure brotli", sample.per(count));
                }
            }
            encode(&mut series, &folder.join("encoded.iac"), &records)?;
        }
        drop(peer);
        let facts = facts(&packs, &records);
        for pack in packs {
            std::fs::remove_file(&pack.path)?;
        }
        std::fs::remove_file(&rows_path)?;
        Ok(Section {
            title: format!("{}, {} records", self.title, records.len()),
            unit: ("us/record", 1e-6),
            series,
            lines: self.lines(),
            facts,
        })
    }

    fn packs(&self, folder: &Path, records: &[Vec<u8>]) -> Result<Vec<Pack>> {
        let make = |names, codec, bare| Pack::make(folder, names, codec, bare, records);
        let zstd = ZstdOptions::new(LEVEL);
        let mut packs = vec![make(ZSTD, zstd.clone().codec()?, Bare::Zstd(DCtx::create()))?];
        if self.dictionary {
            let some = &records[..TRAINED_ON.min(records.len())];
            let dictionary = train_dictionary(some, DICTIONARY_BYTES)?;
            let bare = Bare::Dictionary(DCtx::create(), DDict::create(&dictionary));
            packs.push(make(DICTIONARY, zstd.with_dictionary(dictionary).codec()?, bare)?);
        }
        let brotli = BrotliOptions::default().with_quality(QUALITY).codec()?;
        packs.push(make(BROTLI, brotli, Bare::Brotli)?);
        Ok(packs)
    }

    fn lines(&self) -> Vec<Line> {
        let line = |what, ours, reference, plain, goal| Line {
            what,
            ours,
            reference,
            plain: Some(plain),
            basis: Basis::Cpu,
            goal: Some(goal),
        };
        let bare = Goal::TimesPlain(1.1);
        // Two workers beside one: nobody can beat half of it.
        let on_two = |what, names: Names| Line {
            basis: Basis::Wall,
            ..line(what, names.on_two, None, names.ours, Goal::PartOfPlain(1.8))
        };
        let unchecked = |names: Names| Line {
            goal: None,
            ..line("  no CRC", names.unchecked, names.reference, names.bare, bare)
        };
        let of = |what, names: Names, reference, times| {
            [
                line(what, names.ours, reference, names.bare, Goal::TimesReference(times)),
                line("  beside the library alone", names.ours, None, names.bare, bare),
                unchecked(names),
                on_two("  2 workers beside 1 (wall)", names),
            ]
        };
        let mut lines = Vec::new();
        lines.extend(of("zstd 3", ZSTD, ZSTD.reference, self.zstd));
        if self.dictionary {
            // The reference's time is that without a dictionary.
            lines.extend(of("zstd 3, dictionary", DICTIONARY, ZSTD.reference, 2.8));
        }
        lines.extend(of("brotli 5, C", BROTLI, BROTLI.reference, self.brotli));
        lines.push(line(
            "brotli 5, pure Rust, codec alone",
            "pure brotli",
            BROTLI.reference,
            BROTLI.bare,
            Goal::TimesReference(1.0),
        ));
        lines.push(Line {
            basis: Basis::Wall,
            ..line("streamed zstd 3, 2 threads (wall)", "encode", None, "half of bare encode", bare)
        });
        lines.push(Line {
            goal: None,
            ..line("  processor time of both", "encode", None, "bare encode", bare)
        });
        lines
    }
}

impl Pack {
    fn make(
        folder: &Path,
        names: Names,
        codec: Codec,
        bare: Bare,
        records: &[Vec<u8>],
    ) -> Result<Self> {
        let path = folder.join(format!("{}.iac", names.ours));
        let rows = u64::try_from(records.len())?;
        VariablePackBuilder::new("benchmark", sample::index_table(rows)?)
            .codec(codec)
            .options(sample::options())
            .build(&path, records)?;
        sample::warm(&path)?;
        let one = ReadOptions::default().workers(NonZeroUsize::new(1));
        let pack = PackReader::open_with(&path, &one)?;
        let views = pack.views(&(0..rows).collect::<Vec<u64>>())?;
        let unchecked = VariableRecordPack::from_reader(pack.with_crc(false));
        let on_two = VariableRecordPack::from_reader(pack.with_options(&one.workers(TWO)));
        let checked = VariableRecordPack::from_reader(pack);
        Ok(Self { names, path, checked, unchecked, on_two, payloads: views, bare })
    }

    /// Decodes every record in every way once, and looks at what comes out.
    fn check(
        &mut self,
        batches: &[Vec<u64>],
        records: &[Vec<u8>],
        batch: &mut ContiguousRecordBatch,
        buffer: &mut [u8],
    ) -> Result<()> {
        let all: Vec<u64> = (0..u64::try_from(records.len())?).collect();
        for rows in all.chunks(BATCH_ROWS).chain(batches.iter().take(1).map(Vec::as_slice)) {
            for pack in [&self.unchecked, &self.on_two, &self.checked] {
                pack.read_many_contiguous_into(rows, batch)?;
                let mut expected = rows.iter().map(|row| record(records, *row));
                if !batch.iter().all(|found| expected.next() == Some(found)) {
                    return Err(
                        format!("{} does not give the records back", self.names.ours).into()
                    );
                }
            }
        }
        for rows in batches.iter().take(1) {
            let end = self.bare.batch(&self.payloads, rows, buffer)?;
            if !buffer[..end].iter().eq(rows.iter().flat_map(|row| record(records, *row))) {
                return Err(format!("{} does not give the records back", self.names.bare).into());
            }
        }
        Ok(())
    }

    /// Every way once on the same rows.
    fn round(
        &mut self,
        series: &mut Series,
        (first, batches): (usize, &[Vec<u64>]),
        peer: Option<&mut Peer>,
        batch: &mut ContiguousRecordBatch,
        buffer: &mut [u8],
    ) -> Result<()> {
        let Self { names, checked, unchecked, on_two, payloads, bare, .. } = self;
        let count = u64::try_from(batches.len() * BATCH_ROWS)?;
        let mut ours = |pack: &VariableRecordPack| {
            over(batches, |rows| {
                pack.read_many_contiguous_into(rows, batch)?;
                black_box(batch.buffer());
                Ok(())
            })
        };
        series.add(names.ours, ours(checked)?.per(count));
        let library = over(batches, |rows| {
            black_box(bare.batch(payloads, rows, buffer)?);
            black_box(&*buffer);
            Ok(())
        })?;
        series.add(names.bare, library.per(count));
        if let (Some(peer), Some(name)) = (peer, names.reference) {
            let command = json!({"op": "records_contiguous", "name": name,
                                 "first": first, "count": batches.len()});
            series.add(name, peer.sample(&command)?.per(count));
        }
        series.add(names.on_two, ours(on_two)?.per(count));
        series.add(names.unchecked, ours(unchecked)?.per(count));
        Ok(())
    }
}

impl Bare {
    /// Decodes one after the other into the buffer. Gives the end.
    fn batch(&mut self, payloads: &[Bytes], rows: &[u64], buffer: &mut [u8]) -> Result<usize> {
        let mut end = 0;
        for row in rows {
            let payload = &payloads[usize::try_from(*row)?];
            let room = &mut buffer[end..];
            end += match self {
                Self::Zstd(context) => {
                    context.decompress(room, payload).map_err(zstd_safe::get_error_name)?
                }
                Self::Dictionary(context, dictionary) => context
                    .decompress_using_ddict(room, payload, dictionary)
                    .map_err(zstd_safe::get_error_name)?,
                Self::Brotli => brotlic::decompress(payload, room)?,
            };
        }
        Ok(end)
    }
}

/// The codec in pure Rust, which packs use only where the C library is not compiled in.
fn pure_brotli(payloads: &[Bytes], batches: &[Vec<u64>], buffer: &mut Vec<u8>) -> Result<Sample> {
    let options = BrotliOptions::default().with_backend(BrotliBackend::PureRust);
    let (codec, limits) = (options.codec()?, Limits::default());
    let room = buffer.len();
    let sample = over(batches, |rows| {
        buffer.clear();
        for row in rows {
            codec.decode_bytes_append(&payloads[usize::try_from(*row)?], buffer, &limits)?;
        }
        black_box(&*buffer);
        Ok(())
    });
    buffer.resize(room, 1);
    sample
}

/// A pack from a stream on two threads, and the codec's own time on one.
fn encode(series: &mut Series, path: &Path, records: &[Vec<u8>]) -> Result<()> {
    let rows = u64::try_from(records.len())?;
    let builder = VariablePackBuilder::new("benchmark", sample::index_table(rows)?)
        .codec(ZstdOptions::new(LEVEL).codec()?)
        .options(sample::options())
        .workers(TWO);
    let ((), ours) = measure(|| {
        builder.build_streaming(path, records.iter().map(Ok::<_, Infallible>))?;
        Ok(())
    })?;
    std::fs::remove_file(path)?;
    let mut context = CCtx::create();
    let most = records.iter().map(Vec::len).max().unwrap_or(0);
    let mut payload = vec![0; zstd_safe::compress_bound(most)];
    let ((), bare) = measure(|| {
        for record in records {
            let room = payload.as_mut_slice();
            let written =
                context.compress(room, record, LEVEL).map_err(zstd_safe::get_error_name)?;
            black_box(&payload[..written]);
        }
        Ok(())
    })?;
    series.add("encode", ours.per(rows));
    series.add("bare encode", bare.per(rows));
    series.add("half of bare encode", bare.per(rows * 2));
    Ok(())
}

fn facts(packs: &[Pack], records: &[Vec<u8>]) -> Vec<Fact> {
    let bytes = |pack: &Pack| pack.payloads.iter().map(Bytes::len).sum::<usize>() as f64;
    let size = |names: Names| packs.iter().find(|pack| pack.names.ours == names.ours).map(bytes);
    let whole = records.iter().map(Vec::len).sum::<usize>() as f64;
    let fact = |what, names| {
        let ours = size(names)? / whole;
        Some(Fact { what, unit: "of the records'", ours, reference: None, at_most: None })
    };
    let facts = [
        fact("bytes of zstd 3", ZSTD),
        fact("bytes of zstd 3 with a dictionary", DICTIONARY),
        fact("bytes of brotli 5", BROTLI),
    ];
    facts.into_iter().flatten().collect()
}

/// Whether the reference decodes the same bytes in the same order.
fn compare(peer: &mut Peer, name: &str, batches: &[Vec<u64>], records: &[Vec<u8>]) -> Result<()> {
    let answer =
        peer.call(&json!({"op": "check_records", "name": name, "first": 0, "count": 1}))?;
    let mut sum = crc32fast::Hasher::new();
    for row in batches.iter().take(1).flatten() {
        sum.update(record(records, *row));
    }
    if answer.get("sum").and_then(serde_json::Value::as_u64) != Some(u64::from(sum.finalize())) {
        return Err(format!("{name} does not give our records").into());
    }
    Ok(())
}

fn record(records: &[Vec<u8>], row: u64) -> &[u8] {
    usize::try_from(row).ok().and_then(|row| records.get(row)).map_or(&[], Vec::as_slice)
}

fn length(records: &[Vec<u8>], rows: &[u64]) -> usize {
    rows.iter().map(|row| record(records, *row).len()).sum()
}

fn over(batches: &[Vec<u64>], mut work: impl FnMut(&[u64]) -> Result<()>) -> Result<Sample> {
    let ((), sample) = measure(|| batches.iter().try_for_each(|rows| work(rows)))?;
    Ok(sample)
}
