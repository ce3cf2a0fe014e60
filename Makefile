# Two commands do everything: `make demo` and `make test`. `make check-fast` is for while you work.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Python compiles what is imported; pip would compile 30,000 files, most of which nobody imports.
PIP := $(BIN)/python -m pip install --no-compile --quiet --disable-pip-version-check --constraint constraints.txt
# A file's tests run in one process, which shares what its fixtures make. The folders are in the order of the
# alphabet: slow tests first, unit tests last, so that no process waits long for another in the end.
PYTEST := $(BIN)/pytest -n auto --dist loadfile --no-loadscope-reorder --max-worker-restart 0

LOWEST_PYTHON ?= python3.10
LOWEST_EXTRAS := benchmarks completion dashboard hub lm-eval lora metrics mlflow notify plan postgres quantization \
  ray rent report serving storage testing wandb
TEST_TOOLS := markdown-it-py polars pytest pytest-timeout pytest-xdist
comma := ,
empty :=

.PHONY: demo test check check-fast lint compile-tests soak coverage docs format constraints lowest system

demo: $(VENV)/demo.stamp
	$(BIN)/benchfleet run examples/recall/campaign.yaml
	@echo 'Open this file in a browser:'
	@$(BIN)/benchfleet report examples/recall/campaign.yaml --format html

test: check

# Where CI=true, what tests need of the system: a browser that looks at a report, curl, an sshd, rsync
# and ip for hosts to reach, systemd to check a unit, a PostgreSQL server, a pooler before it, WordNet, bubblewrap and
# Slurm;
# elsewhere tests that lack one are skipped by name.
ifeq ($(CI),true)
system: export PATH := $(PATH):/usr/sbin:/sbin
system:
	(which chromium nginx curl sshd ssh rsync ip systemd-analyze pgbouncer bwrap slurmctld slurmd munged sbatch srun && ls /usr/lib/postgresql/*/bin/initdb /usr/share/wordnet) > /dev/null || \
	  (apt-get -qq update && apt-get -qq install --yes --no-install-recommends \
	    chromium nginx curl openssh-server openssh-client rsync iproute2 systemd postgresql pgbouncer wordnet-base bubblewrap \
	    slurm-wlm munge)
else
system:
endif

# What CI runs. The last line is the test runner's.
check:
	$(MAKE) --no-print-directory --jobs=3 lint compile-tests system
	$(PYTEST)

# pytest compiles the tests once here, rather than in each of its processes at once.
compile-tests: $(VENV)/dev.stamp
	-$(BIN)/pytest --collect-only --quiet > /dev/null

lint: $(VENV)/dev.stamp
	$(BIN)/ruff format --check src tests examples perf tools
	$(BIN)/ruff check src tests examples perf tools
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/check_words.py

# Format, lint, types, import layers, quick unit tests, and the contracts of the ledgers that need no server.
# Processes as many as cores, since these tests hardly wait and each process imports torch and much else.
CONTRACTS := tests/contract/test_ledger_contract.py
check-fast: lint
	$(PYTEST) -n logical -m "not slow" -q tests/unit $(CONTRACTS)::TestMemoryLedger $(CONTRACTS)::TestSqliteLedger

# Hours of what `make test` does for a minute: chaos over a real campaign, simulated fleets of ever new
# seeds, twenty times as many random orders of a ledger's calls, the tests of a server that fails over,
# of a pooler, of git remotes that fail and of Ray, and those of kvpress, llama.cpp and vLLM in
# environments of their own, until MINUTES are over.
MINUTES ?= 60
soak: $(VENV)/dev.stamp system
	$(BIN)/python tests/soak.py --minutes $(MINUTES)

# Which lines and branches the tests reach, in every process that they start. A target of its own,
# since it proves nothing more and takes twice as long.
coverage: $(VENV)/dev.stamp system
	$(PYTEST) --cov --cov-report=term:skip-covered

# The docs site, in site/: strict, so that a broken link or an unlisted page fails.
docs: $(VENV)/dev.stamp
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

format: $(VENV)/dev.stamp
	$(BIN)/ruff format src tests examples perf tools
	$(BIN)/ruff check --fix src tests examples perf tools

# Pinned versions for every Python we support, and the lowest that pyproject.toml allows on Python 3.10. They
# hold no address, and leave torch's own pins to torch.
constraints: $(VENV)/dev.stamp
	$(PIP) uv
	$(BIN)/uv pip compile --quiet --universal --python-version 3.10 --upgrade --extra dev \
	  --no-header --no-annotate --no-emit-package benchfleet --constraint constraints.in pyproject.toml \
	  | grep -Ev '^(nvidia-[^m]|cuda|triton)' > constraints.txt
	for tool in $(TEST_TOOLS); do grep "^$$tool==" constraints.txt; done > $(VENV)/test_tools.in
	$(BIN)/uv pip compile --quiet --python-version 3.10 --resolution lowest-direct --no-header --no-annotate \
	  --no-emit-package benchfleet $(addprefix --extra ,$(LOWEST_EXTRAS)) pyproject.toml $(VENV)/test_tools.in \
	  | grep -Ev '^(nvidia-[^m]|cuda|triton)' > constraints-lowest.txt

# The unit tests with the lowest versions that pyproject.toml allows, in an environment of their own (6 GB:
# torch 2.6 comes with CUDA). Without the extras docs, inspect (needs a newer Python), llama-cpp (builds
# llama.cpp) and vllm (several GB).
lowest:
	test -x .venv-lowest/bin/python || $(LOWEST_PYTHON) -m venv .venv-lowest
	.venv-lowest/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints-lowest.txt \
	  --editable '.[$(subst $(empty) ,$(comma),$(LOWEST_EXTRAS))]' $(TEST_TOOLS)
	.venv-lowest/bin/pytest -n auto -W default tests/unit

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

# torch goes first and alone: asked for among others, pip may take a build of several gigabytes.
$(VENV)/torch.stamp: constraints.txt | $(VENV)/bin/python
	$(PIP) torch
	touch $@

$(VENV)/demo.stamp: pyproject.toml $(VENV)/torch.stamp
	$(PIP) --editable '.[lm-eval,report]'
	touch $@

$(VENV)/dev.stamp: pyproject.toml $(VENV)/torch.stamp
	$(PIP) --editable '.[dev]'
	touch $@
