#!/usr/bin/env bash
# Checks licences, sources and bans of all dependencies (deny.toml) with a pinned cargo-deny, which is built
# into target/tools when it is not there, without optimisation, which takes a third of the time. `deny.sh advisories`
# looks for known faults too, where the database of advisories can be fetched.
set -euo pipefail
cd "$(dirname "$0")/.."

version=0.20.2
tools=${CARGO_TARGET_DIR:-target}/tools

is_pinned() { [ "$("$@" --version 2>/dev/null)" = "cargo-deny $version" ]; }

if is_pinned cargo-deny; then
    deny=(cargo-deny)
else
    deny=("$tools/bin/cargo-deny")
    if ! is_pinned "${deny[@]}"; then
        echo "deny: building cargo-deny $version" >&2
        if ! cargo install --quiet --locked --debug --root "$tools" --target-dir "$tools/build" "cargo-deny@$version"; then
            echo 'deny: cargo-deny cannot be built here, licences and sources were NOT checked' >&2
            exit 0
        fi
        rm -rf "$tools/build"
    fi
fi

"${deny[@]}" --log-level error check bans licenses sources

[ "${1:-}" = advisories ] || exit 0
if ! "${deny[@]}" fetch db >/dev/null 2>&1; then
    echo 'deny: the database of advisories cannot be fetched here, advisories were NOT checked' >&2
    exit 0
fi
"${deny[@]}" check advisories
