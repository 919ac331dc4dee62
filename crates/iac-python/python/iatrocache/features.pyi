from collections.abc import Iterable, Mapping
from typing import Any

import numpy
import pyarrow

from ._adapter import AdapterReader
from .core import _Path
from .manifests import TileRecord

_Array = numpy.ndarray[Any, Any]

class FeatureCacheReader(AdapterReader):
    @property
    def index_table(self) -> pyarrow.Table: ...
    @property
    def record_table(self) -> pyarrow.Table: ...
    @property
    def dim(self) -> int: ...
    @property
    def teacher(self) -> str | None: ...
    def tile_id_at(self, row: int) -> str: ...
    def row_of(self, tile_id: str) -> int: ...
    def records(self) -> list[TileRecord]: ...
    def read_feature_at(self, row: int) -> _Array: ...
    def read_feature(self, tile_id: str) -> _Array: ...
    def read_features_at(self, rows: Iterable[int], *, out: Any = None) -> Any: ...

def build_teacher_feature_package(
    records: Iterable[TileRecord],
    features: Iterable[Any],
    output_path: _Path,
    teacher_name: str = "",
    dtype: Any = "float32",
    feature_dim: int | None = None,
    tile_width: int | None = None,
    tile_height: int | None = None,
    stride_x: int | None = None,
    stride_y: int | None = None,
    overwrite: bool = False,
    *,
    keep_split: bool = False,
    sync: bool = True,
) -> int: ...
def build_teacher_feature_package_from_feature_map(
    records: Iterable[TileRecord],
    feature_by_tile_id: Mapping[str, Any],
    output_path: _Path,
    teacher_name: str = "",
    dtype: Any = "float32",
    tile_width: int | None = None,
    tile_height: int | None = None,
    stride_x: int | None = None,
    stride_y: int | None = None,
    overwrite: bool = False,
    *,
    keep_split: bool = False,
    sync: bool = True,
) -> int: ...
def build_teacher_feature_package_from_tile_package(
    tile_package_path: _Path,
    features: Iterable[Any],
    output_path: _Path,
    teacher_name: str = "",
    dtype: Any = "float32",
    feature_dim: int | None = None,
    overwrite: bool = False,
    *,
    keep_split: bool = False,
    sync: bool = True,
) -> int: ...
def read_feature_package_records(package_path: _Path) -> list[TileRecord]: ...
