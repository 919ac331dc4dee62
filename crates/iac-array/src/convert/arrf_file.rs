//! The layout of ARRF files, as far as the sample files of both versions show it.
//!
//! ```text
//! [blocks][footer][u64 footer length]["ARRF"]
//! ```
//!
//! The footer is a tree of records that point at each other by signed distances, the root being its
//! last bytes. Nothing carries a checksum, so every place, length and count is checked here.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::iter::StepBy;
use std::ops::Range;
use std::path::Path;

use crate::attr::Attr;
use crate::dtype::{DType, TimeUnit};
use crate::error::{ArrayError, Result, u64_len};

const MAGIC: &[u8; 4] = b"ARRF";
/// Bytes behind the footer.
pub(super) const TRAILER: usize = 12;
/// Bytes that a footer may have: those of some millions of chunks.
pub(super) const MAX_FOOTER: u64 = 256 << 20;
/// Bytes that the attributes of all arrays may have.
pub(super) const MAX_ATTRS: u64 = 256 << 20;
/// Bytes of entries of lists and of texts that are believed beside those of the footer, of which each
/// belongs to one list.
const SHARED: usize = 64 << 10;
/// Bytes of an entry of each list.
const BLOCK: usize = 56;
const CHUNK: usize = 32;
const VALUE: usize = 24;
const TEXT: usize = 16;

/// A file taken apart.
#[derive(Debug)]
pub(super) struct Parsed {
    pub(super) version: u32,
    /// Version 5: the number of the layer, 0 for the base.
    pub(super) layer: u64,
    pub(super) blocks: Vec<Block>,
    pub(super) arrays: Vec<Array>,
    /// Version 5: keys and values that this layer adds to those of the layers below.
    pub(super) keys: Vec<String>,
    pub(super) values: Vec<Attr>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) id: u32,
    pub(super) offset: u64,
    pub(super) stored: u64,
    pub(super) raw: u64,
    /// None for blocks as they are.
    pub(super) codec: Option<String>,
}

#[derive(Debug)]
pub(super) struct Array {
    pub(super) name: String,
    pub(super) dtype: DType,
    pub(super) shape: Vec<u64>,
    pub(super) dims: Vec<String>,
    pub(super) chunk: Vec<u64>,
    pub(super) chunks: Vec<Chunk>,
    pub(super) fill: Option<Fill>,
    /// Numbers of keys and values.
    pub(super) attrs: Vec<(u64, u64)>,
    pub(super) deleted: bool,
}

#[derive(Debug, Clone)]
pub(super) struct Chunk {
    pub(super) coord: Vec<u64>,
    pub(super) block: u32,
    pub(super) offset: u32,
    pub(super) size: u32,
}

/// The value that elements have which nobody wrote.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Fill {
    Int(i64),
    UInt(u64),
    Float(f64),
    Text(String),
}

/// The footer, whose every part is checked before it is believed.
struct Footer<'a> {
    path: &'a Path,
    bytes: &'a [u8],
    version: u32,
    /// Bytes that lists and texts may still have: many that point at the same place would have far
    /// more than the footer.
    left: Cell<usize>,
}

/// Bytes of the footer, by the bytes behind it, in a file of so many.
pub(super) fn footer_bytes(path: &Path, trailer: &[u8; TRAILER], file: u64) -> Result<u64> {
    if !trailer.ends_with(MAGIC) {
        return Err(ArrayError::damaged(path, "it does not end as an ARRF file"));
    }
    let length = trailer.first_chunk::<8>().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    if length.checked_add(u64_len(TRAILER)).is_none_or(|end| end > file) {
        let reason = format!("a footer of {length} bytes in a file of {file}");
        return Err(ArrayError::damaged(path, reason));
    }
    if length > MAX_FOOTER {
        return Err(ArrayError::TooLarge {
            what: "footer (bytes)",
            found: length,
            allowed: MAX_FOOTER,
        });
    }
    Ok(length)
}

/// Takes a footer apart, in front of which lie so many bytes of blocks.
pub(super) fn parse(path: &Path, footer: &[u8], data: u64) -> Result<Parsed> {
    // The version is the first word of the root, whose size depends on it.
    for (version, root) in [(6, 72_usize), (5, 96)] {
        let Some(at) = footer.len().checked_sub(root) else {
            continue;
        };
        let left = Cell::new(footer.len().saturating_add(SHARED));
        let found = Footer { path, bytes: footer, version, left };
        if found.u32(at)? == version {
            return found.root(at, data);
        }
    }
    Err(ArrayError::foreign(path, "another version of ARRF than 5 and 6"))
}

