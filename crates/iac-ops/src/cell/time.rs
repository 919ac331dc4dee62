//! Dates and times as ISO 8601 texts, over the whole range of their integers.

use arrow_schema::TimeUnit;

const SECONDS_OF_DAY: i64 = 86_400;

/// Parts of a second in one second, and the digits that they need.
const fn parts(unit: TimeUnit) -> (i64, usize) {
    match unit {
        TimeUnit::Second => (1, 0),
        TimeUnit::Millisecond => (1000, 3),
        TimeUnit::Microsecond => (1_000_000, 6),
        TimeUnit::Nanosecond => (1_000_000_000, 9),
    }
}

/// Quotient rounded down, and the rest that is never negative.
const fn divide(value: i64, by: i64) -> (i64, i64) {
    // Divisors here are positive constants.
    match (value.checked_div_euclid(by), value.checked_rem_euclid(by)) {
        (Some(quotient), Some(rest)) => (quotient, rest),
        _ => (0, 0),
    }
}

/// `2024-05-31` from days since 1970-01-01.
pub(super) fn date(days: i64) -> String {
    // Years that begin in March end with the leap day, so lengths of months do not change.
    const FROM_MARCH_0000_TO_1970: i64 = 719_468;
    const STARTS: [i64; 12] = [0, 31, 61, 92, 122, 153, 184, 214, 245, 275, 306, 337];
    let (cycle, day) = divide(days.wrapping_add(FROM_MARCH_0000_TO_1970), 146_097);
    let century = (day / 36_524).min(3);
    let day = day.wrapping_sub(century.wrapping_mul(36_524));
    let (four, day) = divide(day, 1461);
    let year = (day / 365).min(3);
    let day = day.wrapping_sub(year.wrapping_mul(365));
    let month = STARTS.iter().rposition(|start| *start <= day).unwrap_or(0);
    let of_month = day.wrapping_sub(STARTS.get(month).copied().unwrap_or(0)).wrapping_add(1);
    let year = cycle
        .wrapping_mul(400)
        .wrapping_add(century.wrapping_mul(100))
        .wrapping_add(four.wrapping_mul(4))
        .wrapping_add(year);
    // Ten months from March belong to the year, January and February to the next.
    let (year, month) = if month < 10 {
        (year, month.wrapping_add(3))
    } else {
        (year.wrapping_add(1), month.wrapping_sub(9))
    };
    let year = if (0..=9999).contains(&year) {
        format!("{year:04}")
    } else {
        // ISO 8601 wants a sign on years that need more digits.
        format!("{year:+07}")
    };
    format!("{year}-{month:02}-{of_month:02}")
}

/// A date in milliseconds; with a time of day where it has one, which it should not.
pub(super) fn date_of_millis(millis: i64) -> String {
    let (days, rest) = divide(millis, SECONDS_OF_DAY.wrapping_mul(1000));
    if rest == 0 { date(days) } else { timestamp(millis, TimeUnit::Millisecond, false) }
}

/// `14:30:00.5` with as many digits of the fraction as the unit has, or none.
fn clock(seconds: i64, fraction: i64, digits: usize) -> String {
    let (minutes, second) = divide(seconds, 60);
    let (hour, minute) = divide(minutes, 60);
    let clock = format!("{hour:02}:{minute:02}:{second:02}");
    if fraction == 0 { clock } else { format!("{clock}.{fraction:0digits$}") }
}

/// A time of day.
pub(super) fn time_of_day(value: i64, unit: TimeUnit) -> String {
    let (per_second, digits) = parts(unit);
    let (seconds, fraction) = divide(value, per_second);
    clock(seconds, fraction, digits)
}

/// `2024-05-31T14:30:00`, with `Z` when it is a moment rather than what a clock shows.
pub(super) fn timestamp(value: i64, unit: TimeUnit, utc: bool) -> String {
    let (per_second, digits) = parts(unit);
    let (seconds, fraction) = divide(value, per_second);
    let (days, of_day) = divide(seconds, SECONDS_OF_DAY);
    let zone = if utc { "Z" } else { "" };
    format!("{}T{}{zone}", date(days), clock(of_day, fraction, digits))
}

