//! Elements in memory: what goes into an array and what comes out.

use half::{bf16, f16};
use ndarray::{ArrayBase, ArrayD, Data, Dimension, IxDyn};

use crate::dtype::DType;
use crate::error::{ArrayError, Result, u64_len, usize_len, zeroed};
use crate::grid::{Selection, product};

/// Elements of one type and shape, row-major.
///
/// Made from an `ndarray` array of numbers, from texts ([`ArrayData::from_texts`]) or byte strings
/// ([`ArrayData::from_binary`]), or from raw bytes ([`ArrayData::from_bytes`]).
///
/// ```
/// use iac_array::ArrayData;
/// use ndarray::{array, Array2};
///
/// let data = ArrayData::from(array![[1_i16, 2], [3, 4]]);
/// assert_eq!(data.shape(), [2, 2]);
/// let back: Array2<i16> = data.to_ndarray()?.into_dimensionality().unwrap();
/// assert_eq!(back[[1, 0]], 3);
/// # Ok::<(), iac_array::ArrayError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArrayData {
    pub(crate) dtype: DType,
    pub(crate) shape: Vec<u64>,
    pub(crate) values: Values,
}

/// Elements as bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Values {
    /// All of one width, back to back, little-endian.
    Fixed(Vec<u8>),
    /// Each with its own length.
    Variable(Vec<Vec<u8>>),
}

/// A number that an element can be.
pub trait Scalar: Copy + Send + Sync + 'static {
    /// The type of elements that it is stored as.
    const DTYPE: DType;
    /// Appends its bytes, little-endian.
    fn write_le(self, bytes: &mut Vec<u8>);
    /// Reads it from exactly its bytes; none when they are no such value.
    fn read_le(bytes: &[u8]) -> Option<Self>;
    /// The bytes of many.
    #[must_use]
    fn bytes_of(numbers: &[Self]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(size_of_val(numbers));
        numbers.iter().for_each(|number| number.write_le(&mut bytes));
        bytes
    }
}

/// Bytes from which on copying is worth a thread of its own.
const SHARED_COPY: usize = 4 << 20;

/// Puts numbers into bytes part by part, on several threads where there are many: fresh memory
/// costs more than copying does.
fn spread<T: Sync>(numbers: &[T], copy: impl Fn(&[T], &mut [u8]) + Sync) -> Vec<u8> {
    let mut bytes = vec![0; size_of_val(numbers)];
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(8);
    let part = numbers.len().div_ceil(threads).max(1);
    if bytes.len() < SHARED_COPY || threads < 2 {
        copy(numbers, &mut bytes);
        return bytes;
    }
    let parts = numbers.chunks(part).zip(bytes.chunks_mut(part.saturating_mul(size_of::<T>())));
    std::thread::scope(|scope| {
        for (numbers, bytes) in parts {
            let copy = &copy;
            scope.spawn(move || copy(numbers, bytes));
        }
    });
    bytes
}

macro_rules! scalars {
    ($($number:ty => $dtype:ident),+) => {$(
        impl Scalar for $number {
            const DTYPE: DType = DType::$dtype;

            fn write_le(self, bytes: &mut Vec<u8>) {
                bytes.extend_from_slice(&self.to_le_bytes());
            }

            fn read_le(bytes: &[u8]) -> Option<Self> {
                bytes.try_into().ok().map(<$number>::from_le_bytes)
            }

            fn bytes_of(numbers: &[Self]) -> Vec<u8> {
                spread(numbers, |numbers, bytes| {
                    let slots = bytes.as_chunks_mut().0.iter_mut();
                    slots.zip(numbers).for_each(|(slot, number)| *slot = number.to_le_bytes());
                })
            }
        }
    )+};
}

scalars!(
    i8 => Int8, i16 => Int16, i32 => Int32, i64 => Int64, u8 => UInt8, u16 => UInt16,
    u32 => UInt32, u64 => UInt64, f16 => Float16, bf16 => BFloat16, f32 => Float32, f64 => Float64
);

