"""Manifests of image tiles: CSV files that say which picture is which tile."""

from dataclasses import dataclass
from pathlib import Path

from . import _native

__all__ = ["TileRecord", "read_tile_manifest", "write_tile_manifest"]

_COLUMNS = ("tile_id", "patient_id", "slide_id", "tile_path", "x", "y", "split")


@dataclass(frozen=True)
class TileRecord:
    """One tile: its ids, its picture, its place in the slide in pixels, and a label."""

    tile_id: str
    patient_id: str
    slide_id: str
    tile_path: Path
    x: int
    y: int
    split: str


def _parts(record):
    """A record as the native module takes it."""
    return (
        record.tile_id,
        record.patient_id,
        record.slide_id,
        record.tile_path,
        record.x,
        record.y,
        record.split,
    )


def _record(parts):
    tile_id, patient_id, slide_id, tile_path, x, y, split = parts
    return TileRecord(tile_id, patient_id, slide_id, Path(tile_path), x, y, split)


def read_tile_manifest(path):
    """Read the records of a manifest."""
    return [_record(parts) for parts in _native.read_tile_manifest(path)]


def write_tile_manifest(path, rows):
    """Write a manifest from dicts; keys that are absent give empty fields, others are an error.

    Folders are made where they are missing, and an existing file is replaced.
    """
    import csv
    import os

    text = []
    for number, row in enumerate(rows):
        unknown = [key for key in row if key not in _COLUMNS]
        if unknown:
            raise ValueError(f"row {number} of the manifest has fields that it cannot: {unknown}")
        text.append(row)
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, _COLUMNS, restval="", lineterminator="\r\n")
            writer.writeheader()
            writer.writerows(text)
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
