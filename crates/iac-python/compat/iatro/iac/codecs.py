"""Codecs."""

from abc import ABCMeta

import iatrocache

from ._native import CLASSES, _Native


class Codec(metaclass=ABCMeta):
    """Base of codecs written in Python, and the way to those that are built in."""

    NONE = "none"
    BROTLI = "brotli"
    ZSTD = "zstd"
    JXL = "jxl"
    JPEG = "jpeg"
    JPEG2000 = "jpeg2000"
    JPEGLS = "jpegls"

    name = ""

    def encode(self, obj):
        """Encode one record."""
        raise NotImplementedError

    def decode(self, payload):
        """Decode one record."""
        raise NotImplementedError

    def encode_many(self, objects):
        """Encode records."""
        return [self.encode(obj) for obj in objects]

    def decode_many(self, payloads):
        """Decode records."""
        return [self.decode(payload) for payload in payloads]

    def parameters(self):
        """The parameters as they go to the header."""
        return {}

    @classmethod
    def create(cls, name, /, **params):
        """Make a codec by its name."""
        kind = CLASSES.get(name)
        return kind(name, params) if kind else iatrocache.Codec.create(name, **params)

    @classmethod
    def register(cls, name, factory, *, replace=False):
        """Register a codec of one's own."""
        iatrocache.Codec.register(name, factory, replace=replace)


# Those that are built in are codecs, too.
ABCMeta.register(Codec, _Native)
