//! Decimal and integer strings: what they mean, and how they are spelled when only that is known.

/// The number of a decimal string's component; nothing when it is none.
pub(crate) fn decimal(text: &str) -> Option<f64> {
    text.trim().parse().ok()
}

/// The number of an integer string's component; a fraction is cut off.
pub(crate) fn integer(text: &str) -> Option<i64> {
    let text = text.trim();
    if let Ok(number) = text.parse() {
        return Some(number);
    }
    let number: f64 = text.parse().ok()?;
    // Beyond this, doubles are no longer exact.
    if !number.is_finite() || number.abs() > 9_007_199_254_740_992.0 {
        return None;
    }
    format!("{:.0}", number.trunc()).parse().ok()
}

/// The shortest spelling that gives the same double back: `1.5`, `7.0`, `1e+16`, `inf`.
pub(crate) fn spell(number: f64) -> String {
    if number.is_nan() {
        return "nan".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let scientific = format!("{number:e}");
    let Some((mantissa, exponent)) = scientific.split_once('e') else {
        return scientific;
    };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) {
        let fixed = number.to_string();
        return if fixed.contains('.') { fixed } else { format!("{fixed}.0") };
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_are_spelled_as_the_reference_does() {
        for (number, text) in [
            (1.5, "1.5"),
            (7.0, "7.0"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (1e-4, "0.0001"),
            (1.25e-5, "1.25e-05"),
            (-0.0, "-0.0"),
            (1e300, "1e+300"),
            (f64::INFINITY, "inf"),
            (0.1, "0.1"),
            (123456789.125, "123456789.125"),
        ] {
            assert_eq!(spell(number), text);
        }
        assert_eq!(spell(f64::NAN), "nan");
    }

    #[test]
    fn integers_lose_their_fraction_and_nothing_else() {
        assert_eq!(integer("007"), Some(7));
        assert_eq!(integer(" +5"), Some(5));
        assert_eq!(integer("1.5"), Some(1));
        assert_eq!(integer("-2.7"), Some(-2));
        assert_eq!(integer("99999999999"), Some(99_999_999_999));
        for bad in ["", "s1", "nan", "1e300", "inf"] {
            assert_eq!(integer(bad), None, "{bad}");
        }
    }
}
