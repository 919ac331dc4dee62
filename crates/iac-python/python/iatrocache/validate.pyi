from pathlib import Path
from typing import Any

from .core import _Path

def validate_package(
    package_path: _Path, max_decode: int = 8, max_crc: int = 0
) -> dict[str, Any]: ...
def find_packages(path: _Path) -> list[Path]: ...
def main() -> None: ...
