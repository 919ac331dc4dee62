"""Packs as they are stored."""

import gc
import json
import os

import numpy
import pyarrow
import pytest
from conftest import empty, ids

import iatrocache
from iatrocache import PackReader


def test_records_come_back_in_the_order_asked_for(pack, payloads):
    reader = PackReader(pack)
    assert reader.read_payload(0) == b"one"
    assert reader.read_payload(-1) == payloads[-1]
    rows = [2, 0, 2, -3, True]
    assert reader.read_payloads(rows) == [payloads[row] for row in rows]
    for same in (tuple(rows), iter(rows), numpy.array([2, 0, 2, -3, 1])):
        assert reader.read_payloads(same) == [payloads[row] for row in rows]
    for kind in ("int32", "int64", "uint32", "uint64", "uint8"):
        assert reader.read_payloads(numpy.array([1, 2], kind)) == payloads[1:3]
    assert reader.read_payloads(numpy.arange(4)[::-2]) == [payloads[3], payloads[1]]
    assert reader.read_payloads(range(4)) == payloads
    assert reader.read_payloads([]) == []
    assert list(iatrocache.iter_payloads(pack)) == payloads


@pytest.mark.parametrize(
    ("row", "kind"),
    [
        (4, IndexError),
        (-5, IndexError),
        (2**62, IndexError),
        (-(2**63), IndexError),
        (2**64, OverflowError),
        (-(2**70), OverflowError),
        (1.0, TypeError),
        ("1", TypeError),
        (None, TypeError),
    ],
)
def test_rows_that_do_not_exist_have_the_exception_of_the_specification(pack, row, kind):
    reader = PackReader(pack)
    with pytest.raises(kind):
        reader.read_payload(row)
    with pytest.raises(kind):
        reader.read_payloads([0, row])
    with pytest.raises(kind):
        reader.read_payload_views([row])


def test_rows_that_are_no_rows_are_refused(pack):
    reader = PackReader(pack)
    for rows in (5, None, [[0]], numpy.zeros((2, 2), "int64"), numpy.array([0.5]), "01"):
        with pytest.raises(TypeError):
            reader.read_payloads(rows)
    with pytest.raises(OverflowError):
        reader.read_payloads(numpy.array([2**63], "uint64"))


def test_spans_of_the_data_segment_are_checked(pack, payloads):
    reader = PackReader(pack)
    data = b"".join(payloads)
    assert reader.read_data_span(1, 4) == data[1:5]
    assert reader.read_data_spans([(3, 2), (0, 1), (3, 2), (0, 0)]) == data[3:5] + data[:1] + data[3:5]
    assert reader.read_data_spans([]) == b""
    for span in ((-1, 2), (0, len(data) + 1), (0, 2**64), (2**63, 1), (0, -1)):
        with pytest.raises(ValueError):
            reader.read_data_span(*span)
    with pytest.raises(TypeError):
        reader.read_data_span(0.5, 1)
    with pytest.raises(ValueError):
        reader.read_data_spans([(0,)])


def test_views_outlive_the_reader_and_the_file(pack, payloads):
    reader = PackReader(pack)
    views = reader.read_payload_views([3, -4])
    assert all(view.readonly for view in views)
    reader.close()
    os.unlink(pack)
    del reader
    gc.collect()
    assert [bytes(view) for view in views] == [payloads[3], payloads[0]]


def test_closed_reader_is_a_runtime_error(pack):
    reader = PackReader(pack)
    assert reader.header["who"] == "é"
    assert reader.index_table.num_rows == 4
    reader.close()
    reader.close()
    assert reader.closed
    for call in (
        lambda: reader.read_payload(0),
        lambda: reader.read_payloads([0]),
        lambda: reader.read_payload_views([0]),
        lambda: reader.read_data_span(0, 0),
        lambda: reader.header,
        lambda: reader.index_table,
        lambda: reader.num_records,
    ):
        with pytest.raises(RuntimeError):
            call()


def test_header_is_a_copy_each_time(pack):
    reader = PackReader(pack)
    reader.header["who"] = "changed"
    assert reader.header["who"] == "é"
    iatrocache.read_header(pack)["who"] = "changed"
    assert iatrocache.read_header(pack)["who"] == "é"
    header, slides, index = iatrocache.read_tables(pack)
    assert (header["num_records"], slides.num_rows, index.num_rows) == (4, 0, 4)


