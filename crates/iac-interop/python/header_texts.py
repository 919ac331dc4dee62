"""Writes packs under randomly made headers and prints, per line, the members and the header text
that the reference stored: {"members": ..., "text": "..."}.

The reference reads the numbers that it is given with a parser that may miss the last bit, and so
stores another double than the caller's every now and then. Members are printed with the doubles
that were stored: what is compared is how they are written.

Usage: header_texts.py SEED COUNT
"""

import json
import math
import random
import struct
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
from iatro import iac

import wire

LAYOUT = {
    "format",
    "version",
    "header_bytes",
    "slide_table_offset",
    "slide_table_length",
    "index_table_offset",
    "index_table_length",
    "data_offset",
    "data_length",
    "num_slides",
    "num_records",
}


def text(chance):
    """Text out of alphabets that an encoder may treat differently."""
    alphabets = [
        (0x20, 0x7E),
        (0x00, 0x1F),
        (0x7F, 0xA0),
        (0xA1, 0x7FF),
        (0x2020, 0x2030),
        (0xD700, 0xD7FF),
        (0xE000, 0xE010),
        (0xFFF0, 0xFFFF),
        (0x1F300, 0x1F600),
        (0x10FFF0, 0x10FFFF),
    ]
    low, high = chance.choice(alphabets)
    plain = "".join(chr(chance.randint(low, high)) for _ in range(chance.randrange(9)))
    return plain + chance.choice(["", "", '"', "\\", "/", "\\u0041", "é"])


def whole(chance):
    bits = chance.randrange(81)
    return (
        chance.choice([1, -1]) * chance.getrandbits(bits)
        if bits
        else chance.choice([0, -(2**63), 2**64 - 1, 2**64, 2**53 + 1])
    )


def fraction(chance):
    kind = chance.randrange(4)
    if kind == 0:
        while True:
            value = struct.unpack(">d", chance.randbytes(8))[0]
            if value == value and abs(value) != float("inf"):
                return value
    if kind == 1:
        return chance.choice([1, -1]) * float(f"{chance.randrange(10**6)}e{chance.randrange(-30, 31)}")
    if kind == 2:
        return chance.choice(
            [0.0, -0.0, 1.0, 0.1, 1e16, 1e15, 123456789012345680.0, 1e-5, 1e-4, 1e21, 1e22, 1e23, 5e-324]
        )
    return round(chance.uniform(-1000, 1000), chance.randrange(6))


def value(chance, depth):
    kinds = ["text", "whole", "fraction", "word"] + (["object", "list"] * 2 if depth else [])
    kind = chance.choice(kinds)
    if kind == "object":
        return {text(chance): value(chance, depth - 1) for _ in range(chance.randrange(5))}
    if kind == "list":
        return [value(chance, depth - 1) for _ in range(chance.randrange(5))]
    if kind == "text":
        return text(chance)
    if kind == "whole":
        return whole(chance)
    if kind == "fraction":
        return fraction(chance)
    return chance.choice([None, True, False, {}, []])


def chain(chance):
    """A few members nested as deep as the format allows for."""
    inner = value(chance, 0)
    for _ in range(chance.randrange(60, 120)):
        inner = [inner] if chance.random() < 0.5 else {text(chance): inner}
    return inner


def as_stored(given, stored):
    """The given members, with the doubles that the reference made of them."""
    if isinstance(given, dict):
        assert given.keys() == stored.keys()
        return {k: as_stored(v, stored[k]) for k, v in given.items()}
    if isinstance(given, list):
        assert len(given) == len(stored)
        return [as_stored(*pair) for pair in zip(given, stored)]
    if isinstance(stored, float):
        assert math.isclose(given, stored, rel_tol=1e-15, abs_tol=5e-324), (given, stored)
        return stored
    return given


def main():
    seed, count = int(sys.argv[1]), int(sys.argv[2])
    chance = random.Random(seed)
    table = pa.table({})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "header.iac"
        for _ in range(count):
            members = {text(chance): value(chance, 5) for _ in range(chance.randrange(1, 9))}
            if chance.random() < 0.1:
                members["chain"] = chain(chance)
            members = {k: v for k, v in members.items() if k not in LAYOUT}
            data = chance.randbytes(chance.randrange(3))
            try:
                iac.build_pack_data_segment(path, members, table, table, data, overwrite=True)
            except ValueError as error:
                if "header" not in str(error).lower():
                    raise
                continue  # too long to be a header
            raw = path.read_bytes()
            stored = raw[16 : 16 + int.from_bytes(raw[8:12], "little")].decode()
            kept = {k: v for k, v in json.loads(stored).items() if k not in LAYOUT}
            print(json.dumps({"members": wire.json_value(as_stored(members, kept)), "text": stored}))


if __name__ == "__main__":
    main()
