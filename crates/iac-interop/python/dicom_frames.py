"""Prints what pydicom reads from DICOM files, one JSON object for each path on standard input.

The path "test files" stands for every file of the package's own test set.
"""

import hashlib
import json
import os
import sys
import warnings

import numpy
import pydicom
import pydicom.data
import pydicom.pixels

warnings.simplefilter("ignore")


def test_files():
    folder = os.path.join(os.path.dirname(pydicom.data.__file__), "test_files")
    for root, _, names in sorted(os.walk(folder)):
        for name in sorted(names):
            if not name.endswith((".py", ".txt", ".md", ".json", ".pyc", ".tar.gz", ".zip")):
                yield os.path.join(root, name)


def describe(path):
    told = {"path": path}
    try:
        data = pydicom.dcmread(path, force=True)
    except Exception as error:
        return {**told, "error": f"{type(error).__name__}: {error}"}
    told["objects"] = sum(1 for _ in data)
    if not any(name in data for name in ("PixelData", "FloatPixelData", "DoubleFloatPixelData")):
        return told
    told["frames"] = str(data.get("NumberOfFrames", ""))
    told["allocated"] = data.get("BitsAllocated")
    told["lossy"] = getattr(data, "LossyImageCompression", "") == "01"
    try:
        # Samples as they are stored, not turned into other colours.
        array = pydicom.pixels.pixel_array(data, raw=True)
    except Exception as error:
        return {**told, "error": f"{type(error).__name__}: {error}"}
    array = array.astype(array.dtype.newbyteorder("<"))
    told["shape"] = list(array.shape)
    told["dtype"] = array.dtype.name
    told["sha256"] = hashlib.sha256(numpy.ascontiguousarray(array).tobytes()).hexdigest()
    told["sum"] = float(numpy.nansum(array.astype("float64")))
    return told


def main():
    for line in sys.stdin:
        path = line.rstrip("\n")
        for one in test_files() if path == "test files" else [path]:
            print(json.dumps(describe(one)), flush=True)


if __name__ == "__main__":
    main()
