//! Reading batches of random rows from a variable pack.

use std::fs::File;
use std::hint::black_box;
use std::num::NonZeroUsize;
use std::os::unix::fs::FileExt;
use std::path::Path;

use bytes::Bytes;
use iac_reader::{ContiguousRecordBatch, PackReader, ReadOptions, SourceKind};
use serde_json::json;

use crate::Result;
use crate::clock::{Sample, measure};
use crate::peer::{Peer, Program};
use crate::report::{Basis, Goal, Line, Section, Series};
use crate::sample::{self, BATCH_ROWS, Lengths};

/// What is measured, and what should be reached.
#[derive(Debug, Clone, Copy)]
pub struct Reads {
    /// Heading.
    pub title: &'static str,
    /// Bytes of all records together.
    pub pack_bytes: u64,
    /// Lengths of the records.
    pub lengths: Lengths,
    /// Seed of lengths, bytes and rows.
    pub seed: u64,
    /// Batches per round.
    pub batches: usize,
    /// Repetitions.
    pub rounds: usize,
    /// Owned batches on one thread: the reference's processor time over ours.
    pub owned: f64,
    /// The same on two threads, by the wall.
    pub owned_on_two: Option<f64>,
    /// Contiguous batches without checksums.
    pub contiguous: Goal,
}

/// Batches of rows, and the same as places in the file.
struct Batch {
    rows: Vec<u64>,
    spans: Vec<(usize, usize)>,
}

/// Our ways to read.
struct Ours {
    checked: PackReader,
    unchecked: PackReader,
    on_two: PackReader,
    positional: PackReader,
    positional_checked: PackReader,
    batch: ContiguousRecordBatch,
    views: Vec<Bytes>,
}

/// What limits them: the bytes in memory, and the open file.
struct Plain {
    memory: Bytes,
    file: File,
    data_offset: u64,
    buffer: Vec<u8>,
}

impl Reads {
    /// Makes the pack in `folder`, measures, and removes it.
    ///
    /// # Errors
    ///
    /// What a reader, the writer or the system reports, or when the two sides read different
    /// bytes.
    pub fn run(&self, folder: &Path, reference: Option<&Program>) -> Result<Section> {
        let (path, rows_path) = (folder.join("reads.iac"), folder.join("reads.rows"));
        let rows = sample::write_variable(&path, self.pack_bytes, self.lengths, self.seed)?;
        sample::warm(&path)?;
        let batches = sample::random_batches(rows, self.batches * self.rounds, self.seed ^ 1);
        sample::save_batches(&rows_path, &batches)?;

        let mut ours = Ours::open(&path)?;
        ours.touch_all(rows)?;
        let mut plain = Plain::open(&path, &ours.checked)?;
        let batches = resolve(&ours.checked, batches)?;
        let mut peer = reference.map(Program::start).transpose()?;
        if let Some(peer) = &mut peer {
            let open = json!({"op": "use", "path": path, "rows": rows_path, "batch": BATCH_ROWS});
            peer.call(&open)?;
            ours.compare(peer, &batches)?;
        }
        let mut series = Series::default();
        for (round, some) in batches.chunks(self.batches).enumerate() {
            self.round(
                &mut series,
                &mut ours,
                &mut plain,
                peer.as_mut(),
                (round * self.batches, some),
                &batches,
            )?;
        }
        drop(peer);
        std::fs::remove_file(&path)?;
        std::fs::remove_file(&rows_path)?;
        Ok(Section {
            title: format!("{}, {} records", self.title, rows),
            unit: ("us/record", 1e-6),
            series,
            lines: self.lines(),
            facts: Vec::new(),
        })
    }

