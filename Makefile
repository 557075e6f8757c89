# SPDX-License-Identifier: Apache-2.0
# Needs python3.11+, g++ and make; everything else is set up by tools/setup.sh.
#   make PYTHON=/path/to/python   another interpreter      make VENV=folder   another environment
SHELL := /bin/bash
VENV ?= .venv
PYTHON ?=
WERROR ?= OFF
export VENV PYTHON
python := $(VENV)/bin/python

.PHONY: help setup build demo test test-torch check-all docs faults lint format bench sanitize wheel wheel-cuda13 clean

help:
	@echo "make demo       train Wide & Deep on the Adult data and write a report"
	@echo "make test       linters, C++ tests, Python tests"
	@echo "make test-torch  hugectr.torch under the oldest torch and the newest, each in an environment of its own"
	@echo "make check-all  what takes long or needs more packages (docs/check-all.md): PARTS=\"docs wheels\" for some"
	@echo "make docs       the site, in build/docs"
	@echo "make faults     every case of faults (docs/reliability.md); a short part is in make test"
	@echo "make lint       linters only          make format   repairs what they can"
	@echo "make bench      benchmarks            make sanitize C++ tests under ASan, UBSan, TSan"
	@echo "make wheel      manylinux wheel of hugectr in dist/"
	@echo "make wheel-cuda13  that of the CUDA plug-in: half an hour of processor time"
	@echo "make clean      removes everything made here"

setup:
	@tools/setup.sh

build: setup
	@tools/build.sh cpu -DHUGECTR_TESTS=OFF

demo: build
	@$(python) -m hugectr demo

test:
	@tools/setup.sh tests
	@tools/build.sh cpu -DHUGECTR_TESTS=ON -DHUGECTR_WERROR=$(WERROR)
	@$(python) tools/run_tests.py build/cpu

test-torch: build
	@tools/test_torch.sh

check-all: build
	@$(python) tools/check_all.py $(PARTS)

docs: build
	@$(python) tools/check_all.py --site

faults: build
	@$(python) tests/faults/run.py --full

lint: setup
	@$(python) tools/lint.py

format: setup
	@$(python) tools/lint.py --fix

bench: build
	@set -e; for file in benchmarks/*/*.py; do echo "==> $$file"; $(python) $$file; done

sanitize:
	@tools/setup.sh tests
	@tools/sanitize.sh

wheel: setup
	@tools/wheel.sh hugectr

wheel-cuda13: setup
	@tools/wheel.sh cuda13

clean:
	rm -rf build dist hugectr/*.so hugectr/include hugectr/lib $(VENV) .venv-extras
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
