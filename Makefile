# One command each: everything is set up in .venv on first use and again when pyproject.toml changes.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV ?= .venv
OUT ?= demo-output
SAMPLES ?=
PYTEST_ARGS ?=
DEVICE ?= cpu
PRINT ?=

python := $(VENV)/bin/python
pip_install := $(python) -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable
demo_ready := $(VENV)/.demo-ready
dev_ready := $(VENV)/.dev-ready
train_ready := $(VENV)/.train-ready

.PHONY: help env dev demo test lint format models clean

help: ## Show this help
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-8s %s\n", $$1, $$2}'
	@echo "  variables: PYTHON=$(PYTHON) VENV=$(VENV) OUT=$(OUT) SAMPLES=FOLDER PYTEST_ARGS=..."

env: $(demo_ready) ## Set up .venv with the agent and the demo (no torch)

dev: $(dev_ready) ## Set up .venv with everything, for development and training

demo: $(demo_ready) ## Enrol a voice and run every case through the pipeline (SAMPLES=FOLDER for your own recordings)
	@$(python) -m tools.demo --out "$(OUT)" $(if $(SAMPLES),--samples "$(SAMPLES)")

test: $(dev_ready) ## Run all tests
	@$(python) -m pytest $(PYTEST_ARGS)

lint: $(dev_ready) ## Check style and types
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/ruff format --check .
	@$(VENV)/bin/mypy

format: $(dev_ready) ## Rewrite the code in the project's style
	@$(VENV)/bin/ruff check --fix .
	@$(VENV)/bin/ruff format .

models: $(if $(PRINT),,$(train_ready)) ## Train every model from nothing (hours; DEVICE=cuda; PRINT=1 only shows the commands, REHEARSE=1 tries them on little)
	@PYTHON=$(python) tools/train/models.sh $(if $(PRINT),--print,$(if $(REHEARSE),--rehearse)) $(DEVICE)

clean: ## Remove what was made here (not the downloads in ~/.cache/voiceid)
	rm -rf "$(VENV)" "$(OUT)" build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find agent tools tests -name __pycache__ -type d -prune -exec rm -rf {} +

$(python):
	@command -v $(PYTHON) > /dev/null || { \
	  echo "voiceid needs Python 3.11 or newer: sudo apt install python3 python3-venv (or PYTHON=/path/to/python)" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "voiceid needs Python 3.11 or newer, $(PYTHON) is $$($(PYTHON) -V); name another: make PYTHON=python3.11 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2> /dev/null || { \
	  echo "$(PYTHON) cannot make virtual environments: sudo apt install python3-venv" >&2; exit 1; }
	@$(PYTHON) -m venv "$(VENV)"

$(demo_ready): pyproject.toml constraints.txt | $(python)
	@echo "Installing voiceid and its demo into $(VENV) ..."
	@$(pip_install) '.[demo]'
	@touch $@

$(dev_ready): pyproject.toml constraints.txt | $(python)
	@echo "Installing voiceid with its training and test tools into $(VENV) (torch: several hundred MB) ..."
	@$(pip_install) '.[dev]'
	@$(python) -c 'import sounddevice' 2> /dev/null || { \
	  echo "PortAudio is missing, microphone tests need it: sudo apt install libportaudio2" >&2; exit 1; }
	@touch $@

$(train_ready): $(dev_ready)
	@echo "Installing teachers and synthesizers into $(VENV) ..."
	@$(pip_install) '.[dev,train]'
	@touch $@
