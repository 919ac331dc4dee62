"""Compares `iatrocache` with the reference packages on the same files, in one process.

Both are imported; calls take turns, each on its own random rows, and medians are compared. Wall-clock
time and process time (of all threads) stand side by side. Run it with a Python that has both:

    python crates/iac-python/benches/compare.py [--quick] [--json]
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy
import pyarrow

import iatrocache
import iatro.iac as reference
from iatro.iac.adapters import features as reference_features
from iatro.iac.adapters import text as reference_text
from iatro.iac.adapters import tiles as reference_tiles
from iatrocache import features, manifests, text, tiles


def turns(rounds, ours, theirs, prepare=lambda seed: seed):
    """Median seconds (wall, process) of both, in turns."""
    found = {"ours": [], "theirs": []}
    for number in range(rounds + 3):
        pair = [("ours", ours), ("theirs", theirs)]
        if number % 2:
            pair.reverse()
        for name, call in pair:
            given = prepare(number)
            wall, process = time.perf_counter(), time.process_time()
            call(given)
            taken = time.perf_counter() - wall, time.process_time() - process
            if number >= 3:
                found[name].append(taken)
    medians = {}
    for name, times in found.items():
        medians[name] = tuple(statistics.median(time[part] for time in times) for part in (0, 1))
    return medians


class Report:
    def __init__(self):
        self.lines = []

    def add(self, name, medians, goal=1.0):
        ours, theirs = medians["ours"], medians["theirs"]
        line = {
            "case": name,
            "ours_us": round(ours[0] * 1e6, 1),
            "theirs_us": round(theirs[0] * 1e6, 1),
            "ratio": round(theirs[0] / ours[0], 2),
            "process_ratio": round(theirs[1] / ours[1], 2) if ours[1] else None,
            "goal": goal,
        }
        self.lines.append(line)
        mark = "ok " if line["ratio"] >= goal else "LOW"
        print(
            f"{mark} {name:52} {line['ours_us']:>11} us {line['theirs_us']:>11} us"
            f"  x{line['ratio']:<6} process x{line['process_ratio']:<6} goal x{goal}",
            flush=True,
        )


def index(count):
    return pyarrow.table({"item_id": [f"r{row:08}" for row in range(count)]})


SLIDES = pyarrow.table({"slide_idx": pyarrow.array([0], pyarrow.uint8()), "slide_id": ["s"]})


def batches(report, folder, size, count, rounds, goals):
    """Random batches of 256 records."""
    path = folder / f"{size}.iac"
    record = os.urandom(size)
    reference.build_pack(path, {"codec": "none"}, SLIDES, index(count), [record] * count)
    ours, theirs = iatrocache.PackReader(path), reference.PackReader(path)
    ours_pack, theirs_pack = iatrocache.VariableRecordPack(path), reference.VariableRecordPack(path)

    def rows(seed):
        return numpy.random.default_rng(seed).integers(0, count, 256).tolist()

    def both(call):
        return lambda rows: call(rows)

    # The reference compares no checksums: the same work first, then what is done by default.
    same = iatrocache.PackReader(path, check_crc=False)
    same_pack = iatrocache.VariableRecordPack(same)
    for what, mine, mine_pack, (owned, contiguous) in (
        ("", same, same_pack, goals),
        (", checksums compared", ours, ours_pack, (1, 1)),
    ):
        report.add(
            f"256 random records of {size} B, owned{what}",
            turns(rounds, both(mine.read_payloads), both(theirs.read_payloads), rows),
            owned,
        )
        report.add(
            f"256 random records of {size} B, contiguous{what}",
            turns(rounds, both(mine_pack.read_many_contiguous), both(theirs_pack.read_many_contiguous), rows),
            contiguous,
        )
    report.add(
        f"256 random records of {size} B, views",
        turns(rounds, both(ours.read_payload_views), both(theirs.read_payload_views), rows),
    )
    report.add(
        f"256 random records of {size} B, one by one",
        turns(
            rounds,
            lambda rows: [ours.read_payload(row) for row in rows],
            lambda rows: [theirs.read_payload(row) for row in rows],
            rows,
        ),
    )


def codecs(report, folder, rounds):
    """Batches of compressed records."""
    for name, params in (("zstd", {"level": 3}), ("brotli", {"quality": 5})):
        path = folder / f"{name}.iac"
        words = [os.urandom(8).hex() for _ in range(200)]
        generator = numpy.random.default_rng(0)
        records = [" ".join(generator.choice(words, 300)).encode() for _ in range(2000)]
        reference.VariableRecordPack.build(
            path,
            payload_type="x",
            slide_table=SLIDES,
            index_table=index(len(records)),
            objects=records,
            codec=reference.Codec.create(name, **params),
        )
        ours, theirs = iatrocache.VariableRecordPack(path), reference.VariableRecordPack(path)

        def rows(seed):
            return numpy.random.default_rng(seed).integers(0, len(records), 256).tolist()

        report.add(f"256 random records of {name}", turns(rounds, ours.read_many, theirs.read_many, rows))
        report.add(
            f"256 random records of {name}, contiguous",
            turns(rounds, ours.read_many_contiguous, theirs.read_many_contiguous, rows),
        )


def opening(report, folder, count, rounds):
    """Opening a pack and reading one record."""
    path = folder / "many.iac"
    reference.build_pack(path, {"codec": "none"}, SLIDES, index(count), [b"x" * 16] * count)

    def ours(_):
        with iatrocache.PackReader(path) as pack:
            pack.read_payload(count // 2)

    def theirs(_):
        pack = reference.PackReader(path)
        pack.read_payload(count // 2)
        pack.close()

    report.add(f"open {count} rows and read one", turns(rounds, ours, theirs), 10)

    def header(module):
        def call(_):
            module.clear_caches()
            module.read_header(path)

        return call

    report.add("read a header, nothing cached", turns(rounds, header(iatrocache), header(reference)))
    report.add(
        "read a header, cached",
        turns(rounds, lambda _: iatrocache.read_header(path), lambda _: reference.read_header(path)),
    )


def pictures(report, folder, side, count, rounds):
    """Batches of JPEG XL tiles."""
    y, x = numpy.mgrid[0:side, 0:side]
    generator = numpy.random.default_rng(1)
    images = []
    for number in range(count):
        wave = 128 + 60 * numpy.sin((x + number * 7) / 9.0) + 40 * numpy.cos((y * 2 - number) / 13.0)
        image = numpy.stack([wave, wave * 0.7 + 30, wave * 0.9], axis=2)
        image += generator.normal(0, 6, image.shape)
        images.append(numpy.clip(image, 0, 255).astype("uint8"))
    payloads = [tiles.encode_jxl_array(image, False, 1.0, 3) for image in images]
    records = [
        manifests.TileRecord(f"t{row}", "p", "s", Path("x"), side * row, 0, "train") for row in range(count)
    ]
    path = folder / "a.tiles.iac"
    reference_tiles.build_tile_package_from_records(
        [reference_tiles.TileRecord(*_fields(record)) for record in records],
        payloads,
        path,
        tile_width=side,
        tile_height=side,
    )
    ours, theirs = tiles.TilePackageReader(path), reference_tiles.TilePackageReader(path)

    def rows(seed):
        return numpy.random.default_rng(seed).integers(0, count, 16).tolist()

    # The reference decodes on one thread unless it is told otherwise; that is what the goal is about.
    for workers, their_workers, goal in ((1, 1, 1.0), (2, 1, 1.8), (2, 2, 1.0)):
        report.add(
            f"16 JXL tiles of {side}, arrays, {workers} workers against {their_workers}",
            turns(
                rounds,
                lambda rows: ours.read_arrays_at(rows, workers=workers),
                lambda rows: theirs.read_arrays_at(rows, workers=their_workers),
                rows,
            ),
            goal,
        )
        if workers == 2:
            report.add(
                f"16 JXL tiles of {side} into one array, 2 workers against {their_workers}",
                turns(
                    rounds,
                    lambda rows: ours.read_batch_at(rows, workers=2),
                    lambda rows: numpy.stack(theirs.read_arrays_at(rows, workers=their_workers)),
                    rows,
                ),
                goal,
            )
    ours_pack, theirs_pack = iatrocache.VariableRecordPack(path), reference.VariableRecordPack(path)
    report.add(
        f"16 JXL records of {side}, 2 workers against 1",
        turns(rounds, lambda rows: ours_pack.read_many(rows, 2), theirs_pack.read_many, rows),
        1.8,
    )


def _fields(record):
    return [getattr(record, name) for name in ("tile_id", "patient_id", "slide_id", "tile_path", "x", "y", "split")]


def matrices(report, folder, count, dim, rounds):
    """Batches of vectors."""
    for kind in ("float32", "float16"):
        path = folder / f"{kind}.features.iac"
        vectors = numpy.random.default_rng(0).standard_normal((count, dim)).astype(kind)
        records = [
            manifests.TileRecord(f"t{row}", "p", "s", Path("x"), 256 * row, 0, "") for row in range(count)
        ]
        features.build_teacher_feature_package(records, vectors, path, "uni", kind)
        ours, theirs = features.FeatureCacheReader(path), reference_features.FeatureCacheReader(path)

        def rows(seed):
            return numpy.random.default_rng(seed).integers(0, count, 256).tolist()

        report.add(
            f"256 random vectors of {dim} {kind}",
            turns(rounds, ours.read_features_at, theirs.read_features_at, rows),
        )
        ours_fixed, theirs_fixed = iatrocache.FixedRecordPack(path), reference.FixedRecordPack(path)
        report.add(
            f"256 random rows of {dim} {kind}, as stored",
            turns(rounds, ours_fixed.read_matrix, theirs_fixed.read_matrix, rows),
        )


def texts(report, folder, count, rounds):
    """Reading patients."""
    words = [os.urandom(4).hex() for _ in range(500)]
    generator = numpy.random.default_rng(0)
    patients = [
        text.PatientText(
            f"p{number}",
            "i",
            [text.ClinicalDoc(f"d{doc}", " ".join(generator.choice(words, 400))) for doc in range(10)],
        )
        for number in range(count)
    ]
    path = folder / "text.iac"
    text.build_clinical_text_pack(path, patients, quality=4)
    ours, theirs = text.ClinicalTextReader(path), reference_text.ClinicalTextReader(path)

    def rows(seed):
        return numpy.random.default_rng(seed).integers(0, count, 16).tolist()

    report.add(
        "16 random patients of 10 notes",
        turns(
            rounds,
            lambda rows: [ours.read_patient_at(row) for row in rows],
            lambda rows: [theirs.read_patient_at(row) for row in rows],
            rows,
        ),
    )


def building(report, folder, rounds):
    """Writing packs of records in memory; neither syncs."""
    records = [os.urandom(4096)] * 5000
    table = index(len(records))

    def ours(number):
        iatrocache.build_pack(folder / "w.iac", {}, SLIDES, table, records, overwrite=True, sync=False)

    def theirs(number):
        reference.build_pack(folder / "r.iac", {}, SLIDES, table, records, overwrite=True)

    report.add("write 5000 records of 4 KiB", turns(max(5, rounds // 10), ours, theirs))


def importing(report):
    """Importing the package, each in a process of its own."""
    times = {}
    for name in ("iatrocache", "iatro.iac"):
        script = f"import time; a = time.perf_counter(); import {name}; print(time.perf_counter() - a)"
        found = []
        for _ in range(11):
            done = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, check=True)
            found.append(float(done.stdout))
        times[name] = statistics.median(found)
    medians = {"ours": (times["iatrocache"],) * 2, "theirs": (times["iatro.iac"],) * 2}
    report.add("import", medians)
    if times["iatrocache"] > 0.05:
        print(f"LOW import takes {times['iatrocache'] * 1e3:.1f} ms, the goal is 50 ms")


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--quick", action="store_true", help="fewer rounds")
    arguments.add_argument("--json", action="store_true", help="print the figures as JSON at the end")
    arguments = arguments.parse_args()
    rounds = 30 if arguments.quick else 200
    report = Report()
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        importing(report)
        opening(report, folder, 200_000, max(10, rounds // 5))
        batches(report, folder, 1000, 20_000, rounds, (1.5, 3))
        batches(report, folder, 200, 20_000, rounds, (1.5, 3))
        batches(report, folder, 33_000, 2_000, rounds, (1, 1))
        codecs(report, folder, rounds)
        matrices(report, folder, 20_000, 768, rounds)
        pictures(report, folder, 256, 64, max(10, rounds // 5))
        texts(report, folder, 200, rounds)
        building(report, folder, rounds)
    if arguments.json:
        print(json.dumps(report.lines))


if __name__ == "__main__":
    main()
