"""Has the reference build patient packs.

Arguments: a folder. Standard input: one JSON array of source files per line. Prints for each the
pack, or what building failed with.
"""

import json
import sys
import warnings
from pathlib import Path

from iatro.iac.adapters.dicom import build_dicom_patient_package_from_files


def main():
    folder = Path(sys.argv[1])
    for position, line in enumerate(sys.stdin):
        target = folder / f"{position}.rad.iac"
        try:
            build_dicom_patient_package_from_files(
                [Path(file) for file in json.loads(line)], target, effort=1, workers=1
            )
            told = {"pack": str(target)}
        except Exception as error:
            told = {"error": repr(error)}
        print(json.dumps(told), flush=True)


warnings.simplefilter("ignore")
main()
