# make demo       train a small translator on the built-in phrasebook, score it, and translate
# make check      everything that a change must pass: lint and test
# make lint       format, lint, import rules, spelling, words, types
# make test       all tests except the slow ones
# make test-slow  the tests that take most of a minute each
# make coverage   the tests of `make test` with branch coverage; writes build/coverage/index.html
# make soak       fault injection at full size, an hour or more; RUN=FOLDER adds the tests that need a trained run
# make bench      benchmarks of Dragoman and other toolkits, hours; BENCH='--parts training --sizes tiny' for fewer
# make notebooks  the notebooks of the documentation, run at full size
# make docs       the documentation site in build/docs; warnings are errors
# make links      check the links of the documentation to other sites
# make wheel      dist/dragoman-*.whl
# make lock       update constraints.txt and requirements.lock; LOCK=--upgrade for the newest versions
# make release    check that a release can be made: version, changelog, tag, packages, the installed wheel

PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/installed

.PHONY: venv demo test coverage test-slow lint check bench soak notebooks docs links lock release wheel clean

venv: $(STAMP)

# torch comes first and alone: its index decides between the builds for CPUs and CUDA, and constraints.txt its version.
$(STAMP): pyproject.toml setup.py constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --no-deps -c constraints.txt torch $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX))
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev]'
	touch $@

demo: $(STAMP)
	$(BIN)/dragoman demo

# One process per core. All tests of a file run in the same process, so that fixtures which train a model are shared.
# The files with the slowest tests start first (`testpaths`), so that no process works alone at the end.
test: $(STAMP)
	$(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder --durations 25

coverage: $(STAMP)
	$(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder --cov --cov-report term --cov-report html

lint: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff format --check --line-length 88 docs/*/*.md
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/codespell
	$(BIN)/python tools/prose.py
	$(BIN)/mypy --num-workers auto

check: lint test

test-slow: $(STAMP)
	$(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder -m slow

# Toolkits whose dependencies conflict with ours get separate environments in .bench; see docs/explanation/benchmarks.md.
bench: $(STAMP)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[bench]'
	$(BIN)/python benchmarks/run.py $(BENCH)

# Prints the rows of the table in benchmarks/results/reliability.md. SOAK='--size 0.05 -k damage' runs less.
soak: test-slow
	$(BIN)/python -m pytest tests/soak $(if $(RUN),--run $(RUN)) $(SOAK)

notebooks: $(STAMP)
	$(BIN)/python tools/notebooks.py $(NOTEBOOKS)

docs: $(STAMP)
	$(BIN)/sphinx-build -c docs -W --keep-going --quiet . build/docs
	@echo "open build/docs/index.html"

links: $(STAMP)
	$(BIN)/sphinx-build -c docs -b linkcheck --quiet . build/links

lock: $(STAMP)
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/python tools/lock.py $(LOCK)

# It does not publish. Pushing a tag does: .github/workflows/release.yml.
release: $(STAMP)
	$(BIN)/python tools/release.py

wheel: $(STAMP)
	$(BIN)/python -m build --wheel

clean:
	rm -rf .venv build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
