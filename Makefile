.DEFAULT_GOAL := help
.PHONY: bench-speed help demo test test-vllm bench-history lint docs format clean

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
RELEASE ?= vllm==0.20.2

help:  ## Show the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "dtypefix needs Python 3.11 or newer; name one: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --editable . --group dev
	@touch $@

demo: $(READY)  ## Scan a vLLM release (0.20.2) and show its repair as a diff
	$(BIN)/dtypefix scan $(RELEASE) || test $$? -eq 1
	$(BIN)/dtypefix rewrite --diff $(RELEASE) || test $$? -eq 1

test: $(READY)  ## Run the tests; the releases they read are fetched once
	$(BIN)/python -m pytest $(ARGS)

test-vllm: $(READY)  ## Run the repairs in a real vLLM: about 5 GB in the cache folder, 10 to 25 minutes
	DTYPEFIX_VLLM=1 $(BIN)/python -m pytest tests/vllm $(ARGS)

bench-speed: $(READY)  ## Time dtypefix against ruff, ast-grep and Fixit: about 10 minutes
	$(BIN)/python -m benchmarks.speed $(ARGS)

bench-history: $(READY)  ## Score rules and rewrites on repairs of the past (36 releases are fetched once)
	$(BIN)/python benchmarks/history/fetch.py > /dev/null
	$(BIN)/python benchmarks/history/score.py --command "$(abspath $(BIN))/dtypefix" $(ARGS)
	$(BIN)/python benchmarks/history/rewrites.py

lint: $(READY)  ## Check style and types
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

docs: $(READY)  ## Build the site from docs/ and the rule pages into site/
	$(BIN)/python -m pip install --quiet --group docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet

format: $(READY)  ## Put the code into shape
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

clean:  ## Remove the environment and the caches of the tools
	rm -rf $(VENV) site .pytest_cache .mypy_cache .ruff_cache
