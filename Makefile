# make run    train a ResNet in 8-bit integers on the embedded digits, show what it did, write a golden pack of
#             one of its layers and check it
# make check  lint, types and the quick tests: a minute on two cores where kernels are compiled
# make test   every test but the longest, in this checkout's own virtual environment; DIGESTS=yes: these too
# make coverage      the quick tests, and how many lines of Python they run; make test COVERAGE=yes says it too
# make spec-digests   the longest: runs by the definition alone, which end in the digests of the fast code;
#                     and a proof
# make lint   ruff and mypy        make bench   timings as JSON and a table        make clean
# make docs   docs/ as HTML in docs/_build/html, every link checked
# make outside   a researcher's day (examples/) from the built wheel, in a fresh environment and an empty folder
# make notebooks   execute examples/*.ipynb again and write what they print into them
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# To compile what is installed to bytecode takes half of an installation; most of it is never imported.
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile
RUN    := runs/make-run
PACK   := runs/make-run-pack
# Collecting the tests takes 7 s with their bytecode kept and 20 without it, wherever the shell says not to keep it.
export PYTHONDONTWRITEBYTECODE :=
PYTEST := $(BIN)/python -m pytest --dist worksteal
QUICK  := $(PYTEST) -n 2 -m "not slow and not digests"
define MEASURED
$(QUICK) --cov --cov-report=
@echo "The quick tests run $$($(BIN)/coverage report --format=total) % of the lines: kernels, the definition and their own tests left out."
endef

.PHONY: run check test coverage spec-digests lint docs bench notebooks outside clean
run: $(VENV)/.core
	rm -rf $(RUN) $(PACK)
	$(BIN)/intnet train --method wageubn --model resnet8 --data digits --epochs 8 --set lr=26,6@6 --out $(RUN)
	$(BIN)/intnet golden $(RUN) --layer layer1.0.conv1 --out $(PACK)
	$(BIN)/intnet check $(PACK)

# Slow tests are three at a time on two cores: they wait for processes, signals and files.
test: $(VENV)/.test
	$(BIN)/python -m tests.support.warm
	$(if $(COVERAGE),$(MEASURED),$(QUICK))
	$(PYTEST) -n 3 -m "$(if $(DIGESTS),digests or slow and not brief,slow and not digests)"

check: lint
	$(QUICK)

coverage: $(VENV)/.test
	$(MEASURED)

spec-digests: $(VENV)/.test
	$(PYTEST) -n 2 -m digests

lint: $(VENV)/.test
	$(BIN)/ruff check intnet tests bench examples docs
	$(BIN)/ruff format --check --quiet intnet tests bench examples/*.py docs/*.py
	$(BIN)/mypy

docs: $(VENV)/.docs
	$(BIN)/python docs/build.py

bench: $(VENV)/.bench
	$(BIN)/python -m bench

notebooks: $(VENV)/.test
	$(BIN)/python -m examples.execute

outside:
	here=$$(mktemp -d) && trap 'rm -rf "$$here"' EXIT && $(PYTHON) -m venv "$$here/venv" && \
	"$$here/venv/bin/pip" wheel -q --no-deps -w "$$here" . && \
	"$$here/venv/bin/pip" install -q "$$(ls "$$here"/intnet-*.whl)[plot]" nbclient ipykernel && \
	mkdir "$$here/day" && cp examples/a_researchers_day.ipynb "$$here/day" && cd "$$here/day" && \
	env -u PYTHONPATH "$$here/venv/bin/jupyter" execute a_researchers_day.ipynb

clean:
	rm -rf $(VENV) build docs/_build docs/notebooks runs *.egg-info

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.core: pyproject.toml $(VENV)/bin/python
	$(INSTALL) -e .
	touch $@

$(VENV)/.test: pyproject.toml $(VENV)/bin/python
	$(INSTALL) -e '.[test]'
	touch $@ $(VENV)/.core

$(VENV)/.docs: pyproject.toml $(VENV)/bin/python
	$(INSTALL) -e '.[test,docs]'
	touch $@ $(VENV)/.test $(VENV)/.core

$(VENV)/.bench: pyproject.toml $(VENV)/bin/python
	$(INSTALL) -e '.[bench]'
	touch $@ $(VENV)/.core
