"""``python -m iatrocache`` is the command ``iac``."""

import json
import subprocess
import sys


def iac(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "iatrocache", *map(str, arguments)], capture_output=True, text=True
    )


def test_command_tells_about_a_pack(pack):
    done = iac("info", pack, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["header"]["payload_type"] == "notes"
    assert iac("verify", pack, "--quiet").returncode == 0


def test_command_has_the_exit_codes_of_iac(pack, tmp_path):
    assert iac("--version").returncode == 0
    assert iac("nothing").returncode == 2
    assert iac("info", tmp_path / "none.iac").returncode == 3
    data = bytearray(pack.read_bytes())
    data[-1] ^= 1
    pack.write_bytes(data)
    assert iac("verify", pack).returncode == 1