impl Footer<'_> {
    fn wrong(&self, at: usize, what: &str) -> ArrayError {
        ArrayError::damaged(self.path, format!("byte {at} of the footer: {what}"))
    }

    fn bytes<const N: usize>(&self, at: usize) -> Result<[u8; N]> {
        let found = self.bytes.get(at..).and_then(<[u8]>::first_chunk::<N>);
        found.copied().ok_or_else(|| self.wrong(at, "a number lies outside"))
    }

    fn u8(&self, at: usize) -> Result<u8> {
        self.bytes::<1>(at).map(|[byte]| byte)
    }

    fn u32(&self, at: usize) -> Result<u32> {
        self.bytes(at).map(u32::from_le_bytes)
    }

    fn u64(&self, at: usize) -> Result<u64> {
        self.bytes(at).map(u64::from_le_bytes)
    }

    /// Where a distance leads that stands at a place.
    fn target(&self, at: usize) -> Result<usize> {
        let distance = i64::from_le_bytes(self.bytes(at)?);
        let target = isize::try_from(distance).ok().and_then(|by| at.checked_add_signed(by));
        target
            .filter(|target| *target <= self.bytes.len())
            .ok_or_else(|| self.wrong(at, "it points outside"))
    }

    /// Counts bytes of a list or a text.
    fn spend(&self, at: usize, bytes: usize) -> Result<()> {
        let left = self.left.get().checked_sub(bytes);
        self.left.set(left.ok_or_else(|| self.wrong(at, "its lists and texts share their bytes"))?);
        Ok(())
    }

    /// Places of the entries of a list.
    fn list(&self, at: usize, entry: usize) -> Result<StepBy<Range<usize>>> {
        let start = self.target(at)?;
        let count = usize::try_from(self.u64(at.saturating_add(8))?).ok();
        let end = count
            .and_then(|count| count.checked_mul(entry))
            .and_then(|bytes| start.checked_add(bytes))
            .filter(|end| *end <= self.bytes.len())
            .ok_or_else(|| self.wrong(at, "a list reaches outside"))?;
        self.spend(at, end.saturating_sub(start))?;
        Ok((start..end).step_by(entry.max(1)))
    }

    /// A text: up to sixteen bytes where it stands, longer ones elsewhere.
    fn text(&self, at: usize) -> Result<String> {
        let bytes: [u8; TEXT] = self.bytes(at)?;
        let [first, ..] = bytes;
        let text = if first & 0xC0 == 0x80 {
            // Six bits, two of the tag, then the rest of the length.
            let word = u64::from(self.u32(at)?);
            let length = (word & 0x3F) | ((word >> 2) & !0x3F);
            let field = at.saturating_add(8);
            let distance = isize::try_from(i64::from_le_bytes(self.bytes(field)?)).ok();
            // The distance counts from the beginning of the text's own field.
            let start = distance.and_then(|by| at.checked_add_signed(by));
            let end = start.zip(usize::try_from(length).ok()).and_then(|(a, b)| a.checked_add(b));
            let span = start.zip(end).and_then(|(start, end)| self.bytes.get(start..end));
            let span = span.ok_or_else(|| self.wrong(at, "a text lies outside"))?;
            self.spend(at, span.len())?;
            span.to_vec()
        } else {
            let length = bytes.iter().position(|byte| *byte == 0xFF).unwrap_or(TEXT);
            bytes.get(..length).unwrap_or_default().to_vec()
        };
        String::from_utf8(text).map_err(|_| self.wrong(at, "a text is not UTF-8"))
    }

    fn texts(&self, at: usize) -> Result<Vec<String>> {
        self.list(at, TEXT)?.map(|at| self.text(at)).collect()
    }

    fn numbers(&self, at: usize) -> Result<Vec<u64>> {
        self.list(at, 4)?.map(|at| self.u32(at).map(u64::from)).collect()
    }

    fn root(&self, at: usize, data: u64) -> Result<Parsed> {
        let field = |by: usize| at.saturating_add(by);
        let six = self.version == 6;
        let (arrays, keys, values) = if six { (56, 24, 40) } else { (24, 40, 56) };
        let keys = self.texts(field(keys))?;
        let values = self.list(field(values), VALUE)?;
        Ok(Parsed {
            version: self.version,
            layer: if six { 0 } else { self.u64(field(72))? },
            blocks: self
                .list(field(8), BLOCK)?
                .map(|at| self.block(at, data))
                .collect::<Result<_>>()?,
            arrays: self
                .list(field(arrays), if six { 256 } else { 168 })?
                .map(|at| self.array(at))
                .collect::<Result<_>>()?,
            values: values.map(|at| self.value(at, &keys)).collect::<Result<_>>()?,
            keys,
        })
    }

    fn block(&self, at: usize, data: u64) -> Result<Block> {
        let field = |by: usize| at.saturating_add(by);
        let block = Block {
            id: self.u32(at)?,
            offset: self.u64(field(8))?,
            stored: self.u64(field(16))?,
            raw: self.u64(field(24))?,
            codec: match self.u8(field(32))? {
                0 => None,
                1 => Some(self.text(field(40))?),
                _ => return Err(self.wrong(field(32), "a codec of a kind that is not known")),
            },
        };
        if block.offset.checked_add(block.stored).is_none_or(|end| end > data) {
            return Err(self.wrong(at, "a block reaches into the footer"));
        }
        Ok(block)
    }

    fn dtype(&self, at: usize, depth: u8) -> Result<DType> {
        Ok(match self.u8(at)? {
            0 => DType::Bool,
            1 => DType::Int8,
            2 => DType::Int16,
            3 => DType::Int32,
            4 => DType::Int64,
            5 => DType::UInt8,
            6 => DType::UInt16,
            7 => DType::UInt32,
            8 => DType::UInt64,
            9 => DType::Float32,
            10 => DType::Float64,
            11 => DType::Utf8,
            12 => DType::Binary,
            13 if depth == 0 => {
                let child = self.dtype(self.target(at.saturating_add(8))?, 1)?;
                DType::FixedList(Box::new(child), self.u32(at.saturating_add(16))?)
            }
            15 => DType::Timestamp(TimeUnit::Nanosecond, None),
            13 | 14 => {
                return Err(ArrayError::foreign(
                    self.path,
                    format!("lists as elements (byte {at} of its footer)"),
                ));
            }
            _ => return Err(self.wrong(at, "a type of elements that is not known")),
        })
    }

    fn array(&self, at: usize) -> Result<Array> {
        let field = |by: usize| at.saturating_add(by);
        let six = self.version == 6;
        let dtype = self.dtype(field(16), 0)?;
        dtype.check().map_err(|error| self.wrong(field(16), &error.to_string()))?;
        let (attrs, entry) = if six {
            (136, 8)
        } else {
            // Pairs of 16-bit numbers are the only ones that samples show.
            if self.u64(field(144))? != 0 {
                return Err(ArrayError::foreign(
                    self.path,
                    format!("wide attribute numbers (byte {} of its footer)", field(144)),
                ));
            }
            (152, 4)
        };
        let mut pairs = Vec::new();
        for at in self.list(field(attrs), entry)? {
            pairs.push(if six {
                (u64::from(self.u32(at)?), u64::from(self.u32(at.saturating_add(4))?))
            } else {
                let [a, b, c, d] = self.bytes::<4>(at)?;
                (u64::from(u16::from_le_bytes([a, b])), u64::from(u16::from_le_bytes([c, d])))
            });
        }
        Ok(Array {
            name: self.text(at)?,
            dtype,
            shape: self.numbers(field(40))?,
            dims: self.texts(field(56))?,
            chunk: self.numbers(field(72))?,
            chunks: self.list(field(88), CHUNK)?.map(|at| self.chunk(at)).collect::<Result<_>>()?,
            fill: self.fill(field(104))?,
            attrs: pairs,
            deleted: !six && self.u8(field(136))? != 0,
        })
    }

    fn chunk(&self, at: usize) -> Result<Chunk> {
        let field = |by: usize| at.saturating_add(by);
        Ok(Chunk {
            coord: self.numbers(at)?,
            block: self.u32(field(16))?,
            offset: self.u32(field(20))?,
            size: self.u32(field(24))?,
        })
    }

    fn fill(&self, at: usize) -> Result<Option<Fill>> {
        if self.u8(at)? == 0 {
            return Ok(None);
        }
        let (tag, payload) = (at.saturating_add(8), at.saturating_add(16));
        Ok(Some(match self.u8(tag)? {
            1 => Fill::Int(i64::from_le_bytes(self.bytes(payload)?)),
            2 => Fill::UInt(self.u64(payload)?),
            3 => Fill::Float(f64::from_le_bytes(self.bytes(payload)?)),
            4 => Fill::Text(self.text(payload)?),
            other => {
                return Err(ArrayError::foreign(
                    self.path,
                    format!("a fill value of kind {other} (byte {tag} of its footer)"),
                ));
            }
        }))
    }

    /// A value of an attribute: the first thirteen kinds are single, the others lists of them.
    fn value(&self, at: usize, texts: &[String]) -> Result<Attr> {
        let tag = self.u8(at)?;
        let wide = at.saturating_add(8);
        Ok(match tag {
            0 => match self.u8(at.saturating_add(1))? {
                0 => Attr::Bool(false),
                1 => Attr::Bool(true),
                _ => return Err(self.wrong(at, "a truth value is neither 0 nor 1")),
            },
            1..=8 => self.integer(tag, at.saturating_add(width_of(tag)))?,
            9 | 10 => Attr::Float(self.float(tag, at.saturating_add(width_of(tag)))?),
            11 if self.version == 6 => Attr::Text(self.shared(at.saturating_add(4), texts)?),
            11 => Attr::Text(self.text(wide)?),
            12 => {
                let places = self.list(wide, 1)?;
                Attr::Bytes(places.map(|at| self.u8(at)).collect::<Result<_>>()?)
            }
            14..=21 => {
                let tag = tag.saturating_sub(13);
                let places = self.list(wide, width_of(tag))?;
                let numbers: Result<Vec<Attr>> = places.map(|at| self.integer(tag, at)).collect();
                let whole: Option<Vec<i64>> = numbers?
                    .into_iter()
                    .map(|number| match number {
                        Attr::Int(number) => Some(number),
                        Attr::UInt(number) => i64::try_from(number).ok(),
                        _ => None,
                    })
                    .collect();
                Attr::Ints(whole.ok_or_else(|| {
                    ArrayError::foreign(self.path, "lists of whole numbers above 2^63")
                })?)
            }
            22 | 23 => {
                let tag = tag.saturating_sub(13);
                let places = self.list(wide, width_of(tag))?;
                let numbers: Result<Vec<f64>> = places.map(|at| self.float(tag, at)).collect();
                Attr::Floats(numbers?)
            }
            24 if self.version == 6 => {
                let places = self.list(wide, 4)?;
                let found: Result<Vec<String>> = places.map(|at| self.shared(at, texts)).collect();
                Attr::Texts(found?)
            }
            other => {
                return Err(ArrayError::foreign(
                    self.path,
                    format!("an attribute of kind {other} (byte {at} of its footer)"),
                ));
            }
        })
    }

    /// A text by its number in the list of texts.
    fn shared(&self, at: usize, texts: &[String]) -> Result<String> {
        let number = usize::try_from(self.u32(at)?).ok();
        let text = number.and_then(|number| texts.get(number));
        text.cloned().ok_or_else(|| self.wrong(at, "a text that is not listed"))
    }

    fn integer(&self, tag: u8, at: usize) -> Result<Attr> {
        Ok(match tag {
            1 => Attr::Int(i8::from_le_bytes(self.bytes(at)?).into()),
            2 => Attr::Int(i16::from_le_bytes(self.bytes(at)?).into()),
            3 => Attr::Int(i32::from_le_bytes(self.bytes(at)?).into()),
            4 => Attr::Int(i64::from_le_bytes(self.bytes(at)?)),
            5 => Attr::UInt(self.u8(at)?.into()),
            6 => Attr::UInt(u16::from_le_bytes(self.bytes(at)?).into()),
            7 => Attr::UInt(self.u32(at)?.into()),
            _ => Attr::UInt(self.u64(at)?),
        })
    }

    fn float(&self, tag: u8, at: usize) -> Result<f64> {
        Ok(match tag {
            9 => f32::from_le_bytes(self.bytes(at)?).into(),
            _ => f64::from_le_bytes(self.bytes(at)?),
        })
    }
}

