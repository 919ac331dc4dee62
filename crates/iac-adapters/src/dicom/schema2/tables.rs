//! The table of frames.

use std::sync::Arc;

use arrow_array::builder::{ListBuilder, UInt32Builder};
use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, BooleanArray, DictionaryArray, Float64Array, Int32Array, UInt8Array, UInt16Array,
    UInt32Array, UInt64Array,
};
use iac_writer::Table;

use super::facts::FrameFacts;
use super::payload::FrameCodec;
use super::prepare::StoredFrame;
use crate::dicom::build::Instance;
use crate::dicom::prepare::BITS_MEMBER;
use crate::dicom::tables::{AllSeries, ImagePlace, place_columns, table};
use crate::error::{AdapterError, Result};

/// Where the delta of an instance lies in the data segment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DeltaPlace {
    pub(crate) offset: u64,
    pub(crate) length: u32,
    pub(crate) crc32: u32,
}

/// A row of the table.
struct Row<'a> {
    series: u16,
    instance: u32,
    frame: u32,
    object: &'a Instance,
    stored: Option<&'a StoredFrame>,
    delta: DeltaPlace,
    /// Offset, length and checksum of the bits beside the payload.
    aside: Option<(u64, u32, u32)>,
}

/// One row for each frame, and one for each object without any. `end` is where the payloads end,
/// and bits beside them begin.
pub(crate) fn frame_table(series: &AllSeries, deltas: &[DeltaPlace], end: u64) -> Result<Table> {
    let too_many = || AdapterError::usage("there are too many frames for one pack");
    let mut rows: Vec<Row<'_>> = Vec::new();
    let mut asides = end;
    let mut place = |length: u64, crc32: u32| -> Result<(u64, u32, u32)> {
        let short = u32::try_from(length).map_err(|_| too_many())?;
        let offset = asides;
        asides = asides.saturating_add(length);
        Ok((offset, short, crc32))
    };
    let mut deltas = deltas.iter();
    let mut instance = 0_u32;
    for (number, one) in series.values().enumerate() {
        let number = u16::try_from(number).map_err(|_| too_many())?;
        for object in &one.instances {
            let delta = *deltas.next().ok_or_else(too_many)?;
            let row = Row {
                series: number,
                instance,
                frame: 0,
                object,
                stored: None,
                delta,
                aside: None,
            };
            match &object.frames {
                Some(set) if !set.frames.is_empty() => {
                    for (frame, stored) in set.frames.iter().enumerate() {
                        let frame = u32::try_from(frame).map_err(|_| too_many())?;
                        let aside = stored.aside.map(|(it, sum)| place(it.1, sum)).transpose()?;
                        rows.push(Row { frame, stored: Some(stored), aside, ..row });
                    }
                }
                _ => {
                    // What else lies aside is named by the object's metadata.
                    let bits = object.aside.as_ref().filter(|it| it.member == BITS_MEMBER);
                    let aside = bits.map(|it| place(it.place.len(), it.crc32));
                    rows.push(Row { aside: aside.transpose()?, ..row });
                }
            }
            instance = instance.checked_add(1).ok_or_else(too_many)?;
        }
    }
    columns(&rows)
}

impl Row<'_> {
    /// How the payload is stored; nothing where there is none.
    fn codec(&self) -> &'static str {
        match self.stored {
            Some(stored) => stored.codec.name(),
            None if self.object.row.has_pixels => FrameCodec::Jxl.name(),
            None => "",
        }
    }

    fn stream_photometric(&self) -> &str {
        match (self.stored, &self.object.frames) {
            (Some(stored), Some(set))
                if matches!(stored.codec, FrameCodec::Source | FrameCodec::JxlJpeg) =>
            {
                &set.stream_photometric
            }
            _ => "",
        }
    }

    fn facts(&self) -> FrameFacts {
        match self.stored {
            Some(stored) => stored.facts.clone(),
            None => {
                let place = &self.object.place;
                FrameFacts {
                    position: place.position,
                    orientation: place.orientation,
                    pixel_spacing: place.pixel_spacing,
                    slice_thickness: place.thickness,
                    slice_spacing: place.spacing,
                    rescale_slope: place.rescale.map(|[slope, _]| slope),
                    rescale_intercept: place.rescale.map(|[_, intercept]| intercept),
                    dimension_index: Vec::new(),
                }
            }
        }
    }
}

/// Texts of which few are different.
fn words<'a>(texts: impl Iterator<Item = &'a str>) -> ArrayRef {
    Arc::new(texts.map(Some).collect::<DictionaryArray<Int32Type>>())
}

