#!/usr/bin/env bash
# Runs tests of code with `unsafe`, atomics and hand-written parsing under Miri, where a nightly
# toolchain has it. Miri runs no native code, so tests that reach some are left out.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"

say() { printf 'miri: %s\n' "$*" >&2; }

# A toolchain that is not there must not be downloaded.
export RUSTUP_AUTO_INSTALL=0
if ! cargo +nightly miri --version >/dev/null 2>&1; then
    say "skipped: there is no nightly toolchain with the component miri"
    exit 0
fi
if ! [ -d "$(rustc +nightly --print sysroot)/lib/rustlib/src/rust/library" ]; then
    say "skipped: the nightly toolchain lacks the component rust-src"
    exit 0
fi

export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/miri"
export MIRIFLAGS="${MIRIFLAGS:--Zmiri-disable-isolation}"
cargo +nightly miri test -p iac-reader --lib -- guard:: per_process::
# Without the vectors, and with them.
cargo +nightly miri test -p iac-crc --lib
RUSTFLAGS=-Ctarget-feature=+avx2,+pclmulqdq,+vpclmulqdq cargo +nightly miri test -p iac-crc --lib
cargo +nightly miri test -p iac-codec --no-default-features --lib
# One test sums up headers of 64 KiB a thousand times, which takes Miri hours.
cargo +nightly miri test -p iac-format --lib -- --skip table:: --skip every_altered_byte_of_the_text
