"""Packs of teacher features (``teacher_features``): one vector for each tile."""

from . import _native
from ._adapter import AdapterReader
from ._support import array, out_array, writing
from .manifests import _parts, _record
from .tiles import TilePackageReader

__all__ = [
    "FeatureCacheReader",
    "build_teacher_feature_package",
    "build_teacher_feature_package_from_feature_map",
    "build_teacher_feature_package_from_tile_package",
    "read_feature_package_records",
]


class FeatureCacheReader(AdapterReader):
    """Reads vectors by row or by id, as ``float32``. Rows do not count from the end."""

    __slots__ = ("_dim", "_native")

    def _begin(self):
        self._native = _native.Features(self._pack)
        self._dim = self._native.dim

    def _features(self):
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

    record_table = index_table

    @property
    def record_count(self):
        """Number of vectors."""
        return self._features().record_count

    @property
    def dim(self):
        """Elements of a vector."""
        return self._dim

    @property
    def teacher(self):
        """Name of the model that made the vectors."""
        return self._features().teacher

    def tile_id_at(self, row):
        """The id of a row's tile."""
        return self._features().tile_id(row)

    def row_of(self, tile_id):
        """The row of an id."""
        return self._features().row_of(tile_id)

    def records(self):
        """Ids and places of all tiles."""
        return [_record(parts) for parts in self._features().records()]

    def read_feature_at(self, row):
        """Read a vector."""
        return array((self._features().read_one(row), (self._dim,), "float32"))

    def read_feature(self, tile_id):
        """Read the vector of an id."""
        return self.read_feature_at(self.row_of(tile_id))

    def read_features_at(self, rows, *, out=None):
        """Read vectors: an array of shape (rows, dim), or the caller's memory."""
        native = self._features()
        if self._dim == 0:
            raise ValueError("vectors without elements make no matrix")
        rows = rows if hasattr(rows, "__len__") else list(rows)
        shape = (len(rows), self._dim)
        if out is None:
            import numpy

            target = out = numpy.empty(shape, "float32")
        else:
            target = out_array(out, shape, "float32")
        native.read_into(rows, target)
        return out


def _vectors(features):
    import numpy

    for vector in features:
        vector = numpy.asarray(vector)
        if vector.ndim != 1:
            raise ValueError(f"a teacher feature must have 1 dimension, not {vector.ndim}")
        if vector.dtype.kind not in "biuf":
            raise ValueError(f"a teacher feature of type {vector.dtype} cannot be stored")
        vector = numpy.ascontiguousarray(vector, vector.dtype.newbyteorder("<"))
        yield vector.dtype.name, vector


def _type_name(dtype):
    import numpy

    if dtype == "bfloat16":
        return dtype
    return numpy.dtype(dtype).name


def build_teacher_feature_package(
    records,
    features,
    output_path,
    teacher_name="",
    dtype="float32",
    feature_dim=None,
    tile_width=None,
    tile_height=None,
    stride_x=None,
    stride_y=None,
    overwrite=False,
    *,
    keep_split=False,
    sync=True,
):
    """Write a pack of vectors, in the order of the records; an iterable is used once.

    Gives the number of elements that are not finite.
    """
    records = list(records)
    if not records:
        raise ValueError("records are empty")
    return _native.build_features(
        [_parts(record) for record in records],
        _vectors(features),
        output_path,
        teacher_name,
        _type_name(dtype),
        feature_dim,
        (tile_width, tile_height),
        (stride_x, stride_y),
        keep_split,
        writing(overwrite, sync, 64, True),
    )


def build_teacher_feature_package_from_feature_map(
    records,
    feature_by_tile_id,
    output_path,
    teacher_name="",
    dtype="float32",
    tile_width=None,
    tile_height=None,
    stride_x=None,
    stride_y=None,
    overwrite=False,
    **options,
):
    """Write a pack of vectors that are found by the ids of the records."""
    records = list(records)

    def vectors():
        for record in records:
            if record.tile_id not in feature_by_tile_id:
                raise FileNotFoundError(f"missing teacher feature: {record.tile_id}")
            yield feature_by_tile_id[record.tile_id]

    return build_teacher_feature_package(
        records,
        vectors(),
        output_path,
        teacher_name,
        dtype,
        None,
        tile_width,
        tile_height,
        stride_x,
        stride_y,
        overwrite,
        **options,
    )


def build_teacher_feature_package_from_tile_package(
    tile_package_path,
    features,
    output_path,
    teacher_name="",
    dtype="float32",
    feature_dim=None,
    overwrite=False,
    **options,
):
    """Write a pack of vectors for the tiles of a pack, whose sizes and strides are taken over."""
    with TilePackageReader(tile_package_path) as tiles:
        records, header = tiles.records(), tiles.header
    return build_teacher_feature_package(
        records,
        features,
        output_path,
        teacher_name,
        dtype,
        feature_dim,
        header.get("tile_width"),
        header.get("tile_height"),
        header.get("stride_x"),
        header.get("stride_y"),
        overwrite,
        **options,
    )


def read_feature_package_records(package_path):
    """Read ids and places of all tiles of a pack."""
    with FeatureCacheReader(package_path) as pack:
        return pack.records()
