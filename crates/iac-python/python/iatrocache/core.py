"""Packs as they are stored: header, tables, and the bytes of records."""

import os

from . import _native
from ._support import header_text, writing

__all__ = [
    "PackReader",
    "build_pack",
    "build_pack_data_segment",
    "build_pack_data_segment_from_file",
    "build_pack_streaming",
    "clear_caches",
    "configure_cache",
    "iter_payloads",
    "read_header",
    "read_tables",
]


def _pyarrow_table(table):
    try:
        import pyarrow
    except ImportError as error:
        raise ImportError(
            "tables as pyarrow.Table need pyarrow (pip install 'iatrocache[arrow]'); other "
            "libraries read `slide_arrow` and `index_arrow` through the Arrow PyCapsule interface"
        ) from error
    return pyarrow.table(table)


class PackReader(_native.Reader):
    """Reads a pack: a file, or an object (``s3://``, ``gs://``, ``az://``, ``http(s)://``).

    The header is checked when the pack is opened; tables follow on first use. Readers may be used
    from any number of threads, after a fork, and pickled (the path travels).

    Keyword arguments: ``check_crc`` (compare records with their checksums, on by default),
    ``mapped`` (map the file, on by default), ``workers`` (most threads of one call),
    ``header_cache``, ``object_cache`` (bytes of memory for what is read of an object), and
    ``unlimited`` (decode records of any size).
    """

    __slots__ = ("_index", "_options", "_path", "_slides", "__weakref__")

    def __init__(self, path, **options):
        self._path = os.fspath(path)
        self._options = options
        self._slides = None
        self._index = None

    def __reduce__(self):
        return (_reopen, (type(self), self._path, self._options))

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    def __repr__(self):
        state = "closed " if self.closed else ""
        return f"<{state}{type(self).__name__} {self._path!r}>"

    @property
    def path(self):
        """The path or URL that was opened."""
        return self._path

    @property
    def header(self):
        """The header: a dict of its own each time."""
        import json

        return json.loads(self.header_text)

    @property
    def slide_table(self):
        """The slide table as ``pyarrow.Table``."""
        if self._slides is None or self.closed:
            self._slides = _pyarrow_table(self.slide_arrow)
        return self._slides

    @property
    def index_table(self):
        """The index table as ``pyarrow.Table``."""
        if self._index is None or self.closed:
            self._index = _pyarrow_table(self.index_arrow)
        return self._index

    @property
    def record_table(self):
        """Another name of :attr:`index_table`."""
        return self.index_table

    def close(self):
        """Release the file; views of it stay valid. Closing twice is harmless."""
        super().close()
        self._slides = self._index = None


def _reopen(kind, path, options):
    return kind(path, **options)


def build_pack(
    output_path,
    header_json,
    slide_table,
    index_table,
    payloads,
    *,
    overwrite=False,
    sync=True,
    data_alignment=64,
    checksums=True,
):
    """Write a variable pack: one payload (``bytes`` or ``bytearray``) for each row of the index.

    Tables are anything with ``__arrow_c_stream__``, such as ``pyarrow.Table``. The columns
    ``offset``, ``length`` and ``crc32`` are computed. The pack appears whole or not at all.
    """
    if not hasattr(payloads, "__len__"):
        payloads = list(payloads)
    _native.build_pack_streaming(
        output_path,
        header_text(header_json),
        slide_table,
        index_table,
        payloads,
        writing(overwrite, sync, data_alignment, checksums),
    )


def build_pack_streaming(
    output_path,
    header_json,
    slide_table,
    index_table,
    payloads,
    *,
    overwrite=False,
    sync=True,
    data_alignment=64,
    checksums=True,
):
    """Write a variable pack from an iterable of payloads, of which one is in memory at a time.

    An exception of the iterable ends the build, and nothing is left behind.
    """
    _native.build_pack_streaming(
        output_path,
        header_text(header_json),
        slide_table,
        index_table,
        payloads,
        writing(overwrite, sync, data_alignment, checksums),
    )


def build_pack_data_segment(
    output_path,
    header_json,
    slide_table,
    index_table,
    data,
    *,
    overwrite=False,
    sync=True,
    data_alignment=64,
    checksums=True,
):
    """Write a pack whose data segment is given as a whole: ``bytes``, or memory in one piece."""
    if isinstance(data, str):
        raise TypeError("data must be bytes, not str")
    _native.build_pack_data_segment(
        output_path,
        header_text(header_json),
        slide_table,
        index_table,
        data,
        writing(overwrite, sync, data_alignment, checksums),
    )


def build_pack_data_segment_from_file(
    output_path,
    header_json,
    slide_table,
    index_table,
    data_path,
    *,
    data_length,
    overwrite=False,
    sync=True,
    data_alignment=64,
    checksums=True,
):
    """Write a pack whose data segment is the content of a file of exactly ``data_length`` bytes."""
    _native.build_pack_data_segment_from_file(
        output_path,
        header_text(header_json),
        slide_table,
        index_table,
        data_path,
        data_length,
        writing(overwrite, sync, data_alignment, checksums),
    )


def read_header(package_path):
    """Read the header of a file: a dict of its own each time."""
    import json

    return json.loads(_native.read_header_text(package_path))


def read_tables(package_path):
    """Read header, slide table and index table of a pack."""
    with PackReader(package_path) as pack:
        return pack.header, pack.slide_table, pack.index_table


#: Rows that are read together while payloads are iterated over.
_TOGETHER = 64


def iter_payloads(package_path):
    """Iterate over the stored bytes of all records, in the order of the index rows."""
    with PackReader(package_path) as pack:
        for start in range(0, pack.num_records, _TOGETHER):
            yield from pack.read_payloads(range(start, min(start + _TOGETHER, pack.num_records)))


def _limit(name, value):
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be int, not {type(value).__name__}")
    if value < 1:
        raise ValueError(f"{name} must be positive, found {value}")
    return min(value, 2**64 - 1)


def configure_cache(
    *, header_enabled=True, header_max_entries=4096, header_max_bytes=64 * 1024 * 1024
):
    """Replace the whole configuration of the process-wide cache of headers."""
    if not isinstance(header_enabled, bool):
        raise TypeError(f"header_enabled must be bool, not {type(header_enabled).__name__}")
    _native.configure_cache(
        header_enabled,
        _limit("header_max_entries", header_max_entries),
        _limit("header_max_bytes", header_max_bytes),
    )


def clear_caches():
    """Empty the process-wide cache of headers."""
    _native.clear_caches()
