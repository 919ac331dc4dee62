//! A walk over the frames of a payload that decodes nothing.
//!
//! It finds out how large the output can get before a byte of memory is spent on it: what the
//! frames say about their content, and what their blocks can stand for at most. The library has
//! the last word on everything else.

/// Most bytes that one block stands for.
const MAX_BLOCK_BYTES: u64 = 128 << 10;

const FRAME_MAGIC: u32 = 0xFD2F_B528;
const SKIPPABLE_MAGIC: u32 = 0x184D_2A50;
const SKIPPABLE_MASK: u32 = 0xFFFF_FFF0;

/// What the frames of a payload say about themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Survey {
    /// Frames with content.
    pub(super) frames: u64,
    /// Skippable frames.
    pub(super) skippable: u64,
    /// Bytes of content, where every frame tells.
    pub(super) content: Option<u64>,
    /// Bytes of content at most, from the sizes of the blocks.
    pub(super) bound: u64,
    /// The dictionary that the first frame which needs one asks for.
    pub(super) dictionary: Option<u32>,
}

/// Walks over all frames; the error says what is wrong and where.
pub(super) fn survey(payload: &[u8]) -> Result<Survey, String> {
    let mut survey =
        Survey { frames: 0, skippable: 0, content: Some(0), bound: 0, dictionary: None };
    let mut rest = Bytes { bytes: payload, total: payload.len() };
    if payload.is_empty() {
        return Err("the payload is empty".to_owned());
    }
    while !rest.bytes.is_empty() {
        let at = rest.position();
        let magic = rest.number::<4>().and_then(|magic| u32::try_from(magic).ok());
        match magic {
            Some(FRAME_MAGIC) => {
                frame(&mut rest, &mut survey).map_err(|what| place(what, at, &rest))?;
            }
            Some(magic) if magic & SKIPPABLE_MASK == SKIPPABLE_MAGIC => {
                let skipped = rest.number::<4>().and_then(|size| rest.skip(size));
                skipped.ok_or_else(|| place(Flaw::Cut, at, &rest))?;
                survey.skippable = survey.skippable.saturating_add(1);
            }
            _ if at == 0 => return Err("the payload does not start with a frame".to_owned()),
            _ => {
                let left = payload.len().saturating_sub(at);
                return Err(format!("{left} bytes after the last frame are no frame"));
            }
        }
    }
    Ok(survey)
}

enum Flaw {
    Cut,
    BlockType,
    EmptyBlock,
    BlockSize(u64, u64),
    TooMuch,
}

fn place(flaw: Flaw, start: usize, rest: &Bytes<'_>) -> String {
    match flaw {
        Flaw::Cut => format!("the frame at byte {start} is cut at byte {}", rest.total),
        Flaw::BlockType => {
            format!("the frame at byte {start} has a block of an unknown type")
        }
        Flaw::EmptyBlock => {
            format!("the frame at byte {start} has a compressed block without any bytes")
        }
        Flaw::BlockSize(size, most) => format!(
            "the frame at byte {start} has a block of {size} bytes, above the {most} of its window"
        ),
        Flaw::TooMuch => "the frames claim more than 2^64 bytes of content".to_owned(),
    }
}

/// One frame, from behind its magic number.
fn frame(rest: &mut Bytes<'_>, survey: &mut Survey) -> Result<(), Flaw> {
    let descriptor = rest.number::<1>().ok_or(Flaw::Cut)?;
    let single_segment = descriptor & 0x20 != 0;
    let window = if single_segment {
        None
    } else {
        let window = rest.number::<1>().ok_or(Flaw::Cut)?;
        let base = 1024u64.checked_shl(u32::try_from(window >> 3).unwrap_or(0)).unwrap_or(0);
        Some(base.saturating_add((base >> 3).saturating_mul(window & 7)))
    };
    let dictionary = match descriptor & 3 {
        0 => Some(0),
        1 => rest.number::<1>(),
        2 => rest.number::<2>(),
        _ => rest.number::<4>(),
    };
    let dictionary = dictionary.ok_or(Flaw::Cut)?;
    if dictionary != 0 && survey.dictionary.is_none() {
        survey.dictionary = u32::try_from(dictionary).ok();
    }
    let content = match descriptor >> 6 {
        0 if !single_segment => None,
        0 => Some(rest.number::<1>().ok_or(Flaw::Cut)?),
        1 => Some(rest.number::<2>().ok_or(Flaw::Cut)?.saturating_add(256)),
        2 => Some(rest.number::<4>().ok_or(Flaw::Cut)?),
        _ => Some(rest.number::<8>().ok_or(Flaw::Cut)?),
    };
    survey.content = match (survey.content, content) {
        (Some(sum), Some(content)) => Some(sum.checked_add(content).ok_or(Flaw::TooMuch)?),
        _ => None,
    };
    // A frame without a window of its own has one as large as its content.
    let block_max = window.or(content).unwrap_or(0).min(MAX_BLOCK_BYTES);
    loop {
        let header = rest.number::<3>().ok_or(Flaw::Cut)?;
        let size = header >> 3;
        if size > block_max {
            return Err(Flaw::BlockSize(size, block_max));
        }
        let (stored, most) = match header >> 1 & 3 {
            0 => (size, size),
            1 => (1, size),
            // Not even an empty block is that short, but the library lets it pass in streams.
            2 if size == 0 => return Err(Flaw::EmptyBlock),
            2 => (size, block_max),
            _ => return Err(Flaw::BlockType),
        };
        rest.skip(stored).ok_or(Flaw::Cut)?;
        survey.bound = survey.bound.saturating_add(most);
        if header & 1 != 0 {
            break;
        }
    }
    if descriptor & 4 != 0 {
        rest.skip(4).ok_or(Flaw::Cut)?;
    }
    survey.frames = survey.frames.saturating_add(1);
    Ok(())
}

