"""What the readers of all payload types have in common."""

from .core import PackReader


class AdapterReader:
    """Opens a pack, or takes one over that is open."""

    __slots__ = ("_pack", "__weakref__")

    def __init__(self, package_path, **options):
        own = isinstance(package_path, PackReader)
        self._pack = package_path if own else PackReader(package_path, **options)
        try:
            self._begin()
        except BaseException:
            if not own:
                self._pack.close()
            raise

    def _begin(self):
        raise NotImplementedError

    def __reduce__(self):
        return (type(self), (self._pack,))

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    def __repr__(self):
        return f"<{type(self).__name__} {self._pack.path!r}>"

    def __len__(self):
        return self.record_count

    def _open(self):
        """The pack, if it is open."""
        if self._pack.closed:
            self._pack.header_text  # noqa: B018  raises
        return self._pack

    @property
    def reader(self):
        """The pack as it is stored."""
        return self._pack

    @property
    def header(self):
        """The header: a dict of its own each time."""
        return self._pack.header

    def close(self):
        """Release the file. Closing twice is harmless."""
        self._pack.close()
