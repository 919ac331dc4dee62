"""Stores of n-dimensional arrays with versions, sliced as NumPy arrays are."""

import operator
import os

from . import _native

__all__ = ["Array", "ArrayStore"]


class ArrayStore:
    """A store of arrays in a folder or an object store.

    Changes are collected and published together by :meth:`flush`; readers pin a version by
    :meth:`at` and never see it change::

        with ArrayStore.create("embeddings") as store:
            store.define("slide", "float32", (1000, 768))
            store["slide"][0:10] = numpy.ones((10, 768), "float32")
            store.flush()
        ArrayStore("embeddings")["slide"][::100, :16]
    """

    __slots__ = ("_options", "_path", "_pid", "_store", "_version", "__weakref__")

    def __init__(self, path, *, codec="zstd", level=3, version=None, _create=False):
        self._path = os.fspath(path)
        self._options = {"codec": codec, "level": level}
        self._version = version
        self._pid = os.getpid()
        store = _native.Store(self._path, _create, codec, level)
        self._store = store if version is None else store.at(version)

    @classmethod
    def create(cls, path, *, codec="zstd", level=3):
        """Make a store."""
        return cls(path, codec=codec, level=level, _create=True)

    def __reduce__(self):
        if self._store is not None and self.pending_bytes:
            raise RuntimeError("a store with changes that were not published cannot be pickled")
        return (_reopen, (type(self), self._path, self._options, self._version))

    def _native(self):
        if self._store is None:
            raise RuntimeError("the store is closed")
        if self._pid != os.getpid():
            # Threads do not survive a fork; what was published does.
            self.__init__(self._path, version=self._version, **self._options)
        return self._store

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    def __repr__(self):
        return f"<ArrayStore {self._path!r}>"

    def close(self):
        """Release the store; changes that were not published are dropped."""
        if self._store is not None:
            self._store.close()
            self._store = None

    @property
    def version(self):
        """The version that is read."""
        return self._native().version

    @property
    def pending_bytes(self):
        """Bytes of changes that were not published yet."""
        return self._native().pending_bytes

    def history(self):
        """The versions that can be opened."""
        return self._native().history()

    def at(self, version=None):
        """A version that never changes; the current one unless another is named."""
        pinned = object.__new__(type(self))
        pinned._path, pinned._options, pinned._pid = self._path, self._options, os.getpid()
        pinned._store = self._native().at(version)
        pinned._version = pinned._store.version
        return pinned

    def refresh(self):
        """Go to the newest version."""
        return self._native().refresh()

    def flush(self):
        """Publish the changes and give the version."""
        return self._native().flush()

    def discard(self):
        """Drop the changes."""
        self._native().discard()

    def compact(self, everything=False):
        """Join layers, so that fewer files are read."""
        return self._native().compact(everything)

    def __iter__(self):
        return iter(self.names())

    def __contains__(self, name):
        return name in self.names()

    def __len__(self):
        return len(self.names())

    def names(self):
        """Names of arrays and groups."""
        return self._native().names()

    def __getitem__(self, name):
        return Array(self, name)

    def __delitem__(self, name):
        self._native().delete(name)

    def define(self, name, dtype, shape, *, chunks=None, dims=None, fill=None, nullable=False):
        """Define an array; ``fill`` is the value of elements that were never written.

        Elements of a ``nullable`` array can be missing: it is read as a masked array of NumPy, and
        takes masked arrays, and lists with ``None`` in them. What was never written is missing,
        unless there is a fill value.
        """
        text = _type_text(dtype)
        if fill is not None:
            fill, _, there = _elements(fill, text)
            if there is not None:
                raise ValueError("a fill value cannot be missing")
        self._native().define(
            name, text, list(shape), _list(chunks), _list(dims), fill, bool(nullable)
        )
        return Array(self, name)

    def define_group(self, name):
        """Define a group: a name with attributes only."""
        self._native().define_group(name)


def _reopen(kind, path, options, version):
    return kind(path, version=version, **options)


def _list(values):
    return None if values is None else list(values)


