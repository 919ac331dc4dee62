//! Dates and times of an expression, written as ISO 8601.

/// Nanoseconds of a day.
pub(super) const DAY_NS: i128 = 86_400_000_000_000;

/// A date, or a date with a time of day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Instant {
    /// Nanoseconds since 1970-01-01T00:00; in UTC if `zoned`, else as on the clock.
    pub(super) ns: i128,
    /// Whether the text names an offset from UTC.
    pub(super) zoned: bool,
}

impl Instant {
    /// Reads `YYYY-MM-DD`, optionally with `T` or a space and `HH:MM[:SS[.FRACTION]]`, and then
    /// optionally `Z`, `+HH:MM`, `+HHMM` or `+HH`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut rest = text.as_bytes();
        let year = digits(&mut rest, 4)?;
        literal(&mut rest, b"-")?;
        let month = digits(&mut rest, 2)?;
        literal(&mut rest, b"-")?;
        let day = digits(&mut rest, 2)?;
        let days = days_since_epoch(year, month, day)?;
        let mut ns = days.checked_mul(DAY_NS)?;
        let mut zoned = false;
        if !rest.is_empty() {
            literal(&mut rest, b"Tt ")?;
            ns = ns.checked_add(time_of_day(&mut rest)?)?;
            if !rest.is_empty() {
                zoned = true;
                ns = ns.checked_sub(offset(&mut rest)?)?;
            }
        }
        rest.is_empty().then_some(Self { ns, zoned })
    }
}

fn time_of_day(rest: &mut &[u8]) -> Option<i128> {
    let hour = digits(rest, 2).filter(|&hour| hour < 24)?;
    literal(rest, b":")?;
    let minute = digits(rest, 2).filter(|&minute| minute < 60)?;
    let mut second = 0;
    let mut fraction = 0;
    if literal(rest, b":").is_some() {
        second = digits(rest, 2).filter(|&second| second < 60)?;
        if literal(rest, b".,").is_some() {
            let len = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            let missing = 9_usize.checked_sub(len).filter(|_| len > 0)?;
            let scale = 10_i128.checked_pow(u32::try_from(missing).ok()?)?;
            fraction = digits(rest, len)?.checked_mul(scale)?;
        }
    }
    let minutes = hour.checked_mul(60)?.checked_add(minute)?;
    let seconds = minutes.checked_mul(60)?.checked_add(second)?;
    seconds.checked_mul(1_000_000_000)?.checked_add(fraction)
}

fn offset(rest: &mut &[u8]) -> Option<i128> {
    if literal(rest, b"Zz").is_some() {
        return Some(0);
    }
    let sign = match literal(rest, b"+-")? {
        b'-' => -1,
        _ => 1,
    };
    let hours = digits(rest, 2).filter(|&hours| hours < 24)?;
    let mut minutes = 0;
    if !rest.is_empty() {
        let _ = literal(rest, b":");
        minutes = digits(rest, 2).filter(|&minutes| minutes < 60)?;
    }
    let minutes = hours.checked_mul(60)?.checked_add(minutes)?;
    minutes.checked_mul(60_000_000_000)?.checked_mul(sign)
}

/// Days from 1970-01-01 in the Gregorian calendar, which is extended to the years before it.
fn days_since_epoch(year: i128, month: i128, day: i128) -> Option<i128> {
    let leap = |year: i128| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let (before, length) = match month {
        1 => (0, 31),
        2 => (31, if leap(year) { 29 } else { 28 }),
        3 => (59, 31),
        4 => (90, 30),
        5 => (120, 31),
        6 => (151, 30),
        7 => (181, 31),
        8 => (212, 31),
        9 => (243, 30),
        10 => (273, 31),
        11 => (304, 30),
        12 => (334, 31),
        _ => return None,
    };
    if !(1..=length).contains(&day) {
        return None;
    }
    // Leap days before a year, counted from year 0, which is itself a leap year.
    let leap_days = |year: i128| {
        let last = year.checked_sub(1)?;
        last.div_euclid(4).checked_sub(last.div_euclid(100))?.checked_add(last.div_euclid(400))
    };
    year.checked_sub(1970)?
        .checked_mul(365)?
        .checked_add(leap_days(year)?)?
        .checked_sub(leap_days(1970)?)?
        .checked_add(before)?
        .checked_add(if month > 2 && leap(year) { 1 } else { 0 })?
        .checked_add(day.checked_sub(1)?)
}

fn digits(rest: &mut &[u8], count: usize) -> Option<i128> {
    let (head, tail) = rest.split_at_checked(count)?;
    *rest = tail;
    head.iter().try_fold(0_i128, |value, byte| {
        let digit = byte.is_ascii_digit().then(|| byte.wrapping_sub(b'0'))?;
        value.checked_mul(10)?.checked_add(digit.into())
    })
}

/// Takes one byte if it is among those wanted.
fn literal(rest: &mut &[u8], wanted: &[u8]) -> Option<u8> {
    let (&first, tail) = rest.split_first()?;
    wanted.contains(&first).then(|| {
        *rest = tail;
        first
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_follow_the_calendar() {
        let days = |text: &str| Instant::parse(text).unwrap().ns / DAY_NS;
        for (text, expected) in [
            ("1970-01-01", 0),
            ("1969-12-31", -1),
            ("2000-02-29", 11_016),
            ("2000-03-01", 11_017),
            ("2024-12-31", 20_088),
            ("1900-03-01", -25_508),
            ("0001-01-01", -719_162),
            ("0000-01-01", -719_528),
            ("9999-12-31", 2_932_896),
        ] {
            assert_eq!(days(text), expected, "{text}");
        }
    }

    #[test]
    fn times_and_offsets_are_exact() {
        let base = Instant::parse("2021-05-06").unwrap().ns;
        for (text, ns, zoned) in [
            ("2021-05-06T07:08", 25_680_000_000_000, false),
            ("2021-05-06 07:08:09.5", 25_689_500_000_000, false),
            ("2021-05-06T07:08:09.000000001Z", 25_689_000_000_001, true),
            ("2021-05-06T07:08:09+02:00", 18_489_000_000_000, true),
            ("2021-05-06T07:08:09-0130", 31_089_000_000_000, true),
            ("2021-05-06T00:00+02", -7_200_000_000_000, true),
        ] {
            let instant = Instant::parse(text).unwrap();
            assert_eq!((instant.ns - base, instant.zoned), (ns, zoned), "{text}");
        }
    }

    #[test]
    fn what_is_no_date_is_refused() {
        for text in [
            "",
            "2021",
            "2021-02-29",
            "1900-02-29",
            "2021-13-01",
            "2021-00-01",
            "2021-01-00",
            "2021-1-1",
            "2021-01-01T",
            "2021-01-01T24:00",
            "2021-01-01T10:60",
            "2021-01-01T10:00:60",
            "2021-01-01T10:00:00.",
            "2021-01-01T10:00:00.0000000001",
            "2021-01-01T10:00Zx",
            "2021-01-01T10:00+2",
            "2021-01-01Z",
            "+2021-01-01",
            "２021-01-01",
        ] {
            assert_eq!(Instant::parse(text), None, "{text}");
        }
    }
}
