//! What salvaging tells: one line for each fault, and the sums.

use iac_format::ErrorKind;
use iac_writer::WriteSummary;
use serde::Serialize;
use serde_json::{Map, Value};

/// What became of something that is wrong with a pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Action {
    /// The row, column or table is not in the new pack.
    Dropped,
    /// It is in the new pack all the same.
    Kept,
}

/// One line of the report: a fault, and what became of what it touches.
///
/// As JSON: `{"path","check","row","field","message","action"}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SalvageLine {
    /// The damaged pack.
    pub path: String,
    /// What was checked: `layout`, `table`, `span`, `checksum`, `read`.
    pub check: &'static str,
    /// Row of the damaged pack's index table, where one row is concerned.
    pub row: Option<u64>,
    /// Header member or column, where one is concerned.
    pub field: Option<String>,
    /// What is wrong.
    pub message: String,
    /// The kind of the fault.
    #[serde(skip)]
    pub kind: ErrorKind,
    /// What became of it.
    pub action: Action,
}

/// What was salvaged, and what was lost and why.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SalvageReport {
    /// What is wrong: the whole pack's faults first, then rows in order; at most
    /// [`max_lines`](super::SalvageOptions::max_lines) of them.
    pub lines: Vec<SalvageLine>,
    /// Everything that is wrong, the lines included.
    pub faults: u64,
    /// Rows of the damaged pack's index table.
    pub rows: u64,
    /// Rows in the new pack.
    pub kept: u64,
    /// Rows that are not.
    pub dropped: u64,
    /// What is no fault, but good to know: what could not be checked, and why.
    pub notes: Vec<String>,
    /// What was written.
    pub written: WriteSummary,
}

impl SalvageReport {
    /// Whether nothing was wrong at all.
    #[must_use]
    pub const fn is_sound(&self) -> bool {
        self.faults == 0
    }

    /// The report as JSON lines: one for each fault that is listed, the last one
    /// `{"summary":{"packs","rows","faults","kept","dropped"}}`.
    #[must_use]
    pub fn to_json_lines(&self) -> String {
        let mut text = String::new();
        for line in &self.lines {
            // Text and numbers alone cannot fail to be JSON.
            text.push_str(&serde_json::to_string(line).unwrap_or_default());
            text.push('\n');
        }
        let mut summary = Map::new();
        summary.insert("packs".to_owned(), Value::from(1));
        summary.insert("rows".to_owned(), Value::from(self.rows));
        summary.insert("faults".to_owned(), Value::from(self.faults));
        summary.insert("kept".to_owned(), Value::from(self.kept));
        summary.insert("dropped".to_owned(), Value::from(self.dropped));
        let mut line = Map::new();
        line.insert("summary".to_owned(), Value::Object(summary));
        text.push_str(&Value::Object(line).to_string());
        text.push('\n');
        text
    }
}