def _type_text(dtype):
    """The name of a type of elements, as stores have it."""
    if isinstance(dtype, str) and (dtype in ("utf8", "binary", "bfloat16") or "[" in dtype):
        if not dtype.startswith(("datetime64", "timedelta64")):
            return dtype
    if dtype is str:
        return "utf8"
    if dtype is bytes:
        return "binary"
    import numpy

    dtype = numpy.dtype(dtype)
    if dtype.kind == "M":
        return f"timestamp[{numpy.datetime_data(dtype)[0]}]"
    return dtype.name


def _numpy_type(text):
    if text.startswith("timestamp["):
        return f"datetime64[{text[10:].split(']')[0].split(';')[0]}]"
    return "uint16" if text == "bfloat16" else text


def _parted(values, text):
    """Values as an array of the type, and where they are there (nothing when all are)."""
    import numpy

    is_text = text in ("utf8", "binary")
    kind = object if is_text else numpy.dtype(_numpy_type(text)).newbyteorder("<")
    gone = numpy.ma.getmask(values)
    if gone is not numpy.ma.nomask:
        values = values.data
    if is_text:
        # Not by way of NumPy's own texts and bytes, which lose zeros at the end.
        objects = numpy.array(values, dtype=object)
    elif getattr(values, "dtype", None) in (None, object):
        objects = numpy.asarray(values)
    else:
        objects = None
    if objects is not None and objects.dtype == object:
        none = numpy.array([value is None for value in objects.reshape(-1)], bool)
        gone = none.reshape(objects.shape) | gone
        if gone.any():
            values = objects.copy()
            values[gone] = {"utf8": "", "binary": b""}.get(text, 0)
        elif is_text:
            values = objects
    there = ~gone if numpy.any(gone) else None
    return numpy.asarray(values, dtype=kind), there


def _laid(values, there, text):
    """What is written: memory in one piece or a list, the shape, and where elements are there."""
    import numpy

    if there is not None:
        there = numpy.ascontiguousarray(there)
    if text in ("utf8", "binary"):
        return values.reshape(-1).tolist(), values.shape, there
    return numpy.ascontiguousarray(values), values.shape, there


def _elements(values, text):
    return _laid(*_parted(values, text), text)


