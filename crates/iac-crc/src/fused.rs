//! The copy itself.
#![allow(unsafe_code)] // vector instructions, and memory that is filled before it counts as filled

use std::mem::MaybeUninit;
use std::slice;

/// Copies `from` to `to` and gives the sum of what `sum` is the sum of, and `from`.
#[inline]
pub(crate) fn copy(sum: u32, from: &[u8], to: &mut [u8]) -> u32 {
    // SAFETY: same memory, same length, same lifetime; `write` puts nothing but bytes there.
    let place = unsafe { slice::from_raw_parts_mut(to.as_mut_ptr().cast(), to.len()) };
    write(sum, from, place)
}

/// Copies `from` behind `to`, and gives the sum as [`copy`] does.
#[inline]
pub(crate) fn append(sum: u32, from: &[u8], to: &mut Vec<u8>) -> u32 {
    to.reserve(from.len());
    let (place, _) = to.spare_capacity_mut().split_at_mut(from.len());
    let sum = write(sum, from, place);
    // SAFETY: `write` has filled all of `place`, which begins behind the bytes that were there.
    unsafe { to.set_len(to.len().saturating_add(from.len())) };
    sum
}

/// Fills `to`, which must be as long as `from`, with it, and gives the sum as [`copy`] does.
#[inline]
pub(crate) fn write(sum: u32, from: &[u8], to: &mut [MaybeUninit<u8>]) -> u32 {
    assert_eq!(from.len(), to.len(), "bytes are copied to a place of their length");
    #[cfg(target_arch = "x86_64")]
    if from.len() >= wide::LEAST
        && is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("pclmulqdq")
        && is_x86_feature_detected!("vpclmulqdq")
    {
        // SAFETY: the processor has what the function asks for.
        return unsafe { wide::write(sum, from, to) };
    }
    one_after_the_other(sum, from, to)
}

fn one_after_the_other(sum: u32, from: &[u8], to: &mut [MaybeUninit<u8>]) -> u32 {
    assert_eq!(from.len(), to.len());
    // SAFETY: both are as long as is copied, and an exclusive borrow lies apart from all others.
    // What was copied is initialised, and is read before anybody else can write to it.
    let copied = unsafe {
        std::ptr::copy_nonoverlapping(from.as_ptr(), to.as_mut_ptr().cast(), from.len());
        slice::from_raw_parts(to.as_ptr().cast::<u8>(), from.len())
    };
    continued(sum, copied)
}

/// The sum of what `sum` is the sum of, and `bytes`, which stay where they are.
pub(crate) fn continued(sum: u32, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(sum);
    hasher.update(bytes);
    hasher.finalize()
}

/// Folding by carry-less multiplication, 128 bytes at a time.
///
/// After V. Gopal and others, "Fast CRC computation for generic polynomials using PCLMULQDQ
/// instruction" (Intel, 2009), whose figures carry over: bits are reflected, so that the lowest bit
/// of a word belongs to the highest power of x, and every constant is shifted up by one bit.
#[cfg(target_arch = "x86_64")]
#[allow(
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    clippy::indexing_slicing,
    reason = "constants are reckoned by the compiler, and a byte has its place in a table of 256"
)]
#[cfg_attr(miri, allow(unused_mut, reason = "Miri knows no assembly"))]
mod wide {
    #[cfg(not(miri))]
    use std::arch::asm;
    use std::arch::x86_64::{
        __m128i, __m256i, _MM_HINT_T0, _mm_and_si128, _mm_clmulepi64_si128, _mm_cvtsi32_si128,
        _mm_extract_epi32, _mm_loadu_si128, _mm_prefetch, _mm_set_epi64x, _mm_srli_si128,
        _mm_storeu_si128, _mm_xor_si128, _mm256_castsi256_si128, _mm256_clmulepi64_epi128,
        _mm256_extracti128_si256, _mm256_loadu_si256, _mm256_set_epi64x, _mm256_storeu_si256,
        _mm256_xor_si256, _mm256_zextsi128_si256,
    };
    use std::mem::MaybeUninit;

    use super::one_after_the_other;

