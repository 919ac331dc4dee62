"""Packs of one whole slide (``wsi_image``), read by place and resolution."""

import math
import operator

from . import _native
from ._adapter import AdapterReader
from ._support import array, check_workers, out_array, progress_bar, writing

__all__ = ["WsiImageReader", "build_wsi_image_package"]


def _integer(name, value):
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} must be an integer, not {type(value).__name__}")
    return operator.index(value)


def _size(width, height):
    sizes = _integer("width", width), _integer("height", height)
    for name, size in zip(("width", "height"), sizes):
        if size < 1:
            raise ValueError(f"{name} must be positive, found {size}")
        if size > 0xFFFFFFFF:
            raise ValueError(f"{name} of {size} pixels is too large")
    return sizes


def _number(name, value):
    if isinstance(value, bool) or not isinstance(value, (int, float)) and not hasattr(value, "__float__"):
        raise TypeError(f"{name} must be a number, not {type(value).__name__}")
    value = float(value)
    if not math.isfinite(value):
        raise ValueError(f"{name} must be finite, found {value}")
    return value


def _mpp(mpp, name="mpp"):
    pair = tuple(mpp) if isinstance(mpp, (tuple, list)) else (mpp, mpp)
    if len(pair) != 2:
        raise ValueError(f"{name} must be a number or a pair, not {len(pair)} numbers")
    pair = tuple(_number(name, value) for value in pair)
    if min(pair) <= 0:
        raise ValueError(f"{name} must be positive, found {pair}")
    return pair


class WsiImageReader(AdapterReader):
    """Reads regions of a slide by micrometres and resolution, or by native pixels.

    Arrays are of shape (height, width, 3), 8-bit RGB.
    """

    __slots__ = ("_info", "_native")

    def _begin(self):
        self._native = _native.Slide(self._pack)
        self._info = self._native.info()

    def _slide(self):
        self._open()
        return self._native

    def _fact(self, name):
        self._open()
        return self._info[name]

    def close(self):
        """Release the file. Closing twice is harmless."""
        self._native = None
        super().close()

    @property
    def record_count(self):
        """Rows of the index table."""
        return self._pack.num_records

    @property
    def slide_id(self):
        """Id of the slide."""
        return self._fact("slide_id")

    @property
    def patient_id(self):
        """Id of the patient."""
        return self._fact("patient_id") or ""

    @property
    def specimen_id(self):
        """Id of the specimen."""
        return self._fact("specimen_id") or ""

    @property
    def dimensions(self):
        """Width and height in pixels."""
        return self._fact("dimensions")

    @property
    def native_mpp(self):
        """Micrometres per pixel, (x, y)."""
        return self._fact("native_mpp")

    @property
    def physical_dimensions(self):
        """Width and height in micrometres."""
        return self._fact("physical_dimensions")

    @property
    def tile_size(self):
        """Width and height of the stored tiles."""
        return self._fact("tile_size")

    @property
    def background(self):
        """The colour outside and where no tile is stored."""
        return self._fact("background")

    @property
    def scanner_metadata(self):
        """What the source says about itself: a dict of its own each time."""
        import json

        return json.loads(self._slide().scanner_metadata())

    @property
    def icc_profile(self):
        """The colour profile, or ``None``."""
        return self._slide().icc_profile()

    @property
    def associated_image_names(self):
        """Names of thumbnail, label and the like, sorted."""
        return tuple(sorted(self._slide().associated_names()))

    def associated_image_icc_profile(self, name):
        """The colour profile of an associated image, or ``None``."""
        return self._slide().associated_icc(name)

    def read_associated_image(self, name):
        """Read an associated image."""
        return self._array(self._slide().read_associated(name))

    @staticmethod
    def _array(parts):
        buffer, height, width = parts
        return array((buffer, (height, width, 3), "uint8"))

    def read_native_region(self, x, y, width, height, *, workers=None):
        """Read native pixels; what lies outside is background."""
        slide, workers = self._slide(), check_workers(workers) or 1
        width, height = _size(width, height)
        # Far outside is far outside, however far.
        far = 2**62
        x = max(-far, min(far, _integer("x", x)))
        y = max(-far, min(far, _integer("y", y)))
        return self._array(slide.read_native((x, y, width, height), workers))

    def read_region(
        self, x_um, y_um, width, height, *, mpp, workers=None, fast=False, allow_upsample=1.0
    ):
        """Read a region by micrometres, at so many micrometres per pixel.

        ``fast`` uses overviews and smaller decoding, within a mean of 1/255 of the exact region.
        """
        slide, workers = self._slide(), check_workers(workers) or 1
        place = (_number("x_um", x_um), _number("y_um", y_um), *_size(width, height))
        return self._array(
            slide.read_region(place, _mpp(mpp), workers, bool(fast), float(allow_upsample))
        )

    def read_regions(self, places, width, height, *, mpp, out=None, workers=None, fast=False):
        """Read regions of one size into one array: N x height x width x 3.

        ``places`` are pairs of micrometres; each tile is decoded once for all regions.
        """
        slide, workers = self._slide(), check_workers(workers) or 1
        width, height = _size(width, height)
        places = [(_number("x_um", x), _number("y_um", y)) for x, y in places]
        shape = (len(places), height, width, 3)
        if out is None:
            import numpy

            target = out = numpy.empty(shape, "uint8")
        else:
            target = out_array(out, shape, "uint8")
        slide.read_regions_into(places, (width, height), _mpp(mpp), target, workers, bool(fast))
        return out

    def read_thumbnail(self, size=1024, *, workers=None):
        """Read the whole slide, no side longer than so many pixels."""
        return self._array(self._slide().read_thumbnail(size, check_workers(workers) or 1))


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
    overview=True,
    sync=True,
):
    """Import a slide, and tell what went into the pack. Output bytes do not depend on ``workers``.

    ``overview`` stores coarser levels, which readers of other makes ignore.
    """
    import json

    if not isinstance(show_progress, bool):
        raise TypeError(f"show_progress must be bool, not {type(show_progress).__name__}")
    if not isinstance(slide_id, str) or not slide_id:
        raise ValueError(f"slide_id must be text that is not empty, found {slide_id!r}")
    for name, value in (("patient_id", patient_id), ("specimen_id", specimen_id)):
        if not isinstance(value, str):
            raise TypeError(f"{name} must be str, not {type(value).__name__}")
    sizes = tile_size if isinstance(tile_size, (tuple, list)) else (tile_size, tile_size)
    if len(sizes) != 2:
        raise ValueError("tile_size must be an integer or a pair")
    sizes = tuple(_integer("tile_size", size) for size in sizes)
    if not all(1 <= size <= 65535 for size in sizes):
        raise ValueError(f"tile_size must be from 1 to 65535, found {sizes}")
    workers = check_workers(workers)
    if not isinstance(lossless, bool):
        raise TypeError(f"lossless must be bool, not {type(lossless).__name__}")
    if not 1 <= _integer("effort", effort) <= 10:
        raise ValueError(f"effort must be from 1 to 10, found {effort}")
    if distance is not None:
        distance = _number("distance", distance)
    summary = _native.build_wsi(
        source_path,
        output_path,
        (slide_id, patient_id, specimen_id),
        None if native_mpp is None else _mpp(native_mpp, "native_mpp"),
        lossless,
        distance,
        operator.index(effort),
        sizes,
        workers,
        bool(overview),
        progress_bar(show_progress),
        writing(overwrite, sync, 64, True),
    )
    return json.loads(summary)
