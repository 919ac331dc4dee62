"""Packs of image tiles."""

from iatrocache import tiles as _tiles
from iatrocache.tiles import (
    decode_jxl,
    decode_jxl_array,
    encode_jxl,
    encode_jxl_array,
    iter_package_tiles,
    read_package_manifest,
    read_package_metadata,
)

from ._lazy import forward, lazy
from .manifests import TileRecord


def _checked(workers):
    if workers is None:
        return 1
    if isinstance(workers, bool) or not isinstance(workers, int):
        raise TypeError(f"workers must be an integer, not {type(workers).__name__}")
    if workers < 1:
        raise ValueError(f"workers must be positive, got {workers}")
    return workers


@forward("record_count")
@lazy(_tiles.TilePackageReader, "tile row out of range")
class TilePackageReader:
    """Reads tiles."""

    def tile_id_at(self, row):
        """The id of a tile."""
        return self._open().tile_id_at(row)

    def read_array_at(self, row):
        """Read a tile as an array."""
        return self._open().read_array_at(row)

    def read_arrays_at(self, rows, *, workers=None):
        """Read tiles as arrays."""
        workers = _checked(workers)
        return self._open().read_arrays_at([int(row) for row in rows], workers=workers)

    def read_image(self, tile_id):
        """Read a tile by its id."""
        return self._open().read_image(tile_id)

    def read_image_at(self, row):
        """Read a tile as an image."""
        return self._open().read_image_at(row)

    def read_images_at(self, rows, *, workers=None):
        """Read tiles as images."""
        workers = _checked(workers)
        return self._open().read_images_at([int(row) for row in rows], workers=workers)


def build_tile_package(
    manifest_path,
    output_path,
    tile_root=None,
    lossless=False,
    distance=1.0,
    effort=7,
    overwrite=False,
    stride_x=None,
    stride_y=None,
    workers=1,
    show_progress=False,
):
    """Write a pack of the tiles of a manifest."""
    _tiles.build_tile_package(
        manifest_path,
        output_path,
        tile_root,
        lossless,
        distance,
        effort,
        overwrite,
        None if stride_x is None else int(stride_x),
        None if stride_y is None else int(stride_y),
        max(1, int(workers)),
        show_progress,
        sync=False,
    )


def build_tile_package_from_records(
    records,
    payloads,
    output_path,
    *,
    tile_width,
    tile_height,
    lossless=False,
    distance=1.0,
    effort=7,
    overwrite=False,
    stride_x=None,
    stride_y=None,
    extra_header=None,
):
    """Write a pack of tiles that are encoded already; they are stored unseen."""
    _tiles.build_tile_package_from_records(
        records,
        payloads,
        output_path,
        tile_width=tile_width,
        tile_height=tile_height,
        lossless=lossless,
        distance=distance,
        effort=effort,
        overwrite=overwrite,
        stride_x=None if stride_x is None else int(stride_x),
        stride_y=None if stride_y is None else int(stride_y),
        extra_header=extra_header,
        check_payloads=False,
        sync=False,
    )


__all__ = [
    "TilePackageReader",
    "TileRecord",
    "build_tile_package",
    "build_tile_package_from_records",
    "decode_jxl",
    "decode_jxl_array",
    "encode_jxl",
    "encode_jxl_array",
    "iter_package_tiles",
    "read_package_manifest",
    "read_package_metadata",
]
