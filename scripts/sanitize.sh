#!/usr/bin/env bash
# Runs tests under AddressSanitizer, LeakSanitizer included, on the toolchain that is there: stable
# ships the runtime, only the flag that asks for it is not stable. Native libraries are not
# instrumented; what they allocate is watched all the same.
# Usage: sanitize.sh [CARGO TEST ARGUMENTS...]      the crates that touch bytes when none are given
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"
host=x86_64-unknown-linux-gnu

say() { printf 'sanitize: %s\n' "$*" >&2; }

found=$(rustc -vV | sed -n 's/^host: //p')
runtime=$(rustc --print sysroot)/lib/rustlib/$host/lib
if [ "$found" != "$host" ] || ! compgen -G "$runtime/librustc-*rt.asan.a" >/dev/null; then
    say "skipped: the runtime of AddressSanitizer is not there for $found"
    exit 0
fi

if [ $# -eq 0 ]; then
    set -- -p iac-crc -p iac-format -p iac-reader -p iac-writer -p iac-codec -p iac-array -p iac-adapters \
        --features iac-codec/full,iac-reader/object-store,iac-adapters/volumes,iac-adapters/wsi-import,iac-adapters/wsi-icc,iac-adapters/jxl
fi

# Other flags than those of all other builds, so a folder of its own: about 8 GB.
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/sanitize"
export RUSTC_BOOTSTRAP=1
export RUSTFLAGS="-Zsanitizer=address -Cforce-frame-pointers=yes"
# The guard handles SIGBUS itself. Without memory an allocation gives null, as it does elsewhere.
export ASAN_OPTIONS="${ASAN_OPTIONS:-detect_leaks=1:handle_sigbus=0:allocator_may_return_null=1:detect_stack_use_after_return=1}"

# All reports, not only those of the first crate that has one. Left out is what limits or measures the
# memory of a process, of which the sanitizer takes terabytes.
cargo test --profile "${PROFILE:-ci}" --target "$host" --no-fail-fast --lib --bins --tests "$@" -- \
    --skip maps_that_the_system_refuses_are_made_up_for_by_reading \
    --skip spans_take_sixteen_bytes_a_row --skip memory_holds_rows_and_no_payloads
