"""The programs in the documentation run as they stand there."""

import re
import subprocess
import sys
from pathlib import Path

import numpy
import pytest
from test_dicom import instance

from iatrocache import dicom, manifests, tiles, wsi

ROOT = Path(__file__).resolve().parents[3]


def _programs(page):
    """The Python programs of a page, by the heading that they stand under."""
    heading, found = "", []
    for part in re.split(r"(^#+ [^\n]*$|^```python\n.*?^```$)", page, flags=re.MULTILINE | re.DOTALL):
        if part.startswith("#"):
            heading = part.lstrip("# ")
        elif part.startswith("```python"):
            found.append((heading, part.removeprefix("```python\n").removesuffix("```")))
    return found


PAGE = ROOT / "docs" / "python.md"
PROGRAMS = _programs(PAGE.read_text()) if PAGE.exists() else []
NEEDS = {"A data loader of PyTorch": ["torch"], "Tables": ["polars"]}

#: In place of PyTorch: what the example uses of it, so that its own code runs.
TORCH = """
import random, sys, types
class Dataset: pass
class RandomSampler:
    def __init__(self, data): self.data = data
    def __iter__(self): return iter(random.sample(range(len(self.data)), len(self.data)))
class BatchSampler:
    def __init__(self, sampler, batch_size, drop_last): self.sampler, self.size = sampler, batch_size
    def __iter__(self):
        rows = list(self.sampler)
        return (rows[at:at + self.size] for at in range(0, len(rows), self.size))
class DataLoader:
    def __init__(self, data, sampler, batch_size, num_workers): self.data, self.sampler = data, sampler
    def __iter__(self): return (self.data[rows] for rows in self.sampler)
torch, utils, data = types.ModuleType("torch"), types.ModuleType("torch.utils"), types.ModuleType("torch.utils.data")
torch.from_numpy = lambda array: array
for one in (Dataset, RandomSampler, BatchSampler, DataLoader): setattr(data, one.__name__, one)
sys.modules.update({"torch": torch, "torch.utils": utils, "torch.utils.data": data})
"""


@pytest.fixture
def files(tmp_path):
    """The packs that the programs open."""
    image = pytest.importorskip("PIL.Image")
    generator = numpy.random.default_rng(6)
    (tmp_path / "given").mkdir()
    rows = []
    for number in range(12):
        pixels = generator.integers(0, 256, (32, 32, 3), "uint8")
        image.fromarray(pixels).save(tmp_path / "given" / f"{number}.png")
        rows.append(
            {
                "tile_id": f"t{number}",
                "patient_id": "p",
                "slide_id": "s",
                "tile_path": f"{number}.png",
                "x": 32 * number,
                "y": 0,
                "split": "train",
            }
        )
    manifests.write_tile_manifest(tmp_path / "given" / "m.csv", rows)
    tiles.build_tile_package(
        tmp_path / "given" / "m.csv", tmp_path / "cohort.tiles.iac", tile_root=tmp_path / "given", effort=3
    )
    slide = generator.integers(0, 256, (512, 512, 3), "uint8")
    image.fromarray(slide).save(tmp_path / "given" / "slide.png")
    wsi.build_wsi_image_package(
        tmp_path / "given" / "slide.png", tmp_path / "slide.pat.iac", slide_id="s", native_mpp=0.5, effort=3
    )
    objects = [instance(at, generator.integers(0, 99, (6, 8)).astype("int16")) for at in range(3)]
    dicom.build_dicom_patient_package_from_files(objects, tmp_path / "patient.rad.iac", effort=2)
    return tmp_path


@pytest.mark.parametrize("at", range(len(PROGRAMS)), ids=[heading for heading, _ in PROGRAMS])
def test_program_of_the_documentation_runs(files, at):
    heading, program = PROGRAMS[at]
    # Every program goes on from the quick start.
    before = "import iatrocache\n"
    for module in NEEDS.get(heading, ()):
        if module == "torch":
            before += TORCH
        else:
            pytest.importorskip(module)
    done = subprocess.run(
        [sys.executable, "-c", before + program], cwd=files, stderr=subprocess.PIPE, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_there_are_programs_in_the_documentation():
    if not PAGE.exists():
        pytest.skip("the package is tested without its repository")
    assert len(PROGRAMS) >= 6
