//! Samples of a frame before they mean anything.

/// The type of voxels.
pub use crate::dicom::samples::PixelType as VoxelType;

/// Room for samples: signed ones as their two's complement, floating ones as their bits.
pub(super) enum WordsMut<'a> {
    W8(&'a mut [u8]),
    W16(&'a mut [u16]),
    W32(&'a mut [u32]),
    W64(&'a mut [u64]),
}

impl<'a> WordsMut<'a> {
    pub(super) const fn len(&self) -> usize {
        match self {
            Self::W8(words) => words.len(),
            Self::W16(words) => words.len(),
            Self::W32(words) => words.len(),
            Self::W64(words) => words.len(),
        }
    }

    pub(super) const fn bytes_of_word(&self) -> usize {
        match self {
            Self::W8(_) => 1,
            Self::W16(_) => 2,
            Self::W32(_) => 4,
            Self::W64(_) => 8,
        }
    }

    /// Pieces of so many words; what does not fill one is left out.
    pub(super) fn split(self, size: usize) -> Vec<WordsMut<'a>> {
        let size = size.max(1);
        match self {
            Self::W8(words) => words.chunks_exact_mut(size).map(WordsMut::W8).collect(),
            Self::W16(words) => words.chunks_exact_mut(size).map(WordsMut::W16).collect(),
            Self::W32(words) => words.chunks_exact_mut(size).map(WordsMut::W32).collect(),
            Self::W64(words) => words.chunks_exact_mut(size).map(WordsMut::W64).collect(),
        }
    }

    /// Words from little-endian bytes, as many as there is room for; false when there are too few.
    pub(super) fn fill_from_le_bytes(&mut self, bytes: &[u8]) -> bool {
        fn put<T, const N: usize>(
            out: &mut [T],
            bytes: &[u8],
            word: impl Fn([u8; N]) -> T,
        ) -> bool {
            let (chunks, _) = bytes.as_chunks::<N>();
            let Some(chunks) = chunks.get(..out.len()) else {
                return false;
            };
            for (place, chunk) in out.iter_mut().zip(chunks) {
                *place = word(*chunk);
            }
            true
        }
        match self {
            Self::W8(out) => put(out, bytes, |[byte]| byte),
            Self::W16(out) => put(out, bytes, u16::from_le_bytes),
            Self::W32(out) => put(out, bytes, u32::from_le_bytes),
            Self::W64(out) => put(out, bytes, u64::from_le_bytes),
        }
    }
}

/// Memory for the samples of one frame, used again for the next.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    bytes: Vec<u8>,
    shorts: Vec<u16>,
    longs: Vec<u32>,
    doubles: Vec<u64>,
}

impl Scratch {
    /// Room for so many samples of a type.
    pub(super) fn room(&mut self, voxel_type: VoxelType, count: usize) -> WordsMut<'_> {
        match voxel_type.bytes() {
            1 => {
                self.bytes.resize(count, 0);
                WordsMut::W8(&mut self.bytes)
            }
            2 => {
                self.shorts.resize(count, 0);
                WordsMut::W16(&mut self.shorts)
            }
            4 => {
                self.longs.resize(count, 0);
                WordsMut::W32(&mut self.longs)
            }
            _ => {
                self.doubles.resize(count, 0);
                WordsMut::W64(&mut self.doubles)
            }
        }
    }

    /// Puts what `value` makes of each sample to its place.
    pub(super) fn map_into(
        &self,
        voxel_type: VoxelType,
        out: &mut [f32],
        value: impl Fn(f64) -> f32,
    ) {
        fn each<T: Copy>(samples: &[T], out: &mut [f32], value: impl Fn(T) -> f32) {
            for (place, sample) in out.iter_mut().zip(samples) {
                *place = value(*sample);
            }
        }
        match voxel_type {
            VoxelType::U8 => each(&self.bytes, out, |it| value(f64::from(it))),
            VoxelType::I8 => each(&self.bytes, out, |it| value(f64::from(it.cast_signed()))),
            VoxelType::U16 => each(&self.shorts, out, |it| value(f64::from(it))),
            VoxelType::I16 => each(&self.shorts, out, |it| value(f64::from(it.cast_signed()))),
            VoxelType::U32 => each(&self.longs, out, |it| value(f64::from(it))),
            VoxelType::I32 => each(&self.longs, out, |it| value(f64::from(it.cast_signed()))),
            VoxelType::F32 => each(&self.longs, out, |it| value(f64::from(f32::from_bits(it)))),
            VoxelType::F64 => each(&self.doubles, out, |it| value(f64::from_bits(it))),
        }
    }

    /// Hands each sample of what was put there to `each`, as a number.
    pub(super) fn for_each(&self, voxel_type: VoxelType, mut each: impl FnMut(f64)) {
        match voxel_type {
            VoxelType::U8 => self.bytes.iter().for_each(|it| each(f64::from(*it))),
            VoxelType::I8 => self.bytes.iter().for_each(|it| each(f64::from(it.cast_signed()))),
            VoxelType::U16 => self.shorts.iter().for_each(|it| each(f64::from(*it))),
            VoxelType::I16 => self.shorts.iter().for_each(|it| each(f64::from(it.cast_signed()))),
            VoxelType::U32 => self.longs.iter().for_each(|it| each(f64::from(*it))),
            VoxelType::I32 => self.longs.iter().for_each(|it| each(f64::from(it.cast_signed()))),
            VoxelType::F32 => self.longs.iter().for_each(|it| each(f64::from(f32::from_bits(*it)))),
            VoxelType::F64 => self.doubles.iter().for_each(|it| each(f64::from_bits(*it))),
        }
    }
}
