//! Where results and messages go: results to standard output, everything else to standard error.

use std::io::{self, BufWriter, IsTerminal, Stdout, Write};

use serde::Serialize;
use serde_json::Value;

use crate::failure::{Failure, Report, Result};
use iatrocache::ErrorKind;

/// Standard output, buffered. [`Out::finish`] must be called, since only that tells whether all
/// was written.
pub(crate) struct Out {
    inner: BufWriter<Stdout>,
    styled: bool,
}

impl Out {
    pub(crate) fn new() -> Self {
        let stdout = io::stdout();
        let styled = stdout.is_terminal() && colour_wanted();
        Self { inner: BufWriter::with_capacity(64 << 10, stdout), styled }
    }

    /// Standard output for bytes that are no text: refuses a terminal, and says what to do.
    pub(crate) fn binary(what: &str, hint: &str) -> Result<Self> {
        if io::stdout().is_terminal() {
            return Err(Report::new(ErrorKind::Usage, format!("{what} would garble the terminal"))
                .hint(hint)
                .into());
        }
        Ok(Self::new())
    }

    pub(crate) fn is_terminal(&self) -> bool {
        self.inner.get_ref().is_terminal()
    }

    pub(crate) fn line(&mut self, text: &str) -> Result<()> {
        self.bytes(text.as_bytes())?;
        self.bytes(b"\n")
    }

    /// One JSON value on one line.
    pub(crate) fn json(&mut self, value: &Value) -> Result<()> {
        self.line(&value.to_string())
    }

    /// One JSON value on one line, members in the order of the type's fields.
    pub(crate) fn serialized(&mut self, value: &impl Serialize) -> Result<()> {
        let text = serde_json::to_string(value)
            .map_err(|error| Failure::output(&io::Error::other(error)))?;
        self.line(&text)
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Result<()> {
        self.inner.write_all(bytes).map_err(|error| Failure::output(&error))
    }

    pub(crate) fn finish(mut self) -> Result<()> {
        self.inner.flush().map_err(|error| Failure::output(&error))
    }

    pub(crate) fn bold(&self, text: &str) -> String {
        self.styled_with("1", text)
    }

    pub(crate) fn dim(&self, text: &str) -> String {
        self.styled_with("2", text)
    }

    pub(crate) fn good(&self, text: &str) -> String {
        self.styled_with("32", text)
    }

    pub(crate) fn bad(&self, text: &str) -> String {
        self.styled_with("31", text)
    }

    fn styled_with(&self, code: &str, text: &str) -> String {
        if self.styled { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }
}

/// For encoders that write by themselves; their errors keep the kind that tells a closed pipe.
impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.inner.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Whether `NO_COLOR` leaves room for colour.
fn colour_wanted() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Prints an error for people.
pub(crate) fn error(message: &str, hint: Option<&str>) {
    let (start, end) = if io::stderr().is_terminal() && colour_wanted() {
        ("\u{1b}[1;31m", "\u{1b}[0m")
    } else {
        ("", "")
    };
    error_line(&format!("{start}error:{end} {message}"));
    for line in hint.unwrap_or_default().lines() {
        error_line(&format!("  {line}"));
    }
}

/// Prints something that is worth knowing but no failure.
pub(crate) fn note(message: &str) {
    error_line(&format!("note: {message}"));
}

/// Prints a line to standard error; where that is gone, nobody can be told.
pub(crate) fn error_line(text: &str) {
    drop(writeln!(io::stderr().lock(), "{text}"));
}