    /// Fewer bytes are not worth the way in and out.
    pub(super) const LEAST: usize = 128;
    /// How many blocks ahead the copy has memory loaded: the processor follows a stream by itself
    /// only after a while, and records of a batch are short streams that lie far apart.
    const AHEAD: usize = 8;

    /// The polynomial of CRC-32, lowest power last, without that of x^32.
    const POLYNOMIAL: u32 = 0x04C1_1DB7;
    /// Reflected, with x^32 as the lowest bit.
    const REFLECTED: u64 = ((POLYNOMIAL.reverse_bits() as u64) << 1) | 1;

    /// x^power modulo the polynomial, as multiplication of reflected words wants it.
    const fn constant(power: u32) -> i64 {
        let mut remainder = 1_u32;
        let mut done = 0;
        while done < power {
            let carry = remainder >> 31 == 1;
            remainder <<= 1;
            if carry {
                remainder ^= POLYNOMIAL;
            }
            done += 1;
        }
        ((remainder.reverse_bits() as u64) << 1).cast_signed()
    }

    /// The quotient of x^64 by the polynomial, reflected.
    const fn quotient() -> i64 {
        let polynomial = (1_u128 << 32) | POLYNOMIAL as u128;
        let mut rest = 1_u128 << 64;
        let mut quotient = 0_u64;
        let mut at = 33;
        while at > 0 {
            at -= 1;
            quotient <<= 1;
            if (rest >> (at + 32)) & 1 == 1 {
                quotient |= 1;
                rest ^= polynomial << at;
            }
        }
        (quotient.reverse_bits() >> 31).cast_signed()
    }

    /// Factors that move 128 bits by so many bits towards the end of the text: of the upper and of
    /// the lower half.
    const fn moving_by(bits: u32) -> [i64; 2] {
        [constant(bits - 32), constant(bits + 32)]
    }

    const BY_1024: [i64; 2] = moving_by(1024);
    const BY_256: [i64; 2] = moving_by(256);
    const BY_128: [i64; 2] = moving_by(128);
    /// Of 128 bits to 96, and of these to 64.
    const TO_64: [i64; 2] = [constant(64), constant(96)];
    const DIVISION: [i64; 2] = [quotient(), REFLECTED.cast_signed()];

    /// What is added to the 32 bits behind a byte when it is divided by the polynomial.
    const OF_BYTES: [u32; 256] = {
        let mut table = [0; 256];
        let mut byte = 0;
        while byte < table.len() {
            let mut remainder = byte as u32;
            let mut bit = 0;
            while bit < 8 {
                let is_odd = remainder & 1 == 1;
                remainder >>= 1;
                if is_odd {
                    remainder ^= POLYNOMIAL.reverse_bits();
                }
                bit += 1;
            }
            table[byte] = remainder;
            byte += 1;
        }
        table
    };

    /// As the function of this name outside, for at least one block.
    #[target_feature(enable = "avx2,pclmulqdq,vpclmulqdq")]
    pub(super) fn write(sum: u32, from: &[u8], to: &mut [MaybeUninit<u8>]) -> u32 {
        assert_eq!(from.len(), to.len());
        let (blocks, rest) = from.as_chunks::<128>();
        let (places, rest_place) = to.as_chunks_mut::<128>();
        let (Some((first, blocks)), Some((place, places))) =
            (blocks.split_first(), places.split_first_mut())
        else {
            return one_after_the_other(sum, from, to);
        };
        let [mut a, mut b, mut c, mut d] = take(first, place);
        a = _mm256_xor_si256(a, _mm256_zextsi128_si256(_mm_cvtsi32_si128((!sum).cast_signed())));
        let by_1024 = twice(BY_1024);
        for (at, (block, place)) in blocks.iter().zip(places).enumerate() {
            // Behind the end lies another record, which nobody may want.
            if let Some(coming) = blocks.get(at.saturating_add(AHEAD)) {
                load(coming);
            }
            let [next_a, next_b, next_c, next_d] = take(block, place);
            a = fold_256(a, next_a, by_1024);
            b = fold_256(b, next_b, by_1024);
            c = fold_256(c, next_c, by_1024);
            d = fold_256(d, next_d, by_1024);
        }
        let by_256 = twice(BY_256);
        b = fold_256(a, b, by_256);
        c = fold_256(b, c, by_256);
        d = fold_256(c, d, by_256);
        let (blocks, rest) = rest.as_chunks::<32>();
        let (places, rest_place) = rest_place.as_chunks_mut::<32>();
        for (block, place) in blocks.iter().zip(places) {
            d = fold_256(d, move_256(block, place), by_256);
        }
        let (upper, lower) = (_mm256_extracti128_si256::<1>(d), _mm256_castsi256_si128(d));
        let by_128 = once(BY_128);
        let mut last = fold_128(lower, upper, by_128);
        let (blocks, rest) = rest.as_chunks::<16>();
        let (places, rest_place) = rest_place.as_chunks_mut::<16>();
        for (block, place) in blocks.iter().zip(places) {
            last = fold_128(last, move_128(block, place), by_128);
        }
        let mut remainder = remainder(last);
        for (byte, place) in rest.iter().zip(rest_place) {
            place.write(*byte);
            let [low, ..] = remainder.to_le_bytes();
            remainder = (remainder >> 8) ^ OF_BYTES[usize::from(low ^ byte)];
        }
        !remainder
    }

