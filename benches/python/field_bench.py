"""The Python side of the comparison with the field.

Takes commands on standard input and answers on standard output, one JSON object per line, until
the input ends, as `reference_bench.py` does. One process serves one format, so that memory can be
told apart; `field_formats.py` holds the formats.
"""

import gc
import json
import os
import shutil
import sys
import time
import zlib

import numpy
from field_formats import FORMATS, STATE, Ours, OursContiguous, Reference


def status(name):
    with open("/proc/self/status") as file:
        for line in file:
            if line.startswith(name + ":"):
                return int(line.split()[1]) * 1024
    raise KeyError(name)


def forget_peak():
    """Lets the kernel count the largest resident size anew."""
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def size_of(path):
    if not os.path.isdir(path):
        return os.path.getsize(path)
    found = 0
    for folder, _, names in os.walk(path):
        # A sparse file (LMDB's) counts with what it occupies.
        for name in names:
            one = os.stat(os.path.join(folder, name))
            found += min(one.st_size, one.st_blocks * 512)
    return found


def remove(path):
    if os.path.isdir(path):
        shutil.rmtree(path)
    elif os.path.exists(path):
        os.remove(path)


def measured(work):
    wall, cpu = time.perf_counter(), time.process_time()
    done = work()
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return {"wall": wall, "cpu": cpu, "done": done}


def field_start(command):
    """Which format this process serves."""
    kind = FORMATS[command["format"]]
    STATE.update(kind=kind, codec=command["codec"], dim=command.get("dim"))
    try:
        version = kind.version()
        if command["codec"] == "zstd-dictionary":
            import zstandard

            with open(command["dictionary"], "rb") as file:
                STATE["dictionary"] = zstandard.ZstdCompressionDict(file.read())
    except Exception as error:
        return {"missing": "%s: %s" % (type(error).__name__, error)}
    return {"version": version, "sequential_only": kind.sequential_only}


def field_load(command):
    """The records, in memory, that are written."""
    if STATE["dim"]:
        STATE["records"] = numpy.fromfile(command["records"], "f2").reshape(-1, STATE["dim"])
        return {}
    lengths = numpy.fromfile(command["lengths"], "<u8").tolist()
    with open(command["records"], "rb") as file:
        STATE["records"] = [file.read(length) for length in lengths]
    if STATE["kind"] in (Ours, OursContiguous, Reference):
        import pyarrow

        STATE["index"] = pyarrow.table(
            {"item_id": ["item-%08d" % row for row in range(len(lengths))]}
        )
    return {}


def field_unload(command):
    STATE["records"] = STATE["index"] = None
    gc.collect()
    return {}


def field_write(command):
    path = command["path"]
    remove(path)
    one = STATE["kind"](STATE["codec"])
    gc.collect()
    before = status("VmRSS")
    forget_peak()
    answer = measured(lambda: one.write(path, STATE["records"]))
    answer["peak"] = max(status("VmHWM") - before, 0)
    answer["file"] = size_of(path)
    return answer


def field_use(command):
    """Opens the file, reads everything once (slow libraries only for a while), and keeps it open."""
    STATE["own"] = status("RssAnon")
    one = STATE["kind"](STATE["codec"])
    one.open(command["path"])
    STATE["open"] = one
    end = time.perf_counter() + 10
    for done, _ in enumerate(one.every()):
        if one.limited and done % 64 == 0 and time.perf_counter() > end:
            break
    rows, size = numpy.fromfile(command["rows"], dtype="<u8"), command["batch"]
    STATE["batches"] = [rows[at : at + size].tolist() for at in range(0, len(rows), size)]
    gc.collect()
    return {}


def field_check(command):
    one, found = STATE["open"], 0
    for rows in STATE["batches"][: command["count"]]:
        found = zlib.crc32(one.bytes_of(one.batch(one.rows(rows))), found)
    return {"sum": found}


def chosen(command):
    return STATE["batches"][command["first"] : command["first"] + command["count"]]


def field_batch(command):
    """Batches until all are read or the time is over."""
    one = STATE["open"]
    batch, lists = one.batch, [one.rows(rows) for rows in chosen(command)]
    batch(lists[0])

    def work():
        end = time.perf_counter() + command["limit"]
        kept, done = None, 0  # a batch lives until the next one is there, as in a loop that uses it
        for rows in lists:
            kept = batch(rows)
            done += 1
            if time.perf_counter() > end:
                break
        del kept
        return done

    return measured(work)


def field_single(command):
    one = STATE["open"]
    read, rows = one.one, [row for rows in chosen(command) for row in rows]
    read(rows[0])

    def work():
        end, done = time.perf_counter() + command["limit"], 0
        for row in rows:
            read(row)
            done += 1
            if done % 64 == 0 and time.perf_counter() > end:
                break
        return done

    return measured(work)


def field_sequential(command):
    """All records; libraries read ahead, so that stopping early would tell nothing."""
    one = STATE["open"]

    def work():
        end, done = time.perf_counter() + command["limit"], 0
        for _ in one.every():
            done += 1
            if one.limited and done % 64 == 0 and time.perf_counter() > end:
                break
        return done

    return measured(work)


def field_memory(command):
    """What the process holds beyond what it held before it opened the file."""
    return {"bytes": max(status("RssAnon") - STATE["own"], 0)}


def field_open(command):
    """Opens a file and reads one record, again and again."""
    kind, codec = STATE["kind"], STATE["codec"]

    def work():
        done = 0
        end = time.perf_counter() + command["limit"]
        while done < command["repeat"]:
            one = kind(codec)
            if hasattr(one, "forget"):
                one.forget()
            one.open(command["path"])
            if kind.sequential_only:
                next(iter(one.every()))
            else:
                one.one(command["row"])
            one.close()
            done += 1
            if time.perf_counter() > end:
                break
        return done

    return measured(work)


COMMANDS = {
    work.__name__: work
    for work in (
        field_start,
        field_load,
        field_unload,
        field_write,
        field_use,
        field_check,
        field_batch,
        field_single,
        field_sequential,
        field_memory,
        field_open,
    )
}


def main():
    # What a library prints must not come between the answers.
    answers, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        command = json.loads(line)
        try:
            answer = COMMANDS[command["op"]](command)
        except Exception as error:
            answer = {"error": "%s: %s" % (type(error).__name__, error)}
        print(json.dumps(answer), flush=True, file=answers)


if __name__ == "__main__":
    main()
