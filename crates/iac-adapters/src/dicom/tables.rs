//! The two tables of a patient pack.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::builder::BinaryBuilder;
use arrow_array::{
    ArrayRef, BooleanArray, Float64Array, Int32Array, RecordBatch, StringArray, UInt8Array,
    UInt16Array, UInt32Array, UInt64Array,
};
use arrow_schema::{Field, Schema};
use iac_writer::Table;

use super::build::{Collecting, Instance};
use super::number;
use crate::error::{AdapterError, Result};

pub(crate) type AllSeries = BTreeMap<(String, String), Collecting>;

/// Columns with their names, all of them nullable as the reference has them.
pub(crate) fn table(columns: Vec<(&str, ArrayRef)>) -> Result<Table> {
    let fields: Vec<Field> = columns
        .iter()
        .map(|(name, column)| Field::new(*name, column.data_type().clone(), true))
        .collect();
    let columns = columns.into_iter().map(|(_, column)| column).collect();
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
        .map_err(|error| AdapterError::usage(format!("the tables cannot be made: {error}")))?;
    Ok(Table::from(batch))
}

/// Where an image lies, as far as its object says so.
pub(crate) struct ImagePlace {
    pub(crate) position: Option<[f64; 3]>,
    pub(crate) orientation: Option<[f64; 6]>,
    pub(crate) spacing: Option<[f64; 2]>,
    pub(crate) thickness: Option<f64>,
}

/// The columns of places, which both schemas have.
pub(crate) fn place_columns(places: &[ImagePlace]) -> Vec<(&'static str, ArrayRef)> {
    let reals = |get: &dyn Fn(&ImagePlace) -> Option<f64>| -> ArrayRef {
        Arc::new(places.iter().map(get).collect::<Float64Array>())
    };
    let axis = |place: usize| move |one: &ImagePlace| one.position?.get(place).copied();
    let direction = |place: usize| move |one: &ImagePlace| one.orientation?.get(place).copied();
    vec![
        ("position_x", reals(&axis(0))),
        ("position_y", reals(&axis(1))),
        ("position_z", reals(&axis(2))),
        ("row_x", reals(&direction(0))),
        ("row_y", reals(&direction(1))),
        ("row_z", reals(&direction(2))),
        ("column_x", reals(&direction(3))),
        ("column_y", reals(&direction(4))),
        ("column_z", reals(&direction(5))),
        ("row_spacing", reals(&|one| one.spacing.map(|[row, _]| row))),
        ("column_spacing", reals(&|one| one.spacing.map(|[_, column]| column))),
        ("slice_thickness", reals(&|one| one.thickness)),
    ]
}

fn idx(position: usize) -> u16 {
    u16::try_from(position).unwrap_or(u16::MAX)
}

/// One row for each series, with the places of their templates.
pub(crate) fn series_table(series: &AllSeries, templates: &[Vec<u8>]) -> Result<Table> {
    let mut offsets = Vec::with_capacity(templates.len());
    let mut lengths = Vec::with_capacity(templates.len());
    let mut end = 0_u64;
    for template in templates {
        let length = u32::try_from(template.len())
            .map_err(|_| AdapterError::usage("what a series shares has more than 4 GiB"))?;
        offsets.push(end);
        lengths.push(length);
        end = end.saturating_add(length.into());
    }
    let modality = |one: &Collecting| {
        one.instances.first().map_or_else(String::new, |first| first.place.modality.clone())
    };
    let strings = |get: &dyn Fn(&(String, String), &Collecting) -> String| -> ArrayRef {
        Arc::new(series.iter().map(|(key, one)| Some(get(key, one))).collect::<StringArray>())
    };
    let count = |one: &Collecting| u32::try_from(one.instances.len()).unwrap_or(u32::MAX);
    table(vec![
        (
            "series_idx",
            Arc::new((0..series.len()).map(|it| Some(idx(it))).collect::<UInt16Array>()),
        ),
        ("study_uid", strings(&|(study, _), _| study.clone())),
        ("series_uid", strings(&|(_, series), _| series.clone())),
        ("modality", strings(&|_, one| modality(one))),
        (
            "instance_count",
            Arc::new(series.values().map(|one| Some(count(one))).collect::<UInt32Array>()),
        ),
        ("template_offset", Arc::new(UInt64Array::from(offsets))),
        ("template_length", Arc::new(UInt32Array::from(lengths))),
        (
            "template_crc32",
            Arc::new(templates.iter().map(|it| Some(crc32fast::hash(it))).collect::<UInt32Array>()),
        ),
        ("series_description", strings(&|_, one| one.description.clone())),
    ])
}

