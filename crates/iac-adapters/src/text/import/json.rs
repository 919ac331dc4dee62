//! JSON: one object for each patient.

use std::fs::File;
use std::io::{BufReader, Read};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use super::fault;
use crate::error::{AdapterError, Result, short_middle};
use crate::text::model::{Patient, TextDocument};

const BUFFER_BYTES: usize = 64 << 10;
/// Most bytes of one patient's object.
const MAX_OBJECT: usize = 2 << 30;

/// Patients out of JSON: objects one behind the other (such as one in each line), or one array of
/// objects. The source is read object by object.
///
/// An object has the members of [`Patient`] and its documents. After an error there are no more
/// patients.
#[derive(Debug)]
pub struct JsonPatients<D, R = File> {
    path: PathBuf,
    source: BufReader<R>,
    chunk: Vec<u8>,
    at: usize,
    line: u64,
    column: u64,
    state: State,
    object: Vec<u8>,
    kind: PhantomData<fn() -> D>,
}

/// What may come next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Start,
    /// Objects one behind the other.
    Objects,
    /// The first object of an array, or its end.
    ArrayStart,
    /// Behind an object of an array.
    ArrayNext,
    /// Behind a comma.
    ArrayObject,
    /// Behind the array.
    Behind,
    End,
}

impl<D: TextDocument> JsonPatients<D> {
    /// Opens a file.
    ///
    /// # Errors
    ///
    /// [`AdapterError::Io`] when it cannot be opened.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let file = File::open(path).map_err(AdapterError::io(path, "cannot open"))?;
        Ok(Self::new(path, file))
    }
}

impl<D: TextDocument, R: Read> JsonPatients<D, R> {
    /// Reads a source; `name` stands in messages.
    pub fn new(name: impl Into<PathBuf>, source: R) -> Self {
        Self {
            path: name.into(),
            source: BufReader::with_capacity(0, source),
            chunk: Vec::new(),
            at: 0,
            line: 1,
            column: 1,
            state: State::Start,
            object: Vec::new(),
            kind: PhantomData,
        }
    }

    fn fault(&self, line: u64, column: u64, reason: impl Into<String>) -> AdapterError {
        fault(&self.path, line, column, None, reason)
    }

    /// The next byte, which stays where it is.
    fn peek(&mut self) -> Result<Option<u8>> {
        if self.at >= self.chunk.len() {
            self.at = 0;
            self.chunk.resize(BUFFER_BYTES, 0);
            let read = loop {
                match self.source.read(&mut self.chunk) {
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                    other => break other,
                }
            };
            let read = read.map_err(AdapterError::io(&self.path, "cannot read"))?;
            self.chunk.truncate(read);
        }
        Ok(self.chunk.get(self.at).copied())
    }

    /// Goes past a byte.
    fn skip(&mut self, byte: u8) {
        self.at = self.at.saturating_add(1);
        if byte == b'\n' {
            self.line = self.line.saturating_add(1);
            self.column = 1;
        } else if byte & 0b1100_0000 != 0b1000_0000 {
            self.column = self.column.saturating_add(1);
        }
    }

    /// The next byte that is no space.
    fn peek_solid(&mut self) -> Result<Option<u8>> {
        while let Some(byte) = self.peek()? {
            if !matches!(byte, b' ' | b'\t' | b'\r' | b'\n') {
                return Ok(Some(byte));
            }
            self.skip(byte);
        }
        Ok(None)
    }

    /// Goes to the next object; nothing at the end.
    fn seek(&mut self) -> Result<bool> {
        if self.state == State::Start {
            // A byte order mark at the very beginning is no part of the text.
            if self.peek()?.is_some() && self.chunk.starts_with(b"\xef\xbb\xbf") {
                self.at = 3;
            }
        }
        loop {
            let byte = self.peek_solid()?;
            let (state, found) = match (self.state, byte) {
                (State::End, _) => return Ok(false),
                (State::Start, Some(b'[')) => (State::ArrayStart, b'['),
                (State::Start | State::Objects, Some(b'{')) => {
                    self.state = State::Objects;
                    return Ok(true);
                }
                (State::ArrayStart | State::ArrayObject, Some(b'{')) => {
                    self.state = State::ArrayNext;
                    return Ok(true);
                }
                (State::ArrayStart | State::ArrayNext, Some(b']')) => (State::Behind, b']'),
                (State::ArrayNext, Some(b',')) => (State::ArrayObject, b','),
                (State::Start | State::Objects | State::Behind, None) => return Ok(false),
                (_, None) => {
                    return Err(self.fault(self.line, self.column, "the array does not end"));
                }
                (state, Some(byte)) => {
                    let expected = match state {
                        State::Behind => "nothing is expected behind the array",
                        State::ArrayNext => "`,` or `]` is expected",
                        _ => "an object that describes a patient is expected",
                    };
                    let found = char::from(byte).escape_default();
                    let found =
                        if byte.is_ascii() { format!(", found `{found}`") } else { String::new() };
                    return Err(self.fault(self.line, self.column, format!("{expected}{found}")));
                }
            };
            self.skip(found);
            self.state = state;
        }
    }

