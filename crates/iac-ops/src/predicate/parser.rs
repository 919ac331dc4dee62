//! From tokens to an expression tree.

use super::error::{PredicateError, Result};
use super::lexer::{CmpOp, Lexer, Token};
use super::like::Pattern;
use super::number::Number;

/// Bytes that an expression may have.
pub(super) const MAX_LEN: usize = 1 << 20;
/// Parentheses that may be open at once.
const MAX_DEPTH: usize = 64;

/// How conditions are joined. Leaves stand for entries of a list of conditions.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Expr {
    Leaf(usize),
    Not(Box<Expr>),
    And(Vec<Expr>),
    Or(Vec<Expr>),
}

/// One condition over one column.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Leaf {
    /// Byte offset of the column's name in the expression.
    pub(super) at: usize,
    pub(super) column: Column,
    pub(super) test: Test,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Column {
    pub(super) slide: bool,
    pub(super) name: String,
}

/// What a condition asks, before the column's type is known.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Test {
    Compare(CmpOp, Literal),
    In { list: Vec<Literal>, negated: bool },
    Null { negated: bool },
    Like { pattern: Pattern, negated: bool },
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Literal {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
}

/// Reads a whole expression.
pub(super) fn parse(text: &str) -> Result<(Expr, Vec<Leaf>)> {
    if text.len() > MAX_LEN {
        return Err(PredicateError::TooLong { len: text.len(), max: MAX_LEN });
    }
    let mut lexer = Lexer::new(text);
    let (at, token) = lexer.next()?;
    let mut parser = Parser { lexer, at, token, leaves: Vec::new(), depth: 0 };
    let expr = parser.any()?;
    match parser.token {
        Token::End => Ok((expr, parser.leaves)),
        _ => Err(parser.expected("`and`, `or` or the end")),
    }
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    /// Start of the current token.
    at: usize,
    token: Token,
    leaves: Vec<Leaf>,
    depth: usize,
}

