//! What an array is: the request that defines it and the facts that are stored.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use crate::attr::Attr;
use crate::attrs::Attrs;
use crate::codec::Packing;
use crate::data::{ArrayData, Scalar, Values};
use crate::dtype::DType;
use crate::error::{ArrayError, Result, u64_len};
use crate::grid::{Grid, product};

/// Bytes of a chunk up to which an array is one chunk unless the caller says otherwise.
const SINGLE_CHUNK_BYTES: u64 = 64 << 20;
/// Bytes of a chunk of an automatic grid, roughly.
const AUTOMATIC_CHUNK_BYTES: u64 = 4 << 20;
/// Bytes that a chunk may have.
pub(crate) const MAX_CHUNK_BYTES: u64 = 1 << 30;
/// Bytes that a name may have.
pub(crate) const MAX_NAME_BYTES: usize = 4096;

/// What a new array shall be.
///
/// ```
/// use iac_array::{ArraySpec, DType};
///
/// let spec = ArraySpec::new(DType::Int16, &[40, 512, 512])
///     .chunks(&[8, 128, 128])
///     .dims(&["z", "y", "x"])
///     .fill(-1024_i16);
/// # let _ = spec;
/// ```
#[derive(Debug, Clone)]
pub struct ArraySpec {
    pub(crate) dtype: DType,
    pub(crate) shape: Vec<u64>,
    pub(crate) chunks: Option<Vec<u64>>,
    pub(crate) dims: Option<Vec<String>>,
    pub(crate) fill: Option<ArrayData>,
    pub(crate) attrs: BTreeMap<String, Attr>,
    pub(crate) packing: Option<String>,
    pub(crate) nullable: bool,
}

impl ArraySpec {
    /// An array of this type and shape; one chunk up to 64 MiB, above that chunks of about 4 MiB.
    #[must_use]
    pub fn new(dtype: DType, shape: &[u64]) -> Self {
        Self {
            dtype,
            shape: shape.to_vec(),
            chunks: None,
            dims: None,
            fill: None,
            attrs: BTreeMap::new(),
            packing: None,
            nullable: false,
        }
    }

    /// How chunks of this array are packed, whoever writes them; as the store's options say unless
    /// set. A writer whose build or registry cannot encode so packs as its own options say.
    #[must_use]
    pub fn packing(mut self, packing: &Packing) -> Self {
        self.packing = Some(packing.to_text());
        self
    }

    /// Lets elements be null. What nobody wrote is null then, unless there is a fill value.
    ///
    /// Files that hold such arrays need a reader that knows the feature `validity`.
    #[must_use]
    pub const fn nullable(mut self) -> Self {
        self.nullable = true;
        self
    }

    /// The shape of a chunk, no axis of it zero.
    #[must_use]
    pub fn chunks(mut self, chunks: &[u64]) -> Self {
        self.chunks = Some(chunks.to_vec());
        self
    }

    /// A name for each axis.
    #[must_use]
    pub fn dims(mut self, dims: &[&str]) -> Self {
        self.dims = Some(dims.iter().map(|dim| (*dim).to_owned()).collect());
        self
    }

    /// The number that elements have which nobody wrote; zero otherwise, or null where they can be.
    #[must_use]
    pub fn fill<T: Scalar>(self, fill: T) -> Self {
        self.fill_data(ndarray::arr0(fill).into())
    }

    /// The same for any type: one element without axes.
    #[must_use]
    pub fn fill_data(mut self, fill: ArrayData) -> Self {
        self.fill = Some(fill);
        self
    }

    /// An attribute.
    #[must_use]
    pub fn attr(mut self, key: &str, value: impl Into<Attr>) -> Self {
        self.attrs.insert(key.to_owned(), value.into());
        self
    }
}

/// What a row of the catalogue describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NodeKind {
    /// An array.
    Array,
    /// A group: a name with attributes.
    Group,
    /// The store itself.
    Store,
}

/// An array, group or store as a snapshot has it.
#[derive(Debug, Clone, PartialEq)]
pub struct ArrayMeta {
    pub(crate) id: u64,
    pub(crate) name: String,
    pub(crate) kind: NodeKind,
    pub(crate) attrs: Attrs,
    /// Shared by the arrays of a layer that are alike, as most are.
    pub(crate) form: Arc<Form>,
}

