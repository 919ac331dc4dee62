#!/usr/bin/env bash
# Runs the tests of the reference's source distributions against `iatrocache-compat`. They are
# fetched now and never kept in the repository. What is expected to fail stands, each with its
# reason, in crates/iac-python/compat/exceptions.txt; a test there that passes is reported too.
# The folder of the environment is .venv-compat at the root of the repository, or $IAC_COMPAT_VENV.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
venv="${IAC_COMPAT_VENV:-$root/.venv-compat}"
work="$root/target/reference-tests"
exceptions="$root/crates/iac-python/compat/exceptions.txt"

if [ ! -x "$venv/bin/python" ]; then
    "${PYTHON:-python3}" -m venv "$venv"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input \
        -r "$root/scripts/python-requirements.txt" -r "$root/scripts/python-compat-requirements.txt" >&2
fi
IAC_PYTHON_VENV="$venv" "$root/scripts/python-env.sh" >/dev/null
# A copy, so that nothing is built inside the repository.
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
cp -r "$root/crates/iac-python/compat/." "$copy"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input --no-deps \
    --force-reinstall "$copy" >&2

mkdir -p "$work/sdist"
for package in iatro-base-iac iatro-iac-adapters; do
    if ! compgen -G "$work/sdist/${package//-/_}-*.tar.gz" >/dev/null; then
        "$venv/bin/python" -m pip download --quiet --disable-pip-version-check --no-input --no-deps \
            --no-binary iatro-base-iac,iatro-iac-adapters --dest "$work/sdist" "$package==0.1.4" >&2
    fi
done
rm -rf "$work/tests"
mkdir -p "$work/tests"
for archive in "$work"/sdist/*.tar.gz; do
    # Tests only: nothing else of the reference is unpacked.
    tar -xzf "$archive" -C "$work/tests" --strip-components=1 --wildcards '*/tests/*.py'
done

cd "$work/tests/tests"
export PYTHONPATH="$root/crates/iac-python/compat/plugin" PYTHONDONTWRITEBYTECODE=1
"$venv/bin/python" -m pytest -q -p no:cacheprovider \
    -p compat_exceptions --exceptions "$exceptions" "$@"
