//! Patterns of `like`: `%` stands for any text, `_` for any one character.

/// A pattern, cut at its `%`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Pattern {
    first: Piece,
    /// The pieces after the first `%`; empty when there is none.
    rest: Vec<Piece>,
}

/// What stands between two `%`.
#[derive(Debug, Clone, PartialEq)]
enum Piece {
    /// Plain text.
    Text(String),
    /// With at least one `_`, which is `None` here.
    Holes(Vec<Option<char>>),
}

impl Pattern {
    /// Reads a pattern; `escape` makes the character after it, `%`, `_` or itself, an ordinary one.
    pub(super) fn parse(pattern: &str, escape: Option<char>) -> Result<Self, String> {
        let mut pieces = vec![Vec::new()];
        let mut chars = pattern.chars();
        while let Some(c) = chars.next() {
            let element = if Some(c) == escape {
                match chars.next() {
                    Some(next) if next == c || next == '%' || next == '_' => Some(next),
                    _ => {
                        return Err(format!(
                            "the escape character `{}` stands before something other than `%`, `_` or itself",
                            c.escape_debug()
                        ));
                    }
                }
            } else if c == '%' {
                pieces.push(Vec::new());
                continue;
            } else if c == '_' {
                None
            } else {
                Some(c)
            };
            if let Some(piece) = pieces.last_mut() {
                piece.push(element);
            }
        }
        let mut pieces = pieces.into_iter().map(Piece::new);
        Ok(Self {
            first: pieces.next().unwrap_or(Piece::Text(String::new())),
            rest: pieces.collect(),
        })
    }

    /// Whether the whole text fits the pattern.
    pub(super) fn matches(&self, text: &str) -> bool {
        let Some((last, middle)) = self.rest.split_last() else {
            return self.first.strip_from(text) == Some("");
        };
        let Some(mut text) = self.first.strip_from(text) else {
            return false;
        };
        // The leftmost place is always a good one: it leaves the most for what follows.
        for piece in middle {
            match piece.find_in(text) {
                Some(after) => text = after,
                None => return false,
            }
        }
        last.ends(text)
    }
}

impl Piece {
    fn new(elements: Vec<Option<char>>) -> Self {
        match elements.iter().copied().collect::<Option<String>>() {
            Some(text) => Self::Text(text),
            None => Self::Holes(elements),
        }
    }

    /// What follows the piece, if the text starts with it.
    fn strip_from<'a>(&self, text: &'a str) -> Option<&'a str> {
        match self {
            Self::Text(piece) => text.strip_prefix(piece.as_str()),
            Self::Holes(elements) => {
                let mut chars = text.chars();
                elements
                    .iter()
                    .all(|element| fits(*element, chars.next()))
                    .then_some(chars.as_str())
            }
        }
    }

    /// What follows the first place where the piece occurs.
    fn find_in<'a>(&self, text: &'a str) -> Option<&'a str> {
        match self {
            Self::Text(piece) => text.split_once(piece.as_str()).map(|(_, after)| after),
            Self::Holes(_) => {
                let mut chars = text.chars();
                loop {
                    if let Some(after) = self.strip_from(chars.as_str()) {
                        return Some(after);
                    }
                    chars.next()?;
                }
            }
        }
    }

    /// Whether the text ends with the piece.
    fn ends(&self, text: &str) -> bool {
        match self {
            Self::Text(piece) => text.ends_with(piece.as_str()),
            Self::Holes(elements) => {
                let mut chars = text.chars();
                elements.iter().rev().all(|element| fits(*element, chars.next_back()))
            }
        }
    }
}

fn fits(element: Option<char>, found: Option<char>) -> bool {
    found.is_some() && (element.is_none() || element == found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn like(text: &str, pattern: &str) -> bool {
        Pattern::parse(pattern, None).unwrap().matches(text)
    }

    /// The definition, word for word, in exponential time.
    fn slow(text: &[char], pattern: &[char]) -> bool {
        match pattern {
            [] => text.is_empty(),
            ['%', rest @ ..] => (0..=text.len()).any(|skip| slow(&text[skip..], rest)),
            ['_', rest @ ..] => !text.is_empty() && slow(&text[1..], rest),
            [c, rest @ ..] => text.first() == Some(c) && slow(&text[1..], rest),
        }
    }

    #[test]
    fn wildcards_stand_for_texts_and_characters() {
        for (text, pattern, expected) in [
            ("abc", "a%", true),
            ("abc", "%c", true),
            ("abc", "%b%", true),
            ("abc", "abc", true),
            ("abc", "ab", false),
            ("abc", "a_c", true),
            ("aéc", "a_c", true),
            ("ac", "a_c", false),
            ("", "", true),
            ("", "%", true),
            ("", "_", false),
            ("aba", "ab%ba", false),
            ("ABC", "abc", false),
        ] {
            assert_eq!(like(text, pattern), expected, "{text} like {pattern}");
        }
    }

    #[test]
    fn escaped_wildcards_stand_for_themselves() {
        let pattern = Pattern::parse("100!%!!_", Some('!')).unwrap();
        assert!(pattern.matches("100%!x"));
        assert!(!pattern.matches("100x!x"));
        assert!(Pattern::parse("a!", Some('!')).is_err());
        assert!(Pattern::parse("!a", Some('!')).is_err());
    }

    #[test]
    fn pattern_of_many_wildcards_ends_soon() {
        let text = "a".repeat(20_000);
        assert!(!like(&text, &format!("{}b", "%a".repeat(5_000))));
        assert!(!like(&text, &format!("{}b%", "%_a".repeat(200))));
    }

    proptest! {
        #[test]
        fn agrees_with_the_definition(text in "[abé]{0,8}", pattern in "[abé%_]{0,6}") {
            let slowly = slow(
                &text.chars().collect::<Vec<_>>(),
                &pattern.chars().collect::<Vec<_>>(),
            );
            prop_assert_eq!(like(&text, &pattern), slowly);
        }
    }
}
