//! Checks of the rules of a payload type, which higher crates know.

use iac_format::ErrorKind;
use iac_reader::PackReader;

use crate::decode::Decoded;
use crate::error::Result;

/// A rule that a pack breaks.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SchemaFault {
    /// Row of the index table, where one row is at fault.
    pub row: Option<u64>,
    /// Header member or column, where one is at fault.
    pub field: Option<String>,
    /// What is wrong, without the pack's name.
    pub message: String,
    /// The kind of the fault.
    pub kind: ErrorKind,
}

impl SchemaFault {
    /// A broken rule.
    pub fn new(message: impl Into<String>) -> Self {
        Self { row: None, field: None, message: message.into(), kind: ErrorKind::Schema }
    }

    /// The same at a row.
    #[must_use]
    pub fn row(mut self, row: impl Into<Option<u64>>) -> Self {
        self.row = row.into();
        self
    }

    /// The same at a header member or column.
    #[must_use]
    pub fn field(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into());
        self
    }

    /// The same of another kind.
    #[must_use]
    pub const fn kind(mut self, kind: ErrorKind) -> Self {
        self.kind = kind;
        self
    }
}

/// What the check of a pack's rules found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SchemaReport {
    /// Broken rules, as many as were asked for.
    pub faults: Vec<SchemaFault>,
    /// All of them, the listed ones included.
    pub total: u64,
    /// What is allowed, but seldom meant.
    pub warnings: Vec<String>,
}

impl SchemaReport {
    /// Adds a fault, unless so many are listed already: then it is only counted.
    pub fn push(&mut self, most: usize, fault: SchemaFault) {
        self.total = self.total.saturating_add(1);
        if self.faults.len() < most {
            self.faults.push(fault);
        }
    }
}

/// The rules of one or more payload types.
///
/// `iac-ops` knows none; whoever does hands them to
/// [`CheckOptions::schemas`](crate::check::CheckOptions::schemas).
pub trait SchemaCheck: Send + Sync + std::fmt::Debug {
    /// Whether these are the rules of packs of this type.
    fn handles(&self, payload_type: &str) -> bool;

    /// Checks header and tables of a pack. Layout, spans, checksums and whether records decode are
    /// others' affair.
    ///
    /// # Errors
    ///
    /// What keeps the rules from being checked at all: damaged tables, which are told elsewhere.
    fn check(&self, pack: &PackReader, most: usize) -> Result<SchemaReport>;

    /// Whether a row stores a record at all: some schemas have rows without one, which are not
    /// decoded.
    fn has_record(&self, pack: &PackReader, row: u64) -> bool {
        let _ = (pack, row);
        true
    }

    /// What is wrong with a record that was decoded; nothing as a rule.
    fn check_record(&self, pack: &PackReader, record: &Decoded) -> Option<SchemaFault> {
        let _ = (pack, record);
        None
    }
}
