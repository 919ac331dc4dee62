#!/usr/bin/env bash
# Runs the tests of native codecs under valgrind: memcheck for all, helgrind for those that use
# several threads. The tests are built as `make test` builds them, so nothing is compiled twice.
# Usage: valgrind.sh [CODEC...]      jpeg, jpeg2000, jpegls, jxl, threads; all but jxl, which takes long,
#                                    when none is named
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"

say() { printf 'valgrind: %s\n' "$*" >&2; }

if ! command -v valgrind >/dev/null 2>&1; then
    say "skipped: valgrind is not installed"
    exit 0
fi

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# Absolute, as tests run in the folder of their crate.
suppressions="$root/scripts/valgrind.supp"

run() {
    local tool=$1 test=$2
    shift 2
    local options=(--tool="$tool" --error-exitcode=99 --suppressions="$suppressions" --fair-sched=yes)
    if [ "$tool" = memcheck ]; then
        options+=(--leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite)
    fi
    options+=(--log-file="$scratch/$tool.$test.%p")
    # Of what libjpeg-turbo computes with vector instructions memcheck takes part for undefined, and
    # names no place where it would come from; without them it reports nothing.
    local settings=()
    [ "$test" != jpeg ] || settings=(JSIMD_FORCENONE=1)
    # shellcheck disable=SC2086
    env "${settings[@]}" CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER="valgrind ${options[*]}" \
        cargo test --profile "${PROFILE:-ci}" --workspace ${FULL:-} --test "$test" -- \
        --test-threads=1 "$@"
}

failed=()
check() {
    run "$@" || failed+=("$1 of $2")
    # What was found, and what was passed over.
    grep -hE 'ERROR SUMMARY|definitely lost|indirectly lost|possibly lost|still reachable' "$scratch/$1.$2".* >&2 || true
    grep -hE -A40 'Invalid|Conditional|uninitialised|Possible data race|are definitely lost' "$scratch/$1.$2".* | head -n 400 >&2 || true
}

targets=("$@")
[ $# -gt 0 ] || targets=(jpegls jpeg jpeg2000 threads)
for target in "${targets[@]}"; do
    if [ "$target" = threads ]; then
        check helgrind native_threads
    else
        check memcheck "$target"
    fi
done

if [ ${#failed[@]} -gt 0 ]; then
    say "failed: ${failed[*]}"
    exit 1
fi
