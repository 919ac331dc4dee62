#!/usr/bin/env bash
# Builds the wheel of the Python package, with all codecs inside, and prints its path. It fits
# Python 3.11 and later; with IAC_ABI3=0 it fits the interpreter $PYTHON only, as 3.10 and
# free-threaded builds need.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
tools="${IAC_MATURIN_VENV:-$root/.venv-python}"
if [ ! -x "$tools/bin/maturin" ]; then
    python3 -m venv "$tools"
    grep '^maturin' "$root/scripts/python-requirements.txt" |
        "$tools/bin/python" -m pip install --quiet --disable-pip-version-check --no-input -r /dev/stdin >&2
fi
python="${PYTHON:-$tools/bin/python}"
out="$root/target/wheels"
arguments=()
if [ "${IAC_ABI3:-1}" = 0 ]; then
    arguments=(--no-default-features --features full)
fi
cd "$root/crates/iac-python"
CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$root/target}" "$tools/bin/maturin" build --locked \
    --profile "${PROFILE:-release}" --interpreter "$python" --out "$out" "${arguments[@]}" >&2
ls -t "$out"/*.whl | head -n 1
