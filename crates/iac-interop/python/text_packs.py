"""Writes and reads packs of clinical text with the reference.

Usage: text_packs.py write KIND PATH QUALITY   patients come as a JSON array on standard input
       text_packs.py read KIND                 one path per line on standard input; prints one JSON
                                               object for each

KIND is `text` or `pair`.
"""

import dataclasses
import json
import sys

from iatro.iac.adapters import text, text_pair


def kind_of(name):
    if name == "text":
        return (
            text.PatientText,
            text.ClinicalDoc,
            text.build_clinical_text_pack,
            text.ClinicalTextReader,
        )
    return (
        text_pair.PatientTextPairs,
        text_pair.ClinicalTextPairDoc,
        text_pair.build_clinical_text_pair_pack,
        text_pair.ClinicalTextPairReader,
    )


def write(name, path, quality):
    patient, doc, build, _ = kind_of(name)
    patients = [
        patient(one["patient_id"], one["institution"], [doc(**members) for members in one["docs"]])
        for one in json.load(sys.stdin)
    ]
    build(path, patients, quality=int(quality))


def read(name):
    reader_class = kind_of(name)[3]
    for line in sys.stdin:
        reader = reader_class(line.rstrip("\n"))
        rows = [dataclasses.asdict(reader.read_patient_at(row)) for row in range(reader.record_count)]
        ids = list(reader.patient_ids)
        by_id = [dataclasses.asdict(reader.read_patient(one)) for one in ids]
        reader.close()
        print(json.dumps({"rows": rows, "ids": ids, "by_id": by_id}), flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "write":
        write(*sys.argv[2:])
    else:
        read(sys.argv[2])