/// `PT90.5S`
pub(super) fn duration(value: i64, unit: TimeUnit) -> String {
    let (per_second, digits) = parts(unit);
    format!("PT{}S", seconds(value, per_second, digits))
}

/// `P1M2DT3.5S`; parts that are zero are left out.
pub(super) fn interval(months: i32, days: i32, nanos: i64) -> String {
    let mut text = String::from("P");
    if months != 0 {
        text.push_str(&format!("{months}M"));
    }
    if days != 0 {
        text.push_str(&format!("{days}D"));
    }
    if nanos != 0 || text.len() == 1 {
        text.push_str(&format!("T{}S", seconds(nanos, 1_000_000_000, 9)));
    }
    text
}

/// Seconds with a fraction as short as possible.
fn seconds(value: i64, per_second: i64, digits: usize) -> String {
    let sign = if value < 0 { "-" } else { "" };
    let parts = value.unsigned_abs();
    let per_second = per_second.unsigned_abs();
    let whole = parts.checked_div(per_second).unwrap_or(0);
    let fraction = parts.checked_rem(per_second).unwrap_or(0);
    if fraction == 0 {
        return format!("{sign}{whole}");
    }
    let fraction = format!("{fraction:0digits$}");
    format!("{sign}{whole}.{}", fraction.trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_known_from_calendars() {
        for (days, text) in [
            (0, "1970-01-01"),
            (-1, "1969-12-31"),
            (11_016, "2000-02-29"),
            (11_017, "2000-03-01"),
            (19_000, "2022-01-08"),
            (-25_509, "1900-02-28"),
            (-25_508, "1900-03-01"),
            (2_932_896, "9999-12-31"),
            (2_932_897, "+010000-01-01"),
            (-719_528, "0000-01-01"),
            (-719_529, "-000001-12-31"),
        ] {
            assert_eq!(date(days), text);
        }
    }

    #[test]
    fn each_day_follows_the_one_before() {
        let leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let (mut year, mut month, mut day) = (1600_i64, 1, 1);
        for days in -135_140..60_000 {
            assert_eq!(date(days), format!("{year:04}-{month:02}-{day:02}"));
            let length = match month {
                2 if leap(year) => 29,
                2 => 28,
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            day += 1;
            if day > length {
                (day, month) = (1, month + 1);
            }
            if month > 12 {
                (month, year) = (1, year + 1);
            }
        }
    }

    #[test]
    fn fractions_keep_their_unit_and_whole_seconds_have_none() {
        let show = |value, unit| timestamp(value, unit, true);
        assert_eq!(
            show(1_700_000_000_000_001, TimeUnit::Microsecond),
            "2023-11-14T22:13:20.000001Z"
        );
        assert_eq!(show(1_700_000_000, TimeUnit::Second), "2023-11-14T22:13:20Z");
        assert_eq!(timestamp(-1, TimeUnit::Nanosecond, false), "1969-12-31T23:59:59.999999999");
        assert_eq!(time_of_day(3_661_500, TimeUnit::Millisecond), "01:01:01.500");
    }

    #[test]
    fn the_largest_and_smallest_values_are_shown() {
        for unit in
            [TimeUnit::Second, TimeUnit::Millisecond, TimeUnit::Microsecond, TimeUnit::Nanosecond]
        {
            for value in [i64::MIN, i64::MAX] {
                assert!(timestamp(value, unit, true).ends_with('Z'));
                assert!(duration(value, unit).starts_with("PT"));
                time_of_day(value, unit);
                date_of_millis(value);
            }
        }
        assert_eq!(
            interval(i32::MIN, i32::MIN, i64::MIN),
            "P-2147483648M-2147483648DT-9223372036.854775808S"
        );
    }

    #[test]
    fn durations_and_intervals() {
        assert_eq!(duration(1500, TimeUnit::Millisecond), "PT1.5S");
        assert_eq!(duration(-1, TimeUnit::Nanosecond), "PT-0.000000001S");
        assert_eq!(interval(1, 2, 3_500_000_000), "P1M2DT3.5S");
        assert_eq!(interval(0, 0, 0), "PT0S");
        assert_eq!(interval(14, 0, 0), "P14M");
    }
}
