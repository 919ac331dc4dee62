"""Packs of teacher features."""

import functools

from iatrocache import features as _features
from iatrocache.features import read_feature_package_records

from ._lazy import forward, lazy
from .manifests import TileRecord


@forward("record_count", "record_table", "header")
@lazy(_features.FeatureCacheReader, "feature row out of range")
class FeatureCacheReader:
    """Reads vectors."""

    def tile_id_at(self, row):
        """The id of a row's tile."""
        return self._open().tile_id_at(row)

    def read_feature(self, tile_id):
        """Read the vector of an id."""
        return self._open().read_feature(tile_id)

    def read_feature_at(self, row):
        """Read a vector."""
        return self._open().read_feature_at(row)

    def read_features_at(self, rows):
        """Read vectors."""
        return self._open().read_features_at([int(row) for row in rows])


def _without_sync(build):
    @functools.wraps(build)
    def call(*arguments, **options):
        build(*arguments, sync=False, **options)

    return call


build_teacher_feature_package = _without_sync(_features.build_teacher_feature_package)
build_teacher_feature_package_from_feature_map = _without_sync(
    _features.build_teacher_feature_package_from_feature_map
)
build_teacher_feature_package_from_tile_package = _without_sync(
    _features.build_teacher_feature_package_from_tile_package
)

__all__ = [
    "FeatureCacheReader",
    "TileRecord",
    "build_teacher_feature_package",
    "build_teacher_feature_package_from_feature_map",
    "build_teacher_feature_package_from_tile_package",
    "read_feature_package_records",
]
