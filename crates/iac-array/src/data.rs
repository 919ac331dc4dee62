//! Elements in memory: what goes into an array and what comes out.

use half::{bf16, f16};
use ndarray::{ArrayBase, ArrayD, Data, Dimension, IxDyn};

use crate::dtype::DType;
use crate::error::{ArrayError, Result, u64_len, usize_len};
use crate::grid::product;
use crate::values::check_elements;
pub(crate) use crate::values::{
    Place, Source, Target, Values, check_element, check_fixed, copy_in, copy_out, fill_bytes,
};

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
    /// What is null is all zeros, or has no bytes.
    pub(crate) values: Values,
    /// Where elements are there, if some are null.
    pub(crate) validity: Option<Vec<bool>>,
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
        let values = Values::Fixed(bytes);
        let data = Self { dtype, shape: shape.to_vec(), values, validity: None };
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
        let values = Values::Variable(values);
        Ok(Self { dtype, shape: shape.to_vec(), values, validity: None })
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

    /// The elements' bytes, row-major and little-endian, where all have one width and none is null.
    #[must_use]
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match &self.values {
            Values::Fixed(bytes) if self.validity.is_none() => Some(bytes),
            _ => None,
        }
    }

    /// The elements as an array of numbers.
    ///
    /// Timestamps come as `i64`, complex numbers as pairs.
    ///
    /// # Errors
    ///
    /// [`ArrayError::Argument`] when the elements are of another type, or some are null: see
    /// [`ArrayData::to_masked`] and [`ArrayData::to_options`].
    pub fn to_ndarray<T: Scalar>(&self) -> Result<ArrayD<T>> {
        self.refuse_nulls("take them with their mask (`to_masked`) or as options (`to_options`)")?;
        self.numbers()
    }

    /// The same with zeros where elements are null.
    pub(crate) fn numbers<T: Scalar>(&self) -> Result<ArrayD<T>> {
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
    /// [`ArrayError::Argument`] when they are of another type, or some are null: see
    /// [`ArrayData::text_options`].
    pub fn texts(&self) -> Result<Vec<&str>> {
        self.refuse_nulls("take them as options (`text_options`)")?;
        self.any_texts()
    }

    /// The same with empty texts where elements are null.
    pub(crate) fn any_texts(&self) -> Result<Vec<&str>> {
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
    /// [`ArrayError::Argument`] when the elements have a fixed width, or some are null: see
    /// [`ArrayData::binary_options`].
    pub fn binary(&self) -> Result<&[Vec<u8>]> {
        self.refuse_nulls("take them as options (`binary_options`)")?;
        self.any_binary()
    }

    /// The same without bytes where elements are null.
    pub(crate) fn any_binary(&self) -> Result<&[Vec<u8>]> {
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
        Self { dtype: T::DTYPE, shape, values: Values::Fixed(bytes), validity: None }
    }
}

impl<T: Scalar, S: Data<Elem = T>, D: Dimension> From<ArrayBase<S, D>> for ArrayData {
    fn from(array: ArrayBase<S, D>) -> Self {
        Self::from(&array)
    }
}
