//! How a command ends that does not end well: what is printed, and with which exit code.

use std::error::Error;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use iatrocache::ops::OpsError;
use iatrocache::{ErrorKind, ReadError};
use serde_json::{Map, Value};

use crate::output;

/// The exit code of an interrupted command.
pub(crate) const INTERRUPTED: u8 = 130;

/// Result of a command or a part of it.
pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

/// Why a command ends early.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Something to tell.
    Error(Box<Report>),
    /// Whoever read the output has gone: no error.
    PipeClosed,
    /// Ctrl-C.
    Interrupted,
}

/// What is told about an error.
#[derive(Debug, Clone)]
pub(crate) struct Report {
    kind: ErrorKind,
    message: String,
    path: Option<String>,
    row: Option<u64>,
    field: Option<String>,
    /// Lines for people, below the message.
    hint: Option<String>,
}

impl Report {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), path: None, row: None, field: None, hint: None }
    }

    pub(crate) fn path(mut self, path: &Path) -> Self {
        self.path = Some(path.to_string_lossy().into_owned());
        self
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The object that `--json` prints.
    fn to_json(&self) -> Value {
        let mut members = Map::new();
        members.insert("kind".into(), self.kind.as_str().into());
        members.insert("message".into(), self.message.as_str().into());
        if let Some(path) = &self.path {
            members.insert("path".into(), path.as_str().into());
        }
        if let Some(row) = self.row {
            members.insert("row".into(), row.into());
        }
        if let Some(field) = &self.field {
            members.insert("field".into(), field.as_str().into());
        }
        let mut object = Map::new();
        object.insert("error".into(), Value::Object(members));
        Value::Object(object)
    }
}

impl Failure {
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Report::new(ErrorKind::Usage, message).into()
    }

    /// A codec that was asked for cannot be made.
    #[cfg(any(feature = "text", feature = "arrays"))]
    pub(crate) fn codec(error: &iatrocache::CodecError) -> Self {
        let kind = ErrorKind::from_name(error.kind().as_str()).unwrap_or(ErrorKind::Usage);
        let mut report = Report::new(kind, format!("--codec: {error}"));
        report.hint = hint_of(kind);
        report.into()
    }

    /// Something that other builds have.
    pub(crate) fn not_compiled_in(what: &str, feature: &str) -> Self {
        let message = format!("{what} is not compiled in (it needs the feature `{feature}`)");
        let mut report = Report::new(ErrorKind::MissingFeature, message);
        report.hint = hint_of(ErrorKind::MissingFeature);
        report.into()
    }

    /// A failure of the system on a file or folder.
    pub(crate) fn io(path: &Path, action: &str, error: &io::Error) -> Self {
        let message = format!("{}: {action}: {error}", path.display());
        Report::new(ErrorKind::Io, human_safe(&message)).path(path).into()
    }

    /// A failure to write results.
    pub(crate) fn output(error: &io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::PipeClosed;
        }
        Report::new(ErrorKind::Io, format!("standard output: {error}")).into()
    }

    /// What kind of error it is, where it is one.
    pub(crate) fn kind(&self) -> Option<ErrorKind> {
        match self {
            Self::Error(report) => Some(report.kind),
            _ => None,
        }
    }

    /// Adds a hint for people to an error.
    pub(crate) fn with_hint(self, hint: impl Into<String>) -> Self {
        match self {
            Self::Error(report) => report.hint(hint).into(),
            other => other,
        }
    }

    /// Prints the failure and gives the exit code.
    pub(crate) fn report(&self, json: bool) -> ExitCode {
        match self {
            Self::PipeClosed => ExitCode::SUCCESS,
            Self::Interrupted => ExitCode::from(INTERRUPTED),
            Self::Error(report) => {
                if json {
                    output::error_line(&report.to_json().to_string());
                } else {
                    // Not every message went through `human_safe` where it was made.
                    let hint = report.hint.as_deref().unwrap_or_default();
                    let hint: Vec<String> = hint.lines().map(human_safe).collect();
                    output::error(&human_safe(&report.message), Some(&hint.join("\n")));
                }
                ExitCode::from(exit_code(report.kind))
            }
        }
    }
}

