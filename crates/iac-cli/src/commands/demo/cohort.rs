//! A made-up cohort: notes, feature vectors and image tiles in patient folders. The same for every
//! run and machine, and from no source but this file.

use std::fs;
use std::path::Path;

use crate::failure::{Failure, Result};
use crate::interrupt;

/// Patients of the cohort; each has the same number of files.
pub(super) const PATIENTS: u64 = 50;
/// Notes of one patient.
const NOTES: u64 = 10;
/// Feature vectors of one patient.
const VECTORS: u64 = 10;
/// Image tiles of one patient.
const TILES: u64 = 20;
/// Numbers of a feature vector.
const VECTOR_DIM: usize = 768;
/// Smallest and largest edge of a tile in pixels: 1 to 60 KB as three bytes each.
const TILE_EDGES: (u64, u64) = (19, 141);

const WORDS: &str = "section shows regular glands without atypia mild chronic inflammation of the \
lamina propria resection margins are free no evidence of invasion nuclei enlarged hyperchromatic \
mitoses rare stroma fibrous clinical follow up in six months recommended comparison with earlier \
biopsy unchanged left lung upper lobe nodule stable measured eight millimetres";

/// What was made.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Made {
    pub(super) notes: Kind,
    pub(super) vectors: Kind,
    pub(super) tiles: Kind,
}

/// Files of one kind.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Kind {
    pub(super) files: u64,
    pub(super) bytes: u64,
}

impl Kind {
    fn add(&mut self, content: &[u8]) {
        self.files = self.files.saturating_add(1);
        self.bytes = self.bytes.saturating_add(u64::try_from(content.len()).unwrap_or(u64::MAX));
    }
}

impl Made {
    pub(super) const fn files(&self) -> u64 {
        self.notes.files.saturating_add(self.vectors.files).saturating_add(self.tiles.files)
    }

    pub(super) const fn bytes(&self) -> u64 {
        self.notes.bytes.saturating_add(self.vectors.bytes).saturating_add(self.tiles.bytes)
    }
}

/// Makes the files in a folder that is there and empty.
pub(super) fn make(folder: &Path) -> Result<Made> {
    let mut made = Made::default();
    for patient in 0..PATIENTS {
        interrupt::check()?;
        let home = folder.join(format!("P{patient:03}"));
        let mut random = Random(patient.wrapping_add(1));
        for (name, count) in [("notes", NOTES), ("features", VECTORS), ("tiles", TILES)] {
            let inner = home.join(name);
            fs::create_dir_all(&inner)
                .map_err(|error| Failure::io(&inner, "cannot make the folder", &error))?;
            for number in 0..count {
                let (file, content, kind) = match name {
                    "notes" => (
                        format!("note-{number:02}.txt"),
                        note(&mut random, patient, number),
                        &mut made.notes,
                    ),
                    "features" => {
                        (format!("vector-{number:02}.f32"), vector(&mut random), &mut made.vectors)
                    }
                    _ => (format!("tile-{number:02}.ppm"), tile(&mut random), &mut made.tiles),
                };
                let path = inner.join(file);
                fs::write(&path, &content)
                    .map_err(|error| Failure::io(&path, "cannot write the file", &error))?;
                kind.add(&content);
            }
        }
    }
    Ok(made)
}

/// Some sentences.
fn note(random: &mut Random, patient: u64, number: u64) -> Vec<u8> {
    let words: Vec<&str> = WORDS.split_whitespace().collect();
    let mut text = format!("Patient P{patient:03}, note {number}\n");
    for _ in 0..random.between(4, 40) {
        let mut sentence = String::new();
        for _ in 0..random.between(5, 14) {
            let place = random.below_usize(words.len());
            if !sentence.is_empty() {
                sentence.push(' ');
            }
            sentence.push_str(words.get(place).copied().unwrap_or_default());
        }
        text.push_str(&sentence);
        text.push_str(".\n");
    }
    text.into_bytes()
}

/// Numbers between -1 and 1, little-endian.
fn vector(random: &mut Random) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(VECTOR_DIM.saturating_mul(4));
    for _ in 0..VECTOR_DIM {
        let sixteen = i16::from_le_bytes(random.two_bytes());
        bytes.extend_from_slice(&(f32::from(sixteen) / 32_768.0).to_le_bytes());
    }
    bytes
}

/// A square picture (binary PPM): a bright ground, some round dark spots, a little noise.
fn tile(random: &mut Random) -> Vec<u8> {
    let edge = random.between(TILE_EDGES.0, TILE_EDGES.1);
    let spots: Vec<(u64, u64, u64)> = (0..random.between(3, 12))
        .map(|_| (random.between(0, edge), random.between(0, edge), random.between(2, 8)))
        .collect();
    let mut bytes = format!("P6\n{edge} {edge}\n255\n").into_bytes();
    for y in 0..edge {
        for x in 0..edge {
            let inside = spots.iter().any(|(sx, sy, radius)| {
                let (dx, dy) = (x.abs_diff(*sx), y.abs_diff(*sy));
                dx.saturating_mul(dx).saturating_add(dy.saturating_mul(dy))
                    <= radius.saturating_mul(*radius)
            });
            let [noise, _] = random.two_bytes();
            let ground: [u8; 3] = if inside { [96, 64, 130] } else { [226, 178, 205] };
            bytes.extend(ground.map(|level| level.saturating_add(noise & 15)));
        }
    }
    bytes
}

/// SplitMix64: good enough for pictures, the same everywhere.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(super) const fn two_bytes(&mut self) -> [u8; 2] {
        let [first, second, ..] = self.next().to_le_bytes();
        [first, second]
    }

    /// A number from `low` to `high`, both included.
    pub(super) const fn between(&mut self, low: u64, high: u64) -> u64 {
        let choices = high.saturating_sub(low).saturating_add(1);
        match self.next().checked_rem(choices) {
            Some(rest) => low.saturating_add(rest),
            None => low,
        }
    }

    fn below_usize(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound).unwrap_or(u64::MAX).max(1);
        let number = self.next().checked_rem(bound).unwrap_or(0);
        usize::try_from(number).unwrap_or(0)
    }

    /// Brings things into a random order.
    pub(super) fn shuffle<T>(&mut self, things: &mut [T]) {
        for place in (1..things.len()).rev() {
            let other = self.below_usize(place.saturating_add(1));
            things.swap(place, other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cohort_is_the_same_every_time() {
        let (mut a, mut b) = (Random(7), Random(7));
        assert_eq!(note(&mut a, 1, 2), note(&mut b, 1, 2));
        assert_eq!(vector(&mut a), vector(&mut b));
        assert_eq!(tile(&mut a), tile(&mut b));
    }

    #[test]
    fn tiles_are_complete_pictures() {
        let mut random = Random(3);
        for _ in 0..20 {
            let picture = tile(&mut random);
            let text: Vec<&[u8]> = picture.splitn(4, |byte| *byte == b'\n').collect();
            let edge: usize =
                std::str::from_utf8(text[1]).unwrap().split(' ').next().unwrap().parse().unwrap();
            assert_eq!(text[0], b"P6");
            assert_eq!(text[3].len(), edge * edge * 3);
        }
    }

    #[test]
    fn a_shuffle_loses_nothing() {
        let mut things: Vec<u32> = (0..100).collect();
        Random(1).shuffle(&mut things);
        assert_ne!(things, (0..100).collect::<Vec<_>>());
        things.sort_unstable();
        assert_eq!(things, (0..100).collect::<Vec<_>>());
    }
}
