# Two commands do everything, set-up included: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SETUP := $(VENV)/.installed
DOCS_SETUP := $(VENV)/.installed-docs

.PHONY: demo test lint docs clean help

help:
	@echo "make demo   set up, plan on the built-in problem, leave pictures in runs/demo"
	@echo "make test   set up, then lint, types, doctests and tests (.venv/bin/pytest -m slow runs the long ones)"
	@echo "make docs   set up, then build the documentation in docs/_build/html"
	@echo "make clean  remove everything that these commands made"

$(SETUP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[test]'
	@touch $@

$(DOCS_SETUP): $(SETUP)
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	@touch $@

demo: $(SETUP)
	$(BIN)/polinfer plan gridworld/multimodal --reward-scale 2 --seeds 10 --out runs/demo --overwrite
	@echo "look at runs/demo/policy.png: the policy in each cell (white beams) and how often it is visited (darkness)"

lint: $(SETUP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: lint
	$(BIN)/pytest -q -n 2 --dist loadfile

docs: $(DOCS_SETUP)
	$(BIN)/sphinx-build -W --keep-going -b html docs docs/_build/html
	@echo "open docs/_build/html/index.html"

clean:
	rm -rf $(VENV) runs docs/_build .pytest_cache .mypy_cache .ruff_cache
