//! Character sets of DICOM text (PS3.3 C.12.1.1.2), with their code extensions (ISO 2022).

use std::sync::Arc;

use dicom_core::VR;
use encoding_rs::{
    EUC_JP, EUC_KR, Encoding, GB18030, GBK, ISO_8859_2, ISO_8859_3, ISO_8859_4, ISO_8859_5,
    ISO_8859_6, ISO_8859_7, ISO_8859_8, ISO_8859_15, WINDOWS_874, WINDOWS_1254,
};

use super::encode::CHARACTER_SET;
use super::object::{DataSet, Element};
use super::text::is_text;

const ESC: u8 = 0x1B;
const REPLACEMENT: char = '\u{FFFD}';

/// What the bytes above 0x7F mean, one by one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Upper {
    /// ISO 8859-1, and what texts without a declared set are read as.
    Latin1,
    /// Another table; its part from 0xA0 on.
    Table(&'static Encoding),
    /// Half-width katakana of JIS X 0201.
    Katakana,
}

/// A set of two bytes for each character.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Double {
    JisX0208,
    JisX0212,
    KsX1001,
    Gb2312,
}

/// How characters are encoded as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whole {
    Utf8,
    Gb18030,
    Gbk,
}

/// What a defined term stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Term {
    Single(Upper),
    Double(Double),
    Whole(Whole),
}

/// What delimits texts for the sake of code extensions: they start afresh behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TextKind {
    /// Several values, parted by backslashes.
    Values,
    /// A name: its parts start afresh as well.
    Name,
    /// One text of several lines.
    Lines,
}

/// The character sets that are in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Charset {
    terms: Arc<[Term]>,
    extended: bool,
}

impl Default for Charset {
    fn default() -> Self {
        Self { terms: Arc::new([Term::Single(Upper::Latin1)]), extended: false }
    }
}

impl Charset {
    /// The sets that a data set names, if it names any.
    pub(crate) fn of(data: &DataSet) -> Option<Self> {
        data.get(CHARACTER_SET).and_then(Self::of_element)
    }

    /// The sets that an element names. One that claims to hold numbers names none: what is no
    /// number is not among the members of the metadata, where readers look for it.
    pub(crate) fn of_element(element: &Element) -> Option<Self> {
        let is_name = is_text(element.vr) || element.vr == VR::UN;
        element.bytes().filter(|_| is_name).map(|value| Self::from_value(value))
    }

    /// The sets that a value of Specific Character Set names. Unknown terms are read as the default
    /// repertoire.
    pub(crate) fn from_value(bytes: &[u8]) -> Self {
        let text: String = bytes.iter().map(|byte| char::from(*byte)).collect();
        let mut terms = Vec::new();
        let mut extended = false;
        for word in text.split('\\') {
            let word = word.trim_matches([' ', '\0']);
            extended |= word.starts_with("ISO 2022");
            if terms.len() < 16 {
                terms.push(term(word));
            }
        }
        let extended = extended && matches!(terms.first(), Some(Term::Single(_) | Term::Double(_)));
        Self { terms: terms.into(), extended }
    }

    fn first(&self) -> Term {
        self.terms.first().copied().unwrap_or(Term::Single(Upper::Latin1))
    }

    /// Decodes a whole value; what has no meaning becomes U+FFFD.
    pub(crate) fn decode(&self, bytes: &[u8], kind: TextKind) -> String {
        match self.first() {
            Term::Whole(Whole::Utf8) => String::from_utf8_lossy(bytes).into_owned(),
            Term::Whole(Whole::Gb18030) => {
                GB18030.decode_without_bom_handling(bytes).0.into_owned()
            }
            Term::Whole(Whole::Gbk) => GBK.decode_without_bom_handling(bytes).0.into_owned(),
            _ if self.extended => self.decode_extended(bytes, kind),
            Term::Single(upper) => bytes.iter().map(|byte| upper.decode(*byte)).collect(),
            Term::Double(_) => bytes.iter().map(|byte| Upper::Latin1.decode(*byte)).collect(),
        }
    }

