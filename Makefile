# Two commands set everything up: `make sweep` and `make test`. Both need Python 3.11+ with venv.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP_INSTALL ?= $(BIN)/pip install --quiet --compile
# It compiles what it copies, and an editable install copies nothing.
COMPILE = $(BIN)/python -m compileall -q suite trials reports search_spaces

.PHONY: sweep test test-cold test-gpu constraints test-nightly lint format docs docs-site clean

sweep: $(VENV)/.installed  ## run the quickstart study and end with its leaderboard
	$(BIN)/suite sweep quickstart --resume

test: $(VENV)/.installed-dev  ## run the tests; with three at a time two cores wait less
	$(BIN)/python -m pytest -n 3 --dist worksteal

test-cold: $(VENV)/.installed-dev  ## type what the documents say in fresh processes of fresh environments
	$(BIN)/python -m pytest -m "cold and not nightly" tests/cold -n 2 --dist loadfile --timeout 900

test-gpu: $(VENV)/.installed-dev  ## compare a card with the CPU, on a machine that has one
	$(BIN)/python -m pytest -m gpu tests/gpu

constraints: $(VENV)/.installed-dev  ## write anew what are the oldest and the newest accepted versions
	for way in lowest-direct:oldest highest:newest; do \
	  $(BIN)/uv pip compile --quiet --no-header --no-annotate --python-version 3.11 --extra fast \
	    --resolution $${way%:*} pyproject.toml --output-file constraints-$${way#*:}.txt --upgrade || exit; done

test-nightly: $(VENV)/.installed-dev  ## what takes long: a browser, faults, the oldest and the newest versions
	$(BIN)/python -m pytest -m nightly --timeout 3600

lint: $(VENV)/.installed-dev  ## lint, check the format, the types and the directions of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.installed-dev  ## mend what lint can mend
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/.installed  ## write docs/algorithms.md and docs/commands.md anew, from docstrings, signatures and search spaces
	$(BIN)/python -m suite.catalog > docs/algorithms.md
	$(BIN)/typer suite.cli.app utils docs --name suite --title Commands --output docs/commands.md

docs-site: $(VENV)/.installed-dev  ## the documentation as a site in build/site, all links checked
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

clean:  ## remove the environment and caches, not the results in runs/
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis build *.egg-info

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "suite needs Python 3.11 or newer: make $(MAKECMDGOALS) PYTHON=python3.12" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP_INSTALL) --constraint constraints.txt --editable ".[fast]"
	$(COMPILE)
	touch $@

$(VENV)/.installed-dev: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP_INSTALL) --constraint constraints.txt --editable ".[dev]"
	$(COMPILE)
	touch $@ $(VENV)/.installed
