//! Tables of slide packs put together from parts: any rows, in any order, of any type of column, under
//! headers that may lie. The pack is refused, or reads alike in all ways.
//!
//! An input is what `arbitrary` makes a [`Tables`] of: changes to a sound pack.
#![no_main]

use std::sync::{Arc, LazyLock};

use arrow_array::builder::{
    Int64Builder, StringBuilder, UInt8Builder, UInt16Builder, UInt32Builder, UInt64Builder,
};
use arrow_array::cast::AsArray;
use arrow_array::types::{UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{Field, Schema};
use iac_adapters::wsi::{EncodedTile, Mpp, WsiAssociated, WsiPackWriter};
use iac_codec::jxl::JxlOptions;
use iac_codec::{ImageShape, ImageView};
use iac_format::table::encode_table;
use iac_fuzz::pack_input::{FILL_IN, Parts, SUMS};
use iac_fuzz::{Limited, assemble, seeds, slides};
use iac_writer::WriteOptions;
use libfuzzer_sys::arbitrary::{self, Arbitrary, Unstructured};
use libfuzzer_sys::fuzz_target;
use serde_json::{Map, Value};

#[global_allocator]
static ALLOCATOR: Limited = Limited;

/// Columns of the index, but for the name.
const COLUMNS: [&str; 12] = [
    "kind",
    "tile_x",
    "tile_y",
    "valid_width",
    "valid_height",
    "image_width",
    "image_height",
    "codec_id",
    "offset",
    "length",
    "crc32",
    "flags",
];

/// What is changed of a sound pack.
#[derive(Debug, Arbitrary)]
struct Tables {
    choice: [u8; 4],
    sums: bool,
    header: Vec<(Member, Thing)>,
    rows: Vec<RowChange>,
    slide: Option<(u8, Option<String>)>,
    /// Columns that are of another type, or not there.
    columns: Vec<(u8, Width)>,
}

#[derive(Debug, Clone, Copy, Arbitrary)]
enum Member {
    Width,
    Height,
    TileWidth,
    TileHeight,
    GridWidth,
    GridHeight,
    Stored,
    Implicit,
    MppX,
    Background,
    Codec,
    Completeness,
}

#[derive(Debug, Clone, Arbitrary)]
enum Thing {
    Null,
    Small(u8),
    Any(u64),
    Real(f64),
    Text(String),
    Three([u8; 3]),
}

#[derive(Debug, Clone, Arbitrary)]
enum RowChange {
    Set(u8, u8, Number),
    Name(u8, String),
    NameOf(u8, u8),
    Swap(u8, u8),
    Again(u8),
    Remove(u8),
    Damage(u8, u16, u8),
}

#[derive(Debug, Clone, Copy, Arbitrary)]
enum Number {
    Null,
    Small(u8),
    /// One more or less than it was.
    Near(i8),
    Any(u64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Arbitrary)]
enum Width {
    Absent,
    U8,
    U16,
    U32,
    U64,
    I64,
    Text,
}

#[derive(Debug, Clone)]
struct Row {
    name: String,
    numbers: [Option<u64>; 12],
}

struct Sound {
    pack: seeds::Pack,
    rows: Vec<Row>,
    widths: [Width; 12],
    slides: RecordBatch,
}

static SOUND: LazyLock<Sound> = LazyLock::new(|| {
    let pack = seeds::take_bytes_apart("sound".to_owned(), &slide()).unwrap();
    let table = batch(&pack.index);
    let mut widths = [Width::U8; 12];
    let mut numbers = Vec::new();
    for (name, width) in COLUMNS.iter().zip(&mut widths) {
        let (kind, values) = column(table.column_by_name(name).unwrap());
        *width = kind;
        numbers.push(values);
    }
    let names = table.column_by_name("name").unwrap().as_string::<i32>().clone();
    let rows = (0..table.num_rows())
        .map(|row| Row {
            name: if names.is_null(row) { String::new() } else { names.value(row).to_owned() },
            numbers: std::array::from_fn(|at| numbers[at][row]),
        })
        .collect();
    let slides = batch(&pack.slides);
    Sound { pack, rows, widths, slides }
});

fuzz_target!(
    init: seeds::write(seeds::noise),
    |input: &[u8]| {
        let Ok(tables) = Tables::arbitrary_take_rest(Unstructured::new(input)) else { return };
        if let Some(file) = tables.file(&SOUND) {
            slides::exercise(tables.choice, file);
        }
    }
);

fn batch(stream: &[u8]) -> RecordBatch {
    let stream = std::io::Cursor::new(stream);
    arrow_ipc::reader::StreamReader::try_new(stream, None).unwrap().next().unwrap().unwrap()
}

fn column(array: &ArrayRef) -> (Width, Vec<Option<u64>>) {
    macro_rules! of {
        ($type:ty) => {
            array.as_primitive::<$type>().iter().map(|value| value.map(u64::from)).collect()
        };
    }
    match array.data_type() {
        arrow_schema::DataType::UInt8 => (Width::U8, of!(UInt8Type)),
        arrow_schema::DataType::UInt16 => (Width::U16, of!(UInt16Type)),
        arrow_schema::DataType::UInt32 => (Width::U32, of!(UInt32Type)),
        arrow_schema::DataType::UInt64 => (Width::U64, of!(UInt64Type)),
        other => panic!("a column of {other}"),
    }
}

impl Tables {
    fn file(&self, sound: &Sound) -> Option<Vec<u8>> {
        let mut rows = sound.rows.clone();
        let mut data = sound.pack.data.clone();
        for change in self.rows.iter().take(32) {
            change.make(&mut rows, &mut data);
        }
        let mut widths = sound.widths;
        for (column, width) in &self.columns {
            widths[usize::from(*column) % widths.len()] = *width;
        }
        let index = index(&rows, widths)?;
        let slides = match &self.slide {
            Some((column, text)) => slide_table(&sound.slides, *column, text.as_deref())?,
            None => sound.pack.slides.clone(),
        };
        let own = seeds::own_members(&sound.pack);
        let mut members: Map<String, Value> = serde_json::from_str(&own).unwrap();
        for (member, thing) in self.header.iter().take(8) {
            members.insert(member.name().to_owned(), thing.value());
        }
        let text = Value::Object(members).to_string();
        let flags = if self.sums { FILL_IN | SUMS } else { FILL_IN };
        let text = text.as_bytes();
        let parts = Parts { flags, text, slides: &slides, index: &index, data: &data };
        assemble(&parts.to_input()?)
    }
}

impl RowChange {
    fn make(&self, rows: &mut Vec<Row>, data: &mut [u8]) {
        if rows.is_empty() {
            return;
        }
        let at = |row: u8| usize::from(row) % rows.len();
        match self {
            Self::Set(row, column, number) => {
                let row = at(*row);
                let slot = &mut rows[row].numbers[usize::from(*column) % COLUMNS.len()];
                *slot = match number {
                    Number::Null => None,
                    Number::Small(number) => Some(u64::from(*number)),
                    Number::Near(by) => slot.map(|old| old.saturating_add_signed((*by).into())),
                    Number::Any(number) => Some(*number),
                };
            }
            Self::Name(row, name) => {
                let row = at(*row);
                rows[row].name.clone_from(name);
            }
            Self::NameOf(row, other) => {
                let (row, other) = (at(*row), at(*other));
                rows[row].name = rows[other].name.clone();
            }
            Self::Swap(row, other) => {
                let (row, other) = (at(*row), at(*other));
                rows.swap(row, other);
            }
            Self::Again(row) if rows.len() < 64 => {
                let again = rows[at(*row)].clone();
                rows.push(again);
            }
            Self::Remove(row) => {
                let row = at(*row);
                rows.remove(row);
            }
            Self::Damage(row, place, byte) => {
                let [offset, length] = [8, 9].map(|column| rows[at(*row)].numbers[column]);
                let place = offset.and_then(|offset| {
                    let place = u64::from(*place) % length?.max(1);
                    usize::try_from(offset.checked_add(place)?).ok()
                });
                if let Some(found) = place.and_then(|place| data.get_mut(place)) {
                    *found ^= byte;
                }
            }
            Self::Again(_) => {}
        }
    }
}

impl Member {
    const fn name(self) -> &'static str {
        match self {
            Self::Width => "width",
            Self::Height => "height",
            Self::TileWidth => "tile_width",
            Self::TileHeight => "tile_height",
            Self::GridWidth => "grid_width",
            Self::GridHeight => "grid_height",
            Self::Stored => "stored_tile_count",
            Self::Implicit => "implicit_background_tile_count",
            Self::MppX => "native_mpp_x",
            Self::Background => "background_rgb",
            Self::Codec => "raster_codec",
            Self::Completeness => "completeness",
        }
    }
}

