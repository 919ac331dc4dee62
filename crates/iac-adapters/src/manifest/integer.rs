//! Integers as the manifests' other readers understand them.

/// First of the ten digits of each script that writes numbers to base ten (Unicode 15).
const ZEROS: [u32; 68] = [
    0x30, 0x660, 0x6f0, 0x7c0, 0x966, 0x9e6, 0xa66, 0xae6, 0xb66, 0xbe6, 0xc66, 0xce6, 0xd66,
    0xde6, 0xe50, 0xed0, 0xf20, 0x1040, 0x1090, 0x17e0, 0x1810, 0x1946, 0x19d0, 0x1a80, 0x1a90,
    0x1b50, 0x1bb0, 0x1c40, 0x1c50, 0xa620, 0xa8d0, 0xa900, 0xa9d0, 0xa9f0, 0xaa50, 0xabf0, 0xff10,
    0x104a0, 0x10d30, 0x11066, 0x110f0, 0x11136, 0x111d0, 0x112f0, 0x11450, 0x114d0, 0x11650,
    0x116c0, 0x11730, 0x118e0, 0x11950, 0x11c50, 0x11d50, 0x11da0, 0x11f50, 0x16a60, 0x16ac0,
    0x16b50, 0x1d7ce, 0x1d7d8, 0x1d7e2, 0x1d7ec, 0x1d7f6, 0x1e140, 0x1e2f0, 0x1e4f0, 0x1e950,
    0x1fbf0,
];

/// Why a text is no coordinate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoInteger {
    /// It is no integer at all.
    Malformed,
    /// It is one that 64 bits cannot hold.
    TooLarge,
}

/// Reads an integer: white space around it, one sign, digits of any script with single underscores
/// between them.
pub(crate) fn parse_integer(text: &str) -> Result<i64, NoInteger> {
    // What nearly every manifest has.
    if let Some(value) = plain(text.as_bytes()) {
        return Ok(value);
    }
    let text = text.trim_matches(is_space);
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let mut value = Some(0_i64);
    let mut after_digit = false;
    for character in digits.chars() {
        if character == '_' && after_digit {
            after_digit = false;
            continue;
        }
        let digit = digit_of(character).ok_or(NoInteger::Malformed)?;
        value = value.and_then(|value| value.checked_mul(10)).and_then(|value| {
            if negative { value.checked_sub(digit) } else { value.checked_add(digit) }
        });
        after_digit = true;
    }
    // Neither without digits, nor with an underscore at the end.
    if !after_digit {
        return Err(NoInteger::Malformed);
    }
    value.ok_or(NoInteger::TooLarge)
}

fn plain(text: &[u8]) -> Option<i64> {
    if text.is_empty() || text.len() > 18 {
        return None;
    }
    text.iter().try_fold(0_i64, |value, byte| {
        let digit = byte.checked_sub(b'0').filter(|digit| *digit < 10)?;
        value.checked_mul(10)?.checked_add(i64::from(digit))
    })
}

fn is_space(character: char) -> bool {
    character.is_whitespace() || matches!(character, '\u{1c}'..='\u{1f}')
}

fn digit_of(character: char) -> Option<i64> {
    let code = u32::from(character);
    let behind = ZEROS.partition_point(|zero| *zero <= code);
    let zero = ZEROS.get(behind.checked_sub(1)?)?;
    code.checked_sub(*zero).filter(|digit| *digit < 10).map(i64::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_of_all_forms_are_read() {
        for (text, value) in [
            ("0", 0),
            ("-0", 0),
            ("+16", 16),
            (" 8 ", 8),
            ("\u{1f}\t8\u{3000}\u{85}", 8),
            ("007", 7),
            ("0_8", 8),
            ("1_000_000", 1_000_000),
            ("３２", 32),
            ("\u{661}\u{1d7f9}", 13),
            ("-9223372036854775808", i64::MIN),
            ("9223372036854775807", i64::MAX),
            ("000000000000000000000000000000001", 1),
        ] {
            assert_eq!(parse_integer(text), Ok(value), "{text}");
        }
    }

    #[test]
    fn everything_else_is_refused() {
        for text in [
            "", " ", "+", "-", "1.0", "1e3", "0x10", "_1", "1_", "1__0", "+ 1", "--1", "1 2", "½",
            "①", "\0",
        ] {
            assert_eq!(parse_integer(text), Err(NoInteger::Malformed), "{text}");
        }
        for text in ["9223372036854775808", "-9223372036854775809", "1000000000000000000000000"] {
            assert_eq!(parse_integer(text), Err(NoInteger::TooLarge), "{text}");
        }
    }

    #[test]
    fn zeros_are_sorted_and_their_digits_do_not_overlap() {
        assert!(ZEROS.windows(2).all(|pair| pair[0] + 10 <= pair[1]));
    }
}
