//! Several records in one buffer.

/// Records one after the other in one buffer, with the offsets between them.
///
/// Record *i* is `buffer[offsets[i]..offsets[i + 1]]`. A batch can be filled again and again
/// without allocating ([`crate::PackReader::read_contiguous_into`]).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContiguousBatch {
    pub(crate) buffer: Vec<u8>,
    pub(crate) offsets: Vec<u64>,
}

impl Default for ContiguousBatch {
    fn default() -> Self {
        Self { buffer: Vec::new(), offsets: vec![0] }
    }
}

impl ContiguousBatch {
    /// An empty batch to read into.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of records.
    #[must_use]
    pub fn len(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// Whether there are no records.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All bytes.
    #[must_use]
    pub fn buffer(&self) -> &[u8] {
        &self.buffer
    }

    /// Where each record starts, and at the end where the last one ends: one more than records.
    #[must_use]
    pub fn offsets(&self) -> &[u64] {
        &self.offsets
    }

    /// A record by its position in the batch; `None` behind the last one.
    #[must_use]
    pub fn get(&self, position: usize) -> Option<&[u8]> {
        let start = usize::try_from(*self.offsets.get(position)?).ok()?;
        let end = usize::try_from(*self.offsets.get(position.checked_add(1)?)?).ok()?;
        self.buffer.get(start..end)
    }

    /// The records in order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).map_while(|position| self.get(position))
    }

    /// Takes the batch apart: buffer and offsets.
    #[must_use]
    pub fn into_parts(self) -> (Vec<u8>, Vec<u64>) {
        (self.buffer, self.offsets)
    }

    /// Empties the batch and keeps its memory.
    pub fn clear(&mut self) {
        self.buffer.clear();
        self.offsets.clear();
        self.offsets.push(0);
    }
}