impl Scalar for bool {
    const DTYPE: DType = DType::Bool;

    fn write_le(self, bytes: &mut Vec<u8>) {
        bytes.push(u8::from(self));
    }

    fn read_le(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [0] => Some(false),
            [1] => Some(true),
            _ => None,
        }
    }
}

// Real and imaginary part of `complex64` and `complex128` elements.
macro_rules! pairs {
    ($($part:ty => $dtype:ident),+) => {$(
        impl Scalar for [$part; 2] {
            const DTYPE: DType = DType::$dtype;

            fn write_le(self, bytes: &mut Vec<u8>) {
                self.into_iter().for_each(|part| part.write_le(bytes));
            }

            fn read_le(bytes: &[u8]) -> Option<Self> {
                let (real, imaginary) = bytes.split_at_checked(size_of::<$part>())?;
                Some([<$part>::read_le(real)?, <$part>::read_le(imaginary)?])
            }
        }
    )+};
}

pairs!(f32 => Complex64, f64 => Complex128);

impl ArrayData {
    /// Elements of a fixed width from their bytes, row-major and little-endian.
    ///
    /// # Errors
    ///
    /// [`ArrayError::Argument`] when the number of bytes does not fit type and shape, or the type
    /// has no fixed width.
    pub fn from_bytes(dtype: DType, shape: &[u64], bytes: Vec<u8>) -> Result<Self> {
        dtype.check()?;
        let width = dtype.width().map(u64_len).ok_or_else(|| {
            ArrayError::argument(format!("elements of `{dtype}` have no fixed width"))
        })?;
        let expected = product(shape).and_then(|elements| elements.checked_mul(width));
        if expected != Some(u64_len(bytes.len())) {
            return Err(ArrayError::argument(format!(
                "{} bytes for elements of `{dtype}` in shape {shape:?}",
                bytes.len()
            )));
        }
        let data = Self { dtype, shape: shape.to_vec(), values: Values::Fixed(bytes) };
        data.check()?;
        Ok(data)
    }

    /// Texts, row-major.
    ///
    /// # Errors
    ///
    /// [`ArrayError::Argument`] when there are more or fewer than the shape has room for.
    pub fn from_texts<S: Into<String>>(
        shape: &[u64],
        texts: impl IntoIterator<Item = S>,
    ) -> Result<Self> {
        let values = texts.into_iter().map(|text| text.into().into_bytes()).collect();
        Self::variable(DType::Utf8, shape, values)
    }

    /// Byte strings, row-major.
    ///
    /// # Errors
    ///
    /// As [`ArrayData::from_texts`].
    pub fn from_binary(
        shape: &[u64],
        values: impl IntoIterator<Item = impl Into<Vec<u8>>>,
    ) -> Result<Self> {
        Self::variable(DType::Binary, shape, values.into_iter().map(Into::into).collect())
    }

    /// Lists of numbers, row-major.
    ///
    /// # Errors
    ///
    /// As [`ArrayData::from_texts`].
    pub fn from_lists<T: Scalar>(
        shape: &[u64],
        lists: impl IntoIterator<Item = impl AsRef<[T]>>,
    ) -> Result<Self> {
        let bytes = |list: &[T]| {
            let mut bytes = Vec::new();
            list.iter().for_each(|number| number.write_le(&mut bytes));
            bytes
        };
        let values = lists.into_iter().map(|list| bytes(list.as_ref())).collect();
        Self::variable(DType::List(Box::new(T::DTYPE)), shape, values)
    }

    fn variable(dtype: DType, shape: &[u64], values: Vec<Vec<u8>>) -> Result<Self> {
        if product(shape) != Some(u64_len(values.len())) {
            return Err(ArrayError::argument(format!(
                "{} elements of `{dtype}` for shape {shape:?}",
                values.len()
            )));
        }
        Ok(Self { dtype, shape: shape.to_vec(), values: Values::Variable(values) })
    }

    /// The type of the elements.
    #[must_use]
    pub const fn dtype(&self) -> &DType {
        &self.dtype
    }

