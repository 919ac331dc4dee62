//! Image codecs on one thread and on two, beside the library alone and beside imagecodecs.
//!
//! One module per codec says what is measured ([`Subject`]); what is done with it stands here.

pub mod jpeg;
pub mod jpeg2000;
pub mod jpegls;
pub mod jxl;

use std::hint::black_box;
use std::io::BufReader;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use iac_codec::{Codec, DecodeOptions, Image, ImageShape, SamplesMut, Scale};
use serde_json::{Value, json};

use crate::Result;
use crate::clock::measure;
use crate::peer::{Peer, Program};
use crate::report::{Basis, Fact, Goal, Line, Section, Series};

/// Images of a batch.
const BATCH: usize = 64;
const ONE: NonZeroUsize = NonZeroUsize::MIN;
const TWO: NonZeroUsize = NonZeroUsize::MIN.saturating_add(1);

/// The library's own calls, with its memory at hand as a program that uses it would have it.
pub trait Bare {
    /// Encodes the image, and gives how many bytes came out.
    ///
    /// # Errors
    ///
    /// What the library reports.
    fn encode(&mut self) -> Result<usize>;

    /// Decodes a payload into a place for one image.
    ///
    /// # Errors
    ///
    /// What the library reports.
    fn decode(&mut self, payload: &[u8], out: SamplesMut<'_>) -> Result<()>;
}

/// One image and one way to store it.
pub struct Subject {
    /// What people read: `RGB, quality 90`.
    pub name: String,
    /// The codec.
    pub codec: Codec,
    /// The image.
    pub image: Image,
    /// The same calls of the library.
    pub bare: Box<dyn Bare>,
    /// The functions of imagecodecs: `{"encode": name, "decode": name, "arguments": {..}}`.
    pub peer: Option<Value>,
    /// The scales whose decoding is measured.
    pub scales: Vec<Scale>,
}

/// What is measured.
#[derive(Debug, Clone, Copy)]
pub struct Images {
    /// Heading.
    pub title: &'static str,
    /// Makes the subjects.
    pub subjects: fn() -> Result<Vec<Subject>>,
    /// Images per round and way.
    pub images: u32,
    /// Repetitions.
    pub rounds: usize,
}

/// Names of the series of one subject. They live as long as the program, which makes few.
struct Names {
    of: String,
}

impl Names {
    fn series(&self, what: &str) -> &'static str {
        Box::leak(format!("{}: {what}", self.of).into_boxed_str())
    }
}

impl Images {
    /// Measures all subjects.
    ///
    /// # Errors
    ///
    /// What a codec or the system reports, or when the sides decode different samples.
    pub fn run(&self, folder: &Path, reference: Option<&Program>) -> Result<Section> {
        let mut series = Series::default();
        let (mut lines, mut facts) = (Vec::new(), Vec::new());
        for mut subject in (self.subjects)()? {
            let mut peer = reference.map(Program::start).transpose()?;
            self.measure(folder, &mut subject, peer.as_mut(), (&mut series, &mut lines))?;
            let payload = subject.codec.encode_image(&subject.image.as_view())?;
            let reference = match &mut peer {
                Some(peer) if subject.peer.is_some() => {
                    Some(crate::peer::number(&peer.call(&json!({"op": "image_bytes"}))?, "bytes")?)
                }
                _ => None,
            };
            facts.push(Fact {
                what: Box::leak(format!("{}, encoded", subject.name).into_boxed_str()),
                unit: "bytes",
                ours: payload.len() as f64,
                reference,
                at_most: None,
            });
        }
        let title = format!("{}, {} images a round", self.title, self.images);
        Ok(Section { title, unit: ("us/image", 1e-6), series, lines, facts })
    }