    /// Where a text starts: a set for the lower half, and one for the upper.
    fn initial(&self) -> (Option<Double>, Graphic) {
        match self.first() {
            Term::Single(upper) => (None, Graphic::Single(upper)),
            Term::Double(double @ (Double::KsX1001 | Double::Gb2312)) => {
                (None, Graphic::Double(double))
            }
            _ => (None, Graphic::Single(Upper::Latin1)),
        }
    }

    fn decode_extended(&self, bytes: &[u8], kind: TextKind) -> String {
        let mut text = String::with_capacity(bytes.len());
        let (mut lower, mut upper) = self.initial();
        let mut rest = bytes;
        while let Some((&byte, behind)) = rest.split_first() {
            if byte == ESC {
                if let Some((change, behind)) = escape(behind) {
                    match change {
                        Change::Lower(set) => lower = set,
                        Change::Upper(set) => upper = set,
                    }
                    rest = behind;
                } else {
                    text.push(char::from(ESC));
                    rest = behind;
                }
                continue;
            }
            let pair = behind.first().copied();
            match (byte, lower, upper) {
                (0x21..=0x7E, Some(double), _) => {
                    let second = pair.filter(|second| (0x21..=0x7E).contains(second));
                    let character =
                        second.and_then(|second| double.decode(byte | 0x80, second | 0x80));
                    text.push(character.unwrap_or(REPLACEMENT));
                    rest =
                        if second.is_some() { behind.get(1..).unwrap_or_default() } else { behind };
                    continue;
                }
                (0xA1..=0xFE, _, Graphic::Double(double)) => {
                    let second = pair.filter(|second| (0xA1..=0xFE).contains(second));
                    let character = second.and_then(|second| double.decode(byte, second));
                    text.push(character.unwrap_or(REPLACEMENT));
                    rest =
                        if second.is_some() { behind.get(1..).unwrap_or_default() } else { behind };
                    continue;
                }
                (0x80.., _, Graphic::Single(set)) => text.push(set.decode(byte)),
                (0x80.., ..) => text.push(REPLACEMENT),
                _ => text.push(char::from(byte)),
            }
            if starts_afresh(byte, kind) {
                (lower, upper) = self.initial();
            }
            rest = behind;
        }
        text
    }

    /// Encodes a text; nothing when a character is in none of the sets.
    pub(crate) fn encode(&self, text: &str, kind: TextKind) -> Option<Vec<u8>> {
        match self.first() {
            Term::Whole(Whole::Utf8) => Some(text.as_bytes().to_vec()),
            Term::Whole(Whole::Gb18030) => encode_whole(GB18030, text),
            Term::Whole(Whole::Gbk) => encode_whole(GBK, text),
            _ if self.extended => self.encode_extended(text, kind),
            Term::Single(upper) => text.chars().map(|character| upper.encode(character)).collect(),
            Term::Double(_) => {
                text.chars().map(|character| Upper::Latin1.encode(character)).collect()
            }
        }
    }

    fn encode_extended(&self, text: &str, kind: TextKind) -> Option<Vec<u8>> {
        let mut bytes = Vec::with_capacity(text.len());
        let start = self.initial();
        let (mut lower, mut upper) = start;
        let back = |bytes: &mut Vec<u8>, lower: &mut Option<Double>| {
            if lower.take().is_some() {
                bytes.extend(self.ascii_escape());
            }
        };
        for character in text.chars() {
            if character.is_ascii() {
                back(&mut bytes, &mut lower);
                let byte = u8::try_from(character).ok()?;
                bytes.push(byte);
                if starts_afresh(byte, kind) {
                    (lower, upper) = start;
                }
                continue;
            }
            if let Graphic::Single(set) = upper
                && let Some(byte) = set.encode(character)
            {
                back(&mut bytes, &mut lower);
                bytes.push(byte);
                continue;
            }
            let found = self.terms.iter().find_map(|term| match term {
                Term::Single(set) => {
                    set.encode(character).map(|byte| (Graphic::Single(*set), [byte, 0]))
                }
                Term::Double(double) => {
                    double.encode(character).map(|pair| (Graphic::Double(*double), pair))
                }
                Term::Whole(_) => None,
            });
            let (set, [first, second]) = found?;
            match set {
                Graphic::Single(single) => {
                    back(&mut bytes, &mut lower);
                    if upper != set {
                        bytes.extend(single.escape()?);
                        upper = set;
                    }
                    bytes.push(first);
                }
                Graphic::Double(double @ (Double::KsX1001 | Double::Gb2312)) => {
                    back(&mut bytes, &mut lower);
                    if upper != set {
                        bytes.extend(double.escape());
                        upper = set;
                    }
                    bytes.extend([first, second]);
                }
                Graphic::Double(double) => {
                    if lower != Some(double) {
                        bytes.extend(double.escape());
                        lower = Some(double);
                    }
                    bytes.extend([first & 0x7F, second & 0x7F]);
                }
            }
        }
        back(&mut bytes, &mut lower);
        Some(bytes)
    }

