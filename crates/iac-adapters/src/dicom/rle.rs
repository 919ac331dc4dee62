//! RLE lossless (PS3.5 annex G): planes of bytes, the most significant ones first.

use super::fault::{Fault, Result};

const HEADER: usize = 64;

/// Decodes one frame into little-endian samples, interleaved.
pub(crate) fn decode(
    stream: &[u8],
    pixels: usize,
    channels: usize,
    sample_bytes: usize,
) -> Result<Vec<u8>> {
    let word = |position: usize| {
        let bytes = stream.get(position..).and_then(|rest| rest.first_chunk::<4>());
        bytes.and_then(|four| usize::try_from(u32::from_le_bytes(*four)).ok())
    };
    let planes = channels.saturating_mul(sample_bytes);
    let count = word(0).ok_or_else(|| Fault::decode("an RLE frame is shorter than its header"))?;
    if stream.len() < HEADER || count > 15 {
        return Err(Fault::decode("an RLE frame has a wrong header"));
    }
    if count != planes {
        return Err(Fault::decode(format!(
            "an RLE frame has {count} segments where {planes} are expected"
        )));
    }
    let total =
        pixels.checked_mul(planes).ok_or_else(|| Fault::decode("an RLE frame is too large"))?;
    let mut samples = vec![0; total];
    for plane in 0..planes {
        let start = word(plane.saturating_mul(4).saturating_add(4)).unwrap_or(0);
        let end = if plane.saturating_add(1) < planes {
            word(plane.saturating_mul(4).saturating_add(8)).unwrap_or(0)
        } else {
            stream.len()
        };
        let segment = stream.get(start..end).filter(|_| start >= HEADER);
        let segment = segment.ok_or_else(|| {
            Fault::decode(format!("segment {plane} of an RLE frame lies outside of it"))
        })?;
        let channel = plane.checked_div(sample_bytes).unwrap_or(0);
        let byte = plane.checked_rem(sample_bytes).unwrap_or(0);
        // The most significant byte comes first in the stream, and last in memory.
        let offset = channel
            .saturating_mul(sample_bytes)
            .saturating_add(sample_bytes.saturating_sub(1).saturating_sub(byte));
        let mut places = samples.iter_mut().skip(offset).step_by(planes.max(1)).take(pixels);
        unpack(segment, &mut places)
            .ok_or_else(|| Fault::decode(format!("segment {plane} of an RLE frame is cut")))?;
    }
    Ok(samples)
}

fn unpack<'a>(
    mut packed: &[u8],
    places: &mut impl ExactSizeIterator<Item = &'a mut u8>,
) -> Option<()> {
    while places.len() > 0 {
        let (&code, rest) = packed.split_first()?;
        packed = rest;
        match code {
            0..=127 => {
                let length = usize::from(code).saturating_add(1);
                let (literal, rest) = packed.split_at_checked(length.min(packed.len()))?;
                if literal.len() < length && literal.len() < places.len() {
                    return None;
                }
                for byte in literal {
                    match places.next() {
                        Some(place) => *place = *byte,
                        None => return Some(()),
                    }
                }
                packed = rest;
            }
            128 => {}
            129..=255 => {
                let length = 257_usize.saturating_sub(usize::from(code));
                let (&byte, rest) = packed.split_first()?;
                for _ in 0..length {
                    match places.next() {
                        Some(place) => *place = byte,
                        None => return Some(()),
                    }
                }
                packed = rest;
            }
        }
    }
    Some(())
}

/// Encodes little-endian, interleaved samples as one frame.
pub(crate) fn encode(
    samples: &[u8],
    width: usize,
    channels: usize,
    sample_bytes: usize,
) -> Result<Vec<u8>> {
    let planes = channels.saturating_mul(sample_bytes);
    if planes == 0 || planes > 15 || width == 0 {
        return Err(Fault::unsupported("RLE holds up to 15 planes of bytes"));
    }
    let mut stream = vec![0; HEADER];
    let mut offsets = Vec::with_capacity(planes);
    for plane in 0..planes {
        offsets.push(stream.len());
        let channel = plane.checked_div(sample_bytes).unwrap_or(0);
        let byte = plane.checked_rem(sample_bytes).unwrap_or(0);
        let offset = channel
            .saturating_mul(sample_bytes)
            .saturating_add(sample_bytes.saturating_sub(1).saturating_sub(byte));
        let bytes: Vec<u8> = samples.iter().skip(offset).step_by(planes).copied().collect();
        for row in bytes.chunks(width) {
            pack(row, &mut stream);
        }
        if stream.len() % 2 == 1 {
            stream.push(0);
        }
    }
    let count = u32::try_from(planes).unwrap_or(0);
    let words = std::iter::once(Ok(count)).chain(offsets.into_iter().map(u32::try_from));
    for (place, word) in stream.chunks_exact_mut(4).zip(words) {
        let word = word.map_err(|_| Fault::unsupported("an RLE frame of more than 4 GiB"))?;
        place.copy_from_slice(&word.to_le_bytes());
    }
    Ok(stream)
}

fn pack(row: &[u8], out: &mut Vec<u8>) {
    let mut literal: &[u8] = &[];
    let mut rest = row;
    let mut begin = row;
    let flush = |literal: &[u8], out: &mut Vec<u8>| {
        for part in literal.chunks(128) {
            out.push(u8::try_from(part.len().saturating_sub(1)).unwrap_or(127));
            out.extend_from_slice(part);
        }
    };
    while let Some(first) = rest.first() {
        let run = rest.iter().take(128).take_while(|byte| *byte == first).count();
        let (_, behind) = rest.split_at_checked(run).unwrap_or_default();
        if run >= 3 {
            flush(literal, out);
            out.push(u8::try_from(257_usize.saturating_sub(run)).unwrap_or(255));
            out.push(*first);
            literal = &[];
            begin = behind;
        } else {
            let length = literal.len().saturating_add(run);
            literal = begin.get(..length).unwrap_or_default();
        }
        rest = behind;
    }
    flush(literal, out);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_back_as_they_were() {
        for (width, height, channels, bytes) in
            [(1, 1, 1, 1), (300, 3, 1, 2), (7, 5, 3, 1), (64, 9, 3, 2)]
        {
            let count = width * height * channels * bytes;
            let samples: Vec<u8> = (0..count)
                .map(|n| if n % 97 < 60 { 7 } else { u8::try_from(n * n % 251).unwrap() })
                .collect();
            let stream = encode(&samples, width, channels, bytes).unwrap();
            assert_eq!(decode(&stream, width * height, channels, bytes).unwrap(), samples);
            for end in 0..stream.len() {
                let _ = decode(&stream[..end], width * height, channels, bytes);
            }
        }
    }

    #[test]
    fn lying_segments_are_refused() {
        let mut stream = vec![0; 64];
        stream[0] = 1;
        assert!(decode(&stream, 4, 1, 1).is_err());
        stream[4] = 64;
        assert!(decode(&stream, 4, 1, 1).is_err());
        stream.extend([253, 9]);
        assert_eq!(decode(&stream, 4, 1, 1).unwrap(), [9; 4]);
        assert!(decode(&stream, 5, 1, 1).is_err());
        assert!(decode(&stream, 4, 1, 2).is_err());
    }
}
