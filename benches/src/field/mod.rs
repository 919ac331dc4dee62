//! Other formats on the same records: each in a process of its own, in its own language's loop,
//! all taking turns.

mod side;
mod table;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use iac_codec::zstd::train_dictionary;
use serde_json::{Value, json};

pub use self::side::{Side, ZSTD_LEVEL};
pub use self::table::{Goal, Of, Row, Table, Who};
use crate::clock::Sample;
use crate::peer::{Peer, Program, number};
use crate::random::Random;
use crate::sample::{self, BATCH_ROWS, Lengths};
use crate::{Result, texts};

/// The records of a section.
#[derive(Debug, Clone, Copy)]
pub enum Records {
    /// Random bytes, so many in all.
    Opaque(u64, Lengths),
    /// Notes, so many.
    Texts(usize),
    /// Rows of so many half floats each, so many rows.
    Halves(u64, u64),
    /// Eight bytes each, so many: a file that is mostly its index.
    Tiny(u64),
}

/// What is measured.
#[derive(Debug, Clone, Copy)]
pub enum Task {
    /// Batches, single records and all in order; writing too, with every side unsynced.
    Read,
    /// Writing alone, synced and not, beside plain writing and a copy of the finished file.
    Write,
    /// From the path to the first record.
    Open,
}

/// One section.
#[derive(Debug, Clone, Copy)]
pub struct Field {
    /// Heading.
    pub title: &'static str,
    /// Of what.
    pub records: Records,
    /// What is done.
    pub task: Task,
    /// Who takes part.
    pub who: &'static [Entry],
    /// What should be reached.
    pub goals: &'static [Goal],
    /// Batches per round.
    pub batches: usize,
    /// Repetitions.
    pub rounds: usize,
    /// Seconds after which a side ends its part of a round.
    pub limit: f64,
}

/// A side: its name, whose it is, its format and codec, and the name of the file that it reads. The
/// first one of a file name writes it.
pub type Entry = (&'static str, Who, &'static str, &'static str, &'static str);

const OURS: Who = Who::Ours;
const PYTHON: Who = Who::OursFromPython;
const PEER: Who = Who::Peer;
const PLAIN: Who = Who::Plain;

/// Records of bytes as they are.
pub const RAW: &[Entry] = &[
    ("iatrocache, Rust, owned", OURS, "iac", "none", "iac"),
    ("iatrocache, Rust, owned, no CRC", OURS, "iac-owned-unchecked", "none", "iac"),
    ("iatrocache, Rust, one buffer", OURS, "iac-contiguous", "none", "iac"),
    ("iatrocache, Rust, one buffer, no CRC", OURS, "iac-unchecked", "none", "iac"),
    ("iatrocache, Python", PYTHON, "iatrocache", "none", "iac-python"),
    ("iatrocache, Python, one buffer", PYTHON, "iatrocache-contiguous", "none", "iac-python"),
    ("reference 0.1.4", PEER, "reference", "none", "reference"),
    ("Bagz", PEER, "bagz", "none", "bagz"),
    ("ArrayRecord", PEER, "array_record", "none", "array_record"),
    ("MosaicML Streaming (MDS)", PEER, "mds", "none", "mds"),
    ("WebDataset (tar)", PEER, "webdataset", "none", "records.tar"),
    ("LMDB", PEER, "lmdb", "none", "lmdb"),
    ("Arrow IPC", PEER, "arrow", "none", "arrow"),
    ("Parquet", PEER, "parquet", "none", "parquet"),
    ("Lance", PEER, "lance", "none", "lance"),
    ("HDF5", PEER, "hdf5", "none", "hdf5"),
    ("Zarr", PEER, "zarr", "none", "zarr"),
    ("memory copy, plain write", PLAIN, "plain", "none", "plain"),
    ("page cache, pread", PLAIN, "pread", "none", "plain"),
];