    /// The extent of each axis.
    #[must_use]
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// The elements' bytes, row-major and little-endian, where all have one width.
    #[must_use]
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match &self.values {
            Values::Fixed(bytes) => Some(bytes),
            Values::Variable(_) => None,
        }
    }

    /// The elements as an array of numbers.
    ///
    /// Timestamps come as `i64`, complex numbers as pairs.
    ///
    /// # Errors
    ///
    /// [`ArrayError::Argument`] when the elements are of another type.
    pub fn to_ndarray<T: Scalar>(&self) -> Result<ArrayD<T>> {
        let fits = self.dtype == T::DTYPE
            || (T::DTYPE == DType::Int64 && matches!(self.dtype, DType::Timestamp(..)));
        let (true, Values::Fixed(bytes)) = (fits, &self.values) else {
            return Err(ArrayError::argument(format!(
                "the elements are `{}`, not `{}`",
                self.dtype,
                T::DTYPE
            )));
        };
        let width = self.dtype.width().unwrap_or(1).max(1);
        let numbers: Option<Vec<T>> = bytes.chunks_exact(width).map(T::read_le).collect();
        let numbers =
            numbers.ok_or_else(|| ArrayError::argument("a `bool` element is neither 0 nor 1"))?;
        let shape: Result<Vec<usize>> =
            self.shape.iter().map(|extent| usize_len("axis", *extent)).collect();
        ArrayD::from_shape_vec(IxDyn(&shape?), numbers)
            .map_err(|error| ArrayError::argument(format!("no array of this shape: {error}")))
    }

    /// The elements as texts, row-major.
    ///
    /// # Errors
    ///
    /// [`ArrayError::Argument`] when they are of another type.
    pub fn texts(&self) -> Result<Vec<&str>> {
        let (DType::Utf8, Values::Variable(values)) = (&self.dtype, &self.values) else {
            return Err(ArrayError::argument(format!("the elements are `{}`", self.dtype)));
        };
        let texts: Option<Vec<&str>> =
            values.iter().map(|value| std::str::from_utf8(value).ok()).collect();
        texts.ok_or_else(|| ArrayError::argument("an element is not UTF-8"))
    }

    /// The bytes of each element, row-major, where lengths differ: text, byte strings, lists.
    ///
    /// # Errors
    ///
    /// [`ArrayError::Argument`] when the elements have a fixed width.
    pub fn binary(&self) -> Result<&[Vec<u8>]> {
        match &self.values {
            Values::Variable(values) => Ok(values),
            Values::Fixed(_) => {
                Err(ArrayError::argument(format!("elements of `{}` have one width", self.dtype)))
            }
        }
    }

    /// Refuses elements that their type does not have.
    pub(crate) fn check(&self) -> Result<()> {
        check_elements(&self.dtype, &self.values).map_err(ArrayError::argument)
    }
}

fn check_elements(dtype: &DType, values: &Values) -> std::result::Result<(), String> {
    match (dtype, values) {
        (DType::Bool, Values::Fixed(bytes)) => bytes
            .iter()
            .find(|byte| **byte > 1)
            .map_or(Ok(()), |byte| Err(format!("a `bool` element has the byte {byte}"))),
        (DType::Utf8, Values::Variable(values)) => values
            .iter()
            .all(|value| std::str::from_utf8(value).is_ok())
            .then_some(())
            .ok_or_else(|| "a `utf8` element is not UTF-8".to_owned()),
        _ => Ok(()),
    }
}

impl<T: Scalar, S: Data<Elem = T>, D: Dimension> From<&ArrayBase<S, D>> for ArrayData {
    fn from(array: &ArrayBase<S, D>) -> Self {
        let bytes = match array.as_slice() {
            Some(numbers) => T::bytes_of(numbers),
            None => {
                let width = T::DTYPE.width().unwrap_or(1);
                let mut bytes = Vec::with_capacity(array.len().saturating_mul(width));
                array.iter().for_each(|number| number.write_le(&mut bytes));
                bytes
            }
        };
        let shape = array.shape().iter().map(|extent| u64_len(*extent)).collect();
        Self { dtype: T::DTYPE, shape, values: Values::Fixed(bytes) }
    }
}

