"""What other programs read from TIFF files of slides: one JSON object for each line with a path."""

import hashlib
import json
import sys

import numpy
import tifffile


def digest(pixels):
    return hashlib.sha256(numpy.ascontiguousarray(pixels).tobytes()).hexdigest()


def by_tifffile(path):
    with tifffile.TiffFile(path) as file:
        first = file.series[0]
        native = first.asarray()
        return {
            "native": digest(native),
            "shape": list(native.shape),
            "levels": [list(level.shape) for level in first.levels],
            "smallest": [float(it) for it in first.levels[-1].asarray().mean(axis=(0, 1))],
            "others": [
                {"name": series.name, "shape": list(series.shape), "pixels": digest(series.asarray())}
                for series in file.series[1:]
            ],
            "is_ome": file.is_ome,
            "is_bigtiff": file.is_bigtiff,
        }


def by_slide(slide):
    width, height = slide.dimensions
    image = numpy.asarray(slide.read_region((0, 0), 0, (width, height)))[..., :3]
    return {
        "native": digest(image),
        "size": [width, height],
        "levels": [list(size) for size in slide.level_dimensions],
    }


def by_tiffslide(path):
    import tiffslide

    with tiffslide.TiffSlide(path) as slide:
        found = by_slide(slide)
        mpp = [slide.properties.get(f"tiffslide.mpp-{axis}") for axis in "xy"]
        return {**found, "mpp": mpp}


def by_openslide(path):
    try:
        import openslide
    except (ImportError, OSError):
        return None
    with openslide.OpenSlide(path) as slide:
        return by_slide(slide)


for line in sys.stdin:
    path = json.loads(line)["path"]
    found = {
        "tifffile": by_tifffile(path),
        "tiffslide": by_tiffslide(path),
        "openslide": by_openslide(path),
    }
    print(json.dumps(found), flush=True)
