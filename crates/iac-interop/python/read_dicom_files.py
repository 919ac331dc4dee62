"""Says what others make of the images of DICOM files.

Standard input: one file per line. Prints one JSON object per file: its transfer syntax, a sum of
its data set, and under `images`, by the name of a decoder, type, shape and sum of the samples as
they are stored. pydicom decodes what it and its plug-ins can; imagecodecs gets the streams that
pydicom finds in the file.
"""

import hashlib
import json
import sys
import warnings

import imagecodecs
import numpy
import pydicom
from pydicom.encaps import generate_frames
from pydicom.pixels import get_decoder, pixel_array
from pydicom.uid import UID

STREAMS = {
    "1.2.840.10008.1.2.4.80": imagecodecs.jpegls_decode,
    "1.2.840.10008.1.2.4.90": imagecodecs.jpeg2k_decode,
    "1.2.840.10008.1.2.4.201": imagecodecs.htj2k_decode,
    "1.2.840.10008.1.2.4.110": imagecodecs.jpegxl_decode,
}


def told(array):
    array = numpy.ascontiguousarray(array)
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return {
        "dtype": array.dtype.name,
        "shape": list(array.shape),
        "sha256": hashlib.sha256(little.tobytes()).hexdigest(),
    }


def signed(array, data):
    """Extends the sign of samples whose decoder gave their bits alone."""
    width = data.BitsAllocated
    words = array.astype(f"i{array.dtype.itemsize}").astype(f"u{width // 8}", casting="unsafe")
    if not data.PixelRepresentation:
        return words
    spare = width - data.BitsStored
    return (words << spare).astype(words.dtype).view(f"i{width // 8}") >> spare


def with_pydicom(data, syntax):
    """The samples by each of the decoders that pydicom finds."""
    found = {}
    # One that pydicom has not heard of yet.
    if not syntax.is_transfer_syntax:
        return found
    if not syntax.is_encapsulated:
        found["pydicom"] = told(pixel_array(data, raw=True))
        return found
    try:
        decoder = get_decoder(syntax)
    except NotImplementedError:
        return found
    for plugin in decoder.available_plugins:
        try:
            # Colours as they are stored.
            array, _ = decoder.as_array(data, raw=True, decoding_plugin=plugin)
        except RuntimeError:
            # Some plug-ins refuse some forms; others take their turn.
            continue
        found[f"pydicom with {plugin}"] = told(array)
    return found


def look(path):
    data = pydicom.dcmread(path)
    syntax = UID(data.file_meta.TransferSyntaxUID)
    images = {}
    if "PixelData" in data:
        images = with_pydicom(data, syntax)
        if decode := STREAMS.get(str(syntax)):
            stream = next(generate_frames(data.PixelData, number_of_frames=1))
            array = decode(stream)
            # This decoder gives one plane after the other.
            if decode is imagecodecs.htj2k_decode and data.SamplesPerPixel == 3:
                array = numpy.moveaxis(array, 0, -1)
            images["imagecodecs"] = told(signed(array, data))
    return {"syntax": str(syntax), "elements": len(data), "images": images}


def main():
    for line in sys.stdin:
        try:
            answer = look(line.rstrip("\n"))
        except Exception as error:
            answer = {"error": repr(error)}
        print(json.dumps(answer), flush=True)


warnings.simplefilter("ignore")
main()
