"""Packs and stores behind URLs."""

import os

import numpy
import pytest
from conftest import empty, ids

import iatrocache
from iatrocache.arrays import ArrayStore


def test_url_of_a_file_is_that_file(pack, payloads):
    with iatrocache.PackReader(f"file://{pack}") as reader:
        assert reader.read_payloads([2, 0]) == [payloads[2], payloads[0]]


def test_objects_are_read_as_files_are(tmp_path, monkeypatch):
    server = pytest.importorskip("moto.server").ThreadedMotoServer(port=0)
    boto3 = pytest.importorskip("boto3")
    server.start()
    try:
        host, port = server.get_host_and_port()
        endpoint = f"http://127.0.0.1:{port}"
        for name, value in {
            "AWS_ACCESS_KEY_ID": "a",
            "AWS_SECRET_ACCESS_KEY": "b",
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT": endpoint,
            "AWS_ALLOW_HTTP": "true",
        }.items():
            monkeypatch.setenv(name, value)
        client = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1")
        client.create_bucket(Bucket="bucket")
        records = [os.urandom(300) for _ in range(50)]
        path = tmp_path / "a.iac"
        iatrocache.VariableRecordPack.build(
            path,
            payload_type="notes",
            slide_table=empty(),
            index_table=ids(50),
            objects=records,
            codec=iatrocache.Codec.create("zstd", level=1),
            sync=False,
        )
        client.upload_file(str(path), "bucket", "x/a.iac")
        with iatrocache.open("s3://bucket/x/a.iac") as pack:
            assert pack.read(3) == records[3]
            assert pack.read_many([4, -1]) == [records[4], records[49]]
            assert pack.index_table.num_rows == 50
            with pytest.raises(RuntimeError):
                pack.reader.read_payload_views([0])
        with pytest.raises(FileNotFoundError):
            iatrocache.open("s3://bucket/none.iac")
        store = ArrayStore.create("s3://bucket/arrays")
        store.define("a", "float32", (4, 4))[...] = numpy.eye(4)
        store.flush()
        assert ArrayStore("s3://bucket/arrays")["a"][1].tolist() == [0, 1, 0, 0]
    finally:
        server.stop()
