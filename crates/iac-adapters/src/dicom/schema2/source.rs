//! Where the bytes of frames come from, and which of them belong to which frame.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use dicom_core::{Tag, VR};
use iac_format::ErrorKind;

use super::filter;
use super::form::{DOUBLE_PIXELS, FLOAT_PIXELS, FrameForm, PIXEL_ELEMENTS};
use crate::dicom::fault::{Fault, Result};
use crate::dicom::number;
use crate::dicom::object::{DataSet, ElementValue};
use crate::dicom::pixels::{Coded, FRAMES};

const EXTENDED_OFFSETS: Tag = Tag(0x7FE0, 0x0001);
const EXTENDED_LENGTHS: Tag = Tag(0x7FE0, 0x0002);
const PER_FRAME: Tag = Tag(0x5200, 0x9230);

/// Bytes of pixel data: native as one piece, or fragments without their offset table.
#[derive(Debug)]
pub(crate) struct PixelSource {
    file: Option<Mutex<File>>,
    pieces: Vec<Piece>,
    /// Offsets of the basic offset table.
    offsets: Vec<u64>,
    pub(crate) native: bool,
    pub(crate) element: Tag,
    /// Whether numbers were turned as words of 16 bits where a file was big endian.
    pub(crate) of_words: bool,
}

#[derive(Debug, Clone)]
enum Piece {
    Memory(Bytes),
    /// Offset and length in the file.
    Span(u64, u64),
}

impl Piece {
    fn len(&self) -> u64 {
        match self {
            Self::Memory(bytes) => u64::try_from(bytes.len()).unwrap_or(u64::MAX),
            Self::Span(_, length) => *length,
        }
    }
}

/// Numbers of an offset table; nothing when it cannot be one.
fn table_of(bytes: &[u8]) -> Option<Vec<u64>> {
    let (words, rest) = bytes.as_chunks::<4>();
    rest.is_empty().then(|| words.iter().map(|it| u32::from_le_bytes(*it).into()).collect())
}

/// Whether a fragment begins like a stream of a codec, which no offset table does.
fn begins_a_stream(bytes: &[u8]) -> bool {
    const STARTS: [&[u8]; 5] = [
        &[0xFF, 0xD8, 0xFF],
        &[0xFF, 0x4F, 0xFF, 0x51],
        &[0xFF, 0x0A],
        b"\x00\x00\x00\x0CJXL ",
        b"\x00\x00\x00\x0CjP  ",
    ];
    // Run lengths have a header: at most 15 segments, of which the first one lies behind it.
    let run_lengths = bytes.first_chunk::<8>().is_some_and(|[count, rest @ ..]| {
        (1..=15).contains(count) && *rest == [0, 0, 0, 64, 0, 0, 0]
    });
    run_lengths || STARTS.iter().any(|start| bytes.starts_with(start))
}

impl PixelSource {
    /// Takes the pixel data out of an object that was read whole; nothing when there is none.
    pub(crate) fn take(data: &mut DataSet) -> Result<Option<Self>> {
        let found: Vec<Tag> =
            PIXEL_ELEMENTS.into_iter().filter(|tag| data.get(*tag).is_some()).collect();
        let [element] = found.as_slice() else {
            if let [first, ..] = found.as_slice() {
                return Err(Fault::schema(*first, "there is pixel data of several kinds"));
            }
            return Ok(None);
        };
        let element = *element;
        let removed = data.remove(element);
        let of_words = removed.as_ref().is_some_and(|element| element.vr == VR::OW);
        match removed.map(|element| element.value) {
            Some(ElementValue::Bytes(bytes)) => Ok(Some(Self {
                file: None,
                pieces: vec![Piece::Memory(bytes)],
                offsets: Vec::new(),
                native: true,
                element,
                of_words,
            })),
            Some(ElementValue::Fragments(fragments)) => {
                let mut fragments = fragments.into_iter().peekable();
                let first = fragments.peek().cloned().unwrap_or_default();
                let mut offsets = Vec::new();
                // Some writers leave the offset table out.
                if !begins_a_stream(&first) {
                    offsets = table_of(&first).unwrap_or_default();
                    fragments.next();
                }
                let pieces = fragments.map(Piece::Memory).collect();
                Ok(Some(Self { file: None, pieces, offsets, native: false, element, of_words }))
            }
            _ => Err(Fault::schema(element, "holds no bytes")),
        }
    }

