//! Moving dates by whole days.
//!
//! Days only: times of the day, fractions and time zones stay, so that intervals between any two
//! moments of a patient stay as they were, across midnight and across zones.

/// Number of days since 0000-03-01 of the proleptic Gregorian calendar.
fn days_of(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year.saturating_sub(1) } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let shifted = month.saturating_add(9).rem_euclid(12);
    let of_year = shifted.saturating_mul(153).saturating_add(2).div_euclid(5).saturating_add(day);
    era.saturating_mul(146_097)
        .saturating_add(of_era.saturating_mul(365))
        .saturating_add(of_era.div_euclid(4))
        .saturating_sub(of_era.div_euclid(100))
        .saturating_add(of_year)
        .saturating_sub(1)
}

/// The inverse of `days_of`.
fn date_of(days: i64) -> (i64, i64, i64) {
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let leaps = of_era
        .saturating_sub(of_era.div_euclid(1_460))
        .saturating_add(of_era.div_euclid(36_524))
        .saturating_sub(of_era.div_euclid(146_096));
    let year_of_era = leaps.div_euclid(365);
    let before = year_of_era
        .saturating_mul(365)
        .saturating_add(year_of_era.div_euclid(4))
        .saturating_sub(year_of_era.div_euclid(100));
    let of_year = of_era.saturating_sub(before);
    let shifted = of_year.saturating_mul(5).saturating_add(2).div_euclid(153);
    let passed = shifted.saturating_mul(153).saturating_add(2).div_euclid(5);
    let day = of_year.saturating_sub(passed).saturating_add(1);
    let month = shifted.saturating_add(2).rem_euclid(12).saturating_add(1);
    let year = era.saturating_mul(400).saturating_add(year_of_era);
    (if month <= 2 { year.saturating_add(1) } else { year }, month, day)
}

fn digits(text: &str) -> Option<i64> {
    (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()))
        .then(|| text.parse().ok())
        .flatten()
}

/// Year, month and day of a date whose last parts may be missing.
fn parts(text: &str) -> Option<(i64, Option<i64>, Option<i64>)> {
    let year = digits(text.get(..4)?)?;
    let month = match text.get(4..6) {
        Some(month) => Some(digits(month).filter(|month| (1..=12).contains(month))?),
        None => None,
    };
    let day = match text.get(6..8) {
        Some(day) => Some(digits(day)?),
        None => None,
    };
    if !matches!(text.len(), 4 | 6 | 8) || year == 0 {
        return None;
    }
    if let (Some(month), Some(day)) = (month, day)
        // A day that its month does not have would become another one.
        && date_of(days_of(year, month, day)) != (year, month, day)
    {
        return None;
    }
    Some((year, month, day))
}

/// A date of 4, 6 or 8 digits, moved. One without a day is taken as the middle of its month, one
/// without a month as the middle of its year, and what was missing is missing again.
fn shift_digits(text: &str, days: i64) -> Option<String> {
    let (year, month, day) = parts(text)?;
    let whole =
        days_of(year, month.unwrap_or(7), day.unwrap_or(if month.is_some() { 15 } else { 1 }));
    let (year, new_month, new_day) = date_of(whole.checked_add(days)?);
    if !(1..=9999).contains(&year) {
        return None;
    }
    Some(match (month, day) {
        (None, _) => format!("{year:04}"),
        (_, None) => format!("{year:04}{new_month:02}"),
        _ => format!("{year:04}{new_month:02}{new_day:02}"),
    })
}

/// A DA value, one component: moved, without padding; nothing when it is no date. Dots, as old
/// files have them, are left out.
pub(crate) fn shift_date(text: &str, days: i64) -> Option<String> {
    let text = text.trim_matches([' ', '\0']);
    let bytes = text.as_bytes();
    if bytes.len() == 10 && bytes.get(4) == Some(&b'.') && bytes.get(7) == Some(&b'.') {
        return shift_digits(&text.replace('.', ""), days);
    }
    shift_digits(text, days)
}

