"""The reference packages' side of the comparison.

Takes commands on standard input and answers on standard output, one JSON object per line, until
the input ends. Measurements give the seconds of wall time and of processor time (user and system,
all threads) that the whole command took.
"""

import gc
import io
import itertools
import json
import os
import sys
import time
import zlib

import numpy
import pyarrow
import pydicom
from iatro import iac
from iatro.iac.adapters import dicom, features, text, tiles, wsi

STATE = {"records": {}}


def status(name):
    with open("/proc/self/status") as file:
        for line in file:
            if line.startswith(name + ":"):
                return int(line.split()[1]) * 1024
    raise KeyError(name)


def resident():
    return status("RssAnon") + status("RssFile")


def written():
    with open("/proc/self/io") as file:
        counters = dict(line.split(": ") for line in file.read().splitlines())
    return int(counters["wchar"]), int(counters["write_bytes"])


def measured(work):
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return {"wall": wall, "cpu": cpu}


def load_batches(command):
    rows, size = numpy.fromfile(command["rows"], dtype="<u8"), command["batch"]
    STATE["batches"] = [rows[at : at + size].tolist() for at in range(0, len(rows), size)]


def use(command):
    """Opens a pack and reads all of it once, so that its pages are mapped."""
    reader = iac.PackReader(command["path"])
    size = command["batch"]
    STATE["reader"] = reader
    STATE["path"] = command["path"]
    load_batches(command)
    count = reader.index_table.num_rows
    for first in range(0, count, size):
        some = list(range(first, min(first + size, count)))
        reader.read_payloads(some)
        reader.read_payload_views(some)
    gc.collect()
    return {"rows": count}


def batches(command):
    return STATE["batches"][command["first"] : command["first"] + command["count"]]


def check(command):
    """The checksum of some batches, to be compared with ours."""
    payloads, views = 0, 0
    for rows in batches(command):
        for payload in STATE["reader"].read_payloads(rows):
            payloads = zlib.crc32(payload, payloads)
        for view in STATE["reader"].read_payload_views(rows):
            views = zlib.crc32(view, views)
    return {"payloads": payloads, "views": views}


def payloads(command):
    chosen, read = batches(command), STATE["reader"].read_payloads

    def work():
        for rows in chosen:
            read(rows)

    return measured(work)


def views(command):
    chosen, read = batches(command), STATE["reader"].read_payload_views

    def work():
        for rows in chosen:
            read(rows)

    return measured(work)


def single(command):
    chosen = [row for rows in batches(command) for row in rows]
    read = STATE["reader"].read_payload

    def work():
        for row in chosen:
            read(row)

    return measured(work)


def sequential(command):
    def work():
        for _ in iac.iter_payloads(STATE["path"]):
            pass

    return measured(work)


def use_records(command):
    """Opens a pack for decoding under a name, and decodes all of it once."""
    pack = iac.VariableRecordPack(command["path"])
    STATE["records"][command["name"]] = pack
    load_batches(command)
    count, size = pack.record_count, command["batch"]
    for first in range(0, count, size):
        pack.read_many_contiguous(range(first, min(first + size, count)), workers=1)
    gc.collect()
    return {"rows": count}


def check_records(command):
    """The checksum of some batches, to be compared with ours."""
    pack, found = STATE["records"][command["name"]], 0
    for rows in batches(command):
        batch = pack.read_many_contiguous(rows, workers=1)
        for at in range(batch.record_count):
            found = zlib.crc32(batch.view(at), found)
    return {"sum": found}


def records_contiguous(command):
    chosen, read = batches(command), STATE["records"][command["name"]].read_many_contiguous

    def work():
        for rows in chosen:
            read(rows, workers=1)

    return measured(work)


def use_matrix(command):
    """Opens a fixed pack and reads all of it once, so that its pages are mapped."""
    pack = iac.FixedRecordPack(command["path"])
    STATE["matrix"] = pack
    load_batches(command)
    count, size = pack.record_count, command["batch"]
    for first in range(0, count, size):
        pack.read_matrix(range(first, min(first + size, count)))
    gc.collect()
    return {"rows": count}