def test_tables_are_read_by_every_library_that_knows_capsules(pack):
    reader = PackReader(pack)
    table = pyarrow.table(reader.index_arrow)
    assert table.column_names == ["id", "offset", "length", "crc32"]
    assert table["id"].to_pylist() == ["r0", "r1", "r2", "r3"]
    assert reader.index_arrow.num_rows == 4
    assert reader.index_arrow.column_names == table.column_names
    assert pyarrow.schema(reader.index_arrow) == table.schema
    some = pyarrow.table(reader.index_columns(["length", "id"]))
    assert some.column_names == ["length", "id"]
    with pytest.raises(ValueError):
        reader.index_columns(["nothing"])
    polars = pytest.importorskip("polars")
    assert polars.DataFrame(reader.index_arrow)["id"].to_list() == table["id"].to_pylist()


def test_tables_without_pyarrow_go_in_as_capsules(pack, tmp_path):
    reader = PackReader(pack)

    class Own:
        def __arrow_c_stream__(self, requested_schema=None):
            return reader.index_arrow.__arrow_c_stream__(requested_schema)

    again = tmp_path / "again.iac"
    iatrocache.build_pack(again, {}, reader.slide_arrow, Own(), [b"x"] * 4, sync=False)
    assert PackReader(again).read_payloads([0, 3]) == [b"x", b"x"]


def test_schema_and_chunks_of_a_table_are_kept(tmp_path):
    path = tmp_path / "a.iac"
    schema = pyarrow.schema(
        [
            pyarrow.field("s", pyarrow.dictionary(pyarrow.int8(), pyarrow.string())),
            pyarrow.field("n", pyarrow.int64(), nullable=False, metadata={b"k": b"v"}),
        ],
        metadata={b"a": b"b"},
    )
    rows = [pyarrow.array(["x", "y"]).dictionary_encode().cast(schema.field(0).type), pyarrow.array([1, 2])]
    batch = pyarrow.record_batch(rows, schema=schema)
    table = pyarrow.Table.from_batches([batch, batch], schema=schema)
    iatrocache.build_pack_data_segment(path, {}, table, empty(), b"", sync=False)
    found = PackReader(path).slide_table
    assert found.equals(table, check_metadata=True)


def test_builders_refuse_what_is_no_pack(tmp_path):
    path = tmp_path / "a.iac"
    build = iatrocache.build_pack
    for kind, call in [
        (ValueError, lambda: build(path, {}, empty(), ids(3), [b""] * 2)),
        (ValueError, lambda: build(path, {}, empty(), ids(3), [b""] * 4)),
        (ValueError, lambda: iatrocache.build_pack_streaming(path, {}, empty(), ids(1), [b""] * 2)),
        (TypeError, lambda: build(path, {}, empty(), ids(1), [memoryview(b"")])),
        (TypeError, lambda: build(path, {}, empty(), ids(1), ["text"])),
        (TypeError, lambda: build(path, [], empty(), ids(0), [])),
        (TypeError, lambda: build(path, {}, None, ids(0), [])),
        (TypeError, lambda: build(path, {"a": object()}, empty(), ids(0), [])),
        (ValueError, lambda: build(path, {"a": float("nan")}, empty(), ids(0), [])),
        (ValueError, lambda: build(path, {"a": "x" * 70000}, empty(), ids(0), [])),
        (ValueError, lambda: build(path, {"a": "\ud800"}, empty(), ids(0), [])),
        (TypeError, lambda: iatrocache.build_pack_data_segment(path, {}, empty(), ids(0), "text")),
        (ValueError, lambda: build(path, {}, empty(), ids(0), [], data_alignment=3)),
    ]:
        with pytest.raises(kind):
            call()
        assert os.listdir(tmp_path) == []


def test_files_are_replaced_only_when_allowed(pack, tmp_path):
    before = pack.read_bytes()
    with pytest.raises(FileExistsError) as caught:
        iatrocache.build_pack(pack, {}, empty(), ids(0), [])
    assert caught.value.kind == "exists"
    assert pack.read_bytes() == before
    iatrocache.build_pack(pack, {"new": 1}, empty(), ids(1), [bytearray(b"x")], overwrite=True)
    assert iatrocache.read_header(pack)["new"] == 1
    assert os.listdir(tmp_path) == [pack.name]


def test_exception_of_an_iterator_comes_through_and_leaves_nothing(tmp_path):
    class Mine(Exception):
        pass

    def broken():
        yield b"a"
        raise Mine("no more")

    with pytest.raises(Mine, match="no more"):
        iatrocache.build_pack_streaming(tmp_path / "a.iac", {}, empty(), ids(2), broken())
    assert os.listdir(tmp_path) == []