    /// One round: every way once, ours and the others in turn, all on the same rows.
    fn round(
        &self,
        series: &mut Series,
        ours: &mut Ours,
        plain: &mut Plain,
        mut peer: Option<&mut Peer>,
        (first, batches): (usize, &[Batch]),
        all: &[Batch],
    ) -> Result<()> {
        let records = count(batches)?;
        let singles = batches.len().div_ceil(4);
        let mut ask = |op: &str, first: usize, count: usize| -> Result<Option<Sample>> {
            let command = json!({"op": op, "first": first, "count": count});
            peer.as_mut().map(|peer| peer.sample(&command)).transpose()
        };
        let mut add = |name, sample: Option<Sample>, records| {
            if let Some(sample) = sample {
                series.add(name, sample.per(records));
            }
        };
        let owned = |pack: &PackReader| {
            over(batches, |batch| {
                black_box(pack.read_rows(&batch.rows)?);
                Ok(())
            })
        };
        let contiguous = |pack: &PackReader, buffer: &mut ContiguousRecordBatch| {
            over(batches, |batch| {
                pack.read_contiguous_into(&batch.rows, buffer)?;
                black_box(buffer.buffer());
                Ok(())
            })
        };
        add("owned", Some(owned(&ours.checked)?), records);
        add("reference owned", ask("payloads", first, batches.len())?, records);
        add("copy", Some(plain.copy(batches)?), records);
        add("contiguous unchecked", Some(contiguous(&ours.unchecked, &mut ours.batch)?), records);
        add("copy in file order", Some(plain.copy_in_file_order(batches)?), records);
        add("owned on two", Some(owned(&ours.on_two)?), records);
        add("owned unchecked", Some(owned(&ours.unchecked)?), records);
        add("contiguous", Some(contiguous(&ours.checked, &mut ours.batch)?), records);
        add(
            "positional contiguous unchecked",
            Some(contiguous(&ours.positional, &mut ours.batch)?),
            records,
        );
        add("pread", Some(plain.pread(batches)?), records);
        add("positional owned unchecked", Some(owned(&ours.positional)?), records);
        add("positional owned", Some(owned(&ours.positional_checked)?), records);
        let views = over(all, |batch| {
            ours.checked.views_into(&batch.rows, &mut ours.views)?;
            black_box(&ours.views);
            Ok(())
        })?;
        add("views", Some(views), count(all)?);
        add("reference views", ask("views", 0, all.len())?, count(all)?);
        add("slices", Some(plain.slice(all)?), count(all)?);
        let some = &batches[..singles];
        let single = over(some, |batch| {
            for row in &batch.rows {
                black_box(ours.checked.read(*row)?);
            }
            Ok(())
        })?;
        add("single", Some(single), count(some)?);
        add("reference single", ask("single", first, singles)?, count(some)?);
        let rows = ours.checked.num_records()?;
        let ((), sequential) = measure(|| {
            for record in ours.checked.iter_payloads()? {
                black_box(record?);
            }
            Ok(())
        })?;
        add("sequential", Some(sequential), rows);
        add("reference sequential", ask("sequential", 0, 0)?, rows);
        Ok(())
    }

    fn lines(&self) -> Vec<Line> {
        let line = |what, ours, reference, plain, goal| Line {
            what,
            ours,
            reference,
            plain,
            basis: Basis::Cpu,
            goal,
        };
        let (owned, copy, pread) = (Some("reference owned"), Some("copy"), Some("pread"));
        vec![
            line("owned, CRC", "owned", owned, copy, Some(Goal::TimesReference(self.owned))),
            Line {
                basis: Basis::Wall,
                ..line(
                    "owned, CRC, 2 threads (wall)",
                    "owned on two",
                    owned,
                    copy,
                    self.owned_on_two.map(Goal::TimesReference),
                )
            },
            line("owned, no CRC", "owned unchecked", owned, copy, None),
            line("contiguous, CRC", "contiguous", owned, copy, None),
            line("contiguous, no CRC", "contiguous unchecked", owned, copy, Some(self.contiguous)),
            line(
                "  beside a copy in file order",
                "contiguous unchecked",
                None,
                Some("copy in file order"),
                None,
            ),
            line(
                "positional, contiguous, no CRC",
                "positional contiguous unchecked",
                owned,
                pread,
                Some(Goal::TimesPlain(1.3)),
            ),
            line("positional, owned, no CRC", "positional owned unchecked", owned, pread, None),
            line("positional, owned, CRC", "positional owned", owned, pread, None),
            line(
                "views",
                "views",
                Some("reference views"),
                Some("slices"),
                Some(Goal::TimesReference(20.0)),
            ),
            line("one by one, owned, CRC", "single", Some("reference single"), copy, None),
            line("all in row order, CRC", "sequential", Some("reference sequential"), None, None),
        ]
    }
}

impl Ours {
    fn open(path: &Path) -> Result<Self> {
        let one = ReadOptions::default().workers(NonZeroUsize::new(1));
        let checked = PackReader::open_with(path, &one)?;
        let positional_checked =
            PackReader::open_with(path, &one.clone().source(SourceKind::Positional))?;
        Ok(Self {
            unchecked: checked.with_crc(false),
            on_two: checked.with_options(&one.workers(NonZeroUsize::new(2))),
            positional: positional_checked.with_crc(false),
            positional_checked,
            checked,
            batch: ContiguousRecordBatch::new(),
            views: Vec::new(),
        })
    }

