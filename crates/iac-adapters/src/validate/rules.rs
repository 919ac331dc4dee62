//! Rules that tiles and features share.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use arrow_schema::DataType;
use iac_format::{CONTAINER_MEMBERS, TableKind};
use iac_ops::schema::{SchemaFault, SchemaReport};
use iac_reader::{PackReader, Table};
use serde_json::Value;

use crate::columns::{IntColumn, TextColumn, has_column, int_column, missing_columns, text_column};
use crate::error::{AdapterError, Result, short};
use crate::ids::IdIndex;
use crate::record::fault_text;

/// Where faults go.
#[derive(Debug)]
pub(super) struct Findings {
    pub(super) report: SchemaReport,
    most: usize,
}

impl Findings {
    pub(super) fn new(most: usize) -> Self {
        Self { report: SchemaReport::default(), most }
    }

    pub(super) fn fault(&mut self, fault: SchemaFault) {
        self.report.push(self.most, fault);
    }

    pub(super) fn field(&mut self, field: &str, message: impl Into<String>) {
        self.fault(SchemaFault::new(message).field(field));
    }

    pub(super) fn at(&mut self, row: u64, field: &str, message: impl Into<String>) {
        self.fault(SchemaFault::new(message).row(row).field(field));
    }

    pub(super) fn warn(&mut self, message: impl Into<String>) {
        self.report.warnings.push(message.into());
    }

    /// The first fault, as an error.
    pub(super) fn first(&self, pack: &PackReader) -> Result<()> {
        let Some(fault) = self.report.faults.first() else { return Ok(()) };
        Err(AdapterError::Schema {
            path: pack.path().to_owned(),
            row: fault.row,
            field: fault.field.clone(),
            reason: fault.message.clone(),
        })
    }
}

/// The columns that identify tiles and say where they lie.
#[derive(Debug)]
pub(super) struct Columns {
    slide_idx: IntColumn,
    x: IntColumn,
    y: IntColumn,
    split: Option<TextColumn>,
    /// Patient of each slide number.
    slides: HashMap<i128, String>,
}

/// Checks the columns of both tables: whether they are there, what they hold, and whether ids and
/// slides make sense. Nothing when a column is missing or of another type.
pub(super) fn columns(
    pack: &PackReader,
    positions: [&str; 2],
    findings: &mut Findings,
) -> Result<Option<Columns>> {
    let [x, y] = positions;
    let slide_columns = ["slide_idx", "slide_id", "patient_id"];
    let index_columns = ["slide_idx", x, y, "tile_id", "flags"];
    let tables: [(&Table, &str, &[&str]); 2] = [
        (pack.slide_table()?, "slide table", &slide_columns),
        (pack.index_table()?, "record table", &index_columns),
    ];
    let mut is_complete = true;
    for (table, name, wanted) in tables {
        let missing = missing_columns(table, wanted);
        if let Some(first) = missing.first() {
            findings.field(first, format!("{name} missing columns: {}", listed(&missing)));
            is_complete = false;
        }
    }
    if !is_complete {
        return Ok(None);
    }
    let ids = text_column(pack, TableKind::Index, "tile_id");
    let Some(ids) = take(ids, findings)? else { return Ok(None) };
    if let Err(fault) = IdIndex::new(&ids) {
        let row = match &fault {
            crate::ids::IdFault::Null { row } => Some(*row),
            crate::ids::IdFault::Repeated { rows, .. } => rows.first().copied(),
            crate::ids::IdFault::TooMany { .. } => None,
        };
        let message = fault_text(&ids, &fault, "tile_id");
        findings.fault(SchemaFault::new(message).row(row).field("tile_id"));
    }
    let integers = |name| int_column(pack, TableKind::Index, name);
    let Some(slide_idx) = take(integers("slide_idx"), findings)? else { return Ok(None) };
    let Some((slides, problems)) = slides(pack, findings)? else { return Ok(None) };
    for (row, number) in (0_u64..).zip(slide_idx.iter()) {
        match number {
            Some(number) if slides.contains_key(&number) => {}
            Some(number) => {
                findings.at(row, "slide_idx", format!("invalid slide_idx at row {row}: {number}"));
            }
            None => findings.at(row, "slide_idx", format!("invalid slide_idx at row {row}: None")),
        }
    }
    for problem in problems {
        findings.fault(problem);
    }
    let (Some(x), Some(y)) = (take(integers(x), findings)?, take(integers(y), findings)?) else {
        return Ok(None);
    };
    let split = match has_column(pack.index_table()?, "split") {
        true => take(text_column(pack, TableKind::Index, "split"), findings)?,
        false => None,
    };
    Ok(Some(Columns { slide_idx, x, y, split, slides }))
}

type SlidesAndProblems = (HashMap<i128, String>, Vec<SchemaFault>);

/// Slide numbers with their patients, and what is wrong with the slide table besides.
fn slides(pack: &PackReader, findings: &mut Findings) -> Result<Option<SlidesAndProblems>> {
    let numbers = take(int_column(pack, TableKind::Slide, "slide_idx"), findings)?;
    let ids = take(text_column(pack, TableKind::Slide, "slide_id"), findings)?;
    let patients = take(text_column(pack, TableKind::Slide, "patient_id"), findings)?;
    let (Some(numbers), Some(ids), Some(patients)) = (numbers, ids, patients) else {
        return Ok(None);
    };
    let mut slides = HashMap::new();
    let mut names = BTreeSet::new();
    let mut problems = Vec::new();
    let mut problem = |field: &str, message: String| {
        problems.push(SchemaFault::new(message).field(format!("slide.{field}")));
    };
    let rows = numbers.iter().zip(ids.iter().zip(patients.iter()));
    for (row, (number, (id, patient))) in (0_u64..).zip(rows) {
        let nulls = [
            ("slide_idx", number.is_none()),
            ("slide_id", id.is_none()),
            ("patient_id", patient.is_none()),
        ];
        for (field, _) in nulls.into_iter().filter(|(_, is_null)| *is_null) {
            problem(field, format!("{field} is null in row {row} of the slide table"));
        }
        if let Some(number) = number
            && slides.insert(number, patient.unwrap_or_default().to_owned()).is_some()
        {
            problem("slide_idx", format!("slide_idx {number} stands twice in the slide table"));
        }
        if let Some(id) = id
            && !names.insert(id)
        {
            problem(
                "slide_id",
                format!("slide_id \"{}\" stands twice in the slide table", short(id)),
            );
        }
    }
    Ok(Some((slides, problems)))
}