def test_data_segment_comes_from_memory_or_a_file(tmp_path):
    data = numpy.arange(100, dtype="uint16")
    for number, memory in enumerate((data.tobytes(), bytearray(data), memoryview(data), data)):
        path = tmp_path / f"{number}.iac"
        iatrocache.build_pack_data_segment(path, {}, empty(), ids(2), memory, sync=False)
        assert PackReader(path).read_data_span(0, 200) == data.tobytes()
        assert PackReader(path).kind == "segment"
        with pytest.raises(RuntimeError):
            PackReader(path).read_payload_views([0])
        with pytest.raises(RuntimeError):
            PackReader(path).read_payload(0)
    source = tmp_path / "source"
    source.write_bytes(b"abc")
    from_file = iatrocache.build_pack_data_segment_from_file
    from_file(tmp_path / "f.iac", {}, empty(), ids(0), source, data_length=3, sync=False)
    assert PackReader(tmp_path / "f.iac").read_data_span(0, 3) == b"abc"
    for kind, path, length in [
        (ValueError, source, 4),
        (ValueError, source, 2),
        (FileNotFoundError, tmp_path / "none", 3),
        (OverflowError, source, -1),
    ]:
        with pytest.raises(kind):
            from_file(tmp_path / "g.iac", {}, empty(), ids(0), path, data_length=length)
    assert not (tmp_path / "g.iac").exists()


def test_what_is_no_pack_has_the_exception_of_the_specification(tmp_path, pack):
    with pytest.raises(FileNotFoundError):
        PackReader(tmp_path / "none.iac")
    with pytest.raises(FileNotFoundError):
        iatrocache.read_header(tmp_path / "none.iac")
    with pytest.raises(IsADirectoryError):
        PackReader(tmp_path)
    with pytest.raises(TypeError):
        PackReader(5)
    other = tmp_path / "other"
    other.write_bytes(b"PK\x03\x04" * 20000)
    with pytest.raises(ValueError) as caught:
        PackReader(other)
    assert caught.value.kind == "not_iac"
    assert caught.value.path == str(other)
    assert isinstance(caught.value, iatrocache.IacError)
    whole = pack.read_bytes()
    for cut in (0, 5, 100, 65535, 65536, len(whole) - 1):
        other.write_bytes(whole[:cut])
        with pytest.raises(ValueError):
            PackReader(other)


def test_damaged_record_is_noticed_and_named(pack, payloads):
    with open(pack, "r+b") as file:
        header = iatrocache.read_header(pack)
        file.seek(header["data_offset"])
        file.write(b"X")
    iatrocache.clear_caches()
    reader = PackReader(pack)
    with pytest.raises(ValueError) as caught:
        reader.read_payloads([1, 0])
    assert (caught.value.kind, caught.value.row) == ("checksum", 0)
    assert PackReader(pack, check_crc=False).read_payload(0) == b"Xne"
    assert bytes(reader.read_payload_views([0])[0]) == b"Xne"
    report = reader.verify()
    assert not report["sound"]
    assert report["faults"][0]["row"] == 0
    assert report["rows_compared"] == len(payloads)


def test_numbers_of_a_header_come_back_as_the_format_has_them(tmp_path):
    header = {"i": 2**64 - 1, "n": -(2**63), "f": 0.1, "big": 2**70, "l": (1, [True, None]), "é": {"b": 1, "a": 2}}
    iatrocache.build_pack(tmp_path / "a.iac", header, empty(), ids(0), [], sync=False)
    found = iatrocache.read_header(tmp_path / "a.iac")
    assert found["i"] == 2**64 - 1 and isinstance(found["i"], int)
    assert found["big"] == float(2**70) and isinstance(found["big"], float)
    assert found["l"] == [1, [True, None]]
    assert list(found["é"]) == ["a", "b"]


def test_cache_of_headers_takes_limits(pack):
    iatrocache.configure_cache(header_max_entries=1, header_max_bytes=1)
    iatrocache.configure_cache(header_enabled=False)
    assert iatrocache.read_header(pack)["who"] == "é"
    iatrocache.configure_cache()
    iatrocache.clear_caches()
    for kind, arguments in [
        (ValueError, {"header_max_entries": 0}),
        (ValueError, {"header_max_bytes": -1}),
        (TypeError, {"header_max_entries": True}),
        (TypeError, {"header_max_bytes": 1.5}),
        (TypeError, {"header_enabled": 1}),
    ]:
        with pytest.raises(kind):
            iatrocache.configure_cache(**arguments)


def test_golden_packs_read_as_expected(fixtures):
    found = 0
    for path in sorted((fixtures / "container").glob("*.iac")):
        expected = json.loads(path.with_suffix(".json").read_text())
        try:
            reader = PackReader(path)
        except ValueError:
            assert path.name.startswith("x_"), path
            continue
        assert reader.header == expected["header"], path.name
        found += 1
    assert found > 20
