//! How a check is asked for, and what it tells.

use iac_codec::Limits;
use iac_format::ErrorKind;
use serde::Serialize;

/// What is checked; by as many threads as the pack that is checked is read with.
///
/// ```
/// use iac_adapters::text::check::TextCheckOptions;
///
/// let everything = TextCheckOptions::default().decode(u64::MAX).strict(true);
/// # let _ = everything;
/// ```
#[derive(Debug, Clone)]
pub struct TextCheckOptions {
    pub(super) decode: u64,
    pub(super) crc: u64,
    pub(super) spread: bool,
    pub(super) max_faults: usize,
    pub(super) strict: bool,
    pub(super) limits: Limits,
}

impl TextCheckOptions {
    /// Sets how many rows are decoded; `u64::MAX`: all. Default: 16.
    #[must_use]
    pub const fn decode(mut self, rows: u64) -> Self {
        self.decode = rows;
        self
    }

    /// Sets how many rows are compared with their checksum, beside those that are decoded. Default:
    /// all.
    #[must_use]
    pub const fn crc(mut self, rows: u64) -> Self {
        self.crc = rows;
        self
    }

    /// Sets whether these rows are spread over the pack, first and last among them; else they are
    /// the first ones. Default: spread.
    #[must_use]
    pub const fn spread(mut self, spread: bool) -> Self {
        self.spread = spread;
        self
    }

    /// Sets how many faults and how many warnings are listed at most; the others are only counted.
    /// Default: 1,000.
    #[must_use]
    pub const fn max_faults(mut self, faults: usize) -> Self {
        self.max_faults = faults;
        self
    }

    /// Sets whether warnings are faults. Default: no.
    #[must_use]
    pub const fn strict(mut self, strict: bool) -> Self {
        self.strict = strict;
        self
    }

    /// Sets the bounds on what one patient may decode to. Default: [`Limits::default`].
    #[must_use]
    pub const fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }
}

impl Default for TextCheckOptions {
    fn default() -> Self {
        Self {
            decode: 16,
            crc: u64::MAX,
            spread: true,
            max_faults: 1000,
            strict: false,
            limits: Limits::default(),
        }
    }
}

/// One thing that is wrong. As JSON: `{"check","row","field","message"}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct TextFault {
    /// What was checked: `header`, `table`, `patient_id`, `span`, `checksum`, `decode`, `block`,
    /// `index`, `body`.
    pub check: &'static str,
    /// Row of the index, where one row is at fault.
    pub row: Option<u64>,
    /// Header member or column, where one is at fault.
    pub field: Option<String>,
    /// What is wrong, without the pack's name.
    pub message: String,
    /// The kind of the fault.
    #[serde(skip)]
    pub kind: ErrorKind,
}

/// What was found in one pack.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TextCheck {
    /// The payload type.
    pub payload_type: &'static str,
    /// Rows of the index.
    pub records: u64,
    /// The codec's name, where the header states one.
    pub codec: String,
    /// Rows that were decoded, well or not.
    pub decoded: u64,
    /// Rows that were compared with their checksum.
    pub crc_checked: u64,
    /// What is wrong, as far as it is listed.
    pub faults: Vec<TextFault>,
    /// All faults.
    pub total_faults: u64,
    /// What is suspicious but legal, as far as it is listed; empty in a strict check.
    pub warnings: Vec<TextFault>,
    /// All warnings.
    pub total_warnings: u64,
}

impl TextCheck {
    /// Whether nothing is wrong.
    #[must_use]
    pub const fn is_sound(&self) -> bool {
        self.total_faults == 0
    }

    /// What validators print about a sound pack:
    /// `type=T records=R codec=C decoded=D crc_checked=N`.
    #[must_use]
    pub fn summary(&self) -> String {
        format!(
            "type={} records={} codec={} decoded={} crc_checked={}",
            self.payload_type, self.records, self.codec, self.decoded, self.crc_checked
        )
    }
}
