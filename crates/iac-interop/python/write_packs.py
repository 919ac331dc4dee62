"""Writes packs with the reference and, beside each, NAME.json with what has to be found in it.

What is expected comes from what was handed to the reference and from the rules of the format, not
from reading the pack back.

Usage: write_packs.py OUTDIR        prints one name per line
"""

import json
import random
import sys
import tempfile
import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa
from iatro import iac

import tables
import wire

HEADER_BYTES = 65536


def storage_columns(index, records):
    """The index table as the variable writers have to store it."""
    ends = np.cumsum([0] + [len(r) for r in records])
    columns = {
        "offset": pa.array([int(e) for e in ends[:-1]], pa.uint64()),
        "length": pa.array([len(r) for r in records], pa.uint32()),
        "crc32": pa.array([zlib.crc32(r) for r in records], pa.uint32()),
    }
    for name, values in columns.items():
        place = index.schema.get_field_index(name)
        index = index.append_column(name, values) if place < 0 else index.set_column(place, name, values)
    return index


class Writer:
    def __init__(self, folder):
        self.folder = folder
        self.names = set()

    def path(self, name):
        assert name not in self.names, name
        self.names.add(name)
        return self.folder / f"{name}.iac"

    def describe(self, name, builder, kind, header, slide, index, data, **more):
        """Adds the description. `header` holds the members that the caller's side accounts for."""
        raw = (self.folder / f"{name}.iac").read_bytes()
        length = int.from_bytes(raw[8:12], "little")
        text = raw[16 : 16 + length].decode()
        stored = json.loads(text)
        slide_end = HEADER_BYTES + stored["slide_table_length"]
        index_end = slide_end + stored["index_table_length"]
        expected = dict(header)
        expected.update(
            {
                "format": "IatroCache",
                "version": 2,
                "header_bytes": HEADER_BYTES,
                "slide_table_offset": HEADER_BYTES,
                "slide_table_length": stored["slide_table_length"],
                "index_table_offset": slide_end,
                "index_table_length": stored["index_table_length"],
                "data_offset": index_end,
                "data_length": len(data),
                "num_slides": slide.num_rows,
                "num_records": index.num_rows,
            }
        )
        assert len(raw) == index_end + len(data), name
        document = {
            "name": name,
            "builder": builder,
            "kind": kind,
            "file_bytes": len(raw),
            "header": wire.json_value(expected),
            "header_text": text,
            "slide_table": wire.table_json(slide),
            "slide_batches": wire.batch_rows(raw[HEADER_BYTES:slide_end]),
            "index_table": wire.table_json(index),
            "index_batches": wire.batch_rows(raw[slide_end:index_end]),
            "data": {"bytes": len(data), "sha256": wire.sha256(data)},
            "spans": wire.spans(len(data), lambda at, size: data[at : at + size]),
            **more,
        }
        (self.folder / f"{name}.json").write_text(json.dumps(document))

    def variable(self, name, builder, header, slide, index, records):
        path = self.path(name)
        if builder == "build_pack":
            iac.build_pack(path, header, slide, index, list(records))
        elif builder == "build_pack_streaming":
            iac.build_pack_streaming(path, header, slide, index, (r for r in records))
        elif builder in ("variable", "variable_streaming"):
            rest = {k: v for k, v in header.items() if k != "payload_type"}
            iac.VariableRecordPack.build(
                path,
                payload_type=header["payload_type"],
                slide_table=slide,
                index_table=index,
                objects=list(records),
                extra_header=rest,
                streaming=builder == "variable_streaming",
            )
            header = {"codec": "none", **header}
        elif builder == "from_payloads":
            rest = {k: v for k, v in header.items() if k not in ("payload_type", "codec", "codec_params")}
            iac.VariableRecordPack.build_from_payloads(
                path,
                payload_type=header["payload_type"],
                slide_table=slide,
                index_table=index,
                payloads=list(records),
                codec_name=header["codec"],
                codec_params=header.get("codec_params"),
                extra_header=rest,
            )
        else:
            raise ValueError(builder)
        stored = storage_columns(index, records)
        lines = []
        for row, record in enumerate(records):
            lines.append(
                {
                    "offset": stored["offset"][row].as_py(),
                    "bytes": len(record),
                    "crc32": zlib.crc32(record),
                    "sha256": wire.sha256(record),
                }
            )
        self.describe(name, builder, "variable", header, slide, stored, b"".join(records), records=lines)

    def segment(self, name, builder, header, slide, index, data, **more):
        path = self.path(name)
        if builder == "build_pack_data_segment":
            iac.build_pack_data_segment(path, header, slide, index, data)
        else:
            source = self.folder / f"{name}.source"
            source.write_bytes(data)
            iac.build_pack_data_segment_from_file(path, header, slide, index, source, data_length=len(data))
            source.unlink()
        self.describe(name, builder, more.pop("kind", "segment"), header, slide, index, data, **more)

    def fixed(self, name, slide, index, matrix, extra=None):
        iac.FixedRecordPack.build(
            self.path(name),
            payload_type="vectors",
            slide_table=slide,
            index_table=index,
            matrix=matrix,
            extra_header=extra,
        )
        rows, width = matrix.shape
        header = {
            "payload_type": "vectors",
            "codec": "none",
            "feature_dim": width,
            "dtype": matrix.dtype.name,
            "feature_record_bytes": width * matrix.dtype.itemsize,
            **(extra or {}),
        }
        data = matrix.tobytes()
        self.describe(
            name,
            "fixed",
            "fixed",
            header,
            slide,
            index,
            data,
            dtype=matrix.dtype.name,
            dim=width,
            rows=wire.sums(matrix[i].tobytes() for i in range(rows)),
        )


