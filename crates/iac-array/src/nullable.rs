//! Elements that can be null.
//!
//! A chunk of a nullable array begins with a bit for each element, lowest first, set where the
//! element is there; bits past the last are zero. Its elements follow, those that are null as zero
//! bytes or with no bytes.
//!
//! In memory each element has a byte in front instead, 1 where it is there, so that boxes are cut and
//! joined as those of any other array. A null is all zeros, or no bytes where lengths differ: what
//! nobody wrote, unless the array has a fill value. Constant chunks store such an element too.

use std::borrow::Cow;

use ndarray::{ArrayBase, ArrayD, Data, Dimension, IxDyn};

use crate::data::{ArrayData, Scalar};
use crate::error::{ArrayError, Result, u64_len, usize_len, zeroed};
use crate::grid::product;
use crate::meta::ArrayMeta;
use crate::values::{Values, check_element, check_fixed, decode_variable};

/// What stands in front of an element that is there.
const THERE: u8 = 1;

type Check<T> = std::result::Result<T, String>;

impl ArrayData {
    /// The same elements, of which some are null: `true` where one is there. The array that they are
    /// written to must be [nullable](crate::ArraySpec::nullable).
    ///
    /// ```
    /// use iac_array::blocking::ArrayStore;
    /// use iac_array::{ArrayData, ArraySpec, DType, Location, StoreOptions};
    /// use ndarray::array;
    ///
    /// let mut store = ArrayStore::create(Location::memory(), StoreOptions::default())?;
    /// store.define("dose", ArraySpec::new(DType::Float32, &[4]).nullable())?;
    /// let known = array![true, false, true];
    /// let dose = ArrayData::from(array![1.5_f32, 0.0, 2.5]).with_validity(&known)?;
    /// store.write("dose", &[0], dose)?;
    ///
    /// let dose = store.read_all("dose")?;
    /// let (values, known) = dose.to_masked::<f32>()?;
    /// assert_eq!(values, array![1.5, 0.0, 2.5, 0.0].into_dyn());
    /// assert_eq!(known, array![true, false, true, false].into_dyn());
    /// assert_eq!(dose.to_options::<f32>()?[[1]], None);
    /// # Ok::<(), iac_array::ArrayError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ArrayError::Argument`] when the shapes differ.
    pub fn with_validity<S: Data<Elem = bool>, D: Dimension>(
        self,
        validity: &ArrayBase<S, D>,
    ) -> Result<Self> {
        let shape: Vec<u64> = validity.shape().iter().map(|extent| u64_len(*extent)).collect();
        if shape != self.shape {
            return Err(ArrayError::argument(format!(
                "a mask of shape {shape:?} for elements of shape {:?}",
                self.shape
            )));
        }
        self.with_mask(validity.iter().copied().collect())
    }

    /// The same with the mask row-major: one `bool` for each element.
    ///
    /// # Errors
    ///
    /// [`ArrayError::Argument`] when there are more or fewer of them than elements.
    pub fn with_mask(mut self, mask: Vec<bool>) -> Result<Self> {
        if product(&self.shape) != Some(u64_len(mask.len())) {
            return Err(ArrayError::argument(format!(
                "a mask of {} elements for elements of shape {:?}",
                mask.len(),
                self.shape
            )));
        }
        clear(&mut self.values, self.dtype.width(), &mask);
        self.validity = Some(mask).filter(|mask| mask.contains(&false));
        Ok(self)
    }

    /// Numbers of which some are null.
    #[must_use]
    pub fn from_options<T: Scalar, S: Data<Elem = Option<T>>, D: Dimension>(
        array: &ArrayBase<S, D>,
    ) -> Self {
        let width = T::DTYPE.width().unwrap_or(1);
        let mut bytes = Vec::with_capacity(array.len().saturating_mul(width));
        for number in array {
            match number {
                Some(number) => number.write_le(&mut bytes),
                None => bytes.resize(bytes.len().saturating_add(width), 0),
            }
        }
        let mask: Vec<bool> = array.iter().map(Option::is_some).collect();
        Self {
            dtype: T::DTYPE,
            shape: array.shape().iter().map(|extent| u64_len(*extent)).collect(),
            values: Values::Fixed(bytes),
            validity: Some(mask).filter(|mask| mask.contains(&false)),
        }
    }

