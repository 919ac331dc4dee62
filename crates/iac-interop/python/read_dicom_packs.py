"""Says what the reference makes of patient packs.

Arguments: a folder for exported files. Standard input: one pack per line. Prints one JSON object
per pack: whether it is valid, and for each row the sum of its samples or None, and the exported
file or what export failed with.
"""

import contextlib
import hashlib
import io
import json
import sys
import warnings
from pathlib import Path

from iatro.iac.adapters.dicom import DicomPatientReader



def pixels(reader, row):
    try:
        array = reader.read_pixel_array(row)
    except ValueError as error:
        return None if "no Pixel Data" in str(error) else {"error": repr(error)}
    except Exception as error:
        return {"error": repr(error)}
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return {
        "dtype": array.dtype.name,
        "shape": list(array.shape),
        "sha256": hashlib.sha256(little.tobytes()).hexdigest(),
    }


def look(path, folder, position):
    told = {"rows": []}
    reader = DicomPatientReader(path)
    for row in range(reader.record_count):
        told["rows"].append(one := {"pixels": pixels(reader, row)})
        target = folder / f"{position}_{row}.dcm"
        try:
            reader.write_dicom(row, target)
            one["file"] = str(target)
        except Exception as error:
            one["error"] = repr(error)
    reader.close()
    return told


def main():
    folder = Path(sys.argv[1])
    for position, line in enumerate(sys.stdin):
        # Warnings of the libraries are not what is asked for.
        with contextlib.redirect_stdout(io.StringIO()):
            told = look(line.rstrip("\n"), folder, position)
        print(json.dumps(told), flush=True)


warnings.simplefilter("ignore")
main()
