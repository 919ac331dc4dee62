from collections.abc import Iterable
from typing import Any

import numpy

from ._adapter import AdapterReader
from .core import _Path

_Array = numpy.ndarray[Any, Any]
_Mpp = float | tuple[float, float]

class WsiImageReader(AdapterReader):
    @property
    def slide_id(self) -> str: ...
    @property
    def patient_id(self) -> str: ...
    @property
    def specimen_id(self) -> str: ...
    @property
    def dimensions(self) -> tuple[int, int]: ...
    @property
    def native_mpp(self) -> tuple[float, float]: ...
    @property
    def physical_dimensions(self) -> tuple[float, float]: ...
    @property
    def tile_size(self) -> tuple[int, int]: ...
    @property
    def background(self) -> tuple[int, int, int]: ...
    @property
    def scanner_metadata(self) -> dict[str, Any]: ...
    @property
    def icc_profile(self) -> bytes | None: ...
    @property
    def associated_image_names(self) -> tuple[str, ...]: ...
    def associated_image_icc_profile(self, name: str) -> bytes | None: ...
    def read_associated_image(self, name: str) -> _Array: ...
    def read_native_region(
        self, x: int, y: int, width: int, height: int, *, workers: int | None = None
    ) -> _Array: ...
    def read_region(
        self,
        x_um: float,
        y_um: float,
        width: int,
        height: int,
        *,
        mpp: _Mpp,
        workers: int | None = None,
        fast: bool = False,
        allow_upsample: float = 1.0,
    ) -> _Array: ...
    def read_regions(
        self,
        places: Iterable[tuple[float, float]],
        width: int,
        height: int,
        *,
        mpp: _Mpp,
        out: Any = None,
        workers: int | None = None,
        fast: bool = False,
    ) -> Any: ...
    def read_thumbnail(self, size: int = 1024, *, workers: int | None = None) -> _Array: ...

def build_wsi_image_package(
    source_path: _Path,
    output_path: _Path,
    *,
    slide_id: str,
    patient_id: str = "",
    specimen_id: str = "",
    native_mpp: _Mpp | None = None,
    lossless: bool = False,
    distance: float | None = None,
    effort: int = 7,
    tile_size: int | tuple[int, int] = 512,
    workers: int = 1,
    overwrite: bool = False,
    show_progress: bool = False,
    overview: bool = True,
    sync: bool = True,
) -> dict[str, Any]: ...
