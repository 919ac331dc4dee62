"""Codecs, those of one's own too."""

import pickle

import numpy
import pytest
from conftest import empty, ids

from iatrocache import Codec, VariableRecordPack


class Reversed(Codec):
    name = "test.reversed"

    def __init__(self, parameters=None):
        self.given = dict(parameters or {})

    def encode(self, obj):
        return bytes(obj)[::-1]

    def decode(self, payload):
        return payload[::-1]

    def parameters(self):
        return self.given


Codec.register("test.reversed", Reversed, replace=True)


def build(path, codec, objects, **options):
    objects = list(objects)
    VariableRecordPack.build(
        path,
        payload_type="test",
        slide_table=empty(),
        index_table=ids(len(objects)),
        objects=objects,
        codec=codec,
        sync=False,
        **options,
    )


def test_defaults_are_those_of_the_specification():
    assert Codec.create("none").parameters() == {}
    assert Codec.create("brotli").parameters() == {"quality": 11, "lgwin": 24}
    assert Codec.create("zstd").parameters() == {"level": 19}
    assert Codec.create("jxl").parameters() == {
        "lossless": False,
        "distance": 1.0,
        "effort": 7,
        "usecontainer": None,
    }
    assert Codec.create("jpeg").parameters() == {
        "quality": 90,
        "lossless": False,
        "progressive": False,
        "subsampling": "420",
    }
    assert Codec.create("jpeg2000").parameters() == {
        "profile": "classic",
        "container": "j2k",
        "lossless": True,
    }
    assert Codec.create("jpegls").parameters() == {"near_lossless": 0, "bits_per_sample": None}


def test_names_and_parameters_are_checked():
    for kind, call in [
        (ValueError, lambda: Codec.create("nothing")),
        (TypeError, lambda: Codec.create(5)),
        (ValueError, lambda: Codec.create("jpeg", foo=1)),
        (ValueError, lambda: Codec.create("zstd", level=2**40)),
        (ValueError, lambda: Codec.register("zstd", Reversed)),
        (ValueError, lambda: Codec.register("", Reversed)),
        (TypeError, lambda: Codec.register(5, Reversed)),
        (TypeError, lambda: Codec.register("test.none", 5)),
        (ValueError, lambda: Codec.register("test.reversed", Reversed)),
    ]:
        with pytest.raises(kind):
            call()


def test_damaged_payloads_have_the_exception_of_the_specification():
    for name, kind in [("zstd", OSError), ("brotli", OSError), ("jxl", ValueError), ("jpeg", ValueError), ("jpeg2000", ValueError), ("jpegls", ValueError)]:
        codec = Codec.create(name)
        for payload in (b"", b"junk" * 20):
            with pytest.raises(kind):
                codec.decode(payload)
        with pytest.raises(TypeError):
            codec.decode("text")


def test_images_that_no_codec_takes_are_value_errors():
    codec = Codec.create("jxl")
    for image in (
        numpy.zeros((4, 4), "int32"),
        numpy.zeros(4, "uint8"),
        numpy.zeros((0, 4), "uint8"),
        numpy.zeros((4, 4, 7), "uint8"),
        b"x",
        [[1]],
    ):
        with pytest.raises(ValueError):
            codec.encode(image)


def test_many_are_decoded_in_order_on_any_number_of_threads():
    zstd = Codec.create("zstd", level=3)
    records = [bytes([row]) * 1000 for row in range(30)]
    payloads = zstd.encode_many(records)
    for workers in (None, 1, 2, 50):
        assert zstd.decode_many(payloads, workers) == records
    jxl = Codec.create("jxl", lossless=True, effort=2)
    images = [numpy.full((8, 8), row, "uint8") for row in range(6)]
    found = jxl.decode_many(jxl.encode_many(images), 2)
    assert all(numpy.array_equal(a, b) for a, b in zip(found, images))
    assert pickle.loads(pickle.dumps(zstd)).parameters() == {"level": 3}


def test_codec_of_ones_own_reads_and_writes(tmp_path):
    path = tmp_path / "a.iac"
    records = [b"abc", b"", b"xyz"]
    build(path, Reversed({"a": 1}), records)
    with VariableRecordPack(path) as pack:
        assert pack.header["codec"] == "test.reversed"
        assert pack.header["codec_params"] == {"a": 1}
        assert pack.codec.given == {"a": 1}
        assert pack.read_bytes(0) == b"cba"
        assert pack.read_many([2, 0]) == [b"xyz", b"abc"]
        assert pack.read_many([2, 0, 1], workers=3) == [b"xyz", b"abc", b""]
        assert bytes(pack.read_many_contiguous([0, 2]).buffer) == b"abcxyz"


def test_what_a_codec_raises_comes_through(tmp_path):
    class Broken(Reversed):
        def encode(self, obj):
            if obj == b"bad":
                raise LookupError("cannot")
            return obj

        def decode(self, payload):
            raise ZeroDivisionError("no")

    path = tmp_path / "a.iac"
    with pytest.raises(LookupError, match="cannot"):
        build(path, Broken(), [b"good", b"bad"])
    assert not path.exists()

    class NoBytes(Reversed):
        def encode(self, obj):
            return "text"

    with pytest.raises(TypeError):
        build(path, NoBytes(), [b"x"])

    class NotANumber(Reversed):
        def parameters(self):
            return {"a": float("nan")}

    with pytest.raises(ValueError):
        build(path, NotANumber(), [b"x"])
    assert list(tmp_path.iterdir()) == []
    Codec.register("test.broken", lambda parameters: Broken(), replace=True)
    Broken.name = "test.broken"
    build(path, Broken(), [b"good"])
    pack = VariableRecordPack(path)
    for workers in (None, 2):
        with pytest.raises(ZeroDivisionError):
            pack.read_many([0, 0], workers)


def test_factories_are_checked():
    Codec.register("test.object", lambda parameters: object(), replace=True)
    with pytest.raises(TypeError):
        Codec.create("test.object")
    Codec.register("test.other", lambda parameters: Reversed(), replace=True)
    with pytest.raises(ValueError):
        Codec.create("test.other")


def test_unknown_codec_leaves_stored_bytes_readable(tmp_path):
    path = tmp_path / "a.iac"
    VariableRecordPack.build_from_payloads(
        path,
        payload_type="x",
        slide_table=empty(),
        index_table=ids(1),
        payloads=[b"abc"],
        codec_name="test.unknown",
        sync=False,
    )
    pack = VariableRecordPack(path)
    assert pack.read_bytes(0) == b"abc"
    with pytest.raises(ValueError):
        pack.read(0)
