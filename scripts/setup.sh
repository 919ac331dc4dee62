#!/usr/bin/env bash
# Installs what building and testing this workspace need and what is missing here.
# Does nothing on a machine that is ready. Debian and Ubuntu are served (as root or with sudo);
# elsewhere it lists what to install and fails.
# Usage: setup.sh [build]      with `build`, without what only tests and measurements need
set -euo pipefail

purpose=${1:-all}

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cargo_bin="${CARGO_HOME:-$HOME/.cargo}/bin"
caller_path="${IAC_CALLER_PATH:-$PATH}"
PATH="$cargo_bin:$PATH"
rust_wanted=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' "$root/Cargo.toml" | head -n 1)

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

say() { printf 'setup: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }

# A compiler without the C library's headers is as good as none, so build something.
compiler_works() {
    have cc && have c++ && have make || return 1
    printf '#include <cstdint>\n#include <stdlib.h>\nint main() { return EXIT_SUCCESS; }\n' >"$scratch/a.cc"
    c++ -std=c++17 -o "$scratch/a" "$scratch/a.cc" >/dev/null 2>&1
}

# Debian splits `ensurepip` off into python3-venv: only a finished environment proves that it is there.
venv_works() {
    have python3 || return 1
    rm -rf "$scratch/venv"
    python3 -m venv "$scratch/venv" >/dev/null 2>&1 && "$scratch/venv/bin/python" -m pip --version >/dev/null 2>&1
}

rust_works() {
    local found
    have cargo && have rustc || return 1
    found=$(rustc --version 2>/dev/null | awk '{print $2}')
    [ -n "$found" ] && [ "$(printf '%s\n%s\n' "$rust_wanted" "$found" | sort -V | head -n 1)" = "$rust_wanted" ]
}

packages=()
compiler_works || packages+=(build-essential)
have cmake || packages+=(cmake)
have nasm || packages+=(nasm)
venv_works || packages+=(python3 python3-venv)
if [ "$purpose" = all ]; then
    # What volumes are compared with in the tests.
    have dcm2niix || packages+=(dcm2niix)
    # What counts instructions (make bench-guard).
    have valgrind || packages+=(valgrind)
fi
rust_missing=false
if ! rust_works; then
    rust_missing=true
    have rustup || have curl || packages+=(curl ca-certificates)
fi

if [ ${#packages[@]} -gt 0 ]; then
    if ! have apt-get; then
        say "this system has no apt-get; please install what is missing and run this again:"
        say "  C and C++17 compiler, make, cmake, nasm, dcm2niix, valgrind, python3 with venv, curl"
        die "  missing, by Debian's names: ${packages[*]}"
    fi
    as_root=()
    if [ "$(id -u)" -ne 0 ]; then
        have sudo || die "not root and no sudo here; please install as root: apt-get install ${packages[*]}"
        as_root=(sudo)
    fi
    say "installing ${packages[*]}"
    # Container images often come without package lists. One mirror that fails may not matter.
    "${as_root[@]}" apt-get update -qq >"$scratch/log" 2>&1 || say "apt-get update failed, trying on"
    if ! "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends "${packages[@]}" >>"$scratch/log" 2>&1; then
        tail -n 30 "$scratch/log" >&2
        die "apt-get install failed, see above"
    fi
    hash -r
    compiler_works || die "the C++ compiler still does not work: try building a small program with c++"
    venv_works || die "python3 -m venv still does not work: $(command -v python3 || echo python3) is not the system's?"
fi

if $rust_missing; then
    if have rustup; then
        say "Rust $rust_wanted or newer is needed, found $(rustc --version 2>/dev/null || echo none): updating stable"
        rustup toolchain install stable --profile minimal --component rustfmt --component clippy >&2
        # A machine may have rustup and no toolchain chosen; what somebody chose stays.
        rustup default >/dev/null 2>&1 || rustup default stable >&2
    else
        say "installing Rust for this user with rustup"
        curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs -o "$scratch/rustup.sh" ||
            die "could not fetch rustup's installer; please install Rust $rust_wanted or newer, with rustfmt and clippy"
        sh "$scratch/rustup.sh" -y --no-modify-path --profile minimal \
            --default-toolchain stable --component rustfmt --component clippy >&2
    fi
    hash -r
    rust_works || die "Rust $rust_wanted or newer is needed, and $(rustc --version 2>/dev/null || echo no rustc) is what runs; try: rustup default stable"
fi

if ! cargo fmt --version >/dev/null 2>&1 || ! cargo clippy --version >/dev/null 2>&1; then
    if have rustup; then
        rustup component add rustfmt clippy >&2
    else
        say "rustfmt or clippy is missing: 'make lint' will not work"
    fi
fi

# People type `cargo` after this; tell them when their shell will not find it.
case ":$caller_path:" in
    *":$(dirname "$(command -v cargo)"):"*) ;;
    *) say "cargo is in $cargo_bin, which is not on your PATH" ;;
esac
