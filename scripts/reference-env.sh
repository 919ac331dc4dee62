#!/usr/bin/env bash
# Makes (or finds) the private virtual environment with the reference packages and prints the
# path of its Python. A finished environment is used as it is, without network. Several calls at
# once are safe: one makes it, the others wait.
# The folder is .venv at the root of the repository, or $IAC_VENV.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
requirements="$root/scripts/reference-requirements.txt"
venv="${IAC_VENV:-$root/.venv}"

die() { printf 'reference-env: %s\n' "$*" >&2; exit 1; }

mkdir -p "$venv"
venv=$(cd "$venv" && pwd)
exec 9>"$venv/.lock"
if command -v flock >/dev/null 2>&1; then
    flock 9
fi

# The stamp is written last and names what is inside, so a half-made or outdated environment is made again.
stamp="$venv/.complete"
if cmp -s "$stamp" "$requirements" && "$venv/bin/python" -c '' 2>/dev/null; then
    printf '%s\n' "$venv/bin/python"
    exit 0
fi

printf 'reference-env: making %s\n' "$venv" >&2
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# Never empty a folder that is something else than an environment of ours.
if [ ! -e "$venv/pyvenv.cfg" ] && [ -n "$(find "$venv" -mindepth 1 -maxdepth 1 ! -name .lock -print -quit)" ]; then
    die "$venv is not empty and no virtual environment"
fi
rm -f "$stamp"
# Everything but the lock that others are waiting for.
find "$venv" -mindepth 1 -maxdepth 1 ! -name .lock -exec rm -rf {} +
if ! { python3 -m venv "$venv" &&
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input -r "$requirements"; } >"$log" 2>&1; then
    tail -n 30 "$log" >&2
    die "could not make the environment, see above (needs python3 with venv, and network the first time)"
fi
cp "$requirements" "$stamp"
printf '%s\n' "$venv/bin/python"
