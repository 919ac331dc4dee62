"""Reads packs of images with the reference and prints what it gives, one JSON object per line.

Standard input has one path per line. Beside each pack PATH lies PATH.seen afterwards: the samples
of all images, little-endian, row-major, one image after the other.
"""

import json
import sys
from pathlib import Path

from iatro import iac

import wire
from write_image_packs import samples


def look(path):
    iac.clear_caches()
    header = iac.read_header(path)
    pack = iac.VariableRecordPack(path)
    try:
        images = [pack.read(row) for row in range(pack.record_count)]
        many = pack.read_many(list(range(pack.record_count)))
        same = all((a == b).all() for a, b in zip(images, many))
    finally:
        pack.close()
    Path(f"{path}.seen").write_bytes(samples(images))
    return {
        "header": wire.json_value(header),
        "images": [{"shape": list(one.shape), "dtype": one.dtype.name} for one in images],
        "many": same,
    }


def main():
    for line in sys.stdin:
        print(json.dumps(look(line.rstrip("\n"))), flush=True)


if __name__ == "__main__":
    main()
