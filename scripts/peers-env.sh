#!/usr/bin/env bash
# Makes (or finds) the private virtual environment with the formats that this project is measured
# beside, and prints the path of its Python. What cannot be installed is named and left out. The
# Python package of this workspace goes in too: the newest wheel of target/wheels, which is built if
# there is none or sources are newer (IAC_WHEEL names another one).
# The folder is .venv-peers at the root of the repository, or $IAC_PEERS_VENV. It takes 0.6 GB.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
requirements="$root/scripts/peers-requirements.txt"
venv="${IAC_PEERS_VENV:-$root/.venv-peers}"

die() { printf 'peers-env: %s\n' "$*" >&2; exit 1; }
pip() { "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input --no-deps "$@" >"$log" 2>&1; }

mkdir -p "$venv"
venv=$(cd "$venv" && pwd)
exec 9>"$venv/.lock"
if command -v flock >/dev/null 2>&1; then
    flock 9
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# The stamp is written last and names what is inside, so a half-made environment is made again.
stamp="$venv/.complete"
if ! cmp -s "$stamp" "$requirements" || ! "$venv/bin/python" -c '' 2>/dev/null; then
    printf 'peers-env: making %s\n' "$venv" >&2
    if [ ! -e "$venv/pyvenv.cfg" ] && [ -n "$(find "$venv" -mindepth 1 -maxdepth 1 ! -name .lock -print -quit)" ]; then
        die "$venv is not empty and no virtual environment"
    fi
    rm -f "$stamp"
    "${PYTHON:-python3}" -m venv "$venv" || die 'needs python3 with venv'
    if ! pip -r "$requirements"; then
        while read -r line; do
            pip "$line" || printf 'peers-env: %s cannot be installed here\n' "$line" >&2
        done < <(grep -v '^#' "$requirements" | grep .)
    fi
    cp "$requirements" "$stamp"
fi

newest() {
    # `find` fails where there is no such folder, which is no fault here.
    { find "$root/target/wheels" -name 'iatrocache-*-abi3-*.whl' -printf '%T@ %p\n' 2>/dev/null || true; } |
        sort -n | tail -n 1 | cut -d ' ' -f 2-
}
is_stale() {
    [ -n "$(find "$root/Cargo.lock" "$root/crates" -newer "$1" \( -name '*.rs' -o -name '*.py' -o -name 'Cargo.*' \) -print -quit)" ]
}
wheel="${IAC_WHEEL:-$(newest)}"
if [ -z "$wheel" ] || { [ -z "${IAC_WHEEL:-}" ] && is_stale "$wheel"; }; then
    wheel=$("$root/scripts/python-wheel.sh" | tail -n 1) || true
fi
if [ -z "$wheel" ]; then
    printf 'peers-env: the Python package could not be built and is left out\n' >&2
elif ! cmp -s "$venv/.wheel" <(sha256sum "$wheel"); then
    pip --force-reinstall "$wheel" || { tail -n 5 "$log" >&2; die "could not install $wheel"; }
    sha256sum "$wheel" >"$venv/.wheel"
fi
printf '%s\n' "$venv/bin/python"