def some_records(count, seed, longest=200):
    chance = random.Random(seed)
    return [chance.randbytes(0 if i % 7 == 3 else chance.randrange(longest)) for i in range(count)]


HEADERS = {
    "nothing": {},
    "escapes": {
        "quotes": '"\\/',
        "controls": "".join(map(chr, range(32))),
        "delete": "\x7f",
        "separators": "\u2028\u2029\u0085",
        "wide": "Ünïcode 日本語 🔬",
        "": "empty key",
        'key "quoted"\n': 1,
        "nul": "a\0b",
    },
    "integers": {
        "zero": 0,
        "least": -(2**63),
        "most": 2**64 - 1,
        "signed_most": 2**63 - 1,
        "beyond": 2**70,
        "below": -(2**65),
    },
    "floats": {
        "values": [
            0.0,
            -0.0,
            1.0,
            0.1,
            1e22,
            1e21,
            1e-7,
            123456789.125,
            5e-324,
            1.7976931348623157e308,
            1e16,
            1e15,
            1e-5,
            3.5e-6,
        ],
    },
    "nested": {
        "empty_object": {},
        "empty_list": [],
        "list_of_empty": [[], {}, [[]], [{}]],
        "sorted": {"b": 1, "a": {"é": 1, "Zz": 2, "0": 3, "aa": 4}, "": None},
        "mixed": [None, True, False, "s", 1, 1.5, [1, [2, [3]]], {"k": [{"k": {}}]}],
    },
    "overridden": {
        "format": "other",
        "version": 99,
        "header_bytes": "text",
        "slide_table_offset": None,
        "data_length": -5,
        "num_records": 1.5,
        "num_slides": [],
        "kept": "yes",
    },
    "deep": {"deep": None},
}
for _ in range(120):
    HEADERS["deep"]["deep"] = [HEADERS["deep"]["deep"]]


