# `make help` lists the targets. `make demo` and `make test` each work alone on a fresh checkout.

VENV := .venv
PY := $(VENV)/bin/python
# A file's tests share what they compute, so a file stays on one worker; in the order of the folders, which begins with
# the longest files and ends with short ones, both workers end at about the same time.
PYTEST_ARGS ?= -n 2 --dist loadfile --no-loadscope-reorder
NOTEBOOK_ARGS ?=
NAMES ?=
BENCHMARKS := $(sort $(wildcard tests/benchmarks/bench_*.py))

# One BLAS thread per process: the matrices here are small, parallelism comes from processes, and two levels of
# threads on the same cores can slow a narrow matrix product down twentyfold. It also makes timings comparable.
test test-slow test-weekly bench measure demo gallery picture notebooks docs: export OMP_NUM_THREADS = 1
test test-slow test-weekly bench measure demo gallery picture notebooks docs: export OPENBLAS_NUM_THREADS = 1
test test-slow test-weekly bench measure demo gallery picture notebooks docs: export MKL_NUM_THREADS = 1

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test test-slow test-weekly everything lint format types gallery notebooks docs bench measure picture wheel constraints clean venv

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1|\2/p' $(firstword $(MAKEFILE_LIST)) | awk -F'|' '{printf "%-14s %s\n", $$1, $$2}'

demo: $(VENV)/.installed-runtime  ## a guided run of the program
	@$(VENV)/bin/rcb demo

test: $(VENV)/.installed-dev  ## the fast tests
	@$(PY) -m pytest $(PYTEST_ARGS)

test-slow: $(VENV)/.installed-dev  ## the statistical and compile-heavy tests
	@$(PY) -m pytest -m "slow and not weekly" $(PYTEST_ARGS)

test-weekly: $(VENV)/.installed-dev  ## the few tests that take many minutes each
	@$(PY) -m pytest -m weekly $(PYTEST_ARGS)

everything: $(VENV)/.installed-dev  ## lint, types, fast and slow tests, notebooks, gallery, docs, demo; then what failed
	@$(PY) tools/everything.py rcb_out/everything $(NAMES)

lint: $(VENV)/.installed-dev  ## style, format and layers, without changing anything
	@$(VENV)/bin/ruff check
	@$(VENV)/bin/ruff format --check
	@$(VENV)/bin/lint-imports --no-logo

format: $(VENV)/.installed-dev  ## rewrite the sources in the house format
	@$(VENV)/bin/ruff check --fix-only
	@$(VENV)/bin/ruff format

types: $(VENV)/.installed-dev  ## static types
	@$(VENV)/bin/pyright

gallery: $(VENV)/.installed-runtime  ## draw every figure, small, to rcb_out/gallery
	@$(PY) tools/gallery.py rcb_out/gallery

notebooks: $(VENV)/.installed-notebooks  ## execute the notebooks, small (NAMES="01 04" for some of them)
	@$(PY) tools/notebooks.py $(NOTEBOOK_ARGS) $(NAMES)

docs: $(VENV)/.installed-docs  ## build the documentation site, to rcb_out/site/index.html
	@$(PY) tools/site_pages.py rcb_out/site

bench: $(VENV)/.installed-dev  ## run the benchmark scripts, tests/benchmarks/bench_*.py
	@for script in $(BENCHMARKS); do echo "$$script"; $(PY) "$$script" || exit 1; done

measure: $(VENV)/.installed-dev  ## measure what docs/measured.md quotes, to docs/measured (DATA=warfarin.csv for the patients)
	@$(PY) tools/measure.py $(NAMES) $(if $(DATA),--data "$(DATA)")

picture: $(VENV)/.installed-runtime  ## draw the picture of README.md
	@$(PY) tools/picture.py

wheel: $(VENV)/.installed-dev  ## build dist/*.tar.gz, and dist/*.whl from it
	@rm -rf dist
	@PIP_QUIET=2 $(PY) -m build --quiet
	@ls dist/*.tar.gz dist/*.whl

# Resolved from scratch in a throwaway environment, so that leftovers of this one do not get pinned.
constraints:  ## refresh constraints.txt with the newest versions that resolve together
	@python=$$(tools/find_python) && build=$$(mktemp -d) && trap 'rm -rf "$$build"' EXIT && \
	"$$python" -m venv "$$build/venv" && \
	echo "resolving (a few minutes) ..." && \
	"$$build/venv/bin/python" -m pip install -q -q -e '.[dev,docs,notebooks]' 'hatchling' && \
	"$$build/venv/bin/python" -m pip install -q -q --no-deps lifelines && \
	{ sed -n '/^#/p' constraints.txt; \
	  "$$build/venv/bin/python" -m pip freeze --exclude-editable | grep -E '^[A-Za-z0-9._-]+==' | grep -v '^rcb.bayes=='; \
	} > "$$build/constraints.txt" && cp "$$build/constraints.txt" constraints.txt

clean:  ## remove build output and caches, keep .venv
	@rm -rf build dist *.egg-info .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	@find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +

venv: $(VENV)/.installed-dev  ## make .venv with everything needed to work on the package
	@echo "$$($(PY) --version) in $(VENV)"

# Each stamp stands for "installed since pyproject.toml and constraints.txt last changed". The demo needs the runtime
# only; an install with an extra includes the runtime, so it sets both stamps.
define install
	@echo "installing (about a minute) ..."
	@$(PY) -m pip install --disable-pip-version-check --progress-bar off -c constraints.txt -e '.$(1)' \
	    > $(VENV)/install.log 2>&1 || { tail -n 25 $(VENV)/install.log >&2; exit 1; }
	@touch $(VENV)/.installed-runtime $@
endef

$(VENV)/.installed-runtime: $(PY) pyproject.toml constraints.txt
	$(call install,)

$(VENV)/.installed-dev: $(PY) pyproject.toml constraints.txt
	$(call install,[dev])

$(VENV)/.installed-notebooks: $(PY) pyproject.toml constraints.txt
	$(call install,[notebooks])
	@$(PY) -m pip install --disable-pip-version-check --progress-bar off -c constraints.txt --no-deps lifelines \
	    >> $(VENV)/install.log 2>&1 || echo "lifelines is not at hand: notebook 11 needs --data, or its package"

$(VENV)/.installed-docs: $(PY) pyproject.toml constraints.txt
	$(call install,[docs])

$(PY):
	@python=$$(tools/find_python) && { "$$python" -m venv --clear $(VENV) || { rm -rf $(VENV); exit 1; }; }