def check_matrix(command):
    """The checksum of some batches, to be compared with ours."""
    found = 0
    for rows in batches(command):
        found = zlib.crc32(STATE["matrix"].read_matrix(rows).tobytes(), found)
    return {"sum": found}


def matrix(command):
    chosen, read = batches(command), STATE["matrix"].read_matrix

    def work():
        kept = None  # a batch lives until the next one is there, as in a loop that uses it
        for rows in chosen:
            kept = read(rows)
        del kept

    return measured(work)


def open_first(command):
    """Opens a pack and reads one record, several times."""
    path, row = command["path"], command["row"]

    def work():
        for _ in range(command["repeat"]):
            iac.clear_caches()
            iac.PackReader(path).read_payload(row)

    return measured(work)


def open_memory(command):
    """What a pack that was just opened holds in memory."""
    before = resident()
    reader = iac.PackReader(command["path"])
    reader.index_table.schema
    opened = resident()
    reader.read_payload(command["row"])
    return {"opened": opened - before, "first": resident() - before}


def use_image(command):
    """An image, and a payload of it, for two functions of imagecodecs."""
    import imagecodecs

    pixels = numpy.fromfile(command["pixels"], dtype=command["dtype"])
    functions = command["functions"]
    STATE["pixels"] = pixels.reshape(command["shape"])
    STATE["arguments"] = functions["arguments"]
    STATE["encode"] = getattr(imagecodecs, functions["encode"])
    STATE["decode"] = getattr(imagecodecs, functions["decode"])
    with open(command["payload"], "rb") as file:
        STATE["payload"] = file.read()
    STATE["place"] = STATE["decode"](STATE["payload"])
    return {}


def image_bytes(command):
    return {"bytes": len(STATE["encode"](STATE["pixels"], **STATE["arguments"]))}


def image_encode(command):
    encode, pixels, arguments = STATE["encode"], STATE["pixels"], STATE["arguments"]

    def work():
        for _ in range(command["count"]):
            encode(pixels, **arguments)

    return measured(work)


def image_decode(command):
    decode, payload, place = STATE["decode"], STATE["payload"], STATE["place"]

    def work():
        for _ in range(command["count"]):
            decode(payload, out=place)

    return measured(work)


def write(command):
    with open(command["pool"], "rb") as file:
        pool = file.read()
    size, count = command["record"], command["count"]
    pieces = [pool[at : at + size] for at in range(0, len(pool), size)]
    del pool
    index = pyarrow.table({"item_id": ["item-%08d" % row for row in range(count)]})
    header = {"payload_type": "benchmark", "codec": "none"}
    stream = itertools.islice(itertools.cycle(pieces), count)
    before = written()
    answer = measured(
        lambda: iac.build_pack_streaming(command["path"], header, pyarrow.table({}), index, stream)
    )
    after = written()
    answer["wchar"], answer["write_bytes"] = after[0] - before[0], after[1] - before[1]
    answer["file"] = os.path.getsize(command["path"])
    answer["peak"] = status("VmHWM")
    return answer


def use_text(command):
    """Opens a pack of clinical text and reads the index once."""
    reader = text.ClinicalTextReader(command["path"])
    STATE["text"] = reader
    load_batches(command)
    return {"rows": len(list(reader.patient_ids))}


def read_text(command):
    reader = STATE["text"]
    chosen = batches(command)

    def work():
        for rows in chosen:
            for row in rows:
                reader.read_patient_at(int(row))

    return measured(work)


def write_text(command):
    """Builds a pack from JSON lines, which are parsed before the clock starts."""
    with open(command["patients"], encoding="utf-8") as file:
        patients = [
            text.PatientText(
                one["patient_id"],
                one["institution"],
                [text.ClinicalDoc(**members) for members in one["docs"]],
            )
            for one in map(json.loads, file)
        ]
    return measured(
        lambda: text.build_clinical_text_pack(
            command["path"], patients, quality=command["quality"], overwrite=True
        )
    )