/// Bytes of memory that a value takes, about.
fn bytes_of(value: &Attr) -> u64 {
    let bytes = match value {
        Attr::Text(text) => text.len(),
        Attr::Bytes(bytes) => bytes.len(),
        Attr::Ints(numbers) => numbers.len().saturating_mul(8),
        Attr::Floats(numbers) => numbers.len().saturating_mul(8),
        Attr::Texts(texts) => texts.iter().map(|text| text.len().saturating_add(24)).sum(),
        _ => 0,
    };
    u64_len(bytes).saturating_add(64)
}

/// Bytes of a number of a kind, which is also where it stands behind the kind.
const fn width_of(tag: u8) -> usize {
    match tag {
        1 | 5 => 1,
        2 | 6 => 2,
        3 | 7 | 9 => 4,
        _ => 8,
    }
}

impl Parsed {
    /// Attributes of an array of version 6 by name.
    pub(super) fn attrs(
        &self,
        path: &Path,
        array: &Array,
        keys: &[String],
        values: &[Attr],
        left: &mut u64,
    ) -> Result<BTreeMap<String, Attr>> {
        let mut attrs = BTreeMap::new();
        for (key, value) in &array.attrs {
            let of = |number: &u64| usize::try_from(*number).ok();
            let key = of(key).and_then(|key| keys.get(key));
            let value = of(value).and_then(|value| values.get(value));
            let (Some(key), Some(value)) = (key, value) else {
                let reason = format!("array `{}` has an attribute that is not listed", array.name);
                return Err(ArrayError::damaged(path, reason));
            };
            // Many attributes may be one long value.
            let bytes = u64_len(key.len()).saturating_add(bytes_of(value));
            *left = left.checked_sub(bytes).ok_or(ArrayError::TooLarge {
                what: "file's attributes (bytes)",
                found: MAX_ATTRS.saturating_add(1),
                allowed: MAX_ATTRS,
            })?;
            attrs.insert(key.clone(), value.clone());
        }
        Ok(attrs)
    }
}
