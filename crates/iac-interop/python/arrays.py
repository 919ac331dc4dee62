"""Files with arrays, written and read by NumPy, nibabel and zarr.

    arrays.py write FOLDER     makes files and prints what is in each
    arrays.py read FILE...     prints what is in files

One JSON object for each array: file, name (of a member), shape (row-major, the fastest axis last),
dtype, sha256 of the elements (row-major, little-endian), and for NIfTI affine and scaled.
"""

import hashlib
import json
import sys
import warnings
from pathlib import Path

import nibabel
import numpy as np
import zarr

warnings.filterwarnings("ignore")


def digest(array):
    array = np.ascontiguousarray(array)
    if array.dtype.kind == "U":
        data = "\0".join(array.ravel().tolist()).encode()
    else:
        data = array.astype(array.dtype.newbyteorder("<")).tobytes()
    return hashlib.sha256(data).hexdigest()


def told(file, array, name=None, **more):
    array = np.asarray(array)
    line = {
        "file": str(file),
        "name": name,
        "shape": list(array.shape),
        "dtype": array.dtype.newbyteorder("<").str,
        "sha256": digest(array),
        **more,
    }
    print(json.dumps(line))


def told_nifti(file, image):
    # Its first axis is the fastest one.
    stored = np.asarray(image.dataobj.get_unscaled())
    fields = stored.dtype.fields
    if fields:
        stored = np.stack([stored[field] for field in fields], axis=-1)
        axes = [*reversed(range(stored.ndim - 1)), stored.ndim - 1]
        turned = stored.transpose(axes)
        told(file, turned, affine=image.affine.tolist(), scaled=None)
        return
    scaled = np.asarray(image.dataobj).T
    # Without a place nibabel makes one up, about the middle.
    placed = image.header["sform_code"] > 0 or image.header["qform_code"] > 0
    told(
        file,
        stored.T,
        affine=image.affine.tolist() if placed else None,
        scaled=digest(scaled.astype(np.float32)) if scaled.dtype.kind == "f" else None,
    )


def write(folder):
    folder = Path(folder)
    rng = np.random.default_rng(5)
    numbers = rng.integers(-1000, 1000, (5, 6, 7))
    plain = {
        "i2": numbers.astype("<i2"),
        "big": numbers.astype(">i4"),
        "fortran": np.asfortranarray(numbers.astype("<f4") / 7),
        "fortran_big": np.asfortranarray(numbers.astype(">f8")),
        "u1": numbers.astype("u1"),
        "bool": numbers > 0,
        "half": numbers.astype("<f2"),
        "complex": numbers.astype("<c8") * (1 + 2j),
        "scalar": np.float64(2.5),
        "empty": np.zeros((0, 3), "<i8"),
        "when": np.array(["2020-01-01", "NaT"], "datetime64[ns]"),
        "bytes": np.array([b"ab", b"abc"]),
        "texts": np.array(["", "größe", "🙂x"]),
    }
    for name, array in plain.items():
        file = folder / f"{name}.npy"
        np.save(file, array)
        told(file, array)
    for name, save in [("plain", np.savez), ("packed", np.savez_compressed)]:
        file = folder / f"{name}.npz"
        members = {key: plain[key] for key in ["i2", "fortran", "texts"]}
        save(file, **members)
        for key, array in members.items():
            told(file, array, name=key)

    affine = np.array([[-0.7, 0.1, 0, 90], [0, 0.7, 0.2, -80], [0.05, 0, 2.5, 7], [0, 0, 0, 1.0]])
    volume = numbers.astype(np.int16)
    scaled = nibabel.Nifti1Image(volume, affine)
    scaled.header.set_slope_inter(0.5, -10)
    turned = nibabel.Nifti1Image(volume, None)
    turned.set_qform(affine, code=1)
    turned.set_sform(None, code=0)
    neither = nibabel.Nifti1Image(volume, None)
    neither.header.set_zooms((0.5, 0.75, 2))
    neither.set_sform(None, code=0)
    neither.set_qform(None, code=0)
    big = nibabel.Nifti1Image(volume, affine, header=nibabel.Nifti1Header(endianness=">"))
    colours = rng.integers(0, 255, (4, 5, 6, 3)).astype(np.uint8)
    rgb = colours.view([("R", "u1"), ("G", "u1"), ("B", "u1")])[..., 0]
    images = {
        "one.nii": nibabel.Nifti1Image(volume, affine),
        "one.nii.gz": nibabel.Nifti1Image(numbers.astype(np.float32), affine),
        "scaled.nii": scaled,
        "turned.nii": turned,
        "neither.nii": neither,
        "two.nii": nibabel.Nifti2Image(numbers.astype(np.float64), affine),
        "big.nii": big,
        "series.nii": nibabel.Nifti1Image(rng.integers(0, 9, (3, 4, 5, 6)).astype(np.uint8), affine),
        "rgb.nii": nibabel.Nifti1Image(rgb, affine),
        "pair.hdr": nibabel.Nifti1Pair(volume, affine),
    }
    for name, image in images.items():
        file = folder / name
        nibabel.save(image, file)
        told_nifti(file, nibabel.load(file))

    write_zarr(folder, numbers)


