"""The formats of the comparison with the field, as Python sees them.

Each format writes, opens and reads the same records in its own best documented way: lists of rows
where there is a call for them, a loop in Python where there is none. `STATE` holds what belongs to
the one process that serves a format.
"""

import importlib
import importlib.metadata
import importlib.util
import json
import os
import struct
import sys
import types
from unittest import mock

import numpy

STATE = {}
ZSTD_LEVEL = 3
MIB = 1 << 20


class Records:
    """A format of records of bytes. Readers give what the format gives: objects that hold bytes."""

    module = None
    distribution = None
    # Whether only the order of writing is there, and whether reading all would take minutes.
    sequential_only = False
    limited = False

    def __init__(self, codec):
        self.codec = codec

    @classmethod
    def version(cls):
        importlib.import_module(cls.module)
        return importlib.metadata.version(cls.distribution or cls.module)

    def rows(self, rows):
        """The rows in the form that the library takes, made before the clock starts."""
        return rows

    def batch(self, rows):
        return [self.one(row) for row in rows]

    def every(self):
        return (self.one(row) for row in range(self.count))

    def bytes_of(self, batch):
        return b"".join(bytes(record) for record in batch)

    def close(self):
        pass


class Package(Records):
    """`.iac` by this package or by the reference, which have the same calls."""

    name = None
    batches = "owned"

    def library(self):
        return importlib.import_module(self.name)

    def write(self, path, records):
        import pyarrow

        iac = self.library()
        index = STATE.get("index")
        if index is None:
            index = pyarrow.table({"item_id": ["item-%08d" % row for row in range(len(records))]})
        if self.codec == "none":
            header = {"payload_type": "benchmark", "codec": "none"}
            iac.build_pack_streaming(
                path, header, pyarrow.table({}), index, iter(records), **self.unsynced
            )
            return
        iac.VariableRecordPack.build(
            path,
            payload_type="benchmark",
            slide_table=pyarrow.table({}),
            index_table=index,
            objects=records,
            codec=self.make_codec(iac),
            streaming=True,
            **self.unsynced,
        )

    def open(self, path):
        iac = self.library()
        if self.codec == "none":
            self.pack = iac.PackReader(path)
            self.batch, self.one = self.pack.read_payloads, self.pack.read_payload
            self.every = lambda: iac.iter_payloads(path)
        else:
            self.pack = iac.VariableRecordPack(path)
            self.count = self.pack.record_count
            self.batch = lambda rows: self.pack.read_many(rows, workers=1)
            self.one = self.pack.read

    def close(self):
        self.pack.close()

    def forget(self):
        self.library().clear_caches()


class Ours(Package):
    module = name = "iatrocache"
    unsynced = {"sync": False}

    def make_codec(self, iac):
        return iac.Codec.create("zstd", level=ZSTD_LEVEL)


class OursContiguous(Ours):
    """Batches in one buffer."""

    def open(self, path):
        super().open(path)
        pack = self.library().VariableRecordPack(path)
        self.batch = lambda rows: pack.read_many_contiguous(rows, workers=1)


class Reference(Package):
    module = name = "iatro.iac"
    distribution = "iatro-base-iac"
    unsynced = {}

    def make_codec(self, iac):
        return iac.Codec.create("zstd", level=ZSTD_LEVEL)


class Bagz(Records):
    module = "bagz"

    def write(self, path, records):
        import bagz

        kind = (
            bagz.CompressionNone() if self.codec == "none" else bagz.CompressionZstd(level=ZSTD_LEVEL)
        )
        with bagz.Writer(path, bagz.Writer.Options(compression=kind)) as writer:
            for record in records:
                writer.write(record)

    def open(self, path):
        import bagz

        kind = bagz.CompressionNone() if self.codec == "none" else bagz.CompressionZstd()
        self.reader = bagz.Reader(path, bagz.Reader.Options(compression=kind, max_parallelism=1))
        self.count = len(self.reader)
        self.batch, self.one = self.reader.read_indices, self.reader.__getitem__
        self.every = lambda: iter(self.reader)

    def rows(self, rows):
        return numpy.array(rows, dtype="u8")

    def close(self):
        self.reader = self.batch = self.one = self.every = None


