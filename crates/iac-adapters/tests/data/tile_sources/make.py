"""Makes the image files of this folder, and expected.json: the pixels that the reference packages
make of each, or null where they refuse it.

Needs the reference packages and Pillow, tifffile and imagecodecs:

    python make.py

Pixels of files with JPEG streams may differ by a few levels, as decoders do.
"""

import io
import json
import pathlib
import struct
import tempfile

import numpy as np
import tifffile
from iatro.iac.adapters import tiles
from PIL import Image, ImageCms

HERE = pathlib.Path(__file__).parent
WIDTH, HEIGHT = 20, 12


def picture(channels, bits=8, smooth=False):
    rows, columns = np.mgrid[0:HEIGHT, 0:WIDTH]
    planes = []
    for channel in range(channels):
        plane = rows * (5 + channel) + columns * (9 - 2 * channel) + 40 * channel
        planes.append(plane if smooth else plane * 37 + rows * columns * 3)
    array = np.stack(planes, axis=-1) % (1 << bits)
    dtype = np.uint8 if bits <= 8 else np.uint16
    return array.astype(dtype)


def save_jpegs():
    rgb = Image.fromarray(picture(3, smooth=True))
    rgb.save(HERE / "rgb_420.jpg", quality=90, subsampling=2)
    rgb.save(HERE / "rgb_progressive.jpg", quality=90, subsampling=0, progressive=True)
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    rgb.save(HERE / "rgb_profile.jpg", quality=90, subsampling=0, icc_profile=profile)
    Image.fromarray(picture(1, smooth=True)[:, :, 0]).save(HERE / "gray.jpg", quality=90)
    cmyk = Image.fromarray(picture(4, smooth=True), "CMYK")
    cmyk.save(HERE / "cmyk.jpg", quality=90)
    # The same with three of its channels as YCC: what Adobe's programs write.
    import imagecodecs

    ycck = imagecodecs.jpeg8_encode(
        picture(4, smooth=True), level=90, colorspace="CMYK", outcolorspace="YCCK"
    )
    (HERE / "ycck.jpg").write_bytes(ycck)


def save_pillow_tiffs():
    lena = Image.fromarray(picture(3))
    for compression in ("raw", "tiff_lzw", "tiff_adobe_deflate", "packbits"):
        lena.save(HERE / f"rgb_{compression.removeprefix('tiff_')}.tif", compression=compression)
    palette = lena.quantize(200)
    palette.save(HERE / "palette8.tif", compression="raw")
    palette.save(HERE / "palette8_lzw.tif", compression="tiff_lzw")
    Image.fromarray(picture(4), "CMYK").save(HERE / "cmyk.tif", compression="raw")
    Image.fromarray(picture(4), "CMYK").save(HERE / "cmyk_lzw.tif", compression="tiff_lzw")
    Image.fromarray(picture(4), "RGBA").save(HERE / "rgba.tif", compression="raw")
    Image.fromarray(picture(2), "LA").save(HERE / "gray_alpha.tif", compression="raw")
    first = Image.fromarray(picture(3))
    second = Image.fromarray(255 - picture(3))
    first.save(HERE / "two_images.tif", save_all=True, append_images=[second], compression="raw")
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    lena.save(HERE / "rgb_profile.tif", compression="raw", icc_profile=profile)
    smooth = Image.fromarray(picture(3, smooth=True))
    smooth.save(HERE / "rgb_jpeg.tif", compression="jpeg", quality=90)
    Image.fromarray(picture(1, smooth=True)[:, :, 0]).save(
        HERE / "gray_jpeg.tif", compression="jpeg", quality=90
    )
    bits = Image.fromarray(picture(1)[:, :, 0]).point(lambda v: 255 if v > 99 else 0).convert("1")
    bits.save(HERE / "bits.tif", compression="raw")
    bits.save(HERE / "bits_group4.tif", compression="group4")


