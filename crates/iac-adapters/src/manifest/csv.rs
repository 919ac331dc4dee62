//! Rows and fields of comma-separated text, with their places.

use std::io::{self, Read};

/// Most characters of a field.
pub(crate) const MAX_FIELD: u64 = 131_072;

const BUFFER_BYTES: usize = 1 << 16;

/// Where a field begins: both counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) line: u64,
    pub(crate) column: u64,
}

/// Why text cannot be taken apart.
#[derive(Debug)]
pub(crate) enum CsvError {
    Io(io::Error),
    TooLong(Place),
    NotUtf8(Place),
}

/// Takes comma-separated text apart, in bounded memory.
///
/// Quotes are `"`, doubled inside a quoted field; a quote inside an unquoted field is a character
/// like others, and what follows a closing quote belongs to the field. Rows end with CR LF, LF or
/// CR. Nothing is trimmed.
#[derive(Debug)]
pub(crate) struct CsvReader<R> {
    source: R,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    at: Place,
    last_was_cr: bool,
    field: Vec<u8>,
    began: bool,
    max_field: u64,
}

/// What a call to [`CsvReader::next_row`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Row {
    /// A row with so many fields; none for an empty line.
    Fields(u64),
    /// The end of the text.
    End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Start,
    Plain,
    Quoted,
    /// Behind a quote inside a quoted field: its end, or half of a doubled one.
    QuoteInQuoted,
}

impl<R: Read> CsvReader<R> {
    pub(crate) fn new(source: R) -> Self {
        Self {
            source,
            buffer: vec![0; BUFFER_BYTES],
            start: 0,
            end: 0,
            at: Place { line: 1, column: 1 },
            last_was_cr: false,
            field: Vec::new(),
            began: false,
            max_field: MAX_FIELD,
        }
    }

    /// Sets the most characters of a field, where fields are whole documents.
    #[cfg(feature = "text")]
    pub(crate) const fn with_max_field(mut self, characters: u64) -> Self {
        self.max_field = characters;
        self
    }

    /// Where the next row begins.
    pub(crate) const fn place(&self) -> Place {
        self.at
    }

    /// Reads one row and hands its fields on, with their numbers and places.
    pub(crate) fn next_row<E: From<CsvError>>(
        &mut self,
        mut on_field: impl FnMut(u64, Place, &str) -> Result<(), E>,
    ) -> Result<Row, E> {
        self.skip_mark().map_err(CsvError::Io)?;
        let mut state = State::Start;
        let mut place = self.at;
        let mut fields = 0_u64;
        let mut characters = 0_u64;
        let mut is_first = true;
        loop {
            let Some(byte) = self.next_byte().map_err(CsvError::Io)? else {
                if is_first {
                    return Ok(Row::End);
                }
                // Also the end of a quoted field that nobody closed.
                self.hand_on(fields, place, &mut on_field)?;
                return Ok(Row::Fields(fields.saturating_add(1)));
            };
            let is_end = matches!(byte, b'\n' | b'\r') && state != State::Quoted;
            if is_end {
                self.swallow_lf(byte).map_err(CsvError::Io)?;
                if is_first {
                    return Ok(Row::Fields(0));
                }
                self.hand_on(fields, place, &mut on_field)?;
                return Ok(Row::Fields(fields.saturating_add(1)));
            }
            is_first = false;
            match (state, byte) {
                (State::Start, b'"') => {
                    state = State::Quoted;
                    continue;
                }
                (State::Quoted, b'"') => {
                    state = State::QuoteInQuoted;
                    continue;
                }
                (State::QuoteInQuoted, b'"') => state = State::Quoted,
                (State::Start | State::Plain | State::QuoteInQuoted, b',') => {
                    self.hand_on(fields, place, &mut on_field)?;
                    fields = fields.saturating_add(1);
                    state = State::Start;
                    place = self.at;
                    characters = 0;
                    continue;
                }
                (State::Start | State::QuoteInQuoted, _) => state = State::Plain,
                (State::Plain | State::Quoted, _) => {}
            }
            self.field.push(byte);
            if !is_continuation(byte) {
                characters = characters.saturating_add(1);
            }
            // Bytes are bounded too, as text that is not UTF-8 may have no characters at all.
            let bytes = u64::try_from(self.field.len()).unwrap_or(u64::MAX);
            if characters > self.max_field || bytes > self.max_field.saturating_mul(4) {
                return Err(CsvError::TooLong(place).into());
            }
        }
    }

    fn hand_on<E: From<CsvError>>(
        &mut self,
        number: u64,
        place: Place,
        on_field: &mut impl FnMut(u64, Place, &str) -> Result<(), E>,
    ) -> Result<(), E> {
        let text = std::str::from_utf8(&self.field).map_err(|_| CsvError::NotUtf8(place))?;
        let result = on_field(number, place, text);
        self.field.clear();
        result
    }

    fn next_byte(&mut self) -> io::Result<Option<u8>> {
        if self.start >= self.end && !self.fill()? {
            return Ok(None);
        }
        let byte = self.buffer.get(self.start).copied();
        self.start = self.start.saturating_add(1);
        if let Some(byte) = byte {
            self.count(byte);
        }
        Ok(byte)
    }

    fn count(&mut self, byte: u8) {
        match byte {
            b'\n' if self.last_was_cr => {}
            b'\n' | b'\r' => {
                self.at = Place { line: self.at.line.saturating_add(1), column: 1 };
            }
            byte if is_continuation(byte) => {}
            _ => self.at.column = self.at.column.saturating_add(1),
        }
        self.last_was_cr = byte == b'\r';
    }

