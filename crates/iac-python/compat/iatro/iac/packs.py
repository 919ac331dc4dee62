"""Packs record by record. Readers open when they are first used, and again after a close."""

import numpy

from iatrocache import packs as _packs
from iatrocache._errors import IacValueError
from iatrocache._support import check_workers

from ._core import PackReader
from ._native import _Native
from .codecs import Codec

_IMAGES = ("jxl", "jpeg", "jpeg2000", "jpegls")


class ContiguousRecordBatch:
    """Records one after the other in one buffer."""

    def __init__(self, data, offsets):
        offsets = list(offsets)
        if not offsets or offsets[0] != 0:
            raise ValueError("offsets must start at zero")
        for before, behind in zip(offsets, offsets[1:]):
            if isinstance(before, int) and isinstance(behind, int) and behind < before:
                raise ValueError("offsets must be nondecreasing")
        if isinstance(offsets[-1], int) and offsets[-1] != len(data):
            raise ValueError("the last offset must be the buffer length")
        self._batch = _packs.ContiguousRecordBatch(data, offsets)
        self._offsets = None

    @classmethod
    def _of(cls, batch):
        own = cls.__new__(cls)
        own._batch, own._offsets = batch, None
        return own

    @classmethod
    def _from_offsets_buffer(cls, data, offsets):
        offsets = memoryview(offsets)
        if offsets.nbytes % 8:
            raise ValueError("the bytes of offsets must be divisible by 8")
        return cls(data, offsets.cast("B").cast("Q"))

    @property
    def buffer(self):
        """All bytes."""
        return self._batch.buffer

    @property
    def offsets_buffer(self):
        """The offsets as memory."""
        return self._batch.offsets_buffer

    @property
    def offsets(self):
        """The offsets as a tuple."""
        if self._offsets is None:
            self._offsets = self._batch.offsets
        return self._offsets

    @property
    def lengths(self):
        """The length of each record."""
        return self._batch.lengths

    @property
    def record_count(self):
        """Number of records."""
        return len(self._batch)

    def __len__(self):
        return len(self._batch)

    def __getitem__(self, row):
        return self._batch.view(row)

    def view(self, row):
        """A record."""
        return self._batch.view(row)


class VariableRecordPack:
    """Reads records, decoded."""

    def __init__(self, package_path):
        self._reader = PackReader(package_path)
        self._pack = None

    def __getstate__(self):
        return {"path": self._reader._path}

    def __setstate__(self, state):
        self.__init__(state["path"])

    def _open(self):
        pack = self._reader._open()
        if self._pack is None or self._pack.reader is not pack:
            self._pack = _packs.VariableRecordPack(pack)
        return self._pack

    @property
    def header(self):
        """The header."""
        return self._reader.header

    @property
    def slide_table(self):
        """The slide table."""
        return self._reader.slide_table

    @property
    def index_table(self):
        """The index table."""
        return self._reader.index_table

    @property
    def record_count(self):
        """Number of records, as the header has it."""
        return int(self.header["num_records"])

    @property
    def codec(self):
        """The codec."""
        codec = self._open().codec
        if isinstance(codec, _packs.BuiltInCodec):
            return Codec.create(codec.name, **codec._params)
        return codec

    def read_bytes(self, row):
        """Read stored bytes."""
        return self._reader.read_payload(row)

    def read(self, row):
        """Read one record."""
        return self._open().read(row)

    def _workers(self, workers):
        workers = check_workers(workers)
        name = self.header.get("codec", "none")
        if name not in _IMAGES:
            return workers
        if workers is not None and workers > 1:
            raise ValueError("parallel batch decode is not supported for images here")
        return 1

    def read_many(self, rows, workers=None):
        """Read records."""
        workers = self._workers(workers)
        return self._open().read_many(list(rows), workers)

    def read_many_contiguous(self, rows, *, workers=None):
        """Read records into one buffer."""
        workers = self._workers(workers)
        if self.header.get("codec", "none") in _IMAGES:
            raise TypeError("contiguous reads need a byte-decoding codec")
        return ContiguousRecordBatch._of(
            self._open().read_many_contiguous(list(rows), workers=workers)
        )

    def close(self):
        """Release the file."""
        self._pack = None
        self._reader.close()

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
    ):
        """Encode objects and write the pack."""
        if isinstance(codec, _Native):
            codec = codec._codec
        _packs.VariableRecordPack.build(
            output_path,
            payload_type=payload_type,
            slide_table=slide_table,
            index_table=index_table,
            objects=objects,
            codec=codec,
            extra_header=extra_header,
            overwrite=overwrite,
            sync=False,
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
    ):
        """Write payloads that are encoded already."""
        _packs.VariableRecordPack.build_from_payloads(
            output_path,
            payload_type=payload_type,
            slide_table=slide_table,
            index_table=index_table,
            payloads=payloads,
            codec_name=codec_name,
            codec_params=codec_params,
            extra_header=extra_header,
            overwrite=overwrite,
            sync=False,
        )


def _inside(read, rows):
    try:
        return read(rows)
    except IacValueError as error:
        if "out of range" in str(error):
            error.args = (f"data span outside data segment: {error}",)
        raise


class FixedRecordPack:
    """Reads rows of numbers."""

    def __init__(self, package_path):
        self._reader = PackReader(package_path)
        self._pack = None

    def __getstate__(self):
        return {"path": self._reader._path}

    def __setstate__(self, state):
        self.__init__(state["path"])

    def _open(self):
        pack = self._reader._open()
        if self._pack is None or self._pack.reader is not pack:
            self._pack = _packs.FixedRecordPack(pack)
        return self._pack

    @property
    def header(self):
        """The header."""
        return self._reader.header

    @property
    def slide_table(self):
        """The slide table."""
        return self._reader.slide_table

    @property
    def index_table(self):
        """The index table."""
        return self._reader.index_table

    @property
    def record_count(self):
        """Number of rows, as the header has it."""
        return int(self.header["num_records"])

    def read(self, row):
        """Read one row."""
        return _inside(self._open().read, row)

    def read_matrix(self, rows):
        """Read rows."""
        return _inside(self._open().read_matrix, list(rows))

    def read_many(self, rows, workers=None):
        """Read rows as 32-bit floats."""
        return _inside(self._open().read_many, list(rows))

    def close(self):
        """Release the file."""
        self._pack = None
        self._reader.close()

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
    ):
        """Write the rows of a matrix."""
        _packs.FixedRecordPack.build(
            output_path,
            payload_type=payload_type,
            slide_table=slide_table,
            index_table=index_table,
            matrix=numpy.asarray(matrix),
            extra_header=extra_header,
            overwrite=overwrite,
            sync=False,
        )


__all__ = ["ContiguousRecordBatch", "FixedRecordPack", "VariableRecordPack"]
