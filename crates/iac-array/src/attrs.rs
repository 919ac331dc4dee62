//! The attributes of one array: as they are stored, until somebody asks for all of them.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use arrow_array::{Array, BinaryArray, StringArray};

use crate::attr::{Attr, MAX_VALUE_BYTES};
use crate::error::u64_len;
use crate::meta::MAX_NAME_BYTES;

/// The keys that an array has, sorted. Most arrays of a store have the same, so they are kept once.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct KeySet {
    /// All keys, back to back.
    text: Box<str>,
    /// Where each of them ends.
    ends: Box<[usize]>,
}

impl KeySet {
    /// Keys that are checked here once for all arrays that have them.
    fn new(keys: &[&str]) -> Result<Self, String> {
        let mut text = String::new();
        let mut ends = Vec::with_capacity(keys.len());
        let mut before: Option<&str> = None;
        for key in keys {
            check_key(key)?;
            if before.is_some_and(|before| before >= *key) {
                return Err(format!("attribute `{key}` occurs twice, or keys are not sorted"));
            }
            before = Some(key);
            text.push_str(key);
            ends.push(text.len());
        }
        Ok(Self { text: text.into(), ends: ends.into() })
    }

    fn get(&self, at: usize) -> Option<&str> {
        let from = at.checked_sub(1).map_or(Some(0), |before| self.ends.get(before).copied())?;
        self.text.get(from..*self.ends.get(at)?)
    }

    fn position(&self, key: &str) -> Option<usize> {
        (0..self.ends.len()).find(|at| self.get(*at) == Some(key))
    }
}

/// Entries of the attributes of one batch of a catalogue, while its rows are read.
pub(crate) struct AttrColumn<'a> {
    keys: &'a StringArray,
    values: Arc<BinaryArray>,
    /// The keys of the row before, by their places, and what was made of them.
    last: Option<(Range<usize>, Arc<KeySet>)>,
    known: HashMap<Vec<&'a str>, Arc<KeySet>>,
}

impl<'a> AttrColumn<'a> {
    /// Keys and values without nulls, as many of one as of the other.
    pub(crate) fn new(keys: &'a StringArray, values: &BinaryArray) -> Self {
        Self { keys, values: Arc::new(values.clone()), last: None, known: HashMap::new() }
    }

    /// The attributes that lie in a part of the entries, which are checked here.
    pub(crate) fn attrs(&mut self, entries: Range<usize>) -> Result<Attrs, String> {
        let first = u32::try_from(entries.start).map_err(|_| "`attrs` is too long".to_owned())?;
        let keys = self.key_set(&entries)?;
        for at in entries {
            if !Attr::is_sound(self.values.value(at)) {
                let key = short(self.keys.value(at));
                return Err(format!("attribute `{key}` has no value that is known"));
            }
        }
        let stored = Stored { keys, values: Arc::clone(&self.values), first };
        Ok(Attrs { stored: Some(stored), map: OnceLock::new() })
    }

    fn key_set(&mut self, entries: &Range<usize>) -> Result<Arc<KeySet>, String> {
        if let Some((last, known)) = &self.last
            && self.same_keys(last, entries)
        {
            return Ok(Arc::clone(known));
        }
        let list: Vec<&'a str> = entries.clone().map(|at| self.keys.value(at)).collect();
        let known = match self.known.get(&list) {
            Some(known) => Arc::clone(known),
            None => {
                let made = Arc::new(KeySet::new(&list)?);
                self.known.insert(list, Arc::clone(&made));
                made
            }
        };
        self.last = Some((entries.clone(), Arc::clone(&known)));
        Ok(known)
    }

    /// Whether two parts of the entries have the same keys: the same bytes, cut at the same places.
    fn same_keys(&self, one: &Range<usize>, other: &Range<usize>) -> bool {
        let offsets = |entries: &Range<usize>| {
            self.keys.value_offsets().get(entries.start..=entries.end).unwrap_or_default()
        };
        let (one, other) = (offsets(one), offsets(other));
        let (Some(first), Some(second)) = (one.first(), other.first()) else {
            return false;
        };
        let text = |offsets: &[i32]| {
            let from = usize::try_from(*offsets.first()?).ok()?;
            let end = usize::try_from(*offsets.last()?).ok()?;
            self.keys.value_data().get(from..end)
        };
        one.len() == other.len()
            && one.iter().zip(other).all(|(one, other)| {
                one.checked_sub(*first).is_some_and(|one| Some(one) == other.checked_sub(*second))
            })
            && text(one).is_some_and(|one| Some(one) == text(other))
    }
}