/// What an array's elements are and how they lie, apart from its name and attributes.
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq)]
pub struct Form {
    pub(crate) dtype: DType,
    pub(crate) shape: Vec<u64>,
    pub(crate) chunk: Vec<u64>,
    pub(crate) dims: Vec<String>,
    pub(crate) fill: Option<Vec<u8>>,
    /// How chunks are packed, as a text; as the writer's options say where there is none.
    pub(crate) packing: Option<String>,
    /// Whether elements can be null.
    pub(crate) nullable: bool,
}

impl Deref for ArrayMeta {
    type Target = Form;

    fn deref(&self) -> &Form {
        &self.form
    }
}

impl DerefMut for ArrayMeta {
    /// Of a form that is shared, the array gets its own.
    fn deref_mut(&mut self) -> &mut Form {
        Arc::make_mut(&mut self.form)
    }
}

impl ArrayMeta {
    /// The checked facts of a new array.
    pub(crate) fn define(id: u64, name: &str, spec: ArraySpec) -> Result<Self> {
        check_name(name)?;
        spec.dtype.check()?;
        let chunk = match spec.chunks {
            Some(chunk) => chunk,
            None => automatic(&spec.dtype, &spec.shape),
        };
        let dims = spec.dims.unwrap_or_else(|| vec![String::new(); spec.shape.len()]);
        let fill = spec.fill.map(|fill| one_element(&spec.dtype, &fill)).transpose()?;
        let meta = Self {
            id,
            name: name.to_owned(),
            kind: NodeKind::Array,
            attrs: spec.attrs.into(),
            form: Arc::new(Form {
                dtype: spec.dtype,
                shape: spec.shape,
                chunk,
                dims,
                // Zero is what there is without a fill value, but for arrays where that is null.
                fill: fill.filter(|fill| spec.nullable || fill.iter().any(|byte| *byte != 0)),
                packing: spec.packing,
                nullable: spec.nullable,
            }),
        };
        meta.check().map_err(ArrayError::argument)?;
        meta.check_chunk_bytes()?;
        Ok(meta)
    }

    pub(crate) fn node(id: u64, name: &str, kind: NodeKind) -> Self {
        Self {
            id,
            name: name.to_owned(),
            kind,
            attrs: Attrs::default(),
            form: Arc::new(Form::default()),
        }
    }

    /// What holds for every array, whether a caller or a file describes it.
    pub(crate) fn check(&self) -> std::result::Result<(), String> {
        self.form.check()?;
        self.attrs.check()
    }

    /// Refuses chunks above the limit; a chunk is never larger than its array.
    pub(crate) fn check_chunk_bytes(&self) -> Result<()> {
        let axes = self.chunk.iter().zip(&self.shape);
        let cut: Vec<u64> = axes.map(|(chunk, extent)| *chunk.min(extent)).collect();
        let bytes = product(&cut)
            .and_then(|elements| elements.checked_mul(u64_len(self.dtype.width().unwrap_or(4))));
        let found = bytes.unwrap_or(u64::MAX);
        if found > MAX_CHUNK_BYTES {
            return Err(ArrayError::TooLarge {
                what: "chunk (bytes)",
                found,
                allowed: MAX_CHUNK_BYTES,
            });
        }
        Ok(())
    }

    pub(crate) fn grid(&self) -> Result<Grid> {
        Grid::new(&self.shape, &self.chunk)
    }

    /// Bytes of an element in memory, or 1 where lengths differ.
    pub(crate) fn width(&self) -> usize {
        self.element_width().unwrap_or(1)
    }

    /// So many elements as nobody wrote them.
    pub(crate) fn filled(&self, elements: u64) -> Result<Values> {
        Values::filled(self.element_width(), self.fill_element().as_deref(), elements)
    }

    /// Whether an element, as it is in memory, is what nobody wrote.
    pub(crate) fn is_fill(&self, element: &[u8]) -> bool {
        match self.fill_element() {
            Some(fill) => element == &*fill,
            None if self.dtype.width().is_some() => element.iter().all(|byte| *byte == 0),
            None => element.is_empty(),
        }
    }

    /// Number that stays with the array when it is written again, and is never used twice.
    #[must_use]
    pub const fn id(&self) -> u64 {
        self.id
    }

    /// Its name; `/` separates groups.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Array, group or store.
    #[must_use]
    pub const fn kind(&self) -> NodeKind {
        self.kind
    }