    fn ascii_escape(&self) -> [u8; 3] {
        match self.first() {
            Term::Single(Upper::Katakana) => [ESC, b'(', b'J'],
            _ => [ESC, b'(', b'B'],
        }
    }
}

/// What the upper half holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Graphic {
    Single(Upper),
    Double(Double),
}

enum Change {
    Lower(Option<Double>),
    Upper(Graphic),
}

/// What an escape sequence behind its first byte changes, and what follows it.
fn escape(bytes: &[u8]) -> Option<(Change, &[u8])> {
    let single = |table| Change::Upper(Graphic::Single(Upper::Table(table)));
    let (change, length) = match bytes {
        [b'(', b'B' | b'J', ..] => (Change::Lower(None), 2),
        [b')', b'I', ..] => (Change::Upper(Graphic::Single(Upper::Katakana)), 2),
        [b'-', b'A', ..] => (Change::Upper(Graphic::Single(Upper::Latin1)), 2),
        [b'-', b'B', ..] => (single(ISO_8859_2), 2),
        [b'-', b'C', ..] => (single(ISO_8859_3), 2),
        [b'-', b'D', ..] => (single(ISO_8859_4), 2),
        [b'-', b'F', ..] => (single(ISO_8859_7), 2),
        [b'-', b'G', ..] => (single(ISO_8859_6), 2),
        [b'-', b'H', ..] => (single(ISO_8859_8), 2),
        [b'-', b'L', ..] => (single(ISO_8859_5), 2),
        [b'-', b'M', ..] => (single(WINDOWS_1254), 2),
        [b'-', b'T', ..] => (single(WINDOWS_874), 2),
        [b'-', b'b', ..] => (single(ISO_8859_15), 2),
        [b'$', b'B', ..] => (Change::Lower(Some(Double::JisX0208)), 2),
        [b'$', b'(', b'D', ..] => (Change::Lower(Some(Double::JisX0212)), 3),
        [b'$', b')', b'C', ..] => (Change::Upper(Graphic::Double(Double::KsX1001)), 3),
        [b'$', b')', b'A', ..] => (Change::Upper(Graphic::Double(Double::Gb2312)), 3),
        _ => return None,
    };
    Some((change, bytes.get(length..).unwrap_or_default()))
}

fn starts_afresh(byte: u8, kind: TextKind) -> bool {
    match byte {
        b'\n' | b'\r' | 0x0C | b'\t' => true,
        b'\\' => kind != TextKind::Lines,
        b'^' | b'=' => kind == TextKind::Name,
        _ => false,
    }
}

fn encode_whole(encoding: &'static Encoding, text: &str) -> Option<Vec<u8>> {
    let (bytes, _, lost) = encoding.encode(text);
    (!lost).then(|| bytes.into_owned())
}

