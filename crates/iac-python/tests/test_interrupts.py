"""Ctrl-C while packs are built: `KeyboardInterrupt`, soon, and nothing left behind."""

import os
import signal
import subprocess
import sys
import time

import numpy
import pytest
from test_dicom import instance

#: What each kind of build runs; every one of them would take much longer than the test waits.
BUILDS = {
    "payloads": """
        payloads = itertools.repeat(b"x" * 100)
        iatrocache.build_pack_streaming(out / "a.iac", {}, empty, index, payloads)
    """,
    "images": """
        image = numpy.random.default_rng(0).integers(0, 256, (256, 256, 3), "uint8")
        iatrocache.VariableRecordPack.build(
            out / "a.iac", payload_type="x", slide_table=empty, index_table=index,
            objects=itertools.repeat(image), codec=iatrocache.Codec.create("jxl", lossless=True, effort=3))
    """,
    "tiles": """
        tiles.build_tile_package(
            given / "m.csv", out / "a.tiles.iac", tile_root=given, lossless=True, effort=7)
    """,
    "tiles, one worker": """
        tiles.build_tile_package(
            given / "m.csv", out / "a.tiles.iac", tile_root=given, lossless=True, effort=7, workers=1)
    """,
    "features": """
        records = [manifests.TileRecord(f"t{row}", "p", "s", Path("x"), row, 0, "") for row in range(60000)]
        vectors = itertools.repeat(numpy.zeros(4, "float32"))
        features.build_teacher_feature_package(
            records, (slowly(vector) for vector in vectors), out / "a.features.iac", "uni", "float32")
    """,
    "texts": """
        patients = (
            text.PatientText(f"p{number}", "i", [text.ClinicalDoc("d", "word " * 1000)])
            for number in itertools.count())
        text.build_clinical_text_pack(out / "a.text.iac", patients)
    """,
    "DICOM, a folder": """
        dicom.build_dicom_patient_package(given, out / "a.rad.iac", effort=7)
    """,
    "DICOM, files": """
        dicom.build_dicom_patient_package_from_files(
            sorted(given.iterdir()), out / "a.rad.iac", effort=7, verify=True)
    """,
    "slide": """
        wsi.build_wsi_image_package(
            given / "slide.png", out / "a.pat.iac", slide_id="s", native_mpp=0.5,
            lossless=True, effort=7, tile_size=256)
    """,
}

PROGRAM = """
import sys, itertools, time
from pathlib import Path
import numpy, pyarrow, iatrocache
from iatrocache import dicom, features, manifests, text, tiles, wsi

given, out = map(Path, sys.argv[1:])
empty, index = pyarrow.table({}), pyarrow.table({"id": pyarrow.nulls(10**7)})

def slowly(value):
    time.sleep(0.001)
    return value

print("begun", flush=True)
try:
    if True:%s
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def _prepare(kind, folder):
    """The files that a build reads."""
    generator = numpy.random.default_rng(4)
    if kind.startswith("tiles"):
        image = pytest.importorskip("PIL.Image")
        image.fromarray(generator.integers(0, 256, (256, 256, 3), "uint8")).save(folder / "a.png")
        head = "tile_id,patient_id,slide_id,tile_path,x,y,split\n"
        rows = "".join(f"t{row},p,s,a.png,{256 * row},0,train\n" for row in range(250))
        (folder / "m.csv").write_text(head + rows)
    elif kind.startswith("DICOM"):
        for number in range(60):
            pixels = generator.integers(-1000, 1000, (512, 512)).astype("int16")
            (folder / f"{number}.dcm").write_bytes(instance(number, pixels))
    elif kind == "slide":
        image = pytest.importorskip("PIL.Image")
        pixels = generator.integers(0, 256, (3072, 3072, 3), "uint8")
        image.fromarray(pixels).save(folder / "slide.png", compress_level=0)


@pytest.mark.parametrize("kind", BUILDS)
def test_ctrl_c_ends_a_long_build_and_leaves_nothing(tmp_path, kind):
    given, out = tmp_path / "given", tmp_path / "out"
    given.mkdir()
    out.mkdir()
    _prepare(kind, given)
    before = sorted(os.listdir(given))
    child = subprocess.Popen(
        [sys.executable, "-c", PROGRAM % BUILDS[kind], str(given), str(out)],
        stdout=subprocess.PIPE,
        text=True,
        # Where the tests run in the background, the signal is ignored, and that is inherited.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert child.stdout.readline() == "begun\n"
    # Some builds read all their inputs before they begin to write.
    deadline = time.monotonic() + 2
    while not os.listdir(out) and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.3)
    assert child.poll() is None, "the build ended too early to be interrupted"
    sent = time.monotonic()
    child.send_signal(signal.SIGINT)
    output, _ = child.communicate(timeout=60)
    assert output == "interrupted\n"
    assert child.returncode == 0
    # The current record of each thread is finished first.
    assert time.monotonic() - sent < 30
    assert os.listdir(out) == []
    assert sorted(os.listdir(given)) == before
