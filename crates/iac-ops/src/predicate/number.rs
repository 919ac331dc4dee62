//! Numbers of an expression, kept exactly, and the points of a column's scale that they mark.

use std::cmp::Ordering;

/// A number as it was written: `mantissa` x 10^`exponent`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Number {
    text: String,
    mantissa: i128,
    exponent: i32,
    /// Written without point and exponent.
    integer: bool,
}

impl Number {
    /// Reads a number that the lexer cut out: `[+-] digits [. digits] [e [+-] digits]`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let out_of_range = || "the number is out of range".to_owned();
        let (negative, unsigned) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let (digits, exponent) = match unsigned.split_once(['e', 'E']) {
            Some((digits, exponent)) => {
                (digits, exponent.parse::<i32>().map_err(|_| out_of_range())?)
            }
            None => (unsigned, 0),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let fraction = fraction.trim_end_matches('0');
        let mut mantissa = 0_i128;
        for digit in whole.bytes().chain(fraction.bytes()) {
            mantissa = mantissa
                .checked_mul(10)
                .and_then(|m| m.checked_add(i128::from(digit.wrapping_sub(b'0'))))
                .ok_or_else(|| "the number has too many digits".to_owned())?;
        }
        let exponent = i32::try_from(fraction.len())
            .ok()
            .and_then(|places| exponent.checked_sub(places))
            .ok_or_else(out_of_range)?;
        let number = Self {
            text: text.to_owned(),
            mantissa: if negative { mantissa.wrapping_neg() } else { mantissa },
            exponent,
            integer: !unsigned.contains(['.', 'e', 'E']),
        };
        if number.as_f64().is_finite() { Ok(number) } else { Err(out_of_range()) }
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The nearest double.
    pub(super) fn as_f64(&self) -> f64 {
        self.text.parse().unwrap_or(f64::NAN)
    }

    /// The nearest single, if it is finite.
    pub(super) fn as_f32(&self) -> Option<f32> {
        self.text.parse::<f32>().ok().filter(|f| f.is_finite())
    }

    /// The value, if it was written as an integer.
    pub(super) const fn integer(&self) -> Option<i128> {
        if self.integer { Some(self.mantissa) } else { None }
    }

    /// The number's place among integers that count units of 10^-`scale`.
    pub(super) fn point_at_scale(&self, scale: i32) -> Point<i128> {
        if self.mantissa == 0 {
            return Point::exact(0);
        }
        let shift = self.exponent.saturating_add(scale);
        let power = 10_i128.checked_pow(shift.unsigned_abs());
        if shift >= 0 {
            match power.and_then(|power| self.mantissa.checked_mul(power)) {
                Some(value) => Point::exact(value),
                // Beyond every value that a column can hold.
                None if self.mantissa > 0 => Point { near: i128::MAX, tie: Ordering::Less },
                None => Point { near: i128::MIN, tie: Ordering::Greater },
            }
        } else {
            match power {
                Some(power) => Point::floor(self.mantissa, power),
                // Nearer to zero than one unit.
                None => Point { near: if self.mantissa > 0 { 0 } else { -1 }, tie: Ordering::Less },
            }
        }
    }
}

/// A place on the scale of a column's values, which may lie between two of them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Point<T> {
    /// A value next to the place.
    pub(super) near: T,
    /// How `near` itself compares with the place.
    pub(super) tie: Ordering,
}

impl<T> Point<T> {
    pub(super) const fn exact(near: T) -> Self {
        Self { near, tie: Ordering::Equal }
    }
}

impl<T: PartialOrd> Point<T> {
    /// How a value compares with the place; nothing for what has no order.
    pub(super) fn compare(&self, value: &T) -> Option<Ordering> {
        value.partial_cmp(&self.near).map(|ordering| ordering.then(self.tie))
    }
}

impl Point<i128> {
    /// The place of `dividend / divisor`; the divisor is positive.
    pub(super) fn floor(dividend: i128, divisor: i128) -> Self {
        let near = dividend.checked_div_euclid(divisor).unwrap_or(0);
        let tie = match dividend.checked_rem_euclid(divisor) {
            Some(0) | None => Ordering::Equal,
            Some(_) => Ordering::Less,
        };
        Self { near, tie }
    }
}