impl Upper {
    fn decode(self, byte: u8) -> char {
        match self {
            _ if byte < 0x80 => char::from(byte),
            Self::Latin1 => char::from(byte),
            Self::Katakana => match byte {
                0xA1..=0xDF => {
                    char::from_u32(0xFF61_u32.saturating_add(u32::from(byte.saturating_sub(0xA1))))
                        .unwrap_or(REPLACEMENT)
                }
                _ => REPLACEMENT,
            },
            Self::Table(_) if byte < 0xA0 => char::from(byte),
            Self::Table(table) => {
                let one = [byte];
                let text = table.decode_without_bom_handling_and_without_replacement(&one);
                text.and_then(|text| text.chars().next()).unwrap_or(REPLACEMENT)
            }
        }
    }

    fn encode(self, character: char) -> Option<u8> {
        let number = u32::from(character);
        if number < 0x80 {
            return u8::try_from(number).ok();
        }
        match self {
            Self::Latin1 => u8::try_from(number).ok(),
            Self::Katakana => {
                let place = number.checked_sub(0xFF61).filter(|place| *place <= 0x3E)?;
                u8::try_from(place).ok()?.checked_add(0xA1)
            }
            Self::Table(_) if (0x80..0xA0).contains(&number) => u8::try_from(number).ok(),
            Self::Table(table) => {
                let mut buffer = [0; 4];
                let (bytes, _, lost) = table.encode(character.encode_utf8(&mut buffer));
                match (lost, bytes.as_ref()) {
                    (false, [byte @ 0xA0..=0xFF]) => Some(*byte),
                    _ => None,
                }
            }
        }
    }

    fn escape(self) -> Option<[u8; 3]> {
        let (kind, last) = match self {
            Self::Latin1 => (b'-', b'A'),
            Self::Katakana => (b')', b'I'),
            Self::Table(table) => {
                let last = [
                    (ISO_8859_2, b'B'),
                    (ISO_8859_3, b'C'),
                    (ISO_8859_4, b'D'),
                    (ISO_8859_7, b'F'),
                    (ISO_8859_6, b'G'),
                    (ISO_8859_8, b'H'),
                    (ISO_8859_5, b'L'),
                    (WINDOWS_1254, b'M'),
                    (WINDOWS_874, b'T'),
                    (ISO_8859_15, b'b'),
                ];
                (b'-', last.iter().find(|(known, _)| *known == table)?.1)
            }
        };
        Some([ESC, kind, last])
    }
}

impl Double {
    fn table(self) -> &'static Encoding {
        match self {
            Self::JisX0208 | Self::JisX0212 => EUC_JP,
            Self::KsX1001 => EUC_KR,
            Self::Gb2312 => GBK,
        }
    }

    /// The character of two bytes of the upper half.
    fn decode(self, first: u8, second: u8) -> Option<char> {
        let three = [0x8F, first, second];
        let bytes = if self == Self::JisX0212 { three.as_slice() } else { three.get(1..)? };
        let text = self.table().decode_without_bom_handling_and_without_replacement(bytes)?;
        let mut characters = text.chars();
        let character = characters.next()?;
        characters.next().is_none().then_some(character)
    }

    fn encode(self, character: char) -> Option<[u8; 2]> {
        if self == Self::JisX0212 {
            // The table can only be searched: the library does not encode it.
            return (0xA1..=0xFE).find_map(|first| {
                (0xA1..=0xFE)
                    .find(|second| self.decode(first, *second) == Some(character))
                    .map(|second| [first, second])
            });
        }
        let mut buffer = [0; 4];
        let (bytes, _, lost) = self.table().encode(character.encode_utf8(&mut buffer));
        match (lost, bytes.as_ref()) {
            (false, [first @ 0xA1..=0xFE, second @ 0xA1..=0xFE]) => Some([*first, *second]),
            _ => None,
        }
    }

    const fn escape(self) -> &'static [u8] {
        match self {
            Self::JisX0208 => b"\x1B$B",
            Self::JisX0212 => b"\x1B$(D",
            Self::KsX1001 => b"\x1B$)C",
            Self::Gb2312 => b"\x1B$)A",
        }
    }
}

