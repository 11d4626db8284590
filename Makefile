# Every target sets up what it needs; a second run reuses the environment.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
WORKERS ?= auto
CASES ?= 1000000
SEED ?= 0

.NOTPARALLEL:
.PHONY: help demo test test-quick test-portable test-browser test-oldest test-newest test-debug sanitize fuzz coverage package check format lint types imports docs bench bench-quick experiments experiment clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/'

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "rankwise needs Python 3.11 or newer; set PYTHON=/path/to/python3"; exit 1; }
	$(PYTHON) -m venv $(VENV)

# What compiles the kernels: the C compiler of the machine or, where there is none, zig from PyPI.
HAS_CC := $(shell command -v $(firstword $(CC)) || command -v gcc || command -v clang)
ifeq ($(HAS_CC),)
ZIG := '$(CURDIR)/$(BIN)/python' -m ziglang
COMPILER := CC="$(ZIG) cc" AR="$(ZIG) ar"
ZIGLANG := ziglang
endif

# Python compiles the modules that it runs; compiling all of SciPy's beforehand takes 11 s (--no-compile).
$(VENV)/.tools: $(VENV)/bin/python
	$(PIP) install --quiet --no-compile 'meson-python>=0.17' 'cython>=3.1' ninja $(ZIGLANG)
	@touch $@

# Only what has changed is compiled again.
INSTALL := PATH="$(CURDIR)/$(BIN):$$PATH" $(COMPILER) $(PIP) install --quiet --no-build-isolation --config-settings=build-dir=build/kernels
SOURCES := $(shell find src -type f -not -name '*.pyc' -not -name '*.so') meson.build meson.options

# One stamp per extra, redone when pyproject.toml changes; a stamp is touched only when all went well.
$(VENV)/.with-%: $(VENV)/.tools pyproject.toml
	$(INSTALL) '.[$*]'
	@touch $@ $(VENV)/.built

$(VENV)/.plain: $(VENV)/.tools pyproject.toml
	$(INSTALL) --no-compile .
	@touch $@ $(VENV)/.built

# The package itself, built and installed again when a source has changed.
$(VENV)/.built: $(VENV)/.tools $(SOURCES)
	$(INSTALL) --no-deps .
	@touch $@

demo: $(VENV)/.plain $(VENV)/.built  ## rank the bundled digits, next to plain ridge regression
	@$(BIN)/rankwise demo

test: $(VENV)/.with-test $(VENV)/.built  ## run the tests and every docstring example
	$(BIN)/python -m pytest -q -n $(WORKERS) -m "not browser"

test-quick: $(VENV)/.with-test $(VENV)/.built  ## run the tests of what has changed since main, in seconds
	$(BIN)/python tests/quick.py -n $(WORKERS) -m "not browser"

test-portable: $(VENV)/.with-test $(VENV)/.built  ## run a sample as on other machines: processors, locales, rights, systems
	$(COMPILER) $(BIN)/python tests/portable.py --workers $(WORKERS)

test-browser: $(VENV)/.with-test $(VENV)/.built  ## run the tests in a real Chromium; it is installed where apt-get may
	@command -v chromium chromedriver >/dev/null || (apt-get update -qq \
		&& apt-get install -y -qq chromium chromium-driver >/dev/null 2>&1) \
		|| echo "chromium and chromium-driver cannot be installed here: the tests will be skipped"
	$(BIN)/python -m pytest -q tests/browser

# The lowest versions that pyproject.toml allows of what rankwise imports, and the newest of all.
.venv-oldest/.test: pyproject.toml $(SOURCES)
	$(PYTHON) -m venv .venv-oldest
	.venv-oldest/bin/python -m pip --disable-pip-version-check install --quiet '.[test]' \
		$$($(PYTHON) tests/oldest_versions.py)
	@touch $@

.venv-newest/.test: pyproject.toml $(SOURCES)
	$(PYTHON) -m venv .venv-newest
	.venv-newest/bin/python -m pip --disable-pip-version-check install --quiet --upgrade \
		--upgrade-strategy eager '.[test]'
	@touch $@

test-oldest: .venv-oldest/.test  ## run the tests with the oldest versions that are allowed
	.venv-oldest/bin/python -m pytest -q -n $(WORKERS) -m "not browser" tests

