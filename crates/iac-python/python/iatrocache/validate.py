"""Validation of packs by the rules of their payload types."""

import sys

from . import _native

__all__ = ["find_packages", "main", "validate_package"]


def validate_package(package_path, max_decode=8, max_crc=0):
    """Validate a pack and tell what was checked; an exception says what is wrong.

    At most ``max_decode`` records are decoded and ``max_crc`` compared with their checksums; 0
    means all.
    """
    return _native.validate(package_path, max_decode, max_crc)


def find_packages(path):
    """The packs under a folder, sorted, or the file itself."""
    return _native.find_packs(path)


def main():
    """``iac validate`` with the arguments of this process."""
    sys.exit(_native.run_command(["iac", "validate", *sys.argv[1:]]))


if __name__ == "__main__":
    main()
