//! Some rows of a pack as a pack of their own.

use std::collections::HashSet;
use std::path::Path;

use iac_format::TableKind;
use iac_reader::PackReader;
use iac_writer::{WriteError, WriteOptions, WriteSummary};

use crate::carry::{Carried, carried_header, carried_table, check_carried, slide_numbers};
use crate::decode::selected_rows;
use crate::error::{OpsError, Result};
use crate::expansion::check_expansion;
use crate::progress::Progress;
use crate::rows::RowSelection;

/// How a subset is made.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct SubsetOptions {
    /// Keep every row of the slide table; default `false`: those that a selected row belongs to,
    /// with their numbers.
    pub keep_slides: bool,
    /// How the pack is written.
    pub write: WriteOptions,
    /// Also write far more than the pack holds, where records overlap or rows repeat; default
    /// `false`.
    pub allow_expansion: bool,
}

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SubsetSummary {
    /// Rows of the pack.
    pub of_rows: u64,
    /// Rows of the new pack.
    pub rows: u64,
    /// Rows of the new pack's slide table.
    pub slides: u64,
    /// What was written.
    pub written: WriteSummary,
}

/// Writes selected rows of a pack into a new one, in the order of the selection.
///
/// Stored bytes are copied as they are, compared with their checksums; the header's members stay.
/// Progress counts rows.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # for name in ["a.txt", "b.txt"] { std::fs::write(folder.path().join(name), name)?; }
/// # let (all, some) = (folder.path().join("all.iac"), folder.path().join("some.iac"));
/// use iac_ops::NoProgress;
/// use iac_ops::predicate::Predicate;
/// use iac_ops::raw::{RawPackOptions, pack_raw};
/// use iac_ops::subset::{SubsetOptions, subset};
/// use iac_ops::view::select_rows;
/// use iac_reader::PackReader;
///
/// pack_raw(&[folder.path().to_owned()], &all, &RawPackOptions::default(), &NoProgress)?;
/// let pack = PackReader::open(&all)?;
/// let rows = select_rows(&pack, &Predicate::parse("path = 'b.txt'")?)?;
/// let summary = subset(&pack, &rows, &some, &SubsetOptions::default(), &NoProgress)?;
/// assert_eq!((summary.of_rows, summary.rows), (2, 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// [`OpsError::RowOutOfRange`]; [`OpsError::Source`] for packs whose rows are not all that they
/// hold; [`OpsError::Expansion`]; [`OpsError::Write`], also when the destination exists;
/// [`OpsError::Read`] when a record is damaged; [`OpsError::Cancelled`]. Nothing is left then.
pub fn subset(
    pack: &PackReader,
    rows: &RowSelection,
    out: &Path,
    options: &SubsetOptions,
    progress: &dyn Progress,
) -> Result<SubsetSummary> {
    if !options.write.overwrite && out.exists() {
        return Err(OpsError::Write(WriteError::Exists { path: out.to_owned() }));
    }
    let kind = check_carried(pack)?;
    let rows = selected_rows(pack, Some(rows))?;
    if !options.allow_expansion {
        check_expansion(pack, rows.iter(), progress)?;
    }
    let slides = if options.keep_slides { None } else { used_slides(pack, &rows)? };
    let carried = Carried {
        kind,
        header: carried_header(pack),
        slides: carried_table(pack, kind, TableKind::Slide, slides)?,
        index: carried_table(pack, kind, TableKind::Index, Some(rows.clone()))?,
        packs: vec![(pack, rows.clone())],
    };
    let written = carried.write(out, &options.write, "copying", progress)?;
    Ok(SubsetSummary {
        of_rows: pack.num_records()?,
        rows: rows.len(),
        slides: carried.slides.num_rows(),
        written,
    })
}

/// Rows of the slide table that rows of the index belong to; nothing where that is not known.
fn used_slides(pack: &PackReader, rows: &RowSelection) -> Result<Option<RowSelection>> {
    let Some(numbers) = slide_numbers(pack)? else { return Ok(None) };
    let number = |row: u64| numbers.index.get(usize::try_from(row).ok()?).copied().flatten();
    let used: HashSet<i128> = rows.iter().filter_map(number).collect();
    let slides = (0_u64..).zip(&numbers.slides);
    let kept = slides.filter(|(_, number)| number.is_some_and(|number| used.contains(&number)));
    Ok(Some(kept.map(|(row, _)| row).collect()))
}
