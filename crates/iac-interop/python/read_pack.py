"""Opens packs with the reference and prints what it sees, one JSON object per line.

Each step stands for itself: {"ok": result} or {"error": exception class, "message": text}.

Usage: read_pack.py [--undecoded | --header] [PATH...]

Without paths there is one path per line of standard input. `--undecoded` leaves out decoded records,
and `--header` everything but the header.
"""

import json
import sys

from iatro import iac

import wire


def step(work, *arguments):
    try:
        return {"ok": work(*arguments)}
    except Exception as error:
        return {"error": type(error).__name__, "message": str(error)[:300]}


def shuffled(count):
    """Rows in an order that is not the stored one, some of them twice."""
    rows = [(i * 7 + 3) % count for i in range(count)]
    return rows + rows[:5]


def matrix_sums(matrix):
    little = matrix.astype(matrix.dtype.newbyteorder("<"), copy=False)
    return {
        "dtype": matrix.dtype.name,
        "shape": list(matrix.shape),
        "rows": wire.sums(r.tobytes() for r in little),
    }


def contiguous(path, rows):
    batch = iac.VariableRecordPack(path).read_many_contiguous(rows)
    return {"sums": wire.sums(bytes(batch.view(i)) for i in range(len(rows))), "offsets": list(batch.offsets)}


def look(path, depth=""):
    """All ways in which the reference reads one file, as far as the depth goes."""
    iac.clear_caches()
    reader = iac.PackReader(path)
    seen = {"path": path, "header": step(lambda: wire.json_value(reader.header))}
    if depth == "--header":
        reader.close()
        return seen
    seen["slide_table"] = step(lambda: wire.table_json(reader.slide_table))
    seen["index_table"] = step(lambda: wire.table_json(reader.index_table))
    if "ok" not in seen["header"]:
        seen["read_payload"] = [step(lambda: wire.sums([reader.read_payload(0)])[0])]
        return seen
    header = reader.header
    seen["spans"] = step(lambda: wire.spans(header["data_length"], reader.read_data_span))
    if "ok" not in seen["index_table"]:
        seen["read_payload"] = [step(lambda: wire.sums([reader.read_payload(0)])[0])]
        return seen
    count = reader.index_table.num_rows
    if "feature_record_bytes" in header or "feature_dim" in header:
        pack = iac.FixedRecordPack(path)
        seen["fixed_read"] = [
            step(lambda row=row: wire.sums([pack.read(row).tobytes()])[0]) for row in range(count)
        ]
        seen["fixed_matrix"] = step(lambda: matrix_sums(pack.read_matrix(range(count))))
        seen["fixed_shuffled"] = step(lambda: matrix_sums(pack.read_matrix(shuffled(count))))
        return seen
    seen["read_payload"] = [
        step(lambda row=row: wire.sums([reader.read_payload(row)])[0]) for row in range(count)
    ]
    seen["past_the_end"] = step(lambda: len(reader.read_payload(count)))
    if "offset" not in reader.index_table.column_names:
        # The reference ends in a type error of its own for views of such a pack.
        seen["read_payloads"] = step(lambda: wire.sums(reader.read_payloads([0])))
        return seen
    rows = shuffled(count)
    seen["read_payloads"] = step(lambda: wire.sums(reader.read_payloads(rows)))
    seen["views"] = step(lambda: wire.sums(bytes(v) for v in reader.read_payload_views(rows)))
    seen["iter_payloads"] = step(lambda: wire.sums(iac.iter_payloads(path)))
    seen["contiguous"] = step(contiguous, path, rows)
    if depth == "--undecoded":
        reader.close()
        return seen
    pack = iac.VariableRecordPack(path)
    seen["decoded"] = [
        step(lambda row=row: wire.sums([bytes(pack.read(row))])[0]) for row in range(min(count, 50))
    ]
    reader.close()
    return seen


def main():
    depth = "".join(word for word in sys.argv[1:] if word in ("--undecoded", "--header"))
    paths = [word for word in sys.argv[1:] if word != depth]
    for path in paths or (line.rstrip("\n") for line in sys.stdin):
        print(json.dumps(look(path, depth)), flush=True)


if __name__ == "__main__":
    main()