impl Parser<'_> {
    /// Conditions joined by `or`.
    fn any(&mut self) -> Result<Expr> {
        let first = self.all()?;
        if !self.is_keyword("or") {
            return Ok(first);
        }
        let mut parts = vec![first];
        while self.take_keyword("or")? {
            parts.push(self.all()?);
        }
        Ok(Expr::Or(parts))
    }

    /// Conditions joined by `and`.
    fn all(&mut self) -> Result<Expr> {
        let first = self.negation()?;
        if !self.is_keyword("and") {
            return Ok(first);
        }
        let mut parts = vec![first];
        while self.take_keyword("and")? {
            parts.push(self.negation()?);
        }
        Ok(Expr::And(parts))
    }

    fn negation(&mut self) -> Result<Expr> {
        // Counted, not nested: a row of `not` must not cost stack.
        let mut negated = false;
        while self.take_keyword("not")? {
            negated = !negated;
        }
        let expr = self.primary()?;
        Ok(if negated { Expr::Not(Box::new(expr)) } else { expr })
    }

    fn primary(&mut self) -> Result<Expr> {
        if self.token != Token::Open {
            return self.condition();
        }
        let opened = self.at;
        self.depth = self.depth.saturating_add(1);
        if self.depth > MAX_DEPTH {
            return Err(PredicateError::syntax(
                opened,
                format!("more than {MAX_DEPTH} parentheses are open"),
            ));
        }
        self.advance()?;
        let expr = self.any()?;
        match self.token {
            Token::Close => self.advance()?,
            Token::End => {
                return Err(PredicateError::syntax(
                    opened,
                    "the parenthesis that opens here is not closed",
                ));
            }
            _ => return Err(self.expected("`and`, `or` or `)`")),
        }
        self.depth = self.depth.saturating_sub(1);
        Ok(expr)
    }

    fn condition(&mut self) -> Result<Expr> {
        if let Some(literal) = self.take_literal()? {
            let Token::Op(op) = self.token else {
                return Err(self.expected("a comparison (`=`, `<`, ...)"));
            };
            self.advance()?;
            let (at, column) = self.column()?;
            return Ok(self.leaf(at, column, Test::Compare(op.flipped(), literal)));
        }
        let (at, column) = self.column()?;
        if let Token::Op(op) = self.token {
            self.advance()?;
            let literal = self.literal()?;
            return Ok(self.leaf(at, column, Test::Compare(op, literal)));
        }
        if self.take_keyword("is")? {
            let negated = self.take_keyword("not")?;
            if !self.take_keyword("null")? {
                return Err(self.expected(if negated { "`null`" } else { "`null` or `not null`" }));
            }
            return Ok(self.leaf(at, column, Test::Null { negated }));
        }
        let negated = self.take_keyword("not")?;
        if self.take_keyword("in")? {
            let list = self.list()?;
            return Ok(self.leaf(at, column, Test::In { list, negated }));
        }
        if self.take_keyword("like")? {
            let pattern = self.pattern()?;
            return Ok(self.leaf(at, column, Test::Like { pattern, negated }));
        }
        Err(self.expected(if negated {
            "`in` or `like`"
        } else {
            "a comparison (`=`, `!=`, `<`, `<=`, `>`, `>=`, `in`, `like`, `is null`)"
        }))
    }

    fn leaf(&mut self, at: usize, column: Column, test: Test) -> Expr {
        let number = self.leaves.len();
        self.leaves.push(Leaf { at, column, test });
        Expr::Leaf(number)
    }

    /// `NAME` or `slide.NAME`.
    fn column(&mut self) -> Result<(usize, Column)> {
        let at = self.at;
        let (name, quoted) = self.name("a column")?;
        if self.token != Token::Dot {
            return Ok((at, Column { slide: false, name }));
        }
        let is_slide = if quoted { name == "slide" } else { name.eq_ignore_ascii_case("slide") };
        if !is_slide {
            return Err(PredicateError::syntax(
                self.at,
                "only `slide` may stand before a point (names with special characters take double quotes)",
            ));
        }
        self.advance()?;
        let (name, _) = self.name("a column of the slide table")?;
        Ok((at, Column { slide: true, name }))
    }

    fn name(&mut self, what: &str) -> Result<(String, bool)> {
        let name = match &self.token {
            Token::Word(word) if !is_reserved(word) => (word.clone(), false),
            Token::Quoted(name) => (name.clone(), true),
            _ => return Err(self.expected(what)),
        };
        self.advance()?;
        Ok(name)
    }

    fn list(&mut self) -> Result<Vec<Literal>> {
        if self.token != Token::Open {
            return Err(self.expected("`(`"));
        }
        self.advance()?;
        let mut list = vec![self.literal()?];
        while self.token == Token::Comma {
            self.advance()?;
            list.push(self.literal()?);
        }
        if self.token != Token::Close {
            return Err(self.expected("`,` or `)`"));
        }
        self.advance()?;
        Ok(list)
    }

    fn pattern(&mut self) -> Result<Pattern> {
        let at = self.at;
        let Token::Text(text) = &self.token else {
            return Err(self.expected("a pattern in single quotes"));
        };
        let text = text.clone();
        self.advance()?;
        let mut escape = None;
        if self.take_keyword("escape")? {
            let Token::Text(text) = &self.token else {
                return Err(self.expected("one character in single quotes"));
            };
            let mut chars = text.chars();
            escape = chars.next();
            if escape.is_none() || chars.next().is_some() {
                return Err(self.expected("one character in single quotes"));
            }
            self.advance()?;
        }
        Pattern::parse(&text, escape).map_err(|reason| PredicateError::syntax(at, reason))
    }

    fn literal(&mut self) -> Result<Literal> {
        if let Some(literal) = self.take_literal()? {
            return Ok(literal);
        }
        let hint = match self.token {
            Token::Quoted(_) => "a value (texts take single quotes)",
            Token::Word(ref word) if !is_reserved(word) => {
                "a value (texts take single quotes, and columns are compared with values only)"
            }
            _ => "a value",
        };
        Err(self.expected(hint))
    }

    fn take_literal(&mut self) -> Result<Option<Literal>> {
        let literal = match &self.token {
            Token::Text(text) => Literal::Text(text.clone()),
            Token::Number(number) => Literal::Number(number.clone()),
            Token::Word(word) if word.eq_ignore_ascii_case("true") => Literal::Bool(true),
            Token::Word(word) if word.eq_ignore_ascii_case("false") => Literal::Bool(false),
            Token::Word(word) if word.eq_ignore_ascii_case("null") => Literal::Null,
            _ => return Ok(None),
        };
        self.advance()?;
        Ok(Some(literal))
    }

    fn is_keyword(&self, keyword: &str) -> bool {
        matches!(&self.token, Token::Word(word) if word.eq_ignore_ascii_case(keyword))
    }

    fn take_keyword(&mut self, keyword: &str) -> Result<bool> {
        let found = self.is_keyword(keyword);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    fn advance(&mut self) -> Result<()> {
        (self.at, self.token) = self.lexer.next()?;
        Ok(())
    }

    fn expected(&self, what: &str) -> PredicateError {
        PredicateError::syntax(self.at, format!("expected {what}, found {}", self.token.describe()))
    }
}