    /// Takes the object that begins here. Whether it is sound JSON is seen later.
    fn take(&mut self) -> Result<()> {
        let (line, column) = (self.line, self.column);
        self.object.clear();
        let (mut depth, mut in_text, mut escaped) = (0_u64, false, false);
        while let Some(byte) = self.peek()? {
            self.skip(byte);
            self.object.push(byte);
            match byte {
                _ if escaped => escaped = false,
                b'\\' if in_text => escaped = true,
                b'"' => in_text = !in_text,
                _ if in_text => {}
                b'{' | b'[' => depth = depth.saturating_add(1),
                b'}' | b']' => {
                    depth = depth.saturating_sub(1);
                    if depth == 0 {
                        return Ok(());
                    }
                }
                _ => {}
            }
            if self.object.len() > MAX_OBJECT {
                let reason = format!("the object has more than {MAX_OBJECT} bytes");
                return Err(self.fault(line, column, reason));
            }
        }
        Err(self.fault(line, column, "the object that begins here does not end"))
    }

    fn read(&mut self) -> Result<Option<Patient<D>>> {
        if !self.seek()? {
            return Ok(None);
        }
        let (line, column) = (self.line, self.column);
        self.take()?;
        serde_json::from_slice(&self.object).map(Some).map_err(|error| {
            // The parser counts from the object's beginning.
            let down = u64::try_from(error.line()).unwrap_or(1).saturating_sub(1);
            let right = u64::try_from(error.column()).unwrap_or(0);
            let place = if down == 0 {
                column.saturating_add(right.saturating_sub(1))
            } else {
                right.max(1)
            };
            let text = error.to_string();
            let reason = text.rsplit_once(" at line ").map_or(text.as_str(), |(reason, _)| reason);
            self.fault(line.saturating_add(down), place, short_middle(reason))
        })
    }
}

impl<D: TextDocument, R: Read> Iterator for JsonPatients<D, R> {
    type Item = Result<Patient<D>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.state == State::End {
            return None;
        }
        match self.read() {
            Ok(Some(patient)) => Some(Ok(patient)),
            Ok(None) => {
                self.state = State::End;
                None
            }
            Err(error) => {
                self.state = State::End;
                Some(Err(error))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::ClinicalDoc;

    fn ids(text: &str) -> Result<Vec<String>> {
        JsonPatients::<ClinicalDoc, _>::new("x.json", text.as_bytes())
            .map(|patient| patient.map(|patient| patient.patient_id))
            .collect()
    }

    #[test]
    fn objects_come_from_lines_arrays_and_anything_between() {
        for text in [
            "{\"patient_id\": \"a\"}\n{\"patient_id\": \"}{\\\"\"}\n",
            "\u{feff}\r\n{\"patient_id\":\n \"a\"} {\"patient_id\": \"}{\\\"\"}",
            "[{\"patient_id\": \"a\"},{\"patient_id\": \"}{\\\"\", \"docs\": []}]\n",
            " [\n {\"patient_id\": \"a\"} , {\"patient_id\": \"}{\\\"\"} ] ",
        ] {
            assert_eq!(ids(text).unwrap(), ["a", "}{\""], "{text}");
        }
        for text in ["", "\n", "[]", " [ ] "] {
            assert!(ids(text).unwrap().is_empty());
        }
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        for (text, place) in [
            ("{\"patient_id\": \"a\"}\n{\"patient_id\": 7}", "x.json:2:16: "),
            ("{\"patient_id\": \"a\"}\n  x", "x.json:2:3: an object"),
            ("[{\"patient_id\": \"a\"}", "x.json:1:21: the array does not end"),
            ("[{\"patient_id\": \"a\"},]", "x.json:1:22: an object"),
            ("[{\"patient_id\": \"a\"} {}]", "x.json:1:22: `,` or `]`"),
            ("[] {}", "x.json:1:4: nothing"),
            ("\n{\"patient_id\": \"a\"", "x.json:2:1: the object that begins here does not end"),
            ("{\n\"patient_id\": null}", "x.json:2:18: "),
            ("{\"docs\": []}", "x.json:1:12: missing field `patient_id`"),
            (
                "{\"patient_id\": \"a\", \"docs\": [{\"doc_id\": \"1\"}]}",
                "x.json:1:44: missing field `text`",
            ),
            ("{\"patient_id\": \"a\", \"patientid\": 1}", "x.json:1:31: unknown field `patientid`"),
            ("{\"patient_id\": \"a]}", "x.json:1:1: the object that begins here does not end"),
            ("{\"patient_id\": \"\\ud800\"}", "x.json:1:"),
            ("{\"patient_id\": \"a\", \"patient_id\": \"b\"}", "x.json:1:32: duplicate field"),
        ] {
            let message = ids(text).unwrap_err().to_string();
            assert!(message.starts_with(place), "{text}: {message}");
        }
    }

    #[test]
    fn long_values_in_the_wrong_place_are_not_repeated_in_messages() {
        let text = format!("{{\"patient_id\": \"a\", \"docs\": \"{}\"}}", "note ".repeat(10_000));
        let message = ids(&text).unwrap_err().to_string();
        assert!(message.len() < 500, "{} bytes", message.len());
        assert!(message.contains("expected a sequence"), "{message}");
    }

    #[test]
    fn an_error_ends_the_source() {
        let mut patients =
            JsonPatients::<ClinicalDoc, _>::new("x", &b"{} {\"patient_id\": \"a\"}"[..]);
        assert!(patients.next().unwrap().is_err());
        assert!(patients.next().is_none());
    }
}
