from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Any

import numpy
import pyarrow
from typing_extensions import Self

from .codecs import Codec
from .core import PackReader, _Path, _Table

class ContiguousRecordBatch:
    def __init__(self, data: bytes, offsets: Iterable[int]) -> None: ...
    @property
    def buffer(self) -> memoryview: ...
    @property
    def offsets_buffer(self) -> memoryview: ...
    @property
    def offsets(self) -> tuple[int, ...]: ...
    @property
    def lengths(self) -> tuple[int, ...]: ...
    @property
    def record_count(self) -> int: ...
    def __len__(self) -> int: ...
    def __getitem__(self, row: int) -> memoryview: ...
    def __iter__(self) -> Iterator[memoryview]: ...
    def view(self, row: int) -> memoryview: ...
    def to_arrow(self) -> pyarrow.LargeBinaryArray: ...

class _Pack:
    def __init__(self, package_path: _Path | PackReader, **options: Any) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None: ...
    def __len__(self) -> int: ...
    @property
    def reader(self) -> PackReader: ...
    @property
    def header(self) -> dict[str, Any]: ...
    @property
    def slide_table(self) -> pyarrow.Table: ...
    @property
    def index_table(self) -> pyarrow.Table: ...
    @property
    def record_count(self) -> int: ...
    def close(self) -> None: ...

class VariableRecordPack(_Pack):
    @property
    def codec(self) -> Codec: ...
    def read_bytes(self, row: int) -> bytes: ...
    def read(self, row: int, *, scale: int = 1) -> Any: ...
    def read_many(
        self, rows: Iterable[int], workers: int | None = None, *, scale: int = 1
    ) -> list[Any]: ...
    def read_many_contiguous(
        self, rows: Iterable[int], *, workers: int | None = None
    ) -> ContiguousRecordBatch: ...
    def read_image_batch(
        self, rows: Iterable[int], *, out: Any = None, workers: int | None = None, scale: int = 1
    ) -> Any: ...
    @staticmethod
    def build(
        output_path: _Path,
        *,
        payload_type: str,
        slide_table: _Table,
        index_table: _Table,
        objects: Iterable[Any],
        codec: Codec | None = None,
        extra_header: dict[str, Any] | None = None,
        overwrite: bool = False,
        streaming: bool = False,
        workers: int | None = None,
        sync: bool = True,
        data_alignment: int = 64,
        checksums: bool = True,
    ) -> None: ...
    @staticmethod
    def build_from_payloads(
        output_path: _Path,
        *,
        payload_type: str,
        slide_table: _Table,
        index_table: _Table,
        payloads: Iterable[bytes],
        codec_name: str,
        codec_params: dict[str, Any] | None = None,
        extra_header: dict[str, Any] | None = None,
        overwrite: bool = False,
        sync: bool = True,
        data_alignment: int = 64,
        checksums: bool = True,
    ) -> None: ...

class FixedRecordPack(_Pack):
    @property
    def dim(self) -> int: ...
    @property
    def dtype(self) -> numpy.dtype[Any]: ...
    def read(self, row: int) -> numpy.ndarray[Any, Any]: ...
    def read_matrix(self, rows: Iterable[int], *, out: Any = None) -> Any: ...
    def read_float32(self, rows: Iterable[int]) -> numpy.ndarray[Any, Any]: ...
    def read_many(
        self, rows: Iterable[int], workers: int | None = None
    ) -> list[numpy.ndarray[Any, Any]]: ...
    def view(self) -> numpy.ndarray[Any, Any]: ...
    @staticmethod
    def build(
        output_path: _Path,
        *,
        payload_type: str,
        slide_table: _Table,
        index_table: _Table,
        matrix: Any,
        extra_header: dict[str, Any] | None = None,
        overwrite: bool = False,
        sync: bool = True,
        data_alignment: int = 64,
        checksums: bool = True,
    ) -> None: ...