def save_other_tiffs():
    rgb = picture(3)
    def write(name, array, **options):
        tifffile.imwrite(HERE / name, array, metadata=None, **options)

    planes = np.ascontiguousarray(np.moveaxis(rgb, -1, 0))
    write("planar.tif", planes, photometric="rgb", planarconfig="separate")
    write("planar_lzw.tif", planes, photometric="rgb", planarconfig="separate", compression="lzw")
    write("planar_strips.tif", planes, photometric="rgb", planarconfig="separate", rowsperstrip=5)
    write("planar_tiles.tif", planes, photometric="rgb", planarconfig="separate", tile=(16, 16))
    write("tiles.tif", rgb, photometric="rgb", tile=(16, 16))
    write("strips_predictor.tif", rgb, photometric="rgb", rowsperstrip=5, compression="lzw",
          predictor=True)
    write("big_endian.tif", rgb, photometric="rgb", byteorder=">")
    write("bigtiff.tif", rgb, photometric="rgb", bigtiff=True)
    white = picture(1)[:, :, 0]
    write("white_is_zero.tif", white, photometric="miniswhite")
    write("rgb16.tif", picture(3, 16), photometric="rgb")
    write("gray16.tif", picture(1, 10)[:, :, 0].astype(np.uint16), photometric="minisblack")
    write("tiles_jpeg.tif", picture(3, smooth=True), photometric="rgb", tile=(16, 16),
          compression="jpeg", compressionargs={"level": 90})
    write("tiles_jpeg_ycbcr.tif", picture(3, smooth=True), photometric="ycbcr", tile=(16, 16),
          compression="jpeg", compressionargs={"level": 90}, subsampling=(1, 1))
    palette = np.random.default_rng(1).integers(0, 65536, (3, 256)).astype(np.uint16)
    write("palette_big_endian.tif", picture(1)[:, :, 0], photometric="palette", colormap=palette,
          byteorder=">")
    write("palette_bigtiff.tif", picture(1)[:, :, 0], photometric="palette", colormap=palette,
          bigtiff=True)
    for bits in (2, 4):
        (HERE / f"gray{bits}.tif").write_bytes(packed_tiff(bits, 1))
        (HERE / f"palette{bits}.tif").write_bytes(packed_tiff(bits, 3))
    (HERE / "palette1.tif").write_bytes(packed_tiff(1, 3))


def packed_tiff(bits, photometric):
    """Pixels of fewer than 8 bits, grey or with a palette."""
    values = picture(1)[:, :, 0] % (1 << bits)
    per_byte = 8 // bits
    rows = []
    for row in values:
        row = np.pad(row, (0, -len(row) % per_byte))
        rows.append(bytes(
            sum(int(v) << (8 - bits * (place + 1)) for place, v in enumerate(group))
            for group in row.reshape(-1, per_byte)
        ))
    data = b"".join(rows)
    count = 1 << bits
    colors = [(i * 7919 + c * 12345) % 65536 for c in range(3) for i in range(count)]
    entries = [
        (256, 3, 1, WIDTH), (257, 3, 1, HEIGHT), (258, 3, 1, bits), (259, 3, 1, 1),
        (262, 3, 1, photometric), (273, 4, 1, 8), (277, 3, 1, 1), (278, 3, 1, HEIGHT),
        (279, 4, 1, len(data)),
    ]
    end = 8 + len(data)
    if photometric == 3:
        data += struct.pack(f"<{len(colors)}H", *colors)
        entries.append((320, 3, len(colors), end))
    out = io.BytesIO()
    out.write(struct.pack("<2sHI", b"II", 42, 8 + len(data)) + data)
    out.write(struct.pack("<H", len(entries)))
    for tag, kind, number, value in entries:
        out.write(struct.pack("<HHII", tag, kind, number, value))
    out.write(struct.pack("<I", 0))
    return out.getvalue()


def save_others():
    rgb = Image.fromarray(picture(3))
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    rgb.save(HERE / "rgb_profile.png", icc_profile=profile)
    rgb.save(HERE / "rgb_lossless.webp", lossless=True)


def of_reference(path):
    """What the reference makes of a file."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        manifest = folder / "m.csv"
        manifest.write_text(
            "tile_id,patient_id,slide_id,tile_path,x,y,split\n" f"t,p,s,{path},0,0,train\n"
        )
        try:
            tiles.build_tile_package(manifest, folder / "a.iac", lossless=True, effort=1)
        except Exception as error:
            return {"rgb": None, "error": type(error).__name__}
        array = tiles.TilePackageReader(folder / "a.iac").read_array_at(0)
    told = {"width": array.shape[1], "height": array.shape[0], "rgb": array.tobytes().hex()}
    if "jpeg" in path.name or path.suffix == ".jpg":
        told["tolerance"] = 3
    return told


def main():
    save_jpegs()
    save_pillow_tiffs()
    save_other_tiffs()
    save_others()
    files = {
        path.name: of_reference(path)
        for path in sorted(HERE.iterdir())
        if path.suffix in (".jpg", ".tif", ".png", ".webp")
    }
    text = json.dumps({"files": files}, indent=1)
    (HERE / "expected.json").write_text(text + "\n")
    for name, told in files.items():
        print(name, "refused: " + told["error"] if told["rgb"] is None else "taken")


main()
