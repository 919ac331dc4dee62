# Everything that people and continuous integration run. `make help` lists it.
SHELL := /bin/bash
.DEFAULT_GOAL := help

# One profile for all, so that native libraries are built once.
PROFILE ?= ci
# Seconds per fuzz target in `make soak`.
SOAK_SECONDS ?= 600
# For `make fuzz`.
TARGET ?=
TIME ?= 300
# For `make valgrind`, as in CODECS=jpegls.
CODECS ?=
# For `make bench-compare`, as in ARGS=--quick.
ARGS ?=
# For `make semver`.
SEMVER_CHECKS := 0.49.0

export IAC_CALLER_PATH := $(PATH)
export PATH := $(or $(CARGO_HOME),$(HOME)/.cargo)/bin:$(PATH)

CARGO_TEST := cargo test --profile $(PROFILE)
# Every codec and backend. Not --all-features: iac-format has a feature that is a test by itself, and
# `zarr` keeps the members of all JSON in the order they were made in, which nobody else has.
FULL := --features iac-codec/full,iatrocache/full,iac-cli/full,iac-adapters/text-search,iac-adapters/parquet,iac-adapters/volumes,iac-adapters/wsi-icc,iac-adapters/wsi-openslide,iac-cli/text-search,iac-cli/wsi-icc,iac-cli/wsi-openslide,iac-array/jxl,iac-array/htj2k,iac-array/jpegls
# Crates that switch features of the others on, so that these would not be tested as they are alone.
APART := --exclude iac-interop --exclude iac-benches --exclude iac-python --exclude iac-examples

# What only checks shares a folder, apart from what is run: nothing is linked here, so that libjxl, which
# takes longest, need not be built.
CHECKS := export GAMUT_JXL_SYS_SKIP_NATIVE=1 CARGO_TARGET_DIR=$${CARGO_TARGET_DIR:-target}/check &&

.PHONY: help
help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

.PHONY: setup
setup: ## install what this machine lacks (compiler, cmake, nasm, python3-venv, Rust; dcm2niix, valgrind)
	@scripts/setup.sh

.PHONY: setup-build
setup-build: ## the part of it that building needs
	@scripts/setup.sh build

.PHONY: reference
reference: setup ## make the private virtual environment with the reference packages
	@scripts/reference-env.sh >/dev/null

.PHONY: demo
demo: setup-build ## build the iac command and show a pack being written, verified and read
	cargo run --profile $(PROFILE) -p iac-cli --features jxl -- demo

.PHONY: test
test: setup reference ## all tests: the crates with all codecs, then the Python package
	@[ -n "$$IAC_CORPUS" ] || echo 'test: IAC_CORPUS is not set, tests over the public corpus are not run' >&2
	$(CARGO_TEST) --workspace $(FULL)
	@$(MAKE) --no-print-directory python-test

.PHONY: python-test
python-test: setup ## the last part of it: build the Python package into .venv-python and run its tests
	PROFILE=$(PROFILE) scripts/python-env.sh >/dev/null
	cd crates/iac-python && ../../.venv-python/bin/python -m pytest -q

.PHONY: wheel
wheel: setup-build ## the Python package for Linux x86-64 with all codecs, in target/wheels
	PROFILE=release scripts/python-wheel.sh

.PHONY: lint
lint: setup ## format, clippy with warnings as errors, licences
	cargo fmt --all --check
	$(CHECKS) cargo clippy --profile $(PROFILE) --workspace --all-targets $(FULL) -- -D warnings
	scripts/deny.sh

.PHONY: deny
deny: setup ## licences, sources and bans of all dependencies, and advisories where their database can be reached
	scripts/deny.sh advisories

.PHONY: doc
doc: setup-build ## the API documentation in target/check/doc, warnings as errors
	$(CHECKS) RUSTDOCFLAGS='-D warnings' cargo doc --profile $(PROFILE) --workspace --no-deps $(FULL)

.PHONY: book
book: setup-build ## the documentation as a book, in target/book (installs mdbook when it is absent)
	@command -v mdbook >/dev/null 2>&1 || cargo install --locked --version 0.5.4 mdbook
	mdbook build

.PHONY: tables
tables: setup ## rewrite the tables in the documents that are made from manifests
	IAC_REWRITE_TABLES=1 $(CARGO_TEST) --workspace $(FULL) --test manifests

# Of `make package` and `make semver`: all crates that are published.
PUBLISHED := iac-crc iac-format iac-codec iac-writer iac-reader iac-ops iac-array iac-adapters iatrocache iac-cli
# What `make semver` compares with.
BASE ?= $(shell git describe --tags --abbrev=0 --match 'v*' 2>/dev/null)

.PHONY: package
package: setup-build ## pack the crates as a registry gets them, and build each from its archive
	CARGO_PROFILE_DEV_DEBUG=0 cargo package --locked $(PUBLISHED:%=-p %) $(ARGS)

.PHONY: semver
semver: setup ## public interfaces beside those of the last release, or of BASE=COMMIT (installs cargo-semver-checks)
	@[ -n "$(BASE)" ] || { echo 'semver: no release is tagged yet; say with what to compare, as in make semver BASE=HEAD~20' >&2; exit 2; }
	@command -v cargo-semver-checks >/dev/null 2>&1 || cargo install --locked --version $(SEMVER_CHECKS) cargo-semver-checks
	cargo semver-checks --baseline-rev $(BASE) --default-features $(PUBLISHED:%=-p %) $(ARGS)

