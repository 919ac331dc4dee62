//! Which nodes and buffers the columns of one record batch take, and how large those must be.

use arrow_ipc::{BodyCompressionMethod, CompressionType, MetadataVersion, RecordBatch};
use arrow_schema::{DataType, Field, UnionMode};

use super::fault::{Check, Fault};
use super::limits::Codec;

/// Length and null count of one array.
#[derive(Debug, Clone, Copy)]
pub(super) struct Node {
    pub(super) rows: u64,
    pub(super) nulls: u64,
}

/// Where a buffer lies in the body.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    pub(super) offset: u64,
    pub(super) length: u64,
}

/// The metadata of one record batch with all numbers checked against the body's size.
#[derive(Debug)]
pub(super) struct BatchMetadata {
    pub(super) rows: u64,
    pub(super) codec: Option<Codec>,
    nodes: Vec<Node>,
    buffers: Vec<Span>,
    variadic: Vec<u64>,
    union_validity: bool,
}

impl BatchMetadata {
    pub(super) fn read(
        batch: &RecordBatch<'_>,
        version: MetadataVersion,
        body_bytes: u64,
    ) -> Check<Self> {
        let rows = size(batch.length(), "the row count")?;
        let nodes = batch
            .nodes()
            .into_iter()
            .flatten()
            .map(|node| {
                let rows = size(node.length(), "a column's row count")?;
                let nulls = size(node.null_count(), "a column's null count")?;
                if nulls > rows {
                    return Err(Fault::damaged(format!(
                        "a column claims {nulls} nulls in {rows} rows"
                    )));
                }
                Ok(Node { rows, nulls })
            })
            .collect::<Check<Vec<_>>>()?;
        let buffers = batch
            .buffers()
            .into_iter()
            .flatten()
            .map(|buffer| {
                let offset = size(buffer.offset(), "a buffer's offset")?;
                let length = size(buffer.length(), "a buffer's length")?;
                if offset.checked_add(length).is_none_or(|end| end > body_bytes) {
                    return Err(Fault::damaged(format!(
                        "a buffer of {length} bytes at offset {offset} reaches past the body of \
                         {body_bytes} bytes"
                    )));
                }
                Ok(Span { offset, length })
            })
            .collect::<Check<Vec<_>>>()?;
        // Buffers lie one behind the other. Without this rule a short stream could make the
        // library check the same bytes any number of times.
        let together = buffers.iter().try_fold(0_u64, |sum, span| sum.checked_add(span.length));
        if together.is_none_or(|sum| sum > body_bytes) {
            return Err(Fault::damaged(format!(
                "the buffers overlap: together they are longer than the body of {body_bytes} bytes"
            )));
        }
        let variadic = batch
            .variadicBufferCounts()
            .into_iter()
            .flatten()
            .map(|count| size(count, "a count of view buffers"))
            .collect::<Check<Vec<_>>>()?;
        if batch.nodes().is_none() || batch.buffers().is_none() {
            return Err(Fault::damaged("the batch has no list of nodes or buffers"));
        }
        Ok(Self {
            rows,
            codec: codec(batch)?,
            nodes,
            buffers,
            variadic,
            union_validity: version == MetadataVersion::V4,
        })
    }
}

fn codec(batch: &RecordBatch<'_>) -> Check<Option<Codec>> {
    let Some(compression) = batch.compression() else {
        return Ok(None);
    };
    if compression.method() != BodyCompressionMethod::BUFFER {
        return Err(Fault::damaged("the compression method is not known"));
    }
    match compression.codec() {
        CompressionType::LZ4_FRAME => Ok(Some(Codec::Lz4Frame)),
        CompressionType::ZSTD => Ok(Some(Codec::Zstd)),
        CompressionType(other) => {
            Err(Fault::damaged(format!("the compression codec {other} is not known")))
        }
    }
}