    /// Pixel data that stays in its file: spans of native samples or of fragments, where the first
    /// one of several is the offset table.
    pub(crate) fn of_file(
        file: File,
        spans: Vec<(u64, u64)>,
        native: bool,
        element: Tag,
    ) -> Result<Self> {
        let mut source = Self {
            file: Some(Mutex::new(file)),
            pieces: spans.into_iter().map(|(start, length)| Piece::Span(start, length)).collect(),
            offsets: Vec::new(),
            native,
            element,
            of_words: false,
        };
        if !native && let Some(first) = source.pieces.first() {
            let length = first.len();
            let start = source.read(0, 0, length.min(16))?;
            if !begins_a_stream(&start) {
                source.offsets = table_of(&source.read(0, 0, length)?).unwrap_or_default();
                source.pieces.remove(0);
            }
        }
        Ok(source)
    }

    /// Bytes of a piece.
    fn read(&self, piece: usize, start: u64, length: u64) -> Result<Bytes> {
        let short = || Fault::schema(self.element, "is cut");
        match self.pieces.get(piece).ok_or_else(short)? {
            Piece::Memory(bytes) => {
                let start = usize::try_from(start).map_err(|_| short())?;
                let length = usize::try_from(length).map_err(|_| short())?;
                let end = start.checked_add(length).filter(|end| *end <= bytes.len());
                Ok(bytes.slice(start..end.ok_or_else(short)?))
            }
            Piece::Span(offset, whole) => {
                if start.checked_add(length).is_none_or(|end| end > *whole) {
                    return Err(short());
                }
                let mut bytes = vec![0; usize::try_from(length).map_err(|_| short())?];
                let file = self.file.as_ref().ok_or_else(short)?;
                let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
                file.seek(SeekFrom::Start(offset.saturating_add(start)))
                    .and_then(|_| file.read_exact(&mut bytes))
                    .map_err(|error| {
                        Fault::new(ErrorKind::Io, format!("cannot be read: {error}"))
                            .at(self.element)
                    })?;
                Ok(bytes.into())
            }
        }
    }

    fn native_bytes(&self) -> u64 {
        self.pieces.first().map_or(0, Piece::len)
    }
}

/// What an object says about the number of its frames, and what there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FrameCounts {
    /// What Number of Frames says, where it is a number.
    pub(crate) stated: Option<u64>,
    /// Frames that the pixel data holds.
    pub(crate) found: u64,
    /// Whether something is to be reported.
    pub(crate) odd: bool,
}

/// Pixel data, cut into frames.
#[derive(Debug)]
pub(crate) struct Frames {
    pub(crate) source: PixelSource,
    pub(crate) counts: FrameCounts,
    bits: u64,
    /// Pieces of each frame, in encapsulated pixel data.
    groups: Vec<Range<usize>>,
    /// Where bytes begin that belong to no frame.
    tail: Option<u64>,
}

/// What Number of Frames says: nothing when absent or empty, an error when it is no number.
fn stated(data: &DataSet) -> (Option<u64>, bool) {
    let text = data.ascii(FRAMES).unwrap_or_default();
    if text.is_empty() {
        return (None, false);
    }
    match number::integer(&text).and_then(|number| u64::try_from(number).ok()) {
        Some(number) if number > 0 => (Some(number), false),
        other => (other, true),
    }
}

impl Frames {
    /// Finds the frames in pixel data. The data decides how many there are: what an object states
    /// beyond that is reported, and what there is beyond the statement is kept.
    pub(crate) fn find(source: PixelSource, form: &FrameForm, data: &DataSet) -> Result<Self> {
        let (stated, wrong) = stated(data);
        if source.native {
            Self::native(source, form, data, stated, wrong)
        } else {
            Self::encapsulated(source, data, stated, wrong)
        }
    }

