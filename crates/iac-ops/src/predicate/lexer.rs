//! Cuts an expression into tokens, one at a time.

use super::error::{PredicateError, Result};
use super::number::Number;

/// A comparison operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CmpOp {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
    /// A bare word: a keyword or a column.
    Word(String),
    /// A name in double quotes.
    Quoted(String),
    /// A text in single quotes.
    Text(String),
    Number(Number),
    Op(CmpOp),
    Open,
    Close,
    Comma,
    Dot,
    End,
}

impl Token {
    /// How messages name the token.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Word(word) => format!("`{}`", shorten(word)),
            Self::Quoted(name) => format!("the column \"{}\"", shorten(name)),
            Self::Text(text) => format!("the text '{}'", shorten(text)),
            Self::Number(number) => format!("the number {}", shorten(number.text())),
            Self::Op(op) => format!("`{}`", op.symbol()),
            Self::Open => "`(`".to_owned(),
            Self::Close => "`)`".to_owned(),
            Self::Comma => "`,`".to_owned(),
            Self::Dot => "`.`".to_owned(),
            Self::End => "the end".to_owned(),
        }
    }
}

impl CmpOp {
    pub(super) const fn symbol(self) -> &'static str {
        match self {
            Self::Eq => "=",
            Self::Ne => "!=",
            Self::Lt => "<",
            Self::Le => "<=",
            Self::Gt => ">",
            Self::Ge => ">=",
        }
    }

    /// The operator with its sides exchanged.
    pub(super) const fn flipped(self) -> Self {
        match self {
            Self::Eq => Self::Eq,
            Self::Ne => Self::Ne,
            Self::Lt => Self::Gt,
            Self::Le => Self::Ge,
            Self::Gt => Self::Lt,
            Self::Ge => Self::Le,
        }
    }
}

/// Keeps a piece of the expression short enough for a message.
pub(super) fn shorten(text: &str) -> String {
    const SHOWN: usize = 60;
    let mut shown: String = text.chars().take(SHOWN).collect();
    if text.chars().nth(SHOWN).is_some() {
        shown.push_str("...");
    }
    shown.escape_debug().to_string()
}

pub(super) struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Lexer<'a> {
    pub(super) const fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    /// The next token and the byte at which it starts.
    pub(super) fn next(&mut self) -> Result<(usize, Token)> {
        self.take_while(char::is_whitespace);
        let start = self.at;
        let Some(first) = self.peek() else {
            return Ok((start, Token::End));
        };
        let token = match first {
            '(' => self.single(first, Token::Open),
            ')' => self.single(first, Token::Close),
            ',' => self.single(first, Token::Comma),
            '\'' => Token::Text(self.quoted('\'', "text")?),
            '"' => Token::Quoted(self.quoted('"', "name")?),
            '=' | '!' | '<' | '>' => self.operator(start)?,
            '0'..='9' | '+' | '-' | '.' => self.number(start)?,
            _ if is_word_start(first) => Token::Word(self.take_while(is_word).to_owned()),
            _ => {
                let hint = match first {
                    '\u{2018}' | '\u{2019}' | '\u{201c}' | '\u{201d}' => {
                        " (texts take straight single quotes)"
                    }
                    '&' => " (conditions are joined by `and`)",
                    '|' => " (conditions are joined by `or`)",
                    _ => "",
                };
                return Err(PredicateError::syntax(
                    start,
                    format!("unexpected character `{}`{hint}", first.escape_debug()),
                ));
            }
        };
        Ok((start, token))
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn advance(&mut self, by: usize) {
        self.at = self.at.saturating_add(by);
    }

    fn single(&mut self, c: char, token: Token) -> Token {
        self.advance(c.len_utf8());
        token
    }

    fn take_while(&mut self, wanted: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let len = rest.char_indices().find(|&(_, c)| !wanted(c)).map_or(rest.len(), |(at, _)| at);
        self.advance(len);
        rest.get(..len).unwrap_or_default()
    }

    /// What stands between two quotes; a doubled quote stands for itself.
    fn quoted(&mut self, quote: char, what: &str) -> Result<String> {
        let start = self.at;
        self.advance(quote.len_utf8());
        let mut content = String::new();
        loop {
            content.push_str(self.take_while(|c| c != quote));
            if self.peek().is_none() {
                return Err(PredicateError::syntax(
                    start,
                    format!("the {what} that starts here has no closing {quote}"),
                ));
            }
            self.advance(quote.len_utf8());
            if self.peek() != Some(quote) {
                return Ok(content);
            }
            content.push(quote);
            self.advance(quote.len_utf8());
        }
    }

    fn operator(&mut self, start: usize) -> Result<Token> {
        let (op, len) = match self.rest().as_bytes() {
            [b'=', b'=', ..] => (CmpOp::Eq, 2),
            [b'=', ..] => (CmpOp::Eq, 1),
            [b'!', b'=', ..] | [b'<', b'>', ..] => (CmpOp::Ne, 2),
            [b'<', b'=', ..] => (CmpOp::Le, 2),
            [b'<', ..] => (CmpOp::Lt, 1),
            [b'>', b'=', ..] => (CmpOp::Ge, 2),
            [b'>', ..] => (CmpOp::Gt, 1),
            _ => {
                return Err(PredicateError::syntax(start, "unexpected `!` (write `!=` or `not`)"));
            }
        };
        self.advance(len);
        Ok(Token::Op(op))
    }

    fn number(&mut self, start: usize) -> Result<Token> {
        let digit = |c: char| c.is_ascii_digit();
        if matches!(self.peek(), Some('+' | '-')) {
            self.advance(1);
            if !self.starts_a_number() {
                return Err(PredicateError::syntax(
                    start,
                    "a sign without a number (names with special characters take double quotes)",
                ));
            }
        } else if !self.starts_a_number() {
            return Ok(self.single('.', Token::Dot));
        }
        self.take_while(digit);
        if self.peek() == Some('.') {
            self.advance(1);
            self.take_while(digit);
        }
        if matches!(self.peek(), Some('e' | 'E')) {
            self.advance(1);
            if matches!(self.peek(), Some('+' | '-')) {
                self.advance(1);
            }
            if self.take_while(digit).is_empty() {
                return Err(PredicateError::syntax(
                    self.at,
                    "the exponent of the number has no digits",
                ));
            }
        }
        if let Some(next) = self.peek().filter(|&c| is_word(c) || c == '.') {
            return Err(PredicateError::syntax(
                self.at,
                format!("`{}` directly after a number", next.escape_debug()),
            ));
        }
        let text = self.text.get(start..self.at).unwrap_or_default();
        Number::parse(text)
            .map(Token::Number)
            .map_err(|reason| PredicateError::syntax(start, reason))
    }

    fn starts_a_number(&self) -> bool {
        matches!(self.rest().as_bytes(), [b'0'..=b'9', ..] | [b'.', b'0'..=b'9', ..])
    }
}