/// A number of the format that must be usable as a size in memory.
fn size(number: i64, what: &str) -> Check<u64> {
    // Through `usize`, because the library narrows to it without a check.
    usize::try_from(number)
        .ok()
        .and_then(|number| u64::try_from(number).ok())
        .ok_or_else(|| Fault::damaged(format!("{what} {number} is not a size")))
}

/// What a buffer holds and how long it must be once it is decompressed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Need {
    pub(super) what: &'static str,
    /// Bytes that the rows take.
    pub(super) bytes: u64,
    /// The library looks at the whole buffer as numbers of this many bytes, so that its length
    /// must be a multiple of it.
    pub(super) unit: u64,
}

impl Need {
    const fn bytes(what: &'static str, bytes: u64) -> Self {
        let unit = 1;
        Self { what, bytes, unit }
    }

    fn numbers(what: &'static str, rows: u64, unit: u64) -> Check<Self> {
        let bytes = times(rows, unit)?;
        Ok(Self { what, bytes, unit })
    }

    /// Offsets, one more than rows; they may be absent when there are no rows.
    fn offsets(rows: u64, unit: u64) -> Check<Self> {
        match rows {
            0 => Self::numbers("offsets", 0, unit),
            _ => Self::numbers("offsets", rows.saturating_add(1), unit),
        }
    }

    /// Fails when a buffer of `length` bytes is not enough.
    pub(super) fn check(self, length: u64) -> Check<()> {
        let Self { what, bytes, unit } = self;
        if length < bytes {
            return Err(Fault::damaged(format!(
                "{bytes} bytes of {what} expected, {length} bytes there"
            )));
        }
        if length.checked_rem(unit) != Some(0) {
            return Err(Fault::damaged(format!(
                "{length} bytes of {what} are not a multiple of {unit}"
            )));
        }
        Ok(())
    }
}

/// What to do with each array and buffer of a column.
pub(super) trait Visit {
    /// A buffer and what it must be.
    fn buffer(&mut self, span: Span, need: Need) -> Check<()>;
    /// Rows of an array that no bytes stand behind.
    fn bodiless(&mut self, rows: u64) -> Check<()>;
}

/// Passes a column without looking at it.
pub(super) struct Skip;

impl Visit for Skip {
    fn buffer(&mut self, _: Span, _: Need) -> Check<()> {
        Ok(())
    }

    fn bodiless(&mut self, _: u64) -> Check<()> {
        Ok(())
    }
}

/// Goes through a batch column by column, in the order of the schema.
pub(super) struct Cursor<'m> {
    batch: &'m BatchMetadata,
    nodes: std::slice::Iter<'m, Node>,
    buffers: std::slice::Iter<'m, Span>,
    variadic: std::slice::Iter<'m, u64>,
}

impl<'m> Cursor<'m> {
    pub(super) fn new(batch: &'m BatchMetadata) -> Self {
        Self {
            batch,
            nodes: batch.nodes.iter(),
            buffers: batch.buffers.iter(),
            variadic: batch.variadic.iter(),
        }
    }

    /// Passes the next column.
    pub(super) fn column(&mut self, field: &Field, visit: &mut dyn Visit) -> Check<Node> {
        let place = |fault: Fault| fault.within(&format!("column `{}`", field.name()));
        let node = self.array(field.data_type(), visit).map_err(place)?;
        if node.rows != self.batch.rows {
            return Err(place(Fault::damaged(format!(
                "{} rows in a batch of {} rows",
                node.rows, self.batch.rows
            ))));
        }
        Ok(node)
    }

    /// Fails when something is left that no column has taken.
    pub(super) fn finish(&self) -> Check<()> {
        let (nodes, buffers) = (self.nodes.len(), self.buffers.len());
        let variadic = self.variadic.len();
        if nodes != 0 || buffers != 0 || variadic != 0 {
            return Err(Fault::damaged(format!(
                "{nodes} nodes, {buffers} buffers and {variadic} view counts are left over that \
                 no column of the schema needs"
            )));
        }
        Ok(())
    }

