"""Packs of one whole slide."""

import os

from iatrocache import wsi as _wsi

from .._messages import told
from ._lazy import forward


@forward(
    "dimensions",
    "native_mpp",
    "physical_dimensions",
    "slide_id",
    "patient_id",
    "specimen_id",
    "scanner_metadata",
    "icc_profile",
    "associated_image_names",
)
class WsiImageReader:
    """Reads regions. It is opened at once, and stays closed when it is closed."""

    def __init__(self, package_path):
        self._path = os.fspath(package_path)
        self._inner = told(_wsi.WsiImageReader)(self._path)
        self._reader = self._inner.reader

    def __getstate__(self):
        return {"path": self._path}

    def __setstate__(self, state):
        self.__init__(state["path"])

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    def _open(self):
        return self._inner

    def close(self):
        """Release the file."""
        self._inner.close()

    def associated_image_icc_profile(self, name):
        """The colour profile of an associated image."""
        return told(self._inner.associated_image_icc_profile)(name)

    def read_associated_image(self, name):
        """Read an associated image."""
        return told(self._inner.read_associated_image)(name)

    def read_native_region(self, x, y, width, height, *, workers=None):
        """Read native pixels."""
        return told(self._inner.read_native_region)(x, y, width, height, workers=workers)

    def read_region(self, x_um, y_um, width, height, *, mpp, workers=None):
        """Read a region by micrometres."""
        return told(self._inner.read_region)(x_um, y_um, width, height, mpp=mpp, workers=workers)


def build_wsi_image_package(
    source_path,
    output_path,
    *,
    slide_id,
    patient_id="",
    specimen_id="",
    native_mpp=None,
    lossless=False,
    distance=None,
    effort=7,
    tile_size=512,
    workers=1,
    overwrite=False,
    show_progress=False,
):
    """Import a slide."""
    told(_wsi.build_wsi_image_package)(
        source_path,
        output_path,
        slide_id=slide_id,
        patient_id=patient_id,
        specimen_id=specimen_id,
        native_mpp=native_mpp,
        lossless=lossless,
        distance=distance,
        effort=effort,
        tile_size=tile_size,
        workers=workers,
        overwrite=overwrite,
        show_progress=show_progress,
        overview=False,
        sync=False,
    )


__all__ = ["WsiImageReader", "build_wsi_image_package"]