def write_all(out):
    few = {"payload_type": "interop", "codec": "none"}
    builders = ["build_pack", "build_pack_streaming", "variable", "variable_streaming", "from_payloads"]

    for number, shape in enumerate(tables.SHAPES):
        name = shape.__name__
        records = some_records(17, name)
        slide = tables.plain(3) if name.startswith("storage") else shape(5)
        out.variable(f"shape_{name}", builders[number % len(builders)], few, slide, shape(17), records)
        out.variable(
            f"shape_{name}_one",
            builders[(number + 1) % len(builders)],
            few,
            tables.plain(1),
            shape(1),
            records[:1],
        )
        out.variable(
            f"shape_{name}_empty", builders[(number + 2) % len(builders)], few, shape(0), shape(0), []
        )
        if not name.startswith("storage"):
            out.segment(
                f"segment_{name}", "build_pack_data_segment", few, shape(4), shape(9), b"".join(records)
            )

    for builder in builders:
        out.variable(
            f"builder_{builder}",
            builder,
            {**few, "more": [1, 2]},
            tables.plain(2),
            tables.plain(40),
            some_records(40, builder),
        )
        out.variable(
            f"builder_{builder}_no_columns", builder, few, tables.no_columns(), tables.no_columns(), []
        )
        blanks = [b""] * 6
        out.variable(
            f"builder_{builder}_zero_length", builder, few, tables.no_columns(), tables.plain(6), blanks
        )
    out.variable(
        "bytearrays",
        "build_pack",
        few,
        tables.plain(1),
        tables.plain(4),
        [bytearray(b"ab"), b"", bytearray(), b"c"],
    )
    # The payloads are no Zstandard frames: stored bytes have to be readable all the same.
    params = {
        "codec": "zstd",
        "codec_params": {"level": 3, "nested": {"a": [1.5]}},
        "payload_type": "stored only",
    }
    out.variable(
        "codec_params", "from_payloads", params, tables.plain(1), tables.plain(3), some_records(3, "params")
    )

    for count in (1, 2, 7, 8, 9, 63, 64, 65, 255, 256, 257, 1023, 1024, 1025, 4097):
        out.variable(
            f"rows_{count}",
            builders[count % 2],
            few,
            tables.plain(1),
            tables.plain(count),
            some_records(count, count, 20),
        )
    sizes = sorted({2**k + d for k in range(0, 18) for d in (-1, 0, 1)})
    chance = random.Random("sizes")
    out.variable(
        "record_sizes",
        "build_pack_streaming",
        few,
        tables.plain(1),
        tables.plain(len(sizes)),
        [chance.randbytes(s) for s in sizes],
    )
    out.variable(
        "one_large_record",
        "build_pack_streaming",
        few,
        tables.plain(1),
        tables.plain(1),
        [chance.randbytes(5_000_003)],
    )

    for name, members in HEADERS.items():
        out.variable(
            f"header_{name}", "build_pack", members, tables.plain(1), tables.plain(2), [b"first", b"second"]
        )
        out.segment(
            f"header_{name}_segment",
            "build_pack_data_segment",
            members,
            tables.no_columns(),
            tables.no_columns(),
            b"",
        )
    out.variable("header_full", "build_pack", full_header(), tables.plain(1), tables.plain(2), [b"a", b"b"])

    for builder in ("build_pack_data_segment", "build_pack_data_segment_from_file"):
        out.segment(
            f"{builder}_plain", builder, few, tables.plain(2), tables.plain(3), chance.randbytes(1000)
        )
        out.segment(f"{builder}_empty", builder, few, tables.plain(2), tables.plain(3), b"")
        out.segment(f"{builder}_no_columns", builder, few, tables.no_columns(), tables.no_columns(), b"x")
        out.segment(
            f"{builder}_large",
            builder,
            few,
            tables.plain(2),
            tables.no_columns(),
            chance.randbytes(3_000_001),
        )
        # An index that the caller computed makes a segment a variable pack.
        records = some_records(9, builder)
        index = storage_columns(tables.plain(9), records)
        lines = [
            {
                "offset": index["offset"][i].as_py(),
                "bytes": len(r),
                "crc32": zlib.crc32(r),
                "sha256": wire.sha256(r),
            }
            for i, r in enumerate(records)
        ]
        out.segment(
            f"{builder}_own_index",
            builder,
            few,
            tables.plain(2),
            index,
            b"".join(records),
            kind="variable",
            records=lines,
        )
    # Spans that repeat, overlap, run backwards and leave gaps, without checksums.
    data = chance.randbytes(100)
    picks = [(90, 10), (0, 100), (10, 20), (10, 20), (15, 1), (100, 0), (0, 0), (50, 50)]
    index = pa.table(
        {
            "length": pa.array([l for _, l in picks], pa.uint32()),
            "item_id": pa.array(range(len(picks))),
            "offset": pa.array([o for o, _ in picks], pa.uint64()),
        }
    )
    lines = [
        {"offset": o, "bytes": l, "crc32": None, "sha256": wire.sha256(data[o : o + l])} for o, l in picks
    ]
    out.segment(
        "overlapping_spans",
        "build_pack_data_segment",
        few,
        tables.plain(1),
        index,
        data,
        kind="variable",
        records=lines,
    )
    signed = index.set_column(0, "length", index["length"].cast(pa.int32())).set_column(
        2, "offset", index["offset"].cast(pa.int64())
    )
    out.segment(
        "signed_spans",
        "build_pack_data_segment",
        few,
        tables.plain(1),
        signed,
        data,
        kind="variable",
        records=lines,
    )

    kinds = [
        "bool",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "float16",
        "float32",
        "float64",
        "complex64",
        "complex128",
    ]
    for number, kind in enumerate(kinds):
        generator = np.random.default_rng(number)
        rows, width = 5 + number, 1 + number % 5
        raw = generator.integers(0, 256, rows * width * np.dtype(kind).itemsize, dtype=np.uint8).tobytes()
        matrix = (
            np.frombuffer(raw, np.uint8).reshape(rows, -1) % 2 == 1
            if kind == "bool"
            else np.frombuffer(raw, kind).reshape(rows, width)
        )
        out.fixed(f"fixed_{kind}", tables.plain(2), tables.plain(rows), matrix)
    out.fixed("fixed_no_rows", tables.plain(1), tables.plain(0), np.zeros((0, 4), np.float32))
    out.fixed("fixed_no_width", tables.plain(1), tables.plain(3), np.zeros((3, 0), np.float32))
    out.fixed("fixed_one_value", tables.no_columns(), tables.plain(1), np.array([[7]], np.uint8))
    out.fixed(
        "fixed_wide",
        tables.plain(1),
        tables.nested(6),
        np.arange(6 * 1024, dtype=np.float16).reshape(6, 1024),
        {"teacher": "Ünit", "codec": "none"},
    )
    out.fixed(
        "fixed_strided",
        tables.plain(1),
        tables.plain(8),
        np.arange(96, dtype=np.int32).reshape(16, 6)[::2, ::2],
    )
    out.fixed(
        "fixed_column_order",
        tables.plain(1),
        tables.plain(4),
        np.asfortranarray(np.arange(12, dtype=np.int16).reshape(4, 3)),
    )


def full_header():
    """Members that fill the header to the last of its 65,520 bytes."""

    def text_bytes(filler):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "probe.iac"
            iac.build_pack(path, {"filler": "x" * filler}, tables.plain(1), tables.plain(2), [b"a", b"b"])
            return int.from_bytes(path.read_bytes()[8:12], "little")

    start = 60_000
    return {"filler": "x" * (start + 65_520 - text_bytes(start))}


def main():
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    writer = Writer(folder)
    write_all(writer)
    print("\n".join(sorted(writer.names)))


if __name__ == "__main__":
    main()
