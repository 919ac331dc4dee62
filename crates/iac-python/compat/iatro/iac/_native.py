"""The classes that codecs have in the reference."""

from iatrocache.codecs import BuiltInCodec


class _Native:
    """A codec that is built in."""

    def __init__(self, name, params):
        self._codec = BuiltInCodec(name, params)
        self.name = name
        self._params = params

    def __reduce__(self):
        return (type(self), (self.name, self._params))

    def __repr__(self):
        return f"{type(self).__name__}({self.name!r}, {self.parameters()!r})"

    def parameters(self):
        """The parameters as they go to the header."""
        return self._codec.parameters()

    def encode(self, obj):
        """Encode one record."""
        return self._codec.encode(obj)

    def encode_many(self, objects):
        """Encode records."""
        return self._codec.encode_many(objects)

    def decode(self, payload):
        """Decode one record."""
        return self._codec.decode(payload)

    def decode_many(self, payloads, workers=None):
        """Decode records."""
        if self._codec.is_image and workers is not None and workers > 1:
            raise ValueError("parallel batch decode is not supported for images here")
        return self._codec.decode_many(payloads, workers)


class NativeByteCodec(_Native):
    """``none``, ``brotli`` and ``zstd``."""

    @property
    def level(self):
        """Of ``zstd``."""
        return self.parameters().get("level")

    @property
    def quality(self):
        """Of ``brotli``."""
        return self.parameters().get("quality")

    @property
    def lgwin(self):
        """Of ``brotli``."""
        return self.parameters().get("lgwin")


class NativeJxlCodec(_Native):
    """``jxl``."""


class NativeJpegCodec(_Native):
    """``jpeg``."""


class NativeJpeg2000Codec(_Native):
    """``jpeg2000``."""


class NativeJpegLsCodec(_Native):
    """``jpegls``."""


CLASSES = {
    "none": NativeByteCodec,
    "brotli": NativeByteCodec,
    "zstd": NativeByteCodec,
    "lz4": NativeByteCodec,
    "jxl": NativeJxlCodec,
    "jpeg": NativeJpegCodec,
    "jpeg2000": NativeJpeg2000Codec,
    "jpegls": NativeJpegLsCodec,
}
