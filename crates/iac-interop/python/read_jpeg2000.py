"""Decodes JPEG 2000 streams with other decoders, and says which samples they give.

Reads one JSON object per line: {"path", "pixels", "lossy"}; `pixels` is a file with the samples that
are expected, little-endian, row-major, of the shape and type that `shape` and `dtype` give. Prints
for each, as a JSON object, how far the samples of each decoder are from them at most: OpenJPH and
OpenJPEG through imagecodecs, and the reference package.

Usage: read_jpeg2000.py
"""

import json
import sys
from pathlib import Path

import imagecodecs
import numpy as np
from iatro import iac

REFERENCE = iac.Codec.create("jpeg2000")


def openjph(stream, shape):
    image = imagecodecs.htj2k_decode(stream)
    # Components without a colour transform come back as planes.
    if image.ndim == 3 and image.shape == (shape[2], shape[0], shape[1]) and shape[2] != shape[1]:
        image = np.moveaxis(image, 0, -1)
    return image


def distance(image, expected):
    image = np.asarray(image)
    if image.size != expected.size or image.dtype != expected.dtype:
        return f"{image.shape} {image.dtype}"
    return int(np.abs(image.reshape(expected.shape).astype(int) - expected).max())


def look(line):
    command = json.loads(line)
    stream = Path(command["path"]).read_bytes()
    expected = np.fromfile(command["pixels"], command["dtype"]).reshape(command["shape"])
    decoders = {"openjpeg": imagecodecs.jpeg2k_decode, "reference": REFERENCE.decode}
    if command["ht"]:
        decoders["openjph"] = lambda stream: openjph(stream, expected.shape)
    found = {}
    for name, decode in decoders.items():
        try:
            found[name] = distance(decode(stream), expected)
        except Exception as error:
            found[name] = str(error)
    return found


def main():
    for line in sys.stdin:
        print(json.dumps(look(line)), flush=True)


if __name__ == "__main__":
    main()
