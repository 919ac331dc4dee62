"""How tables, headers and records are written down as JSON so that both sides can compare them.

The form avoids everything on which two JSON libraries may disagree: floating-point numbers are the
hexadecimal digits of their bits, binary values are hexadecimal, times are their stored integers,
decimals their unscaled integers as text. The type of a column stands beside its values, so the
values need no tags.
"""

import decimal
import hashlib
import struct

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

_PLAIN = {
    pa.null(): "null",
    pa.bool_(): "bool",
    pa.int8(): "int8",
    pa.int16(): "int16",
    pa.int32(): "int32",
    pa.int64(): "int64",
    pa.uint8(): "uint8",
    pa.uint16(): "uint16",
    pa.uint32(): "uint32",
    pa.uint64(): "uint64",
    pa.float16(): "float16",
    pa.float32(): "float32",
    pa.float64(): "float64",
    pa.string(): "utf8",
    pa.large_string(): "large_utf8",
    pa.string_view(): "utf8_view",
    pa.binary(): "binary",
    pa.large_binary(): "large_binary",
    pa.binary_view(): "binary_view",
    pa.date32(): "date32",
    pa.date64(): "date64",
    pa.month_day_nano_interval(): "month_day_nano",
}


def type_json(kind):
    """A type as JSON: a word, or a list of a word and its parameters."""
    if kind in _PLAIN:
        return _PLAIN[kind]
    if pt.is_timestamp(kind):
        return ["timestamp", kind.unit, kind.tz]
    if pt.is_time(kind):
        return ["time", kind.bit_width, kind.unit]
    if pt.is_duration(kind):
        return ["duration", kind.unit]
    if pt.is_decimal(kind):
        return ["decimal", kind.bit_width, kind.precision, kind.scale]
    if pt.is_fixed_size_binary(kind):
        return ["fixed_size_binary", kind.byte_width]
    if pt.is_dictionary(kind):
        return ["dictionary", type_json(kind.index_type), type_json(kind.value_type), kind.ordered]
    if pt.is_run_end_encoded(kind):
        return ["run_end_encoded", type_json(kind.run_end_type), type_json(kind.value_type)]
    if pt.is_map(kind):
        return ["map", field_json(kind.key_field), field_json(kind.item_field), kind.keys_sorted]
    if pt.is_fixed_size_list(kind):
        return ["fixed_size_list", kind.list_size, field_json(kind.value_field)]
    for test, name in (
        (pt.is_large_list_view, "large_list_view"),
        (pt.is_list_view, "list_view"),
        (pt.is_large_list, "large_list"),
        (pt.is_list, "list"),
    ):
        if test(kind):
            return [name, field_json(kind.value_field)]
    if pt.is_struct(kind):
        return ["struct", [field_json(kind.field(i)) for i in range(kind.num_fields)]]
    if pt.is_union(kind):
        fields = [field_json(kind.field(i)) for i in range(kind.num_fields)]
        return ["union", kind.mode, list(kind.type_codes), fields]
    raise TypeError(f"no JSON form for the type {kind}")


def metadata_json(metadata):
    return {k.decode(): v.decode() for k, v in (metadata or {}).items()}


def field_json(field):
    return {
        "name": field.name,
        "type": type_json(field.type),
        "nullable": field.nullable,
        "metadata": metadata_json(field.metadata),
    }


def _bits(array, width):
    text = array.view(getattr(pa, f"uint{width}")()).to_pylist()
    return [None if v is None else format(v, f"0{width // 4}x") for v in text]


def values_json(array):
    """The values of one array, nulls as None."""
    kind = array.type
    if pt.is_dictionary(kind):
        return values_json(array.dictionary_decode())
    if pt.is_run_end_encoded(kind):
        return values_json(pc.run_end_decode(array))
    if pt.is_floating(kind):
        return _bits(array, kind.bit_width)
    if pt.is_timestamp(kind) or pt.is_date(kind) or pt.is_time(kind) or pt.is_duration(kind):
        return array.view(pa.int32() if kind.bit_width == 32 else pa.int64()).to_pylist()
    if pt.is_decimal(kind):
        with decimal.localcontext(prec=200):
            return [None if v is None else str(int(v.scaleb(kind.scale))) for v in array.to_pylist()]
    if kind == pa.month_day_nano_interval():
        return [None if v is None else list(v) for v in array.to_pylist()]
    if (
        pt.is_binary(kind)
        or pt.is_large_binary(kind)
        or pt.is_fixed_size_binary(kind)
        or kind == pa.binary_view()
    ):
        return [None if v is None else v.hex() for v in array.to_pylist()]
    if pt.is_map(kind):
        keys, items, out = array.keys, array.items, []
        offsets = array.offsets.to_pylist()
        for i in range(len(array)):
            if not array[i].is_valid:
                out.append(None)
                continue
            start, count = offsets[i], offsets[i + 1] - offsets[i]
            pairs = zip(values_json(keys.slice(start, count)), values_json(items.slice(start, count)))
            out.append([list(pair) for pair in pairs])
        return out
    if (
        pt.is_list(kind)
        or pt.is_large_list(kind)
        or pt.is_fixed_size_list(kind)
        or pt.is_list_view(kind)
        or pt.is_large_list_view(kind)
    ):
        return [values_json(v.values) if v.is_valid else None for v in array]
    if pt.is_struct(kind):
        children = [values_json(array.field(i)) for i in range(kind.num_fields)]
        valid = array.is_valid().to_pylist()
        return [[c[i] for c in children] if valid[i] else None for i in range(len(array))]
    if pt.is_union(kind):
        codes = array.type_codes.to_pylist()
        place = {code: position for position, code in enumerate(kind.type_codes)}
        children = [values_json(array.field(i)) for i in range(kind.num_fields)]
        offsets = array.offsets.to_pylist() if kind.mode == "dense" else range(len(array))
        return [[code, children[place[code]][offset]] for code, offset in zip(codes, offsets)]
    return array.to_pylist()


def table_json(table):
    """Schema and values of a table. How it is cut into batches is told apart, see `batch_rows`."""
    return {
        "fields": [field_json(f) for f in table.schema],
        "metadata": metadata_json(table.schema.metadata),
        "rows": table.num_rows,
        "columns": [
            [value for chunk in column.chunks for value in values_json(chunk)] for column in table.columns
        ],
    }


def batch_rows(stream):
    """Rows of each record batch of an Arrow stream."""
    return [batch.num_rows for batch in pa.ipc.open_stream(stream)]


def json_value(value):
    """A header value: numbers that are no 64-bit integers as {"$f64": bits}."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**64 else {"$f64": struct.pack(">d", float(value)).hex()}
    if isinstance(value, float):
        return {"$f64": struct.pack(">d", value).hex()}
    if isinstance(value, dict):
        return {k: json_value(v) for k, v in value.items()}
    return [json_value(v) for v in value]


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def sums(records):
    """What a list of records is compared by."""
    return [{"bytes": len(r), "sha256": sha256(r)} for r in records]


def spans(length, read):
    """Spans of a data segment, the edges among them, as `read(offset, length)` gives them."""
    third, half = length // 3, length // 2
    picks = {(0, 0), (length, 0), (0, length), (half, length - half), (third, min(5, length - third))}
    picks.add((max(0, length - 1), min(1, length)))
    return [{"offset": at, "length": size, "sha256": sha256(read(at, size))} for at, size in sorted(picks)]