    /// Has a block loaded into the cache while other work goes on.
    #[inline]
    #[allow(unused_unsafe, reason = "older compilers count the instruction as unsafe")]
    fn load(block: &[u8; 128]) {
        for line in block.chunks(64) {
            // SAFETY: a prefetch reads nothing and never faults, whatever the address.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast()) };
        }
    }

    /// What is left of 128 bits after division by the polynomial.
    #[inline]
    #[target_feature(enable = "avx2,pclmulqdq")]
    fn remainder(bits: __m128i) -> u32 {
        let keys = once(TO_64);
        let low_32 = _mm_set_epi64x(0, 0xFFFF_FFFF);
        let bits =
            _mm_xor_si128(_mm_srli_si128::<8>(bits), _mm_clmulepi64_si128::<0x00>(bits, keys));
        let low = _mm_and_si128(bits, low_32);
        let bits =
            _mm_xor_si128(_mm_srli_si128::<4>(bits), _mm_clmulepi64_si128::<0x10>(low, keys));
        // Barrett's reduction.
        let division = once(DIVISION);
        let low = _mm_and_si128(bits, low_32);
        let multiple = _mm_and_si128(_mm_clmulepi64_si128::<0x10>(low, division), low_32);
        let product = _mm_clmulepi64_si128::<0x00>(multiple, division);
        _mm_extract_epi32::<1>(_mm_xor_si128(bits, product)).cast_unsigned()
    }

    /// Moves `sum` to the place of `next`, and adds that.
    #[inline]
    #[target_feature(enable = "avx2,vpclmulqdq")]
    fn fold_256(sum: __m256i, next: __m256i, keys: __m256i) -> __m256i {
        let lower = _mm256_clmulepi64_epi128::<0x00>(sum, keys);
        let upper = _mm256_clmulepi64_epi128::<0x11>(sum, keys);
        _mm256_xor_si256(_mm256_xor_si256(lower, upper), next)
    }

