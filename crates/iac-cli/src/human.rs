//! Numbers as people read them.

use std::time::Duration;

use iatrocache::ops::dicom::{DicomCounts, Tally};

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

/// Values that are told of one sort before the others are only counted.
const TOLD: usize = 6;

/// What a pack of medical objects holds, as names and texts.
pub(crate) fn objects(objects: &DicomCounts) -> Vec<(&'static str, String)> {
    let series = format!("{} series", count(objects.series));
    let studies = match objects.studies {
        1 => "1 study".to_owned(),
        studies => format!("{} studies", count(studies)),
    };
    let instances = counted(objects.instances, "instance");
    let images = format!("{} with an image", count(objects.images));
    let mut found = vec![("objects", format!("{studies}, {series}, {instances}, {images}"))];
    for (name, tallies) in [
        ("modalities", &objects.modalities),
        ("syntaxes", &objects.transfer_syntaxes),
        ("bits stored", &objects.bits_stored),
        ("image sizes", &objects.sizes),
    ] {
        if !tallies.is_empty() {
            found.push((name, told(tallies)));
        }
    }
    found
}

fn told(tallies: &[Tally]) -> String {
    let mut texts: Vec<String> = tallies
        .iter()
        .take(TOLD)
        .map(|tally| {
            let value = if tally.value.is_empty() { "none" } else { &tally.value };
            format!("{value} ({})", count(tally.count))
        })
        .collect();
    let more = tallies.len().saturating_sub(TOLD);
    if more > 0 {
        texts.push(format!("{more} more"));
    }
    texts.join(", ")
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
