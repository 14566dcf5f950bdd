# make demo: train on a graph that comes with the package.   make test: lint, types, all tests.   make docs: HTML of docs.
# make quick: lint and tests without documentation, browser, further processes and large data; for use while writing.
# make coverage: lines and branches that tests reach.   make nightly: 10,000 broken files, and mutants.
# make mutants: errors made in the code one by one, which the tests have to notice; MINUTES=20 is the time limit.
# All create .venv and install into it first; a second time they start at once, also without a network.
PYTHON ?= python3
BIN := .venv/bin
SOURCES := $(shell find src -type f -not -name '*.pyc')
PYTEST := OMP_NUM_THREADS=1 $(BIN)/pytest -n auto --maxprocesses 4 --dist worksteal

MINUTES ?= 20

.PHONY: demo test quick docs coverage nightly mutants clean

demo: .venv/.installed
	$(BIN)/progcl train digits

test: .venv/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(PYTEST)

quick: .venv/.installed-dev
	$(BIN)/ruff check .
	$(PYTEST) -m "not (docs or browser or kill or processes or large)"

# From scratch every time: the first page is made of the README, which Sphinx does not watch.
docs: .venv/.installed-dev
	$(BIN)/sphinx-build -W --keep-going -n -E -q docs docs/_build/html
	@echo docs/_build/html/index.html

coverage: .venv/.installed-dev
	COVERAGE_FILE=$(CURDIR)/.coverage $(PYTEST) --cov --cov-report=term-missing:skip-covered

nightly: .venv/.installed-dev mutants
	OMP_NUM_THREADS=1 $(BIN)/pytest --hypothesis-profile nightly tests/data/test_fuzz.py

mutants: .venv/.installed-dev
	$(BIN)/pip install --quiet -c constraints.txt -e '.[mutants]'
	OMP_NUM_THREADS=1 nice $(BIN)/python benchmarks/mutants.py --minutes $(MINUTES) --out results/mutants.jsonl

# With the development install the package is used in place: nothing to copy.
.venv/.installed: $(SOURCES) pyproject.toml constraints.txt | .venv
	test -e .venv/.installed-dev || $(BIN)/pip install --quiet -c constraints.txt .
	touch $@

.venv/.installed-dev: pyproject.toml constraints.txt | .venv
	$(BIN)/pip install --quiet -c constraints.txt -e '.[dev]'
	touch $@

.venv:
	$(PYTHON) -m venv .venv

clean:
	rm -rf .venv runs build dist docs/_build .pytest_cache .mypy_cache .ruff_cache