/// Entries of a batch, in the order of their keys.
#[derive(Debug, Clone)]
struct Stored {
    keys: Arc<KeySet>,
    values: Arc<BinaryArray>,
    /// Where the value of the first key lies.
    first: u32,
}

impl Stored {
    fn value(&self, at: usize) -> Option<&[u8]> {
        let at = usize::try_from(self.first).ok()?.checked_add(at)?;
        (at < self.values.len()).then(|| self.values.value(at))
    }

    fn entries(&self) -> impl Iterator<Item = (&str, &[u8])> {
        (0..self.keys.ends.len()).filter_map(|at| Some((self.keys.get(at)?, self.value(at)?)))
    }
}

/// Attributes by key. A store of many arrays is opened without making a map for each of them.
#[derive(Default)]
#[expect(
    clippy::box_collection,
    reason = "most are never asked one by one: one word in place of three"
)]
pub(crate) struct Attrs {
    stored: Option<Stored>,
    map: OnceLock<Box<BTreeMap<String, Attr>>>,
}

/// A key that is looked for in many arrays, one after the other.
pub(crate) struct WantedKey<'k> {
    key: &'k str,
    /// The keys of the array before, and the place there.
    last: Option<(Arc<KeySet>, Option<usize>)>,
}

impl<'k> WantedKey<'k> {
    pub(crate) const fn new(key: &'k str) -> Self {
        Self { key, last: None }
    }
}

impl Clone for Attrs {
    fn clone(&self) -> Self {
        match &self.stored {
            Some(stored) => Self { stored: Some(stored.clone()), map: OnceLock::new() },
            None => Self::from(self.map().clone()),
        }
    }
}

impl fmt::Debug for Attrs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.map().fmt(f)
    }
}

impl PartialEq for Attrs {
    fn eq(&self, other: &Self) -> bool {
        self.map() == other.map()
    }
}

impl From<BTreeMap<String, Attr>> for Attrs {
    fn from(map: BTreeMap<String, Attr>) -> Self {
        Self { stored: None, map: OnceLock::from(Box::new(map)) }
    }
}

impl Attrs {
    /// All of them.
    pub(crate) fn map(&self) -> &BTreeMap<String, Attr> {
        self.map.get_or_init(|| {
            let entries = self.stored.iter().flat_map(Stored::entries);
            let decoded =
                entries.filter_map(|(key, value)| Some((key.to_owned(), Attr::decode(value)?)));
            Box::new(decoded.collect())
        })
    }

    /// One of them, without making a map of all.
    pub(crate) fn get(&self, key: &str) -> Option<Attr> {
        match (&self.stored, self.map.get()) {
            (Some(stored), None) => Attr::decode(stored.value(stored.keys.position(key)?)?),
            _ => self.map().get(key).cloned(),
        }
    }

    /// The same for a key that is looked for in many arrays.
    pub(crate) fn find(&self, wanted: &mut WantedKey<'_>) -> Option<Attr> {
        let (Some(stored), None) = (&self.stored, self.map.get()) else {
            return self.map().get(wanted.key).cloned();
        };
        let at = match &wanted.last {
            Some((keys, at)) if Arc::ptr_eq(keys, &stored.keys) => *at,
            _ => {
                let at = stored.keys.position(wanted.key);
                wanted.last = Some((Arc::clone(&stored.keys), at));
                at
            }
        };
        Attr::decode(stored.value(at?)?)
    }

    /// Hands each key with its stored value to `each`, in the order of keys.
    pub(crate) fn for_each(&self, mut each: impl FnMut(&str, &[u8])) {
        match &self.stored {
            Some(stored) => stored.entries().for_each(|(key, value)| each(key, value)),
            None => self.map().iter().for_each(|(key, value)| each(key, &value.encode())),
        }
    }

    /// Refuses keys and values that are too long.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.stored.is_some() {
            return Ok(());
        }
        for (key, value) in self.map() {
            check_key(key)?;
            let length = match value {
                Attr::Text(text) => u64_len(text.len()),
                Attr::Bytes(bytes) => u64_len(bytes.len()),
                _ => 0,
            };
            if length > MAX_VALUE_BYTES {
                return Err(format!("attribute `{}` has a value of {length} bytes", short(key)));
            }
        }
        Ok(())
    }
}

fn check_key(key: &str) -> Result<(), String> {
    if key.is_empty() || key.len() > MAX_NAME_BYTES {
        return Err(format!("attribute `{}` has a key of {} bytes", short(key), key.len()));
    }
    Ok(())
}

fn short(key: &str) -> String {
    key.chars().take(64).collect()
}
