from collections.abc import Iterable
from typing import Any, BinaryIO

import numpy
import pyarrow

from ._adapter import AdapterReader
from .core import _Path

_Array = numpy.ndarray[Any, Any]

class Volume:
    voxels: _Array
    affine: _Array
    placed: bool
    positions: list[float]
    rows: list[int]
    units: str

class DicomPatientReader(AdapterReader):
    @property
    def series_table(self) -> pyarrow.Table: ...
    @property
    def instance_table(self) -> pyarrow.Table: ...
    @property
    def series(self) -> list[dict[str, Any]]: ...
    def rows_of(self, series_idx: int) -> list[int]: ...
    def read_pixel_array(self, row: int, *, verify: bool = True) -> _Array: ...
    def read_pixel_batch(self, rows: Iterable[int], *, verify: bool = True) -> _Array: ...
    def read_metadata(self, row: int) -> dict[str, Any]: ...
    def read_dicom(self, row: int, *, verify: bool = True, syntax: str = "jxl") -> bytes: ...
    def write_dicom(
        self,
        row: int,
        output_path: _Path,
        *,
        verify: bool = True,
        overwrite: bool = False,
        syntax: str = "jxl",
    ) -> None: ...
    def read_volume(
        self,
        series_idx: int,
        *,
        stack: int | None = None,
        stored: bool = False,
        in_order: bool = False,
        uneven: bool = False,
        duplicates: str = "refuse",
        workers: int | None = None,
    ) -> Volume: ...

def build_dicom_patient_package(
    dicom_directory: _Path,
    output_path: _Path,
    *,
    effort: int = 7,
    workers: int | None = None,
    verify: bool = False,
    overwrite: bool = False,
    sync: bool = True,
    show_progress: bool = False,
) -> dict[str, Any]: ...
def build_dicom_patient_package_from_files(
    dicom_files: Iterable[_Path | bytes | bytearray | memoryview | BinaryIO],
    output_path: _Path,
    *,
    effort: int = 7,
    workers: int | None = None,
    verify: bool = False,
    overwrite: bool = False,
    sync: bool = True,
) -> dict[str, Any]: ...