impl Thing {
    fn value(&self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Small(number) => Value::from(*number),
            Self::Any(number) => Value::from(*number),
            Self::Real(number) => Value::from(*number),
            Self::Text(text) => Value::from(text.as_str()),
            Self::Three(numbers) => Value::from(numbers.to_vec()),
        }
    }
}

fn index(rows: &[Row], widths: [Width; 12]) -> Option<Vec<u8>> {
    let mut columns: Vec<(&str, ArrayRef)> = Vec::new();
    let mut names = StringBuilder::new();
    rows.iter().for_each(|row| names.append_value(&row.name));
    columns.push(("name", Arc::new(names.finish())));
    for (at, (name, width)) in COLUMNS.iter().zip(widths).enumerate() {
        let values = rows.iter().map(|row| row.numbers[at]);
        macro_rules! built {
            ($builder:ty, $type:ty) => {{
                let mut builder = <$builder>::new();
                // What does not fit is cut, as a careless writer would.
                values.for_each(|value| builder.append_option(value.map(|value| value as $type)));
                Arc::new(builder.finish()) as ArrayRef
            }};
        }
        let array = match width {
            Width::Absent => continue,
            Width::U8 => built!(UInt8Builder, u8),
            Width::U16 => built!(UInt16Builder, u16),
            Width::U32 => built!(UInt32Builder, u32),
            Width::U64 => built!(UInt64Builder, u64),
            Width::I64 => built!(Int64Builder, i64),
            Width::Text => {
                let mut builder = StringBuilder::new();
                values.for_each(|value| builder.append_option(value.map(|v| v.to_string())));
                Arc::new(builder.finish())
            }
        };
        columns.push((name, array));
    }
    let table = RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, array)| (name, array, true)),
    );
    let table = table.ok()?;
    encode_table(&table.schema(), &[table.clone()]).ok()
}