impl From<Report> for Failure {
    fn from(report: Report) -> Self {
        Self::Error(Box::new(report))
    }
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Self {
        let mut report = Report::new(error.kind(), one_line(&error)).path(Path::new(error.path()));
        report.row = error.row();
        report.field = error.field().map(str::to_owned);
        report.hint = hint_of(error.kind());
        let in_bucket = ["s3://", "gs://", "az://"].iter().any(|it| error.path().starts_with(it));
        if in_bucket && error.kind() == ErrorKind::Io {
            report.hint = Some("credentials and region come from the environment".to_owned());
        }
        report.into()
    }
}

impl From<OpsError> for Failure {
    fn from(error: OpsError) -> Self {
        if error.is_cancelled() {
            return Self::Interrupted;
        }
        if let OpsError::Output { source } = &error {
            return Self::output(source);
        }
        let mut report = Report::new(error.kind(), one_line(&error));
        report.path = error.path().map(|path| path.to_string_lossy().into_owned());
        report.row = error.row();
        report.field = error.field().map(str::to_owned);
        report.hint = match error {
            OpsError::Expansion { .. } => {
                Some("--allow-expansion writes them all the same".to_owned())
            }
            _ => hint_at(error.kind(), error.path()),
        };
        report.into()
    }
}

impl From<iatrocache::adapters::AdapterError> for Failure {
    fn from(error: iatrocache::adapters::AdapterError) -> Self {
        use iatrocache::adapters::AdapterError;
        let error = match error {
            AdapterError::Ops(error) => return (*error).into(),
            AdapterError::Read(error) => return error.into(),
            other => other,
        };
        let mut report = Report::new(error.kind(), one_line(&error));
        report.path = error.path().map(|path| path.to_string_lossy().into_owned());
        report.row = error.row();
        report.field = error.field().map(str::to_owned);
        report.hint = hint_at(error.kind(), error.path());
        report.into()
    }
}

#[cfg(feature = "arrays")]
impl From<iatrocache::arrays::ArrayError> for Failure {
    fn from(error: iatrocache::arrays::ArrayError) -> Self {
        // What the system or an object store said is in the sources.
        let mut message = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            message.push_str(": ");
            message.push_str(&cause.to_string());
            source = cause.source();
        }
        let mut report = Report::new(error.kind(), human_safe(&message));
        match &error {
            iatrocache::arrays::ArrayError::Exists { what: "file", .. } => {
                report.hint = Some("--overwrite replaces it".to_owned());
            }
            iatrocache::arrays::ArrayError::File { path, .. } => {
                report.path = Some(path.to_string_lossy().into_owned());
            }
            _ => {}
        }
        report.into()
    }
}

/// Carries a failure of this program out of a library call whose callback met it.
#[derive(Debug, Default)]
pub(crate) struct Relay(Option<Failure>);

impl Relay {
    /// What the callback returns.
    pub(crate) fn pass(&mut self, result: Result<()>) -> Result<(), OpsError> {
        result.map_err(|failure| {
            self.0 = Some(failure);
            OpsError::Cancelled
        })
    }

    /// What the call has come to.
    pub(crate) fn settle<T, E: Into<Failure>>(self, result: Result<T, E>) -> Result<T> {
        match self.0 {
            Some(failure) => Err(failure),
            None => result.map_err(Into::into),
        }
    }
}

/// The exit code that belongs to an error's kind.
pub(crate) const fn exit_code(kind: ErrorKind) -> u8 {
    match kind {
        ErrorKind::NotIac
        | ErrorKind::Damaged
        | ErrorKind::Checksum
        | ErrorKind::Schema
        | ErrorKind::Decode
        | ErrorKind::Limit => 1,
        ErrorKind::Usage
        | ErrorKind::RowOutOfRange
        | ErrorKind::Exists
        | ErrorKind::NoRecordIndex => 2,
        ErrorKind::UnsupportedVersion
        | ErrorKind::MissingFeature
        | ErrorKind::UnknownCodec
        | ErrorKind::UnsupportedExtension
        | ErrorKind::Unsupported => 4,
        // What is left is the system's failure; a kind unknown here cannot be the caller's fault.
        _ => 3,
    }
}

