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


def test_missing_elements_are_masked(store, tmp_path):
    dose = store.define("dose", "float32", (2, 3), nullable=True)
    assert dose.nullable and not store["a"].nullable
    assert dose[...].mask.all()
    dose[0] = numpy.ma.MaskedArray([1.5, 2.5, 3.5], mask=[False, True, False])
    dose[1, :2] = 4
    dose[1, 0] = numpy.ma.masked
    store.flush()
    dose = ArrayStore(tmp_path / "store")["dose"]
    assert dose[...].tolist() == [[1.5, None, 3.5], [None, 4.0, None]]
    assert dose[..., ::-2].tolist() == [[3.5, 1.5], [None, None]]
    assert dose[0, 1] is numpy.ma.masked and dose[0, 0] == 1.5
    assert not dose[0, ::2].mask.any() and dose[0, 0:0].mask.shape == (0,)
    assert numpy.asarray(dose[0, ::2]).tolist() == [1.5, 3.5]
    with pytest.raises(ValueError, match="missing"):
        numpy.asarray(dose)


def test_missing_texts_and_bytes_are_none_when_they_are_written(store):
    texts = store.define("t", str, (4,), nullable=True)
    texts[:3] = ["a", None, ""]
    values = store.define("b", bytes, (0,), nullable=True)
    values.append([None, b"\1\0", b""])
    values.append(numpy.ma.MaskedArray([b"x", b"y"], mask=[True, False]))
    store.flush()
    assert texts[...].tolist() == ["a", None, "", None]
    assert values[...].tolist() == [None, b"\1\0", b"", None, b"y"]
    assert texts[1] is numpy.ma.masked and texts[2] == ""


def test_none_among_numbers_is_missing_and_never_a_number(store):
    dose = store.define("dose", "float64", (3,), nullable=True)
    dose[...] = [1.5, None, float("nan")]
    assert dose[...].mask.tolist() == [False, True, False] and numpy.isnan(dose[2])
    times = store.define("time", "datetime64[ms]", (2,), nullable=True)
    times[...] = [numpy.datetime64("2020-01-01", "ms"), None]
    assert times[...].mask.tolist() == [False, True]
    big = store.define("big", "uint64", (2,), nullable=True)
    big[...] = [2**64 - 1, None]
    assert big[...].tolist() == [2**64 - 1, None]
    with pytest.raises(ValueError, match="nullable"):
        store["a"][0, :2] = [1.0, None]
    with pytest.raises(ValueError, match="fill"):
        store.define("f", "float32", (2,), fill=numpy.ma.masked, nullable=True)


def test_integers_are_not_led_through_floating_point(store):
    exact = store.define("exact", "int64", (2,))
    exact[...] = [2**62 + 1, -(2**62) - 1]
    assert exact[...].tolist() == [2**62 + 1, -(2**62) - 1]


def test_a_fill_value_is_what_a_nullable_array_begins_with(store):
    counts = store.define("n", "int16", (3,), fill=0, nullable=True)
    counts[1:2] = numpy.ma.masked
    assert counts[...].tolist() == [0, None, 0]


def test_missing_elements_are_refused_where_none_can_be(store):
    with pytest.raises(ValueError, match="nullable"):
        store["a"][0] = numpy.ma.masked
    with pytest.raises(ValueError, match="nullable"):
        store.define("t", str, (1,))[...] = [None]
    assert (store["a"][...] == -1).all()


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