class Array:
    """An array of a store: basic slicing reads and writes boxes of it."""

    __slots__ = ("_name", "_owner")

    def __init__(self, owner, name):
        self._owner, self._name = owner, name
        self._meta()

    def _meta(self):
        return self._owner._native().meta(self._name)

    def __repr__(self):
        meta = self._meta()
        return f"<Array {self._name!r} {meta['shape']} {meta['dtype']}>"

    @property
    def name(self):
        """Its name."""
        return self._name

    @property
    def shape(self):
        """Its shape."""
        return self._meta()["shape"]

    @property
    def ndim(self):
        """Number of axes."""
        return len(self.shape)

    @property
    def chunks(self):
        """The shape of its chunks."""
        return self._meta()["chunks"]

    @property
    def dims(self):
        """Names of its axes."""
        return self._meta()["dims"]

    @property
    def dtype(self):
        """The type of its elements: of NumPy, or ``object`` for texts and bytes."""
        import numpy

        text = self._meta()["dtype"]
        return numpy.dtype(object) if text in ("utf8", "binary") else numpy.dtype(_numpy_type(text))

    @property
    def nullable(self):
        """Whether elements can be missing, so that it is read as a masked array."""
        return self._meta()["nullable"]

    @property
    def attrs(self):
        """Its attributes: a dict; :meth:`set_attr` changes them."""
        return self._meta()["attrs"]

    def set_attr(self, key, value):
        """Set an attribute: a bool, number, text, bytes, or list of numbers or texts."""
        self._owner._native().set_attr(self._name, key, value)

    def remove_attr(self, key):
        """Remove an attribute."""
        self._owner._native().remove_attr(self._name, key)

    def resize(self, shape):
        """Change the shape; what falls outside is gone."""
        self._owner._native().resize(self._name, list(shape))

    def append(self, values, axis=0):
        """Write behind the end of an axis, which grows."""
        text = self._meta()["dtype"]
        elements, shape, there = _elements(values, text)
        self._owner._native().append(self._name, axis, text, list(shape), elements, there)

    def __len__(self):
        shape = self.shape
        if not shape:
            raise TypeError("an array without axes has no length")
        return shape[0]

    def __array__(self, dtype=None, copy=None):
        import numpy

        values = self[...]
        if numpy.ma.is_masked(values):
            raise ValueError(
                f"{self._name!r} has missing elements: take its masked array with [...]"
            )
        values = numpy.ma.getdata(values)
        return values if dtype is None else values.astype(dtype)

    def __getitem__(self, key):
        import numpy

        meta = self._meta()
        box = _Box(key, meta["shape"])
        mask = None
        if 0 in box.count:
            values = numpy.zeros(box.count, self.dtype)
        else:
            steps = None if all(step == 1 for step in box.step) else box.step
            elements, shape, text, mask = self._owner._native().read(
                self._name, box.start, box.count, steps
            )
            if isinstance(elements, list):
                values = numpy.empty(len(elements), object)
                values[:] = elements
                values = values.reshape(shape)
            else:
                values = numpy.frombuffer(elements, _numpy_type(text)).reshape(shape)
        if meta["nullable"]:
            gone = numpy.zeros(values.shape, bool)
            if mask is not None:
                gone = ~numpy.frombuffer(mask, bool).reshape(values.shape)
            values = numpy.ma.MaskedArray(values, mask=gone)
        return values[box.after]

    def __setitem__(self, key, values):
        import numpy

        meta = self._meta()
        box = _Box(key, meta["shape"])
        if any(step != 1 for step in box.step) or box.flipped:
            raise NotImplementedError("boxes with steps cannot be written; write each part")
        text = meta["dtype"]
        kept = [count for count, gone in zip(box.count, box.gone) if not gone]
        values, there = _parted(values, text)
        values = numpy.broadcast_to(values, kept).reshape(box.count)
        if there is not None:
            there = numpy.broadcast_to(there, kept).reshape(box.count)
        if values.size == 0:
            return
        elements, shape, there = _laid(values, there, text)
        self._owner._native().write(self._name, box.start, text, list(shape), elements, there)


class _Box:
    """What an index with integers, slices and an ellipsis chooses, with steps above 0."""

    def __init__(self, key, shape):
        key = key if isinstance(key, tuple) else (key,)
        if sum(part is Ellipsis for part in key) > 1:
            raise IndexError("an index can have one ellipsis only")
        given = sum(part is not Ellipsis for part in key)
        if given > len(shape):
            raise IndexError(f"{given} indices for an array of {len(shape)} axes")
        if not any(part is Ellipsis for part in key):
            key = (*key, Ellipsis)
        at = next(place for place, part in enumerate(key) if part is Ellipsis)
        key = (*key[:at], *[slice(None)] * (len(shape) - given), *key[at + 1 :])
        self.start, self.count, self.step = [], [], []
        self.gone, after, self.flipped = [], [], False
        for part, length in zip(key, shape):
            if isinstance(part, slice):
                start, stop, step = part.indices(length)
                count = len(range(start, stop, step))
                if step < 0:
                    start, step = start + (count - 1) * step, -step
                    after.append(slice(None, None, -1))
                    self.flipped = self.flipped or count > 1
                else:
                    after.append(slice(None))
                self.gone.append(False)
            else:
                try:
                    start = operator.index(part)
                except TypeError:
                    raise TypeError(
                        f"an index must be made of integers and slices, not {type(part).__name__}"
                    ) from None
                if start < 0:
                    start += length
                if not 0 <= start < length:
                    raise IndexError(f"index {part} is out of range of {length}")
                count, step = 1, 1
                after.append(0)
                self.gone.append(True)
            self.start.append(start if count else 0)
            self.count.append(count)
            self.step.append(step)
        self.after = tuple(after)
