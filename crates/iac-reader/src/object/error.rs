//! What the crate `object_store` reports, in words that say what to do.

use std::error::Error as _;
use std::io;

use object_store::Error;
use object_store::client::{HttpError, HttpErrorKind};

/// Most characters of a server's own words that a message repeats.
const MOST_CHARACTERS: usize = 300;

/// What was tried when a request failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Attempt {
    /// The first look at the object.
    Open,
    /// A read of an object that is open.
    Read,
}

/// The error of a request as one sentence.
pub(crate) fn io_error(error: &Error, attempt: Attempt) -> io::Error {
    let opened = attempt == Attempt::Read;
    let (kind, message) = match error {
        Error::NotFound { .. } if opened => {
            (io::ErrorKind::NotFound, "the object was deleted while it was open".to_owned())
        }
        Error::NotFound { .. } => {
            (io::ErrorKind::NotFound, "the store has no such object".to_owned())
        }
        Error::Precondition { .. } if opened => (io::ErrorKind::Other, REPLACED.to_owned()),
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => (
            io::ErrorKind::PermissionDenied,
            format!(
                "the store refuses access (check the credentials in the environment): {}",
                words(error)
            ),
        ),
        _ if ignores_ranges(error) => {
            (io::ErrorKind::Unsupported, "the server ignores requests for ranges".to_owned())
        }
        _ => {
            let words = words(error);
            if words.contains("ExpiredToken") || words.contains("token has expired") {
                let message = format!("the credentials in the environment have expired: {words}");
                (io::ErrorKind::PermissionDenied, message)
            } else {
                (io::ErrorKind::Other, words)
            }
        }
    };
    io::Error::new(kind, message)
}

/// What a store reports, as one sentence without secrets.
#[must_use]
pub fn error_of(error: &Error) -> io::Error {
    io_error(error, Attempt::Open)
}

/// What is said about an object that is no longer the one that was opened.
pub(crate) const REPLACED: &str = "the object was replaced while it was open";

/// Whether the server sent something else than the range that was asked for. For the cloud's stores
/// only the message tells.
pub(crate) fn ignores_ranges(error: &Error) -> bool {
    match error {
        Error::NotSupported { source } => source.to_string().contains("ange"),
        Error::Generic { source, .. } => source.to_string().contains("non-partial response"),
        _ => false,
    }
}

/// Whether an answer could not be understood as one.
pub(crate) fn is_no_http(error: &Error) -> bool {
    let mut source = error.source();
    while let Some(inner) = source {
        if let Some(error) = inner.downcast_ref::<HttpError>() {
            return matches!(error.kind(), HttpErrorKind::Unknown | HttpErrorKind::Decode);
        }
        source = inner.source();
    }
    false
}

/// The innermost words of an error on one line, without queries of URLs, which may hold secrets.
fn words(error: &Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        let inner_text = inner.to_string();
        // The chain repeats itself; what is new is added.
        if !text.contains(&inner_text) {
            text = format!("{text}: {inner_text}");
        }
        source = inner.source();
    }
    let mut safe = String::new();
    let mut length = 0_usize;
    for word in text.split_whitespace() {
        let word = match word.split_once('?') {
            Some((before, _)) if before.contains("://") => before,
            _ => word,
        };
        if !safe.is_empty() {
            safe.push(' ');
        }
        for character in word.chars() {
            length = length.saturating_add(1);
            if length > MOST_CHARACTERS {
                safe.push_str("...");
                return safe;
            }
            safe.push(character);
        }
    }
    safe
}

/// A body that ended early or did not end.
pub(crate) fn wrong_length(offset: u64, expected: u64, found: u64, at_least: bool) -> io::Error {
    let more = if at_least { "at least " } else { "" };
    io::Error::new(
        io::ErrorKind::UnexpectedEof,
        format!("the server sent {more}{found} bytes for the {expected} from offset {offset}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_in_urls_are_not_repeated() {
        let error = Error::Generic {
            store: "HTTP",
            source: "GET http://host/a.iac?X-Amz-Signature=secret failed\n with a long tale".into(),
        };
        let text = io_error(&error, Attempt::Open).to_string();
        assert!(text.contains("http://host/a.iac failed with"), "{text}");
        assert!(!text.contains("secret"), "{text}");
        let long = Error::Generic { store: "HTTP", source: "x".repeat(5000).into() };
        assert!(io_error(&long, Attempt::Open).to_string().len() < 400);
    }
}