fn is_word_start(c: char) -> bool {
    c == '_' || c.is_alphabetic()
}

fn is_word(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> Result<Vec<Token>> {
        let mut lexer = Lexer::new(text);
        let mut tokens = Vec::new();
        loop {
            match lexer.next()?.1 {
                Token::End => return Ok(tokens),
                token => tokens.push(token),
            }
        }
    }

    #[test]
    fn quotes_are_escaped_by_doubling() {
        assert_eq!(
            tokens(r#"'it''s' "a ""b""" '' """""#).unwrap(),
            [
                Token::Text("it's".into()),
                Token::Quoted("a \"b\"".into()),
                Token::Text(String::new()),
                Token::Quoted("\"".into()),
            ]
        );
    }

    #[test]
    fn operators_numbers_and_dots_are_told_apart() {
        let found: Vec<String> = tokens("a<=-1.5e-3<>slide.b>=.5==5.!=+7")
            .unwrap()
            .iter()
            .map(Token::describe)
            .collect();
        assert_eq!(
            found,
            [
                "`a`",
                "`<=`",
                "the number -1.5e-3",
                "`!=`",
                "`slide`",
                "`.`",
                "`b`",
                "`>=`",
                "the number .5",
                "`=`",
                "the number 5.",
                "`!=`",
                "the number +7"
            ]
        );
    }

    #[test]
    fn errors_name_the_byte() {
        for (text, at, part) in [
            ("é = 'x", 5, "no closing '"),
            ("\"x", 0, "no closing \""),
            ("a ! b", 2, "`!=`"),
            ("a = 1x", 5, "`x` directly after a number"),
            ("a = 1.2.3", 7, "`.` directly"),
            ("a = 1e", 6, "no digits"),
            ("a = -b", 4, "sign without"),
            ("a = 1 && b", 6, "`and`"),
            ("a = \u{201c}x\u{201d}", 4, "straight"),
            ("a = 1;", 5, "unexpected character `;`"),
        ] {
            let error = tokens(text).unwrap_err();
            assert_eq!(error.position(), Some(at), "{text}");
            assert!(error.to_string().contains(part), "{error}");
        }
    }
}
