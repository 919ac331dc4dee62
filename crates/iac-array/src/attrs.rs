//! The attributes of one array: as they are stored, until somebody asks for all of them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use arrow_array::{BinaryArray, StringArray};

use crate::attr::{Attr, MAX_VALUE_BYTES};
use crate::error::u64_len;
use crate::meta::MAX_NAME_BYTES;

/// Keys and values of all arrays of one batch of a catalogue.
#[derive(Debug)]
pub(crate) struct AttrTable {
    pub(crate) keys: StringArray,
    pub(crate) values: BinaryArray,
}

/// Entries of such a table, sorted by key.
#[derive(Debug, Clone)]
struct Stored {
    table: Arc<AttrTable>,
    first: u32,
    end: u32,
}

/// Attributes by key. A store of many arrays is opened without making a map for each of them.
#[derive(Default)]
pub(crate) struct Attrs {
    stored: Option<Stored>,
    map: OnceLock<BTreeMap<String, Attr>>,
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
        Self { stored: None, map: OnceLock::from(map) }
    }
}

impl Stored {
    fn entries(&self) -> impl DoubleEndedIterator<Item = (&str, &[u8])> + ExactSizeIterator {
        let place = |at: u32| usize::try_from(at).unwrap_or(usize::MAX);
        let table = &self.table;
        (place(self.first)..place(self.end))
            .map(move |at| (table.keys.value(at), table.values.value(at)))
    }
}

impl Attrs {
    /// Entries of a table, which are checked here once; places are within it.
    pub(crate) fn stored(table: &Arc<AttrTable>, first: usize, end: usize) -> Result<Self, String> {
        let place = |at: usize| u32::try_from(at).map_err(|_| "`attrs` is too long".to_owned());
        let stored = Stored { table: Arc::clone(table), first: place(first)?, end: place(end)? };
        let mut before: Option<&str> = None;
        for (key, value) in stored.entries() {
            check_key(key)?;
            if before.is_some_and(|before| before >= key) {
                return Err(format!("attribute `{key}` occurs twice, or keys are not sorted"));
            }
            if !Attr::is_sound(value) {
                return Err(format!("attribute `{key}` has no value that is known"));
            }
            before = Some(key);
        }
        Ok(Self { stored: Some(stored), map: OnceLock::new() })
    }

    /// All of them.
    pub(crate) fn map(&self) -> &BTreeMap<String, Attr> {
        self.map.get_or_init(|| {
            let entries = self.stored.iter().flat_map(Stored::entries);
            entries
                .filter_map(|(key, value)| Some((key.to_owned(), Attr::decode(value)?)))
                .collect()
        })
    }

    /// One of them, without making a map of all.
    pub(crate) fn get(&self, key: &str) -> Option<Attr> {
        match (&self.stored, self.map.get()) {
            (Some(stored), None) => {
                let value = stored.entries().find(|(found, _)| *found == key)?.1;
                Attr::decode(value)
            }
            _ => self.map().get(key).cloned(),
        }
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
