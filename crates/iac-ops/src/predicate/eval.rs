//! Tests a whole column at once.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Date64Type, Decimal32Type, Decimal64Type, Decimal128Type,
    Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use arrow_schema::{DataType, TimeUnit};
use arrow_select::take::{TakeOptions, take};

use super::bind::{Bound, Typed};

/// For each row: yes, no, or (neither bit set) unknown.
#[derive(Debug, Clone)]
pub(super) struct Mask {
    pub(super) yes: BooleanBuffer,
    pub(super) no: BooleanBuffer,
}

impl Mask {
    pub(super) fn unknown(len: usize) -> Self {
        Self { yes: BooleanBuffer::new_unset(len), no: BooleanBuffer::new_unset(len) }
    }

    /// The same answer for every row.
    pub(super) fn all(len: usize, yes: bool) -> Self {
        let (set, unset) = (BooleanBuffer::new_set(len), BooleanBuffer::new_unset(len));
        if yes { Self { yes: set, no: unset } } else { Self { yes: unset, no: set } }
    }

    /// Yes where a bit is set, no where it is not, unknown where there is no value.
    fn new(bits: BooleanBuffer, nulls: Option<&NullBuffer>) -> Self {
        match nulls {
            None => Self { no: !&bits, yes: bits },
            Some(nulls) => Self { no: &!&bits & nulls.inner(), yes: &bits & nulls.inner() },
        }
    }

    pub(super) fn not(self) -> Self {
        Self { yes: self.no, no: self.yes }
    }

    pub(super) fn and(&mut self, other: &Self) {
        self.yes &= &other.yes;
        self.no |= &other.no;
    }

    pub(super) fn or(&mut self, other: &Self) {
        self.yes |= &other.yes;
        self.no &= &other.no;
    }

    /// A mask over other rows, each of which takes the place of a row of this mask.
    ///
    /// Rows without a place count as null.
    pub(super) fn gather(
        &self,
        len: usize,
        test: &Typed,
        place: impl Fn(usize) -> Option<usize>,
    ) -> Self {
        let null_is_yes = *test == Typed::IsNull;
        let bit = |bits: &BooleanBuffer, row: usize, absent: bool| match place(row) {
            Some(place) if place < bits.len() => bits.value(place),
            _ => absent,
        };
        Self {
            yes: BooleanBuffer::collect_bool(len, |row| bit(&self.yes, row, null_is_yes)),
            no: BooleanBuffer::collect_bool(len, |row| bit(&self.no, row, false)),
        }
    }

    /// What a condition makes of the outcome of its test.
    pub(super) fn finish(mut self, bound: &Bound) -> Self {
        if bound.never_no {
            self.no = BooleanBuffer::new_unset(self.yes.len());
        }
        if bound.negated { self.not() } else { self }
    }
}

/// Applies a test to every value of a column whose type it was bound to.
///
/// The error says how the column's bytes contradict its type.
pub(super) fn apply(array: &dyn Array, test: &Typed) -> Result<Mask, String> {
    let len = array.len();
    if *test == Typed::Unknown {
        return Ok(Mask::unknown(len));
    }
    if array.as_any_dictionary_opt().is_some() {
        return dictionary(array, test);
    }
    let nulls = array.nulls();
    let bits = match test {
        Typed::Unknown => BooleanBuffer::new_unset(len),
        Typed::IsNull => {
            let bits = match nulls {
                Some(nulls) => !nulls.inner(),
                None if *array.data_type() == DataType::Null => BooleanBuffer::new_set(len),
                None => BooleanBuffer::new_unset(len),
            };
            return Ok(Mask::new(bits, None));
        }
        Typed::Int(check) => {
            let value = integers(array).ok_or_else(|| unexpected(array))?;
            BooleanBuffer::collect_bool(len, |row| {
                value(row).is_some_and(|value| check.holds(&value))
            })
        }
        Typed::Float(check) => {
            let value = floats(array).ok_or_else(|| unexpected(array))?;
            BooleanBuffer::collect_bool(len, |row| {
                value(row).is_some_and(|value| check.holds(&value))
            })
        }
        Typed::Bool(check) => {
            let values = array.as_boolean_opt().ok_or_else(|| unexpected(array))?;
            let values = values.values();
            BooleanBuffer::collect_bool(len, |row| check.holds(&values.value(row)))
        }
        Typed::Text(check) => match array.data_type() {
            DataType::Utf8 => {
                let texts = array.as_string::<i32>();
                BooleanBuffer::collect_bool(len, |row| check.holds(texts.value(row)))
            }
            DataType::LargeUtf8 => {
                let texts = array.as_string::<i64>();
                BooleanBuffer::collect_bool(len, |row| check.holds(texts.value(row)))
            }
            DataType::Utf8View => {
                let texts = array.as_string_view();
                // The view of a null may point anywhere.
                BooleanBuffer::collect_bool(len, |row| {
                    texts.is_valid(row) && check.holds(texts.value(row))
                })
            }
            _ => return Err(unexpected(array)),
        },
    };
    Ok(Mask::new(bits, nulls))
}

