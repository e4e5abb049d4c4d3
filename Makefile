# make setup   a virtual environment in .venv with typedpallas and the vendors' compilers
# make demo    the set-up, then `typedpallas demo`
# make check   formatting, lint, types, layers, generated files
# make test    the set-up, `make check`, then the tests
#
# PYTHON=/path/to/python3.12 chooses the Python that .venv is made of.

SHELL := /bin/bash
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.set-up
PYTEST_ARGS ?=

# Tests and checks run on the CPU; only the compile workers talk to a vendor's compiler.
export JAX_PLATFORMS := cpu
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_ROOT_USER_ACTION := ignore

.PHONY: setup demo check test format

setup: $(STAMP)
	@:

$(STAMP): pyproject.toml constraints.txt scripts/find_python.sh
	@set -e; \
	python="$$(scripts/find_python.sh)"; \
	if [ ! -x $(BIN)/python ]; then \
	  echo "Making $(VENV) with $$python ..."; \
	  "$$python" -m venv $(VENV) || { \
	    rm -rf $(VENV); \
	    echo "No virtual environment: on Debian and Ubuntu, install python3-venv (or python3.12-venv)." >&2; exit 1; }; \
	fi; \
	echo "Installing typedpallas with the compile-only TPU and GPU compilers (about 1 GB the first time) ..."; \
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[tpu,gpu,draw,dev]' || { \
	  echo "The installation did not finish. Check the network or the package index (pip's own message is above)" >&2; \
	  echo "and run 'make setup' again: what was downloaded is kept." >&2; exit 1; }; \
	touch $@

demo: setup
	$(BIN)/typedpallas demo

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python -m typedpallas.docgen --check

test: check
	$(BIN)/python -m pytest $(PYTEST_ARGS)

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