fn term(word: &str) -> Term {
    let number = word
        .strip_prefix("ISO_IR ")
        .or_else(|| word.strip_prefix("ISO 2022 IR "))
        .or_else(|| word.strip_prefix("ISO-IR "))
        .unwrap_or(word);
    let table = |table| Term::Single(Upper::Table(table));
    match number {
        "101" => table(ISO_8859_2),
        "109" => table(ISO_8859_3),
        "110" => table(ISO_8859_4),
        "126" => table(ISO_8859_7),
        "127" => table(ISO_8859_6),
        "138" => table(ISO_8859_8),
        "144" => table(ISO_8859_5),
        "148" => table(WINDOWS_1254),
        "166" => table(WINDOWS_874),
        "203" => table(ISO_8859_15),
        "13" => Term::Single(Upper::Katakana),
        "87" => Term::Double(Double::JisX0208),
        "159" => Term::Double(Double::JisX0212),
        "149" => Term::Double(Double::KsX1001),
        "58" => Term::Double(Double::Gb2312),
        "192" => Term::Whole(Whole::Utf8),
        "GB18030" => Term::Whole(Whole::Gb18030),
        "GBK" => Term::Whole(Whole::Gbk),
        _ => Term::Single(Upper::Latin1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn japanese_names_switch_sets_and_back() {
        let charset = Charset::from_value(b"\\ISO 2022 IR 87");
        let bytes = b"Yamada^Tarou=\x1b$B;3ED\x1b(B^\x1b$BB@O:\x1b(B";
        let text = charset.decode(bytes, TextKind::Name);
        assert_eq!(text, "Yamada^Tarou=山田^太郎");
        assert_eq!(charset.encode(&text, TextKind::Name).unwrap(), bytes);
    }

    #[test]
    fn korean_names_start_afresh_behind_each_delimiter() {
        let charset = Charset::from_value(b"\\ISO 2022 IR 149");
        let text = "Hong^Gildong=洪^吉洞=홍^길동";
        let bytes = charset.encode(text, TextKind::Name).unwrap();
        assert_eq!(bytes.iter().filter(|byte| **byte == ESC).count(), 4);
        assert_eq!(charset.decode(&bytes, TextKind::Name), text);
    }

    #[test]
    fn every_single_byte_set_gives_back_what_it_reads() {
        for name in [
            "",
            "ISO_IR 100",
            "ISO_IR 101",
            "ISO_IR 109",
            "ISO_IR 110",
            "ISO_IR 126",
            "ISO_IR 127",
            "ISO_IR 138",
            "ISO_IR 144",
            "ISO_IR 148",
            "ISO_IR 166",
            "ISO_IR 203",
            "ISO_IR 13",
        ] {
            let charset = Charset::from_value(name.as_bytes());
            for byte in 0x20..=0xFF_u8 {
                let text = charset.decode(&[byte], TextKind::Values);
                if text != "\u{FFFD}" {
                    assert_eq!(
                        charset.encode(&text, TextKind::Values).unwrap(),
                        [byte],
                        "{name} {byte:02X}"
                    );
                }
            }
        }
    }

    #[test]
    fn rare_japanese_and_chinese_characters_are_found() {
        let charset = Charset::from_value(b"ISO 2022 IR 6\\ISO 2022 IR 159\\ISO 2022 IR 58");
        for text in ["丂", "张^小东"] {
            let bytes = charset.encode(text, TextKind::Name).unwrap();
            assert_eq!(charset.decode(&bytes, TextKind::Name), text);
        }
    }

    #[test]
    fn garbage_becomes_replacement_characters() {
        let charset = Charset::from_value(b"\\ISO 2022 IR 87\\ISO 2022 IR 149");
        for bytes in [&b"\x1b$B;"[..], b"\x1b$B\x7f\x80", b"\x1b$)C\xA1", b"\x1b", b"\x1b$"] {
            let _ = charset.decode(bytes, TextKind::Name);
        }
        let utf8 = Charset::from_value(b"ISO_IR 192");
        assert_eq!(utf8.decode(b"a\xE9", TextKind::Values), "a\u{FFFD}");
    }
}