    fn array(&mut self, data_type: &DataType, visit: &mut dyn Visit) -> Check<Node> {
        let node = self.node()?;
        let rows = node.rows;
        match data_type {
            DataType::Null => {
                if node.nulls != rows {
                    return Err(Fault::damaged(format!(
                        "{} nulls in {rows} rows of type null",
                        node.nulls
                    )));
                }
                visit.bodiless(rows)?;
            }
            DataType::Boolean => {
                self.validity(node, visit)?;
                self.take(Need::bytes("values", bits(rows)), visit)?;
            }
            DataType::Utf8 | DataType::Binary => self.bytes(node, 4, visit)?,
            DataType::LargeUtf8 | DataType::LargeBinary => self.bytes(node, 8, visit)?,
            DataType::Utf8View | DataType::BinaryView => self.views(node, visit)?,
            DataType::FixedSizeBinary(width) => {
                let width = u64::try_from(*width)
                    .map_err(|_| Fault::damaged(format!("width {width} is negative")))?;
                self.validity(node, visit)?;
                self.take(Need::bytes("values", times(rows, width)?), visit)?;
                if width == 0 {
                    visit.bodiless(rows)?;
                }
            }
            DataType::List(field) | DataType::Map(field, _) => {
                self.validity(node, visit)?;
                self.take(Need::offsets(rows, 4)?, visit)?;
                self.array(field.data_type(), visit)?;
            }
            DataType::LargeList(field) => {
                self.validity(node, visit)?;
                self.take(Need::offsets(rows, 8)?, visit)?;
                self.array(field.data_type(), visit)?;
            }
            DataType::ListView(field) => self.list_view(node, field, 4, visit)?,
            DataType::LargeListView(field) => self.list_view(node, field, 8, visit)?,
            DataType::FixedSizeList(field, length) => {
                self.fixed_size_list(node, field, *length, visit)?;
            }
            DataType::Struct(fields) => {
                self.validity(node, visit)?;
                if fields.is_empty() {
                    visit.bodiless(rows)?;
                }
                for field in fields {
                    let child = self.array(field.data_type(), visit)?;
                    same_rows(child, rows)?;
                }
            }
            DataType::RunEndEncoded(ends, values) => {
                visit.bodiless(rows)?;
                let ends = self.run_ends(ends.data_type(), visit)?;
                let values = self.array(values.data_type(), visit)?;
                same_rows(values, ends.rows)?;
            }
            DataType::Dictionary(keys, _) => {
                self.validity(node, visit)?;
                self.take(Need::numbers("indices", rows, width(keys)?)?, visit)?;
            }
            DataType::Union(fields, mode) => self.union(node, fields, *mode, visit)?,
            other => {
                self.validity(node, visit)?;
                self.take(Need::bytes("values", times(rows, width(other)?)?), visit)?;
            }
        }
        Ok(node)
    }

    fn run_ends(&mut self, data_type: &DataType, visit: &mut dyn Visit) -> Check<Node> {
        let node = self.node()?;
        self.validity(node, visit)?;
        self.take(Need::numbers("run ends", node.rows, width(data_type)?)?, visit)?;
        Ok(node)
    }

    fn bytes(&mut self, node: Node, width: u64, visit: &mut dyn Visit) -> Check<()> {
        self.validity(node, visit)?;
        self.take(Need::offsets(node.rows, width)?, visit)?;
        self.take(Need::bytes("values", 0), visit)
    }

    fn views(&mut self, node: Node, visit: &mut dyn Visit) -> Check<()> {
        let count = *self
            .variadic
            .next()
            .ok_or_else(|| Fault::damaged("the count of view buffers is missing"))?;
        self.validity(node, visit)?;
        self.take(Need::numbers("views", node.rows, 16)?, visit)?;
        let left = self.buffers.len();
        if usize::try_from(count).is_ok_and(|count| count <= left) {
            for _ in 0..count {
                self.take(Need::bytes("view data", 0), visit)?;
            }
            Ok(())
        } else {
            Err(Fault::damaged(format!("{count} view buffers announced, {left} buffers left")))
        }
    }