impl Point<f64> {
    /// The place of an integer, which may need more digits than a double has.
    pub(super) fn of_integer(number: &Number, integer: i128) -> Self {
        let near = number.as_f64();
        let tie = match exact_integer(near) {
            Some(value) => value.cmp(&integer),
            None if near > 0.0 => Ordering::Greater,
            None => Ordering::Less,
        };
        Self { near, tie }
    }
}

/// The value of a double that is an integer; nothing when it does not fit.
fn exact_integer(value: f64) -> Option<i128> {
    const FRACTION_BITS: u32 = 52;
    /// The exponent's bias, and the bits by which the fraction stands behind the point.
    const BIAS: i64 = 1023 + 52;
    let bits = value.abs().to_bits();
    if bits == 0 {
        return Some(0);
    }
    let fraction = i128::from(bits & ((1 << FRACTION_BITS) - 1));
    // Doubles that are integers other than zero are never subnormal.
    let mantissa = fraction | (1 << FRACTION_BITS);
    let exponent = i64::try_from(bits >> FRACTION_BITS).ok()?;
    let shift = exponent.checked_sub(BIAS)?;
    let magnitude = if shift >= 0 {
        2_i128.checked_pow(u32::try_from(shift).ok()?)?.checked_mul(mantissa)?
    } else {
        mantissa.checked_shr(u32::try_from(shift.unsigned_abs()).ok()?)?
    };
    Some(if value < 0.0 { magnitude.wrapping_neg() } else { magnitude })
}

#[cfg(test)]
mod tests {
    use super::*;
    use Ordering::{Equal, Greater, Less};

    fn number(text: &str) -> Number {
        Number::parse(text).unwrap()
    }

    #[test]
    fn integers_keep_every_digit() {
        for text in [
            "18446744073709551615",
            "-9223372036854775808",
            "170141183460469231731687303715884105727",
        ] {
            assert_eq!(number(text).integer(), Some(text.parse().unwrap()));
        }
        assert_eq!(number("+7").integer(), Some(7));
        assert_eq!(number("007").integer(), Some(7));
        assert_eq!(number("7.0").integer(), None);
        assert!(Number::parse("170141183460469231731687303715884105728").is_err());
        assert!(Number::parse("1e309").is_err());
        assert!(Number::parse("1e99999999999").is_err());
    }

    #[test]
    fn place_among_integers_is_exact() {
        for (text, scale, near, tie) in [
            ("2.0", 0, 2, Equal),
            ("2.5", 0, 2, Less),
            ("-2.5", 0, -3, Less),
            ("2.5", 1, 25, Equal),
            ("1e3", 0, 1000, Equal),
            ("1500", -3, 1, Less),
            ("0.000", 0, 0, Equal),
            ("1e-300", 0, 0, Less),
            ("-1e-300", 0, -1, Less),
            ("1e300", 0, i128::MAX, Less),
            ("-1e300", 0, i128::MIN, Greater),
            ("9007199254740993.0", 0, 9_007_199_254_740_993, Equal),
        ] {
            assert_eq!(number(text).point_at_scale(scale), Point { near, tie }, "{text}");
        }
    }

    #[test]
    fn integer_between_two_doubles_equals_neither() {
        let two53 = 9_007_199_254_740_992.0;
        let odd = number("9007199254740993");
        let point = Point::of_integer(&odd, odd.integer().unwrap());
        assert_eq!(point.compare(&two53), Some(Less));
        assert_eq!(point.compare(&(two53 + 2.0)), Some(Greater));
        assert_eq!(point.compare(&f64::NAN), None);
        let even = number("9007199254740992");
        let point = Point::of_integer(&even, even.integer().unwrap());
        assert_eq!(point.compare(&two53), Some(Equal));
    }

    #[test]
    fn doubles_convert_to_integers_over_the_whole_range() {
        for value in [0.0, -0.0, 1.0, -1.0, 3.0, 65_536.0, 1e15, -1e22, 1e38] {
            let text = format!("{value:.0}");
            assert_eq!(exact_integer(value), text.parse().ok(), "{text}");
        }
        assert_eq!(exact_integer(2.0_f64.powi(126)), Some(1 << 126));
        assert_eq!(exact_integer(2.0_f64.powi(127)), None);
        let max = number("170141183460469231731687303715884105727");
        let point = Point::of_integer(&max, i128::MAX);
        assert_eq!(point.compare(&2.0_f64.powi(127)), Some(Greater));
    }
}