/// One row for each instance. The columns that the writer fills in hold zeros.
pub(crate) fn instance_table(series: &AllSeries, deltas: &[Vec<u8>]) -> Result<Table> {
    let instances: Vec<(usize, &Instance)> = series
        .values()
        .enumerate()
        .flat_map(|(position, one)| one.instances.iter().map(move |instance| (position, instance)))
        .collect();
    let rows = || instances.iter().map(|(_, instance)| *instance);
    let small = |get: fn(&Instance) -> u8| -> ArrayRef {
        Arc::new(rows().map(|one| Some(get(one))).collect::<UInt8Array>())
    };
    let words = |get: fn(&Instance) -> u32| -> ArrayRef {
        Arc::new(rows().map(|one| Some(get(one))).collect::<UInt32Array>())
    };
    let strings = |get: fn(&Instance) -> &str| -> ArrayRef {
        Arc::new(rows().map(|one| Some(get(one))).collect::<StringArray>())
    };
    let whole = |get: fn(&Instance) -> &str| -> ArrayRef {
        let number = |text: &str| {
            text.split('\\').next().and_then(number::integer).and_then(|it| i32::try_from(it).ok())
        };
        Arc::new(rows().map(|one| number(get(one))).collect::<Int32Array>())
    };
    let mut bytes = BinaryBuilder::new();
    let total = deltas.iter().map(Vec::len).fold(0, usize::saturating_add);
    if i32::try_from(total).is_err() {
        return Err(AdapterError::usage(format!(
            "the metadata of the instances has {total} bytes, and a pack holds at most {}",
            i32::MAX
        )));
    }
    for delta in deltas {
        bytes.append_value(delta);
    }
    let zeros = instances.len();
    let places: Vec<ImagePlace> = rows()
        .map(|one| ImagePlace {
            position: one.place.position,
            orientation: one.place.orientation,
            spacing: one.place.pixel_spacing,
            thickness: one.place.thickness,
        })
        .collect();
    let mut columns: Vec<(&str, ArrayRef)> = vec![
        (
            "series_idx",
            Arc::new(instances.iter().map(|(it, _)| Some(idx(*it))).collect::<UInt16Array>()),
        ),
        ("sop_instance_uid", strings(|one| &one.sop_uid)),
        (
            "instance_number",
            Arc::new(rows().map(|one| Some(one.place.instance_number)).collect::<Int32Array>()),
        ),
        ("rows", words(|one| one.row.rows)),
        ("columns", words(|one| one.row.columns)),
        (
            "has_pixel_data",
            Arc::new(rows().map(|one| Some(one.row.has_pixels)).collect::<BooleanArray>()),
        ),
        ("samples_per_pixel", small(|one| one.row.samples_per_pixel)),
        ("pixel_dtype", strings(|one| one.row.dtype)),
        ("pixel_representation", small(|one| one.row.pixel_representation)),
        ("bits_allocated", small(|one| one.row.bits_allocated)),
        ("bits_stored", small(|one| one.row.bits_stored)),
        ("high_bit", small(|one| one.row.high_bit)),
        ("photometric_interpretation", strings(|one| &one.row.photometric)),
        ("source_transfer_syntax", strings(|one| &one.row.transfer_syntax)),
        ("dicom_delta", Arc::new(bytes.finish())),
        (
            "dicom_delta_crc32",
            Arc::new(deltas.iter().map(|it| Some(crc32fast::hash(it))).collect::<UInt32Array>()),
        ),
        ("offset", Arc::new(UInt64Array::from(vec![0; zeros]))),
        ("length", Arc::new(UInt32Array::from(vec![0; zeros]))),
        ("crc32", Arc::new(UInt32Array::from(vec![0; zeros]))),
    ];
    // What follows is ours: stacks are found without an object being opened.
    columns.extend(place_columns(&places));
    columns.push(("acquisition_number", whole(|one| &one.place.acquisition)));
    columns.push(("echo_numbers", strings(|one| &one.place.echo)));
    table(columns)
}
