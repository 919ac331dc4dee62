#!/usr/bin/env bash
# Checks that every crate compiles without features and with each of its features alone.
# Usage: features.sh [PROFILE]
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
profile=${1:-ci}

combinations() {
    cargo metadata --no-deps --format-version 1 | python3 -c '
import json, sys

for package in sorted(json.load(sys.stdin)["packages"], key=lambda p: p["name"]):
    print(package["name"], "")
    for feature in sorted(package["features"]):
        if feature != "default":
            print(package["name"], feature)
'
}

list=$(combinations)
while read -r crate feature; do
    printf 'features: %s with %s\n' "$crate" "${feature:-nothing}" >&2
    cargo check --quiet --profile "$profile" -p "$crate" --no-default-features ${feature:+--features "$feature"} </dev/null
done <<<"$list"