class ArrayRecord(Records):
    module = "array_record.python.array_record_module"
    distribution = "array_record"

    def write(self, path, records):
        from array_record.python import array_record_module as module

        kind = "uncompressed" if self.codec == "none" else "zstd:%d" % ZSTD_LEVEL
        writer = module.ArrayRecordWriter(path, "group_size:1," + kind)
        for record in records:
            writer.write(record)
        writer.close()

    def open(self, path):
        from array_record.python import array_record_module as module

        self.reader = module.ArrayRecordReader(path, "readahead_buffer_size:0,max_parallelism:0")
        self.path = path
        self.count = self.reader.num_records()

    def batch(self, rows):
        return self.reader.read(rows)

    def one(self, row):
        return self.reader.read([row])[0]

    def every(self):
        """With read-ahead, as its documentation says for this order."""
        from array_record.python import array_record_module as module

        reader = module.ArrayRecordReader(self.path)
        for _ in range(self.count):
            yield reader.read()
        reader.close()

    def close(self):
        self.reader.close()


class Mds(Records):
    """MosaicML Streaming's shards, by its own reader and writer of them. They are the parts of the
    package that need no PyTorch; what else its modules import is stood in for. Only raw records:
    compression there is of whole shards, which are unpacked to disk before they are read."""

    module = "streaming"
    distribution = "mosaicml-streaming"

    @classmethod
    def version(cls):
        cls.library()
        return importlib.metadata.version(cls.distribution)

    @staticmethod
    def library():
        if "streaming" not in sys.modules:
            folder = importlib.util.find_spec("streaming").submodule_search_locations[0]
            for name in ("", ".base"):
                module = types.ModuleType("streaming" + name)
                module.__path__ = [folder + name.replace(".", "/")]
                sys.modules["streaming" + name] = module
            for name in (
                "torch",
                "torch.distributed",
                "streaming.base.distributed",
                "streaming.base.shared",
                "streaming.base.shared.prefix",
            ):
                sys.modules[name] = mock.MagicMock(__path__=[])
        return importlib.import_module("streaming.base.format.mds")

    def write(self, path, records):
        columns = {"record": "bytes"}
        with self.library().MDSWriter(out=path, columns=columns, size_limit=64 * MIB) as writer:
            for record in records:
                writer.write({"record": record})

    def open(self, path):
        reader = self.library().MDSReader
        with open(os.path.join(path, "index.json")) as file:
            shards = json.load(file)["shards"]
        self.shards = [reader.from_json(path, None, shard) for shard in shards]
        self.firsts = numpy.cumsum([0] + [shard.size for shard in self.shards])
        self.count = int(self.firsts[-1])

    def one(self, row):
        shard = int(numpy.searchsorted(self.firsts, row, side="right")) - 1
        return self.shards[shard][row - int(self.firsts[shard])]["record"]


class WebDataset(Records):
    """Tar shards: in the order they were written only."""

    module = "webdataset"
    sequential_only = True

    def write(self, path, records):
        import webdataset

        with webdataset.TarWriter(path, encoder=False) as writer:
            for number, record in enumerate(records):
                writer.write({"__key__": "%08d" % number, "bin": record})

    def open(self, path):
        self.path = path

    def every(self):
        import webdataset

        for sample in webdataset.WebDataset(self.path, shardshuffle=False, empty_check=False):
            yield sample["bin"]


class Lmdb(Records):
    module = "lmdb"

    def write(self, path, records):
        import lmdb

        encode = bytes
        if self.codec != "none":
            import zstandard

            given = {"level": ZSTD_LEVEL}
            if self.codec == "zstd-dictionary":
                given["dict_data"] = STATE["dictionary"]
            encode = zstandard.ZstdCompressor(**given).compress
        room = 2 * sum(map(len, records)) + len(records) * 4096 + (64 << 20)
        store = lmdb.open(path, map_size=room, subdir=True, sync=False, writemap=False)
        with store.begin(write=True) as change:
            for number, record in enumerate(records):
                change.put(struct.pack(">Q", number), encode(record), append=True)
        store.close()

    def open(self, path):
        import lmdb

        self.store = lmdb.open(path, readonly=True, lock=False, readahead=False)
        self.view = self.store.begin(buffers=False)
        self.count = self.store.stat()["entries"]
        self.decode = bytes
        if self.codec != "none":
            import zstandard

            given = {}
            if self.codec == "zstd-dictionary":
                given["dict_data"] = STATE["dictionary"]
            self.decode = zstandard.ZstdDecompressor(**given).decompress
        self.get = self.view.get

    def rows(self, rows):
        return [struct.pack(">Q", row) for row in rows]

    def batch(self, rows):
        get = self.get
        if self.codec == "none":
            return [get(row) for row in rows]
        decode = self.decode
        return [decode(get(row)) for row in rows]

    def one(self, row):
        if isinstance(row, int):
            row = struct.pack(">Q", row)
        return self.decode(self.get(row))

    def every(self):
        decode = self.decode
        with self.view.cursor() as cursor:
            for value in cursor.iternext(keys=False, values=True):
                yield decode(value)

    def close(self):
        self.store.close()