/// The slide table with another text, or none, in one of its columns of text.
fn slide_table(slides: &RecordBatch, column: u8, text: Option<&str>) -> Option<Vec<u8>> {
    let at = usize::from(column) % slides.num_columns();
    let mut columns = slides.columns().to_vec();
    let mut fields: Vec<Field> =
        slides.schema().fields().iter().map(|field| field.as_ref().clone()).collect();
    let mut builder = StringBuilder::new();
    builder.append_option(text);
    columns[at] = Arc::new(builder.finish());
    fields[at] = Field::new(fields[at].name(), arrow_schema::DataType::Utf8, true);
    let table = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).ok()?;
    encode_table(&table.schema(), &[table.clone()]).ok()
}

/// A sound pack of 3 x 2 tiles, one of which is not stored, with everything that packs have.
fn slide() -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("slide.pat.iac");
    let header = slides::header([20, 13], [8, 8], Mpp { x: 0.5, y: 0.25 }, [250, 251, 252]);
    let codec = JxlOptions::lossless().with_effort(1).codec().unwrap();
    let image = |height: u32, width: u32, seed: u64| {
        let mut noise = seeds::Noise::new(seed);
        let samples: Vec<u8> = (0..height * width * 3).map(|_| noise.next() & 0xF0).collect();
        let shape = ImageShape::new(height, width, 3).unwrap();
        codec.encode_image(&ImageView::new(shape, &samples[..]).unwrap()).unwrap()
    };
    let options = WriteOptions::new().sync(false);
    let mut writer = WsiPackWriter::create(&path, header, &options).unwrap();
    for (x, y) in [(0, 0), (1, 0), (2, 0), (0, 1), (2, 1)] {
        let payload = image(8, 8, u64::from(x * 2 + y) + 1);
        writer.push_tile(&EncodedTile { x, y, payload: &payload }).unwrap();
    }
    writer.push_private("more", b"of somebody else").unwrap();
    let label = WsiAssociated {
        name: "label".into(),
        width: 3,
        height: 2,
        payload: image(2, 3, 9),
        icc: Some(b"its profile".to_vec()),
        source_mode: "RGB".into(),
        composited_on_white: false,
        source_info: Map::new(),
    };
    writer.finish(Map::new(), Some(b"a profile"), vec![label]).unwrap();
    std::fs::read(&path).unwrap()
}