    /// Elements that are null.
    #[must_use]
    pub fn null_count(&self) -> u64 {
        let mask = self.validity.as_deref().unwrap_or_default();
        u64_len(mask.iter().filter(|there| !**there).count())
    }

    /// Where elements are there (`true`), row-major; nothing when none is null.
    #[must_use]
    pub fn mask(&self) -> Option<&[bool]> {
        self.validity.as_deref()
    }

    /// The elements' bytes as [`ArrayData::as_bytes`] has them, zeros where they are null.
    #[must_use]
    pub fn masked_bytes(&self) -> Option<&[u8]> {
        match &self.values {
            Values::Fixed(bytes) => Some(bytes),
            Values::Variable(_) => None,
        }
    }

    /// Where elements are there (`true`) and where they are null.
    ///
    /// # Errors
    ///
    /// [`ArrayError::TooLarge`] when the shape is more than memory can have.
    pub fn validity(&self) -> Result<ArrayD<bool>> {
        let shape: Vec<usize> =
            (self.shape.iter()).map(|extent| usize_len("axis", *extent)).collect::<Result<_>>()?;
        match &self.validity {
            Some(mask) => ArrayD::from_shape_vec(IxDyn(&shape), mask.clone())
                .map_err(|error| ArrayError::argument(format!("no mask of this shape: {error}"))),
            None => Ok(ArrayD::from_elem(IxDyn(&shape), true)),
        }
    }

    /// The elements as numbers, zero where they are null, and where they are there (`true`).
    ///
    /// # Errors
    ///
    /// [`ArrayError::Argument`] when the elements are of another type.
    pub fn to_masked<T: Scalar>(&self) -> Result<(ArrayD<T>, ArrayD<bool>)> {
        Ok((self.numbers()?, self.validity()?))
    }

    /// The elements as numbers, and none where they are null.
    ///
    /// # Errors
    ///
    /// [`ArrayError::Argument`] when the elements are of another type.
    pub fn to_options<T: Scalar>(&self) -> Result<ArrayD<Option<T>>> {
        let mut all = self.numbers::<T>()?.mapv(Some);
        let mask = self.validity.as_deref().unwrap_or_default();
        for (number, there) in all.iter_mut().zip(mask) {
            *number = number.filter(|_| *there);
        }
        Ok(all)
    }

    /// The elements as texts, row-major, and none where they are null.
    ///
    /// # Errors
    ///
    /// [`ArrayError::Argument`] when they are of another type.
    pub fn text_options(&self) -> Result<Vec<Option<&str>>> {
        let texts = self.any_texts()?.into_iter().enumerate();
        Ok(texts.map(|(at, text)| self.is_there(at).then_some(text)).collect())
    }

    /// The bytes of each element, row-major, where lengths differ, and none where they are null.
    ///
    /// # Errors
    ///
    /// [`ArrayError::Argument`] when the elements have a fixed width.
    pub fn binary_options(&self) -> Result<Vec<Option<&[u8]>>> {
        let values = self.any_binary()?.iter().map(Vec::as_slice);
        Ok(values.enumerate().map(|(at, value)| self.is_there(at).then_some(value)).collect())
    }

    fn is_there(&self, at: usize) -> bool {
        self.validity.as_ref().is_none_or(|mask| mask.get(at) == Some(&true))
    }

    /// Refuses nulls where there is no room for them.
    pub(crate) fn refuse_nulls(&self, instead: &str) -> Result<()> {
        match self.null_count() {
            0 => Ok(()),
            nulls => Err(ArrayError::argument(format!("{nulls} elements are null: {instead}"))),
        }
    }

    /// What was read of an array.
    pub(crate) fn of(meta: &ArrayMeta, shape: Vec<u64>, values: Values) -> Self {
        let dtype = meta.dtype.clone();
        if !meta.nullable {
            return Self { dtype, shape, values, validity: None };
        }
        let (mask, values) = parted(&values, meta.element_width());
        Self { dtype, shape, values, validity: Some(mask).filter(|mask| mask.contains(&false)) }
    }
}

