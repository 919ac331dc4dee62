"""Packs record by record."""

import pickle

import numpy
import pytest
from conftest import empty, ids

import iatrocache
from iatrocache import Codec, ContiguousRecordBatch, FixedRecordPack, VariableRecordPack


@pytest.mark.parametrize("name", ["none", "zstd", "brotli", "lz4"])
def test_records_of_bytes_come_back(tmp_path, name):
    records = [bytes([row]) * (row * 37) for row in range(40)]
    path = tmp_path / "a.iac"
    VariableRecordPack.build(
        path,
        payload_type="notes",
        slide_table=empty(),
        index_table=ids(40),
        objects=records,
        codec=Codec.create(name),
        extra_header={"mine": 1},
        sync=False,
    )
    with VariableRecordPack(path) as pack:
        assert pack.header["codec"] == name and pack.header["mine"] == 1
        assert len(pack) == pack.record_count == 40
        assert pack.read(-1) == records[-1]
        rows = [7, 3, -1, 3]
        assert pack.read_many(rows) == [records[row] for row in rows]
        for workers in (1, 2, 100):
            assert pack.read_many(range(40), workers) == records
        batch = pack.read_many_contiguous(rows, workers=2)
        assert [bytes(record) for record in batch] == [records[row] for row in rows]
        assert Codec.create(name).decode(pack.read_bytes(5)) == records[5]
        assert pack.read_many([]) == []
        assert pack.read_many_contiguous([]).offsets == (0,)


@pytest.mark.parametrize(
    ("workers", "kind"),
    [(0, ValueError), (-1, ValueError), (True, TypeError), (1.5, TypeError), ("2", TypeError), (2**65, TypeError)],
)
def test_workers_are_checked_before_anything_is_read(pack, workers, kind):
    reader = VariableRecordPack(pack)
    with pytest.raises(kind):
        reader.read_many([99], workers)
    with pytest.raises(kind):
        reader.read_many_contiguous([99], workers=workers)


def test_contiguous_batch_checks_its_parts(pack, payloads):
    batch = VariableRecordPack(pack).read_many_contiguous([2, 1, 0])
    assert batch.offsets == (0, 5, 5, 8)
    assert batch.lengths == (5, 0, 3)
    assert batch.buffer.readonly and batch.offsets_buffer.readonly
    assert batch.offsets_buffer.format == "Q"
    assert bytes(batch[0]) == b"three" and bytes(batch.view(-1)) == b"one"
    assert (len(batch), batch.record_count) == (3, 3)
    assert batch.to_arrow().to_pylist() == [b"three", b"", b"one"]
    again = pickle.loads(pickle.dumps(batch))
    assert [bytes(record) for record in again] == [b"three", b"", b"one"]
    for row, kind in [(3, IndexError), (-4, IndexError), (True, TypeError), (1.0, TypeError)]:
        with pytest.raises(kind):
            batch.view(row)
    for offsets, kind in [
        ([], ValueError),
        ([1, 3], ValueError),
        ([0, 2], ValueError),
        ([0, 2, 1, 3], ValueError),
        ([0, -1, 3], ValueError),
        ([0, 1.5, 3], TypeError),
    ]:
        with pytest.raises(kind):
            ContiguousRecordBatch(b"abc", offsets)
    with pytest.raises(TypeError):
        ContiguousRecordBatch("abc", [0, 3])


def test_batches_own_their_memory(pack):
    reader = VariableRecordPack(pack)
    first = reader.read_many_contiguous([0, 2])
    second = reader.read_many_contiguous([2, 0])
    reader.close()
    assert bytes(first.buffer) == b"onethree" and bytes(second.buffer) == b"threeone"


def test_images_come_back_as_arrays(images, pixels):
    with VariableRecordPack(images) as pack:
        assert numpy.array_equal(pack.read(3), pixels[3])
        assert pack.read(3).flags.writeable
        found = pack.read_many([4, -1, 4], workers=2)
        assert all(numpy.array_equal(a, pixels[row]) for a, row in zip(found, (4, 8, 4)))
        batch = pack.read_image_batch([2, 5, 2])
        assert batch.shape == (3, 16, 24, 3) and batch.flags.writeable
        assert numpy.array_equal(batch, numpy.stack([pixels[2], pixels[5], pixels[2]]))
        assert pack.read(0, scale=4).shape == (4, 6, 3)
        with pytest.raises(TypeError):
            pack.read_many_contiguous([0])
        with pytest.raises(ValueError):
            pack.read(0, scale=3)