    fn native(
        source: PixelSource,
        form: &FrameForm,
        data: &DataSet,
        stated: Option<u64>,
        wrong: bool,
    ) -> Result<Self> {
        let available = source.native_bytes();
        let available_bits = available.saturating_mul(8);
        let mut bits = form.native_bits().max(1);
        // Samples whose label says that colours are shared may be stored in full.
        if let Some(halved) = form.halved_bits().filter(|it| *it > 0)
            && available_bits < bits.saturating_mul(stated.unwrap_or(1))
        {
            bits = halved;
        }
        let whole = available_bits.checked_div(bits).unwrap_or(0);
        if whole == 0 {
            return Err(Fault::schema(
                source.element,
                format!(
                    "has {available} bytes where {} are expected for one frame",
                    bits.div_ceil(8)
                ),
            ));
        }
        let count = match stated {
            Some(stated) if !wrong && stated <= whole => {
                // Less than a frame more is padding, for all that the standard says.
                let more = whole.saturating_sub(stated);
                if more > 0 && !is_padding(form, bits, stated, available) { whole } else { stated }
            }
            Some(stated) if !wrong => {
                let rest = available.saturating_sub(bits.saturating_mul(whole).div_ceil(8));
                if rest > 1 {
                    return Err(Fault::schema(
                        source.element,
                        format!(
                            "has {available} bytes where {} are expected: {whole} whole frames of the {stated} that are stated",
                            bits.saturating_mul(stated).div_ceil(8)
                        ),
                    ));
                }
                whole
            }
            // Without a number an object has one frame, unless there are more.
            _ => {
                let rest = available.saturating_sub(bits.saturating_mul(whole).div_ceil(8));
                let items = per_frame_items(data);
                if form.is_bits() && whole > 1 {
                    // Padding of bits looks like frames.
                    items.filter(|items| *items <= whole).unwrap_or(1)
                } else if rest <= 1 || items == Some(whole) {
                    whole
                } else {
                    1
                }
            }
        };
        let end = bits.saturating_mul(count).div_ceil(8);
        let tail = (available > end.saturating_add(1)).then_some(end);
        let odd = wrong || stated.unwrap_or(1) != count;
        Ok(Self {
            source,
            counts: FrameCounts { stated, found: count, odd },
            bits,
            groups: Vec::new(),
            tail,
        })
    }

    fn encapsulated(
        source: PixelSource,
        data: &DataSet,
        stated: Option<u64>,
        wrong: bool,
    ) -> Result<Self> {
        let pieces = source.pieces.len();
        if pieces == 0 {
            return Err(Fault::schema(source.element, "has no fragments"));
        }
        let starts = source.item_offsets();
        let by_table = groups_at(&starts, &extended_offsets(data))
            .or_else(|| groups_at(&starts, &source.offsets));
        let groups = if let Some(groups) = by_table {
            // Some tables have fewer entries than there are frames, and what they leave out would
            // hide behind the stream of the frame before.
            let as_stated = |found: &Vec<Range<usize>>| u64::try_from(found.len()).ok() == stated;
            let others = if stated.is_none() || as_stated(&groups) {
                None
            } else {
                source.groups_by_starts(stated).ok().filter(as_stated)
            };
            others.unwrap_or(groups)
        } else if stated == u64::try_from(pieces).ok() {
            (0..pieces).map(|piece| piece..piece.saturating_add(1)).collect()
        } else {
            source.groups_by_starts(stated)?
        };
        let found = u64::try_from(groups.len()).unwrap_or(u64::MAX);
        let odd = wrong || stated.unwrap_or(1) != found;
        Ok(Self { source, counts: FrameCounts { stated, found, odd }, bits: 0, groups, tail: None })
    }

    /// How many bytes [`read`](Self::read) takes for a frame.
    pub(crate) fn length(&self, frame: u64) -> u64 {
        if self.source.native {
            return self.bits.div_ceil(8);
        }
        let range = usize::try_from(frame).ok().and_then(|frame| self.groups.get(frame));
        let pieces = range.and_then(|range| self.source.pieces.get(range.clone()));
        pieces.unwrap_or_default().iter().map(Piece::len).fold(0, u64::saturating_add)
    }

    /// The bytes of one frame.
    pub(crate) fn read(&self, frame: u64) -> Result<Coded> {
        let gone = || Fault::schema(self.source.element, format!("has no frame {frame}"));
        if !self.source.native {
            let range = usize::try_from(frame).ok().and_then(|frame| self.groups.get(frame));
            let range = range.ok_or_else(gone)?;
            let mut stream: Option<Bytes> = None;
            let mut joined = Vec::new();
            for piece in range.clone() {
                let length = self.source.pieces.get(piece).map_or(0, Piece::len);
                let bytes = self.source.read(piece, 0, length)?;
                if range.len() == 1 {
                    stream = Some(bytes);
                } else {
                    joined.extend_from_slice(&bytes);
                }
            }
            return Ok(Coded::Stream(stream.unwrap_or_else(|| joined.into())));
        }
        let start = frame.checked_mul(self.bits).ok_or_else(gone)?;
        let end = start.checked_add(self.bits).ok_or_else(gone)?;
        let first = start / 8;
        let length = end.div_ceil(8).saturating_sub(first);
        let bytes = self.source.read(0, first, length)?;
        if self.bits.is_multiple_of(8) {
            return Ok(Coded::Native(bytes));
        }
        // Frames of bits begin anywhere in a byte.
        let skipped = usize::try_from(start % 8).unwrap_or(0);
        let count = usize::try_from(self.bits).map_err(|_| gone())?;
        Ok(Coded::Native(filter::pack_bits(&filter::unpack_bits(&bytes, skipped, count)).into()))
    }

