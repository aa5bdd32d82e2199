# The front door: `make help`.  Every target installs what it needs first (Debian; nothing happens
# when all is there), then does one thing.  The build itself is Meson's; see CONTRIBUTING.md.

# The distribution's tools come first: an environment manager may put a `meson` or `python3` of its
# own, or one that does not start, before them.  `make MESON=... PYTHON=...` overrules.
works = $(shell for tool in $(1); do $$tool --version >/dev/null 2>&1 && echo $$tool && break; done)
# A Meson that is too old is none; meson.build says the same number.
MESON = $(shell for tool in /usr/bin/meson meson; do \
  have=$$($$tool --version 2>/dev/null) && \
  test "$$(printf '%s\n' 1.0.1 "$$have" | sort -V | head -n 1)" = 1.0.1 && echo $$tool && break; \
  done)
PYTHON = $(call works,/usr/bin/python3 python3)
NINJA = $(call works,/usr/bin/ninja ninja ninja-build)
CLANG = clang
ARGS =
comma = ,

# run_tests FOLDER ARGUMENTS: ends with "N passed, N failed, N skipped".  BUILT is empty where Meson is to build first what these
# tests need.
BUILT = --no-rebuild
run_tests = MESON="$(MESON)" $(PYTHON) tools/test_summary.py $(1) $(BUILT) $(2) $(ARGS)
# configure FOLDER OPTIONS: once; later changes of meson.build are ninja's affair
configure = test -f $(1)/build.ninja || { \
  test -n "$(MESON)" || { echo "make: Meson 1.0.1 or newer is needed: docs/howto/install.md" >&2; \
  exit 1; }; $(MESON) setup $(1) $(WERROR) $(2); }

DEBUG = -Dbuildtype=debugoptimized -Db_lundef=false
# What is looked at and hardly run has no use for debug information and machine code for GPUs.  By clang it is not optimized either: gcc
# warns of what cannot be when it has not looked that far.
LIGHT = -Ddebug=false -Ddevice_code=disabled
CHECKED = --suite unit --suite conformance --suite fuzz --no-suite nosan --timeout-multiplier 5

# Who changes the code wants no warnings; who only builds it, perhaps with a newer compiler, wants it
# to build.  (A folder that is configured already stays as it is.)
WERROR =
test bench lint sanitize mutants matrix faults soak fuzz gpu build-tests: WERROR = -Dwerror=true

.NOTPARALLEL:
.PHONY: help build build-tests demo test bench bench-types bench-dask bench-charm bench-mpi gpu lint sanitize mutants matrix faults soak fuzz clean \
        wheels install deps-build deps-test deps-lint deps-sanitize deps-bench

help:
	@echo "make build      the library and the command: build/libwherry.so, build/wherry;"
	@echo "                the Python package: .venv/bin/python -c 'import wherry'"
	@echo "make demo       a short tour on this machine"
	@echo "make test       all tests that take seconds"
	@echo "make bench      measure, beside the alternatives"
	@echo "make bench-types  the datatype engine beside MPICH, Open MPI and the memory"
	@echo "make bench-dask   Dask over Wherry beside tcp; ARGS=--ucxx: beside distributed-ucxx, too"
	@echo "make bench-charm  chares, in C and Python, beside charm4py, MPICH and Open MPI"
	@echo "make bench-mpi    MPI beside MPICH and Open MPI"
	@echo "make gpu        all that concerns GPUs, on a machine with one; else over the test driver"
	@echo "make lint       format, includes, API and ABI, clang-tidy; builds with gcc, clang and no UCX"
	@echo "make sanitize   the tests under address+undefined and under thread"
	@echo "make mutants    break one line at a time; the named test must notice"
	@echo "make matrix     every mode, lane, size, pattern and end of a conversation: none hangs"
	@echo "make faults     killed, stopped, slow and hostile peers"
	@echo "make wheels     build wheels for every Python that is here, and try them in empty environments"
	@echo "make soak       long runs under load, then each fuzzer for ten minutes"
	@echo "make fuzz       libFuzzer programs in build-fuzz/fuzz"
	@echo "make install    as meson install does; PREFIX=FOLDER: there, DESTDIR= is obeyed"
	@echo "make clean      remove the build folders"
	@echo "ARGS=...        goes to the tool that the target runs"

deps-build:
	@tools/install-deps.sh build
deps-test:
	@tools/install-deps.sh build test
deps-lint:
	@tools/install-deps.sh build lint
deps-sanitize:
	@tools/install-deps.sh build test sanitize
deps-bench:
	@tools/install-deps.sh build bench