fn columns(rows: &[Row<'_>]) -> Result<Table> {
    let small = |get: fn(&Row<'_>) -> u8| -> ArrayRef {
        Arc::new(rows.iter().map(|row| Some(get(row))).collect::<UInt8Array>())
    };
    let whole = |get: fn(&Row<'_>) -> u32| -> ArrayRef {
        Arc::new(rows.iter().map(|row| Some(get(row))).collect::<UInt32Array>())
    };
    let facts: Vec<FrameFacts> = rows.iter().map(Row::facts).collect();
    let reals = |get: &dyn Fn(&FrameFacts) -> Option<f64>| -> ArrayRef {
        Arc::new(facts.iter().map(get).collect::<Float64Array>())
    };
    let places: Vec<ImagePlace> = facts
        .iter()
        .map(|it| ImagePlace {
            position: it.position,
            orientation: it.orientation,
            spacing: it.pixel_spacing,
            thickness: it.slice_thickness,
        })
        .collect();
    let mut dimensions = ListBuilder::new(UInt32Builder::new());
    for one in &facts {
        for number in &one.dimension_index {
            dimensions.values().append_value(*number);
        }
        dimensions.append(!one.dimension_index.is_empty());
    }
    let series = rows.iter().map(|row| Some(row.series)).collect::<UInt16Array>();
    let numbers =
        rows.iter().map(|row| Some(row.object.place.instance_number)).collect::<Int32Array>();
    let pixels = rows.iter().map(|row| Some(row.object.row.has_pixels)).collect::<BooleanArray>();
    let mut columns: Vec<(&str, ArrayRef)> = vec![
        ("series_idx", Arc::new(series)),
        ("instance_idx", whole(|row| row.instance)),
        ("frame_idx", whole(|row| row.frame)),
        ("sop_instance_uid", words(rows.iter().map(|row| row.object.sop_uid.as_str()))),
        ("instance_number", Arc::new(numbers)),
        ("rows", whole(|row| row.object.row.rows)),
        ("columns", whole(|row| row.object.row.columns)),
        ("has_pixel_data", Arc::new(pixels)),
        ("samples_per_pixel", small(|row| row.object.row.samples_per_pixel)),
        ("pixel_dtype", words(rows.iter().map(|row| row.object.row.dtype))),
        ("pixel_representation", small(|row| row.object.row.pixel_representation)),
        ("bits_allocated", small(|row| row.object.row.bits_allocated)),
        ("bits_stored", small(|row| row.object.row.bits_stored)),
        ("high_bit", small(|row| row.object.row.high_bit)),
        (
            "photometric_interpretation",
            words(rows.iter().map(|row| row.object.row.photometric.as_str())),
        ),
        (
            "source_transfer_syntax",
            words(rows.iter().map(|row| row.object.row.transfer_syntax.as_str())),
        ),
        ("codec", words(rows.iter().map(Row::codec))),
        ("stream_photometric", words(rows.iter().map(Row::stream_photometric))),
        (
            "delta_offset",
            Arc::new(rows.iter().map(|row| Some(row.delta.offset)).collect::<UInt64Array>()),
        ),
        ("delta_length", whole(|row| row.delta.length)),
        ("delta_crc32", whole(|row| row.delta.crc32)),
        ("offset", Arc::new(UInt64Array::from(vec![0; rows.len()]))),
        ("length", Arc::new(UInt32Array::from(vec![0; rows.len()]))),
        ("crc32", Arc::new(UInt32Array::from(vec![0; rows.len()]))),
    ];
    columns.extend(place_columns(&places));
    columns.push(("slice_spacing", reals(&|it| it.slice_spacing)));
    columns.push(("rescale_slope", reals(&|it| it.rescale_slope)));
    columns.push(("rescale_intercept", reals(&|it| it.rescale_intercept)));
    columns.push(("dimension_index", Arc::new(dimensions.finish())));
    if rows.iter().any(|row| row.aside.is_some()) {
        let part = |get: fn(&(u64, u32, u32)) -> u32| -> ArrayRef {
            Arc::new(rows.iter().map(|row| row.aside.as_ref().map(get)).collect::<UInt32Array>())
        };
        let offsets = rows.iter().map(|row| row.aside.map(|(offset, ..)| offset));
        columns.push(("extra_offset", Arc::new(offsets.collect::<UInt64Array>())));
        columns.push(("extra_length", part(|(_, length, _)| *length)));
        columns.push(("extra_crc32", part(|(.., sum)| *sum)));
    }
    table(columns)
}

/// Names of the columns that a reader needs.
pub(crate) const NEEDED: [&str; 18] = [
    "series_idx",
    "instance_idx",
    "frame_idx",
    "sop_instance_uid",
    "rows",
    "columns",
    "has_pixel_data",
    "samples_per_pixel",
    "pixel_dtype",
    "bits_allocated",
    "bits_stored",
    "high_bit",
    "source_transfer_syntax",
    "codec",
    "delta_offset",
    "delta_length",
    "offset",
    "length",
];
