//! Row numbers as people write them: `3`, `3,9,4`, `10..20`.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use iac_format::TableKind;

use crate::error::{OpsError, Result};

/// Rows in the order in which somebody asked for them, duplicates included.
///
/// Ranges are kept as ranges, so that `0..1152921504606846976` costs nothing until it is compared
/// with a table that has fewer rows.
///
/// ```
/// use iac_ops::rows::RowSelection;
///
/// let rows: RowSelection = "7,2..5".parse()?;
/// assert_eq!(rows.iter().collect::<Vec<_>>(), [7, 2, 3, 4]);
/// assert!("-1".parse::<RowSelection>().is_err());
/// # Ok::<(), iac_ops::OpsError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RowSelection {
    ranges: Vec<Range<u64>>,
}

impl RowSelection {
    /// Every row of a table that has so many.
    #[must_use]
    pub fn all(rows: u64) -> Self {
        Self { ranges: std::iter::once(0..rows).filter(|all| !all.is_empty()).collect() }
    }

    /// Reads a list of rows and ranges, separated by commas: `3`, `3,9,4`, `10..20` (from 10 to
    /// 19), `0..3,7`.
    ///
    /// # Errors
    ///
    /// [`OpsError::Usage`] for anything else; negative numbers get a hint of their own.
    pub fn parse(text: &str) -> Result<Self> {
        let mut selection = Self::default();
        for part in text.split(',') {
            let part = part.trim();
            match part.split_once("..") {
                Some((start, end)) => {
                    let (start, end) = (number(start, text)?, number(end, text)?);
                    if end < start {
                        return Err(OpsError::usage(format!(
                            "rows `{part}`: the range ends before it begins"
                        )));
                    }
                    selection.push(start..end);
                }
                None => {
                    let row = number(part, text)?;
                    let end = row.checked_add(1).ok_or_else(|| {
                        OpsError::usage(format!("row {row} is larger than any table"))
                    })?;
                    selection.push(row..end);
                }
            }
        }
        Ok(selection)
    }

    fn push(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        match self.ranges.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => self.ranges.push(range),
        }
    }

    /// Tests every row against the size of the table that they are meant for.
    ///
    /// # Errors
    ///
    /// [`OpsError::RowOutOfRange`] with the first row that the table does not have.
    pub fn check(&self, path: &str, table: TableKind, rows: u64) -> Result<()> {
        for range in &self.ranges {
            if range.end > rows {
                return Err(OpsError::RowOutOfRange {
                    path: path.to_owned(),
                    table,
                    row: range.start.max(rows),
                    rows,
                });
            }
        }
        Ok(())
    }

    /// The first so many of the rows.
    #[must_use]
    pub fn first(&self, limit: u64) -> Self {
        let mut left = limit;
        let mut kept = Self::default();
        for range in &self.ranges {
            let end = range.end.min(range.start.saturating_add(left));
            left = left.saturating_sub(end.saturating_sub(range.start));
            kept.push(range.start..end);
        }
        kept
    }

    /// Number of rows, duplicates included; 2^64 - 1 when there are more.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.ranges
            .iter()
            .map(|range| range.end.saturating_sub(range.start))
            .fold(0, u64::saturating_add)
    }

    /// Whether no row is selected.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The rows in order.
    pub fn iter(&self) -> impl Iterator<Item = u64> + Send + '_ {
        self.ranges.iter().cloned().flatten()
    }
}

impl FromStr for RowSelection {
    type Err = OpsError;

    fn from_str(text: &str) -> Result<Self> {
        Self::parse(text)
    }
}

impl FromIterator<u64> for RowSelection {
    fn from_iter<I: IntoIterator<Item = u64>>(rows: I) -> Self {
        let mut selection = Self::default();
        for row in rows {
            // No table has 2^64 rows: the largest number counts as the one below, which is refused
            // all the same when it is compared with a table.
            let start = row.min(u64::MAX.wrapping_sub(1));
            selection.push(start..start.saturating_add(1));
        }
        selection
    }
}