/// Texts, compressed by `zstd` of level 3, each by itself where the format can do that.
pub const TEXTS: &[Entry] = &[
    ("iatrocache, Rust, owned", OURS, "iac", "zstd", "iac"),
    ("iatrocache, Rust, one buffer", OURS, "iac-contiguous", "zstd", "iac"),
    ("iatrocache, Rust, dictionary", OURS, "iac-contiguous", "zstd-dictionary", "iac-dictionary"),
    ("iatrocache, Python", PYTHON, "iatrocache", "zstd", "iac-python"),
    ("iatrocache, Python, one buffer", PYTHON, "iatrocache-contiguous", "zstd", "iac-python"),
    ("reference 0.1.4", PEER, "reference", "zstd", "reference"),
    ("Bagz", PEER, "bagz", "zstd", "bagz"),
    ("ArrayRecord", PEER, "array_record", "zstd", "array_record"),
    ("LMDB, zstandard", PEER, "lmdb", "zstd", "lmdb"),
    ("LMDB, zstandard, dictionary", PEER, "lmdb", "zstd-dictionary", "lmdb-dictionary"),
    ("Arrow IPC (batches)", PEER, "arrow", "zstd", "arrow"),
    ("Parquet (pages)", PEER, "parquet", "zstd", "parquet"),
    ("Lance", PEER, "lance", "zstd", "lance"),
    ("HDF5 (gzip)", PEER, "hdf5", "zstd", "hdf5"),
    ("Zarr (chunks)", PEER, "zarr", "zstd", "zarr"),
    ("memory copy, plain write", PLAIN, "plain", "none", "plain"),
];

/// Rows of numbers, all equally long.
pub const ROWS: &[Entry] = &[
    ("iatrocache, Rust, new memory", OURS, "iac-rows", "none", "iac"),
    ("iatrocache, Rust, memory used again", OURS, "iac-rows-out", "none", "iac"),
    ("iatrocache, Python", PYTHON, "iatrocache-rows", "none", "iac-python"),
    ("iatrocache, Python, out=", PYTHON, "iatrocache-rows-out", "none", "iac-python"),
    ("reference 0.1.4", PEER, "reference-rows", "none", "reference"),
    ("NumPy memmap", PEER, "memmap-rows", "none", "npy"),
    ("NumPy memmap, take(out=)", PEER, "memmap-rows-out", "none", "npy"),
    ("LMDB", PEER, "lmdb-rows", "none", "lmdb"),
    ("Arrow IPC", PEER, "arrow-rows", "none", "arrow"),
    ("Lance", PEER, "lance-rows", "none", "lance"),
    ("HDF5", PEER, "hdf5-rows", "none", "hdf5"),
    ("Zarr", PEER, "zarr-rows", "none", "zarr"),
    ("memory copy, plain write", PLAIN, "plain-rows", "none", "plain"),
];

/// Writing, beside what no format can beat.
pub const WRITERS: &[Entry] = &[
    ("iatrocache", OURS, "iac", "none", "iac"),
    ("copy of the finished file", PLAIN, "copy", "none", "copy"),
    ("plain write", PLAIN, "plain", "none", "plain"),
    ("iatrocache, synced", OURS, "iac-synced", "none", "iac-synced"),
    ("copy, synced", PLAIN, "copy-synced", "none", "copy-synced"),
    ("plain write, synced", PLAIN, "plain-synced", "none", "plain-synced"),
];

/// Formats that are opened.
pub const OPENED: &[Entry] = &[
    ("iatrocache, Rust", OURS, "iac", "none", "iac"),
    ("iatrocache, Python", PYTHON, "iatrocache", "none", "iac-python"),
    ("reference 0.1.4", PEER, "reference", "none", "reference"),
    ("Bagz", PEER, "bagz", "none", "bagz"),
    ("ArrayRecord", PEER, "array_record", "none", "array_record"),
    ("MosaicML Streaming (MDS)", PEER, "mds", "none", "mds"),
    ("LMDB", PEER, "lmdb", "none", "lmdb"),
    ("Arrow IPC", PEER, "arrow", "none", "arrow"),
    ("Parquet", PEER, "parquet", "none", "parquet"),
    ("Lance", PEER, "lance", "none", "lance"),
];

/// A side whose process runs.
struct Running {
    entry: Entry,
    peer: Peer,
    version: String,
    path: PathBuf,
    writes: bool,
    sequential_only: bool,
    seconds: BTreeMap<&'static str, Vec<Sample>>,
    facts: BTreeMap<&'static str, f64>,
}

impl Running {
    fn call(&mut self, op: &'static str, mut members: Value) -> Result<Value> {
        if let Value::Object(members) = &mut members {
            members.insert("op".into(), op.into());
        }
        self.peer.call(&members)
    }

    /// A measurement, shared out among the operations that the answer or `count` says.
    fn time(&mut self, name: &'static str, answer: &Value, per: f64) -> Result<()> {
        let (cpu, wall) = (number(answer, "cpu")? / per, number(answer, "wall")? / per);
        self.seconds.entry(name).or_default().push(Sample { cpu, wall });
        Ok(())
    }
}

