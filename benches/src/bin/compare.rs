//! Measures the reference packages and this workspace on the same bytes in one run, in turns, and
//! prints what each takes, the ratios, and which targets are reached.
#![allow(
    clippy::print_stdout,
    clippy::arithmetic_side_effects,
    reason = "a program that reports, and reckons with numbers of its own"
)]

use std::path::PathBuf;

use clap::Parser;
use iac_benches::clinical::Clinical;
use iac_benches::codecs::Codecs;
use iac_benches::dicom::Dicom;
use iac_benches::features::Features;
use iac_benches::field::{self, Field, Records};
use iac_benches::fixed::Fixed;
use iac_benches::frames::Frames;
use iac_benches::images::{self, Images};
use iac_benches::objects::Objects;
use iac_benches::opens::Opens;
use iac_benches::peer::Program;
use iac_benches::reads::Reads;
use iac_benches::report::{Goal, Section, to_json};
use iac_benches::slide_import::SlideImports;
use iac_benches::slides::Slides;
use iac_benches::tiles::Tiles;
use iac_benches::tiles_build::TilesBuild;
use iac_benches::volume::Volumes;
use iac_benches::writes::Writes;
use iac_benches::{Result, process, sample, serve};
use serde_json::json;

/// The reference packages and this workspace on the same bytes, beside the plain limit
///
/// Every figure is the median of several rounds, in which the sides take turns; `least` is the
/// smallest of them. Times are processor time, user and system, unless a line says wall.
#[derive(Debug, Parser)]
#[command(name = "compare")]
struct Arguments {
    /// Small packs and few rounds: shows that the program works, not how fast anything is
    #[arg(long)]
    quick: bool,
    /// Repetitions of each measurement (five at least for figures that are quoted)
    #[arg(long)]
    rounds: Option<usize>,
    /// Sections to measure: all but those of the field, if none is named
    #[arg(long, value_delimiter = ',', value_parser = SECTIONS)]
    only: Vec<String>,
    /// Folder for the packs (about 5 GiB while it runs); default: the system's temporary folder
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Where the figures go as JSON
    #[arg(long)]
    json: Option<PathBuf>,
    /// Python with the reference packages; default: the private environment, made on first use
    #[arg(long)]
    python: Option<PathBuf>,
    /// Measure without the reference
    #[arg(long)]
    no_reference: bool,
    /// Answer commands on standard input instead
    #[arg(long, hide = true)]
    serve: bool,
}

const SECTIONS: [&str; 28] = [
    "reads-1k",
    "reads-4-60k",
    "open-200k",
    "open-10m",
    "write",
    "codecs",
    "fixed",
    "jpeg",
    "jxl",
    "jpeg2000",
    "jpegls",
    "text",
    "tiles",
    "tiles-lookup",
    "tiles-build",
    "features",
    "dicom",
    "volume",
    "frames",
    "object-store",
    "wsi",
    "wsi-import",
    "field-4-60k",
    "field-1k",
    "field-text",
    "field-f16",
    "field-open",
    "field-write",
];