impl fmt::Display for RowSelection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, range) in self.ranges.iter().enumerate() {
            if position > 0 {
                f.write_str(",")?;
            }
            if range.start.checked_add(1) == Some(range.end) {
                write!(f, "{}", range.start)?;
            } else {
                write!(f, "{}..{}", range.start, range.end)?;
            }
        }
        Ok(())
    }
}

fn number(text: &str, whole: &str) -> Result<u64> {
    let digits = text.trim();
    if digits.strip_prefix('-').is_some_and(|rest| !rest.is_empty() && all_digits(rest)) {
        return Err(OpsError::usage(format!(
            "row {digits}: rows are counted from 0, and there is no counting from the end (the last of n rows is n - 1; `iac info` shows n)"
        )));
    }
    if digits.is_empty() {
        return Err(OpsError::usage(format!(
            "rows `{whole}`: a row number is missing (write `3`, `3,9,4` or `10..20`)"
        )));
    }
    if !all_digits(digits) {
        return Err(OpsError::usage(format!(
            "rows `{whole}`: `{digits}` is not a row number (write `3`, `3,9,4` or `10..20`)"
        )));
    }
    digits.parse().map_err(|_| OpsError::usage(format!("row {digits} is larger than any table")))
}

fn all_digits(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use iac_format::ErrorKind;

    fn list(text: &str) -> Vec<u64> {
        RowSelection::parse(text).unwrap().iter().collect()
    }

    #[test]
    fn single_rows_lists_and_ranges_keep_their_order() {
        assert_eq!(list("3"), [3]);
        assert_eq!(list("3,9,4"), [3, 9, 4]);
        assert_eq!(list("10..13"), [10, 11, 12]);
        assert_eq!(list(" 1 , 3 .. 5 ,1,1"), [1, 3, 4, 1, 1]);
        assert!(list("4..4").is_empty());
    }

    #[test]
    fn negative_rows_get_a_hint() {
        for text in ["-1", "3,-1", "-3..2", "0..-1"] {
            let error = RowSelection::parse(text).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Usage);
            assert!(error.to_string().contains("counted from 0"), "{error}");
        }
    }

    #[test]
    fn what_is_no_row_is_refused() {
        for text in [
            "",
            ",",
            "1,",
            "a",
            "1.5",
            "1..",
            "..3",
            "..",
            "5..2",
            "1...3",
            "0x10",
            "+1",
            "１",
            "18446744073709551615",
            "18446744073709551616",
        ] {
            let error = RowSelection::parse(text).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Usage, "{text}");
        }
    }

    #[test]
    fn a_huge_range_is_compared_with_the_table_not_counted_out() {
        let rows = RowSelection::parse("5..1152921504606846976").unwrap();
        assert_eq!(rows.len(), (1 << 60) - 5);
        let error = rows.check("a.iac", TableKind::Index, 10).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::RowOutOfRange);
        assert_eq!(error.row(), Some(10));
        let error = RowSelection::parse("12").unwrap().check("a.iac", TableKind::Index, 10);
        assert_eq!(error.unwrap_err().row(), Some(12));
        let whole = RowSelection::parse("0..10").unwrap();
        whole.check("a.iac", TableKind::Index, 10).unwrap();
    }

    #[test]
    fn the_first_rows_are_cut_inside_a_range() {
        let rows = RowSelection::parse("7,2..5,9").unwrap();
        assert_eq!(rows.first(3).iter().collect::<Vec<_>>(), [7, 2, 3]);
        assert!(rows.first(0).is_empty());
        assert_eq!(rows.first(u64::MAX), rows);
    }

    #[test]
    fn the_shown_form_reads_back() {
        for text in ["3", "3,9,4", "10..20,7", "0..2"] {
            assert_eq!(RowSelection::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(RowSelection::from_iter([1, 2, 3, 9]).to_string(), "1..4,9");
    }
}