def use_tiles(command):
    reader = tiles.TilePackageReader(command["path"])
    STATE["tiles"] = reader
    load_batches(command)
    return {"rows": reader.record_count}


def check_tiles(command):
    """The sum of a tile's samples, to be compared with ours."""
    return {"sum": int(STATE["tiles"].read_array_at(command["row"]).sum(dtype="u8"))}


def read_tiles(command):
    chosen, read = STATE["batches"], STATE["tiles"].read_arrays_at

    def work():
        for rows in chosen:
            read(rows, workers=command["workers"])

    return measured(work)


def find_tile(command):
    """Opens a pack and reads the tile of an id: a call that gives the row alone is not there."""

    def work():
        for _ in range(command["repeat"]):
            iac.clear_caches()
            reader = tiles.TilePackageReader(command["path"])
            reader.read_image(command["id"])
            reader.close()

    return measured(work)


def find_tile_memory(command):
    before = status("RssAnon")
    reader = tiles.TilePackageReader(command["path"])
    reader.read_image(command["id"])
    return {"bytes": status("RssAnon") - before}


def use_features(command):
    """Opens a pack and reads all of it once, so that its pages are mapped."""
    reader = features.FeatureCacheReader(command["path"])
    STATE["features"] = reader
    load_batches(command)
    count, size = reader.record_count, command["batch"]
    for first in range(0, count, size):
        reader.read_features_at(range(first, min(first + size, count)))
    gc.collect()
    return {"rows": count}


def as_floats(rows):
    return numpy.asarray(STATE["features"].read_features_at(rows), dtype="<f4")


def check_features(command):
    """The checksum of some batches, to be compared with ours."""
    found = 0
    for rows in batches(command):
        found = zlib.crc32(numpy.ascontiguousarray(as_floats(rows)).tobytes(), found)
    return {"sum": found}


def read_features(command):
    chosen = batches(command)

    def work():
        kept = None  # a batch lives until the next one is there, as in a loop that uses it
        for rows in chosen:
            kept = as_floats(rows)
        del kept

    return measured(work)


def build_dicom(command):
    """Builds a pack of DICOM files."""
    return measured(
        lambda: dicom.build_dicom_patient_package_from_files(
            command["files"],
            command["path"],
            effort=command["effort"],
            workers=command["workers"],
            overwrite=True,
        )
    )


def use_dicom(command):
    """Opens a pack of DICOM objects."""
    STATE["dicom"] = dicom.DicomPatientReader(command["path"])
    load_batches(command)
    return {"rows": STATE["dicom"].record_count}


def check_dicom(command):
    """The sum of a slice's samples, to be compared with ours."""
    return {"sum": int(STATE["dicom"].read_pixel_array(command["row"]).sum(dtype="i8"))}


def read_dicom(command):
    """Reads batches of slices, one slice after the other: a call for many is not there."""
    chosen, read = STATE["batches"], STATE["dicom"].read_pixel_array

    def work():
        for rows in chosen:
            [read(row) for row in rows]

    return measured(work)


def use_volume(command):
    STATE["volume_path"] = command["path"]
    return {}


def read_volume(command):
    """Opens the pack and stacks all slices as floats.

    The order of the slices is that of the rows, or, with "sorted", is found by reading the objects,
    which is the only way to their positions.
    """

    def work():
        reader = dicom.DicomPatientReader(STATE["volume_path"])
        rows = range(reader.record_count)
        if command["sorted"]:
            positions = [
                pydicom.dcmread(io.BytesIO(reader.read_dicom(row)), stop_before_pixels=True)[
                    "ImagePositionPatient"
                ].value[2]
                for row in rows
            ]
            rows = [rows[at] for at in numpy.argsort(positions)]
        first = reader.read_pixel_array(rows[0])
        volume = numpy.empty((len(rows), *first.shape), dtype="f4")
        for place, row in zip(volume, rows):
            # Slope and intercept are the same for all, and known.
            numpy.add(reader.read_pixel_array(row), numpy.float32(-1024), out=place)
        reader.close()
        STATE["volume"] = volume

    return measured(work)