def test_images_are_decoded_into_memory_of_the_callers(images, pixels):
    expected = numpy.stack([pixels[1], pixels[7]])
    with VariableRecordPack(images) as pack:
        out = numpy.empty((2, 16, 24, 3), "uint8")
        assert pack.read_image_batch([1, 7], out=out) is out
        assert numpy.array_equal(out, expected)
        flat = bytearray(out.nbytes)
        pack.read_image_batch([1, 7], out=flat, workers=2)
        assert bytes(flat) == expected.tobytes()

        class Tensor:
            """As arrays of other libraries are: nothing but DLPack."""

            def __init__(self, array):
                self.array = array

            def __dlpack__(self, **arguments):
                return self.array.__dlpack__(**arguments)

            def __dlpack_device__(self):
                return self.array.__dlpack_device__()

        other = numpy.zeros_like(out)
        pack.read_image_batch([1, 7], out=Tensor(other))
        assert numpy.array_equal(other, expected)
        small = numpy.empty((2, 8, 12, 3), "uint8")
        pack.read_image_batch([1, 7], out=small, scale=2)
        for wrong in (
            numpy.empty((2, 16, 24, 3), "uint16"),
            numpy.empty((3, 16, 24, 3), "uint8"),
            numpy.empty((2, 24, 16, 3), "uint8"),
            numpy.empty((2, 16, 24, 6), "uint8")[..., ::2],
            bytes(out.nbytes),
        ):
            with pytest.raises((ValueError, BufferError)):
                pack.read_image_batch([1, 7], out=wrong)


@pytest.mark.parametrize("kind", ["uint8", "uint16", "float16", "float32"])
@pytest.mark.parametrize("shape", [(5, 7), (5, 7, 3)])
def test_samples_keep_their_type(tmp_path, kind, shape):
    generator = numpy.random.default_rng(1)
    image = (generator.random(shape) * 200).astype(kind)
    codec = Codec.create("jxl", lossless=True, effort=4)
    found = codec.decode(codec.encode(image))
    assert found.dtype == image.dtype and numpy.array_equal(found, image)
    turned = image.astype(image.dtype.newbyteorder(">"))[:, ::-1]
    assert numpy.array_equal(codec.decode(codec.encode(turned)), image[:, ::-1])


def test_rows_of_a_matrix_come_back(tmp_path):
    path = tmp_path / "m.iac"
    matrix = numpy.arange(60, dtype="float32").reshape(12, 5)
    FixedRecordPack.build(
        path, payload_type="m", slide_table=empty(), index_table=ids(12), matrix=matrix, sync=False
    )
    with FixedRecordPack(path) as pack:
        assert numpy.array_equal(pack.read(3), matrix[3])
        assert numpy.array_equal(pack.read_matrix([5, 0, 5]), matrix[[5, 0, 5]])
        assert pack.read_matrix([]).shape == (0, 5)
        assert pack.read_matrix([1]).flags.writeable
        assert numpy.array_equal(pack.view(), matrix)
        out = numpy.empty((2, 5), "float32")
        pack.read_matrix([1, 2], out=out)
        assert numpy.array_equal(out, matrix[1:3])
        many = pack.read_many([1, 2])
        assert many[0].dtype == "float32" and numpy.array_equal(many[1], matrix[2])
        for row, kind in [(12, ValueError), (-1, ValueError), (2**70, ValueError), (1.5, TypeError)]:
            with pytest.raises(kind):
                pack.read(row)
            with pytest.raises(kind):
                pack.read_matrix([row])
        with pytest.raises(TypeError):
            pack.read_matrix(0)
        pack.close()
        with pytest.raises(RuntimeError):
            pack.read(0)


def test_matrix_is_stored_little_endian_and_refused_where_it_is_none(tmp_path):
    build = FixedRecordPack.build
    tables = {"payload_type": "m", "slide_table": empty(), "index_table": ids(2), "sync": False}
    for number, kind in enumerate(("bool", "int8", "uint16", ">i4", ">f8", "float16", "complex64")):
        matrix = numpy.array([[0, 1, 2], [3, 4, 5]]).astype(kind)
        build(tmp_path / f"{number}.iac", matrix=matrix, **tables)
        pack = FixedRecordPack(tmp_path / f"{number}.iac")
        assert numpy.array_equal(pack.read_matrix([1, 0]), matrix[::-1])
    for wrong in (numpy.zeros(2), numpy.zeros((2, 2, 2)), numpy.array([["a"], ["b"]]), numpy.zeros((2, 1), object)):
        with pytest.raises(ValueError):
            build(tmp_path / "x.iac", matrix=wrong, **tables)
    with pytest.raises(ValueError):
        build(tmp_path / "x.iac", matrix=numpy.zeros((3, 1)), **tables)
    assert not (tmp_path / "x.iac").exists()


def test_pack_without_fixed_rows_is_a_key_error(pack):
    with pytest.raises(KeyError):
        FixedRecordPack(pack)


def test_open_finds_the_reader(pack, images, tmp_path):
    assert type(iatrocache.open(pack)) is VariableRecordPack
    path = tmp_path / "m.iac"
    FixedRecordPack.build(
        path, payload_type="m", slide_table=empty(), index_table=ids(1), matrix=numpy.zeros((1, 2)), sync=False
    )
    assert type(iatrocache.open(path)) is FixedRecordPack
    segment = tmp_path / "s.iac"
    iatrocache.build_pack_data_segment(segment, {}, empty(), ids(0), b"abc", sync=False)
    assert type(iatrocache.open(segment)) is iatrocache.PackReader