    fn measure(
        &self,
        folder: &Path,
        subject: &mut Subject,
        mut peer: Option<&mut Peer>,
        (series, lines): (&mut Series, &mut Vec<Line>),
    ) -> Result<()> {
        let names = Names { of: subject.name.clone() };
        let (codec, image) = (subject.codec.clone(), subject.image.clone());
        let shape = image.shape();
        let payload = codec.encode_image(&image.as_view())?;
        let options = DecodeOptions::default();
        let decoded = codec.decode_image(&payload, &options)?;
        let mut place = decoded.clone();
        subject.bare.decode(&payload, place.as_view_mut().samples_mut())?;
        if place != decoded {
            return Err(format!("{}: the library alone decodes other samples", names.of).into());
        }
        let with_peer = match (&mut peer, &subject.peer) {
            (Some(peer), Some(functions)) => {
                self.open(folder, peer, functions, &image, &payload)?;
                true
            }
            _ => false,
        };
        let way = |what: &str| names.series(what);
        let (encode, bare_encode, peer_encode) =
            (way("encode"), way("bare encode"), way("imagecodecs encode"));
        let (decode, bare_decode, peer_decode) =
            (way("decode"), way("bare decode"), way("imagecodecs decode"));
        let (fresh, one, two, bare_batch) =
            (way("decode, new image"), way("batch"), way("batch on two"), way("bare batch"));
        let scaled: Vec<_> = subject
            .scales
            .iter()
            .map(|scale| (*scale, way(&format!("decode at {scale}"))))
            .collect();
        let mut small = Vec::new();
        for (scale, _) in &scaled {
            small.push(codec.decode_image(&payload, &options.with_scale(*scale))?);
        }
        let payloads = vec![payload.clone(); BATCH];
        let mut batch = Batch::new(&decoded)?;
        let count = u64::from(self.images);
        for _ in 0..self.rounds {
            let times = 0..self.images;
            let mut add = |name, count, work: &mut dyn FnMut() -> Result<()>| -> Result<()> {
                series.add(name, measure(work)?.1.per(count));
                Ok(())
            };
            add(encode, count, &mut || {
                for _ in times.clone() {
                    black_box(codec.encode_image(&image.as_view())?);
                }
                Ok(())
            })?;
            add(bare_encode, count, &mut || {
                for _ in times.clone() {
                    black_box(subject.bare.encode()?);
                }
                Ok(())
            })?;
            add(decode, count, &mut || {
                for _ in times.clone() {
                    codec.decode_image_into(&payload, &mut place.as_view_mut(), &options)?;
                }
                Ok(())
            })?;
            add(bare_decode, count, &mut || {
                for _ in times.clone() {
                    subject.bare.decode(&payload, place.as_view_mut().samples_mut())?;
                }
                Ok(())
            })?;
            add(fresh, count, &mut || {
                for _ in times.clone() {
                    black_box(codec.decode_image(&payload, &options)?);
                }
                Ok(())
            })?;
            for ((scale, name), small) in scaled.iter().zip(&mut small) {
                let options = options.with_scale(*scale);
                add(name, count, &mut || {
                    for _ in times.clone() {
                        codec.decode_image_into(&payload, &mut small.as_view_mut(), &options)?;
                    }
                    Ok(())
                })?;
            }
            let all = u64::try_from(BATCH)?;
            for (name, workers) in [(one, ONE), (two, TWO)] {
                add(name, all, &mut || {
                    let out = batch.samples();
                    Ok(codec.decode_images_into(&payloads, shape, out, &options, workers)?)
                })?;
            }
            add(bare_batch, all, &mut || {
                for (payload, place) in payloads.iter().zip(batch.places(shape)) {
                    subject.bare.decode(payload, place)?;
                }
                Ok(())
            })?;
            if let (true, Some(peer)) = (with_peer, &mut peer) {
                for (name, op) in [(peer_encode, "image_encode"), (peer_decode, "image_decode")] {
                    let command = json!({"op": op, "count": self.images});
                    series.add(name, peer.sample(&command)?.per(count));
                }
            }
        }
        let what = |what: &str| -> &'static str {
            Box::leak(format!("{}: {what}", names.of).into_boxed_str())
        };
        let reference = |name| if with_peer { Some(name) } else { None };
        let line = |what, ours, reference, plain, goal| Line {
            what,
            ours,
            reference,
            plain: Some(plain),
            basis: Basis::Cpu,
            goal,
        };
        let five_percent = Some(Goal::TimesPlain(1.05));
        lines.push(line(what("encode"), encode, reference(peer_encode), bare_encode, five_percent));
        lines.push(line(what("decode"), decode, reference(peer_decode), bare_decode, five_percent));
        lines.push(line(
            what("  into a new image"),
            fresh,
            reference(peer_decode),
            bare_decode,
            None,
        ));
        for (scale, name) in &scaled {
            lines.push(line(what(&format!("  at {scale} beside full")), name, None, decode, None));
        }
        let part = Some(Goal::PartOfPlain(0.95));
        lines.push(line(what("  64 into one buffer"), one, None, bare_batch, part));
        // Two workers beside one: nobody can beat half of it.
        lines.push(Line {
            basis: Basis::Wall,
            ..line(
                what("  the same, 2 workers beside 1 (wall)"),
                two,
                None,
                one,
                Some(Goal::PartOfPlain(1.85)),
            )
        });
        Ok(())
    }

    /// Hands image and payload to imagecodecs.
    fn open(
        &self,
        folder: &Path,
        peer: &mut Peer,
        functions: &Value,
        image: &Image,
        payload: &[u8],
    ) -> Result<()> {
        let (pixels, encoded) = (folder.join("image.pixels"), folder.join("image.payload"));
        std::fs::write(&pixels, image.samples().to_le_bytes())?;
        std::fs::write(&encoded, payload)?;
        let command = json!({
            "op": "use_image",
            "pixels": pixels,
            "payload": encoded,
            "shape": image.shape().dimensions(),
            "dtype": image.sample_type().name(),
            "functions": functions,
        });
        peer.call(&command)?;
        std::fs::remove_file(&pixels)?;
        std::fs::remove_file(&encoded)?;
        Ok(())
    }
}