impl<T: Scalar, S: Data<Elem = T>, D: Dimension> From<ArrayBase<S, D>> for ArrayData {
    fn from(array: ArrayBase<S, D>) -> Self {
        Self::from(&array)
    }
}

/// Places elements are read into.
#[derive(Debug)]
pub(crate) enum Target<'a> {
    Fixed(&'a mut [u8]),
    Variable(&'a mut [Vec<u8>]),
}

/// Where elements come from.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Source<'a> {
    Fixed(&'a [u8]),
    Variable(&'a [Vec<u8>]),
    /// One element, wherever one is asked for.
    Every(&'a [u8]),
}

/// Bytes that one element of any length may take where it stands for many: a few stored bytes must
/// not ask for all memory.
const MAX_REPEATED: u64 = 4 << 30;

fn check_repeats(element: &[u8], times: usize) -> Result<()> {
    let bytes = u64_len(element.len()).saturating_mul(u64_len(times));
    if bytes > MAX_REPEATED {
        return Err(ArrayError::TooLarge {
            what: "repeated element (bytes)",
            found: bytes,
            allowed: MAX_REPEATED,
        });
    }
    Ok(())
}

fn repeated(element: &[u8]) -> Result<Vec<u8>> {
    let mut copy = Vec::new();
    copy.try_reserve_exact(element.len()).map_err(|error| ArrayError::System {
        what: "memory",
        reason: format!("{} bytes of an element: {error}", element.len()),
    })?;
    copy.extend_from_slice(element);
    Ok(copy)
}

impl Values {
    /// So many elements, each the fill value.
    pub(crate) fn filled(dtype: &DType, fill: Option<&[u8]>, elements: u64) -> Result<Self> {
        let Some(width) = dtype.width() else {
            let elements = usize_len("elements", elements)?;
            let mut values: Vec<Vec<u8>> = Vec::new();
            values.try_reserve_exact(elements).map_err(|error| ArrayError::System {
                what: "memory",
                reason: format!("{elements} elements: {error}"),
            })?;
            let fill = fill.unwrap_or_default();
            check_repeats(fill, elements)?;
            for _ in 0..elements {
                values.push(repeated(fill)?);
            }
            return Ok(Self::Variable(values));
        };
        let bytes = elements.checked_mul(u64_len(width)).ok_or(ArrayError::TooLarge {
            what: "box (bytes)",
            found: u64::MAX,
            allowed: u64_len(usize::MAX),
        })?;
        let mut bytes = zeroed("elements", bytes)?;
        fill_bytes(&mut bytes, width, fill);
        Ok(Self::Fixed(bytes))
    }

    pub(crate) fn as_source(&self) -> Source<'_> {
        match self {
            Self::Fixed(bytes) => Source::Fixed(bytes),
            Self::Variable(values) => Source::Variable(values),
        }
    }

    pub(crate) fn as_target(&mut self) -> Target<'_> {
        match self {
            Self::Fixed(bytes) => Target::Fixed(bytes),
            Self::Variable(values) => Target::Variable(values),
        }
    }

    /// The bytes of elements of one width; none of others.
    pub(crate) fn fixed(&self) -> &[u8] {
        match self {
            Self::Fixed(bytes) => bytes,
            Self::Variable(_) => &[],
        }
    }

    /// Bytes of memory, roughly.
    pub(crate) fn memory(&self) -> u64 {
        match self {
            Self::Fixed(bytes) => u64_len(bytes.len()),
            Self::Variable(values) => values
                .iter()
                .fold(0, |all, value| all.saturating_add(u64_len(value.len()).saturating_add(24))),
        }
    }

    /// The one element that all are equal to, if there is one.
    pub(crate) fn constant(&self, width: Option<usize>) -> Option<&[u8]> {
        match self {
            Self::Fixed(bytes) => {
                let width = width?;
                let first = bytes.get(..width)?;
                // Equal to itself moved on by one element: all are alike.
                (bytes.get(width..)? == bytes.get(..bytes.len().checked_sub(width)?)?)
                    .then_some(first)
            }
            Self::Variable(values) => {
                let first = values.first()?;
                values.iter().all(|value| value == first).then_some(first)
            }
        }
    }

    /// The bytes of a chunk.
    pub(crate) fn encode(&self, dtype: &DType) -> Result<Vec<u8>> {
        let values = match self {
            Self::Fixed(bytes) => return Ok(bytes.clone()),
            Self::Variable(values) => values,
        };
        let unit = u64_len(list_unit(dtype));
        let mut bytes = Vec::new();
        let mut end = 0_u64;
        let too_large = |found| ArrayError::TooLarge {
            what: "chunk (bytes)",
            found,
            allowed: u64::from(u32::MAX),
        };
        bytes.extend_from_slice(&0_u32.to_le_bytes());
        for value in values {
            end = end.saturating_add(u64_len(value.len()));
            let offset = end.checked_div(unit).unwrap_or(0);
            let offset = u32::try_from(offset).map_err(|_| too_large(end))?;
            bytes.extend_from_slice(&offset.to_le_bytes());
        }
        values.iter().for_each(|value| bytes.extend_from_slice(value));
        Ok(bytes)
    }
}

fn list_unit(dtype: &DType) -> usize {
    match dtype {
        DType::List(element) => element.width().unwrap_or(1).max(1),
        _ => 1,
    }
}

/// Fills memory that holds zeros.
pub(crate) fn fill_bytes(bytes: &mut [u8], width: usize, fill: Option<&[u8]>) {
    let Some(fill) = fill.filter(|fill| fill.iter().any(|byte| *byte != 0)) else {
        return;
    };
    bytes.chunks_exact_mut(width.max(1)).for_each(|slot| slot.copy_from_slice(fill));
}

/// Reads the elements of a chunk whose bytes are not checked yet.
pub(crate) fn decode_variable(
    dtype: &DType,
    bytes: &[u8],
    elements: u64,
) -> std::result::Result<Vec<Vec<u8>>, String> {
    let unit = list_unit(dtype);
    let table = elements
        .checked_add(1)
        .and_then(|entries| usize::try_from(entries.checked_mul(4)?).ok())
        .and_then(|table| bytes.split_at_checked(table));
    let Some((table, body)) = table else {
        return Err(format!("{} bytes are too few for {elements} offsets", bytes.len()));
    };
    let mut offsets = table
        .chunks_exact(4)
        .filter_map(|entry| entry.try_into().ok().map(u32::from_le_bytes))
        .filter_map(|offset| usize::try_from(offset).ok());
    let mut before = offsets.next().unwrap_or(0);
    if before != 0 {
        return Err(format!("the first offset is {before} instead of 0"));
    }
    let mut values = Vec::new();
    for offset in offsets {
        let span = before.checked_mul(unit).zip(offset.checked_mul(unit));
        let value = span.and_then(|(from, end)| body.get(from..end));
        let Some(value) = value else {
            return Err(format!(
                "offsets {before} and {offset} do not rise within {} bytes",
                body.len()
            ));
        };
        values.push(value.to_vec());
        before = offset;
    }
    if before.checked_mul(unit) != Some(body.len()) {
        return Err(format!("the last offset is {before}, {} bytes follow", body.len()));
    }
    let values = Values::Variable(values);
    check_elements(dtype, &values)?;
    match values {
        Values::Variable(values) => Ok(values),
        Values::Fixed(_) => Ok(Vec::new()),
    }
}

/// Checks the bytes of a chunk of elements with one width.
pub(crate) fn check_fixed(
    dtype: &DType,
    bytes: &[u8],
    elements: u64,
) -> std::result::Result<(), String> {
    let expected = dtype.width().and_then(|width| elements.checked_mul(u64_len(width)));
    if expected != Some(u64_len(bytes.len())) {
        return Err(format!("{} bytes for {elements} elements of `{dtype}`", bytes.len()));
    }
    if *dtype == DType::Bool && bytes.iter().any(|byte| *byte > 1) {
        return Err("a `bool` element is neither 0 nor 1".to_owned());
    }
    Ok(())
}

/// Checks the bytes of one element, which have the width of its type.
pub(crate) fn check_element(dtype: &DType, element: &[u8]) -> std::result::Result<(), String> {
    match dtype {
        DType::Bool if element.iter().any(|byte| *byte > 1) => {
            Err("a `bool` element is neither 0 nor 1".to_owned())
        }
        DType::Utf8 if std::str::from_utf8(element).is_err() => {
            Err("a `utf8` element is not UTF-8".to_owned())
        }
        DType::List(_) if !element.len().is_multiple_of(list_unit(dtype)) => {
            Err(format!("{} bytes are no elements of `{dtype}`", element.len()))
        }
        _ => Ok(()),
    }
}

/// A box of elements in memory: where it begins, how it is laid out, how much of it counts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) origin: &'a [u64],
    pub(crate) extents: &'a [u64],
    pub(crate) visible: &'a [u64],
}