/// Bytes that are taken from the front.
struct Bytes<'a> {
    bytes: &'a [u8],
    total: usize,
}

impl Bytes<'_> {
    fn position(&self) -> usize {
        self.total.saturating_sub(self.bytes.len())
    }

    /// A little-endian number of `N` bytes.
    fn number<const N: usize>(&mut self) -> Option<u64> {
        let (number, rest) = self.bytes.split_first_chunk::<N>()?;
        self.bytes = rest;
        Some(number.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    fn skip(&mut self, count: u64) -> Option<()> {
        self.bytes = self.bytes.get(usize::try_from(count).ok()?..)?;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: [u8; 9] = [0x28, 0xB5, 0x2F, 0xFD, 0x20, 0, 1, 0, 0];
    const SKIPPABLE: [u8; 11] = [0x5F, 0x2A, 0x4D, 0x18, 3, 0, 0, 0, 9, 9, 9];

    #[test]
    fn empty_frame_has_a_size_of_zero() {
        let expected =
            Survey { frames: 1, skippable: 0, content: Some(0), bound: 0, dictionary: None };
        assert_eq!(survey(&EMPTY), Ok(expected));
    }

    #[test]
    fn frames_are_counted_and_summed() {
        let payload = [&SKIPPABLE[..], &EMPTY, &SKIPPABLE, &EMPTY].concat();
        let survey = survey(&payload).unwrap();
        assert_eq!((survey.frames, survey.skippable, survey.content), (2, 2, Some(0)));
    }

    #[test]
    fn bound_follows_the_blocks_not_the_claim() {
        // Claims 2^32 - 1 bytes; holds a run of 100,000 and a raw block of two.
        let mut payload = vec![0x28, 0xB5, 0x2F, 0xFD, 0xA0, 255, 255, 255, 255];
        let run: u32 = 100_000 << 3 | 1 << 1;
        payload.extend(&run.to_le_bytes()[..3]);
        payload.push(7);
        payload.extend([2 << 3 | 1, 0, 0, 1, 2]);
        let survey = survey(&payload).unwrap();
        assert_eq!(survey.content, Some(u64::from(u32::MAX)));
        assert_eq!(survey.bound, 100_002);
    }

    #[test]
    fn blocks_larger_than_their_window_are_refused() {
        let mut payload = vec![0x28, 0xB5, 0x2F, 0xFD, 0x20, 5];
        payload.extend([6 << 3 | 1, 0, 0, 1, 2, 3, 4, 5, 6]);
        let error = survey(&payload).unwrap_err();
        assert_eq!(error, "the frame at byte 0 has a block of 6 bytes, above the 5 of its window");
    }

    #[test]
    fn cuts_and_stray_bytes_are_placed() {
        for (payload, error) in [
            (vec![], "the payload is empty"),
            (vec![1], "the payload does not start with a frame"),
            (EMPTY[..8].to_vec(), "the frame at byte 0 is cut at byte 8"),
            ([&EMPTY[..], &[1, 2]].concat(), "2 bytes after the last frame are no frame"),
            ([&EMPTY[..], &SKIPPABLE[..10]].concat(), "the frame at byte 9 is cut at byte 19"),
        ] {
            assert_eq!(survey(&payload).unwrap_err(), error);
        }
    }
}