/// Room for a batch of equal images.
enum Batch {
    U8(Vec<u8>),
    U16(Vec<u16>),
}

impl Batch {
    fn new(image: &Image) -> Result<Self> {
        let count = image.shape().samples() * BATCH;
        // Written once, so that its pages are there.
        match image.sample_type() {
            iac_codec::SampleType::U8 => Ok(Self::U8(vec![1; count])),
            iac_codec::SampleType::U16 => Ok(Self::U16(vec![1; count])),
            other => Err(format!("no batch of type {other}").into()),
        }
    }

    fn samples(&mut self) -> SamplesMut<'_> {
        match self {
            Self::U8(samples) => SamplesMut::U8(samples),
            Self::U16(samples) => SamplesMut::U16(samples),
        }
    }

    fn places(&mut self, shape: ImageShape) -> Vec<SamplesMut<'_>> {
        let size = shape.samples();
        match self {
            Self::U8(samples) => samples.chunks_mut(size).map(SamplesMut::U8).collect(),
            Self::U16(samples) => samples.chunks_mut(size).map(SamplesMut::U16).collect(),
        }
    }
}

/// A tile of 512 x 512 RGB: a section of tissue from the public files that `IAC_CORPUS` names,
/// else one that is made up.
///
/// # Errors
///
/// When the file cannot be read.
pub fn tissue() -> Result<Image> {
    let shape = ImageShape::new(512, 512, 3)?;
    let Some(corpus) = std::env::var_os("IAC_CORPUS") else {
        let pixels =
            pattern(shape).into_iter().map(|sample| u8::try_from(sample >> 4).unwrap_or(u8::MAX));
        return Ok(Image::new(shape, pixels.collect::<Vec<u8>>())?);
    };
    let path = PathBuf::from(corpus).join("histology/skimage_ihc.png");
    let mut reader = png::Decoder::new(BufReader::new(std::fs::File::open(path)?)).read_info()?;
    let mut pixels = vec![0; reader.output_buffer_size().ok_or("the image is too large")?];
    reader.next_frame(&mut pixels)?;
    Ok(Image::new(shape, pixels)?)
}

/// A slice of 512 x 512 with 12 bits of 16, like one of CT.
///
/// # Errors
///
/// None that can happen.
pub fn slice() -> Result<Image> {
    let shape = ImageShape::new(512, 512, 1)?;
    Ok(Image::new(shape, pattern(shape))?)
}

/// Waves with noise, of 12 bits.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "waves of 300 to 3,700 with noise below 96"
)]
fn pattern(shape: ImageShape) -> Vec<u16> {
    let (width, channels) = (shape.width() as usize, shape.channels() as usize);
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    (0..shape.samples())
        .map(|at| {
            let (x, y, c) = (at / channels % width, at / channels / width, at % channels);
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let wave = (x as f64 / 31.0 + c as f64).sin() * (y as f64 / 17.0).cos();
            let noise = (state >> 40) % 96;
            (wave.mul_add(1700.0, 2000.0) as u16).saturating_add(noise as u16)
        })
        .collect()
}
