"""Reads slides: a command per line in JSON, an answer per line."""

import hashlib
import json
import sys

from iatro.iac.adapters import wsi
from iatro.iac.adapters.validate import validate_package


def look(command):
    reader = wsi.WsiImageReader(command["path"])
    regions = []
    for x, y, width, height in command["native"]:
        pixels = reader.read_native_region(x, y, width, height)
        regions.append(hashlib.sha256(pixels.tobytes()).hexdigest())
    for x, y, width, height, mpp in command["regions"]:
        pixels = reader.read_region(x, y, width, height, mpp=mpp)
        regions.append(hashlib.sha256(pixels.tobytes()).hexdigest())
    icc = reader.icc_profile
    icc = icc() if callable(icc) else icc
    names = reader.associated_image_names
    names = names() if callable(names) else names
    images = {
        name: hashlib.sha256(reader.read_associated_image(name).tobytes()).hexdigest()
        for name in names
    }
    return {
        "regions": regions,
        "icc": None if icc is None else icc.hex(),
        "images": images,
        "valid": validate_package(command["path"]),
    }


for line in sys.stdin:
    print(json.dumps(look(json.loads(line))), flush=True)
