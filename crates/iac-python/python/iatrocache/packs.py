"""Packs record by record, as their codecs give them."""

import operator

from . import _native
from ._support import array, check_workers, header_text, image_parts, out_array, writing
from .codecs import BuiltInCodec, Codec
from .core import PackReader, build_pack_streaming

__all__ = ["ContiguousRecordBatch", "FixedRecordPack", "VariableRecordPack"]


class ContiguousRecordBatch:
    """Records one after the other in one buffer: record *i* is ``buffer[offsets[i]:offsets[i+1]]``."""

    __slots__ = ("_buffer", "_offsets")

    def __init__(self, data, offsets):
        from array import array as numbers

        offsets = numbers("Q", [_offset(value) for value in offsets])
        if isinstance(data, (str, int)):
            raise TypeError(f"the buffer of a batch must be bytes, not {type(data).__name__}")
        view = memoryview(bytes(data))
        if not offsets or offsets[0] != 0:
            raise ValueError("offsets of a batch must start at 0")
        before = 0
        for offset in offsets:
            if offset < before:
                raise ValueError(f"offsets of a batch must never decrease: {offset} after {before}")
            before = offset
        if before != len(view):
            raise ValueError(
                f"the last offset of a batch must be the buffer's length {len(view)}, not {before}"
            )
        self._buffer = view
        self._offsets = memoryview(offsets).toreadonly()

    @classmethod
    def _of(cls, parts):
        batch = cls.__new__(cls)
        batch._buffer = memoryview(parts[0])
        batch._offsets = memoryview(parts[1]).cast("Q")
        return batch

    @property
    def buffer(self):
        """All bytes: a read-only ``memoryview``."""
        return self._buffer

    @property
    def offsets_buffer(self):
        """Where each record begins, and where the last one ends: a ``memoryview`` of 64-bit numbers."""
        return self._offsets

    @property
    def offsets(self):
        """The same as a tuple."""
        return tuple(self._offsets)

    @property
    def lengths(self):
        """The length of each record."""
        offsets = self._offsets.tolist()
        return tuple(end - start for start, end in zip(offsets, offsets[1:]))

    @property
    def record_count(self):
        """Number of records."""
        return len(self._offsets) - 1

    def __len__(self):
        return len(self._offsets) - 1

    def view(self, row):
        """A record: a read-only ``memoryview``. Negative numbers count from the end."""
        if isinstance(row, bool) or not hasattr(row, "__index__"):
            raise TypeError(f"row must be an integer, not {type(row).__name__}")
        row, count = operator.index(row), len(self._offsets) - 1
        if row < 0:
            row += count
        if not 0 <= row < count:
            raise IndexError(f"row is out of range of the {count} records of the batch")
        return self._buffer[self._offsets[row] : self._offsets[row + 1]]

    __getitem__ = view

    def __iter__(self):
        start = 0
        for end in self._offsets[1:]:
            yield self._buffer[start:end]
            start = end

    def __reduce__(self):
        return (ContiguousRecordBatch, (bytes(self._buffer), self.offsets))

    def to_arrow(self):
        """The batch as ``pyarrow.LargeBinaryArray``, without a copy."""
        import pyarrow

        buffers = [None, pyarrow.py_buffer(self._offsets), pyarrow.py_buffer(self._buffer)]
        return pyarrow.LargeBinaryArray.from_buffers(pyarrow.large_binary(), len(self), buffers)


def _offset(value):
    value = operator.index(value)
    if value < 0:
        raise ValueError(f"offsets of a batch cannot be negative, found {value}")
    return value


class _Pack:
    """What both kinds of packs have in common."""

    __slots__ = ("_pack", "__weakref__")

    def __init__(self, package_path, **options):
        own = isinstance(package_path, PackReader)
        self._pack = package_path if own else PackReader(package_path, **options)

    def __reduce__(self):
        return (type(self), (self._pack,))

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    def __repr__(self):
        return f"<{type(self).__name__} {self._pack.path!r}>"

    def __len__(self):
        return self.record_count

    @property
    def reader(self):
        """The pack as it is stored."""
        return self._pack

    @property
    def header(self):
        """The header: a dict of its own each time."""
        return self._pack.header

    @property
    def slide_table(self):
        """The slide table as ``pyarrow.Table``."""
        return self._pack.slide_table

    @property
    def index_table(self):
        """The index table as ``pyarrow.Table``."""
        return self._pack.index_table

    def close(self):
        """Release the file. Closing twice is harmless."""
        self._pack.close()