/// Makes elements that are null what they are where nothing is.
fn clear(values: &mut Values, width: Option<usize>, mask: &[bool]) {
    match values {
        Values::Fixed(bytes) => {
            let slots = bytes.chunks_exact_mut(width.unwrap_or(1).max(1)).zip(mask);
            slots.filter(|(_, there)| !**there).for_each(|(slot, _)| slot.fill(0));
        }
        Values::Variable(values) => {
            let slots = values.iter_mut().zip(mask);
            slots.filter(|(_, there)| !**there).for_each(|(slot, _)| slot.clear());
        }
    }
}

/// Which elements are there, and all of them without the byte in front.
fn parted(values: &Values, width: Option<usize>) -> (Vec<bool>, Values) {
    match values {
        Values::Fixed(bytes) => {
            let elements = bytes.chunks_exact(width.unwrap_or(1).max(1));
            let mask = elements.clone().map(|element| element.first() == Some(&THERE)).collect();
            let mut plain = Vec::with_capacity(bytes.len().saturating_sub(elements.len()));
            elements.for_each(|element| plain.extend(element.iter().skip(1)));
            (mask, Values::Fixed(plain))
        }
        Values::Variable(values) => {
            let mask = values.iter().map(|value| value.first() == Some(&THERE)).collect();
            let plain = values.iter().map(|value| value.get(1..).unwrap_or_default().to_vec());
            (mask, Values::Variable(plain.collect()))
        }
    }
}

/// Elements with the byte in front; null ones are zeros, or nothing.
fn joined(values: &Values, width: Option<usize>, there: impl Fn(usize) -> bool) -> Result<Values> {
    Ok(match values {
        Values::Fixed(bytes) => {
            let width = width.unwrap_or(1).max(1);
            let elements = bytes.chunks_exact(width);
            let length = bytes.len().saturating_add(elements.len());
            let mut out = zeroed("elements", u64_len(length))?;
            let slots = out.chunks_exact_mut(width.saturating_add(1));
            for (at, (slot, element)) in slots.zip(elements).enumerate() {
                if let (true, Some((front, value))) = (there(at), slot.split_first_mut()) {
                    *front = THERE;
                    value.copy_from_slice(element);
                }
            }
            Values::Fixed(out)
        }
        Values::Variable(values) => {
            let joined = values.iter().enumerate().map(|(at, value)| {
                let front: &[u8] = if there(at) { &[THERE] } else { return Vec::new() };
                [front, value].concat()
            });
            Values::Variable(joined.collect())
        }
    })
}

/// Bytes of the bits of so many elements.
const fn bits(elements: u64) -> u64 {
    elements.div_ceil(8)
}

/// The bits of a chunk and what follows them.
fn split(bytes: &[u8], elements: u64) -> Check<(&[u8], &[u8])> {
    let length = usize::try_from(bits(elements)).ok();
    let parts = length.and_then(|length| bytes.split_at_checked(length));
    let (bits, rest) =
        parts.ok_or_else(|| format!("{} bytes are too few for {elements} bits", bytes.len()))?;
    let unused = |last: &u8| (elements % 8..8).any(|bit| is_bit_set(*last, bit));
    if !elements.is_multiple_of(8) && bits.last().is_some_and(unused) {
        return Err(format!("bits behind those of {elements} elements are set"));
    }
    Ok((bits, rest))
}

fn is_bit_set(byte: u8, bit: u64) -> bool {
    u32::try_from(bit).is_ok_and(|bit| byte.checked_shr(bit).is_some_and(|byte| byte & 1 == 1))
}

fn is_set(bits: &[u8], at: usize) -> bool {
    bits.get(at / 8).is_some_and(|byte| is_bit_set(*byte, u64_len(at % 8)))
}

impl ArrayMeta {
    /// Bytes of an element in memory, where all have as many.
    pub(crate) fn element_width(&self) -> Option<usize> {
        let width = self.dtype.width()?;
        Some(width.saturating_add(usize::from(self.nullable)))
    }

