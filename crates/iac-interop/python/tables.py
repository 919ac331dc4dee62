"""Tables of many shapes. Each function takes a row count and gives a table with that many rows."""

import decimal
import random

import numpy as np
import pyarrow as pa

WORDS = [
    "",
    "ASCII",
    "Ünïcode",
    "日本語",
    "🔬 microscope",
    'tab\tquote"back\\slash',
    "nul\0inside",
    "e\u0301",
]


def _some_null(values, every=3):
    return [None if i % every == 1 else v for i, v in enumerate(values)]


def plain(n):
    return pa.table(
        {
            "item_id": pa.array([f"item-{i}" for i in range(n)], pa.string()),
            "slide_idx": pa.array([i % 3 for i in range(n)], pa.uint32()),
            "x": pa.array(range(n), pa.int32()),
        }
    )


def integers(n):
    columns = {}
    for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"):
        info = np.iinfo(name)
        edge = [int(info.min), int(info.max), 0, 1, int(info.max) - 1]
        values = [edge[i % len(edge)] for i in range(n)]
        columns[name] = pa.array(values, getattr(pa, name)())
        columns[f"{name}_null"] = pa.array(_some_null(values), getattr(pa, name)())
    return pa.table(columns)


def floats(n):
    edge = [0.0, -0.0, 1.5, float("nan"), float("inf"), float("-inf"), -2.75, 65504.0, 5.960464477539063e-08]
    columns = {}
    for kind in (np.float16, np.float32, np.float64):
        values = np.array([edge[i % len(edge)] for i in range(n)], dtype=kind)
        name = np.dtype(kind).name
        columns[name] = pa.array(values)
        columns[f"{name}_null"] = pa.array(values, mask=np.arange(n) % 4 == 2)
    columns["tiny"] = pa.array([5e-324 * (i + 1) for i in range(n)], pa.float64())
    return pa.table(columns)


def texts(n):
    words = [WORDS[i % len(WORDS)] * (1 + i % 4) for i in range(n)]
    raw = [bytes([i % 256, 0, 255]) * (i % 5) for i in range(n)]
    return pa.table(
        {
            "utf8": pa.array(_some_null(words), pa.string()),
            "large_utf8": pa.array(words, pa.large_string()),
            "utf8_view": pa.array(_some_null(words, 4), pa.string_view()),
            "binary": pa.array(raw, pa.binary()),
            "large_binary": pa.array(_some_null(raw), pa.large_binary()),
            "binary_view": pa.array(raw, pa.binary_view()),
            "fixed": pa.array([bytes([i % 256] * 7) for i in range(n)], pa.binary(7)),
            "fixed_null": pa.array(_some_null([bytes([i % 256] * 3) for i in range(n)]), pa.binary(3)),
        }
    )


def times(n):
    columns = {}
    base = [i * 86_400_000 - 3 for i in range(n)]
    for unit in ("s", "ms", "us", "ns"):
        columns[f"timestamp_{unit}"] = pa.array(_some_null(base), pa.int64()).cast(pa.timestamp(unit))
        columns[f"timestamp_{unit}_tz"] = pa.array(base, pa.int64()).cast(pa.timestamp(unit, "Europe/Berlin"))
        columns[f"duration_{unit}"] = pa.array(_some_null(base, 4), pa.int64()).cast(pa.duration(unit))
    for unit, kind in (("s", pa.int32()), ("ms", pa.int32()), ("us", pa.int64()), ("ns", pa.int64())):
        time = pa.time32(unit) if kind == pa.int32() else pa.time64(unit)
        columns[f"time_{unit}"] = pa.array(_some_null([i % 86_400 for i in range(n)]), kind).cast(time)
    columns["date32"] = pa.array(_some_null([i * 400 - 10 for i in range(n)]), pa.int32()).cast(pa.date32())
    columns["date64"] = pa.array(base, pa.int64()).cast(pa.timestamp("ms")).cast(pa.date64(), safe=False)
    columns["month_day_nano"] = pa.array(
        _some_null([pa.MonthDayNano([i, -i, i * 1_000_000_007]) for i in range(n)]),
        pa.month_day_nano_interval(),
    )
    return pa.table(columns)