    /// What belongs to no frame, unless it is a padding of zeros.
    pub(crate) fn tail(&self) -> Result<Option<Bytes>> {
        let Some(start) = self.tail else {
            return Ok(None);
        };
        let length = self.source.native_bytes().saturating_sub(start);
        let bytes = self.source.read(0, start, length)?;
        Ok(bytes.iter().any(|byte| *byte != 0).then_some(bytes))
    }
}

/// Whether what lies behind the stated frames is too little to be one.
fn is_padding(form: &FrameForm, bits: u64, stated: u64, available: u64) -> bool {
    let end = bits.saturating_mul(stated).div_ceil(8);
    // Frames of a few bits fit into the padding byte.
    available.saturating_sub(end) <= 1 || form.is_bits()
}

fn per_frame_items(data: &DataSet) -> Option<u64> {
    let items = data.get(PER_FRAME)?.items()?;
    u64::try_from(items.len()).ok().filter(|items| *items > 0)
}

impl PixelSource {
    /// Where each fragment's item begins, counted from the first one, and where the last one ends.
    fn item_offsets(&self) -> Vec<u64> {
        let mut starts = Vec::with_capacity(self.pieces.len());
        let mut position = 0_u64;
        for piece in &self.pieces {
            starts.push(position);
            position = position.saturating_add(8).saturating_add(piece.len());
        }
        starts
    }

    /// Fragments of each frame where no table tells: every stream begins somewhere.
    fn groups_by_starts(&self, stated: Option<u64>) -> Result<Vec<Range<usize>>> {
        let pieces = self.pieces.len();
        let mut begins = Vec::new();
        for piece in 0..pieces {
            let length = self.pieces.get(piece).map_or(0, Piece::len).min(16);
            if begins_a_stream(&self.read(piece, 0, length)?) {
                begins.push(piece);
            }
        }
        let all = || vec![Range { start: 0, end: pieces }];
        if begins.first() != Some(&0) || begins.len() == 1 {
            // One stream, or pieces of which only the first tells anything.
            let one = stated == Some(1) || (stated.is_none() && pieces == 1);
            if one || begins.first() == Some(&0) {
                return Ok(all());
            }
            let stated =
                stated.map_or_else(|| "an unknown number of".to_owned(), |it| it.to_string());
            return Err(Fault::schema(
                self.element,
                format!(
                    "has {pieces} fragments for {stated} frames, and nothing tells which belong together"
                ),
            ));
        }
        let ends = begins.iter().skip(1).copied().chain([pieces]);
        Ok(begins.iter().zip(ends).map(|(start, end)| *start..end).collect())
    }

    /// Pieces that there are.
    pub(crate) fn pieces(&self) -> usize {
        self.pieces.len()
    }
}

fn extended_offsets(data: &DataSet) -> Vec<u64> {
    let Some(bytes) = data.bytes(EXTENDED_OFFSETS) else {
        return Vec::new();
    };
    let (words, _) = bytes.as_chunks::<8>();
    words.iter().map(|it| u64::from_le_bytes(*it)).collect()
}

/// Fragments of each frame by an offset table; nothing when it does not fit the fragments.
fn groups_at(starts: &[u64], offsets: &[u64]) -> Option<Vec<Range<usize>>> {
    if offsets.is_empty() || offsets.first() != Some(&0) {
        return None;
    }
    let firsts: Option<Vec<usize>> =
        offsets.iter().map(|offset| starts.binary_search(offset).ok()).collect();
    let firsts = firsts?;
    if !firsts.is_sorted_by(|a, b| a < b) {
        return None;
    }
    let ends = firsts.iter().skip(1).copied().chain([starts.len()]);
    Some(firsts.iter().zip(ends).map(|(start, end)| *start..end).collect())
}

/// Takes out what describes the bytes of a file, not its frames.
pub(crate) fn drop_offset_tables(data: &mut DataSet) {
    data.remove(EXTENDED_OFFSETS);
    data.remove(EXTENDED_LENGTHS);
}

/// Whether the element with pixel data holds floating-point numbers.
pub(crate) fn is_float(element: Tag) -> bool {
    matches!(element, FLOAT_PIXELS | DOUBLE_PIXELS)
}

/// Words of 32 bits that were turned as pairs of 16 bits: big endian files say OW for both.
pub(crate) fn turn_halves(source: &mut PixelSource) {
    for piece in &mut source.pieces {
        if let Piece::Memory(bytes) = piece {
            let mut turned = bytes.to_vec();
            let (words, _) = turned.as_chunks_mut::<4>();
            for word in words {
                word.rotate_left(2);
            }
            *bytes = turned.into();
        }
    }
}
