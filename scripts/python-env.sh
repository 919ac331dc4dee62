#!/usr/bin/env bash
# Builds the Python package into a virtual environment of its own and prints the path of its
# Python. The profile is $PROFILE (ci), so that what `cargo test` built is used again.
# The folder is .venv-python at the root of the repository, or $IAC_PYTHON_VENV; the interpreter is
# $PYTHON (python3).
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
requirements="$root/scripts/python-requirements.txt"
venv="${IAC_PYTHON_VENV:-$root/.venv-python}"

die() { printf 'python-env: %s\n' "$*" >&2; exit 1; }

mkdir -p "$venv"
venv=$(cd "$venv" && pwd)
exec 9>"$venv/.lock"
if command -v flock >/dev/null 2>&1; then
    flock 9
fi

# The stamp is written last and names what is inside, so a half-made environment is made again.
stamp="$venv/.complete"
if ! cmp -s "$stamp" "$requirements" || ! "$venv/bin/python" -c '' 2>/dev/null; then
    printf 'python-env: making %s\n' "$venv" >&2
    if [ ! -e "$venv/pyvenv.cfg" ] && [ -n "$(find "$venv" -mindepth 1 -maxdepth 1 ! -name .lock -print -quit)" ]; then
        die "$venv is not empty and no virtual environment"
    fi
    rm -f "$stamp"
    "${PYTHON:-python3}" -m venv "$venv" || die 'needs python3 with venv'
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input -r "$requirements" >&2 ||
        die 'could not fill the environment (needs network the first time)'
    cp "$requirements" "$stamp"
fi

wheels=$(mktemp -d)
trap 'rm -rf "$wheels"' EXIT
cd "$root/crates/iac-python"
CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$root/target}" "$venv/bin/maturin" build --quiet --locked \
    --profile "${PROFILE:-ci}" --interpreter "$venv/bin/python" --compatibility linux --out "$wheels" >&2
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input --no-deps \
    --force-reinstall "$wheels"/*.whl >&2
printf '%s\n' "$venv/bin/python"