/// A column, or a fault where it is of another type.
fn take<T>(column: Result<T>, findings: &mut Findings) -> Result<Option<T>> {
    match column {
        Ok(column) => Ok(Some(column)),
        Err(AdapterError::Schema { row, field, reason, .. }) => {
            let mut fault = SchemaFault::new(reason).row(row);
            fault.field = field;
            findings.fault(fault);
            Ok(None)
        }
        Err(other) => Err(other),
    }
}

/// Names as the messages of the reference list them.
pub(super) fn listed(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("'{name}'")).collect();
    format!("[{}]", quoted.join(", "))
}

/// What is allowed, but seldom meant: nulls, repeated positions, patients in several splits.
pub(super) fn warn_of_rows(columns: &Columns, findings: &mut Findings) {
    let Columns { slide_idx, x, y, split, slides, .. } = columns;
    let mut places = Vec::new();
    let mut missing = 0_u64;
    let mut negative = 0_u64;
    for ((slide, x), y) in slide_idx.iter().zip(x.iter()).zip(y.iter()) {
        match (slide, x, y) {
            (Some(slide), Some(x), Some(y)) => {
                negative = negative.saturating_add(u64::from(x < 0 || y < 0));
                places.push((slide, y, x));
            }
            _ => missing = missing.saturating_add(1),
        }
    }
    if missing > 0 {
        findings.field("tile_x", format!("{missing} rows have no position"));
    }
    if negative > 0 {
        findings.warn(format!("{negative} rows have a negative position"));
    }
    places.sort_unstable();
    let pairs = places.iter().zip(places.iter().skip(1));
    let repeated = pairs.filter(|(first, second)| first == second).count();
    if repeated > 0 {
        findings.warn(format!("{repeated} tiles lie where another one of their slide does"));
    }
    let Some(split) = split else { return };
    let mut of_patient: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (slide, split) in slide_idx.iter().zip(split.iter()) {
        let patient = slide.and_then(|slide| slides.get(&slide));
        if let (Some(patient), Some(split)) = (patient, split.filter(|split| !split.is_empty())) {
            of_patient.entry(patient).or_default().insert(split);
        }
    }
    let mut leaking = of_patient.iter().filter(|(_, splits)| splits.len() > 1);
    if let Some((patient, splits)) = leaking.next() {
        let splits: Vec<&str> = splits.iter().copied().collect();
        let count = u64::try_from(leaking.count()).unwrap_or(u64::MAX).saturating_add(1);
        findings.warn(format!(
            "{} tiles in several splits (the first is \"{}\": {})",
            if count == 1 { "1 patient has".to_owned() } else { format!("{count} patients have") },
            short(patient),
            short(&splits.join(", "))
        ));
    }
}

/// Header members that say something else than the tables.
pub(super) fn warn_of_header(
    pack: &PackReader,
    known: &[&str],
    findings: &mut Findings,
) -> Result<()> {
    let header = pack.header();
    for (member, column) in [
        ("slide_idx_dtype", "slide_idx"),
        ("tile_xy_dtype", "tile_x"),
        ("tile_xy_dtype", "tile_y"),
        ("offset_dtype", "offset"),
        ("length_dtype", "length"),
        ("flags_dtype", "flags"),
    ] {
        let Some(stated) = header.get(member).and_then(Value::as_str) else { continue };
        let table = pack.index_table()?;
        let field = table.schema().fields().iter().find(|field| field.name() == column);
        if let Some(found) = field.map(|field| type_name(field.data_type()))
            && found != stated
        {
            findings.warn(format!(
                "the header says {member} {stated}, but column `{column}` is {found}"
            ));
        }
    }
    if header.get("created_by").is_none() {
        findings.warn("the header does not say who created the pack (created_by)");
    }
    let unknown: Vec<&str> = header
        .members()
        .keys()
        .map(String::as_str)
        .filter(|name| {
            let lists: [&[&str]; 4] = [&CONTAINER_MEMBERS, &OF_ALL, &SHARED, known];
            !lists.iter().any(|list| list.contains(name))
        })
        .collect();
    if !unknown.is_empty() {
        let shown: Vec<String> = unknown.iter().take(20).map(|name| short(name)).collect();
        findings.warn(format!(
            "{} header members have no meaning here: {}",
            unknown.len(),
            shown.join(", ")
        ));
    }
    Ok(())
}

fn type_name(data_type: &DataType) -> String {
    data_type.to_string().to_lowercase()
}

const OF_ALL: [&str; 5] =
    ["checksums", "extensions", "required_extensions", "payload_type", "created_by"];

const SHARED: [&str; 11] = [
    "tile_width",
    "tile_height",
    "stride_x",
    "stride_y",
    "coordinate_mode",
    "origin",
    "slide_idx_dtype",
    "tile_xy_dtype",
    "flags_dtype",
    "checksum",
    "iac_encode",
];