/// Tests each distinct value once, unless that would be more work than testing each row.
fn dictionary(array: &dyn Array, test: &Typed) -> Result<Mask, String> {
    let Some(dictionary) = array.as_any_dictionary_opt() else {
        return Err(unexpected(array));
    };
    let keys = dictionary.keys();
    let values: &ArrayRef = dictionary.values();
    let key = integers(keys).ok_or_else(|| unexpected(keys))?;
    let place = |row: usize| {
        let key = key(row).filter(|_| keys.is_valid(row))?;
        usize::try_from(key).ok()
    };
    let astray = (0..keys.len())
        .find(|&row| keys.is_valid(row) && place(row).is_none_or(|place| place >= values.len()));
    if let Some(row) = astray {
        return Err(format!(
            "row {row} of a batch refers to an entry that its dictionary of {} does not have",
            values.len()
        ));
    }
    if values.len() <= keys.len() {
        return Ok(apply(values, test)?.gather(keys.len(), test, place));
    }
    let options = TakeOptions { check_bounds: true };
    let rows = take(values, keys, Some(options)).map_err(|error| error.to_string())?;
    apply(&rows, test)
}

/// Gives the value of a row.
pub(super) type Values<'a, T> = Box<dyn Fn(usize) -> Option<T> + 'a>;

fn primitive<'a, T, V>(array: &'a dyn Array) -> Option<Values<'a, V>>
where
    T: ArrowPrimitiveType,
    V: From<T::Native>,
{
    let values = array.as_primitive_opt::<T>()?.values();
    Some(Box::new(move |row| values.get(row).copied().map(V::from)))
}

/// The values of a column of integers, dates, timestamps or decimals, without regard to nulls.
pub(super) fn integers(array: &dyn Array) -> Option<Values<'_, i128>> {
    match array.data_type() {
        DataType::Int8 => primitive::<Int8Type, _>(array),
        DataType::Int16 => primitive::<Int16Type, _>(array),
        DataType::Int32 => primitive::<Int32Type, _>(array),
        DataType::Int64 => primitive::<Int64Type, _>(array),
        DataType::UInt8 => primitive::<UInt8Type, _>(array),
        DataType::UInt16 => primitive::<UInt16Type, _>(array),
        DataType::UInt32 => primitive::<UInt32Type, _>(array),
        DataType::UInt64 => primitive::<UInt64Type, _>(array),
        DataType::Date32 => primitive::<Date32Type, _>(array),
        DataType::Date64 => primitive::<Date64Type, _>(array),
        DataType::Timestamp(TimeUnit::Second, _) => primitive::<TimestampSecondType, _>(array),
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            primitive::<TimestampMillisecondType, _>(array)
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            primitive::<TimestampMicrosecondType, _>(array)
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            primitive::<TimestampNanosecondType, _>(array)
        }
        DataType::Decimal32(..) => primitive::<Decimal32Type, _>(array),
        DataType::Decimal64(..) => primitive::<Decimal64Type, _>(array),
        DataType::Decimal128(..) => primitive::<Decimal128Type, _>(array),
        _ => None,
    }
}

fn floats(array: &dyn Array) -> Option<Values<'_, f64>> {
    match array.data_type() {
        DataType::Float16 => primitive::<Float16Type, _>(array),
        DataType::Float32 => primitive::<Float32Type, _>(array),
        DataType::Float64 => primitive::<Float64Type, _>(array),
        _ => None,
    }
}

fn unexpected(array: &dyn Array) -> String {
    format!("a batch holds values of type {}", array.data_type())
}
