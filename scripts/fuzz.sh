#!/usr/bin/env bash
# Fuzzes on the stable toolchain. Without a sanitizer the targets still find panics, overflows
# (debug assertions are on), hangs and large allocations, which is what they are for.
# Usage: fuzz.sh smoke [TARGET...]      the same inputs each time, about 6 seconds per target and processor
#        fuzz.sh SECONDS [TARGET...]    other inputs each time, from what earlier runs found
#        fuzz.sh keep [TARGET...]       puts the fewest inputs that reach what earlier runs reached
#                                       into fuzz/kept, from where every run begins
# All targets when none is named.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"

say() { printf 'fuzz: %s\n' "$*" >&2; }

mode=${1:-}
if [ "$mode" != smoke ] && [ "$mode" != keep ] && ! [[ $mode =~ ^[0-9]+$ ]]; then
    say "usage: fuzz.sh smoke|keep|SECONDS [TARGET...]"
    exit 2
fi
shift

# Inputs of a smoke run for each target: what one idle processor does in 5 to 6 seconds. A check that
# everybody has to pass must not depend on luck, so neither time nor chance decides what is tried.
smoke_runs() {
    case $1 in
        header) echo 650000 ;;
        table) echo 300000 ;;
        pack) echo 30000 ;;
        record_packs) echo 115000 ;;
        predicate) echo 450000 ;;
        codec_zstd) echo 175000 ;;
        codec_brotli) echo 12500 ;;
        codec_lz4) echo 450000 ;;
        codec_jpeg) echo 40000 ;;
        codec_jxl) echo 1500 ;;
        codec_jpeg2000) echo 25000 ;;
        codec_jpegls) echo 250000 ;;
        text_block) echo 150000 ;;
        dicom) echo 15000 ;;
        volume) echo 250000 ;;
        dicom_frames) echo 7500 ;;
        manifest) echo 300000 ;;
        features_file) echo 125000 ;;
        wsi) echo 10000 ;;
        wsi_import) echo 7500 ;;
        arrays) echo 4000 ;;
        array_files) echo 30000 ;;
        array_layers) echo 1200 ;;
        dicom_inputs) echo 15000 ;;
        htj2k) echo 5000 ;;
        icc) echo 50000 ;;
        objects) echo 10000 ;;
        ops) echo 2500 ;;
        parquet_file) echo 10000 ;;
        resample) echo 25000 ;;
        text_parts) echo 150000 ;;
        tile_files) echo 10000 ;;
        wsi_tables) echo 4000 ;;
        *) echo 25000 ;;
    esac
}
smoke_seed=20240917
# Ends a smoke run on a machine that is much slower.
smoke_seconds=60

if ! cargo fuzz --version >/dev/null 2>&1; then
    say "installing cargo-fuzz for this user"
    cargo install cargo-fuzz --locked --debug --quiet
fi

# What links libjxl as it was built for the tests, in lines; nothing where it was not.
jxl_arguments() {
    local built
    built=$(find "${CARGO_TARGET_DIR:-$root/target}"/ci/build/gamut-jxl-sys-*/out/lib -name libjxl.a \
        -printf '%T@ %h\n' 2>/dev/null | sort -n | tail -n 1 | cut -d' ' -f2-)
    [ -n "$built" ] || return 0
    printf '%s\n' -Wl,--start-group
    sed -n 's/^cargo:rustc-link-search=native=/-L/p; s/^cargo:rustc-link-lib=\(static=\)\?/-l/p' "$built/../../output"
    printf '%s\n' -Wl,--end-group
}
IAC_FUZZ_LINK=$(jxl_arguments || true)
if [ -n "$IAC_FUZZ_LINK" ]; then
    export IAC_FUZZ_LINK GAMUT_JXL_SYS_SKIP_NATIVE=1
fi

