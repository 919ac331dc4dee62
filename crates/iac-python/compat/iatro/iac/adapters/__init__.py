"""Schemas over the core."""

__all__ = []