def write_zarr(folder, numbers):
    from numcodecs import Blosc, GZip, Zstd

    file = folder / "two.zarr"
    root = zarr.open_group(file, mode="w", zarr_format=2)
    kinds = {
        "blosc": dict(compressors=Blosc("lz4", shuffle=Blosc.SHUFFLE)),
        "zstd": dict(compressors=Zstd(3)),
        "gzip": dict(compressors=GZip(3)),
        "none": dict(compressors=None),
        "fortran": dict(compressors=None, order="F"),
    }
    for name, options in kinds.items():
        array = root.create_array(name, shape=(5, 6, 7), chunks=(2, 4, 7), dtype="<i4", fill_value=-7, **options)
        array[:4] = numbers[:4]
        array.attrs["unit"] = "mm"
        told(file, array[:], name=name)
    big = root.create_array("group/big", shape=(5, 6, 7), chunks=(5, 6, 7), dtype=">f8", fill_value=0)
    big[:] = numbers
    told(file, big[:], name="group/big")

    file = folder / "three.zarr"
    root = zarr.open_group(file, mode="w", zarr_format=3)
    array = root.create_array(
        "sharded", shape=(10, 9), chunks=(2, 3), shards=(4, 9), dtype="int16", fill_value=3, dimension_names=["y", "x"]
    )
    array[1:9] = np.arange(72).reshape(8, 9)
    told(file, array[:], name="sharded")
    array = root.create_array("plain", shape=(6,), chunks=(4,), dtype="float32", fill_value=np.nan)
    array[:3] = [1, 2, 3]
    told(file, array[:], name="plain")
    array = root.create_array("truth", shape=(5,), chunks=(2,), dtype="bool", fill_value=False)
    array[:] = [True, False, True, True, False]
    told(file, array[:], name="truth")


def read(files):
    for file in map(Path, files):
        if file.name.endswith(".npy"):
            told(file, np.load(file, allow_pickle=False))
        elif file.name.endswith(".npz"):
            with np.load(file, allow_pickle=False) as archive:
                for name in archive.files:
                    told(file, archive[name], name=name)
        elif file.name.endswith(".zarr"):
            root = zarr.open_group(file, mode="r")
            for name, array in sorted(root.members(max_depth=None)):
                if isinstance(array, zarr.Array):
                    told(file, array[:], name=name, attrs=dict(array.attrs), dims=array.metadata.dimension_names)
        else:
            told_nifti(file, nibabel.load(file))


if __name__ == "__main__":
    {"write": lambda arguments: write(arguments[0]), "read": read}[sys.argv[1]](sys.argv[2:])
