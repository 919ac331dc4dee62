"""Readers that open when they are first used, and again after a close."""

import functools
import os
import threading

from .._messages import told


def lazy(kind, rows=None):
    """Give a class the ways of the reference: opened on first use, pickled as its path."""

    def decorate(cls):
        def __init__(self, package_path):
            self._path = os.fspath(package_path)
            self._inner = None
            self._lock = threading.Lock()

        def __getstate__(self):
            return {"path": self._path}

        def __setstate__(self, state):
            self.__init__(state["path"])

        def _open(self):
            reader = self._inner
            if reader is None:
                with self._lock:
                    if self._inner is None:
                        self._inner = told(kind)(self._path)
                    reader = self._inner
            return reader

        def close(self):
            """Release the file."""
            with self._lock:
                reader, self._inner = self._inner, None
            if reader is not None:
                reader.close()

        for method in (__init__, __getstate__, __setstate__, _open):
            setattr(cls, method.__name__, method)
        for name, method in list(cls.__dict__.items()):
            if not name.startswith("_") and callable(method):
                setattr(cls, name, told(method, rows))
        cls.close = close
        cls._reader = property(lambda self: self._open().reader)
        return cls

    return decorate


def forward(*names):
    """Properties and methods that are those of the reader inside."""

    def decorate(cls):
        for name in names:
            setattr(cls, name, property(functools.partial(_get, name), doc=f"See ``{name}``."))
        return cls

    return decorate


def _get(name, self):
    return told(getattr)(self._open(), name)
