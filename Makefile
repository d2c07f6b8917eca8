# Each target sets up what it needs; nothing but Python >= 3.11 with venv has to be there.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Such as: make test PYTEST_OPTIONS="--durations=20"
PYTEST_OPTIONS ?=
# The Pythons that `make wheels` downloads for.
PYTHONS ?= 3.11,3.12,3.13,3.14
# Of `make gpu-bed`.
TORCHES ?= 2.11 2.13
# Of `make gpu`.
BUDGET ?= 540
WHEELS ?= wheels
OUT ?=
STAGES ?=
# Tests that `make test` leaves out: markers in pyproject.toml, each of which is a target, test-GROUP.
GROUPS := slurm ray kubernetes frameworks hkube containers docs cuda_stand_in crash fuzz nightly
LEFT_OUT := $(subst $() $(), or ,$(GROUPS))
# Of `make test-all`.
ALL := test $(GROUPS:%=test-%) test-oldest-torch test-lowest
# Many tests wait, for Slurm, a limit or a second process: two workers more than cores keep these busy.
WORKERS = $(shell expr $$(nproc) + 2)
# Some tests need uv, which is beside the other tools. Where no process kept what it has compiled, each worker
# would compile all tests again, some 10 s.
PYTEST = PATH="$(CURDIR)/$(BIN):$$PATH" PYTHONDONTWRITEBYTECODE= $(BIN)/pytest -n $(WORKERS)
# Of `make test-changed`; by itself where the branch left main.
BASE ?=
# Of `make check`; the longest begins first.
CHECKS := check-types check-format check-lint check-layers check-workflows check-words

.PHONY: demo $(ALL) test-all test-changed left-out try-gpu-bed gpu gpu-bed gpu-bounds wheels check $(CHECKS) format docs clean

# Trains on data that comes with Tarmac, so it needs no download of its own.
demo: $(VENV)/.installed
	$(BIN)/tarmac train digits-mlp --verify

# In random order; `make test PYTEST_OPTIONS="--randomly-seed=7"` repeats one.
test: $(VENV)/.installed-dev
	$(PYTEST) -m "not ($(LEFT_OUT))" $(PYTEST_OPTIONS)

# Those of a group alone: make test-slurm. What is marked as nightly too is in that group.
$(GROUPS:%=test-%): test-%: $(VENV)/.installed-dev
	$(PYTEST) -m "$*$(if $(filter-out nightly,$*), and not nightly)" $(PYTEST_OPTIONS)

# Not every index has PyTorch for CUDA. Where this one has not, the tests skip.
test-cuda_stand_in: try-gpu-bed
try-gpu-bed:
	-$(MAKE) gpu-bed
test-ray test-frameworks test-nightly test-cuda_stand_in: WORKERS := 1

# What .ci/test-with leaves out too.
left-out:
	@echo "$(LEFT_OUT)"

# The tests of `make test` with the lowest versions that pyproject.toml allows, without extras.
test-lowest: $(VENV)/.installed-dev
	.ci/test-with $(BIN)/python lowest-direct -- -n $(WORKERS) $(PYTEST_OPTIONS)

# The trainings among them, with the oldest PyTorch that is allowed.
test-oldest-torch: $(VENV)/.installed-dev
	$(BIN)/python tests/cuda_stand_in/bed.py run --torch 2.11 --gpus 0 env $(PYTEST) \
	  -m "not ($(LEFT_OUT))" $(PYTEST_OPTIONS) tests/training tests/workloads tests/studies

# Everything, one after another, also where one fails; the end says how long each took.
test-all: $(VENV)/.installed-dev
	$(BIN)/python .ci/steps $(ALL:%="make %")

# Those that what differs from BASE needs, by the import graph; names the groups to run beside.
test-changed: $(VENV)/.installed-dev
	$(BIN)/python .ci/changed $(BASE) | xargs --no-run-if-empty --delimiter='\n' \
	  $(PYTEST) -m "not ($(LEFT_OUT))" $(PYTEST_OPTIONS)

# What test-cuda_stand_in needs: PyTorch for CUDA in the user's cache, 1.8 GB each.
gpu-bed: $(VENV)/.installed-dev
	for torch in $(TORCHES); do $(BIN)/python tests/cuda_stand_in/bed.py build --torch $$torch || exit; done

# Measures again what `make test-cuda_stand_in` holds a change to; the diff shows what became of it.
gpu-bounds: $(VENV)/.installed-dev
	$(BIN)/python tests/cuda_stand_in/bounds.py

# All of them, two at once, also where one fails.
check: $(VENV)/.installed-dev
	@$(MAKE) --no-print-directory -j2 --output-sync=target --keep-going $(CHECKS)

check-types:
	$(BIN)/mypy
check-format:
	$(BIN)/ruff format --check .
check-lint:
	$(BIN)/ruff check .
check-layers:
	$(BIN)/lint-imports
check-words:
	.ci/words
check-workflows:
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.github-issue-forms .github/ISSUE_TEMPLATE/*.yml
	$(BIN)/zizmor --offline --quiet .github

format: $(VENV)/.installed-dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# Where there is a network: what a machine without one needs beside its PyTorch, into wheels/.
wheels: $(VENV)/.installed-dev
	$(BIN)/python bench/wheels.py --python $(PYTHONS)

# On a machine with a GPU and a PyTorch: tests, evidence and figures, in stages until BUDGET (seconds)
# ends; again goes on. OUT gets what has to leave the machine. PYTHON must be the one with PyTorch.
gpu:
	$(PYTHON) bench/gpu.py --budget $(BUDGET) --wheels $(WHEELS) $(if $(OUT),--out $(OUT)) \
	  $(if $(STAGES),--stages $(STAGES))

# The site, into docs/_build/html; open its index.html. A dead link or anchor is an error.
docs: $(VENV)/.installed-dev
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going -c docs . docs/_build/html

clean:
	rm -rf $(VENV) docs/_build

$(VENV)/.installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Tarmac needs Python >= 3.11, $(PYTHON) is $$($(PYTHON) --version)."; \
	    echo "Name another: make PYTHON=python3.12"; exit 2; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || \
	  { echo "$(PYTHON) has no venv. On Debian or Ubuntu: apt install python3-venv"; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python .ci/uv pip install -c constraints.txt -e '.[train]'
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(BIN)/python .ci/uv pip install -c constraints.txt -e '.[dev]'
	@touch $@