    /// Behind a CR that ended a row: an LF belongs to it.
    fn swallow_lf(&mut self, end: u8) -> io::Result<()> {
        if end == b'\r'
            && (self.start < self.end || self.fill()?)
            && self.buffer.get(self.start) == Some(&b'\n')
        {
            self.next_byte()?;
        }
        Ok(())
    }

    /// A byte order mark at the very beginning is no part of the text.
    fn skip_mark(&mut self) -> io::Result<()> {
        if self.began {
            return Ok(());
        }
        self.began = true;
        while self.end < 3 {
            let Some(room) = self.buffer.get_mut(self.end..) else { break };
            match read(&mut self.source, room)? {
                0 => break,
                read => self.end = self.end.saturating_add(read),
            }
        }
        if self.buffer.get(..self.end).is_some_and(|bytes| bytes.starts_with(b"\xef\xbb\xbf")) {
            self.start = 3;
        }
        Ok(())
    }

    fn fill(&mut self) -> io::Result<bool> {
        self.start = 0;
        self.end = read(&mut self.source, &mut self.buffer)?;
        Ok(self.end > 0)
    }
}

fn read(source: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match source.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other.map(|read| read.min(buffer.len())),
        }
    }
}

const fn is_continuation(byte: u8) -> bool {
    byte & 0b1100_0000 == 0b1000_0000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Wrong(CsvError);

    impl From<CsvError> for Wrong {
        fn from(error: CsvError) -> Self {
            Self(error)
        }
    }

    fn rows(text: &[u8]) -> Result<Vec<Vec<String>>, CsvError> {
        let mut reader = CsvReader::new(text);
        let mut rows = Vec::new();
        loop {
            let mut row = Vec::new();
            let found = reader.next_row::<Wrong>(|number, _, text| {
                assert_eq!(number, row.len() as u64);
                row.push(text.to_owned());
                Ok(())
            });
            match found.map_err(|error| error.0)? {
                Row::End => return Ok(rows),
                Row::Fields(count) => assert_eq!(count, row.len() as u64),
            }
            rows.push(row);
        }
    }

    #[test]
    fn dialect_is_that_of_the_manifests() {
        for (text, expected) in [
            ("", vec![]),
            ("a,b", vec![vec!["a", "b"]]),
            ("a,b\r\n", vec![vec!["a", "b"]]),
            ("a\nb\rc\r\nd", vec![vec!["a"], vec!["b"], vec!["c"], vec!["d"]]),
            ("\n\r\n\r,", vec![vec![], vec![], vec![], vec!["", ""]]),
            (" \n", vec![vec![" "]]),
            ("\"a,\"\"b\nc\",d", vec![vec!["a,\"b\nc", "d"]]),
            ("\"a\r\nb\"\n", vec![vec!["a\r\nb"]]),
            ("a\"b\"c", vec![vec!["a\"b\"c"]]),
            ("\"ab\"c,d", vec![vec!["abc", "d"]]),
            ("\"ab\" \"c", vec![vec!["ab \"c"]]),
            (" \"a\",b", vec![vec![" \"a\"", "b"]]),
            ("\"a,b\nc", vec![vec!["a,b\nc"]]),
            ("\"a\"", vec![vec!["a"]]),
            ("\"\"", vec![vec![""]]),
            ("\u{feff}a,b\n\u{feff}", vec![vec!["a", "b"], vec!["\u{feff}"]]),
            ("a\0b", vec![vec!["a\0b"]]),
        ] {
            assert_eq!(rows(text.as_bytes()).unwrap(), expected, "{text:?}");
        }
    }

    #[test]
    fn fields_have_lines_and_characters() {
        let mut reader = CsvReader::new("α,\"b\r\nc\",d\r\n\"\n\",e".as_bytes());
        let mut places = Vec::new();
        while reader
            .next_row::<Wrong>(|_, place, _| {
                places.push((place.line, place.column));
                Ok(())
            })
            .unwrap()
            != Row::End
        {}
        assert_eq!(places, [(1, 1), (1, 3), (2, 4), (3, 1), (4, 3)]);
    }

    #[test]
    fn longest_field_passes_and_one_character_more_does_not() {
        let longest = "ö".repeat(131_072);
        assert_eq!(rows(longest.as_bytes()).unwrap(), [[longest.as_str()]]);
        let error = rows(format!("a\n,{longest}x").as_bytes()).unwrap_err();
        assert!(matches!(error, CsvError::TooLong(Place { line: 2, column: 2 })));
        let error = rows(&vec![0x80; 600_000]).unwrap_err();
        assert!(matches!(error, CsvError::TooLong(_)));
    }

    #[test]
    fn other_encodings_are_refused_with_their_place() {
        let error = rows(b"a,b\nc,d\xe9\n").unwrap_err();
        assert!(matches!(error, CsvError::NotUtf8(Place { line: 2, column: 3 })));
    }

    #[test]
    fn rows_do_not_depend_on_how_the_source_delivers() {
        struct Slow<'a>(&'a [u8]);
        impl Read for Slow<'_> {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                let Some((first, rest)) = self.0.split_first() else { return Ok(0) };
                buffer[0] = *first;
                self.0 = rest;
                Ok(1)
            }
        }
        let mut reader = CsvReader::new(Slow("\u{feff}a\r\n\r\"b\"\r\n".as_bytes()));
        let mut counts = Vec::new();
        while let Row::Fields(count) = reader.next_row::<Wrong>(|_, _, _| Ok(())).unwrap() {
            counts.push(count);
        }
        assert_eq!(counts, [1, 0, 1]);
    }
}