    /// The fill value as an element in memory.
    pub(crate) fn fill_element(&self) -> Option<Cow<'_, [u8]>> {
        let fill = self.fill.as_deref()?;
        Some(match self.nullable {
            true => Cow::Owned([&[THERE], fill].concat()),
            false => Cow::Borrowed(fill),
        })
    }

    /// Elements as they are in memory.
    pub(crate) fn elements<'a>(&self, data: &'a ArrayData) -> Result<Cow<'a, Values>> {
        if !self.nullable {
            data.refuse_nulls(&format!("array `{}` is not nullable", self.name))?;
            return Ok(Cow::Borrowed(&data.values));
        }
        joined(&data.values, self.dtype.width(), |at| data.is_there(at)).map(Cow::Owned)
    }

    /// The same without a copy where there is no mask.
    pub(crate) fn owned_elements(&self, data: ArrayData) -> Result<Values> {
        if self.nullable {
            return self.elements(&data).map(Cow::into_owned);
        }
        data.refuse_nulls(&format!("array `{}` is not nullable", self.name))?;
        Ok(data.values)
    }

    /// The bytes of a chunk.
    pub(crate) fn encode(&self, values: &Values) -> Result<Vec<u8>> {
        if !self.nullable {
            return values.encode(&self.dtype);
        }
        let (mask, values) = parted(values, self.element_width());
        let mut bytes: Vec<u8> = (mask.chunks(8))
            .map(|part| part.iter().rev().fold(0, |byte, there| byte << 1 | u8::from(*there)))
            .collect();
        bytes.append(&mut values.encode(&self.dtype)?);
        Ok(bytes)
    }

    /// The elements of a chunk, which have one width, out of its bytes; these are checked.
    pub(crate) fn decode_fixed<'b>(&self, bytes: &'b [u8], elements: u64) -> Check<Cow<'b, [u8]>> {
        if !self.nullable {
            check_fixed(&self.dtype, bytes, elements)?;
            return Ok(Cow::Borrowed(bytes));
        }
        let (bits, rest) = split(bytes, elements)?;
        check_fixed(&self.dtype, rest, elements)?;
        let plain = Values::Fixed(rest.to_vec());
        let values = joined(&plain, self.dtype.width(), |at| is_set(bits, at));
        match values.map_err(|error| error.to_string())? {
            Values::Fixed(bytes) => Ok(Cow::Owned(bytes)),
            Values::Variable(_) => Ok(Cow::default()),
        }
    }

    /// The elements of a chunk, whose lengths differ, out of its bytes; these are checked.
    pub(crate) fn decode_variable(&self, bytes: &[u8], elements: u64) -> Check<Vec<Vec<u8>>> {
        if !self.nullable {
            return decode_variable(&self.dtype, bytes, elements);
        }
        let (bits, rest) = split(bytes, elements)?;
        let plain = Values::Variable(decode_variable(&self.dtype, rest, elements)?);
        match joined(&plain, None, |at| is_set(bits, at)).map_err(|error| error.to_string())? {
            Values::Variable(values) => Ok(values),
            Values::Fixed(_) => Ok(Vec::new()),
        }
    }

    /// Checks one element as it is in memory.
    pub(crate) fn check_element(&self, element: &[u8]) -> Check<()> {
        let width = self.element_width();
        if width.is_some_and(|width| element.len() != width) {
            return Err(format!("its element has {} bytes", element.len()));
        }
        if !self.nullable {
            return check_element(&self.dtype, element);
        }
        match element.split_first() {
            None => Ok(()),
            Some((&THERE, value)) => check_element(&self.dtype, value),
            Some((0, value)) if width.is_some() && value.iter().all(|byte| *byte == 0) => Ok(()),
            Some((front, _)) => Err(format!("its element begins with {front}")),
        }
    }

    /// The bytes of those elements of a chunk that are there, and how many are null.
    pub(crate) fn present<'a>(&self, bytes: &'a [u8]) -> Option<(Cow<'a, [u8]>, u32)> {
        if !self.nullable {
            return Some((Cow::Borrowed(bytes), 0));
        }
        // So many elements have so many bytes: ceil(n / 8) + n * width.
        let width = u64_len(self.dtype.width()?);
        let elements = u64_len(bytes.len()).checked_mul(8)?;
        let elements = elements.checked_div(width.checked_mul(8)?.checked_add(1)?)?;
        let (bits, rest) = split(bytes, elements).ok()?;
        let all = rest.chunks_exact(self.dtype.width()?.max(1));
        let nulls = (0..all.len()).filter(|at| !is_set(bits, *at)).count();
        if nulls == 0 {
            return Some((Cow::Borrowed(rest), 0));
        }
        let there = all.enumerate().filter(|(at, _)| is_set(bits, *at));
        let there: Vec<u8> = there.flat_map(|(_, element)| element).copied().collect();
        Some((Cow::Owned(there), u32::try_from(nulls).ok()?))
    }
}