class Arrow(Records):
    """Arrow's classes give records as an array of their own."""

    module = "pyarrow"

    def rows(self, rows):
        import pyarrow

        return pyarrow.array(rows)

    def bytes_of(self, batch):
        return b"".join(batch.to_pylist())

    def table(self, records):
        import pyarrow

        return pyarrow.table({"record": pyarrow.array(records, type=pyarrow.large_binary())})


class ArrowIpc(Arrow):
    """One batch for each 1,024 records; the file is mapped."""

    def write(self, path, records):
        import pyarrow

        table = self.table(records)
        codec = None if self.codec == "none" else pyarrow.Codec("zstd", compression_level=ZSTD_LEVEL)
        options = pyarrow.ipc.IpcWriteOptions(compression=codec)
        with pyarrow.ipc.new_file(path, table.schema, options=options) as writer:
            writer.write_table(table, max_chunksize=1024)

    def open(self, path):
        import pyarrow

        self.map = pyarrow.memory_map(path)
        file = pyarrow.ipc.open_file(self.map)
        if self.codec == "none":
            self.column = file.read_all()["record"]
            self.count = len(self.column)
        else:
            self.file, self.last = file, (None, None)
            self.count = 1024 * (file.num_record_batches - 1) + file.get_batch(
                file.num_record_batches - 1
            ).num_rows

    def rows(self, rows):
        return super().rows(rows) if self.codec == "none" else rows

    def batch(self, rows):
        if self.codec == "none":
            return self.column.take(rows)
        return [self.one(row) for row in rows]

    def bytes_of(self, batch):
        return b"".join(batch.to_pylist() if self.codec == "none" else batch)

    def one(self, row):
        if self.codec == "none":
            return self.column[row].as_py()
        # A compressed batch is decoded whole.
        number, at = divmod(row, 1024)
        if self.last[0] != number:
            self.last = number, self.file.get_batch(number)["record"]
        return self.last[1][at].as_py()

    def every(self):
        if self.codec == "none":
            for chunk in self.column.chunks:
                for value in chunk:
                    yield value.as_py()
            return
        yield from map(self.one, range(self.count))


class Parquet(Arrow):
    """Row groups of 1,024 records; a group is what can be read, and the last one is kept."""

    def write(self, path, records):
        import pyarrow.parquet

        pyarrow.parquet.write_table(
            self.table(records),
            path,
            row_group_size=1024,
            use_dictionary=False,
            write_statistics=False,
            compression="none" if self.codec == "none" else "zstd",
            compression_level=None if self.codec == "none" else ZSTD_LEVEL,
        )

    def open(self, path):
        import pyarrow.parquet

        self.file = pyarrow.parquet.ParquetFile(path, memory_map=True)
        self.count = self.file.metadata.num_rows
        self.last = None, None

    def rows(self, rows):
        return rows

    def batch(self, rows):
        """Rows by group, so that each group is read once."""
        found = [None] * len(rows)
        for at in sorted(range(len(rows)), key=rows.__getitem__):
            found[at] = self.one(rows[at])
        return found

    def bytes_of(self, batch):
        return b"".join(batch)

    def one(self, row):
        number, at = divmod(row, 1024)
        if self.last[0] != number:
            group = self.file.read_row_group(number, use_threads=False)
            self.last = number, group["record"].combine_chunks()
        return self.last[1][at].as_py()


class Lance(Arrow):
    module = "lance"
    distribution = "pylance"

    def write(self, path, records):
        import lance
        import pyarrow

        table = self.table(records)
        if self.codec != "none":
            kind = {"lance-encoding:compression": "zstd"}
            field = pyarrow.field("record", pyarrow.large_binary(), metadata=kind)
            table = table.cast(pyarrow.schema([field]))
        lance.write_dataset(table, path, mode="overwrite")

    def open(self, path):
        import lance

        self.data = lance.dataset(path)
        self.count = self.data.count_rows()

    def rows(self, rows):
        return rows

    def batch(self, rows):
        return self.data.take(rows, columns=["record"])["record"]

    def one(self, row):
        return self.data.take([row], columns=["record"])["record"][0].as_py()

    def every(self):
        for batch in self.data.to_batches(columns=["record"]):
            for value in batch["record"]:
                yield value.as_py()


