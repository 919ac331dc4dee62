from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .core import _Path

@dataclass(frozen=True)
class TileRecord:
    tile_id: str
    patient_id: str
    slide_id: str
    tile_path: Path
    x: int
    y: int
    split: str

def read_tile_manifest(path: _Path) -> list[TileRecord]: ...
def write_tile_manifest(path: _Path, rows: Iterable[dict[str, Any]]) -> None: ...