.PHONY: features
features: setup ## each feature set compiles, and the tests pass with none and with the default ones
	$(CARGO_TEST) --workspace $(APART) --no-default-features --lib --bins --tests
	$(CARGO_TEST) --workspace $(APART) --lib --bins --tests
	$(CARGO_TEST) -p iac-format --features serde-json-extremes
	$(CARGO_TEST) -p iac-array --features zarr --test zarr
	$(CHECKS) scripts/features.py $(PROFILE)

.PHONY: fuzz-smoke
fuzz-smoke: setup ## every fuzz target for the same inputs each time
	scripts/fuzz.sh smoke

.PHONY: check
check: lint test doc features fuzz-smoke bench-guard ## all that continuous integration runs

.PHONY: fuzz-keep
fuzz-keep: setup ## keep the fewest and shortest inputs that reach what long runs reached, in fuzz/kept
	scripts/fuzz.sh keep $(TARGET)

.PHONY: fuzz
fuzz: setup ## one fuzz target for longer: make fuzz TARGET=pack TIME=600
	@[ -n "$(TARGET)" ] || { echo 'fuzz: say which one, as in make fuzz TARGET=pack TIME=600' >&2; exit 2; }
	scripts/fuzz.sh $(TIME) $(TARGET)

# Other flags than those of all other builds, so a folder of its own, of about 8 GB, that may be deleted.
.PHONY: sanitize
sanitize: setup ## tests under AddressSanitizer and LeakSanitizer, on the stable toolchain (not in check)
	PROFILE=$(PROFILE) scripts/sanitize.sh

.PHONY: valgrind
valgrind: setup ## tests of the native codecs under memcheck and helgrind (not in check)
	PROFILE=$(PROFILE) FULL='$(FULL)' scripts/valgrind.sh $(CODECS)

.PHONY: miri
miri: setup ## tests of what holds `unsafe` under Miri, where a nightly toolchain has it (not in check)
	scripts/miri.sh

# Built in a folder of its own, since other crates know this flag too.
.PHONY: loom
loom: setup ## all orders in which threads may meet in what takes no locks (not in check)
	CARGO_TARGET_DIR=$${CARGO_TARGET_DIR:-target}/loom RUSTFLAGS='--cfg loom' \
		cargo test --profile $(PROFILE) -p iac-reader --no-default-features --lib -- models::

.PHONY: soak
soak: setup reference ## property tests and fuzzing for much longer than in check
	IAC_TEXT_SOAK_BYTES=1000000000 $(CARGO_TEST) -p iac-adapters --features iac-codec/full --test text_memory -- --nocapture
	IAC_FLIPS=full PROPTEST_RNG_SEED=$$RANDOM PROPTEST_CASES=20000 IAC_TABLE_DAMAGE_ROUNDS=100000 $(CARGO_TEST) --workspace $(FULL)
	IAC_FLIPS=full $(CARGO_TEST) -p iac-adapters --features iac-codec/full,dicom,wsi-import,jxl --test flips -- --nocapture
	IAC_FLIPS=full $(CARGO_TEST) -p iac-cli --features full --test public_files -- --nocapture
	$(CARGO_TEST) -p iac-cli --features full --test tiles_killed -- --ignored --nocapture
	$(CARGO_TEST) -p iac-array --test kills -- --ignored --nocapture
	IAC_ARRAY_FLUSHES=1000 $(CARGO_TEST) -p iac-array --test crowds -- --nocapture
	IAC_FLIPS=full $(CARGO_TEST) -p iac-array --test bits -- --nocapture
	IAC_ARRAY_ROUNDS=20 $(CARGO_TEST) -p iac-array --test kinds -- --nocapture
	$(CARGO_TEST) -p iac-interop --features zarr --test arrays
	IAC_SOAK_KILLS=600 $(CARGO_TEST) -p iac-cli --features full --test crash -- --include-ignored --nocapture --test-threads=1
	IAC_SOAK_KILLS=300 $(CARGO_TEST) -p iac-writer --test kills -- --nocapture
	IAC_SOAK_SECONDS=60 $(CARGO_TEST) -p iac-reader --test crowd -- --nocapture
	scripts/fuzz.sh $(SOAK_SECONDS)

.PHONY: bench
bench: setup ## our own numbers (criterion)
	cargo bench -p iac-benches

.PHONY: bench-compare
bench-compare: setup reference ## the reference packages and this workspace on the same bytes
	cargo run --release -p iac-benches --bin compare -- $(ARGS)

.PHONY: bench-field
bench-field: setup ## other formats and this one on the same bytes (an environment of 0.6 GB)
	cargo run --release -p iac-benches --bin compare -- --only field-4-60k,field-1k,field-text,field-f16,field-open,field-write $(ARGS)

# Built as the tests are, so that nothing is compiled again.
.PHONY: bench-guard
bench-guard: setup ## instructions of hot paths beside those on record (ARGS=--record records them)
	# With the tests, so that what those were built with is used again.
	cargo build --profile $(PROFILE) --workspace $(FULL) --tests --bin guard
	$${CARGO_TARGET_DIR:-target}/$(PROFILE)/guard $(ARGS)

.PHONY: bench-scale
bench-scale: setup ## very large packs and many of them, with the pictures of docs/performance.md
	cargo run --release -p iac-benches --bin scale -- $(ARGS)

.PHONY: bench-arrays
bench-arrays: setup ## stores of arrays beside array-format and zarrs, on the same numbers
	cargo run --release --manifest-path benches/arrays/Cargo.toml -- $(ARGS)

.PHONY: clean
clean: ## remove what was built, the virtual environment included
	cargo clean
	rm -rf .venv .venv-peers .venv-python .venv-compat fuzz/target fuzz/corpus fuzz/seeds fuzz/artifacts benches/arrays/target
