# Each target sets up what it needs; nothing but Python >= 3.11 with venv has to be there.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Such as: make test PYTEST_OPTIONS="-rs --durations=20"
PYTEST_OPTIONS ?=
# The Pythons that `make wheels` downloads for.
PYTHONS ?= 3.11,3.12,3.13,3.14
# Of `make gpu`.
BUDGET ?= 540
WHEELS ?= wheels
OUT ?=
STAGES ?=
# Of `make check`; the longest begins first.
CHECKS := check-types check-format check-lint check-layers check-workflows

.PHONY: demo test test-frameworks test-nightly gpu gpu-rehearsal gpu-bed gpu-bounds wheels check format docs clean $(CHECKS)

# Trains on data that comes with Tarmac, so it needs no download of its own.
demo: $(VENV)/.installed
	$(BIN)/tarmac train digits-mlp --verify

test: $(VENV)/.installed-dev
	$(BIN)/pytest -m "not frameworks and not nightly and not cuda_stand_in" $(PYTEST_OPTIONS)

# Builds environments of TensorFlow, JAX, Keras, MXNet, Chainer and Horovod in the user's cache: minutes
# the first time, and a compiler, seconds later. HKube's clients in all that they can be told to speak,
# and clusters of Ray, each of which takes a quarter of a minute to start.
test-frameworks: $(VENV)/.installed-dev
	$(BIN)/pytest -m "frameworks and not nightly" -n 1 $(PYTEST_OPTIONS)

# What CI leaves out for time: the examples on the whole of MNIST, and trainings with the oldest PyTorch
# that is allowed, on the CPU.
test-nightly: $(VENV)/.installed-dev
	$(BIN)/pytest -m nightly -n 1 $(PYTEST_OPTIONS)
	$(BIN)/python tests/cuda_stand_in/bed.py run --torch 2.11 --gpus 0 $(BIN)/pytest \
	  -m "not frameworks and not nightly and not cuda_stand_in" $(PYTEST_OPTIONS) \
	  tests/training tests/workloads tests/studies

# Trainings on pretended GPUs: PyTorch for CUDA, which it puts into the user's cache, over a stand-in for
# CUDA's libraries. Shows what is raised, launched and left behind, and no numbers. Minutes at first.
gpu-rehearsal: gpu-bed
	$(BIN)/pytest -m "cuda_stand_in and not nightly" -n 1 $(PYTEST_OPTIONS)

# What those need, 1.8 GB for each PyTorch.
gpu-bed: $(VENV)/.installed-dev
	for torch in 2.11 2.13; do $(BIN)/python tests/cuda_stand_in/bed.py build --torch $$torch || exit; done

# Measures again what `make gpu-rehearsal` holds a change to; the diff shows what became of it.
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
