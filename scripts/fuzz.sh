#!/usr/bin/env bash
# Fuzzes on the stable toolchain. Without a sanitizer the targets still find panics, overflows
# (debug assertions are on), hangs and large allocations, which is what they are for.
# Usage: fuzz.sh SECONDS [TARGET...]    (all targets when none is named)
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"

say() { printf 'fuzz: %s\n' "$*" >&2; }

[ $# -ge 1 ] || { say "usage: fuzz.sh SECONDS [TARGET...]"; exit 2; }
seconds=$1
shift

if ! cargo fuzz --version >/dev/null 2>&1; then
    say "installing cargo-fuzz for this user"
    cargo install cargo-fuzz --locked --quiet
fi

if [ $# -gt 0 ]; then
    targets=("$@")
else
    mapfile -t targets < <(cargo fuzz list)
fi

failed=()
for target in "${targets[@]}"; do
    # Targets write their seeds themselves when they start (fuzz/src/seeds.rs). What libFuzzer
    # finds goes to the first folder; the others are only read.
    corpus="fuzz/corpus/$target"
    seeds="fuzz/seeds/$target"
    rm -rf "$seeds"
    mkdir -p "$corpus" "$seeds"
    # A target that does not compile ends it all; one that finds something lets the others run.
    cargo fuzz build -s none "$target"
    say "$target for $seconds seconds"
    # libFuzzer limits single allocations under sanitizers only, so the targets' allocator does
    # that (fuzz/src/allocation.rs).
    IAC_FUZZ_SEEDS="$root/$seeds" cargo fuzz run -s none "$target" "$corpus" "$seeds" -- \
        -max_total_time="$seconds" -max_len=8192 -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 || failed+=("$target")
done

if [ ${#failed[@]} -gt 0 ]; then
    say "failed: ${failed[*]} (inputs that show it are in fuzz/artifacts)"
    exit 1
fi
