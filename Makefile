# One line each: `make mnist` trains a network, `make test` passes every test, `make docs` builds
# the pages in build/site.
# Both make a virtual environment first, in $(VENV), and install what they need into it.

PYTHON ?= python3
VENV ?= .venv
PIP = $(VENV)/bin/python -m pip --disable-pip-version-check --quiet

.PHONY: mnist tour test test-lowest rows style size fuzz replay lint docs bench bench-kernels
.PHONY: bench-sweep bench-leaks bench-devices soak gpu webgpu wheel clean

mnist: $(VENV)/.base
	@$(VENV)/bin/python examples/mnist.py $(ARGS)

tour: $(VENV)/.base
	@$(VENV)/bin/python examples/tour.py

# A worker more than two cores: some tests wait for processes that they have started.
test: $(VENV)/.dev
	@$(VENV)/bin/python -m pytest -n 3 --dist worksteal $(ARGS)

test-lowest:  # with the lowest versions that pyproject.toml allows, in an environment of its own
	@PIP_CONSTRAINT=tests/lowest.txt $(MAKE) --no-print-directory VENV=$(VENV)-lowest test

rows: $(VENV)/.dev
	@$(VENV)/bin/python -m pytest tests/test_rows.py -rN --no-proofs

style: $(VENV)/.dev
	@$(VENV)/bin/python -m tests.style $(ARGS)

size: $(VENV)/.dev
	@$(VENV)/bin/python -m tests.size $(ARGS)

fuzz: $(VENV)/.dev
	@$(VENV)/bin/python -m tests.fuzz $(ARGS)

replay: $(VENV)/.dev
	@$(VENV)/bin/python -m tests.replay $(ARGS)

lint: $(VENV)/.dev
	@$(VENV)/bin/ruff check
	@$(VENV)/bin/ruff format --check
	@$(VENV)/bin/mypy

docs: $(VENV)/.docs
	@NO_MKDOCS_2_WARNING=1 $(VENV)/bin/python -m mkdocs --quiet build

bench: $(VENV)/.base
	@$(VENV)/bin/python benchmarks/run.py $(ARGS)

bench-sweep: $(VENV)/.base
	@$(VENV)/bin/python benchmarks/sweep.py $(ARGS)

bench-kernels: $(VENV)/.base
	@$(VENV)/bin/python benchmarks/kernels.py $(ARGS)

bench-devices: $(VENV)/.base
	@$(VENV)/bin/python benchmarks/devices.py $(ARGS)

bench-leaks: $(VENV)/.base
	@$(VENV)/bin/python benchmarks/leaks.py $(ARGS)

soak: $(VENV)/.base
	@$(VENV)/bin/python benchmarks/soak.py $(ARGS)

$(VENV)/.base: pyproject.toml
	@$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), "tfn needs Python 3.11 or later"'
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) install --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.base
	@$(PIP) install --editable '.[dev]'
	@$(PIP) install --no-deps optax absl-py  # without JAX, for which tfn stands in
	@touch $@

$(VENV)/.docs: $(VENV)/.base
	@$(PIP) install --editable '.[docs]'
	@touch $@

gpu: $(VENV)/.dev  # all that a GPU can show; without one, what a simulated driver can
	@$(VENV)/bin/python -m tests.hw.cuda $(ARGS)

webgpu: $(VENV)/.dev  # all that a WebGPU adapter can show, and build/webgpu/report.txt to send
	@$(VENV)/bin/python -m tests.hw.webgpu $(ARGS)

wheel: $(VENV)/.base  # build/wheel/*.whl of the last commit: the same bytes from any folder and umask
	@folder=$$(mktemp -d) && umask 022 && git archive HEAD | tar -x -C $$folder && \
		SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(PIP) wheel --no-deps \
		--wheel-dir build/wheel $$folder; status=$$?; rm -rf $$folder; exit $$status

clean:
	rm -rf $(VENV) build *.egg-info