    /// The type of its elements.
    #[must_use]
    pub fn dtype(&self) -> &DType {
        &self.dtype
    }

    /// The extent of each axis.
    #[must_use]
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// The extent of a chunk along each axis.
    #[must_use]
    pub fn chunks(&self) -> &[u64] {
        &self.chunk
    }

    /// The name of each axis, empty where it has none.
    #[must_use]
    pub fn dims(&self) -> &[String] {
        &self.dims
    }

    /// Whether elements can be null.
    #[must_use]
    pub fn is_nullable(&self) -> bool {
        self.nullable
    }

    /// The bytes of an element that nobody wrote; none for zero, or null where elements can be.
    #[must_use]
    pub fn fill(&self) -> Option<&[u8]> {
        self.fill.as_deref()
    }

    /// Its attributes.
    #[must_use]
    pub fn attrs(&self) -> &BTreeMap<String, Attr> {
        self.attrs.map()
    }

    /// One attribute. Where only some of a store with many arrays are wanted, this is cheaper than
    /// [`ArrayMeta::attrs`].
    #[must_use]
    pub fn attr(&self, key: &str) -> Option<Attr> {
        self.attrs.get(key)
    }
}

impl Default for Form {
    /// That of a group, which has no elements.
    fn default() -> Self {
        Self {
            dtype: DType::UInt8,
            shape: Vec::new(),
            chunk: Vec::new(),
            dims: Vec::new(),
            fill: None,
            packing: None,
            nullable: false,
        }
    }
}

impl Form {
    pub(crate) fn check(&self) -> std::result::Result<(), String> {
        Grid::new(&self.shape, &self.chunk).map_err(|error| error.to_string())?;
        if self.dims.len() != self.shape.len() {
            return Err(format!("{} names for {} axes", self.dims.len(), self.shape.len()));
        }
        let width = self.dtype.width();
        if let (Some(width), Some(fill)) = (width, &self.fill)
            && fill.len() != width
        {
            return Err(format!("a fill value of {} bytes for `{}`", fill.len(), self.dtype));
        }
        if let Some(fill) = &self.fill {
            crate::data::check_element(&self.dtype, fill)?;
        }
        Ok(())
    }
}

/// The bytes of data that is one element.
fn one_element(dtype: &DType, fill: &ArrayData) -> Result<Vec<u8>> {
    fill.check()?;
    fill.refuse_nulls("without a fill value, what nobody wrote is null")?;
    let timestamp = matches!(dtype, DType::Timestamp(..)) && *fill.dtype() == DType::Int64;
    if (fill.dtype() != dtype && !timestamp) || product(fill.shape()) != Some(1) {
        return Err(ArrayError::argument(format!(
            "a fill value of `{}` and shape {:?} for elements of `{dtype}`",
            fill.dtype(),
            fill.shape()
        )));
    }
    Ok(match &fill.values {
        Values::Fixed(bytes) => bytes.clone(),
        Values::Variable(values) => values.first().cloned().unwrap_or_default(),
    })
}

/// Names are made of parts that are not empty.
pub(crate) fn check_name(name: &str) -> Result<()> {
    let sound = !name.is_empty()
        && name.len() <= MAX_NAME_BYTES
        && !name.contains('\0')
        && name.split('/').all(|part| !part.is_empty());
    if sound {
        return Ok(());
    }
    Err(ArrayError::argument(format!(
        "`{}` is no name: 1 to {MAX_NAME_BYTES} bytes, no empty part between `/`",
        name.chars().take(64).collect::<String>()
    )))
}

/// One chunk while that is small, else halves along the longest axis until it is.
fn automatic(dtype: &DType, shape: &[u64]) -> Vec<u64> {
    let width = u64_len(dtype.width().unwrap_or(32));
    let bytes = |chunk: &[u64]| {
        product(chunk).and_then(|elements| elements.checked_mul(width)).unwrap_or(u64::MAX)
    };
    let mut chunk: Vec<u64> = shape.iter().map(|extent| (*extent).max(1)).collect();
    if bytes(&chunk) <= SINGLE_CHUNK_BYTES {
        return chunk;
    }
    while bytes(&chunk) > AUTOMATIC_CHUNK_BYTES {
        let Some(longest) = chunk.iter_mut().max().filter(|extent| **extent > 1) else {
            break;
        };
        *longest = longest.div_ceil(2);
    }
    chunk
}
