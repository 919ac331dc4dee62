"""Exceptions: subclasses of Python's own, with what a program needs to act."""


class IacError(Exception):
    """Base of all exceptions that come from packs.

    Each is also an exception of the class that Python programs expect: ``ValueError`` for wrong
    bytes and arguments, ``IndexError`` for rows that do not exist, ``OSError`` for failures of the
    system, and so on.
    """

    #: What went wrong, as a stable name: ``not_iac``, ``checksum``, ``row_out_of_range``, ...
    kind = None
    #: The file, where one is at fault.
    path = None
    #: The row of the index table, where one is at fault.
    row = None
    #: The header member or column, where one is at fault.
    field = None

    def __str__(self):
        return str(self.args[0]) if self.args else ""

    def __reduce__(self):
        extra = {key: value for key, value in self.__dict__.items() if value is not None}
        return (type(self), self.args, extra)


class IacValueError(IacError, ValueError):
    """Wrong bytes, a wrong header, or an argument that cannot be used."""


class IacIndexError(IacError, IndexError):
    """A row that does not exist."""


class IacKeyError(IacError, KeyError):
    """A header member, a column or an id that does not exist."""


class IacTypeError(IacError, TypeError):
    """An argument of the wrong type."""


class IacRuntimeError(IacError, RuntimeError):
    """Something is used in a state that does not allow it, such as a closed pack."""


class IacOSError(IacError, OSError):
    """The system failed, or compressed bytes are damaged."""


class IacFileNotFoundError(IacOSError, FileNotFoundError):
    """The file does not exist."""


class IacFileExistsError(IacOSError, FileExistsError):
    """The file exists and may not be replaced."""


class IacIsADirectoryError(IacOSError, IsADirectoryError):
    """A folder where a file is needed."""


class IacPermissionError(IacOSError, PermissionError):
    """The file may not be used."""


def make(name, message, kind, path, row, field, errno):
    """Make an exception; called by the native module."""
    error = globals()[name](message)
    error.kind = kind
    error.path = path
    error.row = row
    error.field = field
    if errno is not None:
        error.errno = errno
    return error
