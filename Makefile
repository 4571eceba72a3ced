# On a fresh machine, `make audit` installs and ends with a report; `make test` runs the tests.
#
# `make audit` installs what running needs. Other targets add an extra of pyproject.toml to it:
# $(VENV)/.installed-NAME stands for the extra NAME, and a target that needs it depends on that file.
# pip compiles one file after the other; compileall uses all cores, and leaves out what nobody imports.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DEV := $(VENV)/.installed-dev
INSTALL := $(BIN)/python -m pip install -q --no-compile
# some files are templates, or for other versions of Python: pip ignores those too
COMPILE := $(BIN)/python -m compileall -qq -j 0 -x 'site-packages/.*/tests/' $(VENV)/lib || true
ADAPTERS := .venv-adapters
# Tests start many processes, which share compiled bytecode.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: install install-dev audit schemas test test-all test-adapters test-floors lint bench calibrate map panel results zoo wheel docs clean

install: $(STAMP)

install-dev: $(DEV)

audit: $(STAMP)
	$(BIN)/audit

# Processes with one BLAS thread each, one more than cores. Long test files run first
# (tests/conftest.py).
PYTEST := -q -n auto --dist loadfile --no-loadscope-reorder
# Brackets and certified numbers are also tested without AVX-512, where the machine has it; but
# for laws of many thousands of steps, which take longest, and twins on grids, which err by more.
CERTIFIED := -m "not slow" tests/curves tests/numerics tests/exact tests/claims/test_near_one.py \
  --ignore=tests/exact/test_reference.py

# Without tests that are marked slow, which stand beside faster ones of their kind.
test: $(DEV)
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest $(PYTEST) -m "not slow"

test-all: $(DEV)
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest $(PYTEST)
	OPENBLAS_NUM_THREADS=1 $(BIN)/python tests/avx2.py -m pytest $(PYTEST) $(CERTIFIED)

lint: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python tests/docstrings.py
	$(BIN)/codespell
	$(BIN)/pymarkdownlnt scan -r --exclude 'docs/_site/**' --exclude 'docs/reference/generated/**' *.md docs
	$(BIN)/yamllint --strict .github scenarios CITATION.cff .pre-commit-config.yaml .yamllint
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/check-jsonschema --schemafile docs/schemas/claims.schema.json scenarios/claims/*.claims.yaml
	$(BIN)/check-jsonschema --schemafile docs/schemas/scenario.schema.json scenarios/*.yaml scenarios/papers/*.yaml
	$(BIN)/zizmor --offline --quiet .github

bench: $(DEV)
	$(BIN)/python results/benchmarks/make.py
	$(BIN)/python tests/avx2.py results/benchmarks/make.py

# Repeats every estimator where the true value is known; an interrupted run resumes.
calibrate: $(DEV)
	$(BIN)/python results/calibration/make.py
	$(BIN)/python results/planner/make.py
	$(BIN)/python results/rare_events/make.py
	$(BIN)/python results/family/make.py

# The tightness map: some 700 searches; an interrupted run resumes.
map: $(STAMP)
	OPENBLAS_NUM_THREADS=1 $(BIN)/python results/map/make.py

# The catalogue and the community's statements on the standard panel of mechanisms.
panel: $(STAMP)
	OPENBLAS_NUM_THREADS=1 $(BIN)/python results/panel/make.py

# Every scenario with its report, and the tables of the claims; an interrupted run resumes.
results: $(DEV)
	OPENBLAS_NUM_THREADS=1 $(BIN)/python results/scenarios/make.py
	OPENBLAS_NUM_THREADS=1 $(BIN)/python results/catalogue/make.py
	OPENBLAS_NUM_THREADS=1 $(BIN)/python results/claims/make.py

# Released libraries with known privacy bugs, each release in an environment of its own; an
# interrupted run resumes. `make zoo CASE=name` runs one case.
zoo: $(STAMP)
	OPENBLAS_NUM_THREADS=1 $(BIN)/python results/zoo/make.py $(CASE)

# The documentation site in docs/_site; a warning, such as a broken link, is an error.
docs: $(VENV)/.installed-docs
	rm -rf docs/_site docs/*/generated
	$(BIN)/python -m sphinx -q -W --keep-going docs docs/_site

# JSON Schemas of claims files, scenarios and stored results.
schemas: $(STAMP)
	$(BIN)/audit-check schema > docs/schemas/claims.schema.json
	$(BIN)/audit --schema > docs/schemas/scenario.schema.json
	$(BIN)/python -m audit.results.json_codec

# The tests with the declared lower versions, in a separate environment.
test-floors:
	$(MAKE) test VENV=.venv-floors PIP_FLAGS="--constraint tests/floors.txt"

# Tests of the adapters and training scripts with the packages themselves: Opacus with PyTorch,
# jax-privacy with JAX. PIP_FLAGS may name the index of the smaller PyTorch for CPUs.
test-adapters: $(ADAPTERS)/.installed
	AUDIT_TEST_ADAPTERS=1 OPENBLAS_NUM_THREADS=1 $(ADAPTERS)/bin/python -m pytest tests/adapters

$(ADAPTERS)/.installed: pyproject.toml tests/adapters/versions.txt
	$(PYTHON) -m venv $(ADAPTERS)
	$(ADAPTERS)/bin/python -m pip install -q --upgrade pip
	$(ADAPTERS)/bin/python -m pip install -q $(PIP_FLAGS) \
		--constraint tests/adapters/versions.txt -e ".[adapters]"
	@touch $@

# Builds and checks distributions in dist/, and runs the wheel in a bare environment.
wheel:
	PYTHON=$(PYTHON) .ci/wheel

clean:
	rm -rf $(VENV) $(ADAPTERS) .venv-floors .venv-zoo build dist

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; ok = (3, 11) <= sys.version_info[:2] < (3, 14); sys.exit(0 if ok else "Python 3.11, 3.12 or 3.13 is needed; name one: make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) --upgrade pip
	$(INSTALL) $(PIP_FLAGS) -e .
	@$(COMPILE)
	@touch $@

$(VENV)/.installed-%: $(STAMP)
	$(INSTALL) $(PIP_FLAGS) -e ".[$*]"
	@$(COMPILE)
	@touch $@