/// What can be done about an error of this kind that concerns a place.
pub(crate) fn hint_at(kind: ErrorKind, path: Option<&Path>) -> Option<String> {
    if kind == ErrorKind::Exists && path.is_some_and(Path::is_dir) {
        return Some("it is a folder, and folders are not replaced: give another name".to_owned());
    }
    hint_of(kind)
}

/// What can be done about an error of this kind, where that is the same for all of them.
fn hint_of(kind: ErrorKind) -> Option<String> {
    match kind {
        ErrorKind::Exists => Some("--overwrite replaces it".to_owned()),
        ErrorKind::MissingFeature => {
            let build = "cargo install --locked --path crates/iac-cli --features FEATURE";
            Some(format!("`{build}` builds it in (`full`: all codecs, and object stores)"))
        }
        ErrorKind::UnknownCodec => {
            Some(format!("this build has {}", iatrocache::compiled_codecs().join(", ")))
        }
        _ => None,
    }
}

/// An error's message on one line, whatever file names it holds.
fn one_line(error: &dyn Error) -> String {
    human_safe(&error.to_string())
}

/// Escapes characters that could make a terminal do things, or show text in another order than it
/// has: control characters, and marks and overrides of the direction of writing.
pub(crate) fn human_safe(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        if is_unsafe(character) {
            safe.extend(character.escape_default());
        } else {
            safe.push(character);
        }
    }
    safe
}

/// Whether [`human_safe`] escapes a character.
pub(crate) fn is_unsafe(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{61c}'
                | '\u{200e}'
                | '\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2066}'..='\u{2069}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_the_code_of_its_family() {
        for (kind, code) in [
            (ErrorKind::Usage, 2),
            (ErrorKind::RowOutOfRange, 2),
            (ErrorKind::Exists, 2),
            (ErrorKind::NoRecordIndex, 2),
            (ErrorKind::NotIac, 1),
            (ErrorKind::Damaged, 1),
            (ErrorKind::Checksum, 1),
            (ErrorKind::Schema, 1),
            (ErrorKind::Decode, 1),
            (ErrorKind::Limit, 1),
            (ErrorKind::Io, 3),
            (ErrorKind::UnsupportedVersion, 4),
            (ErrorKind::MissingFeature, 4),
            (ErrorKind::UnknownCodec, 4),
            (ErrorKind::UnsupportedExtension, 4),
            (ErrorKind::Unsupported, 4),
        ] {
            assert_eq!(exit_code(kind), code, "{kind}");
        }
    }

    #[test]
    fn what_could_steer_a_terminal_is_escaped() {
        assert_eq!(human_safe("größe 日本 e\u{301} 🙂 a\\b"), "größe 日本 e\u{301} 🙂 a\\b");
        for (text, shown) in [
            ("\u{1b}]0;x\u{7}", "\\u{1b}]0;x\\u{7}"),
            ("a\nb\t\r", "a\\nb\\t\\r"),
            ("\u{9b}31m\u{7f}", "\\u{9b}31m\\u{7f}"),
            ("\u{202e}gpj.exe", "\\u{202e}gpj.exe"),
            ("\u{2066}\u{200f}\u{61c}", "\\u{2066}\\u{200f}\\u{61c}"),
        ] {
            assert_eq!(human_safe(text), shown);
        }
    }

    #[test]
    fn absent_members_are_left_out_of_the_json_error() {
        let report = Report::new(ErrorKind::Io, "it failed");
        assert_eq!(
            report.to_json().to_string(),
            r#"{"error":{"kind":"io","message":"it failed"}}"#
        );
    }
}
