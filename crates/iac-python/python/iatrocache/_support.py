"""What several modules need: arrays, arguments, options of writing."""

import operator
import sys


def array(parts):
    """Make a NumPy array of memory, shape and type, without a copy."""
    import numpy

    buffer, shape, dtype = parts
    if len(buffer) == 0:
        return numpy.zeros(shape, dtype)
    return numpy.frombuffer(buffer, dtype).reshape(shape)


def image_parts(image, what="an image"):
    """Memory in one piece, shape (height, width, channels) and type of an image."""
    import numpy

    image = numpy.asarray(image)
    name = image.dtype.name
    if name not in ("uint8", "uint16", "int16", "float16", "float32"):
        raise ValueError(
            f"{what} must have samples of type uint8, uint16, int16, float16 or float32, not {name}"
        )
    if image.ndim not in (2, 3):
        raise ValueError(f"{what} must have 2 or 3 dimensions, not {image.ndim}")
    if not image.dtype.isnative:
        image = image.astype(image.dtype.newbyteorder("="))
    shape = image.shape if image.ndim == 3 else (*image.shape, 1)
    if max(shape) > 0xFFFFFFFF:
        raise ValueError(f"{what} of shape {shape} is too large")
    return numpy.ascontiguousarray(image), shape, name


def check_workers(workers):
    """The number of threads, as the native module takes it."""
    if workers is None:
        return None
    if isinstance(workers, bool):
        raise TypeError("workers must be a positive integer or None, not bool")
    try:
        workers = operator.index(workers)
    except TypeError:
        raise TypeError(
            f"workers must be a positive integer or None, not {type(workers).__name__}"
        ) from None
    if workers > sys.maxsize:
        raise TypeError(f"workers must be a positive integer of this machine, found {workers}")
    if workers < 1:
        raise ValueError(f"workers must be a positive integer or None, found {workers}")
    return workers


def header_text(header, what="header_json"):
    """A header as JSON text; the native module refuses what JSON has no form for."""
    import json

    if not isinstance(header, dict):
        raise TypeError(f"{what} must be a dict, not {type(header).__name__}")
    return json.dumps(header)


def writing(overwrite, sync, data_alignment, checksums):
    """How a pack is written, as the native module takes it."""
    return (bool(overwrite), bool(sync), data_alignment, bool(checksums))


def out_array(out, shape, dtype):
    """The caller's memory for results, checked: an array, or anything with a buffer or DLPack."""
    import numpy

    if hasattr(out, "__array_interface__") or not hasattr(out, "__dlpack__"):
        array = out if isinstance(out, numpy.ndarray) else numpy.asarray(out)
    else:
        array = numpy.from_dlpack(out)
    if array.dtype != numpy.dtype(dtype):
        raise ValueError(f"out must be of type {numpy.dtype(dtype)}, not {array.dtype}")
    size = 1
    for length in shape:
        size *= length
    if array.size != size or (array.ndim == len(shape) and array.shape != tuple(shape)):
        raise ValueError(f"out must be of shape {tuple(shape)}, not {array.shape}")
    if not array.flags.c_contiguous:
        raise ValueError("out must be in one piece (C order)")
    if not array.flags.writeable:
        raise ValueError("out cannot be written")
    return array


def progress_bar(show):
    """A function that shows progress on standard error, or nothing."""
    if not show:
        return None

    def tell(what, done, total):
        share = f"{done}/{total}" if total is not None else f"{done}"
        end = "\n" if total is not None and done >= total else ""
        sys.stderr.write(f"\r{what}: {share}{end}")
        sys.stderr.flush()

    return tell
