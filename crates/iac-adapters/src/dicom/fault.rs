//! What is wrong with one object, before it is known which file it came from.

use std::fmt;

use dicom_core::Tag;
use iac_format::ErrorKind;

use super::object::tag_text;

/// Why an object cannot be used. No value of the object is ever part of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) kind: ErrorKind,
    pub(crate) tag: Option<Tag>,
    pub(crate) reason: String,
}

impl Fault {
    pub(crate) fn new(kind: ErrorKind, reason: impl Into<String>) -> Self {
        Self { kind, tag: None, reason: reason.into() }
    }

    pub(crate) fn decode(reason: impl Into<String>) -> Self {
        Self::new(ErrorKind::Decode, reason)
    }

    pub(crate) fn schema(tag: Tag, reason: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Schema, tag: Some(tag), reason: reason.into() }
    }

    pub(crate) fn unsupported(reason: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unsupported, reason)
    }

    pub(crate) fn at(mut self, tag: Tag) -> Self {
        self.tag = Some(tag);
        self
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.tag {
            Some(tag) => write!(f, "element {}: {}", tag_text(tag), self.reason),
            None => f.write_str(&self.reason),
        }
    }
}

pub(crate) type Result<T, E = Fault> = std::result::Result<T, E>;