build: deps-build
	@$(call configure,build,)
	@$(NINJA) -C build product
	@$(PYTHON) tools/make_venv.py build

# What the tests need, of which some is not for users; --no-rebuild is only right after it.
build-tests: build
	@$(NINJA) -C build meson-test-prereq

demo: build
	@$(NINJA) -C build cli/plain-files examples/jacobi3d
	@./tools/demo $(ARGS)

test: deps-test build-tests
	@$(call run_tests,build,)

bench: deps-bench build
	@./tools/bench $(ARGS)

# Three runs (hot in segments too, cold, unpack) with tables, JSON and plots below build/bench-types.
bench-types: deps-bench build
	@$(NINJA) -C build bench/types/bench-types bench/types/bench-type-calls
	@$(PYTHON) bench/types/run.py --build build --all $(ARGS)

bench-dask: deps-bench build
	@$(PYTHON) bench/dask/run.py build $(ARGS)

bench-charm: deps-bench build
	@$(NINJA) -C build examples/jacobi3d bench/charm/bench-hello
	@$(PYTHON) bench/charm/run.py build $(ARGS)

bench-mpi: deps-bench build
	@$(NINJA) -C build bench/mpi/measure bench/mpi/switch
	@$(PYTHON) bench/mpi/run.py build $(ARGS)

# Ends well without a GPU, after what runs over the test driver.
gpu: deps-test build-tests
	@MESON="$(MESON)" $(PYTHON) tools/gpu.py build $(ARGS)

# With asserts, because they tell the analyzer what is true: by clang what users get (`sanitize` compiles the tests by clang, too).
# And a build without all that is optional, of which no other target compiles the files that say so.
lint: deps-lint build
	@$(NINJA) -C build
	@CC=$(CLANG) && export CC && $(call configure,build-clang,-Db_ndebug=false -Doptimization=0 $(LIGHT))
	@$(NINJA) -C build-clang product
	@$(call configure,build-plain,-Ducx=disabled -Dhwloc=disabled -Dpython=disabled $(LIGHT))
	@$(NINJA) -C build-plain wherry tests/conformance
	@MESON="$(MESON)" $(PYTHON) tools/lint.py build-clang $(ARGS)

# Two folders, because a program is either address- or thread-checked; debugoptimized keeps asserts.
# In the first all tests are compiled, because clang's warnings are wanted of those, too, that do not run there; in the second only
# what its tests need, without those whose processes have one thread each and do most in UCX, which is not checked.  What ends while it
# has threads waits for races at its end, by default for a second; many tests do.
sanitize: BUILT =
sanitize: deps-sanitize
	@CC=$(CLANG) && export CC && \
	  $(call configure,build-asan,$(DEBUG) -Db_sanitize=address$(comma)undefined) && \
	  $(call configure,build-tsan,$(DEBUG) -Db_sanitize=thread)
	@$(NINJA) -C build-asan meson-test-prereq
	@failed=0; \
	  echo "== address, undefined"; $(call run_tests,build-asan,$(CHECKED) --suite mpi) || failed=1; \
	  export TSAN_OPTIONS="atexit_sleep_ms=50 $$TSAN_OPTIONS"; \
	  echo "== thread"; $(call run_tests,build-tsan,$(CHECKED) --suite races --no-suite unthreaded) || failed=1; \
	  exit $$failed

matrix faults: deps-test build-tests
	@$(call run_tests,build,--suite $@)

# The long runs, then each fuzzer for ten minutes.
soak: deps-test build-tests fuzz
	@failed=0; \
	  echo "== long runs"; $(call run_tests,build,--suite soak) || failed=1; \
	  echo "== fuzzers"; $(call run_tests,build-fuzz,--suite fuzz) || failed=1; \
	  exit $$failed

# ARGS=PYTHON... for interpreters that are not in the PATH.
wheels: deps-build
	@$(PYTHON) tools/check_wheel.py --ucx libucx-cu12 $(ARGS)

mutants: deps-test
	@MESON="$(MESON)" $(PYTHON) tools/mutants.py $(ARGS)

fuzz: deps-sanitize
	@CC=$(CLANG) && export CC && \
	  $(call configure,build-fuzz,$(DEBUG) -Db_sanitize=address -Dfuzz=true)
	@$(NINJA) -C build-fuzz

# Another prefix is written into what is built.
install: build
	@test -z "$(PREFIX)" || { $(MESON) configure build -Dprefix="$(PREFIX)" -Dlibdir=lib && \
	  $(NINJA) -C build product; }
	@$(MESON) install -C build --no-rebuild $(ARGS)

clean:
	rm -rf build build-clang build-plain build-asan build-tsan build-fuzz .venv