class Hdf5(Records):
    """All bytes in one data set, contiguous or in chunks, and where each record ends in another."""

    module = "h5py"
    chunk = 64 << 10

    def write(self, path, records):
        import h5py

        ends = numpy.cumsum([0] + [len(record) for record in records], dtype="u8")
        given = {} if self.codec == "none" else {"chunks": (self.chunk,), "compression": "gzip"}
        with h5py.File(path, "w") as file:
            file["ends"] = ends
            place = file.create_dataset("bytes", (int(ends[-1]),), "u1", **given)
            for first in range(0, len(records), 1024):
                some = b"".join(records[first : first + 1024])
                place[int(ends[first]) : int(ends[first]) + len(some)] = numpy.frombuffer(some, "u1")

    def open(self, path):
        import h5py

        self.file = h5py.File(path, "r")
        self.data, self.ends = self.file["bytes"], self.file["ends"][:].tolist()
        self.count = len(self.ends) - 1

    def one(self, row):
        return self.data[self.ends[row] : self.ends[row + 1]].tobytes()

    def close(self):
        self.file.close()


class Zarr(Hdf5):
    """The same in Zarr, version 3, in chunks of 1 MiB."""

    module = "zarr"
    limited = True

    def write(self, path, records):
        import zarr

        ends = numpy.cumsum([0] + [len(record) for record in records], dtype="u8")
        group = zarr.open_group(path, mode="w")
        kind = None if self.codec == "none" else zarr.codecs.ZstdCodec(level=ZSTD_LEVEL)
        group.create_array("ends", data=ends)
        place = group.create_array(
            "bytes", shape=(int(ends[-1]),), dtype="u1", chunks=(MIB,), compressors=kind
        )
        place[:] = numpy.frombuffer(b"".join(records), "u1")

    def open(self, path):
        import zarr

        group = zarr.open_group(path, mode="r")
        self.data, self.ends = group["bytes"], group["ends"][:].tolist()
        self.count = len(self.ends) - 1

    def close(self):
        pass


class Matrix(Records):
    """A format of equal rows of half floats: batches are matrices in memory."""

    def rows(self, rows):
        return numpy.array(rows)

    def bytes_of(self, batch):
        return numpy.ascontiguousarray(batch).tobytes()

    def one(self, row):
        return self.batch(self.rows([row]))

    def every(self):
        for first in range(0, self.count, 256):
            yield from self.batch(self.rows(range(first, min(first + 256, self.count))))


class Memmap(Matrix):
    module = "numpy"

    def write(self, path, matrix):
        matrix.tofile(path)

    def open(self, path):
        self.data = numpy.memmap(path, "f2", "r").reshape(-1, STATE["dim"])
        self.count = len(self.data)
        self.plain = numpy.asarray(self.data)

    def batch(self, rows):
        return self.plain[rows]

    def one(self, row):
        return self.plain[row].copy()


class MemmapOut(Memmap):
    """`take` into memory that is used again."""

    def batch(self, rows):
        out = STATE.setdefault("out", {}).get(len(rows))
        if out is None:
            out = STATE["out"][len(rows)] = numpy.empty((len(rows), STATE["dim"]), "f2")
        return numpy.take(self.plain, rows, axis=0, out=out, mode="clip")


class OursMatrix(Matrix):
    module = name = "iatrocache"
    unsynced = {"sync": False}

    def write(self, path, matrix):
        import pyarrow

        index = pyarrow.table({"item_id": ["item-%08d" % row for row in range(len(matrix))]})
        importlib.import_module(self.name).FixedRecordPack.build(
            path,
            payload_type="benchmark",
            slide_table=pyarrow.table({}),
            index_table=index,
            matrix=matrix,
            **self.unsynced,
        )

    def open(self, path):
        self.pack = importlib.import_module(self.name).FixedRecordPack(path)
        self.count = self.pack.record_count
        self.batch = self.pack.read_matrix
        self.one = self.pack.read

    def close(self):
        self.pack.close()


