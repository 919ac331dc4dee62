//! Importing slides: beside the reference, and beside decoding and encoding their tiles alone.

use std::hint::black_box;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use iac_adapters::wsi::{WsiImporter, WsiProfile};
use iac_codec::jpeg::JpegOptions;
use iac_codec::jxl::JxlOptions;
use iac_codec::{DecodeOptions, ImageShape, ImageView, SamplesRef};
use iac_ops::NoProgress;
use iac_writer::WriteOptions;
use serde_json::json;

use crate::Result;
use crate::clock::{Sample, measure};
use crate::peer::Program;
use crate::report::{Basis, Goal, Line, Section, Series};
use crate::sample;
use crate::slides::{TILE, encode, write_tiff};

/// Threads of an import, and of the codecs alone.
const TWO: NonZeroUsize = NonZeroUsize::MIN.saturating_add(1);
/// The loss of the profile that is compared with the codecs alone, and its effort.
const DISTANCE: f64 = 1.0;
const EFFORT: u8 = 3;

/// What is measured.
#[derive(Debug, Clone, Copy)]
pub struct SlideImports {
    /// Pixels of each side of the slide.
    pub edge: u32,
    /// Repetitions.
    pub rounds: usize,
}

fn importer(profile: WsiProfile) -> WsiImporter {
    WsiImporter::new("slide")
        .profile(profile)
        .effort(EFFORT)
        .workers(TWO)
        .overview(false)
        .options(sample::options())
}

/// Decodes tiles and encodes their pixels, on two threads.
fn codecs_alone(payloads: &[Vec<u8>], tiles: usize) -> Result<()> {
    let jpeg = JpegOptions::default().codec()?;
    let jxl = JxlOptions::lossy(1.0).with_effort(EFFORT).codec()?;
    let shape = ImageShape::new(TILE, TILE, 3)?;
    let next = AtomicUsize::new(0);
    let work = || -> std::result::Result<(), iac_codec::CodecError> {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(payload) = payloads.get(number % payloads.len()).filter(|_| number < tiles)
            else {
                return Ok(());
            };
            let image = jpeg.decode_image(payload, &DecodeOptions::default())?;
            if let SamplesRef::U8(pixels) = image.samples() {
                black_box(jxl.encode_image(&ImageView::new(shape, pixels)?)?);
            }
        }
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(work);
        work()?;
        other.join().map_err(|_| iac_codec::CodecError::decode("jxl", "a thread has ended"))?
    })?;
    Ok(())
}

impl SlideImports {
    /// Makes slides in `folder`, imports them, and removes everything.
    ///
    /// # Errors
    ///
    /// What a codec, the importer, the system or the reference reports.
    pub fn run(&self, folder: &Path, reference: Option<&Program>) -> Result<Vec<Section>> {
        // Below a bit for each pixel tiles are passed through.
        let (dense, light) = (folder.join("dense.tif"), folder.join("light.tif"));
        let payloads = encode(&JpegOptions::default().with_quality(85).codec()?)?;
        write_tiff(&dense, self.edge, &payloads)?;
        write_tiff(&light, self.edge, &encode(&JpegOptions::default().with_quality(20).codec()?)?)?;
        let across = usize::try_from(self.edge.div_ceil(TILE))?;
        let pack = folder.join("import.pat.iac");
        let mut series = Series::default();
        for _ in 0..self.rounds {
            for (ours, theirs, source, profile) in [
                ("pass", "pass reference", &light, WsiProfile::Auto),
                ("auto", "auto reference", &dense, WsiProfile::Auto),
                ("loss", "loss reference", &dense, WsiProfile::Distance(DISTANCE)),
                ("transcode", "", &dense, WsiProfile::Transcode),
            ] {
                sample::warm(source)?;
                let write: WriteOptions = sample::options();
                let importer = importer(profile).options(write.overwrite(true));
                let (_, time) = measure(|| Ok(importer.import(source, &pack, &NoProgress)?))?;
                series.add(ours, time);
                if let Some(program) = reference.filter(|_| !theirs.is_empty()) {
                    std::fs::remove_file(&pack)?;
                    let mut arguments = json!({"slide_id": "slide", "effort": EFFORT});
                    if let (WsiProfile::Distance(distance), Some(members)) =
                        (profile, arguments.as_object_mut())
                    {
                        members.insert("distance".to_owned(), distance.into());
                    }
                    let command = json!({
                        "op": "import_slide",
                        "source": source,
                        "pack": pack,
                        "arguments": arguments,
                    });
                    series.add(theirs, program.start()?.sample(&command)?);
                }
                std::fs::remove_file(&pack)?;
            }
            let (_, time): (_, Sample) =
                measure(|| codecs_alone(&payloads, across.saturating_mul(across)))?;
            series.add("codecs", time);
        }
        std::fs::remove_file(dense)?;
        std::fs::remove_file(light)?;
        let line = |what, ours, reference, plain, goal| Line {
            what,
            ours,
            reference,
            plain,
            basis: Basis::Wall,
            goal,
        };
        let three = Some(Goal::TimesReference(3.0));
        let lines = vec![
            line("tiles passed through", "pass", Some("pass reference"), None, three),
            line("automatic profile", "auto", Some("auto reference"), None, three),
            line(
                "JPEG XL, distance 1, effort 3, beside its codecs alone",
                "loss",
                None,
                Some("codecs"),
                Some(Goal::TimesPlain(1.1)),
            ),
            line(
                "  beside the reference",
                "loss",
                Some("loss reference"),
                None,
                Some(Goal::TimesReference(1.0)),
            ),
            line("JPEG as JPEG XL without loss", "transcode", None, None, None),
        ];
        Ok(vec![Section {
            title: format!(
                "importing a slide of {0} x {0} pixels, JPEG tiles of {TILE}, 2 workers (wall)",
                self.edge
            ),
            unit: ("s", 1.0),
            series,
            lines,
            facts: Vec::new(),
        }])
    }
}