/// Files that all sides share.
struct Inputs {
    records: PathBuf,
    lengths: PathBuf,
    rows: PathBuf,
    dictionary: PathBuf,
    count: u64,
    bytes: u64,
    dim: u64,
    /// Checksum of the first batch.
    sum: u64,
}

impl Field {
    /// Makes the files in `folder`, measures, and removes them.
    ///
    /// # Errors
    ///
    /// What our side or the system reports, or when a side reads other bytes than were written. A
    /// format of the field that fails is named in the table and left out.
    pub fn run(&self, folder: &Path, python: &Program) -> Result<Table> {
        let folder = &folder.join("field");
        std::fs::create_dir_all(folder)?;
        let inputs = self.inputs(folder)?;
        let mut notes = Vec::new();
        let mut sides = self.start(folder, &inputs, python, &mut notes)?;
        self.write(&mut sides, folder, &inputs, &mut notes)?;
        match self.task {
            Task::Write => {}
            Task::Read => self.read(&mut sides, &inputs, &mut notes)?,
            Task::Open => self.open(&mut sides, &inputs, &mut notes)?,
        }
        let rows = sides.into_iter().map(|side| Row {
            label: side.entry.0,
            who: side.entry.1,
            version: side.version,
            seconds: side.seconds,
            facts: side.facts,
        });
        let table = Table {
            title: format!("{}, {} records", self.title, inputs.count),
            rows: rows.collect(),
            bytes: inputs.bytes,
            count: inputs.count,
            goals: self.goals,
            notes,
        };
        std::fs::remove_dir_all(folder)?;
        Ok(table)
    }

    fn inputs(&self, folder: &Path) -> Result<Inputs> {
        let path = |name: &str| folder.join(name);
        let mut dim = 0;
        let records = match self.records {
            Records::Opaque(bytes, lengths) => {
                let mut random = Random::new(21);
                let lengths = sample::record_lengths(bytes, lengths, 20);
                let one = |length| {
                    let mut record = vec![0; usize::try_from(length)?];
                    random.fill(&mut record);
                    Ok(record)
                };
                lengths.into_iter().map(one).collect::<Result<Vec<_>>>()?
            }
            Records::Texts(count) => texts::notes(count, sample::NOTES, 22),
            Records::Halves(rows, width) => {
                dim = width;
                let mut random = Random::new(23);
                let one = |_| {
                    let mut record = vec![0; usize::try_from(width * 2)?];
                    random.fill(&mut record);
                    // No infinities and NaN, which have several forms.
                    record.iter_mut().skip(1).step_by(2).for_each(|high| *high &= 0xbf);
                    Ok(record)
                };
                (0..rows).map(one).collect::<Result<Vec<_>>>()?
            }
            Records::Tiny(count) => (0..count).map(|row| row.to_le_bytes().to_vec()).collect(),
        };
        let count = u64::try_from(records.len())?;
        let inputs = Inputs {
            records: path("records"),
            lengths: path("lengths"),
            rows: path("rows"),
            dictionary: path("dictionary"),
            count,
            bytes: u64::try_from(records.iter().map(Vec::len).sum::<usize>())?,
            dim,
            sum: 0,
        };
        std::fs::write(&inputs.records, records.concat())?;
        let lengths: Vec<u64> = records
            .iter()
            .map(|record| u64::try_from(record.len()))
            .collect::<std::result::Result<_, _>>()?;
        sample::save_batches(&inputs.lengths, &[lengths])?;
        let batches = sample::random_batches(count, self.batches * self.rounds, 24);
        sample::save_batches(&inputs.rows, &batches)?;
        if matches!(self.records, Records::Texts(_)) {
            let some = &records[..8192.min(records.len())];
            std::fs::write(&inputs.dictionary, train_dictionary(some, 16 << 10)?)?;
        }
        let mut sum = crc32fast::Hasher::new();
        for row in batches.iter().take(1).flatten() {
            sum.update(&records[usize::try_from(*row)?]);
        }
        Ok(Inputs { sum: u64::from(sum.finalize()), ..inputs })
    }

