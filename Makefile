# SPDX-License-Identifier: Apache-2.0
#
# make cuda       build with the CUDA backend (fetches NVIDIA's headers and libraries; needs no GPU)
# make demo       build, write a ResNet-50, build its engine, run it, print the report
# make test       what CI runs
# make test-all   everything: all models at batch 1 and 8, every ISA level, emulation of an AVX2-only CPU
# Every target sets up what it needs (tools/setup.sh) and says what it installs.

SHELL := /bin/bash
JOBS ?= $(shell nproc)
PREFIX ?= /usr/local
LAUNCHER := $(if $(shell command -v ccache 2>/dev/null),-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)

.PHONY: help explorer wheel onnxruntime build cuda test-gpu demo test test-all test-fast test-asan test-tsan install deb format tidy bench bench-load clean setup-build setup-test
help:
	@sed -n '3,7p' Makefile | sed 's/^# //'
	@echo "make build      release build in build/          make bench    compare with ONNX Runtime and OpenVINO"
	@echo "make bench-load the same beside a process that half uses one core, and after pauses"
	@echo "make install    PREFIX=$(PREFIX)                make format   clang-format what changed"
	@echo "make deb        Debian packages in build/packages   make explorer the explorer in Python"
	@echo "make wheel      the Python package, build/wheel/lathe-*.whl"
	@echo "make onnxruntime  Lathe as an execution provider, build/liblathe_onnxruntime.so"

setup-build:
	@tools/setup.sh build
setup-test:
	@tools/setup.sh test

build: setup-build
	@cmake --preset release $(LAUNCHER) -DLATHE_TESTS=OFF >/dev/null
	@cmake --build build -j$(JOBS)

cuda: setup-build
	@tools/setup-cuda.sh
	@cmake --preset release $(LAUNCHER) -DLATHE_TESTS=OFF >/dev/null
	@cmake --build build -j$(JOBS)

# On a machine with a GPU: the backend's own tests, ONNX's node tests, every model against the oracle, and long runs.
test-gpu: setup-test
	@tools/setup-cuda.sh
	@cmake --preset release $(LAUNCHER) -DLATHE_TESTS=ON >/dev/null
	@cmake --build build -j$(JOBS) --target lathe lathe_cuda backend_cuda_test conformance replays random_shapes enqueue_cost
	@build/bin/backend_cuda_test --gtest_brief=1
	@.venv/bin/python tests/conformance/run.py --build build --backend cuda
	@.venv/bin/python tests/control_flow/run.py --build build --device 0
	@.venv/bin/python tests/state/run.py --build build --device 0
	@tests/gpu/run.sh build out/gpu

demo: build
	@tools/demo.sh

# The release build with tests; one command per check, so that the first that fails is the last thing printed.
test-fast: setup-test
	@cmake --preset release $(LAUNCHER) -DLATHE_TESTS=ON >/dev/null
	@cmake --build build -j$(JOBS)
	@tools/test.sh fast

# Parsers and fast tests under AddressSanitizer and UndefinedBehaviorSanitizer.
test-asan: setup-test
	@cmake --preset asan $(LAUNCHER) >/dev/null
	@cmake --build build-asan -j$(JOBS) --target sanitized_tests
	@tools/test.sh asan

# The thread pool and the runtime under ThreadSanitizer.
test-tsan: setup-test
	@cmake --preset tsan $(LAUNCHER) >/dev/null
	@cmake --build build-tsan -j$(JOBS) --target threaded_tests
	@tools/test.sh tsan

test:
	@tools/test-summary.sh begin
	@$(MAKE) --no-print-directory test-fast
	@$(MAKE) --no-print-directory test-asan
	@$(MAKE) --no-print-directory test-tsan
	@tools/test-summary.sh end

test-all: setup-test
	@tools/setup.sh test-all
	@$(MAKE) --no-print-directory test
	@tools/test.sh slow
	@cmake --build build-asan -j$(JOBS) --target lathe command_lines fuzz
	@tools/test.sh asan-cli
	@tools/test-summary.sh end

bench: setup-test build
	@cmake --build build -j$(JOBS) --target bench_runner bench_problems
	@.venv/bin/python bench/compare.py $(BENCH_ARGS)
bench-load: setup-test build
	@cmake --build build -j$(JOBS) --target bench_runner
	@.venv/bin/python bench/load.py $(BENCH_ARGS)

# .venv-explorer with `import lathe_explorer` in it.
explorer: setup-build
	@tools/setup.sh explorer
	@cmake --preset release $(LAUNCHER) -DLATHE_TESTS=OFF >/dev/null
	@tools/setup-explorer.sh

# build/wheel/lathe-*.whl: `import lathe`, with the explorer in it.
wheel: build
	@tools/setup.sh explorer
	@tools/build-wheel.sh

# build/liblathe_onnxruntime.so: an execution provider for ONNX Runtime.
onnxruntime: setup-build
	@tools/setup-onnxruntime.sh build
	@cmake --preset release $(LAUNCHER) -DLATHE_TESTS=OFF >/dev/null
	@cmake --build build -j$(JOBS) --target lathe_onnxruntime

install: build
	@cmake --install build --prefix $(PREFIX)

# build/packages/lathe_*.deb and liblathe-dev_*.deb
deb: build
	@cd build && cpack -G DEB

# Device code: as .clang-format has it, but functions of one line stay on one.
DEVICE_STYLE = '{BasedOnStyle: Google, ColumnLimit: 110, DerivePointerAlignment: false, ReflowComments: false, \
                 AllowShortFunctionsOnASingleLine: All, AlwaysBreakTemplateDeclarations: MultiLine}'
format:
	@git diff --name-only --diff-filter=d main -- '*.cpp' '*.h' '*.inc' | xargs -r clang-format-14 -i
	@git diff --name-only --diff-filter=d main -- '*.cuh' | xargs -r clang-format-14 -i --style=$(DEVICE_STYLE)
tidy:
	@tools/setup.sh dev
	@cmake --preset release $(LAUNCHER) -DLATHE_TESTS=ON >/dev/null
	@git diff --name-only --diff-filter=d main~20 -- 'src/*.cpp' 'cli/*.cpp' | xargs -r clang-tidy-16 -p build --quiet

clean:
	@rm -rf build build-asan build-tsan build-ubsan build-debug