enum Task {
    Reads(Reads),
    Opens(Opens),
    Writes(Writes),
    Codecs([Codecs; 2]),
    Fixed(Fixed),
    Images(Images),
    Clinical(Clinical),
    Tiles(Tiles),
    TilesLookup(Tiles),
    TilesBuild(TilesBuild),
    Features(Features),
    Dicom(Dicom),
    Volumes(Volumes),
    Frames(Frames),
    Objects(Objects),
    Slides(Slides),
    SlideImports(SlideImports),
    Field(Field),
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    if arguments.serve {
        return serve::serve(std::io::stdin().lock(), std::io::stdout().lock());
    }
    // The formats of the field have an environment of their own, with the reference in it.
    let field_alone =
        !arguments.only.is_empty() && arguments.only.iter().all(|only| only.starts_with("field-"));
    let reference = if arguments.no_reference || field_alone {
        None
    } else {
        Some(Program::reference(arguments.python.as_deref())?)
    };
    let rounds = arguments.rounds.unwrap_or(if arguments.quick { 2 } else { 7 }).max(1);
    let (_folder, folder) = sample::scratch(arguments.dir.as_deref())?;
    let machine = process::machine();
    println!("machine: {machine}");
    let mut sections: Vec<Section> = Vec::new();
    let mut tables: Vec<field::Table> = Vec::new();
    for (name, task) in SECTIONS.iter().zip(tasks(arguments.quick, rounds)) {
        let wanted = arguments.only.iter().any(|only| only == name);
        // The field has an environment of its own, which is large: by name only.
        if !wanted && (!arguments.only.is_empty() || name.starts_with("field-")) {
            continue;
        }
        let (folder, reference) = (&folder, reference.as_ref());
        let measured = match task {
            Task::Reads(reads) => vec![reads.run(folder, reference)?],
            Task::Opens(opens) => vec![opens.run(folder, reference)?],
            Task::Writes(writes) => vec![writes.run(folder, reference)?],
            Task::Codecs([notes, long]) => {
                vec![notes.run(folder, reference)?, long.run(folder, reference)?]
            }
            Task::Fixed(fixed) => vec![fixed.run(folder, reference)?],
            Task::Images(images) => vec![images.run(folder, reference)?],
            Task::Clinical(clinical) => vec![clinical.run(folder, reference)?],
            Task::Tiles(tiles) => vec![tiles.batches(folder, reference)?],
            Task::TilesLookup(tiles) => vec![tiles.lookup(folder, reference)?],
            Task::TilesBuild(build) => build.run(folder)?,
            Task::Features(features) => vec![features.run(folder, reference)?],
            Task::Dicom(dicom) => dicom.run(folder, reference)?,
            Task::Volumes(volumes) => vec![volumes.run(folder, reference)?],
            Task::Frames(frames) => frames.run(folder, reference)?,
            Task::Objects(objects) => objects.run(folder)?,
            Task::Slides(slides) => slides.run(folder, reference)?,
            Task::SlideImports(imports) => imports.run(folder, reference)?,
            Task::Field(field) => {
                let table = field.run(folder, &Program::field()?)?;
                println!("{table}");
                tables.push(table);
                Vec::new()
            }
        };
        for section in measured {
            println!("{section}");
            sections.push(section);
        }
    }
    if arguments.quick {
        println!("A quick run: the packs are too small for these figures to mean anything.");
    }
    let load_at_end = process::load();
    println!("load at the end: {load_at_end}");
    if let Some(path) = &arguments.json {
        let settings =
            json!({"quick": arguments.quick, "rounds": rounds, "load_at_end": load_at_end});
        let text = format!("{:#}\n", to_json(&machine, &settings, &sections, &tables));
        std::fs::write(path, text)?;
    }
    Ok(())
}