    fn list_view(
        &mut self,
        node: Node,
        field: &Field,
        width: u64,
        visit: &mut dyn Visit,
    ) -> Check<()> {
        self.validity(node, visit)?;
        self.take(Need::numbers("offsets", node.rows, width)?, visit)?;
        self.take(Need::numbers("sizes", node.rows, width)?, visit)?;
        self.array(field.data_type(), visit)?;
        Ok(())
    }

    fn fixed_size_list(
        &mut self,
        node: Node,
        field: &Field,
        length: i32,
        visit: &mut dyn Visit,
    ) -> Check<()> {
        let length = u64::try_from(length)
            .map_err(|_| Fault::damaged(format!("list size {length} is negative")))?;
        self.validity(node, visit)?;
        if length == 0 {
            visit.bodiless(node.rows)?;
        }
        let child = self.array(field.data_type(), visit)?;
        let need = times(node.rows, length)?;
        if child.rows < need {
            return Err(Fault::damaged(format!(
                "{} list items in a child that must have {need}",
                child.rows
            )));
        }
        Ok(())
    }

    fn union(
        &mut self,
        node: Node,
        fields: &arrow_schema::UnionFields,
        mode: UnionMode,
        visit: &mut dyn Visit,
    ) -> Check<()> {
        if self.batch.union_validity {
            // Nulls of a whole union cannot be expressed any more, so they would get lost.
            if node.nulls > 0 {
                return Err(Fault::unsupported(
                    "a union with nulls of its own (metadata version V4) is not supported",
                ));
            }
            self.take(Need::bytes("validity", 0), visit)?;
        }
        self.take(Need::bytes("type ids", node.rows), visit)?;
        if mode == UnionMode::Dense {
            self.take(Need::numbers(UNION_OFFSETS, node.rows, 4)?, visit)?;
        }
        for (_, field) in fields.iter() {
            let child = self.array(field.data_type(), visit)?;
            if mode == UnionMode::Sparse {
                same_rows(child, node.rows)?;
            }
        }
        Ok(())
    }

    fn node(&mut self) -> Check<Node> {
        let node = self.nodes.next();
        node.copied().ok_or_else(|| Fault::damaged("fewer nodes than the schema needs"))
    }

    fn validity(&mut self, node: Node, visit: &mut dyn Visit) -> Check<()> {
        let need = if node.nulls > 0 { bits(node.rows) } else { 0 };
        self.take(Need::bytes("validity", need), visit)
    }

    fn take(&mut self, need: Need, visit: &mut dyn Visit) -> Check<()> {
        let span = self
            .buffers
            .next()
            .ok_or_else(|| Fault::damaged("fewer buffers than the schema needs"))?;
        visit.buffer(*span, need)
    }
}

/// Name of the one kind of buffer that the library takes as it lies, without aligning it.
pub(super) const UNION_OFFSETS: &str = "union offsets";

fn same_rows(child: Node, rows: u64) -> Check<()> {
    if child.rows != rows {
        return Err(Fault::damaged(format!("a child has {} rows instead of {rows}", child.rows)));
    }
    Ok(())
}

const fn bits(rows: u64) -> u64 {
    rows.div_ceil(8)
}

fn times(rows: u64, width: u64) -> Check<u64> {
    rows.checked_mul(width)
        .ok_or_else(|| Fault::damaged(format!("{rows} rows of {width} bytes are too many")))
}

fn width(data_type: &DataType) -> Check<u64> {
    data_type
        .primitive_width()
        .and_then(|width| u64::try_from(width).ok())
        .ok_or_else(|| Fault::unsupported(format!("type {data_type} is not supported")))
}
