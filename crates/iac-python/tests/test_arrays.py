"""Stores of arrays."""

import os
import pickle

import numpy
import pytest

from iatrocache.arrays import ArrayStore


@pytest.fixture
def store(tmp_path):
    store = ArrayStore.create(tmp_path / "store")
    store.define("a", "float32", (20, 30), chunks=(8, 8), dims=("y", "x"), fill=-1.0)
    return store


@pytest.fixture
def values():
    return numpy.arange(600, dtype="float32").reshape(20, 30)


KEYS = [
    ...,
    3,
    -1,
    (2, 5),
    (slice(2, 9), 4),
    (slice(None, None, 3), slice(5, 25, 7)),
    (slice(None, None, -1), slice(20, 3, -4)),
    (..., 7),
    slice(5, 5),
    slice(100, 200),
    (slice(-4, None), slice(None, -20)),
]


@pytest.mark.parametrize("key", KEYS, ids=repr)
def test_slices_are_those_of_numpy(store, values, key):
    store["a"][...] = values
    assert numpy.array_equal(store["a"][key], values[key])
    store.flush()
    found = store["a"][key]
    assert numpy.array_equal(found, values[key]) and found.shape == values[key].shape
    assert found.dtype == values.dtype


def test_what_was_never_written_is_the_fill(store):
    store["a"][2:4, 3:5] = numpy.ones((2, 2))
    store["a"][0] = 5
    found = store["a"][...]
    assert found[2:4, 3:5].sum() == 4 and (found[0] == 5).all()
    assert found[1, 0] == -1
    assert store["a"].shape == (20, 30) and store["a"].dims == ("y", "x")


@pytest.mark.parametrize("key", [(0, 0, 0), (..., ...), 20, -21])
def test_keys_that_do_not_fit_are_index_errors(store, key):
    with pytest.raises(IndexError):
        store["a"][key]


def test_keys_of_other_types_are_type_errors(store):
    for key in (1.5, "x", None, [1, 2]):
        with pytest.raises(TypeError):
            store["a"][key]


@pytest.mark.parametrize(
    "kind", ["bool", "int8", "uint64", "float16", "float64", "complex64", "datetime64[ms]"]
)
def test_types_of_numpy_are_kept(store, kind):
    values = numpy.arange(6).reshape(2, 3).astype("int64").astype(kind)
    store.define("b", kind, (2, 3))[...] = values
    store.flush()
    found = store["b"][...]
    assert found.dtype == values.dtype and numpy.array_equal(found, values)


def test_texts_and_bytes_are_lists_of_objects(store):
    store.define("t", str, (3,))[...] = ["a", "é", ""]
    store.define("b", bytes, (2,))[...] = [b"", b"\0\1"]
    store.flush()
    assert store["t"][...].tolist() == ["a", "é", ""]
    assert store["b"][1] == b"\0\1"


def test_versions_are_pinned_and_changes_published_together(store, tmp_path, values):
    store["a"][...] = values
    first = store.flush()
    pinned = store.at()
    store["a"][0, 0] = 99
    assert ArrayStore(tmp_path / "store")["a"][0, 0] == 0
    store.flush()
    assert pinned["a"][0, 0] == 0 and store["a"][0, 0] == 99
    assert store.at(first)["a"][0, 0] == 0
    assert ArrayStore(tmp_path / "store")["a"][0, 0] == 99
    with pytest.raises(RuntimeError):
        pinned["a"][0, 0] = 1
    store.close()
    with pytest.raises(RuntimeError):
        store["a"]


def test_attributes_come_back(store):
    given = {"i": 5, "f": 0.5, "t": "x", "b": True, "l": [1, 2], "n": ["a"], "y": b"z"}
    for key, value in given.items():
        store["a"].set_attr(key, value)
    store.flush()
    assert store["a"].attrs == given
    assert "a" in store and list(store) == ["a"]
    with pytest.raises(KeyError):
        store["nothing"]


def test_arrays_grow(store):
    store.define("g", "int32", (0, 3))
    store["g"].append(numpy.ones((4, 3), "int32"))
    store["g"].append(numpy.zeros((1, 3), "int32"))
    assert store["g"].shape == (5, 3) and len(store["g"]) == 5
    assert store["g"][...].sum() == 12


def test_stores_are_pickled_and_forked(store, values):
    store["a"][...] = values
    with pytest.raises(RuntimeError):
        pickle.dumps(store)
    store.flush()
    assert numpy.array_equal(pickle.loads(pickle.dumps(store))["a"][...], values)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(write, b"y" if numpy.array_equal(store["a"][...], values) else b"n")
        finally:
            os._exit(0)
    os.close(write)
    assert os.read(read, 1) == b"y"
    os.waitpid(child, 0)
    os.close(read)