/// What is measured, in the order of [`SECTIONS`].
fn tasks(quick: bool, rounds: usize) -> [Task; 28] {
    let part = if quick { 16 } else { 1 };
    let kilobyte = Reads {
        title: "random batches of 256, records of 900 to 1,100 bytes",
        pack_bytes: (1 << 30) / part,
        lengths: sample::KILOBYTE,
        seed: 1,
        batches: if quick { 40 } else { 400 },
        rounds,
        owned: 1.8,
        owned_on_two: None,
        contiguous: Goal::TimesReference(3.5),
    };
    let tiles = Reads {
        title: "random batches of 256, records of 4 to 60 KiB",
        lengths: sample::TILES,
        seed: 2,
        batches: if quick { 8 } else { 48 },
        owned: 1.3,
        owned_on_two: Some(2.0),
        contiguous: Goal::PartOfPlain(0.95),
        ..kilobyte
    };
    let small = Opens {
        rows: 200_000 / part,
        rounds,
        ours: 100,
        reference: 5,
        times: 25.0,
        resident: None,
    };
    let large = Opens {
        rows: 10_000_000 / part,
        ours: 20,
        reference: 1,
        times: 20.0,
        resident: Some(32.0),
        ..small
    };
    let write = Writes { record: 65_536, count: (1 << 31) / part / 65_536, rounds };
    let notes = Codecs {
        title: "codecs, random batches of 256, texts of 200 to 2,000 bytes",
        records: if quick { 4000 } else { 60_000 },
        lengths: sample::NOTES,
        seed: 3,
        batches: if quick { 10 } else { 200 },
        rounds,
        dictionary: true,
        zstd: 1.6,
        brotli: 1.8,
    };
    let long = Codecs {
        title: "codecs, random batches of 256, texts of 64 KiB",
        records: if quick { 100 } else { 1000 },
        lengths: sample::LONG,
        seed: 4,
        batches: if quick { 1 } else { 8 },
        dictionary: false,
        zstd: 1.3,
        ..notes
    };
    let fixed = Fixed {
        rows: if quick { 12_500 } else { 200_000 },
        dim: 1024,
        batches: if quick { 40 } else { 400 },
        rounds,
        times: 1.8,
    };
    let jpeg = Images {
        title: "JPEG, 512 x 512",
        subjects: images::jpeg::subjects,
        images: if quick { 4 } else { 40 },
        rounds: if quick { rounds } else { rounds.max(15) },
    };
    let jxl = Images {
        title: "JPEG XL, 512 x 512",
        subjects: images::jxl::subjects,
        images: if quick { 2 } else { 20 },
        rounds: if quick { rounds } else { rounds.max(15) },
    };
    let jpeg2000 = Images {
        title: "JPEG 2000, 512 x 512",
        subjects: images::jpeg2000::subjects,
        images: if quick { 2 } else { 10 },
        rounds: if quick { rounds } else { rounds.max(15) },
    };
    let jpegls = Images {
        title: "JPEG-LS, 512 x 512",
        subjects: images::jpegls::subjects,
        images: if quick { 4 } else { 40 },
        rounds: if quick { rounds } else { rounds.max(15) },
    };
    let clinical = Clinical {
        patients: if quick { 40 } else { 1000 },
        batches: if quick { 1 } else { 4 },
        built: if quick { 40 } else { 400 },
        memory_bytes: (1 << 30) / part,
        rounds,
    };
    let image_tiles = Tiles {
        tiles: if quick { 64 } else { 2000 },
        rows: if quick { 20_000 } else { 1_000_000 },
        rounds,
    };
    let tiles_build = TilesBuild {
        tiles: if quick { 16 } else { 64 },
        efforts: if quick { 3 } else { 7 },
        rounds: rounds.min(5),
    };
    let features = Features {
        rows: if quick { 5000 } else { 100_000 },
        dim: 1024,
        batches: if quick { 10 } else { 200 },
        rounds,
        times: 5.0,
    };
    let dicom = Dicom {
        slices: if quick { 12 } else { 300 },
        instances: if quick { 500 } else { 5000 },
        batches: if quick { 1 } else { 10 },
        efforts: if quick { 3 } else { 9 },
        rounds,
    };
    let volumes = Volumes { slices: if quick { 12 } else { 300 }, rounds };
    let frames = Frames {
        frames: if quick { 20 } else { 1000 },
        reads: if quick { 5 } else { 40 },
        slices: if quick { 12 } else { 300 },
        rounds,
    };
    let objects = Objects {
        records: if quick { 600 } else { 6000 },
        batches: if quick { 2 } else { 10 },
        tiles: if quick { 32 } else { 640 },
        rounds,
    };
    let slides = Slides {
        edge: if quick { 4096 } else { 20_000 },
        region: if quick { 128 } else { 512 },
        tiles: if quick { 1500 } else { 15_000 },
        rounds: rounds.min(3),
    };
    let imports = SlideImports { edge: if quick { 2048 } else { 8192 }, rounds: rounds.min(3) };
    let opaque = Field {
        title: "the field, records of 4 to 60 KiB",
        records: Records::Opaque((1 << 29) / part, sample::TILES),
        task: field::Task::Read,
        who: field::RAW,
        goals: field::Goal::RAW,
        batches: if quick { 4 } else { 24 },
        rounds: rounds.min(5),
        limit: if quick { 0.1 } else { 0.5 },
    };
    let kilobytes = Field {
        title: "the field, records of 900 to 1,100 bytes",
        records: Records::Opaque((1 << 28) / part, sample::KILOBYTE),
        batches: if quick { 20 } else { 200 },
        ..opaque
    };
    let texts = Field {
        title: "the field, texts of 200 to 2,000 bytes, zstd 3",
        records: Records::Texts(if quick { 4000 } else { 60_000 }),
        who: field::TEXTS,
        goals: field::Goal::TEXTS,
        batches: if quick { 10 } else { 200 },
        ..opaque
    };
    let halves = Field {
        title: "the field, rows of 1,024 x float16",
        records: Records::Halves(if quick { 12_500 } else { 200_000 }, 1024),
        who: field::ROWS,
        goals: field::Goal::ROWS,
        batches: if quick { 40 } else { 400 },
        ..opaque
    };
    let opened = Field {
        title: "the field, opened",
        records: Records::Tiny(200_000 / part),
        task: field::Task::Open,
        who: field::OPENED,
        goals: field::Goal::OPENED,
        ..opaque
    };
    let written = Field {
        title: "written with syncing and without, beside plain writing",
        records: Records::Opaque((1 << 30) / part, sample::TILES),
        task: field::Task::Write,
        who: field::WRITERS,
        goals: field::Goal::WRITERS,
        rounds,
        ..opaque
    };
    [
        Task::Reads(kilobyte),
        Task::Reads(tiles),
        Task::Opens(small),
        Task::Opens(large),
        Task::Writes(write),
        Task::Codecs([notes, long]),
        Task::Fixed(fixed),
        Task::Images(jpeg),
        Task::Images(jxl),
        Task::Images(jpeg2000),
        Task::Images(jpegls),
        Task::Clinical(clinical),
        Task::Tiles(image_tiles),
        Task::TilesLookup(image_tiles),
        Task::TilesBuild(tiles_build),
        Task::Features(features),
        Task::Dicom(dicom),
        Task::Volumes(volumes),
        Task::Frames(frames),
        Task::Objects(objects),
        Task::Slides(slides),
        Task::SlideImports(imports),
        Task::Field(opaque),
        Task::Field(kilobytes),
        Task::Field(texts),
        Task::Field(halves),
        Task::Field(opened),
        Task::Field(written),
    ]
}
