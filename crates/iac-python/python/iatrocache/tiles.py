"""Packs of image tiles (``image_tiles``)."""

from . import _native
from ._adapter import AdapterReader
from ._support import array, check_workers, header_text, out_array, progress_bar, writing
from .codecs import Codec
from .core import PackReader, read_header
from .manifests import TileRecord, _parts, _record

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


def _pillow():
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError(
            "tiles as images need Pillow (pip install 'iatrocache[images]'); the calls for arrays "
            "do without"
        ) from error
    return Image


def _rgb(tile):
    """A decoded tile with the channels that readers of tiles expect."""
    import numpy

    if tile.ndim == 2:
        return numpy.repeat(tile[:, :, None], 3, axis=2)
    return numpy.ascontiguousarray(tile[:, :, :3]) if tile.shape[2] == 4 else tile


def _image(tile):
    """A tile as an image of Pillow."""
    if tile.dtype.name != "uint8":
        raise TypeError(f"a tile of type {tile.dtype} is no RGB image")
    if tile.shape[2] != 3:
        raise ValueError(f"a tile of {tile.shape[2]} channels is no RGB image")
    return _pillow().fromarray(tile)


class TilePackageReader(AdapterReader):
    """Reads tiles by row or by id. Rows do not count from the end."""

    __slots__ = ("_native",)

    def _begin(self):
        self._native = _native.Tiles(self._pack)

    def _tiles(self):
        self._open()
        return self._native

    def close(self):
        """Release the file. Closing twice is harmless."""
        self._native = None
        super().close()

    @property
    def index_table(self):
        """The index table as ``pyarrow.Table``."""
        return self._pack.index_table

    @property
    def record_count(self):
        """Number of tiles."""
        return self._tiles().record_count

    @property
    def tile_size(self):
        """Width and height of the tiles, or ``None`` where they differ."""
        return self._tiles().tile_size

    def tile_id_at(self, row):
        """The id of a tile."""
        return self._tiles().tile_id(row)

    def row_of(self, tile_id):
        """The row of an id."""
        return self._tiles().row_of(tile_id)

    def record_at(self, row):
        """Ids, place and label of a tile."""
        return _record(self._tiles().record(row))

    def records(self):
        """Ids, place and label of all tiles."""
        return [_record(parts) for parts in self._tiles().records()]

    def read_array_at(self, row, *, scale=1):
        """Read a tile: an array of shape (height, width, 3)."""
        return _rgb(array(self._tiles().read(row, scale)))

    def read_arrays_at(self, rows, *, workers=None, scale=1):
        """Read tiles, in the order asked for, on several threads: a list of arrays."""
        tiles = self._tiles().read_many(rows, check_workers(workers), scale)
        return [_rgb(array(parts)) for parts in tiles]

    def read_batch_at(self, rows, *, out=None, workers=None, scale=1):
        """Read tiles of one size into one array: N x height x width x 3.

        ``out`` is memory of the caller's: an array, or anything writable with a buffer or DLPack.
        """
        native, workers = self._tiles(), check_workers(workers)
        rows = rows if hasattr(rows, "__len__") else list(rows)
        size = native.tile_size
        if size is None:
            if len(rows) == 0:
                raise ValueError("without rows, the size of the tiles is not known")
            first = native.read(rows[0], scale)[1]
            height, width = first[0], first[1]
        else:
            width, height = (-(-side // scale) for side in size)
        shape = (len(rows), height, width, 3)
        if out is not None:
            native.read_rgb_batch_into(rows, out_array(out, shape, "uint8"), workers, scale)
            return out
        buffer, _ = native.read_rgb_batch(rows, workers, scale)
        return array((buffer, shape, "uint8"))

    def read_image_at(self, row):
        """Read a tile as an image of Pillow."""
        return _image(self.read_array_at(row))

    def read_images_at(self, rows, *, workers=None):
        """Read tiles as images of Pillow, on several threads."""
        return [_image(tile) for tile in self.read_arrays_at(rows, workers=workers)]

    def read_image(self, tile_id):
        """Read a tile by its id as an image of Pillow."""
        return self.read_image_at(self.row_of(tile_id))

    def read_array(self, tile_id, *, scale=1):
        """Read a tile by its id: an array of shape (height, width, 3)."""
        return self.read_array_at(self.row_of(tile_id), scale=scale)


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
    workers=None,
    show_progress=False,
    *,
    sync=True,
):
    """Write a pack of the tiles of a manifest. Output bytes do not depend on ``workers``.

    ``workers`` is all cores unless it is given. Warnings about repeated places and patients in
    several splits go through :mod:`warnings`.
    """
    if workers is not None:
        workers = max(1, check_workers(workers) if workers >= 1 else 1)
    warnings = _native.build_tiles(
        manifest_path,
        output_path,
        tile_root,
        (bool(lossless), distance, effort, stride_x, stride_y),
        workers,
        progress_bar(show_progress),
        writing(overwrite, sync, 64, True),
    )
    if warnings:
        from warnings import warn

        for warning in warnings:
            warn(warning, stacklevel=2)


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
    check_payloads=True,
    sync=True,
):
    """Write a pack of tiles that are JPEG XL already; their headers are compared with the size."""
    _native.build_tiles_from_records(
        [_parts(record) for record in records],
        payloads,
        output_path,
        (tile_width, tile_height),
        (bool(lossless), distance, effort, stride_x, stride_y),
        header_text({} if extra_header is None else extra_header, "extra_header"),
        check_payloads,
        writing(overwrite, sync, 64, True),
    )


def read_package_metadata(package_path):
    """Read the header of a pack."""
    return read_header(package_path)


def read_package_manifest(package_path):
    """Read ids, place and label of all tiles of a pack."""
    with TilePackageReader(package_path) as pack:
        return pack.records()


def iter_package_tiles(package_path):
    """Iterate over all tiles: record and image of Pillow."""
    with TilePackageReader(package_path) as pack:
        records = pack.records()
        for start in range(0, len(records), 16):
            rows = range(start, min(start + 16, len(records)))
            for row, tile in zip(rows, pack.read_arrays_at(rows)):
                yield records[row], _image(tile)


def _jxl(lossless, distance, effort):
    parameters = {"lossless": bool(lossless)}
    if distance is not None:
        parameters["distance"] = distance
    if effort is not None:
        parameters["effort"] = effort
    return Codec.create("jxl", **parameters)


def encode_jxl_array(arr, lossless, distance, effort):
    """Encode an image as JPEG XL."""
    return _jxl(lossless, distance, effort).encode(arr)


def encode_jxl(image_path, lossless, distance, effort):
    """Encode a picture as JPEG XL, 8-bit RGB."""
    import numpy

    with _pillow().open(image_path) as picture:
        pixels = numpy.asarray(picture.convert("RGB"))
    return encode_jxl_array(pixels, lossless, distance, effort)


def decode_jxl_array(payload):
    """Decode JPEG XL with the channels of a tile: one becomes three, a fourth is dropped."""
    return _rgb(Codec.create("jxl").decode(payload))


def decode_jxl(payload):
    """Decode JPEG XL as an RGB image of Pillow."""
    return _image(decode_jxl_array(payload))
