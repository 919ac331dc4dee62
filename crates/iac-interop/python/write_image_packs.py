"""Writes packs of images with the reference: every image codec with many sets of parameters.

Prints one JSON object per pack: its name, the codec and parameters that were asked for, those that
are persisted, and shape and type of each image. Beside each pack lie NAME.source, the samples of
all images as they were handed to the reference, and NAME.decoded, those that it reads back:
little-endian, row-major, one image after the other.

Usage: write_image_packs.py OUTDIR
"""

import json
import sys
from pathlib import Path

import numpy as np
from iatro import iac

import tables

SIZES = [(23, 19), (33, 47), (1, 1), (16, 16), (5, 64)]


def smooth(chance, shape):
    """Something between a picture and noise, from 0 to 1."""
    rows, columns = np.mgrid[0 : shape[0], 0 : shape[1]]
    picture = 0.5 + 0.3 * np.sin(rows / 5) * np.cos(columns / 7)
    if len(shape) == 3:
        picture = picture[..., None] * np.linspace(0.6, 1, shape[2])
    return np.clip(picture + 0.05 * chance.normal(size=shape), 0, 1)


def image(chance, size, channels, kind, bits=None):
    shape = size if channels == 1 else (*size, channels)
    values = smooth(chance, shape)
    dtype = np.dtype(kind)
    if dtype.kind == "f":
        return values.astype(dtype)
    most = 2 ** (bits or 8 * dtype.itemsize) - 1
    return (values * most).round().astype(dtype)


# For each codec: sets of parameters, with the types and channels that they take.
INTEGERS = [("uint8", 1), ("uint8", 3), ("uint8", 4), ("uint16", 1), ("uint16", 3), ("uint16", 4)]
LOSSY_JPEG = [("uint8", 1), ("uint8", 3)]
WHOLE_JPEG = [("uint8", 1), ("uint8", 3), ("uint16", 1), ("uint16", 3)]
FLOATS = [("float16", 1), ("float16", 3), ("float32", 1), ("float32", 3)]
JXL = INTEGERS + [("uint8", 2), ("uint16", 2)] + FLOATS
CASES = [
    ("jxl", {}, JXL),
    ("jxl", {"lossless": True}, JXL),
    ("jxl", {"lossless": True, "effort": 1}, INTEGERS),
    ("jxl", {"lossless": True, "effort": 3, "usecontainer": True}, INTEGERS),
    ("jxl", {"lossless": True, "effort": 9, "usecontainer": False}, [("uint8", 1), ("uint8", 3)]),
    ("jxl", {"distance": 0.3, "effort": 4}, JXL),
    ("jxl", {"distance": 4.0, "effort": 7, "usecontainer": True}, INTEGERS),
    ("jpeg", {}, LOSSY_JPEG),
    ("jpeg", {"quality": 1, "subsampling": "444"}, LOSSY_JPEG),
    ("jpeg", {"quality": 75, "subsampling": "422"}, LOSSY_JPEG),
    ("jpeg", {"quality": 100, "progressive": True}, LOSSY_JPEG),
    ("jpeg", {"quality": 60, "subsampling": "444", "progressive": True}, LOSSY_JPEG),
    ("jpeg", {"lossless": True}, WHOLE_JPEG),
    ("jpeg2000", {}, INTEGERS),
    ("jpeg2000", {"lossless": False}, INTEGERS),
    ("jpeg2000", {"profile": "ht"}, INTEGERS),
    ("jpeg2000", {"profile": "ht", "lossless": False}, INTEGERS),
    ("jpegls", {}, INTEGERS),
    ("jpegls", {"near_lossless": 2}, INTEGERS),
    ("jpegls", {"bits_per_sample": 12}, [("uint16", 1), ("uint16", 3)]),
    ("jpegls", {"bits_per_sample": 5, "near_lossless": 1}, [("uint8", 1), ("uint8", 3)]),
]


def samples(images):
    return b"".join(one.astype(one.dtype.newbyteorder("<")).tobytes() for one in images)


def write(folder, number, name, params, kinds):
    chance = np.random.default_rng(number)
    codec = iac.Codec.create(name, **params)
    images = []
    for kind, channels in kinds:
        for size in SIZES:
            one = image(chance, size, channels, kind, params.get("bits_per_sample"))
            try:
                whole = np.array_equal(codec.decode(codec.encode(one)), one)
            except ValueError:
                # The reference does not encode every image of floats without loss.
                continue
            if params.get("lossless", name in ("jpeg2000", "jpegls")) and not whole:
                # Nor is everything that it encodes so what it was.
                if params.get("near_lossless", 0) == 0:
                    continue
            images.append(one)
    pack_name = f"{number:02}_{name}"
    path = folder / f"{pack_name}.iac"
    iac.VariableRecordPack.build(
        path,
        payload_type="pictures",
        slide_table=tables.plain(1),
        index_table=tables.plain(len(images)),
        objects=images,
        codec=codec,
    )
    pack = iac.VariableRecordPack(path)
    decoded = [pack.read(row) for row in range(pack.record_count)]
    pack.close()
    (folder / f"{pack_name}.source").write_bytes(samples(images))
    (folder / f"{pack_name}.decoded").write_bytes(samples(decoded))
    return {
        "name": pack_name,
        "codec": name,
        "params": params,
        "persisted": codec.parameters(),
        "images": [{"shape": list(one.shape), "dtype": one.dtype.name} for one in images],
        "decoded": [{"shape": list(one.shape), "dtype": one.dtype.name} for one in decoded],
    }


def main():
    folder = Path(sys.argv[1])
    for number, (name, params, kinds) in enumerate(CASES):
        print(json.dumps(write(folder, number, name, params, kinds)), flush=True)


if __name__ == "__main__":
    main()
