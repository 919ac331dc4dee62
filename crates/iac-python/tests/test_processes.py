"""Threads, forks, other processes, signals and memory."""

import gc
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import time

import numpy
import pytest
from conftest import empty, ids

import iatrocache
from iatrocache import Codec, PackReader, VariableRecordPack


def test_readers_are_pickled_as_their_path(pack, payloads):
    for reader in (PackReader(pack), VariableRecordPack(pack), PackReader(pack, check_crc=False)):
        again = pickle.loads(pickle.dumps(reader))
        assert type(again) is type(reader)
    assert pickle.loads(pickle.dumps(VariableRecordPack(pack))).read(2) == payloads[2]


def test_exceptions_are_pickled_with_what_they_tell(pack):
    with pytest.raises(IndexError) as caught:
        PackReader(pack).read_payload(99)
    again = pickle.loads(pickle.dumps(caught.value))
    assert type(again) is type(caught.value)
    assert (again.kind, str(again)) == ("row_out_of_range", str(caught.value))


def _read(reader, row):
    return reader.read(row)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_readers_work_in_other_processes(images, pixels, method):
    reader = VariableRecordPack(images)
    # The reader's threads are running before the fork.
    reader.read_image_batch(range(9), workers=2)
    with multiprocessing.get_context(method).Pool(2) as pool:
        found = pool.starmap(_read, [(reader, row) for row in range(9)])
    assert all(numpy.array_equal(a, b) for a, b in zip(found, pixels))


def test_forked_child_decodes_with_threads_of_its_own(images, pixels):
    reader = VariableRecordPack(images)
    reader.read_image_batch(range(9), workers=2)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            batch = reader.read_image_batch(range(9), workers=2)
            os.write(write, b"y" if numpy.array_equal(batch, numpy.stack(pixels)) else b"n")
        finally:
            os._exit(0)
    os.close(write)
    signal.alarm(60)
    try:
        assert os.read(read, 1) == b"y"
    finally:
        signal.alarm(0)
    os.waitpid(child, 0)
    os.close(read)


def test_one_reader_serves_many_threads(images, pixels):
    reader, wrong = VariableRecordPack(images), []

    def work(seed):
        for row in numpy.random.default_rng(seed).integers(0, 9, 20):
            if not numpy.array_equal(reader.read(row), pixels[row]):
                wrong.append(row)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_other_threads_run_while_records_are_decoded(tmp_path):
    path = tmp_path / "a.iac"
    image = numpy.random.default_rng(0).integers(0, 256, (512, 512, 3), "uint8")
    VariableRecordPack.build(
        path,
        payload_type="x",
        slide_table=empty(),
        index_table=ids(4),
        objects=[image] * 4,
        codec=Codec.create("jxl", lossless=True, effort=1),
        sync=False,
    )
    reader, counted, done = VariableRecordPack(path), [0], threading.Event()

    def count():
        while not done.is_set():
            counted[0] += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    most = 0
    for _ in range(200):
        before = counted[0]
        reader.read_many(range(4), 1)
        most = max(most, counted[0] - before)
        if most >= 5:
            break
    done.set()
    thread.join()
    # With the lock held while decoding, the other thread would run once at most in each call.
    assert most >= 5


def _resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_nothing_leaks(pack, images, tmp_path):
    codec = Codec.create("zstd", level=1)
    big = os.urandom(100_000)

    def round_trip():
        with VariableRecordPack(pack) as reader:
            reader.read_many([0, 1, 2, 3] * 20)
            reader.read_many_contiguous([3] * 50)
            reader.reader.read_payload_views([0, 3])
            reader.index_table  # noqa: B018
            for call in (lambda: reader.read(99), lambda: reader.read_many([0, 1.5])):
                with pytest.raises((IndexError, TypeError)):
                    call()
        with VariableRecordPack(images) as reader:
            reader.read_image_batch(range(9))
            reader.read(0)
        codec.decode(codec.encode(big))
        with pytest.raises(OSError):
            codec.decode(big)
        iatrocache.build_pack(
            tmp_path / "leak.iac", {}, empty(), ids(20), [big] * 20, overwrite=True, sync=False
        )

    def live():
        gc.collect()
        return len(gc.get_objects())

    def descriptors():
        return len(os.listdir("/proc/self/fd"))

    for _ in range(30):
        round_trip()
    objects, before, files = live(), _resident(), descriptors()
    for _ in range(60):
        round_trip()
    assert live() - objects < 100
    assert descriptors() <= files
    # 60 rounds handle some 700 MB.
    assert _resident() - before < 32 << 20


def test_import_is_quick():
    script = "import time; a = time.perf_counter(); import iatrocache; print(time.perf_counter() - a)"
    times = []
    for _ in range(5):
        done = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, check=True)
        times.append(float(done.stdout))
    assert min(times) < 0.05
    script = "import sys, iatrocache; print(sorted({'numpy', 'pyarrow', 'PIL'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, check=True)
    assert done.stdout == "[]\n"