/// The number that an element in memory is; none for null.
pub(crate) fn value_of<'a>(meta: &ArrayMeta, element: &'a [u8]) -> Option<&'a [u8]> {
    if !meta.nullable {
        return Some(element);
    }
    element.split_first().filter(|(front, _)| **front == THERE).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use ndarray::array;

    use super::*;
    use crate::dtype::DType;
    use crate::meta::ArraySpec;

    fn meta(dtype: DType, elements: u64) -> ArrayMeta {
        ArrayMeta::define(1, "a", ArraySpec::new(dtype, &[elements]).nullable()).unwrap()
    }

    #[test]
    fn chunks_have_bits_in_front_the_lowest_first() {
        let meta = meta(DType::Int16, 10);
        let numbers: Vec<Option<i16>> =
            (0..10).map(|at| (at % 3 != 1).then_some(at + 256)).collect();
        let data = ArrayData::from_options(&ndarray::Array1::from_vec(numbers));
        let values = meta.elements(&data).unwrap();
        let bytes = meta.encode(&values).unwrap();
        assert_eq!(bytes.len(), 2 + 20);
        assert_eq!(bytes[..6], [0b0110_1101, 0b11, 0, 1, 0, 0]);
        let back = meta.decode_fixed(&bytes, 10).unwrap();
        assert_eq!(&*back, values.fixed());
        let (there, nulls) = meta.present(&bytes).unwrap();
        assert_eq!((there.len(), nulls), (14, 3));
        for cut in 0..bytes.len() {
            assert!(meta.decode_fixed(&bytes[..cut], 10).is_err());
        }
        let mut wild = bytes;
        wild[1] |= 4;
        assert!(meta.decode_fixed(&wild, 10).is_err());
    }

    #[test]
    fn what_is_under_a_null_does_not_matter() {
        let meta = meta(DType::Bool, 3);
        // The second element is null and its byte is one.
        let chunk = vec![0b101, 1, 1, 0];
        let back = meta.decode_fixed(&chunk, 3).unwrap();
        assert_eq!(&*back, [1, 1, 0, 0, 1, 0].as_slice());
        let texts = ArrayData::from_texts(&[3], ["a", "secret", ""]).unwrap();
        let texts = texts.with_validity(&array![true, false, true]).unwrap();
        assert_eq!(texts.text_options().unwrap(), [Some("a"), None, Some("")]);
        assert_eq!(texts.values, Values::Variable(vec![b"a".to_vec(), Vec::new(), Vec::new()]));
        let meta = self::meta(DType::Utf8, 3);
        let values = meta.elements(&texts).unwrap();
        let bytes = meta.encode(&values).unwrap();
        assert_eq!(meta.decode_variable(&bytes, 3).unwrap().len(), 3);
        for cut in 0..bytes.len() {
            assert!(meta.decode_variable(&bytes[..cut], 3).is_err());
        }
    }

    #[test]
    fn elements_that_no_writer_makes_are_refused() {
        let (fixed, texts) = (meta(DType::Int16, 3), meta(DType::Utf8, 3));
        for sound in [&[1, 7, 7][..], &[0, 0, 0]] {
            fixed.check_element(sound).unwrap();
        }
        for wild in [&[][..], &[7, 7], &[2, 7, 7], &[0, 7, 7], &[1, 7, 7, 7]] {
            assert!(fixed.check_element(wild).is_err(), "{wild:?}");
        }
        for sound in [&[][..], &[1], &[1, b'a']] {
            texts.check_element(sound).unwrap();
        }
        for wild in [&[0][..], b"a", &[1, 0xFF]] {
            assert!(texts.check_element(wild).is_err(), "{wild:?}");
        }
    }
}
