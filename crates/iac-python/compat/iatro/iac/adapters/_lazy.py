"""Readers that open when they are first used, and again after a close."""

import functools
import os
import threading


def lazy(kind):
    """Give a class the ways of the reference: opened on first use, pickled as its path."""

    def decorate(cls):
        def __init__(self, package_path):
            self._path = os.fspath(package_path)
            self._reader = None
            self._lock = threading.Lock()

        def __getstate__(self):
            return {"path": self._path}

        def __setstate__(self, state):
            self.__init__(state["path"])

        def _open(self):
            reader = self._reader
            if reader is None:
                with self._lock:
                    if self._reader is None:
                        self._reader = kind(self._path)
                    reader = self._reader
            return reader

        def close(self):
            """Release the file."""
            with self._lock:
                reader, self._reader = self._reader, None
            if reader is not None:
                reader.close()

        for method in (__init__, __getstate__, __setstate__, _open):
            setattr(cls, method.__name__, method)
        if "close" not in cls.__dict__:
            cls.close = close
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
    return getattr(self._open(), name)