    /// Reads every record once: the first touch of a page of a mapping is a page fault.
    fn touch_all(&mut self, rows: u64) -> Result<()> {
        let all: Vec<u64> = (0..rows).collect();
        for some in all.chunks(BATCH_ROWS) {
            self.checked.read_contiguous_into(some, &mut self.batch)?;
        }
        // The threads of the pool start with the first large batch.
        black_box(self.on_two.read_rows(&all[..BATCH_ROWS.min(all.len())])?);
        Ok(())
    }

    /// Whether the reference reads the same bytes in the same order.
    fn compare(&self, peer: &mut Peer, batches: &[Batch]) -> Result<()> {
        let checked = 4.min(batches.len());
        let answer = peer.call(&json!({"op": "check", "first": 0, "count": checked}))?;
        let mut sum = crc32fast::Hasher::new();
        for batch in &batches[..checked] {
            for record in self.checked.read_rows(&batch.rows)? {
                sum.update(&record);
            }
        }
        let sum = u64::from(sum.finalize());
        for way in ["payloads", "views"] {
            if answer.get(way).and_then(serde_json::Value::as_u64) != Some(sum) {
                return Err(format!("the reference's {way} are not our records").into());
            }
        }
        Ok(())
    }
}

impl Plain {
    fn open(path: &Path, pack: &PackReader) -> Result<Self> {
        let data = pack.layout().data;
        Ok(Self {
            // The mapping that our reader uses, whose pages are mapped already.
            memory: pack.data_view(0, data.length)?,
            file: File::open(path)?,
            data_offset: data.offset,
            buffer: Vec::new(),
        })
    }

    /// Room for the largest of the batches, touched.
    fn make_room(&mut self, batches: &[Batch]) {
        let bytes = |batch: &Batch| batch.spans.iter().map(|(_, length)| length).sum();
        let most = batches.iter().map(bytes).max().unwrap_or(0);
        if self.buffer.len() < most {
            self.buffer = vec![1; most];
        }
    }

    fn copy(&mut self, batches: &[Batch]) -> Result<Sample> {
        self.make_room(batches);
        over(batches, |batch| {
            let mut end = 0;
            for (offset, length) in &batch.spans {
                let target = &mut self.buffer[end..end + length];
                target.copy_from_slice(&self.memory[*offset..offset + length]);
                end += length;
            }
            black_box(&self.buffer);
            Ok(())
        })
    }

    fn copy_in_file_order(&mut self, batches: &[Batch]) -> Result<Sample> {
        let sorted: Vec<Batch> = batches
            .iter()
            .map(|batch| {
                let mut spans = batch.spans.clone();
                spans.sort_unstable();
                Batch { rows: Vec::new(), spans }
            })
            .collect();
        self.copy(&sorted)
    }

    /// Views without addressing: what taking and dropping a reference costs.
    fn slice(&self, batches: &[Batch]) -> Result<Sample> {
        let mut views = Vec::with_capacity(BATCH_ROWS);
        over(batches, |batch| {
            views.clear();
            for (offset, length) in &batch.spans {
                views.push(self.memory.slice(*offset..offset + length));
            }
            black_box(&views);
            Ok(())
        })
    }

    fn pread(&mut self, batches: &[Batch]) -> Result<Sample> {
        self.make_room(batches);
        over(batches, |batch| {
            let mut end = 0;
            for (offset, length) in &batch.spans {
                let place = self.data_offset + u64::try_from(*offset)?;
                let target = &mut self.buffer[end..end + length];
                self.file.read_exact_at(target, place)?;
                end += length;
            }
            black_box(&self.buffer);
            Ok(())
        })
    }
}

fn resolve(pack: &PackReader, batches: Vec<Vec<u64>>) -> Result<Vec<Batch>> {
    batches
        .into_iter()
        .map(|rows| {
            let spans = rows.iter().map(|row| {
                let span = pack.span(*row)?;
                Ok((usize::try_from(span.offset)?, usize::try_from(span.length)?))
            });
            let spans = spans.collect::<Result<_>>()?;
            Ok(Batch { rows, spans })
        })
        .collect()
}

fn over(batches: &[Batch], mut work: impl FnMut(&Batch) -> Result<()>) -> Result<Sample> {
    let ((), sample) = measure(|| batches.iter().try_for_each(&mut work))?;
    Ok(sample)
}

fn count(batches: &[Batch]) -> Result<u64> {
    Ok(u64::try_from(batches.len() * BATCH_ROWS)?)
}
