# Everything sets itself up: a virtual environment in .venv, made anew when pyproject.toml changes.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
READY_TO_RUN := $(VENV)/.ready-to-run
PEERS := $(VENV)/.bench
READY_TO_FUZZ := $(VENV)/.ready-to-fuzz
FUZZ_SECONDS ?= 10
WORKERS ?= 5
QUICK := core formats facts config client storage system
BENCH_ARGS ?= --save

# Whoever forbids Python to keep what it compiled has every process of every test compile all of ackd anew.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help demo test quick check collected faults bench fuzz clis captures diagrams schemas documents picture house clean
.DEFAULT_GOAL := help

help:
	@echo "make demo   see ackd at work, in an empty temporary directory"
	@echo "make test   check and all tests"
	@echo "make quick  about a minute on two cores: ruff, the layers, and the tests that need no daemon"
	@echo "make check  ruff, mypy, the layers"
	@echo "make faults every crash and fault, in full: nearly an hour on two cores; as root, for it mounts file systems of its own,"
	@echo "            and with all that .ci/run installs: nothing may be skipped"
	@echo "make bench  speed, beside limits, other queues and supervisors: prints a table, and keeps it with its plot in"
	@echo "            docs/performance.md; 15 minutes, as root on an ext4 of its own; BENCH_ARGS=--quick: rough, 2 minutes, keeps nothing"
	@echo "make fuzz   hostile bytes by every door, FUZZ_SECONDS each (default $(FUZZ_SECONDS), about 8 minutes in all)"
	@echo "make clis   installs the real Claude Code, Codex and Gemini in .clis, for the tests that use them (npm packages; 850 MB)"
	@echo "make house  how the code lies in its rooms, in figures: modules, importers, one message's walk, names, docstrings"
	@echo "make captures   the screens that the profiles are made from, taken anew from the real programs and opencode: 10 minutes"

# What ackd needs to run; $(READY) adds what its tests need.
$(READY_TO_RUN): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "ackd needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	touch $(READY_TO_RUN)

$(READY): $(READY_TO_RUN)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $(READY)

demo: $(READY_TO_RUN)
	$(BIN)/ackd demo

test: $(READY)
	$(MAKE) --no-print-directory -j 2 check collected
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup $(PYTEST_ARGS)

quick: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m pytest -q -n 2 tests/test_layers.py $(addprefix tests/,$(QUICK)) $(PYTEST_ARGS)

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy daemon/ackd tests
	$(BIN)/python -m pytest -q tests/test_layers.py

# Compiles the tests once, for all workers: each would do it for itself.
collected: $(READY)
	$(BIN)/python -m pytest --collect-only -q >/dev/null

faults: $(READY)
	ACKD_FAULTS=full ACKD_FORBID_SKIPS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup --timeout 0 tests/faults $(PYTEST_ARGS)
	$(BIN)/python -m tests.simulation --hours 10000 --jobs $$(nproc)

$(PEERS): $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[bench]'
	touch $(PEERS)

bench: $(PEERS)
	$(BIN)/python -m tests.bench $(BENCH_ARGS)

$(READY_TO_FUZZ): $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[fuzz]'
	touch $(READY_TO_FUZZ)

fuzz: $(READY_TO_FUZZ)
	FUZZ_SECONDS=$(FUZZ_SECONDS) $(BIN)/python -m tests.fuzz $(FUZZ_TARGETS)

clis: $(READY)
	$(BIN)/python -m tests.real_clis.install claude codex gemini

captures: $(READY)
	$(BIN)/python -m tests.real_clis.install
	$(BIN)/python -m tests.real_clis.captures

diagrams: $(READY)
	$(BIN)/python -m tests.redraw_diagrams

schemas: $(READY)
	$(BIN)/python tests/rewrite_schemas.py

documents: $(READY)
	$(BIN)/python -m tests.session_log_document
	$(BIN)/python -m tests.configuration_document
	$(BIN)/python -m tests.man_pages

picture: $(READY)
	$(BIN)/python tests/draw_picture.py

house: $(READY)
	$(BIN)/python -m tests.house

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .fuzz
