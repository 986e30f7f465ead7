# `make demo` and `make test` set up everything they need; a second call starts at once.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: demo test slow check format reference results docs clean
.DEFAULT_GOAL := demo

$(VENV)/ready: pyproject.toml constraints.txt
	@echo "Installing into $(VENV) (once) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) torch -e '.[dev]'
	@touch $@

$(VENV)/docs-ready: $(VENV)/ready
	@$(PIP) -e '.[docs]'
	@touch $@

demo: $(VENV)/ready
	@$(BIN)/qcapsnets demo

test: $(VENV)/ready
	@$(BIN)/pytest -m "not slow"

slow: $(VENV)/ready
	@$(BIN)/pytest -m slow

check: $(VENV)/ready
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

format: $(VENV)/ready
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

reference: $(VENV)/ready
	@$(BIN)/python -m typer qcapsnets.cli.app utils docs --name qcapsnets \
		--title "Command reference" --output docs/commands.md

results: $(VENV)/ready
	@$(BIN)/python -m tools.results

docs: $(VENV)/docs-ready
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

clean:
	rm -rf $(VENV) build site runs .pytest_cache .mypy_cache .ruff_cache .hypothesis src/*.egg-info
