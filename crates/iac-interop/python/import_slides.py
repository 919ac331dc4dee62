"""Imports slides with the reference: a command per line in JSON, an answer per line."""

import json
import sys
import time

from iatro.iac.adapters import wsi

for line in sys.stdin:
    command = json.loads(line)
    arguments = dict(command["arguments"])
    for name in ("native_mpp", "tile_size"):
        if isinstance(arguments.get(name), list):
            arguments[name] = tuple(arguments[name])
    started = time.perf_counter()
    wsi.build_wsi_image_package(command["source"], command["pack"], **arguments)
    print(json.dumps({"seconds": time.perf_counter() - started}), flush=True)