/// A DT value, one component. Time, fraction and zone stay.
pub(crate) fn shift_date_time(text: &str, days: i64) -> Option<String> {
    let text = text.trim_matches([' ', '\0']);
    let zone = text.find(['+', '-']).unwrap_or(text.len());
    let (moment, zone) = text.split_at_checked(zone)?;
    let date = moment.get(..moment.len().min(8))?;
    let time = moment.get(date.len()..)?;
    if !is_zone(zone) || !(time.is_empty() || is_time(time)) {
        return None;
    }
    Some(format!("{}{time}{zone}", shift_digits(date, days)?))
}

fn is_zone(text: &str) -> bool {
    text.is_empty() || text.get(1..).is_some_and(|it| it.len() == 4 && digits(it).is_some())
}

/// Whether a TM value, one component, is a time of the day.
pub(crate) fn is_time(text: &str) -> bool {
    let text = text.trim_matches([' ', '\0']).replace(':', "");
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, "0"));
    let number = |range: std::ops::Range<usize>, most: i64| {
        whole.get(range).is_none_or(|part| digits(part).is_some_and(|part| part <= most))
    };
    matches!(whole.len(), 2 | 4 | 6)
        && number(0..2, 23)
        && number(2..4, 59)
        && number(4..6, 60)
        && fraction.len() <= 6
        && digits(fraction).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_dates_are_inverse_over_two_thousand_years() {
        let start = days_of(1000, 1, 1);
        let mut last = (999, 12, 31);
        for days in start..start + 750_000 {
            let date = date_of(days);
            assert_eq!(days_of(date.0, date.1, date.2), days);
            assert!(date > last, "{date:?} after {last:?}");
            last = date;
        }
        assert_eq!(days_of(2000, 3, 1) - days_of(2000, 2, 28), 2);
        assert_eq!(days_of(1900, 3, 1) - days_of(1900, 2, 28), 1);
        assert_eq!(days_of(2024, 1, 1) - days_of(1970, 1, 1), 19_723);
    }

    #[test]
    fn dates_move_by_whole_days() {
        assert_eq!(shift_date("20240301", -1).unwrap(), "20240229");
        assert_eq!(shift_date("20231231 ", 1).unwrap(), "20240101");
        assert_eq!(shift_date("1998.07.05", 0).unwrap(), "19980705");
        for bad in
            ["", "2024013", "20240230", "20241301", "JOHN", "00000101", "2024-1-1", "٢٠٢٤٠١٠١"]
        {
            assert_eq!(shift_date(bad, 1), None, "{bad}");
        }
        assert_eq!(shift_date("00010101", -1), None);
        assert_eq!(shift_date("20240101", i64::MAX), None);
    }

    #[test]
    fn moments_keep_time_fraction_and_zone() {
        assert_eq!(
            shift_date_time("20240229235959.123456+0930", 1).unwrap(),
            "20240301235959.123456+0930"
        );
        assert_eq!(shift_date_time("2024022923", -60).unwrap(), "2023123123");
        assert_eq!(shift_date_time("20240229-0500", 366).unwrap(), "20250301-0500");
        for bad in ["20240229236059", "20240229+5", "20240229x", "SMITH JOHN"] {
            assert_eq!(shift_date_time(bad, 1), None, "{bad}");
        }
    }

    #[test]
    fn missing_parts_of_dates_stay_missing() {
        assert_eq!(shift_date_time("2024", -400).unwrap(), "2023");
        assert_eq!(shift_date_time("202403", -31).unwrap(), "202402");
        assert_eq!(shift_date("1990", 10).unwrap(), "1990");
    }

    #[test]
    fn times_are_told_from_other_texts() {
        for good in ["07", "0730", "073059", "073060.5", "07:30:59", "235959.999999 "] {
            assert!(is_time(good), "{good}");
        }
        for bad in ["", "7", "24", "0760", "JONES", "073059.", "073059.1234567"] {
            assert!(!is_time(bad), "{bad}");
        }
    }
}
