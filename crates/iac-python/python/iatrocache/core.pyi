from collections.abc import Iterable, Iterator
from os import PathLike
from types import TracebackType
from typing import Any, Protocol, TypeAlias

import pyarrow
from typing_extensions import Self

from ._native import Reader

_Path: TypeAlias = str | PathLike[str]

class _Table(Protocol):
    def __arrow_c_stream__(self, requested_schema: Any | None = None, /) -> Any: ...

class PackReader(Reader):
    def __init__(
        self,
        path: _Path,
        *,
        check_crc: bool = True,
        mapped: bool = True,
        workers: int | None = None,
        header_cache: bool = True,
        object_cache: int = 0,
        unlimited: bool = False,
    ) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None: ...
    @property
    def path(self) -> str: ...
    @property
    def header(self) -> dict[str, Any]: ...
    @property
    def slide_table(self) -> pyarrow.Table: ...
    @property
    def index_table(self) -> pyarrow.Table: ...
    @property
    def record_table(self) -> pyarrow.Table: ...

def build_pack(
    output_path: _Path,
    header_json: dict[str, Any],
    slide_table: _Table,
    index_table: _Table,
    payloads: Iterable[bytes | bytearray],
    *,
    overwrite: bool = False,
    sync: bool = True,
    data_alignment: int = 64,
    checksums: bool = True,
) -> None: ...
def build_pack_streaming(
    output_path: _Path,
    header_json: dict[str, Any],
    slide_table: _Table,
    index_table: _Table,
    payloads: Iterable[bytes | bytearray],
    *,
    overwrite: bool = False,
    sync: bool = True,
    data_alignment: int = 64,
    checksums: bool = True,
) -> None: ...
def build_pack_data_segment(
    output_path: _Path,
    header_json: dict[str, Any],
    slide_table: _Table,
    index_table: _Table,
    data: Any,
    *,
    overwrite: bool = False,
    sync: bool = True,
    data_alignment: int = 64,
    checksums: bool = True,
) -> None: ...
def build_pack_data_segment_from_file(
    output_path: _Path,
    header_json: dict[str, Any],
    slide_table: _Table,
    index_table: _Table,
    data_path: _Path,
    *,
    data_length: int,
    overwrite: bool = False,
    sync: bool = True,
    data_alignment: int = 64,
    checksums: bool = True,
) -> None: ...
def read_header(package_path: _Path) -> dict[str, Any]: ...
def read_tables(package_path: _Path) -> tuple[dict[str, Any], pyarrow.Table, pyarrow.Table]: ...
def iter_payloads(package_path: _Path) -> Iterator[bytes]: ...
def configure_cache(
    *,
    header_enabled: bool = True,
    header_max_entries: int = 4096,
    header_max_bytes: int = 67108864,
) -> None: ...
def clear_caches() -> None: ...
