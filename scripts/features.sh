#!/usr/bin/env bash
# Checks that every crate compiles without features and with each of its features alone.
# Usage: features.sh [PROFILE]
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
profile=${1:-ci}

# Nothing is linked here, so libjxl need not be built, which each set of features would do anew. In a
# folder of its own, since what was built for the tests would be thrown away otherwise.
export GAMUT_JXL_SYS_SKIP_NATIVE=1
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/features"

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
