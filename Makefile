# make demo   a translator trained, scored and used in one go
# make test   the tests, except for the slow ones
# make check  everything a change must pass: format, lint, import rules, types, tests
# make coverage  the same tests with branch coverage, as build/coverage/index.html
# make bench  Dragoman and its peers side by side: hours; BENCH='--parts training --sizes tiny' for less
# make test-slow  the tests that take most of a minute each
# make soak   fault injection at full size: an hour or more; RUN=a trained run for the tests that need one
# make guide  the annotated guide as pages, build/guide/index.html: every cell runs
# make wheel  dist/dragoman-*.whl
# make lock   constraints.txt and requirements.lock, written again from pyproject.toml
# make release  checks that this tree can be released: version, changelog, tag, packages, the installed wheel

PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/installed

.PHONY: venv demo test coverage test-slow lint check bench soak guide lock release wheel clean

venv: $(STAMP)

# torch first and alone: where it comes from (CPU or CUDA build) is the index's business, its version is ours.
$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet -c constraints.txt torch
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev]'
	touch $@

demo: $(STAMP)
	$(BIN)/dragoman demo

# As many processes as cores, a file in one of them: fixtures that train a model are made once or twice, not for each test.
# Files come in the order of pytest's testpaths, the longest first, so that no process works alone at the end.
test: $(STAMP)
	$(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder --durations 25

# Branch coverage of the package by every test that is not slow.
coverage: $(STAMP)
	$(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder --cov --cov-report term --cov-report html

lint: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/codespell
	$(BIN)/python tools/prose.py
	$(BIN)/mypy

check: lint test

test-slow: $(STAMP)
	$(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder -m slow

# Toolkits that cannot live beside Dragoman get environments of their own below .bench; see docs/explanation/benchmarks.md.
bench: $(STAMP)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[bench]'
	$(BIN)/python benchmarks/run.py $(BENCH)

# Prints rows of a table; benchmarks/results/reliability.md keeps them. SOAK='--size 0.05 -k damage' for less.
soak: test-slow
	$(BIN)/python -m pytest tests/soak $(if $(RUN),--run $(RUN)) $(SOAK)

guide: $(STAMP)
	$(BIN)/python docs/guide/build.py --out build/guide

# LOCK=--upgrade takes the newest versions.
lock: $(STAMP)
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/python tools/lock.py $(LOCK)

# Publishes nothing: a pushed tag does (.github/workflows/release.yml).
release: $(STAMP)
	$(BIN)/python tools/release.py

wheel: $(STAMP)
	$(BIN)/python -m build --wheel

clean:
	rm -rf .venv build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
