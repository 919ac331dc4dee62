//! Errors of the crates as exceptions of Python.
//!
//! Each becomes an exception of the class that the specifications name (`ValueError`, `IndexError`,
//! ...), by way of a subclass in `iatrocache._errors` that carries kind, path, row and field.

use std::fmt::Display;
use std::io;

use iac_array::ArrayError;
use iatrocache::adapters::AdapterError;
use iatrocache::codec::CodecError;
use iatrocache::ops::OpsError;
use iatrocache::{ErrorKind, FormatError, ReadError, WriteError};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;

/// The class of an exception.
#[derive(Debug)]
enum Class {
    Value,
    Index,
    Key,
    Type,
    Runtime,
    Os(io::ErrorKind, Option<i32>),
    /// Somebody asked the work to stop.
    Interrupted,
    /// What Python code raised that was called meanwhile.
    Raised(PyErr),
}

/// An error on its way to Python.
#[derive(Debug)]
pub(crate) struct Fault(Box<Told>);

/// What an exception is made of.
#[derive(Debug)]
struct Told {
    class: Class,
    message: String,
    kind: &'static str,
    path: Option<String>,
    row: Option<u64>,
    field: Option<String>,
}

impl Fault {
    fn new(class: Class, message: impl Display, kind: ErrorKind) -> Self {
        let message = message.to_string();
        let kind = kind.as_str();
        Self(Box::new(Told { class, message, kind, path: None, row: None, field: None }))
    }

    /// An argument that cannot be used.
    pub(crate) fn value(message: impl Display) -> Self {
        Self::new(Class::Value, message, ErrorKind::Usage)
    }

    /// An argument of the wrong type.
    pub(crate) fn argument_type(message: impl Display) -> Self {
        Self::new(Class::Type, message, ErrorKind::Usage)
    }

    /// A row that does not exist.
    pub(crate) fn row(message: impl Display) -> Self {
        Self::new(Class::Index, message, ErrorKind::RowOutOfRange)
    }

    /// Something is used in a state that does not allow it.
    pub(crate) fn state(message: impl Display) -> Self {
        Self::new(Class::Runtime, message, ErrorKind::Usage)
    }

    fn about(mut self, path: Option<String>, row: Option<u64>, field: Option<String>) -> Self {
        (self.0.path, self.0.row, self.0.field) = (path, row, field);
        self
    }
}

impl From<Fault> for PyErr {
    fn from(fault: Fault) -> Self {
        let Told { class, message, kind, path, row, field } = *fault.0;
        let (name, errno) = match class {
            Class::Raised(error) => return error,
            Class::Interrupted => return PyKeyboardInterrupt::new_err(message),
            Class::Value => ("IacValueError", None),
            Class::Index => ("IacIndexError", None),
            Class::Key => ("IacKeyError", None),
            Class::Type => ("IacTypeError", None),
            Class::Runtime => ("IacRuntimeError", None),
            Class::Os(system, errno) => (
                match system {
                    io::ErrorKind::NotFound => "IacFileNotFoundError",
                    io::ErrorKind::AlreadyExists => "IacFileExistsError",
                    io::ErrorKind::IsADirectory => "IacIsADirectoryError",
                    io::ErrorKind::PermissionDenied => "IacPermissionError",
                    _ => "IacOSError",
                },
                errno,
            ),
        };
        Python::attach(|py| {
            let made = py
                .import("iatrocache._errors")
                .and_then(|module| module.getattr("make"))
                .and_then(|make| make.call1((name, &message, kind, path, row, field, errno)));
            match made {
                Ok(exception) => Self::from_value(exception),
                Err(error) => error,
            }
        })
    }
}

/// Turns an error of the crates into an exception.
pub(crate) trait Raise<T> {
    /// The value, or the exception.
    fn raise(self) -> PyResult<T>;
}

impl<T, E: Into<Fault>> Raise<T> for Result<T, E> {
    fn raise(self) -> PyResult<T> {
        self.map_err(|error| PyErr::from(error.into()))
    }
}

fn system(error: &io::Error) -> Class {
    Class::Os(error.kind(), error.raw_os_error())
}

fn class_of_format(error: &FormatError) -> Class {
    match error {
        FormatError::RowOutOfRange { .. } => Class::Index,
        FormatError::NoRecordIndex => Class::Runtime,
        FormatError::HeaderField { reason, .. } | FormatError::Column { reason, .. }
            if reason.starts_with("missing") =>
        {
            Class::Key
        }
        FormatError::HeaderField { field, reason }
            if field == "dtype" && reason.starts_with("unknown element type") =>
        {
            Class::Type
        }
        _ => Class::Value,
    }
}

fn class_of_codec(error: &CodecError) -> Class {
    match error {
        CodecError::Item { source, .. } => class_of_codec(source),
        // The specification has damaged streams of these two fail as if the disk had.
        CodecError::Decode { name, .. } if matches!(name.as_str(), "zstd" | "brotli" | "lz4") => {
            Class::Os(io::ErrorKind::Other, None)
        }
        CodecError::HeaderMember { member: "codec_params", .. } => Class::Type,
        _ => Class::Value,
    }
}

impl From<FormatError> for Fault {
    fn from(error: FormatError) -> Self {
        let (row, field) = (error.row(), error.field().map(str::to_owned));
        Self::new(class_of_format(&error), &error, error.kind()).about(None, row, field)
    }
}

impl From<CodecError> for Fault {
    fn from(error: CodecError) -> Self {
        let kind = ErrorKind::from_name(error.kind().as_str()).unwrap_or(ErrorKind::Decode);
        let field = error.field().map(str::to_owned);
        Self::new(class_of_codec(&error), &error, kind).about(None, None, field)
    }
}

