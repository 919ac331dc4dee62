"""Writes packs of encoded records and of vectors with the reference.

Prints one JSON object per pack: its name, the codec and parameters that were asked for, and what
reading it has to give. That comes from what was handed to the reference, not from reading back.

Usage: write_record_packs.py OUTDIR variable|fixed
"""

import json
import random
import sys
from pathlib import Path

import numpy as np
from iatro import iac

import tables
import wire

BROTLI = [(0, 10), (0, 24), (5, 10), (5, 18), (5, 24), (11, 10), (11, 24)]
ZSTD = [-5, 0, 1, 3, 19, 22, 100]
VECTORS = (
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 complex128"
).split()


def codecs():
    """Every codec and parameter set; the one without parameters takes the codec's defaults."""
    yield "none", {}
    yield "brotli", {}
    yield "zstd", {}
    for quality, lgwin in BROTLI:
        yield "brotli", {"quality": quality, "lgwin": lgwin}
    yield "brotli", {"quality": 4}
    for level in ZSTD:
        yield "zstd", {"level": level}


def record_sets():
    chance = random.Random(7)
    words = ["oral", "lesion", "margin", "biopsy", "Größe", "5 mm", "benign", "keratin", "\n"]

    def text(size):
        return " ".join(chance.choice(words) for _ in range(size // 4)).encode()[:size]

    yield "mixed", [
        b"",
        b"\x00",
        b"x",
        text(300),
        chance.randbytes(300),
        text(70_000),
        chance.randbytes(70_000),
        b"",
        bytes(200_000),
        text(2_000),
        bytes(range(256)) * 5,
    ]
    # For encoders that take their time: bytes without a pattern are few, the long record is all zeros.
    yield "light", [
        b"",
        b"x",
        text(300),
        chance.randbytes(3_000),
        text(9_000),
        bytes(200_000),
        bytes(range(256)) * 5,
    ]
    yield "short", [text(chance.randrange(400)) for _ in range(60)]
    yield "few", [text(chance.randrange(400)) for _ in range(9)]
    yield "empty", [b""] * 3
    yield "absent", []


def variable(folder, name, codec_name, params, records, way):
    codec = iac.Codec.create(codec_name, **params)
    common = {
        "payload_type": "notes",
        "slide_table": tables.plain(2),
        "index_table": tables.plain(len(records)),
    }
    path = folder / f"{name}.iac"
    if way == "payloads":
        iac.VariableRecordPack.build_from_payloads(
            path,
            payloads=[codec.encode(record) for record in records],
            codec_name=codec_name,
            codec_params=codec.parameters(),
            **common,
        )
    else:
        iac.VariableRecordPack.build(
            path, objects=list(records), codec=codec, streaming=way == "streaming", **common
        )
    return {
        "name": name,
        "kind": "variable",
        "codec": codec_name,
        "params": params,
        "persisted": codec.parameters(),
        "records": wire.sums(records),
    }


def vectors(folder, name, matrix):
    iac.FixedRecordPack.build(
        folder / f"{name}.iac",
        payload_type="vectors",
        slide_table=tables.plain(1),
        index_table=tables.plain(len(matrix)),
        matrix=matrix,
    )
    single = (matrix.real if matrix.dtype.kind == "c" else matrix).astype("<f4")
    return {
        "name": name,
        "kind": "fixed",
        "dtype": matrix.dtype.name,
        "dim": matrix.shape[1],
        "records": wire.sums(row.tobytes() for row in matrix),
        "float32": wire.sums(row.tobytes() for row in single),
    }


def matrices():
    chance = np.random.default_rng(11)
    for number, kind in enumerate(VECTORS):
        for rows, width in ((9, 1 + number % 5), (40, 64)):
            shape, dtype = (rows, width), np.dtype(kind)
            if dtype.kind == "b":
                matrix = chance.integers(0, 2, shape).astype(bool)
            elif dtype.kind in "iu":
                facts = np.iinfo(dtype)
                matrix = chance.integers(facts.min, facts.max, shape, dtype, endpoint=True)
            else:
                matrix = (chance.normal(size=shape) * 100).astype(dtype)
                if dtype.kind == "c":
                    matrix = (matrix + 1j * chance.normal(size=shape)).astype(dtype)
                matrix[0, 0] = -0.0
                matrix[1, 0] = np.inf
            yield f"{kind}_{width}", matrix


def write_variable(folder):
    ways = ["memory", "streaming", "payloads"]
    sets = dict(record_sets())
    for number, (codec, params) in enumerate(codecs()):
        # The reference syncs each pack, so not everything is written with every parameter set.
        is_slow = params.get("quality", 11) == 11 if codec == "brotli" else params.get("level", 19) >= 19
        large, short = ("light", "few") if is_slow and codec != "none" else ("mixed", "short")
        if params:
            rare = [short, "empty", "absent"][number % 3]
            picks = [(large, ways[number % 3]), (rare, ways[(number + 1) % 3])]
        else:
            picks = [(large, way) for way in ways]
            picks += [(short, "streaming"), ("empty", "memory"), ("absent", "memory")]
        for content, way in picks:
            name = f"{number:02}_{codec}_{content}_{way}"
            yield variable(folder, name, codec, params, sets[content], way)


def write_fixed(folder):
    for name, matrix in matrices():
        yield vectors(folder, f"fixed_{name}", matrix)


def main():
    folder, kind = Path(sys.argv[1]), sys.argv[2]
    for pack in (write_variable if kind == "variable" else write_fixed)(folder):
        print(json.dumps(pack), flush=True)


if __name__ == "__main__":
    main()
