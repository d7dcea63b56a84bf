# Two commands do everything on a fresh machine with Python 3.11 or newer:
#   make demo   sets up, then runs the main job on an embedded default
#   make test   sets up, then runs all checks
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# One more than there are cores: tests that wait for other processes leave theirs idle.
JOBS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
# Root in a container, or CI set: a machine that nobody keeps, where a browser may be installed.
DISPOSABLE := $(or $(CI),$(shell [ "$$(id -u)" = 0 ] && { [ -e /.dockerenv ] || \
	[ -e /run/.containerenv ] || ! grep -qsE '^(systemd|init|launchd)' /proc/1/comm; } && echo yes))

.DEFAULT_GOAL := help
.PHONY: help setup demo test browser lint format bench paper campaign docs package clean

help:  ## list the targets
	@grep -E '^[a-z]+:.*##' Makefile | sed -E 's/:.*## /\t/'

setup: $(READY)  ## make .venv with everything the tests need, versions pinned by constraints.txt

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("cmpe needs Python 3.11 or newer, found %s; set PYTHON=..." % sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -c constraints.txt hatchling editables
	$(BIN)/python -m pip install --quiet -c constraints.txt --no-build-isolation -e '.[dev]'
	$(BIN)/cmpe compile
	touch $(READY)

demo: $(READY)  ## a diagnosis with proof, what a budget costs, a race on a wide problem: demo.png
	$(BIN)/cmpe demo

test: $(READY) lint $(if $(DISPOSABLE),browser)  ## ruff, mypy, pytest with coverage; the core under each compiler
	$(BIN)/cmpe compile
	$(BIN)/python -m pytest --cov -n $(JOBS)
	CMPE_PLAIN_NUMBA=1 $(BIN)/python -m pytest tests/core -n $(JOBS) --dist loadfile
	NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest tests/core -n $(JOBS) --dist loadfile --cov --cov-config=tests/core/coverage.ini

browser:  ## install Debian's chromium for the tests of the report (root with apt-get only)
	@.ci/browser

lint: $(READY)  ## ruff and mypy only
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY)  ## let ruff format and fix
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(READY)  ## run one benchmark: make bench NAME=exact
	$(BIN)/python -m benchmarks.$(or $(NAME),exact)

paper: $(READY)  ## the paper's study: make paper SCALE=smoke|small|brief|full|fair OUT=DIR [ARGS=...]
	$(BIN)/python -m study paper run --scale $(or $(SCALE),smoke) --out $(or $(OUT),paper-$(or $(SCALE),smoke)) --workers $(or $(WORKERS),2) $(ARGS)

campaign: $(READY)  ## a hostile campaign, or more of it: make campaign MINUTES=30 SEED=1 [OUT=DIR]
	$(BIN)/python -m benchmarks.campaign --minutes $(or $(MINUTES),30) --seed $(or $(SEED),0) --out $(or $(OUT),campaign-$(or $(SEED),0))

docs: $(BIN)/sphinx-build $(if $(DISPOSABLE),browser)  ## the site in docs/build/html: pages, gallery, reference; warnings are errors
	$(BIN)/sphinx-build -b html -W --keep-going -j auto docs docs/build/html
	$(BIN)/python -m pytest tests/docs

$(BIN)/sphinx-build: $(READY)
	$(BIN)/python -m pip install --quiet -c constraints.txt --no-build-isolation -e '.[docs]'

package: $(READY)  ## wheel and sdist in dist/, tested in an empty environment
	.ci/package $(BIN)/python

clean:  ## remove the environment and caches
	rm -rf $(VENV) dist docs/build .mypy_cache .ruff_cache .hypothesis .coverage .coverage.*
