# Two commands do everything, set-up included: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
TEST_INSTALLED := $(VENV)/.installed-test
DOCS_INSTALLED := $(VENV)/.installed-docs
# By file, in the order of `tests/conftest.py`; xdist would begin with the files that have most tests.
PYTEST := $(BIN)/pytest -q -n 2 --dist loadfile --no-loadscope-reorder
BESIDE := $(VENV)/beside.log
# By another name than MAKE, a line that also runs the tests is only shown by `make -n`.
SELF := $(MAKE)
TSC := $(VENV)/npm/node_modules/.bin/tsc

.PHONY: demo setup test lint style types page-types pages coverage slow docs clean help

help:
	@echo "make demo      set up, plan on a built-in problem, leave pictures in runs/demo"
	@echo "make test      set up, then lint, types, the direction of imports, documentation, doctests and tests"
	@echo "make coverage  the tests, with the share of lines that they run"
	@echo "make slow      the long tests, among them the wheel in an empty environment"
	@echo "make docs      set up, then build the documentation in docs/_build/html, tutorials run"
	@echo "make clean     remove everything that these commands made"

$(INSTALLED): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

$(TEST_INSTALLED): $(INSTALLED)
	$(BIN)/python -m pip install --quiet --editable '.[test]'
	@touch $@

$(DOCS_INSTALLED): $(INSTALLED)
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	@touch $@

demo: $(INSTALLED)
	$(BIN)/polinfer plan gridworld/multimodal --reward-scale 2 --out runs/demo --overwrite
	@echo "The robot starts in the framed cell and wants to reach the goal, G, without walking over gravel, R."
	@echo "Open runs/demo/policy.png: the longer a white beam, the more probable that direction; darker cells are visited more."

setup: $(TEST_INSTALLED)

lint: style types

style: $(TEST_INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(TEST_INSTALLED)
	$(BIN)/mypy
	@$(MAKE) --no-print-directory page-types

# The page's JSDoc types; TypeScript is no part of the package, so its absence is said and no error.
page-types:
	@if test -x $(TSC) || { command -v npm >/dev/null && npm install --silent --no-audit --no-fund --fetch-retries=0 \
		--fetch-timeout=20000 --prefix $(VENV)/npm typescript@5.9 >/dev/null 2>&1; }; \
	then $(TSC) -p jsconfig.json && echo "The types of the page are right."; \
	else echo "The types of the page are not checked: npm or its package typescript cannot be had here."; fi

# Without running the tutorials, which `make docs` does; the code blocks of the pages are tests.
pages: $(DOCS_INSTALLED)
	$(BIN)/sphinx-build -q -W --keep-going -D nb_execution_mode=off -b html docs docs/_build/checked

# Types and documentation are checked beside the tests, so that no core is idle; what they say comes after them.
test: $(TEST_INSTALLED) $(DOCS_INSTALLED)
	@$(MAKE) --no-print-directory style
	@$(SELF) --no-print-directory --keep-going types pages >$(BESIDE) 2>&1 & beside=$$!; \
	trap 'kill $$beside 2>/dev/null' INT TERM; \
	echo '$(PYTEST)'; $(PYTEST); tested=$$?; \
	wait $$beside; checked=$$?; cat $(BESIDE); \
	exit $$((tested || checked))

coverage: $(TEST_INSTALLED)
	$(PYTEST) --cov --cov-report=term

# These run longer than they compile.
slow: $(TEST_INSTALLED)
	JAX_DISABLE_MOST_OPTIMIZATIONS=false $(BIN)/pytest -q -m slow

docs: $(DOCS_INSTALLED)
	$(BIN)/sphinx-build -W --keep-going -b html docs docs/_build/html
	@echo "open docs/_build/html/index.html"

clean:
	rm -rf $(VENV) runs docs/_build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .coverage
