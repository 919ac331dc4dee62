"""Codecs: what turns a record into stored bytes and back."""

from . import _native
from ._support import array, check_workers, image_parts

__all__ = ["Codec"]

_BUILT_IN = ("none", "brotli", "zstd", "lz4", "jxl", "jpeg", "jpeg2000", "jpegls")
_registered = {}


class Codec:
    """Base of codecs written in Python, and the way to those that are built in.

    A codec of one's own has a ``name``, ``encode`` (object to ``bytes``), ``decode`` (``bytes`` to
    object) and, where it has any, ``parameters`` (a dict that JSON has a form for). Packs that name
    it are decoded in every process that registered it::

        class Reversed(Codec):
            name = "example.reversed"

            def encode(self, obj):
                return bytes(obj)[::-1]

            def decode(self, payload):
                return payload[::-1]

        Codec.register("example.reversed", lambda parameters: Reversed())
    """

    NONE = "none"
    BROTLI = "brotli"
    ZSTD = "zstd"
    LZ4 = "lz4"
    JXL = "jxl"
    JPEG = "jpeg"
    JPEG2000 = "jpeg2000"
    JPEGLS = "jpegls"

    name = ""

    def encode(self, obj):
        """Encode one record."""
        raise NotImplementedError(f"{type(self).__name__} cannot encode")

    def decode(self, payload):
        """Decode one record."""
        raise NotImplementedError(f"{type(self).__name__} cannot decode")

    def encode_many(self, objects):
        """Encode records in order."""
        return [self.encode(obj) for obj in objects]

    def decode_many(self, payloads):
        """Decode records in order."""
        return [self.decode(payload) for payload in payloads]

    def parameters(self):
        """The parameters that go to the header as ``codec_params``."""
        return {}

    @classmethod
    def create(cls, name, /, **params):
        """Make a codec by its name."""
        if not isinstance(name, str):
            raise TypeError(f"a codec's name must be str, not {type(name).__name__}")
        if name in _BUILT_IN:
            return BuiltInCodec(name, params)
        factory = _registered.get(name)
        if factory is None:
            raise ValueError(f"codec {name!r} is not known (it is neither built in nor registered)")
        codec = factory(dict(params))
        if not all(callable(getattr(codec, part, None)) for part in ("encode", "decode")):
            raise TypeError(f"the factory of codec {name!r} made {type(codec).__name__}, no codec")
        if codec.name != name:
            raise ValueError(f"the factory of codec {name!r} made a codec named {codec.name!r}")
        return codec

    @classmethod
    def register(cls, name, factory, *, replace=False):
        """Register a factory (a dict of parameters to a codec) under a name of one's own."""
        if not isinstance(name, str):
            raise TypeError(f"a codec's name must be str, not {type(name).__name__}")
        if not name:
            raise ValueError("a codec's name must not be empty")
        if name in _BUILT_IN:
            raise ValueError(f"codec {name!r} is built in and cannot be replaced")
        if not callable(factory):
            raise TypeError("the factory of a codec must be callable")
        if name in _registered and not replace:
            raise ValueError(f"codec {name!r} is registered already")
        _registered[name] = factory


class BuiltInCodec(Codec):
    """A codec of the format. Records are ``bytes``, or images as NumPy arrays."""

    __slots__ = ("_codec", "_params", "is_image", "name")

    def __init__(self, name, params):
        import json

        self._codec = _native.NativeCodec(name, json.dumps(params))
        self._params = params
        self.name = name
        #: Whether records are images.
        self.is_image = self._codec.is_image

    def __reduce__(self):
        return (BuiltInCodec, (self.name, self._params))

    def __repr__(self):
        return repr(self._codec)

    def parameters(self):
        """The parameters that go to the header as ``codec_params``."""
        import json

        return json.loads(self._codec.parameters_text)

    def encode(self, obj):
        """Encode one record: memory in one piece, or an image of 2 or 3 dimensions."""
        if self.is_image:
            return self._codec.encode_image(*image_parts(obj))
        return self._codec.encode(obj)

    def decode(self, payload, *, scale=1):
        """Decode one record; images also at 1/2, 1/4, ... of their size."""
        if self.is_image:
            return array(self._codec.decode_image(payload, scale))
        return self._codec.decode(payload)

    def decode_many(self, payloads, workers=None, *, scale=1):
        """Decode records on several threads, in order."""
        payloads, workers = list(payloads), check_workers(workers)
        if self.is_image:
            return [array(parts) for parts in self._codec.decode_images(payloads, workers, scale)]
        return self._codec.decode_many(payloads, workers)
