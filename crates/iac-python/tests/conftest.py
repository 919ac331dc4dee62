"""What tests have in common."""

import os
from pathlib import Path

import numpy
import pyarrow
import pytest

import iatrocache

#: Golden fixtures, where they are at hand; tests that need them say that they were not run.
FIXTURES = os.environ.get("IAC_FIXTURES")


@pytest.fixture
def fixtures():
    if not FIXTURES:
        pytest.skip("IAC_FIXTURES is not set")
    return Path(FIXTURES)


def ids(count):
    """An index table of so many rows."""
    return pyarrow.table({"id": [f"r{row}" for row in range(count)]})


def empty():
    """A slide table without columns and rows."""
    return pyarrow.table({})


@pytest.fixture
def payloads():
    return [b"one", b"", b"three", bytes(range(256)) * 5]


@pytest.fixture
def pack(tmp_path, payloads):
    """A variable pack without a codec."""
    path = tmp_path / "notes.iac"
    header = {"payload_type": "notes", "who": "é"}
    iatrocache.build_pack(path, header, empty(), ids(len(payloads)), payloads, sync=False)
    return path


@pytest.fixture
def pixels():
    """Images of one shape."""
    generator = numpy.random.default_rng(5)
    return [generator.integers(0, 256, (16, 24, 3), "uint8") for _ in range(9)]


@pytest.fixture
def images(tmp_path, pixels):
    """A pack of lossless JPEG XL."""
    path = tmp_path / "images.iac"
    iatrocache.VariableRecordPack.build(
        path,
        payload_type="pictures",
        slide_table=empty(),
        index_table=ids(len(pixels)),
        objects=iter(pixels),
        codec=iatrocache.Codec.create("jxl", lossless=True, effort=3),
        sync=False,
    )
    return path