fn span(start: u64, elements: u64, width: usize) -> Option<std::ops::Range<usize>> {
    let start = usize::try_from(start).ok()?.checked_mul(width)?;
    let length = usize::try_from(elements).ok()?.checked_mul(width)?;
    Some(start..start.checked_add(length)?)
}

fn lost() -> ArrayError {
    ArrayError::argument("a box of elements is shorter than its shape")
}

/// Copies the selected elements of a box to their places in the selection.
pub(crate) fn copy_out(
    from: Source<'_>,
    place: Place<'_>,
    to: &mut Target<'_>,
    selection: &Selection,
    width: usize,
) -> Result<()> {
    selection.runs(place.origin, place.extents, place.visible, |source, target, elements| {
        transfer(from, source, to, target, elements, width)
    })
}

/// Copies elements of a selection, which lie row-major in `from`, into a box.
pub(crate) fn copy_in(
    from: Source<'_>,
    place: Place<'_>,
    to: &mut Target<'_>,
    selection: &Selection,
    width: usize,
) -> Result<()> {
    selection.runs(place.origin, place.extents, place.visible, |target, source, elements| {
        transfer(from, source, to, target, elements, width)
    })
}

fn transfer(
    from: Source<'_>,
    source: u64,
    to: &mut Target<'_>,
    target: u64,
    elements: u64,
    width: usize,
) -> Result<()> {
    match (from, to) {
        (Source::Fixed(from), Target::Fixed(to)) => {
            let from = span(source, elements, width).and_then(|span| from.get(span));
            let to = span(target, elements, width).and_then(|span| to.get_mut(span));
            let (from, to) = from.zip(to).ok_or_else(lost)?;
            to.copy_from_slice(from);
        }
        (Source::Every(element), Target::Fixed(to)) => {
            let to = span(target, elements, width).and_then(|span| to.get_mut(span));
            let to = to.filter(|_| element.len() == width).ok_or_else(lost)?;
            to.chunks_exact_mut(width.max(1)).for_each(|slot| slot.copy_from_slice(element));
        }
        (Source::Every(element), Target::Variable(to)) => {
            let to = span(target, elements, 1).and_then(|span| to.get_mut(span));
            let to = to.ok_or_else(lost)?;
            check_repeats(element, to.len())?;
            for slot in to {
                *slot = repeated(element)?;
            }
        }
        (Source::Variable(from), Target::Variable(to)) => {
            let from = span(source, elements, 1).and_then(|span| from.get(span));
            let to = span(target, elements, 1).and_then(|span| to.get_mut(span));
            let (from, to) = from.zip(to).ok_or_else(lost)?;
            to.clone_from_slice(from);
        }
        _ => return Err(lost()),
    }
    Ok(())
}
