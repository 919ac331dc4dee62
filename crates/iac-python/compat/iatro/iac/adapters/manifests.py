"""Manifests of tiles."""

from iatrocache.manifests import TileRecord, read_tile_manifest, write_tile_manifest

__all__ = ["TileRecord", "read_tile_manifest", "write_tile_manifest"]
