# What is done often, under short names. The build itself is CMake's: see CMakePresets.json.

.PHONY: all build run test test-aarch64 test-long bench bench-peers format format-check tidy asan-ubsan tsan sanitize package-test clean help

all: build

help:  ## say what there is
	@sed -nE 's/^([a-z0-9-]+):[^#]*## (.*)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

build:  ## the library, the command line, tests and benchmarks, in build/release
	scripts/build release

run:  ## build, then the demo on real input
	./run

test:  ## build, then all tests
	./test

asan-ubsan tsan:
	scripts/build $@
	ctest --preset $@

sanitize: asan-ubsan tsan  ## all tests under AddressSanitizer + UBSan, then under ThreadSanitizer

test-aarch64:  ## the tests built for 64-bit Arm, under an emulator: what NEON computes
	scripts/build aarch64
	ctest --preset aarch64

test-long: build sanitize test-aarch64  ## the sanitizers and Arm, a million operations on caches, then a minute of fuzzing for each file format
	HEED_FUZZ_OPERATIONS=500000 ctest --preset release -R '^kv_cache_fuzz_test'
	scripts/fuzz 60

package-test: build  ## only the tests that use Heed as a stranger's project would
	ctest --preset release -R '^package'

bench: build  ## speeds as a share of this machine's peak, into benchmarks/results
	scripts/bench

bench-peers:  ## speeds beside PyTorch, ONNX Runtime, OpenVINO, scikit-learn and faiss, into benchmarks/results
	scripts/bench-peers --group attention
	scripts/bench-peers --group algorithms

format:  ## lay out the sources
	scripts/format

format-check:  ## say which sources are not laid out
	scripts/format --check

tidy:  ## clang-tidy over the library, the judge and the command line
	scripts/tidy

clean:  ## remove everything built
	rm -rf build