def decimals(n):
    def numbers(digits, scale):
        with decimal.localcontext(prec=200):
            top = 10**digits - 1
            out = [decimal.Decimal((-1) ** i * (top // (i + 1))).scaleb(-scale) for i in range(n)]
        return _some_null(out)

    return pa.table(
        {
            "decimal32": pa.array(numbers(9, 2), pa.decimal32(9, 2)),
            "decimal64": pa.array(numbers(18, 4), pa.decimal64(18, 4)),
            "decimal128": pa.array(numbers(38, 10), pa.decimal128(38, 10)),
            "decimal256": pa.array(numbers(76, 20), pa.decimal256(76, 20)),
        }
    )


def nested(n):
    lists = [None if i % 5 == 4 else [None if j == 2 else j for j in range(i % 4)] for i in range(n)]
    structs = [None if i % 4 == 3 else {"x": i, "y": None if i % 2 else f"s{i}"} for i in range(n)]
    inner = pa.struct([pa.field("x", pa.int64()), pa.field("y", pa.string())])
    deep = pa.list_(
        pa.struct(
            [
                pa.field("tags", pa.list_(pa.string())),
                pa.field("box", pa.list_(pa.float32(), 4), metadata={"unit": "µm"}),
                pa.field("required", pa.uint8(), nullable=False),
            ]
        )
    )
    deep_values = [
        (
            None
            if i % 6 == 5
            else [
                {
                    "tags": None if j == 1 else WORDS[: j + 1],
                    "box": None if j == 2 else [j, i, 0.5, -1.0],
                    "required": j,
                }
                for j in range(i % 4)
            ]
        )
        for i in range(n)
    ]
    return pa.table(
        {
            "list": pa.array(lists, pa.list_(pa.int32())),
            "large_list": pa.array(lists, pa.large_list(pa.field("entry", pa.int16(), metadata={"k": "v"}))),
            "fixed_list": pa.array(
                [None if i % 4 == 1 else [i, None, -i] for i in range(n)], pa.list_(pa.int64(), 3)
            ),
            "struct": pa.array(structs, inner),
            "empty_struct": pa.array([{} if i % 2 else None for i in range(n)], pa.struct([])),
            "deep": pa.array(deep_values, deep),
            "map": pa.array(
                [
                    None if i % 4 == 2 else [(f"k{j}", None if j == 1 else j * i) for j in range(i % 3)]
                    for i in range(n)
                ],
                pa.map_(pa.string(), pa.int32()),
            ),
            "list_of_dictionary": pa.array(
                [[WORDS[j % len(WORDS)] for j in range(i % 3)] for i in range(n)], pa.list_(pa.string())
            ).cast(pa.list_(pa.dictionary(pa.int32(), pa.string()))),
        }
    )


def list_views(n):
    lists = [None if i % 5 == 4 else [None if j == 2 else j for j in range(i % 4)] for i in range(n)]
    return pa.table(
        {
            "list_view": pa.array(lists, pa.list_view(pa.int32())),
            "large_list_view": pa.array(
                [None if v is None else [str(e) for e in v] for v in lists], pa.large_list_view(pa.string())
            ),
        }
    )


def run_ends(n):
    runs = max(1, (n + 2) // 3)
    ends = [min(3 * (i + 1), n) for i in range(runs)] if n else []
    values = [None if i % 4 == 3 else f"run{i}" for i in range(len(ends))]
    return pa.table(
        {
            "ree32": pa.RunEndEncodedArray.from_arrays(
                pa.array(ends, pa.int32()), pa.array(values, pa.string())
            ),
            "ree16": pa.RunEndEncodedArray.from_arrays(
                pa.array(ends, pa.int16()), pa.array(range(len(ends)), pa.float64())
            ),
        }
    )


def unions(n):
    codes = pa.array([(5, 7)[i % 2] for i in range(n)], pa.int8())
    sparse = pa.UnionArray.from_sparse(
        codes,
        [pa.array(range(n), pa.int32()), pa.array([f"u{i}" for i in range(n)], pa.string())],
        ["a", "b"],
        [5, 7],
    )
    offsets = pa.array([i // 2 for i in range(n)], pa.int32())
    half = (n + 1) // 2
    dense = pa.UnionArray.from_dense(
        codes,
        offsets,
        [pa.array(_some_null(list(range(half))), pa.int64()), pa.array([f"d{i}" for i in range(half)])],
        ["a", "b"],
        [5, 7],
    )
    return pa.table({"sparse": sparse, "dense": dense})


def dictionaries(n):
    names = [("tumor", "stroma", None, "Ünïcode")[i % 4] for i in range(n)]
    return pa.table(
        {
            "int8": pa.array(names, pa.string())
            .dictionary_encode()
            .cast(pa.dictionary(pa.int8(), pa.string())),
            "uint16": pa.array(names, pa.string())
            .dictionary_encode()
            .cast(pa.dictionary(pa.uint16(), pa.string())),
            "int64": pa.array(names, pa.string())
            .dictionary_encode()
            .cast(pa.dictionary(pa.int64(), pa.string())),
            "ordered": pa.DictionaryArray.from_arrays(
                pa.array([i % 3 for i in range(n)], pa.int32()),
                pa.array(["low", "mid", "high"]),
                ordered=True,
            ),
            "null_inside": pa.DictionaryArray.from_arrays(
                pa.array(_some_null([i % 3 for i in range(n)]), pa.int8()),
                pa.array([1.5, None, -2.0], pa.float64()),
            ),
            "large": pa.DictionaryArray.from_arrays(
                pa.array([i % 2 for i in range(n)], pa.int16()), pa.array(["a" * 300, "b"], pa.large_string())
            ),
            "unused": pa.DictionaryArray.from_arrays(
                pa.array([None] * n, pa.int32()), pa.array([b"x", b"y"], pa.binary())
            ),
        }
    )


def _cut(values, kind, sizes):
    chunks, start = [], 0
    for size in sizes:
        chunks.append(pa.array(values[start : start + size], kind))
        start += size
    chunks.append(pa.array(values[start:], kind))
    return pa.chunked_array(chunks, kind)


def chunked(n):
    """Columns cut in different places, with empty chunks at both ends and inside."""
    return pa.table(
        {
            "a": _cut(list(range(n)), pa.int64(), [0, n // 3, 0, n // 4, 0]),
            "b": _cut([WORDS[i % len(WORDS)] for i in range(n)], pa.string(), [1, 0, n // 2]),
            "c": _cut(_some_null([i % 2 == 0 for i in range(n)]), pa.bool_(), []),
        }
    )


def chunked_dictionaries(n):
    """Every chunk with another dictionary, which the stream has to replace."""
    chunks = [
        pa.DictionaryArray.from_arrays(
            pa.array([0, 1, None, 1], pa.int8()), pa.array([f"p{part}", f"q{part}"])
        )
        for part in range(n // 4)
    ]
    rest = n - 4 * len(chunks)
    chunks.append(pa.DictionaryArray.from_arrays(pa.array([0] * rest, pa.int8()), pa.array(["rest"])))
    return pa.table({"category": pa.chunked_array(chunks), "row": pa.array(range(n), pa.int32())})


def growing_dictionaries(n):
    """Every chunk's dictionary continues the one before it."""
    words = [f"w{i}" for i in range(max(1, n))]
    chunks, row = [], 0
    while row < n:
        size = min(3, n - row)
        indices = pa.array(range(row, row + size), pa.int32())
        chunks.append(pa.DictionaryArray.from_arrays(indices, pa.array(words[: row + size])))
        row += size
    if not chunks:
        chunks = [pa.DictionaryArray.from_arrays(pa.array([], pa.int32()), pa.array(words))]
    return pa.table({"word": pa.chunked_array(chunks)})


def nulls(n):
    kinds = [
        pa.null(),
        pa.bool_(),
        pa.int16(),
        pa.float32(),
        pa.string(),
        pa.large_binary(),
        pa.string_view(),
        pa.binary(4),
        pa.list_(pa.int8()),
        pa.struct([pa.field("a", pa.int8())]),
        pa.timestamp("us", "UTC"),
        pa.dictionary(pa.int8(), pa.string()),
        pa.list_(pa.int8(), 2),
        pa.map_(pa.string(), pa.int8()),
        pa.decimal128(10, 2),
    ]
    return pa.table({f"{i}_{kind}": pa.nulls(n, kind) for i, kind in enumerate(kinds)})


def booleans(n):
    flags = [random.Random(n + i).random() < 0.5 for i in range(n)]
    return pa.table(
        {
            "flag": pa.array(flags, pa.bool_()),
            "flag_null": pa.array(_some_null(flags), pa.bool_()),
        }
    )


def sliced(n):
    """A window into larger arrays, starting where no bitmap byte starts."""
    whole = nested(n + 11)
    for other in (booleans(n + 11), texts(n + 11), dictionaries(n + 11)):
        for name, column in zip(other.column_names, other.columns):
            whole = whole.append_column(f"s_{name}", column)
    return whole.slice(5, n)


def many_columns(n):
    kinds = (pa.int32(), pa.float64(), pa.string(), pa.bool_())
    data = ([1], [0.5], ["s"], [True])
    return pa.table({f"column_{i:03}": pa.array(data[i % 4] * n, kinds[i % 4]) for i in range(600)})


def odd_names(n):
    names = [
        "",
        " ",
        "Ünïcode ☃",
        "a.b",
        'a"b',
        "new\nline",
        "日本語",
        "same",
        "same",
        "Offset",
        "x" * 300,
        "nul\0",
    ]
    return pa.Table.from_arrays([pa.array([i] * n, pa.int16()) for i in range(len(names))], names=names)


def metadata(n):
    fields = [
        pa.field(
            "item_id", pa.string(), nullable=False, metadata={"note": "é", "": "empty key", "empty": ""}
        ),
        pa.field("value", pa.int8(), nullable=False),
        pa.field("tagged", pa.list_(pa.field("item", pa.int8(), nullable=False)), metadata={"unit": "px"}),
    ]
    schema = pa.schema(
        fields,
        metadata={"owner": "Ünit ☃", "schema_version": "1", "json": '{"a": [1, 2]}', "long": "x" * 5000},
    )
    columns = [[f"m{i}" for i in range(n)], [i % 100 for i in range(n)], [[i % 7] for i in range(n)]]
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, fields)], schema=schema)


def storage_names(n):
    """The caller's own columns of the names that the container computes."""
    return pa.table(
        {
            "offset": pa.array(["text"] * n, pa.string()),
            "item_id": pa.array(range(n), pa.int32()),
            "crc32": pa.array([0.5] * n, pa.float64()),
            "x": pa.array([True] * n, pa.bool_()),
        }
    )


def storage_names_reordered(n):
    schema = pa.schema(
        [
            pa.field("crc32", pa.uint32(), nullable=False, metadata={"gone": "yes"}),
            pa.field("length", pa.list_(pa.int8())),
            pa.field("offset", pa.uint64(), nullable=False),
        ],
        metadata={"kept": "yes"},
    )
    return pa.table(
        [
            pa.array([7] * n, pa.uint32()),
            pa.array([[1]] * n, pa.list_(pa.int8())),
            pa.array([9] * n, pa.uint64()),
        ],
        schema=schema,
    )


SHAPES = [
    plain,
    integers,
    floats,
    texts,
    times,
    decimals,
    nested,
    list_views,
    run_ends,
    unions,
    dictionaries,
    chunked,
    chunked_dictionaries,
    growing_dictionaries,
    nulls,
    booleans,
    sliced,
    many_columns,
    odd_names,
    metadata,
    storage_names,
    storage_names_reordered,
]


def no_columns():
    return pa.table({})
