//! What can be wrong with a row predicate, or with the tables that it is asked about.

use arrow_schema::DataType;
use iac_format::ErrorKind;

/// Columns that a message lists before it only counts the rest.
const LISTED_COLUMNS: usize = 40;
/// Characters that [`PredicateError::caret`] shows on each side of the place.
const CARET_CONTEXT: usize = 36;

/// A failure to read a row predicate, or to evaluate it on a pack's tables.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PredicateError {
    /// The expression does not follow the grammar.
    #[error("byte {at} of the row condition: {reason}")]
    Syntax {
        /// Byte offset into the expression; its length when the end came too early.
        at: usize,
        /// Found and expected.
        reason: String,
    },
    /// The expression is longer than any that is read.
    #[error("the row condition has {len} bytes, but at most {max} are read")]
    TooLong {
        /// Length in bytes.
        len: usize,
        /// The limit.
        max: usize,
    },
    /// The expression names a column that the table does not have.
    #[error("no column `{column}` ({})", list(.known))]
    UnknownColumn {
        /// Byte offset into the expression.
        at: usize,
        /// The name, with `slide.` in front for the slide table.
        column: String,
        /// The columns that the table has, written the same way.
        known: Vec<String>,
    },
    /// The expression names a column of which the table has several.
    #[error("column `{column}` is ambiguous: the table has several of that name")]
    AmbiguousColumn {
        /// Byte offset into the expression.
        at: usize,
        /// The name, with `slide.` in front for the slide table.
        column: String,
    },
    /// A column's type does not fit what the expression does with it.
    #[error("column `{column}` ({data_type}): {reason}")]
    Type {
        /// Byte offset into the expression.
        at: usize,
        /// The name, with `slide.` in front for the slide table.
        column: String,
        /// The column's type.
        data_type: DataType,
        /// Why it does not fit.
        reason: String,
    },
    /// The expression uses slide columns, but rows cannot be assigned to slides.
    #[error("slide columns cannot be used here: the index table has no column `slide_idx`")]
    NoSlideIndex {
        /// Byte offset into the expression.
        at: usize,
    },
    /// Two slides have the same number, so rows cannot be assigned to either.
    #[error(
        "slide table: column `slide_idx`: rows {first} and {second} both have the value {value}"
    )]
    RepeatedSlide {
        /// The number.
        value: i128,
        /// The first row of the slide table that has it.
        first: u64,
        /// The second one.
        second: u64,
    },
    /// A table contradicts itself.
    #[error("column `{column}`: {reason}")]
    Damaged {
        /// The name, with `slide.` in front for the slide table.
        column: String,
        /// What is wrong.
        reason: String,
    },
}

impl PredicateError {
    /// The kind that callers branch on.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::Syntax { .. }
            | Self::TooLong { .. }
            | Self::UnknownColumn { .. }
            | Self::AmbiguousColumn { .. }
            | Self::Type { .. }
            | Self::NoSlideIndex { .. } => ErrorKind::Usage,
            Self::RepeatedSlide { .. } => ErrorKind::Schema,
            Self::Damaged { .. } => ErrorKind::Damaged,
        }
    }

    /// The column that is wrong, where one is.
    #[must_use]
    pub fn field(&self) -> Option<&str> {
        match self {
            Self::UnknownColumn { column, .. }
            | Self::AmbiguousColumn { column, .. }
            | Self::Type { column, .. }
            | Self::Damaged { column, .. } => Some(column),
            Self::NoSlideIndex { .. } => Some("slide_idx"),
            Self::RepeatedSlide { .. } => Some("slide.slide_idx"),
            Self::Syntax { .. } | Self::TooLong { .. } => None,
        }
    }

    /// The place in the expression that the error is about, as a byte offset.
    #[must_use]
    pub const fn position(&self) -> Option<usize> {
        match self {
            Self::Syntax { at, .. }
            | Self::UnknownColumn { at, .. }
            | Self::AmbiguousColumn { at, .. }
            | Self::Type { at, .. }
            | Self::NoSlideIndex { at } => Some(*at),
            Self::TooLong { .. } | Self::RepeatedSlide { .. } | Self::Damaged { .. } => None,
        }
    }

    /// Two lines that show the place: the expression around it, and a `^` below.
    ///
    /// ```
    /// use iac_ops::predicate::Predicate;
    ///
    /// let expression = "bytes > and split = 'train'";
    /// if let Err(error) = Predicate::parse(expression) {
    ///     let lines = error.caret(expression);
    ///     assert_eq!(
    ///         lines.as_deref(),
    ///         Some("bytes > and split = 'train'\n        ^")
    ///     );
    /// }
    /// ```
    #[must_use]
    pub fn caret(&self, expression: &str) -> Option<String> {
        let at = self.position()?;
        let before = expression.get(..at)?;
        let after = expression.get(at..)?;
        let skipped = before.chars().count().saturating_sub(CARET_CONTEXT);
        let lead = if skipped > 0 { "..." } else { "" };
        // One line in, one line out, whatever the expression holds.
        let shown = |c: char| if c.is_control() { ' ' } else { c };
        let left: String = before.chars().skip(skipped).map(shown).collect();
        let mut right: String = after.chars().take(CARET_CONTEXT).map(shown).collect();
        if after.chars().nth(CARET_CONTEXT).is_some() {
            right.push_str("...");
        }
        let indent = " ".repeat(lead.len().saturating_add(left.chars().count()));
        Some(format!("{lead}{left}{right}\n{indent}^"))
    }

    pub(super) fn syntax(at: usize, reason: impl Into<String>) -> Self {
        Self::Syntax { at, reason: reason.into() }
    }
}

fn list(known: &[String]) -> String {
    if known.is_empty() {
        return "the table has no columns".to_owned();
    }
    let names: Vec<String> =
        known.iter().take(LISTED_COLUMNS).map(|name| format!("`{name}`")).collect();
    let mut text = format!("the table has {}", names.join(", "));
    let rest = known.len().saturating_sub(LISTED_COLUMNS);
    if rest > 0 {
        text.push_str(&format!(" and {rest} more"));
    }
    text
}

/// Result of this module's operations.
pub(super) type Result<T, E = PredicateError> = std::result::Result<T, E>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caret_shows_a_window_of_a_long_expression_on_one_line() {
        let expression = format!("{}\nX{}", "é".repeat(50), "y".repeat(60));
        let at = expression.find('X').unwrap();
        let text = PredicateError::syntax(at, "odd").caret(&expression).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2);
        let column = lines[1].chars().count() - 1;
        assert_eq!(lines[0].chars().nth(column), Some('X'));
        assert!(lines[0].starts_with("...é") && lines[0].ends_with("y..."));
    }

    #[test]
    fn caret_for_another_expression_is_absent_or_harmless() {
        assert_eq!(PredicateError::syntax(9, "odd").caret("short"), None);
        assert_eq!(PredicateError::syntax(1, "odd").caret("é"), None);
        assert_eq!(PredicateError::syntax(0, "odd").caret("").as_deref(), Some("\n^"));
    }

    #[test]
    fn many_known_columns_are_counted_not_listed() {
        let error = PredicateError::UnknownColumn {
            at: 0,
            column: "x".into(),
            known: (0..1000).map(|i| format!("c{i}")).collect(),
        };
        let text = error.to_string();
        assert!(text.starts_with("no column `x` (the table has `c0`, `c1`, "));
        assert!(text.ends_with("`c39` and 960 more)"), "{text}");
    }
}