    fn start(
        &self,
        folder: &Path,
        inputs: &Inputs,
        python: &Program,
        notes: &mut Vec<String>,
    ) -> Result<Vec<Running>> {
        let mut sides: Vec<Running> = Vec::new();
        for entry in self.who {
            let (label, who, format, codec, file) = *entry;
            let program = if who.is_rust() { &Program::Ours } else { python };
            let mut peer = program.start()?;
            let command = json!({"op": "field_start", "format": format, "codec": codec,
                                 "dim": inputs.dim, "dictionary": inputs.dictionary});
            let answer = peer.call(&command)?;
            if let Some(why) = answer.get("missing").and_then(Value::as_str) {
                notes.push(format!("{label} is not here: {why}"));
                continue;
            }
            let path = folder.join(file);
            let writes = sides.iter().all(|side| side.path != path);
            let version = answer.get("version").and_then(Value::as_str).unwrap_or_default();
            sides.push(Running {
                entry: *entry,
                peer,
                version: version.to_owned(),
                path,
                writes,
                sequential_only: answer.get("sequential_only") == Some(&Value::Bool(true)),
                seconds: BTreeMap::new(),
                facts: BTreeMap::new(),
            });
        }
        Ok(sides)
    }

    fn write(
        &self,
        sides: &mut Vec<Running>,
        folder: &Path,
        inputs: &Inputs,
        notes: &mut Vec<String>,
    ) -> Result<()> {
        let load = json!({"records": inputs.records, "lengths": inputs.lengths});
        each(sides, notes, |side| {
            if side.writes {
                side.call("field_load", load.clone())?;
            }
            Ok(())
        })?;
        // The first round is for warming up.
        for round in 0..=self.rounds {
            each(sides, notes, |side| {
                if !side.writes {
                    return Ok(());
                }
                // What an earlier side left in the page cache must not be written in this one's time.
                Command::new("sync").status()?;
                let command = json!({"path": side.path, "source": folder.join("iac")});
                let answer = side.call("field_write", command)?;
                if round == 0 {
                    return Ok(());
                }
                side.time("write", &answer, 1.0)?;
                side.facts.insert("file", number(&answer, "file")?);
                side.facts.insert("write peak", number(&answer, "peak")?);
                Ok(())
            })?;
        }
        each(sides, notes, |side| side.call("field_unload", json!({})).map(drop))
    }

    fn read(
        &self,
        sides: &mut Vec<Running>,
        inputs: &Inputs,
        notes: &mut Vec<String>,
    ) -> Result<()> {
        let command = json!({"rows": inputs.rows, "lengths": inputs.lengths, "batch": BATCH_ROWS});
        each(sides, notes, |side| {
            let mut command = command.clone();
            command["path"] = json!(side.path);
            side.call("field_use", command)?;
            if side.sequential_only {
                return Ok(());
            }
            let answer = side.call("field_check", json!({"count": 1}))?;
            match answer.get("sum").and_then(Value::as_u64) == Some(inputs.sum) {
                true => Ok(()),
                false => Err("it does not give the records back".into()),
            }
        })?;
        for round in 0..self.rounds {
            let some = json!({"first": round * self.batches, "count": self.batches,
                              "limit": self.limit});
            for (op, name, records) in [
                ("field_batch", "batch", BATCH_ROWS),
                ("field_single", "single", 1),
                ("field_sequential", "sequential", 1),
            ] {
                each(sides, notes, |side| {
                    if side.sequential_only && name != "sequential" {
                        return Ok(());
                    }
                    let answer = side.call(op, some.clone())?;
                    let done = number(&answer, "done")? * records as f64;
                    side.time(name, &answer, done)
                })?;
            }
        }
        each(sides, notes, |side| {
            let answer = side.call("field_memory", json!({}))?;
            side.facts.insert("memory", number(&answer, "bytes")?);
            Ok(())
        })
    }

    fn open(
        &self,
        sides: &mut Vec<Running>,
        inputs: &Inputs,
        notes: &mut Vec<String>,
    ) -> Result<()> {
        for round in 0..=self.rounds {
            each(sides, notes, |side| {
                let command = json!({"path": side.path, "row": inputs.count / 3, "repeat": 50,
                                     "limit": self.limit});
                let answer = side.call("field_open", command)?;
                if round == 0 {
                    return Ok(());
                }
                side.time("open", &answer, number(&answer, "done")?)
            })?;
        }
        Ok(())
    }
}

/// One step of every side. Others than ours may fail, which ends their part.
fn each(
    sides: &mut Vec<Running>,
    notes: &mut Vec<String>,
    mut step: impl FnMut(&mut Running) -> Result<()>,
) -> Result<()> {
    let mut at = 0;
    while let Some(side) = sides.get_mut(at) {
        match step(side) {
            Ok(()) => at += 1,
            Err(error) if side.entry.1 == Who::Peer => {
                notes.push(format!("{} is left out: {error}", side.entry.0));
                sides.remove(at);
            }
            Err(error) => return Err(format!("{}: {error}", side.entry.0).into()),
        }
    }
    Ok(())
}