/// Words that only name a column when they stand in double quotes.
fn is_reserved(word: &str) -> bool {
    ["and", "or", "not", "in", "is", "like", "null", "true", "false"]
        .iter()
        .any(|reserved| word.eq_ignore_ascii_case(reserved))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(expr: &Expr) -> String {
        let joined = |parts: &[Expr], by: &str| {
            let parts: Vec<String> = parts.iter().map(shape).collect();
            format!("({})", parts.join(by))
        };
        match expr {
            Expr::Leaf(number) => number.to_string(),
            Expr::Not(inner) => format!("!{}", shape(inner)),
            Expr::And(parts) => joined(parts, "&"),
            Expr::Or(parts) => joined(parts, "|"),
        }
    }

    #[test]
    fn and_binds_tighter_than_or_and_not_tightest() {
        for (text, expected) in [
            ("a=1 or b=1 and c=1", "(0|(1&2))"),
            ("a=1 AND b=1 Or c=1", "((0&1)|2)"),
            ("not a=1 and b=1", "(!0&1)"),
            ("not (a=1 and b=1)", "!(0&1)"),
            ("not not not a=1", "!0"),
            ("((a=1))", "0"),
            ("a=1 and b=1 and c=1", "(0&1&2)"),
        ] {
            assert_eq!(shape(&parse(text).unwrap().0), expected, "{text}");
        }
    }

    #[test]
    fn value_before_the_column_turns_the_comparison() {
        let (_, leaves) = parse("3 < a and 'x' = slide.\"b c\"").unwrap();
        assert!(matches!(leaves[0].test, Test::Compare(CmpOp::Gt, _)));
        assert!(matches!(leaves[1].test, Test::Compare(CmpOp::Eq, _)));
        assert_eq!(leaves[0].at, 4);
        assert!(leaves[1].column.slide);
        assert_eq!(leaves[1].column.name, "b c");
    }

    #[test]
    fn quoted_names_are_columns_whatever_they_hold() {
        let (_, leaves) = parse(r#""and" = 1 or "slide.x" is NULL or slide = 2"#).unwrap();
        let names: Vec<&str> = leaves.iter().map(|l| l.column.name.as_str()).collect();
        assert_eq!(names, ["and", "slide.x", "slide"]);
        assert!(leaves.iter().all(|leaf| !leaf.column.slide));
    }

    #[test]
    fn errors_say_what_was_expected_where() {
        for (text, at, message) in [
            ("", 0, "expected a column, found the end"),
            ("a", 1, "found the end"),
            ("a =", 3, "expected a value, found the end"),
            ("a = \"b\"", 4, "texts take single quotes"),
            ("a = b", 4, "compared with values only"),
            ("a = 1 b = 2", 6, "expected `and`, `or` or the end, found `b`"),
            ("(a = 1", 0, "is not closed"),
            ("(a = 1,", 6, "expected `and`, `or` or `)`, found `,`"),
            ("a in ()", 6, "expected a value, found `)`"),
            ("a in 3", 5, "expected `(`, found the number 3"),
            ("a in (1 2)", 8, "expected `,` or `)`"),
            ("a is 3", 5, "expected `null` or `not null`"),
            ("a is not 3", 9, "expected `null`"),
            ("a not 3", 6, "expected `in` or `like`"),
            ("a like 3", 7, "expected a pattern"),
            ("a like 'b' escape 'xy'", 18, "one character"),
            ("a like 'b%' escape '%'", 7, "other than"),
            ("a.b = 3", 1, "only `slide`"),
            ("slide. = 3", 7, "expected a column of the slide table"),
            ("and = 3", 0, "expected a column, found `and`"),
            ("3 4", 2, "expected a comparison"),
            ("a = 1)", 5, "found `)`"),
        ] {
            let error = parse(text).unwrap_err();
            assert_eq!(error.position(), Some(at), "{text}: {error}");
            assert!(error.to_string().contains(message), "{text}: {error}");
        }
    }

    #[test]
    fn depth_and_length_are_bounded() {
        let nested = |n: usize| format!("{}a=1{}", "(".repeat(n), ")".repeat(n));
        assert!(parse(&nested(MAX_DEPTH)).is_ok());
        let error = parse(&nested(MAX_DEPTH + 1)).unwrap_err();
        assert_eq!(error.position(), Some(MAX_DEPTH));
        assert!(parse(&"(".repeat(MAX_LEN)).is_err());
        assert!(parse(&format!("{}a=1", "not ".repeat(200_000))).is_ok());
        let long = format!("a=1{}", " or a=1".repeat(100_000));
        assert!(parse(&long).is_ok());
        assert!(matches!(parse(&" ".repeat(MAX_LEN + 1)), Err(PredicateError::TooLong { .. })));
    }
}
