# `make help` lists the targets. Everything sets itself up: a machine needs Python 3.11 or later, make and a package
# registry that pip can reach; pip's own configuration and PIP_* variables are honoured.

SHELL := /bin/sh
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.tocsin-setup
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input

# Whoever keeps Python from writing compiled files wants no litter in their folders; in this one `make clean` removes
# it. Without compiled files each process of pytest rewrites and compiles every test anew: 10 s of CPU instead of 4.
unexport PYTHONDONTWRITEBYTECODE

# Tests wait for disks and for each other's processes half of the time, so three keep two cores busy.
PROCESSES := 3

# The fast part needs no Spark: pure code, golden files and properties.
FAST_TESTS := $(wildcard tests/unit tests/golden tests/property)

.PHONY: help
help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  \033[1m%-14s\033[0m %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: setup
setup: $(STAMP) ## Create .venv with everything in it (again: does nothing)

$(STAMP): requirements.lock requirements-build.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("Tocsin needs Python 3.11 or later; this is " + sys.version.split()[0] + " (make PYTHON=...)" if sys.version_info < (3, 11) else 0)'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing the locked packages into $(VENV): two to four minutes the first time"
	@$(PIP) install --quiet --require-hashes -r requirements-build.lock
	@$(PIP) install --quiet --require-hashes --no-build-isolation -r requirements.lock
	@$(PIP) install --quiet --no-deps --no-build-isolation --editable .
	-@$(BIN)/tocsin prepare
	@touch $@

.PHONY: demo
demo: setup ## Run the living city and show it in a browser; CI=1: it ends by itself, and fails if anything was lost
	@$(BIN)/tocsin demo $(if $(CI),--ci)

.PHONY: test
test: setup ## Run every Python test: first those without Spark, then those with Spark and of whole systems
	@echo "1 of 2: tests without Spark"
	@$(BIN)/python -m pytest -n $(PROCESSES) --dist worksteal -p no:schemathesis -m "not spark and not system and not servers and not chaos"
	@echo "2 of 2: tests with Spark, in processes that have a session each, and tests of whole systems, the longest first"
	@$(BIN)/python -m pytest -n $(PROCESSES) --dist loadfile --no-loadscope-reorder -m "(spark or system) and not servers and not chaos"

.PHONY: test-unit
test-unit: setup ## Run the pure tests only (seconds, no Spark)
	@HYPOTHESIS_PROFILE=brief $(BIN)/python -m pytest -n 2 --dist worksteal -p no:schemathesis -m "not spark and not chaos and not servers and not shell" $(FAST_TESTS)

.PHONY: test-cluster
test-cluster: setup ## Tests with servers that are not ours: PostgreSQL (those that are not installed are skipped)
	@$(BIN)/python -m pytest -n 2 --dist loadfile -p no:schemathesis -m "servers and not chaos" tests/unit tests/servers

.PHONY: test-dashboard
test-dashboard: ## Run the unit tests of the dashboard's page (seconds; needs node 20 or later)
	@cd dashboard && npm ci --no-fund --no-audit --loglevel=error && npm test --silent

.PHONY: lint
lint: setup ## Style, types, layers
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

.PHONY: check
check: lint test ## Everything that a change must pass: lint, then tests and docs examples

AUDIT := .venv-audit
.PHONY: audit
audit: setup ## Look up advisories for all locked packages, have bandit look at the code, write bills of materials to build/
	@test -x $(AUDIT)/bin/python || $(PYTHON) -m venv $(AUDIT)
	@$(AUDIT)/bin/python -m pip --disable-pip-version-check --no-input install --quiet --require-hashes -r requirements-audit.lock \
		&& PYTHONPATH=tests $(BIN)/python -m audit \
		|| { test -x $(AUDIT)/bin/pip-audit && exit 1 || echo "skipped  audit: its tools can't be installed; no registry answers"; }

# Helm comes as source from Go's registry. The version is the one that the chart was tried with.
CHARTS := .venv-charts
HELM := helm.sh/helm/v3/cmd/helm@v3.22.0
.PHONY: charts
charts: setup ## Lint the Helm chart, render it with many values, and validate what comes out (needs helm, or go to install it)
	@test -x $(CHARTS)/bin/python || $(PYTHON) -m venv $(CHARTS)
	@$(CHARTS)/bin/python -m pip --disable-pip-version-check --no-input install --quiet --require-hashes -r requirements-charts.lock || true
	@if ! command -v helm > /dev/null && ! test -x $(CHARTS)/bin/helm && command -v go > /dev/null; then \
		GOBIN="$(CURDIR)/$(CHARTS)/bin" go install $(HELM) || true; fi
	@PYTHONPATH=tests $(BIN)/python -m charts

.PHONY: disk
disk: setup ## Cut the power and flip bits, hundreds of times; look for planted bugs (DISK=--help)
	@PYTHONPATH=tests $(BIN)/python -m disk $(DISK)

.PHONY: chaos
chaos: setup ## Kill cluster, brokers and coordinator again and again under load; count everything (CHAOS=--help)
	@PYTHONPATH=tests $(BIN)/python -m chaos $(CHAOS)

.PHONY: scorecard
scorecard: setup ## The sixteen reliability tests, and their report; hours (BRIEF=1: a quarter of an hour; SCORECARD=--help)
	@PYTHONPATH=tests $(BIN)/python -m scorecard $(if $(BRIEF),--brief) $(SCORECARD)

.PHONY: bench
bench: setup ## The benchmarks, one JSON object each
	@$(BIN)/tocsin bench channels --json
	@$(BIN)/tocsin bench once --json
	@$(BIN)/tocsin bench latency --json
	@$(BIN)/tocsin bench ingest --json
	@$(BIN)/tocsin bench idle --json
	@$(BIN)/tocsin bench fanout --json
	@$(BIN)/tocsin bench end-to-end --json
	@$(BIN)/tocsin bench balance --json
	@$(BIN)/tocsin bench filters --json

.PHONY: compare
compare: setup ## One benchmark of an earlier revision and of this one, in turns: BEFORE=revision BENCH='latency' (ROUNDS=2)
	@test -n "$(BEFORE)" && test -n "$(BENCH)" || { echo "make compare BEFORE=revision BENCH='latency' [ROUNDS=2]" >&2; exit 2; }
	@PYTHONPATH=tests $(BIN)/python -m comparison "$(BEFORE)" "$(BENCH)" --rounds $(or $(ROUNDS),2)

.PHONY: dashboard
dashboard: ## Build the dashboard's page anew: only after changing it (needs node 20 or later)
	@cd dashboard && npm ci --no-fund --no-audit --loglevel=error && npm run --silent build

.PHONY: screenshots
screenshots: setup ## Take the documentation's pictures of the dashboard anew (needs a browser)
	@PYTHONPATH=tests $(BIN)/python -m e2e.screenshots

.PHONY: format
format: setup ## Format the code and mend what ruff can
	@$(BIN)/ruff check --fix-only --quiet .
	@$(BIN)/ruff format .

# The locks name versions and hashes but no registry, so each machine asks the one it is configured for.
LOCK := $(BIN)/uv pip compile --universal --python-version 3.11 --generate-hashes --no-annotate \
	--custom-compile-command "make lock" --upgrade --quiet

.PHONY: lock
lock: setup ## Pin the newest versions that pyproject.toml allows
	@$(PIP) install --quiet uv
	@$(LOCK) --group build -o requirements-build.lock
	@$(LOCK) --group audit -o requirements-audit.lock
	@$(LOCK) --group charts -o requirements-charts.lock
	@$(LOCK) pyproject.toml --extra all --group dev -c requirements-build.lock -o requirements.lock

.PHONY: clean
clean: ## Remove .venv and everything that tools leave behind
	@rm -rf $(VENV) $(AUDIT) $(CHARTS) build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis spark-warehouse
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