class OursMatrixOut(OursMatrix):
    """Into memory that is used again."""

    def open(self, path):
        super().open(path)
        kept = {}

        def batch(rows):
            out = kept.get(len(rows))
            if out is None:
                out = kept[len(rows)] = numpy.empty((len(rows), STATE["dim"]), "f2")
            return self.pack.read_matrix(rows, out=out)

        self.batch = batch


class ReferenceMatrix(OursMatrix):
    module = name = "iatro.iac"
    distribution = "iatro-base-iac"
    unsynced = {}


class LmdbMatrix(Lmdb):
    def write(self, path, matrix):
        super().write(path, [row.tobytes() for row in matrix])

    def batch(self, rows):
        get = self.get
        joined = b"".join([get(row) for row in rows])
        return numpy.frombuffer(joined, "f2").reshape(len(rows), -1)

    def bytes_of(self, batch):
        return batch.tobytes()


class ArrowMatrix(Matrix):
    """A column of lists of fixed length in a mapped Arrow file."""

    module = "pyarrow"

    def column_of(self, matrix):
        import pyarrow

        flat = pyarrow.array(matrix.reshape(-1))
        column = pyarrow.FixedSizeListArray.from_arrays(flat, matrix.shape[1])
        return pyarrow.table({"row": column})

    def write(self, path, matrix):
        import pyarrow

        table = self.column_of(matrix)
        with pyarrow.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table)

    def open(self, path):
        import pyarrow

        self.map = pyarrow.memory_map(path)
        self.column = pyarrow.ipc.open_file(self.map).read_all()["row"]
        self.count = len(self.column)

    def rows(self, rows):
        import pyarrow

        return pyarrow.array(rows)

    def batch(self, rows):
        return self.column.take(rows).combine_chunks().flatten().to_numpy().reshape(len(rows), -1)


class LanceMatrix(ArrowMatrix):
    module = "lance"
    distribution = "pylance"

    def write(self, path, matrix):
        import lance

        lance.write_dataset(self.column_of(matrix), path, mode="overwrite")

    def open(self, path):
        import lance

        self.data = lance.dataset(path)
        self.count = self.data.count_rows()

    def rows(self, rows):
        return list(rows)

    def batch(self, rows):
        column = self.data.take(rows, columns=["row"])["row"].combine_chunks()
        return column.flatten().to_numpy().reshape(len(rows), -1)


class Hdf5Matrix(Matrix):
    module = "h5py"

    def write(self, path, matrix):
        import h5py

        with h5py.File(path, "w") as file:
            file["rows"] = matrix

    def open(self, path):
        import h5py

        self.file = h5py.File(path, "r")
        self.data = self.file["rows"]
        self.count = len(self.data)

    def batch(self, rows):
        """Its lists of rows must rise, so they are sorted here and the rows put back in order."""
        some, places = numpy.unique(rows, return_inverse=True)
        return self.data[some][places]

    def close(self):
        self.file.close()


class ZarrMatrix(Matrix):
    module = "zarr"

    def write(self, path, matrix):
        import zarr

        place = zarr.create_array(
            path, shape=matrix.shape, dtype="f2", chunks=(64, matrix.shape[1]), compressors=None
        )
        place[:] = matrix

    def open(self, path):
        import zarr

        self.data = zarr.open_array(path, mode="r")
        self.count = self.data.shape[0]

    def batch(self, rows):
        return self.data.oindex[rows]


FORMATS = {
    "iatrocache": Ours,
    "iatrocache-contiguous": OursContiguous,
    "reference": Reference,
    "bagz": Bagz,
    "array_record": ArrayRecord,
    "mds": Mds,
    "webdataset": WebDataset,
    "lmdb": Lmdb,
    "arrow": ArrowIpc,
    "parquet": Parquet,
    "lance": Lance,
    "hdf5": Hdf5,
    "zarr": Zarr,
    "memmap-rows": Memmap,
    "memmap-rows-out": MemmapOut,
    "iatrocache-rows": OursMatrix,
    "iatrocache-rows-out": OursMatrixOut,
    "reference-rows": ReferenceMatrix,
    "lmdb-rows": LmdbMatrix,
    "arrow-rows": ArrowMatrix,
    "lance-rows": LanceMatrix,
    "hdf5-rows": Hdf5Matrix,
    "zarr-rows": ZarrMatrix,
}