def use_slide(command):
    STATE["slide"] = wsi.WsiImageReader(command["path"])
    return {}


def read_slide(command):
    read, size, last = STATE["slide"].read_region, command["size"], None

    def work():
        nonlocal last
        for x, y in command["places"]:
            last = read(x, y, size, size, mpp=command["mpp"], workers=command["workers"])

    answer = measured(work)
    answer["sum"] = int(last.sum(dtype="u8"))
    return answer


def open_slide(command):
    return measured(lambda: wsi.WsiImageReader(command["path"]).close())


def slide_memory(command):
    reader, size = wsi.WsiImageReader(command["path"]), command["size"]
    reader.read_region(0.0, 0.0, size, size, mpp=command["mpp"], workers=command["workers"])
    return {"peak": status("VmHWM")}


def import_slide(command):
    build = wsi.build_wsi_image_package
    return measured(lambda: build(command["source"], command["pack"], **command["arguments"]))


def has_openslide(command):
    try:
        import openslide  # noqa: F401
    except Exception:
        return {"has": False}
    return {"has": True}


def use_openslide(command):
    import openslide

    slide = openslide.OpenSlide(command["path"])
    try:
        slide.set_cache(openslide.OpenSlideCache(0))
    except openslide.OpenSlideVersionError:
        # Older libraries always keep 32 MiB; random places in a large slide seldom profit.
        pass
    STATE["openslide"] = slide
    return {"levels": slide.level_count}


def read_openslide(command):
    slide, size = STATE["openslide"], command["size"]

    def work():
        for x, y in command["places"]:
            slide.read_region((x, y), 0, (size, size))

    return measured(work)


def open_dicom(command):
    """From the path of a pack to its list of series."""

    def work():
        for _ in range(command["repeat"]):
            iac.clear_caches()
            reader = dicom.DicomPatientReader(command["path"])
            reader.series_table.to_pylist()
            reader.close()

    return measured(work)


def stack_files(command):
    """Reads files of a series, whose order is known, with pydicom and stacks them as floats."""

    def work():
        volume = None
        for number, path in enumerate(command["paths"]):
            data = pydicom.dcmread(path)
            if volume is None:
                shape = (len(command["paths"]), data.Rows, data.Columns)
                volume = numpy.empty(shape, dtype="f4")
            numpy.multiply(data.pixel_array, numpy.float32(data.RescaleSlope), out=volume[number])
            volume[number] += numpy.float32(data.RescaleIntercept)
        STATE["volume"] = volume

    return measured(work)


def check_volume(command):
    """The sum of the voxels, to be compared with ours."""
    return {"sum": float(STATE["volume"].sum(dtype="f8"))}


COMMANDS = {
    work.__name__: work
    for work in (
        use,
        check,
        payloads,
        views,
        single,
        sequential,
        use_records,
        check_records,
        records_contiguous,
        use_matrix,
        check_matrix,
        matrix,
        open_first,
        open_memory,
        write,
        use_image,
        image_bytes,
        image_encode,
        image_decode,
        use_text,
        read_text,
        write_text,
        use_tiles,
        check_tiles,
        read_tiles,
        find_tile,
        find_tile_memory,
        use_features,
        check_features,
        read_features,
        build_dicom,
        use_dicom,
        check_dicom,
        read_dicom,
        open_dicom,
        use_volume,
        read_volume,
        check_volume,
        stack_files,
        use_slide,
        read_slide,
        open_slide,
        slide_memory,
        import_slide,
        has_openslide,
        use_openslide,
        read_openslide,
    )
}


def main():
    for line in sys.stdin:
        command = json.loads(line)
        try:
            answer = COMMANDS[command["op"]](command)
        except Exception as error:
            answer = {"error": "%s: %s" % (type(error).__name__, error)}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
