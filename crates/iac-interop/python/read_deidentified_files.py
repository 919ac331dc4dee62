"""Says what pydicom sees in DICOM files.

Standard input: one file per line. Prints one JSON object per file: some elements as text, how many
elements there are at every depth, and the sum of the samples or None.
"""

import hashlib
import json
import sys
import warnings

import pydicom

SHOWN = [
    "PatientID", "PatientName", "PatientIdentityRemoved", "DeidentificationMethod", "StudyInstanceUID",
    "SOPInstanceUID", "StudyDate", "LongitudinalTemporalInformationModified",
]


def look(path):
    data = pydicom.dcmread(path)
    told = {name: str(data[name].value) for name in SHOWN if name in data}
    told["meta_uid"] = str(data.file_meta.MediaStorageSOPInstanceUID)
    told["codes"] = [str(item.CodeValue) for item in data.get("DeidentificationMethodCodeSequence", [])]
    # Every value is converted, as a reader would.
    told["elements"] = sum(1 for element in data.iterall() if element.value is not False)
    told["private"] = sum(1 for element in data.iterall() if element.tag.is_private)
    told["samples"] = None
    # Colours that are no RGB are converted by pydicom.
    if "PixelData" in data and not data.PhotometricInterpretation.startswith("YBR"):
        array = data.pixel_array
        told["samples"] = hashlib.sha256(array.astype(array.dtype.newbyteorder("<")).tobytes()).hexdigest()
    return told


warnings.simplefilter("ignore")
for line in sys.stdin:
    print(json.dumps(look(line.rstrip("\n"))), flush=True)
