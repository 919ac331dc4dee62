"""Packs of image tiles and teacher features with the reference.

Usage: tile_packs.py write FOLDER   builds packs and prints what has to be found in them
       tile_packs.py read           one path per line on standard input; prints what is found

One JSON object per line: {"path","records","values","shape","valid"}.
"""

import json
import sys
from pathlib import Path

import numpy as np
from PIL import Image

from iatro.iac.adapters import features, tiles, validate

import wire


def as_json(record):
    return {
        "tile_id": record.tile_id,
        "patient_id": record.patient_id,
        "slide_id": record.slide_id,
        "tile_path": str(record.tile_path),
        "x": record.x,
        "y": record.y,
        "split": record.split,
    }


def look(path):
    """What the reference finds in a pack."""
    seen = {"path": str(path)}
    try:
        if ".features." in Path(path).name:
            reader = features.FeatureCacheReader(path)
            records = features.read_feature_package_records(path)
            values = [reader.read_feature_at(row) for row in range(reader.record_count)]
            by_id = [reader.read_feature(record.tile_id) for record in records]
        else:
            reader = tiles.TilePackageReader(path)
            records = tiles.read_package_manifest(path)
            values = [reader.read_array_at(row) for row in range(reader.record_count)]
            by_id = [np.asarray(reader.read_image(record.tile_id)) for record in records]
        assert all((a == b).all() or np.isnan(a).any() for a, b in zip(values, by_id))
        seen["records"] = [as_json(record) for record in records]
        seen["shape"] = list(values[0].shape)
        seen["values"] = wire.sums(value.tobytes() for value in values)
        valid = validate.validate_package(path, max_decode=0)
        seen["valid"] = {name: str(value) for name, value in valid.items()}
    except Exception as error:  # whatever it is, the test is told
        seen["error"] = f"{type(error).__name__}: {error}"
    return seen


def manifest(folder, count, size, slides):
    folder.mkdir()
    lines = ["tile_id,patient_id,slide_id,tile_path,x,y,split"]
    for row in range(count):
        rough = np.random.default_rng(row).integers(0, 256, (4, 4, 3), dtype=np.uint8)
        image = Image.fromarray(rough).resize(size, Image.Resampling.BICUBIC)
        image.save(folder / f"{row}.png")
        slide = row % slides
        split = ("train", "val", "")[row % 3]
        place = f"{row // slides * 24},{row % 3 * 16}"
        lines.append(f"{folder.name}-{row},p{slide // 2},s{slide},{row}.png,{place},{split}")
    path = folder / "manifest.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def write(folder):
    def build_tiles(name, count, size, slides, **options):
        path = folder / f"{name}.tiles.iac"
        listed = manifest(folder / name, count, size, slides)
        tiles.build_tile_package(listed, path, tile_root=folder / name, **options)
        return path

    def build_features(name, pack, dim, dtype):
        path = folder / f"{name}.features.iac"
        count = len(tiles.read_package_manifest(pack))
        vectors = np.random.default_rng(dim).normal(size=(count, dim)).astype(np.float32) * 30
        np.save(folder / f"{name}.npy", vectors)
        features.build_teacher_feature_package_from_tile_package(
            pack, iter(vectors), path, teacher_name=name, dtype=dtype
        )
        return path

    lossless = build_tiles("lossless", 12, (24, 16), 5, lossless=True, effort=3)
    yield lossless
    yield build_tiles("lossy", 5, (33, 17), 1, distance=2.0, effort=4, stride_x=4, stride_y=8)
    yield build_features("halves", lossless, 17, "float16")
    yield build_features("singles", lossless, 5, "float32")
    yield build_features("bytes", lossless, 3, "int8")


paths = write(Path(sys.argv[2])) if sys.argv[1] == "write" else (line.strip() for line in sys.stdin)
for path in paths:
    print(json.dumps(look(path)), flush=True)
