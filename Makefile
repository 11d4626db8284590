# Every target sets up what it needs; a second run reuses the environment.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
WORKERS ?= auto
CASES ?= 1000000
SEED ?= 0

.PHONY: help demo test test-portable test-browser test-oldest test-newest fuzz check format lint types imports docs bench bench-quick experiments experiment clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/'

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "rankwise needs Python 3.11 or newer; set PYTHON=/path/to/python3"; exit 1; }
	$(PYTHON) -m venv $(VENV)

# One stamp per extra: touched only when the install succeeded, redone when pyproject.toml changes.
$(VENV)/.run: $(VENV)/bin/python pyproject.toml
	$(PIP) install --quiet -e .
	@touch $@

$(VENV)/.test: $(VENV)/bin/python pyproject.toml
	$(PIP) install --quiet -e '.[test]'
	@touch $@ $(VENV)/.run

$(VENV)/.dev: $(VENV)/bin/python pyproject.toml
	$(PIP) install --quiet -e '.[dev]'
	@touch $@ $(VENV)/.test $(VENV)/.run

$(VENV)/.experiments: $(VENV)/bin/python pyproject.toml
	$(PIP) install --quiet -e '.[experiments]'
	@touch $@ $(VENV)/.test $(VENV)/.run

demo: $(VENV)/.run  ## rank the bundled digits, next to plain ridge regression
	@$(BIN)/rankwise demo

test: $(VENV)/.test  ## run the tests and every docstring example
	$(BIN)/python -m pytest -q -n $(WORKERS) -m "not browser"

test-portable: $(VENV)/.test  ## run a sample as on other machines: processors, locales, rights, systems
	$(BIN)/python tests/portable.py --workers $(WORKERS)

test-browser: $(VENV)/.test  ## run the tests in a real Chromium; it is installed where apt-get may
	@command -v chromium chromedriver >/dev/null || (apt-get update -qq \
		&& apt-get install -y -qq chromium chromium-driver >/dev/null 2>&1) \
		|| echo "chromium and chromium-driver cannot be installed here: the tests will be skipped"
	$(BIN)/python -m pytest -q tests/browser

# The lowest versions that pyproject.toml allows of what rankwise imports, and the newest of all.
.venv-oldest/.test: pyproject.toml
	$(PYTHON) -m venv .venv-oldest
	.venv-oldest/bin/python -m pip --disable-pip-version-check install --quiet -e '.[test]' \
		$$($(PYTHON) tests/oldest_versions.py)
	@touch $@

.venv-newest/.test: pyproject.toml
	$(PYTHON) -m venv .venv-newest
	.venv-newest/bin/python -m pip --disable-pip-version-check install --quiet --upgrade \
		--upgrade-strategy eager -e '.[test]'
	@touch $@

test-oldest: .venv-oldest/.test  ## run the tests with the oldest versions that are allowed
	.venv-oldest/bin/python -m pytest -q -n $(WORKERS) -m "not browser" tests

test-newest: .venv-newest/.test  ## run the tests with the newest versions there are
	.venv-newest/bin/python -m pytest -q -n $(WORKERS) -m "not browser" tests

fuzz: $(VENV)/.test  ## try a million model files, data files, calls, predictions: make fuzz CASES=... SEED=...
	RANKWISE_FUZZ=$(CASES) RANKWISE_FUZZ_SEED=$(SEED) $(BIN)/python -X faulthandler -m pytest -q -n $(WORKERS) tests/fuzz tests/core/test_soak.py

check: format lint types imports docs test  ## everything that must be green on main

format: $(VENV)/.dev
	$(BIN)/ruff format --check .

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff check --preview --select PLW1514 src  # files have an encoding on every system

types: $(VENV)/.dev
	$(BIN)/mypy

imports: $(VENV)/.dev
	$(BIN)/lint-imports --no-logo 2>/dev/null || $(BIN)/lint-imports

docs: $(VENV)/.dev  ## build the documentation into docs/_build
	$(BIN)/sphinx-build -q -W --keep-going -b html docs docs/_build/html

bench: $(VENV)/.experiments  ## run the speed tables and rewrite benchmarks/RESULTS.md
	$(BIN)/python -m benchmarks

bench-quick: $(VENV)/.experiments  ## run every speed table for a minute at most; record nothing
	$(BIN)/python -m benchmarks --quick

experiments: $(VENV)/.experiments  ## rerun all experiments and rewrite experiments/RESULTS.md
	$(BIN)/python -m experiments

experiment: $(VENV)/.experiments  ## rerun one table: make experiment NAME=letor
	$(BIN)/python -m experiments $(NAME)

clean:  ## remove the environment and everything built
	rm -rf $(VENV) .venv-oldest .venv-newest docs/_build docs/api/generated build dist
