//! Numbers as people read them.

use std::time::Duration;

/// A number of bytes: `812 B`, `64.0 KiB`, `1.3 GiB`.
pub(crate) fn bytes(count: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if count < 1024 {
        return format!("{count} B");
    }
    let mut value = as_f64(count) / 1024.0;
    let mut shown = "KiB";
    for unit in UNITS {
        shown = unit;
        if value < 1023.95 {
            break;
        }
        value /= 1024.0;
    }
    format!("{value:.1} {shown}")
}

/// A count with separators: `12,345,678`.
pub(crate) fn count(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len().saturating_mul(2));
    for (position, digit) in digits.chars().enumerate() {
        let left = digits.len().saturating_sub(position);
        if position > 0 && left.is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A count with its noun: `1 row`, `2 rows`.
pub(crate) fn counted(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", count(number))
}

/// So much per second, as a number of `unit` of `size` each.
pub(crate) fn per_second(amount: u64, time: Duration) -> f64 {
    let seconds = time.as_secs_f64();
    if seconds > 0.0 { as_f64(amount) / seconds } else { 0.0 }
}

/// A rate in records: `1,234,000/s`, three digits that mean something.
pub(crate) fn record_rate(records: u64, time: Duration) -> String {
    let rate = per_second(records, time);
    let step = 10_f64.powf((rate.max(1.0).log10().floor() - 2.0).max(0.0));
    let rounded = format!("{:.0}", (rate / step).round() * step);
    rounded.parse().map_or(rounded, |whole: u64| format!("{}/s", count(whole)))
}

/// A rate in bytes, in MB (millions) or GB per second.
pub(crate) fn byte_rate(bytes: u64, time: Duration) -> String {
    let rate = per_second(bytes, time) / 1e6;
    if rate >= 1000.0 { format!("{:.1} GB/s", rate / 1000.0) } else { format!("{rate:.0} MB/s") }
}

/// The nearest floating-point number, for display only.
#[expect(clippy::cast_precision_loss, reason = "for display only")]
pub(crate) const fn as_f64(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_shown_in_the_largest_fitting_unit() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(1024), "1.0 KiB");
        assert_eq!(bytes(1_048_575), "1.0 MiB");
        assert_eq!(bytes(u64::MAX), "16.0 EiB");
    }

    #[test]
    fn counts_are_grouped_by_three_digits() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1000), "1,000");
        assert_eq!(count(12_345_678), "12,345,678");
        assert_eq!(counted(1, "row"), "1 row");
        assert_eq!(counted(2, "row"), "2 rows");
    }

    #[test]
    fn rates_keep_three_digits() {
        assert_eq!(record_rate(1_234_567, Duration::from_secs(1)), "1,230,000/s");
        assert_eq!(record_rate(12, Duration::from_secs(1)), "12/s");
        assert_eq!(byte_rate(2_500_000_000, Duration::from_secs(1)), "2.5 GB/s");
        assert_eq!(byte_rate(0, Duration::ZERO), "0 MB/s");
    }
}
