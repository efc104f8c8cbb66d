# dragoman: every target makes the virtual environment it needs once, and is quick the second time.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DRAGOMAN_DATA ?= $(realpath ../shared/data)
DRAGOMAN_CASES ?= $(realpath ../shared/cases)
export DRAGOMAN_DATA DRAGOMAN_CASES
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.DEFAULT_GOAL := help
.PHONY: help install demo test test-slow check docs bench clean

help: ## This list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

install: $(VENV)/.installed ## A virtual environment in .venv with the dragoman command
	@echo "dragoman is in $(BIN)/dragoman; try: $(BIN)/dragoman --help"

$(VENV)/.python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "dragoman needs Python 3.11 or newer: make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.installed: pyproject.toml constraints.txt | $(VENV)/.python
	$(PIP) --editable .
	@touch $@

$(VENV)/.test: $(VENV)/.installed
	$(PIP) --editable '.[test]'
	@touch $@

$(VENV)/.check: $(VENV)/.test
	$(PIP) --editable '.[check]'
	@touch $@

$(VENV)/.docs: $(VENV)/.installed
	$(PIP) --editable '.[docs]'
	@touch $@

demo: $(VENV)/.installed ## Train, average, translate and score in some minutes
	$(BIN)/dragoman demo

test: $(VENV)/.test ## The tests (a quarter of an hour)
	$(BIN)/python -m pytest -q -m 'not slow and not alone' --numprocesses 2
	$(BIN)/python -m pytest -q -m 'alone and not slow'

test-slow: $(VENV)/.test ## The tests that take longer
	$(BIN)/python -m pytest -q -m slow

check: $(VENV)/.check test docs ## Lint, types, tests, documentation
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(VENV)/.docs ## The documentation, into docs/_build/html; what its pages compute is computed
	$(BIN)/python docs/paper_map.py --check
	$(BIN)/python docs/run_pages.py
	$(BIN)/python -m sphinx -q -W --keep-going -b html docs docs/_build/html
	$(BIN)/python -m sphinx -q -W --keep-going -b doctest docs docs/_build/doctest
	@echo "open docs/_build/html/index.html"

bench: $(VENV)/.installed ## The short speed measurements
	$(BIN)/python benchmarks/train_step.py
	$(BIN)/python benchmarks/decode.py

clean: ## Remove what the targets made (not the virtual environment)
	rm -rf docs/_build .pytest_cache .mypy_cache .ruff_cache .hypothesis dist
