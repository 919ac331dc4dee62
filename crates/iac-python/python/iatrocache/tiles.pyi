from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy
import pyarrow
from PIL import Image

from ._adapter import AdapterReader
from .core import _Path
from .manifests import TileRecord as TileRecord

_Array = numpy.ndarray[Any, Any]

class TilePackageReader(AdapterReader):
    @property
    def index_table(self) -> pyarrow.Table: ...
    @property
    def tile_size(self) -> tuple[int, int] | None: ...
    def tile_id_at(self, row: int) -> str: ...
    def row_of(self, tile_id: str) -> int: ...
    def record_at(self, row: int) -> TileRecord: ...
    def records(self) -> list[TileRecord]: ...
    def read_array_at(self, row: int, *, scale: int = 1) -> _Array: ...
    def read_arrays_at(
        self, rows: Iterable[int], *, workers: int | None = None, scale: int = 1
    ) -> list[_Array]: ...
    def read_batch_at(
        self, rows: Iterable[int], *, out: Any = None, workers: int | None = None, scale: int = 1
    ) -> Any: ...
    def read_array(self, tile_id: str, *, scale: int = 1) -> _Array: ...
    def read_image(self, tile_id: str) -> Image.Image: ...
    def read_image_at(self, row: int) -> Image.Image: ...
    def read_images_at(
        self, rows: Iterable[int], *, workers: int | None = None
    ) -> list[Image.Image]: ...

def build_tile_package(
    manifest_path: _Path,
    output_path: _Path,
    tile_root: _Path | None = None,
    lossless: bool = False,
    distance: float | None = 1.0,
    effort: int | None = 7,
    overwrite: bool = False,
    stride_x: int | None = None,
    stride_y: int | None = None,
    workers: int | None = None,
    show_progress: bool = False,
    *,
    sync: bool = True,
) -> None: ...
def build_tile_package_from_records(
    records: Sequence[TileRecord],
    payloads: Sequence[bytes],
    output_path: _Path,
    *,
    tile_width: int,
    tile_height: int,
    lossless: bool = False,
    distance: float | None = 1.0,
    effort: int | None = 7,
    overwrite: bool = False,
    stride_x: int | None = None,
    stride_y: int | None = None,
    extra_header: dict[str, Any] | None = None,
    check_payloads: bool = True,
    sync: bool = True,
) -> None: ...
def read_package_metadata(package_path: _Path) -> dict[str, Any]: ...
def read_package_manifest(package_path: _Path) -> list[TileRecord]: ...
def iter_package_tiles(package_path: _Path) -> Iterator[tuple[TileRecord, Image.Image]]: ...
def encode_jxl(
    image_path: _Path, lossless: bool, distance: float | None, effort: int | None
) -> bytes: ...
def encode_jxl_array(
    arr: Any, lossless: bool, distance: float | None, effort: int | None
) -> bytes: ...
def decode_jxl(payload: bytes) -> Image.Image: ...
def decode_jxl_array(payload: bytes) -> _Array: ...