class VariableRecordPack(_Pack):
    """Reads the records of a variable pack, decoded by the codec that the header names.

    Rows may count from the end. Image codecs give NumPy arrays of shape (H, W) or (H, W, C).
    """

    __slots__ = ("_codec", "_kind")

    def __init__(self, package_path, **options):
        super().__init__(package_path, **options)
        self._codec = None
        self._kind = None

    @property
    def record_count(self):
        """Number of records."""
        return self._pack.num_records

    @property
    def codec(self):
        """The codec, made when it is first needed."""
        if self._codec is None:
            header = self._pack.header
            name, params = header.get("codec", "none"), header.get("codec_params")
            if not isinstance(name, str):
                raise ValueError(f"header field `codec`: {name!r} where a name is expected")
            if params is None:
                params = {}
            if not isinstance(params, dict):
                raise TypeError(
                    f"header field `codec_params`: {type(params).__name__} where an object is expected"
                )
            self._codec = Codec.create(name, **params)
        return self._codec

    def _records(self):
        """``bytes``, ``image`` or ``python``: what decodes the records."""
        kind = self._kind
        if kind is None:
            if isinstance(self.codec, BuiltInCodec):
                kind = self._pack.record_kind()
            else:
                kind = "python"
            self._kind = kind
        return kind

    def read_bytes(self, row):
        """Read one record's stored bytes."""
        return self._pack.read_payload(row)

    def read(self, row, *, scale=1):
        """Read and decode one record; images also at 1/2, 1/4, ... of their size."""
        kind = self._records()
        if kind == "bytes":
            return self._pack.read_record(row)
        if kind == "image":
            return array(self._pack.read_image(row, scale))
        return self.codec.decode(self._pack.read_payload(row))

    def read_many(self, rows, workers=None, *, scale=1):
        """Read and decode many records, in the order asked for, on several threads."""
        if workers is not None:
            workers = check_workers(workers)
        kind = self._records()
        if kind == "bytes":
            return self._pack.read_records(rows, workers)
        if kind == "image":
            return [array(parts) for parts in self._pack.read_images(rows, workers, scale)]
        return self._decoded(self._pack.read_payloads(rows), workers)

    def _decoded(self, payloads, workers):
        decode = self.codec.decode
        if workers is None or workers == 1 or len(payloads) < 2:
            return [decode(payload) for payload in payloads]
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(min(workers, len(payloads))) as pool:
            return list(pool.map(decode, payloads))

    def read_many_contiguous(self, rows, *, workers=None):
        """Read and decode many records of bytes into one :class:`ContiguousRecordBatch`."""
        if workers is not None:
            workers = check_workers(workers)
        if self._records() != "python":
            return ContiguousRecordBatch._of(self._pack.read_records_contiguous(rows, workers))
        offsets, records = [0], self._decoded(self._pack.read_payloads(rows), workers)
        for record in records:
            if not isinstance(record, (bytes, bytearray)):
                raise TypeError(
                    f"codec {self.codec.name!r} gives {type(record).__name__}, and only records of "
                    "bytes make a contiguous batch"
                )
            offsets.append(offsets[-1] + len(record))
        return ContiguousRecordBatch(b"".join(records), offsets)

    def read_image_batch(self, rows, *, out=None, workers=None, scale=1):
        """Read and decode images of one shape and type into one array: N x H x W (x C).

        ``out`` is memory of the caller's: an array, or anything writable with a buffer or DLPack.
        """
        workers = check_workers(workers)
        if out is None:
            return array(self._pack.read_image_batch(rows, workers, scale))
        rows = rows if hasattr(rows, "__len__") else list(rows)
        if len(rows) == 0:
            return out
        (shape, dtype) = self._pack.image_info(rows[0])
        shape = tuple(-(-side // scale) for side in shape[:2]) + tuple(shape[2:])
        target = out_array(out, (len(rows), *shape), dtype)
        full = shape if len(shape) == 3 else (*shape, 1)
        self._pack.read_image_batch_into(rows, target, full, dtype, workers, scale)
        return out

    @staticmethod
    def build(
        output_path,
        *,
        payload_type,
        slide_table,
        index_table,
        objects,
        codec=None,
        extra_header=None,
        overwrite=False,
        streaming=False,
        workers=None,
        sync=True,
        data_alignment=64,
        checksums=True,
    ):
        """Encode objects, one for each row of the index, and write the pack.

        Objects may be any iterable; codecs that are built in encode on several threads. The pack
        appears whole or not at all.
        """
        codec = Codec.create("none") if codec is None else codec
        options = (overwrite, sync, data_alignment, checksums)
        extra = {} if extra_header is None else extra_header
        if isinstance(codec, BuiltInCodec):
            if codec.is_image:
                objects = (image_parts(image) for image in objects)
            _native.build_encoded(
                output_path,
                payload_type,
                header_text(extra, "extra_header"),
                slide_table,
                index_table,
                codec._codec,
                objects,
                check_workers(workers),
                writing(*options),
            )
            return
        header = {"payload_type": payload_type, "codec": codec.name}
        parameters = dict(codec.parameters())
        if parameters:
            header["codec_params"] = parameters
        header.update(extra)
        build_pack_streaming(
            output_path,
            header,
            slide_table,
            index_table,
            (codec.encode(obj) for obj in objects),
            overwrite=overwrite,
            sync=sync,
            data_alignment=data_alignment,
            checksums=checksums,
        )

    @staticmethod
    def build_from_payloads(
        output_path,
        *,
        payload_type,
        slide_table,
        index_table,
        payloads,
        codec_name,
        codec_params=None,
        extra_header=None,
        overwrite=False,
        sync=True,
        data_alignment=64,
        checksums=True,
    ):
        """Write a pack of payloads that are encoded already."""
        header = {"payload_type": payload_type, "codec": codec_name}
        if codec_params:
            header["codec_params"] = codec_params
        header.update(extra_header or {})
        build_pack_streaming(
            output_path,
            header,
            slide_table,
            index_table,
            payloads,
            overwrite=overwrite,
            sync=sync,
            data_alignment=data_alignment,
            checksums=checksums,
        )


class FixedRecordPack(_Pack):
    """Reads the rows of a fixed pack. Rows do not count from the end."""

    __slots__ = ("_dim", "_dtype", "_rows")

    def __init__(self, package_path, **options):
        super().__init__(package_path, **options)
        self._rows = _native.FixedRows(self._pack)
        self._dim, self._dtype = self._rows.dim, self._rows.dtype

    @property
    def record_count(self):
        """Number of rows."""
        return self._rows.record_count

    @property
    def dim(self):
        """Elements of a row."""
        return self._dim

    @property
    def dtype(self):
        """The type of the elements."""
        import numpy

        return numpy.dtype(self._dtype)

    def close(self):
        """Release the file. Closing twice is harmless."""
        self._rows.close()
        super().close()

    def read(self, row):
        """Read one row in the storage type."""
        return array((self._rows.read(row), (self._dim,), self._dtype))

    def read_matrix(self, rows, *, out=None):
        """Read rows in the storage type: an array of shape (rows, dim), or the caller's memory."""
        rows = rows if hasattr(rows, "__len__") else list(rows)
        shape = (len(rows), self._dim)
        if out is None:
            import numpy

            if self._dim == 0:
                raise ValueError("rows of a pack without elements make no matrix")
            target = out = numpy.empty(shape, self._dtype)
        else:
            target = out_array(out, shape, self._dtype)
        self._rows.read_matrix_into(rows, target)
        return out

    def read_float32(self, rows):
        """Read rows converted to ``float32``: an array of shape (rows, dim)."""
        buffer, count = self._rows.read_f32(rows)
        return array((buffer, (count, self._dim), "float32"))

    def read_many(self, rows, workers=None):
        """Read rows converted to ``float32``: a list of arrays."""
        return list(self.read_float32(rows))

    def view(self):
        """All rows where they lie in the mapped file, read-only and never compared with checksums."""
        return array((self._rows.view(), (self.record_count, self._dim), self._dtype))

    @staticmethod
    def build(
        output_path,
        *,
        payload_type,
        slide_table,
        index_table,
        matrix,
        extra_header=None,
        overwrite=False,
        sync=True,
        data_alignment=64,
        checksums=True,
    ):
        """Write the rows of a matrix, one for each row of the index."""
        import numpy

        matrix = numpy.asarray(matrix)
        if matrix.ndim != 2:
            raise ValueError(f"the matrix must have 2 dimensions, not {matrix.ndim}")
        if matrix.dtype.kind not in "biufc" or matrix.dtype.name in ("longdouble", "float128", "complex256"):
            raise ValueError(f"a matrix of type {matrix.dtype} cannot be stored")
        matrix = numpy.ascontiguousarray(matrix, matrix.dtype.newbyteorder("<"))
        _native.build_fixed(
            output_path,
            payload_type,
            header_text({} if extra_header is None else extra_header, "extra_header"),
            slide_table,
            index_table,
            matrix,
            matrix.shape[1],
            matrix.dtype.name,
            writing(overwrite, sync, data_alignment, checksums),
        )
