"""Words that programs look for in messages of the reference, in front of our own messages."""

import functools

from iatrocache import IacError

_BY_KIND = {
    "not_iac": "bad magic",
    "unsupported_version": "unsupported IatroCache version",
}

_BY_WORDS = (
    ("no DICOM objects", "empty_dicom_package"),
    ("has no pixel data", "has no Pixel Data"),
    ("does not state its micrometres", "no trustworthy MPP"),
    ("clinical_text_pair is expected", "not a clinical_text_pair package"),
    ("clinical_text is expected", "not a clinical_text package"),
    ("no record has the name", "missing associated image"),
    ("the pack is closed", "reader is closed"),
)


def told(function, rows=None):
    """Have exceptions of a function carry those words; ``rows`` is for rows that do not exist."""

    @functools.wraps(function)
    def call(*arguments, **options):
        try:
            return function(*arguments, **options)
        except IacError as error:
            message = str(error)
            words = _BY_KIND.get(error.kind)
            if words is None and error.kind == "row_out_of_range":
                words = rows
            for found, known in _BY_WORDS:
                if words is None and found in message:
                    words = known
            if words is not None:
                error.args = (f"{words}: {message}", *error.args[1:])
            raise

    return call
