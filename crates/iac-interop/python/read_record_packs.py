"""Opens packs with the reference's pack classes and prints what they give, one JSON object per line.

Standard input has one path per line.
"""

import json
import sys
import warnings

import numpy as np
from iatro import iac

import wire
from read_pack import matrix_sums, shuffled, step


def plain_sums(records):
    return wire.sums(bytes(record) for record in records)


def contiguous(pack, rows, **more):
    batch = pack.read_many_contiguous(rows, **more)
    return plain_sums(batch.view(place) for place in range(batch.record_count))


def variable(pack, seen):
    count = pack.record_count
    rows = shuffled(count)
    seen["stored"] = step(lambda: plain_sums(pack.read_bytes(row) for row in range(count)))
    seen["read"] = [step(lambda row=row: plain_sums([pack.read(row)])[0]) for row in range(count)]
    seen["many"] = step(lambda: plain_sums(pack.read_many(rows)))
    seen["many_serial"] = step(lambda: plain_sums(pack.read_many(rows, workers=1)))
    seen["contiguous"] = step(contiguous, pack, rows)
    seen["contiguous_serial"] = step(lambda: contiguous(pack, rows, workers=1))


def fixed(pack, seen):
    count = pack.record_count
    rows = shuffled(count)
    seen["read"] = [step(lambda row=row: wire.sums([pack.read(row).tobytes()])[0]) for row in range(count)]
    seen["matrix"] = step(lambda: matrix_sums(pack.read_matrix(rows)))
    seen["many"] = step(
        lambda: {
            "dtypes": sorted({row.dtype.name for row in pack.read_many(rows)}),
            "rows": wire.sums(row.tobytes() for row in pack.read_many(rows)),
        }
    )


def look(path):
    iac.clear_caches()
    header = iac.read_header(path)
    is_fixed = "feature_dim" in header
    pack = iac.FixedRecordPack(path) if is_fixed else iac.VariableRecordPack(path)
    seen = {
        "header": wire.json_value(header),
        "rows": [pack.slide_table.num_rows, pack.index_table.num_rows, pack.record_count],
    }
    (fixed if is_fixed else variable)(pack, seen)
    pack.close()
    return seen


def main():
    # Said for every complex matrix that is read as float32.
    warnings.simplefilter("ignore", np.exceptions.ComplexWarning)
    for line in sys.stdin:
        print(json.dumps(look(line.rstrip("\n"))), flush=True)


if __name__ == "__main__":
    main()