impl From<ReadError> for Fault {
    fn from(error: ReadError) -> Self {
        let class = match &error {
            ReadError::Format { source, .. } => class_of_format(source),
            ReadError::Io { source, .. } => system(source),
            ReadError::Codec { source, .. } => class_of_codec(source),
            ReadError::NotFixed { .. } => Class::Key,
            ReadError::ElementType { .. } => Class::Type,
            ReadError::NoViews { .. } | ReadError::NoTypedView { .. } => Class::Runtime,
            _ => Class::Value,
        };
        let path = Some(error.path().to_owned());
        let (row, field) = (error.row(), error.field().map(str::to_owned));
        Self::new(class, &error, error.kind()).about(path, row, field)
    }
}

impl From<WriteError> for Fault {
    fn from(error: WriteError) -> Self {
        let error = match error {
            WriteError::Payload { path, row, source } => match source.downcast::<PyErr>() {
                Ok(raised) => {
                    return Self::new(Class::Raised(*raised), "", ErrorKind::Usage);
                }
                Err(source) => WriteError::Payload { path, row, source },
            },
            other => other,
        };
        let class = match &error {
            WriteError::Exists { .. } => Class::Os(io::ErrorKind::AlreadyExists, None),
            WriteError::Io { source, .. } => system(source),
            WriteError::Format { source, .. } => class_of_format(source),
            WriteError::Codec { source, .. } => class_of_codec(source),
            WriteError::SourceChanged { .. } => Class::Os(io::ErrorKind::Other, None),
            _ => Class::Value,
        };
        let path = error.path().map(|path| path.display().to_string());
        let field = error.field().map(str::to_owned);
        Self::new(class, &error, error.kind()).about(path, None, field)
    }
}

impl From<OpsError> for Fault {
    fn from(error: OpsError) -> Self {
        let class = match error {
            OpsError::Read(error) => return error.into(),
            OpsError::Write(error) => return error.into(),
            OpsError::Cancelled => Class::Interrupted,
            OpsError::Io { ref source, .. } | OpsError::Output { ref source } => system(source),
            OpsError::Exists { .. } => Class::Os(io::ErrorKind::AlreadyExists, None),
            OpsError::RowOutOfRange { .. } => Class::Index,
            OpsError::Codec { ref source, .. } => class_of_codec(source),
            _ => Class::Value,
        };
        let path = error.path().map(|path| path.display().to_string());
        let (row, field) = (error.row(), error.field().map(str::to_owned));
        Self::new(class, &error, error.kind()).about(path, row, field)
    }
}

impl From<AdapterError> for Fault {
    fn from(error: AdapterError) -> Self {
        let class = match error {
            AdapterError::Read(error) => return error.into(),
            AdapterError::Write(error) => return error.into(),
            AdapterError::Ops(error) => return (*error).into(),
            AdapterError::Listed { ref source, .. } => class_of_adapter(source),
            _ => class_of_adapter(&error),
        };
        let path = error.path().map(|path| path.display().to_string());
        let (row, field) = (error.row(), error.field().map(str::to_owned));
        Self::new(class, &error, error.kind()).about(path, row, field)
    }
}

fn class_of_adapter(error: &AdapterError) -> Class {
    match error {
        AdapterError::Io { source, .. } => system(source),
        AdapterError::Source { kind: ErrorKind::Io, path, .. } => {
            // The system's own answer is text by now.
            let absent = matches!(path.try_exists(), Ok(false));
            let kind = if absent { io::ErrorKind::NotFound } else { io::ErrorKind::Other };
            Class::Os(kind, None)
        }
        AdapterError::Codec { source, .. } => class_of_codec(source),
        AdapterError::RowOutOfRange { .. } => Class::Index,
        AdapterError::UnknownId { field: "patient_id", .. } => Class::Key,
        // Tiles, slides and images are looked for as if they were files.
        AdapterError::UnknownId { .. } => Class::Os(io::ErrorKind::NotFound, None),
        _ => Class::Value,
    }
}

impl From<ArrayError> for Fault {
    fn from(error: ArrayError) -> Self {
        let (class, kind) = match &error {
            ArrayError::NotFound { .. } => (Class::Key, ErrorKind::Usage),
            ArrayError::Exists { .. } => {
                (Class::Os(io::ErrorKind::AlreadyExists, None), ErrorKind::Exists)
            }
            ArrayError::OutOfBounds { .. } => (Class::Index, ErrorKind::RowOutOfRange),
            ArrayError::TooLarge { .. } => (Class::Value, ErrorKind::Limit),
            ArrayError::Corrupt { .. } => (Class::Value, ErrorKind::Damaged),
            ArrayError::Unsupported { .. } => (Class::Value, ErrorKind::Unsupported),
            ArrayError::UnknownCodec { .. } => (Class::Value, ErrorKind::UnknownCodec),
            ArrayError::Conflict { .. }
            | ArrayError::SnapshotExpired { .. }
            | ArrayError::NoConditionalPut => (Class::Runtime, ErrorKind::Usage),
            ArrayError::Store { .. } | ArrayError::System { .. } => {
                (Class::Os(io::ErrorKind::Other, None), ErrorKind::Io)
            }
            ArrayError::Codec { source } => (
                class_of_codec(source),
                ErrorKind::from_name(source.kind().as_str()).unwrap_or(ErrorKind::Decode),
            ),
            ArrayError::Format { source } => (class_of_format(source), source.kind()),
            _ => (Class::Value, ErrorKind::Usage),
        };
        Self::new(class, &error, kind)
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::new(system(&error), &error, ErrorKind::Io)
    }
}

impl From<PyErr> for Fault {
    fn from(error: PyErr) -> Self {
        Self::new(Class::Raised(error), "", ErrorKind::Usage)
    }
}
