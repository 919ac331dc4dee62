"""Packs as they are stored. Readers open when they are first used, and again after a close."""

import os
import threading

import iatrocache
from iatrocache import clear_caches, configure_cache

from ._messages import told

MAGIC = b"IATROC\x00\x02"
FORMAT_VERSION = 2
HEADER_BYTES = 65536


class PackReader:
    """Reads a pack by its path."""

    def __init__(self, package_path):
        self._path = os.fspath(package_path)
        self._pack = None
        self._lock = threading.Lock()

    def __getstate__(self):
        return {"_path": self._path}

    def __setstate__(self, state):
        self.__init__(state["_path"])

    def _open(self):
        pack = self._pack
        if pack is None:
            with self._lock:
                if self._pack is None:
                    self._pack = told(iatrocache.PackReader)(self._path)
                pack = self._pack
        return pack

    def _call(self, name, *arguments):
        """Call the open pack; one that another thread closed meanwhile is opened again."""
        while True:
            pack = self._open()
            try:
                return told(getattr(pack, name), "payload row out of range")(*arguments)
            except RuntimeError:
                if not pack.closed:
                    raise

    @property
    def header(self):
        """The header; it is answered from the cache where that is possible."""
        return read_header(self._path) if self._pack is None else self._open().header

    @property
    def slide_table(self):
        """The slide table."""
        return self._open().slide_table

    @property
    def index_table(self):
        """The index table."""
        return self._open().index_table

    @property
    def record_table(self):
        """The index table."""
        return self._open().index_table

    @property
    def mmap_enabled(self):
        """Whether the file is mapped."""
        return self._open().mmap_enabled

    def read_payload(self, row):
        """Read one payload."""
        return self._call("read_payload", row)

    def read_payloads(self, rows):
        """Read payloads."""
        return self._call("read_payloads", list(rows))

    def read_payload_views(self, rows):
        """Views of payloads."""
        return self._call("read_payload_views", list(rows))

    def _read_payloads_contiguous(self, rows):
        data, offsets = self._call("read_payloads_contiguous", list(rows))
        return bytes(data), bytes(offsets)

    def read_data_span(self, offset, length):
        """Read a span of the data segment."""
        return self._call("read_data_span", offset, length)

    def read_data_spans(self, spans):
        """Read spans of the data segment."""
        return self._call("read_data_spans", list(spans))

    def close(self):
        """Release the file."""
        with self._lock:
            pack, self._pack = self._pack, None
        if pack is not None:
            pack.close()


read_header = told(iatrocache.read_header)


def build_pack(output_path, header_json, slide_table, index_table, payloads, *, overwrite=False):
    """Write a pack of payloads."""
    iatrocache.build_pack(
        output_path, header_json, slide_table, index_table, payloads, overwrite=overwrite, sync=False
    )


def build_pack_streaming(
    output_path, header_json, slide_table, index_table, payloads, *, overwrite=False
):
    """Write a pack of payloads that come one by one."""
    iatrocache.build_pack_streaming(
        output_path, header_json, slide_table, index_table, payloads, overwrite=overwrite, sync=False
    )


def build_pack_data_segment(
    output_path, header_json, slide_table, index_table, data, *, overwrite=False
):
    """Write a pack whose data segment is given as a whole."""
    iatrocache.build_pack_data_segment(
        output_path, header_json, slide_table, index_table, data, overwrite=overwrite, sync=False
    )


def build_pack_data_segment_from_file(
    output_path, header_json, slide_table, index_table, data_path, *, data_length, overwrite=False
):
    """Write a pack whose data segment is the content of a file."""
    iatrocache.build_pack_data_segment_from_file(
        output_path,
        header_json,
        slide_table,
        index_table,
        data_path,
        data_length=data_length,
        overwrite=overwrite,
        sync=False,
    )


def read_tables(package_path):
    """Read header and tables."""
    return told(iatrocache.read_tables)(package_path)


def iter_payloads(package_path):
    """Iterate over the payloads."""
    return iatrocache.iter_payloads(package_path)


__all__ = [
    "FORMAT_VERSION",
    "HEADER_BYTES",
    "MAGIC",
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
