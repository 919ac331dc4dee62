"""Packs of one patient's DICOM objects."""

from iatrocache import dicom as _dicom

from .._messages import told
from ._lazy import forward, lazy


@forward("record_count", "header", "series_table", "instance_table")
@lazy(_dicom.DicomPatientReader, "row out of range")
class DicomPatientReader:
    """Reads pixels and objects."""

    def read_pixel_array(self, row, *, verify=False):
        """Read the pixels of an object."""
        return self._open().read_pixel_array(row, verify=verify)

    def read_dicom(self, row, *, verify=False):
        """An object as a DICOM file in memory."""
        return self._open().read_dicom(row, verify=verify)

    def write_dicom(self, row, output_path, *, verify=False, overwrite=False):
        """Write an object as a DICOM file."""
        self._open().write_dicom(row, output_path, verify=verify, overwrite=overwrite)


def build_dicom_patient_package(
    dicom_directory, output_path, *, effort=7, workers=None, verify=False, overwrite=False
):
    """Write a pack of the objects under a folder."""
    told(_dicom.build_dicom_patient_package)(
        dicom_directory,
        output_path,
        effort=effort,
        workers=workers,
        verify=verify,
        overwrite=overwrite,
        sync=False,
    )


def build_dicom_patient_package_from_files(
    dicom_files, output_path, *, effort=7, workers=None, verify=False, overwrite=False
):
    """Write a pack of objects that are given one by one."""
    told(_dicom.build_dicom_patient_package_from_files)(
        dicom_files,
        output_path,
        effort=effort,
        workers=workers,
        verify=verify,
        overwrite=overwrite,
        sync=False,
    )


__all__ = [
    "DicomPatientReader",
    "build_dicom_patient_package",
    "build_dicom_patient_package_from_files",
]