if [ $# -gt 0 ]; then
    targets=("$@")
else
    mapfile -t targets < <(cargo fuzz list)
fi

# Addresses are the same each time as well, where the system lets a process choose that.
same_addresses=()
if setarch -R true 2>/dev/null; then
    same_addresses=(setarch -R)
fi

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# All of an input on the terminal, for those who have nothing but the log.
show_findings() {
    local target=$1 input
    while IFS= read -r -d '' input; do
        say "$target: ${input##*/} has $(stat -c %s "$input") bytes, in base64:"
        base64 "$input" >&2
        say "to run it: base64 -d > input, then cargo fuzz run -s none $target input"
    done < <(find "fuzz/artifacts/$target" -type f -newer "$scratch/started" -print0 2>/dev/null)
}

# Runs libFuzzer with the options that all runs have in common, then those given. It limits single
# allocations under sanitizers only, so the targets' allocator does that (fuzz/src/allocation.rs).
run() {
    local target=$1
    shift
    "${same_addresses[@]}" cargo fuzz run -s none "$target" "$@" -max_len=8192 -timeout=10 -rss_limit_mb=2048
}

# Targets write their seeds themselves when they start (fuzz/src/seeds.rs). What libFuzzer finds
# goes to the first folder; others are only read.
fuzz_for() {
    local target=$1 corpus="fuzz/corpus/$1" seeds="fuzz/seeds/$1"
    rm -rf "$seeds"
    mkdir -p "$corpus" "$seeds"
    IAC_FUZZ_SEEDS="$root/$seeds" run "$target" "$corpus" "$seeds" -- \
        -max_total_time="$mode" -print_final_stats=1
}

smoke() {
    local target=$1 seeds="$scratch/seeds/$1" corpus="$scratch/corpus/$1" log="$scratch/$1.log"
    mkdir -p "$seeds" "$corpus"
    IAC_FUZZ_SEEDS="$seeds" run "$target" -- -runs=0 2>"$log" || {
        cat "$log" >&2
        return 1
    }
    # Named one by one, as the order of files in a folder differs between machines.
    find "$seeds" -type f | LC_ALL=C sort | paste -sd, >"$scratch/$target.list"
    # Nothing is read again from the corpus, as that goes by the clock.
    run "$target" "$corpus" -- -seed_inputs="@$scratch/$target.list" -seed="$smoke_seed" -reload=0 \
        -runs="$(smoke_runs "$target")" -max_total_time="$smoke_seconds" -print_final_stats=1
}

# Inputs of a target that are kept, and their bytes in all: with these limits fuzz/kept stays below a
# megabyte.
kept_bytes=24000
kept_input=2048

# Of inputs that reach the same, libFuzzer keeps the shortest. What the seeds reach by themselves is
# not kept.
keep() {
    local target=$1 seeds="$scratch/seeds/$1" merged="$scratch/merged/$1" kept="fuzz/kept/$1"
    local file length low high bytes=0
    mkdir -p "$seeds" "$merged" fuzz/kept "fuzz/corpus/$target"
    IAC_FUZZ_SEEDS="$seeds" run "$target" -- -runs=0 2>"$scratch/$target.log" || {
        cat "$scratch/$target.log" >&2
        return 1
    }
    # What was kept before stays only if it still reaches more.
    mkdir -p "$scratch/before/$target"
    find "$seeds" -name 'kept.*' -exec mv -t "$scratch/before/$target" {} +
    cp -r "$seeds/." "$merged"
    run "$target" "$merged" "fuzz/corpus/$target" "$scratch/before/$target" -- -merge=1 2>"$scratch/$target.log" || {
        cat "$scratch/$target.log" >&2
        return 1
    }
    # Each behind its length, two bytes in little-endian order: fuzz/src/seeds.rs reads them.
    : >"$scratch/kept"
    while read -r length file; do
        [ ! -e "$seeds/$(basename "$file")" ] || continue
        [ "$length" -le "$kept_input" ] || continue
        bytes=$((bytes + length + 2))
        [ "$bytes" -le "$kept_bytes" ] || break
        printf -v low '%02x' $((length % 256))
        printf -v high '%02x' $((length / 256))
        printf "\\x$low\\x$high" >>"$scratch/kept"
        cat "$file" >>"$scratch/kept"
    done < <(find "$merged" -type f -printf '%s %p\n' | LC_ALL=C sort -n)
    if [ -s "$scratch/kept" ]; then cp "$scratch/kept" "$kept"; else rm -f "$kept"; fi
    say "$target: $(stat -c %s "$scratch/kept") bytes kept"
}

# Runs a target and shows what it found; its name is noted where it failed.
try() {
    local target=$1
    if [ "$mode" = keep ]; then
        keep "$target"
    elif [ "$mode" = smoke ]; then
        say "$target for $(smoke_runs "$target") inputs"
        smoke "$target"
    else
        say "$target for $mode seconds"
        fuzz_for "$target"
    fi || echo "$target" >>"$scratch/failed"
    show_findings "$target"
}

# A target that does not compile ends it all; one that finds something lets the others run.
if [ $# -gt 0 ]; then
    for target in "${targets[@]}"; do
        cargo fuzz build -s none "$target"
    done
else
    cargo fuzz build -s none
fi
touch "$scratch/started" "$scratch/failed"
# In a smoke run one for each processor, with what it printed in one piece; by the clock one after the other.
jobs=1
[ "$mode" != smoke ] || jobs=$(nproc)
for target in "${targets[@]}"; do
    if [ "$jobs" = 1 ]; then
        try "$target"
        continue
    fi
    while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do
        wait -n || true
    done
    { try "$target" >"$scratch/$target.out" 2>&1; cat "$scratch/$target.out" >&2; } &
done
wait

if [ -s "$scratch/failed" ]; then
    say "failed: $(paste -sd' ' "$scratch/failed") (inputs that show it are above and in fuzz/artifacts)"
    exit 1
fi