    /// The same with half as many bits.
    #[inline]
    #[target_feature(enable = "avx2,pclmulqdq")]
    fn fold_128(sum: __m128i, next: __m128i, keys: __m128i) -> __m128i {
        let lower = _mm_clmulepi64_si128::<0x00>(sum, keys);
        let upper = _mm_clmulepi64_si128::<0x11>(sum, keys);
        _mm_xor_si128(_mm_xor_si128(lower, upper), next)
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn once([upper, lower]: [i64; 2]) -> __m128i {
        _mm_set_epi64x(upper, lower)
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn twice([upper, lower]: [i64; 2]) -> __m256i {
        _mm256_set_epi64x(upper, lower, upper, lower)
    }

    /// Loads 128 bytes and stores them.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn take(from: &[u8; 128], to: &mut [MaybeUninit<u8>; 128]) -> [__m256i; 4] {
        let (from, _) = from.as_chunks::<32>();
        let (to, _) = to.as_chunks_mut::<32>();
        let mut taken = [_mm256_set_epi64x(0, 0, 0, 0); 4];
        for ((taken, from), to) in taken.iter_mut().zip(from).zip(to) {
            *taken = move_256(from, to);
        }
        taken
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn move_256(from: &[u8; 32], to: &mut [MaybeUninit<u8>; 32]) -> __m256i {
        // SAFETY: both have the 32 bytes of a vector, which may lie anywhere. No instruction is added.
        unsafe {
            let mut bytes = _mm256_loadu_si256(from.as_ptr().cast());
            // Without this the compiler makes a call of `memcpy` of all stores, and loads everything
            // once more for the sum, which is slow, and wrong where the source changes meanwhile.
            #[cfg(not(miri))]
            asm!("/* {} */", inout(ymm_reg) bytes, options(nomem, nostack, preserves_flags));
            _mm256_storeu_si256(to.as_mut_ptr().cast(), bytes);
            bytes
        }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn move_128(from: &[u8; 16], to: &mut [MaybeUninit<u8>; 16]) -> __m128i {
        // SAFETY: as above, with 16 bytes.
        unsafe {
            let mut bytes = _mm_loadu_si128(from.as_ptr().cast());
            #[cfg(not(miri))]
            asm!("/* {} */", inout(xmm_reg) bytes, options(nomem, nostack, preserves_flags));
            _mm_storeu_si128(to.as_mut_ptr().cast(), bytes);
            bytes
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn constants_are_those_of_the_publication() {
            assert_eq!(moving_by(512), [0x1_C6E4_1596, 0x1_5444_2BD4]);
            assert_eq!(BY_128, [0x0_CCAA_009E, 0x1_7519_97D0]);
            assert_eq!(constant(64), 0x1_63CD_6124);
            assert_eq!(DIVISION, [0x1_F701_1641, 0x1_DB71_0641]);
        }
    }
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, clippy::arithmetic_side_effects)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bytes(count: usize) -> Vec<u8> {
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()[3]
        };
        (0..count).map(|_| next()).collect()
    }

    #[test]
    fn every_length_is_copied_and_summed_up() {
        let source = bytes(5000);
        let lengths = (0..1400).step_by(if cfg!(miri) { 23 } else { 1 });
        let lengths = lengths.chain([2047, 2048, 2049, 4096, 4999]);
        for (length, skipped) in lengths.zip((0..33).cycle()) {
            let from = &source[skipped.min(5000 - length)..][..length];
            let expected = crc32fast::hash(from);
            let mut to = vec![0xA5; length + 70];
            assert_eq!(copy(0, from, &mut to[skipped..skipped + length]), expected, "{length}");
            assert_eq!(&to[skipped..skipped + length], from, "{length}");
            assert!(to[..skipped].iter().chain(&to[skipped + length..]).all(|byte| *byte == 0xA5));
            let mut grown = vec![0xA5; skipped];
            assert_eq!(append(0, from, &mut grown), expected, "{length}");
            assert_eq!(&grown[skipped..], from, "{length}");
            assert!(grown[..skipped].iter().all(|byte| *byte == 0xA5));
        }
    }

    #[test]
    fn every_bit_counts() {
        let mut source = bytes(700);
        let mut to = vec![0; 700];
        let whole = copy(0, &source, &mut to);
        // Miri takes a second for each.
        for bit in (0..700 * 8).step_by(if cfg!(miri) { 97 } else { 1 }) {
            source[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(copy(0, &source, &mut to), whole, "{bit}");
            source[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    #[should_panic(expected = "their length")]
    fn a_place_of_another_length_is_refused() {
        copy(0, &[1, 2, 3], &mut [0; 4]);
    }

    proptest! {
        #[test]
        fn sums_go_on_where_they_were(cuts in proptest::collection::vec(0..900_usize, 1..6)) {
            let source = bytes(cuts.iter().sum());
            let (mut sum, mut plain, mut at) = (0, 0, 0);
            let mut copied = Vec::new();
            let mut place = vec![MaybeUninit::uninit(); 900];
            for cut in cuts {
                let part = &source[at..at + cut];
                at += cut;
                sum = append(sum, part, &mut copied);
                plain = one_after_the_other(plain, part, &mut place[..cut]);
                prop_assert_eq!(sum, crc32fast::hash(&source[..at]));
                prop_assert_eq!(plain, sum);
            }
            prop_assert_eq!(copied, source);
        }
    }
}
