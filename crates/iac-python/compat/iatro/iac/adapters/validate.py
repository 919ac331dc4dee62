"""Validation."""

from iatrocache.validate import main, validate_package

__all__ = ["main", "validate_package"]

if __name__ == "__main__":
    main()