test-newest: .venv-newest/.test  ## run the tests with the newest versions there are
	.venv-newest/bin/python -m pytest -q -n $(WORKERS) -m "not browser" tests

# The kernels built in other ways, into folders that come before the installed package.
build/checked: $(VENV)/.with-test $(SOURCES)
	rm -rf $@
	$(INSTALL)-checked --no-deps --target $@ --config-settings=setup-args=-Dchecked=true .

build/sanitized: $(VENV)/.with-test $(SOURCES)
	rm -rf $@
	$(INSTALL)-sanitized --no-deps --target $@ --config-settings=setup-args=-Dsanitize=true .

test-debug: build/checked  ## run the tests with kernels that check the bounds of arrays
	PYTHONPATH=$< $(BIN)/python -m pytest -q -n $(WORKERS) -m "not browser" tests

sanitize: build/sanitized  ## run the tests of kernels and the fuzzers under gcc's sanitizers
	PYTHONPATH=$< LD_PRELOAD="$$(cc -print-file-name=libasan.so) $$(cc -print-file-name=libubsan.so)" \
		ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 PYTHONMALLOC=malloc \
		$(BIN)/python -m pytest -q -n $(WORKERS) tests/native tests/fuzz/test_data_files.py tests/measures tests/graph

fuzz: $(VENV)/.with-test $(VENV)/.built  ## try a million model files, data files, calls, predictions: make fuzz CASES=... SEED=...
	RANKWISE_FUZZ=$(CASES) RANKWISE_FUZZ_SEED=$(SEED) $(BIN)/python -X faulthandler -m pytest -q -n $(WORKERS) tests/fuzz tests/core/test_soak.py

coverage: $(VENV)/.with-dev $(VENV)/.built  ## run the tests and tell which lines of the package none of them reaches
	$(BIN)/python -m pytest -q -n $(WORKERS) -m "not browser" --cov=rankwise --cov-report=term:skip-covered tests docs

package: $(VENV)/.with-dev  ## build the source archive and the wheel, as a release does, and check what an index would show
	rm -rf dist
	$(BIN)/python -m build --outdir dist
	$(BIN)/python -m twine check --strict dist/*

check:  ## everything that must be green on main; about half an hour on two cores; it says how long it took
	@start=$$(date +%s); for step in format lint types imports docs test; do \
		before=$$(date +%s); $(MAKE) --no-print-directory $$step || exit 1; \
		echo "$$step: green after $$(($$(date +%s) - before)) s"; done; \
		echo "all of it: $$((($$(date +%s) - start) / 60)) minutes"

format: $(VENV)/.with-dev $(VENV)/.built
	$(BIN)/ruff format --check .

lint: $(VENV)/.with-dev $(VENV)/.built
	$(BIN)/ruff check .
	PATH="$(CURDIR)/$(BIN):$$PATH" cython-lint src/rankwise/native
	$(BIN)/ruff check --preview --select PLW1514 src  # files have an encoding on every system

types: $(VENV)/.with-dev $(VENV)/.built
	$(BIN)/mypy

imports: $(VENV)/.with-dev $(VENV)/.built
	$(BIN)/lint-imports --no-logo 2>/dev/null || $(BIN)/lint-imports

docs: $(VENV)/.with-dev $(VENV)/.built  ## build the documentation into docs/_build
	$(BIN)/sphinx-build -q -W --keep-going -b html docs docs/_build/html

bench: $(VENV)/.with-experiments $(VENV)/.built  ## run the speed tables and rewrite benchmarks/RESULTS.md
	$(BIN)/python -m benchmarks

bench-quick: $(VENV)/.with-experiments $(VENV)/.built  ## run every speed table for a minute at most; record nothing
	$(BIN)/python -m benchmarks --quick

experiments: $(VENV)/.with-experiments $(VENV)/.built  ## rerun all experiments and rewrite experiments/RESULTS.md
	$(BIN)/python -m experiments

experiment: $(VENV)/.with-experiments $(VENV)/.built  ## rerun one table: make experiment NAME=letor
	$(BIN)/python -m experiments $(NAME)

clean:  ## remove the environment and everything built
	rm -rf $(VENV) .venv-oldest .venv-newest docs/_build docs/api/generated build dist
