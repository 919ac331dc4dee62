"""Packs of one patient's DICOM objects (``dicom_patient``)."""

import os

from . import _native
from ._adapter import AdapterReader
from ._support import array, check_workers, progress_bar, writing

__all__ = [
    "DicomPatientReader",
    "Volume",
    "build_dicom_patient_package",
    "build_dicom_patient_package_from_files",
]


class Volume:
    """A series as one array of shape (slices, rows, columns), and where it lies in the patient.

    ``affine`` maps (column, row, slice) to millimetres, DICOM's axes (LPS).
    """

    __slots__ = ("affine", "placed", "positions", "rows", "units", "voxels")

    def __init__(self, parts):
        import numpy

        self.voxels = array((parts["voxels"], parts["shape"], parts["dtype"]))
        self.affine = numpy.array(parts["affine"])
        self.placed = parts["placed"]
        self.units = parts["units"]
        self.rows = parts["rows"]
        self.positions = parts["positions"]

    def __array__(self, dtype=None, copy=None):
        import numpy

        return numpy.array(self.voxels, dtype, copy=bool(copy) or dtype is not None) if copy or dtype is not None else self.voxels

    def __repr__(self):
        return f"<Volume {self.voxels.shape} {self.voxels.dtype} in {self.units or 'no units'}>"


class DicomPatientReader(AdapterReader):
    """Reads pixels and objects by row. Rows do not count from the end."""

    __slots__ = ("_native",)

    def _begin(self):
        self._native = _native.Dicom(self._pack)

    def _objects(self):
        self._open()
        return self._native

    def close(self):
        """Release the file. Closing twice is harmless."""
        self._native = None
        super().close()

    @property
    def series_table(self):
        """One row for each series, as ``pyarrow.Table``."""
        return self._pack.slide_table

    @property
    def instance_table(self):
        """One row for each object, as ``pyarrow.Table``."""
        return self._pack.index_table

    @property
    def record_count(self):
        """Number of objects (frames in packs of frames)."""
        return self._objects().record_count

    @property
    def series(self):
        """The series: a list of dicts."""
        return self._objects().series_list()

    def rows_of(self, series_idx):
        """The rows of a series."""
        return self._objects().rows_of(series_idx)

    def read_pixel_array(self, row, *, verify=True):
        """Read the pixels of an object, as they are stored."""
        return array(self._objects().read_pixels(row, verify))

    def read_pixel_batch(self, rows, *, verify=True):
        """Read the pixels of objects of one shape and type, on several threads, into one array."""
        return array(self._objects().read_pixel_batch(rows, verify))

    def read_metadata(self, row):
        """The elements of an object, as the DICOM JSON model has them."""
        import json

        return json.loads(self._objects().metadata(row))

    def read_dicom(self, row, *, verify=True, syntax="jxl"):
        """An object as a DICOM file in memory."""
        return self._objects().export(row, syntax, verify)

    def write_dicom(self, row, output_path, *, verify=True, overwrite=False, syntax="jxl"):
        """Write an object as a DICOM file."""
        self._objects().export_to(row, output_path, syntax, verify, overwrite)

    def read_volume(
        self,
        series_idx,
        *,
        stack=None,
        stored=False,
        in_order=False,
        uneven=False,
        duplicates="refuse",
        workers=None,
    ):
        """Read a series as a volume.

        ``stack`` chooses one of several stacks of slices; ``stored`` gives values as they are stored
        in place of rescaled ones; ``in_order`` takes slices in the order of their rows, whatever
        their places; ``uneven`` accepts gaps; ``duplicates`` is ``refuse``, ``first`` or ``last``.
        """
        workers = check_workers(workers)
        return Volume(
            self._objects().read_volume(
                series_idx, stack, stored, in_order, uneven, duplicates, workers
            )
        )


def _build(folder, files, output_path, effort, workers, verify, overwrite, sync, show_progress):
    import json

    if isinstance(effort, bool) or not isinstance(effort, int):
        raise TypeError(f"effort must be an integer, not {type(effort).__name__}")
    if not 1 <= effort <= 10:
        raise ValueError(f"effort must be from 1 to 10, found {effort}")
    report = _native.build_dicom(
        folder,
        files,
        output_path,
        effort,
        check_workers(workers),
        bool(verify),
        progress_bar(show_progress),
        writing(overwrite, sync, 64, True),
    )
    return json.loads(report)


def build_dicom_patient_package(
    dicom_directory,
    output_path,
    *,
    effort=7,
    workers=None,
    verify=False,
    overwrite=False,
    sync=True,
    show_progress=False,
):
    """Write a pack of the objects under a folder, and tell what went into it."""
    if not os.path.isdir(dicom_directory):
        raise NotADirectoryError(f"no folder: {os.fspath(dicom_directory)}")
    return _build(
        dicom_directory, None, output_path, effort, workers, verify, overwrite, sync, show_progress
    )


def build_dicom_patient_package_from_files(
    dicom_files,
    output_path,
    *,
    effort=7,
    workers=None,
    verify=False,
    overwrite=False,
    sync=True,
):
    """Write a pack of objects: paths, bytes, or binary files, each used once and in order."""
    return _build(None, dicom_files, output_path, effort, workers, verify, overwrite, sync, False)
