//! What PS3.15 annex E says of each attribute.

use std::sync::OnceLock;

use dicom_core::Tag;

use crate::dicom::object::parse_tag;

/// The edition of the standard that the table follows.
pub(crate) const EDITION: &str = "2026c";

const TEXT: &str = include_str!("table.txt");

/// What the basic profile may do with an attribute; where there are several, its type decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Codes {
    pub(crate) remove: bool,
    pub(crate) empty: bool,
    pub(crate) dummy: bool,
    pub(crate) uid: bool,
}

/// Which options have something to say of an attribute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Cells {
    pub(crate) uids: bool,
    pub(crate) device: bool,
    pub(crate) institution: bool,
    pub(crate) patient: bool,
    /// Patient characteristics that are kept only after cleaning.
    pub(crate) patient_cleaned: bool,
    pub(crate) dates: bool,
    pub(crate) descriptors: bool,
    pub(crate) structured: bool,
}

/// One row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) codes: Codes,
    pub(crate) cells: Cells,
}

fn parse_row(line: &str) -> Option<(Tag, Row)> {
    let mut words = line.split(' ');
    let tag = parse_tag(words.next()?)?;
    let mut codes = Codes::default();
    for code in words.next()?.chars() {
        match code {
            'X' => codes.remove = true,
            'Z' => codes.empty = true,
            'D' => codes.dummy = true,
            'U' => codes.uid = true,
            _ => return None,
        }
    }
    let mut cells = Cells::default();
    for cell in words.next().unwrap_or_default().chars() {
        match cell {
            'u' => cells.uids = true,
            'd' => cells.device = true,
            'i' => cells.institution = true,
            'p' => cells.patient = true,
            'q' => cells.patient_cleaned = true,
            't' => cells.dates = true,
            'c' => cells.descriptors = true,
            's' => cells.structured = true,
            // Cleaning of graphics is not offered.
            'g' => {}
            _ => return None,
        }
    }
    Some((tag, Row { codes, cells }))
}

/// All rows, ascending.
pub(crate) fn rows() -> &'static [(Tag, Row)] {
    static ROWS: OnceLock<Vec<(Tag, Row)>> = OnceLock::new();
    ROWS.get_or_init(|| {
        let lines = TEXT.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let mut rows: Vec<(Tag, Row)> = lines.filter_map(parse_row).collect();
        rows.sort_by_key(|(tag, _)| *tag);
        rows
    })
}

/// The row of an attribute.
pub(crate) fn row(tag: Tag) -> Option<Row> {
    let rows = rows();
    let position = rows.binary_search_by_key(&tag, |(tag, _)| *tag).ok()?;
    rows.get(position).map(|(_, row)| *row)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_understood_and_no_tag_stands_twice() {
        let lines = TEXT.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        assert_eq!(lines.count(), rows().len());
        assert!(rows().len() > 640);
        assert!(rows().windows(2).all(|pair| pair[0].0 < pair[1].0));
        assert!(rows().iter().all(|(_, row)| row.codes != Codes::default()));
    }

    #[test]
    fn well_known_rows_are_as_the_standard_has_them() {
        let name = row(Tag(0x0010, 0x0010)).unwrap();
        assert!(name.codes.empty && !name.codes.remove);
        assert_eq!(name.cells, Cells::default());
        let study = row(Tag(0x0020, 0x000D)).unwrap();
        assert!(study.codes.uid && study.cells.uids);
        let date = row(Tag(0x0008, 0x0022)).unwrap();
        assert!(date.codes.remove && date.codes.empty && date.cells.dates);
        let serial = row(Tag(0x0018, 0x1000)).unwrap();
        assert!(serial.codes.dummy && serial.cells.device);
        assert!(row(Tag(0x0008, 0x0060)).is_none());
    }
}
